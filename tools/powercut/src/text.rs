//! Results of power cuts as text.

use crate::found::{Cut, PowerCuts, Trial};
use petal_report::numbers::{decimal, or_dash, whole};
use petal_report::table::{Table, paragraph};

/// Returns the answer, a table of all trials, and notes on their meaning.
pub fn text(found: &PowerCuts) -> String {
    let mut lines: Vec<String> =
        found.trials.first().map(|asked| answer(found, asked)).into_iter().collect();
    lines.extend([String::new(), table(found).render().trim_end().to_owned()]);
    for note in notes(found) {
        lines.push(String::new());
        lines.push(paragraph("", "", &note).trim_end().to_owned());
    }
    lines.join("\n") + "\n"
}

/// Formats one cut as a line.
pub fn cut(trial: &Trial, cut: &Cut) -> String {
    let at = format!("{}: cut {} of {}", trial.name(), trial.cuts.len(), trial.planned_cuts);
    let (lost, all) = (whole(cut.lost_commits), whole(cut.acknowledged_commits));
    match (&cut.unreadable, cut.bad_rows) {
        (Some(why), _) => format!("{at}: the database cannot be read: {why}"),
        (None, 0) => format!("{at}: {lost} of {all} commits lost"),
        (None, bad) => format!("{at}: {lost} of {all} commits lost, torn or wrong rows: {bad}"),
    }
}

fn answer(found: &PowerCuts, asked: &Trial) -> String {
    let (lost, all) = (whole(asked.lost_commits), whole(asked.acknowledged_commits));
    format!(
        "{lost} of {all} acknowledged commits lost over {} ({}, {})",
        counted(asked.cuts.len()),
        found.engine,
        asked.name()
    )
}

fn counted(cuts: usize) -> String {
    format!("{} {}", whole(cuts as u64), if cuts == 1 { "cut" } else { "cuts" })
}

/// Returns the upper bound for the share of cuts that lose something, in percent. With this share,
/// `cuts` cuts without a loss would still occur in 5 % of all tries: (1 - share)^cuts = 0.05, the
/// exact binomial bound.
fn most_losses_pct(cuts: usize) -> f64 {
    100.0 * (1.0 - 0.05_f64.powf(1.0 / cuts as f64))
}

fn table(found: &PowerCuts) -> Table {
    let mut table = Table::of_figures(
        "disk and settings | cuts | with loss | unreadable | acknowledged | lost | bad rows | \
         commits/s | writes/s | flushes/s",
    );
    for trial in found.trials.iter().filter(|trial| !trial.cuts.is_empty()) {
        let rate = |rate: Option<f64>| or_dash(rate, |rate| decimal(rate, 0));
        table.row([
            trial.name(),
            whole(trial.cuts.len() as u64),
            whole(trial.cuts_with_loss),
            whole(trial.unreadable_cuts),
            whole(trial.acknowledged_commits),
            whole(trial.lost_commits),
            whole(trial.bad_rows),
            rate(trial.commits_per_second),
            rate(trial.writes_per_second),
            rate(trial.flushes_per_second),
        ]);
    }
    table
}

fn notes(found: &PowerCuts) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(asked) = found.trials.first() else { return notes };
    let cuts = asked.cuts.len();
    let controls: Vec<&Trial> =
        found.trials.iter().filter(|trial| trial.is_control && !trial.cuts.is_empty()).collect();
    let dropped: Vec<u64> =
        asked.cuts.iter().map(|cut| cut.dropped_bytes).filter(|&bytes| bytes > 0).collect();
    if asked.is_kept() && cuts > 0 {
        let proof = match dropped.len() {
            0 => "the disk's cache held nothing that was not flushed, so these cuts prove nothing"
                .to_owned(),
            // Only a cut that drops writes could have shown a loss.
            some => format!(
                "{} dropped {} KB of writes that were not flushed. With 95 % confidence, fewer \
                 than {} % of such cuts lose a commit",
                counted(some),
                whole(dropped.iter().sum::<u64>().div_ceil(1000)),
                decimal(most_losses_pct(some), 1),
            ),
        };
        notes.push(format!("No loss in {}: {proof}.", counted(cuts)));
    }
    if !controls.is_empty() && controls.iter().all(|control| control.is_kept()) {
        notes.push(
            "The controls lost nothing either: these cuts prove nothing. Take more of them \
             (--controls), or a longer run (--within)."
                .to_owned(),
        );
    }
    for control in controls {
        let rates = control.commits_per_second.zip(asked.commits_per_second);
        let Some((control_rate, asked_rate)) = rates.filter(|rates| rates.1 > 0.0) else {
            continue;
        };
        notes.push(format!(
            "{}: {} times as many commits per second as {}; commits lost in {} of {}.",
            control.name(),
            decimal(control_rate / asked_rate, 1),
            asked.name(),
            whole(control.cuts_with_loss),
            counted(control.cuts.len())
        ));
    }
    if found.accelerator == "tcg" {
        notes.push(
            "The guest was emulated (tcg): compare its rates only with \
             each other."
                .to_owned(),
        );
    }
    notes.extend(found.stopped.iter().map(|why| format!("Not all cuts were done: {why}")));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_without_a_loss_bound_the_share_of_losses() {
        let shown = [1, 20, 200].map(|cuts| decimal(most_losses_pct(cuts), 1));
        assert_eq!(shown, ["95.0", "13.9", "1.5"]);
    }

    #[test]
    fn cuts_that_had_nothing_to_lose_say_so() {
        let shown = |dropped: &[u64]| {
            let mut trial = Trial { disk: "honest", planned_cuts: 1, ..Trial::default() };
            for &dropped_bytes in dropped {
                trial.add(Cut { acknowledged_commits: 7, dropped_bytes, ..Cut::default() });
            }
            text(&PowerCuts { trials: vec![trial], ..PowerCuts::default() }).replace('\n', " ")
        };
        let text = shown(&[0]);
        assert!(text.starts_with("0 of 7 acknowledged commits lost over 1 cut ("), "{text}");
        assert!(text.contains("No loss in 1 cut:") && text.contains("prove nothing"), "{text}");
        // Of 200 cuts, 64 could have lost something.
        let text = shown(&[&[4096; 64][..], &[0; 136]].concat());
        assert!(text.contains("No loss in 200 cuts: 64 cuts dropped 263 KB"), "{text}");
        assert!(text.contains("fewer than 4.6 %"), "{text}");
    }
}
