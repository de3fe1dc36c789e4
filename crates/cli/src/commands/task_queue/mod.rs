//! `segno task-queue ...`.

mod describe;

noun!(TaskQueue {
    /// Shows who polls a task queue, and how much waits in it.
    Describe(describe::Describe),
});
