//! The line to paste: `PIOPS read+write | single-block read us | redo MB/s | layer of the reads |
//! limit`. Facts that the record lacks are called unknown, never guessed.

use petal_model::numbers::decimal;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::served::{self, ReadsServed};
use super::{
    elasticity, findings, interference, io_limits, limits, others, outages, physical, residence,
    resources, waterfall, write_ledger,
};
use crate::by_key;
use petal_model::record::conclusions::{LimitedBy, Limiter, ReadSource, ServedBy};
use petal_model::record::waterfall::PartOfTime;
use petal_model::record::{Headline, Run};
use petal_model::stats::counters::WaitClass;
use residence::PlaceOfTime;
use waterfall::OperationSide;

/// A class must take so much of DB time to be called the limit.
const LIMIT_SHARE_MIN: f64 = 0.50;
/// Share of the reads' waiting above the device from which on they do not wait for the device.
const ABOVE_DEVICE_MIN: f64 = 0.50;
/// Share of an operation's time that it waits for a processor, if processors limit it.
const QUEUED_SHARE_MIN: f64 = 0.20;
/// Processors that are busier than this make work wait for them.
const PROCESSORS_BUSY_MIN: f64 = 80.0;

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

/// Names the limit of a run whose rate was requested, with that rate.
pub fn limited_with_rate(run: &Run) -> String {
    let run = &run.headline().run;
    held(run).or_else(|| whole_host(run)).unwrap_or_else(|| waited_for(run)).words
}

fn limited_by(run: &Run) -> LimitedBy {
    let (others, own) = match whole_host(run) {
        Some(it) if it.by == Limiter::OthersWork => (Some(it), None),
        own => (None, own),
    };
    let found = held(run).or(own).or_else(|| paced(run)).or_else(|| petal_itself(run));
    let found = found.or_else(|| on_the_way(run));
    let found = found.or_else(|| others.map(|others| at_the_device(run).unwrap_or(others)));
    let found = found.or_else(|| queued(run));
    let found = found.or_else(|| by_residence(run));
    found.unwrap_or_else(|| waited_for(run))
}

/// Names the reads, if most of DB time passed at the device: no other program on the processors
/// made these wait.
fn at_the_device(run: &Run) -> Option<LimitedBy> {
    let (class, time_us) = longest_class(run)?;
    let share = run.share_of_db_time(time_us)?;
    let above = resources::above_the_device(run, time_us)?;
    let is_there = class == WaitClass::UserIo && share * (1.0 - above) >= LIMIT_SHARE_MIN;
    is_there.then(|| waited_for(run))
}

/// Names petal, if the server waited for it.
fn petal_itself(run: &Run) -> Option<LimitedBy> {
    let bound = limits::is_petal_full(run).then(|| limits::generator_bound(run).ok());
    let evidence = bound??.evidence;
    Some(LimitedBy { by: Limiter::Petal, words: "petal's own processors".to_owned(), evidence })
}

/// Names the network, if the way to the server and back is most of DB time. LOOP=client makes at
/// least one round trip per operation. The answer to a question takes processor time on both sides,
/// but no more than an operation does: the rest was on the way.
fn on_the_way(run: &Run) -> Option<LimitedBy> {
    let by_request = waterfall::executed(run) == OperationSide::ByRequest;
    let way_us = run.details.server_round_trip_us.filter(|_| by_request)?;
    let on_processors_s =
        others::at_work(run).map_or(0.0, |at_work| at_work.own * run.summary.elapsed_s);
    let on_processors_s = on_processors_s.max(run.summary.petal_cpu_s.unwrap_or(0.0));
    let on_the_way_s = run.summary.ops.total as f64 * way_us / 1e6 - on_processors_s;
    let share = on_the_way_s / run.details.db_time_s;
    (run.details.db_time_s > 0.0 && share >= LIMIT_SHARE_MIN).then(|| {
        let percent = share.min(1.0) * 100.0;
        let words = format!(
            "network (at least {percent:.0} % of DB time; {} ms to the server and back)",
            decimal(way_us / 1e3, 2)
        );
        limit(
            Limiter::Network,
            words,
            json!({ "round_trip_us": way_us, "share_of_db_time": share }),
        )
    })
}

