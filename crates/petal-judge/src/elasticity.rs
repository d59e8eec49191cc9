//! Elasticities by experiment: change of throughput over the change of a resource, as logarithms.
//! Slots with a change are compared with those without one in the same round.

use petal_host::numbers::decimal;
use petal_record::Run;
use petal_record::conclusions::{Elasticity, LimitedBy, Limiter};
use petal_record::experiments::{ChangedResource, ExperimentSlot, ExperimentsMade};
use petal_record::waterfall::Waterfall;
use serde_json::json;

use super::residence;
use crate::estimate::{Uncertain, deviation, mean};

/// Rounds that an interval needs.
const ROUNDS_MIN: usize = 4;
/// Least change, as a logarithm.
const FACTOR_MIN: f64 = 1e-6;
/// An elasticity of less limits nothing. Both sides of its interval must be beyond 0.
const LIMITS_MIN: f64 = 0.25;

/// Returns the elasticity of each resource that was changed; empty without experiments.
pub(super) fn of(run: &Run) -> Vec<Elasticity> {
    let Some(made) = &run.details.experiments else { return Vec::new() };
    made.changes
        .iter()
        .map(|change| {
            let found = ratio(made, change.of).filter(|_| change.factor.ln().abs() > FACTOR_MIN);
            let over = |ratio: f64| ratio.ln() / change.factor.ln();
            let interval = found.and_then(Uncertain::interval).map(|(low, high)| {
                let both = [low, high].map(|end| over(end.max(f64::MIN_POSITIVE)));
                (both[0].min(both[1]), both[0].max(both[1]))
            });
            let is_changed = change.factor.ln().abs() > FACTOR_MIN;
            let why = match is_changed {
                true => format!("fewer than {ROUNDS_MIN} rounds of slots with operations"),
                false => "the experiments changed nothing".to_owned(),
            };
            Elasticity {
                of: change.of,
                words: change.words.clone(),
                factor: change.factor,
                elasticity: found.map(|ratio| over(ratio.mid)),
                interval,
                why_unknown: found.is_none().then_some(why),
            }
        })
        .collect()
}

/// The throughput with a change over the one without: the ratio of the sums, with the residuals of the rounds (Cochran 1977, section 6.4).
fn ratio(made: &ExperimentsMade, of: ChangedResource) -> Option<Uncertain> {
    let rounds = made.slots.chunks_exact(made.slots_per_round.max(1) as usize);
    let of_round = |round: &[ExperimentSlot], change: Option<ChangedResource>| {
        let slots = round.iter().filter(|slot| slot.change == change);
        mean(&slots.map(|slot| slot.operations).collect::<Vec<_>>())
    };
    let both = rounds.map(|round| Some((of_round(round, Some(of))?, of_round(round, None)?)));
    let both: Vec<(f64, f64)> = both.collect::<Option<_>>()?;
    let sum = |side: fn(&(f64, f64)) -> f64| both.iter().map(side).sum::<f64>();
    let (changed, plain) = (sum(|two| two.0), sum(|two| two.1));
    if both.len() < ROUNDS_MIN || changed <= 0.0 || plain <= 0.0 {
        return None;
    }
    let ratio = changed / plain;
    let residuals: Vec<f64> = both.iter().map(|two| two.0 - ratio * two.1).collect();
    let rounds = both.len() as f64;
    let error = deviation(&residuals)? / (plain / rounds) / rounds.sqrt();
    Some(Uncertain { mid: ratio, error, freedom: rounds - 1.0 })
}

