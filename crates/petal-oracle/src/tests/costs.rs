//! Tests of accesses for `petal costs`. No live database has answered them yet.

use super::*;
use petal_engine::costs::{CostAccess, CostProbes as _, CostStretch};

fn priced() -> ScriptedOracle {
    loaded()
        .answers("FROM sys.gv_$buffer_pool", &[&["DEFAULT", "8192", "8388608"]])
        .answers("FROM sys.v_$parameter", &[&["db_file_multiblock_read_count", "128"]])
        .answers("FROM sys.aux_stats$", &[&["SREADTIM", "12"], &["MBRC", ""]])
        .answers("ORDER BY t.ROWID", &[&["AAA"], &["BBB"], &["CCC"]])
        .answers("BETWEEN CHARTOROWID", &[&["16"]])
        .answers("WHERE custid BETWEEN", &[&["20"]])
        .answers(
            "FROM sys.gv_$sysstat",
            &[&["1", "physical reads", "70"], &["2", "physical reads", "7"], &["1", "x", "1"]],
        )
}

#[test]
fn system_statistics_are_printed_as_commands_with_their_present_values() {
    let engine = engine(&priced(), &settings());
    assert_eq!(engine.check().unwrap(), 8 << 20);
    let facts = engine.facts().unwrap();
    let shown = facts.settings.iter().map(|of| {
        let statement = of.statement.as_ref().unwrap();
        format!("{:?} {} {:?} {statement}", of.price, of.factor, of.present)
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "RandomRead 0.001 Some(\"12\") EXEC DBMS_STATS.SET_SYSTEM_STATS('SREADTIM', {value});",
            "BlockRead 0.128 None EXEC DBMS_STATS.SET_SYSTEM_STATS('MREADTIM', {value});",
            "ScanBlocks 128 None EXEC DBMS_STATS.SET_SYSTEM_STATS('MBRC', {value});",
        ]
    );
    assert!(!facts.has_short_rows && facts.notes[0].contains("no live Oracle database"));
    // Without the parameter a scan's time has no number of blocks.
    let unknown = self::engine(&priced().answers("FROM sys.v_$parameter", &[]), &settings());
    assert_eq!(unknown.facts().unwrap().settings.len(), 1);
}

#[test]
fn a_range_of_blocks_is_read_between_addresses_of_rows() {
    let scripted = priced();
    let engine = engine(&scripted, &settings());
    let mut session = engine.open_session(1, 0).unwrap();
    scripted.sent();
    let stretch = CostStretch { first: 0, length: 20 };
    assert_eq!(session.read(CostAccess::Random, stretch).unwrap().units, 20);
    assert_eq!(session.read(CostAccess::Sequential, stretch).unwrap().units, 16);
    let beyond = CostStretch { first: 16, length: 500 };
    session.read(CostAccess::Sequential, beyond).unwrap();
    let sent = scripted.sent();
    for (line, ends) in sent.iter().zip(["1, 20", "'AAA', 'BBB'", "'BBB', 'CCC'"]) {
        assert!(line.contains(ends), "{line} for {ends}");
    }
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert_eq!(session.server_reads().unwrap(), Some(77), "of all instances");
    let _ = scripted.clone().answers("FROM sys.gv_$sysstat", &[]);
    assert_eq!(session.server_reads().unwrap(), None, "unknown, not 0");
    assert!(session.read(CostAccess::Rows, stretch).is_err());
}

#[test]
fn targets_without_a_price_are_refused_by_name() {
    let refused = |scripted: ScriptedOracle, settings: &Settings| {
        engine(&scripted, settings).check().unwrap_err().to_string()
    };
    let slobs = Settings { use_slob_schemas: true, ..settings() };
    let error = refused(priced(), &slobs);
    assert!(error.contains("never measures the costs of them"), "{error}");
    let uncached = priced().answers("FROM sys.gv_$buffer_pool", &[]);
    let error = refused(uncached, &settings());
    assert!(error.contains("GV$BUFFER_POOL shows no buffer cache"), "{error}");
    let empty = engine(&priced().answers("ORDER BY t.ROWID", &[]), &settings());
    let error = empty.open_session(1, 0).err().unwrap().to_string();
    assert!(error.contains("has no row"), "{error}");
}
