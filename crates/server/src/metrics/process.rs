//! Figures of the operating system about this process. Linux only.

use std::fs;

/// Clock ticks in a second, the same on every Linux that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;
/// Bytes of a page where it is not larger: figures of memory are read from a file that has them in kilobytes.
const KIB: f64 = 1024.0;

/// Name, help text, kind and value of what is known.
pub(super) fn read() -> Vec<(&'static str, &'static str, &'static str, f64)> {
    let mut found = Vec::new();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(resident) = kilobytes(&status, "VmRSS:") {
        found.push(("process_resident_memory_bytes", "Resident memory.", "gauge", resident * KIB));
    }
    if let Some(virtual_memory) = kilobytes(&status, "VmSize:") {
        found.push(("process_virtual_memory_bytes", "Virtual memory.", "gauge", virtual_memory * KIB));
    }
    if let Some(threads) = kilobytes(&status, "Threads:") {
        found.push(("process_threads", "Threads.", "gauge", threads));
    }
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(ticks) = cpu_ticks(&stat) {
        found.push(("process_cpu_seconds_total", "CPU time, of user and system.", "counter", ticks / TICKS_PER_SECOND));
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        found.push(("process_open_fds", "Open file descriptors.", "gauge", files.count() as f64));
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok());
    if let Some(limit) = limit {
        found.push(("process_max_fds", "Most file descriptors that may be open.", "gauge", limit));
    }
    found
}

/// A figure of `/proc/self/status`.
fn kilobytes(status: &str, name: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// User and system time of `/proc/self/stat`. The name before them may have spaces and brackets.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found() {
        assert_eq!(kilobytes("VmSize:\t 9 kB\nVmRSS:\t  123 kB\n", "VmRSS:"), Some(123.0));
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0 3 0 1";
        assert_eq!(cpu_ticks(stat), Some(42.0));
        assert_eq!(cpu_ticks(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_known() {
        let names: Vec<_> = read().iter().map(|(name, ..)| *name).collect();
        assert!(names.contains(&"process_resident_memory_bytes") && names.contains(&"process_open_fds"), "{names:?}");
    }
}
