//! Settings of a namespace: entries of its data map whose names begin with `segno.`, so that every tool that can change
//! a namespace can change them (`temporal operator namespace update --data segno.update.in-flight-max=500`).

use std::collections::BTreeMap;

use segno_engine::{
    limits::{DISCARD_EVENTS_MAX, Limits, SCRIPT_EVENTS_KEPT, SPECULATIVE_SCHEDULE_TO_START},
    update::UpdateLimits,
    worker_lost::LOST_WORKERS_KEPT,
};

const NANOS_PER_MS: i64 = 1_000_000;

/// The prefix of the server's own names.
const OURS: &str = "segno.";
const IN_FLIGHT: &str = "segno.update.in-flight-max";
const IN_FLIGHT_BYTES: &str = "segno.update.in-flight-bytes-max";
const TOTAL: &str = "segno.update.total-max";
const SPECULATIVE_WAIT: &str = "segno.update.speculative-wait-ms";
const DISCARDED_EVENTS: &str = "segno.update.discarded-events-max";
const STEPS: &str = "segno.flow.steps-max";
const STATE_BYTES: &str = "segno.flow.state-bytes-max";
const EVENTS_KEPT: &str = "segno.flow.history-events-kept";
const CALLS: &str = "segno.limit.calls-per-second";
const CALL_BYTES: &str = "segno.limit.bytes-per-second";
const POLLERS: &str = "segno.limit.pollers";
const OPEN_RUNS: &str = "segno.limit.open-workflows";
const STARTS: &str = "segno.limit.starts-per-second";
const OPERATIONS: &str = "segno.nexus.pending-operations-max";
const LOST_WORKERS: &str = "segno.activity.lost-workers-max";
const REGISTRATIONS: &str = "segno.limit.worker-registrations-per-second";
const KNOWN: [&str; 16] = [
    IN_FLIGHT,
    IN_FLIGHT_BYTES,
    TOTAL,
    SPECULATIVE_WAIT,
    DISCARDED_EVENTS,
    STEPS,
    STATE_BYTES,
    EVENTS_KEPT,
    CALLS,
    CALL_BYTES,
    POLLERS,
    OPEN_RUNS,
    STARTS,
    OPERATIONS,
    LOST_WORKERS,
    REGISTRATIONS,
];

/// Without an end, a speculative task whose offer is lost would never become a normal one.
const SPECULATIVE_WAIT_MS_MAX: u64 = 600_000;
/// The worker gets these events again with each update that it rejects.
const DISCARDED_EVENTS_MAX: u64 = 10_000;

/// The defaults of the language. A test of `segno-scripts` compares them.
const STEPS_DEFAULT: u64 = 5_000_000;
const STATE_BYTES_DEFAULT: u64 = 4 << 20;
/// A turn that never ended would keep its thread, so that scripts always have limits: the largest that can be set.
const STEPS_MAX: u64 = 10_000_000_000;
const STATE_BYTES_MAX: u64 = 64 << 20;
const EVENTS_KEPT_MAX: u64 = 10_000_000;
/// Checkpoints that are closer together would cost more than they are worth.
const EVENTS_KEPT_MIN: u64 = 10;

/// A server can take many more. Ten seconds' worth may come at once.
const REGISTRATIONS_DEFAULT: usize = 1000;

/// The settings of a namespace, or the defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Limits of updates.
    pub updates: UpdateLimits,
    /// Limits of speculative workflow tasks.
    pub speculation: SpeculationLimits,
    /// Limits of scripts.
    pub flows: FlowLimits,
    /// Limits of calls.
    pub calls: CallLimits,
    /// Nexus operations of a workflow that have not ended; zero is no limit, nothing is the server's.
    pub operations: Option<usize>,
    /// Different workers that may be lost while they have an activity before it is paused; zero is no limit, nothing is the
    /// server's.
    pub lost_workers: Option<u64>,
    /// Workers that may register in a second; zero is no limit, nothing is the default.
    registrations: Option<usize>,
}

