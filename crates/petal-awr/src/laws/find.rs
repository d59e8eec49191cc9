//! Finders of the checks of each law.

use std::collections::BTreeMap;

use super::super::events::is_of_one_population;
use super::super::figure::{self, Figure};
use super::super::law::{Interval, Relation};
use super::super::load::MIB;
use super::super::report::{
    Bucket, Histogram, IoFunction, IoRow, LoadLine, Report, ReportKind, WaitEvent, event,
};
use super::super::statistics::StatisticPlace;
use super::super::times;
use super::checks::{Checks, Doubtful, Part, interval};

const SECTION_MODEL: &str = "Time Model";
/// Factor between neighbouring ranges of a histogram: a misread range is off by as much at least.
/// The counts of a histogram and the time of its event are of slightly different moments.
const RANGE: f64 = 2.0;
/// Sizes of a request: a block of a log or control file, and more than any known maximum.
const REQUEST: Interval = Interval { low: 512.0, high: (16 << 20) as f64 };
/// Seconds that a change of the clock adds or takes.
const CLOCK_CHANGE_S: f64 = 3600.0;
/// Largest difference of times that are printed to the second.
const CLOCK_S: f64 = 2.0;

/// Shares with the most digits that are tried for a common total.
const SHARP_MAX: usize = 16;
const ENDLESS: Interval = Interval { low: 0.0, high: f64::INFINITY };

type Field<R> = (&'static str, fn(&R) -> &Option<Figure>);

/// Returns the counts of all rows, if each is printed.
fn counts<'r, R: 'r>(
    rows: impl IntoIterator<Item = &'r R>,
    (name, field): Field<R>,
) -> Option<Vec<Part>> {
    rows.into_iter().map(|row| Part::count(name, field(row))).collect()
}

/// Returns the elapsed seconds.
fn elapsed_s(report: &Report) -> Option<Part> {
    let part = Part::of("elapsed", &report.header.elapsed_min)?;
    Some(Part { value: part.value.scaled(60.0), ..part }).filter(|part| part.value.low > 0.0)
}

fn is_of_one_instance(report: &Report) -> bool {
    matches!(report.kind, ReportKind::Awr | ReportKind::Awrpdb)
}

const IO: [Field<IoRow>; 3] = [
    ("reads", |row| &row.reads),
    ("writes", |row| &row.writes),
    ("buffer waits", |row| &row.buffer_waits),
];

pub fn files<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    let key = |row: &IoRow| (row.tablespace.clone(), figure::shown(&row.pdb));
    let mut by_space: BTreeMap<_, Vec<&IoRow>> = BTreeMap::new();
    report.files.iter().for_each(|file| by_space.entry(key(file)).or_default().push(file));
    for space in &report.tablespaces {
        let Some(files) = by_space.get(&key(space)) else { continue };
        for field in IO {
            let own = counts(files.iter().copied(), field);
            let own = own.zip(Part::count(field.0, field.1(space)));
            if let Some((own, whole)) = own {
                let place = ("Tablespace and File IO Stats", space.tablespace.as_str());
                checks.sum(place, own, whole, ["the sum of its files", "its own"]);
            }
        }
    }
}

const FUNCTION: [Field<IoFunction>; 5] = [
    ("read bytes", |row| &row.read_bytes),
    ("read requests", |row| &row.read_requests_per_s),
    ("written bytes", |row| &row.write_bytes),
    ("write requests", |row| &row.write_requests_per_s),
    ("waits", |row| &row.waits),
];

pub fn totals<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    let is_total = |row: &&IoFunction| row.name.to_ascii_uppercase().starts_with("TOTAL");
    let lists = [
        ("IOStat by Function", &report.io_functions),
        ("IOStat by Filetype", &report.io_file_types),
    ];
    for (section, rows) in lists {
        for total in rows.iter().filter(is_total) {
            for (name, field) in FUNCTION {
                // A blank cell is nothing.
                let own = rows.iter().filter(|row| !is_total(row));
                let own = own.filter_map(|row| Part::of(name, field(row))).collect();
                if let Some(whole) = Part::of(name, field(total)) {
                    checks.sum((section, name), own, whole, ["the sum of the rows", "the TOTAL"]);
                }
            }
        }
    }
    for (name, line) in report.io_profile.lines() {
        let own = [("read", &line.read), ("write", &line.write)];
        let own: Option<Vec<Part>> = own.into_iter().map(|(name, it)| Part::of(name, it)).collect();
        if let Some((own, both)) = own.zip(Part::of("read and write", &line.both)) {
            checks.sum(("IO Profile", name), own, both, ["read plus write", "both"]);
        }
    }
}

