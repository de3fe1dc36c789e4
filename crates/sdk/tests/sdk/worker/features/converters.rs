//! `data_converter`.

use futures::FutureExt;
use prost::Message;
use segno_sdk::{
    Bytes, ConversionError, DataConverter, FailureConverter, PayloadCodec,
    prelude::*,
    raw::{Attributes, Payload, WireFailure},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{encoding, payloads, start};

#[workflow]
async fn echo_bytes(ctx: Context, value: Bytes) -> Result<Bytes> {
    let _ = ctx;
    Ok(value)
}

#[workflow]
async fn echo_json(ctx: Context, value: Value) -> Result<Value> {
    let _ = ctx;
    Ok(value)
}

#[task]
async fn take_null(input: Option<String>) -> Result<()> {
    match input {
        None => Ok(()),
        Some(_) => Err(Failure::new("the input should be null").non_retryable().into()),
    }
}

#[workflow]
async fn send_null(ctx: Context) -> Result<()> {
    Ok(ctx.schedule::<TakeNull>(None).await?)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn data_converter_binary_empty_and_json() {
    let (_server, queue) = start().await;
    let builder = queue.worker().workflow::<EchoBytes>().workflow::<EchoJson>();
    let worker = builder.workflow::<SendNull>().task::<TakeNull>().build().unwrap();
    let body = async {
        let bytes = Bytes::from_static(&[0xde, 0xad, 0xbe, 0xef]);
        let binary = queue.start::<EchoBytes>("binary", bytes.clone()).await?;
        assert_eq!(binary.result().await?, bytes);
        let (argument, result) = payloads(&binary).await?;
        assert_eq!(argument, result);
        assert_eq!((encoding(&result), result.data.as_ref()), ("binary/plain", bytes.as_ref()));

        let plain = queue.start::<EchoJson>("json", json!({ "spec": true })).await?;
        assert_eq!(plain.result().await?, json!({ "spec": true }));
        let (argument, result) = payloads(&plain).await?;
        assert_eq!(argument, result);
        assert_eq!((encoding(&result), result.data.as_ref()), ("json/plain", br#"{"spec":true}"#.as_slice()));

        let empty = queue.start::<SendNull>("empty", ()).await?;
        empty.result().await?;
        let input = empty.history().await?.into_iter().find_map(|event| match event.attributes {
            Some(Attributes::ActivityTaskScheduledEventAttributes(scheduled)) => scheduled.input,
            _ => None,
        });
        let input = input.unwrap().payloads.remove(0);
        assert_eq!((encoding(&input), input.data.len()), ("binary/null", 0));
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

/// Wraps each payload, encoded, in another one.
struct Wrapped;

impl PayloadCodec for Wrapped {
    fn encode(&self, payloads: Vec<Payload>) -> futures::future::BoxFuture<'_, Result<Vec<Payload>, ConversionError>> {
        let wrap = |payload: Payload| {
            let metadata = [("encoding".to_owned(), "my_encoding".into())].into();
            Payload { metadata, data: payload.encode_to_vec().into(), ..Default::default() }
        };
        async move { Ok(payloads.into_iter().map(wrap).collect()) }.boxed()
    }

    fn decode(&self, payloads: Vec<Payload>) -> futures::future::BoxFuture<'_, Result<Vec<Payload>, ConversionError>> {
        let unwrap = |payload: Payload| match encoding(&payload) {
            "my_encoding" => Payload::decode(payload.data).map_err(|error| ConversionError(error.to_string())),
            _ => Ok(payload),
        };
        async move { payloads.into_iter().map(unwrap).collect() }.boxed()
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn data_converter_codec() {
    let (server, _) = start().await;
    let client = Client::builder().target(server.address()).codec(Wrapped).connect().await.unwrap();
    let queue = client.queue("codec");
    let worker = queue.worker().workflow::<EchoJson>().build().unwrap();
    let body = async {
        let handle = queue.start::<EchoJson>("codec", json!({ "spec": true })).await?;
        assert_eq!(handle.result().await?, json!({ "spec": true }));
        let (argument, result) = payloads(&handle).await?;
        assert_eq!(argument, result);
        assert_eq!(encoding(&result), "my_encoding");
        let inner = Payload::decode(result.data).unwrap();
        assert_eq!((encoding(&inner), inner.data.as_ref()), ("json/plain", br#"{"spec":true}"#.as_slice()));
        // What such a client wrote can be replayed after it passed the codec again.
        let history = segno_sdk::replay::History::from_handle(&handle).await?;
        segno_sdk::replay::Replayer::new().workflow::<EchoJson>().replay(history).unwrap();
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

#[workflow]
async fn fail_twice(ctx: Context) -> Result<()> {
    let _ = ctx;
    Err(Failure::new("main error").caused_by(Failure::new("cause error")).into())
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn data_converter_failure() {
    let (server, _) = start().await;
    let client = Client::builder().target(server.address()).encode_failure_attributes().connect().await.unwrap();
    let queue = client.queue("failure");
    let worker = queue.worker().workflow::<FailTwice>().build().unwrap();
    let body = async {
        let handle = queue.start::<FailTwice>("failure", ()).await?;
        let error = handle.result().await.unwrap_err();
        assert_eq!(error.failure().unwrap().message(), "main error");
        let failure = handle.history().await?.into_iter().find_map(|event| match event.attributes {
            Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)) => failed.failure,
            _ => None,
        });
        let failure = failure.unwrap();
        let texts = [("main error", &failure), ("cause error", failure.cause.as_deref().unwrap())];
        for (text, link) in texts {
            assert_eq!((link.message.as_str(), link.stack_trace.as_str()), ("Encoded failure", ""));
            let hidden = link.encoded_attributes.as_ref().unwrap();
            assert_eq!(encoding(hidden), "json/plain");
            let hidden: Value = serde_json::from_slice(&hidden.data).unwrap();
            assert_eq!(hidden["message"], text);
            assert!(hidden.get("stack_trace").is_some());
        }
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

/// Marks the messages of failures on the wire.
struct Marked;

impl FailureConverter for Marked {
    fn encode(&self, failure: &mut WireFailure) -> Result<(), ConversionError> {
        failure.message.insert_str(0, "marked ");
        Ok(())
    }

    fn decode(&self, failure: &mut WireFailure) -> Result<(), ConversionError> {
        failure.message = failure.message.strip_prefix("marked ").unwrap_or(&failure.message).to_owned();
        Ok(())
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn failures_have_the_form_of_the_converter() {
    let (server, _) = start().await;
    let client = Client::builder().target(server.address()).failure_converter(Marked).connect().await.unwrap();
    let queue = client.queue("marked");
    let worker = queue.worker().workflow::<FailTwice>().build().unwrap();
    let body = async {
        let handle = queue.start::<FailTwice>("marked", ()).await?;
        let error = handle.result().await.unwrap_err();
        let failure = error.failure().unwrap();
        assert_eq!((failure.message(), failure.cause().unwrap().message()), ("main error", "cause error"));
        let failure = handle.history().await?.into_iter().find_map(|event| match event.attributes {
            Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)) => failed.failure,
            _ => None,
        });
        let failure = failure.unwrap();
        let cause = failure.cause.as_ref().unwrap();
        assert_eq!((failure.message.as_str(), cause.message.as_str()), ("marked main error", "marked cause error"));
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}

/// `temporal.api.common.v1.DataBlob`, as far as it is needed here.
#[derive(Clone, PartialEq, Serialize, Deserialize, Message)]
struct Blob {
    #[prost(bytes = "vec", tag = "2")]
    data: Vec<u8>,
}

#[workflow]
async fn echo_blob(ctx: Context, value: Blob) -> Result<Blob> {
    let _ = ctx;
    Ok(value)
}

/// Blobs as messages of Protocol Buffers.
struct Protobuf {
    as_json: bool,
}

impl DataConverter for Protobuf {
    fn encode(&self, value: &Value) -> Result<Option<Payload>, ConversionError> {
        let blob: Blob = serde_json::from_value(value.clone()).map_err(|error| ConversionError(error.to_string()))?;
        let (encoding, data) = match self.as_json {
            true => ("json/protobuf", value.to_string().into_bytes()),
            false => ("binary/protobuf", blob.encode_to_vec()),
        };
        let message = ("messageType".to_owned(), "temporal.api.common.v1.DataBlob".into());
        let metadata = [("encoding".to_owned(), encoding.into()), message].into();
        Ok(Some(Payload { metadata, data: data.into(), ..Default::default() }))
    }

    fn decode(&self, payload: &Payload) -> Result<Option<Value>, ConversionError> {
        match encoding(payload) {
            "json/protobuf" => serde_json::from_slice(&payload.data).map(Some),
            "binary/protobuf" => {
                let blob = Blob::decode(payload.data.clone()).map_err(|error| ConversionError(error.to_string()))?;
                serde_json::to_value(blob).map(Some)
            }
            _ => Ok(None),
        }
        .map_err(|error| ConversionError(error.to_string()))
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn data_converter_binary_protobuf_and_json_protobuf() {
    let (server, _) = start().await;
    for (as_json, name) in [(false, "binary/protobuf"), (true, "json/protobuf")] {
        let builder = Client::builder().target(server.address()).converter(Protobuf { as_json });
        let queue = builder.connect().await.unwrap().queue(name);
        let worker = queue.worker().workflow::<EchoBlob>().build().unwrap();
        let body = async {
            let blob = Blob { data: vec![0xde, 0xad, 0xbe, 0xef] };
            let handle = queue.start::<EchoBlob>(name, blob.clone()).await?;
            assert_eq!(handle.result().await?, blob);
            let (argument, result) = payloads(&handle).await?;
            assert_eq!(argument, result);
            assert_eq!(encoding(&result), name);
            assert_eq!(result.metadata["messageType"], "temporal.api.common.v1.DataBlob");
            Ok::<_, ClientError>(())
        };
        worker.run_until(body).await.unwrap();
    }
}
