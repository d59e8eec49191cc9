//! PASSWORD_COMMAND: a program that prints a password, such as a token that is valid for some minutes.
//! Nothing of its output is shown.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use petal_settings::trust;
use petal_settings::url::Secret;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::threads::{GROUP_MARK, Thread};

/// Only servers whose engine takes it have such a program.
const PARAMETER: &str = "PASSWORD_COMMAND";
/// Maximum time for the program.
const LIMIT: Duration = Duration::from_secs(30);
/// Connections that begin within this time have the same password. A token is valid for longer.
const FRESH: Duration = Duration::from_secs(60);
/// Maximum bytes that it may print; tokens have about 2,000.
const BYTES_MAX: u64 = 64 << 10;

/// Next step after a failure of the program.
pub const PASSWORD_HINT: &str =
    "call it by hand with these arguments; it must print the password as one line and exit with 0";

/// A program that prints the password of a user at a server.
#[derive(Debug)]
pub struct PasswordCommand {
    program: PathBuf,
    /// Host or socket, port, user.
    arguments: [String; 3],
    limit: Duration,
    printed: Arc<Mutex<PrintedPassword>>,
}

/// The last password, and when the program printed it.
type PrintedPassword = Option<(Instant, Secret)>;

/// A program with its arguments.
type PasswordCall = (PathBuf, [String; 3]);

/// Passwords of the process, by the call that printed them: each cell of a sweep connects again.
static PRINTED: Mutex<BTreeMap<PasswordCall, Arc<Mutex<PrintedPassword>>>> =
    Mutex::new(BTreeMap::new());

impl PasswordCommand {
    pub fn new(program: &Path, host: &str, port: u16, user: &str) -> Self {
        let arguments = [host.to_owned(), port.to_string(), user.to_owned()];
        let call = (program.to_owned(), arguments.clone());
        let printed = Arc::clone(PRINTED.lock().entry(call).or_default());
        Self { program: program.to_owned(), arguments, limit: LIMIT, printed }
    }

    /// Returns the password for a new connection. Callers wait while the program runs.
    pub fn password(&self) -> Result<Secret, String> {
        self.password_except(None)
    }

    /// Returns another password than one that the server refused, if the program prints one.
    fn another(&self, refused: &Secret) -> Option<Secret> {
        let another = self.password_except(Some(refused.expose())).ok();
        another.filter(|password| password.expose() != refused.expose())
    }

    fn password_except(&self, refused: Option<&str>) -> Result<Secret, String> {
        let mut printed = self.printed.lock();
        let is_usable = |(at, password): &&(Instant, Secret)| {
            at.elapsed() < FRESH && refused != Some(password.expose())
        };
        if let Some((_, password)) = printed.as_ref().filter(is_usable) {
            return Ok(password.clone());
        }
        *printed = None;
        let password = self.run().map_err(|why| {
            let arguments = self.arguments.join(" ");
            format!("{PARAMETER} {} {arguments}: {why}", self.program.display())
        })?;
        *printed = Some((Instant::now(), password.clone()));
        Ok(password)
    }

    /// Opens a connection with the password that the program prints. If the server refuses it and the
    /// program then prints another, opens it with that.
    pub fn open<T, E>(
        command: Option<&Self>,
        no_password: impl Fn(String) -> E,
        is_refused: impl Fn(&E) -> bool,
        open: impl Fn(Option<&Secret>) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(command) = command else { return open(None) };
        let password = command.password().map_err(no_password)?;
        let opened = open(Some(&password));
        let is_refused = opened.as_ref().is_err_and(is_refused);
        match is_refused.then(|| command.another(&password)).flatten() {
            Some(another) => open(Some(&another)),
            None => opened,
        }
    }

    fn run(&self) -> Result<Secret, String> {
        let mut child = Command::new(trust::script(&self.program)?)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .env(GROUP_MARK, PARAMETER)
            .spawn()
            .map_err(|error| format!("cannot be started: {error}"))?;
        let ended = self.output(&mut child);
        if ended.is_err() {
            // It has not been waited for, so that no other process has its number.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        match (ended?, status.success()) {
            (text, true) => one_line(text),
            (_, false) => Err(format!("ended with {status}")),
        }
    }

