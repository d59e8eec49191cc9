//! The network: /proc/net/dev (proc_pid_net(5)) summed over the interfaces with hardware behind
//! them, and TCP's segments from /proc/net/snmp.
//!
//! Bridges, bonds and tunnels carry the same packets once more, so they are left out; in a
//! container no interface shows hardware, so all but the loopback count.

use std::collections::BTreeSet;

use super::figures::Counts;
use crate::devices::Roots;

/// The interfaces to add up, by name.
#[derive(Debug, Default)]
pub(super) struct Interfaces(BTreeSet<String>);

impl Interfaces {
    pub fn find(roots: &Roots) -> Self {
        let folder = roots.sys.join("class/net");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let has_hardware = |folder: &std::path::Path| folder.join("device").exists();
        let real = entries.filter(|entry| {
            let folder = entry.path();
            // A virtual function below a hypervisor's interface is counted there as well.
            has_hardware(&folder) && !has_hardware(&folder.join("master"))
        });
        Self(real.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn counts(&self, name: &str) -> bool {
        if self.0.is_empty() { name != "lo" } else { self.0.contains(name) }
    }

    pub fn sum(&self, dev: &str, into: &mut Counts) {
        let rows = dev.lines().filter_map(interface).filter(|(name, _)| self.counts(name));
        let sum = rows
            .map(|(_, fields)| fields)
            .reduce(|sum, more| std::array::from_fn(|at| sum[at].saturating_add(more[at])));
        let of = |at: usize| sum.map(|fields| fields[at]);
        (into.received_bytes, into.received_packets) = (of(0), of(1));
        (into.sent_bytes, into.sent_packets) = (of(8), of(9));
        // Errors and drops: packets that did not get through.
        into.receive_errors = of(2).zip(of(3)).map(|(a, b)| a.saturating_add(b));
        into.send_errors = of(10).zip(of(11)).map(|(a, b)| a.saturating_add(b));
    }
}

/// `name: ` and sixteen numbers: eight received, eight sent.
fn interface(line: &str) -> Option<(&str, [u64; 16])> {
    let (name, numbers) = line.split_once(':')?;
    let mut fields = [0; 16];
    let mut words = numbers.split_ascii_whitespace();
    for field in &mut fields {
        *field = words.next()?.parse().ok()?;
    }
    Some((name.trim(), fields))
}

/// Two lines `Tcp:`, names and numbers.
pub(super) fn segments(snmp: &str, into: &mut Counts) {
    let mut rows = snmp.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (Some(names), Some(numbers)) = (rows.next(), rows.next()) else { return };
    let of = |wanted: &str| -> Option<u64> {
        let at = names.split_ascii_whitespace().position(|name| name == wanted)?;
        numbers.split_ascii_whitespace().nth(at)?.parse().ok()
    };
    (into.sent_segments, into.resent_segments) = (of("OutSegs"), of("RetransSegs"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::recorded::Recorded;
    use proptest::prelude::*;

    const DEV: &str = "Inter-|   Receive    |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs drop
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0
  eth0: 1000      10    1    2    0     0          0         0   500     5    3    4    0     0       0          0
  eth1: 100      1    0    0    0     0          0         0   50     2    0    0    0     0       0          0
 bond0: 1100      11    1    2    0     0          0         0   550     7    3    4    0     0       0          0
";

    #[test]
    fn interfaces_with_hardware_are_added_up() {
        let tree = Recorded::of("/sys/class/net/eth0/device = x\n/sys/class/net/eth1/device = x\n");
        let mut counts = Counts::default();
        Interfaces::find(&tree.roots()).sum(DEV, &mut counts);
        assert_eq!((counts.received_bytes, counts.received_packets), (Some(1100), Some(11)));
        assert_eq!((counts.sent_bytes, counts.sent_packets), (Some(550), Some(7)));
        assert_eq!((counts.receive_errors, counts.send_errors), (Some(3), Some(7)));
    }

    #[test]
    fn what_carries_anothers_packets_counts_once() {
        // eth1 is the virtual function below eth0; eth2 belongs to a bond, which has no hardware.
        let tree = Recorded::of(
            "/sys/class/net/eth0/device = x\n/sys/class/net/eth1/device = x\n\
             /sys/class/net/eth1/master/device = x\n/sys/class/net/bond0/x = x\n\
             /sys/class/net/eth2/device = x\n/sys/class/net/eth2/master/x = x\n",
        );
        let found = Interfaces::find(&tree.roots());
        assert_eq!(found.0.iter().map(String::as_str).collect::<Vec<_>>(), ["eth0", "eth2"]);
    }

    #[test]
    fn without_hardware_all_but_the_loopback_count() {
        let mut counts = Counts::default();
        Interfaces::default().sum(DEV, &mut counts);
        assert_eq!(counts.received_bytes, Some(2200));
        let mut none = Counts::default();
        Interfaces::default().sum("", &mut none);
        assert_eq!(none, Counts::default());
    }

    #[test]
    fn segments_are_found_by_their_names() {
        let mut counts = Counts::default();
        segments("Ip: A B\nIp: 1 2\nTcp: X OutSegs RetransSegs\nTcp: -1 77 5\n", &mut counts);
        assert_eq!((counts.sent_segments, counts.resent_segments), (Some(77), Some(5)));
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_readers(text in "(Tcp:|OutSegs|eth0:| |[0-9]{1,22}|\\n|\\PC){0,40}") {
            Interfaces::default().sum(&text, &mut Counts::default());
            segments(&text, &mut Counts::default());
        }
    }
}
