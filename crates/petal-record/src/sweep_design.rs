//! The rule that chooses the cells of a sweep: all of them in each round, or each next one from the
//! figures so far. The choice itself is a judgement; this is its name in a plan, and the session
//! counts that it may choose from.

use serde::{Deserialize, Serialize};

use petal_settings::objective::Objective;

/// Session counts of a design without a list of them.
const SESSIONS: (u32, u32) = (1, 64);
/// Runs of each cell at the peak and around the knee.
const LADDER_REPEATS: u32 = 3;
const SESSIONS_MAX: u32 = 65_536;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Design {
    /// Each cell once a round.
    #[default]
    Grid,
    /// Each number of sessions once, doubled; more runs at peak and knee only.
    Ladder,
    /// The cell that shows most of peak and knee, until both are within `precision`, a share, or a
    /// line has `runs_max` runs.
    Adaptive { precision: f64, runs_max: u32 },
    /// Each cell until its PIOPS are known within `precision`, a share, or it has `runs_max` runs.
    Repeated { precision: f64, runs_max: u32 },
    /// The most sessions that keep a latency, such as `read.p99=2ms`.
    Search { within: String },
}

impl Design {
    pub fn is_grid(&self) -> bool {
        *self == Self::Grid
    }

    /// Returns the name in messages and in the comparison of plans; None of a grid, which has
    /// always been there.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::Grid => None,
            Self::Ladder => Some("ladder"),
            Self::Adaptive { .. } => Some("adaptive"),
            Self::Repeated { .. } => Some("repeated"),
            Self::Search { .. } => Some("search"),
        }
    }

    /// Returns whether the figures of a cell decide how often it is repeated: the interval of a fixed
    /// number of runs is then too narrow.
    pub fn ends_by_figures(&self) -> bool {
        matches!(self, Self::Adaptive { .. } | Self::Repeated { .. })
    }

    /// The latency that a search keeps.
    pub fn objective(&self) -> Option<Objective> {
        let Self::Search { within } = self else { return None };
        within.parse().ok()
    }

    /// The most runs of a cell.
    pub fn repeats(&self, asked: u32) -> u32 {
        match *self {
            Self::Grid => asked,
            Self::Ladder | Self::Search { .. } => asked.max(LADDER_REPEATS),
            Self::Adaptive { runs_max, .. } | Self::Repeated { runs_max, .. } => runs_max,
        }
    }

    /// Returns the list of session counts for `--sessions`: a list is taken as it is, a range
    /// FROM-TO becomes steps of this design. An error is a clause.
    pub fn sessions(&self, asked: Option<&str>) -> Result<Option<String>, String> {
        let steps: &[u32] = match self {
            Self::Grid | Self::Repeated { .. } => return Ok(asked.map(str::to_owned)),
            Self::Ladder => &[2],
            Self::Adaptive { .. } => &[2, 3],
            Self::Search { .. } => &[8, 9, 10, 11, 12, 13, 14, 15],
        };
        let (from, to) = match asked.map(|text| (text, text.split_once('-'))) {
            None => SESSIONS,
            Some((list, None)) => return Ok(Some(list.to_owned())),
            Some((text, Some((from, to)))) => {
                let number = |text: &str| text.trim().parse().ok();
                number(from)
                    .zip(number(to))
                    .filter(|(from, to)| (1..*to).contains(from) && *to <= SESSIONS_MAX)
                    .ok_or_else(|| format!("{text:?} is no range of sessions such as 1-64"))?
            }
        };
        // The first gives the doublings, the others the numbers between them.
        let whole = steps[0];
        let powers =
            (0..=16).flat_map(|power| steps.iter().map(move |step| (step << power) / whole));
        let between = powers.filter(|count| (from + 1..to).contains(count));
        let mut counts: Vec<u32> = between.chain([from, to]).collect();
        counts.sort_unstable();
        counts.dedup();
        let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
        Ok(Some(counts.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_sessions_becomes_the_steps_of_the_design() {
        let of = |design: &Design, asked| design.sessions(asked).map(Option::unwrap_or_default);
        let adaptive = Design::Adaptive { precision: 0.02, runs_max: 16 };
        let expect = |text: &str| Ok(text.to_owned());
        assert_eq!(of(&Design::Ladder, None), expect("1,2,4,8,16,32,64"));
        assert_eq!(of(&Design::Ladder, Some("3-20")), expect("3,4,8,16,20"));
        assert_eq!(of(&adaptive, None), expect("1,2,3,4,6,8,12,16,24,32,48,64"));
        assert_eq!(of(&adaptive, Some("4-10")), expect("4,6,8,10"));
        assert_eq!(of(&adaptive, Some("5,9")), expect("5,9"));
        let search = Design::Search { within: "op.p99=2ms".to_owned() };
        assert_eq!(of(&search, Some("3-20")), expect("3,4,5,6,7,8,9,10,11,12,13,14,15,16,18,20"));
        assert_eq!(of(&Design::Grid, Some("1-4")), expect("1-4"));
        for text in ["4-4", "8-4", "0-4", "1-x", "1-99999999"] {
            assert!(of(&Design::Ladder, Some(text)).is_err(), "{text}");
        }
    }
}
