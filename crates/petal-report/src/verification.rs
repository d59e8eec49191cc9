//! The result of a verification, for a person.

use super::numbers::{decimal, whole};
use super::table::{SCREEN_LINES, fitting, paragraph};
use petal_record::verification::{LISTED_MAX, Verification};

/// The whole report.
pub fn text(found: &Verification) -> String {
    listing(found, LISTED_MAX)
}

/// The report with as many lost and bad rows as fit on a screen.
pub fn brief(found: &Verification) -> String {
    fitting(LISTED_MAX, SCREEN_LINES, |count| listing(found, count))
}

fn listing(found: &Verification, rows_max: usize) -> String {
    let mut lines = vec![answer(found)];
    lines.extend(caveats(found).iter().map(|note| paragraph("", "", note).trim_end().to_owned()));
    lines.push(String::new());
    lines.extend(figures(found).into_iter().map(|(name, value)| format!("{name:<28}{value:>16}")));
    lines.extend(lost(found, rows_max));
    lines.extend(bad(found, rows_max));
    for note in notes(found) {
        lines.push(String::new());
        lines.push(paragraph("", "", &note).trim_end().to_owned());
    }
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// The answer in one line.
pub fn answer(found: &Verification) -> String {
    let (lost, all) = (whole(found.lost_commits), whole(found.acknowledged_commits));
    let mut answer = match found.not_replayed_commits {
        0 => format!("{lost} of {all} acknowledged commits lost"),
        missing => format!(
            "no verdict: {} of {all} acknowledged commits are not replayed yet",
            whole(missing)
        ),
    };
    if found.bad_rows > 0 {
        answer += &format!("; torn or wrong rows: {}", whole(found.bad_rows));
    }
    answer
}

fn figures(found: &Verification) -> Vec<(&'static str, String)> {
    let mut figures = vec![
        ("acknowledged commits", whole(found.acknowledged_commits)),
        ("  survived", whole(found.survived_commits)),
    ];
    if let Some(in_log) = found.in_log_commits {
        figures.push(("    of them in the log alone", whole(in_log)));
    }
    figures.push(("  lost", whole(found.lost_commits)));
    if found.not_replayed_commits > 0 {
        figures.push(("  not replayed yet", whole(found.not_replayed_commits)));
    }
    if let Some(span) = found.lost_span_ms {
        figures.push(("  lost over the last", format!("{} ms", decimal(span, 1))));
    }
    if found.unknown_commits > 0 {
        figures.push(("  unknown: of a bad row", whole(found.unknown_commits)));
    }
    figures.extend([
        ("rows read", whole(found.rows_read)),
        ("  with a lost commit", whole(found.lost_rows)),
        ("  torn, missing or wrong", whole(found.bad_rows)),
        ("  never acknowledged", whole(found.unacknowledged_rows)),
    ]);
    if !found.missing_shares.is_empty() {
        figures.push(("  of shares without a ledger", whole(found.missing_share_rows)));
    }
    figures
}

fn lost(found: &Verification, rows_max: usize) -> Vec<String> {
    let rows = found.lost.iter().take(rows_max).map(|row| {
        let at = row.acknowledged_at.as_deref().unwrap_or("-");
        format!(
            "schema {} row {}: session {}, operation {}, acknowledged {at}, {} ms before the \
             last; there is {}",
            row.schema,
            row.key,
            row.session,
            row.sequence,
            decimal(row.before_last_ms, 1),
            row.found
        )
    });
    listed("Lost", rows, rows_max, found.lost_rows)
}

fn bad(found: &Verification, rows_max: usize) -> Vec<String> {
    let rows = found.bad.iter().take(rows_max);
    let rows = rows.map(|row| format!("schema {} row {}: {}", row.schema, row.key, row.why));
    listed("Torn, missing or wrong", rows, rows_max, found.bad_rows)
}

fn listed(
    heading: &str,
    rows: impl Iterator<Item = String>,
    rows_max: usize,
    all: u64,
) -> Vec<String> {
    if all == 0 {
        return Vec::new();
    }
    let more = all.saturating_sub(rows_max as u64);
    let more = (more > 0).then(|| format!("  and {} more", whole(more)));
    let heading = [String::new(), heading.to_owned()];
    let rows = rows.map(|row| paragraph("  ", "    ", &row).trim_end().to_owned());
    heading.into_iter().chain(rows).chain(more).collect()
}

/// Lists the conditions of the answer.
fn caveats(found: &Verification) -> Vec<String> {
    let mut caveats = Vec::new();
    if let Some(recovery) = &found.recovery {
        let or_unknown = |text: &Option<String>| text.clone().unwrap_or("unknown".to_owned());
        let outcome = match (recovery.has_last_commit, found.not_replayed_commits) {
            (true, _) => "It has replayed the ledger's last commit: a missing commit is lost.",
            (false, 0) => "No commit of the ledger is missing.",
            (false, _) => {
                "The ledger's last commit is not among it: no loss is claimed. Wait until it has \
                 replayed all that it can get, or promote it, then verify again."
            }
        };
        caveats.push(format!(
            "{} is in recovery (a standby): it has replayed its log to {} of {} received, with \
             transactions until {} by its primary's clock; the ledger's last commit is of {}. {outcome}",
            recovery.server,
            or_unknown(&recovery.replayed),
            or_unknown(&recovery.received),
            or_unknown(&recovery.replayed_until),
            or_unknown(&recovery.ledger_until),
        ));
    }
    if !found.missing_shares.is_empty() {
        caveats.push(format!(
            "No ledger of share {} was given: losses under versions of that host are not seen. \
             Verify the ledgers of all hosts at once: petal verify LEDGER LEDGER...",
            found.missing_shares.join(", ")
        ));
    }
    if found.lost_rows > 0 && found.other_run_rows > 0 {
        caveats.push(format!(
            "{} rows hold a version of another run. If that run came before this ledger's, its \
             changes came back. If it came after, this verdict is not about the cut: verify before \
             anything else writes.",
            whole(found.other_run_rows)
        ));
    }
    caveats
}

fn notes(found: &Verification) -> Vec<String> {
    let mut notes = Vec::new();
    if !found.ledger_is_whole {
        let torn = match found.ledger_torn_bytes {
            0 => String::new(),
            bytes => {
                format!(" Its last {} bytes are a record cut off, and left out.", whole(bytes))
            }
        };
        notes.push(format!(
            "The ledger lacks its normal end: petal or its host was killed, or writing the ledger \
             failed. The last acknowledgements may be missing.{torn} The ledger's other commits \
             count."
        ));
    }
    if found.acknowledged_commits == 0 {
        notes.push(
            "No commit was acknowledged before the ledger ends: this verdict proves nothing."
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::verification::{BadRow, FORMAT, LostRow, Recovery};

    fn kept() -> Verification {
        Verification {
            format: FORMAT.to_owned(),
            url: "sqlite:petal-data".to_owned(),
            ledger_is_whole: true,
            acknowledged_commits: 12_345,
            acknowledged_rows: 98_760,
            survived_commits: 12_345,
            rows_read: 4096,
            unacknowledged_rows: 8,
            unacknowledged_versions: 1,
            ..Verification::default()
        }
    }

    #[test]
    fn a_kept_promise_is_one_line_and_its_figures() {
        insta::assert_snapshot!(text(&kept()), @r"
        0 of 12,345 acknowledged commits lost

        acknowledged commits                  12,345
          survived                            12,345
          lost                                     0
        rows read                              4,096
          with a lost commit                       0
          torn, missing or wrong                   0
          never acknowledged                       8
        ");
    }

    #[test]
    fn a_server_that_has_not_replayed_the_last_commit_gets_no_verdict() {
        let lost = Verification { survived_commits: 345, lost_commits: 12_000, ..kept() };
        let recovery = Recovery {
            server: "standby:5432".to_owned(),
            replayed: Some("0/5000".to_owned()),
            ..Recovery::default()
        };
        let found = lost.clone().in_recovery(recovery.clone());
        assert_eq!((found.lost_commits, found.not_replayed_commits), (0, 12_000));
        let said = text(&found);
        assert!(said.starts_with("no verdict: 12,000 of 12,345 acknowledged commits"), "{said}");
        assert!(said.contains("standby:5432 is in recovery") && said.contains("0/5000"), "{said}");
        let found = lost.in_recovery(Recovery { has_last_commit: true, ..recovery });
        assert_eq!((found.lost_commits, found.not_replayed_commits), (12_000, 0));
    }

    #[test]
    fn lost_and_bad_rows_are_listed() {
        let lost = LostRow {
            schema: 1,
            key: 77,
            session: 3,
            sequence: 41,
            acknowledged_at: Some("2026-11-22T13:00:00Z".to_owned()),
            before_last_ms: 412.34,
            found: "session 2, operation 9".to_owned(),
        };
        let bad = BadRow { schema: 2, key: 5, why: "there is no such row".to_owned() };
        let found = Verification {
            ledger_is_whole: false,
            ledger_torn_bytes: 60,
            survived_commits: 12_341,
            lost_commits: 3,
            unknown_commits: 1,
            lost_rows: 21,
            lost_span_ms: Some(412.34),
            lost: vec![lost],
            bad_rows: 1,
            bad: vec![bad],
            other_run_rows: 2,
            in_log_commits: Some(7),
            ..kept()
        };
        insta::assert_snapshot!(text(&found), @"
        3 of 12,345 acknowledged commits lost; torn or wrong rows: 1
        2 rows hold a version of another run. If that run came before this ledger's, its changes came back.
        If it came after, this verdict is not about the cut: verify before anything else writes.

        acknowledged commits                  12,345
          survived                            12,341
            of them in the log alone               7
          lost                                     3
          lost over the last                412.3 ms
          unknown: of a bad row                    1
        rows read                              4,096
          with a lost commit                      21
          torn, missing or wrong                   1
          never acknowledged                       8

        Lost
          schema 1 row 77: session 3, operation 41, acknowledged 2026-11-22T13:00:00Z, 412.3 ms before the
            last; there is session 2, operation 9
          and 1 more

        Torn, missing or wrong
          schema 2 row 5: there is no such row

        The ledger lacks its normal end: petal or its host was killed, or writing the ledger failed. The
        last acknowledgements may be missing. Its last 60 bytes are a record cut off, and left out. The
        ledger's other commits count.
        ");
        let share = Verification {
            missing_shares: vec!["2/2".to_owned()],
            missing_share_rows: 7,
            ..kept()
        };
        let text_of_share = text(&share);
        assert!(text_of_share.lines().nth(1).unwrap().starts_with("No ledger of share 2/2"));
        assert!(
            text_of_share.contains("of shares without a ledger               7"),
            "{text_of_share}"
        );
        let empty = Verification { acknowledged_commits: 0, survived_commits: 0, ..kept() };
        assert!(text(&empty).contains("proves nothing"));
    }
}
