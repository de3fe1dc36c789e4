//! Chooses which script is executed next: the namespace that used the least time.
//!
//! There are as many permits as cores, and a namespace has at most half of them, so that others find one. A namespace
//! that was idle begins with the time of the others, so that idle time is not saved up. There are no threads and no
//! clock here, see [`super::threads`].

use std::{collections::VecDeque, time::Duration};

use segno_environment::hash::HashMap;
use segno_store::NamespaceKey;

/// Jobs that have begun and have not ended, of all namespaces and of one. Each has a thread.
const BEGUN_MAX: usize = 128;
const BEGUN_OF_NAMESPACE_MAX: usize = 8;
/// Namespaces without jobs whose used time is remembered.
const IDLE_NAMESPACES_MAX: usize = 1024;

/// The holder of a permit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Grant<J, P> {
    /// A job that begins.
    Job(J),
    /// A job that gave its permit back for a while.
    Paused(P),
}

/// The jobs of a namespace.
struct NamespaceJobs<J, P> {
    jobs: VecDeque<J>,
    paused: VecDeque<P>,
    /// Jobs with a permit.
    running: usize,
    /// Jobs with a permit and paused ones.
    begun: usize,
    /// Time used, counted from where the others were when it began.
    used: Duration,
    /// Whether a paused job had the last permit: the two kinds alternate.
    paused_was_last: bool,
}

/// See the module.
pub(super) struct Permits<J, P> {
    most: usize,
    running: usize,
    begun: usize,
    namespaces: HashMap<NamespaceKey, NamespaceJobs<J, P>>,
    /// The used time of the namespace that had the last permit.
    now: Duration,
}

