//! Memory of scripts: sources, states, code and events under an allocator that aborts beyond a bound.
//!
//! The limits are those of the server, so that a turn may take as long and as much as there. That makes it slow; it is searched by
//! hand (`cargo xtask fuzz flow-memory`), and its seeds, several of which took gigabytes once, are given to it by a test.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use segno_flow::{
    Code, check, compile, format, inspect,
    interface::{Event, EventKind, Failure, Limits, Payload, TurnError, TurnResult, Unpaced},
    metadata, query, stack, turn,
};

use crate::scripts::{events, json, started};

/// Bytes that one input may take. The values of a turn take at most 192 MiB, and one function of the library 128 MiB besides.
const MEMORY_MAX: usize = 384 << 20;

/// Bytes that are in use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);
/// Bytes that may be in use.
static ALLOWED: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The allocator of the system, with a bound.
pub(crate) struct BoundedAllocator;

impl BoundedAllocator {
    fn take(bytes: usize) {
        let in_use = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if in_use > ALLOWED.load(Ordering::Relaxed) {
            ALLOWED.store(usize::MAX, Ordering::Relaxed);
            eprintln!("an input takes more than {MEMORY_MAX} bytes of memory");
            std::process::abort();
        }
    }

    fn free(bytes: usize) {
        IN_USE.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// SAFETY: everything is left to the allocator of the system; only sizes are counted besides.
unsafe impl GlobalAlloc for BoundedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::take(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::take(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        Self::free(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::take(size);
        Self::free(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// What the first byte of an input says about the others.
const SOURCE: u8 = 0;
const STATE: u8 = 1;
const CODE: u8 = 2;
const EVENTS: u8 = 3;

/// A script that keeps what it gets, for states and events of others.
const KEEPER: &str = r#"workflow w(input) {
  let kept = [], last = null
  query q() { return last }
  signal s(x) { kept.push(x); last = JSON.stringify(x).length }
  update u(x) { return [x, x] }
  try {
    last = await Task.run("a", input)
  } catch (e) {
    last = [e.details, List.range(3000).map(x => e)]
  }
  await Task.delay(5)
  return kept
}
"#;

pub(crate) fn run(input: &[u8]) {
    let Some((kind, content)) = input.split_first() else { return };
    ALLOWED.store(IN_USE.load(Ordering::Relaxed) + MEMORY_MAX, Ordering::Relaxed);
    match *kind {
        SOURCE => run_source(content),
        STATE => run_state(content),
        CODE => drop(Code::decode(&with_header(1, content))),
        EVENTS => run_events(content),
        _ => {}
    }
    ALLOWED.store(usize::MAX, Ordering::Relaxed);
}

fn compiled(source: &[u8]) -> Option<Code> {
    compile(&check(source).program?, "w.flow").ok()
}

fn run_source(source: &[u8]) {
    if let Ok(text) = std::str::from_utf8(source) {
        let _ = format(text);
    }
    let Some(code) = compiled(source) else { return };
    let read = Code::decode(&code.encode());
    assert!(read.is_ok(), "what was compiled cannot be read: {:?}", read.err());
    take_all(&code, None, std::iter::once(started()).chain(events()));
}

fn run_state(content: &[u8]) {
    let Some(code) = compiled(KEEPER.as_bytes()) else { return };
    let state = with_header(1, content);
    look(&code, &state);
    take_all(&code, Some(state), events().into_iter());
}

/// The bytes are the payload of each event, and all that a failure has.
fn run_events(content: &[u8]) {
    let Some(code) = compiled(KEEPER.as_bytes()) else { return };
    let text = String::from_utf8_lossy(content).into_owned();
    let payload = Payload { metadata: json("").metadata, data: content.to_vec() };
    // Nothing of it is part of the error that the script sees.
    let failure = Failure { stack_trace: text, encoded: Some(Arc::from(content)), ..Failure::default() };
    let kinds = [
        EventKind::Signaled { name: "s".to_owned(), input: vec![payload.clone()] },
        EventKind::Signaled { name: "t".to_owned(), input: vec![payload.clone(), payload.clone()] },
        EventKind::Update { id: "u".to_owned(), name: "u".to_owned(), input: vec![payload] },
        EventKind::TaskEnded { id: "task-1".to_owned(), end: Err(failure) },
    ];
    let happened = kinds.into_iter().enumerate().map(|(at, kind)| Event { time: at as i64, kind });
    take_all(&code, None, std::iter::once(started()).chain(happened));
}

fn take_all(code: &Code, mut state: Option<Vec<u8>>, events: impl Iterator<Item = Event>) {
    let limits = Limits::default();
    let was_written = state.is_none();
    for event in events {
        match turn(code, state.as_deref(), &[event], &limits, &mut Unpaced) {
            Ok(TurnResult { state: next, .. }) => {
                look(code, &next);
                state = Some(next);
            }
            Err(TurnError::DamagedState(why)) if was_written => {
                panic!("a turn wrote a state that cannot be read: {why}")
            }
            Err(_) => return,
        }
    }
}

/// Everything that looks into a state.
fn look(code: &Code, state: &[u8]) {
    let _ = inspect(code, state).map(|seen| seen.to_json());
    let _ = metadata(code, state);
    let _ = stack(code, state);
    let _ = query(code, state, "q", &[], 9_000, &Limits::default());
}

/// Bytes with the format and the checksum that states and code begin with.
fn with_header(format: u8, content: &[u8]) -> Vec<u8> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = (content.len() as u64).wrapping_mul(FACTOR) ^ 0x6a09_e667_f3bc_c908;
    for chunk in content.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        hash ^= hash >> 29;
    }
    [&[format], &hash.to_le_bytes()[..], content].concat()
}

pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, kind: u8, content: &[u8]| seeds.push((name.to_owned(), [&[kind], content].concat()));
    // Constants that refer to a large one: 4.4 GB, and 11 GB, when they were not shared.
    for references in [8, 20] {
        let name = format!("constants-{references}");
        add(&name, SOURCE, shared_constants(references).as_bytes());
    }
    add("nested-constants", SOURCE, nested_constants().as_bytes());
    // Objects without fields take fifty times as much memory as JSON: 1.5 GB.
    for (name, item) in [("empty-objects", "{}"), ("empty-lists", "[]"), ("empty-texts", "\\\"\\\"")] {
        let variables: String = (0..8).map(|n| format!("v{n} = JSON.parse(s), ")).collect();
        let source = format!(
            "workflow w() {{\n  const s = \"[\" + \"{item},\".repeat(1300000) + \"{item}]\"\n  let {variables}z = 1\n  return z\n}}\n"
        );
        add(name, SOURCE, source.as_bytes());
    }
    // Lists that only functions of the library hold: 1 GB.
    let nested = "function f(n) { return List.range(400000).map(x => x == 0 ? f(n + 1) : 0).length }\nworkflow w() { return f(0) }\n";
    add("lists-under-way", SOURCE, nested.as_bytes());
    let frames: String = (0..30_000).map(|n| format!("a{n},")).collect();
    let frames = format!(
        "function f(n) {{ if (n < 0) {{ let {frames} z }}\n  return f(n + 1) }}\nworkflow w() {{ return f(0) }}\n"
    );
    add("large-frames", SOURCE, frames.as_bytes());
    // An error that carries two megabytes, three thousand times in a state: 6 GB.
    add("errors", EVENTS, format!("\"{}\"", "x".repeat(1 << 20)).as_bytes());
    add("events", EVENTS, b"[1, {\"a\": [null, 1.5]}]");
    // Lists in lists, each of which says that it has 100,000 elements: 1.2 GB.
    let lists: Vec<u8> = std::iter::repeat_n([6, 0xa0, 0x8d, 6], 500).flatten().chain([0; 200_000]).collect();
    let mut state = state_of_keeper();
    add("state", STATE, &state);
    // Two variables of handlers: an empty list and null.
    if let Some(place) = state.windows(6).position(|bytes| bytes == [2, 0, 6, 0, 1, 0]) {
        state.splice(place + 2.., lists.iter().copied());
    }
    add("lists-in-a-state", STATE, &state);
    // The same among the constants of code: two names, no strings, no literals, one constant.
    let code: Vec<u8> = [0, 0, 0, 0, 1, 0].into_iter().chain(lists).collect();
    add("lists-in-code", CODE, &code);
    seeds
}

/// The source of which the issue speaks.
fn shared_constants(references: usize) -> String {
    let mut source = format!("const A = [{}]\n", "1,".repeat(50_000));
    for number in 0..300 {
        source.push_str(&format!("const b{number} = [{}]\n", "A,".repeat(references)));
    }
    let used: String = (0..300).map(|number| format!("b{number}.length,")).collect();
    source.push_str(&format!("workflow w() {{ return [{used}] }}\n"));
    source
}

/// Each constant has twice the size of the one before, and the same memory.
fn nested_constants() -> String {
    let mut source = "const a0 = [1, 2, 3]\n".to_owned();
    (1..60).for_each(|n| source.push_str(&format!("const a{n} = [a{}, a{}]\n", n - 1, n - 1)));
    source + "workflow w() { return a59.length }\n"
}

/// What is stored of the keeper while it waits, without its header.
fn state_of_keeper() -> Vec<u8> {
    let first = compiled(KEEPER.as_bytes())
        .and_then(|code| turn(&code, None, &[started()], &Limits::default(), &mut Unpaced).ok());
    first.map(|turned| turned.state.get(9..).unwrap_or_default().to_vec()).unwrap_or_default()
}
