//! Lists and counts.
//!
//! A page is read in one transaction of one snapshot. It begins after the last run of the previous page, found by
//! comparison, so a deep page costs as much as the first one. The order is that of the first page: runs that closed
//! since keep their place among the open ones, and are found by their close time.
//!
//! Parts of a filter that SQL cannot express are evaluated here, run by run.

use std::time::Duration;

use bytes::Bytes;
use segno_store::visibility::{
    Attribute, Count, Cursor, Filter, ListPage, ListQuery, ListedRun, Order, Phase, Value, VisibilityRow, sort_counts,
};
use segno_store::{NamespaceKey, ReadError, ReadLimit, RunKey};
use tokio_postgres::Row;

use crate::connect::{Link, Session, WAIT_MAX, describe, is_connection_lost};
use crate::facts;
use crate::filter::{self, Condition, Sql};
use crate::group::OPEN;
use crate::read;

/// Rows read at a time when some of them may not fit.
const CHUNK: usize = 512;
/// How often a statement under way is checked against the limit of its read.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// See [`segno_store::Store::list_within`].
pub(crate) async fn list(link: &Link, query: &ListQuery, limit: &ReadLimit) -> Result<ListPage, ReadError> {
    limit.check()?;
    if query.limit == 0 {
        return Ok(ListPage { runs: Vec::new(), next: None });
    }
    let condition = Condition::of(&query.filter);
    let lister = Lister { query, condition, limit };
    in_transaction(link, limit, &lister).await
}

/// See [`segno_store::Store::count_within`].
pub(crate) async fn count(
    link: &Link,
    namespace: NamespaceKey,
    filter: &Filter,
    group_by: Option<Attribute>,
    limit: &ReadLimit,
) -> Result<Vec<Count>, ReadError> {
    limit.check()?;
    let condition = Condition::of(filter);
    let counter = Counter { namespace, filter, condition, group_by, limit };
    in_transaction(link, limit, &counter).await
}

/// Runs reads of one snapshot, again on a new connection if it breaks.
async fn in_transaction<Q: Question>(link: &Link, limit: &ReadLimit, question: &Q) -> Result<Q::Answer, ReadError> {
    let until = tokio::time::Instant::now() + WAIT_MAX;
    loop {
        limit.check()?;
        let session = link.session(WAIT_MAX).await.map_err(|error| ReadError::Failed(error.to_string()))?;
        let begin = session.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await;
        let outcome = match begin {
            Ok(()) => question.answer(&session).await,
            Err(error) => Err(ListError::Database(error)),
        };
        match outcome {
            Ok(answer) => {
                if session.client.batch_execute("COMMIT").await.is_err() {
                    session.give_up();
                }
                return Ok(answer);
            }
            Err(ListError::Read(error)) => {
                // A statement that was cancelled may still be under way.
                session.give_up();
                return Err(error);
            }
            Err(ListError::Database(error)) => {
                session.give_up();
                let lost = is_connection_lost(&error) || session.client.is_closed();
                if error.code() == Some(&tokio_postgres::error::SqlState::QUERY_CANCELED) {
                    return Err(ReadError::DeadlineExceeded);
                }
                if !lost || tokio::time::Instant::now() >= until {
                    return Err(ReadError::Failed(describe(&error)));
                }
            }
        }
    }
}

/// A question that reads of one snapshot answer.
trait Question: Sync {
    type Answer;

    fn answer(&self, session: &Session) -> impl Future<Output = Result<Self::Answer, ListError>> + Send;
}

/// Why a read did not succeed.
enum ListError {
    Read(ReadError),
    Database(tokio_postgres::Error),
}

impl From<ReadError> for ListError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Asks, and gives up with the caller.
async fn ask(session: &Session, sql: &Sql, limit: &ReadLimit) -> Result<Vec<Row>, ListError> {
    let parameters = sql.borrowed();
    let mut answer = std::pin::pin!(session.client.query(&sql.text, &parameters));
    loop {
        match tokio::time::timeout(CHECK_INTERVAL, &mut answer).await {
            Ok(answer) => return answer.map_err(ListError::Database),
            Err(_) => {
                if let Err(error) = limit.check() {
                    session.cancel().await;
                    return Err(error.into());
                }
            }
        }
    }
}

