//! The other nodes: a link to each, requests, one-way messages and broadcasts.

use std::sync::{Arc, Mutex};

use segno_environment::{Environment, hash::HashMap, lock::lock};
use segno_runs::{error::CallError, ports::PortFuture};
use segno_store::{
    Store,
    cluster::{ClusterMap, NodeId},
};
use tokio::{task::AbortHandle, time::Instant};

use super::{
    encryption::NodeIdentity,
    endpoint::Endpoint,
    link::{Link, LinkHandler, LinkMetrics, NodeResponse, RequestError, keep_connected},
    topology::Topology,
    wire::{Notification, NotificationBody, Request, RequestBody},
};

/// The links to all other nodes.
pub struct Peers {
    /// Members, owners and homes.
    pub topology: Arc<Topology>,
    pub(super) endpoint: Arc<Endpoint>,
    links: Mutex<HashMap<NodeId, Arc<Link>>>,
}

impl Peers {
    /// The other nodes of the cluster that a store is part of. `None` if there can be none.
    pub fn of(store: &dyn Store, identity: Option<Arc<NodeIdentity>>, environment: &Environment) -> Option<Arc<Self>> {
        let topology = Topology::of(store)?;
        let endpoint = Arc::new(Endpoint::new(topology.clone(), identity, environment));
        Some(Arc::new(Self { topology, endpoint, links: Mutex::default() }))
    }

    /// Keeps a link to each other member of a map and to no other node. `supervise` runs the task of a link.
    pub(super) fn follow_members<H: LinkHandler>(
        &self,
        map: &ClusterMap,
        handler: &Arc<H>,
        supervise: impl Fn(PortFuture<'static, ()>) -> AbortHandle,
    ) {
        self.endpoint.retain_traffic(map);
        let mut links = lock(&self.links);
        links.retain(|node, link| map.member(*node).is_some_and(|member| member.address == link.address));
        let others = map.members.iter().filter(|member| !self.topology.is_me(member.id) && !member.address.is_empty());
        for member in others {
            links.entry(member.id).or_insert_with(|| {
                tracing::info!(
                    node = member.id.0,
                    name = member.name,
                    address = member.address,
                    "another node is there"
                );
                let link = Link::new(member, self.endpoint.traffic_with(member.id));
                let (handler, endpoint) = (Arc::downgrade(handler), self.endpoint.clone());
                link.set_dialling(supervise(Box::pin(keep_connected(handler, endpoint, Arc::downgrade(&link)))));
                link
            });
        }
    }

    /// Drops all links: requests fail from now on.
    pub(super) fn close(&self) {
        lock(&self.links).clear();
    }

    pub(super) fn link(&self, node: NodeId) -> Option<Arc<Link>> {
        lock(&self.links).get(&node).cloned()
    }

    /// Whether a node can be reached.
    pub(super) fn is_reachable(&self, node: NodeId) -> bool {
        self.link(node).is_some_and(|link| link.is_open())
    }

    /// All other nodes.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        lock(&self.links).keys().copied().collect()
    }

    /// All other nodes, and whether they can be reached.
    pub fn links(&self) -> Vec<(NodeId, bool)> {
        lock(&self.links).values().map(|link| (link.node, link.is_open())).collect()
    }

    /// The state of each link.
    pub fn link_metrics(&self) -> Vec<LinkMetrics> {
        lock(&self.links).values().map(|link| link.metrics()).collect()
    }

    /// Sends a request to another node and waits for the response.
    pub(super) async fn request(
        &self,
        node: NodeId,
        body: RequestBody,
        deadline: Instant,
    ) -> Result<NodeResponse, RequestError> {
        let link = self.link(node).ok_or(RequestError::NotSent)?;
        link.request(Request { body: Some(body) }, deadline).await
    }

    /// Sends a one-way message to another node, if it can be reached.
    pub(super) fn notify(&self, node: NodeId, body: NotificationBody) {
        if let Some(link) = self.link(node) {
            link.notify(Notification { body: Some(body) });
        }
    }

    /// Sends a one-way message to all other nodes that can be reached.
    pub(super) fn broadcast(&self, body: NotificationBody) {
        let links: Vec<_> = lock(&self.links).values().cloned().collect();
        let notification = Notification { body: Some(body) };
        for link in links {
            link.notify(notification.clone());
        }
    }

    /// Lets all nodes read the map now.
    pub(super) fn refresh_maps(&self) {
        self.topology.membership.check_map();
        self.broadcast(NotificationBody::MapChanged(Default::default()));
    }

    /// Lets a node hand over what it owns. False if there is no such node.
    pub async fn drain(&self, name: &str) -> Result<bool, CallError> {
        let found = self.topology.membership.mark_leaving(name).await?;
        self.refresh_maps();
        Ok(found)
    }

    /// Fences a node. False if there is no such node.
    pub async fn fence(&self, name: &str) -> Result<bool, CallError> {
        let found = self.topology.membership.fence(name).await?;
        self.refresh_maps();
        Ok(found)
    }
}
