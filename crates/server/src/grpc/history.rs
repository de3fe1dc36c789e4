//! Reads history: pages, long polls, the closing event, backwards.

use std::{sync::Arc, time::Duration};

use segno_node::{Current, Namespace, Token, WorkflowKey, trial_task_events};
use segno_proto::{
    History,
    enums::HistoryEventFilterType,
    workflowservice::{
        GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryResponse,
        GetWorkflowExecutionHistoryReverseRequest, GetWorkflowExecutionHistoryReverseResponse,
    },
};
use tokio::time::Instant;
use tonic::{Request, Status};

use super::{Workflows, failed, key_of, refused, tokens::PageToken};
use crate::{deadline, peers::CallMetadata, validate};

/// Most batches of one page.
const PAGE_MAX: usize = 256;
/// How long a read waits for news before it answers that there is none.
const WAIT_MAX: Duration = Duration::from_secs(20);

fn page_size(requested: i32) -> usize {
    match usize::try_from(requested) {
        Ok(size) if (1..=PAGE_MAX).contains(&size) => size,
        _ => PAGE_MAX,
    }
}

fn page_token(current: &Current, event_id: i64) -> PageToken {
    PageToken { run_id: current.run.info.run_id.clone(), event_id, last_event_id: 0, with_task: false }
}

impl Workflows {
    /// Opens the token of a page. It belongs to one run: a request that names none takes that of the token.
    fn open_page(namespace: &Namespace, token: &[u8], run_id: &mut String) -> Result<Option<PageToken>, Status> {
        if token.is_empty() {
            return Ok(None);
        }
        let opened = PageToken::open(token, &namespace.token_key)
            .map_err(|_| Status::invalid_argument("Invalid NextPageToken."))?;
        if !run_id.is_empty() && *run_id != opened.run_id {
            return Err(Status::invalid_argument("RunId in the request does not match the NextPageToken."));
        }
        run_id.clone_from(&opened.run_id);
        Ok(Some(opened))
    }

    pub(crate) async fn history(
        &self,
        request: Request<GetWorkflowExecutionHistoryRequest>,
    ) -> Result<GetWorkflowExecutionHistoryResponse, Status> {
        // People's tools do not want to see events that are not history yet.
        let with_unwritten = !CallMetadata::of(&request).is_tool;
        let news_until = deadline::long_read(&request, WAIT_MAX);
        let mut request = request.into_inner();
        let namespace = self.namespace(&request.namespace)?;
        validate::workflow::history(&mut request).map_err(refused)?;
        let (key, mut run_id) = key_of(&namespace, request.execution.as_ref());
        let token = Self::open_page(&namespace, &request.next_page_token, &mut run_id)?;
        let from = token.as_ref().map_or(1, |token| token.event_id);
        let mut current = self.node.runs.snapshot(&key, &run_id).await.map_err(failed)?;
        let close_only = request.history_event_filter_type() == HistoryEventFilterType::CloseEvent;
        if close_only {
            return self.closing_event(&namespace, &key, current, request.wait_new_event, news_until).await;
        }
        if request.wait_new_event && current.run.is_running() && from >= current.run.state().next_event_id {
            current = self.wait(&key, current, from, false, news_until).await?;
        }
        let size = page_size(request.maximum_page_size);
        if let Some(token) = token.filter(|token| token.last_event_id > 0) {
            // The worker that tries a run replays no more of it than the first page was cut from.
            let last = token.last_event_id;
            let mut view = self.node.runs.history_until(&current, from, last, size).await.map_err(failed)?;
            if token.with_task && view.next_event_id.is_none() {
                let (queue, now) = (&current.run.info.task_queue, self.node.runs.clock_now());
                view.push_events(&trial_task_events(last, queue, now), 1);
            }
            let next = view.next_event_id.map(|event_id| PageToken { event_id, ..token }.seal(&namespace.token_key));
            return Ok(GetWorkflowExecutionHistoryResponse {
                history: Some(view.into_history()),
                next_page_token: next.unwrap_or_default(),
                ..Default::default()
            });
        }
        let view = self.node.runs.history(&current, from, size, with_unwritten).await.map_err(failed)?;
        let end = current.run.state().next_event_id;
        let next = match view.next_event_id {
            Some(next) => Some(next),
            None if request.wait_new_event && current.run.is_running() => Some(end),
            None => None,
        };
        let next_page_token = next.map(|event_id| page_token(&current, event_id).seal(&namespace.token_key));
        Ok(GetWorkflowExecutionHistoryResponse {
            history: Some(view.into_history()),
            next_page_token: next_page_token.unwrap_or_default(),
            ..Default::default()
        })
    }

    async fn wait(
        &self,
        key: &WorkflowKey,
        current: Arc<Current>,
        from: i64,
        closed_only: bool,
        until: Instant,
    ) -> Result<Arc<Current>, Status> {
        // Asking again for what is there anyway costs nothing; what matters is not to miss what comes in between.
        self.node.runs.wait_for_news(key, current.key(), from, closed_only, until).await;
        self.node.runs.snapshot(key, &current.run.info.run_id).await.map_err(failed)
    }

    async fn closing_event(
        &self,
        namespace: &Namespace,
        key: &WorkflowKey,
        mut current: Arc<Current>,
        wait: bool,
        until: Instant,
    ) -> Result<GetWorkflowExecutionHistoryResponse, Status> {
        if current.run.is_running() {
            current = self.wait(key, current, 0, true, until).await?;
        }
        let mut response =
            GetWorkflowExecutionHistoryResponse { history: Some(History::default()), ..Default::default() };
        if current.run.is_running() {
            if wait {
                let event_id = current.run.state().next_event_id;
                response.next_page_token = page_token(&current, event_id).seal(&namespace.token_key);
            }
            return Ok(response);
        }
        response.history = Some(self.node.runs.closing_event(&current).await.map_err(failed)?);
        Ok(response)
    }

    pub(crate) async fn history_reverse(
        &self,
        mut request: GetWorkflowExecutionHistoryReverseRequest,
    ) -> Result<GetWorkflowExecutionHistoryReverseResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        validate::workflow::history_reverse(&mut request).map_err(refused)?;
        let (key, mut run_id) = key_of(&namespace, request.execution.as_ref());
        let token = Self::open_page(&namespace, &request.next_page_token, &mut run_id)?;
        let until = token.as_ref().map_or(i64::MAX, |token| token.event_id);
        let current = self.node.runs.snapshot(&key, &run_id).await.map_err(failed)?;
        let size = page_size(request.maximum_page_size);
        let page = self.node.runs.history_reverse(&current, until, size).await.map_err(failed)?;
        let next_page_token =
            page.before_event_id.map(|event_id| page_token(&current, event_id).seal(&namespace.token_key));
        Ok(GetWorkflowExecutionHistoryReverseResponse {
            history: Some(History::from_events(&page.events)),
            next_page_token: next_page_token.unwrap_or_default(),
        })
    }
}