struct Lister<'a> {
    query: &'a ListQuery,
    condition: Condition<'a>,
    limit: &'a ReadLimit,
}

/// The select list of a page: facts, then the run.
fn columns() -> String {
    format!("{}, {}", facts::COLUMNS, read::RUN.replace("r.", "v."))
}

impl Question for Lister<'_> {
    type Answer = ListPage;

    async fn answer(&self, session: &Session) -> Result<ListPage, ListError> {
        let mut found: Vec<(Cursor, ListedRun)> = Vec::new();
        let order = self.query.order.attribute();
        let after = self.query.after.as_ref();
        match order {
            None => {
                self.collect(session, after.cloned(), &mut found, |sql, after, limit| {
                    self.newest(sql, after, limit, None);
                })
                .await?
            }
            Some(attribute) => {
                if after.is_none_or(|after| after.phase == Phase::First) {
                    self.collect(session, after.cloned(), &mut found, |sql, after, limit| {
                        self.by_value(sql, attribute, after, limit);
                    })
                    .await?;
                }
                let second = after.filter(|after| after.phase == Phase::Second);
                if found.len() < self.query.limit && attribute.may_be_absent() {
                    self.collect(session, second.cloned(), &mut found, |sql, after, limit| {
                        self.newest(sql, after, limit, Some(attribute));
                    })
                    .await?;
                }
            }
        }
        let full = found.len() == self.query.limit;
        let next = found.last().map(|(cursor, _)| cursor.clone()).filter(|_| full);
        Ok(ListPage { runs: found.into_iter().map(|(_, listed)| listed).collect(), next })
    }
}

