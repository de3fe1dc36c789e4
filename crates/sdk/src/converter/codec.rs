//! What payloads pass before they are sent and after they come: encryption, compression.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use segno_proto::{
    common::{Payload, Payloads},
    failure::{Failure, failure::FailureInfo},
};

use super::ConversionError;

/// Changes payloads on their way. It may give back another number of payloads than it got.
pub trait PayloadCodec: Send + Sync + 'static {
    /// Before they are sent.
    fn encode(&self, payloads: Vec<Payload>) -> BoxFuture<'_, Result<Vec<Payload>, ConversionError>>;
    /// After they have come. Payloads that the codec did not make stay as they are.
    fn decode(&self, payloads: Vec<Payload>) -> BoxFuture<'_, Result<Vec<Payload>, ConversionError>>;
}

/// Codecs in a row.
#[derive(Clone, Default)]
pub(crate) struct Codecs(Vec<Arc<dyn PayloadCodec>>);

impl Codecs {
    pub fn push(&mut self, codec: Arc<dyn PayloadCodec>) {
        self.0.push(codec);
    }

    /// Whether payloads stay as they are.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub async fn encode(&self, mut payloads: Vec<Payload>) -> Result<Vec<Payload>, ConversionError> {
        if payloads.is_empty() {
            return Ok(payloads);
        }
        for codec in &self.0 {
            payloads = codec.encode(payloads).await?;
        }
        Ok(payloads)
    }

    pub async fn decode(&self, mut payloads: Vec<Payload>) -> Result<Vec<Payload>, ConversionError> {
        if payloads.is_empty() {
            return Ok(payloads);
        }
        for codec in self.0.iter().rev() {
            payloads = codec.decode(payloads).await?;
        }
        Ok(payloads)
    }

    /// A payload that stands alone, such as a value of a memo.
    pub async fn encode_one(&self, payload: Payload) -> Result<Payload, ConversionError> {
        single(self.encode(vec![payload]).await?)
    }

    /// The reverse.
    pub async fn decode_one(&self, payload: Payload) -> Result<Payload, ConversionError> {
        single(self.decode(vec![payload]).await?)
    }

    /// The details in a failure and in its causes.
    pub async fn encode_failure(&self, mut failure: Failure) -> Result<Failure, ConversionError> {
        if !self.is_empty() {
            let mut next = Some(&mut failure);
            while let Some(link) = next {
                if let Some(details) = details(link) {
                    details.payloads = self.encode(std::mem::take(&mut details.payloads)).await?;
                }
                next = link.cause.as_deref_mut();
            }
        }
        Ok(failure)
    }

    /// The reverse.
    pub async fn decode_failure(&self, mut failure: Failure) -> Result<Failure, ConversionError> {
        if !self.is_empty() {
            let mut next = Some(&mut failure);
            while let Some(link) = next {
                if let Some(details) = details(link) {
                    details.payloads = self.decode(std::mem::take(&mut details.payloads)).await?;
                }
                next = link.cause.as_deref_mut();
            }
        }
        Ok(failure)
    }
}

fn single(payloads: Vec<Payload>) -> Result<Payload, ConversionError> {
    let message = "a codec made no payload, or several, of one that stands alone";
    match <[Payload; 1]>::try_from(payloads) {
        Ok([payload]) => Ok(payload),
        Err(_) => Err(ConversionError(message.to_owned())),
    }
}

fn details(failure: &mut Failure) -> Option<&mut Payloads> {
    match failure.failure_info.as_mut()? {
        FailureInfo::ApplicationFailureInfo(info) => info.details.as_mut(),
        FailureInfo::CanceledFailureInfo(info) => info.details.as_mut(),
        FailureInfo::TimeoutFailureInfo(info) => info.last_heartbeat_details.as_mut(),
        FailureInfo::ResetWorkflowFailureInfo(info) => info.last_heartbeat_details.as_mut(),
        _ => None,
    }
}
