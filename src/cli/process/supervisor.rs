//! The first process of a command on a target. It touches no storage, so that it can always end: a
//! process whose threads hang in the kernel cannot, and keeps the shell that waits for it. It hands
//! signals on, ends as the worker ends, and leaves a worker behind that hangs.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGBUS, SIGCHLD, SIGINT, SIGKILL};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use super::handover::Handover;
use super::this_program;
use crate::cli::failure::Exit;
use crate::cli::live::terminal::SavedTerminal;
use crate::cli::signals;
use petal_engine::threads::Thread;
use petal_host::blocked::{BlockedThread, BlockedThreads, name_and_state};
use petal_host::files;
use petal_run::secrets::HANDOVER;

/// Interval between looks at the worker.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Patience after the first signal: the worker ends by itself in 20 to 24 s (`runner::run`), or hangs.
const SIGNAL_LIMIT: Duration = Duration::from_secs(25);
/// A thread that has waited for storage so long hangs.
const WAIT_LIMIT: Duration = Duration::from_secs(10);
/// A worker that is over, but for threads in the kernel, gets so long to be gone.
const ENDED_LIMIT: Duration = Duration::from_secs(2);
/// Writing the last message may take so long, on a terminal that takes no output.
const MESSAGE_LIMIT: Duration = Duration::from_secs(1);

const ENDED_AT_ONCE: &str = "petal: ended at once. Its record is complete up to the data in its folder \
    (petal report FOLDER); data may be half loaded or half dropped; petal restore-settings puts back \
    the settings that a sweep changed";

const SIGBUS_WORDS: &str = "petal: its process was ended by SIGBUS: a file that it maps into memory, as \
    LMDB's, could not be read or was cut; see the kernel's log (dmesg). The record is complete up to \
    the data in its folder (petal report FOLDER)";

/// Starts the worker and waits for its end; None if it cannot be started.
pub fn supervise(arguments: &[OsString], shown: &[OsString]) -> Option<ExitCode> {
    let heard = receive_signals()?;
    let (orders, into) = io::pipe().ok()?;
    let handover = Handover::of(arguments).ok()?;
    // A worker that is killed cannot leave its full screen.
    let is_live = arguments.iter().any(|argument| argument == "--live");
    let terminal = is_live.then(|| SavedTerminal::of_process().ok()).flatten();
    let worker = this_program(shown).env(HANDOVER, handover.for_worker(&orders)).spawn().ok()?;
    // The worker opens both by this process's descriptors.
    let _open = (handover, orders);
    Some(
        Supervisor {
            worker,
            into,
            signalled: None,
            ends_at_signal: false,
            over: None,
            blocked: None,
            terminal,
        }
        .wait(&heard),
    )
}

/// The signals of this process from now on.
fn receive_signals() -> Option<Receiver<i32>> {
    let (sender, heard) = channel();
    let mut signals = Signals::new([signals::asking().as_slice(), &[SIGCHLD]].concat()).ok()?;
    let forward_all = move || {
        for signal in signals.forever() {
            if sender.send(signal).is_err() {
                return;
            }
        }
    };
    Thread::named("signals").start(forward_all).ok()?;
    Some(heard)
}

struct Supervisor {
    worker: Child,
    /// Each signal as one byte.
    into: PipeWriter,
    /// The first signal.
    signalled: Option<Instant>,
    /// A further signal ends the worker at once, as a message says.
    ends_at_signal: bool,
    /// The moment at which the worker was first seen to be over and not gone.
    over: Option<Instant>,
    /// The worker's threads, from the first signal on.
    blocked: Option<BlockedThreads>,
    /// The terminal of a worker with a full screen, as it was before.
    terminal: Option<SavedTerminal>,
}

impl Supervisor {
    fn wait(mut self, heard: &Receiver<i32>) -> ExitCode {
        loop {
            match heard.recv_timeout(LOOK_EVERY) {
                Ok(SIGCHLD) | Err(RecvTimeoutError::Timeout) => {}
                Ok(_) if self.ends_at_signal => return self.end_worker(ENDED_AT_ONCE.to_owned()),
                Ok(signal) => self.hand_on(signal),
                // Nothing is heard any more, and the worker still works.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_EVERY),
            }
            match self.worker.try_wait() {
                Ok(Some(status)) => {
                    self.terminal
                        .iter()
                        .filter(|_| status.code().is_none())
                        .for_each(SavedTerminal::restore);
                    return ended(status);
                }
                Ok(None) => {}
                Err(error) => {
                    let pid = self.worker.id();
                    say(format!("petal: its process {pid} cannot be waited for: {error}"));
                    let _ = self.worker.kill();
                    return Exit::Failed.into();
                }
            }
            if let Some(exit) = self.look(Instant::now()) {
                return exit;
            }
        }
    }

