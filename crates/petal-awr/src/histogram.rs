//! Wait event histograms: ranges from their headings, also cut ones; percentiles from all tables of
//! an event, joined.

use super::figure::{Figure, number};
use super::number;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::{Bucket, Histogram, Report};
use super::topic::Topic;

/// A second of a histogram, in microseconds: reports count in powers of two of a millisecond.
const SECOND_US: f64 = 1.024e6;

/// Reads the histograms of a report, and notes tables with unclear headings.
pub fn read(page: &ParsedReport, notes: &mut Vec<String>) -> Vec<Histogram> {
    page.tables_of(Topic::Histogram).flat_map(|table| of_table(table, notes)).collect()
}

fn of_table(table: &PageTable, notes: &mut Vec<String>) -> Vec<Histogram> {
    let Some(name) = table.column(&["event"]) else { return Vec::new() };
    let waits = table.column_where(|key| key.starts_with("totalwaits") || key.starts_with("waits"));
    let headings: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let Some(ranges) = ranges(&headings) else {
        let headings = headings.get(2..).unwrap_or_default().join(" ");
        let note = format!("{}: its ranges are unknown: headings {headings}", table.title);
        if !notes.contains(&note) {
            notes.push(note);
        }
        return Vec::new();
    };
    let is_counted = headings.iter().any(|heading| heading.contains(" - "));
    let share = |text: &str| number::count(text.split('(').next().unwrap_or(text));
    let of_row = |row: TableRow<'_>| {
        let mut from_us = 0.0;
        let bucket = |(at, range): (usize, &Option<WaitRange>)| {
            let WaitRange { name, below_us } = range.clone()?;
            let from_us = std::mem::replace(&mut from_us, below_us.unwrap_or_default());
            let share = Figure::read(cell(row, Some(at)), &table.title, share)?;
            Some(Bucket { range: name, from_us, below_us, share: Some(share) })
        };
        let event = cell(row, Some(name));
        Histogram {
            name: event.to_owned(),
            is_cut: table.may_be_cut(name, event),
            section: table.title.to_string(),
            waits: Figure::read(cell(row, waits), &table.title, number::count),
            unit: if is_counted { "waits" } else { "percent" },
            buckets: ranges.iter().enumerate().filter_map(bucket).collect(),
        }
    };
    let histograms = table.rows.iter().map(of_row);
    histograms
        .filter(|histogram| !histogram.name.is_empty() && !histogram.buckets.is_empty())
        .collect()
}

/// A range of waits, by its heading.
#[derive(Debug, Clone, PartialEq)]
struct WaitRange {
    name: String,
    /// Upper bound, or `None` for the open range.
    below_us: Option<f64>,
}

/// Returns the range of each column that has one, or `None` if the headings are cut and fit more
/// than one row of ranges.
fn ranges(headings: &[&str]) -> Option<Vec<Option<WaitRange>>> {
    let texts: Vec<String> = headings
        .iter()
        .map(|heading| heading.chars().filter(|c| !c.is_whitespace()).collect())
        .collect();
    let is_bounded = |text: &&String| text.starts_with('<');
    let printed: Vec<&str> = texts.iter().filter(is_bounded).map(|it| &it[1..]).collect();
    let whole: Vec<Option<f64>> = printed.iter().map(|text| bound_us(text)).collect();
    let is_rising = whole.windows(2).all(|two| two[0] < two[1]);
    let cut = if whole.iter().all(Option::is_some) && is_rising {
        None
    } else {
        Some(on_the_ladder(&printed)?)
    };
    let mut place = 0;
    let range = |(text, heading): (&String, &&str)| {
        let name = heading.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.starts_with('<') {
            place += 1;
            return match &cut {
                Some(cut) => cut.get(place - 1).cloned(),
                None => Some(WaitRange { name, below_us: whole.get(place - 1).copied().flatten() }),
            };
        }
        if text.starts_with('>') || text.ends_with("+ms") {
            return Some(WaitRange { name, below_us: None });
        }
        // `4 - 8 ms`.
        let (_, upper) = text.strip_suffix("ms")?.split_once('-')?;
        Some(WaitRange { name, below_us: Some(number::count(upper)?.number() * 1e3) })
    };
    Some(texts.iter().zip(headings).map(range).collect())
}

