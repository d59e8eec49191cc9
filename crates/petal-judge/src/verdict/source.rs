//! Names the source of the reads: the layer that served nearly all, or each with its share.

use crate::physical;
use crate::served::{self, ReadsServed};
use petal_record::Run;
use petal_record::conclusions::{ReadSource, ServedBy};

pub(super) fn served_by(run: &Run) -> ServedBy {
    let asked_bytes = served::asked_bytes(run);
    if asked_bytes.is_some_and(|bytes| bytes < physical::READ_BYTES_MIN) {
        let (by, words) = match physical::is_cached(run) {
            true => (ReadSource::DatabaseCache, "database cache"),
            false => (ReadSource::Nobody, "hardly any reads"),
        };
        return ServedBy { by, words: words.to_owned(), asked_bytes, ..ServedBy::default() };
    }
    let unknown = |words: &str, why: String| ServedBy {
        words: words.to_owned(),
        why_unknown: Some(why),
        asked_bytes,
        ..ServedBy::default()
    };
    if !run.is_database_host_seen() {
        let words = match run.details.target.host_unseen {
            Some(_) => "not seen",
            None => "not seen (another host)",
        };
        return unknown(words, run.why_database_host_is_unseen().to_owned());
    }
    let served = served::reads(run);
    let known = served::expected_device_bytes(run).is_some_and(|bytes| bytes > 0);
    match served {
        Ok(served) if known && (run.details.device.is_some() || served.layer.is_some()) => {
            below_the_database(run, by_bytes(&served))
        }
        Ok(_) => unknown("not seen", "no device of the data was counted".to_owned()),
        Err(why) if !known || run.details.device.is_none() => unknown("not seen", why),
        Err(why) => unknown("unknown", why),
    }
}

/// The database's own cache named first, if it served most of the rows.
fn below_the_database(run: &Run, below: ServedBy) -> ServedBy {
    match physical::mostly_cached(run) {
        Some(share) => ServedBy {
            by: ReadSource::DatabaseCache,
            words: format!(
                "database cache {:.0} % of the rows; the others: {}",
                share * 100.0,
                below.words
            ),
            ..below
        },
        None => below,
    }
}

/// Names the layer that served nearly all alone; else each with its share.
fn by_bytes(served: &ReadsServed) -> ServedBy {
    let percent = |bytes: u64| format!("{:.0} %", served.share(bytes) * 100.0);
    let mut parts = Vec::new();
    if served.is_by_device() {
        parts.push("device".to_owned());
    } else {
        if served.page_cache > 0 {
            parts.push(format!("page cache {}", percent(served.page_cache)));
        }
        parts.push(format!("device {}", percent(served.device)));
        if served.unseen > 0 && served.layer.is_none() {
            parts.push("the rest not seen".to_owned());
        }
    }
    let layer = served.layer.as_ref().map_or_else(String::new, |layer| format!(" ({layer})"));
    let by = match served.share(served.page_cache) > 0.5 {
        _ if served.is_by_device() => ReadSource::Device,
        true => ReadSource::PageCache,
        false => ReadSource::Several,
    };
    ServedBy {
        by,
        words: parts.join(", ") + &layer,
        why_unknown: None,
        asked_bytes: Some(served.asked),
        device_bytes: Some(served.device),
        page_cache_bytes: Some(served.page_cache),
        unseen_bytes: Some(served.unseen),
    }
}