/// Names the limit of sessions that mostly waited for reads. Waiting above the device while the
/// processors are busy is waiting for a processor.
fn reads_waited_for(run: &Run, waited_us: f64, words: &str, mut evidence: Value) -> LimitedBy {
    let above = resources::above_the_device(run, waited_us);
    evidence["share_above_the_device"] = json!(above);
    let Some(above) = above.filter(|&above| above >= ABOVE_DEVICE_MIN) else {
        return limit(Limiter::Reads, format!("reads waited for ({words})"), evidence);
    };
    let percent = above * 100.0;
    let busy = limits::server_cpu(run).map(limits::busy_percent);
    evidence["busy_percent"] = json!(busy);
    // A measured queue is judged before this.
    let is_measured = queued_share(run).is_some();
    match busy.filter(|&busy| busy >= PROCESSORS_BUSY_MIN && !is_measured) {
        Some(busy) => {
            let words = format!(
                "processors ({busy:.0} % busy; reads waited {percent:.0} % of their time above the \
                 device)"
            );
            limit(Limiter::Processors, words, evidence)
        }
        None => {
            let words =
                format!("reads waited for ({words}, {percent:.0} % of it above the device)");
            limit(Limiter::Reads, words, evidence)
        }
    }
}

/// The measured share of an operation's time that it waited for a processor; None if it was not
/// measured.
fn queued_share(run: &Run) -> Option<f64> {
    waterfall::of(run)?.share(PartOfTime::RunQueue)
}

/// Names the processors, if operations mostly waited for one.
fn queued(run: &Run) -> Option<LimitedBy> {
    let share = queued_share(run).filter(|&share| share >= LIMIT_SHARE_MIN)?;
    let percent = share.min(1.0) * 100.0;
    let words = format!("processors (operations waited {percent:.0} % of their time for one)");
    Some(limit(Limiter::Processors, words, json!({ "run_queue_share": share })))
}

/// Names the place where operations mostly spend their time, by the parts of the waterfall. None if
/// these are not known.
fn by_residence(run: &Run) -> Option<LimitedBy> {
    let waterfall = waterfall::of(run)?;
    let (place, share) = residence::largest(&waterfall)?;
    let part = |part| waterfall.share(part).unwrap_or(0.0);
    let evidence = json!({ "time_shares": residence::evidence(&waterfall) });
    let percent = share * 100.0;
    let spent = format!("{percent:.0} % of an operation's time");
    if share < LIMIT_SHARE_MIN {
        let words = format!("not determined (most: {} {spent})", place.words());
        return Some(limit(Limiter::NotDetermined, words, evidence));
    }
    let queued = part(PartOfTime::RunQueue);
    let (by, words) = match place {
        PlaceOfTime::Processors if queued >= QUEUED_SHARE_MIN => {
            let queued = queued * 100.0;
            (Limiter::Processors, format!("processors ({spent}; {queued:.0} % waits for one)"))
        }
        PlaceOfTime::Processors => {
            (Limiter::SessionProcessorTime, format!("processor time of the sessions ({spent})"))
        }
        PlaceOfTime::Reads => {
            let above = (part(PartOfTime::FileSystem) + part(PartOfTime::BlockQueue)) / share;
            let above = match above >= ABOVE_DEVICE_MIN {
                true => format!(", {:.0} % of it above the device", above * 100.0),
                false => String::new(),
            };
            (Limiter::Reads, format!("reads waited for ({spent}{above})"))
        }
        PlaceOfTime::Writes => (Limiter::Log, format!("log writes and syncs ({spent})")),
        PlaceOfTime::Network => (Limiter::Network, format!("network ({spent})")),
        PlaceOfTime::Waits => match longest_class(run).map(|(class, _)| class) {
            Some(WaitClass::Concurrency) => {
                (Limiter::Contention, format!("contention inside the database ({spent})"))
            }
            Some(WaitClass::Application) => {
                (Limiter::Locks, format!("locks of other sessions ({spent})"))
            }
            Some(WaitClass::Configuration) => {
                (Limiter::LogRoom, format!("room in the log or a buffer ({spent})"))
            }
            _ => (Limiter::OtherWaits, format!("{} ({spent})", place.words())),
        },
    };
    Some(limit(by, words, evidence))
}

