//! `segno schedule trigger`.

use clap::Args;
use segno_proto::{
    enums::ScheduleOverlapPolicy,
    schedule::{SchedulePatch, TriggerImmediatelyRequest},
};

use super::{Overlap, Target, patch};
use crate::client::Client;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno schedule trigger --schedule-id nightly --overlap-policy AllowAll")]
pub struct Trigger {
    #[command(flatten)]
    target: Target,
    /// What to do if the last workflow still runs. [default: the policy of the schedule]
    #[arg(long, value_enum, ignore_case = true, value_name = "POLICY")]
    overlap_policy: Option<Overlap>,
}

impl Trigger {
    /// Starts its workflow.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let policy = self.overlap_policy.map_or(ScheduleOverlapPolicy::Unspecified, ScheduleOverlapPolicy::from);
        let trigger = TriggerImmediatelyRequest { overlap_policy: policy as i32, scheduled_time: None };
        let trigger = SchedulePatch { trigger_immediately: Some(trigger), ..Default::default() };
        let id = self.target.schedule_id;
        patch::send(client, "trigger the schedule", &id, trigger).await?;
        patch::done(client, "Triggered", &id)
    }
}
