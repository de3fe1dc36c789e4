//! The workflows that a worker can execute.

use std::{collections::HashMap, sync::Arc};

use segno_proto::common::Payload;

use super::{
    Context,
    core::Shared,
    handlers::{Bound, BoundHandlers, Handlers},
    interceptor::{Rules, WorkflowInterceptor},
    operation::BoxFuture,
    scope_tree::ROOT,
    state::StateCell,
};
use crate::{
    converter::{self, ConversionError},
    definition::Workflow,
    failure::Result,
    task::DYNAMIC,
    versioning::{DeploymentVersion, VersioningBehavior},
};

/// A new instance: its run, not polled yet, and its handlers.
pub(crate) struct NewInstance {
    pub run: BoxFuture<Result<Vec<Payload>>>,
    pub handlers: Box<dyn Bound>,
}

pub(crate) trait Factory: Send + Sync {
    fn make(&self, shared: Arc<Shared>, input: &[Payload]) -> std::result::Result<NewInstance, ConversionError>;
    fn versioning(&self) -> VersioningBehavior;
}

struct Of<W: Workflow>(Arc<Handlers<W::State>>);

impl<W: Workflow> Factory for Of<W> {
    fn make(&self, shared: Arc<Shared>, input: &[Payload]) -> std::result::Result<NewInstance, ConversionError> {
        let input: W::Input = converter::decode(input, W::ARGUMENTS)?;
        let state = Arc::new(StateCell::new(W::init(&input)));
        let context = Context { shared, state, dynamic: Arc::default(), scope: ROOT };
        let handlers = Box::new(BoundHandlers { handlers: self.0.clone(), context: context.clone() });
        let run = Box::pin(async move { Ok(converter::encode(&W::run(context, input).await?, 1)?) });
        Ok(NewInstance { run, handlers })
    }

    fn versioning(&self) -> VersioningBehavior {
        W::versioning()
    }
}

/// The workflows that a worker can execute, by kind.
#[derive(Clone, Default)]
pub struct WorkflowRegistry {
    factories: HashMap<&'static str, Arc<dyn Factory>>,
    duplicates: Vec<&'static str>,
    rules: Arc<Rules>,
    /// Of the worker.
    version: Option<Arc<DeploymentVersion>>,
}

impl WorkflowRegistry {
    /// Adds one.
    pub fn add<W: Workflow>(&mut self) {
        let factory = Arc::new(Of::<W>(Arc::new(W::handlers())));
        if self.factories.insert(W::KIND, factory).is_some() {
            self.duplicates.push(W::KIND);
        }
    }

    /// Adds code around what they receive and ask for.
    pub fn intercept(&mut self, interceptor: impl WorkflowInterceptor) {
        Arc::make_mut(&mut self.rules).interceptors.push(Arc::new(interceptor));
    }

    /// Compares queue and input of tasks with history, too.
    pub fn set_strict(&mut self) {
        Arc::make_mut(&mut self.rules).strict = true;
    }

    pub(crate) fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Sets the version of the worker that executes them.
    pub(crate) fn set_version(&mut self, version: DeploymentVersion) {
        self.version = Some(Arc::new(version));
    }

    /// The version of the worker that executes them.
    pub(crate) fn version(&self) -> Option<Arc<DeploymentVersion>> {
        self.version.clone()
    }

    /// The versioning behaviour that the attribute of a workflow names.
    pub(crate) fn versioning(&self, kind: &str) -> VersioningBehavior {
        self.get(kind).map_or(VersioningBehavior::Unspecified, |factory| factory.versioning())
    }

    /// The kinds, in order.
    pub fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<&'static str> = self.factories.keys().copied().collect();
        kinds.sort_unstable();
        kinds
    }

    /// Kinds that were added more than once.
    pub fn duplicates(&self) -> &[&'static str] {
        &self.duplicates
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.factories.is_empty()
    }

    /// The workflow of this kind; failing that, the one that executes all kinds.
    pub(crate) fn get(&self, kind: &str) -> Option<Arc<dyn Factory>> {
        self.factories.get(kind).or_else(|| self.factories.get(DYNAMIC)).cloned()
    }
}
