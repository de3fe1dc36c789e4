//! `segno schedule create`.

use clap::Args;
use segno_proto::{
    common::{Memo, SearchAttributes},
    workflowservice::CreateScheduleRequest,
};

use super::{Target, plan::Plan};
use crate::{
    args,
    client::{Client, uuid},
    commands::payload_map,
    output::{Json, fields::Fields},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno schedule create --schedule-id nightly --cron '0 3 * * *' --type Report --task-queue reports"
)]
pub struct Create {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    plan: Plan,
    /// A memo field of the schedule, as KEY=JSON; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = args::key_json)]
    schedule_memo: Vec<(String, String)>,
    /// A search attribute of the schedule, as KEY=JSON; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = args::key_json)]
    schedule_search_attribute: Vec<(String, String)>,
}

impl Create {
    /// Creates it.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let id = self.target.schedule_id;
        self.plan.warn_if_never();
        let message = CreateScheduleRequest {
            namespace: client.namespace.clone(),
            schedule: Some(self.plan.schedule(&id)?),
            schedule_id: id.clone(),
            identity: client.identity.clone(),
            request_id: uuid()?,
            memo: payload_map(&self.schedule_memo).map(|fields| Memo { fields }),
            search_attributes: payload_map(&self.schedule_search_attribute)
                .map(|indexed_fields| SearchAttributes { indexed_fields }),
            ..Default::default()
        };
        client.call("create the schedule", message).await?;
        client.print(
            || {
                let mut fields = Fields::new(client.colors);
                fields.section("Created");
                fields.add("ScheduleId", &id);
                fields.add("Namespace", &client.namespace);
                fields.finish()
            },
            || {
                let namespace = Json::text(&client.namespace);
                Json::object([("scheduleId", Json::text(&id)), ("namespace", namespace)])
            },
        )
    }
}
