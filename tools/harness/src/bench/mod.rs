//! `cargo xtask bench [--quick]`: Segno next to Temporal's development server, same machine, same driver, same work.
//!
//! The comparison is at equal durability: Temporal's server is told to use SQLite as Segno does (a write-ahead log, synced
//! at each commit), and not to limit rates. Left alone it uses a rollback journal, which made it about three times
//! slower here; that would measure a setting, not a server. `--temporal-stock` leaves it alone.
//!
//! Each workload gets a fresh server; servers alternate, several times over, because the machine is noisy; the table
//! shows medians. The data is in SQLite on the disk under `target/`. Needs `target/release/segno` (or `--binary`) and a
//! `temporal` (`--temporal`, `TEMPORAL_BIN`, `target/venv/bin`, the path). The driver shares the cores with the server:
//! rates are of both together, CPU is of the server alone. `docs/reference/performance.md` says how to read the figures.

mod cases;
mod chart;
mod measure;
mod programs;
mod report;
mod rust_workers;
mod sdks;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::{
    args::Args,
    load::Workload,
    process::{self, Kind, Plan},
    wire,
};
use cases::{Case, Sizes};
use measure::Contender;
use report::{COLUMNS, Report};

/// What makes Temporal's SQLite as durable as Segno's, in the same way, and lifts limits it sets itself: answers of
/// "too many calls" would be a setting measured, too.
const EQUAL: [&str; 10] = [
    "--sqlite-pragma",
    "journal_mode=WAL",
    "--sqlite-pragma",
    "synchronous=FULL",
    "--dynamic-config-value",
    "frontend.rps=1000000",
    "--dynamic-config-value",
    "frontend.namespaceRPS=1000000",
    "--dynamic-config-value",
    "frontend.namespaceRPS.visibility=1000000",
];
/// Parts of the benchmark beside the workloads.
const OTHERS: [&str; 5] = ["life", "restarts", "python", "typescript", "sdk"];

/// What was asked for.
struct Options {
    sizes: Sizes,
    cases: Vec<Case>,
    /// Names of workloads and other parts; all when none is given.
    parts: Option<Vec<String>>,
    /// Columns.
    only: Option<Vec<String>>,
    sticky: bool,
    quick: bool,
}

impl Options {
    fn wants(&self, part: &str) -> bool {
        self.parts.as_ref().is_none_or(|parts| parts.iter().any(|name| name == part))
    }

    fn shows(&self, column: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == column))
    }
}

/// `cargo xtask bench`.
pub fn command(mut args: Args) -> Result<()> {
    let json: PathBuf = args.option_or("--json", process::target_dir().join("bench.json"))?;
    if let Some(from) = args.option::<PathBuf>("--chart")? {
        args.finish()?;
        return write_chart(&from);
    }
    let quick = args.flag("--quick");
    let list = |text: Option<String>| text.map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
    let mut options = Options {
        sizes: Sizes::new(quick),
        cases: cases::cases(quick),
        parts: list(args.option("--workloads")?),
        only: list(args.option("--only")?),
        sticky: args.flag("--sticky"),
        quick,
    };
    options.sizes.repeats = args.option_or("--repeats", options.sizes.repeats)?;
    options.sizes.open = args.option_or("--open", options.sizes.open)?;
    let (count, fill) = (args.option("--count")?, args.option("--fill")?);
    for case in &mut options.cases {
        case.many = count.unwrap_or(case.many);
        case.fill = if case.fill > 0 { fill.unwrap_or(case.fill) } else { 0 };
    }
    let stock = args.flag("--temporal-stock");
    let port = args.option_or("--port", 17_600)?;
    let segno: PathBuf = args.option_or("--binary", process::target_dir().join("release/segno"))?;
    let temporal = args.option("--temporal")?;
    let python = args.option("--python")?;
    args.finish()?;
    check_names(&options)?;

    let mut contenders = Vec::new();
    if options.shows("segno") {
        contenders.push(Contender { name: "segno", plan: plan(Kind::Segno, segno.clone(), port, &[]) });
    }
    if options.shows("temporal") {
        let settings: &[&str] = if stock { &[] } else { &EQUAL };
        let said =
            if stock { "stock settings" } else { "SQLite with WAL, synchronous=FULL, as Segno's; no rate limits" };
        println!("temporal: {said}");
        let temporal = process::find_temporal(temporal)?;
        contenders.push(Contender { name: "temporal", plan: plan(Kind::Temporal, temporal, port + 2, settings) });
    }
    if options.shows("segno-memory") {
        contenders.push(Contender { name: "segno-memory", plan: plan(Kind::Segno, segno, port + 4, &["--in-memory"]) });
    }
    let mut report = Report::default();
    let outcome = run(&options, &mut contenders, python, &mut report);
    // What was measured before something failed is worth keeping.
    report.print();
    std::fs::write(&json, report.json()?)?;
    println!("written to {}", json.display());
    outcome
}

