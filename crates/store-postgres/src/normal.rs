//! Normalises a commit so that one statement can make it.
//!
//! In one statement no row may be changed twice, and no part sees what another part does. A commit may do both: write a
//! run and delete it, move a pointer and reset it. Here such steps are folded into one. A check whose step a later step
//! undoes stays as a check.
//!
//! What holds: a [`Normal`] names each row once; two of them with disjoint [`Touched`] can be made by one statement.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use segno_store::visibility::VisibilityRow;
use segno_store::{
    Bucket, Commit, CommitError, CurrentWrite, HistoryBatch, NamespaceKey, OutboxKey, RunKey, RunWrite, limits,
};

use crate::layout;

/// A run's new row.
pub(crate) struct RunRow<'a> {
    pub(crate) row: i64,
    /// The version that must be stored; 0 if there must be no run.
    pub(crate) expected: i64,
    pub(crate) version: i64,
    pub(crate) write: &'a RunWrite,
    pub(crate) facts: Option<&'a VisibilityRow>,
}

/// The change of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pointer {
    /// There must be none, and there is this one afterwards.
    New(i64),
    /// There must be none, and there is none.
    Absent,
    /// It must name this run; it names the other one afterwards, or is gone.
    Moved(i64, Option<i64>),
    /// Set regardless of its value.
    Reset(Option<i64>),
}

type Name<'a> = (NamespaceKey, &'a str);

