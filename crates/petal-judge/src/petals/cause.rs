//! Finds why a line stopped rising, from the figures at two of its points: the earlier and better
//! one and the later one. An unknown figure is no evidence; without any the cause is `unknown`.
//!
//! A read's time holds its waits for a processor too. A slower read is therefore storage's only if
//! the processors are known to have had room; else it is [`STORAGE_OR_PROCESSORS`].

use super::Point;
use petal_host::numbers::decimal;
use petal_record::counters::WaitClass;
use petal_record::observation::metric;

const CPU_BUSY_PCT_MIN: f64 = 96.0;
/// Processors that were busier than this may have made reads wait.
const CPU_ROOM_PCT_MAX: f64 = 90.0;
const STORAGE_OR_PROCESSORS: &str = "storage or processors: not known";
/// petal's own share of its host: full next to a busy server, or alone.
const GENERATOR_SHARED_PCT_MIN: f64 = 30.0;
const GENERATOR_ALONE_PCT_MIN: f64 = 90.0;
/// Minimum rise of a class of waits, in percentage points of DB time, to count as grown.
const WAIT_POINTS_MIN: f64 = 10.0;
const HIT_POINTS_MIN: f64 = 5.0;
const DEVICE_UTIL_PCT_MIN: f64 = 95.0;
/// Latencies that differ by less are the same.
const LATENCY_SHARE_MIN: f64 = 0.05;
/// Findings that make the storage an unlikely cause.
const AGAINST_STORAGE: [(&str, &str); 2] = [
    ("other-load", "other programs used the device or the processors"),
    ("steal", "the hypervisor took processor time away"),
];

/// The cause, and a sentence for each piece of evidence that was looked at and says something.
pub(super) fn of(better: &Point, later: &Point) -> (String, Vec<String>) {
    let pair = Pair { better, later };
    let first = [
        pair.generator().map(|sentence| ("generator", sentence)),
        pair.processor().map(|sentence| ("processor", sentence)),
    ];
    let last = [
        pair.cache().map(|sentence| ("cache", sentence)),
        pair.latency(),
        pair.device().map(|sentence| ("storage", sentence)),
    ];
    let found = first.into_iter().flatten().chain(pair.waits()).chain(last.into_iter().flatten());
    let (causes, mut evidence): (Vec<&str>, Vec<String>) = found.unzip();
    // A sentence with an unknown cause rules other causes out.
    let mut cause = causes.into_iter().find(|cause| *cause != "unknown").unwrap_or("unknown");
    if cause == "storage" {
        let (proven, doubts) = pair.storage();
        cause = proven;
        evidence.extend(doubts);
    }
    if evidence.is_empty() {
        evidence.push("nothing in these figures shows why".to_owned());
    }
    (cause.to_owned(), evidence)
}

/// Returns a sentence on processors that had room at both points; None if they had none, or if it
/// is not known.
pub(super) fn processors_with_room(better: &Point, later: &Point) -> Option<String> {
    let pair = Pair { better, later };
    let busy = busy_pct(better)?.max(busy_pct(later)?);
    let has_room =
        busy <= CPU_ROOM_PCT_MAX && pair.generator().is_none() && pair.processor().is_none();
    has_room.then(|| format!("the processors were at most {busy:.1} % busy"))
}

struct Pair<'a> {
    better: &'a Point,
    later: &'a Point,
}