/// Names the resource that an experiment proved to limit the run. A limit that the run's counts
/// name stays if the experiments agree, or prove none. A read that is made twice or later also
/// waits for a processor again: the waterfall, or else the counts, separate the two.
pub(super) fn proven(
    found: &[Elasticity],
    counted: LimitedBy,
    waterfall: Option<&Waterfall>,
) -> LimitedBy {
    let Some(most) = strongest(found) else {
        return with_evidence(counted, found, None);
    };
    let shares = waterfall.and_then(residence::waits_and_reads);
    let of_processors = is_of_processors(counted.by);
    let of_reads = matches!(most.of, ChangedResource::Reads | ChangedResource::ReadLatency);
    match shares {
        Some((waits, reads)) if of_reads && waits > reads => {
            let (by, name) = match of_processors {
                true => (counted.by, counted.words.as_str()),
                false => (Limiter::Processors, "processors"),
            };
            let (waits, reads) = (decimal(waits * 100.0, 0), decimal(reads * 100.0, 0));
            let words = format!(
                "{name}; by experiment: {}, and {waits} % of the time waits for a processor, \
                 {reads} % for reads",
                in_words(most)
            );
            return with_evidence(LimitedBy { by, words, ..counted }, found, Some(most));
        }
        None if of_reads && of_processors => {
            let of_time = beyond(found).find(|(it, _)| it.of == ChangedResource::Processors);
            if let Some((of_time, _)) = of_time {
                let words = format!("{}; by experiment: {}", counted.words, in_words(of_time));
                return with_evidence(LimitedBy { words, ..counted }, found, Some(of_time));
            }
        }
        _ => {}
    }
    let level = level_with(most, found);
    if !level.is_empty() {
        // Which of them limits is not proven.
        let names: Vec<&str> = level.iter().map(|it| it.of.words()).collect();
        let (counted_words, first) = (&counted.words, most.of.words());
        let words =
            format!("{counted_words}; by experiment {first} and {} are level", names.join(" and "));
        let shared_with = counted.shared_with.or_else(|| {
            let both = [limiter_of(most.of), limiter_of(level[0].of)];
            both.into_iter().find(|by| *by != counted.by)
        });
        return with_evidence(LimitedBy { words, shared_with, ..counted }, found, Some(most));
    }
    let by = limiter_of(most.of);
    let (name, agrees) = match by {
        Limiter::Log => {
            let of_writers = matches!(
                counted.by,
                Limiter::Log | Limiter::LogRoom | Limiter::Contention | Limiter::Locks
            );
            ("log writes and syncs", of_writers)
        }
        Limiter::Reads => ("reads", matches!(counted.by, Limiter::Reads | Limiter::IoLimit)),
        _ => ("processors", of_processors),
    };
    let (by, name) = match agrees {
        true => (counted.by, counted.words.clone()),
        false => (by, name.to_owned()),
    };
    let words = format!("{name}; by experiment: {}", in_words(most));
    let shared_with = counted.shared_with.filter(|_| agrees);
    with_evidence(LimitedBy { by, words, shared_with, ..counted }, found, Some(most))
}

/// The limit that a changed resource is.
fn limiter_of(of: ChangedResource) -> Limiter {
    match of {
        ChangedResource::Commits => Limiter::Log,
        ChangedResource::Reads | ChangedResource::ReadLatency => Limiter::Reads,
        _ => Limiter::Processors,
    }
}

fn is_of_processors(by: Limiter) -> bool {
    matches!(by, Limiter::Processors | Limiter::SessionProcessorTime | Limiter::OthersWork)
}

/// Returns other resources whose elasticity is within the interval of the largest one.
fn level_with<'a>(most: &Elasticity, found: &'a [Elasticity]) -> Vec<&'a Elasticity> {
    use ChangedResource::{ReadLatency, Reads, Sessions};
    let is_read = |of| matches!(of, Reads | ReadLatency);
    let is_other = |of| of != most.of && of != Sessions && !(is_read(of) && is_read(most.of));
    let high = most.interval.map(|(_, high)| high);
    let is_within = |it: &&Elasticity| it.elasticity.zip(high).is_some_and(|(it, high)| it <= high);
    found.iter().filter(|it| is_other(it.of)).filter(is_within).collect()
}

/// Returns the resource whose time moves the throughput most, if it does so beyond doubt.
fn strongest(found: &[Elasticity]) -> Option<&Elasticity> {
    beyond(found).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(it, _)| it)
}

/// The resources whose time moves the throughput beyond doubt.
fn beyond(found: &[Elasticity]) -> impl Iterator<Item = (&Elasticity, f64)> {
    let is_resource = |it: &&Elasticity| {
        use ChangedResource::{Commits, Processors, ReadLatency, Reads};
        matches!(it.of, Commits | Processors | ReadLatency | Reads)
    };
    let known = found.iter().filter(is_resource);
    let known = known.filter_map(|it| Some((it, it.elasticity?, it.interval?)));
    let beyond = known.filter(|(_, value, (_, high))| *value <= -LIMITS_MIN && *high < 0.0);
    beyond.map(|(it, value, _)| (it, value))
}

