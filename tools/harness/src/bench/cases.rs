//! What is measured and how much of it, in the full benchmark and in the quick one.

use std::time::Duration;

use crate::load::{Load, Workload};

/// One workload on one fresh server: a small run, one ten times as large, and one operation at a time.
#[derive(Clone, Copy)]
pub struct Case {
    /// The workload.
    pub workload: Workload,
    /// Operations of the large run; none means that there is a single run, of the workload's own shape.
    pub many: usize,
    /// Operations one at a time; none for workloads where that means nothing.
    pub serial: usize,
    /// Workflows that are there before anything is measured.
    pub fill: usize,
    /// Whether a tenth of the work is done first, to see how cost grows.
    pub growth: bool,
    /// Operations under way in the small and the large run.
    pub concurrency: usize,
}

/// Limits of a whole benchmark.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Repetitions of each measurement, with alternating servers.
    pub repeats: usize,
    /// A slow server gets through less: no new operation after this.
    pub load_max: Duration,
    /// The same for what is filled in beforehand.
    pub fill_max: Duration,
    /// How long a server is watched doing nothing.
    pub idle: Duration,
    /// Open workflows when restarts are timed.
    pub open: usize,
}

impl Sizes {
    /// The limits.
    pub fn new(quick: bool) -> Self {
        let seconds = Duration::from_secs;
        match quick {
            true => Self { repeats: 1, load_max: seconds(4), fill_max: seconds(8), idle: seconds(2), open: 5_000 },
            false => {
                Self { repeats: 3, load_max: seconds(20), fill_max: seconds(180), idle: seconds(5), open: 100_000 }
            }
        }
    }
}

/// The cases, in the order of the table.
pub fn cases(quick: bool) -> Vec<Case> {
    let usual = |workload, many: usize, serial: usize| Case {
        workload,
        many: if quick { many / 10 } else { many },
        serial: if quick { serial / 10 } else { serial },
        fill: 0,
        growth: true,
        concurrency: 64,
    };
    let single = |workload, many, fill| Case { fill, growth: false, ..usual(workload, many, 0) };
    let filled = |count| if quick { count / 40 } else { count };
    vec![
        usual(Workload::Empty, 20_000, 1_000),
        usual(Workload::OneActivity, 10_000, 1_000),
        usual(Workload::Chain, 2_000, 200),
        usual(Workload::FanOut, 400, 50),
        usual(Workload::Signal, 10_000, 1_000),
        usual(Workload::UpdateRejected, 20_000, 2_000),
        usual(Workload::UpdateAccepted, 20_000, 2_000),
        usual(Workload::Children, 10_000, 500),
        usual(Workload::Operation, 10_000, 500),
        usual(Workload::StartOnly, 20_000, 1_000),
        usual(Workload::Payload1K, 10_000, 1_000),
        usual(Workload::Payload256K, 500, 100),
        Case { serial: 0, ..usual(Workload::Timers, 10_000, 0) },
        Case { serial: 0, ..usual(Workload::Backlog, 50_000, 0) },
        // One run, or its early and late events would not be those of one history.
        Case { concurrency: 1, ..single(Workload::LongHistory, 20_000, 0) },
        single(Workload::Open, 10_000, filled(100_000)),
        single(Workload::Lists, 500, filled(200_000)),
        single(Workload::Heartbeats, 100_000, filled(10_000)),
    ]
}

impl Case {
    /// The load of a run of this case.
    pub fn load(&self, port: u16, count: usize, concurrency: usize, prefix: &str, sizes: &Sizes) -> Load {
        let load = Load {
            fill: self.fill,
            fill_time_max: sizes.fill_max,
            // A long history that is cut short says nothing about its end.
            time_max: if self.workload == Workload::LongHistory { sizes.fill_max } else { sizes.load_max },
            ..Load::new(port, count, concurrency, prefix)
        };
        load.of(self.workload)
    }
}
