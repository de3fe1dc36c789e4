//! The audit log of changes and refused calls: one JSON object per line.
//!
//! While the log cannot be written (the disk is full), lines wait in memory and are written later; beyond a bound they
//! are lost, and counted. The node's health is degraded meanwhile. A log that is *required* loses no line: an audited
//! call is acknowledged when its line is written, and while lines wait audited calls are refused before they change
//! anything.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use segno_node::{Health, Metrics};
use serde_json::json;
use tokio::sync::oneshot;
use tonic::{Code, Status};

use super::Proof;

/// Lines on their way to the thread that writes. A call that finds no room waits for it, unless its caller is unknown.
const LINES_MAX: usize = 4096;
/// Lines that wait while the log cannot be written.
const UNWRITTEN_MAX: usize = 16 * 1024;
/// How often it is tried whether the log can be written again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long a call waits for its line.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Characters of a method or a namespace.
const TEXT_MAX: usize = 256;
/// The name of the cause in the node's health.
const CAUSE: &str = "audit log";

/// Writes down calls.
pub struct Audit {
    log: Arc<Log>,
    /// Completes if the thread that writes panics.
    panicked: Option<oneshot::Receiver<()>>,
}

/// The state that calls and the writing thread share.
struct Log {
    lines: SyncSender<Line>,
    /// Nothing may be changed that is not written down.
    is_required: bool,
    status: Arc<LogStatus>,
}

/// Whether the log can be written.
#[derive(Default)]
struct LogStatus {
    is_failing: AtomicBool,
    /// Where that is reported, once there is a node.
    reported: OnceLock<(Arc<Health>, Arc<Metrics>)>,
}

/// A line for the log.
struct Line {
    text: String,
    /// Receives whether it is written.
    written: Option<SyncSender<bool>>,
}

/// A call whose outcome is not known yet. If it never is (the caller went away), that is written down.
pub struct Entry {
    log: Arc<Log>,
    method: String,
    namespace: String,
    caller: Option<(String, Proof)>,
    is_written: bool,
}

impl Audit {
    /// Appends to a file, which only its owner may read.
    pub fn open(path: &Path, is_required: bool) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Self::start(file, is_required)
    }

    fn start(sink: impl Sink, is_required: bool) -> io::Result<Self> {
        let (lines, received) = sync_channel(LINES_MAX);
        let (tell, panicked) = oneshot::channel();
        let log = Arc::new(Log { lines, is_required, status: Arc::default() });
        let status = log.status.clone();
        std::thread::Builder::new().name("segno-audit".to_owned()).spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| write(sink, &received, &status))).is_err() {
                let _ = tell.send(());
            }
        })?;
        Ok(Self { log, panicked: Some(panicked) })
    }

    /// Reports to a node whether the log can be written.
    pub fn report_to(&self, health: Arc<Health>, metrics: Arc<Metrics>) {
        let _ = self.log.status.reported.set((health, metrics));
    }

    /// Refuses a change if it could not be written down and must be.
    pub fn check(&self) -> Result<(), Status> {
        match self.log.is_required && self.log.status.is_failing.load(Ordering::Acquire) {
            true => Err(Status::unavailable(
                "nothing is changed: the audit log cannot be written, and this server requires it (--audit-required). An \
                 operator has to make room for it; please retry then",
            )),
            false => Ok(()),
        }
    }

    /// Done if the thread that writes panics: from then on nothing is written down. For one caller.
    pub fn watch(&mut self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let panicked = self.panicked.take();
        async move {
            let told = match panicked {
                Some(panicked) => panicked.await.is_ok(),
                None => false,
            };
            if !told {
                std::future::pending::<()>().await;
            }
        }
    }

    /// A call that was let in or refused.
    pub fn entry(&self, method: &str, namespace: &str, caller: Option<(&str, Proof)>) -> Entry {
        Entry {
            log: self.log.clone(),
            method: shortened(method),
            namespace: shortened(namespace),
            caller: caller.map(|(name, proof)| (name.to_owned(), proof)),
            is_written: false,
        }
    }
}

