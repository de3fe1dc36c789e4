//! Many schedules, of which some are due in the same second.
//!
//! `--fill` schedules that act in years to come are created, then as many as `--count` that act once, at the same second.
//! Measured is how long after that second each of their workflows was started, and what the server costs at rest.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, bail};
use segno_proto::{
    common::WorkflowType,
    schedule::{
        CalendarSpec, IntervalSpec, Schedule, ScheduleAction, ScheduleSpec, ScheduleState, schedule_action::Action,
    },
    timestamp_nanos,
    workflow::NewWorkflowExecutionInfo,
    workflowservice::{CountWorkflowExecutionsRequest, CreateScheduleRequest, ListWorkflowExecutionsRequest},
};

use super::{outcome::Outcome, session::Session};
use crate::wire::{self, CALL_TIMEOUT, NAMESPACE};

/// How long creating those that are due may take.
const CREATION_LEAD: Duration = Duration::from_secs(15);
/// How long they may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the server is watched at rest.
const IDLE_TIME: Duration = Duration::from_secs(10);
const PAGE: i32 = 1_000;

/// Creates the schedules, watches the server at rest, and measures how those that are due act.
pub async fn run(session: &Rc<Session>) -> Result<Vec<Outcome>> {
    let memory_before = session.rss_mib();
    let far = IntervalSpec { interval: Some(wire::millis(20 * 365 * 86_400_000)), phase: None };
    let far = ScheduleSpec { interval: vec![far], ..Default::default() };
    let mut created = create_all(session, "created", session.load.fill, far).await?;
    if let Some((before, after)) = memory_before.zip(session.rss_mib()) {
        let bytes = (after - before) * 1024.0 * 1024.0 / created.count().max(1) as f64;
        created.extras.push(("memory, bytes/schedule".to_owned(), bytes));
        created.extras.push(("memory, MiB".to_owned(), after));
    }
    tokio::time::sleep(IDLE_TIME).await;
    let rest = session.measure("at rest", "second", async {
        for _ in 0..IDLE_TIME.as_secs() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            session.record(Duration::ZERO);
        }
    });
    let rest = rest.await?;

    let due = SystemTime::now() + CREATION_LEAD;
    let due_s = due.duration_since(UNIX_EPOCH)?.as_secs();
    create_all(session, "to be due", session.load.count, at(due_s)).await?;
    let left = Duration::from_secs(due_s).saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH)?);
    if left.is_zero() {
        bail!("creating {} schedules took longer than {CREATION_LEAD:?}", session.load.count);
    }
    tokio::time::sleep(left).await;
    let started = session.measure("started", "workflow", wait_for_starts(session, due_s));
    let mut started = started.await?;
    started.elapsed = started.latencies.last().copied().unwrap_or_default();
    if let Some(memory) = session.rss_mib() {
        started.extras.push(("memory, MiB".to_owned(), memory));
    }
    Ok(vec![started, created, rest])
}

/// A time that comes once.
fn at(seconds: u64) -> ScheduleSpec {
    let of_day = seconds % 86_400;
    let text = |number: u64| number.to_string();
    let daily = CalendarSpec {
        second: text(of_day % 60),
        minute: text(of_day / 60 % 60),
        hour: text(of_day / 3_600),
        ..Default::default()
    };
    ScheduleSpec { calendar: vec![daily], ..Default::default() }
}

async fn create_all(session: &Rc<Session>, name: &str, count: usize, spec: ScheduleSpec) -> Result<Outcome> {
    let next = Rc::new(Cell::new(0));
    let work = session.call_all(|_, _| {
        let (session, next, spec, name) = (session.clone(), next.clone(), spec.clone(), name.replace(' ', "-"));
        async move {
            let mut client = session.client();
            while next.get() < count {
                let index = next.replace(next.get() + 1);
                let id = format!("{}-{name}-{index}", session.load.prefix);
                let begun = Instant::now();
                match client.call(creation(&session, id, spec.clone()), CALL_TIMEOUT).await {
                    Ok(_) => session.record(begun.elapsed()),
                    Err(status) => session.failed("create", &status),
                }
            }
        }
    });
    session.measure(name, "schedule", work).await
}

fn creation(session: &Session, id: String, spec: ScheduleSpec) -> CreateScheduleRequest {
    let start = NewWorkflowExecutionInfo {
        workflow_id: format!("{id}-wf"),
        workflow_type: Some(WorkflowType { name: "scheduled".to_owned() }),
        task_queue: wire::queue(session.queue()),
        ..Default::default()
    };
    CreateScheduleRequest {
        namespace: NAMESPACE.to_owned(),
        request_id: id.clone(),
        schedule_id: id,
        schedule: Some(Schedule {
            spec: Some(spec),
            action: Some(ScheduleAction { action: Some(Action::StartWorkflow(start)) }),
            state: Some(ScheduleState { limited_actions: true, remaining_actions: 1, ..Default::default() }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Waits until all are started, then reads how late each was.
async fn wait_for_starts(session: &Rc<Session>, due_s: u64) {
    let mut client = session.client();
    let query = format!("TaskQueue = '{}'", session.queue());
    let begun = Instant::now();
    while begun.elapsed() < START_TIMEOUT {
        let call = CountWorkflowExecutionsRequest { namespace: NAMESPACE.to_owned(), query: query.clone() };
        match client.call(call, CALL_TIMEOUT).await {
            Ok(reply) if reply.count >= session.load.count as i64 => break,
            Ok(_) => {}
            Err(status) => session.failed("count", &status),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let mut next_page_token = Default::default();
    loop {
        let call = ListWorkflowExecutionsRequest {
            namespace: NAMESPACE.to_owned(),
            page_size: PAGE,
            next_page_token,
            query: query.clone(),
        };
        let page = match client.call(call, CALL_TIMEOUT).await {
            Ok(page) => page,
            Err(status) => return session.failed("list", &status),
        };
        for run in &page.executions {
            let started = run.start_time.as_ref().map_or(0, timestamp_nanos);
            let late = started - due_s.cast_signed() * 1_000_000_000;
            session.record(Duration::from_nanos(late.max(0).cast_unsigned()));
        }
        next_page_token = page.next_page_token;
        if next_page_token.is_empty() {
            return;
        }
    }
}
