//! Damaged states with a correct checksum are refused, or executed without a panic.

use crate::interface::{Event, EventKind, Limits, Pace, Payload, Start, TurnError, Unpaced};
use crate::{Code, check, compile, inspect, query, stack, turn};

use super::bytes::checksum;
use super::save::{HEADER, STATE_FORMAT};

const SOURCE: &str = r#"
const LIMITS = { a: [1, 2], b: "x" }
async function f(x) { try { return await Task.run("t", [x, LIMITS]) } finally { log("f") } }
workflow w(inputs) {
  let n = 0, list = [1, 2.5, { k: "v" }]
  query n() { return [n, list] }
  update u(by) { validate { if (by > 5) throw "no" } n += await Task.run("u", by); return n }
  signal up(by = 1) { n += by; await Task.delay(1) }
  const p = f(1), q = Task.delay(60), k = Workflow.run("c", 1, { id: "kid" })
  const m = Task.map([1, 2, 3], async (x, i) => { await Task.run("m", x); n += x; return i }, { concurrency: 2 })
  try { await Task.run("bad") } catch (e) { list.push(e) }
  for (const [i, x] of [[1, 2], [3, 4]]) {
    list.push(await Task.race({ s: wait_for_signal("s", { timeout: 9 }), u: wait_until(() => n == i + x), q }))
  }
  return [await Task.timeout(Task.all([p, m, k]), "1h"), list, `${await Task.settle([p])}`]
}"#;

fn payload(text: &str) -> Payload {
    crate::pure::payload::encoded("json/plain", text.as_bytes().to_vec())
}

fn at(kind: EventKind) -> Event {
    Event { time: 1_767_225_700_000, kind }
}

fn done(id: &str) -> Event {
    at(EventKind::TaskEnded { id: id.into(), end: Ok(vec![payload("1")]) })
}

fn signal(name: &str) -> Event {
    at(EventKind::Signaled { name: name.into(), input: vec![payload("2")] })
}

/// Code and states at several places.
fn states() -> (Code, Vec<Vec<u8>>) {
    let program = check(SOURCE.as_bytes()).program.unwrap();
    let code = compile(&program, "w.flow").unwrap();
    let start = Start { run_id: "r".into(), input: vec![payload("{}")], ..Start::default() };
    let failure = crate::interface::Failure { message: "no".into(), ..Default::default() };
    let events = [
        at(EventKind::Started(Box::new(start))),
        signal("up"),
        at(EventKind::Update { id: "u".into(), name: "u".into(), input: vec![payload("1")] }),
        at(EventKind::TaskEnded { id: "task-4".into(), end: Err(failure) }),
        signal("other"),
        done("task-2"),
        signal("s"),
        signal("s"),
    ];
    let mut states: Vec<Vec<u8>> = Vec::new();
    for event in events {
        let before = states.last().map(Vec::as_slice);
        let turned = turn(&code, before, &[event], &Limits::default(), &mut Unpaced).unwrap();
        states.push(turned.state);
    }
    (code, states)
}

fn sealed(content: &[u8]) -> Vec<u8> {
    [&[STATE_FORMAT][..], &checksum(content).to_le_bytes(), content].concat()
}

struct ShortPace;

impl Pace for ShortPace {
    fn go_on(&mut self, steps: u64) -> bool {
        steps < 20_000
    }
}

/// Tries a changed state with everything that reads states.
fn try_state(code: &Code, content: &[u8]) -> bool {
    let state = sealed(content);
    let limits = Limits::default();
    let mut events: Vec<Event> = ["task-1", "task-2", "task-3", "task-5", "task-6"].map(done).into();
    events.extend([signal("s"), signal("up"), at(EventKind::CancelRequested { reason: "r".into() })]);
    events.extend(["timer-1", "timer-2", "timer-3", "timer-4"].map(|id| at(EventKind::TimerFired { id: id.into() })));
    let result = turn(code, Some(&state), &events, &limits, &mut ShortPace);
    let _ = query(code, &state, "n", &[], 0, &limits);
    let _ = inspect(code, &state).map(|inspection| inspection.to_json());
    let _ = stack(code, &state);
    !matches!(result, Err(TurnError::DamagedState(_)))
}

#[test]
fn changed_states_do_no_harm() {
    let (code, states) = states();
    let mut dice = crate::pure::random::Random::seeded("changed states");
    let mut executed = 0;
    for state in &states {
        let content = &state[HEADER..];
        assert!(try_state(&code, content));
        for place in 0..content.len() {
            for _ in 0..3 {
                let mut changed = content.to_vec();
                changed[place] = match dice.next_u64() % 3 {
                    0 => changed[place].wrapping_add(1),
                    1 => changed[place].wrapping_sub(1),
                    _ => dice.next_u64().to_le_bytes()[0],
                };
                executed += u32::from(try_state(&code, &changed));
            }
            let mut shorter = content.to_vec();
            shorter.remove(place);
            executed += u32::from(try_state(&code, &shorter));
        }
        let mut other = content.to_vec();
        other.push(0);
        assert!(!try_state(&code, &other));
    }
    // Changed texts and numbers are other texts and numbers.
    assert!(executed > 0);
}

/// `FLOW_FUZZ_RUNS` says how many states are tried (2,000 if not set), `FLOW_FUZZ_SEED` where to begin.
#[test]
fn states_with_several_changes_do_no_harm() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (code, states) = states();
    let mut dice = crate::pure::random::Random::seeded(&format!("several {}", setting("FLOW_FUZZ_SEED").unwrap_or(1)));
    let mut below = |limit: usize| usize::try_from(dice.next_u64() % limit.max(1) as u64).unwrap_or(0);
    for _ in 0..setting("FLOW_FUZZ_RUNS").unwrap_or(2_000) {
        let mut content = states[below(states.len())][HEADER..].to_vec();
        for _ in 0..1 + below(4) {
            let place = below(content.len());
            let byte = u8::try_from(below(256)).unwrap_or(0);
            match below(6) {
                0 => content[place] ^= 1 << below(8),
                1 => content[place] = byte,
                2 => content[place] = [0, 1, 0x7f, 0x80, 0xff][below(5)],
                3 => content.insert(place, byte),
                4 => {
                    // A piece of another state of the same run.
                    let other = &states[below(states.len())][HEADER..];
                    let from = below(other.len());
                    let to = (from + below(12)).min(other.len());
                    let until = (place + to - from).min(content.len());
                    content.splice(place..until, other[from..to].iter().copied());
                }
                _ => {
                    content.remove(place);
                }
            }
        }
        try_state(&code, &content);
    }
}
