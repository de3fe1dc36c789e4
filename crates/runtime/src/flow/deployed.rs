//! Deployed scripts: versions by content, activations.
//!
//! Names with their versions are few and small: memory has all of them. Source and code of a version are read when they
//! are needed ([`super::code`]).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use prost::Message;
use segno_engine::{
    Run,
    script::{self, Version, hex},
};
use segno_flow::{diagnostic::Diagnostic, hir::FunctionKind};
use segno_proto::enums::WorkflowExecutionStatus;
use segno_store::{
    Commit, DocumentWrite, NamespaceKey, RunKey,
    visibility::{Attribute, Comparison, Filter, Value},
};

use super::{
    check::CompiledScript,
    code::{Codes, Compiled},
    cores::Cores,
    inline::InlineTime,
    log::ScriptLog,
    resumes::Resumes,
};
use crate::{error::CallError, finish::finish, namespaces::Namespace, runs::Runs, slots::lock};

/// Versions with open runs of which is looked whether they can be executed.
const UNUSABLE_LOOKED_AT: usize = 20;
/// Digits of a version that are shown.
pub(super) const SHOWN: usize = 12;

/// A deployed name, as it is stored.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    versions: Vec<FlowVersion>,
    #[prost(message, repeated, tag = "3")]
    activations: Vec<Activation>,
    /// Whether the name was deleted: it has no current version.
    #[prost(bool, tag = "4")]
    deleted: bool,
    /// Whether some version has a schedule, so that there may be a run of it.
    #[prost(bool, tag = "5")]
    scheduled: bool,
}

/// A version of a script.
#[derive(Clone, PartialEq, Message)]
pub struct FlowVersion {
    /// SHA-256 of its source.
    #[prost(bytes = "bytes", tag = "1")]
    pub version: Bytes,
    /// When it was stored, in nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub created: i64,
    /// Who deployed it.
    #[prost(string, tag = "3")]
    pub identity: String,
    /// The name of its file.
    #[prost(string, tag = "4")]
    pub file_name: String,
}

/// A version became the current one.
#[derive(Clone, PartialEq, Message)]
pub struct Activation {
    /// Which.
    #[prost(bytes = "bytes", tag = "1")]
    pub version: Bytes,
    /// When, in nanoseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub time: i64,
    /// Who did it.
    #[prost(string, tag = "3")]
    pub identity: String,
}

/// Source and code of a version, as they are stored.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Content {
    #[prost(bytes = "bytes", tag = "1")]
    pub source: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub code: Bytes,
    #[prost(string, tag = "3")]
    pub file_name: String,
}

/// A script to deploy.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The text.
    pub text: Vec<u8>,
    /// The name of the file, for stacks.
    pub file_name: String,
    /// Whether it becomes the current version.
    pub activate: bool,
    /// Whether open runs of that type that are no scripts are in order.
    pub take_over: bool,
    /// Who deploys.
    pub identity: String,
}

/// What a deployment did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The name of the workflow.
    pub name: String,
    /// The version, all digits.
    pub version: String,
    /// Whether this version was not stored before.
    pub created: bool,
    /// Whether it is the current one now.
    pub current: bool,
    /// Whether it was the current one already.
    pub unchanged: bool,
    /// What the compiler warns of.
    pub warnings: Vec<Diagnostic>,
}

/// What is stored for a script.
struct Deployment {
    deployed: Deployed,
    /// What is known of its name from now on, if that changes.
    record: Option<Record>,
    content: Vec<DocumentWrite>,
}

/// What is known of a name.
#[derive(Clone, Debug, Default)]
pub struct FlowInfo {
    /// The name.
    pub name: String,
    /// The current version; empty if it was deleted.
    pub current: Bytes,
    /// All versions, oldest first.
    pub versions: Vec<FlowVersion>,
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
}

/// Why something about scripts was not done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FlowError {
    /// The source has errors.
    #[error("the source has errors")]
    Source(Vec<Diagnostic>),
    /// A name or version that does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Not possible as things are.
    #[error("{0}")]
    Precondition(String),
    /// A bad argument.
    #[error("{0}")]
    Argument(String),
    /// Anything else.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The scripts of a namespace.
pub(super) type Names = BTreeMap<String, Arc<Record>>;

