//! Tasks of one priority, in the order in which they go to workers.
//!
//! Without fairness keys that is the order in which they came. With them keys take turns, those with a greater weight more
//! often: each task moves its key on by the inverse of the weight, and the key that is furthest behind is next (weighted fair
//! queueing by virtual time). A key that had no tasks begins where the others are.
//!
//! What holds: a key with many tasks does not delay the tasks of another by more than its share.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use segno_environment::hash::HashMap;
use segno_proto::Nanos;

use super::task::QueuedTask;

/// Weights outside of this are taken for the nearest one inside.
const WEIGHT_MIN: f32 = 0.001;
const WEIGHT_MAX: f32 = 1000.0;
/// How far a task of weight 1 moves its key on.
const STRIDE: f64 = 1_000_000.0;

/// Keys without tasks that are remembered.
const EMPTY_KEYS_MAX: usize = 1024;

/// The tasks of a key.
struct KeyTasks {
    tasks: VecDeque<QueuedTask>,
    /// How far it has come.
    at: u64,
    /// Which one it was: of keys that have come equally far the older one is next.
    number: u64,
}

/// See the module.
#[derive(Default)]
pub struct Level {
    /// All tasks, as long as none has a key.
    plain: VecDeque<QueuedTask>,
    /// All tasks, from the first one with a key on.
    by_key: HashMap<Arc<str>, KeyTasks>,
    /// Keys with tasks, by how far they have come.
    order: BTreeMap<(u64, u64), Arc<str>>,
    /// How far the key had come that was served last.
    now: u64,
    numbers: u64,
    tasks: usize,
}

