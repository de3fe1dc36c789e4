//! Indexes by which runs can be found without reading all of them.
//!
//! What holds: every run for which a part of a filter is true is in one of its sources.

use rusqlite::types::Value as Sql;
use segno_store::NamespaceKey;
use segno_store::visibility::{Attribute, Comparison, Filter, Kind, Value, key_in_run_id, words};

use super::functions::to_sql;
use super::sql::{Statement, fits_kind};
use super::write::attribute_entry;
use segno_store::rows;

/// More sources than this are not followed one by one.
pub(super) const SOURCES_MAX: usize = 64;

/// A set of runs that an index gives.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// All runs of the namespace.
    Everything,
    /// The same, by reading all runs of all namespaces in the order in which they lie.
    Table,
    /// Runs with a value of an attribute.
    Attribute(i64, Sql),
    /// Runs with an attribute between two values, and whether it is a list.
    AttributeRange(i64, Range, bool),
    Type(String),
    TypeRange(Range),
    /// Runs with a status above 2.
    Status(i64),
    WorkflowId(String),
    WorkflowIdRange(Range),
    Run(i64),
    Parent(String),
    /// Runs with an activity or a workflow task that is being retried.
    Retrying,
}

/// From a value and to a value, each with its comparison.
#[derive(Clone, Debug, Default)]
pub(super) struct Range {
    pub(super) from: Option<(&'static str, Sql)>,
    pub(super) to: Option<(&'static str, Sql)>,
}

impl Range {
    pub(super) fn narrow(&mut self, comparison: Comparison, value: &Value) {
        let value = to_sql(value);
        match comparison {
            Comparison::Equal => (self.from, self.to) = (Some((">=", value.clone())), Some(("<=", value))),
            Comparison::Less => self.to = Some(("<", value)),
            Comparison::LessOrEqual => self.to = Some(("<=", value)),
            Comparison::Greater => self.from = Some((">", value)),
            Comparison::GreaterOrEqual => self.from = Some((">=", value)),
            Comparison::NotEqual => {}
        }
    }

    fn of_prefix(prefix: &str) -> Self {
        let text = |text: String| Sql::Text(text);
        Self {
            from: Some((">=", text(prefix.to_owned()))),
            to: words::after_prefix(prefix).map(|end| ("<", text(end))),
        }
    }

    /// Pushes ` AND` each limit.
    pub(super) fn push<'a>(&self, statement: &'a mut Statement, column: &str) -> &'a mut Statement {
        for (sign, value) in self.from.iter().chain(&self.to) {
            statement.push(" AND ").push(column).push(" ").push(sign).push(" ").bind(value.clone());
        }
        statement
    }
}