impl Lister<'_> {
    /// Reads on until the page is full or there are no more.
    async fn collect(
        &self,
        session: &Session,
        mut after: Option<Cursor>,
        found: &mut Vec<(Cursor, ListedRun)>,
        push: impl Fn(&mut Sql, Option<&Cursor>, usize) + Sync + Send,
    ) -> Result<(), ListError> {
        loop {
            let wanted = self.query.limit - found.len();
            if wanted == 0 {
                return Ok(());
            }
            let limit = if self.condition.rest.is_empty() { wanted } else { wanted.clamp(CHUNK, 8 * CHUNK) };
            let mut sql = Sql::default();
            push(&mut sql, after.as_ref(), limit);
            let rows = ask(session, &sql, self.limit).await?;
            let last = rows.len() < limit;
            for row in &rows {
                let row_facts = facts::of(row, 0)?;
                let place = Cursor::of(&row_facts, self.query.order, self.query.as_of);
                after = Some(place.clone());
                if !fits(&self.condition.rest, &row_facts) {
                    continue;
                }
                let state = read::record(row, facts::WIDTH).map(|record| record.state);
                found.push((place, listed(row_facts.key, state)?));
                if found.len() == self.query.limit {
                    return Ok(());
                }
            }
            if last {
                return Ok(());
            }
            self.limit.check()?;
        }
    }

    /// Runs in the default order; only those without an attribute if one is given. Each scope is read from the index in
    /// order; together they are a handful of rows to sort.
    fn newest(&self, sql: &mut Sql, after: Option<&Cursor>, limit: usize, absent: Option<Attribute>) {
        let as_of = self.query.as_of;
        let columns = columns();
        sql.push(&format!("SELECT {columns} FROM ("));
        let in_closed = after.is_some_and(|after| after.closed.is_some());
        let mut scopes: Vec<(&str, &str)> = Vec::new();
        if !in_closed {
            scopes.push(("open", "v.start_time DESC, v.run_key DESC"));
            scopes.push(("since", "v.start_time DESC, v.run_key DESC"));
        }
        // Closed runs have what a close sets.
        if !absent.is_some_and(Attribute::is_set_by_close) {
            scopes.push(("closed", "v.ended DESC, v.start_time DESC, v.run_key DESC"));
        } else if in_closed {
            scopes.push(("none", "v.run_key"));
        }
        for (place, (scope, order)) in scopes.iter().enumerate() {
            sql.push(if place == 0 { "(" } else { " UNION ALL (" });
            sql.push("SELECT v.* FROM segno.runs v WHERE v.namespace = ");
            sql.bind(Box::new(self.query.namespace.0.cast_signed()), "int4");
            match *scope {
                "open" => sql.push(&format!(" AND v.ended = {OPEN}")),
                "since" => sql.push(" AND v.ended > ").bind_int(as_of).push(&format!(" AND v.ended < {OPEN}")),
                "closed" => sql.push(" AND v.ended <= ").bind_int(as_of).push(&format!(" AND v.ended < {OPEN}")),
                _ => sql.push(" AND false"),
            };
            if let Some(after) = after {
                if *scope != "closed" {
                    sql.push(" AND (v.start_time, v.run_key) < (").bind_int(after.start_time).push(", ");
                    sql.bind_int(key(after)).push(")");
                } else if let Some(closed) = after.closed {
                    sql.push(" AND (v.ended, v.start_time, v.run_key) < (").bind_int(closed).push(", ");
                    sql.bind_int(after.start_time).push(", ").bind_int(key(after)).push(")");
                }
            }
            self.condition.push(sql, self.query.namespace);
            if let Some(attribute) = absent {
                sql.push(" AND ");
                self.push_order_value(sql, attribute);
                sql.push(" IS NULL");
            }
            sql.push(" ORDER BY ").push(order).push(" LIMIT ").bind_int(bound(limit)).push(")");
        }
        sql.push(") v ORDER BY ");
        self.push_age(sql);
        sql.push(" DESC, v.start_time DESC, v.run_key DESC LIMIT ").bind_int(bound(limit));
    }

    /// Runs that have the attribute of the order, by its value.
    fn by_value(&self, sql: &mut Sql, attribute: Attribute, after: Option<&Cursor>, limit: usize) {
        let descending = matches!(self.query.order, Order::Descending(_));
        let columns = columns();
        sql.push(&format!("SELECT {columns} FROM segno.runs v WHERE v.namespace = "));
        sql.bind(Box::new(self.query.namespace.0.cast_signed()), "int4").push(" AND ");
        self.push_order_value(sql, attribute);
        sql.push(" IS NOT NULL");
        self.condition.push(sql, self.query.namespace);
        if let Some(after) = after {
            let value = after.value.as_ref().and_then(|value| filter::parameter(attribute, value));
            let Some((value, kind)) = value else {
                // A place without a value of this attribute has nothing after it.
                sql.push(" AND false ORDER BY 1 LIMIT ").bind_int(bound(limit));
                return;
            };
            sql.push(" AND (");
            self.push_order_value(sql, attribute);
            sql.push(", ");
            self.push_age(sql);
            sql.push(", v.start_time, v.run_key) ").push(if descending { "<" } else { ">" }).push(" (");
            sql.bind(value, kind).push(", ").bind_int(after.closed.unwrap_or(OPEN)).push(", ");
            sql.bind_int(after.start_time).push(", ").bind_int(key(after)).push(")");
        }
        let direction = if descending { " DESC" } else { "" };
        sql.push(" ORDER BY ");
        self.push_order_value(sql, attribute);
        sql.push(direction).push(", ");
        self.push_age(sql);
        sql.push(&format!("{direction}, v.start_time{direction}, v.run_key{direction} LIMIT "));
        sql.bind_int(bound(limit));
    }

    /// When a run closed, as of the first page.
    fn push_age(&self, sql: &mut Sql) {
        sql.push("(CASE WHEN v.ended > ").bind_int(self.query.as_of).push(&format!(" THEN {OPEN} ELSE v.ended END)"));
    }

    /// The value that the order goes by: what a close since the first page set is not seen.
    fn push_order_value(&self, sql: &mut Sql, attribute: Attribute) {
        let as_of = self.query.as_of;
        if attribute.is_set_by_close() {
            sql.push("(CASE WHEN v.ended <= ").bind_int(as_of).push(" THEN ");
            filter::push_value(sql, attribute);
            sql.push(" END)");
        } else if attribute == Attribute::ExecutionStatus {
            sql.push("(CASE WHEN v.ended > ").bind_int(as_of);
            sql.push(&format!(" AND v.ended < {OPEN} THEN 1 ELSE v.status END)::int8"));
        } else {
            filter::push_value(sql, attribute);
        }
    }
}

