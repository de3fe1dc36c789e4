//! One execution of a workflow in memory: its root futures, and how they are polled.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::Arc,
    task::{Context as TaskContext, Poll, Waker},
};

use segno_proto::common::{Header, Payload};

use super::{
    core::{Closing, Poison, Shared, SpawnedFuture},
    delivery::spawn_signal_handler,
    handlers::{ANY, Bound, HandlerKind},
    info::UpdateInfo,
    interceptor::InboundKind,
    last_call,
    matching::Difference,
    operation::{BoxFuture, Check, OpId, OpKind},
    queue::{self, RootId},
    registry::NewInstance,
    violation::ViolationKind,
};
use crate::{
    converter::ConversionError,
    failure::{Error, Failure},
    panics::{self, Panic},
    telemetry::spans::{self, SpanFields},
};

/// The run itself.
const RUN: RootId = 0;
/// Polls in a workflow task without a command or a result, after which it counts as one that never rests.
const POLLS_MAX: u32 = 1_000_000;

/// Why a workflow task cannot go on.
pub(crate) enum Stop {
    Failure(Failure),
    Violation(Box<Difference>),
}

impl From<Panic> for Stop {
    fn from(panic: Panic) -> Self {
        Self::Failure(panic.in_workflow())
    }
}

struct Root {
    future: BoxFuture<()>,
    waker: Waker,
    /// The update that it handles.
    update: Option<Arc<UpdateInfo>>,
}

pub(crate) struct Instance {
    pub shared: Arc<Shared>,
    pub handlers: Box<dyn Bound>,
    /// The run itself, until it returns.
    run: Option<Root>,
    /// Spawned futures and handlers.
    roots: BTreeMap<RootId, Root>,
    polls: u32,
}

impl Instance {
    pub fn new(shared: Arc<Shared>, made: NewInstance) -> Self {
        let NewInstance { run, handlers } = made;
        let inner = shared.clone();
        let future = Box::pin(async move {
            let result = run.await;
            inner.core().closing.get_or_insert(Closing::Returned(result));
        });
        let waker = queue::waker(RUN, &shared.queue);
        Self { shared, handlers, run: Some(Root { future, waker, update: None }), roots: BTreeMap::new(), polls: 0 }
    }

    /// The first poll of the run itself is due.
    pub fn begin_run(&self) {
        self.shared.queue.push(RUN);
    }

    /// The span of log lines in a workflow task.
    pub fn span(&self) -> tracing::Span {
        let core = self.shared.core();
        let info = &core.info;
        let run = SpanFields { kind: &info.kind, workflow_id: &info.workflow_id, run_id: info.run_id() };
        spans::workflow_span(|| info.headers(), &run)
    }

    pub fn begin_polling(&mut self) {
        self.polls = 0;
        last_call::set(self.shared.core().last_call);
        self.shared.queue.begin_polling();
    }

    pub fn end_polling(&self) {
        self.shared.queue.end_polling();
    }

    pub fn is_closing(&self) -> bool {
        self.shared.core().closing.is_some()
    }

    /// Polls the futures that were woken, until none is. One operation becomes ready at a time.
    pub fn settle(&mut self) -> std::result::Result<(), Stop> {
        loop {
            self.end_of_poll()?;
            if self.is_closing() {
                return Ok(());
            }
            if let Some(root) = self.shared.queue.pop() {
                self.poll(root)?;
                continue;
            }
            // At rest.
            let mut core = self.shared.core();
            core.ungrant();
            let waker = core.grant();
            drop(core);
            if let Some(waker) = waker {
                waker.wake();
            } else if !self.grant_condition()? {
                return self.check_foreign();
            }
        }
    }

    /// Whether anything outside of the workflow woke it since the last time.
    pub fn check_foreign(&self) -> std::result::Result<(), Stop> {
        if !self.shared.queue.take_foreign() {
            return Ok(());
        }
        let waiting: Vec<String> = self.shared.core().ops.values().map(|op| op.kind.describe()).collect();
        let message = format!(
            "something outside of the workflow woke it: a thread, a channel to one, or a future of another runtime; \
             wrap it in `ctx.run_async` or make it a task. It waits for: {}",
            if waiting.is_empty() { "nothing of its own".to_owned() } else { waiting.join(", ") }
        );
        Err(violation(ViolationKind::ForeignWake, message))
    }

