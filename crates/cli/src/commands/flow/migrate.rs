//! `segno flow migrate`.

use clap::Args;
use segno_proto::segno_flow::MigrateRequest;

use super::short;
use crate::{
    client::Client,
    commands::Target,
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno flow migrate --workflow-id order-7 --check\n  segno flow migrate --workflow-id \
                        order-7 --from-event 12\n\nWithout --to the run moves to the current version."
)]
pub struct Migrate {
    #[command(flatten)]
    target: Target,
    /// The version to move to. [default: the current one]
    #[arg(long, value_name = "VERSION", default_value = "", hide_default_value = true)]
    to: String,
    /// Reset the run to the turn of this event first; also for closed runs.
    #[arg(long, value_name = "EVENT", default_value_t = 0, hide_default_value = true)]
    from_event: i64,
    /// Check whether the move is possible and change nothing.
    #[arg(long)]
    check: bool,
}

impl Migrate {
    /// Moves the run.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = MigrateRequest {
            namespace: client.namespace.clone(),
            workflow_id: self.target.workflow_id.clone(),
            run_id: self.target.run_id.clone(),
            version: self.to,
            from_event: self.from_event,
            check_only: self.check,
        };
        let answer = client.call("migrate", message).await?;
        client.print(
            || {
                let (from, to) = (short(&answer.from_version), short(&answer.to_version));
                let done = done(self.check, self.from_event, (from, to), answer.from_version == answer.to_version);
                format!("{} {done}, run {}\n", plain(&self.target.workflow_id), answer.run_id)
            },
            || {
                Json::object([
                    ("run_id", Json::text(&answer.run_id)),
                    ("from_version", Json::text(&answer.from_version)),
                    ("to_version", Json::text(&answer.to_version)),
                ])
            },
        )
    }
}

/// What happened to the run, or could. `same`: it has the version already, so that nothing moves.
fn done(check: bool, from_event: i64, (from, to): (&str, &str), same: bool) -> String {
    match (same, from_event, check) {
        (true, 0, _) => format!("already runs on {to}"),
        (true, event, true) => format!("can begin again from event {event}, on {to} as before"),
        (true, event, false) => format!("began again from event {event}, on {to} as before"),
        (false, _, true) => format!("can move from {from} to {to}"),
        (false, _, false) => format!("moved from {from} to {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::done;

    #[test]
    fn says_what_happened() {
        assert_eq!(done(false, 0, ("a1", "b2"), false), "moved from a1 to b2");
        assert_eq!(done(true, 5, ("a1", "b2"), false), "can move from a1 to b2");
        assert_eq!(done(false, 0, ("a1", "a1"), true), "already runs on a1");
        assert_eq!(done(true, 0, ("a1", "a1"), true), "already runs on a1");
        assert_eq!(done(false, 5, ("a1", "a1"), true), "began again from event 5, on a1 as before");
        assert_eq!(done(true, 5, ("a1", "a1"), true), "can begin again from event 5, on a1 as before");
    }
}
