//! `--live` and `petal attach`: work as it happens, on the whole terminal. A separate thread
//! reads the folder that the work fills and draws it; the work waits for neither.

#[allow(dead_code, reason = "a browser's page needs more of it than a terminal")]
pub mod follow;
mod picture;
pub mod stop;
pub mod terminal;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches};
use parking_lot::Mutex;
use petal_engine::threads::Thread;

use super::args::flag;
use super::console::PlainPhase;
use super::failure::{CommandError, Exit};
use super::launch;
use super::stderr::Queued;
use follow::LiveState;
use picture::{LiveView, draw};

/// Interval between looks at the keys.
const KEYS_EVERY: Duration = Duration::from_millis(100);
/// Interval between looks at the folder.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Messages that are kept until the screen is left.
const MESSAGES_MAX: usize = 1000;
/// Messages that the screen may show.
const MESSAGES_SHOWN: usize = 50;

/// Adds `--live`.
pub fn arg() -> Arg {
    flag("live", "Show the work on the whole terminal as it happens; q goes back to lines")
}

/// Begins a full screen if the command was asked to.
pub fn of(matches: &ArgMatches, command: &str) -> Result<Option<Live>, CommandError> {
    if !matches!(matches.try_get_one::<bool>("live"), Ok(Some(true))) {
        return Ok(None);
    }
    if launch::is_launched() {
        return Err(CommandError::usage(
            "--live: an MPI launcher started petal, and its ranks have no terminal; leave it out, \
             and watch from another terminal: petal attach DIR",
        ));
    }
    check_terminal("--live")?;
    Ok(Some(Live(Arc::new(LiveShared {
        title: format!("petal {command}"),
        state: Mutex::default(),
    }))))
}

/// Refuses a full screen if there is no terminal for it.
fn check_terminal(what: &str) -> Result<(), CommandError> {
    let refused = |why: String| {
        let next = "run it in a terminal, in its foreground; without one, petal shows lines of \
                    progress, and --metrics serves them";
        CommandError::new(Exit::Usage, format!("{what}: {why}; {next}"))
    };
    terminal::SavedTerminal::of_process().map(drop).map_err(refused)
}

/// The full screen of a command that works.
#[derive(Clone)]
pub struct Live(Arc<LiveShared>);

struct LiveShared {
    title: String,
    state: Mutex<ScreenState>,
}

#[derive(Default)]
struct ScreenState {
    /// The terminal is a screen.
    is_on: bool,
    /// The thread that draws is running.
    has_thread: bool,
    /// The user went back to lines.
    is_left: bool,
    /// The folder that the work fills, once there is one.
    folder: Option<PathBuf>,
    phase: Option<PlainPhase>,
    /// Messages since the screen was entered.
    messages: VecDeque<String>,
    stderr: Option<Queued>,
}

impl Live {
    /// True while messages must not be written to the terminal.
    pub fn is_on(&self) -> bool {
        self.0.state.lock().is_on
    }

    /// Enters the screen, unless the user left it. Messages are written to `stderr` afterwards.
    pub fn begin(&self, stderr: &Queued) {
        let mut state = self.0.state.lock();
        if state.is_on || state.is_left {
            return;
        }
        state.stderr = Some(stderr.clone());
        state.is_on = terminal::enter().is_ok();
        if state.is_on && !state.has_thread {
            let shared = Arc::clone(&self.0);
            state.has_thread = Thread::named("screen").start(move || shared.follow()).is_ok();
            if !state.has_thread {
                (state.is_on, state.is_left) = (false, true);
                terminal::leave();
            }
        }
    }

    /// Shows the record in this folder from now on.
    pub fn follow(&self, folder: &Path) {
        self.0.state.lock().folder = Some(folder.to_owned());
    }

    pub fn phase(&self, phase: Option<PlainPhase>) {
        self.0.state.lock().phase = phase;
    }

    pub fn advance(&self, units: u64) {
        if let Some(phase) = &mut self.0.state.lock().phase {
            phase.done += units;
        }
    }

    /// Keeps a message until the screen is left; false if there is no screen.
    pub fn keep(&self, message: &str) -> bool {
        let mut state = self.0.state.lock();
        if state.is_on {
            state.messages.push_back(message.to_owned());
            let past = state.messages.len().saturating_sub(MESSAGES_MAX);
            state.messages.drain(..past);
        }
        state.is_on
    }

    /// Leaves the screen: a result follows.
    pub fn end(&self) {
        self.0.state.lock().leave();
    }
}

impl ScreenState {
    fn leave(&mut self) {
        if std::mem::take(&mut self.is_on) {
            terminal::leave();
        }
        let messages = self.messages.drain(..);
        if let Some(stderr) = &self.stderr {
            messages.for_each(|message| stderr.lines(message));
        }
    }
}

