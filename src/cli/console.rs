//! The terminal: results go to stdout, progress and messages to stderr. This is the only file that
//! writes to either.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use parking_lot::Mutex;
use serde::Serialize;

use petal_engine::threads::Thread;
use petal_engine::{Progress, ProgressUnit};
use petal_host::histogram::LatencySummary;
use petal_record::timeline::Tally;
use petal_record::{Finding, Second};
use petal_report::numbers::{counted, decimal, span};
use petal_report::table;
use petal_run::{Subject, Watch};
use petal_settings::argv;
use petal_settings::printable::{printable, printable_line};

use super::args::is_set;
use super::failure::{CommandError, Exit};
use super::live::{Live, Observers};
use super::no_progress::LastProgress;
use super::plain_phase::{PlainPhase, items_per_time, left_words};
use super::stderr::{Queued, columns};

/// Time between lines of progress without a terminal.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// Time between steps of the bar's clock on a terminal.
const REDRAW_EVERY: Duration = Duration::from_millis(250);
/// Patience at the end with a reader of stderr that takes nothing.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Longest wait of a result for earlier messages.
const ORDER_LIMIT: Duration = Duration::from_secs(1);
/// Columns of a run's bar with the space before it.
const BAR_COLUMNS: usize = 13;

#[derive(Clone)]
pub struct Console {
    quiet: bool,
    terminal: bool,
    /// A result could not be written to stdout.
    result_lost: Arc<AtomicBool>,
    state: Arc<Mutex<ConsoleState>>,
    /// Another observer of the work.
    watch: Option<Arc<dyn Watch + Send>>,
    /// The full screen of `--live`.
    live: Option<Live>,
    stderr: Queued,
    /// petal's own, whose secrets no message shows.
    arguments: Arc<[OsString]>,
    progressed: LastProgress,
}

#[derive(Default)]
struct ConsoleState {
    bar: Option<ProgressBar>,
    phase: Option<PlainPhase>,
    /// The bar is not drawn, because there is a full screen.
    is_bar_hidden: bool,
    run_s: f64,
    /// Prefix of every line of progress, such as the cell of a sweep.
    heading: String,
    /// Time of the work after this run.
    after: Duration,
    /// Kinds of notes that were shown once.
    noted: HashSet<&'static str>,
}

impl Console {
    /// `quiet` leaves only errors and results.
    pub fn new(quiet: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let (result_lost, state) = (Arc::default(), Arc::default());
        let (stderr, arguments) = (Queued::stderr(), Arc::default());
        let (watch, live, progressed) = (None, None, LastProgress::default());
        Self { quiet, terminal, result_lost, state, watch, live, stderr, arguments, progressed }
    }

    /// Names waits when there is no progress for long, until petal ends.
    pub fn name_long_waits(&self) {
        let shown = self.clone();
        self.progressed.is_now();
        self.progressed.watch(move |line| shown.warn(line));
    }

    /// Shows no secret of these arguments in an error.
    pub fn hiding(self, arguments: &[OsString]) -> Self {
        Self { arguments: arguments.into(), ..self }
    }

    /// Makes a console that shows only errors and results.
    pub fn quieted(&self) -> Self {
        Self { quiet: true, watch: None, live: None, ..self.clone() }
    }

    /// Adds observers, which follow the same work as the console, and shows their notes.
    pub fn observed_by(self, observers: Observers) -> Self {
        // Also with --quiet: without the URL nobody can watch.
        observers.notes.iter().for_each(|note| self.line(&self.message(note)));
        Self { watch: observers.watch, live: observers.live, ..self }
    }

    /// True while a full screen shows the work.
    fn is_on_screen(&self) -> bool {
        self.live.as_ref().is_some_and(Live::is_on)
    }

    /// Leaves the full screen, if there is one, and writes the messages that it kept.
    pub fn end_screen(&self) {
        self.live.iter().for_each(Live::end);
    }

    /// Whole lines for stderr; a full screen keeps them until it is left.
    fn write_lines(&self, text: String) {
        if !self.live.as_ref().is_some_and(|live| live.keep(&text)) {
            self.stderr.lines(text);
        }
    }

    fn notify_watch(&self, notify: impl FnOnce(&dyn Watch)) {
        if let Some(watch) = &self.watch {
            notify(&**watch);
        }
    }

    /// A result, for a person or a pipe. A reader that went away is no error; anything else that
    /// keeps the result from being written is reported, and [`Self::exit`] makes it an exit code.
    pub fn result(&self, text: &str) {
        self.styled_result(&printable(text));
    }

    /// Prints one line of a result, with any control characters made visible.
    pub fn result_line(&self, line: &str) {
        self.result(&format!("{}\n", printable_line(line)));
    }

