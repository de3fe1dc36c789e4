//! Filters as SQL. Values are bound, never spliced.
//!
//! SQL's logic is the filter's: a comparison with null is neither true nor false. Conditions speak of `v`, the run's
//! row in `visibility`.

use rusqlite::types::Value as Sql;
use segno_store::NamespaceKey;
use segno_store::visibility::{Attribute, Comparison, Filter, Kind, Value, words};

use super::functions::to_sql;
use super::write::{OPEN, attribute_entry};

/// A statement in the making and its values.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) values: Vec<Sql>,
    namespace: NamespaceKey,
    /// Attributes so few runs have that those runs can be left out one by one.
    rare: Vec<u32>,
    /// Where the run's key is found.
    key: &'static str,
    /// Whether a condition looked at more than the key.
    pub(super) needs_row: bool,
    /// Whether entries of `attributes` are compared with their checksums.
    checks_entries: bool,
}

/// Fails the statement at an entry of `attributes` that does not match its checksum.
const ENTRY_IS_INTACT: &str = " AND is_intact(a.checksum, a.attribute, a.value, a.ended, a.start_time, a.run_key)";

impl Statement {
    pub(super) fn new(namespace: NamespaceKey, rare: &[u32]) -> Self {
        let (text, values, rare) = (String::new(), Vec::new(), rare.to_vec());
        Self { text, values, namespace, rare, key: "v.run_key", needs_row: false, checks_entries: true }
    }

    /// Takes the run's key from elsewhere than `v`.
    pub(super) fn with_key(mut self, key: &'static str) -> Self {
        self.key = key;
        self
    }

    /// Takes entries of `attributes` as they are: what is only estimated need not be right.
    pub(super) fn without_checks(mut self) -> Self {
        self.checks_entries = false;
        self
    }

    /// Pushes the comparison of an entry of `attributes`, which must be named `a`, with its checksum.
    pub(super) fn check_entry(&mut self) -> &mut Self {
        if self.checks_entries { self.push(ENTRY_IS_INTACT) } else { self }
    }

    pub(super) fn namespace(&self) -> NamespaceKey {
        self.namespace
    }

    pub(super) fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    pub(super) fn bind(&mut self, value: Sql) -> &mut Self {
        self.values.push(value);
        self.text.push('?');
        self.text.push_str(&self.values.len().to_string());
        self
    }

    pub(super) fn bind_int(&mut self, value: i64) -> &mut Self {
        self.bind(Sql::Integer(value))
    }

    pub(super) fn filter(&mut self, filter: &Filter) -> &mut Self {
        match filter {
            Filter::All(parts) => self.joined(parts, " AND ", "1"),
            Filter::Any(parts) => self.joined(parts, " OR ", "0"),
            Filter::Not(part) => self.push("NOT (").filter(part).push(")"),
            Filter::Compare(attribute, comparison, value) => self.compare(*attribute, *comparison, value),
            Filter::In(attribute, values) => self.one_of(*attribute, values),
            Filter::Between(attribute, from, to) => {
                self.push("(").compare(*attribute, Comparison::GreaterOrEqual, from).push(" AND ");
                self.compare(*attribute, Comparison::LessOrEqual, to).push(")")
            }
            Filter::IsNull(attribute) => self.is_null(*attribute),
            Filter::StartsWith(attribute, prefix) => self.starts_with(*attribute, prefix),
            Filter::Like(attribute, pattern) => self.like(*attribute, pattern),
        }
    }

    /// In halves, because SQLite bounds the depth of expressions and joins one after the other are nested.
    fn joined(&mut self, parts: &[Filter], joint: &str, none: &str) -> &mut Self {
        match parts {
            [] => self.push(none),
            [part] => self.push("(").filter(part).push(")"),
            parts => {
                let (left, right) = parts.split_at(parts.len() / 2);
                self.push("(").joined(left, joint, none).push(joint).joined(right, joint, none).push(")")
            }
        }
    }

    fn compare(&mut self, attribute: Attribute, comparison: Comparison, value: &Value) -> &mut Self {
        let sign = match comparison {
            Comparison::Equal => "=",
            Comparison::NotEqual => return self.push("NOT ").compare(attribute, Comparison::Equal, value),
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        };
        match (attribute.kind(), value) {
            (Kind::KeywordList, Value::Text(wanted)) => self.list(attribute, sign, wanted),
            (Kind::Text, Value::Text(_)) if comparison == Comparison::Equal => {
                self.push("ifnull(has_word(").column(attribute).push(", ").bind(to_sql(value)).push("), 0)")
            }
            (Kind::Text, Value::Text(_)) => {
                self.push("ifnull(").column(attribute).push(sign).bind(to_sql(value)).push(", 0)")
            }
            (Kind::KeywordList | Kind::Text, _) => self.push("NULL"),
            _ if !fits_kind(attribute.kind(), value) => self.push("NULL"),
            _ => self.push("(").column(attribute).push(" ").push(sign).push(" ").bind(to_sql(value)).push(")"),
        }
    }

    fn one_of(&mut self, attribute: Attribute, values: &[Value]) -> &mut Self {
        let kind = attribute.kind();
        let plain = !matches!(kind, Kind::KeywordList | Kind::Text);
        if !plain || values.is_empty() || !values.iter().all(|value| fits_kind(kind, value)) {
            let each = |value: &Value| Filter::Compare(attribute, Comparison::Equal, value.clone());
            let each: Vec<_> = values.iter().map(each).collect();
            return self.joined(&each, " OR ", "0");
        }
        self.push("(").column(attribute).push(" IN (");
        for (place, value) in values.iter().enumerate() {
            self.push(if place == 0 { "" } else { ", " }).bind(to_sql(value));
        }
        self.push("))")
    }

