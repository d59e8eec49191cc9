//! Limits of control groups on the I/O of a device: `io.max` of the second hierarchy,
//! `blkio.throttle.*` of the first (admin-guide/cgroup-v2.rst, cgroup-v1/blkio-controller.rst).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ControlGroup, Groups};
use crate::devices::StorageLayer;
use crate::tree::read;

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

/// A kind of limit: its file in the first hierarchy and its key in the second; the file and the line
/// in which the first one counts towards it, and the key of the second one's `io.stat`.
struct KindFiles {
    kind: IoLimitKind,
    limit: (&'static str, &'static str),
    count: (&'static str, &'static str, &'static str),
}

const KINDS: [KindFiles; 4] = [
    KindFiles {
        kind: IoLimitKind::ReadRequests,
        limit: ("blkio.throttle.read_iops_device", "riops"),
        count: ("blkio.throttle.io_serviced", "Read", "rios"),
    },
    KindFiles {
        kind: IoLimitKind::WriteRequests,
        limit: ("blkio.throttle.write_iops_device", "wiops"),
        count: ("blkio.throttle.io_serviced", "Write", "wios"),
    },
    KindFiles {
        kind: IoLimitKind::ReadBytes,
        limit: ("blkio.throttle.read_bps_device", "rbps"),
        count: ("blkio.throttle.io_service_bytes", "Read", "rbytes"),
    },
    KindFiles {
        kind: IoLimitKind::WriteBytes,
        limit: ("blkio.throttle.write_bps_device", "wbps"),
        count: ("blkio.throttle.io_service_bytes", "Write", "wbytes"),
    },
];

/// Files with these limits, of both hierarchies.
pub(super) const FILES: [&str; 5] = [
    "io.max",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
];

/// The least limit of a kind on a device, and the group that has it.
struct LeastLimit<'a> {
    group: &'a ControlGroup,
    per_second: u64,
    file: &'static str,
    lifted: String,
}

/// The groups with the least limits on I/O, whose own requests count towards them: not those of
/// others on the same device.
#[derive(Debug, Default)]
pub struct GroupIo {
    /// Kind, folder of the group, `major:minor`.
    limited: Vec<(IoLimitKind, PathBuf, String)>,
}

impl Groups {
    /// The limits on devices of a stack, the least of each kind.
    pub fn io_limits(&self, layers: &[StorageLayer], of_server: bool) -> Vec<IoLimit> {
        let limit = |(layer, kind, least): (&StorageLayer, &KindFiles, LeastLimit<'_>)| IoLimit {
            device: layer.name.clone(),
            kind: kind.kind,
            per_second: least.per_second,
            file: format!("{}/{}", least.group.shown, least.file),
            lifted: least.lifted,
            of_server,
        };
        self.least(layers).map(limit).collect()
    }

    /// The counts that belong to these limits.
    pub fn io(&self, layers: &[StorageLayer]) -> GroupIo {
        let limited = self.least(layers).filter_map(|(layer, kind, least)| {
            Some((kind.kind, least.group.folder.clone(), shown(layer.number?)))
        });
        GroupIo { limited: limited.collect() }
    }

    fn least<'a>(
        &'a self,
        layers: &'a [StorageLayer],
    ) -> impl Iterator<Item = (&'a StorageLayer, &'static KindFiles, LeastLimit<'a>)> {
        let devices = layers.iter().filter_map(|layer| Some((layer, layer.number?)));
        devices.flat_map(move |(layer, number)| {
            KINDS.iter().filter_map(move |kind| {
                let limits = self.io.iter().filter_map(|group| group.io_limit(number, kind.limit));
                Some((layer, kind, limits.min_by_key(|limit| limit.per_second)?))
            })
        })
    }
}

