//! Logs on standard error: for people by default, as JSON for machines. They carry ids, never users' payloads.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, fmt};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
}

/// Sets up logging. `level` is a level, or a filter such as `info,segno_runtime=debug`.
pub fn start(format: Format, level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        anyhow::anyhow!("--log-level {level:?} is not understood: {error}. Try info, debug or warn")
    })?;
    let logs = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Human => logs.with_ansi(std::io::stderr().is_terminal()).with_target(false).init(),
        Format::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}
