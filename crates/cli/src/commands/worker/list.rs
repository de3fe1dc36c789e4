//! `segno worker list`.

use clap::Args;
use segno_proto::segno_worker::{ListWorkersRequest, Worker, WorkerState};

use super::{lease, state};
use crate::{
    client::Client,
    output::{
        dynamic::decoded,
        table::{Cell, Table},
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  segno worker list\n  segno worker list --alive")]
pub struct List {
    /// Leave out inactive workers.
    #[arg(long)]
    alive: bool,
}

impl List {
    /// Prints all workers of the namespace.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = ListWorkersRequest { namespace: client.namespace.clone() };
        let mut answer = client.call("list workers", message).await?;
        if self.alive {
            answer.workers.retain(|worker| worker.state() != WorkerState::Gone);
        }
        client
            .print(|| text(&answer.workers, client.colors), || decoded("segno.worker.v1.ListWorkersResponse", &answer))
    }
}

fn text(workers: &[Worker], colors: bool) -> String {
    let headers = ["Worker", "State", "Lease", "Activities", "WorkflowTasks", "TaskQueue", "Identity"];
    Table::new(&headers, colors).optional(&[6, 4, 3]).render(&workers.iter().map(row).collect::<Vec<_>>())
}

fn row(worker: &Worker) -> Vec<Cell> {
    vec![
        (&worker.worker_instance_key).into(),
        state(worker).into(),
        lease(worker).into(),
        worker.activity_count.to_string().into(),
        worker.workflow_task_count.to_string().into(),
        (&worker.task_queue).into(),
        (&worker.identity).into(),
    ]
}

#[cfg(test)]
mod tests {
    use segno_proto::nanos_duration;

    use super::*;

    #[test]
    fn workers_are_shown() {
        let worker = |key: &str, state: WorkerState| Worker {
            worker_instance_key: key.to_owned(),
            state: state as i32,
            activity_count: 2,
            task_queue: "q".to_owned(),
            identity: "me".to_owned(),
            ..Default::default()
        };
        let detached =
            Worker { lease_remaining: Some(nanos_duration(12_500_000_000)), ..worker("b", WorkerState::Detached) };
        let shown = text(&[worker("a", WorkerState::Active), detached, worker("c", WorkerState::Gone)], false);
        let expected = "\
Worker  State     Lease            Activities  WorkflowTasks  TaskQueue  Identity
a       Active    while connected  2           0              q          me
b       Detached  12s              2           0              q          me
c       Gone                       2           0              q          me
";
        assert_eq!(shown, expected);
    }
}