fn write_chart(from: &PathBuf) -> Result<()> {
    let text = std::fs::read_to_string(from).with_context(|| format!("{}", from.display()))?;
    let path = process::workspace_dir().join("docs/reference/performance.svg");
    std::fs::write(&path, chart::draw(&Report::from_json(&text)?))?;
    println!("written to {}", path.display());
    Ok(())
}

fn check_names(options: &Options) -> Result<()> {
    for name in options.parts.iter().flatten() {
        if name.parse::<Workload>().is_err() && !OTHERS.contains(&name.as_str()) {
            bail!("--workloads knows no `{name}`");
        }
    }
    for name in options.only.iter().flatten() {
        if !COLUMNS.contains(&name.as_str()) {
            bail!("--only takes of {}, with commas between", COLUMNS.join(", "));
        }
    }
    Ok(())
}

fn plan(kind: Kind, binary: PathBuf, port: u16, arguments: &[&str]) -> Plan {
    Plan {
        kind,
        binary,
        data: PathBuf::new(),
        port,
        http_port: port + 1,
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        environment: Vec::new(),
    }
}

/// Everything that was asked for, with alternating servers.
fn run(options: &Options, contenders: &mut [Contender], python: Option<PathBuf>, report: &mut Report) -> Result<()> {
    let runtime = wire::runtime()?;
    let sizes = &options.sizes;
    for who in contenders.iter() {
        let size = who.plan.binary.metadata().with_context(|| format!("{}", who.plan.binary.display()))?.len();
        report.add(who.name, "binary, MiB", size as f64 / (1 << 20) as f64);
    }
    let cases: Vec<&Case> = options.cases.iter().filter(|case| options.wants(case.workload.name())).collect();
    let total = sizes.repeats * cases.len() * contenders.len();
    let mut done = 0;
    for repeat in 1..=sizes.repeats {
        if options.wants("life") {
            for who in contenders.iter_mut() {
                who.renew()?;
                runtime.block_on(measure::life(who, sizes, report))?;
            }
        }
        for case in &cases {
            for who in contenders.iter_mut() {
                done += 1;
                let label = format!("[{done}/{total}] {} of {}, {}", repeat, sizes.repeats, who.name);
                println!("{label}: {}", case.workload.name());
                who.renew()?;
                let label = format!("{label}, {}", case.workload.name());
                let work = measure::case(who, case, sizes, options.sticky, &label, report);
                runtime.block_on(work).with_context(|| format!("{} on {}", case.workload.name(), who.name))?;
            }
        }
        for language in ["python", "typescript"].into_iter().filter(|language| options.wants(language)) {
            for who in contenders.iter_mut() {
                println!("{repeat} of {}, {}: {language} SDK", sizes.repeats, who.name);
                who.renew()?;
                sdks::measure(who, language, options.quick, python.clone(), &runtime, report)?;
            }
        }
        if options.wants("sdk") {
            for who in contenders.iter_mut() {
                println!("{repeat} of {}, {}: workers in Rust", sizes.repeats, who.name);
                who.renew()?;
                rust_workers::measure(who, options.quick, &runtime, report)?;
            }
        }
    }
    if options.wants("restarts") {
        for who in contenders.iter_mut().filter(|who| who.name != "segno-memory") {
            println!("{}: restarts", who.name);
            who.renew()?;
            runtime.block_on(measure::restarts(who, sizes, &format!("restarts, {}", who.name), report))?;
        }
    }
    Ok(())
}
