//! The limit of a run: candidates in the order of their proof, and the first that the record shows.
//!
//! [`waits`] judges the classes of waits, [`log`] the log behind other waits, [`shared`] two resources
//! that are level.

mod log;
mod shared;
#[cfg(test)]
mod tests;
mod waits;

use serde_json::{Value, json};

use super::other_processors::{self, Others};
use super::{io_limits, limits, residence, waterfall};
use petal_host::numbers::decimal;
use petal_record::Run;
use petal_record::conclusions::{LimitedBy, Limiter};
use petal_record::counters::WaitClass;
use petal_record::waterfall::{PartOfTime, Waterfall};
use residence::PlaceOfTime;
use shared::{ResourceShare, others_words};
use waits::{
    ABOVE_DEVICE_MIN, LIMIT_SHARE_MIN, WAITED_SHARE_MIN, classes_by_time, queued_share, waited_for,
    words_with_event,
};
use waterfall::OperationSide;

/// Share of an operation's time that it waits for a processor, if processors limit it.
const QUEUED_SHARE_MIN: f64 = 0.20;

/// A candidate for the limit; None if the record does not show it.
type LimitRule = fn(&Run) -> Option<LimitedBy>;

/// Candidates of a run, in the order of their proof.
const RULES: [LimitRule; 9] = [
    io_limit,
    own_processors,
    think_time_or_rate,
    petal_itself,
    on_the_way,
    others_processors,
    run_queue,
    log::behind_waits,
    by_residence,
];

/// Candidates of a run whose rate was requested.
const RULES_WITH_RATE: [LimitRule; 3] = [io_limit, whole_host, log::behind_waits];

/// Names the limit of a run whose rate was requested, with that rate.
pub(super) fn limited_with_rate(run: &Run) -> String {
    first_of(&RULES_WITH_RATE, &run.headline_window().run).words
}

/// Names the limit of a run.
pub(super) fn limited_by(run: &Run) -> LimitedBy {
    first_of(&RULES, run)
}

/// The first limit that the record shows; without one, the class of waits with the most time.
fn first_of(rules: &[LimitRule], run: &Run) -> LimitedBy {
    rules.iter().find_map(|rule| rule(run)).unwrap_or_else(|| waited_for(run))
}

/// Names processors that the run itself fills, unless its sessions slept most of the time.
fn own_processors(run: &Run) -> Option<LimitedBy> {
    let own = whole_host(run).filter(|limit| limit.by != Limiter::OthersWork)?;
    let asleep = waits::asleep(run).filter(|_| own.by == Limiter::Processors);
    Some(asleep.unwrap_or(own))
}

/// Names the limit of a run on processors that others fill.
fn others_processors(run: &Run) -> Option<LimitedBy> {
    let others = whole_host(run).filter(|limit| limit.by == Limiter::OthersWork)?;
    Some(elsewhere(run).unwrap_or(others))
}

/// Names the limit of a run whose sessions mostly waited elsewhere than for processors that are full of
/// others' work: by the parts of the waterfall, if they are known, else by the waits.
fn elsewhere(run: &Run) -> Option<LimitedBy> {
    let is_elsewhere = |limit: &LimitedBy| {
        use Limiter::{NotDetermined, Processors, SessionProcessorTime};
        let is_here = matches!(limit.by, NotDetermined | Processors | SessionProcessorTime);
        !is_here || limit.shared_with.is_some()
    };
    match by_residence(run) {
        Some(divided) => Some(divided).filter(is_elsewhere),
        None => log::at_the_device(run).or_else(|| waits::off_processors(run)),
    }
}

/// Names petal, if the server waited for it.
fn petal_itself(run: &Run) -> Option<LimitedBy> {
    let bound = limits::is_petal_full(run).then(|| limits::generator_bound(run).ok());
    let evidence = bound??.evidence;
    let words = "petal's own processors".to_owned();
    Some(LimitedBy { by: Limiter::Petal, words, shared_with: None, evidence })
}

