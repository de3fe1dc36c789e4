//! The audit log: who changed what, and who was refused. One JSON object a line.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
};

use serde_json::json;
use tokio::sync::oneshot;
use tonic::Code;

use super::Proof;

/// Lines that wait for the disk. A call that finds no room waits for it, unless nobody knows who made it.
const LINES_MAX: usize = 4096;

/// Characters of a method or a namespace.
const TEXT_MAX: usize = 256;

/// Writes down calls.
pub struct Audit {
    lines: SyncSender<String>,
    /// Told if the thread that writes panics.
    panicked: Option<oneshot::Receiver<()>>,
}

/// A call whose outcome is not known yet. If it never is (the caller went away), that is written down.
pub(crate) struct Entry {
    lines: SyncSender<String>,
    method: String,
    namespace: String,
    caller: Option<(String, Proof)>,
    is_written: bool,
}

impl Audit {
    /// Appends to a file, which only its owner may read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let (lines, received) = sync_channel(LINES_MAX);
        let (tell, panicked) = oneshot::channel();
        std::thread::Builder::new().name("segno-audit".to_owned()).spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| write(file, &received))).is_err() {
                let _ = tell.send(());
            }
        })?;
        Ok(Self { lines, panicked: Some(panicked) })
    }

    /// Done if the thread that writes panics: from then on nothing is written down. For one caller.
    pub(crate) fn watch(&mut self) -> impl Future<Output = ()> + Send + 'static + use<> {
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
    pub(crate) fn entry(&self, method: &str, namespace: &str, caller: Option<(&str, Proof)>) -> Entry {
        Entry {
            lines: self.lines.clone(),
            method: shortened(method),
            namespace: shortened(namespace),
            caller: caller.map(|(name, proof)| (name.to_owned(), proof)),
            is_written: false,
        }
    }
}

impl Entry {
    /// The call ended.
    pub(crate) fn ended(mut self, code: Code) {
        self.write(&format!("{code:?}"));
    }

    fn write(&mut self, outcome: &str) {
        self.is_written = true;
        let caller = self.caller.as_ref().map(|(name, proof)| json!({ "name": name, "proof": proof.name() }));
        let time = jiff::Timestamp::now().to_string();
        let line = json!({
            "time": time, "method": self.method, "namespace": self.namespace, "caller": caller, "outcome": outcome,
        });
        match self.lines.try_send(format!("{line}\n")) {
            Ok(()) => {}
            // Strangers do not make others wait for a slow disk.
            Err(TrySendError::Full(_)) if self.caller.is_none() => {
                tracing::warn!("the audit log is slow: a refused call is left out");
            }
            Err(TrySendError::Full(line)) => {
                let _ = tokio::task::block_in_place(|| self.lines.send(line));
            }
            // The writer is gone, and has said why.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.is_written {
            self.write("Unknown");
        }
    }
}

/// What callers choose is written only in part if it is long.
fn shortened(text: &str) -> String {
    let end = text.char_indices().map(|(start, _)| start).nth(TEXT_MAX).unwrap_or(text.len());
    text[..end].to_owned()
}

fn write(mut file: File, lines: &Receiver<String>) {
    while let Ok(mut text) = lines.recv() {
        // What came meanwhile shares a write.
        text.extend(lines.try_iter().take(LINES_MAX));
        if let Err(error) = file.write_all(text.as_bytes()) {
            tracing::error!(%error, "the audit log cannot be written; entries are lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_lines() {
        let path = std::env::temp_dir().join(format!("segno-audit-{}", std::process::id()));
        let audit = Audit::open(&path).expect("a file");
        audit.entry("StartWorkflowExecution", "n", Some(("ann", Proof::Key))).ended(Code::Ok);
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
}
