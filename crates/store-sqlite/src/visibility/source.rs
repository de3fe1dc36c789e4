//! Where the runs that a filter wants can be found, without looking at all of them.
//!
//! A filter is a list of parts that must all be true. A part that an index can answer is a [`Candidate`]; one of them
//! leads to the runs and the others are checked on each. Which one is decided by counting, up to a bound, how many
//! runs each leads to.
//!
//! What holds: every run for which the part is true is in one of its sources.

use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use segno_store::NamespaceKey;
use segno_store::visibility::{Attribute, Comparison, Filter, Kind, Value, key_in_run_id, words};

use super::functions::to_sql;
use super::sql::{Statement, fits_kind};
use super::write::{OPEN, attribute_entry};
use crate::layout;

/// More sources than this are not followed one by one.
const SOURCES_MAX: usize = 64;
/// An attribute is rare if fewer runs have it.
const RARE: i64 = 1_000;
/// The statuses of open runs.
const OPEN_STATUSES: [i64; 2] = [1, 8];
const CLOSED_STATUSES: [i64; 6] = [2, 3, 4, 5, 6, 7];

/// A set of runs that an index gives.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// All runs of the namespace.
    Everything,
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
    /// Runs with something that is being retried.
    Retrying,
}

/// From a value and to a value, each with its comparison.
#[derive(Clone, Debug, Default)]
pub(super) struct Range {
    pub(super) from: Option<(&'static str, Sql)>,
    pub(super) to: Option<(&'static str, Sql)>,
}

/// Sources of a part of the filter.
pub(super) struct Candidate {
    pub(super) sources: Vec<Source>,
    /// Whether they hold nothing else.
    exact: bool,
    /// Which part.
    part: usize,
}

/// When runs that a filter wants may have closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Whether they may be open.
    pub(super) open: bool,
    /// Whether they may be closed, and from when to when.
    pub(super) closed: bool,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// A filter, taken apart, and the way to its runs.
pub(super) struct Search<'a> {
    pub(super) namespace: NamespaceKey,
    parts: Vec<&'a Filter>,
    pub(super) span: Span,
    /// See [`Statement::new`].
    pub(super) rare: Vec<u32>,
    pub(super) candidate: Option<Candidate>,
    /// How many runs the candidate leads to, up to `bound`.
    pub(super) size: i64,
    pub(super) bound: i64,
}

impl<'a> Search<'a> {
    /// Looks for the best way. `wanted` is how many runs are asked for.
    pub(super) fn new(
        connection: &Connection,
        namespace: NamespaceKey,
        filter: &'a Filter,
        wanted: usize,
    ) -> rusqlite::Result<Self> {
        let mut parts = Vec::new();
        flatten(filter, &mut parts);
        let rare = rare(connection, namespace, filter)?;
        let (span, bound) = (span(&parts), bound(connection, namespace, wanted)?);
        let mut search = Self { namespace, parts, span, rare, candidate: None, size: bound, bound };
        for candidate in search.candidates() {
            let mut size = 0;
            for source in &candidate.sources {
                size += search.count(connection, source, bound - size)?;
                if size >= bound {
                    break;
                }
            }
            let better = size < search.size
                || search.candidate.as_ref().is_none_or(|best| !best.is_ordered() && candidate.is_ordered());
            if better {
                search.size = size;
                search.candidate = Some(candidate);
            }
        }
        Ok(search)
    }

    /// The sources to follow in the default order.
    pub(super) fn sources(&self) -> Vec<Source> {
        let candidate = self.candidate.as_ref().filter(|_| self.follows_candidate());
        candidate.map_or_else(|| vec![Source::Everything], |candidate| candidate.sources.clone())
    }

    /// Many runs in no order are worse than all runs in order.
    pub(super) fn follows_candidate(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.is_ordered() || self.size < self.bound)
    }

    /// Pushes ` AND` what must be checked on runs, which are those of the candidate or any others.
    pub(super) fn rest(&self, statement: &mut Statement, of_candidate: bool) {
        let done = self.candidate.as_ref().filter(|candidate| of_candidate && candidate.exact);
        for (place, part) in self.parts.iter().enumerate() {
            if done.is_none_or(|done| done.part != place) {
                statement.push(" AND (").filter(part).push(")");
            }
        }
    }

    /// The limits a part sets to the values of an attribute.
    pub(super) fn range(&self, attribute: Attribute) -> Range {
        let mut range = Range::default();
        for part in &self.parts {
            match part {
                Filter::Compare(named, comparison, value) if *named == attribute && fits_kind(named.kind(), value) => {
                    range.narrow(*comparison, value);
                }
                Filter::Between(named, from, to)
                    if *named == attribute && fits_kind(named.kind(), from) && fits_kind(named.kind(), to) =>
                {
                    range.narrow(Comparison::GreaterOrEqual, from);
                    range.narrow(Comparison::LessOrEqual, to);
                }
                _ => {}
            }
        }
        range
    }

    /// What must all be true.
    pub(super) fn parts(&self) -> &[&'a Filter] {
        &self.parts
    }

