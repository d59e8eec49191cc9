//! Idle events: processes that wait for work. Lists of all processes, as Statspack's, may lead with
//! them.

use super::figure::{self, number};
use super::report::{ReportHeader, WaitEvent};

/// Events of wait class Idle, a line each, below the release that has them first. Later releases keep
/// most of them.
const IDLE: &str = include_str!("idle_events.txt");
/// A process that always waits: its seconds are this near to a whole number of elapsed times.
const PROCESSES_NEAR: f64 = 0.03;
/// Timers tick; a mean wait of seconds and more is no work.
const TIMER_MIN_US: f64 = 100_000.0;

/// True for an event that is known as idle, by its name.
pub fn is_known(name: &str, is_cut: bool) -> bool {
    let is_it = |known: &str| known == name || is_cut && known.starts_with(name);
    IDLE.lines().any(is_it)
        || name
            .to_ascii_lowercase()
            .split(' ')
            .any(|word| word.trim_matches([':', '(', ')']) == "idle")
}

/// True for an idle event: a known one, one of wait class Idle, or one of background processes that
/// wait the whole time. `foreground` are the events of the other processes.
pub fn is_idle(event: &WaitEvent, foreground: &[WaitEvent], header: &ReportHeader) -> bool {
    let class = figure::shown(&event.wait_class);
    is_known(&event.name, event.is_cut)
        || class.is_some_and(|class| class == "Idle")
        || waits_all_the_time(event, foreground, header)
}

fn waits_all_the_time(event: &WaitEvent, foreground: &[WaitEvent], header: &ReportHeader) -> bool {
    let is_of_foreground = super::report::event(foreground, &event.name).is_some();
    if is_of_foreground || foreground.is_empty() {
        return false;
    }
    let long = number(&event.avg_us).or(number(&event.reported_avg_us));
    let elapsed = number(&header.elapsed_min).map(|minutes| minutes * 60.0);
    let Some((seconds, elapsed)) = number(&event.time_s).zip(elapsed) else { return false };
    let processes = seconds / elapsed;
    let near = (processes - processes.round()).abs() <= PROCESSES_NEAR * processes.round();
    processes.round() >= 1.0 && near && long.is_some_and(|us| us >= TIMER_MIN_US)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::column;
    use crate::samples::of_text;

    #[test]
    fn each_name_is_there_once() {
        let names: Vec<&str> = IDLE.lines().filter(|line| !line.starts_with('#')).collect();
        for name in &names {
            assert!(!name.is_empty() && *name == name.trim(), "{name:?}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
        assert!(is_known("Streams AQ: waiting for messa", true));
        assert!(
            !is_known("log file sync", true) && !is_known("SQL*Net message from dblink", false)
        );
    }

    #[test]
    fn idle_events_do_not_lead() {
        let text = include_str!("../../../tests/data/awr/sp_files.txt");
        let shown = |report: &crate::report::Report| {
            (column("top_event").unwrap().value)(report).map(|figure| figure.shown())
        };
        let report = of_text(text).unwrap();
        assert_eq!(shown(&report).as_deref(), Some("db file sequential read"));
        assert_eq!(report.top_events[0].name, "LGWR worker group idle", "as printed");
        // A background timer of a later release, of two processes that wait the whole time.
        let later = text.replace("LGWR worker group idle", "a timer of the future ");
        assert_eq!(shown(&of_text(&later).unwrap()).as_deref(), Some("a timer of the future"));
        let later =
            later.replace("5,000       6,900   1380   36.8", "5,000       7,210   1442   38.5");
        assert_eq!(shown(&of_text(&later).unwrap()).as_deref(), Some("db file sequential read"));
    }
}
