//! Which runs a verification tries: the oldest and the longest, then random ones.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use segno_deployments::{QueueType, named_version};
use segno_engine::{Run, versioning::pinned_version};
use segno_environment::hash::HashSet;
use segno_proto::{Nanos, segno_verification::Candidate};
use segno_runs::{CallError, FoundRun, ListCaller, ListPosition, Namespace};

use super::{Job, NewVerification, Verifications};

/// Runs listed at a time.
const PAGE: usize = 256;
/// Runs that are looked at.
const SCAN_MAX: i64 = 1_000_000;
/// Of the runs that are tried, so many parts are the oldest ones, and as many the longest.
const PARTS: usize = 4;

/// A run to try. Ordered by what comes first, so that heaps keep the oldest or the longest.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) start_time: Nanos,
    pub(super) events: i64,
    pub(super) workflow_id: String,
    pub(super) run_id: String,
    pub(super) workflow_type: String,
}

/// The runs that a verification tries.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// How many there are that would move.
    pub(super) found: i64,
    /// How many of them have nothing to replay.
    pub(super) skipped: i64,
    /// Those to try, in order.
    pub(super) targets: Vec<Target>,
}

/// Chooses among runs that come one after the other.
struct Sample {
    max: usize,
    /// The youngest of them on top.
    oldest: BinaryHeap<Target>,
    /// The shortest of them on top.
    longest: BinaryHeap<Reverse<(i64, Target)>>,
    /// Each run is here with the same probability.
    random: Vec<Target>,
    seen: u64,
}

impl Sample {
    fn new(max: usize) -> Self {
        Self { max, oldest: BinaryHeap::new(), longest: BinaryHeap::new(), random: Vec::new(), seen: 0 }
    }

    /// A further run, with random bits of its own.
    fn add(&mut self, target: Target, bits: u64) {
        let part = self.max.div_ceil(PARTS);
        self.oldest.push(target.clone());
        if self.oldest.len() > part {
            self.oldest.pop();
        }
        self.longest.push(Reverse((target.events, target.clone())));
        if self.longest.len() > part {
            self.longest.pop();
        }
        self.seen += 1;
        if self.random.len() < self.max {
            self.random.push(target);
        } else if let Some(place) = usize::try_from(bits % self.seen).ok().and_then(|at| self.random.get_mut(at)) {
            *place = target;
        }
    }

    /// The runs to try: oldest and longest alternating, then random ones.
    fn finish(self, mut bits: impl FnMut() -> u64) -> Vec<Target> {
        let Self { max, oldest, longest, mut random, .. } = self;
        let oldest = oldest.into_sorted_vec();
        let longest: Vec<Target> = longest.into_sorted_vec().into_iter().map(|Reverse((_, target))| target).collect();
        for last in (1..random.len()).rev() {
            random.swap(last, (bits() % (last as u64 + 1)) as usize);
        }
        let mut longest = longest.into_iter();
        let mut first = Vec::with_capacity(oldest.len() * 2);
        for target in oldest {
            first.push(target);
            first.extend(longest.next());
        }
        let mut known = HashSet::default();
        let chosen = first.into_iter().chain(longest).chain(random);
        chosen.filter(|target| known.insert(target.run_id.clone())).take(max).collect()
    }
}

/// A text as a value of a filter.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

impl Verifications {
    /// The workflow queues of a version.
    pub fn queues_of_version(&self, namespace: &Namespace, candidate: &Candidate) -> Vec<String> {
        let version = named_version(candidate.deployment_name.clone(), candidate.build_id.clone());
        let Some(routing) = self.runs.deployments.namespace(namespace.key) else { return Vec::new() };
        let queues = routing.members.get(&version).into_iter().flatten();
        let queues = queues.filter(|queue| queue.kind == QueueType::Workflow);
        let mut names: Vec<String> = queues.map(|queue| queue.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Selects the runs of a verification; nothing of it if it was stopped meanwhile.
    pub(super) async fn select_targets(
        &self,
        namespace: &Arc<Namespace>,
        new: &NewVerification,
        job: &Job,
    ) -> Result<Selection, CallError> {
        let queues = match new.candidate.build_id.is_empty() {
            true => vec![new.candidate.task_queue.clone()],
            false => self.queues_of_version(namespace, &new.candidate),
        };
        let mut selection = Selection::default();
        if queues.is_empty() {
            return Ok(selection);
        }
        let names: Vec<String> = queues.iter().map(|name| literal(name)).collect();
        let mut filter = format!("ExecutionStatus = 'Running' AND TaskQueue IN ({})", names.join(", "));
        if !new.query.is_empty() {
            filter = format!("({}) AND {filter}", new.query);
        }
        let mut sample = Sample::new(new.sample);
        let mut position: Option<ListPosition> = None;
        loop {
            let page = self.runs.list(ListCaller::default(), namespace, &filter, position, PAGE).await?;
            for found in page.runs {
                let FoundRun::Readable(run) = found else { continue };
                if !moves(&run, new) {
                    continue;
                }
                selection.found += 1;
                match run.state().last_completed_started_id > 0 {
                    true => sample.add(target(&run), self.runs.ids.bits()),
                    false => selection.skipped += 1,
                }
            }
            position = page.next;
            if position.is_none() || job.is_stopped() || self.runs.is_stopping() || selection.found >= SCAN_MAX {
                break;
            }
        }
        selection.targets = sample.finish(|| self.runs.ids.bits());
        Ok(selection)
    }
}

fn target(run: &Run) -> Target {
    Target {
        start_time: run.info.start_time,
        events: run.state().next_event_id,
        workflow_id: run.info.workflow_id.clone(),
        run_id: run.info.run_id.clone(),
        workflow_type: run.info.workflow_type.clone(),
    }
}

/// Whether the next task of a run would go to the candidate.
fn moves(run: &Run, new: &NewVerification) -> bool {
    if !run.is_running() || run.state().script.is_some() {
        return false;
    }
    let candidate = &new.candidate;
    let is_candidate = |version: &segno_proto::deployment::WorkerDeploymentVersion| {
        version.deployment_name == candidate.deployment_name && version.build_id == candidate.build_id
    };
    new.include_pinned || pinned_version(run).is_none_or(is_candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(number: i64) -> Target {
        // The higher the number the younger, and every tenth is long.
        let events = if number % 10 == 0 { 1000 + number } else { 10 };
        Target { start_time: number, events, run_id: number.to_string(), ..Target::default() }
    }

    #[test]
    fn the_oldest_and_the_longest_come_first() {
        let mut sample = Sample::new(40);
        (0..1000).for_each(|number| sample.add(target(number), number as u64 * 7919));
        let mut bits = 0;
        let chosen = sample.finish(|| {
            bits += 104_729;
            bits
        });
        assert_eq!(chosen.len(), 40);
        let ids: Vec<&str> = chosen.iter().take(6).map(|target| target.run_id.as_str()).collect();
        assert_eq!(ids, ["0", "990", "1", "980", "2", "970"]);
        let unique: HashSet<_> = chosen.iter().map(|target| &target.run_id).collect();
        assert_eq!(unique.len(), 40);
    }

    #[test]
    fn all_are_chosen_if_there_are_not_more() {
        let mut sample = Sample::new(40);
        (0..40).for_each(|number| sample.add(target(number), 0));
        assert_eq!(sample.finish(|| 1).len(), 40);
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(literal(r"it's a \"), r"'it\'s a \\'");
    }
}
