//! Descriptions of deployed scripts, with the numbers of their runs.

use std::collections::BTreeMap;

use bytes::Bytes;
use segno_engine::{
    Run,
    script::{self, hex},
};
use segno_flow::hir::FunctionKind;
use segno_proto::enums::WorkflowExecutionStatus;
use segno_runs::{error::CallError, namespaces::Namespace};
use segno_store::{
    ReadLimit,
    visibility::{Attribute, Comparison, Filter, ListQuery, Order, Value},
};

use super::{
    code_cache::VersionCode,
    error::ScriptError,
    host::Scripts,
    records::{Activation, ScriptRecord, VersionRecord, parse_digits},
    schedule,
};

/// Versions with open runs of which is looked whether they can be executed.
const UNUSABLE_LOOKED_AT: usize = 20;

/// A deployed name.
#[derive(Clone, Debug, Default)]
pub struct ScriptInfo {
    /// The name.
    pub name: String,
    /// The current version; empty if it was deleted.
    pub current: Bytes,
    /// All versions, oldest first.
    pub versions: Vec<VersionRecord>,
    /// All activations, oldest first.
    pub activations: Vec<Activation>,
    /// Open runs by version, all digits.
    pub open_runs: BTreeMap<String, u64>,
    /// Why versions cannot be executed, by all digits. Known of the current one and of those with open runs.
    pub unusable: BTreeMap<String, String>,
    /// Names of queries, signals and updates.
    pub handlers: Vec<(String, String)>,
    /// The cron text of its `schedule`, if it has one.
    pub schedule: Option<String>,
    /// The run of that schedule, if it is there.
    pub scheduled_run: Option<ScheduledRun>,
    /// Whether it also executes what is started on task queues of workers.
    pub takes_over: bool,
}

/// The open run of a schedule. Times are nanoseconds since the epoch; 0 is none.
#[derive(Clone, Debug, Default)]
pub struct ScheduledRun {
    /// Its workflow id.
    pub workflow_id: String,
    /// When it begins; 0 once it has begun.
    pub next: i64,
    /// When the one before it began.
    pub last: i64,
    /// Whether it is paused.
    pub paused: bool,
}

impl Scripts {
    /// Everything about the scripts whose names follow `after`, at most `limit`. Of one whose code cannot be read, handlers
    /// and schedule are missing.
    pub async fn list(&self, namespace: &Namespace, after: &str, limit: usize) -> Result<Vec<ScriptInfo>, ScriptError> {
        let mut page = Vec::new();
        for record in self.host.registry.page(namespace.key, after, limit) {
            let mut found = self.counted(namespace, &record).await?;
            if let Err(error) = self.add_headers(namespace, &record, &mut found).await {
                tracing::warn!(script = record.name, %error, "the code of a script cannot be read");
            }
            page.push(found);
        }
        Ok(page)
    }

    /// Everything about a name.
    pub async fn describe(&self, namespace: &Namespace, name: &str) -> Result<ScriptInfo, ScriptError> {
        let known = self.host.registry.known(namespace, name)?;
        let mut found = self.counted(namespace, &known).await?;
        self.add_headers(namespace, &known, &mut found).await?;
        Ok(found)
    }

    /// The digits of the current version; none if there is no such version.
    #[must_use]
    pub fn current_version(&self, namespace: &Namespace, name: &str) -> Option<String> {
        self.host.registry.current(namespace.key, name).map(|version| hex(&version))
    }

    /// The record of a name, and how many open runs each version has.
    async fn counted(&self, namespace: &Namespace, known: &ScriptRecord) -> Result<ScriptInfo, CallError> {
        let mut found = info(known);
        let mut rest = self.count_runs(namespace, vec![of_type(&known.name), open()]).await?;
        // Most versions have no open run left, so those that do are found soon.
        for version in known.versions.iter().rev() {
            if rest == 0 {
                break;
            }
            let digits = hex(&version.version);
            let open = self.open_script_runs(namespace, &known.name, &digits).await?;
            rest = rest.saturating_sub(open);
            if open > 0 {
                found.open_runs.insert(digits, open);
            }
        }
        Ok(found)
    }