pub fn shares<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    for (at, histogram) in report.histograms.iter().enumerate() {
        if histogram.unit == "percent"
            && let Some(sum) = share_sum(histogram, |_| 1.0)
        {
            let part = Part { figure: Doubtful::Histogram(at), name: "ranges", value: sum };
            let sides = [("the sum of its shares", sum), ("the whole", Interval::exact(100.0))];
            checks.product((&histogram.section, &histogram.name), [part], sides);
        }
    }
}

/// Sums the shares of a histogram, each times a factor.
fn share_sum(histogram: &Histogram, factor: impl Fn(&Bucket) -> f64) -> Option<Interval> {
    let share = |bucket: &Bucket| -> Option<Interval> {
        let value = interval(bucket.share.as_ref()?)?;
        let value = Interval { low: value.low.max(0.0), ..value };
        // An endless range bounds nothing, even if it has few waits.
        Some(if factor(bucket).is_finite() { value.scaled(factor(bucket)) } else { ENDLESS })
    };
    histogram.buckets.iter().map(share).sum()
}

pub fn mean<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    // A blank range of a cluster's histogram is not certainly empty.
    if matches!(report.kind, ReportKind::Awrg | ReportKind::Excerpt) {
        return;
    }
    let lists = [&report.foreground_events, &report.background_events];
    for (at, histogram) in report.histograms.iter().enumerate() {
        let found: Vec<&WaitEvent> =
            lists.iter().filter_map(|list| event(list, &histogram.name)).collect();
        if found.is_empty() || histogram.unit != "percent" {
            continue;
        }
        let times = found.iter().map(|event| Part::of("time", &event.time_s));
        let Some(times) = times.collect::<Option<Vec<Part>>>() else { continue };
        let waits = counts(found.iter().copied(), ("waits", |event| &event.waits));
        let Some(waits) = waits else { continue };
        let all = |parts: &[Part]| parts.iter().map(|part| part.value).sum::<Interval>();
        let mean = all(&times).scaled(1e6) / all(&waits);
        let bounds = [
            share_sum(histogram, |bucket| bucket.from_us / RANGE / 100.0),
            share_sum(histogram, |bucket| bucket.below_us.unwrap_or(f64::INFINITY) * RANGE / 100.0),
        ];
        let [Some(low), Some(high)] = bounds else { continue };
        let ranges = Part { figure: Doubtful::Ranges(at), name: "ranges", value: high };
        // Other laws check the event's time and waits.
        let parts = || [ranges.clone()];
        let place = (histogram.section.as_str(), histogram.name.as_str());
        let mean = ("the mean in us", mean);
        let upper = [mean, ("its ranges allow", high)];
        checks.related(place, parts(), Relation::AtMost, upper);
        let lower = [("the least that its ranges allow", low), mean];
        checks.related(place, parts(), Relation::AtMost, lower);
    }
}

fn event_lists(report: &Report) -> [(&'static str, &Vec<WaitEvent>); 3] {
    [
        ("top events", &report.top_events),
        ("foreground wait events", &report.foreground_events),
        ("background wait events", &report.background_events),
    ]
}

pub fn products<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    for (section, list) in event_lists(report) {
        for event in list {
            let waits = Part::count("waits", &event.waits);
            let average = Part::of("average", &event.reported_avg_us);
            let time = Part::of("time", &event.time_s);
            if let (Some(waits), Some(average), Some(time)) = (waits, average, time)
                && waits.value.low > 0.0
            {
                let product = (waits.value * average.value).scaled(1e-6);
                let sides = [("waits x average in s", product), ("the time", time.value)];
                checks.product((section, &event.name), [waits, average, time], sides);
            }
        }
    }
}

