//! QueryWorkflow and the worker's answer to it.

use segno_node::{QueryAnswer, QueryFailure, QueryToken};
use segno_proto::{
    enums::QueryResultType,
    query::QueryRejected,
    workflowservice::{
        QueryWorkflowRequest, QueryWorkflowResponse, RespondQueryTaskCompletedRequest,
        RespondQueryTaskCompletedResponse,
    },
};
use tonic::{Request, Status};

use super::{Workflows, failed, key_of, refused};
use crate::{deadline, status, validate};

impl Workflows {
    pub(crate) async fn query(&self, request: Request<QueryWorkflowRequest>) -> Result<QueryWorkflowResponse, Status> {
        let until = deadline::call(&request);
        let mut request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        validate::workflow::query(&mut request, self.sizes()).map_err(refused)?;
        let (key, run_id) = key_of(&namespace, request.execution.as_ref());
        let condition = request.query_reject_condition();
        let query = request.query.unwrap_or_default();
        let reply = self.node.dispatch.query(&key, &run_id, query, condition, until).await.map_err(failed)?;
        Ok(QueryWorkflowResponse {
            query_result: reply.result,
            query_rejected: reply.rejected.map(|status| QueryRejected { status: status as i32 }),
            ..Default::default()
        })
    }

    pub(crate) async fn answer_query(
        &self,
        mut request: RespondQueryTaskCompletedRequest,
    ) -> Result<RespondQueryTaskCompletedResponse, Status> {
        validate::worker::query_task_completed(&mut request, self.sizes()).map_err(refused)?;
        let (_, token) = self.open_any::<QueryToken>(&request.namespace, &request.task_token)?;
        let answer = if request.completed_type() == QueryResultType::Answered {
            QueryAnswer::Answered(request.query_result)
        } else {
            let cause = request.cause();
            QueryAnswer::Failed(QueryFailure { message: request.error_message, failure: request.failure, cause })
        };
        if !self.node.dispatch.answer_query(token.query_id, answer) {
            return Err(status::not_found("query task not found, or already expired"));
        }
        Ok(RespondQueryTaskCompletedResponse::default())
    }
}