/// Names the network, if the way to the server and back is most of DB time. LOOP=client makes at
/// least one round trip per operation. The answer to a question takes processor time on both sides,
/// but no more than an operation does: the rest was on the way.
fn on_the_way(run: &Run) -> Option<LimitedBy> {
    let by_request = waterfall::executed(run) == OperationSide::ByRequest;
    let way_us = run.details.server_round_trip_us.filter(|_| by_request)?;
    let on_processors_s =
        other_processors::at_work(run).map_or(0.0, |at_work| at_work.own * run.summary.elapsed_s);
    let on_processors_s = on_processors_s.max(run.summary.petal_cpu_s.unwrap_or(0.0));
    let on_the_way_s = run.summary.ops.total as f64 * way_us / 1e6 - on_processors_s;
    let share = on_the_way_s / run.details.db_time_s;
    (run.details.db_time_s > 0.0 && share >= LIMIT_SHARE_MIN).then(|| {
        let percent = share.min(1.0) * 100.0;
        let words = format!(
            "network (at least {percent:.0} % of DB time; {} ms to the server and back)",
            decimal(way_us / 1e3, 2)
        );
        LimitedBy::new(
            Limiter::Network,
            words,
            json!({ "round_trip_us": way_us, "share_of_db_time": share }),
        )
    })
}

/// Names the processors, if operations mostly waited for one.
fn run_queue(run: &Run) -> Option<LimitedBy> {
    let share = queued_share(run).filter(|&share| share >= LIMIT_SHARE_MIN)?;
    let percent = share.min(1.0) * 100.0;
    let others = others_words(run);
    let words =
        format!("processors (operations waited {percent:.0} % of their time for one{others})");
    Some(LimitedBy::new(Limiter::Processors, words, json!({ "run_queue_share": share })))
}

/// Names the place where operations mostly spend their time, by the parts of the waterfall, or two
/// places that are level. None if these are not known.
fn by_residence(run: &Run) -> Option<LimitedBy> {
    let waterfall = waterfall::of(run)?;
    let [first, second, ..] = residence::largest_first(&waterfall)?;
    let ((place, share), (next_place, next_share)) = (first, second);
    let part = |part| waterfall.share(part).unwrap_or(0.0);
    let evidence = json!({ "time_shares": residence::evidence(&waterfall) });
    let (by, name) = resource_at(run, &waterfall, place);
    if shared::are_level(share, next_share) {
        let (next_by, next_name) = resource_at(run, &waterfall, next_place);
        let both = [
            ResourceShare { by, name, share },
            ResourceShare { by: next_by, name: next_name, share: next_share },
        ];
        return Some(shared::between(run, both, "an operation's time", evidence));
    }
    let spent = format!("{:.0} % of an operation's time", share * 100.0);
    if share < LIMIT_SHARE_MIN {
        let words = format!("not determined (largest share: {name}, {spent})");
        return Some(LimitedBy::new(Limiter::NotDetermined, words, evidence));
    }
    let words = match by {
        Limiter::Processors => {
            let (queued, others) = (part(PartOfTime::RunQueue) * 100.0, others_words(run));
            format!("{name} ({spent}; {queued:.0} % waits for one{others})")
        }
        Limiter::Reads if place == PlaceOfTime::Reads => {
            let above = (part(PartOfTime::FileSystem) + part(PartOfTime::BlockQueue)) / share;
            let above = match above >= ABOVE_DEVICE_MIN {
                true => format!(", {:.0} % of it above the device", above * 100.0),
                false => String::new(),
            };
            format!("waiting for reads ({spent}{above})")
        }
        _ => format!("{name} ({spent})"),
    };
    Some(LimitedBy::new(by, words, evidence))
}

/// The resource of a place of the waterfall, by name.
fn resource_at(run: &Run, waterfall: &Waterfall, place: PlaceOfTime) -> (Limiter, String) {
    let queued = waterfall.share(PartOfTime::RunQueue).unwrap_or(0.0);
    let (by, name) = match place {
        PlaceOfTime::Processors if queued >= QUEUED_SHARE_MIN => {
            (Limiter::Processors, "processors")
        }
        PlaceOfTime::Processors => {
            (Limiter::SessionProcessorTime, "processor time of the sessions")
        }
        PlaceOfTime::Reads => (Limiter::Reads, "reads"),
        PlaceOfTime::Writes => (Limiter::Log, "log writes and syncs"),
        PlaceOfTime::Network => (Limiter::Network, "network"),
        PlaceOfTime::Waits => {
            return match blocked_class(run, waterfall) {
                Some(class) => (waits::limiter(class), words_with_event(run, class)),
                None => (Limiter::OtherWaits, "waits that the database does not name".to_owned()),
            };
        }
    };
    (by, name.to_owned())
}