/// How much may be asked of a namespace; zero is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls.
    pub per_second: usize,
    /// Bytes of requests.
    pub bytes_per_second: usize,
    /// Polls at the same time.
    pub pollers: usize,
    /// Open workflows, beyond which none is started.
    pub open_runs: usize,
    /// Workflows that are started in a second.
    pub starts_per_second: usize,
}

/// The limits of a namespace for speculative workflow tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeculationLimits {
    /// Milliseconds for which one may wait on a normal queue before it becomes a normal task.
    pub wait_ms: u64,
    /// Events that a worker may see again because the task that had them is discarded.
    pub discarded_events: u64,
}

impl Default for SpeculationLimits {
    fn default() -> Self {
        Self {
            wait_ms: (SPECULATIVE_SCHEDULE_TO_START / NANOS_PER_MS) as u64,
            discarded_events: DISCARD_EVENTS_MAX as u64,
        }
    }
}

/// The limits of a namespace for its scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLimits {
    /// Steps for one event.
    pub steps: u64,
    /// Bytes of the stored state.
    pub state_bytes: u64,
    /// Events between two checkpoints; history keeps about twice as many.
    pub history_events_kept: u64,
}

impl Default for FlowLimits {
    fn default() -> Self {
        Self { steps: STEPS_DEFAULT, state_bytes: STATE_BYTES_DEFAULT, history_events_kept: SCRIPT_EVENTS_KEPT as u64 }
    }
}

impl Settings {
    /// Reads the settings among a namespace's data; what is empty holds by default. Says what is wrong and what would
    /// be right.
    pub fn read(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut settings = Self::default();
        for (name, value) in data.iter().filter(|(name, value)| name.starts_with(OURS) && !value.is_empty()) {
            let bounded = match name.as_str() {
                SPECULATIVE_WAIT => Some((&mut settings.speculation.wait_ms, 1, SPECULATIVE_WAIT_MS_MAX)),
                DISCARDED_EVENTS => Some((&mut settings.speculation.discarded_events, 0, DISCARDED_EVENTS_MAX)),
                STEPS => Some((&mut settings.flows.steps, 1, STEPS_MAX)),
                STATE_BYTES => Some((&mut settings.flows.state_bytes, 1, STATE_BYTES_MAX)),
                EVENTS_KEPT => Some((&mut settings.flows.history_events_kept, EVENTS_KEPT_MIN, EVENTS_KEPT_MAX)),
                LOST_WORKERS => Some((settings.lost_workers.insert(0), 0, LOST_WORKERS_KEPT as u64)),
                _ => None,
            };
            if let Some((limit, least, most)) = bounded {
                *limit = value.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(|| {
                    format!("{name} must be a whole number from {least} to {most}, or empty for the default.")
                })?;
                continue;
            }
            let limit = match name.as_str() {
                OPERATIONS => settings.operations.insert(0),
                REGISTRATIONS => settings.registrations.insert(0),
                IN_FLIGHT => &mut settings.updates.in_flight,
                IN_FLIGHT_BYTES => &mut settings.updates.in_flight_bytes,
                TOTAL => &mut settings.updates.total,
                CALLS => &mut settings.calls.per_second,
                CALL_BYTES => &mut settings.calls.bytes_per_second,
                POLLERS => &mut settings.calls.pollers,
                OPEN_RUNS => &mut settings.calls.open_runs,
                STARTS => &mut settings.calls.starts_per_second,
                _ => return Err(format!("{name} is not a setting. Settings are {}.", KNOWN.join(", "))),
            };
            *limit = value
                .parse()
                .map_err(|_| format!("{name} must be a whole number, 0 for no limit, or empty for the default."))?;
        }
        Ok(settings)
    }

    /// Workers that may register in a second; zero is no limit.
    pub fn registrations_per_second(&self) -> usize {
        self.registrations.unwrap_or(REGISTRATIONS_DEFAULT)
    }

