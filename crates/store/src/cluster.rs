//! Membership of several nodes on one store: nodes, owners of shards, and the trait that the store implements for them.
//!
//! A shard is a range of buckets with one owner at a time. The map of owners lives in the database and changes only
//! there. The desired owner of a shard, and the home of a queue, follow from the members' names by rendezvous hashing:
//! every node that knows the members comes to the same answer, and when a node comes or goes only its own part moves.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use siphasher::sip::SipHasher24;
use tokio::time::Instant;

use crate::{Answer, Bucket, CommitError, NamespaceKey, OpenRun, OutboxKey, OutboxRow, Read, RunKey};

/// How many shards there are.
pub const SHARDS: usize = 1024;
/// Buckets of one shard, as a power of two.
const BUCKETS_OF_SHARD: u32 = 6;

/// One life of one process. Given by the database when it joins, never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// A range of buckets with one owner at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(pub u16);

impl Shard {
    /// The shard of a workflow.
    pub fn of(namespace: NamespaceKey, workflow_id: &str) -> Self {
        Bucket::of(namespace, workflow_id).shard()
    }

    /// The first and the last of its buckets.
    pub fn buckets(self) -> (Bucket, Bucket) {
        let first = self.0 << BUCKETS_OF_SHARD;
        (Bucket(first), Bucket(first | ((1 << BUCKETS_OF_SHARD) - 1)))
    }
}

impl Bucket {
    /// The shard that it belongs to.
    pub fn shard(self) -> Shard {
        Shard(self.0 >> BUCKETS_OF_SHARD)
    }
}

/// A node that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which life of it.
    pub id: NodeId,
    /// The user's name for it, the same after a restart.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// The version of its binary.
    pub version: String,
    /// The certificate that it shows to other nodes, DER; empty if it has none.
    pub certificate: Vec<u8>,
    /// Whether it is about to go: it owns nothing for long.
    pub leaving: bool,
    /// How often it showed that it is alive.
    pub beat: i64,
}

impl Member {
    /// Whether it is of a version that did not encrypt the connections between nodes.
    pub fn speaks_in_the_clear(&self) -> bool {
        self.certificate.is_empty() && !self.address.is_empty()
    }
}

/// Who is there and who owns what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterMap {
    /// Counts changes of members and owners.
    pub version: i64,
    /// The revision of the documents and namespaces that all nodes have in memory.
    pub revision: i64,
    /// The last node that came, whether or not it is still there. Ids are given in the order in which nodes become members.
    pub newest: NodeId,
    /// All members, in the order of their ids.
    pub members: Vec<Member>,
    /// The owner of each shard; `None` while it has none.
    pub owners: Vec<Option<NodeId>>,
}

impl ClusterMap {
    /// The node that owns a shard.
    pub fn owner(&self, shard: Shard) -> Option<NodeId> {
        self.owners.get(usize::from(shard.0)).copied().flatten()
    }

    /// A member by its id.
    pub fn member(&self, id: NodeId) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Whether a node was a member once and no longer is. One that joined later than this map is not gone: the map does not
    /// know it yet.
    pub fn has_lost(&self, node: NodeId) -> bool {
        node <= self.newest && self.member(node).is_none()
    }

    /// The node that should own a shard: the one with the highest hash among those that stay.
    pub fn wanted(&self, shard: Shard) -> Option<NodeId> {
        self.chosen(|hasher| hasher.write_u16(shard.0))
    }

    /// The node that is the home of a name in a namespace.
    pub fn home(&self, namespace: NamespaceKey, name: &str) -> Option<NodeId> {
        self.chosen(|hasher| {
            hasher.write_u32(namespace.0);
            hasher.write(name.as_bytes());
        })
    }

    fn chosen(&self, what: impl Fn(&mut SipHasher24)) -> Option<NodeId> {
        let hash = |member: &Member| {
            let mut hasher = SipHasher24::new();
            hasher.write(member.name.as_bytes());
            hasher.write_u8(0);
            what(&mut hasher);
            hasher.finish()
        };
        let mut staying = self.members.iter().filter(|member| !member.leaving);
        let first = staying.next()?;
        // One that is alone is chosen without looking.
        let Some(second) = staying.next() else { return Some(first.id) };
        [first, second].into_iter().chain(staying).max_by_key(|member| hash(member)).map(|member| member.id)
    }

    /// Whether the same nodes stay as in another map, so that everything has the same home.
    pub fn same_homes(&self, other: &Self) -> bool {
        let staying = |map: &Self| -> Vec<NodeId> { map.members.iter().filter(|m| !m.leaving).map(|m| m.id).collect() };
        staying(self) == staying(other)
    }

    /// The shards that a node owns.
    pub fn shards_of(&self, id: NodeId) -> Vec<Shard> {
        let owned = self.owners.iter().zip(0_u16..).filter(|(owner, _)| **owner == Some(id));
        owned.map(|(_, number)| Shard(number)).collect()
    }
}

/// A reading of the database's clock, between two moments of this machine.
#[derive(Clone, Copy, Debug)]
pub struct TimeReading {
    /// Nanoseconds since the epoch.
    pub database: i64,
    /// It had not been read yet.
    pub asked: Instant,
    /// It had been read.
    pub answered: Instant,
}

