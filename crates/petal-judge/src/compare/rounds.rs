//! Checks whether two sides ran in turn. Only then do the two runs of a round share the same drift.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use petal_record::observation::Observation;

/// Returns true if the runs of both sides alternate: in the order of time, each two in a row are
/// one of either side, so that no side has two in a row within one round or finishes before the
/// other begins. Runs without a start time, or sides of different counts, do not.
pub(super) fn ran_in_turn(a: &[&Observation], b: &[&Observation]) -> bool {
    if a.len() != b.len() || a.len() < 2 {
        return false;
    }
    let starts = |runs: &[&Observation], side: usize| -> Option<Vec<(OffsetDateTime, usize)>> {
        runs.iter().map(|seen| Some((seen.started()?, side))).collect()
    };
    let Some((a, b)) = starts(a, 0).zip(starts(b, 1)) else { return false };
    let mut order = [a, b].concat();
    order.sort();
    order.chunks(2).all(|two| two[0].1 != two[1].1)
}

/// Returns the figure of both sides, round by round; a round that lacks it on either side is left
/// out. Rounds are matched by number if both sides have each number once, else by order.
pub(super) fn pairs(a: &[&Observation], b: &[&Observation], metric: &str) -> Vec<(f64, f64)> {
    let is_numbered = |runs: &[&Observation]| {
        let rounds: BTreeSet<u32> = runs.iter().filter_map(|seen| seen.repeat).collect();
        rounds.len() == runs.len()
    };
    let both = |a: &Observation, b: &Observation| Some((a.metric(metric)?, b.metric(metric)?));
    if is_numbered(a) && is_numbered(b) {
        let of_round = |round| b.iter().find(|seen| seen.repeat == round);
        return a.iter().filter_map(|a| both(a, of_round(a.repeat)?)).collect();
    }
    let in_time = |runs: &[&Observation]| -> Vec<usize> {
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by_key(|&at| (runs[at].started(), at));
        order
    };
    let rounds = in_time(a).into_iter().zip(in_time(b));
    rounds.filter_map(|(at_a, at_b)| both(a[at_a], b[at_b])).collect()
}
