//! Events over time: a lane for each kind of event that the record knows the time of.

use super::super::super::charts::{Chart, Color, PlotAxis, Variant};
use super::super::super::distinct;
use super::super::super::numbers::{decimal, whole};
use super::{ChartPiece, TimeAxis};
use crate::table::Table;
use petal_record::{Finding, Run, SecondAmount, Window, each_second};

/// Largest number of events that every chart marks; more are marked in their lane alone.
const MARKED_MAX: usize = 40;
const LANE_PX: f64 = 24.0;

/// A kind of event with the time spans of its events.
pub(super) struct Lane {
    name: String,
    pub(super) color: Color,
    pub(super) spans: Vec<(f64, f64)>,
    /// A state of the run, such as its warm-up, rather than something that happened in it.
    is_state: bool,
}

impl Lane {
    fn state(name: &str, color: Color, spans: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), color, spans, is_state: true }
    }

    fn events(name: &str, color: Color, spans: Vec<(f64, f64)>) -> Self {
        Self { is_state: false, ..Self::state(name, color, spans) }
    }

    pub(super) fn is_marked_everywhere(&self) -> bool {
        self.spans.len() <= MARKED_MAX && self.color != STEADY
    }

    /// Returns the strength of its mark behind figures.
    pub(super) fn tint(&self) -> f64 {
        if self.is_state { 0.12 } else { 0.22 }
    }

    fn within(&self, piece: &ChartPiece<'_>) -> usize {
        let (begin, end) = (piece.begin_s(), piece.end_s());
        self.spans.iter().filter(|(from, to)| *from < end && *to > begin).count()
    }
}

/// Color of the measured time. It has no mark in other charts: all time except warm-up is measured.
const STEADY: Color = Color::Series(2);

/// The lanes that have anything, up to the charts' last second.
pub(super) fn lanes(run: &Run, until_s: f64) -> Vec<Lane> {
    let timeline = &run.details.timeline;
    let seconds = |amount: SecondAmount| -> Vec<(f64, f64)> {
        let those = each_second(timeline).filter(|second| second.amount(amount) > Some(0.0));
        those.map(|second| (second.from_s, second.end_s())).collect()
    };
    let warm_up = run.summary.steady.as_ref().map(|steady| (0.0, steady.from_s));
    let shown = run.headline_window().window;
    let window = (!matches!(shown, Window::Whole { .. })).then(|| shown.seconds(run));
    let lost = run.summary.sessions_lost.iter().map(|lost| (lost.at_s, lost.at_s + 1.0));
    let suspended = run.details.suspended.iter().flatten();
    let suspended = suspended.map(|gone| (gone.at_s, gone.at_s + gone.lost_s.max(1.0)));
    let experiments = run.details.experiments.as_ref().filter(|made| !made.slots.is_empty());
    let experiments = experiments.map(|made| (made.from_s, run.summary.elapsed_s));
    let mut lanes = vec![
        Lane::state("warm-up", Color::Muted, warm_up.into_iter().collect()),
        Lane::state("counted window", STEADY, window.into_iter().collect()),
        Lane::state("experiments", Color::Series(5), experiments.into_iter().collect()),
        Lane::events("checkpoints", Color::Series(4), seconds(SecondAmount::Checkpoints)),
        Lane::events("vacuums", Color::Series(6), seconds(SecondAmount::Vacuums)),
        Lane::events("log switches", Color::Series(7), seconds(SecondAmount::LogSwitches)),
        Lane::events("errors", Color::Series(1), seconds(SecondAmount::Errors)),
        Lane::events("sessions lost", Color::Series(1), lost.collect()),
        Lane::events("petal stopped", Color::Series(5), suspended.collect()),
    ];
    lanes.extend(
        run.summary
            .findings
            .iter()
            .map(|finding| Lane::events(&finding.id, Color::Series(3), moments(finding))),
    );
    for lane in &mut lanes {
        let spans = lane.spans.iter().map(|&(from, to)| (from.max(0.0), to.min(until_s)));
        lane.spans = spans.filter(|(from, to)| from < to).collect();
    }
    lanes.retain(|lane| !lane.spans.is_empty());
    lanes
}

