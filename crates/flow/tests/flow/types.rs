//! Types: what is refused and really fails, what is not refused, and what hover shows.

use std::time::{Duration, Instant};

use segno_flow::diagnostic::Position;
use segno_flow::types;

use crate::machine::Run;

/// Lines of the script below.
const BEFORE: &str = "async function later(x) { await Task.delay(1); return x }\nworkflow w(inputs) {\n";

fn script(body: &str) -> String {
    format!("{BEFORE}{body}\n}}\n")
}

/// `line:column code message` of each error.
fn errors(source: &str) -> Vec<String> {
    let found = types::check(source.as_bytes()).diagnostics;
    let errors = found.iter().filter(|one| one.code < "F0900");
    errors.map(|one| format!("{}:{} {} {}", one.start.line, one.start.column, one.code, one.message)).collect()
}

/// The error of a run, with the place where it was raised. It gets tasks that give 1 and time that passes.
fn failure(source: &str) -> String {
    let mut run = Run::untyped(source);
    let mut commands = run.begin(&["{\"n\":1}"]);
    for number in 1..4 {
        if commands.iter().any(|command| command.starts_with("fail") || command.starts_with("complete")) {
            break;
        }
        commands = run.fired(&format!("timer-{number}"));
    }
    let place = run.failed_at().unwrap_or_default();
    format!("{place} {}", commands.last().cloned().unwrap_or_default())
}

