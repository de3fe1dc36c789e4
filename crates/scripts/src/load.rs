//! Reading the names of scripts, at the start and when another node changed them.

use std::sync::Arc;

use segno_environment::hash::HashMap;
use segno_runs::error::CallError;
use segno_store::NamespaceKey;

use super::{
    host::Scripts,
    records::{NAME_PREFIX, ScriptRecord},
    registry::Names,
};

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
            let add = |record: ScriptRecord| {
                all.entry(key).or_default().insert(record.name.clone(), Arc::new(record));
            };
            self.runs.each_message(key, NAME_PREFIX, add).await?;
        }
        Ok(all)
    }
}
