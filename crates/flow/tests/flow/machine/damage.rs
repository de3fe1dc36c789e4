//! Damaged states and code are refused, never executed (section 12).

use super::{Run, code, done};
use segno_flow::interface::{Event, EventKind, Limits, TurnError, Unpaced};
use segno_flow::{Code, inspect, query, turn};

const SOURCE: &str = r#"
const LIMITS = { a: [1, 2], b: "x" }
async function f(x) { try { return await Task.run("t", [x, LIMITS]) } finally { log("f") } }
workflow w(inputs) {
  let n = 0, list = [1, 2.5, { k: "v" }]
  query n() { return n }
  signal up(by = 1) { n += by; await Task.delay(1) }
  const p = f(1), q = Task.delay(60)
  const m = Task.map([1, 2, 3], async (x, i) => { await Task.run("m", x); n += x; return i }, { concurrency: 2 })
  try { await Task.run("bad") } catch (e) { list.push(e) }
  for (const [i, x] of [[1, 2], [3, 4]]) {
    list.push(await Task.race({ s: wait_for_signal("s", { timeout: 9 }), u: wait_until(() => n == i + x), q }))
  }
  return [await Task.timeout(Task.all([p, m]), "1h"), list]
}"#;

fn suspended() -> Run {
    let (mut run, _) = Run::start(SOURCE, &["{\"a\":1}"]);
    run.signal("up", &["2"]);
    run.signal("other", &["2"]);
    run.failed("task-4", "X", "x");
    run
}

fn next() -> Vec<Event> {
    let kinds = [
        super::signal("s", &["1"]),
        super::signal("up", &[]),
        done("task-1", "1"),
        done("task-2", "1"),
        EventKind::CancelRequested { reason: "r".into() },
        EventKind::TimerFired { id: "timer-1".into() },
    ];
    kinds.into_iter().map(|kind| Event { time: 1_767_225_700_000, kind }).collect()
}

#[test]
fn each_changed_byte_is_noticed() {
    let run = suspended();
    let state = run.state.unwrap();
    for place in 0..state.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = state.clone();
            damaged[place] ^= change;
            let result = turn(&run.code, Some(&damaged), &next(), &Limits::default(), &mut Unpaced);
            assert!(matches!(result, Err(TurnError::DamagedState(_))), "byte {place}: {result:?}");
        }
    }
    for end in 0..state.len() {
        let result = turn(&run.code, Some(&state[..end]), &next(), &Limits::default(), &mut Unpaced);
        assert!(matches!(result, Err(TurnError::DamagedState(_))));
    }
    let longer = [state.as_slice(), &[0]].concat();
    assert!(turn(&run.code, Some(&longer), &[], &Limits::default(), &mut Unpaced).is_err());
    assert!(query(&run.code, &longer, "n", &[], 0, &Limits::default()).is_err());
    assert!(inspect(&run.code, &longer).is_err());
}

#[test]
fn the_state_of_another_script_does_no_harm() {
    let run = suspended();
    let state = run.state.unwrap();
    for source in [
        "workflow w() { await Task.delay(1) }",
        "async function f(x) { return await Task.run(\"t\", x) }\nworkflow w(inputs) {\n  let n = 0\n  query n() { return n }\n  await f(inputs)\n}",
    ] {
        let result = turn(&code(source), Some(&state), &next(), &Limits::default(), &mut Unpaced);
        assert!(matches!(result, Err(TurnError::DamagedState(_))), "{result:?}");
    }
}

#[test]
fn damaged_code_is_refused() {
    let bytes = code(SOURCE).encode();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x41;
        assert!(Code::decode(&damaged).is_err());
    }
    for end in 0..bytes.len() {
        assert!(Code::decode(&bytes[..end]).is_err());
    }
}
