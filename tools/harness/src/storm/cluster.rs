//! The database and the nodes of a storm, with a proxy before everything that they connect to.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{
    Options,
    clock::{Clock, Shim},
    pooler::{Mode, Pooler},
    postgres::Postgres,
    proxy::{Fault, FaultTarget, Proxies, Proxy},
};
use crate::process::{self, Kind, Plan, Server, free_port};

/// How long the nodes may take to come together on a busy machine.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the database may take to recover from what was done to it, likewise.
const RECOVERY_MAX: Duration = Duration::from_secs(30);
/// How long connections take to end and to be refused before they may be made anew.
const CLOSE_TIME: Duration = Duration::from_millis(100);
/// What PostgreSQL says meanwhile.
const RECOVERING: [&str; 3] = ["in recovery mode", "is starting up", "not yet accepting connections"];

/// A node and what leads to it.
pub struct Node {
    plan: Plan,
    /// The process, unless it was killed.
    pub server: Option<Server>,
    /// The binary of its next life instead of this one; lives alternate between them.
    other: Option<PathBuf>,
    /// Between the node and the two servers of its database.
    pub databases: [Proxy; 2],
    /// Between the other nodes and this one.
    pub links: Proxy,
    /// The clock of its machine.
    pub clock: Clock,
}

impl Node {
    /// What it is called.
    pub fn name(&self) -> &str {
        self.plan.data.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Its port for clients.
    pub fn port(&self) -> u16 {
        self.plan.port
    }

    /// Its process.
    pub fn process(&self) -> Option<u32> {
        self.server.as_ref().map(Server::process)
    }

    /// Ends it without a word.
    pub fn kill(&mut self) -> Result<()> {
        self.links.refuse(true);
        self.server.take().map_or(Ok(()), Server::kill)
    }

    /// Lets it leave; how long that took.
    pub fn leave(&mut self) -> Result<Duration> {
        let took = self.server.take().map_or(Ok(Duration::ZERO), Server::terminate)?;
        self.links.refuse(true);
        Ok(took)
    }

    /// Starts it, again or for the first time.
    pub fn start(&mut self) -> Result<()> {
        self.links.refuse(false);
        self.server = Some(self.plan.spawn()?);
        if let Some(other) = &mut self.other {
            std::mem::swap(other, &mut self.plan.binary);
        }
        Ok(())
    }

    /// Disturbs its connections to the database.
    pub fn set_database(&self, fault: Fault) {
        self.databases.iter().for_each(|proxy| proxy.set(fault, FaultTarget::All));
    }

    /// Its connections are whole again.
    pub fn heal(&self) {
        self.databases.iter().chain([&self.links]).for_each(Proxy::heal);
    }

    /// What its log says.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.plan.log_path()).unwrap_or_default()
    }

    /// What it says of the cluster.
    pub fn cluster(&self) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.plan.http_port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /cluster HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.find('{').zip(answer.rfind('}')).map(|(first, last)| &answer[first..=last]);
        Ok(serde_json::from_str(body.context("no JSON")?)?)
    }
}

/// Everything.
pub struct Cluster {
    /// The database; see [`Cluster::database`].
    postgres: Arc<Mutex<Postgres>>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// What clients and workers connect to: each leads to one of the nodes, and to another one when that is gone.
    pub gates: Vec<Proxy>,
    /// Between the nodes and the database, for a while or always.
    pub pooler: Option<Pooler>,
    /// Whether it is always there.
    keeps_pooler: bool,
    binary: PathBuf,
    _proxies: Proxies,
}

impl Cluster {
    /// Prepares a database and nodes; see [`Cluster::start`].
    pub fn new(options: &Options) -> Result<Self> {
        let Options { binary, before, nodes: size, seed, lease, environment, .. } = options;
        let mut proxies = Proxies::start(*seed)?;
        let shim = Shim::build("storm/clock")?;
        let small_disks = options.nemeses.iter().any(|nemesis| nemesis.fills_a_disk());
        let postgres = Postgres::start([free_port()?, free_port()?], small_disks)?;
        let mut nodes = Vec::new();
        for number in 1..=*size {
            let name = format!("n{number}");
            let [one, other] = postgres.ports().map(|port| proxies.add(vec![port], 0));
            let (listen, databases) = (free_port()?, [one?, other?]);
            let links = proxies.add(vec![listen], 0)?;
            let arguments = [
                ("--store", Postgres::url_at(databases.each_ref().map(|proxy| proxy.port))),
                ("--node-name", name.clone()),
                ("--node-listen", format!("127.0.0.1:{listen}")),
                ("--node-address", format!("127.0.0.1:{}", links.port)),
                ("--node-lease", lease.to_string()),
            ];
            let data = process::fresh_dir(&format!("storm/{name}"))?;
            let clock = Clock::new(data.with_extension("clock"))?;
            let plan = Plan {
                kind: Kind::Segno,
                binary: binary.clone(),
                data,
                port: free_port()?,
                http_port: free_port()?,
                arguments: arguments.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect(),
                environment: environment.iter().cloned().chain(shim.environment(&clock)).collect(),
            };
            // With two versions, some nodes begin with the old one, some with the new one.
            let mut node = Node { plan, other: before.clone(), server: None, databases, links, clock };
            if let Some(other) = node.other.as_mut().filter(|_| number % 2 == 1) {
                std::mem::swap(other, &mut node.plan.binary);
            }
            nodes.push(node);
        }
        let ports: Vec<u16> = nodes.iter().map(Node::port).collect();
        let gates = (0..2 * *size).map(|first| proxies.add(ports.clone(), first)).collect::<Result<_>>()?;
        let mut cluster = Self {
            postgres: Arc::new(Mutex::new(postgres)),
            nodes,
            gates,
            pooler: None,
            keeps_pooler: options.pooler.is_some(),
            binary: binary.clone(),
            _proxies: proxies,
        };
        if let Some(mode) = options.pooler {
            cluster.add_pooler(mode)?;
        }
        Ok(cluster)
    }

