//! [`ScriptHost`] keeps deployed scripts, code, threads and waiting turns; [`Scripts`] is the host with the runs.

use std::sync::Arc;

use segno_environment::Environment;
use segno_runs::runs::Runs;

use super::{
    code_cache::CodeCache, held_back::HeldBackTurns, inline_time::InlineTime, log::LogAllowances, registry::Registry,
    resumes::Resumes, threads::ScriptThreads,
};

/// Executes scripts. It holds no runs: the runs hold it, as their port [`ScriptTurns`](segno_runs::ports::ScriptTurns).
pub struct ScriptHost {
    /// Deployed scripts by their names.
    pub(super) registry: Registry,
    pub(super) code_cache: CodeCache,
    pub(super) threads: ScriptThreads,
    /// Turns that wait for an executor.
    pub(super) resumes: Resumes,
    pub(super) held_back: HeldBackTurns,
    /// The time of the threads that serve calls, as namespaces used it.
    pub(super) inline_time: InlineTime,
    /// The bytes that runs may still write to the log.
    pub(super) log: LogAllowances,
}

impl ScriptHost {
    /// A host without scripts.
    pub fn new(environment: &Environment) -> Self {
        Self {
            registry: Registry::default(),
            code_cache: CodeCache::default(),
            threads: ScriptThreads::new(environment.threads.clone(), environment.cores),
            resumes: Resumes::default(),
            held_back: HeldBackTurns::default(),
            inline_time: InlineTime::default(),
            log: LogAllowances::default(),
        }
    }
}

/// The scripts of a node: the host with the runs that it executes. A clone is the same.
#[derive(Clone)]
pub struct Scripts {
    pub(super) host: Arc<ScriptHost>,
    pub(super) runs: Arc<Runs>,
}

impl Scripts {
    /// The scripts of these runs, whose port is that host.
    pub fn new(host: Arc<ScriptHost>, runs: &Arc<Runs>) -> Self {
        Self { host, runs: runs.clone() }
    }
}
