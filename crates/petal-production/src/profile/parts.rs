//! A profile of one database from several sources, such as the reports of a day or of all instances
//! of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::{ProfileError, together};
use petal_host::numbers::whole;
use petal_judge::profile::{SLACK_S, summarise};
use petal_record::profile::{Clock, FORMAT, Input, Profile, ProfileInterval};
use petal_record::server_work::WorkCount;

/// Snapshots of a cluster's instances are taken within so long.
const AT_ONCE_S: f64 = 300.0;

/// Contents of one source: of one database, or of one instance of it.
#[derive(Debug, Clone, Default)]
pub struct SourcePart {
    pub input: Input,
    pub clock: Clock,
    pub block_bytes: Option<u32>,
    /// Identifies the database beyond doubt, if the source does.
    pub database_id: Option<String>,
    /// The number of its first snapshot: the sort order if dates are unknown.
    pub snapshot: Option<f64>,
    /// Other instances may belong to the same database.
    pub is_cluster: bool,
    /// Sorted by time; inputs are filled in here.
    pub intervals: Vec<ProfileInterval>,
}

impl SourcePart {
    fn database(&self) -> &str {
        self.database_id.as_deref().or(self.input.database.as_deref()).unwrap_or("")
    }

    fn shown_database(&self) -> &str {
        self.input.database.as_deref().unwrap_or("no name")
    }

    fn instance(&self) -> &str {
        self.input.instance.as_deref().unwrap_or("")
    }
}

/// An interval of one instance.
struct InstanceInterval {
    instance: String,
    snapshot: Option<f64>,
    interval: ProfileInterval,
}

pub fn profile(parts: Vec<SourcePart>) -> Result<Profile, ProfileError> {
    let reported: Vec<&SourcePart> =
        parts.iter().filter(|part| !part.intervals.is_empty()).collect();
    let Some(first) = reported.first() else {
        let why = |part: &SourcePart| {
            let Input { name, notes, gaps, .. } = &part.input;
            let lacks = || gaps.values().cloned().collect();
            let said: Vec<String> = if notes.is_empty() { lacks() } else { notes.clone() };
            let said = said.join(", ");
            // A reason for an unreadable source begins with its name already.
            if said.starts_with(&format!("{name}: ")) { said } else { format!("{name}: {said}") }
        };
        return Err(ProfileError::Nothing(parts.iter().map(why).collect()));
    };
    one_of_each(&reported)?;
    let block_bytes = first.block_bytes.filter(|_| {
        reported
            .iter()
            .all(|part| part.block_bytes.is_none_or(|size| Some(size) == first.block_bytes))
    });
    let mut profile = Profile {
        format: FORMAT.to_owned(),
        petal_version: env!("CARGO_PKG_VERSION").to_owned(),
        database: first.input.database.clone().unwrap_or_default(),
        clock: first.clock,
        block_bytes,
        inputs: parts.iter().map(|part| part.input.clone()).collect(),
        ..Profile::default()
    };
    for part in parts.iter().filter(|part| part.intervals.is_empty()) {
        profile.gaps.push(format!("{} gives no interval", part.input.name));
    }
    let mut pieces = Vec::new();
    for (at, part) in parts.into_iter().enumerate() {
        let instance = part.instance().to_owned();
        for interval in part.intervals {
            let interval = ProfileInterval { inputs: vec![at], ..interval };
            let (instance, snapshot) = (instance.clone(), part.snapshot);
            pieces.push(InstanceInterval { instance, snapshot, interval });
        }
    }
    let pieces = finest(pieces, &mut profile);
    profile.intervals = merge_simultaneous(&pieces, &mut profile.gaps);
    let lacking = missing_figures(&profile);
    profile.gaps.extend(lacking);
    Ok(summarise(profile))
}

/// Accepts one database, and several instances only of a cluster.
fn one_of_each(reported: &[&SourcePart]) -> Result<(), ProfileError> {
    let mut databases: BTreeMap<&str, &SourcePart> = BTreeMap::new();
    let mut instances: BTreeMap<&str, &SourcePart> = BTreeMap::new();
    for part in reported {
        databases.entry(part.database()).or_insert(part);
        instances.entry(part.instance()).or_insert(part);
    }
    let names = |found: &BTreeMap<&str, &SourcePart>, name: fn(&SourcePart) -> &str| {
        let named = found.values().map(|part| format!("{} ({})", name(part), part.input.name));
        named.collect::<Vec<_>>().join(", ")
    };
    if databases.len() > 1 {
        let names = names(&databases, SourcePart::shown_database);
        return Err(ProfileError::Mixed { what: "these are of several databases", names });
    }
    if instances.len() > 1 && reported.iter().any(|part| !part.is_cluster) {
        let names = names(&instances, SourcePart::instance);
        let what = "these are of several instances, and not all of them of a cluster";
        return Err(ProfileError::Mixed { what, names });
    }
    Ok(())
}

