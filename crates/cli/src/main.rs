//! The one binary, `segno`: reads the command line and hands over.

// The protocol carries fields that its authors have replaced but that servers still send.
#![allow(deprecated)]

mod args;
mod client;
mod commands;
mod connections;
mod exit;
mod liveness;
mod logs;
mod moving;
mod output;
mod running;
mod serve;
mod setup;
mod start_dev;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

/// Every call allocates some hundred times, on one thread, and frees on another (docs/decisions/012).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Segno runs workflows that survive anything. It speaks Temporal's protocol: every Temporal SDK and the `temporal`
/// command line work with it unchanged.
#[derive(Parser)]
#[command(name = "segno", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the server.
    #[command(after_help = "Example:\n  segno serve --data-dir ./data")]
    Serve(serve::Serve),
    /// Runs a server for development and tests.
    #[command(subcommand)]
    Server(start_dev::Server),
    /// Writes everything that is stored to a file.
    Export(moving::Export),
    /// Fills an empty data directory or database from an export.
    Import(moving::Import),
    /// Starts, shows, signals, queries and ends workflows.
    Workflow(commands::workflow::Workflow),
    /// Activities without a workflow: start, execute, list, describe, cancel, ...
    Activity(commands::activity::Activity),
    /// Creates, shows, pauses, triggers, changes and deletes schedules.
    Schedule(commands::schedule::Schedule),
    /// Lists, shows and stops batch jobs.
    Batch(commands::batch::Batch),
    /// Lists, creates, changes and deletes namespaces.
    Namespace(commands::namespace::Namespace),
    /// Lists, creates and removes custom search attributes.
    SearchAttribute(commands::search_attribute::SearchAttribute),
    /// Shows who polls a task queue.
    TaskQueue(commands::task_queue::TaskQueue),
    /// Shows who is alive and what each worker holds.
    Worker(commands::worker::Worker),
    /// Shows the nodes that share a database, drains and fences them.
    Cluster(commands::cluster::Cluster),
    /// Checks, deploys, runs and shows scripts: workflows that the server executes itself.
    Flow(commands::flow::Flow),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Server(start_dev::Server::StartDev(start_dev)) => start_dev.run(),
        Command::Export(command) => command.run(),
        Command::Import(command) => command.run(),
        Command::Workflow(command) => command.run(),
        Command::Activity(command) => command.run(),
        Command::Schedule(command) => command.run(),
        Command::Batch(command) => command.run(),
        Command::Namespace(command) => command.run(),
        Command::SearchAttribute(command) => command.run(),
        Command::TaskQueue(command) => command.run(),
        Command::Worker(command) => command.run(),
        Command::Cluster(command) => command.run(),
        Command::Flow(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if exit::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("segno: {}", exit::text(&error));
            exit::code(&error)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Every command that does something shows how it is used.
    #[test]
    fn every_command_has_an_example() {
        fn leaves(command: &clap::Command, found: &mut Vec<(String, bool)>) {
            let below: Vec<_> = command.get_subcommands().filter(|below| below.get_name() != "help").collect();
            if below.is_empty() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                found.push((command.get_name().to_owned(), help.contains("Example")));
            }
            below.into_iter().for_each(|below| leaves(below, found));
        }
        let mut found = Vec::new();
        leaves(&Arguments::command(), &mut found);
        assert!(found.len() > 20, "{found:?}");
        let without: Vec<_> = found.iter().filter(|(_, example)| !example).collect();
        assert!(without.is_empty(), "{without:?}");
    }
}
