//! `segno schedule update`.

use clap::Args;
use segno_proto::{
    common::SearchAttributes,
    workflowservice::{DescribeScheduleRequest, UpdateScheduleRequest},
};

use super::{Target, patch, plan::Plan};
use crate::{
    args,
    client::{Client, uuid},
    commands::payload_map,
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno schedule update --schedule-id nightly --cron '0 4 * * *' --type Report --task-queue reports"
)]
pub struct Update {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    plan: Plan,
    /// A search attribute of the schedule, as KEY=JSON; may be repeated. Others are removed if there is one.
    #[arg(long, value_name = "KEY=JSON", value_parser = args::key_json)]
    schedule_search_attribute: Vec<(String, String)>,
}

impl Update {
    /// Replaces the schedule, unless another client changes it in between.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let id = self.target.schedule_id;
        self.plan.warn_if_never();
        let seen = DescribeScheduleRequest { namespace: client.namespace.clone(), schedule_id: id.clone() };
        let seen = client.call("describe the schedule", seen).await?;
        let message = UpdateScheduleRequest {
            namespace: client.namespace.clone(),
            schedule: Some(self.plan.schedule(&id)?),
            schedule_id: id.clone(),
            conflict_token: seen.conflict_token,
            identity: client.identity.clone(),
            request_id: uuid()?,
            search_attributes: payload_map(&self.schedule_search_attribute)
                .map(|indexed_fields| SearchAttributes { indexed_fields }),
            ..Default::default()
        };
        client.call("update the schedule", message).await?;
        patch::done(client, "Updated", &id)
    }
}
