//! Statements and expressions as the compiler makes them: scopes, loops, `try`, destructuring, paths.

use super::Run;

#[track_caller]
fn gives(body: &str, want: &str) {
    let (_, commands) =
        Run::start(&format!("workflow w(inputs) {{\n{body}\n}}"), &["{\"a\":{\"b\":1},\"list\":[1,2,3]}"]);
    assert_eq!(commands.last().unwrap(), &format!("complete {want}"), "{body}");
}

#[track_caller]
fn fails(body: &str, want: &str) {
    let (_, commands) =
        Run::start(&format!("workflow w(inputs) {{\n{body}\n}}"), &["{\"a\":{\"b\":1},\"list\":[1,2,3]}"]);
    assert_eq!(commands.last().unwrap(), &format!("fail {want}"), "{body}");
}

#[test]
fn loops_break_and_continue() {
    gives(
        "let s = 0\nfor (let i = 0; i < 10; i++) { if (i == 3) continue\n if (i == 6) break\n s += i }\nreturn s",
        "12",
    );
    gives("let s = \"\"\nfor (const c of \"aé👍\") s = c + s\nreturn s", "\"👍éa\"");
    gives("let s = []\nfor (const [a, { b = 5 }] of [[1, {}], [2, { b: 3 }]]) s.push(a * b)\nreturn s", "[5,6]");
    gives(
        "let n = 0\nwhile (true) { n++\n for (const x of [1, 2, 3]) { if (x == 2) break\n n += 10 }\n if (n > 30) break }\nreturn n",
        "33",
    );
    gives("let x = [1, 2]\nfor (const y of x) x.push(y)\nreturn x", "[1,2,1,2]");
    gives("let n = 0\nfor (;;) { n++\n if (n == 4) return n }", "4");
    fails(
        "for (const x of inputs) log(x)",
        "TypeError: for … of takes a list or a string, not object; use Object.entries",
    );
}

#[test]
fn switch_has_no_fall_through() {
    let body = |x: &str| {
        format!(
            "let out = []\nfor (const x of [{x}]) {{\n switch (x) {{\n case 1: out.push(\"one\")\n default: out.push(\"other\")\n case 2: case \"b\": out.push(\"two\")\n break\n case {{ k: 1 }}: {{ out.push(\"object\") }}\n }}\n}}\nreturn out"
        )
    };
    gives(&body("1, 2, 3, \"b\", { k: 1 }"), "[\"one\",\"two\",\"other\",\"two\",\"object\"]");
    gives(
        "let n = 0\nfor (const x of [1, 2, 3]) { switch (x) { case 2: continue\n case 3: break }\n n += x }\nreturn n",
        "4",
    );
    gives("switch (5) { case 5: return 1 }\nreturn 2", "1");
    // `;` is no statement, here as elsewhere.
    gives("switch (5) { case 5: ; case 6: return 1 }\nreturn 2", "1");
}

#[test]
fn try_catch_and_finally() {
    gives(
        "let t = []\nfunction f(n) { try { if (n == 1) throw \"x\"\n if (n == 2) return \"r\"\n t.push(\"body\") } catch (e) { t.push(e.message)\n return \"c\" } finally { t.push(\"f\") }\n return \"end\" }\nreturn [f(0), f(1), f(2), t]",
        "[\"end\",\"c\",\"r\",[\"body\",\"f\",\"x\",\"f\",\"f\"]]",
    );
    gives(
        "let t = []\nfor (const x of [1, 2, 3]) { try { if (x == 1) continue\n if (x == 2) break } finally { t.push(x) } }\nreturn t",
        "[1,2]",
    );
    gives(
        "let t = []\ntry { try { try { throw \"a\" } finally { t.push(1) } } finally { t.push(2) } } catch (e) { t.push(e.message) }\nreturn t",
        "[1,2,\"a\"]",
    );
    gives(
        "let t = []\nwhile (true) { try { while (true) { try { break } finally { t.push(\"i\") } }\n break } finally { t.push(\"o\") } }\nreturn t",
        "[\"i\",\"o\"]",
    );
    gives("try { try { throw \"a\" } finally { throw \"b\" } } catch (e) { return e.message }", "\"b\"");
    gives(
        "try { try { throw \"a\" } catch (e) { throw e.message + \"b\" } finally { log(\"f\") } } catch (e) { return e.message }",
        "\"ab\"",
    );
    gives("function f() { try { return 1 } finally { try { throw 2 } catch { log(\"in\") } } }\nreturn f()", "1");
    gives(
        "try { throw { message: \"m\", type: \"T\", extra: 5 } } catch (e) { return [e.type, e.extra, e.retryable, e.cause] }",
        "[\"T\",5,true,null]",
    );
    gives("try { throw [1, 2] } catch (e) { return [e.type, e.message, e.details] }", "[\"Error\",\"[1,2]\",[1,2]]");
    fails("throw Error(\"m\", { type: \"T\", cause: Error(\"c\") })", "T: m");
}

