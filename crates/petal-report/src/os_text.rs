//! `vmstat.out`, `iostat.out` and `mpstat.out`: the operating system's figures, an interval a
//! second, in the shape in which SLOB leaves the output of `vmstat -t`, `iostat -t -xm` and `mpstat
//! -P ALL`, for scripts that read those. Unknown is `-`. docs/numbers.md describes the columns.

use time::macros::format_description;
use time::{OffsetDateTime, UtcDateTime};

use super::csv_os;
use super::numbers::or_dash;
use petal_host::os::iostat::DeviceRates;
use petal_host::os::{CpuTicks, DeviceUse, OsInterval};
use petal_record::os::{HostSeen, SecondSeen};
use petal_record::os_figures::CpuPercents;
use petal_record::{Run, moment};
use petal_settings::printable::printable_line;

/// Number of lines after which vmstat repeats its heading.
const VMSTAT_LINES: usize = 24;

/// The figures of `vmstat`, as timeline.csv names them too.
const VMSTAT: [&str; 10] = ["r", "b", "swpd", "free", "buff", "cache", "si", "so", "in", "cs"];

/// Returns name and text of each file; None if the database's host was not watched.
pub fn files(run: &Run) -> Option<[(&'static str, String); 3]> {
    let seen = run.database_host().filter(|seen| !seen.seconds.is_empty())?;
    let began = moment::parse(&run.summary.started_at)?;
    let ends: Vec<(Moment, &OsInterval)> =
        seen.seconds.iter().map(|second| (Moment::end(began, second), &second.interval)).collect();
    let head = first_line(run, seen, began);
    Some([
        ("vmstat.out", vmstat(&ends)),
        ("iostat.out", format!("{head}\n{}", iostat(&ends))),
        ("mpstat.out", format!("{head}\n{}", mpstat(&ends))),
    ])
}

/// End of an interval, UTC.
struct Moment {
    date: String,
    time: String,
}

impl Moment {
    fn end(began: OffsetDateTime, second: &SecondSeen) -> Self {
        let after_s = second.from_s + second.interval.seconds;
        Self::of(moment::after(began, after_s).to_utc())
    }

    fn of(at: UtcDateTime) -> Self {
        // These formats are of fields that every moment has.
        let date = at.format(format_description!("[year]-[month]-[day]")).unwrap_or_default();
        let time = at.format(format_description!("[hour]:[minute]:[second]")).unwrap_or_default();
        Self { date, time }
    }
}

fn first_line(run: &Run, seen: &HostSeen, began: OffsetDateTime) -> String {
    let host = seen.facts.as_ref().or(run.details.host.as_ref());
    let kernel = or_dash(host, |host| host.kernel.clone());
    let cpus = or_dash(seen.processors(), |count| count.to_string());
    let date = Moment::of(began.to_utc()).date;
    let (kernel, name) = (printable_line(&kernel), printable_line(&seen.host));
    format!("Linux {kernel} ({name}) \t{date} \t_-_\t({cpus} CPU)\n")
}

fn vmstat(ends: &[(Moment, &OsInterval)]) -> String {
    const HEADING: &str = "\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
";
    let mut out = String::new();
    for (at, (moment, interval)) in ends.iter().enumerate() {
        if at % VMSTAT_LINES == 0 {
            out.push_str(HEADING);
        }
        let shown = |value: Option<f64>| or_dash(value, |value| decimal(value, 0));
        let [r, b, swpd, free, buff, cache, si, so, int, cs] =
            VMSTAT.map(|name| shown(csv_os::figure(&format!("vmstat.{name}"), interval)));
        let device = interval.device();
        let kib = |bytes: Option<u64>| shown(interval.per_second(bytes, 1024.0));
        let (bi, bo) = (kib(device.map(|d| d.read_bytes)), kib(device.map(|d| d.write_bytes)));
        let [usr, nice, sys, iowait, irq, soft, steal, idle] = percents(interval.cpus.host);
        let whole = |parts: &[Option<f64>]| shown(parts.iter().copied().sum());
        let (us, sy, id) = (whole(&[usr, nice]), whole(&[sys, irq, soft]), shown(idle));
        let (wa, st, Moment { date, time }) = (shown(iowait), shown(steal), moment);
        out.push_str(&format!(
            "{r:>2} {b:>2} {swpd:>6} {free:>6} {buff:>6} {cache:>6} {si:>4} {so:>4} {bi:>5} \
             {bo:>5} {int:>4} {cs:>4} {us:>2} {sy:>2} {id:>2} {wa:>2} {st:>2} {date} {time}\n"
        ));
    }
    out
}

fn iostat(ends: &[(Moment, &OsInterval)]) -> String {
    const HEADING: &str = "\
Device            r/s     rMB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wMB/s   wrqm/s  %wrqm \
w_await wareq-sz     d/s     dMB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
";
    let mut out = String::new();
    for (moment, interval) in ends {
        let [usr, nice, sys, iowait, irq, soft, steal, idle] = percents(interval.cpus.host);
        let system = [sys, irq, soft].into_iter().sum();
        let cpu = [usr, nice, system, iowait, steal, idle];
        out.push_str(&format!("{} {}\n", moment.date, moment.time));
        out.push_str("avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n       ");
        for share in cpu {
            out.push_str(&format!(" {:>7}", or_dash(share, |share| decimal(share, 2))));
        }
        out.push_str(&format!("\n\n{HEADING}"));
        for device in interval.devices.iter().flatten() {
            out.push_str(&iostat_line(device, interval.seconds));
        }
        out.push('\n');
    }
    out
}

/// Discards and the time of a flush are not watched.
fn iostat_line(device: &DeviceUse, seconds: f64) -> String {
    let shown = DeviceRates::of(device, seconds);
    let figure = |value: Option<f64>, digits: usize| or_dash(value, |value| decimal(value, digits));
    let requests = |per_s: Option<f64>, kib: Option<f64>, merges: Option<f64>, await_ms| {
        let (asked, merged) = (per_s.unwrap_or(0.0), merges.unwrap_or(0.0));
        let share = (asked + merged > 0.0).then(|| merged / (asked + merged) * 100.0);
        let size = kib.filter(|_| asked > 0.0).map(|kib| kib / asked);
        format!(
            "{:>7} {:>9} {:>8} {:>6} {:>7} {:>8}",
            figure(per_s, 2),
            figure(kib.map(|kib| kib / 1024.0), 2),
            figure(merges, 2),
            figure(share, 2),
            figure(await_ms, 2),
            figure(size, 2),
        )
    };
    format!(
        "{:<13} {} {} {} {:>7} {:>7} {:>7} {:>6}\n",
        printable_line(&device.name),
        requests(shown.reads, shown.read_kib, shown.read_merges, shown.read_await_ms),
        requests(shown.writes, shown.write_kib, shown.write_merges, shown.write_await_ms),
        requests(None, None, None, None),
        figure(shown.flushes, 2),
        "-",
        figure(shown.queue, 2),
        figure(shown.util_percent, 2),
    )
}

fn mpstat(ends: &[(Moment, &OsInterval)]) -> String {
    const HEADING: &str =
        "  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n";
    let mut out = String::new();
    for (moment, interval) in ends {
        let all = [("all".to_owned(), interval.cpus.host)];
        let each = interval.cpus.each.iter().map(|(cpu, ticks)| (cpu.to_string(), Some(*ticks)));
        out.push_str(&format!("{}{HEADING}", moment.time));
        for (cpu, ticks) in all.into_iter().chain(each) {
            let [usr, nice, sys, iowait, irq, soft, steal, idle] = percents(ticks);
            // The kernel counts guests' time in usr and nice too; petal does not part it.
            let shares = [usr, nice, sys, iowait, irq, soft, steal, None, None, idle];
            out.push_str(&format!("{} {cpu:>4}", moment.time));
            for share in shares {
                out.push_str(&format!(" {:>7}", or_dash(share, |share| decimal(share, 2))));
            }
            out.push('\n');
        }
        out.push('\n');
    }
    out
}

/// Formats a number with no separator of thousands.
fn decimal(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// Returns percentages in mpstat's order.
fn percents(ticks: Option<CpuTicks>) -> [Option<f64>; 8] {
    let known = ticks.as_ref().and_then(CpuPercents::of);
    known.map_or([None; 8], |known| known.columns().map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn seconds_are_as_the_tools_write_them() {
        let mut run = fixture::mixed_run();
        run.details.os.as_mut().unwrap().seconds.truncate(1);
        let [vmstat, iostat, mpstat] = files(&run).unwrap().map(|(_, text)| text);
        insta::assert_snapshot!(vmstat, @"
        procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
         r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
         2  5      0 2097152  44032 20971520    0    0 468000 92430 61000 122000 20 24 25 30  0 2026-11-20 13:42:08
        ");
        let words = |text: &str, begin: &str| {
            let line = text.lines().find(|line| line.starts_with(begin)).unwrap().to_owned();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(iostat.starts_with("Linux ") && iostat.contains("\n2026-11-20 13:42:08\navg-cpu:"));
        assert_eq!(words(&iostat, "        "), "20.00 0.00 24.50 30.00 0.50 25.00");
        assert_eq!(
            words(&iostat, "vda"),
            "vda 58500.00 457.03 3.00 0.01 0.07 8.00 540.00 90.26 7.00 1.28 0.56 171.17 \
             - - - - - - 180.00 - 4.20 97.00"
        );
        assert_eq!(
            words(&mpstat, "13:42:08  all"),
            "13:42:08 all 20.00 0.00 5.00 30.00 0.50 19.00 0.50 - - 25.00"
        );
    }

    #[test]
    fn every_line_has_the_columns_of_its_heading() {
        let run = fixture::mixed_run();
        let seconds = run.details.os.as_ref().unwrap().seconds.len();
        let [vmstat, iostat, mpstat] = files(&run).unwrap().map(|(_, text)| text);
        let columns = |line: &str| line.split_whitespace().count();
        let figures =
            vmstat.lines().filter(|line| !line.contains("memory") && !line.contains("swpd"));
        assert!(figures.clone().all(|line| columns(line) == 19), "17 figures, date and time");
        assert_eq!(figures.count(), seconds);
        let devices = iostat.lines().filter(|line| line.starts_with("vda"));
        assert!(devices.clone().all(|line| columns(line) == 23));
        assert_eq!(devices.count(), seconds);
        let all = mpstat.lines().filter(|line| line.contains(" all "));
        assert!(all.clone().all(|line| columns(line) == 12));
        assert_eq!(all.count(), seconds);
    }

    #[test]
    fn no_moment_is_too_late() {
        let mut run = fixture::mixed_run();
        run.summary.started_at = "9999-12-31T23:59:59Z".into();
        let [vmstat, _, _] = files(&run).unwrap().map(|(_, text)| text);
        assert!(vmstat.trim_end().ends_with("9999-12-31 23:59:59"), "{vmstat}");
        run.summary.started_at = "9999-12-31T23:59:59-01:00".into();
        assert!(files(&run).is_none(), "no moment that can be told in UTC");
    }

    #[test]
    fn without_a_host_that_was_watched_there_is_no_file() {
        let mut run = fixture::mixed_run();
        run.details.os = None;
        assert!(files(&run).is_none());
    }
}