/// Each rule: the body of a script, the error with its place (the third line is the first one of the body), and the error
/// at run time. The place at run time is the same, or for arguments and patterns the same line.
const RULES: &[(&str, &str, &str)] = &[
    // Conditions.
    ("const xs = [1]\nif (xs.length) log(xs)", "4:8 F0218 this can never be a condition", "4:8 TypeError"),
    (
        "let n = 0\nfor (const x of [1]) n = x\nwhile (n) n = 1",
        "5:8 F0218 this can never be a condition",
        "5:8 TypeError",
    ),
    ("const s = \"a\"\nreturn s ? 1 : 2", "4:8 F0218 this can never be a condition", "4:8 TypeError"),
    ("const xs = [inputs]\nreturn !xs", "4:9 F0218 this can never be a condition", "4:8 TypeError"),
    ("const n = 1\nreturn n && true", "4:8 F0218 this can never be a condition", "4:8 TypeError"),
    ("const n = 1\nreturn n + 1 || true", "4:10 F0218 this can never be a condition", "4:10 TypeError"),
    ("const p = Task.delay(1)\nif (p) log(\"p\")", "4:5 F0218 this can never be a condition", "4:5 TypeError"),
    ("const xs = [1]\nreturn xs.filter(x => x % 2)", "4:25 F0218 this can never be a condition", "4:11 TypeError"),
    ("return [\"\"].some((x, i) => { return i })", "3:37 F0218 this can never be a condition", "3:13 TypeError"),
    (
        "function even(n) { return 2 }\nreturn [1].filter(even)",
        "4:12 F0218 this can never be a condition",
        "4:12 TypeError",
    ),
    // Operators.
    ("return \"a\" + null", "3:12 F0301 cannot add string and null", "3:12 TypeError"),
    ("return [1] + [2]", "3:12 F0301 cannot add list and list", "3:12 TypeError"),
    ("let s = \"a\"\ns -= 1", "4:1 F0301 - takes numbers, not string", "4:1 TypeError"),
    ("return 2 * inputs.n / { a: 1 }", "3:21 F0301 / takes numbers, not object", "3:21 TypeError"),
    ("return -\"1\"", "3:8 F0301 - takes numbers, not string", "3:8 TypeError"),
    ("return 1 < \"2\"", "3:10 F0301 cannot compare number and string", "3:10 TypeError"),
    ("return Time.now() > 5", "3:19 F0301 cannot compare string and number", "3:19 TypeError"),
    ("return \"a\" in [\"a\"]", "3:12 F0301 in takes a string and an object, not string and list", "3:12 TypeError"),
    ("return Task.run(\"a\") + 1", "3:22 F0301 cannot add promise and number", "3:22 TypeError"),
    // Arguments.
    ("return Math.abs(\"1\")", "3:17 F0302 Math.abs: x must be a number, not string", "3: ArgumentError"),
    ("const n = 5\nTask.run(n)", "4:10 F0302 Task.run: name must be a string, not number", "4: ArgumentError"),
    ("return \"a\".repeat(\"2\")", "3:19 F0302 repeat: times must be a number, not string", "3: ArgumentError"),
    (
        "const o = \"x\"\nTask.run(\"a\", 1, o)",
        "4:18 F0302 Task.run: options must be an object, not string",
        "4: ArgumentError",
    ),
    ("return [1].join(1)", "3:17 F0302 join: separator must be a string, not number", "3: ArgumentError"),
    ("return \"abc\".includes(1)", "3:23 F0302 includes: part must be a string, not number", "3: ArgumentError"),
    ("return Object.keys([1])", "3:20 F0302 Object.keys: object must be an object, not list", "3: ArgumentError"),
    ("return await Task.all([1])", "3:23 F0302 Task.all: an item is a number, not a promise", "3: ArgumentError"),
    (
        "return await Task.all({ a: Task.delay(1), b: 2 })",
        "3:23 F0302 Task.all: item \"b\" is a number, not a promise",
        "3: ArgumentError",
    ),
    (
        "return await Task.race(Task.delay(1))",
        "3:24 F0302 Task.race: items must be a list or an object of promises, not promise",
        "3: ArgumentError",
    ),
    (
        "return [2, 1].sort((a, b) => a > b)",
        "3:32 F0302 sort: the function must give a number, not boolean",
        "3: TypeError",
    ),
    (
        "return Math.max(\"1\")",
        "3:17 F0302 Math.max: numbers must be a number, or a list of numbers, not string",
        "3: ArgumentError",
    ),
    ("throw Error(1)", "3:13 F0302 Error: message must be a string, not number", "3: ArgumentError"),
    // Fields, elements and functions of values.
    (
        "const o = { total: 1 }\nreturn o.totl",
        "4:10 F0303 no field \"totl\" (write ?.totl if it may be missing)",
        "4:10 FieldError",
    ),
    ("const n = 1\nreturn n.foo", "4:10 F0303 a number has no field \"foo\"", "4:10 TypeError"),
    ("let x = null\nreturn x.foo", "4:10 F0303 cannot read \"foo\" of null", "4:10 TypeError"),
    ("return Task.run(\"a\").name", "3:22 F0303 this is a promise; await it first", "3:22 TypeError"),
    ("const p = later(1)\nreturn p.trim()", "4:10 F0303 this is a promise; await it first", "4:10 TypeError"),
    ("const n = 1\nreturn n.trim()", "4:10 F0303 a number has no function \"trim\"", "4:10 TypeError"),
    ("return \"a\".map(x => x)", "3:12 F0303 a string has no function \"map\"", "3:12 TypeError"),
    ("let s = \"a\"\ns.push(1)", "4:3 F0303 a string has no function \"push\"", "4:3 TypeError"),
    ("return [1][\"0\"]", "3:11 F0303 a list index must be a whole number, not string", "3:11 TypeError"),
    ("return { a: 1 }[0]", "3:16 F0303 a key must be a string, not number", "3:16 TypeError"),
    ("return { [1]: 2 }", "3:11 F0303 a key must be a string, not number", "3:11 TypeError"),
    ("let n = 1\nn.f = 2", "4:1 F0303 a number has no field \"f\"", "4:1 TypeError"),
    ("return Time.parts(Time.now()).day.name", "3:35 F0303 a number has no field \"name\"", "3:35 TypeError"),
    ("return \"a,b\".split(\",\").map(x => x.name)", "3:36 F0303 a string has no field \"name\"", "3:36 TypeError"),
    ("const [a] = \"x\".split(\",\")\nreturn a.name", "4:10 F0303 a string has no field \"name\"", "4:10 TypeError"),
    ("const { n = 1 } = { n: null }\nreturn n.name", "4:10 F0303 a number has no field \"name\"", "4:10 TypeError"),
    (
        "try { throw \"x\" } catch (e) { return e.message.text }",
        "3:48 F0303 a string has no field \"text\"",
        "3:48 TypeError",
    ),
    ("try { return null.x } finally { log(1) }", "3:19 F0303 cannot read \"x\" of null", "3:19 TypeError"),
    // What has no parts.
    ("for (const x of { a: 1 }) log(x)", "3:17 F0304 for … of takes a list or a string, not object", "3:17 TypeError"),
    ("const n = 1\nreturn [...n]", "4:12 F0304 cannot spread number into a list", "4:12 TypeError"),
    ("const xs = [1]\nreturn { ...xs }", "4:13 F0304 cannot spread list into an object", "4:13 TypeError"),
    ("const [a] = 1\nreturn a", "3:7 F0304 cannot take number apart as a list", "3: TypeError"),
    ("const { ...rest } = [1]\nreturn rest", "3:7 F0304 cannot take list apart as an object", "3: TypeError"),
    // Promises.
    ("await [Task.delay(1)]", "3:1 F0305 await takes one promise; use Task.all for a list", "3:1 TypeError"),
    ("return `${Task.delay(1)}`", "3:11 F0305 a promise cannot be sent; await it first", "3: TypeError"),
    ("Task.run(\"a\", Task.delay(1))", "3:15 F0305 a promise cannot be sent; await it first", "3: TypeError"),
    // Through functions of the script.
    (
        "function name() { return \"x\" }\nif (name()) log(\"x\")",
        "4:5 F0218 this can never be a condition",
        "4:5 TypeError",
    ),
    (
        "const x = await later(1)\nconst t = typeof x\nif (t) log(t)",
        "5:5 F0218 this can never be a condition",
        "5:5 TypeError",
    ),
];

