//! `segno flow deploy`.

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use segno_flow::diagnostic::Severity;
use segno_proto::segno_flow::{DeployFile, DeployRequest, DeployResponse};

use super::{check, files, short};
use crate::{
    client::{Client, ClientError},
    output::{Json, plain},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno flow deploy order.flow\n  segno flow deploy flows/\n\nAll files are deployed, or \
                        none. Files named *_test.flow are skipped."
)]
pub struct Deploy {
    /// Store the version and leave the current one as it is.
    #[arg(long)]
    no_activate: bool,
    /// Deploy although workers execute workflows of that type; from now on the script executes what is started, on every task
    /// queue.
    #[arg(long)]
    take_over: bool,
    /// Scripts, or directories of them.
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
}

impl Deploy {
    /// Deploys all files, or none if one of them has errors or is refused.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let files = files::read(&files::scripts(&self.paths)?)?;
        if files.is_empty() {
            return Err(ClientError::Outcome("there is no script to deploy".to_owned()).into());
        }
        let mut errors = 0;
        for file in &files {
            for found in check::diagnostics(file) {
                eprintln!("{}", check::render(file, &found));
                errors += usize::from(found.severity == Severity::Error);
            }
        }
        if errors > 0 {
            return Err(ClientError::Outcome(format!("{errors} error(s), nothing was deployed")).into());
        }
        refuse_same_names(&files)?;
        let mut rest = files.into_iter().map(|file| DeployFile { source: file.source.into(), file_name: file.name });
        let first = rest.next().unwrap_or_default();
        let message = DeployRequest {
            namespace: client.namespace.clone(),
            source: first.source,
            file_name: first.file_name,
            activate: Some(!self.no_activate),
            take_over: self.take_over,
            identity: client.identity.clone(),
            more: rest.collect(),
        };
        let mut first = client.call("deploy", message).await?;
        let more = std::mem::take(&mut first.more);
        let answers: Vec<DeployResponse> = std::iter::once(first).chain(more).collect();
        client.print(
            || {
                let line = |answer: &DeployResponse| {
                    let verb = if answer.unchanged { "unchanged" } else { "deployed" };
                    format!("{} {} {verb}\n", plain(&answer.name), short(&answer.version))
                };
                answers.iter().map(line).collect()
            },
            || {
                let item = |answer: &DeployResponse| {
                    Json::object([
                        ("name", Json::text(&answer.name)),
                        ("version", Json::text(&answer.version)),
                        ("created", Json::Bool(answer.created)),
                        ("current", Json::text(&answer.current)),
                        ("unchanged", Json::Bool(answer.unchanged)),
                    ])
                };
                Json::Array(answers.iter().map(item).collect())
            },
        )
    }
}

/// One of two files with the same workflow would win.
fn refuse_same_names(files: &[files::File]) -> Result<(), ClientError> {
    let mut seen: BTreeMap<String, &files::File> = BTreeMap::new();
    for file in files {
        let Some(program) = segno_flow::check(&file.source).program else { continue };
        if let Some(other) = seen.insert(program.name.to_string(), file) {
            let (name, one, two) = (&program.name, other.path.display(), file.path.display());
            let text = format!("workflow \"{name}\" is in {one} and in {two}, nothing was deployed");
            return Err(ClientError::Outcome(text));
        }
    }
    Ok(())
}
