//! Compiled code of versions: read from storage when it is needed, and kept in a cache.
//!
//! A version whose code cannot be had is *unusable*: an older server stored it, and its source is over a limit of this one.
//! That is known of the version from then on, with the reason. Its turns fail with that reason and back off; deployments,
//! lists and pages show it. Nothing that is stored ends the process.

use std::{collections::HashMap, sync::Arc};

use segno_engine::script::{Version, hex};
use segno_flow::{
    Code,
    diagnostic::{Diagnostic, Severity},
};
use segno_store::NamespaceKey;

use super::{
    check::compile,
    deployed::{Content, SHOWN},
};
use crate::{error::CallError, runs::Runs, slots::lock};

/// Bytes of compiled code in memory.
const CODE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What is counted for a version besides its code.
const ENTRY_BYTES: usize = 1024;

/// What code is known by.
type CodeKey = (NamespaceKey, Arc<str>, Version);

/// What is known of the code of a version.
#[derive(Clone)]
pub(super) enum Compiled {
    Usable(Arc<Code>),
    /// The reason.
    Unusable(Arc<str>),
}

/// Compiled code by namespace, name and version.
#[derive(Default)]
pub(super) struct Codes {
    by_version: HashMap<CodeKey, Compiled>,
    bytes: usize,
}

impl Codes {
    fn insert(&mut self, key: CodeKey, compiled: Compiled) {
        let bytes = ENTRY_BYTES
            + match &compiled {
                Compiled::Usable(code) => code.memory(),
                Compiled::Unusable(reason) => reason.len(),
            };
        if self.bytes + bytes > CODE_BYTES_MAX {
            self.by_version.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.by_version.insert(key, compiled);
    }
}

impl Runs {
    /// Compiled code of a version.
    pub(crate) async fn flow_code(
        &self,
        namespace: NamespaceKey,
        name: &str,
        version: Version,
    ) -> Result<Arc<Code>, CallError> {
        match self.compiled_flow(namespace, name, version).await? {
            Compiled::Usable(code) => Ok(code),
            Compiled::Unusable(reason) => {
                let shown = &hex(&version)[..SHOWN];
                let text = format!(
                    "version {shown} of script \"{name}\" is unusable: {reason}. Deploy a version that this server accepts and \
                     start the workflow again with it"
                );
                Err(CallError::NotReady(text))
            }
        }
    }

    /// The code of a version, or why there is none.
    pub(super) async fn compiled_flow(
        &self,
        namespace: NamespaceKey,
        name: &str,
        version: Version,
    ) -> Result<Compiled, CallError> {
        let key = (namespace, Arc::from(name), version);
        if let Some(known) = lock(&self.flows.codes).by_version.get(&key) {
            return Ok(known.clone());
        }
        let content = self.flow_content(namespace, name, &version).await?;
        // Decoding and compiling take time in proportion to the code.
        let compiled = self.flows.cores.run(namespace, move || compiled(&content)).await?;
        if let Compiled::Unusable(reason) = &compiled {
            let version = hex(&version);
            tracing::warn!(script = name, version, %reason, "a stored version of a script is unusable");
        }
        lock(&self.flows.codes).insert(key, compiled.clone());
        Ok(compiled)
    }
}

/// The code of a stored version. If its format is one that this server does not know, or it is more than the server keeps, the
/// source is the truth.
fn compiled(content: &Content) -> Compiled {
    let why = match Code::decode(&content.code) {
        Ok(code) => return Compiled::Usable(Arc::new(code)),
        Err(why) => why,
    };
    match compile(&content.source, &content.file_name) {
        Ok((_, code, _)) => Compiled::Usable(Arc::new(code)),
        Err(found) => {
            let error = found.iter().find(|found| found.severity == Severity::Error);
            Compiled::Unusable(error.map_or(why, explain).into())
        }
    }
}

/// An error in a source, on one line.
fn explain(found: &Diagnostic) -> String {
    format!("{} in line {}, column {}: {}", found.code, found.start.line, found.start.column, found.message)
}
