//! Target URLs, and the one type that holds a secret. Each engine decides on the meaning of its
//! URL; here it is only split, and its password removed.

mod other_forms;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use secrecy::{ExposeSecret, SecretString};

use super::error::Refusal;
use super::table::support::{self, EngineSupport, UrlForm};

/// A password or its like. It can be used, not shown: neither `Debug` nor `Display` nor serde.
/// Its memory is overwritten when it is dropped.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text.into())
    }

    /// The text itself, for a driver's connect call only.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Reads a secret as a person gives one: the text, `@FILE` for a file's first line, or
    /// `@@text` for a text that begins with an `@`. The error names the file, never its content.
    pub fn given(text: &str) -> Result<Self, Refusal> {
        match text.strip_prefix('@') {
            None => Ok(Self::new(text.to_owned())),
            Some(rest) if rest.starts_with('@') => Ok(Self::new(rest.to_owned())),
            Some(path) => first_line(&expand_home(path)).map(Self::new),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Longest secret that is read from a file, in bytes.
const SECRET_BYTES_MAX: u64 = 64 << 10;

fn first_line(path: &str) -> Result<String, Refusal> {
    // A path that is not there may be a password that happens to begin with @: not named.
    let name = match std::path::Path::new(path).exists() {
        true => format!("the file {path}"),
        false => "the file named after its @".to_owned(),
    };
    let failed = |why: String| {
        Refusal::new(
            format!("its secret cannot be read from {name}: {why}"),
            "Name a readable file whose first line is the secret, or write @@ for a secret \
             that begins with @",
        )
    };
    let file = petal_host::files::named(path).map_err(|error| failed(error.to_string()))?;
    let mut line = String::new();
    BufReader::new(file.take(SECRET_BYTES_MAX))
        .read_line(&mut line)
        .map_err(|error| failed(error.to_string()))?;
    let secret = line.trim_end_matches(['\n', '\r']);
    match secret.is_empty() {
        true => Err(failed("its first line is empty".to_owned())),
        false => Ok(secret.to_owned()),
    }
}

/// `sqlite:DIR?cache=64M`, `postgres://user:password@host/db`, `device:PATH`.
#[derive(Debug, Clone, Default)]
pub struct TargetUrl {
    /// `sqlite`, `postgres`, `mysql`, `oracle`, `device`.
    pub scheme: String,
    /// Text after the scheme, without password and options: a path, or `//user@host:port/name`
    /// still percent-encoded.
    pub rest: String,
    pub password: Option<Secret>,
    /// `?key=value&...`, decoded, for the engine to judge.
    pub options: BTreeMap<String, String>,
}

/// The parts of `//user@host:port,host/name`, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UrlServer {
    pub user: Option<String>,
    /// Hosts in order; more than one is scale-out. Empty: the driver's default.
    pub hosts: Vec<UrlHost>,
    /// Database or service; empty if none is named.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlHost {
    /// Host name or address; an IPv6 address is without brackets.
    pub host: String,
    pub port: Option<u16>,
}

impl TargetUrl {
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if let Some(refusal) = other_forms::refusal(text) {
            return Err(refusal);
        }
        let (engine, after) = split_scheme(text)?;
        let (body, query) = after.split_once('?').unwrap_or((after, ""));
        if holds_connection_text(body) {
            return Err(Refusal::new(
                "holds key=value connection text with a secret in it",
                "Write its parts as a URL, scheme://user:password@host:port/name.",
            ));
        }
        let mut url = Self { scheme: engine.scheme.to_owned(), ..Self::default() };
        match engine.address {
            UrlForm::Path => url.rest = path_of(engine.scheme, body)?,
            UrlForm::Server => url.take_server(body)?,
        }
        url.take_options(query)?;
        Ok(url)
    }

    /// The URL as it may be shown and kept, without a password: it is the same wherever the
    /// password comes from.
    pub fn redacted(&self) -> String {
        let options: Vec<String> = self
            .options
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        let mark = if options.is_empty() { "" } else { "?" };
        format!("{}:{}{mark}{}", self.scheme, self.rest, options.join("&"))
    }

    /// The target as it is named in whatever folder a file is read that names it.
    pub fn with_absolute_path(&self) -> Self {
        let mut url = self.clone();
        if let Some(path) = self.path().and_then(|path| std::path::absolute(path).ok()) {
            url.rest = path.to_string_lossy().into_owned();
        }
        url
    }

    /// The folder or file of a `sqlite:` or `device:` target.
    pub fn path(&self) -> Option<&std::path::Path> {
        self.is_at(UrlForm::Path).then(|| std::path::Path::new(&self.rest))
    }

    /// User, hosts and name of a target that is a server.
    pub fn server(&self) -> Option<UrlServer> {
        self.is_at(UrlForm::Server).then(|| read_server(&self.rest).ok())?
    }

    fn is_at(&self, address: UrlForm) -> bool {
        support::of(&self.scheme).is_some_and(|engine| engine.address == address)
    }

    fn take_server(&mut self, body: &str) -> Result<(), Refusal> {
        let after = body.strip_prefix("//").ok_or_else(|| {
            let hint =
                format!("Write {}://user@host:port/name; further hosts after commas.", self.scheme);
            Refusal::new("names no server", hint)
        })?;
        let authority = after.split('/').next().unwrap_or_default();
        // `u/password@host`, as SQL*Plus has it, or a password that holds a `/`.
        if after[authority.len()..].contains('@') {
            return Err(Refusal::new(
                "has an @ after the / that ends its hosts",
                "Write //user:password@host/name, and percent-encode / ? # @ in a password or a \
                 name as %2F %3F %23 %40.",
            ));
        }
        let (login, _) = authority.rsplit_once('@').unwrap_or_default();
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        if !password.is_empty() {
            self.password = Some(secret_of(password)?);
        }
        self.rest = format!("//{user}{}", &after[login.len()..]);
        read_server(&self.rest).map(drop)
    }

    fn take_options(&mut self, query: &str) -> Result<(), Refusal> {
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| {
                Refusal::new("an option after the ? has no value", "Write ?name=value&name=value.")
            })?;
            let (name, encoded) = (decode(name)?, value);
            let value = decode(encoded)?;
            let lower = name.to_ascii_lowercase();
            if lower != "password" && (option.contains('@') || holds_connection_text(&value)) {
                return Err(Refusal::new(
                    "an option after the ? has an @ or key=value text in it",
                    "Percent-encode / ? # in a password as %2F %3F %23, and an @ that belongs to \
                     the option as %40.",
                ));
            }
            if lower == "password" {
                if self.password.is_some() {
                    return Err(Refusal::new("it has two passwords", "Give one of them."));
                }
                self.password = Some(secret_of(encoded)?);
                continue;
            }
            if lower != SECRETS_FILE && SECRET_WORDS.iter().any(|word| lower.contains(word)) {
                return Err(Refusal::new(
                    "an option looks like a secret, and petal hides only `password`",
                    "Use the database's own password file for it.",
                ));
            }
            if self.options.insert(name.clone(), value).is_some() {
                return Err(Refusal::new(
                    format!("it has the option {name} twice"),
                    "Give it once.",
                ));
            }
        }
        Ok(())
    }
}

