//! The examples of the reference, section 10, by number. Those that speak of a server are checked here as far as the
//! language goes.

use segno_flow::diagnostic::Severity;
use segno_flow::host::run_tests;

/// Runs a test file whose scripts are given by path.
pub fn run(test: &str, scripts: &[(&str, &str)]) -> String {
    let mut load = |path: &str| {
        let script = scripts.iter().find(|(known, _)| *known == path);
        script.map(|(_, source)| source.as_bytes().to_vec()).ok_or_else(|| "no such file".to_owned())
    };
    let report = run_tests(test.as_bytes(), "w_test.flow", &mut load, "");
    assert!(!report.tests.is_empty() || !report.errors.is_empty(), "there is no test");
    if !report.is_success() {
        return report.text();
    }
    // Scripts that pass are not refused for their types; those that are to fail with an error of the language may be.
    let refused =
        scripts.iter().map(|(_, source)| segno_flow::types::check(source.as_bytes()).diagnostics).collect::<Vec<_>>();
    let is_refused = refused.iter().flatten().any(|one| one.severity == Severity::Error);
    assert!(!is_refused || test.contains("TypeError"), "{refused:?}");
    "ok".to_owned()
}

/// Runs the body of a test of one script.
#[track_caller]
fn example(script: &str, test: &str) {
    let test = format!("use \"w.flow\"\n\ntest \"example\" {{\n{test}\n}}\n");
    assert_eq!(run(&test, &[("w.flow", script)]), "ok");
}

#[test]
fn example_01() {
    example(
        r#"
workflow example(inputs) {
  result = await Task.run("process_data", inputs)
  return result
}"#,
        r#"
  mock("process_data", () => ({ ok: true }))
  Test.start({ n: 1 })
  assertEqual(await Test.result(), { ok: true })
  assertEqual(Test.calls("process_data"), [{ n: 1 }])
  assertEqual(Test.turns(), 2)
  assertEqual(Test.status(), "COMPLETED")"#,
    );
}

#[test]
fn example_02() {
    example(
        r#"
workflow w() {
  const all = await Task.all([Task.run("a"), Task.run("b")])
  const any = await Task.any([Task.run("a"), Task.run("b"), Task.run("c", null, { retry: false })])
  try { await Task.all([Task.run("a"), Task.run("c", null, { retry: false })]) } catch (e) { return [all, any, e.type] }
}"#,
        r#"
  mock("a", async () => { await Task.delay(3); return 1 })
  mock("b", async () => { await Task.delay(1); return 2 })
  mock("c", async () => { await Task.delay(2); throw Error("no", { type: "X" }) })
  Test.start()
  assertEqual(await Test.result(), [[1, 2], { item_id: "task-4", result: 2 }, "X"])"#,
    );
}

#[test]
fn example_03() {
    example(
        r#"
workflow w(inputs) {
  timeout_timer = Task.delay(30)
  result = await Task.race([Task.run("operation", inputs), timeout_timer])
  if (result.item_id == timeout_timer) { return { error: "Operation timed out" } }
  return result.result
}"#,
        r#"
  mock("operation", async () => { await Task.delay(60); return 1 })
  Test.start(1)
  assertEqual(await Test.result(), { error: "Operation timed out" })
  assertEqual(Time.now(), "2026-01-01T00:00:30.000Z")"#,
    );
    example(
        r#"
workflow w(inputs) {
  timeout_timer = Task.delay(30)
  return await Task.race([Task.run("operation", inputs), timeout_timer])
}"#,
        r#"
  mock("operation", async () => { await Task.delay(60); return 1 })
  Test.start(1)
  assertEqual(await Test.result(), { item_id: "timer-1", status: "completed", result: null })"#,
    );
}

#[test]
fn example_04() {
    example(
        r#"
workflow w() {
  const slow = Task.run("slow"), fast = Task.run("fast")
  await Task.delay(10); return await Task.race([slow, fast])
}"#,
        r#"
  mock("slow", async () => { await Task.delay(5); return "s" })
  mock("fast", async () => { await Task.delay(2); return "f" })
  Test.start()
  assertEqual(await Test.result(), { item_id: "task-2", status: "completed", result: "f" })
  assertEqual(Test.turns(), 2)"#,
    );
}

