//! Queues of signals that the code has not received yet.

use std::{collections::BTreeMap, sync::Arc};

use segno_proto::common::Payload;

use super::{
    operation::{BoxFuture, OpId},
    sorted::Sorted,
};
use crate::{converter::ConversionError, failure::Result};

/// Handlers that a workflow function registers while it runs.
pub(crate) type SignalHandler = Arc<
    dyn Fn(&str, Vec<Payload>) -> std::result::Result<Option<BoxFuture<Result<()>>>, ConversionError> + Send + Sync,
>;

#[derive(Default)]
pub(crate) struct Signals {
    /// Signals that the code has not received, by name and point of history.
    pub(super) waiting: Sorted<String, BTreeMap<u64, Vec<Payload>>>,
    /// Operations that wait for a signal, by name and age.
    pub(super) receivers: Sorted<String, Sorted<OpId, ()>>,
    pub handlers: Sorted<String, SignalHandler>,
}

impl Signals {
    /// About how many bytes the unreceived signals take.
    pub fn waiting_bytes(&self) -> usize {
        let payloads = self.waiting.values().flat_map(BTreeMap::values).flatten();
        payloads.map(|payload| payload.data.len() + 512).sum()
    }
}
