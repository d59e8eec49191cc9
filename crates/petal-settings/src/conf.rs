//! slob.conf's grammar: assignments as a shell reads them, and nothing that would have to be
//! executed. It turns text into keys and values with their lines; the meaning of a key is not known
//! here.
//!
//! Errors never quote a value: it may be a password.

use std::collections::BTreeSet;
use std::fmt;

use super::error::Refusal;

/// An assignment. If a key is assigned twice, the later value wins.
#[derive(Clone, PartialEq, Eq)]
pub struct Assignment {
    pub key: String,
    /// Unquoted and expanded; empty means unset.
    pub value: String,
    /// Line number, from 1.
    pub line: u32,
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=*** in line {}", self.key, self.line)
    }
}

/// The contents of a settings file.
#[derive(Debug, Default)]
pub struct Conf {
    pub entries: Vec<Assignment>,
    /// Names that values refer to as `$NAME`: helpers of the file, not misspelt keys.
    pub referred: BTreeSet<String>,
    /// Lines that cannot be taken, from 1, and why.
    pub errors: Vec<(u32, Refusal)>,
}

impl Conf {
    /// The assignment in force: the last one.
    pub fn last(&self, key: &str) -> Option<&Assignment> {
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
    let mut reader =
        ConfReader { rest: &text, line: 1, conf: Conf::default(), environment, may_name };
    while !reader.rest.is_empty() {
        let line = reader.line;
        if let Err(fault) = reader.statement() {
            reader.conf.errors.push((line, fault));
            reader.comment();
            reader.next();
        }
    }
    reader.conf
}

const OTHER_SHELL: &str = "is shell other than KEY=VALUE, and petal runs no shell";
const SET_IT_OUT: &str = "Write the setting out as KEY=VALUE, or put # before the line.";
const QUOTE_IT: &str = "Put the value in single quotes.";

fn fault<T>(rule: impl Into<String>, hint: &str) -> Result<T, Refusal> {
    Err(Refusal::new(rule, hint))
}

struct ConfReader<'a> {
    /// Text not read yet.
    rest: &'a str,
    line: u32,
    conf: Conf,
    environment: &'a dyn Fn(&str) -> Option<String>,
    may_name: &'a dyn Fn(&str) -> bool,
}

impl<'a> ConfReader<'a> {
    /// Reads an assignment, `export` list, comment or blank, with the separator after it.
    fn statement(&mut self) -> Result<(), Refusal> {
        self.blanks();
        match self.peek() {
            None | Some('\n' | ';') => {
                self.next();
                return Ok(());
            }
            Some('#') => {
                self.comment();
                return Ok(());
            }
            Some(_) => {}
        }
        let name = self.name();
        if !self.rest.starts_with(['=', '+']) {
            match name {
                "export" | "declare" | "typeset" | "readonly" => return self.export(),
                "set" => return self.set(),
                _ => {}
            }
        }
        self.blanks();
        if name.is_empty() || self.peek() != Some('=') {
            return fault(OTHER_SHELL, SET_IT_OUT);
        }
        self.assignment(name, false)
    }

    /// Reads `set -a`, which exports all later assignments; other options would change how a shell
    /// reads.
    fn set(&mut self) -> Result<(), Refusal> {
        match self.until(&['\n', ';', '#']).trim() {
            "-a" | "+a" | "-o allexport" | "+o allexport" => Ok(()),
            _ => fault(OTHER_SHELL, SET_IT_OUT),
        }
    }

    /// Reads the rest after `export` or `declare`: assignments, and names, which petal ignores.
    /// Options may only export (`-x`) or protect (`-r`): others change the meaning of a value.
    fn export(&mut self) -> Result<(), Refusal> {
        loop {
            self.blanks();
            if let Some(option) = self.rest.strip_prefix('-') {
                let length = option.find(|sign: char| !"gprx".contains(sign));
                self.rest = &option[length.unwrap_or(option.len())..];
                if !self.rest.is_empty() && !self.rest.starts_with([' ', '\t', '\n', ';']) {
                    return fault(
                        "has an option that changes the meaning of values",
                        "Write KEY=VALUE.",
                    );
                }
                continue;
            }
            if self.ends_statement() {
                return Ok(());
            }
            let name = self.name();
            match self.peek() {
                Some('=') if !name.is_empty() => self.assignment(name, true)?,
                None | Some(' ' | '\t' | '\n' | ';' | '\\') if !name.is_empty() => {}
                _ => {
                    return fault(
                        "has something after export that is neither a name nor KEY=VALUE",
                        "Write export KEY=VALUE, or export with names only.",
                    );
                }
            }
        }
    }

