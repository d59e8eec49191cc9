//! The table of elasticities by experiment.

use petal_host::numbers::decimal;
use petal_record::Run;

use crate::table::Table;

pub fn table(run: &Run) -> Table {
    let heading = "resource | elasticity | from | to | the change, or why unknown";
    Table::headed(heading).with_rows(run.summary.elasticity.iter().map(|it| {
        let figure =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| decimal(value, 2));
        [
            it.of.words().to_owned(),
            figure(it.elasticity),
            figure(it.interval.map(|both| both.0)),
            figure(it.interval.map(|both| both.1)),
            it.why_unknown.clone().unwrap_or_else(|| it.words.clone()),
        ]
    }))
}

/// The slots of the experiments, and the resources that were not changed.
pub fn notes(run: &Run) -> Vec<String> {
    let Some(made) = &run.details.experiments else { return Vec::new() };
    let rounds = made.slots.len() as u32 / made.slots_per_round.max(1);
    let slots = format!(
        "{rounds} rounds of {} slots of {} s, from second {} on; the headline is of the time \
         before",
        made.slots_per_round,
        decimal(made.slot_s, 1),
        decimal(made.from_s, 0)
    );
    let slots = (rounds > 0).then_some(slots);
    slots.into_iter().chain(made.gaps.iter().cloned()).collect()
}