impl Entry {
    /// The call ended. Where the log is required, a change may be acknowledged only if this is `Ok`.
    pub fn ended(mut self, code: Code) -> Result<(), Status> {
        if !(self.log.is_required && self.caller.is_some() && code == Code::Ok) {
            self.write(&format!("{code:?}"), None);
            return Ok(());
        }
        let (written, is_written) = sync_channel(1);
        self.write(&format!("{code:?}"), Some(written));
        match tokio::task::block_in_place(|| is_written.recv_timeout(WRITE_TIMEOUT)) {
            Ok(true) => Ok(()),
            _ => Err(Status::unavailable(
                "the change was made, but the audit log that this server requires (--audit-required) cannot be written; the \
                 entry is written when it can",
            )),
        }
    }

    fn write(&mut self, outcome: &str, written: Option<SyncSender<bool>>) {
        self.is_written = true;
        let caller = self.caller.as_ref().map(|(name, proof)| json!({ "name": name, "proof": proof.name() }));
        let time = jiff::Timestamp::now().to_string();
        let line = json!({
            "time": time, "method": self.method, "namespace": self.namespace, "caller": caller, "outcome": outcome,
        });
        match self.log.lines.try_send(Line { text: format!("{line}\n"), written }) {
            Ok(()) => {}
            // Strangers do not make others wait for a slow disk.
            Err(TrySendError::Full(_)) if self.caller.is_none() => {
                tracing::warn!("the audit log is slow: a refused call is left out");
            }
            Err(TrySendError::Full(line)) => {
                let _ = tokio::task::block_in_place(|| self.log.lines.send(line));
            }
            // The writer is gone, and has said why.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.is_written {
            self.write("Unknown", None);
        }
    }
}

/// Shortens a text that the caller chose.
fn shortened(text: &str) -> String {
    let end = text.char_indices().map(|(start, _)| start).nth(TEXT_MAX).unwrap_or(text.len());
    text[..end].to_owned()
}

/// Where lines go.
trait Sink: Send + 'static {
    /// Appends all of a text or, as far as that is possible, nothing of it.
    fn append(&mut self, text: &[u8]) -> io::Result<()>;
}

impl Sink for File {
    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let length = self.metadata()?.len();
        self.write_all(text).inspect_err(|_| {
            // Part of it may be there. What is no file has no length.
            let _ = self.set_len(length);
        })
    }
}

fn write(mut sink: impl Sink, lines: &Receiver<Line>, status: &LogStatus) {
    let mut unwritten: Vec<Line> = Vec::new();
    loop {
        match unwritten.is_empty() {
            true => match lines.recv() {
                Ok(line) => unwritten.push(line),
                Err(_) => return,
            },
            false => match lines.recv_timeout(RETRY_INTERVAL) {
                Ok(line) => unwritten.push(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    status.lost(unwritten.len());
                    return;
                }
            },
        }
        // What came meanwhile shares a write.
        unwritten.extend(lines.try_iter().take(LINES_MAX));
        let text: String = unwritten.iter().map(|line| line.text.as_str()).collect();
        let result = sink.append(text.as_bytes());
        status.wrote(&result);
        for told in unwritten.iter_mut().filter_map(|line| line.written.take()) {
            let _ = told.try_send(result.is_ok());
        }
        match result {
            Ok(()) => unwritten.clear(),
            Err(_) => {
                status.lost(unwritten.len().saturating_sub(UNWRITTEN_MAX));
                unwritten.truncate(UNWRITTEN_MAX);
            }
        }
    }
}

impl LogStatus {
    fn wrote(&self, result: &io::Result<()>) {
        let was_failing = self.is_failing.swap(result.is_err(), Ordering::AcqRel);
        let health = self.reported.get().map(|(health, _)| health);
        match result {
            Ok(()) => health.into_iter().for_each(|health| health.recover(CAUSE)),
            Err(error) => {
                if !was_failing {
                    tracing::error!(%error, "the audit log cannot be written; entries wait in memory");
                }
                health.into_iter().for_each(|health| health.degrade(CAUSE, &error.to_string()));
            }
        }
    }

