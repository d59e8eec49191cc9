//! Statspack's report of a run, made of its owner's tables: what `spreport.sql` does in SQL*Plus,
//! for the parts that petal reads, in the layout that Statspack has. Times keep the microseconds
//! that the tables hold, where Statspack's own report rounds them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::link::{Kind, Link, LinkError, Row, Value};
use super::meta::cell;
use super::sql;

/// Rows of the top list, as Statspack has them.
const TOP: usize = 5;
const NAME_WIDTH: usize = 64;

/// What a snapshot says of itself.
struct Bound {
    snapshot: String,
    database_id: String,
    instance_number: String,
    database: String,
    instance: String,
    host: String,
    release: String,
    cluster: String,
    startup: String,
    time: String,
    seconds: f64,
}

impl Bound {
    fn of(row: &Row) -> Self {
        let text = |at: usize| cell(row, at).to_owned();
        Self {
            snapshot: text(0),
            database_id: text(1),
            instance_number: text(2),
            database: text(3),
            instance: text(4),
            host: text(5),
            release: text(6),
            cluster: text(7),
            startup: text(8),
            time: text(9),
            seconds: decimal(row, 10),
        }
    }
}

/// A wait event: count and microseconds.
struct Event {
    name: String,
    waits: f64,
    micros: f64,
}

fn decimal(row: &Row, at: usize) -> f64 {
    cell(row, at).trim().parse().unwrap_or(0.0)
}

/// The report between two snapshots of one instance.
pub fn report(link: &mut dyn Link, first: &str, last: &str) -> Result<String, LinkError> {
    let ids = [first, last].map(|id| Value::Number(id.parse().unwrap_or_default()));
    let mut query = |name: &str| link.query(&sql::section(sql::REPORTS, name), &ids);
    let bounds = query("statspack_bounds")?;
    let [begin, end] = &bounds[..] else {
        return Err(odd(format!(
            "PERFSTAT has {} of the snapshots {first} and {last}",
            bounds.len()
        )));
    };
    let (begin, end) = (Bound::of(begin), Bound::of(end));
    if begin.instance_number != end.instance_number {
        return Err(odd(format!(
            "snapshot {first} is of instance {}, {last} of instance {}: name a service of one \
             instance (ADMIN_SQLNET_SERVICE)",
            begin.instance, end.instance
        )));
    }
    if begin.startup != end.startup {
        return Err(odd(format!(
            "instance {} was started at {}, between snapshots {first} and {last}: its counters began \
             anew",
            end.instance, end.startup
        )));
    }
    let pairs = |rows: Vec<Row>| -> BTreeMap<String, f64> {
        rows.iter().map(|row| (cell(row, 0).to_owned(), decimal(row, 1))).collect()
    };
    let statistics = pairs(query("statspack_statistics")?);
    let times = pairs(query("statspack_times")?);
    let os = pairs(query("statspack_os")?);
    let events = query("statspack_events")?;
    let report = Report { begin, end, statistics, times, os, events };
    Ok(report.text())
}

fn odd(message: String) -> LinkError {
    LinkError { code: None, message, kind: Kind::Database }
}

struct Report {
    begin: Bound,
    end: Bound,
    statistics: BTreeMap<String, f64>,
    times: BTreeMap<String, f64>,
    os: BTreeMap<String, f64>,
    events: Vec<Row>,
}

impl Report {
    fn seconds(&self) -> f64 {
        self.end.seconds - self.begin.seconds
    }

    fn db_time_s(&self) -> Option<f64> {
        self.times.get("DB time").map(|micros| micros / 1e6)
    }

