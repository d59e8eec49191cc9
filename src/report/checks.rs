//! `petal check`'s report: a table of every check, then the reason and the command for those that
//! are not good.

use super::table::{Align, Table, paragraph};
use crate::analysis::host::{Check, Verdict};

/// The advice is never wrapped, so that it can be pasted into a shell.
pub fn render(checks: &[Check]) -> String {
    let mut table =
        Table::new(&[("verdict", Align::Left), ("what", Align::Left), ("value", Align::Left)]);
    for check in checks {
        table.row([word(check.verdict), check.name.as_str(), check.value.as_str()]);
    }
    let mut out = table.render();
    for verdict in [Verdict::Warn, Verdict::Note] {
        for check in checks.iter().filter(|check| check.verdict == verdict) {
            let first = format!("{}: {}: ", word(verdict), check.name);
            out.push('\n');
            out.push_str(&paragraph(&first, "    ", &check.why));
            if !check.advice.is_empty() {
                out.push_str(&format!("    $ {}\n", check.advice));
            }
        }
    }
    out
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "good",
        Verdict::Note => "note",
        Verdict::Warn => "WARNING",
        Verdict::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::host::check;
    use crate::stats::host::{Device, Host, IdleState, RaidResync};

    fn good() -> Host {
        Host {
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
            devices: vec![Device {
                name: "nvme0n1".into(),
                disk: Some("nvme0n1".into()),
                scheduler: Some("none".into()),
                rotational: Some(false),
                write_cache: Some("write through".into()),
                read_ahead_bytes: Some(128 << 10),
                ..Device::default()
            }],
            ..Host::default()
        }
    }

    fn spoilt() -> Host {
        let resync = RaidResync { device: "md0".into(), work: "recovery 12.6%".into() };
        Host {
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
            devices: vec![Device {
                name: "sda1".into(),
                disk: Some("sda".into()),
                scheduler: Some("bfq".into()),
                rotational: Some(false),
                write_cache: Some("write back".into()),
                read_ahead_bytes: Some(8 << 20),
                ..Device::default()
            }],
            ..good()
        }
    }

    #[test]
    fn a_good_host_is_a_table() {
        insta::assert_snapshot!(render(&check(&good())), @"");
    }

    #[test]
    fn a_spoilt_host_is_told_why_and_what_to_type() {
        insta::assert_snapshot!(render(&check(&spoilt())), @"");
    }
}
