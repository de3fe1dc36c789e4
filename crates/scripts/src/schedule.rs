//! `schedule(…)` in a script: a run that waits for its time, as long as the version is current.
//!
//! The desired schedule follows from the current version, the actual one from the run with the workflow id of the
//! schedule. Whenever either changes, [`Scripts::follow_schedule`] compares them and acts. It may be called at any
//! time, and is called for every script with a schedule when the node starts.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use segno_engine::{
    Run,
    script::{self, Version},
    start::{Start, StartOptions},
    terminate::{self, Terminate},
};
use segno_flow::Schedule;
use segno_proto::{
    common::{Payload, Payloads, WorkflowType},
    enums::{TaskQueueKind, WorkflowIdConflictPolicy, WorkflowIdReusePolicy},
    taskqueue::TaskQueue,
};
use segno_runs::{
    error::CallError,
    namespaces::Namespace,
    slots::{RunSelector, WorkflowKey},
};

use super::host::Scripts;

/// Workflow ids of schedules begin so; the name of the script follows.
const PREFIX: &str = "flow-schedule/";
/// When a schedule is looked at again for which its namespace had no room.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// The workflow id of the runs of a script's schedule.
pub(super) fn workflow_id(name: &str) -> String {
    format!("{PREFIX}{name}")
}

impl Scripts {
    /// Follows the schedules of all scripts that have one.
    pub(super) async fn follow_schedules(&self) {
        for namespace in self.runs.namespaces.all() {
            for name in self.host.registry.scheduled(namespace.key) {
                self.try_follow_schedule(&namespace, &name).await;
            }
        }
    }

    /// Makes the run of a script's schedule what its current version wants. A run at work, or paused, is left alone.
    async fn follow_schedule(&self, namespace: &Namespace, name: &str) -> Result<(), CallError> {
        let version = self.host.registry.current(namespace.key, name);
        let schedule = match version {
            Some(version) => self.code(namespace.key, name, version).await?.schedule().cloned(),
            None => None,
        };
        let key = WorkflowKey::new(namespace.key, &workflow_id(name));
        let current = match self.runs.snapshot(&key, "").await {
            Ok(current) => Some(current.run.clone()),
            Err(CallError::WorkflowNotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let open = current.filter(|run| run.is_running());
        let waits = open.as_ref().is_some_and(|run| run.state().first_task_due > 0);
        match (schedule, &open) {
            (Some(schedule), None) => self.start_schedule(namespace, name, version, &schedule).await,
            (Some(schedule), Some(run)) if waits && !run.is_paused() && script::version(run) != version => {
                self.start_schedule(namespace, name, version, &schedule).await
            }
            (None, Some(run)) if waits => {
                let request = Terminate {
                    reason: "the script has no schedule any more".to_owned(),
                    identity: script::IDENTITY.to_owned(),
                    ..Default::default()
                };
                let call = move |run: &Run, context| terminate::terminate(run, context, request);
                self.runs.apply(&key, &RunSelector::run(run.info.run_id.clone()), call).await
            }
            _ => Ok(()),
        }
    }

    async fn start_schedule(
        &self,
        namespace: &Namespace,
        name: &str,
        version: Option<Version>,
        schedule: &Schedule,
    ) -> Result<(), CallError> {
        let cron = match schedule.zone.is_empty() {
            true => schedule.cron.to_string(),
            false => format!("CRON_TZ={} {}", schedule.zone, schedule.cron),
        };
        let queue = if schedule.queue.is_empty() { script::QUEUE.to_owned() } else { schedule.queue.clone() };
        let payload = schedule.input.as_ref().map(|json| Payload {
            metadata: BTreeMap::from([("encoding".to_owned(), "json/plain".into())]),
            data: json.clone().into(),
            ..Default::default()
        });
        let options = StartOptions {
            namespace: namespace.name.clone(),
            workflow_id: workflow_id(name),
            workflow_type: Some(WorkflowType { name: name.to_owned() }),
            task_queue: Some(TaskQueue { name: queue, kind: TaskQueueKind::Normal as i32, ..Default::default() }),
            input: payload.map(|payload| Payloads { payloads: vec![payload] }),
            identity: script::IDENTITY.to_owned(),
            request_id: self.runs.ids.uuid(),
            reuse_policy: WorkflowIdReusePolicy::AllowDuplicate,
            conflict_policy: WorkflowIdConflictPolicy::TerminateExisting,
            cron_schedule: cron,
            ..Default::default()
        };
        let start = Start { script: version, ..namespace.start(options) };
        self.runs.start_workflow(start).await.map(|_| ())
    }

    /// A run was followed by another. If it is that of a schedule, it may have to be of another version, or not be at all.
    pub(super) fn run_continued(&self, run: &Run) {
        let Some(name) = run.info.workflow_id.strip_prefix(PREFIX) else { return };
        let namespace = segno_store::NamespaceKey(run.info.namespace_key);
        let (scripts, name) = (self.clone(), name.to_owned());
        let Some(namespace) = self.runs.namespaces.by_key(namespace) else { return };
        tokio::spawn(async move { scripts.try_follow_schedule(&namespace, &name).await });
    }

    /// Like [`Scripts::follow_schedule`]; what goes wrong is logged. If the namespace has no room for the run, it is tried again.
    pub(super) async fn try_follow_schedule(&self, namespace: &Arc<Namespace>, name: &str) {
        if !self.has_to_wait(namespace, name).await {
            return;
        }
        let (scripts, namespace, name) = (self.clone(), namespace.clone(), name.to_owned());
        tokio::spawn(async move {
            while !scripts.runs.is_stopping() {
                tokio::time::sleep(REFUSED_PAUSE).await;
                if !scripts.has_to_wait(&namespace, &name).await {
                    return;
                }
            }
        });
    }

    async fn has_to_wait(&self, namespace: &Namespace, name: &str) -> bool {
        match self.follow_schedule(namespace, name).await {
            Ok(()) => false,
            Err(CallError::StartRefused(refusal)) => {
                tracing::warn!(namespace = namespace.name, script = name, %refusal, "a schedule has to wait");
                true
            }
            Err(error) => {
                tracing::error!(namespace = namespace.name, script = name, %error, "a schedule was not followed");
                false
            }
        }
    }
}
