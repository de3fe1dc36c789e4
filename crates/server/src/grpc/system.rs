//! What the server says of itself.

use segno_proto::workflowservice::{
    GetClusterInfoResponse, GetSystemInfoResponse, get_system_info_response::Capabilities,
};

use super::Workflows;

/// The version of Temporal's server whose behaviour this one shows; clients compare it.
const SERVER_VERSION: &str = "1.32.0";

impl Workflows {
    pub(super) fn system_info(&self) -> GetSystemInfoResponse {
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
                // Told truthfully: schedules and Nexus are not built yet.
                ..Default::default()
            }),
        }
    }

    pub(super) fn cluster_info(&self) -> GetClusterInfoResponse {
        GetClusterInfoResponse {
            server_version: SERVER_VERSION.to_owned(),
            cluster_id: "segno".to_owned(),
            cluster_name: "active".to_owned(),
            history_shard_count: 1,
            persistence_store: "sqlite".to_owned(),
            visibility_store: "sqlite".to_owned(),
            ..Default::default()
        }
    }
}
