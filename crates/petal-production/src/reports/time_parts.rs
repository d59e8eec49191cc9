//! Parts of a report's time: events, wait classes and processor time that its active sessions and the
//! busy processors of its host consist of.

use std::collections::BTreeMap;

use petal_awr::columns::value;
use petal_awr::figure::number;
use petal_awr::idle::is_idle;
use petal_awr::report::{Report, WaitEvent, event};

use crate::rise::{Total, TotalPart};

pub const DB_CPU: &str = "DB CPU";
const BACKGROUND_CPU: &str = "CPU of background processes";
const OTHER_PROCESSES: &str = "other processes of the host";
const WORK: &str = "more work";
/// Rows of top events that are processor time.
const CPU_ROWS: [&str; 2] = [DB_CPU, "CPU time"];

/// Sessions or processors of a report, by name.
type TimeParts = BTreeMap<String, f64>;

fn elapsed_s(report: &Report) -> Option<f64> {
    number(&report.header.elapsed_min).map(|minutes| minutes * 60.0).filter(|it| *it > 0.0)
}

fn seconds(event: &WaitEvent) -> Option<f64> {
    let product = || Some(number(&event.waits)? * number(&event.latency_us)? / 1e6);
    number(&event.time_s).or_else(product)
}

fn db_cpu(report: &Report) -> Option<f64> {
    let row = || CPU_ROWS.iter().find_map(|name| event(&report.top_events, name));
    let of_row = || Some(seconds(row()?)? / elapsed_s(report)?);
    value(report, "db_cpu_per_s").or_else(of_row)
}

/// Returns the sessions of each event, without idle ones and those of background processes.
fn events(report: &Report) -> TimeParts {
    let mut parts = TimeParts::new();
    let Some(elapsed) = elapsed_s(report) else { return parts };
    let foreground = &report.foreground_events;
    let listed = if foreground.is_empty() { &report.top_events } else { foreground };
    for waited in listed {
        let is_cpu = CPU_ROWS.contains(&waited.name.as_str());
        let Some(seconds) = seconds(waited).filter(|_| !is_cpu) else { continue };
        if is_idle(waited, foreground, &report.header) {
            continue;
        }
        let section = waited.time_s.as_ref().or(waited.waits.as_ref()).map(|it| &it.section);
        let is_own = section.is_some_and(|it| it.to_lowercase().contains("foreground"));
        let background = event(&report.background_events, &waited.name).filter(|_| !is_own);
        let own = seconds - background.and_then(self::seconds).unwrap_or(0.0);
        *parts.entry(waited.name.clone()).or_default() += own.max(0.0) / elapsed;
    }
    parts.extend(db_cpu(report).map(|cpu| (DB_CPU.to_owned(), cpu)));
    parts
}

fn classes(report: &Report) -> TimeParts {
    let Some(elapsed) = elapsed_s(report) else { return TimeParts::new() };
    let classes = report.wait_classes.iter().filter(|class| class.name != "Idle");
    classes
        .filter_map(|class| Some((class.name.clone(), number(&class.time_s)? / elapsed)))
        .collect()
}

fn busy_processors(report: &Report) -> Option<f64> {
    let of_times = || Some(number(&report.cpu.busy_s)? / elapsed_s(report)?);
    let of_share = || Some((1.0 - value(report, "cpu_idle_pct")? / 100.0) * value(report, "cpus")?);
    of_times().or_else(of_share)
}

