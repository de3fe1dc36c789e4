//! `segno worker describe`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::segno_worker::{DescribeWorkerRequest, Worker};

use super::{lease, state};
use crate::{
    client::Client,
    output::{
        dynamic::decoded,
        fields::Fields,
        table::{Cell, Table},
        time,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno worker describe 4f0e8f4c-6b0a-4a57-9a43-0d8a8cb61c3e")]
pub struct Describe {
    /// The worker's instance key, as `worker list` shows it.
    #[arg(value_name = "WORKER")]
    worker: String,
}

impl Describe {
    /// Prints what the server knows.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = DescribeWorkerRequest { namespace: client.namespace.clone(), worker_instance_key: self.worker };
        let answer = client.call("describe the worker", message).await?;
        let worker = answer.worker.unwrap_or_default();
        client.print(|| text(&worker, client.colors, Timestamp::now()), || decoded("segno.worker.v1.Worker", &worker))
    }
}

fn text(worker: &Worker, colors: bool, now: Timestamp) -> String {
    let mut fields = Fields::new(colors);
    fields.section("Worker");
    fields.add("Key", &worker.worker_instance_key);
    fields.add("State", state(worker));
    fields.add("Lease", lease(worker));
    fields.add("Connections", worker.connections.to_string());
    fields.add("Protocol", if worker.speaks_protocol { "Segno's leases" } else { "Temporal's" });
    fields.add("Identity", &worker.identity);
    fields.add("Host", &worker.host_name);
    fields.add("Process", &worker.process_id);
    fields.add("TaskQueue", &worker.task_queue);
    fields.add("Sdk", format!("{} {}", worker.sdk_name, worker.sdk_version).trim());
    fields.add("LastHeartbeat", time::both(worker.heartbeat_time.as_ref(), now));
    fields.section(&format!("Activities: {}", worker.activity_count));
    let rows: Vec<Vec<Cell>> = worker
        .activities
        .iter()
        .map(|held| {
            vec![
                (&held.workflow_id).into(),
                (&held.run_id).into(),
                (&held.activity_id).into(),
                (&held.activity_type).into(),
                held.attempt.to_string().into(),
                time::relative(held.started_time.as_ref(), now).into(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let headers = ["WorkflowId", "RunId", "ActivityId", "Type", "Attempt", "Started"];
        fields.block(&Table::new(&headers, colors).render(&rows));
    }
    fields.section(&format!("Workflow tasks: {}", worker.workflow_task_count));
    let rows: Vec<Vec<Cell>> =
        worker.workflow_tasks.iter().map(|held| vec![(&held.workflow_id).into(), (&held.run_id).into()]).collect();
    if !rows.is_empty() {
        fields.block(&Table::new(&["WorkflowId", "RunId"], colors).render(&rows));
    }
    fields.finish()
}

#[cfg(test)]
mod tests {
    use segno_proto::segno_worker::{HeldActivity, WorkerState};

    use super::*;

    #[test]
    fn what_it_holds_is_shown() {
        let held = HeldActivity {
            workflow_id: "w".to_owned(),
            run_id: "r".to_owned(),
            activity_id: "1".to_owned(),
            activity_type: "job".to_owned(),
            attempt: 2,
            started_time: Some(segno_proto::nanos_timestamp(1_000_000_000_000_000_000)),
        };
        let worker = Worker {
            worker_instance_key: "k".to_owned(),
            state: WorkerState::Active as i32,
            activity_count: 1,
            activities: vec![held],
            ..Default::default()
        };
        let shown = text(&worker, false, Timestamp::from_second(1_000_000_005).expect("a time"));
        assert!(shown.contains("while connected"), "{shown}");
        assert!(shown.contains("w           r      1           job   2        5 seconds ago"), "{shown}");
        assert!(shown.contains("Workflow tasks: 0"), "{shown}");
    }
}
