//! Conversations of h2's client with this crate's server and with h2's own server: the client sees the same.
//!
//! A plan, drawn from a seed, says for each request what the client sends and how the server answers. The client keeps
//! to its flow-control windows, releases capacity bit by bit, cancels some requests, and records what it got.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::common::{Random, settings};
use bytes::Bytes;
use h2::{Reason, client, server};
use http::{HeaderMap, Request, Response as HttpResponse};
use segno_http2::{Connection, ErrorCode, Handler, HeaderBlock, Refusals, Response, Settings, SharedBudget};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// One request and its response.
#[derive(Clone, Debug)]
struct Exchange {
    /// Sizes of the DATA frames of the request.
    request: Vec<usize>,
    /// A field of the request, sometimes large, sometimes the same as before.
    field: String,
    answer: Answer,
    /// The client resets the stream instead of reading the response.
    is_cancelled: bool,
}

#[derive(Clone, Debug)]
enum Answer {
    /// Headers, one message, trailers.
    Unary(usize),
    /// Headers, parts, and trailers or not.
    Parts(Vec<usize>, bool),
    /// One header block with this much text.
    TrailersOnly(usize),
    /// RST_STREAM with INTERNAL_ERROR.
    Reset,
}

/// What the client saw of one exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Answered { status: u16, request_bytes: String, body: Vec<u8>, trailers: Option<Vec<(String, String)>> },
    Reset(Option<Reason>),
    Cancelled,
}

struct Plan {
    exchanges: Vec<Exchange>,
    client_window: u32,
    client_connection_window: u32,
    table_bytes: Option<u32>,
    /// Requests at the same time.
    parallel: usize,
}

fn plan(seed: u64) -> Plan {
    let mut random = Random(seed);
    let size = |random: &mut Random| [0, 1, 100, 5_000, 16_384, 16_385, 40_000, 100_000][random.below(8)];
    let exchange = |random: &mut Random| Exchange {
        request: (0..random.below(4)).map(|_| size(random)).collect(),
        field: ["a", "b", "c"][random.below(3)].repeat([1, 30, 2_000, 5_000][random.below(4)]),
        answer: match random.below(8) {
            0..=3 => Answer::Unary(size(random)),
            4 | 5 => Answer::Parts((0..random.below(4)).map(|_| size(random)).collect(), random.below(2) == 0),
            6 => Answer::TrailersOnly([0, 100, 20_000][random.below(3)]),
            _ => Answer::Reset,
        },
        is_cancelled: random.below(12) == 0,
    };
    Plan {
        exchanges: (0..1 + random.below(12)).map(|_| exchange(&mut random)).collect(),
        client_window: [500, 3_000, 65_535, 1 << 20][random.below(4)],
        client_connection_window: [65_535, 100_000, 1 << 22][random.below(3)],
        table_bytes: [None, Some(0), Some(200), Some(65_536)][random.below(4)],
        parallel: 1 + random.below(6),
    }
}

fn body_of(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8).collect()
}

/// The client's side of one exchange.
async fn exchange(client: client::SendRequest<Bytes>, number: usize, exchange: Exchange) -> Outcome {
    let mut client = client.ready().await.expect("the connection is open");
    let request = Request::post(format!("http://localhost/{number}")).header("x-field", &exchange.field);
    let is_end = exchange.request.is_empty();
    let request = request.body(()).expect("a request");
    let (response, mut sending) = client.send_request(request, is_end).expect("a stream");
    let upload = async {
        for (part, size) in exchange.request.iter().enumerate() {
            let is_last = part + 1 == exchange.request.len();
            let mut data = Bytes::from(body_of(*size));
            while !data.is_empty() {
                sending.reserve_capacity(data.len());
                // An error, or a reset by a server that needs no more of it.
                let Some(Ok(room)) = std::future::poll_fn(|context| sending.poll_capacity(context)).await else {
                    return;
                };
                let now = data.split_to(room.min(data.len()));
                if sending.send_data(now, false).is_err() {
                    return;
                }
            }
            if is_last && sending.send_data(Bytes::new(), true).is_err() {
                return;
            }
        }
        if exchange.is_cancelled {
            sending.send_reset(Reason::CANCEL);
        }
    };
    if exchange.is_cancelled {
        upload.await;
        drop(response);
        return Outcome::Cancelled;
    }
    let download = async {
        let response = match response.await {
            Ok(response) => response,
            Err(error) => return Outcome::Reset(error.reason()),
        };
        let status = response.status().as_u16();
        let request_bytes =
            response.headers().get("x-bytes").map_or("", |bytes| bytes.to_str().expect("text")).to_owned();
        let mut incoming = response.into_body();
        let mut body = Vec::new();
        while let Some(data) = incoming.data().await {
            let data = match data {
                Ok(data) => data,
                Err(error) => return Outcome::Reset(error.reason()),
            };
            // Released in two halves, so that windows are opened bit by bit.
            let (first, second) = (data.len() / 2, data.len() - data.len() / 2);
            let _ = incoming.flow_control().release_capacity(first);
            tokio::task::yield_now().await;
            let _ = incoming.flow_control().release_capacity(second);
            body.extend_from_slice(&data);
        }
        let trailers = match incoming.trailers().await {
            Ok(trailers) => trailers,
            Err(error) => return Outcome::Reset(error.reason()),
        };
        let text = |trailers: HeaderMap| {
            let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
                (name.to_string(), value.to_str().expect("text").to_owned())
            };
            trailers.iter().map(line).collect()
        };
        Outcome::Answered { status, request_bytes, body, trailers: trailers.map(text) }
    };
    tokio::join!(upload, download).1
}

