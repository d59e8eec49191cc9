//! The picture of work that goes on, as rows of text for a terminal of any size. Drawing makes no
//! figure: it shows the record's.

use std::borrow::Cow;
use std::iter::repeat_n;
use std::path::Path;

use petal_host::histogram::LatencySummary;
use petal_judge::petals::{PetalLine, Petals, Point};
use petal_record::conclusions::limit_clause;
use petal_record::headline::{Headline, Validity, Verdict};
use petal_record::sweep::CellRun;
use petal_record::{Run, Second, Severity};
use petal_report::numbers::{counted, decimal, micros, or_dash, rate, span};
use petal_report::sweep::chart;
use petal_report::table;
use petal_settings::printable::printable_line;

use super::follow::{LiveNoted, LiveRun, LiveState, LiveSweep};

/// Lines of a petals' chart for its axes.
const CHART_EDGES: usize = 4;
/// Rows of the petals' chart at least, and at most.
const CHART_ROWS: (usize, usize) = (4, 20);
/// Rows of messages, at most.
const MESSAGE_ROWS_MAX: usize = 4;
/// Columns of the words for a page 1,000 pixels wide.
const WORDS_COLUMNS: usize = 112;
/// Steps of a block character.
const STEPS: usize = 8;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Heading,
    Warning,
    Error,
    /// The row of the keys.
    Keys,
}

/// A row of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenRow {
    pub tone: Tone,
    pub text: String,
}

/// Content of the screen.
pub struct LiveView<'a> {
    /// The command, such as `petal run`.
    pub title: &'a str,
    pub state: Option<&'a LiveState>,
    /// Work without a record, such as a load: its progress in words.
    pub phase: Option<String>,
    pub messages: &'a [String],
    pub keys: &'a str,
}

/// Space for the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenSize {
    pub columns: usize,
    pub rows: usize,
    pub has_unicode: bool,
}

/// Draws at most `size.rows` rows, the keys in the last one.
pub fn draw(view: &LiveView<'_>, size: ScreenSize) -> Vec<ScreenRow> {
    let mut picture = Picture { size, rows: Vec::new() };
    let newest = view.messages.last().map_or(1, |message| picture.lines("", "  ", message).len());
    let last = size.rows.saturating_sub(1);
    let body = last.saturating_sub(newest.min(MESSAGE_ROWS_MAX));
    match view.state {
        None => picture.work(view.title, None),
        Some(LiveState::Noted(noted)) => picture.work(view.title, Some(noted)),
        Some(LiveState::Run(run)) => picture.run(view.title, run, body),
        Some(LiveState::Sweep(sweep)) => picture.sweep(view.title, sweep, body),
    }
    if let Some(phase) = &view.phase {
        picture.wrap(Tone::Plain, "", "  ", phase);
    }
    picture.rows.truncate(body);
    picture.messages(view.messages, last - picture.rows.len());
    picture.rows.truncate(last);
    while picture.rows.len() < last {
        picture.put(Tone::Plain, "");
    }
    picture.put(Tone::Keys, view.keys);
    picture.rows
}

/// The words of the picture without its charts, for a page that has its own.
pub fn words(view: &LiveView<'_>) -> String {
    let size = ScreenSize { columns: WORDS_COLUMNS, rows: usize::MAX, has_unicode: true };
    let mut picture = Picture { size, rows: Vec::new() };
    match view.state {
        None => picture.put(Tone::Heading, view.title),
        Some(LiveState::Noted(noted)) => picture.work(view.title, Some(noted)),
        Some(LiveState::Run(run)) => {
            picture.run_heading(view.title, run);
            picture.verdict(run.judged.as_ref());
            let rows = run.known().map(|known| layers(run, known, WORDS_COLUMNS));
            rows.iter().flatten().for_each(|row| picture.put(Tone::Plain, row));
        }
        Some(LiveState::Sweep(sweep)) => {
            picture.sweep_heading(view.title, sweep);
            picture.cells(sweep);
        }
    }
    for text in view.phase.iter().chain(view.messages) {
        picture.wrap(Tone::Plain, "", "  ", text);
    }
    let rows: Vec<String> = picture.rows.into_iter().map(|row| row.text).collect();
    rows.join("\n")
}

struct Picture {
    size: ScreenSize,
    rows: Vec<ScreenRow>,
}

