//! Logs on standard error, as text by default or as JSON. They contain ids, never payloads.

use std::{
    io::IsTerminal,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, fmt};

use crate::exit::Usage;

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
}

/// Levels as users write them.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Whether logs are for machines.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Whether logs are for machines: everything else that is printed should be, too.
pub fn are_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// What is wrong with a filter. A word that is not a level would be taken as the name of a module, and nothing be logged.
fn mistake(level: &str) -> Option<String> {
    let part = |part: &str| {
        let (target, level) = part.rsplit_once('=').unwrap_or(("", part));
        let is_level = LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level.trim()));
        (!is_level).then(|| match target {
            "" => format!("{:?} is not a level", part.trim()),
            _ => format!("{:?} is not a level, in {part:?}", level.trim()),
        })
    };
    level.split(',').find_map(part)
}

/// Sets up logging. `level` is a level, or a filter such as `info,segno_node=debug`.
pub fn start(format: Format, level: &str) -> anyhow::Result<()> {
    if let Some(mistake) = mistake(level) {
        let levels = LEVELS.join(", ");
        let hint = format!("There are {levels}; a filter looks like info,segno_node=debug");
        return Err(Usage(format!("--log-level: {mistake}. {hint}")).into());
    }
    let filter = EnvFilter::try_new(level)
        .map_err(|error| Usage(format!("--log-level {level:?} is not understood: {error}. Try info, debug or warn")))?;
    IS_JSON.store(format == Format::Json, Ordering::Relaxed);
    let logs = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Human => logs.with_ansi(std::io::stderr().is_terminal()).with_target(false).init(),
        Format::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_levels_are_refused() {
        for good in ["info", "WARN", "info,segno_node=debug", "segno_node::polls=trace", "off"] {
            assert_eq!(mistake(good), None, "{good}");
        }
        for bad in ["verbose", "info,segno_node", "segno_node=loud", ""] {
            assert!(mistake(bad).is_some(), "{bad}");
        }
    }
}
