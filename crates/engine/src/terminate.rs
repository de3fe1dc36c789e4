//! Somebody ends a workflow from outside.

use segno_proto::common::{Link, Payloads};

use crate::{
    close,
    draft::Draft,
    error::Rejection,
    run::{Applied, Context, Run},
};

/// A termination, checked.
#[derive(Clone, Debug, Default)]
pub struct Terminate {
    /// Why.
    pub reason: String,
    /// Carried.
    pub details: Option<Payloads>,
    /// Who.
    pub identity: String,
    /// Carried.
    pub links: Vec<Link>,
}

/// Ends the run at once.
pub fn terminate(run: &Run, context: Context, call: Terminate) -> Result<Applied<()>, Rejection> {
    if !run.is_running() {
        return Err(Rejection::Closed);
    }
    let mut draft = Draft::new(run, context);
    close::terminate(&mut draft, call.reason, call.details, call.identity, call.links);
    Ok(draft.finish(()))
}
