//! Petals in words: the marks, the table of values, the descriptions of a point and of the whole.

use super::super::numbers::{
    UNKNOWN, bytes, counted, decimal, micros, or_dash, rate, signed_percent,
};
use super::super::table::{Cell, Table};
use super::{EstimateOf, PetalChart};
use petal_judge::petals::{
    AfterPeak, BeyondKnee, Estimate, Noise, PetalLine, Petals, Plateau, Point, WriterCost,
};
use petal_settings::objective::Objective;

/// Returns the marks of a point: `peak`, `knee`, `bends back: processor`.
pub(super) fn marks(line: &PetalLine, position: usize) -> Vec<String> {
    let at = |place: Option<usize>| place == Some(position);
    let bend = line.bend_back.as_ref().filter(|bend| bend.at == position);
    let struck = line.points[position].not_storage.as_ref();
    let marks = [
        struck.map(|finding| format!("not a storage test: {finding}")),
        // A single point is not a peak.
        (at(line.peak) && line.points.len() > 1).then(|| "peak".to_owned()),
        at(line.saturated_from).then(|| "saturated from here".to_owned()),
        at(line.knee).then(|| "knee".to_owned()),
        at(line.within_objective).then(|| "within the objective".to_owned()),
        bend.map(|bend| format!("bends back: {}", bend.cause)),
    ];
    marks.into_iter().flatten().collect()
}

/// The values of all points.
pub(super) fn values(petals: &Petals, chart: &PetalChart) -> Table {
    let all = petals.lines.iter().flat_map(|line| (0..line.points.len()).map(move |at| (line, at)));
    let rows = all.map(|(line, position)| row(line, position, chart));
    Table::of_columns(chart.columns.split('|')).with_rows(rows)
}

fn row(line: &PetalLine, position: usize, chart: &PetalChart) -> Vec<String> {
    let Some(point) = line.points.get(position) else {
        return Vec::new();
    };
    let mut cells = vec![line.name.clone(), point.sessions.to_string()];
    let mut pair = |estimate: Option<&Estimate>, show: fn(f64) -> String| {
        cells.push(or_dash(estimate, |seen| show(seen.mean)));
        cells.push(or_dash(estimate.and_then(|seen| seen.half_width), show));
    };
    pair((chart.x)(point), rate);
    chart.heights.iter().for_each(|(_, height)| pair(height(point), micros));
    cells.push(or_dash((chart.x)(point), |seen| seen.values.len().to_string()));
    if chart.has_marks {
        cells.push(marks(line, position).join(", "));
    }
    cells
}

/// The values of one point, as the pointer shows them.
pub(super) fn point_words(
    line: &PetalLine,
    name: &str,
    position: usize,
    chart: &PetalChart,
) -> String {
    let cells = row(line, position, chart);
    let named = chart.columns.split('|').zip(&cells);
    let values = named.skip(1).filter(|(_, cell)| !cell.is_empty());
    let values: Vec<String> = values.map(|(head, cell)| format!("{head} {cell}")).collect();
    format!("{name}: {}", values.join(", "))
}

/// The chart in words, for readers who cannot see it.
pub(super) fn description(petals: &Petals, chart: &PetalChart) -> String {
    let mut said = format!(
        "{} against {}, {} lines, a point for each number of sessions.",
        chart.y_title,
        chart.x_title,
        petals.lines.len()
    );
    for line in petals.lines.iter().filter(|_| chart.has_marks) {
        let peak = at(line, line.peak.or(line.struck_out));
        let (piops, us) = (mean(peak, PIOPS, rate), mean(peak, READ_US, micros));
        let sessions = or_dash(peak, |point| point.sessions.to_string());
        let what = if line.struck_out.is_some() { "not a storage test," } else { "peak" };
        said.push_str(&format!(
            " {}: {what} {piops} PIOPS at {sessions} sessions, {us} us.",
            line.name
        ));
    }
    said
}

const PIOPS: EstimateOf = |point| point.piops.as_ref();
const READ_US: EstimateOf = |point| point.read_us.as_ref();

fn at(line: &PetalLine, position: Option<usize>) -> Option<&Point> {
    position.and_then(|position| line.points.get(position))
}

fn mean(point: Option<&Point>, pick: EstimateOf, show: fn(f64) -> String) -> String {
    or_dash(point.and_then(pick), |seen| show(seen.mean))
}

pub const SUMMARY: &str = "line | peak PIOPS: | +-: | MB/s: | read us: | sessions: | \
                           saturated from | knee | knee to last point | \
                           after the peak | cause | evidence";

