//! Filters as SQL. Values are bound, never spliced.
//!
//! SQL's logic is the filter's: a comparison with null is neither true nor false. SQL cannot express everything with
//! the filter's exact meaning (words of a text, patterns with `_`, an integer against a double): such parts are left to
//! the reader of the rows, who evaluates them with [`Filter::evaluate`].
//!
//! What holds: a run for which the whole filter is true is in the rows of [`Condition::of`]; if no part is left over,
//! no other run is.

use segno_store::NamespaceKey;
use segno_store::visibility::{Attribute, Comparison, Filter, Kind, Value, words};
use tokio_postgres::types::ToSql;

use crate::text;

/// A value to bind.
pub(crate) type Parameter = Box<dyn ToSql + Sync + Send>;

/// Longer filters are evaluated run by run: a statement has at most 65,535 parameters, and planning a long one takes long.
const PARTS_MAX: usize = 200;

/// SQL in the making.
#[derive(Default)]
pub(crate) struct Sql {
    pub(crate) text: String,
    pub(crate) parameters: Vec<Parameter>,
}

impl Sql {
    pub(crate) fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    pub(crate) fn bind(&mut self, parameter: Parameter, kind: &str) -> &mut Self {
        self.parameters.push(parameter);
        let number = self.parameters.len();
        self.text.push_str(&format!("${number}::{kind}"));
        self
    }

    pub(crate) fn bind_int(&mut self, value: i64) -> &mut Self {
        self.bind(Box::new(value), "int8")
    }

    pub(crate) fn borrowed(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.parameters.iter().map(|parameter| &**parameter as &(dyn ToSql + Sync)).collect()
    }
}

/// The part of a filter that SQL answers.
pub(crate) struct Condition<'a> {
    exact: Vec<&'a Filter>,
    /// Parts that must be evaluated for each run.
    pub(crate) rest: Vec<&'a Filter>,
}

impl<'a> Condition<'a> {
    pub(crate) fn of(filter: &'a Filter) -> Self {
        let mut parts = Vec::new();
        flatten(filter, &mut parts);
        let (mut exact, mut rest, mut size) = (Vec::new(), Vec::new(), 0);
        for part in parts {
            size += weight(part);
            if size <= PARTS_MAX && push(&mut Sql::default(), part) { exact.push(part) } else { rest.push(part) }
        }
        Self { exact, rest }
    }

    /// Pushes ` AND` every part.
    pub(crate) fn push(&self, sql: &mut Sql, namespace: NamespaceKey) {
        for part in &self.exact {
            sql.push(" AND (");
            push(sql, part);
            sql.push(")");
            push_entries(sql, namespace, part);
        }
    }
}

fn flatten<'a>(filter: &'a Filter, parts: &mut Vec<&'a Filter>) {
    match filter {
        Filter::All(inner) => inner.iter().for_each(|part| flatten(part, parts)),
        part => parts.push(part),
    }
}

fn weight(filter: &Filter) -> usize {
    match filter {
        Filter::All(parts) | Filter::Any(parts) => 1 + parts.iter().map(weight).sum::<usize>(),
        Filter::Not(part) => 1 + weight(part),
        Filter::In(_, values) => 1 + values.len(),
        _ => 1,
    }
}

/// A second way to the runs of a part that must be true: by the entries of an attribute, which an index has in order.
fn push_entries(sql: &mut Sql, namespace: NamespaceKey, part: &Filter) {
    let Filter::Compare(Attribute::Numbered(number, kind), Comparison::Equal, value) = part else { return };
    if *kind == Kind::Text {
        return;
    }
    let Some(entry) = text::entry(value) else { return };
    sql.push(" AND v.run_key IN (SELECT a.run_key FROM segno.attributes a WHERE a.attribute = ");
    sql.bind_int(text::attribute_entry(namespace.0, *number)).push(" AND a.value = ");
    sql.bind(Box::new(entry), "bytea").push(")");
}

