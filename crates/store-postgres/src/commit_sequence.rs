//! A commit sequence: a connection that writes, with a row in the database that numbers its groups.
//!
//! Every group moves that row from n-1 to n in the statement that stores the group. A node that fences this one deletes
//! the row first, so that no later group of this node is accepted. A group whose answer was lost is settled by an empty
//! group under the same number: if that is accepted, the lost one can never be committed; if the number is used, it was
//! committed.
//!
//! What holds: [`CommitSequence::commit`] answers `Ok` only for groups that the database acknowledged, or that were settled as
//! committed and confirmed by a later group. It answers [`CommitError::NotDone`] only for groups that were not and
//! never will be committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use segno_store::{Commit, CommitError, sabotage};
use tokio_postgres::error::{Severity, SqlState};

use crate::connect::{Common, Link, Purpose, Session, WAIT_MAX, describe, is_connection_lost};
use crate::group::{Arrays, Head};
use crate::normal::{Normal, waves};

/// A group without an answer for so long is settled on a new connection.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Between two attempts to settle.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// How often a group is made again because the database said that it collided with another transaction.
const COLLISIONS_MAX: usize = 5;

/// The counters of a commit sequence.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Groups that were written.
    pub(crate) groups: AtomicU64,
    /// Groups without an answer that had happened.
    pub(crate) settled_done: AtomicU64,
    /// Groups without an answer that had not.
    pub(crate) settled_not_done: AtomicU64,
}

pub(crate) struct CommitSequence {
    link: Link,
    common: Arc<Common>,
    node: i64,
    /// Its number at the node: the column `lane`.
    number: i32,
    slot: i16,
    state: tokio::sync::Mutex<State>,
    /// `last` of the state, for callers that must not wait for a group under way.
    acknowledged: Arc<AtomicI64>,
    pub(crate) counters: Counters,
}

struct State {
    /// The number of the last group that is known to be done or void.
    last: i64,
    /// The connection whose row was compared with `last`.
    session: Option<Arc<Session>>,
    /// Once fenced or lost, nothing is written.
    over: Option<CommitError>,
}

impl State {
    fn is_connected(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_usable())
    }
}

/// The database knows fewer groups than it acknowledged.
pub(crate) fn lost(acknowledged: i64, found: i64) -> CommitError {
    CommitError::Lost(format!("group {acknowledged} was acknowledged, the database knows {found}"))
}

/// The outcome of a group that was settled.
enum GroupOutcome {
    Done,
    NotDone,
}

impl CommitSequence {
    /// The number of the last acknowledged group is kept in `acknowledged`.
    pub(crate) fn new(common: Arc<Common>, node: i64, number: i32, slot: i16, acknowledged: Arc<AtomicI64>) -> Self {
        let link = Link::new(common.clone(), Purpose::Commits);
        let state = State { last: 0, session: None, over: None };
        let state = tokio::sync::Mutex::new(state);
        Self { link, common, node, number, slot, state, acknowledged, counters: Counters::default() }
    }

    /// Makes a group durable.
    pub(crate) async fn commit(&self, group: &[Commit]) -> Vec<Result<(), CommitError>> {
        let mut state = self.state.lock().await;
        let mut results: Vec<Option<Result<(), CommitError>>> = vec![None; group.len()];
        let mut commits = Vec::with_capacity(group.len());
        for (place, commit) in group.iter().enumerate() {
            match Normal::of(commit) {
                Ok(normal) => commits.push((place, normal)),
                Err(error) => results[place] = Some(Err(error)),
            }
        }
        for wave in waves(&commits) {
            let outcome = self.write(&mut state, wave).await;
            let refused = matches!(outcome, Err(CommitError::Conflict | CommitError::NotDone(_)));
            if !refused || wave.len() == 1 || !state.is_connected() {
                wave.iter().for_each(|(place, _)| results[*place] = Some(outcome.clone()));
                continue;
            }
            // One by one, so that a commit that cannot be made fails alone.
            let mut away = None;
            for one in wave.chunks(1) {
                let outcome = match &away {
                    Some(error) => Err(CommitError::clone(error)),
                    None => self.write(&mut state, one).await,
                };
                if let Err(error @ CommitError::NotDone(_)) = &outcome
                    && !state.is_connected()
                {
                    // Each would wait for the database as long as this one did.
                    away = Some(error.clone());
                }
                results[one[0].0] = Some(outcome);
            }
        }
        let nothing = || Err(CommitError::Unknown("the group was not made".to_owned()));
        results.into_iter().map(|result| result.unwrap_or_else(nothing)).collect()
    }