/// Which documents are stored, and which of them nodes have in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revisions {
    /// The revision that is stored. It grows with every change of a namespace or a document.
    pub stored: i64,
    /// All members and what they have in memory; `None`: the node is of a version that does not compare.
    pub members: Vec<(NodeId, String, Option<i64>)>,
}

/// The part of a store that a node among others needs.
pub trait Membership: Send + Sync + 'static {
    /// This node.
    fn me(&self) -> NodeId;

    /// How long a node that shows no sign of life stays a member. It serves from memory for two thirds of it.
    fn lease(&self) -> Duration;

    /// Authenticates nodes to each other: only processes that can read the database know it.
    fn secret(&self) -> [u8; 16];

    /// The newest map, and how many there were before it.
    fn map(&self) -> (u64, Arc<ClusterMap>);

    /// Waits until there were more maps than this.
    fn next_map(&self, seen: u64) -> Answer<(u64, Arc<ClusterMap>)>;

    /// When the last sign of life was sent that the database answered.
    fn heard_at(&self) -> Instant;

    /// The revision of stored documents, and of those that each node has in memory.
    fn revisions(&self) -> Read<Revisions>;

    /// The revision of the documents that this node has in memory.
    fn loaded_revision(&self) -> i64;

    /// The node has the documents of a revision in memory, which was the stored one at some moment after `asked`. The other nodes
    /// learn of it with the next beat, which follows at once if it is news.
    fn set_loaded(&self, revision: i64, asked: Instant);

    /// The latest moment at which the node is known to have had the newest documents in memory.
    fn compared_at(&self) -> Instant;

    /// Calls this with what the clock of the database shows, now and with each beat.
    fn follow_time(&self, told: Box<dyn Fn(TimeReading) + Send + Sync>);

    /// Reads the map now instead of with the next beat.
    fn check_map(&self);

    /// A node does not accept connections: if its beat stands still as well, it is gone.
    fn suspect(&self, node: NodeId);

    /// Takes shards that have no owner. What others took first is not taken.
    fn claim(&self, shards: &[Shard]) -> Answer<Result<(), CommitError>>;

    /// Gives shards to other nodes. Nothing of them is under way. May be repeated; returns the version of a map that
    /// contains it.
    fn give(&self, shards: &[(Shard, NodeId)]) -> Answer<Result<i64, CommitError>>;

    /// Says that a node is about to go. Others become the wanted owners of its shards.
    fn mark_leaving(&self, name: &str) -> Answer<Result<bool, CommitError>>;

    /// Fences a node: from then on it cannot store anything.
    fn fence(&self, name: &str) -> Answer<Result<bool, CommitError>>;

    /// Open runs of some shards, in the order of their keys.
    fn open_runs_of(&self, shards: &[Shard], after: Option<RunKey>, limit: usize) -> Read<Vec<OpenRun>>;

    /// Messages sent by runs of some shards, in the order of their keys.
    fn outbox_of(&self, shards: &[Shard], after: Option<OutboxKey>, limit: usize) -> Read<Vec<OutboxRow>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(names: &[&str]) -> ClusterMap {
        let member = |(name, id): (&&str, u64)| Member {
            id: NodeId(id),
            name: (*name).to_owned(),
            address: String::new(),
            version: String::new(),
            certificate: Vec::new(),
            leaving: false,
            beat: 0,
        };
        ClusterMap { members: names.iter().zip(1..).map(member).collect(), ..Default::default() }
    }

    fn all() -> impl Iterator<Item = Shard> {
        (0..SHARDS as u16).map(Shard)
    }

    #[test]
    fn shards_cover_all_buckets() {
        let mut next = 0_u32;
        for shard in all() {
            let (first, last) = shard.buckets();
            assert_eq!(u32::from(first.0), next);
            assert_eq!((first.shard(), last.shard()), (shard, shard));
            next = u32::from(last.0) + 1;
        }
        assert_eq!(next, 65_536);
    }

    #[test]
    fn a_node_that_just_came_is_not_taken_for_one_that_is_gone() {
        let mut map = ClusterMap { newest: NodeId(3), ..map(&["a", "b", "c"]) };
        assert!(!map.has_lost(NodeId(3)) && !map.has_lost(NodeId(4)));
        map.members.pop();
        assert!(map.has_lost(NodeId(3)) && !map.has_lost(NodeId(4)));
    }

    #[test]
    fn a_node_that_joins_takes_its_part_and_moves_nothing_else() {
        let (three, four) = (map(&["a", "b", "c"]), map(&["a", "b", "c", "d"]));
        let mut moved = 0;
        for shard in all() {
            let (before, after) = (three.wanted(shard), four.wanted(shard));
            if before != after {
                assert_eq!(after, Some(NodeId(4)));
                moved += 1;
            }
        }
        assert!((SHARDS / 6..SHARDS / 3).contains(&moved), "{moved}");
    }

    #[test]
    fn who_leaves_is_wanted_nowhere() {
        let mut map = map(&["a", "b"]);
        map.members[0].leaving = true;
        assert!(all().all(|shard| map.wanted(shard) == Some(NodeId(2))));
        assert_eq!(map.home(NamespaceKey(1), "queue"), Some(NodeId(2)));
        assert!(!map.same_homes(&super::tests::map(&["a", "b"])));
    }
}
