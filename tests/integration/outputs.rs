//! What petal leaves behind and prints: results that cannot be written, ends of runs that are cut
//! off, and texts from elsewhere on their way to a terminal.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    Ended, Mount, Petal, Workplace, contents, count, findings, names, number, record, until,
};

/// A record that this or an earlier petal left.
fn kept(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/records").join(name);
    let files = contents(&folder).into_iter();
    files.map(|(path, text)| (path.strip_prefix(&folder).unwrap().to_owned(), text)).collect()
}

/// A folder of a run, in this workplace.
fn run_in(work: &Workplace, name: &str) -> PathBuf {
    for (file, text) in kept(name) {
        work.write(&format!("{name}/{}", file.display()), text);
    }
    work.path(name)
}

#[test]
fn a_result_that_cannot_be_written_is_reported_with_exit_3() {
    let work = Workplace::loaded(1, "8M");
    run_in(&work, "petal-run-2");
    let report = env!("CARGO_MANIFEST_DIR").to_owned() + "/tests/data/awr/awr_12c.txt";
    let calls: [&[&str]; 8] = [
        &["report", "petal-run-2"],
        &["report", "petal-run-2", "--json"],
        &["run", "--work-loop", "1", "--json"],
        &["awr", "--csv", &report],
        &["awr", &report],
        &["help", "parameters"],
        &["--help"],
        &["check"],
    ];
    let full = || File::options().write(true).open("/dev/full").unwrap();
    // Nobody reads: a pager that was left, `head`.
    let closed = || std::io::pipe().unwrap().1;
    for args in calls {
        work.petal(args).into(full()).exits(3).telling(&["could not be written", "No space left"]);
        let usual = work.petal(args).ends();
        let unread = work.petal(args).into(closed()).ends();
        assert_eq!(unread.code, usual.code, "{args:?}");
        assert!(!unread.stderr.contains("written"), "{args:?}: {}", unread.stderr);
    }
}

#[test]
fn reports_that_cannot_be_kept_are_printed_and_exit_3() {
    let Some(disk) = Mount::tmpfs("size=1M") else { return };
    for (file, text) in kept("petal-run-2") {
        fs::write(disk.path("").join(file), text).unwrap();
    }
    let work = Workplace::new();
    let folder = disk.text("");
    let report = |petal: Petal, word: &str| {
        let reported = petal.exits(3).telling(&["not all of its files", word]);
        assert!(reported.stdout.contains("PIOPS"), "{}", reported.stdout);
    };
    disk.fill("somebody-elses");
    report(work.petal(["report", &folder]), "No space left");
    disk.free("somebody-elses");
    disk.make_read_only();
    report(work.petal(["report", &folder]), "Read-only");
    disk.make_writable();
    work.petal(["report", &folder]).exits(0);
}

/// Adds up a count over the seconds that know it.
fn sum(seconds: &[Value], count: &str) -> u64 {
    seconds.iter().filter_map(|line| line.pointer(count)?.as_u64()).sum()
}

/// `petal report --json` of a folder.
fn reported(work: &Workplace, folder: &Path) -> Value {
    work.petal(["report", "--json", folder.to_str().unwrap()]).exits(0).json()
}

