//! `segno migration ...`.

mod status;

noun!(Migration {
    /// Compares what is open on an old server and on this one.
    Status(status::Status),
});
