//! `segno flow show`.

use clap::Args;
use segno_proto::segno_flow::{DescribeRequest, DescribeRunRequest, Flow, GetSourceRequest};

use super::{name_and_version, short, show_run};
use crate::{
    client::{Client, ClientError},
    output::{self, Format, Json, dynamic::decoded, fields::Fields, plain, time},
};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno flow show order\n  segno flow show order@3f2a9c41d07b\n  segno flow show --workflow-id \
                        order-7\n\nOf a run it shows the source with the lines at which it waits, its variables and what it \
                        waits for."
)]
pub struct Show {
    /// The script, or one version of it.
    #[arg(value_name = "NAME[@VERSION]", required_unless_present = "workflow_id", conflicts_with = "workflow_id")]
    name: Option<String>,
    /// A run of a script, by its workflow id.
    #[arg(short, long, value_name = "ID")]
    workflow_id: Option<String>,
    /// Run id. [default: the newest run]
    #[arg(short, long, value_name = "ID", default_value = "", hide_default_value = true, requires = "workflow_id")]
    run_id: String,
    /// The state at this event.
    #[arg(long, value_name = "EVENT", default_value_t = 0, hide_default_value = true, requires = "workflow_id")]
    at: i64,
}

impl Show {
    /// Shows a script or a run.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        match (self.workflow_id, self.name) {
            (Some(workflow_id), _) => {
                let namespace = client.namespace.clone();
                let message = DescribeRunRequest {
                    namespace,
                    workflow_id: workflow_id.clone(),
                    run_id: self.run_id,
                    at_event: self.at,
                };
                let seen = client.call("show the run", message).await?;
                match client.format {
                    Format::Json | Format::Jsonl => Ok(output::print(&seen.state_json)?),
                    Format::Text => {
                        let text = show_run::text(&workflow_id, &seen, self.at, client.colors).map_err(|why| {
                            ClientError::Outcome(format!("the server's answer cannot be read: {why}"))
                        })?;
                        Ok(output::print(&text)?)
                    }
                }
            }
            (None, Some(name)) => show_script(client, &name).await,
            (None, None) => Ok(()),
        }
    }
}

async fn show_script(client: &mut Client, text: &str) -> anyhow::Result<()> {
    let (name, version) = name_and_version(text);
    let message = GetSourceRequest { namespace: client.namespace.clone(), name: name.clone(), version };
    let found = client.call("show the script", message).await?;
    let message = DescribeRequest { namespace: client.namespace.clone(), name };
    let described = client.call("show the script", message).await?;
    let flow = described.flow.clone().unwrap_or_default();
    let source = String::from_utf8_lossy(&found.source).into_owned();
    client.print(
        || {
            let mut text = facts(&flow, &found.version, client.colors);
            text.push('\n');
            text.push_str(&numbered(&source));
            text
        },
        || {
            Json::object([
                ("flow", decoded("segno.flow.v1.Flow", &flow)),
                ("version", Json::text(&found.version)),
                ("file_name", Json::text(&found.file_name)),
                ("source", Json::text(&source)),
            ])
        },
    )
}

fn facts(flow: &Flow, version: &str, colors: bool) -> String {
    let mut fields = Fields::new(colors);
    fields.section("Script");
    fields.add("Name", &flow.name);
    fields.add("Version", short(version));
    let current = if flow.current.is_empty() { "none" } else { short(&flow.current) };
    fields.add("Current", current);
    if !flow.current.is_empty() {
        fields.add("Queues", if flow.takes_over { "all" } else { "those without workers" });
    }
    let handlers: Vec<_> =
        flow.handlers.iter().map(|handler| format!("{} {}", handler.kind, plain(&handler.name))).collect();
    fields.add("Handlers", handlers.join(", "));
    fields.add("Schedule", &flow.schedule);
    let versions: Vec<_> = flow
        .versions
        .iter()
        .map(|known| {
            format!(
                "{} ({} open, {})",
                short(&known.version),
                known.open_runs,
                time::relative(known.created.as_ref(), jiff::Timestamp::now())
            )
        })
        .collect();
    fields.add("Versions", versions.join(", "));
    for known in flow.versions.iter().filter(|known| !known.unusable.is_empty()) {
        fields.add("Unusable", format!("{}: {}", short(&known.version), plain(&known.unusable)));
    }
    fields.finish()
}

fn numbered(source: &str) -> String {
    let width = source.lines().count().to_string().len();
    source.lines().enumerate().map(|(place, line)| format!("{:>width$} | {}\n", place + 1, plain(line))).collect()
}
