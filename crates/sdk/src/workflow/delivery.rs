//! Delivery of signals: to the operations that wait for them, in order, or kept until the code receives them.

use std::{collections::BTreeMap, sync::Arc};

use segno_proto::common::Payload;

use super::{
    core::{Closing, Core, Shared, SpawnedFuture},
    operation::{BoxFuture, OpId, OpKind},
    sorted::Sorted,
};
use crate::failure::Result;

impl Core {
    /// A signal, received now or later.
    pub fn deliver_signal(&mut self, name: &str, payloads: Vec<Payload>) {
        let at = self.next_resolution();
        self.hand_over(name, at, payloads);
    }

    fn hand_over(&mut self, name: &str, at: u64, payloads: Vec<Payload>) {
        let receiver = self.signals.receivers.get_mut(name).and_then(Sorted::pop_first);
        match receiver {
            Some((receiver, ())) => self.resolve_at(receiver, at, Ok(payloads)),
            None => {
                self.signals.waiting.get_or_insert_with(name.to_owned(), BTreeMap::new).insert(at, payloads);
            }
        }
    }

    /// An operation that waits for the next signal of a name.
    pub fn receive(&mut self, scope: u64, name: &str) -> OpId {
        let id = self.add(scope, OpKind::Receive { name: name.to_owned() });
        match self.take_signal(name) {
            Some((at, payloads)) => self.resolve_at(id, at, Ok(payloads)),
            None => {
                self.signals.receivers.get_or_insert_with(name.to_owned(), Sorted::default).insert(id, ());
            }
        }
        id
    }

    pub fn take_signal(&mut self, name: &str) -> Option<(u64, Vec<Payload>)> {
        let waiting = self.signals.waiting.get_mut(name)?;
        let first = waiting.pop_first();
        if waiting.is_empty() {
            self.signals.waiting.remove(name);
        }
        first
    }

    /// The earliest signal of any name that was not received.
    pub fn take_any_signal(&mut self) -> Option<(String, Vec<Payload>)> {
        let earliest = self.signals.waiting.iter().min_by_key(|(_, waiting)| waiting.keys().next().copied());
        let name = earliest?.0.clone();
        self.take_signal(&name).map(|(_, payloads)| (name, payloads))
    }

    /// The receiver is gone; what it was given goes to the next, or back to the front.
    pub fn unreceive(&mut self, name: &str, id: OpId, given: Option<(u64, Vec<Payload>)>) {
        if let Some(receivers) = self.signals.receivers.get_mut(name) {
            receivers.remove(&id);
            if receivers.is_empty() {
                self.signals.receivers.remove(name);
            }
        }
        if let Some((at, payloads)) = given {
            self.hand_over(name, at, payloads);
        }
    }
}

/// Lets the handler of a signal go on by itself. `abandoned`: the end of the workflow may cut it off.
pub(crate) fn spawn_signal_handler(shared: &Arc<Shared>, future: BoxFuture<Result<()>>, abandoned: bool) {
    let mut core = shared.core();
    let id = core.next_root();
    core.unfinished.begin(abandoned);
    let inner = shared.clone();
    let future = Box::pin(async move {
        let result = future.await;
        let mut core = inner.core();
        core.unfinished.end(abandoned);
        if let Err(error) = result
            && core.closing.is_none()
        {
            core.closing = Some(Closing::Returned(Err(error)));
        }
    });
    core.spawned.push(SpawnedFuture { id, future, update: None });
    drop(core);
    shared.queue.push(id);
}
