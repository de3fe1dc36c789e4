//! Deployments: storing versions, activating and deleting them.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use segno_engine::{
    Run,
    script::{self, Version, hex},
};
use segno_environment::finish::finish;
use segno_flow::diagnostic::Diagnostic;
use segno_runs::{error::CallError, namespaces::Namespace};
use segno_store::{Commit, DocumentWrite, NamespaceKey};

use super::{
    compile::{CompiledScript, Source},
    error::ScriptError,
    host::Scripts,
    records::{
        Activation, SHOWN_DIGITS, ScriptRecord, VersionContent, VersionRecord, name_document, parse_digits,
        version_document,
    },
};

/// For so long a type counts as one of workers that have run it, in nanoseconds.
const DAY: i64 = 86_400_000_000_000;

/// The outcome of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
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
    /// The warnings of the compiler.
    pub warnings: Vec<Diagnostic>,
}

/// The documents of a script that are to be stored.
struct PreparedDeployment {
    deployed: Deployment,
    /// The new record of its name, if that changes.
    record: Option<ScriptRecord>,
    content: Vec<DocumentWrite>,
}

impl Scripts {
    /// Stores a script and makes it the current version of its name.
    pub async fn deploy(&self, namespace: Arc<Namespace>, source: Source) -> Result<Deployment, ScriptError> {
        let mut deployed = self.deploy_all(namespace, vec![source]).await.map_err(|(_, error)| error)?;
        deployed.pop().ok_or_else(|| ScriptError::Argument("there is nothing to deploy".to_owned()))
    }

    /// Stores scripts and makes them the current versions of their names, in one commit. If one of them is refused, by its
    /// place, nothing is stored.
    pub async fn deploy_all(
        &self,
        namespace: Arc<Namespace>,
        sources: Vec<Source>,
    ) -> Result<Vec<Deployment>, (usize, ScriptError)> {
        self.runs.refuse_overload().map_err(|error| (0, error.into()))?;
        let scripts = self.clone();
        finish(async move { scripts.deploy_checked(&namespace, sources).await }).await
    }

