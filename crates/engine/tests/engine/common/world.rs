//! A run and the storage it would have: transitions are taken the way the node takes them, and a crash loses what
//! was only in memory.

use std::collections::BTreeMap;

use bytes::Bytes;
use segno_engine::{
    Applied, Context, Durability, Effect, Rejection, Run, Transition, activity,
    complete_task::{self, CompleteTask, Completed, Surroundings},
    limits::Limits,
    outbox::OutboxMessage,
    search_attributes::Rules,
    start::{self, Start, StartOptions},
    task_calls::{self, TaskRef},
    versioning::Target,
    wake,
    workflow_task::TaskStart,
};
use segno_proto::{
    Nanos, common::WorkflowType, deployment::WorkerDeploymentVersion, enums::IndexedValueType, events::HistoryEvent,
    protocol::Message, taskqueue::TaskQueue,
};

/// When every test begins: 2001-09-09 01:46:40 UTC.
pub const EPOCH: Nanos = 1_000_000_000 * SECOND;
pub const SECOND: Nanos = 1_000_000_000;

/// A run as its owner has it, and as storage has it.
#[derive(Clone)]
pub struct World {
    pub run: Run,
    pub now: Nanos,
    /// History in storage.
    pub stored: Vec<HistoryEvent>,
    /// State in storage.
    pub stored_state: Bytes,
    /// Messages in storage.
    pub outbox: Vec<OutboxMessage>,
    /// Durable transitions so far.
    pub durable: usize,
    pub successor: Option<Box<Applied<()>>>,
    /// Runs that this one followed, with their history.
    pub earlier: Vec<(Run, Vec<HistoryEvent>)>,
    /// Keys for new runs.
    pub next_key: u64,
    /// What an operator set.
    pub limits: Limits,
}

/// What a step made of the world.
pub struct StepResult<R> {
    pub reply: R,
    pub transition: Transition,
}

impl World {
    /// Begins a run.
    pub fn begin(call: Start, now: Nanos) -> (Self, Transition) {
        let applied = start::start(
            call,
            Vec::new(),
            Context { now, new_run_key: 1, new_run_seed: 1, limits: Limits::default(), script: None },
        );
        let mut world = Self {
            run: applied.run.clone(),
            now,
            stored: Vec::new(),
            stored_state: Bytes::new(),
            outbox: Vec::new(),
            durable: 0,
            successor: None,
            earlier: Vec::new(),
            next_key: 2,
            limits: Limits::default(),
        };
        let taken = world.take(applied);
        (world, taken.transition)
    }

    /// Time and ids for the next call.
    pub fn context(&self) -> Context {
        Context {
            now: self.now,
            new_run_key: self.next_key,
            new_run_seed: self.next_key.wrapping_mul(0x9e37_79b9),
            limits: self.limits,
            script: None,
        }
    }

    /// Stores what must be stored and goes on with the rest.
    pub fn take<R>(&mut self, applied: Applied<R>) -> StepResult<R> {
        let Applied { run, mut transition, reply } = applied;
        self.next_key += 1;
        match transition.durability {
            Durability::Unchanged => {
                assert_eq!(run.state(), self.run.state(), "an unchanged run is the same");
                assert_eq!(run.tail(), self.run.tail(), "an unchanged run is the same");
                assert!(transition.batches.is_empty() && transition.outbox.is_empty());
            }
            Durability::Memory => {
                assert!(transition.batches.is_empty(), "what stays in memory is not stored");
                assert!(transition.outbox.is_empty(), "a message is never left in memory");
            }
            Durability::Durable => {
                assert!(run.tail().is_empty(), "a durable transition stores the tail");
                assert!(transition.batches.iter().all(|batch| !batch.is_empty()));
                self.stored.extend(transition.batches.iter().flatten().cloned());
                self.stored_state = run.encode();
                self.outbox.extend(transition.outbox.iter().cloned());
                self.durable += 1;
            }
        }
        if run.info.run_key == self.run.info.run_key {
            self.check_activities(&run, &transition);
        }
        self.run = run;
        for effect in &transition.effects {
            if let Effect::OfferActivity(id) = effect
                && let Some(activity) = self.run.state().activities.get(id)
            {
                assert!(activity::is_waiting(activity, self.now), "offered, but no worker may have it: {activity:?}");
            }
        }
        if let Some(successor) = transition.successor.take() {
            self.successor = Some(successor.clone());
            transition.successor = Some(successor);
        }
        StepResult { reply, transition }
    }

    /// A transition names every activity that it changes, unless it closes the run.
    fn check_activities(&self, after: &Run, transition: &Transition) {
        if !after.is_running() {
            return;
        }
        let (before, after) = (&self.run.state().activities, &after.state().activities);
        for id in before.keys().chain(after.keys()) {
            let named = transition.activities.contains(id);
            assert!(named || before.get(id) == after.get(id), "activity {id} changes and is not named");
        }
    }

    /// Applies a call, or says why it was refused. A refused call leaves no trace: there is nowhere to leave one.
    pub fn call<R>(
        &mut self,
        call: impl FnOnce(&Run, Context) -> Result<Applied<R>, Rejection>,
    ) -> Result<StepResult<R>, Rejection> {
        let applied = call(&self.run, self.context())?;
        Ok(self.take(applied))
    }

