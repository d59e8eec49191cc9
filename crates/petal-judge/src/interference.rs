//! The price of neighbours for the users. Each slot with a neighbour is compared with the slot
//! without one of the same round: the ratios of the pairs have a t interval of their logarithms, and
//! all figures of all neighbours are one family of tests (Holm).

use serde_json::json;

use petal_host::numbers::decimal;
use petal_record::Run;
use petal_record::interference::{
    Interference, InterferenceSlot, NeighbourPrice, PricedFigure, PricedLayer, ResponseSecond,
};
use petal_record::target::IoEvents;

use super::estimate::{CONFIDENCE, REPEATS_MIN, Uncertain, mean};
use super::judgement::{FindingParts as _, Judgement, NoFinding, clear_if, error, known, warning};
use super::significance::{holm, is_significant, paired};

/// A smaller share of its rate than this was not kept: the noise of Poisson arrivals is less.
const KEPT_MIN: f64 = 0.95;
/// Least share of pairs of which a layer below the users is known.
const KNOWN_MIN: f64 = 0.8;
/// A neighbour that was less at work than this is named.
const WORKED_MIN: f64 = 0.9;

/// The price of each neighbour; None of a run without neighbours.
pub(super) fn of(run: &Run) -> Option<Vec<NeighbourPrice>> {
    let seen = run.details.interference.as_ref()?;
    let events = &run.details.target.io_events;
    let priced = |index| price(seen, index, events);
    let mut prices: Vec<NeighbourPrice> = (0..seen.neighbours.len()).map(priced).collect();
    let figures = || prices.iter().flat_map(|price| &price.figures);
    let corrected = holm(&figures().map(|figure| figure.p).collect::<Vec<_>>());
    let tests = corrected.iter().flatten().count().max(1) as f64;
    let all = prices.iter_mut().flat_map(|price| {
        let pairs = price.pairs;
        price.figures.iter_mut().map(move |figure| (pairs, figure))
    });
    for ((pairs, figure), p) in all.zip(corrected) {
        figure.smallest = figure.interval.and_then(|interval| smallest(interval, pairs, tests));
        figure.is_found = p.is_some_and(is_significant);
        figure.p = p;
    }
    Some(prices)
}

/// The smallest difference that the first of so many tests finds, by the width of its interval.
fn smallest((low, high): (f64, f64), pairs: usize, tests: f64) -> Option<f64> {
    let known = Uncertain::of_interval((low.ln_1p(), high.ln_1p()), pairs as f64 - 1.0)?;
    Some(known.half_width_at(1.0 - (1.0 - CONFIDENCE) / tests)?.exp_m1())
}

/// Pairs of slots of a round: without a neighbour, and with this one.
fn pairs(seen: &Interference, neighbour: usize) -> Vec<[&InterferenceSlot; 2]> {
    let rounds = seen.slots.chunks_exact(seen.neighbours.len() + 1);
    let of = |round: &'_ [InterferenceSlot], neighbour: Option<usize>| {
        round.iter().position(|slot| {
            slot.neighbour == neighbour && slot.totals.is_some() && !slot.has_failed()
        })
    };
    let both =
        |round: &'_ [InterferenceSlot]| Some([of(round, None)?, of(round, Some(neighbour))?]);
    rounds.filter_map(|round| Some(both(round)?.map(|at| &round[at]))).collect()
}

fn price(seen: &Interference, index: usize, events: &IoEvents) -> NeighbourPrice {
    let pairs = pairs(seen, index);
    let counted_s: f64 = pairs.iter().map(|[_, with]| with.counted_s()).sum();
    let worked_s: f64 = pairs.iter().map(|[_, with]| with.worked_s()).sum();
    let worked = (counted_s > 0.0).then(|| worked_s / counted_s);
    let slots = || seen.slots.iter().filter(|slot| slot.neighbour == Some(index));
    let failure = slots().flat_map(|slot| &slot.starts).find_map(|start| start.failure.as_ref());
    let why_unknown = match (failure, worked) {
        (Some(why), _) if pairs.len() < REPEATS_MIN => Some(format!("it failed: {why}")),
        (None, _) if pairs.len() < REPEATS_MIN => {
            Some(format!("{} whole pairs, and it takes {REPEATS_MIN}", pairs.len()))
        }
        (_, Some(worked)) if worked <= 0.0 => Some("it was never at work".to_owned()),
        _ => None,
    };
    let figures = match why_unknown {
        Some(_) => Vec::new(),
        None => figures(seen, &pairs, events),
    };
    let neighbour = seen.neighbours[index].name.clone();
    NeighbourPrice { neighbour, pairs: pairs.len(), worked, figures, why_unknown }
}

