use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use insta::assert_snapshot;

use super::*;
use crate::read::{Sources, read};

fn with(
    command: CommandKind,
    flags: &[(&'static str, &str)],
    environment: &[(&str, &str)],
) -> Result<Settings, SettingErrors> {
    let lookup = |name: &str| {
        environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    };
    read(&Sources {
        command,
        flags: flags
            .iter()
            .map(|(key, text)| (*key, (*text).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        environment: &lookup,
        variables: &Vec::new,
        conf: None,
        directory: None,
        schemas: None,
    })
}

fn run(flags: &[(&'static str, &str)]) -> Settings {
    with(CommandKind::Run, flags, &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refusals(flags: &[(&'static str, &str)]) -> String {
    with(CommandKind::Run, flags, &[]).expect_err("refused").to_string()
}

#[test]
fn each_contradiction_is_refused_with_its_hint() {
    let cases: &[&[(&'static str, &str)]] = &[
        &[("SCALE", "1000")],
        &[("SCALE", "1M")],
        &[("SCALE", "6M"), ("BLOCK_SZ", "8K")],
        &[("WORK_UNIT", "100"), ("SCALE", "64")],
        &[("UPDATE_WORK_UNIT", "100"), ("SCALE", "64")],
        &[("DO_HOTSPOT", "TRUE"), ("SCALE", "20M")],
        &[("DO_HOTSPOT", "TRUE"), ("HOTSPOT_MB", "1"), ("WORK_UNIT", "1000"), ("SCALE", "1G")],
        &[("THINK_TM_MIN", "1")],
        &[("SQLNET_SERVICE_MAX", "2"), ("DB", "oracle://u@h/s")],
        &[("SQLNET_SERVICE_BASE", "node"), ("DB", "postgres://u@h1,h2/d")],
        &[("OBFUSCATE_COLUMNS", "TRUE"), ("COMPRESS_RATIO", "2")],
        &[("READERS", "4"), ("UPDATE_PCT", "20"), ("THREADS_PER_SCHEMA", "2")],
        &[("WRITERS", "0")],
        &[("READERS", "0"), ("WRITERS", "0")],
        &[("WARM_UP", "60"), ("RUN_TIME", "60")],
        &[("SCAN_PCT", "10"), ("SCAN_TABLE_SZ", "0")],
        &[("EXTERNAL_SCRIPT", "/no/such/hook")],
        &[("EXTERNAL_SCRIPT", "/")],
        &[("LOOP", "server")],
        &[("LOOP", "server"), ("PREFETCH", "8"), ("IO_DEPTH", "2"), ("VERIFY", "none")],
        &[("PAGE_CACHE_LIMIT", "1G")],
        &[("SYSDBA_PASSWD", "tiger"), ("DATABASE_STATISTICS_TYPE", "awr")],
    ];
    let refused: Vec<String> = cases.iter().map(|flags| refusals(flags)).collect();
    assert_snapshot!(refused.join("\n--\n"), @r"
    SCALE=1000 (--scale): is 1,000 blocks of 8K, and must be at least 1,024. Write SCALE=1024 or more, or SCALE=8M or more.
    --
    SCALE=1M (--scale): is 128 blocks of 8K, and must be at least 1,024. Write SCALE=1024 or more, or SCALE=8M or more.
    --
    SCALE=6M (--scale): is 768 blocks of 8K, and must be at least 1,024. Write SCALE=1024 or more, or SCALE=8M or more.
    --
    SCALE=64 (--scale): is 64 blocks of 8K, and must be at least 1,024. Write SCALE=1024 or more, or SCALE=8M or more.
    WORK_UNIT=100 (--work-unit): must be at most the 64 blocks that SCALE leaves. Lower WORK_UNIT or raise SCALE.
    --
    SCALE=64 (--scale): is 64 blocks of 8K, and must be at least 1,024. Write SCALE=1024 or more, or SCALE=8M or more.
    UPDATE_WORK_UNIT=100 (--update-work-unit): must be at most the 64 blocks that SCALE leaves. Lower UPDATE_WORK_UNIT or raise SCALE.
    --
    HOTSPOT_OFFSET_MB=16 (default): with HOTSPOT_MB=8 (default) puts the hot spot's end at block 3,072 of 8K, past the 2,560 that SCALE leaves. Lower HOTSPOT_OFFSET_MB or HOTSPOT_MB, or raise SCALE.
    --
    HOTSPOT_MB=1 (--hotspot-mb): is 128 blocks of 8K, too short for a work unit of 1000. Raise HOTSPOT_MB or lower WORK_UNIT.
    --
    THINK_TM_MIN=1 (--think-tm-min): must be at most THINK_TM_MAX=0.5 (default). Lower THINK_TM_MIN or raise THINK_TM_MAX.
    --
    SQLNET_SERVICE_MAX=2 (--sqlnet-service-max): numbers services, and SQLNET_SERVICE_BASE is not set. Give SQLNET_SERVICE_BASE, or leave SQLNET_SERVICE_MAX out.
    --
    SQLNET_SERVICE_BASE=node (--sqlnet-service-base): names the endpoints, and so do the 2 hosts of DB. Leave out one or the other.
    --
    COMPRESS_RATIO=2 (--compress-ratio): contradicts OBFUSCATE_COLUMNS=TRUE (--obfuscate-columns), which fills rows with random text. Leave out one of them; COMPRESS_RATIO=1.0 is random text too.
    --
    UPDATE_PCT=20 (--update-pct): contradicts READERS and WRITERS, which name whole sessions instead. Leave out one or the other.
    THREADS_PER_SCHEMA=2 (--threads-per-schema): contradicts READERS and WRITERS, which name whole sessions instead. Leave out one or the other.
    --
    WRITERS=0 (--writers): leaves no session: READERS and WRITERS together must be at least 1. Raise one of them, or leave both out.
    --
    READERS=0 (--readers): leaves no session: READERS and WRITERS together must be at least 1. Raise one of them, or leave both out.
    --
    WARM_UP=60 (--warm-up): must be less than RUN_TIME=60 (--run-time). Shorten the warm-up or lengthen the run.
    --
    SCAN_PCT=10 (--scan-pct): asks for scans, but SCAN_TABLE_SZ=0 (--scan-table-sz) means that there is no scan table. Ask for no scans, or load with a SCAN_TABLE_SZ.
    --
    EXTERNAL_SCRIPT=/no/such/hook (--external-script): cannot be called: No such file or directory (os error 2). Name an executable file, or leave EXTERNAL_SCRIPT out.
    --
    EXTERNAL_SCRIPT=/ (--external-script): is not a file. Name an executable file, or leave EXTERNAL_SCRIPT out.
    --
    LOOP=server (--loop): must be client with a database in petal's own process: there is no server to loop in. Leave it out, or write LOOP=client.
    --
    LOOP=server (--loop): must be client with a database in petal's own process: there is no server to loop in. Leave it out, or write LOOP=client.
    PREFETCH=8 (--prefetch): must be 0 with an embedded database, which reads one block at a time and cannot read ahead. Leave it out; raise THREADS_PER_SCHEMA for more reads in flight.
    IO_DEPTH=2 (--io-depth): must be 1 with a database, where a session has one read in flight. Leave it out; raise THREADS_PER_SCHEMA for more reads in flight.
    VERIFY=none (--verify): must be header with a database: the other checks are the device engine's. Leave it out.
    --
    PAGE_CACHE_LIMIT=1G (--page-cache-limit): is for local servers; an embedded database's reads can go past the page cache. Leave it out and use DIRECT_IO=TRUE.
    --
    DATABASE_STATISTICS_TYPE=awr (--database-statistics-type): has no effect on SQLite: Statspack and AWR are Oracle's reports. Leave it out.
    SYSDBA_PASSWD=*** (--sysdba-passwd): has no effect on SQLite: there is no server to connect to. Leave it out.
    ");
}

#[test]
fn values_at_their_limit_are_accepted() {
    for flags in [
        &[("SCALE", "1024"), ("WORK_UNIT", "1024")][..],
        &[("SCALE", "8M"), ("BLOCK_SZ", "8K")],
        &[("SCALE", "4M")],
        &[("DO_HOTSPOT", "TRUE"), ("SCALE", "24M")],
        &[("DO_HOTSPOT", "TRUE"), ("HOTSPOT_MB", "1"), ("BLOCK_SZ", "16K"), ("SCALE", "1G")],
        &[("THINK_TM_MIN", ".5")],
        &[("READERS", "1")],
        &[("WARM_UP", "59"), ("RUN_TIME", "60")],
        &[("WARM_UP", "cache"), ("RUN_TIME", "1")],
        &[("COMPRESS_RATIO", "1"), ("OBFUSCATE_COLUMNS", "FALSE")],
        &[("LOOP", "client"), ("PREFETCH", "0"), ("IO_DEPTH", "1"), ("VERIFY", "HEADER")],
        &[("LOOP", "server"), ("PREFETCH", "8"), ("DB", "postgres://h/d")],
        &[("SQLNET_SERVICE_MAX", "2"), ("SQLNET_SERVICE_BASE", "b"), ("DB", "oracle://h/s")],
    ] {
        run(flags);
    }
}

#[test]
fn an_executable_hook_is_accepted_and_made_absolute() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hook");
    fs::write(&path, "#!/bin/sh\n").unwrap();
    let text = path.display().to_string();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = refusals(&[("EXTERNAL_SCRIPT", &text)]);
    assert!(refused.contains("is not executable: Permission denied"), "{refused}");
    assert!(refused.ends_with("Make it executable with chmod +x."), "{refused}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&[("EXTERNAL_SCRIPT", &text)]).external_script, Some(path));
    let executable = super::executable(&PathBuf::from("Cargo.toml"), "EXTERNAL_SCRIPT");
    assert!(executable.is_err());
}

#[test]
fn rules_of_a_run_do_not_bind_a_setup() {
    let environment = [
        ("EXTERNAL_SCRIPT", "/no/such/hook"),
        ("THINK_TM_MIN", "9"),
        ("LOOP", "server"),
        ("RUN_TIME", "5"),
        ("READERS", "0"),
    ];
    let settings = with(CommandKind::Setup, &[], &environment).unwrap();
    assert_eq!(settings.notes, Vec::<String>::new());
    assert_eq!(with(CommandKind::Run, &[], &environment).unwrap_err().0.len(), 4);
    let environment = [("SCALE", "100"), ("OBFUSCATE_COLUMNS", "TRUE"), ("COMPRESS_RATIO", "2")];
    assert_eq!(with(CommandKind::Setup, &[], &environment).unwrap_err().0.len(), 2);
    assert!(with(CommandKind::Target, &[], &environment).is_ok());
}

#[test]
fn stronger_readers_set_weaker_keys_aside() {
    let environment = [("UPDATE_PCT", "25"), ("THREADS_PER_SCHEMA", "1")];
    let settings = with(CommandKind::Run, &[("READERS", "4")], &environment).unwrap();
    assert_snapshot!(settings.notes.join("\n"), @"
    UPDATE_PCT=25 (environment variable UPDATE_PCT): no effect with READERS and WRITERS
    THREADS_PER_SCHEMA=1 (environment variable THREADS_PER_SCHEMA): no effect with READERS and WRITERS
    ");
    let environment = [("READERS", "4")];
    let refused = with(CommandKind::Run, &[("UPDATE_PCT", "20")], &environment).unwrap_err();
    assert_eq!(refused.0.len(), 1);
}

#[test]
fn odd_values_are_noted() {
    let settings = run(&[("RUN_TIME", "29"), ("REDO_STRESS", "HEAVY")]);
    // The finding short-run says the rest.
    assert_snapshot!(settings.notes.join("\n"), @"REDO_STRESS=HEAVY (--redo-stress): an embedded database writes whole pages: LITE and HEAVY write the same");
    let hot = [("HOT_SCHEMA_FREQUENCY", "3"), ("DB", "postgres://a,b/d")];
    assert_snapshot!(run(&hot).notes.join("\n"), @r"HOT_SCHEMA_FREQUENCY=3 (--hot-schema-frequency): every endpoint then touches the blocks of schema 1, so that endpoints are no longer apart");
    let alone = [("HOT_SCHEMA_FREQUENCY", "3"), ("DB", "postgres://a/d")];
    assert_eq!(run(&alone).notes, Vec::<String>::new());
}

#[test]
fn a_refused_value_draws_no_second_refusal() {
    let refused = refusals(&[("WARM_UP", "60"), ("RUN_TIME", "x")]);
    assert_eq!(refused.lines().count(), 1, "{refused}");
    let refused = refusals(&[("SCALE", "x"), ("WORK_UNIT", "1000"), ("LOOP", "x")]);
    assert_eq!(refused.lines().count(), 2, "{refused}");
}

#[test]
fn rows_in_force_come_from_scale_then_the_load_then_the_default() {
    let effective = |settings: &Settings, block_size, loaded| {
        settings.check_against(block_size, loaded).map(|effective| effective.rows)
    };
    let default = Settings::default();
    assert_eq!(effective(&default, 8192, None), Ok(10_240));
    assert_eq!(effective(&default, 4096, None), Ok(20_480));
    assert_eq!(effective(&default, 8192, Some((5000, 2))), Ok(5000));
    let less = run(&[("SCALE", "16M")]);
    assert_eq!(effective(&less, 8192, Some((5000, 2))), Ok(2048));
    let same = run(&[("SCALE", "5000")]);
    assert_eq!(effective(&same, 8192, Some((5000, 2))), Ok(5000));
}

#[test]
fn the_hot_spot_is_reported_in_rows() {
    let settings = run(&[("DO_HOTSPOT", "TRUE"), ("HOTSPOT_MB", "8"), ("HOTSPOT_OFFSET_MB", "16")]);
    let effective = settings.check_against(8192, Some((3072, 1))).unwrap();
    assert_eq!(effective.hot_spot, Some(HotRows { offset: 2048, rows: 1024 }));
    assert!(settings.check_against(8192, Some((3071, 1))).is_err());
}

#[test]
fn settings_that_do_not_fit_the_target_are_refused() {
    let refused = |flags: &[(&'static str, &str)], block_size, loaded| {
        run(flags).check_against(block_size, loaded).unwrap_err().to_string()
    };
    let all = [
        refused(&[("SCALE", "20000")], 8192, Some((10_240, 3))),
        refused(&[("SCALE", "6M")], 8192, None),
        refused(&[("DO_HOTSPOT", "TRUE")], 8192, Some((3000, 1))),
        refused(
            &[("DO_HOTSPOT", "TRUE"), ("HOTSPOT_MB", "2"), ("WORK_UNIT", "100")],
            32768,
            Some((10_240, 1)),
        ),
        refused(&[("SCALE", "2000"), ("DO_HOTSPOT", "TRUE")], 16384, Some((1100, 2))),
        refused(&[("BLOCK_SZ", "4K")], 8192, Some((10_240, 1))),
    ];
    assert_snapshot!(all.join("\n--\n"), @r"
    SCALE=20000 (--scale): is 20,000 blocks of 8K, but schema 3 holds 10,240 rows, one to a block. Leave SCALE out, write at most SCALE=10240, or load more with petal setup.
    --
    SCALE=6M (--scale): is 768 blocks of 8K, and must be at least 1,024. Write SCALE=1024 or more, or SCALE=8M or more.
    --
    HOTSPOT_OFFSET_MB=16 (default): with HOTSPOT_MB=8 (default) puts the hot spot's end at block 3,072 of 8K, past the 3,000 that SCALE leaves. Lower HOTSPOT_OFFSET_MB or HOTSPOT_MB, or raise SCALE.
    --
    HOTSPOT_MB=2 (--hotspot-mb): is 64 blocks of 32K, too short for a work unit of 100. Raise HOTSPOT_MB or lower WORK_UNIT.
    --
    SCALE=2000 (--scale): is 2,000 blocks of 16K, but schema 2 holds 1,100 rows, one to a block. Leave SCALE out, write at most SCALE=1100, or load more with petal setup.
    HOTSPOT_OFFSET_MB=16 (default): with HOTSPOT_MB=8 (default) puts the hot spot's end at block 1,536 of 16K, past the 1,100 that SCALE leaves. Lower HOTSPOT_OFFSET_MB or HOTSPOT_MB, or raise SCALE.
    --
    BLOCK_SZ=4K (--block-sz): is not the size of the blocks that are loaded, which is 8K. Leave BLOCK_SZ out, or load with blocks of 4K (petal setup --replace).
    ");
    assert!(run(&[("BLOCK_SZ", "8K")]).check_against(8192, Some((10_240, 1))).is_ok());
    let hot = run(&[("DO_HOTSPOT", "TRUE"), ("HOTSPOT_OFFSET_MB", "500")]);
    assert!(hot.check_against(8192, None).is_ok(), "a setup has no hot spot");
}

#[test]
fn rates_by_kind_are_a_mix_of_their_own() {
    let refused = refusals;
    assert!(
        refused(&[("SELECT_RATE", "10"), ("UPDATE_PCT", "20")])
            .contains("contradicts UPDATE_PCT=20")
    );
    assert!(refused(&[("SCAN_RATE", "1"), ("RATE", "20")]).contains("contradicts RATE=20"));
    assert!(refused(&[("UPDATE_RATE", "1"), ("WRITERS", "2")]).contains("contradicts WRITERS=2"));
    assert!(refused(&[("UPDATE_RATE", "0")]).contains("leaves no operation"));
    assert!(refused(&[("RATE_SCALE", "2")]).contains("multiplies rates, and none is set"));
    assert!(refused(&[("ARRIVALS", "even")]).contains("and none is set"));
    let settings = run(&[("SELECT_RATE", "0:10 60:20"), ("UPDATE_RATE", "0"), ("RATE_SCALE", "2")]);
    assert!(settings.has_kind_rates() && settings.only_reads() && !settings.scans());
    let map = settings.record_map();
    assert_eq!(
        (&map["update_pct"], &map["select_rate"]),
        (&serde_json::Value::Null, &"0:10 60:20".into())
    );
}