    fn hand_on(&mut self, signal: i32) {
        self.signalled.get_or_insert_with(Instant::now);
        // A worker that is gone needs none.
        let _ = self.into.write_all(&[signal as u8]);
    }

    /// Leaves a worker that hangs.
    fn look(&mut self, now: Instant) -> Option<ExitCode> {
        let pid = self.worker.id();
        let end = end_of(pid);
        if let Some(code) = end {
            let since = *self.over.get_or_insert(now);
            if now.duration_since(since) < ENDED_LIMIT {
                return None;
            }
            let left = BlockedThreads::of(pid).look(now).into_iter().map(|(thread, _)| thread);
            say(left_behind(pid, left));
            // The worker's own exit code, but a success of a hanging worker is no success.
            let code = ExitStatus::from_raw(code).code().and_then(|code| u8::try_from(code).ok());
            return Some(
                code.filter(|code| *code != 0).map_or(Exit::Failed.into(), ExitCode::from),
            );
        }
        let signalled = self.signalled?;
        let threads = self.blocked.get_or_insert_with(|| BlockedThreads::of(pid)).look(now);
        let hanging: Vec<_> =
            threads.into_iter().filter(|(_, waited)| *waited >= WAIT_LIMIT).collect();
        if now.duration_since(signalled) < SIGNAL_LIMIT {
            return None;
        }
        if hanging.is_empty() {
            if !std::mem::replace(&mut self.ends_at_signal, true) {
                say(format!(
                    "petal: its work has not ended {} s after the signal; another signal ends it at \
                     once",
                    SIGNAL_LIMIT.as_secs()
                ));
            }
            return None;
        }
        Some(self.end_worker(hangs(now.duration_since(signalled), &hanging)))
    }

    fn end_worker(&mut self, message: String) -> ExitCode {
        self.terminal.iter().for_each(SavedTerminal::restore);
        say(message);
        let _ = self.worker.kill();
        Exit::Failed.into()
    }
}

/// The status of a process that is over and cannot be waited for yet, because some of its threads
/// hang; None of one that is not over.
fn end_of(pid: u32) -> Option<i32> {
    let stat = files::system_text(format!("/proc/{pid}/stat")).ok()?;
    let (_, state) = name_and_state(&stat)?;
    let status = || stat.split_ascii_whitespace().next_back()?.parse().ok();
    (state == 'Z').then(|| status().unwrap_or(0))
}

fn left_behind(pid: u32, threads: impl Iterator<Item = BlockedThread>) -> String {
    let threads: Vec<_> = threads.map(|thread| format!("\n       {thread}")).collect();
    format!(
        "petal: process {pid} has ended but for threads that hang in the kernel; it is left behind, \
         and gone when their storage answers:{}",
        threads.concat()
    )
}

fn hangs(since_signal: Duration, threads: &[(BlockedThread, Duration)]) -> String {
    let threads: Vec<_> = threads
        .iter()
        .map(|(thread, waited)| format!("\n       {thread}, for at least {} s", waited.as_secs()))
        .collect();
    format!(
        "petal: its work has not ended {} s after the signal, because storage does not answer; petal \
         leaves it behind. Its record is complete up to the data in its folder (petal report \
         FOLDER); data may be half loaded or half dropped. Hanging threads:{}",
        since_signal.as_secs(),
        threads.concat()
    )
}

/// Writes to stderr, if that takes no longer than a moment.
fn say(message: String) {
    let (done, written) = channel();
    let write = move || {
        let _ = writeln!(io::stderr(), "{message}");
        let _ = done.send(());
    };
    if Thread::named("message").start(write).is_ok() {
        let _ = written.recv_timeout(MESSAGE_LIMIT);
    }
}

/// Ends as the worker did: by its code, or by the signal that ended it.
fn ended(status: ExitStatus) -> ExitCode {
    if let Some(code) = status.code() {
        return u8::try_from(code).map_or(Exit::Failed.into(), ExitCode::from);
    }
    let signal = status.signal().unwrap_or(SIGINT);
    match signal {
        SIGKILL => {
            say("petal: its process was killed (SIGKILL), as the kernel does when memory ends"
                .to_owned());
        }
        SIGBUS => say(SIGBUS_WORDS.to_owned()),
        _ => {}
    }
    if emulate_default_handler(signal).is_err() {
        let name = signal_name(signal).unwrap_or("a signal");
        say(format!("petal: its process was ended by {name}"));
    }
    Exit::Failed.into()
}
