//! Batches and their progress.

use maud::{Markup, html};
use segno_proto::{
    enums::BatchOperationState,
    workflowservice::{
        DescribeBatchOperationRequest, DescribeBatchOperationResponse, ListBatchOperationsRequest,
        StopBatchOperationRequest,
    },
};

use super::{
    Answer, IDENTITY, Outcome, PageError, PageRequest, Web,
    fields::words,
    forms::{Form, hex, unhex},
    layout::{Page, button, pager},
    times,
};

/// Batches on a page.
const PAGE_SIZE: i32 = 50;

impl Web {
    pub(super) async fn batches_page(&self, namespace: &str, asked: &PageRequest<'_>) -> Result<Answer, PageError> {
        let request = ListBatchOperationsRequest {
            namespace: namespace.to_owned(),
            page_size: PAGE_SIZE,
            next_page_token: unhex(asked.query.get("page")).into(),
        };
        let listed = self.call(request).await?;
        let mut found = Vec::new();
        for info in &listed.operation_info {
            let request =
                DescribeBatchOperationRequest { namespace: namespace.to_owned(), job_id: info.job_id.clone() };
            if let Ok(described) = self.call(request).await {
                found.push(described);
            }
        }
        let content = html! {
            h1 { "Batches" }
            div #rows data-live {
                @if found.is_empty() {
                    div.empty { p { "There are no batches." } p { "Select workflows on their page to act on all of them." } }
                } @else {
                    table.list {
                        caption.hidden { "Batches" }
                        thead { tr {
                            th scope="col" { "Job" } th scope="col" { "What" } th scope="col" { "State" } th scope="col" { "Progress" }
                            th scope="col" { "Reason" } th scope="col" { "Started" } th scope="col" { "Actions" }
                        } }
                        tbody { @for batch in &found { (row(batch, asked.query.get("job"))) } }
                    }
                }
                (pager(None, (!listed.next_page_token.is_empty()).then(|| asked.query.with(&[("page", &hex(&listed.next_page_token))]))))
            }
        };
        Ok(Answer::Page(Page { title: "Batches".to_owned(), area: "batches", content, is_live: true }))
    }

    pub(super) async fn batches_action(&self, namespace: &str, form: &Form) -> Result<Answer, PageError> {
        let request = StopBatchOperationRequest {
            namespace: namespace.to_owned(),
            job_id: form.trimmed("job"),
            reason: "from the web pages".to_owned(),
            identity: IDENTITY.to_owned(),
        };
        self.call(request).await?;
        Ok(Outcome::done(html! { "The batch is stopped" }))
    }
}

fn row(batch: &DescribeBatchOperationResponse, chosen: &str) -> Markup {
    let (class, is_running) = match batch.state() {
        BatchOperationState::Running => ("running", true),
        BatchOperationState::Completed => ("good", false),
        _ => ("bad", false),
    };
    let (done, all) = (batch.complete_operation_count + batch.failure_operation_count, batch.total_operation_count);
    html! {
        tr aria-current=[(batch.job_id == chosen).then_some("true")] {
            th scope="row" { code { (batch.job_id) } @if !batch.query.is_empty() { br; code.faint { (batch.query) } } }
            td data-label="What" { (words(batch.operation_type().as_str_name(), "BATCH_OPERATION_TYPE_")) }
            td data-label="State" { span class={ "badge " (class) } { (words(batch.state().as_str_name(), "BATCH_OPERATION_STATE_")) } }
            td data-label="Progress" {
                progress max=(all.max(1)) value=(done.min(all.max(1))) aria-label="Progress" {} " " (done) " of " (all)
                @if batch.failure_operation_count > 0 { ", " span.bad { (batch.failure_operation_count) " failed" } }
            }
            td data-label="Reason" { (batch.reason) }
            td data-label="Started" { (times::relative(batch.start_time.as_ref())) }
            td.buttons { @if is_running { (button("Stop", "danger", &[("job", &batch.job_id)])) } }
        }
    }
}