/// Runs the client of a plan on this connection.
async fn run_client(plan: &Plan, stream: DuplexStream) -> Vec<Outcome> {
    let mut builder = client::Builder::new();
    builder
        .initial_window_size(plan.client_window)
        .initial_connection_window_size(plan.client_connection_window)
        .max_header_list_size(1 << 16);
    if let Some(bytes) = plan.table_bytes {
        builder.header_table_size(bytes);
    }
    let (client, connection) = builder.handshake::<_, Bytes>(stream).await.expect("a handshake");
    let connection = tokio::spawn(connection);
    let mut outcomes = Vec::new();
    for (first, wave) in plan.exchanges.chunks(plan.parallel).enumerate() {
        let calls: Vec<_> = wave
            .iter()
            .enumerate()
            .map(|(at, planned)| tokio::spawn(exchange(client.clone(), first * plan.parallel + at, planned.clone())))
            .collect();
        for call in calls {
            outcomes.push(call.await.expect("no panic"));
        }
    }
    drop(client);
    let ended = tokio::time::timeout(Duration::from_secs(5), connection).await.expect("the connection ends");
    ended.expect("no panic").expect("no connection error");
    outcomes
}

/// Collects requests, and notes which are complete.
#[derive(Default)]
struct Collector {
    complete: Arc<Mutex<Vec<(u32, usize, usize)>>>,
    bytes: HashMap<u32, usize>,
}

#[derive(Default)]
struct Number(usize);

impl Handler for Collector {
    type Request = Number;
    type Receipt = ();

    fn field(&mut self, request: &mut Number, name: &[u8], value: &[u8]) {
        if name == b":path" {
            request.0 = std::str::from_utf8(&value[1..]).expect("text").parse().expect("a number");
        }
    }

    fn headers_complete(&mut self, stream: u32, request: &mut Number, ended: bool) {
        self.bytes.insert(stream, 0);
        if ended {
            self.complete.lock().expect("no panic").push((stream, request.0, 0));
        }
    }

    fn data(&mut self, stream: u32, request: &mut Number, data: &[u8], ended: bool) -> Result<(), ErrorCode> {
        let bytes = self.bytes.entry(stream).or_default();
        *bytes += data.len();
        if ended {
            self.complete.lock().expect("no panic").push((stream, request.0, *bytes));
        }
        Ok(())
    }

    fn held_bytes(&self, _: &Number) -> usize {
        self.bytes.len()
    }
}

/// This crate's server.
async fn run_server(plan: Arc<Plan>, mut stream: DuplexStream) {
    static REFUSALS: std::sync::LazyLock<Refusals> = std::sync::LazyLock::new(Refusals::default);
    let settings = Settings { header_list_bytes_max: 1 << 16, held_bytes_max: 1 << 26, ..settings() };
    let mut connection = Connection::new(settings, &REFUSALS, Arc::new(SharedBudget::new(1 << 28)));
    let mut collector = Collector::default();
    let (mut partial, mut output, mut buffer) = (Vec::new(), Vec::new(), vec![0; 10_000]);
    loop {
        while connection.has_output() {
            connection.take_output(&mut output);
            if stream.write_all(&output).await.is_err() {
                return;
            }
            connection.written(output.len(), |()| ());
            output.clear();
        }
        let count = stream.read(&mut buffer).await.unwrap_or_default();
        if count == 0 {
            return;
        }
        partial.extend_from_slice(&buffer[..count]);
        let used = connection.receive(&mut collector, &partial, Duration::ZERO).expect("h2 keeps to the protocol");
        partial.drain(..used);
        let complete = std::mem::take(&mut *collector.complete.lock().expect("no panic"));
        for (stream, number, bytes) in complete {
            answer(&mut connection, stream, &plan.exchanges[number].answer, bytes);
        }
    }
}

