//! Keys for new runs: reserved in blocks, the next block before the last one is used up.

use std::sync::{Arc, Mutex};

use segno_environment::lock::lock;
use segno_store::{CommitError, RunKey, Store};

use crate::error::CallError;

/// Keys set aside with one write.
const BLOCK: u64 = 10_000;
/// The next block is set aside when this many keys are left.
const LOW: u64 = BLOCK / 2;

#[derive(Default)]
struct Keys {
    /// The keys of the current block that are left.
    block: std::ops::Range<u64>,
    /// The block after it.
    next: Option<std::ops::Range<u64>>,
    /// Whether a block is being set aside.
    reserving: bool,
}

/// Hands out keys for new runs. No start waits for a write unless keys are used up faster than they are set aside.
#[derive(Clone, Default)]
pub(crate) struct RunKeys {
    keys: Arc<Mutex<Keys>>,
    /// Held by the call that waits for a block.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl RunKeys {
    /// A key that no other run has.
    pub async fn take(&self, store: &Arc<dyn Store>) -> Result<RunKey, CallError> {
        loop {
            let (key, low) = self.try_take();
            if low {
                let (keys, store) = (self.clone(), store.clone());
                tokio::spawn(async move {
                    if let Err(error) = keys.reserve(&store).await {
                        tracing::warn!(%error, "run keys could not be set aside; trying again with the next start");
                    }
                });
            }
            if let Some(key) = key {
                return Ok(key);
            }
            let _turn = self.turn.lock().await;
            if lock(&self.keys).is_empty() {
                self.reserve(store).await?;
            }
        }
    }

    /// A key from memory, and whether the caller is to set the next block aside.
    fn try_take(&self) -> (Option<RunKey>, bool) {
        let mut keys = lock(&self.keys);
        if keys.block.is_empty()
            && let Some(next) = keys.next.take()
        {
            keys.block = next;
        }
        let key = keys.block.next().map(RunKey);
        let left = keys.block.end - keys.block.start;
        let low = key.is_some() && left < LOW && keys.next.is_none() && !keys.reserving;
        keys.reserving |= low;
        (key, low)
    }

    async fn reserve(&self, store: &Arc<dyn Store>) -> Result<(), CallError> {
        let reserved = store.reserve_run_keys(BLOCK).await;
        let mut keys = lock(&self.keys);
        keys.reserving = false;
        let first = match reserved {
            Ok(RunKey(first)) => first,
            Err(CommitError::Full) => return Err(CommitError::Full.into()),
            // Keys may be skipped: the change that needs one was not made.
            Err(error) => return Err(CallError::Unavailable(format!("the change was not made: {error}"))),
        };
        let block = first..first + BLOCK;
        if keys.block.is_empty() {
            keys.block = block;
        } else {
            // A block that comes while another waits is not needed; keys may be skipped.
            keys.next = Some(block);
        }
        Ok(())
    }
}

impl Keys {
    fn is_empty(&self) -> bool {
        self.block.is_empty() && self.next.is_none()
    }
}

#[cfg(test)]
mod tests {
    use segno_environment::hash::HashSet;
    use segno_store::MemoryStore;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn no_key_comes_twice_however_many_ask() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let keys = RunKeys::default();
        let mut askers = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (keys, store) = (keys.clone(), store.clone());
            askers.spawn(async move {
                let mut taken = Vec::new();
                for _ in 0..3 * BLOCK {
                    taken.push(keys.take(&store).await.expect("memory works").0);
                }
                taken
            });
        }
        let all: Vec<u64> = askers.join_all().await.into_iter().flatten().collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }
}