    fn candidates(&self) -> Vec<Candidate> {
        let sources = |(part, filter): (usize, &&Filter)| {
            let (sources, exact) = sources_of(self.namespace, filter)?;
            (sources.len() <= SOURCES_MAX).then_some(Candidate { sources, exact, part })
        };
        self.parts.iter().enumerate().filter_map(sources).collect()
    }

    fn count(&self, connection: &Connection, source: &Source, bound: i64) -> rusqlite::Result<i64> {
        let mut statement = Statement::new(self.namespace, &[]);
        statement.push("SELECT count(*) FROM (SELECT 1 ");
        source.push_keys(&mut statement);
        statement.push(" LIMIT ").bind_int(bound).push(")");
        let values = rusqlite::params_from_iter(&statement.values);
        connection.prepare_cached(&statement.text)?.query_row(values, |row| row.get(0))
    }
}

impl Candidate {
    fn is_ordered(&self) -> bool {
        self.sources.iter().all(Source::is_ordered)
    }
}

impl Range {
    fn narrow(&mut self, comparison: Comparison, value: &Value) {
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
                // By key.
                Self::Run(_) | Self::Attribute(..) | Self::AttributeRange(..) => "NOT INDEXED",
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
            Self::Everything => statement.push("1"),
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
        match self {
            Self::Attribute(entry, value) => {
                statement.push("a.attribute = ").bind_int(*entry).push(" AND a.value = ").bind(value.clone())
            }
            Self::AttributeRange(entry, range, _) => {
                range.push(statement.push("a.attribute = ").bind_int(*entry), "a.value")
            }
            _ => statement,
        }
    }
}

fn flatten<'a>(filter: &'a Filter, parts: &mut Vec<&'a Filter>) {
    match filter {
        Filter::All(inner) => inner.iter().for_each(|part| flatten(part, parts)),
        part => parts.push(part),
    }
}

/// The sources of a part, and whether they hold nothing else.
fn sources_of(namespace: NamespaceKey, filter: &Filter) -> Option<(Vec<Source>, bool)> {
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
            let row = key_in_run_id(id).and_then(layout::run_row);
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

/// Attributes whose absence is asked for and that so few runs have that those can be left out one by one. Not lists:
/// one without items has no entry.
fn rare(connection: &Connection, namespace: NamespaceKey, filter: &Filter) -> rusqlite::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    filter.each_attribute(&mut |attribute| match attribute {
        Attribute::Numbered(number, kind) if kind != Kind::KeywordList => numbers.push(number),
        _ => {}
    });
    numbers.sort_unstable();
    numbers.dedup();
    let mut rare = Vec::new();
    let count = "SELECT count(*) FROM (SELECT 1 FROM attributes WHERE attribute = ?1 LIMIT ?2)";
    let mut count = connection.prepare_cached(count)?;
    for number in numbers {
        let found: i64 = count.query_row([attribute_entry(namespace, number), RARE], |row| row.get(0))?;
        if found < RARE {
            rare.push(number);
        }
    }
    Ok(rare)
}

/// How many runs are worth sorting: as many as would be looked at if they were spread evenly among all.
fn bound(connection: &Connection, namespace: NamespaceKey, wanted: usize) -> rusqlite::Result<i64> {
    let total = "SELECT ifnull(sum(runs), 0) FROM status_counts WHERE namespace = ?1";
    let total: i64 = connection.prepare_cached(total)?.query_row([namespace.0], |row| row.get(0))?;
    let wanted = i64::try_from(wanted).unwrap_or(i64::MAX);
    Ok(total.saturating_mul(wanted).isqrt().clamp(1_000, 20_000))
}

fn span(parts: &[&Filter]) -> Span {
    let mut span = Span { open: true, closed: true, from: i64::MIN, to: OPEN - 1 };
    for part in parts {
        let mut only_status = true;
        part.each_attribute(&mut |attribute| only_status &= attribute == Attribute::ExecutionStatus);
        if only_status {
            let allows = |statuses: &[i64]| {
                statuses.iter().any(|status| part.evaluate_by(&|_| Some(Value::Int(*status))) == Some(true))
            };
            span.open &= allows(&OPEN_STATUSES);
            span.closed &= allows(&CLOSED_STATUSES);
        }
        match part {
            Filter::IsNull(Attribute::CloseTime) => span.closed = false,
            Filter::Not(part) if **part == Filter::IsNull(Attribute::CloseTime) => span.open = false,
            Filter::Compare(Attribute::CloseTime, comparison, Value::Int(time)) => span.narrow(*comparison, *time),
            Filter::Between(Attribute::CloseTime, Value::Int(from), Value::Int(to)) => {
                span.narrow(Comparison::GreaterOrEqual, *from);
                span.narrow(Comparison::LessOrEqual, *to);
            }
            _ => {}
        }
    }
    span
}

impl Span {
    fn narrow(&mut self, comparison: Comparison, time: i64) {
        self.open = false;
        match comparison {
            Comparison::Equal => {
                self.from = self.from.max(time);
                self.to = self.to.min(time);
            }
            Comparison::Less | Comparison::LessOrEqual => self.to = self.to.min(time),
            Comparison::Greater | Comparison::GreaterOrEqual => self.from = self.from.max(time),
            Comparison::NotEqual => {}
        }
    }
}
