//! Random lives of a run that is sent updates: admitted in memory or durably, answered, ignored, lost in crashes, carried
//! through failures, timeouts and resets. After every step everything in [`common::invariants`] holds, and each update
//! went a way that it may go: none is lost that was stored, none is answered twice, and when workers do their duty in the
//! end, none is left waiting. State made from history is what the run has.
//!
//! A seed gives the same life on every machine. To repeat one: `SEED=7 cargo test -p segno-engine --test
//! update_properties`.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{
    invariants, operations,
    random::Random,
    rebuilt, reset_steps, update_steps,
    words::Words,
    world::{EPOCH, SECOND, World, answer, queue, start_request},
};
use segno_engine::{
    Durability, Rejection,
    activity::{self, ActivityRef, Taker},
    complete_task::CompleteTask,
    reset::Reset,
    signal::{self, Signal},
    state::{RunState, UpdateRecord},
    task_calls::{self, FailTask, TaskRef},
    terminate::{self, Terminate},
    update::{
        UpdateLimits,
        admit::{self, Admit},
        status::{self, Status},
    },
    wake,
};
use segno_proto::{
    common::RetryPolicy,
    enums::{WorkflowExecutionStatus, WorkflowTaskFailedCause},
    events::{HistoryEvent, history_event::Attributes as A},
    nanos_duration,
    taskqueue::StickyExecutionAttributes,
    update::{Outcome, outcome},
};

const SEEDS: u64 = 200;
const STEPS: usize = 100;

/// A life under way.
struct Life {
    random: Random,
    world: World,
    /// Tokens of tasks, fresh and stale.
    tokens: Vec<TaskRef>,
    names: usize,
    /// Updates that earlier runs of the chain completed.
    completed: BTreeSet<String>,
    log: Vec<String>,
    /// How often something happened, to see that lives mean something.
    counts: BTreeMap<&'static str, usize>,
}