    fn is_null(&mut self, attribute: Attribute) -> &mut Self {
        match attribute {
            Attribute::Numbered(number, _) if self.rare.contains(&number) => {
                let (entry, key) = (attribute_entry(self.namespace, number), self.key);
                self.push("(").push(key).push(" NOT IN (SELECT a.run_key FROM attributes a WHERE a.attribute = ");
                self.bind_int(entry).check_entry().push("))")
            }
            attribute => self.push("(").column(attribute).push(" IS NULL)"),
        }
    }

    fn starts_with(&mut self, attribute: Attribute, prefix: &str) -> &mut Self {
        match attribute.kind() {
            Kind::KeywordList => self.list(attribute, "prefix", prefix),
            Kind::Text => self.push("ifnull(").has_prefix(attribute, prefix).push(", 0)"),
            Kind::Keyword => self.has_prefix(attribute, prefix),
            _ => self.push("NULL"),
        }
    }

    /// A range, so that an index can serve it.
    fn has_prefix(&mut self, attribute: Attribute, prefix: &str) -> &mut Self {
        self.push("(").column(attribute).push(" >= ").bind(Sql::Text(prefix.to_owned()));
        if let Some(end) = words::after_prefix(prefix) {
            self.push(" AND ").column(attribute).push(" < ").bind(Sql::Text(end));
        }
        self.push(")")
    }

    fn like(&mut self, attribute: Attribute, pattern: &str) -> &mut Self {
        match attribute.kind() {
            Kind::KeywordList => self.list(attribute, "pattern", pattern),
            Kind::Text => self.push("ifnull(").has_pattern(attribute, pattern).push(", 0)"),
            Kind::Keyword => self.has_pattern(attribute, pattern),
            _ => self.push("NULL"),
        }
    }

    fn has_pattern(&mut self, attribute: Attribute, pattern: &str) -> &mut Self {
        self.push("fits(").column(attribute).push(", ").bind(Sql::Text(pattern.to_owned())).push(")")
    }

    fn list(&mut self, attribute: Attribute, test: &str, wanted: &str) -> &mut Self {
        let Attribute::Numbered(number, _) = attribute else { return self.push("NULL") };
        self.needs_row = true;
        self.push("list_fits(v.attributes, ").bind_int(number.into()).push(", ").bind(Sql::Text(test.to_owned()));
        self.push(", ").bind(Sql::Text(wanted.to_owned())).push(")")
    }

    /// The value of an attribute.
    pub(super) fn column(&mut self, attribute: Attribute) -> &mut Self {
        self.needs_row = true;
        if let Attribute::Numbered(number, _) = attribute {
            return self.push("attribute_value(v.attributes, ").bind_int(number.into()).push(")");
        }
        self.push(match attribute {
            Attribute::WorkflowId => "v.workflow_id",
            Attribute::RunId => "v.run_id",
            Attribute::WorkflowType => "v.workflow_type",
            Attribute::ExecutionStatus => "v.status",
            Attribute::StartTime => "v.start_time",
            Attribute::ExecutionTime => "v.execution_time",
            Attribute::CloseTime => "nullif(v.ended, 9223372036854775807)",
            Attribute::ExecutionDuration => "(nullif(v.ended, 9223372036854775807) - v.execution_time)",
            Attribute::TaskQueue => "v.task_queue",
            Attribute::HistoryLength => "v.history_length",
            Attribute::HistorySizeBytes => "v.history_bytes",
            Attribute::StateTransitionCount => "v.transitions",
            Attribute::ParentWorkflowId => "v.parent_workflow_id",
            Attribute::ParentRunId => "v.parent_run_id",
            Attribute::RootWorkflowId => "ifnull(v.root_workflow_id, v.workflow_id)",
            Attribute::RootRunId => "ifnull(v.root_run_id, v.run_id)",
            Attribute::ActivityAttempts => "v.activity_attempts",
            Attribute::ActivityLastFailure => "v.activity_failure",
            Attribute::WorkflowTaskAttempts => "v.task_attempts",
            Attribute::WorkflowTaskLastFailure => "v.task_failure",
            Attribute::Numbered(..) => "NULL",
        })
    }

    /// The value that an order goes by, in a list that began at `as_of`: what a close since then set is not seen.
    pub(super) fn column_as_of(&mut self, attribute: Attribute, as_of: i64) -> &mut Self {
        if attribute.is_set_by_close() {
            self.push("CASE WHEN v.ended <= ").bind_int(as_of).push(" THEN ").column(attribute).push(" END")
        } else if attribute == Attribute::ExecutionStatus {
            self.push("CASE WHEN v.ended > ").bind_int(as_of).push(" AND v.ended < ").bind_int(OPEN);
            self.push(" THEN 1 ELSE v.status END")
        } else {
            self.column(attribute)
        }
    }
}

const _: () = assert!(OPEN == 9_223_372_036_854_775_807);

/// Whether a value can be compared with values of a kind. Others would be converted by SQLite.
pub(super) fn fits_kind(kind: Kind, value: &Value) -> bool {
    match value {
        Value::Text(_) => matches!(kind, Kind::Keyword | Kind::KeywordList | Kind::Text),
        Value::Int(_) => matches!(kind, Kind::Int | Kind::Double | Kind::Datetime),
        Value::Double(_) => matches!(kind, Kind::Int | Kind::Double | Kind::Datetime),
        Value::Bool(_) => kind == Kind::Bool,
        Value::List(_) => false,
    }
}
