//! The routing of a namespace's queues, derived from its deployments.

use std::{collections::BTreeMap, sync::Arc};

use segno_environment::hash::{HashMap, HashSet};
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
            let mut queues: HashSet<MemberQueue> = HashSet::default();
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
        record.created.max(record.current_changed).max(record.ramping_changed).max(record.percentage_changed)
    };
    RoutingSource { routing, changed: deployments.iter().map(times).max().unwrap_or_default() }
}

fn is_routed(deployment: &Deployment, build: Option<&str>, queue: &MemberQueue) -> bool {
    build.is_some_and(|build| deployment.has(build, queue))
}

#[cfg(test)]
mod tests {
    use segno_store::NamespaceKey;

    use super::*;
    use crate::{
        DeploymentLimits, Registry,
        calls::{Registration, RoutingChange, register, set_current, set_ramping},
        named_version,
        routing::QueueType,
    };

    const NAMESPACE: NamespaceKey = NamespaceKey(1);

    fn queue(kind: QueueType) -> MemberQueue {
        MemberQueue { name: "q".to_owned(), kind }
    }

    fn polled(name: &str, builds: &[&str], kind: QueueType) -> Deployment {
        let limits = DeploymentLimits::default();
        let poll = |deployment: Option<Deployment>, build: &&str| {
            let version = named_version(name.to_owned(), (*build).to_owned());
            Some(
                register(deployment.as_ref(), &Registration { version, queue: queue(kind) }, &limits, 1)
                    .expect("a poll"),
            )
        };
        builds.iter().fold(None, poll).expect("a deployment")
    }

    fn change(name: &str, build: Option<&str>) -> RoutingChange {
        RoutingChange { name: name.to_owned(), build: build.map(str::to_owned), ..Default::default() }
    }

    fn current(deployment: &Deployment, build: Option<&str>, now: Nanos) -> Deployment {
        let change = RoutingChange { identity: now.to_string(), ..change(&deployment.name, build) };
        let set = set_current(Some(deployment), &change, &DeploymentLimits::default(), now, &|_| false);
        set.expect("it is set").deployment
    }

    fn ramping(deployment: &Deployment, build: Option<&str>, percentage: f32, now: Nanos) -> Deployment {
        let change = RoutingChange { identity: now.to_string(), ..change(&deployment.name, build) };
        let set = set_ramping(Some(deployment), &change, percentage, &DeploymentLimits::default(), now, &|_| false);
        set.expect("it is set").deployment
    }

    fn target_of(deployments: &[Deployment], hash: u32) -> (Option<String>, i64) {
        let routing = NamespaceRouting::of(deployments.iter());
        let target = routing.queues[&queue(QueueType::Workflow)].target(hash).clone();
        (target.version.map(|version| format!("{}:{}", version.deployment_name, version.build_id)), target.revision)
    }

    fn version(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn the_deployment_that_changed_last_has_the_queue() {
        let (one, two) = (polled("one", &["b1"], QueueType::Workflow), polled("two", &["b1"], QueueType::Workflow));
        assert_eq!(target_of(&[one.clone(), two.clone()], 0), (None, 0));
        let one = current(&one, Some("b1"), 10);
        assert_eq!(target_of(&[one.clone(), two.clone()], 0), (version("one:b1"), 1));
        let two = current(&two, Some("b1"), 20);
        assert_eq!(target_of(&[one.clone(), two.clone()], 0), (version("two:b1"), 1));
        let two = current(&two, None, 30);
        assert_eq!(target_of(&[one.clone(), two.clone()], 0), (version("one:b1"), 1));
        let one = current(&one, None, 40);
        assert_eq!(target_of(&[one, two], 0), (None, 2));
    }

    #[test]
    fn a_queue_that_the_current_version_lacks_is_unversioned() {
        let deployment = polled("d", &["b1"], QueueType::Workflow);
        let limits = DeploymentLimits::default();
        let other = MemberQueue { name: "other".to_owned(), kind: QueueType::Workflow };
        let registration = Registration { version: named_version("d".to_owned(), "b2".to_owned()), queue: other };
        let deployment = register(Some(&deployment), &registration, &limits, 2).expect("a poll");
        let deployment = current(&deployment, Some("b2"), 10);
        assert_eq!(target_of(&[deployment], 0), (None, 1));
    }

    #[test]
    fn a_versioned_ramp_goes_before_an_unversioned_one() {
        let one = current(&polled("one", &["b1", "b2"], QueueType::Workflow), Some("b1"), 10);
        let one = ramping(&one, Some("b2"), 50.0, 11);
        let two = ramping(&current(&polled("two", &["b1"], QueueType::Workflow), Some("b1"), 5), None, 50.0, 20);
        let (below, above) = (1 << 30, 3 << 30);
        assert_eq!(target_of(&[one.clone(), two.clone()], below).0, version("one:b2"));
        assert_eq!(target_of(&[one.clone(), two.clone()], above).0, version("one:b1"));
        let one = ramping(&one, None, 0.0, 30);
        assert_eq!(target_of(&[one, two], below).0, None);
    }

    #[test]
    fn the_registry_derives_anew_with_each_change() {
        let registry = Registry::default();
        let (workflows, activities) = (queue(QueueType::Workflow), queue(QueueType::Activity));
        assert_eq!(registry.routing(NAMESPACE, &workflows), None);
        let deployment = polled("d", &["b1"], QueueType::Workflow);
        let b1 = named_version("d".to_owned(), "b1".to_owned());
        registry.put(NAMESPACE, "d", Some(Arc::new(deployment.clone())));
        assert!(registry.is_member(NAMESPACE, &b1, &workflows) && !registry.is_member(NAMESPACE, &b1, &activities));
        assert_eq!((registry.count(NAMESPACE), registry.versions_of_queue(NAMESPACE, &workflows)), (1, 1));
        let set = current(&deployment, Some("b1"), 10);
        registry.put(NAMESPACE, "d", Some(Arc::new(set.clone())));
        let source = registry.source(NAMESPACE, &workflows).expect("a version has it");
        assert_eq!((source.routing.current.version, source.changed), (Some(b1), 10));
        assert!(!registry.replace(NAMESPACE, vec![set.clone()]), "the same was read again");
        assert!(registry.replace(NAMESPACE, vec![deployment]));
        registry.put(NAMESPACE, "d", None);
        assert_eq!(registry.namespace(NAMESPACE).map(|_| ()), None);
    }

    #[test]
    fn documents_make_the_same_deployment_again() {
        let deployment = ramping(&polled("a/v/b", &["b:1", "b.2"], QueueType::Nexus), Some("b:1"), 5.0, 9);
        let mut stored = crate::StoredDeployments::default();
        let mut documents = Deployment::changed_documents(None, Some(&deployment));
        documents.reverse();
        for (name, content) in documents {
            stored.add(&name, content.expect("it is there"));
        }
        assert_eq!(stored.finish().deployments, [deployment]);
    }
}
