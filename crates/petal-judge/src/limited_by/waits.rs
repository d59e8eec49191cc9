//! The wait on which sessions spent most of their time, as the limit of a run.

use serde_json::{Value, json};

use super::super::{limits, physical, resources, waterfall};
use super::shared::{self, ResourceShare};
use crate::by_key;
use petal_host::numbers::decimal;
use petal_record::Run;
use petal_record::conclusions::{LimitedBy, Limiter};
use petal_record::counters::WaitClass;
use petal_record::waterfall::{PartOfTime, Waterfall};

/// A class must take so much of DB time to be called the limit.
pub(super) const LIMIT_SHARE_MIN: f64 = 0.50;
/// Share of the sessions' time without lock waits that a resource takes if it can limit.
pub(super) const WAITED_SHARE_MIN: f64 = 0.25;
/// Share of the reads' waiting above the device from which on they do not wait for the device.
pub(super) const ABOVE_DEVICE_MIN: f64 = 0.50;
/// An event that took so much of its class's time is named as all of it.
const WHOLE_CLASS_MIN: f64 = 0.9;
/// Processors that are busier than this make work wait for them.
const PROCESSORS_BUSY_MIN: f64 = 80.0;

/// Names the wait on which sessions spent most of their time.
pub(super) fn waited_for(run: &Run) -> LimitedBy {
    let on_processors = processor_share(run).filter(|&share| share >= LIMIT_SHARE_MIN);
    let on_processors = on_processors.map(|share| {
        let words = format!("processor time of the sessions ({:.0} % of DB time)", share * 100.0);
        LimitedBy::new(Limiter::SessionProcessorTime, words, json!({ "share_of_db_time": share }))
    });
    let not_determined = |words: &str, evidence: Value| {
        LimitedBy::new(Limiter::NotDetermined, format!("not determined{words}"), evidence)
    };
    let known = on_processors.or_else(|| untimed_reads(run));
    let Some((class, time_us)) = longest_class(run) else {
        let why = untimed_words(run)
            .map_or_else(String::new, |it| format!(" (the database does not time its {it})"));
        return known.unwrap_or_else(|| not_determined(&why, Value::Null));
    };
    let class_words = words_with_event(run, class);
    let evidence = json!({
        "wait_class": class.label(), "wait_time_s": time_us / 1e6,
        "wait_event": longest_event(run, class).map(|(event, _)| event),
        "db_time_s": run.details.db_time_s,
    });
    let Some((share, words)) = part(run, time_us) else {
        let is_over = run.details.db_time_s > 0.0 && run.io_depth() <= 1.0;
        let why = format!(" (waits of class {} took longer than DB time)", class.label());
        let why = if is_over { why.as_str() } else { "" };
        return known.unwrap_or_else(|| not_determined(why, evidence));
    };
    if let Some((next, next_share)) = level_class(run, share) {
        let both = [(class, share), (next, next_share)].map(|(class, share)| ResourceShare {
            by: limiter(class),
            name: words_with_event(run, class),
            share,
        });
        return shared::between(run, both, "DB time", evidence);
    }
    if share < LIMIT_SHARE_MIN {
        let why = match untimed_words(run) {
            Some(untimed) => format!(" (the database does not time its {untimed})"),
            None => format!(" (largest share: {class_words}, {words})"),
        };
        return known.unwrap_or_else(|| not_determined(&why, evidence));
    }
    if class == WaitClass::UserIo {
        return reads_waited_for(run, time_us, &words, evidence);
    }
    LimitedBy::new(limiter(class), format!("{class_words} ({words})"), evidence)
}

/// The class of waits, or the processor time of the sessions, whose share of DB time is level with the
/// longest class's.
fn level_class(run: &Run, longest: f64) -> Option<(WaitClass, f64)> {
    let classes = classes_by_time(run).into_iter();
    let shares: Option<Vec<_>> =
        classes.map(|(class, us)| Some((class, run.share_of_db_time(us)?))).collect();
    let shares = shares?;
    let rest = 1.0 - shares.iter().map(|(_, share)| share).sum::<f64>();
    // petal's own processor time also has work outside of operations.
    let on_processors = processor_share(run).map(|share| (WaitClass::Cpu, share.min(rest)));
    let known = shares.into_iter().skip(1).chain(on_processors);
    let (class, share) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (larger, smaller) = (longest.max(share), longest.min(share));
    shared::are_level(larger, smaller).then_some((class, share))
}

