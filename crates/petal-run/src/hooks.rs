//! EXTERNAL_SCRIPT: called with `pre` before the trigger, with `post` right after the last session
//! ended, with `end` when all files are written. petal waits for it, within a limit; it must exit
//! 0.
//!
//! The script's output is kept in the run's folder; lines `name=value unit` enter the record. It runs in the
//! run's [`HookGroup`], so that a timeout also ends its child processes. Processes of a script that
//! exits 0 (such as a monitor, to be ended at `post`) continue until the run's end.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::hook_group::HookGroup;
use super::secrets;
use petal_record::{HookCall, HookValue, RecordFolder};
use petal_settings::printable::printable_line;
use petal_settings::trust;

const POLL: Duration = Duration::from_millis(20);
/// Maximum wait for a script that was just written and may still be open somewhere.
const BUSY_LIMIT: Duration = Duration::from_secs(1);
/// Maximum bytes of a script's output that are searched for values, and kept.
const VALUES_BYTES_MAX: u64 = 64 << 20;
const VALUES_MAX: usize = 1000;
/// Maximum length of a line with a value.
const LINE_BYTES_MAX: usize = 1000;

/// Reason why a script failed, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Overdue(String),
    #[error("{0}")]
    Interrupted(String),
}

/// Rules for waiting for a script.
pub struct Waiting<'a> {
    pub limit: Duration,
    /// Time after which a running script is named, once.
    pub named_after: Duration,
    /// Function that returns true after a signal to stop.
    pub give_up: &'a dyn Fn() -> bool,
    /// Function that shows a note about a slow script.
    pub note: &'a dyn Fn(&str),
}

/// Calls the script in this group and waits for it. The script sees the run's folder as
/// PETAL_RUN_DIR and none of petal's secrets.
pub fn call(
    script: &Path,
    moment: &str,
    folder: &RecordFolder,
    group: &HookGroup,
    waiting: &Waiting<'_>,
) -> Result<HookCall, HookError> {
    let began = Instant::now();
    let Waiting { limit, named_after, give_up, .. } = *waiting;
    let name = format!("hook-{moment}.log");
    let started = start(script, moment, folder, &name, group);
    let shown = script.display();
    let printed = format!("its output is in {}", folder.path().join(&name).display());
    let mut child = started.map_err(|error| {
        HookError::Failed(format!(
            "EXTERNAL_SCRIPT {shown} could not be started for `{moment}`: {error}; make it \
             executable, with a first line such as #!/bin/sh"
        ))
    })?;
    let long = takes_long(script, moment, named_after, limit);
    let status = wait(&mut child, began, waiting, &long).map_err(|error| {
        let what = "could not be waited for at";
        HookError::Failed(format!("EXTERNAL_SCRIPT {shown} {what} `{moment}`: {error}"))
    })?;
    let Some(status) = status else {
        group.end();
        let _ = child.wait();
        return Err(if give_up() {
            HookError::Interrupted(format!(
                "EXTERNAL_SCRIPT {shown} was ended at `{moment}` by a signal to petal; {printed}"
            ))
        } else {
            HookError::Overdue(format!(
                "EXTERNAL_SCRIPT {shown} had not ended {} s after `{moment}` and was killed; \
                 {printed}",
                limit.as_secs()
            ))
        });
    };
    if !status.success() {
        return Err(HookError::Failed(format!(
            "EXTERNAL_SCRIPT {shown} ended with {} at `{moment}`, not with 0; {printed}",
            words(status)
        )));
    }
    let (values, unread) = values(folder, &name);
    if !unread.is_empty() {
        let lines: Vec<_> = unread.iter().map(|line| printable_line(line)).collect();
        (waiting.note)(&format!(
            "EXTERNAL_SCRIPT {shown}, {name}: the value of {} is not known: write name=value unit, \
             such as array_busy=12.5 percent",
            lines.join("; ")
        ));
    }
    Ok(HookCall {
        moment: moment.to_owned(),
        exit_code: status.code(),
        seconds: began.elapsed().as_secs_f64(),
        values,
        output: name,
    })
}

fn takes_long(script: &Path, moment: &str, named_after: Duration, limit: Duration) -> String {
    let what_waits = match moment {
        "pre" => "the run starts when it ends; start a monitor in the background (COMMAND &)",
        _ => "petal goes on when it ends",
    };
    format!(
        "EXTERNAL_SCRIPT {} has not ended {} s after `{moment}`: {what_waits}; after {} s it is \
         killed",
        script.display(),
        named_after.as_secs(),
        limit.as_secs()
    )
}