impl Picture {
    /// Adds a row that fits the screen and that every terminal can show.
    fn put(&mut self, tone: Tone, text: &str) {
        let text = printable_line(text);
        let fits =
            |letter: char| if letter.is_ascii() || self.size.has_unicode { letter } else { '?' };
        let mut text: String = text.chars().map(fits).collect();
        if text.chars().count() > self.size.columns {
            let kept = self.size.columns.saturating_sub(3);
            text = text.chars().take(kept).chain("...".chars()).collect();
        }
        self.rows.push(ScreenRow { tone, text: text.trim_end().to_owned() });
    }

    /// Breaks a text into lines of the screen: between words, and in a word that is longer than a
    /// line.
    fn lines(&self, first: &str, rest: &str, text: &str) -> Vec<String> {
        let whole = table::within(self.size.columns, || table::paragraph(first, rest, text));
        let columns = self.size.columns.max(1);
        let broken = |line: &str| -> Vec<String> {
            let letters: Vec<char> = line.chars().collect();
            letters.chunks(columns).map(|part| part.iter().collect()).collect()
        };
        whole.lines().flat_map(broken).collect()
    }

    /// Adds a text whole, over as many rows as it needs.
    fn wrap(&mut self, tone: Tone, first: &str, rest: &str, text: &str) {
        self.lines(first, rest, text).iter().for_each(|line| self.put(tone, line));
    }

    /// The limit of each line of the petals, and a row for each point: PIOPS with their interval, and
    /// the latency of a read.
    fn points(&self, petals: &Petals) -> Vec<String> {
        let rows = lettered_lines(petals).flat_map(|(letter, line)| {
            let limit = line.peak.and_then(|peak| line.limited_by(peak)).map(limit_clause);
            let limit = limit.map_or_else(String::new, |limit| format!(": {limit}"));
            let name = self.lines(&letter, "   ", &format!("{}{limit}", line.name));
            name.into_iter().chain(line.points.iter().map(point_row))
        });
        rows.collect()
    }

    /// Adds the newest messages that fit, each whole; the newest one in any case.
    fn messages(&mut self, messages: &[String], space: usize) {
        let (mut shown, mut rows) = (Vec::new(), 0);
        for message in messages.iter().rev() {
            let lines = self.lines("", "  ", message);
            rows += lines.len();
            if rows > space && !shown.is_empty() {
                break;
            }
            shown.push(lines);
        }
        shown.iter().rev().flatten().for_each(|line| self.put(Tone::Plain, line));
    }

    /// Work without a record yet.
    fn work(&mut self, title: &str, noted: Option<&LiveNoted>) {
        let Some(noted) = noted else {
            self.put(Tone::Heading, title);
            return self.put(Tone::Plain, "");
        };
        self.put(Tone::Heading, &format!("{title} {}", name(&noted.folder)));
        self.put(Tone::Plain, "");
        self.wrap(Tone::Plain, "", "  ", &noted.phase);
    }

    fn run_heading(&mut self, title: &str, run: &LiveRun) {
        let name = name(&run.folder);
        self.wrap(Tone::Heading, "", "  ", &format!("{title} {name}: {}", state_words(run)));
    }

    fn run(&mut self, title: &str, run: &LiveRun, body: usize) {
        self.run_heading(title, run);
        let Some(known) = run.known() else { return };
        self.verdict(run.judged.as_ref());
        self.wrap(Tone::Plain, "", "  ", &target_words(known));
        // The charts' headings, the table of the layers, and a row of findings.
        let space = body.saturating_sub(self.rows.len() + 7);
        let (upper, lower) = ((space * 2 / 5).max(1), (space / 4).max(1));
        self.charts(run, upper, lower);
        for row in layers(run, known, self.size.columns) {
            self.put(Tone::Plain, &row);
        }
        self.findings(run.judged.as_ref(), body);
    }