const EVENT: [Field<WaitEvent>; 4] = [
    ("waits", |event| &event.waits),
    ("time", |event| &event.time_s),
    ("average", |event| &event.reported_avg_us),
    ("% of DB time", |event| &event.pct_db_time),
];

pub fn lists<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    if is_of_one_instance(report) && !report.foreground_events.is_empty() {
        for top in &report.top_events {
            let Some(other) = event(&report.foreground_events, &top.name) else { continue };
            for (name, field) in EVENT {
                let own = Part::of(name, field(top)).zip(Part::of(name, field(other)));
                if let Some((one, two)) = own {
                    let sides = [("in the top list", one.value), ("in the longer list", two.value)];
                    checks.product(("events", &top.name), [one, two], sides);
                }
            }
        }
    }
    for (name, first, second) in report.statistics.doubles() {
        let sides = [("one section", first.value), ("another section", second.value)];
        checks.product(("Instance Activity Stats", name), [first, second], sides);
    }
}

/// A figure and its share of a total, or of each transaction.
struct PartShare<'r> {
    place: (&'r str, &'r str),
    value: Part,
    share: Part,
}

/// Returns the total that most of the shares agree with, by the share with the most digits; the
/// value over the share, times `unit`, is the total.
fn common_total(rows: &[PartShare<'_>], unit: f64) -> Option<Interval> {
    let total = |row: &PartShare<'_>| row.value.value.scaled(unit) / row.share.value;
    let all: Vec<Interval> = rows.iter().map(total).collect();
    let agree = |one: &Interval| all.iter().filter(|two| one.meets(**two)).count();
    let is_sharp = |range: &&Interval| range.low > 0.0 && range.high < 2.0 * range.low;
    let mut sharp: Vec<&Interval> = all.iter().filter(is_sharp).collect();
    sharp.sort_by(|one, two| (one.high / one.low).total_cmp(&(two.high / two.low)));
    let best = sharp.into_iter().take(SHARP_MAX).max_by_key(|range| agree(range))?;
    (agree(best) * 2 > rows.len()).then_some(*best)
}

/// Checks that shares are of one total: the known one, or the one that most agree with.
fn of_one_total<'r>(
    checks: &mut Checks<'r>,
    rows: Vec<PartShare<'r>>,
    known: Option<(Vec<Part>, Interval)>,
    (unit, sides): (f64, [&'static str; 2]),
) {
    let (parts, all) = match known {
        Some(known) => known,
        None => match common_total(&rows, unit) {
            Some(all) => (Vec::new(), all),
            None => return,
        },
    };
    for PartShare { place, value, share } in rows {
        let computed = value.value.scaled(unit) / all;
        let sides = [(sides[0], computed), (sides[1], share.value)];
        checks.product(place, [value, share].into_iter().chain(parts.iter().cloned()), sides);
    }
}

/// Returns the DB time in seconds, with the most digits.
fn known_db_time(report: &Report) -> Option<Part> {
    let minutes = || {
        let part = Part::of("DB time", &report.header.db_time_min)?;
        Some(Part { value: part.value.scaled(60.0), ..part })
    };
    let part = Part::of("DB time", &report.time_model.db_time_s).or_else(minutes);
    part.filter(|part| part.value.low > 0.0)
}

const PERCENT: (f64, [&str; 2]) = (100.0, ["its share of the total in percent", "the percentage"]);

pub fn percentages<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    fn row<'r>(
        place: (&'r str, &'r str),
        (what, value): (&'static str, &Option<Figure>),
        pct: &Option<Figure>,
    ) -> Option<PartShare<'r>> {
        Some(PartShare {
            place,
            value: Part::of(what, value)?,
            share: Part::of("percentage", pct)?,
        })
    }
    let known = known_db_time(report).filter(|_| is_of_one_instance(report));
    let known = known.map(|time| (vec![time.clone()], time.value));
    let [_, _, (background, _)] = event_lists(report);
    for (section, list) in event_lists(report) {
        if is_of_one_population(list) {
            let own =
                |it: &'r WaitEvent| row((section, &it.name), ("time", &it.time_s), &it.pct_db_time);
            let of = known.clone().filter(|_| section != background);
            of_one_total(checks, list.iter().filter_map(own).collect(), of, PERCENT);
        }
    }
    let rows = report
        .wait_classes
        .iter()
        .filter_map(|it| row(("wait classes", &it.name), ("time", &it.time_s), &it.pct_db_time));
    of_one_total(checks, rows.collect(), known, PERCENT);
    let rows = report.segments_by_reads.iter().filter_map(|it| {
        let place = ("Segments by Physical Reads", it.object.as_str());
        row(place, ("reads", &it.physical_reads), &it.pct_total)
    });
    of_one_total(checks, rows.collect(), None, PERCENT);
    let rows = report.sql_by_reads.iter().filter_map(|it| {
        let place = ("SQL ordered by Reads", it.sql_id.as_printed.as_deref()?);
        row(place, ("reads", &it.physical_reads), &it.pct_total)
    });
    of_one_total(checks, rows.collect(), None, PERCENT);
}