/// All scripts of a node.
#[derive(Default)]
pub(crate) struct Flows {
    pub(super) names: RwLock<HashMap<NamespaceKey, Names>>,
    /// How often names were changed by this node.
    pub(super) changes: AtomicU64,
    pub(super) codes: Mutex<Codes>,
    pub(super) log: ScriptLog,
    /// One deployment at a time.
    changing: tokio::sync::Mutex<()>,
    /// Runs whose turn failed, and until when they wait.
    held_back: Mutex<HashMap<RunKey, Instant>>,
    /// Runs that wait for an operator, who asked for one more attempt.
    retried: Mutex<HashSet<RunKey>>,
    /// Where scripts are executed.
    pub(super) cores: Cores,
    /// Turns that wait for an executor.
    pub resumes: Resumes,
    pub(super) inline_time: InlineTime,
}

impl Record {
    fn current(&self) -> Option<Version> {
        if self.deleted {
            return None;
        }
        self.activations.last()?.version.as_ref().try_into().ok()
    }

    fn has(&self, version: &[u8]) -> bool {
        self.versions.iter().any(|known| known.version == version)
    }

    /// The version that some digits name.
    fn find(&self, digits: &str) -> Result<Version, FlowError> {
        let wanted = digits.to_ascii_lowercase();
        let mut found = self.versions.iter().filter(|known| hex(&known.version).starts_with(&wanted));
        let unknown = || FlowError::NotFound(format!("there is no version {digits} of \"{}\"", self.name));
        let first = found.next().filter(|_| !digits.is_empty()).ok_or_else(unknown)?;
        if found.next().is_some() {
            let text = format!("version {digits} of \"{}\" is ambiguous; give more digits", self.name);
            return Err(FlowError::Argument(text));
        }
        first.version.as_ref().try_into().map_err(|_| unknown())
    }
}

impl Flows {
    fn record(&self, namespace: NamespaceKey, name: &str) -> Option<Arc<Record>> {
        let names = self.names.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        names.get(&namespace)?.get(name).cloned()
    }

    /// At most so many scripts whose names follow `after`.
    fn page(&self, namespace: NamespaceKey, after: &str, limit: usize) -> Vec<Arc<Record>> {
        let names = self.names.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(names) = names.get(&namespace) else { return Vec::new() };
        let range = (std::ops::Bound::Excluded(after.to_owned()), std::ops::Bound::Unbounded);
        let page = if after.is_empty() { names.range::<String, _>(..) } else { names.range(range) };
        page.take(limit).map(|(_, record)| Arc::clone(record)).collect()
    }

    /// The current version of a script.
    pub fn current(&self, namespace: NamespaceKey, name: &str) -> Option<Version> {
        self.record(namespace, name)?.current()
    }

    fn remember(&self, namespace: NamespaceKey, name: &str, record: Option<Record>) {
        let mut names = self.names.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Before the lock is released: what was read until now is not put in the place of this.
        self.changes.fetch_add(1, Ordering::Release);
        let names = names.entry(namespace).or_default();
        match record {
            Some(record) => names.insert(name.to_owned(), Arc::new(record)),
            None => names.remove(name),
        };
    }

    /// As long as this is held, no version is added or removed.
    pub async fn hold_versions(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// The turn of a run failed: it is not tried again for a while.
    pub fn hold_back(&self, run: RunKey, pause: Duration) {
        lock(&self.held_back).insert(run, Instant::now() + pause);
    }

    /// The while is over.
    pub fn let_go(&self, run: RunKey) {
        lock(&self.held_back).remove(&run);
    }

    /// Whether the turn of a run has to wait: because it failed, or for an operator.
    pub fn is_held_back(&self, run: &Run) -> bool {
        let key = RunKey(run.info.run_key);
        if script::waits_for_operator(run) && !lock(&self.retried).contains(&key) {
            return true;
        }
        let held_back = lock(&self.held_back);
        !held_back.is_empty() && held_back.get(&key).is_some_and(|until| *until > Instant::now())
    }

    /// An operator wants one more attempt of a turn.
    pub fn retry(&self, run: RunKey) {
        lock(&self.retried).insert(run);
        self.let_go(run);
    }

    /// Whether the turn of a run may be executed now. The attempt for which an operator asked is used up by it.
    pub fn begin_turn(&self, run: &Run) -> bool {
        let is_allowed = !self.is_held_back(run);
        lock(&self.retried).remove(&RunKey(run.info.run_key));
        is_allowed
    }
}

fn name_document(name: &str) -> String {
    format!("flow/{name}")
}

fn version_document(name: &str, version: &[u8]) -> String {
    format!("flow-version/{}/{name}", hex(version))
}

impl Runs {
    pub(super) async fn flow_content(
        &self,
        namespace: NamespaceKey,
        name: &str,
        version: &[u8],
    ) -> Result<Content, CallError> {
        let document = version_document(name, version);
        let missing = || CallError::DataLoss(format!("the source of script \"{name}\" {} is missing", hex(version)));
        let content = self.store.document(namespace, &document).await?;
        Content::decode(content.ok_or_else(missing)?)
            .map_err(|error| CallError::DataLoss(format!("script \"{name}\" {}: {error}", hex(version))))
    }

