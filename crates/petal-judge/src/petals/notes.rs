//! Notes that a reader of petals needs first: runs of different lengths, repeats that vary or lie
//! apart, points that were measured once.

use super::{Estimate, PetalLine, Point};
use crate::run_length;
use crate::verdict::OF_OTHERS_ALONE;
use petal_host::numbers::{counted, decimal};

/// The longest run of a line over its shortest.
const LENGTHS_RATIO_MAX: f64 = 2.0;
/// Ratio of one point to the next that is no longer the same kind of run.
const JUMP_RATIO_MIN: f64 = 5.0;

pub(super) fn of(lines: &[PetalLine]) -> Vec<String> {
    let mut notes: Vec<String> = lines.iter().filter_map(left_out).collect();
    notes.extend(lines.iter().filter_map(mixed_run_lengths));
    let cells: usize = lines.iter().map(|line| line.points.len()).sum();
    let (mut varying, mut outliers) = (Vec::new(), Vec::new());
    for line in lines {
        repeats(line, &mut varying, &mut outliers);
    }
    let worst = |all: &[Extreme]| all.iter().max_by(|a, b| a.by.total_cmp(&b.by)).cloned();
    if let Some(worst) = worst(&varying) {
        let place = match varying.len() {
            1 => format!("at {}", worst.words),
            count => format!("in {count} of {cells} cells, most at {}", worst.words),
        };
        notes.push(format!(
            "repeats-vary: the standard deviation of repeats is over 5 % of their mean {place}"
        ));
    }
    if let Some(worst) = worst(&outliers) {
        let (count, stay) = match outliers.len() {
            1 => (String::new(), "it stays"),
            count => (format!("{count} figures of repeats, most of all "), "they stay"),
        };
        notes.push(format!(
            "outlying-repeat: {count}{} (Grubbs' test, 5 %); {stay} in every figure",
            worst.words
        ));
    }
    notes
}

/// A cell or a figure that differs, and the share of its difference.
#[derive(Clone)]
struct Extreme {
    words: String,
    by: f64,
}

/// Counts the runs that are in no point, because others' work alone limited them.
fn left_out(line: &PetalLine) -> Option<String> {
    let cells = line.points.iter().filter(|point| point.left_out > 0);
    let parts = cells.map(|point| {
        let all = (point.left_out + point.sources.len()) as u64;
        let of = counted(u64::from(point.sessions), "session");
        format!("{} of {} with {of}", point.left_out, counted(all, "run"))
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    let words = |parts: String| format!("left-out: {}: {parts}: {OF_OTHERS_ALONE}", line.name);
    Some(parts).filter(|parts| !parts.is_empty()).map(words)
}

fn mixed_run_lengths(line: &PetalLine) -> Option<String> {
    let known: Vec<(&Point, f64)> =
        line.points.iter().filter_map(|p| Some((p, p.elapsed_s.as_ref()?.mean))).collect();
    let all = || line.points.iter().filter_map(|p| p.elapsed_s.as_ref()).flat_map(|e| &e.values);
    let longest = all().copied().reduce(f64::max)?;
    let shortest = all().copied().reduce(f64::min)?;
    if shortest <= 0.0 || longest / shortest <= LENGTHS_RATIO_MAX {
        return None;
    }
    let jump = known
        .windows(2)
        .map(|pair| (pair[0], pair[1], (pair[1].1 / pair[0].1).max(pair[0].1 / pair[1].1)))
        .max_by(|a, b| a.2.total_cmp(&b.2))
        .filter(|(_, _, ratio)| *ratio >= JUMP_RATIO_MIN);
    let jump = jump.map_or(String::new(), |((from, before_s), (to, after_s), _)| {
        format!(
            ", with a jump between {} and {} sessions (from {before_s} to {after_s} s): the \
             method changed there, and its sides are not one curve",
            from.sessions,
            to.sessions,
            before_s = run_length(before_s),
            after_s = run_length(after_s)
        )
    });
    Some(format!(
        "mixed-run-lengths: {}: runs took from {shortest} to {longest} s{jump}; short runs \
         have not settled",
        line.name,
        shortest = run_length(shortest),
        longest = run_length(longest)
    ))
}

/// Adds the cells of a line whose repeats vary, with their figures, and its outlying repeats.
fn repeats(line: &PetalLine, varying: &mut Vec<Extreme>, outliers: &mut Vec<Extreme>) {
    for point in &line.points {
        let figures = [
            ("PIOPS", &point.piops),
            ("read us", &point.read_us),
            ("operation p99 us", &point.op_p99_us),
        ];
        let noun = if point.sessions == 1 { "session" } else { "sessions" };
        let cell = format!("{}, {} {noun}", line.name, point.sessions);
        let (mut of_cell, mut by) = (Vec::new(), 0.0);
        for (what, estimate) in figures {
            let Some(estimate) = estimate else { continue };
            if let Some(variation) = estimate.variation().filter(|_| estimate.varies()) {
                of_cell.push(format!("{what} {:.1} %", variation * 100.0));
                by = f64::max(by, variation);
            }
            outliers.extend(outlier(&format!("{cell}: {what}"), estimate, &point.sources));
        }
        if !of_cell.is_empty() {
            varying.push(Extreme { words: format!("{cell} ({})", of_cell.join(", ")), by });
        }
    }
}

fn outlier(place: &str, estimate: &Estimate, sources: &[String]) -> Option<Extreme> {
    let at = estimate.outlier()?;
    // A repeat that lacks the figure has a source and no value.
    let source = sources.get(at).filter(|_| sources.len() == estimate.values.len());
    let source = source.map_or_else(|| format!("value {}", at + 1), Clone::clone);
    let (value, mean) = (estimate.values[at], estimate.mean);
    let words = format!(
        "{place} of {source} is {value}, the mean of all {mean}",
        value = decimal(value, 0),
        mean = decimal(mean, 0)
    );
    Some(Extreme { words, by: (value / mean - 1.0).abs() })
}
