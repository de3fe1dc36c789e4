//! A TCP proxy that misbehaves when told to: between a node and its database, between nodes, and before the nodes.
//!
//! All proxies run on a thread of their own, so that a busy driver does not slow down what the nodes say to each other.

use std::{
    collections::VecDeque,
    fs,
    io::ErrorKind,
    net::TcpListener as StdListener,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::{Handle, Runtime},
    sync::watch,
};

use crate::{process, random::Random};

/// The first timeout after which a lost packet is sent again, as Linux has it, and how often it is lost at most.
const RETRANSMISSION: Duration = Duration::from_millis(200);
const LOSSES_MAX: u32 = 5;

/// What happens to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: bytes pass.
    None,
    /// All are closed, new ones at once.
    Closed,
    /// They stay open and no byte passes, as if packets were lost.
    Silent,
    /// Requests pass, answers do not.
    NoAnswers,
    /// Every read waits for so many milliseconds.
    Slow(u64),
    /// So many packets of a hundred are lost. Who uses TCP sees that as delays: a packet is sent again after a timeout that doubles.
    Lossy(u64),
}

/// Whose connections a fault concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTarget {
    /// All connections.
    All,
    /// Those that this process made.
    Process(u32),
    /// Those that lead to this port.
    Port(u16),
}

/// Which bytes a cut counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the side that connected.
    Request,
    /// To the side that connected.
    Answer,
}

/// Cuts the connection of a commit sequence after so many more bytes in one direction.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Which bytes count.
    pub direction: Direction,
    /// How many still pass.
    pub after: usize,
}

/// The thread of all proxies.
pub struct Proxies {
    /// There until it is dropped.
    runtime: Option<Runtime>,
    /// Seeds what each of them loses.
    random: Random,
}

impl Drop for Proxies {
    fn drop(&mut self) {
        // The code that drops this may be in another runtime, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Proxies {
    /// Starts it. The seed chooses what is lost.
    pub fn start(seed: u64) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self { runtime: Some(runtime), random: Random::new(seed) })
    }

    /// A proxy on a free port. New connections go to the first target that takes them, from one further on each time.
    pub fn add(&mut self, targets: Vec<u16>, first: usize) -> Result<Proxy> {
        let port = process::free_port()?;
        let listener = StdListener::bind(("127.0.0.1", port))?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            targets: Mutex::new(targets),
            next: AtomicUsize::new(first),
            fault: watch::channel((Fault::None, FaultTarget::All)).0,
            refusing: watch::channel(false).0,
            cuts: Mutex::default(),
            fired: AtomicUsize::new(0),
            random: Mutex::new(Random::new(self.random.next())),
        });
        let runtime = self.runtime.as_ref().context("the proxies have ended")?;
        let _entered = runtime.enter();
        let listener = TcpListener::from_std(listener).context("a proxy")?;
        runtime.spawn(listen(listener, port, shared.clone()));
        Ok(Proxy { port, shared })
    }
}

/// One proxy.
pub struct Proxy {
    /// Where it listens.
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    targets: Mutex<Vec<u16>>,
    next: AtomicUsize,
    fault: watch::Sender<(Fault, FaultTarget)>,
    refusing: watch::Sender<bool>,
    cuts: Mutex<VecDeque<Cut>>,
    fired: AtomicUsize,
    /// Chooses what is lost.
    random: Mutex<Random>,
}

impl Proxy {
    /// Begins a fault, or ends the last one.
    pub fn set(&self, fault: Fault, whose: FaultTarget) {
        self.shared.fault.send_replace((fault, whose));
    }

    /// New connections go there from now on.
    pub fn lead_to(&self, port: u16) {
        *self.shared.targets.lock().unwrap_or_else(PoisonError::into_inner) = vec![port];
    }

    /// Refuses new connections or takes them again, as the port of a process that is gone or back.
    pub fn refuse(&self, refusing: bool) {
        self.shared.refusing.send_replace(refusing);
    }

