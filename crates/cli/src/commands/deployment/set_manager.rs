//! `segno deployment set-manager`.

use clap::{ArgGroup, Args};
use segno_proto::workflowservice::{
    SetWorkerDeploymentManagerRequest, set_worker_deployment_manager_request::NewManagerIdentity,
};

use super::{
    Target,
    change::{Author, done},
    read,
};
use crate::{
    client::{Client, ClientError},
    commands::confirm_or,
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("manager").args(["to", "to_self", "unset"]).required(true),
    after_help = "Example:\n  segno deployment set-manager orders --self\n\n\
    The manager is a lock against accidents: other identities can take it over, but cannot change the routing meanwhile."
)]
pub struct SetManager {
    #[command(flatten)]
    target: Target,
    /// The identity.
    #[arg(long, value_name = "TEXT")]
    to: Option<String>,
    /// The identity that makes this change.
    #[arg(long = "self")]
    to_self: bool,
    /// No manager.
    #[arg(long)]
    unset: bool,
    #[command(flatten)]
    author: Author,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

impl SetManager {
    /// Changes the manager. A manager that exists is taken over only if that is meant.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let name = self.target.name;
        let identity = self.author.identity(client);
        let seen = read(client, &name).await?;
        let before = seen.worker_deployment_info.map(|info| info.manager_identity).unwrap_or_default();
        let manager = match &self.to {
            Some(to) => to.clone(),
            None if self.to_self => identity.clone(),
            None => String::new(),
        };
        let shown = plain(&name);
        if !before.is_empty() && before != identity {
            let question = format!("Deployment {shown} is managed by {}. Take it over?", plain(&before));
            let refused =
                ClientError::NotConfirmed("another identity manages the deployment: say --yes to take it over");
            confirm_or(self.yes, &question, refused)?;
        }
        let message = SetWorkerDeploymentManagerRequest {
            namespace: client.namespace.clone(),
            deployment_name: name.clone(),
            conflict_token: seen.conflict_token,
            identity,
            new_manager_identity: Some(match self.to_self {
                true => NewManagerIdentity::Self_(true),
                false => NewManagerIdentity::ManagerIdentity(manager.clone()),
            }),
        };
        client.call("set the manager of the deployment", message).await?;
        let (action, sentence) = match manager.as_str() {
            "" => ("unsetManager", format!("Deployment {shown} has no manager")),
            manager => ("setManager", format!("Deployment {shown} is managed by {}", plain(manager))),
        };
        done(client, &name, None, action, sentence)
    }
}
