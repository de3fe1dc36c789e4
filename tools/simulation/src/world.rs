//! The world of a seed: one node and its disk, clients and workers, and the network between them.
//!
//! The loop alternates between the executor and the node's runtime. Neither gets ahead of the other by more than the millisecond
//! that a message takes at least, so that no message arrives in the past.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use segno_calls::{CallMetadata, ShortText};
use segno_node::{ConnectionId, NodeOptions};
use segno_proto::Rpc;
use tonic::{Code, Status};

use crate::{
    Millis,
    disk::{Behaviour, Disk},
    executor::{Executor, Slot},
    host::{AnswerFate, Arrival, CallId, Host, Output},
    ledger::Ledger,
    oracle, panics,
    random::Random,
    scenario::Scenario,
    trace::Trace,
};

/// How long a start that failed waits for the next one.
const RESTART_PAUSE: Millis = 300;

/// Why a call has no response.
#[derive(Debug)]
pub enum CallFailure {
    /// Nothing is known of its outcome.
    Lost,
    /// The server refused it.
    Status(Status),
}

impl CallFailure {
    /// Whether an SDK would repeat the call.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Lost => true,
            Self::Status(status) => {
                matches!(
                    status.code(),
                    Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Aborted
                )
            }
        }
    }

    /// The code of a refusal.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Lost => None,
            Self::Status(status) => Some(status.code()),
        }
    }
}

enum CallResult {
    Answer(Result<Bytes, Status>),
    Broken,
}

/// The network as it is now.
struct Network {
    random: Random,
    /// Lost messages in a thousand.
    loss: u64,
    delay_max: Millis,
}

/// Times in which the world was not whole: `node` says whether the node could not go on at its pace.
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    /// When it began.
    pub from: Millis,
    /// When it ended.
    pub until: Millis,
    /// Whether timers may be late because of it.
    pub is_of_node: bool,
}

/// See the module.
pub struct World {
    /// What happens in it.
    pub scenario: Rc<Scenario>,
    /// Its tasks and its time.
    pub executor: Executor,
    /// What happened in it.
    pub trace: Trace,
    /// What was acknowledged.
    pub ledger: RefCell<Ledger>,
    /// The disk of the node.
    pub disk: Arc<Disk>,
    /// What must not be, the first one first.
    pub findings: RefCell<Vec<String>>,
    /// Times of trouble.
    pub troubles: RefCell<Vec<Trouble>>,
    host: RefCell<Option<Host>>,
    serves: Cell<bool>,
    /// The process may be started again from then on; `None` while it runs or starts.
    starts_at: Cell<Option<Millis>>,
    paused_until: Cell<Millis>,
    pending: RefCell<BTreeMap<CallId, Rc<Slot<CallResult>>>>,
    network: RefCell<Network>,
    calls: Cell<u64>,
    connections: Cell<u64>,
    processes: Cell<u64>,
    is_over: Cell<bool>,
}

impl World {
    /// The world of a scenario, in which nothing has happened yet.
    pub fn new(scenario: Scenario, keeps_trace: bool) -> Rc<Self> {
        let seed = scenario.seed;
        Rc::new(Self {
            executor: Executor::new(Random::stream(seed, "executor")),
            trace: Trace::new(keeps_trace),
            ledger: RefCell::default(),
            disk: Disk::new(Random::stream(seed, "disk"), Behaviour::HEALTHY),
            findings: RefCell::default(),
            troubles: RefCell::default(),
            host: RefCell::new(None),
            serves: Cell::new(false),
            starts_at: Cell::new(Some(0)),
            paused_until: Cell::new(0),
            pending: RefCell::default(),
            network: RefCell::new(Network { random: Random::stream(seed, "network"), loss: 0, delay_max: 3 }),
            calls: Cell::new(0),
            connections: Cell::new(0),
            processes: Cell::new(0),
            is_over: Cell::new(false),
            scenario: Rc::new(scenario),
        })
    }

    /// The time.
    pub fn now(&self) -> Millis {
        self.executor.now()
    }

    /// Adds a line to the trace.
    pub fn note(&self, text: &str) {
        self.trace.line(self.now(), text);
    }

    /// Notes what must not be.
    pub fn finding(&self, text: String) {
        self.note(&format!("FINDING: {text}"));
        self.findings.borrow_mut().push(text);
    }

    /// Nothing more happens.
    pub fn end(&self) {
        self.is_over.set(true);
    }

    /// Whether the node serves calls.
    pub fn serves(&self) -> bool {
        self.serves.get()
    }

