//! What `toggle`, `trigger` and `backfill` have in common: they all call PatchSchedule.

use segno_proto::{schedule::SchedulePatch, workflowservice::PatchScheduleRequest};

use crate::{
    client::{Client, uuid},
    output::Json,
};

/// Sends a change.
pub async fn send(client: &mut Client, what: &str, schedule_id: &str, patch: SchedulePatch) -> anyhow::Result<()> {
    let message = PatchScheduleRequest {
        namespace: client.namespace.clone(),
        schedule_id: schedule_id.to_owned(),
        patch: Some(patch),
        identity: client.identity.clone(),
        request_id: uuid()?,
    };
    client.call(what, message).await?;
    Ok(())
}

/// Says that it is done.
pub fn done(client: &Client, how: &str, schedule_id: &str) -> anyhow::Result<()> {
    client.print(
        || format!("{how}: schedule {schedule_id}\n"),
        || Json::object([("scheduleId", Json::text(schedule_id)), ("done", Json::text(how.to_lowercase()))]),
    )
}