/// The seconds that a finding names in its evidence, under names that end in `at_s`.
fn moments(finding: &Finding) -> Vec<(f64, f64)> {
    let named = finding.evidence.iter().filter(|(name, _)| name.ends_with("at_s"));
    let values = named.flat_map(|(_, value)| match value.as_array() {
        Some(all) => all.iter().collect(),
        None => vec![value],
    });
    values.filter_map(|value| value.as_f64()).map(|at_s| (at_s, at_s + 1.0)).collect()
}

/// Draws all lanes below each other; None without any.
pub(super) fn strip(axis: &TimeAxis<'_>) -> Option<Chart> {
    let lanes = &axis.lanes;
    let count = lanes.len() as f64;
    if lanes.is_empty() {
        return None;
    }
    let middle = |at: usize| count - at as f64 - 0.5;
    let names = distinct(lanes.iter().map(|lane| lane.name.as_str()));
    let words = lanes.iter().enumerate().map(|(at, lane)| (middle(at), lane.name.clone()));
    let y = PlotAxis::of_words(words, count);
    let (id, title) = ("events", "Events of the run");
    let said = lanes.iter().map(|lane| match lane.spans.as_slice() {
        [(from, to)] => {
            format!("{}: from {} to {} s.", lane.name, decimal(*from, 0), decimal(*to, 0))
        }
        spans => format!("{}: in {} seconds.", lane.name, whole(spans.len() as u64)),
    });
    let said: Vec<String> = said.collect();
    let svg = axis.drawing((id, title, &said.join(" ")), 46.0 + LANE_PX * count, y, |plot| {
        for (number, lane) in lanes.iter().enumerate() {
            let (low, high) = (middle(number) - 0.32, middle(number) + 0.32);
            let spans: Vec<_> = lane.spans.iter().map(|&(a, b)| [(a, low), (b, high)]).collect();
            plot.rectangles(&spans, lane.color, if lane.is_state { 0.45 } else { 0.9 });
        }
    });
    let row = |piece: &ChartPiece<'_>| {
        let counted = names.iter().map(|name| {
            let of_name = lanes.iter().filter(|lane| lane.name == *name);
            match of_name.map(|lane| (lane.within(piece), lane.is_state)).max() {
                None | Some((0, _)) => String::new(),
                Some((_, true)) => "yes".to_owned(),
                Some((count, false)) => count.to_string(),
            }
        });
        std::iter::once(decimal(piece.begin_s(), 0)).chain(counted).collect::<Vec<_>>()
    };
    let note = format!(
        "Events are shaded in every chart (up to {MARKED_MAX} of a kind); a finding, in the seconds that it \
         names."
    );
    let values = Table::of_columns(std::iter::once("from s").chain(names.iter().copied()));
    let values = values.with_rows(axis.pieces.iter().map(row));
    Some(Chart::new(id, title, note, Variant::linear(svg), values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::experiments::{ExperimentSlot, ExperimentsMade};
    use petal_record::{Severity, fixture};

    #[test]
    fn events_are_where_the_record_has_them() {
        let mut run = fixture::mixed_run();
        run.summary.findings = vec![Finding {
            id: "stalled".into(),
            severity: Severity::Warning,
            message: String::new(),
            advice: String::new(),
            evidence: [("stalled_at_s".to_owned(), serde_json::json!([12.0, 44.0, 999.0]))].into(),
        }];
        run.details.timeline[20].log_switches = Some(1);
        run.details.experiments = Some(ExperimentsMade {
            from_s: 30.0,
            slots: vec![ExperimentSlot { change: None, operations: 1.0 }],
            ..ExperimentsMade::default()
        });
        let lanes = lanes(&run, 60.0);
        let lane = lanes.iter().find(|lane| lane.name == "experiments").unwrap();
        assert!(lane.spans == [(30.0, 60.0)] && lane.is_marked_everywhere());
        let spans = |name: &str| lanes.iter().find(|lane| lane.name == name).map(|l| &l.spans);
        assert_eq!(spans("warm-up"), Some(&vec![(0.0, 5.0)]));
        assert_eq!(spans("checkpoints").map(Vec::len), Some(6));
        assert_eq!(spans("log switches"), Some(&vec![(20.0, 21.0)]));
        assert_eq!(spans("errors"), Some(&vec![(30.0, 31.0)]));
        // Events beyond the charts are not drawn at their end.
        assert_eq!(spans("stalled"), Some(&vec![(12.0, 13.0), (44.0, 45.0)]));
        assert_eq!((spans("vacuums"), spans("sessions lost")), (None, None));
    }
}
