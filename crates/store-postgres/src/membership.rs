//! A node's membership in the database: its row, its commit sequences, its beat, and the shards that it owns.
//!
//! Membership does not depend on clocks of several machines. A node increments a beat in its row; another one fences it
//! when that number did not change for a lease of its own time, during which its own beats succeeded. A fence deletes
//! the row and the commit sequences of a node in one statement, and from then on its writes are refused. A shard whose owner has
//! no row has no owner.
//!
//! A beat also compares documents: their stored revision (`segno.revision`, and `segno.cluster.namespaces`, which older
//! versions increment as well) with the one that this node has in memory, which it publishes in `segno.node_revisions`.
//!
//! What holds: a group that the database accepts was made while its node had its row, because the commit sequences are deleted
//! with the row; a shard has a new owner only after the old one gave it away or lost its row. See
//! [`segno_store::cluster`].

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use segno_store::cluster::{ClusterMap, Member, Membership, NodeId, Revisions, SHARDS, Shard, TimeReading};
use segno_store::{Answer, CommitError, OpenRun, OutboxKey, OutboxRow, Read, RunKey, sabotage};
use tokio::sync::{Notify, watch};
use tokio::{runtime::Handle, time::Instant};
use tokio_postgres::{Client, Row};

use crate::connect::{Common, Link, Purpose, describe, failed};
use crate::{OpenError, Options, commit_sequence, read};
use segno_store::lock::lock;

/// A node beats this many times within its lease.
const BEATS_OF_LEASE: u32 = 6;
/// A node beats at least this often, however long its lease is: a start relies on it.
const BEAT_MAX: Duration = Duration::from_secs(1);
/// At a start, a node of the same name whose beat stood still for so long is gone: more than two beats.
const STALE_AFTER: Duration = Duration::from_millis(2_500);
/// How often a start reads that beat.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long a start waits for a node of the same name that is about to go.
const LEAVE_MAX: Duration = Duration::from_secs(45);
/// A beat without an answer for so long is given up with its connection.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Nanoseconds of the database's clock since the epoch. It goes on during a transaction.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1e9)::int8";
/// The revision of the stored documents and namespaces; with tables `r` and `c`.
const REVISION: &str = "r.revision + c.namespaces";
/// The format of what this binary stores.
const FORMAT: i32 = 1;

/// A node's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodePlace {
    pub(crate) node: i64,
    pub(crate) slot: i16,
    pub(crate) secret: [u8; 16],
    /// The revision of the stored documents, of which none was read before.
    pub(crate) revision: i64,
    /// The reading of the database's clock.
    pub(crate) time: TimeReading,
}

/// Takes a place, once no other node of this name is alive.
pub(crate) async fn join(client: &Client, options: &Options) -> Result<NodePlace, OpenError> {
    let name = options.node_name.as_str();
    let began = Instant::now();
    let mut seen = namesake(client, name).await?;
    if seen.is_some() {
        tracing::info!("a node of this name was on this database; waiting whether it is alive");
    }
    let mut since = began;
    while let Some(before) = seen.filter(|_| since.elapsed() < STALE_AFTER) {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = namesake(client, name).await?;
        if let Some(alive) = now.filter(|now| now.beat != before.beat || now.node != before.node) {
            // One that is about to go is waited for: it may be this very node's last life.
            if !alive.leaving || began.elapsed() > LEAVE_MAX {
                return Err(OpenError::OtherNode { name: name.to_owned() });
            }
            since = Instant::now();
        }
        seen = now;
    }
    let result = take_place(client, options, seen).await;
    if result.is_err() {
        let _ = client.batch_execute("ROLLBACK").await;
    }
    result
}

/// Another node of the same name.
#[derive(Clone, Copy)]
struct Namesake {
    node: i64,
    beat: i64,
    leaving: bool,
}