    fn poll(&mut self, id: RootId) -> std::result::Result<(), Stop> {
        let root = match id {
            RUN => self.run.as_mut(),
            id => self.roots.get_mut(&id),
        };
        let Some(root) = root else { return Ok(()) };
        let waker = root.waker.clone();
        let mut context = TaskContext::from_waker(&waker);
        if root.update.is_some() {
            self.shared.core().current_update.clone_from(&root.update);
        }
        let polled = panics::catch(|| root.future.as_mut().poll(&mut context));
        if root.update.is_some() {
            self.shared.core().current_update = None;
        }
        match polled {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) => {
                let root = match id {
                    RUN => self.run.take(),
                    id => self.roots.remove(&id),
                };
                drop_safely(root)?;
            }
            Err(panic) => return Err(panic.into()),
        }
        self.polls += 1;
        let mut core = self.shared.core();
        if std::mem::take(&mut core.progress) {
            self.polls = 0;
        } else if self.polls > POLLS_MAX {
            let message = format!("the workflow was polled {POLLS_MAX} times in one workflow task without a result");
            return Err(violation(ViolationKind::NeverRests, message));
        }
        Ok(())
    }

    /// Handles the effects of a poll: roots that it spawned or ended, cancellations of what it dropped, who may become ready.
    fn end_of_poll(&mut self) -> std::result::Result<(), Stop> {
        loop {
            let mut core = self.shared.core();
            let aborted = std::mem::take(&mut core.aborted);
            let spawned = std::mem::take(&mut core.spawned);
            drop(core);
            if aborted.is_empty() && spawned.is_empty() {
                break;
            }
            for SpawnedFuture { id, future, update } in spawned {
                let waker = queue::waker(id, &self.shared.queue);
                self.roots.insert(id, Root { future, waker, update });
                self.shared.queue.push(id);
            }
            for id in aborted {
                let root = self.roots.remove(&id);
                drop_safely(root)?;
            }
        }
        let mut core = self.shared.core();
        match core.poison.take() {
            None => {}
            Some(Poison::Failure(failure)) => return Err(Stop::Failure(failure)),
            Some(Poison::Violation(difference)) => return Err(Stop::Violation(difference)),
        }
        if core.closing.is_some() {
            core.discard_dropped();
            return Ok(());
        }
        core.flush_dropped();
        let waker = core.grant();
        drop(core);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// The oldest condition that is fulfilled.
    fn grant_condition(&mut self) -> std::result::Result<bool, Stop> {
        let conditions: Vec<(OpId, Check)> = {
            let core = self.shared.core();
            core.conditions
                .keys()
                .filter_map(|id| match core.ops.get(id) {
                    Some(op) if op.waker.is_some() => match &op.kind {
                        OpKind::Condition { check } => Some((*id, check.clone())),
                        _ => None,
                    },
                    _ => None,
                })
                .collect()
        };
        for (id, check) in conditions {
            match panics::catch(|| check()) {
                Ok(false) => {}
                Ok(true) => {
                    self.shared.core().resolve(id, Ok(Vec::new()));
                    return Ok(true);
                }
                Err(panic) => return Err(panic.into()),
            }
        }
        Ok(false)
    }

    /// Delivers a signal to its handler, or keeps it until the code receives it.
    pub fn signal(
        &mut self,
        name: &str,
        payloads: Vec<Payload>,
        header: Option<&Header>,
    ) -> std::result::Result<(), Stop> {
        let core = self.shared.core();
        let [handler, any] = [name, ANY].map(|name| core.signals.handlers.get(name).cloned());
        drop(core);
        let handled = panics::catch(|| {
            let payloads = self.shared.inbound(InboundKind::Signal, name, header, Cow::Owned(payloads)).into_owned();
            let handled = match handler {
                Some(handler) => Some(handler(name, payloads.clone())),
                None => self.handlers.signal(name, &payloads).or_else(|| Some(any?(name, payloads.clone()))),
            };
            handled.ok_or(payloads)
        });
        match handled {
            Ok(Err(payloads)) => self.shared.core().deliver_signal(name, payloads),
            Ok(Ok(Ok(None))) => {}
            Ok(Ok(Ok(Some(future)))) => {
                let abandoned = self.handlers.abandons(HandlerKind::Signal, name);
                spawn_signal_handler(&self.shared, future, abandoned);
            }
            Ok(Ok(Err(ConversionError(error)))) => {
                let message = format!("signal {name:?}: {error}");
                return Err(Stop::Failure(Failure::application("Conversion", message).into()));
            }
            Err(panic) => return Err(panic.into()),
        }
        Ok(())
    }

    /// Whether an update is accepted. `None`: there is no such update.
    pub fn validate(
        &self,
        update: &Arc<UpdateInfo>,
        payloads: &[Payload],
        header: Option<&Header>,
    ) -> Option<std::result::Result<(), Failure>> {
        let before = {
            let mut core = self.shared.core();
            core.current_update = Some(update.clone());
            core.before()
        };
        let validated = panics::catch(|| {
            let payloads = self.shared.inbound(InboundKind::Validate, &update.name, header, Cow::Borrowed(payloads));
            self.handlers.validate(&update.name, &payloads)
        });
        let taken_back = {
            let mut core = self.shared.core();
            core.current_update = None;
            core.take_back(before)
        };
        match validated {
            Ok(Some(_)) if taken_back.asked => {
                let message = format!("the validator of update {:?} must not schedule anything", update.name);
                Some(Err(Failure::application("UpdateRejected", message).into()))
            }
            Ok(validated) => validated.map(|result| result.map_err(|error| error.failure())),
            Err(panic) => Some(Err(panic.in_workflow())),
        }
    }

    /// Begins to handle an update; `done` is called with what comes of it.
    pub fn update(
        &mut self,
        update: Arc<UpdateInfo>,
        payloads: &[Payload],
        header: Option<&Header>,
        done: impl FnOnce(&Shared, std::result::Result<Vec<Payload>, Error>) + Send + 'static,
    ) -> std::result::Result<(), Stop> {
        let name = update.name.as_str();
        self.shared.core().current_update = Some(update.clone());
        let begun = panics::catch(|| {
            let payloads = self.shared.inbound(InboundKind::Update, name, header, Cow::Borrowed(payloads));
            self.handlers.update(name, &payloads)
        });
        self.shared.core().current_update = None;
        let future = match begun {
            Ok(Some(Ok(future))) => future,
            Ok(Some(Err(error))) => {
                return Err(Stop::Failure(Failure::application("Conversion", error.to_string()).into()));
            }
            Ok(None) => {
                let [_, _, known] = self.handlers.names();
                return Err(Stop::Failure(super::handlers::unknown("update", name, known)));
            }
            Err(panic) => return Err(panic.into()),
        };
        let abandoned = self.handlers.abandons(HandlerKind::Update, name);
        let mut core = self.shared.core();
        let id = core.next_root();
        core.unfinished.begin(abandoned);
        let inner = self.shared.clone();
        let future = Box::pin(async move {
            let result = future.await;
            inner.core().unfinished.end(abandoned);
            done(&inner, result);
        });
        core.spawned.push(SpawnedFuture { id, future, update: Some(update) });
        Ok(())
    }
}

/// A violation that is not a difference to an event.
fn violation(kind: ViolationKind, message: String) -> Stop {
    let difference =
        Difference { kind, event_id: 0, sequence: 0, expected: String::new(), actual: message, place: None };
    Stop::Violation(Box::new(difference))
}

/// Drops a value of the user's, which may panic.
fn drop_safely<T>(value: T) -> std::result::Result<(), Stop> {
    panics::catch(|| drop(value)).map_err(Stop::from)
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.shared.queue.tear_down();
        let roots = std::mem::take(&mut self.roots).into_values();
        for root in self.run.take().into_iter().chain(roots) {
            // A panic here has no effect: the instance is thrown away.
            let _ = drop_safely(root);
        }
        let mut core = self.shared.core();
        let kept = (
            std::mem::take(&mut core.ops),
            std::mem::take(&mut core.spawned),
            std::mem::take(&mut core.signals),
            core.closing.take(),
        );
        drop(core);
        let _ = drop_safely(kept);
        self.handlers.clear();
    }
}
