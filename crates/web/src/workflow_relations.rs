//! Parent, children and the chain of runs, as a tree.

use maud::{Markup, html};
use segno_proto::{
    common::WorkflowExecution, events::history_event::Attributes, workflow::WorkflowExecutionInfo,
    workflowservice::ListWorkflowExecutionsRequest,
};

use super::{
    Answer, PageError, Web,
    layout::{badge, run_address},
    times, workflow,
};

/// Most relatives of a kind.
const LISTED_MAX: i32 = 200;
/// How many levels of children are shown.
const DEPTH_MAX: usize = 4;

impl Web {
    pub(super) async fn relations_page(&self, namespace: &str, id: &str, run_id: &str) -> Result<Answer, PageError> {
        let seen = self.see(namespace, id, run_id).await?;
        let info = seen.info();
        let events = self.events(&seen).await?;
        let (before, after) = (events.first().and_then(continued_from), events.last().and_then(continued_to));
        let runs = self.related(namespace, &format!("WorkflowId = {}", quoted(id))).await;
        let children = Box::pin(self.children(namespace, &seen.execution(), 0)).await;
        let root = info.root_execution.clone().filter(|root| root.run_id != seen.run_id);
        let content = html! {
            (workflow::head(&seen, "relations"))
            section #tree data-live aria-labelledby="tree-title" {
                h2 #tree-title { "Family" }
                ul.tree {
                    @if let Some(root) = root.filter(|root| info.parent_execution.as_ref() != Some(root)) { li { "root " (link(namespace, &root)) } }
                    li {
                        @if let Some(parent) = &info.parent_execution { "parent " (link(namespace, parent)) }
                        @else { span.faint { "no parent" } }
                        ul { li {
                            strong { (seen.workflow_id) } " " (badge(info.status)) " this run"
                            @if children.is_empty() { ul { li { span.faint { "no children" } } } } @else { (tree(namespace, &children)) }
                        } }
                    }
                }
            }
            section #chain data-live aria-labelledby="chain-title" {
                h2 #chain-title { "Runs of this workflow id" }
                @if let Some(before) = before { p { "Continued from " (link(namespace, &execution(id, &before))) } }
                @if let Some(after) = after { p { "Continued in " (link(namespace, &execution(id, &after))) } }
                ol.chain {
                    @for run in runs.iter().rev() {
                        @let execution = run.execution.clone().unwrap_or_default();
                        li aria-current=[(execution.run_id == seen.run_id).then_some("true")] {
                            (link(namespace, &execution)) " " (badge(run.status)) " " (times::shown(run.start_time.as_ref()))
                            @if execution.run_id == info.first_run_id { " " span.faint { "first run" } }
                        }
                    }
                }
            }
        };
        Ok(Answer::Page(workflow::page(&seen, content)))
    }

    async fn related(&self, namespace: &str, query: &str) -> Vec<WorkflowExecutionInfo> {
        let request = ListWorkflowExecutionsRequest {
            namespace: namespace.to_owned(),
            page_size: LISTED_MAX,
            query: query.to_owned(),
            ..Default::default()
        };
        let listed = self.call(request).await;
        listed.map(|listed| listed.executions).unwrap_or_default()
    }

    async fn children(&self, namespace: &str, of: &WorkflowExecution, depth: usize) -> Vec<Family> {
        let query = format!("ParentWorkflowId = {} AND ParentRunId = {}", quoted(&of.workflow_id), quoted(&of.run_id));
        let mut families = Vec::new();
        for info in self.related(namespace, &query).await {
            let execution = info.execution.clone().unwrap_or_default();
            let children = match depth + 1 < DEPTH_MAX {
                true => Box::pin(self.children(namespace, &execution, depth + 1)).await,
                false => Vec::new(),
            };
            families.push(Family { info, children });
        }
        families
    }
}

/// A workflow with its children.
struct Family {
    info: WorkflowExecutionInfo,
    children: Vec<Family>,
}

fn execution(workflow_id: &str, run_id: &str) -> WorkflowExecution {
    WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() }
}

/// A text as queries spell it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn continued_from(event: &segno_proto::events::HistoryEvent) -> Option<String> {
    match &event.attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => {
            Some(started.continued_execution_run_id.clone()).filter(|id| !id.is_empty())
        }
        _ => None,
    }
}

fn continued_to(event: &segno_proto::events::HistoryEvent) -> Option<String> {
    let next = match &event.attributes {
        Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(next)) => next.new_execution_run_id.clone(),
        Some(Attributes::WorkflowExecutionCompletedEventAttributes(done)) => done.new_execution_run_id.clone(),
        Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)) => failed.new_execution_run_id.clone(),
        Some(Attributes::WorkflowExecutionTimedOutEventAttributes(late)) => late.new_execution_run_id.clone(),
        _ => String::new(),
    };
    Some(next).filter(|id| !id.is_empty())
}

fn link(namespace: &str, execution: &WorkflowExecution) -> Markup {
    html! {
        a href=(run_address(namespace, &execution.workflow_id, &execution.run_id)) { (execution.workflow_id) }
        // The run key; what is before and after it does not tell runs apart at a glance.
        " " code.faint { (execution.run_id.get(..13).unwrap_or(&execution.run_id)) }
    }
}

fn tree(namespace: &str, families: &[Family]) -> Markup {
    html! {
        ul {
            @for family in families {
                @let info = &family.info;
                li {
                    (link(namespace, &info.execution.clone().unwrap_or_default())) " " (badge(info.status)) " "
                    span.faint { (info.r#type.clone().unwrap_or_default().name) }
                    @if !family.children.is_empty() { (tree(namespace, &family.children)) }
                }
            }
        }
    }
}
