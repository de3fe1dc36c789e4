//! Client commands, one file each. They use the same API as all other clients and work with any server that speaks the
//! protocol.

pub mod activity;
pub mod batch;
pub mod cluster;
pub mod flow;
pub mod key;
pub mod namespace;
pub mod schedule;
pub mod search_attribute;
pub mod task_queue;
pub mod watch;
pub mod worker;
pub mod workflow;

use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    path::PathBuf,
};

use anyhow::Context;
use clap::Args;
use segno_proto::common::{Payload, Payloads, WorkflowExecution};

use crate::{args, client::ClientError, output::payload};

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

/// Who did it and why, when the user gives no reason.
pub fn reason(given: Option<String>, identity: &str) -> String {
    given.unwrap_or_else(|| format!("Requested by {identity}"))
}

/// Asks before something is gone for good, unless the user said yes already.
pub fn confirm(yes: bool, question: &str) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(ClientError::NotConfirmed("this cannot be undone: say --yes if you mean it").into());
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