    /// Four charts of the newest seconds, two next to each other.
    fn charts(&mut self, run: &LiveRun, upper: usize, lower: usize) {
        let seconds: Vec<&Second> = run.seconds.iter().collect();
        let newest = seconds.last();
        let of = |figure: fn(&Second) -> Option<f64>| -> Vec<ChartColumn> {
            seconds.iter().map(|second| ChartColumn { low: figure(second), high: None }).collect()
        };
        let now = |figure: fn(&Second) -> Option<f64>| newest.and_then(|second| figure(second));
        let kind = main_kind(&seconds);
        let latency = |second: &Second| second.latency_us.get(kind).cloned().unwrap_or_default();
        let latencies: Vec<ChartColumn> = seconds
            .iter()
            .map(|second| latency(second))
            .map(|latency| ChartColumn { low: latency.p50, high: latency.p99.or(latency.max) })
            .collect();
        let last = newest.map(|second| latency(second)).unwrap_or_default();
        let p50 = format!("p50 {}", or_dash(last.p50, micros));
        let slow = match last {
            LatencySummary { p99: Some(p99), .. } => format!("p99 {}", micros(p99)),
            LatencySummary { max, .. } => format!("slowest {}", or_dash(max, micros)),
        };
        let heads = [
            vec![format!("operations/s {}", or_dash(now(operations), rate))],
            vec![format!("{kind}, us: {p50}, {slow}"), format!("{kind}, us: {slow}")],
        ];
        self.pair(heads, [&of(operations), &latencies], upper);
        let waiting = or_dash(now(in_flight), rate);
        let heads = [
            vec![
                format!("requests in flight at the device {waiting}"),
                format!("in flight {waiting}"),
            ],
            vec![format!("processors busy, % {}", or_dash(now(busy), rate))],
        ];
        self.pair(heads, [&of(in_flight), &of(busy)], lower);
    }

    /// Two charts, each below the first of its headings that fits.
    fn pair(&mut self, heads: [Vec<String>; 2], bars: [&[ChartColumn]; 2], height: usize) {
        let width = (self.size.columns.saturating_sub(2)) / 2;
        let fitting = |heads: Vec<String>| {
            heads.into_iter().find(|head| head.chars().count() <= width).unwrap_or_default()
        };
        let [left, right] = heads.map(fitting);
        self.put(Tone::Heading, &format!("{left:width$}  {right}"));
        let [left, right] = bars.map(|bars| columns(bars, width, height, self.size.has_unicode));
        for (left, right) in left.iter().zip(&right) {
            self.put(Tone::Plain, &format!("{left}  {right}"));
        }
    }

    /// The verdict and the limit so far.
    fn verdict(&mut self, judged: Option<&Run>) {
        let Some(run) = judged else {
            return self.put(Tone::Plain, "not judged yet");
        };
        let so_far = match run.is_still_running() {
            true => format!(" after {:.0} s", run.summary.elapsed_s),
            false => String::new(),
        };
        let headline = petal_judge::headline(run);
        let verdict = headline.verdict.sentence();
        self.wrap(
            verdict_tone(&headline.verdict),
            "",
            "  ",
            &format!("verdict{so_far}: {verdict}"),
        );
        self.wrap(Tone::Heading, "", "  ", &format!("limited by: {}", headline.limited_by.words));
    }

    /// The findings so far, up to the row `end`: each whole, and the number of the others.
    fn findings(&mut self, judged: Option<&Run>, end: usize) {
        let Some(run) = judged else { return };
        let findings = run.summary.findings.iter();
        let (mut tones, mut texts) = (Vec::new(), Vec::new());
        for finding in findings {
            let text = format!("{}: {}", finding.id, finding.message);
            let lines = self.lines("- ", "  ", &text);
            let tone = match finding.severity {
                Severity::Error => Tone::Error,
                Severity::Warning => Tone::Warning,
                Severity::Info => Tone::Plain,
            };
            tones.extend(repeat_n(tone, lines.len()));
            texts.push(lines.join("\n") + "\n");
        }
        let space = end.saturating_sub(self.rows.len());
        let shown =
            table::fitting_paragraphs(&texts, usize::MAX, space, "finding", "in the report");
        // The row with the number of the others has the tone of the gravest of them.
        shown.lines().zip(tones).for_each(|(line, tone)| self.put(tone, line));
    }

    fn sweep_heading(&mut self, title: &str, live: &LiveSweep) {
        let name = name(&live.dir);
        let (done, all) = live.progress();
        let about = if live.swept.sweep.plan.design.is_grid() { "" } else { "about " };
        let failed = match live.swept.sweep.failures.len() {
            0 => String::new(),
            failed => format!(", {failed} measured nothing"),
        };
        let left = match live.left() {
            _ if live.is_done() => "the report is being written".to_owned(),
            Some(left) if left.as_secs_f64() < 0.5 => "waiting for the last operations".to_owned(),
            left => or_dash(left, |left| format!("about {} left", span(left))),
        };
        let verdict = match &live.petals.verdict {
            Some(verdict) => format!("; so far: {}", verdict.words),
            None if live.petals.tested.is_empty() => String::new(),
            None => format!("; so far: {}", live.petals.tested),
        };
        let tone = if live.petals.verdict.is_some() { Tone::Warning } else { Tone::Heading };
        let heading =
            format!("{title} {name}: {done} of {about}{all} runs done{failed}, {left}{verdict}");
        self.wrap(tone, "", "  ", &heading);
    }

