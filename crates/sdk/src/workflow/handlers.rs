//! Signals, queries and updates of a workflow.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use segno_proto::common::Payload;
use serde::{Serialize, de::DeserializeOwned};

use super::{Context, operation::BoxFuture, sorted::Sorted};
use crate::{
    converter::{self, ALL_PAYLOADS, ConversionError},
    definition::messages::{Query, Signal, Update},
    failure::{Failure, Result},
};

type Converted<T> = std::result::Result<T, ConversionError>;
// The text is the name that was called; only those for all names look at it.
type SignalFn<S> = dyn Fn(&Context<S>, &str, &[Payload]) -> Converted<Option<BoxFuture<Result<()>>>> + Send + Sync;
type QueryFn<S> = dyn Fn(&Context<S>, &str, &[Payload]) -> Result<Vec<Payload>> + Send + Sync;
type ValidateFn<S> = dyn Fn(&Context<S>, &str, &[Payload]) -> Result<()> + Send + Sync;
type UpdateFn<S> = dyn Fn(&Context<S>, &str, &[Payload]) -> Converted<BoxFuture<Result<Vec<Payload>>>> + Send + Sync;

/// The name of a handler for all names that have no other.
pub(crate) const ANY: &str = "*";

/// The handlers of a workflow with the state `S`.
#[allow(clippy::type_complexity)]
pub struct Handlers<S> {
    signals: HashMap<String, Box<SignalFn<S>>>,
    queries: HashMap<String, Box<QueryFn<S>>>,
    updates: HashMap<String, (Box<ValidateFn<S>>, Box<UpdateFn<S>>)>,
    /// Signals and updates whose handlers the end of the workflow may cut off.
    abandoned: HashSet<(HandlerKind, String)>,
}

/// The kinds of handlers that can still run when the workflow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HandlerKind {
    Signal,
    Update,
}

impl<S> Default for Handlers<S> {
    fn default() -> Self {
        Self { signals: HashMap::new(), queries: HashMap::new(), updates: HashMap::new(), abandoned: HashSet::new() }
    }
}

/// The handler of a name, else the one for all names.
fn named_or_any<'a, T>(handlers: &'a HashMap<String, T>, name: &str) -> Option<&'a T> {
    handlers.get(name).or_else(|| handlers.get(ANY))
}

/// The type that a handler of a signal may return: nothing, or a result. A failure fails the workflow.
pub trait HandlerOutcome {
    /// As a result.
    fn into_result(self) -> Result<()>;
}

impl HandlerOutcome for () {
    fn into_result(self) -> Result<()> {
        Ok(())
    }
}

impl<E: Into<crate::Error>> HandlerOutcome for std::result::Result<(), E> {
    fn into_result(self) -> Result<()> {
        self.map_err(Into::into)
    }
}

/// A check of an update before it is accepted.
pub type Validator<S, I> = Option<fn(&S, &I) -> Result<()>>;
/// A check of an update of any name before it is accepted.
pub type AnyValidator<S, A> = Option<fn(&S, &String, &A) -> Result<()>>;

