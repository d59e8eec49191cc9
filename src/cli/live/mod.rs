//! `--live` and `petal attach`: work as it happens, on the whole terminal or in a browser. Separate threads
//! read the folder that the work fills and show it; the work waits for none of them.

pub mod feed;
pub mod follow;
mod picture;
mod server;
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

use super::args::value;
use super::failure::{CommandError, Exit};
use super::gate;
use super::metrics::{self, Metrics};
use super::plain_phase::PlainPhase;
use super::ranks;
use super::record_folders::is_record;
use super::stderr::Queued;
use feed::{LiveFeed, WorkSeen};
use follow::{FolderReader, LiveState, is_at_work};
use picture::{LiveView, draw};
use server::LiveServer;

/// Interval between looks at the keys.
const KEYS_EVERY: Duration = Duration::from_millis(100);
/// Interval between looks at the folder.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Messages that are kept until the screen is left.
const MESSAGES_MAX: usize = 1000;
/// Messages that the screen may show.
const MESSAGES_SHOWN: usize = 50;
/// Messages that a browser's page shows.
const MESSAGES_BROWSER: usize = 3;

/// Adds `--live` and `--host-name`.
pub fn args() -> [Arg; 2] {
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
        "" => Ok(LivePlace::Terminal),
        address => metrics::address(address).map(LivePlace::Browser),
    });
    [live, gate::host_names_arg().requires("live").hide_short_help(true)]
}

/// Place where work is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LivePlace {
    Terminal,
    Browser(SocketAddr),
}

/// Observers of a command's work, as it was asked for.
#[derive(Default)]
pub struct Observers {
    pub metrics: Option<Metrics>,
    pub live: Option<Live>,
    /// Lines for the user: the URL of the browser's page.
    pub notes: Vec<String>,
}

/// Begins to show the work and to serve its metrics, if the command was asked to.
pub fn of(matches: &ArgMatches, command: &str) -> Result<Observers, CommandError> {
    // Of several ranks, which may be on one host, the first one serves the sum of all.
    let scraped = metrics::asked(matches).filter(|_| ranks::is_first());
    // Only some commands have it.
    let place = matches.try_get_one::<LivePlace>("live").ok().flatten().copied();
    let title = format!("petal {command}");
    let metrics = scraped.map(|_| Metrics::default());
    let mut observers = Observers { metrics, ..Observers::default() };
    match place {
        Some(LivePlace::Terminal) => {
            check_launch()?;
            check_terminal("--live")?;
            observers.live = Some(Live::on_terminal(title));
        }
        Some(LivePlace::Browser(address)) if ranks::is_first() => {
            let metrics = observers.metrics.get_or_insert_default().clone();
            let (live, feed) = Live::in_browsers(title.clone());
            let is_scraped = scraped == Some(address);
            let names = gate::host_names(matches);
            let gate = LiveServer { title, feed, metrics, is_scraped, names }.start(address)?;
            observers.notes.extend(gate.warning());
            observers.notes.push(format!("watch it at {}", gate.url()));
            observers.live = Some(live);
        }
        _ => {}
    }
    if let (Some(address), Some(metrics)) = (scraped, &observers.metrics)
        && place != Some(LivePlace::Browser(address))
    {
        metrics::serve(address, metrics)?;
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
    /// Events for browsers, which replace the screen.
    feed: Option<Arc<LiveFeed>>,
}

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
        Self { shared: LiveShared::new(title), feed: None }
    }

    fn in_browsers(title: String) -> (Self, Arc<LiveFeed>) {
        let shared = LiveShared::new(title);
        let seen = Arc::clone(&shared);
        let feed = LiveFeed::new(move || seen.work(MESSAGES_BROWSER));
        (Self { shared, feed: Some(Arc::clone(&feed)) }, feed)
    }

    /// True while messages must not be written to the terminal.
    pub fn is_on(&self) -> bool {
        self.shared.state.lock().is_on
    }

    /// Enters the screen, unless the user left it. Messages are written to `stderr` afterwards.
    pub fn begin(&self, stderr: &Queued) {
        let mut state = self.shared.state.lock();
        if state.is_on || state.is_left || self.feed.is_some() {
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
        if state.is_on || self.feed.is_some() {
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
        self.feed.iter().for_each(|feed| feed.end());
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