/// `10 % more processor time, 8.1 % less throughput (95 %: 6.9 to 9.2 %)`.
fn in_words(it: &Elasticity) -> String {
    let value = it.elasticity.unwrap_or_default();
    let what = match it.of {
        ChangedResource::Reads => "10 % more reads",
        ChangedResource::ReadLatency => "reads 10 % slower",
        ChangedResource::Commits => "commits 10 % slower",
        _ => "10 % more processor time",
    };
    let change = |value: f64| ((value * 1.1_f64.ln()).exp() - 1.0) * 100.0;
    let percent = |value: f64| decimal(change(value).abs(), 1);
    let direction = if value < 0.0 { "less" } else { "more" };
    // Both ends are less: a limit is beyond 0.
    let interval = it.interval.map_or_else(String::new, |(low, high)| {
        format!(" (95 %: {} to {} %)", percent(high), percent(low))
    });
    format!("{what}, {} % {direction} throughput{interval}", percent(value))
}

fn with_evidence(
    mut limit: LimitedBy,
    found: &[Elasticity],
    most: Option<&Elasticity>,
) -> LimitedBy {
    let known =
        found.iter().filter_map(|it| Some((it.of.words().to_owned(), json!(it.elasticity?))));
    let all: serde_json::Map<String, serde_json::Value> = known.collect();
    if !all.is_empty() {
        limit.evidence.insert("elasticities".to_owned(), all.into());
    }
    if let Some(most) = most {
        limit.evidence.insert("elasticity".to_owned(), json!(most.elasticity));
        limit.evidence.insert("elasticity_interval".to_owned(), json!(most.interval));
    }
    limit
}

#[cfg(test)]
mod tests {
    use petal_record::experiments::ResourceChange;
    use petal_record::fixture;
    use petal_record::waterfall::{PartOfTime, WaterfallPart};

    use super::*;
    use crate::seeded_rng::SeededRng;

    const CHANGES: [(ChangedResource, f64); 3] = [
        (ChangedResource::Processors, 1.25),
        (ChangedResource::Reads, 1.25),
        (ChangedResource::Sessions, 0.75),
    ];

    /// A run with these elasticities, and noise from slot to slot and from round to round.
    fn run(truth: [f64; 3], rounds: usize, noise: f64, rng: &mut SeededRng) -> Run {
        let mut slots = Vec::new();
        for _ in 0..rounds {
            let level = 1000.0 * (1.0 + 0.2 * rng.normal()).max(0.2);
            let mut slot = |change, by: f64| {
                let operations = level * by * (1.0 + noise * rng.normal());
                slots.push(ExperimentSlot { change, operations });
            };
            slot(None, 1.0);
            for ((of, factor), truth) in CHANGES.into_iter().zip(truth) {
                slot(Some(of), (truth * factor.ln()).exp());
            }
            slot(None, 1.0);
        }
        let changes =
            CHANGES.map(|(of, factor)| ResourceChange { of, words: String::new(), factor });
        let mut run = fixture::mixed_run();
        run.details.experiments = Some(ExperimentsMade {
            slots_per_round: 5,
            changes: changes.to_vec(),
            slots,
            ..ExperimentsMade::default()
        });
        run
    }

    #[test]
    fn an_interval_holds_the_true_elasticity_in_95_of_100_runs() {
        let mut rng = SeededRng::seeded(50);
        let truth = [-0.8, -0.2, 0.5];
        let (mut held, mut all) = (0, 0);
        for _ in 0..500 {
            for (found, truth) in of(&run(truth, 12, 0.04, &mut rng)).iter().zip(truth) {
                let (low, high) = found.interval.unwrap();
                all += 1;
                held += u32::from(low <= truth && truth <= high);
            }
        }
        let share = f64::from(held) / f64::from(all);
        assert!((0.93..=0.97).contains(&share), "{share}");
    }

