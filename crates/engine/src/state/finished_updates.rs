//! Completed updates of a run, found by their ids.
//!
//! A run may have thousands, and every call makes a new value of its run. So they are kept in chunks that all copies
//! share, with the stored form of each beside it: copying or storing a run does not visit them one by one.

use std::{collections::BTreeMap, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use crate::state::UpdateRecord;

/// Records in one chunk.
const CHUNK: usize = 64;

/// One record.
#[derive(Clone, Debug)]
struct FinishedUpdate {
    id: Arc<str>,
    record: UpdateRecord,
    encoded: Bytes,
}

/// Records that are never touched again, by id.
#[derive(Debug)]
struct Chunk {
    records: Vec<(Arc<str>, UpdateRecord)>,
    encoded: Bytes,
}

/// All of a run.
#[derive(Clone, Debug, Default)]
pub struct FinishedUpdates {
    chunks: Arc<Vec<Arc<Chunk>>>,
    /// Those that do not fill a chunk yet.
    recent: Vec<FinishedUpdate>,
    /// How many were refused.
    rejected: usize,
}

/// The stored form of the records of a run: an entry of [`crate::state::RunState::updates`].
#[derive(Clone, PartialEq, prost::Message)]
struct StoredUpdates {
    #[prost(btree_map = "string, message", tag = "33")]
    updates: BTreeMap<String, UpdateRecord>,
}

impl FinishedUpdates {
    /// Takes the completed ones out of what was stored.
    pub fn split_off(updates: &mut BTreeMap<String, UpdateRecord>) -> Self {
        let mut finished = Self::default();
        if updates.values().any(UpdateRecord::is_finished) {
            for (id, record) in std::mem::take(updates) {
                if record.is_finished() {
                    finished.add(id, record);
                } else {
                    updates.insert(id, record);
                }
            }
        }
        finished
    }

    /// Adds one that is completed, or refused after its admission was stored.
    pub fn add(&mut self, id: String, record: UpdateRecord) {
        self.rejected += usize::from(record.rejection.is_some());
        let shared = Arc::from(id.as_str());
        let encoded = StoredUpdates { updates: BTreeMap::from([(id, record.clone())]) }.encode_to_vec().into();
        self.recent.push(FinishedUpdate { id: shared, record, encoded });
        if self.recent.len() == CHUNK {
            let mut encoded = BytesMut::new();
            self.recent.iter().for_each(|finished| encoded.put_slice(&finished.encoded));
            let mut records: Vec<_> = self.recent.drain(..).map(|finished| (finished.id, finished.record)).collect();
            records.sort_unstable_by(|one, other| one.0.cmp(&other.0));
            Arc::make_mut(&mut self.chunks).push(Arc::new(Chunk { records, encoded: encoded.freeze() }));
        }
    }

    /// The record of one.
    pub fn get(&self, id: &str) -> Option<&UpdateRecord> {
        let recent = self.recent.iter().find(|finished| *finished.id == *id).map(|finished| &finished.record);
        recent.or_else(|| {
            self.chunks.iter().find_map(|chunk| {
                let place = chunk.records.binary_search_by(|(known, _)| (**known).cmp(id)).ok()?;
                Some(&chunk.records[place].1)
            })
        })
    }

    /// How many are completed.
    pub fn completed(&self) -> usize {
        self.chunks.len() * CHUNK + self.recent.len() - self.rejected
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &UpdateRecord)> {
        let old = self.chunks.iter().flat_map(|chunk| &chunk.records).map(|(id, record)| (&**id, record));
        old.chain(self.recent.iter().map(|finished| (&*finished.id, &finished.record)))
    }

    /// Size of the stored form.
    pub fn encoded_len(&self) -> usize {
        self.encoded().map(Bytes::len).sum()
    }

    /// Appends the stored form to that of the run's state, of which it is a part.
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        self.encoded().for_each(|encoded| buffer.put_slice(encoded));
    }

    fn encoded(&self) -> impl Iterator<Item = &Bytes> {
        let recent = self.recent.iter().map(|finished| &finished.encoded);
        self.chunks.iter().map(|chunk| &chunk.encoded).chain(recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::RunState;

    fn record(completed_event_id: i64) -> UpdateRecord {
        UpdateRecord { accepted_event_id: 1, completed_event_id, ..Default::default() }
    }

    #[test]
    fn found_by_id_in_any_copy_and_read_back_from_their_stored_form() {
        let mut finished = FinishedUpdates::default();
        let mut copies = Vec::new();
        for number in 1..=200 {
            copies.push(finished.clone());
            finished.add(format!("u{number}"), record(number));
        }
        assert_eq!(finished.completed(), 200);
        assert!((1..=200).all(|number| finished.get(&format!("u{number}")) == Some(&record(number))));
        assert_eq!(finished.get("u0"), None);
        assert!(
            copies.iter().enumerate().all(|(known, copy)| copy.completed() == known && copy.iter().count() == known)
        );

        let mut stored = Vec::new();
        let waiting = RunState { updates: BTreeMap::from([("open".to_owned(), record(0))]), ..Default::default() };
        waiting.encode(&mut stored).expect("there is room");
        finished.encode(&mut stored);
        assert_eq!(stored.len(), waiting.encoded_len() + finished.encoded_len());
        let mut state = RunState::decode(&stored[..]).expect("it can be read");
        assert_eq!(state.updates.len(), 201);
        let again = FinishedUpdates::split_off(&mut state.updates);
        assert_eq!((again.completed(), state.updates.len()), (200, 1));
        assert_eq!(again.get("u77"), Some(&record(77)));
    }
}