    /// Stores a script and makes it the current version of its name.
    pub async fn deploy_flow(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        source: Source,
    ) -> Result<Deployed, FlowError> {
        let mut deployed = self.deploy_flows(namespace, vec![source]).await.map_err(|(_, error)| error)?;
        deployed.pop().ok_or_else(|| FlowError::Argument("there is nothing to deploy".to_owned()))
    }

    /// Stores scripts and makes them the current versions of their names, in one commit. If one of them is refused, by its
    /// place, nothing is stored.
    pub async fn deploy_flows(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        sources: Vec<Source>,
    ) -> Result<Vec<Deployed>, (usize, FlowError)> {
        self.refuse_overload().map_err(|error| (0, error.into()))?;
        let node = self.clone();
        finish(async move { node.deploy_all(&namespace, sources).await }).await
    }

    async fn deploy_all(
        self: &Arc<Self>,
        namespace: &Namespace,
        sources: Vec<Source>,
    ) -> Result<Vec<Deployed>, (usize, FlowError)> {
        let mut compiled = Vec::new();
        for (place, source) in sources.into_iter().enumerate() {
            compiled.push(self.compile_script(namespace, source).await.map_err(|error| (place, error))?);
        }
        let _changing = self.flows.changing.lock().await;
        let mut changes: Vec<(String, Record)> = Vec::new();
        let (mut documents, mut all) = (Vec::new(), Vec::<Deployed>::new());
        for (place, script) in compiled.into_iter().enumerate() {
            let prepared = self.prepare_script(namespace, script).await.map_err(|error| (place, error))?;
            let Deployment { deployed, record, mut content } = prepared;
            if all.iter().any(|known| known.name == deployed.name) {
                let text = format!("workflow \"{}\" is there twice", deployed.name);
                return Err((place, FlowError::Argument(text)));
            }
            changes.extend(record.map(|record| (deployed.name.clone(), record)));
            documents.append(&mut content);
            all.push(deployed);
        }
        let changes = changes.into_iter().map(|(name, record)| (name, Some(record))).collect();
        self.store_records(namespace.key, changes, documents).await.map_err(|error| (0, error.into()))?;
        Ok(all)
    }

    /// Says what is to be stored for a script.
    async fn prepare_script(&self, namespace: &Namespace, script: CompiledScript) -> Result<Deployment, FlowError> {
        let CompiledScript { name, version: digits, text, has_schedule, code, warnings, source } = script;
        let version =
            parse(&digits).ok_or_else(|| FlowError::Call(CallError::Unavailable(format!("{digits} is no version"))))?;
        let known = self.flows.record(namespace.key, &name);
        let is_current = known.as_ref().and_then(|known| known.current()) == Some(version);
        if known.as_ref().is_none_or(|known| known.deleted) && source.activate && !source.take_over {
            let open = self.open_code_runs(namespace, &name).await?;
            if open > 0 {
                return Err(FlowError::Precondition(format!("{open} open runs of \"{name}\" are no scripts")));
            }
        }
        let mut record = known.map(|known| Record::clone(&known)).unwrap_or_default();
        record.name.clone_from(&name);
        record.scheduled |= has_schedule;
        let created = !record.has(&version);
        let now = self.now();
        let mut content = Vec::new();
        if created {
            record.versions.push(FlowVersion {
                version: Bytes::copy_from_slice(&version),
                created: now,
                identity: source.identity.clone(),
                file_name: source.file_name.clone(),
            });
            let stored = Content { source: text, code, file_name: source.file_name };
            content.push(DocumentWrite {
                namespace: namespace.key,
                name: version_document(&name, &version),
                content: Some(stored.encode_to_vec().into()),
            });
        }
        let activated = source.activate && !is_current;
        if source.activate {
            // Deploying the same text again is an activation, too, unless it changes nothing.
            if activated {
                record.activations.push(Activation {
                    version: Bytes::copy_from_slice(&version),
                    time: now,
                    identity: source.identity,
                });
            }
            record.deleted = false;
        }
        let current = source.activate || is_current;
        let deployed = Deployed { name, version: digits, created, current, unchanged: is_current, warnings };
        Ok(Deployment { deployed, record: (created || activated).then_some(record), content })
    }

