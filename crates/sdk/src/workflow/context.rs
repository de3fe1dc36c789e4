//! [`Context`]: the interface of workflow code.

use std::{
    panic::Location,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context as TaskContext, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::Stream;
use segno_proto::common::{Payload, WorkflowExecution};
use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

use super::{
    ContinueAsNew,
    commands::{CHANGE_VERSION, CommandRequest, ExpectedEvent, PATCH_MARKER, marker},
    core::{Core, Shared, SpawnedFuture},
    delivery::spawn_signal_handler,
    futures::{
        CancelledFuture, ConditionFuture, Elapsed, ExternalFuture, JoinHandle, Operation, SignalFuture, signal_external,
    },
    handlers::{ANY, Dynamic},
    info::{StoredPayload, UpdateInfo, WorkflowInfo},
    interceptor::OutboundKind,
    operation::{BoxFuture, OpId, OpKind},
    outcome::{SignalOutcome, UpdateOutcome},
    scope::Scope,
    scope_tree::NO_SCOPE,
    signals::SignalHandler,
    state::{Ref, RefMut, StateCell},
};
use crate::lock::lock;
use crate::{
    converter::{self, ALL_PAYLOADS},
    definition::{Query, Signal, Update, WorkflowDefinition},
    failure::{Error, Failure, Result},
    options::ContinueOptions,
    versioning::DeploymentVersion,
};

/// The context of a workflow. Cheap to clone; `S` is the workflow's own state.
pub struct Context<S = ()> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Arc<StateCell<S>>,
    pub(crate) dynamic: Arc<Dynamic>,
    pub(crate) scope: u64,
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Self {
        let Self { shared, state, dynamic, scope } = self;
        Self { shared: shared.clone(), state: state.clone(), dynamic: dynamic.clone(), scope: *scope }
    }
}

