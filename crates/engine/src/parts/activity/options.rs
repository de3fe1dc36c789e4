//! Options of activities that can be changed: queue, time-outs, retry policy, priority.

use segno_proto::{
    activity::ActivityOptions,
    command::ScheduleActivityTaskCommandAttributes,
    common::{ActivityType, Priority, RetryPolicy},
    duration_nanos, nanos_duration,
    taskqueue::TaskQueue,
};

use crate::{state::activity::Activity, validate};

/// Every field that can be changed, in the order in which they are: first a whole, then its parts.
pub const FIELDS: [&str; 15] = [
    "taskQueue.name",
    "scheduleToCloseTimeout",
    "scheduleToStartTimeout",
    "startToCloseTimeout",
    "heartbeatTimeout",
    "priority",
    "priority.priorityKey",
    "priority.fairnessKey",
    "priority.fairnessWeight",
    "retryPolicy",
    "retryPolicy.initialInterval",
    "retryPolicy.backoffCoefficient",
    "retryPolicy.maximumInterval",
    "retryPolicy.maximumAttempts",
    "startDelay",
];

/// The name under which a field of a mask is known, whichever way it is spelled: `taskQueue.name` for
/// `task_queue.name` and `TaskQueue.Name`.
pub fn field_path(path: &str) -> String {
    let part = |part: &str| -> String {
        let mut words = part.split('_');
        let first = words.next().unwrap_or_default();
        let mut name: String = first.chars().take(1).flat_map(char::to_lowercase).collect();
        name.extend(first.chars().skip(1));
        for word in words {
            name.extend(word.chars().take(1).flat_map(char::to_uppercase));
            name.extend(word.chars().skip(1).flat_map(char::to_lowercase));
        }
        name
    };
    path.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// The part of a reset that brings back options.
pub(crate) fn restore_all_but_priority(activity: &mut Activity) {
    let options = ActivityOptions { priority: activity.priority.clone(), ..original_of(activity) };
    set(activity, &options);
    activity.stamp += 1;
}

/// The current options of an activity, as the wire has them. A retry policy's list of errors is not among the options.
pub(crate) fn options_of(activity: &Activity) -> ActivityOptions {
    ActivityOptions {
        task_queue: Some(TaskQueue { name: activity.queue.clone(), ..Default::default() }),
        schedule_to_close_timeout: Some(nanos_duration(activity.schedule_to_close)),
        schedule_to_start_timeout: Some(nanos_duration(activity.schedule_to_start)),
        start_to_close_timeout: Some(nanos_duration(activity.start_to_close)),
        heartbeat_timeout: Some(nanos_duration(activity.heartbeat)),
        retry_policy: activity.retry_policy.clone(),
        priority: activity.priority.clone(),
        ..Default::default()
    }
}

pub(crate) fn original_of(activity: &Activity) -> ActivityOptions {
    activity.original_options.clone().unwrap_or_else(|| options_of(activity))
}

pub(crate) fn keep_original(activity: &mut Activity) {
    activity.original_options = Some(original_of(activity));
}

pub(crate) fn set(activity: &mut Activity, options: &ActivityOptions) {
    let policy = options.retry_policy.clone().unwrap_or_default();
    let kept = activity.retry_policy.take().unwrap_or_default().non_retryable_error_types;
    activity.queue = options.task_queue.clone().unwrap_or_default().name;
    activity.schedule_to_close = duration_nanos(options.schedule_to_close_timeout.as_ref());
    activity.schedule_to_start = duration_nanos(options.schedule_to_start_timeout.as_ref());
    activity.start_to_close = duration_nanos(options.start_to_close_timeout.as_ref());
    activity.heartbeat = duration_nanos(options.heartbeat_timeout.as_ref());
    activity.retry_policy = Some(RetryPolicy { non_retryable_error_types: kept, ..policy });
    activity.priority = options.priority.clone();
}

/// The options of an activity with the given ones put in, checked and adjusted to each other.
pub(crate) fn merged(
    activity: &Activity,
    given: &ActivityOptions,
    paths: &[String],
    workflow_queue: &str,
) -> Result<ActivityOptions, validate::Invalid> {
    merged_with(activity, options_of(activity), given, paths, workflow_queue)
}

/// Like [`merged`], put into the given options instead of those of the activity.
pub(crate) fn merged_with(
    activity: &Activity,
    options: ActivityOptions,
    given: &ActivityOptions,
    paths: &[String],
    workflow_queue: &str,
) -> Result<ActivityOptions, validate::Invalid> {
    let mut options = options;
    if let Some(policy) = &mut options.retry_policy {
        policy.non_retryable_error_types.clear();
    }
    for field in FIELDS.iter().filter(|field| paths.iter().any(|path| path == *field)) {
        merge(&mut options, given, field)?;
    }
    if paths.iter().any(|path| path.starts_with("retryPolicy.")) {
        validate::retry_policy_as_given(options.retry_policy.get_or_insert_default())?;
    }
    let mut attributes = ScheduleActivityTaskCommandAttributes {
        activity_id: activity.activity_id.clone(),
        activity_type: Some(ActivityType { name: activity.activity_type.clone() }),
        task_queue: options.task_queue.take(),
        schedule_to_close_timeout: options.schedule_to_close_timeout,
        schedule_to_start_timeout: options.schedule_to_start_timeout,
        start_to_close_timeout: options.start_to_close_timeout,
        heartbeat_timeout: options.heartbeat_timeout,
        ..Default::default()
    };
    // The run's own timeout is not looked at: the same activity could be scheduled with more than is left of it.
    validate::schedule_activity(&mut attributes, 0, workflow_queue)?;
    Ok(ActivityOptions {
        task_queue: attributes.task_queue,
        schedule_to_close_timeout: attributes.schedule_to_close_timeout,
        schedule_to_start_timeout: attributes.schedule_to_start_timeout,
        start_to_close_timeout: attributes.start_to_close_timeout,
        heartbeat_timeout: attributes.heartbeat_timeout,
        ..options
    })
}

/// Takes over one field.
fn merge(into: &mut ActivityOptions, given: &ActivityOptions, path: &str) -> Result<(), validate::Invalid> {
    let missing = |what: &str| validate::Invalid(format!("{what} is not provided"));
    let queue = || given.task_queue.clone().ok_or_else(|| missing("TaskQueue"));
    let policy = || given.retry_policy.clone().ok_or_else(|| missing("RetryPolicy"));
    let priority = || given.priority.clone().ok_or_else(|| missing("Priority"));
    fn policy_of(options: &mut ActivityOptions) -> &mut RetryPolicy {
        options.retry_policy.get_or_insert_default()
    }
    fn priority_of(options: &mut ActivityOptions) -> &mut Priority {
        options.priority.get_or_insert_default()
    }
    match path {
        "taskQueue.name" => into.task_queue.get_or_insert_default().name = queue()?.name,
        "scheduleToCloseTimeout" => into.schedule_to_close_timeout = given.schedule_to_close_timeout,
        "scheduleToStartTimeout" => into.schedule_to_start_timeout = given.schedule_to_start_timeout,
        "startToCloseTimeout" => into.start_to_close_timeout = given.start_to_close_timeout,
        "heartbeatTimeout" => into.heartbeat_timeout = given.heartbeat_timeout,
        "priority" => into.priority = given.priority.clone(),
        "priority.priorityKey" => priority_of(into).priority_key = priority()?.priority_key,
        "priority.fairnessKey" => priority_of(into).fairness_key = priority()?.fairness_key,
        "priority.fairnessWeight" => priority_of(into).fairness_weight = priority()?.fairness_weight,
        "retryPolicy" => into.retry_policy = Some(policy()?),
        "retryPolicy.initialInterval" => policy_of(into).initial_interval = policy()?.initial_interval,
        "retryPolicy.backoffCoefficient" => policy_of(into).backoff_coefficient = policy()?.backoff_coefficient,
        "retryPolicy.maximumInterval" => policy_of(into).maximum_interval = policy()?.maximum_interval,
        "retryPolicy.maximumAttempts" => policy_of(into).maximum_attempts = policy()?.maximum_attempts,
        "startDelay" => into.start_delay = given.start_delay,
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_mask_have_one_name() {
        for path in ["task_queue.name", "taskQueue.name", "TaskQueue.Name", "Task_Queue.name", "task_QUEUE.name"] {
            assert_eq!(field_path(path), "taskQueue.name", "{path}");
        }
        assert_eq!(field_path("retry_policy.backoff_coefficient"), "retryPolicy.backoffCoefficient");
        assert_eq!(field_path(""), "");
        assert_eq!(field_path("TASKQUEUE"), "tASKQUEUE");
    }
}