impl Level {
    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.tasks
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tasks == 0
    }

    /// Adds a task: behind the others of its key, or before all of this priority.
    pub fn push(&mut self, queued: QueuedTask, first: bool) {
        self.tasks += 1;
        if queued.fairness.is_none() && self.by_key.is_empty() {
            if first {
                self.plain.push_front(queued)
            } else {
                self.plain.push_back(queued)
            }
            return;
        }
        if !self.plain.is_empty() {
            let tasks = std::mem::take(&mut self.plain);
            self.add_key(Arc::from(""), tasks);
        }
        let key = queued.fairness.as_ref().map_or_else(|| Arc::from(""), |fairness| fairness.key.clone());
        let Some(of_key) = self.by_key.get_mut(&key) else {
            self.add_key(key.clone(), VecDeque::from([queued]));
            if first {
                self.put_first(&key);
            }
            return;
        };
        if of_key.tasks.is_empty() {
            of_key.at = of_key.at.max(self.now);
            self.order.insert((of_key.at, of_key.number), key.clone());
        }
        if first {
            of_key.tasks.push_front(queued);
            self.put_first(&key);
        } else {
            of_key.tasks.push_back(queued);
        }
    }

    fn add_key(&mut self, key: Arc<str>, tasks: VecDeque<QueuedTask>) {
        self.numbers += 1;
        let of_key = KeyTasks { tasks, at: self.now, number: self.numbers };
        self.order.insert((of_key.at, of_key.number), key.clone());
        self.by_key.insert(key, of_key);
    }

    /// Makes a key the next one.
    fn put_first(&mut self, key: &Arc<str>) {
        let least = self.order.first_key_value().map_or(0, |((at, _), _)| *at);
        let Some(of_key) = self.by_key.get_mut(key) else { return };
        self.order.remove(&(of_key.at, of_key.number));
        of_key.at = least.saturating_sub(1);
        self.order.insert((of_key.at, of_key.number), key.clone());
    }

    /// Takes the next task whose key may have one. `weight` says what a key weighs, given what its task says.
    pub fn pop(&mut self, may: impl Fn(&str) -> bool, weight: impl Fn(&str, f32) -> f32) -> Option<QueuedTask> {
        if self.by_key.is_empty() {
            if !may("") {
                return None;
            }
            let queued = self.plain.pop_front()?;
            self.tasks -= 1;
            return Some(queued);
        }
        let (place, key) = self.order.iter().find(|(_, key)| may(key)).map(|(place, key)| (*place, key.clone()))?;
        self.order.remove(&place);
        let of_key = self.by_key.get_mut(&key)?;
        let queued = of_key.tasks.pop_front()?;
        self.tasks -= 1;
        self.now = self.now.max(of_key.at);
        let own = queued.fairness.as_ref().map_or(1.0, |fairness| fairness.weight);
        let weight = weight(&key, if own > 0.0 { own } else { 1.0 }).clamp(WEIGHT_MIN, WEIGHT_MAX);
        of_key.at = of_key.at.max(self.now).saturating_add((STRIDE / f64::from(weight)) as u64);
        if of_key.tasks.is_empty() {
            // How far it has come is remembered while others have tasks: one task at a time is no way to come first.
            if self.tasks == 0 {
                self.by_key.clear();
            }
            self.forget_empty_keys();
        } else {
            self.order.insert((of_key.at, of_key.number), key);
        }
        Some(queued)
    }

    fn forget_empty_keys(&mut self) {
        if self.by_key.len() > EMPTY_KEYS_MAX + self.order.len() {
            self.by_key.retain(|_, of_key| !of_key.tasks.is_empty());
        }
    }

    /// The task that would be last.
    pub fn last(&self) -> Option<&QueuedTask> {
        match self.order.last_key_value() {
            Some((_, key)) => self.by_key.get(key).and_then(|of_key| of_key.tasks.back()),
            None => self.plain.back(),
        }
    }

    /// Takes the task that would be last.
    pub fn pop_last(&mut self) -> Option<QueuedTask> {
        let Some((place, key)) = self.order.last_key_value().map(|(place, key)| (*place, key.clone())) else {
            let last = self.plain.pop_back()?;
            self.tasks -= 1;
            return Some(last);
        };
        let of_key = self.by_key.get_mut(&key)?;
        let last = of_key.tasks.pop_back()?;
        self.tasks -= 1;
        if of_key.tasks.is_empty() {
            self.order.remove(&place);
        }
        Some(last)
    }

    /// Takes out the tasks that do not belong here, and appends them to `out`.
    pub fn extract(&mut self, belongs: impl Fn(&QueuedTask) -> bool, out: &mut Vec<QueuedTask>) {
        let before = out.len();
        let mut divide = |tasks: &mut VecDeque<QueuedTask>| {
            if tasks.iter().all(&belongs) {
                return;
            }
            let (stays, goes): (VecDeque<_>, VecDeque<_>) = std::mem::take(tasks).into_iter().partition(&belongs);
            *tasks = stays;
            out.extend(goes);
        };
        divide(&mut self.plain);
        for of_key in self.by_key.values_mut().filter(|of_key| !of_key.tasks.is_empty()) {
            divide(&mut of_key.tasks);
            if of_key.tasks.is_empty() {
                self.order.remove(&(of_key.at, of_key.number));
            }
        }
        self.tasks -= out.len() - before;
    }

    /// Puts the tasks of each key in the order of their age, after some were added from elsewhere.
    pub fn sort_by_age(&mut self) {
        let of_keys = self.by_key.values_mut().map(|of_key| &mut of_key.tasks);
        for tasks in std::iter::once(&mut self.plain).chain(of_keys) {
            if !tasks.iter().is_sorted_by_key(|queued| queued.since) {
                tasks.make_contiguous().sort_by_key(|queued| queued.since);
            }
        }
    }

    /// Keys that have tasks.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let plain = (!self.plain.is_empty()).then_some("");
        plain.into_iter().chain(self.order.values().map(|key| &**key))
    }

    /// All tasks.
    pub fn iter(&self) -> impl Iterator<Item = &QueuedTask> {
        self.plain.iter().chain(self.by_key.values().flat_map(|of_key| &of_key.tasks))
    }

    /// Since when the oldest of them waits.
    pub fn oldest(&self) -> Option<Nanos> {
        let first = self.by_key.values().filter_map(|of_key| of_key.tasks.front());
        self.plain.front().into_iter().chain(first).map(|queued| queued.since).min()
    }

    /// Takes all tasks.
    pub fn into_tasks(self) -> impl Iterator<Item = QueuedTask> {
        self.plain.into_iter().chain(self.by_key.into_values().flat_map(|of_key| of_key.tasks))
    }
}

