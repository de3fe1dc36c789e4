//! `segno key whoami`.

use clap::Args;
use segno_proto::segno_access::{WhoAmIRequest, WhoAmIResponse};

use crate::{
    client::Client,
    output::{dynamic::decoded, plain},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno key whoami")]
pub struct WhoAmI {}

impl WhoAmI {
    /// Prints who asks.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let me = client.call("ask who you are", WhoAmIRequest {}).await?;
        client.print(|| text(&me), || decoded("segno.access.v1.WhoAmIResponse", &me))
    }
}

fn text(me: &WhoAmIResponse) -> String {
    if me.proof.is_empty() {
        return "This server does not ask who calls: everybody may do everything".to_owned();
    }
    let queues = match me.task_queues.is_empty() {
        true => String::new(),
        false => format!(", queues {}", me.task_queues.join(" ")),
    };
    format!("{} (by {}): {}{queues}", plain(&me.name), me.proof, me.grants.join(" "))
}
