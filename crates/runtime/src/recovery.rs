//! After a start: everything memory held is derived again from what is stored.

use std::sync::Arc;

use segno_engine::Run;

use crate::{error::CallError, node::Node};

const PAGE: usize = 4096;

impl Node {
    /// Arms wake-ups, offers waiting tasks and sends messages that were under way.
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<(), CallError> {
        let mut after = None;
        let mut open_runs = 0_usize;
        loop {
            let page = self.read(move |store| store.open_runs(after, PAGE)).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            open_runs += page.len();
            for open in page {
                if open.wake_at.is_some() {
                    self.timers.set(open.key, open.wake_at);
                }
                if open.dispatchable {
                    let Some(record) = self.read(move |store| store.load(open.key)).await? else { continue };
                    match Run::decode(record.state) {
                        Ok(run) => self.offer_all(&run),
                        Err(error) => tracing::error!(run = open.key.0, %error, "a stored run cannot be read"),
                    }
                }
            }
        }
        let mut after = None;
        let mut messages = 0_usize;
        loop {
            let page = self.read(move |store| store.outbox(after, PAGE)).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            messages += page.len();
            for row in page {
                let _ = self.outgoing.send(row);
            }
        }
        if open_runs > 0 || messages > 0 {
            tracing::info!(open_runs, messages, "recovered");
        }
        Ok(())
    }
}
