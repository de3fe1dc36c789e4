//! Search attributes with their types.

use std::{
    fmt,
    marker::PhantomData,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

/// A search attribute with its type: `const REGION: SearchAttribute<String> = SearchAttribute::keyword("Region");`.
///
/// ```
/// # use segno_sdk::prelude::*;
/// # use segno_sdk::SearchAttribute;
/// const REGION: SearchAttribute<String> = SearchAttribute::keyword("Region");
/// const CENTS: SearchAttribute<i64> = SearchAttribute::int("Cents");
///
/// #[workflow]
/// async fn order(ctx: Context, cents: i64) -> Result<()> {
///     ctx.upsert_search_attributes([CENTS.set(cents), REGION.unset()]);
///     let region: Option<String> = REGION.of(&ctx.info());
///     # let _ = region;
///     Ok(())
/// }
///
/// let options = StartOptions { search_attributes: vec![REGION.set("eu".to_string())], ..StartOptions::new("order-1") };
/// # let _ = options;
/// ```
pub struct SearchAttribute<T> {
    name: &'static str,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for SearchAttribute<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SearchAttribute<T> {}

impl<T> fmt::Debug for SearchAttribute<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SearchAttribute({:?})", self.name)
    }
}

impl<T> SearchAttribute<T> {
    const fn named(name: &'static str) -> Self {
        Self { name, marker: PhantomData }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Removes the value, when a workflow upserts it.
    pub fn unset(&self) -> (String, Value) {
        (self.name.to_owned(), Value::Null)
    }
}

impl SearchAttribute<String> {
    /// A text that is found as a whole.
    pub const fn keyword(name: &'static str) -> Self {
        Self::named(name)
    }

    /// A text that is found by its words.
    pub const fn text(name: &'static str) -> Self {
        Self::named(name)
    }
}

impl SearchAttribute<Vec<String>> {
    /// Several texts that are found each as a whole.
    pub const fn keyword_list(name: &'static str) -> Self {
        Self::named(name)
    }
}

impl SearchAttribute<i64> {
    /// A whole number.
    pub const fn int(name: &'static str) -> Self {
        Self::named(name)
    }
}

impl SearchAttribute<f64> {
    /// A number.
    pub const fn double(name: &'static str) -> Self {
        Self::named(name)
    }
}

impl SearchAttribute<bool> {
    /// True or false.
    pub const fn bool(name: &'static str) -> Self {
        Self::named(name)
    }
}

impl SearchAttribute<SystemTime> {
    /// A time.
    pub const fn datetime(name: &'static str) -> Self {
        Self::named(name)
    }
}

/// A type of search attributes.
pub trait SearchValue: Sized {
    /// For the wire.
    fn to_value(self) -> Value;
    /// From the wire; `None` if it is of another type.
    fn from_value(value: &Value) -> Option<Self>;
}

impl<T: SearchValue> SearchAttribute<T> {
    /// Name and value, for [`StartOptions::search_attributes`](crate::StartOptions::search_attributes) and
    /// [`Context::upsert_search_attributes`](crate::Context::upsert_search_attributes).
    pub fn set(&self, value: T) -> (String, Value) {
        (self.name.to_owned(), value.to_value())
    }

