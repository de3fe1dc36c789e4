//! Queries, updates and signal handlers (section 4.5).

use super::{Run, signal};

const STOCK: &str = r#"
workflow stock() {
  let left = 10
  query left() { return left }
  update take(n) {
    validate { if (n > left) throw Error(`only ${left}`, { type: "TooMuch" }) }
    left -= n; return left
  }
  await wait_until(() => left == 0); return "empty"
}"#;

#[test]
fn the_stock() {
    let (mut run, commands) = Run::start(STOCK, &[]);
    assert!(commands.is_empty());
    assert_eq!(run.query("left", &[]), Ok("10".into()));
    assert_eq!(run.update("u1", "take", &["4"]), ["accept u1", "update u1 6"]);
    let before = run.state.clone();
    assert_eq!(run.update("u2", "take", &["99"]), ["reject u2 TooMuch: only 6"]);
    assert_eq!(run.state, before, "a rejected update writes nothing");
    assert_eq!(run.update("u3", "take", &["6"]), ["accept u3", "update u3 0", "complete \"empty\""]);
    assert_eq!(run.query("left", &[]), Ok("0".into()));
}

#[test]
fn unknown_names() {
    let (mut run, _) = Run::start(STOCK, &[]);
    assert_eq!(run.query("nothing", &[]), Err("unknown query \"nothing\"; known: left".into()));
    assert_eq!(run.update("u", "nothing", &[]), ["reject u UnknownUpdate: unknown update \"nothing\"; known: take"]);
}

#[test]
fn queries_have_parameters_time_and_limits() {
    let source = r#"
workflow w(inputs) {
  let n = 1
  query sum(a, b = 5) { return [a, b, n, inputs] }
  query now() { return Time.now() }
  query fails() { throw Error("not now") }
  query missing() { return inputs.none }
  query endless() { while (true) {} }
  query late() { return [later, info().run_id.length > 0] }
  function info() { return Workflow.info() }
  await Task.delay(1)
  let later = 2
  await Task.delay(1)
}"#;
    let (mut run, _) = Run::start(source, &["{\"x\":1}"]);
    assert_eq!(run.query("sum", &["7"]), Ok("[7,5,1,{\"x\":1}]".into()));
    assert_eq!(run.query("sum", &["7", "null", "9"]), Ok("[7,5,1,{\"x\":1}]".into()));
    run.wait(61);
    assert_eq!(run.query("now", &[]), Ok("\"2026-01-01T00:01:01.000Z\"".into()));
    assert_eq!(run.query("fails", &[]), Err("not now".into()));
    assert_eq!(run.query("missing", &[]), Err("no field \"none\" (write ?.none if it may be missing)".into()));
    assert_eq!(run.query("endless", &[]), Err("step limit of 100000 reached".into()));
    assert_eq!(run.query("late", &[]), Ok("[null,true]".into()));
    run.fired("timer-1");
    assert_eq!(run.query("late", &[]), Ok("[2,true]".into()));
}

#[test]
fn an_update_is_code_of_its_own() {
    let source = r#"
workflow w() {
  let seen = []
  update slow(x) { seen.push(`in ${x}`); const r = await Task.run("t", x); seen.push(`out ${x}`); return r }
  update bad() { await Task.delay(1); throw Error("no", { type: "Bad", retryable: false }) }
  update sends() { return { p: Task.delay(9) } }
  update quick({ a, b = 2 }, c = 3) { return [a, b, c] }
  query log() { return seen }
  await wait_for_signal("end")
  return seen
}"#;
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.update("a", "slow", &["1"]), ["accept a", "task task-1 t 1"]);
    assert_eq!(run.update("b", "slow", &["2"]), ["accept b", "task task-2 t 2"]);
    assert_eq!(run.update("c", "bad", &[]), ["accept c", "timer-1 1000"]);
    assert_eq!(run.update("d", "quick", &["{\"a\":1}"]), ["accept d", "update d [1,2,3]"]);
    assert_eq!(
        run.update("e", "sends", &[]),
        ["accept e", "update e TypeError: a promise cannot be sent; await it first"]
    );
    assert_eq!(run.done("task-2", "20"), ["update b 20"]);
    assert_eq!(run.fired("timer-1"), ["update c Bad: no"]);
    assert_eq!(run.query("log", &[]), Ok("[\"in 1\",\"in 2\",\"out 2\"]".into()));
    // One is still under way when the run ends.
    assert_eq!(run.signal("end", &[]), ["complete [\"in 1\",\"in 2\",\"out 2\"]"]);
}

