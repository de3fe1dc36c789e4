//! Segno's own service for scripts. The HTTP form of the same calls is in [`segno_http_api::flows`].

use std::sync::Arc;

use segno_flow::diagnostic::{Diagnostic as Found, Severity};
use segno_node::{CheckedScript, Deployment, MoveCall, Node, ScriptError, ScriptInfo, Source, WorkflowKey};
use segno_proto::{
    nanos_timestamp,
    segno_flow::{
        ActivateRequest, ActivateResponse, Activation, CheckRequest, CheckResponse, DeleteRequest, DeleteResponse,
        DeployFile, DeployRequest, DeployResponse, DescribeRequest, DescribeResponse, DescribeRunRequest,
        DescribeRunResponse, Diagnostic, Diagnostics, Flow, FlowVersion, GetSourceRequest, GetSourceResponse, Handler,
        ListRequest, ListResponse, MigrateRequest, MigrateResponse, RollbackRequest, RollbackResponse, ScheduledRun,
    },
};
use tonic::{Code, Request, Response, Status};

use super::{Workflows, describe::time};
use crate::status;

/// Names in one page.
const PAGE_MAX: usize = 1000;

/// Segno's FlowService.
#[derive(Clone)]
pub struct FlowCalls {
    node: Arc<Node>,
    workflows: Arc<Workflows>,
}

impl FlowCalls {
    /// The service on a node.
    pub fn new(node: Arc<Node>) -> Self {
        Self { workflows: Arc::new(Workflows::new(node.clone())), node }
    }
}

impl FlowCalls {
    pub(crate) async fn deploy(&self, request: Request<DeployRequest>) -> Result<Response<DeployResponse>, Status> {
        let request = request.into_inner();
        let namespace = self.workflows.open_namespace(&request.namespace)?;
        let first = DeployFile { source: request.source, file_name: request.file_name };
        let mut files: Vec<DeployFile> = std::iter::once(first).chain(request.more).collect();
        for file in files.iter_mut().filter(|file| file.file_name.is_empty()) {
            file.file_name = "script.flow".to_owned();
        }
        let source = |file: &DeployFile| Source {
            text: file.source.to_vec(),
            file_name: file.file_name.clone(),
            activate: request.activate.unwrap_or(true),
            take_over: request.take_over,
            identity: request.identity.clone(),
        };
        let deployed = self.node.scripts.deploy_all(namespace.clone(), files.iter().map(source).collect()).await;
        let deployed = deployed.map_err(|(place, error)| refused(error, &files[place].file_name))?;
        let response = |(deployed, file): (Deployment, &DeployFile)| {
            let current = self.node.scripts.current_version(&namespace, &deployed.name);
            DeployResponse {
                name: deployed.name,
                version: deployed.version,
                created: deployed.created,
                current: current.unwrap_or_default(),
                unchanged: deployed.unchanged,
                diagnostics: deployed.warnings.iter().map(|found| diagnostic(found, &file.file_name)).collect(),
                more: Vec::new(),
            }
        };
        let mut responses = deployed.into_iter().zip(&files).map(response);
        let first = responses.next().unwrap_or_default();
        Ok(Response::new(DeployResponse { more: responses.collect(), ..first }))
    }

    pub(crate) async fn activate(
        &self,
        request: Request<ActivateRequest>,
    ) -> Result<Response<ActivateResponse>, Status> {
        let ActivateRequest { namespace, name, version, identity } = request.into_inner();
        let namespace = self.workflows.namespace(&namespace)?;
        let version = self.node.scripts.activate(namespace, &name, &version, &identity).await;
        let version = version.map_err(|error| refused(error, ""))?;
        Ok(Response::new(ActivateResponse { name, version }))
    }

    pub(crate) async fn rollback(
        &self,
        request: Request<RollbackRequest>,
    ) -> Result<Response<RollbackResponse>, Status> {
        let RollbackRequest { namespace, name, identity } = request.into_inner();
        let namespace = self.workflows.namespace(&namespace)?;
        let version = self.node.scripts.rollback(namespace, &name, &identity).await;
        let version = version.map_err(|error| refused(error, ""))?;
        Ok(Response::new(RollbackResponse { name, version }))
    }

    pub(crate) async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<DeleteResponse>, Status> {
        let DeleteRequest { namespace, name, version } = request.into_inner();
        let namespace = self.workflows.namespace(&namespace)?;
        self.node.scripts.delete(namespace, &name, &version).await.map_err(|error| refused(error, ""))?;
        Ok(Response::new(DeleteResponse {}))
    }

    pub(crate) async fn describe_run(
        &self,
        request: Request<DescribeRunRequest>,
    ) -> Result<Response<DescribeRunResponse>, Status> {
        let request = request.into_inner();
        let namespace = self.workflows.namespace(&request.namespace)?;
        let key = WorkflowKey::new(namespace.key, &request.workflow_id);
        let seen = self.node.scripts.describe_run(&namespace, &key, &request.run_id, request.at_event).await;
        let seen = seen.map_err(status::from_call)?;
        Ok(Response::new(DescribeRunResponse {
            state_json: seen.state,
            run_id: seen.run_id,
            status: seen.status,
            source: seen.source.into(),
            file_name: seen.file_name,
            executed_by: seen.executed_by,
        }))
    }

