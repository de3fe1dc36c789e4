//! `segno task-queue ...`.

mod describe;

noun!(TaskQueue {
    /// Shows the pollers and the backlog of a task queue.
    Describe(describe::Describe),
});
