//! Workflows that wait for a moment far away, then for one that is near: wake-ups that must not be missed.
//!
//! Each has a timer of an hour. A signal makes it start one of two seconds, after whose end it completes. A node that takes a
//! workflow over reads when it must wake up; if the signal comes meanwhile, the two seconds must count and not the hour. A
//! wake-up that is forgotten makes nothing wrong, only late, for as long as nothing else happens to its workflow. So the
//! database is asked for runs that should have been woken long ago.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Result;
use segno_proto::{
    command::{Command, StartTimerCommandAttributes, command::Attributes as Order},
    enums::CommandType,
    events::{HistoryEvent, history_event::Attributes},
    workflowservice::{
        PollWorkflowTaskQueueResponse, RespondWorkflowTaskCompletedRequest, SignalWorkflowExecutionRequest,
    },
};
use tonic::{Code, Status};

use super::Storm;
use crate::{
    crash::{
        flows::{Shared, insist},
        ledger::Breach,
    },
    random::Random,
    wire::{self, CALL_TIMEOUT, Client, NAMESPACE},
};

/// The type of these workflows.
const TYPE: &str = "sleeper";
/// Their queue.
const QUEUE: &str = "storm-sleepers";
/// The timers, by name.
const FAR_TIMER: (&str, u64) = ("far", 3_600_000);
const NEAR_TIMER: (&str, u64) = ("near", 2_000);
const RESULT: &str = "awake";

/// So much later than it should, a run may wake up when nothing happens.
const WAKE_DELAY_MAX: Duration = Duration::from_secs(2);
/// What is late because of a fault is woken within this time after it.
const LATE_WAKE_MAX: Duration = Duration::from_secs(15);

/// Starts workflows and signals them until the storm stops.
pub async fn run(shared: Rc<Shared>, mut client: Client, place: usize) {
    let mut random = Random::new(place as u64);
    let mut number = 0;
    while !shared.stopping.get() {
        let id = format!("sleeper-{place}-{number}");
        number += 1;
        let rest = Duration::from_millis(500 + random.up_to(1_000));
        if let Err(breach) = run_one(&shared, &mut client, &id, rest).await {
            shared.ledger.breach(breach);
        }
    }
}

async fn run_one(shared: &Shared, client: &mut Client, id: &str, rest: Duration) -> Result<(), Breach> {
    let wrong = |what: &str, status: &Status| {
        Breach::Wrong(format!("{what} of {id} was refused: {:?} {}", status.code(), status.message()))
    };
    let mut call = wire::start(TYPE, id, QUEUE, "");
    call.workflow_task_timeout = Some(wire::millis(2_000));
    let started = client.insist(&call).await;
    let run_id = started.map_err(|status| wrong("start", &status))?.run_id;
    shared.ledger.count_fact();
    tokio::time::sleep(rest).await;
    let call = SignalWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: wire::execution(id, &run_id),
        signal_name: "go".to_owned(),
        request_id: format!("{id}-go"),
        ..Default::default()
    };
    if client.insist_once(&call, Code::NotFound).await.map_err(|status| wrong("signal", &status))? {
        shared.ledger.count_fact();
    }
    let event = insist(async || wire::wait_closed(client, id, &run_id).await).await;
    let result = wire::closing_result(&event.map_err(|status| wrong("result", &status))?);
    if result != RESULT {
        return Err(Breach::Wrong(format!("{id} ended with `{result}`")));
    }
    shared.ledger.count_fact();
    Ok(())
}

/// The worker of these workflows.
pub async fn work(shared: Rc<Shared>, mut client: Client) {
    loop {
        let task = wire::poll_workflow_task(&mut client, QUEUE).await;
        answer(&shared, &mut client, task).await;
    }
}

async fn answer(shared: &Shared, client: &mut Client, task: PollWorkflowTaskQueueResponse) {
    let id = task.workflow_execution.unwrap_or_default().workflow_id;
    let events = task.history.unwrap_or_default().events().unwrap_or_default();
    let call = RespondWorkflowTaskCompletedRequest {
        task_token: task.task_token,
        commands: decide(&events),
        namespace: NAMESPACE.to_owned(),
        ..Default::default()
    };
    // A task that is gone, or a node that is, is no mistake; an answer that cannot be understood is.
    if let Err(status) = client.call(call, CALL_TIMEOUT).await
        && status.code() == Code::InvalidArgument
    {
        shared.ledger.breach(Breach::Wrong(format!("an answer of {id} was refused: {status}")));
    }
}