/// See the module.
#[derive(Default)]
pub(crate) struct Normal<'a> {
    pub(crate) runs: Vec<RunRow<'a>>,
    pub(crate) batches: Vec<(i64, &'a HistoryBatch)>,
    pub(crate) pointers: BTreeMap<Name<'a>, Pointer>,
    /// Row, bucket if the sender is new, message.
    pub(crate) messages: Vec<(i64, Option<Bucket>, &'a Bytes)>,
    pub(crate) arrived: Vec<i64>,
    pub(crate) scripts: BTreeMap<i64, &'a Bytes>,
    /// Batches that take the place of others.
    pub(crate) compacted: BTreeMap<i64, &'a HistoryBatch>,
    /// Rows of history that go.
    pub(crate) compacted_ranges: Vec<(i64, i64)>,
    pub(crate) documents: BTreeMap<Name<'a>, Option<&'a Bytes>>,
    /// Whether all nodes have these documents in memory.
    pub(crate) revises: bool,
    pub(crate) deleted: Vec<i64>,
    /// Versions that must be stored, of runs that are not written.
    pub(crate) versions: Vec<(i64, i64)>,
    pub(crate) absent_messages: Vec<i64>,
    pub(crate) absent_batches: Vec<i64>,
}

/// Rows of a run, or a run on which another row depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touch<'a> {
    Run(i64),
    Message(i64),
    Pointer(Name<'a>),
    Document(Name<'a>),
}

impl<'a> Normal<'a> {
    /// Folds a commit. Fails if it cannot happen in any state of the store.
    pub(crate) fn of(commit: &'a Commit) -> Result<Self, CommitError> {
        limits::check_commit(commit)?;
        let mut normal = Self::default();
        normal.fold_runs(commit)?;
        normal.fold_pointers(commit)?;
        normal.fold_messages(commit)?;
        for write in &commit.scripts {
            let row = layout::script_row(write.run, write.slot).ok_or_else(out_of_range)?;
            normal.scripts.insert(row, &write.state);
        }
        normal.fold_compactions(commit)?;
        for write in &commit.documents {
            normal.documents.insert((write.namespace, &write.name), write.content.as_ref());
        }
        normal.revises = !commit.documents.is_empty() && !commit.documents_of_one_node;
        normal.fold_deletions(commit);
        Ok(normal)
    }

    fn fold_runs(&mut self, commit: &'a Commit) -> Result<(), CommitError> {
        let mut places = BTreeMap::new();
        let mut rows = BTreeSet::new();
        for write in &commit.runs {
            let row = layout::run_row(write.key).ok_or_else(out_of_range)?;
            // No stored version is as great as that.
            let expected = i64::try_from(write.expected_version).map_err(|_| CommitError::Conflict)?;
            let version = expected.checked_add(1).ok_or(CommitError::Conflict)?;
            let facts = write.visibility.as_deref();
            match places.get(&row) {
                None => {
                    if expected == 0 && facts.is_none() {
                        return Err(CommitError::NotDone("a new run has no searchable facts".to_owned()));
                    }
                    places.insert(row, self.runs.len());
                    self.runs.push(RunRow { row, expected, version, write, facts });
                }
                Some(place) => {
                    let known: &mut RunRow<'a> = &mut self.runs[*place];
                    if known.version != expected {
                        return Err(CommitError::Conflict);
                    }
                    (known.version, known.write) = (version, write);
                    known.facts = facts.or(known.facts);
                }
            }
            for batch in &write.batches {
                let id = layout::history_row(write.key, batch.first_event_id).ok_or_else(out_of_range)?;
                if !rows.insert(id) {
                    return Err(CommitError::Conflict);
                }
                self.batches.push((id, batch));
            }
        }
        Ok(())
    }

    fn fold_pointers(&mut self, commit: &'a Commit) -> Result<(), CommitError> {
        let row = |key: Option<RunKey>| key.map(|key| layout::run_row(key).ok_or(CommitError::Conflict)).transpose();
        for CurrentWrite { namespace, workflow_id, expected, current } in &commit.current {
            let (expected, to) = (row(*expected)?, row(*current)?);
            let name = (*namespace, workflow_id.as_str());
            let pointer = match self.pointers.get(&name) {
                None => match (expected, to) {
                    (None, Some(to)) => Pointer::New(to),
                    (None, None) => Pointer::Absent,
                    (Some(expected), to) => Pointer::Moved(expected, to),
                },
                Some(known) if known.after() == expected => known.then(to),
                Some(_) => return Err(CommitError::Conflict),
            };
            self.pointers.insert(name, pointer);
        }
        for reset in &commit.current_reset {
            let to = row(reset.current)?;
            let name = (reset.namespace, reset.workflow_id.as_str());
            let pointer = self.pointers.get(&name).map_or(Pointer::Reset(to), |known| known.then(to));
            self.pointers.insert(name, pointer);
        }
        Ok(())
    }

    fn fold_messages(&mut self, commit: &'a Commit) -> Result<(), CommitError> {
        let row = |key: OutboxKey| layout::outbox_row(key);
        let removed: BTreeSet<i64> = commit.outbox_remove.iter().filter_map(|key| row(*key)).collect();
        let mut added = BTreeSet::new();
        for message in &commit.outbox_add {
            let id = row(message.key).ok_or_else(out_of_range)?;
            if !added.insert(id) {
                return Err(CommitError::Conflict);
            }
            if removed.contains(&id) {
                self.absent_messages.push(id);
                continue;
            }
            let sender = layout::run_row(message.key.sender);
            let facts = self.runs.iter().find(|run| Some(run.row) == sender).and_then(|run| run.facts);
            let bucket = facts.map(|facts| Bucket::of(facts.namespace, &facts.workflow_id));
            self.messages.push((id, bucket, &message.message));
        }
        self.arrived = removed.into_iter().filter(|id| !added.contains(id)).collect();
        Ok(())
    }

    fn fold_compactions(&mut self, commit: &'a Commit) -> Result<(), CommitError> {
        for compaction in &commit.compactions {
            let batch = &compaction.batch;
            let first = layout::history_row(compaction.run, batch.first_event_id).ok_or_else(out_of_range)?;
            let last = layout::history_row(compaction.run, batch.last_event_id).ok_or_else(out_of_range)?;
            self.compacted.retain(|id, _| !(first..=last).contains(id));
            self.compacted.insert(first, batch);
            self.compacted_ranges.push((first, last));
            let absent = &mut self.absent_batches;
            self.batches.retain(|(id, _)| {
                let inside = (first..=last).contains(id);
                if inside {
                    absent.push(*id);
                }
                !inside
            });
        }
        Ok(())
    }

    fn fold_deletions(&mut self, commit: &'a Commit) {
        let deleted: BTreeSet<i64> = commit.delete_runs.iter().filter_map(|key| layout::run_row(*key)).collect();
        if deleted.is_empty() {
            return;
        }
        let (kept, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.runs).into_iter().partition(|run| !deleted.contains(&run.row));
        self.runs = kept;
        self.versions = gone.into_iter().map(|run| (run.row, run.expected)).collect();
        let is_deleted = |id: i64| deleted.contains(&(id >> 20));
        let (kept, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.messages).into_iter().partition(|(id, ..)| !is_deleted(*id));
        self.messages = kept;
        self.absent_messages.extend(gone.into_iter().map(|(id, ..)| id));
        let (kept, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.batches).into_iter().partition(|(id, _)| !is_deleted(*id));
        self.batches = kept;
        self.absent_batches.extend(gone.into_iter().map(|(id, _)| id));
        self.compacted.retain(|id, _| !is_deleted(*id));
        self.scripts.retain(|id, _| !deleted.contains(&(id >> 2)));
        self.deleted = deleted.into_iter().collect();
    }

    /// Whether the usual statement does.
    pub(crate) fn is_usual(&self) -> bool {
        self.messages.is_empty()
            && self.arrived.is_empty()
            && self.scripts.is_empty()
            && self.compacted.is_empty()
            && self.compacted_ranges.is_empty()
            && self.documents.is_empty()
            && self.deleted.is_empty()
            && self.versions.is_empty()
            && self.absent_messages.is_empty()
            && self.absent_batches.is_empty()
            && self.pointers.values().all(|pointer| matches!(pointer, Pointer::New(_)))
    }

    /// Every row it looks at or changes; a run stands for all that is stored of it, messages included.
    pub(crate) fn touched(&self) -> Vec<Touch<'a>> {
        let of_history = self.compacted.keys().map(|id| id >> 20);
        let runs = self.runs.iter().map(|run| run.row).chain(self.versions.iter().map(|(row, _)| *row));
        let runs = runs.chain(self.scripts.keys().map(|id| id >> 2)).chain(self.deleted.iter().copied());
        let mut touched: Vec<_> = runs.chain(of_history).map(Touch::Run).collect();
        touched.extend(self.batches.iter().map(|(id, _)| Touch::Run(id >> 20)));
        let messages = self.messages.iter().map(|(id, ..)| *id).chain(self.arrived.iter().copied());
        touched.extend(messages.chain(self.absent_messages.iter().copied()).map(Touch::Message));
        touched.extend(self.pointers.keys().map(|name| Touch::Pointer(*name)));
        touched.extend(self.documents.keys().map(|name| Touch::Document(*name)));
        touched
    }
}

impl Pointer {
    /// The row that the pointer names afterwards.
    fn after(self) -> Option<i64> {
        match self {
            Self::New(run) => Some(run),
            Self::Absent => None,
            Self::Moved(_, to) | Self::Reset(to) => to,
        }
    }

    /// The same with another end.
    fn then(self, to: Option<i64>) -> Self {
        match (self, to) {
            (Self::New(_) | Self::Absent, Some(to)) => Self::New(to),
            (Self::New(_) | Self::Absent, None) => Self::Absent,
            (Self::Moved(expected, _), to) => Self::Moved(expected, to),
            (Self::Reset(_), to) => Self::Reset(to),
        }
    }
}

/// Splits a group into waves: commits in order, those of a wave independent of each other.
pub(crate) fn waves<'a, 'b>(commits: &'b [(usize, Normal<'a>)]) -> Vec<&'b [(usize, Normal<'a>)]> {
    let mut waves = Vec::new();
    let (mut begin, mut seen, mut senders) = (0, BTreeSet::new(), BTreeSet::new());
    for (place, (_, commit)) in commits.iter().enumerate() {
        let touched = commit.touched();
        // A deletion takes the run's messages along, also those that another commit removes or adds.
        let own_senders = touched.iter().filter_map(|touch| match touch {
            Touch::Message(id) => Some(id >> 20),
            _ => None,
        });
        let own_senders: BTreeSet<i64> = own_senders.collect();
        let clash = touched.iter().any(|touch| seen.contains(touch))
            || commit.deleted.iter().any(|run| senders.contains(run))
            || own_senders.iter().any(|run| seen.contains(&Touch::Run(*run)));
        if clash {
            waves.push(&commits[begin..place]);
            begin = place;
            seen.clear();
            senders.clear();
        }
        seen.extend(touched);
        senders.extend(own_senders);
    }
    if begin < commits.len() {
        waves.push(&commits[begin..]);
    }
    waves
}

