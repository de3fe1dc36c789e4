//! Runs with long histories: does an event cost the same late as early?
//!
//! A run is a chain of activities; a step of it is six events. Measured are a twentieth of the steps after the first
//! hundred events, and the last twentieth. When time is up before the last step, the steps at that point are the last.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{flows, outcome::Outcome, session::Session, worker::Workers, workflows};

/// Events of a step: an activity's three and a workflow task's three.
const EVENTS_PER_STEP: usize = 6;
/// Events of each run that are not measured at first.
const FIRST_EVENTS: usize = 100;
/// How often the state of things is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// One run of `count` events per unit of concurrency.
pub async fn run(session: &Rc<Session>) -> Result<Vec<Outcome>> {
    let runs = session.load.concurrency;
    let steps = session.load.count.div_ceil(EVENTS_PER_STEP);
    let window = (steps / 20).max(1) * runs;
    let first = (FIRST_EVENTS / EVENTS_PER_STEP).min(steps / 20) * runs;
    let workers = Workers::start(session);
    workflows::warm(session).await;
    let input = flows::chain_plan(steps);
    let mut client = session.client();
    for index in 0..runs {
        let workflow_id = format!("{}-{index}", session.load.prefix);
        workflows::start(session, &mut client, "chain", &workflow_id, &input).await;
    }
    let begun = Instant::now();
    reach(session, first, begun).await;
    let mut early = session.measure("early events", "step", reach(session, first + window, begun)).await?;
    reach(session, steps * runs - window, begun).await;
    let at_last = session.finished_total();
    // Past its time the last window is still measured, unless nothing moves.
    let (end, again) = ((at_last + window).min(steps * runs), Instant::now());
    let mut late = session.measure("late events", "step", reach(session, end, again)).await?;
    workers.stop().await;
    let per_run = |total: usize| (total / runs * EVENTS_PER_STEP) as f64;
    early.extras.push(("events in a run".to_owned(), per_run(first + window)));
    late.extras.push(("events in a run".to_owned(), per_run(session.finished_total())));
    if let Some((early_cost, late_cost)) = early.cost.zip(late.cost) {
        let ratio = late.each(late_cost.cpu_ms) / early.each(early_cost.cpu_ms);
        late.extras.push(("CPU per event, late/early".to_owned(), ratio));
    }
    late.extras.push(("p50, late/early".to_owned(), late.percentile_ms(0.5) / early.percentile_ms(0.5)));
    Ok(vec![early, late])
}

/// Waits until so many steps are done in all, or time is up.
async fn reach(session: &Session, steps: usize, begun: Instant) {
    while session.finished_total() < steps && begun.elapsed() < session.load.time_max {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
