//! `cargo xtask crash`: a server killed, or cut from power, again and again under load, and nothing acknowledged lost.
//!
//! A campaign is one data directory, one ledger of acknowledged facts, and rounds of: start the server, load it, end it
//! at a random moment. After each round the facts of that round are looked for in the histories, and at the end all of
//! them, when every workflow must also have come to the right result. See `tests/crash/README.md`.

mod batches;
mod documents;
pub mod flows;
pub mod ledger;
pub mod operations;
mod power;
mod schedules;
pub mod scripts;
mod selftest;
mod updates;
pub mod verify;
pub mod worker;

use std::{
    cell::{Cell, RefCell},
    path::PathBuf,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use tokio::task::{JoinSet, LocalSet};

use crate::{
    args::Args,
    process::{self, Kind, Plan},
    random::Random,
    wire,
};
use flows::Shared;
use ledger::{Breach, Ledger};
use power::{Cut, Shim};
use scripts::Scripts;

/// Rounds on one data directory before a fresh one is taken.
const ROUNDS_PER_CAMPAIGN: u32 = 50;
/// How long the last workflows may take once nothing is killed.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// Longest life of a server that is killed before the harness knows whether it is ready.
const EARLY_KILL_MS_MAX: u64 = 80;

struct Options {
    plan: Plan,
    seconds: f64,
    seed: u64,
    clients: usize,
    lie: bool,
    /// Watch, and lie if told to, but never cut: a control, which must find nothing lost.
    no_cut: bool,
    /// Only losses count: the server is faulty on purpose, and its other misbehaviour is no evidence.
    expect_caught: bool,
}

/// How a server ends that cannot use its data (see `docs/reference/errors.md`).
const DATA_UNUSABLE: &str = "exit status: 65";

/// `cargo xtask crash`.
pub fn command(mut args: Args) -> Result<()> {
    let kill_rounds = args.option("--kill-rounds")?;
    let power_rounds = args.option("--power-rounds")?;
    let self_test = args.option("--self-test")?;
    let sabotage: Option<String> = args.option("--sabotage")?;
    let expect_caught = args.flag("--expect-caught");
    let temporal: Option<PathBuf> = args.option("--temporal")?;
    let default_binary = if sabotage.is_some() { "sabotage/segno" } else { "release/segno" };
    let port = args.option_or("--port", 17_610)?;
    let mut options = Options {
        plan: Plan {
            kind: if temporal.is_some() { Kind::Temporal } else { Kind::Segno },
            binary: args.option("--binary")?.or(temporal).unwrap_or(process::target_dir().join(default_binary)),
            data: PathBuf::new(),
            port,
            http_port: port + 1,
            arguments: Vec::new(),
            environment: Vec::new(),
        },
        seconds: args.option_or("--seconds", 0.4)?,
        seed: args.option_or("--seed", u64::from(std::process::id()))?,
        clients: args.option_or("--clients", 24)?,
        lie: args.flag("--lie"),
        no_cut: args.flag("--no-cut"),
        expect_caught,
    };
    args.finish()?;
    println!("seed {}", options.seed);
    if let Some(name) = sabotage {
        options.plan.environment.push(("SEGNO_SABOTAGE".to_owned(), name));
    }
    if let Some(rounds) = self_test {
        println!("self-test of the power cut, {rounds} cuts per case");
        selftest::run(rounds, options.seed)?;
    }
    // With no counts given: the whole programme, or for an expected catch only the kind of crash that can catch it.
    let given = kill_rounds.is_some() || power_rounds.is_some() || self_test.is_some();
    let kill_rounds = kill_rounds.unwrap_or(if given || expect_caught { 0 } else { 50 });
    let power_rounds = power_rounds.unwrap_or(if given { 0 } else { 200 });

    let mut broken = 0;
    for (name, is_power, rounds) in [("kill", false, kill_rounds), ("power", true, power_rounds)] {
        let mut left = rounds;
        while left > 0 && broken == 0 {
            let these = left.min(ROUNDS_PER_CAMPAIGN);
            options.plan.data = process::fresh_dir(&format!("crash/{name}/data"))?;
            broken += match campaign(&options, is_power, these, u64::from(left)) {
                Ok(breaches) => breaches,
                // A file that lost its syncs may be beyond reading. The server says so and takes it no further: all
                // that was acknowledged is gone, which is what was to be found.
                Err(error) if expect_caught && is_power && format!("{error:#}").contains(DATA_UNUSABLE) => {
                    println!("the server found its data damaged and refused it");
                    1
                }
                Err(error) => return Err(error),
            };
            left -= these;
        }
    }
    match (expect_caught, broken) {
        (false, 0) => Ok(()),
        (false, _) => bail!("{broken} promises broken; data and log are kept in {}", options.plan.data.display()),
        (true, 0) => bail!("NOT caught: nothing acknowledged was found missing, the harness is blind"),
        (true, _) => {
            println!("caught: {broken} acknowledged facts lost, as they must be");
            Ok(())
        }
    }
}

/// Runs one campaign; how many promises were broken, of those that count.
fn campaign(options: &Options, is_power: bool, rounds: u32, salt: u64) -> Result<usize> {
    let shared = Rc::new(Shared {
        ledger: Ledger::default(),
        stopping: Cell::new(false),
        next: Cell::new(0),
        given_up: RefCell::default(),
        last_poll: Cell::new(Instant::now()),
        prefix: "flow".to_owned(),
        scripts: match options.plan.kind {
            Kind::Segno => Some(Scripts::default()),
            Kind::Temporal => None,
        },
        admits_durably: options.plan.kind == Kind::Segno,
        has_endpoint: Cell::new(false),
    });
    let shim = is_power.then(|| Shim::build(&options.plan.data)).transpose()?;
    let random = Random::new(options.seed ^ salt << 32 ^ u64::from(is_power));
    let work = async {
        let mut campaign = Campaign { options, shared: shared.clone(), shim, random, checks: JoinSet::new(), early: 0 };
        let outcome = campaign.run(rounds).await;
        campaign.checks.abort_all();
        outcome
    };
    wire::runtime()?.block_on(LocalSet::new().run_until(work))?;
    Ok(counting_breaches(options, &shared.ledger))
}

fn counting_breaches(options: &Options, ledger: &Ledger) -> usize {
    if options.expect_caught { ledger.lost() } else { ledger.lost() + ledger.wrong() }
}

struct Campaign<'a> {
    options: &'a Options,
    shared: Rc<Shared>,
    shim: Option<Shim>,
    random: Random,
    /// Verifications under way.
    checks: JoinSet<()>,
    /// Servers ended before they were ready.
    early: u32,
}

