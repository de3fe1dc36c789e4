//! Registering, describing, listing and changing namespaces.

use std::sync::Arc;

use segno_engine::{Rejection, limits::MEMO_BYTES_MAX};
use segno_node::{CallError, Namespace, NamespaceName, NewNamespace, Node, TASK_PAGES_BYTES_MAX};
use segno_proto::{
    enums::{ArchivalState, NamespaceState, ReplicationState},
    namespace::{
        BadBinaries, NamespaceConfig, NamespaceInfo,
        namespace_info::{Capabilities, Limits},
    },
    nanos_duration,
    operatorservice::{DeleteNamespaceRequest, DeleteNamespaceResponse},
    replication::{ClusterReplicationConfig, NamespaceReplicationConfig},
    workflowservice::{
        DeprecateNamespaceRequest, DeprecateNamespaceResponse, DescribeNamespaceRequest, DescribeNamespaceResponse,
        ListNamespacesRequest, ListNamespacesResponse, RegisterNamespaceRequest, RegisterNamespaceResponse,
        UpdateNamespaceRequest, UpdateNamespaceResponse,
    },
};
use segno_store::NamespaceKey;
use tonic::Status;

use super::{Operator, Workflows, failed, refused};
use crate::{
    status,
    validate::{self, namespace::CLUSTER},
};

/// The states in which a namespace can be used.
pub const USABLE: &[NamespaceState] = &[NamespaceState::Registered, NamespaceState::Deprecated];
/// The state in which workflows can be started in a namespace.
pub const OPEN: &[NamespaceState] = &[NamespaceState::Registered];

/// A namespace in one of the given states.
pub fn in_state(namespace: Arc<Namespace>, allowed: &[NamespaceState]) -> Result<Arc<Namespace>, Status> {
    if allowed.contains(&namespace.state()) {
        return Ok(namespace);
    }
    Err(status::namespace_invalid_state(&namespace.name, namespace.state(), allowed))
}

/// A namespace by name or id that can be used.
pub fn usable(node: &Node, name: &NamespaceName) -> Result<Arc<Namespace>, Status> {
    let (NamespaceName::Name(text) | NamespaceName::Id(text)) = name;
    let namespace = node.runs.namespaces.find(name).ok_or_else(|| status::namespace_not_found(text))?;
    in_state(namespace, USABLE)
}

/// A refusal while a namespace is being changed.
pub fn rejected(refused: validate::RequestError) -> CallError {
    CallError::Rejected(Rejection::InvalidArgument(refused.text))
}

impl Workflows {
    pub(crate) async fn register_namespace(
        &self,
        mut request: RegisterNamespaceRequest,
    ) -> Result<RegisterNamespaceResponse, Status> {
        let retention = validate::namespace::register(&mut request).map_err(refused)?;
        let name = &request.namespace;
        if name == validate::namespace::SYSTEM_NAMESPACE || self.node.runs.namespaces.get(name).is_some() {
            return Err(failed(CallError::NamespaceExists(request.namespace)));
        }
        validate::namespace::register_clusters(&request).map_err(refused)?;
        let new = NewNamespace {
            name: request.namespace,
            retention,
            description: request.description,
            owner_email: request.owner_email,
            data: request.data.into_iter().collect(),
        };
        self.node.namespaces.register(new).await.map_err(failed)?;
        Ok(RegisterNamespaceResponse::default())
    }

    pub(crate) fn describe_namespace(
        &self,
        request: DescribeNamespaceRequest,
    ) -> Result<DescribeNamespaceResponse, Status> {
        let name = validate::namespace::describe(&request).map_err(refused)?;
        let (NamespaceName::Name(text) | NamespaceName::Id(text)) = &name;
        let namespace = self.node.runs.namespaces.find(&name).ok_or_else(|| status::namespace_not_found(text))?;
        let (info, config, replication) = description(&self.node, &namespace);
        Ok(DescribeNamespaceResponse {
            namespace_info: Some(info),
            config: Some(config),
            replication_config: Some(replication),
            ..Default::default()
        })
    }

    /// In the order in which they were registered; a page's token is the key of its last namespace.
    pub(crate) fn list_namespaces(&self, request: ListNamespacesRequest) -> Result<ListNamespacesResponse, Status> {
        let (size, after) = validate::namespace::list(&request).map_err(refused)?;
        let also_deleted = request.namespace_filter.is_some_and(|filter| filter.include_deleted);
        let mut found = self.node.runs.namespaces.after(NamespaceKey(after));
        found.retain(|namespace| also_deleted || namespace.is_live());
        let more = found.len() > size;
        found.truncate(size);
        let last = found.last().filter(|_| more);
        let next_page_token = last.map(|last| last.key.0.to_be_bytes().to_vec().into()).unwrap_or_default();
        let namespaces = found.iter().map(|namespace| {
            let (info, config, replication) = description(&self.node, namespace);
            DescribeNamespaceResponse {
                namespace_info: Some(info),
                config: Some(config),
                replication_config: Some(replication),
                ..Default::default()
            }
        });
        Ok(ListNamespacesResponse { namespaces: namespaces.collect(), next_page_token })
    }

