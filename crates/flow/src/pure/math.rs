//! Functions of `Math`. They give the exact integer where it fits, else a double.

use std::cmp::Ordering;

use crate::library::Function;
use crate::value::{Kind, LanguageError, Value};

use super::arguments::{get, must_be, within};
use super::{Cost, number};

pub(super) fn call(function: Function, arguments: &[Value], cost: &mut Cost) -> Result<Value, LanguageError> {
    let name = function.signature().name;
    let value = get(arguments, 0);
    match function {
        Function::MathMin => return extreme(name, arguments, Ordering::Less, cost),
        Function::MathMax => return extreme(name, arguments, Ordering::Greater, cost),
        _ => {}
    }
    let Some(x) = number::double(value) else {
        return Err(must_be(name, "the argument", "a number"));
    };
    let result = match (function, value) {
        (Function::MathAbs, Value::Int(n)) => {
            return Ok(n.checked_abs().map_or(Value::Float(-(i64::MIN as f64)), Value::Int));
        }
        (Function::MathAbs, _) => x.abs(),
        (Function::MathSign, Value::Int(n)) => return Ok(Value::Int(n.signum())),
        (Function::MathSign, _) => x.signum(),
        (Function::MathSqrt, Value::Int(n)) => match n.checked_isqrt() {
            Some(root) if root * root == *n => return Ok(Value::Int(root)),
            _ => x.sqrt(),
        },
        (Function::MathSqrt, _) => x.sqrt(),
        (Function::MathPow, _) => return pow(name, value, get(arguments, 1)),
        (Function::MathRound, _) => {
            let digits = within(name, "digits", get(arguments, 1), (0, 100), 0)?;
            if matches!(value, Value::Int(_)) {
                return Ok(value.clone());
            }
            cost.touch(1_000);
            number::fixed(value, digits).parse().unwrap_or(x)
        }
        (_, Value::Int(_)) => return Ok(value.clone()),
        (Function::MathCeil, _) => x.ceil(),
        (Function::MathFloor, _) => x.floor(),
        _ => x.trunc(),
    };
    number::exact(result).ok_or_else(|| not_a_number(name, &[value]))
}

fn pow(name: &str, base: &Value, exponent: &Value) -> Result<Value, LanguageError> {
    let (Some(x), Some(y)) = (number::double(base), number::double(exponent)) else {
        return Err(must_be(name, "the exponent", "a number"));
    };
    if let (Value::Int(base), Value::Int(exponent)) = (base, exponent)
        && let Ok(exponent) = u32::try_from(*exponent)
        && let Some(result) = base.checked_pow(exponent)
    {
        return Ok(Value::Int(result));
    }
    if let (Value::Int(base @ (-1..=1)), Value::Int(exponent)) = (base, exponent)
        && *exponent > 0
    {
        // As doubles large exponents would all be even.
        return Ok(Value::Int(if *base == -1 && exponent % 2 == 0 { 1 } else { *base }));
    }
    number::exact(x.powf(y)).ok_or_else(|| not_a_number(name, &[base, exponent]))
}

fn extreme(name: &str, arguments: &[Value], wanted: Ordering, cost: &mut Cost) -> Result<Value, LanguageError> {
    let items = match arguments {
        [Value::List(list)] => list.items(),
        arguments => arguments,
    };
    cost.touch(items.len());
    let Some(mut best) = items.first() else {
        return Err(LanguageError::argument(format!("{name}: there are no numbers")));
    };
    for item in items {
        match number::order(item, best) {
            Some(order) if order == wanted => best = item,
            Some(_) => {}
            None => return Err(must_be(name, "all arguments", "numbers")),
        }
    }
    Ok(best.clone())
}

fn not_a_number(name: &str, arguments: &[&Value]) -> LanguageError {
    let arguments: Vec<String> = arguments.iter().map(|value| number::text(value)).collect();
    LanguageError::new(Kind::Number, format!("{name}({}) is not a number", arguments.join(", ")))
}