/// The limit that waits of a class are.
pub(super) fn limiter(class: WaitClass) -> Limiter {
    match class {
        WaitClass::UserIo => Limiter::Reads,
        WaitClass::Commit => Limiter::Log,
        WaitClass::Replica => Limiter::Replica,
        WaitClass::Concurrency => Limiter::Contention,
        WaitClass::Application => Limiter::Locks,
        WaitClass::Configuration => Limiter::LogRoom,
        WaitClass::Network => Limiter::Network,
        WaitClass::Cpu => Limiter::SessionProcessorTime,
        _ => Limiter::OtherWaits,
    }
}

/// A class of waits as the limit names it, with the event that took longest: a class alone does not
/// show what to change. Reads and the log are their own names.
pub(super) fn words_with_event(run: &Run, class: WaitClass) -> String {
    let class_words = match class {
        WaitClass::UserIo => return "reads".to_owned(),
        // Not commits alone: a changed block is written after its log, and who needs room waits.
        WaitClass::Commit => return "log writes and syncs".to_owned(),
        WaitClass::Cpu => return "processor time of the sessions".to_owned(),
        WaitClass::Replica => "commits that wait for a replica",
        WaitClass::Concurrency => "contention inside the database",
        WaitClass::Application => "locks of other sessions",
        WaitClass::Configuration => "room in the log or a buffer",
        WaitClass::Network => "network",
        WaitClass::Scheduler => "the database's resource manager",
        WaitClass::Cluster => "other servers of the cluster",
        WaitClass::SystemIo | WaitClass::Idle | WaitClass::Other => "",
    };
    let longest = longest_event(run, class);
    let is_whole = longest.is_some_and(|(_, share)| share >= WHOLE_CLASS_MIN);
    match (class_words, longest) {
        ("", None) => class.label().to_owned(),
        ("", Some((event, _))) if is_whole => format!("wait event {event}"),
        ("", Some((event, _))) => format!("several wait events, longest {event}"),
        (words, Some((event, _))) if is_whole => format!("{words}: {event}"),
        (words, Some((event, _))) => format!("{words}, longest {event}"),
        (words, None) => words.to_owned(),
    }
}

/// The event of a class that took longest, and its share of the class's time.
fn longest_event(run: &Run, class: WaitClass) -> Option<(&str, f64)> {
    let events = run.summary.waits.iter().filter(|wait| wait.class == class);
    let all_us: f64 = events.clone().map(|wait| wait.time_us).sum();
    let longest = events.max_by(|a, b| a.time_us.total_cmp(&b.time_us))?;
    (all_us > 0.0).then(|| (longest.name.as_str(), longest.time_us / all_us))
}

fn has_untimed_reads(run: &Run) -> bool {
    let mut waits = run.summary.waits.iter();
    run.details.target.io_untimed.is_some() && !waits.any(|wait| wait.class == WaitClass::UserIo)
}

/// The waits that the database does not time, if the rest of DB time can be theirs: the log of
/// UPDATEs on data that its cache can hold, else its reads.
fn untimed_words(run: &Run) -> Option<&'static str> {
    match physical::is_cached(run) {
        true => run.is_log_untimed().then_some("log"),
        false => has_untimed_reads(run).then_some("reads"),
    }
}

/// Names reads that the database does not time, if their time at the device is most of DB time.
/// More than DB time were reads ahead of the sessions, for which these did not wait.
fn untimed_reads(run: &Run) -> Option<LimitedBy> {
    let at_device_us = resources::reads_at_the_device_us(run).filter(|_| has_untimed_reads(run))?;
    let share = run.share_of_db_time(at_device_us).filter(|&share| share >= LIMIT_SHARE_MIN)?;
    let words = format!("reads at the device ({:.0} % of DB time)", share * 100.0);
    Some(LimitedBy::new(Limiter::Reads, words, json!({ "device_share_of_db_time": share })))
}

