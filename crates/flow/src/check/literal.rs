//! Literal arguments and options: errors that would be an ArgumentError at run time are reported by the checker (F0208,
//! F0222).

use super::Checker;
use super::hints::foreign_option;
use crate::library::{Function, OptionType, Options, RETRY, Takes};
use crate::pure::{duration, options, time};
use crate::similar::{did_you_mean, similar};
use crate::syntax::token::Span;
use crate::syntax::tree::{Expr, ExprKind, ListItem, ObjectItem};
use crate::value::Value;

/// What a text must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Duration,
    Time,
    Zone,
    Cron,
}

impl Checker<'_> {
    /// Checks the literals among the arguments of a function of the library.
    pub fn check_literals(&mut self, function: Function, arguments: &[Expr]) {
        if function == Function::WaitForSignal
            && let Some(ExprKind::Str(name)) = arguments.first().map(|name| &name.bare().kind)
            && self.signals.contains(name)
        {
            self.error("F0219", format!("signal \"{name}\" has a handler"), arguments[0].span);
        }
        for (parameter, argument) in function.signature().params.iter().zip(arguments) {
            let text = match parameter.takes {
                Takes::Duration | Takes::Span => Text::Duration,
                Takes::Time => Text::Time,
                Takes::Zone => Text::Zone,
                _ => continue,
            };
            self.check_text(argument, text);
        }
        if let Some((place, options)) = function.signature().options
            && let Some(argument) = arguments.get(place)
        {
            self.check_options(argument, options);
        }
    }

    fn check_text(&mut self, argument: &Expr, text: Text) {
        let argument = argument.bare();
        let fine = match &argument.kind {
            ExprKind::Str(value) => is_text(value, text),
            ExprKind::Int(_) | ExprKind::Float(_) if text == Text::Duration => is_duration(argument),
            ExprKind::Bool(_) | ExprKind::List(_) if text == Text::Duration => false,
            _ => true,
        };
        if !fine {
            self.not_a_text(argument.span);
        }
    }

    fn not_a_text(&mut self, span: Span) {
        self.error("F0222", "not a duration, time, zone or cron text", span);
    }

    /// Checks the cron text of `schedule`.
    pub fn check_cron(&mut self, cron: &str, span: Span) {
        if !is_text(cron, Text::Cron) {
            self.not_a_text(span);
        }
    }

    /// Checks options that are written as an object.
    pub fn check_options(&mut self, options: &Expr, table: Options) {
        let ExprKind::Object(items) = &options.bare().kind else { return };
        for item in items {
            let (key, value) = match item {
                ObjectItem::Field(key, value) => (key, Some(value)),
                ObjectItem::Short(key) => (key, None),
                ObjectItem::Computed(..) | ObjectItem::Spread(_) => continue,
            };
            match table.iter().find(|(name, _)| *name == &*key.text) {
                Some((name, kind)) => {
                    if let Some(value) = value {
                        self.check_option(name, *kind, value);
                    }
                }
                None => {
                    let names = || table.iter().map(|(name, _)| *name);
                    let meant = foreign_option(&key.text).filter(|meant| names().any(|name| name == *meant));
                    let hint = meant.or_else(|| similar(&key.text, names())).map(did_you_mean);
                    self.error_with("F0208", option_message(&key.text), key.span, hint);
                }
            }
        }
    }

    fn check_option(&mut self, name: &str, kind: OptionType, value: &Expr) {
        let value = value.bare();
        if !is_literal(value) || matches!(value.kind, ExprKind::Null) {
            return;
        }
        let text = match (kind, &value.kind) {
            (OptionType::Timeout, _) if is_zero(value) => None,
            (OptionType::Duration | OptionType::Timeout, ExprKind::Str(_) | ExprKind::Int(_) | ExprKind::Float(_)) => {
                Some(Text::Duration)
            }
            (OptionType::Zone, ExprKind::Str(_)) => Some(Text::Zone),
            (OptionType::Cron, ExprKind::Str(_)) => Some(Text::Cron),
            _ => None,
        };
        if let Some(text) = text {
            return self.check_text(value, text);
        }
        let is_text = matches!(value.kind, ExprKind::Str(_) | ExprKind::Template(_));
        let hint = match kind {
            OptionType::Timeout if is_zero(value) => "at least 1ms is needed".to_owned(),
            OptionType::Duration | OptionType::Timeout | OptionType::Zone | OptionType::Cron => {
                "a text is needed".to_owned()
            }
            OptionType::Any => return,
            OptionType::Text if is_text => return,
            OptionType::Text => "a string is needed".to_owned(),
            OptionType::Bool if matches!(value.kind, ExprKind::Bool(_)) => return,
            OptionType::Bool => "true or false is needed".to_owned(),
            OptionType::List if matches!(value.kind, ExprKind::List(_)) => return,
            OptionType::List => "a list is needed".to_owned(),
            OptionType::Object if matches!(value.kind, ExprKind::Object(_)) => return,
            OptionType::Object => "an object is needed".to_owned(),
            OptionType::Integer(from, to) => match value.kind {
                ExprKind::Int(number) if (from..=to).contains(&number) => return,
                _ if to < i64::from(i32::MAX) => format!("a whole number from {from} to {to} is needed"),
                _ => format!("a whole number of at least {from} is needed"),
            },
            OptionType::Factor => match value.kind {
                ExprKind::Int(number) if number >= 1 => return,
                ExprKind::Float(number) if number >= 1.0 => return,
                _ => "a number of at least 1 is needed".to_owned(),
            },
            OptionType::OneOf(texts) => match &value.kind {
                ExprKind::Str(text) if texts.contains(&&**text) => return,
                ExprKind::Template(_) => return,
                _ => format!("one of these is needed: \"{}\"", texts.join("\", \"")),
            },
            OptionType::Texts => match &value.kind {
                ExprKind::List(items) if items.iter().all(may_be_text) => return,
                _ => "a list of strings is needed".to_owned(),
            },
            OptionType::Headers => match &value.kind {
                ExprKind::Object(items) if items.iter().all(may_be_header) => return,
                _ => "an object of strings is needed".to_owned(),
            },
            OptionType::Retry => match &value.kind {
                ExprKind::Bool(false) => return,
                ExprKind::Int(number) if (0..=i64::from(i32::MAX)).contains(number) => return,
                ExprKind::Object(_) => return self.check_options(value, RETRY),
                _ => "false, a number of attempts, or an object is needed".to_owned(),
            },
        };
        self.error_with("F0208", option_message(name), value.span, Some(hint));
    }
}

