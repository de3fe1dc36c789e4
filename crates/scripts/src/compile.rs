//! Checking and compiling sources. Both take time in proportion to the source, so that they are done on threads of scripts.

use bytes::Bytes;
use segno_flow::{Code, diagnostic::Diagnostic, hir::Program};
use segno_runs::{error::CallError, namespaces::Namespace};

use super::{error::ScriptError, host::Scripts};

/// A script to deploy.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The text.
    pub text: Vec<u8>,
    /// The name of the file, for stacks.
    pub file_name: String,
    /// Whether it becomes the current version.
    pub activate: bool,
    /// Whether open runs of that type that are not scripts are in order.
    pub take_over: bool,
    /// Who deploys.
    pub identity: String,
}

/// A source that was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedScript {
    /// The name of the workflow; empty if the source has errors.
    pub name: String,
    /// The version that the source would have, all digits.
    pub version: String,
    /// Errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
}

/// A source that was compiled.
pub(super) struct CompiledScript {
    pub name: String,
    /// All digits.
    pub version: String,
    /// The source as it is stored.
    pub text: Bytes,
    pub has_schedule: bool,
    /// The code as it is stored.
    pub code: Bytes,
    pub warnings: Vec<Diagnostic>,
    /// Who deploys it and how, without the text.
    pub source: Source,
}

impl Scripts {
    /// Says what is wrong with a source; stores nothing.
    pub async fn check(
        &self,
        namespace: &Namespace,
        source: Bytes,
        file_name: String,
    ) -> Result<CheckedScript, CallError> {
        let check = move || {
            let version = segno_flow::version(&source);
            match compile_new(&source, &file_name) {
                Ok((name, _, diagnostics)) => CheckedScript { name, version, diagnostics },
                Err(diagnostics) => CheckedScript { name: String::new(), version, diagnostics },
            }
        };
        self.host.threads.run(namespace.key, check).await
    }

    /// Compiles a source that is to be deployed.
    pub(super) async fn compile_script(
        &self,
        namespace: &Namespace,
        mut source: Source,
    ) -> Result<CompiledScript, ScriptError> {
        let compile = move || {
            let text = std::mem::take(&mut source.text);
            let (name, code, warnings) = compile_new(&text, &source.file_name).map_err(ScriptError::Source)?;
            Ok(CompiledScript {
                name,
                version: segno_flow::version(&text),
                has_schedule: code.schedule().is_some(),
                code: code.encode().into(),
                text: segno_flow::normalize(&text).into_owned().into(),
                warnings,
                source,
            })
        };
        self.host.threads.run(namespace.key, compile).await?
    }
}

/// The name of the workflow, its code and warnings; or errors and warnings.
type Compiled = Result<(String, Code, Vec<Diagnostic>), Vec<Diagnostic>>;

/// Compiles a source that is checked or deployed. Errors about types count.
fn compile_new(source: &[u8], file_name: &str) -> Compiled {
    let checked = segno_flow::types::check(source);
    code(checked.program, checked.diagnostics, file_name)
}

/// Compiles a version that is stored. It was deployed, perhaps by a server that knew nothing about types: it goes on.
pub(super) fn compile_stored(source: &[u8], file_name: &str) -> Compiled {
    let checked = segno_flow::check(source);
    code(checked.program, checked.diagnostics, file_name)
}

fn code(program: Option<Program>, mut diagnostics: Vec<Diagnostic>, file_name: &str) -> Compiled {
    let Some(program) = program else { return Err(diagnostics) };
    match segno_flow::compile(&program, file_name) {
        Ok(code) => Ok((program.name.to_string(), code, diagnostics)),
        Err(more) => {
            diagnostics.extend(more);
            Err(diagnostics)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails in every run that reaches its second line.
    const WRONG: &[u8] = b"workflow w(inputs) {\n  if ([inputs].length) return 1\n}\n";

    #[test]
    fn errors_about_types_refuse_new_scripts_alone() {
        let found = compile_new(WRONG, "w.flow").expect_err("it is refused");
        let found: Vec<_> = found.iter().map(|found| (found.code, found.start.line, found.start.column)).collect();
        assert_eq!(found, [("F0218", 2, 16)]);
        let (name, _, _) = compile_stored(WRONG, "w.flow").expect("what was deployed before goes on");
        assert_eq!(name, "w");
        assert!(compile_new(b"workflow w(inputs) { if (inputs.length) return 1 }", "w.flow").is_ok());
    }
}