/// The share of DB time that sessions spent on a processor. The database counts it; if it works
/// within petal, petal's own processor time is used. None if neither is known.
pub(super) fn processor_share(run: &Run) -> Option<f64> {
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

/// Names the limit of sessions that mostly waited for reads. Waiting above the device while the
/// processors are busy is waiting for a processor.
fn reads_waited_for(run: &Run, waited_us: f64, words: &str, mut evidence: Value) -> LimitedBy {
    let above = resources::above_the_device(run, waited_us);
    let busy = limits::server_cpu(run).map(limits::busy_percent);
    evidence["share_above_the_device"] = json!(above);
    evidence["busy_percent"] = json!(busy);
    // A measured queue is judged before this.
    let busy = busy.filter(|&busy| busy >= PROCESSORS_BUSY_MIN && queued_share(run).is_none());
    if let Some((above, _)) = above.zip(busy)
        && shared::are_level(above.max(1.0 - above), above.min(1.0 - above))
    {
        let waited = run.share_of_db_time(waited_us).unwrap_or(1.0);
        let both = [
            (Limiter::Reads, "reads at the device", 1.0 - above),
            (Limiter::Processors, "processors above it", above),
        ];
        let both = both.map(|(by, name, share)| ResourceShare {
            by,
            name: name.to_owned(),
            share: share * waited,
        });
        return shared::between(run, both, "DB time", evidence);
    }
    let Some(above) = above.filter(|&above| above >= ABOVE_DEVICE_MIN) else {
        return LimitedBy::new(Limiter::Reads, format!("waiting for reads ({words})"), evidence);
    };
    let percent = above * 100.0;
    match busy {
        Some(busy) => {
            let others = shared::others_words(run);
            let words = format!(
                "processors ({busy:.0} % busy; reads waited {percent:.0} % of their time above the \
                 device{others})"
            );
            LimitedBy::new(Limiter::Processors, words, evidence)
        }
        None => {
            let words =
                format!("waiting for reads ({words}, {percent:.0} % of it above the device)");
            LimitedBy::new(Limiter::Reads, words, evidence)
        }
    }
}

/// The measured share of an operation's time that it waited for a processor; None if it was not
/// measured, or if the parts do not add up.
pub(super) fn queued_share(run: &Run) -> Option<f64> {
    waterfall::of(run).filter(Waterfall::adds_up)?.share(PartOfTime::RunQueue)
}

/// Names the reads, if most of DB time passed at the device, or an event in which sessions sleep or are
/// held back: no other program on the processors made these wait.
pub(super) fn off_processors(run: &Run) -> Option<LimitedBy> {
    let (class, time_us) = longest_class(run)?;
    let share = run.share_of_db_time(time_us)?;
    let off_processors = match class {
        WaitClass::UserIo => share * (1.0 - resources::above_the_device(run, time_us)?),
        WaitClass::Scheduler | WaitClass::Other => share,
        _ => 0.0,
    };
    (off_processors >= LIMIT_SHARE_MIN).then(|| waited_for(run))
}

/// Names an event in which sessions sleep or are held back for most of DB time.
pub(super) fn asleep(run: &Run) -> Option<LimitedBy> {
    let (class, _) = longest_class(run)?;
    let is_asleep = matches!(class, WaitClass::Scheduler | WaitClass::Other);
    is_asleep.then(|| off_processors(run)).flatten()
}

/// Time of the sessions' waits for locks of any kind, in seconds.
pub(super) fn lock_s(run: &Run) -> f64 {
    waited_s(run, &[WaitClass::Application, WaitClass::Concurrency]).unwrap_or(0.0)
}

/// Time of the waits of some classes, in seconds. None if the run has no wait of these.
pub(super) fn waited_s(run: &Run, classes: &[WaitClass]) -> Option<f64> {
    let waits = run.summary.waits.iter().filter(|wait| classes.contains(&wait.class));
    waits.map(|wait| wait.time_us / 1e6).reduce(|sum, one| sum + one)
}

/// Waits of some classes as a share of DB time without lock waits, whose holders wait for something
/// else. None if the database does not time them, or if requests overlap.
pub(super) fn waited_share(run: &Run, classes: &[WaitClass]) -> Option<f64> {
    let rest_s = run.details.db_time_s - lock_s(run);
    let share = waited_s(run, classes)? / rest_s;
    (rest_s > 0.0 && run.io_depth() <= 1.0).then_some(share)
}

/// The wait classes in which a session waits, with their microseconds, the longest first.
pub(super) fn classes_by_time(run: &Run) -> Vec<(WaitClass, f64)> {
    let waits = run.summary.waits.iter().filter(|wait| wait.class.is_foreground());
    let classes = by_key(waits.map(|wait| (wait.class, wait.time_us))).into_iter();
    let times = classes.map(|(class, times_us)| (class, times_us.iter().sum::<f64>()));
    let mut times: Vec<_> = times.collect();
    times.sort_by(|a, b| b.1.total_cmp(&a.1));
    times
}

/// The wait class that took longest.
pub(super) fn longest_class(run: &Run) -> Option<(WaitClass, f64)> {
    classes_by_time(run).first().copied()
}
