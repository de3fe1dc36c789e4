//! `await`, promises, ids, what no code awaits and what no code can reach (sections 3.1, 3.2, 3.4 and 3.5).

use segno_flow::interface::EventKind;

use super::{Run, done, signal};

#[test]
fn a_task_and_its_result() {
    let (mut run, commands) = Run::start(
        "workflow w(inputs) {\n  result = await Task.run(\"a\", inputs)\n  return result\n}",
        &["{\"n\":1}"],
    );
    assert_eq!(commands, ["task task-1 a {\"n\":1}"]);
    assert_eq!(run.wake(), ["Task task-1 Wakes"]);
    assert_eq!(run.done("task-1", "{\"ok\":true}"), ["complete {\"ok\":true}"]);
    assert!(run.wake().is_empty());
}

#[test]
fn await_of_other_things() {
    let source = "workflow w() {\n  const a = await 5, b = await null, c = await { x: 1 }\n  try { await [Task.delay(1)] } catch (e) { return [a, b, c, e.type, e.message] }\n}";
    let (_, commands) = Run::start(source, &[]);
    let want = "complete [5,null,{\"x\":1},\"TypeError\",\"await takes one promise; use Task.all for a list\"]";
    assert_eq!(commands.last().unwrap(), want);
}

#[test]
fn await_in_odd_places() {
    let source = r#"
async function n(x) { return await Task.run("n", x) }
workflow w() {
  let o = { a: await n(1), [`k${await n(2)}`]: [await n(3), ...(await n(4))], b: await n(5) ?? 0 }
  let s = ""
  for (const x of await n(6)) s += `<${x}${await n(7)}>`
  while (await n(8)) s += "!"
  if (await n(9) && await n(10)) s += "?"
  o.a += await n(11)
  return [o, s, -(await n(12)), typeof await n(13)]
}"#;
    let (mut run, mut commands) = Run::start(source, &[]);
    let results =
        ["1", "\"2\"", "3", "[4,5]", "5", "[\"x\",\"y\"]", "1", "2", "true", "false", "true", "{}", "10", "1", "null"];
    let mut last = Vec::new();
    for (place, result) in results.iter().enumerate() {
        assert_eq!(commands.len(), 1, "{commands:?}");
        last = run.done(&format!("task-{}", place + 1), result);
        commands = last.clone();
    }
    assert_eq!(last, ["complete [{\"a\":11,\"k2\":[3,4,5],\"b\":5},\"<x1><y2>!?\",-1,\"null\"]"]);
}

#[test]
fn work_begins_at_the_call_and_a_promise_is_awaited_many_times() {
    let source = "workflow w() {\n  a = Task.run(\"a\")\n  b = Task.run(\"b\")\n  const x = await b, y = await a, z = await a\n  return [x, y, z]\n}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["task task-1 a", "task task-2 b"]);
    assert!(run.done("task-1", "1").is_empty());
    assert_eq!(run.done("task-2", "2"), ["complete [2,1,1]"]);
}

#[test]
fn ids_of_each_kind() {
    let source = r#"
async function f() { await Task.delay(9) }
workflow w() {
  const ps = [
    Task.run("a"), Task.run("a", 1, { id: "mine" }), Task.run("a"), Task.delay(1), Task.delayUntil("2030-01-01T00:00:00Z"),
    Workflow.run("c"), Workflow.start("c", 1, { id: "child" }), Workflow.run("c"), Workflow.signal("x", "s"), Workflow.cancel("x"),
    f(), wait_for_signal("s"), wait_until(() => false), wait_for_signal("t", { timeout: 5 }), Task.delay(2),
  ]
  const cs = [Task.all([ps[0]]), Task.any([ps[0]]), Task.race([ps[0]]), Task.settle([ps[0]]), Task.map([1], async x => await f()), Task.timeout(ps[0], 3)]
  log("ids", [...ps, ...cs].map(p => p.id))
  await Task.delay(100)
}"#;
    let (run, _) = Run::start(source, &[]);
    let log = run.last.as_ref().unwrap().log[0].data.clone().unwrap();
    let run_id = "0195c7a2-0000-7000-8000-000000000001";
    let want = format!(
        "[\"task-1\",\"mine\",\"task-3\",\"timer-1\",\"timer-2\",\"{run_id}/child-1\",\"child\",\"{run_id}/child-3\",\"send-1\",\"send-2\",\"call-1\",\
         \"signal-1\",\"until-1\",\"signal-2\",\"timer-5\",\"all-1\",\"any-1\",\"race-1\",\"settle-1\",\"map-1\",\"timeout-1\"]"
    );
    assert_eq!(log, want);
}

