//! Evaluates a filter on one run: the reference meaning of filters, written for clarity.
//!
//! Three answers are possible; `None` stands for *unknown*, the result of a comparison with an absent value. Lists and
//! texts are searched rather than compared: an absent one holds nothing, so the answer is known.

use std::cmp::Ordering;

use super::words::{contains_word, fits};
use super::{Attribute, Comparison, Filter, Kind, Value, VisibilityRow};

impl Filter {
    /// Whether a run is wanted; `None` if that is unknown, which a list takes as no.
    pub fn evaluate(&self, row: &VisibilityRow) -> Option<bool> {
        self.evaluate_by(&|attribute| row.value(attribute))
    }

    /// The same for a run of which `value` tells the values.
    pub fn evaluate_by(&self, value: &dyn Fn(Attribute) -> Option<Value>) -> Option<bool> {
        match self {
            Self::All(parts) => all(parts.iter().map(|part| part.evaluate_by(value))),
            Self::Any(parts) => any(parts.iter().map(|part| part.evaluate_by(value))),
            Self::Not(part) => part.evaluate_by(value).map(|truth| !truth),
            Self::Compare(attribute, comparison, wanted) => {
                compare(attribute.kind(), value(*attribute), *comparison, wanted)
            }
            Self::In(attribute, wanted) => {
                any(wanted.iter().map(|wanted| compare(attribute.kind(), value(*attribute), Comparison::Equal, wanted)))
            }
            Self::Between(attribute, from, to) => all([
                compare(attribute.kind(), value(*attribute), Comparison::GreaterOrEqual, from),
                compare(attribute.kind(), value(*attribute), Comparison::LessOrEqual, to),
            ]
            .into_iter()),
            Self::IsNull(attribute) => Some(value(*attribute).is_none()),
            Self::StartsWith(attribute, prefix) => {
                search(attribute.kind(), value(*attribute), |text| text.starts_with(prefix))
            }
            Self::Like(attribute, pattern) => search(attribute.kind(), value(*attribute), |text| fits(text, pattern)),
        }
    }

    /// Whether an attribute is mentioned anywhere.
    pub fn mentions(&self, attribute: Attribute) -> bool {
        let mut found = false;
        self.each_attribute(&mut |mentioned| found |= mentioned == attribute);
        found
    }

    /// Visits every mention of an attribute.
    pub fn each_attribute(&self, visit: &mut dyn FnMut(Attribute)) {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.each_attribute(visit)),
            Self::Not(part) => part.each_attribute(visit),
            Self::Compare(attribute, ..)
            | Self::In(attribute, _)
            | Self::Between(attribute, ..)
            | Self::IsNull(attribute)
            | Self::StartsWith(attribute, _)
            | Self::Like(attribute, _) => visit(*attribute),
        }
    }
}

impl Comparison {
    /// Whether it holds for a value that is ordered so to the one it is compared with.
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl Value {
    /// How two values of the same kind are ordered; `None` if they are of different kinds. Numbers of different types
    /// are compared exactly.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(int), Self::Double(double)) => int_with_double(*int, *double),
            (Self::Double(double), Self::Int(int)) => int_with_double(*int, *double).map(Ordering::reverse),
            (Self::Text(one), Self::Text(two)) => Some(one.cmp(two)),
            (Self::List(one), Self::List(two)) => Some(one.cmp(two)),
            (Self::Int(one), Self::Int(two)) => Some(one.cmp(two)),
            (Self::Double(one), Self::Double(two)) => one.partial_cmp(two),
            (Self::Bool(one), Self::Bool(two)) => Some(one.cmp(two)),
            _ => None,
        }
    }
}

fn all(truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut outcome = Some(true);
    for truth in truths {
        match truth {
            Some(false) => return Some(false),
            Some(true) => {}
            None => outcome = None,
        }
    }
    outcome
}

fn any(truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    all(truths.map(|truth| truth.map(|truth| !truth))).map(|truth| !truth)
}

fn compare(kind: Kind, value: Option<Value>, comparison: Comparison, wanted: &Value) -> Option<bool> {
    if comparison == Comparison::NotEqual {
        return compare(kind, value, Comparison::Equal, wanted).map(|truth| !truth);
    }
    match (kind, &value, wanted) {
        (Kind::KeywordList, Some(Value::List(items)), Value::Text(wanted)) => {
            Some(items.iter().any(|item| comparison.holds(item.cmp(wanted))))
        }
        (Kind::Text, Some(Value::Text(text)), Value::Text(wanted)) if comparison == Comparison::Equal => {
            Some(contains_word(text, wanted))
        }
        (Kind::KeywordList | Kind::Text, None, _) => Some(false),
        (_, Some(value), wanted) => value.compare(wanted).map(|ordering| comparison.holds(ordering)),
        (_, None, _) => None,
    }
}

fn search(kind: Kind, value: Option<Value>, found: impl Fn(&str) -> bool) -> Option<bool> {
    match (kind, value) {
        (_, Some(Value::Text(text))) => Some(found(&text)),
        (_, Some(Value::List(items))) => Some(items.iter().any(|item| found(item))),
        (Kind::KeywordList | Kind::Text, None) => Some(false),
        _ => None,
    }
}

/// Exact: turning the integer into a double could make different numbers equal.
fn int_with_double(int: i64, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // 2^63 is a double; every double below it has a whole part that is an i64.
    const END: f64 = 9_223_372_036_854_775_808.0;
    if double >= END {
        return Some(Ordering::Less);
    }
    if double < -END {
        return Some(Ordering::Greater);
    }
    let whole = double.trunc();
    Some(int.cmp(&(whole as i64)).then_with(|| 0.0_f64.total_cmp(&(double - whole + 0.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_doubles_compare_exactly() {
        let cases = [
            (5, 5.0, Ordering::Equal),
            (5, 5.5, Ordering::Less),
            (-5, -5.5, Ordering::Greater),
            (0, -0.0, Ordering::Equal),
            (0, -0.5, Ordering::Greater),
            (9_007_199_254_740_993, 9_007_199_254_740_992.0, Ordering::Greater),
            (i64::MAX, 9_223_372_036_854_775_808.0, Ordering::Less),
            (i64::MIN, -9_223_372_036_854_775_808.0, Ordering::Equal),
            (i64::MIN, -1e300, Ordering::Greater),
            (i64::MAX, f64::INFINITY, Ordering::Less),
        ];
        for (int, double, wanted) in cases {
            assert_eq!(Value::Int(int).compare(&Value::Double(double)), Some(wanted), "{int} {double}");
            assert_eq!(Value::Double(double).compare(&Value::Int(int)), Some(wanted.reverse()), "{double} {int}");
        }
        assert_eq!(Value::Int(1).compare(&Value::Text("1".to_owned())), None);
    }
}
