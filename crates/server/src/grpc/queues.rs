//! Task queues: pollers, backlog, rates.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use segno_engine::validate::task_queue;
use segno_node::{
    LimitSource, MemberQueue, Namespace, Poller, PollerVersion, QueueKey, QueueKind, QueueStats, QueueType,
    WorkerVersion, names,
};
use segno_proto::{
    deployment::WorkerDeploymentVersion,
    enums::{BuildIdTaskReachability, DescribeTaskQueueMode, RateLimitSource, TaskQueueKind, TaskQueueType},
    nanos_duration, nanos_timestamp,
    taskqueue::{
        PollerInfo, TaskQueue, TaskQueuePartitionMetadata, TaskQueueStats, TaskQueueStatus, TaskQueueTypeInfo,
        TaskQueueVersionInfo, TaskQueueVersioningInfo,
    },
    workflowservice::{
        DescribeTaskQueueRequest, DescribeTaskQueueResponse, ListTaskQueuePartitionsRequest,
        ListTaskQueuePartitionsResponse, describe_task_queue_response::EffectiveRateLimit,
    },
};
use tonic::Status;

use super::Workflows;

/// The rate that Temporal reports when nothing limits a queue.
const RATE_UNLIMITED: f64 = 100_000.0;
/// A queue always tells of tasks of this priority.
const PRIORITY_DEFAULT: i32 = 3;
/// The owner of every partition.
const OWNER: &str = "segno";

