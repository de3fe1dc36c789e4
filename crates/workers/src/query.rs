//! Filters of lists of workers: conditions on the fields of a heartbeat, joined by AND and OR.
//!
//! As in Temporal, only syntax errors are refused. A condition on an unknown field, or of the wrong type, matches no
//! worker.

use segno_proto::{Nanos, timestamp_nanos, worker::WorkerHeartbeat};
use segno_store::visibility::{
    Comparison,
    parse::{self, Test, Tree, WrittenValue},
};

/// Positions in a query are reported as if it were part of this statement.
const STATEMENT: &str = "select * from table1 where ";

/// A query that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadWorkerQuery(String);

/// A parsed query; the default fits every worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerQuery {
    condition: Option<Tree>,
}

impl WorkerQuery {
    /// Parses a query. An empty one fits every worker.
    pub fn parse(text: &str) -> Result<Self, BadWorkerQuery> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let trimmed = text.trim();
        let lower = trimmed.to_lowercase();
        if lower.starts_with("where ") || lower.starts_with("select ") {
            return Err(BadWorkerQuery(format!("invalid filter: {trimmed}")));
        }
        let malformed = |why: String| BadWorkerQuery(format!("malformed query: {why}"));
        if trimmed.is_empty() {
            return Err(malformed("syntax error at position 1".to_owned()));
        }
        let query = parse::parse(trimmed).map_err(|error| {
            malformed(error.in_statement(STATEMENT).unwrap_or_else(|| parse::BadFilter::from(error).to_string()))
        })?;
        if query.limit_at.is_some() {
            return Err(BadWorkerQuery("operation is not supported: 'limit' clause".to_owned()));
        }
        Ok(Self { condition: query.condition })
    }

    /// Whether a worker fits.
    pub fn fits(&self, worker: &WorkerHeartbeat) -> bool {
        self.condition.as_ref().is_none_or(|condition| fits(condition, worker).unwrap_or(false))
    }
}

/// None if it cannot be answered; then no worker fits. Conditions after the one that decides are not evaluated.
fn fits(condition: &Tree, worker: &WorkerHeartbeat) -> Option<bool> {
    let first = |parts: &[Tree], decisive: bool| {
        let mut answers = parts.iter().map(|part| fits(part, worker));
        answers.find(|answer| *answer != Some(!decisive)).unwrap_or(Some(!decisive))
    };
    match condition {
        Tree::All(parts) => first(parts, false),
        Tree::Any(parts) => first(parts, true),
        Tree::Condition { name, negated, test } => match text_field(&name.text, worker) {
            Some(text) => text_fits(&text, *negated, test),
            None => time_fits(time_field(&name.text, worker)?, *negated, test),
        },
        Tree::Not(_) | Tree::NotAFilter(_) => None,
    }
}

fn text_field(name: &str, worker: &WorkerHeartbeat) -> Option<String> {
    let version = worker.deployment_version.as_ref();
    let text = match name {
        "WorkerInstanceKey" => worker.worker_instance_key.clone(),
        "WorkerIdentity" => worker.worker_identity.clone(),
        "HostName" => worker.host_info.as_ref().map(|host| host.host_name.clone()).unwrap_or_default(),
        "TaskQueue" => worker.task_queue.clone(),
        "DeploymentName" => version.map(|version| version.deployment_name.clone()).unwrap_or_default(),
        "BuildId" => version.map(|version| version.build_id.clone()).unwrap_or_default(),
        "SdkName" => worker.sdk_name.clone(),
        "SdkVersion" => worker.sdk_version.clone(),
        "WorkerStatus" => format!("{:?}", worker.status()),
        // A keyword of Temporal's parser, so case does not matter.
        _ if name.eq_ignore_ascii_case("status") => format!("{:?}", worker.status()),
        _ => return None,
    };
    Some(text)
}

/// None for an unknown field, nothing in it for a time that is not set.
fn time_field(name: &str, worker: &WorkerHeartbeat) -> Option<Option<Nanos>> {
    let time = match name {
        "StartTime" => worker.start_time.as_ref(),
        "HeartbeatTime" => worker.heartbeat_time.as_ref(),
        _ => return None,
    };
    Some(time.map(timestamp_nanos))
}

fn text_fits(text: &str, negated: bool, test: &Test) -> Option<bool> {
    let wanted = |value: &WrittenValue| match value {
        WrittenValue::Text { plain, .. } if !plain.is_empty() => Some(plain.clone()),
        _ => None,
    };
    let fits = match test {
        Test::IsNull => text.is_empty(),
        Test::Compare(Comparison::Equal, literal) => text == wanted(&literal.value)?,
        Test::Compare(Comparison::NotEqual, literal) => text != wanted(&literal.value)?,
        Test::StartsWith(literal) => text.starts_with(&wanted(&literal.value)?),
        _ => return None,
    };
    Some(fits != negated)
}

