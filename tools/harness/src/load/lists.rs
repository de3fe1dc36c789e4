//! Lists and counts over many workflows: at rest, and beside one-activity workflows.
//!
//! One client asks, one question at a time, on a thread and a connection of its own: when the driver is busy with
//! workflows, its own queue must not count as the server's time. A question that a server does not know (Temporal's
//! SQLite store cannot order) is left out.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use segno_proto::workflowservice::{CountWorkflowExecutionsRequest, ListWorkflowExecutionsRequest};
use tokio::sync::oneshot;
use tonic::{Code, Status};

use super::{fill, outcome::Outcome, session::Session, worker::Workers, workflows};
use crate::wire::{self, Client, NAMESPACE, POLL_TIMEOUT};

/// Rows of a page.
const PAGE: i32 = 100;
/// How long a server may take to show what was started.
const SHOWN_MAX: Duration = Duration::from_secs(60);

/// How long a question is asked at least: work beside it needs time to come to speed.
const QUESTION_TIME_MIN: Duration = Duration::from_secs(1);

/// What is asked: a list or a count, and its query.
#[derive(Clone, Copy)]
enum Question {
    List(&'static str),
    Count(&'static str),
}

/// The questions, by name. A fifth of the workflows has the customer.
const QUESTIONS: [(&str, Question); 5] = [
    ("page by keyword", Question::List("Customer = 'c3'")),
    ("page by order", Question::List("ORDER BY Amount DESC")),
    ("page by keyword and order", Question::List("Customer = 'c3' ORDER BY Amount DESC")),
    ("count by status", Question::Count("GROUP BY ExecutionStatus")),
    ("count by keyword", Question::Count("Customer = 'c3'")),
];

/// Fills the server, then asks each question at rest and beside other work.
pub async fn run(session: &Rc<Session>) -> Result<Vec<Outcome>> {
    let mut outcomes = vec![fill::with_attributes(session).await?];
    ensure!(outcomes[0].errors.is_empty(), "{}", outcomes[0].line());
    let filled = outcomes[0].count();
    outcomes[0].extras.push(("workflows in the lists".to_owned(), filled as f64));
    wait_shown(session, filled as i64).await?;
    let mut known = Vec::new();
    for (name, question) in QUESTIONS {
        let (latencies, errors) = ask_apart(session, question, 1).await?;
        match errors.first() {
            Some(status) if matches!(status.code(), Code::InvalidArgument | Code::Unimplemented) => {
                println!("  {name}: not offered by this server ({})", status.message());
            }
            _ if latencies.is_empty() => return Err(errors.into_iter().next().context("no answer")?.into()),
            _ => known.push((name, question)),
        }
    }
    for (name, question) in &known {
        outcomes.push(measure(session, &format!("{name}, at rest"), *question).await?);
    }
    let workers = Workers::start(session);
    workflows::warm(session).await;
    let done = Rc::new(Cell::new(0_usize));
    let beside = tokio::task::spawn_local(beside(session.clone(), done.clone()));
    tokio::time::sleep(QUESTION_TIME_MIN).await;
    for (name, question) in &known {
        let (before, begun) = (done.get(), Instant::now());
        let mut outcome = measure(session, &format!("{name}, beside workflows"), *question).await?;
        // The server's cost is that of workflows as well.
        outcome.cost = None;
        let rate = (done.get() - before) as f64 / begun.elapsed().as_secs_f64();
        outcome.extras.push(("workflows/s beside".to_owned(), rate));
        outcomes.push(outcome);
    }
    beside.abort();
    workers.stop().await;
    Ok(outcomes)
}

/// Waits until the server counts what was filled in: lists may be behind starts.
async fn wait_shown(session: &Rc<Session>, expected: i64) -> Result<()> {
    let begun = Instant::now();
    let mut client = session.client();
    loop {
        let query = format!("TaskQueue = '{}'", fill::queue(session));
        let call = CountWorkflowExecutionsRequest { namespace: NAMESPACE.to_owned(), query };
        let count = client.call(call, POLL_TIMEOUT).await?.count;
        if count >= expected {
            return Ok(());
        }
        ensure!(begun.elapsed() < SHOWN_MAX, "{count} of {expected} workflows are shown after {SHOWN_MAX:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn measure(session: &Rc<Session>, name: &str, question: Question) -> Result<Outcome> {
    let work = async {
        match ask_apart(session, question, session.load.count).await {
            Ok((latencies, errors)) => {
                latencies.into_iter().for_each(|latency| session.record(latency));
                errors.iter().for_each(|status| session.failed(name, status));
            }
            Err(error) => session.failed(name, &Status::unknown(error.to_string())),
        }
    };
    session.measure(name, "question", work).await
}

/// Latencies of the answers, and what was said instead of answers.
type QuestionResults = (Vec<Duration>, Vec<Status>);

/// Asks a question again and again, on a thread of its own.
async fn ask_apart(session: &Session, question: Question, count: usize) -> Result<QuestionResults> {
    let (port, time_max) = (session.load.port, session.load.time_max);
    let (send, receive) = oneshot::channel();
    std::thread::spawn(move || {
        let asked = wire::runtime().and_then(|runtime| runtime.block_on(ask_all(port, question, count, time_max)));
        // The receiver is gone when the load was broken off.
        let _ = send.send(asked);
    });
    receive.await.context("the asking thread ended early")?
}

async fn ask_all(port: u16, question: Question, count: usize, time_max: Duration) -> Result<QuestionResults> {
    let mut client = wire::client(port)?;
    let (mut latencies, mut errors) = (Vec::with_capacity(count), Vec::new());
    // The first answer pays for the connection, and is not measured when there are more.
    let unmeasured = usize::from(count > 1);
    let least = if count > 1 { QUESTION_TIME_MIN } else { Duration::ZERO };
    let started = Instant::now();
    let mut index = 0;
    while index < count + unmeasured || started.elapsed() < least {
        let begun = Instant::now();
        match ask(&mut client, question).await {
            Ok(()) if index >= unmeasured => latencies.push(begun.elapsed()),
            Ok(()) => {}
            Err(status) => errors.push(status),
        }
        index += 1;
        if started.elapsed() > time_max {
            break;
        }
    }
    Ok((latencies, errors))
}

/// One question; an empty answer is wrong.
async fn ask(client: &mut Client, question: Question) -> Result<(), Status> {
    let namespace = NAMESPACE.to_owned();
    let found = match question {
        Question::List(query) => {
            let query = query.to_owned();
            let call = ListWorkflowExecutionsRequest { namespace, page_size: PAGE, query, ..Default::default() };
            client.call(call, POLL_TIMEOUT).await?.executions.len()
        }
        Question::Count(query) => {
            let call = CountWorkflowExecutionsRequest { namespace, query: query.to_owned() };
            client.call(call, POLL_TIMEOUT).await?.count as usize
        }
    };
    if found > 0 { Ok(()) } else { Err(Status::data_loss("an empty answer")) }
}

/// One-activity workflows without end, at the load's pace or as fast as they go.
async fn beside(session: Rc<Session>, done: Rc<Cell<usize>>) {
    let next = Rc::new(Cell::new(0_u32));
    let started = Instant::now();
    session
        .call_all(|_, _| {
            let (session, done, next) = (session.clone(), done.clone(), next.clone());
            async move {
                let mut client = session.client();
                loop {
                    let index = next.replace(next.get() + 1);
                    if let Some(pace) = session.load.beside {
                        let due = started + Duration::from_secs_f64(f64::from(index) / pace);
                        tokio::time::sleep_until(due.into()).await;
                    }
                    let workflow_id = format!("{}-beside-{index}", session.load.prefix);
                    if workflows::one(&session, &mut client, "one-activity", &workflow_id).await {
                        done.set(done.get() + 1);
                    }
                }
            }
        })
        .await;
}
