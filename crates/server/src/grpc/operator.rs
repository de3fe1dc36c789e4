//! Temporal's OperatorService, tied to the methods of this module. What is not here answers UNIMPLEMENTED before it
//! gets this far.

use std::sync::Arc;

use super::routing::here;
use segno_proto::operatorservice::{self as api, operator_service_server::OperatorService};
use segno_runtime::Node;
use tonic::{Request, Response, Status};

/// Temporal's OperatorService.
pub struct Operator {
    pub(super) node: Arc<Node>,
    /// Where the server listens: gRPC and HTTP.
    pub(super) addresses: (String, String),
}

impl Operator {
    /// The service on a node.
    pub fn new(node: Arc<Node>, addresses: (String, String)) -> Self {
        Self { node, addresses }
    }
}

#[tonic::async_trait]
impl OperatorService for Operator {
    async fn add_search_attributes(
        &self,
        request: Request<api::AddSearchAttributesRequest>,
    ) -> Result<Response<api::AddSearchAttributesResponse>, Status> {
        here!(self, request => self.add_attributes(request.into_inner()).await.map(Response::new))
    }

    async fn remove_search_attributes(
        &self,
        request: Request<api::RemoveSearchAttributesRequest>,
    ) -> Result<Response<api::RemoveSearchAttributesResponse>, Status> {
        here!(self, request => self.remove_attributes(request.into_inner()).await.map(Response::new))
    }

    async fn list_search_attributes(
        &self,
        request: Request<api::ListSearchAttributesRequest>,
    ) -> Result<Response<api::ListSearchAttributesResponse>, Status> {
        self.list_attributes(request.into_inner()).map(Response::new)
    }

    async fn list_clusters(
        &self,
        request: Request<api::ListClustersRequest>,
    ) -> Result<Response<api::ListClustersResponse>, Status> {
        Ok(Response::new(self.list_clusters(request.into_inner())))
    }

    async fn delete_namespace(
        &self,
        request: Request<api::DeleteNamespaceRequest>,
    ) -> Result<Response<api::DeleteNamespaceResponse>, Status> {
        here!(self, request => Operator::delete_namespace(self, request.into_inner()).await.map(Response::new))
    }
}
