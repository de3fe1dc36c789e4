//! Memory: constants are shared and limited, and nothing expands when it is stored or looked at. The target `flow-memory` of
//! `tools/fuzz` runs such scripts under an allocator with a bound.

use std::sync::Arc;
use std::time::{Duration, Instant};

use segno_flow::interface::{Event, EventKind, Failure, Limits, Payload, Start, Unpaced};
use segno_flow::{CODE_BYTES_MAX, Code, check, compile, inspect, stack, turn};

fn compiled(source: &str) -> Code {
    let checked = check(source.as_bytes());
    compile(&checked.program.expect("no errors"), "w.flow").expect("it compiles")
}

/// Code, line and column of the error that the compiler finds.
fn error(source: &str) -> (&'static str, u32, u32, String) {
    let checked = check(source.as_bytes());
    let found = compile(&checked.program.expect("the checker finds nothing"), "w.flow").expect_err("an error");
    let [found] = found.as_slice() else { panic!("{found:?}") };
    (found.code, found.start.line, found.start.column, found.message.clone())
}

fn started() -> Event {
    Event { time: 0, kind: EventKind::Started(Box::<Start>::default()) }
}

fn result(code: &Code) -> String {
    let turned = turn(code, None, &[started()], &Limits::default(), &mut Unpaced).expect("the turn ends");
    format!("{:?}", turned.commands)
}

/// A list of 50,000 elements and 300 constants with so many references to it each: 114 KB of source.
fn shared_constants(references: usize) -> String {
    let mut source = format!("const A = [{}]\n", "1,".repeat(50_000));
    for number in 0..300 {
        source.push_str(&format!("const b{number} = [{}]\n", "A,".repeat(references)));
    }
    source + "workflow w() { return [b0.length, b299[1] == A, b7[0].length] }\n"
}