    fn sweep(&mut self, title: &str, live: &LiveSweep, body: usize) {
        self.sweep_heading(title, live);
        self.cells(live);
        if live.petals.lines.is_empty() {
            return self.put(Tone::Plain, "the petals begin when the first cell has ended");
        }
        let space = body.saturating_sub(self.rows.len() + CHART_EDGES + 1);
        let points = self.points(&live.petals);
        let height = space.saturating_sub(points.len().min(space / 2));
        let height = height.clamp(CHART_ROWS.0, CHART_ROWS.1);
        let draw = || chart::drawing(&live.petals, live.predicted(), height);
        for row in table::within(self.size.columns, draw).lines() {
            self.put(Tone::Plain, row);
        }
        let rows = body.saturating_sub(self.rows.len());
        if points.len() <= rows {
            return points.iter().for_each(|row| self.put(Tone::Plain, row));
        }
        let brief = points_in_brief(&live.petals);
        let lines = brief.iter().map(|(letter, text)| self.lines(letter, "   ", text).join("\n"));
        let texts: Vec<String> = lines.map(|lines| lines + "\n").collect();
        let shown = table::fitting_paragraphs(&texts, usize::MAX, rows, "line", "in the report");
        shown.lines().for_each(|row| self.put(Tone::Plain, row));
    }

    /// The cell that runs now, and the next ones.
    fn cells(&mut self, live: &LiveSweep) {
        let cells = live.swept.sweep.plan.cells();
        let words = |cell: &Option<CellRun>| {
            let Some(cell) = cell else { return "the last run, at the peak".to_owned() };
            let factors = cells.get((cell.number as usize).wrapping_sub(1));
            let factors =
                factors.into_iter().flatten().map(|(key, value)| format!("{key} {value}"));
            let factors: Vec<String> = factors.collect();
            format!("{}, round {}", factors.join(", "), cell.repeat)
        };
        let now = live.cell.as_ref().map(|(cell, _)| *cell);
        match &live.cell {
            None => self.put(Tone::Plain, "now   no cell runs"),
            Some((cell, run)) => {
                // The heading has the time that is left.
                let state = format!("{}: {}", words(cell), progress_words(run));
                self.wrap(Tone::Plain, "now   ", "      ", &state);
                let newest = run.seconds.back();
                let figure = |figure: fn(&Second) -> Option<f64>, unit: &str| {
                    newest.and_then(figure).map(|value| format!("{}{unit}", rate(value)))
                };
                let worst = newest.and_then(worst_latency);
                let figures = [
                    figure(operations, " operations/s"),
                    figure(piops, " PIOPS"),
                    worst.map(|us| format!("slowest kind's p99 {} us", micros(us))),
                ];
                let figures: Vec<String> = figures.into_iter().flatten().collect();
                if !figures.is_empty() {
                    self.wrap(Tone::Plain, "      ", "      ", &figures.join(", "));
                }
                match run.judged.as_ref().map(petal_judge::headline) {
                    None => self.put(Tone::Plain, "      not judged yet"),
                    Some(Headline { verdict, limited_by, .. }) => {
                        let words =
                            format!("{}; limited by: {}", verdict.sentence(), limited_by.words);
                        self.wrap(verdict_tone(&verdict), "      ", "        ", &words);
                    }
                }
            }
        }
        let last = live.lacks_peak_run().then_some(None);
        let next = live.next_cells().into_iter().map(Some).chain(last);
        let next = next.filter(|cell| now.as_ref() != Some(cell)).take(3);
        let next: Vec<String> = next.map(|cell| words(&cell)).collect();
        let next = match next.is_empty() {
            false => format!("next  {}", next.join("; ")),
            true if live.swept.sweep.plan.design.is_grid() => "      last run".to_owned(),
            true => "next  chosen when this cell has ended".to_owned(),
        };
        self.put(Tone::Plain, &next);
    }
}

/// The name of a folder of results.
fn name(folder: &Path) -> Cow<'_, str> {
    folder.file_name().unwrap_or_default().to_string_lossy()
}

