//! `petal check`'s report: a table of every check, then the reason and the command for those that
//! are not good.

use super::numbers::counted;
use super::table::{SCREEN_LINES, Table, fitting_paragraphs, line, paragraph, rest};
use petal_judge::host::{Check, CheckResult};

/// The advice is never wrapped, so that it can be pasted into a shell.
pub fn render(checks: &[Check]) -> String {
    let row = |check: &Check| [word(check.verdict).into(), check.name.clone(), check.value.clone()];
    let table = Table::headed("verdict | what | value").with_rows(checks.iter().map(row));
    let mut out = table.render();
    for verdict in [CheckResult::Warn, CheckResult::Note] {
        for check in checks.iter().filter(|check| check.verdict == verdict) {
            explain(&mut out, check);
        }
    }
    out
}

/// Warnings that a screen explains, and other checks that it names.
const WARNINGS_MAX: usize = 3;
const NAMED_MAX: usize = 12;

/// Lays out the checks on one screen: the answer, the warnings with their advice, and a line for
/// each other check that is not good.
pub fn brief(checks: &[Check]) -> String {
    let all = |verdict| checks.iter().filter(move |check| check.verdict == verdict);
    let warnings = all(CheckResult::Warn).count();
    let mut out = match warnings {
        0 => format!(
            "no check found a problem: {} of {} are good\n",
            all(CheckResult::Good).count(),
            counted(checks.len() as u64, "check")
        ),
        _ => {
            format!("{warnings} of {} found a problem\n", counted(checks.len() as u64, "check"))
        }
    };
    all(CheckResult::Warn).take(WARNINGS_MAX).for_each(|check| explain(&mut out, check));
    out.push_str(&rest(warnings.saturating_sub(WARNINGS_MAX), "warning", "in the whole list"));
    let others = || all(CheckResult::Note).chain(all(CheckResult::Unknown));
    if others().next().is_some() {
        out.push('\n');
    }
    let others = others().map(|check| {
        let named = format!("{}: {}", check.name, check.value);
        paragraph(&format!("{:<9}", word(check.verdict)), "         ", &named)
    });
    let room = SCREEN_LINES.saturating_sub(out.lines().count() + 2);
    let others = others.collect::<Vec<_>>();
    out.push_str(&fitting_paragraphs(&others, NAMED_MAX, room, "check", "in the whole list"));
    out.push_str("\n--full lists all checks, each with its reason and advice\n");
    out
}

fn explain(out: &mut String, check: &Check) {
    out.push('\n');
    let named = format!("{}: {}", check.name, check.value);
    out.push_str(&paragraph(&format!("{}  ", word(check.verdict)), "    ", &named));
    out.push_str(&paragraph("    ", "    ", &check.why));
    if !check.advice.is_empty() {
        out.push_str(&line(&format!("    $ {}", check.advice)));
    }
}

