//! Processors: /proc/stat (proc_stat(5)), and which of them petal may use.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::stats::devices::Roots;

/// Per cent of the processors' time over an interval; the five add up to 100.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    pub user: f64,
    pub system: f64,
    pub iowait: f64,
    pub idle: f64,
    pub steal: f64,
}

impl CpuShare {
    /// Neither idle nor in iowait.
    pub fn busy(&self) -> f64 {
        100.0 - self.idle - self.iowait
    }
}

/// Ticks since the host started; guest time is part of user time there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CpuTicks {
    user: u64,
    system: u64,
    iowait: u64,
    idle: u64,
    steal: u64,
}

/// /proc/stat, as far as it is about processors.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    /// Of the whole host.
    pub host: Option<CpuTicks>,
    /// Of those in `each`.
    pub sum: Option<CpuTicks>,
    pub each: Vec<(u32, CpuTicks)>,
}

impl Cpus {
    pub fn of(stat: &str) -> Self {
        let mut cpus = Self::default();
        for (name, ticks) in stat.lines().filter_map(ticks) {
            match name.parse() {
                Ok(number) => cpus.each.push((number, ticks)),
                Err(_) if name.is_empty() => cpus.host = Some(ticks),
                Err(_) => {}
            }
        }
        cpus.sum = cpus.host;
        cpus
    }

    /// Only the processors in `allowed`. If these are all, the host's own sum stands.
    pub fn only(mut self, allowed: Option<&[u32]>) -> Self {
        let Some(allowed) = allowed else { return self };
        let all = self.each.len();
        self.each.retain(|(number, _)| allowed.contains(number));
        if self.each.len() < all {
            self.sum = self.each.iter().map(|(_, ticks)| *ticks).reduce(|sum, cpu| sum.plus(&cpu));
        }
        self
    }
}

impl CpuTicks {
    fn plus(&self, other: &Self) -> Self {
        Self {
            user: self.user + other.user,
            system: self.system + other.system,
            iowait: self.iowait + other.iowait,
            idle: self.idle + other.idle,
            steal: self.steal + other.steal,
        }
    }

    /// None when no tick has passed. The kernel's idle and iowait times can step back a little;
    /// that counts as none.
    pub fn share_since(&self, earlier: &Self) -> Option<CpuShare> {
        let ticks = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let user = ticks(self.user, earlier.user);
        let system = ticks(self.system, earlier.system);
        let iowait = ticks(self.iowait, earlier.iowait);
        let idle = ticks(self.idle, earlier.idle);
        let steal = ticks(self.steal, earlier.steal);
        let all = user + system + iowait + idle + steal;
        let share = |part: f64| 100.0 * part / all;
        (all > 0.0).then(|| CpuShare {
            user: share(user),
            system: share(system),
            iowait: share(iowait),
            idle: share(idle),
            steal: share(steal),
        })
    }
}

/// A line `cpuN user nice system idle iowait irq softirq steal ...`: what follows `cpu`, and ticks.
fn ticks(line: &str) -> Option<(&str, CpuTicks)> {
    let mut fields = line.split_ascii_whitespace();
    let name = fields.next()?.strip_prefix("cpu")?;
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
    let ticks = (ticks.len() >= 4).then(|| CpuTicks {
        user: at(0).saturating_add(at(1)),
        system: at(2).saturating_add(at(5)).saturating_add(at(6)),
        idle: at(3),
        iowait: at(4),
        steal: at(7),
    })?;
    Some((name, ticks))
}

/// The processors on which petal may run, by affinity and cpuset: a line of /proc/self/status,
/// which knows them all, however many there are.
pub fn allowed(roots: &Roots) -> Option<Vec<u32>> {
    let status = fs::read_to_string(roots.proc.join("self/status")).ok()?;
    list(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

/// The kernel's lists: `0-3,8`.
fn list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // More processors than any host has is no list.
        (last < 1 << 16).then_some(())?;
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "cpu  100 10 50 800 30 5 5 7 3 0\ncpu0 60 10 30 400 10 3 2 4 0 0\ncpu2 40 0 20 400 20 2 3 3 3 0\nintr 1\ncpufreq 1 2 3 4\n";

    #[test]
    fn ticks_are_read_by_their_places() {
        let cpus = Cpus::of(STAT);
        let wanted = CpuTicks { user: 110, system: 60, iowait: 30, idle: 800, steal: 7 };
        assert_eq!((cpus.host, cpus.sum), (Some(wanted), Some(wanted)));
        assert_eq!(cpus.each.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(ticks("intr 1 2 3 4"), None);
    }

    #[test]
    fn only_allowed_processors_are_summed() {
        let cpus = Cpus::of(STAT).only(Some(&[2, 3]));
        assert_eq!(
            cpus.sum,
            Some(CpuTicks { user: 40, system: 25, iowait: 20, idle: 400, steal: 3 })
        );
        assert_eq!(cpus.host.unwrap().user, 110);
        let all = Cpus::of(STAT).only(Some(&[0, 1, 2, 3]));
        assert_eq!((all.sum, all.each.len()), (all.host, 2));
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(list("\t0-2,5,7-7\n"), Some(vec![0, 1, 2, 5, 7]));
        assert_eq!(list("0-"), None);
        assert_eq!(list(""), None);
        assert_eq!(list("0-4294967295"), None);
        let own = allowed(&Roots::default()).unwrap();
        assert_eq!(own.len() as u32, rustix::thread::sched_getaffinity(None).unwrap().count());
    }

    proptest! {
        #[test]
        fn shares_add_up_to_a_hundred(a in prop::array::uniform8(0u64..1 << 40), b in prop::array::uniform8(0u64..1 << 20)) {
            let line = |t: [u64; 8]| format!("cpu {} {} {} {} {} {} {} {}", t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]);
            let later: [u64; 8] = std::array::from_fn(|i| a[i] + b[i]);
            let (then, now) = (line(a), line(later));
            let (then, now) = (ticks(&then).unwrap().1, ticks(&now).unwrap().1);
            match now.share_since(&then) {
                Some(s) => {
                    prop_assert!((s.user + s.system + s.iowait + s.idle + s.steal - 100.0).abs() < 1e-6);
                    prop_assert!((s.busy() - s.user - s.system - s.steal).abs() < 1e-6);
                }
                None => prop_assert_eq!(b.iter().sum::<u64>(), 0),
            }
        }
    }
}
