//! What `#[workflow]` makes of an `impl` block.

use std::num::ParseIntError;

use segno_sdk::{Context, Query, Result, Signal, Update, Workflow, WorkflowDefinition, workflow};

fn workflow_types<T: WorkflowDefinition<Input = I, Output = O>, I, O>() {}

/// A basket.
#[derive(Debug, PartialEq)]
struct Basket {
    lines: Vec<String>,
    limit: usize,
    open: bool,
}

#[workflow(name = "basket")]
impl Basket {
    #[init]
    fn new(lines: &[String], limit: &usize) -> Self {
        Self { lines: lines.to_vec(), limit: *limit, open: true }
    }

    #[run]
    async fn run(ctx: Context<Self>, lines: Vec<String>, limit: usize) -> Result<usize> {
        let _ = (ctx, lines);
        Ok(limit)
    }

    /// Closes it.
    #[signal]
    fn check_out(&mut self) {
        self.open = false;
    }

    #[signal(name = "later")]
    async fn check_out_later(_ctx: Context<Self>, _seconds: u64) {}

    #[signal]
    async fn fail(_ctx: &Context<Self>) -> Result<(), String> {
        Err("no".into())
    }

    #[query]
    fn count(&self) -> usize {
        self.lines.len()
    }

    #[query]
    fn line(&self, index: usize, upper: bool) -> Result<String, String> {
        let line = self.lines.get(index).ok_or("no such line")?;
        Ok(if upper { line.to_uppercase() } else { line.clone() })
    }

    #[update]
    async fn add(_ctx: Context<Self>, line: String) -> Result<String> {
        Ok(line)
    }

    #[validate(add)]
    fn check_line(&self, line: &str) -> Result<()> {
        if line.is_empty() { Err("a line, please".into()) } else { Ok(()) }
    }

    #[update]
    fn clear(&mut self) -> Result<usize, ParseIntError> {
        Ok(std::mem::take(&mut self.lines).len())
    }

    #[update]
    fn swap(&mut self, first: usize, second: usize) -> Result<()> {
        self.lines.swap(first, second);
        Ok(())
    }

    #[validate(swap)]
    fn check_swap(&self, first: &usize, second: &usize) -> Result<()> {
        if *first.max(second) < self.lines.len() { Ok(()) } else { Err("no such line".into()) }
    }
}

#[test]
fn workflow_types_and_their_constants() {
    workflow_types::<Basket, (Vec<String>, usize), usize>();
    assert_eq!((Basket::KIND, Basket::ARGUMENTS), ("basket", 2));
    let first = <Basket as Workflow>::init(&(vec!["tea".into()], 3));
    assert_eq!(first, Basket { lines: vec!["tea".into()], limit: 3, open: true });
    let (check_out, later, fail): (Signal<()>, Signal<u64>, Signal<()>) =
        (Basket::CHECK_OUT, Basket::CHECK_OUT_LATER, Basket::FAIL);
    assert_eq!((check_out.name(), later.name(), fail.name()), ("check_out", "later", "fail"));
    let (count, line): (Query<(), usize>, Query<(usize, bool), String>) = (Basket::COUNT, Basket::LINE);
    assert_eq!((count.name(), line.name(), line.arguments()), ("count", "line", 2));
    let add: Update<String, String> = Basket::ADD;
    let clear: Update<(), usize> = Basket::CLEAR;
    let swap: Update<(usize, usize), ()> = Basket::SWAP;
    assert_eq!((add.name(), clear.name(), swap.name()), ("add", "clear", "swap"));
    let _ = Basket::handlers();
}
