//! Advice: what to change in the server if a finding asks for it. The sentences go into the record, so
//! that reports advise without knowing the engine.

use std::collections::BTreeMap;

use petal_record::target::{Advice, NotableSetting};

/// Lowest `innodb_io_capacity` at which background flushing suits flash storage.
const IO_CAPACITY_LOW: u64 = 1000;

/// Settings that shape a result and that few would choose for a test.
pub fn notable_settings(settings: &BTreeMap<String, String>) -> Vec<NotableSetting> {
    let get = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
    let mut notable = Vec::new();
    let mut note = |of_updates: bool, effect: String, advice: &str| {
        notable.push(NotableSetting { effect, advice: advice.to_owned(), of_updates });
    };
    let (capacity, most) = (get("innodb_io_capacity"), get("innodb_io_capacity_max"));
    if capacity.parse().is_ok_and(|pages: u64| pages < IO_CAPACITY_LOW) {
        note(
            true,
            format!(
                "innodb_io_capacity={capacity} (max {most}): background flushing aims at about so many \
                 changed pages a second until it falls behind, then at up to the max"
            ),
            "Set innodb_io_capacity to the page writes a second that the device sustains, and \
             innodb_io_capacity_max to twice that.",
        );
    }
    if get("innodb_adaptive_hash_index") == "ON" {
        note(
            false,
            "innodb_adaptive_hash_index=ON: cached lookups skip the upper pages of an index, and \
             sessions share its latches"
                .to_owned(),
            "Of a cached run, compare with innodb_adaptive_hash_index=OFF.",
        );
    }
    let method = get("innodb_flush_method");
    if !method.is_empty() && !method.starts_with("O_DIRECT") {
        note(
            false,
            format!(
                "innodb_flush_method={method}: pages are read and written through the page cache of \
                 the operating system"
            ),
            "Start the server with innodb_flush_method=O_DIRECT.",
        );
    }
    notable
}

pub fn advice() -> Advice {
    let some = |text: &str| Some(text.to_owned());
    Advice {
        enlarge_log: some(
            "Make the redo log larger (innodb_log_file_size; MySQL 8.0.30 and later: \
             innodb_redo_log_capacity), and let pages be flushed faster (innodb_io_capacity: 200, \
             the default before MySQL 8.4, is low for any flash storage).",
        ),
        keep_cached: some(
            "Make innodb_buffer_pool_size larger than tables and indexes, and read them once \
             before the run (WARM_UP).",
        ),
        write_faster: some(
            "Raise innodb_io_capacity and innodb_io_capacity_max to the device's rate (MySQL: \
             innodb_page_cleaners, too), or give the server a larger innodb_buffer_pool_size.",
        ),
        purge_faster: some(
            "Look for a transaction that stays open for long (information_schema.innodb_trx), and \
             raise innodb_purge_threads.",
        ),
        find_others: some("Repeat it alone on the server; SHOW PROCESSLIST lists the others."),
        ..Advice::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_io_capacity_is_a_rate_of_the_background() {
        let of = |capacity: &str| {
            let settings = [("innodb_io_capacity", capacity), ("innodb_io_capacity_max", "2000")];
            notable_settings(&settings.map(|(name, value)| (name.into(), value.into())).into())
        };
        insta::assert_snapshot!(of("200")[0].effect, @"innodb_io_capacity=200 (max 2000): background flushing aims at about so many changed pages a second until it falls behind, then at up to the max");
        assert!(of("10000").is_empty());
    }
}
