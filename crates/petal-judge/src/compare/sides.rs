//! Sides made of the levels of one factor: a sweep over two targets, a table with a column that
//! says before and after.

use super::ComparedSide;
use crate::by_key;
use petal_record::observation::Observation;

impl ComparedSide {
    /// A side for each value of the factor `by`, in the order in which they first appear, or with
    /// `baseline` first. The factor is then no factor any more. An error is a sentence.
    pub fn split(
        source: &str,
        observations: Vec<Observation>,
        by: &str,
        baseline: Option<&str>,
    ) -> Result<Vec<Self>, String> {
        let mut valued = Vec::new();
        for mut seen in observations {
            let Some(value) = super::cells::value(&seen, by) else {
                let (name, known) = (&seen.source, super::cells::known_keys(&[seen.clone()], None));
                let of = if name.is_empty() { source } else { name };
                return Err(format!("--by {by}: {of} does not have it; {known}"));
            };
            seen.factors.retain(|(key, _)| key != by);
            seen.context.remove(by);
            valued.push((value, seen));
        }
        let mut sides = by_key(valued);
        if let Some(baseline) = baseline {
            let at = sides.iter().position(|(value, _)| value == baseline).ok_or_else(|| {
                let known: Vec<&str> = sides.iter().map(|(value, _)| value.as_str()).collect();
                format!(
                    "--baseline {baseline}: {by} never has this value; name one of: {}",
                    known.join(", ")
                )
            })?;
            let first = sides.remove(at);
            sides.insert(0, first);
        }
        match sides.len() {
            0 | 1 => Err(format!(
                "--by {by}: {source} has one value of it only, so there is nothing to compare"
            )),
            _ => {
                let side =
                    |(value, observations)| Self { name: format!("{by} {value}"), observations };
                Ok(sides.into_iter().map(side).collect())
            }
        }
    }
}