/// Returns the bound in a heading such as `8ms`, `=1s` or `1/8s`.
fn bound_us(text: &str) -> Option<f64> {
    let text = text.trim_start_matches('=');
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)? {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => SECOND_US,
        "m" => 60.0 * SECOND_US,
        "h" => 3600.0 * SECOND_US,
        _ => return None,
    };
    let value = match digits.split_once('/') {
        Some((over, under)) => number::count(over)?.number() / number::count(under)?.number(),
        None => number::count(digits)?.number(),
    };
    Some(value * unit).filter(|bound| bound.is_finite())
}

/// Names of the bounds that reports print, each twice the one before.
fn ladder() -> Vec<Vec<String>> {
    let rung = |power: u32| {
        let of = |base: u32, unit: &str| format!("{}{unit}", 1u32 << (power - base));
        match power {
            0..10 => vec![of(0, "us")],
            10..17 => vec![of(10, "ms")],
            17..20 => vec![of(10, "ms"), format!("1/{}s", 1 << (20 - power))],
            20..26 => vec![of(20, "s")],
            _ => vec![of(26, "m")],
        }
    };
    (0..32).map(rung).collect()
}

/// Completes cut headings, if only one run of bounds begins with them. A heading that is whole may
/// leave bounds out, as `=1s` does behind `32ms`.
fn on_the_ladder(printed: &[&str]) -> Option<Vec<WaitRange>> {
    let ladder = ladder();
    let named = |at: usize, text: &str| ladder.get(at)?.iter().find(|name| name.starts_with(text));
    let from = |start: usize| -> Option<Vec<WaitRange>> {
        let mut next = start;
        let mut run = Vec::new();
        for text in printed {
            let text = text.trim_start_matches('=');
            let whole =
                || (next..ladder.len()).find(|&at| named(at, text).is_some_and(|it| it == text));
            let at = if named(next, text).is_some() { next } else { whole()? };
            let name = named(at, text)?;
            run.push(WaitRange { name: format!("<{name}"), below_us: bound_us(name) });
            next = at + 1;
        }
        Some(run)
    };
    let mut found = (0..ladder.len())
        .filter(|&at| printed.first().is_some_and(|text| named(at, text).is_some()))
        .filter_map(from);
    let run = found.next()?;
    found.next().is_none().then_some(run)
}

/// Share of waits below a bound.
#[derive(Debug, Clone, PartialEq)]
struct Below {
    us: f64,
    pct: f64,
    range: String,
    section: String,
}

/// Returns the histograms of an event, one of each table that has it; text cuts names.
fn of_event<'r>(
    report: &'r Report,
    event: &str,
    is_cut: bool,
) -> Result<Vec<&'r Histogram>, String> {
    let is_it = |it: &&Histogram| {
        it.name == event
            || it.is_cut && event.starts_with(&it.name)
            || is_cut && it.name.starts_with(event)
    };
    let mut found: Vec<&Histogram> = Vec::new();
    for histogram in report.histograms.iter().filter(is_it) {
        if found.iter().any(|known| known.section == histogram.section) {
            return Err(format!(
                "{}: several events begin with {}, where names are cut",
                histogram.section, histogram.name
            ));
        }
        if histogram.buckets.is_empty() {
            return Err(format!("{}: its ranges break a law", histogram.section));
        }
        found.push(histogram);
    }
    if found.is_empty() { Err("not in this report".to_owned()) } else { Ok(found) }
}

/// Returns the shares of the waits below each bound, from one table.
fn cumulated(histogram: &Histogram) -> Vec<Below> {
    let share = |bucket: &Bucket| number(&bucket.share).unwrap_or(0.0);
    let all: f64 = histogram.buckets.iter().map(share).sum();
    let mut passed = 0.0;
    let below = histogram.buckets.iter().filter_map(|bucket| {
        passed += share(bucket);
        let (range, section) = (bucket.range.clone(), histogram.section.clone());
        Some(Below { us: bucket.below_us?, pct: 100.0 * passed / all, range, section })
    });
    below.filter(|below| below.pct.is_finite()).collect()
}