impl<S: Send + Sync + 'static> Context<S> {
    /// An operation in this context's scope. In a cancelled one it has ended before it began, and `begin` is not called.
    #[track_caller]
    pub(crate) fn operation(&self, kind: OpKind, begin: impl FnOnce(&mut Core, OpId)) -> Operation {
        let place = Location::caller();
        let mut core = self.shared.core();
        core.note_call(place);
        let id = core.add(self.scope, kind);
        if core.scopes.reason(self.scope).is_some() {
            core.resolve(id, Err(Failure::cancelled()));
        } else {
            begin(&mut core, id);
        }
        drop(core);
        Operation::new(self.shared.clone(), id)
    }

    /// The workflow's state, to read.
    #[track_caller]
    pub fn this(&self) -> Ref<'_, S> {
        self.state.read()
    }

    /// The workflow's state, to change.
    #[track_caller]
    pub fn this_mut(&self) -> RefMut<'_, S> {
        self.state.write()
    }

    /// Waits until the state fulfils a condition. It is looked at whenever the workflow has nothing else to do.
    #[track_caller]
    pub fn wait_condition(&self, f: impl Fn(&S) -> bool + Send + Sync + 'static) -> ConditionFuture {
        let state = self.state.clone();
        let check = Arc::new(move || f(&state.read()));
        let operation = self.operation(OpKind::Condition { check }, |_, _| {});
        ConditionFuture { operation, id: String::new() }
    }

    /// The same for so long at most. Says whether the condition is fulfilled.
    pub async fn wait_condition_timeout(
        &self,
        duration: Duration,
        f: impl Fn(&S) -> bool + Send + Sync + 'static,
    ) -> Result<bool, Failure> {
        let condition = self.wait_condition(f);
        match self.timeout(duration, condition).await {
            Ok(fulfilled) => fulfilled.map(|()| true),
            Err(Elapsed) => Ok(false),
        }
    }

    /// Awaits a future for so long at most; then it is dropped, which cancels what it waits for.
    pub async fn timeout<F: Future>(&self, duration: Duration, f: F) -> Result<F::Output, Elapsed> {
        let mut timer = super::WorkflowContext::sleep(self, duration);
        let mut f = std::pin::pin!(f);
        tokio::select! {
            biased;
            output = &mut f => return Ok(output),
            fired = &mut timer => {
                if fired.is_ok() {
                    return Err(Elapsed);
                }
            }
        }
        // The scope was cancelled, and what the future waits for with it.
        Ok(f.await)
    }

    /// Lets a future go on by itself.
    #[track_caller]
    pub fn spawn<F>(&self, f: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (value, place) = (Arc::new(Mutex::new(None)), Location::caller());
        let mut core = self.shared.core();
        core.note_call(place);
        let root = core.next_root();
        // In no scope: it ends when the future does, and how that takes a cancellation is its own affair.
        let id = core.add(NO_SCOPE, OpKind::Join);
        let (joined, shared) = (value.clone(), self.shared.clone());
        let future = Box::pin(async move {
            let output = f.await;
            *lock(&joined) = Some(output);
            shared.core().resolve(id, Ok(Vec::new()));
        });
        let update = core.current_update.clone();
        core.spawned.push(SpawnedFuture { id: root, future, update });
        drop(core);
        JoinHandle { operation: Operation::new(self.shared.clone(), id), root, value }
    }

    /// The next signal of a name that no handler takes.
    #[track_caller]
    pub fn receive<T: DeserializeOwned>(&self, signal: Signal<T>) -> SignalFuture<T> {
        self.shared.core().note_call(Location::caller());
        receive(&self.shared, self.scope, signal)
    }

    /// The next signal of a name, if one is there.
    pub fn try_receive<T: DeserializeOwned>(&self, signal: Signal<T>) -> Option<T> {
        let mut core = self.shared.core();
        let (_, payloads) = core.take_signal(signal.name())?;
        match decode_first(&payloads) {
            Ok(value) => Some(value),
            Err(error) => {
                core.fail_task(Failure::application("Conversion", error.to_string()));
                None
            }
        }
    }

    /// All signals of a name, one after the other, until the scope is cancelled.
    pub fn signals<T: DeserializeOwned>(&self, signal: Signal<T>) -> SignalStream<T> {
        SignalStream { shared: self.shared.clone(), scope: self.scope, signal, next: None }
    }

    /// Handles a signal, those that wait already first. The closure may return nothing, a `Result<()>`, or a future.
    pub fn on_signal<T, R, M>(&self, signal: Signal<T>, handle: impl Fn(T) -> R + Send + Sync + 'static)
    where
        T: DeserializeOwned + 'static,
        R: SignalOutcome<M>,
    {
        let arguments = signal.arguments();
        self.add_signal_handler(
            signal.name(),
            Arc::new(move |_, payloads| Ok(handle(converter::decode(&payloads, arguments)?).into_rest())),
        );
    }

    /// Handles all signals without a handler of their own, those that wait already first: name and arguments.
    /// [`receive`](Self::receive) then gets none.
    pub fn on_any_signal<A, R, M>(&self, handle: impl Fn(String, A) -> R + Send + Sync + 'static)
    where
        A: DeserializeOwned + 'static,
        R: SignalOutcome<M>,
    {
        self.add_signal_handler(
            ANY,
            Arc::new(move |name: &str, payloads| {
                Ok(handle(name.to_owned(), converter::decode(&payloads, ALL_PAYLOADS)?).into_rest())
            }),
        );
    }

    fn add_signal_handler(&self, name: &str, handler: SignalHandler) {
        self.shared.core().signals.handlers.insert(name.to_owned(), handler.clone());
        loop {
            let waiting = match name {
                ANY => self.shared.core().take_any_signal(),
                name => self.shared.core().take_signal(name).map(|(_, payloads)| (name.to_owned(), payloads)),
            };
            let Some((name, payloads)) = waiting else { break };
            match handler(&name, payloads) {
                Ok(None) => {}
                Ok(Some(future)) => spawn_signal_handler(&self.shared, future, false),
                Err(error) => self.shared.core().fail_task(Failure::application("Conversion", error.to_string())),
            }
        }
    }

    /// Answers a query.
    pub fn on_query<I, O>(&self, query: Query<I, O>, answer: impl Fn(I) -> O + Send + Sync + 'static)
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
    {
        let arguments = query.arguments();
        let answer = move |_: &str, payloads: &[Payload]| {
            let answer = answer(converter::decode(payloads, arguments)?);
            Ok(converter::encode(&answer, 1)?)
        };
        let mut queries = lock(&self.dynamic.queries);
        queries.insert(query.name().to_owned(), Arc::new(answer));
    }

    /// Answers all queries without an answer of their own: name and arguments.
    pub fn on_any_query<A, O>(&self, answer: impl Fn(String, A) -> Result<O> + Send + Sync + 'static)
    where
        A: DeserializeOwned + 'static,
        O: Serialize + 'static,
    {
        let answer = move |name: &str, payloads: &[Payload]| {
            let answer = answer(name.to_owned(), converter::decode(payloads, ALL_PAYLOADS)?)?;
            Ok(converter::encode(&answer, 1)?)
        };
        let mut queries = lock(&self.dynamic.queries);
        queries.insert(ANY.to_owned(), Arc::new(answer));
    }

    /// Handles an update; `validate` decides whether it is accepted. `handle` returns a `Result`, or a future of one.
    pub fn on_update<I, O, R, M>(
        &self,
        update: Update<I, O>,
        validate: impl Fn(&I) -> Result<()> + Send + Sync + 'static,
        handle: impl Fn(I) -> R + Send + Sync + 'static,
    ) where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        R: UpdateOutcome<O, M>,
    {
        let arguments = update.arguments();
        let check = move |_: &str, payloads: &[Payload]| validate(&converter::decode(payloads, arguments)?);
        let handle = move |_: &str, payloads: &[Payload]| {
            let future = handle(converter::decode(payloads, arguments)?).into_outcome();
            let future = async move { Ok(converter::encode(&future.await?, 1)?) };
            Ok(Box::pin(future) as BoxFuture<Result<Vec<Payload>>>)
        };
        let mut updates = lock(&self.dynamic.updates);
        updates.insert(update.name().to_owned(), (Arc::new(check), Arc::new(handle)));
    }

    /// Handles all updates without a handler of their own: name and arguments.
    pub fn on_any_update<A, O, R, M>(
        &self,
        validate: impl Fn(&str, &A) -> Result<()> + Send + Sync + 'static,
        handle: impl Fn(String, A) -> R + Send + Sync + 'static,
    ) where
        A: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        R: UpdateOutcome<O, M>,
    {
        let check = move |name: &str, payloads: &[Payload]| validate(name, &converter::decode(payloads, ALL_PAYLOADS)?);
        let handle = move |name: &str, payloads: &[Payload]| {
            let future = handle(name.to_owned(), converter::decode(payloads, ALL_PAYLOADS)?).into_outcome();
            let future = async move { Ok(converter::encode(&future.await?, 1)?) };
            Ok(Box::pin(future) as BoxFuture<Result<Vec<Payload>>>)
        };
        let mut updates = lock(&self.dynamic.updates);
        updates.insert(ANY.to_owned(), (Arc::new(check), Arc::new(handle)));
    }

    /// In the handler of an update, its validator, or a future that one of them spawned: which update it is.
    pub fn current_update(&self) -> Option<UpdateInfo> {
        self.shared.core().current_update.as_deref().cloned()
    }

    /// Another workflow.
    pub fn external(&self, workflow_id: &str) -> ExternalWorkflow {
        let execution = WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: String::new() };
        ExternalWorkflow { shared: self.shared.clone(), scope: self.scope, execution }
    }

    /// A context that goes on when this one, or the workflow, is cancelled: for clean-up.
    pub fn detached(&self) -> Self {
        let scope = self.shared.core().scopes.add(None);
        Self { scope, ..self.clone() }
    }

    /// A context whose operations can be cancelled together. It is cancelled with this one.
    pub fn scope(&self) -> (Self, Scope) {
        let id = self.shared.core().scopes.add(Some(self.scope));
        (Self { scope: id, ..self.clone() }, Scope { shared: self.shared.clone(), id })
    }

    /// Whether this context is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.shared.core().scopes.reason(self.scope).is_some()
    }

    /// Waits until it is.
    #[track_caller]
    pub fn cancelled(&self) -> CancelledFuture {
        let place = Location::caller();
        let mut core = self.shared.core();
        core.note_call(place);
        let id = core.add(self.scope, OpKind::Cancelled);
        if core.scopes.reason(self.scope).is_some() {
            core.resolve(id, Ok(Vec::new()));
        }
        drop(core);
        CancelledFuture { operation: Operation::new(self.shared.clone(), id) }
    }

    /// Why it is.
    pub fn cancel_reason(&self) -> Option<String> {
        self.shared.core().scopes.reason(self.scope).map(str::to_owned)
    }

    /// Ends this run and begins another with this input: `return Err(ctx.continue_as_new::<W>(input))`.
    pub fn continue_as_new<W: WorkflowDefinition>(&self, input: W::Input) -> Error {
        self.continue_as_new_with_options::<W>(input, ContinueOptions::default())
    }

    /// The same with changes.
    pub fn continue_as_new_with_options<W: WorkflowDefinition>(
        &self,
        input: W::Input,
        options: ContinueOptions,
    ) -> Error {
        match converter::encode(&input, W::ARGUMENTS) {
            Ok(mut input) => {
                let options = Box::new(options);
                let header = self.shared.outbound(OutboundKind::ContinueAsNew, W::KIND, &mut input);
                Error::continue_as_new(ContinueAsNew { kind: W::KIND.to_owned(), input, options, header })
            }
            Err(error) => {
                self.shared.core().fail_task(Failure::application("Conversion", error.to_string()));
                error.into()
            }
        }
    }

    /// Whether the server advises to continue as new, because the history has become long.
    pub fn should_continue_as_new(&self) -> bool {
        self.shared.core().suggest_continue_as_new
    }

    /// Whether the server now routes new runs of this workflow to another version than the one to which this run is
    /// pinned: `continue_as_new_with_options` with [`InitialVersioning`](crate::InitialVersioning) moves it there. False
    /// for a run that is not pinned, or has a [`VersioningOverride`](crate::VersioningOverride).
    pub fn target_version_changed(&self) -> bool {
        self.shared.core().target_version_changed
    }

    /// The version of the worker that executes this workflow task; in a replay the version of the one that executed it.
    /// `None`: a worker without versioning.
    pub fn deployment_version(&self) -> Option<DeploymentVersion> {
        self.shared.core().version.as_deref().cloned()
    }

    /// Whether code that was added later may run: yes in new executions, no where history is older than the code.
    pub fn patched(&self, id: &str) -> bool {
        self.patch(id, false)
    }

    /// The code is there for good, and no execution without it is left but some that know the patch.
    pub fn deprecate_patch(&self, id: &str) {
        self.patch(id, true);
    }

    fn patch(&self, id: &str, deprecated: bool) -> bool {
        let mut core = self.shared.core();
        if let Some(known) = core.patches.get(id) {
            return *known;
        }
        let there =
            core.replayed.as_ref().map(|task| task.patches.iter().find(|(patch, _)| patch == id).map(|patch| patch.1));
        let is_new = match there {
            None => true,
            Some(None) => {
                core.patches.insert(id.to_owned(), false);
                return false;
            }
            Some(Some(was_deprecated)) => !was_deprecated,
        };
        let deprecated = if there.is_some() { !is_new } else { deprecated };
        core.patches.insert(id.to_owned(), true);
        let details = [("id", converter::encode_json(id)), ("deprecated", converter::encode_json(&deprecated))];
        let details = details.into_iter().filter_map(|(key, payload)| Some((key, vec![payload.ok()?]))).collect();
        core.push(marker(PATCH_MARKER, details, None), ExpectedEvent::Patch { id: id.to_owned() });
        if !deprecated {
            let ids: Vec<&String> = core.patches.iter().filter(|(_, is_on)| **is_on).map(|(id, _)| id).collect();
            if let Ok(mut payload) = converter::encode_json(&ids) {
                payload.metadata.insert("type".to_owned(), "KeywordList".into());
                let keys = vec![CHANGE_VERSION.to_owned()];
                core.search.insert(CHANGE_VERSION.to_owned(), StoredPayload::of(&payload));
                let ask = CommandRequest::SearchAttributes(vec![(CHANGE_VERSION.to_owned(), payload)]);
                core.push(ask, ExpectedEvent::SearchAttributes { keys });
            }
        }
        true
    }

    /// Whether this workflow task repeats what history has. For logs and the like only: code that depends on it is not
    /// deterministic.
    pub fn is_replaying(&self) -> bool {
        self.shared.core().is_replaying()
    }

    /// The time of this workflow task.
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(u64::try_from(self.shared.core().time()).unwrap_or_default())
    }

    /// A random id that begins with the time of this workflow task.
    pub fn uuid7(&self) -> Uuid {
        let mut core = self.shared.core();
        let millis = u64::try_from(core.time() / 1_000_000).unwrap_or_default();
        core.user_random.uuid7(millis)
    }

    /// A stream of random numbers of its own: what others take from theirs does not shift it.
    pub fn random_stream(&self, name: &str) -> RandomStream {
        RandomStream { shared: self.shared.clone(), name: name.to_owned() }
    }

    /// Information about the run.
    pub fn info(&self) -> Arc<WorkflowInfo> {
        Arc::new(self.shared.core().info.build())
    }

    /// Changes values to search by; `null` removes one.
    pub fn upsert_search_attributes<K: Into<String>, V: Serialize>(&self, values: impl IntoIterator<Item = (K, V)>) {
        if let Some(fields) = self.fields(values) {
            let mut core = self.shared.core();
            let keys = fields.iter().map(|(key, _)| key.clone()).collect();
            StoredPayload::keep(&mut core.search, &fields);
            core.push(CommandRequest::SearchAttributes(fields), ExpectedEvent::SearchAttributes { keys });
        }
    }

    /// Changes notes for people; `null` removes one.
    pub fn upsert_memo<K: Into<String>, V: Serialize>(&self, values: impl IntoIterator<Item = (K, V)>) {
        if let Some(fields) = self.fields(values) {
            let mut core = self.shared.core();
            let keys = fields.iter().map(|(key, _)| key.clone()).collect();
            StoredPayload::keep(&mut core.memo, &fields);
            core.push(CommandRequest::Memo(fields), ExpectedEvent::State { keys });
        }
    }

    /// Keys in order, each once.
    fn fields<K: Into<String>, V: Serialize>(
        &self,
        values: impl IntoIterator<Item = (K, V)>,
    ) -> Option<Vec<(String, Payload)>> {
        let mut fields = std::collections::BTreeMap::new();
        for (key, value) in values {
            match converter::encode_json(&value) {
                Ok(payload) => {
                    fields.insert(key.into(), payload);
                }
                Err(error) => {
                    self.shared.core().fail_task(Failure::application("Conversion", error.to_string()));
                    return None;
                }
            }
        }
        (!fields.is_empty()).then(|| fields.into_iter().collect())
    }

    /// A text for people who look at the running workflow.
    pub fn set_details(&self, text: &str) {
        self.shared.core().details = text.to_owned();
    }

    /// Whether no handler of a signal or update runs. Wait for it before the end:
    /// `ctx.wait_condition(..)` with other state, or loop until it is true.
    pub fn all_handlers_finished(&self) -> bool {
        self.shared.core().unfinished.all == 0
    }
}