#[test]
fn finally_with_awaits() {
    let source = "workflow w() {\n  for (const x of [1, 2]) {\n    try { if (x == 1) continue\n return await Task.run(\"a\", x) } finally { await Task.run(\"clean\", x) }\n  }\n}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["task task-1 clean 1"]);
    assert_eq!(run.done("task-1", "0"), ["task task-2 a 2"]);
    assert_eq!(run.done("task-2", "\"r\""), ["task task-3 clean 2"]);
    assert_eq!(run.done("task-3", "0"), ["complete \"r\""]);
}

#[test]
fn destructuring_and_defaults() {
    gives(
        "let { a: { b }, list: [x, , y] = [], ...rest } = { ...inputs, z: 1 }\nreturn [b, x, rest]"
            .replace("[x, , y]", "[x, q, y]")
            .as_str(),
        "[1,1,{\"z\":1}]",
    );
    gives("const [p, q = 9, ...rest] = [1]\nreturn [p, q, rest]", "[1,9,[]]");
    gives("const { m = 1, n = 2 } = { m: null, n: 3 }\nreturn [m, n]", "[1,3]");
    gives(
        "function f({ a, b = a + 1 }, [c] = [5], d = c) { return [a, b, c, d] }\nreturn [f({ a: 1 }), f({ a: 1, b: 2 }, [3], 4)]",
        "[[1,2,5,5],[1,2,3,4]]",
    );
    fails(
        "const { missing } = inputs\nreturn missing",
        "FieldError: no field \"missing\" (write ?.missing if it may be missing)",
    );
    fails("const [x, y] = [1]\nreturn [x, y]", "IndexError: index 1 is outside of a list of 1");
    fails("const { x } = null\nreturn x", "TypeError: cannot read \"x\" of null");
    fails("const [...x] = 5\nreturn x", "TypeError: cannot take number apart as a list");
}

#[test]
fn paths() {
    gives(
        "let o = { a: [{ n: 1 }], b: {} }\no.a[0].n += 5\no.b.new = 1\no[\"c\"] = [0]\no.c[0] = 7\no.a[0].k ??= 3\no.a[0].k ??= 4\ndelete o.b.none\ndelete o.b.new\no.a.push({ n: 2 })\nreturn o",
        "{\"a\":[{\"n\":6,\"k\":3},{\"n\":2}],\"b\":{},\"c\":[7]}",
    );
    gives("let x = [1], y = x, o = { x }\ny.push(2)\no.x.push(3)\nreturn [x, y, o.x]", "[[1],[1,2],[1,3]]");
    gives("let o = { l: [1, 2, 3] }\nreturn [o.l.pop(), o.l.shift(), o.l.unshift(9, 8), o.l]", "[3,1,3,[9,8,2]]");
    fails("let o = {}\no.a.b = 1", "FieldError: no field \"a\" (write ?.a if it may be missing)");
    fails("let x = [1]\nx[1] = 2", "IndexError: index 1 is outside of a list of 1");
    fails("let x = null\nx.f = 2", "TypeError: cannot read \"f\" of null");
    fails("let x = { n: 5 }\nx.n.push(1)", "TypeError: a number has no function \"push\"");
    gives(
        "let i = 0\nlet l = [[0, 0], [0, 0]]\nfunction next() { i++\n return i - 1 }\nl[next()][next()] = 5\nreturn [l, i]",
        "[[[0,5],[0,0]],2]",
    );
}