impl Campaign<'_> {
    async fn run(&mut self, rounds: u32) -> Result<()> {
        let begun = Instant::now();
        let client = || wire::client(self.options.plan.port);
        let mut workers = JoinSet::new();
        let mut flows = JoinSet::new();
        for _ in 0..8 {
            // Three pollers on each connection.
            let worker = client()?;
            workers.spawn_local(worker::poll_workflow_tasks(self.shared.clone(), worker.clone()));
            workers.spawn_local(worker::poll_activities(self.shared.clone(), worker.clone()));
            workers.spawn_local(operations::poll(self.shared.clone(), worker));
        }
        for _ in 0..self.options.clients {
            flows.spawn_local(flows::run(self.shared.clone(), client()?));
        }
        if self.options.plan.kind == Kind::Segno {
            flows.spawn_local(operations::prepare(self.shared.clone(), client()?));
            for name in ["schedule-a", "schedule-b", "schedule-c", "schedule-d"] {
                flows.spawn_local(schedules::run(self.shared.clone(), client()?, name));
            }
            flows.spawn_local(batches::run(self.shared.clone(), client()?));
            flows.spawn_local(documents::run(self.shared.clone(), client()?));
        }
        let mut unsynced = 0;
        let mut done = 0;
        while done < rounds && counting_breaches(self.options, &self.shared.ledger) == 0 {
            match self.round().await {
                Ok(changes) => unsynced += changes,
                Err(error) => self.shared.ledger.breach(Breach::Wrong(format!("round {}: {error:#}", done + 1))),
            }
            done += 1;
            let touched = self.shared.ledger.next_round();
            self.checks.spawn_local(verify::verify(self.shared.clone(), client()?, touched, false));
            if done % 10 == 0 {
                println!("  round {done}: {} facts acknowledged", self.shared.ledger.fact_count());
            }
        }
        if counting_breaches(self.options, &self.shared.ledger) == 0 {
            self.finish(&mut flows).await?;
        }
        if self.shim.is_some() && !self.options.no_cut && done >= 10 && unsynced == 0 {
            bail!("no change was ever unsynced: the shim does not see what the server writes, this proves nothing");
        }
        let what = if self.shim.is_some() { "power cut" } else { "kill -9" };
        println!(
            "{what}: {done} rounds ({} before ready) in {:.0} s, {} workflows, {} acknowledged facts, {unsynced} unsynced \
             changes taken back, {} facts lost, {} other promises broken",
            self.early,
            begun.elapsed().as_secs_f64(),
            self.shared.ledger.workflow_count(),
            self.shared.ledger.fact_count(),
            self.shared.ledger.lost(),
            self.shared.ledger.wrong(),
        );
        Ok(())
    }

    /// One life of the server; how many unsynced changes its end took back.
    async fn round(&mut self) -> Result<usize> {
        let mut plan = self.options.plan.clone();
        if let Some(shim) = &self.shim {
            plan.environment.extend(shim.arm(self.random.up_to(3_000), self.options.lie)?);
        }
        let mut server = plan.spawn()?;
        let is_early = self.random.one_in(6);
        if is_early {
            self.early += 1;
            tokio::time::sleep(Duration::from_millis(self.random.up_to(EARLY_KILL_MS_MAX))).await;
        } else {
            server.ready().await?;
            let load_us = (self.options.seconds * 1e6) as u64;
            tokio::time::sleep(Duration::from_micros(self.random.up_to(load_us))).await;
        }
        if let Some(status) = server.ended()? {
            bail!("the server ended by itself ({status}):\n{}", server.last_words());
        }
        server.kill()?;
        match &self.shim {
            // Killed so early that not even the shim was there.
            Some(shim) if !shim.was_loaded() && is_early => Ok(0),
            Some(_) if self.options.no_cut => Ok(0),
            Some(shim) => shim.cut(Cut::choose(&mut self.random), &mut self.random),
            None => Ok(0),
        }
    }

    /// Lets everything under way come to its end, then checks every workflow.
    async fn finish(&mut self, flows: &mut JoinSet<()>) -> Result<()> {
        self.shared.stopping.set(true);
        let mut server = self.options.plan.spawn()?;
        server.ready().await?;
        let ended = async {
            while flows.join_next().await.is_some() {}
            while self.checks.join_next().await.is_some() {}
        };
        if tokio::time::timeout(DRAIN_MAX, ended).await.is_err() {
            // Whether the worker still asks for work tells a lost task from a stuck harness.
            let polled = self.shared.last_poll.get().elapsed();
            let given_up = self.shared.given_up.borrow();
            self.shared.ledger.breach(Breach::Wrong(format!(
                "{} clients still wait after {DRAIN_MAX:?}; last activity poll came back {polled:.0?} ago; \
                 answers given up on: {given_up:?}",
                flows.len()
            )));
        }
        // Of a server that is faulty on purpose only what a crash took counts, and that has been checked by now.
        let all = if self.options.expect_caught { Vec::new() } else { self.shared.ledger.everything() };
        let mut checks = JoinSet::new();
        for part in all.chunks(all.len().div_ceil(8).max(1)) {
            let client = wire::client(self.options.plan.port)?;
            checks.spawn_local(verify::verify(self.shared.clone(), client, part.to_vec(), true));
        }
        while checks.join_next().await.is_some() {}
        if let Some(status) = server.ended()? {
            self.shared
                .ledger
                .breach(Breach::Wrong(format!("the server ended by itself ({status}):\n{}", server.last_words())));
        }
        server.terminate()?;
        Ok(())
    }
}
