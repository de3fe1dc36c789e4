//! Keys, scripts, namespaces and queue settings: all nodes have them in memory, and the database has their revision.
//!
//! Every beat compares the stored revision with the one in memory ([`segno_store::cluster::Membership`]). A node that
//! finds a newer one reads everything again and publishes its new revision. A node that could not compare for two
//! thirds of its lease admits no callers ([`Cluster::admit_callers`]). See decision 037.
//!
//! What holds: one lease after a change was stored, each node has it or admits no callers. [`Peers::publish_changes`]
//! waits for that, or until all nodes have confirmed the change.

use std::{sync::Arc, time::Duration};

use segno_runs::error::CallError;
use segno_store::{
    cluster::{NodeId, Revisions},
    sabotage,
};
use tokio::time::Instant;

use super::{
    Cluster,
    peers::Peers,
    wire::{Request, RequestBody},
};

/// The cause of a node's bad health if documents cannot be read.
const DOCUMENTS: &str = "documents of the cluster";
/// How often the revision is compared when nothing changes: a failed attempt to read is repeated.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Pauses between two reads of the revisions of other nodes.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Where a change of documents is in effect, by the names of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedNodes {
    /// They have it.
    pub confirmed: Vec<String>,
    /// They did not say so within the lease. Until they have it they admit no callers.
    pub refusing: Vec<String>,
    /// They are of a version that does not compare, and did not answer: they may go on with what was before.
    pub unconfirmed: Vec<String>,
}

impl ChangedNodes {
    /// The answers of nodes, given the first revision that has the change and the nodes that answered themselves.
    fn of(found: &Revisions, first: i64, answered: &[NodeId]) -> Self {
        let mut nodes = Self::default();
        for (id, name, revision) in &found.members {
            let list = match revision {
                // A revision that is not stored is one that a failover lost.
                Some(revision) if (first..=found.stored).contains(revision) => &mut nodes.confirmed,
                _ if answered.contains(id) => &mut nodes.confirmed,
                Some(_) => &mut nodes.refusing,
                None => &mut nodes.unconfirmed,
            };
            list.push(name.clone());
        }
        nodes
    }

    fn are_all(&self) -> bool {
        self.refusing.is_empty() && self.unconfirmed.is_empty()
    }
}

/// Reads documents again whenever the database has newer ones, until the node stops.
pub(super) async fn run(cluster: Arc<Cluster>) {
    let membership = &cluster.topology.membership;
    let mut seen = 0;
    while !cluster.runs.lifecycle.has_ended() {
        if let Ok((count, _)) = tokio::time::timeout(CHECK_INTERVAL, membership.next_map(seen)).await {
            seen = count;
        }
        let (count, map) = membership.map();
        if count == 0 || map.revision == membership.loaded_revision() {
            continue;
        }
        if let Err(error) = cluster.catch_up().await {
            tracing::warn!(%error, "keys, scripts and namespaces could not be read again; trying again");
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

impl Cluster {
    /// Reads documents again if the database has newer ones. Once this returned, the node has all that was stored before.
    pub async fn catch_up(&self) -> Result<(), CallError> {
        let membership = &self.topology.membership;
        let _one = self.reloading.lock().await;
        let asked = Instant::now();
        let stored = membership.revisions().await?.stored;
        if stored != membership.loaded_revision() && !sabotage::is_on("ignore-revisions") {
            let read = self.observer.reload().await;
            match &read {
                Ok(()) => self.runs.health.recover(DOCUMENTS),
                Err(error) => self.runs.health.degrade(DOCUMENTS, &error.to_string()),
            }
            read?;
        }
        membership.set_loaded(stored, asked);
        Ok(())
    }

    /// Refuses callers while keys, scripts and namespaces were not compared with the database's lately. Waits for a database that was
    /// away for a moment.
    pub async fn admit_callers(&self) -> Result<(), CallError> {
        self.topology.admit_callers().await
    }
}

impl Peers {
    /// Keys, scripts, namespaces or queue settings were changed here: lets all other nodes read them, and waits until they have,
    /// or until `until`; a lease from now if it is `None`.
    pub async fn publish_changes(&self, until: Option<Instant>) -> ChangedNodes {
        let membership = &self.topology.membership;
        let until = until.unwrap_or_else(|| Instant::now() + membership.lease());
        self.refresh_maps();
        let mut asked = tokio::task::JoinSet::new();
        let mut answered = vec![self.topology.me];
        let (mut first, mut pause) = (None, PAUSE_MIN);
        let mut nodes = ChangedNodes::default();
        loop {
            while let Some(Ok(id)) = asked.try_join_next() {
                answered.extend(id);
            }
            match membership.revisions().await {
                Ok(found) => {
                    let is_first = first.is_none();
                    let first = *first.get_or_insert(found.stored);
                    nodes = ChangedNodes::of(&found, first, &answered);
                    if is_first {
                        self.ask_older_nodes(&found, until, &mut asked);
                    }
                    if nodes.are_all() {
                        return nodes;
                    }
                }
                Err(error) => tracing::warn!(%error, "which nodes have a change could not be read; trying again"),
            }
            if Instant::now() >= until {
                let (without, unconfirmed) = (nodes.refusing.join(", "), nodes.unconfirmed.join(", "));
                tracing::warn!(without, unconfirmed, "some nodes do not have a change of keys, scripts or namespaces");
                return nodes;
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Nodes that do not compare revisions are asked to read again; each gives its id once it has.
    fn ask_older_nodes(&self, found: &Revisions, until: Instant, asked: &mut tokio::task::JoinSet<Option<NodeId>>) {
        for (id, ..) in found.members.iter().filter(|(_, _, revision)| revision.is_none()) {
            let (Some(link), id) = (self.link(*id), *id) else { continue };
            let request = Request { body: Some(RequestBody::Reload(Default::default())) };
            asked.spawn(async move { link.request(request, until).await.is_ok().then_some(id) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_where_nodes_have_its_revision() {
        let names = ["a", "b", "c", "d", "e"];
        let revisions = [Some(40), Some(45), Some(39), None, Some(46)];
        let members = names.iter().zip(revisions).zip(1..);
        let members = members.map(|((name, revision), id)| (NodeId(id), (*name).to_owned(), revision)).collect();
        let found = Revisions { stored: 45, members };
        let nodes = ChangedNodes::of(&found, 40, &[]);
        assert_eq!(nodes.confirmed, ["a", "b"]);
        // The revision of the last one was lost with a failover.
        assert_eq!(nodes.refusing, ["c", "e"]);
        assert_eq!(nodes.unconfirmed, ["d"]);
        assert!(ChangedNodes::of(&found, 40, &[NodeId(3), NodeId(4), NodeId(5)]).are_all());
    }
}
