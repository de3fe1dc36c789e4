//! Tasks of one priority, in the order in which they go to workers.
//!
//! Without fairness keys that is the order in which they came. With them each key has a lane, and lanes take turns, those
//! with a greater weight more often: each task moves its lane on by the inverse of the weight, and the lane that is
//! furthest behind is next (weighted fair queueing by virtual time). A lane that was empty begins where the others are.
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
/// How far a task of weight 1 moves its lane on.
const STRIDE: f64 = 1_000_000.0;

/// Lanes without tasks that are remembered.
const EMPTY_LANES_MAX: usize = 1024;

/// The tasks of a key.
struct Lane {
    tasks: VecDeque<QueuedTask>,
    /// How far it has come.
    at: u64,
    /// Which one it was: of lanes that have come equally far the older one is next.
    number: u64,
}

/// See the module.
#[derive(Default)]
pub struct Level {
    /// All tasks, as long as none has a key.
    plain: VecDeque<QueuedTask>,
    /// All tasks, from the first one with a key on.
    lanes: HashMap<Arc<str>, Lane>,
    /// Lanes with tasks, by how far they have come.
    order: BTreeMap<(u64, u64), Arc<str>>,
    /// How far the lane had come that was served last.
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
        if queued.fairness.is_none() && self.lanes.is_empty() {
            if first {
                self.plain.push_front(queued)
            } else {
                self.plain.push_back(queued)
            }
            return;
        }
        if !self.plain.is_empty() {
            let tasks = std::mem::take(&mut self.plain);
            self.add_lane(Arc::from(""), tasks);
        }
        let key = queued.fairness.as_ref().map_or_else(|| Arc::from(""), |fairness| fairness.key.clone());
        let Some(lane) = self.lanes.get_mut(&key) else {
            self.add_lane(key.clone(), VecDeque::from([queued]));
            if first {
                self.put_first(&key);
            }
            return;
        };
        if lane.tasks.is_empty() {
            lane.at = lane.at.max(self.now);
            self.order.insert((lane.at, lane.number), key.clone());
        }
        if first {
            lane.tasks.push_front(queued);
            self.put_first(&key);
        } else {
            lane.tasks.push_back(queued);
        }
    }

    fn add_lane(&mut self, key: Arc<str>, tasks: VecDeque<QueuedTask>) {
        self.numbers += 1;
        let lane = Lane { tasks, at: self.now, number: self.numbers };
        self.order.insert((lane.at, lane.number), key.clone());
        self.lanes.insert(key, lane);
    }

    /// Makes a lane the next one.
    fn put_first(&mut self, key: &Arc<str>) {
        let least = self.order.first_key_value().map_or(0, |((at, _), _)| *at);
        let Some(lane) = self.lanes.get_mut(key) else { return };
        self.order.remove(&(lane.at, lane.number));
        lane.at = least.saturating_sub(1);
        self.order.insert((lane.at, lane.number), key.clone());
    }

    /// Takes the next task whose key may have one. `weight` says what a key weighs, given what its task says.
    pub fn pop(&mut self, may: impl Fn(&str) -> bool, weight: impl Fn(&str, f32) -> f32) -> Option<QueuedTask> {
        if self.lanes.is_empty() {
            if !may("") {
                return None;
            }
            let queued = self.plain.pop_front()?;
            self.tasks -= 1;
            return Some(queued);
        }
        let (place, key) = self.order.iter().find(|(_, key)| may(key)).map(|(place, key)| (*place, key.clone()))?;
        self.order.remove(&place);
        let lane = self.lanes.get_mut(&key)?;
        let queued = lane.tasks.pop_front()?;
        self.tasks -= 1;
        self.now = self.now.max(lane.at);
        let own = queued.fairness.as_ref().map_or(1.0, |fairness| fairness.weight);
        let weight = weight(&key, if own > 0.0 { own } else { 1.0 }).clamp(WEIGHT_MIN, WEIGHT_MAX);
        lane.at = lane.at.max(self.now).saturating_add((STRIDE / f64::from(weight)) as u64);
        if lane.tasks.is_empty() {
            // How far it has come is remembered while others have tasks: one task at a time is no way to come first.
            if self.tasks == 0 {
                self.lanes.clear();
            }
            self.forget_empty_lanes();
        } else {
            self.order.insert((lane.at, lane.number), key);
        }
        Some(queued)
    }

    fn forget_empty_lanes(&mut self) {
        if self.lanes.len() > EMPTY_LANES_MAX + self.order.len() {
            self.lanes.retain(|_, lane| !lane.tasks.is_empty());
        }
    }

    /// The task that would be last.
    pub fn last(&self) -> Option<&QueuedTask> {
        match self.order.last_key_value() {
            Some((_, key)) => self.lanes.get(key).and_then(|lane| lane.tasks.back()),
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
        let lane = self.lanes.get_mut(&key)?;
        let last = lane.tasks.pop_back()?;
        self.tasks -= 1;
        if lane.tasks.is_empty() {
            self.order.remove(&place);
        }
        Some(last)
    }

    /// Keys that have tasks.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let plain = (!self.plain.is_empty()).then_some("");
        plain.into_iter().chain(self.order.values().map(|key| &**key))
    }

    /// All tasks.
    pub fn iter(&self) -> impl Iterator<Item = &QueuedTask> {
        self.plain.iter().chain(self.lanes.values().flat_map(|lane| &lane.tasks))
    }

    /// Since when the oldest of them waits.
    pub fn oldest(&self) -> Option<Nanos> {
        let lanes = self.lanes.values().filter_map(|lane| lane.tasks.front());
        self.plain.front().into_iter().chain(lanes).map(|queued| queued.since).min()
    }

    /// Takes all tasks.
    pub fn into_tasks(self) -> impl Iterator<Item = QueuedTask> {
        self.plain.into_iter().chain(self.lanes.into_values().flat_map(|lane| lane.tasks))
    }
}

#[cfg(test)]
mod tests {
    use segno_store::RunKey;

    use super::super::task::{Fairness, TaskOffer};
    use super::*;

    fn queued(key: &str, weight: f32, number: u64) -> QueuedTask {
        let task = TaskOffer::Workflow { run: RunKey(number), stamp: 1, speculative: false };
        let fairness = (!key.is_empty()).then(|| Box::new(Fairness { key: key.into(), weight }));
        QueuedTask { task, priority: 3, since: number as Nanos, fairness }
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
