//! `segno key list`.

use clap::Args;
use segno_proto::segno_access::{Key, ListKeysRequest};

use crate::{
    client::Client,
    output::{
        dynamic::decoded,
        table::{Cell, Table},
        time,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno key list")]
pub struct List {}

impl List {
    /// Prints all keys.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let found = client.call("list the keys", ListKeysRequest {}).await?;
        client.print(|| text(&found.keys, client.colors), || decoded("segno.access.v1.ListKeysResponse", &found))
    }
}

fn text(keys: &[Key], colors: bool) -> String {
    let rows: Vec<Vec<Cell>> = keys.iter().map(row).collect();
    Table::new(&["Name", "Grants", "Queues", "Certificate", "Created", "Expires", "By"], colors).render(&rows)
}

fn row(key: &Key) -> Vec<Cell> {
    let time = |at: &Option<prost_types::Timestamp>| time::short(at.as_ref());
    let queues = if key.task_queues.is_empty() { "all".to_owned() } else { key.task_queues.join(" ") };
    vec![
        (&key.name).into(),
        key.grants.join(" ").into(),
        queues.into(),
        (&key.certificate).into(),
        time(&key.create_time).into(),
        time(&key.expire_time).into(),
        (&key.created_by).into(),
    ]
}
