//! `segno workflow start`.

use clap::Args;

use super::start_options::StartOptions;
use crate::{
    client::Client,
    output::{Json, fields::Fields},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno workflow start --type Order --task-queue orders --workflow-id order-7 \\\n      \
                        --input '{\"item\": \"tea\"}' --memo 'note=\"urgent\"'"
)]
pub struct Start {
    #[command(flatten)]
    options: StartOptions,
}

impl Start {
    /// Starts a workflow and says which run it is.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let started = self.options.start(client).await?;
        client.tell_executor(&started).await;
        client.print(
            || {
                let mut fields = Fields::new(client.colors);
                fields.section(if started.started { "Started" } else { "Runs already" });
                fields.add("WorkflowId", &started.workflow_id);
                fields.add("RunId", &started.run_id);
                fields.add("Type", &started.kind);
                fields.add("Namespace", &client.namespace);
                fields.add("TaskQueue", &started.task_queue);
                fields.finish()
            },
            || {
                Json::object([
                    ("workflowId", Json::text(&started.workflow_id)),
                    ("runId", Json::text(&started.run_id)),
                    ("type", Json::text(&started.kind)),
                    ("namespace", Json::text(&client.namespace)),
                    ("taskQueue", Json::text(&started.task_queue)),
                    ("started", Json::Bool(started.started)),
                ])
            },
        )
    }
}
