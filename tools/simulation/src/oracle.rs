//! What must hold: of every stored run after each crash, and of everything at the end of a world.
//!
//! The rules for one run are those of the engine's tests. The others compare histories with what clients and workers were told.

// What is wrong is told by a panic, as in the engine's tests, or by a text.
#[path = "../../../crates/engine/tests/engine/common/history_rules.rs"]
#[allow(missing_docs, dead_code)]
mod history_rules;
#[path = "../../../crates/engine/tests/engine/common/rebuilt.rs"]
#[allow(missing_docs, dead_code)]
mod rebuilt;

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
};

use prost::Message as _;
use segno_engine::{Run, run_key_of};
use segno_proto::{
    History, duration_nanos,
    enums::EventType,
    events::{HistoryEvent, history_event::Attributes as A},
    timestamp_nanos,
};
use segno_store::{MemoryStore, NamespaceKey, RunKey, Store, Wait};

use crate::{
    BEGIN, Millis,
    ledger::{Facts, Ledger, ScheduleFacts},
    panics,
    worker::hash_of,
    workflow::is_closing,
    world::{Trouble, World},
};

/// More runs than any world has.
const RUNS_MAX: usize = 10_000;
/// How late a timer may be while nothing keeps the node from firing it.
const LATE_MAX: Millis = 300;
/// How long a node may take to be at its pace again.
const RECOVERY_MAX: Millis = 3000;
/// How long a task may wait for a worker while all is well: workers are slow at times, and few.
const WAIT_MAX: Millis = 30_000;
/// The namespace of everything.
const NAMESPACE: NamespaceKey = NamespaceKey(1);

/// A run as it is stored.
pub struct StoredRun {
    key: RunKey,
    run: Run,
    events: Vec<HistoryEvent>,
}

/// All runs as they are stored.
fn stored_runs(store: &MemoryStore) -> Result<Vec<StoredRun>, String> {
    let unreadable = |key: RunKey, error: String| format!("run {} cannot be read: {error}", key.0);
    let keys = store.runs_of(NAMESPACE, None, RUNS_MAX).wait().map_err(|error| error.to_string())?;
    let mut runs = Vec::with_capacity(keys.len());
    for key in keys {
        let record = store.load(key).wait().map_err(|error| unreadable(key, error.to_string()))?;
        let record = record.ok_or_else(|| unreadable(key, "it has facts and no state".to_owned()))?;
        let run = Run::decode(record.state).map_err(|error| unreadable(key, error.to_string()))?;
        let mut events = Vec::new();
        let batches = store.history(key, 1, i64::MAX, usize::MAX, usize::MAX).wait();
        for batch in batches.map_err(|error| unreadable(key, error.to_string()))? {
            History::decode_batch(&batch.events, &mut events).map_err(|error| unreadable(key, error.to_string()))?;
        }
        runs.push(StoredRun { key, run, events });
    }
    Ok(runs)
}

/// What is wrong with the runs on a disk: each state must be what its history says.
pub fn stored_states(store: &MemoryStore) -> Vec<String> {
    match stored_runs(store) {
        Ok(runs) => runs.iter().filter_map(state_problem).collect(),
        Err(error) => vec![error],
    }
}

fn state_problem(stored: &StoredRun) -> Option<String> {
    let StoredRun { run, events, .. } = stored;
    if run.state().is_schedule() {
        return None;
    }
    let check = AssertUnwindSafe(|| {
        // A script is not woken by everything that wakes a worker's workflow.
        if run.state().script.is_some() {
            return history_rules::check_history(events);
        }
        history_rules::check_run(run, events);
        // The end of a run is more than history tells.
        if run.is_running() {
            rebuilt::check(run, events);
        }
    });
    catch_unwind(check).err()?;
    let why = panics::taken().join("; ");
    Some(format!("{} ({}): {why}", run.info.workflow_id, run.info.run_id))
}

/// Open runs, told in one line each.
pub fn open_runs(store: &MemoryStore) -> Result<Vec<String>, String> {
    let runs = stored_runs(store)?;
    Ok(runs.iter().filter(|stored| stored.run.is_running()).map(outline).collect())
}

fn outline(stored: &StoredRun) -> String {
    let StoredRun { run, events, .. } = stored;
    let name = |event: &HistoryEvent| event.event_type().as_str_name().trim_start_matches("EVENT_TYPE_").to_owned();
    let names: Vec<_> = events.iter().map(|event| format!("{} at {}", name(event), millis_of(event))).collect();
    let state = run.state();
    let task = state.task.as_ref().map(|task| (task.scheduled_event_id, task.started_event_id, task.attempt));
    let activities: Vec<_> =
        state.activities.values().map(|it| (&it.activity_id, &it.queue, it.attempt, it.started_time)).collect();
    format!(
        "{}: {}; task {task:?}, activities {activities:?}, {} timers",
        run.info.workflow_id,
        names.join(", "),
        state.timers.len()
    )
}