#[test]
fn example_05() {
    example(
        r#"
workflow w() {
  const r = await Task.race({ bad: Task.run("bad", 1, { retry: false }), good: Task.run("good") })
  return [r.status, r.error.message, r.item_id]
}"#,
        r#"
  mock("bad", async () => { await Task.delay(1); throw "no" })
  mock("good", async () => { await Task.delay(2); return null })
  Test.start()
  assertEqual(await Test.result(), ["failed", "no", "bad"])"#,
    );
}

#[test]
fn example_06() {
    example(
        r#"
workflow w() {
  try { return await Task.any([Task.run("x", 0, { retry: false }), Task.run("y", 0, { retry: false })]) }
  catch (e) { return [e.type, e.details.map(x => x.message)] }
}"#,
        r#"
  mock("x", async () => { await Task.delay(2); throw "1" })
  mock("y", async () => { await Task.delay(1); throw "2" })
  Test.start()
  assertEqual(await Test.result(), ["AggregateError", ["1", "2"]])"#,
    );
}

#[test]
fn example_07() {
    example(
        r#"
workflow w() {
  const t = Time.now(), long = Task.run("long")
  let seen = []
  try { await Task.all([long, Task.run("bad", null, { retry: false })]) }
  catch (e) { seen = [e.type, e.source.item_id, Time.diff(Time.now(), t)] }
  return [...seen, await long]
}"#,
        r#"
  mock("long", async () => { await Task.delay(60); return "L" })
  mock("bad", async () => { await Task.delay(1); throw Error("no", { type: "Bad" }) })
  Test.start()
  assertEqual(await Test.result(), ["Bad", "task-2", 1, "L"])"#,
    );
}

#[test]
fn example_08() {
    example(
        r#"
workflow w() { return (await Task.all(List.range(100).map(i => Task.run("sq", i)))).reduce((a, b) => a + b, 0) }"#,
        r#"
  mock("sq", x => x * x)
  Test.start()
  assertEqual(await Test.result(), 328350)
  assertEqual(Test.turns(), 2)"#,
    );
}

#[test]
fn example_09() {
    example(
        r#"
async function twice(x) { return 2 * await Task.run("n", x) }
workflow w() {
  const p = twice(3), q = Task.run("n", 7), r = Task.run("n", 1)
  return [`${await p} ${await q}`, await q > await p && true, [await r, 0][0]]
}"#,
        r#"
  mock("n", async x => { await Task.delay(1); return x })
  Test.start()
  assertEqual(await Test.result(), ["6 7", true, 1])
  assertEqual(Time.now(), "2026-01-01T00:00:01.000Z")"#,
    );
}

#[test]
fn example_10() {
    example(
        r#"
workflow w(inputs) { Task.run("notify", inputs); return { success: true } }"#,
        r#"
  let done = 0
  mock("notify", async () => { await Task.delay(60); done++ })
  Test.start("x")
  assertEqual(await Test.result(), { success: true })
  assertEqual(Time.now(), "2026-01-01T00:00:00.000Z")
  assertEqual(Test.status(), "COMPLETED")
  await Task.delay("1h")
  assertEqual(done, 1)
  assertEqual(Test.calls("notify"), ["x"])
  assertEqual(Test.turns(), 1)"#,
    );
}

#[test]
fn example_11() {
    example(
        r#"
workflow w() {
  const t = Time.now()
  const r = await Task.map(List.range(30), async i => await Task.run("f", i), { concurrency: 10 })
  return [Time.diff(Time.now(), t), r == List.range(30)]
}"#,
        r#"
  mock("f", async x => { await Task.delay(1); return x })
  Test.start()
  assertEqual(await Test.result(), [3, true])"#,
    );
}

#[test]
fn example_12() {
    example(
        r#"
workflow w() { let n = 0; while (n < 10000) n = await Task.run("inc", n); return n }"#,
        r#"
  mock("inc", n => n + 1)
  Test.start()
  assertEqual(await Test.result(), 10000)"#,
    );
}