    /// One statement.
    async fn write(&self, state: &mut State, wave: &[(usize, Normal<'_>)]) -> Result<(), CommitError> {
        let mut arrays = Arrays::of(wave.iter().map(|(_, normal)| normal))?;
        let mut collisions = 0;
        loop {
            let session = self.session(state, WAIT_MAX).await?;
            let head = Head { node: self.node, sequence: self.number, group: state.last + 1, slot: self.slot };
            // Nothing is sent before the statement is prepared.
            let statement = match tokio::time::timeout(ANSWER_MAX, session.prepare(arrays.statement())).await {
                Ok(Ok(statement)) => statement,
                Ok(Err(error)) if !is_connection_lost(&error) && session.is_usable() => {
                    return Err(CommitError::NotDone(describe(&error)));
                }
                Ok(Err(_)) | Err(_) => {
                    session.give_up();
                    collisions += 1;
                    if collisions > COLLISIONS_MAX {
                        return Err(CommitError::NotDone("the database does not answer".to_owned()));
                    }
                    continue;
                }
            };
            session.take_warning();
            let parameters = arrays.parameters(&head);
            let answer = tokio::time::timeout(ANSWER_MAX, session.client.query_one(&statement, &parameters)).await;
            let error = match answer {
                Ok(Ok(_)) if !session.take_warning() || sabotage::is_on("ignore-warning") => {
                    self.advance(state, head.group);
                    self.counters.groups.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                // A wait for a standby that was given up is answered as a success, with a warning.
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            let refusal = error.as_ref().and_then(|error| error.as_db_error()).filter(|refusal| {
                // An error undoes the statement. What ends the connection says nothing about it, be it the server or a
                // pooler, of which older ones call that an error like any other.
                let code = refusal.code().code();
                refusal.parsed_severity() == Some(Severity::Error) && !code.starts_with("57") && !code.starts_with("08")
            });
            let Some(refusal) = refusal else {
                session.give_up();
                if sabotage::is_on("unknown-is-not-done") {
                    return self.call_not_done(state).await;
                }
                return match self.settle(state, head.group).await? {
                    GroupOutcome::Done => Ok(()),
                    GroupOutcome::NotDone => {
                        let why = error.as_ref().map_or_else(|| "its answer was lost".to_owned(), describe);
                        Err(CommitError::NotDone(why))
                    }
                };
            };
            match refusal.code() {
                &SqlState::DIVISION_BY_ZERO => {
                    // The row says why: a new connection compares it.
                    session.give_up();
                    self.session(state, WAIT_MAX).await?;
                    return Err(CommitError::NotDone("the row of the commit sequence did not fit".to_owned()));
                }
                &SqlState::INVALID_ARGUMENT_FOR_LOG | &SqlState::UNIQUE_VIOLATION => {
                    return Err(CommitError::Conflict);
                }
                // Nothing was done. It is a conflict if the form that removes them says so, too.
                &SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION if !arrays.has_entries() => arrays.remove_entries(),
                &SqlState::DISK_FULL => return Err(CommitError::Full),
                &SqlState::READ_ONLY_SQL_TRANSACTION => {
                    // A primary that became a standby.
                    session.give_up();
                    return Err(CommitError::NotDone("the database is read-only".to_owned()));
                }
                code if code.code().starts_with("40") || code.code() == "26000" => {
                    collisions += 1;
                    if code.code() == "26000" {
                        session.give_up();
                    }
                    if collisions > COLLISIONS_MAX {
                        return Err(CommitError::NotDone(refusal.message().to_owned()));
                    }
                }
                _ => {
                    return Err(CommitError::NotDone(format!(
                        "{} (SQLSTATE {})",
                        refusal.message(),
                        refusal.code().code()
                    )));
                }
            }
        }
    }

    /// A group is done or void, and the database has acknowledged that.
    fn advance(&self, state: &mut State, group: i64) {
        state.last = group;
        self.acknowledged.store(group, Ordering::Release);
    }

    /// The connection. A new one is used only after the commit sequence's row was found to say what it must.
    async fn session(&self, state: &mut State, patience: Duration) -> Result<Arc<Session>, CommitError> {
        if let Some(over) = &state.over {
            return Err(over.clone());
        }
        if let Some(session) = state.session.as_ref().filter(|session| session.is_usable()) {
            return Ok(session.clone());
        }
        state.session = None;
        let unreachable = |why: String| CommitError::NotDone(format!("the database cannot be reached: {why}"));
        let session = self.link.session(patience).await.map_err(|error| unreachable(error.to_string()))?;
        match self.row(&session).await {
            Ok(Some((last, _))) if last == state.last => {
                state.session = Some(session.clone());
                Ok(session)
            }
            Ok(found) => Err(self.end(state, found.map(|(last, _)| last))),
            Err(error) => {
                session.give_up();
                Err(unreachable(error))
            }
        }
    }

    /// The row's numbers: of the last group, and of the last one that was void.
    async fn row(&self, session: &Session) -> Result<Option<(i64, i64)>, String> {
        let select = "SELECT last_group, voided FROM segno.lanes WHERE node = $1 AND lane = $2";
        let read = async {
            let statement = session.prepare(select).await?;
            session.client.query_opt(&statement, &[&self.node, &self.number]).await
        };
        match tokio::time::timeout(ANSWER_MAX, read).await {
            Ok(Ok(row)) => Ok(row.map(|row| (row.get(0), row.get(1)))),
            Ok(Err(error)) => Err(describe(&error)),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    /// The commit sequence's row is gone or does not say what was acknowledged: nothing is written.
    fn end(&self, state: &mut State, found: Option<i64>) -> CommitError {
        let error = match found {
            None => CommitError::Fenced,
            Some(found) => lost(state.last, found),
        };
        tracing::error!(node = self.node, sequence = self.number, %error, "this commit sequence has stopped writing");
        state.session = None;
        state.over = Some(error.clone());
        error
    }

    /// Finds out whether an unanswered group happened, and makes sure that it cannot happen later. Ends only when that is
    /// known, or when the store is closed.
    async fn settle(&self, state: &mut State, group: i64) -> Result<GroupOutcome, CommitError> {
        state.session = None;
        tracing::warn!(node = self.node, sequence = self.number, group, "a group has no answer and is being settled");
        loop {
            if self.common.closing.load(Ordering::Acquire) {
                return Err(CommitError::Unknown("the server stopped before the answer was known".to_owned()));
            }
            let Ok(session) = self.link.session(WAIT_MAX).await else { continue };
            let Ok(void) = self.void(&session, group).await else {
                session.give_up();
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            };
            if void {
                self.advance(state, group);
                state.session = Some(session);
                return Ok(self.settled(group, GroupOutcome::NotDone));
            }
            let found = match self.row(&session).await {
                // The number was used up by an empty group of ours whose answer was lost.
                Ok(Some((last, voided))) if last == group && voided == group => GroupOutcome::NotDone,
                Ok(Some((last, _))) if last == group => GroupOutcome::Done,
                // Another transaction held the row for a moment.
                Ok(Some((last, _))) if last == group - 1 => continue,
                Ok(found) => return Err(self.end(state, found.map(|(last, _)| last))),
                Err(_) => {
                    session.give_up();
                    continue;
                }
            };
            // Whichever it is, it was not acknowledged yet: a failover may undo it. When the next one returns,
            // everything before it is where the database keeps it.
            if self.confirm(state, group).await? {
                return Ok(self.settled(group, found));
            }
            tracing::warn!(node = self.node, sequence = self.number, group, "a failover undid it: it is settled again");
        }
    }

    /// Counts what was found out.
    fn settled(&self, group: i64, found: GroupOutcome) -> GroupOutcome {
        let (counter, what) = match found {
            GroupOutcome::Done => (&self.counters.settled_done, "it happened"),
            GroupOutcome::NotDone => (&self.counters.settled_not_done, "it did not happen"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        tracing::info!(node = self.node, sequence = self.number, group, "{what}");
        found
    }

    /// The fault that harnesses must catch: a group without an answer is taken for one that did not happen.
    async fn call_not_done(&self, state: &mut State) -> Result<(), CommitError> {
        state.session = None;
        loop {
            let Ok(session) = self.link.session(WAIT_MAX).await else { continue };
            match self.row(&session).await {
                Ok(Some((last, _))) => {
                    state.last = last;
                    return Err(CommitError::NotDone("its answer was lost".to_owned()));
                }
                Ok(None) => return Err(self.end(state, None)),
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    /// Commits an empty group; whether the number was still free.
    async fn void(&self, session: &Session, group: i64) -> Result<bool, ()> {
        let update = "UPDATE segno.lanes SET last_group = $3, voided = $3 \
                      WHERE node = $1 AND lane = $2 AND last_group = $3::int8 - 1";
        let write = async {
            let statement = session.prepare(update).await?;
            session.client.execute(&statement, &[&self.node, &self.number, &group]).await
        };
        session.take_warning();
        match tokio::time::timeout(ANSWER_MAX, write).await {
            Ok(Ok(rows)) if !session.take_warning() => Ok(rows == 1),
            Ok(Ok(_)) | Err(_) => Err(()),
            Ok(Err(error)) => {
                tracing::warn!(sequence = self.number, group, "not settled yet: {}", describe(&error));
                Err(())
            }
        }
    }

    /// Commits an empty group after this one, however often that takes. `false` if this one is gone: it was done on a primary
    /// that had not handed it to the standby which then took its place. It was not acknowledged.
    async fn confirm(&self, state: &mut State, group: i64) -> Result<bool, CommitError> {
        let mut next = group + 1;
        loop {
            if self.common.closing.load(Ordering::Acquire) {
                return Err(CommitError::Unknown("the server stopped before the answer was known".to_owned()));
            }
            let Ok(session) = self.link.session(WAIT_MAX).await else { continue };
            let row = match self.void(&session, next).await {
                Ok(true) => {
                    self.advance(state, next);
                    state.session = Some(session);
                    return Ok(true);
                }
                Ok(false) => self.row(&session).await,
                Err(()) => Err(String::new()),
            };
            match row {
                // An empty group whose answer was lost confirms nothing: the next one does. A failover may have undone it.
                Ok(Some((last, _))) if last >= group && last <= next => next = last + 1,
                Ok(Some((last, _))) if last == group - 1 => return Ok(false),
                Ok(found) => return Err(self.end(state, found.map(|(last, _)| last))),
                Err(_) => {
                    session.give_up();
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Waits for what is under way; nothing is written afterwards.
    pub(crate) async fn finish(&self) {
        let mut state = self.state.lock().await;
        state.over.get_or_insert(CommitError::Unknown(
            "refused, nothing was changed: the server is shutting down".to_owned(),
        ));
        state.session = None;
    }

    /// Whether the commit sequence writes nothing, and why.
    pub(crate) async fn over(&self) -> Option<CommitError> {
        self.state.lock().await.over.clone()
    }
}