    #[test]
    fn the_resource_of_the_largest_elasticity_is_the_limit() {
        let mut rng = SeededRng::seeded(51);
        let mut proven_by = |truth, by| {
            let found = of(&run(truth, 20, 0.02, &mut rng));
            let counted = LimitedBy { by, words: "counted".into(), ..LimitedBy::default() };
            proven(&found, counted, None)
        };
        let processors = proven_by([-0.9, -0.1, 0.0], Limiter::Reads);
        assert_eq!(processors.by, Limiter::Processors);
        let words = &processors.words;
        let experiment = "processors; by experiment: 10 % more processor time, ";
        assert!(
            words.starts_with(experiment) && words.contains(" % less throughput (95 %: "),
            "{words}"
        );
        // They agree: the counts name it more exactly.
        let limit = proven_by([0.0, -1.0, 0.0], Limiter::IoLimit);
        assert_eq!(limit.by, Limiter::IoLimit);
        assert!(limit.words.starts_with("counted; by experiment: 10 % more reads, "), "{limit:?}");
        // None is proven.
        let rate = proven_by([0.0, 0.0, 0.0], Limiter::Rate);
        assert_eq!((rate.by, rate.words.as_str()), (Limiter::Rate, "counted"));
        assert_eq!(rate.evidence["elasticities"].as_object().unwrap().len(), 3);
    }

    #[test]
    fn resources_whose_intervals_meet_leave_the_counted_limit() {
        let found = of(&run([-0.6, -0.6, 0.0], 8, 0.08, &mut SeededRng::seeded(53)));
        let counted = LimitedBy { by: Limiter::Reads, words: "c".into(), ..LimitedBy::default() };
        let limit = proven(&found, counted, None);
        assert_eq!(limit.by, Limiter::Reads);
        assert!(limit.words.starts_with("c; by experiment "), "{}", limit.words);
        assert!(limit.words.ends_with(" are level"), "{}", limit.words);
    }

    #[test]
    fn reads_that_mostly_wait_for_a_processor_are_limited_by_processors() {
        let part = |part, us| WaterfallPart {
            part,
            us: Some(us),
            events: None,
            p99_us: None,
            layer: String::new(),
        };
        let waterfall = |waits_us, device_us| Waterfall {
            operations: 1,
            operation_us: Some(waits_us + device_us),
            parts: vec![part(PartOfTime::RunQueue, waits_us), part(PartOfTime::Device, device_us)],
            gap_us: Some(0.0),
            why_unknown: None,
        };
        let found = of(&run([-0.4, -0.9, 0.0], 20, 0.02, &mut SeededRng::seeded(54)));
        let proven_by = |by, waterfall: Option<Waterfall>| {
            let counted = LimitedBy { by, words: "counted".into(), ..LimitedBy::default() };
            proven(&found, counted, waterfall.as_ref())
        };
        let waits = proven_by(Limiter::Reads, Some(waterfall(62.0, 36.0)));
        assert_eq!(waits.by, Limiter::Processors);
        assert!(waits.words.starts_with("processors; by experiment: 10 % more reads, "));
        assert!(waits.words.ends_with("63 % of the time waits for a processor, 37 % for reads"));
        let others = proven_by(Limiter::OthersWork, Some(waterfall(62.0, 36.0)));
        assert!(others.by == Limiter::OthersWork && others.words.starts_with("counted; by "));
        let reads = proven_by(Limiter::Processors, Some(waterfall(36.0, 62.0)));
        assert_eq!(reads.by, Limiter::Reads);
        // Without a waterfall the counts decide, if the processors' own experiment agrees.
        let counted = proven_by(Limiter::OthersWork, None);
        let words = "counted; by experiment: 10 % more processor time, ";
        assert!(counted.by == Limiter::OthersWork && counted.words.starts_with(words));
        assert_eq!(proven_by(Limiter::NotDetermined, None).by, Limiter::Reads);
    }

    #[test]
    fn too_few_rounds_are_unknown_with_a_reason() {
        let mut rng = SeededRng::seeded(52);
        let found = of(&run([-0.9, -0.1, 0.0], 3, 0.02, &mut rng));
        assert!(found.iter().all(|it| it.elasticity.is_none() && it.why_unknown.is_some()));
        let mut idle = run([-0.9, -0.1, 0.0], 9, 0.02, &mut rng);
        idle.details.experiments.as_mut().unwrap().slots.iter_mut().for_each(|slot| {
            slot.operations = 0.0;
        });
        assert!(of(&idle).iter().all(|it| it.elasticity.is_none()));
        assert_eq!(of(&fixture::mixed_run()), []);
    }
}