#[test]
fn what_is_refused_fails_at_that_place() {
    for (body, refused, failed) in RULES {
        let source = script(body);
        assert_eq!(errors(&source), [*refused], "{body}");
        let failure = failure(&source);
        let (place, kind) = failed.split_once(' ').unwrap();
        assert!(failure.starts_with(place) && failure.contains(&format!("fail {kind}: ")), "{body}: {failure}");
        assert_eq!(place.split(':').next(), refused.split(':').next(), "{body}");
        // It is no error of its own: without types the script is accepted, as stored ones are.
        assert!(segno_flow::check(source.as_bytes()).program.is_some(), "{body}");
    }
}

#[test]
fn conditions_of_waits_are_refused() {
    // At run time the promise fails, and its `await` throws.
    let source = script("const s = \"a\"\nawait wait_until(() => s)");
    assert_eq!(errors(&source), ["4:24 F0218 this can never be a condition"]);
    assert!(failure(&source).contains("fail TypeError: a string is not a condition"));
}

#[test]
fn hints_say_what_to_write() {
    for (body, hint) in [
        ("const xs = [1]\nif (xs.length) log(xs)", "a number is not a condition; compare it, for example x != 0"),
        ("const s = \"a\"\nif (s) log(s)", "a string is not a condition; compare it, for example s != \"\""),
        ("const xs = [1]\nif (xs) log(xs)", "a list is not a condition; compare it, for example list.length > 0"),
        ("if (Task.delay(1)) log(1)", "a promise is not a condition; await it"),
        ("const o = { total: 1 }\nreturn o.totl", "did you mean \"total\"?"),
        ("return Task.run(\"a\") + 1", "await it first"),
        ("return \"2\" * 1", "write Number(text)"),
        ("return [1] + 2", "write [...list, x], or list.concat(other)"),
        ("return \"a\" in [\"a\"]", "write list.includes(x)"),
        ("for (const x of { a: 1 }) log(x)", "write Object.entries(x), Object.keys(x) or Object.values(x)"),
        ("for (const x of 3) log(x)", "write List.range(n)"),
        ("return [2, 1].sort((a, b) => a > b)", "write a - b, or a < b ? -1 : 1"),
    ] {
        let found = types::check(script(body).as_bytes()).diagnostics;
        assert_eq!(found.first().and_then(|one| one.hint.as_deref()), Some(hint), "{body}");
    }
}

