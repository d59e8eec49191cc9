//! slob.conf's grammar: assignments as a shell reads them, and nothing that would have to be
//! executed. From text to keys and values with their lines; what a key means is not known here.
//!
//! Errors never quote a value: it may be a password.

use std::collections::BTreeSet;
use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// One assignment. Later ones of the same key win.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    /// Unquoted and expanded; empty means unset.
    pub value: String,
    /// From 1.
    pub line: u32,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=*** in line {}", self.key, self.line)
    }
}

/// Why a line cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfError {
    pub line: u32,
    pub rule: String,
    pub hint: String,
}

/// The contents of a settings file.
#[derive(Debug, Default)]
pub struct Conf {
    pub entries: Vec<Entry>,
    /// Names that values refer to as `$NAME`: helpers of the file, not misspelt keys.
    pub referred: BTreeSet<String>,
    pub errors: Vec<ConfError>,
}

impl Conf {
    /// The assignment in force: the last one.
    pub fn last(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.key == key)
    }
}

/// Reads a whole file. `environment` serves `$NAME` for names that the file has not set before;
/// `may_name` says of which keys the variables in a value may be named in an error.
pub fn parse(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
    may_name: &dyn Fn(&str) -> bool,
) -> Conf {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let mut reader = Reader {
        chars: text.chars().peekable(),
        line: 1,
        conf: Conf::default(),
        environment,
        may_name,
    };
    while reader.chars.peek().is_some() {
        let line = reader.line;
        if let Err(fault) = reader.statement() {
            let (rule, hint) = fault;
            reader.conf.errors.push(ConfError { line, rule, hint });
            reader.skip_line();
        }
    }
    reader.conf
}

/// A value as it can stand in a file and reads back the same. None for one with a line break,
/// which this grammar does not have.
pub fn quote(value: &str) -> Option<String> {
    if value.contains(['\n', '\r']) {
        return None;
    }
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:,@%+".contains(character);
    if value.chars().all(plain) {
        return Some(value.to_owned());
    }
    Some(format!("'{}'", value.replace('\'', r"'\''")))
}

/// Rule and way out.
type Fault = (String, String);

fn fault<T>(rule: &str, hint: &str) -> Result<T, Fault> {
    Err((rule.to_owned(), hint.to_owned()))
}

const OTHER_SHELL: &str = "is shell other than KEY=VALUE, and petal runs no shell";
const SET_IT_OUT: &str = "Write the setting out as KEY=VALUE, or put # before the line.";
const QUOTE_IT: &str = "Put the value in single quotes.";

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    line: u32,
    conf: Conf,
    environment: &'a dyn Fn(&str) -> Option<String>,
    may_name: &'a dyn Fn(&str) -> bool,
}

