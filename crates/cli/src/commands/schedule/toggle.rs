//! `segno schedule toggle`.

use clap::{ArgGroup, Args};
use segno_proto::schedule::SchedulePatch;

use super::{Target, patch};
use crate::{client::Client, commands::reason};

#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("what").required(true).args(["pause", "unpause"]),
    after_help = "Example:\n  segno schedule toggle --schedule-id nightly --pause --reason 'the database moves'"
)]
pub struct Toggle {
    #[command(flatten)]
    target: Target,
    /// Pause the schedule.
    #[arg(long)]
    pause: bool,
    /// Unpause the schedule.
    #[arg(long)]
    unpause: bool,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Toggle {
    /// Pauses or unpauses it.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let why = reason(self.reason, &client.identity);
        let id = self.target.schedule_id;
        if self.pause {
            let pause = SchedulePatch { pause: why, ..Default::default() };
            patch::send(client, "pause the schedule", &id, pause).await?;
            patch::done(client, "Paused", &id)
        } else {
            let unpause = SchedulePatch { unpause: why, ..Default::default() };
            patch::send(client, "unpause the schedule", &id, unpause).await?;
            patch::done(client, "Unpaused", &id)
        }
    }
}
