//! Durable workflows in Rust.
//!
//! A workflow is an ordinary `async fn`. Scheduling a task is a function call that returns a future at once; `join!`,
//! `select!` and `?` work as everywhere. Its progress is kept by the server, and replay is exact.

pub mod client;
pub mod converter;
pub mod definition;
pub mod failure;
pub mod options;
// pub mod prelude;
pub mod task;
pub mod worker;
pub mod workflow;

pub use client::*;
pub use definition::*;
pub use failure::*;
pub use options::*;
// pub use segno_sdk_macros::{task, tasks, workflow};
pub use task::*;
pub use worker::*;
pub use workflow::*;

/// `tokio::select!` that asks its arms in the order in which they stand, so that side effects inside them have one order.
#[macro_export]
macro_rules! select {
    ($($arms:tt)*) => { $crate::__private::tokio::select! { biased; $($arms)* } };
}

/// For the macros of this crate.
#[doc(hidden)]
pub mod __private {
    pub use serde;
    pub use tokio;

    pub use crate::task::blocking;
}