#[test]
fn validators_have_limits() {
    let source =
        "workflow w() {\n  update u(n) {\n    validate { while (n) {} }\n    return 1\n  }\n  await Task.delay(1)\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.update("a", "u", &["true"]), ["reject a LimitError: step limit of 100000 reached"]);
    assert_eq!(run.update("b", "u", &["false"]), ["accept b", "update b 1"]);
    assert_eq!(
        run.update("c", "u", &["0"])[0],
        "reject c TypeError: a number is not a condition; compare it, for example x != 0"
    );
}

#[test]
fn signal_handlers_run_in_order_and_their_errors_fail_the_run() {
    let source = r#"
workflow w() {
  let seen = []
  signal add(x, y = "d") { seen.push([x, y]); if (x == "bad") throw Error("bad", { type: "B" }) }
  signal slow(x) { await Task.run("t", x); seen.push(x) }
  await wait_until(() => seen.length == 4)
  return seen
}"#;
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.wake(), ["signal add", "signal slow"]);
    let commands = run.take(vec![
        signal("slow", &["1"]),
        signal("add", &["2"]),
        signal("slow", &["3"]),
        signal("add", &["4", "5"]),
    ]);
    assert_eq!(commands, ["task task-1 t 1", "task task-2 t 3"]);
    run.done("task-2", "0");
    assert_eq!(run.done("task-1", "0"), ["complete [[2,\"d\"],[4,5],3,1]"]);
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.signal("add", &["\"bad\""]), ["fail B: bad"]);
}

#[test]
fn waiting_for_a_signal_with_a_handler_is_refused() {
    let source = "workflow w(name) {\n  let n = 0\n  signal s() { n++ }\n  query n() { return n }\n  await wait_for_signal(name)\n}";
    let (_, commands) = Run::start(source, &["\"s\""]);
    assert_eq!(commands, ["fail ArgumentError: wait_for_signal: signal \"s\" has a handler"]);
}

#[test]
fn a_query_of_a_run_that_failed_at_once() {
    let source = "workflow w({ a }) {\n  let n = 7\n  query n() { return n }\n  await Task.delay(1)\n}";
    let (run, commands) = Run::start(source, &["{}"]);
    assert_eq!(commands, ["fail FieldError: no field \"a\" (write ?.a if it may be missing)"]);
    assert_eq!(run.query("n", &[]), Ok("null".into()));
}

#[test]
fn handlers_share_variables_with_the_body() {
    let source = r#"
const UNIT = { step: 2 }
workflow w(n = 1) {
  function twice(x) { count = count + 1; return add(x, x) }
  function add(a, b) { return a + b + n * 0 }
  signal s(x) { n = twice(x) }
  update u() { n += UNIT.step; return n }
  query q() { return [n, count, list.map(x => x + n)] }
  let count = 0, list = [1, 2]
  await Task.delay(1)
  list.push(n)
  await Task.delay(1)
}"#;
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.query("q", &[]), Ok("[1,0,[2,3]]".into()));
    run.signal("s", &["21"]);
    assert_eq!(run.query("q", &[]), Ok("[42,1,[43,44]]".into()));
    assert_eq!(run.update("u", "u", &[]), ["accept u", "update u 44"]);
    run.fired("timer-1");
    assert_eq!(run.query("q", &[]), Ok("[44,1,[45,46,88]]".into()));
}
