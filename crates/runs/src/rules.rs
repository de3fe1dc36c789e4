//! Workflow rules: an activity that matches one is paused when a worker would get it.
//!
//! A rule belongs to a namespace. It selects activities by a predicate, may select workflows by a filter, and may
//! expire. Both are list filters; an invalid one matches nothing.

use segno_engine::{Run, state::Activity};
use segno_proto::{
    Nanos,
    rules::{WorkflowRule, WorkflowRuleSpec, workflow_rule_action::Variant, workflow_rule_spec::Trigger},
    timestamp_nanos,
};
use segno_store::visibility::{Attribute, Filter, Kind, Names, Value, parse_list};

use crate::namespaces::Namespace;

/// Most rules of a namespace.
pub const RULES_MAX: usize = 10;

const ID: Attribute = Attribute::Numbered(0, Kind::Keyword);
const TYPE: Attribute = Attribute::Numbered(1, Kind::Keyword);
const ATTEMPTS: Attribute = Attribute::Numbered(2, Kind::Int);
const BACKOFF: Attribute = Attribute::Numbered(3, Kind::Int);
const LAST_FAILURE: Attribute = Attribute::Numbered(4, Kind::Keyword);
const STATE: Attribute = Attribute::Numbered(5, Kind::Keyword);
const STARTED: Attribute = Attribute::Numbered(6, Kind::Datetime);

/// The attributes of an activity that a predicate can name. (`TaskQueue` is a name of every filter.)
struct OfActivity;

impl Names for OfActivity {
    fn find(&self, name: &str) -> Option<Attribute> {
        Some(match name {
            "ActivityId" => ID,
            "ActivityType" => TYPE,
            "Attempts" => ATTEMPTS,
            "BackoffInterval" => BACKOFF,
            "LastFailure" => LAST_FAILURE,
            "ActivityState" => STATE,
            "StartedTime" => STARTED,
            _ => return None,
        })
    }
}

/// The attributes of a workflow that a filter can name: only those that every workflow has.
struct OfWorkflow;

impl Names for OfWorkflow {
    fn find(&self, _: &str) -> Option<Attribute> {
        None
    }
}

/// The rule that keeps an activity of a workflow from being started, if there is one.
pub fn matching<'a>(namespace: &'a Namespace, run: &Run, activity: &Activity, now: Nanos) -> Option<&'a str> {
    if activity.standalone {
        return None;
    }
    let rules = namespace.detail.workflow_rules.iter();
    rules.filter(|(_, rule)| matches(rule, run, activity, now)).map(|(id, _)| id.as_str()).next()
}

fn matches(rule: &WorkflowRule, run: &Run, activity: &Activity, now: Nanos) -> bool {
    let Some(spec) = &rule.spec else { return false };
    let Some(Trigger::ActivityStart(start)) = &spec.trigger else { return false };
    let pauses = spec.actions.iter().any(|action| matches!(action.variant, Some(Variant::ActivityPause(_))));
    pauses
        && !has_expired(spec, now)
        && (spec.visibility_query.is_empty() || is_meant(&spec.visibility_query, run))
        && is_about(&start.predicate, activity)
}

fn has_expired(spec: &WorkflowRuleSpec, now: Nanos) -> bool {
    spec.expiration_time.as_ref().is_some_and(|time| timestamp_nanos(time) < now)
}

fn is_meant(filter: &str, run: &Run) -> bool {
    let info = &run.info;
    let value = |attribute| match attribute {
        Attribute::WorkflowId => Some(Value::Text(info.workflow_id.clone())),
        Attribute::WorkflowType => Some(Value::Text(info.workflow_type.clone())),
        Attribute::StartTime => Some(Value::Int(info.start_time)),
        Attribute::ExecutionStatus => Some(Value::Int(run.status() as i64)),
        _ => None,
    };
    understood(filter, &OfWorkflow).is_some_and(|filter| filter.evaluate_by(&value) == Some(true))
}

fn is_about(predicate: &str, activity: &Activity) -> bool {
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    let value = |attribute| match attribute {
        ID => text(&activity.activity_id),
        TYPE => text(&activity.activity_type),
        Attribute::TaskQueue => text(&activity.queue),
        ATTEMPTS => Some(Value::Int(activity.attempt.into())),
        BACKOFF if activity.attempt > 1 => {
            Some(Value::Int((activity.scheduled_time - activity.last_attempt_end) / 1_000_000_000))
        }
        LAST_FAILURE => activity.last_failure.as_ref().and_then(|failure| text(&failure.message)),
        // It is about to be started.
        STATE => text(if activity.cancel_requested { "CancelRequested" } else { "Scheduled" }),
        _ => None,
    };
    !predicate.trim().is_empty()
        && understood(predicate, &OfActivity).is_some_and(|filter| filter.evaluate_by(&value) == Some(true))
}

fn understood(text: &str, names: &dyn Names) -> Option<Filter> {
    match parse_list(text, names) {
        Ok((filter, _)) => Some(filter),
        Err(error) => {
            tracing::debug!(%error, "a workflow rule cannot be understood and matches nothing: {text}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicates_of_activities() {
        let activity = Activity {
            activity_id: "a".to_owned(),
            activity_type: "Pay".to_owned(),
            queue: "q".to_owned(),
            attempt: 2,
            scheduled_time: 5_000_000_000,
            last_attempt_end: 2_000_000_000,
            ..Default::default()
        };
        for (predicate, meant) in [
            ("ActivityType = 'Pay'", true),
            ("ActivityType STARTS_WITH 'P' AND Attempts >= 2", true),
            ("ActivityId != 'a' OR TaskQueue = 'q'", true),
            ("BackoffInterval > 2 AND BackoffInterval < 4", true),
            ("Attempts > 2", false),
            ("LastFailure = 'x'", false),
            ("ActivityState = 'Scheduled'", true),
            ("", false),
            ("Nothing ~ 7", false),
            ("WorkflowId = 'w'", false),
        ] {
            assert_eq!(is_about(predicate, &activity), meant, "{predicate}");
        }
    }
}
