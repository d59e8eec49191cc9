//! `latency.hlog`: histograms of operation latency by second, in a long run of some seconds together,
//! as a HdrHistogram interval log
//! (version 1.3, V2 payloads, compressed). petal or any HdrHistogram tool can compute percentiles
//! over any window from it.
//!
//! Notes for other readers, with their reasons:
//! - Values are nanoseconds. The column `Interval_Max` is in milliseconds, as the Java tools
//!   expect it; hence the divisor of 1,000,000 in the header.
//! - Payloads are compressed, because the Java reader accepts nothing else.
//! - `StartTime` and `BaseTime` are both the trigger, and intervals count from it, the first at
//!   0: with both set, the Java reader neither guesses nor takes the first interval for the start.
//! - The tag is the kind of operation: `select`, `scan`, `update`, with RATE also
//!   `select_response` and so on. `hot_spot` and `hot_schema` repeat the latencies of operations
//!   that the settings sent there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};

use super::input::Lines;
use super::kinds::KindNames;
use super::ndjson::AppendedFile;
use super::rows::RowBounds;
use super::{RecordError, RecordFolder};
use petal_host::histogram::Latencies;

pub const NAME: &str = "latency.hlog";
const NS_PER_MS: f64 = 1e6;
const COLUMNS: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// The log of a run in progress.
pub struct LatencyLog {
    file: AppendedFile,
    serializer: V2DeflateSerializer,
    row: RowBounds,
    /// Begin, length and histograms of the row's seconds that are not written yet.
    held: Option<(f64, f64, BTreeMap<String, Latencies>)>,
}

impl LatencyLog {
    /// `triggered_at` is the zero of all intervals.
    pub fn begin(folder: &RecordFolder, triggered_at: SystemTime) -> Result<Self, RecordError> {
        let mut log = Self {
            file: AppendedFile::create(folder, NAME.as_ref())?,
            serializer: V2DeflateSerializer::new(),
            row: RowBounds::default(),
            held: None,
        };
        log.file.append(|path| {
            let mut text = Vec::new();
            builder(Some(triggered_at))
                .begin_log_with(&mut text, &mut log.serializer)
                .map_err(|source| RecordError::io("write", path, source))?;
            text.extend_from_slice(COLUMNS.as_bytes());
            Ok(text)
        })?;
        Ok(log)
    }

    /// Appends one second: a histogram for each tag; empty ones are left out. An error is returned
    /// once; later calls do nothing.
    pub fn second<'a>(
        &mut self,
        from_s: f64,
        length_s: f64,
        by_tag: impl IntoIterator<Item = (&'a str, &'a Latencies)>,
    ) -> Result<(), RecordError> {
        let is_end = self.row.end_with(from_s, length_s);
        if is_end && self.held.is_none() {
            return self.write(from_s, length_s, by_tag);
        }
        let (begin_s, held_s, held) =
            self.held.get_or_insert_with(|| (from_s, 0.0, BTreeMap::new()));
        *held_s = from_s + length_s - *begin_s;
        for (tag, latencies) in by_tag {
            held.entry(tag.to_owned()).or_default().add(latencies);
        }
        if is_end { self.finish() } else { Ok(()) }
    }

    /// Writes the seconds that are held back.
    pub fn finish(&mut self) -> Result<(), RecordError> {
        let Some((from_s, length_s, held)) = self.held.take() else { return Ok(()) };
        self.write(from_s, length_s, held.iter().map(|(tag, all)| (tag.as_str(), all)))
    }

    fn write<'a>(
        &mut self,
        from_s: f64,
        length_s: f64,
        by_tag: impl IntoIterator<Item = (&'a str, &'a Latencies)>,
    ) -> Result<(), RecordError> {
        const WHAT: &str = "a second's histogram";
        let (from, length) = (seconds(from_s), seconds(length_s));
        self.file.append(|path| {
            let mut lines = Vec::new();
            let mut writer = builder(None)
                .begin_log_with(&mut lines, &mut self.serializer)
                .map_err(|cause| RecordError::encode(WHAT, path, &cause))?;
            for (tag, latencies) in by_tag.into_iter().filter(|(_, l)| l.count() > 0) {
                writer
                    .write_histogram(latencies.buckets(), from, length, Tag::new(tag))
                    .map_err(|cause| RecordError::encode(WHAT, path, &cause))?;
            }
            // The writer names its divisor again each time it begins; once, at the top, is enough.
            let repeated = lines.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            Ok(lines.split_off(repeated))
        })
    }
}

fn builder(triggered_at: Option<SystemTime>) -> IntervalLogWriterBuilder {
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_max_value_divisor(NS_PER_MS);
    if let Some(trigger) = triggered_at {
        builder
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("petal: operation latency; values in ns, Interval_Max in ms")
            .with_start_time(trigger)
            .with_base_time(trigger);
    }
    builder
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}

/// A second's line is some kilobytes long.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// An interval's tag, when it began, and its histogram.
pub type LogInterval = (String, f64, Histogram<u64>);

