//! Calls to a run: its stack trace, and queries.

use maud::html;

use super::{Answer, PageError, Web, workflow};

impl Web {
    pub(super) async fn calls_page(
        &self,
        namespace: &str,
        workflow_id: &str,
        run_id: &str,
    ) -> Result<Answer, PageError> {
        let seen = self.see(namespace, workflow_id, run_id).await?;
        let address = seen.address();
        let content = html! {
            (workflow::head(&seen, "calls"))
            div.columns {
                section aria-labelledby="stack-title" {
                    h2 #stack-title { "Stack" }
                    p {
                        "Where the workflow's code waits"
                        @if seen.is_script() { "." } @else { ", as its worker reports it. A worker must be running." }
                    }
                    form method="post" action=(address) data-action {
                        input type="hidden" name="do" value="query";
                        input type="hidden" name="name" value="__stack_trace";
                        button.primary { "Ask for the stack" }
                        div.outcome aria-live="polite" {}
                    }
                }
                section aria-labelledby="query-title" {
                    h2 #query-title { "Query" }
                    form.stack method="post" action=(address) data-action {
                        input type="hidden" name="do" value="query";
                        label { "Query name" input name="name" required autocomplete="off" list="names-query"; }
                        label { "Input " small { "(JSON)" } textarea name="input" rows="3" spellcheck="false" {} }
                        button.primary { "Ask" }
                        div.outcome aria-live="polite" {}
                    }
                }
            }
        };
        Ok(Answer::Page(workflow::page(&seen, content)))
    }
}
