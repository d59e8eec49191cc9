//! The terminal as a full screen: entered once, left on every way out. Nothing here blocks: a
//! terminal that takes no output (Ctrl-S) loses pictures, and holds nobody up.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Once;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::OFlags;
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr,
};

use super::picture::{ScreenRow, ScreenSize, Tone};
use petal_host::files;

/// Another screen than the shell's, without a cursor and without a break of long lines.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Tries to write the end to a terminal that takes no output.
const LEAVE_TRIES: u32 = 25;
const LEAVE_PAUSE: Duration = Duration::from_millis(20);

/// The terminal while it is a screen. One for all threads: the panic that ends petal leaves it.
static SCREEN: Mutex<Option<Screen>> = Mutex::new(None);
static HOOK: Once = Once::new();

struct Screen {
    before: SavedTerminal,
    /// Bytes that the terminal did not take yet.
    unwritten: Vec<u8>,
    shown: Vec<ScreenRow>,
    size: ScreenSize,
}

/// A terminal, and its modes before petal changed them.
pub struct SavedTerminal {
    terminal: File,
    modes: Termios,
}

impl SavedTerminal {
    /// The terminal that this process belongs to. An error is a clause.
    pub fn of_process() -> Result<Self, String> {
        let how = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY;
        let terminal = files::open("/dev/tty", how);
        let terminal = terminal.map_err(|error| format!("there is no terminal ({error})"))?;
        let modes =
            tcgetattr(&terminal).map_err(|error| format!("its modes are unknown: {error}"))?;
        // The group is asked for second: a group outside this PID namespace is no `Pid`.
        match tcgetpgrp(&terminal) {
            Ok(group) if group == getpgrp() => {}
            Ok(_) => return Err("petal is in the background of its terminal".to_owned()),
            Err(error) => return Err(format!("its process group is unknown: {error}")),
        }
        Ok(Self { terminal, modes })
    }

    /// Leaves the screen, and sets the former modes.
    pub fn restore(&self) {
        let mut left = LEAVE.as_bytes();
        for _ in 0..LEAVE_TRIES {
            match (&self.terminal).write(left) {
                Ok(bytes) => left = left.get(bytes..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(LEAVE_PAUSE);
                }
                Err(_) => break,
            }
            if left.is_empty() {
                break;
            }
        }
        // A terminal that is gone has no modes.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.modes);
    }
}

/// Makes the terminal a screen. Ctrl-C stays a signal; keys come one by one. An error is a clause.
pub fn enter() -> Result<(), String> {
    let before = SavedTerminal::of_process()?;
    let mut modes = before.modes.clone();
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    // A petal that Ctrl-Z suspends would leave the screen as it is.
    modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
    let set = tcsetattr(&before.terminal, OptionalActions::Now, &modes);
    set.map_err(|error| format!("its modes cannot be changed: {error}"))?;
    HOOK.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            former(panic);
        }));
    });
    let size = ScreenSize { columns: 0, rows: 0, has_unicode: has_unicode() };
    let unwritten = ENTER.as_bytes().to_vec();
    *SCREEN.lock() = Some(Screen { before, unwritten, shown: Vec::new(), size });
    Ok(())
}

/// Makes the screen the terminal that it was. Does nothing without a screen.
pub fn leave() {
    // The thread that panics may hold it.
    let screen =
        SCREEN.try_lock_for(LEAVE_PAUSE * LEAVE_TRIES).and_then(|mut screen| screen.take());
    if let Some(screen) = screen {
        screen.before.restore();
    }
}

/// The present size; None if there is no screen.
pub fn size() -> Option<ScreenSize> {
    let screen = SCREEN.lock();
    let screen = screen.as_ref()?;
    let size = tcgetwinsize(&screen.before.terminal).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    let (columns, rows) = size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()));
    Some(ScreenSize { columns, rows, ..screen.size })
}

/// Writes the rows that changed. A terminal that has not taken the last picture gets none.
pub fn show(rows: &[ScreenRow], size: ScreenSize) {
    let mut screen = SCREEN.lock();
    let Some(screen) = screen.as_mut() else { return };
    if !screen.flush() {
        return;
    }
    let mut text = String::new();
    if screen.size != size {
        text.push_str("\x1b[2J");
        screen.shown.clear();
        screen.size = size;
    }
    let has_color = has_color();
    for (at, row) in rows.iter().enumerate() {
        if screen.shown.get(at) != Some(row) {
            let color = if has_color { color(row.tone) } else { "" };
            let end = if color.is_empty() { "" } else { "\x1b[0m" };
            text.push_str(&format!("\x1b[{};1H\x1b[K{color}{}{end}", at + 1, row.text));
        }
    }
    screen.shown = rows.to_vec();
    screen.unwritten = text.into_bytes();
    screen.flush();
}

/// The keys that were pressed since the last call; None if there is no screen or no terminal any
/// more.
pub fn keys() -> Option<Vec<u8>> {
    let screen = SCREEN.lock();
    let mut terminal = &screen.as_ref()?.before.terminal;
    let mut keys = [0; 64];
    match terminal.read(&mut keys) {
        Ok(0) => None,
        Ok(bytes) => Some(keys[..bytes].to_vec()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(Vec::new()),
        Err(error) if error.kind() == ErrorKind::Interrupted => Some(Vec::new()),
        Err(_) => None,
    }
}

impl Screen {
    /// Writes as much as the terminal takes; true if that is all.
    fn flush(&mut self) -> bool {
        while !self.unwritten.is_empty() {
            match (&self.before.terminal).write(&self.unwritten) {
                Ok(bytes) => drop(self.unwritten.drain(..bytes)),
                Err(_) => return false,
            }
        }
        true
    }
}

fn color(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Heading => "\x1b[1m",
        Tone::Warning => "\x1b[33m",
        Tone::Error => "\x1b[31m",
        Tone::Keys => "\x1b[7m",
    }
}

/// A value of the environment; None if it is empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn has_color() -> bool {
    variable("NO_COLOR").is_none() && variable("TERM").is_none_or(|term| term != "dumb")
}

/// Whether the locale has characters outside of ASCII.
fn has_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}
