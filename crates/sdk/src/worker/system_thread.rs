//! What the operating system tells about a thread: whether it sleeps. Only Linux does, in `/proc`; elsewhere nothing is known.

use std::path::{Path, PathBuf};

/// The numbers of the system calls `nanosleep` and `clock_nanosleep`.
const SLEEP_CALLS: &[&str] = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
    &["35", "230"]
} else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
    &["101", "115"]
} else {
    &[]
};

/// A thread of this process.
pub(super) struct SystemThread {
    /// The file that has the system call in which the thread is.
    call: PathBuf,
}

impl SystemThread {
    /// The thread that calls this; `None` where there is no `/proc`.
    pub fn current() -> Option<Self> {
        let thread = std::fs::read_link("/proc/thread-self").ok()?;
        Some(Self { call: Path::new("/proc").join(thread).join("syscall") })
    }

    /// Whether it is in a call to sleep now.
    pub fn sleeps(&self) -> bool {
        let call = std::fs::read_to_string(&self.call).unwrap_or_default();
        call.split_whitespace().next().is_some_and(|number| SLEEP_CALLS.contains(&number))
    }
}
