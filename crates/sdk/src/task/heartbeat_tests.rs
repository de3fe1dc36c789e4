//! Tests of heartbeats with a recording server and a virtual clock.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::task::{TaskContext, TaskInfo};

/// A server that records heartbeats with their times, and gives the answers that a test sets.
#[derive(Default)]
struct Server {
    heard: Mutex<Vec<(u64, u32)>>,
    answers: Mutex<Vec<Answer>>,
    calls: AtomicUsize,
}

fn context(server: &Arc<Server>, heartbeat_timeout: u64) -> TaskContext {
    let begin = Instant::now();
    let cancellation = Arc::new(Cancellation::default());
    let server = server.clone();
    let send: Send = Arc::new(move |details| {
        let server = server.clone();
        Box::pin(async move {
            server.calls.fetch_add(1, Ordering::SeqCst);
            let mut answers = server.answers.lock().unwrap();
            let answer = if answers.is_empty() { Answer::Taken } else { answers.remove(0) };
            if answer != Answer::Unsent {
                let frame = crate::converter::decode_payload(&details[0]).unwrap();
                server.heard.lock().unwrap().push((begin.elapsed().as_secs(), frame));
            }
            answer
        })
    });
    let interval = interval(Some(Duration::from_secs(heartbeat_timeout)), Duration::from_secs(30));
    let heartbeats = Heartbeats::server(send, interval, cancellation.clone());
    TaskContext::new(TaskInfo::new("render", "1"), cancellation, heartbeats)
}

async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn the_interval_follows_the_time_out() {
    let longest = Duration::from_secs(30);
    assert_eq!(interval(Some(Duration::from_secs(10)), longest), Duration::from_secs(8));
    assert_eq!(interval(Some(Duration::from_secs(600)), longest), longest);
    assert_eq!(interval(None, longest), longest);
    assert_eq!(interval(Some(Duration::ZERO), longest), longest);
}

#[tokio::test(start_paused = true)]
async fn the_first_goes_at_once_and_then_the_last_of_each_interval() {
    let server = Arc::new(Server::default());
    let ctx = context(&server, 10);
    for frame in 0..200u32 {
        ctx.heartbeat(frame).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    settle().await;
    let heard = server.heard.lock().unwrap().clone();
    assert_eq!(heard.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 8, 16]);
    assert_eq!(heard[0].1, 0);
    assert!((79..=81).contains(&heard[1].1) && (159..=161).contains(&heard[2].1), "{heard:?}");
    // Details since then go along with the answer.
    let unsent = ctx.heartbeats().close().expect("something was said");
    assert_eq!(crate::converter::decode_payload::<u32>(&unsent[0]).unwrap(), 199);
    assert_eq!(ctx.heartbeats().close(), None);
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_the_next_goes_at_once() {
    let server = Arc::new(Server::default());
    let ctx = context(&server, 10);
    ctx.heartbeat(1u32).await.unwrap();
    tokio::time::sleep(Duration::from_secs(100)).await;
    ctx.heartbeat_blocking(2u32).unwrap();
    settle().await;
    assert_eq!(*server.heard.lock().unwrap(), [(0, 1), (100, 2)]);
    assert_eq!(ctx.heartbeats().close(), None);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_stops_the_task() {
    let server = Arc::new(Server::default());
    server.answers.lock().unwrap().extend([Answer::Taken, Answer::Stop(CancelReason::Paused)]);
    let ctx = context(&server, 10);
    ctx.heartbeat(1u32).await.unwrap();
    settle().await;
    assert!(!ctx.is_cancelled());
    ctx.heartbeat(2u32).await.unwrap();
    ctx.cancelled().await;
    assert_eq!(ctx.cancel_reason(), Some(CancelReason::Paused));
    let error = ctx.heartbeat(3u32).await.unwrap_err();
    assert!(error.failure().is_cancelled());
    ctx.cancel(CancelReason::WorkerShutdown);
    assert_eq!(ctx.cancel_reason(), Some(CancelReason::Paused), "the first reason counts");
    settle().await;
    assert_eq!(server.calls.load(Ordering::SeqCst), 2, "nothing is sent after that");
    let unsent = ctx.heartbeats().close().expect("said after the end");
    assert_eq!(crate::converter::decode_payload::<u32>(&unsent[0]).unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_did_not_arrive_is_repeated_soon() {
    let server = Arc::new(Server::default());
    server.answers.lock().unwrap().extend([Answer::Unsent, Answer::Unsent, Answer::Taken]);
    let ctx = context(&server, 10);
    ctx.heartbeat(1u32).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(*server.heard.lock().unwrap(), [(2, 1)]);
}

#[tokio::test]
async fn a_loop_of_heartbeats_gives_way() {
    let server = Arc::new(Server::default());
    server.answers.lock().unwrap().push(Answer::Stop(CancelReason::CancelRequested));
    let ctx = context(&server, 10);
    let endless = async { while ctx.heartbeat(1u32).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(10), endless).await.expect("cancelled");
}
