//! The options of a `device:` URL.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::layout::ALIGNMENT;
use super::queue::BackendChoice;
use petal_engine::Result;
use petal_engine::url_option::UrlOptions;

#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    pub io: BackendChoice,
    /// Size of the log area that a setup makes.
    pub log_bytes: u64,
    /// Maximum size of the dirty set, the changed blocks that wait to be written.
    pub dirty_bytes: u64,
    /// Writes that the background writer keeps in flight.
    pub write_depth: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            io: BackendChoice::Best,
            log_bytes: 64 << 20,
            dirty_bytes: 64 << 20,
            write_depth: 32,
        }
    }
}

pub const OPTIONS: UrlOptions = UrlOptions("device");
/// Allowed sizes of the log area and of the dirty set.
const AREA_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 40;
const WRITE_DEPTH_MAX: u32 = 1024;

impl Options {
    pub fn parse(given: &BTreeMap<String, String>) -> Result<Self> {
        let mut options = Self::default();
        for (key, value) in given {
            match key.as_str() {
                "io" => options.io = choice(value)?,
                "log" => {
                    options.log_bytes = size(key, value)?.next_multiple_of(ALIGNMENT);
                }
                "dirty" => options.dirty_bytes = size(key, value)?,
                "write_depth" => options.write_depth = count(key, value, WRITE_DEPTH_MAX)?,
                _ => {
                    let there_are = "io=uring|pread, log=SIZE, dirty=SIZE and write_depth=N";
                    return Err(OPTIONS.unknown(key, there_are));
                }
            }
        }
        Ok(options)
    }
}

fn choice(value: &str) -> Result<BackendChoice> {
    match value.to_ascii_lowercase().as_str() {
        "uring" | "io_uring" => Ok(BackendChoice::Uring),
        "pread" => Ok(BackendChoice::Calls),
        _ => Err(OPTIONS.refused(
            "io",
            value,
            "is not known",
            "write io=uring or io=pread, or leave it out: io_uring if it works",
        )),
    }
}

fn count(key: &str, value: &str, max: u32) -> Result<u32> {
    value.parse().ok().filter(|count| (1..=max).contains(count)).ok_or_else(|| {
        OPTIONS.refused(key, value, &format!("is not from 1 to {max}"), "give a whole number")
    })
}

fn size(key: &str, value: &str) -> Result<u64> {
    OPTIONS.size(key, value, AREA_BYTES, "give a size such as 4M, 64M or 1G")
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
            io: BackendChoice::Calls,
            log_bytes: 4 << 20,
            dirty_bytes: 8 << 20,
            write_depth: 5,
        };
        let given = [("io", "pread"), ("log", "4M"), ("dirty", "8M"), ("write_depth", "5")];
        assert_eq!(parse(&given), Ok(expected));
        assert_eq!(parse(&[]), Ok(Options::default()));
    }

    #[test]
    fn refusals_name_key_value_rule_and_hint() {
        insta::assert_snapshot!(parse(&[("lug", "1M")]).unwrap_err(), @"DB=device:...?lug=...: lug is no option of device:; it has io=uring|pread, log=SIZE, dirty=SIZE and write_depth=N");
        insta::assert_snapshot!(parse(&[("log", "1K")]).unwrap_err(), @"DB=device:...?log=1K: log is not between 1M and 1T; give a size such as 4M, 64M or 1G");
        insta::assert_snapshot!(parse(&[("io", "aio")]).unwrap_err(), @"DB=device:...?io=aio: io is not known; write io=uring or io=pread, or leave it out: io_uring if it works");
        assert!(parse(&[("write_depth", "0")]).is_err());
    }
}
