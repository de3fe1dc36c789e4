//! What `segno workflow verify` and `segno deployment verify` have in common: a verification is started, watched and reported.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use clap::Args;
use segno_proto::{
    Nanos, nanos_duration,
    segno_verification::{Candidate, DescribeRequest, RunFailure, StartRequest, State, StopRequest, Verification},
};

use crate::{
    args,
    client::{Client, ClientError, request},
    output::{
        Json,
        dynamic::decoded,
        plain,
        table::{Cell, Table},
    },
};

const DESCRIPTION: &str = "segno.verification.v1.Verification";
/// Between two looks at the progress.
const INTERVAL: Duration = Duration::from_millis(300);
/// Between two lines about the progress where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Characters of a failure in the table.
const FAILURE_WIDTH: usize = 160;

/// How a verification is carried out.
#[derive(Args, Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Only runs that match a list filter.
    #[arg(short, long, value_name = "FILTER")]
    query: Option<String>,
    /// Maximum number of runs to try: the oldest and the longest first, then random ones. [default: 1000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..=100_000))]
    sample: Option<i32>,
    /// Try all runs, at most 100,000.
    #[arg(long, conflicts_with = "sample")]
    all: bool,
    /// Runs that are tried at the same time.
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(i32).range(1..=100))]
    parallel: i32,
    /// How long one run may take.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = args::duration)]
    timeout: Nanos,
    /// Maximum number of runs begun per second. [default: 200]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..=1000))]
    rps: Option<i32>,
    /// Stop the verification that is running in the namespace instead of starting one.
    #[arg(long)]
    stop: bool,
}

impl VerifyOptions {
    /// Starts a verification and waits for its end, or stops the one that runs. An error unless all runs replay.
    pub async fn run(self, client: &mut Client, candidate: Candidate, include_pinned: bool) -> anyhow::Result<()> {
        if self.stop {
            let message = StopRequest { namespace: client.namespace.clone(), id: String::new() };
            client.call("stop the verification", message).await?;
            let json = || Json::object([("namespace", Json::text(&client.namespace)), ("action", Json::text("stop"))]);
            return client.print(|| "Stopped the verification".to_owned(), json);
        }
        let ended = self.verify(client, candidate, include_pinned).await?;
        client.print(|| text(&ended, client.colors), || decoded(DESCRIPTION, &ended))?;
        passed(&ended)
    }

    /// Starts a verification and waits for its end.
    async fn verify(
        self,
        client: &mut Client,
        candidate: Candidate,
        include_pinned: bool,
    ) -> anyhow::Result<Verification> {
        let message = StartRequest {
            namespace: client.namespace.clone(),
            candidate: Some(candidate.clone()),
            query: self.query.unwrap_or_default(),
            sample_size: self.sample.unwrap_or_default(),
            all: self.all,
            include_pinned,
            parallel: self.parallel,
            timeout: (self.timeout > 0).then(|| nanos_duration(self.timeout)),
            max_per_second: self.rps.unwrap_or_default(),
            identity: client.identity.clone(),
        };
        let id = client.call("start a verification", message).await?.id;
        let mut progress = Progress::new();
        loop {
            let message = DescribeRequest { namespace: client.namespace.clone(), candidate: Some(candidate.clone()) };
            let answer = client.send(request(message)).await;
            if let Err(status) = &answer
                && client.is_worth_a_retry(status).await
            {
                continue;
            }
            let found = match answer {
                Err(status) if status.code() == tonic::Code::NotFound => None,
                answer => client.answer("see the verification", answer)?.verification.filter(|found| found.id == id),
            };
            let Some(found) = found else {
                progress.end()?;
                let lost = "the verification is gone: another one of the same candidate took its place, or the namespace was deleted";
                return Err(ClientError::Outcome(lost.to_owned()).into());
            };
            if found.state() != State::Running {
                progress.end()?;
                return Ok(found);
            }
            progress.show(&found)?;
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

/// Tries the runs that would move to a version if it were current, and gives an error unless all of them replay. What does not
/// replay is shown on standard error.
pub async fn verify_before_change(client: &mut Client, name: &str, build_id: &str) -> anyhow::Result<()> {
    let candidate = of_version(name, build_id);
    let options = VerifyOptions { parallel: 16, timeout: 10_000_000_000, ..VerifyOptions::default() };
    let ended = options.verify(client, candidate, false).await?;
    eprintln!("{}", text(&ended, false));
    passed(&ended)
}

/// A version as a candidate.
pub fn of_version(name: &str, build_id: &str) -> Candidate {
    Candidate { deployment_name: name.to_owned(), build_id: build_id.to_owned(), ..Default::default() }
}

/// An error unless all runs replay.
fn passed(ended: &Verification) -> anyhow::Result<()> {
    let why = match ended.state() {
        State::Completed if ended.failed == 0 && ended.unanswered == 0 => return Ok(()),
        State::Completed if ended.failed > 0 => "not all runs replay".to_owned(),
        State::Completed => "not all runs were answered; do workers of the candidate poll?".to_owned(),
        State::Stopped => "the verification was stopped".to_owned(),
        _ => format!("the verification ended early: {}", plain(&ended.error)),
    };
    Err(ClientError::Outcome(why).into())
}

/// The progress on standard error: one line that is overwritten, or a line now and then where there is no terminal.
struct Progress {
    is_terminal: bool,
    last: Instant,
    any: bool,
}

impl Progress {
    fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), last: Instant::now(), any: false }
    }