/// Everything at the end of a world.
pub fn final_problems(world: &World) -> Vec<String> {
    let store = &world.disk.content;
    let runs = match stored_runs(store) {
        Ok(runs) => runs,
        Err(error) => return vec![error],
    };
    for stored in &runs {
        world.trace.bytes(&stored.key.0.to_le_bytes());
        stored.events.iter().for_each(|event| world.trace.bytes(&event.encode_to_vec()));
    }
    let ledger = world.ledger.borrow();
    let mut problems: Vec<String> = runs.iter().filter_map(state_problem).collect();
    let troubles = Troubles::of(&world.troubles.borrow());
    for stored in &runs {
        let of_run = late_timers(&stored.events, &troubles).into_iter().chain(waiting_tasks(&stored.events, &troubles));
        problems.extend(of_run.map(|problem| format!("{}: {problem}", stored.run.info.workflow_id)));
        problems.extend(facts_problem(store, stored));
    }
    problems.extend(answers(&ledger, &runs));
    let mut chains: BTreeMap<&str, Vec<&StoredRun>> = BTreeMap::new();
    for stored in &runs {
        chains.entry(&stored.run.info.workflow_id).or_default().push(stored);
    }
    for (id, facts) in &ledger.workflows {
        let chain = chains.get(id.as_str()).map_or(&[][..], Vec::as_slice);
        problems.extend(workflow(facts, chain).into_iter().map(|problem| format!("{id}: {problem}")));
    }
    problems.extend(signals_between(&chains));
    for (id, facts) in &ledger.schedules {
        problems.extend(schedule(id, facts, &chains, &troubles).map(|problem| format!("{id}: {problem}")));
    }
    if store.outbox(None, 1).wait().is_ok_and(|rows| !rows.is_empty()) {
        problems.push("messages between runs are still under way".to_owned());
    }
    problems
}

/// Times in which the world was not whole, in the order of their beginnings.
struct Troubles {
    of_node: Vec<(Millis, Millis)>,
    all: Vec<(Millis, Millis)>,
}

impl Troubles {
    fn of(troubles: &[Trouble]) -> Self {
        let sorted = |chosen: &dyn Fn(&Trouble) -> bool| {
            let mut times: Vec<_> = troubles
                .iter()
                .filter(|trouble| chosen(trouble))
                .map(|trouble| (trouble.from, trouble.until))
                .collect();
            times.sort_unstable();
            times
        };
        Self { of_node: sorted(&|trouble| trouble.is_of_node), all: sorted(&|_| true) }
    }

    /// When something that was due must have happened, if it may take this long while all is well.
    fn deadline(times: &[(Millis, Millis)], due: Millis, slack: Millis) -> Millis {
        times.iter().fold(due + slack, |deadline, (from, until)| {
            match *from <= deadline && until + RECOVERY_MAX > due {
                true => deadline.max(until + RECOVERY_MAX + slack),
                false => deadline,
            }
        })
    }
}

/// The time of an event, in milliseconds since the world began.
fn millis_of(event: &HistoryEvent) -> Millis {
    event.event_time.as_ref().map_or(0, |time| (timestamp_nanos(time) - BEGIN).max(0) as Millis / 1_000_000)
}

fn event_of(events: &[HistoryEvent], id: i64) -> Option<&HistoryEvent> {
    events.get(usize::try_from(id - 1).ok()?)
}

fn late_timers(events: &[HistoryEvent], troubles: &Troubles) -> Vec<String> {
    let mut problems = Vec::new();
    for event in events {
        let Some(A::TimerFiredEventAttributes(fired)) = &event.attributes else { continue };
        let Some(started) = event_of(events, fired.started_event_id) else { continue };
        let Some(A::TimerStartedEventAttributes(timer)) = &started.attributes else { continue };
        let due = millis_of(started) + duration_nanos(timer.start_to_fire_timeout.as_ref()) as Millis / 1_000_000;
        let deadline = Troubles::deadline(&troubles.of_node, due, LATE_MAX);
        if millis_of(event) > deadline {
            problems.push(format!("timer {} was due at {due} ms and fired at {} ms", timer.timer_id, millis_of(event)));
        }
    }
    problems
}

