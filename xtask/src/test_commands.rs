//! Commands that a step of `cargo xtask test` runs: each is shown before it starts, and timed.

use std::{
    ffi::OsStr,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// The commands of one step, with how long each took.
#[derive(Default)]
pub struct Commands {
    finished: Vec<(String, Duration)>,
}

impl Commands {
    /// Runs a command to its end. Its output goes where ours goes, as it is written.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
        println!("$ {line}");
        let begun = Instant::now();
        let status = command.status().with_context(|| format!("`{line}` could not be started"))?;
        let took = begun.elapsed();
        println!("$ {line}: {status} after {:.1} s", took.as_secs_f64());
        self.finished.push((line.clone(), took));
        if status.success() { Ok(()) } else { bail!("`{line}` failed ({status})") }
    }

    /// How many have run.
    pub fn count(&self) -> usize {
        self.finished.len()
    }

    /// Those that took at least this long, in the order in which they ran.
    pub fn longer_than(&self, least: Duration) -> impl Iterator<Item = (&str, Duration)> {
        let long = self.finished.iter().filter(move |(_, took)| *took >= least);
        long.map(|(line, took)| (line.as_str(), *took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_timed_and_failures_reported() {
        let mut commands = Commands::default();
        commands.run(&mut Command::new("true")).expect("`true` succeeds");
        let error = commands.run(Command::new("sh").args(["-c", "exit 3"])).expect_err("it exits with 3");
        assert!(error.to_string().contains("`sh -c exit 3` failed"), "{error}");
        assert!(commands.run(&mut Command::new("no-such-program-anywhere")).is_err());
        let lines: Vec<_> = commands.longer_than(Duration::ZERO).map(|(line, _)| line).collect();
        assert_eq!(lines, ["true", "sh -c exit 3"]);
        assert_eq!(commands.longer_than(Duration::from_secs(3_600)).count(), 0);
    }
}
