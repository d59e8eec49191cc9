//! Limits of control groups on the I/O of a device: `io.max` of the second hierarchy,
//! `blkio.throttle.*` of the first (admin-guide/cgroup-v2.rst, cgroup-v1/blkio-controller.rst).

use serde::{Deserialize, Serialize};

use super::{ControlGroup, Groups};
use crate::stats::devices::StorageLayer;
use crate::stats::tree::read;

/// Quantity that a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoLimitKind {
    ReadRequests,
    WriteRequests,
    ReadBytes,
    WriteBytes,
}

/// The least that the groups of a process grant of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoLimit {
    /// Name as /proc/diskstats prints it.
    pub device: String,
    pub kind: IoLimitKind,
    pub per_second: u64,
    /// The file that says so, and the text to write there so that it no longer does.
    pub file: String,
    pub lifted: String,
    /// The group is that of a server on this host, and not petal's own.
    pub of_server: bool,
}

/// Each kind with its file in the first hierarchy and its key in the second.
const KINDS: [(IoLimitKind, &str, &str); 4] = [
    (IoLimitKind::ReadRequests, "blkio.throttle.read_iops_device", "riops"),
    (IoLimitKind::WriteRequests, "blkio.throttle.write_iops_device", "wiops"),
    (IoLimitKind::ReadBytes, "blkio.throttle.read_bps_device", "rbps"),
    (IoLimitKind::WriteBytes, "blkio.throttle.write_bps_device", "wbps"),
];

impl Groups {
    /// The limits on devices of a stack, the least of each kind.
    pub fn io_limits(&self, layers: &[StorageLayer], of_server: bool) -> Vec<IoLimit> {
        let devices = layers.iter().filter_map(|layer| Some((layer, layer.number?)));
        let each = devices.flat_map(|(layer, number)| {
            KINDS.iter().filter_map(move |&(kind, file, key)| {
                let groups = self.io.iter().filter_map(|group| {
                    let (per_second, file, lifted) = group.io_limit(number, file, key)?;
                    Some((per_second, format!("{}/{file}", group.shown), lifted))
                });
                let (per_second, file, lifted) = groups.min()?;
                let device = layer.name.clone();
                Some(IoLimit { device, kind, per_second, file, lifted, of_server })
            })
        });
        each.collect()
    }
}

impl ControlGroup {
    fn io_limit(
        &self,
        (major, minor): (u32, u32),
        file: &'static str,
        key: &str,
    ) -> Option<(u64, &'static str, String)> {
        let device = format!("{major}:{minor}");
        let line = |file: &str| {
            let text = read(&self.folder.join(file))?;
            text.lines().find_map(|line| {
                let (named, rest) = line.split_once(' ')?;
                (named == device).then(|| rest.trim().to_owned())
            })
        };
        if let Some(limits) = line("io.max") {
            let mut pairs = limits.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
            let (_, value) = pairs.find(|(name, _)| *name == key)?;
            return Some((value.parse().ok()?, "io.max", format!("{device} {key}=max")));
        }
        Some((line(file)?.parse().ok()?, file, format!("{device} 0")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::devices::recorded::Recorded;

    fn limits(tree: &str) -> Vec<(IoLimitKind, u64, String, String)> {
        let layers = [StorageLayer {
            name: "vda".into(),
            number: Some((254, 0)),
            ..StorageLayer::default()
        }];
        let found = Groups::of(&Recorded::of(tree).roots(), "71").io_limits(&layers, true);
        let all = found.into_iter();
        all.map(|limit| (limit.kind, limit.per_second, limit.file, limit.lifted)).collect()
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_around_it_counts() {
        let second = "/proc/71/cgroup = 0::/db/pg
/sys/fs/cgroup/cgroup.procs = 1
/sys/fs/cgroup/db/cgroup.procs = 1
/sys/fs/cgroup/db/io.max
  8:0 rbps=max wbps=max riops=5 wiops=max
  254:0 rbps=max wbps=1048576 riops=800 wiops=max
/sys/fs/cgroup/db/pg/cgroup.procs = 71
/sys/fs/cgroup/db/pg/io.max = 254:0 rbps=max wbps=max riops=900 wiops=max
";
        let file = "/sys/fs/cgroup/db/io.max".to_owned();
        let wanted = [
            (IoLimitKind::ReadRequests, 800, file.clone(), "254:0 riops=max".to_owned()),
            (IoLimitKind::WriteBytes, 1 << 20, file, "254:0 wbps=max".to_owned()),
        ];
        assert_eq!(limits(second), wanted);
        assert_eq!(limits(&second.replace("254:0", "254:16")), []);
    }

    #[test]
    fn the_first_hierarchy_has_a_file_for_each_kind() {
        let first = "/proc/71/cgroup
  5:blkio:/hb
  0::/
/sys/fs/cgroup/blkio/tasks = 1
/sys/fs/cgroup/blkio/hb/tasks = 71
/sys/fs/cgroup/blkio/hb/blkio.throttle.read_iops_device
  8:0 5
  254:0 800
/sys/fs/cgroup/blkio/hb/blkio.throttle.write_bps_device = 254:0 18446744073709551616
";
        let file = "/sys/fs/cgroup/blkio/hb/blkio.throttle.read_iops_device".to_owned();
        assert_eq!(limits(first), [(IoLimitKind::ReadRequests, 800, file, "254:0 0".to_owned())]);
    }
}
