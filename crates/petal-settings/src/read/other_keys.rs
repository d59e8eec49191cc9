//! Keys of other programs' and older settings files: keys of a pgio.conf are understood, keys of
//! older releases and forks of SLOB name their successors.

use crate::conf::{Assignment, Conf};
use crate::table::{self, support};

/// The number of schemas, which petal takes as a flag.
pub(super) const SCHEMAS: &str = "NUM_SCHEMAS";

/// Parameters, each with the keys of a pgio.conf that say the same.
const OF_PGIO: [(&str, &[&str]); 3] =
    [("-s", &[SCHEMAS]), ("THREADS_PER_SCHEMA", &["NUM_THREADS"]), ("DB", &DATABASES)];

const DATABASES: [&str; 2] = ["DBNAME", "CONNECT_STRING"];

/// Keys that SLOB renamed before its version 2.4.
const BEFORE_SLOB_2_4: [(&str, &str); 4] = [
    ("SHARED_DATA_MODULUS", "it is HOT_SCHEMA_FREQUENCY now"),
    ("THINK_TM_MODULUS", "it is THINK_TM_FREQUENCY now"),
    ("DO_UPDATE_HOTSPOT", "it is DO_HOTSPOT now"),
    ("HOTSPOT_PCT", "HOTSPOT_MB is the size of the hot spot now"),
];

/// Keys of a pgio.conf whose values petal cannot take, or does not need.
const NOT_TAKEN: [(&str, &str); 5] = [
    (SCHEMAS, "it is -s here"),
    ("NUM_THREADS", "it is THREADS_PER_SCHEMA here"),
    ("DBNAME", "write the database's URL as DB"),
    ("CONNECT_STRING", "write the database's URL as DB"),
    ("CREATE_BASE_TABLE", "petal setup needs no base table"),
];

/// True of a settings file with keys that SLOB renamed before its version 2.4.
pub(super) fn is_before_slob_2_4(conf: &Conf) -> bool {
    BEFORE_SLOB_2_4.iter().any(|(key, _)| conf.last(key).is_some())
}

/// The assignment that says the same as a parameter's own key, or as `-s`.
pub(super) fn entry(conf: &Conf, parameter: &str) -> Option<Assignment> {
    let (_, keys) = OF_PGIO.iter().find(|(own, _)| *own == parameter)?;
    keys.iter().find_map(|key| of_pgio(conf, key))
}

/// An assignment of a pgio.conf, which the number of schemas or of threads shows it to be.
fn of_pgio(conf: &Conf, key: &str) -> Option<Assignment> {
    let is_one = [SCHEMAS, "NUM_THREADS"].iter().any(|key| conf.last(key).is_some());
    let entry = conf.last(key).filter(|entry| is_one && !entry.value.is_empty())?;
    if !DATABASES.contains(&key) {
        return Some(entry.clone());
    }
    // A text that needs quotes in a URL may hold more than a name.
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_-".contains(sign);
    let value = format!("{}:///{}", support::CONNECTION_TEXT.scheme, entry.value);
    entry.value.chars().all(is_plain).then(|| Assignment { value, ..entry.clone() })
}

/// Says how petal treats a key that is not one of its parameters.
pub(super) fn advice(conf: &Conf, key: &str) -> String {
    let read_as = OF_PGIO.iter().find(|(_, keys)| keys.contains(&key)).map(|(own, _)| *own);
    if let Some(own) = read_as.filter(|_| of_pgio(conf, key).is_some()) {
        return match conf.last(own).is_some() {
            true => format!("unknown parameter {key} (ignored); {own} is set"),
            false => format!("{key} is read as {own}"),
        };
    }
    let successor = BEFORE_SLOB_2_4.iter().chain(&NOT_TAKEN).find(|(old, _)| *old == key);
    let advice = successor.map_or_else(
        || match table::nearest(key) {
            None => "petal help parameters lists all".to_owned(),
            Some(near) => format!("{near}?"),
        },
        |(_, words)| (*words).to_owned(),
    );
    format!("unknown parameter {key} (ignored); {advice}")
}

/// The parameter that a key is a slip of the pen of. Such a line is refused: a run without it would be
/// another one than was meant.
pub(super) fn slip(key: &str) -> Option<&'static str> {
    let is_other = || {
        let of_pgio = OF_PGIO.iter().any(|(_, keys)| keys.contains(&key));
        of_pgio || BEFORE_SLOB_2_4.iter().chain(&NOT_TAKEN).any(|(old, _)| *old == key)
    };
    table::slip_of(key).filter(|_| !is_other())
}
