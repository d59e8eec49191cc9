//! An objective for latency, as people state it: `op.p99=2ms`, `read.avg=500us`. Its grammar lives
//! here; finding the load that meets it does not.

use std::fmt;
use std::str::FromStr;

use petal_host::histogram::BEYOND_PERCENTILE_MIN;

/// Operations, petal's clock: all of them, or one kind.
const OPERATIONS: [&str; 4] = ["op", "select", "scan", "update"];
const OPERATION_FIGURES: [&str; 6] = ["avg", "p50", "p90", "p95", "p99", "p99.9"];
/// Single reads and writes of the data and writes of the log, as the database timed them.
const IO: [&str; 3] = ["read", "write", "log"];
const IO_FIGURES: [&str; 3] = ["avg", "p50", "p99"];
const UNITS: [(&str, f64); 3] = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];

/// A latency that is not to be exceeded.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// Text as it was written.
    text: String,
    /// The figure's name among those of an observation, such as `op_p99_us`.
    metric: String,
    /// Operation and its figure, such as `op` and `p99`.
    operation: Option<(String, String)>,
    pub limit_us: f64,
}

impl Objective {
    /// The figure that it limits, among those of an observation. Of operations in an open loop it
    /// is the time since they were due: who waits for one waits in the queue before it, too.
    pub fn figure(&self, figure: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        let Some((event, of)) = &self.operation else { return figure(&self.metric) };
        let mut kinds = OPERATIONS.iter().map(|kind| figure(&format!("{kind}_response_mean_us")));
        match kinds.any(|mean| mean.is_some()) {
            true => figure(&format!("{event}_response_{of}_us")),
            false => figure(&self.metric),
        }
    }

    /// Returns the reason why an objective is not judged: its figure is unknown.
    pub fn why_unknown(&self) -> String {
        let name = self.text.split_once('=').map_or(self.text.as_str(), |(name, _)| name.trim());
        let few = match self.percentile() {
            Some(percentile) => {
                let least = (BEYOND_PERCENTILE_MIN * 100.0 / (100.0 - percentile)).round();
                format!("; petal reports p{percentile} from {least} values on")
            }
            None => String::new(),
        };
        format!("{self} is not judged: no {name} is known{few}")
    }

    /// Returns the percentile that is limited, 0 to 100; None of a mean.
    fn percentile(&self) -> Option<f64> {
        let (_, figure) = self.text.split_once('=')?.0.trim().split_once('.')?;
        figure.strip_prefix('p')?.parse().ok()
    }

    /// True of a figure within the limit, in microseconds.
    pub fn is_met(&self, value_us: f64) -> bool {
        value_us <= self.limit_us
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Objective {
    /// Why a text is no objective.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why: &str| {
            let example = "write EVENT.FIGURE=TIME, such as op.p99=2ms or read.avg=500us";
            format!("{text:?} {why}; {example}")
        };
        let lower = text.trim().to_ascii_lowercase();
        let (figure, time) = lower.split_once('=').ok_or_else(|| wrong("sets no limit"))?;
        let (event, figure) = figure
            .trim()
            .split_once('.')
            .ok_or_else(|| wrong("does not say which figure is limited"))?;
        let (figures, is_operation): (&[&str], bool) = if OPERATIONS.contains(&event) {
            (&OPERATION_FIGURES, true)
        } else if IO.contains(&event) {
            (&IO_FIGURES, false)
        } else {
            let all = [OPERATIONS.as_slice(), &IO].concat().join(", ");
            return Err(wrong(&format!("limits {event:?}, which is not one of {all}")));
        };
        let figure = if figure == "mean" { "avg" } else { figure };
        if !figures.contains(&figure) {
            let known = figures.join(", ");
            return Err(wrong(&format!(
                "limits {figure:?} of {event}, which is not one of {known}"
            )));
        }
        let limit_us = micros(time.trim())
            .filter(|us| us.is_finite())
            .ok_or_else(|| wrong("has no time above zero in us, ms or s"))?;
        let of = match figure {
            "avg" => "mean".to_owned(),
            figure => figure.replace('.', "_"),
        };
        let metric = match (figure, is_operation) {
            ("avg", false) => format!("{event}_us"),
            _ => format!("{event}_{of}_us"),
        };
        let operation = is_operation.then(|| (event.to_owned(), of));
        Ok(Self { text: lower.clone(), metric, operation, limit_us })
    }
}

