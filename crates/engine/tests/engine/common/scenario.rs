//! Scenario files: steps a person can read, and what the engine makes of them.
//!
//! A line `> step` does something; the lines under it, up to the next blank line or comment, say what came of it: how
//! durable the transition is, its events, messages and offers, and when the run wants to be woken if that changed.
//! `@10s` in front of a step sets the clock to ten seconds after the beginning. After every step everything in
//! [`super::invariants`] is checked.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use segno_engine::{
    Durability, Effect, Rejection, Transition,
    activity::{self, ActivityRef, Taker},
    cancel::{self, CancelRequest},
    children,
    complete_task::Completed,
    external,
    outbox::StartChild,
    signal::{self, Signal},
    start::{self, Start},
    state::{Parent, TaskKind, WorkflowTask},
    task_calls::{self, FailTask, TaskRef},
    terminate::{self, Terminate},
    update::admit,
    wake,
    worker_lost::{self, LostAttempts, LostWork},
};
use segno_proto::{
    Nanos,
    common::WorkflowExecution,
    enums::{
        CancelExternalWorkflowExecutionFailedCause as CancelCause,
        SignalExternalWorkflowExecutionFailedCause as SignalCause,
        StartChildWorkflowExecutionFailedCause as StartCause, WorkflowTaskFailedCause,
    },
    events::{self, HistoryEvent, history_event::Attributes as A},
    nanos_duration,
    taskqueue::StickyExecutionAttributes,
};

use super::{
    invariants, nexus_steps, operations, reset_steps, show, update_steps, versions,
    words::{self, Words},
    world::{EPOCH, StepResult, World, answer, queue, start_request},
};

/// Runs one file; returns it with the results as they are.
pub fn run_file(path: &Path) -> (String, String) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut scenario = Scenario::default();
    let mut output = String::new();
    let mut in_result = false;
    for line in text.lines() {
        if let Some(step) = line.strip_prefix("> ") {
            output.push_str(line);
            output.push('\n');
            output.push_str(&scenario.step(step));
            in_result = true;
        } else if line.is_empty() || line.starts_with('#') {
            in_result = false;
            output.push_str(line);
            output.push('\n');
        } else {
            assert!(in_result, "{}: {line:?} belongs to no step", path.display());
        }
    }
    (text, output)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// The file of one scenario.
pub fn file(name: &str) -> PathBuf {
    folder().join(name).with_extension("txt")
}

