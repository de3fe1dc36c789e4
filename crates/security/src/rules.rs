//! The table: who may make which call. A call that is not here is refused.

use std::sync::LazyLock;

use segno_runtime::HashMap;

use super::{
    fields::{NamespaceField, namespace_fields},
    roles::Roles,
};

/// Where a role is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Nowhere: whoever reaches the port may call, without saying who it is.
    Anybody,
    /// Nowhere, but callers must say who they are.
    Known,
    /// On the whole server.
    Server,
    /// In the namespace that the request names.
    Namespace,
}

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where.
    pub scope: Scope,
    /// One of these is enough.
    pub one_of: &'static [Roles],
}

impl Rule {
    /// Whether the call changes something that somebody may have to answer for.
    pub fn is_audited(&self) -> bool {
        self.one_of.iter().all(|roles| *roles != Roles::READ && *roles != Roles::WORK)
            && !matches!(self.scope, Scope::Anybody | Scope::Known)
    }
}

const READ: &[Roles] = &[Roles::READ];
const WORK: &[Roles] = &[Roles::WORK];
const WRITE: &[Roles] = &[Roles::WRITE];
/// Activities may be completed by the worker that has them or by a client that knows their token or id.
const WORK_OR_WRITE: &[Roles] = &[Roles::WORK, Roles::WRITE];
const ADMIN: &[Roles] = &[Roles::ADMIN];

const fn anybody() -> Rule {
    Rule { scope: Scope::Anybody, one_of: &[] }
}

const fn known() -> Rule {
    Rule { scope: Scope::Known, one_of: &[] }
}

const fn server(one_of: &'static [Roles]) -> Rule {
    Rule { scope: Scope::Server, one_of }
}

const fn namespace(one_of: &'static [Roles]) -> Rule {
    Rule { scope: Scope::Namespace, one_of }
}

/// Every call of every service. Scope and access are those of Temporal's default authorizer, with the role `work` besides.
pub const RULES: &[(&str, &[(&str, Rule)])] = &[
    ("temporal.api.workflowservice.v1.WorkflowService", WORKFLOW_SERVICE),
    ("temporal.api.operatorservice.v1.OperatorService", OPERATOR_SERVICE),
    (
        "segno.flow.v1.FlowService",
        &[
            ("Activate", namespace(WRITE)),
            ("Check", namespace(READ)),
            ("Delete", namespace(WRITE)),
            ("Deploy", namespace(WRITE)),
            ("Describe", namespace(READ)),
            ("DescribeRun", namespace(READ)),
            ("GetSource", namespace(READ)),
            ("List", namespace(READ)),
            ("Migrate", namespace(WRITE)),
            ("Rollback", namespace(WRITE)),
        ],
    ),
    (
        "segno.worker.v1.WorkerService",
        &[("DescribeWorker", namespace(READ)), ("Heartbeat", namespace(WORK)), ("ListWorkers", namespace(READ))],
    ),
    ("segno.workflow.v1.WorkflowService", &[("DescribeQueue", namespace(READ)), ("Explain", namespace(READ))]),
    (
        "segno.cluster.v1.ClusterService",
        &[("Describe", server(READ)), ("Drain", server(ADMIN)), ("Fence", server(ADMIN))],
    ),
    (
        "segno.access.v1.AccessService",
        &[("CreateKey", server(ADMIN)), ("ListKeys", server(ADMIN)), ("RevokeKey", server(ADMIN)), ("WhoAmI", known())],
    ),
    (
        "temporal.api.testservice.v1.TestService",
        &[
            ("GetCurrentTime", known()),
            ("LockTimeSkipping", server(WRITE)),
            ("Sleep", server(WRITE)),
            ("SleepUntil", server(WRITE)),
            ("UnlockTimeSkipping", server(WRITE)),
            ("UnlockTimeSkippingWithSleep", server(WRITE)),
        ],
    ),
    ("grpc.health.v1.Health", &[("Check", anybody()), ("List", anybody()), ("Watch", anybody())]),
    ("grpc.reflection.v1.ServerReflection", &[("ServerReflectionInfo", known())]),
    ("grpc.reflection.v1alpha.ServerReflection", &[("ServerReflectionInfo", known())]),
];