    /// Adds what the code of the current version says.
    async fn add_headers(
        &self,
        namespace: &Namespace,
        known: &ScriptRecord,
        found: &mut ScriptInfo,
    ) -> Result<(), ScriptError> {
        for digits in found.open_runs.keys().take(UNUSABLE_LOOKED_AT) {
            let Some(version) = parse_digits(digits) else { continue };
            if let VersionCode::Unusable(reason) = self.version_code(namespace.key, &known.name, version).await? {
                found.unusable.insert(digits.clone(), reason.to_string());
            }
        }
        let Some(version) = known.current() else { return Ok(()) };
        let code = match self.version_code(namespace.key, &known.name, version).await? {
            VersionCode::Usable(code) => code,
            VersionCode::Unusable(reason) => {
                found.unusable.insert(hex(&version), reason.to_string());
                return Ok(());
            }
        };
        for (kind, word) in
            [(FunctionKind::Query, "query"), (FunctionKind::Signal, "signal"), (FunctionKind::Update, "update")]
        {
            found.handlers.extend(code.handlers(kind).map(|name| (word.to_owned(), name.to_owned())));
        }
        found.schedule = code.schedule().map(|schedule| schedule.cron.to_string());
        if found.schedule.is_some() {
            found.scheduled_run = self.scheduled_run(namespace, &known.name).await?;
        }
        Ok(())
    }

    /// The run of a schedule, and when the one before it began.
    async fn scheduled_run(&self, namespace: &Namespace, name: &str) -> Result<Option<ScheduledRun>, CallError> {
        let workflow_id = schedule::workflow_id(name);
        let query = ListQuery {
            namespace: namespace.key,
            filter: Filter::Compare(Attribute::WorkflowId, Comparison::Equal, Value::Text(workflow_id.clone())),
            order: Order::Newest,
            as_of: self.runs.now(),
            after: None,
            limit: 2,
        };
        let page = self.runs.store.list_within(&query, &ReadLimit::none()).await?;
        let mut runs = page.runs.into_iter().filter_map(|found| Run::decode(found.state.ok()?).ok());
        let Some(open) = runs.next().filter(Run::is_running) else { return Ok(None) };
        Ok(Some(ScheduledRun {
            workflow_id,
            next: open.state().first_task_due,
            last: runs.next().map_or(0, |before| before.info.execution_time()),
            paused: open.is_paused(),
        }))
    }

    /// The source of a version, the current one if none is named, with its digits and file name.
    pub async fn source(
        &self,
        namespace: &Namespace,
        name: &str,
        digits: &str,
    ) -> Result<(Vec<u8>, String, String), ScriptError> {
        let version = self.host.registry.find_version(namespace, name, digits)?;
        let content = self.stored_version(namespace.key, name, &version).await?;
        Ok((content.source.to_vec(), hex(&version), content.file_name))
    }

    /// Open runs of a type that are not scripts.
    pub(super) async fn open_code_runs(&self, namespace: &Namespace, name: &str) -> Result<u64, CallError> {
        let mut filter = vec![of_type(name), open()];
        if let Some(version) = version_attribute(namespace) {
            filter.push(Filter::IsNull(version));
        }
        self.count_runs(namespace, filter).await
    }

    pub(super) async fn open_script_runs(
        &self,
        namespace: &Namespace,
        name: &str,
        digits: &str,
    ) -> Result<u64, CallError> {
        self.runs_of_version(namespace, name, digits, true).await
    }

    pub(super) async fn runs_of_version(
        &self,
        namespace: &Namespace,
        name: &str,
        digits: &str,
        only_open: bool,
    ) -> Result<u64, CallError> {
        let mut filter = vec![of_type(name)];
        if only_open {
            filter.push(open());
        }
        if let Some(version) = version_attribute(namespace) {
            filter.push(Filter::Compare(version, Comparison::Equal, Value::Text(digits.to_owned())));
        }
        self.count_runs(namespace, filter).await
    }

    async fn count_runs(&self, namespace: &Namespace, filter: Vec<Filter>) -> Result<u64, CallError> {
        let (key, filter) = (namespace.key, Filter::All(filter));
        let counts = self.runs.store.count(key, &filter, None).await?;
        Ok(counts.iter().map(|count| count.runs).sum())
    }
}

fn info(record: &ScriptRecord) -> ScriptInfo {
    ScriptInfo {
        name: record.name.clone(),
        current: record.current().map(|version| Bytes::copy_from_slice(&version)).unwrap_or_default(),
        versions: record.versions.clone(),
        activations: record.activations.clone(),
        takes_over: !record.leaves_queues,
        ..Default::default()
    }
}

fn of_type(name: &str) -> Filter {
    Filter::Compare(Attribute::WorkflowType, Comparison::Equal, Value::Text(name.to_owned()))
}

/// Runs that are open, be they paused.
fn open() -> Filter {
    let open = [WorkflowExecutionStatus::Running, WorkflowExecutionStatus::Paused];
    Filter::In(Attribute::ExecutionStatus, open.map(|status| Value::Int(status as i64)).into())
}

fn version_attribute(namespace: &Namespace) -> Option<Attribute> {
    namespace.attribute(script::VERSION_ATTRIBUTE)
}