/// A time above zero, such as 500us, 2ms or 1s, in microseconds.
pub fn micros(time: &str) -> Option<f64> {
    let (digits, factor) =
        UNITS.into_iter().find_map(|(unit, factor)| Some((time.strip_suffix(unit)?, factor)))?;
    let value: f64 = digits.trim().parse().ok()?;
    Some(value * factor).filter(|us| *us > 0.0 && us.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_forms_are_read() {
        let read = |text: &str| {
            let objective: Objective = text.parse().unwrap();
            (objective.metric, objective.limit_us)
        };
        assert_eq!(read("op.p99=2ms"), ("op_p99_us".to_owned(), 2000.0));
        assert_eq!(read(" READ.avg = 500us "), ("read_us".to_owned(), 500.0));
        assert_eq!(read("update.p99.9=0.5s"), ("update_p99_9_us".to_owned(), 500_000.0));
        assert_eq!(read("select.mean=1.5ms"), ("select_mean_us".to_owned(), 1500.0));
        assert_eq!(read("log.p50=80us"), ("log_p50_us".to_owned(), 80.0));
        let objective: Objective = "op.p99=2ms".parse().unwrap();
        assert!(objective.is_met(2000.0) && !objective.is_met(2000.1));
        assert_eq!(objective.to_string(), "op.p99=2ms");
    }

    #[test]
    fn in_an_open_loop_operations_are_limited_from_when_they_were_due() {
        let of = |text: &str, known: &[(&str, f64)]| {
            let objective: Objective = text.parse().unwrap();
            objective.figure(|name| known.iter().find(|known| known.0 == name).map(|known| known.1))
        };
        let closed = [("op_p99_us", 10.0), ("update_mean_us", 4.0), ("read_us", 2.0)];
        assert_eq!(of("op.p99=2ms", &closed), Some(10.0));
        assert_eq!(of("update.avg=2ms", &closed), Some(4.0));
        let due = [("op_response_p99_us", 90.0), ("op_response_mean_us", 30.0)];
        let open = [closed.as_slice(), &due].concat();
        assert_eq!(of("op.p99=2ms", &open), Some(90.0));
        assert_eq!(of("read.avg=2ms", &open), Some(2.0));
        assert_eq!(of("update.avg=2ms", &open), None, "the time in the queue is not known");
    }

    #[test]
    fn an_objective_without_its_figure_says_why_it_is_not_judged() {
        let why = |text: &str| text.parse::<Objective>().unwrap().why_unknown();
        insta::assert_snapshot!(why("op.p99.9=2ms"), @"op.p99.9=2ms is not judged: no op.p99.9 is known; petal reports p99.9 from 10000 values on");
        insta::assert_snapshot!(why("select.p50=2ms"), @"select.p50=2ms is not judged: no select.p50 is known; petal reports p50 from 20 values on");
        insta::assert_snapshot!(why("log.avg=2ms"), @"log.avg=2ms is not judged: no log.avg is known");
    }

    #[test]
    fn an_unreadable_objective_lists_the_valid_forms() {
        let why = |text: &str| text.parse::<Objective>().unwrap_err().to_string();
        insta::assert_snapshot!(why("op.p99"), @r#""op.p99" sets no limit; write EVENT.FIGURE=TIME, such as op.p99=2ms or read.avg=500us"#);
        insta::assert_snapshot!(why("2ms=op"), @r#""2ms=op" does not say which figure is limited; write EVENT.FIGURE=TIME, such as op.p99=2ms or read.avg=500us"#);
        insta::assert_snapshot!(why("reads.p99=2ms"), @r#""reads.p99=2ms" limits "reads", which is not one of op, select, scan, update, read, write, log; write EVENT.FIGURE=TIME, such as op.p99=2ms or read.avg=500us"#);
        insta::assert_snapshot!(why("read.p95=2ms"), @r#""read.p95=2ms" limits "p95" of read, which is not one of avg, p50, p99; write EVENT.FIGURE=TIME, such as op.p99=2ms or read.avg=500us"#);
        for time in ["2", "ms", "-2ms", "0us", "2m", "µs", "infs", "nanms"] {
            let text = format!("op.p99={time}");
            assert!(why(&text).contains("no time above zero"), "{text}");
        }
    }
}
