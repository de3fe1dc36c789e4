//! The HTTP form of the calls about scripts: `/api/v1/namespaces/{namespace}/flows` and `/runs`.
//!
//! A thin translation to the calls of `segno.flow.v1.FlowService`: paths and query strings become requests, responses become JSON with the field
//! names of the protocol, statuses become HTTP statuses.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, StatusCode};
use prost::Message;
use segno_calls::Service;
use segno_proto::{
    Rpc,
    segno_flow::{
        ActivateRequest, CheckRequest, DeleteRequest, DeployRequest, DescribeRequest, DescribeRunRequest, Diagnostic,
        Diagnostics, Flow, GetSourceRequest, ListRequest, MigrateRequest, RollbackRequest,
    },
    timestamp_nanos,
};
use serde_json::{Value, json};
use tonic::{Extensions, Status};

use super::{http_status, parameters::unescape};

/// Where these paths begin.
pub const PREFIX: &str = "/api/v1/namespaces/";

/// Whether a path is one of these. Other paths with the same beginning are those of Temporal's HTTP API.
pub fn is_one(path: &str) -> bool {
    let rest = path.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/'));
    rest.is_some_and(|(_, rest)| rest == "flows:check" || matches!(rest.split('/').next(), Some("flows" | "runs")))
}

/// An answer: status, content type, content.
pub type Answer = (StatusCode, &'static str, Vec<u8>);

/// Answers a request whose path begins with [`PREFIX`].
pub async fn answer(service: &dyn Service, method: &Method, path: &str, query: &str, body: Bytes) -> Answer {
    match route(service, method, path, query, body).await {
        Ok(answer) => answer,
        Err(status) => failed(&status),
    }
}

async fn call<Q: Rpc>(service: &dyn Service, request: Q) -> Result<Q::Response, Status> {
    segno_calls::call(service, &request, Extensions::default()).await
}

async fn route(service: &dyn Service, method: &Method, path: &str, query: &str, body: Bytes) -> Result<Answer, Status> {
    let nothing = || Status::not_found(format!("there is nothing at {path}"));
    let (namespace, rest) = path.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/')).ok_or_else(nothing)?;
    let namespace = decode(namespace)?;
    let mut given = parse(query)?;
    let is_json = matches!(rest.rsplit_once(':'), Some((_, "activate" | "rollback" | "migrate")));
    if is_json && !body.is_empty() {
        given.extend(fields(&body)?);
    }
    let text = |name: &str| given.get(name).cloned().unwrap_or_default();
    let flag = |name: &str| given.get(name).map(|value| value == "true" || value == "1" || value.is_empty());
    let number = |name: &str| match given.get(name).filter(|value| !value.is_empty()) {
        None => Ok(0),
        Some(value) => value.parse().map_err(|_| Status::invalid_argument(format!("{name} must be a whole number"))),
    };
    if let Some(("runs", rest)) = rest.split_once('/') {
        if let Some(id) = rest.strip_suffix(":migrate").filter(|_| method == Method::POST) {
            let request = MigrateRequest {
                namespace,
                workflow_id: decode(id)?,
                run_id: text("run_id"),
                version: text("version"),
                from_event: number("from_event")?,
                check_only: flag("check_only").unwrap_or(false),
            };
            let moved = call(service, request).await?;
            return Ok(ok(&json!({
                "run_id": moved.run_id, "from_version": moved.from_version, "to_version": moved.to_version,
            })));
        }
        let id = rest.strip_suffix("/flow").filter(|_| method == Method::GET).ok_or_else(nothing)?;
        let request = DescribeRunRequest {
            namespace,
            workflow_id: decode(id)?,
            run_id: text("run_id"),
            at_event: number("at_event")?,
        };
        let seen = call(service, request).await?;
        return Ok((StatusCode::OK, JSON, seen.state_json.into_bytes()));
    }
    match (method, rest) {
        (&Method::POST, "flows:check") => {
            let request = CheckRequest { namespace, source: body, file_name: text("file_name") };
            let checked = call(service, request).await?;
            Ok(ok(&json!({
                "name": checked.name, "version": checked.version, "diagnostics": diagnostics(&checked.diagnostics),
            })))
        }
        (&Method::POST, "flows") => {
            let request = DeployRequest {
                namespace,
                source: body,
                file_name: text("file_name"),
                activate: flag("activate"),
                take_over: flag("take_over").unwrap_or(false),
                identity: text("identity"),
                more: Vec::new(),
            };
            let deployed = call(service, request).await?;
            Ok(ok(&json!({
                "name": deployed.name, "version": deployed.version, "created": deployed.created,
                "current": deployed.current, "unchanged": deployed.unchanged,
                "diagnostics": diagnostics(&deployed.diagnostics),
            })))
        }
        (&Method::GET, "flows") => {
            let page_size = number("page_size")?.try_into().unwrap_or(0);
            let request = ListRequest { namespace, page_size, next_page_token: text("next_page_token") };
            let listed = call(service, request).await?;
            let flows: Vec<_> = listed.flows.iter().map(flow).collect();
            Ok(ok(&json!({ "flows": flows, "next_page_token": listed.next_page_token })))
        }
        (method, rest) => {
            let name = rest.strip_prefix("flows/").ok_or_else(nothing)?;
            if let Some(name) = name.strip_suffix(":activate").filter(|_| method == Method::POST) {
                let (name, identity) = (decode(name)?, text("identity"));
                let request = ActivateRequest { namespace, name, version: text("version"), identity };
                let done = call(service, request).await?;
                return Ok(ok(&json!({ "name": done.name, "version": done.version })));
            }
            if let Some(name) = name.strip_suffix(":rollback").filter(|_| method == Method::POST) {
                let request = RollbackRequest { namespace, name: decode(name)?, identity: text("identity") };
                let done = call(service, request).await?;
                return Ok(ok(&json!({ "name": done.name, "version": done.version })));
            }
            if let Some(name) = name.strip_suffix("/source").filter(|_| method == Method::GET) {
                let request = GetSourceRequest { namespace, name: decode(name)?, version: text("version") };
                let found = call(service, request).await?;
                return Ok((StatusCode::OK, "text/plain; charset=utf-8", found.source.to_vec()));
            }
            match *method {
                Method::GET => {
                    let request = DescribeRequest { namespace, name: decode(name)? };
                    let found = call(service, request).await?;
                    Ok(ok(&flow(&found.flow.unwrap_or_default())))
                }
                Method::DELETE => {
                    let request = DeleteRequest { namespace, name: decode(name)?, version: text("version") };
                    call(service, request).await?;
                    Ok(ok(&json!({})))
                }
                _ => Err(nothing()),
            }
        }
    }
}

const JSON: &str = "application/json";

fn ok(value: &Value) -> Answer {
    (StatusCode::OK, JSON, value.to_string().into_bytes())
}

fn failed(status: &Status) -> Answer {
    let mut body = json!({ "code": status.code() as i32, "message": status.message() });
    if let Some(found) = details(status) {
        body["diagnostics"] = diagnostics(&found.diagnostics);
    }
    (http_status(status.code()), JSON, body.to_string().into_bytes())
}

/// The diagnostics that a status carries.
fn details(status: &Status) -> Option<Diagnostics> {
    let details = segno_proto::google::rpc::Status::decode(status.details()).ok()?;
    let found = details.details.iter().find(|detail| detail.type_url.ends_with("segno.flow.v1.Diagnostics"))?;
    Diagnostics::decode(&found.value[..]).ok()
}

fn diagnostics(found: &[Diagnostic]) -> Value {
    found
        .iter()
        .map(|found| {
            json!({
                "code": found.code, "severity": found.severity, "message": found.message, "file": found.file,
                "line": found.line, "column": found.column, "end_line": found.end_line,
                "end_column": found.end_column,
                "hint": if found.hint.is_empty() { Value::Null } else { Value::from(found.hint.as_str()) },
            })
        })
        .collect()
}

fn flow(flow: &Flow) -> Value {
    let time = |time: &Option<prost_types::Timestamp>| {
        let nanos = time.as_ref().map_or(0, timestamp_nanos);
        segno_flow::pure::time::show(nanos / 1_000_000)
    };
    let versions: Vec<_> = flow
        .versions
        .iter()
        .map(|version| {
            json!({
                "version": version.version, "created": time(&version.created), "identity": version.identity,
                "file_name": version.file_name, "open_runs": version.open_runs,
                "unusable": if version.unusable.is_empty() { Value::Null } else { Value::from(version.unusable.as_str()) },
            })
        })
        .collect();
    let activations: Vec<_> = flow
        .activations
        .iter()
        .map(|activation| {
            json!({
                "version": activation.version, "time": time(&activation.time), "identity": activation.identity,
            })
        })
        .collect();
    let handlers: Vec<_> =
        flow.handlers.iter().map(|handler| json!({ "kind": handler.kind, "name": handler.name })).collect();
    let open_runs: BTreeMap<_, _> = flow
        .versions
        .iter()
        .filter(|version| version.open_runs > 0)
        .map(|version| (version.version.clone(), version.open_runs))
        .collect();
    json!({
        "name": flow.name,
        "current": if flow.current.is_empty() { Value::Null } else { Value::from(flow.current.as_str()) },
        "versions": versions, "activations": activations, "open_runs": open_runs, "handlers": handlers,
        "schedule": if flow.schedule.is_empty() { Value::Null } else { Value::from(flow.schedule.as_str()) },
        "takes_over": flow.takes_over,
    })
}

/// The fields of a JSON object as text.
fn fields(body: &[u8]) -> Result<BTreeMap<String, String>, Status> {
    let bad = || Status::invalid_argument("the body must be a JSON object");
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else { return Err(bad()) };
    let text = |value: Value| match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    Ok(fields.into_iter().map(|(name, value)| (name, text(value))).collect())
}

/// The parameters of a query string.
fn parse(query: &str) -> Result<BTreeMap<String, String>, Status> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
        })
        .collect()
}

/// Undoes percent-encoding (RFC 3986).
pub fn decode(text: &str) -> Result<String, Status> {
    let bad = || Status::invalid_argument(format!("{text:?} is not percent-encoded text"));
    String::from_utf8(unescape(text, false).ok_or_else(bad)?).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_those_of_temporal() {
        for path in ["flows", "flows:check", "flows/v", "flows/v:activate", "runs/r/flow", "runs/r:migrate"] {
            assert!(is_one(&format!("{PREFIX}default/{path}")), "{path}");
        }
        for path in ["workflows", "workflows/w:signal", "schedules", "flowsy"] {
            assert!(!is_one(&format!("{PREFIX}default/{path}")), "{path}");
        }
    }

    #[test]
    fn percent_encoding_is_undone() {
        assert_eq!(decode("a%2Fb%20c%C3%A4").ok().as_deref(), Some("a/b c\u{e4}"));
        for bad in ["%", "%2", "%zz", "%ff"] {
            assert!(decode(bad).is_err(), "{bad}");
        }
        let given = parse("a=1&b=x+y&c&d=%3D").expect("well formed");
        let wanted = [("a", "1"), ("b", "x y"), ("c", ""), ("d", "=")];
        assert_eq!(given, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }
}