    pub(crate) async fn migrate(&self, request: Request<MigrateRequest>) -> Result<Response<MigrateResponse>, Status> {
        let MigrateRequest { namespace, workflow_id, run_id, version, from_event, check_only } = request.into_inner();
        let namespace = self.workflows.namespace(&namespace)?;
        let key = WorkflowKey::new(namespace.key, &workflow_id);
        let call = MoveCall { run_id, version, from_event, check_only };
        let moved = self.node.scripts.migrate_run(namespace, &key, call).await.map_err(|error| refused(error, ""))?;
        Ok(Response::new(MigrateResponse { run_id: moved.run_id, from_version: moved.from, to_version: moved.to }))
    }
}

impl FlowCalls {
    pub(crate) async fn check(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        let request = request.into_inner();
        let namespace = self.workflows.namespace(&request.namespace)?;
        let checked = self.node.scripts.check(&namespace, request.source, request.file_name.clone()).await;
        let CheckedScript { name, version, diagnostics } = checked.map_err(status::from_call)?;
        let diagnostics = diagnostics.iter().map(|found| diagnostic(found, &request.file_name)).collect();
        Ok(Response::new(CheckResponse { name, version, diagnostics }))
    }

    pub(crate) async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let request = request.into_inner();
        let namespace = self.workflows.namespace(&request.namespace)?;
        let limit = usize::try_from(request.page_size).ok().filter(|size| (1..=PAGE_MAX).contains(size));
        let limit = limit.unwrap_or(PAGE_MAX);
        let found = self.node.scripts.list(&namespace, &request.next_page_token, limit).await;
        let found = found.map_err(|error| refused(error, ""))?;
        let full = found.len() == limit;
        let next_page_token = found.last().filter(|_| full).map(|last| last.name.clone()).unwrap_or_default();
        Ok(Response::new(ListResponse { flows: found.into_iter().map(flow).collect(), next_page_token }))
    }

    pub(crate) async fn describe(
        &self,
        request: Request<DescribeRequest>,
    ) -> Result<Response<DescribeResponse>, Status> {
        let request = request.into_inner();
        let namespace = self.workflows.namespace(&request.namespace)?;
        let found = self.node.scripts.describe(&namespace, &request.name).await.map_err(|error| refused(error, ""))?;
        Ok(Response::new(DescribeResponse { flow: Some(flow(found)) }))
    }

    pub(crate) async fn get_source(
        &self,
        request: Request<GetSourceRequest>,
    ) -> Result<Response<GetSourceResponse>, Status> {
        let GetSourceRequest { namespace, name, version } = request.into_inner();
        let namespace = self.workflows.namespace(&namespace)?;
        let found = self.node.scripts.source(&namespace, &name, &version).await;
        let (source, version, file_name) = found.map_err(|error| refused(error, ""))?;
        Ok(Response::new(GetSourceResponse { source: source.into(), version, file_name }))
    }
}

fn diagnostic(found: &Found, file: &str) -> Diagnostic {
    Diagnostic {
        code: found.code.to_owned(),
        severity: match found.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
        .to_owned(),
        message: found.message.clone(),
        file: file.to_owned(),
        line: found.start.line,
        column: found.start.column,
        end_line: found.end.line,
        end_column: found.end.column,
        hint: found.hint.clone().unwrap_or_default(),
    }
}

fn hex(version: &[u8]) -> String {
    segno_engine::script::hex(version)
}

fn flow(found: ScriptInfo) -> Flow {
    let (open_runs, mut unusable) = (found.open_runs, found.unusable);
    let versions = found.versions.into_iter().map(|version| {
        let digits = hex(&version.version);
        FlowVersion {
            open_runs: open_runs.get(&digits).copied().unwrap_or(0).try_into().unwrap_or(i64::MAX),
            unusable: unusable.remove(&digits).unwrap_or_default(),
            version: digits,
            created: Some(nanos_timestamp(version.created)),
            identity: version.identity,
            file_name: version.file_name,
        }
    });
    let activations = found.activations.into_iter().map(|activation| Activation {
        version: hex(&activation.version),
        time: Some(nanos_timestamp(activation.time)),
        identity: activation.identity,
    });
    Flow {
        name: found.name,
        current: hex(&found.current),
        versions: versions.collect(),
        activations: activations.collect(),
        handlers: found.handlers.into_iter().map(|(kind, name)| Handler { kind, name }).collect(),
        schedule: found.schedule.unwrap_or_default(),
        takes_over: found.takes_over,
        scheduled_run: found.scheduled_run.map(|run| ScheduledRun {
            workflow_id: run.workflow_id,
            next: time(run.next),
            last: time(run.last),
            paused: run.paused,
        }),
    }
}

fn refused(error: ScriptError, file: &str) -> Status {
    match error {
        ScriptError::Source(found) => {
            let diagnostics: Vec<_> = found.iter().map(|found| diagnostic(found, file)).collect();
            let errors = diagnostics.iter().filter(|found| found.severity == "error").count();
            let first = diagnostics.iter().find(|found| found.severity == "error");
            let first = first.map(|first| {
                format!(": {}:{}:{}: error[{}]: {}", first.file, first.line, first.column, first.code, first.message)
            });
            let text = format!("the source has {errors} error(s){}", first.unwrap_or_default());
            let detail = Diagnostics { diagnostics };
            status::named(Code::InvalidArgument, text, "segno.flow.v1.Diagnostics", &detail)
        }
        ScriptError::NotFound(text) => Status::not_found(text),
        ScriptError::Precondition(text) => Status::failed_precondition(text),
        ScriptError::Argument(text) => Status::invalid_argument(text),
        ScriptError::Call(error) => status::from_call(error),
    }
}
