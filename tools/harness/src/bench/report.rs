//! Readings of a benchmark: medians over repeats, side by side, as a table for people and as JSON for machines.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// Columns that others are compared with, in the order of the table.
pub const COLUMNS: [&str; 3] = ["segno", "temporal", "segno-memory"];

/// Readings by measure and server, in the order they first came.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

struct Row {
    measure: String,
    readings: [Vec<f64>; COLUMNS.len()],
}

impl Report {
    /// Adds one reading.
    pub fn add(&mut self, server: &str, measure: &str, value: f64) {
        let at = match self.rows.iter().position(|row| row.measure == measure) {
            Some(at) => at,
            None => {
                self.rows.push(Row { measure: measure.to_owned(), readings: Default::default() });
                self.rows.len() - 1
            }
        };
        let column = COLUMNS.iter().position(|name| *name == server).expect("servers are named after the columns");
        self.rows[at].readings[column].push(value);
    }

    /// All measures that a server has readings of, with their medians.
    pub fn medians(&self) -> impl Iterator<Item = (&str, [Option<f64>; COLUMNS.len()])> {
        self.rows.iter().map(|row| (row.measure.as_str(), row.medians()))
    }

    /// Prints the table; columns without a reading are left out.
    pub fn print(&self) {
        let shown: Vec<usize> =
            (0..COLUMNS.len()).filter(|column| self.rows.iter().any(|row| !row.readings[*column].is_empty())).collect();
        let width = self.rows.iter().map(|row| row.measure.len()).max().unwrap_or(0) + 2;
        let names: String = shown.iter().map(|column| format!("{:>14}", COLUMNS[*column])).collect();
        println!("\n{:<width$}{names}{:>16}", "median", "segno/temporal");
        for (measure, medians) in self.medians() {
            let cells: String = shown.iter().map(|column| format!("{:>14}", cell(medians[*column]))).collect();
            let both = medians[0].zip(medians[1]).filter(|(_, below)| *below != 0.0);
            println!("{measure:<width$}{cells}{:>16}", cell(both.map(|(above, below)| above / below)));
        }
    }

    /// All readings and their medians, and the machine they were taken on.
    pub fn json(&self) -> Result<String> {
        let mut measures = Map::new();
        for row in &self.rows {
            let mut sides = Map::new();
            for (name, readings) in COLUMNS.iter().zip(&row.readings).filter(|(_, readings)| !readings.is_empty()) {
                sides.insert((*name).to_owned(), json!({ "median": median(readings), "readings": readings }));
            }
            measures.insert(row.measure.clone(), Value::Object(sides));
        }
        // A list keeps the order of the table, which a map of serde_json does not.
        let order: Vec<&str> = self.rows.iter().map(|row| row.measure.as_str()).collect();
        let whole = json!({ "machine": machine(), "order": order, "measures": measures });
        Ok(serde_json::to_string_pretty(&whole)? + "\n")
    }

    /// A report from its JSON; medians come out as they went in.
    pub fn from_json(text: &str) -> Result<Self> {
        let whole: Value = serde_json::from_str(text).context("not the JSON of a benchmark")?;
        let mut report = Self::default();
        for measure in whole["order"].as_array().context("no `order`")?.iter().filter_map(Value::as_str) {
            for server in COLUMNS {
                let readings = whole["measures"][measure][server]["readings"].as_array();
                for value in readings.into_iter().flatten().filter_map(Value::as_f64) {
                    report.add(server, measure, value);
                }
            }
        }
        Ok(report)
    }
}

impl Row {
    fn medians(&self) -> [Option<f64>; COLUMNS.len()] {
        std::array::from_fn(|column| median(&self.readings[column]))
    }
}

/// What a reader needs to know of the machine.
fn machine() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split(':').nth(1).unwrap_or_default().trim().to_owned()
    };
    json!({
        "cpu": after(&read("/proc/cpuinfo"), "model name"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": after(&read("/proc/meminfo"), "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Three significant digits.
pub fn cell(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) if value.abs() >= 1.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn json_comes_back_as_it_went() {
        let mut report = Report::default();
        report.add("segno", "z rate", 2.0);
        report.add("segno", "z rate", 4.0);
        report.add("temporal", "a rate", 1.0);
        let again = Report::from_json(&report.json().expect("finite")).expect("readable");
        let rows: Vec<_> = again.medians().collect();
        assert_eq!(rows[0], ("z rate", [Some(3.0), None, None]));
        assert_eq!(rows[1], ("a rate", [None, Some(1.0), None]));
    }
}
