//! `segno activity count`.

use clap::Args;
use segno_proto::workflowservice::{
    CountActivityExecutionsRequest, CountActivityExecutionsResponse,
    count_activity_executions_response::AggregationGroup,
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
#[command(after_help = "Example:\n  segno activity count --query \"ActivityType = 'Mail' GROUP BY ExecutionStatus\"")]
pub struct Count {
    /// Which ones, in the language of list filters; may end in GROUP BY ExecutionStatus.
    #[arg(short, long, value_name = "FILTER", default_value = "", hide_default_value = true)]
    query: String,
}

impl Count {
    /// Prints the number, and that of each group.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = CountActivityExecutionsRequest { namespace: client.namespace.clone(), query: self.query };
        let answer = client.workflows.count_activity_executions(request(message)).await;
        let answer: CountActivityExecutionsResponse = client.answer("count activities", answer)?;
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
            || Ok(to_json("temporal.api.workflowservice.v1.CountActivityExecutionsResponse", &answer, View::Decoded)?),
        )
    }
}