fn out_of_range() -> CommitError {
    CommitError::Unknown("refused, nothing was changed: a number is out of range".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_store::kit::{batch, current, outbox_row, run};

    #[test]
    fn steps_on_one_row_are_folded() {
        let commit = Commit {
            runs: vec![
                RunWrite { batches: vec![batch(1, 2)], ..run(1, 0, "a") },
                RunWrite { batches: vec![batch(3, 4)], ..run(1, 1, "b") },
            ],
            current: vec![current("w", None, Some(1)), current("w", Some(1), Some(2))],
            outbox_add: vec![outbox_row(1, 0, "m"), outbox_row(1, 1, "n")],
            outbox_remove: vec![outbox_row(1, 1, "").key],
            ..Commit::default()
        };
        let normal = Normal::of(&commit).unwrap();
        let rows: Vec<_> = normal.runs.iter().map(|run| (run.row, run.expected, run.version)).collect();
        assert_eq!((rows, normal.batches.len()), (vec![(1, 0, 2)], 2));
        assert_eq!(normal.pointers.into_values().collect::<Vec<_>>(), [Pointer::New(2)]);
        assert_eq!((normal.messages.len(), normal.absent_messages), (1, vec![(1 << 20) | 1]));
        let undone = Commit { delete_runs: vec![RunKey(1)], ..commit };
        let normal = Normal::of(&undone).unwrap();
        assert!(normal.runs.is_empty() && normal.batches.is_empty() && normal.messages.is_empty());
        assert_eq!((normal.versions, normal.absent_batches.len()), (vec![(1, 0)], 2));
    }

    #[test]
    fn what_depends_on_one_row_is_in_different_waves() {
        let of = |key, version| Commit { runs: vec![run(key, version, "s")], ..Commit::default() };
        let group = [
            of(1, 0),
            of(2, 0),
            of(1, 1),
            of(3, 0),
            Commit { outbox_add: vec![outbox_row(9, 0, "m")], ..Commit::default() },
            Commit { delete_runs: vec![RunKey(9)], ..Commit::default() },
        ];
        let normal: Vec<_> = group.iter().map(|commit| Normal::of(commit).unwrap()).enumerate().collect();
        assert_eq!(waves(&normal).iter().map(|wave| wave.len()).collect::<Vec<_>>(), [2, 3, 1]);
    }
}
