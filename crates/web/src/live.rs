//! Server-sent events: open pages follow changes.
//!
//! An open page requests `/ui/live?page=…`. The server renders that page again once a second, if anything was committed
//! since, and sends a small event when the result differs; the browser then fetches the page. So there is one way to
//! render a page, and the size of an event does not depend on the change. A stream ends with its connection, which
//! lives two minutes at most; browsers then reconnect.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::Either;
use segno_proto::{common::WorkflowExecution, workflowservice::DescribeWorkflowExecutionRequest};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Answer, PageRequest, Web, WebBody, below_prefix, figures,
    forms::{Form, decode},
    layout, plain, words,
};

/// How often a page is compared.
const COMPARE_INTERVAL: Duration = Duration::from_secs(1);
/// A page that takes long to render is compared less often: watching it costs a twentieth of a processor at most.
const PAUSE_FACTOR: u32 = 20;
/// A line is sent at least this often, so that dead connections are noticed.
const PING_ROUNDS: u32 = 15;
/// Pages that change without commits are compared every round: pollers come, rates change.
const WITHOUT_COMMITS: [&str; 4] = ["task-queues", "verification", "workers", "cluster"];

/// A body that ends when its sender does.
pub struct EventStream(mpsc::Receiver<Bytes>);

impl http_body::Body for EventStream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// The stream of a page's changes, or of the server's figures.
pub(super) fn answer(web: Web, query: &Form) -> Response<WebBody> {
    let (send, receive) = mpsc::channel(4);
    let page = query.get("page").to_owned();
    if !page.starts_with("/ui/") {
        return plain(StatusCode::BAD_REQUEST, "the address of a page is needed\n");
    }
    if words(&path_of(&page)).get(1) == Some(&"server") {
        tokio::spawn(figures::stream(web, send));
    } else {
        tokio::spawn(follow(web, page, send));
    }
    let mut response = Response::new(Either::Right(EventStream(receive)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(super) fn path_of(page: &str) -> Vec<String> {
    let path = page.split('?').next().unwrap_or_default();
    below_prefix(path).split('/').filter(|part| !part.is_empty()).filter_map(decode).collect()
}

async fn follow(web: Web, page: String, send: mpsc::Sender<Bytes>) {
    let path = path_of(&page);
    let always = web.node.cluster.is_some() || path.get(1).is_some_and(|area| WITHOUT_COMMITS.contains(&area.as_str()));
    let commits = || web.node.runs.metrics.commits.load(Ordering::Relaxed);
    let (mut seen, mut known) = (commits(), fingerprint(&web, &page, &path).await);
    // The browser may have rendered something older, for example before it lost its connection.
    if send.send(format!("retry: 2000\nid: {known:x}\nevent: hello\ndata: {known:x}\n\n").into()).await.is_err() {
        return;
    }
    let (mut round, mut pause) = (0, COMPARE_INTERVAL);
    while !web.node.runs.is_stopping() {
        // Until the browser is gone.
        if tokio::time::timeout(pause, send.closed()).await.is_ok() {
            return;
        }
        round += 1;
        let now = commits();
        if now != seen || always {
            seen = now;
            let begun = Instant::now();
            let found = fingerprint(&web, &page, &path).await;
            pause = COMPARE_INTERVAL.max(begun.elapsed() * PAUSE_FACTOR);
            if found != known {
                known = found;
                let event = format!("id: {known:x}\nevent: change\ndata: {known:x}\n\n");
                if send.send(event.into()).await.is_err() {
                    return;
                }
            }
        }
        if round % PING_ROUNDS == 0 && send.send(Bytes::from_static(b": ping\n\n")).await.is_err() {
            return;
        }
    }
}

/// A number that changes when the page does.
async fn fingerprint(web: &Web, page: &str, path: &[String]) -> u64 {
    if let [namespace, "workflows", workflow_id, run_id, ..] = words(path)[..] {
        let mut hasher = DefaultHasher::new();
        // A history of thousands of events is not drawn to find out that nothing happened.
        let execution = WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() };
        let request = DescribeWorkflowExecutionRequest { namespace: namespace.to_owned(), execution: Some(execution) };
        match web.call(request).await {
            Ok(found) => format!("{:?}", found).hash(&mut hasher),
            Err(status) => status.message().hash(&mut hasher),
        }
        return hasher.finish();
    }
    let query = page.split_once('?').and_then(|(_, query)| Form::parse(query)).unwrap_or_default();
    let asked = PageRequest {
        path: path.to_vec(),
        query,
        form: Form::default(),
        is_script: false,
        method: &Method::GET,
        caller: None,
    };
    match Box::pin(web.page(&asked)).await {
        Ok(Answer::Page(page)) => layout::fingerprint(&page.content),
        _ => 0,
    }
}