/// An operation that waits for the next signal of a name.
pub(super) fn receive<T: DeserializeOwned>(shared: &Arc<Shared>, scope: u64, signal: Signal<T>) -> SignalFuture<T> {
    let mut core = shared.core();
    let id = match core.scopes.reason(scope) {
        None => core.receive(scope, signal.name()),
        Some(_) => {
            let id = core.add(scope, OpKind::Receive { name: signal.name().to_owned() });
            core.resolve(id, Err(Failure::cancelled()));
            id
        }
    };
    drop(core);
    SignalFuture::new(Operation::new(shared.clone(), id), signal.name().to_owned(), decode_first)
}

/// Signals of a name, one after the other, until the scope is cancelled. A signal that came and was not taken goes back to
/// the front when the stream is dropped.
#[must_use = "it does nothing unless it is polled"]
pub struct SignalStream<T> {
    shared: Arc<Shared>,
    scope: u64,
    signal: Signal<T>,
    next: Option<SignalFuture<T>>,
}

impl<T: DeserializeOwned> SignalStream<T> {
    /// The next signal; `None` when the scope is cancelled.
    pub async fn next(&mut self) -> Option<T> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<T: DeserializeOwned> Stream for SignalStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Option<T>> {
        let this = &mut *self;
        let next = this.next.get_or_insert_with(|| receive(&this.shared, this.scope, this.signal));
        let polled = Pin::new(next).poll(context);
        if polled.is_ready() {
            this.next = None;
        }
        polled.map(Result::ok)
    }
}

