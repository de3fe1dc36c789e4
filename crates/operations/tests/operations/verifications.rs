//! Verifications whose node stops: what is stored of them keeps others out, and begins anew at the next node.

use std::{sync::Arc, time::Duration};

use prost::Message;
use segno_operations::{NewVerification, TrialFuture, Trials, VerificationError};
use segno_proto::segno_verification::{Candidate, State, TryRunRequest, TryRunResponse, Verification};
use segno_runs::Namespace;
use segno_store::{Commit, DocumentWrite, fault::FaultPlan};
use tokio::time::sleep;

use crate::common::{Place, Served};

/// There are no runs, so none is tried.
struct NoTrials;

impl Trials for NoTrials {
    fn try_run(&self, _: TryRunRequest) -> TrialFuture {
        Box::pin(async { TryRunResponse::default() })
    }
}

fn candidate() -> Candidate {
    Candidate { task_queue: "q".to_owned(), on_task_queue: "on".to_owned(), ..Default::default() }
}

fn new() -> NewVerification {
    NewVerification {
        candidate: candidate(),
        query: String::new(),
        sample: 10,
        include_pinned: false,
        parallel: 2,
        timeout: Duration::from_secs(1),
        per_second: 100,
        identity: "caller".to_owned(),
    }
}

async fn node(place: &Place) -> (Served, Arc<Namespace>) {
    let served = place.start(&FaultPlan::new()).await;
    let namespace = served.runs.namespaces.get("default").expect("the default namespace");
    (served, namespace)
}

async fn found(node: &Served, namespace: &Namespace) -> Verification {
    node.verifications.find(namespace, &candidate()).await.expect("it is known")
}

async fn ended(node: &Served, namespace: &Namespace) -> Verification {
    for _ in 0..500 {
        let found = found(node, namespace).await;
        if found.state() != State::Running {
            return found;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_that_was_stored_begins_anew_at_the_next_node() {
    let place = Place::default();
    // This node has not learned how runs are tried, and stops before it does.
    let (first, namespace) = node(&place).await;
    let id = first.verifications.start(namespace, new()).await.expect("it is stored");
    first.shut_down();
    let (second, namespace) = node(&place).await;
    let waiting = found(&second, &namespace).await;
    assert_eq!((waiting.id.as_str(), waiting.state(), waiting.restarts), (id.as_str(), State::Running, 0));
    let refused = second.verifications.start(namespace.clone(), new()).await;
    assert_eq!(refused, Err(VerificationError::Busy(id.clone())));
    second.verifications.run(Arc::new(NoTrials));
    let done = ended(&second, &namespace).await;
    assert_eq!((done.id.as_str(), done.state(), done.restarts), (id.as_str(), State::Completed, 1));
    assert_eq!((done.sample_size, done.parallel, done.identity.as_str()), (10, 2, "caller"));
    let all = second.verifications.list(&namespace).await.expect("a list");
    assert_eq!(all, [done]);
    second.shut_down();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_is_stopped_before_it_begins_anew() {
    let place = Place::default();
    let (node, namespace) = node(&place).await;
    let id = node.verifications.start(namespace.clone(), new()).await.expect("it is stored");
    assert_eq!(node.verifications.stop(&namespace, "other").await, Err(VerificationError::NotRunning));
    assert_eq!(node.verifications.stop(&namespace, &id).await, Ok(()));
    assert_eq!(found(&node, &namespace).await.state(), State::Stopped);
    assert_eq!(node.verifications.stop(&namespace, "").await, Err(VerificationError::NotRunning));
    node.verifications.run(Arc::new(NoTrials));
    assert_eq!(ended(&node, &namespace).await.restarts, 0);
    assert!(node.verifications.start(namespace.clone(), new()).await.is_ok());
    assert_eq!(ended(&node, &namespace).await.state(), State::Completed);
    node.shut_down();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_that_no_node_survives_is_given_up() {
    let place = Place::default();
    let (node, namespace) = node(&place).await;
    let running = Verification {
        id: "id".to_owned(),
        candidate: Some(candidate()),
        state: State::Running as i32,
        restarts: 10,
        ..Default::default()
    };
    let name = "verification/running".to_owned();
    let write = DocumentWrite { namespace: namespace.key, name, content: Some(running.encode_to_vec().into()) };
    let commit = Commit { documents: vec![write], documents_of_one_node: true, ..Default::default() };
    node.runs.committer.commit_of(namespace.key, commit).await.expect("it is stored");
    node.verifications.run(Arc::new(NoTrials));
    let failed = ended(&node, &namespace).await;
    assert_eq!(
        (failed.state(), failed.error.as_str()),
        (State::Failed, "the nodes that carried it out stopped 11 times")
    );
    node.shut_down();
}
