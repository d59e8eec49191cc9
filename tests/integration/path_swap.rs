//! Somebody else's file takes the place of petal's right after any of its opens: only the file that was
//! opened first changes, and the other one stays, whole. A library that the loader puts before the
//! system's does it (`path_swap.c`).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::support::{Workplace, is_long, run, skip};

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
const CASES: [Case; 12] = [
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
    Case {
        args: &["run", "--db", URL, "--work-loop", "20", "--update-pct", "100", "-t", "2"],
        name: "petal.dat",
        is_loaded: true,
    },
    Case {
        args: &["setup", "--db", "redb:data", "--scale", "8M"],
        name: "data/petal1.redb.loading",
        is_loaded: false,
    },
    Case {
        args: &["setup", "--db", "lmdb:data", "--scale", "8M"],
        name: "data/petal1.lmdb.loading",
        is_loaded: false,
    },
    Case { args: &["drop", "--db", "sqlite:data"], name: "data/petal1.db", is_loaded: true },
    Case { args: &["drop", "--db", "redb:data"], name: "data/petal1.redb", is_loaded: true },
    Case { args: &["drop", "--db", "lmdb:data"], name: "data/petal1.lmdb", is_loaded: true },
    Case {
        args: &["run", "--db", "sqlite:data", "--work-loop", "20", "--update-pct", "100"],
        name: "data/petal1.db",
        is_loaded: true,
    },
];

impl Case {
    /// The command's target.
    fn url(&self) -> &'static str {
        let named = self.args.iter().position(|arg| *arg == "--db");
        named.map_or(URL, |at| self.args[at + 1])
    }

    /// The file as petal loads it.
    fn copy(&self, work: &Workplace) -> Vec<u8> {
        if self.is_loaded {
            return fs::read(work.path(self.name)).unwrap();
        }
        let other = Workplace::new();
        other.petal(["setup", "--scale", "8M", "--db", self.url()]).exits(0);
        fs::read(other.path(self.name.trim_end_matches(".loading"))).unwrap()
    }

    /// Executes the command, and swaps another file in at the open number `at`. Returns false if
    /// there are fewer opens.
    fn is_swapped(&self, library: &Path, at: usize, victim: Victim) -> bool {
        let work = Workplace::new();
        if self.is_loaded {
            work.petal(["setup", "--scale", "8M", "--db", self.url()]).exits(0);
        }
        let text = match victim {
            Victim::Text => "somebody's own text\n".repeat(100_000).into_bytes(),
            Victim::Copy => self.copy(&work),
        };
        let path = work.write("victim", text);
        let (before, inode) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino());
        let ended = work
            .petal(self.args)
            .env("LD_PRELOAD", library)
            .env("SWAP_PATH", self.name)
            .env("SWAP_AT", at.to_string())
            .env("SWAP_VICTIM", "victim")
            .ends();
        if path.exists() {
            return false;
        }
        let (place, args) = (work.path(self.name), self.args);
        let is_whole = fs::read(&place).is_ok_and(|now| now == before);
        assert!(is_whole, "{args:?}, open {at}, {victim:?}: {}", ended.stderr);
        assert_eq!(fs::metadata(&place).unwrap().ino(), inode, "{args:?}, open {at}, {victim:?}");
        assert!(ended.code.is_some(), "{args:?}, open {at}, {victim:?}: {}", ended.stderr);
        true
    }
}

/// The file that takes the place of petal's.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Text,
    /// Data of petal's own, with the same marks as the target's.
    Copy,
}

#[test]
fn only_the_file_that_was_opened_first_changes() {
    let library_place = Workplace::new();
    let Some(library) = library(&library_place) else { return };
    // The short form tries the first opens of a load and a drop.
    let is_long = is_long();
    let (cases, opens) = if is_long { (&CASES[..], 100) } else { (&CASES[..2], 4) };
    for case in cases {
        for victim in [Victim::Text, Victim::Copy] {
            let swaps = (1..=opens).take_while(|&at| case.is_swapped(&library, at, victim)).count();
            assert!(swaps > 0, "{:?} was never swapped", case.args);
        }
    }
}