async fn namesake(client: &Client, name: &str) -> Result<Option<Namesake>, OpenError> {
    let select = "SELECT node, beat, leaving FROM segno.nodes WHERE name = $1";
    let row = client.query_opt(select, &[&name]).await.map_err(failed)?;
    Ok(row.map(|row| Namesake { node: row.get(0), beat: row.get(1), leaving: row.get(2) }))
}

async fn take_place(client: &Client, options: &Options, gone: Option<Namesake>) -> Result<NodePlace, OpenError> {
    let name = options.node_name.as_str();
    client.batch_execute("BEGIN").await.map_err(failed)?;
    let row = client.query_one("SELECT format, secret FROM segno.cluster FOR UPDATE", &[]).await.map_err(failed)?;
    let (format, secret): (i32, &[u8]) = (row.get(0), row.get(1));
    let secret = secret.try_into().map_err(|_| OpenError::Migration("the cluster has no secret".to_owned()))?;
    if format > FORMAT {
        return Err(OpenError::NewerFormat { found: format, known: FORMAT });
    }
    if let Some(Namesake { node, beat, .. }) = gone {
        // If it beats again, it came back.
        client
            .execute("DELETE FROM segno.nodes WHERE node = $1 AND beat = $2", &[&node, &beat])
            .await
            .map_err(failed)?;
    }
    if namesake(client, name).await?.is_some() {
        return Err(OpenError::OtherNode { name: name.to_owned() });
    }
    // Waits for a group under way; none follows.
    let orphans = "DELETE FROM segno.lanes WHERE node NOT IN (SELECT node FROM segno.nodes)";
    client.execute(orphans, &[]).await.map_err(failed)?;
    let node: i64 = client
        .query_one("UPDATE segno.cluster SET next_node = next_node + 1, map = map + 1 RETURNING next_node - 1", &[])
        .await
        .map_err(failed)?
        .get(0);
    let insert = "INSERT INTO segno.nodes (node, name, address, version, format, beat, leaving, certificate) \
                  VALUES ($1, $2, $3, $4, $5, 0, $6, $7)";
    let version = env!("CARGO_PKG_VERSION");
    let (address, visits, certificate) = (&options.node_address, options.visits, &options.certificate);
    client.execute(insert, &[&node, &name, address, &version, &FORMAT, &visits, certificate]).await.map_err(failed)?;
    let insert = "INSERT INTO segno.lanes (node, lane, slot, last_group) SELECT $1, 0, min(free), 0 \
                  FROM generate_series(0, 32000) AS free WHERE free NOT IN (SELECT slot FROM segno.lanes) RETURNING slot";
    let slot: i16 = client.query_one(insert, &[&node]).await.map_err(failed)?.get(0);
    let select = format!("SELECT {REVISION} FROM segno.revision r, segno.cluster c");
    let revision: i64 = client.query_one(&select, &[]).await.map_err(failed)?.get(0);
    let orphans = "DELETE FROM segno.node_revisions WHERE node NOT IN (SELECT node FROM segno.nodes)";
    client.execute(orphans, &[]).await.map_err(failed)?;
    client.execute(PUBLISH, &[&node, &revision]).await.map_err(failed)?;
    client.batch_execute("COMMIT").await.map_err(failed)?;
    let asked = Instant::now();
    let database = client.query_one(&format!("SELECT {CLOCK}"), &[]).await.map_err(failed)?.get(0);
    let time = TimeReading { database, asked, answered: Instant::now() };
    Ok(NodePlace { node, slot, secret, revision, time })
}

/// Gives the place back, so that other nodes need not wait.
pub(crate) async fn leave(client: &Client, node: i64) -> Result<(), tokio_postgres::Error> {
    // One message is one transaction.
    client
        .batch_execute(&format!(
            "DELETE FROM segno.nodes WHERE node = {node}; DELETE FROM segno.lanes WHERE node = {node}; \
             DELETE FROM segno.node_revisions WHERE node = {node}; \
             UPDATE segno.cluster SET map = map + 1"
        ))
        .await
}

/// The beats of another node, as this node has seen them.
struct PeerBeats {
    beat: i64,
    /// How long the beat stood still, in time during which this node's own beats succeeded.
    still: Duration,
}

