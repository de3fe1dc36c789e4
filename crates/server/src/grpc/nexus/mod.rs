//! Nexus: workers poll for requests to their handlers, and answer them; operators create endpoints.

mod answers;
mod commands;
pub(crate) mod describe;
mod endpoints;
mod polls;
