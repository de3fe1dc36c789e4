//! UpdateTaskQueueConfig: rate limits and weights of fairness keys.

use segno_proto::{
    nanos_timestamp,
    taskqueue::{ConfigMetadata, RateLimitConfig, TaskQueueConfig},
    workflowservice::{
        UpdateTaskQueueConfigRequest, UpdateTaskQueueConfigResponse, update_task_queue_config_request::RateLimitUpdate,
    },
};
use tonic::Status;

use super::{Workflows, failed, refused};
use crate::validate;

/// Answers have times of configurations in whole milliseconds.
const MILLISECOND: i64 = 1_000_000;

impl Workflows {
    pub(crate) async fn update_queue_config(
        &self,
        request: UpdateTaskQueueConfigRequest,
    ) -> Result<UpdateTaskQueueConfigResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        validate::queue_config::update(&request).map_err(refused)?;
        let now = self.node.runs.now() / MILLISECOND * MILLISECOND;
        let (kind, name) = (request.task_queue_type, request.task_queue.clone());
        let change = move |config: &mut TaskQueueConfig| {
            let limit = |update: RateLimitUpdate| RateLimitConfig {
                rate_limit: update.rate_limit,
                metadata: Some(ConfigMetadata {
                    reason: update.reason,
                    update_identity: request.identity.clone(),
                    update_time: Some(nanos_timestamp(now)),
                }),
            };
            if let Some(update) = request.update_queue_rate_limit {
                config.queue_rate_limit = Some(limit(update));
            }
            if let Some(update) = request.update_fairness_key_rate_limit_default {
                config.fairness_keys_rate_limit_default = Some(limit(update));
            }
            config.fairness_weight_overrides.extend(request.set_fairness_weight_overrides);
            for key in &request.unset_fairness_weight_overrides {
                config.fairness_weight_overrides.remove(key);
            }
        };
        let config = self.node.dispatch.update_queue_config(&namespace, kind, &name, change).await.map_err(failed)?;
        Ok(UpdateTaskQueueConfigResponse { config: Some(config) })
    }
}
