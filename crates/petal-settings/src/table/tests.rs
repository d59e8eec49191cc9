use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use insta::assert_snapshot;

use super::*;
use crate::read::{Sources, read};
use crate::{HotSpot, ThinkTime};

/// Every key of the method. A key that is missing in the table would be ignored in silence.
const METHOD: &str = "UPDATE_PCT SCAN_PCT RUN_TIME WORK_LOOP SCALE SCAN_TABLE_SZ WORK_UNIT \
    UPDATE_WORK_UNIT REDO_STRESS LOAD_PARALLEL_DEGREE THREADS_PER_SCHEMA READERS WRITERS \
    OBFUSCATE_COLUMNS COMPRESS_RATIO DO_HOTSPOT HOTSPOT_MB HOTSPOT_OFFSET_MB HOTSPOT_FREQUENCY \
    HOT_SCHEMA_FREQUENCY THINK_TM_FREQUENCY THINK_TM_MIN THINK_TM_MAX DATABASE_STATISTICS_TYPE \
    EXTERNAL_SCRIPT ADMIN_SQLNET_SERVICE SQLNET_SERVICE_BASE SQLNET_SERVICE_MAX DBA_PRIV_USER \
    SYSDBA_PASSWD NO_OS_PERF_DATA UNIQUE_INDEX BLOCK_SZ DB LOOP PREFETCH DIRECT_IO IO_DEPTH \
    VERIFY PAGE_CACHE_LIMIT STORAGE_CACHE RATE SELECT_RATE UPDATE_RATE \
    SCAN_RATE RATE_SCALE ARRIVALS WARM_UP REPEATS SEED OUT CALIBRATIONS PRECONDITION \
    COMMIT_WAIT USE_SLOB_SCHEMAS PRICE_PER_MONTH DEVICE_LATENCY CALL_LATENCY WATERFALL PASSWORD_COMMAND";

#[test]
fn the_table_has_the_keys_of_the_method_and_no_others() {
    let method: BTreeSet<&str> = METHOD.split_whitespace().collect();
    let table: BTreeSet<&str> = PARAMETERS.iter().map(|parameter| parameter.key).collect();
    assert_eq!(table, method);
    assert_eq!(table.len(), PARAMETERS.len(), "a key is there twice");
}

#[test]
fn flags_are_distinct_and_derived() {
    let flags: BTreeSet<&str> = PARAMETERS.iter().map(Parameter::flag).collect();
    assert_eq!(flags.len(), PARAMETERS.len());
    assert_eq!(find("UPDATE_PCT").unwrap().flag(), "update-pct");
    assert!(!flags.contains("conf") && !flags.contains("schemas"), "the commands' own flags");
}

#[test]
fn every_default_and_every_example_is_accepted() {
    for parameter in PARAMETERS {
        let default = parameter.parse(parameter.default);
        let is_set = !parameter.default.is_empty();
        let is_unset = |value: Value| value.to_json().is_null();
        assert!(default.is_ok_and(|value| is_unset(value) != is_set), "{}", parameter.key);
        let hint = match parameter.parse("no such value/\u{1}") {
            Err(refusal) => refusal.hint,
            Ok(_) => continue,
        };
        let assignment = hint.split([' ', ',']).find_map(|word| word.split_once('='));
        if let Some((key, value)) = assignment {
            assert_eq!(key, parameter.key, "{hint}");
            let value = value.trim_end_matches('.');
            assert!(parameter.parse(value).is_ok(), "{}: {hint}", parameter.key);
        }
    }
}

#[test]
fn every_parameter_is_reported_in_full() {
    for parameter in PARAMETERS {
        assert!(parameter.meaning.len() > 10, "{}", parameter.key);
        assert!(!parameter.meaning.ends_with('.'), "{}", parameter.key);
        assert!(!parameter.meaning.contains("  "), "{}", parameter.key);
        assert!(!parameter.values().contains("  "), "{}", parameter.key);
    }
}

#[test]
fn bounds_are_kept_at_both_ends() {
    for parameter in PARAMETERS {
        let (min, max) = match parameter.kind {
            ValueKind::Percent => (0, 100),
            ValueKind::Count { min, max } | ValueKind::Seconds { min, max } => (min, max),
            _ => continue,
        };
        for accepted in [min, max] {
            let value = parameter.parse(&accepted.to_string());
            assert_eq!(value.unwrap().get(), Some(accepted), "{}", parameter.key);
        }
        let above = (u128::from(max) + 1).to_string();
        assert!(parameter.parse(&above).is_err(), "{}={above}", parameter.key);
        if let Some(below) = min.checked_sub(1) {
            assert!(parameter.parse(&below.to_string()).is_err(), "{}={below}", parameter.key);
        }
        for odd in ["-1", "+1", "1.5", "1e3", "0x1", "x"] {
            assert!(parameter.parse(odd).is_err(), "{}={odd}", parameter.key);
        }
    }
}

