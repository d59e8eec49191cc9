use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::size::Extent;
use crate::{HotSpot, LoopSide, RedoStress, StatisticsType, ThinkTime, Verify, WarmUp};

/// Inputs of a test for [`read`], with a private environment.
#[derive(Default)]
struct Case {
    flags: Vec<(&'static str, &'static str)>,
    environment: HashMap<String, OsString>,
    file: Option<String>,
}

impl Case {
    fn flags(flags: &[(&'static str, &'static str)]) -> Self {
        Self { flags: flags.to_vec(), ..Self::default() }
    }

    fn file(text: &str) -> Self {
        Self { file: Some(text.to_owned()), ..Self::default() }
    }

    fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }

    fn with_flags(mut self, flags: &[(&'static str, &'static str)]) -> Self {
        self.flags.extend(flags);
        self
    }

    fn read(&self) -> Result<Settings, SettingErrors> {
        self.read_for(CommandKind::Run)
    }

    fn read_for(&self, command: CommandKind) -> Result<Settings, SettingErrors> {
        let folder = tempfile::tempdir().unwrap();
        if let Some(text) = &self.file {
            fs::write(folder.path().join("slob.conf"), text).unwrap();
        }
        read(&Sources {
            command,
            flags: self.flags.iter().map(|(key, text)| (*key, (*text).to_owned())).collect(),
            environment: &|name| self.environment.get(name).cloned(),
            variables: &|| self.environment.keys().cloned().collect(),
            conf: None,
            directory: Some(folder.path().to_owned()),
            schemas: None,
        })
        .map(|mut settings| {
            let place = folder.path().display().to_string();
            settings.notes.iter_mut().for_each(|note| *note = note.replace(&place, "."));
            settings
        })
        .map_err(|errors| {
            let place = folder.path().display().to_string();
            let mut errors = errors;
            for error in &mut errors.0 {
                error.subject = error.subject.replace(&place, ".");
                error.rule = error.rule.replace(&place, ".");
            }
            errors
        })
    }

    fn refusals(&self) -> String {
        self.read().expect_err("refused").to_string()
    }
}

