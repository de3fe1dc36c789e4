//! Readings of a benchmark: medians over repeats, side by side, as a table for people and as JSON for machines.

use std::fmt::Write;

/// Readings by measure and server, in the order they first came.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

struct Row {
    measure: String,
    segno: Vec<f64>,
    temporal: Vec<f64>,
}

impl Report {
    /// Adds one reading.
    pub fn add(&mut self, server: &str, measure: &str, value: f64) {
        let at = match self.rows.iter().position(|row| row.measure == measure) {
            Some(at) => at,
            None => {
                self.rows.push(Row { measure: measure.to_owned(), segno: vec![], temporal: vec![] });
                self.rows.len() - 1
            }
        };
        let row = &mut self.rows[at];
        if server == "segno" { &mut row.segno } else { &mut row.temporal }.push(value);
    }

    /// Prints the table.
    pub fn print(&self) {
        println!("\n{:<52}{:>12}{:>12}{:>18}", "median", "segno", "temporal", "segno/temporal");
        for row in &self.rows {
            let (segno, temporal) = (median(&row.segno), median(&row.temporal));
            let ratio = segno.zip(temporal).filter(|(_, below)| *below != 0.0).map(|(above, below)| above / below);
            println!("{:<52}{:>12}{:>12}{:>18}", row.measure, cell(segno), cell(temporal), cell(ratio));
        }
    }

    /// All readings and their medians.
    pub fn json(&self) -> String {
        let mut text = String::from("{\n");
        for (index, row) in self.rows.iter().enumerate() {
            let comma = if index + 1 < self.rows.len() { "," } else { "" };
            let side = |values: &[f64]| {
                let list: Vec<String> = values.iter().map(|value| number(*value)).collect();
                let middle = median(values).map_or("null".to_owned(), number);
                format!("{{\"median\": {middle}, \"readings\": [{}]}}", list.join(", "))
            };
            let (segno, temporal) = (side(&row.segno), side(&row.temporal));
            // Writing into a string cannot fail.
            let _ = writeln!(text, "  \"{}\": {{\"segno\": {segno}, \"temporal\": {temporal}}}{comma}", row.measure);
        }
        text.push_str("}\n");
        text
    }
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

/// A number as JSON has it, which knows no infinities.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.4}") } else { "null".to_owned() }
}

/// Three significant digits.
fn cell(value: Option<f64>) -> String {
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
    fn medians_and_json() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[]), None);
        let mut report = Report::default();
        report.add("segno", "rate", 2.0);
        let expected = "{\n  \"rate\": {\"segno\": {\"median\": 2.0000, \"readings\": [2.0000]}, \
                        \"temporal\": {\"median\": null, \"readings\": []}}\n}\n";
        assert_eq!(report.json(), expected);
    }
}
