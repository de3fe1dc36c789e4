//! Rows of the tables of the reference about values, numbers, texts, times, JSON, payloads and errors.

use segno_flow::hir::{Access, Binary};
use segno_flow::library::{self, Function, Method};
use segno_flow::pure::{self, Cost, duration, error, json, options, payload, random::Random, time};
use segno_flow::value::{Kind, LanguageError, Value};

fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn show(result: Result<Value, LanguageError>) -> String {
    match result {
        Ok(Value::Payload(payload)) => format!("payload {payload:?}"),
        Ok(value) => json::write(&value, &mut Cost::default()).unwrap(),
        Err(raised) => format!("{}: {}", raised.kind.name(), raised.message),
    }
}

fn operator(symbol: &str) -> Binary {
    match symbol {
        "+" => Binary::Add,
        "-" => Binary::Subtract,
        "*" => Binary::Multiply,
        "/" => Binary::Divide,
        "%" => Binary::Remainder,
        "==" => Binary::Equal,
        "!=" => Binary::NotEqual,
        "<" => Binary::Less,
        "<=" => Binary::LessOrEqual,
        ">" => Binary::Greater,
        ">=" => Binary::GreaterOrEqual,
        "in" => Binary::In,
        other => panic!("{other}"),
    }
}

fn binary(left: &str, symbol: &str, right: &str) -> String {
    show(pure::binary(operator(symbol), &value(left), &value(right), &mut Cost::default()))
}

/// Calls a function with the elements of a JSON list as arguments.
fn call(name: &str, arguments: &str) -> String {
    show(call_values(name, &list(arguments)))
}

fn call_values(name: &str, arguments: &[Value]) -> Result<Value, LanguageError> {
    pure::call(Function::named(name).unwrap(), arguments, &mut Cost::default())
}

fn list(text: &str) -> Vec<Value> {
    match value(text) {
        Value::List(list) => list.items().to_vec(),
        other => panic!("{other:?}"),
    }
}

fn method(receiver: &str, name: &str, arguments: &str) -> String {
    show(pure::method(Method::named(name).unwrap(), &value(receiver), &list(arguments), &mut Cost::default()))
}

#[test]
fn arithmetic() {
    let cases = [
        ("1", "+", "2", "3"),
        ("0.1", "+", "0.2", "0.30000000000000004"),
        ("9223372036854775807", "+", "1", "NumberError: 9223372036854775807 + 1 is out of range"),
        ("-9223372036854775808", "-", "1", "NumberError: -9223372036854775808 - 1 is out of range"),
        ("9223372036854775807", "*", "2", "NumberError: 9223372036854775807 * 2 is out of range"),
        ("1e308", "*", "10", "NumberError: 1e+308 * 10 is out of range"),
        ("-1.5e308", "+", "-1e308", "NumberError: -1.5e+308 + -1e+308 is out of range"),
        ("7", "/", "2", "3.5"),
        ("6", "/", "2", "3"),
        ("-6", "/", "4", "-1.5"),
        ("9007199254740993", "/", "1", "9007199254740993"),
        ("-9223372036854775808", "/", "-1", "9.223372036854776e+18"),
        ("1", "/", "0", "NumberError: division by zero"),
        ("0", "/", "0", "NumberError: division by zero"),
        ("0.5", "/", "0", "NumberError: division by zero"),
        ("1e308", "/", "1e-10", "NumberError: 1e+308 / 1e-10 is out of range"),
        ("5", "%", "0", "NumberError: division by zero"),
        ("5.5", "%", "0", "NumberError: division by zero"),
        ("-7", "%", "3", "-1"),
        ("7", "%", "-3", "1"),
        ("-9223372036854775808", "%", "-1", "0"),
        ("5.5", "%", "2", "1.5"),
        ("-5.5", "%", "2", "-1.5"),
        ("-4.5", "%", "1.5", "0"),
        ("0.5", "+", "0.5", "1"),
        ("0.5", "-", "0.5", "0"),
        ("-0.0", "*", "1.5", "0"),
        ("1", "-", "\"a\"", "TypeError: - takes numbers, not string"),
        ("null", "*", "\"a\"", "TypeError: * takes numbers, not null"),
        ("[]", "%", "1", "TypeError: % takes numbers, not list"),
        ("1.5", "/", "{}", "TypeError: / takes numbers, not object"),
        ("\"1\"", "+", "1", "\"11\""),
        ("1", "+", "\"1\"", "\"11\""),
        ("true", "+", "\"a\"", "\"truea\""),
        ("\"a\"", "+", "1.5", "\"a1.5\""),
        ("\"a\"", "+", "\"b\"", "\"ab\""),
        ("\"a\"", "+", "null", "TypeError: cannot add string and null"),
        ("1", "+", "true", "TypeError: cannot add number and boolean"),
        ("[1]", "+", "[2]", "TypeError: cannot add list and list"),
        ("{}", "+", "\"a\"", "TypeError: cannot add object and string"),
    ];
    for (left, symbol, right, want) in cases {
        assert_eq!(binary(left, symbol, right), want, "{left} {symbol} {right}");
    }
    assert_eq!(show(pure::negate(&value("0"))), "0");
    assert_eq!(show(pure::negate(&value("1.5"))), "-1.5");
    assert_eq!(show(pure::negate(&value("\"a\""))), "TypeError: - takes numbers, not string");
    assert_eq!(
        show(pure::negate(&value("-9223372036854775808"))),
        "NumberError: 0 - -9223372036854775808 is out of range"
    );
}

