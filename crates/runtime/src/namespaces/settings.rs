//! Settings of a namespace: entries of its data map whose names begin with `segno.`, so that every tool that can change
//! a namespace can change them (`temporal operator namespace update --data segno.update.in-flight-max=500`).

use std::collections::BTreeMap;

use segno_engine::update::UpdateLimits;

/// Names that mean something to the server.
const OURS: &str = "segno.";
const IN_FLIGHT: &str = "segno.update.in-flight-max";
const IN_FLIGHT_BYTES: &str = "segno.update.in-flight-bytes-max";
const TOTAL: &str = "segno.update.total-max";
const KNOWN: [&str; 3] = [IN_FLIGHT, IN_FLIGHT_BYTES, TOTAL];

/// What is set for a namespace, or holds by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Limits of updates.
    pub updates: UpdateLimits,
}

impl Settings {
    /// Reads the settings among a namespace's data; what is empty holds by default. Says what is wrong and what would
    /// be right.
    pub fn read(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut settings = Self::default();
        for (name, value) in data.iter().filter(|(name, value)| name.starts_with(OURS) && !value.is_empty()) {
            let limit = match name.as_str() {
                IN_FLIGHT => &mut settings.updates.in_flight,
                IN_FLIGHT_BYTES => &mut settings.updates.in_flight_bytes,
                TOTAL => &mut settings.updates.total,
                _ => return Err(format!("{name} is not a setting. Settings are {}.", KNOWN.join(", "))),
            };
            *limit = value
                .parse()
                .map_err(|_| format!("{name} must be a whole number, 0 for no limit, or empty for the default."))?;
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(&entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn other_data_means_nothing() {
        assert_eq!(read(&[("team", "blue"), ("segno", "x")]), Ok(Settings::default()));
    }

    #[test]
    fn settings_are_read_and_empty_means_default() {
        let set = read(&[(IN_FLIGHT, "7"), (IN_FLIGHT_BYTES, "1000"), (TOTAL, "")]).expect("they are right");
        let total = UpdateLimits::default().total;
        assert_eq!(set.updates, UpdateLimits { in_flight: 7, in_flight_bytes: 1000, total });
    }

    #[test]
    fn mistakes_are_named() {
        assert!(read(&[(TOTAL, "-1")]).is_err_and(|text| text.starts_with("segno.update.total-max must be")));
        assert!(read(&[("segno.updates", "1")]).is_err_and(|text| text.contains(TOTAL)));
    }
}
