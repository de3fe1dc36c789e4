//! [`WorkflowTest`]: a workflow, its tasks and its children, without a server and with a virtual clock.

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc, time::Duration};

use segno_proto::{command::Command, common::Payload, events::HistoryEvent};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    plan::{self, Ask, Plan},
    server::Input,
    simulation::{self, Settings},
};
use crate::{
    converter,
    definition::{Query, Signal, Task, TaskDefinition, TaskSet, Update, Workflow, WorkflowDefinition},
    failure::{Failure, Result},
    nexus::NexusOperation,
    task::TaskRegistry,
    workflow::{DeterminismViolation, WorkflowInterceptor},
};

/// A test of the workflow `W`: says what surrounds it, then [runs](Self::run) it.
///
/// ```
/// # use std::time::Duration;
/// # use segno_sdk::{Context, Result, WorkflowContext, define_task, testing::WorkflowTest, workflow};
/// define_task!(Charge = "charge": u32 => String);
///
/// #[workflow]
/// async fn subscription(ctx: Context, months: u32) -> Result<Vec<String>> {
///     let mut receipts = Vec::new();
///     for month in 1..=months {
///         ctx.sleep(Duration::from_secs(30 * 86_400)).await?;
///         receipts.push(ctx.schedule::<Charge>(month).await?);
///     }
///     Ok(receipts)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let run = WorkflowTest::<Subscription>::new(3).mock::<Charge>(|month| Ok(format!("month {month}"))).run().await;
/// assert_eq!(run.output.unwrap().len(), 3);
/// assert_eq!(run.elapsed, Duration::from_secs(90 * 86_400));
/// # }
/// ```
///
/// Nothing of it needs a network or takes time: hours of timers pass as soon as nothing else is to be done. Tasks run on
/// the same clock, so that `tokio::time::sleep` in them takes virtual time, too; a task that waits for anything outside of
/// the test (a socket, a thread) may see the clock jump, and is better replaced by a [mock](Self::mock).
///
/// After every workflow task the history is replayed in a fresh instance, which must ask for the same commands; at the end three
/// times. A difference ends the test with a failure of the kind `DeterminismViolation`.
pub struct WorkflowTest<W: Workflow> {
    input: Option<W::Input>,
    plan: Plan,
    settings: Settings,
    error: Option<String>,
    marker: PhantomData<fn() -> W>,
}

/// The result of a test.
#[derive(Debug)]
#[non_exhaustive]
pub struct TestRun<T> {
    /// The result of the workflow.
    ///
    /// If it could not get that far: a failure of kind `Stuck` (it waits, and nothing can happen),
    /// `DeterminismViolation`, `NotRegistered` (a task or child that the test does not know), or what made its workflow task
    /// fail, as a panic does.
    pub output: Result<T, Failure>,
    /// How long it took, by the virtual clock.
    pub elapsed: Duration,
    /// The history, as a server would have it; of the last run, if the workflow continued as new.
    pub history: Vec<HistoryEvent>,
    /// Histories of the runs before it.
    pub earlier: Vec<Vec<HistoryEvent>>,
    /// Histories of its children, by workflow id; if an id was used more than once, of the last.
    pub children: BTreeMap<String, Vec<HistoryEvent>>,
    /// The commands that the workflow issued, in order; of the last run.
    pub commands: Vec<Command>,
    /// The values that [`set_state`](crate::WorkflowContext::set_state) left.
    pub state: BTreeMap<String, Value>,
    /// How updates ended, in the order in which the test sent them.
    pub updates: Vec<Result<Value, Failure>>,
    /// Where code and history differ, if they do.
    pub violation: Option<DeterminismViolation>,
    /// How many workflow tasks there were, in all runs.
    pub workflow_tasks: usize,
}

impl<W: Workflow> WorkflowTest<W> {
    /// A test of one execution with this input.
    pub fn new(input: W::Input) -> Self {
        Self { input: Some(input), ..Self::child_test() }
    }

    fn child_test() -> Self {
        let plan = Plan { kind: W::KIND, register: vec![|registry| registry.add::<W>()], ..Plan::default() };
        Self { input: None, plan, settings: Settings::default(), error: None, marker: PhantomData }
    }

    /// Executes a task, as a worker would.
    pub fn task<T: Task<State = ()>>(mut self) -> Self {
        self.plan.tasks.add::<T>(Arc::new(()));
        self
    }