    async fn store_record(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        name: &str,
        record: Option<Record>,
        documents: Vec<DocumentWrite>,
    ) -> Result<(), CallError> {
        self.store_records(namespace, vec![(name.to_owned(), record)], documents).await
    }

    /// Stores what is known of some names from now on, with further documents, in one commit.
    async fn store_records(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        records: Vec<(String, Option<Record>)>,
        mut documents: Vec<DocumentWrite>,
    ) -> Result<(), CallError> {
        for (name, record) in &records {
            let content = record.as_ref().map(|record| Bytes::from(record.encode_to_vec()));
            documents.push(DocumentWrite { namespace, name: name_document(name), content });
        }
        if documents.is_empty() {
            return Ok(());
        }
        self.committer.commit_of(namespace, Commit { documents, ..Default::default() }).await?;
        for (name, record) in records {
            let scheduled = record.as_ref().is_none_or(|record| record.scheduled);
            self.flows.remember(namespace, &name, record);
            if scheduled && let Some(namespace) = self.namespaces.by_key(namespace) {
                self.try_follow_schedule(&namespace, &name).await;
            }
        }
        Ok(())
    }

    /// Follows the schedules of all scripts that have one.
    pub(crate) async fn follow_schedules(self: &Arc<Self>) {
        for namespace in self.namespaces.all() {
            let names: Vec<String> = {
                let names = self.flows.names.read().unwrap_or_else(std::sync::PoisonError::into_inner);
                let scheduled = names.get(&namespace.key).into_iter().flatten().filter(|(_, record)| record.scheduled);
                scheduled.map(|(name, _)| name.clone()).collect()
            };
            for name in names {
                self.try_follow_schedule(&namespace, &name).await;
            }
        }
    }

    fn known_flow(&self, namespace: &Namespace, name: &str) -> Result<Arc<Record>, FlowError> {
        let unknown = || FlowError::NotFound(super::no_script(name, &namespace.name));
        self.flows.record(namespace.key, name).ok_or_else(unknown)
    }

    /// Makes a stored version the current one. Gives back its digits.
    pub async fn activate_flow(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        name: &str,
        digits: &str,
        identity: &str,
    ) -> Result<String, FlowError> {
        let (node, name) = (self.clone(), name.to_owned());
        let (digits, identity) = (digits.to_owned(), identity.to_owned());
        finish(async move {
            let _changing = node.flows.changing.lock().await;
            let known = node.known_flow(&namespace, &name)?;
            let version = known.find(&digits)?;
            node.activate(&namespace, &known, version, identity).await
        })
        .await
    }

    /// Goes back to the version that was the current one before. Gives back its digits.
    pub async fn rollback_flow(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        name: &str,
        identity: &str,
    ) -> Result<String, FlowError> {
        let (node, name, identity) = (self.clone(), name.to_owned(), identity.to_owned());
        finish(async move {
            let _changing = node.flows.changing.lock().await;
            let known = node.known_flow(&namespace, &name)?;
            let mut before = known.activations.iter().rev();
            let current = before.next().map(|activation| activation.version.clone());
            let before = before
                .find(|activation| Some(&activation.version) != current.as_ref() && known.has(&activation.version));
            let version = before.and_then(|activation| activation.version.as_ref().try_into().ok());
            let none = || FlowError::Precondition(format!("\"{name}\" had no other version before"));
            node.activate(&namespace, &known, version.ok_or_else(none)?, identity).await
        })
        .await
    }

