//! The calls on Nexus endpoints.

use std::{str, sync::Arc};

use segno_node::{Endpoint, EndpointSpec, EndpointTarget, Namespace, NamespaceName, WorkerTarget};
use segno_proto::{
    nanos_timestamp,
    nexus::{self, EndpointTarget as WireTarget, endpoint_target::Variant},
    operatorservice::{
        CreateNexusEndpointRequest, CreateNexusEndpointResponse, DeleteNexusEndpointRequest,
        DeleteNexusEndpointResponse, GetNexusEndpointRequest, GetNexusEndpointResponse, ListNexusEndpointsRequest,
        ListNexusEndpointsResponse, UpdateNexusEndpointRequest, UpdateNexusEndpointResponse,
    },
};
use tonic::Status;

use crate::{
    grpc::{Operator, describe::time, failed, refused},
    status::not_found,
    validate::endpoint as validate,
};

impl Operator {
    pub(crate) async fn create_nexus_endpoint(
        &self,
        request: CreateNexusEndpointRequest,
    ) -> Result<CreateNexusEndpointResponse, Status> {
        let spec = self.spec_of(request.spec)?;
        let created = self.node.runs.create_endpoint(spec).await.map_err(failed)?;
        Ok(CreateNexusEndpointResponse { endpoint: Some(self.described(&created)) })
    }

    pub(crate) async fn update_nexus_endpoint(
        &self,
        request: UpdateNexusEndpointRequest,
    ) -> Result<UpdateNexusEndpointResponse, Status> {
        let spec = self.spec_of(request.spec)?;
        let updated = self.node.runs.update_endpoint(request.id, request.version, spec).await.map_err(failed)?;
        Ok(UpdateNexusEndpointResponse { endpoint: Some(self.described(&updated)) })
    }

    pub(crate) async fn delete_nexus_endpoint(
        &self,
        request: DeleteNexusEndpointRequest,
    ) -> Result<DeleteNexusEndpointResponse, Status> {
        validate::delete(&request.id, request.version).map_err(refused)?;
        self.node.runs.delete_endpoint(request.id, request.version).await.map_err(failed)?;
        Ok(DeleteNexusEndpointResponse {})
    }

    pub(crate) fn nexus_endpoint(&self, request: GetNexusEndpointRequest) -> Result<GetNexusEndpointResponse, Status> {
        validate::id(&request.id).map_err(refused)?;
        let found = self.node.runs.endpoints.by_id(&request.id);
        let found = found.ok_or_else(|| not_found(format!("Nexus endpoint with ID `{}` not found", request.id)))?;
        Ok(GetNexusEndpointResponse { endpoint: Some(self.described(&found)) })
    }

    pub(crate) fn list_nexus_endpoints(
        &self,
        request: ListNexusEndpointsRequest,
    ) -> Result<ListNexusEndpointsResponse, Status> {
        let endpoints = &self.node.runs.endpoints;
        if !request.name.is_empty() {
            let found = endpoints.by_name(&request.name);
            let endpoints = found.iter().map(|endpoint| self.described(endpoint)).collect();
            return Ok(ListNexusEndpointsResponse { endpoints, ..Default::default() });
        }
        let size = validate::page_size(request.page_size).map_err(refused)?;
        let after = match &request.next_page_token[..] {
            [] => None,
            token => {
                let id = str::from_utf8(token).ok().filter(|id| segno_engine::validate::is_uuid(id));
                Some(id.ok_or_else(|| Status::invalid_argument("invalid page token"))?)
            }
        };
        let mut page = endpoints.after(after, size + 1);
        let has_more = page.len() > size;
        page.truncate(size);
        let last = page.last().filter(|_| has_more).map(|endpoint| endpoint.id.clone());
        Ok(ListNexusEndpointsResponse {
            next_page_token: last.unwrap_or_default().into(),
            endpoints: page.iter().map(|endpoint| self.described(endpoint)).collect(),
        })
    }

    fn spec_of(&self, spec: Option<nexus::EndpointSpec>) -> Result<EndpointSpec, Status> {
        if let Some(Variant::Worker(worker)) = spec.as_ref().and_then(|spec| spec.target.as_ref()?.variant.as_ref())
            && !worker.namespace.is_empty()
        {
            // An unknown namespace comes before everything else that is wrong.
            self.namespace_of_target(&worker.namespace)?;
        }
        validate::spec(spec.as_ref()).map_err(refused)?;
        let nexus::EndpointSpec { name, description, target } = spec.unwrap_or_default();
        let target = match target.and_then(|target| target.variant) {
            Some(Variant::Worker(worker)) => {
                let namespace_id = self.namespace_of_target(&worker.namespace)?.detail.id.clone();
                EndpointTarget::Worker(WorkerTarget { namespace_id, queue: worker.task_queue })
            }
            Some(Variant::External(external)) => {
                validate::allowed_target(&external.url, &self.node.http_sender.settings.endpoint_targets)
                    .map_err(refused)?;
                EndpointTarget::External(external.url)
            }
            None => return Err(Status::invalid_argument("empty target variant")),
        };
        Ok(EndpointSpec { name, description, target })
    }

    fn namespace_of_target(&self, name: &str) -> Result<Arc<Namespace>, Status> {
        self.node.runs.namespaces.live(name).ok_or_else(|| {
            Status::failed_precondition(format!(
                "could not verify namespace referenced by target exists: Namespace {name} is not found."
            ))
        })
    }

    fn described(&self, endpoint: &Endpoint) -> nexus::Endpoint {
        let variant = match &endpoint.target {
            Some(EndpointTarget::Worker(target)) => {
                let namespace = self.node.runs.namespaces.find(&NamespaceName::Id(target.namespace_id.clone()));
                Some(Variant::Worker(nexus::endpoint_target::Worker {
                    namespace: namespace.map(|namespace| namespace.name.clone()).unwrap_or_default(),
                    task_queue: target.queue.clone(),
                }))
            }
            Some(EndpointTarget::External(url)) => {
                Some(Variant::External(nexus::endpoint_target::External { url: url.clone() }))
            }
            None => None,
        };
        nexus::Endpoint {
            version: endpoint.version,
            id: endpoint.id.clone(),
            spec: Some(nexus::EndpointSpec {
                name: endpoint.name.clone(),
                description: endpoint.description.clone(),
                target: Some(WireTarget { variant }),
            }),
            created_time: Some(nanos_timestamp(endpoint.created)),
            last_modified_time: time(endpoint.modified),
            url_prefix: format!("/nexus/endpoints/{}/services", endpoint.id),
        }
    }
}
