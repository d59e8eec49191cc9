//! The command line as a person meets it: help, where settings come from, refusals, exit codes,
//! hooks, pipes.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use petal_settings::table::support;

use crate::support::{PETAL, Workplace, count, record};

#[test]
fn every_command_explains_itself_on_stdout() {
    let work = Workplace::new();
    let help = work.petal(["--help"]).exits(0).stdout;
    let commands = [
        "setup", "run", "sweep", "report", "compare", "awr", "check", "os", "demo", "drop", "help",
    ];
    for command in commands {
        assert!(help.contains(command), "{command} is not in:\n{help}");
        let own = work.petal([command, "--help"]).exits(0);
        assert!(own.stdout.contains(&format!("Usage: petal {command}")), "{}", own.stdout);
        assert_eq!(own.stderr, "");
        let same = work.petal(["help", command]).exits(0).stdout;
        assert!(same.contains("Usage:"), "{same}");
    }
    assert!(help.contains("Exit codes: 0 done; 1 failed"), "{help}");
    let version = work.petal(["--version"]).exits(0).stdout;
    assert_eq!(version, format!("petal {}\n", env!("CARGO_PKG_VERSION")));
    let parameters = work.petal(["help", "parameters"]).exits(0).stdout;
    for key in ["UPDATE_PCT", "HOTSPOT_OFFSET_MB", "SYSDBA_PASSWD", "THINK_TM_MIN", "SQLite"] {
        assert!(parameters.contains(key), "{key}");
    }
    let run = work.petal(["run", "--help"]).exits(0).stdout;
    assert!(run.contains("--update-pct"), "{run}");
    work.petal([""; 0]).exits(2);
    work.petal(["help", "nothing"]).exits(2).telling(&["nothing", "petal --help"]);
    work.petal(["reprt"]).exits(2).telling(&["reprt", "report"]);
}

/// What a refusal says.
fn refusal(work: &Workplace, args: &[&str]) -> String {
    let ended = work.petal(args).exits(2);
    assert_eq!(ended.stdout, "");
    assert!(work.runs().is_empty() && !work.path("petal-data/petal3.db").exists());
    ended.stderr.replace(work.path("").to_str().unwrap(), "HERE/")
}