#[test]
fn decimals_have_no_sign_exponent_or_names() {
    let min = find("THINK_TM_MIN").unwrap();
    for (text, expected) in [(".1", 0.1), ("0", 0.0), ("2.50", 2.5), ("3.", 3.0)] {
        assert_eq!(min.parse(text).unwrap().get(), Some(expected), "{text}");
    }
    for text in ["-1", "+1", "1e3", "inf", "NaN", ".", "1.2.3", "99999999999"] {
        assert!(min.parse(text).is_err(), "{text}");
    }
    assert!(find("RATE").unwrap().parse("0").is_err());
    assert!(find("RATE").unwrap().parse("0.5").is_ok());
    assert!(find("SELECT_RATE").unwrap().parse("0").is_ok());
    assert!(find("COMPRESS_RATIO").unwrap().parse("0.99").is_err());
    assert!(find("COMPRESS_RATIO").unwrap().parse("1.0").is_ok());
}

#[test]
fn as_many_blocks_as_bytes_can_count_are_accepted() {
    let scale = find("SCALE").unwrap();
    assert!(scale.parse("281474976710656").is_ok());
    assert!(scale.parse("281474976710657").is_err());
}

#[test]
fn block_sizes_are_those_of_the_table_however_written() {
    let block_size = find("BLOCK_SZ").unwrap();
    for text in ["4K", "8k", "16KB", "32768"] {
        assert!(block_size.parse(text).is_ok(), "{text}");
    }
    for text in ["2K", "64K", "8", "0", "12K"] {
        assert!(block_size.parse(text).is_err(), "{text}");
    }
}

#[test]
fn the_nearest_key_is_named_and_far_ones_are_not() {
    assert_eq!(nearest("UPDATE_PTC"), Some("UPDATE_PCT"));
    assert_eq!(nearest("update_pct"), Some("UPDATE_PCT"));
    assert_eq!(nearest("THREADS_PER_SCHEMAS"), Some("THREADS_PER_SCHEMA"));
    assert_eq!(nearest("ZZZZZZZZ"), None);
}

#[test]
fn every_exception_of_an_engine_is_a_known_key_and_its_values_parse() {
    for engine in support::ENGINES {
        let mut keys = BTreeSet::new();
        for (key, support) in engine.exceptions.iter().copied().flatten() {
            let parameter = find(key).unwrap_or_else(|| panic!("{}: {key}", engine.scheme));
            assert!(keys.insert(key), "{}: {key} is there twice", engine.scheme);
            if let Support::Only { values, .. } = support {
                for value in *values {
                    let parsed = parameter.parse(value).unwrap();
                    assert_eq!(parameter.words(&parsed.to_json()), *value, "{key}");
                }
            }
        }
    }
}

/// Checks one rule for all engines.
#[test]
fn unsupported_parameters_are_refused_in_the_engines_words() {
    for engine in support::ENGINES {
        let target = match engine.address {
            support::UrlForm::Server => "//host/data",
            support::UrlForm::Path => "data",
        };
        let db = format!("{}:{target}", engine.scheme);
        for (key, support) in engine.exceptions.iter().copied().flatten() {
            let parameter = find(key).unwrap();
            let allowed = match support {
                Support::Only { values, .. } => *values,
                _ => &[],
            };
            let words = match parameter.kind {
                ValueKind::OneOf(words) => words,
                _ => &[],
            };
            let texts = words.iter().copied().chain(sample(parameter)).chain([parameter.default]);
            let text = texts.into_iter().find(|text| !allowed.contains(text)).unwrap();
            let is_of_runs = parameter.taken_by.includes(CommandKind::Run);
            let read = read(&Sources {
                command: if is_of_runs { CommandKind::Run } else { CommandKind::Setup },
                flags: BTreeMap::from([(parameter.key, text.to_owned()), ("DB", db.clone())]),
                environment: &|_| None,
                variables: &Vec::new,
                conf: None,
                directory: None,
                schemas: None,
            });
            let refused = read.err().map(|errors| errors.to_string()).unwrap_or_default();
            match support {
                Support::Full | Support::Remark(_) => assert_eq!(refused, "", "{db}: {key}"),
                Support::Only { rule: words, .. }
                | Support::Refused { rule: words, .. }
                | Support::NoEffect { reason: words } => {
                    assert!(refused.contains(words), "{db}: {key}={text}: {refused}");
                }
            }
        }
    }
}

