//! The parameters of a group's statement: one array for each column.

use std::borrow::Cow;

use segno_store::{Bucket, CommitError};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::layout;
use crate::normal::{Normal, Pointer};
use crate::statement::{ALL, ENTRIES, USUAL};
use crate::text;

/// The end of an open run.
pub(crate) const OPEN: i64 = i64::MAX;

/// Columns of the runs; see `RUN_COLUMNS`.
#[derive(Default)]
struct Runs<'a> {
    key: Vec<i64>,
    expected: Vec<i64>,
    version: Vec<i64>,
    fresh: Vec<bool>,
    open: Vec<bool>,
    dispatchable: Vec<bool>,
    held: Vec<bool>,
    wake_at: Vec<Option<i64>>,
    checksum: Vec<i32>,
    state: Vec<&'a [u8]>,
    has_facts: Vec<bool>,
    namespace: Vec<Option<i32>>,
    bucket: Vec<Option<i32>>,
    start_time: Vec<Option<i64>>,
    execution_time: Vec<Option<i64>>,
    workflow_type: Vec<Option<Cow<'a, str>>>,
    workflow_id: Vec<Option<&'a [u8]>>,
    run_id: Vec<Option<Uuid>>,
    task_queue: Vec<Option<Cow<'a, str>>>,
    parent_workflow_id: Vec<Option<&'a [u8]>>,
    parent_run_id: Vec<Option<Uuid>>,
    root_workflow_id: Vec<Option<&'a [u8]>>,
    root_run_id: Vec<Option<Uuid>>,
    ended: Vec<Option<i64>>,
    status: Vec<Option<i16>>,
    history_length: Vec<Option<i64>>,
    history_bytes: Vec<Option<i64>>,
    transitions: Vec<Option<i64>>,
    activity_attempts: Vec<Option<i32>>,
    activity_failure: Vec<Option<Cow<'a, str>>>,
    task_attempts: Vec<Option<i32>>,
    task_failure: Vec<Option<Cow<'a, str>>>,
    attributes: Vec<Option<String>>,
}

/// Rows of history.
#[derive(Default)]
struct Batches<'a> {
    id: Vec<i64>,
    last_event: Vec<i32>,
    checksum: Vec<i32>,
    events: Vec<&'a [u8]>,
}

#[derive(Default)]
struct Entries {
    attribute: Vec<i64>,
    value: Vec<Vec<u8>>,
    ended: Vec<i64>,
    start_time: Vec<i64>,
    run: Vec<i64>,
}

/// Pointers, with a run that is expected if one is.
#[derive(Default)]
struct Pointers<'a> {
    namespace: Vec<i32>,
    workflow_id: Vec<&'a [u8]>,
    expected: Vec<i64>,
    run: Vec<Option<i64>>,
}

/// The arrays that only the long statement has.
#[derive(Default)]
struct LongStatement<'a> {
    moved: Pointers<'a>,
    reset: Pointers<'a>,
    message: Vec<i64>,
    message_bucket: Vec<Option<i32>>,
    message_checksum: Vec<i32>,
    message_bytes: Vec<&'a [u8]>,
    arrived: Vec<i64>,
    script: Vec<i64>,
    script_checksum: Vec<i32>,
    script_state: Vec<&'a [u8]>,
    compacted: Batches<'a>,
    compacted_from: Vec<i64>,
    compacted_to: Vec<i64>,
    document_namespace: Vec<i32>,
    document_name: Vec<Cow<'a, str>>,
    document_checksum: Vec<i32>,
    document_content: Vec<&'a [u8]>,
    removed_namespace: Vec<i32>,
    removed_name: Vec<Cow<'a, str>>,
    revises: bool,
    deleted: Vec<i64>,
    version_of: Vec<i64>,
    version: Vec<i64>,
    absent_messages: Vec<i64>,
    absent: Pointers<'a>,
    absent_batches: Vec<i64>,
}

