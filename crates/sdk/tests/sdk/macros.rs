//! What `#[task]`, `#[tasks]` and `#[workflow]` make.

use std::{num::ParseIntError, sync::Arc, time::Duration};

use segno_sdk::{
    Context, Result, ScheduleTaskOptions, Task, TaskContext, TaskDefinition, TaskRegistry, TaskSet, WorkflowDefinition,
    task, tasks, workflow,
};
use serde_json::Value;

/// Greets.
#[task]
async fn compose_mail(name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[task(name = "sum", timeout = "1h30m", schedule_to_close = "2d", schedule_to_start = "5m", heartbeat_timeout = "250ms",
       max_retries = 4, queue = "numbers", as = Sum)]
pub(crate) fn add_up(first: u32, _ctx: TaskContext, second: u32) -> Result<u32> {
    Ok(first + second)
}

#[task]
async fn nothing() -> Result<()> {
    Ok(())
}

#[task]
async fn parse(input: String) -> Result<u8, ParseIntError> {
    input.parse()
}

#[task(dynamic)]
async fn anything(_ctx: &TaskContext, input: Vec<Value>) -> Result<usize> {
    Ok(input.len())
}

struct Shop {
    town: String,
}

#[tasks]
impl Shop {
    #[task]
    async fn buy(&self, what: String) -> Result<String> {
        Ok(format!("{what} from {}", self.town))
    }

    #[task(name = "sell")]
    fn sell_all(self: Arc<Self>, _what: Vec<u8>) -> Result<(), String> {
        Err(self.town.clone())
    }

    #[task]
    async fn open() -> Result<()> {
        Ok(())
    }
}

#[workflow]
async fn two_numbers(_ctx: Context, first: u32, second: u32) -> Result<u32> {
    Ok(first + second)
}

#[workflow(as = Renamed, name = "other")]
async fn input(_ctx: &Context, input: u32) -> Result<u32, String> {
    Ok(input)
}

fn inputs<T: TaskDefinition<Input = I, Output = O>, I, O>() {}
fn workflow_types<T: WorkflowDefinition<Input = I, Output = O>, I, O>() {}
fn state<T: Task<State = S>, S>() {}

#[test]
fn types_and_names_of_tasks() {
    inputs::<ComposeMail, String, String>();
    inputs::<Sum, (u32, u32), u32>();
    inputs::<Nothing, (), ()>();
    inputs::<Parse, String, u8>();
    inputs::<Anything, Vec<Value>, usize>();
    state::<ComposeMail, ()>();
    state::<Buy, Shop>();
    state::<SellAll, Shop>();
    assert_eq!((ComposeMail::KIND, ComposeMail::ARGUMENTS), ("compose_mail", 1));
    assert_eq!((Sum::KIND, Sum::ARGUMENTS), ("sum", 2));
    assert_eq!((Nothing::KIND, Nothing::ARGUMENTS), ("nothing", 0));
    assert_eq!(Anything::KIND, "*");
    assert_eq!(SellAll::KIND, "sell");
}

#[test]
fn options_of_tasks() {
    assert_eq!(ComposeMail::options(), ScheduleTaskOptions::default());
    let expected = ScheduleTaskOptions {
        timeout: Some(Duration::from_secs(5_400)),
        schedule_to_close: Some(Duration::from_secs(172_800)),
        schedule_to_start: Some(Duration::from_secs(300)),
        heartbeat_timeout: Some(Duration::from_millis(250)),
        max_retries: Some(4),
        queue: Some("numbers".to_owned()),
        ..Default::default()
    };
    assert_eq!(Sum::options(), expected);
}

#[tokio::test]
async fn functions_stay_callable() {
    assert_eq!(compose_mail("Ann".into()).await.unwrap(), "Hello, Ann!");
    assert_eq!(Shop { town: "Rome".into() }.buy("tea".into()).await.unwrap(), "tea from Rome");
}

#[test]
fn tasks_of_a_type_register_together() {
    let mut registry = TaskRegistry::default();
    Arc::new(Shop { town: "Rome".into() }).register(&mut registry);
    assert_eq!(registry.kinds().collect::<Vec<_>>(), ["buy", "open", "sell"]);
}

#[test]
fn workflow_functions() {
    workflow_types::<TwoNumbers, (u32, u32), u32>();
    workflow_types::<Renamed, u32, u32>();
    assert_eq!((TwoNumbers::KIND, TwoNumbers::ARGUMENTS), ("two_numbers", 2));
    assert_eq!(Renamed::KIND, "other");
}