    /// The limits of a run of the namespace.
    pub fn limits(&self, of_server: Limits) -> Limits {
        let pending_operations = match self.operations {
            None => of_server.pending_operations,
            Some(0) => usize::MAX,
            Some(most) => most,
        };
        let lost_workers = self.lost_workers.map_or(of_server.lost_workers, |most| most as usize);
        Limits {
            pending_operations,
            lost_workers,
            updates_suggest: self.updates.suggest(),
            speculative_schedule_to_start: self.speculation.wait_ms as i64 * NANOS_PER_MS,
            discard_events: self.speculation.discarded_events as i64,
            script_events_kept: self.flows.history_events_kept as i64,
            ..of_server
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(&entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn other_data_means_nothing() {
        assert_eq!(read(&[("team", "blue"), ("segno", "x")]), Ok(Settings::default()));
    }

    #[test]
    fn settings_are_read_and_empty_means_default() {
        let set = read(&[(IN_FLIGHT, "7"), (IN_FLIGHT_BYTES, "1000"), (TOTAL, "")]).expect("they are right");
        let total = UpdateLimits::default().total;
        assert_eq!(set.updates, UpdateLimits { in_flight: 7, in_flight_bytes: 1000, total });
    }

    #[test]
    fn operations_have_the_limit_of_the_server_unless_the_namespace_has_one() {
        let of_server = Limits { pending_operations: 30, ..Default::default() };
        for (value, most) in [("", 30), ("7", 7), ("0", usize::MAX)] {
            let set = read(&[(OPERATIONS, value)]).expect("it is right");
            assert_eq!(set.limits(of_server).pending_operations, most, "{value:?}");
        }
    }

    #[test]
    fn speculative_tasks_wait_and_are_discarded_as_the_namespace_says() {
        let of_server = Limits::default();
        assert_eq!(Settings::default().limits(of_server), of_server);
        let set =
            read(&[(SPECULATIVE_WAIT, "250"), (DISCARDED_EVENTS, "0")]).expect("they are right").limits(of_server);
        assert_eq!((set.speculative_schedule_to_start, set.discard_events), (250_000_000, 0));
        for (name, value) in [(SPECULATIVE_WAIT, "0"), (SPECULATIVE_WAIT, "600001"), (DISCARDED_EVENTS, "10001")] {
            assert!(read(&[(name, value)]).is_err_and(|text| text.contains(" from ")), "{name}={value}");
        }
    }

    #[test]
    fn lost_workers_have_the_limit_of_the_server_unless_the_namespace_has_one() {
        let of_server = Limits::default();
        for (value, most) in [("", 3), ("1", 1), ("0", 0), ("100", 100)] {
            let set = read(&[(LOST_WORKERS, value)]).expect("it is right");
            assert_eq!(set.limits(of_server).lost_workers, most, "{value:?}");
        }
        assert!(read(&[(LOST_WORKERS, "101")]).is_err_and(|text| text.contains("from 0 to 100")));
    }

    #[test]
    fn registrations_are_limited_unless_the_limit_is_zero() {
        for (value, most) in [("", 1000), ("5", 5), ("0", 0)] {
            assert_eq!(read(&[(REGISTRATIONS, value)]).map(|set| set.registrations_per_second()), Ok(most));
        }
    }

    #[test]
    fn scripts_always_have_limits() {
        let set = read(&[(STEPS, "1000"), (STATE_BYTES, "2000"), (EVENTS_KEPT, "30")]).expect("they are right");
        assert_eq!(set.flows, FlowLimits { steps: 1000, state_bytes: 2000, history_events_kept: 30 });
        for (name, value) in [(STEPS, "0"), (STATE_BYTES, "67108865"), (EVENTS_KEPT, "9"), (EVENTS_KEPT, "many")] {
            assert!(read(&[(name, value)]).is_err_and(|text| text.contains(" from ")), "{name}={value}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert!(read(&[(TOTAL, "-1")]).is_err_and(|text| text.starts_with("segno.update.total-max must be")));
        assert!(read(&[("segno.updates", "1")]).is_err_and(|text| text.contains(TOTAL)));
    }
}
