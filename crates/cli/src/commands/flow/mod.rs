//! `segno flow ...`: scripts, from checking a file to showing a run. `check`, `fmt`, `test` and `lsp` need no server; the
//! other commands need a Segno server.

mod activate;
mod check;
mod delete;
mod deploy;
mod files;
mod fmt;
mod list;
mod lsp;
mod migrate;
mod rollback;
mod run;
mod show;
mod show_run;
mod test;

use clap::{Args, Subcommand};

use crate::client::{Client, Connection};

/// Digits of a version that people see.
const VERSION_DIGITS: usize = 12;

#[derive(Args, Clone, Debug)]
pub struct Flow {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Compiles scripts and prints errors and warnings.
    Check(check::Check),
    /// Formats scripts.
    Fmt(fmt::Fmt),
    /// Stores scripts on the server and makes them current.
    Deploy(deploy::Deploy),
    /// Lists scripts.
    List(list::List),
    /// Shows a script, or the state of a run.
    Show(show::Show),
    /// Makes a stored version the current one.
    Activate(activate::Activate),
    /// Makes the previous version the current one.
    Rollback(rollback::Rollback),
    /// Removes a version, or takes a script out of use.
    Delete(delete::Delete),
    /// Starts a script, waits for its end and prints the result.
    Run(run::Run),
    /// Moves a run to another version.
    Migrate(migrate::Migrate),
    /// Runs the tests of scripts.
    Test(test::Test),
    /// Helps editors with scripts: a server of the Language Server Protocol.
    Lsp(lsp::Lsp),
}

impl Flow {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let format = self.connection.format();
        let colors = self.connection.colors();
        let command = match self.command {
            Command::Check(command) => return command.run(format, colors),
            Command::Fmt(command) => return command.run(),
            Command::Test(command) => return command.run(colors),
            Command::Lsp(command) => return command.run(),
            other => other,
        };
        self.connection.run(async move |client: &mut Client| match command {
            Command::Deploy(command) => command.run(client).await,
            Command::List(command) => command.run(client).await,
            Command::Show(command) => command.run(client).await,
            Command::Activate(command) => command.run(client).await,
            Command::Rollback(command) => command.run(client).await,
            Command::Delete(command) => command.run(client).await,
            Command::Run(command) => command.run(client).await,
            Command::Migrate(command) => command.run(client).await,
            Command::Check(_) | Command::Fmt(_) | Command::Test(_) | Command::Lsp(_) => Ok(()),
        })
    }
}

/// The digits of a version that people see.
fn short(version: &str) -> &str {
    version.get(..VERSION_DIGITS).unwrap_or(version)
}

/// Takes `NAME[@VERSION]` apart. Names may have an `@` themselves; a version has digits only.
fn name_and_version(text: &str) -> (String, String) {
    match text.rsplit_once('@') {
        Some((name, version)) if !name.is_empty() && is_version(version) => (name.to_owned(), version.to_owned()),
        _ => (text.to_owned(), String::new()),
    }
}

fn is_version(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_told_apart() {
        let both = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        assert_eq!(name_and_version("order"), both("order", ""));
        assert_eq!(name_and_version("order@3f2a9c"), both("order", "3f2a9c"));
        assert_eq!(name_and_version("a@b.example"), both("a@b.example", ""));
    }
}