/// A node among others.
pub(crate) struct Members {
    common: Arc<Common>,
    runtime: Handle,
    place: NodePlace,
    lease: Duration,
    /// For claims and hand-overs.
    link: Arc<Link>,
    map: watch::Sender<(u64, Arc<ClusterMap>)>,
    heard: Mutex<Instant>,
    documents: Mutex<Documents>,
    beat: AtomicI64,
    look: Notify,
    /// The first reading of the database's clock, and who hears of further ones.
    first_time: TimeReading,
    time: OnceLock<Box<dyn Fn(TimeReading) + Send + Sync>>,
    suspects: Mutex<HashSet<i64>>,
    /// The last group that this node's commit sequence was told to be done, and what a beat found if the database does not know it.
    acknowledged: Arc<AtomicI64>,
    lost: OnceLock<CommitError>,
}

/// The revision of the documents that this node has in memory.
struct Documents {
    /// Their revision.
    loaded: i64,
    /// The revision that other nodes can see.
    published: i64,
    /// The latest moment at which they are known to have been the newest.
    compared: Instant,
}

/// The outcome of a beat.
enum BeatResult {
    /// This node has its place, among these.
    Members(Vec<Member>),
    /// Its row or its commit sequence is gone.
    Gone,
    /// The database knows fewer groups of the commit sequence than it acknowledged: a failover lost them.
    Lost(CommitError),
}

fn id(node: i64) -> NodeId {
    NodeId(node.cast_unsigned())
}

impl Members {
    pub(crate) fn new(
        common: Arc<Common>,
        place: NodePlace,
        lease: Duration,
        link: Arc<Link>,
        acknowledged: Arc<AtomicI64>,
    ) -> Self {
        let (map, _) = watch::channel((0, Arc::default()));
        Self {
            common,
            runtime: Handle::current(),
            place,
            lease,
            link,
            map,
            heard: Mutex::new(Instant::now()),
            documents: Mutex::new(Documents {
                loaded: place.revision,
                published: place.revision,
                compared: place.time.asked,
            }),
            beat: AtomicI64::new(0),
            look: Notify::new(),
            first_time: place.time,
            time: OnceLock::new(),
            suspects: Mutex::default(),
            acknowledged,
            lost: OnceLock::new(),
        }
    }

    /// The error that a beat found, if the database lost a group.
    pub(crate) fn lost(&self) -> Option<CommitError> {
        self.lost.get().cloned()
    }

    /// The last beat that the database answered.
    pub(crate) fn beat(&self) -> i64 {
        self.beat.load(Ordering::Acquire)
    }

    /// Beats until the node may not go on or the store is closed. `true` if it may not: its row is gone, or the database lost
    /// what it had acknowledged.
    pub(crate) async fn run(&self) -> bool {
        let link = Link::new(self.common.clone(), Purpose::Pulse);
        let pause = (self.lease / BEATS_OF_LEASE).min(BEAT_MAX);
        let mut next = tokio::time::interval(pause);
        next.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut watched: HashMap<i64, PeerBeats> = HashMap::new();
        let mut last = Instant::now();
        let mut suspects_loss = false;
        while !self.common.closing.load(Ordering::Acquire) {
            tokio::select! {
                _ = next.tick() => {}
                () = self.look.notified() => {}
            }
            let Ok(session) = link.session(Duration::from_secs(1)).await else { continue };
            let sent = Instant::now();
            let outcome = tokio::time::timeout(ANSWER_MAX, self.beat_once(&session)).await;
            match outcome {
                Ok(Ok(BeatResult::Members(members))) => {
                    *lock(&self.heard) = sent;
                    suspects_loss = false;
                    // Time that passed without a beat of our own says nothing about others.
                    let passed = sent.saturating_duration_since(last).min(2 * pause);
                    last = sent;
                    for gone in self.watch(&mut watched, &members, passed) {
                        self.declare_gone(&session, gone).await;
                    }
                }
                // The connection may lead to a primary that was replaced: what counts is what a new one finds.
                Ok(Ok(BeatResult::Lost(_))) if !std::mem::replace(&mut suspects_loss, true) => {
                    self.answer_nothing(sent);
                    session.give_up();
                    self.look.notify_one();
                }
                Ok(Ok(BeatResult::Lost(error))) => {
                    tracing::error!(node = self.place.node, %error, "this node has stopped answering");
                    self.answer_nothing(sent);
                    let _ = self.lost.set(error);
                    return true;
                }
                Ok(Ok(BeatResult::Gone)) => {
                    // Only then others may have what it owned.
                    self.answer_nothing(sent);
                    let _ = tokio::time::timeout(ANSWER_MAX, leave(&session.client, self.place.node)).await;
                    return !self.common.closing.load(Ordering::Acquire);
                }
                Ok(Err(error)) => {
                    tracing::warn!("a beat failed: {}", describe(&error));
                    session.give_up();
                }
                Err(_) => session.give_up(),
            }
        }
        false
    }