#[test]
fn a_run_that_is_killed_at_its_end_keeps_its_figures_at_each_step() {
    let work = Workplace::loaded(1, "8M");
    let run = |moment: &str| {
        let script = format!("[ $1 != {moment} ] || kill -9 $PPID; echo ${{1}}_value=1 %");
        let hook = work.script("hook.sh", &script);
        let hook = hook.to_str().unwrap().to_owned();
        let args = ["run", "--run-time", "2", "--update-pct", "20", "--external-script", &hook];
        assert_eq!(work.petal(args).ends().code, None, "killed at {moment}");
        work.runs().pop().unwrap()
    };
    // Killed while the script works: the figures are there, and that its values are not.
    let folder = run("post");
    let kept = record(&folder);
    assert_eq!(kept["status"], "complete");
    assert!(count(&kept, "/details/io/physical_read_requests") > 0);
    assert!(kept["details"]["gaps"].to_string().contains("EXTERNAL_SCRIPT"), "{kept}");
    assert!(findings(&kept).contains(&"gaps"));
    // Killed before that, in the middle of the write, or the file is lost later.
    let whole = fs::read(folder.join("run.json")).unwrap();
    let seconds = work.seconds();
    fs::remove_file(folder.join("run.json")).unwrap();
    for cut in [None, Some(0), Some(whole.len() / 2), Some(whole.len() - 2)] {
        if let Some(cut) = cut {
            fs::write(folder.join(".run.json.tmp"), &whole[..cut]).unwrap();
        }
        let rebuilt = reported(&work, &folder);
        assert_eq!(count(&rebuilt, "/ops/total"), sum(&seconds, "/second/ops/total"));
        assert_eq!(rebuilt["ops"], kept["ops"]);
        let until = number(&rebuilt, "/counted_until/second");
        let reported = |name: &str| {
            let per_second = number(&rebuilt, &format!("/per_second/{name}"));
            (per_second * until).round() as u64
        };
        for name in ["physical_read_requests", "physical_write_requests", "redo_bytes"] {
            assert_eq!(reported(name), sum(&seconds, &format!("/second/io/{name}")), "{name}");
        }
        assert!(!rebuilt["waits"].as_array().unwrap().is_empty());
    }
    // Killed when all files are written.
    let folder = run("end");
    let kept = record(&folder);
    assert_eq!(kept["status"], "complete");
    assert!(kept["details"]["hooks"].to_string().contains("post_value"));
    assert!(!kept["details"]["gaps"].to_string().contains("EXTERNAL_SCRIPT"));
    for name in ["report.txt", "report.html"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
}

#[test]
fn a_run_that_goes_on_and_a_damaged_one_are_reported_as_such() {
    let work = Workplace::loaded(1, "8M");
    let mut run = work.petal(["run", "--run-time", "100"]).start();
    run.until("a second of a run", || !work.seconds().is_empty());
    let folder = work.run_folder();
    let report = || work.petal(["report", folder.to_str().unwrap()]).exits(0).stdout;
    let live = report();
    assert!(live.contains("the run goes on") && live.contains("still running"), "{live}");
    assert!(!live.contains("killed"), "{live}");
    run.signal(Signal::INT);
    run.ends().exited(130);
    let text = fs::read(folder.join("run.json")).unwrap();
    fs::write(folder.join("run.json"), &text[..text.len() / 3]).unwrap();
    let damaged = report();
    assert!(damaged.contains("run.json is damaged") && damaged.contains("status not known"));
    assert!(!damaged.contains("killed"), "{damaged}");
    fs::remove_file(folder.join("run.json")).unwrap();
    assert!(report().contains("petal was killed, or its run.json is lost"));
}

#[test]
fn a_record_that_cannot_be_written_is_said_to_be_missing() {
    let work = Workplace::loaded(1, "8M");
    let script = work.script("hook.sh", "[ $1 != pre ] || mkdir -p $PETAL_RUN_DIR/run.json/taken");
    let args = ["run", "--work-loop", "20", "--external-script", script.to_str().unwrap()];
    let run = work.petal(args).exits(3).telling(&["run.json", "the measurements are in"]);
    assert!(!run.stderr.contains("the record is in"), "{}", run.stderr);
    let folder = work.run_folder();
    fs::remove_dir_all(folder.join("run.json")).unwrap();
    assert_eq!(count(&reported(&work, &folder), "/ops/total"), 20);
}

#[test]
fn a_damaged_cell_of_a_sweep_is_reported_and_done_again() {
    let work = Workplace::loaded(1, "8M");
    let args =
        ["sweep", "--sessions", "1,2", "--repeats", "1", "--work-loop", "5", "--out", "swept"];
    work.petal(args).exits(0);
    let cell = work.path("swept/cell001-sessions1-r1/run.json");
    let text = fs::read(&cell).unwrap();
    fs::write(&cell, &text[..text.len() / 2]).unwrap();
    let reported =
        work.petal(["report", "swept", "--json"]).exits(0).telling(&["cell 1", "damaged"]);
    assert_eq!(reported.json()["cells"].as_array().unwrap().len(), 1);
    assert_eq!(reported.json()["status"], "interrupted");
    let again = work.petal([&args[..], &["--json"]].concat()).exits(0).telling(&["done again"]);
    assert_eq!(again.json()["cells"].as_array().unwrap().len(), 2);
    assert_eq!(again.json()["status"], "complete");
    assert!(work.path("swept/cell001-sessions1-r1.failed1/run.json").is_file());
}

/// A terminal's escapes, a formula and a forged message, as a shell's user would hardly type them
/// and a name in a database may hold them.
const HOSTILE: &str = "=cmd\u{1b}]0;x\u{7}\u{1b}[2J\u{9b}31m\u{202e}\npetal: forged";
const SECRET: &str = "Geheim-4712";

/// Nothing of it acts on the terminal, begins a line of its own, or is secret.
#[track_caller]
fn assert_harmless(ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        let acts = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
        assert!(!text.contains(|letter| acts(letter) || letter == '\u{202e}'), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("petal: forged")), "{text}");
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn hostile_texts_from_anywhere_do_nothing_in_a_terminal() {
    let work = Workplace::new();
    let data = format!("sqlite:data{HOSTILE}");
    let out = format!("results{HOSTILE}");
    let hook = work.script("hook.sh", "printf 'cpu=7 =cmd\\033[2J\\007\\n'; printf '\\033[2J\\n'");
    let hook = hook.to_str().unwrap();
    assert_harmless(&work.petal(["setup", "--scale", "8M", "--db", &data]).exits(0));
    let run = ["run", "--work-loop", "30", "--db", &data, "--out", &out, "--external-script", hook];
    assert_harmless(&work.petal(run).exits(0));
    assert_harmless(&work.petal([&run[..], &["--json"]].concat()).exits(0));
    let folders = names(&work.path(&out));
    let folder = work.path(&out).join(&folders[0]);
    let text = fs::read_to_string(folder.join("report.txt")).unwrap();
    assert!(text.contains("=cmd\\u001b") && !text.contains('\u{1b}'), "{text}");
    let folder = folder.to_str().unwrap();
    assert_harmless(&work.petal(["report", folder]).exits(0));
    assert_harmless(&work.petal(["report", folder, folder]).exits(0));
    assert_harmless(&work.petal(["compare", folder, folder]).ends());
    assert_harmless(&work.petal(["check", "--db", &data]).ends());
    let sweep = ["sweep", "--sessions", "1,2", "--db", &data, "--out", &out];
    assert_harmless(&work.petal([&sweep[..], &["--dry-run"]].concat()).ends());
    assert_harmless(&work.petal(["drop", "--db", &data]).exits(0));
    assert_harmless(&work.petal(["drop", "--db", &data]).exits(0));
    // What is refused is quoted.
    let conf = work.write("odd.conf", format!("UPDATE_PCT='{}'\n", HOSTILE.replace('\n', " ")));
    let conf = conf.to_str().unwrap();
    let refused: [&[&str]; 7] = [
        &["run", "--conf", conf],
        &["run", "--update-pct", HOSTILE],
        &["run", HOSTILE],
        &[HOSTILE],
        &["run", "--conf", HOSTILE],
        &["report", HOSTILE],
        &["run", "--db", HOSTILE],
    ];
    for args in refused {
        let ended = work.petal(args).ends();
        assert_ne!(ended.code, Some(0));
        assert_harmless(&ended);
    }
    for (key, value) in [("UPDATE_PCT", HOSTILE), ("DB", HOSTILE), ("EXTERNAL_SCRIPT", HOSTILE)] {
        let ended = work.petal(["run"]).env(key, value).ends();
        assert_ne!(ended.code, Some(0));
        assert_harmless(&ended);
    }
}

#[test]
fn hostile_reports_and_records_of_others_do_nothing_in_a_terminal() {
    let work = Workplace::new();
    let awr = include_str!("../data/awr/awr_19c.html");
    let hostile = HOSTILE.replace('\n', " ");
    let awr = awr.replace("TULIP", &hostile).replace("bed7.example.com", &hostile);
    let file = work.write(&format!("awr{HOSTILE}.html"), awr);
    let file = file.to_str().unwrap();
    for form in [&["awr", file][..], &["awr", "--csv", file], &["awr", "--json", file]] {
        assert_harmless(&work.petal(form).exits(0));
    }
    for form in ["awr_info", "events"] {
        assert_harmless(&work.petal(["awr", "--format", form, file]).exits(0));
    }
    assert_harmless(&work.petal(["awr", "--explain", file]).exits(0));
    let folder = run_in(&work, "petal-run-2");
    let mut record = record(&folder);
    for place in ["/target/product", "/target/version", "/target/url", "/details/host/name"] {
        *record.pointer_mut(place).unwrap() = HOSTILE.into();
    }
    fs::write(folder.join("run.json"), record.to_string()).unwrap();
    for args in [&["report", "petal-run-2"][..], &["report", "--json", "petal-run-2"]] {
        let reported = work.petal(args).exits(0);
        assert!(reported.stdout.contains("=cmd\\u001b"), "{}", reported.stdout);
        assert_harmless(&reported);
    }
}

#[test]
fn a_text_that_is_no_url_is_not_repeated() {
    let work = Workplace::new();
    for url in [
        format!("oracle://u/{SECRET}@h/x"),
        format!("oracle:u/{SECRET}@h/x"),
        format!("u/{SECRET}@h/x"),
        format!("host=h password={SECRET}"),
        format!("sqlite:host=h password={SECRET}"),
        format!("postgres://h/d?dbname=host=h%20password={SECRET}"),
        format!("postgres://u:4711?{SECRET}@h/d"),
        format!("postgres://u:4711/{SECRET}@h/d"),
        format!("postgres://h/d?passphrase={SECRET}"),
        format!("postgres://h/d?auth={SECRET}"),
        format!("sqlite:data?key={SECRET}"),
        format!("jdbc:oracle:thin:u/{SECRET}@h"),
        format!("{SECRET}:x"),
    ] {
        let conf = work.write("odd.conf", format!("DB='{url}'\n"));
        for ended in [
            work.petal(["run", "--db", &url]).exits(2),
            work.petal(["run", &format!("--db={url}")]).exits(2),
            work.petal(["sweep", "--db", &url]).exits(2),
            work.petal(["run"]).env("DB", &url).exits(2),
            work.petal(["run", "--conf", conf.to_str().unwrap()]).exits(2),
        ] {
            assert_harmless(&ended);
            assert!(ended.stderr.contains("DB="), "{}", ended.stderr);
        }
    }
}

#[test]
fn a_workbook_is_written_where_it_was_asked_for_and_nowhere_else() {
    use calamine::{Data, Reader as _, Xlsx};
    let work = Workplace::new();
    let run = run_in(&work, "petal-run-2");
    let run = run.to_str().unwrap();
    work.petal(["report", run, "--xlsx", "run.xlsx", "--timeline"]).exits(0).telling(&["run.xlsx"]);
    let mut book: Xlsx<_> = calamine::open_workbook(work.path("run.xlsx")).unwrap();
    let seconds = book.worksheet_range("seconds").unwrap();
    let rows = fs::read_to_string(work.path("petal-run-2/timeline.csv")).unwrap().lines().count();
    assert_eq!(seconds.height(), rows);
    let numbers = seconds.rows().skip(1).flatten().filter(|cell| matches!(cell, Data::Float(_)));
    assert!(numbers.count() > rows, "figures are texts");
    work.petal(["report", run, "--xlsx", "run.csv"]).exits(2).telling(&["must end in .xlsx"]);
    work.petal(["report", run, "--xlsx", "no/run.xlsx"]).exits(3).telling(&["no/run.xlsx"]);
    let report = env!("CARGO_MANIFEST_DIR").to_owned() + "/tests/data/awr/awr_12c.txt";
    work.petal(["awr", &report, "--xlsx", "awr.xlsx"]).exits(0);
    assert!(work.path("awr.xlsx").is_file() && !work.path("run.csv").exists());
}

/// Options that name a file or folder that petal only reads, or the target itself.
const INPUTS: [&str; 7] = [
    "--conf",
    "--os-data",
    "--external-script",
    "--password-command",
    "--destroy-data",
    "--path",
    "--calibration",
];
/// Outputs whose command needs a database with an optimizer, slots of time, or a trial run first: these
/// make their folder as `run` does.
const NEED_MORE: [(&str, &str); 3] =
    [("costs", "--out"), ("interfere", "--out"), ("replay", "--out")];

/// Each command's options that name an output, as its help shows them.
fn outputs(work: &Workplace) -> Vec<(String, String)> {
    let help = work.petal(["--help"]).exits(0).stdout;
    let is_name =
        |word: &&str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let commands = help.lines().filter(|line| line.starts_with("  "));
    let mut commands: Vec<&str> =
        commands.filter_map(|line| line.split_whitespace().next()).filter(is_name).collect();
    commands.sort_unstable();
    commands.dedup();
    assert!(commands.len() > 20, "{commands:?}");
    let mut found = Vec::new();
    for command in commands {
        let help = work.petal([command, "--help"]).ends().stdout;
        for line in help.lines().filter(|line| line.trim_start().starts_with('-')) {
            let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("--"));
            let (Some(option), Some(value)) = (words.next(), words.next()) else { continue };
            let is_place = ["<FILE>", "<FOLDER>", "<PATH>", "<DIR>"].contains(&value);
            // Only `calibrate` writes there.
            let is_read =
                INPUTS.contains(&option) || option == "--calibrations" && command != "calibrate";
            if is_place && !is_read {
                found.push((command.to_owned(), option.to_owned()));
            }
        }
    }
    found
}

