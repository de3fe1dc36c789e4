//! Codecs: encrypt or compress payloads before they are sent, and the reverse when they are received.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use segno_proto::{
    common::{Payload, Payloads},
    failure::{Failure, failure::FailureInfo},
};
use serde::{Deserialize, Serialize};

use super::{ConversionError, DataConverter, FailureConverter, data};

/// Changes payloads on their way. It may give back another number of payloads than it got.
pub trait PayloadCodec: Send + Sync + 'static {
    /// Before they are sent.
    fn encode(&self, payloads: Vec<Payload>) -> BoxFuture<'_, Result<Vec<Payload>, ConversionError>>;
    /// After they have come. Payloads that the codec did not make stay as they are.
    fn decode(&self, payloads: Vec<Payload>) -> BoxFuture<'_, Result<Vec<Payload>, ConversionError>>;
}

/// The message of a failure whose own one is hidden, as in Temporal's SDKs.
const HIDDEN: &str = "Encoded failure";

/// Converters and codecs of payloads and failures: the converters first, then the codecs in a row.
#[derive(Clone, Default)]
pub(crate) struct Codecs {
    converter: Option<Arc<dyn DataConverter>>,
    failures: Option<Arc<dyn FailureConverter>>,
    codecs: Vec<Arc<dyn PayloadCodec>>,
    hide_failures: bool,
}

impl Codecs {
    /// Values take the form that this converter gives them.
    pub fn convert(&mut self, converter: Arc<dyn DataConverter>) {
        self.converter = Some(converter);
    }

    /// Failures take the form that this converter gives them.
    pub fn convert_failures(&mut self, converter: Arc<dyn FailureConverter>) {
        self.failures = Some(converter);
    }

    pub fn push(&mut self, codec: Arc<dyn PayloadCodec>) {
        self.codecs.push(codec);
    }

    /// From now on messages and stack traces of failures pass the codecs, too.
    pub fn hide_failures(&mut self) {
        self.hide_failures = true;
    }

    /// Whether failures are sent otherwise than they are.
    pub fn changes_failures(&self) -> bool {
        self.hide_failures || self.failures.is_some()
    }

    /// Whether failures that come are changed before their payloads are read.
    pub fn converts_failures(&self) -> bool {
        self.failures.is_some()
    }

    /// Whether everything is sent as it is.
    pub fn is_empty(&self) -> bool {
        self.codecs.is_empty() && self.converter.is_none() && !self.changes_failures()
    }

    /// One failure, not its cause, before its payloads are encoded.
    pub fn outgoing_failure(&self, failure: &mut Failure) -> Result<(), ConversionError> {
        if let Some(converter) = &self.failures {
            converter.encode(failure)?;
        }
        if self.hide_failures { hide(failure) } else { Ok(()) }
    }

    /// One failure, not its cause, after its payloads were decoded.
    pub fn incoming_failure(&self, failure: &mut Failure) -> Result<(), ConversionError> {
        reveal(failure);
        match &self.failures {
            Some(converter) => converter.decode(failure),
            None => Ok(()),
        }
    }

    pub async fn encode(&self, mut payloads: Vec<Payload>) -> Result<Vec<Payload>, ConversionError> {
        if payloads.is_empty() {
            return Ok(payloads);
        }
        if let Some(converter) = &self.converter {
            let converted = payloads.into_iter().map(|payload| data::outgoing(&**converter, payload));
            payloads = converted.collect::<Result<_, _>>()?;
        }
        for codec in &self.codecs {
            payloads = codec.encode(payloads).await?;
        }
        Ok(payloads)
    }

    pub async fn decode(&self, mut payloads: Vec<Payload>) -> Result<Vec<Payload>, ConversionError> {
        if payloads.is_empty() {
            return Ok(payloads);
        }
        for codec in self.codecs.iter().rev() {
            payloads = codec.decode(payloads).await?;
        }
        if let Some(converter) = &self.converter {
            let converted = payloads.into_iter().map(|payload| data::incoming(&**converter, payload));
            payloads = converted.collect::<Result<_, _>>()?;
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

    /// The details in a failure and in its causes, and their texts if those are hidden.
    pub async fn encode_failure(&self, mut failure: Failure) -> Result<Failure, ConversionError> {
        if !self.is_empty() {
            let mut next = Some(&mut failure);
            while let Some(link) = next {
                self.outgoing_failure(link)?;
                if let Some(payload) = link.encoded_attributes.take() {
                    link.encoded_attributes = Some(self.encode_one(payload).await?);
                }
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
                if let Some(payload) = link.encoded_attributes.take() {
                    link.encoded_attributes = Some(self.decode_one(payload).await?);
                }
                if let Some(details) = details(link) {
                    details.payloads = self.decode(std::mem::take(&mut details.payloads)).await?;
                }
                self.incoming_failure(link)?;
                next = link.cause.as_deref_mut();
            }
        }
        Ok(failure)
    }
}

/// Texts of a failure in a payload.
#[derive(Serialize, Deserialize)]
struct Texts {
    message: String,
    #[serde(default)]
    stack_trace: String,
}

/// Moves the texts of one failure, not of its cause, to a payload.
fn hide(failure: &mut Failure) -> Result<(), ConversionError> {
    if failure.encoded_attributes.is_none() {
        let texts = Texts {
            message: std::mem::replace(&mut failure.message, HIDDEN.to_owned()),
            stack_trace: std::mem::take(&mut failure.stack_trace),
        };
        failure.encoded_attributes = Some(super::encode_json(&texts)?);
    }
    Ok(())
}

/// The reverse, for payloads that have passed the codecs. What cannot be read stays hidden.
pub(crate) fn reveal(failure: &mut Failure) {
    let texts = failure.encoded_attributes.as_ref().and_then(|payload| super::decode_payload::<Texts>(payload).ok());
    if let Some(Texts { message, stack_trace }) = texts {
        failure.encoded_attributes = None;
        (failure.message, failure.stack_trace) = (message, stack_trace);
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
