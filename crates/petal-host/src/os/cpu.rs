//! Processors: /proc/stat (proc_stat(5)), and which of them petal may use.

use serde::{Deserialize, Serialize};

use crate::devices::Roots;
use crate::files;

/// Percent of the processors' time over an interval; the five add up to 100.
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

/// Ticks of the kernel's clock (mostly 100 a second and processor) by state, since the host started
/// or over an interval. Guest time is part of user and nice time. As text: eight numbers in
/// /proc/stat's order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 8]", into = "[u64; 8]")]
pub struct CpuTicks {
    pub user: u64,
    pub nice: u64,
    pub system: u64,
    pub idle: u64,
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    pub steal: u64,
}

impl From<[u64; 8]> for CpuTicks {
    fn from([user, nice, system, idle, iowait, irq, softirq, steal]: [u64; 8]) -> Self {
        Self { user, nice, system, idle, iowait, irq, softirq, steal }
    }
}

impl From<CpuTicks> for [u64; 8] {
    fn from(t: CpuTicks) -> Self {
        [t.user, t.nice, t.system, t.idle, t.iowait, t.irq, t.softirq, t.steal]
    }
}

/// A processor's number and its ticks.
pub type OneCpu = (u32, CpuTicks);

/// /proc/stat, as far as it is about processors; cumulative, or over an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpus {
    /// Ticks of the whole host.
    pub host: Option<CpuTicks>,
    /// Ticks of the processors that the database may use.
    pub allowed: Option<CpuTicks>,
    /// Every processor of the host.
    pub each: Vec<OneCpu>,
    /// Number of processors that a sample's `allowed` sums up; `None` if it is the host's own sum.
    #[serde(skip)]
    pub summed: Option<usize>,
}

impl Cpus {
    pub fn new(host: Option<CpuTicks>, allowed: Option<CpuTicks>, each: Vec<OneCpu>) -> Self {
        Self { host, allowed, each, summed: None }
    }

    pub(super) fn of(stat: &str) -> Self {
        let mut cpus = Self::default();
        for (name, ticks) in stat.lines().filter_map(ticks) {
            match name.parse() {
                Ok(number) => cpus.each.push((number, ticks)),
                Err(_) if name.is_empty() => cpus.host = Some(ticks),
                Err(_) => {}
            }
        }
        cpus.allowed = cpus.host;
        cpus
    }

    /// Sums up the allowed processors. If these are all, the host's own sum is used.
    pub(super) fn allow(mut self, allowed: Option<&[u32]>) -> Self {
        let is_allowed = |(number, _): &&OneCpu| allowed.is_none_or(|all| all.contains(number));
        let some: Vec<&OneCpu> = self.each.iter().filter(is_allowed).collect();
        if some.len() < self.each.len() {
            self.summed = Some(some.len());
            self.allowed = some.iter().map(|(_, ticks)| *ticks).reduce(|sum, cpu| sum.plus(&cpu));
        }
        self
    }

    pub fn since(&self, earlier: &Self) -> Self {
        let cpus = self.with(earlier, CpuTicks::since);
        // A processor that was switched off took its ticks out of the sum: no difference is then
        // known.
        let allowed = cpus.allowed.filter(|_| self.summed == earlier.summed);
        Self { allowed, ..cpus }
    }

    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, |ours, theirs| Some(ours.plus(theirs)))
    }

    /// Both ticks of each processor as one; processors come and go.
    fn with(&self, other: &Self, combine: fn(&CpuTicks, &CpuTicks) -> Option<CpuTicks>) -> Self {
        let both = |ours: Option<CpuTicks>, theirs: Option<CpuTicks>| {
            ours.zip(theirs).and_then(|(ours, theirs)| combine(&ours, &theirs))
        };
        let each = self.each.iter().filter_map(|(number, ours)| {
            let (_, theirs) = other.each.iter().find(|(known, _)| known == number)?;
            Some((*number, combine(ours, theirs)?))
        });
        let allowed = both(self.allowed, other.allowed);
        Self::new(both(self.host, other.host), allowed, each.collect())
    }

    /// The busiest of the allowed processors, and how busy it was in percent.
    pub fn busiest(&self, allowed: Option<&[u32]>) -> Option<(u32, f64)> {
        let usable = |number: &u32| allowed.is_none_or(|all| all.contains(number));
        let busy = self.each.iter().filter(|(number, _)| usable(number));
        busy.filter_map(|(number, ticks)| Some((*number, ticks.share()?.busy())))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

crate::field_by_field! {
    CpuTicks: user, nice, system, idle, iowait, irq, softirq, steal
}

impl CpuTicks {
    /// None if a count fell, as stolen time may after a machine's move to another host. The kernel
    /// lets idle time and waits for I/O fall by some ticks (proc_stat(5)): these then rose by
    /// nothing.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let (idle, iowait) = (self.idle.max(earlier.idle), self.iowait.max(earlier.iowait));
        crate::deltas(|minus| Self { idle, iowait, ..*self }.with(earlier, minus))
    }

    pub fn all(&self) -> u64 {
        <[u64; 8]>::from(*self).into_iter().fold(0, u64::saturating_add)
    }

    /// Each state in percent; None when no tick has passed.
    pub fn percents(&self) -> Option<[f64; 8]> {
        let all = self.all() as f64;
        (all > 0.0).then(|| <[u64; 8]>::from(*self).map(|ticks| 100.0 * ticks as f64 / all))
    }

    /// Returns the five parts that every record has; `None` if no tick has passed.
    pub fn share(&self) -> Option<CpuShare> {
        let [user, nice, system, idle, iowait, irq, softirq, steal] = self.percents()?;
        Some(CpuShare { user: user + nice, system: system + irq + softirq, iowait, idle, steal })
    }
}

