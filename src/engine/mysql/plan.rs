//! The plan of the SELECT, as the server explains it, and whether it is the meant one: a range of
//! the index on the key, then each row by its primary key, one after the other.

use mysql_async::Row;

use super::client::Client;
use super::errors::engine_error;
use super::schema;
use crate::engine::Result;
use crate::settings::LoopSide;
use crate::stats::target::PlanCheck;

const EACH_RANGE: &str = "Range checked for each record";

pub fn check(
    client: &mut Client,
    server: &str,
    number: u32,
    loop_side: LoopSide,
) -> Result<PlanCheck> {
    let name = schema::name(number);
    let sql = match loop_side {
        LoopSide::Set => schema::select_set(&name).replacen('?', "'[[1,2]]'", 1),
        _ => schema::select(&name).replacen('?', "1", 1).replacen('?', "2", 1),
    };
    let rows: Vec<Row> = client
        .query(&format!("EXPLAIN {sql}"))
        .map_err(|error| engine_error(server, "explaining the SELECT", &error))?;
    let text = |row: &Row, column: &str| {
        row.get::<Option<String>, _>(column).flatten().unwrap_or_default()
    };
    let steps: Vec<[String; 4]> = rows
        .iter()
        .map(|row| ["table", "type", "key", "Extra"].map(|column| text(row, column)))
        .collect();
    Ok(judged(&steps, loop_side))
}

/// Of each step its table, access, index and remarks.
fn judged(steps: &[[String; 4]], loop_side: LoopSide) -> PlanCheck {
    let shown = steps.iter().map(|[table, access, key, extra]| {
        let by = if key.is_empty() { String::new() } else { format!(" by {key}") };
        let extra = if extra.is_empty() { String::new() } else { format!(" ({extra})") };
        format!("{table}: {access}{by}{extra}")
    });
    let text = shown.collect::<Vec<_>>().join("; ");
    let reads_ahead =
        ["MRR", "Rowid-ordered", "Key-ordered"].iter().any(|word| text.contains(word));
    let is_meant = match (steps, loop_side) {
        ([.., [_, _, _, extra]], LoopSide::Set) => extra.starts_with(EACH_RANGE),
        ([[_, access, key, _]], _) => access == "range" && key == "petal_custid",
        _ => false,
    };
    PlanCheck { text, as_meant: is_meant && !reads_ahead }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_range_of_the_index_row_by_row_is_meant() {
        let of = |step: [&str; 4], side| {
            let check = judged(&[step.map(str::to_owned)], side);
            (check.text, check.as_meant)
        };
        let by_range = |extra| of(["petal1_cf1", "range", "petal_custid", extra], LoopSide::Client);
        insta::assert_snapshot!(by_range("Using index condition").0, @"petal1_cf1: range by petal_custid (Using index condition)");
        assert!(by_range("Using index condition").1);
        assert!(!by_range("Using index condition; Using MRR").1);
        assert!(!by_range("Using where; Rowid-ordered scan").1);
        assert!(!of(["petal1_cf1", "ALL", "", "Using where"], LoopSide::Server).1);
        let each = "Range checked for each record (index map: 0x2)";
        assert!(of(["petal1_cf1", "ALL", "", each], LoopSide::Set).1);
        assert!(!of(["petal1_cf1", "ALL", "", "Using where"], LoopSide::Set).1);
    }
}
