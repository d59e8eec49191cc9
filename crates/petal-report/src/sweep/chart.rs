//! Petals in plain characters: 80 columns, fewer on a narrower terminal, no colors, the same in a
//! terminal, a pipe and a mail.
//! Crates that draw with braille dots distinguish lines by color alone, which a pipe lacks; here
//! each line has a letter and each point its number of sessions.

use super::super::charts::Scale;
use super::super::numbers::rate;
use super::super::table::{columns, paragraph};
use petal_judge::petals::{PetalLine, Petals, READS_ONLY};

/// Columns of the chart, at most.
const WIDTH_MAX: usize = 80;
const HEIGHT: usize = 20;
/// Columns left of the plot: the y axis and its numbers.
const MARGIN: usize = 9;
const LINES_MAX: usize = 26;
/// Characters of a line between its points, and of a predicted line, which is behind it.
const MEASURED: char = '.';
const PREDICTED: char = ':';
const PREDICTED_WORDS: &str = ": predicted from the other points";
/// Steps between the ticks of an axis, at most.
const STEPS_MAX: usize = 5;

/// A line of points in the order of its sessions.
#[derive(Debug, Clone)]
struct TextCurve {
    name: String,
    /// Sessions, x, y.
    points: Vec<(u32, f64, f64)>,
    /// x and y of the line as predicted.
    predicted: Vec<(f64, f64)>,
}

/// Draws mean single-block read latency against PIOPS, a line per further factors, a point per
/// number of sessions; and the meaning of each letter.
pub fn petals(petals: &Petals) -> String {
    let curves = curves(petals, &[]);
    let mut text = drawing(petals, &[], HEIGHT);
    for (letter, curve) in letters().zip(&curves) {
        let sessions: Vec<String> = curve.points.iter().map(|point| point.0.to_string()).collect();
        let plural = if sessions == ["1"] { "" } else { "s" };
        let legend = format!("{}: {} session{plural}", curve.name, sessions.join(", "));
        text.push_str(&paragraph(&format!("{letter}  "), "   ", &legend));
    }
    if curves.len() > LINES_MAX {
        text.push_str(&format!("{} further lines are not drawn\n", curves.len() - LINES_MAX));
    }
    text
}

/// The petals alone, `height` lines high without their axis, with the
/// [predicted](super::super::petals::predicted) line behind each.
pub fn drawing(petals: &Petals, predicted: &[Vec<(f64, f64)>], height: usize) -> String {
    match curves(petals, predicted).as_slice() {
        [] => {
            "nothing to draw: no run knows both PIOPS and the latency of a single read\n".to_owned()
        }
        curves => plot(curves, height),
    }
}

/// The lines that are drawn, each with its letter.
pub fn drawn_lines(petals: &Petals) -> impl Iterator<Item = (char, &PetalLine)> {
    letters().zip(petals.lines.iter().filter(|line| points(line).next().is_some()))
}

fn letters() -> impl Iterator<Item = char> {
    ('a'..='z').take(LINES_MAX)
}

fn curves(petals: &Petals, predicted: &[Vec<(f64, f64)>]) -> Vec<TextCurve> {
    let curves = petals.lines.iter().enumerate().map(|(at, line)| TextCurve {
        name: line.name.clone(),
        points: points(line).collect(),
        predicted: predicted.get(at).cloned().unwrap_or_default(),
    });
    curves.filter(|curve| !curve.points.is_empty()).collect()
}

/// Sessions, x and y of each point that knows both.
fn points(line: &PetalLine) -> impl Iterator<Item = (u32, f64, f64)> {
    line.points.iter().filter_map(|point| {
        Some((point.sessions, point.piops.as_ref()?.mean, point.read_us.as_ref()?.mean))
    })
}