pub fn classes<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    if !is_of_one_instance(report) {
        return;
    }
    for class in &report.wait_classes {
        let is_own = |event: &&WaitEvent| {
            let own = figure::shown(&event.wait_class);
            own.is_some_and(|own| own.len() > 3 && class.name.starts_with(&own))
        };
        let own = report.top_events.iter().filter(is_own);
        let own: Option<Vec<Part>> = own.map(|it| Part::of("time", &it.time_s)).collect();
        let Some((own, whole)) = own.zip(Part::of("time", &class.time_s)) else { continue };
        let sum = own.iter().map(|part| part.value).sum();
        let sides = [("the time of its top events", sum), ("its own", whole.value)];
        let parts = own.into_iter().chain([whole]);
        checks.related(("wait classes", &class.name), parts, Relation::AtMost, sides);
    }
    for two in report.top_events.windows(2) {
        let [first, second] = two else { continue };
        let times = [&first.time_s, &second.time_s].map(|time| Part::of("time", time));
        if let [Some(first), Some(next)] = times {
            let sides = [("its time", next.value), ("the time of the event above it", first.value)];
            checks.related(("top events", &second.name), [next, first], Relation::AtMost, sides);
        }
    }
}

pub fn captured<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    let is_foreground = |figure: &Figure| figure.section.to_lowercase().contains("foreground");
    let classes = &report.wait_classes;
    let own: Option<Vec<Part>> = classes
        .iter()
        .map(|it| {
            Part::of("time", &it.time_s).filter(|_| it.time_s.as_ref().is_some_and(is_foreground))
        })
        .collect();
    let whole = Part::of("captured time", &report.captured_wait_s);
    if let Some((own, whole)) = own.filter(|own| !own.is_empty()).zip(whole) {
        let sides = ["the sum of the classes", "the captured wait time"];
        checks.sum(("Foreground Wait Class", ""), own, whole, sides);
    }
}

pub fn per_second<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    let Some(elapsed) = elapsed_s(report).filter(|_| report.kind != ReportKind::Awrg) else {
        return;
    };
    let mut check = |place, total: Option<Part>, rate: Option<Part>| {
        if let Some((total, rate)) = total.zip(rate) {
            let computed = total.value / elapsed.value;
            let sides = [("total over elapsed", computed), ("the rate per second", rate.value)];
            checks.product(place, [total, rate, elapsed.clone()], sides);
        }
    };
    for StatisticPlace { name, total, per_second, .. } in report.statistics.places() {
        check(("Instance Activity Stats", name), total, per_second);
    }
    for row in report.tablespaces.iter().chain(&report.files) {
        let place = ("IO Stats", row.file.as_deref().unwrap_or(&row.tablespace));
        let of = |name, figure| Part::of(name, figure);
        let reads = Part::count("reads", &row.reads);
        check(place, reads, of("reads per second", &row.reads_per_s));
        let writes = Part::count("writes", &row.writes);
        check(place, writes, of("writes per second", &row.writes_per_s));
    }
}

const EACH: (f64, [&str; 2]) = (1.0, ["the total over transactions", "the value per transaction"]);

