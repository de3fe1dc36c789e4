//! Counts of runs.
//!
//! The number of runs of each status is stored, so the commonest counts read a handful of rows. Others count the
//! entries of an index if one matches the filter.

use rusqlite::{Connection, Row};
use segno_store::visibility::{Attribute, Count, Filter, Kind, Value, sort_counts};
use segno_store::{NamespaceKey, ReadError};

use super::list::value_from;
use super::search::Search;
use super::source::Source;
use super::sql::Statement;
use super::write::{OPEN, attribute_entry};
use crate::read;

/// A count follows an index where a list with a page of this many runs would.
const ASSUMED_PAGE_SIZE: usize = 1_000;

/// See [`segno_store::Store::count`]. Called inside a transaction.
pub(crate) fn count(
    connection: &Connection,
    namespace: NamespaceKey,
    filter: &Filter,
    group_by: Option<Attribute>,
) -> Result<Vec<Count>, ReadError> {
    let failed = |error| read::read_error("a count", &error);
    let search = Search::new(connection, namespace, filter, ASSUMED_PAGE_SIZE, false).map_err(failed)?;
    let counter = Counter { connection, search };
    let mut groups = counter.groups(group_by).map_err(failed)?;
    sort_counts(&mut groups);
    Ok(groups)
}

struct Counter<'a> {
    connection: &'a Connection,
    search: Search<'a>,
}