impl Source {
    /// Whether an index has its runs in the default order.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self, Self::Everything | Self::Attribute(..) | Self::Type(_) | Self::Status(_))
    }

    /// The table whose columns tell the order.
    pub(super) fn alias(&self) -> &'static str {
        if matches!(self, Self::Attribute(..)) || matches!(self, Self::AttributeRange(_, _, false)) { "a" } else { "v" }
    }

    /// Pushes `FROM` and `WHERE`; the run's row is `v`.
    pub(super) fn push_rows(&self, statement: &mut Statement, namespace: NamespaceKey) {
        if self.alias() == "a" {
            statement.push(" FROM attributes a CROSS JOIN visibility v ON v.run_key = a.run_key WHERE ");
        } else {
            statement.push(" FROM visibility v ").push(match self {
                Self::Everything => "INDEXED BY visibility_order",
                Self::Type(_) | Self::TypeRange(_) => "INDEXED BY visibility_type",
                Self::Status(_) => "INDEXED BY visibility_status",
                Self::WorkflowId(_) | Self::WorkflowIdRange(_) => "INDEXED BY visibility_workflow_id",
                Self::Parent(_) => "INDEXED BY visibility_parent",
                Self::Retrying => "INDEXED BY visibility_retrying",
                // By key, or from front to back.
                Self::Table | Self::Run(_) | Self::Attribute(..) | Self::AttributeRange(..) => "NOT INDEXED",
            });
            statement.push(" WHERE v.namespace = ").bind_int(namespace.0.into()).push(" AND ");
        }
        self.push_condition(statement);
    }

    /// The same without the run's row if it is not needed to find the runs.
    pub(super) fn push_keys(&self, statement: &mut Statement) {
        match self {
            Self::Attribute(..) | Self::AttributeRange(..) => {
                statement.push(" FROM attributes a WHERE ");
                self.push_entries(statement);
            }
            other => other.push_rows(statement, statement.namespace()),
        }
    }

    fn push_condition<'a>(&self, statement: &'a mut Statement) -> &'a mut Statement {
        match self {
            Self::Everything | Self::Table => statement.push("1"),
            Self::Attribute(..) | Self::AttributeRange(_, _, false) => self.push_entries(statement),
            Self::AttributeRange(..) => {
                // Several items of a list may be in the range.
                statement.push("v.run_key IN (SELECT a.run_key FROM attributes a WHERE ");
                self.push_entries(statement).push(")")
            }
            Self::Type(name) => statement.push("v.workflow_type = ").bind(Sql::Text(name.clone())),
            Self::TypeRange(range) => range.push(statement.push("1"), "v.workflow_type"),
            // The first half is what the index has.
            Self::Status(status) => statement.push("v.status > 2 AND v.status = ").bind_int(*status),
            Self::WorkflowId(id) => statement.push("v.workflow_id = ").bind(Sql::Text(id.clone())),
            Self::WorkflowIdRange(range) => range.push(statement.push("1"), "v.workflow_id"),
            Self::Run(row) => statement.push("v.run_key = ").bind_int(*row),
            Self::Parent(id) => statement.push("v.parent_workflow_id = ").bind(Sql::Text(id.clone())),
            Self::Retrying => statement.push("(v.activity_attempts IS NOT NULL OR v.task_attempts IS NOT NULL)"),
        }
    }

    fn push_entries<'a>(&self, statement: &'a mut Statement) -> &'a mut Statement {
        let statement = match self {
            Self::Attribute(entry, value) => {
                statement.push("a.attribute = ").bind_int(*entry).push(" AND a.value = ").bind(value.clone())
            }
            Self::AttributeRange(entry, range, _) => {
                range.push(statement.push("a.attribute = ").bind_int(*entry), "a.value")
            }
            _ => return statement,
        };
        statement.check_entry()
    }
}

/// The sources of a part, and whether they hold nothing else.
pub(super) fn sources_of(namespace: NamespaceKey, filter: &Filter) -> Option<(Vec<Source>, bool)> {
    let one = |source: Source, exact| {
        let exact = exact && !matches!(source, Source::Retrying);
        Some((vec![source], exact))
    };
    match filter {
        Filter::Compare(attribute, Comparison::Equal, value) => equal(namespace, *attribute, value),
        Filter::Compare(attribute, comparison, value) => {
            let mut range = Range::default();
            range.narrow(*comparison, value);
            // A text that is absent has no words, so it is not equal.
            let fits = attribute.kind() != Kind::Text && fits_kind(attribute.kind(), value);
            one(ranged(namespace, *attribute, range).filter(|_| fits)?, *comparison != Comparison::NotEqual)
        }
        Filter::Between(attribute, from, to) => {
            let mut range = Range::default();
            range.narrow(Comparison::GreaterOrEqual, from);
            range.narrow(Comparison::LessOrEqual, to);
            let fits = fits_kind(attribute.kind(), from) && fits_kind(attribute.kind(), to);
            one(ranged(namespace, *attribute, range).filter(|_| fits)?, true)
        }
        Filter::In(attribute, values) => union(values.iter().map(|value| equal(namespace, *attribute, value))),
        Filter::Any(parts) => union(parts.iter().map(|part| sources_of(namespace, part))),
        Filter::All(parts) => {
            let found = parts.iter().filter_map(|part| sources_of(namespace, part));
            let ordered = |sources: &[Source]| sources.iter().all(Source::is_ordered);
            let (sources, _) = found.min_by_key(|(sources, _)| (ordered(sources), sources.len()))?;
            Some((sources, false))
        }
        Filter::Not(part) => match &**part {
            Filter::IsNull(attribute) => one(ranged(namespace, *attribute, Range::default())?, true),
            _ => None,
        },
        Filter::StartsWith(attribute, prefix) => prefixed(namespace, *attribute, prefix, true),
        Filter::Like(attribute, pattern) => prefixed(namespace, *attribute, &words::pattern_prefix(pattern), false),
        Filter::IsNull(_) => None,
    }
}