/// The arrays of a wave.
#[derive(Default)]
pub(crate) struct Arrays<'a> {
    runs: Runs<'a>,
    batches: Batches<'a>,
    entries: Entries,
    removes_entries: bool,
    new: Pointers<'a>,
    rest: Option<Box<LongStatement<'a>>>,
}

/// The numbers that identify the commit sequence and the group.
pub(crate) struct Head {
    pub(crate) node: i64,
    pub(crate) sequence: i32,
    pub(crate) group: i64,
    pub(crate) slot: i16,
}

impl<'a> Arrays<'a> {
    /// Fails for a wave of one only: what cannot be stored is found before anything is sent.
    pub(crate) fn of<'b>(wave: impl Iterator<Item = &'b Normal<'a>>) -> Result<Self, CommitError>
    where
        'a: 'b,
    {
        let mut arrays = Self::default();
        for commit in wave {
            if arrays.rest.is_none() && !commit.is_usual() {
                arrays.rest = Some(Box::default());
            }
            arrays.add_runs(commit)?;
            arrays.batches.extend(&commit.batches);
            arrays.add_pointers(commit);
            if let Some(rest) = &mut arrays.rest {
                rest.add(commit);
            }
        }
        Ok(arrays)
    }

    pub(crate) fn statement(&self) -> &'static str {
        match (&self.rest, self.has_entries()) {
            (Some(_), _) => &ALL,
            (None, true) => &ENTRIES,
            (None, false) => &USUAL,
        }
    }

    /// A run had entries and has none, so that they are to be removed.
    pub(crate) fn remove_entries(&mut self) {
        self.removes_entries = true;
    }

    pub(crate) fn has_entries(&self) -> bool {
        // An empty list is an attribute without entries.
        self.removes_entries || self.runs.attributes.iter().any(Option::is_some)
    }

    fn add_runs(&mut self, commit: &Normal<'a>) -> Result<(), CommitError> {
        let refused = |what: &str| CommitError::NotDone(format!("{what} is not a run id in Segno's form"));
        for run in &commit.runs {
            let (write, facts, all) = (run.write, run.facts, &mut self.runs);
            let fresh = run.expected == 0;
            let flags = [write.open, write.dispatchable];
            all.key.push(run.row);
            all.expected.push(run.expected);
            all.version.push(run.version);
            all.fresh.push(fresh);
            all.open.push(write.open);
            all.dispatchable.push(write.dispatchable);
            all.held.push(write.wake_at.is_some());
            all.wake_at.push(write.wake_at);
            all.checksum.push(layout::run_checksum(run.row, run.version, write.wake_at, flags, &write.state));
            all.state.push(&write.state);
            all.has_facts.push(facts.is_some());
            let ended = facts.map(|facts| facts.closed.map_or(OPEN, |closed| closed.time));
            let closed = facts.and_then(|facts| facts.closed);
            all.namespace.push(facts.map(|facts| facts.namespace.0.cast_signed()));
            all.ended.push(ended);
            all.status.push(facts.map(|facts| i16::try_from(facts.status).unwrap_or(i16::MAX)));
            all.history_length.push(closed.map(|closed| closed.history_length));
            all.history_bytes.push(closed.map(|closed| closed.history_bytes));
            all.transitions.push(closed.map(|closed| closed.transitions));
            let (activity, task) = match facts {
                Some(facts) => (facts.activity_retry.as_ref(), facts.task_retry.as_ref()),
                None => (None, None),
            };
            all.activity_attempts.push(activity.map(|retry| retry.attempt));
            all.activity_failure.push(activity.and_then(|retry| retry.failure.as_deref()).map(text::escape));
            all.task_attempts.push(task.map(|retry| retry.attempt));
            all.task_failure.push(task.and_then(|retry| retry.failure.as_deref()).map(text::escape));
            all.attributes.push(facts.and_then(|facts| text::attributes_to_json(&facts.attributes)));
            // What never changes is sent once.
            let first = facts.filter(|_| fresh);
            all.bucket.push(first.map(|facts| Bucket::of(facts.namespace, &facts.workflow_id).0.into()));
            all.start_time.push(first.map(|facts| facts.start_time));
            all.execution_time.push(first.map(|facts| facts.execution_time));
            all.workflow_type.push(first.map(|facts| text::escape(&facts.workflow_type)));
            all.workflow_id.push(first.map(|facts| facts.workflow_id.as_bytes()));
            all.task_queue.push(first.map(|facts| text::escape(&facts.task_queue)));
            let id = |id: Option<&str>, what| id.map(|id| text::run_id(id).ok_or_else(|| refused(what))).transpose();
            let parent = first.and_then(|facts| facts.parent.as_ref());
            let root = first.and_then(|facts| facts.root.as_ref());
            all.run_id.push(id(first.map(|facts| facts.run_id.as_str()), "the run's id")?);
            all.parent_workflow_id.push(parent.map(|parent| parent.0.as_bytes()));
            all.parent_run_id.push(id(parent.map(|parent| parent.1.as_str()), "the id of the parent run")?);
            all.root_workflow_id.push(root.map(|root| root.0.as_bytes()));
            all.root_run_id.push(id(root.map(|root| root.1.as_str()), "the id of the root run")?);
            if let (Some(facts), Some(ended)) = (facts, ended) {
                for (number, value) in &facts.attributes {
                    for value in text::entries(value) {
                        let entries = &mut self.entries;
                        entries.attribute.push(text::attribute_entry(facts.namespace.0, *number));
                        entries.value.push(value);
                        entries.ended.push(ended);
                        entries.start_time.push(facts.start_time);
                        entries.run.push(run.row);
                    }
                }
            }
        }
        Ok(())
    }

    fn add_pointers(&mut self, commit: &Normal<'a>) {
        for ((namespace, workflow_id), pointer) in &commit.pointers {
            let name = (namespace.0.cast_signed(), workflow_id.as_bytes());
            if let Pointer::New(run) = pointer {
                self.new.push(name, 0, Some(*run));
            }
            let Some(rest) = &mut self.rest else { continue };
            match pointer {
                Pointer::New(_) => {}
                Pointer::Absent => rest.absent.push(name, 0, None),
                Pointer::Moved(expected, to) => rest.moved.push(name, *expected, *to),
                Pointer::Reset(to) => rest.reset.push(name, 0, *to),
            }
        }
    }

    /// All parameters, in the order of the statement.
    pub(crate) fn parameters<'b>(&'b self, head: &'b Head) -> Vec<&'b (dyn ToSql + Sync)> {
        let runs = &self.runs;
        let mut all: Vec<&(dyn ToSql + Sync)> = vec![
            &head.node,
            &head.sequence,
            &head.group,
            &head.slot,
            &runs.key,
            &runs.expected,
            &runs.version,
            &runs.fresh,
            &runs.open,
            &runs.dispatchable,
            &runs.held,
            &runs.wake_at,
            &runs.checksum,
            &runs.state,
            &runs.has_facts,
            &runs.namespace,
            &runs.bucket,
            &runs.start_time,
            &runs.execution_time,
            &runs.workflow_type,
            &runs.workflow_id,
            &runs.run_id,
            &runs.task_queue,
            &runs.parent_workflow_id,
            &runs.parent_run_id,
            &runs.root_workflow_id,
            &runs.root_run_id,
            &runs.ended,
            &runs.status,
            &runs.history_length,
            &runs.history_bytes,
            &runs.transitions,
            &runs.activity_attempts,
            &runs.activity_failure,
            &runs.task_attempts,
            &runs.task_failure,
            &runs.attributes,
        ];
        self.batches.parameters(&mut all);
        all.extend([&self.new.namespace as &(dyn ToSql + Sync), &self.new.workflow_id, &self.new.run]);
        if self.rest.is_some() || self.has_entries() {
            let entries = &self.entries;
            all.extend([
                &entries.attribute as &(dyn ToSql + Sync),
                &entries.value,
                &entries.ended,
                &entries.start_time,
                &entries.run,
            ]);
        }
        if let Some(rest) = &self.rest {
            rest.parameters(&mut all);
        }
        all
    }
}

