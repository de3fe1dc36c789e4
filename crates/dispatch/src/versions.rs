//! Versions of workers: where the tasks of a run go.

use segno_deployments::hash_of;
use segno_engine::Run;
use segno_matching::TaskRoute;

/// By what the lane of a task of a run is found.
pub fn route_of(run: &Run) -> TaskRoute {
    TaskRoute { pinned: None, hash: hash_of(&run.info.workflow_id) }
}
