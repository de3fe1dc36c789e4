//! Figures of section 11 of the reference that concern the machine alone: a step, a turn, the size of a state, reading
//! code. Run with `cargo run --release -p segno-harness --example flow_figures`.

use std::time::Instant;

use segno_flow::interface::{Event, EventKind, Limits, Payload, Start, TurnResult, Unpaced};
use segno_flow::{Code, check, compile, query, turn, types};

fn code(source: &str) -> Code {
    let program = check(source.as_bytes()).program.expect("the script is right");
    compile(&program, "figures.flow").expect("the script can be compiled")
}

fn json(text: &str) -> Payload {
    Payload { metadata: vec![("encoding".into(), b"json/plain".to_vec())], data: text.as_bytes().to_vec() }
}

fn started(input: &str) -> Event {
    let start = Start {
        workflow_id: "order-4711".into(),
        run_id: "0195c7a2-5b3c-7d10-8f4e-0123456789ab".into(),
        name: "w".into(),
        version: segno_flow::version(b"x"),
        namespace: "default".into(),
        task_queue: "segno-flow".into(),
        attempt: 1,
        started_at: 1_767_225_600_000,
        input: vec![json(input)],
        ..Start::default()
    };
    Event { time: 1_767_225_600_000, kind: EventKind::Started(Box::new(start)) }
}

fn done(id: String, result: &str) -> Event {
    Event { time: 1_767_225_601_000, kind: EventKind::TaskEnded { id, end: Ok(vec![json(result)]) } }
}

fn run(code: &Code, state: Option<&[u8]>, event: Event) -> TurnResult {
    turn(code, state, &[event], &Limits::default(), &mut Unpaced).expect("the turn succeeds")
}

/// The median of the nanoseconds that something takes.
fn median(count: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..count)
        .map(|_| {
            let begin = Instant::now();
            work();
            begin.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[count / 2]
}

fn step(name: &str, source: &str) {
    let code = code(source);
    let steps = run(&code, None, started("null")).steps;
    let time = median(15, || drop(run(&code, None, started("null"))));
    println!("step, {name}: {:.1} ns ({steps} steps)", time / steps as f64);
}

fn main() {
    step("loop over integers", "workflow w() { let n = 0, s = 0; while (n < 100000) { s = s + n * 2; n++ } return s }");
    step(
        "calls",
        "function f(a, b) { return a + b }\nworkflow w() { let s = 0; for (let i = 0; i < 50000; i++) s = f(s, i); return s }",
    );
    step(
        "fields",
        "workflow w() { let o = { a: { b: 1 } }; for (let i = 0; i < 50000; i++) { o.a.b = o.a.b + 1 } return o }",
    );
    step(
        "texts and lists",
        "workflow w() { let l = []; for (let i = 0; i < 50000; i++) { l.push(`x${i}`) } return l.length }",
    );
    step(
        "map and reduce",
        "workflow w() { return List.range(30000).map(x => x * 2).filter(x => x % 3 == 0).reduce((a, b) => a + b, 0) }",
    );
    step(
        "async calls",
        "async function f(x) { return x + 1 }\nworkflow w() { let s = 0; for (let i = 0; i < 20000; i++) s = await f(s); return s }",
    );
    step(
        "errors caught",
        "workflow w() { let s = 0; for (let i = 0; i < 5000; i++) { try { throw \"x\" } catch (e) { s++ } } return s }",
    );

    // A turn with a state of about 1 KiB and about 50 steps.
    let items: Vec<String> = (0..12)
        .map(|n| {
            format!(
                "{{\"sku\":\"article-{n:03}\",\"price\":{},\"count\":2,\"name\":\"a thing of the shop {n}\"}}",
                n * 250
            )
        })
        .collect();
    let input = format!("{{\"id\":7,\"address\":\"1 Main Street\",\"items\":[{}]}}", items.join(","));
    let source = "workflow w(inputs) {\n  let status = \"new\", undo = []\n  query status() { return status }\n  while (true) {\n    const r = await Task.run(\"step\", { id: inputs.id })\n    let sum = 0\n    for (const i of inputs.items.slice(0, 3)) sum += i.price * i.count\n    status = `${r.state} ${sum}`\n  }\n}";
    let code_of_turn = code(source);
    let first = run(&code_of_turn, None, started(&input));
    let second = run(&code_of_turn, Some(&first.state), done("task-1".into(), "{\"state\":\"paid\"}"));
    let time = median(20_001, || {
        drop(run(&code_of_turn, Some(&first.state), done("task-1".into(), "{\"state\":\"paid\"}")));
    });
    println!("turn with {} bytes of state and {} steps: {:.2} us", first.state.len(), second.steps, time / 1e3);
    let time = median(20_001, || {
        let answer = query(&code_of_turn, &first.state, "status", &[], 0, &Limits::default());
        assert!(answer.is_ok());
    });
    println!("query of it: {:.2} us", time / 1e3);

    let small = code(
        "workflow w(inputs) {\n  const name = inputs.name, n = 3\n  const r = await Task.run(\"charge\", { name, n })\n  return [r, n, name]\n}",
    );
    let state = run(&small, None, started("{\"name\":\"Ann\"}")).state;
    println!("state suspended with 3 short variables: {} bytes", state.len());
    let time = median(20_001, || drop(run(&small, Some(&state), done("task-1".into(), "1"))));
    println!("last turn of that: {:.2} us", time / 1e3);
    let time = median(20_001, || drop(run(&small, None, started("{\"name\":\"Ann\"}"))));
    println!("first turn of that: {:.2} us", time / 1e3);

    let many = code("workflow w() { return (await Task.all(List.range(2000).map(i => Task.run(\"sq\", i)))).length }");
    let begin = Instant::now();
    let mut turned = run(&many, None, started("null"));
    println!("2000 tasks, first turn: {:.2} ms, {} bytes", begin.elapsed().as_secs_f64() * 1e3, turned.state.len());
    let events: Vec<Event> = (1..=2000).map(|n| done(format!("task-{n}"), "1")).collect();
    let begin = Instant::now();
    turned = turn(&many, Some(&turned.state), &events, &Limits::default(), &mut Unpaced).expect("the turn succeeds");
    println!(
        "2000 tasks, last turn: {:.2} ms, {} commands",
        begin.elapsed().as_secs_f64() * 1e3,
        turned.commands.len()
    );

    let lines: String = (0..250).map(|n| format!("  x{n} = inputs.a?.b ?? {n}\n  if (x{n} > 3) {{\n    await Task.run(\"t{n}\", {{ n: x{n}, all: [1, 2, x{n}] }})\n  }}\n")).collect();
    let source = format!("workflow w(inputs) {{\n{lines}}}\n");
    let time = median(21, || drop(code(&source)));
    println!("check and compile {} lines: {:.2} ms", source.lines().count(), time / 1e6);
    let deployed = || types::check(source.as_bytes()).program.map(|program| compile(&program, "figures.flow"));
    let time = median(21, || drop(deployed()));
    println!("the same with types: {:.2} ms", time / 1e6);
    let bytes = code(&source).encode();
    let time = median(101, || drop(Code::decode(&bytes)));
    println!("read its code, {} bytes: {:.1} us", bytes.len(), time / 1e3);
}
