//! Limits (section 6.8) and pace.

use super::{Run, json};
use segno_flow::interface::{Event, EventKind, Limits, Pace, TurnError};
use segno_flow::turn;

#[track_caller]
fn result(source: &str) -> String {
    let (_, commands) = Run::start(source, &[]);
    commands.last().unwrap().clone()
}

/// The same on a thread with a stack of the size that inline turns have, and half of it.
fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn steps() {
    let want = "fail LimitError: step limit of 5000000 reached";
    assert_eq!(result("workflow w() { while (true) {} }"), want);
    assert_eq!(result("workflow w() { try { while (true) {} } catch { return 1 } finally { log(\"never\") } }"), want);
    let mut run = Run::new(
        "workflow w() {\n  let n = 0\n  while (true) { n++\n    if (n == 200) { n = 0; await Task.delay(1) } }\n}",
    );
    run.limits.steps = 5_000;
    run.begin(&[]);
    for number in 1..20 {
        assert_eq!(
            run.fired(&format!("timer-{number}")),
            [format!("timer-{} 1000", number + 1)],
            "steps count for each event"
        );
    }
    assert_eq!(
        result(
            "workflow w() {\n  let n = 0\n  signal s() { n++ }\n  await wait_until(() => { while (n == 0) {}\n return true })\n}"
        ),
        "fail LimitError: step limit of 100000 reached"
    );
    // Library functions count what they touch.
    assert_eq!(
        result(
            "workflow w() { const s = \"x\".repeat(1000000)\n  let n = 0\n  while (true) { if (s.includes(\"y\")) n++ } }"
        ),
        want
    );
}

#[test]
fn depth() {
    on_small_stack(|| {
        let want = "fail LimitError: call depth limit of 200 reached";
        assert_eq!(
            result(
                "function deep(n) { return deep(n + 1) }\nworkflow w() { try { deep(0) } catch { return \"never\" } }"
            ),
            want
        );
        assert_eq!(
            result("function deep(n) { return n == 0 ? 0 : deep(n - 1) }\nworkflow w() { return deep(199) }"),
            "complete 0"
        );
        assert_eq!(
            result("function deep(n) { return n == 0 ? 0 : deep(n - 1) }\nworkflow w() { return deep(200) }"),
            want
        );
        assert_eq!(
            result(
                "async function deep(n) { return n == 0 ? 0 : await deep(n - 1) }\nworkflow w() { return await deep(199) }"
            ),
            "complete 0"
        );
        assert_eq!(
            result(
                "async function deep(n) { return n == 0 ? 0 : await deep(n - 1) }\nworkflow w() { return await deep(200) }"
            ),
            want
        );
        assert_eq!(
            result("function deep(n) { return [1].map(x => deep(n + 1)) }\nworkflow w() { return deep(0) }"),
            want
        );
        assert_eq!(
            result("function deep(n) { return [2, 1].sort((a, b) => deep(n + 1)) }\nworkflow w() { return deep(0) }"),
            want
        );
        assert_eq!(
            result(
                "async function deep(n) { return await Task.map([1], async x => await deep(n + 1)) }\nworkflow w() { return await deep(0) }"
            ),
            want
        );
        assert_eq!(
            result(
                "async function deep(n) { return await Task.all([n].map(async x => await deep(x + 1))) }\nworkflow w() { return await deep(0) }"
            ),
            want
        );
        assert_eq!(
            result("function deep(n) { return [1].reduce((a, b) => deep(n + 1), 0) }\nworkflow w() { return deep(0) }"),
            want
        );
    });
}

#[test]
fn a_chain_of_waiting_calls_is_no_nesting() {
    let source = "async function f(n) { await Task.delay(1)\n  return await f(n + 1) }\nworkflow w() { await f(0) }";
    let mut run = Run::new(source);
    run.limits.pending_calls = 300;
    run.begin(&[]);
    for number in 1..300 {
        assert_eq!(run.fired(&format!("timer-{number}")), [format!("timer-{} 1000", number + 1)]);
    }
    assert_eq!(run.fired("timer-300"), ["fail LimitError: limit of 300 pending async calls reached"]);
}

const ONE_VALUE: &str = "fail LimitError: memory limit reached: one value may have 4194304 bytes (4 MiB) as JSON";

#[test]
fn values() {
    let (large, deep) = (ONE_VALUE, "fail LimitError: memory limit reached: lists and objects may be nested 500 deep");
    for source in [
        "workflow w() { let x = [1]\n  while (true) x = [x, x] }",
        "workflow w() { let x = []\n  while (true) x = [x] }",
        "workflow w() { let x = {}\n  while (true) x = { x } }",
        "workflow w() { let s = \"abc\"\n  while (true) s = s + s }",
        "workflow w() { let s = \"abc\"\n  while (true) s = `${s}${s}` }",
        "workflow w() { let x = [\"abcdefghij\"]\n  while (true) x.push(...[x]) }",
        "workflow w() { let x = [1, 2, 3]\n  while (true) x = [...x, ...x] }",
        "workflow w() { let x = { a: 1 }\n  while (true) x.a = { ...x } }",
        "workflow w() { let x = [1, 2, 3]\n  while (true) x = x.concat(x) }",
        "workflow w() { let x = [[1]]\n  while (true) x[0] = x }",
        "workflow w() { let x = \"ab\"\n  while (true) x = x.repeat(10) }",
        "workflow w() { return List.range(10000000) }",
        "workflow w() { const big = \"x\".repeat(100000)\n  return List.range(100).map(x => big) }",
        "workflow w() { const big = \"x\".repeat(100000)\n  return List.range(100).flatMap(x => [big]) }",
        "workflow w() { const big = \"x\".repeat(100000)\n  return List.range(100).reduce((a, b) => [...a, big], []) }",
    ] {
        let source = source.replace("x.push(...[x])", "x.push(x)");
        let result = result(&source);
        assert!(result == large || result == deep, "{source}: {result}");
    }
}

