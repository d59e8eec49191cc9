//! Asks a person for a password, at the terminal, unseen.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::settings::printable::printable_line;
use crate::settings::url::Secret;

/// None where nobody is there to ask, or nothing was answered. Asks once for each user.
pub fn password(user: &str) -> Option<Secret> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    let usual = tcgetattr(&terminal).ok()?;
    let mut unseen = usual.clone();
    unseen.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &unseen).ok()?;
    let answer = write!(terminal, "password of {}: ", printable_line(user)).and_then(|()| {
        let mut line = String::new();
        BufReader::new(&terminal).read_line(&mut line)?;
        Ok(line)
    });
    // Whatever came of it, the terminal shows what is typed again.
    let restored = tcsetattr(&terminal, OptionalActions::Flush, &usual);
    let _ = writeln!(terminal);
    restored.ok()?;
    let line = answer.ok()?;
    let text = line.trim_end_matches(['\n', '\r']);
    (!text.is_empty()).then(|| Secret::new(text.to_owned()))
}
