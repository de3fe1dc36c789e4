//! DescribeNamespace and ListNamespaces.

use segno_engine::limits::{BLOB_BYTES_MAX, MEMO_BYTES_MAX};
use segno_proto::{
    enums::{ArchivalState, NamespaceState},
    namespace::{
        BadBinaries, NamespaceConfig, NamespaceInfo,
        namespace_info::{Capabilities, Limits},
    },
    nanos_duration,
    replication::{ClusterReplicationConfig, NamespaceReplicationConfig},
    workflowservice::{
        DescribeNamespaceRequest, DescribeNamespaceResponse, ListNamespacesRequest, ListNamespacesResponse,
    },
};
use segno_runtime::Namespace;
use tonic::Status;

use super::Workflows;
use crate::status;

impl Workflows {
    pub(super) fn describe_namespace(
        &self,
        request: DescribeNamespaceRequest,
    ) -> Result<DescribeNamespaceResponse, Status> {
        let namespace = match (request.namespace.as_str(), request.id.as_str()) {
            ("", "") => return Err(Status::invalid_argument("Namespace not set on request.")),
            ("", id) => self.node.namespaces.by_id(id).ok_or_else(|| status::namespace_not_found(id))?,
            (name, _) => self.node.namespaces.get(name).ok_or_else(|| status::namespace_not_found(name))?,
        };
        Ok(description(&namespace))
    }

    pub(super) fn list_namespaces(&self, _request: ListNamespacesRequest) -> ListNamespacesResponse {
        let namespaces = self.node.namespaces.all().iter().map(|namespace| description(namespace)).collect();
        ListNamespacesResponse { namespaces, ..Default::default() }
    }
}

fn description(namespace: &Namespace) -> DescribeNamespaceResponse {
    let detail = &namespace.detail;
    DescribeNamespaceResponse {
        namespace_info: Some(NamespaceInfo {
            name: namespace.name.clone(),
            state: NamespaceState::Registered as i32,
            description: detail.description.clone(),
            owner_email: detail.owner_email.clone(),
            id: detail.id.clone(),
            capabilities: Some(Capabilities {
                eager_workflow_start: true,
                worker_poll_complete_on_shutdown: true,
                ..Default::default()
            }),
            limits: Some(Limits {
                blob_size_limit_error: BLOB_BYTES_MAX as i64,
                memo_size_limit_error: MEMO_BYTES_MAX as i64,
                ..Default::default()
            }),
            ..Default::default()
        }),
        config: Some(NamespaceConfig {
            workflow_execution_retention_ttl: Some(nanos_duration(detail.retention)),
            bad_binaries: Some(BadBinaries::default()),
            history_archival_state: ArchivalState::Disabled as i32,
            visibility_archival_state: ArchivalState::Disabled as i32,
            ..Default::default()
        }),
        replication_config: Some(NamespaceReplicationConfig {
            active_cluster_name: "active".to_owned(),
            clusters: vec![ClusterReplicationConfig { cluster_name: "active".to_owned(), ..Default::default() }],
            ..Default::default()
        }),
        ..Default::default()
    }
}