impl LiveShared {
    /// Draws until the user leaves.
    fn follow(&self) {
        let mut screen = FolderScreen::new(&self.title);
        loop {
            std::thread::sleep(KEYS_EVERY);
            let (folder, phase, messages) = {
                let state = self.state.lock();
                if state.is_left {
                    return;
                }
                if !state.is_on {
                    continue;
                }
                let newest = state.messages.iter().rev().take(MESSAGES_SHOWN).rev();
                let phase = state.phase.as_ref().map(PlainPhase::words);
                let newest = newest.map(|message| message.trim_end().to_owned());
                (state.folder.clone(), phase, newest.collect::<Vec<_>>())
            };
            let keys = "q back to lines   s stop the work cleanly (as Ctrl-C)";
            match screen.step(folder.as_deref(), phase, &messages, keys) {
                ScreenStep::On => {}
                ScreenStep::Leave => {
                    let mut state = self.state.lock();
                    state.is_left = true;
                    state.leave();
                    return;
                }
                ScreenStep::Stop => stop::this_petal(),
            }
        }
    }
}

/// Result of a look at the keys.
enum ScreenStep {
    On,
    Leave,
    Stop,
}

/// The screen of one folder after the other.
struct FolderScreen {
    title: String,
    state: Option<LiveState>,
    folder: Option<PathBuf>,
    read: Option<Instant>,
    /// `s` was pressed, and the next key decides.
    asks: bool,
    /// The reason why the folder cannot be read.
    unread: Option<String>,
}

impl FolderScreen {
    fn new(title: &str) -> Self {
        let title = title.to_owned();
        Self { title, state: None, folder: None, read: None, asks: false, unread: None }
    }

    /// Obeys the keys, reads the folder and draws it.
    fn step(
        &mut self,
        folder: Option<&Path>,
        phase: Option<String>,
        messages: &[String],
        keys: &str,
    ) -> ScreenStep {
        let Some(pressed) = terminal::keys() else { return ScreenStep::Leave };
        let step = self.obey(&pressed);
        let is_due = self.read.is_none_or(|read| read.elapsed() >= READ_EVERY);
        if !is_due && pressed.is_empty() {
            return step;
        }
        if is_due {
            self.read(folder);
            self.read = Some(Instant::now());
        }
        let asked = "stop the work? s stops it cleanly, any other key does not";
        let keys = if self.asks { asked } else { keys };
        let mut messages = messages.to_vec();
        messages.extend(self.unread.clone());
        let view = LiveView {
            title: &self.title,
            state: self.state.as_ref(),
            phase,
            messages: &messages,
            keys,
        };
        if let Some(size) = terminal::size() {
            terminal::show(&draw(&view, size), size);
        }
        step
    }

    fn obey(&mut self, pressed: &[u8]) -> ScreenStep {
        for key in pressed.iter().copied() {
            match (std::mem::take(&mut self.asks), key) {
                (true, b's') => return ScreenStep::Stop,
                (false, b's') => self.asks = true,
                (_, b'q') => return ScreenStep::Leave,
                _ => {}
            }
        }
        ScreenStep::On
    }

    fn read(&mut self, folder: Option<&Path>) {
        if self.folder.as_deref() != folder {
            (self.folder, self.state) = (folder.map(Path::to_owned), None);
        }
        let Some(folder) = folder else { return };
        let read = match &mut self.state {
            Some(state) => state.refresh(),
            None => LiveState::open(folder).map(|state| self.state = Some(state)),
        };
        self.unread = read.err().map(|error| error.to_string());
    }
}

/// Follows the work in a folder until it ends or the user leaves. True if it has ended.
pub fn attach(dir: &Path, interrupted: &dyn Fn() -> bool) -> Result<bool, CommandError> {
    let mut state = LiveState::open(dir)?;
    state.refresh()?;
    if state.is_over() {
        return Err(CommandError::new(
            Exit::Environment,
            format!("{}: no petal is at work there; petal report shows its record", dir.display()),
        ));
    }
    check_terminal("petal attach")?;
    let entered = terminal::enter();
    entered.map_err(|why| CommandError::new(Exit::Environment, format!("petal attach: {why}")))?;
    let ended = attached(dir, interrupted);
    terminal::leave();
    Ok(ended)
}

fn attached(dir: &Path, interrupted: &dyn Fn() -> bool) -> bool {
    let mut screen = FolderScreen::new("petal attach");
    let mut messages = Vec::new();
    let keys = "q leave, and the work goes on   s stop the work cleanly (as Ctrl-C there)";
    loop {
        if interrupted() {
            return false;
        }
        match screen.step(Some(dir), None, &messages, keys) {
            ScreenStep::On => {}
            ScreenStep::Leave => return false,
            ScreenStep::Stop => messages.push(match stop::holder(dir) {
                Ok(()) => {
                    "asked to stop: the last operations end, and the record is written".into()
                }
                Err(why) => why,
            }),
        }
        if screen.state.as_ref().is_some_and(LiveState::is_over) {
            return true;
        }
        std::thread::sleep(KEYS_EVERY);
    }
}