impl Counter<'_> {
    fn groups(&self, group_by: Option<Attribute>) -> rusqlite::Result<Vec<Count>> {
        if let Some(groups) = self.by_status(group_by)? {
            return Ok(groups);
        }
        match group_by {
            Some(Attribute::Numbered(number, kind))
                if kind != Kind::KeywordList && !self.search.rest_needs_rows(false) =>
            {
                self.by_entries(number, kind)
            }
            group_by => self.by_rows(group_by),
        }
    }

    /// From the kept counts, if the filter is about nothing but the status, and perhaps an attribute's absence: the
    /// runs that have it are subtracted.
    fn by_status(&self, group_by: Option<Attribute>) -> rusqlite::Result<Option<Vec<Count>>> {
        if group_by.is_some_and(|attribute| attribute != Attribute::ExecutionStatus) {
            return Ok(None);
        }
        let (mut about_status, mut absent) = (Vec::new(), None);
        for part in self.search.parts() {
            let mut only_status = true;
            part.each_attribute(&mut |attribute| only_status &= attribute == Attribute::ExecutionStatus);
            match part {
                _ if only_status => about_status.push(part),
                // One without items has no entry.
                Filter::IsNull(Attribute::Numbered(_, Kind::KeywordList)) => return Ok(None),
                Filter::IsNull(Attribute::Numbered(number, _)) if absent.is_none() => absent = Some(*number),
                _ => return Ok(None),
            }
        }
        let namespace = self.search.namespace;
        let mut kept = Statement::new(namespace, &[]);
        kept.push("SELECT status, runs FROM status_counts WHERE namespace = ").bind_int(namespace.0.into());
        let mut counts = self.rows(&kept, Kind::Int)?;
        if let Some(number) = absent {
            let mut having = Statement::new(namespace, &[]);
            having.push("SELECT v.status, count(*) FROM attributes a CROSS JOIN visibility v ON v.run_key = a.run_key");
            having
                .push(" WHERE a.attribute = ")
                .bind_int(attribute_entry(namespace, number))
                .check_entry()
                .push(" GROUP BY v.status");
            for less in self.rows(&having, Kind::Int)? {
                let same = counts.iter_mut().find(|count| count.group == less.group);
                same.into_iter().for_each(|count| count.runs = count.runs.saturating_sub(less.runs));
            }
        }
        let wanted = |count: &Count| {
            let status = |_: Attribute| count.group.clone();
            count.runs > 0 && about_status.iter().all(|part| part.evaluate_by(&status) == Some(true))
        };
        counts.retain(wanted);
        Ok(Some(match group_by {
            Some(_) => counts,
            None => vec![Count { group: None, runs: counts.iter().map(|count| count.runs).sum() }],
        }))
    }

    /// By the entries of an attribute; the runs without it are those that are left.
    fn by_entries(&self, number: u32, kind: Kind) -> rusqlite::Result<Vec<Count>> {
        let mut statement = Statement::new(self.search.namespace, &self.search.rare).with_key("a.run_key");
        statement.push("SELECT a.value, count(*) FROM attributes a WHERE a.attribute = ");
        statement.bind_int(attribute_entry(self.search.namespace, number)).check_entry();
        self.search.rest(&mut statement, false);
        statement.push(" GROUP BY a.value");
        let mut groups = self.rows(&statement, kind)?;
        let all = self.by_status(None)?.map_or_else(|| self.by_rows(None), Ok)?;
        let all: u64 = all.iter().map(|count| count.runs).sum();
        let without = all.saturating_sub(groups.iter().map(|count| count.runs).sum());
        if without > 0 {
            groups.push(Count { group: None, runs: without });
        }
        Ok(groups)
    }

    /// By looking at the runs that an index leads to.
    fn by_rows(&self, group_by: Option<Attribute>) -> rusqlite::Result<Vec<Count>> {
        let candidate = self.search.candidate.as_ref().map(|candidate| candidate.sources.as_slice());
        let mut statement = Statement::new(self.search.namespace, &self.search.rare);
        statement.push("SELECT ");
        match group_by {
            Some(attribute) => statement.column(attribute),
            None => statement.push("NULL"),
        };
        statement.push(", count(*)");
        match candidate {
            None => self.push_source(&mut statement, &self.search.everything(self.connection)?, false),
            Some([source]) if source.alias() == "v" && !matches!(source, Source::AttributeRange(..)) => {
                self.push_source(&mut statement, source, true);
            }
            Some([source]) if group_by.is_none() && !self.search.rest_needs_rows(true) && source.alias() == "a" => {
                statement = statement.with_key("a.run_key");
                source.push_keys(&mut statement);
                self.push_span(&mut statement, "a");
                self.search.rest(&mut statement, true);
            }
            Some(sources) => {
                // Without those that are in several, and in the order in which the rows lie.
                statement.push(" FROM (SELECT NULL AS run_key");
                for source in sources {
                    let alias = if matches!(source, Source::AttributeRange(..)) { "a" } else { source.alias() };
                    statement.push(" UNION SELECT ").push(alias).push(".run_key");
                    source.push_keys(&mut statement);
                    self.push_span(&mut statement, alias);
                }
                statement.push(") s CROSS JOIN visibility v ON v.run_key = s.run_key WHERE v.namespace = ");
                statement.bind_int(self.search.namespace.0.into());
                self.search.rest(&mut statement, true);
            }
        }
        let Some(attribute) = group_by else { return self.rows(&statement, Kind::Int) };
        statement.push(" GROUP BY 1");
        self.rows(&statement, attribute.kind())
    }

    fn push_source(&self, statement: &mut Statement, source: &Source, of_candidate: bool) {
        source.push_rows(statement, self.search.namespace);
        self.push_span(statement, source.alias());
        self.search.rest(statement, of_candidate);
    }

    /// When the runs may have closed, as far as the filter says.
    fn push_span(&self, statement: &mut Statement, alias: &str) {
        let span = self.search.span;
        let mut ended = |sign: &str, value: i64| {
            statement.push(" AND ").push(alias).push(".ended ").push(sign).push(" ").bind_int(value);
        };
        match (span.open, span.closed) {
            (true, true) => {}
            (true, false) => ended("=", OPEN),
            (false, true) => {
                ended(">=", span.from);
                ended("<=", span.to);
            }
            // Nothing can be both open and closed.
            (false, false) => ended("<", i64::MIN),
        }
    }

    /// Groups and their counts.
    fn rows(&self, statement: &Statement, kind: Kind) -> rusqlite::Result<Vec<Count>> {
        #[cfg(test)]
        super::plans::note(self.connection, statement);
        let group = |row: &Row<'_>| {
            let group: Option<Value> = value_from(row.get(0)?, kind, 0)?;
            Ok(Count { group, runs: row.get(1)? })
        };
        let values = rusqlite::params_from_iter(&statement.values);
        self.connection.prepare(&statement.text)?.query_map(values, group)?.collect()
    }
}