    fn postgres(&self) -> MutexGuard<'_, Postgres> {
        self.postgres.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_pooler(&mut self, mode: Mode) -> Result<()> {
        let tools = self.postgres().tools().clone();
        let servers = self.postgres().ports();
        let pooler = Pooler::start(tools, mode, servers, [free_port()?, free_port()?])?;
        self.lead_to(pooler.ports);
        self.pooler = Some(pooler);
        Ok(())
    }

    fn lead_to(&self, ports: [u16; 2]) {
        for node in &self.nodes {
            node.databases.iter().zip(ports).for_each(|(proxy, port)| proxy.lead_to(port));
        }
    }

    /// From now on nodes reach the database through a pooler.
    pub async fn through_pooler(&mut self) -> Result<()> {
        if self.pooler.is_none() {
            self.add_pooler(Mode::Session)?;
            self.reconnect().await;
        }
        Ok(())
    }

    /// From now on they reach it without, unless a pooler is always there.
    pub async fn without_pooler(&mut self) {
        if !self.keeps_pooler && self.pooler.is_some() {
            let servers = self.postgres().ports();
            self.lead_to(servers);
            self.reconnect().await;
            self.pooler = None;
        }
    }

    /// Ends all connections to the database.
    async fn reconnect(&self) {
        self.nodes.iter().for_each(|node| node.set_database(Fault::Closed));
        tokio::time::sleep(CLOSE_TIME).await;
        self.nodes.iter().for_each(|node| node.set_database(Fault::None));
    }

    /// Starts all nodes and waits until they share the work.
    pub async fn start(&mut self) -> Result<()> {
        // The first one makes the tables.
        for node in &mut self.nodes {
            node.start()?;
            node.server.as_mut().context("it was just started")?.ready().await?;
        }
        self.wait_together().await
    }

    /// Waits until every node serves its part, knows all others and reaches them, and each shard has one owner.
    pub async fn wait_together(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let views: Vec<Option<Value>> = self.nodes.iter().map(|node| node.cluster().ok()).collect();
            match disagreement(&views) {
                None => return Ok(()),
                Some(what) if begun.elapsed() > JOIN_TIMEOUT => bail!("the nodes do not come together: {what}"),
                Some(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Runs `segno cluster ...` at a node.
    pub fn command(&self, at: usize, words: &[&str]) -> Result<String> {
        let address = format!("127.0.0.1:{}", self.nodes[at].port());
        let done = Command::new(&self.binary).arg("cluster").args(words).args(["--address", &address]).output()?;
        if !done.status.success() {
            bail!("segno cluster {words:?}: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// Does something with the database on a thread of its own: clients go on meanwhile.
    pub async fn database<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Postgres) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let postgres = self.postgres.clone();
        let act = move || act(&mut postgres.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(act).await?
    }

    /// Where the database is.
    pub fn database_directory(&self) -> PathBuf {
        self.postgres().tools().directory.clone()
    }

    /// Executes SQL, once the database takes it.
    pub async fn sql(&self, sql: impl Into<String>) -> Result<String> {
        let sql = sql.into();
        let until = Instant::now() + RECOVERY_MAX;
        loop {
            let again = sql.clone();
            let done = self.database(move |postgres| postgres.psql(&again)).await;
            // The fault before may have made the database recover: nothing was done.
            let recovers = |error: &anyhow::Error| {
                let text = format!("{error:#}");
                RECOVERING.iter().any(|word| text.contains(word))
            };
            if !done.as_ref().is_err_and(recovers) || Instant::now() >= until {
                return done;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ends what still runs and removes the database.
    pub fn remove(self) {
        drop((self.nodes, self.pooler));
        if let Some(postgres) = Arc::into_inner(self.postgres) {
            postgres.into_inner().unwrap_or_else(PoisonError::into_inner).remove();
        }
    }
}

/// What is wrong with what the nodes say; nothing if they agree and all is well.
fn disagreement(views: &[Option<Value>]) -> Option<String> {
    let known: Vec<&Value> = views.iter().flatten().collect();
    if known.len() < views.len() {
        return Some("a node does not answer".to_owned());
    }
    let number = |view: &Value, name: &str| view[name].as_i64().unwrap_or(-1);
    for view in &known {
        let nodes = view["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let is_linked = |node: &Value| node["this"] == true || node["linked"] == true;
        if nodes.len() != views.len()
            || !nodes.iter().all(is_linked)
            || nodes.iter().any(|node| node["leaving"] == true)
        {
            return Some(format!("not all are there and linked: {view}"));
        }
        if number(view, "shards_without_owner") != 0 || number(view, "map") != number(known[0], "map") {
            return Some(format!("the maps differ, or shards have no owner: {view}"));
        }
        if number(view, "shards_served_here") <= 0 {
            return Some(format!("a node serves nothing: {view}"));
        }
    }
    let served: i64 = known.iter().map(|view| number(view, "shards_served_here")).sum();
    (served != number(known[0], "shards")).then(|| format!("{served} shards are served"))
}
