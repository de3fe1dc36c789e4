//! Namespaces and their search attributes.

use maud::html;
use segno_proto::{
    enums::IndexedValueType,
    nanos_duration,
    operatorservice::{AddSearchAttributesRequest, ListSearchAttributesRequest, RemoveSearchAttributesRequest},
    workflowservice::{ListNamespacesRequest, RegisterNamespaceRequest},
};
use tonic::Status;

use super::{
    Answer, Outcome, PageError, Web,
    fields::words,
    forms::{Form, encode},
    layout::{Page, action, button},
    times,
    workflows::type_name,
};

const DAY: i64 = 86_400_000_000_000;
const NAMESPACES_MAX: i32 = 1000;
/// The types of attributes.
const TYPES: [IndexedValueType; 7] = [
    IndexedValueType::Keyword,
    IndexedValueType::KeywordList,
    IndexedValueType::Text,
    IndexedValueType::Int,
    IndexedValueType::Double,
    IndexedValueType::Bool,
    IndexedValueType::Datetime,
];

impl Web {
    pub(super) async fn namespaces_page(&self, namespace: &str) -> Result<Answer, PageError> {
        let request = ListNamespacesRequest { page_size: NAMESPACES_MAX, ..Default::default() };
        let listed = self.call(request).await?.namespaces;
        let request = ListSearchAttributesRequest { namespace: namespace.to_owned() };
        let attributes = self.call(request).await?;
        let content = html! {
            div.title {
                h1 { "Namespaces" }
                (action("New namespace", "primary", html! {
                    input type="hidden" name="do" value="register";
                    label { "Name" input name="name" required; }
                    label { "Description" input name="description"; }
                    label { "Retention in days" input name="days" type="number" min="1" value="3" required; }
                    button.primary { "Register" }
                }))
            }
            div #rows data-live {
                table.list {
                    caption.hidden { "Namespaces" }
                    thead { tr { th scope="col" { "Name" } th scope="col" { "State" } th scope="col" { "Retention" } th scope="col" { "Description" } th scope="col" { "Id" } } }
                    tbody { @for found in &listed {
                        @let info = found.namespace_info.clone().unwrap_or_default();
                        @let config = found.config.clone().unwrap_or_default();
                        tr aria-current=[(info.name == namespace).then_some("true")] {
                            th scope="row" { a href={ "/ui/" (encode(&info.name)) "/namespaces" } { (info.name) } }
                            td { span.badge.plain { (words(info.state().as_str_name(), "NAMESPACE_STATE_")) } }
                            td data-label="Retention" { (times::span_of(config.workflow_execution_retention_ttl.as_ref())) }
                            td data-label="Description" { (info.description) }
                            td data-label="Id" { code { (info.id) } }
                        }
                    } }
                }
            }
            section aria-labelledby="attributes-title" {
                h2 #attributes-title { "Search attributes of " (namespace) }
                form.row method="post" data-action {
                    input type="hidden" name="do" value="add";
                    label { "Name " input name="name" required; }
                    label { "Type " select name="type" { @for kind in TYPES { option value=(kind as i32) { (type_name(kind as i32)) } } } }
                    button.primary { "Add" }
                    div.outcome aria-live="polite" {}
                }
                div #attributes data-live {
                    @if attributes.custom_attributes.is_empty() { p.faint { "There are no custom search attributes yet." } }
                    @else {
                        table.list {
                            caption.hidden { "Custom search attributes" }
                            thead { tr { th scope="col" { "Name" } th scope="col" { "Type" } th scope="col" { "Actions" } } }
                            tbody { @for (name, kind) in &attributes.custom_attributes {
                                tr {
                                    th scope="row" { (name) } td { (type_name(*kind)) }
                                    td.buttons { (button("Remove", "danger", &[("do", "remove"), ("name", name)])) }
                                }
                            } }
                        }
                    }
                    h3 { "Built in" }
                    p { @for (name, kind) in &attributes.system_attributes { code title=(type_name(*kind)) { (name) } " " } }
                }
            }
        };
        Ok(Answer::Page(Page { title: "Namespaces".to_owned(), area: "namespaces", content, is_live: true }))
    }

    pub(super) async fn namespaces_action(&self, namespace: &str, form: &Form) -> Result<Answer, PageError> {
        let name = form.trimmed("name");
        match form.get("do") {
            "register" => {
                let days: i64 = form
                    .number("days")
                    .ok_or_else(|| Status::invalid_argument("the retention must be a whole number of days"))?;
                let request = RegisterNamespaceRequest {
                    namespace: name.clone(),
                    description: form.trimmed("description"),
                    workflow_execution_retention_period: Some(nanos_duration(days.saturating_mul(DAY))),
                    ..Default::default()
                };
                self.call(request).await?;
                Ok(Outcome::then(
                    html! { "The namespace " (name) " is registered" },
                    format!("/ui/{}/namespaces", encode(&name)),
                ))
            }
            "add" => {
                let kind = form.number("type").unwrap_or(0);
                let search_attributes = [(name.clone(), kind)].into();
                let request = AddSearchAttributesRequest { search_attributes, namespace: namespace.to_owned() };
                self.call(request).await?;
                Ok(Outcome::done(html! { (name) " is added" }))
            }
            "remove" => {
                let request = RemoveSearchAttributesRequest {
                    search_attributes: vec![name.clone()],
                    namespace: namespace.to_owned(),
                };
                self.call(request).await?;
                Ok(Outcome::done(html! { (name) " is removed" }))
            }
            _ => Err(PageError::Missing),
        }
    }
}