    /// Executes tasks that share a state.
    pub fn tasks<S: TaskSet>(mut self, state: S) -> Self {
        let registry: &mut TaskRegistry = &mut self.plan.tasks;
        Arc::new(state).register(registry);
        self
    }

    /// Replaces a task by a function. Its failures are retried like those of a task.
    pub fn mock<T: TaskDefinition>(mut self, f: impl FnMut(T::Input) -> Result<T::Output> + Send + 'static) -> Self {
        self.plan.mocks.insert(T::KIND.to_owned(), plan::mock(T::ARGUMENTS, f));
        self
    }

    /// Replaces a task of any kind by a function from JSON to JSON. No argument is `null`, several are a list.
    pub fn mock_raw(mut self, kind: impl Into<String>, f: impl FnMut(Value) -> Result<Value> + Send + 'static) -> Self {
        self.plan.mocks.insert(kind.into(), plan::mock_raw(f));
        self
    }

    /// Executes a child workflow; `configure` says what surrounds it. What is not said there is as for its parent. Times of
    /// messages are counted from the child's start.
    pub fn child<C: Workflow>(mut self, configure: impl FnOnce(WorkflowTest<C>) -> WorkflowTest<C>) -> Self {
        let child = configure(WorkflowTest::child_test());
        self.plan.register.extend_from_slice(&child.plan.register);
        self.error = self.error.or(child.error);
        self.plan.children.insert(C::KIND.to_owned(), Arc::new(child.plan));
        self
    }

    /// Replaces a child workflow by a function.
    pub fn mock_child<C: WorkflowDefinition>(
        mut self,
        f: impl FnMut(C::Input) -> Result<C::Output> + Send + 'static,
    ) -> Self {
        self.plan.mocked_children.insert(C::KIND.to_owned(), plan::mock(C::ARGUMENTS, f));
        self
    }

    /// Replaces a Nexus operation by a function. Its failures are those of the operation; they are not retried.
    ///
    /// Without a [latency](Self::latency) for `Service.operation` the operation is complete at once; with one it is
    /// started, and goes on by itself until it ends or the workflow cancels it.
    pub fn mock_operation<I, O>(
        mut self,
        operation: NexusOperation<I, O>,
        f: impl FnMut(I) -> Result<O> + Send + 'static,
    ) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
    {
        let name = format!("{}.{}", operation.service(), operation.name());
        self.plan.mocked_operations.insert(name, plan::mock(1, f));
        self
    }

    /// The same by name, with JSON in and out.
    pub fn mock_operation_raw(
        mut self,
        service: &str,
        operation: &str,
        f: impl FnMut(Value) -> Result<Value> + Send + 'static,
    ) -> Self {
        self.plan.mocked_operations.insert(format!("{service}.{operation}"), plan::mock_raw(f));
        self
    }

    /// How long a task, local task, mocked child or mocked Nexus operation of this kind takes; nothing by default.
    pub fn latency(mut self, kind: impl Into<String>, latency: Duration) -> Self {
        self.plan.latencies.insert(kind.into(), latency);
        self
    }

    fn input(mut self, at: Duration, input: Result<Input, converter::ConversionError>) -> Self {
        match input {
            Ok(input) => self.plan.inputs.push((at, input)),
            Err(error) => self.error = Some(error.to_string()),
        }
        self
    }