impl Workflows {
    pub(crate) fn describe_queue(
        &self,
        mut request: DescribeTaskQueueRequest,
    ) -> Result<DescribeTaskQueueResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        task_queue(request.task_queue.as_mut(), "").map_err(|invalid| Status::invalid_argument(invalid.0))?;
        #[expect(deprecated, reason = "clients may still ask in the older way")]
        let enhanced = request.api_mode == DescribeTaskQueueMode::Enhanced as i32;
        if enhanced {
            return self.describe_versions(&namespace, request);
        }
        let kind = request.task_queue_type;
        let queue = request.task_queue.unwrap_or_default();
        let key = key_of(&namespace, kind, &queue);
        let mut stats = key.as_ref().map(|key| self.node.matching.stats(key)).unwrap_or_default();
        let total = total(&stats);
        stats.entry(PRIORITY_DEFAULT).or_default();
        let (rate, limited) = key.as_ref().map(|key| self.node.matching.limit_of(key)).unwrap_or_default();
        let stats_to_proto =
            |stats: &QueueStats| TaskQueueStats { rate_limiting_active: limited, ..stats_to_proto(stats) };
        let by_priority = stats.iter().map(|(priority, stats)| (*priority, stats_to_proto(stats)));
        #[expect(deprecated, reason = "clients may still ask in the older way")]
        Ok(DescribeTaskQueueResponse {
            pollers: self.pollers(key.as_ref(), |_| true),
            stats: request.report_stats.then(|| stats_to_proto(&total)),
            stats_by_priority_key: if request.report_stats { by_priority.collect() } else { BTreeMap::new() },
            task_queue_status: request.include_task_queue_status.then(|| TaskQueueStatus {
                backlog_count_hint: total.backlog as i64,
                rate_per_second: RATE_UNLIMITED,
                ..Default::default()
            }),
            config: self.node.dispatch.queue_config(&namespace, kind, &queue.name).filter(|_| request.report_config),
            effective_rate_limit: rate.map(|(rate, source)| EffectiveRateLimit {
                requests_per_second: rate as f32,
                rate_limit_source: match source {
                    LimitSource::Api => RateLimitSource::Api as i32,
                    LimitSource::Worker => RateLimitSource::Worker as i32,
                },
            }),
            versioning_info: Some(self.queue_routing(&namespace, kind, &queue.name)),
            ..Default::default()
        })
    }

    /// To which versions of workers the tasks of a queue go.
    #[expect(deprecated, reason = "older clients read the strings")]
    fn queue_routing(&self, namespace: &Namespace, kind: i32, name: &str) -> TaskQueueVersioningInfo {
        let kind = QueueType::from_wire(kind).unwrap_or(QueueType::Workflow);
        let queue = MemberQueue { name: name.to_owned(), kind };
        let Some(found) = self.node.runs.deployments.source(namespace.key, &queue) else {
            return TaskQueueVersioningInfo { current_version: names::UNVERSIONED.to_owned(), ..Default::default() };
        };
        let current = found.routing.current.version.as_deref();
        let ramp = found.routing.ramp.as_ref();
        let ramping = ramp.and_then(|ramp| ramp.target.version.as_deref());
        TaskQueueVersioningInfo {
            current_deployment_version: current.cloned(),
            current_version: written(current),
            ramping_deployment_version: ramping.cloned(),
            ramping_version: ramp.map(|_| written(ramping)).unwrap_or_default(),
            ramping_version_percentage: ramp.map(|ramp| ramp.percentage).unwrap_or_default(),
            update_time: Some(nanos_timestamp(found.changed)),
        }
    }

    /// The answer by versions. Build ids without a deployment have no tasks.
    #[expect(deprecated, reason = "clients may still ask in the older way")]
    fn describe_versions(
        &self,
        namespace: &Namespace,
        request: DescribeTaskQueueRequest,
    ) -> Result<DescribeTaskQueueResponse, Status> {
        let queue = request.task_queue.unwrap_or_default();
        if queue.kind == TaskQueueKind::Sticky as i32 {
            return Err(Status::invalid_argument(
                "Enhanced DescribeTaskQueue is not valid for a sticky queue, use api_mode=UNSPECIFIED or a normal queue.",
            ));
        }
        let versions = match request.versions {
            None => vec![String::new()],
            Some(mut versions) => {
                if versions.unversioned {
                    versions.build_ids.push(String::new());
                }
                versions.build_ids
            }
        };
        // Pollers of a version are told under its newer string, also if the older one was asked for.
        let known = versions.iter().filter_map(|version| self.known_version(namespace, version));
        let known: BTreeMap<String, WorkerVersion> =
            known.map(|version| (told_version(Some(&version)), version)).collect();
        let versions: BTreeSet<String> = versions.into_iter().chain(known.keys().cloned()).collect();
        let kinds = match request.task_queue_types.is_empty() {
            true => vec![TaskQueueType::Workflow as i32, TaskQueueType::Activity as i32],
            false => request.task_queue_types,
        };
        let mut versions_info = BTreeMap::new();
        for version in versions {
            let unversioned = version.is_empty();
            let info = |kind: &i32| {
                let of = known.get(&version);
                let key = key_of(namespace, *kind, &queue).filter(|_| unversioned || of.is_some());
                let stats = || key.as_ref().map(|key| total(&self.node.matching.stats_of(key, of))).unwrap_or_default();
                let pollers = || self.pollers(key.as_ref(), |poller| poller.deployment_version().as_ref() == of);
                let info = TaskQueueTypeInfo {
                    pollers: if request.report_pollers { pollers() } else { Vec::new() },
                    stats: request.report_stats.then(|| stats_to_proto(&stats())),
                };
                (*kind, info)
            };
            let reachability = match (request.report_task_reachability, unversioned) {
                (false, _) => BuildIdTaskReachability::Unspecified,
                (true, true) => BuildIdTaskReachability::Reachable,
                (true, false) => BuildIdTaskReachability::Unreachable,
            };
            let types_info = kinds.iter().map(info).collect();
            let info = TaskQueueVersionInfo { types_info, task_reachability: reachability as i32 };
            versions_info.insert(version, info);
        }
        Ok(DescribeTaskQueueResponse { versions_info, ..Default::default() })
    }

    /// The version of a deployment that a string names, in either way.
    fn known_version(&self, namespace: &Namespace, version: &str) -> Option<WorkerVersion> {
        let (name, build) = names::split(version)?;
        let deployment = self.node.runs.deployments.deployment(namespace.key, name)?;
        deployment.build(build).map(|known| Arc::new(deployment.version(&known.build)))
    }

    /// The pollers of a queue that are wanted by what they say of their version.
    fn pollers(&self, key: Option<&QueueKey>, is_wanted: impl Fn(&PollerVersion) -> bool) -> Vec<PollerInfo> {
        let pollers = key.map(|key| self.node.matching.pollers(key)).unwrap_or_default();
        let pollers = pollers.into_iter().filter(|poller| is_wanted(&poller.version));
        let info = |poller: Poller| PollerInfo {
            last_access_time: Some(nanos_timestamp(poller.at)),
            identity: poller.identity,
            rate_per_second: RATE_UNLIMITED,
            worker_version_capabilities: poller.version.capabilities,
            deployment_options: poller.version.deployment,
        };
        pollers.map(info).collect()
    }

    /// A queue is not divided: it is its own and only partition.
    pub(crate) fn list_partitions(
        &self,
        mut request: ListTaskQueuePartitionsRequest,
    ) -> Result<ListTaskQueuePartitionsResponse, Status> {
        self.namespace(&request.namespace)?;
        task_queue(request.task_queue.as_mut(), "").map_err(|invalid| Status::invalid_argument(invalid.0))?;
        let key = request.task_queue.unwrap_or_default().name;
        let partition = TaskQueuePartitionMetadata { key, owner_host_name: OWNER.to_owned() };
        Ok(ListTaskQueuePartitionsResponse {
            activity_task_queue_partitions: vec![partition.clone()],
            workflow_task_queue_partitions: vec![partition],
        })
    }
}

