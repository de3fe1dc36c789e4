//! A chart of rates for people who will not read a table: one row per workload, one bar per server, as SVG.
//!
//! Bars are to scale within a row, not between rows: an empty workflow and a fan-out of a hundred have no common scale.

use std::fmt::Write;

use super::report::{COLUMNS, Report, cell};

/// Ending of what is drawn, beside a few others: rates with many operations under way.
const DRAWN: &str = ", 64 at a time";
const WIDTH: f64 = 760.0;
const LEFT: f64 = 190.0;
const BAR_MAX: f64 = 420.0;
const BAR: f64 = 13.0;
const GAP: f64 = 12.0;
const TOP: f64 = 64.0;
const COLOURS: [&str; COLUMNS.len()] = ["#2f6f4f", "#b0793a", "#7fb79a"];
const NAMES: [&str; COLUMNS.len()] = ["Segno", "Temporal's dev server", "Segno in memory"];

/// One row: its name, its unit, and the rate of each server.
struct Row {
    name: String,
    unit: String,
    rates: [Option<f64>; COLUMNS.len()],
}

/// Draws the rates of a report.
pub fn draw(report: &Report) -> String {
    let rows: Vec<Row> = report.medians().filter_map(|(measure, rates)| row(measure, rates)).collect();
    let mut body = String::new();
    let mut y = TOP;
    for row in &rows {
        let best = row.rates.iter().flatten().fold(0.0_f64, |best, rate| best.max(*rate));
        let bars = row.rates.iter().flatten().count() as f64;
        let middle = y + bars * BAR / 2.0 + 4.0;
        line(&mut body, LEFT - 10.0, middle, "end", "#222", &row.name);
        for (column, rate) in row.rates.iter().enumerate().filter_map(|(column, rate)| Some((column, (*rate)?))) {
            let length = (rate / best * BAR_MAX).max(1.0);
            let colour = COLOURS[column];
            let height = BAR - 2.0;
            // Writing into a string cannot fail.
            let _ = writeln!(
                body,
                r#"<rect x="{LEFT}" y="{y:.1}" width="{length:.1}" height="{height}" fill="{colour}"/>"#
            );
            let text = format!("{} {}", cell(Some(rate)), row.unit);
            line(&mut body, LEFT + length + 6.0, y + BAR - 3.5, "start", "#444", &text);
            y += BAR;
        }
        y += GAP;
    }
    let mut legend = String::new();
    let mut x = LEFT;
    for column in (0..COLUMNS.len()).filter(|column| rows.iter().any(|row| row.rates[*column].is_some())) {
        let _ = writeln!(legend, r#"<rect x="{x}" y="36" width="11" height="11" fill="{}"/>"#, COLOURS[column]);
        line(&mut legend, x + 16.0, 46.0, "start", "#222", NAMES[column]);
        x += 32.0 + NAMES[column].len() as f64 * 6.6;
    }
    let title = "Operations per second, 64 at a time (longer is better; bars are to scale within a row)";
    let mut head = String::new();
    line(&mut head, 16.0, 22.0, "start", "#222", title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y:.0}\" viewBox=\"0 0 {WIDTH} {y:.0}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         {head}{legend}{body}</svg>\n"
    )
}

/// The row of a measure, when it is a rate to be drawn and more than one server has it.
fn row(measure: &str, rates: [Option<f64>; COLUMNS.len()]) -> Option<Row> {
    let (what, unit) = measure.split_once(": ")?;
    let name = match what {
        "timers, woken" => "timers due at once",
        "backlog, drained" => "backlog of activities",
        _ => what.strip_suffix(DRAWN)?,
    };
    let drawn = rates.iter().flatten().count() > 1 && unit.ends_with("s/s");
    drawn.then(|| Row { name: name.replace('-', " "), unit: unit.to_owned(), rates })
}

fn line(out: &mut String, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{colour}">{text}</text>"#);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_drawn_and_nothing_else() {
        let mut report = Report::default();
        for (server, rate) in [("segno", 1_000.0), ("temporal", 20.0)] {
            report.add(server, "one-activity, 64 at a time: workflows/s", rate);
            report.add(server, "one-activity, 64 at a time: p50, ms", rate);
            report.add(server, "one-activity, 1 at a time: workflows/s", rate);
        }
        report.add("segno", "empty, 64 at a time: workflows/s", 5.0);
        let svg = draw(&report);
        let bars: Vec<&str> = svg.lines().filter(|line| line.contains("height=\"11\" fill")).collect();
        assert!(bars.iter().any(|bar| bar.contains("width=\"420.0\"")), "{svg}");
        assert!(bars.iter().any(|bar| bar.contains("width=\"8.4\"")), "{svg}");
        assert!(svg.contains("1000 workflows/s") && svg.contains("20.0 workflows/s"));
        assert!(!svg.contains("empty") && svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
