//! Testing the power cut itself, on programs whose durability is known: SQLite with settings that promise it, and with
//! settings that do not. A cut that loses synced data, or keeps what was never synced, would prove nothing.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::power::{Cut, Shim};
use crate::{process, random::Random};

/// Journal mode, `synchronous`, whether syncs are forgotten, whether every acknowledged row must survive, and why.
const CASES: [(&str, &str, bool, bool, &str); 6] = [
    ("WAL", "FULL", false, true, "the log is synced before each commit returns"),
    ("WAL", "NORMAL", false, false, "the log is synced at checkpoints only"),
    ("WAL", "OFF", false, false, "nothing is synced"),
    ("DELETE", "EXTRA", false, true, "the removal of the journal is synced too"),
    ("DELETE", "FULL", false, false, "the journal may come back and undo the last commit"),
    ("WAL", "FULL", true, false, "the shim forgets every sync"),
];

/// Runs all cases; an error unless each behaves as it must.
pub fn run(rounds: u32, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let mut wrong = 0;
    let directory = process::fresh_dir("crash/probe")?;
    let shim = Shim::build(&directory)?;
    for (journal, synchronous, lie, must_hold, why) in CASES {
        let mut lost = 0;
        let mut acknowledged = 0;
        for round in 0..rounds {
            // Two rounds in a row on the same data, then a fresh directory.
            if round % 2 == 0 {
                process::fresh_dir("crash/probe")?;
            }
            let last = write_rows(&shim, &directory, journal, synchronous, lie, &mut random)?;
            let cut = if must_hold { Cut::choose(&mut random) } else { Cut::Nothing };
            shim.cut(cut, &mut random)?;
            acknowledged += last;
            match count_rows(&directory)? {
                Ok(count) if count >= last => {}
                Ok(_) => lost += 1,
                Err(damage) if must_hold => bail!("{journal} {synchronous}, {cut:?}, seed {seed}: {damage}"),
                Err(_) => lost += 1,
            }
        }
        let good = (lost == 0) == must_hold;
        wrong += u32::from(!good);
        let lie = if lie { " + lie" } else { "" };
        println!(
            "  {} {journal} {synchronous}{lie}: lost rows in {lost} of {rounds} cuts, last rows sum to {acknowledged} ({why})",
            if good { "ok   " } else { "WRONG" }
        );
    }
    if wrong > 0 {
        bail!("self-test of the power cut: {wrong} of {} cases are wrong (seed {seed})", CASES.len());
    }
    Ok(())
}

/// Lets the probe commit for a while, kills it, and says which row it acknowledged last.
fn write_rows(
    shim: &Shim,
    directory: &std::path::Path,
    journal: &str,
    synchronous: &str,
    lie: bool,
    random: &mut Random,
) -> Result<u64> {
    let environment = shim.arm(random.up_to(1_000), lie)?;
    let mut child = Command::new("python3")
        .arg(process::workspace_dir().join("tests/crash/probe.py"))
        .arg("write")
        .arg(directory)
        .args([journal, synchronous])
        .envs(environment)
        .stdout(Stdio::piped())
        .spawn()
        .context("python3")?;
    let lines = BufReader::new(child.stdout.take().context("stdout")?).lines();
    let last = Arc::new(AtomicU64::new(0));
    let seen = last.clone();
    let reader = std::thread::spawn(move || {
        for row in lines.map_while(Result::ok).filter_map(|line| line.parse::<u64>().ok()) {
            seen.store(row, Ordering::SeqCst);
        }
    });
    while last.load(Ordering::SeqCst) == 0 && child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(random.up_to(80)));
    child.kill()?;
    child.wait()?;
    reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))?;
    Ok(last.load(Ordering::SeqCst))
}

/// Rows after the cut, or what is wrong with the file.
fn count_rows(directory: &std::path::Path) -> Result<Result<u64, String>> {
    let script = process::workspace_dir().join("tests/crash/probe.py");
    let output = Command::new("python3").arg(script).arg("read").arg(directory).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.trim().parse().map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
