//! Errors and warnings as the protocol has them.

use lsp_types::{Diagnostic, DiagnosticSeverity, NumberOrString, PublishDiagnosticsParams};
use segno_flow::diagnostic::Severity;

use crate::document::Document;

/// What is wrong with a document.
pub fn of(document: &Document) -> PublishDiagnosticsParams {
    let diagnostics = document.diagnostics.iter().map(|found| Diagnostic {
        range: document.text.range(found.start, found.end),
        severity: Some(match found.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
        }),
        code: Some(NumberOrString::String(found.code.to_owned())),
        source: Some("flow".to_owned()),
        message: match &found.hint {
            Some(hint) => format!("{}\nhint: {hint}", found.message),
            None => found.message.clone(),
        },
        ..Diagnostic::default()
    });
    PublishDiagnosticsParams::new(document.uri.clone(), diagnostics.collect(), Some(document.version))
}
