//! Durable workflows in Rust.
//!
//! A workflow is an ordinary `async fn`. Scheduling a task is a function call that returns a future at once; `join!`,
//! `select!` and `?` work as everywhere. Its progress is kept by the server, and replay is exact.

// So that the macros, whose expansions name the crate, also work inside it.
extern crate self as segno_sdk;

pub mod client;
pub mod converter;
pub mod definition;
pub mod failure;
pub mod interceptor;
pub mod options;
pub mod prelude;
pub mod raw;
pub mod replay;
pub mod schedule;
mod schema;
pub mod task;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod worker;
pub mod workflow;

pub use client::*;
pub use converter::{Bytes, ConversionError, DataConverter, FailureConverter, codec::PayloadCodec};
pub use definition::*;
pub use failure::*;
pub use options::*;
pub use replay::{History, ReplayError, ReplayReport, Replayer};
pub use schedule::{Schedule, ScheduleAction, ScheduleHandle, ScheduleSpec};
pub use segno_sdk_macros::{task, tasks, workflow};
pub use task::*;
pub use telemetry::Metrics;
#[cfg(feature = "testing")]
pub use testing::{TaskTest, TestRun, TestServer, WorkflowTest};
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

    pub use crate::{converter::ALL_PAYLOADS, task::blocking};

    /// What a function of the user's returned, with the error that all have.
    pub fn outcome<T, E: Into<crate::Error>>(outcome: Result<T, E>) -> crate::Result<T> {
        outcome.map_err(Into::into)
    }
}