impl GroupIo {
    /// Cumulative count towards a kind of limit; 0 before the group's first request, which the kernel
    /// does not list. None without such a limit, or with several devices that have one.
    pub fn read(&self, kind: IoLimitKind) -> Option<u64> {
        let mut limited = self.limited.iter().filter(|limited| limited.0 == kind);
        let (Some((_, folder, device)), None) = (limited.next(), limited.next()) else {
            return None;
        };
        let (file, line, key) = KINDS.iter().find(|files| files.kind == kind)?.count;
        if let Some(all) = read(&folder.join("io.stat")) {
            let text = all.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' '));
            return text.map_or(Some(0), |text| pair(text, key)?.parse().ok());
        }
        let (text, begin) = (read(&folder.join(file))?, format!("{device} {line} "));
        let count = text.lines().find_map(|line| line.strip_prefix(&begin));
        count.map_or(Some(0), |count| count.trim().parse().ok())
    }
}

fn shown((major, minor): (u32, u32)) -> String {
    format!("{major}:{minor}")
}

/// The value of a key, of `key=value` pairs with spaces between them.
fn pair<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
    Some(pairs.find(|(name, _)| *name == key)?.1)
}

impl ControlGroup {
    fn io_limit(
        &self,
        number: (u32, u32),
        (file, key): (&'static str, &str),
    ) -> Option<LeastLimit<'_>> {
        let device = shown(number);
        let line = |file: &str| {
            let text = read(&self.folder.join(file))?;
            text.lines().find_map(|line| {
                let (named, rest) = line.split_once(' ')?;
                (named == device).then(|| rest.trim().to_owned())
            })
        };
        if let Some(limits) = line("io.max") {
            let per_second = pair(&limits, key)?.parse().ok()?;
            let lifted = format!("{device} {key}=max");
            return Some(LeastLimit { group: self, per_second, file: "io.max", lifted });
        }
        let (per_second, lifted) = (line(file)?.parse().ok()?, format!("{device} 0"));
        Some(LeastLimit { group: self, per_second, file, lifted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::recorded::Recorded;

    fn layers() -> [StorageLayer; 1] {
        [StorageLayer { name: "vda".into(), number: Some((254, 0)), ..StorageLayer::default() }]
    }

    /// The counts towards limits of read requests and written bytes.
    fn counts(tree: &str) -> (Option<u64>, Option<u64>) {
        let tree = Recorded::of(tree);
        let io = Groups::of(&tree.roots(), "71").io(&layers());
        (io.read(IoLimitKind::ReadRequests), io.read(IoLimitKind::WriteBytes))
    }

    fn limits(tree: &str) -> Vec<(IoLimitKind, u64, String, String)> {
        let layers = layers();
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

    #[test]
    fn requests_of_the_group_that_has_the_limit_count() {
        let second = "/proc/71/cgroup = 0::/db/pg
/sys/fs/cgroup/cgroup.procs = 1
/sys/fs/cgroup/db/cgroup.procs = 1
/sys/fs/cgroup/db/io.max = 254:0 rbps=max wbps=1048576 riops=800 wiops=max
/sys/fs/cgroup/db/io.stat
  8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0
  254:0 rbytes=5 wbytes=6 rios=7 wios=8 dbytes=0 dios=0
/sys/fs/cgroup/db/pg/cgroup.procs = 71
/sys/fs/cgroup/db/pg/io.max = 254:0 rbps=max wbps=max riops=900 wiops=max
/sys/fs/cgroup/db/pg/io.stat = 254:0 rbytes=1 wbytes=1 rios=1 wios=1 dbytes=0 dios=0
";
        assert_eq!(counts(second), (Some(7), Some(6)));
        let first = "/proc/71/cgroup = 5:blkio:/hb
/sys/fs/cgroup/blkio/tasks = 1
/sys/fs/cgroup/blkio/hb/tasks = 71
/sys/fs/cgroup/blkio/hb/blkio.throttle.read_iops_device = 254:0 800
/sys/fs/cgroup/blkio/hb/blkio.throttle.io_serviced
  8:0 Read 1
  254:0 Read 16
  254:0 Write 3
  Total 20
/sys/fs/cgroup/blkio/hb/blkio.throttle.io_service_bytes = 254:0 Write 9
";
        assert_eq!(counts(first), (Some(16), None), "no limit of written bytes");
        // No request yet.
        assert_eq!(counts(&second.replace("  254:0 r", "  7:0 r")), (Some(0), Some(0)));
        assert_eq!(counts(&first.replace("  254:0 ", "  7:0 ")), (Some(0), None));
    }
}
