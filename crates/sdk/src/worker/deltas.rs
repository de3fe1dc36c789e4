//! Changes of a worker's tasks that the server does not know yet.

use std::collections::BTreeSet;

use bytes::Bytes;

/// Tasks that began and ended since the last heartbeat that the server took.
#[derive(Default)]
pub(super) struct Deltas {
    begun: BTreeSet<Bytes>,
    finished: BTreeSet<Bytes>,
    /// The changes in the heartbeat that is under way.
    said: Option<(BTreeSet<Bytes>, BTreeSet<Bytes>)>,
}

impl Deltas {
    pub(super) fn begin(&mut self, token: Bytes) {
        self.begun.insert(token);
    }

    pub(super) fn finish(&mut self, token: Bytes) {
        // Of one that the server never heard of, it need not hear at all.
        if !self.begun.remove(&token) {
            self.finished.insert(token);
        }
    }

    /// The changes for the next heartbeat.
    pub(super) fn say(&mut self) -> (Vec<Bytes>, Vec<Bytes>) {
        self.repeat();
        let said = (std::mem::take(&mut self.begun), std::mem::take(&mut self.finished));
        let lists = (said.0.iter().cloned().collect(), said.1.iter().cloned().collect());
        self.said = Some(said);
        lists
    }

    /// The server took what was said.
    pub(super) fn taken(&mut self) {
        self.said = None;
    }

    /// Not acknowledged, or unknown: resend.
    pub(super) fn repeat(&mut self) {
        if let Some((begun, finished)) = self.said.take() {
            self.begun.extend(begun);
            self.finished.extend(finished);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &'static str) -> Bytes {
        Bytes::from_static(name.as_bytes())
    }

    #[test]
    fn deltas_are_said_until_they_are_taken() {
        let mut deltas = Deltas::default();
        deltas.begin(token("a"));
        deltas.begin(token("b"));
        deltas.finish(token("b"));
        assert_eq!(deltas.say(), (vec![token("a")], vec![]));
        // While that heartbeat is under way: the server may have heard of it.
        deltas.finish(token("a"));
        deltas.begin(token("c"));
        deltas.repeat();
        assert_eq!(deltas.say(), (vec![token("a"), token("c")], vec![token("a")]));
        deltas.taken();
        assert_eq!(deltas.say(), (vec![], vec![]));
        deltas.finish(token("c"));
        assert_eq!(deltas.say(), (vec![], vec![token("c")]));
    }
}