/// What a step did to the run as a whole.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Call,
    Crash,
    /// Another run is looked at now.
    NewRun,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut call = start_request();
        if random.once_in(4) {
            call.options.start_delay = Some(nanos_duration(30 * SECOND));
        }
        if random.once_in(3) {
            call.options.workflow_run_timeout = Some(nanos_duration(60 * SECOND));
            call.options.retry_policy = Some(RetryPolicy {
                initial_interval: Some(nanos_duration(2 * SECOND)),
                backoff_coefficient: 1.0,
                ..Default::default()
            });
        }
        let (world, _) = World::begin(call, EPOCH);
        let completed = BTreeSet::new();
        Self { random, world, tokens: Vec::new(), names: 0, completed, log: Vec::new(), counts: BTreeMap::new() }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn step(&mut self) {
        self.world.now += match self.random.below(8) {
            0 => 7 * SECOND,
            1 | 2 => SECOND,
            _ => 1,
        };
        let before = self.world.clone();
        let mut kind = Kind::Call;
        let (what, refused) = match self.random.below(100) {
            0..=24 => self.update(),
            25..=44 => self.take_task(),
            45..=69 => self.answer(),
            70..=72 => self.fail_task(),
            73..=75 => self.give_back(),
            76..=79 => self.signal(),
            80 => self.operate("pause-run request=r1"),
            81 | 82 => self.operate("unpause-run"),
            83 | 84 => self.activity(),
            85..=90 => {
                self.world.now = self.world.wake_at().unwrap_or(self.world.now).max(self.world.now);
                let applied = wake::wake(&self.world.run, self.world.context());
                self.world.take(applied);
                ("wake".to_owned(), None)
            }
            91..=94 => {
                if !self.world.run.updates().waiting().is_empty() {
                    self.count("crashed with updates");
                }
                self.world.crash();
                kind = Kind::Crash;
                ("crash".to_owned(), None)
            }
            95..=96 => {
                let (what, refused) = self.reset();
                if refused.is_none() {
                    kind = Kind::NewRun;
                }
                (what, refused)
            }
            97 if self.random.once_in(4) => (
                "terminate".to_owned(),
                self.world.call(|run, context| terminate::terminate(run, context, Terminate::default())).err(),
            ),
            _ => ("reset sticky".to_owned(), self.world.call(task_calls::reset_sticky).err()),
        };
        let text = refused.as_ref().map_or(String::new(), |refused| format!(": refused: {refused}"));
        self.log.push(format!("@{} {what}{text}", self.world.now - EPOCH));
        if refused.is_some() {
            assert_eq!(before.run.state(), self.world.run.state(), "a refused call changes nothing");
            assert_eq!(before.run.tail(), self.world.run.tail(), "a refused call changes nothing");
        }
        invariants::check(&self.world);
        let task = |world: &World| world.run.state().task.as_ref().map(|task| task.stamp);
        if before.run.is_speculating() && !self.world.run.is_speculating() && task(&before) == task(&self.world) {
            self.count("converted");
        }
        if kind != Kind::NewRun {
            check_ways(&before, &self.world, kind);
        }
        if self.world.run.is_running() {
            rebuilt::check(&self.world.run, &self.world.history());
        } else {
            self.follow();
        }
    }

    /// Goes on with the run that follows one that closed: it knows what the chain completed, and has what no worker answered.
    fn follow(&mut self) {
        let closed = self.world.run.clone();
        if self.world.follow().is_none() {
            return;
        }
        self.tokens.clear();
        invariants::check(&self.world);
        let records = closed.update_records();
        self.completed
            .extend(records.iter().filter(|(_, record)| record.completed_event_id > 0).map(|(id, _)| id.clone()));
        for (id, record) in records {
            let waited = record.admitted_event_id > 0 && record.accepted_event_id == 0 && record.rejection.is_none();
            if waited && closed.status() == WorkflowExecutionStatus::TimedOut {
                assert_eq!(status::of(&self.world.run, &id), Some(Status::Admitted), "{id} goes to the next run");
                self.count("moved");
            }
        }
    }

    /// An operator pauses or unpauses the run.
    fn operate(&mut self, text: &str) -> (String, Option<Rejection>) {
        (text.to_owned(), operations::call(&mut self.world, &Words::parse(text)).err())
    }

    fn update(&mut self) -> (String, Option<Rejection>) {
        let id =
            if self.random.once_in(3) { format!("u{}", self.random.below(self.names.max(1))) } else { self.name("u") };
        let durable = self.random.once_in(4);
        let limits = if self.random.once_in(4) {
            UpdateLimits { in_flight: 4, in_flight_bytes: 0, total: 12 }
        } else {
            UpdateLimits::default()
        };
        let mut call = Admit::new(update_steps::request(&id, self.random.below(50)), durable, limits);
        let earlier = status::earlier_runs(&self.world.run, &id, &[]);
        let known = status::of(&self.world.run, &id).is_some();
        assert_eq!(self.completed.contains(&id) && !known, self.completed_in(&earlier, &id), "{id} in {earlier:?}");
        if !earlier.is_empty() {
            let answered =
                self.world.call(|run, context| admit::admit(run, context, call.clone())).expect("it is known");
            assert_eq!((answered.reply, answered.transition.durability), (earlier.clone(), Durability::Unchanged));
            if self.completed.contains(&id) {
                self.count("completed earlier");
                return (format!("update {id}, completed in one of {earlier:?}"), None);
            }
            call.searched = earlier;
        }
        let result = self.world.call(|run, context| admit::admit(run, context, call));
        if result.is_ok() && self.world.run.is_running() {
            let standing = status::of(&self.world.run, &id).expect("an update that was taken in is known");
            assert!(!matches!(standing, Status::Aborted(_)), "it is taken in anew");
        }
        if let Ok(taken) = &result
            && !durable
        {
            let stored = taken.transition.durability == Durability::Durable;
            assert!(!stored || !self.world.run.is_speculating(), "a plain update costs no write");
        }
        (format!("update {id}{}", if durable { " durable" } else { "" }), result.err())
    }

    /// Whether one of these earlier runs completed an update.
    fn completed_in(&self, runs: &[u64], id: &str) -> bool {
        let searched = self.world.earlier.iter().filter(|(run, _)| runs.contains(&run.info.run_key));
        let mut records = searched.filter_map(|(run, _)| run.update_record(id));
        records.any(|record| record.completed_event_id > 0)
    }

    fn take_task(&mut self) -> (String, Option<Rejection>) {
        let queue = self.random.pick(&["q", "sticky"]).unwrap_or_default();
        let stored = self.world.stored_state.clone();
        let result = self.world.start_task(queue);
        if result.is_ok() {
            assert_eq!(stored, self.world.stored_state, "the start of a turn is not stored");
            self.tokens.push(self.world.token());
            let messages: BTreeSet<_> =
                result.iter().flat_map(|taken| &taken.reply).map(|m| m.protocol_instance_id.clone()).collect();
            for update in self.world.run.updates().waiting() {
                assert!(update.sent, "the worker that takes a task from the queue gets everything");
                assert_eq!(messages.contains(&update.id), update.request.is_some(), "{}", update.id);
            }
        }
        (format!("take task from {queue}"), result.err())
    }

    fn token(&mut self) -> TaskRef {
        match self.random.once_in(10) {
            true => self.random.pick(&self.tokens.clone()).unwrap_or_else(|| self.world.token()),
            false => self.world.token(),
        }
    }

    /// What a worker says: something about most updates that it has, and a few commands.
    fn answer(&mut self) -> (String, Option<Rejection>) {
        let mut call = answer(self.token());
        call.force_new_task = self.random.once_in(8);
        call.return_new_task = self.random.once_in(2);
        call.discards_with_events = self.random.once_in(2);
        if self.random.once_in(3) {
            call.sticky = Some(StickyExecutionAttributes {
                worker_task_queue: Some(queue("sticky")),
                schedule_to_start_timeout: Some(nanos_duration(5 * SECOND)),
            });
        }
        let said = self.say();
        update_steps::say(&mut call, said.iter());
        let options = format!("force={} inline={}", call.force_new_task, call.return_new_task);
        let what = format!("answer {options}: {}", said.join("; "));
        (what, self.complete(call).err())
    }

    fn say(&mut self) -> Vec<String> {
        let run = self.world.run.clone();
        let mut said = Vec::new();
        if self.random.once_in(3) {
            // A turn for nothing, which may leave no trace.
            said.extend(run.updates().waiting().iter().filter(|u| u.sent).map(|u| format!("reject {}", u.id)));
            return said;
        }
        for update in run.updates().waiting().iter().filter(|update| update.sent) {
            let id = &update.id;
            let echo = if self.random.once_in(2) { " echo" } else { "" };
            match self.random.below(10) {
                0..=2 => said.push(format!("accept {id}{echo}")),
                3 | 4 => said.extend([format!("accept {id}{echo}"), format!("respond {id}")]),
                5 => said.extend([format!("accept {id} bare"), format!("respond {id} bare failed")]),
                6..=8 => said.push(format!("reject {id}{echo}")),
                _ => {}
            }
        }
        for (id, record) in &run.state().updates {
            if record.is_accepted() && self.random.once_in(3) {
                said.push(format!("respond {id}"));
            }
        }
        // Half of the turns say nothing else, so that some of them can be discarded.
        if self.random.once_in(2) {
            for _ in 0..self.random.below(3) {
                said.push(match self.random.below(6) {
                    0 => format!("timer {} {}s", self.name("t"), self.random.below(20)),
                    1 => format!("activity {} start-to-close=9s retry=2/1s", self.name("a")),
                    2 => format!("memo {}", self.name("m")),
                    3 => "search-attribute CustomKeyword".to_owned(),
                    4 => format!("child {}", self.name("c")),
                    _ => "marker m".to_owned(),
                });
            }
        }
        match self.random.below(40) {
            0 => said.push("respond nobody".to_owned()),
            1 => said.push("refer nobody".to_owned()),
            2 => said.push(format!("accept {} echo bare", self.name("forgotten"))),
            3 => said.push("complete".to_owned()),
            4 | 5 => said.push("continue".to_owned()),
            6 => said.push("fail".to_owned()),
            _ => {}
        }
        said
    }

    fn complete(&mut self, call: CompleteTask) -> Result<(), Rejection> {
        let before = self.world.clone();
        let taken = self.world.complete_task(call)?;
        if taken.transition.durability == Durability::Memory && taken.reply.failure.is_some() {
            self.count("refused for those who wait");
            assert_eq!(before.stored_state, self.world.stored_state, "a later attempt that is no good stores nothing");
            return Ok(());
        }
        if taken.transition.durability == Durability::Memory {
            self.count("discarded");
            assert!(before.run.is_speculating(), "only a speculative task leaves no trace");
            assert_eq!(before.stored_state, self.world.stored_state, "a discarded task leaves no trace");
            assert_eq!(forgetful(before.run.state()), forgetful(self.world.run.state()), "nor in memory");
            assert_eq!(taken.reply.reset_history_event_id, before.run.state().last_completed_started_id);
        }
        if taken.reply.new_task.is_some() {
            self.tokens.push(self.world.token());
        }
        Ok(())
    }

    fn fail_task(&mut self) -> (String, Option<Rejection>) {
        let call = FailTask {
            token: self.token(),
            cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
            failure: None,
            identity: "worker".to_owned(),
            binary_checksum: String::new(),
            worker_version: None,
        };
        ("fail task".to_owned(), self.world.call(|run, context| task_calls::fail(run, context, call)).err())
    }

    fn give_back(&mut self) -> (String, Option<Rejection>) {
        let started = self.token().started_time;
        let result = self.world.call(|run, context| task_calls::give_back(run, context, started));
        ("give back".to_owned(), result.err())
    }

    fn signal(&mut self) -> (String, Option<Rejection>) {
        let call = Signal { name: self.name("s"), ..Default::default() };
        let what = format!("signal {}", call.name);
        (what, self.world.call(|run, context| signal::signal(run, context, call)).err())
    }

    fn activity(&mut self) -> (String, Option<Rejection>) {
        let pending: Vec<_> = self.world.run.state().activities.values().cloned().collect();
        let Some(activity) = self.random.pick(&pending) else { return ("no activity".to_owned(), None) };
        let who = || "worker".to_owned();
        let (id, stamp) = (activity.scheduled_event_id, activity.stamp);
        let result = if activity.started_time == 0 {
            let taker = Taker { identity: who(), request_id: "request".to_owned(), ..Default::default() };
            let start = |run: &_, context| activity::start(run, context, id, stamp, taker.clone());
            self.world.call(start).map(|_| ())
        } else {
            let reference = ActivityRef::Id(activity.activity_id.clone());
            let complete = |run: &_, context| activity::complete(run, context, &reference, None, who(), None);
            self.world.call(complete).map(|_| ())
        };
        (format!("activity {id}"), result.err())
    }

    /// The run goes on from a point in its past; what was stored of updates after it happens again.
    fn reset(&mut self) -> (String, Option<Rejection>) {
        let to = 2 + self.random.below(self.world.run.state().next_event_id as usize) as i64;
        let without_updates = self.random.once_in(4);
        let call = Reset {
            finish_event_id: to,
            reason: "reset".to_owned(),
            request_id: self.name("reset"),
            without_signals: self.random.once_in(4),
            without_updates,
            without_operations: false,
            options: Vec::new(),
        };
        let what = format!("reset to {to} without updates={without_updates}");
        let old = self.world.clone();
        if let Err(refused) = reset_steps::reset(&mut self.world, None, &call) {
            return (what, Some(refused));
        }
        check_ways(&old, &self.world, Kind::Call);
        let ended = self.world.clone();
        self.world.follow().expect("a reset makes a run");
        self.count("reset");
        self.tokens.clear();
        for (id, record) in &ended.run.update_records() {
            let first = if record.admitted_event_id > 0 { record.admitted_event_id } else { record.accepted_event_id };
            let known = status::of(&self.world.run, id);
            // One that an event admitted, that was rejected and then asked again: history before the point admits it.
            let admitted = |event: &&HistoryEvent| match &event.attributes {
                Some(A::WorkflowExecutionUpdateAdmittedEventAttributes(a)) => {
                    a.request.as_ref().and_then(|r| r.meta.as_ref()).is_some_and(|meta| meta.update_id == *id)
                }
                _ => false,
            };
            let admission = ended.stored.iter().find(admitted).map(|event| event.event_id);
            // None has one whose admission waited to become history when it was rejected.
            let Some(first) = admission.into_iter().chain((first > 0).then_some(first)).min() else { continue };
            if first < to || !without_updates {
                assert!(known.is_some(), "update {id} is lost by a reset: {record:?}");
            } else {
                assert!(known.is_none(), "update {id} was not wanted");
            }
        }
        (what, None)
    }

    /// All workers answer: in the end no update waits.
    fn settle(&mut self) {
        if self.world.run.is_paused() {
            self.operate("unpause-run");
        }
        for _ in 0..40 {
            if !self.world.run.is_running() {
                return;
            }
            let Some(task) = self.world.run.state().task.clone() else {
                if self.world.run.state().first_task_due > 0 {
                    self.world.now = self.world.wake_at().expect("the first task is due").max(self.world.now);
                    let applied = wake::wake(&self.world.run, self.world.context());
                    self.world.take(applied);
                    continue;
                }
                if self.world.run.state().updates.values().all(|record| !record.is_accepted()) {
                    break;
                }
                // What was accepted is answered when the workflow gets a turn.
                self.signal();
                continue;
            };
            if task.started_event_id != 0 {
                // A worker has it that will not answer.
                self.world.now = self.world.wake_at().expect("a started task has a deadline").max(self.world.now);
                let applied = wake::wake(&self.world.run, self.world.context());
                self.world.take(applied);
                invariants::check(&self.world);
                continue;
            }
            self.world.start_task(&task.queue).expect("a task that waits can be taken");
            let run = &self.world.run;
            let mut said = Vec::new();
            for update in run.updates().waiting() {
                said.extend([format!("accept {}", update.id), format!("respond {}", update.id)]);
            }
            let accepted = run.state().updates.iter().filter(|(_, record)| record.is_accepted());
            said.extend(accepted.map(|(id, _)| format!("respond {id}")));
            let mut call = answer(self.world.token());
            update_steps::say(&mut call, said.iter());
            self.log.push(format!("settle: {}", said.join("; ")));
            self.world.complete_task(call).expect("a proper answer is taken");
            invariants::check(&self.world);
        }
        let run = &self.world.run;
        assert!(
            run.state().task.is_none() && run.updates().waiting().is_empty(),
            "stuck: {:?}",
            run.updates().waiting()
        );
    }
}

