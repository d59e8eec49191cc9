//! The line to paste: `PIOPS read+write | single-block read us | redo MB/s | layer of the reads |
//! limit`. Facts that the record lacks are called unknown, never guessed.

use petal_model::numbers::decimal;
use std::fmt;

use super::limited_by::limited_by;
use super::served::{self, ReadsServed};
use super::{
    elasticity, findings, interference, outages, physical, resources, waterfall, write_ledger,
};
use petal_model::record::conclusions::{ReadSource, ServedBy};
use petal_model::record::{Headline, Run};

#[derive(Debug, Clone, PartialEq)]
pub struct HeadlineFigures {
    /// Physical requests per second, as the database counted them.
    pub read_piops: Option<f64>,
    pub write_piops: Option<f64>,
    /// Mean of one block read, as the database or the shim timed it.
    pub read_us: Option<f64>,
    /// Millions of bytes of log per second.
    pub redo_mb: Option<f64>,
    /// Blocks visited per second, of a run whose data the database's cache can hold.
    pub logical_reads: Option<f64>,
    /// The time that all of it is of: `steady window 5.0-15.0 s`.
    pub window: String,
    pub served_by: String,
    pub limited_by: String,
}

/// Judges a run: puts its findings, the layers that served its reads and its limit into its
/// summary.
pub fn conclude(run: &mut Run) {
    run.summary.outages = outages::of(run);
    run.summary.interference = interference::of(run);
    run.summary.findings = findings::judge(run);
    let Headline { run: shown, .. } = run.headline();
    let (served_by, limited_by) = (served_by(&shown), limited_by(&shown));
    let elasticity = elasticity::of(run);
    let (resources, waterfall) = (resources::of(&shown), waterfall::of(&shown));
    let limited_by = elasticity::proven(&elasticity, limited_by, waterfall.as_ref());
    (run.summary.served_by, run.summary.limited_by) = (Some(served_by), Some(limited_by));
    (run.summary.resources, run.summary.elasticity) = (resources, elasticity);
    run.summary.waterfall = waterfall;
    run.summary.write_ledger = write_ledger::of(run);
}

pub fn verdict(run: &Run) -> HeadlineFigures {
    let Headline { run, window } = run.headline();
    let summary = &run.summary;
    let per_second = &summary.per_second;
    let made_served_by = || served_by(&run).words;
    let made_limited_by = || limited_by(&run).words;
    HeadlineFigures {
        read_piops: per_second.physical_read_requests,
        write_piops: per_second.physical_write_requests,
        read_us: summary.io_latency_us.get("read").and_then(|read| read.mean),
        redo_mb: per_second.redo_bytes.map(|bytes| bytes / 1e6),
        logical_reads: per_second.logical_reads.filter(|_| physical::is_cached(&run)),
        window: window.to_string(),
        served_by: summary.served_by.as_ref().map_or_else(made_served_by, |it| it.words.clone()),
        limited_by: summary.limited_by.as_ref().map_or_else(made_limited_by, |it| it.words.clone()),
    }
}