    pub(crate) async fn update_namespace(
        &self,
        request: UpdateNamespaceRequest,
    ) -> Result<UpdateNamespaceResponse, Status> {
        let name = validate::namespace::named(&request.namespace).map_err(refused)?;
        usable(&self.node, &name)?;
        let now = self.node.runs.now();
        let edit = move |detail: &mut _| validate::namespace::update(request, detail, now).map_err(rejected);
        let namespace = self.node.namespaces.change(name, edit).await.map_err(failed)?;
        let (info, config, replication) = description(&self.node, &namespace);
        Ok(UpdateNamespaceResponse {
            namespace_info: Some(info),
            config: Some(config),
            replication_config: Some(replication),
            ..Default::default()
        })
    }

    pub(crate) async fn deprecate_namespace(
        &self,
        request: DeprecateNamespaceRequest,
    ) -> Result<DeprecateNamespaceResponse, Status> {
        let name = validate::namespace::named(&request.namespace).map_err(refused)?;
        usable(&self.node, &name)?;
        let edit = |detail: &mut segno_node::NamespaceDetail| {
            detail.state = NamespaceState::Deprecated as i32;
            Ok(())
        };
        self.node.namespaces.change(name, edit).await.map_err(failed)?;
        Ok(DeprecateNamespaceResponse::default())
    }
}

impl Operator {
    pub(crate) async fn delete_namespace(
        &self,
        mut request: DeleteNamespaceRequest,
    ) -> Result<DeleteNamespaceResponse, Status> {
        let (name, delay) = validate::namespace::delete(&mut request).map_err(refused)?;
        if name == NamespaceName::Name(validate::namespace::SYSTEM_NAMESPACE.to_owned()) {
            return Err(Status::failed_precondition("unable to delete system namespace"));
        }
        let named = self.node.runs.namespaces.find(&name);
        let endpoint = named.and_then(|namespace| self.node.runs.endpoints.of_namespace(&namespace.detail.id));
        if let Some(endpoint) = endpoint {
            let text = format!("cannot delete a namespace that is a target of a Nexus endpoint {}", endpoint.name);
            return Err(Status::failed_precondition(text));
        }
        let deleted_namespace = self.node.namespaces.delete(name, delay).await.map_err(failed)?;
        Ok(DeleteNamespaceResponse { deleted_namespace })
    }
}

fn description(node: &Node, namespace: &Namespace) -> (NamespaceInfo, NamespaceConfig, NamespaceReplicationConfig) {
    let detail = &namespace.detail;
    let info = NamespaceInfo {
        name: namespace.name.clone(),
        state: namespace.state() as i32,
        description: detail.description.clone(),
        owner_email: detail.owner_email.clone(),
        data: detail.data.clone().into_iter().collect(),
        id: detail.id.clone(),
        supports_schedules: true,
        capabilities: Some(Capabilities {
            eager_workflow_start: true,
            sync_update: true,
            async_update: true,
            reported_problems_search_attribute: true,
            worker_heartbeats: true,
            worker_poll_complete_on_shutdown: node.workers.polls_end_on_shutdown,
            worker_commands: true,
            standalone_activities: true,
            poller_autoscaling: true,
            standalone_activity_start_delay: true,
            standalone_activity_batch_operations: true,
            standalone_activity_operator_commands: true,
            standalone_nexus_operation: node.runs.options.nexus_standalone,
            workflow_pause: node.runs.options.workflow_pause,
            workflow_task_completion_pagination: node.runs.completion_pages.is_some(),
            ..Default::default()
        }),
        limits: Some(Limits {
            blob_size_limit_error: node.runs.limits().blob_bytes as i64,
            memo_size_limit_error: MEMO_BYTES_MAX as i64,
            workflow_task_completion_size_limit_error: TASK_PAGES_BYTES_MAX as i64,
        }),
    };
    let config = NamespaceConfig {
        workflow_execution_retention_ttl: Some(nanos_duration(detail.retention)),
        bad_binaries: Some(BadBinaries { binaries: detail.bad_binaries.clone().into_iter().collect() }),
        history_archival_state: ArchivalState::Disabled as i32,
        visibility_archival_state: ArchivalState::Disabled as i32,
        custom_search_attribute_aliases: detail.attribute_aliases().collect(),
        ..Default::default()
    };
    let replication = NamespaceReplicationConfig {
        active_cluster_name: CLUSTER.to_owned(),
        clusters: vec![ClusterReplicationConfig { cluster_name: CLUSTER.to_owned(), ..Default::default() }],
        state: ReplicationState::Normal as i32,
    };
    (info, config, replication)
}
