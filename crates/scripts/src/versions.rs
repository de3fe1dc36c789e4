//! Versions of scripts with their code and source, read from storage.

use std::sync::Arc;

use bytes::Bytes;
use segno_engine::{
    Run,
    script::{Version, hex},
    script_move,
};
use segno_flow::{
    Code, MigrateError, ScriptVersion,
    interface::{Limits, TurnResult},
};
use segno_runs::{error::CallError, namespaces::Namespace};

use super::{
    error::{ScriptError, damaged},
    host::Scripts,
};

/// A version of a script: its code, and the source of which it was made.
#[derive(Clone)]
pub(super) struct LoadedVersion {
    pub version: Version,
    pub code: Arc<Code>,
    pub source: Bytes,
}

impl LoadedVersion {
    fn script(&self) -> ScriptVersion<'_> {
        ScriptVersion { code: &self.code, source: &self.source }
    }

    /// Moves a state of this version to another one.
    pub(crate) fn translate(
        &self,
        to: &Self,
        state: &[u8],
        types: &[(String, String)],
    ) -> Result<TurnResult, MigrateError> {
        segno_flow::migrate(self.script(), to.script(), state, types, &Limits::default())
    }
}

/// The versions of a run.
pub(super) struct RunVersions {
    /// The one it began with.
    pub first: LoadedVersion,
    /// Those it moved to, with the events of the moves.
    pub later: Vec<(i64, LoadedVersion)>,
}

impl RunVersions {
    /// The last one.
    pub fn last(&self) -> &LoadedVersion {
        self.later.last().map_or(&self.first, |(_, version)| version)
    }
}

impl Scripts {
    /// A version with its source. One that a run had in its past may have been deleted.
    pub(super) async fn loaded_version(
        &self,
        namespace: &Namespace,
        name: &str,
        version: Version,
    ) -> Result<LoadedVersion, CallError> {
        let digits = hex(&version);
        let code = self.code(namespace.key, name, version);
        let (source, ..) = self.source(namespace, name, &digits).await.map_err(|error| match error {
            ScriptError::Call(error) => error,
            other => CallError::NotReady(other.to_string()),
        })?;
        Ok(LoadedVersion { version, code: code.await?, source: source.into() })
    }

    /// The versions that a run had before an event.
    pub(super) async fn run_versions(
        &self,
        namespace: &Namespace,
        run: &Run,
        until: i64,
    ) -> Result<RunVersions, CallError> {
        let moves = run.state().script.as_ref().map(|script| script.moves.as_slice()).unwrap_or_default();
        let unreadable = || damaged(run, "its version is not readable");
        let mut version = script_move::version_at(run, 0).ok_or_else(unreadable)?;
        let name = &run.info.workflow_type;
        let first = self.loaded_version(namespace, name, version).await?;
        let mut later = Vec::new();
        for known in moves.iter().filter(|known| known.event_id < until) {
            version = script_move::version_at(run, known.event_id).ok_or_else(unreadable)?;
            later.push((known.event_id, self.loaded_version(namespace, name, version).await?));
        }
        Ok(RunVersions { first, later })
    }
}
