//! Comparing histories with the ledger: nothing acknowledged is missing, nothing happened twice, nothing is malformed.

use std::{collections::BTreeMap, rc::Rc};

use segno_proto::{
    duration_nanos,
    events::{HistoryEvent, history_event::Attributes},
    timestamp_nanos,
};
use tonic::Code;

use super::{
    flows::{Shared, insist},
    ledger::{Breach, Facts, Kind},
    updates,
};
use crate::wire::{self, Client};

/// A timer may be this early by the clock of the events: some servers keep deadlines in whole milliseconds.
const TIMER_SLACK_NANOS: i64 = 1_000_000;

/// Checks what was acknowledged about some workflows against the server; at the end of a campaign all of them must have ended.
pub async fn verify(shared: Rc<Shared>, mut client: Client, workflows: Vec<(String, Facts)>, must_be_closed: bool) {
    for (id, facts) in workflows {
        for breach in breaches(&mut client, &id, &facts, must_be_closed).await {
            shared.ledger.breach(breach);
        }
    }
}

/// Every way in which the server breaks what was acknowledged about a workflow.
pub async fn breaches(client: &mut Client, id: &str, facts: &Facts, must_be_closed: bool) -> Vec<Breach> {
    let run_id = facts.runs.first().cloned().unwrap_or_default();
    let round = facts.round;
    match insist(async || wire::history(client, id, &run_id).await).await {
        Ok(events) => {
            let mut breaches = check(id, facts, &events, must_be_closed);
            breaches.extend(updates::ask_again(client, id, &run_id, facts).await);
            let place = |what| format!("{id} (first acknowledged in round {round}): {what}");
            let placed = |breach| match breach {
                Breach::Lost(what) => Breach::Lost(place(what)),
                Breach::Wrong(what) => Breach::Wrong(place(what)),
            };
            breaches.into_iter().map(placed).collect()
        }
        Err(status) if status.code() == Code::NotFound => {
            vec![Breach::Lost(format!("{id}: acknowledged in round {round}, but gone"))]
        }
        Err(status) => vec![Breach::Wrong(format!("{id}: its history cannot be read: {status}"))],
    }
}

/// Every way in which a history breaks what was promised.
fn check(id: &str, facts: &Facts, events: &[HistoryEvent], must_be_closed: bool) -> Vec<Breach> {
    let mut lost = Vec::new();
    let mut broken = Vec::new();
    if facts.runs.len() != 1 {
        broken.push(format!("acknowledged under {} runs", facts.runs.len()));
    }
    check_shape(events, &mut broken);
    let seen = HistoryIndex::new(events);
    for (identity, answer) in &facts.workflow_tasks {
        let found = seen.workflow_tasks.get(identity).map_or(&[][..], Vec::as_slice);
        match found {
            [] => lost.push(format!("workflow task answered in round {} ({identity}) is lost", answer.round)),
            [completed] if seen.orders.get(completed).copied().unwrap_or(0) != answer.commands => {
                broken.push(format!("{identity} had {} commands, not all became events", answer.commands));
            }
            _ => {}
        }
    }
    // While a worker has a task, what arrives is stored but enters history only when the task ends: of an open run,
    // signals and activities that are not there yet say nothing. The check at the end finds them.
    let is_settled = must_be_closed || events.last().is_some_and(wire::is_closing);
    for (identity, answer) in facts.activities.iter().filter(|_| is_settled) {
        if !seen.activities.contains_key(identity) {
            lost.push(format!("activity completed in round {} ({identity}) is lost", answer.round));
        }
    }
    // The server executes the turns of scripts under one name.
    let answers = seen.workflow_tasks.iter().filter(|_| facts.kind != Kind::Script).chain(&seen.activities);
    for (identity, found) in answers.filter(|(_, found)| found.len() > 1) {
        broken.push(format!("one answer ({identity}) was accepted {} times", found.len()));
    }
    for (name, acknowledged) in &facts.signals {
        if *acknowledged && is_settled && !seen.signals.contains_key(name.as_str()) {
            lost.push(format!("acknowledged signal {name} is lost"));
        }
    }
    for (name, times) in seen.signals.iter().filter(|(_, times)| **times > 1) {
        broken.push(format!("signal {name} arrived {times} times"));
    }
    updates::check(facts, events, is_settled, &mut lost, &mut broken);
    let closing = events.last().filter(|event| wire::is_closing(event)).map(wire::closing_result);
    match (&closing, &facts.result) {
        (Some(text), _) if *text != facts.kind.result(id) => broken.push(format!("wrong result `{text}`")),
        (None, Some(text)) => lost.push(format!("the result `{text}` was read, but the run is open again")),
        (None, None) if must_be_closed => {
            let last = events.last().map_or("nothing", |event| event.event_type().as_str_name());
            broken.push(format!("never completed, stuck at {last}"));
        }
        _ => {}
    }
    lost.into_iter().map(Breach::Lost).chain(broken.into_iter().map(Breach::Wrong)).collect()
}

