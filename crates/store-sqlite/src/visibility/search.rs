//! Splits a filter and chooses the index for its runs.
//!
//! A filter is a list of parts that must all be true. A part that an index can answer is a [`Candidate`]; one of them
//! finds the runs and the others are checked on each. It is chosen by counting, up to a bound, how many runs each
//! matches.

use rusqlite::Connection;
use segno_store::NamespaceKey;
use segno_store::visibility::{Attribute, Comparison, Filter, Kind, Value};

use super::source::{Range, SOURCES_MAX, Source, sources_of};
use super::sql::{Statement, fits_kind};
use super::write::{OPEN, attribute_entry};

/// An attribute that so many runs have is not rare.
const RARE_MAX: i64 = 1_000;
/// So many runs are never sorted if an order can be followed.
const SORTED_MAX: i64 = 20_000;
/// The statuses of open runs.
const OPEN_STATUSES: [i64; 2] = [1, 8];

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
    /// Looks for the best way. `wanted` is how many runs are asked for, `weigh_single` whether it matters how many there
    /// are if there is but one way.
    pub(super) fn new(
        connection: &Connection,
        namespace: NamespaceKey,
        filter: &'a Filter,
        wanted: usize,
        weigh_single: bool,
    ) -> rusqlite::Result<Self> {
        let mut parts = Vec::new();
        flatten(filter, &mut parts);
        let kept = kept_counts(connection, namespace)?;
        let (span, bound) = (span(&parts, &kept), bound(&kept, wanted));
        let rare = rare(connection, namespace, filter, bound.min(RARE_MAX))?;
        let mut search = Self { namespace, parts, span, rare, candidate: None, size: bound, bound };
        let candidates = search.candidates();
        // A single one that is in order is followed anyway, unless the list has another order.
        let single = candidates.len() == 1 && candidates[0].is_ordered() && !weigh_single;
        if single {
            search.candidate = candidates.into_iter().next();
            return Ok(search);
        }
        for candidate in candidates {
            let mut size = 0;
            for source in &candidate.sources {
                size += search.count(connection, source, bound - size)?;
                if size >= bound {
                    break;
                }
            }
            // If both lead to many, order decides.
            let better = search.candidate.as_ref().is_none_or(|best| {
                size < search.size || (size >= bound && !best.is_ordered() && candidate.is_ordered())
            });
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

    /// All runs when their order does not matter: the whole table from front to back if most of it is of the namespace.
    pub(super) fn everything(&self, connection: &Connection) -> rusqlite::Result<Source> {
        let most = "SELECT ifnull(sum(runs) FILTER (WHERE namespace = ?1), 0) * 4 >= ifnull(sum(runs), 0) \
                    FROM status_counts";
        let most = connection.prepare_cached(most)?.query_row([self.namespace.0], |row| row.get(0))?;
        Ok(if most { Source::Table } else { Source::Everything })
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

    /// Whether [`Search::rest`] looks at more than the run's key.
    pub(super) fn rest_needs_rows(&self, of_candidate: bool) -> bool {
        let mut rest = Statement::new(self.namespace, &self.rare);
        self.rest(&mut rest, of_candidate);
        rest.needs_row
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

    /// The parts of the filter, all of which must hold.
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
        let mut statement = Statement::new(self.namespace, &[]).without_checks();
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

fn flatten<'a>(filter: &'a Filter, parts: &mut Vec<&'a Filter>) {
    match filter {
        Filter::All(inner) => inner.iter().for_each(|part| flatten(part, parts)),
        part => parts.push(part),
    }
}

/// Attributes whose absence is asked for and that so few runs have, less than `end`, that those can be left out one by one.
/// Not lists: one without items has no entry.
fn rare(connection: &Connection, namespace: NamespaceKey, filter: &Filter, end: i64) -> rusqlite::Result<Vec<u32>> {
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
        let found: i64 = count.query_row([attribute_entry(namespace, number), end], |row| row.get(0))?;
        if found < end {
            rare.push(number);
        }
    }
    Ok(rare)
}

/// The statuses that runs of a namespace have, and how many have each.
fn kept_counts(connection: &Connection, namespace: NamespaceKey) -> rusqlite::Result<Vec<(i64, i64)>> {
    let kept = "SELECT status, runs FROM status_counts WHERE namespace = ?1 AND runs > 0";
    connection.prepare_cached(kept)?.query_map([namespace.0], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// How many runs are worth sorting: as many as would be looked at if they were spread evenly among all.
fn bound(kept: &[(i64, i64)], wanted: usize) -> i64 {
    let total: i64 = kept.iter().map(|(_, runs)| runs).sum();
    let wanted = i64::try_from(wanted).unwrap_or(i64::MAX);
    total.saturating_mul(wanted).isqrt().clamp(1, SORTED_MAX)
}

fn span(parts: &[&Filter], kept: &[(i64, i64)]) -> Span {
    let mut span = Span { open: true, closed: true, from: i64::MIN, to: OPEN - 1 };
    for part in parts {
        let mut only_status = true;
        part.each_attribute(&mut |attribute| only_status &= attribute == Attribute::ExecutionStatus);
        if only_status {
            let allows = |open: bool| {
                let mut statuses = kept.iter().filter(|(status, _)| OPEN_STATUSES.contains(status) == open);
                statuses.any(|(status, _)| part.evaluate_by(&|_| Some(Value::Int(*status))) == Some(true))
            };
            span.open &= allows(true);
            span.closed &= allows(false);
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
