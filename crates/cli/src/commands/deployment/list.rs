//! `segno deployment list`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::workflowservice::{
    ListWorkerDeploymentsRequest, list_worker_deployments_response::WorkerDeploymentSummary,
};

use super::routing;
use crate::{
    client::Client,
    commands::pages,
    output::{
        table::{Cell, Table},
        time,
    },
};

const SUMMARY: &str = "temporal.api.workflowservice.v1.ListWorkerDeploymentsResponse.WorkerDeploymentSummary";
/// Deployments per call.
const PAGE: i32 = 100;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno deployment list")]
pub struct List {}

impl List {
    /// Prints page after page, so that the first ones are there at once.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let table = Table::new(&["Deployment", "Current", "Ramping", "Latest", "Changed"], client.colors);
        let now = Timestamp::now();
        pages::print(
            client,
            SUMMARY,
            table,
            |summary| row(summary, now),
            None,
            async |client, _, token| {
                let message = ListWorkerDeploymentsRequest {
                    namespace: client.namespace.clone(),
                    page_size: PAGE,
                    next_page_token: token,
                };
                let answer = client.call("list deployments", message).await?;
                Ok((answer.worker_deployments, answer.next_page_token))
            },
        )
        .await
    }
}

fn row(summary: &WorkerDeploymentSummary, now: Timestamp) -> Vec<Cell> {
    let config = summary.routing_config.clone().unwrap_or_default();
    let latest = summary.latest_version_summary.as_ref().and_then(|latest| latest.deployment_version.clone());
    let times = [
        config.current_version_changed_time,
        config.ramping_version_changed_time,
        config.ramping_version_percentage_changed_time,
    ];
    let changed = times.into_iter().flatten().max_by_key(|time| (time.seconds, time.nanos));
    vec![
        (&summary.name).into(),
        routing::current(&config).into(),
        routing::ramping(&config).unwrap_or_default().into(),
        latest.map(|version| version.build_id).unwrap_or_default().into(),
        time::relative(changed.as_ref(), now).into(),
    ]
}