    fn show(&mut self, seen: &Verification) -> io::Result<()> {
        let done = seen.replayed + seen.failed + seen.unanswered;
        let line =
            format!("{} of {} runs tried, {} do not replay", number(done), number(seen.total), number(seen.failed));
        if self.is_terminal {
            self.any = true;
            eprint!("\r\x1b[K{line}");
            return io::stderr().flush();
        }
        if self.last.elapsed() >= LINE_INTERVAL {
            self.last = Instant::now();
            eprintln!("segno: {line}");
        }
        Ok(())
    }

    /// Erases the line.
    fn end(&mut self) -> io::Result<()> {
        if self.any {
            eprint!("\r\x1b[K");
        }
        io::stderr().flush()
    }
}

/// A number with separators.
fn number(number: i64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 run`, `2 runs`.
fn runs(count: i64) -> String {
    format!("{} {}", number(count), if count == 1 { "run" } else { "runs" })
}

/// The table of failures, the groups if not all failures are in it, and the counts.
fn text(ended: &Verification, colors: bool) -> String {
    let mut lines = String::new();
    if !ended.failures.is_empty() {
        let mut failures: Vec<&RunFailure> = ended.failures.iter().collect();
        failures.sort_by_key(|failed| (&failed.workflow_type, first_line(failed)));
        let rows: Vec<Vec<Cell>> = failures.into_iter().map(row).collect();
        lines += &Table::new(&["WorkflowId", "RunId", "Type", "Event", "Failure"], colors).optional(&[1]).render(&rows);
        lines.push('\n');
    }
    if ended.failed > ended.failures.len() as i64 {
        let row = |group: &segno_proto::segno_verification::FailureGroup| -> Vec<Cell> {
            vec![number(group.count).into(), group.workflow_type.as_str().into(), group.message.as_str().into()]
        };
        let rows: Vec<_> = ended.groups.iter().map(row).collect();
        lines += &Table::new(&["Failures", "Type", "Message"], colors).render(&rows);
        if ended.others_failed > 0 {
            lines += &format!("{} more of other kinds\n", number(ended.others_failed));
        }
        lines.push('\n');
    }
    if ended.restarts > 0 {
        let times = if ended.restarts == 1 { "once".to_owned() } else { format!("{} times", ended.restarts) };
        lines += &format!("It began anew {times}, because the node that carried it out stopped.\n");
    }
    if ended.found > ended.total + ended.skipped {
        lines += &format!("{} would move; tried {} of them.\n", runs(ended.found), number(ended.total));
    }
    if ended.skipped > 0 {
        lines += &format!("{} had nothing to replay.\n", runs(ended.skipped));
    }
    let (replay, fail, silent) = (number(ended.replayed), number(ended.failed), number(ended.unanswered));
    lines + &format!("{}: {replay} replay, {fail} do not, {silent} no answer", runs(ended.total))
}

fn first_line(failed: &RunFailure) -> &str {
    failed.failure.as_ref().and_then(|failure| failure.message.lines().next()).unwrap_or_default()
}

fn row(failed: &RunFailure) -> Vec<Cell> {
    let failure = failed.failure.clone().unwrap_or_default();
    let event = match failure.event_id {
        0 => String::new(),
        id => format!("{id} {}", failure.event_type),
    };
    let mut line: String = first_line(failed).chars().take(FAILURE_WIDTH).collect();
    if first_line(failed).chars().nth(FAILURE_WIDTH).is_some() {
        line += "...";
    }
    vec![
        failed.workflow_id.as_str().into(),
        failed.run_id.as_str().into(),
        failed.workflow_type.as_str().into(),
        event.trim_end().into(),
        line.into(),
    ]
}

#[cfg(test)]
mod tests {
    use segno_proto::segno_verification::Failure;

    use super::*;

    #[test]
    fn numbers_have_separators() {
        let shown = [0, 12, 999, 1000, 4000, 1_234_567].map(number);
        assert_eq!(shown, ["0", "12", "999", "1,000", "4,000", "1,234,567"]);
    }

    #[test]
    fn the_last_line_has_the_counts() {
        let failure = |message: &str| Failure {
            message: message.to_owned(),
            event_id: 5,
            event_type: "ActivityTaskScheduled".to_owned(),
            ..Default::default()
        };
        let failed = |id: &str, message: &str| RunFailure {
            workflow_id: id.to_owned(),
            run_id: "r".to_owned(),
            workflow_type: "Order".to_owned(),
            failure: Some(failure(message)),
        };
        let mut ended = Verification {
            state: State::Completed as i32,
            found: 4001,
            total: 4000,
            replayed: 3986,
            failed: 2,
            unanswered: 12,
            skipped: 1,
            restarts: 1,
            failures: vec![failed("wf-2", "b\nmore"), failed("wf-1", "a")],
            ..Default::default()
        };
        let shown = text(&ended, false);
        let expected = "WorkflowId  RunId  Type   Event                    Failure\n\
                        wf-1        r      Order  5 ActivityTaskScheduled  a\n\
                        wf-2        r      Order  5 ActivityTaskScheduled  b\n\n\
                        It began anew once, because the node that carried it out stopped.\n\
                        1 run had nothing to replay.\n\
                        4,000 runs: 3,986 replay, 2 do not, 12 no answer";
        assert_eq!(shown, expected);
        assert!(passed(&ended).is_err());
        (ended.failed, ended.unanswered) = (0, 1);
        assert!(passed(&ended).is_err());
        ended.unanswered = 0;
        assert!(passed(&ended).is_ok());
        ended.state = State::Stopped as i32;
        assert!(passed(&ended).is_err());
    }
}
