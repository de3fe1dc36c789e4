//! Combinations (section 4.2) and time-outs.

use super::{Run, done, failed};

#[track_caller]
fn result(source: &str) -> String {
    let (_, commands) = Run::start(source, &[]);
    commands.last().unwrap().clone()
}

#[test]
fn empty_combinations() {
    assert_eq!(
        result(
            "workflow w() { return [await Task.all([]), await Task.all({}), await Task.settle([]), await Task.settle({}), await Task.map([], x => x)] }"
        ),
        "complete [[],{},[],{},[]]"
    );
    assert_eq!(result("workflow w() { await Task.any([]) }"), "fail AggregateError: all of 0 failed");
    assert_eq!(result("workflow w() { Task.race([]) }"), "fail ArgumentError: Task.race: nothing to wait for");
    assert_eq!(result("workflow w() { Task.race({}) }"), "fail ArgumentError: Task.race: nothing to wait for");
}

#[test]
fn wrong_items() {
    for source in [
        "workflow w(x) { Task.all([x]) }",
        "workflow w(x) { Task.any({ a: x }) }",
        "workflow w(x) { Task.settle(x) }",
        "workflow w(x) { Task.timeout(x, 5) }",
        "workflow w(x) { Task.map(x, y => y) }",
        "workflow w(x) { Task.cancel(x) }",
    ] {
        assert!(result(source).starts_with("fail ArgumentError: Task."), "{source}");
    }
}

#[test]
fn all_gives_results_in_the_order_of_items() {
    let source = "workflow w() { return await Task.all({ x: Task.run(\"a\"), y: Task.run(\"b\") }) }";
    let (mut run, _) = Run::start(source, &[]);
    assert!(run.done("task-2", "2").is_empty());
    assert_eq!(run.done("task-1", "1"), ["complete {\"x\":1,\"y\":2}"]);
}

#[test]
fn all_fails_with_the_first_failure_in_time() {
    let source = "workflow w() {\n  try { await Task.all([Task.run(\"a\"), Task.run(\"b\"), Task.run(\"c\")]) } catch (e) { return [e.type, e.source] }\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(
        run.take(vec![done("task-1", "1"), failed("task-3", "C", "c"), failed("task-2", "B", "b")]),
        ["complete [\"C\",{\"kind\":\"task\",\"name\":\"c\",\"item_id\":\"task-3\"}]"]
    );
}

#[test]
fn the_same_promise_twice() {
    let source = "workflow w() {\n  const a = Task.run(\"a\")\n  return await Task.all([a, a, Task.all({ a })])\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.done("task-1", "1"), ["complete [1,1,{\"a\":1}]"]);
}

#[test]
fn any_when_all_fail() {
    let source = "workflow w() {\n  try { await Task.any({ x: Task.run(\"a\"), y: Task.run(\"b\") }) } catch (e) { return [e.type, e.message, e.details.map(d => d.type), e.retryable] }\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert!(run.failed("task-2", "B", "b").is_empty());
    assert_eq!(
        run.failed("task-1", "A", "a"),
        ["complete [\"AggregateError\",\"all of 2 failed\",[\"A\",\"B\"],true]"]
    );
}

#[test]
fn any_of_canceled_is_canceled() {
    let source = "workflow w() {\n  const a = Task.delay(1), b = Task.delay(2)\n  Task.cancel(a)\n  Task.cancel(b)\n  try { await Task.any([a, b]) } catch (e) { return [e.type, e.message] }\n}";
    assert_eq!(result(source), "complete [\"Canceled\",\"canceled\"]");
}

#[test]
fn cancel_the_others() {
    let source = "workflow w() {\n  const r = await Task.race({ a: Task.run(\"a\"), b: Task.run(\"b\"), t: Task.delay(5) }, { cancel: true })\n  return r.item_id\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.done("task-2", "1"), ["cancel task-1", "cancel timer-1", "complete \"b\""]);
    // Also if no code waits for it.
    let source =
        "workflow w() {\n  Task.any([Task.run(\"a\"), Task.run(\"b\")], { cancel: true })\n  await Task.run(\"c\")\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.wake()[0], "Task task-1 Group(0)");
    assert!(run.failed("task-1", "A", "a").is_empty());
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.done("task-1", "1"), ["cancel task-2"]);
}

#[test]
fn settle_gives_both() {
    let source = "workflow w() {\n  const r = await Task.settle([Task.run(\"a\"), Task.run(\"b\")])\n  return r.map(x => [x.item_id, x.status, x.result ?? x.error.type])\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert!(run.failed("task-1", "A", "a").is_empty());
    assert_eq!(run.done("task-2", "2"), ["complete [[\"task-1\",\"failed\",\"A\"],[\"task-2\",\"completed\",2]]"]);
}