#[test]
fn refusals_name_key_value_rule_and_hint() {
    let work = Workplace::loaded(2, "8M");
    let run = |args: &[&str]| refusal(&work, &[&["run"], args].concat());
    assert_snapshot!(run(&["--update-pct", "101"]), @"petal: UPDATE_PCT=101 (--update-pct): must be 0 to 100 (default 25)");
    assert_snapshot!(run(&["--scale", "1T"]), @"petal: SCALE=1T (--scale): is 134,217,728 blocks of 8K, but schema 1 holds 1,024 rows, one to a block. Leave SCALE out, write at most SCALE=1024, or load more with petal setup.");
    assert_snapshot!(run(&["--scale", "5"]), @"
    petal: SCALE=5 (--scale): is 5 blocks of 8K, and must be at least 1,024. Write SCALE=1024 or more, or SCALE=8M or more.
           WORK_UNIT=64 (default): must be at most the 5 blocks that SCALE leaves. Lower WORK_UNIT or raise SCALE.
    ");
    assert_snapshot!(run(&["--work-unit", "2000"]), @"petal: WORK_UNIT=2000 (--work-unit): must be 1 to 1024 (default 64)");
    assert_snapshot!(run(&["--do-hotspot", "TRUE", "--hotspot-mb", "1"]), @"petal: HOTSPOT_OFFSET_MB=16 (default): with HOTSPOT_MB=1 (--hotspot-mb) puts the hot spot's end at block 2,176 of 8K, past the 1,024 that SCALE leaves. Lower HOTSPOT_OFFSET_MB or HOTSPOT_MB, or raise SCALE.");
    assert_snapshot!(run(&["--think-tm-min", "2", "--think-tm-frequency", "3"]), @"petal: THINK_TM_MIN=2 (--think-tm-min): must be at most THINK_TM_MAX=0.5 (default). Lower THINK_TM_MIN or raise THINK_TM_MAX.");
    assert_snapshot!(run(&["--readers", "1", "--update-pct", "3"]), @"petal: UPDATE_PCT=3 (--update-pct): contradicts READERS and WRITERS, which name whole sessions instead. Leave out one or the other.");
    assert_snapshot!(run(&["--readers", "0"]), @"petal: READERS=0 (--readers): leaves no session: READERS and WRITERS together must be at least 1. Raise one of them, or leave both out.");
    assert_snapshot!(run(&["--warm-up", "9", "--run-time", "8"]), @"petal: WARM_UP=9 (--warm-up): must be less than RUN_TIME=8 (--run-time). Shorten the warm-up or lengthen the run.");
    assert_snapshot!(run(&["--loop", "server"]), @"petal: LOOP=server (--loop): must be client with a database in petal's own process: there is no server to loop in. Leave it out, or write LOOP=client.");
    assert_snapshot!(run(&["--prefetch", "4"]), @"petal: PREFETCH=4 (--prefetch): must be 0 with an embedded database, which reads one block at a time and cannot read ahead. Leave it out; raise THREADS_PER_SCHEMA for more reads in flight.");
    assert_snapshot!(run(&["--external-script", "/etc/passwd"]), @"petal: EXTERNAL_SCRIPT=/etc/passwd (--external-script): is not executable: Permission denied (os error 13). Make it executable with chmod +x.");
    let examples: Vec<&str> = support::ENGINES.iter().map(|engine| engine.example).collect();
    let unknown = |url: &str| run(&["--db", url]).replace(&examples.join(" or "), "EXAMPLES");
    assert_snapshot!(unknown("mongo:x"), @"petal: DB=*** (--db): unknown database scheme. Write EXAMPLES.");
    assert_snapshot!(unknown("postgress://h/x"), @"petal: DB=*** (--db): unknown database scheme postgress. Did you mean postgres?");
    assert_snapshot!(unknown("mssql://sa:secret@host/x"), @"
    petal: DB=*** (--db): unknown database scheme mssql. Write EXAMPLES.
    petal: every user could read the password on the command line until petal hid it. Use a password file, the environment, or @FILE
    ");
    assert_snapshot!(run(&["--db", "sqlite:petal-data?journal=delete"]), @"petal: DB=sqlite:...?journal=delete: journal is no option: petal always uses WAL, the only mode in which readers and a writer work at once; leave it out");
    assert_snapshot!(run(&["--direct-io", "maybe"]), @"petal: DIRECT_IO=maybe (--direct-io): must be TRUE or FALSE. Write DIRECT_IO=TRUE or DIRECT_IO=FALSE.");
    assert_snapshot!(run(&["-s", "2", "2"]), @"petal: -s and N=2 both say how many schemas: give one of them");
    assert_snapshot!(run(&["4", "0"]), @"petal: 4 0: two numbers are the first SLOB's form of writers and readers; write: petal run --writers 4 --readers 0");
    assert_snapshot!(run(&["0"]), @"petal: N=0: the number of schemas is a whole number from 1 to 10000; for instance `petal run 4`");
    assert_snapshot!(run(&["-s", "x"]).lines().next().unwrap(), @"error: invalid value 'x' for '--schemas <N>': must be a whole number from 1 to 10000");
    let setup = |args: &[&str]| refusal(&work, &[&["setup"], args].concat());
    assert_snapshot!(setup(&["-s", "3", "--scale", "16M"]), @"petal: schema 1 is there with 1,024 blocks of 8,192 bytes and a scan table of 128, not 2,048 of 8,192 and 128: request the same, drop it with `petal drop`, or load it again with --replace");
    assert_snapshot!(setup(&["--scale", "8M", "--obfuscate-columns", "TRUE"]), @r#"petal: schema 1 is there with the filler "constant", not "random" (OBFUSCATE_COLUMNS, COMPRESS_RATIO): request the same, drop it with `petal drop`, or load it again with --replace"#);
    assert_snapshot!(setup(&["-s", "3", "--block-sz", "3K"]), @"petal: BLOCK_SZ=3K (--block-sz): must be one of 4K, 8K, 16K, 32K. Write BLOCK_SZ=8K, for example.");
    assert_snapshot!(setup(&["--obfuscate-columns", "TRUE", "--compress-ratio", "2"]), @"petal: COMPRESS_RATIO=2 (--compress-ratio): contradicts OBFUSCATE_COLUMNS=TRUE (--obfuscate-columns), which fills rows with random text. Leave out one of them; COMPRESS_RATIO=1.0 is random text too.");
    assert_snapshot!(setup(&["IOPS", "many"]), @"petal: N=many: the number of schemas is a whole number from 1 to 10000; for instance `petal setup 4`");
    // All at once, so that a person need not come back for each.
    assert_eq!(
        run(&["--update-pct", "101", "--run-time", "0", "--repeats", "x"]).lines().count(),
        3
    );
}

#[test]
fn exit_codes_are_the_promised_ones() {
    let work = Workplace::new();
    work.petal(["run"]).exits(3).telling(&["petal setup"]);
    work.petal(["report", "nowhere"]).exits(3).telling(&["nowhere"]);
    work.petal(["report", "."]).exits(3).telling(&["no petal run here"]);
    work.petal(["run", "--conf", "nowhere.conf"]).exits(2).telling(&["nowhere.conf"]);
    work.petal(["run", "--no-such-flag"]).exits(2).telling(&["--no-such-flag"]);
    work.petal(["setup", "--scale", "8M"]).exits(0);
    work.petal(["run", "2", "--work-loop", "1"]).exits(3).telling(&["schema 2 is not loaded"]);
    let drop = work.petal(["drop"]).exits(0);
    assert!(drop.stdout.contains("petal1.db"), "{}", drop.stdout);
    assert!(!work.path("petal-data").exists());
    let nothing = work.petal(["drop"]).exits(0);
    assert!(nothing.stdout.contains("nothing of petal's is there"), "{}", nothing.stdout);
}

#[test]
fn slobs_own_forms_and_file_work() {
    let work = Workplace::new();
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/slob/slob.conf");
    fs::copy(conf, work.path("slob.conf")).unwrap();
    let setup = work.petal(["setup", "IOPS", "2", "--scale", "8M"]).exits(0);
    let setup = setup.telling(&["settings from", "slob.conf", "no tablespaces"]);
    assert!(setup.stdout.contains("2 schemas"), "{}", setup.stdout);
    let again = work.petal(["setup", "2", "--scale", "8M"]).exits(0);
    again.telling(&["schema 1 is there as asked and stays"]);
    let args = ["run", "2", "--work-loop", "100", "--scale", "8M", "--json"];
    let run = work.petal(args).exits(0).telling(&["settings from"]);
    assert!(!run.stderr.contains("no parameter of petal"), "{}", run.stderr);
    let run = run.json();
    assert_eq!((count(&run, "/sessions"), count(&run, "/ops/update")), (2, 50));
    let details = &record(&work.run_folder())["details"];
    assert!(details["conf_file"].as_str().unwrap().ends_with("slob.conf"));
    // As it stands it asks for more than is loaded: told with its line.
    work.petal(["run", "2"]).exits(2).telling(&["SCALE=80M", "slob.conf:", "schema 1 holds 1,024"]);
}

#[test]
fn flag_over_environment_over_file_over_default() {
    let work = Workplace::loaded(1, "8M");
    let pct = |petal: crate::support::Petal| {
        let run = petal.exits(0).json();
        assert_eq!(count(&run, "/ops/update"), count(&run, "/settings/update_pct"));
        count(&run, "/ops/update")
    };
    let args = ["run", "--work-loop", "100", "--json"];
    assert_eq!(pct(work.petal(args)), 25);
    work.write("slob.conf", "UPDATE_PCT=10   # a tenth\nexport UPDATE_PCT\nSCAN_PCT=\n");
    assert_eq!(pct(work.petal(args)), 10);
    assert_eq!(pct(work.petal(args).env("UPDATE_PCT", "30")), 30);
    let flag = [&args[..], &["--update-pct", "40"]].concat();
    assert_eq!(pct(work.petal(flag).env("UPDATE_PCT", "30")), 40);
    work.write("other.conf", "UPDATE_PCT='50'\n");
    assert_eq!(pct(work.petal([&args[..], &["--conf", "other.conf"]].concat())), 50);
    work.write("slob.conf", "SHARED_DATA_MODULUS=3\n");
    work.petal(args).exits(0).telling(&["SHARED_DATA_MODULUS", "HOT_SCHEMA_FREQUENCY"]);
    work.write("slob.conf", "UPDTE_PCT=10\n");
    work.petal(args).exits(2).telling(&["slob.conf:1: unknown parameter UPDTE_PCT", "UPDATE_PCT?"]);
}

#[test]
fn hooks_are_called_and_their_values_enter_the_record() {
    let work = Workplace::loaded(1, "8M");
    let hook = work.script(
        "hook.sh",
        "echo $1 >> calls; echo array_cpu=12.5 %; echo capacity_used=$1; \
         [ $1 != end ] || ls $PETAL_RUN_DIR",
    );
    let script = hook.to_str().unwrap();
    work.petal(["run", "--work-loop", "5", "--external-script", script]).exits(0);
    assert_eq!(fs::read_to_string(work.path("calls")).unwrap(), "pre\npost\nend\n");
    let folder = work.run_folder();
    let run = record(&folder);
    let hooks = run["details"]["hooks"].as_array().unwrap();
    let moments: Vec<&str> = hooks.iter().map(|hook| hook["moment"].as_str().unwrap()).collect();
    assert_eq!(moments, ["pre", "post", "end"]);
    for hook in hooks {
        let value = serde_json::json!({"name": "array_cpu", "value": 12.5, "unit": "%"});
        assert_eq!(hook["values"], serde_json::json!([value]));
        assert_eq!(hook["exit_code"], 0);
    }
    let seen = fs::read_to_string(folder.join("hook-end.log")).unwrap();
    assert!(seen.contains("run.json") && seen.contains("report.txt"), "{seen}");
}

#[test]
fn a_hook_that_fails_before_the_trigger_stops_the_run() {
    let work = Workplace::loaded(1, "8M");
    let hook = work.script("hook.sh", "echo not today; touch called-$1; exit 9");
    let script = hook.to_str().unwrap();
    let run = work.petal(["run", "--work-loop", "5", "--external-script", script]).exits(1);
    let run = run.telling(&["hook.sh", "exit code 9", "`pre`", "hook-pre.log"]);
    assert_eq!(run.stdout, "");
    assert!(work.path("called-pre").exists() && !work.path("called-post").exists());
    let said = fs::read_to_string(work.run_folder().join("hook-pre.log")).unwrap();
    assert_eq!(said, "not today\n");
}

#[test]
fn figures_survive_a_hook_that_fails_afterwards() {
    for moment in ["post", "end"] {
        let work = Workplace::loaded(1, "8M");
        let hook = work.script("hook.sh", &format!("[ $1 != {moment} ] || exit 9"));
        let script = hook.to_str().unwrap();
        let args = ["run", "--work-loop", "5", "--json", "--external-script", script];
        let run = work.petal(args).exits(1).telling(&["exit code 9", moment]);
        assert_eq!(count(&run.json(), "/ops/total"), 5, "{moment}");
        assert_eq!(count(&record(&work.run_folder()), "/ops/total"), 5, "{moment}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let work = Workplace::loaded(1, "8M");
    for args in [&["run", "--work-loop", "5", "--json"][..], &["help", "parameters"]] {
        // A pipe whose reader is gone before anything is written.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(PETAL)
            .args(args)
            .current_dir(work.path(""))
            .env("NO_OS_PERF_DATA", "TRUE")
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
    let shell = format!("'{PETAL}' run --work-loop 5 --json | head -c 10; exit ${{PIPESTATUS[0]}}");
    let output = Command::new("bash")
        .args(["-c", &shell])
        .current_dir(work.path(""))
        .env("NO_OS_PERF_DATA", "TRUE")
        .output()
        .unwrap();
    assert_eq!(output.stdout.len(), 10);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn quiet_leaves_results_alone() {
    let work = Workplace::loaded(1, "8M");
    let run = work.petal(["run", "-q", "--work-loop", "5", "--json"]).exits(0);
    assert_eq!(run.stderr, "");
    run.json();
    let run = work.petal(["run", "--work-loop", "5"]).exits(0);
    assert!(run.stdout.starts_with("petal ") && run.stdout.contains("PIOPS"), "{}", run.stdout);
    assert!(run.stderr.contains("the record is in petal-results/"), "{}", run.stderr);
}

#[test]
fn check_reports_on_host_and_target_and_changes_nothing() {
    let work = Workplace::loaded(1, "8M");
    let database = work.path("petal-data/petal1.db");
    let before = fs::read(&database).unwrap();
    let files = || {
        let entries = fs::read_dir(work.path("petal-data")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let files_before = files();
    let check = work.petal(["check"]).ends();
    // 1 where something would spoil a test here, such as these tests themselves.
    assert!(matches!(check.code, Some(0 | 1)), "{check:?}");
    assert_eq!(check.code == Some(1), check.stdout.contains("WARNING"), "{}", check.stdout);
    assert!(check.stdout.contains("swap"), "{}", check.stdout);
    assert!(before == fs::read(&database).unwrap());
    assert_eq!(files(), files_before);
    work.write("petal-data/petal2.db", "somebody else's");
    work.petal(["check"]).ends().telling(&["petal2.db", "mark"]);
}

#[test]
fn plain_runs_are_printed_as_csv_a_row_each() {
    let work = Workplace::loaded(1, "8M");
    for update_pct in ["0", "50"] {
        work.petal(["run", "--work-loop", "20", "--update-pct", update_pct]).exits(0);
    }
    let runs = work.runs();
    let folders = runs.iter().map(|folder| folder.to_str().unwrap());
    let args = ["report", "--csv"].into_iter().chain(folders);
    let printed = work.petal(args.collect::<Vec<_>>()).exits(0).stdout;
    let mut reader = csv::Reader::from_reader(printed.as_bytes());
    let names = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let column = |name: &str| -> Vec<&str> {
        let at = names.iter().position(|known| known == name).unwrap();
        rows.iter().map(|row| &row[at]).collect()
    };
    assert_eq!(column("update_pct"), ["0", "50"]);
    assert_eq!(column("folder")[0], runs[0].file_name().unwrap().to_str().unwrap());
    assert!(column("ops_s").iter().all(|rate| rate.parse::<f64>().unwrap() > 0.0));
    work.petal(["report", "--csv", "--json", runs[0].to_str().unwrap()]).exits(2);
}

#[test]
fn figures_of_the_system_are_written_as_slob_leaves_them() {
    let work = Workplace::loaded(1, "8M");
    work.petal(["run", "--run-time", "3", "--update-pct", "0"]).watching().exits(0);
    let folder = work.run_folder();
    let dir = folder.to_str().unwrap();
    work.petal(["report", dir]).exits(0);
    assert!(!folder.join("vmstat.out").exists(), "nobody asked for it");
    work.petal(["report", "--os-text", dir]).exits(0);
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(text("vmstat.out").starts_with("procs -----------memory----------"));
    assert!(text("vmstat.out").lines().count() >= 4, "{}", text("vmstat.out"));
    assert!(text("iostat.out").contains("avg-cpu:  %user"), "{}", text("iostat.out"));
    assert!(text("mpstat.out").contains(" all "), "{}", text("mpstat.out"));
    work.petal(["run", "--work-loop", "5", "--no-os-perf-data", "TRUE"]).exits(0);
    let unwatched = work.runs().pop().unwrap();
    let args = ["report", "--os-text", unwatched.to_str().unwrap()];
    work.petal(args).exits(0).telling(&["no vmstat.out", "NO_OS_PERF_DATA"]);
}

/// Output of petal on a terminal of 80 columns, by util-linux's `script`. What it warns of is in the
/// file `stderr`.
fn on_terminal(work: &Workplace, arguments: &str) -> String {
    let petal = env!("CARGO_BIN_EXE_petal");
    let command = format!("stty cols 80 rows 24; {petal} {arguments} 2>stderr");
    let output = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        // The caller's calibrations do not belong to this test.
        .env_remove("XDG_DATA_HOME")
        .env("HOME", work.path("home"))
        .current_dir(work.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

/// Longer lines than 80 columns, but for those with a path that cannot be broken.
fn long_lines<'a>(work: &Workplace, shown: &'a str) -> Vec<&'a str> {
    let place = work.path("").to_str().unwrap().to_owned();
    let is_long = |line: &&str| line.chars().count() > 80 && !line.contains(&place);
    shown.lines().filter(is_long).collect()
}

#[test]
fn commands_on_many_records_end_with_one_screen_and_three_findings() {
    let work = Workplace::loaded(1, "8M");
    // Long enough for the counters of a whole second: without them a run gives no profile.
    let run = ["run", "--run-time", "3", "--update-pct", "100", "--ledger", "l"];
    work.petal(run).exits(0);
    let folder = work.run_folder();
    for number in 0..50 {
        let copy = work.path(format!("many/run{number:02}"));
        fs::create_dir_all(&copy).unwrap();
        for file in fs::read_dir(&folder).unwrap().flatten() {
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
    }
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/awr");
    work.write("table.csv", include_str!("../samples/flash-pcie.csv"));
    work.write("priced/costs.json", include_str!("../data/costs/costs.json"));
    for arguments in [
        "report many/*",
        "report priced",
        "compare many/run00 many/run01",
        "compare many",
        "history many --by petal",
        "gallery many --out page",
        "check",
        "verify l",
        "calibrate x.dat --size 32M --seconds 9 --depths 1,2,3,4,5,6,7,8,9",
        &format!("awr {samples} {samples}"),
        &format!("awr --over-time {samples}"),
        &format!("profile {samples}/awr_11g.html"),
        "profile many/run00",
        "predict many",
        "predict table.csv --sessions 12,24,48",
        "run --work-loop 20 --repeats 3",
        "drop",
    ] {
        let shown = on_terminal(&work, arguments);
        let findings = shown.lines().filter(|line| line.starts_with("- ")).count();
        let lines = shown.lines().count();
        let warned = fs::read_to_string(work.path("stderr")).unwrap();
        let notes = warned.lines().filter(|line| line.starts_with("petal: ")).count();
        let fits = (2..=40).contains(&lines) && findings <= 3;
        let fits = fits && (notes <= 5 || !arguments.starts_with("awr"));
        assert!(fits, "{arguments}: {lines} lines\n{shown}{warned}");
        // A table that is too wide loses columns; only tables of several databases have equal names.
        let rules = shown.lines().zip(shown.lines().skip(1));
        let headings = rules.filter(|(_, rule)| rule.starts_with("---"));
        let first: Vec<&str> =
            headings.filter_map(|(names, _)| names.split_whitespace().next()).collect();
        let distinct: HashSet<&&str> = first.iter().collect();
        let is_split = distinct.len() < first.len() && !arguments.contains("over-time");
        assert!(!is_split, "{arguments}: a split table\n{shown}");
        assert_eq!(long_lines(&work, &shown), [""; 0], "{arguments}\n{shown}");
    }
}

#[test]
fn a_terminal_gets_one_screen_and_a_pipe_the_whole_report() {
    let work = Workplace::loaded(1, "8M");
    let run = ["run", "--work-loop", "20", "--update-pct", "0"];
    let piped = work.petal(run).exits(0).stdout;
    assert!(piped.contains("HOW TO READ THIS"), "{piped}");
    let shown = on_terminal(&work, &run.join(" "));
    assert!(shown.contains(" | PIOPS ") && shown.lines().count() <= 40, "{shown}");
    assert!(shown.contains("--full prints it here") && shown.contains("petal-results/"), "{shown}");
    assert!(shown.contains("p99.9 us") && shown.contains("% DB time"), "{shown}");
    let repeated = on_terminal(&work, &format!("{} --repeats 3", run.join(" ")));
    let rows = repeated.lines().filter(|line| line.contains("-sqlite-")).count();
    assert!(repeated.starts_with("all: ") && rows == 3, "{repeated}");
    let whole = on_terminal(&work, &format!("{} --full", run.join(" ")));
    assert!(whole.contains("HOW TO READ THIS"), "{whole}");
    assert_eq!(long_lines(&work, &shown), [""; 0], "{shown}");
    // A whole report has the line to paste in one piece.
    let mut long = long_lines(&work, &whole);
    long.retain(|line| !line.contains(" | served by: "));
    assert_eq!(long, [""; 0], "{whole}");
}