    /// Nothing is answered from memory.
    fn answer_nothing(&self, now: Instant) {
        if let Some(long_ago) = now.checked_sub(self.lease) {
            *lock(&self.heard) = long_ago;
        }
    }

    /// Counts up the beat, looks at the map, and compares what the database knows of the commit sequence with what it acknowledged: a node
    /// that commits nothing would not notice a loss otherwise, and go on answering from memory.
    async fn beat_once(&self, session: &crate::connect::Session) -> Result<BeatResult, tokio_postgres::Error> {
        self.publish(session).await?;
        let update = format!(
            "WITH b AS (UPDATE segno.nodes SET beat = beat + 1 WHERE node = $1 \
             AND EXISTS (SELECT 1 FROM segno.lanes WHERE node = $1) RETURNING beat) \
             SELECT b.beat, c.map, {REVISION}, {CLOCK}, l.last_group, c.next_node - 1 \
             FROM b, segno.cluster c, segno.revision r, segno.lanes l WHERE l.node = $1 AND l.lane = 0"
        );
        let update = session.prepare(&update).await?;
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        let asked = Instant::now();
        let Some(row) = session.client.query_opt(&update, &[&self.place.node]).await? else {
            return Ok(BeatResult::Gone);
        };
        let found: i64 = row.get(4);
        if found < acknowledged {
            return Ok(BeatResult::Lost(commit_sequence::lost(acknowledged, found)));
        }
        if let Some(told) = self.time.get() {
            told(TimeReading { database: row.get(3), asked, answered: Instant::now() });
        }
        self.beat.store(row.get(0), Ordering::Release);
        let (version, revision): (i64, i64) = (row.get(1), row.get(2));
        self.compare(revision, asked);
        // Read before the members: nodes that came until then are among them, or gone.
        let newest = id(row.get(5));
        let select = "SELECT node, name, address, version, leaving, beat, certificate FROM segno.nodes ORDER BY node";
        let select = session.prepare(select).await?;
        let rows = session.client.query(&select, &[]).await?;
        let members: Vec<Member> = rows.iter().map(member).collect();
        let known = self.map.borrow().1.clone();
        let same = known.version == version && known.revision == revision && same_members(&known.members, &members);
        if !same {
            let select =
                "SELECT s.shard, n.node FROM segno.shards s LEFT JOIN segno.nodes n USING (node) ORDER BY s.shard";
            let select = session.prepare(select).await?;
            let rows = session.client.query(&select, &[]).await?;
            let mut owners = vec![None; SHARDS];
            for row in &rows {
                let shard: i32 = row.get(0);
                if let Some(owner) = usize::try_from(shard).ok().and_then(|shard| owners.get_mut(shard)) {
                    *owner = row.get::<_, Option<i64>>(1).map(id);
                }
            }
            let map = Arc::new(ClusterMap { version, revision, newest, members: members.clone(), owners });
            self.map.send_modify(|(count, newest)| {
                *count += 1;
                *newest = map;
            });
        }
        Ok(BeatResult::Members(members))
    }