/// Reads a line `cpuN user nice system idle iowait irq softirq steal ...`: the N, and the ticks.
fn ticks(line: &str) -> Option<(&str, CpuTicks)> {
    let mut fields = line.split_ascii_whitespace();
    let name = fields.next()?.strip_prefix("cpu")?;
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    // The oldest kernels report only these; time that is not reported is part of the others.
    (ticks.len() >= 4).then_some(())?;
    let states = std::array::from_fn::<u64, 8, _>(|at| ticks.get(at).copied().unwrap_or(0));
    Some((name, states.into()))
}

/// The processors on which a process (`self`, or its number) may run, by affinity and cpuset: a
/// line of its status, which knows them all, however many there are.
pub fn allowed(roots: &Roots, process: &str) -> Option<Vec<u32>> {
    let status = files::system_text(roots.proc.join(process).join("status")).ok()?;
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
        let wanted = CpuTicks::from([100, 10, 50, 800, 30, 5, 5, 7]);
        assert_eq!((cpus.host, cpus.allowed), (Some(wanted), Some(wanted)));
        assert_eq!((wanted.softirq, wanted.steal, wanted.all()), (5, 7, 1007));
        assert_eq!(cpus.each.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(ticks("intr 1 2 3 4"), None);
    }

    #[test]
    fn only_allowed_processors_are_summed_and_all_are_reported() {
        let cpus = Cpus::of(STAT).allow(Some(&[2, 3]));
        assert_eq!(cpus.allowed, Some(CpuTicks::from([40, 0, 20, 400, 20, 2, 3, 3])));
        assert_eq!((cpus.host.unwrap().user, cpus.each.len()), (100, 2));
        let all = Cpus::of(STAT).allow(Some(&[0, 1, 2, 3]));
        assert_eq!(all.allowed, all.host);
    }

    #[test]
    fn a_processor_that_is_switched_off_leaves_no_sum_and_the_host_one() {
        let stat = "cpu  100 0 0 900\ncpu0 10 0 0 300\ncpu1 40 0 0 300\ncpu2 50 0 0 300\n";
        let before = Cpus::of(stat).allow(Some(&[1, 2]));
        let gone = stat.replace("cpu2 50 0 0 300\n", "").replace("cpu  100", "cpu  150");
        let between = Cpus::of(&gone).allow(Some(&[1, 2])).since(&before);
        assert_eq!((between.allowed, between.host.unwrap().user), (None, 50));
        let next = Cpus::of(&gone.replace("cpu1 40", "cpu1 47")).allow(Some(&[1, 2]));
        let next = next.since(&Cpus::of(&gone).allow(Some(&[1, 2])));
        assert_eq!(next.allowed.unwrap().user, 7);
    }

    #[test]
    fn the_busiest_processor_is_one_of_the_allowed() {
        let cpus = Cpus::of("cpu0 90 0 0 10 0 0 0 0\ncpu1 0 0 50 30 20 0 0 0\n");
        assert_eq!(cpus.busiest(None), Some((0, 90.0)));
        assert_eq!(cpus.busiest(Some(&[1])), Some((1, 50.0)));
        assert_eq!(cpus.busiest(Some(&[7])), None);
        assert_eq!(Cpus::default().busiest(None), None);
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(list("\t0-2,5,7-7\n"), Some(vec![0, 1, 2, 5, 7]));
        assert_eq!(list("0-"), None);
        assert_eq!(list(""), None);
        assert_eq!(list("0-4294967295"), None);
        let own = allowed(&Roots::default(), "self").unwrap();
        assert_eq!(own.len() as u32, rustix::thread::sched_getaffinity(None).unwrap().count());
    }

    #[test]
    fn ticks_that_fell_are_unknown_but_for_those_that_the_kernel_lets_fall() {
        let then = CpuTicks::from([50; 8]);
        let since = |now: CpuTicks| now.since(&then);
        let resting = CpuTicks { idle: 48, iowait: 40, user: 60, ..then };
        let counted = CpuTicks { user: 10, ..CpuTicks::from([0; 8]) };
        assert_eq!(since(resting), Some(counted));
        for fallen in [CpuTicks { steal: 2, ..then }, CpuTicks { user: 0, ..then }] {
            assert_eq!(since(fallen), None);
        }
    }

    proptest! {
        #[test]
        fn shares_add_up_to_a_hundred(a in prop::array::uniform8(0u64..1 << 40), b in prop::array::uniform8(0u64..1 << 20)) {
            let line = |t: [u64; 8]| format!("cpu {} {} {} {} {} {} {} {}", t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]);
            let later: [u64; 8] = std::array::from_fn(|i| a[i] + b[i]);
            let (then, now) = (line(a), line(later));
            let (then, now) = (ticks(&then).unwrap().1, ticks(&now).unwrap().1);
            match now.since(&then).unwrap().share() {
                Some(s) => {
                    prop_assert!((s.user + s.system + s.iowait + s.idle + s.steal - 100.0).abs() < 1e-6);
                    prop_assert!((s.busy() - s.user - s.system - s.steal).abs() < 1e-6);
                }
                None => prop_assert_eq!(b.iter().sum::<u64>(), 0),
            }
        }
    }
}
