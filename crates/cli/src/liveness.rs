//! Flags that say how long workers count as alive. All servers have them.

use clap::Args;
use segno_proto::Nanos;
use segno_runtime::LeaseSettings;

use crate::args;

/// When a worker counts as lost.
#[derive(Args, Clone, Copy, Debug)]
pub struct Liveness {
    /// How long a worker whose connections are gone may take to come back before its activities go to others.
    #[arg(long, env = "SEGNO_WORKER_GRACE", default_value = "15s", value_name = "DURATION", value_parser = args::duration)]
    worker_grace: Nanos,
    /// The lease of workers that ask for none. Workers that merely report are lost after three times this.
    #[arg(long, env = "SEGNO_WORKER_LEASE", default_value = "60s", value_name = "DURATION", value_parser = lease)]
    worker_lease: Nanos,
}

/// SDKs report once a minute unless they are told otherwise: a third of a minute is the least that can be right.
fn lease(text: &str) -> Result<Nanos, String> {
    match args::duration(text)? {
        lease if lease >= 1_000_000_000 => Ok(lease),
        _ => Err("a lease is a second at least".to_owned()),
    }
}

impl Liveness {
    /// As the node has them.
    pub fn settings(self) -> LeaseSettings {
        LeaseSettings { grace: self.worker_grace, lease: self.worker_lease, ..Default::default() }
    }
}