/// Pushes a filter; `false` if SQL cannot say it, and then what was pushed is of no use.
fn push(sql: &mut Sql, filter: &Filter) -> bool {
    match filter {
        Filter::All(parts) => joined(sql, parts, " AND ", "true"),
        Filter::Any(parts) => joined(sql, parts, " OR ", "false"),
        Filter::Not(part) => {
            sql.push("NOT (");
            let said = push(sql, part);
            sql.push(")");
            said
        }
        Filter::Compare(attribute, comparison, value) => compare(sql, *attribute, *comparison, value),
        Filter::In(attribute, values) => {
            let each = |value: &Value| Filter::Compare(*attribute, Comparison::Equal, value.clone());
            joined(sql, &values.iter().map(each).collect::<Vec<_>>(), " OR ", "false")
        }
        Filter::Between(attribute, from, to) => {
            sql.push("(");
            let said = compare(sql, *attribute, Comparison::GreaterOrEqual, from);
            sql.push(" AND ");
            let said = compare(sql, *attribute, Comparison::LessOrEqual, to) && said;
            sql.push(")");
            said
        }
        Filter::IsNull(attribute) => {
            match attribute {
                Attribute::Numbered(number, _) => {
                    sql.push("(v.attributes -> ").bind(Box::new(number.to_string()), "text").push(") IS NULL")
                }
                attribute => sql.push("(").push(column(*attribute).0).push(") IS NULL"),
            };
            true
        }
        Filter::StartsWith(attribute, prefix) => starts_with(sql, *attribute, prefix),
        Filter::Like(attribute, pattern) => like(sql, *attribute, pattern),
    }
}

fn joined(sql: &mut Sql, parts: &[Filter], joint: &str, none: &str) -> bool {
    if parts.is_empty() {
        sql.push(none);
    }
    let mut said = true;
    for (place, part) in parts.iter().enumerate() {
        sql.push(if place == 0 { "(" } else { joint }).push("(");
        said &= push(sql, part);
        sql.push(")");
    }
    if !parts.is_empty() {
        sql.push(")");
    }
    said
}

fn compare(sql: &mut Sql, attribute: Attribute, comparison: Comparison, value: &Value) -> bool {
    let sign = match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => {
            sql.push("NOT (");
            let said = compare(sql, attribute, Comparison::Equal, value);
            sql.push(")");
            return said;
        }
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    };
    match (attribute.kind(), value) {
        // An item of a list that fits is enough.
        (Kind::KeywordList, Value::Text(wanted)) if comparison == Comparison::Equal => {
            let Attribute::Numbered(number, _) = attribute else { return false };
            sql.push("coalesce((v.attributes -> ").bind(Box::new(number.to_string()), "text").push(") ? ");
            sql.bind(Box::new(text::escape(wanted).into_owned()), "text").push(", false)");
            true
        }
        (Kind::KeywordList | Kind::Text, _) => false,
        (_, value) => {
            let Some((parameter, kind)) = parameter(attribute, value) else { return false };
            push_value(sql, attribute);
            sql.push(" ").push(sign).push(" ").bind(parameter, kind);
            true
        }
    }
}

/// A range, so that an index can serve it.
fn starts_with(sql: &mut Sql, attribute: Attribute, prefix: &str) -> bool {
    if attribute.kind() != Kind::Keyword {
        return false;
    }
    let Some((from, kind)) = parameter(attribute, &Value::Text(prefix.to_owned())) else { return false };
    sql.push("(");
    push_value(sql, attribute);
    sql.push(" >= ").bind(from, kind);
    if let Some(end) = words::after_prefix(prefix) {
        let Some((to, kind)) = parameter(attribute, &Value::Text(end)) else { return false };
        sql.push(" AND ");
        push_value(sql, attribute);
        sql.push(" < ").bind(to, kind);
    }
    sql.push(")");
    true
}

fn like(sql: &mut Sql, attribute: Attribute, pattern: &str) -> bool {
    // Two stored characters may stand for one, and in bytes `_` would be a byte.
    let plain = !pattern.contains(['_', '\0', '\u{1}', '\u{2}']) && !pattern.ends_with('\\');
    if attribute.kind() != Kind::Keyword || !plain {
        return false;
    }
    let kind = match attribute {
        Attribute::Numbered(..) => "text",
        attribute => column(attribute).1,
    };
    let pattern: Parameter = match kind {
        "text" => Box::new(pattern.to_owned()),
        "bytea" => Box::new(pattern.as_bytes().to_vec()),
        _ => return false,
    };
    push_value(sql, attribute);
    sql.push(" LIKE ").bind(pattern, kind);
    true
}

