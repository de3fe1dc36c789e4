//! Checkpoints: stored states of a script together with the run at that time. If the history before a checkpoint was
//! removed, a reset or a query of the past begins with it.

use bytes::Bytes;
use prost::Message;
use segno_engine::{
    Run,
    state::{RunState, Script, ScriptCheckpoint},
};
use segno_proto::events::HistoryEvent;
use segno_runs::{error::CallError, reset::find_checkpoint};
use segno_store::RunKey;

use super::{error::damaged, host::Scripts};

/// A checkpoint as it is stored.
#[derive(Clone, PartialEq, Message)]
struct StoredCheckpoint {
    /// The state of the script.
    #[prost(bytes = "bytes", tag = "1")]
    state: Bytes,
    /// The run after the turn that led to it.
    #[prost(bytes = "bytes", tag = "2")]
    run: Bytes,
}

/// The content of the checkpoint that is stored after a turn.
pub(super) fn content(run: &Run, state: &Bytes) -> Bytes {
    StoredCheckpoint { state: state.clone(), run: run.encode() }.encode_to_vec().into()
}

/// A checkpoint.
pub(super) struct Checkpoint {
    /// Where it is.
    pub record: ScriptCheckpoint,
    /// As it is stored.
    pub content: Bytes,
    /// The state of the script.
    pub state: Bytes,
    /// The run as it was.
    pub run: RunState,
    /// The engine's record of the script.
    pub script: Script,
}

impl Scripts {
    /// The checkpoint with which the past of a run before an event begins; `None` if it begins with the first event. `past`
    /// is that past: its first batch is never removed.
    pub(super) async fn checkpoint_for(
        &self,
        run: &Run,
        past: &[Vec<HistoryEvent>],
        until: i64,
    ) -> Result<Option<Checkpoint>, CallError> {
        if past.len() <= 1 { Ok(None) } else { self.checkpoint_before(run, until).await }
    }

    /// The newest checkpoint before an event, see [`find_checkpoint`].
    pub(super) async fn checkpoint_before(&self, run: &Run, until: i64) -> Result<Option<Checkpoint>, CallError> {
        let Some(record) = find_checkpoint(run, until)? else { return Ok(None) };
        let (key, slot) = (RunKey(run.info.run_key), u8::try_from(record.slot).unwrap_or(0));
        let content = self.runs.store.script_state(key, slot).await?;
        let content = content.ok_or_else(|| damaged(run, "a checkpoint of its script is missing"))?;
        let unreadable = |_| damaged(run, "a checkpoint of its script is not readable");
        let StoredCheckpoint { state, run: stored } = StoredCheckpoint::decode(content.clone()).map_err(unreadable)?;
        let then = Run::decode_state(stored).map_err(unreadable)?;
        let script = then.script.clone().ok_or_else(|| damaged(run, "a checkpoint is that of no script"))?;
        Ok(Some(Checkpoint { record, content, state, run: then, script }))
    }
}
