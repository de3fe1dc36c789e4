//! Which workers use which connections, and which polls were cut off when a connection broke.
//!
//! A worker is reached over the connections of its calls. All workers of a process share one queue for commands, so a
//! poll of that queue stands for all of them.
//!
//! A broken connection alone does not show that its workers are gone: one without free slots makes no calls and
//! reconnects when it has a result to report. But a poll that was cut off does, because a running worker repeats it at
//! once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use segno_environment::{connection::ConnectionId, hash::HashMap};
use segno_store::NamespaceKey;

/// Who is behind a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// A worker, by its instance key.
    Worker(NamespaceKey, Arc<str>),
    /// All workers that take commands on this queue.
    Control(NamespaceKey, Arc<str>),
}

/// How a connection serves a party.
#[derive(Clone, Copy, Debug, Default)]
struct ConnectionState {
    /// Polls that wait.
    polls: u32,
    /// The newest poll was cut off.
    cut: bool,
}

#[derive(Debug, Default)]
struct PartyConnections {
    open: BTreeMap<ConnectionId, ConnectionState>,
    /// A poll was lost with a connection, and no call came since.
    cut: bool,
}

/// All connections and whom they lead to.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    parties: HashMap<Party, PartyConnections>,
    connections: HashMap<ConnectionId, BTreeSet<Party>>,
}

impl ConnectionTable {
    /// A call of a party came on a connection.
    pub fn called(&mut self, party: &Party, connection: ConnectionId) {
        let lines = self.parties.entry(party.clone()).or_default();
        lines.cut = false;
        if lines.open.insert(connection, lines.open.get(&connection).copied().unwrap_or_default()).is_none() {
            self.connections.entry(connection).or_default().insert(party.clone());
        }
    }

    /// A poll begins to wait.
    pub fn poll_begins(&mut self, party: &Party, connection: ConnectionId) {
        self.called(party, connection);
        if let Some(line) = self.line(party, connection) {
            line.polls += 1;
            line.cut = false;
        }
    }

    /// A poll ends: with an answer, or because its caller is gone.
    pub(crate) fn poll_ends(&mut self, party: &Party, connection: ConnectionId, answered: bool) {
        if let Some(line) = self.line(party, connection) {
            line.polls = line.polls.saturating_sub(1);
            line.cut = !answered;
        }
    }

    fn line(&mut self, party: &Party, connection: ConnectionId) -> Option<&mut ConnectionState> {
        self.parties.get_mut(party)?.open.get_mut(&connection)
    }

    /// All connections, and whom they lead to.
    pub fn all(&self) -> Vec<(ConnectionId, Party)> {
        let all = self.connections.iter();
        all.flat_map(|(connection, parties)| parties.iter().map(|party| (*connection, party.clone()))).collect()
    }

    /// Whether a connection leads to any party.
    pub fn is_known(&self, connection: ConnectionId) -> bool {
        self.connections.contains_key(&connection)
    }

    /// A connection is gone: it leads no more to so many of its parties. Returns them, and those of them whose poll is lost with it.
    pub(crate) fn close_some(&mut self, connection: ConnectionId, most: usize) -> (BTreeSet<Party>, Vec<Party>) {
        let Some(all) = self.connections.get_mut(&connection) else { return Default::default() };
        let parties: BTreeSet<Party> = std::iter::from_fn(|| all.pop_first()).take(most).collect();
        if all.is_empty() {
            self.connections.remove(&connection);
        }
        let mut cut_off = Vec::new();
        for party in &parties {
            let Some(lines) = self.parties.get_mut(party) else { continue };
            if let Some(line) = lines.open.remove(&connection)
                && (line.polls > 0 || line.cut)
            {
                lines.cut = true;
                cut_off.push(party.clone());
            }
            if lines.open.is_empty() && !lines.cut {
                self.parties.remove(party);
            }
        }
        (parties, cut_off)
    }

    /// Whether any connection leads to a party.
    pub fn is_open(&self, party: &Party) -> bool {
        self.parties.get(party).is_some_and(|lines| !lines.open.is_empty())
    }

    /// Whether a poll was lost with a connection and nothing was heard since.
    pub(crate) fn is_cut(&self, party: &Party) -> bool {
        self.parties.get(party).is_some_and(|lines| lines.cut)
    }

    /// How many connections lead to a party.
    pub fn count(&self, party: &Party) -> usize {
        self.parties.get(party).map_or(0, |lines| lines.open.len())
    }

    /// Forgets a party.
    pub fn forget(&mut self, party: &Party) {
        let Some(lines) = self.parties.remove(party) else { return };
        for connection in lines.open.keys() {
            if let Some(parties) = self.connections.get_mut(connection) {
                parties.remove(party);
                if parties.is_empty() {
                    self.connections.remove(connection);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(key: &str) -> Party {
        Party::Worker(NamespaceKey(1), Arc::from(key))
    }

    #[test]
    fn a_connection_that_closes_tells_nothing_unless_a_poll_is_lost() {
        let mut table = ConnectionTable::default();
        let (a, c1, c2) = (worker("a"), ConnectionId(1), ConnectionId(2));
        table.poll_begins(&a, c1);
        table.poll_ends(&a, c1, true);
        assert_eq!(table.close_some(c1, 9).0.len(), 1);
        assert!(!table.is_open(&a) && !table.is_cut(&a), "it was working");
        // Whichever is noticed first: the end of the poll, or of the connection.
        for poll_first in [true, false] {
            table.poll_begins(&a, c1);
            table.called(&a, c2);
            if poll_first {
                table.poll_ends(&a, c1, false);
            }
            table.close_some(c1, 9);
            table.poll_ends(&a, c1, false);
            assert!(table.is_open(&a) && table.is_cut(&a));
            table.called(&a, c2);
            assert!(!table.is_cut(&a), "it was heard of");
            table.close_some(c2, 9);
            assert!(!table.is_open(&a));
        }
        assert!(table.connections.is_empty() && table.parties.is_empty());
    }

    #[test]
    fn forgetting_leaves_nothing() {
        let mut table = ConnectionTable::default();
        table.poll_begins(&worker("a"), ConnectionId(1));
        table.called(&worker("b"), ConnectionId(1));
        table.forget(&worker("a"));
        assert_eq!(table.close_some(ConnectionId(1), 9).0, BTreeSet::from([worker("b")]));
        assert!(table.connections.is_empty() && table.parties.is_empty());
    }
}
