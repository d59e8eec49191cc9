//! The one table of parameters: name, values and meaning of each, and how each engine supports it.
//! Parsing, validation, `--help`, `petal help parameters` and docs/parameters.md all come from it;
//! no parameter is named in a list anywhere else.
//!
//! Rules between parameters are in [`super::rules`].

mod conf_file;
mod help;
mod parameters;
pub mod support;
mod value;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use conf_file::conf_file;
pub(crate) use help::capitalised;
pub use help::{help_text, markdown};
pub use parameters::PARAMETERS;
pub use support::{EngineSupport, Support};
pub use value::{SettingField, Value};

use super::Settings;

/// A parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Name in slob.conf and the environment. The flag's name follows from it.
    pub key: &'static str,
    pub kind: ValueKind,
    /// The default, as a person would write it; empty: unset.
    pub default: &'static str,
    /// Words for the default in help, if its text does not say it.
    pub default_words: Option<&'static str>,
    /// Further rules than the kind's own, in words; those are checked in [`super::rules`].
    pub also: &'static str,
    pub meaning: &'static str,
    pub group: Group,
    pub taken_by: TakenBy,
    access: SettingAccess,
    /// Returns the value in force; None: the field as it is.
    shown: Option<fn(&Settings) -> serde_json::Value>,
}

/// The place of a parameter in the settings.
#[derive(Debug)]
enum SettingAccess {
    /// A field that holds the value as a record has it.
    Field(fn(&mut Settings) -> &mut dyn SettingField),
    /// A setter of anything else.
    Own(fn(&mut Settings, &Value)),
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueKind {
    /// 0 to 100, whole.
    Percent,
    /// A whole number.
    Count {
        min: u64,
        max: u64,
    },
    /// A whole number of times from 1, such as `2x`.
    Times {
        max: u64,
    },
    /// Whole seconds.
    Seconds {
        min: u64,
        max: u64,
    },
    /// A decimal number; `above`: greater than `min`, else at least.
    Decimal {
        min: f64,
        above: bool,
    },
    /// Operations per second, constant or in steps over time.
    Rates {
        /// None at all is one, too.
        may_be_zero: bool,
    },
    /// Blocks, or bytes with a unit.
    Extent,
    /// Bytes, with or without a unit.
    Bytes,
    /// A block size that petal knows.
    BlockSize,
    Boolean,
    /// A word of these, in any case.
    OneOf(&'static [&'static str]),
    Text,
    /// A user's name without a password in it.
    User,
    Path,
    Secret,
    Url,
    /// Seconds, or `cache`.
    WarmUp,
}

/// The part of help that shows a parameter; [`Group::ALL`] has their order and headings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Target,
    Data,
    Mix,
    Length,
    Pattern,
    Io,
    Evidence,
    Oracle,
}

impl Group {
    pub const ALL: [(Self, &str); 8] = [
        (Self::Target, "Target and results"),
        (Self::Data, "Data"),
        (Self::Mix, "Operations and sessions"),
        (Self::Length, "Length and repeats"),
        (Self::Pattern, "Hot spots and think time"),
        (Self::Io, "How I/O is done"),
        (Self::Evidence, "Recorded with a run"),
        (Self::Oracle, "Connections, Oracle style"),
    ];

    /// The parameters of the group, in the table's order.
    pub fn parameters(self) -> impl Iterator<Item = &'static Parameter> {
        PARAMETERS.iter().filter(move |parameter| parameter.group == self)
    }
}

/// The commands that read settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandKind {
    Setup,
    /// A run, and every cell of a sweep.
    Run,
    Sweep,
    /// Commands that only open the target: drop, check.
    Target,
}

/// Commands that take a parameter as a flag. The file and the environment may hold it for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenBy {
    Setup,
    Run,
    SetupAndRun,
    /// Every command that opens a target.
    All,
}

impl TakenBy {
    pub fn includes(self, command: CommandKind) -> bool {
        match (self, command) {
            (Self::All, _) => true,
            (_, CommandKind::Target) => false,
            (Self::SetupAndRun, _) => true,
            (Self::Setup, command) => command == CommandKind::Setup,
            (Self::Run, command) => command != CommandKind::Setup,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Run => "run, sweep",
            Self::SetupAndRun => "setup, run, sweep",
            Self::All => "every command that opens a target",
        }
    }
}

