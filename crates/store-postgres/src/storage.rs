//! The store: its connections, and the contract on top of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use segno_store::cluster::Membership;
use segno_store::visibility::{Attribute, Count, Filter, ListPage, ListQuery, VisibilityRow};
use segno_store::{
    Answer, Commit, CommitError, Document, HistoryBatch, NamespaceKey, NamespaceRecord, OpenRun, OutboxKey, OutboxRow,
    Read, ReadError, ReadLimit, RunKey, RunRecord, Store, Write,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::commit_sequence::CommitSequence;
use crate::connect::{CONNECT_MAX, Common, Link, Purpose, WAIT_MAX, check_pooler, configure, late};
use crate::gather::Gather;
use crate::membership::{self, Members, NodePlace};
use crate::{OpenError, list, read, schema};

/// Connections for lists and scans.
const LISTS: usize = 2;
/// How long a node that shows no sign of life keeps its place, unless something else is set.
pub const LEASE: Duration = Duration::from_secs(6);
/// How long a clean stop waits for the database.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// Options of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of this node, as shown to people.
    pub node_name: String,
    /// Where other nodes reach this one; empty if there are none.
    pub node_address: String,
    /// How long a node that shows no sign of life keeps its place.
    pub lease: Duration,
    /// Only reads or fills the database: no part of the work is given to it.
    pub visits: bool,
    /// The certificate that this node shows to other nodes, DER; empty if there are none.
    pub certificate: Vec<u8>,
    /// Take `synchronous_commit` as the database has it: acknowledged commits may be lost.
    pub may_lose_commits: bool,
}

impl Default for Options {
    fn default() -> Self {
        let (node_name, node_address) = ("segno".to_owned(), String::new());
        Self { node_name, node_address, lease: LEASE, visits: false, certificate: Vec::new(), may_lose_commits: false }
    }
}

/// The counters of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Statements that stored changes.
    pub groups: u64,
    /// Unanswered groups that turned out to have happened.
    pub settled_done: u64,
    /// Unanswered groups that did not happen.
    pub settled_not_done: u64,
    /// Connections that were made again.
    pub reconnects: u64,
}

struct Inner {
    runtime: Handle,
    common: Arc<Common>,
    place: NodePlace,
    commits: CommitSequence,
    reader: Arc<Link>,
    lists: Vec<(tokio::sync::Mutex<()>, Link)>,
    next_list: AtomicUsize,
    gather: Gather,
    /// Notified when the node has lost its place.
    over: Arc<Notify>,
    fenced: Arc<AtomicBool>,
    members: Arc<Members>,
}