    fn text(&self) -> String {
        let mut out = String::from(
            "Made by petal of PERFSTAT's tables: the parts that petal reads.\n\n\
             STATSPACK report for\n\n",
        );
        self.header(&mut out);
        self.load_profile(&mut out);
        let (foreground, background) =
            (self.events_of(3, 4, None), self.events_of(1, 2, Some((3, 4))));
        let top = foreground.iter().filter(|event| event.micros > 0.0).take(TOP);
        self.events(&mut out, "Top 5 Timed Events", "", top, true);
        let named = |title: &str| {
            let Bound { database, instance, .. } = &self.end;
            let snapshots = format!("{}-{}", self.begin.snapshot, self.end.snapshot);
            format!("{title}  DB/Inst: {database}/{instance}  Snaps: {snapshots}")
        };
        let note = "-> Total Wait Time in seconds, with the microseconds that were counted\n";
        self.events(&mut out, &named("Foreground Wait Events"), note, foreground.iter(), false);
        self.events(&mut out, &named("Background Wait Events"), note, background.iter(), false);
        self.statistics(&mut out, &named("Instance Activity Stats"));
        self.os(&mut out, &named("OS Statistics"));
        let _ = writeln!(
            out,
            "\nEnd of Report ( statspack.txt, snapshots {} to {} )",
            self.begin.snapshot, self.end.snapshot
        );
        out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    fn header(&self, out: &mut String) {
        let Bound { database_id, instance, instance_number, startup, .. } = &self.end;
        let Bound { release, cluster, database, host, .. } = &self.end;
        let _ = writeln!(
            out,
            "DB Name        DB Id Instance         Inst Num Startup Time       Release           RAC\n\
             ------- ------------ ---------------- -------- ------------------ ----------------- ---\n\
             {database:<7} {database_id:>12} {instance:<16} {instance_number:>8} {startup:<18} \
             {release:<17} {cluster}\n"
        );
        if !host.is_empty() {
            let rule = "-".repeat(NAME_WIDTH);
            let _ = writeln!(
                out,
                "{:<NAME_WIDTH$} {:<16} {:>4}\n{rule} {} ----\n{host:<NAME_WIDTH$} {:<16} {:>4}\n",
                "Host Name",
                "Platform",
                "CPUs",
                "-".repeat(16),
                "-",
                "-"
            );
        }
        let line = |label: &str, bound: &Bound| {
            format!("{label:>11} {:>10} {:<18}\n", bound.snapshot, bound.time)
        };
        out.push_str("Snapshot       Snap Id     Snap Time      Sessions\n");
        out.push_str("~~~~~~~~    ---------- ------------------ --------\n");
        out.push_str(&line("Begin Snap:", &self.begin));
        out.push_str(&line("End Snap:", &self.end));
        let _ = writeln!(out, "{:>11} {:>10.4} (mins)", "Elapsed:", self.seconds() / 60.0);
        if let Some(db_time) = self.db_time_s() {
            let _ = writeln!(out, "{:>11} {:>10.4} (mins)", "DB time:", db_time / 60.0);
        }
        out.push('\n');
    }

    fn load_profile(&self, out: &mut String) {
        let get = |name: &str| self.statistics.get(name).copied();
        let micros = |name: &str| self.times.get(name).map(|micros| micros / 1e6);
        let commits = get("user commits");
        let transactions = commits.zip(get("user rollbacks")).map(|(commits, back)| commits + back);
        let lines = [
            ("DB time(s)", micros("DB time")),
            ("DB CPU(s)", micros("DB CPU")),
            ("Redo size", get("redo size")),
            ("Logical reads", get("session logical reads")),
            ("Block changes", get("db block changes")),
            ("Physical reads", get("physical reads")),
            ("Physical writes", get("physical writes")),
            ("User calls", get("user calls")),
            ("Parses", get("parse count (total)")),
            ("Hard parses", get("parse count (hard)")),
            ("Logons", get("logons cumulative")),
            ("Executes", get("execute count")),
            ("Rollbacks", get("user rollbacks")),
            ("Transactions", transactions),
        ];
        out.push_str("Load Profile              Per Second    Per Transaction\n");
        out.push_str("~~~~~~~~~~~~      ------------------  -----------------\n");
        for (name, total) in lines {
            let Some(total) = total else { continue };
            let seconds = Some(self.seconds()).filter(|seconds| *seconds > 0.0);
            let each = transactions.filter(|count| *count > 0.0 && name != "Transactions");
            let show =
                |per: Option<f64>| per.map_or(String::new(), |per| format!("{:.3}", total / per));
            let line = format!("{:>17}{:>19}{:>19}", format!("{name}:"), show(seconds), show(each));
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out.push('\n');
    }

    /// Those that took time first. `less`: what the columns hold too much.
    fn events_of(&self, waits: usize, micros: usize, less: Option<(usize, usize)>) -> Vec<Event> {
        let mut events: Vec<Event> = self
            .events
            .iter()
            .map(|row| Event {
                name: cell(row, 0).to_owned(),
                waits: decimal(row, waits) - less.map_or(0.0, |(at, _)| decimal(row, at)),
                micros: decimal(row, micros) - less.map_or(0.0, |(_, at)| decimal(row, at)),
            })
            .filter(|event| event.waits > 0.0)
            .collect();
        events.sort_by(|one, other| other.micros.total_cmp(&one.micros));
        events
    }

    fn events<'e>(
        &self,
        out: &mut String,
        title: &str,
        note: &str,
        events: impl Iterator<Item = &'e Event>,
        has_cpu: bool,
    ) {
        let rule = "-".repeat(NAME_WIDTH);
        let underline = if has_cpu { "~~~~~~~~~~~~~~~~~~\n" } else { "" };
        let _ = writeln!(out, "{title}\n{underline}{note}");
        let _ = writeln!(
            out,
            "{:<NAME_WIDTH$} {:>14} {:>19} {:>13} {:>17}",
            "Event", "Waits", "Total Wait Time (s)", "Avg wait (ms)", "%Total Call Time"
        );
        let dashes = |width| "-".repeat(width);
        let _ = writeln!(out, "{rule} {} {} {} {}", dashes(14), dashes(19), dashes(13), dashes(17));
        let share = |seconds: f64| {
            self.db_time_s()
                .filter(|all| *all > 0.0)
                .map_or(String::new(), |all| format!("{:.1}", seconds / all * 100.0))
        };
        let mut lines: Vec<(f64, String)> = events
            .map(|event| {
                let seconds = event.micros / 1e6;
                let average = event.micros / event.waits / 1e3;
                let line = format!(
                    "{:<NAME_WIDTH$} {:>14.0} {seconds:>19.6} {average:>13.4} {:>17}",
                    event.name,
                    event.waits,
                    share(seconds)
                );
                (seconds, line)
            })
            .collect();
        if let Some(seconds) =
            self.times.get("DB CPU").map(|micros| micros / 1e6).filter(|_| has_cpu)
        {
            let line = format!(
                "{:<NAME_WIDTH$} {:>14} {seconds:>19.6} {:>13} {:>17}",
                "CPU time",
                "",
                "",
                share(seconds)
            );
            lines.push((seconds, line));
            lines.sort_by(|one, other| other.0.total_cmp(&one.0));
        }
        lines.iter().for_each(|(_, line)| {
            let _ = writeln!(out, "{}", line.trim_end());
        });
        end(out);
    }

    fn statistics(&self, out: &mut String, title: &str) {
        let rule = "-".repeat(NAME_WIDTH);
        let _ = writeln!(
            out,
            "{title}\n\n{:<NAME_WIDTH$} {:>20} {:>18}\n{rule} {} {}",
            "Statistic",
            "Total",
            "per Second",
            "-".repeat(20),
            "-".repeat(18)
        );
        for (name, total) in &self.statistics {
            let each = Some(self.seconds()).filter(|seconds| *seconds > 0.0);
            let each = each.map_or(String::new(), |seconds| format!("{:.3}", total / seconds));
            let line = format!("{name:<NAME_WIDTH$} {total:>20.0} {each:>18}");
            let _ = writeln!(out, "{}", line.trim_end());
        }
        end(out);
    }

    fn os(&self, out: &mut String, title: &str) {
        let _ = writeln!(
            out,
            "{title}\n\n{:<25} {:>22}\n{} {}",
            "Statistic",
            "Total",
            "-".repeat(25),
            "-".repeat(22)
        );
        for (name, total) in &self.os {
            let _ = writeln!(out, "{name:<25} {total:>22.0}");
        }
        end(out);
    }
}

fn end(out: &mut String) {
    let _ = writeln!(out, "          {}\n", "-".repeat(61));
}
