//! `cargo xtask storm`: a database and several nodes under load, to which something happens again and again.
//!
//! The load is that of the crash tests (`crash/flows.rs`) through all nodes, with its ledger of acknowledged facts, and four
//! more: lists to which signals are appended while they are read through every node (`append.rs`), queries
//! (`queries.rs`), timers that come nearer (`wakes.rs`), and worker versions that change (`routing.rs`). What happens is in `nemesis.rs`, chosen by the seed. At the end everything is healed, every workflow
//! must come to its result, and what was acknowledged must be there once. See `docs/internals/evidence.md`.

mod append;
mod changes;
mod clock;
mod cluster;
mod disk;
mod loss;
mod nemesis;
mod pooler;
mod postgres;
mod proxy;
mod queries;
mod routing;
mod settled;
mod wakes;

use std::{
    cell::{Cell, RefCell},
    path::PathBuf,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Result, bail};
use tokio::task::{JoinSet, LocalSet};

use crate::{
    args::Args,
    crash::{
        flows::{self, Shared},
        ledger::{Breach, Ledger},
        operations,
        scripts::Scripts,
        worker,
    },
    process,
    random::Random,
    wire,
};
use append::Lists;
use cluster::Cluster;
use nemesis::Nemesis;

/// What a node says of a pooler that it cannot use.
const POOLER_REFUSAL: &str = "not in session mode";
/// Hot workflows at a time.
const LISTS: usize = 9;
/// Clients that ask queries.
const QUERY_CLIENTS: usize = 3;
/// Workflows at a time whose wake-ups come nearer.
const SLEEPERS: usize = 12;

struct Options {
    binary: PathBuf,
    /// The version before: lives of nodes alternate between the two.
    before: Option<PathBuf>,
    nodes: usize,
    seconds: u64,
    /// It ends when each fault has happened so often, if that is sooner.
    rounds: usize,
    seed: u64,
    clients: usize,
    lease: u64,
    nemeses: Vec<Nemesis>,
    /// pgbouncer is between nodes and database all the time.
    pooler: Option<pooler::Mode>,
    /// The longest time for which a hot workflow may stand still.
    stall_max: Duration,
    environment: Vec<(String, String)>,
    /// The server is faulty on purpose: the storm ends when that is noticed, and it must be.
    expect_caught: bool,
}

/// `cargo xtask storm`.
pub fn command(mut args: Args) -> Result<()> {
    let names: Option<String> = args.option("--nemeses")?;
    let sabotage: Option<String> = args.option("--sabotage")?;
    let default_binary = if sabotage.is_some() { "sabotage/segno" } else { "release/segno" };
    let lease = args.option_or("--lease", 3)?;
    let before: Option<PathBuf> = args.option("--before")?;
    let nemeses = nemeses(names.as_deref(), before.is_some())?;
    let options = Options {
        binary: args.option("--binary")?.unwrap_or(process::target_dir().join(default_binary)),
        before,
        nodes: args.option_or("--nodes", 3)?,
        seconds: args.option_or("--seconds", 600)?,
        rounds: args.option_or("--rounds", usize::MAX)?,
        seed: args.option_or("--seed", u64::from(std::process::id()))?,
        clients: args.option_or("--clients", 12)?,
        lease,
        nemeses,
        pooler: args.option("--pooler")?,
        stall_max: Duration::from_secs(args.option_or("--stall-max", 3 * lease + 20)?),
        environment: sabotage.into_iter().map(|name| ("SEGNO_SABOTAGE".to_owned(), name)).collect(),
        expect_caught: args.flag("--expect-caught"),
    };
    args.finish()?;
    if options.nodes < 2 {
        bail!("a storm needs at least two nodes");
    }
    println!("seed {}", options.seed);
    let cluster = Cluster::new(&options)?;
    let place = cluster.database_directory();
    let shared = Rc::new(Shared {
        ledger: Ledger::default(),
        stopping: Cell::new(false),
        next: Cell::new(0),
        given_up: RefCell::default(),
        last_poll: Cell::new(Instant::now()),
        prefix: "flow".to_owned(),
        scripts: Some(Scripts::default()),
        admits_durably: true,
        has_endpoint: Cell::new(false),
    });
    // What memory alone knows may be forgotten at any moment, also when a shard moves.
    shared.ledger.crashes_any_time();
    wire::runtime()?.block_on(LocalSet::new().run_until(storm(&options, shared.clone(), cluster)))?;
    let broken = shared.ledger.lost() + shared.ledger.wrong();
    match (options.expect_caught, broken) {
        (false, 0) => Ok(()),
        (false, _) => bail!(
            "{broken} promises broken (seed {}); the database is kept in {}, the logs of the nodes in {}",
            options.seed,
            place.display(),
            process::target_dir().join("storm").display()
        ),
        (true, 0) => bail!("NOT caught: nothing wrong was noticed, the storm is blind"),
        (true, _) => {
            println!("caught: {broken} promises broken, as they must be");
            Ok(())
        }
    }
}

