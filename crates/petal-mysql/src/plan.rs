//! The plan of the SELECT, as the server explains it, and whether it is the meant one: a range of
//! the index on the key, then each row by its primary key, one after the other.

use mysql_async::Row;

use super::client::{Client, Error};
use super::errors::words;
use super::schema;
use petal_record::target::PlanCheck;

/// ER_KEY_DOES_NOT_EXIST: a statement names an index that is not there.
const NO_SUCH_INDEX: u16 = 1176;

/// The plans in the schemas: one that is not as meant, else the first. An index that is missing is an
/// error.
pub fn check(
    client: &mut Client,
    numbers: impl Iterator<Item = u32>,
) -> Result<Option<PlanCheck>, Error> {
    let checks = numbers.map(|number| check_one(client, number));
    Ok(PlanCheck::worst(checks.collect::<Result<Vec<_>, _>>()?))
}

/// The plans at a run's end, when an index that is missing is no plan that was meant.
pub fn check_again(
    client: &mut Client,
    numbers: impl Iterator<Item = u32>,
) -> Result<Option<PlanCheck>, Error> {
    match check(client, numbers) {
        Err(error) if error.code() == Some(NO_SUCH_INDEX) => {
            Ok(Some(PlanCheck { text: words(&error), as_meant: false }))
        }
        checked => checked,
    }
}

fn check_one(client: &mut Client, number: u32) -> Result<PlanCheck, Error> {
    let name = schema::name(number);
    let sql = schema::select(&name).replacen('?', "1", 1).replacen('?', "2", 1);
    Ok(judged(&steps(client, &sql)?))
}

/// The steps of a statement's plan, each with its table, access, index and remarks.
pub fn steps(client: &mut Client, sql: &str) -> Result<Vec<[String; 4]>, Error> {
    let rows: Vec<Row> = client.query(&format!("EXPLAIN {sql}"))?;
    let text = |row: &Row, column: &str| {
        row.get_opt::<Option<String>, _>(column).and_then(Result::ok).flatten().unwrap_or_default()
    };
    let step = |row: &Row| ["table", "type", "key", "Extra"].map(|column| text(row, column));
    Ok(rows.iter().map(step).collect())
}

/// The steps in a line.
pub fn shown(steps: &[[String; 4]]) -> String {
    let shown = steps.iter().map(|[table, access, key, extra]| {
        let by = if key.is_empty() { String::new() } else { format!(" by {key}") };
        let extra = if extra.is_empty() { String::new() } else { format!(" ({extra})") };
        format!("{table}: {access}{by}{extra}")
    });
    shown.collect::<Vec<_>>().join("; ")
}

fn judged(steps: &[[String; 4]]) -> PlanCheck {
    let text = shown(steps);
    let sorts = ["MRR", "Rowid-ordered", "Key-ordered", "filesort"];
    let is_by_row = !sorts.iter().any(|word| text.contains(word));
    let is_range = match steps {
        [[_, access, key, _]] => access == "range" && key == "petal_custid",
        _ => false,
    };
    PlanCheck { text, as_meant: is_range && is_by_row }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_range_of_the_index_row_by_row_is_meant() {
        let of = |step: [&str; 4]| {
            let check = judged(&[step.map(str::to_owned)]);
            (check.text, check.as_meant)
        };
        let by_range = |extra| of(["petal1_cf1", "range", "petal_custid", extra]);
        insta::assert_snapshot!(by_range("Using index condition").0, @"petal1_cf1: range by petal_custid (Using index condition)");
        assert!(by_range("Using index condition").1);
        assert!(!by_range("Using index condition; Using MRR").1);
        assert!(!by_range("Using where; Rowid-ordered scan").1);
        assert!(!by_range("Using index condition; Using filesort").1);
        assert!(!of(["petal1_cf1", "ALL", "", "Using where"]).1);
    }
}
