//! `segno namespace describe`.

use clap::Args;
use segno_proto::workflowservice::{DescribeNamespaceRequest, DescribeNamespaceResponse};

use super::{DESCRIPTION, Name};
use crate::{
    client::Client,
    output::{dynamic::decoded, fields::Fields, status, time},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno namespace describe orders")]
pub struct Describe {
    #[command(flatten)]
    name: Name,
}

impl Describe {
    /// Prints what the server knows.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let message = DescribeNamespaceRequest { namespace: self.name.or_of(client), ..Default::default() };
        let answer = client.call("describe the namespace", message).await?;
        client.print(|| text(&answer, client.colors), || decoded(DESCRIPTION, &answer))
    }
}

fn text(answer: &DescribeNamespaceResponse, colors: bool) -> String {
    let info = answer.namespace_info.clone().unwrap_or_default();
    let config = answer.config.clone().unwrap_or_default();
    let mut fields = Fields::new(colors);
    fields.section("Namespace");
    fields.add("Name", &info.name);
    fields.add("Id", &info.id);
    fields.add("State", status::namespace(info.state()));
    fields.add("Description", &info.description);
    fields.add("OwnerEmail", &info.owner_email);
    fields.add("Retention", time::span(config.workflow_execution_retention_ttl.as_ref()));
    let pairs = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
    };
    fields.add("Data", pairs(&info.data));
    fields.add("SearchAttributeAliases", pairs(&config.custom_search_attribute_aliases));
    fields.finish()
}