    /// The value that a run was started with, or that is described.
    pub fn of(&self, there: &impl HasSearchAttributes) -> Option<T> {
        there.search_value(self.name).as_ref().and_then(T::from_value)
    }
}

/// A type with search attributes: [`WorkflowInfo`](crate::WorkflowInfo) and
/// [`WorkflowDescription`](crate::WorkflowDescription).
pub trait HasSearchAttributes {
    /// The value of one.
    fn search_value(&self, name: &str) -> Option<Value>;
}

impl HasSearchAttributes for crate::WorkflowInfo {
    fn search_value(&self, name: &str) -> Option<Value> {
        self.search_attribute(name)
    }
}

impl HasSearchAttributes for crate::WorkflowDescription {
    fn search_value(&self, name: &str) -> Option<Value> {
        self.search_attribute(name).ok().flatten()
    }
}

/// The type that [`Context::info`](crate::Context::info) returns.
impl<T: HasSearchAttributes> HasSearchAttributes for std::sync::Arc<T> {
    fn search_value(&self, name: &str) -> Option<Value> {
        self.as_ref().search_value(name)
    }
}

impl SearchValue for String {
    fn to_value(self) -> Value {
        self.into()
    }
    fn from_value(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl SearchValue for Vec<String> {
    fn to_value(self) -> Value {
        self.into()
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            // A list of one may come back as its only value.
            Value::String(one) => Some(vec![one.clone()]),
            _ => value.as_array()?.iter().map(String::from_value).collect(),
        }
    }
}

impl SearchValue for i64 {
    fn to_value(self) -> Value {
        self.into()
    }
    fn from_value(value: &Value) -> Option<Self> {
        value.as_i64()
    }
}

impl SearchValue for f64 {
    fn to_value(self) -> Value {
        self.into()
    }
    fn from_value(value: &Value) -> Option<Self> {
        value.as_f64()
    }
}

impl SearchValue for bool {
    fn to_value(self) -> Value {
        self.into()
    }
    fn from_value(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl SearchValue for SystemTime {
    fn to_value(self) -> Value {
        rfc3339(self).into()
    }
    fn from_value(value: &Value) -> Option<Self> {
        parse_rfc3339(value.as_str()?)
    }
}

/// `2026-11-17T16:30:00.000000000Z`; times before 1970 are 1970.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(i64::try_from(days).unwrap_or(i64::MAX / 2));
    let (hour, minute, second) = (rest / 3_600, rest % 3_600 / 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z", since.subsec_nanos())
}

fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let days = days_since_epoch(number(0..4)?, number(5..7)?, number(8..10)?);
    let seconds = number(11..13)? * 3_600 + number(14..16)? * 60 + number(17..19)?;
    let rest = text.get(19..)?;
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let digits = rest[..zone].strip_prefix('.').unwrap_or_default();
    let nanos: u32 = if digits.is_empty() { 0 } else { format!("{digits:0<9}").get(..9)?.parse().ok()? };
    let offset = match &rest[zone..] {
        "Z" | "z" => 0,
        shift => {
            let (hours, minutes) = shift.get(1..)?.split_once(':')?;
            let shifted = hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60;
            if shift.starts_with('-') { -shifted } else { shifted }
        }
    };
    let seconds = u64::try_from(days * 86_400 + seconds - offset).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

/// Days of the Gregorian calendar, counted in years that begin in March, so that a leap day comes last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

/// The reverse: year, month, day.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    // An estimate that is right or one year too late.
    let mut year = (days * 400).div_euclid(146_097);
    let start = |year: i64| days_since_epoch(year, 3, 1) + 719_468;
    while start(year) > days {
        year -= 1;
    }
    while start(year + 1) <= days {
        year += 1;
    }
    let of_year = days - start(year);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000000Z"),
            (1_794_933_000, "2026-11-17T16:30:00.000000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(rfc3339(time), text);
            assert_eq!(parse_rfc3339(text), Some(time));
        }
        for day in 0..80_000_i64 {
            let (year, month, date) = civil(day);
            assert_eq!(days_since_epoch(year, month, date), day);
        }
        let time = UNIX_EPOCH + Duration::new(1_794_933_000, 500_000_000);
        assert_eq!(parse_rfc3339("2026-11-17T17:30:00.5+01:00"), Some(time));
        assert_eq!(parse_rfc3339("2026-11-17"), None);
    }

    #[test]
    fn values_have_the_type_of_their_attribute() {
        const SIZE: SearchAttribute<i64> = SearchAttribute::int("Size");
        const TAGS: SearchAttribute<Vec<String>> = SearchAttribute::keyword_list("Tags");
        assert_eq!(SIZE.set(5), ("Size".to_owned(), Value::from(5)));
        assert_eq!(TAGS.unset(), ("Tags".to_owned(), Value::Null));
        assert_eq!(Vec::<String>::from_value(&Value::from("one")), Some(vec!["one".to_owned()]));
        assert_eq!(i64::from_value(&Value::from("5")), None);
    }
}
