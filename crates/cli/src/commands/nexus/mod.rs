//! `segno nexus ...`.

mod endpoint;

noun!(Nexus {
    /// Lists, creates, changes and deletes endpoints: names of task queues whose workers handle operations.
    Endpoint(endpoint::Endpoint),
});