/// Bodies that run to their end, or fail for another reason than a type: none is refused.
const ACCEPTED: &[&str] = &[
    // What is not known.
    "if (inputs.n) log(inputs.m)",
    "const r = await Task.run(\"a\")\nif (r) log(r.x + r.y)",
    "const s = await wait_for_signal(\"s\")\nreturn s.a * JSON.parse(s.b)",
    "for (const x of inputs) log(x.name)",
    // Null is a condition.
    "let found = null\nfor (const x of inputs.list) found = x\nif (found) log(found)",
    "let found\nif (inputs.n) found = 5\nreturn found ?? 1",
    // Narrowing.
    "let x = null\nif (inputs.n) x = \"a\"\nif (x != null) return x.trim()",
    "const limit = null\nif (limit != null) return limit.x",
    "const limit = null\nreturn limit == null ? 0 : limit.x",
    "const o = { limit: null }\nif (o.limit != null && o.limit.x > 1) log(\"x\")",
    "const o = { limit: null }\nif (o.limit) log(o.limit.x)",
    "const o = { a: 1 }\nif (o?.b) log(o.b)",
    "const o = { a: 1 }\nif (\"b\" in o) log(o.b)",
    "const x = 1\nif (typeof x == \"string\") return x.trim()",
    "const x = 1\nswitch (typeof x) {\ncase \"string\": return x.trim()\ncase \"number\": return x + 1\n}",
    "const x = 1\nswitch (typeof x) {\ncase \"number\": return x\ndefault: return x.trim()\n}",
    "const x = null\nswitch (x) {\ncase null: return 1\ndefault: return x.a\n}",
    "const x = 1\nreturn typeof x != \"string\" || x.trim() == \"\"",
    "const DEBUG = false\nif (DEBUG) log(null.x)",
    "const n = null\nreturn n?.a.b.c.trim()",
    "const n = null\nreturn [n?.trim(), n?.[1], n ?? 5]",
    "const xs = []\nfor (const x of xs) log(x.a.b)\nreturn xs.map(x => x.y).filter(x => x.z)",
    // Variables that change.
    "let x = 1\nx = \"a\"\nreturn x.trim()",
    "let x = null\nwhile (inputs.n) { if (x) log(x.y)\nx = await Task.run(\"a\") }",
    "let x = \"\"\nfunction set() { x = { a: 1 } }\nset()\nreturn x.a",
    "let x = \"\"\nsignal set(v) { x = v }\nawait Task.delay(1)\nreturn x.a",
    "let o = { a: 1 }\no.b = 2\nreturn o.b",
    "let o = {}\nfor (const k of inputs.keys) o[k] = 1\nreturn o.total",
    "let o = { a: null }\no.a = { b: 1 }\nreturn o.a.b",
    "let xs = []\nxs.push({ a: 1 })\nreturn xs[0].a",
    "let p = Task.run(\"a\")\np = await p\nreturn p.x",
    "let x = 1\ntry { x = await Task.run(\"a\") } catch (e) { log(x.y ?? e.type) }",
    "let x = 1\ntry { x = null\nx = await Task.run(\"a\") } finally { log(x == null || x.y) }",
    "let x = 1\nfor (;;) { if (inputs.n) { x = \"a\"\nbreak }\nx = \"b\"\nbreak }\nreturn x.trim()",
    "let x = 1\nswitch (inputs.n) {\ncase 1: if (inputs.m) break\nx = \"a\"\ndefault: x = \"b\"\n}\nreturn typeof x == \"string\" ? x.trim() : x + 1",
    "let x\nif (inputs.n) { x = 1 } else { return }\nreturn x + 1",
    "for (let i = 0; i < 3; i++) { let x\nif (i > 0) x = i\nif (x != null) log(x + 1) }",
    // Promises and ids.
    "const t = Task.delay(1)\nconst r = await Task.race([t])\nreturn r.item_id == t && r.status == \"completed\"",
    "const ps = [1, 2].map(async x => await later(x))\nreturn (await Task.all(ps)).length",
    "const { a, b } = await Task.all({ a: Task.run(\"a\"), b: later(2) })\nreturn a.x + b",
    "const r = await Task.any([Task.run(\"a\")])\nif (r.result) log(r.result.x)",
    "return await (inputs.n ? Task.run(\"a\") : 5)",
    "return await Task.timeout(Task.run(\"a\"), \"1m\")",
    // The library with null for what may be left out.
    "return [[1].join(null), \"a\".slice(null, null), \"a\".padEnd(3, null), Math.round(1.5, null)]",
    "Task.run(\"a\", null, null)\nreturn await Task.any([Task.delay(1)], null)",
    "return [[1, \"a\", null].includes(\"a\"), [1].indexOf(\"x\"), \"abc\".at(0), [1].at(0) + 1]",
    "return [1, 2].reduce((all, x) => ({ ...all, [`k${x}`]: x }), {}).k1",
    "return [[1, 2]].flatMap(x => x).map(x => x + 1)",
    "const [[k, v]] = Object.entries(inputs)\nreturn k.trim() + v.x",
    "return Workflow.info().parent?.run_id ?? Workflow.info().memo.x",
    // Errors that are no errors of types.
    "return [1 / 0, [1][5], Math.sqrt(-1), Number(\"x\")]",
    "try { throw { message: \"m\", type: 5, code: 7 } } catch (e) { return e.type + e.code }",
    // Errors that are caught, perhaps on purpose.
    "try { return null.x } catch (e) { return e.type }",
    "try { log([1].map(x => x.y)) } catch { log(\"caught\") } finally { log(\"done\") }",
    // Code that is never reached.
    "return 1\nfunction f() { return g().x }\nfunction g() { return f() }",
    "const f = false\nreturn f && f.x.y",
    "while (true) { if (inputs.n) return 1 }",
];