    /// Lets other nodes see which documents this one has in memory.
    async fn publish(&self, session: &crate::connect::Session) -> Result<(), tokio_postgres::Error> {
        let (loaded, published) = {
            let documents = lock(&self.documents);
            (documents.loaded, documents.published)
        };
        if loaded != published {
            let statement = session.prepare(PUBLISH).await?;
            session.client.execute(&statement, &[&self.place.node, &loaded]).await?;
            lock(&self.documents).published = loaded;
        }
        Ok(())
    }

    /// A revision was the stored one at some moment after `asked`.
    fn compare(&self, stored: i64, asked: Instant) {
        let mut documents = lock(&self.documents);
        if documents.loaded == stored {
            documents.compared = documents.compared.max(asked);
        }
    }

    /// Takes note of the beats of others; says whose stood still for too long.
    fn watch(&self, watched: &mut HashMap<i64, PeerBeats>, members: &[Member], passed: Duration) -> Vec<(i64, i64)> {
        let mut suspects = lock(&self.suspects);
        watched.retain(|node, _| members.iter().any(|member| member.id == id(*node)));
        let mut gone = Vec::new();
        for member in members.iter().filter(|member| member.id != id(self.place.node)) {
            let node = member.id.0.cast_signed();
            let seen = watched.entry(node).or_insert(PeerBeats { beat: member.beat, still: Duration::ZERO });
            if seen.beat == member.beat || sabotage::is_on("fence-without-beat") {
                seen.still += passed;
            } else {
                *seen = PeerBeats { beat: member.beat, still: Duration::ZERO };
                suspects.remove(&node);
            }
            let patience = if suspects.contains(&node) { self.lease / 3 } else { self.lease };
            if seen.still > patience {
                gone.push((node, member.beat));
            }
        }
        gone
    }

    async fn declare_gone(&self, session: &crate::connect::Session, (node, beat): (i64, i64)) {
        let lanes = if sabotage::is_on("no-fence") { NO_LANES } else { LANES };
        let fence = format!("{FENCE} WHERE node = $1 AND beat = $2 RETURNING node), {lanes} {FENCED}");
        let done = async {
            let statement = session.prepare(&fence).await?;
            session.client.query_one(&statement, &[&node, &beat]).await
        };
        match tokio::time::timeout(2 * ANSWER_MAX, done).await {
            Ok(Ok(row)) => {
                let fenced: i64 = row.get(0);
                if fenced > 0 {
                    tracing::warn!(node, "a node showed no sign of life and has lost its place");
                }
                self.look.notify_one();
            }
            Ok(Err(error)) => tracing::warn!("a node could not be fenced: {}", describe(&error)),
            Err(_) => session.give_up(),
        }
    }

    /// A write on the connection for claims, in a task of the store's own runtime.
    fn write(
        &self,
        text: &'static str,
        parameters: Vec<Box<dyn tokio_postgres::types::ToSql + Sync + Send>>,
    ) -> Answer<Result<Vec<Row>, CommitError>> {
        let link = self.link.clone();
        let task = self.runtime.spawn(async move {
            let parameters: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> =
                parameters.iter().map(|parameter| &**parameter as _).collect();
            read::write(&link, text, &parameters).await
        });
        Box::pin(async move {
            task.await.unwrap_or_else(|_| Err(CommitError::Unknown("the server is shutting down".to_owned())))
        })
    }
}

/// Says which documents a node has in memory.
const PUBLISH: &str = "INSERT INTO segno.node_revisions (node, revision) VALUES ($1, $2) \
     ON CONFLICT (node) DO UPDATE SET revision = excluded.revision";

/// Fences nodes; the condition stands between the two parts.
const FENCE: &str = "WITH gone AS (DELETE FROM segno.nodes";
const LANES: &str = "l AS (DELETE FROM segno.lanes WHERE node IN (SELECT node FROM gone)),";
/// The fault that harnesses must catch: what the fenced node still writes is stored.
const NO_LANES: &str = "";
const FENCED: &str = "c AS (UPDATE segno.cluster SET map = map + 1 WHERE EXISTS (SELECT 1 FROM gone)) \
     SELECT count(*) FROM gone";

