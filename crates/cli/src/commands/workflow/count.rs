//! `segno workflow count`.

use clap::Args;
use segno_proto::workflowservice::CountWorkflowExecutionsRequest;

use crate::{client::Client, commands::counts, output::dynamic::decoded};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow count --query \"WorkflowType = 'Order' GROUP BY ExecutionStatus\"")]
pub struct Count {
    /// A list filter; may end in GROUP BY ExecutionStatus.
    #[arg(short, long, value_name = "FILTER", default_value = "", hide_default_value = true)]
    query: String,
}

impl Count {
    /// Prints the number, and that of each group.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = CountWorkflowExecutionsRequest { namespace: client.namespace.clone(), query: self.query };
        let answer = client.call("count workflows", message).await?;
        client.print(
            || {
                let groups = answer.groups.iter().map(|group| (group.group_values.as_slice(), group.count));
                counts(answer.count, groups, client.colors)
            },
            || decoded("temporal.api.workflowservice.v1.CountWorkflowExecutionsResponse", &answer),
        )
    }
}
