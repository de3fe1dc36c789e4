//! `segno batch list`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::{batch::BatchOperationInfo, workflowservice::ListBatchOperationsRequest};

use crate::{
    client::Client,
    output::{
        Json,
        dynamic::{decoded, short_name},
        table::{Cell, Table},
        time,
    },
};

const INFO: &str = "temporal.api.batch.v1.BatchOperationInfo";
/// Jobs per call.
const PAGE: i32 = 200;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno batch list --limit 10")]
pub struct List {
    /// At most this many.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl List {
    /// Prints jobs, those that run first.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let limit = self.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut all = Vec::new();
        let mut token = Default::default();
        loop {
            let message = ListBatchOperationsRequest {
                namespace: client.namespace.clone(),
                page_size: PAGE,
                next_page_token: token,
            };
            let answer = client.call("list batch jobs", message).await?;
            all.extend(answer.operation_info);
            token = answer.next_page_token;
            if token.is_empty() || all.len() >= limit {
                break;
            }
        }
        all.truncate(limit);
        let now = Timestamp::now();
        client.print(
            || {
                let mut table = Table::new(&["JobId", "State", "Type", "StartTime", "CloseTime"], client.colors);
                table.render(&all.iter().map(|job| row(job, now)).collect::<Vec<_>>())
            },
            || {
                let items = all.iter().map(|one| decoded(INFO, one));
                Json::Array(items.collect())
            },
        )
    }
}

fn row(job: &BatchOperationInfo, now: Timestamp) -> Vec<Cell> {
    vec![
        (&job.job_id).into(),
        short_name("BatchOperationState", job.state().as_str_name()).into(),
        short_name("BatchOperationType", job.operation_type().as_str_name()).into(),
        time::relative(job.start_time.as_ref(), now).into(),
        time::relative(job.close_time.as_ref(), now).into(),
    ]
}