    /// A text of petal's own with a terminal's colours in it.
    pub fn styled_result(&self, text: &str) {
        self.clear();
        self.end_screen();
        // On a terminal the earlier messages come first.
        self.stderr.drain(ORDER_LIMIT);
        let mut stdout = io::stdout().lock();
        let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) else {
            return;
        };
        let is_left = error.kind() == io::ErrorKind::BrokenPipe;
        if !is_left && !self.result_lost.swap(true, Ordering::Relaxed) {
            self.error(&format!(
                "the result could not be written to standard output: {error}; send it where there \
                 is room, or read it from the folder of the results"
            ));
        }
    }

    /// The exit code of the command: at least `Environment` if a result could not be written.
    pub fn exit(&self, exit: Exit) -> Exit {
        self.end_screen();
        self.stderr.drain(END_LIMIT);
        let is_lost = self.result_lost.load(Ordering::Relaxed);
        if is_lost { exit.max(Exit::Environment) } else { exit }
    }

    /// Lays a report out as wide as the terminal; for a pipe or a file it has a fixed width.
    pub fn laid_out<T>(&self, report: impl FnOnce() -> T) -> T {
        match columns(io::stdout()) {
            Some(columns) => table::within(columns, report),
            None => report(),
        }
    }

    /// A result that is laid out so.
    pub fn report(&self, report: impl FnOnce() -> String) {
        self.result(&self.laid_out(report));
    }

    /// A result as JSON if the flag says so, else as text, in brief on a terminal.
    pub fn show(
        &self,
        matches: &ArgMatches,
        result: &impl Serialize,
        brief: impl FnOnce() -> String,
        whole: impl FnOnce() -> String,
    ) -> Result<(), CommandError> {
        if is_set(matches, "json") {
            let json = petal_report::json::pretty(result);
            self.result(&json.map_err(CommandError::failed("the result is no JSON"))?);
        } else {
            self.report(|| if self.is_brief(matches) { brief() } else { whole() });
        }
        Ok(())
    }

    /// True if a result is to fit on one screen: stdout is a terminal, and `--full` is not given.
    pub fn is_brief(&self, matches: &ArgMatches) -> bool {
        io::stdout().is_terminal() && !is_set(matches, "full")
    }

    pub fn error(&self, message: &str) {
        self.clear();
        let message = argv::without_secrets(message, &self.arguments);
        self.write_lines(format!("{}\n", self.message(&message)));
    }

    /// A whole text of several lines, such as a usage error.
    pub fn usage_error(&self, text: &str) {
        self.stderr.lines(printable(text).into_owned());
    }

    pub fn warn(&self, message: &str) {
        if !self.quiet {
            self.line(&self.message(message));
        }
    }

    /// Breaks the lines of a message between words, at the width of the terminal.
    fn message(&self, message: &str) -> String {
        let laid_out = || {
            let lines = message.lines().enumerate();
            let first = |at| if at == 0 { "petal: " } else { "       " };
            lines.map(|(at, line)| table::paragraph(first(at), "       ", line)).collect::<String>()
        };
        match columns(io::stderr()) {
            Some(columns) => table::within(columns, laid_out).trim_end().to_owned(),
            None => prefixed(message),
        }
    }

    fn line(&self, line: &str) {
        let state = self.state.lock();
        match &state.bar {
            Some(bar) if self.terminal => bar.suspend(|| self.write_lines(format!("{line}\n"))),
            _ => self.write_lines(format!("{line}\n")),
        }
    }

    fn clear(&self) {
        let mut state = self.state.lock();
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
        state.phase = None;
    }

    fn bar(&self, total: u64, unit: ProgressUnit) -> ProgressBar {
        let is_seen = self.terminal && !self.quiet && !self.is_on_screen();
        let target = if is_seen {
            ProgressDrawTarget::term_like_with_hz(Box::new(self.stderr.terminal()), 8)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        bar.set_style(style(total, unit));
        if is_seen {
            redraw_steadily(&bar);
        }
        bar
    }
}

/// Redraws the bar until it is dropped: the time goes on while nothing else does. The library's own
/// way panics if no thread can be started.
fn redraw_steadily(bar: &ProgressBar) {
    let bar = bar.downgrade();
    let redraw = move || {
        while let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            bar.tick();
            drop(bar);
            std::thread::sleep(REDRAW_EVERY);
        }
    };
    // Without it the bar moves with the work alone.
    drop(Thread::named("progress").start(redraw));
}

/// A message as it is shown: petal's name before it, further lines under it.
fn prefixed(message: &str) -> String {
    let lines: Vec<_> = message.lines().map(printable_line).collect();
    format!("petal: {}", lines.join("\n       "))
}

