//! The searchable facts of a run, read back from its row.

use segno_store::visibility::{Closed, Retry, VisibilityRow};
use segno_store::{NamespaceKey, ReadError};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::group::OPEN;
use crate::{layout, text};

/// The columns that [`of`] reads.
pub(crate) const COLUMNS: &str = "v.run_key, v.namespace, v.start_time, v.execution_time, v.workflow_type, v.workflow_id, \
    v.run_id, v.task_queue, v.parent_workflow_id, v.parent_run_id, v.root_workflow_id, v.root_run_id, v.ended, v.status, \
    v.history_length, v.history_bytes, v.transitions, v.activity_attempts, v.activity_failure, v.task_attempts, \
    v.task_failure, v.attributes::text";

/// How many columns those are.
pub(crate) const WIDTH: usize = 22;

/// The facts in a row, from column `at` on.
pub(crate) fn of(row: &Row, at: usize) -> Result<VisibilityRow, ReadError> {
    let key: i64 = row.get(at);
    let damaged = || ReadError::Damaged(format!("the searchable facts of run {key} cannot be read"));
    let id = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| damaged());
    let pair = |at: usize| {
        let (workflow_id, run_id): (Option<&[u8]>, Option<Uuid>) = (row.get(at), row.get(at + 1));
        workflow_id.zip(run_id).map(|(workflow_id, run_id)| Ok((id(workflow_id)?, run_id.to_string()))).transpose()
    };
    let retry = |at: usize| {
        let (attempt, failure): (Option<i32>, Option<String>) = (row.get(at), row.get(at + 1));
        attempt.map(|attempt| Retry { attempt, failure: failure.map(text::unescape) })
    };
    let ended: i64 = row.get(at + 12);
    let number = |place: usize| row.get::<_, Option<i64>>(at + place).ok_or_else(damaged);
    let closed = if ended == OPEN {
        None
    } else {
        let (history_length, history_bytes, transitions) = (number(14)?, number(15)?, number(16)?);
        Some(Closed { time: ended, history_length, history_bytes, transitions })
    };
    Ok(VisibilityRow {
        key: layout::run_key(key),
        namespace: NamespaceKey(row.get::<_, i32>(at + 1).cast_unsigned()),
        start_time: row.get(at + 2),
        execution_time: row.get(at + 3),
        workflow_type: text::unescape(row.get(at + 4)),
        workflow_id: id(row.get(at + 5))?,
        run_id: row.get::<_, Uuid>(at + 6).to_string(),
        task_queue: text::unescape(row.get(at + 7)),
        parent: pair(at + 8)?,
        root: pair(at + 10)?,
        closed,
        status: row.get::<_, i16>(at + 13).into(),
        activity_retry: retry(at + 17),
        task_retry: retry(at + 19),
        attributes: text::attributes_from_json(row.get(at + 21)).ok_or_else(damaged)?,
    })
}