/// Keeps the shorter of two intervals of one instance that overlap, such as an hour's report and
/// the day's.
fn finest(mut pieces: Vec<InstanceInterval>, profile: &mut Profile) -> Vec<InstanceInterval> {
    pieces.sort_by(|one, other| one.interval.length_s.total_cmp(&other.interval.length_s));
    let mut kept: Vec<InstanceInterval> = Vec::new();
    for piece in pieces {
        let same = kept.iter().find(|known| {
            known.instance == piece.instance && overlap(&known.interval, &piece.interval)
        });
        match same {
            None => kept.push(piece),
            Some(known) => {
                let name = |piece: &InstanceInterval| {
                    let input =
                        piece.interval.inputs.first().and_then(|&at| profile.inputs.get(at));
                    input.map_or_else(String::new, |input| input.name.clone())
                };
                let reported = format!(
                    "{} is left out from {}: {} covers the same time",
                    name(&piece),
                    piece.interval.begin.as_deref().unwrap_or("-"),
                    name(known)
                );
                profile.gaps.push(reported);
            }
        }
    }
    let is_dated = kept.iter().all(|piece| piece.interval.begin.is_some());
    let is_numbered = kept.iter().all(|piece| piece.snapshot.is_some());
    if !is_dated && is_numbered {
        let snapshot = |piece: &InstanceInterval| piece.snapshot.unwrap_or_default();
        kept.sort_by(|one, other| snapshot(one).total_cmp(&snapshot(other)));
    } else {
        kept.sort_by_key(|piece| {
            let begin = piece.interval.begin_time();
            (begin.is_none(), begin, piece.interval.inputs.clone())
        });
    }
    if kept.len() > 1 && !is_dated {
        let order = if is_numbered { "are in the order of their snapshots" } else { "come last" };
        profile.gaps.push(format!(
            "some intervals have no date that petal reads: they {order}, and may be reported twice"
        ));
    }
    kept
}

/// Returns true if two intervals overlap; false if either has no date.
fn overlap(one: &ProfileInterval, other: &ProfileInterval) -> bool {
    let common = || {
        let begin = one.begin_time()?.max(other.begin_time()?);
        let end = one.end_time()?.min(other.end_time()?);
        Some((end - begin).as_seconds_f64())
    };
    common().is_some_and(|common_s| {
        common_s > SLACK_S.min(one.length_s / 2.0).min(other.length_s / 2.0)
    })
}

/// Adds the work of instances at the same time.
fn merge_simultaneous(pieces: &[InstanceInterval], gaps: &mut Vec<String>) -> Vec<ProfileInterval> {
    let instances: BTreeSet<&str> = pieces.iter().map(|piece| piece.instance.as_str()).collect();
    let mut groups: Vec<Vec<&InstanceInterval>> = Vec::new();
    for piece in pieces {
        let fits = |group: &&mut Vec<&InstanceInterval>| {
            group.iter().all(|other| {
                other.instance != piece.instance && is_at_once(&other.interval, &piece.interval)
            })
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(piece),
            None => groups.push(vec![piece]),
        }
    }
    let mut lacking: BTreeMap<String, usize> = BTreeMap::new();
    for group in &groups {
        for instance in &instances {
            if group.iter().all(|piece| piece.instance != **instance) {
                *lacking.entry((*instance).to_owned()).or_default() += 1;
            }
        }
    }
    gaps.extend(lacking.iter().map(|(instance, count)| {
        format!(
            "instance {instance} is not in {} of {} intervals: their sums lack it",
            whole(*count as u64),
            whole(groups.len() as u64)
        )
    }));
    groups.iter().map(|group| sum(group)).collect()
}

fn is_at_once(one: &ProfileInterval, other: &ProfileInterval) -> bool {
    let (Some(a), Some(b)) = (one.begin_time(), other.begin_time()) else { return false };
    let close_s = AT_ONCE_S.min(one.length_s / 4.0);
    (a - b).as_seconds_f64().abs() <= close_s && (one.length_s - other.length_s).abs() <= close_s
}

fn sum(group: &[&InstanceInterval]) -> ProfileInterval {
    let intervals: Vec<&ProfileInterval> = group.iter().map(|piece| &piece.interval).collect();
    let (per_second, latency_us) = match intervals.as_slice() {
        [one] => (one.per_second.clone(), one.latency_us.clone()),
        several => together(several),
    };
    ProfileInterval {
        begin: intervals.first().and_then(|first| first.begin.clone()),
        length_s: intervals.iter().map(|it| it.length_s).sum::<f64>()
            / intervals.len().max(1) as f64,
        inputs: intervals.iter().flat_map(|it| it.inputs.clone()).collect(),
        per_second,
        latency_us,
    }
}