fn style(total: u64, unit: ProgressUnit) -> ProgressStyle {
    let template = match (total, unit) {
        (0, _) => "{wide_msg} {spinner} {elapsed}",
        (_, ProgressUnit::Bytes) => {
            "{wide_msg} {bar:20} {bytes}/{total_bytes} {binary_bytes_per_sec}, {left}"
        }
        (_, ProgressUnit::Items) => "{wide_msg} {bar:20} {human_pos}/{human_len} {rate}, {left}",
        (_, ProgressUnit::Seconds) => "{wide_msg} {pos} s of at most {len} s",
    };
    let left = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
        let units_left = state.len().map_or(0, |length| length.saturating_sub(state.pos()));
        let _ = text.write_str(&left_words(state.pos(), units_left, state.eta()));
    };
    let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
        let _ = text.write_str(&items_per_time(state.per_sec()));
    };
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    style.with_key("left", left).with_key("rate", rate)
}

impl Console {
    fn show_phase(&self, what: &str, total: u64, unit: ProgressUnit) {
        self.clear();
        let bar = self.bar(total, unit);
        let mut state = self.state.lock();
        let what = format!("{}{}", state.heading, printable_line(what));
        bar.set_message(what.clone());
        let now = Instant::now();
        let phase = PlainPhase { what, total, done: 0, unit, began: now, shown: now };
        if let Some(live) = &self.live {
            live.phase(Some(phase.clone()));
        }
        state.is_bar_hidden = self.is_on_screen();
        state.bar = Some(bar);
        state.phase = Some(phase);
    }

    /// Draws the bar of a phase whose full screen was left.
    fn show_hidden_bar(&self) {
        let mut state = self.state.lock();
        if !state.is_bar_hidden || self.is_on_screen() {
            return;
        }
        state.is_bar_hidden = false;
        let Some(hidden) = state.bar.take() else { return };
        drop(state);
        let unit = ProgressUnit::Items;
        let bar = self.bar(hidden.length().unwrap_or(0), unit);
        bar.set_style(hidden.style());
        bar.set_elapsed(hidden.elapsed());
        bar.set_message(hidden.message());
        bar.set_position(hidden.position());
        self.state.lock().bar = Some(bar);
    }
}

impl Progress for Console {
    fn phase(&self, what: &str, total: u64, unit: ProgressUnit) {
        self.progressed.is_now();
        self.notify_watch(|watch| watch.phase(what, total, unit));
        self.live.iter().for_each(|live| live.begin(&self.stderr));
        self.show_phase(what, total, unit);
    }

    fn advance(&self, units: u64) {
        if units > 0 {
            self.progressed.is_now();
        }
        self.notify_watch(|watch| watch.advance(units));
        self.live.iter().for_each(|live| live.advance(units));
        self.show_hidden_bar();
        let mut state = self.state.lock();
        if let Some(bar) = &state.bar {
            bar.inc(units);
        }
        let plain = !self.terminal && !self.quiet;
        let Some(phase) = state.phase.as_mut() else { return };
        phase.done += units;
        if plain && phase.shown.elapsed() >= PLAIN_EVERY {
            phase.shown = Instant::now();
            self.stderr.lines(format!("petal: {}\n", phase.words()));
        }
    }

    fn note(&self, line: &str) {
        self.warn(line);
    }

    fn note_once(&self, kind: &'static str, line: &str) {
        let is_first = self.state.lock().noted.insert(kind);
        if is_first {
            self.warn(line);
        }
    }
}

impl Watch for Console {
    fn begins(&self, subject: &Subject) {
        self.notify_watch(|watch| watch.begins(subject));
        if let (Some(live), Some(folder)) = (&self.live, &subject.folder) {
            live.begin(&self.stderr);
            // The screen of a sweep shows all of its cells.
            let sweep = folder.parent().filter(|_| subject.cell > 0);
            live.follow(sweep.unwrap_or(folder));
        }
    }

    fn triggered(&self, sessions: u32, seconds: f64) {
        self.notify_watch(|watch| watch.triggered(sessions, seconds));
        let what = format!("running {}", counted(sessions, "session"));
        self.show_phase(&what, seconds as u64, ProgressUnit::Items);
        let mut state = self.state.lock();
        state.run_s = seconds;
        state.phase = None;
        self.live.iter().for_each(|live| live.phase(None));
        if let Some(bar) = &state.bar {
            // The line's one clock is the time left.
            let template = "{wide_msg} {bar:12}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
        }
    }

