//! The keys and values that a load left in a database's `petal_meta`, read strictly. A key
//! that is missing or odd is of a petal that this one does not know.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::EngineError;
use crate::workload::row::Filler;

pub struct MetaValues<'a> {
    pub values: BTreeMap<String, String>,
    /// Their place, such as a server.
    pub place: &'a str,
    /// Which they are, such as `petal_meta of schema 3`.
    pub of: String,
}

impl MetaValues<'_> {
    pub fn text(&self, key: &str) -> Result<&str, EngineError> {
        self.values.get(key).map(String::as_str).ok_or_else(|| self.unknown(key))
    }

    pub fn get<T: FromStr>(&self, key: &str) -> Result<T, EngineError> {
        self.text(key)?.parse().map_err(|_| self.unknown(key))
    }

    /// The layout's version must be this petal's.
    pub fn check_format(&self, format: u32) -> Result<(), EngineError> {
        if self.get::<u32>("format")? == format { Ok(()) } else { Err(self.unknown("format")) }
    }

    pub fn filler(&self) -> Result<Filler, EngineError> {
        Filler::parse(self.text("filler")?).ok_or_else(|| self.unknown("filler"))
    }

    fn unknown(&self, key: &str) -> EngineError {
        EngineError::Data(format!(
            "{}: this petal does not understand {} ({key}); load it again with this petal (petal \
             setup --replace) or use the petal that loaded it",
            self.place, self.of
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_odd_is_of_another_petal() {
        let values = [("format", "1"), ("rows", "many"), ("filler", "velvet")];
        let values = values.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let kept = MetaValues { values, place: "db1", of: "petal_meta of schema 3".to_owned() };
        assert!(kept.check_format(1).is_ok() && kept.filler().is_err());
        insta::assert_snapshot!(kept.check_format(2).unwrap_err(), @"db1: this petal does not understand petal_meta of schema 3 (format); load it again with this petal (petal setup --replace) or use the petal that loaded it");
        assert!(kept.get::<u64>("rows").unwrap_err().to_string().contains("(rows)"));
        assert!(kept.text("seed").unwrap_err().to_string().contains("(seed)"));
    }
}