/// A figure of a slot: its name and unit, the reason if it is unknown, and how it is made.
type SlotFigure<'a> = (&'a str, &'a str, &'a str, &'a dyn Fn(&InterferenceSlot) -> Option<f64>);

fn figures(
    seen: &Interference,
    pairs: &[[&InterferenceSlot; 2]],
    events: &IoEvents,
) -> Vec<PricedFigure> {
    const FEW: &str = "too few operations in a slot";
    const UNTIMED: &str = "not timed, or none in a slot";
    const UNSEEN: &str = "not seen, or none in a slot";
    let within = seen.within_us.map(|us| format!("within {} ms", decimal(us / 1e3, 1)));
    let response = |figure: fn(&petal_host::histogram::LatencySummary) -> Option<f64>| {
        move |slot: &InterferenceSlot| figure(slot.totals.as_ref()?.op_response_us.as_ref()?)
    };
    let rate = |count: u64, slot: &InterferenceSlot| Some(count as f64 / slot.counted_s());
    let wait = |name: &'static str| {
        move |slot: &InterferenceSlot| {
            let latencies = slot.totals.as_ref()?.io_latency(events);
            latencies.get(name)?.mean.filter(|&mean| mean > 0.0)
        }
    };
    let device = |is_read: bool| {
        move |slot: &InterferenceSlot| {
            let device = slot.totals.as_ref()?.device?;
            let (ms, requests) = match is_read {
                true => (device.read_ms, device.read_requests),
                false => (device.write_ms, device.write_requests),
            };
            (ms > 0 && requests > 0).then(|| ms as f64 * 1e3 / requests as f64)
        }
    };
    let users: [SlotFigure<'_>; 4] = [
        ("p50", "us", FEW, &response(|it| it.p50)),
        ("p99", "us", FEW, &response(|it| it.p99)),
        ("mean", "us", FEW, &response(|it| it.mean)),
        ("throughput", "/s", FEW, &|slot| rate(slot.totals.as_ref()?.ops.total, slot)),
    ];
    let within_rate = |slot: &InterferenceSlot| rate(slot.ops_within?, slot);
    let objective: Option<SlotFigure<'_>> = within
        .as_deref()
        .map(|name| (name, "/s", FEW, &within_rate as &dyn Fn(&InterferenceSlot) -> Option<f64>));
    let database: [SlotFigure<'_>; 3] = [
        ("read", "us", UNTIMED, &wait("read")),
        ("write", "us", UNTIMED, &wait("write")),
        ("log", "us", UNTIMED, &wait("log")),
    ];
    let of_device: [SlotFigure<'_>; 2] =
        [("read", "us", UNSEEN, &device(true)), ("write", "us", UNSEEN, &device(false))];
    let busy: SlotFigure<'_> =
        ("busy", "%", "not seen", &|slot| Some(slot.totals.as_ref()?.cpu?.busy()));
    let of = |layer| move |figure| priced(layer, figure, pairs);
    let users = users.into_iter().chain(objective).map(of(PricedLayer::Users));
    let below = database.into_iter().map(of(PricedLayer::Database));
    let below = below.chain(of_device.into_iter().map(of(PricedLayer::Device)));
    users.chain(below).chain([of(PricedLayer::Processors)(busy)]).collect()
}

fn priced(
    layer: PricedLayer,
    (figure, unit, why, value): SlotFigure<'_>,
    pairs: &[[&InterferenceSlot; 2]],
) -> PricedFigure {
    let both = pairs.iter().filter_map(|[off, on]| Some((value(off)?, value(on)?)));
    let both: Vec<(f64, f64)> = both.collect();
    let (without, with): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
    let found = paired(&both);
    // A percentile without enough operations is of an overloaded slot: leaving it out would be a choice
    // by the result. A lower layer only misses a sample of petal's.
    let least = if layer == PricedLayer::Users { 1.0 } else { KNOWN_MIN };
    let is_known = both.len() >= REPEATS_MIN && both.len() as f64 >= pairs.len() as f64 * least;
    let unknown = match &found {
        _ if !is_known => Some(why.to_owned()),
        Some(found) if found.share == 0.0 => {
            found.unknown.as_ref().map(|_| "the same in every pair".to_owned())
        }
        Some(found) => found.unknown.clone(),
        None => Some(why.to_owned()),
    };
    let found = found.filter(|_| is_known);
    PricedFigure {
        layer,
        figure: figure.to_owned(),
        unit: unit.to_owned(),
        without: typical(&without),
        with: typical(&with),
        share: found.as_ref().map(|it| it.share),
        interval: found.as_ref().and_then(|it| it.interval),
        p: found.as_ref().and_then(|it| it.p),
        is_found: false,
        smallest: None,
        why_unknown: unknown,
    }
}

