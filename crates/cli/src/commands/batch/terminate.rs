//! `segno batch terminate`.

use clap::Args;
use segno_proto::workflowservice::StopBatchOperationRequest;

use crate::{
    client::Client,
    commands::reason,
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno batch terminate --job-id 3fd4a3c1-5ad0-4f4c-9a5e-5c4d0f2e8b11\n\n\
                        What the job did already stays done.")]
pub struct Terminate {
    /// The job.
    #[arg(long, value_name = "ID")]
    job_id: String,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Terminate {
    /// Stops the job.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = StopBatchOperationRequest {
            namespace: client.namespace.clone(),
            job_id: self.job_id.clone(),
            reason: reason(self.reason, &client.identity),
            identity: client.identity.clone(),
        };
        client.call("stop the batch job", message).await?;
        client.print(
            || format!("Batch job {} was stopped", plain(&self.job_id)),
            || Json::object([("jobId", Json::text(&self.job_id)), ("action", Json::text("stopped"))]),
        )
    }
}