/// One damaged run does not hide the others of its page.
fn listed(key: RunKey, state: Result<Bytes, ReadError>) -> Result<ListedRun, ListError> {
    match state {
        Err(error) if !matches!(error, ReadError::Damaged(_)) => Err(error.into()),
        state => Ok(ListedRun { key, state }),
    }
}

fn fits(rest: &[&Filter], row: &VisibilityRow) -> bool {
    rest.iter().all(|part| part.evaluate(row) == Some(true))
}

fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn key(cursor: &Cursor) -> i64 {
    i64::try_from(cursor.key.0).unwrap_or(i64::MAX)
}

struct Counter<'a> {
    namespace: NamespaceKey,
    filter: &'a Filter,
    condition: Condition<'a>,
    group_by: Option<Attribute>,
    limit: &'a ReadLimit,
}

impl Question for Counter<'_> {
    type Answer = Vec<Count>;

    async fn answer(&self, session: &Session) -> Result<Vec<Count>, ListError> {
        let everything = *self.filter == Filter::All(Vec::new());
        let by_status = self.group_by == Some(Attribute::ExecutionStatus);
        let namespace = self.namespace.0.cast_signed();
        let mut sql = Sql::default();
        if self.condition.rest.is_empty() && (by_status || self.group_by.is_none()) {
            if everything {
                sql.push("SELECT status, sum(runs)::int8 FROM segno.status_counts WHERE namespace = ");
                sql.bind(Box::new(namespace), "int4").push(" GROUP BY status HAVING sum(runs) <> 0");
            } else {
                sql.push("SELECT v.status, count(*) FROM segno.runs v WHERE v.namespace = ");
                sql.bind(Box::new(namespace), "int4");
                self.condition.push(&mut sql, self.namespace);
                sql.push(" GROUP BY v.status");
            }
            let rows = ask(session, &sql, self.limit).await?;
            let groups = rows.iter().map(|row| (row.get::<_, i16>(0), row.get::<_, i64>(1).unsigned_abs()));
            if !by_status {
                return Ok(vec![Count { group: None, runs: groups.map(|(_, runs)| runs).sum() }]);
            }
            let count = |(status, runs): (i16, u64)| Count { group: Some(Value::Int(status.into())), runs };
            let mut counts: Vec<_> = groups.map(count).collect();
            sort_counts(&mut counts);
            return Ok(counts);
        }
        self.count_rows(session).await
    }
}

impl Counter<'_> {
    /// Looks at every run that SQL finds.
    async fn count_rows(&self, session: &Session) -> Result<Vec<Count>, ListError> {
        let (mut total, mut groups, mut last) = (0, Vec::<Count>::new(), -1_i64);
        loop {
            let mut sql = Sql::default();
            sql.push(&format!("SELECT {} FROM segno.runs v WHERE v.namespace = ", facts::COLUMNS));
            sql.bind(Box::new(self.namespace.0.cast_signed()), "int4").push(" AND v.run_key > ").bind_int(last);
            self.condition.push(&mut sql, self.namespace);
            sql.push(" ORDER BY v.run_key LIMIT ").bind_int(bound(8 * CHUNK));
            let rows = ask(session, &sql, self.limit).await?;
            for row in &rows {
                last = row.get(0);
                let row = facts::of(row, 0)?;
                if !fits(&self.condition.rest, &row) {
                    continue;
                }
                total += 1;
                let Some(attribute) = self.group_by else { continue };
                let value = row.value(attribute);
                let same = |count: &&mut Count| match (&count.group, &value) {
                    (Some(one), Some(two)) => one.compare(two).is_some_and(|order| order.is_eq()),
                    (one, two) => one.is_none() && two.is_none(),
                };
                match groups.iter_mut().find(same) {
                    Some(count) => count.runs += 1,
                    None => groups.push(Count { group: value, runs: 1 }),
                }
            }
            self.limit.check()?;
            if rows.len() < 8 * CHUNK {
                break;
            }
        }
        if self.group_by.is_none() {
            return Ok(vec![Count { group: None, runs: total }]);
        }
        sort_counts(&mut groups);
        Ok(groups)
    }
}
