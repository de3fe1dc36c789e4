//! `segno workflow count`.

use clap::Args;
use segno_proto::workflowservice::{
    CountWorkflowExecutionsRequest, CountWorkflowExecutionsResponse,
    count_workflow_executions_response::AggregationGroup,
};

use crate::{
    client::{Client, request},
    output::{
        dynamic::{View, to_json},
        payload,
        table::Table,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow count --query \"WorkflowType = 'Order' GROUP BY ExecutionStatus\"")]
pub struct Count {
    /// Which ones, in the language of list filters; may end in GROUP BY ExecutionStatus.
    #[arg(short, long, value_name = "FILTER", default_value = "", hide_default_value = true)]
    query: String,
}

impl Count {
    /// Prints the number, and that of each group.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = CountWorkflowExecutionsRequest { namespace: client.namespace.clone(), query: self.query };
        let answer = client.workflows.count_workflow_executions(request(message)).await;
        let answer: CountWorkflowExecutionsResponse = client.answer("count workflows", answer)?;
        client.print(
            || {
                let mut text = format!("Total: {}\n", answer.count);
                if !answer.groups.is_empty() {
                    let row = |group: &AggregationGroup| {
                        let values: Vec<_> = group.group_values.iter().map(payload::text).collect();
                        vec![values.join(", ").trim_matches('"').into(), group.count.to_string().into()]
                    };
                    let rows: Vec<_> = answer.groups.iter().map(row).collect();
                    text.push_str(&Table::new(&["Group", "Count"], client.colors).render(&rows));
                }
                text
            },
            || Ok(to_json("temporal.api.workflowservice.v1.CountWorkflowExecutionsResponse", &answer, View::Decoded)?),
        )
    }
}
