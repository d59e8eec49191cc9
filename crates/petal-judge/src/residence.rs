//! Residence times: the time of a mean operation by place, as the parts of its waterfall give it.
//! The places and the gap add up to the operation.

use serde_json::{Map, Value, json};

use petal_record::waterfall::{PartOfTime, Waterfall};

/// Place where an operation spends its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceOfTime {
    /// Time on a processor, or waiting for one.
    Processors,
    Reads,
    Writes,
    Network,
    /// Blocked outside of calls for files and sockets.
    Waits,
}

impl PlaceOfTime {
    const ALL: [Self; 5] =
        [Self::Processors, Self::Reads, Self::Writes, Self::Network, Self::Waits];

    fn of(part: PartOfTime) -> Self {
        match part {
            PartOfTime::Petal | PartOfTime::Processor | PartOfTime::RunQueue => Self::Processors,
            PartOfTime::FileSystem
            | PartOfTime::BlockQueue
            | PartOfTime::Device
            | PartOfTime::Reads => Self::Reads,
            PartOfTime::Writes => Self::Writes,
            PartOfTime::Wire => Self::Network,
            PartOfTime::Other => Self::Waits,
        }
    }
}

/// Shares of an operation's time by place. None if the waterfall is unknown, or if its gap is so
/// large that the parts do not show where the time goes.
fn shares(waterfall: &Waterfall) -> Option<[(PlaceOfTime, f64); 5]> {
    let all_us = waterfall.operation_us.filter(|_| waterfall.adds_up())?;
    let share = |place: PlaceOfTime| {
        let of_place = waterfall.parts.iter().filter(|part| PlaceOfTime::of(part.part) == place);
        of_place.filter_map(|part| part.us).sum::<f64>() / all_us
    };
    Some(PlaceOfTime::ALL.map(|place| (place, share(place))))
}

/// All places with their shares, the largest first.
pub(super) fn largest_first(waterfall: &Waterfall) -> Option<[(PlaceOfTime, f64); 5]> {
    let mut shares = shares(waterfall)?;
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some(shares)
}

pub(super) fn share_of(waterfall: &Waterfall, place: PlaceOfTime) -> Option<f64> {
    Some(shares(waterfall)?.into_iter().find(|(of, _)| *of == place)?.1)
}

/// Shares of an operation's time that it waits for a processor, and for reads. None if they are
/// unknown.
pub(super) fn waits_and_reads(waterfall: &Waterfall) -> Option<(f64, f64)> {
    Some((waterfall.share(PartOfTime::RunQueue)?, share_of(waterfall, PlaceOfTime::Reads)?))
}

/// Shares of all parts and of the gap, by name: together 1.
pub(super) fn evidence(waterfall: &Waterfall) -> Value {
    let all_us = waterfall.operation_us.unwrap_or_default();
    let parts = waterfall.parts.iter().filter_map(|part| Some((part.part.name(), part.us?)));
    let all = parts.chain(waterfall.gap_us.map(|us| ("gap", us)));
    all.map(|(name, us)| (name.to_owned(), json!(us / all_us))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::waterfall::WaterfallPart;
    use proptest::prelude::*;

    fn waterfall(us: &[Option<f64>], gap_us: f64) -> Waterfall {
        let parts = PartOfTime::ALL.iter().zip(us).map(|(&part, &us)| WaterfallPart {
            part,
            us,
            events: None,
            p99_us: None,
            layer: String::new(),
        });
        let sum: f64 = us.iter().flatten().sum();
        Waterfall {
            operations: 1,
            operation_us: Some(sum + gap_us),
            parts: parts.collect(),
            gap_us: Some(gap_us),
            why_unknown: None,
        }
    }

    proptest! {
        #[test]
        fn places_and_the_gap_add_up_to_the_operation(
            us in prop::collection::vec(prop::option::of(1.0..1e6_f64), PartOfTime::ALL.len()),
            gap in -0.04..0.04_f64,
        ) {
            let sum: f64 = us.iter().flatten().sum();
            prop_assume!(sum > 0.0);
            let all = waterfall(&us, sum * gap);
            let known = shares(&all).unwrap();
            let gap = all.gap_us.unwrap() / all.operation_us.unwrap();
            let together: f64 = known.iter().map(|(_, share)| share).sum::<f64>() + gap;
            prop_assert!((together - 1.0).abs() < 1e-9, "{together}");
            let named: f64 =
                evidence(&all).as_object().unwrap().values().filter_map(Value::as_f64).sum();
            prop_assert!((named - 1.0).abs() < 1e-9, "{named}");
            let [(_, most), ..] = largest_first(&all).unwrap();
            prop_assert!(known.iter().all(|(_, share)| *share <= most));
        }
    }

    #[test]
    fn a_large_gap_hides_where_the_time_goes() {
        let us: Vec<Option<f64>> = PartOfTime::ALL.map(|_| Some(10.0)).into();
        assert!(shares(&waterfall(&us, 4.0)).is_some());
        assert_eq!(shares(&waterfall(&us, 6.0)), None);
        assert_eq!(shares(&Waterfall::unknown("no rights")), None);
    }
}
