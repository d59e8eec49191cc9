//! Figures as an Excel workbook: the tables of the CSV files, a sheet each, with numbers as
//! numbers, an empty cell for an unknown value, and charts that the spreadsheet draws itself.

pub use rust_xlsxwriter::XlsxError;
use rust_xlsxwriter::{Chart, ChartMarker, ChartType, DocProperties, Format, Workbook, Worksheet};

use super::csv as timeline;
use super::exact_rows::ExactRows;
use super::json::word;
use super::numbers::exact;
use petal_judge::petals::{Estimate, PetalLine, Petals, Point};
use petal_record::Run;
use petal_record::observation::Observation;

/// A sheet: a name, the names of its columns, its rows.
pub struct Sheet {
    name: &'static str,
    head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A chart of a sheet: its figure over a column, a series for each value of another one.
pub struct SheetChart<'a> {
    kind: ChartType,
    title: &'a str,
    x: &'a str,
    ys: &'a [&'a str],
    y_title: &'a str,
    /// Column that forms the series: rows with equal texts here are below each other.
    by: Option<&'a str>,
}

/// A workbook of runs, each with its name; `cells` are their rows.
pub fn runs(
    cells: ExactRows<'_>,
    all: &[(&str, &Run)],
    observations: &[Observation],
) -> Result<Vec<u8>, XlsxError> {
    let cells = Sheet::of("cells", cells);
    let mut seconds = Sheet::new("seconds", "run");
    for (name, run) in all {
        seconds.append(name, timeline::timeline(run));
    }
    let petals = petals_of(observations);
    let is_one = all.len() == 1;
    let over_time = |title, ys, y_title| SheetChart {
        kind: ChartType::ScatterStraight,
        title,
        x: "from_s",
        ys,
        y_title,
        by: Some("run").filter(|_| !is_one),
    };
    let of_seconds: &[SheetChart<'_>] = &[
        over_time("Operations over time", &["ops"], "operations in the second"),
        over_time(
            "Physical reads over time",
            &["physical_read_requests"],
            "requests in the second",
        ),
        over_time("Slowest SELECT over time", &["select_max_us"], "us"),
    ];
    let longest = SheetChart {
        kind: ChartType::Bar,
        title: "Where time went",
        x: "event",
        ys: &["time_s"],
        y_title: "s",
        by: None,
    };
    let of_waits = if is_one { vec![longest] } else { Vec::new() };
    written([
        (petals, &PETALS[..]),
        (cells, &[]),
        // A chart with more lines is unreadable.
        (seconds, if all.len() <= LINES_MAX { of_seconds } else { &[] }),
        (waits(all), &of_waits),
    ])
}

const LINES_MAX: usize = 12;

pub const PETALS: [SheetChart<'static>; 1] = [SheetChart {
    kind: ChartType::ScatterStraightWithMarkers,
    title: "Petals: single-block read latency by physical I/O",
    x: "piops",
    ys: &["read_us"],
    y_title: "mean single-block read, us",
    by: Some("line"),
}];

/// The means of each cell, a line of the petals after the other.
pub fn petals_of(observations: &[Observation]) -> Sheet {
    let mut sheet = Sheet::new(
        "petals",
        "line sessions piops piops_plus_minus read_us read_us_plus_minus mb_s ops_s op_p99_us_mean \
         repeats",
    );
    let mean = |seen: &Option<Estimate>| exact(seen.as_ref().map(|seen| seen.mean));
    let half = |seen: &Option<Estimate>| exact(seen.as_ref().and_then(|seen| seen.half_width));
    let row = |line: &PetalLine, point: &Point| {
        let repeats = exact(point.piops.as_ref().map(|seen| seen.values.len()));
        let (name, sessions) = (line.name.clone(), point.sessions.to_string());
        let (piops, read_us) = (&point.piops, &point.read_us);
        let figures = [mean(piops), half(piops), mean(read_us), half(read_us)];
        let others = [mean(&point.mb_s), mean(&point.ops_s), mean(&point.op_p99_us), repeats];
        [name, sessions].into_iter().chain(figures).chain(others).collect()
    };
    for line in &Petals::of(observations).lines {
        sheet.rows.extend(line.points.iter().map(|point| row(line, point)));
    }
    sheet
}

fn waits(named: &[(&str, &Run)]) -> Sheet {
    let mut sheet = Sheet::new("waits", "run event class source waits time_s avg_us db_time_pct");
    for (name, run) in named {
        let counted = run.counted();
        sheet.rows.extend(counted.summary.waits.iter().map(|wait| {
            let share = counted.share_of_db_time(wait.time_us).map(|share| share * 100.0);
            vec![
                (*name).to_owned(),
                wait.name.clone(),
                wait.class.label().to_owned(),
                word(&wait.source),
                exact(wait.waits),
                (wait.time_us / 1e6).to_string(),
                exact(wait.avg_us),
                exact(share),
            ]
        }));
    }
    sheet
}