fn plot(curves: &[TextCurve], height: usize) -> String {
    let columns = columns().min(WIDTH_MAX) - MARGIN - 1;
    let predicted = || curves.iter().take(LINES_MAX).flat_map(|curve| &curve.predicted).copied();
    let points = curves.iter().flat_map(|curve| &curve.points).map(|point| (point.1, point.2));
    let (x, y): (Vec<f64>, Vec<f64>) = points.chain(predicted()).unzip();
    let (x_axis, y_axis) = (Scale::with_steps(x, STEPS_MAX), Scale::with_steps(y, STEPS_MAX));
    let mut grid = CharacterGrid { cells: vec![vec![' '; columns]; height] };
    let place_of =
        |x: f64, y: f64| (cell(&x_axis, x, columns - 1), height - 1 - cell(&y_axis, y, height - 1));
    let place = |point: &(u32, f64, f64)| place_of(point.1, point.2);
    for pair in curves.iter().take(LINES_MAX).flat_map(|curve| curve.predicted.windows(2)) {
        grid.dots(place_of(pair[0].0, pair[0].1), place_of(pair[1].0, pair[1].1), PREDICTED);
    }
    for pair in curves.iter().take(LINES_MAX).flat_map(|curve| curve.points.windows(2)) {
        grid.dots(place(&pair[0]), place(&pair[1]), MEASURED);
    }
    for (letter, curve) in letters().zip(curves) {
        curve.points.iter().for_each(|point| grid.mark(place(point), letter));
    }
    for curve in curves.iter().take(LINES_MAX) {
        for point in &curve.points {
            grid.label(place(point), &point.0.to_string());
        }
    }
    let words = if predicted().next().is_some() { PREDICTED_WORDS } else { "" };
    let is_reads_only = curves.iter().all(|curve| curve.name.ends_with(READS_ONLY));
    drawn(&grid, &x_axis, &y_axis, words, is_reads_only)
}

/// The grid with its axes; `words` are below it.
fn drawn(
    grid: &CharacterGrid,
    x_axis: &Scale,
    y_axis: &Scale,
    words: &str,
    is_reads_only: bool,
) -> String {
    let mut text = format!("{:>MARGIN$}\n", "read us");
    let y_ticks = y_axis.ticks(STEPS_MAX);
    let last = grid.cells.len().saturating_sub(1);
    let columns = grid.cells.first().map_or(0, Vec::len);
    let width = MARGIN + 1 + columns;
    for (at, row) in grid.cells.iter().enumerate() {
        let is_here = |tick: &&f64| last - cell(y_axis, **tick, last) == at;
        let tick = y_ticks.iter().copied().find(|tick| is_here(&tick));
        let number = tick.map_or_else(String::new, short);
        let edge = if tick.is_some() { '+' } else { '|' };
        let row: String = row.iter().collect();
        text.push_str(format!("{number:>8} {edge}{row}").trim_end());
        text.push('\n');
    }
    let mut edge = vec!['-'; columns];
    let mut numbers = vec![' '; width];
    for tick in x_axis.ticks(STEPS_MAX) {
        let column = cell(x_axis, tick, columns - 1);
        edge[column] = '+';
        let number = short(tick);
        let length = number.chars().count();
        let from = (MARGIN + 1 + column + 1).saturating_sub(length.div_ceil(2)).min(width - length);
        for (place, letter) in numbers.iter_mut().skip(from).zip(number.chars()) {
            *place = letter;
        }
    }
    let edge: String = edge.into_iter().collect();
    let numbers: String = numbers.into_iter().collect();
    text.push_str(&format!("{:>8} +{edge}\n{}\n", "", numbers.trim_end()));
    let title = if is_reads_only { "PIOPS, reads only" } else { "PIOPS, reads and writes" };
    let indented = if words.is_empty() { String::new() } else { format!("{:MARGIN$} {words}", "") };
    let (words, title) = match indented.len() + title.len() < width {
        true => (indented.as_str(), title),
        false => (words, "PIOPS"),
    };
    text.push_str(&format!("{words}{title:>0$}\n", width - words.len()));
    text
}

/// A round number in few letters.
fn short(value: f64) -> String {
    match value {
        _ if value == 0.0 => "0".to_owned(),
        _ if value >= 1e9 => format!("{:.0}G", value / 1e9),
        _ if value >= 1e6 => format!("{:.0}M", value / 1e6),
        _ if value >= 1e5 => format!("{:.0}k", value / 1e3),
        _ => rate(value),
    }
}

/// The cell, of 0..=last, in which a value lies.
fn cell(axis: &Scale, value: f64, last: usize) -> usize {
    (axis.share(value) * last as f64).round() as usize
}

struct CharacterGrid {
    cells: Vec<Vec<char>>,
}

type GridPlace = (usize, usize);

/// True for a cell that a measured line may take.
fn is_behind(cell: char) -> bool {
    matches!(cell, ' ' | PREDICTED)
}