/// Returns the smallest printed bound below which this share of an event's waits lies, from all of
/// its tables, or the reason why it is unknown.
pub fn percentile(
    report: &Report,
    event: &str,
    is_cut: bool,
    share_pct: f64,
) -> Result<Figure, String> {
    let tables = of_event(report, event, is_cut)?;
    let all = tables.iter().flat_map(|histogram| cumulated(histogram));
    let reached = all.filter(|below| below.pct >= share_pct - 1e-9);
    let Some(best) = reached.min_by(|one, two| one.us.total_cmp(&two.us)) else {
        let last = tables.iter().filter_map(|it| it.buckets.last()).map(|it| it.range.as_str());
        let last = last.collect::<Vec<_>>().join(", ");
        return Err(format!(
            "Wait Event Histogram: more than {} % of the waits are in the open range {last}",
            100.0 - share_pct
        ));
    };
    let how = format!("{}: upper bound of {}", best.section, best.range);
    Figure::computed(best.us, 0.0, how).ok_or_else(|| "not in this report".to_owned())
}

/// Returns the ranges of an event with their shares of its waits, from all of its tables: each
/// bound once.
pub fn shares(report: &Report, event: &str, is_cut: bool) -> Option<Figure> {
    let tables = of_event(report, event, is_cut).ok()?;
    let section = tables.first()?.section.as_str().into();
    if let [only] = tables[..]
        && only.unit == "percent"
    {
        let shown = only.buckets.iter().filter_map(|bucket| {
            let range: String = bucket.range.split_whitespace().collect();
            Some(format!("{range}:{}", number(&bucket.share)?))
        });
        return Figure::made(&shown.collect::<Vec<_>>().join(" "), &section);
    }
    let mut all: Vec<Below> = tables.iter().flat_map(|histogram| cumulated(histogram)).collect();
    all.sort_by(|one, two| one.us.total_cmp(&two.us));
    all.dedup_by(|next, first| next.us == first.us);
    let mut shown = Vec::new();
    let mut passed = 0.0_f64;
    for below in &all {
        let share = ((below.pct - passed) * 10.0).round() / 10.0;
        if share > 0.0 {
            let range: String = below.range.split_whitespace().collect();
            shown.push(format!("{range}:{share}"));
        }
        passed = passed.max(below.pct);
    }
    let rest = ((100.0 - passed) * 10.0).round() / 10.0;
    if rest > 0.0 {
        shown.push(format!(">={}us:{rest}", all.last()?.us));
    }
    Figure::made(&shown.join(" "), &section)
}

#[cfg(test)]
mod tests {
    use super::super::columns::value;
    use super::super::samples::{of_text, sample};
    use super::*;

    fn bounds(headings: &str) -> Option<Vec<Option<f64>>> {
        let headings: Vec<&str> = headings.split(' ').collect();
        let ranges = ranges(&headings)?;
        Some(ranges.into_iter().flatten().map(|range| range.below_us).collect())
    }

    #[test]
    fn headings_are_bounds() {
        let all = |headings: &str| bounds(headings).unwrap();
        let micros = |all: &[f64]| -> Vec<Option<f64>> {
            all.iter().map(|us| Some(*us).filter(|us| *us > 0.0)).collect()
        };
        assert_eq!(all("<1ms <2ms <=1s >1s"), micros(&[1e3, 2e3, SECOND_US, 0.0]));
        assert_eq!(all("<1/8s <1/4s <1s >=1s"), micros(&[128e3, 256e3, SECOND_US, 0.0]));
        let ranges = ranges(&["Event", "0 - 1 ms", "4 - 8 ms", "32+ ms"]).unwrap();
        let found: Vec<_> = ranges.into_iter().flatten().map(|it| it.below_us).collect();
        assert_eq!(found, micros(&[1e3, 8e3, 0.0]));
        assert_eq!(bounds("Event Waits"), Some(Vec::new()));
    }

