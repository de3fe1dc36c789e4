//! Durable workflows in Rust: scheduling is a function call, replay is exact.
//!
//! A workflow is an ordinary `async fn`. The server keeps its history; when a worker ends, another one runs the function
//! again from its first line and resolves its futures from history, so that it goes on where it was, after days or years.
//! The protocol is Temporal's: programs run against Segno and against Temporal, beside workers in other languages. What
//! Temporal calls an activity is a *task* here.
//!
//! 1. [A first program](#a-first-program)
//! 2. [Tasks](#tasks)
//! 3. [Workflows](#workflows): [time and races](#time-and-races), [messages](#messages), [state](#state),
//!    [cancellation](#cancellation), [errors](#errors)
//! 4. [Clients and workers](#clients-and-workers), [Nexus operations](#nexus-operations)
//! 5. [Tests](#tests)
//! 6. [Changing a workflow](#changing-a-workflow)
//! 7. [Features of the crate](#features-of-the-crate)
//!
//! # A first program
//!
//! ```no_run
//! use segno_sdk::prelude::*;
//!
//! #[task]
//! async fn compose(name: String) -> Result<String> {
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! #[workflow]
//! async fn greet(ctx: Context, name: String) -> Result<String> {
//!     Ok(ctx.schedule::<Compose>(name).await?)
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let queue = Client::from_env().await?.queue("hello");
//!     let worker = queue.worker().workflow::<Greet>().task::<Compose>().build()?;
//!     println!("{}", worker.run_until(queue.execute::<Greet>("greet-1", "Ann".to_string())).await?);
//!     Ok(())
//! }
//! ```
//!
//! The attributes keep the functions, so that tests can call them, and add a type each, `Compose` and `Greet`, by which
//! they are scheduled, started and registered.
//!
//! # Tasks
//!
//! A [`task`](macro@task) does the work: it calls services, may fail, and is retried. Its arguments and result are values that
//! serde can write as JSON. One that is not `async` runs on a thread for blocking work; [`tasks`](macro@tasks) makes tasks of
//! methods that share a value; a [`TaskContext`] argument sends heartbeats and reports cancellation.
//!
//! ```
//! # use segno_sdk::prelude::*;
//! #[task(timeout = "30s", heartbeat_timeout = "5s", max_retries = 4)]
//! async fn copy(ctx: TaskContext, from: String, files: u32) -> Result<u32> {
//!     // The last heartbeat of the previous attempt.
//!     let done = ctx.heartbeat_details::<u32>().unwrap_or(0);
//!     for file in done..files {
//!         // ..
//!         ctx.heartbeat(file + 1).await?; // Err once the workflow gave up
//!     }
//!     Ok(files)
//! }
//! ```
//!
//! Tasks and workflows that are implemented elsewhere, in any language, are declared with [`define_task!`] and
//! [`define_workflow!`]; `_raw` variants take names and JSON.
//!
//! # Workflows
//!
//! A workflow decides what is done. [`WorkflowContext::schedule`] and its like return a future at once; commands are sent
//! together when the workflow waits. Any combinator works, those of tokio and futures included.
//!
//! ```
//! # use segno_sdk::prelude::*;
//! # define_task!(BookFlight = "book_flight": String => String);
//! # define_task!(BookHotel = "book_hotel": String => String);
//! #[workflow]
//! async fn trip(ctx: Context, to: String) -> Result<(String, String)> {
//!     let flight = ctx.schedule::<BookFlight>(to.clone());
//!     let hotel = ctx.schedule::<BookHotel>(to);
//!     Ok(try_join!(flight, hotel)?) // at the same time; if one fails the other is cancelled
//! }
//! ```
//!
//! ## Time and races
//!
//! The winner of a race is the event that comes first in history, now and in every replay. **Dropping a future cancels** its
//! operation, also that of the loser of a [`select!`]; `detach()` lets it go on.
//!
//! ```
//! # use segno_sdk::prelude::*;
//! # define_task!(Render = "render": String => String);
//! #[workflow]
//! async fn render_in_time(ctx: Context, scene: String) -> Result<String> {
//!     select! {
//!         video = ctx.schedule::<Render>(scene) => Ok(video?),
//!         _ = ctx.sleep(Duration::from_secs(600)) => Ok("placeholder.png".into()),
//!     }
//! }
//! ```
//!
//! Time is [`Context::now`], random values are [`WorkflowContext::random`] and [`WorkflowContext::random_uuid`], and
//! [`WorkflowContext::run`] executes a closure once and records its result. Clocks, threads and sockets of your own
//! would differ in a replay. The attribute does not compile the usual ones:
//!
//! ```compile_fail
//! # use segno_sdk::prelude::*;
//! #[workflow]
//! async fn remind(ctx: Context) -> Result<()> {
//!     std::thread::sleep(Duration::from_secs(60)); // error: write `ctx.sleep(duration).await`
//!     Ok(())
//! }
//! ```
//!
//! So with `tokio::time::sleep`, `tokio::spawn`, `SystemTime::now`, `rand::random` and others ([`workflow`](macro@workflow)). What
//! tokio offers panics in a workflow, also in functions that it calls, and the failure of the workflow task names the line and what to write.
//!
//! ## Messages
//!
//! A workflow with signals, queries and updates is an `impl` block. The fields of its type are its state; replay rebuilds
//! them. Each handler has a constant in upper case for clients.
//!
//! ```
//! # use segno_sdk::prelude::*;
//! #[derive(Default)]
//! struct Cart {
//!     cents: u64,
//!     paid: bool,
//! }
//!
//! #[workflow]
//! impl Cart {
//!     #[run]
//!     async fn run(ctx: Context<Self>) -> Result<u64> {
//!         ctx.wait_condition(|cart| cart.paid).await?;
//!         Ok(ctx.this().cents)
//!     }
//!     #[signal]
//!     fn pay(&mut self) {
//!         self.paid = true;
//!     }
//!     #[query]
//!     fn total(&self) -> u64 {
//!         self.cents
//!     }
//!     #[update]
//!     fn add(&mut self, cents: u64) -> Result<u64> {
//!         self.cents += cents;
//!         Ok(self.cents)
//!     }
//!     #[validate(add)]
//!     fn check(&self, cents: &u64) -> Result<()> {
//!         if *cents == 0 { Err("a price, please".into()) } else { Ok(()) }
//!     }
//! }
//!
//! # async fn example(cart: Handle<Cart>) -> Result<()> {
//! cart.update(Cart::ADD, 450).await?;
//! cart.signal(Cart::PAY, ()).await?;
//! # Ok(()) }
//! ```
//!
//! A handler may also be an `async fn` of a `Context<Self>` and do everything that a workflow may. One marked `dynamic`
//! takes messages without another handler. A workflow function receives signals as from a channel, with
//! [`Context::receive`].
//!
//! ## State
//!
//! [`WorkflowContext::set_state`] stores a value that [`Handle::state`] reads even when no worker runs. A promise,
//! [`WorkflowContext::promise`], is resolved from outside by [`Handle::resolve_promise`].
//!
//! ## Cancellation
//!
//! [`Handle::cancel`] ends what the workflow waits for with `Err`, so that `?` unwinds. [`Context::detached`] is a context
//! for clean-up that goes on; [`Context::scope`] one whose operations can be cancelled together.
//!
//! ## Errors
//!
//! Bodies return [`Result`]; `?` takes any error. Errors of tasks and children are [`Failure`]s, with a
//! [kind](Failure::kind) and a [cause](Failure::cause). `Failure::application("SoldOut", "no seats").non_retryable()`
//! makes one. An `Err` fails the workflow; a panic fails only the workflow task, and the run waits for repaired code.
//!
//! # Clients and workers
//!
//! ```no_run
//! # use segno_sdk::prelude::*;
//! # define_workflow!(Ship = "ship": String => String);
//! # async fn example() -> Result<()> {
//! let client = Client::builder().target("http://127.0.0.1:7233").namespace("shop").connect().await?;
//! let options = StartOptions { run_timeout: Some(Duration::from_secs(86_400)), ..StartOptions::new("ship-1") };
//! let handle = client.queue("shipping").start_with_options::<Ship>(options, "tea".to_string()).await?;
//! println!("{}", handle.result().await?);
//! # Ok(()) }
//! ```
//!
//! A worker is [`Queue::worker`] and [`Worker::run`], until [`ShutdownHandle::shutdown`]. [`converter`] has
//! encodings other than JSON and codecs, [`interceptor`] interceptors, [`schedule`] workflows that start at given
//! times, [`telemetry`] logs, traces and metrics.
//!
//! # Nexus operations
//!
//! A [`nexus_service`](macro@nexus_service) is a trait whose methods are operations, which workflows of other teams and
//! namespaces call through an endpoint. What implements it is registered with a worker; an operation may be a workflow.
//!
//! ```
//! # use segno_sdk::prelude::*;
//! # #[workflow] async fn ship_it(ctx: Context, item: String) -> Result<u32> { Ok(1) }
//! #[nexus_service]
//! pub trait Shipping {
//!     #[operation]
//!     async fn price(&self, item: String) -> Result<u32>;
//!     #[operation]
//!     async fn ship(&self, ctx: NexusContext, item: String) -> Result<StartedOperation<u32>>;
//! }
//!
//! struct Port;
//!
//! impl Shipping for Port {
//!     async fn price(&self, item: String) -> Result<u32> {
//!         if item.is_empty() { Err(segno_sdk::OperationError::failed("nothing to ship").into()) } else { Ok(7) }
//!     }
//!     async fn ship(&self, ctx: NexusContext, item: String) -> Result<StartedOperation<u32>> {
//!         Ok(ctx.start_workflow::<ShipIt>("", item).await?) // an id that follows from the request
//!     }
//! }
//!
//! #[workflow]
//! async fn buy(ctx: Context, item: String) -> Result<u32> {
//!     let port = ctx.nexus::<ShippingClient>("port"); // the endpoint
//!     Ok(port.price(item.clone()).await? + port.ship(item).await?)
//! }
//!
//! # fn example(queue: Queue) -> Result<()> {
//! let worker = queue.worker().workflow::<ShipIt>().nexus_service(ShippingHandler::new(Port)).build()?;
//! # Ok(()) }
//! ```
//!
//! # Tests
//!
//! With the feature `testing`, `testing::WorkflowTest` runs a workflow without a server on a virtual clock, and replays it
//! after every workflow task:
//!
//! ```
//! # #[cfg(feature = "testing")] {
//! # use segno_sdk::prelude::*;
//! # #[workflow] async fn wait(ctx: Context, days: u64) -> Result<u64> {
//! #     ctx.sleep(Duration::from_secs(days * 86_400)).await?; Ok(days) }
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let run = segno_sdk::testing::WorkflowTest::<Wait>::new(30).run().await;
//! assert_eq!(run.output.unwrap(), 30);
//! assert_eq!(run.elapsed.as_secs(), 30 * 86_400);
//! # } main() }
//! ```
//!
//! # Changing a workflow
//!
//! Open runs go on with the new code, which must issue the same commands in the same order. [`Context::patched`] keeps old
//! runs on the old path, and a [`replay::Replayer`] checks code against recorded histories.
//!
//! # Features of the crate
//!
//! All are off by default: `tls` (connections with TLS), `envconfig` (`temporal.toml`), `prometheus` (metrics over HTTP), `otel`
//! (propagation of OpenTelemetry traces), `schema` (JSON schemas of definitions), `testing`.

