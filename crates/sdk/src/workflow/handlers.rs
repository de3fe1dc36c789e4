//! Signals, queries and updates of a workflow.

use std::{collections::HashMap, sync::Arc};

use segno_proto::common::Payload;
use serde::{Serialize, de::DeserializeOwned};

use super::{Context, core::BoxFuture};
use crate::{
    converter::{self, ConversionError},
    definition::{Query, Signal, Update},
    failure::{Failure, Result},
};

type Converted<T> = std::result::Result<T, ConversionError>;
type SignalFn<S> = dyn Fn(&Context<S>, &[Payload]) -> Converted<Option<BoxFuture<Result<()>>>> + Send + Sync;
type QueryFn<S> = dyn Fn(&Context<S>, &[Payload]) -> Result<Vec<Payload>> + Send + Sync;
type ValidateFn<S> = dyn Fn(&Context<S>, &[Payload]) -> Result<()> + Send + Sync;
type UpdateFn<S> = dyn Fn(&Context<S>, &[Payload]) -> Converted<BoxFuture<Result<Vec<Payload>>>> + Send + Sync;

/// The handlers of a workflow with the state `S`.
#[allow(clippy::type_complexity)]
pub struct Handlers<S> {
    signals: HashMap<String, Box<SignalFn<S>>>,
    queries: HashMap<String, Box<QueryFn<S>>>,
    updates: HashMap<String, (Box<ValidateFn<S>>, Box<UpdateFn<S>>)>,
}

impl<S> Default for Handlers<S> {
    fn default() -> Self {
        Self { signals: HashMap::new(), queries: HashMap::new(), updates: HashMap::new() }
    }
}

/// What a handler of a signal may return: nothing, or a result. A failure fails the workflow.
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

impl<S: Send + Sync + 'static> Handlers<S> {
    /// A signal that changes the state.
    pub fn signal<T, F, R>(mut self, signal: Signal<T>, handle: F) -> Self
    where
        T: DeserializeOwned + 'static,
        R: HandlerOutcome,
        F: Fn(&mut S, T) -> R + Send + Sync + 'static,
    {
        let arguments = signal.arguments();
        let handle = move |context: &Context<S>, payloads: &[Payload]| {
            let value = converter::decode(payloads, arguments)?;
            match handle(&mut context.state.write(), value).into_result() {
                Ok(()) => Ok(None),
                Err(error) => Ok(Some(Box::pin(async move { Err(error) }) as BoxFuture<Result<()>>)),
            }
        };
        self.signals.insert(signal.name().to_owned(), Box::new(handle));
        self
    }

    /// A signal whose handler may do whatever a workflow may.
    pub fn signal_async<T, F, R>(mut self, signal: Signal<T>, handle: F) -> Self
    where
        T: DeserializeOwned + 'static,
        R: Future<Output: HandlerOutcome> + Send + 'static,
        F: Fn(Context<S>, T) -> R + Send + Sync + 'static,
    {
        let arguments = signal.arguments();
        let handle = move |context: &Context<S>, payloads: &[Payload]| {
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
        let answer = move |context: &Context<S>, payloads: &[Payload]| {
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

    /// An update whose handler may do whatever a workflow may.
    pub fn update_async<I, O, F, R>(mut self, update: Update<I, O>, validate: Validator<S, I>, handle: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        R: Future<Output = Result<O>> + Send + 'static,
        F: Fn(Context<S>, I) -> R + Send + Sync + 'static,
    {
        let arguments = update.arguments();
        let check = move |context: &Context<S>, payloads: &[Payload]| {
            let input: I = converter::decode(payloads, arguments)?;
            match validate {
                Some(validate) => validate(&context.state.read(), &input),
                None => Ok(()),
            }
        };
        let handle = move |context: &Context<S>, payloads: &[Payload]| {
            let future = handle(context.clone(), converter::decode(payloads, arguments)?);
            let future = async move { Ok(converter::encode(&future.await?, 1)?) };
            Ok(Box::pin(future) as BoxFuture<Result<Vec<Payload>>>)
        };
        self.updates.insert(update.name().to_owned(), (Box::new(check), Box::new(handle)));
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
    /// Forgets handlers that hold the context which holds them.
    fn clear(&self);
}

pub(crate) struct BoundHandlers<S> {
    pub handlers: Arc<Handlers<S>>,
    pub context: Context<S>,
}

impl<S: Send + Sync + 'static> Bound for BoundHandlers<S> {
    fn signal(&self, name: &str, payloads: &[Payload]) -> Option<Converted<Option<BoxFuture<Result<()>>>>> {
        Some(self.handlers.signals.get(name)?(&self.context, payloads))
    }

    fn query(&self, name: &str, payloads: &[Payload]) -> Option<Result<Vec<Payload>>> {
        match self.handlers.queries.get(name) {
            Some(answer) => Some(answer(&self.context, payloads)),
            None => {
                let answer = self.context.dynamic.queries.lock().ok()?.get(name)?.clone();
                Some(answer(payloads))
            }
        }
    }

    fn validate(&self, name: &str, payloads: &[Payload]) -> Option<Result<()>> {
        match self.handlers.updates.get(name) {
            Some((validate, _)) => Some(validate(&self.context, payloads)),
            None => {
                let (validate, _) = self.context.dynamic.updates.lock().ok()?.get(name)?.clone();
                Some(validate(payloads))
            }
        }
    }

    fn update(&self, name: &str, payloads: &[Payload]) -> Option<Converted<BoxFuture<Result<Vec<Payload>>>>> {
        match self.handlers.updates.get(name) {
            Some((_, handle)) => Some(handle(&self.context, payloads)),
            None => {
                let (_, handle) = self.context.dynamic.updates.lock().ok()?.get(name)?.clone();
                Some(handle(payloads))
            }
        }
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
            names.sort();
        }
        [signals, queries, updates]
    }
}

type DynamicQuery = Arc<dyn Fn(&[Payload]) -> Result<Vec<Payload>> + Send + Sync>;
type DynamicValidate = Arc<dyn Fn(&[Payload]) -> Result<()> + Send + Sync>;
type DynamicUpdate = Arc<dyn Fn(&[Payload]) -> Converted<BoxFuture<Result<Vec<Payload>>>> + Send + Sync>;

/// Handlers that a workflow function registers while it runs.
#[derive(Default)]
pub(crate) struct Dynamic {
    pub queries: std::sync::Mutex<HashMap<String, DynamicQuery>>,
    pub updates: std::sync::Mutex<HashMap<String, (DynamicValidate, DynamicUpdate)>>,
}

/// For people: why an update or query cannot be answered.
pub(crate) fn unknown(what: &str, name: &str, mut known: Vec<String>) -> Failure {
    known.sort();
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
    Failure::application("NotFound", format!("the workflow has no {what} {name:?}; {known}")).into()
}
