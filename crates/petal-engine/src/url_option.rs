//! Options of a target's URL, as all engines read them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{EngineError, Result};
use petal_settings::size::{format_bytes, parse_bytes};
use petal_settings::url::TargetUrl;

/// Shown in place of the value of an option that petal does not know: it may be a password.
const HIDDEN: &str = "...";

/// The environment by name, so that tests have their own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The options of URLs of one scheme.
#[derive(Clone, Copy)]
pub struct UrlOptions(pub &'static str);

impl UrlOptions {
    /// Refuses an option: names the key, its value, the rule and what to do.
    pub fn refused(self, key: &str, value: &str, rule: &str, hint: &str) -> EngineError {
        let scheme = self.0;
        EngineError::Setting(format!("DB={scheme}:...?{key}={value}: {key} {rule}; {hint}"))
    }

    /// Refuses an option that the engine does not know, by those that it has.
    pub fn unknown(self, key: &str, there_are: &str) -> EngineError {
        let rule = format!("is no option of {}:", self.0);
        self.refused(key, HIDDEN, &rule, &format!("it has {there_are}"))
    }

    /// Refuses an option that the engine does not know. `is_known` is asked for its name and value.
    pub fn check_names(
        self,
        options: &BTreeMap<String, String>,
        names: &[&str],
        is_known: impl Fn(&str, &str) -> bool,
    ) -> Result<()> {
        match options.iter().find(|(name, value)| !is_known(name, value)) {
            None => Ok(()),
            Some((name, _)) => Err(self.unknown(name, &names.join(", "))),
        }
    }

    /// The value of this name, or else the first of those that there are.
    pub fn one_of<T: Copy>(self, key: &str, given: Option<&str>, known: &[(&str, T)]) -> Result<T> {
        let Some(text) = given else { return Ok(known[0].1) };
        known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let names = match names.as_slice() {
                [others @ .., last] if !others.is_empty() => {
                    format!("{} or {last}", others.join(", "))
                }
                all => all.concat(),
            };
            self.refused(key, text, "is not known", &format!("use {names}"))
        })
    }

    /// The path of a URL, which names a file or a folder and has no password. `what` it must name,
    /// with an example of it.
    pub fn path<'a>(self, url: &'a TargetUrl, what: &str, example: &str) -> Result<&'a str> {
        let scheme = self.0;
        if url.rest.is_empty() {
            return Err(EngineError::Setting(format!(
                "DB={scheme}: names no {what}; give one, as in {scheme}:{example}"
            )));
        }
        if url.password.is_some() {
            let url = url.redacted();
            return Err(EngineError::Setting(format!(
                "DB={url}: {scheme}: takes no password; leave it out"
            )));
        }
        Ok(&url.rest)
    }

    /// Whole seconds in which to connect.
    pub fn connect_timeout(self, given: Option<&str>, default: Duration) -> Result<Duration> {
        let Some(text) = given else { return Ok(default) };
        match text.parse::<u32>() {
            Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds.into())),
            _ => {
                let hint = "give whole seconds from 1";
                Err(self.refused("connect_timeout", text, "is no time", hint))
            }
        }
    }

    /// A size in bytes within `range`.
    pub fn size(
        self,
        key: &str,
        value: &str,
        range: RangeInclusive<u64>,
        hint: &str,
    ) -> Result<u64> {
        let refused = |rule: &str| self.refused(key, value, rule, hint);
        let bytes = parse_bytes(value).map_err(|_| refused("is not a size"))?;
        if range.contains(&bytes) {
            return Ok(bytes);
        }
        let (min, max) = (format_bytes(*range.start()), format_bytes(*range.end()));
        Err(refused(&format!("is not between {min} and {max}")))
    }
}