/// The class of waits in which threads are blocked outside of calls: the one with the most time by the
/// database's clock that is not in the kernel's own part. Another thread may read, or write the log.
fn blocked_class(run: &Run, waterfall: &Waterfall) -> Option<WaitClass> {
    let share_of = |place| residence::share_of(waterfall, place).unwrap_or(0.0);
    let beyond = |(class, time_us): (WaitClass, f64)| {
        let in_calls = match class {
            WaitClass::UserIo => share_of(PlaceOfTime::Reads),
            WaitClass::Commit => share_of(PlaceOfTime::Writes),
            WaitClass::Network => share_of(PlaceOfTime::Network),
            _ => 0.0,
        };
        Some((class, run.share_of_db_time(time_us)? - in_calls))
    };
    let classes = classes_by_time(run).into_iter().filter_map(beyond);
    let most = classes.max_by(|a, b| a.1.total_cmp(&b.1));
    let half = share_of(PlaceOfTime::Waits) * LIMIT_SHARE_MIN;
    most.filter(|(_, beyond)| *beyond >= half).map(|(class, _)| class)
}

/// Names a control group's limit on the device, unless sessions hardly waited for its requests and
/// spent their time elsewhere: the requests were in the background then, or other programs' on the
/// same device. A limit acts on throughput by the time that operations wait for it alone.
fn io_limit(run: &Run) -> Option<LimitedBy> {
    let reads = waits::waited_share(run, &[WaitClass::UserIo]);
    let writes = waits::waited_share(run, &[WaitClass::Commit, WaitClass::Configuration]);
    let on_processors = waits::processor_share(run);
    io_limits::reached(run).into_iter().find_map(|reached| {
        let (waited, others) =
            if reached.is_of_reads() { (reads, writes) } else { (writes, reads) };
        let elsewhere = [others, on_processors].into_iter().flatten().reduce(f64::max);
        let is_elsewhere = elsewhere.is_some_and(|share| share >= LIMIT_SHARE_MIN);
        let is_waited_for = !is_elsewhere || waited.is_none_or(|share| share >= WAITED_SHARE_MIN);
        let mut evidence = reached.evidence();
        evidence["waited_share"] = json!(waited);
        is_waited_for.then(|| LimitedBy::new(Limiter::IoLimit, reached.words(), evidence))
    })
}

/// Names a limit of the whole host; None if none is seen.
fn whole_host(run: &Run) -> Option<LimitedBy> {
    let share = run.summary.share.as_ref().filter(|share| share.share.of > 1);
    if let Some(share) = share.filter(|_| !run.details.target.in_process) {
        // The database worked for all hosts.
        let words = format!("not judged, share {} of {}", share.share.number, share.share.of);
        return Some(LimitedBy::new(Limiter::NotJudged, words, Value::Null));
    }
    let words = limits::full_words(run)?;
    let others = limits::others_on_full_processors(run);
    let by = match others.is_some_and(Others::prevail) {
        true => Limiter::OthersWork,
        false => Limiter::Processors,
    };
    Some(LimitedBy::new(by, words, limits::full_evidence(run)))
}

/// The workload held itself back: think time or an asked rate.
fn think_time_or_rate(run: &Run) -> Option<LimitedBy> {
    let details = &run.details;
    let sessions_s = details.db_time_s + details.think_time_s;
    let thought = details.think_time_s / sessions_s;
    if sessions_s > 0.0 && thought > LIMIT_SHARE_MIN {
        let words = format!("think time ({:.0} % of the sessions' time)", thought * 100.0);
        let evidence = json!({ "share_of_sessions_time": thought });
        return Some(LimitedBy::new(Limiter::ThinkTime, words, evidence));
    }
    let sessions = u64::from(run.summary.sessions);
    let is_kept = details.backlog.is_some_and(|backlog| backlog <= sessions);
    let evidence = json!({ "backlog": details.backlog });
    is_kept.then(|| LimitedBy::new(Limiter::Rate, "the asked RATE", evidence))
}
