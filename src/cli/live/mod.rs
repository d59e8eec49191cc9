//! `--live` and `petal attach`: work as it happens, on the whole terminal or in a browser. Separate threads
//! read the folder that the work fills and show it; the work waits for none of them. It is public: a build
//! without `WORK_SERVERS` has no unused code either.

pub mod follow;
pub mod picture;
pub mod stop;
pub mod terminal;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches};
use parking_lot::Mutex;
use petal_engine::threads::Thread;
use petal_run::Watch;

use super::WORK_SERVERS;
use super::args::value;
use super::failure::{CommandError, Exit};
use super::plain_phase::PlainPhase;
use super::ranks;
use super::record_folders::is_record;
use super::stderr::Queued;
use follow::{FolderReader, LiveState, is_at_work};
use picture::{LiveView, draw};

/// Interval between looks at the keys.
const KEYS_EVERY: Duration = Duration::from_millis(100);
/// Interval between looks at the folder.
pub const READ_EVERY: Duration = Duration::from_secs(1);
/// Messages that are kept until the screen is left.
const MESSAGES_MAX: usize = 1000;
/// Messages that the screen may show.
const MESSAGES_SHOWN: usize = 50;
/// Messages that a browser's page shows.
const MESSAGES_BROWSER: usize = 3;

/// A server of the work's page and of its metrics.
pub struct WorkServer {
    /// Arguments next to `--live`.
    pub args: fn() -> Arg,
    pub metrics_arg: fn() -> Arg,
    /// Begins to serve the work that the title names: its page at this address, its metrics at the one of
    /// `--metrics`.
    pub begin: fn(&ArgMatches, &str, Option<SocketAddr>) -> Result<Observers, CommandError>,
}

/// Adds `--live`, and the arguments of its server.
pub fn args() -> impl Iterator<Item = Arg> {
    let live = value(
        "live",
        "ADDRESS",
        "Show the work on the whole terminal as it happens; q goes back to lines. With a port of this \
         host, or an address with a port, in a browser instead: --live=8080",
    )
    .num_args(0..=1)
    .require_equals(true)
    .default_missing_value("")
    .value_parser(|text: &str| match text {
        "" => Ok(LivePlace(None)),
        text => address(text).map(|address| LivePlace(Some(address))),
    });
    std::iter::once(live).chain(WORK_SERVERS.iter().map(|server| (server.args)()))
}

/// Adds `--metrics` for commands that run or load.
pub fn metrics_arg() -> impl Iterator<Item = Arg> {
    WORK_SERVERS.iter().map(|server| (server.metrics_arg)())
}

/// A port alone is one of this host's.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().ok().map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    port.or_else(|| text.parse().ok()).ok_or_else(|| {
        "must be a port, or an address with a port, such as 127.0.0.1:9464 or [::1]:9464".to_owned()
    })
}

/// Address of the page where work is shown; None of the terminal.
#[derive(Clone, Copy)]
struct LivePlace(Option<SocketAddr>);

/// Observers of a command's work, as it was asked for.
#[derive(Default)]
pub struct Observers {
    pub watch: Option<Arc<dyn Watch + Send>>,
    pub live: Option<Live>,
    /// Lines for the user: the URL of the browser's page.
    pub notes: Vec<String>,
}

/// Begins to show the work and to serve its metrics, if the command was asked to.
pub fn of(matches: &ArgMatches, command: &str) -> Result<Observers, CommandError> {
    // Only some commands have it.
    let place = matches.try_get_one::<LivePlace>("live").ok().flatten().copied();
    let title = format!("petal {command}");
    if let Some(LivePlace(None)) = place {
        check_launch()?;
        check_terminal("--live")?;
    }
    let mut observers = match (WORK_SERVERS.first(), place.and_then(|LivePlace(place)| place)) {
        // Of several ranks, which may be on one host, the first one serves the sum of all.
        (Some(server), address) if ranks::is_first() => (server.begin)(matches, &title, address)?,
        (None, Some(address)) => {
            let why = "this build has no pages for browsers: leave the address out";
            return Err(CommandError::usage(format!("--live={address}: {why}")));
        }
        _ => Observers::default(),
    };
    if let Some(LivePlace(None)) = place {
        observers.live = Some(Live::on_terminal(title));
    }
    Ok(observers)
}