fn processors(report: &Report) -> TimeParts {
    let of = |busy: f64, own: f64| {
        let background = number(&report.load_profile.background_cpu.per_second).unwrap_or(0.0);
        let other = (busy - own - background).max(0.0);
        [(DB_CPU, own), (BACKGROUND_CPU, background), (OTHER_PROCESSES, other)]
    };
    let parts = busy_processors(report).zip(db_cpu(report)).map(|(busy, own)| of(busy, own));
    parts.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn parts_of(reports: &[&Report], of: fn(&Report) -> TimeParts) -> Vec<TotalPart> {
    let all: Vec<TimeParts> = reports.iter().map(|report| of(report)).collect();
    let names: BTreeMap<&String, ()> =
        all.iter().flat_map(|it| it.keys().map(|it| (it, ()))).collect();
    let part = |name: &String| TotalPart {
        name: name.clone(),
        values: all.iter().map(|parts| parts.get(name).copied().unwrap_or(0.0)).collect(),
    };
    names.into_keys().map(part).collect()
}

/// Active sessions by event, and by class. Without DB time in any of the reports, the total is the sum
/// of the events in all: two sources would differ by more than a rise.
pub fn sessions(reports: &[&Report]) -> Total {
    let printed: Vec<Option<f64>> = reports.iter().map(|report| value(report, "aas")).collect();
    let sum = |report: &&Report| events(report).into_values().reduce(|sum, part| sum + part);
    let values = match printed.iter().any(Option::is_some) {
        true => printed,
        false => reports.iter().map(sum).collect(),
    };
    Total { values, parts: parts_of(reports, events), classes: parts_of(reports, classes) }
}

/// Busy processors of the host, by whose they are.
pub fn host(reports: &[&Report]) -> Total {
    let values = reports.iter().map(|report| busy_processors(report)).collect();
    Total { values, parts: parts_of(reports, processors), classes: Vec::new() }
}

/// Active sessions, and those of them that the load alone explains.
pub fn work(sessions: &Total, loads: &[f64]) -> Total {
    let each = sessions.values.iter().zip(loads).filter_map(|(value, load)| Some((*value)? / load));
    let typical = petal_judge::estimate::median(&each.collect::<Vec<_>>()).unwrap_or(0.0);
    let values = loads.iter().map(|load| load * typical).collect();
    let parts = vec![TotalPart { name: WORK.to_owned(), values }];
    Total { values: sessions.values.clone(), parts, classes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_awr::figure::Figure;
    use petal_awr::samples::sample;

    fn figure(value: f64) -> Option<Figure> {
        Figure::computed(value, 0.0, String::new())
    }

    fn shown(parts: &TimeParts) -> String {
        let all = parts.iter().map(|(name, value)| format!("{name} {value:.3}"));
        all.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn sessions_are_divided_into_events_without_background_and_idle_time() {
        let mut report = sample("sp_9i.txt");
        assert_eq!(
            shown(&events(&report)),
            "DB CPU 1.017, db file parallel write 0.000, db file sequential read 8.657, \
             log file parallel write 0.000, log file switch completion 0.117, log file sync 0.498"
        );
        // Without DB time in any report the total is the sum; a report without events has none.
        let (mut empty, with_total) = (report.clone(), sample("sp_11g.txt"));
        empty.foreground_events.clear();
        empty.top_events.clear();
        empty.load_profile = Default::default();
        let total = sessions(&[&report, &empty]);
        assert!((total.values[0].unwrap() - 10.288).abs() < 0.001, "{:?}", total.values);
        assert_eq!(total.values[1], None);
        let mixed = sessions(&[&report, &with_total]).values;
        assert_eq!(mixed, [None, value(&with_total, "aas")]);
        let mut idle = report.foreground_events[0].clone();
        "SQL*Net message from client".clone_into(&mut idle.name);
        report.foreground_events.push(idle);
        // Without its time, an event has its waits and their mean.
        report.foreground_events[0].time_s = None;
        let found = events(&report);
        assert!((found["db file sequential read"] - 8.657).abs() < 0.001 && found.len() == 6);
        // In a list of foreground processes nothing is taken away.
        let mut report = sample("sp_11g.txt");
        report.background_events = report.foreground_events.clone();
        assert_eq!(
            shown(&events(&report)),
            "DB CPU 2.000, db file sequential read 29.703, log file sync 0.073"
        );
        assert_eq!(sessions(&[&report]).values, [value(&report, "aas")]);
    }

    #[test]
    fn busy_processors_are_the_databases_and_others() {
        let mut report = sample("sp_11g.txt");
        report.cpu.busy_s = figure(1500.0);
        report.load_profile.background_cpu.per_second = figure(0.5);
        let total = host(&[&report]);
        assert_eq!(total.values, [Some(5.0)]);
        let parts =
            "CPU of background processes 0.500, DB CPU 2.000, other processes of the host 2.500";
        assert_eq!(shown(&processors(&report)), parts);
        report.cpu.busy_s = None;
        report.cpu.idle_pct = figure(75.0);
        assert_eq!(busy_processors(&report), Some(4.0), "a quarter of 16");
    }

    #[test]
    fn work_is_the_part_that_the_load_explains() {
        let sessions = Total { values: [2.0, 4.0, 9.0].map(Some).to_vec(), ..Total::default() };
        let work = work(&sessions, &[1.0, 2.0, 3.0]);
        assert_eq!(work.values, sessions.values);
        assert_eq!(work.parts[0].values, [2.0, 4.0, 6.0]);
    }
}
