//! The contract of `petal sweep --server-setting`: settings of a whole server that petal changes for
//! a cell and puts back. An engine reads and stores one setting; petal decides when, keeps a journal
//! of the original values and restarts the server.

use super::{Engine, EngineError, Result};

/// A server whose settings petal can change.
pub trait ChangeableSettings: Send + Sync {
    /// An identity of the server that it keeps after a restart.
    fn server_identity(&self) -> Result<String>;

    /// The place of stored values, for a person who removes one by hand.
    fn place(&self) -> &'static str;

    /// Takes the server's lock for changes of its settings, or for a proof that they would spoil. An error
    /// names the petal that has it.
    fn lock_settings(&self) -> Result<Box<dyn SettingsLock>>;

    /// Reads a setting as it is now. Refuses a setting that petal does not change, and a role that
    /// may not change it.
    fn read_setting(&self, name: &str) -> Result<ServerSetting>;

    /// Stores a value, or removes the stored one. The server applies it at once if it can do so
    /// without a restart.
    fn store_setting(&self, setting: &ServerSetting, value: Option<&str>) -> Result<()>;
}

/// The lock for changes of a server's settings, until it is dropped or its connection ends.
pub trait SettingsLock: Send {
    fn is_held(&mut self) -> bool;
}

/// The refusal of a petal that wants the lock of another one.
pub fn settings_locked(server: &str, holder: &str) -> EngineError {
    EngineError::Environment(format!(
        "{server}: {holder} changes or proves this server; wait until it has ended, or stop it"
    ))
}

/// A setting of a server, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSetting {
    /// Name as the server writes it.
    pub name: String,
    /// The value in effect for a new session.
    pub in_effect: String,
    /// The value in the place that petal changes; `None` without an entry there.
    pub stored: Option<String>,
    pub applies: Applies,
    /// A stored value takes effect only when the server is restarted next.
    pub is_pending: bool,
    pub values: SettingValues,
    /// The memory of the server's host in units of the setting, if the setting reserves memory: the
    /// server does not start with more. It is infinite if petal does not know it.
    pub memory: Option<f64>,
}

/// The moment at which a stored value takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    AtOnce,
    /// Takes effect at once, and a restart forgets it.
    UntilRestart,
    AfterRestart,
}

/// A setting that petal may change: it has to do with speed, and no value of its range is a program,
/// a file, a right or a danger to data. Also a record that somebody else made changes no other.
#[derive(Debug)]
pub struct PermittedSetting {
    pub name: &'static str,
    pub range: PermittedRange,
    /// The server reserves so much memory when it starts.
    pub is_memory: bool,
    /// True if a value takes effect when the server restarts; with MySQL alone, not MariaDB.
    pub needs_restart: bool,
}

#[derive(Debug)]
pub enum PermittedRange {
    Switch,
    Words(&'static [&'static str]),
    /// The lowest and the highest value, in the server's own notation.
    Numbers(&'static str, &'static str),
}

impl PermittedSetting {
    const fn new(name: &'static str, range: PermittedRange) -> Self {
        Self { name, range, is_memory: false, needs_restart: false }
    }

    pub const fn switch(name: &'static str) -> Self {
        Self::new(name, PermittedRange::Switch)
    }

