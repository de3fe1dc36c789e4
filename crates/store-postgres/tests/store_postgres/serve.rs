//! The whole server on PostgreSQL, through its command line: a start, calls, `kill -9`, a restart of the database, a clean
//! stop. Needs the binary: `SEGNO_BIN`.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use segno_store_postgres::testing::Postgres;

fn binary() -> Command {
    let path = std::env::var_os("SEGNO_BIN").expect("SEGNO_BIN names the server's binary");
    let mut command = Command::new(path);
    command.stdin(Stdio::null());
    command
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts one and waits until it says that it is ready.
    fn start(url: &str) -> Self {
        let (port, http) = (free_port(), free_port());
        let mut command = binary();
        command.args(["serve", "--store", url, "--port", &port.to_string(), "--http-port", &http.to_string()]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("Segno is ready") && line.contains("PostgreSQL"), "{line:?}");
        Self { process, port }
    }

    fn call(&self, arguments: &[&str]) -> Output {
        let mut command = binary();
        command.args(arguments).args(["--address", &format!("127.0.0.1:{}", self.port)]);
        command.output().unwrap()
    }

    /// Calls that must succeed.
    fn must(&self, arguments: &[&str]) -> String {
        let done = self.call(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(done.status.success(), "{arguments:?}: {}{}", text(&done.stdout), text(&done.stderr));
        text(&done.stdout)
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn stop(mut self) {
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }
}

#[test]
#[ignore = "needs the binary: cargo xtask test --only postgres,build,store"]
fn a_server_on_postgresql() {
    let mut postgres = Postgres::start(&[]);
    let database = postgres.database();
    let url = postgres.url(&database);
    let server = Server::start(&url);
    for number in 0..5 {
        let id = format!("w-{number}");
        server.must(&["workflow", "start", "--type", "Order", "--task-queue", "q", "--workflow-id", &id]);
        server.must(&["workflow", "signal", "--workflow-id", &id, "--name", "paid", "--input", "1"]);
    }
    server.must(&["workflow", "terminate", "--workflow-id", "w-4", "--reason", "enough"]);
    let list = server.must(&["workflow", "list"]);
    assert!((0..5).all(|number| list.contains(&format!("w-{number}"))), "{list}");
    assert!(server.must(&["workflow", "count", "--query", "ExecutionStatus = 'Running'"]).contains('4'));

    // A second server of the same name is refused.
    let refused = binary()
        .args(["serve", "--store", &url, "--port", &free_port().to_string(), "--http-port", "0"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(75), "{text}");
    assert!(text.contains("is alive on this database"), "{text}");

    // The database restarts under the server.
    postgres.stop("immediate");
    postgres.resume();
    server.must(&["workflow", "signal", "--workflow-id", "w-0", "--name", "after-restart"]);
    server.kill();

    // What was acknowledged is there, and the next server takes the place of the one that was killed.
    let begun = Instant::now();
    let server = Server::start(&url);
    println!("ready {:?} after a kill", begun.elapsed());
    let history = server.must(&["workflow", "show", "--workflow-id", "w-0"]);
    assert!(history.matches("WorkflowExecutionSignaled").count() >= 2, "{history}");
    server.must(&["workflow", "cancel", "--workflow-id", "w-1"]);
    server.must(&["workflow", "delete", "--workflow-id", "w-4", "--yes"]);
    server.stop();

    // After a clean stop there is no node for whose lease the next start would wait.
    assert_eq!(postgres.psql(&database, "SELECT count(*) FROM segno.nodes").as_deref(), Ok("0"));
    let server = Server::start(&url);
    assert!(server.must(&["workflow", "list"]).contains("w-1"));
    server.stop();
    let left =
        "SELECT (SELECT count(*) FROM segno.outbox), (SELECT count(*) FROM segno.runs WHERE workflow_id = 'w-4')";
    assert_eq!(postgres.psql(&database, left).as_deref(), Ok("0|0"));
}
