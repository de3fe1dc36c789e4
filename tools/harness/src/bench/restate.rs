//! One durable step on Restate, called through its HTTP ingress: the nearest thing it has to a one-activity workflow.
//!
//! The service is Restate's TypeScript SDK in a Node process of its own (`bench/restate`), as its users run it. The
//! server keeps its defaults, which sync each write. The calls come from threads that keep their connections open; CPU
//! is that of Restate's server alone, without the service. Compare with `one-activity` and with `typescript SDK`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{programs, report::Report};
use crate::{gauge::Gauge, process};

/// Heading of its column.
const NAME: &str = "restate";
/// How long server and service may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest that one run takes new work.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Starts Restate and its service from the given port on, and calls the step.
pub fn measure(port: u16, quick: bool, report: &mut Report) -> Result<()> {
    let folder = programs::installed("restate")?;
    let data = process::fresh_dir("bench/restate")?;
    let (ingress, admin, node, service) = (port, port + 1, port + 2, port + 3);
    let mut command = Command::new(server_binary(&folder)?);
    command.arg("--base-dir").arg(&data).args(["--node-name", "bench"]);
    command.env("RESTATE_INGRESS__BIND_PORT", ingress.to_string());
    command.env("RESTATE_ADMIN__BIND_PORT", admin.to_string());
    command.env("RESTATE_BIND_PORT", node.to_string());
    command.env("RESTATE_BIND_IP", "127.0.0.1");
    command.env("RESTATE_DISABLE_TELEMETRY", "true").env("DO_NOT_TRACK", "1");
    let log = data.with_extension("log");
    let server = programs::start(&mut command, &log)?;
    let mut command = Command::new("node");
    command.arg("service.mjs").arg(service.to_string()).current_dir(&folder);
    let _service = programs::start(&mut command, &log)?;
    let deployment = format!("{{\"uri\": \"http://127.0.0.1:{service}\"}}");
    wait_for(|| Connection::open(admin)?.post("/deployments", &deployment)).context("registering the service")?;
    wait_for(|| Connection::open(ingress)?.post("/bench/one", "\"hello\"")).context("the first call")?;

    let gauge = Gauge::new(server.0.id(), None);
    let counts = if quick { (1_000, 50) } else { (10_000, 1_000) };
    call_all(ingress, counts.0 / 20, 32)?;
    for (count, concurrency) in [(counts.0, 64), (counts.1, 1)] {
        let label = format!("one-activity, {concurrency} at a time");
        let before = gauge.read()?;
        let (latencies, elapsed) = call_all(ingress, count, concurrency)?;
        let cost = gauge.read()?.since(&before);
        let done = latencies.len() as f64;
        let at = |share: f64| latencies[((done - 1.0) * share).round() as usize].as_secs_f64() * 1e3;
        println!("  one step, {concurrency} at a time: {:.0}/s, p50 {:.2} ms", done / elapsed.as_secs_f64(), at(0.5));
        report.add(NAME, &format!("{label}: workflows/s"), done / elapsed.as_secs_f64());
        report.add(NAME, &format!("{label}: p50, ms"), at(0.50));
        report.add(NAME, &format!("{label}: p99, ms"), at(0.99));
        report.add(NAME, &format!("{label}: server CPU, ms/workflow"), cost.cpu_ms / done);
        report.add(NAME, &format!("{label}: written, KiB/workflow"), cost.written_bytes / 1024.0 / done);
    }
    report.add(NAME, "one-activity: peak memory, MiB", gauge.read()?.peak_mib());
    Ok(())
}

/// The package has a binary per platform; the script in front of it would hide the process.
fn server_binary(folder: &std::path::Path) -> Result<std::path::PathBuf> {
    for entry in std::fs::read_dir(folder.join("node_modules/@restatedev"))?.flatten() {
        let binary = entry.path().join("bin/restate-server");
        if binary.is_file() {
            return Ok(binary);
        }
    }
    bail!("no Restate for this platform")
}

fn wait_for(mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(error) if begun.elapsed() > START_TIMEOUT => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Calls the step from so many threads; sorted latencies and the time in all.
fn call_all(port: u16, count: usize, concurrency: usize) -> Result<(Vec<Duration>, Duration)> {
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let caller = || -> Result<Vec<Duration>> {
        let mut connection = Connection::open(port)?;
        let mut latencies = Vec::new();
        while next.fetch_add(1, Ordering::Relaxed) < count && started.elapsed() < TIME_MAX {
            let begun = Instant::now();
            connection.post("/bench/one", "\"hello\"")?;
            latencies.push(begun.elapsed());
        }
        Ok(latencies)
    };
    let mut latencies = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..concurrency).map(|_| scope.spawn(caller)).collect();
        let mut all = Vec::with_capacity(count);
        for caller in callers {
            all.extend(caller.join().map_err(|_| anyhow::anyhow!("a caller panicked"))??);
        }
        Ok::<_, anyhow::Error>(all)
    })?;
    let elapsed = started.elapsed();
    ensure!(!latencies.is_empty(), "no call came to an end");
    latencies.sort_unstable();
    Ok((latencies, elapsed))
}

/// A connection that is kept open, with just enough of HTTP/1.1.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends JSON and reads the answer, which must be a success.
    fn post(&mut self, path: &str, body: &str) -> Result<()> {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        let whole = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        self.0.get_mut().write_all(whole.as_bytes())?;
        let status = self.line()?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse()?,
                Some(("transfer-encoding", value)) => chunked = value.contains("chunked"),
                Some(_) => {}
                None => break,
            }
        }
        let answer = if chunked { self.chunks()? } else { self.bytes(length)? };
        let good = status.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
        ensure!(good, "{status}: {}", String::from_utf8_lossy(&answer));
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.0.read_line(&mut line)? > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let length = usize::from_str_radix(self.line()?.split(';').next().unwrap_or_default().trim(), 16)?;
            all.extend(self.bytes(length)?);
            self.line()?;
            if length == 0 {
                return Ok(all);
            }
        }
    }
}