fn start(
    script: &Path,
    moment: &str,
    folder: &RecordFolder,
    output: &str,
    group: &HookGroup,
) -> io::Result<Child> {
    if let Some(moved) = folder.moved_words() {
        return Err(io::Error::other(moved));
    }
    let log = folder.create_anew(output)?;
    let mut command = Command::new(trust::script(script).map_err(io::Error::other)?);
    command
        .arg(moment)
        .env("PETAL_RUN_DIR", std::path::absolute(folder.path())?)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    group.take(&mut command)?;
    secrets::remove_from(&mut command);
    let began = Instant::now();
    loop {
        match command.spawn() {
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy
                    && began.elapsed() < BUSY_LIMIT =>
            {
                thread::sleep(POLL);
            }
            outcome => return outcome,
        }
    }
}

/// Returns the status, or `None` at the limit or on a signal. For a slow script, it shows `long`.
fn wait(
    child: &mut Child,
    began: Instant,
    waiting: &Waiting<'_>,
    long: &str,
) -> io::Result<Option<ExitStatus>> {
    let mut is_named = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() >= waiting.limit || (waiting.give_up)() {
            return Ok(None);
        }
        if began.elapsed() >= waiting.named_after && !is_named {
            is_named = true;
            (waiting.note)(long);
        }
        thread::sleep(POLL);
    }
}

pub(crate) fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

/// Reads the lines `name=value unit` of a file; the unit may be missing. Also returns the lines whose value
/// is meant as a number and cannot be read. Other lines are ignored.
fn values(folder: &RecordFolder, output: &str) -> (Vec<HookValue>, Vec<String>) {
    let file = folder.opened().and_then(|folder| folder.read(output.as_ref()));
    let Ok(file) = file else { return Default::default() };
    let lines = BufReader::new(file.take(VALUES_BYTES_MAX)).split(b'\n').map_while(Result::ok);
    let short = lines.filter(|line| line.len() <= LINE_BYTES_MAX);
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    let found = short.filter_map(|line| value(&String::from_utf8_lossy(&line)));
    for value in found.take(VALUES_MAX) {
        match value {
            Ok(value) => read.push(value),
            Err(line) => unread.push(line),
        }
    }
    (read, unread)
}

/// Reads a line with a value; None for another line. The error is a line whose number is not known.
fn value(line: &str) -> Option<Result<HookValue, String>> {
    let line = line.trim();
    let (name, rest) = line.split_once('=')?;
    let (name, rest) = (name.trim(), rest.trim());
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(is_word) {
        return None;
    }
    let end = rest.find(|c: char| !is_of_number(c)).unwrap_or(rest.len());
    let first = rest.split_whitespace().next().unwrap_or("");
    // Names of numbers, and numbers in a form such as 1e3.
    let is_named = first.parse::<f64>().is_ok();
    let (number, unit) = if is_named { rest.split_at(first.len()) } else { rest.split_at(end) };
    if !is_named && !number.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let is_digit = |c: char| c.is_ascii_digit();
    // Digits go on after a space or after the letters of 0x10.
    let is_cut = unit.split_once(char::is_whitespace).map_or(unit, |(at_once, _)| at_once);
    let is_cut = is_cut.contains(is_digit) || unit.trim_start().starts_with(is_digit);
    let unit = unit.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_unit = !is_cut && !unit.starts_with(|c: char| c.is_ascii_punctuation() && c != '%');
    Some(match hook_number(number).filter(|_| is_unit) {
        Some(value) => Ok(HookValue { name: name.to_owned(), value, unit }),
        None => Err(line.to_owned()),
    })
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '.' | ',' | '+' | '-')
}