    /// Power fails: memory is gone.
    pub fn crash(&mut self) {
        self.run = Run::decode(self.stored_state.clone()).expect("what was stored can be read");
        if self.run.needs_start_event() {
            self.run.set_start_event(self.stored.first().cloned()).expect("the first event is stored");
        }
        let missing = self.run.missing_admissions();
        let admissions = self.stored.iter().filter(|event| missing.contains(&event.event_id));
        self.run.set_admissions(&admissions.cloned().collect::<Vec<_>>());
        assert!(self.run.missing_admissions().is_empty(), "history has every admission");
    }

    /// Goes on with the run that follows.
    pub fn follow(&mut self) -> Option<Transition> {
        let successor = *self.successor.take()?;
        self.earlier.push((self.run.clone(), self.history()));
        self.stored.clear();
        self.outbox.clear();
        self.run = successor.run.clone();
        Some(self.take(successor).transition)
    }

    /// Stored events and tail.
    pub fn history(&self) -> Vec<HistoryEvent> {
        self.stored.iter().chain(self.run.tail()).cloned().collect()
    }

    /// When the run wants to be woken.
    pub fn wake_at(&self) -> Option<Nanos> {
        wake::wake_at(&self.run, self.now)
    }

    /// A worker takes the pending task.
    pub fn start_task(&mut self, queue: &str) -> Result<StepResult<Vec<Message>>, Rejection> {
        self.start_task_at(queue, "")
    }

    /// A worker process takes the pending task.
    pub fn start_task_at(&mut self, queue: &str, worker: &str) -> Result<StepResult<Vec<Message>>, Rejection> {
        self.start_task_of(queue, worker, None, None)
    }

    /// A worker process of a version takes the pending task of a run with a target.
    pub fn start_task_of(
        &mut self,
        queue: &str,
        worker: &str,
        poller: Option<WorkerDeploymentVersion>,
        target: Option<Target>,
    ) -> Result<StepResult<Vec<Message>>, Rejection> {
        let stamp = self.run.state().task.as_ref().map_or(0, |task| task.stamp);
        let call = TaskStart {
            stamp,
            request_id: format!("request-{stamp}"),
            identity: "worker".to_owned(),
            polled_queue: queue.to_owned(),
            worker: worker.to_owned(),
            poller,
            target,
            ..Default::default()
        };
        self.call(|run, context| task_calls::start(run, context, call))
    }

    /// What the worker's token says.
    pub fn token(&self) -> TaskRef {
        let task = self.run.state().task.clone().unwrap_or_default();
        TaskRef {
            scheduled_event_id: task.scheduled_event_id,
            started_event_id: task.started_event_id,
            attempt: task.attempt,
            started_time: task.started_time,
        }
    }

    /// A worker answers.
    pub fn complete_task(&mut self, call: CompleteTask) -> Result<StepResult<Completed>, Rejection> {
        let custom = BTreeMap::from([("CustomKeyword".to_owned(), IndexedValueType::Keyword)]);
        let rules = Rules { namespace: "default", custom: &custom };
        let surroundings = Surroundings {
            namespace: &|name| (name == "default").then(|| (1, "ns".to_owned())),
            search_attributes: &rules,
            endpoint: &|name| (name == "pay").then(|| "endpoint-1".to_owned()),
            system_operation: &|_| Ok(()),
            is_member: &is_member,
        };
        self.call(|run, context| complete_task::complete(run, context, call, &surroundings))
    }
}

/// An answer without commands.
pub fn answer(token: TaskRef) -> CompleteTask {
    CompleteTask {
        token,
        commands: Vec::new(),
        identity: "worker".to_owned(),
        sticky: None,
        return_new_task: false,
        force_new_task: false,
        binary_checksum: String::new(),
        worker_version: None,
        sdk_metadata: None,
        metering_metadata: None,
        versioning_behavior: Default::default(),
        deployment_name: String::new(),
        version: None,
        target: None,
        messages: Vec::new(),
        discards_with_events: true,
        update_limits: Default::default(),
        eager_request_ids: (0..16).map(|n| format!("eager-{n}")).collect(),
        worker: String::new(),
        control_queue: String::new(),
        worker_reports: false,
        script: None,
        digest: Default::default(),
    }
}

/// Whether workers of a version poll a queue: those of the first three builds poll `q` and `q2`.
pub fn is_member(version: &WorkerDeploymentVersion, queue: &str) -> bool {
    ["b1", "b2", "b3"].contains(&version.build_id.as_str()) && ["q", "q2"].contains(&queue)
}

/// A plain request to start a run.
pub fn start_request() -> Start {
    let options = StartOptions {
        namespace: "default".to_owned(),
        workflow_id: "w".to_owned(),
        workflow_type: Some(WorkflowType { name: "W".to_owned() }),
        task_queue: Some(queue("q")),
        request_id: "start-1".to_owned(),
        identity: "client".to_owned(),
        ..Default::default()
    };
    Start::new(1, "ns".to_owned(), 0, options)
}

/// A task queue by name.
pub fn queue(name: &str) -> TaskQueue {
    TaskQueue { name: name.to_owned(), ..Default::default() }
}
