//! Completions of workflow tasks that come in pages, because they are too large for one request.
//!
//! Pages but the last one are kept in memory only, and for a limited time: a worker that gets the error that they are
//! lost sends all of them again. A completion takes effect with its last page.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use bytes::Bytes;
use prost::Message;
use segno_environment::hash::HashMap;
use segno_environment::lock::lock;
use segno_proto::command::Command;
use tokio::time::Instant;

/// Most pages of a completion.
pub const PAGES_MAX: i32 = 1024;
/// Most bytes of the pages of one task.
pub const TASK_PAGES_BYTES_MAX: usize = 40 * 1024 * 1024;
/// Most bytes of all pages.
const BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes that a page counts for at least: its place in memory.
const PAGE_BYTES_MIN: usize = 512;
/// Age from which on pages make room for others: no workflow task takes longer, however often it failed.
const AGE_MAX: Duration = Duration::from_secs(15 * 60);

/// Pages that wait for the last one of their completion.
#[derive(Debug, Default)]
pub struct CompletionPages {
    waiting: Mutex<PartialCompletions>,
}

#[derive(Debug, Default)]
struct PartialCompletions {
    by_task: HashMap<Bytes, Pages>,
    bytes: usize,
}

#[derive(Debug)]
struct Pages {
    since: Instant,
    bytes: usize,
    commands: BTreeMap<i32, Vec<Command>>,
}

impl PartialCompletions {
    fn remove(&mut self, task: &Bytes) -> Option<Pages> {
        let removed = self.by_task.remove(task)?;
        self.bytes -= removed.bytes;
        Some(removed)
    }

    /// Forgets pages of tasks that must be over.
    fn remove_old(&mut self) {
        let bytes = &mut self.bytes;
        self.by_task.retain(|_, pages| {
            let kept = pages.since.elapsed() <= AGE_MAX;
            *bytes -= if kept { 0 } else { pages.bytes };
            kept
        });
    }
}

/// Pages cannot be kept, or are not all there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagesLost {
    /// There is no room for this one. Those before it are gone.
    Full,
    /// None are there.
    All,
    /// This one is not there. The others are gone.
    Page(i32),
}

impl CompletionPages {
    /// Keeps a page of the task with this token. Of two with the same number the first counts.
    pub fn keep(&self, task: &Bytes, number: i32, commands: Vec<Command>) -> Result<(), PagesLost> {
        let mut waiting = lock(&self.waiting);
        let known = waiting.by_task.get(task);
        if known.is_some_and(|pages| pages.commands.contains_key(&number)) {
            return Ok(());
        }
        let before = known.map_or(0, |pages| pages.bytes);
        let bytes = PAGE_BYTES_MIN + commands.iter().map(Message::encoded_len).sum::<usize>();
        if waiting.bytes + bytes > BYTES_MAX {
            waiting.remove_old();
        }
        if before + bytes > TASK_PAGES_BYTES_MAX || waiting.bytes + bytes > BYTES_MAX {
            waiting.remove(task);
            return Err(PagesLost::Full);
        }
        waiting.bytes += bytes;
        let new = || Pages { since: Instant::now(), bytes: 0, commands: BTreeMap::new() };
        let pages = waiting.by_task.entry(task.clone()).or_insert_with(new);
        pages.bytes += bytes;
        pages.commands.insert(number, commands);
        Ok(())
    }

    /// The commands of the first `count` pages, in order. The pages are gone afterwards, also if some are missing.
    pub fn take(&self, task: &Bytes, count: i32) -> Result<Vec<Command>, PagesLost> {
        let mut waiting = lock(&self.waiting);
        let mut pages = waiting.remove(task).ok_or(PagesLost::All)?;
        let mut commands = Vec::new();
        for number in 0..count {
            commands.append(&mut pages.commands.remove(&number).ok_or(PagesLost::Page(number))?);
        }
        Ok(commands)
    }

    /// Forgets the pages of a task that is over.
    pub fn forget(&self, task: &Bytes) {
        lock(&self.waiting).remove(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_or_refused_leaves_nothing() {
        let (pages, task) = (CompletionPages::default(), Bytes::from_static(b"task"));
        let command = |kind| Command { command_type: kind, ..Default::default() };
        assert_eq!(pages.take(&task, 1), Err(PagesLost::All));
        pages.keep(&task, 1, vec![command(2)]).expect("room");
        pages.keep(&task, 0, vec![command(1)]).expect("room");
        pages.keep(&task, 0, vec![command(9)]).expect("known");
        assert_eq!(pages.take(&task, 2), Ok(vec![command(1), command(2)]));
        pages.keep(&task, 0, vec![command(1)]).expect("room");
        assert_eq!(pages.take(&task, 2), Err(PagesLost::Page(1)));
        assert_eq!(pages.take(&task, 1), Err(PagesLost::All));
        pages.keep(&task, 0, vec![command(1)]).expect("room");
        pages.waiting.lock().expect("a lock").by_task.get_mut(&task).expect("kept").bytes += TASK_PAGES_BYTES_MAX;
        pages.waiting.lock().expect("a lock").bytes += TASK_PAGES_BYTES_MAX;
        assert_eq!(pages.keep(&task, 1, vec![command(1)]), Err(PagesLost::Full));
        let waiting = pages.waiting.lock().expect("a lock");
        assert_eq!((waiting.by_task.len(), waiting.bytes), (0, 0));
    }
}