    /// Lets the world live until it ends or something is found.
    pub fn live(self: &Rc<Self>) {
        loop {
            self.executor.run_ready();
            panics::taken().into_iter().for_each(|panic| self.finding(format!("a panic: {panic}")));
            if self.is_over.get() || !self.findings.borrow().is_empty() {
                return;
            }
            self.start_when_due();
            let next = self.executor.next_timer().unwrap_or(self.now() + 1000);
            for (at, output) in self.step(next) {
                self.take(at, output);
            }
        }
    }

    /// Lets time pass, at most until a moment. Gives what the node said.
    fn step(&self, until: Millis) -> Vec<(Millis, Output)> {
        let mut host = self.host.borrow_mut();
        let until = self.starts_at.get().map_or(until, |at| at.min(until)).max(self.now() + 1);
        let Some(host) = host.as_mut() else {
            self.executor.advance(until);
            return Vec::new();
        };
        if self.paused_until.get() > self.now() {
            self.executor.advance(until.min(self.paused_until.get()));
            return Vec::new();
        }
        if host.now() < self.now() {
            host.jump_to(self.now());
        }
        let outputs = host.run_until(until);
        self.executor.advance(host.now());
        outputs
    }

    fn take(self: &Rc<Self>, _at: Millis, output: Output) {
        match output {
            Output::Started(Ok(())) => {
                self.serves.set(true);
                self.note("the node serves");
            }
            Output::Started(Err(error)) => {
                self.note(&format!("the node does not start: {error}"));
                self.kill(RESTART_PAUSE);
            }
            Output::Failed(why) => self.finding(format!("the node failed: {why}")),
            Output::Answer(id, outcome) => {
                let told = outcome.as_ref().map_or_else(|status| format!("{:?}", status.code()), |_| "OK".to_owned());
                self.note(&format!("call {} is answered: {told}", id.0));
                if let Some(slot) = self.pending.borrow_mut().remove(&id) {
                    slot.set(CallResult::Answer(outcome));
                }
            }
        }
    }

    fn start_when_due(self: &Rc<Self>) {
        if self.starts_at.get().is_none_or(|at| at > self.now()) {
            return;
        }
        self.starts_at.set(None);
        self.processes.set(self.processes.get() + 1);
        let seed = Random::stream(self.scenario.seed, &format!("process{}", self.processes.get())).bits();
        self.note("the node starts");
        let Scenario { queue_tasks_max, cache_bytes_max, .. } = *self.scenario;
        let options = NodeOptions { queue_tasks_max, cache_bytes_max, ..NodeOptions::default() };
        match Host::start(self.disk.open(), options, self.now(), seed) {
            Ok(host) => *self.host.borrow_mut() = Some(host),
            Err(error) => self.finding(format!("no runtime: {error}")),
        }
    }

    /// Kills the process of the node; it starts again after a while.
    pub fn kill(self: &Rc<Self>, down: Millis) {
        self.serves.set(false);
        self.paused_until.set(0);
        // First the disk, so that nothing which is dropped writes.
        let (written, lost) = self.disk.crash();
        drop(self.host.borrow_mut().take());
        if written + lost > 0 {
            self.note(&format!("of the groups under way {written} were written, {lost} lost"));
        }
        let broken = std::mem::take(&mut *self.pending.borrow_mut());
        for slot in broken.into_values() {
            slot.set(CallResult::Broken);
        }
        for problem in oracle::stored_states(&self.disk.content) {
            self.finding(problem);
        }
        self.starts_at.set(Some(self.now() + down));
    }

    /// Asks the node to shut down.
    pub fn shut_down(&self) {
        self.send(Arrival::Stop);
    }

    /// The node stands still until a moment.
    pub fn pause(&self, until: Millis) {
        self.paused_until.set(until);
    }

    /// How messages travel from now on.
    pub fn set_network(&self, loss: u64, delay_max: Millis) {
        let mut network = self.network.borrow_mut();
        (network.loss, network.delay_max) = (loss, delay_max);
    }

    /// Ends everything that is still there: tasks hold the world that holds them.
    pub fn close(&self) {
        drop(self.host.borrow_mut().take());
        self.executor.clear();
        drop(std::mem::take(&mut *self.pending.borrow_mut()));
    }

    fn send(&self, arrival: Arrival) {
        if let Some(host) = self.host.borrow().as_ref() {
            host.send(arrival);
        }
    }

    fn delay(&self) -> Millis {
        let mut network = self.network.borrow_mut();
        let most = network.delay_max;
        network.random.between(1, most)
    }

    fn loses(&self) -> bool {
        let mut network = self.network.borrow_mut();
        let loss = network.loss;
        network.random.per_mille(loss)
    }