/// Rates that no interval or only some have.
fn missing_figures(profile: &Profile) -> Vec<String> {
    let all = profile.intervals.len();
    let gap = |figure: WorkCount| {
        let known = profile.intervals.iter().filter(|it| it.rate(figure).is_some()).count();
        let reason = profile.inputs.iter().find_map(|input| input.gaps.get(&figure.name()));
        let why = reason.map(|why| format!(": {why}")).unwrap_or_default();
        match known {
            _ if known == all => reason.map(|why| format!("{}: {why}", figure.words())),
            0 => Some(format!("{} are not known{why}", figure.words())),
            _ => Some(format!(
                "{} are known of {} of {} intervals{why}",
                figure.words(),
                whole(known as u64),
                whole(all as u64)
            )),
        }
    };
    WorkCount::ALL.into_iter().filter_map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::interval;
    use super::*;

    fn part(
        name: &str,
        database: &str,
        instance: &str,
        intervals: Vec<ProfileInterval>,
    ) -> SourcePart {
        SourcePart {
            input: Input {
                name: name.to_owned(),
                database: Some(database.to_owned()),
                instance: Some(instance.to_owned()),
                ..Input::default()
            },
            intervals,
            ..SourcePart::default()
        }
    }

    fn hour(hour: u32, reads: f64) -> ProfileInterval {
        interval(&format!("2026-11-22T{hour:02}:00:00"), 3600.0, reads, 1.0)
    }

    #[test]
    fn reports_of_other_databases_are_refused_by_name() {
        let parts = vec![
            part("a.txt", "ERP", "erp1", vec![hour(1, 1.0)]),
            part("b.txt", "CRM", "crm", vec![hour(2, 1.0)]),
        ];
        let why = profile(parts).unwrap_err().to_string();
        assert!(why.contains("ERP (a.txt)") && why.contains("CRM (b.txt)"), "{why}");
        let parts = vec![
            part("a.txt", "ERP", "erp1", vec![hour(1, 1.0)]),
            part("b.txt", "ERP", "copy", vec![hour(1, 1.0)]),
        ];
        let why = profile(parts).unwrap_err().to_string();
        assert!(why.contains("several instances") && why.contains("copy (b.txt)"), "{why}");
    }

    #[test]
    fn instances_of_a_cluster_are_added_by_time() {
        let cluster = |name: &str, instance: &str, intervals| SourcePart {
            is_cluster: true,
            ..part(name, "ERP", instance, intervals)
        };
        let made = profile(vec![
            cluster("2.txt", "erp2", vec![hour(11, 20.0)]),
            cluster("1.txt", "erp1", vec![hour(10, 100.0), hour(11, 10.0)]),
        ])
        .unwrap();
        let reads: Vec<_> =
            made.intervals.iter().map(|it| it.rate(WorkCount::SingleBlockReads).unwrap()).collect();
        assert_eq!(reads, [100.0, 30.0]);
        assert_eq!(made.intervals[1].inputs, [0, 1]);
        assert!(
            made.gaps[0].contains("instance erp2 is not in 1 of 2 intervals"),
            "{:?}",
            made.gaps
        );
    }

    #[test]
    fn intervals_without_dates_are_in_the_order_of_their_snapshots() {
        let undated = |name: &str, snapshot: f64, reads| SourcePart {
            snapshot: Some(snapshot),
            ..part(name, "ERP", "erp", vec![ProfileInterval { begin: None, ..hour(1, reads) }])
        };
        let parts = vec![undated("a", 12.0, 3.0), undated("b", 10.0, 1.0), undated("c", 11.0, 2.0)];
        let made = profile(parts).unwrap();
        let reads: Vec<_> =
            made.intervals.iter().map(|it| it.rate(WorkCount::SingleBlockReads).unwrap()).collect();
        assert_eq!(reads, [1.0, 2.0, 3.0]);
        assert!(
            made.gaps.iter().any(|gap| gap.contains("order of their snapshots")),
            "{:?}",
            made.gaps
        );
    }

    #[test]
    fn an_interval_reported_twice_counts_once_and_the_finer_is_kept() {
        let day = interval("2026-11-22T00:00:00", 86_400.0, 5.0, 1.0);
        let parts = vec![
            part("day.txt", "ERP", "erp", vec![day]),
            part("10.html", "ERP", "erp", vec![hour(10, 7.0)]),
            part("10.txt", "ERP", "erp", vec![hour(10, 7.0)]),
            part("9.txt", "ERP", "erp", vec![hour(9, 6.0)]),
        ];
        let made = profile(parts).unwrap();
        assert_eq!(made.intervals.len(), 2);
        assert_eq!(made.intervals[0].begin.as_deref(), Some("2026-11-22T09:00:00"));
        let left_out: Vec<&String> =
            made.gaps.iter().filter(|gap| gap.contains("left out")).collect();
        assert_eq!(left_out.len(), 2, "{:?}", made.gaps);
    }

    #[test]
    fn a_missing_interval_says_why() {
        let mut empty = part("cut.txt", "ERP", "erp", Vec::new());
        empty.input.notes.push("its end was not found".to_owned());
        let why = profile(vec![empty.clone()]).unwrap_err().to_string();
        assert!(why.contains("cut.txt: its end was not found"), "{why}");
        let made = profile(vec![empty, part("9.txt", "ERP", "erp", vec![hour(9, 6.0)])]).unwrap();
        assert!(made.gaps[0].contains("cut.txt gives no interval"));
    }
}