impl<S: Send + Sync + 'static> Handlers<S> {
    /// A signal that changes the state.
    pub fn signal<T, F, R>(mut self, signal: Signal<T>, handle: F) -> Self
    where
        T: DeserializeOwned + 'static,
        R: HandlerOutcome,
        F: Fn(&mut S, T) -> R + Send + Sync + 'static,
    {
        let arguments = signal.arguments();
        let handle = move |context: &Context<S>, _: &str, payloads: &[Payload]| {
            let value = converter::decode(payloads, arguments)?;
            match handle(&mut context.state.write(), value).into_result() {
                Ok(()) => Ok(None),
                Err(error) => Ok(Some(Box::pin(async move { Err(error) }) as BoxFuture<Result<()>>)),
            }
        };
        self.signals.insert(signal.name().to_owned(), Box::new(handle));
        self
    }

    /// A signal whose handler may do everything that a workflow may.
    pub fn signal_async<T, F, R>(mut self, signal: Signal<T>, handle: F) -> Self
    where
        T: DeserializeOwned + 'static,
        R: Future<Output: HandlerOutcome> + Send + 'static,
        F: Fn(Context<S>, T) -> R + Send + Sync + 'static,
    {
        let arguments = signal.arguments();
        let handle = move |context: &Context<S>, _: &str, payloads: &[Payload]| {
            let future = handle(context.clone(), converter::decode(payloads, arguments)?);
            Ok(Some(Box::pin(async move { future.await.into_result() }) as BoxFuture<Result<()>>))
        };
        self.signals.insert(signal.name().to_owned(), Box::new(handle));
        self
    }

    /// A query.
    pub fn query<I, O, F>(self, query: Query<I, O>, answer: F) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        F: Fn(&S, I) -> O + Send + Sync + 'static,
    {
        self.query_fallible(query, move |state, input| Ok(answer(state, input)))
    }

    /// A query that can fail.
    pub fn query_fallible<I, O, F>(mut self, query: Query<I, O>, answer: F) -> Self
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        F: Fn(&S, I) -> Result<O> + Send + Sync + 'static,
    {
        let arguments = query.arguments();
        let answer = move |context: &Context<S>, _: &str, payloads: &[Payload]| {
            let input = converter::decode(payloads, arguments)?;
            let answer = answer(&context.state.read(), input)?;
            Ok(converter::encode(&answer, 1)?)
        };
        self.queries.insert(query.name().to_owned(), Box::new(answer));
        self
    }

    /// An update that changes the state.
    pub fn update<I, O, F>(self, update: Update<I, O>, validate: Validator<S, I>, handle: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(&mut S, I) -> Result<O> + Send + Sync + 'static,
    {
        let handle = Arc::new(handle);
        self.update_async(update, validate, move |context, input| {
            let handle = handle.clone();
            async move { handle(&mut context.state.write(), input) }
        })
    }

    /// An update whose handler may do everything that a workflow may.
    pub fn update_async<I, O, F, R>(mut self, update: Update<I, O>, validate: Validator<S, I>, handle: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        R: Future<Output = Result<O>> + Send + 'static,
        F: Fn(Context<S>, I) -> R + Send + Sync + 'static,
    {
        let arguments = update.arguments();
        let check = move |context: &Context<S>, _: &str, payloads: &[Payload]| {
            let input: I = converter::decode(payloads, arguments)?;
            match validate {
                Some(validate) => validate(&context.state.read(), &input),
                None => Ok(()),
            }
        };
        let handle = move |context: &Context<S>, _: &str, payloads: &[Payload]| {
            let future = handle(context.clone(), converter::decode(payloads, arguments)?);
            let future = async move { Ok(converter::encode(&future.await?, 1)?) };
            Ok(Box::pin(future) as BoxFuture<Result<Vec<Payload>>>)
        };
        self.updates.insert(update.name().to_owned(), (Box::new(check), Box::new(handle)));
        self
    }

    /// All signals without a handler of their own: name and arguments. [`Context::receive`] then gets none of them.
    pub fn signal_any<A, F, R>(mut self, handle: F) -> Self
    where
        A: DeserializeOwned + 'static,
        R: HandlerOutcome,
        F: Fn(&mut S, String, A) -> R + Send + Sync + 'static,
    {
        let handle = move |context: &Context<S>, name: &str, payloads: &[Payload]| {
            let arguments = converter::decode(payloads, ALL_PAYLOADS)?;
            match handle(&mut context.state.write(), name.to_owned(), arguments).into_result() {
                Ok(()) => Ok(None),
                Err(error) => Ok(Some(Box::pin(async move { Err(error) }) as BoxFuture<Result<()>>)),
            }
        };
        self.signals.insert(ANY.to_owned(), Box::new(handle));
        self
    }

    /// The same with a handler that may do everything that a workflow may.
    pub fn signal_any_async<A, F, R>(mut self, handle: F) -> Self
    where
        A: DeserializeOwned + 'static,
        R: Future<Output: HandlerOutcome> + Send + 'static,
        F: Fn(Context<S>, String, A) -> R + Send + Sync + 'static,
    {
        let handle = move |context: &Context<S>, name: &str, payloads: &[Payload]| {
            let future = handle(context.clone(), name.to_owned(), converter::decode(payloads, ALL_PAYLOADS)?);
            Ok(Some(Box::pin(async move { future.await.into_result() }) as BoxFuture<Result<()>>))
        };
        self.signals.insert(ANY.to_owned(), Box::new(handle));
        self
    }

    /// All queries without an answer of their own: name and arguments.
    pub fn query_any<A, O, F>(mut self, answer: F) -> Self
    where
        A: DeserializeOwned + 'static,
        O: Serialize + 'static,
        F: Fn(&S, String, A) -> Result<O> + Send + Sync + 'static,
    {
        let answer = move |context: &Context<S>, name: &str, payloads: &[Payload]| {
            let arguments = converter::decode(payloads, ALL_PAYLOADS)?;
            let answer = answer(&context.state.read(), name.to_owned(), arguments)?;
            Ok(converter::encode(&answer, 1)?)
        };
        self.queries.insert(ANY.to_owned(), Box::new(answer));
        self
    }

    /// All updates without a handler of their own: name and arguments.
    pub fn update_any<A, O, F>(self, validate: AnyValidator<S, A>, handle: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(&mut S, String, A) -> Result<O> + Send + Sync + 'static,
    {
        let handle = Arc::new(handle);
        self.update_any_async(validate, move |context, name, arguments| {
            let handle = handle.clone();
            async move { handle(&mut context.state.write(), name, arguments) }
        })
    }

    /// The same with a handler that may do everything that a workflow may.
    pub fn update_any_async<A, O, F, R>(mut self, validate: AnyValidator<S, A>, handle: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        R: Future<Output = Result<O>> + Send + 'static,
        F: Fn(Context<S>, String, A) -> R + Send + Sync + 'static,
    {
        let check = move |context: &Context<S>, name: &str, payloads: &[Payload]| {
            let arguments: A = converter::decode(payloads, ALL_PAYLOADS)?;
            match validate {
                Some(validate) => validate(&context.state.read(), &name.to_owned(), &arguments),
                None => Ok(()),
            }
        };
        let handle = move |context: &Context<S>, name: &str, payloads: &[Payload]| {
            let future = handle(context.clone(), name.to_owned(), converter::decode(payloads, ALL_PAYLOADS)?);
            let future = async move { Ok(converter::encode(&future.await?, 1)?) };
            Ok(Box::pin(future) as BoxFuture<Result<Vec<Payload>>>)
        };
        self.updates.insert(ANY.to_owned(), (Box::new(check), Box::new(handle)));
        self
    }

    /// The workflow may end while the handler of this signal runs, without a warning.
    pub fn abandon_signal(mut self, name: impl Into<String>) -> Self {
        self.abandoned.insert((HandlerKind::Signal, name.into()));
        self
    }

    /// The workflow may end while the handler of this update runs, without a warning.
    pub fn abandon_update(mut self, name: impl Into<String>) -> Self {
        self.abandoned.insert((HandlerKind::Update, name.into()));
        self
    }
}

/// Handlers with the context of one run. What is not there answers `None`.
pub(crate) trait Bound: Send {
    fn signal(&self, name: &str, payloads: &[Payload]) -> Option<Converted<Option<BoxFuture<Result<()>>>>>;
    fn query(&self, name: &str, payloads: &[Payload]) -> Option<Result<Vec<Payload>>>;
    fn validate(&self, name: &str, payloads: &[Payload]) -> Option<Result<()>>;
    fn update(&self, name: &str, payloads: &[Payload]) -> Option<Converted<BoxFuture<Result<Vec<Payload>>>>>;
    /// Names of signals, queries and updates.
    fn names(&self) -> [Vec<String>; 3];
    /// Whether the end of the workflow may cut off the handler of this name.
    fn abandons(&self, kind: HandlerKind, name: &str) -> bool;
    /// Forgets handlers that hold the context which holds them.
    fn clear(&self);
}

pub(crate) struct BoundHandlers<S> {
    pub handlers: Arc<Handlers<S>>,
    pub context: Context<S>,
}

impl<S: Send + Sync + 'static> Bound for BoundHandlers<S> {
    fn signal(&self, name: &str, payloads: &[Payload]) -> Option<Converted<Option<BoxFuture<Result<()>>>>> {
        Some(named_or_any(&self.handlers.signals, name)?(&self.context, name, payloads))
    }

    fn query(&self, name: &str, payloads: &[Payload]) -> Option<Result<Vec<Payload>>> {
        if let Some(answer) = self.handlers.queries.get(name) {
            return Some(answer(&self.context, name, payloads));
        }
        let added = self.context.dynamic.query(name);
        match added {
            Some(answer) => Some(answer(name, payloads)),
            None => Some(self.handlers.queries.get(ANY)?(&self.context, name, payloads)),
        }
    }

    fn validate(&self, name: &str, payloads: &[Payload]) -> Option<Result<()>> {
        if let Some((validate, _)) = self.handlers.updates.get(name) {
            return Some(validate(&self.context, name, payloads));
        }
        let added = self.context.dynamic.update(name);
        match added {
            Some((validate, _)) => Some(validate(name, payloads)),
            None => Some(self.handlers.updates.get(ANY)?.0(&self.context, name, payloads)),
        }
    }

    fn update(&self, name: &str, payloads: &[Payload]) -> Option<Converted<BoxFuture<Result<Vec<Payload>>>>> {
        if let Some((_, handle)) = self.handlers.updates.get(name) {
            return Some(handle(&self.context, name, payloads));
        }
        let added = self.context.dynamic.update(name);
        match added {
            Some((_, handle)) => Some(handle(name, payloads)),
            None => Some(self.handlers.updates.get(ANY)?.1(&self.context, name, payloads)),
        }
    }

    fn abandons(&self, kind: HandlerKind, name: &str) -> bool {
        let set = &self.handlers.abandoned;
        let is_named = match kind {
            HandlerKind::Signal => self.handlers.signals.contains_key(name),
            HandlerKind::Update => self.handlers.updates.contains_key(name),
        };
        !set.is_empty() && set.contains(&(kind, if is_named { name } else { ANY }.to_owned()))
    }

    fn clear(&self) {
        let queries = self.context.dynamic.queries.lock().map(|mut queries| std::mem::take(&mut *queries));
        let updates = self.context.dynamic.updates.lock().map(|mut updates| std::mem::take(&mut *updates));
        drop((queries, updates));
    }

    fn names(&self) -> [Vec<String>; 3] {
        let dynamic = &self.context.dynamic;
        let mut signals: Vec<String> = self.handlers.signals.keys().cloned().collect();
        signals.extend(self.context.shared.core().signals.handlers.keys().cloned());
        let mut queries: Vec<String> = self.handlers.queries.keys().cloned().collect();
        queries.extend(dynamic.queries.lock().iter().flat_map(|queries| queries.keys().cloned()));
        let mut updates: Vec<String> = self.handlers.updates.keys().cloned().collect();
        updates.extend(dynamic.updates.lock().iter().flat_map(|updates| updates.keys().cloned()));
        for names in [&mut signals, &mut queries, &mut updates] {
            names.retain(|name| name != ANY);
            names.sort();
        }
        [signals, queries, updates]
    }
}

type DynamicQuery = Arc<dyn Fn(&str, &[Payload]) -> Result<Vec<Payload>> + Send + Sync>;
type DynamicValidate = Arc<dyn Fn(&str, &[Payload]) -> Result<()> + Send + Sync>;
type DynamicUpdate = Arc<dyn Fn(&str, &[Payload]) -> Converted<BoxFuture<Result<Vec<Payload>>>> + Send + Sync>;

/// Handlers that a workflow function registers while it runs.
#[derive(Default)]
pub(crate) struct Dynamic {
    pub queries: std::sync::Mutex<Sorted<String, DynamicQuery>>,
    pub updates: std::sync::Mutex<Sorted<String, (DynamicValidate, DynamicUpdate)>>,
}

impl Dynamic {
    fn query(&self, name: &str) -> Option<DynamicQuery> {
        let queries = self.queries.lock().ok()?;
        queries.get(name).or_else(|| queries.get(ANY)).cloned()
    }

    fn update(&self, name: &str) -> Option<(DynamicValidate, DynamicUpdate)> {
        let updates = self.updates.lock().ok()?;
        updates.get(name).or_else(|| updates.get(ANY)).cloned()
    }
}

/// For people: why an update or query cannot be answered.
pub(crate) fn unknown(what: &str, name: &str, mut known: Vec<String>) -> Failure {
    known.sort();
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
    Failure::application("NotFound", format!("the workflow has no {what} {name:?}; {known}")).into()
}
