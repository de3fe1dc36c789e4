//! Reading values of flags: pairs, durations, JSON, types. Mistakes are reported in the words of the command line.

use segno_proto::{Nanos, enums::IndexedValueType};

const SECOND: f64 = 1e9;

/// Names of search attribute types, as users write them.
pub const SEARCH_ATTRIBUTE_TYPES: [(&str, IndexedValueType); 7] = [
    ("Text", IndexedValueType::Text),
    ("Keyword", IndexedValueType::Keyword),
    ("Int", IndexedValueType::Int),
    ("Double", IndexedValueType::Double),
    ("Bool", IndexedValueType::Bool),
    ("Datetime", IndexedValueType::Datetime),
    ("KeywordList", IndexedValueType::KeywordList),
];

/// `KEY=VALUE`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// `KEY=VALUE` with JSON as its value.
pub fn key_json(text: &str) -> Result<(String, String), String> {
    let (key, value) = key_value(text)?;
    Ok((key, json(&value)?))
}

/// JSON, kept as it was written.
pub fn json(text: &str) -> Result<String, String> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("not JSON: {error}. A text needs its own quotes, for example '\"hello\"'")),
    }
}

/// The type of a search attribute.
pub fn search_attribute_type(text: &str) -> Result<IndexedValueType, String> {
    let same = |(name, _): &&(&str, IndexedValueType)| name.eq_ignore_ascii_case(text);
    match SEARCH_ATTRIBUTE_TYPES.iter().find(same) {
        Some((_, kind)) => Ok(*kind),
        None => {
            let names: Vec<_> = SEARCH_ATTRIBUTE_TYPES.iter().map(|(name, _)| *name).collect();
            Err(format!("there is no type {text:?}; there are {}", names.join(", ")))
        }
    }
}

/// A duration such as `10s`, `1h30m`, `500ms` or `3d`.
pub fn duration(text: &str) -> Result<Nanos, String> {
    let wrong = || "expected a duration such as 10s, 1h30m, 500ms or 3d".to_owned();
    if text == "0" {
        return Ok(0);
    }
    let mut rest = text;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        nanos += number
            * match &rest[..letters] {
                "ns" => 1.0,
                "us" | "µs" => 1e3,
                "ms" => 1e6,
                "s" => SECOND,
                "m" => 60.0 * SECOND,
                "h" => 3600.0 * SECOND,
                "d" => 86_400.0 * SECOND,
                _ => return Err(wrong()),
            };
        rest = &rest[letters..];
    }
    // Beyond a century no time-out is meant seriously, and an i64 ends at 292 years.
    if text.is_empty() || nanos > 100.0 * 366.0 * 86_400.0 * SECOND { Err(wrong()) } else { Ok(nanos.round() as Nanos) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, nanos) in [
            ("10s", 10_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("3d", 259_200_000_000_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Ok(nanos), "{text}");
        }
        for text in ["", "10", "s", "10x", "-1s", "1..5s", "1000000d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pairs_and_json() {
        assert_eq!(key_value("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(key_value("a").is_err() && key_value("=b").is_err());
        assert_eq!(key_json("a={\"z\": 1, \"a\": 2}"), Ok(("a".to_owned(), "{\"z\": 1, \"a\": 2}".to_owned())));
        assert!(json("hello").expect_err("no JSON").contains("quotes"));
    }

    #[test]
    fn types_are_known_by_name() {
        assert_eq!(search_attribute_type("keywordlist"), Ok(IndexedValueType::KeywordList));
        assert!(search_attribute_type("Kewyord").expect_err("unknown").contains("Keyword"));
    }
}
