//! Questions of a reader, each answered by the first screen of one command. Those on a change of the
//! world are in `facts`, on the array or the host in `waterfall`, on written bytes and on events in the
//! unit tests of petal-report's brief.

use crate::support::Workplace;

/// The first lines, which are on the screen before anybody scrolls, as one line.
pub fn first_screen(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().take(lines).flat_map(str::split_whitespace).collect();
    all.join(" ")
}

/// Which storage is faster, may I quote this rate, what do I type next, how long will it take: with
/// data that the page cache serves, the answer is that this is no storage test.
#[test]
fn data_in_the_page_cache_answer_no_question_about_storage() {
    let work = Workplace::new();
    for url in ["sqlite:old", "sqlite:new"] {
        work.petal(["setup", "-s", "1", "--scale", "8M", "--db", url]).exits(0);
    }
    let cached = ["--update-pct", "0", "--direct-io", "FALSE", "--run-time", "1"];
    let run =
        work.petal([&["run", "--db", "sqlite:old"], &cached[..]].concat()).watching().exits(0);
    let shown = first_screen(&run.stdout, 6);
    assert!(shown.contains(" report not a storage test ("), "{shown}");
    assert!(shown.contains("| no result: PIOPS "), "the rate may not be quoted: {shown}");
    let next = shown.split(" next petal run ").nth(1);
    assert!(next.is_some_and(|next| next.contains("--direct-io true")), "{shown}");

    let targets = ["--db", "old=sqlite:old", "--db", "new=sqlite:new", "--sessions", "1"];
    let sweep = [&["sweep", "--out", "both"], &targets[..], &cached[..]].concat();
    let planned = work.petal([&sweep[..], &["--dry-run"]].concat()).exits(0).stdout;
    let time = planned.lines().find(|line| line.starts_with("time ")).unwrap_or_default();
    assert!(time.contains("2 s of runs; "), "{planned}");
    let swept = work.petal(sweep).watching().exits(0).stdout;
    let shown = first_screen(&swept, 6);
    assert!(shown.to_lowercase().contains("not a storage test"), "no winner: {shown}");
    let compared = work.petal(["compare", "both"]).exits(0).stdout;
    let shown = first_screen(&compared, 6);
    assert!(
        shown.contains("comparison Not a storage test: a cache served the reads of every"),
        "{shown}"
    );
    assert!(shown.contains(" next petal run "), "{shown}");
}

/// Does the nightly job pass, if the new side does nothing?
#[test]
fn a_new_side_without_any_io_fails_the_nightly_job() {
    let work = Workplace::new();
    work.write("old.csv", "piops\n100\n101\n99\n");
    work.write("new.csv", "piops\n0\n0\n0\n");
    let compare = ["compare", "old.csv", "new.csv", "--fail-if", "piops < -5%"];
    let shown = first_screen(&work.petal(compare).exits(1).stdout, 10);
    assert!(shown.contains("FAILED piops < -5%"), "{shown}");
}
