//! Keys, scripts, namespaces and queue settings: all nodes have them in memory, and the database has their revision.
//!
//! Every beat compares the stored revision with the one in memory ([`segno_store::cluster::Membership`]). A node that finds a
//! newer one reads everything again and publishes what it has. A node that could not compare for two thirds of its lease admits
//! no callers ([`Runs::admit_callers`], [`Runs::admit`]). See decision 037.
//!
//! What holds: a lease after a change was stored, each node has it or admits no callers. [`Runs::tell_changed`] waits for that,
//! and for less if all nodes say that they have it.

use std::{sync::Arc, time::Duration};

use segno_store::cluster::{NodeId, Revisions};
use tokio::time::Instant;

use super::{AWAY_MAX, Cluster, LOOK_AGAIN, wire::Question};
use crate::{error::CallError, runs::Runs, sabotage};

/// What callers hear from a node that did not compare for too long.
pub(crate) const STALE: &str = "this node has not been able to compare its keys, scripts and namespaces with the database for a \
     while and may have lost its place, so that it admits no callers; retry, or call another node";
/// The cause of a node's bad health if documents cannot be read.
const DOCUMENTS: &str = "documents of the cluster";
/// Between two looks at the revision when nothing changes: a failed attempt to read is repeated.
const LOOK: Duration = Duration::from_millis(500);
/// Pauses between two looks at the revisions of other nodes.
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
    /// What nodes have said, given the first revision that has the change and the nodes that answered themselves.
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
pub(crate) async fn run(node: Arc<Runs>) {
    let Some(cluster) = node.cluster.clone() else { return std::future::pending().await };
    let mut seen = 0;
    while !node.has_ended() {
        if let Ok((count, _)) = tokio::time::timeout(LOOK, cluster.membership.next_map(seen)).await {
            seen = count;
        }
        let (count, map) = cluster.membership.map();
        if count == 0 || map.revision == cluster.membership.loaded_revision() {
            continue;
        }
        if let Err(error) = node.catch_up().await {
            tracing::warn!(%error, "keys, scripts and namespaces could not be read again; trying again");
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Runs {
    /// Reads documents again if the database has newer ones. Once this returned, the node has all that was stored before.
    pub async fn catch_up(self: &Arc<Self>) -> Result<(), CallError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let _one = cluster.reloading.lock().await;
        let asked = std::time::Instant::now();
        let stored = cluster.membership.revisions().await?.stored;
        if stored != cluster.membership.loaded_revision() && !sabotage::is_on("ignore-revisions") {
            let read = self.reload().await;
            match &read {
                Ok(()) => self.health.recover(DOCUMENTS),
                Err(error) => self.health.degrade(DOCUMENTS, &error.to_string()),
            }
            read?;
        }
        cluster.membership.set_loaded(stored, asked);
        Ok(())
    }

    /// Reads namespaces, queue settings, keys and scripts again.
    pub(super) async fn reload(self: &Arc<Self>) -> Result<(), CallError> {
        self.with_registry(|node| node.namespaces.reload(&*node.store)).await?;
        if let Some(dispatch) = self.dispatch() {
            dispatch.load_queue_configs().await?;
        }
        self.load_access_keys().await?;
        self.load_flows().await?;
        self.retention_changed.notify_one();
        self.resume_deletions();
        let node = self.clone();
        tokio::spawn(async move { node.follow_schedules().await });
        Ok(())
    }

    /// Keys, scripts, namespaces or queue settings were changed here: lets all other nodes read them, and waits until they have,
    /// or until `until`; a lease from now if it is `None`.
    pub async fn tell_changed(self: &Arc<Self>, until: Option<Instant>) -> ChangedNodes {
        let Some(cluster) = &self.cluster else { return ChangedNodes::default() };
        let until = until.unwrap_or_else(|| Instant::now() + cluster.membership.lease());
        cluster.look_all();
        let mut asked = tokio::task::JoinSet::new();
        let mut answered = vec![cluster.me];
        let (mut first, mut pause) = (None, PAUSE_MIN);
        let mut nodes = ChangedNodes::default();
        loop {
            while let Some(Ok(id)) = asked.try_join_next() {
                answered.extend(id);
            }
            match cluster.membership.revisions().await {
                Ok(found) => {
                    let is_first = first.is_none();
                    let first = *first.get_or_insert(found.stored);
                    nodes = ChangedNodes::of(&found, first, &answered);
                    if is_first {
                        self.ask_older_nodes(cluster, &found, until, &mut asked);
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
    fn ask_older_nodes(
        &self,
        cluster: &Arc<Cluster>,
        found: &Revisions,
        until: Instant,
        asked: &mut tokio::task::JoinSet<Option<NodeId>>,
    ) {
        for (id, ..) in found.members.iter().filter(|(_, _, revision)| revision.is_none()) {
            let (cluster, id) = (cluster.clone(), *id);
            asked.spawn(async move {
                cluster.ask(id, Question::Reload(Default::default()), until).await.is_ok().then_some(id)
            });
        }
    }

    /// Whether keys, scripts and namespaces were compared with the database's lately; always without other nodes.
    pub fn has_newest_documents(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.is_within_lease())
    }

    /// Refuses callers while that is not so. Waits for a database that was away for a moment.
    pub async fn admit_callers(&self) -> Result<(), CallError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        while !cluster.is_within_lease() {
            if cluster.membership.compared_at().elapsed() >= AWAY_MAX {
                return Err(CallError::Unavailable(STALE.to_owned()));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
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