/// Each line of the petals, and the begin of its row with its letter.
fn lettered_lines(petals: &Petals) -> impl Iterator<Item = (String, &PetalLine)> {
    let letters: Vec<_> = chart::drawn_lines(petals).collect();
    petals.lines.iter().map(move |line| {
        let letter = letters.iter().find(|(_, drawn)| drawn.name == line.name);
        let letter = letter.map_or('-', |(letter, _)| *letter);
        (format!("{letter}  "), line)
    })
}

/// A letter and a text for each line of the petals: sessions, and PIOPS with their interval.
fn points_in_brief(petals: &Petals) -> Vec<(String, String)> {
    let rows = lettered_lines(petals).map(|(letter, line)| {
        let points =
            line.points.iter().map(|point| format!("{}: {}", point.sessions, piops_of(point)));
        let points: Vec<String> = points.collect();
        (letter, format!("{}, PIOPS by sessions: {}", line.name, points.join("; ")))
    });
    rows.collect()
}

fn piops_of(point: &Point) -> String {
    or_dash(point.piops.as_ref(), |estimate| match estimate.interval {
        Some((from, to)) => format!("{} ({} to {})", rate(estimate.mean), rate(from), rate(to)),
        None => rate(estimate.mean),
    })
}

fn point_row(point: &Point) -> String {
    let piops = piops_of(point);
    let read_us = or_dash(point.read_us.as_ref(), |estimate| micros(estimate.mean));
    let runs = point.sources.len();
    let sessions = counted(point.sessions, "session");
    let runs = counted(runs as u64, "run");
    let struck = point.not_storage.as_ref();
    let struck =
        struck.map_or(String::new(), |id| format!("not a storage test ({id}), no result: "));
    format!("   {sessions}, {runs}: {struck}{piops} PIOPS, {read_us} us a read")
}

fn verdict_tone(verdict: &Verdict) -> Tone {
    match verdict.validity {
        Validity::Valid => Tone::Heading,
        Validity::NotStorage => Tone::Warning,
        Validity::Invalid => Tone::Error,
    }
}

/// State of a run, with the part of its planned time that is over.
fn progress_words(run: &LiveRun) -> String {
    match run.left() {
        Some(left) if !run.is_over && !left.is_zero() => {
            let elapsed_s = run.elapsed_s();
            format!("{elapsed_s:.0} of {:.0} s", elapsed_s + left.as_secs_f64())
        }
        _ => state_words(run),
    }
}

/// State and remaining time of a run.
fn state_words(run: &LiveRun) -> String {
    if run.is_over {
        return run.known().map_or("not begun", Run::status_words).to_owned();
    }
    if run.known().is_none() {
        return "settles and connects".to_owned();
    }
    let elapsed = run.elapsed_s();
    match run.left() {
        Some(left) if left.is_zero() => format!("{elapsed:.0} s, petal writes the record"),
        Some(left) => format!("{elapsed:.0} s, {} left", span(left)),
        None => format!("{elapsed:.0} s, until its work is done"),
    }
}

fn target_words(run: &Run) -> String {
    let summary = &run.summary;
    let setting = |key: &str| or_dash(summary.setting_number(key), |value| decimal(value, 0));
    let target = &summary.target;
    format!(
        "{} {}, {}: {}, UPDATE_PCT {}, SCAN_PCT {}",
        target.product,
        target.version,
        target.url,
        counted(summary.sessions, "session"),
        setting("update_pct"),
        setting("scan_pct"),
    )
}

/// The kind of operation of which there are most.
fn main_kind(seconds: &[&Second]) -> &'static str {
    let sum = |ops: fn(&Second) -> u64| seconds.iter().map(|second| ops(second)).sum::<u64>();
    let kinds = [
        (sum(|second| second.ops.scan), "scan"),
        (sum(|second| second.ops.update), "update"),
        (sum(|second| second.ops.select), "select"),
    ];
    kinds.into_iter().max_by_key(|(ops, _)| *ops).map_or("select", |(_, kind)| kind)
}

fn per_second(second: &Second, count: f64) -> Option<f64> {
    (second.length_s > 0.0).then(|| count / second.length_s)
}

fn operations(second: &Second) -> Option<f64> {
    per_second(second, second.ops.total as f64)
}

fn piops(second: &Second) -> Option<f64> {
    let io = second.io?;
    let requests = io.physical_read_requests?.checked_add(io.physical_write_requests?)?;
    per_second(second, requests as f64)
}

/// Mean requests in flight: the time that requests spent at the device, for each second.
fn in_flight(second: &Second) -> Option<f64> {
    let device = second.device?;
    per_second(second, (device.read_ms as f64 + device.write_ms as f64) / 1e3)
}