/// Geometric mean, as in [`paired`], so that both sides give its ratio; the mean if one is not above zero.
fn typical(values: &[f64]) -> Option<f64> {
    match values.iter().all(|&value| value > 0.0) {
        true => mean(&values.iter().map(|value| value.ln()).collect::<Vec<_>>()).map(f64::exp),
        false => mean(values),
    }
}

fn seen(run: &Run) -> Result<&Interference, NoFinding> {
    run.details.interference.as_ref().ok_or(NoFinding::Clear)
}

/// Names neighbours without a price, and those of which a slot failed.
pub(super) fn failed(run: &Run) -> Judgement {
    let seen = seen(run)?;
    let prices = run.summary.interference.clone().or_else(|| of(run)).unwrap_or_default();
    let unpriced: Vec<String> = prices
        .iter()
        .filter_map(|it| Some(format!("{}: {}", it.neighbour, it.why_unknown.as_ref()?)))
        .collect();
    let failures = seen.slots.iter().filter(|slot| slot.has_failed()).count();
    clear_if(unpriced.is_empty() && failures == 0)?;
    let figures = json!({ "failed_slots": failures });
    if unpriced.is_empty() {
        let message = format!("neighbours failed in {failures} slots, which are not counted");
        return warning(message, "Their output is in the run's folder.").with(figures);
    }
    let message = format!("no price is known of {}", unpriced.join("; "));
    error(
        message,
        "Its output is in the run's folder. A price needs at least three on/off pairs of slots.",
    )
    .with(figures)
}

/// Names neighbours that were at work only in a part of their time.
pub(super) fn idle(run: &Run) -> Judgement {
    seen(run)?;
    let prices = run.summary.interference.clone().or_else(|| of(run)).unwrap_or_default();
    let idle: Vec<_> = prices
        .iter()
        .filter_map(|it| Some((it.neighbour.as_str(), it.worked?)))
        .filter(|(_, worked)| *worked < WORKED_MIN)
        .collect();
    clear_if(idle.is_empty())?;
    let words: Vec<String> =
        idle.iter().map(|(name, worked)| format!("{name} in {:.0} %", worked * 100.0)).collect();
    let message =
        format!("the neighbour worked in a part of the counted time only: {}", words.join(", "));
    let advice = "The price is that of a neighbour that works so often. Give it more to do.";
    warning(message, advice).with(json!({ "worked": idle }))
}

/// Names a foreground that did not keep its rate: its response times depend on how long it had to
/// wait, and grow with each second.
pub(super) fn rate_kept(run: &Run) -> Judgement {
    let seen = seen(run)?;
    let asked = run.summary.setting_number("rate");
    let scale = run.summary.setting_number("rate_scale").unwrap_or(1.0);
    let asked = known(asked, "RATE is not one number")? * scale;
    let kept = |neighbour: Option<usize>| {
        let slots = seen.slots.iter().filter(move |slot| slot.neighbour == neighbour);
        let rates = slots.filter_map(|slot| {
            Some(slot.totals.as_ref()?.ops.total as f64 / slot.counted_s() / asked)
        });
        mean(&rates.collect::<Vec<_>>()).filter(|kept| *kept < KEPT_MIN)
    };
    let percent = |kept: f64| format!("{:.0} %", kept * 100.0);
    if let Some(kept) = kept(None) {
        let message =
            format!("without a neighbour the sessions did {} of RATE {asked:.0}", percent(kept));
        let advice = "All response times are of an overloaded system. Use a RATE below the sessions' \
                      throughput without it, such as half, or more sessions.";
        return warning(message, advice).with(json!({ "kept_without": kept, "rate": asked }));
    }
    let names = seen.neighbours.iter().enumerate();
    let overloaded: Vec<String> = names
        .filter_map(|(at, it)| Some(format!("{} of it with {}", percent(kept(Some(at))?), it.name)))
        .collect();
    clear_if(overloaded.is_empty())?;
    let message = format!("the sessions did less than RATE {asked:.0}: {}", overloaded.join("; "));
    let advice = "Operations waited in a queue that grew: the response times depend on the length \
                  of a slot. Use a lower RATE for a price that does not.";
    warning(message, advice).with(json!({ "kept_with": overloaded, "rate": asked }))
}

