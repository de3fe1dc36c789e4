//! The words of scenario files: `name positional key=value flag`, and the commands of a worker in the same form.

use std::{collections::BTreeMap, str::FromStr};

use segno_proto::{
    Nanos,
    command::{self, Command, command::Attributes as A},
    common::{ActivityType, Memo, Payload, Payloads, RetryPolicy, SearchAttributes, WorkflowExecution, WorkflowType},
    enums::{CommandType, ParentClosePolicy},
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    nanos_duration,
};

use super::{
    versions,
    world::{SECOND, queue},
};

/// One line, taken apart.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    pub name: &'a str,
    positional: Vec<&'a str>,
    named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    pub fn parse(text: &'a str) -> Self {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let (mut positional, mut named) = (Vec::new(), BTreeMap::new());
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => drop(named.insert(key, value)),
                None => positional.push(word),
            }
        }
        Self { name, positional, named }
    }

    /// The word in this place.
    pub fn at(&self, index: usize) -> &'a str {
        self.positional.get(index).copied().unwrap_or_else(|| panic!("a word is missing after {:?}", self.name))
    }

    /// Whether this word is there.
    pub fn flag(&self, word: &str) -> bool {
        self.positional.contains(&word)
    }

    /// What `key=` says.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.named.get(key).copied()
    }

    pub fn number<T: FromStr>(&self, index: usize) -> T {
        let word = self.at(index);
        word.parse().unwrap_or_else(|_| panic!("{word:?} is no number"))
    }

    pub fn time(&self, key: &str) -> Option<Nanos> {
        self.get(key).map(nanos)
    }

    pub fn duration(&self, key: &str) -> Option<prost_types::Duration> {
        self.time(key).map(nanos_duration)
    }

    /// `retry=attempts/first[/coefficient]`; no attempts means without end.
    pub fn retry(&self) -> Option<RetryPolicy> {
        let mut parts = self.get("retry")?.split('/');
        let attempts: i32 = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        let first = parts.next().map_or(SECOND, nanos);
        let coefficient: f64 = parts.next().and_then(|part| part.parse().ok()).unwrap_or(2.0);
        Some(RetryPolicy {
            initial_interval: Some(nanos_duration(first)),
            backoff_coefficient: coefficient,
            maximum_interval: Some(nanos_duration(100 * first)),
            maximum_attempts: attempts,
            non_retryable_error_types: vec!["Fatal".to_owned()],
        })
    }

    /// A failure: `type=`, `delay=`, `nonretryable`.
    pub fn failure(&self) -> Failure {
        failure(self.get("type").unwrap_or("Oops"), self.flag("nonretryable"), self.time("delay"))
    }
}

/// A failure of the user's code.
pub fn failure(kind: &str, non_retryable: bool, delay: Option<Nanos>) -> Failure {
    Failure {
        message: kind.to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo {
            r#type: kind.to_owned(),
            non_retryable,
            next_retry_delay: delay.map(nanos_duration),
            ..Default::default()
        })),
        ..Default::default()
    }
}

/// `10s`, `5m`, `2h`, `7ms`, `3ns`.
pub fn nanos(text: &str) -> Nanos {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or_else(|| panic!("{text:?} has no unit"));
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "ns" => 1,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => panic!("{unit:?} is no unit of time"),
    };
    number.parse::<Nanos>().unwrap_or_else(|_| panic!("{number:?} is no number")) * unit
}

/// A payload of this many bytes.
pub fn payloads(bytes: usize) -> Payloads {
    Payloads { payloads: vec![Payload { data: vec![b'x'; bytes].into(), ..Default::default() }] }
}

fn json(text: &str) -> Payload {
    let metadata = BTreeMap::from([("encoding".to_owned(), "json/plain".into())]);
    Payload { metadata, data: format!("{text:?}").into(), ..Default::default() }
}

/// Bytes of the largest payload, and one more.
const TOO_BIG: usize = segno_engine::limits::BLOB_BYTES_MAX + 1;

