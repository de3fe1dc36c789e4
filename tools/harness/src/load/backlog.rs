//! A backlog: many activities are scheduled while no worker polls for them, then workers come and drain it.
//!
//! `count` activities, a hundred per workflow. The latency of a drained activity is counted from the moment the workers
//! came: the last of them is how long the backlog lasted.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{flows::FAN_OUT_WIDTH, outcome::Outcome, session::Session, worker::Workers, workflows};

/// How often the state of things is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Builds the backlog, then drains it.
pub async fn run(session: &Rc<Session>) -> Result<Vec<Outcome>> {
    let workflows = session.load.count.div_ceil(FAN_OUT_WIDTH);
    let mut workers = Workers::for_workflows(session);
    let begun = Instant::now();
    let pile = async {
        let mut client = session.client();
        for index in 0..workflows {
            // Started in step with answered workflow tasks, so that what is cut short by time is a backlog too.
            while index > session.answered_tasks() + session.load.concurrency {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            if begun.elapsed() > session.load.fill_time_max {
                break;
            }
            let begun = Instant::now();
            let workflow_id = format!("{}-{index}", session.load.prefix);
            if workflows::start(session, &mut client, "fan-out", &workflow_id, "hello").await.is_some() {
                session.finished(begun);
            }
        }
        while session.answered_tasks() < session.finished_count() && begun.elapsed() < session.load.fill_time_max {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let piled = session.measure("piled up", "workflow", pile).await?;
    let activities = piled.count() * FAN_OUT_WIDTH;
    workers.add_activities(session);
    let drain = async {
        let begun = Instant::now();
        session.count_activities_from(begun);
        while session.finished_count() < activities && begun.elapsed() < session.load.time_max {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let drained = session.measure("drained", "activity", drain).await?;
    workers.stop().await;
    Ok(vec![drained, piled])
}
