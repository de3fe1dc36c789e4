//! `segno-simulation`: worlds of seeds, one after the other. `cargo xtask simulate` builds and starts it.

use std::{
    collections::BTreeSet,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use segno_simulation::{
    Life, live,
    scenario::{Part, Scenario},
    shrink::shrink,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: cargo xtask simulate [options]

  --seed N           one world
  --seeds A-B        these worlds
  --new N            so many worlds whose seeds were never used (300)
  --seconds-max S    no further world begins after so long
  --trace            with --seed: prints what happens
  --without PARTS    with --seed: leaves out parts, such as fault2,workflow0
  --no-shrink        does not look for a smaller scenario when something is found
  --until-found      ends with the first finding, and fails if there is none";

/// Lives that making a failing scenario smaller may cost.
const SHRINK_TRIES: usize = 300;

struct Options {
    seeds: (u64, u64),
    seconds_max: Option<u64>,
    keeps_trace: bool,
    without: BTreeSet<Part>,
    shrinks: bool,
    until_found: bool,
}

impl Options {
    fn from_words(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            seeds: new_seeds(300),
            seconds_max: None,
            keeps_trace: false,
            without: BTreeSet::new(),
            shrinks: true,
            until_found: false,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value\n\n{USAGE}"));
            match word.as_str() {
                "--seed" => {
                    let seed = value()?.parse()?;
                    options.seeds = (seed, seed);
                }
                "--seeds" => {
                    let text = value()?;
                    let (first, last) = text.split_once('-').context("--seeds needs two numbers: 1-300")?;
                    options.seeds = (first.parse()?, last.parse()?);
                }
                "--new" => options.seeds = new_seeds(value()?.parse()?),
                "--seconds-max" => options.seconds_max = Some(value()?.parse()?),
                "--trace" => options.keeps_trace = true,
                "--without" => options.without = value()?.split(',').map(str::parse).collect::<Result<_>>()?,
                "--no-shrink" => options.shrinks = false,
                "--until-found" => options.until_found = true,
                _ => bail!("unknown option `{word}`\n\n{USAGE}"),
            }
        }
        Ok(options)
    }
}

/// A range that begins with the time, so that no two runs have the same seeds.
fn new_seeds(count: u64) -> (u64, u64) {
    let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    (first, first + count.max(1) - 1)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is as it should be.
fn run() -> Result<bool> {
    let options = Options::from_words(std::env::args().skip(1))?;
    let (first, last) = options.seeds;
    if first == last {
        let scenario = Scenario::of_seed(first).without(options.without.iter().copied());
        return Ok(one(&scenario, &options));
    }
    println!("seeds {first}-{last}");
    let begun = Instant::now();
    let outcome = many(&options);
    let (lives, simulated) = (outcome.lives.into_inner(), outcome.millis.into_inner() / 1000);
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{lives} worlds with {} runs, {simulated} simulated seconds in {seconds:.1} s ({:.0} per second)",
        outcome.runs.into_inner(),
        simulated as f64 / seconds
    );
    let mut found = outcome.found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_by_key(|(seed, _)| *seed);
    let Some((seed, finding)) = found.first() else {
        println!("nothing was found");
        return Ok(!options.until_found);
    };
    for (seed, finding) in &found {
        println!("seed {seed}: {finding}");
    }
    if options.until_found {
        println!("found by seed {seed}, the {}th: {finding}", seed - first + 1);
        return Ok(true);
    }
    let scenario = Scenario::of_seed(*seed);
    one(&scenario, &Options { keeps_trace: true, ..options });
    Ok(false)
}

/// Shows one world, and a smaller one in which something is found as well.
fn one(scenario: &Scenario, options: &Options) -> bool {
    let life = live(scenario, options.keeps_trace);
    if life.findings.is_empty() {
        show(scenario, &life);
        return true;
    }
    let scenario = if options.shrinks { shrink(scenario, SHRINK_TRIES) } else { scenario.clone() };
    let life = live(&scenario, options.keeps_trace);
    show(&scenario, &life);
    println!("again: cargo xtask simulate {} --trace", self::options(&scenario));
    false
}

fn options(scenario: &Scenario) -> String {
    segno_simulation::shrink::options(scenario)
}

fn show(scenario: &Scenario, life: &Life) {
    for line in &life.lines {
        println!("{line}");
    }
    for finding in &life.findings {
        println!("found: {finding}");
    }
    let (hash, seconds) = (life.hash, life.millis / 1000);
    println!("seed {}: {} runs, {} steps, {seconds} s, hash {hash:016x}", scenario.seed, life.runs, life.steps);
}

#[derive(Default)]
struct Outcome {
    lives: AtomicU64,
    runs: AtomicU64,
    millis: AtomicU64,
    found: Mutex<Vec<(u64, String)>>,
}

/// Lets the worlds of all seeds live, two at a time.
fn many(options: &Options) -> Outcome {
    let (first, last) = options.seeds;
    let (outcome, next, is_done) = (Outcome::default(), AtomicU64::new(first), AtomicBool::new(false));
    let end = options.seconds_max.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let work = || {
        while !is_done.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > last {
                return;
            }
            let life = live(&Scenario::of_seed(seed), false);
            outcome.lives.fetch_add(1, Ordering::Relaxed);
            outcome.runs.fetch_add(life.runs as u64, Ordering::Relaxed);
            outcome.millis.fetch_add(life.millis, Ordering::Relaxed);
            if let Some(finding) = life.findings.into_iter().next() {
                outcome.found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((seed, finding));
                is_done.fetch_or(options.until_found, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    outcome
}