#[test]
fn example_13() {
    example(
        r#"
async function step(x) { return await inner(x) }
async function inner(x) { await Task.delay(1); return await Task.run("n", x) }
workflow w() {
  let sum = 0, seen = []
  const out = await Task.all([1, 2, 3].map(async (x, i) => {
    const y = await step(x); sum += y; seen.push(`${i}:${y}`); return y
  }))
  return [out, sum, seen]
}"#,
        r#"
  mock("n", x => x)
  Test.start()
  assertEqual(await Test.result(), [[1, 2, 3], 6, ["0:1", "1:2", "2:3"]])"#,
    );
}

#[test]
fn example_14() {
    example(
        r#"
workflow w() { const t = Time.now(); await Task.delay("90d"); return Time.diff(Time.now(), t) }"#,
        r#"
  Test.start()
  assertEqual(await Test.result(), 7776000)"#,
    );
}

#[test]
fn example_15() {
    example(
        r#"
workflow w() {
  const zone = "Europe/Berlin", t = Time.from({ year: 2027, month: 1, day: 31, hour: 12 }, zone)
  return [Time.add(t, { months: 1 }, zone), Time.parts(t, zone).weekday,
    Time.from({ year: 2026, month: 3, day: 29, hour: 2, minute: 30 }, zone)]
}"#,
        r#"
  Test.start()
  assertEqual(await Test.result(), ["2027-02-28T11:00:00.000Z", 7, "2026-03-29T01:30:00.000Z"])"#,
    );
}

#[test]
fn example_16() {
    example(
        r#"
workflow w() { await Task.delay(60); return [await wait_for_signal("t"), await wait_for_signal("s"), await wait_for_signal("s")] }"#,
        r#"
  Test.start()
  await Task.delay(10)
  Test.signal("s", 1)
  Test.signal("s", 2)
  await Task.delay(10)
  Test.signal("t", 9)
  assertEqual(await Test.result(), [9, 1, 2])"#,
    );
}

#[test]
fn example_17() {
    example(
        r#"
workflow w() {
  const r = await Task.race([wait_for_signal("s"), Task.delay(1)])
  const s = await wait_for_signal("s")
  try { await wait_for_signal("s", { timeout: "1m" }) } catch (e) { return [r.item_id, s, e.type] }
}"#,
        r#"
  Test.start()
  await Task.delay(5)
  Test.signal("s", "late")
  assertEqual(await Test.result(), ["timer-1", "late", "Timeout"])
  assertEqual(Time.now(), "2026-01-01T00:01:05.000Z")"#,
    );
}

#[test]
fn example_18() {
    let script = r#"
workflow w() {
  let n = 0, stopped = false
  signal cmd(c) {
    switch (c) {
      case "up": n++
      case "down": n--
      case "stop": case "halt": stopped = true
    }
  }
  const ok = await wait_until(() => stopped, "1d")
  return [n, ok]
}"#;
    example(
        script,
        r#"
  Test.start()
  for (const c of ["up", "up", "down", "stop"]) Test.signal("cmd", c)
  assertEqual(await Test.result(), [1, true])"#,
    );
    example(
        script,
        r#"
  Test.start()
  for (const c of ["up", "up", "down"]) Test.signal("cmd", c)
  assertEqual(await Test.result(), [1, false])
  assertEqual(Time.now(), "2026-01-02T00:00:00.000Z")"#,
    );
}

#[test]
fn example_19() {
    example(
        r#"
workflow stock() {
  let left = 10
  query left() { return left }
  update take(n) {
    validate { if (n > left) throw Error(`only ${left}`, { type: "TooMuch" }) }
    left -= n; return left
  }
  await wait_until(() => left == 0); return "empty"
}"#,
        r#"
  Test.start()
  assertEqual(Test.query("left"), 10)
  assertEqual(Test.turns(), 1)
  assertEqual(await Test.update("take", 4), 6)
  const turns = Test.turns()
  const e = await assertFails(Test.update("take", 99), "TooMuch")
  assertEqual(e.message, "only 6")
  assertEqual(Test.turns(), turns)
  assertEqual(await Test.update("take", 6), 0)
  assertEqual(await Test.result(), "empty")
  assertEqual(Test.query("left"), 0)"#,
    );
}

