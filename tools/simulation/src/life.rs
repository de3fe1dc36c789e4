//! The life of a world: who starts when, what happens to it, and how it ends.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use segno_node::seed_thread;
use segno_store::{Store, Wait};

use crate::{
    Millis, client,
    disk::Behaviour,
    executor::TaskId,
    oracle, panics,
    scenario::{DURATION, Fault, FaultKind, Part, SETTLE_MAX, Scenario},
    worker::Worker,
    world::{Trouble, World},
};

/// How long a node may take to end after it was asked to.
const SHUTDOWN_MAX: Millis = 1000;
/// How often the world looks whether everything has ended.
const SETTLED_INTERVAL: Millis = 500;

/// How a world lived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// What must not be; empty if all is well.
    pub findings: Vec<String>,
    /// Hash of all that happened.
    pub hash: u64,
    /// Lines of the trace.
    pub lines: Vec<String>,
    /// How many there were.
    pub steps: u64,
    /// How long it lived.
    pub millis: Millis,
    /// Runs at its end.
    pub runs: usize,
}

/// Lets the world of a scenario live. With `keeps_trace` the lines of its trace are kept.
pub fn live(scenario: &Scenario, keeps_trace: bool) -> Life {
    warm_up();
    one_life(scenario, keeps_trace)
}

/// What the process makes once, such as the table of calls, takes seeds of maps: it must be there before a world begins.
fn warm_up() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for seed in 0..3 {
            one_life(&Scenario::of_seed(seed), false);
        }
    });
}

fn one_life(scenario: &Scenario, keeps_trace: bool) -> Life {
    panics::collect();
    seed_thread(scenario.seed);
    let world = World::new(scenario.clone(), keeps_trace);
    let director = Rc::new(Director { world: world.clone(), workers: RefCell::default(), callers: Cell::new(0) });
    director.begin();
    if catch_unwind(AssertUnwindSafe(|| world.live())).is_err() {
        world.finding(format!("a panic: {}", panics::taken().join("; ")));
    }
    let runs = world.disk.content.runs_of(segno_store::NamespaceKey(1), None, usize::MAX).wait();
    let life = Life {
        findings: world.findings.borrow().clone(),
        hash: world.trace.hash(),
        lines: world.trace.lines(),
        steps: world.trace.count(),
        millis: world.now(),
        runs: runs.map_or(0, |runs| runs.len()),
    };
    world.close();
    panics::stop();
    life
}

/// Starts everything, and makes happen what the scenario says.
struct Director {
    world: Rc<World>,
    workers: RefCell<Vec<Option<Rc<Worker>>>>,
    /// Clients that are not done.
    callers: Cell<usize>,
}

impl Director {
    fn begin(self: &Rc<Self>) {
        let scenario = self.world.scenario.clone();
        let (tasks, bytes) = (scenario.queue_tasks_max, scenario.cache_bytes_max);
        self.world.note(&format!("queues keep {tasks} tasks, the cache {bytes} bytes"));
        for number in 0..scenario.workers {
            self.workers.borrow_mut().push(Some(Worker::start(&self.world, format!("worker{number}"))));
        }
        for number in 0..scenario.workflows.len() {
            if !scenario.omits(Part::Workflow(number)) {
                self.call(client::workflow(self.world.clone(), number));
            }
        }
        for (number, plan) in scenario.schedules.iter().enumerate() {
            if !scenario.omits(Part::Schedule(number)) {
                self.call(client::schedule(self.world.clone(), number, *plan));
            }
        }
        for (number, plan) in scenario.scripts.iter().enumerate() {
            if !scenario.omits(Part::Script(number)) {
                self.call(client::script(self.world.clone(), number, *plan));
            }
        }
        let mut quiet = DURATION;
        for (number, fault) in scenario.faults.iter().enumerate() {
            if !scenario.omits(Part::Fault(number)) {
                quiet = quiet.max(fault.at + fault.lasts + 1);
                self.world.executor.spawn(self.clone().happen(*fault));
            }
        }
        self.world.executor.spawn(self.clone().settle(quiet));
    }