impl Reader<'_> {
    /// One assignment, `export` list, comment or blank, with the separator after it.
    fn statement(&mut self) -> Result<(), Fault> {
        self.blanks();
        match self.chars.peek() {
            None => return Ok(()),
            Some('\n' | ';') => {
                self.bump();
                return Ok(());
            }
            Some('#') => {
                self.comment();
                return Ok(());
            }
            Some(_) => {}
        }
        let name = self.name();
        if name == "export" && self.chars.peek().is_none_or(|next| !"=+".contains(*next)) {
            return self.export();
        }
        self.blanks();
        if name.is_empty() || self.chars.peek() != Some(&'=') {
            return fault(OTHER_SHELL, SET_IT_OUT);
        }
        self.assignment(name, false)
    }

    /// After `export`: names, which petal needs no telling, and assignments.
    fn export(&mut self) -> Result<(), Fault> {
        loop {
            self.blanks();
            match self.chars.peek() {
                None | Some('\n' | ';' | '#') => return Ok(()),
                Some(_) => {}
            }
            let name = self.name();
            match self.chars.peek() {
                Some('=') if !name.is_empty() => self.assignment(name, true)?,
                None | Some(' ' | '\t' | '\n' | ';') if !name.is_empty() => {}
                Some('\\') if !name.is_empty() => {}
                _ => {
                    return fault(
                        "has something after export that is neither a name nor KEY=VALUE",
                        "Write export KEY=VALUE, or export with names only.",
                    );
                }
            }
        }
    }

    /// From the `=` to the end of the value, and on to what may follow it: after `export` also
    /// bare names.
    fn assignment(&mut self, key: String, exports: bool) -> Result<(), Fault> {
        let line = self.line;
        self.bump();
        if self.chars.peek() == Some(&'=') {
            return fault("has == where = is meant", "Write KEY=VALUE.");
        }
        let had_blank = self.blanks();
        let is_empty = had_blank && self.at_assignment();
        let value = match self.chars.peek() {
            Some('#') if had_blank => String::new(),
            _ if is_empty => String::new(),
            _ => self.value(&key)?,
        };
        self.blanks();
        let follows = matches!(self.chars.peek(), None | Some('\n' | ';' | '#'));
        if !follows && !exports && !self.at_assignment() {
            return fault("has more after the value than a comment", QUOTE_IT);
        }
        self.conf.entries.push(Entry { key, value, line });
        Ok(())
    }

    fn value(&mut self, key: &str) -> Result<String, Fault> {
        let mut value = String::new();
        self.tilde(&mut value);
        while let Some(&next) = self.chars.peek() {
            match next {
                ' ' | '\t' | '\n' | ';' => break,
                '\'' => self.single_quoted(&mut value)?,
                '"' => self.double_quoted(key, &mut value)?,
                '\\' => self.backslash(&mut value),
                '$' | '`' => self.expansion(key, &mut value, "'\"")?,
                '&' | '|' | '<' | '>' | '(' | ')' => {
                    return fault(
                        &format!("has {next} outside quotes, which a shell takes for itself"),
                        QUOTE_IT,
                    );
                }
                _ => {
                    value.push(next);
                    self.bump();
                }
            }
        }
        Ok(value)
    }

    /// `~` and `~/...` at the start of a value are the home folder.
    fn tilde(&mut self, value: &mut String) {
        if self.chars.peek() != Some(&'~') {
            return;
        }
        let mut ahead = self.chars.clone();
        ahead.next();
        let alone = matches!(ahead.peek(), None | Some('/' | ' ' | '\t' | '\n' | ';'));
        if let (true, Some(home)) = (alone, (self.environment)("HOME")) {
            self.bump();
            value.push_str(&home);
        }
    }

    fn single_quoted(&mut self, value: &mut String) -> Result<(), Fault> {
        self.bump();
        loop {
            match self.chars.peek().copied() {
                Some('\'') => {
                    self.bump();
                    return Ok(());
                }
                None | Some('\n') => return not_closed('\''),
                Some(next) => {
                    value.push(next);
                    self.bump();
                }
            }
        }
    }

    fn double_quoted(&mut self, key: &str, value: &mut String) -> Result<(), Fault> {
        self.bump();
        loop {
            match self.chars.peek().copied() {
                Some('"') => {
                    self.bump();
                    return Ok(());
                }
                None | Some('\n') => return not_closed('"'),
                Some('\\') => {
                    self.bump();
                    match self.chars.peek().copied() {
                        Some('\n') => self.bump(),
                        Some(next) if "$`\"\\".contains(next) => {
                            value.push(next);
                            self.bump();
                        }
                        _ => value.push('\\'),
                    }
                }
                Some('$' | '`') => self.expansion(key, value, "")?,
                Some(next) => {
                    value.push(next);
                    self.bump();
                }
            }
        }
    }

    /// Outside quotes: the next character as it is; at the end of a line the line goes on.
    fn backslash(&mut self, value: &mut String) {
        self.bump();
        match self.chars.peek().copied() {
            None => value.push('\\'),
            Some('\n') => self.bump(),
            Some(next) => {
                value.push(next);
                self.bump();
            }
        }
    }

    /// At a `$` or a backtick. A quote in `quotes` would make the `$` a shell's own.
    fn expansion(&mut self, key: &str, value: &mut String, quotes: &str) -> Result<(), Fault> {
        const COMMAND: &str = "asks a shell to run a command, which petal does not";
        const ARITHMETIC: &str = "has $((...)), and arithmetic is not evaluated";
        if self.chars.peek() == Some(&'`') {
            return fault(COMMAND, "Write the command's result here.");
        }
        self.bump();
        match self.chars.peek().copied() {
            Some('(') => {
                self.bump();
                match self.chars.peek() {
                    Some('(') => fault(ARITHMETIC, "Write its result here."),
                    _ => fault(COMMAND, "Write the command's result here."),
                }
            }
            Some('{') => {
                self.bump();
                let name = self.name();
                let otherwise = self.otherwise()?;
                self.variable(key, &name, otherwise, value)
            }
            Some(next) if next == '_' || next.is_ascii_alphabetic() => {
                let name = self.name();
                self.variable(key, &name, None, value)
            }
            Some(next) if is_special(next) || quotes.contains(next) => fault(
                "has a $ that a shell would expand, but only $NAME and ${NAME} are read",
                "Write \\$ for a dollar sign, or put the value in single quotes.",
            ),
            _ => {
                value.push('$');
                Ok(())
            }
        }
    }

    /// What stands between the name and the brace: nothing, or `:-` and a text for when the
    /// variable is unset.
    fn otherwise(&mut self) -> Result<Option<String>, Fault> {
        let mut inside = String::new();
        loop {
            match self.chars.peek().copied() {
                Some('}') => break,
                None | Some('\n' | '$' | '`' | '\'' | '"' | '\\' | '{') => {
                    return fault(
                        "has a ${...} that is more than ${NAME} or ${NAME:-text}",
                        "Write the value out.",
                    );
                }
                Some(next) => {
                    inside.push(next);
                    self.bump();
                }
            }
        }
        self.bump();
        match inside.strip_prefix(":-") {
            Some(text) => Ok(Some(text.to_owned())),
            None if inside.is_empty() => Ok(None),
            None => fault(
                "has a ${...} that is more than ${NAME} or ${NAME:-text}",
                "Write the value out.",
            ),
        }
    }

    fn variable(
        &mut self,
        key: &str,
        name: &str,
        otherwise: Option<String>,
        value: &mut String,
    ) -> Result<(), Fault> {
        let found = match self.conf.last(name) {
            Some(entry) => Some(entry.value.clone()),
            None => (self.environment)(name),
        };
        self.conf.referred.insert(name.to_owned());
        if let Some(text) = found.filter(|text| !text.is_empty()).or(otherwise) {
            value.push_str(&text);
            return Ok(());
        }
        let what = match (self.may_name)(key) {
            true => format!("${name}"),
            false => "a variable".to_owned(),
        };
        fault(
            &format!("refers to {what}, which neither the file above nor the environment sets"),
            "Set it before this line, or put the value in single quotes if the $ is meant.",
        )
    }

    /// True where `NAME=` comes next.
    fn at_assignment(&self) -> bool {
        let mut ahead = self.chars.clone();
        let mut letters = 0;
        while let Some(next) = ahead.next_if(|next| is_name(*next, letters == 0)) {
            letters += next.len_utf8();
        }
        letters > 0 && ahead.peek() == Some(&'=')
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(next) = self.chars.next_if(|next| is_name(*next, name.is_empty())) {
            name.push(next);
        }
        name
    }

    /// Skips spaces, and line ends that a backslash takes away. True if there was any.
    fn blanks(&mut self) -> bool {
        let mut any = false;
        loop {
            match self.chars.peek() {
                Some(' ' | '\t' | '\r') => self.bump(),
                Some('\\') => {
                    let mut ahead = self.chars.clone();
                    ahead.next();
                    if ahead.peek() != Some(&'\n') {
                        return any;
                    }
                    self.bump();
                    self.bump();
                }
                _ => return any,
            }
            any = true;
        }
    }

    /// To the end of the line, not past it.
    fn comment(&mut self) {
        while self.chars.peek().is_some_and(|next| *next != '\n') {
            self.bump();
        }
    }

    fn skip_line(&mut self) {
        self.comment();
        self.bump();
    }

    fn bump(&mut self) {
        if self.chars.next() == Some('\n') {
            self.line += 1;
        }
    }
}

/// After a `$` a variable of the shell's own, such as `$1` or `$?`.
fn is_special(character: char) -> bool {
    character.is_ascii_digit() || "$?!#@*-".contains(character)
}

fn is_name(character: char, first: bool) -> bool {
    character == '_' || character.is_ascii_alphabetic() || (!first && character.is_ascii_digit())
}

fn not_closed<T>(quote: char) -> Result<T, Fault> {
    fault(
        &format!("has a {quote} that is not closed on its line"),
        &format!("Close it, or write \\{quote} for the character itself."),
    )
}

#[cfg(test)]
mod tests;