#[test]
fn example_20() {
    let script = r#"
workflow w() {
  try { await Task.delay("30d") }
  catch (e) {
    if (e.type != "Canceled") throw e
    await Task.run("notify", { why: e.message })
    throw e
  }
}"#;
    example(
        script,
        r#"
  mock("notify", () => null)
  Test.start()
  Test.cancel("stop")
  await assertFails(Test.result(), "Canceled")
  assertEqual(Test.status(), "CANCELED")
  assertEqual(Test.calls("notify"), [{ why: "stop" }])
  assertEqual(Time.now(), "2026-01-01T00:00:00.000Z")"#,
    );
    example(
        &script.replace("    throw e\n  }", "    return \"saved\"\n  }"),
        r#"
  mock("notify", () => null)
  Test.start()
  Test.cancel("stop")
  assertEqual(await Test.result(), "saved")
  assertEqual(Test.status(), "COMPLETED")"#,
    );
}

#[test]
fn example_21() {
    example(
        r#"
workflow w() {
  const c = await Task.run("charge", null, { on_cancel: "ignore" })
  try { await Task.delay("1h") } finally { await Task.run("record", c) }
}"#,
        r#"
  let recorded = null
  mock("charge", async () => { await Task.delay(10); return "c" })
  mock("record", () => { recorded = Time.now() })
  Test.start()
  await Task.delay(5)
  Test.cancel()
  await assertFails(Test.result(), "Canceled")
  assertEqual(Test.status(), "CANCELED")
  assertEqual(Test.calls("record"), ["c"])
  assertEqual(recorded, "2026-01-01T00:00:10.000Z")"#,
    );
}

#[test]
fn example_22() {
    example(
        r#"
workflow w(seen = []) {
  const all = [await wait_for_signal("s"), ...seen]
  if (all.length == 3) return all
  return Workflow.continueAsNew(all)
}"#,
        r#"
  Test.start()
  Test.signal("s", 1)
  Test.signal("s", 2)
  Test.signal("s", 3)
  assertEqual(await Test.result(), [3, 2, 1])"#,
    );
}

#[test]
fn example_23() {
    example(
        r#"
workflow w() {
  let trace = []
  try { try { await Task.run("work", null, { retry: false }) } finally { trace.push("clean"); trace.push(await Task.run("clean")) } }
  catch (e) { trace.push(e.type) }
  return trace
}"#,
        r#"
  mock("work", () => { throw Error("no", { type: "A" }) })
  mock("clean", () => 1)
  Test.start()
  assertEqual(await Test.result(), ["clean", 1, "A"])"#,
    );
}

#[test]
fn example_24() {
    example(
        r#"
workflow w() {
  try { await Task.run("ship") }
  catch (e) { return [e.type, e.message, e.details, e.retryable, e.source.kind, e.source.name] }
}"#,
        r#"
  mock("ship", () => { throw Error("no stock", { type: "OutOfStock", details: { sku: 7 }, retryable: false }) })
  Test.start()
  assertEqual(await Test.result(), ["OutOfStock", "no stock", { sku: 7 }, false, "task", "ship"])
  assertEqual(Test.calls("ship").length, 1)"#,
    );
}

#[test]
fn example_25() {
    let test = r#"
use "parent.flow"
use "child.flow"

test "children" {
  Test.start()
  assertEqual(await Test.result(), [10, "Neg", "workflow"])
}

test "mocked children" {
  mockWorkflow("child", x => {
    if (x < 0) throw Error("neg", { type: "Neg" })
    return 10
  })
  Test.start()
  assertEqual(await Test.result(), [10, "Neg", "workflow"])
  assertEqual(Test.calls("child"), [5, -1])
}
"#;
    let parent = r#"
workflow parent() {
  const ten = await Workflow.run("child", 5)
  try { await Workflow.run("child", -1) } catch (e) { return [ten, e.type, e.source.kind] }
}"#;
    let child = r#"workflow child(x) { if (x < 0) throw Error("neg", { type: "Neg" }); return x * 2 }"#;
    assert_eq!(run(test, &[("parent.flow", parent), ("child.flow", child)]), "ok");
}

