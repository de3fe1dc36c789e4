//! Compiled code of versions: read from storage when it is needed, and kept in a cache.
//!
//! A version whose code cannot be loaded is *unusable*: an older server stored it, and its source exceeds a limit of
//! this one. The reason is kept with the version. Its turns fail with that reason and back off; deployments, lists and
//! pages show it.

use std::sync::Arc;

use prost::Message;
use segno_engine::script::{Version, hex};
use segno_flow::{
    Code,
    diagnostic::{Diagnostic, Severity},
};
use segno_runs::error::CallError;
use segno_store::NamespaceKey;

use super::{
    code_cache::VersionCode,
    compile::compile_stored,
    host::Scripts,
    records::{SHOWN_DIGITS, VersionContent, version_document},
};

impl Scripts {
    /// Source and code of a version.
    pub(super) async fn stored_version(
        &self,
        namespace: NamespaceKey,
        name: &str,
        version: &[u8],
    ) -> Result<VersionContent, CallError> {
        let document = version_document(name, version);
        let missing = || CallError::DataLoss(format!("the source of script \"{name}\" {} is missing", hex(version)));
        let content = self.runs.store.document(namespace, &document).await?;
        VersionContent::decode(content.ok_or_else(missing)?)
            .map_err(|error| CallError::DataLoss(format!("script \"{name}\" {}: {error}", hex(version))))
    }

    /// The compiled code of a version.
    pub(super) async fn code(
        &self,
        namespace: NamespaceKey,
        name: &str,
        version: Version,
    ) -> Result<Arc<Code>, CallError> {
        match self.version_code(namespace, name, version).await? {
            VersionCode::Usable(code) => Ok(code),
            VersionCode::Unusable(reason) => {
                let shown = &hex(&version)[..SHOWN_DIGITS];
                let text = format!(
                    "version {shown} of script \"{name}\" is unusable: {reason}. Deploy a version that this server accepts and \
                     start the workflow again with it"
                );
                Err(CallError::NotReady(text))
            }
        }
    }

    /// The code of a version, or why there is none.
    pub(super) async fn version_code(
        &self,
        namespace: NamespaceKey,
        name: &str,
        version: Version,
    ) -> Result<VersionCode, CallError> {
        let key = (namespace, Arc::from(name), version);
        if let Some(known) = self.host.code_cache.get(&key) {
            return Ok(known);
        }
        let content = self.stored_version(namespace, name, &version).await?;
        // Decoding and compiling take time in proportion to the code.
        let compiled = self.host.threads.run(namespace, move || compiled(&content)).await?;
        if let VersionCode::Unusable(reason) = &compiled {
            let version = hex(&version);
            tracing::warn!(script = name, version, %reason, "a stored version of a script is unusable");
        }
        self.host.code_cache.insert(key, compiled.clone());
        Ok(compiled)
    }
}

/// The code of a stored version. If its format is one that this server does not know, or it is more than the server keeps, the
/// source is the truth.
fn compiled(content: &VersionContent) -> VersionCode {
    let why = match Code::decode(&content.code) {
        Ok(code) => return VersionCode::Usable(Arc::new(code)),
        Err(why) => why,
    };
    match compile_stored(&content.source, &content.file_name) {
        Ok((_, code, _)) => VersionCode::Usable(Arc::new(code)),
        Err(found) => {
            let error = found.iter().find(|found| found.severity == Severity::Error);
            VersionCode::Unusable(error.map_or(why, explain).into())
        }
    }
}

/// An error in a source, on one line.
fn explain(found: &Diagnostic) -> String {
    format!("{} in line {}, column {}: {}", found.code, found.start.line, found.start.column, found.message)
}
