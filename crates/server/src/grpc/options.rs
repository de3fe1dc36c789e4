//! UpdateWorkflowExecutionOptions.

use segno_engine::{
    Run,
    activity_options::field_path,
    options::{self, UpdateOptions},
};
use segno_node::RunSelector;
use segno_proto::workflowservice::{UpdateWorkflowExecutionOptionsRequest, UpdateWorkflowExecutionOptionsResponse};
use tonic::Status;

use super::{Workflows, failed, key_of, refused};
use crate::validate::options as checks;

impl Workflows {
    pub(crate) async fn update_options(
        &self,
        request: UpdateWorkflowExecutionOptionsRequest,
    ) -> Result<UpdateWorkflowExecutionOptionsResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        checks::update(&request).map_err(refused)?;
        let (key, run_id) = key_of(&namespace, request.workflow_execution.as_ref());
        let mask = request.update_mask.unwrap_or_default();
        let call = UpdateOptions {
            options: request.workflow_execution_options.unwrap_or_default(),
            paths: mask.paths.iter().map(|path| field_path(path)).collect(),
            identity: request.identity,
        };
        let (runs, namespace) = (self.node.runs.clone(), namespace.key);
        let apply = move |run: &Run, context| {
            let is_member = |version: &_, queue: &str| runs.polls_workflow_queue(namespace, version, queue);
            options::update(run, context, &call, &is_member)
        };
        let options = self.node.runs.transact(&key, &RunSelector::run(run_id), apply).await.map_err(failed)?;
        Ok(UpdateWorkflowExecutionOptionsResponse { workflow_execution_options: Some(options), ..Default::default() })
    }
}
