//! `segno search-attribute ...`.

mod create;
mod list;
mod remove;

use crate::{
    client::Client,
    output::{Json, plain},
};

noun!(SearchAttribute {
    /// Lists search attributes.
    List(list::List),
    /// Adds custom search attributes to a namespace.
    Create(create::Create),
    /// Removes custom search attributes from a namespace.
    Remove(remove::Remove),
});

/// Says what was done to which search attributes.
fn done(client: &Client, names: &[String], action: &str) -> anyhow::Result<()> {
    let plural = if names.len() == 1 { " was" } else { "s were" };
    client.print(
        || format!("Search attribute{plural} {action}: {}", plain(&names.join(", "))),
        || {
            Json::object([
                ("namespace", Json::text(&client.namespace)),
                ("names", Json::Array(names.iter().map(Json::text).collect())),
                ("action", Json::text(action)),
            ])
        },
    )
}
