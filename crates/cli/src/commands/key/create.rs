//! `segno key create`.

use clap::Args;
use segno_proto::{
    Nanos, nanos_timestamp,
    segno_access::{CreateKeyRequest, Key},
};

use crate::{
    args,
    client::Client,
    output::{dynamic::decoded, plain},
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  segno key create orders-worker --grant orders:work --task-queue 'orders*'\n  \
                  segno key create ci --grant default:write --expires-in 30d\n  \
                  segno key create reporting --grant '*:read' --certificate reports.example")]
pub struct Create {
    /// Name of the key.
    #[arg(value_name = "NAME")]
    name: String,
    /// A grant: NAMESPACE:ROLE, or *:ROLE for the whole server; roles are read, work, write, admin; may be repeated.
    #[arg(long, value_name = "NAMESPACE:ROLE", required = true)]
    grant: Vec<String>,
    /// A task queue that the key may poll; may be repeated. A * at the end matches any rest. [default: all]
    #[arg(long, value_name = "NAME")]
    task_queue: Vec<String>,
    /// The common name of the client certificate that is used instead of a secret.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    certificate: String,
    /// Calls per second with this key. [default: no limit]
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    calls_per_second: u32,
    /// How long the key is valid. [default: until it is revoked]
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    expires_in: Option<Nanos>,
}

impl Create {
    /// Makes the key.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let now = jiff::Timestamp::now().as_nanosecond() as Nanos;
        let key = Key {
            name: self.name,
            grants: self.grant,
            task_queues: self.task_queue,
            certificate: self.certificate,
            calls_per_second: self.calls_per_second,
            expire_time: self.expires_in.map(|nanos| nanos_timestamp(now.saturating_add(nanos))),
            ..Default::default()
        };
        let made = client.call("create the key", CreateKeyRequest { key: Some(key) }).await?;
        // Only the secret goes to standard output, so that it can be put into a file.
        if !client.is_json() {
            let name = made.key.as_ref().map(|key| key.name.as_str()).unwrap_or_default();
            match made.secret.as_str() {
                "" => eprintln!("segno: the certificate is known as {}", plain(name)),
                _ => eprintln!("segno: the key {} is made; this is the only time that it is shown", plain(name)),
            }
        }
        client.print(|| made.secret.clone(), || decoded("segno.access.v1.CreateKeyResponse", &made))
    }
}