impl<'a> Batches<'a> {
    fn extend<'b>(&mut self, batches: impl IntoIterator<Item = &'b (i64, &'a segno_store::HistoryBatch)>)
    where
        'a: 'b,
    {
        batches.into_iter().for_each(|(id, batch)| self.push(*id, batch));
    }

    fn push(&mut self, id: i64, batch: &'a segno_store::HistoryBatch) {
        self.id.push(id);
        self.last_event.push(i32::try_from(batch.last_event_id).unwrap_or(i32::MAX));
        self.checksum.push(layout::batch_checksum(id, batch.last_event_id, &batch.events));
        self.events.push(&batch.events);
    }

    fn parameters<'b>(&'b self, all: &mut Vec<&'b (dyn ToSql + Sync)>) {
        all.extend([&self.id as &(dyn ToSql + Sync), &self.last_event, &self.checksum, &self.events]);
    }
}

impl<'a> Pointers<'a> {
    fn push(&mut self, (namespace, workflow_id): (i32, &'a [u8]), expected: i64, run: Option<i64>) {
        self.namespace.push(namespace);
        self.workflow_id.push(workflow_id);
        self.expected.push(expected);
        self.run.push(run);
    }
}

impl<'a> LongStatement<'a> {
    fn add(&mut self, commit: &Normal<'a>) {
        for (id, bucket, message) in &commit.messages {
            self.message.push(*id);
            self.message_bucket.push(bucket.map(|bucket| bucket.0.into()));
            self.message_checksum.push(layout::row_checksum(*id, message));
            self.message_bytes.push(message);
        }
        self.arrived.extend(&commit.arrived);
        for (id, state) in &commit.scripts {
            self.script.push(*id);
            self.script_checksum.push(layout::row_checksum(*id, state));
            self.script_state.push(state);
        }
        for (id, batch) in &commit.compacted {
            self.compacted.push(*id, batch);
        }
        for (from, to) in &commit.compacted_ranges {
            self.compacted_from.push(*from);
            self.compacted_to.push(*to);
        }
        for ((namespace, name), content) in &commit.documents {
            let (namespace, name) = (namespace.0.cast_signed(), text::escape(name));
            match content {
                Some(content) => {
                    self.document_namespace.push(namespace);
                    self.document_checksum.push(layout::document_checksum(namespace, name.as_bytes(), content));
                    self.document_name.push(name);
                    self.document_content.push(content);
                }
                None => {
                    self.removed_namespace.push(namespace);
                    self.removed_name.push(name);
                }
            }
        }
        self.revises |= commit.revises;
        self.deleted.extend(&commit.deleted);
        for (run, version) in &commit.versions {
            self.version_of.push(*run);
            self.version.push(*version);
        }
        self.absent_messages.extend(&commit.absent_messages);
        self.absent_batches.extend(&commit.absent_batches);
    }

    fn parameters<'b>(&'b self, all: &mut Vec<&'b (dyn ToSql + Sync)>) {
        let (moved, reset) = (&self.moved, &self.reset);
        all.extend([&moved.namespace as &(dyn ToSql + Sync), &moved.workflow_id, &moved.expected, &moved.run]);
        all.extend([&reset.namespace as &(dyn ToSql + Sync), &reset.workflow_id, &reset.run]);
        all.extend([
            &self.message as &(dyn ToSql + Sync),
            &self.message_bucket,
            &self.message_checksum,
            &self.message_bytes,
            &self.arrived,
            &self.script,
            &self.script_checksum,
            &self.script_state,
        ]);
        self.compacted.parameters(all);
        all.extend([
            &self.compacted_from as &(dyn ToSql + Sync),
            &self.compacted_to,
            &self.document_namespace,
            &self.document_name,
            &self.document_checksum,
            &self.document_content,
            &self.removed_namespace,
            &self.removed_name,
            &self.revises,
            &self.deleted,
            &self.version_of,
            &self.version,
            &self.absent_messages,
            &self.absent.namespace,
            &self.absent.workflow_id,
            &self.absent_batches,
        ]);
    }
}
