//! The packages, taken apart and used as their user would.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::Workplace;

fn shell(folder: &Path, command: &str) -> String {
    let run = Command::new("sh").args(["-euc", command]).current_dir(folder).output().unwrap();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{command}: {errors}");
    String::from_utf8(run.stdout).unwrap()
}

/// Both packages of the program under test, without what only a debugger reads.
fn packages() -> Workplace {
    let work = Workplace::new();
    let (root, petal) = (env!("CARGO_MANIFEST_DIR"), env!("CARGO_BIN_EXE_petal"));
    shell(&work.path(""), &format!("strip -o petal {petal} && chmod 755 petal"));
    // Compressed little: a package that nobody sends.
    let fast = "DPKG_DEB_COMPRESSOR_TYPE=none GZIP=-1";
    let pack = format!("{fast} PETAL=$PWD/petal OUT=$PWD/out {root}/scripts/package.sh");
    shell(&work.path(""), &pack);
    work
}

/// What stands below `bin/` and `share/` of a package works.
fn check_installed(below: &Path, doc: &str) {
    let version = shell(below, "bin/petal --version");
    assert_eq!(version.trim(), concat!("petal ", env!("CARGO_PKG_VERSION")));
    let page = shell(below, "gzip -dc share/man/man1/petal-sweep.1.gz");
    assert!(page.starts_with(".ie") && page.contains(".SH NAME"), "{page}");
    let completions = "share/bash-completion/completions/petal";
    shell(below, &format!("bash -nc . {completions}"));
    let complete = format!(
        ". {completions}; COMP_WORDS=(petal swe); COMP_CWORD=1; _petal petal swe petal; \
         printf '%s\n' \"${{COMPREPLY[@]}}\""
    );
    let found = Command::new("bash").args(["-c", &complete]).current_dir(below).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout).trim(), "sweep");
    for shell_file in ["zsh/vendor-completions/_petal", "fish/vendor_completions.d/petal.fish"] {
        assert!(fs::metadata(below.join("share").join(shell_file)).unwrap().len() > 1000);
    }
    // The slob.conf that comes along changes nothing.
    let conf = below.join(doc).join("slob.conf");
    let run = format!("bin/petal run --conf {} --db sqlite:nowhere 2>&1 || true", conf.display());
    let reported = shell(below, &run);
    assert!(reported.contains("not loaded"), "{reported}");
}

#[test]
fn both_packages_hold_a_petal_that_runs_with_its_pages_and_completions() {
    let work = packages();
    let out = work.path("out");
    shell(&out, "mkdir tar deb && tar -C tar --strip-components=1 -xzf petal-*.tar.gz");
    check_installed(&out.join("tar"), ".");
    if !Path::new("/usr/bin/dpkg-deb").exists() {
        crate::support::skip("dpkg-deb is not here");
        return;
    }
    shell(&out, "dpkg-deb -x petal_*.deb deb");
    check_installed(&out.join("deb/usr"), "share/doc/petal");
    let control = shell(&out, "dpkg-deb -f petal_*.deb Version Depends");
    assert!(control.starts_with(concat!("Version: ", env!("CARGO_PKG_VERSION"))), "{control}");
    assert!(control.contains("libc6 (>= 2."), "{control}");
    let owners = shell(&out, "dpkg-deb -c petal_*.deb | cut -d' ' -f2 | sort -u");
    assert_eq!(owners.trim(), "root/root");
}