#[test]
fn constants_that_refer_to_a_large_one_are_cheap() {
    for references in [8, 20] {
        let begin = Instant::now();
        let code = compiled(&shared_constants(references));
        let bytes = code.encode();
        assert!(bytes.len() < 300_000, "{}", bytes.len());
        let read = Code::decode(&bytes).expect("it can be read");
        assert!(read.memory() < CODE_BYTES_MAX && read.memory() == code.memory());
        for code in [&code, &read] {
            let wanted = format!("[{references},true,50000]");
            let bytes: Vec<String> = wanted.bytes().map(|byte| byte.to_string()).collect();
            assert!(result(code).contains(&bytes.join(", ")), "{}", result(code));
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    }
}

#[test]
fn texts_of_constants_are_shared_too() {
    let text = "x".repeat(100_000);
    let source = format!("const S = \"{text}\"\nconst A = [{}]\nworkflow w() {{ return A.length }}", "S,".repeat(41));
    let code = compiled(&source);
    assert!(code.encode().len() < 210_000, "{}", code.encode().len());
    assert!(code.memory() < 250_000, "{}", code.memory());
}

#[test]
fn a_constant_is_limited() {
    let mut source = "const a0 = [1, 2, 3]\n".to_owned();
    (1..60).for_each(|n| source.push_str(&format!("const a{n} = [a{}, a{}]\n", n - 1, n - 1)));
    let (code, line, column, message) = error(&(source + "workflow w() { return a59.length }\n"));
    assert_eq!((code, line, column), ("F0009", 20, 13));
    assert_eq!(
        message,
        "the constant is too large: memory limit reached: one value may have 4194304 bytes (4 MiB) as JSON"
    );
    let source = "const s = \"0123456789\"\nconst a = `${s}${s}`\nworkflow w() { return a }";
    assert_eq!(result(&compiled(source)), result(&compiled("workflow w() { return \"01234567890123456789\" }")));
}

#[test]
fn a_script_with_its_constants_is_limited() {
    let spread = "...A, ".repeat(12);
    let source = format!("const A = [{}]\n  const B = [{spread}]\nworkflow w() {{ return B }}", "1,".repeat(50_000));
    let (code, line, column, message) = error(&source);
    assert_eq!((code, line, column), ("F0010", 2, 13));
    assert_eq!(message, "the script with its constants is over 8388608 bytes");
    // Many that are in order one by one.
    let mut source = format!("const A = [{}]\n", "1,".repeat(50_000));
    (0..20).for_each(|n| source.push_str(&format!("const b{n} = [...A, {n}]\n")));
    let (code, line, ..) = error(&(source + "workflow w() { return 1 }"));
    assert_eq!((code, line), ("F0010", 7));
}

#[test]
fn constants_take_only_so_long() {
    let list = "1,".repeat(40_000);
    let mut source = format!("const A = [{list}]\nconst B = [{list}]\n");
    (0..2_000).for_each(|n| source.push_str(&format!("const c{n} = A == B\n")));
    let begin = Instant::now();
    let (code, _, _, message) = error(&(source + "workflow w() { return 1 }"));
    assert_eq!(code, "F0009");
    assert!(message.contains("step limit"), "{message}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn stored_code_that_is_too_large_is_refused() {
    let bytes = vec![1; CODE_BYTES_MAX + 1];
    assert_eq!(Code::decode(&bytes), Err("the code cannot be read: it is too large".to_owned()));
}

#[test]
fn an_error_that_is_kept_often_does_not_expand_without_limit() {
    let source = "workflow w() {\n  let all = []\n  query q() { return all.length }\n  try { await Task.run(\"a\") } catch (e) { all = List.range(3000).map(x => e) }\n  await Task.delay(1)\n}\n";
    let code = compiled(source);
    let first = turn(&code, None, &[started()], &Limits::default(), &mut Unpaced).expect("the turn ends");
    let large = "x".repeat(1 << 20);
    let failure =
        Failure { stack_trace: large.clone(), encoded: Some(Arc::from(large.as_bytes())), ..Failure::default() };
    let event = Event { time: 1, kind: EventKind::TaskEnded { id: "task-1".into(), end: Err(failure) } };
    let second = turn(&code, Some(&first.state), &[event], &Limits::default(), &mut Unpaced).expect("the turn ends");
    assert!(format!("{:?}", second.commands).contains("limit"), "{:?}", second.commands);
    assert!(second.state.len() < 5 << 20);
}

#[test]
fn a_payload_of_small_values_is_limited() {
    let source = "workflow w(x) { return typeof x }";
    let data = format!("[{}{{}}]", "{},".repeat(900_000)).into_bytes();
    let payload = Payload { metadata: vec![("encoding".to_owned(), b"json/plain".to_vec())], data };
    let start = Start { input: vec![payload], ..Start::default() };
    let event = Event { time: 0, kind: EventKind::Started(Box::new(start)) };
    let turned = turn(&compiled(source), None, &[event], &Limits::default(), &mut Unpaced).expect("the turn ends");
    // It stays what it was, unread.
    let wanted: Vec<String> = "\"payload\"".bytes().map(|byte| byte.to_string()).collect();
    assert!(format!("{:?}", turned.commands).contains(&wanted.join(", ")), "{:?}", turned.commands);
}

#[test]
fn looking_into_many_variables_is_bounded() {
    let variables: String = (0..2_000).map(|n| format!("let v{n} = s + \"{n}\"\n")).collect();
    let source = format!(
        "workflow w() {{\n  const s = \"x\".repeat(1900)\n{variables}  await Task.delay(1)\n  return [s]\n}}\n"
    );
    let code = compiled(&source);
    let turned = turn(&code, None, &[started()], &Limits::default(), &mut Unpaced).expect("the turn ends");
    let json = inspect(&code, &turned.state).expect("it can be read").to_json();
    assert!(json.len() < 3 << 20, "{}", json.len());
    assert!(json.contains("\"v0\":") && json.contains("\"v1999\":"));
    assert!(stack(&code, &turned.state).starts_with("at w ("));
}

#[test]
fn a_log_is_bounded_in_a_turn() {
    let source =
        "workflow w() {\n  const s = \"x\".repeat(100000)\n  for (let i = 0; i < 30; i++) log(s)\n  return 1\n}";
    let turned = turn(&compiled(source), None, &[started()], &Limits::default(), &mut Unpaced).expect("the turn ends");
    assert_eq!((turned.log.len(), turned.log_dropped), (10, 20));
}