#[test]
fn example_26() {
    example(
        r#"
workflow w() {
  let undo = []
  try {
    for (const t of ["a", "b", "c"]) { await Task.run(t, null, { retry: false }); undo.push(`undo_${t}`) }
  } catch (e) {
    for (const t of undo.reverse()) await Task.run(t)
    throw e
  }
}"#,
        r#"
  let called = []
  mock("a", () => { called.push("a") })
  mock("b", () => { called.push("b") })
  mock("c", () => { called.push("c"); throw Error("no", { type: "C" }) })
  mock("undo_b", () => { called.push("undo_b") })
  mock("undo_a", () => { called.push("undo_a") })
  Test.start()
  await assertFails(Test.result(), "C")
  assertEqual(called, ["a", "b", "c", "undo_b", "undo_a"])
  assertEqual(Test.status(), "FAILED")"#,
    );
}

#[test]
fn example_27() {
    example(
        r#"
async function work() { await Task.delay(1); throw Error("lost") }
workflow w() { work(); await Task.delay("1h") }"#,
        r#"
  Test.start()
  const e = await assertFails(Test.result(), "Error")
  assertEqual(e.message, "lost")
  assertEqual(Time.now(), "2026-01-01T00:00:01.000Z")"#,
    );
}

#[test]
fn example_28() {
    example(
        r#"
function deep(n) { return deep(n + 1) }
workflow w() { try { deep(0) } catch { return "never" } }"#,
        r#"
  Test.start()
  const e = await assertFails(Test.result(), "LimitError")
  assertEqual(e.message, "call depth limit of 200 reached")"#,
    );
    example(
        r#"
workflow w() { try { while (true) {} } catch { return "never" } }"#,
        r#"
  Test.start()
  const e = await assertFails(Test.result(), "LimitError")
  assertEqual(e.message, "step limit of 5000000 reached")"#,
    );
}

#[test]
fn example_29() {
    example(
        r#"
workflow w(inputs) {
  const soft = inputs.a?.b, dflt = inputs.a.b ?? 3
  try { return inputs.a.b } catch (e) { return [soft, dflt, e.type, e.message] }
}"#,
        r#"
  Test.start({ a: {} })
  assertEqual(await Test.result(), [null, 3, "FieldError", "no field \"b\" (write ?.b if it may be missing)"])"#,
    );
}

#[test]
fn example_30() {
    example(
        r#"
workflow w(inputs) {
  let r = []; if (inputs.user) r.push("yes")
  try { if (inputs.n) r.push("never") } catch (e) { r.push(e.type) }
  return r
}"#,
        r#"
  Test.start({ user: {}, n: 0 })
  assertEqual(await Test.result(), ["yes", "TypeError"])"#,
    );
}

#[test]
fn example_31() {
    example(
        r#"
workflow w() {
  let x = [1], y = x, o = { a: { b: 1 } }, p = o
  y.push(2); p.a.b = 2; return [x, y, o, p]
}"#,
        r#"
  Test.start()
  assertEqual(await Test.result(), [[1], [1, 2], { a: { b: 1 } }, { a: { b: 2 } }])"#,
    );
}

#[test]
fn example_32() {
    example(
        r#"
workflow w() {
  const s = "a👍🏽é!"
  return ["👍".length, s.length, s.slice(1, 3), "straße".toUpperCase(), "\u00e9" == "e\u0301", s[3]]
}"#,
        r#"
  Test.start()
  assertEqual(await Test.result(), [1, 5, "👍🏽", "STRASSE", false, "é"])"#,
    );
}

#[test]
fn example_33() {
    example(
        r#"
workflow w() { const blob = await Task.run("load"); await Task.run("save", blob); return typeof blob }"#,
        r#"
  mock("load", () => Payload.bytes("AAEC"))
  mock("save", () => null)
  Test.start()
  assertEqual(await Test.result(), "payload")
  assertEqual(Test.calls("save"), [Payload.bytes("AAEC")])"#,
    );
}

