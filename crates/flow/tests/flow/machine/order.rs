//! The order in which things happen (section 3.3).

use super::{Run, done, signal};

#[test]
fn waiters_go_on_in_the_order_in_which_they_began() {
    let source = r#"
async function f(p, name) { await p; log(name) }
workflow w() {
  const p = Task.run("a")
  f(p, "first"); f(p, "second")
  await p
  log("main")
  await Task.delay(1)
}"#;
    let (mut run, _) = Run::start(source, &[]);
    run.done("task-1", "1");
    assert_eq!(messages(&run), ["first", "second", "main"]);
}

fn messages(run: &Run) -> Vec<String> {
    run.last.as_ref().unwrap().log.iter().map(|line| line.message.clone()).collect()
}

#[test]
fn a_called_function_runs_before_its_caller_goes_on() {
    let source = "async function f() { log(\"in\"); await Task.delay(1) }\nworkflow w() { log(\"before\"); const p = f(); log(\"after\"); await p }";
    let (run, _) = Run::start(source, &[]);
    assert_eq!(messages(&run), ["before", "in", "after"]);
}

#[test]
fn direct_waiters_go_before_those_of_combinations() {
    let source = r#"
async function f(p, name) { await p; log(name) }
workflow w() {
  const p = Task.run("a")
  f(Task.race([p]), "race"); f(p, "direct"); f(Task.all([Task.race([p])]), "nested")
  await Task.delay(1)
}"#;
    let (mut run, _) = Run::start(source, &[]);
    run.done("task-1", "1");
    assert_eq!(messages(&run), ["direct", "race", "nested"]);
}

#[test]
fn events_are_taken_one_by_one() {
    let source = r#"
workflow w() {
  const a = Task.run("a"), b = Task.run("b")
  await a
  log("a")
  Task.run("c")
  await b
  log("b")
  return Time.now()
}"#;
    for grouped in [false, true] {
        let (mut run, _) = Run::start(source, &[]);
        let events = vec![done("task-1", "1"), done("task-2", "2")];
        let commands =
            if grouped { run.take(events) } else { events.into_iter().flat_map(|event| run.event(event)).collect() };
        assert_eq!(commands, ["task task-3 c", "complete \"2026-01-01T00:00:00.000Z\""]);
    }
}

#[test]
fn conditions_are_looked_at_from_the_first_again() {
    let source = r#"
workflow w() {
  let n = 0
  signal up() { n++ }
  async function f(level, name) {
    await wait_until(() => n >= level)
    log(`${name} at ${n}`)
    if (name == "b") n = 10
  }
  f(5, "a"); f(1, "b"); f(1, "c"); f(10, "d")
  await wait_until(() => n > 100)
}"#;
    let (mut run, _) = Run::start(source, &[]);
    run.signal("up", &[]);
    assert_eq!(messages(&run), ["b at 1", "a at 10", "c at 10", "d at 10"]);
}

#[test]
fn a_condition_is_looked_at_when_it_is_created() {
    let (_, commands) = Run::start(
        "workflow w() {\n  let n = 1\n  const p = wait_until(() => n == 1, 5)\n  n = 2\n  return await p\n}",
        &[],
    );
    assert_eq!(commands, ["complete true"]);
    let commands = Run::untyped(
        "workflow w() {\n  let n = { a: 1 }\n  const p = wait_until(() => n.b > 1)\n  return [p.id, await Task.settle([p])]\n}",
    )
    .begin(&[]);
    assert!(commands[0].contains("no field \\\"b\\\""), "{commands:?}");
}

#[test]
fn a_condition_that_throws_fails_its_promise() {
    let source = "workflow w() {\n  let o = { a: 1 }\n  signal drop() { o = {} }\n  try { await wait_until(() => o.a == 2) } catch (e) { return e.type }\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.signal("drop", &[]), ["complete \"FieldError\""]);
    let source = "workflow w() {\n  let n = 1\n  signal up() { n++ }\n  try { await wait_until(() => n) } catch (e) { return e.message }\n}";
    let (_, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["complete \"a number is not a condition; compare it, for example x != 0\""]);
}

#[test]
fn race_and_any_choose_by_time() {
    let source = "workflow w() {\n  const a = Task.run(\"a\"), b = Task.run(\"b\"), c = Task.run(\"c\")\n  await Task.delay(9)\n  return [await Task.race([a, b, c]), await Task.any([a, b, c]), await Task.all([b, a]), (await Task.settle({ x: a, y: c })).y.error.type]\n}";
    let (mut run, _) = Run::start(source, &[]);
    run.failed("task-3", "C", "c");
    run.take(vec![done("task-2", "2"), done("task-1", "1")]);
    let commands = run.fired("timer-1");
    assert!(commands[0].contains("\"item_id\":\"task-3\",\"status\":\"failed\""), "{commands:?}");
    assert!(commands[0].contains("{\"item_id\":\"task-2\",\"result\":2},[2,1],\"C\"]"), "{commands:?}");
}

#[test]
fn each_signal_goes_to_the_wait_that_was_created_first() {
    let source = "workflow w() {\n  const a = wait_for_signal(\"s\"), b = wait_for_signal(\"s\")\n  const y = await b\n  return [await a, y]\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert!(run.signal("s", &["1"]).is_empty());
    assert_eq!(run.signal("s", &["2"]), ["complete [1,2]"]);
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.take(vec![signal("s", &["1"]), signal("s", &["2"])]), ["complete [1,2]"]);
}

#[test]
fn values_of_signals() {
    let source = "workflow w() {\n  await Task.delay(1)\n  let all = []\n  for (const x of [1, 2, 3]) all.push(await wait_for_signal(\"s\"))\n  let late = null\n  try { await wait_for_signal(\"s\", { timeout: 0 }) } catch (e) { late = e.type + \": \" + e.message }\n  return [all, late]\n}";
    let (mut run, _) = Run::start(source, &[]);
    run.signal("s", &[]);
    run.signal("s", &["{\"a\":1}"]);
    run.signal("s", &["1", "2"]);
    assert!(run.inspect().contains("\"signals\":{\"s\":3}"));
    assert_eq!(run.fired("timer-1"), ["complete [[null,{\"a\":1},[1,2]],\"Timeout: no signal \\\"s\\\" within 0s\"]"]);
}

#[test]
fn time_is_that_of_the_event() {
    let (mut run, _) =
        Run::start("workflow w() {\n  const t = Time.now()\n  await Task.delay(60)\n  return [t, Time.now()]\n}", &[]);
    run.wait(60);
    assert_eq!(run.fired("timer-1"), ["complete [\"2026-01-01T00:00:00.000Z\",\"2026-01-01T00:01:00.000Z\"]"]);
}