    async fn activate(
        self: &Arc<Self>,
        namespace: &Namespace,
        known: &Record,
        version: Version,
        identity: String,
    ) -> Result<String, FlowError> {
        let mut record = known.clone();
        let version_bytes = Bytes::copy_from_slice(&version);
        record.activations.push(Activation { version: version_bytes, time: self.now(), identity });
        record.deleted = false;
        let name = record.name.clone();
        self.store_record(namespace.key, &name, Some(record), Vec::new()).await?;
        Ok(hex(&version))
    }

    /// Everything about the scripts whose names follow `after`, at most `limit`. Of one whose code cannot be read, handlers
    /// and schedule are missing.
    pub async fn list_flows(
        &self,
        namespace: &Namespace,
        after: &str,
        limit: usize,
    ) -> Result<Vec<FlowInfo>, FlowError> {
        let mut page = Vec::new();
        for record in self.flows.page(namespace.key, after, limit) {
            let mut found = self.counted(namespace, &record).await?;
            if let Err(error) = self.add_headers(namespace, &record, &mut found).await {
                tracing::warn!(script = record.name, %error, "the code of a script cannot be read");
            }
            page.push(found);
        }
        Ok(page)
    }

    /// Everything about a name.
    pub async fn describe_flow(&self, namespace: &Namespace, name: &str) -> Result<FlowInfo, FlowError> {
        let known = self.known_flow(namespace, name)?;
        let mut found = self.counted(namespace, &known).await?;
        self.add_headers(namespace, &known, &mut found).await?;
        Ok(found)
    }

    /// The digits of the current version; none if there is no such version.
    #[must_use]
    pub fn current_flow(&self, namespace: &Namespace, name: &str) -> Option<String> {
        self.flows.current(namespace.key, name).map(|version| hex(&version))
    }

