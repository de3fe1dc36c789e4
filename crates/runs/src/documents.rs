//! The documents of a namespace whose names have the same prefix: reading and removing them, page by page.

use prost::Message;
use segno_store::{Commit, Document, DocumentWrite, NamespaceKey};

use crate::{error::CallError, runs::Runs};

/// Documents read, or removed, at a time.
const PAGE: usize = 1000;

impl Runs {
    /// Hands over all documents with a prefix, in the order of their names.
    pub async fn each_document(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        mut take: impl FnMut(Document) -> Result<(), CallError> + Send,
    ) -> Result<(), CallError> {
        let mut after: Option<String> = None;
        loop {
            let page = self.store.documents(namespace, prefix, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.name.clone());
            page.into_iter().try_for_each(&mut take)?;
        }
    }

    /// Hands over the messages that all documents with a prefix have. It fails if one cannot be decoded.
    pub async fn each_message<M: Message + Default>(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        mut take: impl FnMut(M) + Send,
    ) -> Result<(), CallError> {
        let decode = |document: Document| {
            let damaged = |error| CallError::DataLoss(format!("document {:?}: {error}", document.name));
            M::decode(document.content).map(&mut take).map_err(damaged)
        };
        self.each_document(namespace, prefix, decode).await
    }

    /// Removes all documents with a prefix, of a namespace that is deleted.
    pub async fn forget_documents(
        &self,
        namespace: NamespaceKey,
        prefix: &str,
        documents_of_one_node: bool,
    ) -> Result<(), CallError> {
        loop {
            let page = self.store.documents(namespace, prefix, None, PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            let gone = page.into_iter().map(|document| DocumentWrite { namespace, name: document.name, content: None });
            let commit = Commit { documents: gone.collect(), documents_of_one_node, ..Default::default() };
            self.committer.commit_of(namespace, commit).await?;
        }
    }
}
