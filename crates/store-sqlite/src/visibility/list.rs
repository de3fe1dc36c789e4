//! Pages of runs.
//!
//! A page is read in one transaction: first which runs it shows, from the index that suits filter and order, then their
//! states. It begins after the last run of the previous page, found by comparison, so a deep page costs as much as the
//! first one.
//!
//! The order is that of the first page, the indexes are current. They differ in the runs that closed in between, which
//! are found by their close time and merged in.

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, Row};
use segno_store::ReadError;
use segno_store::visibility::{Attribute, Cursor, Filter, Kind, ListPage, ListQuery, ListedRun, Order, Phase, Value};

use super::functions::{list_from, to_sql};
use super::row;
use super::search::Search;
use super::source::Source;
use super::sql::Statement;
use super::write::{OPEN, attribute_entry};
use crate::read;
use segno_store::rows;

/// Longer statements are rarely the same twice.
const CACHED_BYTES_MAX: usize = 4_096;

/// See [`segno_store::Store::list`]. Called inside a transaction.
pub(crate) fn list(connection: &Connection, query: &ListQuery) -> Result<ListPage, ReadError> {
    let failed = |error| read::read_error("a list", &error);
    let places = places(connection, query).map_err(failed)?;
    let mut runs = Vec::with_capacity(places.len());
    for Cursor { key, .. } in &places {
        let missing = || ReadError::Damaged(format!("run {} can be searched but is not there", key.0));
        let loaded = row::check(connection, *key).and_then(|()| read::load(connection, *key));
        let state = match loaded {
            Ok(found) => found.map(|run| run.state).ok_or_else(missing),
            // One damaged run does not hide the others of its page.
            Err(error @ ReadError::Damaged(_)) => Err(error),
            Err(error) => return Err(error),
        };
        runs.push(ListedRun { key: *key, state });
    }
    let full = places.len() == query.limit;
    Ok(ListPage { runs, next: places.into_iter().next_back().filter(|_| full) })
}

/// The runs of a page.
fn places(connection: &Connection, query: &ListQuery) -> rusqlite::Result<Vec<Cursor>> {
    if query.limit == 0 {
        return Ok(Vec::new());
    }
    let search = Search::new(connection, query.namespace, &query.filter, query.limit, query.order != Order::Newest)?;
    let lister = Lister { connection, query, search };
    let Some(attribute) = query.order.attribute() else {
        return lister.newest(query.after.as_ref(), query.limit, None);
    };
    let in_second = query.after.as_ref().filter(|after| after.phase == Phase::Second);
    let mut found = if in_second.is_some() { Vec::new() } else { lister.by_value(attribute)? };
    if found.len() < query.limit && attribute.may_be_absent() {
        found.extend(lister.newest(in_second, query.limit - found.len(), Some(attribute))?);
    }
    Ok(found)
}

/// Which of a source's runs to look at: the indexes are right for all but those that closed after the first page.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Open,
    ClosedSince,
    Closed,
    All,
}

struct Lister<'a> {
    connection: &'a Connection,
    query: &'a ListQuery,
    search: Search<'a>,
}