/// All scenario files, by name.
pub fn files() -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder())
        .expect("the scenarios are there")
        .map(|entry| entry.expect("a folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}

/// Who takes an activity: `worker=` names the process, `control=` its queue for commands.
fn taker(words: &Words<'_>) -> Taker {
    Taker {
        identity: "worker".to_owned(),
        request_id: "start".to_owned(),
        worker: words.get("worker").unwrap_or_default().to_owned(),
        control_queue: words.get("control").unwrap_or_default().to_owned(),
        poller: versions::poller(words),
        target: versions::target(words),
        ..Default::default()
    }
}

#[derive(Default)]
struct Scenario {
    world: Option<World>,
    tokens: BTreeMap<String, TaskRef>,
    activity_starts: BTreeMap<String, ActivityRef>,
    wake_shown: Option<Nanos>,
    /// Updates so far, and how they stood when last shown.
    updates: BTreeMap<String, String>,
}

impl Scenario {
    fn step(&mut self, line: &str) -> String {
        let mut line = line.trim();
        let mut at = None;
        if let Some(rest) = line.strip_prefix('@') {
            let (time, rest) = rest.split_once(' ').expect("a step follows the time");
            at = Some(EPOCH + words::nanos(time));
            line = rest.trim();
        }
        let words = Words::parse(line.split_once(':').map_or(line, |(head, _)| head));
        if words.name == "start" {
            return self.begin(&words, at.unwrap_or(EPOCH));
        }
        if words.name == "start-operation" {
            return self.begin_alone(nexus_steps::start_alone(line), at.unwrap_or(EPOCH));
        }
        let mut world = self.world.take().expect("a scenario begins with start");
        if let Some(at) = at {
            assert!(at >= world.now, "time goes forward");
            world.now = at;
        }
        let before = world.clone();
        let mut result = String::new();
        match words.name {
            "show" => result = show_all(&world),
            "limits" => {
                let set = |name| words.get(name).map(|value| value.parse().expect("a limit is a number"));
                let limits = &mut world.limits;
                limits.history_events_suggest = set("events").unwrap_or(limits.history_events_suggest);
                limits.history_bytes_suggest = set("bytes").unwrap_or(limits.history_bytes_suggest);
                limits.lost_workers = set("lost-workers").map_or(limits.lost_workers, |most| most as usize);
            }
            "crash" => {
                world.crash();
                result = self.outcome(&before, &world, "crashed", None);
            }
            "follow" => {
                let transition = world.follow().expect("another run follows");
                self.tokens.clear();
                let empty = World { stored: Vec::new(), ..before };
                result = self.outcome(&empty, &world, durability(&transition), Some(&transition));
            }
            _ => {
                let times: usize = words.get("times").map_or(1, |n| n.parse().expect("times is a number"));
                for time in 1..=times {
                    let (text, transition) = match self.call(&mut world, &words, line) {
                        Ok((note, transition)) => (format!("{}{note}", durability(&transition)), Some(transition)),
                        Err(rejection) => (format!("refused: {rejection}"), None),
                    };
                    if transition.is_none() {
                        assert_eq!(world.run.state(), before.run.state(), "a refused call changes nothing");
                    }
                    if time == times {
                        result = self.outcome(&before, &world, &text, transition.as_ref());
                    }
                }
            }
        }
        invariants::check(&world);
        self.world = Some(world);
        result
    }

    fn begin(&mut self, words: &Words<'_>, now: Nanos) -> String {
        let mut call = start_request();
        let options = &mut call.options;
        options.workflow_run_timeout = words.duration("run-timeout");
        options.workflow_execution_timeout = words.duration("execution-timeout");
        options.workflow_task_timeout = words.duration("task-timeout");
        options.start_delay = words.duration("delay");
        options.retry_policy = words.retry();
        options.cron_schedule = words.get("cron").unwrap_or_default().replace('_', " ");
        if words.flag("child") {
            call.parent = Some(Parent {
                namespace_key: 1,
                namespace_id: "ns".to_owned(),
                namespace: "default".to_owned(),
                execution: WorkflowExecution { workflow_id: "parent".to_owned(), run_id: "parent-run".to_owned() },
                initiated_event_id: 5,
            });
        }
        versions::begin(&mut call.options, words);
        let (mut world, mut transition) = World::begin(call.clone(), now);
        if let Some(name) = words.get("signal") {
            let signal = Signal { name: name.to_owned(), ..Default::default() };
            let applied = start::begin(call.clone(), Some(signal), world.context()).finish(());
            world = World { stored: Vec::new(), durable: 0, run: applied.run.clone(), ..world };
            transition = world.take(applied).transition;
        }
        if let Some(id) = words.get("update") {
            self.updates.entry(id.to_owned()).or_default();
            let mut draft = start::begin(call, None, world.context());
            let text = format!("update {id}");
            let admitted = admit::admit_into(&mut draft, update_steps::admission(&Words::parse(&text)));
            admitted.expect("a new run takes an update");
            let applied = draft.finish(());
            world = World { stored: Vec::new(), durable: 0, run: applied.run.clone(), ..world };
            transition = world.take(applied).transition;
        }
        let empty = World { stored: Vec::new(), ..world.clone() };
        let result = self.outcome(&empty, &world, durability(&transition), Some(&transition));
        invariants::check(&world);
        self.world = Some(world);
        result
    }

    /// A run that is no workflow.
    fn begin_alone(&mut self, call: Start, now: Nanos) -> String {
        let (world, transition) = World::begin(call, now);
        let empty = World { stored: Vec::new(), ..world.clone() };
        let result = self.outcome(&empty, &world, durability(&transition), Some(&transition));
        invariants::check(&world);
        self.world = Some(world);
        result
    }

    /// One call on the run. The text is added to the first line of the result.
    fn call(&mut self, world: &mut World, words: &Words<'_>, line: &str) -> Result<(String, Transition), Rejection> {
        let plain = |taken: StepResult<()>| (String::new(), taken.transition);
        let token = |scenario: &Self, world: &World| match words.get("token") {
            Some(name) => *scenario.tokens.get(name).expect("a token of that name was kept"),
            None => world.token(),
        };
        match words.name {
            "task" => {
                let (queue, worker) = (words.get("queue").unwrap_or("q"), words.get("worker").unwrap_or_default());
                let taken = world.start_task_of(queue, worker, versions::poller(words), versions::target(words))?;
                if let Some(name) = words.get("as") {
                    self.tokens.insert(name.to_owned(), world.token());
                }
                let unwritten = segno_engine::workflow_task::unwritten_events(&world.run, true);
                let shown: Vec<_> =
                    unwritten.iter().map(|event| format!("{} {}", event.event_id, show::event(event))).collect();
                let note =
                    if shown.is_empty() { String::new() } else { format!(", not written: {}", shown.join(", ")) };
                Ok((format!("{note}{}", update_steps::show_messages(&taken.reply)), taken.transition))
            }
            "answer" => {
                let mut call = answer(token(self, world));
                call.force_new_task = words.flag("force");
                call.return_new_task = words.flag("inline");
                call.discards_with_events = !words.flag("remembers");
                call.update_limits = update_steps::limits(words);
                versions::answer(&mut call, words);
                call.sticky = words.get("sticky").map(|timeout| StickyExecutionAttributes {
                    worker_task_queue: Some(queue("sticky")),
                    schedule_to_start_timeout: Some(nanos_duration(words::nanos(timeout))),
                });
                if let Some((_, commands)) = line.split_once(':') {
                    let said = commands.split(';').map(str::trim).filter(|said| !said.is_empty());
                    update_steps::say(&mut call, said);
                }
                if let Some(many) = words.get("repeat-command") {
                    let count: usize = many.parse().expect("a number");
                    let text = line.split_once(':').map_or("", |(_, command)| command.trim());
                    call.commands = (0..count).map(|n| words::command(&text.replace("%", &n.to_string()))).collect();
                }
                let taken = world.complete_task(call)?;
                Ok((completed(&taken.reply), taken.transition))
            }
            "fail-task" => {
                let cause = match words.get("cause") {
                    None => WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
                    Some(name) => WorkflowTaskFailedCause::from_str_name(&format!("WORKFLOW_TASK_FAILED_CAUSE_{name}"))
                        .expect("a known cause"),
                };
                let call = FailTask {
                    token: token(self, world),
                    cause,
                    failure: None,
                    identity: "worker".to_owned(),
                    binary_checksum: String::new(),
                    worker_version: None,
                };
                world.call(|run, context| task_calls::fail(run, context, call)).map(plain)
            }
            "give-back" => {
                let started = token(self, world).started_time;
                world.call(|run, context| task_calls::give_back(run, context, started)).map(plain)
            }
            "worker-lost" => {
                let lost = LostWork::Worker { worker: words.at(0).to_owned(), is_leaving: words.flag("leaving") };
                let taken =
                    world.call(|run, context| worker_lost::activities(run, context, &lost, "its lease ran out"))?;
                let LostAttempts { rescheduled, quarantined, failed } = taken.reply;
                let quarantined = match quarantined {
                    0 => String::new(),
                    some => format!(" ({some} quarantined)"),
                };
                Ok((format!(", {rescheduled} rescheduled{quarantined}, {failed} failed"), taken.transition))
            }
            "task-lost" => {
                let worker = words.at(0);
                let taken = world.call(|run, context| worker_lost::workflow_task(run, context, worker))?;
                Ok((if taken.reply { String::new() } else { ", not its task".to_owned() }, taken.transition))
            }
            "reset-sticky" => world.call(task_calls::reset_sticky).map(plain),
            "signal" => {
                let call = Signal {
                    name: words.at(0).to_owned(),
                    request_id: words.get("request").unwrap_or_default().to_owned(),
                    input: words.get("bytes").map(|bytes| words::payloads(bytes.parse().expect("a number"))),
                    ..Default::default()
                };
                world.call(|run, context| signal::signal(run, context, call)).map(plain)
            }
            "cancel" => {
                world.call(|run, context| cancel::request_cancel(run, context, CancelRequest::default())).map(plain)
            }
            "terminate" => {
                let call = Terminate { reason: "asked to".to_owned(), ..Default::default() };
                world.call(|run, context| terminate::terminate(run, context, call)).map(plain)
            }
            "wake" => Ok(plain({
                let applied = wake::wake(&world.run, world.context());
                world.take(applied)
            })),
            "update" => {
                if !words.at(0).contains('%') {
                    self.updates.entry(words.at(0).to_owned()).or_default();
                }
                update_steps::update(world, words)
            }
            "reset" => reset_steps::step(world, words),
            "override" => versions::change(world, words),
            name if nexus_steps::knows(name) => nexus_steps::call(world, words),
            name if operations::knows(name) => operations::call(world, words),
            name if name.starts_with("activity-") => self.activity_call(world, words),
            "child-started" | "child-not-started" | "child-closed" => child_call(world, words),
            "signal-result" => {
                let result =
                    if words.flag("failed") { Err(SignalCause::ExternalWorkflowExecutionNotFound) } else { Ok(()) };
                let id = words.number(0);
                world.call(|run, context| external::signal_result(run, context, id, result)).map(plain)
            }
            "cancel-result" => {
                let result =
                    if words.flag("failed") { Err(CancelCause::ExternalWorkflowExecutionNotFound) } else { Ok(()) };
                let id = words.number(0);
                world.call(|run, context| external::cancel_result(run, context, id, result)).map(plain)
            }
            other => panic!("{other:?} is no step"),
        }
    }

    fn activity_call(&mut self, world: &mut World, words: &Words<'_>) -> Result<(String, Transition), Rejection> {
        let plain = |taken: StepResult<()>| (String::new(), taken.transition);
        let name = words.at(0);
        let who = || "worker".to_owned();
        let found = world.run.state().activities.values().find(|activity| activity.activity_id == name).cloned();
        let reference = if words.flag("by-id") {
            ActivityRef::Id(name.to_owned())
        } else {
            self.activity_starts.get(name).cloned().unwrap_or(ActivityRef::Token {
                scheduled_event_id: 0,
                attempt: 0,
                started_time: 0,
            })
        };
        let big = words.flag("big").then(|| words::payloads(segno_engine::limits::BLOB_BYTES_MAX + 1));
        match words.name {
            "activity-start" => {
                let found = found.unwrap_or_default();
                let stamp: u32 = words.get("stamp").map_or(found.stamp, |stamp| stamp.parse().expect("a number"));
                let id = found.scheduled_event_id;
                let taken = world.call(|run, context| activity::start(run, context, id, stamp, taker(words)))?;
                let Some(started) = taken.reply else { return Ok((", not now".to_owned(), taken.transition)) };
                self.activity_starts.insert(
                    name.to_owned(),
                    ActivityRef::Token {
                        scheduled_event_id: id,
                        attempt: started.attempt,
                        started_time: started.started_time,
                    },
                );
                Ok((format!(", attempt {}", started.attempt), taken.transition))
            }
            "activity-complete" => {
                world.call(|run, context| activity::complete(run, context, &reference, big, who(), None)).map(plain)
            }
            "activity-fail" => {
                let failure = Some(words.failure());
                world
                    .call(|run, context| activity::fail(run, context, &reference, failure, who(), None, None))
                    .map(plain)
            }
            "activity-heartbeat" => {
                let taken = world.call(|run, context| activity::heartbeat(run, context, &reference, big, who()))?;
                let told = [
                    (taken.reply.cancel_requested, ", told to cancel"),
                    (taken.reply.paused, ", told to pause"),
                    (taken.reply.reset, ", told of a reset"),
                ];
                Ok((told.iter().filter(|(is, _)| *is).map(|(_, note)| *note).collect(), taken.transition))
            }
            "activity-cancel" => {
                world.call(|run, context| activity::cancel(run, context, &reference, big, who(), None)).map(plain)
            }
            "activity-give-back" => {
                let found = found.unwrap_or_default();
                let (id, started) = (found.scheduled_event_id, found.started_time);
                world.call(|run, context| activity::give_back(run, context, id, started)).map(plain)
            }
            other => panic!("{other:?} is no step"),
        }
    }

    /// What a step made of the world, as text.
    fn outcome(&mut self, before: &World, after: &World, first: &str, transition: Option<&Transition>) -> String {
        let mut text = format!("{first}\n");
        let (old, new) = (before.history(), after.history());
        let common = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
        for event in &old[common..] {
            let _ = writeln!(text, "  gone: {} {}", event.event_id, show::event(event));
        }
        list(&mut text, new[common..].iter().map(|event| format!("{} {}", event.event_id, show::event(event))));
        let waiting = &after.run.state().buffered;
        let known = before.run.state().buffered.len().min(waiting.len());
        if waiting.len() > before.run.state().buffered.len() || new.len() == old.len() {
            list(&mut text, waiting[known..].iter().map(|event| format!("buffered: {}", show::event(event))));
        }
        if let Some(transition) = transition {
            for message in &transition.outbox {
                let _ = writeln!(text, "  send {}", show::message(message));
            }
            list(&mut text, transition.effects.iter().map(|effect| show_effect(effect, after)));
            if let Some(successor) = &transition.successor {
                let due = successor.run.state().first_task_due;
                let held = if due == 0 { String::new() } else { format!(", first task at {}", show::time(due)) };
                let _ = writeln!(text, "  followed by a run{held}");
            }
        }
        for (id, shown) in &mut self.updates {
            let standing = update_steps::standing(&after.run, id);
            if standing != *shown {
                let _ = writeln!(text, "  update {id}: {standing}");
                *shown = standing;
            }
        }
        let wake = after.wake_at();
        if wake != self.wake_shown {
            let _ = writeln!(text, "  wake {}", wake.map_or("never".to_owned(), show::time));
            self.wake_shown = wake;
        }
        text
    }
}

/// Long lists show where they begin and end.
fn list(text: &mut String, lines: impl Iterator<Item = String>) {
    const SHOWN: usize = 12;
    let lines: Vec<_> = lines.collect();
    for (index, line) in lines.iter().enumerate() {
        if lines.len() > SHOWN && index == 2 {
            let _ = writeln!(text, "  ... {} more", lines.len() - 5);
        }
        if lines.len() <= SHOWN || index < 2 || index + 3 >= lines.len() {
            let _ = writeln!(text, "  {line}");
        }
    }
}

fn durability(transition: &Transition) -> &'static str {
    match transition.durability {
        Durability::Unchanged => "unchanged",
        Durability::Memory => "memory",
        Durability::Durable => "durable",
    }
}

fn completed(reply: &Completed) -> String {
    let mut text = String::new();
    if let Some(failure) = &reply.failure {
        let _ = write!(text, ", task failed: {}", failure.worker_message());
    }
    if reply.heartbeat_timed_out {
        text.push_str(", heartbeat timed out");
    }
    if let Some(task) = &reply.new_task {
        let kind = speculative(task);
        let _ = write!(text, ", next task {} attempt={}{kind}", task.scheduled_event_id, task.attempt);
    }
    text.push_str(&update_steps::show_messages(&reply.new_messages));
    if reply.reset_history_event_id > 0 {
        let _ = write!(text, ", back to event {}", reply.reset_history_event_id);
    }
    for activity in &reply.eager_activities {
        let _ = write!(text, ", runs {} itself", activity.activity_id);
    }
    text
}

fn speculative(task: &WorkflowTask) -> &'static str {
    if task.kind() == TaskKind::Speculative { " speculative" } else { "" }
}