    pub const fn words(name: &'static str, words: &'static [&'static str]) -> Self {
        Self::new(name, PermittedRange::Words(words))
    }

    pub const fn numbers(name: &'static str, min: &'static str, max: &'static str) -> Self {
        Self::new(name, PermittedRange::Numbers(min, max))
    }

    pub const fn memory(name: &'static str, min: &'static str, max: &'static str) -> Self {
        Self { is_memory: true, ..Self::numbers(name, min, max) }
    }

    pub const fn after_restart(self) -> Self {
        Self { needs_restart: true, ..self }
    }

    /// Finds a setting in an engine's list.
    pub fn find(all: &'static [Self], name: &str) -> Result<&'static Self> {
        all.iter().find(|setting| setting.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
            EngineError::Setting(format!(
                "{name}: petal does not change this setting, only those listed in \
                 docs/recipes/server-settings.md; change it yourself between sweeps"
            ))
        })
    }

    /// The values that both the server and petal permit.
    pub fn permit(&self, of_server: SettingValues) -> Result<SettingValues> {
        let unlike = || {
            EngineError::Setting(format!(
                "{}: this server has another kind of values for it than petal knows; change it \
                 yourself between sweeps",
                self.name
            ))
        };
        Ok(match (&self.range, of_server) {
            (PermittedRange::Switch | PermittedRange::Words(_), SettingValues::Switch) => {
                SettingValues::Switch
            }
            (PermittedRange::Words(words), SettingValues::Words(mut there)) => {
                there.retain(|word| words.iter().any(|one| one.eq_ignore_ascii_case(word)));
                SettingValues::Words(there)
            }
            (PermittedRange::Words(words), _) => {
                SettingValues::Words(words.iter().map(|word| (*word).to_owned()).collect())
            }
            (
                PermittedRange::Numbers(from, to),
                SettingValues::Number { units, is_whole, min, max },
            ) => {
                let bound = |text| number(text, &units, is_whole).ok_or_else(unlike);
                let (min, max) = (bound(from)?.max(min), bound(to)?.min(max));
                SettingValues::Number { units, is_whole, min, max }
            }
            _ => return Err(unlike()),
        })
    }

    /// The setting as a row of a page.
    pub fn row(&self) -> String {
        let range = match self.range {
            PermittedRange::Switch => "on, off".to_owned(),
            PermittedRange::Words(words) => words.join(", "),
            PermittedRange::Numbers(min, max) => format!("{min} to {max}"),
        };
        let range = if self.is_memory { format!("{range}; the host's memory") } else { range };
        let applies = if self.needs_restart { "after a restart" } else { "at once" };
        format!("| `{}` | {range} | {applies} |\n", self.name)
    }
}

impl ServerSetting {
    /// Returns a value in the server's own form. Refuses one that petal does not store, and one with
    /// which the server does not start, as a clause.
    pub fn permitted(&self, text: &str) -> Result<String, String> {
        let value = self.values.normal(text)?;
        let is_more = |memory| value.parse::<f64>().is_ok_and(|value| value > memory);
        match self.memory.filter(|memory| is_more(*memory)) {
            None => Ok(value),
            Some(_) => {
                Err("is more than the memory of the server's host: it would not start".into())
            }
        }
    }
}

/// The values that a setting may have.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingValues {
    Switch,
    /// Words of a list; the case does not matter.
    Words(Vec<String>),
    /// A number. Each unit has its size in units of the value in effect.
    Number {
        units: Vec<(&'static str, f64)>,
        is_whole: bool,
        min: f64,
        max: f64,
    },
    Text,
}

impl SettingValues {
    /// Returns a value in the server's own form; an error is a clause that ends in "must be ...".
    pub fn normal(&self, text: &str) -> Result<String, String> {
        match self {
            Self::Switch => match text.to_ascii_lowercase().as_str() {
                "on" | "true" | "yes" | "1" => Ok("on".to_owned()),
                "off" | "false" | "no" | "0" => Ok("off".to_owned()),
                _ => Err("must be on or off".to_owned()),
            },
            Self::Words(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
                word.cloned().ok_or_else(|| format!("must be one of {}", words.join(", ")))
            }
            Self::Text => Ok(text.to_owned()),
            Self::Number { units, is_whole, min, max } => {
                let number = number(text, units, *is_whole);
                let number = number.filter(|number| (*min..=*max).contains(number));
                number.map(|number| number.to_string()).ok_or_else(|| {
                    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
                    let units = match names.is_empty() {
                        true => String::new(),
                        false => {
                            format!(", or a number with one of the units {}", names.join(", "))
                        }
                    };
                    format!("must be a number from {min} to {max}{units}")
                })
            }
        }
    }

    /// True if two texts are one value of the setting.
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        one == other || self.normal(one).is_ok_and(|one| self.normal(other) == Ok(one))
    }
}

fn number(text: &str, units: &[(&'static str, f64)], is_whole: bool) -> Option<f64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    // PostgreSQL takes a number that begins with 0 for an octal one.
    let is_octal = digits.strip_prefix('0').is_some_and(|rest| rest.starts_with(char::is_numeric));
    if is_octal {
        return None;
    }
    let size = match unit {
        "" => 1.0,
        unit => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    let number = digits.trim_end().parse::<f64>().ok().filter(|number| number.is_finite())? * size;
    Some(if is_whole { number.round() } else { number })
}

/// Takes the server's lock for changes: the data of two proofs have one name, and a sweep of settings would
/// change its promises. `None` if the server has no such lock, or refuses the question.
pub fn alone(engine: &dyn Engine) -> Result<Option<Box<dyn SettingsLock>>> {
    let settings = engine.server().and_then(|server| server.settings());
    match settings.map(|settings| settings.lock_settings()) {
        Some(Ok(lock)) => Ok(Some(lock)),
        Some(Err(locked @ EngineError::Environment(_))) => Err(locked),
        Some(Err(_)) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_value_are_the_same() {
        let blocks = SettingValues::Number {
            units: vec![("kB", 1.0 / 8.0), ("MB", 128.0), ("GB", 131_072.0)],
            is_whole: true,
            min: 16.0,
            max: 1e9,
        };
        assert_eq!(blocks.normal("1GB"), Ok("131072".to_owned()));
        assert_eq!(blocks.normal("0.5 GB"), Ok("65536".to_owned()));
        assert!(blocks.is_same("1024MB", "131072") && !blocks.is_same("1GB", "131073"));
        for wrong in ["1gb", "1TB", "GB", "", "8", "inf", "nan", "1e400", "01GB"] {
            assert!(blocks.normal(wrong).is_err_and(|why| why.contains("kB, MB, GB")), "{wrong}");
        }
        let methods = SettingValues::Words(vec!["sync".to_owned(), "worker".to_owned()]);
        assert!(methods.is_same("SYNC", "sync") && !methods.is_same("sync", "worker"));
        assert_eq!(methods.normal("x"), Err("must be one of sync, worker".to_owned()));
        assert!(
            SettingValues::Switch.is_same("ON", "true")
                && !SettingValues::Switch.is_same("on", "0")
        );
        assert!(SettingValues::Text.is_same("a", "a") && !SettingValues::Text.is_same("a", "A"));
    }
}
