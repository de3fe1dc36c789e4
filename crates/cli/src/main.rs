//! The binary `segno`: parses the command line and runs the command.

// The protocol carries fields that its authors have replaced but that servers still send.
#![allow(deprecated)]

mod args;
mod client;
mod command_line;
mod commands;
mod config_file;
mod connections;
mod disk;
mod doctor;
mod exit;
mod keeping;
mod liveness;
mod logs;
mod moving;
mod output;
mod outside;
mod protection;
mod running;
mod serve;
mod setup;
mod shells;
mod start_dev;
mod test_server;
mod tls_init;
mod traces;
mod version;
mod versioning;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use mimalloc::MiMalloc;

/// Every call allocates some hundred times, on one thread, and frees on another (docs/internals/decisions/012).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Segno runs workflows that survive crashes of workers, servers and machines. It speaks Temporal's protocol: Temporal's
/// SDKs are its clients and workers. docs/reference/compatibility.md says which calls are built.
#[derive(Parser)]
#[command(name = "segno", version, long_version = version::long(), propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the server.
    #[command(after_help = "Example:\n  segno serve --data-dir ./data")]
    Serve(Box<serve::Serve>),
    /// Runs a server for development and tests.
    #[command(subcommand)]
    Server(start_dev::Server),
    /// Writes everything that is stored to a file.
    Export(moving::Export),
    /// Fills an empty data directory or database from an export.
    Import(moving::Import),
    /// Copies a data directory to a file, also while a server uses it.
    Backup(keeping::Backup),
    /// Puts a backup into a data directory that has none yet.
    Restore(keeping::Restore),
    /// Returns the space of deleted workflows to the file system.
    Compact(keeping::Compact),
    /// Checks a data directory, the disk, the clock and settings.
    Doctor(doctor::Doctor),
    /// Starts, shows, signals, queries and ends workflows.
    Workflow(commands::workflow::Workflow),
    /// Activities without a workflow (start, execute, list, describe, cancel, ...) and pending ones (complete, fail, pause, ...).
    Activity(commands::activity::Activity),
    /// Creates, shows, pauses, triggers, changes and deletes schedules.
    Schedule(commands::schedule::Schedule),
    /// Lists, shows and stops batch jobs.
    Batch(commands::batch::Batch),
    /// Lists, creates, changes and deletes namespaces.
    Namespace(commands::namespace::Namespace),
    /// Lists, creates and removes custom search attributes.
    SearchAttribute(commands::search_attribute::SearchAttribute),
    /// Shows the pollers and the backlog of a task queue.
    TaskQueue(commands::task_queue::TaskQueue),
    /// Shows workers, and the tasks that each holds.
    Worker(commands::worker::Worker),
    /// Shows versions of workers, and sends workflows to them.
    Deployment(commands::deployment::Deployment),
    /// Endpoints of Nexus operations.
    Nexus(commands::nexus::Nexus),
    /// Compares an old server, such as Temporal's, with this one until it is empty.
    Migration(commands::migration::Migration),
    /// Makes, lists and revokes access keys.
    Key(commands::key::Key),
    /// Makes certificates for development.
    #[command(subcommand)]
    Tls(tls_init::Tls),
    /// Shows the nodes that share a database, drains and fences them.
    Cluster(commands::cluster::Cluster),
    /// Checks, deploys, runs and shows scripts: workflows that the server executes itself.
    Flow(commands::flow::Flow),
    /// Prints completions for a shell.
    Completions(shells::Completions),
    /// Prints ids that begin with a text, for completions.
    #[command(hide = true)]
    CompleteIds(commands::complete_ids::CompleteIds),
    /// Writes manual pages.
    #[command(hide = true)]
    Man(shells::Man),
}

fn main() -> ExitCode {
    let result = match test_server::asked_for(std::env::args().skip(1)) {
        Some(test_server) => test_server.and_then(test_server::TestServer::run).map(|()| ExitCode::SUCCESS),
        None => parse().and_then(run),
    };
    match result {
        Ok(code) => code,
        Err(error) if exit::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("segno: {}", exit::text(&error));
            exit::code(&error)
        }
    }
}

/// Reads the command line, and what a configuration file adds to it.
fn parse() -> anyhow::Result<Command> {
    let command = Arguments::command();
    let words = command_line::move_options(&command, std::env::args_os().collect());
    let (words, file) = config_file::complete(words, &command)?;
    let matches = command_line::parse(&command, &words).unwrap_or_else(|error| {
        if let Some(place) = file.explain(&error) {
            eprintln!("{place}");
        }
        error.exit()
    });
    let parsed = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let (Command::Serve(serve), Some(matches)) = (&parsed.command, matches.subcommand_matches("serve"))
        && serve.print_config
    {
        let command = Arguments::command();
        let text = command.find_subcommand("serve").map(|serve| file.print(serve, matches)).unwrap_or_default();
        print!("{text}");
        std::process::exit(0);
    }
    Ok(parsed.command)
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let done = match command {
        // Its findings have an exit code.
        Command::Doctor(command) => return command.run(),
        Command::Serve(serve) => serve.run(),
        Command::Server(start_dev::Server::StartDev(start_dev)) => start_dev.run(),
        Command::Export(command) => command.run(),
        Command::Import(command) => command.run(),
        Command::Backup(command) => command.run(),
        Command::Restore(command) => command.run(),
        Command::Compact(command) => command.run(),
        Command::Workflow(command) => command.run(),
        Command::Activity(command) => command.run(),
        Command::Schedule(command) => command.run(),
        Command::Batch(command) => command.run(),
        Command::Namespace(command) => command.run(),
        Command::SearchAttribute(command) => command.run(),
        Command::TaskQueue(command) => command.run(),
        Command::Worker(command) => command.run(),
        Command::Deployment(command) => command.run(),
        Command::Nexus(command) => command.run(),
        Command::Migration(command) => command.run(),
        Command::Key(command) => command.run(),
        Command::Tls(command) => command.run(),
        Command::Cluster(command) => command.run(),
        Command::Flow(command) => command.run(),
        Command::Completions(command) => command.run(Arguments::command()),
        Command::CompleteIds(command) => command.run(),
        Command::Man(command) => command.run(Arguments::command()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Whether a variable of the environment is a setting of some command.
fn is_known_variable(name: &str) -> bool {
    fn known(command: &clap::Command, name: &str) -> bool {
        command.get_arguments().any(|argument| argument.get_env().is_some_and(|env| env == name))
            || command.get_subcommands().any(|below| known(below, name))
    }
    CLIENT_VARIABLES.contains(&name) || known(&Arguments::command(), name)
}

/// Variables that are no flags' own: clients read them together with Temporal's.
const CLIENT_VARIABLES: [&str; 8] = [
    "SEGNO_ADDRESS",
    "SEGNO_API_KEY",
    "SEGNO_CONFIG_FILE",
    "SEGNO_NAMESPACE",
    "SEGNO_PROFILE",
    "SEGNO_TLS",
    "SEGNO_TLS_CA",
    "SEGNO_TLS_SERVER_NAME",
];

#[cfg(test)]
mod tests {
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