/// Workflow tasks, and first attempts of activities, that waited for a worker for too long.
fn waiting_tasks(events: &[HistoryEvent], troubles: &Troubles) -> Vec<String> {
    let mut problems = Vec::new();
    for event in events {
        let scheduled = match &event.attributes {
            Some(A::WorkflowTaskStartedEventAttributes(it)) => it.scheduled_event_id,
            Some(A::ActivityTaskStartedEventAttributes(it)) if it.attempt <= 1 => it.scheduled_event_id,
            _ => continue,
        };
        let Some(scheduled) = event_of(events, scheduled) else { continue };
        let (from, until) = (millis_of(scheduled), millis_of(event));
        if until > Troubles::deadline(&troubles.all, from, WAIT_MAX) {
            problems.push(format!("task {} waited from {from} ms to {until} ms", scheduled.event_id));
        }
    }
    problems
}

/// What lists show must be what the state says.
fn facts_problem(store: &MemoryStore, stored: &StoredRun) -> Option<String> {
    let row = store.facts(stored.key).wait().ok().flatten();
    let Some(row) = row else { return Some(format!("{} is in no list", stored.run.info.workflow_id)) };
    let is_closed = row.closed.is_some();
    (is_closed == stored.run.is_running()).then(|| {
        format!("{}: lists say that it is {}", stored.run.info.workflow_id, if is_closed { "closed" } else { "open" })
    })
}

/// Each acknowledged answer is in history once, no other one twice.
fn answers(ledger: &Ledger, runs: &[StoredRun]) -> Vec<String> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for (stored, event) in runs.iter().flat_map(|stored| stored.events.iter().map(move |event| (stored, event))) {
        match &event.attributes {
            // The node's own answers have one name.
            Some(A::WorkflowTaskCompletedEventAttributes(_)) if stored.run.state().script.is_some() => {}
            Some(A::WorkflowTaskCompletedEventAttributes(it)) => *found.entry(&it.identity).or_default() += 1,
            Some(A::ActivityTaskCompletedEventAttributes(it)) => *found.entry(&it.identity).or_default() += 1,
            _ => {}
        }
    }
    let mut problems = Vec::new();
    for (identity, answer) in &ledger.answers {
        let times = found.remove(identity.as_str()).unwrap_or_default();
        let kind = if answer.is_activity { "result of an activity" } else { "answer to a workflow task" };
        match times {
            0 if answer.is_acknowledged && !answer.may_leave_no_trace => {
                problems
                    .push(format!("the {kind} of run {} by {identity} was acknowledged and is lost", answer.run_id));
            }
            0 | 1 => {}
            _ => problems.push(format!("the {kind} by {identity} was taken {times} times")),
        }
    }
    problems.extend(found.into_keys().map(|identity| format!("no worker gave the answer of `{identity}`")));
    problems
}

/// What was acknowledged of a workflow is in its runs.
fn workflow(facts: &Facts, chain: &[&StoredRun]) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(run_id) = &facts.run_id {
        let key = run_key_of(run_id).map(RunKey);
        if !chain.iter().any(|stored| Some(stored.key) == key) {
            problems.push(format!("the acknowledged start of {run_id} is lost"));
        }
    }
    let firsts = chain.iter().filter(|stored| !is_continued(stored)).count();
    if firsts > 1 {
        problems.push(format!("it was started {firsts} times"));
    }
    for pair in chain.windows(2) {
        let (end, begin) = (pair[0].events.last().map(millis_of), pair[1].events.first().map(millis_of));
        if end > begin {
            problems.push("two of its runs were open at the same time".to_owned());
        }
    }
    let events = || chain.iter().flat_map(|stored| &stored.events);
    let has = |kind: EventType| events().any(|event| event.event_type() == kind);
    let signals = names_of_signals(chain);
    for (name, is_acknowledged) in &facts.signals {
        match signals.get(name.as_str()).copied().unwrap_or_default() {
            0 if *is_acknowledged => problems.push(format!("the acknowledged {name} is lost")),
            0 | 1 => {}
            times => problems.push(format!("{name} arrived {times} times at one run")),
        }
    }
    // A workflow that has ended already acknowledges it, too.
    let ended_at = chain.last().and_then(|stored| stored.events.last()).map(millis_of);
    if facts.cancelled_at.is_some_and(|told| ended_at.is_none_or(|ended| ended > told))
        && !has(EventType::WorkflowExecutionCancelRequested)
    {
        problems.push("an acknowledged request to cancel is lost".to_owned());
    }
    if facts.terminated_at.is_some() && !has(EventType::WorkflowExecutionTerminated) {
        problems.push("an acknowledged termination is lost".to_owned());
    }
    if let Some((_, result)) = &facts.result
        && !events().any(|event| is_closing(event) && hash_of(event) == *result)
    {
        problems.push("a client read an end that is not in history".to_owned());
    }
    problems.extend(updates(facts, chain));
    problems
}

fn is_continued(stored: &StoredRun) -> bool {
    match stored.events.first().and_then(|first| first.attributes.as_ref()) {
        Some(A::WorkflowExecutionStartedEventAttributes(it)) => !it.continued_execution_run_id.is_empty(),
        _ => false,
    }
}

