//! Limits of control groups on a device's I/O, and whether a run reached one.

use petal_host::numbers::decimal;
use serde_json::{Value, json};

use super::host::limit_words;
use super::judgement::{FindingParts, Judgement, NoFinding::Clear, warning};
use petal_host::cgroup::{IoLimit, IoLimitKind};
use petal_record::Run;

/// Share of a limit from which on it held a run back.
const REACHED_SHARE_MIN: f64 = 0.90;

/// A limit, and how much of it a run used.
pub struct ReachedLimit<'a> {
    limit: &'a IoLimit,
    pub per_second: f64,
    /// The layer that counted it: of the device other programs' requests are in it, too.
    pub layer: &'static str,
}

impl ReachedLimit<'_> {
    pub fn limit_per_second(&self) -> f64 {
        self.limit.per_second.max(1) as f64
    }

    /// True for a limit of reads, in requests or bytes.
    pub fn is_of_reads(&self) -> bool {
        matches!(self.limit.kind, IoLimitKind::ReadRequests | IoLimitKind::ReadBytes)
    }

    fn share(&self) -> f64 {
        self.per_second / self.limit_per_second()
    }

    /// The limit with its figure and its file.
    pub fn words(&self) -> String {
        let IoLimit { device, file, .. } = self.limit;
        format!("the control group's limit of {} on {device} ({file})", limit_words(self.limit))
    }

    pub fn evidence(&self) -> Value {
        json!({
            "limit_per_second": self.limit.per_second, "per_second": self.per_second,
            "limit_file": self.limit.file, "device": self.limit.device, "layer": self.layer,
        })
    }

    pub fn advice(&self) -> String {
        format!("Lift the limit: echo \"{}\" > {}.", self.limit.lifted, self.limit.file)
    }
}

/// The limits on the processes that serve the run which it reached, the closest first.
pub(super) fn reached(run: &Run) -> Vec<ReachedLimit<'_>> {
    let mut reached = rates(run);
    reached.retain(|limit| limit.share() >= REACHED_SHARE_MIN);
    reached.sort_by(|a, b| b.share().total_cmp(&a.share()));
    reached
}

/// The limit on the processes that serve the run which it came closest to.
pub fn nearest(run: &Run) -> Option<ReachedLimit<'_>> {
    rates(run).into_iter().max_by(|a, b| a.share().total_cmp(&b.share()))
}

/// The limits on the processes that serve the run, with their use.
fn rates(run: &Run) -> Vec<ReachedLimit<'_>> {
    let seconds = run.summary.elapsed_s;
    let own = run.details.target.local.then_some(run.details.host.as_ref()).flatten();
    let serves = |limit: &&IoLimit| limit.of_server != run.details.target.in_process;
    let limits = own.iter().flat_map(|own| &own.io_limits).filter(serves);
    let rates = limits.clone().filter_map(|limit| {
        // With several limits of a kind it is not known to which a group's count belongs.
        let is_alone = limits.clone().filter(|other| other.kind == limit.kind).count() == 1;
        let of_group = of_group(run, limit.kind).filter(|_| is_alone);
        let of_group = of_group.map(|count| (count, "the control group"));
        let (count, layer) = of_group.or_else(|| Some((of_device(run, limit)?, "the device")))?;
        (seconds > 0.0).then(|| ReachedLimit { limit, per_second: count as f64 / seconds, layer })
    });
    rates.collect()
}

/// The limited group's own count. None if it is not counted.
fn of_group(run: &Run, kind: IoLimitKind) -> Option<u64> {
    let counts = &run.database_host_sums()?.counts;
    match kind {
        IoLimitKind::ReadRequests => counts.group_read_requests,
        IoLimitKind::WriteRequests => counts.group_write_requests,
        IoLimitKind::ReadBytes => counts.group_read_bytes,
        IoLimitKind::WriteBytes => counts.group_write_bytes,
    }
}

/// The count of the limited device, other programs' included; for an unwatched device, of the data's
/// own.
fn of_device(run: &Run, limit: &IoLimit) -> Option<u64> {
    let sums = run.database_host_sums().and_then(|sums| sums.devices.as_ref());
    let named = sums.and_then(|all| all.iter().find(|device| device.name == limit.device));
    let counts = named.map(|device| device.counts).or(run.details.device)?;
    Some(match limit.kind {
        IoLimitKind::ReadRequests => counts.read_requests,
        IoLimitKind::WriteRequests => counts.write_requests,
        IoLimitKind::ReadBytes => counts.read_bytes,
        IoLimitKind::WriteBytes => counts.write_bytes,
    })
}

pub(super) fn judge(run: &Run) -> Judgement {
    let reached = reached(run).into_iter().next().ok_or(Clear)?;
    let message = format!(
        "held to {}: it did {} a second, and the device's own limit is not seen",
        reached.words(),
        decimal(reached.per_second, 0)
    );
    warning(message, &reached.advice()).with(reached.evidence())
}

#[cfg(test)]
mod tests {
    use super::super::findings::judge as findings;
    use super::*;
    use petal_record::fixture;

    /// A run that read this share of its control group's limit.
    fn limited(share: f64, of_server: bool) -> Run {
        let mut run = fixture::mixed_run();
        let device = run.details.device.unwrap();
        let per_second = device.read_requests as f64 / run.summary.elapsed_s / share;
        run.details.host.get_or_insert_default().io_limits = vec![IoLimit {
            device: "vda".into(),
            kind: IoLimitKind::ReadRequests,
            per_second: per_second as u64,
            file: "/sys/fs/cgroup/db/io.max".into(),
            lifted: "254:0 riops=max".into(),
            of_server,
        }];
        run
    }

    #[test]
    fn a_limit_that_was_reached_is_the_limit() {
        let run = limited(0.99, false);
        let found = findings(&run).into_iter().find(|finding| finding.id == "io-limit").unwrap();
        assert!(found.message.contains("reads a second on vda (/sys/fs/cgroup/db/io.max)"));
        let limited_by = crate::headline(&run).limited_by.words;
        assert!(limited_by.starts_with("the control group's limit of "), "{limited_by}");
        assert!(reached(&limited(0.8, false)).is_empty());
        // The database is in petal: another server's group does not hold it.
        assert!(reached(&limited(0.99, true)).is_empty());
        let mut server = limited(0.99, true);
        server.details.target.in_process = false;
        assert_eq!(reached(&server).len(), 1);
    }

    #[test]
    fn others_on_the_device_do_not_count_towards_the_limit_of_a_group() {
        let mut run = limited(0.99, false);
        let all = run.details.device.unwrap().read_requests;
        let sums = &mut run.details.os.get_or_insert_default().whole.sum;
        sums.counts.group_read_requests = Some(all / 2);
        assert!(reached(&run).is_empty());
        let own = nearest(&run).unwrap();
        assert!(own.share() < 0.5);
        assert_eq!(own.layer, "the control group");
        // A second limit of this kind: whose count it is is not known.
        let limits = &mut run.details.host.as_mut().unwrap().io_limits;
        limits.push(IoLimit { device: "vdb".into(), ..limits[0].clone() });
        assert!(!reached(&run).is_empty());
    }
}