/// What such a workflow does next, given its history.
fn decide(events: &[HistoryEvent]) -> Vec<Command> {
    let has =
        |fits: &dyn Fn(&Attributes) -> bool| events.iter().filter_map(|event| event.attributes.as_ref()).any(fits);
    let started = |name: &str| {
        has(&|event| matches!(event, Attributes::TimerStartedEventAttributes(timer) if timer.timer_id == name))
    };
    if has(&|event| matches!(event, Attributes::TimerFiredEventAttributes(timer) if timer.timer_id == NEAR_TIMER.0)) {
        return vec![wire::complete(wire::text(RESULT))];
    }
    let is_told = has(&|event| matches!(event, Attributes::WorkflowExecutionSignaledEventAttributes(_)));
    let wanted = [(FAR_TIMER, true), (NEAR_TIMER, is_told)];
    let missing = wanted.into_iter().filter(|((name, _), wanted)| *wanted && !started(name));
    missing.map(|(timer, _)| start_timer(timer)).collect()
}

fn start_timer((name, millis): (&str, u64)) -> Command {
    let delay = Some(wire::millis(millis));
    let attributes = StartTimerCommandAttributes { timer_id: name.to_owned(), start_to_fire_timeout: delay };
    wire::command(CommandType::StartTimer, Order::StartTimerCommandAttributes(attributes))
}

impl Storm<'_> {
    /// Waits until no run should have been woken long ago, which must not take long when nothing happens.
    pub(super) async fn check_wakes(&self) -> Result<()> {
        let overdue = format!(
            "SELECT count(*), min(convert_from(workflow_id, 'UTF8')), \
             max((extract(epoch FROM clock_timestamp()) - wake_at / 1e9)::int) FROM segno.runs \
             WHERE open AND wake_at < (extract(epoch FROM clock_timestamp())::int8 - {}) * 1000000000",
            WAKE_DELAY_MAX.as_secs()
        );
        let begun = Instant::now();
        loop {
            let found = self.cluster.sql(&*overdue).await?;
            if found.starts_with("0|") {
                return Ok(());
            }
            if begun.elapsed() > LATE_WAKE_MAX {
                let mut fields = found.split('|');
                let (count, one, seconds) = (fields.next(), fields.next(), fields.next());
                self.shared.ledger.breach(Breach::Wrong(format!(
                    "{} runs should have been woken long ago, among them {}, up to {} s ago",
                    count.unwrap_or_default(),
                    one.unwrap_or_default(),
                    seconds.unwrap_or_default()
                )));
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::events::{
        TimerFiredEventAttributes, TimerStartedEventAttributes, WorkflowExecutionSignaledEventAttributes,
    };

    use super::*;

    #[test]
    fn the_far_timer_comes_first_the_near_one_when_told() {
        let event = |attributes| HistoryEvent { attributes: Some(attributes), ..Default::default() };
        let started = |(name, _): (&str, u64)| {
            let timer = TimerStartedEventAttributes { timer_id: name.to_owned(), ..Default::default() };
            event(Attributes::TimerStartedEventAttributes(timer))
        };
        let fired = TimerFiredEventAttributes { timer_id: NEAR_TIMER.0.to_owned(), ..Default::default() };
        let signal = WorkflowExecutionSignaledEventAttributes::default();
        let mut events = Vec::new();
        assert_eq!(decide(&events), [start_timer(FAR_TIMER)]);
        events.push(started(FAR_TIMER));
        assert_eq!(decide(&events), []);
        events.push(event(Attributes::WorkflowExecutionSignaledEventAttributes(signal)));
        assert_eq!(decide(&events), [start_timer(NEAR_TIMER)]);
        events.push(started(NEAR_TIMER));
        assert_eq!(decide(&events), []);
        events.push(event(Attributes::TimerFiredEventAttributes(fired)));
        assert_eq!(decide(&events), [wire::complete(wire::text(RESULT))]);
    }
}
