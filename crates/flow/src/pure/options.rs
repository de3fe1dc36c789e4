//! Checks of options at run time.

use crate::library::{OptionType, Options, RETRY};
use crate::value::{LanguageError, Value};

use super::{duration, number, time};

/// Queues of the server itself begin with this.
const RESERVED_QUEUES: &str = "/_sys/";

/// The options that were given, in the order of the table. Null means not given. Unknown names and wrong types are
/// refused.
pub fn check(function: &str, value: &Value, table: Options) -> Result<Vec<(&'static str, Value)>, LanguageError> {
    let fields = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Object(fields) => fields,
        _ => return Err(LanguageError::argument(format!("{function}: the options must be an object"))),
    };
    for (key, _) in fields.iter() {
        if !table.iter().any(|(name, _)| *name == &**key) {
            return Err(LanguageError::argument(format!("{function}: unknown option \"{key}\"")));
        }
    }
    let mut given = Vec::new();
    for (name, option_type) in table {
        let Some(value) = fields.get(name).filter(|value| !matches!(value, Value::Null)) else { continue };
        if let Err(why) = is_of(function, name, value, *option_type) {
            return Err(match why {
                OptionError::Wanted(wanted) => LanguageError::argument(format!("{function}: {name} must be {wanted}")),
                OptionError::LanguageError(raised) => raised,
            });
        }
        given.push((*name, value.clone()));
    }
    Ok(given)
}

enum OptionError {
    Wanted(String),
    LanguageError(LanguageError),
}

fn is_of(function: &str, name: &str, value: &Value, option_type: OptionType) -> Result<(), OptionError> {
    let wanted = |is_right: bool, what: &str| if is_right { Ok(()) } else { Err(OptionError::Wanted(what.to_owned())) };
    match option_type {
        OptionType::Any => Ok(()),
        OptionType::Duration | OptionType::Timeout => match duration::parse(value, function) {
            Ok(0) if option_type == OptionType::Timeout => wanted(false, "at least 1ms"),
            Ok(_) => Ok(()),
            Err(raised) => Err(OptionError::LanguageError(named(function, name, raised))),
        },
        OptionType::Text => match (name, value) {
            ("id" | "queue" | "run_id", Value::Str(text)) if text.len() > 1_000 => {
                wanted(false, "of at most 1000 bytes")
            }
            ("queue", Value::Str(text)) => {
                wanted(!text.starts_with(RESERVED_QUEUES), "a name that does not begin with \"/_sys/\"")
            }
            ("run_id", Value::Str(text)) => wanted(text.is_empty() || is_run_id(text), "the id of a run"),
            (_, Value::Str(_)) => Ok(()),
            _ => wanted(false, "a string"),
        },
        OptionType::Integer(least, most) => {
            let is_right = matches!(value, Value::Int(number) if (least..=most).contains(number));
            wanted(is_right, &integer_range(least, most))
        }
        OptionType::Bool => wanted(matches!(value, Value::Bool(_)), "true or false"),
        OptionType::List => wanted(matches!(value, Value::List(_)), "a list"),
        OptionType::Object => wanted(matches!(value, Value::Object(_)), "an object"),
        OptionType::OneOf(words) => {
            let is_right = matches!(value, Value::Str(text) if words.contains(&&**text));
            let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
            wanted(is_right, &words.join(" or "))
        }
        OptionType::Retry => match value {
            Value::Bool(false) => Ok(()),
            Value::Int(attempts) => wanted((0..=i64::from(i32::MAX)).contains(attempts), "from 0 to 2147483647"),
            Value::Object(_) => {
                let given = check(function, value, RETRY).map_err(OptionError::LanguageError)?;
                let interval = |wanted: &str| {
                    let found = given.iter().find(|(name, _)| *name == wanted);
                    found.and_then(|(_, value)| duration::parse(value, function).ok())
                };
                // The first interval is one second unless told otherwise.
                let first = interval("initial_interval").unwrap_or(1_000);
                let fits = interval("max_interval").is_none_or(|most| most >= first);
                let why =
                    || LanguageError::argument(format!("{function}: max_interval must be at least initial_interval"));
                if fits { Ok(()) } else { Err(OptionError::LanguageError(why())) }
            }
            _ => wanted(false, "false, a number of attempts or an object"),
        },
        OptionType::Texts => {
            let is_right =
                matches!(value, Value::List(list) if list.items().iter().all(|item| matches!(item, Value::Str(_))));
            wanted(is_right, "a list of strings")
        }
        OptionType::Headers => {
            let is_text = |(_, value): (_, &Value)| matches!(value, Value::Str(_));
            let is_right = matches!(value, Value::Object(fields) if fields.iter().all(is_text));
            wanted(is_right, "an object of strings")
        }
        OptionType::Factor => {
            wanted(number::double(value).is_some_and(|number| number >= 1.0), "a number of at least 1")
        }
        OptionType::Zone => wanted(matches!(value, Value::Str(text) if time::is_zone(text)), "the name of a time zone"),
        OptionType::Cron => wanted(matches!(value, Value::Str(text) if is_cron(text)), "a cron text"),
    }
}

/// Whether a text is a cron schedule that fires at some time.
#[must_use]
pub fn is_cron(text: &str) -> bool {
    !text.is_empty() && segno_cron::validate(text).is_ok()
}

/// Whether a text has the form of a run id.
fn is_run_id(text: &str) -> bool {
    let is_right = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

/// `Task.run: start_to_close: "5 min" is not a duration`.
fn named(function: &str, name: &str, raised: LanguageError) -> LanguageError {
    let why = raised.message.strip_prefix(&format!("{function}: ")).unwrap_or(&raised.message).to_owned();
    LanguageError::argument(format!("{function}: {name}: {why}"))
}

fn integer_range(least: i64, most: i64) -> String {
    if most >= i64::from(i32::MAX) {
        format!("a whole number of at least {least}")
    } else {
        format!("a whole number from {least} to {most}")
    }
}
