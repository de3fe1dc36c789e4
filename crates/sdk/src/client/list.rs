//! Lists of workflows.

use segno_proto::{
    workflow::WorkflowExecutionInfo,
    workflowservice::{CountWorkflowExecutionsRequest, ListWorkflowExecutionsRequest},
};
use serde_json::Value;

use super::{
    Client, ClientError, WorkflowDescription,
    pages::{PAGE, Pages},
};
use crate::converter;

/// Workflows that a filter matches, fetched a page at a time.
pub struct WorkflowList(Pages<WorkflowExecutionInfo>);

impl WorkflowList {
    /// The next one; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<WorkflowDescription>, ClientError> {
        let fetch = async |pages: &Pages<_>, next_page_token| {
            let request = ListWorkflowExecutionsRequest {
                namespace: pages.client.namespace().to_owned(),
                page_size: PAGE,
                next_page_token,
                query: pages.query.clone(),
            };
            let call = pages.client.call(|mut service| {
                let request = request.clone();
                async move { service.list_workflow_executions(request).await }
            });
            let answer = call.await?;
            Ok((answer.executions, answer.next_page_token))
        };
        match self.0.next(fetch).await? {
            Some(info) => WorkflowDescription::of_info(&self.0.client, info).await.map(Some),
            None => Ok(None),
        }
    }

    /// All that are left.
    pub async fn all(mut self) -> Result<Vec<WorkflowDescription>, ClientError> {
        let mut all = Vec::new();
        while let Some(workflow) = self.next().await? {
            all.push(workflow);
        }
        Ok(all)
    }
}

/// How many workflows a filter matches.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowCount {
    /// All of them.
    pub count: u64,
    /// For a filter with `GROUP BY`: the values of each group, and how many are in it.
    pub groups: Vec<(Vec<Value>, u64)>,
}

impl Client {
    /// The workflows that a filter matches, such as `WorkflowType = 'Cart' AND ExecutionStatus = 'Running'`. An empty one
    /// matches all.
    pub fn list(&self, query: impl Into<String>) -> WorkflowList {
        WorkflowList(Pages::new(self.clone(), query.into()))
    }

    /// How many workflows a filter matches.
    pub async fn count(&self, query: impl Into<String>) -> Result<WorkflowCount, ClientError> {
        let request = CountWorkflowExecutionsRequest { namespace: self.namespace().to_owned(), query: query.into() };
        let answer = self
            .call(|mut service| {
                let request = request.clone();
                async move { service.count_workflow_executions(request).await }
            })
            .await?;
        let mut groups = Vec::new();
        for group in answer.groups {
            let values: Result<Vec<Value>, _> = group.group_values.iter().map(converter::decode_payload).collect();
            groups.push((values?, u64::try_from(group.count).unwrap_or_default()));
        }
        Ok(WorkflowCount { count: u64::try_from(answer.count).unwrap_or_default(), groups })
    }
}
