//! The calls of a node without connections: for the ports of this server, and for programs that bring a transport of their own,
//! such as the simulation.

use std::sync::Arc;

use bytes::Bytes;
use segno_calls::CallMetadata;
use segno_node::{Delivery, Node, with_request_bytes};
use tonic::{Extensions, Status};

use crate::{
    calls::{self, Handlers},
    delivery::Receipt,
    grpc::{BatchCalls, SystemCalls, TrialCalls},
    peer_calls::PeerCalls,
    reply::message_of,
    unbuilt,
};

/// The calls of a node. Callers are not identified: that is the duty of the transport.
#[derive(Clone)]
pub struct Edge {
    pub(crate) handlers: Arc<Handlers>,
}

impl Edge {
    /// The calls of a node, which listens at these addresses for gRPC and HTTP. Workflows of the node make their calls of the server
    /// through it.
    pub fn new(node: &Arc<Node>, addresses: (String, String)) -> Self {
        let handlers = Arc::new(Handlers::new(node.clone(), addresses));
        node.runs.system_operations.set(Box::new(SystemCalls::new(&handlers)));
        Self { handlers }
    }

    /// Carries out the batch operations and verifications of the node.
    pub fn carry_out_jobs(&self, node: &Node) {
        node.batches.run(Arc::new(BatchCalls::new(&self.handlers)));
        node.verifications.run(Arc::new(TrialCalls::new(&self.handlers)));
    }

    /// Answers calls that other nodes forward, if there can be others.
    pub fn serve_other_nodes(&self, node: &Node) {
        if let Some(cluster) = &node.cluster {
            cluster.serve_calls(Arc::new(PeerCalls(self.handlers.clone())));
        }
    }

    /// Makes the call at `path` with an encoded request. A task in the response is guarded by the [`Delivery`]: it is returned
    /// unless the caller of this function reports that the response was written.
    pub async fn call(
        &self,
        path: &str,
        message: Bytes,
        metadata: CallMetadata,
    ) -> Result<(Bytes, Option<Delivery>), Status> {
        let Some(method) = calls::find(path.as_bytes()) else { return Err(unbuilt::status(path)) };
        let mut extensions = Extensions::new();
        extensions.insert(metadata);
        let bytes = message.len();
        let reply = with_request_bytes(bytes, calls::call(&self.handlers, method, message, extensions)).await?;
        let (_, data, mut extensions) = reply.into_parts();
        Ok((message_of(data), Receipt::delivery_of(&mut extensions)))
    }
}
