//! Registering and changing namespaces.

use std::sync::Arc;

use segno_environment::finish::finish;
use segno_runs::{CallError, Namespace, NamespaceDetail, NamespaceName, NewNamespace};

use super::NamespaceOperations;

impl NamespaceOperations {
    /// Registers a namespace. Once this returns it is stored and can be used.
    pub async fn register(&self, new: NewNamespace) -> Result<Arc<Namespace>, CallError> {
        let runs = self.runs.clone();
        finish(async move { runs.namespaces.register(&*runs.store, &runs.ids, new).await }).await
    }

    /// Changes a namespace. `edit` sees its newest state and may refuse. Once this returns the change is stored and in
    /// effect.
    pub async fn change<F>(&self, name: NamespaceName, edit: F) -> Result<Arc<Namespace>, CallError>
    where
        F: FnOnce(&mut NamespaceDetail) -> Result<(), CallError> + Send + 'static,
    {
        let runs = self.runs.clone();
        let edit = |namespace: &mut Namespace| edit(&mut namespace.detail);
        let changed = finish(async move { runs.namespaces.change(&*runs.store, &name, edit).await }).await?;
        self.check_retention();
        Ok(changed)
    }
}