/// Each option that names an output, given an input, a link or a stranger's file.
#[test]
fn no_output_takes_the_place_of_an_input_or_of_a_strangers_file() {
    let work = Workplace::loaded(1, "8M");
    let run = run_in(&work, "petal-run-2");
    let awr = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/awr");
    for (name, from) in [("a.html", "awr_11g.html"), ("a.xlsx", "awr_12c.txt")] {
        work.write(name, fs::read(awr.join(from)).unwrap());
    }
    work.petal(["profile", "a.html", "-o", "prof.json"]).exits(0);
    fs::create_dir(work.path("mine")).unwrap();
    for (file, text) in contents(&run) {
        work.write(&format!("mine/{}", file.file_name().unwrap().to_str().unwrap()), text);
    }
    for name in ["index.html", "card.svg", "card.md", "petal.1", "report.txt", "ledger", "os.out"] {
        work.write(&format!("mine/{name}"), "mine");
    }
    std::os::unix::fs::symlink(work.path("prof.json"), work.path("link.json")).unwrap();
    let calibrate = ["calibrate", "c.dat", "--size", "16M", "--seconds", "1", "--depths", "1"];
    let calls: [(&[&str], &str); 28] = [
        (&["awr", "--petals", "a.html", "a.html"], "an input"),
        (&["awr", "--petals", "a.html", "a.xlsx"], "petal did not write it"),
        (&["awr", "--html", "a.html", "a.html"], "an input"),
        (&["awr", "--xlsx", "a.xlsx", "a.xlsx"], "an input"),
        (&["compare", "--html", "a.html", "a.html"], "an input"),
        (&["compare", "--html", "a.html", "petal-run-2"], "petal did not write it"),
        (&["awr", "--xlsx", "a.xlsx", "a.html"], "petal did not write it"),
        (&["profile", "-o", "prof.json", "prof.json"], "an input"),
        (&["profile", "-o", "link.json", "prof.json"], "an input"),
        (&["profile", "-o", "link.json", "a.html"], "it is a link"),
        (&["profile", "-o", "a.html", "a.html"], "an input"),
        (&["profile", "-o", "mine/run.json", "mine"], "another kind"),
        (&["profile", "-o", "mine", "mine"], "an input"),
        (&["report", "mine/run.json"], "report.txt is kept: petal did not write it"),
        (&["report", "mine", "--xlsx", "a.xlsx"], "petal did not write it"),
        (&["gallery", "petal-run-2", "--out", "mine"], "index.html is kept"),
        (&["card", "petal-run-2", "--out", "mine"], "card.svg is kept"),
        (&["man", "--out", "mine"], "petal.1 is kept"),
        (&["os", "--seconds", "1", "--out", "mine/os.out"], "there already"),
        (&["run", "--update-pct", "50", "--ledger", "mine/ledger"], "there already"),
        (&["run", "--out", "mine/ledger"], "in the place of a folder"),
        (&["sweep", "--sessions", "1,2", "--out", "a.html"], "in the place of a folder"),
        (&["sweep", "--sessions", "1,2", "--out", "mine"], "and no sweep"),
        (&["merge", "petal-run-2", "--out", "a.html"], ""),
        (&[&calibrate[..], &["--out", "a.html"]].concat(), "in the place of a folder"),
        (&[&calibrate[..], &["--calibrations", "a.html"]].concat(), "in the place of a folder"),
        (&["calibrate", "a.html", "--size", "16M"], "--destroy-data"),
        (&["prove", "--out", "a.html", "--db", "postgres://h/d"], "petal did not write it"),
    ];
    let is_tried = |command: &str, option: &str| {
        let option = if option == "--output" { "-o" } else { option };
        calls.iter().any(|(args, _)| args[0] == command && args.contains(&option))
    };
    let untried: Vec<_> = outputs(&work).into_iter().filter(|(a, b)| !is_tried(a, b)).collect();
    assert_eq!(untried, NEED_MORE.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let before: Vec<_> = contents(&work.path("")).into_iter().collect();
    let reports = ["report.txt", "report.html", "timeline.csv"];
    let kept = |path: &Path| {
        let is_report = reports.iter().any(|name| path.ends_with(name));
        !is_report || path.ends_with("mine/report.txt")
    };
    for (args, word) in calls {
        let ended = work.petal(args).ends();
        assert!(matches!(ended.code, Some(2 | 3)), "{args:?}: {:?}", ended.code);
        assert!(ended.stderr.contains(word), "{args:?}: {}", ended.stderr);
        let after = contents(&work.path(""));
        for (path, text) in before.iter().filter(|(path, _)| kept(path)) {
            assert!(after.get(path) == Some(text), "{args:?} changed {}", path.display());
        }
    }
}

#[test]
fn petals_own_files_are_overwritten() {
    let work = Workplace::new();
    run_in(&work, "petal-run-2");
    let awr = env!("CARGO_MANIFEST_DIR").to_owned() + "/tests/data/awr/awr_12c.txt";
    let calls: [&[&str]; 9] = [
        &["awr", "--petals", "petals.html", &awr],
        &["awr", "--petals", "petals.svg", &awr],
        &["awr", "--xlsx", "awr.xlsx", &awr],
        &["compare", "--html", "compare.html", "petal-run-2"],
        &["profile", &awr, "-o", "prof.json"],
        &["report", "petal-run-2", "--xlsx", "run.xlsx"],
        &["gallery", "petal-run-2", "--out", "gallery"],
        &["card", "petal-run-2", "--out", "card"],
        &["man", "--out", "man"],
    ];
    for args in calls {
        for _ in 0..2 {
            work.petal(args).exits(0);
        }
    }
    // A pipe takes what comes.
    let reader = "mkfifo pipe; cat pipe >got &";
    work.petal(["profile", &awr, "-o", "pipe"]).after(reader).exits(0);
    until("the reader has it", || {
        fs::read_to_string(work.path("got")).is_ok_and(|got| got.contains("petal-profile/1"))
    });
    assert!(names(&work.path("")).iter().all(|name| !name.contains(".tmp")));
}

/// As a terminal does after Ctrl-S.
#[test]
fn a_stderr_that_takes_nothing_keeps_no_run_from_its_end() {
    use std::io::Write as _;
    let work = Workplace::loaded(1, "8M");
    let (_reader, mut full) = std::io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&full, rustix::fs::OFlags::NONBLOCK).unwrap();
    while full.write(&[b'x'; 4096]).is_ok() {}
    while full.write(b"x").is_ok() {}
    rustix::fs::fcntl_setfl(&full, rustix::fs::OFlags::empty()).unwrap();
    let mut petal = std::process::Command::new(crate::support::PETAL);
    petal.args(["run", "--run-time", "2", "--json"]).current_dir(work.path("."));
    petal.env("NO_OS_PERF_DATA", "TRUE").stderr(full).stdout(std::process::Stdio::null());
    let mut petal = petal.spawn().unwrap();
    crate::support::until("the end of the run", || petal.try_wait().unwrap().is_some());
    assert!(petal.wait().unwrap().success());
    assert!(work.seconds().len() >= 2);
    assert_eq!(crate::support::record(&work.run_folder())["status"], "complete");
}