impl Sheet {
    pub fn new(name: &'static str, head: &str) -> Self {
        Self { name, head: head.split(' ').map(str::to_owned).collect(), rows: Vec::new() }
    }

    pub fn of(name: &'static str, ExactRows { names, rows }: ExactRows<'_>) -> Self {
        Self { name, head: names, rows: rows.collect() }
    }

    /// Adds rows, `first` before each; columns are found by their names.
    fn append(&mut self, first: &str, other: ExactRows<'_>) {
        let places: Vec<usize> = other
            .names
            .into_iter()
            .map(|name| {
                self.head.iter().position(|known| *known == name).unwrap_or_else(|| {
                    self.head.push(name);
                    self.head.len() - 1
                })
            })
            .collect();
        for cells in other.rows {
            let mut row = vec![String::new(); self.head.len()];
            row[0] = first.to_owned();
            places.iter().zip(cells).for_each(|(&at, cell)| row[at] = cell);
            self.rows.push(row);
        }
    }

    fn column(&self, name: &str) -> Option<u16> {
        u16::try_from(self.head.iter().position(|known| known == name)?).ok()
    }

    fn write(&self, sheet: &mut Worksheet) -> Result<(), XlsxError> {
        sheet.set_name(self.name)?;
        let bold = Format::new().set_bold();
        for (at, name) in (0..).zip(&self.head) {
            sheet.write_string_with_format(0, at, name, &bold)?;
            sheet.set_column_width(at, (name.len() as f64 * 1.15 + 1.5).max(9.0))?;
        }
        for (row, cells) in (1..).zip(&self.rows) {
            for (at, cell) in (0..).zip(cells) {
                match number(cell) {
                    _ if cell.is_empty() => {}
                    Some(number) => drop(sheet.write_number(row, at, number)?),
                    None => drop(sheet.write_string(row, at, cell)?),
                }
            }
        }
        sheet.set_freeze_panes(1, 1)?;
        Ok(())
    }

    /// The rows of each series, counted from the sheet's first one.
    fn series(&self, by: Option<&str>) -> Vec<(String, u32, u32)> {
        let column = by.and_then(|by| self.column(by)).map(usize::from);
        let name = |row: &Vec<String>| column.and_then(|at| row.get(at)).cloned();
        let mut first = 1;
        let stretches = self.rows.chunk_by(|a, b| name(a) == name(b));
        stretches
            .map(|rows| {
                let last = first + rows.len() as u32 - 1;
                let series = (name(&rows[0]).unwrap_or_default(), first, last);
                first = last + 1;
                series
            })
            .collect()
    }

    /// None if a column is missing, or nothing in it is known.
    fn chart(&self, drawing: &SheetChart<'_>) -> Option<Chart> {
        let x = self.column(drawing.x)?;
        let mut chart = Chart::new(drawing.kind);
        let mut is_empty = true;
        for y in drawing.ys {
            let at = self.column(y)?;
            is_empty &= self.rows.iter().all(|row| row[usize::from(at)].is_empty());
            for (name, first, last) in self.series(drawing.by) {
                let series = chart.add_series();
                series.set_categories((self.name, first, x, last, x));
                series.set_values((self.name, first, at, last, at));
                series.set_name(if name.is_empty() { y } else { name.as_str() });
                if drawing.kind == ChartType::ScatterStraight {
                    series.set_marker(ChartMarker::new().set_none());
                }
            }
        }
        chart.title().set_name(drawing.title);
        chart.x_axis().set_name(drawing.x);
        chart.y_axis().set_name(drawing.y_title);
        chart.set_width(900).set_height(420);
        (!is_empty).then_some(chart)
    }
}

/// Parses a number. A number with more digits than a spreadsheet keeps stays text.
fn number(cell: &str) -> Option<f64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let is_plain = cell.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-');
    let number: f64 = cell.parse().ok().filter(|_| is_plain)?;
    (number.abs() < EXACT_MAX).then_some(number)
}

/// Writes a workbook of all sheets that have a row; charts are at the right of the figures.
pub fn written<const N: usize>(
    sheets: [(Sheet, &[SheetChart<'_>]); N],
) -> Result<Vec<u8>, XlsxError> {
    let mut workbook = Workbook::new();
    // This mark identifies petal's own file when it is written again.
    workbook.set_properties(&DocProperties::new().set_author("petal"));
    for (sheet, drawings) in sheets.iter().filter(|(sheet, _)| !sheet.rows.is_empty()) {
        let worksheet = workbook.add_worksheet();
        sheet.write(worksheet)?;
        let charts = drawings.iter().filter_map(|drawing| sheet.chart(drawing));
        let right = sheet.head.len().min(12) as u16 + 1;
        for (chart, row) in charts.zip((1..).step_by(23)) {
            worksheet.insert_chart(row, right, &chart)?;
        }
    }
    workbook.save_to_buffer()
}

#[cfg(test)]
mod tests;
