//! Closes a draft: what holds for the workflow task after every transition.

use prost::Message;
use segno_proto::enums::WorkflowTaskFailedCause;

use crate::{
    limits::{BUFFERED_BYTES_MAX, BUFFERED_EVENTS_MAX},
    parts::workflow_task,
    transition::{Applied, draft::Draft},
};

impl Draft {
    /// Closes the transition. Buffered events are flushed as soon as no worker holds a workflow task, and a full buffer fails
    /// the task that blocks it.
    pub fn finish<R>(mut self, reply: R) -> Applied<R> {
        if self.run.is_running() {
            if is_buffer_full(&self) {
                workflow_task::fail_by_server(&mut self, WorkflowTaskFailedCause::ForceCloseCommand);
            }
            if !self.run.state.task_started() && !self.run.state.buffered.is_empty() {
                self.flush_buffered();
                workflow_task::schedule_if_none(&mut self);
            }
        }
        self.seal(reply)
    }
}

/// Whether more events wait for the worker's answer than may.
fn is_buffer_full(draft: &Draft) -> bool {
    let buffered = &draft.run.state.buffered;
    buffered.len() > BUFFERED_EVENTS_MAX
        || buffered.iter().map(Message::encoded_len).sum::<usize>() > BUFFERED_BYTES_MAX
}