/// Pushes the value of an attribute that is not a list or a text to search.
pub(crate) fn push_value(sql: &mut Sql, attribute: Attribute) {
    match attribute {
        Attribute::Numbered(number, kind) => {
            let number = |sql: &mut Sql| {
                sql.push("(v.attributes -> ").bind(Box::new(number.to_string()), "text").push(")");
            };
            // What has another type than the attribute says has no value.
            let (wanted, before, after) = match kind {
                Kind::Double => ("object", "(", " ->> 'double')::float8"),
                Kind::Bool => ("boolean", "(", " #>> '{}')::bool"),
                Kind::Int | Kind::Datetime => ("number", "(", " #>> '{}')::int8"),
                Kind::Keyword | Kind::Text => ("string", "(", " #>> '{}') COLLATE \"C\""),
                Kind::KeywordList => ("array", "", ""),
            };
            if kind == Kind::KeywordList {
                sql.push("(CASE WHEN jsonb_typeof(");
                number(sql);
                sql.push(") = 'array' THEN ARRAY(SELECT i.item FROM jsonb_array_elements_text(");
                number(sql);
                sql.push(") WITH ORDINALITY AS i(item, place) ORDER BY i.place) END COLLATE \"C\")");
                return;
            }
            sql.push("(CASE WHEN jsonb_typeof(");
            number(sql);
            sql.push(") = '").push(wanted).push("' THEN ").push(before);
            number(sql);
            sql.push(after).push(" END)");
        }
        attribute => {
            sql.push(column(attribute).0);
        }
    }
}

/// A value as a parameter that can be compared with an attribute; `None` if SQL would compare otherwise than the filter.
pub(crate) fn parameter(attribute: Attribute, value: &Value) -> Option<(Parameter, &'static str)> {
    let kind = match attribute {
        Attribute::Numbered(_, kind) => match kind {
            Kind::Keyword | Kind::Text => "text",
            Kind::KeywordList => "text[]",
            Kind::Int | Kind::Datetime => "int8",
            Kind::Double => "float8",
            Kind::Bool => "bool",
        },
        attribute => column(attribute).1,
    };
    let parameter: Parameter = match (kind, value) {
        ("text", Value::Text(value)) => Box::new(text::escape(value).into_owned()),
        ("bytea", Value::Text(value)) => Box::new(value.as_bytes().to_vec()),
        ("uuid", Value::Text(value)) => Box::new(text::run_id(value)?),
        ("int8", Value::Int(value)) => Box::new(*value),
        ("float8", Value::Double(value)) => Box::new(*value),
        ("bool", Value::Bool(value)) => Box::new(*value),
        ("text[]", Value::List(items)) => {
            Box::new(items.iter().map(|item| text::escape(item).into_owned()).collect::<Vec<_>>())
        }
        _ => return None,
    };
    Some((parameter, kind))
}

/// A fact of the server's as SQL, and the type it is compared as.
pub(crate) fn column(attribute: Attribute) -> (&'static str, &'static str) {
    match attribute {
        Attribute::WorkflowId => ("v.workflow_id", "bytea"),
        Attribute::RunId => ("v.run_id", "uuid"),
        Attribute::WorkflowType => ("v.workflow_type", "text"),
        Attribute::ExecutionStatus => ("v.status", "int8"),
        Attribute::StartTime => ("v.start_time", "int8"),
        Attribute::ExecutionTime => ("v.execution_time", "int8"),
        Attribute::CloseTime => ("nullif(v.ended, 9223372036854775807)", "int8"),
        // The difference may not fit.
        Attribute::ExecutionDuration => (
            "(CASE WHEN v.ended < 9223372036854775807 THEN least(greatest(v.ended::numeric - v.execution_time, \
             -9223372036854775808), 9223372036854775807)::int8 END)",
            "int8",
        ),
        Attribute::TaskQueue => ("v.task_queue", "text"),
        Attribute::HistoryLength => ("v.history_length", "int8"),
        Attribute::HistorySizeBytes => ("v.history_bytes", "int8"),
        Attribute::StateTransitionCount => ("v.transitions", "int8"),
        Attribute::ParentWorkflowId => ("v.parent_workflow_id", "bytea"),
        Attribute::ParentRunId => ("v.parent_run_id", "uuid"),
        Attribute::RootWorkflowId => ("coalesce(v.root_workflow_id, v.workflow_id)", "bytea"),
        Attribute::RootRunId => ("coalesce(v.root_run_id, v.run_id)", "uuid"),
        Attribute::ActivityAttempts => ("v.activity_attempts", "int8"),
        Attribute::ActivityLastFailure => ("v.activity_failure", "text"),
        Attribute::WorkflowTaskAttempts => ("v.task_attempts", "int8"),
        Attribute::WorkflowTaskLastFailure => ("v.task_failure", "text"),
        Attribute::Numbered(..) => ("NULL", "text"),
    }
}
