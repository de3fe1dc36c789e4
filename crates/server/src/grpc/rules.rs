//! Workflow rules: CreateWorkflowRule, DescribeWorkflowRule, DeleteWorkflowRule, ListWorkflowRules.

use segno_engine::validate::ID_LENGTH_MAX;
use segno_node::{CallError, NamespaceDetail, NamespaceName, RULES_MAX};
use segno_proto::{
    nanos_timestamp,
    rules::WorkflowRule,
    timestamp_nanos,
    workflowservice::{
        CreateWorkflowRuleRequest, CreateWorkflowRuleResponse, DeleteWorkflowRuleRequest, DeleteWorkflowRuleResponse,
        DescribeWorkflowRuleRequest, DescribeWorkflowRuleResponse, ListWorkflowRulesRequest, ListWorkflowRulesResponse,
    },
};
use tonic::Status;

use super::{Workflows, disabled::Disabled, failed};

const NOT_FOUND: &str = "Workflow Rule with this ID not Found.";

impl Workflows {
    pub(crate) async fn create_rule(
        &self,
        request: CreateWorkflowRuleRequest,
    ) -> Result<CreateWorkflowRuleResponse, Status> {
        self.allow_rules(&request.namespace, "CreateWorkflowRule")?;
        let Some(spec) = request.spec else {
            return Err(Status::invalid_argument("Rule Specification is not set."));
        };
        if spec.id.is_empty() {
            return Err(Status::invalid_argument("Workflow Rule ID is not set."));
        }
        if spec.id.len() > ID_LENGTH_MAX {
            return Err(Status::invalid_argument("Workflow Rule Id length exceeds limit."));
        }
        let rule = WorkflowRule {
            create_time: Some(nanos_timestamp(self.node.runs.clock_now())),
            spec: Some(spec.clone()),
            created_by_identity: request.identity,
            description: request.description,
        };
        let added = rule.clone();
        let edit = move |detail: &mut NamespaceDetail| add(detail, spec.id, added);
        self.node.namespaces.change(NamespaceName::Name(request.namespace), edit).await.map_err(failed)?;
        Ok(CreateWorkflowRuleResponse { rule: Some(rule), ..Default::default() })
    }

    pub(crate) async fn describe_rule(
        &self,
        request: DescribeWorkflowRuleRequest,
    ) -> Result<DescribeWorkflowRuleResponse, Status> {
        self.allow_rules(&request.namespace, "DescribeWorkflowRule")?;
        let namespace = self.namespace(&request.namespace)?;
        if request.rule_id.is_empty() {
            return Err(Status::invalid_argument("Workflow Rule ID is not set."));
        }
        match namespace.detail.workflow_rules.get(&request.rule_id) {
            Some(rule) => Ok(DescribeWorkflowRuleResponse { rule: Some(rule.clone()) }),
            None => Err(Status::invalid_argument(NOT_FOUND)),
        }
    }

    pub(crate) async fn delete_rule(
        &self,
        request: DeleteWorkflowRuleRequest,
    ) -> Result<DeleteWorkflowRuleResponse, Status> {
        self.allow_rules(&request.namespace, "DeleteWorkflowRule")?;
        if request.rule_id.is_empty() {
            return Err(Status::invalid_argument("Workflow Rule ID is not set."));
        }
        let edit = move |detail: &mut NamespaceDetail| match detail.workflow_rules.remove(&request.rule_id) {
            Some(_) => Ok(()),
            None => Err(invalid(NOT_FOUND)),
        };
        self.node.namespaces.change(NamespaceName::Name(request.namespace), edit).await.map_err(failed)?;
        Ok(DeleteWorkflowRuleResponse {})
    }

    pub(crate) async fn list_rules(
        &self,
        request: ListWorkflowRulesRequest,
    ) -> Result<ListWorkflowRulesResponse, Status> {
        self.allow_rules(&request.namespace, "ListWorkflowRules")?;
        let namespace = self.namespace(&request.namespace)?;
        let rules = namespace.detail.workflow_rules.values().cloned().collect();
        Ok(ListWorkflowRulesResponse { rules, ..Default::default() })
    }

    fn allow_rules(&self, namespace: &str, call: &'static str) -> Result<(), Status> {
        self.namespace(namespace)?;
        if self.node.runs.options.workflow_rules {
            Ok(())
        } else {
            Err(self.disabled(namespace, Disabled::Rules(call)))
        }
    }
}

/// Adds a rule. If there are as many as there may be, the one that expires first makes room.
fn add(detail: &mut NamespaceDetail, id: String, rule: WorkflowRule) -> Result<(), CallError> {
    let rules = &mut detail.workflow_rules;
    if rules.len() >= RULES_MAX {
        let expires = |rule: &WorkflowRule| rule.spec.as_ref()?.expiration_time.as_ref().map(timestamp_nanos);
        let first = rules.iter().filter_map(|(id, rule)| Some((expires(rule)?, id.clone()))).min();
        if let Some((_, first)) = first {
            rules.remove(&first);
        }
    }
    if rules.len() >= RULES_MAX {
        return Err(invalid(&format!("Workflow Rule limit exceeded. Max: {RULES_MAX}")));
    }
    if rules.contains_key(&id) {
        return Err(invalid("Workflow Rule with this ID already exists."));
    }
    rules.insert(id, rule);
    Ok(())
}

fn invalid(text: &str) -> CallError {
    segno_engine::Rejection::InvalidArgument(text.to_owned()).into()
}