/// A [`Store`] on PostgreSQL.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PostgresStore").field("place", &self.inner.place).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects, checks the settings, brings the tables up to date and takes this node's place. Work goes on in tasks of the
    /// runtime that calls this.
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let (hosts, tls) = configure(url, &options.node_name)?;
        let common = Arc::new(Common {
            hosts,
            first: AtomicUsize::new(0),
            tls,
            may_lose_commits: options.may_lose_commits,
            closing: AtomicBool::new(false),
            reconnects: AtomicU64::new(0),
        });
        let lists: Vec<_> =
            (0..LISTS).map(|_| (tokio::sync::Mutex::new(()), Link::new(common.clone(), Purpose::Lists))).collect();
        // Migrations need plans of any kind. What is refused is refused at once.
        let session = lists[0].1.first_session().await?;
        let other = lists[1].1.first_session().await?;
        let checked = tokio::time::timeout(CONNECT_MAX, check_pooler(&session.client, &other.client)).await;
        checked.unwrap_or_else(|_| Err(late()))?;
        schema::migrate(&session.client).await?;
        let place = membership::join(&session.client, &options).await?;
        warn_of_failover(&session.client).await;
        let reader = Arc::new(Link::new(common.clone(), Purpose::Reader));
        let acknowledged = Arc::new(AtomicI64::new(0));
        let commits = CommitSequence::new(common.clone(), place.node, 0, place.slot, acknowledged.clone());
        let gather = Gather::start(Arc::new(Link::new(common.clone(), Purpose::Reader)));
        let (over, fenced) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let members = Arc::new(Members::new(common.clone(), place, options.lease, reader.clone(), acknowledged));
        let (told, mark) = (over.clone(), fenced.clone());
        let beating = members.clone();
        let beating = tokio::spawn(async move { beating.run().await });
        tokio::spawn(async move {
            // Without beats another node takes the place: a panic of the loop ends this one as a fence does.
            if !matches!(beating.await, Ok(false)) {
                mark.store(true, Ordering::Release);
                told.notify_waiters();
            }
        });
        let runtime = Handle::current();
        let next_list = AtomicUsize::new(0);
        let inner = Inner { runtime, common, place, commits, reader, lists, next_list, gather, over, fenced, members };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Waits until this node may not write; says why.
    pub async fn ended(&self) -> CommitError {
        loop {
            let told = self.inner.over.notified();
            if let Some(why) = self.inner.members.lost() {
                return why;
            }
            // The commit sequence may be busy finding out the same.
            if let Ok(Some(why)) = tokio::time::timeout(Duration::from_millis(200), self.inner.commits.over()).await {
                return why;
            }
            if self.inner.fenced.load(Ordering::Acquire) {
                // The beat may have found out more while the commit sequence was asked.
                return self.inner.members.lost().unwrap_or(CommitError::Fenced);
            }
            let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
        }
    }

    /// The last beat that the database answered.
    pub fn beat(&self) -> i64 {
        self.inner.members.beat()
    }

    /// The counters since the store was opened.
    pub fn statistics(&self) -> Statistics {
        let counters = &self.inner.commits.counters;
        Statistics {
            groups: counters.groups.load(Ordering::Relaxed),
            settled_done: counters.settled_done.load(Ordering::Relaxed),
            settled_not_done: counters.settled_not_done.load(Ordering::Relaxed),
            reconnects: self.inner.common.reconnects.load(Ordering::Relaxed),
        }
    }

    /// Gives up the node's place, so that the next server starts without waiting. What is under way is finished first if it
    /// has an answer soon.
    pub async fn close(self) {
        let inner = self.inner;
        let leave = async {
            inner.commits.finish().await;
            let session = inner.reader.session(LEAVE_MAX).await.ok()?;
            inner.common.closing.store(true, Ordering::Release);
            membership::leave(&session.client, inner.place.node).await.ok()
        };
        if tokio::time::timeout(LEAVE_MAX, leave).await.ok().flatten().is_none() {
            tracing::warn!("the database did not answer; the next server waits for this one's beat to stand still");
        }
        inner.common.closing.store(true, Ordering::Release);
    }

    /// Whether no other node is on the database.
    pub async fn is_alone(&self) -> bool {
        let (_, map) = self.inner.members.next_map(0).await;
        map.members.len() == 1
    }

    /// Nothing of this store is used; its place is gone already.
    pub fn abandon(self) {
        self.inner.common.closing.store(true, Ordering::Release);
    }

    /// Executes a future in a task of the store's own runtime, independent of the task that polls the answer.
    fn spawn<T: Send + 'static, E: From<StoreStopped> + Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Answer<Result<T, E>> {
        let task = self.inner.runtime.spawn(work);
        Box::pin(async move { task.await.unwrap_or_else(|_| Err(StoreStopped.into())) })
    }

    fn reader(&self) -> Arc<Link> {
        self.inner.reader.clone()
    }
}

/// The runtime of the store is gone.
struct StoreStopped;

/// The error of a read once the runtime of the store is gone.
pub(crate) fn stopped() -> ReadError {
    ReadError::Failed("the server is shutting down".to_owned())
}

/// A [`ReadError`] or [`CommitError`] of a store whose runtime is gone.
#[derive(Debug)]
struct StoppedError<E>(E);

impl From<StoreStopped> for StoppedError<ReadError> {
    fn from(_: StoreStopped) -> Self {
        Self(stopped())
    }
}

impl From<StoreStopped> for StoppedError<CommitError> {
    fn from(_: StoreStopped) -> Self {
        Self(CommitError::Unknown("the server is shutting down".to_owned()))
    }
}

/// Says what a failover may lose.
async fn warn_of_failover(client: &tokio_postgres::Client) {
    let names = client.query_one("SELECT current_setting('synchronous_standby_names')", &[]).await;
    if names.is_ok_and(|row| row.get::<_, String>(0).is_empty()) {
        tracing::info!(
            "synchronous_standby_names is empty: a failover to a standby may lose the last commits; Segno will notice and \
             say so"
        );
    }
}