/// Totals of statistics with their values per transaction.
fn statistics_each(report: &Report) -> Vec<PartShare<'_>> {
    let row = |StatisticPlace { name, total, per_transaction, .. }| {
        let place = ("Instance Activity Stats", name);
        Some(PartShare { place, value: total?, share: per_transaction? })
    };
    report.statistics.places().filter_map(row).collect()
}

/// Returns the number of transactions: commits and rollbacks if both are printed, else the one that
/// most statistics agree with.
fn transactions(report: &Report) -> Option<(Vec<Part>, Interval)> {
    let of = |name| report.statistics.place(name)?.total;
    if let Some((commits, rollbacks)) = of("user commits").zip(of("user rollbacks")) {
        let all = commits.value + rollbacks.value;
        return Some((vec![commits, rollbacks], all));
    }
    Some((Vec::new(), common_total(&statistics_each(report), 1.0)?))
}

pub fn per_transaction<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    if let Some(known) = transactions(report) {
        of_one_total(checks, statistics_each(report), Some(known.clone()), EACH);
        let waits = |section, event: &'r WaitEvent| {
            let value = Part::count("waits", &event.waits)?;
            let share = Part::of("waits per transaction", &event.waits_per_transaction)?;
            Some(PartShare { place: (section, event.name.as_str()), value, share })
        };
        let lists = event_lists(report).into_iter();
        let rows =
            lists.flat_map(|(section, list)| list.iter().filter_map(move |it| waits(section, it)));
        if report.kind != ReportKind::Awrg {
            of_one_total(checks, rows.collect(), Some(known), EACH);
        }
    }
    let profile = &report.load_profile;
    let Some(rate) = Part::of("transactions per second", &profile.transactions.per_second) else {
        return;
    };
    for (name, line) in profile.lines() {
        let second = Part::of("per second", &line.per_second);
        let each = Part::of("per transaction", &line.per_transaction);
        if let Some((second, each)) = second.zip(each) {
            let computed = each.value * rate.value;
            let sides =
                [("per transaction x transactions", computed), ("per second", second.value)];
            checks.product(("Load Profile", name), [second, each, rate.clone()], sides);
        }
    }
}

/// Figure of IO Profile, its statistic, and the unit of the figure.
type LoadStatistic = (fn(&Report) -> &Option<Figure>, &'static str, f64);

/// Statistics of Load Profile's lines, by the lines' names.
const OF_LINES: [(&str, &str, f64); 15] = [
    ("redo_bytes", "redo size", 1.0),
    ("logical_reads", "session logical reads", 1.0),
    ("block_changes", "db block changes", 1.0),
    ("physical_reads", "physical reads", 1.0),
    ("physical_writes", "physical writes", 1.0),
    ("read_requests", "physical read IO requests", 1.0),
    ("write_requests", "physical write IO requests", 1.0),
    ("read_mb", "physical read bytes", MIB),
    ("write_mb", "physical write bytes", MIB),
    ("user_calls", "user calls", 1.0),
    ("parses", "parse count (total)", 1.0),
    ("hard_parses", "parse count (hard)", 1.0),
    ("logons", "logons cumulative", 1.0),
    ("executes", "execute count", 1.0),
    ("rollbacks", "user rollbacks", 1.0),
];

const OF_IO_PROFILE: [LoadStatistic; 8] = [
    (|r| &r.io_profile.total_requests.read, "physical read total IO requests", 1.0),
    (|r| &r.io_profile.total_requests.write, "physical write total IO requests", 1.0),
    (|r| &r.io_profile.database_requests.read, "physical read IO requests", 1.0),
    (|r| &r.io_profile.database_requests.write, "physical write IO requests", 1.0),
    (|r| &r.io_profile.total_mb.read, "physical read total bytes", MIB),
    (|r| &r.io_profile.total_mb.write, "physical write total bytes", MIB),
    (|r| &r.io_profile.database_mb.read, "physical read bytes", MIB),
    (|r| &r.io_profile.database_mb.write, "physical write bytes", MIB),
];

pub fn loads<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    let Some(elapsed) = elapsed_s(report).filter(|_| report.kind != ReportKind::Awrg) else {
        return;
    };
    let mut rate = |section, line: &Option<Figure>, name, unit| {
        let total = report.statistics.place(name).and_then(|it| it.total);
        if let Some((rate, total)) = Part::of("the rate per second", line).zip(total) {
            let computed = total.value / elapsed.value;
            let sides =
                [("the profile's rate", rate.value.scaled(unit)), ("total over elapsed", computed)];
            checks.product((section, name), [rate, total, elapsed.clone()], sides);
        }
    };
    for (field, name, unit) in OF_IO_PROFILE {
        rate("IO Profile", field(report), name, unit);
    }
    let of_lines = report.load_profile.lines().into_iter().filter_map(|(line, load)| {
        let (_, name, unit) = OF_LINES.into_iter().find(|(known, ..)| *known == line)?;
        Some((load, name, unit))
    });
    for (load, name, unit) in of_lines.clone() {
        rate("Load Profile", &load.per_second, name, unit);
    }
    let known = transactions(report);
    if let Some((parts, all)) = &known {
        for (load, name, unit) in of_lines {
            let each = Part::of("the rate per transaction", &load.per_transaction);
            let total = report.statistics.place(name).and_then(|it| it.total);
            let Some((each, total)) = each.zip(total) else { continue };
            let computed = total.value / *all;
            let sides = [
                ("the profile's rate", each.value.scaled(unit)),
                ("total over transactions", computed),
            ];
            let parts = [each, total].into_iter().chain(parts.iter().cloned());
            checks.product(("Load Profile", name), parts, sides);
        }
    }
    let rate = Part::of("transactions", &report.load_profile.transactions.per_second);
    if let Some((rate, (parts, all))) = rate.zip(known) {
        let computed = all / elapsed.value;
        let sides = [("the profile's rate", rate.value), ("commits and rollbacks", computed)];
        let parts = [rate, elapsed].into_iter().chain(parts);
        checks.product(("Load Profile", "transactions"), parts, sides);
    }
}