const WORKFLOW_SERVICE: &[(&str, Rule)] = &[
    ("CountActivityExecutions", namespace(READ)),
    ("CountNexusOperationExecutions", namespace(READ)),
    ("CountSchedules", namespace(READ)),
    ("CountWorkers", namespace(READ)),
    ("CountWorkflowExecutions", namespace(READ)),
    ("CreateSchedule", namespace(WRITE)),
    ("CreateWorkerDeployment", namespace(WRITE)),
    ("CreateWorkerDeploymentVersion", namespace(WRITE)),
    ("CreateWorkflowRule", namespace(WRITE)),
    ("DeleteActivityExecution", namespace(WRITE)),
    ("DeleteNexusOperationExecution", namespace(WRITE)),
    ("DeleteSchedule", namespace(WRITE)),
    ("DeleteWorkerDeployment", namespace(WRITE)),
    ("DeleteWorkerDeploymentVersion", namespace(WRITE)),
    ("DeleteWorkflowExecution", namespace(WRITE)),
    ("DeleteWorkflowRule", namespace(WRITE)),
    ("DeprecateNamespace", namespace(ADMIN)),
    ("DescribeActivityExecution", namespace(READ)),
    ("DescribeBatchOperation", namespace(READ)),
    ("DescribeDeployment", namespace(READ)),
    ("DescribeNamespace", namespace(READ)),
    ("DescribeNexusOperationExecution", namespace(READ)),
    ("DescribeSchedule", namespace(READ)),
    ("DescribeTaskQueue", namespace(READ)),
    ("DescribeWorker", namespace(READ)),
    ("DescribeWorkerDeployment", namespace(READ)),
    ("DescribeWorkerDeploymentVersion", namespace(READ)),
    ("DescribeWorkflowExecution", namespace(READ)),
    ("DescribeWorkflowRule", namespace(READ)),
    ("ExecuteMultiOperation", namespace(WRITE)),
    ("FetchWorkerConfig", namespace(WORK)),
    ("GetClusterInfo", known()),
    ("GetCurrentDeployment", namespace(READ)),
    ("GetDeploymentReachability", namespace(READ)),
    ("GetSearchAttributes", known()),
    ("GetSystemInfo", anybody()),
    ("GetWorkerBuildIdCompatibility", namespace(READ)),
    ("GetWorkerTaskReachability", namespace(READ)),
    ("GetWorkerVersioningRules", namespace(READ)),
    ("GetWorkflowExecutionHistory", namespace(READ)),
    ("GetWorkflowExecutionHistoryReverse", namespace(READ)),
    ("ListActivityExecutions", namespace(READ)),
    ("ListArchivedWorkflowExecutions", namespace(READ)),
    ("ListBatchOperations", namespace(READ)),
    ("ListClosedWorkflowExecutions", namespace(READ)),
    ("ListDeployments", namespace(READ)),
    ("ListNamespaces", server(READ)),
    ("ListNexusOperationExecutions", namespace(READ)),
    ("ListOpenWorkflowExecutions", namespace(READ)),
    ("ListScheduleMatchingTimes", namespace(READ)),
    ("ListSchedules", namespace(READ)),
    ("ListTaskQueuePartitions", namespace(READ)),
    ("ListWorkerDeployments", namespace(READ)),
    ("ListWorkers", namespace(READ)),
    ("ListWorkflowExecutions", namespace(READ)),
    ("ListWorkflowRules", namespace(READ)),
    ("PatchSchedule", namespace(WRITE)),
    ("PauseActivity", namespace(WRITE)),
    ("PauseActivityExecution", namespace(WRITE)),
    ("PauseWorkflowExecution", namespace(WRITE)),
    ("PollActivityExecution", namespace(READ)),
    ("PollActivityTaskQueue", namespace(WORK)),
    ("PollNexusOperationExecution", namespace(READ)),
    ("PollNexusTaskQueue", namespace(WORK)),
    ("PollWorkflowExecutionTimeSkipping", namespace(READ)),
    ("PollWorkflowExecutionUpdate", namespace(READ)),
    ("PollWorkflowTaskQueue", namespace(WORK)),
    ("QueryWorkflow", namespace(READ)),
    ("RecordActivityTaskHeartbeat", namespace(WORK_OR_WRITE)),
    ("RecordActivityTaskHeartbeatById", namespace(WORK_OR_WRITE)),
    ("RecordWorkerHeartbeat", namespace(WORK)),
    ("RegisterNamespace", namespace(ADMIN)),
    ("RequestCancelActivityExecution", namespace(WRITE)),
    ("RequestCancelNexusOperationExecution", namespace(WRITE)),
    ("RequestCancelWorkflowExecution", namespace(WRITE)),
    ("ResetActivity", namespace(WRITE)),
    ("ResetActivityExecution", namespace(WRITE)),
    ("ResetStickyTaskQueue", namespace(WORK)),
    ("ResetWorkflowExecution", namespace(WRITE)),
    ("RespondActivityTaskCanceled", namespace(WORK_OR_WRITE)),
    ("RespondActivityTaskCanceledById", namespace(WORK_OR_WRITE)),
    ("RespondActivityTaskCompleted", namespace(WORK_OR_WRITE)),
    ("RespondActivityTaskCompletedById", namespace(WORK_OR_WRITE)),
    ("RespondActivityTaskFailed", namespace(WORK_OR_WRITE)),
    ("RespondActivityTaskFailedById", namespace(WORK_OR_WRITE)),
    ("RespondNexusTaskCompleted", namespace(WORK)),
    ("RespondNexusTaskFailed", namespace(WORK)),
    ("RespondQueryTaskCompleted", namespace(WORK)),
    ("RespondWorkflowTaskCompleted", namespace(WORK)),
    ("RespondWorkflowTaskFailed", namespace(WORK)),
    ("ScanWorkflowExecutions", namespace(READ)),
    ("SetCurrentDeployment", namespace(WRITE)),
    ("SetWorkerDeploymentCurrentVersion", namespace(WRITE)),
    ("SetWorkerDeploymentManager", namespace(WRITE)),
    ("SetWorkerDeploymentRampingVersion", namespace(WRITE)),
    ("ShutdownWorker", namespace(WORK)),
    ("SignalWithStartWorkflowExecution", namespace(WRITE)),
    ("SignalWorkflowExecution", namespace(WRITE)),
    ("StartActivityExecution", namespace(WRITE)),
    ("StartBatchOperation", namespace(WRITE)),
    ("StartNexusOperationExecution", namespace(WRITE)),
    ("StartWorkflowExecution", namespace(WRITE)),
    ("StopBatchOperation", namespace(WRITE)),
    ("TerminateActivityExecution", namespace(WRITE)),
    ("TerminateNexusOperationExecution", namespace(WRITE)),
    ("TerminateWorkflowExecution", namespace(WRITE)),
    ("TriggerWorkflowRule", namespace(WRITE)),
    ("UnpauseActivity", namespace(WRITE)),
    ("UnpauseActivityExecution", namespace(WRITE)),
    ("UnpauseWorkflowExecution", namespace(WRITE)),
    ("UpdateActivityExecutionOptions", namespace(WRITE)),
    ("UpdateActivityOptions", namespace(WRITE)),
    ("UpdateNamespace", namespace(ADMIN)),
    ("UpdateSchedule", namespace(WRITE)),
    ("UpdateTaskQueueConfig", namespace(WRITE)),
    ("UpdateWorkerBuildIdCompatibility", namespace(WRITE)),
    ("UpdateWorkerConfig", namespace(WRITE)),
    ("UpdateWorkerDeploymentVersionComputeConfig", namespace(WRITE)),
    ("UpdateWorkerDeploymentVersionMetadata", namespace(WRITE)),
    ("UpdateWorkerVersioningRules", namespace(WRITE)),
    ("UpdateWorkflowExecution", namespace(WRITE)),
    ("UpdateWorkflowExecutionOptions", namespace(WRITE)),
    ("ValidateWorkerDeploymentVersionComputeConfig", namespace(READ)),
];