#[test]
fn an_id_that_is_pending_is_refused() {
    let source = "workflow w() {\n  const p = Task.run(\"a\", null, { id: \"x\" })\n  try { Task.run(\"b\", null, { id: \"x\" }) } catch (e) { log(e.type + \" \" + e.message) }\n  await p\n  await Task.run(\"c\", null, { id: \"x\" })\n}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["task x a null"]);
    assert_eq!(run.last.as_ref().unwrap().log[0].message, "ArgumentError Task.run: id \"x\" is pending already");
    assert_eq!(run.done("x", "1"), ["task x c null"]);
}

#[test]
fn a_child_whose_id_is_taken_fails() {
    let source = "workflow w() {
  const p = Workflow.run(\"a\", 1, { id: \"x\" })
  const q = Workflow.run(\"b\", 2, { id: \"x\" })
  try { await q } catch (e) { log(`${e.type} ${e.message} ${e.source.name} ${q.id}`) }
  try { Task.run(\"t\", 1, { id: \"x\" }) } catch (e) { log(e.type) }
  const r = Task.run(\"t\", 1, { id: \"y\" })
  try { Workflow.run(\"b\", 2, { id: \"y\" }) } catch (e) { log(e.type) }
  return [await p, await r]
}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands.len(), 2, "{commands:?}");
    let log: Vec<_> = run.last.as_ref().unwrap().log.iter().map(|line| line.message.clone()).collect();
    assert_eq!(log, ["AlreadyStarted workflow \"x\" has already started b x", "ArgumentError", "ArgumentError"]);
    run.event(EventKind::ChildEnded { workflow_id: "x".into(), end: Ok(Vec::new()) });
    assert_eq!(run.done("y", "1"), ["complete [null,1]"]);
}

#[test]
fn a_promise_equals_its_id_and_cannot_be_sent() {
    let source = r#"
workflow w() {
  const p = Task.delay(1)
  let seen = [p == "timer-1", "timer-1" == p, p == p, p != "timer-2", typeof p]
  for (const f of [1, 2, 3, 4]) {
    try {
      if (f == 1) Task.run("a", p)
      if (f == 2) log(`${p}`)
      if (f == 3) log(JSON.stringify([p]))
      if (f == 4) log("x", { p })
    } catch (e) { seen.push(e.type + ": " + e.message) }
  }
  try { seen.push(p.status) } catch (e) { seen.push(e.message) }
  return [seen, p]
}"#;
    let (run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["fail TypeError: a promise cannot be sent; await it first"]);
    assert!(run.last.unwrap().log.is_empty());
    let source = source.replace("return [seen, p]", "return seen");
    let (_, commands) = Run::start(&source, &[]);
    let refused = "\"TypeError: a promise cannot be sent; await it first\"";
    let want = format!(
        "complete [true,true,true,true,\"promise\",{refused},{refused},{refused},{refused},\"this is a promise; await it first\"]"
    );
    assert_eq!(commands, [want]);
}

#[test]
fn a_returned_promise_is_awaited() {
    let source = "async function f() { return Task.run(\"a\") }\nworkflow w() { return f() }";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.done("task-1", "7"), ["complete 7"]);
}

#[test]
fn a_task_that_nobody_awaits_runs_and_fails_in_silence() {
    let source = "workflow w() { Task.run(\"a\")\n  await Task.delay(10)\n  return 1 }";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["task task-1 a", "timer-1 10000"]);
    assert_eq!(run.wake(), ["Task task-1 Ignored", "Timer timer-1 Wakes"]);
    assert!(run.failed("task-1", "X", "x").is_empty());
    assert_eq!(run.fired("timer-1"), ["complete 1"]);
}

#[test]
fn an_async_function_that_nobody_hears_fails_the_run() {
    let lost = "async function work() { await Task.delay(1); throw Error(\"lost\", { type: \"L\" }) }\n";
    let (mut run, _) = Run::start(&format!("{lost}workflow w() {{ work(); await Task.delay(\"1h\") }}"), &[]);
    assert_eq!(run.fired("timer-1"), ["fail L: lost"]);

    // Kept in a variable it can be heard, until the variable has gone.
    let source = format!(
        "{lost}workflow w() {{\n  {{\n    const p = work()\n    await Task.delay(5)\n  }}\n  await Task.delay(10)\n}}"
    );
    let (mut run, _) = Run::start(&source, &[]);
    assert!(run.fired("timer-1").is_empty());
    assert_eq!(run.fired("timer-2"), ["fail L: lost"]);

    // Awaited late.
    let source = format!(
        "{lost}workflow w() {{\n  const p = work()\n  await Task.delay(5)\n  try {{ await p }} catch (e) {{ return e.message }}\n}}"
    );
    let (mut run, _) = Run::start(&source, &[]);
    run.fired("timer-1");
    assert_eq!(run.fired("timer-2"), ["complete \"lost\""]);

    // Given to a function of Task.
    let source = format!("{lost}workflow w() {{\n  Task.all([work()])\n  await Task.delay(5)\n  return 1\n}}");
    let (mut run, _) = Run::start(&source, &[]);
    run.fired("timer-1");
    assert_eq!(run.fired("timer-2"), ["complete 1"]);

    // It fails before it waits.
    let source = "async function work() { throw Error(\"lost\") }\nworkflow w() {\n  work()\n  Task.run(\"never\")\n  return 1\n}";
    let (_, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["fail Error: lost"]);

    // Never heard until the body ends.
    let source = format!("{lost}workflow w() {{\n  const p = work()\n  await Task.delay(5)\n  return 1\n}}");
    let (mut run, _) = Run::start(&source, &[]);
    run.fired("timer-1");
    assert_eq!(run.fired("timer-2"), ["fail L: lost"]);
}

#[test]
fn when_the_body_ends_the_run_ends() {
    let source = "async function f() { await Task.delay(1); Task.run(\"never\") }\nworkflow w() {\n  f()\n  await Task.run(\"a\")\n  return 1\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.done("task-1", "1"), ["complete 1"]);
    assert!(run.fired("timer-1").is_empty());
}

#[test]
fn an_unreachable_timer_is_withdrawn() {
    // Never started: no command.
    let (_, commands) = Run::start("workflow w() {\n  Task.delay(5)\n  await Task.run(\"a\")\n}", &[]);
    assert_eq!(commands, ["task task-1 a"]);
    // A variable is overwritten: before what follows.
    let source =
        "workflow w() {\n  let p = Task.delay(5)\n  await Task.run(\"a\")\n  p = null\n  await Task.run(\"b\")\n}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["timer-1 5000", "task task-1 a"]);
    assert_eq!(run.done("task-1", "1"), ["cancel timer-1", "task task-2 b"]);
    // A variable leaves its block.
    let source = "workflow w() {\n  if (true) {\n    const p = Task.delay(5)\n    await Task.run(\"a\")\n  }\n  await Task.run(\"b\")\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.done("task-1", "1"), ["cancel timer-1", "task task-2 b"]);
    // A round of a loop.
    let source = "workflow w() {\n  for (const x of [1, 2]) {\n    const p = Task.delay(5)\n    await Task.run(\"a\", x)\n  }\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.done("task-1", "1"), ["cancel timer-1", "timer-2 5000", "task task-2 a 2"]);
    // An error leaves the block.
    let source = "workflow w() {\n  try {\n    const p = Task.delay(5)\n    await Task.run(\"a\")\n  } catch (e) {\n    await Task.run(\"b\")\n  }\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.failed("task-1", "X", "x"), ["cancel timer-1", "task task-2 b"]);
    // A function ends.
    let source = "async function f() { const p = Task.delay(5)\n  await Task.run(\"a\") }\nworkflow w() {\n  await f()\n  await Task.run(\"b\")\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.done("task-1", "1"), ["cancel timer-1", "task task-2 b"]);
    // Inside of a value, and in a captured variable.
    let source = "workflow w() {\n  let o = { p: Task.delay(5) }\n  query q() { return typeof o.p }\n  await Task.run(\"a\")\n  delete o.p\n  await Task.run(\"b\")\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.query("q", &[]), Ok("\"promise\"".to_owned()));
    assert_eq!(run.done("task-1", "1"), ["cancel timer-1", "task task-2 b"]);
}

#[test]
fn a_decided_race_withdraws_what_only_it_held() {
    let source = "workflow w() {\n  const r = await Task.race([Task.run(\"a\"), Task.delay(30), wait_for_signal(\"s\")])\n  await Task.run(\"b\", r.item_id)\n  return await wait_for_signal(\"s\")\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.done("task-1", "1"), ["cancel timer-1", "task task-2 b \"task-1\""]);
    assert!(run.wake().iter().all(|line| !line.starts_with("signal")));
    assert!(run.signal("s", &["9"]).is_empty());
    assert_eq!(run.done("task-2", "1"), ["complete 9"]);
}

