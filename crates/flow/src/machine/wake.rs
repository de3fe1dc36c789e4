//! The wake set: which ends of pending operations make a turn necessary (section 6.3 of the reference).

use std::collections::{BTreeMap, BTreeSet};

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
        set.signals_waiting = self.signals.values().map(|queue| queue.len()).sum();
        let mut finder = Finder { needed: self.needed(), known: BTreeMap::new(), groups: Vec::new() };
        for ((kind, id), number) in &self.operations {
            let Some(promise) = self.promises.get(number) else { continue };
            let wake = self.wake(promise, *number, &mut finder);
            let start_only = matches!(promise.kind, PromiseKind::Child { start_only: true, .. });
            let wakes_on_start = start_only && wake != Wake::Ignored;
            set.operations.push(Operation { kind: *kind, id: id.to_string(), wake, wakes_on_start });
        }
        // Their ends free their ids.
        set.operations.extend(self.lingering.iter().map(|(kind, id)| Operation {
            kind: *kind,
            id: id.to_string(),
            wake: Wake::Ignored,
            wakes_on_start: false,
        }));
        set.operations.sort_unstable();
        set.groups = finder.groups;
        set
    }

    /// What the end of an operation does. What no code waits for is recorded only: the next turn takes it in its order.
    fn wake(&self, promise: &Promise, number: u32, finder: &mut Finder) -> Wake {
        if !promise.waiters.is_empty() {
            return Wake::Wakes;
        }
        let number = match promise.kind {
            PromiseKind::Timer { owner: Some(owner), .. } => owner,
            _ => number,
        };
        if !finder.needed.contains(&number) {
            return Wake::Ignored;
        }
        let mut parents = promise.parents.iter().copied().filter(|parent| self.is_undecided(*parent));
        let Some(parent) = parents.next() else { return Wake::Wakes };
        if parents.any(|other| other != parent) {
            return Wake::Wakes;
        }
        let known = finder.known.get(&parent).copied().unwrap_or_else(|| {
            let place = self.group(parent).map(|group| {
                finder.groups.push(group);
                u32::try_from(finder.groups.len() - 1).unwrap_or(u32::MAX)
            });
            finder.known.insert(parent, place);
            place
        });
        known.map_or(Wake::Wakes, Wake::Group)
    }

    /// All promises for which code waits, or a combination that does something, also through other combinations.
    fn needed(&self) -> BTreeSet<u32> {
        let withdrawing = self.withdrawing();
        let has_effect = |number: &u32, promise: &Promise| match &promise.kind {
            PromiseKind::Combination(combination) if promise.end.is_none() => {
                let waits_for_all = matches!(combination.kind, Combine::Settle);
                combination.has_effect() || !waits_for_all && withdrawing.contains(number)
            }
            _ => false,
        };
        let is_needed = |number: &u32, promise: &Promise| !promise.waiters.is_empty() || has_effect(number, promise);
        let mut needed: BTreeSet<u32> = self
            .promises
            .iter()
            .filter(|(number, promise)| is_needed(number, promise))
            .map(|(number, _)| *number)
            .collect();
        let mut queue: Vec<u32> = needed.iter().copied().collect();
        while let Some(number) = queue.pop() {
            let Some(PromiseKind::Combination(combination)) = self.promises.get(&number).map(|promise| &promise.kind)
            else {
                continue;
            };
            for item in &combination.items {
                if let ItemValue::Promise(item) = &item.value
                    && needed.insert(item.number)
                {
                    queue.push(item.number);
                }
            }
        }
        needed
    }

    /// The group of a combination of plain operations whose single ends no other code needs.
    fn group(&self, number: u32) -> Option<Group> {
        let promise = self.promises.get(&number)?;
        let PromiseKind::Combination(combination) = &promise.kind else { return None };
        if promise.parents.iter().any(|parent| self.is_undecided(*parent)) {
            return None;
        }
        let (completion, failure) = effects(combination)?;
        let mut missing = 0;
        let mut seen = BTreeSet::new();
        for item in &combination.items {
            let ItemValue::Promise(item) = &item.value else { continue };
            let Some(entry) = self.promises.get(&item.number) else { continue };
            if entry.end.is_some() || !seen.insert(item.number) {
                continue;
            }
            let is_plain = match entry.kind {
                PromiseKind::Task { .. } | PromiseKind::Nexus { .. } | PromiseKind::Send { .. } => true,
                PromiseKind::Timer { owner, .. } => owner.is_none(),
                PromiseKind::Child { start_only, .. } => !start_only,
                _ => false,
            };
            let is_shared = entry.parents.iter().any(|parent| *parent != number && self.is_undecided(*parent));
            if !is_plain || !entry.waiters.is_empty() || is_shared {
                return None;
            }
            missing += 1;
        }
        Some(Group { missing, completion, failure })
    }

    /// Combinations that may be decided while items are pending that no other code can reach and that are withdrawn
    /// then: timers, signal waits, conditions, also through other combinations.
    fn withdrawing(&self) -> BTreeSet<u32> {
        let withdrawn = |promise: &Promise| {
            promise.end.is_none()
                && matches!(
                    promise.kind,
                    PromiseKind::Timer { .. } | PromiseKind::Signal { .. } | PromiseKind::Condition { .. }
                )
        };
        let mut found = BTreeSet::new();
        let mut queue: Vec<&Promise> = self.promises.values().filter(|promise| withdrawn(promise)).collect();
        while let Some(promise) = queue.pop() {
            let references = promise.reference.strong_count();
            for parent in &promise.parents {
                let uses = || promise.parents.iter().filter(|other| *other == parent).count();
                if references > 1 && references > uses() || found.contains(parent) || !self.is_undecided(*parent) {
                    continue;
                }
                found.insert(*parent);
                queue.extend(self.promises.get(parent));
            }
        }
        found
    }
}

/// What is known while a wake set is made.
struct Finder {
    needed: BTreeSet<u32>,
    /// Combinations that were looked at, with their groups.
    known: BTreeMap<u32, Option<u32>>,
    groups: Vec<Group>,
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

/// Kinds of operations as inspection names them.
pub(super) const fn kind_name(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Task => "task",
        OperationKind::Timer => "timer",
        OperationKind::Child => "workflow",
        OperationKind::Send => "send",
        OperationKind::Nexus => "nexus",
    }
}