    /// What the record of a name says, and how many open runs each version has.
    async fn counted(&self, namespace: &Namespace, known: &Record) -> Result<FlowInfo, CallError> {
        let mut found = info(known);
        let mut rest = self.count_runs(namespace, vec![of_type(&known.name), open()]).await?;
        // Most versions have no open run any more, so those that do are found soon.
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
    async fn add_headers(&self, namespace: &Namespace, known: &Record, found: &mut FlowInfo) -> Result<(), FlowError> {
        for digits in found.open_runs.keys().take(UNUSABLE_LOOKED_AT) {
            let Some(version) = parse(digits) else { continue };
            if let Compiled::Unusable(reason) = self.compiled_flow(namespace.key, &known.name, version).await? {
                found.unusable.insert(digits.clone(), reason.to_string());
            }
        }
        let Some(version) = known.current() else { return Ok(()) };
        let code = match self.compiled_flow(namespace.key, &known.name, version).await? {
            Compiled::Usable(code) => code,
            Compiled::Unusable(reason) => {
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
        Ok(())
    }

    /// The source of a version, the current one if none is named, with its digits and file name.
    pub async fn flow_source(
        &self,
        namespace: &Namespace,
        name: &str,
        digits: &str,
    ) -> Result<(Vec<u8>, String, String), FlowError> {
        let version = self.find_version(namespace, name, digits)?;
        let content = self.flow_content(namespace.key, name, &version).await?;
        Ok((content.source.to_vec(), hex(&version), content.file_name))
    }

    /// The version of a script that some digits name; the current one if there are none.
    pub(super) fn find_version(&self, namespace: &Namespace, name: &str, digits: &str) -> Result<Version, FlowError> {
        let known = self.known_flow(namespace, name)?;
        match digits.is_empty() {
            false => known.find(digits),
            true => known.current().ok_or_else(|| FlowError::NotFound(super::no_script(name, &namespace.name))),
        }
    }

    /// Removes a version, or takes a name out of use.
    pub async fn delete_flow(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        name: &str,
        digits: &str,
    ) -> Result<(), FlowError> {
        let (node, name, digits) = (self.clone(), name.to_owned(), digits.to_owned());
        finish(async move { node.delete_one(&namespace, &name, &digits).await }).await
    }

    async fn delete_one(self: &Arc<Self>, namespace: &Namespace, name: &str, digits: &str) -> Result<(), FlowError> {
        let _changing = self.flows.changing.lock().await;
        let known = self.known_flow(namespace, name)?;
        let mut record = Record::clone(&known);
        let mut documents = Vec::new();
        let mut remove = |version: &[u8]| {
            let name = version_document(name, version);
            documents.push(DocumentWrite { namespace: namespace.key, name, content: None });
        };
        if digits.is_empty() {
            record.deleted = true;
            let mut kept = Vec::new();
            for version in std::mem::take(&mut record.versions) {
                if self.runs_of_version(namespace, name, &hex(&version.version), false).await? > 0 {
                    kept.push(version);
                } else {
                    remove(&version.version);
                }
            }
            record.versions = kept;
        } else {
            let version = known.find(digits)?;
            let shown = &hex(&version)[..SHOWN];
            if known.current() == Some(version) {
                let text = format!("version {shown} of \"{name}\" is the current one");
                return Err(FlowError::Precondition(text));
            }
            let open = self.open_script_runs(namespace, name, &hex(&version)).await?;
            if open > 0 {
                let text = format!("version {shown} of \"{name}\" is used by {open} open runs");
                return Err(FlowError::Precondition(text));
            }
            record.versions.retain(|known| known.version != version[..]);
            remove(&version);
        }
        let record = if record.versions.is_empty() { None } else { Some(record) };
        Ok(self.store_record(namespace.key, name, record, documents).await?)
    }

    /// A run of a script was deleted. If its name was deleted, too, its version goes with its last run.
    pub(crate) async fn script_run_deleted(self: &Arc<Self>, run: &Run) {
        let namespace = NamespaceKey(run.info.namespace_key);
        let (Some(version), name) = (script::version(run), &run.info.workflow_type) else { return };
        if self.flows.record(namespace, name).is_none_or(|record| !record.deleted || !record.has(&version)) {
            return;
        }
        let Some(namespace) = self.namespaces.by_key(namespace) else { return };
        if let Err(error) = self.remove_unused(&namespace, name, &version).await {
            tracing::warn!(script = name, %error, "a version without runs was not removed");
        }
    }

    async fn remove_unused(
        self: &Arc<Self>,
        namespace: &Namespace,
        name: &str,
        version: &Version,
    ) -> Result<(), CallError> {
        let _changing = self.flows.changing.lock().await;
        let Some(known) = self.flows.record(namespace.key, name).filter(|known| known.deleted) else { return Ok(()) };
        if self.runs_of_version(namespace, name, &hex(version), false).await? > 0 {
            return Ok(());
        }
        let mut record = Record::clone(&known);
        record.versions.retain(|known| known.version != version[..]);
        let record = if record.versions.is_empty() { None } else { Some(record) };
        let document = DocumentWrite { namespace: namespace.key, name: version_document(name, version), content: None };
        self.store_record(namespace.key, name, record, vec![document]).await
    }

    /// Open runs of a type that are no scripts.
    async fn open_code_runs(&self, namespace: &Namespace, name: &str) -> Result<u64, CallError> {
        let mut filter = vec![of_type(name), open()];
        if let Some(version) = version_attribute(namespace) {
            filter.push(Filter::IsNull(version));
        }
        self.count_runs(namespace, filter).await
    }

    async fn open_script_runs(&self, namespace: &Namespace, name: &str, digits: &str) -> Result<u64, CallError> {
        self.runs_of_version(namespace, name, digits, true).await
    }

    async fn runs_of_version(
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
        let counts = self.store.count(key, &filter, None).await?;
        Ok(counts.iter().map(|count| count.runs).sum())
    }
}

fn info(record: &Record) -> FlowInfo {
    FlowInfo {
        name: record.name.clone(),
        current: record.current().map(|version| Bytes::copy_from_slice(&version)).unwrap_or_default(),
        versions: record.versions.clone(),
        activations: record.activations.clone(),
        ..Default::default()
    }
}

fn parse(digits: &str) -> Option<Version> {
    let mut version = [0; 32];
    for (place, byte) in version.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(version)
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
    namespace.attribute(segno_engine::script::VERSION_ATTRIBUTE)
}