const OPERATOR_SERVICE: &[(&str, Rule)] = &[
    ("AddOrUpdateRemoteCluster", server(ADMIN)),
    ("AddSearchAttributes", namespace(ADMIN)),
    ("CreateNexusEndpoint", server(ADMIN)),
    ("DeleteNamespace", namespace(ADMIN)),
    ("DeleteNexusEndpoint", server(ADMIN)),
    ("GetNexusEndpoint", server(READ)),
    ("ListClusters", server(READ)),
    ("ListNexusEndpoints", server(READ)),
    ("ListSearchAttributes", namespace(READ)),
    ("RemoveRemoteCluster", server(ADMIN)),
    ("RemoveSearchAttributes", namespace(ADMIN)),
    ("UpdateNexusEndpoint", server(ADMIN)),
];

/// A call of the table.
#[derive(Clone, Copy, Debug)]
pub struct KnownCall {
    /// Its name.
    pub method: &'static str,
    /// What it needs.
    pub rule: Rule,
    /// Where its request names the namespace.
    pub fields: NamespaceField,
}

static BY_PATH: LazyLock<HashMap<String, KnownCall>> = LazyLock::new(|| {
    let fields = namespace_fields();
    let calls =
        RULES.iter().flat_map(|(service, calls)| calls.iter().map(move |(method, rule)| (*service, *method, *rule)));
    calls
        .map(|(service, method, rule)| {
            let path = format!("/{service}/{method}");
            let fields = fields.get(&path).copied().unwrap_or_default();
            (path, KnownCall { method, rule, fields })
        })
        .collect()
});

/// The call that a path names.
pub fn find(path: &str) -> Option<&'static KnownCall> {
    BY_PATH.get(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_its_rule() {
        for (path, _) in namespace_fields() {
            assert!(find(&path).is_some(), "{path}");
        }
        for (service, method) in segno_proto::METHODS {
            assert!(find(&format!("/{service}/{method}")).is_some(), "{method}");
        }
    }

    #[test]
    fn calls_within_a_namespace_name_it() {
        for (path, call) in BY_PATH.iter() {
            assert_eq!(call.rule.scope == Scope::Namespace, call.fields.name.is_some(), "{path}");
        }
    }

    #[test]
    fn calls_are_in_order() {
        for (service, calls) in RULES {
            assert!(calls.is_sorted_by_key(|(method, _)| *method), "{service}");
        }
    }
}
