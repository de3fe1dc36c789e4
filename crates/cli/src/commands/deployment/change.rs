//! Flags of commands that change a deployment, and their output.

use clap::Args;

use crate::{
    client::{Client, ClientError},
    commands::confirm_or,
    output::Json,
};

/// Who changes a deployment.
#[derive(Args, Clone, Debug)]
pub struct Author {
    /// Identity under which the change is made. [default: segno:USER@HOST]
    #[arg(long, value_name = "TEXT")]
    identity: Option<String>,
}

impl Author {
    /// The identity under which the change is made.
    pub fn identity(self, client: &Client) -> String {
        self.identity.unwrap_or_else(|| client.identity.clone())
    }
}

/// Asks before tasks go elsewhere, unless the user agreed already.
pub fn confirm(yes: bool, question: &str) -> anyhow::Result<()> {
    confirm_or(
        yes,
        question,
        ClientError::NotConfirmed("this changes to which workers tasks go: say --yes if you mean it"),
    )
}

/// Prints that a deployment, or with a build id a version of it, was changed.
pub fn done(client: &Client, name: &str, build: Option<&str>, action: &str, sentence: String) -> anyhow::Result<()> {
    client.print(
        || sentence,
        || {
            let mut json = Json::object([("deploymentName", Json::text(name))]);
            if let Some(build) = build {
                json.push("buildId", Json::text(build));
            }
            json.push("namespace", Json::text(&client.namespace));
            json.push("action", Json::text(action));
            json
        },
    )
}