/// State without what a discarded task may change: the task itself, the count of tasks, the worker's cache.
fn forgetful(state: &RunState) -> RunState {
    RunState { task: None, task_stamp: 0, sticky: None, ..state.clone() }
}

/// Each update that the run knew, or knows now, went a way that it may go.
fn check_ways(before: &World, after: &World, kind: Kind) {
    let ids: BTreeSet<String> = known_ids(before).into_iter().chain(known_ids(after)).collect();
    for id in ids {
        let (old, new) = (status::of(&before.run, &id), status::of(&after.run, &id));
        let durably =
            before.run.state().updates.get(&id).is_some_and(|record: &UpdateRecord| record.accepted_event_id == 0);
        let crashed = kind == Kind::Crash;
        let closed = !after.run.is_running();
        let legal = match (&old, &new) {
            (None, _) => !crashed || new.is_none() || closed,
            (Some(Status::Admitted), None) => crashed && !durably,
            (Some(Status::Admitted), Some(Status::Admitted)) => !crashed || durably,
            (Some(Status::Admitted), Some(Status::Aborted(_))) => !crashed,
            (Some(Status::Admitted), Some(Status::Accepted | Status::Completed(_))) => !crashed,
            (Some(Status::Accepted), Some(Status::Accepted)) => true,
            (Some(Status::Accepted), Some(Status::Completed(_))) => !crashed,
            (Some(Status::Completed(_) | Status::CompletedIn(_)), Some(_)) => {
                outcome_of(before, &id) == outcome_of(after, &id)
            }
            // Nothing is stored of a rejection, and not much remembered.
            (Some(Status::Completed(outcome)), None) => crashed && is_failure(outcome),
            (Some(Status::Aborted(_)), None) => crashed,
            (Some(Status::Aborted(_)), Some(_)) => !crashed || closed,
            _ => false,
        };
        assert!(legal, "update {id} went from {old:?} to {new:?}");
    }
}