    fn call(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) -> TaskId {
        self.callers.set(self.callers.get() + 1);
        let director = self.clone();
        self.world.executor.spawn(async move {
            work.await;
            director.callers.set(director.callers.get() - 1);
        })
    }

    async fn happen(self: Rc<Self>, fault: Fault) {
        let (world, lasts) = (&self.world, fault.lasts);
        world.executor.sleep_until(fault.at).await;
        world.note(&format!("FAULT: {fault}"));
        let is_of_node = !matches!(fault.kind, FaultKind::WorkerCrash(_) | FaultKind::WorkerCut(_));
        let trouble = Trouble { from: fault.at, until: fault.at + lasts + SHUTDOWN_MAX, is_of_node };
        world.troubles.borrow_mut().push(trouble);
        match fault.kind {
            FaultKind::Crash => world.kill(lasts),
            FaultKind::Shutdown => {
                world.shut_down();
                world.executor.sleep(SHUTDOWN_MAX).await;
                world.kill(lasts);
            }
            FaultKind::Pause => world.pause(world.now() + lasts),
            FaultKind::Disk(behaviour) => {
                world.disk.behave(behaviour);
                world.executor.sleep(lasts).await;
                world.disk.behave(Behaviour::HEALTHY);
            }
            FaultKind::Loss(times) => self.network(times, 3, lasts).await,
            FaultKind::Delay(most) => self.network(0, most, lasts).await,
            FaultKind::WorkerCrash(number) => self.replace_worker(number, lasts).await,
            FaultKind::WorkerCut(number) => {
                let worker = self.workers.borrow()[number].clone();
                if let Some(worker) = worker {
                    worker.link().cut();
                    world.executor.sleep(lasts).await;
                    worker.link().reconnect();
                }
            }
        }
    }

    async fn network(&self, loss: u64, delay_max: Millis, lasts: Millis) {
        self.world.set_network(loss, delay_max);
        self.world.executor.sleep(lasts).await;
        self.world.set_network(0, 3);
    }

    async fn replace_worker(&self, number: usize, after: Millis) {
        let worker = self.workers.borrow_mut()[number].take();
        let Some(worker) = worker else { return };
        worker.kill();
        self.world.executor.sleep(after).await;
        let name = format!("worker{number}-{}", self.world.now());
        self.workers.borrow_mut()[number] = Some(Worker::start(&self.world, name));
    }

    /// Waits until all faults are over and everything has ended; then the node starts once more, and the oracle looks at all.
    async fn settle(self: Rc<Self>, quiet: Millis) {
        let world = &self.world;
        world.executor.sleep_until(quiet).await;
        world.note("no more faults");
        let deadline = quiet + SETTLE_MAX;
        while !self.is_settled() {
            if world.now() > deadline {
                let open = oracle::open_runs(&world.disk.content).unwrap_or_else(|error| vec![error]);
                let callers = self.callers.get();
                return world.finding(format!("after {SETTLE_MAX} ms {callers} clients still wait; open: {open:#?}"));
            }
            world.executor.sleep(SETTLED_INTERVAL).await;
        }
        world.note("everything has ended");
        world.kill(10);
        while !world.serves() {
            if world.now() > deadline + SETTLE_MAX {
                return world.finding("the node does not start again".to_owned());
            }
            world.executor.sleep(SETTLED_INTERVAL).await;
        }
        oracle::final_problems(world).into_iter().for_each(|problem| world.finding(problem));
        world.end();
    }

    fn is_settled(&self) -> bool {
        let store = &self.world.disk.content;
        let open = store.open_runs(None, 1).wait().map_or(1, |runs| runs.len());
        let messages = store.outbox(None, 1).wait().map_or(1, |rows| rows.len());
        self.callers.get() == 0 && open + messages == 0
    }
}
