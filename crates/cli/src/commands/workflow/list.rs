//! `segno workflow list`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::{workflow::WorkflowExecutionInfo, workflowservice::ListWorkflowExecutionsRequest};

use crate::{
    client::Client,
    commands::pages,
    output::{
        status,
        table::{Cell, Table},
        time,
    },
};

const INFO: &str = "temporal.api.workflow.v1.WorkflowExecutionInfo";
/// Workflows per call, unless fewer are wanted.
const PAGE: usize = 200;
/// As wide as `Terminated`, so that pages with and without one line up.
const STATUS_WIDTH: usize = 10;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno workflow list --query \"WorkflowType = 'Order' AND ExecutionStatus = 'Running'\""
)]
pub struct List {
    /// A list filter.
    #[arg(short, long, value_name = "FILTER", default_value = "", hide_default_value = true)]
    query: String,
    /// At most this many.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Workflows per call to the server.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    page_size: Option<u32>,
}

impl List {
    /// Prints page after page, so that the first ones are there at once.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let page_size = self.page_size.map_or(PAGE, |size| size as usize);
        let headers = ["Status", "WorkflowId", "Type", "Started", "StartTime", "RunId"];
        let table = Table::new(&headers, client.colors).at_least(0, STATUS_WIDTH).optional(&[4, 5, 3]);
        let now = Timestamp::now();
        pages::print(
            client,
            INFO,
            table,
            |info| row(info, now),
            self.limit,
            async |client, left, token| {
                let message = ListWorkflowExecutionsRequest {
                    namespace: client.namespace.clone(),
                    page_size: page_size.min(left) as i32,
                    next_page_token: token,
                    query: self.query.clone(),
                };
                let answer = client.call("list workflows", message).await?;
                Ok((answer.executions, answer.next_page_token))
            },
        )
        .await
    }
}

fn row(info: &WorkflowExecutionInfo, now: Timestamp) -> Vec<Cell> {
    let execution = info.execution.clone().unwrap_or_default();
    let start = info.start_time.as_ref();
    vec![
        status::cell(info.status()),
        execution.workflow_id.into(),
        info.r#type.as_ref().map_or("", |kind| &kind.name).into(),
        time::relative(start, now).into(),
        time::short(start).into(),
        execution.run_id.into(),
    ]
}
