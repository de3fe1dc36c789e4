//! What a server creates at its start: namespaces and search attributes.
//!
//! They are created over the wire, with the calls that clients use. What is there already is left as it is.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use segno_proto::{
    enums::IndexedValueType,
    nanos_duration,
    operatorservice::{
        AddSearchAttributesRequest, ListSearchAttributesRequest, operator_service_client::OperatorServiceClient,
    },
    workflowservice::{RegisterNamespaceRequest, workflow_service_client::WorkflowServiceClient},
};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

/// The namespace that every server has.
const DEFAULT_NAMESPACE: &str = "default";
/// Closed runs of a namespace made here are kept for a day, as Temporal's development server does.
const RETENTION_NANOS: i64 = 24 * 3600 * 1_000_000_000;
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What to create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Namespaces besides the default one.
    pub namespaces: Vec<String>,
    /// Search attributes, for each namespace.
    pub search_attributes: Vec<(String, IndexedValueType)>,
}

impl Setup {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.search_attributes.is_empty() && self.new_namespaces().next().is_none()
    }

    fn new_namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(String::as_str).filter(|name| *name != DEFAULT_NAMESPACE)
    }

    /// Creates everything on the server at `address`.
    pub async fn carry_out(&self, address: SocketAddr) -> anyhow::Result<()> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.timeout(CALL_TIMEOUT).connect().await?;
        for namespace in self.new_namespaces() {
            register(channel.clone(), namespace)
                .await
                .with_context(|| format!("the namespace {namespace:?} could not be created"))?;
        }
        for namespace in std::iter::once(DEFAULT_NAMESPACE).chain(self.new_namespaces()) {
            for (name, kind) in &self.search_attributes {
                add(channel.clone(), namespace, name, *kind).await.with_context(|| {
                    format!("the search attribute {name:?} could not be added to the namespace {namespace:?}")
                })?;
            }
        }
        Ok(())
    }
}

async fn register(channel: Channel, namespace: &str) -> Result<(), Refusal> {
    let request = RegisterNamespaceRequest {
        namespace: namespace.to_owned(),
        workflow_execution_retention_period: Some(nanos_duration(RETENTION_NANOS)),
        ..Default::default()
    };
    there_anyway(WorkflowServiceClient::new(channel).register_namespace(request).await.map(|_| ()))
}

async fn add(channel: Channel, namespace: &str, name: &str, kind: IndexedValueType) -> anyhow::Result<()> {
    let mut operator = OperatorServiceClient::new(channel);
    // Adding one that is there, with any type, is answered as a success: so look first.
    let request = ListSearchAttributesRequest { namespace: namespace.to_owned() };
    let there = operator.list_search_attributes(request).await.map_err(Refusal)?.into_inner();
    match there.custom_attributes.get(name) {
        Some(found) if *found == kind as i32 => return Ok(()),
        Some(_) => bail!("it is there already, with another type"),
        None => {}
    }
    let request = AddSearchAttributesRequest {
        namespace: namespace.to_owned(),
        search_attributes: [(name.to_owned(), kind as i32)].into(),
    };
    Ok(there_anyway(operator.add_search_attributes(request).await.map(|_| ()))?)
}

/// What a call was answered, in the server's words alone.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message())]
struct Refusal(Status);

fn there_anyway(result: Result<(), Status>) -> Result<(), Refusal> {
    match result {
        Err(status) if status.code() != Code::AlreadyExists => Err(Refusal(status)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_namespace_needs_nothing() {
        assert!(Setup { namespaces: vec!["default".to_owned()], ..Default::default() }.is_empty());
        assert!(!Setup { namespaces: vec!["other".to_owned()], ..Default::default() }.is_empty());
        let attribute = ("A".to_owned(), IndexedValueType::Int);
        assert!(!Setup { search_attributes: vec![attribute], ..Default::default() }.is_empty());
    }

    #[test]
    fn what_exists_is_no_failure() {
        assert!(there_anyway(Err(Status::already_exists("x"))).is_ok());
        assert_eq!(there_anyway(Err(Status::unimplemented("no"))).expect_err("refused").to_string(), "no");
    }
}