/// Ids without gaps, one closing event at the end, one end for everything begun, no timer early.
fn check_shape(events: &[HistoryEvent], broken: &mut Vec<String>) {
    if !matches!(
        events.first().map(|event| &event.attributes),
        Some(Some(Attributes::WorkflowExecutionStartedEventAttributes(_)))
    ) {
        broken.push("history does not begin with a start".to_owned());
    }
    for (index, event) in events.iter().enumerate() {
        if event.event_id != index as i64 + 1 {
            broken.push(format!("event id {} at place {}", event.event_id, index + 1));
            break;
        }
    }
    if events.iter().rev().skip(1).any(wire::is_closing) {
        broken.push("events after the closing event".to_owned());
    }
    let mut ended: BTreeMap<(&str, i64), usize> = BTreeMap::new();
    for event in events {
        if let Some(end) = end_of(event) {
            if end.0 == "operation start" && ended.contains_key(&("operation end", end.1)) {
                broken.push(format!("the operation of event {} was started after its end", end.1));
            }
            *ended.entry(end).or_default() += 1;
        }
        if let Some(Attributes::TimerFiredEventAttributes(fired)) = &event.attributes {
            check_timer(events, fired.started_event_id, event, broken);
        }
    }
    for ((what, begun), times) in ended.into_iter().filter(|(_, times)| *times > 1) {
        broken.push(format!("{what} of event {begun} came {times} times"));
    }
}

/// For an event that may follow another one only once: what it is, and the id of the other.
fn end_of(event: &HistoryEvent) -> Option<(&'static str, i64)> {
    Some(match event.attributes.as_ref()? {
        Attributes::ActivityTaskStartedEventAttributes(it) => ("activity start", it.scheduled_event_id),
        Attributes::ActivityTaskCompletedEventAttributes(it) => ("activity completion", it.scheduled_event_id),
        Attributes::TimerFiredEventAttributes(it) => ("timer", it.started_event_id),
        Attributes::WorkflowTaskStartedEventAttributes(it) => ("workflow task start", it.scheduled_event_id),
        Attributes::WorkflowTaskCompletedEventAttributes(it) => ("workflow task end", it.scheduled_event_id),
        Attributes::WorkflowTaskTimedOutEventAttributes(it) => ("workflow task end", it.scheduled_event_id),
        Attributes::ChildWorkflowExecutionStartedEventAttributes(it) => ("child start", it.initiated_event_id),
        Attributes::ChildWorkflowExecutionCompletedEventAttributes(it) => ("child end", it.initiated_event_id),
        Attributes::NexusOperationStartedEventAttributes(it) => ("operation start", it.scheduled_event_id),
        Attributes::NexusOperationCompletedEventAttributes(it) => ("operation end", it.scheduled_event_id),
        Attributes::NexusOperationFailedEventAttributes(it) => ("operation end", it.scheduled_event_id),
        Attributes::ExternalWorkflowExecutionSignaledEventAttributes(it) => ("signal sent", it.initiated_event_id),
        _ => return None,
    })
}