    async fn deploy_checked(
        &self,
        namespace: &Namespace,
        sources: Vec<Source>,
    ) -> Result<Vec<Deployment>, (usize, ScriptError)> {
        let mut compiled = Vec::new();
        for (place, source) in sources.into_iter().enumerate() {
            compiled.push(self.compile_script(namespace, source).await.map_err(|error| (place, error))?);
        }
        let _changing = self.host.registry.hold_versions().await;
        let mut changes: Vec<(String, ScriptRecord)> = Vec::new();
        let (mut documents, mut all) = (Vec::new(), Vec::<Deployment>::new());
        for (place, script) in compiled.into_iter().enumerate() {
            let prepared = self.prepare_script(namespace, script).await.map_err(|error| (place, error))?;
            let PreparedDeployment { deployed, record, mut content } = prepared;
            if all.iter().any(|known| known.name == deployed.name) {
                let text = format!("workflow \"{}\" is there twice", deployed.name);
                return Err((place, ScriptError::Argument(text)));
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
    async fn prepare_script(
        &self,
        namespace: &Namespace,
        script: CompiledScript,
    ) -> Result<PreparedDeployment, ScriptError> {
        let CompiledScript { name, version: digits, text, has_schedule, code, warnings, source } = script;
        let version = parse_digits(&digits)
            .ok_or_else(|| ScriptError::Call(CallError::Unavailable(format!("{digits} is no version"))))?;
        let known = self.host.registry.record(namespace.key, &name);
        let current = known.as_ref().and_then(|known| known.current());
        let is_current = current == Some(version);
        if current.is_none() && source.activate && !source.take_over {
            self.refuse_type_of_workers(namespace, &name).await?;
        }
        let is_new = known.as_ref().is_none_or(|known| known.deleted);
        let mut record = known.map(|known| ScriptRecord::clone(&known)).unwrap_or_default();
        record.name.clone_from(&name);
        let left_queues = record.leaves_queues;
        record.leaves_queues = (is_new || left_queues) && !source.take_over;
        record.scheduled |= has_schedule;
        let created = !record.has(&version);
        let now = self.runs.now();
        let mut content = Vec::new();
        if created {
            record.versions.push(VersionRecord {
                version: Bytes::copy_from_slice(&version),
                created: now,
                identity: source.identity.clone(),
                file_name: source.file_name.clone(),
            });
            let stored = VersionContent { source: text, code, file_name: source.file_name };
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
        let deployed = Deployment { name, version: digits, created, current, unchanged: is_current, warnings };
        let changed = created || activated || record.leaves_queues != left_queues;
        Ok(PreparedDeployment { deployed, record: changed.then_some(record), content })
    }

    /// Refuses to make a script current whose type workers execute.
    async fn refuse_type_of_workers(&self, namespace: &Namespace, name: &str) -> Result<(), ScriptError> {
        let open = self.open_code_runs(namespace, name).await?;
        if open > 0 {
            return Err(ScriptError::Precondition(format!("{open} open runs of \"{name}\" are not scripts")));
        }
        let queue = self.runs.queue_of_workers_since(namespace, name, self.runs.now() - DAY).await?;
        match queue {
            Some(queue) => Err(ScriptError::Precondition(format!(
                "workers have run \"{name}\" on task queue \"{queue}\" in the last day"
            ))),
            None => Ok(()),
        }
    }

    async fn store_record(
        &self,
        namespace: NamespaceKey,
        name: &str,
        record: Option<ScriptRecord>,
        documents: Vec<DocumentWrite>,
    ) -> Result<(), CallError> {
        self.store_records(namespace, vec![(name.to_owned(), record)], documents).await
    }

    /// Stores what is known of some names from now on, with further documents, in one commit.
    async fn store_records(
        &self,
        namespace: NamespaceKey,
        records: Vec<(String, Option<ScriptRecord>)>,
        mut documents: Vec<DocumentWrite>,
    ) -> Result<(), CallError> {
        for (name, record) in &records {
            let content = record.as_ref().map(|record| Bytes::from(record.encode_to_vec()));
            documents.push(DocumentWrite { namespace, name: name_document(name), content });
        }
        if documents.is_empty() {
            return Ok(());
        }
        self.runs.committer.commit_of(namespace, Commit { documents, ..Default::default() }).await?;
        for (name, record) in records {
            let scheduled = record.as_ref().is_none_or(|record| record.scheduled);
            self.host.registry.remember(namespace, &name, record);
            if scheduled && let Some(namespace) = self.runs.namespaces.by_key(namespace) {
                self.try_follow_schedule(&namespace, &name).await;
            }
        }
        Ok(())
    }

    /// Makes a stored version the current one. Gives back its digits.
    pub async fn activate(
        &self,
        namespace: Arc<Namespace>,
        name: &str,
        digits: &str,
        identity: &str,
    ) -> Result<String, ScriptError> {
        let (scripts, name) = (self.clone(), name.to_owned());
        let (digits, identity) = (digits.to_owned(), identity.to_owned());
        finish(async move {
            let _changing = scripts.host.registry.hold_versions().await;
            let known = scripts.host.registry.known(&namespace, &name)?;
            let version = known.find(&digits)?;
            scripts.store_activation(&namespace, &known, version, identity).await
        })
        .await
    }

    /// Goes back to the version that was the current one before. Gives back its digits.
    pub async fn rollback(&self, namespace: Arc<Namespace>, name: &str, identity: &str) -> Result<String, ScriptError> {
        let (scripts, name, identity) = (self.clone(), name.to_owned(), identity.to_owned());
        finish(async move {
            let _changing = scripts.host.registry.hold_versions().await;
            let known = scripts.host.registry.known(&namespace, &name)?;
            let mut before = known.activations.iter().rev();
            let current = before.next().map(|activation| activation.version.clone());
            let before = before
                .find(|activation| Some(&activation.version) != current.as_ref() && known.has(&activation.version));
            let version = before.and_then(|activation| activation.version.as_ref().try_into().ok());
            let none = || ScriptError::Precondition(format!("\"{name}\" had no other version before"));
            scripts.store_activation(&namespace, &known, version.ok_or_else(none)?, identity).await
        })
        .await
    }

    async fn store_activation(
        &self,
        namespace: &Namespace,
        known: &ScriptRecord,
        version: Version,
        identity: String,
    ) -> Result<String, ScriptError> {
        if known.current().is_none() {
            self.refuse_type_of_workers(namespace, &known.name).await?;
        }
        let mut record = known.clone();
        let version_bytes = Bytes::copy_from_slice(&version);
        record.activations.push(Activation { version: version_bytes, time: self.runs.now(), identity });
        record.deleted = false;
        let name = record.name.clone();
        self.store_record(namespace.key, &name, Some(record), Vec::new()).await?;
        Ok(hex(&version))
    }

    /// Removes a version, or takes a name out of use.
    pub async fn delete(&self, namespace: Arc<Namespace>, name: &str, digits: &str) -> Result<(), ScriptError> {
        let (scripts, name, digits) = (self.clone(), name.to_owned(), digits.to_owned());
        finish(async move { scripts.delete_one(&namespace, &name, &digits).await }).await
    }

    async fn delete_one(&self, namespace: &Namespace, name: &str, digits: &str) -> Result<(), ScriptError> {
        let _changing = self.host.registry.hold_versions().await;
        let known = self.host.registry.known(namespace, name)?;
        let mut record = ScriptRecord::clone(&known);
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
            let shown = &hex(&version)[..SHOWN_DIGITS];
            if known.current() == Some(version) {
                let text = format!("version {shown} of \"{name}\" is the current one");
                return Err(ScriptError::Precondition(text));
            }
            let open = self.open_script_runs(namespace, name, &hex(&version)).await?;
            if open > 0 {
                let text = format!("version {shown} of \"{name}\" is used by {open} open runs");
                return Err(ScriptError::Precondition(text));
            }
            record.versions.retain(|known| known.version != version[..]);
            remove(&version);
        }
        let record = if record.versions.is_empty() { None } else { Some(record) };
        Ok(self.store_record(namespace.key, name, record, documents).await?)
    }

    /// A run of a script was deleted. If its name was deleted, too, its version goes with its last run.
    pub(super) async fn run_deleted(&self, run: &Run) {
        let namespace = NamespaceKey(run.info.namespace_key);
        let (Some(version), name) = (script::version(run), &run.info.workflow_type) else { return };
        if self.host.registry.record(namespace, name).is_none_or(|record| !record.deleted || !record.has(&version)) {
            return;
        }
        let Some(namespace) = self.runs.namespaces.by_key(namespace) else { return };
        if let Err(error) = self.remove_unused(&namespace, name, &version).await {
            tracing::warn!(script = name, %error, "a version without runs was not removed");
        }
    }

    async fn remove_unused(&self, namespace: &Namespace, name: &str, version: &Version) -> Result<(), CallError> {
        let _changing = self.host.registry.hold_versions().await;
        let Some(known) = self.host.registry.record(namespace.key, name).filter(|known| known.deleted) else {
            return Ok(());
        };
        if self.runs_of_version(namespace, name, &hex(version), false).await? > 0 {
            return Ok(());
        }
        let mut record = ScriptRecord::clone(&known);
        record.versions.retain(|known| known.version != version[..]);
        let record = if record.versions.is_empty() { None } else { Some(record) };
        let document = DocumentWrite { namespace: namespace.key, name: version_document(name, version), content: None };
        self.store_record(namespace.key, name, record, vec![document]).await
    }
}
