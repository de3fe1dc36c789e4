//! The SDK without a server: workflows in `WorkflowTest`, with a virtual clock, and every run replayed.

mod basics;
mod macros;
mod macros_impl;