    /// All rows of headings that 12.2 and later print, cut at each width.
    #[test]
    fn headings_cut_at_any_width_are_right_or_unknown() {
        for row in [
            "<8us <16us <32us <64us <128us <256us <512us >=512us",
            "<1us <2us <4us <8us <16us <32us <64us >=64us",
            "<512us <1ms <2ms <4ms <8ms <16ms <32ms >=32ms",
            "<32ms <64ms <1/8s <1/4s <1/2s <1s <2s >=2s",
            "<1ms <2ms <4ms <8ms <16ms <32ms <=1s >1s",
        ] {
            let whole = bounds(row).unwrap();
            for width in 2..7 {
                let cut =
                    |heading: &str| heading.get(..width.min(heading.len())).unwrap().to_owned();
                let cut: Vec<String> = row.split(' ').map(cut).collect();
                let found = bounds(&cut.join(" "));
                assert!(found.as_ref().is_none_or(|found| *found == whole), "{cut:?}: {found:?}");
                assert!(width < 5 || found.is_some(), "{cut:?}");
            }
        }
    }

    #[test]
    fn percentiles_are_bounds_of_the_ranges_that_reach_them() {
        let report = sample("awr_11g.html");
        // 97.1 % below 1 ms, 2.0 % below 2, 0.5 % below 4.
        assert_eq!(value(&report, "read_p50_us"), Some(1000.0));
        assert_eq!(value(&report, "read_p95_us"), Some(1000.0));
        assert_eq!(value(&report, "read_p99_us"), Some(2000.0));
        let ranges = (super::super::columns::column("read_histogram").unwrap().value)(&report);
        assert!(ranges.unwrap().shown().starts_with("<1ms:97.1 <2ms:2 "));
    }

    const CUT: &str = include_str!("../../../tests/data/awr/awr_cut_headings.txt");

    #[test]
    fn the_tables_of_an_event_are_joined() {
        let report = of_text(CUT).unwrap();
        let all = ["read_p50_us", "read_p95_us", "read_p99_us"].map(|name| value(&report, name));
        assert_eq!(all, [Some(128.0), Some(256.0), Some(512.0)]);
        // With fewer reads below 512 us, the next table decides.
        let slow = CUT.replace("90.0   6.0   3.6    .4", "90.0   1.0   1.0   8.0");
        let slow = slow.replace("1440  99.6    .3    .1", "1440  92.0   5.0   3.0");
        let report = of_text(&slow).unwrap();
        let all = ["read_p50_us", "read_p95_us", "read_p99_us"].map(|name| value(&report, name));
        assert_eq!(all, [Some(128.0), Some(1000.0), Some(2000.0)]);
    }

    #[test]
    fn a_percentile_in_the_open_range_is_unknown_and_says_so() {
        let slow = CUT
            .replace("     40  110.00us", "    400    1.11ms")
            .replace("4.8    1.0", "4.8   10.1");
        let report =
            of_text(&slow.replace("90.0   6.0   3.6    .4", "            20.0  80.0")).unwrap();
        assert_eq!(report.notes, [""; 0]);
        let p99 = percentile(&report, "db file sequential read", false, 99.0);
        assert_eq!(p99.unwrap().number(), Some(512.0));
        let (only, _) = slow.split_once("Wait Event Histogram (up to").unwrap();
        let only = only.replace("90.0   6.0   3.6    .4", "              .0 100.0");
        let report = of_text(&only).unwrap();
        let why = percentile(&report, "db file sequential read", false, 99.0).unwrap_err();
        assert!(why.contains("open range >=512"), "{why}");
    }

    #[test]
    fn ranges_that_a_mean_cannot_lie_in_are_unknown() {
        // 110 us is not the mean of waits of 512 us and longer.
        let report =
            of_text(&CUT.replace("90.0   6.0   3.6    .4", "            20.0  80.0")).unwrap();
        let why = percentile(&report, "db file sequential read", false, 50.0).unwrap_err();
        assert!(why.contains("break a law"), "{why}");
        assert_eq!(value(&report, "read_us"), Some(110.0));
        let note = "ranges unknown: the least that its ranges allow 230.4 is more than the mean";
        assert!(report.notes.iter().any(|it| it.contains(note)), "{:?}", report.notes);
    }
}
