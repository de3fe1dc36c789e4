//! The routing of a namespace's queues, derived from its deployments.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use segno_environment::hash::HashMap;
use segno_proto::Nanos;

use crate::{
    deployment::Deployment,
    registry::NamespaceRouting,
    routing::{MemberQueue, QueueRouting, Ramp, Target},
};

/// What a queue's routing was derived from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoutingSource {
    /// Where tasks go.
    pub routing: QueueRouting,
    /// When that changed last.
    pub changed: Nanos,
}

impl NamespaceRouting {
    /// The routing that follows from all deployments of a namespace.
    pub fn of<'a>(deployments: impl Iterator<Item = &'a Deployment>) -> Self {
        let mut members = HashMap::default();
        let mut having: BTreeMap<MemberQueue, Vec<&Deployment>> = BTreeMap::new();
        for deployment in deployments {
            let mut queues: HashSet<MemberQueue> = HashSet::new();
            for (build, version) in &deployment.versions {
                let of_version: HashSet<MemberQueue> = version.members().collect();
                queues.extend(of_version.iter().cloned());
                members.insert(deployment.shared_version(build), of_version);
            }
            for queue in queues {
                having.entry(queue).or_default().push(deployment);
            }
        }
        let queues = having.into_iter().map(|(queue, deployments)| {
            let source = source_of(&queue, &deployments);
            (queue, Arc::new(source.routing))
        });
        Self { queues: queues.collect(), members }
    }
}

/// The routing of a queue that versions of these deployments have.
pub(crate) fn source_of(queue: &MemberQueue, deployments: &[&Deployment]) -> RoutingSource {
    // A deployment whose current version has the queue, the last one to change it; else workers without a version.
    let current = deployments.iter().filter(|known| is_routed(known, known.record.current.as_deref(), queue));
    let current = current.max_by_key(|known| known.record.current_changed);
    let of_version = |known: &&&Deployment| match known.ramping_build() {
        Some(Some(build)) => known.has(build, queue),
        _ => false,
    };
    let newest = |known: &&&Deployment| known.record.percentage_changed;
    let ramping = deployments.iter().filter(of_version).max_by_key(newest);
    let ramping =
        ramping.or_else(|| deployments.iter().filter(|known| known.ramping_build() == Some(None)).max_by_key(newest));
    let target = |deployment: &Deployment, build: Option<&str>| Target {
        version: build.map(|build| deployment.shared_version(build)),
        revision: deployment.record.revision,
    };
    let last_changed = deployments.iter().max_by_key(|known| known.record.current_changed);
    let routing = QueueRouting {
        current: match (current, last_changed) {
            (Some(deployment), _) => target(deployment, deployment.record.current.as_deref()),
            (None, Some(deployment)) => target(deployment, None),
            (None, None) => Target::default(),
        },
        ramp: ramping.map(|deployment| Ramp {
            target: target(deployment, deployment.ramping_build().flatten()),
            percentage: deployment.record.percentage,
        }),
    };
    let times = |known: &&Deployment| {
        let record = &known.record;
        record.current_changed.max(record.ramping_changed).max(record.percentage_changed)
    };
    RoutingSource { routing, changed: deployments.iter().map(times).max().unwrap_or_default() }
}

fn is_routed(deployment: &Deployment, build: Option<&str>, queue: &MemberQueue) -> bool {
    build.is_some_and(|build| deployment.has(build, queue))
}
