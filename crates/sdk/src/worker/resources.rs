//! Memory and CPU usage of the machine, on Linux.

use std::time::{Duration, Instant};

/// Shares in use, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shares {
    pub memory: f64,
    pub cpu: f64,
}

/// Reads the machine's usage, at most ten times a second.
#[derive(Default)]
pub(crate) struct Usage {
    last: Option<(Instant, Option<Shares>)>,
    /// Ticks of all processors, and those without work among them.
    ticks: Option<(u64, u64)>,
}

impl Usage {
    /// The share in use now. `None`: this machine has no figures.
    pub(crate) fn now(&mut self) -> Option<Shares> {
        if let Some((at, shares)) = self.last
            && at.elapsed() < Duration::from_millis(100)
        {
            return shares;
        }
        let shares = self.read();
        self.last = Some((Instant::now(), shares));
        shares
    }

    fn read(&mut self) -> Option<Shares> {
        let memory = memory(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
        let ticks = ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
        let (total, idle) = match self.ticks.replace(ticks) {
            Some((total, idle)) => (ticks.0.saturating_sub(total), ticks.1.saturating_sub(idle)),
            // The first time there is only the average since the machine was started.
            None => ticks,
        };
        let cpu = if total == 0 { 0.0 } else { 1.0 - idle as f64 / total as f64 };
        Some(Shares { memory, cpu })
    }
}

fn memory(meminfo: &str) -> Option<f64> {
    let value = |name: &str| -> Option<f64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let (total, available) = (value("MemTotal:")?, value("MemAvailable:")?);
    (total > 0.0).then(|| 1.0 - available / total)
}

fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let values: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // user nice system idle iowait ..
    (values.len() >= 5).then(|| (values.iter().take(8).sum(), values[3] + values[4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_linux_are_read() {
        let meminfo = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    4000 kB\n";
        assert_eq!(memory(meminfo), Some(0.75));
        let stat = "cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(ticks(stat), Some((100, 80)));
        assert_eq!((memory("nothing"), ticks("nothing")), (None, None));
    }
}