fn answer(connection: &mut Connection<Collector>, stream: u32, answer: &Answer, bytes: usize) {
    let headers = HeaderBlock::ok().with(b"x-bytes", bytes.to_string().as_bytes());
    let trailers = HeaderBlock::default().with(b"grpc-status", b"0");
    match answer {
        Answer::Unary(size) => {
            connection.respond(stream, Response { headers: &headers, data: body_of(*size), trailers: &trailers }, ())
        }
        Answer::Parts(sizes, has_trailers) => {
            connection.send_headers(stream, &headers);
            sizes.iter().for_each(|size| connection.send_data(stream, body_of(*size).into()));
            connection.send_end(stream, has_trailers.then_some(&trailers), ());
        }
        Answer::TrailersOnly(size) => {
            connection.send_trailers_only(stream, &headers.with(b"x-text", "t".repeat(*size).as_bytes()), ())
        }
        Answer::Reset => connection.reset(stream, ErrorCode::Internal),
    }
}

/// h2's server.
async fn run_h2_server(plan: Arc<Plan>, stream: DuplexStream) {
    let mut builder = server::Builder::new();
    builder.max_header_list_size(1 << 16).initial_window_size(1 << 16).initial_connection_window_size(1 << 20);
    let mut connection = builder.handshake::<_, Bytes>(stream).await.expect("a handshake");
    while let Some(Ok((request, responder))) = connection.accept().await {
        tokio::spawn(h2_answer(plan.clone(), request, responder));
    }
}

async fn h2_answer(plan: Arc<Plan>, request: Request<h2::RecvStream>, mut responder: server::SendResponse<Bytes>) {
    let number: usize = request.uri().path()[1..].parse().expect("a number");
    let mut body = request.into_body();
    let mut bytes = 0;
    while let Some(data) = body.data().await {
        let Ok(data) = data else { return };
        bytes += data.len();
        let _ = body.flow_control().release_capacity(data.len());
    }
    let response = HttpResponse::builder().status(200).header("x-bytes", bytes);
    let (parts, trailers) = match &plan.exchanges[number].answer {
        Answer::Unary(size) => (vec![*size], true),
        Answer::Parts(sizes, has_trailers) => (sizes.clone(), *has_trailers),
        Answer::TrailersOnly(size) => {
            let response = response.header("x-text", "t".repeat(*size)).body(()).expect("a response");
            let _ = responder.send_response(response, true);
            return;
        }
        Answer::Reset => return responder.send_reset(Reason::INTERNAL_ERROR),
    };
    let Ok(mut sending) = responder.send_response(response.body(()).expect("a response"), false) else { return };
    for size in parts {
        if sending.send_data(body_of(size).into(), false).is_err() {
            return;
        }
    }
    if trailers {
        let mut map = HeaderMap::new();
        map.insert("grpc-status", http::HeaderValue::from_static("0"));
        let _ = sending.send_trailers(map);
    } else {
        let _ = sending.send_data(Bytes::new(), true);
    }
}

#[test]
fn a_client_sees_the_same_from_both_servers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut answered = 0;
    for seed in 0..400 {
        let plan = Arc::new(plan(seed));
        let (client, server) = tokio::io::duplex(1 << 24);
        let ours = async {
            let serving = tokio::spawn(run_server(plan.clone(), server));
            let outcomes = run_client(&plan, client).await;
            serving.await.expect("no panic");
            outcomes
        };
        let limit = Duration::from_secs(30);
        let ours = runtime.block_on(async { tokio::time::timeout(limit, ours).await });
        let ours = ours.unwrap_or_else(|_| panic!("seed {seed}: a conversation does not end"));
        let (client, server) = tokio::io::duplex(1 << 24);
        let theirs = async {
            let serving = tokio::spawn(run_h2_server(plan.clone(), server));
            let outcomes = run_client(&plan, client).await;
            serving.abort();
            outcomes
        };
        let theirs = runtime.block_on(async { tokio::time::timeout(limit, theirs).await });
        let theirs = theirs.unwrap_or_else(|_| panic!("seed {seed}: a conversation with h2 does not end"));
        for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours, theirs, "seed {seed}, exchange {number}: {:?}", plan.exchanges[number]);
        }
        answered += ours.iter().filter(|outcome| matches!(outcome, Outcome::Answered { .. })).count();
    }
    assert!(answered > 1_500, "{answered}");
}