/// Reads in a task.
macro_rules! reading {
    ($self:ident, |$link:ident| $read:expr) => {{
        let $link = $self.reader();
        let answer = $self.spawn(async move { $read.await.map_err(StoppedError::<ReadError>) });
        Box::pin(async move { answer.await.map_err(|StoppedError(error)| error) })
    }};
}

/// Writes in a task.
macro_rules! writing {
    ($self:ident, |$link:ident| $write:expr) => {{
        let $link = $self.reader();
        let answer = $self.spawn(async move { $write.await.map_err(StoppedError::<CommitError>) });
        Box::pin(async move { answer.await.map_err(|StoppedError(error)| error) })
    }};
}

impl Store for PostgresStore {
    fn kind(&self) -> &'static str {
        "postgresql"
    }

    fn is_embedded(&self) -> bool {
        false
    }

    fn membership(&self) -> Option<Arc<dyn Membership>> {
        Some(self.inner.members.clone())
    }

    fn commit(&self, group: Vec<Commit>) -> Answer<Vec<Result<(), CommitError>>> {
        let (inner, length) = (self.inner.clone(), group.len());
        let task = self.inner.runtime.spawn(async move {
            let results = inner.commits.commit(&group).await;
            if results.iter().any(|result| matches!(result, Err(CommitError::Fenced | CommitError::Lost(_)))) {
                inner.over.notify_waiters();
            }
            results
        });
        let stopped = CommitError::Unknown("the server is shutting down".to_owned());
        Box::pin(async move { task.await.unwrap_or_else(|_| vec![Err(stopped); length]) })
    }

    fn load(&self, key: RunKey) -> Read<Option<RunRecord>> {
        Box::pin(self.inner.gather.clone().load(key))
    }

    fn version(&self, key: RunKey) -> Read<Option<u64>> {
        reading!(self, |link| read::version(&link, key))
    }

    fn load_many(&self, keys: &[RunKey]) -> Answer<Vec<Result<Option<RunRecord>, ReadError>>> {
        let (keys, length) = (keys.to_vec(), keys.len());
        let answer: Read<_> = reading!(self, |link| read::load_many(&link, &keys));
        Box::pin(async move { answer.await.unwrap_or_else(|error| vec![Err(error); length]) })
    }

    fn current(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunKey>> {
        let answer = self.inner.gather.clone().current(namespace, workflow_id.to_owned());
        Box::pin(async move { Ok(answer.await?.map(|(key, _)| key)) })
    }

    fn current_run(&self, namespace: NamespaceKey, workflow_id: &str) -> Read<Option<RunRecord>> {
        let answer = self.inner.gather.clone().current(namespace, workflow_id.to_owned());
        Box::pin(async move { answer.await?.map_or(Ok(None), |(_, run)| run) })
    }

    fn script_state(&self, key: RunKey, slot: u8) -> Read<Option<Bytes>> {
        reading!(self, |link| read::script_state(&link, key, slot))
    }

    fn document(&self, namespace: NamespaceKey, name: &str) -> Read<Option<Bytes>> {
        let name = name.to_owned();
        reading!(self, |link| read::document(&link, namespace, &name))
    }

    fn documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Read<Vec<Document>> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        reading!(self, |link| read::documents(&link, namespace, &prefix, after.as_deref(), limit))
    }

    fn history(
        &self,
        key: RunKey,
        from: i64,
        until: i64,
        batches_max: usize,
        bytes_max: usize,
    ) -> Read<Vec<HistoryBatch>> {
        reading!(self, |link| read::history(&link, key, from, until, batches_max, bytes_max))
    }

    fn history_reverse(&self, key: RunKey, until: i64, batches_max: usize) -> Read<Vec<HistoryBatch>> {
        reading!(self, |link| read::history_reverse(&link, key, until, batches_max))
    }

    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> Read<Vec<OpenRun>> {
        reading!(self, |link| read::open_runs(&link, None, after, limit))
    }

    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> Read<Vec<OutboxRow>> {
        reading!(self, |link| read::outbox(&link, None, after, limit))
    }

    fn reserve_run_keys(&self, count: u64) -> Write<RunKey> {
        let node = self.inner.place.node;
        writing!(self, |link| read::reserve_run_keys(&link, node, count))
    }

    fn namespaces(&self) -> Read<Vec<NamespaceRecord>> {
        reading!(self, |link| read::namespaces(&link))
    }

    fn create_namespace(&self, namespace: &NamespaceRecord) -> Write<()> {
        let (node, namespace) = (self.inner.place.node, namespace.clone());
        writing!(self, |link| read::create_namespace(&link, node, &namespace))
    }

    fn put_namespace(&self, namespace: &NamespaceRecord) -> Write<()> {
        let (node, namespace) = (self.inner.place.node, namespace.clone());
        writing!(self, |link| read::put_namespace(&link, node, &namespace))
    }

    fn delete_namespace(&self, namespace: NamespaceKey) -> Write<()> {
        let node = self.inner.place.node;
        writing!(self, |link| read::delete_namespace(&link, node, namespace))
    }

    /// Nothing here is older than the facts.
    fn unlisted_runs(&self, _limit: usize) -> Read<Vec<RunKey>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn facts(&self, key: RunKey) -> Read<Option<VisibilityRow>> {
        reading!(self, |link| read::facts(&link, key))
    }

    fn runs_of_workflow(&self, namespace: NamespaceKey, workflow_id: &str, limit: usize) -> Read<Vec<RunKey>> {
        let workflow_id = workflow_id.to_owned();
        reading!(self, |link| read::runs_of_workflow(&link, namespace, &workflow_id, limit))
    }

    fn list_within(&self, query: &ListQuery, limit: &ReadLimit) -> Read<ListPage> {
        let (inner, query, limit) = (self.inner.clone(), query.clone(), limit.clone());
        let answer = self.spawn(async move {
            let (turn, link) = inner.list_link();
            let _turn = acquire_list_connection(turn, &limit).await.map_err(StoppedError)?;
            list::list(link, &query, &limit).await.map_err(StoppedError::<ReadError>)
        });
        Box::pin(async move { answer.await.map_err(|StoppedError(error)| error) })
    }

    fn count_within(
        &self,
        namespace: NamespaceKey,
        filter: &Filter,
        group_by: Option<Attribute>,
        limit: &ReadLimit,
    ) -> Read<Vec<Count>> {
        let (inner, filter, limit) = (self.inner.clone(), filter.clone(), limit.clone());
        let answer = self.spawn(async move {
            let (turn, link) = inner.list_link();
            let _turn = acquire_list_connection(turn, &limit).await.map_err(StoppedError)?;
            list::count(link, namespace, &filter, group_by, &limit).await.map_err(StoppedError::<ReadError>)
        });
        Box::pin(async move { answer.await.map_err(|StoppedError(error)| error) })
    }

    fn closed_runs(&self, namespace: NamespaceKey, closed_before: i64, limit: usize) -> Read<Vec<RunKey>> {
        reading!(self, |link| read::closed_runs(&link, namespace, closed_before, limit))
    }

    fn first_close(&self, namespace: NamespaceKey) -> Read<Option<i64>> {
        reading!(self, |link| read::first_close(&link, namespace))
    }

    fn runs_of(&self, namespace: NamespaceKey, after: Option<RunKey>, limit: usize) -> Read<Vec<RunKey>> {
        reading!(self, |link| read::runs_of(&link, namespace, after, limit))
    }
}

impl Inner {
    /// The connections for lists take turns.
    fn list_link(&self) -> (&tokio::sync::Mutex<()>, &Link) {
        let free = self.lists.iter().find(|(turn, _)| turn.try_lock().is_ok());
        let next = || &self.lists[self.next_list.fetch_add(1, Ordering::Relaxed) % self.lists.len()];
        let (turn, link) = free.unwrap_or_else(next);
        (turn, link)
    }
}

/// Waits for a connection as long as the read's limit and the database's absence allow.
async fn acquire_list_connection<'a>(
    turn: &'a tokio::sync::Mutex<()>,
    limit: &ReadLimit,
) -> Result<tokio::sync::MutexGuard<'a, ()>, ReadError> {
    let until = tokio::time::Instant::now() + WAIT_MAX * 3;
    loop {
        if let Ok(turn) = tokio::time::timeout(Duration::from_millis(20), turn.lock()).await {
            return Ok(turn);
        }
        limit.check()?;
        if tokio::time::Instant::now() >= until {
            return Err(ReadError::Failed("too many lists wait for the database".to_owned()));
        }
    }
}
