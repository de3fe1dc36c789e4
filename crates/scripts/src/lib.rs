//! Scripts: workflows that the node executes itself.
//!
//! A script is an ordinary run. Where a worker would poll for its workflow task, the node executes a *turn*: it hands
//! the state of the script and the events since the last turn to [`segno_flow::turn`] and completes the workflow task
//! with the resulting commands. Usually this happens at once, as part of the commit of the event that made it necessary
//! ([`inline`]); longer turns are left to an [`executor`]. Everything that is not inline is executed on threads of
//! scripts ([`threads`]).
//!
//! [`host`] has the two central structs, and [`port`] implements the port of the runs. [`deploy`] stores scripts,
//! [`registry`] has their names, [`compile`] compiles them and [`code`] caches compiled code. [`events`], [`commands`]
//! and [`values`] translate, [`inspect`] answers queries, [`moving`] moves runs to other versions, [`log`] writes what
//! scripts log.

mod checkpoint;
mod code;
mod code_cache;
mod commands;
mod compact;
mod compile;
mod deploy;
mod error;
mod events;
mod executor;
mod held_back;
mod host;
mod inline;
mod inline_time;
mod inspect;
mod list;
mod load;
mod log;
mod moving;
mod permits;
mod port;
mod records;
mod registry;
mod replay;
mod resumes;
mod schedule;
mod start;
mod threads;
mod turn;
mod values;
mod versions;

pub use compile::{CheckedScript, Source};
pub use deploy::Deployment;
pub use error::ScriptError;
pub use host::ScriptHost;
pub use host::Scripts;
pub use inspect::ScriptRunView;
pub use list::{ScheduledRun, ScriptInfo};
pub use moving::{MoveCall, MovedRun};
pub use records::{Activation, VersionRecord};