#[test]
fn chains_and_defaults() {
    gives("const n = null\nreturn [n?.a.b.c, n?.[0].x, n?.f, inputs?.a?.none, inputs.a.b ?? 7, inputs.a.c ?? 7, inputs.none?.deep ?? 1]".replace("inputs.none?.deep", "inputs?.none?.deep").as_str(), "[null,null,null,null,1,7,1]");
    gives(
        "const s = \"abc\", n = null\nreturn [n?.slice(1).length, s?.slice(1), s.slice(1)?.length]",
        "[null,\"bc\",2]",
    );
    gives("let a = null\na ??= 5\na ??= 6\nreturn a", "5");
    gives("return [true && 1, null || \"x\".length, false || null, null ?? false ?? 3]", "[1,1,null,false]");
    fails("return inputs.none ?? inputs.a.none.x", "FieldError: no field \"none\" (write ?.none if it may be missing)");
}

#[test]
fn closures_in_loops() {
    gives(
        "let fs = []\nfor (let i = 0; i < 3; i++) { const k = i\n fs = [...fs, ...[1].map(x => { i += 10\n return i + k })]\n i -= 10 }\nreturn fs",
        "[10,12,14]",
    );
    gives(
        "let n = 0\nfunction up() { n++\n return n }\nconst a = [1, 2, 3].map(x => x + up())\nreturn [a, n]",
        "[[2,4,6],3]",
    );
    gives(
        "function even(n) { return n == 0 ? true : odd(n - 1) }\nfunction odd(n) { return n == 0 ? false : even(n - 1) }\nreturn [even(10), even(7)]",
        "[true,false]",
    );
}

#[test]
fn functions_of_lists() {
    gives("return [3, 1, 2].sort((a, b) => b - a)", "[3,2,1]");
    gives(
        "return [{ k: 1, v: \"a\" }, { k: 0, v: \"b\" }, { k: 1, v: \"c\" }, { k: 0, v: \"d\" }].sort((x, y) => x.k - y.k).map(x => x.v).join(\"\")",
        "\"bdac\"",
    );
    gives(
        "return [[1, 2, 3].filter(x => x != 2), [1, 2].find(x => x > 1), [1].find(x => x > 1), [5].findIndex(x => x == 5), [1].some(x => x == 2), [].every(x => false), [1, 2].flatMap((x, i) => [x, i])]",
        "[[1,3],2,null,0,false,true,[1,0,2,1]]",
    );
    gives("return [1, 2, 3].reduce((s, x, i) => s + x * i, 100)", "108");
    fails("return [1, 2].filter(x => x)", "TypeError: a number is not a condition; compare it, for example x != 0");
    fails("return [2, 1].sort((a, b) => a > b)", "TypeError: sort: the function must give a number, not boolean");
    gives("let seen = 0\ntry { [1, 2, 3].map(x => { seen++\n if (x == 2) throw \"stop\"\n return x }).length == 0 } catch (e) { return [seen, e.message] }".replace("]\n.length", "").replace("}).length == 0 }", "}).join(\"\") }").replace("try { [1", "try { return [1").as_str(), "[2,\"stop\"]");
    gives("const f = x => x * 2\nreturn 1".replace("const f = x => x * 2\n", "").as_str(), "1");
}

#[test]
fn constants() {
    let source = "const A = 2, B = A * 3\nworkflow w() { return 1 }"
        .replace("const A = 2, B = A * 3", "const A = 2\nconst B = [A * 3, { k: `x${A}` }]\nconst BAD = 1 / (A - 2)");
    let source = source.replace(
        "return 1",
        "let b = B\n  b.push(1)\n  try { return BAD } catch (e) { return [A, B, b, e.type, e.message] }",
    );
    let (_, commands) = Run::start(&source, &[]);
    assert_eq!(commands, ["complete [2,[6,{\"k\":\"x2\"}],[6,{\"k\":\"x2\"},1],\"NumberError\",\"division by zero\"]"]);
}