#[test]
fn a_combination_that_nobody_holds_lets_go_of_its_items() {
    let source = "workflow w() {\n  Task.all([Task.delay(5), wait_for_signal(\"s\")])\n  await Task.run(\"a\")\n}";
    let (run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["task task-1 a"]);
    assert_eq!(run.wake(), ["Task task-1 Wakes"]);
}

#[test]
fn waits_with_time_outs_withdraw_their_timers() {
    let source = "workflow w() {\n  let n = 0\n  signal up() { n++ }\n  const a = await wait_for_signal(\"s\", { timeout: 10 })\n  const b = await wait_until(() => n > 0, 20)\n  const c = await Task.timeout(Task.run(\"t\"), 30)\n  return [a, b, c]\n}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["timer-1 10000"]);
    assert_eq!(run.signal("s", &["1"]), ["cancel timer-1", "timer-2 20000"]);
    assert_eq!(run.signal("up", &[]), ["cancel timer-2", "task task-1 t", "timer-3 30000"]);
    assert_eq!(run.done("task-1", "3"), ["cancel timer-3", "complete [1,true,3]"]);
    // Started and withdrawn in one turn: no commands, and events about them are dropped.
    let (mut run, _) = Run::start(source, &[]);
    let commands = run.take(vec![signal("s", &["1"]), signal("up", &[])]);
    assert_eq!(commands, ["cancel timer-1", "task task-1 t", "timer-3 30000"]);
    assert!(run.fired("timer-1").is_empty());
    assert_eq!(run.take(vec![done("task-1", "3")]), ["cancel timer-3", "complete [1,true,3]"]);
}

#[test]
fn a_condition_that_holds_itself_is_withdrawn() {
    let source = "workflow w() {\n  let done = false\n  signal go() { done = true }\n  if (true) {\n    let c = null\n    c = wait_until(() => done && c == null, 60)\n    await Task.run(\"a\")\n  }\n  await Task.run(\"b\")\n}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["timer-1 60000", "task task-1 a"]);
    assert_eq!(run.done("task-1", "1"), ["task task-2 b", "cancel timer-1"]);
}
