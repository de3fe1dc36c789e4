//! The operator's side of activities: pause, resume, reset, change options. Each call has an older spelling, by
//! workflow execution, and a newer one that names an activity; both come to the same here,
//! unless the newer one names no workflow: then it means a standalone activity.

use segno_engine::{
    Applied, Context, Rejection, Run,
    activity_options::{self, Update, field_path},
    activity_pause::{self, Pause, Reset, Selection, Unpause},
    standalone::operations,
};
use segno_node::RunSelector;
use segno_proto::{
    activity::ActivityOptions,
    common::WorkflowExecution,
    duration_nanos,
    workflowservice::{
        PauseActivityExecutionRequest, PauseActivityExecutionResponse, PauseActivityRequest, PauseActivityResponse,
        ResetActivityExecutionRequest, ResetActivityExecutionResponse, ResetActivityRequest, ResetActivityResponse,
        UnpauseActivityExecutionRequest, UnpauseActivityExecutionResponse, UnpauseActivityRequest,
        UnpauseActivityResponse, UpdateActivityExecutionOptionsRequest, UpdateActivityExecutionOptionsResponse,
        UpdateActivityOptionsRequest, UpdateActivityOptionsResponse, pause_activity_request, reset_activity_request,
        unpause_activity_request, update_activity_options_request,
    },
};
use tonic::Status;

use super::{
    Workflows, failed, key_of, refused,
    standalone::{activity_key, failed_for},
};
use crate::validate::activity_operations as checks;