fn word(verdict: CheckResult) -> &'static str {
    match verdict {
        CheckResult::Good => "good",
        CheckResult::Note => "info",
        CheckResult::Warn => "WARNING",
        CheckResult::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_host::host::{HostDevice, HostFacts, IdleState, RaidResync};
    use petal_judge::host::check;

    fn good() -> HostFacts {
        HostFacts {
            cpus: 16,
            memory_bytes: Some(8 << 30),
            cgroup: Some("/user.slice".into()),
            governor: Some("performance".into()),
            deepest_idle: Some(IdleState { name: "C1".into(), latency_us: 2 }),
            swap_total_bytes: Some(0),
            swap_used_bytes: Some(0),
            huge_pages: Some("madvise".into()),
            load_average: Some(0.1),
            clock_source: Some("tsc".into()),
            virtual_machine: Some(false),
            raid_resyncs: Some(Vec::new()),
            dirty_ratio: Some(20),
            dirty_background_ratio: Some(10),
            devices: vec![HostDevice {
                name: "nvme0n1".into(),
                disk: Some("nvme0n1".into()),
                scheduler: Some("none".into()),
                rotational: Some(false),
                write_cache: Some("write through".into()),
                read_ahead_bytes: Some(128 << 10),
                ..HostDevice::default()
            }],
            ..HostFacts::default()
        }
    }

    fn spoilt() -> HostFacts {
        let resync = RaidResync { device: "md0".into(), work: "recovery 12.6%".into() };
        HostFacts {
            cpus: 4,
            cpu_quota: Some(1.5),
            cpu_quota_file: Some("/sys/fs/cgroup/db/cpu.max".into()),
            memory_limit_bytes: Some(2 << 30),
            memory_limit_file: Some("/sys/fs/cgroup/db/memory.max".into()),
            governor: Some("powersave".into()),
            deepest_idle: Some(IdleState { name: "C6".into(), latency_us: 133 }),
            swap_total_bytes: Some(4 << 30),
            swap_used_bytes: Some(1 << 30),
            huge_pages: Some("always".into()),
            load_average: Some(3.25),
            clock_source: Some("hpet".into()),
            virtual_machine: Some(true),
            product: Some("QEMU Standard PC".into()),
            raid_resyncs: Some(vec![resync]),
            dirty_ratio: None,
            devices: vec![HostDevice {
                name: "sda1".into(),
                disk: Some("sda".into()),
                scheduler: Some("bfq".into()),
                rotational: Some(false),
                write_cache: Some("write back".into()),
                read_ahead_bytes: Some(8 << 20),
                ..HostDevice::default()
            }],
            ..good()
        }
    }

    #[test]
    fn a_good_host_is_a_table() {
        insta::assert_snapshot!(render(&check(&good())), @r"
        verdict  what                        value
        -------  --------------------------  ----------------------------
        good     processor governor          performance
        good     deepest C-state             C1, 2 us to wake
        good     clock source                tsc
        good     cgroup processor limit      no limit
        good     virtual machine             no
        good     other load                  load 0.10 on 16 processors
        good     swap                        none
        good     transparent huge pages      madvise
        good     cgroup memory limit         no limit
        good     dirty pages before writing  10 % (819 MiB), at most 20 %
        good     RAID resync                 none
        good     nvme0n1: scheduler          none
        good     nvme0n1: read-ahead         128 KiB
        good     nvme0n1: write cache        write through
        ");
    }

    #[test]
    fn a_spoilt_host_is_reported_why_and_what_to_type() {
        insta::assert_snapshot!(render(&check(&spoilt())), @"
        verdict  what                        value
        -------  --------------------------  -------------------------
        WARNING  processor governor          powersave
        WARNING  deepest C-state             C6, 133 us to wake
        WARNING  clock source                hpet
        WARNING  cgroup processor limit      1.50 of 4 processors
        info     virtual machine             yes (QEMU Standard PC)
        WARNING  other load                  load 3.25 on 4 processors
        WARNING  swap                        1.00 GiB of 4.00 GiB used
        info     transparent huge pages      always
        info     cgroup memory limit         2.00 GiB
        unknown  dirty pages before writing  not known
        WARNING  RAID resync                 md0 recovery 12.6%
        WARNING  sda1: scheduler             bfq
        info     sda1: read-ahead            8.00 MiB
        info     sda1: write cache           write back

        WARNING  processor governor: powersave
            A processor that slows its clock while it waits for a device answers each request later, most
            visibly with few sessions.
            $ sudo cpupower frequency-set -g performance

        WARNING  deepest C-state: C6, 133 us to wake
            A session that waits for a device lets its processor sleep, and the time to wake it is added to
            the latency of the request.
            $ sudo cpupower idle-set -D 11   # undo: -E

        WARNING  clock source: hpet
            Databases and petal read the clock around every request: nanoseconds with tsc, somewhat more
            with a hypervisor's clock, and microseconds with any other.
            $ echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource

        WARNING  cgroup processor limit: 1.50 of 4 processors
            A control group that has used up its share stops until the next period, which shows as stalls
            that no device caused.
            $ echo max | sudo tee /sys/fs/cgroup/db/cpu.max

        WARNING  other load: load 3.25 on 4 processors
            Others' work takes processors and devices from the test; the average is over the last minute, so
            that work which has just ended still shows.
            $ top -b -n 1 -o %CPU | head -n 20

        WARNING  swap: 1.00 GiB of 4.00 GiB used
            A database whose cache is swapped out does I/O that it does not know of, and a hit in its cache
            then costs a read.
            $ sudo swapoff -a && sudo swapon -a   # needs that much memory free

        WARNING  RAID resync: md0 recovery 12.6%
            An array that is being rebuilt or checked reads and writes all of its disks during the test.
            $ sudo mdadm --wait /dev/md0   # ends when the array is done

        WARNING  sda1: scheduler: bfq
            A scheduler that sorts and shares out requests costs processor time and a lock for each of them,
            and holds some back: a flash device needs none.
            $ echo none | sudo tee /sys/block/sda/queue/scheduler

        info  virtual machine: yes (QEMU Standard PC)
            Processors and devices are shared with machines that cannot be seen from here: time may be
            stolen, and the host may cache, limit or burst the I/O.
            $ vmstat 1   # column st while a test runs; then repeat it at another hour

        info  transparent huge pages: always
            With `always` the kernel moves memory about to make huge pages, which now and then stops a
            database for milliseconds.
            $ echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled

        info  cgroup memory limit: 2.00 GiB
            Caches of this control group, the page cache for its files among them, end at the limit: less is
            cached than the host's memory lets one expect.
            $ echo max | sudo tee /sys/fs/cgroup/db/memory.max

        info  sda1: read-ahead: 8.00 MiB
            Reads through the page cache that look sequential, as scans and loads do, fetch up to so much
            more than was asked for; direct I/O does not.
            $ sudo blockdev --setra 256 /dev/sda

        info  sda1: write cache: write back
            Writes end in the device's own volatile memory and a commit pays with a flush: compare writes
            only between devices in the same state.
            $ sudo hdparm -W /dev/sda   # -W0 turns it off
        ");
    }

    #[test]
    fn checks_fit_on_a_screen() {
        let bad = [check(&spoilt()), check(&spoilt())].concat();
        let shown = crate::table::within(80, || brief(&bad));
        assert!(shown.lines().count() <= 40, "{shown}");
        assert!(shown.contains(" found a problem") && shown.contains("more warnings"), "{shown}");
        assert!(brief(&check(&good())).starts_with("no check found a problem"));
    }
}