/// One value from the first payload; none is `null`. A tuple may come as one payload per element.
pub(crate) fn decode_first<T: DeserializeOwned>(payloads: &[Payload]) -> Result<T, converter::ConversionError> {
    match payloads {
        [payload] => converter::decode_payload(payload),
        [payload, ..] => converter::decode_payload(payload)
            .or_else(|error| converter::decode_list(payloads, payloads.len()).map_err(|_| error)),
        [] => serde_json::from_slice(b"null")
            .map_err(|_| converter::ConversionError("a value was expected, but there is no payload".to_owned())),
    }
}

/// Another workflow.
pub struct ExternalWorkflow {
    shared: Arc<Shared>,
    scope: u64,
    execution: WorkflowExecution,
}

impl ExternalWorkflow {
    /// This run of it only.
    pub fn with_run_id(mut self, run_id: impl Into<String>) -> Self {
        self.execution.run_id = run_id.into();
        self
    }

    /// Signals it.
    pub fn signal<T: Serialize + 'static>(&self, signal: Signal<T>, value: T) -> ExternalFuture {
        signal_external(&self.shared, self.scope, self.execution.clone(), signal, value, None)
    }

    /// Asks it to cancel itself.
    pub fn cancel(&self) -> ExternalFuture {
        let WorkflowExecution { workflow_id, run_id } = self.execution.clone();
        let mut core = self.shared.core();
        let id = core.add(self.scope, OpKind::External { what: "cancellation", workflow_id: workflow_id.clone() });
        if core.scopes.reason(self.scope).is_some() {
            core.resolve(id, Err(Failure::cancelled()));
        } else {
            let expected = ExpectedEvent::CancelExternal { op: id, workflow_id: workflow_id.clone() };
            core.push_for(
                id,
                CommandRequest::CancelExternal { workflow_id: workflow_id.clone(), run_id, child_only: false },
                expected,
            );
        }
        drop(core);
        ExternalFuture { operation: Operation::new(self.shared.clone(), id), id: workflow_id }
    }
}

/// A stream of random numbers that replay gives again.
pub struct RandomStream {
    shared: Arc<Shared>,
    name: String,
}

impl RandomStream {
    fn with<T>(&self, f: impl FnOnce(&mut super::random::Generator) -> T) -> T {
        let mut core = self.shared.core();
        let seed = core.seed;
        let generator =
            core.streams.get_or_insert_with(self.name.clone(), || seed.part("stream").part(&self.name).generator());
        f(generator)
    }

    /// 64 random bits.
    pub fn next_u64(&self) -> u64 {
        self.with(super::random::Generator::next)
    }

    /// From 0 to below 1.
    pub fn next_f64(&self) -> f64 {
        self.with(super::random::Generator::next_f64)
    }

    /// A random id.
    pub fn next_uuid(&self) -> Uuid {
        self.with(super::random::Generator::uuid4)
    }
}
