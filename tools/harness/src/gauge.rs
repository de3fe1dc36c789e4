//! What a server costs: its CPU, memory and writes as `/proc` has them, and its own counters from its metrics page.
//!
//! Readings are taken before and after a piece of work; their difference is a [`Cost`]. The server may be a child of
//! ours or any process that listens on a port of this machine.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};

/// Clock ticks per second of `/proc/<pid>/stat`; fixed in the kernel's interface on every Linux that matters.
const TICKS_PER_SECOND: f64 = 100.0;
/// Most that two ways to read CPU time differ by when no thread has ended in between.
const CPU_DIFFERENCE_MS_MAX: f64 = 40.0;

/// A process to read, and the port of its metrics page when it is Segno.
#[derive(Clone)]
pub struct Gauge {
    pid: u32,
    http_port: Option<u16>,
}

/// Counters at one moment; all but the peak only ever grow.
#[derive(Clone, Copy)]
pub struct Reading {
    cpu_ms: f64,
    living_cpu_ms: f64,
    commits: Option<f64>,
    syncs: Option<f64>,
    committed_bytes: Option<f64>,
    written_bytes: f64,
    peak_mib: f64,
}

/// What a piece of work cost its server.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// CPU, user and system.
    pub cpu_ms: f64,
    /// Durable commits, of Segno only.
    pub commits: Option<f64>,
    /// Syncs of its files, of Segno only.
    pub syncs: Option<f64>,
    /// Bytes of history and state in those commits, of Segno only.
    pub committed_bytes: Option<f64>,
    /// Bytes given to the disk.
    pub written_bytes: f64,
    /// Most memory since the server was started.
    pub peak_mib: f64,
}

impl Cost {
    /// Bytes given to the disk by bytes of history and state that were committed.
    pub fn amplification(&self) -> Option<f64> {
        self.committed_bytes.filter(|bytes| *bytes > 0.0).map(|bytes| self.written_bytes / bytes)
    }
}

impl Reading {
    /// Most memory since the server was started.
    pub fn peak_mib(&self) -> f64 {
        self.peak_mib
    }

    /// The cost of what happened since an earlier reading.
    pub fn since(&self, before: &Self) -> Cost {
        let both = |to: Option<f64>, from: Option<f64>| to.zip(from).map(|(to, from)| to - from);
        // Nanoseconds of living threads are finer than ticks, and wrong as soon as a thread has ended.
        let (ticks, living) = (self.cpu_ms - before.cpu_ms, self.living_cpu_ms - before.living_cpu_ms);
        Cost {
            cpu_ms: if (ticks - living).abs() <= CPU_DIFFERENCE_MS_MAX { living } else { ticks },
            commits: both(self.commits, before.commits),
            syncs: both(self.syncs, before.syncs),
            committed_bytes: both(self.committed_bytes, before.committed_bytes),
            written_bytes: self.written_bytes - before.written_bytes,
            peak_mib: self.peak_mib,
        }
    }
}

impl Gauge {
    /// Reads the given process.
    pub fn new(pid: u32, http_port: Option<u16>) -> Self {
        Self { pid, http_port }
    }

    /// Finds the process that listens on a port of this machine.
    pub fn of_listener(port: u16, http_port: Option<u16>) -> Result<Self> {
        let pid = listener(port).with_context(|| format!("no process of ours listens on port {port}"))?;
        Ok(Self::new(pid, http_port))
    }

    /// All counters now.
    pub fn read(&self) -> Result<Reading> {
        let io = self.proc("io").unwrap_or_default();
        Ok(Reading {
            cpu_ms: self.cpu_ms()?,
            living_cpu_ms: self.living()?.0 as f64 / 1e6,
            commits: self.metric("segno_commits_total"),
            syncs: self.metric("segno_syncs_total"),
            committed_bytes: self.metric("segno_committed_bytes_total"),
            written_bytes: field(&io, "write_bytes:").unwrap_or(f64::NAN),
            peak_mib: field(&self.proc("status")?, "VmHWM:").context("no VmHWM")? / 1024.0,
        })
    }

    fn proc(&self, file: &str) -> Result<String> {
        fs::read_to_string(format!("/proc/{}/{file}", self.pid)).context("the server is gone")
    }

    /// CPU time used so far, user and system, in milliseconds (in steps of 10).
    pub fn cpu_ms(&self) -> Result<f64> {
        let stat = self.proc("stat")?;
        // The second field is the name in parentheses and may hold anything; utime and stime are 14 and 15.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
        let both = ticks(11).zip(ticks(12)).ok_or_else(|| anyhow!("cannot read /proc/<pid>/stat"))?;
        Ok((both.0 + both.1) * 1_000.0 / TICKS_PER_SECOND)
    }

    /// CPU nanoseconds of all living threads and how often they went to sleep: fine enough for an idle server.
    pub fn living(&self) -> Result<(u64, u64)> {
        let (mut nanos, mut sleeps) = (0, 0);
        for task in fs::read_dir(format!("/proc/{}/task", self.pid))? {
            let path = task?.path();
            let schedstat = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            nanos += schedstat.split(' ').next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            sleeps += field(&status, "voluntary_ctxt_switches:").unwrap_or(0.0) as u64;
        }
        Ok((nanos, sleeps))
    }

    /// Resident memory in MiB.
    pub fn rss_mib(&self) -> Result<f64> {
        Ok(field(&self.proc("status")?, "VmRSS:").context("no VmRSS")? / 1024.0)
    }

    /// A counter of Segno's metrics page, summed over labels; none when there is no such counter.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let page = http_get(self.http_port?, "/metrics").ok()?;
        let mut values = page.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            rest.starts_with([' ', '{']).then(|| rest.split_whitespace().last()?.parse::<f64>().ok())?
        });
        values.next().map(|first| first + values.sum::<f64>())
    }
}

/// The process that listens on a port: the socket by the kernel's table, its owner by the open files of processes.
fn listener(port: u16) -> Option<u32> {
    let suffix = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<String> = tables
        .iter()
        .flat_map(|table| table.lines())
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields.len() > 9 && fields[1].ends_with(&suffix) && fields[3] == "0A")
        .map(|fields| format!("socket:[{}]", fields[9]))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    pids.find(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = open.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
    })
}

/// The first number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

fn http_get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_and_read() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = socket.local_addr().expect("bound").port();
        assert_eq!(listener(port), Some(std::process::id()));
        let gauge = Gauge::of_listener(port, None).expect("found");
        let reading = gauge.read().expect("readable");
        assert!(reading.peak_mib > 0.0 && reading.commits.is_none());
        assert!(reading.since(&reading).cpu_ms == 0.0);
    }
}