/// Flags by key, made once.
static FLAGS: LazyLock<BTreeMap<&'static str, String>> = LazyLock::new(|| {
    PARAMETERS
        .iter()
        .map(|parameter| (parameter.key, parameter.key.to_ascii_lowercase().replace('_', "-")))
        .collect()
});

impl Parameter {
    /// Sets its field, by a value of its kind; unset if none is given and there is no default.
    pub fn set(&self, settings: &mut Settings, value: &Value) {
        match self.access {
            SettingAccess::Field(field) => field(settings).set(value),
            SettingAccess::Own(set) => set(settings, value),
        }
    }

    /// Returns the value in force in validated settings, for the record; secrets never.
    pub fn in_force(&self, settings: &mut Settings) -> serde_json::Value {
        match (self.shown, &self.access) {
            (Some(shown), _) => shown(settings),
            (None, SettingAccess::Field(field)) => field(settings).json(),
            (None, SettingAccess::Own(_)) => serde_json::Value::Null,
        }
    }

    /// `update-pct` of UPDATE_PCT.
    pub fn flag(&self) -> &'static str {
        FLAGS.get(self.key).map_or("", String::as_str)
    }

    /// True when its text may hold a password, rightly or by mistake.
    pub fn may_hold_secret(&self) -> bool {
        matches!(self.kind, ValueKind::Secret | ValueKind::Url | ValueKind::User)
    }

    /// The default as people read it.
    pub fn default_words(&self) -> &'static str {
        match (self.default_words, self.default) {
            (Some(words), _) => words,
            (None, "") => "none",
            (None, text) => text,
        }
    }

    /// The name of its value in help.
    pub fn value_name(&self) -> &'static str {
        match self.kind {
            ValueKind::Percent => "PERCENT",
            ValueKind::Count { .. } => "N",
            ValueKind::Times { .. } => "Nx",
            ValueKind::Seconds { .. } => "SECONDS",
            ValueKind::Decimal { .. } => "NUMBER",
            ValueKind::Rates { .. } => "RATE",
            ValueKind::Extent | ValueKind::Bytes | ValueKind::BlockSize => "SIZE",
            ValueKind::Boolean => "TRUE|FALSE",
            ValueKind::OneOf(_) => "WORD",
            ValueKind::Text => "TEXT",
            ValueKind::User => "USER",
            ValueKind::Path => "PATH",
            ValueKind::Secret => "SECRET",
            ValueKind::Url => "URL",
            ValueKind::WarmUp => "SECONDS|cache",
        }
    }

    /// The values it takes, in words: kind and further rules.
    pub fn values(&self) -> String {
        match self.also {
            "" => self.kind.values(),
            also => format!("{}; {also}", self.kind.values()),
        }
    }
}

/// The parameter of this exact key.
pub fn find(key: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.key == key)
}

/// Returns the known key closest to a misspelt one; `None` if no key is close.
pub fn nearest(key: &str) -> Option<&'static str> {
    let distance_max = (key.len() / 3).max(2);
    closest(
        &key.to_ascii_uppercase(),
        PARAMETERS.iter().map(|parameter| parameter.key),
        distance_max,
    )
}

/// Returns the known key that this is a slip of the pen of: in two letters at most, a short one in one.
pub fn slip_of(key: &str) -> Option<&'static str> {
    let distance_max = if key.len() < 6 { 1 } else { 2 };
    closest(
        &key.to_ascii_uppercase(),
        PARAMETERS.iter().map(|parameter| parameter.key),
        distance_max,
    )
}

/// Returns the word that differs from `text` in the fewest letters, in at most this number.
pub fn closest<'a>(
    text: &str,
    words: impl IntoIterator<Item = &'a str>,
    distance_max: usize,
) -> Option<&'a str> {
    let words = words.into_iter().map(|word| (strsim::damerau_levenshtein(text, word), word));
    let near = words.filter(|(distance, _)| *distance <= distance_max);
    near.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

#[cfg(test)]
mod tests;
