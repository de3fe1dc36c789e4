//! `segno deployment ...`: versions of workers.

mod verify;

noun!(Deployment {
    /// Tries whether workers of a version can replay the runs that would move to it.
    Verify(verify::Verify),
});