/// A worker's command.
pub fn command(text: &str) -> Command {
    let words = Words::parse(text);
    let (kind, attributes) = match words.name {
        "activity" => (
            CommandType::ScheduleActivityTask,
            A::ScheduleActivityTaskCommandAttributes(command::ScheduleActivityTaskCommandAttributes {
                activity_id: words.at(0).to_owned(),
                activity_type: Some(ActivityType { name: "A".to_owned() }),
                task_queue: Some(queue(words.get("queue").unwrap_or("q"))),
                input: words.flag("big").then(|| payloads(TOO_BIG)),
                schedule_to_close_timeout: words.duration("schedule-to-close"),
                schedule_to_start_timeout: words.duration("schedule-to-start"),
                start_to_close_timeout: words.duration("start-to-close").or_else(|| {
                    let other = words.get("schedule-to-close").is_some() || words.flag("no-timeout");
                    (!other).then(|| nanos_duration(3600 * SECOND))
                }),
                heartbeat_timeout: words.duration("heartbeat"),
                retry_policy: words.retry(),
                request_eager_execution: words.flag("eager"),
                ..Default::default()
            }),
        ),
        "cancel-activity" => (
            CommandType::RequestCancelActivityTask,
            A::RequestCancelActivityTaskCommandAttributes(command::RequestCancelActivityTaskCommandAttributes {
                scheduled_event_id: words.number(0),
            }),
        ),
        "timer" => (
            CommandType::StartTimer,
            A::StartTimerCommandAttributes(command::StartTimerCommandAttributes {
                timer_id: words.at(0).to_owned(),
                start_to_fire_timeout: Some(nanos_duration(nanos(words.at(1)))),
            }),
        ),
        "cancel-timer" => (
            CommandType::CancelTimer,
            A::CancelTimerCommandAttributes(command::CancelTimerCommandAttributes { timer_id: words.at(0).to_owned() }),
        ),
        "complete" => (
            CommandType::CompleteWorkflowExecution,
            A::CompleteWorkflowExecutionCommandAttributes(command::CompleteWorkflowExecutionCommandAttributes {
                result: words.flag("big").then(|| payloads(TOO_BIG)),
            }),
        ),
        "fail" => (
            CommandType::FailWorkflowExecution,
            A::FailWorkflowExecutionCommandAttributes(command::FailWorkflowExecutionCommandAttributes {
                failure: Some(words.failure()),
            }),
        ),
        "cancel" => {
            (CommandType::CancelWorkflowExecution, A::CancelWorkflowExecutionCommandAttributes(Default::default()))
        }
        "continue" => (
            CommandType::ContinueAsNewWorkflowExecution,
            A::ContinueAsNewWorkflowExecutionCommandAttributes(
                command::ContinueAsNewWorkflowExecutionCommandAttributes {
                    workflow_type: Some(WorkflowType { name: "W".to_owned() }),
                    backoff_start_interval: words.duration("backoff"),
                    task_queue: words.get("queue").map(queue),
                    initial_versioning_behavior: words
                        .get("initial")
                        .map_or(0, |initial| initial.parse().expect("a number")),
                    ..Default::default()
                },
            ),
        ),
        "child" => (
            CommandType::StartChildWorkflowExecution,
            A::StartChildWorkflowExecutionCommandAttributes(command::StartChildWorkflowExecutionCommandAttributes {
                workflow_id: words.at(0).to_owned(),
                workflow_type: Some(WorkflowType { name: "C".to_owned() }),
                namespace: words.get("namespace").unwrap_or_default().to_owned(),
                task_queue: words.get("queue").map(queue),
                versioning_override: versions::wanted(&words),
                parent_close_policy: match words.get("policy") {
                    Some("abandon") => ParentClosePolicy::Abandon,
                    Some("cancel") => ParentClosePolicy::RequestCancel,
                    Some("terminate") => ParentClosePolicy::Terminate,
                    _ => ParentClosePolicy::Unspecified,
                } as i32,
                ..Default::default()
            }),
        ),
        "signal" => (
            CommandType::SignalExternalWorkflowExecution,
            A::SignalExternalWorkflowExecutionCommandAttributes(
                command::SignalExternalWorkflowExecutionCommandAttributes {
                    execution: Some(WorkflowExecution { workflow_id: words.at(0).to_owned(), run_id: String::new() }),
                    signal_name: words.at(1).to_owned(),
                    ..Default::default()
                },
            ),
        ),
        "operation" => (
            CommandType::ScheduleNexusOperation,
            A::ScheduleNexusOperationCommandAttributes(command::ScheduleNexusOperationCommandAttributes {
                endpoint: words.get("endpoint").unwrap_or("pay").to_owned(),
                service: "Payments".to_owned(),
                operation: words.at(0).to_owned(),
                schedule_to_close_timeout: words.duration("schedule-to-close"),
                schedule_to_start_timeout: words.duration("schedule-to-start"),
                start_to_close_timeout: words.duration("start-to-close"),
                ..Default::default()
            }),
        ),
        "cancel-operation" => (
            CommandType::RequestCancelNexusOperation,
            A::RequestCancelNexusOperationCommandAttributes(command::RequestCancelNexusOperationCommandAttributes {
                scheduled_event_id: words.number(0),
            }),
        ),
        "cancel-external" => (
            CommandType::RequestCancelExternalWorkflowExecution,
            A::RequestCancelExternalWorkflowExecutionCommandAttributes(
                command::RequestCancelExternalWorkflowExecutionCommandAttributes {
                    workflow_id: words.at(0).to_owned(),
                    ..Default::default()
                },
            ),
        ),
        "marker" => (
            CommandType::RecordMarker,
            A::RecordMarkerCommandAttributes(command::RecordMarkerCommandAttributes {
                marker_name: words.at(0).to_owned(),
                ..Default::default()
            }),
        ),
        "memo" => (
            CommandType::ModifyWorkflowProperties,
            A::ModifyWorkflowPropertiesCommandAttributes(command::ModifyWorkflowPropertiesCommandAttributes {
                upserted_memo: Some(Memo { fields: BTreeMap::from([(words.at(0).to_owned(), json("value"))]) }),
            }),
        ),
        "search-attribute" => (
            CommandType::UpsertWorkflowSearchAttributes,
            A::UpsertWorkflowSearchAttributesCommandAttributes(
                command::UpsertWorkflowSearchAttributesCommandAttributes {
                    search_attributes: Some(SearchAttributes {
                        indexed_fields: BTreeMap::from([(words.at(0).to_owned(), json("value"))]),
                    }),
                },
            ),
        ),
        other => panic!("{other:?} is no command"),
    };
    Command { command_type: kind as i32, attributes: Some(attributes), ..Default::default() }
}