/// A line's shape and cause, in the columns of [`SUMMARY`].
pub fn summary(line: &PetalLine) -> [Cell; 12] {
    let peak = at(line, line.peak.or(line.struck_out));
    let struck = |text: String| Cell::figure(text, line.struck_out.is_some());
    let half = peak.and_then(PIOPS).and_then(|seen| seen.half_width);
    let piops_at = |point: &Point| {
        let sessions = counted(point.sessions, "session");
        format!("{sessions}: {} PIOPS", mean(Some(point), PIOPS, rate))
    };
    let knee_at =
        |point| format!("{} at {} us", piops_at(point), mean(Some(point), READ_US, micros));
    [
        line.name.clone().into(),
        struck(mean(peak, PIOPS, rate)),
        struck(or_dash(half, |half| decimal(half, 0))),
        struck(mean(peak, |point| point.mb_s.as_ref(), rate)),
        struck(mean(peak, READ_US, micros)),
        or_dash(peak, |point| point.sessions.to_string()).into(),
        or_dash(at(line, line.saturated_from), piops_at).into(),
        or_dash(at(line, line.knee), knee_at).into(),
        or_dash(line.beyond_knee, beyond_knee).into(),
        after_peak(line).into(),
        or_dash(line.limit.as_ref(), |limit| limit.cause.clone()).into(),
        or_dash(line.limit.as_ref(), |limit| limit.evidence.join("; ")).into(),
    ]
}

/// `plateau from 16 to 64 sessions (59,120 PIOPS on average, a difference of up to 2.1 % may hide)`.
pub fn plateau(line: &PetalLine, plateau: &Plateau) -> String {
    let sessions = |position| or_dash(at(line, Some(position)), |point| point.sessions.to_string());
    format!(
        "plateau from {} to {} sessions ({} PIOPS on average, a difference of up to {:.1} % may hide)",
        sessions(plateau.from),
        sessions(plateau.to),
        rate(plateau.piops),
        plateau.hides * 100.0
    )
}

/// `PIOPS +58 %, latency +420 %`.
pub fn beyond_knee(BeyondKnee { piops_change, read_us_change, .. }: BeyondKnee) -> String {
    let percent = |share: f64| format!("{} %", signed_percent(share, 0));
    format!("PIOPS {}, latency {}", percent(piops_change), percent(read_us_change))
}

/// `8 % lower at 16 sessions, within the noise of the repeats`.
pub fn after_peak(line: &PetalLine) -> String {
    let Some(AfterPeak { at: position, lower_by, noise }) = line.after_peak else {
        return match line.peak {
            None if line.struck_out.is_some() => "not a storage test".to_owned(),
            Some(_) if line.points.len() == 1 => "not measured: it has one point".to_owned(),
            Some(_) => "not measured: the peak is the last point".to_owned(),
            None => UNKNOWN.to_owned(),
        };
    };
    let sessions = or_dash(at(line, Some(position)), |point| point.sessions.to_string());
    let noise = match noise {
        Noise::Within => "within the noise of the repeats",
        Noise::Beyond => "beyond the noise of the repeats",
        Noise::Unknown => "too few repeats to know the noise",
    };
    format!("{:.1} % lower at {sessions} sessions, {noise}", lower_by * 100.0)
}

/// Returns the highest load that meets the objective, and the number of points without its figure.
pub fn met(line: &PetalLine, objective: &Objective, point: impl Fn(usize) -> String) -> String {
    let points = line.points.len();
    if line.not_judged == points {
        return objective.why_unknown();
    }
    let met = match line.within_objective {
        Some(at) => format!("is met up to {}", point(at)),
        None => "is met by no point that was measured".to_owned(),
    };
    let not_judged = match line.not_judged {
        0 => String::new(),
        count => format!(", not judged at {count} of {points} points, which lack its figure"),
    };
    format!("{objective} {met}{not_judged}")
}

/// SELECT latency of one number of readers, a row without writers and a row for each number of
/// writers.
pub fn writer_cost(cost: &WriterCost) -> Table {
    let heading = "SELECT of | writers: | runs: | mean: | +-: | mean p50: | mean p99: | change %: | from: | \
                   to: | one block read:";
    let mean = |seen: &Option<Estimate>| or_dash(seen.as_ref(), |seen| micros(seen.mean));
    let percent = |share: f64| signed_percent(share, 1);
    let rows = cost.rows.iter().map(|row| {
        let half = row.select_mean_us.as_ref().and_then(|seen| seen.half_width);
        let change = row.change.as_ref();
        let (low, high) = change.and_then(|change| change.interval).unzip();
        let who = if row.writers == 0 { "readers alone" } else { "readers, with writers" };
        [
            who.to_owned(),
            row.writers.to_string(),
            row.sources.len().to_string(),
            mean(&row.select_mean_us),
            or_dash(half, micros),
            mean(&row.select_p50_us),
            mean(&row.select_p99_us),
            or_dash(change, |change| percent(change.share)),
            or_dash(low, percent),
            or_dash(high, percent),
            mean(&row.read_us),
        ]
    });
    let factors =
        cost.factors.iter().map(|(key, value)| format!(", {} {value}", key.to_uppercase()));
    let active =
        cost.active_bytes.map_or(String::new(), |all| format!(", active data {}", bytes(all)));
    Table::headed(heading).with_rows(rows).captioned(format!(
        "READERS {}{}{active}",
        cost.readers,
        factors.collect::<String>()
    ))
}