#[test]
fn example_34() {
    let results = [
        ("x", "9007199254740993", "9007199254740993"),
        ("0.1 + 0.2", "", "0.30000000000000004"),
        ("7 / 2", "", "3.5"),
        ("6 / 2", "", "3"),
        ("-7 % 3", "", "-1"),
        ("1 == 1.0", "", "true"),
        ("-0", "", "0"),
        ("0.5 + 0.5", "", "1"),
        ("Math.round(-2.5)", "", "-3"),
        ("Math.round(1.005, 2)", "", "1"),
        ("\"1\" + 1", "", "\"11\""),
    ];
    for (expression, input, want) in results {
        // As text, so that 1 and 1.0 differ.
        example(
            &format!("workflow w(x) {{ return {expression} }}"),
            &format!("  Test.start({input})\n  assertEqual(JSON.stringify(await Test.result()), `{want}`)"),
        );
    }
    let errors = [
        ("9223372036854775807 + 1", "NumberError", "9223372036854775807 + 1 is out of range"),
        ("1 / 0", "NumberError", "division by zero"),
        ("0 / 0", "NumberError", "division by zero"),
        ("5 % 0", "NumberError", "division by zero"),
        ("Math.sqrt(-1)", "NumberError", "Math.sqrt(-1) is not a number"),
        ("\"a\" + null", "TypeError", "cannot add string and null"),
    ];
    for (expression, kind, message) in errors {
        example(
            &format!("workflow w(x) {{ return {expression} }}"),
            &format!(
                "  Test.start()\n  const e = await assertFails(Test.result(), \"{kind}\")\n  assertEqual(e.message, `{message}`)"
            ),
        );
    }
}

#[test]
fn example_35() {
    let a = "workflow v() { await wait_for_signal(\"go\"); return \"one\" }";
    let b = &a.replace("one", "two");
    let test = |want: &str| {
        format!(
            "use \"v.flow\"\ntest \"v\" {{\n  Test.start()\n  Test.signal(\"go\")\n  assertEqual(await Test.result(), \"{want}\")\n}}\n"
        )
    };
    assert_eq!(run(&test("one"), &[("v.flow", a)]), "ok");
    assert_eq!(run(&test("two"), &[("v.flow", b)]), "ok");
    let version = |source: &str| segno_flow::version(source.as_bytes());
    assert_ne!(version(a), version(b));
    assert_eq!(version(a).len(), 64);
    assert_eq!(version(&format!("{a}\n")), version(&format!("\u{feff}{a}\r\n")));
}

#[test]
fn example_36() {
    let cases = [
        ("return reslt", 2, 10, "F0201", None),
        ("inputs.n = 1", 2, 3, "F0210", None),
        ("var x = 1", 2, 3, "F0105", None),
        ("const f = x => x", 2, 13, "F0107", None),
        ("const a = [] a.push(1)", 2, 16, "F0101", None),
        ("[1].push(2)", 2, 3, "F0211", None),
        ("if (inputs = 1) return", 2, 14, "F0101", Some("== compares")),
        ("const n = inputs.x || \"a\"", 2, 25, "F0218", None),
        ("Task.run(\"x\", 1, { que: \"q\" })", 2, 22, "F0208", None),
        ("inputs.list.sort()", 2, 3, "F0216", None),
        ("Task.delay(\"5 min\")", 2, 14, "F0222", None),
        ("query q() { Task.run(\"x\") }", 2, 15, "F0212", None),
        ("return\n  1", 3, 3, "F0215", None),
        ("1 + 1", 2, 3, "F0109", None),
        ("Workflow.continueAsNew(1)", 2, 3, "F0217", None),
        ("for (const k in inputs) {}", 2, 16, "F0101", Some("for … of")),
        ("if (inputs.a < 1 < 2) return", 2, 20, "F0101", None),
        ("function f() { await Task.delay(1) }", 2, 18, "F0106", None),
    ];
    for (line, at_line, column, code, hint) in cases {
        let source = format!("workflow w(inputs) {{\n  {line}\n}}\n");
        let checked = segno_flow::check(source.as_bytes());
        let errors: Vec<_> =
            checked.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).collect();
        let first = errors.first().unwrap_or_else(|| panic!("{line} is not refused"));
        assert_eq!((first.start.line, first.start.column, first.code), (at_line, column, code), "{line}: {first:?}");
        if let Some(hint) = hint {
            assert!(first.hint.as_deref().is_some_and(|text| text.contains(hint)), "{line}: {first:?}");
        }
    }
}