/// The intervals of a log, read one by one, because an hour of them would not fit in memory. They
/// end before the first line that is torn or damaged, or has one kind more than any log has.
pub struct Intervals {
    lines: Lines,
    kinds: KindNames,
    pub torn: bool,
}

impl Intervals {
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let lines = Lines::open(path, LINE_BYTES_MAX)?;
        Ok(Self { lines, kinds: KindNames::default(), torn: false })
    }

    /// The interval of a line, if it has one. An error means that the line cannot be read.
    fn read(&mut self, line: &[u8]) -> Result<Option<LogInterval>, ()> {
        let interval = match IntervalLogIterator::new(line).next() {
            _ if !line.ends_with(b"\n") => return Err(()),
            Some(Ok(LogEntry::Interval(interval))) => interval,
            Some(Err(_)) => return Err(()),
            _ => return Ok(None),
        };
        let tag = interval.tag().map_or("", |tag| tag.as_str());
        // An interval with other bounds than petal's is damaged.
        let buckets = super::wait_histogram::decode(interval.encoded_histogram());
        let buckets = buckets.filter(|_| self.kinds.take(tag)).ok_or(())?;
        Ok(Some((tag.to_owned(), interval.start_timestamp().as_secs_f64(), buckets)))
    }
}

impl Iterator for Intervals {
    type Item = LogInterval;

    fn next(&mut self) -> Option<LogInterval> {
        let mut line = Vec::new();
        while !self.torn {
            line.clear();
            let length = self.lines.next(&mut line);
            if matches!(length, Ok(0)) {
                return None;
            }
            match length.map_err(drop).and_then(|_| self.read(&line)) {
                Ok(Some(interval)) => return Some(interval),
                Ok(None) => {}
                Err(()) => self.torn = true,
            }
        }
        None
    }
}

/// All intervals that began within `from_s..to_s`, merged by tag (never averaged), and whether the
/// log is torn.
pub fn merged(
    path: &Path,
    (from_s, to_s): (f64, f64),
) -> Result<(BTreeMap<String, Latencies>, bool), RecordError> {
    const SLACK_S: f64 = 0.001;
    let mut merged: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    let mut intervals = Intervals::open(path)?;
    for (tag, begins_s, buckets) in &mut intervals {
        if !(from_s..to_s).contains(&(begins_s + SLACK_S)) {
            continue;
        }
        match merged.get_mut(&tag) {
            Some(sum) => {
                // All have petal's bounds, so the addition cannot fail.
                let added = sum.add(&buckets);
                debug_assert!(added.is_ok());
            }
            None => drop(merged.insert(tag, buckets)),
        }
    }
    let of = |(tag, buckets)| (tag, Latencies::from_buckets(&buckets));
    Ok((merged.into_iter().map(of).collect(), intervals.torn))
}

/// An interval of a kind of operation: operations by latency.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    pub from_s: f64,
    /// Operations by latency step: see [`step_us`].
    pub counts: BTreeMap<i32, u64>,
}

/// Distribution of latency in each interval of a run, by tag.
pub type Spreads = BTreeMap<String, Vec<Spread>>;

/// Latency steps in a decade, for charts: each is a quarter wider than the one before.
const STEPS: f64 = 10.0;

/// Lower bound of a latency step, in microseconds.
pub fn step_us(step: i32) -> f64 {
    10_f64.powf(f64::from(step) / STEPS)
}

/// Latency step that holds a latency in microseconds.
pub fn step_of(us: f64) -> i32 {
    (us.max(0.001).log10() * STEPS).floor() as i32
}