fn busy(second: &Second) -> Option<f64> {
    second.cpu.map(|cpu| cpu.busy())
}

fn worst_latency(second: &Second) -> Option<f64> {
    second.latency_us.values().filter_map(|latency| latency.p99.or(latency.max)).reduce(f64::max)
}

/// The newest second at each layer: petal's rows, the database's requests, the device's. A
/// narrow screen lacks the last columns.
fn layers(run: &LiveRun, known: &Run, columns: usize) -> Vec<String> {
    const WIDTHS: [usize; 5] = [10, 9, 10, 9, 9];
    let ends = WIDTHS.iter().scan(20, |end, width| {
        *end += 1 + width;
        Some(*end)
    });
    let fitting = ends.take_while(|end| *end <= columns).count();
    let line = |name: &str, cells: [String; 5]| {
        let shown = WIDTHS.into_iter().zip(cells).take(fitting);
        shown.fold(format!("{name:20}"), |line, (width, cell)| format!("{line} {cell:>width$}"))
    };
    let row = |name: &str, figures: [Option<f64>; 5]| {
        line(name, figures.map(|figure| or_dash(figure, rate)))
    };
    let heads = ["reads/s", "MB/s", "writes/s", "MB/s", "log MB/s"];
    let mut rows = vec![line("newest second", heads.map(str::to_owned))];
    let newest = run.seconds.back().cloned().unwrap_or_default();
    let per = |count: Option<u64>| per_second(&newest, count? as f64);
    let mb = |bytes: Option<u64>| Some(per(bytes)? / 1e6);
    let seen = (!run.seconds.is_empty()).then_some(newest.rows);
    let (read, written) =
        (seen.map(|rows| rows.select.saturating_add(rows.scan)), seen.map(|rows| rows.update));
    let block = known.summary.target.block_size;
    let bytes = |rows: Option<u64>| rows?.checked_mul(block);
    rows.push(row(
        "asked by petal, rows",
        [per(read), mb(bytes(read)), per(written), mb(bytes(written)), None],
    ));
    let io = newest.io.unwrap_or_default();
    let above = if known.is_bare_device() { "petal" } else { "database" };
    rows.push(row(
        above,
        [
            per(io.physical_read_requests),
            mb(io.physical_read_bytes),
            per(io.physical_write_requests),
            mb(io.physical_write_bytes),
            mb(io.redo_bytes),
        ],
    ));
    let device = newest.device;
    rows.push(row(
        "device",
        [
            per(device.map(|device| device.read_requests)),
            mb(device.map(|device| device.read_bytes)),
            per(device.map(|device| device.write_requests)),
            mb(device.map(|device| device.write_bytes)),
            None,
        ],
    ));
    rows
}

/// A column of a chart: solid up to `low`, light up to `high`. None is unknown.
#[derive(Debug, Clone, Copy)]
struct ChartColumn {
    low: Option<f64>,
    high: Option<f64>,
}

/// A chart of the newest bars, the newest at the right. Its top is the largest value.
fn columns(bars: &[ChartColumn], width: usize, height: usize, has_unicode: bool) -> Vec<String> {
    let shown = &bars[bars.len().saturating_sub(width)..];
    let values = shown.iter().flat_map(|bar| [bar.low, bar.high]).flatten();
    let top = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    let steps = |value: Option<f64>| {
        let share = value.filter(|_| top > 0.0).map_or(0.0, |value| (value / top).clamp(0.0, 1.0));
        (share * (height * STEPS) as f64).round() as usize
    };
    let row = |from_top: usize| -> String {
        let base = (height - 1 - from_top) * STEPS;
        let letter = |bar: &ChartColumn| {
            let is_lowest = base == 0;
            let (low, high) = (steps(bar.low), steps(bar.high));
            match (low.saturating_sub(base).min(STEPS), high.saturating_sub(base).min(STEPS)) {
                (0, 0) if is_lowest && bar.low.is_none() => '-',
                (0, 0) if is_lowest => '_',
                (0, 0) => ' ',
                (0, _) if has_unicode => '\u{2591}',
                (0, _) => ':',
                (low, _) if has_unicode => char::from_u32(0x2580 + low as u32).unwrap_or('#'),
                (low, _) if low * 2 < STEPS => '.',
                _ => '#',
            }
        };
        let bars: String = shown.iter().map(letter).collect();
        format!("{bars:>width$}")
    };
    (0..height).map(row).collect()
}