fn settings(case: &Case) -> Settings {
    case.read().unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_file_of_an_old_slob_is_known_by_its_keys() {
    for (text, is_old) in [("SHARED_DATA_MODULUS=0\n", true), ("SYSDBA_PASSWD=x\n", false)] {
        let settings = Case::file(text).read().unwrap();
        assert_eq!(settings.endpoints.is_before_slob_2_4, is_old, "{text}");
    }
}

#[test]
fn nothing_given_means_the_defaults() {
    let settings = settings(&Case::default());
    assert_eq!(settings.update_pct, 25);
    assert_eq!(settings.run_time, Duration::from_secs(300));
    assert_eq!(settings.scale, None);
    assert_eq!(settings.scan_table_sz, Extent::Bytes(1 << 20));
    assert_eq!((settings.work_unit, settings.update_work_unit), (64, 64));
    assert_eq!(settings.redo_stress, RedoStress::Lite);
    assert_eq!((settings.load_parallel_degree, settings.threads_per_schema), (2, 1));
    assert_eq!((settings.readers, settings.writers), (None, None));
    assert_eq!(settings.hotspot, None);
    assert_eq!(settings.think_time, None);
    assert!(
        settings.os_perf_data
            && settings.device_latency
            && !settings.call_latency
            && !settings.waterfall
            && !settings.unique_index
            && !settings.obfuscate_columns
    );
    assert_eq!(settings.db.redacted(), "sqlite:petal-data");
    assert_eq!((settings.loop_side, settings.direct_io, settings.block_sz), (None, None, None));
    assert_eq!((settings.prefetch, settings.io_depth), (0, 1));
    assert_eq!(settings.verify, Verify::Header);
    assert_eq!(settings.warm_up, WarmUp::Time(Duration::ZERO));
    assert_eq!((settings.repeats, settings.seed), (1, None));
    assert_eq!(settings.out, PathBuf::from("petal-results"));
    assert_eq!(settings.notes, Vec::<String>::new());
    assert_eq!(settings.origins.len(), PARAMETERS.len());
    assert!(settings.origins.iter().all(|given| given.origin == Origin::Default));
    assert_eq!(settings.record_map(), Settings::default().record_map());
}

#[test]
fn a_slob_file_loads_unchanged() {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/slob/slob.conf"),
    )
    .unwrap();
    let mut notes = BTreeSet::new();
    for text in [text.clone(), text.replace('\n', "\r\n"), format!("\u{feff}{text}")] {
        let settings = settings(&Case::file(&text));
        assert_eq!(settings.scale, Some(Extent::Bytes(80 << 20)));
        assert_eq!(settings.endpoints.dba_user.as_deref(), Some("system"));
        assert_eq!(settings.endpoints.dba_password.as_ref().unwrap().expose(), "manager");
        assert_eq!(settings.endpoints.service_max, None);
        assert_eq!(settings.external_script, None);
        assert!(settings.conf_file.is_some());
        assert_eq!(settings.origin("SQLNET_SERVICE_MAX"), Origin::Default);
        notes.insert(settings.notes.join("\n"));
    }
    let notes = notes.into_iter().collect::<Vec<_>>().join("\n--\n");
    assert_snapshot!(notes, @r"
    REDO_STRESS=LITE (./slob.conf:11): an embedded database writes whole pages: LITE and HEAVY write the same
    DATABASE_STATISTICS_TYPE (./slob.conf:16): no effect on SQLite: Statspack and AWR are Oracle's reports
    DBA_PRIV_USER (./slob.conf:26), SYSDBA_PASSWD (./slob.conf:27): no effect on SQLite: there is no server to connect to
    ");
}

#[test]
fn every_key_of_a_hot_slob_file_takes_effect() {
    let text = "DO_HOTSPOT=TRUE\nHOTSPOT_MB=4\nHOTSPOT_OFFSET_MB=2\nHOTSPOT_FREQUENCY=5\n\
                HOT_SCHEMA_FREQUENCY=7\nTHINK_TM_FREQUENCY=9\nTHINK_TM_MIN=.25\nTHINK_TM_MAX=1\n\
                REDO_STRESS=heavy\nNO_OS_PERF_DATA=true\nWARM_UP=cache\nLOOP=client\n\
                UPDATE_WORK_UNIT=3\nBLOCK_SZ=16k\nSTORAGE_CACHE=2G\nDIRECT_IO=false\n\
                DATABASE_STATISTICS_TYPE=AWR\nRATE=12.5\nSEED=18446744073709551615\nVERIFY=header";
    let settings = settings(&Case::file(text));
    let spot = HotSpot { bytes: 4 << 20, offset_bytes: 2 << 20, frequency: 5 };
    assert_eq!(settings.hotspot, Some(spot));
    let think =
        ThinkTime { frequency: 9, min: Duration::from_millis(250), max: Duration::from_secs(1) };
    assert_eq!(settings.think_time, Some(think));
    assert_eq!(settings.hot_schema_frequency, 7);
    assert_eq!(settings.redo_stress, RedoStress::Heavy);
    assert!(!settings.os_perf_data);
    assert_eq!(settings.warm_up, WarmUp::Cache);
    assert_eq!(settings.loop_side, Some(LoopSide::Client));
    assert_eq!((settings.work_unit, settings.update_work_unit), (64, 3));
    assert_eq!(settings.block_sz, Some(16384));
    assert_eq!(settings.storage_cache, Some(2 << 30));
    assert_eq!(settings.direct_io, Some(false));
    assert_eq!(settings.database_statistics_type, StatisticsType::Awr);
    assert_eq!(settings.rate, Some(crate::rates::RateOverTime::constant(12.5)));
    assert_eq!(settings.seed, Some(u64::MAX));
}

#[test]
fn the_record_has_every_key_typed_and_in_force() {
    let case = Case::flags(&[("SCALE", "64M"), ("WORK_UNIT", "32"), ("RUN_TIME", "60")])
        .environment("SYSDBA_PASSWD", "tiger")
        .environment("PETAL_DB", "sqlite:d?cache=1M");
    let map = settings(&case).record_map();
    assert_eq!(map.len(), PARAMETERS.len());
    for (key, expected) in [
        ("scale", json!("64M")),
        ("scan_table_sz", json!("1M")),
        ("work_unit", json!(32)),
        ("update_work_unit", json!(32)),
        ("run_time", json!(60)),
        ("update_pct", json!(25)),
        ("do_hotspot", json!(false)),
        ("hotspot_mb", json!(null)),
        ("think_tm_frequency", json!(0)),
        ("redo_stress", json!("LITE")),
        ("no_os_perf_data", json!(false)),
        ("sysdba_passwd", json!("***")),
        ("db", json!("sqlite:d?cache=1M")),
        ("seed", json!(null)),
        ("warm_up", json!(0)),
        ("verify", json!("header")),
    ] {
        assert_eq!(map[key], expected, "{key}");
    }
    assert_eq!(Settings::default().record_map()["sysdba_passwd"], json!(null));
    let blocks = Settings { scale: Some(Extent::Blocks(5000)), ..Settings::default() };
    assert_eq!(blocks.record_map()["scale"], json!(5000));
}

/// A value that only one place forgets to carry would be recorded and not done, or done and not
/// recorded.
#[test]
fn every_value_given_arrives_in_the_record() {
    let script = std::env::current_exe().unwrap().display().to_string();
    for parameter in PARAMETERS {
        let text = match (parameter.key, parameter.kind) {
            ("DB", _) => "mysql://u@h:1/d?x=1",
            ("EXTERNAL_SCRIPT" | "PASSWORD_COMMAND", _) => script.as_str(),
            ("SQLNET_SERVICE_MAX", _) => "3",
            (_, ValueKind::Boolean) if parameter.default == "TRUE" => "FALSE",
            (_, ValueKind::Boolean) => "TRUE",
            (_, ValueKind::OneOf(words)) => {
                words.iter().find(|word| **word != parameter.default).unwrap()
            }
            (_, ValueKind::Extent | ValueKind::Bytes) => "777M",
            (_, ValueKind::BlockSize) => "16K",
            (_, ValueKind::Decimal { .. }) => "1.25",
            (_, ValueKind::Percent | ValueKind::Count { .. } | ValueKind::Seconds { .. }) => "57",
            (_, ValueKind::Times { .. }) => "7x",
            (_, ValueKind::WarmUp) => "cache",
            (_, ValueKind::Rates { .. }) => "0:250.5 60:0 90:1000",
            _ => "some-text",
        };
        let mut case = Case::default()
            .environment("PETAL_DB", "scripted:d")
            .environment("DO_HOTSPOT", "TRUE")
            .environment("THINK_TM_FREQUENCY", "1")
            .environment("THINK_TM_MAX", "60")
            .environment("SQLNET_SERVICE_BASE", "base");
        if ["RATE_SCALE", "ARRIVALS"].contains(&parameter.key) {
            case = case.environment("RATE", "5");
        }
        for name in [parameter.key.to_owned(), format!("PETAL_{}", parameter.key)] {
            case.environment.insert(name, text.into());
        }
        let settings = settings(&case);
        let expected = parameter.parse(text).unwrap().to_json();
        let recorded = &settings.record_map()[&parameter.key.to_ascii_lowercase()];
        assert_eq!(*recorded, expected, "{}", parameter.key);
        let given = settings.origins.iter().find(|given| given.key == parameter.key).unwrap();
        assert_eq!(given.value, expected, "{}", parameter.key);
        assert_eq!(given.origin, Origin::Environment(format!("PETAL_{}", parameter.key)));
    }
}

#[test]
fn an_empty_value_counts_as_unset() {
    let case = Case::file("WORK_UNIT=8\nWORK_UNIT=\nSCAN_PCT=5").environment("SCAN_PCT", "");
    let settings = settings(&case);
    assert_eq!(settings.work_unit, 64);
    assert_eq!(settings.scan_pct, 5);
    let case = Case::file("SCAN_PCT=5").with_flags(&[("SCAN_PCT", "")]);
    assert_eq!(case.read().unwrap().scan_pct, 0, "an empty flag takes the default");
}

#[test]
fn all_faults_are_reported_at_once_with_their_places() {
    let case = Case::file("UPDATE_PCT=101\nREDO_STRESS=MEDIUM\nRUN_TIME=0\nSCAN_PCT=$(x)\nif\n")
        .environment("PETAL_WORK_UNIT", "1025")
        .environment("SCALE", "12Q")
        .with_flags(&[
            ("DB", "petal-data"),
            ("BLOCK_SZ", "64K"),
            ("RATE", "0"),
            ("DIRECT_IO", "yes"),
            ("COMPRESS_RATIO", "0.5"),
            ("STORAGE_CACHE", "99999999999T"),
            ("WARM_UP", "hot"),
            ("REPEATS", "0"),
            ("SEED", "18446744073709551616"),
            ("DBA_PRIV_USER", "scott/tiger"),
        ]);
    assert_snapshot!(case.refusals(), @"
    ./slob.conf:4: asks a shell to run a command, which petal does not. Write the command's result here.
    ./slob.conf:5: is shell other than KEY=VALUE, and petal runs no shell. Write the setting out as KEY=VALUE, or put # before the line.
    DB=*** (--db): names no kind of database. For a folder of SQLite files write sqlite:DIR.
    SCALE=12Q (environment variable SCALE): must be a number of blocks, or bytes with K, M, G or T. Write SCALE=10000 for blocks, or SCALE=512M for bytes.
    COMPRESS_RATIO=0.5 (--compress-ratio): must be a decimal number from 1 to 3200000000. Write COMPRESS_RATIO=2.0, for example, or leave it out.
    BLOCK_SZ=64K (--block-sz): must be one of 4K, 8K, 16K, 32K. Write BLOCK_SZ=8K, for example.
    UPDATE_PCT=101 (./slob.conf:1): must be 0 to 100 (default 25)
    WORK_UNIT=1025 (environment variable PETAL_WORK_UNIT): must be 1 to 1024 (default 64)
    REDO_STRESS=MEDIUM (./slob.conf:2): must be one of LITE, HEAVY. Choose LITE or HEAVY.
    RUN_TIME=0 (./slob.conf:3): must be seconds from 1 to 31622400 (default 300)
    WARM_UP=hot (--warm-up): must be seconds, or the word cache. The default is WARM_UP=0.
    REPEATS=0 (--repeats): must be 1 to 10000 (default 1)
    SEED=18446744073709551616 (--seed): must be a whole number up to 18446744073709551615. Write SEED=10, for example, or leave it out.
    RATE=0 (--rate): must be operations per second above 0, or steps such as '0:500 600:1000', by seconds from 0. Write RATE=500, for example, or leave it out.
    DIRECT_IO=yes (--direct-io): must be TRUE or FALSE. Write DIRECT_IO=TRUE or DIRECT_IO=FALSE.
    STORAGE_CACHE=99999999999T (--storage-cache): must be bytes, also with K, M, G or T. Write STORAGE_CACHE=64G, for example.
    DBA_PRIV_USER=scott/*** (--dba-priv-user): must be a user's name without a password. Give the password in SYSDBA_PASSWD.
    ");
}

#[test]
fn a_secret_is_in_no_message_note_origin_or_debug_text() {
    let secret = "TIGER";
    let texts = [
        ("SYSDBA_PASSWD", "@TIGER"),
        ("DB", "postgres://u:TIGER@h:x/d"),
        ("DB", "TIGER://x:TIGER@h"),
        ("DB", "postgres://u:TIGER"),
        ("DBA_PRIV_USER", "scott/TIGER"),
        ("SYSDBA_PASSWD", "TIGER"),
    ];
    for (key, text) in texts {
        let refused = Case::flags(&[(key, text)]).refusals();
        assert!(!refused.contains(secret), "{refused}");
        let refused = Case::file(&format!("{key}='{text}'\nUPDATE_PCT=x")).refusals();
        assert!(!refused.contains(secret), "{refused}");
        let refused = Case::file(&format!("{key}=\"{text}$TIGER\"")).refusals();
        assert!(!refused.contains(secret), "{refused}");
    }
    let case = Case::file("SYSDBA_PASSWD=TIGER\nDB='postgres://u:TIGER@h/d'");
    let settings = settings(&case);
    assert_eq!(settings.endpoints.dba_password.as_ref().unwrap().expose(), secret);
    let all = format!(
        "{settings:?} {} {}",
        serde_json::to_string(&settings.origins).unwrap(),
        serde_json::to_string(&settings.record_map()).unwrap()
    );
    assert!(!all.contains(secret), "{all}");
    assert!(all.contains("postgres://u@h/d"), "{all}");
}

#[test]
fn unknown_keys_are_noted_once_with_the_nearest() {
    let text = "SCAN_MODULUS_PCT=5\nSCAN_MODULUS_PCT=6\nSHARED_DATA_MODULUS=3\nZZZZZZZ=1\nBASE=/tmp\n\
                OUT=$BASE/results";
    let settings = settings(&Case::file(text));
    assert_eq!(settings.out, PathBuf::from("/tmp/results"));
    assert_snapshot!(settings.notes.join("\n"), @"
    ./slob.conf:1: unknown parameter SCAN_MODULUS_PCT (ignored); petal help parameters lists all
    ./slob.conf:3: unknown parameter SHARED_DATA_MODULUS (ignored); it is HOT_SCHEMA_FREQUENCY now
    ./slob.conf:4: unknown parameter ZZZZZZZ (ignored); petal help parameters lists all
    ");
}

/// petal would do another run than was meant.
#[test]
fn a_slip_of_the_pen_in_a_key_is_refused_with_the_right_one() {
    let text = "RUN_TIM=60\nUPDATE_PTC=5\nrun_time=60\nRUN_TIM=70\nNUM_THREADS=2\nZZZ=1\nSCAL=1G";
    assert_snapshot!(Case::file(text).refusals(), @"
    ./slob.conf:1: unknown parameter RUN_TIM; did you mean RUN_TIME?
    ./slob.conf:2: unknown parameter UPDATE_PTC; did you mean UPDATE_PCT?
    ./slob.conf:3: unknown parameter run_time; did you mean RUN_TIME?
    ./slob.conf:7: unknown parameter SCAL; did you mean SCALE?
    ");
    let case = Case::default().environment("PETAL_RUN_TIM", "60").environment("RUN_TIM", "60");
    assert_snapshot!(case.refusals(), @"environment variable PETAL_RUN_TIM: unknown parameter RUN_TIM; did you mean PETAL_RUN_TIME?");
    for own in
        ["PETAL_SUPERVISOR", "PETAL_MPI_LIBRARY", "PETAL_DATA", "PETAL_RUN_DIR", "PETAL_GROUP"]
    {
        assert!(settings(&Case::default().environment(own, "1")).notes.is_empty(), "{own}");
    }
    // A line that names the file's own variable is not a slip.
    assert!(settings(&Case::file("OUTS=/tmp\nOUT=$OUTS/results")).notes.is_empty());
}

#[test]
fn keys_of_older_releases_name_their_successors() {
    let text = "DO_UPDATE_HOTSPOT=TRUE\nHOTSPOT_PCT=10\nTHINK_TM_MODULUS=20\nTHINK_TM_MIN=.1";
    assert_snapshot!(settings(&Case::file(text)).notes.join("\n"), @"
    ./slob.conf:1: unknown parameter DO_UPDATE_HOTSPOT (ignored); it is DO_HOTSPOT now
    ./slob.conf:2: unknown parameter HOTSPOT_PCT (ignored); HOTSPOT_MB is the size of the hot spot now
    ./slob.conf:3: unknown parameter THINK_TM_MODULUS (ignored); it is THINK_TM_FREQUENCY now
    ");
}

#[test]
fn a_pgio_conf_is_understood() {
    let text = "UPDATE_PCT=10\nNUM_SCHEMAS=4\nNUM_THREADS=8\nSCALE=1G\nDBNAME=pg10\n\
                CONNECT_STRING=pg10\nCREATE_BASE_TABLE=TRUE";
    let read = settings(&Case::file(text));
    assert_eq!((read.schemas, read.threads_per_schema), (Some(4), 8));
    assert_eq!(read.db.redacted(), "postgres:///pg10");
    assert_snapshot!(read.notes.join("\n"), @"
    ./slob.conf:2: NUM_SCHEMAS is read as -s
    ./slob.conf:3: NUM_THREADS is read as THREADS_PER_SCHEMA
    ./slob.conf:5: DBNAME is read as DB
    ./slob.conf:6: CONNECT_STRING is read as DB
    ./slob.conf:7: unknown parameter CREATE_BASE_TABLE (ignored); petal setup needs no base table
    ");
    // Petal's own keys go first.
    let own = settings(&Case::file(&format!("{text}\nTHREADS_PER_SCHEMA=2\nDB=sqlite:d")));
    assert_eq!((own.threads_per_schema, own.db.redacted().as_str()), (2, "sqlite:d"));
    assert!(own.notes[1].contains("THREADS_PER_SCHEMA is set"), "{:?}", own.notes);
    // A file that is no pgio.conf may have its own DBNAME.
    let other = settings(&Case::file("DBNAME=x\nUPDATE_PCT=10"));
    assert_eq!(other.db.scheme, "sqlite");
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let sources = |conf: &str| Sources {
        command: CommandKind::Run,
        flags: BTreeMap::new(),
        environment: &|_| None,
        variables: &Vec::new,
        conf: Some(PathBuf::from(conf)),
        directory: None,
        schemas: None,
    };
    let error = read(&sources("/no/such/slob.conf")).unwrap_err().to_string();
    assert_snapshot!(error, @r"/no/such/slob.conf: cannot be read as a settings file: No such file or directory (os error 2). Name a readable slob.conf with --conf, or move this one away.");
    let error = read(&sources("/")).unwrap_err().to_string();
    assert_snapshot!(error, @r"/: cannot be read as a settings file: Is a directory (os error 21). Name a readable slob.conf with --conf, or move this one away.");
}

#[test]
fn bytes_that_are_no_text_matter_in_values_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slob.conf");
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        read(&Sources {
            command: CommandKind::Run,
            flags: BTreeMap::new(),
            environment: &|_| None,
            variables: &Vec::new,
            conf: None,
            directory: Some(folder.path().to_owned()),
            schemas: None,
        })
    };
    assert_eq!(read(b"# caf\xe9\nSCAN_PCT=7").unwrap().scan_pct, 7);
    let error = read(b"OUT=caf\xe9").unwrap_err().to_string();
    assert!(error.ends_with("slob.conf:1): is not UTF-8 text. Write it in UTF-8."), "{error}");
    let error = read(&vec![b'#'; (1 << 20) + 1]).unwrap_err().to_string();
    assert!(error.contains("larger than 1 MiB"), "{error}");
}

#[test]
fn variables_that_may_hold_secrets_are_named_for_children() {
    assert_eq!(secret_variables(), ["DB", "PETAL_DB", "SYSDBA_PASSWD", "PETAL_SYSDBA_PASSWD"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Flag over PETAL_KEY over KEY over file over default.
    #[test]
    fn the_strongest_source_wins(
        flag in prop::option::of(0_u8..=100),
        ours in prop::option::of(0_u8..=100),
        plain in prop::option::of(0_u8..=100),
        file in prop::option::of(0_u8..=100),
    ) {
        let mut case = Case::default();
        let leaked: &'static str = match flag {
            Some(number) => Box::leak(number.to_string().into_boxed_str()),
            None => "",
        };
        if flag.is_some() {
            case.flags.push(("UPDATE_PCT", leaked));
        }
        case.file = file.map(|number| format!("\n\nUPDATE_PCT={number}"));
        for (name, number) in [("PETAL_UPDATE_PCT", ours), ("UPDATE_PCT", plain)] {
            if let Some(number) = number {
                case = case.environment(name, &number.to_string());
            }
        }
        let settings = case.read().unwrap();
        let expected = flag.or(ours).or(plain).or(file).unwrap_or(25);
        prop_assert_eq!(settings.update_pct, expected);
        let origin = settings.origin("UPDATE_PCT");
        match (flag, ours, plain, file) {
            (Some(_), ..) => prop_assert_eq!(origin, Origin::Flag),
            (_, Some(_), ..) => {
                prop_assert_eq!(origin, Origin::Environment("PETAL_UPDATE_PCT".into()));
            }
            (_, _, Some(_), _) => {
                prop_assert_eq!(origin, Origin::Environment("UPDATE_PCT".into()));
            }
            (_, _, _, Some(_)) => prop_assert!(matches!(origin, Origin::File(_, 3))),
            _ => prop_assert_eq!(origin, Origin::Default),
        }
    }

    #[test]
    fn any_file_is_read_or_refused(text in "(?s).{0,200}") {
        let _ = Case::file(&text).read();
    }
}
