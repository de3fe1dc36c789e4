//! GetSystemInfo, GetClusterInfo and other descriptions of the server.

use segno_proto::{
    operatorservice::{ClusterMetadata, ListClustersRequest, ListClustersResponse},
    workflowservice::{GetClusterInfoResponse, GetSystemInfoResponse, get_system_info_response::Capabilities},
};

use super::{Operator, Workflows};
use crate::validate::namespace::CLUSTER;

/// The version of Temporal's server whose behaviour this one shows; clients compare it.
pub const SERVER_VERSION: &str = "1.32.0";

/// There is one cluster, and it has no siblings.
const CLUSTER_ID: &str = "segno";
const INITIAL_FAILOVER_VERSION: i64 = 1;
const FAILOVER_VERSION_INCREMENT: i64 = 10;
/// Clients that work with this server, and their versions, as Temporal tells them.
const CLIENTS: [(&str, &str); 8] = [
    ("temporal-go", "<2.0.0"),
    ("temporal-java", "<2.0.0"),
    ("temporal-php", "<2.0.0"),
    ("temporal-server", "<2.0.0"),
    ("temporal-typescript", "<2.0.0"),
    ("temporal-cli", "<2.0.0"),
    ("temporal-ui", "<3.0.0"),
    ("Nexus-go-sdk", "<2.0.0"),
];

impl Operator {
    /// This one alone.
    pub(crate) fn list_clusters(&self, _request: ListClustersRequest) -> ListClustersResponse {
        let cluster = ClusterMetadata {
            cluster_name: CLUSTER.to_owned(),
            cluster_id: CLUSTER_ID.to_owned(),
            address: self.addresses.0.clone(),
            http_address: self.addresses.1.clone(),
            initial_failover_version: INITIAL_FAILOVER_VERSION,
            history_shard_count: 1,
            is_connection_enabled: true,
            ..Default::default()
        };
        ListClustersResponse { clusters: vec![cluster], ..Default::default() }
    }
}

impl Workflows {
    pub(crate) fn system_info(&self) -> GetSystemInfoResponse {
        GetSystemInfoResponse {
            server_version: SERVER_VERSION.to_owned(),
            capabilities: Some(Capabilities {
                signal_and_query_header: true,
                internal_error_differentiation: true,
                activity_failure_include_heartbeat: true,
                encoded_failure_attributes: true,
                upsert_memo: true,
                eager_workflow_start: true,
                sdk_metadata: true,
                count_group_by_execution_status: true,
                // Workers then say which build they are, which is kept; it does not decide who gets a task.
                build_id_based_versioning: true,
                supports_schedules: true,
                nexus: true,
                // Temporal starts and stops workers of some clouds; Segno does not.
                ..Default::default()
            }),
        }
    }

    pub(crate) fn cluster_info(&self) -> GetClusterInfoResponse {
        GetClusterInfoResponse {
            server_version: SERVER_VERSION.to_owned(),
            supported_clients: CLIENTS.iter().map(|(name, range)| (name.to_string(), range.to_string())).collect(),
            cluster_id: CLUSTER_ID.to_owned(),
            cluster_name: CLUSTER.to_owned(),
            history_shard_count: 1,
            persistence_store: self.node.runs.store_kind().to_owned(),
            visibility_store: self.node.runs.store_kind().to_owned(),
            initial_failover_version: INITIAL_FAILOVER_VERSION,
            failover_version_increment: FAILOVER_VERSION_INCREMENT,
            ..Default::default()
        }
    }
}