    /// Reads from the `=` to the end of the value, and checks the next character. After `export`,
    /// bare names may follow.
    fn assignment(&mut self, key: &str, exports: bool) -> Result<(), Refusal> {
        let line = self.line;
        self.next();
        if self.peek() == Some('=') {
            return fault("has == where = is meant", "Write KEY=VALUE.");
        }
        let had_blank = self.blanks();
        let is_empty = had_blank && (self.peek() == Some('#') || self.at_assignment());
        let value = if is_empty { String::new() } else { self.value(key)? };
        self.blanks();
        if !self.ends_statement() && !exports && !self.at_assignment() {
            return fault("has more after the value than a comment", QUOTE_IT);
        }
        self.conf.entries.push(Assignment { key: key.to_owned(), value, line });
        Ok(())
    }

    fn value(&mut self, key: &str) -> Result<String, Refusal> {
        let mut value = String::new();
        self.tilde(&mut value);
        while let Some(next) = self.peek() {
            match next {
                ' ' | '\t' | '\n' | ';' => break,
                '\'' => self.single_quoted(&mut value)?,
                '"' => self.double_quoted(key, &mut value)?,
                '\\' => self.backslash(&mut value),
                '$' | '`' => self.expansion(key, &mut value, "'\"")?,
                ':' => {
                    value.extend(self.next());
                    self.tilde(&mut value);
                }
                '&' | '|' | '<' | '>' | '(' | ')' => {
                    return fault(
                        format!("has {next} outside quotes, which a shell takes for itself"),
                        QUOTE_IT,
                    );
                }
                _ => value.extend(self.next()),
            }
        }
        Ok(value)
    }

    /// `~` and `~/...` at the start of a value, or behind a colon, are the home folder.
    fn tilde(&mut self, value: &mut String) {
        let Some(after) = self.rest.strip_prefix('~') else { return };
        let alone = after.is_empty() || after.starts_with(['/', ':', ' ', '\t', '\n', ';']);
        if let (true, Some(home)) = (alone, (self.environment)("HOME")) {
            self.rest = after;
            value.push_str(&home);
        }
    }

    fn single_quoted(&mut self, value: &mut String) -> Result<(), Refusal> {
        self.next();
        let inside = self.until(&['\'', '\n']);
        let Some(rest) = self.rest.strip_prefix('\'') else { return not_closed('\'') };
        self.rest = rest;
        value.push_str(inside);
        Ok(())
    }

    fn double_quoted(&mut self, key: &str, value: &mut String) -> Result<(), Refusal> {
        self.next();
        loop {
            match self.peek() {
                None | Some('\n') => return not_closed('"'),
                Some('"') => {
                    self.next();
                    return Ok(());
                }
                Some('$' | '`') => self.expansion(key, value, "")?,
                Some('\\') => {
                    self.next();
                    match self.peek() {
                        Some('\n') => drop(self.next()),
                        Some('$' | '`' | '"' | '\\') => value.extend(self.next()),
                        _ => value.push('\\'),
                    }
                }
                Some(_) => value.extend(self.next()),
            }
        }
    }

    /// Outside quotes: the next character as it is; at the end of a line the line goes on.
    fn backslash(&mut self, value: &mut String) {
        self.next();
        match self.next() {
            Some('\n') => {}
            next => value.push(next.unwrap_or('\\')),
        }
    }

