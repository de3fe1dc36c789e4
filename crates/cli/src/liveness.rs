//! Flags of worker leases. All servers have them.

use clap::Args;
use segno_node::LeaseSettings;
use segno_proto::Nanos;

use crate::args;

/// When a worker counts as lost.
#[derive(Args, Clone, Copy, Debug)]
pub struct Liveness {
    /// How long a worker whose connections are gone may take to come back before its activities go to others.
    #[arg(long, env = "SEGNO_WORKER_GRACE", default_value = "15s", value_name = "DURATION", value_parser = args::duration)]
    worker_grace: Nanos,
    /// Lease of workers that ask for none. Workers that only send heartbeats are lost after three times this.
    #[arg(long, env = "SEGNO_WORKER_LEASE", default_value = "60s", value_name = "DURATION", value_parser = second_at_least)]
    worker_lease: Nanos,
    /// How long workers whose heartbeats list their tasks may take to list an activity that they were handed.
    #[arg(long, env = "SEGNO_WORKER_VERIFICATION", default_value = "2m", value_name = "DURATION", value_parser = second_at_least)]
    worker_verification: Nanos,
}

/// Leases cannot be shorter than a second, and with them comes what workers say.
fn second_at_least(text: &str) -> Result<Nanos, String> {
    match args::duration(text)? {
        time if time >= 1_000_000_000 => Ok(time),
        _ => Err("a second at least".to_owned()),
    }
}

impl Liveness {
    /// As the node has them.
    pub fn settings(self) -> LeaseSettings {
        LeaseSettings {
            lease: self.worker_lease,
            grace: self.worker_grace,
            verification: self.worker_verification,
            ..LeaseSettings::default()
        }
    }
}
