//! `segno schedule ...`.

mod backfill;
mod create;
mod delete;
mod describe;
mod list;
mod patch;
mod plan;
mod toggle;
mod trigger;
mod update;
mod why;

use clap::{Args, ValueEnum};
use prost_types::Timestamp;
use segno_proto::{enums::ScheduleOverlapPolicy, nanos_timestamp};

noun!(Schedule {
    /// Creates a schedule.
    Create(Box<create::Create>),
    /// Shows a schedule with its recent and next actions.
    Describe(describe::Describe),
    /// Says when a schedule acts next, and what keeps it from acting.
    Why(why::Why),
    /// Lists schedules.
    List(list::List),
    /// Pauses or unpauses a schedule.
    Toggle(toggle::Toggle),
    /// Starts the workflow of a schedule now.
    Trigger(trigger::Trigger),
    /// Takes the actions of a time span in the past.
    Backfill(backfill::Backfill),
    /// Replaces the specification of a schedule.
    Update(Box<update::Update>),
    /// Deletes a schedule. Workflows that it started go on.
    Delete(delete::Delete),
});

/// Which schedule a command is about.
#[derive(Args, Clone, Debug)]
struct Target {
    /// Id of the schedule.
    #[arg(short, long, value_name = "ID")]
    schedule_id: String,
}

/// What happens when the time has come and the last workflow still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Overlap {
    Skip,
    BufferOne,
    BufferAll,
    CancelOther,
    TerminateOther,
    AllowAll,
}

impl From<Overlap> for ScheduleOverlapPolicy {
    fn from(overlap: Overlap) -> Self {
        match overlap {
            Overlap::Skip => Self::Skip,
            Overlap::BufferOne => Self::BufferOne,
            Overlap::BufferAll => Self::BufferAll,
            Overlap::CancelOther => Self::CancelOther,
            Overlap::TerminateOther => Self::TerminateOther,
            Overlap::AllowAll => Self::AllowAll,
        }
    }
}

/// A time such as `2026-01-02T03:04:05Z`.
fn moment(text: &str) -> Result<Timestamp, String> {
    let time: jiff::Timestamp = text.parse().map_err(|_| "expected a time such as 2026-01-02T03:04:05Z".to_owned())?;
    i64::try_from(time.as_nanosecond()).map(nanos_timestamp).map_err(|_| "that is too far away".to_owned())
}