pub fn db_time<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    if report.kind == ReportKind::Awrg {
        return;
    }
    let elapsed = elapsed_s(report);
    let model = &report.time_model;
    let minutes = Part::of("DB time of the header", &report.header.db_time_min);
    if let Some((minutes, own)) = minutes.zip(Part::of("DB time", &model.db_time_s)) {
        let sides = [("in the header", minutes.value.scaled(60.0)), ("its own", own.value)];
        checks.product((SECTION_MODEL, "DB time"), [minutes, own], sides);
    }
    let profile = &report.load_profile;
    let mut rate = |name, line: &LoadLine, total: &Option<Figure>| {
        let rate = Part::of("the rate", &line.per_second);
        if let (Some(rate), Some(total), Some(elapsed)) = (rate, Part::of(name, total), &elapsed) {
            let computed = total.value / elapsed.value;
            let sides = [("its total over elapsed", computed), ("the profile's rate", rate.value)];
            checks.product((SECTION_MODEL, name), [total, rate, elapsed.clone()], sides);
        }
    };
    rate("DB time", &profile.db_time, &model.db_time_s);
    rate("DB CPU", &profile.db_cpu, &model.db_cpu_s);
}

pub fn requests<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    let mut bounds = |place, bytes: Part, requests: Part, size: Interval| {
        let parts = || [bytes.clone(), requests.clone()];
        let least =
            [("the smallest request", Interval::exact(REQUEST.low)), ("bytes per request", size)];
        let most =
            [("bytes per request", size), ("the largest request", Interval::exact(REQUEST.high))];
        checks.related(place, parts(), Relation::AtMost, least);
        checks.related(place, parts(), Relation::AtMost, most);
    };
    let elapsed = elapsed_s(report).filter(|_| report.kind != ReportKind::Awrg);
    let rows = report.io_functions.iter().chain(&report.io_file_types);
    for (row, elapsed) in rows.flat_map(|row| elapsed.as_ref().map(|elapsed| (row, elapsed))) {
        let [read, reads, written, writes, _] = FUNCTION;
        for [bytes, requests] in [[read, reads], [written, writes]] {
            let of = |field: Field<IoFunction>| Part::of(field.0, field.1(row));
            if let Some((bytes, requests)) = of(bytes).zip(of(requests)) {
                let size = bytes.value / elapsed.value / requests.value;
                bounds(("IOStat", row.name.as_str()), bytes, requests, size);
            }
        }
    }
    for name in ["physical read", "physical read total", "physical write", "physical write total"] {
        let of = |what: &str| report.statistics.place(&format!("{name} {what}"))?.total;
        if let Some((bytes, requests)) = of("bytes").zip(of("IO requests")) {
            let size = bytes.value / requests.value;
            bounds(("Instance Activity Stats", name), bytes, requests, size);
        }
    }
}