/// Refuses a full screen of ranks.
fn check_launch() -> Result<(), CommandError> {
    match ranks::is_launched() {
        false => Ok(()),
        true => Err(CommandError::usage(
            "--live: an MPI launcher started petal, and its ranks have no terminal; leave it out, \
             and watch from another terminal: petal attach DIR",
        )),
    }
}

/// Refuses a full screen if there is no terminal for it.
fn check_terminal(what: &str) -> Result<(), CommandError> {
    let refused = |why: String| {
        let next = "run it in a terminal, in its foreground; or watch it in a browser: --live=8080";
        CommandError::new(Exit::Usage, format!("{what}: {why}; {next}"))
    };
    terminal::SavedTerminal::of_process().map(drop).map_err(refused)
}

/// A command that works, as a screen or browsers show it.
#[derive(Clone)]
pub struct Live {
    shared: Arc<LiveShared>,
    /// Browsers that follow, in place of the screen.
    browsers: Option<Arc<dyn Browsers>>,
}

/// Browsers that follow the work.
pub trait Browsers: Send + Sync {
    /// Returns when they have the result, or take too long.
    fn end(&self);
}

/// Work as it is now.
#[derive(Debug, Clone, Default)]
pub struct WorkSeen {
    pub title: String,
    /// The folder that the work fills, once there is one.
    pub folder: Option<PathBuf>,
    pub phase: Option<String>,
    pub messages: Vec<String>,
    /// True if no petal works any more; None if the folder's lock shows it.
    pub is_over: Option<bool>,
}

/// A look at the work.
pub type LookAtWork = Box<dyn Fn() -> WorkSeen + Send + Sync>;

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
    /// The command has done its work.
    is_over: bool,
    /// The folder that the work fills, once there is one.
    folder: Option<PathBuf>,
    phase: Option<PlainPhase>,
    /// The text before every line of progress: the cell of a sweep, the slot of a neighbour.
    heading: String,
    /// Messages since the screen was entered.
    messages: VecDeque<String>,
    stderr: Option<Queued>,
}

impl Live {
    fn on_terminal(title: String) -> Self {
        Self { shared: LiveShared::new(title), browsers: None }
    }