fn show_effect(effect: &Effect, world: &World) -> String {
    match effect {
        Effect::OfferWorkflowTask => {
            let task = world.run.state().task.clone().unwrap_or_default();
            let timeout = show::duration(task.start_to_close);
            let kind = speculative(&task);
            format!("offer workflow task on {} attempt={} timeout={timeout}{kind}", task.queue, task.attempt)
        }
        Effect::StopActivity(stop) => {
            format!("stop activity {} attempt={} by way of {}", stop.activity_id, stop.attempt, stop.control_queue)
        }
        Effect::OfferNexusRequest(id) => format!("offer request of operation {id}"),
        Effect::OfferActivity(id) => {
            let activity = world.run.state().activities.get(id).cloned().unwrap_or_default();
            format!("offer activity {} on {} attempt={}", activity.activity_id, activity.queue, activity.attempt)
        }
    }
}

/// Everything, in one place: the whole history and what is pending.
fn show_all(world: &World) -> String {
    let mut text = format!("{:?} after {} durable transitions\n", world.run.status(), world.durable);
    list(&mut text, world.history().iter().map(|event| format!("{} {}", event.event_id, show::event(event))));
    let state = world.run.state();
    if let Some(task) = &state.task {
        let place = if task.started_event_id == 0 { "waits" } else { "started" };
        let kind = speculative(task);
        let _ = writeln!(text, "  pending task attempt={} {place} on {}{kind}", task.attempt, task.queue);
    }
    text.push_str(&versions::show(&world.run));
    for activity in state.activities.values() {
        let place = if activity.started_time == 0 { "waits" } else { "runs" };
        let paused = if activity.pause.is_some() { ", paused" } else { "" };
        let _ =
            writeln!(text, "  pending activity {} attempt={} {place}{paused}", activity.activity_id, activity.attempt);
    }
    if let Some(paused) = state.search_attributes.get(segno_engine::pause::ATTRIBUTE) {
        let _ = writeln!(text, "  search attribute {}", String::from_utf8_lossy(&paused.data));
    }
    for (id, timer) in &state.timers {
        let _ = writeln!(text, "  pending timer {id} at {}", show::time(timer.fire_at));
    }
    for name in state.memo.keys() {
        let _ = writeln!(text, "  memo {name}");
    }
    // Those that the server sets follow from the rest.
    for name in state.search_attributes.keys().filter(|name| name.starts_with("Custom")) {
        let _ = writeln!(text, "  search attribute {name}");
    }
    for operation in state.operations.values() {
        let place = if operation.is_started() { "started" } else { "scheduled" };
        let attempts = operation.start.attempts;
        let _ = writeln!(text, "  pending operation {} {place}, attempts={attempts}", operation.operation);
    }
    text.push_str(&nexus_steps::show_alone(&world.run));
    for child in state.children.values() {
        let _ = writeln!(text, "  pending child {} started={}", child.workflow_id, child.started_event_id);
    }
    text
}

