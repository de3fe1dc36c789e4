//! Activities: from the command that schedules one to the event that ends it.

pub mod attempt;
pub mod end;
pub mod options;
pub mod timeouts;

pub use attempt::*;
pub use end::*;
