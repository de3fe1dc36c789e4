//! Sleeping workflows whose timers are due at the same moment.
//!
//! First all are started, with no worker. That tells how fast this server is, and so a moment by which every workflow
//! can have set its timer. From that moment on it is measured how long until the last has woken and completed.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use super::{outcome::Outcome, session::Session, worker::Workers, workflows};

/// How often the state of things is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Measuring begins so long before the timers are due.
const MEASURE_LEAD: Duration = Duration::from_millis(100);
/// How long the timers may take to be set and, once due, to fire.
const TIMERS_TIMEOUT: Duration = Duration::from_secs(300);

/// The moment all timers of a load are due, and how many are set.
#[derive(Default)]
pub struct Alarm {
    due: Cell<Option<Instant>>,
    set: Cell<usize>,
    late: Cell<usize>,
}

impl Alarm {
    /// The moment.
    pub fn due(&self) -> Instant {
        self.due.get().unwrap_or_else(Instant::now)
    }

    /// One more timer: how long it has to run, in milliseconds. One that comes too late runs for a moment.
    pub fn set(&self) -> u64 {
        let left = self.due().saturating_duration_since(Instant::now());
        self.set.set(self.set.get() + 1);
        self.late.set(self.late.get() + usize::from(left.is_zero()));
        (left.as_millis() as u64).max(1)
    }
}

/// Starts the workflows, lets them sleep, and measures how they wake.
pub async fn run(session: &Rc<Session>) -> Result<Vec<Outcome>> {
    let starts = workflows::start_all(session, "starts", "timer").await?;
    let started = starts.count();
    session.alarm.due.set(Some(Instant::now() + starts.elapsed * 3 + Duration::from_secs(1)));
    let workers = Workers::for_workflows(session);
    let begun = Instant::now();
    while session.alarm.set.get() < started {
        if begun.elapsed() > TIMERS_TIMEOUT {
            bail!("{} of {started} timers are set after {TIMERS_TIMEOUT:?}", session.alarm.set.get());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    tokio::time::sleep_until((session.alarm.due() - MEASURE_LEAD).into()).await;
    let work = async {
        let begun = Instant::now();
        while session.finished_count() < started && begun.elapsed() < TIMERS_TIMEOUT {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let mut woken = session.measure("woken", "timer", work).await?;
    workers.stop().await;
    if woken.count() < started && woken.errors.is_empty() {
        woken.errors.insert("timers that did not fire".to_owned(), started - woken.count());
    }
    // The time before they were due is not the server's.
    woken.elapsed = woken.latencies.last().copied().unwrap_or_default();
    woken.extras.push(("timers set too late".to_owned(), session.alarm.late.get() as f64));
    Ok(vec![woken, starts])
}
