//! Durations as options write them: `"30s"`, `"1h30m"`, `"250ms"`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The longest duration that the wire has: about 10,000 years.
const LONGEST_MS: u64 = 315_576_000_000 * 1_000;

/// Reads a duration. The error is a sentence for the user.
pub fn parse(text: &str) -> Result<Duration, String> {
    let form = "a duration is written as \"30s\", \"1h30m\" or \"250ms\" (units: ms, s, m, h, d)";
    if text.is_empty() {
        return Err(form.to_owned());
    }
    let mut rest = text;
    let mut total_ms = 0u64;
    let mut smallest = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        let Some((_, unit_ms)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(form.to_owned());
        };
        let Ok(number) = number.parse::<u64>() else {
            return Err(form.to_owned());
        };
        if *unit_ms >= smallest {
            return Err(format!("the units of \"{text}\" must get smaller from left to right, each used once"));
        }
        smallest = *unit_ms;
        total_ms = number.checked_mul(*unit_ms).and_then(|part| total_ms.checked_add(part)).unwrap_or(u64::MAX);
        rest = after;
    }
    match total_ms {
        0 => Err("a duration must be longer than zero".to_owned()),
        1..=LONGEST_MS => Ok(Duration::from_millis(total_ms)),
        _ => Err(format!("\"{text}\" is too long: at most 10,000 years")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse("2d1ms"), Ok(Duration::from_millis(172_800_001)));
    }

    #[test]
    fn mistakes() {
        for wrong in ["", "30", "s", "1 h", "1x", "-1s", "1.5s", "1h30"] {
            assert!(parse(wrong).is_err_and(|error| error.starts_with("a duration is written")), "{wrong:?}");
        }
        assert!(parse("0s").is_err_and(|error| error.contains("longer than zero")));
        assert!(parse("1m1h").is_err_and(|error| error.contains("smaller")));
        assert!(parse("1s1s").is_err_and(|error| error.contains("once")));
        assert!(parse("99999999999999999d").is_err_and(|error| error.contains("too long")));
    }
}
