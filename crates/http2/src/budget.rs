//! How many bytes a connection may hold, alone and together with all others.
//!
//! The limit of a connection is a dynamic threshold: its own maximum, or a quarter of what is free in the shared budget
//! if that is less. So a few greedy connections never take all of it, and a new connection finds some of it free. The
//! first [`OWN_BYTES`] of each connection are its own and are not counted in the shared budget: small calls are served
//! even when the shared budget is used up.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes that each connection may hold without asking the shared budget.
const OWN_BYTES: usize = 64 * 1024;
/// Reservations in the shared budget are multiples of this, so that most calls do not touch it.
const STEP_BYTES: usize = 64 * 1024;
/// A connection may hold one part in this many of what is free.
const FREE_DIVISOR: usize = 4;

/// A budget of bytes that all connections of a server share.
#[derive(Debug)]
pub struct SharedBudget {
    bytes_max: usize,
    reserved: AtomicUsize,
}

impl SharedBudget {
    /// A budget of which nothing is used.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, reserved: AtomicUsize::new(0) }
    }

    /// Bytes that connections have reserved, in steps of 64 KiB.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    fn free(&self) -> usize {
        self.bytes_max.saturating_sub(self.reserved())
    }
}

/// One connection's part of a budget.
#[derive(Debug)]
pub(crate) struct Budget {
    shared: Arc<SharedBudget>,
    /// Never more than this, however much is free.
    bytes_max: usize,
    reserved: usize,
}

impl Budget {
    pub(crate) fn new(shared: Arc<SharedBudget>, bytes_max: usize) -> Self {
        Self { shared, bytes_max, reserved: 0 }
    }

    /// Makes the reservation fit what is held now. A little more stays reserved, so that a connection whose calls come
    /// and go does not change the shared counter each time.
    pub(crate) fn reserve(&mut self, held: usize) {
        let needed = held.saturating_sub(OWN_BYTES).next_multiple_of(STEP_BYTES);
        let is_enough = needed <= self.reserved;
        if is_enough && (self.reserved - needed < 2 * STEP_BYTES && (needed > 0 || self.reserved == 0)) {
            return;
        }
        if is_enough {
            self.shared.reserved.fetch_sub(self.reserved - needed, Ordering::Relaxed);
        } else {
            self.shared.reserved.fetch_add(needed - self.reserved, Ordering::Relaxed);
        }
        self.reserved = needed;
    }

    /// Whether holding this many bytes is more than the connection may.
    pub(crate) fn is_exceeded_by(&self, held: usize) -> bool {
        held > OWN_BYTES.min(self.bytes_max) && held > self.bytes_max.min(self.dynamic_limit())
    }

    fn dynamic_limit(&self) -> usize {
        (self.shared.free() / FREE_DIVISOR).max(OWN_BYTES)
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.shared.reserved.fetch_sub(self.reserved, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn reservations_follow_what_is_held_and_end_with_the_connection() {
        let shared = Arc::new(SharedBudget::new(64 * MIB));
        let mut budget = Budget::new(shared.clone(), 16 * MIB);
        budget.reserve(OWN_BYTES);
        assert_eq!(shared.reserved(), 0);
        budget.reserve(OWN_BYTES + 1);
        assert_eq!(shared.reserved(), STEP_BYTES);
        budget.reserve(MIB);
        assert_eq!(shared.reserved(), MIB - OWN_BYTES);
        budget.reserve(MIB - STEP_BYTES);
        assert_eq!(shared.reserved(), MIB - OWN_BYTES, "a small change is not worth a write");
        budget.reserve(0);
        assert_eq!(shared.reserved(), 0);
        budget.reserve(MIB);
        drop(budget);
        assert_eq!(shared.reserved(), 0);
    }

    #[test]
    fn greedy_connections_leave_room_for_others() {
        let shared = Arc::new(SharedBudget::new(64 * MIB));
        let mut greedy: Vec<_> = (0..20).map(|_| (Budget::new(shared.clone(), 16 * MIB), 0)).collect();
        for _ in 0..2_000 {
            for (budget, held) in &mut greedy {
                if !budget.is_exceeded_by(*held + STEP_BYTES) {
                    *held += STEP_BYTES;
                    budget.reserve(*held);
                }
            }
        }
        assert!(shared.reserved() <= 64 * MIB);
        let late = Budget::new(shared.clone(), 16 * MIB);
        assert!(!late.is_exceeded_by(2 * MIB), "{} of 64 MiB are reserved", shared.reserved() / MIB);
        assert!(late.is_exceeded_by(17 * MIB));
        let alone = Budget::new(Arc::new(SharedBudget::new(64 * MIB)), 16 * MIB);
        assert!(!alone.is_exceeded_by(16 * MIB));
        assert!(alone.is_exceeded_by(16 * MIB + 1));
        // What is a connection's own is there even if nothing else is.
        let poor = Budget::new(Arc::new(SharedBudget::new(0)), 16 * MIB);
        assert!(!poor.is_exceeded_by(OWN_BYTES) && poor.is_exceeded_by(OWN_BYTES + 1));
    }
}