/// Reads a number with a decimal point or comma. One of several kinds of separators is the last one's;
/// a single comma before three digits may be either, and is not known.
fn hook_number(text: &str) -> Option<f64> {
    let (commas, points) = (text.matches(',').count(), text.matches('.').count());
    let is_grouped = |separator: char| {
        let mut groups = text.rsplit([',', '.']).map(str::len);
        let last = text.rfind(separator).map_or(0, |at| text.len() - at - 1);
        last > 0 && groups.nth(1).is_some_and(|length| length == 3)
    };
    let plain = match (commas, points) {
        (0, _) => text.to_owned(),
        (1, 0) if text.rsplit(',').next().is_some_and(|digits| digits.len() != 3) => {
            text.replace(',', ".")
        }
        (1, _) if text.rfind(',') > text.rfind('.') && is_grouped(',') => {
            text.replace('.', "").replace(',', ".")
        }
        (_, 1) if text.rfind('.') > text.rfind(',') && is_grouped('.') => text.replace(',', ""),
        _ => return None,
    };
    plain.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt as _;

    fn script(folder: &Path, body: &str) -> PathBuf {
        let path = folder.join("hook.sh");
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn call_script(
        body: &str,
        limit: Duration,
    ) -> (tempfile::TempDir, Result<HookCall, HookError>) {
        let folder = tempfile::tempdir().unwrap();
        let script = script(folder.path(), body);
        let waiting = Waiting { limit, ..WAITING };
        let result = call(
            &script,
            "pre",
            &RecordFolder::open(folder.path()),
            &HookGroup::default(),
            &waiting,
        );
        (folder, result)
    }

    const LIMIT: Duration = Duration::from_secs(20);
    const WAITING: Waiting<'_> =
        Waiting { limit: LIMIT, named_after: LIMIT, give_up: &|| false, note: &|_| {} };

    #[test]
    fn a_script_that_takes_long_is_named_once_with_what_waits_for_it() {
        for (moment, what_waits) in
            [("pre", "start a monitor in the background"), ("post", "goes on")]
        {
            let folder = tempfile::tempdir().unwrap();
            // It continues after petal has named it, and gives petal time to do so again.
            let script =
                script(folder.path(), "while [ ! -e $PETAL_RUN_DIR/named ]; do :; done; sleep 1");
            let named = Cell::new(0);
            let note = |line: &str| {
                assert!(line.contains(what_waits) && line.contains("hook.sh"), "{line}");
                assert!(line.contains(&format!("not ended 0 s after `{moment}`")), "{line}");
                named.set(named.get() + 1);
                fs::write(folder.path().join("named"), "").unwrap();
            };
            let waiting = Waiting { named_after: Duration::ZERO, note: &note, ..WAITING };
            let called = call(
                &script,
                moment,
                &RecordFolder::open(folder.path()),
                &HookGroup::default(),
                &waiting,
            );
            assert_eq!((called.map(|call| call.exit_code).ok(), named.get()), (Some(Some(0)), 1));
        }
    }

    #[test]
    fn the_output_is_not_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join("hook-pre.log")).unwrap();
        let script = script(folder.path(), "echo said");
        call(&script, "pre", &RecordFolder::open(folder.path()), &HookGroup::default(), &WAITING)
            .unwrap();
        assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
        assert_eq!(fs::read_to_string(folder.path().join("hook-pre.log")).unwrap(), "said\n");
    }

    #[test]
    fn values_enter_the_record_and_output_is_kept() {
        let body =
            "echo at $1 in $PETAL_RUN_DIR\necho array_cpu=42.5 %\necho used=7\necho 'bad value=x'";
        let (folder, call) = call_script(body, LIMIT);
        let call = call.unwrap();
        let value = |name: &str, value, unit: &str| HookValue {
            name: name.into(),
            value,
            unit: unit.into(),
        };
        assert_eq!(call.values, [value("array_cpu", 42.5, "%"), value("used", 7.0, "")]);
        let kept = fs::read_to_string(folder.path().join(&call.output)).unwrap();
        assert!(kept.starts_with(&format!("at pre in {}", folder.path().display())), "{kept}");
    }

    #[test]
    fn figures_of_a_hook_with_a_decimal_comma_are_read_or_their_line_is_named() {
        let read = |line: &str| {
            let value = value(line).map(|read| read.map(|it| (it.value, it.unit)).ok());
            value.map(|read| read.map(|(value, unit)| format!("{value} {unit}")))
        };
        for (line, expected) in [
            ("array_busy=12,5 percent", "12.5 percent"),
            ("array_mb=1.234,5 MB", "1234.5 MB"),
            ("array_mb=1,234.5 MB", "1234.5 MB"),
            ("array_mb=1.234.567,5 MB", "1234567.5 MB"),
            ("cache_hit=98,7%", "98.7 %"),
            ("spaced = 4 ms", "4 ms"),
            ("crlf=3 ms\r\n", "3 ms"),
            ("L\u{c4}NGE=1 m", "1 m"),
            ("sci=1e3 us", "1000 us"),
            ("low=-0,25", "-0.25 "),
            ("size=7GB", "7 GB"),
        ] {
            assert_eq!(read(line), Some(Some(expected.to_owned())), "{line}");
        }
        for unread in [
            "inf=inf us",
            "nan=nan us",
            "n=1,234 IOPS",
            "n=1,2,3",
            "n=1.2.3",
            "n=10:20",
            "n=1 234,5",
            "n=0x10",
        ] {
            assert_eq!(read(unread), Some(None), "{unread}");
        }
        for other in ["bad value=1", "PATH=/usr/bin", "=3", "plain", "mode=-x"] {
            assert_eq!(read(other), None, "{other}");
        }
        let folder = tempfile::tempdir().unwrap();
        let script = script(folder.path(), "echo n=1,234 IOPS; echo busy=12,5 %; echo q=1.234,5,6");
        let named = Cell::new(0);
        let note = |line: &str| {
            let both = "the value of n=1,234 IOPS; q=1.234,5,6 is not known";
            assert!(line.contains(both), "{line}");
            named.set(named.get() + 1);
        };
        let folder = RecordFolder::open(folder.path());
        let waiting = Waiting { note: &note, ..WAITING };
        let called = call(&script, "post", &folder, &HookGroup::default(), &waiting).unwrap();
        assert_eq!((called.values.len(), called.values[0].value, named.get()), (1, 12.5, 1));
    }

    #[test]
    fn a_failing_script_is_reported_with_its_code_and_output() {
        let (_folder, call) = call_script("echo no; exit 3", LIMIT);
        let text = call.unwrap_err().to_string();
        assert!(text.contains("exit code 3") && text.contains("hook-pre.log"), "{text}");
    }

    #[test]
    fn a_script_that_hangs_is_killed_with_what_it_started() {
        let began = Instant::now();
        let (folder, call) = call_script("sleep 600 & echo $!; wait", Duration::from_millis(300));
        assert!(matches!(call, Err(HookError::Overdue { .. })));
        assert!(began.elapsed() < LIMIT);
        let pid = fs::read_to_string(folder.path().join("hook-pre.log")).unwrap();
        let gone = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        assert!(
            (0..100).any(|_| gone() || {
                thread::sleep(POLL);
                false
            }),
            "{pid} lives"
        );
    }

    #[test]
    fn a_script_is_abandoned_after_a_signal_to_stop() {
        let folder = tempfile::tempdir().unwrap();
        let script = script(folder.path(), "sleep 600");
        let began = Instant::now();
        let give_up = || began.elapsed() > Duration::from_millis(200);
        let waiting = Waiting { give_up: &give_up, ..WAITING };
        let ended = call(
            &script,
            "post",
            &RecordFolder::open(folder.path()),
            &HookGroup::default(),
            &waiting,
        );
        assert!(matches!(ended, Err(HookError::Interrupted { .. })), "{ended:?}");
        assert!(began.elapsed() < LIMIT);
    }

    #[test]
    fn a_script_that_cannot_be_run_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let waiting = WAITING;
        let (script, group) = (folder.path().join("none"), HookGroup::default());
        let error =
            call(&script, "pre", &RecordFolder::open(folder.path()), &group, &waiting).unwrap_err();
        assert!(error.to_string().contains("could not be started"), "{error}");
    }

    #[test]
    fn a_script_may_clean_up_when_its_time_is_over() {
        let body = "trap 'echo cleaned; exit 0' TERM\nsleep 600 & wait";
        let (folder, call) = call_script(body, Duration::from_millis(500));
        assert!(matches!(call, Err(HookError::Overdue { .. })));
        let kept = fs::read_to_string(folder.path().join("hook-pre.log")).unwrap();
        assert_eq!(kept, "cleaned\n");
    }

    #[test]
    fn a_script_that_a_signal_ended_is_reported() {
        let (_folder, call) = call_script("kill -9 $$", LIMIT);
        assert!(call.unwrap_err().to_string().contains("signal 9"));
    }

    #[test]
    fn values_are_found_behind_large_output() {
        let body = "dd if=/dev/zero bs=1M count=3 2>/dev/null | tr '\\0' x; echo\n\
                    i=0; while [ $i -lt 20000 ]; do echo \"line $i of nothing\"; i=$((i+1)); done\n\
                    echo used=7 GiB";
        let (folder, call) = call_script(body, LIMIT);
        let call = call.unwrap();
        let used = HookValue { name: "used".into(), value: 7.0, unit: "GiB".into() };
        assert_eq!(call.values, [used]);
        assert!(fs::metadata(folder.path().join(&call.output)).unwrap().len() > 3 << 20);
    }

    #[test]
    fn petal_does_not_wait_for_processes_left_by_a_script() {
        let began = Instant::now();
        let (_folder, call) = call_script("sleep 600 & exit 0", LIMIT);
        assert!(call.is_ok() && began.elapsed() < LIMIT);
    }
}
