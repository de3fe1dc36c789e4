//! `segno search-attribute list`.

use clap::Args;
use segno_proto::{
    enums::IndexedValueType,
    operatorservice::{ListSearchAttributesRequest, ListSearchAttributesResponse},
};

use crate::{
    client::{Client, ClientError},
    output::{
        dynamic::{decoded, short_name},
        table::{Cell, Table},
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno search-attribute list --namespace orders")]
pub struct List {}

impl List {
    /// Prints custom ones first, then those that every namespace has.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let answer = client.search_attributes().await?;
        client.print(
            || {
                let custom = answer.custom_attributes.iter().map(|(name, kind)| row(name, *kind, "custom"));
                let system = answer.system_attributes.iter().map(|(name, kind)| row(name, *kind, "predefined"));
                let rows: Vec<_> = custom.chain(system).collect();
                Table::new(&["Name", "Type", "Origin"], client.colors).render(&rows)
            },
            || decoded("temporal.api.operatorservice.v1.ListSearchAttributesResponse", &answer),
        )
    }
}

impl Client {
    /// All search attributes of the namespace.
    pub async fn search_attributes(&mut self) -> Result<ListSearchAttributesResponse, ClientError> {
        let message = ListSearchAttributesRequest { namespace: self.namespace.clone() };
        self.call("list search attributes", message).await
    }
}

fn row(name: &str, kind: i32, origin: &str) -> Vec<Cell> {
    let kind = IndexedValueType::try_from(kind).unwrap_or_default();
    vec![name.into(), short_name("IndexedValueType", kind.as_str_name()).into(), origin.into()]
}
