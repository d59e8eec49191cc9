//! Secrets on the command line: everybody who may list processes could read them there, so petal
//! overwrites them in its own argument memory as soon as it has read them. Linux shows that
//! memory as /proc/PID/cmdline.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use super::table::{PARAMETERS, ValueKind};
use super::url::{TargetUrl, redact_refused};

/// Overwrites the secrets among `args`, which must be the process's own arguments from the first
/// on. True if there were some and none can be read any more; call it only after the arguments
/// were read, because a later reader sees `***`.
pub fn hide_secrets(args: &[OsString]) -> bool {
    let redacted = redacted(args);
    redacted.iter().any(Option::is_some) && overwrite(args, &redacted).is_ok()
}

/// `text` as it may be shown: secrets of the arguments that it quotes are overwritten.
pub fn without_secrets(text: &str, args: &[OsString]) -> String {
    let mut shown = text.to_owned();
    for (arg, instead) in args.iter().zip(redacted(args)) {
        let Some(instead) = instead else { continue };
        let arg = arg.to_string_lossy();
        shown = shown.replace(&*arg, &instead);
        // clap quotes the value of `--flag=value` without the flag.
        if arg.starts_with("--")
            && let Some((_, value)) = arg.split_once('=')
            && let Some((_, instead)) = instead.split_once('=')
        {
            shown = shown.replace(value, instead);
        }
    }
    shown
}

/// For each argument what may stand there instead where it holds a secret in clear (a URL with a
/// password, or a secret's flag with a value other than `@FILE`); None where it may stay.
fn redacted(args: &[OsString]) -> Vec<Option<String>> {
    let mut follows = None;
    args.iter()
        .map(|arg| {
            let text = arg.to_string_lossy();
            if let Some(kind) = follows.take() {
                return redacted_value(kind, &text, true);
            }
            let name = text.strip_prefix("--").unwrap_or_default();
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (name, None),
            };
            let hidden = PARAMETERS
                .iter()
                .filter(|parameter| matches!(parameter.kind, ValueKind::Secret | ValueKind::Url))
                .find(|parameter| parameter.flag() == name);
            match (hidden, value) {
                (Some(parameter), Some(value)) => redacted_value(parameter.kind, value, true)
                    .map(|instead| format!("--{name}={instead}")),
                (Some(parameter), None) => {
                    follows = Some(parameter.kind);
                    None
                }
                // A URL may also stand alone, or after a flag of a command's own.
                (None, _) => redacted_value(ValueKind::Url, &text, false),
            }
        })
        .collect()
}

/// `is_meant`: the text stands where such a value does; else it may be anything.
fn redacted_value(kind: ValueKind, text: &str, is_meant: bool) -> Option<String> {
    if kind == ValueKind::Secret {
        let is_file = text.starts_with('@') && !text.starts_with("@@");
        return (!is_file && !text.is_empty()).then(|| "***".to_owned());
    }
    let looks_secret = is_meant || looks_like_login(text);
    match TargetUrl::parse(text) {
        Ok(url) => url.password.is_some().then(|| url.redacted()),
        Err(_) => looks_secret.then(|| redact_refused(text)),
    }
}

/// True when an argument that may be anything looks like a URL, or other connection text, with a
/// password.
fn looks_like_login(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let scheme = lower.split(':').next().filter(|scheme| scheme.len() < lower.len());
    let is_server = scheme.is_some_and(|scheme| redact_refused(scheme) != "***");
    text.contains('@') && (is_server || text.contains("://"))
        || ["password=", "passwd=", "pwd="].iter().any(|word| lower.contains(word))
}

fn overwrite(args: &[OsString], redacted: &[Option<String>]) -> io::Result<()> {
    let (start, end) = argument_memory(&fs::read_to_string("/proc/self/stat")?)
        .ok_or_else(|| io::Error::other("/proc/self/stat names no argument memory"))?;
    let memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
    let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
    memory.read_exact_at(&mut bytes, start)?;
    let mut offset = 0;
    for (arg, instead) in args.iter().zip(redacted) {
        let length = arg.as_bytes().len();
        let there = bytes.get(offset..offset + length);
        if there != Some(arg.as_bytes()) || bytes.get(offset + length) != Some(&0) {
            return Err(io::Error::other("argument memory does not hold the arguments"));
        }
        if let Some(instead) = instead {
            let mut text = instead.clone().into_bytes();
            text.resize(length, 0);
            memory.write_all_at(&text, start + offset as u64)?;
        }
        offset += length + 1;
    }
    Ok(())
}

