//! Changes of Nexus endpoints. A change is a document of the server's own and in effect everywhere when the call returns, like other
//! changes that the leader makes.

use std::sync::Arc;

use prost::Message;
use segno_environment::finish::finish;
use segno_store::{Commit, DocumentWrite, NamespaceKey};

use crate::{
    endpoints::{Endpoint, EndpointError, EndpointSpec, Endpoints, Tables},
    error::CallError,
    runs::Runs,
};

const PREFIX: &str = "nexus-endpoint/";
/// Documents that belong to no namespace.
const SERVER: NamespaceKey = NamespaceKey(0);

impl Runs {
    /// Reads all endpoints, at the start and whenever another node changed some.
    pub async fn load_endpoints(&self) -> Result<(), CallError> {
        let _changing = self.endpoints.changing.lock().await;
        let mut tables = Tables::default();
        self.each_message(SERVER, PREFIX, |endpoint: Endpoint| tables.put(Arc::new(endpoint))).await?;
        let before = self.endpoints.publish(|known| std::mem::replace(known, tables));
        for (id, known) in before.by_id {
            self.target_changed(&known, self.endpoints.by_id(&id).as_deref());
        }
        Ok(())
    }

    /// Creates an endpoint.
    pub async fn create_endpoint(self: &Arc<Self>, spec: EndpointSpec) -> Result<Arc<Endpoint>, CallError> {
        let EndpointSpec { name, description, target } = spec;
        let endpoint = Endpoint {
            id: self.ids.uuid(),
            version: 1,
            name,
            description,
            target: Some(target),
            created: self.clock_now(),
            modified: 0,
        };
        self.change_endpoint(move |endpoints| {
            refuse_taken_name(endpoints, &endpoint, "creating")?;
            Ok(endpoint)
        })
        .await
    }

    /// Changes an endpoint whose version the caller knows.
    pub async fn update_endpoint(
        self: &Arc<Self>,
        id: String,
        version: i64,
        spec: EndpointSpec,
    ) -> Result<Arc<Endpoint>, CallError> {
        let now = self.clock_now();
        self.change_endpoint(move |endpoints| {
            let missing =
                || EndpointError::NotFound(format!("error updating Nexus endpoint. endpoint ID {id} not found"));
            let before = endpoints.by_id(&id).ok_or_else(missing)?;
            check_version(version, &before)?;
            let EndpointSpec { name, description, target } = spec;
            let version = before.version + 1;
            let after = Endpoint {
                version,
                name,
                description,
                target: Some(target),
                modified: now,
                ..Endpoint::clone(&before)
            };
            refuse_taken_name(endpoints, &after, "updating")?;
            Ok(after)
        })
        .await
    }

    async fn change_endpoint(
        self: &Arc<Self>,
        change: impl FnOnce(&Endpoints) -> Result<Endpoint, EndpointError> + Send + 'static,
    ) -> Result<Arc<Endpoint>, CallError> {
        self.refuse_overload()?;
        let runs = self.clone();
        finish(async move {
            let _changing = runs.endpoints.changing.lock().await;
            let endpoint = change(&runs.endpoints)?;
            runs.store_endpoint(&endpoint.id, Some(endpoint.encode_to_vec())).await?;
            let (endpoint, before) = (Arc::new(endpoint.clone()), runs.endpoints.by_id(&endpoint.id));
            runs.endpoints.publish(|tables| tables.put(endpoint.clone()));
            if let Some(before) = before {
                runs.target_changed(&before, Some(&endpoint));
            }
            Ok(endpoint)
        })
        .await
    }

    /// Deletes an endpoint whose version the caller knows. Operations that no handler has started fail.
    pub async fn delete_endpoint(self: &Arc<Self>, id: String, version: i64) -> Result<(), CallError> {
        self.refuse_overload()?;
        let runs = self.clone();
        finish(async move {
            let _changing = runs.endpoints.changing.lock().await;
            let missing = || EndpointError::NotFound(format!("error deleting nexus endpoint with ID: {id}"));
            let before = runs.endpoints.by_id(&id).ok_or_else(missing)?;
            check_version(version, &before)?;
            runs.store_endpoint(&id, None).await?;
            runs.endpoints.publish(|tables| tables.remove(&id));
            runs.target_changed(&before, None);
            Ok(())
        })
        .await
    }

    async fn store_endpoint(&self, id: &str, content: Option<Vec<u8>>) -> Result<(), CallError> {
        let write =
            DocumentWrite { namespace: SERVER, name: format!("{PREFIX}{id}"), content: content.map(Into::into) };
        Ok(self.committer.commit(Commit { documents: vec![write], ..Default::default() }).await?)
    }

    /// Requests that wait where the handlers of an endpoint were are offered where they are now.
    fn target_changed(&self, before: &Endpoint, after: Option<&Endpoint>) {
        if after.is_some_and(|after| after.target == before.target) {
            return;
        }
        if let Some(effects) = self.effects() {
            effects.endpoint_moved(&before.id);
        }
    }
}

fn refuse_taken_name(endpoints: &Endpoints, wanted: &Endpoint, action: &'static str) -> Result<(), EndpointError> {
    match endpoints.by_name(&wanted.name) {
        Some(other) if other.id != wanted.id => Err(EndpointError::NameTaken { action, name: wanted.name.clone() }),
        _ => Ok(()),
    }
}

fn check_version(received: i64, endpoint: &Endpoint) -> Result<(), EndpointError> {
    match received == endpoint.version {
        true => Ok(()),
        false => Err(EndpointError::Version { received, expected: endpoint.version }),
    }
}