    /// Bytes pass again.
    pub fn heal(&self) {
        self.set(Fault::None, FaultTarget::All);
        self.shared.cuts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The next bytes of commit sequences are cut like this, one cut after the other.
    pub fn cut(&self, cuts: impl IntoIterator<Item = Cut>) {
        self.shared.cuts.lock().unwrap_or_else(PoisonError::into_inner).extend(cuts);
    }

    /// How many cuts happened so far.
    pub fn fired(&self) -> usize {
        self.shared.fired.load(Ordering::Relaxed)
    }
}

/// Accepts whenever connections are not refused.
async fn listen(listener: TcpListener, port: u16, shared: Arc<Shared>) {
    let mut refusing = shared.refusing.subscribe();
    let mut listener = Some(listener);
    loop {
        match listener.take() {
            Some(open) => tokio::select! {
                () = accept(&open, &shared) => {}
                _ = refusing.wait_for(|refusing| *refusing) => {}
            },
            None => {
                let _ = refusing.wait_for(|refusing| !*refusing).await;
                match TcpListener::bind(("127.0.0.1", port)).await {
                    Ok(open) => listener = Some(open),
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        }
    }
}

async fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let Ok((caller, from)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let shared = shared.clone();
        Handle::current().spawn(async move {
            if let Some((target, port)) = dial(&shared).await {
                let _ = caller.set_nodelay(true);
                let _ = target.set_nodelay(true);
                connection(&shared, caller, target, from.port(), port).await;
            }
        });
    }
}

async fn dial(shared: &Shared) -> Option<(TcpStream, u16)> {
    let first = shared.next.fetch_add(1, Ordering::Relaxed);
    let targets = shared.targets.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for step in 0..targets.len() {
        let port = targets[(first + step) % targets.len()];
        let (fault, whose) = *shared.fault.borrow();
        if fault == Fault::Closed && whose == FaultTarget::Port(port) {
            continue;
        }
        if let Ok(target) = TcpStream::connect(("127.0.0.1", port)).await {
            return Some((target, port));
        }
    }
    None
}

/// One connection, until either end closes it or a fault does.
async fn connection(shared: &Shared, caller: TcpStream, target: TcpStream, from: u16, to: u16) {
    let is_lane = AtomicBool::new(false);
    let (caller_read, caller_write) = caller.into_split();
    let (target_read, target_write) = target.into_split();
    let one = Pass { shared, from, to, is_lane: &is_lane };
    tokio::select! {
        _ = one.pass(caller_read, target_write, Direction::Request) => {}
        _ = one.pass(target_read, caller_write, Direction::Answer) => {}
    }
}

struct Pass<'a> {
    shared: &'a Shared,
    from: u16,
    to: u16,
    is_lane: &'a AtomicBool,
}

impl Pass<'_> {
    async fn pass(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, direction: Direction) -> std::io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        let mut faults = self.shared.fault.subscribe();
        loop {
            let length = tokio::select! {
                read = from.read(&mut buffer) => read?,
                () = closed(self, &mut faults) => return Err(ErrorKind::ConnectionAborted.into()),
            };
            self.wait(direction, &mut faults.clone()).await?;
            if length == 0 {
                return Ok(());
            }
            let (passed, cut) = self.cut_at(&buffer[..length], direction);
            to.write_all(&buffer[..passed]).await?;
            if cut {
                return Err(ErrorKind::ConnectionAborted.into());
            }
        }
    }

    fn fault(&self, faults: &mut watch::Receiver<(Fault, FaultTarget)>) -> Fault {
        let (fault, whose) = *faults.borrow_and_update();
        let concerned = match whose {
            FaultTarget::All => true,
            FaultTarget::Process(process) => fault != Fault::None && made_by(self.from, process),
            FaultTarget::Port(port) => port == self.to,
        };
        if concerned { fault } else { Fault::None }
    }

    /// Holds bytes back for as long as a fault says.
    async fn wait(
        &self,
        direction: Direction,
        faults: &mut watch::Receiver<(Fault, FaultTarget)>,
    ) -> std::io::Result<()> {
        loop {
            match self.fault(faults) {
                Fault::None => return Ok(()),
                Fault::Closed => return Err(ErrorKind::ConnectionAborted.into()),
                Fault::Slow(millis) => {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    return Ok(());
                }
                Fault::Lossy(percent) => {
                    let losses = self.losses(percent);
                    tokio::time::sleep(RETRANSMISSION * ((1 << losses) - 1)).await;
                    return Ok(());
                }
                Fault::NoAnswers if direction == Direction::Request => return Ok(()),
                Fault::Silent | Fault::NoAnswers => {
                    if faults.changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// How often a packet is lost before it arrives.
    fn losses(&self, percent: u64) -> u32 {
        let mut random = self.shared.random.lock().unwrap_or_else(PoisonError::into_inner);
        (0..LOSSES_MAX).take_while(|_| random.up_to(99) < percent).count() as u32
    }

    /// How many of these bytes pass, and whether that is the end.
    fn cut_at(&self, bytes: &[u8], direction: Direction) -> (usize, bool) {
        let names = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        if direction == Direction::Request && (names("segno.lanes SET") || names("last_group, voided")) {
            self.is_lane.store(true, Ordering::Release);
        }
        if !self.is_lane.load(Ordering::Acquire) {
            return (bytes.len(), false);
        }
        let mut cuts = self.shared.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = cuts.front_mut().filter(|next| next.direction == direction) else {
            return (bytes.len(), false);
        };
        if next.after > bytes.len() {
            next.after -= bytes.len();
            return (bytes.len(), false);
        }
        let passed = next.after;
        cuts.pop_front();
        self.shared.fired.fetch_add(1, Ordering::Relaxed);
        (passed, true)
    }
}

/// Returns when a fault closes this connection.
async fn closed(pass: &Pass<'_>, faults: &mut watch::Receiver<(Fault, FaultTarget)>) {
    loop {
        if pass.fault(faults) == Fault::Closed {
            return;
        }
        if faults.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether a process has the socket with this local port. All ends are on one machine, so the kernel's tables tell.
fn made_by(port: u16, process: u32) -> bool {
    let wanted = format!("0100007F:{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let inode = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(1) == Some(&wanted.as_str())).then(|| fields.get(9).map(|inode| format!("socket:[{inode}]")))?
    });
    let Some(inode) = inode else { return false };
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| link.as_os_str() == inode.as_str())
}
