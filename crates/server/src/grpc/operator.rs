//! Temporal's OperatorService. Nothing of it is built yet; the layer in front of it says so call by call.

use segno_proto::operatorservice::operator_service_server::OperatorService;

/// Temporal's OperatorService.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operator;

#[tonic::async_trait]
impl OperatorService for Operator {}