    /// Reads all that the program prints, on another thread: its children may keep the pipe open.
    fn output(&self, child: &mut Child) -> Result<String, String> {
        let pipe = child.stdout.take().ok_or("has no output")?;
        let (sender, receiver) = mpsc::channel();
        let read = move || {
            let mut text = String::new();
            let read: io::Result<usize> = pipe.take(BYTES_MAX).read_to_string(&mut text);
            let _ = sender.send(read.map(|_| text));
        };
        Thread::named("password").start(read).map_err(|error| error.to_string())?;
        match receiver.recv_timeout(self.limit) {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(_)) => Err("prints bytes that are no text".to_owned()),
            Err(_) => Err(format!("had not ended after {} s and was killed", self.limit.as_secs())),
        }
    }
}

fn one_line(text: String) -> Result<Secret, String> {
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err("prints nothing".to_owned());
    }
    if line.contains(|sign: char| sign.is_control()) {
        return Err("prints more than one line, or control characters".to_owned());
    }
    Ok(Secret::new(line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn command(folder: &Path, body: &str) -> PasswordCommand {
        let program = folder.join("password.sh");
        let text = format!("#!/bin/sh\necho asked >>{}/asked\n{body}\n", folder.display());
        // Not open for writing here: a child of another test would hold it, and it could not start.
        let write = "printf %s \"$1\" >\"$0\" && chmod 700 \"$0\"";
        let written = Command::new("sh").args(["-c", write]).arg(&program).arg(text).status();
        assert!(written.unwrap().success());
        PasswordCommand::new(&program, "db.example", 5432, "petal")
    }

    fn asked(folder: &Path) -> usize {
        fs::read_to_string(folder.join("asked")).unwrap().lines().count()
    }

    #[test]
    fn a_program_is_called_for_a_password_that_is_new_old_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let command = command(folder.path(), "echo \"$1:$2:$3 token\"");
        let password = || command.password().unwrap().expose().to_owned();
        assert_eq!(password(), "db.example:5432:petal token");
        password();
        assert_eq!(asked(folder.path()), 1);
        // A sweep's next cell, and another user.
        let next =
            |user| PasswordCommand::new(&command.program, "db.example", 5432, user).password();
        next("petal").unwrap();
        assert_eq!(asked(folder.path()), 1);
        assert_eq!(next("other").unwrap().expose(), "db.example:5432:other token");
        assert_eq!(asked(folder.path()), 2);
        command.printed.lock().as_mut().unwrap().0 -= FRESH;
        password();
        assert_eq!(asked(folder.path()), 3);
        let refused = command.password().unwrap();
        assert!(command.another(&refused).is_none(), "it prints the same");
        assert_eq!(asked(folder.path()), 4);
        let older = Secret::new("older".to_owned());
        assert_eq!(command.another(&older).unwrap().expose(), refused.expose());
        assert_eq!(asked(folder.path()), 4, "it has printed another already");
        assert!(!format!("{command:?}").contains("token"));
    }

    #[test]
    fn a_refused_password_is_asked_for_again_once() {
        let folder = tempfile::tempdir().unwrap();
        let command = command(folder.path(), "wc -l <${0%/*}/asked");
        let open = |right: &str| {
            let open = |password: Option<&Secret>| match password.unwrap().expose() {
                it if it == right => Ok(()),
                other => Err(other.to_owned()),
            };
            PasswordCommand::open(Some(&command), |why| why, |_| true, open)
        };
        assert_eq!(open("1"), Ok(()));
        assert_eq!(open("2"), Ok(()));
        assert_eq!(open("9"), Err("3".to_owned()));
    }

    #[test]
    fn a_failure_names_the_program_and_shows_nothing_that_it_printed() {
        let folder = tempfile::tempdir().unwrap();
        for (body, words) in [
            ("echo s3cret; echo s3cret >&2; exit 4", "ended with exit status: 4"),
            ("true", "prints nothing"),
            ("echo s3cret; echo s3cret", "prints more than one line"),
            ("printf 's3cret\\0'", "control characters"),
            ("printf 's3cret\\377'", "no text"),
        ] {
            let error = command(folder.path(), body).password().unwrap_err();
            assert!(error.contains(words), "{error}");
            assert!(error.contains("password.sh db.example 5432 petal: "), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        let limit = Duration::from_millis(200);
        let hangs = PasswordCommand { limit, ..command(folder.path(), "sleep 600 & sleep 600") };
        assert!(hangs.password().unwrap_err().contains("had not ended"));
    }
}