impl<J, P> Permits<J, P> {
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), running: 0, begun: 0, namespaces: HashMap::default(), now: Duration::ZERO }
    }

    /// Jobs of a namespace that wait for their beginning.
    pub(crate) fn waiting_of(&self, namespace: NamespaceKey) -> usize {
        self.namespaces.get(&namespace).map_or(0, |entry| entry.jobs.len())
    }

    /// Whether anything waits for a permit.
    pub(crate) fn is_any_waiting(&self) -> bool {
        self.namespaces.values().any(|entry| !entry.jobs.is_empty() || !entry.paused.is_empty())
    }

    fn jobs_of(&mut self, namespace: NamespaceKey) -> &mut NamespaceJobs<J, P> {
        if self.namespaces.len() > IDLE_NAMESPACES_MAX {
            let now = self.now;
            self.namespaces.retain(|_, entry| entry.begun > 0 || !entry.jobs.is_empty() || entry.used > now);
        }
        let now = self.now;
        let entry = self.namespaces.entry(namespace).or_insert_with(|| NamespaceJobs {
            jobs: VecDeque::new(),
            paused: VecDeque::new(),
            running: 0,
            begun: 0,
            used: now,
            paused_was_last: false,
        });
        if entry.begun == 0 && entry.jobs.is_empty() {
            entry.used = entry.used.max(now);
        }
        entry
    }

    /// Adds a job.
    pub fn push(&mut self, namespace: NamespaceKey, job: J) {
        self.jobs_of(namespace).jobs.push_back(job);
    }

    /// Gives out a permit.
    pub fn next(&mut self) -> Option<(NamespaceKey, Grant<J, P>)> {
        if self.running >= self.most {
            return None;
        }
        let share = self.most.div_ceil(2);
        let may_begin = self.begun < BEGUN_MAX;
        let begins =
            |entry: &NamespaceJobs<J, P>| may_begin && entry.begun < BEGUN_OF_NAMESPACE_MAX && !entry.jobs.is_empty();
        let may = |entry: &NamespaceJobs<J, P>| entry.running < share && (begins(entry) || !entry.paused.is_empty());
        let able = self.namespaces.iter_mut().filter(|(_, entry)| may(entry));
        let (namespace, entry) = able.min_by_key(|(namespace, entry)| (entry.used, namespace.0))?;
        let begins = begins(entry) && (entry.paused.is_empty() || entry.paused_was_last);
        entry.paused_was_last = !begins;
        let granted = match begins {
            true => {
                entry.begun += 1;
                self.begun += 1;
                Grant::Job(entry.jobs.pop_front()?)
            }
            false => Grant::Paused(entry.paused.pop_front()?),
        };
        entry.running += 1;
        self.running += 1;
        self.now = self.now.max(entry.used);
        Some((*namespace, granted))
    }

    /// A job that has a permit used time and keeps the permit.
    pub fn charge(&mut self, namespace: NamespaceKey, used: Duration) {
        self.jobs_of(namespace).used += used;
    }

    /// A job gives its permit back for a while.
    pub fn pause(&mut self, namespace: NamespaceKey, used: Duration, paused: P) {
        self.running -= 1;
        let entry = self.jobs_of(namespace);
        entry.running -= 1;
        entry.used += used;
        entry.paused.push_back(paused);
    }

    /// A job has ended.
    pub fn end(&mut self, namespace: NamespaceKey, used: Duration) {
        self.running -= 1;
        self.begun -= 1;
        let entry = self.jobs_of(namespace);
        entry.running -= 1;
        entry.begun -= 1;
        entry.used += used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NamespaceKey = NamespaceKey(1);
    const B: NamespaceKey = NamespaceKey(2);
    const C: NamespaceKey = NamespaceKey(3);
    const MS: Duration = Duration::from_millis(1);

    fn begin(permits: &mut Permits<u32, u32>) -> Option<(NamespaceKey, u32)> {
        match permits.next()? {
            (namespace, Grant::Job(number)) => Some((namespace, number)),
            (_, Grant::Paused(number)) => panic!("{number} was not paused"),
        }
    }

    #[test]
    fn a_namespace_has_half_of_the_permits() {
        let mut permits = Permits::new(4);
        for number in 0..10 {
            permits.push(A, number);
        }
        assert_eq!([begin(&mut permits), begin(&mut permits)], [Some((A, 0)), Some((A, 1))]);
        assert_eq!(begin(&mut permits), None, "the other half is for others");
        permits.push(B, 100);
        assert_eq!(begin(&mut permits), Some((B, 100)));
        permits.end(A, MS);
        assert_eq!(begin(&mut permits), Some((A, 2)));
    }

    /// Thirty long queries of one namespace wait; those of another one come first each time.
    #[test]
    fn queries_of_one_namespace_do_not_delay_those_of_another() {
        let mut permits = Permits::new(1);
        for number in 0..30 {
            permits.push(A, number);
        }
        let mut order = Vec::new();
        for number in 0..5 {
            let (namespace, _) = begin(&mut permits).expect("a permit is free");
            order.push(namespace);
            permits.push(B, number);
            permits.end(namespace, 130 * MS);
            assert_eq!(begin(&mut permits), Some((B, number)));
            permits.end(B, MS);
        }
        assert_eq!(order, [A; 5]);
    }

    #[test]
    fn time_is_shared_and_not_the_number_of_jobs() {
        let mut permits = Permits::new(1);
        for number in 0..1000 {
            permits.push(A, number);
            permits.push(B, number);
            permits.push(C, number);
        }
        let (mut used, mut jobs) = (HashMap::default(), HashMap::default());
        for _ in 0..700 {
            let (namespace, _) = begin(&mut permits).expect("a permit is free");
            let took = if namespace == A { 100 * MS } else { MS };
            *used.entry(namespace).or_insert(Duration::ZERO) += took;
            *jobs.entry(namespace).or_insert(0) += 1;
            permits.end(namespace, took);
        }
        assert!(jobs[&A] <= 5 && jobs[&B] >= 300 && jobs[&C] >= 300, "{jobs:?}");
    }

    #[test]
    fn who_was_idle_has_saved_up_nothing() {
        let mut permits = Permits::new(1);
        for number in 0..100 {
            permits.push(A, number);
        }
        for _ in 0..50 {
            begin(&mut permits);
            permits.end(A, 100 * MS);
        }
        for number in 0..100 {
            permits.push(B, number);
        }
        let mut of_b = 0;
        for _ in 0..20 {
            let (namespace, _) = begin(&mut permits).expect("a permit is free");
            of_b += usize::from(namespace == B);
            permits.end(namespace, 100 * MS);
        }
        assert!((9..=11).contains(&of_b), "{of_b}");
    }

    #[test]
    fn paused_jobs_alternate_with_new_ones_and_few_begin() {
        let mut permits: Permits<u32, u32> = Permits::new(1);
        for number in 0..20 {
            permits.push(A, number);
        }
        let mut begun = Vec::new();
        for _ in 0..40 {
            let (_, granted) = permits.next().expect("a permit is free");
            let number = match granted {
                Grant::Job(number) => {
                    begun.push(number);
                    number
                }
                Grant::Paused(number) => number,
            };
            permits.pause(A, MS, number);
        }
        assert_eq!(begun, (0..BEGUN_OF_NAMESPACE_MAX as u32).collect::<Vec<_>>());
        permits.push(B, 77);
        assert_eq!(permits.next(), Some((B, Grant::Job(77))), "a thread is left for others");
    }
}
