//! Reading the names of scripts, at the start and when another node changed them.

use std::sync::Arc;

use prost::Message;
use segno_environment::hash::HashMap;
use segno_runs::error::CallError;
use segno_store::NamespaceKey;

use super::{
    host::Scripts,
    records::{NAME_PREFIX, ScriptRecord},
    registry::Names,
};

/// Documents read at a time.
const PAGE: usize = 1000;

impl Scripts {
    /// Reads the names of all scripts. What is not stored is not known afterwards.
    pub(super) async fn load(&self) -> Result<(), CallError> {
        loop {
            let changes = self.host.registry.changes();
            let stored = self.stored_names().await?;
            if self.host.registry.replace(stored, changes) {
                return Ok(());
            }
        }
    }

    async fn stored_names(&self) -> Result<HashMap<NamespaceKey, Names>, CallError> {
        let mut all: HashMap<NamespaceKey, Names> = HashMap::default();
        for namespace in self.runs.namespaces.all() {
            let key = namespace.key;
            let mut after: Option<String> = None;
            loop {
                let last = after.clone();
                let page = self.runs.store.documents(key, NAME_PREFIX, last.as_deref(), PAGE).await?;
                let Some(end) = page.last() else { break };
                after = Some(end.name.clone());
                for document in page {
                    let record = ScriptRecord::decode(document.content)
                        .map_err(|error| CallError::DataLoss(format!("document {:?}: {error}", document.name)))?;
                    all.entry(key).or_default().insert(record.name.clone(), Arc::new(record));
                }
            }
        }
        Ok(all)
    }
}