/// A key that is written wrongly in a rule would never bind.
#[test]
fn every_key_that_a_rule_names_is_in_the_table() {
    let words = ["TRUE", "FALSE", "LITE", "HEAVY", "PATH", "PETAL_"];
    for source in [include_str!("../rules.rs"), include_str!("../read.rs")] {
        let quoted = source.split('"').skip(1).step_by(2);
        let keys = quoted.filter(|text| {
            text.len() > 1
                && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
                && !words.contains(text)
        });
        for key in keys.filter(|key| !key.starts_with("XDG_") && *key != "HOME") {
            assert!(find(key).is_some(), "{key}");
        }
    }
}

/// A key that code asks for and the table lacks would never be given.
#[test]
fn every_key_that_code_asks_for_is_in_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("src"), root.join("crates")];
    let mut found = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let calls = text.split("is_given(").skip(1);
                let arguments = calls.filter_map(|call| call.split(')').next());
                for key in arguments.filter_map(|all| all.split('"').nth(1)) {
                    assert!(key.is_empty() || find(key).is_some(), "{}: {key}", path.display());
                    found += 1;
                }
            }
        }
    }
    assert!(found > 10, "{found}");
}

/// Each setter fills the field that its entry reads: the value in force is the value that was set.
#[test]
fn every_parameter_sets_what_its_record_shows() {
    for parameter in PARAMETERS {
        let Some(other) = sample(parameter) else { continue };
        let mut settings = Settings {
            hotspot: Some(HotSpot::default()),
            think_time: Some(ThinkTime::default()),
            ..Settings::default()
        };
        let before = parameter.in_force(&mut settings);
        parameter.set(&mut settings, &parameter.parse(other).unwrap());
        assert_ne!(parameter.in_force(&mut settings), before, "{}", parameter.key);
    }
}

/// A value other than the default.
fn sample(parameter: &Parameter) -> Option<&'static str> {
    Some(match parameter.kind {
        ValueKind::Percent | ValueKind::Seconds { .. } | ValueKind::Count { .. } => "17",
        ValueKind::Times { .. } => "3x",
        ValueKind::Decimal { .. } => "3.5",
        ValueKind::Rates { .. } => "250",
        ValueKind::Extent | ValueKind::Bytes => "96M",
        ValueKind::BlockSize => "16K",
        ValueKind::Boolean if parameter.default == "TRUE" => "FALSE",
        ValueKind::Boolean if parameter.key == "DO_HOTSPOT" => "FALSE",
        ValueKind::Boolean => "TRUE",
        ValueKind::OneOf(words) => words.last()?,
        ValueKind::Text | ValueKind::User | ValueKind::Path | ValueKind::Secret => "name",
        ValueKind::Url => "sqlite:elsewhere",
        ValueKind::WarmUp => "cache",
    })
}

#[test]
fn the_documentation_page_is_the_table_s() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/parameters.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, markdown()).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == markdown(),
        "docs/parameters.md differs from the table. To make it again: \
         UPDATE_DOCS=1 cargo test --lib the_documentation_page_is_the_table_s"
    );
}

#[test]
fn help_keeps_to_its_width_and_names_every_key() {
    for width in [0, 72, 120] {
        let text = help_text(width);
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width.max(72), "{longest} at {width}");
        for parameter in PARAMETERS {
            assert!(text.contains(&format!("  {}  --{}\n", parameter.key, parameter.flag())));
        }
    }
}

#[test]
fn a_value_is_shown_as_it_is_to_be_written() {
    for text in [help_text(72), conf_file()] {
        assert!(text.contains("sqlite:DIR, or a server's URL") && !text.contains("Sqlite:"));
    }
}

#[test]
fn help_of_a_parameter_says_what_engines_make_of_it() {
    let text = help_text(72);
    let part = |from: &str, to: &str| {
        let text = &text[text.find(from).unwrap()..];
        text[..text.find(to).unwrap()].trim_end().to_owned()
    };
    assert_snapshot!(part("  LOOP", "Device:"), @r"
    LOOP  --loop
        server: the loop runs inside the database; client: one call for
        each operation.
        One of server, client. Default: server if the engine has it. For
        run, sweep.
        SQLite, redb, LMDB: must be client with a database in petal's own
        process: there is no server to loop in.
    ");
    assert_snapshot!(part("  PREFETCH", "MySQL:"), @r"
    PREFETCH  --prefetch
        Blocks that a session reads ahead; 0: one block at a time.
        A whole number from 0 to 65536. Default: 0. For run, sweep.
        SQLite, redb, LMDB: must be 0 with an embedded database, which
        reads one block at a time and cannot read ahead.
    ");
}
