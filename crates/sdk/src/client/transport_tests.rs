//! Tests of the transport against a scripted server of `h2`.

use std::sync::atomic::{AtomicUsize, Ordering};

use h2::server::SendResponse;
use http::HeaderValue;
use tokio::{io::AsyncWriteExt, net::TcpListener};
use tonic::Code;

use super::{
    super::unary::{EncodedCall, POLL_WORKFLOW_TASK},
    *,
};

const PATH: &str = "/temporal.api.workflowservice.v1.WorkflowService/PollWorkflowTaskQueue";

/// A request without fields.
fn empty() -> EncodedCall {
    POLL_WORKFLOW_TASK.encode(&Default::default())
}

fn target(port: u16) -> Target {
    Target {
        scheme: Scheme::HTTP,
        authority: format!("127.0.0.1:{port}").parse().unwrap(),
        proxy: None,
        #[cfg(feature = "tls")]
        tls: None,
        keep_alive: None,
        metadata: [(http::header::USER_AGENT, HeaderValue::from_static("test"))].into_iter().collect(),
    }
}

/// Listens, and answers every call as `answer` says. The number of connections is counted.
async fn serve(answer: fn(usize, SendResponse<Bytes>) -> bool) -> (Transport, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let transport = Transport::new(target(listener.local_addr().unwrap().port()));
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let mut connection = h2::server::handshake(stream).await.unwrap();
            tokio::spawn(async move {
                while let Some(Ok((request, respond))) = connection.accept().await {
                    assert_eq!(request.headers()["user-agent"], "test");
                    assert_eq!(request.headers()["content-type"], "application/grpc");
                    assert_eq!(request.uri().path(), PATH);
                    if !answer(number, respond) {
                        connection.graceful_shutdown();
                    }
                }
            });
        }
    });
    (transport, connections)
}