#[test]
fn what_may_work_is_accepted() {
    for body in ACCEPTED {
        let source = script(body);
        assert_eq!(errors(&source), [] as [&str; 0], "{body}");
    }
}

#[test]
fn examples_of_the_reference_are_accepted() {
    for (name, source) in crate::format::examples() {
        let is_test = name.ends_with("_test.flow");
        let checked = if is_test { types::check_test(source.as_bytes()) } else { types::check(source.as_bytes()) };
        assert!(checked.program.is_some(), "{name}: {:?}", checked.diagnostics);
    }
}

#[test]
fn signatures_are_documented() {
    use segno_flow::library::{Function, Method};
    let functions = Function::ALL.iter().map(|function| function.signature());
    for signature in functions.chain(Method::ALL.iter().map(|method| method.signature())) {
        assert!(signature.doc.len() > 8 && !signature.doc.contains('\n'), "{}", signature.name);
        assert!(signature.to_string().starts_with(&format!("{}(", signature.name)));
    }
    let shown = |name: &str| Function::named(name).unwrap().signature().to_string();
    assert_eq!(shown("Task.run"), "Task.run(name: string, input?, options?: object) → promise");
    assert_eq!(shown("Time.add"), "Time.add(time: time, span: duration or object, zone?: time zone) → string");
    assert_eq!(shown("Test.start"), "Test.start(...inputs) → null");
    let pop = Method::named("pop").unwrap().signature().to_string();
    assert_eq!(pop, "pop() → element or null");
}

/// The place above a `^`.
fn place(source: &str) -> Position {
    let (line, text) = source.lines().enumerate().find(|(_, line)| line.contains('^')).unwrap();
    Position { line: line as u32, column: text.find('^').unwrap() as u32 + 1 }
}

#[test]
fn hover_shows_types() {
    for (body, shown) in [
        ("let total = 0\n//  ^\nreturn total", "number"),
        ("const names = [\"a\"]\nreturn names\n//      ^", "list of strings"),
        ("return inputs.x\n//      ^", "unknown"),
        ("const o = { id: 1, tags: [] }\nreturn o\n//     ^", "object with id, tags"),
        ("const o = { id: 1, tags: [] }\nreturn o.tags\n//         ^", "empty list"),
        ("const t = Task.run(\"a\")\nreturn t.id\n//     ^", "promise"),
        ("return \"a\".split(\",\")\n//          ^", "list of strings"),
        ("let x = null\nif (inputs.n) x = 1\nreturn x\n//     ^", "number or null"),
        ("const n = wait_until(() => true)\nreturn await n\n//           ^", "promise of boolean"),
        ("return 1 + 2 == 3\n//           ^", "boolean"),
        ("const größe = 1, y = größe\nlog(größe, y)\n//      ^", "number"),
    ] {
        let source = script(body);
        let at = place(&source);
        let without = source.lines().filter(|line| !line.contains('^')).collect::<Vec<_>>().join("\n");
        let checked = types::check(without.as_bytes());
        let found = checked.types.at(at).map(ToString::to_string);
        assert_eq!(found.as_deref(), Some(shown), "{body} {at:?}");
    }
    // Also where the source has errors elsewhere, and nothing between tokens.
    let broken = types::check(script("const n = 1\nlog(zzz)\nreturn n").as_bytes());
    assert_eq!(broken.types.at(Position { line: 5, column: 8 }).map(ToString::to_string).as_deref(), Some("number"));
    assert!(broken.types.at(Position { line: 5, column: 7 }).is_none());
    assert!(broken.types.at(Position { line: 99, column: 1 }).is_none());
    assert_eq!(broken.diagnostics.len(), 1);
}

