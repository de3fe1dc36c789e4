//! Requests about namespaces and their search attributes.
//!
//! Updates are checked and applied in one go, on the newest state of the namespace, in Temporal's order.

use std::collections::BTreeMap;

use segno_engine::search_attributes::{PREDEFINED, SYSTEM};
use segno_engine::validate::{ID_LENGTH_MAX, duration};
use segno_node::{NamespaceDetail, NamespaceName};
use segno_proto::enums::{IndexedValueType, NamespaceState, ReplicationState};
use segno_proto::operatorservice::DeleteNamespaceRequest;
use segno_proto::replication::ClusterReplicationConfig;
use segno_proto::workflowservice::{
    DescribeNamespaceRequest, ListNamespacesRequest, RegisterNamespaceRequest, UpdateNamespaceRequest,
};
use segno_proto::{Nanos, duration_nanos, nanos_timestamp};

use super::RequestError;

/// The name of the one cluster there is.
pub const CLUSTER: &str = "active";
/// Temporal keeps its own workflows in this namespace. Segno has none of those, but no other namespace may have the name.
pub const SYSTEM_NAMESPACE: &str = "temporal-system";
const RETENTION_MIN: Nanos = 3600 * 1_000_000_000;
const BAD_BINARIES_MAX: usize = 10;
const PAGE_SIZE_DEFAULT: usize = 100;
const PAGE_SIZE_MAX: usize = 1000;
/// Names that mean something to Temporal's own storage of search attributes.
const RESERVED_ATTRIBUTES: [&str; 4] = ["NamespaceId", "MemoEncoding", "Memo", "VisibilityTaskKey"];

fn not_set() -> RequestError {
    RequestError::invalid("Namespace not set on request.")
}

/// A name that is too long is refused before anything else.
pub fn name_length(name: &str) -> Result<(), RequestError> {
    if name.len() > ID_LENGTH_MAX { Err(RequestError::invalid("Namespace length exceeds limit.")) } else { Ok(()) }
}

/// A namespace that must be named.
pub fn named(name: &str) -> Result<NamespaceName, RequestError> {
    name_length(name)?;
    if name.is_empty() { Err(not_set()) } else { Ok(NamespaceName::Name(name.to_owned())) }
}

/// DescribeNamespace.
pub fn describe(request: &DescribeNamespaceRequest) -> Result<NamespaceName, RequestError> {
    name_length(&request.namespace)?;
    match (request.namespace.as_str(), request.id.as_str()) {
        ("", "") => Err(not_set()),
        ("", id) => Ok(NamespaceName::Id(id.to_owned())),
        (name, "") => Ok(NamespaceName::Name(name.to_owned())),
        _ => Err(RequestError::invalid("GetNamespace operation failed.  Both ID and Name specified in request.")),
    }
}

/// RegisterNamespace. Gives back the retention that will hold.
pub fn register(request: &mut RegisterNamespaceRequest) -> Result<Nanos, RequestError> {
    named(&request.namespace)?;
    if request.is_global_namespace {
        return Err(RequestError::invalid("Cannot register global namespace when not enabled"));
    }
    retention(request.workflow_execution_retention_period.as_mut())
}

/// The clusters a new namespace is to be in; looked at after its name.
pub fn register_clusters(request: &RegisterNamespaceRequest) -> Result<(), RequestError> {
    clusters(&request.active_cluster_name, &request.clusters)
}

/// ListNamespaces. Gives back how many are wanted and the key after which they begin.
pub fn list(request: &ListNamespacesRequest) -> Result<(usize, u32), RequestError> {
    let size = match usize::try_from(request.page_size) {
        Ok(0) => PAGE_SIZE_DEFAULT,
        Ok(size) => size.min(PAGE_SIZE_MAX),
        Err(_) => return Err(RequestError::invalid("Invalid PageSize.")),
    };
    if request.next_page_token.is_empty() {
        return Ok((size, 0));
    }
    let token =
        request.next_page_token.as_ref().try_into().map_err(|_| RequestError::invalid("Invalid NextPageToken."))?;
    Ok((size, u32::from_be_bytes(token)))
}

/// UpdateNamespace: applies the request to what the namespace is now.
pub fn update(request: UpdateNamespaceRequest, detail: &mut NamespaceDetail, now: Nanos) -> Result<(), RequestError> {
    let before = state_of(detail);
    if let Some(info) = request.update_info {
        if !info.description.is_empty() {
            detail.description = info.description;
        }
        if !info.owner_email.is_empty() {
            detail.owner_email = info.owner_email;
        }
        detail.data.extend(info.data);
        let after = NamespaceState::try_from(info.state).ok();
        if after != Some(NamespaceState::Unspecified) && after != Some(before) {
            detail.state = new_state(before, after)? as i32;
        }
    }
    if let Some(mut config) = request.config {
        if config.workflow_execution_retention_ttl.is_some() {
            detail.retention = retention(config.workflow_execution_retention_ttl.as_mut())?;
        }
        for (checksum, mut binary) in config.bad_binaries.unwrap_or_default().binaries {
            binary.create_time = Some(nanos_timestamp(now));
            detail.bad_binaries.insert(checksum, binary);
        }
        if detail.bad_binaries.len() > BAD_BINARIES_MAX {
            let text = format!("Total resetBinaries cannot exceed the max limit: {BAD_BINARIES_MAX}");
            return Err(RequestError::invalid(text));
        }
        // Those that are there may come back with the rest of a description.
        let known: BTreeMap<_, _> = detail.attribute_aliases().collect();
        if !config.custom_search_attribute_aliases.iter().all(|(field, name)| known.get(field) == Some(name)) {
            return Err(RequestError::invalid(
                "Search attributes have no aliases here. Use the operator service to add and remove them.",
            ));
        }
    }
    if !request.delete_bad_binary.is_empty() && detail.bad_binaries.remove(&request.delete_bad_binary).is_none() {
        return Err(RequestError::invalid(format!(
            "Bad binary checksum {} doesn't exists.",
            request.delete_bad_binary
        )));
    }
    if let Some(config) = request.replication_config {
        if config.state == ReplicationState::Handover as i32 {
            return Err(RequestError::invalid("Handover can only be set for global namespace"));
        }
        clusters(&config.active_cluster_name, &config.clusters)?;
    }
    if request.promote_namespace {
        return Err(RequestError::invalid(format!(
            "global namespace is not enabled on this cluster, cannot update global namespace or promote local \
             namespace: {}",
            request.namespace
        )));
    }
    Ok(())
}

