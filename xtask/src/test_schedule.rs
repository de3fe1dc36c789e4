//! Which steps of `cargo xtask test` run beside each other.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// How many steps run at once that keep a core busy, or whose tests wait for time-outs.
const HEAVY_MAX: usize = 2;
/// How often the steps that are still running are named.
const REMINDER_PAUSE: Duration = Duration::from_secs(60);

/// What a step does to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Little, or it takes seconds.
    Light,
    /// It compiles the workspace. Cargo lets only one process do so at a time.
    Compiles,
    /// It runs many tests.
    Heavy,
    /// It measures time, or replaces what other steps use: nothing else runs meanwhile.
    Alone,
}

/// One step, as far as its order is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub name: &'static str,
    /// Jobs that must have ended, if they run at all.
    pub needs: &'static [&'static str],
    pub load: Load,
}

/// Runs every job, each in a thread of its own; results are in the order of the jobs. `run` is told which of the job's needs
/// failed, if one did; `has_failed` says that of a result.
pub fn all<R: Send>(
    jobs: &[Job],
    run: impl Fn(usize, Option<&'static str>) -> R + Sync,
    has_failed: impl Fn(&R) -> bool,
) -> Vec<R> {
    let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    let mut started: Vec<Option<Instant>> = vec![None; jobs.len()];
    let run = &run;
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        while results.iter().any(Option::is_none) {
            while let Some(next) = next(jobs, |job| started[job].is_some(), |job| results[job].is_some()) {
                started[next] = Some(Instant::now());
                let of = |name: &str| jobs.iter().position(|job| job.name == name);
                let is_failed = |name: &&&str| of(name).and_then(|job| results[job].as_ref()).is_some_and(&has_failed);
                let failed = jobs[next].needs.iter().find(is_failed).copied();
                let sender = sender.clone();
                scope.spawn(move || sender.send((next, run(next, failed))));
            }
            match ended.recv_timeout(REMINDER_PAUSE) {
                Ok((job, result)) => results[job] = Some(result),
                Err(RecvTimeoutError::Timeout) => println!("=== still running: {}", running(jobs, &started, &results)),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    results.into_iter().flatten().collect()
}

/// The names of the jobs that run, with how long they have.
fn running<R>(jobs: &[Job], started: &[Option<Instant>], results: &[Option<R>]) -> String {
    let running = jobs.iter().zip(started).zip(results).filter(|(_, result)| result.is_none());
    let named = running
        .filter_map(|((job, begun), _)| Some(format!("{} ({} s)", job.name, begun.as_ref()?.elapsed().as_secs())));
    named.collect::<Vec<_>>().join(", ")
}

/// The first job that may start now.
fn next(jobs: &[Job], is_started: impl Fn(usize) -> bool, has_ended: impl Fn(usize) -> bool) -> Option<usize> {
    let running: Vec<Load> =
        (0..jobs.len()).filter(|job| is_started(*job) && !has_ended(*job)).map(|job| jobs[job].load).collect();
    let is_ready = |needs: &[&str]| {
        let mut waiting = (0..jobs.len()).filter(|job| !has_ended(*job)).map(|job| jobs[job].name);
        !waiting.any(|name| needs.contains(&name))
    };
    (0..jobs.len()).find(|job| !is_started(*job) && is_ready(jobs[*job].needs) && may_start(jobs[*job].load, &running))
}

/// Whether a job may start beside those that run.
fn may_start(load: Load, running: &[Load]) -> bool {
    let busy = running.iter().filter(|load| matches!(load, Load::Heavy | Load::Compiles)).count();
    match load {
        Load::Alone => running.is_empty(),
        _ if running.contains(&Load::Alone) => false,
        Load::Light => true,
        Load::Compiles => busy < HEAVY_MAX && !running.contains(&Load::Compiles),
        Load::Heavy => busy < HEAVY_MAX,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const fn job(name: &'static str, needs: &'static [&'static str], load: Load) -> Job {
        Job { name, needs, load }
    }

    const JOBS: [Job; 7] = [
        job("lint", &[], Load::Compiles),
        job("build", &[], Load::Compiles),
        job("install", &[], Load::Light),
        job("measure", &["build"], Load::Alone),
        job("tests", &["build", "install"], Load::Heavy),
        job("more", &["build"], Load::Heavy),
        job("last", &["build", "absent"], Load::Heavy),
    ];

    fn next_of(ended: &[&str], running: &[&str]) -> Option<&'static str> {
        let is_in = |names: &[&str], job: usize| names.contains(&JOBS[job].name);
        let found = next(&JOBS, |job| is_in(ended, job) || is_in(running, job), |job| is_in(ended, job));
        found.map(|job| JOBS[job].name)
    }

    #[test]
    fn the_first_that_may_start_does() {
        assert_eq!(next_of(&[], &[]), Some("lint"));
        assert_eq!(next_of(&[], &["lint"]), Some("install"));
        assert_eq!(next_of(&["install"], &["lint"]), None);
        assert_eq!(next_of(&["install", "lint"], &[]), Some("build"));
        // Something runs, so what must be alone waits.
        assert_eq!(next_of(&["install", "build"], &["lint"]), Some("tests"));
        assert_eq!(next_of(&["build"], &["lint"]), Some("install"));
        assert_eq!(next_of(&["install", "build"], &["lint", "tests"]), None);
        assert_eq!(next_of(&["install", "build", "lint"], &[]), Some("measure"));
        assert_eq!(next_of(&["install", "build", "lint"], &["measure"]), None);
        // A need that was not chosen counts as fulfilled.
        assert_eq!(next_of(&["install", "build", "lint", "measure", "tests", "more"], &[]), Some("last"));
    }

    #[test]
    fn all_run_within_the_limits() {
        let running: Mutex<Vec<Load>> = Mutex::new(Vec::new());
        let results = all(
            &JOBS,
            |job, failed| {
                {
                    let mut running = running.lock().expect("no panic");
                    assert!(may_start(JOBS[job].load, &running), "{job} beside {running:?}");
                    running.push(JOBS[job].load);
                }
                thread::sleep(Duration::from_millis(5));
                let mut running = running.lock().expect("no panic");
                let place = running.iter().position(|load| *load == JOBS[job].load).expect("it runs");
                running.remove(place);
                (JOBS[job].name, failed)
            },
            |(name, failed)| *name == "install" || failed.is_some(),
        );
        let names: Vec<_> = results.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, JOBS.map(|job| job.name));
        let failed: Vec<_> = results.iter().filter_map(|(name, failed)| Some((*name, (*failed)?))).collect();
        assert_eq!(failed, [("tests", "install")]);
    }
}
