//! One attempt of a task: payloads in and out, errors, panics.

use serde::{Deserialize, Serialize, Serializer};

use super::*;
use crate::{
    definition::TaskDefinition,
    failure::{FailureKind, Result},
    task::TaskInfo,
};

struct Add;
impl TaskDefinition for Add {
    type Input = (u32, u32);
    type Output = u32;
    const KIND: &'static str = "add";
    const ARGUMENTS: usize = 2;
}
impl Task for Add {
    type State = u32;
    async fn execute(state: Arc<u32>, ctx: TaskContext, (left, right): (u32, u32)) -> Result<u32> {
        match left {
            0 => panic!("nothing to add for {}", ctx.info().id),
            1 => Err("one is not enough".into()),
            _ => Ok(left + right + *state),
        }
    }
}

#[derive(Deserialize)]
struct Unspeakable;
impl Serialize for Unspeakable {
    fn serialize<S: Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
        panic!("not serialisable")
    }
}
struct Speak;
impl TaskDefinition for Speak {
    type Input = ();
    type Output = Unspeakable;
    const KIND: &'static str = "speak";
    const ARGUMENTS: usize = 0;
}
impl Task for Speak {
    type State = ();
    async fn execute(_: Arc<()>, _: TaskContext, (): ()) -> Result<Unspeakable> {
        blocking(|| Ok(Unspeakable)).await
    }
}

struct Sleepless;
impl TaskDefinition for Sleepless {
    type Input = ();
    type Output = ();
    const KIND: &'static str = DYNAMIC;
}
impl Task for Sleepless {
    type State = ();
    async fn execute(_: Arc<()>, ctx: TaskContext, (): ()) -> Result<()> {
        blocking(move || panic!("no {}", ctx.info().kind)).await
    }
}

async fn run(registry: &TaskRegistry, kind: &str, input: Vec<Payload>) -> std::result::Result<Vec<Payload>, Failure> {
    let function = registry.get(kind).expect("a task");
    function(TaskContext::local(TaskInfo::new(kind, "id-1")), input).await
}

fn application(failure: Failure) -> (String, String) {
    match failure.kind() {
        FailureKind::Application { kind, non_retryable: false } => (kind.clone(), failure.message().to_owned()),
        other => panic!("{other:?}"),
    }
}

fn registry() -> TaskRegistry {
    let mut registry = TaskRegistry::default();
    registry.add::<Add>(Arc::new(10));
    registry.add::<Speak>(Arc::new(()));
    registry
}

#[tokio::test]
async fn input_and_output_are_payloads() {
    let input = converter::encode(&(2u32, 3u32), 2).unwrap();
    let output = run(&registry(), "add", input).await.unwrap();
    assert_eq!(converter::decode::<u32>(&output, 1).unwrap(), 15);
}

/// The message says where it was.
fn assert_panic(failure: Failure, text: &str) {
    let (kind, message) = application(failure);
    assert_eq!(kind, "Panic");
    assert!(message.starts_with(&format!("{text}, at crates/sdk/src/task/registry_tests.rs:")), "{message}");
}

#[tokio::test]
async fn errors_and_panics_are_failures() {
    let input = |left: u32| converter::encode(&(left, 3u32), 2).unwrap();
    let failure = run(&registry(), "add", input(1)).await.unwrap_err();
    assert_eq!(application(failure), ("Error".into(), "one is not enough".into()));
    let failure = run(&registry(), "add", input(0)).await.unwrap_err();
    assert_panic(failure, "nothing to add for id-1");
    let failure = run(&registry(), "speak", Vec::new()).await.unwrap_err();
    assert_panic(failure, "not serialisable");
}

#[tokio::test]
async fn input_of_another_type_may_be_tried_again() {
    let failure = run(&registry(), "add", converter::encode(&"two".to_owned(), 1).unwrap()).await.unwrap_err();
    let (kind, message) = application(failure);
    assert_eq!(kind, "Conversion");
    assert!(message.contains("(u32, u32) cannot be read"), "{message}");
}

#[tokio::test]
async fn one_task_may_execute_every_kind_that_has_no_other() {
    let mut registry = registry();
    assert!(registry.get("anything").is_none());
    registry.add::<Sleepless>(Arc::new(()));
    let failure = run(&registry, "anything", Vec::new()).await.unwrap_err();
    assert_panic(failure, "no anything");
    let input = converter::encode(&(2u32, 3u32), 2).unwrap();
    assert!(run(&registry, "add", input).await.is_ok());
}

#[test]
fn two_tasks_of_one_kind_are_noticed() {
    let mut registry = registry();
    assert_eq!(registry.duplicates().count(), 0);
    registry.add::<Add>(Arc::new(1));
    assert_eq!(registry.duplicates().collect::<Vec<_>>(), ["add"]);
    assert_eq!(registry.kinds().collect::<Vec<_>>(), ["add", "speak"]);
}