/// Reads the distributions up to the first damaged line. Empty if there is no log.
pub fn spreads(folder: &Path) -> Spreads {
    let mut by_tag = Spreads::new();
    let Ok(intervals) = Intervals::open(&folder.join(NAME)) else { return by_tag };
    for (tag, from_s, buckets) in intervals {
        let mut counts = BTreeMap::new();
        for value in buckets.iter_recorded() {
            let us = value.value_iterated_to().max(1) as f64 / 1e3;
            *counts.entry(step_of(us)).or_insert(0) += value.count_at_value();
        }
        by_tag.entry(tag).or_default().push(Spread { from_s, counts });
    }
    by_tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::path::PathBuf;

    fn filled(values_ns: &[u64]) -> Latencies {
        let mut latencies = Latencies::new();
        values_ns.iter().for_each(|&ns| latencies.record(ns));
        latencies
    }

    fn three_seconds(folder: &Path) -> PathBuf {
        let trigger = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_500);
        let mut log = LatencyLog::begin(&RecordFolder::open(folder), trigger).unwrap();
        for second in 0..3_u64 {
            let selects = filled(&[1_000_000 * (second + 1), 2_000_000]);
            let updates = filled(&[5_000_000 + second]);
            let by_tag = [("select", &selects), ("update", &updates), ("scan", &Latencies::new())];
            log.second(second as f64, 1.0, by_tag).unwrap();
        }
        folder.join(NAME)
    }

    #[test]
    fn a_long_run_keeps_seconds_together_and_loses_no_operation() {
        let dir = tempfile::tempdir().unwrap();
        let log = LatencyLog::begin(&RecordFolder::open(dir.path()), SystemTime::UNIX_EPOCH);
        let mut log = log.unwrap();
        let all: Vec<Latencies> = (1..=1000).map(|ns| filled(&[ns * 1000, 7_000_000])).collect();
        for (second, latencies) in all.iter().enumerate() {
            log.second(second as f64, 1.0, [("select", latencies)]).unwrap();
        }
        log.finish().unwrap();
        let path = dir.path().join(NAME);
        let begins: Vec<f64> =
            Intervals::open(&path).unwrap().map(|(_, from_s, _)| from_s).collect();
        assert_eq!(begins[..601], (0..=600).map(f64::from).collect::<Vec<_>>());
        assert_eq!(
            (begins[601..605].to_vec(), begins.len()),
            (vec![603.0, 607.0, 611.0, 615.0], 691)
        );
        let (merged, torn) = merged(&path, (0.0, 1000.0)).unwrap();
        assert_eq!((merged["select"].count(), torn), (2000, false));
    }

    #[test]
    fn the_header_is_written_once_and_the_maximum_is_in_milliseconds() {
        let dir = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(three_seconds(dir.path())).unwrap();
        let (head, tail) = text.split_once("\"StartTimestamp\"").unwrap();
        insta::assert_snapshot!(head, @r"
        #[Histogram log format version 1.3]
        #petal: operation latency; values in ns, Interval_Max in ms
        #[StartTime: 1800000000.500 (seconds since epoch)]
        #[BaseTime: 1800000000.500 (seconds since epoch)]
        #[MaxValueDivisor: 1000000.000]
        ");
        assert!(!tail.contains('#'), "{tail}");
        let begins: Vec<&str> =
            tail.lines().skip(1).map(|line| line.split(",HISTF").next().unwrap()).collect();
        assert_eq!(begins[0], "Tag=select,0.000,1.000,2.001");
        assert_eq!(begins.len(), 6, "an empty histogram has no line");
    }

    #[test]
    fn windows_merge_the_intervals_that_began_in_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = three_seconds(dir.path());
        let (whole, torn) = merged(&path, (0.0, 3.0)).unwrap();
        assert!(!torn);
        assert_eq!(whole["select"].count(), 6);
        assert_eq!(whole["update"].count(), 3);
        let (late, _) = merged(&path, (1.0, 3.0)).unwrap();
        assert_eq!(late["select"].count(), 4);
        let mean = late["select"].mean_us().unwrap();
        assert!((mean - 2000.0).abs() <= 600.0, "{mean}");
        let (tag, from_s, buckets) = Intervals::open(&path).unwrap().nth(5).unwrap();
        assert_eq!((tag.as_str(), from_s, buckets.len()), ("update", 2.0, 1));
    }

    #[test]
    fn each_interval_is_spread_over_steps_of_a_tenth_of_a_decade() {
        let dir = tempfile::tempdir().unwrap();
        three_seconds(dir.path());
        let spreads = spreads(dir.path());
        // 3 ms and 2 ms: the decade from 1 ms has its steps from 30 to 39.
        let last = &spreads["select"][2];
        assert_eq!((last.from_s, &last.counts), (2.0, &BTreeMap::from([(33, 1), (34, 1)])));
        assert!(step_us(33) <= 2000.0 && step_us(34) <= 3000.0 && step_us(35) > 3000.0);
        assert_eq!(spreads["update"].len(), 3);
        assert!(super::spreads(&dir.path().join("elsewhere")).is_empty());
    }

    #[test]
    fn cut_anywhere_it_gives_the_whole_lines_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = three_seconds(dir.path());
        let text = std::fs::read(&path).unwrap();
        let mut counts = Vec::new();
        for cut in (0..=text.len()).step_by(7).chain([text.len() - 1, text.len()]) {
            std::fs::write(&path, &text[..cut]).unwrap();
            let mut log = Intervals::open(&path).unwrap();
            counts.push(log.by_ref().count());
            let at_line_end = cut == 0 || text[cut - 1] == b'\n';
            assert_eq!(log.torn, !at_line_end, "cut at {cut}");
        }
        assert_eq!(counts.first(), Some(&0));
        assert_eq!(counts.last(), Some(&6));
        assert!(counts.is_sorted());
        assert_eq!(counts[counts.len() - 2], 5);
    }

    #[test]
    fn an_error_is_reported_once_and_then_it_is_quiet() {
        let dir = tempfile::tempdir().unwrap();
        let mut log =
            LatencyLog::begin(&RecordFolder::open(dir.path()), SystemTime::now()).unwrap();
        // /dev/full accepts no bytes: a real full disk.
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        log.file.file = Some(crate::ndjson::OpenFile::Plain(full));
        let latencies = filled(&[1000]);
        let error = log.second(0.0, 1.0, [("select", &latencies)]).unwrap_err().to_string();
        assert!(error.contains("latency.hlog") && error.contains("free some space"), "{error}");
        assert!(log.second(1.0, 1.0, [("select", &latencies)]).is_ok());
    }
}