impl Pair<'_> {
    fn both(&self, name: &str) -> Option<(f64, f64)> {
        self.better.figure(name).zip(self.later.figure(name))
    }

    fn at(&self) -> (u32, u32) {
        (self.better.sessions, self.later.sessions)
    }

    fn generator(&self) -> Option<String> {
        let petal = self.later.figure(metric::PETAL_CPU)?;
        let busy = busy_pct(self.later);
        let is_full = busy.is_some_and(|busy| busy > CPU_BUSY_PCT_MIN);
        let limit = if is_full { GENERATOR_SHARED_PCT_MIN } else { GENERATOR_ALONE_PCT_MIN };
        (petal > limit).then(|| {
            format!(
                "petal itself used {petal:.0} % of its host's processors at {} sessions",
                self.at().1
            )
        })
    }

    fn processor(&self) -> Option<String> {
        let (from, to) = self.at();
        let busy = busy_pct(self.later).filter(|busy| *busy > CPU_BUSY_PCT_MIN);
        let Some(busy) = busy else {
            // A control group's limit, or the log writer's processor, leaves the others idle.
            let is_bound = self.later.warnings.contains("processor-bound");
            return is_bound.then(|| format!("processor-bound was found at {to} sessions"));
        };
        let before = busy_pct(self.better);
        let before = before.map_or(String::new(), |b| format!(", {b:.1} % at {from}"));
        Some(format!("the processors were {busy:.1} % busy at {to} sessions{before}"))
    }

    /// The classes whose share of DB time grew, the one that grew most first.
    fn waits(&self) -> Vec<(&'static str, String)> {
        use WaitClass::{Application, Commit, Concurrency, Configuration, Replica};
        let classes = [
            (Concurrency, "locks", "latches and locks inside the database"),
            (Application, "locks", "locks of other sessions"),
            (Commit, "log", "log writes and syncs"),
            (Replica, "replica", "commits that wait for a replica"),
            (Configuration, "log", "room in the log or a buffer"),
        ];
        let mut grown: Vec<(f64, &'static str, String)> = classes
            .into_iter()
            .filter_map(|(class, cause, words)| {
                let (better, later) = self.both(&metric::wait(class))?;
                let growth = later - better;
                let (from, to) = self.at();
                let sentence = format!(
                    "{words} took {later} % of DB time at {to} sessions, {better} % at {from}",
                    better = decimal(better, 0),
                    later = decimal(later, 0)
                );
                (growth >= WAIT_POINTS_MIN).then_some((growth, cause, sentence))
            })
            .collect();
        grown.sort_by(|a, b| b.0.total_cmp(&a.0));
        grown.into_iter().map(|(_, cause, sentence)| (cause, sentence)).collect()
    }

    fn cache(&self) -> Option<String> {
        let (better, later) = self.both(metric::HIT)?;
        let (from, to) = self.at();
        (better - later >= HIT_POINTS_MIN).then(|| {
            format!(
                "{later} % of logical reads were found in the cache at {to} sessions, \
                 {better} % at {from}",
                better = decimal(better, 0),
                later = decimal(later, 0)
            )
        })
    }

    /// A slower read may be caused by storage. A faster one with fewer PIOPS is not, and its cause
    /// is unknown.
    fn latency(&self) -> Option<(&'static str, String)> {
        let (better, later) = self.both(metric::READ_US)?;
        let (piops_better, piops_later) = self.both(metric::PIOPS)?;
        let change = later / better - 1.0;
        if !change.is_finite() || change.abs() < LATENCY_SHARE_MIN {
            return None;
        }
        let (from, to) = self.at();
        let figures = format!(
            "from {from} to {to} sessions PIOPS went from {piops_better} to {piops_later} \
             while a read went from {better} to {later} us",
            piops_better = decimal(piops_better, 0),
            piops_later = decimal(piops_later, 0),
            better = decimal(better, 1),
            later = decimal(later, 1)
        );
        match (change < 0.0, piops_later < piops_better) {
            (true, true) => Some((
                "unknown",
                format!("{figures}: sessions ask for less although reads are faster"),
            )),
            (false, _) => Some(("storage", format!("{figures}: reads are slower"))),
            (true, false) => None,
        }
    }

    /// The cause if no other than storage was found, and the reasons for less than `storage`.
    fn storage(&self) -> (&'static str, Vec<String>) {
        let against = self.against_storage();
        if !against.is_empty() {
            return ("unknown", against);
        }
        let (from, to) = self.at();
        if let Some((before, after)) = self.device_is_as_fast() {
            let evidence = format!(
                "the device itself was no slower: {after} us for a read at {to} sessions, \
                 {before} us at {from}",
                after = decimal(after, 0),
                before = decimal(before, 0)
            );
            return ("unknown", vec![evidence]);
        }
        let doubt = match busy_pct(self.later) {
            None => "how busy the processors were is not known".to_owned(),
            Some(busy) if busy > CPU_ROOM_PCT_MAX => {
                format!("the processors were {busy:.1} % busy at {to} sessions")
            }
            Some(_) => return ("storage", Vec::new()),
        };
        let why = format!("{doubt}, and a read's time holds its waits for a processor");
        (STORAGE_OR_PROCESSORS, vec![why])
    }

    /// The device's own time for a read at both points, if it did not grow.
    fn device_is_as_fast(&self) -> Option<(f64, f64)> {
        let both = self.both(metric::DEVICE_READ_AWAIT);
        both.filter(|(before, after)| *after <= before * (1.0 + LATENCY_SHARE_MIN))
    }

    /// Findings of either point that contradict storage as the cause.
    fn against_storage(&self) -> Vec<String> {
        let both = [self.better, self.later];
        let reported = AGAINST_STORAGE.iter().filter_map(|(id, meaning)| {
            let at = both.iter().filter(|point| point.warnings.contains(*id));
            let at: Vec<String> = at.map(|point| point.sessions.to_string()).collect();
            (!at.is_empty()).then(|| {
                format!(
                    "{id} at {} sessions: {meaning}, so storage is not shown to be the limit",
                    at.join(" and ")
                )
            })
        });
        reported.collect()
    }

    fn device(&self) -> Option<String> {
        let util = self.later.figure(metric::DEVICE_UTIL)?;
        let (before, after) =
            self.both(metric::DEVICE_READ_AWAIT).or_else(|| self.both(metric::READ_US))?;
        let queue = self.later.figure(metric::DEVICE_QUEUE);
        let queue =
            queue.map_or(String::new(), |queue| format!(" with {} in flight", decimal(queue, 1)));
        let is_slower = after > before * (1.0 + LATENCY_SHARE_MIN);
        (util >= DEVICE_UTIL_PCT_MIN && is_slower).then(|| {
            format!(
                "the device had work {util:.0} % of the time at {} sessions{queue}",
                self.at().1
            )
        })
    }
}

/// The share of the processors that was busy; if only idle time is reported, 100 less that.
fn busy_pct(point: &Point) -> Option<f64> {
    let idle = || point.figure(metric::CPU_IDLE).map(|idle| 100.0 - idle);
    point.figure(metric::CPU_BUSY).or_else(idle)
}