/// Answers with these frames and a status.
fn say(mut respond: SendResponse<Bytes>, frames: &[&'static [u8]], status: &'static str) {
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let mut stream = respond.send_response(head, false).unwrap();
    for frame in frames {
        stream.send_data(Bytes::from_static(frame), false).unwrap();
    }
    let trailers =
        [("grpc-status", status)].map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
    stream.send_trailers(trailers.into_iter().collect()).unwrap();
}

async fn call(transport: &Transport) -> Result<Bytes, Status> {
    transport.unary(&empty(), Duration::from_secs(5)).await
}

#[tokio::test]
async fn a_message_may_come_in_parts() {
    let (transport, _) = serve(|_, respond| {
        say(respond, &[&[0, 0], &[0, 0, 4, b'a'], b"bc", b"d"], "0");
        true
    })
    .await;
    assert_eq!(call(&transport).await.unwrap(), "abcd");
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let answers: [fn(usize, SendResponse<Bytes>) -> bool; 5] = [
        |_, respond| (say(respond, &[&[1, 0, 0, 0, 1, 7]], "0"), true).1,
        |_, respond| (say(respond, &[&[0, 0, 0, 0, 9, 7]], "0"), true).1,
        |_, respond| (say(respond, &[&[0, 0, 0, 0, 1, 7, 7]], "0"), true).1,
        |_, respond| (say(respond, &[], "0"), true).1,
        |_, respond| (say(respond, &[&[0, 255, 255, 255, 255]], "0"), true).1,
    ];
    let mut texts = Vec::new();
    for answer in answers {
        let (transport, _) = serve(answer).await;
        texts.push(call(&transport).await.unwrap_err().message().to_owned());
    }
    let expected = ["compressed", "ended within", "more than one", "without a message", "at most"];
    for (text, expected) in texts.iter().zip(expected) {
        assert!(text.contains(expected), "{texts:?}");
    }
}

#[tokio::test]
async fn refusals_have_their_code() {
    let (transport, connections) = serve(|_, respond| (say(respond, &[], "5"), true).1).await;
    assert_eq!(call(&transport).await.unwrap_err().code(), Code::NotFound);
    let (unavailable, _) = serve(|_, mut respond| {
        respond.send_response(Response::builder().status(503).body(()).unwrap(), true).unwrap();
        true
    })
    .await;
    assert_eq!(call(&unavailable).await.unwrap_err().code(), Code::Unavailable);
    let (reset, _) = serve(|_, mut respond| {
        respond.send_reset(Reason::ENHANCE_YOUR_CALM);
        true
    })
    .await;
    assert_eq!(call(&reset).await.unwrap_err().code(), Code::ResourceExhausted);
    // None of this was the fault of the connection.
    assert_eq!(call(&transport).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_connection_with_goaway_is_left_and_made_again() {
    let (transport, connections) = serve(|_, respond| {
        say(respond, &[&[0, 0, 0, 0, 0]], "0");
        false
    })
    .await;
    for _ in 0..3 {
        call(&transport).await.unwrap();
        // GOAWAY comes after the answer.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(connections.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn calls_that_wait_for_a_connection_hear_why_there_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let transport = Transport::new(target(port));
    let (one, other) = tokio::join!(call(&transport), call(&transport));
    for answer in [one, other] {
        let status = answer.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("cannot be reached"), "{status:?}");
    }
}

#[tokio::test]
async fn one_attempt_serves_all_calls_that_wait_also_if_the_first_gives_up() {
    let (transport, connections) = serve(|_, respond| {
        say(respond, &[&[0, 0, 0, 0, 0]], "0");
        true
    })
    .await;
    // Polled once, which begins the attempt.
    assert!(call(&transport).now_or_never().is_none());
    let (one, other) = tokio::join!(call(&transport), call(&transport));
    one.and(other).unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_address_that_refuses_is_followed_by_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let there = listener.local_addr().unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    // No host answers at an address that is set aside for documentation, or the machine says so at once.
    let silent = "192.0.2.1:9".parse().unwrap();
    assert_eq!(dial(&[gone, silent, there][..]).await.unwrap().peer_addr().unwrap(), there);
    assert!(dial(&[gone][..]).await.is_err());
}

#[tokio::test]
async fn a_call_ends_with_its_limit() {
    let (transport, _) = serve(|_, respond| {
        // Kept, so that the stream stays open.
        Box::leak(Box::new(respond));
        true
    })
    .await;
    let call = empty();
    let call = transport.unary(&call, Duration::from_millis(50));
    assert_eq!(call.await.unwrap_err().code(), Code::DeadlineExceeded);
}

/// A connection whose other end does nothing, except that it sends `bytes` every ten seconds.
async fn silent(keep_alive: Duration, bytes: &'static [u8]) -> SendRequest<Bytes> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut target = target(1);
    target.keep_alive = Some(keep_alive);
    let (read, mut write) = tokio::io::split(theirs);
    // The settings that begin a connection, empty.
    write.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    tokio::spawn(async move {
        let _unread = read;
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            write.write_all(bytes).await.unwrap();
        }
    });
    target.handshake(ours).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_sign_of_life_is_given_up() {
    let requests = silent(Duration::from_secs(30), &[]).await;
    tokio::time::sleep(Duration::from_secs(44)).await;
    requests.clone().ready().await.unwrap();
    // 45 seconds, and 30 more if the settings count as a sign of life.
    tokio::time::sleep(Duration::from_secs(32)).await;
    assert!(requests.ready().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_something_is_read_is_alive() {
    // A WINDOW_UPDATE of the connection, by one.
    let requests = silent(Duration::from_secs(3), &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1]).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    requests.ready().await.unwrap();
}

#[test]
fn what_callers_hear_of_an_end() {
    let code = |reason: Reason| status(reason.into()).code();
    assert_eq!(code(Reason::REFUSED_STREAM), Code::Unavailable);
    assert_eq!(code(Reason::CANCEL), Code::Cancelled);
    assert_eq!(code(Reason::INTERNAL_ERROR), Code::Internal);
}