/// Fields 48 and 49 of /proc/PID/stat, arg_start and arg_end. The second field is a name in
/// brackets that may hold anything, so fields are counted from its end.
fn argument_memory(stat: &str) -> Option<(u64, u64)> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_ascii_whitespace().skip(48 - 3);
    let start = fields.next()?.parse().ok()?;
    let end = fields.next()?.parse().ok()?;
    (start < end).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn instead(args: &[&str]) -> Vec<Option<String>> {
        redacted(&args.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn carries_secret(args: &[OsString]) -> bool {
        redacted(args).iter().any(Option::is_some)
    }

    #[test]
    fn quoted_arguments_are_shown_without_their_secrets() {
        let args =
            ["petal", "--db=postgres://u:pw@h/d", "oracle://u:tiger@h/s"].map(OsString::from);
        let text = "no '--db=postgres://u:pw@h/d', 'postgres://u:pw@h/d' or 'oracle://u:tiger@h/s'";
        let shown = without_secrets(text, &args);
        assert!(!shown.contains("pw") && !shown.contains("tiger"), "{shown}");
        assert!(shown.contains("postgres://u@h/d"), "{shown}");
    }

    #[test]
    fn secrets_are_found_wherever_they_stand() {
        assert_eq!(
            instead(&[
                "petal",
                "--db",
                "postgres://u:pw@h/d",
                "--sysdba-passwd",
                "tiger",
                "-t",
                "4"
            ]),
            [None, None, some("postgres://u@h/d"), None, some("***"), None, None]
        );
        assert_eq!(
            instead(&["--sysdba-passwd=tiger", "--db=mysql://h/d?password=pw"]),
            [some("--sysdba-passwd=***"), some("--db=mysql://h/d")]
        );
        assert_eq!(instead(&["oracle://u:pw@h/s"]), [some("oracle://u@h/s")]);
        assert_eq!(instead(&["--db", "postgres://u:pw@h:x"]), [None, some("postgres:***")]);
    }

    #[test]
    fn what_is_no_secret_stays() {
        for args in [
            &["petal", "run", "--db", "sqlite:data"][..],
            &["--db", "postgres://u@h/d"],
            &["--sysdba-passwd", "@/etc/passwd.txt"],
            &["--sysdba-passwd", ""],
            &["report", "a:b@c"],
        ] {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            assert!(!carries_secret(&args), "{args:?}");
            assert!(!hide_secrets(&args), "{args:?}");
        }
    }

    #[test]
    fn a_secret_that_begins_with_a_doubled_at_is_one() {
        assert_eq!(instead(&["--sysdba-passwd", "@@x"]), [None, some("***")]);
    }

    #[test]
    fn arguments_that_are_not_the_process_s_own_are_not_written_over() {
        let args = [OsString::from("petal"), OsString::from("postgres://u:pw@h/d")];
        assert!(carries_secret(&args));
        assert!(!hide_secrets(&args));
    }

    #[test]
    fn a_process_name_with_brackets_does_not_shift_fields() {
        let fields: Vec<String> = (4..=52).map(|field| (field * 10).to_string()).collect();
        let stat = format!("1 (a) b (c) S {}", fields.join(" "));
        assert_eq!(argument_memory(&stat), Some((480, 490)));
        assert_eq!(argument_memory("1 (a) S 2 3"), None);
    }

    /// Needs a process of its own, because what it writes over cannot be brought back: the test
    /// calls itself with secrets among the arguments, which the test harness takes for filters.
    #[test]
    fn other_processes_no_longer_see_the_secret() {
        const CHILD: &str = "PETAL_TEST_ARGV_CHILD";
        let url = "postgres://u:TIGER@host/d";
        if std::env::var_os(CHILD).is_some() {
            let args: Vec<OsString> = std::env::args_os().collect();
            let before = fs::read("/proc/self/cmdline").unwrap();
            assert!(before.windows(5).any(|word| word == b"TIGER"));
            assert!(carries_secret(&args));
            assert!(hide_secrets(&args));
            let after = String::from_utf8(fs::read("/proc/self/cmdline").unwrap()).unwrap();
            assert!(!after.contains("TIGER"), "{after:?}");
            assert!(after.contains("\0postgres://u@host/d\0"), "{after:?}");
            assert!(after.contains("\0--nocapture\0"), "{after:?}");
            writeln!(io::stdout(), "hidden: {}", after.replace('\0', " ")).unwrap();
            return;
        }
        let name = "settings::argv::tests::other_processes_no_longer_see_the_secret";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, url, "--nocapture", "mysql://u:TIGER@h/d"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
        assert!(printed.contains("hidden: "), "the child did not run: {printed}");
    }
}
