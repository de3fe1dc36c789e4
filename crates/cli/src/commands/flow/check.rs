//! `segno flow check`.

use std::path::PathBuf;

use clap::Args;
use segno_flow::diagnostic::{Diagnostic, Severity};

use super::files::{self, File};
use crate::{
    client::ClientError,
    output::{self, Format, Json},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno flow check order.flow\n\nNo server is needed. Ends with 1 if there are errors."
)]
pub struct Check {
    /// Scripts.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Check {
    /// Prints errors and warnings.
    pub fn run(self, format: Format, _colors: bool) -> anyhow::Result<()> {
        let mut found = Vec::new();
        for file in files::read(&self.files)? {
            let diagnostics = diagnostics(&file);
            found.push((file, diagnostics));
        }
        let all = || found.iter().flat_map(|(file, diagnostics)| diagnostics.iter().map(move |one| (file, one)));
        match format {
            Format::Text => {
                let text: Vec<_> = all().map(|(file, one)| render(file, one)).collect();
                if !text.is_empty() {
                    output::print(&text.join("\n"))?;
                }
            }
            format @ (Format::Json | Format::Jsonl) => {
                let items = all().map(|(file, one)| json(file, one)).collect();
                output::print(&format.render(&Json::Array(items)))?;
            }
        }
        let errors = all().filter(|(_, one)| one.severity == Severity::Error).count();
        match errors {
            0 => Ok(()),
            1 => Err(ClientError::Outcome("1 error".to_owned()).into()),
            many => Err(ClientError::Outcome(format!("{many} errors")).into()),
        }
    }
}

/// What is wrong with a file, a script or a test.
pub fn diagnostics(file: &File) -> Vec<Diagnostic> {
    let is_test = file.name.ends_with("_test.flow");
    let checked =
        if is_test { segno_flow::types::check_test(&file.source) } else { segno_flow::types::check(&file.source) };
    let mut found = checked.diagnostics;
    if let Some(program) = checked.program
        && let Err(more) = segno_flow::compile(&program, &file.name)
    {
        found.extend(more);
    }
    found
}

/// An error or warning with its line.
pub fn render(file: &File, found: &Diagnostic) -> String {
    let source = String::from_utf8_lossy(&file.source);
    segno_flow::render(found, &file.path.to_string_lossy(), &source)
}

fn json(file: &File, found: &Diagnostic) -> Json {
    let severity = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    Json::object([
        ("code", Json::text(found.code)),
        ("severity", Json::text(severity)),
        ("message", Json::text(&found.message)),
        ("file", Json::text(file.path.to_string_lossy())),
        ("line", Json::number(found.start.line)),
        ("column", Json::number(found.start.column)),
        ("end_line", Json::number(found.end.line)),
        ("end_column", Json::number(found.end.column)),
        ("hint", found.hint.as_ref().map_or(Json::Null, Json::text)),
    ])
}
