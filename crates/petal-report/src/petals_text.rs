//! Petals in words: peak, knee and bend-back of each line, its limit and the cause, the highest
//! load within an objective; and the points as a table, with their intervals.

use std::collections::BTreeMap;

use super::numbers::{counted, micros, or_dash, rate, whole};
use super::sweep::load_unit;
use super::table::{self, Cell, Table, paragraph};
use super::text::{bullets, caveats, section};
use petal_judge::petals::{Estimate, PetalLine, Petals};
use petal_judge::price;
use petal_record::conclusions::limit_clause;
use petal_record::headline::AskedFor;
use petal_settings::objective::Objective;

/// Describes one sweep or table alone, without settings that it may not have.
pub fn alone(name: &str, petals: &Petals, objective: Option<&Objective>) -> String {
    let answer = super::sweep::highest(petals).map_or_else(String::new, |it| format!(": {it}"));
    let mut out = paragraph("petals of ", "  ", &format!("{name}{answer}"));
    section(
        &mut out,
        "petals: PIOPS against single-block read",
        "the engine's counts, means of repeats",
    );
    out.push_str(&super::sweep::chart::petals(petals));
    out.push_str(&lines(petals, objective));
    writer_costs(&mut out, petals);
    let found = findings(petals);
    if !found.is_empty() {
        section(&mut out, "findings", "warnings and errors of the runs of these points");
        bullets(&mut out, found);
    }
    section(&mut out, "points", "means, 95 % intervals");
    out.push_str(&points(petals));
    caveats(&mut out, &petals.notes);
    out
}

/// A paragraph per line.
pub fn lines(petals: &Petals, objective: Option<&Objective>) -> String {
    petals.lines.iter().map(|line| paragraph("- ", "  ", &words(line, objective))).collect()
}

fn words(line: &PetalLine, objective: Option<&Objective>) -> String {
    let at = |position: Option<usize>| or_dash(position, |position| point(line, position));
    let is_one_point = line.points.len() == 1;
    let mut words = match is_one_point {
        true => format!("{}: one point, {}", line.name, point(line, 0)),
        false => match line.struck_out {
            Some(highest) => {
                format!("{}: not a storage test, no peak: {}", line.name, point(line, highest))
            }
            None => format!("{}: peak {}", line.name, at(line.peak)),
        },
    };
    let peak = if is_one_point { Some(0) } else { line.peak };
    if let Some(limit) = peak.and_then(|at| line.limited_by(at)) {
        words.push_str(&format!(", {}", limit_clause(limit)));
    }
    if let Some(plateau) = &line.plateau {
        words.push_str(&format!("; {}", super::petals::plateau(line, plateau)));
    }
    if line.knee.is_some() {
        words.push_str(&format!("; knee {}", at(line.knee)));
    }
    if let (Some(change), Some(last)) = (line.beyond_knee, line.points.last()) {
        let figures = super::petals::beyond_knee(change);
        words.push_str(&format!("; from there to {} sessions {figures}", last.sessions));
    }
    if let Some(bend) = &line.bend_back {
        words.push_str(&format!("; bends back at {}", point(line, bend.at)));
    }
    if line.after_peak.is_some() {
        words.push_str(&format!("; after the peak {}", super::petals::after_peak(line)));
    }
    if let Some(limit) = &line.limit {
        words.push_str(&format!("; cause: {} ({})", limit.cause, limit.evidence.join("; ")));
    }
    if let Some(objective) = objective {
        let met = super::petals::met(line, objective, |position| point(line, position));
        words.push_str(&format!("; {met}"));
    }
    if let Some(cost) = price::of_line(line, objective) {
        let month = rate(cost.per_1000_piops);
        let sessions = counted(cost.sessions, "session");
        words.push_str(&format!("; 1,000 PIOPS cost {month} a month at {sessions}"));
    }
    words
}

fn point(line: &PetalLine, position: usize) -> String {
    let Some(point) = line.points.get(position) else { return super::numbers::UNKNOWN.to_owned() };
    let load = or_dash(point.load(line.asked_for), |estimate| rate(estimate.mean));
    let read = or_dash(point.read_us.as_ref(), |estimate| micros(estimate.mean));
    let sessions = whole(u64::from(point.sessions));
    let noun = if point.sessions == 1 { "session" } else { "sessions" };
    let (unit, struck) =
        (load_unit(line), if point.not_storage.is_some() { "no result: " } else { "" });
    let read = match line.asked_for {
        AskedFor::PhysicalIo => format!(", {read} us"),
        AskedFor::LogicalReads | AskedFor::Redo => String::new(),
    };
    format!("{sessions} {noun} ({struck}{load} {unit}{read})")
}

