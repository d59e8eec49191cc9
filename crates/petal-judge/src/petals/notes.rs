//! Notes that a reader of petals needs first: runs of different lengths, repeats that vary or lie
//! apart, points that were measured once.

use super::{Estimate, PetalLine, Point};

/// The longest run of a line over its shortest.
const LENGTHS_RATIO_MAX: f64 = 2.0;
/// From one point to the next: no longer the same kind of run.
const JUMP_RATIO_MIN: f64 = 5.0;

pub(super) fn of(lines: &[PetalLine]) -> Vec<String> {
    let mut notes = Vec::new();
    let (mut varying, mut outliers) = (Vec::new(), Vec::new());
    for line in lines {
        notes.extend(mixed_run_lengths(line));
        repeats(line, &mut varying, &mut outliers);
    }
    if !varying.is_empty() {
        notes.push(format!(
            "repeats-vary: the standard deviation of repeats is over 5 % of their mean at {}",
            varying.join("; ")
        ));
    }
    notes.extend(outliers);
    notes
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
            ", with a jump between {} and {} sessions (from {before_s:.0} to {after_s:.0} s): the \
             method changed there, and what lies on either side is not one curve",
            from.sessions, to.sessions
        )
    });
    Some(format!(
        "mixed-run-lengths: {}: runs took from {shortest:.0} to {longest:.0} s{jump}; short runs \
         have not settled",
        line.name
    ))
}

/// Adds the cells of a line whose repeats vary, with their figures, and its outlying repeats.
fn repeats(line: &PetalLine, varying: &mut Vec<String>, outliers: &mut Vec<String>) {
    for point in &line.points {
        let figures = [
            ("PIOPS", &point.piops),
            ("read us", &point.read_us),
            ("operation p99 us", &point.op_p99_us),
        ];
        let cell = format!("{}, {} sessions", line.name, point.sessions);
        let mut of_cell = Vec::new();
        for (what, estimate) in figures {
            let Some(estimate) = estimate else { continue };
            if let Some(variation) = estimate.variation().filter(|_| estimate.varies()) {
                of_cell.push(format!("{what} {:.1} %", variation * 100.0));
            }
            outliers.extend(outlier(&format!("{cell}: {what}"), estimate, &point.sources));
        }
        if !of_cell.is_empty() {
            varying.push(format!("{cell} ({})", of_cell.join(", ")));
        }
    }
}

fn outlier(place: &str, estimate: &Estimate, sources: &[String]) -> Option<String> {
    let at = estimate.outlier()?;
    // A repeat that lacks the figure has a source and no value.
    let source = sources.get(at).filter(|_| sources.len() == estimate.values.len());
    let source = source.map_or_else(|| format!("value {}", at + 1), Clone::clone);
    Some(format!(
        "outlying-repeat: {place} of {source} is {:.0}, the mean of all {:.0} (Grubbs' test, 5 %); \
         it stays in every figure",
        estimate.values[at], estimate.mean
    ))
}