/// The queue of a kind; nothing for kinds that have none here.
fn key_of(namespace: &Namespace, kind: i32, queue: &TaskQueue) -> Option<QueueKey> {
    let kind = match TaskQueueType::try_from(kind).ok()? {
        TaskQueueType::Unspecified | TaskQueueType::Workflow if queue.kind == TaskQueueKind::Sticky as i32 => {
            return Some(QueueKey::sticky(namespace.key, &queue.name, &queue.normal_name));
        }
        TaskQueueType::Unspecified | TaskQueueType::Workflow => QueueKind::Workflow,
        TaskQueueType::Activity => QueueKind::Activity,
        TaskQueueType::Nexus => QueueKind::Nexus,
    };
    Some(QueueKey { namespace: namespace.key, kind, name: queue.name.clone() })
}

/// A version in the string of older clients.
fn written(version: Option<&WorkerDeploymentVersion>) -> String {
    match version {
        Some(version) => names::dotted(&version.deployment_name, Some(&version.build_id)),
        None => names::UNVERSIONED.to_owned(),
    }
}

/// A version, `name:build`; empty for workers without one.
fn told_version(version: Option<&WorkerVersion>) -> String {
    version.map(|version| names::colon(&version.deployment_name, Some(&version.build_id))).unwrap_or_default()
}

fn total(stats: &BTreeMap<i32, QueueStats>) -> QueueStats {
    stats.values().fold(QueueStats::default(), |sum, one| QueueStats {
        backlog: sum.backlog + one.backlog,
        oldest: sum.oldest.max(one.oldest),
        add_rate: sum.add_rate + one.add_rate,
        dispatch_rate: sum.dispatch_rate + one.dispatch_rate,
    })
}

fn stats_to_proto(stats: &QueueStats) -> TaskQueueStats {
    TaskQueueStats {
        approximate_backlog_count: stats.backlog as i64,
        approximate_backlog_age: Some(nanos_duration(stats.oldest)),
        tasks_add_rate: stats.add_rate,
        tasks_dispatch_rate: stats.dispatch_rate,
        rate_limiting_active: false,
    }
}
