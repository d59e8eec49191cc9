//! `--max-latency`: the most requests per second under a bound.

use petal_host::histogram::LatencySummary;
use petal_record::calibration::{Calibration, FDATASYNC, LOG, MIX, READ, Under, WRITE};
use petal_settings::objective::micros;

#[derive(Debug, Clone)]
pub struct LatencyBound {
    pub text: String,
    pub curve: &'static str,
    pub figure: fn(&LatencySummary) -> Option<f64>,
    pub us_max: f64,
}

impl LatencyBound {
    /// Parses a bound such as `read.p99=10ms`. The error is the rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "is not CURVE.FIGURE=TIME, such as read.p99=10ms";
        let (what, time) = text.split_once('=').ok_or(FORM)?;
        let (curve, figure) = what.trim().split_once('.').ok_or(FORM)?;
        let curve = [READ, WRITE, MIX, LOG].into_iter().find(|known| *known == curve);
        let curve = curve.ok_or("has no such curve: read, write, mix or log")?;
        let figure: fn(&LatencySummary) -> Option<f64> = match figure {
            "mean" => |latency| latency.mean,
            "p50" => |latency| latency.p50,
            "p99" => |latency| latency.p99,
            _ => return Err("has no such figure: mean, p50 or p99"),
        };
        let us_max = micros(time.trim()).ok_or("has no such time: 250us, 10ms or 1s")?;
        Ok(Self { text: text.to_owned(), curve, figure, us_max })
    }
}

/// The most requests per second under a bound, of the points that were measured: nothing between
/// two of them is claimed.
pub fn under(bound: &LatencyBound, calibration: &Calibration) -> Under {
    let curve = match bound.curve {
        LOG => calibration.log_curves.get(FDATASYNC),
        name => calibration.curves.get(name),
    };
    let points = curve.map_or(&[][..], Vec::as_slice);
    let within = points
        .iter()
        .filter(|point| (bound.figure)(&point.latency_us).is_some_and(|us| us <= bound.us_max))
        .max_by(|a, b| a.iops.total_cmp(&b.iops));
    Under {
        bound: bound.text.clone(),
        iops: within.map(|point| point.iops),
        depth: within.map(|point| point.depth),
        latency_us: within.and_then(|point| (bound.figure)(&point.latency_us)),
        unknown: points.iter().all(|point| (bound.figure)(&point.latency_us).is_none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture::calibration;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_upsets_the_bounds(text in "\\PC{0,24}") {
            let _ = LatencyBound::parse(&text);
        }
    }

    #[test]
    fn bounds_are_read_and_the_most_under_them_is_found() {
        let bound = LatencyBound::parse("read.p99=0.5ms").unwrap();
        let latency = LatencySummary { p99: Some(7.0), ..LatencySummary::default() };
        assert_eq!((bound.curve, bound.us_max), (READ, 500.0));
        assert_eq!((bound.figure)(&latency), Some(7.0));
        let found = under(&bound, &calibration());
        assert_eq!(
            (found.iops, found.depth, found.latency_us),
            (Some(4000.0), Some(4), Some(200.0))
        );
        assert_eq!(under(&LatencyBound::parse("mix.p99=50us").unwrap(), &calibration()).iops, None);
        for (text, rule) in [
            ("read.p99", "is not CURVE"),
            ("reads.p99=1ms", "no such curve"),
            ("read.p98=1ms", "no such figure"),
            ("read.p99=10", "no such time"),
            ("read.p99=-1ms", "no such time"),
        ] {
            assert!(LatencyBound::parse(text).unwrap_err().contains(rule), "{text}");
        }
    }
}
