//! The input of a test: tasks, mocks, children, latencies and messages.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_proto::common::Payload;
use serde::{Serialize, de::DeserializeOwned};

use super::server::Input;
use crate::lock::lock;
use crate::{
    converter::{self, ConversionError},
    failure::{Failure, Result},
    panics,
    task::{TaskFn, TaskRegistry},
    workflow::WorkflowRegistry,
};

/// A function that stands for a task or a child, with payloads in and out.
pub(crate) type Mock = Arc<dyn Fn(Vec<Payload>) -> Result<Vec<Payload>, Failure> + Send + Sync>;

/// The function that checks the answer to a query of a test.
pub(crate) type Ask = Box<dyn FnOnce(Result<Vec<Payload>, Failure>) + Send>;

/// A mock with typed input and output.
pub(crate) fn mock<I, O>(arguments: usize, f: impl FnMut(I) -> Result<O> + Send + 'static) -> Mock
where
    I: DeserializeOwned + 'static,
    O: Serialize + 'static,
{
    let f = Mutex::new(f);
    let convert = |error: ConversionError| Failure::from(Failure::application("Conversion", error.to_string()));
    Arc::new(move |input| {
        let input = converter::decode(&input, arguments).map_err(convert)?;
        // A mock that panicked may be called again, as a task that panicked would be.
        let mut f = lock(&f);
        match panics::catch(|| f(input)) {
            Ok(Ok(output)) => converter::encode(&output, 1).map_err(convert),
            Ok(Err(error)) => Err(error.failure()),
            Err(panic) => Err(panic.failure()),
        }
    })
}

/// A mock with JSON in and out: no payload is `null`, several are a list.
pub(crate) fn mock_raw(f: impl FnMut(serde_json::Value) -> Result<serde_json::Value> + Send + 'static) -> Mock {
    let f = Mutex::new(f);
    let convert = |error: ConversionError| Failure::from(Failure::application("Conversion", error.to_string()));
    Arc::new(move |input| {
        let mut values = Vec::new();
        for payload in &input {
            values.push(converter::decode_payload::<serde_json::Value>(payload).map_err(convert)?);
        }
        let value = if values.len() > 1 { values.into() } else { values.pop().unwrap_or_default() };
        let mut f = lock(&f);
        match panics::catch(|| f(value)) {
            Ok(Ok(output)) => Ok(vec![converter::encode_json(&output).map_err(convert)?]),
            Ok(Err(error)) => Err(error.failure()),
            Err(panic) => Err(panic.failure()),
        }
    })
}

/// The messages for the runs of one kind of workflow, and for their children.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) kind: &'static str,
    pub(crate) tasks: TaskRegistry,
    pub(crate) mocks: BTreeMap<String, Mock>,
    pub(crate) latencies: BTreeMap<String, Duration>,
    pub(crate) children: BTreeMap<String, Arc<Plan>>,
    pub(crate) mocked_children: BTreeMap<String, Mock>,
    /// Of Nexus operations, by service and operation with a dot between them.
    pub(crate) mocked_operations: BTreeMap<String, Mock>,
    pub(crate) inputs: Vec<(Duration, Input)>,
    pub(crate) register: Vec<fn(&mut WorkflowRegistry)>,
}

/// The plan of a run, and those of its ancestors, nearest first.
#[derive(Clone)]
pub(crate) struct Plans(Vec<Arc<Plan>>);

/// The function that executes an attempt.
pub(crate) enum Executor {
    Mock(Mock),
    Task(TaskFn),
}

impl Plans {
    pub(crate) fn root(plan: Arc<Plan>) -> Self {
        Self(vec![plan])
    }

    /// The plans of a child of this kind; `None` if it is not registered.
    pub(crate) fn child(&self, kind: &str) -> Option<Self> {
        let plan = self
            .0
            .iter()
            .find_map(|plan| plan.children.get(kind))
            // A workflow may start others of its own kind.
            .or_else(|| self.0.iter().find(|plan| plan.kind == kind))?;
        Some(Self(std::iter::once(plan.clone()).chain(self.0.iter().cloned()).collect()))
    }

    /// The mock of a child of this kind. One that is mentioned nearer as a real child is none.
    pub(crate) fn mocked_child(&self, kind: &str) -> Option<Mock> {
        for plan in &self.0 {
            if let Some(mock) = plan.mocked_children.get(kind) {
                return Some(mock.clone());
            }
            if plan.children.contains_key(kind) {
                return None;
            }
        }
        None
    }

    /// The function that executes a task of this kind.
    pub(crate) fn executor(&self, kind: &str) -> Option<Executor> {
        self.0.iter().find_map(|plan| match plan.mocks.get(kind) {
            Some(mock) => Some(Executor::Mock(mock.clone())),
            None => plan.tasks.get(kind).map(Executor::Task),
        })
    }

    /// The mock of a Nexus operation.
    pub(crate) fn mocked_operation(&self, name: &str) -> Option<Mock> {
        self.0.iter().find_map(|plan| plan.mocked_operations.get(name).cloned())
    }

    /// How long a task or a mocked child of this kind takes.
    pub(crate) fn latency(&self, kind: &str) -> Duration {
        self.0.iter().find_map(|plan| plan.latencies.get(kind).copied()).unwrap_or_default()
    }

    /// Messages from outside, with times counted from the start of the run.
    pub(crate) fn inputs(&self) -> &[(Duration, Input)] {
        self.0.first().map(|plan| plan.inputs.as_slice()).unwrap_or_default()
    }
}