/// The faults of a storm: those that are named, or all, without those that cannot be had here.
fn nemeses(names: Option<&str>, has_before: bool) -> Result<Vec<Nemesis>> {
    // An older version may not compare its commit sequence with the database, and not notice what that lost; nor its keys and scripts. With
    // such a version these faults prove nothing.
    let fits = |nemesis: &Nemesis| !has_before || !matches!(nemesis, Nemesis::FailoverLosing | Nemesis::SilentChanges);
    let mut chosen: Vec<Nemesis> = match names {
        None => Nemesis::ALL.into_iter().filter(fits).collect(),
        Some(names) => Nemesis::named(names)?,
    };
    if let Some(nemesis) = chosen.iter().find(|nemesis| !fits(nemesis)) {
        bail!("{} does not go with --before: the older version does not notice it", nemesis.name());
    }
    let pooler = pooler::program().err().map(|error| error.to_string());
    let mut disk = None;
    if chosen.iter().any(|nemesis| nemesis.fills_a_disk()) {
        disk = disk::why_not(&process::fresh_dir("storm/disk")?);
        if disk.is_none() {
            disk::enter_namespace()?;
        }
    }
    chosen.retain(|nemesis| {
        let why = match nemesis {
            Nemesis::Pgbouncer => &pooler,
            nemesis if nemesis.fills_a_disk() => &disk,
            _ => &None,
        };
        if let Some(why) = why {
            println!("left out: {} ({why})", nemesis.name());
        }
        why.is_none()
    });
    if chosen.is_empty() {
        bail!("no fault is left: this storm would prove nothing");
    }
    Ok(chosen)
}

/// What a storm consists of.
struct Storm<'a> {
    options: &'a Options,
    shared: Rc<Shared>,
    lists: Rc<Lists>,
    cluster: Cluster,
    random: Random,
    /// Clients that have an end.
    load: JoinSet<()>,
    /// Workers and readers, which have none.
    workers: JoinSet<()>,
    /// How often the load began.
    generation: usize,
    /// Workflows of earlier loads that completed, and that did not.
    closed_before: (i64, i64),
    begun: SystemTime,
}

async fn storm(options: &Options, shared: Rc<Shared>, mut cluster: Cluster) -> Result<()> {
    let begun = Instant::now();
    let started = cluster.start().await;
    if options.pooler == Some(pooler::Mode::Transaction) {
        match started {
            Err(error) if error.to_string().contains(POOLER_REFUSAL) => {
                println!("a pooler in this mode is refused, as it must be")
            }
            _ => shared.ledger.breach(Breach::Wrong("a pooler in this mode is not refused".to_owned())),
        }
        cluster.remove();
        return Ok(());
    }
    if let Err(error) = started {
        shared.ledger.breach(Breach::Wrong(format!("{error:#}")));
        return Ok(());
    }
    println!("{} nodes are together after {:.1?}", options.nodes, begun.elapsed());
    let mut storm = Storm {
        options,
        shared,
        lists: Rc::default(),
        cluster,
        random: Random::new(options.seed),
        load: JoinSet::new(),
        workers: JoinSet::new(),
        generation: 0,
        closed_before: (0, 0),
        begun: SystemTime::now(),
    };
    storm.begin_load()?;
    let struck = storm.blow().await;
    storm.shared.stopping.set(true);
    let caught = options.expect_caught && storm.broken() > 0;
    if let Err(error) = struck {
        storm.shared.ledger.breach(Breach::Wrong(format!("{error:#}")));
    } else if !caught {
        storm.settle().await?;
    }
    storm.workers.abort_all();
    storm.report(begun);
    if storm.broken() == 0 || options.expect_caught {
        storm.cluster.remove();
    }
    Ok(())
}

