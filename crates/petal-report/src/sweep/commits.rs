//! Compares several runs: their names, and the waits of their commits.

use super::super::numbers::{decimal, micros, or_dash, rate, ratio, whole};
use super::super::table::{Table, paragraph};
use petal_record::Run;
use petal_record::counters::WaitClass;

/// A row per run, in the order of the other table; each with the name of its folder. Some of the
/// optional columns are left out on a narrower terminal.
pub fn table(runs: &[(&str, &Run)], optional: &[&str]) -> String {
    let mut table = Table::headed(
        "row: | run | loop | ops/s: | commits: | per log sync: | commit wait s: | upd mean:",
    );
    for (row, (name, run)) in (1..).zip(runs) {
        let counted = run.counted();
        let (summary, headline) = (&run.summary, run.headline_window());
        let shown = &headline.run.summary;
        let commits = counted.summary.ops.update;
        let per_sync = ratio(Some(commits), counted.details.io.log_syncs);
        let update = shown.latency_us.get("update").and_then(|latency| latency.mean);
        table.row([
            row.to_string(),
            (*name).to_owned(),
            or_dash(loop_side(run), str::to_ascii_lowercase),
            or_dash(shown.per_second.ops, rate),
            whole(summary.ops.update),
            or_dash(per_sync.filter(|_| commits > 0), |each| decimal(each, 2)),
            or_dash(commit_waits_s(run), |seconds| decimal(seconds, 2)),
            or_dash(update, micros),
        ]);
    }
    let note = "sel, upd: latencies of whole operations in us, of the counted window, like ops/s; redo: MB/s; \
                commits: acknowledged to petal in the whole run; commit wait s: its time in waits of the \
                classes Commit and Replica";
    format!("{}\n{}", table.render_without(optional).0, paragraph("", "  ", note))
}

/// Returns the value in force, from the engine; or else the requested one.
fn loop_side(run: &Run) -> Option<&str> {
    let reported = run.details.target.settings.iter().find(|(name, _)| name == "loop");
    let reported = reported.and_then(|(_, value)| value.split(':').next());
    reported.or_else(|| run.summary.setting("loop")?.as_str())
}

/// None if the database reported no waits.
fn commit_waits_s(run: &Run) -> Option<f64> {
    let of_commits = |class| matches!(class, WaitClass::Commit | WaitClass::Replica);
    let waits = run.summary.waits.iter().filter(|wait| of_commits(wait.class));
    run.is_counted().then(|| waits.map(|wait| wait.time_us).sum::<f64>() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn runs_have_distinct_names() {
        let server = fixture::mixed_run();
        let mut client = fixture::mixed_run();
        client.summary.settings.insert("loop".into(), "CLIENT".into());
        client.details.io.log_syncs = None;
        insta::assert_snapshot!(table(&[("20261120T140000Z-server", &server), ("client", &client)], &[]), @"
        row  run                      loop    ops/s  commits  per log sync  commit wait s  upd mean
        ---  -----------------------  ------  -----  -------  ------------  -------------  --------
          1  20261120T140000Z-server  -         914   10,972          1.00           4.52    13,195
          2  client                   client    914   10,972             -           4.52    13,195

        sel, upd: latencies of whole operations in us, of the counted window, like ops/s; redo: MB/s;
          commits: acknowledged to petal in the whole run; commit wait s: its time in waits of the classes
          Commit and Replica
        ");
    }
}
