//! Priorities: fields that an activity or a child leaves open are inherited from its workflow.

use segno_proto::common::Priority;

/// The priority of an activity or a child of a workflow.
pub fn merged(workflow: Option<&Priority>, own: Option<&Priority>) -> Option<Priority> {
    let (Some(base), Some(own)) = (workflow, own) else { return own.or(workflow).cloned() };
    let fairness_key = if own.fairness_key.is_empty() { &base.fairness_key } else { &own.fairness_key };
    Some(Priority {
        priority_key: if own.priority_key == 0 { base.priority_key } else { own.priority_key },
        fairness_key: fairness_key.clone(),
        fairness_weight: if own.fairness_weight == 0.0 { base.fairness_weight } else { own.fairness_weight },
    })
}

/// The key alone of [`merged`]; 0 if neither has one.
pub fn merged_key(workflow: Option<&Priority>, own: Option<&Priority>) -> i32 {
    let key = |priority: Option<&Priority>| priority.map_or(0, |priority| priority.priority_key);
    if key(own) == 0 { key(workflow) } else { key(own) }
}

/// Fairness key and weight of [`merged`]; an empty key is none.
pub fn merged_fairness<'a>(workflow: Option<&'a Priority>, own: Option<&'a Priority>) -> (&'a str, f32) {
    let both = || own.into_iter().chain(workflow);
    let key = both().map(|priority| priority.fairness_key.as_str()).find(|key| !key.is_empty());
    let weight = both().map(|priority| priority.fairness_weight).find(|weight| *weight != 0.0);
    (key.unwrap_or_default(), weight.unwrap_or(1.0))
}
