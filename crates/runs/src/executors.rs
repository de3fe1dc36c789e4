//! Who executes a new run whose type is the name of a script: the script, or workers that have a workflow of that name.
//!
//! On the queue of scripts it is the script, and so it is of a script that takes over, and where the start asks for it. A start that
//! names another queue goes to workers if they poll it for workflow tasks. Polls are in memory only, so the answer is what
//! was executed last where there are none: a type stays with those who execute it on that queue, whether or not the server was restarted, and
//! at whichever node the start arrives. A client often starts its workflow a moment before its own worker polls for the first time, so
//! that a script waits for a moment before it takes the first run on a queue. See decision 049.

use std::{sync::Mutex, time::Duration};

use segno_deployments::{MemberQueue, QueueType};
use segno_engine::{Run, script, start::Start};
use segno_environment::{hash::HashMap, lock::lock};
use segno_proto::{Nanos, enums::WorkflowExecutionStatus as Status};
use segno_store::{
    NamespaceKey, ReadLimit,
    visibility::{Attribute, Comparison, Filter, ListQuery, Order, Value},
};

use crate::{
    error::{CallError, no_script},
    namespaces::Namespace,
    ports::CurrentScript,
    runs::Runs,
};

/// How long a start waits for the home of its queue, and the first start of a script on a queue for a worker of that queue, and how
/// often it looks.
const WORKER_WAIT: Duration = Duration::from_secs(1);
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// How long an answer from storage is used, so that many starts at once ask once.
const ANSWER_AGE_MAX: Nanos = 1_000_000_000;
const ANSWERS_MAX: usize = 1000;

/// A type and a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TypeOnQueue {
    namespace: NamespaceKey,
    workflow_type: String,
    queue: String,
}

/// Who executes a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Executor {
    Script,
    Workers,
}

/// Who executed types on queues last, as storage or a start said a moment ago.
#[derive(Default)]
pub struct LastExecutors {
    known: Mutex<HashMap<TypeOnQueue, (Nanos, Option<Executor>)>>,
    /// Storage is asked for one start at a time.
    asking: tokio::sync::Mutex<()>,
}

impl LastExecutors {
    fn known(&self, on: &TypeOnQueue, now: Nanos) -> Option<Option<Executor>> {
        let known = lock(&self.known).get(on).copied();
        known.filter(|(since, _)| now - since < ANSWER_AGE_MAX).map(|(_, executor)| executor)
    }

    fn note(&self, on: TypeOnQueue, now: Nanos, executor: Option<Executor>) {
        let mut known = lock(&self.known);
        if known.len() >= ANSWERS_MAX {
            known.clear();
        }
        known.insert(on, (now, executor));
    }
}

impl Runs {
    /// Finds the script that executes a new run, if one does.
    pub(crate) async fn pin_script(&self, start: Start) -> Result<Start, CallError> {
        if start.script.is_some() || start.options.is_standalone() {
            // The type of an activity or an operation names no workflow.
            return Ok(start);
        }
        let (namespace, options) = (NamespaceKey(start.namespace_key), &start.options);
        let name = options.workflow_type.as_ref().map(|kind| kind.name.as_str()).unwrap_or_default();
        let queue = options.task_queue.as_ref().map(|queue| queue.name.as_str()).unwrap_or_default();
        let pinned = match self.scripts.current(namespace, name) {
            None if queue == script::QUEUE => return Err(CallError::NoScript(no_script(name, &options.namespace))),
            None => None,
            Some(CurrentScript { version, takes_over }) => {
                let certain = takes_over || queue == script::QUEUE || script::is_asked_for(options.header.as_ref());
                let on = TypeOnQueue { namespace, workflow_type: name.to_owned(), queue: queue.to_owned() };
                let is_script = certain || self.executor(&start, on).await? == Executor::Script;
                is_script.then_some(version)
            }
        };
        Ok(Start { script: pinned, ..start })
    }

    /// Who executes a run on a queue that is not that of scripts.
    async fn executor(&self, start: &Start, on: TypeOnQueue) -> Result<Executor, CallError> {
        let executor = self.find_executor(start, &on).await?;
        self.last_executors.note(on, self.clock.monotonic(), Some(executor));
        Ok(executor)
    }

