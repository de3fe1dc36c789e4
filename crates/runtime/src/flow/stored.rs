//! Reading the names of scripts, at the start and when another node changed them.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use prost::Message;
use segno_store::NamespaceKey;

use super::deployed::{Names, Record};
use crate::{error::CallError, runs::Runs};

/// Documents read at a time.
const PAGE: usize = 1000;

impl Runs {
    /// Reads the names of all scripts. What is not stored is not known afterwards.
    pub(crate) async fn load_flows(&self) -> Result<(), CallError> {
        loop {
            let changes = self.flows.changes.load(Ordering::Acquire);
            let stored = self.stored_flows().await?;
            let mut names = self.flows.names.write().unwrap_or_else(PoisonError::into_inner);
            // What was deployed here meanwhile may be newer than what was read.
            if self.flows.changes.load(Ordering::Acquire) == changes {
                *names = stored;
                return Ok(());
            }
        }
    }

    async fn stored_flows(&self) -> Result<HashMap<NamespaceKey, Names>, CallError> {
        let mut all: HashMap<NamespaceKey, Names> = HashMap::new();
        for namespace in self.namespaces.all() {
            let key = namespace.key;
            let mut after: Option<String> = None;
            loop {
                let last = after.clone();
                let page = self.store.documents(key, "flow/", last.as_deref(), PAGE).await?;
                let Some(end) = page.last() else { break };
                after = Some(end.name.clone());
                for document in page {
                    let record = Record::decode(document.content)
                        .map_err(|error| CallError::DataLoss(format!("document {:?}: {error}", document.name)))?;
                    all.entry(key).or_default().insert(record.name.clone(), Arc::new(record));
                }
            }
        }
        Ok(all)
    }
}
