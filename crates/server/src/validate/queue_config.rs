//! What UpdateTaskQueueConfig refuses.

use segno_engine::validate::{self as engine, ID_LENGTH_MAX};
use segno_proto::{
    common::Priority,
    enums::TaskQueueType,
    workflowservice::{UpdateTaskQueueConfigRequest, update_task_queue_config_request::RateLimitUpdate},
};

use super::RequestError;

/// Longest reason.
const REASON_MAX: usize = 1000;
/// Most weights that one request may set and unset.
const WEIGHTS_MAX: usize = 1000;

/// Checks a change.
pub fn update(request: &UpdateTaskQueueConfigRequest) -> Result<(), RequestError> {
    let of_workflows = request.task_queue_type == TaskQueueType::Workflow as i32;
    let sets = |update: &Option<RateLimitUpdate>| update.as_ref().is_some_and(|update| update.rate_limit.is_some());
    if of_workflows && sets(&request.update_queue_rate_limit) {
        return Err(RequestError::invalid("Setting rate limit on workflow task queues is not allowed."));
    }
    rate_limit(request.update_queue_rate_limit.as_ref(), "UpdateQueueRateLimit")?;
    if of_workflows && sets(&request.update_fairness_key_rate_limit_default) {
        let text = "Setting fairness key rate limit on workflow task queues is not allowed.";
        return Err(RequestError::invalid(text));
    }
    rate_limit(request.update_fairness_key_rate_limit_default.as_ref(), "UpdateFairnessKeyRateLimitDefault")?;
    at_most("Identity", &request.identity, ID_LENGTH_MAX)?;
    weights(request)?;
    if request.task_queue.starts_with("/_sys/") {
        let text = format!("task queue family name cannot have prefix /_sys/ {}", request.task_queue);
        return Err(RequestError::invalid(text));
    }
    Ok(())
}

fn rate_limit(update: Option<&RateLimitUpdate>, label: &str) -> Result<(), RequestError> {
    let Some(update) = update else { return Ok(()) };
    let Some(limit) = update.rate_limit else { return Ok(()) };
    if limit.requests_per_second < 0.0 {
        return Err(RequestError::invalid(format!("RequestsPerSecond for {label} rate limit must be non-negative.")));
    }
    at_most(&format!("{label}.Reason"), &update.reason, REASON_MAX)
}

fn at_most(field: &str, value: &str, longest: usize) -> Result<(), RequestError> {
    match value.len() > longest {
        true => Err(RequestError::invalid(format!("{field} field too long (max {longest} characters)."))),
        false => Ok(()),
    }
}

fn weights(request: &UpdateTaskQueueConfigRequest) -> Result<(), RequestError> {
    let (set, unset) = (&request.set_fairness_weight_overrides, &request.unset_fairness_weight_overrides);
    let total = set.len() + unset.len();
    if total > WEIGHTS_MAX {
        let text = format!("too many fairness weight overrides in request: got {total}, maximum {WEIGHTS_MAX}");
        return Err(RequestError::invalid(text));
    }
    for (key, weight) in set {
        check_key(key)?;
        let alone = Priority { fairness_weight: *weight, ..Default::default() };
        engine::priority(Some(&alone)).map_err(|why| {
            RequestError::invalid(format!("invalid fairness weight weight for key {key:?}: {}", why.0))
        })?;
    }
    unset.iter().try_for_each(|key| check_key(key))?;
    match unset.iter().find(|key| set.contains_key(*key)) {
        Some(key) => Err(RequestError::invalid(format!(
            "fairness weight override key {key:?} present in both set and unset lists"
        ))),
        None => Ok(()),
    }
}

fn check_key(key: &str) -> Result<(), RequestError> {
    if key.is_empty() {
        return Err(RequestError::invalid("fairness weight override key must not be empty"));
    }
    Ok(engine::priority(Some(&Priority { fairness_key: key.to_owned(), ..Default::default() }))?)
}