/// Names slots whose first second still has work that a neighbour left behind.
pub(super) fn leftovers(run: &Run) -> Judgement {
    let seen = seen(run)?;
    let after = seen.slots.windows(2).filter_map(|two| {
        let is_after = two[0].neighbour.is_some() && two[1].neighbour.is_none();
        let slot = two.last().filter(|_| is_after)?;
        let within = |second: &&ResponseSecond| {
            second.from_s >= slot.counted_from_s - 1e-3 && second.from_s < slot.counted_to_s - 1e-3
        };
        let seconds = seen.seconds.iter().filter(within);
        let mut seconds = seconds.filter_map(|second| second.response_us.mean);
        let (first, rest) = (seconds.next()?, seconds.collect::<Vec<_>>());
        Some((mean(&rest)?, first))
    });
    let after: Vec<(f64, f64)> = after.collect();
    let found = paired(&after).ok_or(NoFinding::Clear)?;
    clear_if(!found.p.is_some_and(is_significant) || found.share <= 0.0)?;
    let more = found.share * 100.0;
    let message = format!(
        "the first second after a neighbour has {more:.0} % longer response times than the later ones"
    );
    let advice = "The neighbour left work behind, so that its price is underestimated. Raise \
                  --settling.";
    warning(message, advice).with(json!({ "share": found.share, "interval": found.interval }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded_rng::SeededRng;
    use petal_host::histogram::LatencySummary;
    use petal_record::interference::{Neighbour, NeighbourStart};
    use petal_record::{IntervalTotals, Ops};

    const NOISE: f64 = 0.05;

    fn slot(
        at: usize,
        neighbour: Option<usize>,
        factor: f64,
        rng: &mut SeededRng,
    ) -> InterferenceSlot {
        let from_s = at as f64 * 6.0;
        let level = (NOISE * rng.normal()).exp();
        let mut figure = |us: f64| Some(us * factor * level * (NOISE * rng.normal()).exp());
        let response = LatencySummary {
            count: 4000,
            mean: figure(600.0),
            p50: figure(500.0),
            p99: figure(2000.0),
            ..LatencySummary::default()
        };
        let ops = (4000.0 * (rng.normal() / 63.0).exp()) as u64;
        let totals = IntervalTotals {
            counted_s: 4.0,
            ops: Ops { total: ops, ..Ops::default() },
            op_response_us: Some(response),
            ..IntervalTotals::default()
        };
        let starts = neighbour.map(|_| NeighbourStart {
            at_s: from_s,
            ended_s: from_s + 6.0,
            ..NeighbourStart::default()
        });
        InterferenceSlot {
            neighbour,
            from_s,
            to_s: from_s + 6.0,
            counted_from_s: from_s + 2.0,
            counted_to_s: from_s + 6.0,
            starts: starts.into_iter().collect(),
            totals: Some(totals),
            ops_within: None,
        }
    }

    /// A run with a neighbour for each factor, which multiplies the response times.
    fn run(factors: &[f64], rounds: usize, rng: &mut SeededRng) -> Run {
        let mut run = Run::default();
        let name = |at: usize| Neighbour { name: format!("n{at}"), output: None };
        let choices: Vec<Option<usize>> = (0..factors.len()).map(Some).chain([None]).collect();
        let mut slots = Vec::new();
        for round in 0..rounds {
            // The order changes, and the level of all drifts.
            for at in 0..choices.len() {
                let neighbour = choices[(at + round) % choices.len()];
                let factor = neighbour.map_or(1.0, |it| factors[it]) * 1.03_f64.powi(round as i32);
                slots.push(slot(slots.len(), neighbour, factor, rng));
            }
        }
        run.summary.settings.insert("rate".to_owned(), json!(1000));
        run.details.interference = Some(Interference {
            neighbours: (0..factors.len()).map(name).collect(),
            slot_s: 6.0,
            settling_s: 2.0,
            slots,
            ..Interference::default()
        });
        run
    }

    fn figure<'a>(price: &'a NeighbourPrice, name: &str) -> &'a PricedFigure {
        price.figures.iter().find(|it| it.figure == name).unwrap()
    }

    #[test]
    fn a_known_price_is_found_by_layer_and_its_interval_holds_it() {
        let mut rng = SeededRng::seeded(1);
        let mut held = 0;
        for _ in 0..200 {
            let prices = of(&run(&[1.35, 1.0], 10, &mut rng)).unwrap();
            let p99 = figure(&prices[0], "p99");
            assert!(p99.is_found && (p99.share.unwrap() - 0.35).abs() < 0.15, "{p99:?}");
            let shown = p99.with.unwrap() / p99.without.unwrap() - 1.0;
            assert!((shown - p99.share.unwrap()).abs() < 1e-9, "{p99:?}");
            let (low, high) = p99.interval.unwrap();
            held += u32::from(low <= 0.35 && 0.35 <= high);
            assert_eq!((prices[0].pairs, prices[0].worked), (10, Some(1.0)));
            let read =
                prices[0].figures.iter().find(|it| it.layer == PricedLayer::Database).unwrap();
            assert!(read.share.is_none() && read.why_unknown.is_some(), "{read:?}");
        }
        // 95 % of 200, within four standard deviations.
        assert!((178..=200).contains(&held), "{held}");
    }

    #[test]
    fn a_neighbour_that_does_nothing_shows_no_difference_in_95_of_100_trials() {
        const TRIALS: u32 = 1000;
        let mut rng = SeededRng::seeded(2);
        let mut smallest = Vec::new();
        let mut trial = || {
            let prices = of(&run(&[1.0], 10, &mut rng)).unwrap();
            smallest.push(figure(&prices[0], "p99").smallest.unwrap());
            u32::from(prices[0].figures.iter().any(|it| it.is_found))
        };
        let found: u32 = (0..TRIALS).map(|_| trial()).sum();
        // 5 % and three standard deviations.
        assert!(found <= 70, "{found} of {TRIALS}");
        let mean = mean(&smallest).unwrap();
        assert!((0.05..0.2).contains(&mean), "{mean}");
    }

    #[test]
    fn without_three_pairs_there_is_no_price_and_the_reason_is_named() {
        let mut rng = SeededRng::seeded(3);
        let prices = of(&run(&[1.5], 2, &mut rng)).unwrap();
        assert!(prices[0].figures.is_empty());
        assert_eq!(prices[0].why_unknown.as_deref(), Some("2 whole pairs, and it takes 3"));
        let mut failing = run(&[1.5], 5, &mut rng);
        let slots = &mut failing.details.interference.as_mut().unwrap().slots;
        for slot in slots.iter_mut().filter(|slot| slot.neighbour.is_some()) {
            slot.starts[0].failure = Some("exit code 2".to_owned());
        }
        let prices = of(&failing).unwrap();
        assert_eq!(prices[0].why_unknown.as_deref(), Some("it failed: exit code 2"));
        let found = failed(&failing).unwrap();
        assert_eq!(found.severity, petal_record::Severity::Error);
        assert_eq!(of(&Run::default()), None);
        assert!(failed(&Run::default()).is_err() && idle(&Run::default()).is_err());
    }

    #[test]
    fn an_idle_neighbour_a_lost_rate_and_leftovers_are_findings() {
        let mut rng = SeededRng::seeded(4);
        let mut run = run(&[1.2], 6, &mut rng);
        assert!(idle(&run).is_err() && rate_kept(&run).is_err() && leftovers(&run).is_err());
        let seen = run.details.interference.as_mut().unwrap();
        let mut timeline = Vec::new();
        for (at, slot) in seen.slots.iter_mut().enumerate() {
            let is_after = at > 0 && slot.neighbour.is_none();
            for second in 0..6 {
                let mean = if second == 2 && is_after { 900.0 } else { 500.0 };
                let mean = Some(mean * (0.02 * rng.normal()).exp());
                let response_us = LatencySummary { count: 9, mean, ..LatencySummary::default() };
                let from_s = slot.from_s + f64::from(second);
                timeline.push(ResponseSecond { from_s, response_us });
            }
            for start in &mut slot.starts {
                start.ended_s = start.at_s + 4.0;
                slot.totals.as_mut().unwrap().ops.total = 3000;
            }
        }
        seen.seconds = timeline;
        assert!(idle(&run).unwrap().message.contains("n0 in 50 %"));
        assert!(rate_kept(&run).unwrap().message.ends_with(": 75 % of it with n0"));
        let share = leftovers(&run).unwrap().evidence["share"].as_f64().unwrap();
        assert!((0.75..0.85).contains(&share), "{share}");
        run.summary.settings.insert("rate".to_owned(), json!(2000));
        assert!(rate_kept(&run).unwrap().message.contains("without a neighbour"));
    }
}