/// A password of a URL, still encoded. `%40` is an `@` of the password itself, as for psql; only a
/// leading `@` that is not encoded names a file.
fn secret_of(encoded: &str) -> Result<Secret, Refusal> {
    let text = decode(encoded)?;
    match encoded.starts_with('@') {
        true => Secret::given(&text),
        false => Ok(Secret::new(text)),
    }
}

/// The option that names a file of secrets; its own value is not secret.
const SECRETS_FILE: &str = "passfile";

/// Words in the names of options that hold a secret.
const SECRET_WORDS: [&str; 5] = ["pass", "pwd", "secret", "token", "credential"];

/// True when a text is meant as `host=... password=...`, which is no URL.
fn holds_connection_text(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_assigned = |word: &&str| {
        lower.match_indices(*word).any(|(at, _)| {
            let rest = &lower[at + word.len()..];
            rest.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_')
                .trim_start()
                .starts_with('=')
        })
    };
    SECRET_WORDS.iter().any(is_assigned)
}

/// The part of a refused URL that may be shown: its scheme. A secret may be anywhere in the rest.
pub fn redact_refused(text: &str) -> String {
    let scheme = text.split(':').next().unwrap_or_default();
    support::of(scheme).map_or_else(|| "***".to_owned(), |_| format!("{scheme}:***"))
}

/// True for `scheme://user@host:port/name` and less, of plain letters: its user need not be warned.
pub(super) fn has_no_password(text: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let (user, place) = rest.split_once('@').unwrap_or(("user", rest));
    let (host, name) = place.split_once('/').unwrap_or((place, "name"));
    let (host, port) = host.split_once(':').unwrap_or((host, "0"));
    [scheme, user, host, name].into_iter().all(is_name) && port.parse::<u16>().is_ok()
}

/// Databases that petal does not know. Any other text before the colon may be a secret.
const OTHER_KINDS: [&str; 8] =
    ["mssql", "sqlserver", "mongodb", "db2", "redis", "duckdb", "cassandra", "jdbc"];

/// Returns true if the text names a kind of database, and petal does not know it.
pub fn names_unknown_kind(text: &str) -> bool {
    text.split_once(':').is_some_and(|(kind, _)| support::of(&kind.to_ascii_lowercase()).is_none())
}