impl Lister<'_> {
    /// Runs in the default order; only those without an attribute if one is given.
    fn newest(&self, after: Option<&Cursor>, limit: usize, absent: Option<Attribute>) -> rusqlite::Result<Vec<Cursor>> {
        let mut streams = Vec::new();
        for source in self.search.sources() {
            streams.push(if source.is_ordered() {
                self.newest_in_order(&source, after, limit, absent)?
            } else {
                self.newest_of(&source, Scope::All, after, limit, absent)?
            });
        }
        Ok(self.merge(streams, limit))
    }

    /// From a source that has its runs in order.
    fn newest_in_order(
        &self,
        source: &Source,
        after: Option<&Cursor>,
        limit: usize,
        absent: Option<Attribute>,
    ) -> rusqlite::Result<Vec<Cursor>> {
        let span = self.search.span;
        let mut found = Vec::new();
        if after.is_none_or(|after| after.closed.is_none()) {
            let mut streams = Vec::new();
            if span.open {
                streams.push(self.newest_of(source, Scope::Open, after, limit, absent)?);
            }
            if span.closed {
                streams.push(self.newest_of(source, Scope::ClosedSince, after, limit, absent)?);
            }
            found = self.merge(streams, limit);
        }
        // Closed runs have what a close sets.
        let none_closed = !span.closed || absent.is_some_and(Attribute::is_set_by_close);
        if found.len() < limit && !none_closed {
            let after = after.filter(|after| after.closed.is_some());
            found.extend(self.newest_of(source, Scope::Closed, after, limit - found.len(), absent)?);
        }
        Ok(found)
    }

    /// From one scope of a source. SQLite sorts if the source is not in order.
    fn newest_of(
        &self,
        source: &Source,
        scope: Scope,
        after: Option<&Cursor>,
        limit: usize,
        absent: Option<Attribute>,
    ) -> rusqlite::Result<Vec<Cursor>> {
        let alias = source.alias();
        let of_candidate = self.search.follows_candidate();
        let mut statement = self.select(alias, None);
        if alias == "a" && absent.is_none() && !self.search.rest_needs_rows(of_candidate) {
            statement = statement.with_key("a.run_key");
            source.push_keys(&mut statement);
        } else {
            source.push_rows(&mut statement, self.query.namespace);
        }
        self.push_scope(&mut statement, alias, scope, after);
        self.search.rest(&mut statement, of_candidate);
        if let Some(attribute) = absent {
            statement.push(" AND ").column_as_of(attribute, self.query.as_of).push(" IS NULL");
        }
        let ended = match scope {
            Scope::Open | Scope::ClosedSince => "",
            Scope::Closed => "ended, ",
            Scope::All => {
                if let Some(after) = after {
                    statement.push(" AND (");
                    self.push_age(&mut statement, alias, "");
                    statement.push(") < (").bind_int(after.closed.unwrap_or(OPEN)).push(", ");
                    statement.bind_int(after.start_time).push(", ").bind(key(after)).push(")");
                }
                statement.push(" ORDER BY ");
                self.push_age(&mut statement, alias, " DESC");
                return self.rows(statement, limit, None);
            }
        };
        let columns = |direction: &str| {
            let ended = if ended.is_empty() { String::new() } else { format!("{alias}.ended{direction}, ") };
            format!("{ended}{alias}.start_time{direction}, {alias}.run_key{direction}")
        };
        if let Some(after) = after {
            statement.push(" AND (").push(&columns("")).push(") < (");
            if !ended.is_empty() {
                statement.bind_int(after.closed.unwrap_or(OPEN)).push(", ");
            }
            statement.bind_int(after.start_time).push(", ").bind(key(after)).push(")");
        }
        statement.push(" ORDER BY ").push(&columns(" DESC"));
        self.rows(statement, limit, None)
    }

    /// Runs that have the attribute of the order, by its value.
    fn by_value(&self, attribute: Attribute) -> rusqlite::Result<Vec<Cursor>> {
        let few = self.search.candidate.is_some() && self.search.size < self.search.bound;
        let indexed = match attribute {
            Attribute::Numbered(_, kind) => kind != Kind::KeywordList,
            attribute => matches!(attribute, Attribute::WorkflowType | Attribute::CloseTime),
        };
        if few || !indexed {
            let sources = self.search.candidate.as_ref().map(|candidate| candidate.sources.clone());
            // The sources of many runs are better than all runs, in order or not.
            let sources = match sources {
                Some(sources) => sources,
                None => vec![self.everything(attribute)?],
            };
            let sorted = sources.iter().map(|source| self.sorted(source, Scope::All, attribute));
            return Ok(self.merge(sorted.collect::<Result<_, _>>()?, self.query.limit));
        }
        let in_order = self.in_order_of_value(attribute)?;
        if attribute == Attribute::CloseTime {
            return Ok(in_order);
        }
        let since = self.sorted(&Source::Everything, Scope::ClosedSince, attribute)?;
        Ok(self.merge(vec![in_order, since], self.query.limit))
    }

    /// All runs, to be sorted. The index of the default order has all that is needed to sort by time.
    fn everything(&self, attribute: Attribute) -> rusqlite::Result<Source> {
        let by_time = matches!(attribute, Attribute::StartTime | Attribute::CloseTime);
        if by_time && self.query.filter == Filter::All(Vec::new()) {
            return Ok(Source::Everything);
        }
        self.search.everything(self.connection)
    }

    /// From an index over the value, all but the runs that closed after the first page.
    fn in_order_of_value(&self, attribute: Attribute) -> rusqlite::Result<Vec<Cursor>> {
        let (alias, value) = match attribute {
            Attribute::Numbered(..) => ("a", "a.value"),
            Attribute::WorkflowType => ("v", "v.workflow_type"),
            _ => ("v", "v.ended"),
        };
        let mut statement = self.select(alias, Some(value));
        match attribute {
            Attribute::Numbered(number, _) => {
                let entry = attribute_entry(self.query.namespace, number);
                statement.push(" FROM attributes a");
                if self.search.rest_needs_rows(false) {
                    statement.push(" CROSS JOIN visibility v ON v.run_key = a.run_key");
                } else {
                    statement = statement.with_key("a.run_key");
                }
                statement.push(" WHERE a.attribute = ").bind_int(entry).check_entry();
            }
            Attribute::WorkflowType => {
                statement.push(" FROM visibility v INDEXED BY visibility_type WHERE v.namespace = ");
                statement.bind_int(self.query.namespace.0.into());
            }
            _ => {
                statement.push(" FROM visibility v INDEXED BY visibility_order WHERE v.namespace = ");
                statement.bind_int(self.query.namespace.0.into());
            }
        }
        let (descending, after) = (self.descending(), self.query.after.as_ref());
        // The last run's place is one limit; a second one on the same side would hide it from SQLite.
        let mut range = self.search.range(attribute);
        if attribute == Attribute::CloseTime {
            if after.is_none() || !descending {
                statement.push(" AND v.ended <= ").bind_int(self.query.as_of);
            }
            range.to = None;
        } else {
            statement.push(" AND (+").push(alias).push(".ended = ").bind_int(OPEN);
            statement.push(" OR +").push(alias).push(".ended <= ").bind_int(self.query.as_of).push(")");
        }
        if after.is_some() {
            *(if descending { &mut range.to } else { &mut range.from }) = None;
        }
        range.push(&mut statement, value);
        let columns = |direction: &str| {
            let value = if attribute == Attribute::CloseTime { String::new() } else { format!("{value}{direction}, ") };
            format!("{value}{alias}.ended{direction}, {alias}.start_time{direction}, {alias}.run_key{direction}")
        };
        if let Some(after) = after {
            statement.push(" AND (").push(&columns("")).push(if descending { ") < (" } else { ") > (" });
            if attribute != Attribute::CloseTime {
                statement.bind(after.value.as_ref().map_or(Sql::Null, to_sql)).push(", ");
            }
            statement.bind_int(after.closed.unwrap_or(OPEN)).push(", ");
            statement.bind_int(after.start_time).push(", ").bind(key(after)).push(")");
        }
        self.search.rest(&mut statement, false);
        statement.push(" ORDER BY ").push(&columns(if descending { " DESC" } else { "" }));
        self.rows(statement, self.query.limit, Some(attribute))
    }

    /// From any source, sorted by the value.
    fn sorted(&self, source: &Source, scope: Scope, attribute: Attribute) -> rusqlite::Result<Vec<Cursor>> {
        let (alias, as_of) = (source.alias(), self.query.as_of);
        let mut statement = self.select(alias, None);
        // The value replaces the null at the end of the select list.
        statement.text.truncate(statement.text.len() - "NULL".len());
        statement.column_as_of(attribute, as_of);
        source.push_rows(&mut statement, self.query.namespace);
        self.push_scope(&mut statement, alias, scope, None);
        self.search.rest(&mut statement, scope == Scope::All && self.search.candidate.is_some());
        statement.push(" AND ").column_as_of(attribute, as_of).push(" IS NOT NULL");
        let descending = self.descending();
        if let Some(after) = &self.query.after {
            statement.push(" AND (").column_as_of(attribute, as_of).push(", ");
            self.push_age(&mut statement, alias, "");
            statement.push(if descending { ") < (" } else { ") > (" });
            statement.bind(after.value.as_ref().map_or(Sql::Null, to_sql)).push(", ");
            statement.bind_int(after.closed.unwrap_or(OPEN)).push(", ");
            statement.bind_int(after.start_time).push(", ").bind(key(after)).push(")");
        }
        let direction = if descending { " DESC" } else { "" };
        statement.push(" ORDER BY ").column_as_of(attribute, as_of).push(direction).push(", ");
        self.push_age(&mut statement, alias, direction);
        self.rows(statement, self.query.limit, Some(attribute))
    }

    fn select(&self, alias: &str, value: Option<&str>) -> Statement {
        let mut statement = Statement::new(self.query.namespace, &self.search.rare);
        let value = value.unwrap_or("NULL");
        statement.push(&format!("SELECT {alias}.run_key, {alias}.ended, {alias}.start_time, {value}"));
        statement
    }

    fn push_scope(&self, statement: &mut Statement, alias: &str, scope: Scope, after: Option<&Cursor>) {
        let span = self.search.span;
        let ended = |statement: &mut Statement, sign: &str, value: i64| {
            statement.push(" AND ").push(alias).push(".ended ").push(sign).push(" ").bind_int(value);
        };
        match scope {
            Scope::Open => ended(statement, "=", OPEN),
            Scope::ClosedSince => {
                ended(statement, ">", self.query.as_of);
                ended(statement, "<", OPEN);
            }
            Scope::Closed => {
                // With a last run its place is the limit.
                if after.is_none() {
                    ended(statement, "<=", self.query.as_of.min(span.to));
                }
                if span.from > i64::MIN {
                    ended(statement, ">=", span.from);
                }
            }
            Scope::All => {}
        }
    }

    /// Adds the key of the default order, as of the first page.
    fn push_age(&self, statement: &mut Statement, alias: &str, direction: &str) {
        statement.push(&format!("CASE WHEN {alias}.ended > ")).bind_int(self.query.as_of).push(" THEN ");
        statement.bind_int(OPEN).push(&format!(" ELSE {alias}.ended END{direction}, "));
        statement.push(&format!("{alias}.start_time{direction}, {alias}.run_key{direction}"));
    }

    fn descending(&self) -> bool {
        matches!(self.query.order, Order::Descending(_))
    }

    fn rows(&self, mut statement: Statement, limit: usize, by: Option<Attribute>) -> rusqlite::Result<Vec<Cursor>> {
        statement.push(" LIMIT ").bind_int(i64::try_from(limit).unwrap_or(i64::MAX));
        #[cfg(test)]
        super::plans::note(self.connection, &statement);
        let place = |row: &Row<'_>| self.place(row, by);
        let values = rusqlite::params_from_iter(&statement.values);
        if statement.text.len() > CACHED_BYTES_MAX {
            return self.connection.prepare(&statement.text)?.query_map(values, place)?.collect();
        }
        self.connection.prepare_cached(&statement.text)?.query_map(values, place)?.collect()
    }

    fn place(&self, row: &Row<'_>, by: Option<Attribute>) -> rusqlite::Result<Cursor> {
        let closed = Some(row.get(1)?).filter(|ended| *ended <= self.query.as_of);
        let value = by.map(|attribute| value_from(row.get(3)?, attribute.kind(), 3)).transpose()?.flatten();
        let first = if self.query.order == Order::Newest { closed.is_none() } else { value.is_some() };
        let phase = if first { Phase::First } else { Phase::Second };
        Ok(Cursor { phase, value, closed, start_time: row.get(2)?, key: rows::run_key(row.get(0)?) })
    }

    /// Streams that are in order become one in order, without runs that are in several.
    fn merge(&self, mut streams: Vec<Vec<Cursor>>, limit: usize) -> Vec<Cursor> {
        if streams.len() == 1 {
            return streams.remove(0);
        }
        let mut merged = streams.concat();
        merged.sort_by(|one, two| one.compare(two, self.query.order));
        merged.dedup_by_key(|place| place.key);
        merged.truncate(limit);
        merged
    }
}

fn key(after: &Cursor) -> Sql {
    rows::run_row(after.key).map_or(Sql::Integer(i64::MAX), Sql::Integer)
}

/// A value as the contract knows it.
pub(super) fn value_from(value: Sql, kind: Kind, column: usize) -> rusqlite::Result<Option<Value>> {
    let found = value.data_type();
    Ok(Some(match (kind, value) {
        (_, Sql::Null) => return Ok(None),
        (Kind::Bool, Sql::Integer(truth)) => Value::Bool(truth != 0),
        (_, Sql::Integer(number)) => Value::Int(number),
        (_, Sql::Real(number)) => Value::Double(number),
        (_, Sql::Text(text)) => Value::Text(text),
        (_, Sql::Blob(bytes)) => match list_from(&bytes) {
            Some(items) => Value::List(items),
            None => return Err(rusqlite::Error::InvalidColumnType(column, kind_name(kind), found)),
        },
    }))
}

fn kind_name(kind: Kind) -> String {
    format!("{kind:?}")
}