    async fn find_executor(&self, start: &Start, on: &TypeOnQueue) -> Result<Executor, CallError> {
        let mut polled = if start.names_queue { self.workers_poll(on).await } else { Some(false) };
        if polled == Some(true) {
            return Ok(Executor::Workers);
        }
        if let Some(executor) = self.last_executor(on).await? {
            return Ok(executor);
        }
        // Only a client may be one that has just begun to poll.
        let of_client = start.names_queue && start.parent.is_none() && start.options.scheduled_by.is_none();
        for _ in 0..WORKER_WAIT.as_millis() / LOOK_PAUSE.as_millis() {
            if !of_client || polled.is_none() {
                break;
            }
            if self.is_stopping() {
                return Err(CallError::ShuttingDown);
            }
            tokio::time::sleep(LOOK_PAUSE).await;
            polled = self.workers_poll(on).await;
            if polled == Some(true) {
                return Ok(Executor::Workers);
            }
        }
        Ok(Executor::Script)
    }

    /// Whether a worker polls a queue for workflow tasks, or did lately and did not shut down. `None` if the home of the queue does not
    /// say: scripts are started also while it cannot be reached.
    async fn workers_poll(&self, on: &TypeOnQueue) -> Option<bool> {
        let queue = MemberQueue { name: on.queue.clone(), kind: QueueType::Workflow };
        let answer = tokio::time::timeout(WORKER_WAIT, self.queue_use(on.namespace, &queue, None)).await;
        answer.ok()?.ok().map(|found| found.has_pollers)
    }

    /// Who executed a type on a queue last, or does now; `None` if no such run is kept.
    async fn last_executor(&self, on: &TypeOnQueue) -> Result<Option<Executor>, CallError> {
        let _one_at_a_time = self.last_executors.asking.lock().await;
        let now = self.clock.monotonic();
        if let Some(known) = self.last_executors.known(on, now) {
            return Ok(known);
        }
        let executor = self.stored_executor(on).await?;
        self.last_executors.note(on.clone(), now, executor);
        Ok(executor)
    }

    async fn stored_executor(&self, on: &TypeOnQueue) -> Result<Option<Executor>, CallError> {
        // A run that was terminated or timed out may have waited for workers in vain.
        let begun = [Status::Running, Status::Paused].into_iter().chain(CLOSED_IN_CODE);
        let filter = vec![is(Attribute::TaskQueue, &on.queue), has_status(begun)];
        let found = self.newest_of_type(on.namespace, &on.workflow_type, filter).await?;
        let executor = |run: Run| if run.state().script.is_some() { Executor::Script } else { Executor::Workers };
        Ok(found.map(executor))
    }

    /// The task queue of a run of a type that workers have executed and that closed since a moment.
    pub async fn queue_of_workers_since(
        &self,
        namespace: &Namespace,
        workflow_type: &str,
        since: Nanos,
    ) -> Result<Option<String>, CallError> {
        let mut filter = vec![
            has_status(CLOSED_IN_CODE),
            Filter::Compare(Attribute::CloseTime, Comparison::GreaterOrEqual, Value::Int(since)),
        ];
        filter.extend(namespace.attribute(script::VERSION_ATTRIBUTE).map(Filter::IsNull));
        let found = self.newest_of_type(namespace.key, workflow_type, filter).await?;
        Ok(found.map(|run| run.info.task_queue.clone()))
    }

    /// The newest run of a type that fits a filter, open ones first. One that cannot be read tells nothing.
    async fn newest_of_type(
        &self,
        namespace: NamespaceKey,
        workflow_type: &str,
        mut filter: Vec<Filter>,
    ) -> Result<Option<Run>, CallError> {
        filter.push(is(Attribute::WorkflowType, workflow_type));
        let query = ListQuery {
            namespace,
            filter: Filter::All(filter),
            order: Order::Newest,
            as_of: self.now(),
            after: None,
            limit: 1,
        };
        let page = self.store.list_within(&query, &ReadLimit::none()).await?;
        let state = page.runs.into_iter().next().and_then(|found| found.state.ok());
        Ok(state.and_then(|state| Run::decode(state).ok()))
    }
}

/// How a run ends that was executed.
const CLOSED_IN_CODE: [Status; 4] = [Status::Completed, Status::Failed, Status::Canceled, Status::ContinuedAsNew];

fn is(attribute: Attribute, text: &str) -> Filter {
    Filter::Compare(attribute, Comparison::Equal, Value::Text(text.to_owned()))
}

fn has_status(statuses: impl IntoIterator<Item = Status>) -> Filter {
    Filter::In(Attribute::ExecutionStatus, statuses.into_iter().map(|status| Value::Int(status as i64)).collect())
}