fn option_message(name: &str) -> String {
    format!("unknown option \"{name}\", or wrong type of it")
}

/// Whether the type of an expression is known from the way it is written.
fn is_literal(expr: &Expr) -> bool {
    matches!(
        expr.kind,
        ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_)
            | ExprKind::Template(_)
            | ExprKind::List(_)
            | ExprKind::Object(_)
    )
}

fn may_be_text(item: &ListItem) -> bool {
    match item {
        ListItem::Spread(_) => true,
        ListItem::Item(item) => may_be_string(item),
    }
}

fn may_be_header(item: &ObjectItem) -> bool {
    match item {
        ObjectItem::Spread(_) | ObjectItem::Short(_) => true,
        ObjectItem::Field(_, value) | ObjectItem::Computed(_, value) => may_be_string(value),
    }
}

fn may_be_string(value: &Expr) -> bool {
    let value = value.bare();
    !is_literal(value) || matches!(value.kind, ExprKind::Str(_) | ExprKind::Template(_))
}

/// Whether a number of seconds is a duration.
fn is_duration(number: &Expr) -> bool {
    seconds(number).is_none_or(|value| duration::parse(&value, "").is_ok())
}

/// Whether a duration is less than a millisecond.
fn is_zero(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Str(text) => duration::parse_text(text) == Some(0),
        _ => seconds(value).is_some_and(|value| duration::parse(&value, "") == Ok(0)),
    }
}

fn seconds(number: &Expr) -> Option<Value> {
    match number.kind {
        ExprKind::Int(seconds) => Some(Value::Int(seconds)),
        ExprKind::Float(seconds) => Some(Value::float(seconds).unwrap_or(Value::Null)),
        _ => None,
    }
}

fn is_text(value: &str, text: Text) -> bool {
    match text {
        Text::Duration => duration::parse_text(value).is_some(),
        Text::Time => time::parse_text(value).is_some(),
        Text::Zone => time::is_zone(value),
        Text::Cron => options::is_cron(value),
    }
}