    /// Work for browsers, which look at it.
    pub fn in_browsers<B: Browsers + 'static>(
        title: String,
        follow: impl FnOnce(LookAtWork) -> Arc<B>,
    ) -> (Self, Arc<B>) {
        let shared = LiveShared::new(title);
        let seen = Arc::clone(&shared);
        let browsers = follow(Box::new(move || seen.work(MESSAGES_BROWSER)));
        (Self { shared, browsers: Some(Arc::<B>::clone(&browsers)) }, browsers)
    }

    /// True while messages must not be written to the terminal.
    pub fn is_on(&self) -> bool {
        self.shared.state.lock().is_on
    }

    /// Enters the screen, unless the user left it. Messages are written to `stderr` afterwards.
    pub fn begin(&self, stderr: &Queued) {
        let mut state = self.shared.state.lock();
        if state.is_on || state.is_left || self.browsers.is_some() {
            return;
        }
        state.stderr = Some(stderr.clone());
        state.is_on = terminal::enter().is_ok();
        if state.is_on && !state.has_thread {
            let shared = Arc::clone(&self.shared);
            state.has_thread = Thread::named("screen").start(move || shared.follow()).is_ok();
            if !state.has_thread {
                (state.is_on, state.is_left) = (false, true);
                terminal::leave();
            }
        }
    }

    /// Shows the record in this folder from now on.
    pub fn follow(&self, folder: &Path) {
        self.shared.state.lock().folder = Some(folder.to_owned());
    }

    pub fn phase(&self, phase: Option<PlainPhase>) {
        self.shared.state.lock().phase = phase;
    }

    pub fn heading(&self, heading: &str) {
        self.shared.state.lock().heading = heading.trim_end_matches(", ").to_owned();
    }

    pub fn advance(&self, units: u64) {
        if let Some(phase) = &mut self.shared.state.lock().phase {
            phase.done += units;
        }
    }

    /// Keeps a message until the screen is left; false if there is no screen.
    pub fn keep(&self, message: &str) -> bool {
        let mut state = self.shared.state.lock();
        if state.is_on || self.browsers.is_some() {
            state.messages.push_back(message.to_owned());
            let past = state.messages.len().saturating_sub(MESSAGES_MAX);
            state.messages.drain(..past);
        }
        state.is_on
    }

    /// Leaves the screen: a result follows.
    pub fn end(&self) {
        self.shared.state.lock().leave();
    }

    /// Shows browsers the result: the command has done its work.
    pub fn finish(&self) {
        self.shared.state.lock().is_over = true;
        self.browsers.iter().for_each(|browsers| browsers.end());
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
    fn new(title: String) -> Arc<Self> {
        Arc::new(Self { title, state: Mutex::default() })
    }

    /// The work as it is now, with the newest messages.
    fn work(&self, messages: usize) -> WorkSeen {
        let state = self.state.lock();
        let newest = state.messages.iter().rev().take(messages).rev();
        // A message for a terminal is broken at its width.
        let whole = |message: &String| message.split_whitespace().collect::<Vec<_>>().join(" ");
        let phase = state.phase.as_ref().map(PlainPhase::words);
        WorkSeen {
            title: self.title.clone(),
            folder: state.folder.clone(),
            phase: phase.or_else(|| Some(state.heading.clone()).filter(|text| !text.is_empty())),
            messages: newest.map(whole).collect(),
            is_over: Some(state.is_over),
        }
    }

    /// Draws until the user leaves.
    fn follow(&self) {
        let mut screen = FolderScreen::new(&self.title);
        loop {
            std::thread::sleep(KEYS_EVERY);
            {
                let state = self.state.lock();
                if state.is_left {
                    return;
                }
                if !state.is_on {
                    continue;
                }
            }
            let WorkSeen { folder, phase, messages, .. } = self.work(MESSAGES_SHOWN);
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
    reader: FolderReader,
    read: Option<Instant>,
    /// `s` was pressed, and the next key decides.
    asks: bool,
}

impl FolderScreen {
    fn new(title: &str) -> Self {
        let title = title.to_owned();
        Self { title, reader: FolderReader::default(), read: None, asks: false }
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
            self.reader.read(folder);
            self.read = Some(Instant::now());
        }
        let asked = "stop the work? s stops it cleanly, any other key does not";
        let keys = if self.asks { asked } else { keys };
        let mut messages = messages.to_vec();
        messages.extend(self.reader.unread.clone());
        let view = LiveView {
            title: &self.title,
            state: self.reader.state.as_ref(),
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
}

/// Follows the work in a folder until it ends or the user leaves. True if it has ended.
pub fn attach(dir: &Path, interrupted: &dyn Fn() -> bool) -> Result<bool, CommandError> {
    if !is_at_work(dir) {
        let next = match is_record(dir) {
            true => "; petal report shows its record",
            false => {
                ", and it holds no record; name a folder in petal-results. A load has no such folder: \
                 watch it with petal setup --live"
            }
        };
        let place = dir.display();
        return Err(CommandError::new(
            Exit::Environment,
            format!("{place}: nothing is running there{next}"),
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
        let state = screen.reader.state.as_ref();
        if state.map_or_else(|| !is_at_work(dir), LiveState::is_over) {
            return true;
        }
        std::thread::sleep(KEYS_EVERY);
    }
}
