//! Segno's own service for the nodes of a cluster.

use std::sync::Arc;

use segno_node::{CallError, Cluster, Node};
use segno_proto::segno_cluster::{
    DescribeRequest, DescribeResponse, DrainRequest, DrainResponse, FenceRequest, FenceResponse, Node as ShownNode,
    NodeLink,
};
use tonic::{Request, Response, Status};

use super::failed;

/// Segno's ClusterService.
pub struct ClusterCalls {
    node: Arc<Node>,
}

impl ClusterCalls {
    /// The service on a node.
    pub fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    fn cluster(&self) -> Result<&Arc<Cluster>, Status> {
        self.node.cluster.as_ref().ok_or_else(|| {
            Status::failed_precondition(
                "this server is alone: its data is in a file or in memory. Several nodes share a database, see \
                 docs/guides/cluster.md",
            )
        })
    }
}

/// The reply to a change of a node, by its name.
fn changed(found: Result<bool, CallError>, name: &str) -> Result<(), Status> {
    match found {
        Ok(true) => Ok(()),
        Ok(false) => Err(Status::not_found(format!("there is no node {name:?}; `segno cluster status` lists them"))),
        Err(error) => Err(failed(error)),
    }
}

impl ClusterCalls {
    pub(crate) async fn describe(&self, _: Request<DescribeRequest>) -> Result<Response<DescribeResponse>, Status> {
        let cluster = self.cluster()?;
        let (map, links) = (cluster.topology.map(), cluster.peers.links());
        let link = |id| match links.iter().find(|(node, _)| *node == id) {
            _ if cluster.topology.is_me(id) => NodeLink::Self_,
            Some((_, true)) => NodeLink::Open,
            _ => NodeLink::Broken,
        };
        let node = |member: &segno_node::Member| ShownNode {
            id: member.id.0,
            name: member.name.clone(),
            address: member.address.clone(),
            version: member.version.clone(),
            leaving: member.leaving,
            shards: map.shards_of(member.id).len() as i32,
            link: link(member.id) as i32,
        };
        Ok(Response::new(DescribeResponse {
            nodes: map.members.iter().map(node).collect(),
            shards: map.owners.len() as i32,
            shards_without_owner: map.owners.iter().filter(|owner| owner.is_none()).count() as i32,
            map_version: map.version,
        }))
    }

    pub(crate) async fn drain(&self, request: Request<DrainRequest>) -> Result<Response<DrainResponse>, Status> {
        let name = request.into_inner().name;
        changed(self.cluster()?.peers.drain(&name).await, &name)?;
        Ok(Response::new(DrainResponse {}))
    }

    pub(crate) async fn fence(&self, request: Request<FenceRequest>) -> Result<Response<FenceResponse>, Status> {
        let name = request.into_inner().name;
        changed(self.cluster()?.peers.fence(&name).await, &name)?;
        Ok(Response::new(FenceResponse {}))
    }
}
