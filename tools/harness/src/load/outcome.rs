//! What a measured piece of work came to: latencies, wall time, errors, and what it cost the server.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use crate::gauge::Cost;

/// One measured piece of work.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was measured, when a workload measures several things; else empty.
    pub name: String,
    /// What one operation is: `workflow`, `update`, `page`.
    pub unit: &'static str,
    /// Wall time from the first operation to the end of the last.
    pub elapsed: Duration,
    /// How long each operation took, sorted.
    pub latencies: Vec<Duration>,
    /// Calls that failed, by what the server said.
    pub errors: BTreeMap<String, usize>,
    /// What it cost the server, when there is a process to read.
    pub cost: Option<Cost>,
    /// Further readings of the workload's own.
    pub extras: Vec<(String, f64)>,
}

impl Outcome {
    /// Several operations.
    pub fn units(&self) -> String {
        match self.unit.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{}s", self.unit),
        }
    }

    /// Operations that came to their end.
    pub fn count(&self) -> usize {
        self.latencies.len()
    }

    /// Finished operations per second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that the given share of operations stayed under, in milliseconds.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.latencies.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1_000.0)
    }

    /// What one operation cost, of a total.
    pub fn each(&self, total: f64) -> f64 {
        total / self.latencies.len() as f64
    }

    /// One line for a person, and one more when the cost is known.
    pub fn line(&self) -> String {
        let errors: usize = self.errors.values().sum();
        let mut text = format!(
            "{}{} {} in {:.2} s: {:.0}/s, p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, {errors} errors",
            if self.name.is_empty() { String::new() } else { format!("{}: ", self.name) },
            self.latencies.len(),
            self.units(),
            self.elapsed.as_secs_f64(),
            self.rate(),
            self.percentile_ms(0.50),
            self.percentile_ms(0.90),
            self.percentile_ms(0.99),
        );
        if let Some(cost) = &self.cost {
            // Writing into a string cannot fail.
            let _ = write!(text, "\n  per {}: CPU {:.3} ms", self.unit, self.each(cost.cpu_ms));
            if let Some((commits, syncs)) = cost.commits.zip(cost.syncs) {
                let _ = write!(text, ", commits {:.4}, syncs {:.4}", self.each(commits), self.each(syncs));
            }
            let written = self.each(cost.written_bytes) / 1024.0;
            let _ = write!(text, ", written {written:.2} KiB");
            if let Some(times) = cost.amplification() {
                let _ = write!(text, " ({times:.1} times what was committed)");
            }
            let _ = write!(text, "; peak memory {:.0} MiB", cost.peak_mib);
        }
        for (name, value) in &self.extras {
            let _ = write!(text, "\n  {name}: {value:.3}");
        }
        text
    }
}
