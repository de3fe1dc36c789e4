//! `segno <port> [--enable-time-skipping]`: the command line of Temporal's test server.
//!
//! The time-skipping test environments of SDKs start a server with exactly these arguments, so this binary can serve as
//! their test server. Time skipping begins locked; SDKs unlock it while they wait for a result.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::bail;
use segno_node::{HttpSettings, NodeOptions};
use segno_server::{ConnectionLimits, SecurityOptions, ServerOptions};

use crate::{
    exit::Usage,
    logs,
    running::{Data, Plan, TimeSkippingMode},
    setup::Setup,
};

const ENABLED: &str = "--enable-time-skipping";

/// A server in memory that skips time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestServer {
    port: u16,
    skipping: TimeSkippingMode,
}

/// The test server, if the arguments are of its form: they begin with a number.
pub fn asked_for(mut arguments: impl Iterator<Item = String>) -> Option<anyhow::Result<TestServer>> {
    let port = arguments.next()?;
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let flags: Vec<String> = arguments.collect();
    Some(read(&port, &flags))
}

fn read(port: &str, flags: &[String]) -> anyhow::Result<TestServer> {
    let Ok(port) = port.parse() else { bail!(Usage(format!("{port} is no port: ports go up to 65535"))) };
    match flags {
        [] => Ok(TestServer { port, skipping: TimeSkippingMode::Locked }),
        [flag] if flag.eq_ignore_ascii_case(ENABLED) => Ok(TestServer { port, skipping: TimeSkippingMode::Unlocked }),
        [flag, ..] => {
            bail!(Usage(format!("a port alone starts a test server, which knows only the flag {ENABLED}, not {flag}")))
        }
    }
}

impl TestServer {
    /// Runs the server until it is told to stop.
    pub fn run(self) -> anyhow::Result<()> {
        logs::start(logs::Format::Human, "warn")?;
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let plan = Plan {
            listen: ServerOptions {
                security: SecurityOptions::default(),
                grpc: SocketAddr::new(ip, self.port),
                http: SocketAddr::new(ip, 0),
                limits: ConnectionLimits::default(),
                traces: None,
            },
            data: Data::InMemory,
            discard_damaged_log: false,
            node: NodeOptions::default(),
            http: HttpSettings::default(),
            skipping: self.skipping,
            setup: Setup { namespaces: Vec::new(), search_attributes: Vec::new() },
        };
        plan.run()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(line: &str) -> Option<Result<TestServer, String>> {
        let found = asked_for(line.split_whitespace().map(str::to_owned))?;
        Some(found.map_err(|error| error.to_string()))
    }

    #[test]
    fn a_port_alone_is_the_test_server() {
        assert_eq!(requested("7233"), Some(Ok(TestServer { port: 7233, skipping: TimeSkippingMode::Locked })));
        let unlocked = TestServer { port: 7233, skipping: TimeSkippingMode::Unlocked };
        assert_eq!(requested("7233 --enable-time-skipping"), Some(Ok(unlocked)));
        assert_eq!(requested("7233 --Enable-Time-Skipping"), Some(Ok(unlocked)));
    }

    #[test]
    fn anything_else_is_for_the_usual_commands() {
        assert_eq!(requested(""), None);
        assert_eq!(requested("serve"), None);
        assert_eq!(requested("--version 7"), None);
    }

    #[test]
    fn a_wrong_port_or_flag_is_named() {
        assert!(requested("70000").is_some_and(|found| found.is_err_and(|error| error.contains("70000"))));
        assert!(requested("7233 --fast").is_some_and(|found| found.is_err_and(|error| error.contains("--fast"))));
    }
}
