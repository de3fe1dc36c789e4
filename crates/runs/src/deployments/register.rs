//! Registration by polls: the first poll of a worker's version on a queue makes deployment, version and membership.

use std::{sync::Arc, time::Duration};

use segno_deployments::{
    Deployment, DeploymentError, MemberQueue, Version,
    calls::{Registration, register},
};
use segno_proto::Nanos;
use segno_store::NamespaceKey;

use super::Uses;
use crate::{error::CallError, ports::owner::Place, runs::Runs};

/// How long a poll is held that is refused, so that a worker does not repeat it at once.
const REFUSAL_DELAY: Duration = Duration::from_secs(5);
const NOT_READY: &str = "task queue is not ready to process polls from this deployment version, try again shortly";

impl Runs {
    /// Makes a queue a member of a version. Once this returns it is one, at all nodes. Costs a look at memory if it was one before.
    pub async fn register_poller(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        version: &Version,
        queue: MemberQueue,
    ) -> Result<(), CallError> {
        if self.deployments.is_member(namespace, version, &queue) {
            return Ok(());
        }
        let registration = Registration { version: version.clone(), queue };
        let registered = match self.leader() {
            Place::Here => self.register_here(namespace, registration).await,
            Place::There(leader) => self.owner.register_poller(leader, namespace, &registration).await,
            Place::Nowhere => Err(CallError::Unavailable(NOT_READY.to_owned())),
        };
        let Err(refused) = registered else { return Ok(()) };
        tracing::warn!(
            deployment = version.deployment_name,
            build = version.build_id,
            error = %refused,
            "a poll did not register its version"
        );
        tokio::time::sleep(REFUSAL_DELAY).await;
        Err(match refused {
            CallError::Deployment(_) => refused,
            _ => CallError::Unavailable(NOT_READY.to_owned()),
        })
    }

    /// Makes a queue a member of a version, at the node that leads.
    pub async fn register_here(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        registration: Registration,
    ) -> Result<(), CallError> {
        let limits = self.deployment_limits;
        if !limits.enabled {
            return Err(DeploymentError::Disabled.into());
        }
        if self.namespaces.by_key(namespace).is_none() {
            return Err(CallError::NamespaceNotFound(namespace.0.to_string()));
        }
        let Registration { version, queue } = &registration;
        limits.check_versions_of_queue(self.deployments.versions_of_queue(namespace, queue))?;
        let name = version.deployment_name.clone();
        let change = move |before: Option<&Deployment>, now: Nanos, _: &Uses| {
            Ok((Some(register(before, &registration, &limits, now)?), ()))
        };
        self.change_deployment(namespace, &name, change).await?;
        self.owner.publish_namespaces().await;
        Ok(())
    }
}