/// A node's own row is locked, so that a claim and a fence of the claimer cannot pass each other.
const CLAIM: &str = "WITH me AS (SELECT node FROM segno.nodes WHERE node = $1 FOR UPDATE), \
     s AS (UPDATE segno.shards SET node = $1, epoch = epoch + 1 WHERE shard = ANY ($2::int4[]) \
           AND (node IS NULL OR node NOT IN (SELECT node FROM segno.nodes)) AND EXISTS (SELECT 1 FROM me) RETURNING 1), \
     c AS (UPDATE segno.cluster SET map = map + 1 WHERE EXISTS (SELECT 1 FROM s)) SELECT 1 FROM me";

/// The fault that harnesses must catch: a shard is taken from the node that serves it.
const CLAIM_ANY: &str = "WITH s AS (UPDATE segno.shards SET node = $1, epoch = epoch + 1 WHERE shard = ANY ($2::int4[]) \
     RETURNING 1), c AS (UPDATE segno.cluster SET map = map + 1 WHERE EXISTS (SELECT 1 FROM s)) SELECT 1";

const GIVE: &str = "WITH me AS (SELECT node FROM segno.nodes WHERE node = $1 FOR UPDATE), \
     s AS (UPDATE segno.shards t SET node = i.node, epoch = t.epoch + 1 FROM unnest($2::int4[], $3::int8[]) AS i(shard, node) \
           WHERE t.shard = i.shard AND t.node = $1 AND EXISTS (SELECT 1 FROM me) RETURNING 1), \
     c AS (UPDATE segno.cluster SET map = map + 1 WHERE EXISTS (SELECT 1 FROM s) RETURNING map) \
     SELECT coalesce((SELECT map FROM c), (SELECT map FROM segno.cluster)) FROM me";

const LEAVING: &str = "WITH n AS (UPDATE segno.nodes SET leaving = true WHERE name = $1 RETURNING 1), \
     c AS (UPDATE segno.cluster SET map = map + 1 WHERE EXISTS (SELECT 1 FROM n)) SELECT count(*) FROM n";

/// Nothing of the node is stored from now on. Its shards stay its own until it has noticed, or until its beat stood still
/// for a lease: it may still answer reads from memory, and no other node may acknowledge writes meanwhile.
const FENCE_BY_NAME: &str = "WITH n AS (SELECT node FROM segno.nodes WHERE name = $1), \
     l AS (DELETE FROM segno.lanes WHERE node IN (SELECT node FROM n)), \
     c AS (UPDATE segno.cluster SET map = map + 1 WHERE EXISTS (SELECT 1 FROM n)) SELECT count(*) FROM n";

fn member(row: &Row) -> Member {
    Member {
        id: id(row.get(0)),
        name: row.get(1),
        address: row.get(2),
        version: row.get(3),
        leaving: row.get(4),
        beat: row.get(5),
        // A node of an older version has none.
        certificate: row.get::<_, Option<Vec<u8>>>(6).unwrap_or_default(),
    }
}

/// Whether two lists name the same members in the same state. Beats always differ.
fn same_members(known: &[Member], now: &[Member]) -> bool {
    let same = |(a, b): (&Member, &Member)| a.id == b.id && a.leaving == b.leaving && a.address == b.address;
    known.len() == now.len() && known.iter().zip(now).all(same)
}

fn numbers(shards: impl IntoIterator<Item = Shard>) -> Vec<i32> {
    shards.into_iter().map(|shard| i32::from(shard.0)).collect()
}

impl Membership for Members {
    fn me(&self) -> NodeId {
        id(self.place.node)
    }

    fn lease(&self) -> Duration {
        self.lease
    }

    fn secret(&self) -> [u8; 16] {
        self.place.secret
    }

