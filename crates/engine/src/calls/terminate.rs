//! A client or operator ends a workflow.

use segno_proto::common::{Link, Payloads};

use crate::{
    error::Rejection,
    parts::close,
    state::run::Run,
    transition::{Applied, Context, draft::Draft},
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
    /// The first run of the chain that is meant; empty is any.
    pub first_run_id: String,
}

/// Ends the run at once.
pub fn terminate(run: &Run, context: Context, call: Terminate) -> Result<Applied<()>, Rejection> {
    run.check_open()?;
    if !call.first_run_id.is_empty() && call.first_run_id != run.info.first_run_id {
        return Err(Rejection::RunNotFound);
    }
    let mut draft = Draft::new(run, context);
    close::terminate(&mut draft, call.reason, call.details, call.identity, call.links);
    Ok(draft.finish(()))
}
