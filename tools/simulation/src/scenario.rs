//! What a seed contains: workflows and what they do, clients and what they ask, faults and when. A scenario is data, so that a
//! failing one can be made smaller by leaving out parts ([`Scenario::without`]).

use std::{collections::BTreeSet, fmt};

use crate::{Millis, disk::Behaviour, random::Random};

/// How long faults happen.
pub const DURATION: Millis = 60_000;
/// After the last fault, what can progress must have come to its end within this time.
pub const SETTLE_MAX: Millis = 120_000;

/// A step of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Waits for a timer.
    Timer(Millis),
    /// Executes an activity.
    Activity(ActivityPlan),
    /// Executes an activity beside a timer, and waits for both.
    Both(Millis, ActivityPlan),
    /// Waits for so many signals of the run, but not longer than this.
    Signals(usize, Millis),
    /// Executes another plan as a child.
    Child(usize),
    /// Sends a signal to the workflow of another plan.
    SignalOther(usize),
    /// Records a marker and asks for another workflow task.
    Marker,
    /// Requests the cancellation of an activity after a timer, and waits for its end.
    CancelledActivity(Millis, ActivityPlan),
    /// Continues as new with the steps that follow.
    ContinueAsNew,
}

/// What an activity does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivityPlan {
    /// How long it takes.
    pub work: Millis,
    /// Its time-out for one attempt.
    pub start_to_close: Millis,
    /// Its heartbeat time-out; 0 for none.
    pub heartbeat: Millis,
    /// So many attempts fail.
    pub failures: i32,
    /// The workflow's own worker may execute it at once.
    pub is_eager: bool,
}

/// How a workflow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It completes.
    Completes,
    /// It fails.
    Fails,
}

/// A call of a client on a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCall {
    /// Sends a signal.
    Signal,
    /// Requests an update, which the workflow accepts or rejects, and waits for this stage.
    Update {
        /// Whether the workflow rejects it.
        is_rejected: bool,
        /// The stage to wait for.
        stage: Stage,
    },
    /// Queries the workflow.
    Query,
    /// Requests its cancellation.
    Cancel,
    /// Terminates it.
    Terminate,
    /// Describes it.
    Describe,
    /// Waits for its end.
    Result,
}

/// How far an update must be before its caller is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Stored.
    Admitted,
    /// Accepted by the workflow.
    Accepted,
    /// Completed by the workflow.
    Completed,
}

/// A workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowPlan {
    /// When a client starts it; `None` for a child.
    pub starts_at: Option<Millis>,
    /// Its steps.
    pub steps: Vec<Step>,
    /// How it ends.
    pub end: End,
    /// The time of a worker for a workflow task.
    pub task_timeout: Millis,
    /// Calls of clients, with the time after its start.
    pub calls: Vec<(Millis, ClientCall)>,
}

/// A schedule that starts the workflow of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulePlan {
    /// When it is created.
    pub created_at: Millis,
    /// Its interval in seconds.
    pub interval_seconds: u64,
}

/// A workflow that the node executes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptPlan {
    /// When a client deploys and starts it.
    pub starts_at: Millis,
    /// When the client sends the signal that it waits for, after the start.
    pub signal_after: Millis,
}

/// Something that happens to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub at: Millis,
    /// For how long.
    pub lasts: Millis,
    /// What.
    pub kind: FaultKind,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The node dies, and starts again afterwards.
    Crash,
    /// The node is shut down, and starts again afterwards.
    Shutdown,
    /// The node stands still.
    Pause,
    /// The disk behaves otherwise.
    Disk(Behaviour),
    /// Requests and answers are lost, so many in a thousand.
    Loss(u64),
    /// Requests and answers may take so long.
    Delay(Millis),
    /// A worker dies, and another one starts in its place.
    WorkerCrash(usize),
    /// A worker is cut off; its connection breaks at the end.
    WorkerCut(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasts = self.lasts;
        match self.kind {
            FaultKind::Crash => write!(f, "the node crashes and stays away for {lasts} ms"),
            FaultKind::Shutdown => write!(f, "the node shuts down and stays away for {lasts} ms"),
            FaultKind::Pause => write!(f, "the node stands still for {lasts} ms"),
            FaultKind::Disk(Behaviour { is_full: true, .. }) => write!(f, "the disk is full for {lasts} ms"),
            FaultKind::Disk(how) => write!(
                f,
                "for {lasts} ms writes take up to {} ms, of 1000 writes {} fail, of 1000 reads {}",
                how.write_max, how.failed_writes, how.failed_reads
            ),
            FaultKind::Loss(times) => write!(f, "for {lasts} ms {times} of 1000 messages are lost"),
            FaultKind::Delay(most) => write!(f, "for {lasts} ms messages take up to {most} ms"),
            FaultKind::WorkerCrash(worker) => write!(f, "worker {worker} dies and is replaced after {lasts} ms"),
            FaultKind::WorkerCut(worker) => write!(f, "worker {worker} is cut off for {lasts} ms"),
        }
    }
}