#[test]
fn timeout_fails_and_cancels() {
    let source = "workflow w() {\n  try { await Task.timeout(Task.run(\"a\"), \"1h30m\") } catch (e) { return [e.type, e.message] }\n}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["task task-1 a", "timer-1 5400000"]);
    assert_eq!(run.wake(), ["Task task-1 Wakes", "Timer timer-1 Wakes"]);
    assert_eq!(run.fired("timer-1"), ["cancel task-1", "complete [\"Timeout\",\"timed out after 1h30m\"]"]);
    // The promise's own failure.
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.failed("task-1", "A", "a"), ["cancel timer-1", "complete [\"A\",\"a\"]"]);
    // Of an async function: it is interrupted.
    let source = "async function f() { try { await Task.delay(99) } catch (e) { log(e.type); throw e } }\nworkflow w() {\n  try { await Task.timeout(f(), 5) } catch (e) { return e.type }\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.fired("timer-2"), ["cancel timer-1", "complete \"Timeout\""]);
    // What has ended needs no timer.
    let source = "workflow w() {\n  const p = Task.run(\"a\")\n  await p\n  return await Task.timeout(p, 5)\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.done("task-1", "1"), ["complete 1"]);
}

#[test]
fn map_starts_in_order_and_stops_after_a_failure() {
    let source = "workflow w() {\n  try { return await Task.map([10, 20, 30, 40], async (x, i) => await Task.run(\"f\", [x, i]), { concurrency: 2 }) } catch (e) { return e.type }\n}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["task task-1 f [10,0]", "task task-2 f [20,1]"]);
    assert_eq!(run.done("task-2", "2"), ["task task-3 f [30,2]"]);
    assert_eq!(run.take(vec![done("task-1", "1"), done("task-3", "3")]), ["task task-4 f [40,3]"]);
    assert_eq!(run.done("task-4", "4"), ["complete [1,2,3,4]"]);
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.failed("task-1", "A", "a"), ["complete \"A\""]);
}

#[test]
fn map_with_other_functions() {
    let source = "workflow w() { return await Task.map([1, 2, 3], x => x * 2, { concurrency: 1 }) }";
    assert_eq!(result(source), "complete [2,4,6]");
    let source = "workflow w() { return await Task.map([1, 2, 3], x => Task.run(\"f\", x), { concurrency: 2 }) }";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands.len(), 2);
    assert_eq!(run.wake()[0], "Task task-1 Wakes");
    assert_eq!(run.done("task-1", "1"), ["task task-3 f 3"]);
    assert_eq!(
        run.wake(),
        ["Task task-2 Group(0)", "Task task-3 Group(0)", "2 missing, completion Counts, failure Satisfies"]
    );
    assert_eq!(run.take(vec![done("task-2", "2"), done("task-3", "3")]), ["complete [1,2,3]"]);
    let source = "workflow w() { try { await Task.map([1, 2, 3], x => { if (x == 2) throw \"two\"; return x }) } catch (e) { return e.message } }";
    assert_eq!(result(source), "complete \"two\"");
    // No code awaits it: it goes on all the same.
    let source = "workflow w() {\n  Task.map([1, 2, 3], async x => { await Task.run(\"f\", x) }, { concurrency: 1 })\n  await Task.delay(9)\n}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["task task-1 f 1", "timer-1 9000"]);
    assert_eq!(run.done("task-1", "1"), ["task task-2 f 2"]);
}

#[test]
fn deep_nesting_of_combinations() {
    let nested = |levels: u32, cancel: bool| {
        let source = format!(
            "workflow w() {{\n  let p = Task.run(\"a\")\n  for (let i = 0; i < {levels}; i++) p = Task.race([p, Task.run(\"b\", i, {{ id: `b${{i}}` }})], {{ cancel: {cancel} }})\n  await p\n  return 1\n}}"
        );
        let mut run = Run::new(&source);
        run.limits.pending = 20_000;
        run.begin(&[]);
        run
    };
    let commands = nested(400, true).done("task-1", "1");
    assert_eq!((commands.len(), commands[400].as_str()), (401, "complete 1"));
    // The results are nested too deeply; the stack is not used up.
    for cancel in [true, false] {
        let commands = nested(15_000, cancel).done("task-1", "1");
        let want = "fail LimitError: memory limit reached: lists and objects may be nested 500 deep";
        assert_eq!(commands.last().unwrap(), want);
        assert_eq!(nested(15_000, cancel).cancel("stop").last().unwrap(), want);
    }
}