/// DeleteNamespace. Gives back which one, and how long its record stays at least.
pub fn delete(request: &mut DeleteNamespaceRequest) -> Result<(NamespaceName, Nanos), RequestError> {
    name_length(&request.namespace)?;
    let name = match (request.namespace.as_str(), request.namespace_id.as_str()) {
        ("", "") => return Err(not_set()),
        ("", id) => NamespaceName::Id(id.to_owned()),
        (name, "") => NamespaceName::Name(name.to_owned()),
        _ => return Err(RequestError::invalid("Only one of namespace name or Id should be set on request.")),
    };
    duration(request.namespace_delete_delay.as_mut())?;
    Ok((name, duration_nanos(request.namespace_delete_delay.as_ref())))
}

/// AddSearchAttributes, as far as the namespace does not matter: names and types.
pub fn new_attributes(
    asked: impl IntoIterator<Item = (String, i32)>,
) -> Result<Vec<(String, IndexedValueType)>, RequestError> {
    let mut attributes = Vec::new();
    for (name, kind) in asked {
        let known = |other: &str| other == name;
        let taken = SYSTEM.iter().any(|(other, _)| known(other))
            || PREDEFINED.iter().any(|(other, ..)| known(other))
            || RESERVED_ATTRIBUTES.iter().any(|other| known(other));
        if taken || name.starts_with("Temporal") {
            return Err(RequestError::invalid(format!("Search attribute {name} is reserved by system.")));
        }
        let unknown = || RequestError::invalid(format!("Unknown search attribute type: {kind}."));
        attributes.push((name, IndexedValueType::try_from(kind).map_err(|_| unknown())?));
    }
    if attributes.is_empty() {
        return Err(RequestError::invalid("SearchAttributes are not set on request."));
    }
    if attributes.iter().any(|(_, kind)| *kind == IndexedValueType::Unspecified) {
        let text = "Unable to create search attributes: cannot have more than 0 search attribute of type Unspecified.";
        return Err(RequestError::invalid(text));
    }
    Ok(attributes)
}

/// RemoveSearchAttributes: the server's own stay.
pub fn remove_attributes(names: &[String], detail: &mut NamespaceDetail) -> Result<(), RequestError> {
    for name in names {
        let removed = detail.attributes.remove(name).is_some();
        let own = SYSTEM.iter().any(|(other, _)| other == name) || PREDEFINED.iter().any(|(other, ..)| other == name);
        if !removed && own {
            return Err(RequestError::invalid(format!("Unable to remove non-custom search attributes: {name}.")));
        }
    }
    Ok(())
}

fn state_of(detail: &NamespaceDetail) -> NamespaceState {
    match detail.state() {
        NamespaceState::Unspecified => NamespaceState::Registered,
        state => state,
    }
}

/// A namespace can only go down: registered, deprecated, deleted.
fn new_state(before: NamespaceState, after: Option<NamespaceState>) -> Result<NamespaceState, RequestError> {
    use NamespaceState::{Deleted, Deprecated, Registered};
    match (before, after) {
        (Registered, Some(after @ (Deprecated | Deleted))) | (Deprecated, Some(after @ Deleted)) => Ok(after),
        _ => Err(RequestError::invalid("Invalid namespace state update.")),
    }
}

fn retention(period: Option<&mut prost_types::Duration>) -> Result<Nanos, RequestError> {
    let invalid = || RequestError::invalid("A valid retention period is not set on request.");
    let period = period.ok_or_else(invalid)?;
    duration(Some(period)).map_err(|_| invalid())?;
    let nanos = duration_nanos(Some(period));
    if nanos < RETENTION_MIN { Err(invalid()) } else { Ok(nanos) }
}

fn clusters(active: &str, clusters: &[ClusterReplicationConfig]) -> Result<(), RequestError> {
    let names = clusters.iter().map(|cluster| cluster.cluster_name.as_str());
    let active = Some(active).filter(|name| !name.is_empty());
    if let Some(unknown) = active.into_iter().chain(names).find(|name| *name != CLUSTER) {
        return Err(RequestError::invalid(format!("Invalid cluster name: {unknown}")));
    }
    if clusters.len() > 1 {
        return Err(RequestError::invalid("Invalid local namespace clusters"));
    }
    Ok(())
}
