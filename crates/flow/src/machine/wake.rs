//! The wake set: which ends of pending operations make a turn necessary (section 6.3 of the reference).

use std::collections::BTreeMap;

use crate::hir::FunctionKind;
use crate::interface::{Group, GroupEffect, Operation, OperationKind, Wake, WakeSet};

use super::Machine;
use super::combine::{Combination, Combine, ItemValue};
use super::promise::{Promise, PromiseKind};

impl Machine<'_> {
    /// When the next turn is due.
    pub(super) fn wake_set(&self) -> WakeSet {
        let mut set = WakeSet::default();
        if self.is_closed {
            return set;
        }
        set.signals.extend(self.signal_waits.keys().map(ToString::to_string));
        set.signals.extend(self.code.handlers(FunctionKind::Signal).map(ToOwned::to_owned));
        set.signals.sort_unstable();
        set.signals.dedup();
        let mut groups = BTreeMap::new();
        for ((kind, id), number) in &self.operations {
            let Some(promise) = self.promises.get(number) else { continue };
            let wake = self.wake(promise, *number, &mut groups, &mut set.groups);
            let start_only = matches!(promise.kind, PromiseKind::Child { start_only: true, .. });
            let wakes_on_start = start_only && wake != Wake::Ignored;
            set.operations.push(Operation { kind: *kind, id: id.to_string(), wake, wakes_on_start });
        }
        set
    }

    /// What the end of an operation does. What nobody waits for is recorded only: the next turn takes it in its order.
    fn wake(&self, promise: &Promise, number: u32, groups: &mut BTreeMap<u32, u32>, list: &mut Vec<Group>) -> Wake {
        if !promise.waiters.is_empty() {
            return Wake::Wakes;
        }
        if let PromiseKind::Timer { owner: Some(owner), .. } = promise.kind {
            let has_effect = self.promises.get(&owner).is_some_and(has_effect);
            return if has_effect || self.is_needed(owner) { Wake::Wakes } else { Wake::Ignored };
        }
        let mut parents = promise.parents.clone();
        parents.dedup();
        if let [parent] = parents.as_slice() {
            if let Some(group) = groups.get(parent) {
                return Wake::Group(*group);
            }
            if let Some(group) = self.group(*parent) {
                let place = u32::try_from(list.len()).unwrap_or(u32::MAX);
                list.push(group);
                groups.insert(*parent, place);
                return Wake::Group(place);
            }
        }
        if self.is_needed(number) { Wake::Wakes } else { Wake::Ignored }
    }

    /// Whether code waits for it, or for a combination of which it is a part, or such a combination does something.
    fn is_needed(&self, number: u32) -> bool {
        let mut queue = vec![number];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(number) = queue.pop() {
            let Some(promise) = self.promises.get(&number).filter(|_| seen.insert(number)) else { continue };
            if !promise.waiters.is_empty() || has_effect(promise) {
                return true;
            }
            queue.extend(&promise.parents);
        }
        false
    }

    /// The group of a combination of plain operations whose single ends nobody else needs.
    fn group(&self, number: u32) -> Option<Group> {
        let promise = self.promises.get(&number)?;
        let PromiseKind::Combination(combination) = &promise.kind else { return None };
        if promise.waiters.is_empty() && !has_effect(promise) || !promise.parents.is_empty() {
            return None;
        }
        let (completion, failure) = effects(combination)?;
        let mut missing = 0;
        let mut last = std::collections::BTreeSet::new();
        for item in &combination.items {
            let ItemValue::Promise(item) = &item.value else { continue };
            let Some(entry) = self.promises.get(&item.number) else { continue };
            if entry.end.is_some() || !last.insert(item.number) {
                continue;
            }
            let is_plain = match entry.kind {
                PromiseKind::Task { .. } | PromiseKind::Send { .. } => true,
                PromiseKind::Timer { owner, .. } => owner.is_none(),
                PromiseKind::Child { start_only, .. } => !start_only,
                _ => false,
            };
            if !is_plain || !entry.waiters.is_empty() || entry.parents.iter().any(|parent| *parent != number) {
                return None;
            }
            missing += 1;
        }
        Some(Group { missing, completion, failure })
    }
}

/// What ends of items do to a combination; `None` if each end is needed.
fn effects(combination: &Combination) -> Option<(GroupEffect, GroupEffect)> {
    match combination.kind {
        Combine::All => Some((GroupEffect::Counts, GroupEffect::Satisfies)),
        Combine::Map if combination.is_all_started() => Some((GroupEffect::Counts, GroupEffect::Satisfies)),
        Combine::Any => Some((GroupEffect::Satisfies, GroupEffect::Counts)),
        Combine::Settle => Some((GroupEffect::Counts, GroupEffect::Counts)),
        Combine::Map | Combine::Race | Combine::Timeout => None,
    }
}

fn has_effect(promise: &Promise) -> bool {
    matches!(&promise.kind, PromiseKind::Combination(combination) if promise.end.is_none() && combination.has_effect())
}

/// Kinds of operations as inspection names them.
pub(super) const fn kind_name(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Task => "task",
        OperationKind::Timer => "timer",
        OperationKind::Child => "workflow",
        OperationKind::Send => "send",
    }
}
