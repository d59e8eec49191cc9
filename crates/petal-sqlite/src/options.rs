//! The options of a `sqlite:` URL, each validated once.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use petal_engine::Result;
use petal_engine::url_option::UrlOptions;

/// PRAGMA synchronous: how a session's commit is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    Off,
    Normal,
    Full,
    Extra,
}

impl Synchronous {
    const ALL: [Self; 4] = [Self::Full, Self::Normal, Self::Off, Self::Extra];

    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "OFF",
            Self::Normal => "NORMAL",
            Self::Full => "FULL",
            Self::Extra => "EXTRA",
        }
    }

    /// Returns true if a commit survives a power cut. In WAL mode NORMAL syncs the WAL only before
    /// a checkpoint, so a commit can be lost.
    pub fn is_durable(self) -> bool {
        matches!(self, Self::Full | Self::Extra)
    }
}

/// Large enough to write often changed pages once, small enough for many in a minute.
pub const CHECKPOINT_BYTES_DEFAULT: u64 = 16 << 20;
const CHECKPOINT_BYTES: RangeInclusive<u64> = 64 << 10..=64 << 30;
const CACHE_BYTES: RangeInclusive<u64> = 0..=1 << 40;
pub const OPTIONS: UrlOptions = UrlOptions("sqlite");
const SIZE_HINT: &str = "give a size such as 512K, 16M or 1G";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Page cache of each session; None: just enough that a row costs one read.
    pub cache_bytes: Option<u64>,
    pub synchronous: Synchronous,
    /// The WAL's size at which petal checkpoints.
    pub checkpoint_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: None,
            synchronous: Synchronous::Full,
            checkpoint_bytes: CHECKPOINT_BYTES_DEFAULT,
        }
    }
}

impl Options {
    pub fn parse(given: &BTreeMap<String, String>) -> Result<Self> {
        let mut options = Self::default();
        for (key, value) in given {
            match key.as_str() {
                "cache" => {
                    options.cache_bytes = Some(OPTIONS.size(key, value, CACHE_BYTES, SIZE_HINT)?);
                }
                "checkpoint" => {
                    options.checkpoint_bytes =
                        OPTIONS.size(key, value, CHECKPOINT_BYTES, SIZE_HINT)?;
                }
                "synchronous" => options.synchronous = synchronous(value)?,
                "journal" | "journal_mode" => {
                    return Err(OPTIONS.refused(
                        key,
                        value,
                        "is no option: petal always uses WAL, the only mode in which readers \
                         and a writer work at once",
                        "leave it out",
                    ));
                }
                _ => {
                    let there_are =
                        "cache=SIZE, checkpoint=SIZE and synchronous=FULL|NORMAL|OFF|EXTRA";
                    return Err(OPTIONS.unknown(key, there_are));
                }
            }
        }
        Ok(options)
    }
}

fn synchronous(value: &str) -> Result<Synchronous> {
    let known = Synchronous::ALL.map(|mode| (mode.name(), mode));
    OPTIONS.one_of("synchronous", Some(&value.to_ascii_uppercase()), &known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[(&str, &str)]) -> Result<Options, String> {
        let given = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        Options::parse(&given).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read() {
        let expected = Options {
            cache_bytes: Some(64 << 20),
            synchronous: Synchronous::Normal,
            checkpoint_bytes: 1 << 20,
        };
        let given = [("cache", "64M"), ("synchronous", "normal"), ("checkpoint", "1m")];
        assert_eq!(parse(&given), Ok(expected));
        assert_eq!(parse(&[]), Ok(Options::default()));
    }

    #[test]
    fn refusals_name_key_value_rule_and_hint() {
        insta::assert_snapshot!(parse(&[("cahce", "1M")]).unwrap_err(), @"DB=sqlite:...?cahce=...: cahce is no option of sqlite:; it has cache=SIZE, checkpoint=SIZE and synchronous=FULL|NORMAL|OFF|EXTRA");
        insta::assert_snapshot!(parse(&[("cache", "lots")]).unwrap_err(), @"DB=sqlite:...?cache=lots: cache is not a size; give a size such as 512K, 16M or 1G");
        insta::assert_snapshot!(parse(&[("checkpoint", "1K")]).unwrap_err(), @"DB=sqlite:...?checkpoint=1K: checkpoint is not between 64K and 64G; give a size such as 512K, 16M or 1G");
        insta::assert_snapshot!(parse(&[("synchronous", "2")]).unwrap_err(), @"DB=sqlite:...?synchronous=2: synchronous is not known; use FULL, NORMAL, OFF or EXTRA");
        assert!(parse(&[("journal", "delete")]).is_err());
        assert!(parse(&[("cache", "99999999999T")]).is_err());
    }
}
