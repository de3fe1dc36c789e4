//! A node in a runtime of its own, whose time is paused: it passes only in [`Host::run_until`]. Dropping a host kills the process:
//! all tasks end where they wait.
//!
//! What the node answers is collected until the step ends, and sorted: tokio wakes the receivers of a `watch` channel in an order
//! that no seed decides, so the order of answers within a millisecond must not matter.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use segno_calls::CallMetadata;
use segno_node::{ConnectionId, Environment, Ids, Node, NodeOptions, RuntimeClock, lock};
use segno_server::Edge;
use segno_store::Store;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Notify, mpsc},
    task::AbortHandle,
    time::{Duration, Instant, advance, sleep, sleep_until},
};
use tonic::Status;

use crate::{BEGIN, Millis};

/// The number of a call, unique in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// What becomes of the answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFate {
    /// It arrives.
    Arrives,
    /// The connection breaks before it is written.
    NotWritten,
    /// It is written, and lost on its way.
    Lost,
}

impl AnswerFate {
    /// As the trace says it.
    pub fn consequence(self) -> &'static str {
        match self {
            Self::Arrives => "",
            Self::NotWritten => ", whose connection will break before the answer",
            Self::Lost => ", whose answer will be lost",
        }
    }
}

/// What reaches a node.
pub enum Arrival {
    /// A call.
    Call {
        /// Its number.
        id: CallId,
        /// Its method.
        path: &'static str,
        /// Its request.
        message: Bytes,
        /// Its connection and deadline.
        metadata: CallMetadata,
        /// What becomes of the answer.
        fate: AnswerFate,
    },
    /// The caller gave up.
    Abandon(CallId),
    /// A connection was closed.
    Closed(ConnectionId),
    /// The node is to shut down.
    Stop,
}

/// What a node tells the world.
#[derive(Debug)]
pub enum Output {
    /// It serves from now on, or could not start.
    Started(Result<(), String>),
    /// The answer to a call.
    Answer(CallId, Result<Bytes, Status>),
    /// A part that must not end has ended.
    Failed(String),
}

impl Output {
    /// The order within a step.
    fn rank(&self) -> (u8, Option<CallId>) {
        match self {
            Self::Started(_) => (0, None),
            Self::Answer(id, _) => (1, Some(*id)),
            Self::Failed(_) => (2, None),
        }
    }
}

/// Outputs with the moment of each.
#[derive(Default)]
struct Outputs {
    collected: Mutex<Vec<(Instant, Output)>>,
    arrived: Notify,
}

impl Outputs {
    fn push(&self, output: Output) {
        lock::lock(&self.collected).push((Instant::now(), output));
        self.arrived.notify_one();
    }
}

/// See the module.
pub struct Host {
    runtime: Runtime,
    arrivals: mpsc::UnboundedSender<Arrival>,
    outputs: Arc<Outputs>,
    now: Millis,
}

impl Host {
    /// Starts a node at a moment of the world. The seed decides its ids.
    pub fn start(store: Arc<dyn Store>, options: NodeOptions, at: Millis, seed: u64) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let (arrivals, received) = mpsc::unbounded_channel();
        let outputs = Arc::new(Outputs::default());
        let told = outputs.clone();
        runtime.block_on(async move {
            let environment = Environment {
                clock: Arc::new(RuntimeClock::from(BEGIN + at as i64 * 1_000_000)),
                random: Arc::new(Ids::of_seed(seed)),
                threads: None,
                cores: 1,
                ..Environment::of_machine()
            };
            tokio::spawn(serve(store, environment, options, received, told));
        });
        Ok(Self { runtime, arrivals, outputs, now: at })
    }

    /// Something reaches the node when it goes on.
    pub fn send(&self, arrival: Arrival) {
        // A node that failed reads nothing more.
        let _ = self.arrivals.send(arrival);
    }

    /// The time of the node.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Lets the node work until a moment, or for a millisecond after its first output. Its outputs come in an order of their own,
    /// each with its moment.
    pub fn run_until(&mut self, until: Millis) -> Vec<(Millis, Output)> {
        let left = Duration::from_millis(until.saturating_sub(self.now).max(1));
        let outputs = self.outputs.clone();
        let (began, ended) = self.runtime.block_on(async move {
            let began = Instant::now();
            tokio::select! {
                biased;
                () = sleep_until(began + left) => {}
                () = outputs.arrived.notified() => sleep(Duration::from_millis(1)).await,
            }
            (began, Instant::now())
        });
        let began_at = self.now;
        self.now += millis(ended - began);
        let mut collected: Vec<_> = lock::lock(&self.outputs.collected).drain(..).collect();
        collected.sort_by_key(|(at, output)| (*at, output.rank()));
        let at = |moment: Instant| began_at + millis(moment.saturating_duration_since(began));
        collected.into_iter().map(|(moment, output)| (at(moment), output)).collect()
    }

    /// The process stood still until a moment: its clocks jump.
    pub fn jump_to(&mut self, to: Millis) {
        let by = to.saturating_sub(self.now);
        self.runtime.block_on(advance(Duration::from_millis(by)));
        self.now = to.max(self.now);
    }
}

fn millis(duration: Duration) -> Millis {
    duration.as_millis() as Millis
}

/// Serves calls until the runtime is dropped.
async fn serve(
    store: Arc<dyn Store>,
    environment: Environment,
    options: NodeOptions,
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    outputs: Arc<Outputs>,
) {
    let node = match Node::start(store, environment, options).await {
        Ok(node) => node,
        Err(error) => return outputs.push(Output::Started(Err(error.to_string()))),
    };
    let edge = Edge::new(&node, (String::new(), String::new()));
    edge.carry_out_jobs(&node);
    outputs.push(Output::Started(Ok(())));
    let mut calls: BTreeMap<CallId, AbortHandle> = BTreeMap::new();
    let of_node = |ConnectionId(number)| ConnectionId(node.runs.connection_prefix() | number);
    loop {
        let arrival = tokio::select! {
            biased;
            arrival = arrivals.recv() => arrival,
            why = node.runs.lifecycle.failed() => return outputs.push(Output::Failed(why)),
        };
        match arrival {
            None => return,
            Some(Arrival::Call { id, path, message, metadata, fate }) => {
                let metadata = CallMetadata { connection: metadata.connection.map(of_node), ..metadata };
                let task = tokio::spawn(answer(edge.clone(), outputs.clone(), id, (path, message, metadata), fate));
                calls.insert(id, task.abort_handle());
            }
            Some(Arrival::Abandon(id)) => calls.remove(&id).into_iter().for_each(|call| call.abort()),
            Some(Arrival::Closed(connection)) => node.workers.connection_closed(of_node(connection)),
            Some(Arrival::Stop) => node.shut_down(),
        }
        calls.retain(|_, call| !call.is_finished());
    }
}

async fn answer(
    edge: Edge,
    outputs: Arc<Outputs>,
    id: CallId,
    (path, message, metadata): (&'static str, Bytes, CallMetadata),
    fate: AnswerFate,
) {
    let outcome = edge.call(path, message, metadata).await;
    let outcome = outcome.map(|(message, delivery)| {
        if fate != AnswerFate::NotWritten {
            delivery.into_iter().for_each(|delivery| delivery.delivered());
        }
        message
    });
    if fate == AnswerFate::Arrives {
        outputs.push(Output::Answer(id, outcome));
    }
}