fn split_scheme(text: &str) -> Result<(&'static EngineSupport, &str), Refusal> {
    let Some((given, after)) = text.split_once(':') else {
        return Err(Refusal::new(
            "names no kind of database",
            "For a folder of SQLite files write sqlite:DIR.",
        ));
    };
    let given = given.to_ascii_lowercase();
    support::of(&given).map(|engine| (engine, after)).ok_or_else(|| {
        let examples: Vec<&str> = support::ENGINES.iter().map(|engine| engine.example).collect();
        let write = format!("Write {}.", examples.join(" or "));
        let other = OTHER_KINDS.iter().find(|kind| kind.eq_ignore_ascii_case(&given));
        match (other, nearest_scheme(&given)) {
            (Some(kind), _) => Refusal::new(format!("unknown database scheme {kind}"), write),
            // A text so near to a scheme is no secret.
            (None, Some(near)) => Refusal::new(
                format!("unknown database scheme {given}"),
                format!("Did you mean {near}?"),
            ),
            (None, None) => Refusal::new("unknown database scheme", write),
        }
    })
}

/// The scheme that a misspelt one differs from in two letters at most, a short one in one.
fn nearest_scheme(given: &str) -> Option<&'static str> {
    let names =
        support::ENGINES.iter().flat_map(|engine| engine.aliases.iter().chain([&engine.scheme]));
    super::table::closest(given, names.copied(), if given.len() < 6 { 1 } else { 2 })
}

/// A target of a sweep, with a short name before it: `old=sqlite:/data/old`.
pub fn named(text: &str) -> (Option<&str>, &str) {
    let is_name = |name: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        !name.is_empty() && name.chars().all(is_letter)
    };
    match text.split_once('=') {
        Some((name, url)) if is_name(name) => (Some(name), url),
        _ => (None, text),
    }
}

/// Returns the path. People also write `//` before one, by analogy: `sqlite:///var/data` is
/// `/var/data`.
fn path_of(scheme: &str, body: &str) -> Result<String, Refusal> {
    let path = body.strip_prefix("//").unwrap_or(body);
    match path.is_empty() {
        true => Err(Refusal::new("names no path", format!("Write {scheme}:PATH."))),
        false => Ok(expand_home(path)),
    }
}

/// A path, with `~/` as the home folder: behind a colon or an equals sign no shell sees to it.
pub fn expand_home(path: &str) -> String {
    let home = || std::env::var("HOME").ok().filter(|home| !home.is_empty());
    match path.strip_prefix("~/").zip(home()) {
        Some((rest, home)) => format!("{home}/{rest}"),
        None => path.to_owned(),
    }
}

fn read_server(rest: &str) -> Result<UrlServer, Refusal> {
    let after = rest.strip_prefix("//").unwrap_or(rest);
    let (authority, name) = after.split_once('/').unwrap_or((after, ""));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(decode(user)?).filter(|user| !user.is_empty()), hosts),
        None => (None, authority),
    };
    let hosts = match hosts.is_empty() {
        true => Vec::new(),
        false => hosts.split(',').map(read_host).collect::<Result<_, _>>()?,
    };
    Ok(UrlServer { user, hosts, name: decode(name)? })
}

fn read_host(text: &str) -> Result<UrlHost, Refusal> {
    let bad = || {
        Refusal::new(
            "has a host that is not host or host:port",
            "Write host:port with a port from 1 to 65535, [address]:port for IPv6, and \
             percent-encode / ? # in a password as %2F %3F %23.",
        )
    };
    let (host, port) = match text.strip_prefix('[') {
        Some(inside) => {
            let (host, after) = inside.split_once(']').ok_or_else(bad)?;
            match after {
                "" => (host, None),
                _ => (host, Some(after.strip_prefix(':').ok_or_else(bad)?)),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map(|port| port.parse::<u16>().map_err(|_| bad())).transpose()?;
    if host.is_empty() || port == Some(0) {
        return Err(bad());
    }
    Ok(UrlHost { host: decode(host)?, port })
}

/// Percent-decoding. A `%` that begins no pair of hex digits is refused rather than kept.
fn decode(text: &str) -> Result<String, Refusal> {
    let bad = || {
        Refusal::new(
            "has a % that does not begin two hex digits of UTF-8 text",
            "Write %25 for a percent sign.",
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = left.next().zip(left.next()).ok_or_else(bad)?;
        let high = char::from(digits.0).to_digit(16).ok_or_else(bad)?;
        let low = char::from(digits.1).to_digit(16).ok_or_else(bad)?;
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| bad())?);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Percent-encodes characters that have a meaning in a URL.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '%' | '&' | '=' | '?' | '#' | '@' | ' ' => {
                encoded.push_str(&format!("%{:02X}", u32::from(character)));
            }
            other => encoded.push(other),
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