    fn lost(&self, lines: usize) {
        if lines == 0 {
            return;
        }
        if let Some((_, metrics)) = self.reported.get() {
            metrics.audit_lines_lost.fetch_add(lines as u64, Ordering::Relaxed);
        }
        tracing::error!(lines, "entries of the audit log are lost");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_lines() {
        let path = std::env::temp_dir().join(format!("segno-audit-{}", std::process::id()));
        let audit = Audit::open(&path, false).expect("a file");
        audit.entry("StartWorkflowExecution", "n", Some(("ann", Proof::Key))).ended(Code::Ok).expect("not required");
        drop(audit.entry("TerminateWorkflowExecution", "n", None));
        let written = || std::fs::read_to_string(&path).unwrap_or_default();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while written().lines().count() < 2 && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let lines: Vec<serde_json::Value> =
            written().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines[0]["caller"], json!({ "name": "ann", "proof": "key" }));
        assert_eq!(lines[0]["outcome"], "Ok");
        assert_eq!((&lines[1]["outcome"], &lines[1]["caller"]), (&json!("Unknown"), &json!(null)));
        std::fs::remove_file(&path).expect("removed");
    }

    /// A disk that is full while it is told so. Keeps what was written.
    #[derive(Clone, Default)]
    struct Disk {
        is_full: Arc<AtomicBool>,
        text: Arc<std::sync::Mutex<String>>,
    }

    impl Disk {
        fn lines(&self) -> usize {
            self.text.lock().expect("not poisoned").lines().count()
        }
    }

    impl Sink for Disk {
        fn append(&mut self, text: &[u8]) -> io::Result<()> {
            if self.is_full.load(Ordering::Acquire) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.text.lock().expect("not poisoned").push_str(std::str::from_utf8(text).expect("UTF-8"));
            Ok(())
        }
    }

    fn until(done: impl Fn() -> bool) {
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while !done() {
            assert!(std::time::Instant::now() < end, "it takes too long");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn change(audit: &Audit) -> Result<(), Status> {
        audit.check()?;
        audit.entry("StartWorkflowExecution", "n", Some(("ann", Proof::Key))).ended(Code::Ok)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_full_disk_degrades_health_and_loses_only_what_is_too_much() {
        let (disk, health, metrics) = (Disk::default(), Arc::new(Health::default()), Arc::new(Metrics::default()));
        let audit = Audit::start(disk.clone(), false).expect("a thread");
        audit.report_to(health.clone(), metrics.clone());
        disk.is_full.store(true, Ordering::Release);
        for _ in 0..UNWRITTEN_MAX + 100 {
            change(&audit).expect("it is not required");
        }
        until(|| metrics.audit_lines_lost.load(Ordering::Relaxed) == 100);
        assert!(health.degraded().is_some_and(|why| why.starts_with("audit log: ")));
        disk.is_full.store(false, Ordering::Release);
        until(|| disk.lines() == UNWRITTEN_MAX);
        until(|| health.degraded().is_none());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_required_log_has_every_change_and_refuses_what_it_cannot_have() {
        let disk = Disk::default();
        let audit = Audit::start(disk.clone(), true).expect("a thread");
        for written in 1..=10 {
            change(&audit).expect("there is room");
            assert_eq!(disk.lines(), written, "the line is written before the change is acknowledged");
        }
        disk.is_full.store(true, Ordering::Release);
        assert_eq!(change(&audit).expect_err("not acknowledged").code(), Code::Unavailable);
        for _ in 0..100 {
            assert!(change(&audit).expect_err("refused").message().starts_with("nothing is changed"));
        }
        disk.is_full.store(false, Ordering::Release);
        until(|| audit.check().is_ok());
        change(&audit).expect("there is room again");
        assert_eq!(disk.lines(), 12, "the change that was made is there, those that were refused are not");
    }

    #[test]
    fn of_a_text_that_does_not_fit_nothing_is_written() {
        let path = std::env::temp_dir().join(format!("segno-audit-part-{}", std::process::id()));
        let mut file = OpenOptions::new().append(true).create(true).open(&path).expect("a file");
        file.append(b"one\n").expect("there is room");
        file.append(b"two\n").expect("there is room");
        assert_eq!(std::fs::read(&path).expect("a file"), b"one\ntwo\n");
        let mut full = OpenOptions::new().append(true).open("/dev/full").expect("a device");
        assert!(full.append(b"three\n").is_err());
        std::fs::remove_file(&path).expect("removed");
    }
}