fn child_call(world: &mut World, words: &Words<'_>) -> Result<(String, Transition), Rejection> {
    let id: i64 = words.number(0);
    let message = StartChild { initiated_event_id: id, ..Default::default() };
    let run_id = "child-run";
    let taken = match words.name {
        "child-started" => world.call(|run, context| children::started(run, context, &message, run_id))?,
        "child-not-started" => world
            .call(|run, context| children::start_failed(run, context, &message, StartCause::WorkflowAlreadyExists))?,
        _ => {
            let attributes = match words.at(1) {
                "completed" => A::WorkflowExecutionCompletedEventAttributes(Default::default()),
                "failed" => A::WorkflowExecutionFailedEventAttributes(Default::default()),
                "canceled" => A::WorkflowExecutionCanceledEventAttributes(Default::default()),
                "timed-out" => A::WorkflowExecutionTimedOutEventAttributes(Default::default()),
                "terminated" => A::WorkflowExecutionTerminatedEventAttributes(
                    events::WorkflowExecutionTerminatedEventAttributes::default(),
                ),
                other => panic!("a child does not end {other:?}"),
            };
            let closing = HistoryEvent { attributes: Some(attributes), ..Default::default() };
            world.call(|run, context| children::closed(run, context, id, run_id, closing))?
        }
    };
    Ok((String::new(), taken.transition))
}