/// Names a control group's limit on the device.
fn held(run: &Run) -> Option<LimitedBy> {
    let reached = io_limits::reached(run)?;
    Some(limit(Limiter::IoLimit, reached.words(), reached.evidence()))
}

fn limit(by: Limiter, words: impl Into<String>, evidence: Value) -> LimitedBy {
    let evidence = match evidence {
        Value::Object(figures) => figures.into_iter().collect(),
        _ => BTreeMap::new(),
    };
    LimitedBy { by, words: words.into(), evidence }
}

/// Names a limit of the whole host; None if none is seen.
fn whole_host(run: &Run) -> Option<LimitedBy> {
    let share = run.summary.share.as_ref().filter(|share| share.share.of > 1);
    if let Some(share) = share.filter(|_| !run.details.target.in_process) {
        // The database worked for all hosts.
        let words = format!("not judged, share {} of {}", share.share.number, share.share.of);
        return Some(limit(Limiter::NotJudged, words, Value::Null));
    }
    let (by, words) = match limits::is_others_work(run) {
        true => (Limiter::OthersWork, "processors (others' work)"),
        false => (Limiter::Processors, "processors"),
    };
    let evidence = limits::processor_bound(run).map_or_else(|_| BTreeMap::new(), |it| it.evidence);
    let limit = LimitedBy { by, words: words.to_owned(), evidence };
    limits::is_processor_bound(run).then_some(limit)
}

/// Names the wait on which sessions spent most of their time.
fn waited_for(run: &Run) -> LimitedBy {
    let on_processors = processor_share(run).filter(|&share| share >= LIMIT_SHARE_MIN);
    let on_processors = on_processors.map(|share| {
        let words = format!("processor time of the sessions ({:.0} % of DB time)", share * 100.0);
        limit(Limiter::SessionProcessorTime, words, json!({ "share_of_db_time": share }))
    });
    let not_determined = |words: &str, evidence: Value| {
        limit(Limiter::NotDetermined, format!("not determined{words}"), evidence)
    };
    let known = on_processors.or_else(|| untimed_reads(run));
    let Some((class, time_us)) = longest_class(run) else {
        return known.unwrap_or_else(|| not_determined("", Value::Null));
    };
    let evidence = json!({
        "wait_class": class.label(), "wait_time_s": time_us / 1e6,
        "db_time_s": run.details.db_time_s,
    });
    let Some((share, words)) = part(run, time_us) else {
        let is_over = run.details.db_time_s > 0.0 && run.io_depth() <= 1.0;
        let why = format!(" (waits of class {} took longer than DB time)", class.label());
        let why = if is_over { why.as_str() } else { "" };
        return known.unwrap_or_else(|| not_determined(why, evidence));
    };
    if share < LIMIT_SHARE_MIN {
        let why = match has_untimed_reads(run) {
            true => " (the database does not time its reads)".to_owned(),
            false => format!(" (most: {} {words})", class.label()),
        };
        return known.unwrap_or_else(|| not_determined(&why, evidence));
    }
    let (by, what) = match class {
        WaitClass::UserIo => return reads_waited_for(run, time_us, &words, evidence),
        // Not commits alone: a changed block is written after its log, and who needs room waits.
        WaitClass::Commit => (Limiter::Log, "log writes and syncs"),
        WaitClass::Concurrency => (Limiter::Contention, "contention inside the database"),
        WaitClass::Application => (Limiter::Locks, "locks of other sessions"),
        WaitClass::Configuration => (Limiter::LogRoom, "room in the log or a buffer"),
        WaitClass::Network => (Limiter::Network, "network"),
        _ => (Limiter::OtherWaits, class.label()),
    };
    limit(by, format!("{what} ({words})"), evidence)
}