#[cfg(test)]
mod tests {
    use segno_store::RunKey;

    use super::super::{
        route::TaskRoute,
        task::{Fairness, TaskOffer},
    };
    use super::*;

    fn queued(key: &str, weight: f32, number: u64) -> QueuedTask {
        let task = TaskOffer::Workflow { run: RunKey(number), stamp: 1, speculative: false };
        let fairness = (!key.is_empty()).then(|| Box::new(Fairness { key: key.into(), weight }));
        QueuedTask { task, priority: 3, since: number as Nanos, fairness, route: TaskRoute::default() }
    }

    fn order(level: &mut Level) -> String {
        let pop = |level: &mut Level| level.pop(|_| true, |_, own| own);
        std::iter::from_fn(|| pop(level)).map(|one| one.fairness.map_or("-".into(), |of| of.key.to_string())).collect()
    }

    #[test]
    fn keys_take_turns() {
        let mut level = Level::default();
        for (number, key) in "aaaaaabbc".chars().enumerate() {
            level.push(queued(&key.to_string(), 1.0, number as u64), false);
        }
        assert_eq!(level.len(), 9);
        assert_eq!(order(&mut level), "abcabaaaa");
        assert!(level.is_empty());
    }

    #[test]
    fn a_greater_weight_comes_more_often() {
        let mut level = Level::default();
        for number in 0..40 {
            level.push(queued("a", 1.0, number), false);
            level.push(queued("b", 3.0, number), false);
        }
        let first: String = order(&mut level).chars().take(20).collect();
        assert_eq!(first.matches('b').count(), 15, "{first}");
    }

    #[test]
    fn tasks_without_a_key_are_in_order_and_take_turns_with_the_others() {
        let mut level = Level::default();
        for number in 0..4 {
            level.push(queued("", 0.0, number), false);
        }
        level.push(queued("a", 0.0, 9), false);
        assert_eq!(order(&mut level), "-a---");
    }

    #[test]
    fn one_task_at_a_time_is_no_way_to_come_first() {
        let mut level = Level::default();
        for number in 0..10 {
            level.push(queued("a", 1.0, number), false);
        }
        let mut taken = String::new();
        for number in 0..8 {
            level.push(queued("b", 1.0, number), false);
            let one = level.pop(|_| true, |_, own| own).and_then(|one| one.fairness);
            taken.push_str(one.as_ref().map_or("-", |of| &of.key));
        }
        assert_eq!(taken.matches('b').count(), 4, "{taken}");
    }

    #[test]
    fn a_key_that_may_not_is_passed_over() {
        let mut level = Level::default();
        for number in 0..2 {
            level.push(queued("a", 1.0, number), false);
            level.push(queued("b", 1.0, number), false);
        }
        let next = level.pop(|key| key != "a", |_, own| own).and_then(|one| one.fairness);
        assert_eq!(next.map(|of| of.key.to_string()).as_deref(), Some("b"));
        assert!(level.pop(|_| false, |_, own| own).is_none());
        assert_eq!(level.len(), 3);
    }

    #[test]
    fn what_is_taken_back_is_next() {
        let mut level = Level::default();
        for (number, key) in "aabb".chars().enumerate() {
            level.push(queued(&key.to_string(), 1.0, number as u64), false);
        }
        let first = level.pop(|_| true, |_, own| own);
        assert_eq!(first.as_ref().map(|one| one.since), Some(0));
        level.push(first.unwrap(), true);
        assert_eq!(level.pop(|_| true, |_, own| own).map(|one| one.since), Some(0));
        assert_eq!(level.pop_last().map(|one| one.since), Some(1));
        assert_eq!(level.oldest(), Some(2));
    }
}
