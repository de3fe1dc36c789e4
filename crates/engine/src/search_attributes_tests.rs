//! Names, types and sizes, with the texts a Temporal server answers with.

use super::*;

fn attributes(fields: &[(&str, &str)]) -> SearchAttributes {
    let payload = |json: &str| Payload {
        metadata: [("encoding".to_owned(), "json/plain".into())].into(),
        data: json.to_owned().into(),
        ..Default::default()
    };
    SearchAttributes { indexed_fields: fields.iter().map(|(n, v)| (n.to_string(), payload(v))).collect() }
}

fn check(fields: &[(&str, &str)]) -> Result<(), String> {
    let custom =
        BTreeMap::from([("Amount".to_owned(), Int), ("When".to_owned(), Datetime), ("Tags".into(), KeywordList)]);
    Rules { namespace: "default", custom: &custom }.check(&attributes(fields)).map_err(|why| why.0)
}

#[test]
fn values_of_the_right_type_pass() {
    assert_eq!(check(&[("Amount", "12"), ("When", "\"2024-02-29T01:02:03.5+02:00\"")]), Ok(()));
    assert_eq!(check(&[("Amount", "null"), ("When", "[]"), ("Tags", "[\"a\", null]")]), Ok(()));
    assert_eq!(check(&[("Amount", "[1, 2]"), ("Tags", "[[\"a\"]]"), ("BatcherUser", "\"me\"")]), Ok(()));
    assert_eq!(check(&[]), Ok(()));
}

#[test]
fn what_is_refused() {
    let cases = [
        ("Nope", "1", "Namespace default has no mapping defined for search attribute Nope"),
        ("RunId", "\"x\"", "RunId attribute can't be set in SearchAttributes"),
        ("TemporalWorkerDeployment", "\"x\"", "TemporalWorkerDeployment attribute can't be set in SearchAttributes"),
        ("Amount", "\"x\"", "invalid value for search attribute Amount of type Int: x"),
        ("Amount", "1.5", "invalid value for search attribute Amount of type Int: 1.5"),
        ("Amount", "[1, true]", "invalid value for search attribute Amount of type Int: [1 true]"),
        ("When", "1000000", "invalid value for search attribute When of type Datetime: 1e+06"),
        (
            "When",
            "\"2023-02-29T01:02:03Z\"",
            "invalid value for search attribute When of type Datetime: 2023-02-29T01:02:03Z",
        ),
        ("Tags", "\"a\"", "invalid value for search attribute Tags of type KeywordList: a"),
        (
            "Tags",
            "{\"b\":null,\"a\":1}",
            "invalid value for search attribute Tags of type KeywordList: map[a:1 b:<nil>]",
        ),
        (
            "Amount",
            "x\"",
            "invalid value for search attribute Amount of type Int: \
             value from <metadata:{key:\"encoding\" value:\"json/plain\"} data:\"x\\\"\">",
        ),
    ];
    for (name, value, want) in cases {
        assert_eq!(check(&[(name, value)]), Err(want.into()));
    }
}

#[test]
fn sizes_are_limited() {
    let long = format!("[\"{}\"]", "x".repeat(2045));
    let want = "search attribute Tags value size 2049 exceeds size limit 2048";
    assert_eq!(check(&[("Tags", &long)]), Err(want.into()));

    let custom: BTreeMap<_, _> = (0..101).map(|n| (format!("A{n:03}"), Keyword)).collect();
    let rules = Rules { namespace: "default", custom: &custom };
    let value = format!("\"{}\"", "x".repeat(500));
    let fields: Vec<(&str, &str)> = custom.keys().map(|name| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        rules.check(&attributes(&fields)),
        Err(Invalid("number of search attributes 101 exceeds limit 100".into()))
    );
    let all = attributes(&fields[..100]);
    let want = format!("total size of search attributes {} exceeds size limit 40960", all.encoded_len());
    assert_eq!(rules.check(&all), Err(Invalid(want)));
}