#[test]
fn all_values_together() {
    // Each list is below the limit of one value.
    let lines: String = (0..40).map(|n| format!("  let v{n} = s + \"{n}\"\n")).collect();
    let reads: String = (0..40).map(|n| format!("v{n}.length + ")).collect();
    let source = format!("workflow w() {{\n  const s = \"x\".repeat(3000000)\n{lines}  return {reads} 0\n}}");
    let want = "fail LimitError: memory limit reached: all values of a turn may have 67108864 bytes (64 MiB) as JSON";
    assert_eq!(result(&source), want);
    // Results of tasks together are one value.
    let source = "workflow w() { return (await Task.all([Task.run(\"a\"), Task.run(\"b\"), Task.run(\"c\")])).length }";
    let (mut run, _) = Run::start(source, &[]);
    let big = format!("\"{}\"", "x".repeat(1_900_000));
    let mut last = Vec::new();
    for id in ["task-1", "task-2", "task-3"] {
        last = run.event(EventKind::TaskEnded { id: id.into(), end: Ok(vec![json(&big)]) });
    }
    assert_eq!(last, [ONE_VALUE]);
}

#[test]
fn the_stored_state() {
    let source = "workflow w() {\n  let a = \"x\".repeat(3000000), b = \"y\".repeat(3000000)\n  query a() { return a }\n  await Task.delay(1)\n  return a + b\n}";
    let (run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["timer-1 1000", "fail LimitError: state limit of 4194304 bytes reached"]);
    assert!(run.state.as_ref().unwrap().len() <= 4 << 20);
    assert!(run.query("a", &[]).is_err() || run.query("a", &[]).is_ok());
}

#[test]
fn pending_operations() {
    for (call, word, count) in [
        ("Task.run(\"a\")", "tasks", 2_000),
        ("Task.delay(1)", "timers", 2_000),
        ("wait_for_signal(\"s\", { timeout: 5 })", "timers", 2_000),
        ("Workflow.run(\"a\")", "children", 2_000),
        ("Workflow.signal(\"a\", \"b\")", "sends", 2_000),
        ("f()", "async calls", 10_000),
    ] {
        let source = format!(
            "async function f() {{ await wait_for_signal(\"x\") }}\nworkflow w() {{\n  let ps = []\n  while (true) ps.push({call})\n}}"
        );
        let (_, commands) = Run::start(&source, &[]);
        assert_eq!(commands.last().unwrap(), &format!("fail LimitError: limit of {count} pending {word} reached"));
    }
}

#[test]
fn names_and_ids() {
    let source = "workflow w() { try { Task.run(\"x\".repeat(1001)) } catch (e) { return e.type } }";
    assert_eq!(result(source), "complete \"ArgumentError\"");
    let source =
        "workflow w() { try { Task.run(\"x\", null, { id: \"x\".repeat(1001) }) } catch (e) { return e.type } }";
    assert_eq!(result(source), "complete \"ArgumentError\"");
}

#[test]
fn pace_is_asked_often_and_can_end_a_turn() {
    struct CountingPace(u64, u64);
    impl Pace for CountingPace {
        fn go_on(&mut self, steps: u64) -> bool {
            assert!(steps <= self.0 + 1_001, "{steps} after {}", self.0);
            self.0 = steps;
            steps < self.1
        }
    }
    let code =
        super::code("workflow w() { let n = 0\n  while (n < 100000) n++\n  return [1, 2, 3].map(x => x).length }");
    let start = Event { time: 0, kind: EventKind::Started(Box::default()) };
    let mut pace = CountingPace(0, u64::MAX);
    let turned = turn(&code, None, std::slice::from_ref(&start), &Limits::default(), &mut pace).unwrap();
    assert!(turned.steps >= pace.0 && turned.steps > 300_000);
    let given_up = turn(&code, None, &[start], &Limits::default(), &mut CountingPace(0, 20_000));
    assert_eq!(given_up, Err(TurnError::GivenUp));
}

#[test]
fn large_frames_cost_what_they_are() {
    let many: String = (0..20_000).map(|n| format!("let v{n}\n")).collect();
    let unused = format!("if (x == 1) {{\n{many}}}");
    for body in [
        format!("function f(x) {{ {unused} }}\nworkflow w() {{ while (true) f(0) }}"),
        format!("function f(x) {{ {unused}\n return f(x) }}\nworkflow w() {{ f(0) }}"),
        format!(
            "async function f(x) {{ {unused}\n await Task.delay(1) }}\nworkflow w() {{ let l = []\n while (true) l.push(f(0)) }}"
        ),
        format!("workflow w(x) {{ {unused}\n while (true) {{ try {{ throw \"a\" }} catch {{ x = 0 }} }} }}"),
    ] {
        let begin = std::time::Instant::now();
        let (run, commands) = Run::start(&body, &[]);
        let last = commands.last().unwrap();
        assert!(last.starts_with("fail LimitError: "), "{last}");
        assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
        assert!(run.last.unwrap().steps <= 5_100_000);
    }
}

#[test]
fn long_chains_of_operators() {
    on_small_stack(|| {
        for count in [500, 100_000] {
            let source = format!("workflow w() {{ return 1{} }}", " + 1".repeat(count));
            let checked = segno_flow::check(&source.as_bytes()[..source.len().min(262_000)]);
            if let Some(program) = checked.program {
                let _ = segno_flow::compile(&program, "w.flow");
            }
        }
    });
}