/// The signals of a chain, and how often each arrived at one run: a run does not know the signals of the one before.
fn names_of_signals<'a>(chain: &[&'a StoredRun]) -> BTreeMap<&'a str, usize> {
    let mut most: BTreeMap<&str, usize> = BTreeMap::new();
    for stored in chain {
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for event in &stored.events {
            if let Some(A::WorkflowExecutionSignaledEventAttributes(it)) = &event.attributes {
                *names.entry(it.signal_name.as_str()).or_default() += 1;
            }
        }
        for (name, times) in names {
            let known = most.entry(name).or_default();
            *known = times.max(*known);
        }
    }
    most
}

/// An update is accepted once under its id, and has the outcome that its caller was told.
fn updates(facts: &Facts, chain: &[&StoredRun]) -> Vec<String> {
    let mut accepted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut outcomes: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for event in chain.iter().flat_map(|stored| &stored.events) {
        match &event.attributes {
            Some(A::WorkflowExecutionUpdateAcceptedEventAttributes(it)) => {
                *accepted.entry(&it.protocol_instance_id).or_default() += 1;
            }
            Some(A::WorkflowExecutionUpdateCompletedEventAttributes(it)) => {
                let id = it.meta.as_ref().map_or("", |meta| &meta.update_id);
                outcomes.entry(id).or_default().push(&it.outcome);
            }
            _ => {}
        }
    }
    let mut problems = Vec::new();
    for (id, times) in accepted.iter().filter(|(_, times)| **times > 1) {
        problems.push(format!("{id} was accepted {times} times"));
    }
    for (id, facts) in &facts.updates {
        if facts.is_accepted && !accepted.contains_key(id.as_str()) {
            problems.push(format!("the acknowledged acceptance of {id} is lost"));
        }
        let stored = outcomes.get(id.as_str()).map_or(&[][..], Vec::as_slice);
        match (&facts.outcome, stored) {
            (Some(_), []) => problems.push(format!("the acknowledged outcome of {id} is lost")),
            (Some(told), [stored]) if Some(told) != stored.as_ref() => {
                problems.push(format!("{id} was answered {told:?}, history says {stored:?}"));
            }
            (_, [] | [_]) => {}
            (_, several) => problems.push(format!("{id} was completed {} times", several.len())),
        }
    }
    problems
}

/// A signal from a workflow arrives once if the sender's history says that it arrived, and at most once if it does not.
fn signals_between(chains: &BTreeMap<&str, Vec<&StoredRun>>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut delivered: BTreeSet<(&str, &str)> = BTreeSet::new();
    for stored in chains.values().flatten() {
        for event in &stored.events {
            let Some(A::ExternalWorkflowExecutionSignaledEventAttributes(it)) = &event.attributes else { continue };
            let Some(asked) = event_of(&stored.events, it.initiated_event_id) else { continue };
            let Some(A::SignalExternalWorkflowExecutionInitiatedEventAttributes(asked)) = &asked.attributes else {
                continue;
            };
            let target = asked.workflow_execution.as_ref().map_or("", |target| &target.workflow_id);
            delivered.insert((target, &asked.signal_name));
        }
    }
    for (target, chain) in chains {
        for (name, times) in names_of_signals(chain) {
            delivered.remove(&(*target, name));
            if times > 1 {
                problems.push(format!("{target}: signal {name} arrived {times} times"));
            }
        }
    }
    problems.extend(delivered.into_iter().map(|(target, name)| format!("{target}: {name} was delivered and is lost")));
    problems
}

/// A schedule starts one workflow for each of its times.
fn schedule(
    id: &str,
    facts: &ScheduleFacts,
    chains: &BTreeMap<&str, Vec<&StoredRun>>,
    troubles: &Troubles,
) -> Option<String> {
    let prefix = format!("{id}-workflow-");
    let started: Vec<_> = chains.iter().filter(|(id, _)| id.starts_with(&prefix)).collect();
    if let Some((id, runs)) = started.iter().find(|(_, runs)| runs.len() > 1) {
        return Some(format!("{id} was started {} times", runs.len()));
    }
    let deleted_at = facts.deleted_at?;
    let interval = facts.interval_seconds * 1000;
    let phase = (BEGIN / 1_000_000) as u64 % interval;
    // Nominal times after the creation that were surely carried out before the deletion.
    let first = facts.created_at + interval - (facts.created_at + phase) % interval;
    let expected = (0..)
        .map(|number| first + number * interval)
        .take_while(|due| Troubles::deadline(&troubles.of_node, *due, LATE_MAX) < deleted_at)
        .count();
    (started.len() < expected).then(|| format!("of {expected} workflows {} were started", started.len()))
}