    fn map(&self) -> (u64, Arc<ClusterMap>) {
        self.map.borrow().clone()
    }

    fn next_map(&self, seen: u64) -> Answer<(u64, Arc<ClusterMap>)> {
        let mut maps = self.map.subscribe();
        Box::pin(async move {
            let newest = maps.wait_for(|(count, _)| *count > seen).await.map(|newest| newest.clone());
            match newest {
                Ok(newest) => newest,
                // The store is gone, and with it the receivers of a map.
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn heard_at(&self) -> Instant {
        *lock(&self.heard)
    }

    fn revisions(&self) -> Read<Revisions> {
        let link = self.link.clone();
        let task = self.runtime.spawn(async move { read::revisions(&link).await });
        Box::pin(async move { task.await.unwrap_or_else(|_| Err(crate::storage::stopped())) })
    }

    fn loaded_revision(&self) -> i64 {
        lock(&self.documents).loaded
    }

    fn set_loaded(&self, revision: i64, asked: Instant) {
        let is_news = {
            let mut documents = lock(&self.documents);
            documents.compared = documents.compared.max(asked);
            std::mem::replace(&mut documents.loaded, revision) != revision
        };
        if is_news {
            self.check_map();
        }
    }

    fn compared_at(&self) -> Instant {
        lock(&self.documents).compared
    }

    fn follow_time(&self, told: Box<dyn Fn(TimeReading) + Send + Sync>) {
        told(self.first_time);
        let _ = self.time.set(told);
    }

    fn check_map(&self) {
        self.look.notify_one();
    }

    fn suspect(&self, node: NodeId) {
        lock(&self.suspects).insert(node.0.cast_signed());
    }

    fn claim(&self, shards: &[Shard]) -> Answer<Result<(), CommitError>> {
        let claim = if sabotage::is_on("two-owners") { CLAIM_ANY } else { CLAIM };
        let done = self.write(claim, vec![Box::new(self.place.node), Box::new(numbers(shards.iter().copied()))]);
        Box::pin(async move { done.await.map(drop) })
    }

    fn give(&self, shards: &[(Shard, NodeId)]) -> Answer<Result<i64, CommitError>> {
        let to: Vec<i64> = shards.iter().map(|(_, node)| node.0.cast_signed()).collect();
        let shards = numbers(shards.iter().map(|(shard, _)| *shard));
        let done = self.write(GIVE, vec![Box::new(self.place.node), Box::new(shards), Box::new(to)]);
        Box::pin(async move { done.await.map(|rows| rows[0].get(0)) })
    }

    fn mark_leaving(&self, name: &str) -> Answer<Result<bool, CommitError>> {
        let done = self.write(LEAVING, vec![Box::new(name.to_owned())]);
        Box::pin(async move { done.await.map(|rows| rows[0].get::<_, i64>(0) > 0) })
    }

    fn fence(&self, name: &str) -> Answer<Result<bool, CommitError>> {
        let done = self.write(FENCE_BY_NAME, vec![Box::new(name.to_owned())]);
        Box::pin(async move { done.await.map(|rows| rows[0].get::<_, i64>(0) > 0) })
    }

    fn open_runs_of(&self, shards: &[Shard], after: Option<RunKey>, limit: usize) -> Read<Vec<OpenRun>> {
        let (link, shards) = (self.link.clone(), numbers(shards.iter().copied()));
        let task = self.runtime.spawn(async move { read::open_runs(&link, Some(&shards), after, limit).await });
        Box::pin(async move { task.await.unwrap_or_else(|_| Err(crate::storage::stopped())) })
    }

    fn outbox_of(&self, shards: &[Shard], after: Option<OutboxKey>, limit: usize) -> Read<Vec<OutboxRow>> {
        let (link, shards) = (self.link.clone(), numbers(shards.iter().copied()));
        let task = self.runtime.spawn(async move { read::outbox(&link, Some(&shards), after, limit).await });
        Box::pin(async move { task.await.unwrap_or_else(|_| Err(crate::storage::stopped())) })
    }
}