fn has_untimed_reads(run: &Run) -> bool {
    let mut waits = run.summary.waits.iter();
    run.details.target.io_untimed.is_some() && !waits.any(|wait| wait.class == WaitClass::UserIo)
}

/// Names reads that the database does not time, if their time at the device is most of DB time.
/// More than DB time were reads ahead of the sessions, for which these did not wait.
fn untimed_reads(run: &Run) -> Option<LimitedBy> {
    let at_device_us = resources::reads_at_the_device_us(run).filter(|_| has_untimed_reads(run))?;
    let share = run.share_of_db_time(at_device_us).filter(|&share| share >= LIMIT_SHARE_MIN)?;
    let words = format!("reads at the device ({:.0} % of DB time)", share * 100.0);
    Some(limit(Limiter::Reads, words, json!({ "device_share_of_db_time": share })))
}

/// The share of DB time that sessions spent on a processor. The database counts it; if it works
/// within petal, petal's own processor time is used. None if neither is known.
fn processor_share(run: &Run) -> Option<f64> {
    let reported = run.summary.waits.iter().filter(|wait| wait.class == WaitClass::Cpu);
    let reported_us = reported.map(|wait| wait.time_us).reduce(|sum, one| sum + one);
    let own_us = run.summary.petal_cpu_s.filter(|_| run.details.target.in_process);
    // petal's threads other than the sessions work too.
    let db_time_us = run.details.db_time_s * 1e6;
    let own_us = own_us.map(|s| (s * 1e6).min(db_time_us));
    run.share_of_db_time(reported_us.or(own_us)?)
}

/// Returns a wait's share of DB time; or, if each session waits for several requests at once, its
/// share of all that IO_DEPTH allows.
fn part(run: &Run, time_us: f64) -> Option<(f64, String)> {
    if let Some(share) = run.share_of_db_time(time_us) {
        return Some((share, format!("{:.0} % of DB time", share * 100.0)));
    }
    let most = run.io_depth() * f64::from(run.summary.sessions);
    let elapsed_s = run.summary.elapsed_s;
    let at_once = (elapsed_s > 0.0 && run.io_depth() > 1.0).then(|| time_us / 1e6 / elapsed_s)?;
    Some((
        at_once / most,
        format!("{} of {} at once on average", decimal(at_once, 1), decimal(most, 0)),
    ))
}

/// The workload held itself back: think time or an asked rate.
fn paced(run: &Run) -> Option<LimitedBy> {
    let details = &run.details;
    let sessions_s = details.db_time_s + details.think_time_s;
    let thought = details.think_time_s / sessions_s;
    if sessions_s > 0.0 && thought > LIMIT_SHARE_MIN {
        let words = format!("think time ({:.0} % of the sessions' time)", thought * 100.0);
        let evidence = json!({ "share_of_sessions_time": thought });
        return Some(limit(Limiter::ThinkTime, words, evidence));
    }
    let sessions = u64::from(run.summary.sessions);
    let is_kept = details.backlog.is_some_and(|backlog| backlog <= sessions);
    let evidence = json!({ "backlog": details.backlog });
    is_kept.then(|| limit(Limiter::Rate, "the asked RATE", evidence))
}

