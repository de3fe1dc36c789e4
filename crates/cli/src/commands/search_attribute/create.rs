//! `segno search-attribute create`.

use clap::Args;
use segno_proto::{enums::IndexedValueType, operatorservice::AddSearchAttributesRequest};

use super::done;
use crate::{
    args,
    client::{Client, ClientError},
    output::plain,
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno search-attribute create --name Customer --type Keyword")]
pub struct Create {
    /// Name; may be repeated.
    #[arg(long, value_name = "NAME", required = true)]
    name: Vec<String>,
    /// Type: Text, Keyword, Int, Double, Bool, Datetime or KeywordList.
    #[arg(long, value_name = "TYPE", value_parser = args::search_attribute_type)]
    r#type: IndexedValueType,
}

impl Create {
    /// Adds them. Servers answer with success also when one is there with another type, so this looks first.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let there = client.search_attributes().await?.custom_attributes;
        if let Some(name) =
            self.name.iter().find(|name| there.get(*name).is_some_and(|kind| *kind != self.r#type as i32))
        {
            let error = format!("search attribute {} is there already, with another type", plain(name));
            return Err(ClientError::Outcome(error).into());
        }
        let message = AddSearchAttributesRequest {
            namespace: client.namespace.clone(),
            search_attributes: self.name.iter().map(|name| (name.clone(), self.r#type as i32)).collect(),
        };
        client.call("create the search attributes", message).await?;
        done(client, &self.name, "created")
    }
}
