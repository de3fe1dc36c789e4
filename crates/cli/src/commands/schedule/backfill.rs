//! `segno schedule backfill`.

use clap::Args;
use prost_types::Timestamp;
use segno_proto::{
    enums::ScheduleOverlapPolicy,
    schedule::{BackfillRequest, SchedulePatch},
};

use super::{Overlap, Target, moment, patch};
use crate::client::Client;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno schedule backfill --schedule-id nightly --start-time 2026-01-01T00:00:00Z \\\n      \
                        --end-time 2026-01-08T00:00:00Z --overlap-policy BufferAll"
)]
pub struct Backfill {
    #[command(flatten)]
    target: Target,
    /// Start of the time span.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    start_time: Timestamp,
    /// End of the time span.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    end_time: Timestamp,
    /// What to do if the last workflow still runs. [default: the policy of the schedule]
    #[arg(long, value_enum, ignore_case = true, value_name = "POLICY")]
    overlap_policy: Option<Overlap>,
}

impl Backfill {
    /// Asks for the workflows of that time.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let policy = self.overlap_policy.map_or(ScheduleOverlapPolicy::Unspecified, ScheduleOverlapPolicy::from);
        let backfill = BackfillRequest {
            start_time: Some(self.start_time),
            end_time: Some(self.end_time),
            overlap_policy: policy as i32,
        };
        let backfill = SchedulePatch { backfill_request: vec![backfill], ..Default::default() };
        let id = self.target.schedule_id;
        patch::send(client, "backfill the schedule", &id, backfill).await?;
        patch::done(client, "Backfill requested", &id)
    }
}