fn check_timer(events: &[HistoryEvent], started_id: i64, fired: &HistoryEvent, broken: &mut Vec<String>) {
    let started = events.iter().find(|event| event.event_id == started_id);
    let Some(Attributes::TimerStartedEventAttributes(timer)) = started.and_then(|event| event.attributes.as_ref())
    else {
        return broken.push(format!("a timer fired that event {started_id} did not start"));
    };
    let time = |event: Option<&HistoryEvent>| event.and_then(|event| event.event_time.as_ref()).map(timestamp_nanos);
    let passed = time(Some(fired)).zip(time(started)).map_or(0, |(end, begin)| end - begin);
    if passed + TIMER_SLACK_NANOS < duration_nanos(timer.start_to_fire_timeout.as_ref()) {
        broken.push(format!("a timer fired early, after {} µs", passed / 1_000));
    }
}

/// What of interest a history holds.
struct HistoryIndex<'a> {
    /// Ids of events by the identity of the answer.
    workflow_tasks: BTreeMap<&'a String, Vec<i64>>,
    activities: BTreeMap<&'a String, Vec<i64>>,
    signals: BTreeMap<&'a str, usize>,
    /// Events that came from the commands of a workflow task, by the id of its completion.
    orders: BTreeMap<i64, usize>,
}