#[test]
fn numbers_as_text() {
    let cases = [
        ("0.1", "0.1"),
        ("1e21", "1e+21"),
        ("1e20", "1e+20"),
        ("1e-7", "1e-7"),
        ("1.25e-7", "1.25e-7"),
        ("0.000001", "0.000001"),
        ("0.00000123", "0.00000123"),
        ("123.456", "123.456"),
        ("-0.5", "-0.5"),
        ("1e3", "1000"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("1.0", "1"),
        ("9007199254740992.0", "9007199254740992"),
        ("9007199254740994.0", "9.007199254740994e+15"),
        ("9007199254740993", "9007199254740993"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("5e-324", "5e-324"),
        ("4503599627370495.5", "4503599627370495.5"),
    ];
    for (source, want) in cases {
        assert_eq!(show(Ok(value(source))), want, "{source}");
        assert_eq!(call("String", &format!("[{source}]")), format!("\"{want}\""), "{source}");
        // What is written reads back the same.
        assert!(pure::equal(&value(want), &value(source), &mut Cost::default()));
    }
}

#[test]
fn equality_and_order() {
    let equal = [
        ("1", "1.0", true),
        ("1", "\"1\"", false),
        ("0", "false", false),
        ("null", "false", false),
        ("null", "null", true),
        ("\"\\u00e9\"", "\"e\\u0301\"", false),
        ("[1,[2]]", "[1,[2]]", true),
        ("[1,2]", "[2,1]", false),
        ("[1]", "[1,2]", false),
        ("{\"a\":1,\"b\":{}}", "{\"b\":{},\"a\":1}", true),
        ("{\"a\":1}", "{\"a\":1,\"b\":null}", false),
        ("9007199254740993", "9007199254740992.0", false),
        ("1152921504606846976", "1.152921504606846976e18", true),
        ("1152921504606846977", "1.152921504606846976e18", false),
    ];
    for (left, right, want) in equal {
        assert_eq!(binary(left, "==", right), want.to_string(), "{left} == {right}");
        assert_eq!(binary(right, "!=", left), (!want).to_string(), "{right} != {left}");
    }
    let order = [
        ("1", "<", "2", "true"),
        ("2", "<=", "1.5", "false"),
        ("9007199254740993", ">", "9007199254740992.0", "true"),
        ("9223372036854775807", "<", "9.3e18", "true"),
        ("-9223372036854775808", ">", "-9.3e18", "true"),
        ("1", "<", "1.5", "true"),
        ("-1", ">", "-1.5", "true"),
        ("0", ">", "-0.5", "true"),
        ("\"a\"", "<", "\"b\"", "true"),
        ("\"\\uffff\"", "<", "\"\\ud83d\\udc4d\"", "true"),
        ("\"a\"", ">=", "\"a\"", "true"),
        ("1", "<", "\"2\"", "TypeError: cannot compare number and string"),
        ("null", ">", "1", "TypeError: cannot compare null and number"),
        ("[1]", "<", "[2]", "TypeError: cannot compare list and list"),
        ("true", "<=", "true", "TypeError: cannot compare boolean and boolean"),
        ("\"a\"", "in", "{\"a\":null}", "true"),
        ("\"b\"", "in", "{\"a\":null}", "false"),
        ("1", "in", "{}", "TypeError: in takes a string and an object, not number and object"),
        ("\"a\"", "in", "[\"a\"]", "TypeError: in takes a string and an object, not string and list"),
    ];
    for (left, symbol, right, want) in order {
        assert_eq!(binary(left, symbol, right), want, "{left} {symbol} {right}");
    }
}

#[test]
fn conditions() {
    let condition = |text: &str| match pure::condition(&value(text)) {
        Ok(is_true) => is_true.to_string(),
        Err(raised) => show(Err(raised)),
    };
    assert_eq!(condition("true"), "true");
    assert_eq!(condition("false"), "false");
    assert_eq!(condition("null"), "false");
    assert_eq!(condition("{}"), "true");
    assert_eq!(condition("0"), "TypeError: a number is not a condition; compare it, for example x != 0");
    assert_eq!(condition("1.5"), "TypeError: a number is not a condition; compare it, for example x != 0");
    assert_eq!(condition("\"\""), "TypeError: a string is not a condition; compare it, for example s != \"\"");
    assert_eq!(condition("[]"), "TypeError: a list is not a condition; compare it, for example list.length > 0");
    let opaque = call_values("Payload.bytes", &[Value::text("AA==")]).unwrap();
    assert_eq!(
        pure::condition(&opaque).unwrap_err().message,
        "a payload is not a condition; compare it, for example x != null"
    );
}

#[test]
fn texts_of_values() {
    let cases = [
        ("null", "null"),
        ("true", "true"),
        ("false", "false"),
        ("1.50", "1.5"),
        ("\"a\\\"b\"", "a\"b"),
        ("[1, \"a\", null]", "[1,\"a\",null]"),
        ("{\"a\": {\"b\": [true]}}", "{\"a\":{\"b\":[true]}}"),
    ];
    for (source, want) in cases {
        assert_eq!(&*pure::text(&value(source), &mut Cost::default()).unwrap(), want);
    }
}

#[test]
fn access() {
    let field = |base: &str, key: &str, access| match pure::field(&value(base), key, access) {
        Ok(None) => "skip".to_owned(),
        Ok(Some(value)) => show(Ok(value)),
        Err(raised) => show(Err(raised)),
    };
    let index = |base: &str, index: &str, access| match pure::index(&value(base), &value(index), access) {
        Ok(None) => "skip".to_owned(),
        Ok(Some(value)) => show(Ok(value)),
        Err(raised) => show(Err(raised)),
    };
    use Access::{Optional, Plain, Soft};
    assert_eq!(field("{\"f\":1}", "f", Plain), "1");
    assert_eq!(field("{}", "f", Plain), "FieldError: no field \"f\" (write ?.f if it may be missing)");
    assert_eq!(index("{}", "\"f\"", Plain), "FieldError: no field \"f\" (write ?.f if it may be missing)");
    assert_eq!(index("{}", "\"a b\"", Plain), "FieldError: no field \"a b\" (write ?.[\"a b\"] if it may be missing)");
    assert_eq!(field("{}", "f", Optional), "null");
    assert_eq!(field("{}", "f", Soft), "null");
    assert_eq!(field("null", "f", Plain), "TypeError: cannot read \"f\" of null");
    assert_eq!(index("null", "\"f\"", Plain), "TypeError: cannot read \"f\" of null");
    assert_eq!(field("null", "f", Soft), "TypeError: cannot read \"f\" of null");
    assert_eq!(field("null", "f", Optional), "skip");
    for access in [Plain, Optional, Soft] {
        assert_eq!(field("1", "f", access), "TypeError: a number has no field \"f\"");
        assert_eq!(field("[1]", "f", access), "TypeError: a list has no field \"f\"");
        assert_eq!(field("true", "f", access), "TypeError: a boolean has no field \"f\"");
        assert_eq!(index("[1]", "\"f\"", access), "TypeError: a list index must be a whole number, not string");
        assert_eq!(index("[1]", "0.5", access), "TypeError: a list index must be a whole number, not number");
        assert_eq!(index("[1]", "null", access), "TypeError: a list index must be a whole number, not null");
        assert_eq!(index("{}", "1", access), "TypeError: a key must be a string, not number");
        assert_eq!(index("1", "0", access), "TypeError: a number has no field \"0\"");
        assert_eq!(field("[1,2]", "length", access), "2");
        assert_eq!(field("\"a👍\"", "length", access), "2");
        assert_eq!(index("\"a👍é\"", "1", access), "\"👍\"");
    }
    assert_eq!(index("[1,2]", "1", Plain), "2");
    assert_eq!(index("[1,2]", "2", Plain), "IndexError: index 2 is outside of a list of 2");
    assert_eq!(index("[1,2]", "-1", Plain), "IndexError: index -1 is outside of a list of 2");
    assert_eq!(index("\"ab\"", "2", Plain), "IndexError: index 2 is outside of a string of 2");
    assert_eq!(index("\"ab\"", "-1", Plain), "IndexError: index -1 is outside of a string of 2");
    assert_eq!(index("[1,2]", "2", Optional), "null");
    assert_eq!(index("[1,2]", "-1", Soft), "null");
    assert_eq!(index("null", "0", Optional), "skip");
    assert_eq!(index("null", "0", Plain), "TypeError: cannot read \"0\" of null");
    assert_eq!(index("null", "0", Soft), "TypeError: cannot read \"0\" of null");
}

#[test]
fn math() {
    let cases = [
        ("Math.abs", "[-3]", "3"),
        ("Math.abs", "[-9223372036854775808]", "9.223372036854776e+18"),
        ("Math.abs", "[-1.5]", "1.5"),
        ("Math.ceil", "[1.2]", "2"),
        ("Math.ceil", "[-1.2]", "-1"),
        ("Math.ceil", "[-0.5]", "0"),
        ("Math.floor", "[-1.2]", "-2"),
        ("Math.floor", "[1e17]", "100000000000000000"),
        ("Math.floor", "[1e300]", "1e+300"),
        ("Math.trunc", "[-1.7]", "-1"),
        ("Math.sign", "[-1.7]", "-1"),
        ("Math.sign", "[0]", "0"),
        ("Math.sqrt", "[16]", "4"),
        ("Math.sqrt", "[2]", "1.4142135623730951"),
        ("Math.sqrt", "[9223372030926249001]", "3037000499"),
        ("Math.sqrt", "[-1]", "NumberError: Math.sqrt(-1) is not a number"),
        ("Math.sqrt", "[-0.5]", "NumberError: Math.sqrt(-0.5) is not a number"),
        ("Math.pow", "[-1, 9007199254740993]", "-1"),
        ("Math.pow", "[-1, 9223372036854775806]", "1"),
        ("Object.pick", "[{\"a\":1,\"b\":2,\"c\":3}, [\"c\", \"a\"]]", "{\"a\":1,\"c\":3}"),
        ("Time.fromSeconds", "[253402300799]", "\"9999-12-31T23:59:59.000Z\""),
        ("Time.parse", "[\"9999-12-31T23:59:59.999Z\"]", "\"9999-12-31T23:59:59.999Z\""),
        ("Time.add", "[\"9999-12-30T00:00:00.000Z\", \"1d\"]", "\"9999-12-31T00:00:00.000Z\""),
        ("Time.add", "[\"9999-12-30T00:00:00.000Z\", {\"days\": 1}]", "\"9999-12-31T00:00:00.000Z\""),
        ("Time.from", "[{\"year\": 9999, \"month\": 12, \"day\": 31}]", "\"9999-12-31T00:00:00.000Z\""),
        ("Math.pow", "[2, 10]", "1024"),
        ("Math.pow", "[3, 39]", "4052555153018976267"),
        ("Math.pow", "[2, 63]", "9.223372036854776e+18"),
        ("Math.pow", "[2, -1]", "0.5"),
        ("Math.pow", "[10, 400]", "NumberError: Math.pow(10, 400) is not a number"),
        ("Math.pow", "[-8, 0.5]", "NumberError: Math.pow(-8, 0.5) is not a number"),
        ("Math.pow", "[0, -1]", "NumberError: Math.pow(0, -1) is not a number"),
        ("Math.min", "[3, 1.5, 2]", "1.5"),
        ("Math.min", "[[3, 1, 2]]", "1"),
        ("Math.max", "[3]", "3"),
        ("Math.max", "[9007199254740993, 9007199254740992.0]", "9007199254740993"),
        ("Math.max", "[]", "ArgumentError: Math.max: there are no numbers"),
        ("Math.min", "[[]]", "ArgumentError: Math.min: there are no numbers"),
        ("Math.min", "[1, \"a\"]", "ArgumentError: Math.min: all arguments must be numbers"),
        ("Math.min", "[\"a\"]", "ArgumentError: Math.min: all arguments must be numbers"),
        ("Math.round", "[2.5]", "3"),
        ("Math.round", "[-2.5]", "-3"),
        ("Math.round", "[2.4999999999999996]", "2"),
        ("Math.round", "[0.49999999999999994]", "0"),
        ("Math.round", "[1.005, 2]", "1"),
        ("Math.round", "[1.125, 2]", "1.13"),
        ("Math.round", "[-1.125, 2]", "-1.13"),
        ("Math.round", "[9.995, 1]", "10"),
        ("Math.round", "[7, 3]", "7"),
        ("Math.round", "[-0.4]", "0"),
        ("Math.round", "[1.5, null]", "2"),
        ("Math.round", "[1.5, -1]", "ArgumentError: Math.round: digits must be a whole number from 0 to 100"),
        ("Math.round", "[\"a\"]", "ArgumentError: Math.round: the argument must be a number"),
        ("Math.abs", "[null]", "ArgumentError: Math.abs: the argument must be a number"),
    ];
    for (name, arguments, want) in cases {
        assert_eq!(call(name, arguments), want, "{name} {arguments}");
    }
}

#[test]
fn conversions() {
    let cases = [
        ("Number", "[\" 12 \"]", "12"),
        ("Number", "[\"\\t-1.5e3\\n\"]", "-1500"),
        ("Number", "[\"0x10\"]", "ArgumentError: Number: \"0x10\" is not a number"),
        ("Number", "[\"\"]", "ArgumentError: Number: \"\" is not a number"),
        ("Number", "[\"01\"]", "ArgumentError: Number: \"01\" is not a number"),
        ("Number", "[\".5\"]", "ArgumentError: Number: \".5\" is not a number"),
        ("Number", "[\"1e400\"]", "ArgumentError: Number: \"1e400\" is not a number"),
        ("Number", "[\"NaN\"]", "ArgumentError: Number: \"NaN\" is not a number"),
        ("Number", "[true]", "ArgumentError: Number: the text must be a string"),
        ("String", "[[1, {\"a\": 2}]]", "\"[1,{\\\"a\\\":2}]\""),
        ("JSON.parse", "[\"[1, 2.0, 1e2]\"]", "[1,2,100]"),
        ("JSON.parse", "[\"{\\\"a\\\":1,\\\"b\\\":2,\\\"a\\\":3}\"]", "{\"a\":3,\"b\":2}"),
        ("JSON.parse", "[\"[1,]\"]", "ArgumentError: JSON.parse: not JSON: expected a value at byte 3, found \"]\""),
        ("JSON.parse", "[\"\"]", "ArgumentError: JSON.parse: not JSON: expected a value at byte 0, found the end"),
        ("JSON.parse", "[\"1 2\"]", "ArgumentError: JSON.parse: not JSON: expected the end at byte 2, found \"2\""),
        (
            "JSON.parse",
            "[\"18446744073709551615\"]",
            "ArgumentError: JSON.parse: the number 18446744073709551615 is out of range",
        ),
        ("JSON.parse", "[\"\\\"\\\\ud800\\\"\"]", "ArgumentError: JSON.parse: not JSON: lone surrogate at byte 1"),
        ("JSON.parse", "[1]", "ArgumentError: JSON.parse: the text must be a string"),
        ("JSON.stringify", "[{\"b\": [1, {}], \"a\": []}]", "\"{\\\"b\\\":[1,{}],\\\"a\\\":[]}\""),
        ("JSON.stringify", "[[1, {\"a\": 2}], 2]", "\"[\\n  1,\\n  {\\n    \\\"a\\\": 2\\n  }\\n]\""),
        ("JSON.stringify", "[1, 11]", "ArgumentError: JSON.stringify: the indent must be a whole number from 0 to 10"),
        ("Object.keys", "[{\"b\": 1, \"a\": 2}]", "[\"b\",\"a\"]"),
        ("Object.values", "[{\"b\": 1, \"a\": 2}]", "[1,2]"),
        ("Object.entries", "[{\"b\": 1, \"a\": [2]}]", "[[\"b\",1],[\"a\",[2]]]"),
        ("Object.fromEntries", "[[[\"b\", 1], [\"a\", 2], [\"b\", 3]]]", "{\"b\":3,\"a\":2}"),
        (
            "Object.fromEntries",
            "[[[1, 1]]]",
            "ArgumentError: Object.fromEntries: each entry must be a list of a string and a value",
        ),
        ("Object.pick", "[{\"a\": 1, \"b\": 2}, [\"b\", \"x\"]]", "{\"b\":2}"),
        ("Object.omit", "[{\"a\": 1, \"b\": 2, \"c\": 3}, [\"b\", \"x\"]]", "{\"a\":1,\"c\":3}"),
        ("Object.omit", "[{}, [1]]", "ArgumentError: Object.omit: the keys must be a list of strings"),
        ("Object.keys", "[[1]]", "ArgumentError: Object.keys: the argument must be an object"),
        ("List.range", "[3]", "[0,1,2]"),
        ("List.range", "[2, 5]", "[2,3,4]"),
        ("List.range", "[5, 2]", "[]"),
        ("List.range", "[-1]", "[]"),
        (
            "List.range",
            "[-9223372036854775808, 9223372036854775807]",
            "LimitError: memory limit reached: one value may have 4194304 bytes (4 MiB) as JSON",
        ),
        ("List.range", "[1.5]", "ArgumentError: List.range: the argument must be a whole number"),
    ];
    for (name, arguments, want) in cases {
        assert_eq!(call(name, arguments), want, "{name} {arguments}");
    }
}

#[test]
fn lists() {
    let cases = [
        ("[1,2,3]", "at", "[0]", "1"),
        ("[1,2,3]", "at", "[-1]", "3"),
        ("[1,2,3]", "at", "[3]", "null"),
        ("[1,2,3]", "at", "[-4]", "null"),
        ("[1]", "concat", "[[2,3]]", "[1,2,3]"),
        ("[1]", "concat", "[2]", "ArgumentError: concat: the argument must be a list"),
        ("[1,2,3]", "slice", "[]", "[1,2,3]"),
        ("[1,2,3]", "slice", "[1]", "[2,3]"),
        ("[1,2,3]", "slice", "[-2, -1]", "[2]"),
        ("[1,2,3]", "slice", "[2, 1]", "[]"),
        ("[1,2,3]", "slice", "[-9, 99]", "[1,2,3]"),
        ("[1,2,3]", "slice", "[null, 1]", "[1]"),
        ("[1,[2]]", "includes", "[[2]]", "true"),
        ("[1,[2]]", "includes", "[\"1\"]", "false"),
        ("[1,{\"a\":1}]", "indexOf", "[{\"a\":1.0}]", "1"),
        ("[1]", "indexOf", "[2]", "-1"),
        ("[1,\"a\",true,1.5]", "join", "[]", "\"1,a,true,1.5\""),
        ("[1,2]", "join", "[\" - \"]", "\"1 - 2\""),
        ("[]", "join", "[]", "\"\""),
        ("[null]", "join", "[]", "TypeError: cannot join a null"),
        ("[1]", "join", "[1]", "ArgumentError: join: the separator must be a string"),
        ("[1,2,3]", "reverse", "[]", "[3,2,1]"),
        ("[1,[2,[3]]]", "flat", "[]", "[1,2,[3]]"),
        ("[1,[2,[3,[4]]]]", "flat", "[9]", "[1,2,3,4]"),
        ("[1,[2]]", "flat", "[0]", "[1,[2]]"),
        ("[10,9,1.5]", "sort", "[]", "[1.5,9,10]"),
        ("[\"b\",\"a\",\"B\"]", "sort", "[]", "[\"B\",\"a\",\"b\"]"),
        ("[]", "sort", "[]", "[]"),
        ("[1,\"a\"]", "sort", "[]", "TypeError: cannot compare number and string"),
        ("[null]", "sort", "[]", "TypeError: cannot compare null and null"),
        ("[1]", "trim", "[]", "TypeError: a list has no function \"trim\""),
        ("{}", "at", "[0]", "TypeError: a object has no function \"at\""),
        ("1", "slice", "[]", "TypeError: a number has no function \"slice\""),
        ("null", "slice", "[]", "TypeError: cannot read \"slice\" of null"),
    ];
    for (receiver, name, arguments, want) in cases {
        assert_eq!(method(receiver, name, arguments), want, "{receiver}.{name} {arguments}");
    }
}

#[test]
fn lists_changed() {
    let change = |target: &mut Value, name: &str, arguments: &str| {
        show(pure::change(Method::named(name).unwrap(), target, list(arguments), &mut Cost::default()))
    };
    let mut target = value("[1]");
    let copy = target.clone();
    assert_eq!(change(&mut target, "push", "[2, [3]]"), "3");
    assert_eq!(change(&mut target, "unshift", "[8, 9]"), "5");
    assert_eq!(show(Ok(target.clone())), "[8,9,1,2,[3]]");
    assert_eq!(change(&mut target, "pop", "[]"), "[3]");
    assert_eq!(change(&mut target, "shift", "[]"), "8");
    assert_eq!(show(Ok(target)), "[9,1,2]");
    assert_eq!(show(Ok(copy)), "[1]");
    let mut empty = value("[]");
    assert_eq!(change(&mut empty, "pop", "[]"), "null");
    assert_eq!(change(&mut empty, "shift", "[]"), "null");
    assert_eq!(change(&mut value("{}"), "push", "[1]"), "TypeError: a object has no function \"push\"");
    assert_eq!(change(&mut value("null"), "pop", "[]"), "TypeError: cannot read \"pop\" of null");
}

#[test]
fn strings() {
    let cases = [
        ("\"a👍🏽é!\"", "slice", "[1, 3]", "\"👍🏽\""),
        ("\"abc\"", "slice", "[-2]", "\"bc\""),
        ("\"abc\"", "slice", "[2, 1]", "\"\""),
        ("\"abc\"", "at", "[-1]", "\"c\""),
        ("\"abc\"", "at", "[3]", "null"),
        ("\"abc\"", "includes", "[\"bc\"]", "true"),
        ("\"abc\"", "includes", "[1]", "ArgumentError: includes: the text must be a string"),
        ("\"abc\"", "startsWith", "[\"a\"]", "true"),
        ("\"abc\"", "endsWith", "[\"b\"]", "false"),
        ("\"👍abc\"", "indexOf", "[\"b\"]", "2"),
        ("\"abc\"", "indexOf", "[\"x\"]", "-1"),
        ("\"a,b,,c\"", "split", "[\",\"]", "[\"a\",\"b\",\"\",\"c\"]"),
        ("\"é👍\"", "split", "[\"\"]", "[\"é\",\"👍\"]"),
        ("\"\"", "split", "[\"\"]", "[]"),
        ("\"\"", "split", "[\",\"]", "[\"\"]"),
        ("\" \\t a \\n\"", "trim", "[]", "\"a\""),
        ("\"straße\"", "toUpperCase", "[]", "\"STRASSE\""),
        ("\"ÀΣ\"", "toLowerCase", "[]", "\"àς\""),
        ("\"aXbX\"", "replace", "[\"X\", \"$&\"]", "\"a$&bX\""),
        ("\"aXbX\"", "replaceAll", "[\"X\", \"--\"]", "\"a--b--\""),
        ("\"ab\"", "replaceAll", "[\"\", \"-\"]", "\"-a-b-\""),
        ("\"7\"", "padStart", "[3, \"0\"]", "\"007\""),
        ("\"7\"", "padStart", "[4, \"ab\"]", "\"aba7\""),
        ("\"7\"", "padEnd", "[3]", "\"7  \""),
        ("\"777\"", "padEnd", "[2]", "\"777\""),
        ("\"7\"", "padEnd", "[5, \"\"]", "\"7\""),
        ("\"ab\"", "repeat", "[3]", "\"ababab\""),
        ("\"ab\"", "repeat", "[0]", "\"\""),
        ("\"ab\"", "repeat", "[-1]", "ArgumentError: repeat: the number must be at least 0"),
        (
            "\"ab\"",
            "repeat",
            "[9223372036854775807]",
            "LimitError: memory limit reached: one value may have 4194304 bytes (4 MiB) as JSON",
        ),
        (
            "\"ab\"",
            "padEnd",
            "[9223372036854775807]",
            "LimitError: memory limit reached: one value may have 4194304 bytes (4 MiB) as JSON",
        ),
        ("\"a\"", "join", "[]", "TypeError: a string has no function \"join\""),
        ("2.5", "toFixed", "[]", "\"3\""),
        ("-2.5", "toFixed", "[]", "\"-3\""),
        ("1.005", "toFixed", "[2]", "\"1.00\""),
        ("7", "toFixed", "[2]", "\"7.00\""),
        ("-0.001", "toFixed", "[2]", "\"0.00\""),
        ("0.999", "toFixed", "[2]", "\"1.00\""),
        ("9.995e2", "toFixed", "[]", "\"1000\""),
        ("\"a\"", "toFixed", "[]", "TypeError: a string has no function \"toFixed\""),
    ];
    for (receiver, name, arguments, want) in cases {
        assert_eq!(method(receiver, name, arguments), want, "{receiver}.{name} {arguments}");
    }
}

#[test]
fn durations() {
    let cases = [
        ("1", "1000"),
        ("0", "0"),
        ("0.25", "250"),
        ("\"500ms\"", "500"),
        ("\"10s\"", "10000"),
        ("\"1h30m\"", "5400000"),
        ("\"7d\"", "604800000"),
        ("\"2w\"", "1209600000"),
        ("\"1w1d1h1m1s1ms\"", "694861001"),
        ("\"0s\"", "0"),
        ("-1", "ArgumentError: f: a duration must not be negative"),
        ("\"5 min\"", "ArgumentError: f: \"5 min\" is not a duration"),
        ("\"\"", "ArgumentError: f: \"\" is not a duration"),
        ("\"10\"", "ArgumentError: f: \"10\" is not a duration"),
        ("\"1m1h\"", "ArgumentError: f: \"1m1h\" is not a duration"),
        ("\"1s1s\"", "ArgumentError: f: \"1s1s\" is not a duration"),
        ("\"-1s\"", "ArgumentError: f: \"-1s\" is not a duration"),
        ("\"99999999999999999999w\"", "ArgumentError: f: \"99999999999999999999w\" is not a duration"),
        ("3155760000", "3155760000000"),
        ("3155760001", "ArgumentError: f: a duration has at most 100 years"),
        ("9223372036854775807", "ArgumentError: f: a duration has at most 100 years"),
        ("1e300", "ArgumentError: f: a duration has at most 100 years"),
        ("null", "ArgumentError: f: a duration must be a number of seconds or a string, not null"),
    ];
    for (source, want) in cases {
        assert_eq!(show(duration::parse(&value(source), "f").map(Value::Int)), want, "{source}");
    }
    let shown = [
        (0, "0s"),
        (500, "500ms"),
        (5_400_000, "1h30m"),
        (172_800_000, "2d"),
        (604_800_000, "1w"),
        (694_861_001, "1w1d1h1m1s1ms"),
    ];
    for (milliseconds, want) in shown {
        assert_eq!(duration::show(milliseconds), want);
        assert_eq!(duration::parse_text(want), Some(milliseconds));
    }
}

#[test]
fn times() {
    let t = "\"2026-01-31T12:00:00.000Z\"";
    let cases = [
        ("Time.parse", "[\"2026-01-01T00:00:00Z\"]".to_owned(), "\"2026-01-01T00:00:00.000Z\""),
        ("Time.parse", "[\"2026-01-01t02:00:00.1239+02:00\"]".to_owned(), "\"2026-01-01T00:00:00.123Z\""),
        ("Time.parse", "[\"1969-12-31 23:59:59.9-00:30\"]".to_owned(), "\"1970-01-01T00:29:59.900Z\""),
        ("Time.parse", "[\"2026-01-01\"]".to_owned(), "ArgumentError: Time.parse: \"2026-01-01\" is not a time"),
        (
            "Time.parse",
            "[\"2026-01-01T00:00:00\"]".to_owned(),
            "ArgumentError: Time.parse: \"2026-01-01T00:00:00\" is not a time",
        ),
        (
            "Time.parse",
            "[\"2026-02-30T00:00:00Z\"]".to_owned(),
            "ArgumentError: Time.parse: \"2026-02-30T00:00:00Z\" is not a time",
        ),
        ("Time.parse", "[1]".to_owned(), "ArgumentError: Time.parse: the time must be a string"),
        ("Time.add", format!("[{t}, {{\"months\": 1}}]"), "\"2026-02-28T12:00:00.000Z\""),
        ("Time.add", "[\"2024-01-31T00:00:00Z\", {\"months\": 1}]".to_owned(), "\"2024-02-29T00:00:00.000Z\""),
        ("Time.add", "[\"2024-02-29T00:00:00Z\", {\"years\": 1}]".to_owned(), "\"2025-02-28T00:00:00.000Z\""),
        ("Time.add", format!("[{t}, {{\"months\": -2, \"days\": 1}}]"), "\"2025-12-01T12:00:00.000Z\""),
        (
            "Time.add",
            format!("[{t}, {{\"weeks\": 1, \"hours\": 1, \"minutes\": 1, \"seconds\": 1.5}}]"),
            "\"2026-02-07T13:01:01.500Z\"",
        ),
        ("Time.add", format!("[{t}, 1.5]"), "\"2026-01-31T12:00:01.500Z\""),
        ("Time.add", format!("[{t}, \"1d\"]"), "\"2026-02-01T12:00:00.000Z\""),
        ("Time.add", format!("[{t}, -60]"), "\"2026-01-31T11:59:00.000Z\""),
        // A day across a clock change has 23 hours, 24 hours are 24 hours.
        (
            "Time.add",
            "[\"2026-03-28T12:00:00Z\", {\"days\": 1}, \"Europe/Berlin\"]".to_owned(),
            "\"2026-03-29T11:00:00.000Z\"",
        ),
        (
            "Time.add",
            "[\"2026-03-28T12:00:00Z\", {\"hours\": 24}, \"Europe/Berlin\"]".to_owned(),
            "\"2026-03-29T12:00:00.000Z\"",
        ),
        ("Time.add", format!("[{t}, {{\"month\": 1}}]"), "ArgumentError: Time.add: unknown unit \"month\""),
        ("Time.add", format!("[{t}, {{\"days\": 1.5}}]"), "ArgumentError: Time.add: days must be a whole number"),
        (
            "Time.add",
            format!("[{t}, {{\"years\": 9000}}]"),
            "ArgumentError: Time.add: the time is outside of the years 0 to 9999",
        ),
        ("Time.add", format!("[{t}, 1, \"Mars\"]"), "ArgumentError: Time.add: unknown zone \"Mars\""),
        ("Time.diff", format!("[{t}, \"2026-01-31T11:59:00Z\"]"), "60"),
        ("Time.diff", format!("[\"2026-01-31T11:59:59.5Z\", {t}]"), "-0.5"),
        (
            "Time.parts",
            "[\"2027-01-31T11:00:00.250Z\", \"Europe/Berlin\"]".to_owned(),
            "{\"year\":2027,\"month\":1,\"day\":31,\"hour\":12,\"minute\":0,\"second\":0,\"millisecond\":250,\"weekday\":7,\"offset\":3600}",
        ),
        ("Time.from", "[{\"year\": 2026}]".to_owned(), "\"2026-01-01T00:00:00.000Z\""),
        (
            "Time.from",
            "[{\"year\": 2027, \"month\": 1, \"day\": 31, \"hour\": 12}, \"Europe/Berlin\"]".to_owned(),
            "\"2027-01-31T11:00:00.000Z\"",
        ),
        // A gap: the later moment. An overlap: the earlier.
        (
            "Time.from",
            "[{\"year\": 2026, \"month\": 3, \"day\": 29, \"hour\": 2, \"minute\": 30}, \"Europe/Berlin\"]".to_owned(),
            "\"2026-03-29T01:30:00.000Z\"",
        ),
        (
            "Time.from",
            "[{\"year\": 2026, \"month\": 10, \"day\": 25, \"hour\": 2, \"minute\": 30}, \"Europe/Berlin\"]".to_owned(),
            "\"2026-10-25T00:30:00.000Z\"",
        ),
        ("Time.from", "[{\"month\": 1}]".to_owned(), "ArgumentError: Time.from: the year is missing"),
        (
            "Time.from",
            "[{\"year\": 2026, \"month\": 13}]".to_owned(),
            "ArgumentError: Time.from: month must be a whole number from 1 to 12",
        ),
        (
            "Time.from",
            "[{\"year\": 2026, \"month\": 2, \"day\": 30}]".to_owned(),
            "ArgumentError: Time.from: there is no day 2026-02-30",
        ),
        ("Time.seconds", "[\"1970-01-02T00:00:00.5Z\"]".to_owned(), "86400.5"),
        ("Time.fromSeconds", "[86400.5]".to_owned(), "\"1970-01-02T00:00:00.500Z\""),
        ("Time.fromSeconds", "[-1]".to_owned(), "\"1969-12-31T23:59:59.000Z\""),
        (
            "Time.fromSeconds",
            "[1e300]".to_owned(),
            "ArgumentError: Time.fromSeconds: the time is outside of the years 0 to 9999",
        ),
    ];
    for (name, arguments, want) in cases {
        assert_eq!(call(name, &arguments), want, "{name} {arguments}");
    }
    // Parts go back to the time they came from.
    let parts = call("Time.parts", "[\"2026-07-01T10:20:30.456Z\", \"America/New_York\"]");
    assert_eq!(call("Time.from", &format!("[{parts}, \"America/New_York\"]")), "\"2026-07-01T10:20:30.456Z\"");
    assert_eq!(time::show(1_767_225_600_000), "2026-01-01T00:00:00.000Z");
    assert!(time::is_zone("UTC") && time::is_zone("Asia/Tokyo") && !time::is_zone("") && !time::is_zone("Mars"));
}

#[test]
fn cron_texts() {
    for text in [
        "0 9 * * 1-5",
        "*/5 * * * *",
        "0 0 1 JAN,jul *",
        "0 0 * * sun",
        "0/15 8-18/2 ? * MON-FRI",
        "@hourly",
        "@every 1h30m",
        "CRON_TZ=Europe/Berlin 0 9 * * *",
        "TZ=UTC @daily",
        "0 0 29 2 *",
        "0 0 31 2 1",
    ] {
        assert!(options::is_cron(text), "{text}");
    }
    for text in [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 7",
        "5-1 * * * *",
        "*/0 * * * *",
        "x * * * *",
        "@often",
        "@every soon",
        "CRON_TZ=Mars/Base 0 9 * * *",
        "CRON_TZ=UTC",
        "0 0 31 2 *",
        ", * * * *",
    ] {
        assert!(!options::is_cron(text), "{text}");
    }
}

#[test]
fn options_are_checked() {
    let check = |text: &str, table| match options::check("Task.run", &value(text), table) {
        Ok(given) => show(Ok(Value::object(given))),
        Err(raised) => show(Err(raised)),
    };
    let cases = [
        ("null", "{}"),
        ("{}", "{}"),
        ("{\"queue\": \"q\", \"id\": null, \"args\": []}", "{\"args\":[],\"queue\":\"q\"}"),
        ("{\"que\": null}", "ArgumentError: Task.run: unknown option \"que\""),
        ("[]", "ArgumentError: Task.run: the options must be an object"),
        ("{\"queue\": 1}", "ArgumentError: Task.run: queue must be a string"),
        ("{\"args\": 1}", "ArgumentError: Task.run: args must be a list"),
        ("{\"start_to_close\": \"5 min\"}", "ArgumentError: Task.run: start_to_close: \"5 min\" is not a duration"),
        ("{\"start_to_close\": \"5m\"}", "{\"start_to_close\":\"5m\"}"),
        ("{\"priority\": 6}", "ArgumentError: Task.run: priority must be a whole number from 1 to 5"),
        ("{\"on_cancel\": \"no\"}", "ArgumentError: Task.run: on_cancel must be \"try\" or \"wait\" or \"ignore\""),
        ("{\"retry\": false}", "{\"retry\":false}"),
        ("{\"retry\": 3}", "{\"retry\":3}"),
        ("{\"retry\": true}", "ArgumentError: Task.run: retry must be false, a number of attempts or an object"),
        ("{\"retry\": {\"max_attempts\": 3, \"backoff\": 1.5}}", "{\"retry\":{\"max_attempts\":3,\"backoff\":1.5}}"),
        ("{\"retry\": {\"attempts\": 3}}", "ArgumentError: Task.run: unknown option \"attempts\""),
        ("{\"retry\": {\"backoff\": 0.5}}", "ArgumentError: Task.run: backoff must be a number of at least 1"),
        ("{\"retry\": {\"non_retryable\": [1]}}", "ArgumentError: Task.run: non_retryable must be a list of strings"),
    ];
    for (source, want) in cases {
        assert_eq!(check(source, library::TASK), want, "{source}");
    }
    assert_eq!(
        check("{\"concurrency\": 0}", library::MAP),
        "ArgumentError: Task.run: concurrency must be a whole number of at least 1"
    );
    assert_eq!(check("{\"cron\": \"x\"}", library::CHILD), "ArgumentError: Task.run: cron must be a cron text");
    assert_eq!(
        check("{\"zone\": \"x\"}", library::SCHEDULE),
        "ArgumentError: Task.run: zone must be the name of a time zone"
    );
    assert_eq!(check("{\"cancel\": 1}", library::DECIDE), "ArgumentError: Task.run: cancel must be true or false");
    assert_eq!(check("{\"memo\": 1}", library::CHILD), "ArgumentError: Task.run: memo must be an object");
    let long = format!("{{\"id\": \"{}\"}}", "x".repeat(1_001));
    assert_eq!(check(&long, library::TASK), "ArgumentError: Task.run: id must be of at most 1000 bytes");
}

#[test]
fn payloads() {
    let json = |text: &str| payload::encoded("json/plain", text.as_bytes().to_vec());
    assert_eq!(show(payload::read(&json(" {\"a\": 1} ")).map_err(LanguageError::type_error)), "{\"a\":1}");
    assert_eq!(payload::read(&json("nul")).unwrap_err(), "not JSON: expected a value at byte 0, found \"n\"");
    assert!(matches!(payload::argument(json("1e400")), Value::Payload(_)));
    assert!(matches!(payload::argument(json("\"\\ud83d\"")), Value::Payload(_)));
    assert!(matches!(payload::argument(json("18446744073709551615")), Value::Payload(_)));
    assert!(matches!(payload::argument(json("9007199254740993")), Value::Int(9_007_199_254_740_993)));
    assert!(matches!(payload::read(&payload::encoded("binary/null", Vec::new())), Ok(Value::Null)));
    assert_eq!(payload::write(&Value::Null).unwrap(), payload::encoded("binary/null", Vec::new()));
    assert_eq!(
        payload::write(&value("{\"b\":\"é\\u0001\\\"\\\\\",\"a\":[1.5]}")).unwrap(),
        json("{\"b\":\"é\\u0001\\\"\\\\\",\"a\":[1.5]}")
    );
    // Opaque ones go out as they came in, metadata too.
    for encoding in ["binary/plain", "json/protobuf", "binary/encrypted", ""] {
        let mut opaque = payload::encoded(encoding, vec![0, 1, 255]);
        opaque.metadata.push(("messageType".to_owned(), b"x".to_vec()));
        let read = payload::read(&opaque).unwrap();
        assert_eq!(read.type_name(), "payload");
        assert_eq!(payload::write(&read).unwrap(), opaque);
        let inside = Value::list(vec![read]);
        assert_eq!(
            show(payload::write(&inside).map(|_| Value::Null)),
            "TypeError: a payload inside a list or object cannot be sent"
        );
    }
    let long = Value::text("x".repeat((2 << 20) - 1));
    assert_eq!(
        show(payload::write(&long).map(|_| Value::Null)),
        "PayloadError: 2097153 bytes are more than a payload may have (2097152)"
    );
    assert!(payload::write(&Value::text("x".repeat((2 << 20) - 2))).is_ok());
    let bytes = call_values("Payload.bytes", &[Value::text("aGkh")]).unwrap();
    assert_eq!(show(call_values("Payload.encoding", std::slice::from_ref(&bytes))), "\"binary/plain\"");
    assert_eq!(show(call_values("Payload.text", std::slice::from_ref(&bytes))), "\"hi!\"");
    assert_eq!(show(call_values("Payload.base64", std::slice::from_ref(&bytes))), "\"aGkh\"");
    assert_eq!(
        show(call_values("Payload.json", &[bytes])),
        "ArgumentError: Payload.json: not JSON: expected a value at byte 0, found \"h\""
    );
    assert_eq!(call("Payload.text", "[1]"), "ArgumentError: Payload.text: the argument must be a payload");
    assert_eq!(call("Payload.bytes", "[\"a\"]"), "ArgumentError: Payload.bytes: not base 64");
    for (text, count) in [("", 0), ("AA==", 1), ("AAA=", 2), ("AAAA", 3), ("AAAAAA", 4)] {
        match call_values("Payload.bytes", &[Value::text(text)]).unwrap() {
            Value::Payload(payload) => assert_eq!(payload.data, vec![0; count]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn json_is_strict_and_bounded() {
    for text in [
        "",
        "[",
        "{\"a\"}",
        "{\"a\":1,}",
        "[1 2]",
        "01",
        "1.",
        ".5",
        "+1",
        "'a'",
        "\"\n\"",
        "\"\\x\"",
        "tru",
        "NaN",
        "\u{feff}1",
    ] {
        assert!(json::parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(json::parse(b"\"\xff\"").is_err());
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(json::parse(nested(500).as_bytes()).is_ok());
    assert_eq!(json::parse(nested(501).as_bytes()).unwrap_err(), "nested more than 500 deep");
    assert!(json::parse("[".repeat(1_000_000).as_bytes()).is_err());
    assert_eq!(show(Ok(value("\"\\ud83d\\udc4d\\u00e9\\/\\b\\f\""))), "\"👍é/\\b\\f\"");
}

#[test]
fn random_numbers() {
    let mut random = Random::seeded("run");
    let mut again = Random::from_state(random.state());
    for _ in 0..1_000 {
        let number = random.next_double();
        assert!((0.0..1.0).contains(&number));
        assert_eq!(number.to_bits(), again.next_double().to_bits());
    }
    assert_ne!(Random::seeded("a").next_double().to_bits(), Random::seeded("b").next_double().to_bits());
    let uuid = random.uuid();
    assert_eq!(uuid.len(), 36);
    assert_eq!(uuid.as_bytes()[14], b'4');
    assert!(b"89ab".contains(&uuid.as_bytes()[19]));
    assert_ne!(uuid, random.uuid());
}

#[test]
fn what_throw_makes() {
    let thrown = |text: &str| show(Ok(error::thrown(value(text))));
    assert_eq!(
        thrown("\"no\""),
        "{\"type\":\"Error\",\"message\":\"no\",\"details\":null,\"retryable\":true,\"cause\":null,\"source\":null,\"stack\":\"\"}"
    );
    assert_eq!(
        thrown("{\"message\":\"m\",\"extra\":1,\"type\":\"T\"}"),
        "{\"message\":\"m\",\"extra\":1,\"type\":\"T\",\"details\":null,\"retryable\":true,\"cause\":null,\"source\":null,\"stack\":\"\"}"
    );
    assert_eq!(
        thrown("[1,2]"),
        "{\"type\":\"Error\",\"message\":\"[1,2]\",\"details\":[1,2],\"retryable\":true,\"cause\":null,\"source\":null,\"stack\":\"\"}"
    );
    let made = |arguments: &str| show(error::from_options(&list(arguments), "at w (w.flow:1:1)"));
    assert_eq!(
        made(
            "[\"m\", {\"type\":\"T\",\"details\":[1],\"retryable\":false,\"cause\":{\"message\":\"c\",\"type\":\"C\",\"details\":null,\"retryable\":true,\"cause\":null,\"source\":null,\"stack\":\"\"}}]"
        ),
        "{\"type\":\"T\",\"message\":\"m\",\"details\":[1],\"retryable\":false,\"cause\":{\"message\":\"c\",\"type\":\"C\",\"details\":null,\"retryable\":true,\"cause\":null,\"source\":null,\"stack\":\"\"},\"source\":null,\"stack\":\"at w (w.flow:1:1)\"}"
    );
    assert_eq!(made("[1]"), "ArgumentError: Error: the message must be a string");
    assert_eq!(made("[\"m\", {\"kind\":1}]"), "ArgumentError: Error: unknown option \"kind\"");
    assert_eq!(made("[\"m\", {\"cause\":1}]"), "ArgumentError: Error: cause must be an error");
    for (kind, retryable) in
        [(Kind::Type, false), (Kind::Limit, false), (Kind::Aggregate, true), (Kind::Canceled, true)]
    {
        let object = error::from_raised(&LanguageError::new(kind, "m"), "");
        assert_eq!(show(pure::field(&object, "retryable", Access::Plain).map(Option::unwrap)), retryable.to_string());
    }
}