#[test]
fn hostile_sources_take_little_time() {
    let repeated = |line: &str, count: usize| script(&line.repeat(count));
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        script(&format!("let x = 1\n{}{inner}{}", open.repeat(depth), close.repeat(depth)))
    };
    let sources = [
        repeated("let x = 1\n{ let x = { a: 1 } }\n", 1),
        format!("{BEFORE}let x = {{}}\n{}}}", "x = { a: x, b: x, c: x }\n".repeat(9_000)),
        format!("{BEFORE}let x = {{}}\n{}}}", "if (inputs.a) x = { a: x, b: [x] }\n".repeat(6_000)),
        format!("{BEFORE}let x = 1\nreturn x{}\n}}", " + x".repeat(60_000)),
        format!("{BEFORE}let x = true\nreturn x{}\n}}", " && x".repeat(50_000)),
        format!("{BEFORE}let x = null\nreturn x{}\n}}", " ?? x".repeat(50_000)),
        format!("{BEFORE}let x = null\nreturn x{}\n}}", "?.a".repeat(80_000)),
        format!("{BEFORE}return inputs{}\n}}", ".map(x => x)".repeat(20_000)),
        format!("{BEFORE}let x = 1\nif (x == 1) log(x){}\n}}", "\nelse if (x == 1) log(x)".repeat(9_000)),
        format!("{BEFORE}let x = 1\nreturn x == 1 ? 1{} : 2\n}}", " : x == 1 ? 1".repeat(15_000)),
        format!("{BEFORE}{}}}", (0..9_000).map(|n| format!("let v{n} = {{ a: 1 }}\n")).collect::<String>()),
        format!("{BEFORE}{}}}", (0..6_000).map(|n| format!("let w{n}\nif (inputs.a) w{n} = 1\n")).collect::<String>()),
        format!(
            "{BEFORE}let o = {{ {} }}\n{}}}",
            (0..900).map(|n| format!("k{n}: 1,")).collect::<String>(),
            "o = inputs.a ? o : o\n".repeat(9_000)
        ),
        format!("{BEFORE}let é = {{}}; {}\n}}", "é = { é: [é] };".repeat(10_000)),
        format!(
            "{}{BEFORE}return f0()\n}}",
            (0..4_000).map(|n| format!("function f{n}() {{ return f{}() }}\n", (n + 1) % 4_000)).collect::<String>()
        ),
        nested("while (inputs.a) {\n", "x = 2", "\n}", 95),
        nested("try {\n", "x = 2", "\n} finally { x = 3 }", 95),
        nested("for (const y of [x]) {\n", "x = [y]", "\n}", 95),
        nested("if (x == 1) {\n", "x = 2", "\n} else { x = 3 }", 95),
        nested("log([1].map(y => {\n", "x = 2", "\nreturn x }))", 30),
        nested("x = (", "x", ")", 95),
        nested("log(!(x == 1 && ", "true", "))", 45),
    ];
    for source in sources {
        let source: String = source.chars().take(262_000).collect();
        let start = Instant::now();
        let plain = segno_flow::check(source.as_bytes());
        let without = start.elapsed();
        let start = Instant::now();
        let _ = types::check(source.as_bytes());
        let with = start.elapsed();
        let shown: String = source.chars().skip(BEFORE.len()).take(80).collect();
        assert!(with < without * 5 + Duration::from_secs(2), "{with:?}, without types {without:?}: {shown}");
        assert!(plain.diagnostics.len() <= 50);
    }
}