/// The wait class that took longest, of those in which a session waits, and its microseconds.
fn longest_class(run: &Run) -> Option<(WaitClass, f64)> {
    let waits = run.summary.waits.iter().filter(|wait| is_foreground(wait.class));
    let classes = by_key(waits.map(|wait| (wait.class, wait.time_us))).into_iter();
    let times = classes.map(|(class, times_us)| (class, times_us.iter().sum::<f64>()));
    times.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns true for the classes in which a session waits, within its DB time.
pub fn is_foreground(class: WaitClass) -> bool {
    !matches!(class, WaitClass::SystemIo | WaitClass::Idle | WaitClass::Cpu)
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
    use petal_model::record::driver_hosts::HostShare;
    use petal_model::record::fixture;
    use petal_model::stats::counters::IoCounts;
    use petal_model::stats::host::HostFacts;
    use petal_model::stats::os::threads::ThreadState;
    use petal_model::stats::os::{CpuShare, CpuTicks, DeviceCounts};
    use petal_model::workload::share::Share;

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

    /// Makes the device's own time this share of the reads' waiting.
    fn at_the_device(run: &mut Run, share: f64) {
        let waits = run.summary.waits.iter().filter(|wait| wait.class == WaitClass::UserIo);
        let waited_us: f64 = waits.map(|wait| wait.time_us).sum();
        run.details.device.as_mut().unwrap().read_ms = (waited_us * share / 1e3) as u64;
    }

    #[test]
    fn reads_that_wait_above_the_device_do_not_wait_for_it() {
        let limited = |share: f64, busy: f64| {
            let mut run = fixture::mixed_run();
            at_the_device(&mut run, share);
            run.summary.cpu =
                Some(CpuShare { user: busy, idle: 100.0 - busy, ..CpuShare::default() });
            conclude(&mut run);
            let limited = run.summary.limited_by.unwrap();
            (limited.by, limited.words)
        };
        let (by, words) = limited(0.3, 90.0);
        assert_eq!(by, Limiter::Processors);
        assert_eq!(
            words,
            "processors (90 % busy; reads waited 70 % of their time above the device)"
        );
        let (by, words) = limited(0.3, 40.0);
        assert_eq!(by, Limiter::Reads);
        assert!(words.ends_with("of DB time, 70 % of it above the device)"), "{words}");
        let (by, words) = limited(0.9, 90.0);
        assert_eq!((by, words.as_str()), (Limiter::Reads, "reads waited for (63 % of DB time)"));
    }

    #[test]
    fn full_processors_of_others_do_not_limit_reads_that_wait_at_the_device() {
        let limited = |share: f64| {
            let mut run = fixture::mixed_run();
            at_the_device(&mut run, share);
            run.summary.cpu = Some(CpuShare { user: 98.0, idle: 2.0, ..CpuShare::default() });
            let cpus = &mut run.details.os.as_mut().unwrap().whole.sum.cpus;
            cpus.host = Some(CpuTicks::from([196, 0, 0, 4, 0, 0, 0, 0]));
            limited_by(&run).by
        };
        // Reads take 63 % of DB time.
        assert_eq!(limited(0.9), Limiter::Reads);
        assert_eq!(limited(0.7), Limiter::OthersWork);
    }

    #[test]
    fn a_waterfall_decides_where_the_time_goes() {
        let mut run = fixture::mixed_run();
        fixture::time_threads(&mut run, 1.0);
        let limited = |run: &mut Run| {
            conclude(run);
            run.summary.limited_by.clone().unwrap()
        };
        let by_parts = limited(&mut run);
        assert_eq!(by_parts.by, Limiter::Reads, "{by_parts:?}");
        assert!(by_parts.words.contains("of an operation's time"), "{}", by_parts.words);
        let shares = by_parts.evidence["time_shares"].as_object().unwrap();
        let together: f64 = shares.values().filter_map(Value::as_f64).sum();
        assert!((together - 1.0).abs() < 1e-6, "{shares:?}");
        let threads = |run: &mut Run, to: ThreadState| {
            let all = run.details.os.as_mut().unwrap().whole.sum.threads.as_mut().unwrap();
            let of_reads = [ThreadState::ReadWait, ThreadState::ReadProcessor];
            let reads = all.times.iter_mut().filter(|it| of_reads.contains(&it.state));
            reads.for_each(|it| it.state = to);
        };
        for (state, by) in [
            (ThreadState::Write, Limiter::Log),
            (ThreadState::Other, Limiter::OtherWaits),
            (ThreadState::Processor, Limiter::Processors),
        ] {
            let mut other = run.clone();
            threads(&mut other, state);
            assert_eq!(limited(&mut other).by, by, "{:?}", other.summary.limited_by);
        }
        // The parts do not add up: the waits decide.
        fixture::time_threads(&mut run, 0.8);
        assert!(limited(&mut run).words.ends_with("% of DB time)"));
        // The use of processors and of the device is that of this run's threads and requests.
        let used = |name: &str| {
            let found = run.summary.resources.iter().find(|of| of.resource == name);
            found.unwrap_or_else(|| panic!("no {name}")).clone()
        };
        let (own, all) = (used("processors, by operations"), used("processors"));
        assert_eq!(own.capacity, all.capacity);
        assert_eq!(own.demand_us.is_some(), own.capacity.is_some());
        assert!(own.layer.contains("threads"), "{own:?}");
        assert!(used("device").layer.contains("service alone"));
    }

    #[test]
    fn the_way_to_the_server_and_petal_itself_limit() {
        let mut run = fixture::mixed_run();
        run.details.target.in_process = false;
        run.summary.waits.clear();
        run.summary.settings.insert("loop".into(), "client".into());
        run.details.os = None;
        run.summary.petal_cpu_s = Some(0.0);
        let mean_us = run.details.db_time_s / run.summary.ops.total as f64 * 1e6;
        let limited = |run: &mut Run, share: Option<f64>| {
            run.details.server_round_trip_us = share.map(|share| mean_us * share);
            limited_by(run)
        };
        let network = limited(&mut run, Some(0.9));
        assert_eq!(network.by, Limiter::Network);
        assert!(network.words.starts_with("network (at least 90 % of DB time;"), "{network:?}");
        for share in [Some(0.4), None] {
            assert_eq!(limited(&mut run, share).by, Limiter::NotDetermined);
        }
        // On this host an answer may be processor time alone.
        let mut near = run.clone();
        near.summary.petal_cpu_s = Some(run.details.db_time_s * 0.6);
        assert_eq!(limited(&mut near, Some(0.9)).by, Limiter::NotDetermined);
        // A server that loops itself makes no round trip for an operation.
        let mut inside = run.clone();
        inside.summary.settings.insert("loop".into(), "server".into());
        assert_eq!(limited(&mut inside, Some(0.9)).by, Limiter::NotDetermined);
        // Petal on another host, whose processors are full.
        run.details.target.local = false;
        run.details.host = Some(HostFacts { cpus: 2, ..HostFacts::default() });
        run.summary.petal_cpu_s = Some(run.summary.elapsed_s * 1.9);
        assert_eq!(limited(&mut run, Some(0.9)).by, Limiter::Petal);
        // On the server's host full processors are named before petal, as others' if most is theirs.
        run.details.target.local = true;
        assert_ne!(limited(&mut run, Some(0.9)).by, Limiter::Petal);
    }

    #[test]
    fn utilisation_is_throughput_times_demand() {
        let run = fixture::mixed_run();
        let rate = run.summary.ops.total as f64 / run.summary.elapsed_s;
        for of in resources::of(&run).iter().filter(|of| of.demand_us.is_some()) {
            let used = rate * of.demand_us.unwrap() / 1e6;
            assert!((used - of.used.unwrap()).abs() < 1e-9 * used.max(1.0), "{of:?}");
            assert!(of.utilisation.is_some() || of.why_unknown.is_some(), "{of:?}");
        }
    }

    #[test]
    fn the_limit_is_named() {
        let limited = |change: &dyn Fn(&mut Run)| {
            let mut run = fixture::mixed_run();
            change(&mut run);
            verdict(&run).limited_by
        };
        let all = |class: WaitClass| {
            move |run: &mut Run| run.summary.waits.iter_mut().for_each(|wait| wait.class = class)
        };
        assert!(limited(&all(WaitClass::Commit)).starts_with("log writes and syncs ("));
        assert!(limited(&all(WaitClass::Concurrency)).starts_with("contention"));
        // Untimed reads are in no wait.
        let untimed = |run: &mut Run| {
            all(WaitClass::Network)(run);
            run.details.db_time_s *= 4.0;
            run.details.target.io_untimed = Some("set it".to_owned());
        };
        assert_eq!(limited(&untimed), "not determined (the database does not time its reads)");
        let untimed_at_the_device = |run: &mut Run| {
            at_the_device(run, 0.9);
            untimed(run);
            run.details.db_time_s /= 4.0;
            run.summary.waits.iter_mut().for_each(|wait| wait.time_us /= 4.0);
        };
        assert_eq!(limited(&untimed_at_the_device), "reads at the device (57 % of DB time)");
        let share = |run: &mut Run| {
            run.details.target.in_process = false;
            let share = Share { number: 2, of: 4 };
            run.summary.share = Some(HostShare { share, ..HostShare::default() });
        };
        assert_eq!(limited(&share), "not judged, share 2 of 4");
        // Background work limits no session by itself.
        assert_eq!(limited(&all(WaitClass::SystemIo)), "not determined");
        assert_eq!(limited(&|run| run.details.db_time_s = 0.0), "not determined");
        // Blocks in flight at once: their waits have no share of the time.
        let deep = |run: &mut Run| {
            run.summary.settings.insert("io_depth".into(), 8.into());
            run.summary.waits.retain(|wait| wait.class == WaitClass::UserIo);
            let most_us = run.summary.elapsed_s * 8.0 * f64::from(run.summary.sessions) * 1e6;
            run.summary.waits[0].time_us = most_us * 0.75;
            run.summary.waits.truncate(1);
            at_the_device(run, 1.0);
        };
        assert_eq!(limited(&deep), "reads waited for (48.0 of 64 at once on average)");
        // A little over DB time is caused by two clocks; much over it is not a share.
        let of_db_time = |share: f64| {
            move |run: &mut Run| {
                run.summary.waits.retain(|wait| wait.class == WaitClass::UserIo);
                run.summary.waits.truncate(1);
                run.summary.waits[0].time_us = run.details.db_time_s * share * 1e6;
                at_the_device(run, 1.0);
            }
        };
        assert_eq!(limited(&of_db_time(1.01)), "reads waited for (100 % of DB time)");
        assert_eq!(
            limited(&of_db_time(1.4)),
            "not determined (waits of class User I/O took longer than DB time)"
        );
        let spread = |run: &mut Run| run.details.db_time_s *= 4.0;
        assert!(limited(&spread).starts_with("not determined (most: User I/O"));
        let busy = |run: &mut Run| {
            run.summary.cpu = Some(CpuShare { user: 99.0, idle: 1.0, ..CpuShare::default() });
        };
        assert_eq!(limited(&busy), "processors");
        // One session that never waits keeps one processor of many busy.
        let cached = |run: &mut Run| {
            run.summary.waits.clear();
            run.summary.petal_cpu_s = Some(run.details.db_time_s * 0.98);
        };
        assert_eq!(limited(&cached), "processor time of the sessions (98 % of DB time)");
        let elsewhere = |run: &mut Run| {
            cached(run);
            run.details.target.in_process = false;
        };
        assert_eq!(limited(&elsewhere), "not determined");
        assert_eq!(
            limited(&|run| run.details.think_time_s = run.details.db_time_s * 3.0),
            "think time (75 % of the sessions' time)"
        );
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
