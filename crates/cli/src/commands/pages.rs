//! Lists that are printed page after page, so that the first items are there at once.

use bytes::Bytes;
use prost::Message;

use crate::{
    client::Client,
    output::{
        self, Format,
        dynamic::decoded,
        table::{Cell, Table},
    },
};

/// Prints at most `limit` items, as rows or, with their full name, as JSON: one array over all pages. `page` is given how many
/// are left and where a page begins, and returns it with the beginning of the next one.
pub async fn print<M: Message>(
    client: &mut Client,
    name: &str,
    mut table: Table,
    row: impl Fn(&M) -> Vec<Cell>,
    limit: Option<u32>,
    mut page: impl AsyncFnMut(&mut Client, usize, Bytes) -> anyhow::Result<(Vec<M>, Bytes)>,
) -> anyhow::Result<()> {
    let mut left = limit.map_or(usize::MAX, |limit| limit as usize);
    let (mut printed, mut token) = (0, Bytes::new());
    loop {
        let (mut items, next) = page(client, left, token).await?;
        items.truncate(left);
        left -= items.len();
        if client.format == Format::Jsonl {
            for item in &items {
                output::print(&decoded(name, item).to_string())?;
            }
        } else if client.is_json() {
            for item in &items {
                let json = decoded(name, item).pretty();
                output::print(&format!("{}{json}", if printed == 0 { "[\n" } else { ",\n" }))?;
                printed += 1;
            }
        } else {
            output::print(&table.render(&items.iter().map(&row).collect::<Vec<_>>()))?;
        }
        token = next;
        if token.is_empty() || left == 0 {
            break;
        }
    }
    if client.format == Format::Json {
        output::print(if printed == 0 { "[]" } else { "]" })?;
    }
    Ok(())
}