/// Warnings and errors, each with the points that have it.
pub(super) fn findings(petals: &Petals) -> Vec<String> {
    let points = petals.lines.iter().flat_map(|line| line.points.iter().map(move |p| (line, p)));
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (line, point) in points {
        for id in &point.warnings {
            let place = format!("{}, {}", line.name, counted(point.sessions, "session"));
            places.entry(id).or_default().push(place);
        }
    }
    places.iter().map(|(id, places)| format!("{id}: {}", places.join("; "))).collect()
}

/// A table per line: means and half of their 95 % intervals.
pub fn points(petals: &Petals) -> String {
    const HEADING: &str =
        "sess | n | PIOPS | +- | read us | +- | MB/s | ops/s | mean p50 | mean p99 | ";
    let tables = petals.lines.iter().map(|line| {
        let table = Table::of_figures(HEADING).with_rows(line.points.iter().enumerate().map(
            |(at, point)| {
                let mean = |estimate: &Option<Estimate>, show: fn(f64) -> String| {
                    or_dash(estimate.as_ref(), |estimate| show(estimate.mean))
                };
                let half = |estimate: &Option<Estimate>, show: fn(f64) -> String| {
                    or_dash(estimate.as_ref().and_then(|estimate| estimate.half_width), show)
                };
                let struck = |text: String| Cell::figure(text, point.not_storage.is_some());
                [
                    point.sessions.to_string().into(),
                    point.sources.len().to_string().into(),
                    struck(mean(&point.piops, rate)),
                    struck(half(&point.piops, rate)),
                    struck(mean(&point.read_us, micros)),
                    struck(half(&point.read_us, micros)),
                    struck(mean(&point.mb_s, rate)),
                    mean(&point.ops_s, rate).into(),
                    mean(&point.op_p50_us, micros).into(),
                    mean(&point.op_p99_us, micros).into(),
                    Cell::from(marks(line, at)),
                ]
            },
        ));
        format!("{}\n{}", table::line(&line.name), table.render())
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// Writes the section of readers alone and with writers; nothing if no sweep has both.
pub fn writer_costs(out: &mut String, petals: &Petals) {
    if petals.writer_costs.is_empty() {
        return;
    }
    section(out, "SELECT latency alone and with writers", "petal's clock, us, means of repeats");
    for (at, cost) in petals.writer_costs.iter().enumerate() {
        let gap = if at > 0 { "\n" } else { "" };
        let table = super::petals::writer_cost(cost);
        out.push_str(&format!("{gap}{}{}", table::line(&table.caption), table.render()));
    }
}

fn marks(line: &PetalLine, at: usize) -> String {
    let marks = [
        (line.points[at].not_storage.is_some(), "not a storage test"),
        (line.knee == Some(at), "knee"),
        (line.saturated_from == Some(at), "saturated from here"),
        (line.peak == Some(at) && line.points.len() > 1, "peak"),
        (line.bend_back.as_ref().is_some_and(|bend| bend.at == at), "bends back"),
    ];
    let words: Vec<&str> = marks.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::plain_csv;

    #[test]
    fn a_published_line() {
        let text = include_str!("../../../tests/samples/flash-pcie.csv");
        let objective: Objective = "read.avg=500us".parse().unwrap();
        let petals = Petals::of(&plain_csv::parse(text, "pcie.csv", None).unwrap());
        let petals = petals.with_objective(Some(&objective));
        insta::assert_snapshot!(lines(&petals, Some(&objective)), @"
        - all: peak 64 sessions (99,060 PIOPS, 602.0 us); cause: storage or processors: not known (from 16
          to 64 sessions PIOPS went from 70,122 to 99,060 while a read went from 160.0 to 602.0 us: reads
          are slower; how busy the processors were is not known, and a read's time holds its waits for a
          processor); read.avg=500us is met up to 32 sessions (92,185 PIOPS, 275.0 us)
        ");
        let objective: Objective = "op.p99=2ms".parse().unwrap();
        let petals = petals.with_objective(Some(&objective));
        let ends = lines(&petals, Some(&objective)).replace("\n  ", " ");
        let why =
            "; op.p99=2ms is not judged: no op.p99 is known; petal reports p99 from 1000 values on";
        assert!(ends.trim_end().ends_with(why), "{ends}");
        insta::assert_snapshot!(points(&petals), @"
        all

        sess  n   PIOPS  +-  read us  +-  MB/s  ops/s  mean p50  mean p99
        ----  -  ------  --  -------  --  ----  -----  --------  --------  ----
        1     1   7,139   -    107.0   -     -      -         -         -
        4     1  24,883   -    122.0   -     -      -         -         -
        8     1  41,569   -    136.0   -     -      -         -         -
        16    1  70,122   -    160.0   -     -      -         -         -
        32    1  92,185   -    275.0   -     -      -         -         -
        64    1  99,060   -    602.0   -     -      -         -         -  peak
        ");
    }
}
