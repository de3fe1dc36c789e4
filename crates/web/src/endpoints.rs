//! The Nexus endpoints of the server.

use maud::{Markup, html};
use segno_proto::{
    nexus::{
        Endpoint, EndpointSpec, EndpointTarget,
        endpoint_target::{External, Variant, Worker},
    },
    operatorservice::{CreateNexusEndpointRequest, DeleteNexusEndpointRequest, ListNexusEndpointsRequest},
};
use tonic::Status;

use super::{
    Answer, Outcome, PageError, PageRequest, Web,
    forms::{Form, encode, hex, unhex},
    layout::{Page, action, button, pager},
    payloads, times,
};

/// Endpoints on a page.
const PAGE_SIZE: i32 = 100;

impl Web {
    pub(super) async fn endpoints_page(&self, namespace: &str, asked: &PageRequest<'_>) -> Result<Answer, PageError> {
        let next_page_token = unhex(asked.query.get("page")).into();
        let request = ListNexusEndpointsRequest { page_size: PAGE_SIZE, next_page_token, ..Default::default() };
        let listed = self.call(request).await?;
        let content = html! {
            div.title {
                h1 { "Endpoints" }
                (action("New endpoint", "primary", html! {
                    input type="hidden" name="do" value="create";
                    label { "Name" input name="name" required; }
                    label { "Namespace of the handlers" input name="namespace" value=(namespace) required; }
                    label { "Task queue of the handlers" input name="queue" required; }
                    button.primary { "Create" }
                }))
            }
            p { "An endpoint is a name under which workflows of all namespaces call Nexus operations." }
            div #rows data-live {
                @if listed.endpoints.is_empty() {
                    div.empty { p { "There are no endpoints." } }
                } @else {
                    table.list {
                        caption.hidden { "Endpoints" }
                        thead { tr {
                            th scope="col" { "Endpoint" } th scope="col" { "Target" } th scope="col" { "Description" }
                            th scope="col" { "Changed" } th scope="col" { "Actions" }
                        } }
                        tbody { @for endpoint in &listed.endpoints { (row(endpoint)) } }
                    }
                }
                (pager(None, (!listed.next_page_token.is_empty()).then(|| asked.query.with(&[("page", &hex(&listed.next_page_token))]))))
            }
        };
        Ok(Answer::Page(Page { title: "Endpoints".to_owned(), area: "endpoints", content, is_live: true }))
    }

    pub(super) async fn endpoints_action(&self, form: &Form) -> Result<Answer, PageError> {
        let name = form.trimmed("name");
        match form.get("do") {
            "create" => {
                let worker = Worker { namespace: form.trimmed("namespace"), task_queue: form.trimmed("queue") };
                let target = Some(EndpointTarget { variant: Some(Variant::Worker(worker)) });
                let spec = EndpointSpec { name: name.clone(), description: None, target };
                self.call(CreateNexusEndpointRequest { spec: Some(spec) }).await?;
                Ok(Outcome::done(html! { "The endpoint " (name) " is created" }))
            }
            "delete" => {
                let version =
                    form.number("version").ok_or_else(|| Status::invalid_argument("the version is missing"))?;
                self.call(DeleteNexusEndpointRequest { id: form.trimmed("id"), version }).await?;
                Ok(Outcome::done(html! { "The endpoint " (name) " is deleted" }))
            }
            _ => Err(PageError::Missing),
        }
    }
}

fn row(endpoint: &Endpoint) -> Markup {
    let spec = endpoint.spec.clone().unwrap_or_default();
    let changed = endpoint.last_modified_time.as_ref().or(endpoint.created_time.as_ref());
    let version = endpoint.version.to_string();
    html! {
        tr {
            th scope="row" { (spec.name) br; code { (endpoint.id) } }
            td data-label="Target" { (target(spec.target)) }
            td data-label="Description" { @if let Some(text) = &spec.description { (payloads::text(text)) } }
            td data-label="Changed" { (times::relative(changed)) }
            td.buttons data-label="Actions" {
                (button("Delete", "danger", &[("do", "delete"), ("id", &endpoint.id), ("version", &version), ("name", &spec.name)]))
            }
        }
    }
}

fn target(target: Option<EndpointTarget>) -> Markup {
    match target.and_then(|target| target.variant) {
        Some(Variant::Worker(Worker { namespace, task_queue })) => html! {
            "task queue "
            a href={ "/ui/" (encode(&namespace)) "/task-queues?name=" (encode(&task_queue)) } { (task_queue) }
            " of namespace " (namespace)
        },
        Some(Variant::External(External { url })) => html! { code { (url) } },
        None => html! { span.faint { "–" } },
    }
}