/// A part of a scenario that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A fault.
    Fault(usize),
    /// A workflow that a client starts.
    Workflow(usize),
    /// A call on a workflow.
    Call(usize, usize),
    /// A schedule.
    Schedule(usize),
    /// A script.
    Script(usize),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(number) => write!(f, "fault{number}"),
            Self::Workflow(number) => write!(f, "workflow{number}"),
            Self::Call(workflow, number) => write!(f, "call{workflow}.{number}"),
            Self::Schedule(number) => write!(f, "schedule{number}"),
            Self::Script(number) => write!(f, "script{number}"),
        }
    }
}

impl std::str::FromStr for Part {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || anyhow::anyhow!("`{text}` is no part of a scenario: fault3, workflow2, call2.0, schedule0");
        let split = text.find(|letter: char| letter.is_ascii_digit()).ok_or_else(unknown)?;
        let (kind, number) = text.split_at(split);
        let one = |text: &str| text.parse::<usize>().map_err(|_| unknown());
        Ok(match kind {
            "fault" => Self::Fault(one(number)?),
            "workflow" => Self::Workflow(one(number)?),
            "schedule" => Self::Schedule(one(number)?),
            "script" => Self::Script(one(number)?),
            "call" => {
                let (workflow, call) = number.split_once('.').ok_or_else(unknown)?;
                Self::Call(one(workflow)?, one(call)?)
            }
            _ => return Err(unknown()),
        })
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The seed of everything that is drawn while the world lives.
    pub seed: u64,
    /// Worker processes.
    pub workers: usize,
    /// Most tasks that a queue keeps in memory.
    pub queue_tasks_max: usize,
    /// Memory for cached runs, in bytes.
    pub cache_bytes_max: usize,
    /// Workflows: those that clients start, then children.
    pub workflows: Vec<WorkflowPlan>,
    /// Schedules.
    pub schedules: Vec<SchedulePlan>,
    /// Scripts.
    pub scripts: Vec<ScriptPlan>,
    /// Faults.
    pub faults: Vec<Fault>,
    /// Parts that are left out.
    pub omitted: BTreeSet<Part>,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::stream(seed, "scenario");
        let workers = random.between(1, 3) as usize;
        let roots = random.between(3, 10) as usize;
        let mut workflows: Vec<WorkflowPlan> = Vec::new();
        let mut children = Vec::new();
        for _ in 0..roots {
            let steps = steps(&mut random, roots, &mut children);
            let starts_at = Some(random.between(0, DURATION * 2 / 3));
            let calls = calls(&mut random);
            workflows.push(plan(&mut random, starts_at, steps, calls));
        }
        for _ in 0..children.len() {
            let steps = leaf_steps(&mut random);
            workflows.push(plan(&mut random, None, steps, Vec::new()));
        }
        let schedules = (0..random.one_of(&[0, 0, 1]))
            .map(|_| SchedulePlan {
                created_at: random.between(0, DURATION / 2),
                interval_seconds: random.between(2, 15),
            })
            .collect();
        let scripts = (0..random.one_of(&[0, 0, 1, 3]))
            .map(|_| ScriptPlan {
                starts_at: random.between(0, DURATION * 2 / 3),
                signal_after: random.between(0, 6000),
            })
            .collect();
        let faults = faults(&mut random, workers);
        let queue_tasks_max = random.one_of(&[50_000, 50_000, 2]);
        let cache_bytes_max = random.one_of(&[64 * 1024 * 1024, 64 * 1024 * 1024, 10_000]);
        Self {
            seed,
            workers,
            queue_tasks_max,
            cache_bytes_max,
            workflows,
            schedules,
            scripts,
            faults,
            omitted: BTreeSet::new(),
        }
    }

    /// The same without these parts too.
    pub fn without(&self, parts: impl IntoIterator<Item = Part>) -> Self {
        let mut smaller = self.clone();
        smaller.omitted.extend(parts);
        smaller
    }

    /// Whether a part is left out.
    pub fn omits(&self, part: Part) -> bool {
        self.omitted.contains(&part)
    }

    /// Everything that can still be left out.
    pub fn parts(&self) -> Vec<Part> {
        let faults = (0..self.faults.len()).map(Part::Fault);
        let schedules = (0..self.schedules.len()).map(Part::Schedule);
        let scripts = (0..self.scripts.len()).map(Part::Script);
        let started = || self.workflows.iter().enumerate().filter(|(_, plan)| plan.starts_at.is_some());
        let workflows = started().map(|(number, _)| Part::Workflow(number));
        let calls = started()
            .filter(|(number, _)| !self.omits(Part::Workflow(*number)))
            .flat_map(|(number, plan)| (0..plan.calls.len()).map(move |call| Part::Call(number, call)));
        let all = faults.chain(schedules).chain(scripts).chain(workflows).chain(calls);
        all.filter(|part| !self.omits(*part)).collect()
    }
}

fn plan(
    random: &mut Random,
    starts_at: Option<Millis>,
    steps: Vec<Step>,
    calls: Vec<(Millis, ClientCall)>,
) -> WorkflowPlan {
    let end = if random.per_mille(100) { End::Fails } else { End::Completes };
    WorkflowPlan { starts_at, steps, end, task_timeout: random.one_of(&[1000, 2000, 5000, 10_000]), calls }
}