// So that the macros, whose expansions name the crate, also work inside it.
extern crate self as segno_sdk;

mod attributes;
pub mod client;
pub mod converter;
pub mod definition;
pub mod failure;
pub mod interceptor;
mod lock;
pub mod nexus;
pub mod options;
mod panics;
pub mod prelude;
mod priority;
pub mod raw;
pub mod replay;
pub mod schedule;
#[cfg(feature = "schema")]
pub mod schemas;
pub mod task;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub(crate) mod versioning;
pub mod worker;
pub mod workflow;

pub use attributes::{HasSearchAttributes, SearchAttribute, SearchValue};
pub use client::*;
pub use converter::{Arguments, Bytes, ConversionError, DataConverter, FailureConverter, codec::PayloadCodec};
pub use definition::*;
pub use failure::*;
pub use nexus::*;
pub use options::*;
pub use replay::{History, ReplayError, ReplayReport, Replayer};
pub use schedule::{Schedule, ScheduleAction, ScheduleHandle, ScheduleSpec};
#[cfg(feature = "schema")]
pub use schemas::Schemas;
pub use segno_sdk_macros::{nexus_service, task, tasks, workflow};
pub use task::*;
pub use telemetry::Metrics;
#[cfg(feature = "testing")]
pub use testing::{TaskTest, TestRun, TestServer, WorkflowTest};
pub use versioning::*;
pub use worker::*;
pub use workflow::*;