    /// Reads an expansion at a `$` or a backtick. Before a quote in `quotes`, `$` begins a shell's
    /// own kind of quoted text.
    fn expansion(&mut self, key: &str, value: &mut String, quotes: &str) -> Result<(), Refusal> {
        const COMMAND: &str = "asks a shell to run a command, which petal does not";
        const ARITHMETIC: &str = "has $((...)), and arithmetic is not evaluated";
        if self.next() == Some('`') {
            return fault(COMMAND, "Write the command's result here.");
        }
        match self.peek() {
            Some('(') if self.rest.starts_with("((") => fault(ARITHMETIC, "Write its result here."),
            Some('(') => fault(COMMAND, "Write the command's result here."),
            Some('{') => {
                self.next();
                let name = self.name();
                let otherwise = self.otherwise(name)?;
                self.variable(key, name, otherwise, value)
            }
            Some(next) if next == '_' || next.is_ascii_alphabetic() => {
                let name = self.name();
                self.variable(key, name, None, value)
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

    /// Reads the text between the name and the brace: nothing, or `:-` or `:=` and a default for
    /// an unset variable. `:=` also sets it.
    fn otherwise(&mut self, name: &str) -> Result<Option<&'a str>, Refusal> {
        let inside = self.until(&['}', '\n', '$', '`', '\'', '"', '\\', '{']);
        let set = inside.strip_prefix(":=");
        if let Some(text) = set.filter(|_| self.found(name).is_none()) {
            let (key, value) = (name.to_owned(), text.to_owned());
            self.conf.entries.push(Assignment { key, value, line: self.line });
        }
        let otherwise = set.or_else(|| inside.strip_prefix(":-"));
        match self.rest.strip_prefix('}') {
            Some(rest) if inside.is_empty() || otherwise.is_some() => {
                self.rest = rest;
                Ok(otherwise)
            }
            _ => fault(
                "has a ${...} that is more than ${NAME}, ${NAME:-text} or ${NAME:=text}",
                "Write the value out.",
            ),
        }
    }

    fn variable(
        &mut self,
        key: &str,
        name: &str,
        otherwise: Option<&str>,
        value: &mut String,
    ) -> Result<(), Refusal> {
        let found = self.found(name);
        self.conf.referred.insert(name.to_owned());
        if let Some(text) = found.as_deref().or(otherwise) {
            value.push_str(text);
            return Ok(());
        }
        let what = match (self.may_name)(key) {
            true => format!("${name}"),
            false => "a variable".to_owned(),
        };
        fault(
            format!("refers to {what}, which neither the file above nor the environment sets"),
            "Set it before this line, or put the value in single quotes if the $ is meant.",
        )
    }

    /// A variable's text, if it is set and not empty.
    fn found(&self, name: &str) -> Option<String> {
        let found = match self.conf.last(name) {
            Some(entry) => Some(entry.value.clone()),
            None => (self.environment)(name),
        };
        found.filter(|text| !text.is_empty())
    }

    /// True if `NAME=` comes next.
    fn at_assignment(&self) -> bool {
        let length = name_length(self.rest);
        length > 0 && self.rest[length..].starts_with('=')
    }

    fn ends_statement(&self) -> bool {
        matches!(self.peek(), None | Some('\n' | ';' | '#'))
    }

    fn name(&mut self) -> &'a str {
        let (name, rest) = self.rest.split_at(name_length(self.rest));
        self.rest = rest;
        name
    }

    /// Takes the text before the first of these characters.
    fn until(&mut self, ends: &[char]) -> &'a str {
        let (text, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        text
    }

    /// Skips spaces, and line ends that a backslash takes away. True if there was any.
    fn blanks(&mut self) -> bool {
        let before = self.rest.len();
        while self.rest.starts_with([' ', '\t', '\r']) || self.rest.starts_with("\\\n") {
            if self.next() == Some('\\') {
                self.next();
            }
        }
        self.rest.len() < before
    }

    /// Skips to the end of the line, not past it.
    fn comment(&mut self) {
        self.until(&['\n']);
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let next = rest.next();
        self.rest = rest.as_str();
        self.line += u32::from(next == Some('\n'));
        next
    }
}

/// True for the name of a shell's own variable after a `$`, such as `$1` or `$?`.
fn is_special(character: char) -> bool {
    character.is_ascii_digit() || "$?!#@*-".contains(character)
}

/// Bytes of the name that a text begins with.
fn name_length(text: &str) -> usize {
    let is_digit = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let is_name = |byte: &u8| *byte == b'_' || byte.is_ascii_alphanumeric();
    if is_digit(text) { 0 } else { text.bytes().take_while(|byte| is_name(byte)).count() }
}

fn not_closed<T>(quote: char) -> Result<T, Refusal> {
    fault(
        format!("has a {quote} that is not closed on its line"),
        &format!("Close it, or write \\{quote} for the character itself."),
    )
}

#[cfg(test)]
mod tests;