fn activity(random: &mut Random) -> ActivityPlan {
    let heartbeat = random.one_of(&[0, 0, 1000]);
    ActivityPlan {
        work: random.one_of(&[5, 50, 500, 1500, 3000]),
        start_to_close: random.one_of(&[4000, 6000, 10_000]),
        heartbeat,
        failures: random.one_of(&[0, 0, 0, 1, 2]),
        is_eager: random.per_mille(300),
    }
}

/// A step that needs no other workflow.
fn leaf(random: &mut Random) -> Step {
    match random.below(8) {
        0 | 1 => Step::Timer(random.one_of(&[10, 200, 1000, 3000, 8000])),
        2 | 3 => Step::Activity(activity(random)),
        4 => Step::Both(random.between(10, 3000), activity(random)),
        5 => Step::Signals(random.between(1, 2) as usize, random.between(500, 5000)),
        6 => Step::Marker,
        _ => Step::CancelledActivity(
            random.between(50, 1000),
            ActivityPlan { work: 6000, start_to_close: 10_000, heartbeat: 1000, failures: 0, is_eager: false },
        ),
    }
}

fn leaf_steps(random: &mut Random) -> Vec<Step> {
    (0..random.between(0, 2)).map(|_| leaf(random)).collect()
}

fn steps(random: &mut Random, roots: usize, children: &mut Vec<()>) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..random.between(1, 5))
        .map(|_| match random.below(10) {
            0 => {
                children.push(());
                Step::Child(roots + children.len() - 1)
            }
            1 => Step::SignalOther(random.below(roots)),
            _ => leaf(random),
        })
        .collect();
    if random.per_mille(150) {
        let place = random.below(steps.len() + 1);
        steps.insert(place, Step::ContinueAsNew);
    }
    steps
}

fn calls(random: &mut Random) -> Vec<(Millis, ClientCall)> {
    let mut calls: Vec<_> = (0..random.between(0, 6))
        .map(|_| {
            let call = match random.below(20) {
                0..=5 => ClientCall::Signal,
                6..=11 => ClientCall::Update {
                    is_rejected: random.per_mille(250),
                    stage: random.one_of(&[Stage::Admitted, Stage::Accepted, Stage::Completed, Stage::Completed]),
                },
                12..=15 => ClientCall::Query,
                16 => ClientCall::Cancel,
                17 if random.per_mille(500) => ClientCall::Terminate,
                _ => ClientCall::Describe,
            };
            (random.between(0, 12_000), call)
        })
        .collect();
    calls.sort_by_key(|(after, _)| *after);
    calls.push((0, ClientCall::Result));
    calls
}

fn faults(random: &mut Random, workers: usize) -> Vec<Fault> {
    let mut faults: Vec<Fault> = (0..random.between(0, 9))
        .map(|_| {
            let (kind, lasts) = match random.below(16) {
                0..=3 => (FaultKind::Crash, random.one_of(&[20, 300, 3000])),
                4 => (FaultKind::Shutdown, random.one_of(&[100, 2000])),
                5 => (FaultKind::Pause, random.one_of(&[200, 2000, 8000])),
                6 | 7 => {
                    let failing = Behaviour {
                        failed_writes: random.one_of(&[50, 300, 1000]),
                        failed_reads: random.one_of(&[0, 50, 300]),
                        ..Behaviour::HEALTHY
                    };
                    (FaultKind::Disk(failing), random.between(100, 4000))
                }
                8 => (FaultKind::Disk(Behaviour { is_full: true, ..Behaviour::HEALTHY }), random.between(500, 5000)),
                9 => {
                    let slow = Behaviour { write_max: 1500, read_max: 300, ..Behaviour::HEALTHY };
                    (FaultKind::Disk(slow), random.between(1000, 8000))
                }
                10 | 11 => (FaultKind::Loss(random.one_of(&[50, 300, 800])), random.between(500, 6000)),
                12 => (FaultKind::Delay(random.one_of(&[200, 2000])), random.between(1000, 6000)),
                13 | 14 => (FaultKind::WorkerCrash(random.below(workers)), random.one_of(&[50, 1000, 5000])),
                _ => (FaultKind::WorkerCut(random.below(workers)), random.one_of(&[500, 5000, 25_000])),
            };
            Fault { at: random.between(500, DURATION - 10_000), lasts, kind }
        })
        .collect();
    faults.sort_by_key(|fault| fault.at);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_scenario() {
        assert_eq!(Scenario::of_seed(5), Scenario::of_seed(5));
        assert_ne!(Scenario::of_seed(5), Scenario::of_seed(6));
    }

    #[test]
    fn parts_have_names_and_can_be_left_out() {
        let scenario = Scenario::of_seed(11);
        for part in scenario.parts() {
            assert_eq!(part.to_string().parse::<Part>().expect("a part"), part);
            assert!(!scenario.without([part]).parts().contains(&part));
        }
        assert!("fault".parse::<Part>().is_err() && "call3".parse::<Part>().is_err());
    }
}
