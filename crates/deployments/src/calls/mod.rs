//! The calls: each is a function from a deployment to the changed one and the reply, or to a refusal. None does IO; the caller stores
//! what changed ([`Deployment::changed_documents`](crate::Deployment::changed_documents)) before anyone sees it.

mod create;
mod delete;
mod manager;
mod metadata;
mod register;
mod routing;
mod set_current;
mod set_ramping;
#[cfg(test)]
mod tests;

pub use create::{create, create_version};
pub use delete::{check_deletable, delete_version, is_removable};
pub use manager::{NewManager, set_manager};
pub use metadata::{MetadataChange, unknown_version, update_metadata};
pub use register::{Registration, register};
pub use routing::{RoutingChange, missing_queues};
pub use set_current::{CurrentSet, current_request, set_current};
pub use set_ramping::{RampingSet, ramping_request, set_ramping};