fn served_by(run: &Run) -> ServedBy {
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
        Ok(served) if known && run.details.device.is_some() => {
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

impl fmt::Display for HeadlineFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| decimal(value, digits))
        };
        if let Some(reads) = self.logical_reads {
            write!(f, "logical reads {reads}/s | ", reads = decimal(reads, 0))?;
        }
        write!(
            f,
            "PIOPS {}+{} | single-block read {} us | redo {} MB/s | served by: {} | limited by: {} | {}",
            shown(self.read_piops, 0),
            shown(self.write_piops, 0),
            shown(self.read_us, 1),
            shown(self.redo_mb, 1),
            self.served_by,
            self.limited_by,
            self.window
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_model::record::conclusions::Limiter;
    use petal_model::record::fixture;
    use petal_model::stats::counters::IoCounts;
    use petal_model::stats::os::DeviceCounts;

    #[test]
    fn the_line_of_a_physical_run() {
        insta::assert_snapshot!(
            verdict(&fixture::mixed_run()),
            @"PIOPS 59,432+10,000 | single-block read 84.3 us | redo 96.2 MB/s | served by: device | limited by: reads waited for (63 % of DB time) | whole run 60.0 s (the steady window's counters are not known)"
        );
    }

    #[test]
    fn the_line_is_of_the_steady_window() {
        let run = fixture::windowed_run();
        let steady = run.summary.steady.as_ref().unwrap();
        let verdict = verdict(&run);
        assert_eq!(verdict.read_piops, steady.per_second.physical_read_requests);
        assert_eq!(verdict.read_us, steady.io_latency_us["read"].mean);
        assert_eq!(verdict.redo_mb, steady.per_second.redo_bytes.map(|bytes| bytes / 1e6));
        assert!(verdict.to_string().ends_with(" | steady window 5.0-60.0 s"));
        assert_ne!(verdict.read_piops, run.summary.per_second.physical_read_requests);
    }

    #[test]
    fn a_cached_run_is_reported_by_its_logical_reads() {
        let mut run = fixture::mixed_run();
        run.details.target.session_cache_bytes = Some(run.summary.active_bytes);
        assert!(verdict(&run).to_string().starts_with("logical reads 175,552/s | PIOPS "));
    }

    #[test]
    fn unknown_is_a_dash_and_nothing_is_guessed() {
        let mut run = fixture::mixed_run();
        run.summary.per_second = Default::default();
        run.summary.io_latency_us.clear();
        run.summary.waits.clear();
        run.details.io = IoCounts::default();
        run.details.device = None;
        insta::assert_snapshot!(verdict(&run), @"PIOPS -+- | single-block read - us | redo - MB/s | served by: not seen | limited by: not determined | whole run 60.0 s (the steady window's counters are not known)");
    }

    #[test]
    fn who_served_it() {
        let served = |change: &dyn Fn(&mut Run)| {
            let mut run = fixture::mixed_run();
            change(&mut run);
            verdict(&run).served_by
        };
        let quarter = |run: &mut Run| {
            let read_bytes = run.details.io.physical_read_bytes.unwrap() / 4;
            run.details.device = run.details.device.map(|d| DeviceCounts { read_bytes, ..d });
        };
        assert_eq!(served(&quarter), "device 25 %, the rest not seen");
        let buffered = fixture::read_through_page_cache;
        assert_eq!(served(&buffered), "page cache 75 %, device 25 %");
        let cached = |run: &mut Run| {
            run.details.io.physical_read_bytes = Some(8192);
            run.summary.target.cache_bytes = Some(u64::MAX);
        };
        assert_eq!(served(&cached), "database cache");
        assert_eq!(served(&|run| run.details.target.local = false), "not seen (another host)");
        let hidden = |run: &mut Run| {
            run.details.target.local = false;
            run.details.target.host_unseen = Some("hidden".into());
        };
        assert_eq!(served(&hidden), "not seen");
    }

    #[test]
    fn the_conclusions_are_fields_made_once_and_read_by_the_line() {
        let mut run = fixture::mixed_run();
        conclude(&mut run);
        let (served, limited) =
            (run.summary.served_by.clone().unwrap(), run.summary.limited_by.clone().unwrap());
        assert_eq!((served.by, served.words.as_str()), (ReadSource::Device, "device"));
        assert_eq!(served.asked_bytes, served.device_bytes);
        assert_eq!(served.page_cache_bytes, Some(0));
        assert_eq!(limited.by, Limiter::Reads);
        assert_eq!(limited.evidence["wait_class"], "User I/O");
        let line = verdict(&run);
        assert_eq!((&line.served_by, &line.limited_by), (&served.words, &limited.words));
        // The record's answer is quoted, not computed again.
        run.details.device = None;
        run.summary.waits.clear();
        assert_eq!(verdict(&run), line);
        // Judged again it is made again.
        conclude(&mut run);
        let (served, limited) =
            (run.summary.served_by.take().unwrap(), run.summary.limited_by.take().unwrap());
        assert_eq!((served.by, limited.by), (ReadSource::Unknown, Limiter::NotDetermined));
        assert!(served.why_unknown.is_some());
    }
}