/// `tokio::select!` that asks its arms in the order in which they stand, so that side effects inside them have one order.
#[macro_export]
macro_rules! select {
    (biased; $($arms:tt)*) => { $crate::select! { $($arms)* } };
    ($($arms:tt)*) => { $crate::__private::tokio::select! { biased; $($arms)* } };
}

/// Calls that do not compile in a workflow, and one that does: the closure is executed once.
///
/// ```compile_fail
/// use segno_sdk::prelude::*;
/// #[workflow]
/// async fn wrong(ctx: Context) -> Result<()> {
///     let _ = &ctx;
///     std::thread::sleep(Duration::from_secs(1));
///     Ok(())
/// }
/// ```
///
/// ```compile_fail
/// use segno_sdk::prelude::*;
/// #[workflow]
/// async fn wrong(ctx: Context) -> Result<()> {
///     let _ = &ctx;
///     tokio::time::sleep(Duration::from_secs(1)).await;
///     Ok(())
/// }
/// ```
///
/// ```compile_fail
/// use segno_sdk::prelude::*;
/// #[workflow]
/// async fn wrong(ctx: Context) -> Result<()> {
///     let _ = &ctx;
///     let _handle = tokio::spawn(async {});
///     Ok(())
/// }
/// ```
///
/// ```compile_fail
/// use segno_sdk::prelude::*;
/// #[workflow]
/// async fn wrong(ctx: Context) -> Result<()> {
///     let _ = &ctx;
///     let _now = std::time::SystemTime::now();
///     Ok(())
/// }
/// ```
///
/// ```
/// use segno_sdk::prelude::*;
/// #[workflow]
/// async fn right(ctx: Context) -> Result<u64> {
///     Ok(ctx.run("now", || std::time::SystemTime::now().elapsed().map_or(0, |passed| passed.as_secs())).await?)
/// }
/// #[workflow(unchecked)]
/// async fn unchecked(ctx: Context) -> Result<()> {
///     let _ = (&ctx, std::time::SystemTime::now());
///     Ok(())
/// }
/// ```
#[cfg(doctest)]
mod calls_in_workflows {}

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
mod readme {}

/// For the macros of this crate.
#[doc(hidden)]
pub mod __private {
    pub use serde;
    pub use tokio;

    pub use crate::{converter::ALL_PAYLOADS, task::blocking};

    /// The result of a user's function, with the crate's own error.
    pub fn outcome<T, E: Into<crate::Error>>(outcome: Result<T, E>) -> crate::Result<T> {
        outcome.map_err(Into::into)
    }
}