impl CharacterGrid {
    /// Draws a straight line of this character over empty cells and predicted lines.
    fn dots(&mut self, from: GridPlace, to: GridPlace, dot: char) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
        let between = |a: usize, b: usize, step: usize| {
            let share = step as f64 / steps as f64;
            (a as f64 + (b as f64 - a as f64) * share).round() as usize
        };
        for step in 0..=steps {
            let cell = &mut self.cells[between(from.1, to.1, step)][between(from.0, to.0, step)];
            if is_behind(*cell) {
                *cell = dot;
            }
        }
    }

    /// Draws a point; `*` if several lines have one.
    fn mark(&mut self, (column, row): GridPlace, letter: char) {
        let cell = &mut self.cells[row][column];
        let is_free = is_behind(*cell) || [MEASURED, letter].contains(cell);
        *cell = if is_free { letter } else { '*' };
    }

    /// Writes a label to the right or left of a point, if only dots are in the way.
    fn label(&mut self, (column, row): GridPlace, text: &str) {
        let length = text.chars().count();
        let line = &mut self.cells[row];
        let is_free = |line: &[char], from: usize| {
            line.get(from..from + length)
                .is_some_and(|cells| cells.iter().all(|cell| is_behind(*cell) || *cell == MEASURED))
        };
        let right = Some(column + 1).filter(|from| is_free(line, *from));
        let left = column.checked_sub(length).filter(|from| is_free(line, *from));
        let Some(from) = right.or(left) else { return };
        for (cell, letter) in line.iter_mut().skip(from).zip(text.chars()) {
            *cell = letter;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::within;
    use proptest::prelude::*;

    #[test]
    fn two_lines() {
        insta::assert_snapshot!(petals(&Petals::of(&super::super::tests::swept().observations())), @"
          read us
             400 +
                 |
                 |                                                     b16
                 |                                                   .. .a16
                 |                                                 .. ..
             300 +                                               .. ..
                 |                                             .. ..
                 |                                           .....
                 |                                         ....
             200 +                                       ....
                 |                                     ....
                 |                                  .4ba4
                 |                            .......
                 |                      .......
             100 +                 1ba1..
                 |
                 |
                 |
                 |
               0 +
                 ++----------------------+----------------------+----------------------+
                  0                    5,000                  10,000              15,000
                                                                 PIOPS, reads and writes
        a  UPDATE_PCT 0: 1, 4, 16 sessions
        b  UPDATE_PCT 20: 1, 4, 16 sessions
        ");
    }

    #[test]
    fn a_predicted_line_is_behind_the_measured_one_and_named() {
        let petals = Petals::of(&super::super::tests::swept().observations());
        let predicted = vec![vec![(4000.0, 250.0), (16000.0, 300.0)], Vec::new()];
        insta::assert_snapshot!(drawing(&petals, &predicted, 8), @"
          read us
             400 +
                 |                                      16b.a16
             300 +                                  ......::::::::::::::::
             200 +              ::::::::::::::::......
                 |                     .....4ba4.
             100 +            1ba1......
                 |
               0 +
                 ++----------------+-----------------+----------------+----------------+
                  0              5,000             10,000           15,000        20,000
                  : predicted from the other points              PIOPS, reads and writes
        ");
    }

    #[test]
    fn nothing_known_is_said() {
        let mut swept = super::super::tests::swept();
        swept.runs.iter_mut().for_each(|run| run.summary.io_latency_us.clear());
        assert!(petals(&Petals::of(&swept.observations())).starts_with("nothing to draw"));
    }

    proptest! {
        #[test]
        fn whatever_the_figures_it_fits_the_terminal(
            lines in prop::collection::vec(
                prop::collection::vec((1u32..5000, 0.0f64..1e9, 0.0f64..1e7), 1..8), 1..30,
            ),
            terminal in 40usize..120,
        ) {
            let curves: Vec<TextCurve> = lines
                .into_iter()
                .map(|points| TextCurve {
                    name: String::new(),
                    predicted: points.iter().map(|point| (point.2, point.1)).collect(),
                    points,
                })
                .collect();
            let shown = within(terminal, || plot(&curves, HEIGHT));
            let width = terminal.min(WIDTH_MAX);
            prop_assert!(shown.lines().all(|line| line.chars().count() <= width), "{}", shown);
            prop_assert_eq!(shown.lines().count(), HEIGHT + 4);
        }
    }
}
