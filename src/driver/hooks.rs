//! EXTERNAL_SCRIPT: called with `pre` before the trigger, with `post` right after the last session
//! ended, with `end` when all files are written; waited for, within a limit; must exit 0.
//!
//! What it prints is kept in the run's folder; lines `name=value unit` enter the record.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::record::{HookCall, HookValue};
use crate::settings::read::secret_variables;

const POLL: Duration = Duration::from_millis(20);
/// More than this of a script's output is not searched for values.
const VALUES_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error(
        "EXTERNAL_SCRIPT {script} could not be started for `{moment}`: {source}; make it executable, with a first line such as #!/bin/sh"
    )]
    Start { script: PathBuf, moment: String, source: io::Error },
    #[error(
        "EXTERNAL_SCRIPT {script} ended with {how} at `{moment}`, not with 0; what it printed is in {output}"
    )]
    Failed { script: PathBuf, moment: String, how: String, output: PathBuf },
    #[error("EXTERNAL_SCRIPT {script} had not ended {} s after `{moment}` and was killed; what it printed is in {output}", limit.as_secs())]
    Overdue { script: PathBuf, moment: String, limit: Duration, output: PathBuf },
}

/// Calls the script and waits for it. It sees the run's folder as PETAL_RUN_DIR and none of
/// petal's secrets.
pub fn call(
    script: &Path,
    moment: &str,
    folder: &Path,
    limit: Duration,
) -> Result<HookCall, HookError> {
    let began = Instant::now();
    let name = format!("hook-{moment}.log");
    let output = folder.join(&name);
    let mut child = start(script, moment, folder, &output).map_err(|source| HookError::Start {
        script: script.into(),
        moment: moment.into(),
        source,
    })?;
    let Some(status) = wait(&mut child, began + limit) else {
        kill_group(&mut child);
        return Err(HookError::Overdue {
            script: script.into(),
            moment: moment.into(),
            limit,
            output,
        });
    };
    if !status.success() {
        let (script, moment) = (script.into(), moment.into());
        return Err(HookError::Failed { script, moment, how: words(status), output });
    }
    Ok(HookCall {
        moment: moment.to_owned(),
        exit_code: status.code(),
        seconds: began.elapsed().as_secs_f64(),
        output: name,
        values: values(&output),
    })
}

fn start(script: &Path, moment: &str, folder: &Path, output: &Path) -> io::Result<Child> {
    let log = File::create(output)?;
    let mut command = Command::new(fs::canonicalize(script)?);
    command
        .arg(moment)
        .env("PETAL_RUN_DIR", folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_secret(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.spawn()
}

fn is_secret(variable: &str) -> bool {
    let name = variable.to_ascii_uppercase();
    secret_variables().contains(&name)
        || ["PASSWORD", "PASSWD", "SECRET", "TOKEN"].iter().any(|word| name.contains(word))
}

/// The status, or None at the deadline.
fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// The script and what it started: they share a process group.
fn kill_group(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        // It may have ended meanwhile.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

/// The lines `name=value unit` of a file; the unit may be missing. Others are not for petal.
fn values(output: &Path) -> Vec<HookValue> {
    use std::io::Read as _;
    let mut text = Vec::new();
    let read =
        File::open(output).and_then(|file| file.take(VALUES_BYTES_MAX).read_to_end(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    String::from_utf8_lossy(&text).lines().filter_map(value).collect()
}

fn value(line: &str) -> Option<HookValue> {
    let (name, rest) = line.trim().split_once('=')?;
    let mut words = rest.split_whitespace();
    let value: f64 = words.next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
    let unit = words.collect::<Vec<_>>().join(" ");
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!name.is_empty() && name.chars().all(is_word)).then(|| HookValue {
        name: name.to_owned(),
        value,
        unit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let result = call(&script, "pre", folder.path(), limit);
        (folder, result)
    }

    const LIMIT: Duration = Duration::from_secs(20);

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
    fn a_failing_script_is_told_with_its_code_and_output() {
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
    fn a_script_that_cannot_be_run_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = call(&folder.path().join("none"), "pre", folder.path(), LIMIT).unwrap_err();
        assert!(error.to_string().contains("could not be started"), "{error}");
    }

    #[test]
    fn secrets_do_not_reach_the_script() {
        for name in ["SYSDBA_PASSWD", "PETAL_SYSDBA_PASSWD", "PGPASSWORD", "DB", "MY_TOKEN"] {
            assert!(is_secret(name), "{name}");
        }
        assert!(!is_secret("PATH") && !is_secret("UPDATE_PCT"));
    }
}