    /// Sends a signal at this time.
    pub fn signal<T: Serialize + 'static>(self, at: Duration, signal: Signal<T>, value: T) -> Self {
        let input = converter::encode(&value, signal.arguments());
        self.input(at, input.map(|input| Input::Signal { name: signal.name().to_owned(), input }))
    }

    /// Sends an update at this time. Its outcome is in [`TestRun::updates`].
    pub fn update<I: Serialize + 'static, O>(self, at: Duration, update: Update<I, O>, value: I) -> Self {
        let id = format!("update-{}", self.updates() + 1);
        self.update_with_id(at, id, update, value)
    }

    /// Sends an update with this id: one that is known is not handled again.
    pub fn update_with_id<I: Serialize + 'static, O>(
        self,
        at: Duration,
        id: impl Into<String>,
        update: Update<I, O>,
        value: I,
    ) -> Self {
        let input = converter::encode(&value, update.arguments());
        let id = id.into();
        self.input(at, input.map(|input| Input::Update { id, name: update.name().to_owned(), input }))
    }

    fn updates(&self) -> usize {
        self.plan.inputs.iter().filter(|(_, input)| matches!(input, Input::Update { .. })).count()
    }

    /// Resolves a promise at this time.
    pub fn promise<T: Serialize>(self, at: Duration, name: &str, value: T) -> Self {
        let payloads = converter::encode_json(name).and_then(|name| Ok(vec![name, converter::encode_json(&value)?]));
        self.input(at, payloads.map(|input| Input::Signal { name: "segno.promise".to_owned(), input }))
    }

    /// Rejects a promise at this time.
    pub fn reject_promise(self, at: Duration, name: &str, kind: &str, message: &str) -> Self {
        let payloads = [name, kind, message].into_iter().map(converter::encode_json).collect::<Result<Vec<_>, _>>();
        self.input(at, payloads.map(|input| Input::Signal { name: "segno.promise.reject".to_owned(), input }))
    }

    /// Asks the workflow to cancel itself at this time.
    pub fn cancel(self, at: Duration) -> Self {
        self.input(at, Ok(Input::Cancel { reason: String::new() }))
    }

    /// Asks a query at this time and hands over the answer.
    pub fn query<I, O>(
        mut self,
        at: Duration,
        query: Query<I, O>,
        value: I,
        then: impl FnOnce(Result<O, Failure>) + Send + 'static,
    ) -> Self
    where
        I: Serialize + 'static,
        O: DeserializeOwned + 'static,
    {
        let input = match converter::encode(&value, query.arguments()) {
            Ok(input) => input,
            Err(error) => {
                self.error = Some(error.to_string());
                return self;
            }
        };
        let ask: Ask = Box::new(move |answer: Result<Vec<Payload>, Failure>| {
            then(answer.and_then(|payloads| {
                converter::decode(&payloads, 1)
                    .map_err(|error| Failure::application("Conversion", error.to_string()).into())
            }));
        });
        self.settings.queries.push((at, query.name().to_owned(), input, ask));
        self
    }

    /// Gathers events: a workflow task starts so long after the first event that needs it, and finds all that came until
    /// then. By default every event has a workflow task of its own.
    pub fn batch(mut self, window: Duration) -> Self {
        self.settings.window = Some(window);
        self
    }

    /// The workflow id; `test` if not given.
    pub fn workflow_id(mut self, id: impl Into<String>) -> Self {
        self.settings.workflow_id = id.into();
        self
    }

    /// Decides about random numbers and ids: another number, others of them.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Throws the instance away after every workflow task, as a worker without a cache does: every workflow task begins with a replay.
    pub fn without_cache(mut self) -> Self {
        self.settings.cached = false;
        self
    }

    /// Adds code around what the workflow and its children receive and ask for.
    pub fn workflow_interceptor(mut self, interceptor: impl WorkflowInterceptor) -> Self {
        self.settings.registry.intercept(interceptor);
        self
    }

    /// Tasks that a replay schedules on another queue or with another input are violations, too.
    pub fn strict(mut self) -> Self {
        self.settings.registry.set_strict();
        self
    }

    /// Takes a rule out of the executor, to prove that a test needs it.
    #[cfg(feature = "sabotage")]
    #[doc(hidden)]
    pub fn sabotage(mut self, name: &'static str) -> Self {
        self.settings.sabotage = Some(name);
        self
    }

    /// Runs the workflow to its end.
    ///
    /// # Panics
    ///
    /// If a message could not be encoded, or a function that was given to [`query`](Self::query) panics.
    pub async fn run(self) -> TestRun<W::Output> {
        if let Some(error) = self.error {
            panic!("{error}");
        }
        let input = self.input.map(|input| converter::encode(&input, W::ARGUMENTS));
        let input = match input {
            Some(Ok(input)) => input,
            Some(Err(error)) => panic!("{error}"),
            None => Vec::new(),
        };
        let plan = Arc::new(self.plan);
        let ended = simulation::start(plan, self.settings, input).await;
        let output = ended.output.and_then(|payloads| {
            converter::decode(&payloads, 1)
                .map_err(|error| Failure::application("Conversion", error.to_string()).into())
        });
        TestRun {
            output,
            elapsed: ended.elapsed,
            history: ended.history,
            earlier: ended.earlier,
            children: ended.children,
            commands: ended.commands,
            state: ended.state,
            updates: ended.updates,
            violation: ended.violation,
            workflow_tasks: ended.workflow_tasks,
        }
    }
}