impl Workflows {
    /// Applies a call to the run an execution names.
    async fn operate<R: Send + 'static>(
        &self,
        namespace: &str,
        execution: Option<&WorkflowExecution>,
        call: impl FnOnce(&Run, Context) -> Result<Applied<R>, Rejection> + Send + 'static,
    ) -> Result<R, Status> {
        let namespace = self.namespace(namespace)?;
        let (key, run_id) = key_of(&namespace, execution);
        self.node.runs.transact(&key, &RunSelector::run(run_id), call).await.map_err(failed)
    }

    /// Applies a call to the run of a standalone activity.
    pub(crate) async fn operate_standalone<R: Send + 'static>(
        &self,
        namespace: &str,
        activity_id: &str,
        run_id: String,
        call: impl FnOnce(&Run, Context) -> Result<Applied<R>, Rejection> + Send + 'static,
    ) -> Result<R, Status> {
        let namespace = self.namespace(namespace)?;
        let key = activity_key(&namespace, activity_id);
        let applied = self.node.runs.transact(&key, &RunSelector::run(run_id), call).await;
        applied.map_err(|error| failed_for(activity_id, error))
    }

    /// No two calls without a request id are the same.
    pub(crate) fn request_id(&self, given: String) -> String {
        if given.is_empty() { self.node.runs.uuid() } else { given }
    }

    pub(crate) async fn operator_pause_activity(
        &self,
        request: PauseActivityRequest,
    ) -> Result<PauseActivityResponse, Status> {
        self.namespace(&request.namespace)?;
        checks::target(request.execution.as_ref(), request.activity.is_some()).map_err(refused)?;
        let selection = match request.activity {
            Some(pause_activity_request::Activity::Id(id)) => Selection::Id(id),
            Some(pause_activity_request::Activity::Type(name)) => Selection::Type(name),
            None => return Ok(PauseActivityResponse::default()),
        };
        let call = Pause { identity: request.identity, reason: request.reason, request_id: request.request_id };
        let apply = move |run: &Run, context| activity_pause::pause(run, context, &selection, &call);
        self.operate(&request.namespace, request.execution.as_ref(), apply).await?;
        Ok(PauseActivityResponse::default())
    }

    pub(crate) async fn operator_pause_activity_execution(
        &self,
        request: PauseActivityExecutionRequest,
    ) -> Result<PauseActivityExecutionResponse, Status> {
        self.namespace(&request.namespace)?;
        checks::pause_execution(&request, self.sizes()).map_err(refused)?;
        if request.workflow_id.is_empty() {
            let request_id = self.request_id(request.request_id);
            let call = Pause { identity: request.identity, reason: request.reason, request_id };
            let apply = move |run: &Run, context| operations::pause(run, context, &call);
            self.operate_standalone(&request.namespace, &request.activity_id, request.run_id, apply).await?;
            return Ok(PauseActivityExecutionResponse::default());
        }
        let execution = WorkflowExecution { workflow_id: request.workflow_id, run_id: request.run_id };
        let selection = Selection::Id(request.activity_id);
        let mut call = Pause { identity: request.identity, reason: request.reason, request_id: request.request_id };
        let apply = move |run: &Run, context: Context| {
            if call.request_id.is_empty() {
                // Here, unlike in the older call, no two calls without a request id are the same.
                call.request_id = context.derived_uuid();
            }
            activity_pause::pause(run, context, &selection, &call)
        };
        self.operate(&request.namespace, Some(&execution), apply).await?;
        Ok(PauseActivityExecutionResponse::default())
    }

    pub(crate) async fn operator_unpause_activity(
        &self,
        mut request: UnpauseActivityRequest,
    ) -> Result<UnpauseActivityResponse, Status> {
        self.namespace(&request.namespace)?;
        checks::target(request.execution.as_ref(), request.activity.is_some()).map_err(refused)?;
        checks::jitter(&mut request.jitter).map_err(refused)?;
        let selection = match request.activity {
            Some(unpause_activity_request::Activity::Id(id)) => Selection::Id(id),
            Some(unpause_activity_request::Activity::Type(name)) => Selection::Type(name),
            Some(unpause_activity_request::Activity::UnpauseAll(_)) | None => Selection::All,
        };
        let call = Unpause {
            reset_attempts: request.reset_attempts,
            reset_heartbeat: request.reset_heartbeat,
            jitter: duration_nanos(request.jitter.as_ref()),
        };
        let apply = move |run: &Run, context| activity_pause::unpause(run, context, &selection, call);
        self.operate(&request.namespace, request.execution.as_ref(), apply).await?;
        Ok(UnpauseActivityResponse::default())
    }

    pub(crate) async fn operator_unpause_activity_execution(
        &self,
        mut request: UnpauseActivityExecutionRequest,
    ) -> Result<UnpauseActivityExecutionResponse, Status> {
        self.namespace(&request.namespace)?;
        checks::unpause_execution(&mut request).map_err(refused)?;
        if request.workflow_id.is_empty() {
            let (id, jitter) = (self.request_id(request.request_id), duration_nanos(request.jitter.as_ref()));
            let apply = move |run: &Run, context| operations::unpause(run, context, &id, jitter);
            self.operate_standalone(&request.namespace, &request.activity_id, request.run_id, apply).await?;
            return Ok(UnpauseActivityExecutionResponse::default());
        }
        let execution = WorkflowExecution { workflow_id: request.workflow_id, run_id: request.run_id };
        let selection = Selection::Id(request.activity_id);
        let call = Unpause { jitter: duration_nanos(request.jitter.as_ref()), ..Default::default() };
        let apply = move |run: &Run, context| activity_pause::unpause(run, context, &selection, call);
        self.operate(&request.namespace, Some(&execution), apply).await?;
        Ok(UnpauseActivityExecutionResponse::default())
    }

    pub(crate) async fn operator_reset_activity(
        &self,
        mut request: ResetActivityRequest,
    ) -> Result<ResetActivityResponse, Status> {
        self.namespace(&request.namespace)?;
        checks::target(request.execution.as_ref(), request.activity.is_some()).map_err(refused)?;
        checks::jitter(&mut request.jitter).map_err(refused)?;
        let selection = match request.activity {
            Some(reset_activity_request::Activity::Id(id)) => Selection::Id(id),
            Some(reset_activity_request::Activity::Type(name)) => Selection::Type(name),
            Some(reset_activity_request::Activity::MatchAll(_)) | None => Selection::All,
        };
        let call = Reset {
            reset_heartbeat: request.reset_heartbeat,
            keep_paused: request.keep_paused,
            jitter: duration_nanos(request.jitter.as_ref()),
            restore_options: request.restore_original_options,
        };
        let apply = move |run: &Run, context| activity_pause::reset(run, context, &selection, call);
        self.operate(&request.namespace, request.execution.as_ref(), apply).await?;
        Ok(ResetActivityResponse::default())
    }

    pub(crate) async fn operator_reset_activity_execution(
        &self,
        mut request: ResetActivityExecutionRequest,
    ) -> Result<ResetActivityExecutionResponse, Status> {
        self.namespace(&request.namespace)?;
        checks::reset_execution(&mut request).map_err(refused)?;
        let call = Reset {
            reset_heartbeat: request.reset_heartbeat,
            keep_paused: request.keep_paused,
            jitter: duration_nanos(request.jitter.as_ref()),
            restore_options: request.restore_original_options,
        };
        if request.workflow_id.is_empty() {
            let id = self.request_id(request.request_id);
            let apply = move |run: &Run, context| operations::reset(run, context, &id, call);
            self.operate_standalone(&request.namespace, &request.activity_id, request.run_id, apply).await?;
            return Ok(ResetActivityExecutionResponse::default());
        }
        let execution = WorkflowExecution { workflow_id: request.workflow_id, run_id: request.run_id };
        let selection = Selection::Id(request.activity_id);
        let apply = move |run: &Run, context| activity_pause::reset(run, context, &selection, call);
        self.operate(&request.namespace, Some(&execution), apply).await?;
        Ok(ResetActivityExecutionResponse::default())
    }

    pub(crate) async fn operator_update_activity_options(
        &self,
        request: UpdateActivityOptionsRequest,
    ) -> Result<UpdateActivityOptionsResponse, Status> {
        self.namespace(&request.namespace)?;
        checks::update(&request).map_err(refused)?;
        let selection = match request.activity {
            Some(update_activity_options_request::Activity::Id(id)) => Selection::Id(id),
            Some(update_activity_options_request::Activity::Type(name)) => Selection::Type(name),
            Some(update_activity_options_request::Activity::MatchAll(_)) | None => Selection::All,
        };
        let call = update_of(request.activity_options, request.update_mask);
        let apply = change(selection, call, request.restore_original);
        let options = self.operate(&request.namespace, request.execution.as_ref(), apply).await?;
        Ok(UpdateActivityOptionsResponse { activity_options: Some(options) })
    }

    pub(crate) async fn operator_update_activity_execution_options(
        &self,
        mut request: UpdateActivityExecutionOptionsRequest,
    ) -> Result<UpdateActivityExecutionOptionsResponse, Status> {
        self.namespace(&request.namespace)?;
        checks::update_execution(&mut request).map_err(refused)?;
        let call = update_of(request.activity_options, request.update_mask);
        if request.workflow_id.is_empty() {
            let (id, restores) = (self.request_id(request.request_id), request.restore_original);
            let apply = move |run: &Run, context| operations::update(run, context, &id, &call, restores);
            let changed = self.operate_standalone(&request.namespace, &request.activity_id, request.run_id, apply);
            return Ok(UpdateActivityExecutionOptionsResponse { activity_options: Some(changed.await?) });
        }
        let execution = WorkflowExecution { workflow_id: request.workflow_id, run_id: request.run_id };
        let apply = change(Selection::Id(request.activity_id), call, request.restore_original);
        let options = self.operate(&request.namespace, Some(&execution), apply).await?;
        Ok(UpdateActivityExecutionOptionsResponse { activity_options: Some(options) })
    }
}

fn update_of(options: Option<ActivityOptions>, mask: Option<prost_types::FieldMask>) -> Update {
    let paths = mask.map(|mask| mask.paths.iter().map(|path| field_path(path)).collect());
    Update { options, paths }
}

fn change(
    selection: Selection,
    call: Update,
    restore: bool,
) -> impl FnOnce(&Run, Context) -> Result<Applied<ActivityOptions>, Rejection> + Send + 'static {
    move |run, context| {
        if restore {
            activity_options::restore(run, context, &selection)
        } else {
            activity_options::update(run, context, &selection, &call)
        }
    }
}