impl Storm<'_> {
    fn broken(&self) -> usize {
        self.shared.ledger.lost() + self.shared.ledger.wrong()
    }

    /// Begins the work of clients, workers and readers.
    fn begin_load(&mut self) -> Result<()> {
        let Self { shared, lists, cluster, load, workers, .. } = self;
        let gate = |number: usize| wire::client(cluster.gates[number % cluster.gates.len()].port);
        for number in 0..cluster.gates.len() {
            let client = gate(number)?;
            workers.spawn_local(worker::poll_workflow_tasks(shared.clone(), client.clone()));
            workers.spawn_local(worker::poll_activities(shared.clone(), client.clone()));
            workers.spawn_local(operations::poll(shared.clone(), client.clone()));
            workers.spawn_local(queries::work(shared.clone(), client.clone()));
            workers.spawn_local(wakes::work(shared.clone(), client.clone()));
            for build in routing::BUILDS {
                workers.spawn_local(routing::work(shared.clone(), client.clone(), build));
            }
        }
        for number in 0..self.options.clients {
            load.spawn_local(flows::run(shared.clone(), gate(number)?));
        }
        // An older version may not know operations; and what a failover loses may be the endpoint.
        shared.has_endpoint.set(false);
        if self.options.before.is_none() {
            load.spawn_local(operations::prepare(shared.clone(), gate(0)?));
        }
        // Places, and so names of workflows, are used once.
        let place = |number: usize, places: usize| self.generation * places + number;
        for number in 0..LISTS {
            load.spawn_local(append::write(shared.clone(), lists.clone(), gate(number)?, place(number, LISTS)));
        }
        for number in 0..QUERY_CLIENTS {
            load.spawn_local(queries::ask(shared.clone(), gate(number)?, place(number, QUERY_CLIENTS)));
        }
        for number in 0..SLEEPERS {
            load.spawn_local(wakes::run(shared.clone(), gate(number)?, place(number, SLEEPERS)));
        }
        if self.options.before.is_none() {
            load.spawn_local(routing::run(shared.clone(), gate(0)?, gate(1)?, self.generation));
        }
        for (number, node) in cluster.nodes.iter().enumerate() {
            // Bound to their node: a reader that goes elsewhere would not see what a node says that lost its place.
            workers.spawn_local(append::read(shared.clone(), lists.clone(), wire::client(node.port())?, number));
        }
        self.generation += 1;
        Ok(())
    }

    /// Lets one fault after the other happen. Each of them once in every round, in an order that the seed chooses.
    async fn blow(&mut self) -> Result<()> {
        let begun = Instant::now();
        let is_over = |storm: &Self| begun.elapsed().as_secs() >= storm.options.seconds || storm.broken() > 0;
        self.lists.happens("nothing");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut left: Vec<Nemesis> = Vec::new();
        let mut rounds = 0;
        while !is_over(self) {
            if left.is_empty() {
                if rounds == self.options.rounds {
                    break;
                }
                rounds += 1;
                left = self.options.nemeses.clone();
            }
            let nemesis = left.swap_remove(self.random.up_to(left.len() as u64 - 1) as usize);
            println!(
                "  {:4.0} s: {}, {} facts, {} reads",
                begun.elapsed().as_secs_f64(),
                nemesis.name(),
                self.shared.ledger.fact_count() + self.lists.signals.get(),
                self.lists.reads.get()
            );
            self.lists.happens(nemesis.name());
            match nemesis {
                Nemesis::FailoverLosing => self.lose().await?,
                Nemesis::SilentChanges => self.change_silently().await?,
                _ => nemesis.strike(&mut self.cluster, &mut self.random, self.options.lease).await?,
            }
            // Sometimes the next one comes before the nodes are together again.
            if self.random.one_in(3) {
                tokio::time::sleep(Duration::from_millis(self.random.up_to(2_000))).await;
            } else {
                self.cluster.wait_together().await?;
                self.check_wakes().await?;
            }
        }
        self.lists.happens("nothing");
        Ok(())
    }

    fn report(&self, begun: Instant) {
        for (what, longest) in self.lists.stalls() {
            println!("  longest wait of a hot workflow, {what}: {longest:.1?}");
            if longest > self.options.stall_max {
                let text = format!("a hot workflow stood still for {longest:.1?} ({what})");
                self.shared.ledger.breach(Breach::Wrong(text));
            }
        }
        let ledger = &self.shared.ledger;
        println!(
            "storm: {:.0} s, {} workflows, {} acknowledged facts, {} reads compared, {} facts lost, {} other promises broken",
            begun.elapsed().as_secs_f64(),
            ledger.workflow_count(),
            ledger.fact_count() + self.lists.signals.get(),
            self.lists.reads.get(),
            ledger.lost(),
            ledger.wrong(),
        );
    }
}
