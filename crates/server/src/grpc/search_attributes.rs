//! Registering search attributes, per namespace, by OperatorService; and the older call that lists the server's own.

use segno_engine::{
    script,
    search_attributes::{PREDEFINED, SYSTEM},
    version_wait,
};
use segno_node::{NamespaceDetail, NamespaceName};
use segno_proto::{
    enums::IndexedValueType,
    operatorservice::{
        AddSearchAttributesRequest, AddSearchAttributesResponse, ListSearchAttributesRequest,
        ListSearchAttributesResponse, RemoveSearchAttributesRequest, RemoveSearchAttributesResponse,
    },
    workflowservice::{GetSearchAttributesRequest, GetSearchAttributesResponse},
};
use tonic::Status;

use super::{
    Workflows, failed,
    namespaces::{rejected, usable},
    operator::Operator,
    refused,
};
use crate::validate;

const UNLISTED: [&str; 2] = [script::VERSION_ATTRIBUTE, version_wait::ATTRIBUTE];

/// The attributes that every namespace has.
fn own() -> impl Iterator<Item = (String, i32)> {
    // Segno's own attributes can be searched by and are not listed: tools compare the list with Temporal's.
    let of_temporal = PREDEFINED.iter().filter(|(name, ..)| !UNLISTED.contains(name));
    let predefined = of_temporal.map(|(name, kind, _)| (*name, *kind));
    SYSTEM.iter().copied().chain(predefined).map(|(name, kind)| (name.to_owned(), kind as i32))
}

impl Operator {
    /// The namespace a request names, if it names one; whether it must is asked later.
    fn named(&self, name: &str) -> Result<Option<NamespaceName>, Status> {
        validate::namespace::name_length(name).map_err(refused)?;
        if name.is_empty() {
            return Ok(None);
        }
        let name = NamespaceName::Name(name.to_owned());
        usable(&self.node, &name)?;
        Ok(Some(name))
    }

    pub(crate) async fn add_attributes(
        &self,
        request: AddSearchAttributesRequest,
    ) -> Result<AddSearchAttributesResponse, Status> {
        let name = self.named(&request.namespace)?;
        let mut attributes = validate::namespace::new_attributes(request.search_attributes).map_err(refused)?;
        let name = name.ok_or_else(namespace_not_set)?;
        // Numbers follow names within one request, in every order of its map.
        attributes.sort();
        let edit = move |detail: &mut NamespaceDetail| {
            for (name, kind) in attributes {
                detail.add_attribute(&name, kind);
            }
            Ok(())
        };
        self.node.namespaces.change(name, edit).await.map_err(failed)?;
        Ok(AddSearchAttributesResponse::default())
    }

    pub(crate) async fn remove_attributes(
        &self,
        request: RemoveSearchAttributesRequest,
    ) -> Result<RemoveSearchAttributesResponse, Status> {
        let name = self.named(&request.namespace)?;
        if request.search_attributes.is_empty() {
            return Err(Status::invalid_argument("SearchAttributes are not set on request."));
        }
        let name = name.ok_or_else(namespace_not_set)?;
        let edit = move |detail: &mut NamespaceDetail| {
            validate::namespace::remove_attributes(&request.search_attributes, detail).map_err(rejected)
        };
        self.node.namespaces.change(name, edit).await.map_err(failed)?;
        Ok(RemoveSearchAttributesResponse::default())
    }

    pub(crate) fn list_attributes(
        &self,
        request: ListSearchAttributesRequest,
    ) -> Result<ListSearchAttributesResponse, Status> {
        let name = self.named(&request.namespace)?.ok_or_else(namespace_not_set)?;
        let namespace = usable(&self.node, &name)?;
        let custom = namespace
            .search_attributes
            .iter()
            .map(|(name, kind): (&String, &IndexedValueType)| (name.clone(), *kind as i32));
        Ok(ListSearchAttributesResponse {
            custom_attributes: custom.collect(),
            system_attributes: own().collect(),
            ..Default::default()
        })
    }
}

impl Workflows {
    /// The request names no namespace, so custom attributes are not among the answers.
    pub(crate) fn search_attributes(&self, _request: GetSearchAttributesRequest) -> GetSearchAttributesResponse {
        GetSearchAttributesResponse { keys: own().collect() }
    }
}

fn namespace_not_set() -> Status {
    Status::invalid_argument("Namespace is not set on request.")
}