fn time_fits(time: Option<Nanos>, negated: bool, test: &Test) -> Option<bool> {
    match test {
        Test::IsNull => Some(time.is_none() != negated),
        Test::Between(from, to) => {
            let (from, to) = (nanos(&from.value)?, nanos(&to.value)?);
            Some(time.is_some_and(|time| (from <= time && time <= to) != negated))
        }
        Test::Compare(comparison, wanted) => Some(comparison.holds(time.unwrap_or(0).cmp(&nanos(&wanted.value)?))),
        _ => None,
    }
}

fn nanos(value: &WrittenValue) -> Option<Nanos> {
    match value {
        WrittenValue::Int(nanos) => Some(*nanos),
        WrittenValue::Text { plain, .. } => plain.parse().ok().map(|time| timestamp_nanos(&time)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::{enums::WorkerStatus, nanos_timestamp};

    use super::*;

    fn worker() -> WorkerHeartbeat {
        WorkerHeartbeat {
            worker_instance_key: "key".into(),
            task_queue: "it's".into(),
            status: WorkerStatus::ShuttingDown as i32,
            start_time: Some(nanos_timestamp(1_700_000_000 * 1_000_000_000)),
            ..Default::default()
        }
    }

    #[test]
    fn conditions_look_at_heartbeats() {
        for (query, fits) in [
            ("", true),
            ("TaskQueue = 'it''s'", true),
            ("TaskQueue = \"it's\" and WorkerInstanceKey != 'key'", false),
            ("TaskQueue = 'other' OR (Status = 'ShuttingDown' AND HostName IS NULL)", true),
            ("WorkerStatus = 'Running'", false),
            ("WorkerInstanceKey not starts_with 'k'", false),
            ("StartTime >= '2023-11-14T22:13:20Z'", true),
            ("StartTime between '2023-01-01T00:00:00Z' and '2024-01-01T00:00:00Z'", true),
            ("StartTime not between '2023-01-01T00:00:00Z' and '2024-01-01T00:00:00Z'", false),
            ("HeartbeatTime is not null", false),
            // Not answered, so no worker fits.
            ("NoSuchField != 'x'", false),
            ("taskqueue is null", false),
            ("WorkerInstanceKey > 'a'", false),
            ("WorkerInstanceKey in ('key')", false),
            ("not WorkerInstanceKey = 'x'", false),
            ("WorkerInstanceKey", false),
            ("'key' = WorkerInstanceKey", false),
            ("WorkerInstanceKey = 5", false),
            ("WorkerInstanceKey != ''", false),
            ("WorkerInstanceKey != other", false),
            ("WorkerInstanceKey like 'k%'", false),
            ("StartTime starts_with '2023'", false),
            ("StartTime = 'yesterday'", false),
            // What cannot be answered matters only if it is reached.
            ("WorkerInstanceKey = 'key' or TaskQueue", true),
            ("TaskQueue or WorkerInstanceKey = 'key'", false),
            ("TaskQueue = 'other' and TaskQueue = tq or WorkerInstanceKey = 'key'", true),
        ] {
            assert_eq!(WorkerQuery::parse(query).map(|query| query.fits(&worker())), Ok(fits), "{query}");
        }
    }

    #[test]
    fn what_cannot_be_parsed_is_refused_with_its_place() {
        for (query, text) in [
            ("TaskQueue = ", "malformed query: syntax error at position 39"),
            ("TaskQueue='tq' extra", "malformed query: syntax error at position 48 near 'extra'"),
            ("TaskQueue='tq", "malformed query: syntax error at position 41 near 'tq'"),
            ("  ", "malformed query: syntax error at position 1"),
            ("a b c", "malformed query: syntax error at position 31 near 'b'"),
            ("and TaskQueue = 'tq'", "malformed query: syntax error at position 31 near 'and'"),
            ("(TaskQueue = 'tq'", "malformed query: syntax error at position 45"),
            ("TaskQueue = 'tq')", "malformed query: syntax error at position 45"),
            ("TaskQueue = 'tq' and", "malformed query: syntax error at position 48"),
            ("StartTime between '2023-01-01T00:00:00Z'", "malformed query: syntax error at position 68"),
            ("TaskQueue == 'x'", "malformed query: syntax error at position 40"),
            ("TaskQueue='tq' limit 1", "operation is not supported: 'limit' clause"),
            ("where x='y'", "invalid filter: where x='y'"),
        ] {
            assert_eq!(WorkerQuery::parse(query), Err(BadWorkerQuery(text.to_owned())), "{query}");
        }
        assert!(WorkerQuery::parse(&"(".repeat(100_000)).is_err());
    }
}
