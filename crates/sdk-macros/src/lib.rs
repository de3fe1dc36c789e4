//! The attributes of segno-sdk: [`macro@task`], [`macro@tasks`], [`macro@workflow`] and [`macro@nexus_service`].
//!
//! Each keeps the annotated item, so that tests can call it directly, and adds the types that name it elsewhere. The
//! expansions only refer to `::segno_sdk`; items that are not public are in `::segno_sdk::__private`.

mod calls;
mod duration;
mod handlers;
mod names;
mod nexus;
mod options;
mod signature;
mod task;
mod tasks;
#[cfg(test)]
mod tests;
mod workflow;

use proc_macro::TokenStream;

/// Makes a task of a function.
///
/// The function stays as it is. A unit struct of the same visibility is added, named like the function in camel case
/// (`compose_mail` becomes `ComposeMail`), which stands for the task in `ctx.schedule::<ComposeMail>(..)` and in
/// `worker.task::<ComposeMail>()`.
///
/// - An argument of type `TaskContext` is optional and may stand anywhere. Without any other argument the input is `()`,
///   with one it is that argument's type, with several a tuple.
/// - A function that is not `async` runs on a thread for blocking work.
/// - It returns `Result<T>` or `Result<T, E>`, where `E` becomes an `Error` by `into()`.
///
/// Options: `name = ".."` (otherwise the function's name), `as = TypeName` (otherwise derived from it), `timeout`,
/// `schedule_to_close`, `schedule_to_start` and `heartbeat_timeout` (durations such as `"1h30m"`), `max_retries = n`,
/// `queue = ".."`, and `dynamic` for the task that stands in for all that have no other; its one argument is a list with
/// an element per payload.
#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    task::expand(options.into(), item.into()).into()
}

/// Makes tasks of the methods of an `impl` block that are marked with `#[task]`; they share the value of its type.
///
/// The methods take `&self` (or `self: Arc<Self>`, or nothing). The unit structs that stand for the tasks are added at the
/// level of the `impl` block. A worker gets them all with `worker.tasks(instance)`.
#[proc_macro_attribute]
pub fn tasks(options: TokenStream, item: TokenStream) -> TokenStream {
    tasks::expand(options.into(), item.into()).into()
}

/// Makes a workflow of an `async fn`, or of an `impl` block with a method marked `#[run]`.
///
/// A function stays as it is and gets a unit struct that stands for the workflow, as with [`macro@task`]. Options:
/// `name = ".."`, `as = TypeName`, `dynamic`, `versioning = "pinned"` or `"auto_upgrade"` for workers with a deployment, and
/// `unchecked`.
///
/// On an `impl` block the type itself is both the definition and the state. Its methods:
///
/// - `#[run] async fn run(ctx: Context<Self>, ..) -> Result<T>`: the workflow.
/// - `#[init] fn new(input: &In) -> Self`: the first state; without it the type's `Default`.
/// - `#[signal] fn (&mut self, ..)` or `async fn (ctx: Context<Self>, ..)`.
/// - `#[query] fn (&self, ..) -> T`.
/// - `#[update] fn (&mut self, ..) -> Result<T>` or `async fn (ctx: Context<Self>, ..) -> Result<T>`, and
///   `#[validate(update)] fn (&self, &In) -> Result<()>` for what it refuses.
///
/// For each signal, query and update there is a constant of its name in upper case, with which clients address it:
/// `handle.signal(Cart::CHECK_OUT, ())`. All take `name = ".."`.
///
/// A handler marked `dynamic` takes all that have no other: it has the arguments `name: String, arguments: Vec<Value>` and
/// no constant. `unfinished = "abandon"` on a signal or update says that the workflow may end while its handler runs;
/// otherwise that is logged as a warning.
///
/// A call that replays would repeat with another outcome does not compile: `std::thread::sleep`, `SystemTime::now`,
/// `tokio::time::sleep`, `tokio::spawn`, `rand::random` and their like, also inside of `select!` and other macros. The error says what
/// to write instead. The closures of `ctx.run` and `ctx.run_async` may make them. The check reads the names in the function, or in
/// the `impl` block, and not what other functions do; `unchecked` turns it off.
#[proc_macro_attribute]
pub fn workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    workflow::expand(options.into(), item.into()).into()
}

/// Makes a Nexus service of a trait whose methods are marked with `#[operation]`.
///
/// The trait is what handlers implement. Its methods are `async fn (&self, ..)` and return `Result<T>` or `Result<T, E>`
/// for an operation that is completed at once, or `Result<StartedOperation<T>>` for one that may go on by itself as a
/// workflow. An argument of type `NexusContext` is optional and may stand anywhere; there is at most one other, the input.
/// The futures are `Send`.
///
/// For a trait `Orders` there are two further types of the same visibility:
///
/// - `OrdersClient`, by which workflows call the service: `ctx.nexus::<OrdersClient>("endpoint").price(item)`. It has a
///   constant for each operation, such as `OrdersClient::PRICE`.
/// - `OrdersHandler::new(value)`, which a worker gets: `worker.nexus_service(OrdersHandler::new(shop))`; `OrdersHandler::from(arc)` if it
///   is shared.
///
/// `#[cancel(operation)] async fn (&self, ctx: NexusContext, token: String) -> Result<()>` cancels an operation. Without it an
/// operation that is a workflow is cancelled with that workflow.
///
/// The trait and the operations take `name = ".."`; otherwise their names on the wire are those in Rust.
#[proc_macro_attribute]
pub fn nexus_service(options: TokenStream, item: TokenStream) -> TokenStream {
    nexus::expand(options.into(), item.into()).into()
}