pub fn elapsed<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    let header = &report.header;
    let time = |figure: &Option<Figure>| {
        // Times without seconds are too coarse.
        let shown = figure::shown(figure).filter(|it| it.matches(':').count() == 2)?;
        times::parse(&shown)
    };
    let Some(elapsed) = elapsed_s(report) else { return };
    let Some((begin, end)) = time(&header.begin_time).zip(time(&header.end_time)) else { return };
    let between = (end - begin).as_seconds_f64();
    let clock = [-CLOCK_CHANGE_S, 0.0, CLOCK_CHANGE_S].into_iter();
    let near = clock.min_by(|one, two| {
        let off = |by: f64| (between + by - elapsed.value.middle()).abs();
        off(*one).total_cmp(&off(*two))
    });
    let near = between + near.unwrap_or(0.0);
    let part = |name, figure| Part { figure: Doubtful::field(figure), name, value: elapsed.value };
    let parts = [part("begin", &header.begin_time), part("end", &header.end_time), elapsed.clone()];
    let range = Interval { low: near - CLOCK_S, high: near + CLOCK_S };
    let sides = [("the time from begin to end in s", range), ("elapsed", elapsed.value)];
    checks.product(("report header", ""), parts, sides);
}

pub fn processors<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    let cpu = &report.cpu;
    let of = |name, figure| Part::of(name, figure);
    let Some((busy, idle)) = of("busy time", &cpu.busy_s).zip(of("idle time", &cpu.idle_s)) else {
        return;
    };
    let all = busy.value + idle.value;
    let user = of("user time", &cpu.user_s);
    let system = of("system time", &cpu.system_s);
    let lines = [
        ("% idle", of("% idle", &cpu.printed_idle_pct), Some(idle.clone())),
        ("% user", of("% user", &cpu.user_pct), user),
        ("% system", of("% system", &cpu.system_pct), system),
    ];
    for (name, pct, time) in lines {
        let Some((pct, time)) = pct.zip(time) else { continue };
        let computed = time.value.scaled(100.0) / all;
        let sides = [("its time in percent", computed), ("the percentage", pct.value)];
        let parts = [pct, time, busy.clone(), idle.clone()];
        checks.product(("Host CPU", name), parts, sides);
    }
}

pub fn instances<'r>(report: &'r Report, checks: &mut Checks<'r>) {
    if report.instances.len() < 2 {
        return;
    }
    for (at, (name, line)) in report.load_profile.lines().into_iter().enumerate() {
        let own = |instance: &Report| {
            let lines = instance.load_profile.lines();
            let (_, line) = lines.get(at)?;
            Part::of("per second", &line.per_second)
        };
        let own: Option<Vec<Part>> = report.instances.iter().map(own).collect();
        let whole = Part::of("per second", &line.per_second);
        if let Some((own, whole)) = own.zip(whole) {
            let sides = ["the sum of the instances", "the cluster's"];
            checks.sum(("System Statistics - Per Second", name), own, whole, sides);
        }
    }
    for class in &report.wait_classes {
        let own = |instance: &Report| {
            let same = instance.wait_classes.iter().find(|own| own.name == class.name)?;
            Part::of("time", &same.time_s)
        };
        let own: Option<Vec<Part>> = report.instances.iter().map(own).collect();
        if let Some((own, whole)) = own.zip(Part::of("time", &class.time_s)) {
            let sides = ["the sum of the instances", "the cluster's"];
            checks.sum(("Foreground Wait Classes", &class.name), own, whole, sides);
        }
    }
}
