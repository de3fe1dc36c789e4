//! Flags of worker deployments. All permanent servers have them.

use clap::Args;
use segno_node::DeploymentLimits;
use segno_proto::Nanos;

use crate::args;

/// What may be set of worker deployments.
#[derive(Args, Clone, Copy, Debug)]
pub struct Versioning {
    /// How long a version that is no longer current or ramping is draining at least.
    #[arg(long, env = "SEGNO_DRAINAGE_GRACE", default_value = "10s", value_name = "DURATION", value_parser = args::duration)]
    drainage_grace: Nanos,
    /// How long a worker counts as a poller of its version after its last poll.
    #[arg(long, env = "SEGNO_POLLER_HISTORY", default_value = "5m", value_name = "DURATION", value_parser = args::duration)]
    poller_history: Nanos,
    /// Remove a version that has been inactive or drained for so long, if it has no pollers. [default: never]
    #[arg(long, env = "SEGNO_DEPLOYMENT_RETENTION", value_name = "DURATION", value_parser = args::duration)]
    deployment_retention: Option<Nanos>,
    /// Maximum number of worker deployments of a namespace.
    #[arg(long, env = "SEGNO_DEPLOYMENTS_MAX", default_value_t = 100, value_name = "COUNT")]
    deployments_max: usize,
    /// Maximum number of versions of a worker deployment.
    #[arg(long, env = "SEGNO_DEPLOYMENT_VERSIONS_MAX", default_value_t = 100, value_name = "COUNT")]
    deployment_versions_max: usize,
    /// Maximum number of task queues of a version.
    #[arg(long, env = "SEGNO_VERSION_QUEUES_MAX", default_value_t = 100, value_name = "COUNT")]
    version_queues_max: usize,
    /// Maximum number of versions that poll the same task queue.
    #[arg(long, env = "SEGNO_QUEUE_VERSIONS_MAX", default_value_t = 200, value_name = "COUNT")]
    queue_versions_max: usize,
}

impl Versioning {
    /// As the node has them.
    pub fn limits(self) -> DeploymentLimits {
        DeploymentLimits {
            enabled: true,
            deployments_max: self.deployments_max,
            versions_max: self.deployment_versions_max,
            queues_max: self.version_queues_max,
            versions_of_queue_max: self.queue_versions_max,
            drainage_grace: self.drainage_grace,
            poller_ttl: self.poller_history,
            retention: self.deployment_retention.filter(|retention| *retention > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        versioning: Versioning,
    }

    fn limits(flags: &[&str]) -> DeploymentLimits {
        let line = Line::try_parse_from([&["segno"], flags].concat()).expect("flags that exist");
        line.versioning.limits()
    }

    #[test]
    fn defaults_are_those_of_the_node() {
        assert_eq!(limits(&[]), DeploymentLimits::default());
        let set = limits(&["--drainage-grace", "3s", "--deployment-retention", "30d", "--poller-history", "10m"]);
        let second = 1_000_000_000;
        assert_eq!((set.drainage_grace, set.poller_ttl), (3 * second, 600 * second));
        assert_eq!(set.retention, Some(30 * 86_400 * second));
    }
}