    fn second(&self, second: &Second, so_far: &Tally, left_s: f64) {
        if second.ops.total > 0 {
            self.progressed.is_now();
        }
        self.notify_watch(|watch| watch.second(second, so_far, left_s));
        self.show_hidden_bar();
        let state = self.state.lock();
        let left = time_left(left_s, state.after);
        let text = format!("{}{left}: {}", state.heading, second_line(second));
        let elapsed_s = (second.from_s + second.length_s) as u64;
        if let Some(bar) = &state.bar {
            bar.set_position(elapsed_s);
            let room = columns(io::stderr()).map(|all| all.saturating_sub(BAR_COLUMNS));
            bar.set_message(whole_parts(&text, room.unwrap_or(usize::MAX)).to_owned());
        }
        if !self.terminal && !self.quiet && elapsed_s.is_multiple_of(PLAIN_EVERY.as_secs()) {
            self.stderr.lines(format!("petal: {text}\n"));
        }
    }

    fn ended(&self, last: &[Second], total: &Tally) {
        self.progressed.is_now();
        self.notify_watch(|watch| watch.ended(last, total));
        self.clear();
    }

    fn judged(&self, findings: &[Finding]) {
        self.notify_watch(|watch| watch.judged(findings));
    }

    fn error(&self, message: &str) {
        Self::error(self, message);
    }

    fn heading(&self, heading: &str, after: Duration) {
        let heading = printable_line(heading).into_owned();
        self.live.iter().for_each(|live| live.heading(&heading));
        let mut state = self.state.lock();
        (state.heading, state.after) = (heading, after);
    }

    #[allow(clippy::exit, reason = "a return would wait for threads that hang")]
    fn leave(&self, message: &str) -> ! {
        Self::error(self, message);
        std::process::exit(self.exit(Exit::Failed) as i32)
    }
}

/// The first parts of a list that fit: no figure is cut.
fn whole_parts(text: &str, columns: usize) -> &str {
    let mut shown = text;
    while shown.chars().count() > columns {
        let Some(at) = shown.rfind(", ") else { break };
        shown = &shown[..at];
    }
    shown
}

/// The time left of all work; at the end of a run the last operations and the counters are waited for.
fn time_left(left_s: f64, after: Duration) -> String {
    match Duration::try_from_secs_f64(left_s) {
        Ok(left) if left_s >= 0.5 && after.is_zero() => {
            format!("{} s left", decimal(left.as_secs_f64(), 0))
        }
        Ok(left) if left_s >= 0.5 => format!("{} left", span(left + after)),
        _ => "waiting for the last operations".to_owned(),
    }
}

/// Current PIOPS, operations/s and the worst p99, of the second that just ended; the slowest
/// operation if there were too few for a p99. A figure that is not known is left out.
fn second_line(second: &Second) -> String {
    let per_second = |count: u64| count as f64 / second.length_s.max(1e-9);
    let requests =
        second.io.and_then(|io| Some(io.physical_read_requests? + io.physical_write_requests?));
    let worst = |figure: fn(&LatencySummary) -> Option<f64>| {
        second.latency_us.values().filter_map(figure).reduce(f64::max)
    };
    let p99 = worst(|latency| latency.p99).map(|us| format!("p99 {} us", decimal(us, 0)));
    let slowest = worst(|latency| latency.max).map(|us| format!("slowest {} us", decimal(us, 0)));
    let figures = [
        requests.map(|requests| format!("{} PIOPS", decimal(per_second(requests), 0))),
        Some(format!("{} operations/s", decimal(per_second(second.ops.total), 0))),
        p99.or(slowest),
        (second.errors > 0).then(|| counted(second.errors, "error")),
    ];
    figures.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_of_a_second_that_is_not_known_is_left_out() {
        let unknown = Second { length_s: 1.0, errors: 1, ..Second::default() };
        assert_eq!(second_line(&unknown), "0 operations/s, 1 error");
    }

    #[test]
    fn a_narrow_terminal_shows_whole_figures() {
        let text = "cell 4 of 30, 2 min 46 s left: 47,476 PIOPS, 690 operations/s, p99 9 us";
        assert_eq!(whole_parts(text, 200), text);
        let shown = "cell 4 of 30, 2 min 46 s left: 47,476 PIOPS";
        assert_eq!(whole_parts(text, 50), shown);
        assert_eq!(whole_parts("waiting", 3), "waiting");
    }

    #[test]
    fn a_sweep_has_one_clock() {
        assert_eq!(time_left(16.2, Duration::ZERO), "16 s left");
        assert_eq!(
            time_left(16.0, Duration::from_secs(150)),
            span(Duration::from_secs(166)) + " left"
        );
        let waiting = time_left(0.1, Duration::from_secs(150));
        assert_eq!(waiting, "waiting for the last operations");
    }

    #[test]
    fn a_note_of_one_kind_is_shown_once() {
        let console = Console::new(true);
        console.note_once("idle disk", "waited 6 s");
        assert!(!console.state.lock().noted.insert("idle disk"));
    }
}
