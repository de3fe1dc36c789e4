//! A run waits for a version of workers that no worker has.

use segno_proto::deployment::WorkerDeploymentVersion;

use crate::{
    error::Rejection,
    parts::version_wait as part,
    state::run::Run,
    transition::{Applied, Context, draft::Draft},
};

pub use crate::parts::version_wait::ATTRIBUTE;

/// Notes for which version the run waits. A run whose tasks all went to workers meanwhile stays as it is.
pub fn note(run: &Run, context: Context, version: &WorkerDeploymentVersion) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    if run.is_dispatchable(context.now) && part::note(&mut draft.run.state, version) {
        draft.touch();
    }
    Ok(draft.finish(()))
}