    fn fate(&self) -> AnswerFate {
        match self.loses() {
            false => AnswerFate::Arrives,
            true if self.network.borrow_mut().random.per_mille(500) => AnswerFate::NotWritten,
            true => AnswerFate::Lost,
        }
    }
}

/// The connection of a client or worker to the node.
pub struct Link {
    world: Rc<World>,
    connection: Cell<u64>,
    is_cut: Cell<bool>,
}

impl Link {
    /// A new connection.
    pub fn new(world: &Rc<World>) -> Rc<Self> {
        let link = Self { world: world.clone(), connection: Cell::new(0), is_cut: Cell::new(false) };
        link.connect();
        Rc::new(link)
    }

    fn connect(&self) {
        self.world.connections.set(self.world.connections.get() + 1);
        self.connection.set(self.world.connections.get());
    }

    /// Nothing passes from now on, and neither side notices.
    pub fn cut(&self) {
        self.is_cut.set(true);
    }

    /// The old connection breaks, and a new one is made.
    pub fn reconnect(&self) {
        self.close();
        self.is_cut.set(false);
        self.connect();
    }

    /// The node notices that the connection is closed.
    pub fn close(&self) {
        self.world.send(Arrival::Closed(ConnectionId(self.connection.get())));
    }

    /// Makes a call.
    pub async fn call<Q: Rpc>(&self, request: &Q, timeout: Millis) -> Result<Q::Response, CallFailure> {
        let world = &self.world;
        let deadline = world.now() + timeout;
        world.executor.sleep(world.delay()).await;
        if self.is_cut.get() || world.loses() {
            world.executor.sleep_until(deadline).await;
            return Err(CallFailure::Lost);
        }
        if !world.serves() {
            world.executor.sleep(world.delay()).await;
            return Err(CallFailure::Lost);
        }
        world.calls.set(world.calls.get() + 1);
        let id = CallId(world.calls.get());
        let slot = Rc::new(Slot::default());
        world.pending.borrow_mut().insert(id, slot.clone());
        let _abandon = AbandonOnDrop { world: world.clone(), id };
        let metadata = CallMetadata {
            connection: Some(ConnectionId(self.connection.get())),
            timeout: Some(std::time::Duration::from_millis(timeout)),
            is_tool: false,
            client_name: ShortText::new(b"segno-simulation"),
            client_version: ShortText::new(b"1.0.0"),
        };
        let message = request.encode_to_vec().into();
        let (name, fate) = (Q::PATH.rsplit('/').next().unwrap_or_default(), world.fate());
        let number = self.connection.get();
        world.note(&format!("call {} of connection {number}: {name}{}", id.0, fate.consequence()));
        world.send(Arrival::Call { id, path: Q::PATH, message, metadata, fate });
        let left = deadline.saturating_sub(world.now());
        let outcome = match world.executor.timeout(left, slot.take()).await {
            None | Some(CallResult::Broken) => return Err(CallFailure::Lost),
            Some(CallResult::Answer(outcome)) => outcome,
        };
        if self.is_cut.get() {
            world.executor.sleep_until(deadline).await;
            return Err(CallFailure::Lost);
        }
        world.executor.sleep(world.delay()).await;
        match outcome {
            Ok(message) => prost::Message::decode(message).map_err(|error| {
                world.finding(format!("the response of {} cannot be read: {error}", Q::PATH));
                CallFailure::Lost
            }),
            Err(status) => {
                // What the server did not expect, in the words of its own table.
                if matches!(status.code(), Code::Internal | Code::Unknown | Code::DataLoss | Code::Unimplemented) {
                    world.finding(format!("{} answers {:?}: {}", Q::PATH, status.code(), status.message()));
                }
                Err(CallFailure::Status(status))
            }
        }
    }

    /// Makes a call that changes something, again until its outcome is known. A transient refusal is the outcome after so many
    /// times.
    pub async fn insist<Q: Rpc>(&self, request: &Q, times: usize) -> Result<Q::Response, CallFailure> {
        let mut pause = 50;
        for _ in 1..times {
            match self.call(request, 3000).await {
                Err(failure) if failure.is_transient() => {
                    self.world.executor.sleep(pause).await;
                    pause = (pause * 2).min(2000);
                }
                known => return known,
            }
        }
        self.call(request, 3000).await
    }
}

/// The node hears that a caller gave up.
struct AbandonOnDrop {
    world: Rc<World>,
    id: CallId,
}

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        if self.world.pending.borrow_mut().remove(&self.id).is_some() {
            self.world.send(Arrival::Abandon(self.id));
        }
    }
}
