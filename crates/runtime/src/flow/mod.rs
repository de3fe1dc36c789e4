//! Scripts: workflows that the node executes itself.
//!
//! A script is an ordinary run. Where a worker would poll for its workflow task, the node executes a *turn*: it hands the
//! state of the script and the events since the last turn to [`segno_flow::turn`] and completes the workflow task with the
//! commands that come out of it. Usually this happens at once, as part of the commit of the event that made it necessary
//! ([`inline`]); what takes longer is left to an [`executor`]. Everything that is not inline is executed on threads of
//! scripts ([`cores`]). [`deployed`] keeps the scripts, [`check`] compiles them, [`code`] keeps what was compiled, [`events`],
//! [`commands`] and [`values`] translate, [`look`] answers queries, [`moving`] moves runs to other versions, [`log`] writes what
//! scripts log.

mod check;
mod checkpoint;
mod code;
mod commands;
mod compact;
mod cores;
mod deployed;
mod events;
mod executor;
mod inline;
mod log;
mod look;
mod moving;
mod permits;
mod replay;
mod resumes;
mod schedule;
mod stored;
mod turn;
mod values;

pub use check::CheckedScript;
pub(crate) use checkpoint::find_checkpoint;
pub(crate) use compact::first_event_id;
pub(crate) use deployed::Flows;
pub use deployed::{Activation, Deployed, FlowError, FlowInfo, FlowVersion, Source};
pub(crate) use executor::run;
pub(crate) use inline::wants_turn;
pub(crate) use log::ScriptLines;
pub use look::FlowRunView;
pub use moving::{MoveCall, MovedRun};

/// Says that a script does not exist.
pub(crate) fn no_script(name: &str, namespace: &str) -> String {
    format!("there is no script \"{name}\" in namespace \"{namespace}\"")
}
