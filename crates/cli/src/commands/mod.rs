//! Client commands, one file each. They use the same API as all other clients and work with any server that speaks the
//! protocol.

/// The commands of a noun: `segno NOUN COMMAND`, each with its own flags and those of every command that speaks to a server.
macro_rules! noun {
    ($noun:ident { $($(#[$help:meta])* $command:ident($flags:ty),)* }) => {
        #[derive(clap::Args, Clone, Debug)]
        pub struct $noun {
            #[command(flatten)]
            connection: crate::client::Connection,
            #[command(subcommand)]
            command: Command,
        }

        #[derive(clap::Subcommand, Clone, Debug)]
        enum Command {
            $($(#[$help])* $command($flags),)*
        }

        impl $noun {
            /// Runs the command.
            pub fn run(self) -> anyhow::Result<()> {
                self.connection.run(async move |client: &mut crate::client::Client| match self.command {
                    $(Command::$command(command) => command.run(client).await,)*
                })
            }
        }
    };
}

pub mod activity;
pub mod batch;
pub mod cluster;
pub mod complete_ids;
pub mod deployment;
pub mod flow;
pub mod key;
pub mod migration;
pub mod namespace;
pub mod nexus;
mod pages;
pub mod schedule;
pub mod search_attribute;
pub mod task_queue;
mod verification;
pub mod watch;
mod why;
pub mod worker;
pub mod workflow;

use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    path::PathBuf,
};

use anyhow::Context;
use clap::Args;
use segno_proto::{
    common::{Payload, Payloads, WorkflowExecution},
    enums::TaskQueueKind,
    sdk::UserMetadata,
    taskqueue::TaskQueue,
};

use crate::{
    args,
    client::{Client, ClientError},
    output::{Json, payload, table::Table},
};

/// Which workflow a command is about.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// Workflow id.
    #[arg(short, long, value_name = "ID")]
    pub workflow_id: String,
    /// Run id. [default: the newest run]
    #[arg(short, long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub run_id: String,
}

impl Target {
    /// As the wire has it.
    pub fn execution(&self) -> WorkflowExecution {
        WorkflowExecution { workflow_id: self.workflow_id.clone(), run_id: self.run_id.clone() }
    }
}

/// Arguments for a workflow, signal or query.
#[derive(Args, Clone, Debug)]
pub struct Input {
    /// An argument, as JSON; may be repeated.
    #[arg(short, long, value_name = "JSON", value_parser = args::json)]
    input: Vec<String>,
    /// A file with an argument, as JSON; `-` is standard input; may be repeated.
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    input_file: Vec<PathBuf>,
}

impl Input {
    /// As the wire has them.
    pub fn payloads(&self) -> anyhow::Result<Option<Payloads>> {
        let mut arguments = self.input.clone();
        for path in &self.input_file {
            let mut text = String::new();
            if path.as_os_str() == "-" {
                io::stdin().read_to_string(&mut text).context("reading standard input")?;
            } else {
                text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            }
            let json = args::json(text.trim()).map_err(|wrong| anyhow::anyhow!("{}: {wrong}", path.display()))?;
            arguments.push(json);
        }
        Ok(payload::of_arguments(&arguments))
    }
}

/// `KEY=JSON` pairs as a map of payloads.
pub fn payload_map<M: FromIterator<(String, Payload)>>(pairs: &[(String, String)]) -> Option<M> {
    let fields = pairs.iter().map(|(key, json)| (key.clone(), payload::of_json(json)));
    (!pairs.is_empty()).then(|| fields.collect())
}

/// A total, and the count of each group.
fn counts<'a>(total: i64, groups: impl Iterator<Item = (&'a [Payload], i64)>, colors: bool) -> String {
    let row = |(values, count): (&[Payload], i64)| {
        let values: Vec<_> = values.iter().map(payload::text).collect();
        vec![values.join(", ").trim_matches('"').into(), count.to_string().into()]
    };
    let rows: Vec<_> = groups.map(row).collect();
    let table = if rows.is_empty() { String::new() } else { Table::new(&["Group", "Count"], colors).render(&rows) };
    format!("Total: {total}\n{table}")
}

/// Summary and details for people, if there are any.
fn user_metadata(summary: Option<&str>, details: Option<&str>) -> Option<UserMetadata> {
    let note = |text: &str| payload::of_json(&serde_json::Value::from(text).to_string());
    let metadata = UserMetadata { summary: summary.map(note), details: details.map(note) };
    (metadata != UserMetadata::default()).then_some(metadata)
}

/// A task queue by its name.
fn task_queue(name: String) -> Option<TaskQueue> {
    Some(TaskQueue { name, kind: TaskQueueKind::Normal as i32, ..Default::default() })
}

/// Says that something was done to what has this id; the same shape for every such command.
fn done(client: &Client, id: (&str, &str), run_id: &str, action: &str, sentence: String) -> anyhow::Result<()> {
    client.print(
        || sentence,
        || {
            let mut json = Json::object([(id.0, Json::text(id.1))]);
            if !run_id.is_empty() {
                json.push("runId", Json::text(run_id));
            }
            json.push("namespace", Json::text(&client.namespace));
            json.push("action", Json::text(action));
            json
        },
    )
}

/// Who did it and why, when the user gives no reason.
pub fn reason(given: Option<String>, identity: &str) -> String {
    given.unwrap_or_else(|| format!("Requested by {identity}"))
}

/// Asks before something is gone for good, unless the user said yes already.
pub fn confirm(yes: bool, question: &str) -> anyhow::Result<()> {
    confirm_or(yes, question, ClientError::NotConfirmed("this cannot be undone: say --yes if you mean it"))
}

/// Asks before a change, unless the user said yes already. `refused` is the error if there is no terminal.
pub fn confirm_or(yes: bool, question: &str, refused: ClientError) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(refused.into());
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes" | "Yes") {
        Ok(())
    } else {
        Err(ClientError::NotConfirmed("nothing was done").into())
    }
}
