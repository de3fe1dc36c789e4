//! `segno schedule list`.

use clap::Args;
use segno_proto::{schedule::ScheduleListEntry, workflowservice::ListSchedulesRequest};

use crate::{
    client::Client,
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
#[command(after_help = "Example:\n  segno schedule list --query 'TemporalSchedulePaused = true'")]
pub struct List {
    /// Which ones, in the language of list filters.
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
            let answer = client.call("list schedules", message).await?;
            Ok((answer.schedules, answer.next_page_token))
        })
        .await
    }
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
