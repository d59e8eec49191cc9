//! Somebody else's file takes the place of petal's right after any of its opens: only the file that was
//! opened first changes, and the other one stays, whole. A library that the loader puts before the
//! system's does it (`path_swap.c`).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::support::{Workplace, run, skip};

/// The library, made for this test.
fn library(work: &Workplace) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/path_swap.c");
    let made = work.path("path_swap.so");
    let args = ["-shared", "-fPIC", "-O1", "-o", made.to_str()?, source.to_str()?, "-ldl"];
    match run("cc", &args) {
        Ok(()) => Some(made),
        Err(why) => {
            skip(&format!("no C compiler: {why}"));
            None
        }
    }
}

/// A command that opens the file `name`, which is there before if it `is_loaded`.
struct Case {
    args: &'static [&'static str],
    name: &'static str,
    is_loaded: bool,
}

const URL: &str = "device:petal.dat?log=1M";
const CASES: [Case; 5] = [
    Case { args: &["setup", "--db", URL, "--scale", "8M"], name: "petal.dat", is_loaded: false },
    Case { args: &["drop", "--db", URL], name: "petal.dat", is_loaded: true },
    Case {
        args: &["calibrate", "petal.dat", "--size", "16M", "--seconds", "1", "--depths", "1"],
        name: "petal.dat",
        is_loaded: false,
    },
    Case {
        args: &["setup", "--replace", "--db", URL, "--scale", "8M"],
        name: "petal.dat",
        is_loaded: true,
    },
    Case {
        args: &["setup", "--db", "sqlite:data", "--scale", "8M"],
        name: "data/petal1.db.loading",
        is_loaded: false,
    },
];

#[test]
fn only_the_file_that_was_opened_first_changes() {
    let library_place = Workplace::new();
    let Some(library) = library(&library_place) else { return };
    // The short form tries the first opens of a load and a drop.
    let is_long = std::env::var_os("PETAL_TEST_LONG").is_some();
    let (cases, opens) = if is_long { (&CASES[..], 100) } else { (&CASES[..2], 4) };
    for case in cases {
        let mut swaps = 0;
        for at in 1..=opens {
            let work = Workplace::new();
            if case.is_loaded {
                work.petal(CASES[0].args).exits(0);
            }
            let victim = work.write("victim", "somebody's own text\n".repeat(100_000));
            let (before, inode) =
                (fs::read(&victim).unwrap(), fs::metadata(&victim).unwrap().ino());
            let ended = work
                .petal(case.args)
                .env("LD_PRELOAD", &library)
                .env("SWAP_PATH", case.name)
                .env("SWAP_AT", at.to_string())
                .env("SWAP_VICTIM", "victim")
                .ends();
            if victim.exists() {
                break; // It was not opened so often.
            }
            swaps += 1;
            let place = work.path(case.name);
            let args = case.args;
            assert!(fs::read(&place).is_ok_and(|now| now == before), "{args:?}, open {at}");
            assert_eq!(fs::metadata(&place).unwrap().ino(), inode, "{args:?}, open {at}");
            assert!(ended.code.is_some(), "{args:?}, open {at}: {}", ended.stderr);
        }
        assert!(swaps >= 3, "{:?} was opened {swaps} times", case.args);
    }
}
