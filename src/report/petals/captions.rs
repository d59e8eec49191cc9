//! Petals in words: the marks, the table of values, what is said of a point and of the whole.

use super::super::numbers::{UNKNOWN, decimal, micros, or_dash, rate};
use super::What;
use crate::analysis::petals::{Estimate, PetalLine, Petals, Point};

/// What a point is: `peak`, `knee`, `bends back: processor`.
pub(super) fn marks(line: &PetalLine, position: usize) -> Vec<String> {
    let mut marks = Vec::new();
    if line.peak == Some(position) {
        marks.push("peak".to_owned());
    }
    if line.saturated_from == Some(position) {
        marks.push("saturated from here".to_owned());
    }
    if line.knee == Some(position) {
        marks.push("knee".to_owned());
    }
    if line.within_objective == Some(position) {
        marks.push("within the objective".to_owned());
    }
    if let Some(bend) = line.bend_back.as_ref().filter(|bend| bend.at == position) {
        marks.push(format!("bends back: {}", bend.cause));
    }
    marks
}

pub(super) fn head(what: What) -> Vec<String> {
    let columns: &[&str] = match what {
        What::Piops => {
            &["line", "sessions", "PIOPS", "+-", "single-block read us", "+-", "repeats", "mark"]
        }
        What::Megabytes => {
            &["line", "sessions", "MB/s", "+-", "single-block read us", "+-", "repeats"]
        }
        What::Operations => {
            &["line", "sessions", "operations/s", "+-", "p50 us", "+-", "p99 us", "+-", "repeats"]
        }
    };
    columns.iter().map(|name| (*name).to_owned()).collect()
}

pub(super) fn rows(petals: &Petals, what: What) -> Vec<Vec<String>> {
    let all = petals.lines.iter().flat_map(|line| (0..line.points.len()).map(move |at| (line, at)));
    all.map(|(line, position)| row(line, position, what)).collect()
}

fn row(line: &PetalLine, position: usize, what: What) -> Vec<String> {
    let Some(point) = line.points.get(position) else {
        return Vec::new();
    };
    let mut cells = vec![line.name.clone(), point.sessions.to_string()];
    let mut pair = |estimate: Option<&Estimate>, show: fn(f64) -> String| {
        cells.push(or_dash(estimate, |seen| show(seen.mean)));
        cells.push(or_dash(estimate.and_then(|seen| seen.half_width), show));
    };
    pair(what.x(point), rate);
    match what {
        What::Piops | What::Megabytes => pair(point.read_us.as_ref(), micros),
        What::Operations => {
            pair(point.op_p50_us.as_ref(), micros);
            pair(point.op_p99_us.as_ref(), micros);
        }
    }
    cells.push(or_dash(what.x(point), |seen| seen.values.len().to_string()));
    if what == What::Piops {
        cells.push(marks(line, position).join(", "));
    }
    cells
}

/// One point, for who points at it.
pub(super) fn said(line: &PetalLine, name: &str, position: usize, what: What) -> String {
    let (head, cells) = (head(what), row(line, position, what));
    let values = head.iter().zip(&cells).skip(1).filter(|(_, cell)| !cell.is_empty());
    let values: Vec<String> = values.map(|(head, cell)| format!("{head} {cell}")).collect();
    format!("{name}: {}", values.join(", "))
}

/// The whole, for who does not see it.
pub(super) fn description(petals: &Petals, what: What) -> String {
    let mut said = format!(
        "{} against {}, {} lines, a point for each number of sessions.",
        what.y_title(),
        what.x_title(),
        petals.lines.len()
    );
    if what == What::Piops {
        for line in summary(petals) {
            said.push_str(&format!(
                " {}: peak {} PIOPS at {} sessions, {} us.",
                line.name, line.peak_piops, line.peak_sessions, line.peak_us
            ));
        }
    }
    said
}

/// A line in figures, `-` for what is unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub name: String,
    pub peak_piops: String,
    pub peak_half: String,
    pub peak_mb: String,
    pub peak_us: String,
    pub peak_sessions: String,
    /// Empty where the peak is the first point within its interval.
    pub saturated_from: String,
    pub knee: String,
    /// Empty where it neither bends back nor goes flat.
    pub bend: String,
    pub evidence: Vec<String>,
}

/// What each line comes to.
pub fn summary(petals: &Petals) -> Vec<Summary> {
    petals.lines.iter().map(line_summary).collect()
}

fn line_summary(line: &PetalLine) -> Summary {
    let at = |position: Option<usize>| position.and_then(|position| line.points.get(position));
    let (peak, saturated) = (at(line.peak), at(line.saturated_from));
    let mean =
        |point: Option<&Point>, pick: fn(&Point) -> Option<&Estimate>, show: fn(f64) -> String| {
            or_dash(point.and_then(pick), |seen| show(seen.mean))
        };
    let piops = |point: &Point| -> Option<Estimate> { point.piops.clone() };
    let knee = at(line.knee).map(|point| {
        format!(
            "{} sessions: {} PIOPS at {} us",
            point.sessions,
            mean(Some(point), |point| point.piops.as_ref(), rate),
            mean(Some(point), |point| point.read_us.as_ref(), micros)
        )
    });
    let bend = line.bend_back.as_ref();
    let limit = line.limit.as_ref().filter(|_| bend.is_none());
    Summary {
        name: line.name.clone(),
        peak_piops: mean(peak, |point| point.piops.as_ref(), rate),
        peak_half: or_dash(peak.and_then(piops).and_then(|seen| seen.half_width), |half| {
            decimal(half, 0)
        }),
        peak_mb: mean(peak, |point| point.mb_s.as_ref(), rate),
        peak_us: mean(peak, |point| point.read_us.as_ref(), micros),
        peak_sessions: or_dash(peak, |point| point.sessions.to_string()),
        saturated_from: saturated.map_or_else(String::new, |point| {
            let piops = mean(Some(point), |point| point.piops.as_ref(), rate);
            format!("{} sessions: {piops} PIOPS", point.sessions)
        }),
        knee: knee.unwrap_or_else(|| UNKNOWN.to_owned()),
        bend: match (bend, limit) {
            (Some(bend), _) => {
                let point = line.points.get(bend.at);
                let sessions = or_dash(point, |point| point.sessions.to_string());
                format!("from {sessions} sessions: {}", bend.cause)
            }
            (None, Some(limit)) => format!("no; flat from the knee on: {}", limit.cause),
            (None, None) => String::new(),
        },
        evidence: bend
            .map(|bend| bend.evidence.clone())
            .or_else(|| limit.map(|limit| limit.evidence.clone()))
            .unwrap_or_default(),
    }
}
