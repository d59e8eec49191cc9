//! Tests of rows read back for the verification of a ledger.

use super::*;
use petal_workload::row::COLUMNS;
use petal_workload::version::RowStamps;

/// Returns a row as the database answers it.
fn row(key: &str, stamps: [u64; 2]) -> Vec<String> {
    let column = |number: u32| {
        let mut column = vec![0; 128];
        Filler::Constant.fill(&mut column, stamps[usize::from(number > 3)], number);
        String::from_utf8(column).unwrap()
    };
    std::iter::once(key.to_owned()).chain((2..).take(COLUMNS).map(column)).collect()
}

#[test]
fn rows_come_back_with_their_stamps_or_what_is_wrong_with_them() {
    let (whole, mut torn) = (row("8", [41, 7]), row("9", [42, 7]));
    torn[2].clone_from(&whole[2]);
    let rows = [&whole, &torn].map(|row| row.iter().map(String::as_str).collect::<Vec<_>>());
    let scripted = loaded().answers("SELECT custid, c2, c3", &[&rows[0], &rows[1]]);
    let mut reader = engine(&scripted, &settings()).row_reader(2).unwrap();
    let mut found = Vec::new();
    reader.read(8, 9, &mut found).unwrap();
    assert_eq!((found[0].key, &found[0].stamps), (8, &Ok(RowStamps { row: 41, rest: 7 })));
    assert!(found[1].stamps.as_ref().unwrap_err().starts_with("torn"));
    let sent = scripted.sent();
    let asked = sent.last().unwrap();
    assert!(
        asked.ends_with("c20 FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [8, 9]"),
        "{asked}"
    );
}

#[test]
fn a_row_without_a_key_is_an_error_and_not_row_0() {
    let row = row("", [41, 7]);
    let row: Vec<&str> = row.iter().map(String::as_str).collect();
    let scripted = loaded().answers("SELECT custid, c2, c3", &[&row]);
    let mut reader = engine(&scripted, &settings()).row_reader(2).unwrap();
    let refused = reader.read(8, 9, &mut Vec::new()).unwrap_err().to_string();
    assert!(refused.contains("reading rows: the database answered \"\" for a count"), "{refused}");
}

#[test]
fn rows_of_slobs_own_are_refused() {
    let scripted = loaded();
    let engine = engine(&scripted, &settings());
    let refused = engine.row_reader(9).err();
    assert!(matches!(refused, Some(EngineError::NotLoaded { schema: 9, .. })));
}

#[test]
fn a_session_that_reconnects_refuses_a_database_with_another_load() {
    let reconnect = Some(Reconnect { answer_limit: Duration::from_secs(1) });
    let mut engine = engine(&loaded(), &Settings { reconnect, ..settings() });
    let refusal = |engine: &Oracle| engine.reconnect(seat(1, 1)).err().unwrap().to_string();
    engine.connect(seat(1, 1)).unwrap();
    engine.reconnect(seat(2, 1)).unwrap();
    let other = [&["1", "load", "7"][..], &["2", "load", "7"], &["3", "load", "7"]];
    engine.connector = Arc::new(ScriptedOracle::default().answers("FROM petal_meta", &other));
    assert!(refusal(&engine).contains("schema 1 is of another load"), "{}", refusal(&engine));
    engine.connector = Arc::new(ScriptedOracle::default().answers("FROM petal_meta", &[]));
    assert!(refusal(&engine).contains("schema 1 is not loaded"), "{}", refusal(&engine));
}
