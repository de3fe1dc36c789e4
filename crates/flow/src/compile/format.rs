pub(crate) struct Unused;
