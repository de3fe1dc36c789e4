//! Workers in Rust and in Python on one server: each executes what the other schedules.

use std::{
    process::{Child, Command},
    time::Duration,
};

use segno_sdk::{
    Context, Result, ScheduleTaskOptions, WorkflowContext, WorkflowDefinition, define_task, task, workflow,
};

use super::{queue, server};

define_task!(Shout = "shout": String => String);

/// A workflow in Python with two arguments.
struct AskRust;
impl WorkflowDefinition for AskRust {
    type Input = (String, u32);
    type Output = u32;
    const KIND: &'static str = "AskRust";
    const ARGUMENTS: usize = 2;
}

#[task]
async fn double(number: u32) -> Result<u32> {
    Ok(number * 2)
}

#[workflow]
async fn ask_python(ctx: Context, queue: String, text: String) -> Result<String> {
    let options = ScheduleTaskOptions {
        queue: Some(queue),
        timeout: Some(Duration::from_secs(20)),
        ..ScheduleTaskOptions::default()
    };
    Ok(ctx.schedule_with_options::<Shout>(text, options).await?)
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn rust_and_python_work_for_each_other() {
    let server = server().await;
    let ours = queue(&server.client());
    let theirs = queue(&server.client());
    let python = std::env::var_os("SEGNO_PYTHON").expect("SEGNO_PYTHON: Python with the package temporalio");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/worker/python_worker.py");
    let address = server.address().trim_start_matches("http://");
    let _python = Process(Command::new(python).args([script, address, theirs.name()]).spawn().unwrap());

    let worker = ours.worker().workflow::<AskPython>().task::<Double>().build().unwrap();
    let both = worker.run_until(async {
        let shouted = ours.execute::<AskPython>("ask-python", (theirs.name().to_owned(), "hello".to_owned())).await?;
        assert_eq!(shouted, "HELLO!");
        let silence =
            ours.execute::<AskPython>("silence", (theirs.name().to_owned(), String::new())).await.unwrap_err();
        let failure = silence.failure().expect("a failure");
        assert_eq!((failure.application_kind(), failure.details()), (Some("Silence"), Some(7)));
        assert_eq!(failure.to_string(), "task shout failed: nothing to shout");
        theirs.execute::<AskRust>("ask-rust", (ours.name().to_owned(), 21)).await
    });
    let doubled = tokio::time::timeout(Duration::from_secs(60), both).await.expect("within a minute").unwrap();
    assert_eq!(doubled, 42);
}
