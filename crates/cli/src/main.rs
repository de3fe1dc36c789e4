//! The one binary, `segno`: reads the command line and hands over.

mod exit;
mod logs;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(serve) => serve.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("segno: {}", exit::text(&error));
            exit::code(&error)
        }
    }
}