fn union(parts: impl Iterator<Item = Option<(Vec<Source>, bool)>>) -> Option<(Vec<Source>, bool)> {
    let (mut all, mut all_exact) = (Vec::new(), true);
    for part in parts {
        let (sources, exact) = part?;
        all.extend(sources);
        all_exact &= exact;
        if all.len() > SOURCES_MAX {
            return None;
        }
    }
    Some((all, all_exact))
}

fn equal(namespace: NamespaceKey, attribute: Attribute, value: &Value) -> Option<(Vec<Source>, bool)> {
    let one = |source| Some((vec![source], true));
    match (attribute, value) {
        (Attribute::ActivityLastFailure | Attribute::WorkflowTaskLastFailure, Value::Text(_)) => {
            Some((vec![Source::Retrying], false))
        }
        (attribute, value) if attribute.kind() == Kind::Text || !fits_kind(attribute.kind(), value) => None,
        (Attribute::Numbered(number, _), value) => {
            one(Source::Attribute(attribute_entry(namespace, number), to_sql(value)))
        }
        (Attribute::WorkflowId, Value::Text(id)) => one(Source::WorkflowId(id.clone())),
        (Attribute::WorkflowType, Value::Text(name)) => one(Source::Type(name.clone())),
        (Attribute::ParentWorkflowId, Value::Text(id)) => one(Source::Parent(id.clone())),
        (Attribute::ExecutionStatus, Value::Int(status)) if *status > 2 => one(Source::Status(*status)),
        (Attribute::RunId, Value::Text(id)) => {
            let row = key_in_run_id(id).and_then(rows::run_row);
            Some((row.map(Source::Run).into_iter().collect(), false))
        }
        (Attribute::ActivityAttempts | Attribute::WorkflowTaskAttempts, _) => Some((vec![Source::Retrying], false)),
        _ => None,
    }
}

/// Runs that have a value in a range.
fn ranged(namespace: NamespaceKey, attribute: Attribute, range: Range) -> Option<Source> {
    match attribute {
        Attribute::Numbered(_, Kind::KeywordList | Kind::Text) => None,
        Attribute::Numbered(number, _) => {
            Some(Source::AttributeRange(attribute_entry(namespace, number), range, false))
        }
        Attribute::WorkflowId => Some(Source::WorkflowIdRange(range)),
        Attribute::WorkflowType => Some(Source::TypeRange(range)),
        Attribute::ActivityAttempts
        | Attribute::ActivityLastFailure
        | Attribute::WorkflowTaskAttempts
        | Attribute::WorkflowTaskLastFailure => Some(Source::Retrying),
        _ => None,
    }
}

fn prefixed(namespace: NamespaceKey, attribute: Attribute, prefix: &str, exact: bool) -> Option<(Vec<Source>, bool)> {
    if matches!(attribute, Attribute::ActivityLastFailure | Attribute::WorkflowTaskLastFailure) {
        return Some((vec![Source::Retrying], false));
    }
    if prefix.is_empty() {
        return None;
    }
    let range = Range::of_prefix(prefix);
    let source = match attribute {
        Attribute::Numbered(number, Kind::KeywordList) => {
            Source::AttributeRange(attribute_entry(namespace, number), range, true)
        }
        Attribute::Numbered(_, kind) if kind != Kind::Keyword => return None,
        attribute => ranged(namespace, attribute, range)?,
    };
    Some((vec![source], exact))
}
