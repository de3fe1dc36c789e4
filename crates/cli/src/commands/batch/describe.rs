//! `segno batch describe`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::workflowservice::{DescribeBatchOperationRequest, DescribeBatchOperationResponse};

use crate::{
    client::Client,
    output::{
        dynamic::{decoded, short_name},
        fields::Fields,
        time,
    },
};

const DESCRIPTION: &str = "temporal.api.workflowservice.v1.DescribeBatchOperationResponse";

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno batch describe --job-id 3fd4a3c1-5ad0-4f4c-9a5e-5c4d0f2e8b11")]
pub struct Describe {
    /// The job.
    #[arg(long, value_name = "ID")]
    job_id: String,
}

impl Describe {
    /// Prints the progress of the job.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = DescribeBatchOperationRequest { namespace: client.namespace.clone(), job_id: self.job_id };
        let answer = client.call("describe the batch job", message).await?;
        client.print(|| text(&answer, client.colors), || decoded(DESCRIPTION, &answer))
    }
}

fn text(answer: &DescribeBatchOperationResponse, colors: bool) -> String {
    let now = Timestamp::now();
    let mut fields = Fields::new(colors);
    fields.section("Batch job");
    fields.add("JobId", &answer.job_id);
    fields.add("State", short_name("BatchOperationState", answer.state().as_str_name()));
    fields.add("Type", short_name("BatchOperationType", answer.operation_type().as_str_name()));
    fields.add("StartTime", time::both(answer.start_time.as_ref(), now));
    fields.add("CloseTime", time::both(answer.close_time.as_ref(), now));
    let total = answer.total_operation_count;
    fields.add("CompletedCount", format!("{}/{total}", answer.complete_operation_count));
    fields.add("FailureCount", format!("{}/{total}", answer.failure_operation_count));
    fields.add("Identity", &answer.identity);
    fields.add("Reason", &answer.reason);
    fields.add("Query", &answer.query);
    fields.finish()
}
