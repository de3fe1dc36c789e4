//! Flags that limit connections and calls of clients. All servers have them.

use clap::Args;
use segno_server::ConnectionLimits;

/// Limits of gRPC connections.
#[derive(Args, Clone, Copy, Debug)]
pub struct Connections {
    /// gRPC connections at a time. Fewer if the limit of open files (ulimit -n) is too low for that.
    #[arg(long, env = "SEGNO_MAX_CONNECTIONS", default_value_t = 16_384, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Calls at a time on one connection, waiting polls included. Clients let further calls wait.
    #[arg(long, env = "SEGNO_MAX_STREAMS", default_value_t = 4096, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_streams: u32,
    /// Memory for requests and responses under way on one connection, in MiB. Calls beyond it are refused with
    /// RESOURCE_EXHAUSTED.
    #[arg(long, env = "SEGNO_CONNECTION_MIB", default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    connection_mib: u32,
    /// The same for all connections together. Each may take a quarter of what is free.
    #[arg(long, env = "SEGNO_CONNECTIONS_MIB", default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    connections_mib: u32,
}

impl Connections {
    /// As the server has them.
    pub fn limits(self) -> ConnectionLimits {
        ConnectionLimits {
            connections_max: self.max_connections as usize,
            streams_max: self.max_streams,
            connection_bytes_max: self.connection_mib as usize * 1024 * 1024,
            total_bytes_max: self.connections_mib as usize * 1024 * 1024,
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
        connections: Connections,
    }

    #[test]
    fn the_flags_default_to_what_the_server_defaults_to() {
        let line = Line::try_parse_from(["segno"]).expect("understood");
        assert_eq!(line.connections.limits(), ConnectionLimits::default());
        assert!(Line::try_parse_from(["segno", "--max-streams", "0"]).is_err());
    }
}
