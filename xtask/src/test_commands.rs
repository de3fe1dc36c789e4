//! Commands that a step of `cargo xtask test` runs: each is shown before it starts, timed, and killed if it hangs.
//!
//! Each command has a process group of its own, so that what it started is killed with it. Control-C therefore ends this program
//! alone; a command ends when it writes its next line.
//!
//! Several steps run at the same time, so each line that a step or one of its commands prints has the step's name before it.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, PipeReader},
    os::unix::process::CommandExt,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// Longest run of a command, the first compilation on a slow machine included. A command that runs longer hangs.
const COMMAND_MAX: Duration = Duration::from_secs(40 * 60);
/// How long output may come after the end of its command, from processes that the command left behind.
const LATE_OUTPUT_MAX: Duration = Duration::from_secs(2);

/// The commands of one step, with how long each took, and the tests that failed at first.
#[derive(Default)]
pub struct Commands {
    step: &'static str,
    finished: Vec<(String, Duration)>,
    flaky: Vec<String>,
}

/// What a command printed, and how it ended.
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Both streams, in the order in which it wrote them.
    pub lines: Vec<String>,
}

impl Commands {
    /// Those of a step.
    pub fn of(step: &'static str) -> Self {
        Self { step, ..Self::default() }
    }

    /// Prints a text of the step.
    pub fn say(&self, text: &str) {
        text.lines().for_each(|line| println!("{} | {line}", self.step));
    }

    /// Runs a command that must succeed.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        let line = line(command);
        let status = self.output(command)?.status;
        if status.success() { Ok(()) } else { bail!("`{line}` failed ({status})") }
    }

    /// Runs a command to its end, shows what it prints as it is printed, and returns it.
    pub fn output(&mut self, command: &mut Command) -> Result<Output> {
        self.output_within(COMMAND_MAX, command)
    }

    fn output_within(&mut self, limit: Duration, command: &mut Command) -> Result<Output> {
        let line = line(command);
        self.say(&format!("$ {line}"));
        let begun = Instant::now();
        let output = self.shown(limit, command);
        let took = begun.elapsed();
        let output = output.with_context(|| format!("step `{}`: `{line}`", self.step))?;
        self.say(&format!("$ {line}: {} after {:.1} s", output.status, took.as_secs_f64()));
        self.finished.push((line, took));
        Ok(output)
    }

    fn shown(&self, limit: Duration, command: &mut Command) -> Result<Output> {
        let (reader, writer) = std::io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
        let deadline = Instant::now() + limit;
        let spawned = command.spawn();
        // The command holds the pipe's writing end, and reading ends when nothing does.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = spawned.context("it could not be started")?;
        let printed = lines_of(reader);
        let mut lines = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() && child.try_wait()?.is_none() {
                let group = format!("-{}", child.id());
                Command::new("kill").args(["-KILL", "--", &group]).status().context("`kill` could not be started")?;
                child.wait()?;
                bail!("it ran longer than {} s and was killed", limit.as_secs());
            }
            match printed.recv_timeout(LATE_OUTPUT_MAX.min(left)) {
                Ok(line) => {
                    self.say(&line);
                    lines.push(line);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(Output { status: child.wait()?, lines })
    }

    /// Notes a test that failed and then passed.
    pub fn add_flaky(&mut self, test: String) {
        self.say(&format!("FLAKY: {test} failed, and passed when it was repeated"));
        self.flaky.push(test);
    }

    /// Tests that failed and then passed.
    pub fn flaky(&self) -> &[String] {
        &self.flaky
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

/// A command as it would be typed.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// The lines that are written to a pipe. The thread ends when the last writer has closed it.
fn lines_of(reader: PipeReader) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            bytes.clear();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
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

    #[test]
    fn a_command_that_hangs_is_killed_with_what_it_started() {
        let begun = Instant::now();
        let file = std::env::temp_dir().join(format!("xtask-hangs-{}", std::process::id()));
        let mut hangs = Command::new("sh");
        hangs.args(["-c", "sleep 60 & echo $! > \"$0\"; while :; do echo again; sleep 0.1; done"]).arg(&file);
        let Err(error) = Commands::of("rust").output_within(Duration::from_secs(1), &mut hangs) else {
            panic!("it was not killed");
        };
        let error = format!("{error:#}");
        assert!(
            error.starts_with("step `rust`: `sh -c ") && error.ends_with("ran longer than 1 s and was killed"),
            "{error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(30));
        let started = std::fs::read_to_string(&file).expect("it was written");
        std::fs::remove_file(&file).expect("it was written");
        let is_alive = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", started.trim())).unwrap_or_default();
            stat.contains("sleep") && !stat.contains(") Z ")
        };
        while is_alive() {
            assert!(begun.elapsed() < Duration::from_secs(30), "`sleep` goes on");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn both_streams_are_kept_in_order() {
        let script = "echo a; echo b >&2; printf c; exit 1";
        let output = Commands::default().output(Command::new("sh").args(["-c", script])).expect("it starts");
        assert_eq!((output.lines, output.status.code()), (["a", "b", "c"].map(str::to_owned).to_vec(), Some(1)));
    }

    /// A server that a test left behind holds the pipe for as long as it runs.
    #[test]
    fn processes_that_are_left_behind_are_not_waited_for() {
        let begun = Instant::now();
        let script = "echo $$; sleep 30 & echo $!";
        let output = Commands::default().output(Command::new("sh").args(["-c", script])).expect("it starts");
        assert!(output.status.success() && begun.elapsed() < Duration::from_secs(20));
        Command::new("kill").arg(&output.lines[1]).status().expect("it starts");
    }
}
