//! Polling for tasks.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_proto::workflowservice::{PollActivityTaskQueueRequest, PollActivityTaskQueueResponse};
use tokio::{sync::watch, time::Instant};
use tonic::Status;

use super::{
    meter::PolledKind,
    pollers::{POLL, PollAnswer},
    shared::Shared,
};
use crate::client::unary;
use crate::lock::lock;

/// Polls for tasks and executes them, until `stop`. Tasks that run then go on.
pub(super) async fn run(shared: Arc<Shared>, stop: watch::Receiver<bool>) {
    let rate = Arc::new(Rate::new(shared.options.max_tasks_per_second));
    let reserve = {
        let shared = shared.clone();
        move || {
            let (shared, rate) = (shared.clone(), rate.clone());
            async move {
                let slot = shared.slots.reserve().await;
                rate.wait().await;
                slot
            }
        }
    };
    let poll = {
        let shared = shared.clone();
        move || poll(shared.clone())
    };
    let ending = shared.poll_stop(stop);
    let scaling = shared.task_scaling.clone();
    scaling.poll(ending, reserve, poll, move |task, slot| shared.start_task(task, slot)).await;
}

async fn poll(shared: Arc<Shared>) -> Result<PollAnswer<PollActivityTaskQueueResponse>, Status> {
    let request = PollActivityTaskQueueRequest {
        namespace: shared.client.namespace().to_owned(),
        task_queue: shared.task_queue(),
        identity: shared.identity.clone(),
        worker_instance_key: shared.instance_key(),
        worker_control_task_queue: shared.control_queue(),
        deployment_options: shared.deployment_options(),
        ..Default::default()
    };
    let response = shared.client.once(&unary::POLL_ACTIVITY_TASK, &request, POLL).await?;
    let delta = response.poller_scaling_decision.map(|decision| decision.poll_request_delta_suggestion);
    let task = (!response.task_token.is_empty()).then_some(response);
    shared.meter_poll(PolledKind::Task, task.is_some());
    Ok(PollAnswer { task, delta })
}

/// Limits how many tasks begin per second.
struct Rate {
    interval: Option<Duration>,
    next: Mutex<Instant>,
}

impl Rate {
    fn new(per_second: Option<f64>) -> Self {
        let interval = per_second.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
        Self { interval, next: Mutex::new(Instant::now()) }
    }

    async fn wait(&self) {
        let Some(interval) = self.interval else { return };
        let start = {
            let mut next = lock(&self.next);
            let start = (*next).max(Instant::now());
            *next = start + interval;
            start
        };
        tokio::time::sleep_until(start).await;
    }
}
