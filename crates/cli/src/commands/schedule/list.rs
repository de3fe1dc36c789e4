//! `segno schedule list`.

use clap::Args;
use segno_proto::{
    common::WorkflowType,
    schedule::{ScheduleActionResult, ScheduleListEntry, ScheduleListInfo, ScheduleSpec},
    segno_flow::Flow,
    workflowservice::ListSchedulesRequest,
};

use tonic::Code;

use crate::{
    client::{Client, ClientError},
    commands::pages,
    output::{
        table::{Cell, Table},
        time,
    },
};

const ENTRY: &str = "temporal.api.schedule.v1.ScheduleListEntry";
/// Schedules per call.
const PAGE: i32 = 200;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno schedule list --query 'TemporalSchedulePaused = true'\n\nWithout --query, the schedules that stand in \
                        scripts follow."
)]
pub struct List {
    /// A list filter.
    #[arg(short, long, value_name = "FILTER", default_value = "", hide_default_value = true)]
    query: String,
}

impl List {
    /// Prints page after page, so that the first ones are there at once.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let table = Table::new(&["ScheduleId", "Type", "Paused", "Next", "Last"], client.colors);
        pages::print(client, ENTRY, table, row, None, async |client, _, token| {
            let message = ListSchedulesRequest {
                namespace: client.namespace.clone(),
                maximum_page_size: PAGE,
                next_page_token: token,
                query: self.query.clone(),
            };
            let mut answer = client.call("list schedules", message).await?;
            if answer.next_page_token.is_empty() && self.query.is_empty() {
                answer.schedules.extend(client.scheduled_scripts().await?.iter().filter_map(entry));
            }
            Ok((answer.schedules, answer.next_page_token))
        })
        .await
    }
}

impl Client {
    /// The scripts with a schedule; none if the server is none of Segno's.
    async fn scheduled_scripts(&mut self) -> anyhow::Result<Vec<Flow>> {
        let mut scripts = match self.scripts().await {
            Err(ClientError::Status { status, .. }) if status.code() == Code::Unimplemented => Vec::new(),
            listed => listed?.flows,
        };
        scripts.retain(|script| !script.schedule.is_empty());
        Ok(scripts)
    }
}

/// The schedule of a script as an entry of the list. Its workflow id is the id of its runs.
fn entry(script: &Flow) -> Option<ScheduleListEntry> {
    let run = script.scheduled_run.clone()?;
    let action = |at| ScheduleActionResult { actual_time: Some(at), ..Default::default() };
    let info = ScheduleListInfo {
        spec: Some(ScheduleSpec { cron_string: vec![script.schedule.clone()], ..Default::default() }),
        workflow_type: Some(WorkflowType { name: format!("script {}", script.name) }),
        paused: run.paused,
        future_action_times: run.next.into_iter().collect(),
        recent_actions: run.last.into_iter().map(action).collect(),
        ..Default::default()
    };
    Some(ScheduleListEntry { schedule_id: run.workflow_id, info: Some(info), ..Default::default() })
}

fn row(entry: &ScheduleListEntry) -> Vec<Cell> {
    let info = entry.info.clone().unwrap_or_default();
    let last = info.recent_actions.last().and_then(|action| action.actual_time);
    vec![
        entry.schedule_id.clone().into(),
        info.workflow_type.map(|kind| kind.name).unwrap_or_default().into(),
        if info.paused { "yes" } else { "no" }.into(),
        time::short(info.future_action_times.first()).into(),
        time::short(last.as_ref()).into(),
    ]
}