fn known_ids(world: &World) -> Vec<String> {
    let mut ids: Vec<String> = world.run.updates().waiting().iter().map(|update| update.id.clone()).collect();
    ids.extend(world.run.update_records().into_keys());
    // Names of updates in these lives: all that can have ended in memory.
    ids.extend((0..60).map(|n| format!("u{n}")).filter(|id| status::of(&world.run, id).is_some()));
    ids
}

fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome.value, Some(outcome::Value::Failure(_)))
}

/// What came out of an update, from memory or from history.
fn outcome_of(world: &World, id: &str) -> Option<Outcome> {
    match status::of(&world.run, id)? {
        Status::Completed(outcome) => Some(Outcome::clone(&outcome)),
        Status::CompletedIn(event) => {
            let history = world.history();
            let event = history.get(event as usize - 1)?;
            match &event.attributes {
                Some(A::WorkflowExecutionUpdateCompletedEventAttributes(a)) => a.outcome.clone(),
                _ => None,
            }
        }
        _ => None,
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "this is a test, which may look around")]
fn any_update_ends_once() {
    let only: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(0..SEEDS, |seed| seed..seed + 1);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in seeds {
        let mut life = Life::new(seed);
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..STEPS {
                life.step();
                if !life.world.run.is_running() {
                    break;
                }
            }
            life.settle();
        }));
        if let Err(panic) = lived {
            eprintln!("seed {seed}, after:\n{}", life.log.join("\n"));
            std::panic::resume_unwind(panic);
        }
        for id in known_ids(&life.world) {
            life.count(match status::of(&life.world.run, &id) {
                Some(Status::Completed(outcome)) if is_failure(&outcome) => "failed",
                Some(Status::Completed(_) | Status::CompletedIn(_)) => "answered",
                Some(Status::Aborted(_)) => "aborted",
                Some(Status::Admitted | Status::Accepted) | None => "open",
            });
        }
        for (what, times) in life.counts {
            *counts.entry(what).or_default() += times;
        }
    }
    let often = ["answered", "failed", "aborted", "discarded", "converted", "reset", "crashed with updates"];
    let often = often.into_iter().chain(["completed earlier", "moved"]);
    assert!(only.is_some() || often.into_iter().all(|what| counts.get(what) > Some(&20)), "{counts:?}");
    assert_eq!(counts.get("open"), None, "settled lives leave nothing open");
}