impl<'a> HistoryIndex<'a> {
    fn new(events: &'a [HistoryEvent]) -> Self {
        let mut seen = Self {
            workflow_tasks: BTreeMap::new(),
            activities: BTreeMap::new(),
            signals: BTreeMap::new(),
            orders: BTreeMap::new(),
        };
        let mut last_task = 0;
        for event in events {
            let Some(attributes) = &event.attributes else { continue };
            let order = match attributes {
                Attributes::WorkflowTaskCompletedEventAttributes(done) => {
                    last_task = event.event_id;
                    seen.workflow_tasks.entry(&done.identity).or_default().push(event.event_id);
                    continue;
                }
                Attributes::ActivityTaskCompletedEventAttributes(done) => {
                    seen.activities.entry(&done.identity).or_default().push(event.event_id);
                    continue;
                }
                Attributes::WorkflowExecutionSignaledEventAttributes(signal) => {
                    *seen.signals.entry(&signal.signal_name).or_default() += 1;
                    continue;
                }
                Attributes::ActivityTaskScheduledEventAttributes(it) => it.workflow_task_completed_event_id,
                Attributes::TimerStartedEventAttributes(it) => it.workflow_task_completed_event_id,
                Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(it) => {
                    it.workflow_task_completed_event_id
                }
                Attributes::SignalExternalWorkflowExecutionInitiatedEventAttributes(it) => {
                    it.workflow_task_completed_event_id
                }
                Attributes::NexusOperationScheduledEventAttributes(it) => it.workflow_task_completed_event_id,
                Attributes::WorkflowExecutionCompletedEventAttributes(it) => it.workflow_task_completed_event_id,
                // These do not name their workflow task, but only one makes them.
                Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(_)
                | Attributes::WorkflowExecutionUpdateCompletedEventAttributes(_) => last_task,
                _ => continue,
            };
            *seen.orders.entry(order).or_default() += 1;
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use segno_proto::events::{
        ActivityTaskCompletedEventAttributes, NexusOperationCompletedEventAttributes,
        NexusOperationStartedEventAttributes, WorkflowExecutionSignaledEventAttributes,
        WorkflowExecutionStartedEventAttributes, WorkflowTaskCompletedEventAttributes,
    };

    use super::{super::ledger::Answer, *};

    fn facts() -> Facts {
        let answer = Answer { round: 3, commands: 0 };
        Facts {
            kind: Kind::Signals,
            runs: BTreeSet::from(["run".to_owned()]),
            round: 1,
            signals: BTreeMap::from([("s0".to_owned(), true), ("s1".to_owned(), false)]),
            workflow_tasks: BTreeMap::from([("task-1".to_owned(), answer)]),
            activities: BTreeMap::from([("activity-2".to_owned(), answer)]),
            updates: BTreeMap::new(),
            result: None,
        }
    }

    fn events() -> Vec<HistoryEvent> {
        let text = str::to_owned;
        let start = WorkflowExecutionStartedEventAttributes::default();
        let task = WorkflowTaskCompletedEventAttributes { identity: text("task-1"), ..Default::default() };
        let activity = ActivityTaskCompletedEventAttributes { identity: text("activity-2"), ..Default::default() };
        let signal = WorkflowExecutionSignaledEventAttributes { signal_name: text("s0"), ..Default::default() };
        let all = [
            Attributes::WorkflowExecutionStartedEventAttributes(Box::new(start)),
            Attributes::WorkflowTaskCompletedEventAttributes(task),
            Attributes::ActivityTaskCompletedEventAttributes(activity),
            Attributes::WorkflowExecutionSignaledEventAttributes(signal),
        ];
        let event =
            |(id, attributes)| HistoryEvent { event_id: id, attributes: Some(attributes), ..Default::default() };
        (1..).zip(all).map(event).collect()
    }

    #[test]
    fn a_whole_history_passes() {
        assert_eq!(check("w", &facts(), &events(), false), []);
        assert_eq!(check("w", &facts(), &events(), true).len(), 1, "it is not closed");
    }

    #[test]
    fn every_missing_fact_is_noticed() {
        for lost in 1..4 {
            let mut events = events();
            events.remove(lost);
            (1..).zip(&mut events).for_each(|(id, event)| event.event_id = id);
            let losses = |is_end| {
                let found = check("w", &facts(), &events, is_end);
                found.iter().filter(|breach| matches!(breach, Breach::Lost(_))).count()
            };
            assert_eq!(losses(true), 1, "without event {}", lost + 1);
            // A completed workflow task is in history at once; signals and activities may be waiting for the end of one.
            assert_eq!(losses(false), usize::from(lost == 1), "without event {}", lost + 1);
        }
    }

    #[test]
    fn an_operation_starts_once_and_ends_once_after_that() {
        let started = NexusOperationStartedEventAttributes { scheduled_event_id: 5, ..Default::default() };
        let started = Attributes::NexusOperationStartedEventAttributes(started);
        let done = NexusOperationCompletedEventAttributes { scheduled_event_id: 5, ..Default::default() };
        let done = Attributes::NexusOperationCompletedEventAttributes(done);
        let breaches = |rest: &[&Attributes]| {
            let more = rest.iter().map(|attributes| Some((*attributes).clone()));
            let more = more.map(|attributes| HistoryEvent { attributes, ..Default::default() });
            let mut events: Vec<_> = events().into_iter().chain(more).collect();
            (1..).zip(&mut events).for_each(|(id, event)| event.event_id = id);
            check("w", &facts(), &events, false).len()
        };
        assert_eq!((breaches(&[&started, &done]), breaches(&[&done])), (0, 0));
        assert_eq!(breaches(&[&started, &started, &done]), 1);
        assert_eq!(breaches(&[&started, &done, &done]), 1);
        assert_eq!(breaches(&[&done, &started]), 1);
    }

    #[test]
    fn repeats_and_gaps_are_noticed() {
        for again in 1..4 {
            let mut events = events();
            let event = HistoryEvent { event_id: 5, ..events[again].clone() };
            events.push(event);
            assert!(!check("w", &facts(), &events, false).is_empty(), "event {} twice", again + 1);
        }
        let mut events = events();
        events[3].event_id = 5;
        assert_eq!(check("w", &facts(), &events, false), [Breach::Wrong("event id 5 at place 4".to_owned())]);
    }
}
