//! Predicts PIOPS and read latency at numbers of sessions that were not measured, from a line of a
//! sweep. Each family of curves predicts cells that it has not seen; the one with the least error
//! is used, and its error is part of the answer. A line that no family fits is not predicted.

use serde::Serialize;

use crate::estimate::{mean, median};
use crate::petals::{PetalLine, Petals};
use petal_model::numbers::{counted, decimal};

/// Fewest cells: three make a curve, and one more tests it.
const CELLS_MIN: usize = 4;
/// The largest median error of held-out cells with which a line is predicted.
const ERROR_MAX: f64 = 0.2;
/// The largest step beyond the measured sessions, as a factor.
const BEYOND_MAX: f64 = 2.0;

/// A family of curves of throughput over sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Straight lines between neighbouring cells, by the logarithms.
    Interpolation,
    /// Universal scalability law (Gunther 1993): waiting for a shared resource, and crosstalk that
    /// grows with each pair of sessions.
    Usl,
}

impl Family {
    pub const ALL: [Self; 2] = [Self::Interpolation, Self::Usl];

    pub fn words(self) -> &'static str {
        match self {
            Self::Interpolation => "interpolation",
            Self::Usl => "USL",
        }
    }

    fn fit(self, cells: &[CellFigures]) -> Option<FittedCurve> {
        match self {
            Self::Interpolation => (cells.len() > 1).then(|| FittedCurve::Points(cells.to_vec())),
            Self::Usl => fit_usl(cells),
        }
    }
}

/// A measured cell.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CellFigures {
    sessions: f64,
    piops: f64,
    /// Share of the sessions' time that reads take, by Little's law: PIOPS times read latency over
    /// the sessions. Unknown without read latency.
    in_reads: Option<f64>,
}

enum FittedCurve {
    Points(Vec<CellFigures>),
    /// Throughput of one session, waiting, crosstalk.
    Usl([f64; 3]),
}

impl FittedCurve {
    fn piops(&self, sessions: f64) -> Option<f64> {
        match self {
            Self::Points(cells) => between(cells, sessions, |cell| Some(cell.piops)),
            Self::Usl([one, waiting, crosstalk]) => {
                let slower = 1.0 + waiting * (sessions - 1.0);
                Some(one * sessions / (slower + crosstalk * sessions * (sessions - 1.0)))
            }
        }
    }
}

/// A figure between two cells, by the logarithms. None beyond the cells.
fn between(
    cells: &[CellFigures],
    sessions: f64,
    figure: impl Fn(&CellFigures) -> Option<f64>,
) -> Option<f64> {
    let pair =
        cells.windows(2).find(|pair| (pair[0].sessions..=pair[1].sessions).contains(&sessions))?;
    let (low, high) = (figure(&pair[0])?, figure(&pair[1])?);
    let share = (sessions / pair[0].sessions).ln() / (pair[1].sessions / pair[0].sessions).ln();
    Some(low * (high / low).powf(share))
}

/// The law through cells by least squares of relative errors: sessions over throughput is linear in
/// its three parameters. A parameter that would be negative is zero. None under three cells.
fn fit_usl(cells: &[CellFigures]) -> Option<FittedCurve> {
    if cells.len() < 3 {
        return None;
    }
    let columns = |cell: &CellFigures| {
        let n = cell.sessions;
        [1.0, n - 1.0, n * (n - 1.0)].map(|column| column * cell.piops / n)
    };
    let rows: Vec<[f64; 3]> = cells.iter().map(columns).collect();
    let off = |found: &[f64; 3]| -> f64 {
        let errors = rows.iter().map(|row| {
            row.iter().zip(found).map(|(value, weight)| value * weight).sum::<f64>() - 1.0
        });
        errors.map(|error| error * error).sum()
    };
    let fits = [[true, true], [true, false], [false, true], [false, false]].into_iter();
    let fits = fits.filter_map(|[waiting, crosstalk]| solve(&rows, [true, waiting, crosstalk]));
    let possible = fits.filter(|found| found[0] > 0.0 && found.iter().all(|value| *value >= 0.0));
    let [first, second, third] = possible.min_by(|a, b| off(a).total_cmp(&off(b)))?;
    Some(FittedCurve::Usl([1.0 / first, second / first, third / first]))
}

/// Weights of the chosen columns with which each row is nearest to one (normal equations, by
/// Gauss's elimination).
fn solve(rows: &[[f64; 3]], is_chosen: [bool; 3]) -> Option<[f64; 3]> {
    let mut system = [[0.0; 4]; 3];
    for (i, line) in system.iter_mut().enumerate() {
        let sums = |j: usize| -> f64 { rows.iter().map(|row| row[i] * row[j]).sum() };
        match is_chosen[i] {
            true => {
                let other = |j: usize| if is_chosen[j] { sums(j) } else { 0.0 };
                *line = [other(0), other(1), other(2), rows.iter().map(|row| row[i]).sum()];
            }
            false => line[i] = 1.0,
        }
    }
    for pivot in 0..3 {
        let head = Some(system[pivot][pivot]).filter(|head| head.abs() > 1e-12)?;
        let line = system[pivot].map(|value| value / head);
        system[pivot] = line;
        for (at, other) in system.iter_mut().enumerate() {
            let factor = other[pivot];
            if at != pivot {
                other.iter_mut().zip(line).for_each(|(value, own)| *value -= factor * own);
            }
        }
    }
    Some(system.map(|line| line[3]))
}

/// The errors of a family on cells that it was not fitted to, as shares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldOut {
    pub family: Family,
    /// Median and largest error between the fewest and the most sessions, each cell held out once.
    pub median: f64,
    pub largest: f64,
    /// Error at the most sessions, from the other cells; None for interpolation.
    pub beyond: Option<f64>,
}

/// A number of sessions with its prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictedCell {
    pub sessions: u32,
    /// Predicted without this cell, if it was measured.
    pub piops: Option<f64>,
    pub read_us: Option<f64>,
    pub measured_piops: Option<f64>,
    /// The family that predicts it: beyond the cells always USL. None without a prediction.
    pub family: Option<Family>,
    /// Reason for an unknown prediction.
    pub unknown: Option<String>,
}

/// Prediction of one line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictedLine {
    pub name: String,
    /// Number of measured cells.
    pub cells: usize,
    /// Families that have enough cells.
    pub held_out: Vec<HeldOut>,
    /// The family with the least error; None if the line is not predicted.
    pub used: Option<Family>,
    /// Reason why the line is not predicted.
    pub refused: Option<String>,
    pub predicted: Vec<PredictedCell>,
}

/// Predicts each line, at the measured sessions and at `asked`.
pub fn predict(petals: &Petals, asked: &[u32]) -> Vec<PredictedLine> {
    petals.lines.iter().map(|line| predict_line(line, asked)).collect()
}

fn predict_line(line: &PetalLine, asked: &[u32]) -> PredictedLine {
    let cells: Vec<CellFigures> = line
        .points
        .iter()
        .filter_map(|point| {
            let piops = point.piops.as_ref()?.mean;
            let sessions = f64::from(point.sessions);
            let in_reads = point.read_us.as_ref().map(|read| piops * read.mean / 1e6 / sessions);
            (piops > 0.0).then_some(CellFigures { sessions, piops, in_reads })
        })
        .collect();
    let held_out: Vec<HeldOut> =
        Family::ALL.into_iter().filter_map(|family| hold_out(family, &cells)).collect();
    let best = held_out.iter().min_by(|a, b| a.median.total_cmp(&b.median));
    let mut predicted = PredictedLine {
        name: line.name.clone(),
        cells: cells.len(),
        held_out: held_out.clone(),
        used: None,
        refused: None,
        predicted: Vec::new(),
    };
    predicted.refused = match best {
        None => Some(format!(
            "it has {} with PIOPS; a prediction and its test take {CELLS_MIN}: name a sweep with more \
             session counts, or a folder of such runs",
            counted(cells.len() as u64, "cell")
        )),
        Some(best) if best.median > ERROR_MAX => Some(format!(
            "PIOPS do not follow a smooth curve: the better family, {}, has a median error of {} % \
             on held-out cells, more than {:.0} %; add repeats, or cells between the present ones",
            best.family.words(),
            decimal(100.0 * best.median, 0),
            100.0 * ERROR_MAX,
        )),
        Some(_) => None,
    };
    let Some(best) = best.filter(|_| predicted.refused.is_none()) else { return predicted };
    predicted.used = Some(best.family);
    let measured = cells.iter().map(|cell| cell.sessions as u32);
    let mut sessions: Vec<u32> = measured.chain(asked.iter().copied()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let usl = held_out.iter().find(|held| held.family == Family::Usl);
    let one = |sessions| predict_cell(sessions, &cells, best.family, usl);
    predicted.predicted = sessions.into_iter().map(one).collect();
    predicted
}

/// Errors of a family on cells that it has not seen. None under [`CELLS_MIN`] cells.
fn hold_out(family: Family, cells: &[CellFigures]) -> Option<HeldOut> {
    if cells.len() < CELLS_MIN {
        return None;
    }
    let error = |at: usize| {
        let cell = &cells[at];
        let piops = family.fit(&without(cells, cell.sessions))?.piops(cell.sessions)?;
        Some((piops / cell.piops - 1.0).abs())
    };
    let last = cells.len() - 1;
    let errors: Option<Vec<f64>> = (1..last).map(error).collect();
    let errors = errors?;
    Some(HeldOut {
        family,
        median: median(&errors)?,
        largest: errors.iter().copied().fold(0.0, f64::max),
        beyond: error(last),
    })
}

fn without(cells: &[CellFigures], sessions: f64) -> Vec<CellFigures> {
    cells.iter().filter(|cell| cell.sessions != sessions).copied().collect()
}

fn predict_cell(
    sessions: u32,
    cells: &[CellFigures],
    family: Family,
    usl: Option<&HeldOut>,
) -> PredictedCell {
    let at = f64::from(sessions);
    let measured = cells.iter().find(|cell| cell.sessions == at);
    let others = without(cells, at);
    let ends = others.first().zip(others.last());
    let is_inside = ends.is_some_and(|(low, high)| (low.sessions..=high.sessions).contains(&at));
    let family = if is_inside { Ok(family) } else { family_beyond_cells(at, &others, usl) };
    let piops = family.as_ref().ok().and_then(|family| family.fit(&others)?.piops(at));
    // Beyond the cells the share of the nearest one holds.
    let nearest = || match ends {
        Some((low, _)) if at < low.sessions => low.in_reads,
        ends => ends.and_then(|(_, high)| high.in_reads),
    };
    let in_reads = between(&others, at, |cell| cell.in_reads).or_else(nearest);
    PredictedCell {
        sessions,
        piops,
        read_us: piops.zip(in_reads).map(|(piops, share)| share * at * 1e6 / piops),
        measured_piops: measured.map(|cell| cell.piops),
        family: family.as_ref().ok().copied().filter(|_| piops.is_some()),
        unknown: family.err(),
    }
}

/// The family that predicts beyond the cells, or the reason why none does.
fn family_beyond_cells(
    at: f64,
    cells: &[CellFigures],
    usl: Option<&HeldOut>,
) -> Result<Family, String> {
    let last = cells.last().map_or(0.0, |cell| cell.sessions);
    if at < last {
        return Err("below all other cells".to_owned());
    }
    if at > last * BEYOND_MAX {
        return Err(format!("over twice {last} sessions"));
    }
    match usl.and_then(|usl| usl.beyond) {
        Some(off) if off <= ERROR_MAX => Ok(Family::Usl),
        Some(off) => Err(format!("USL is off by {} % at the end", decimal(100.0 * off, 0))),
        None => Err("USL does not fit".to_owned()),
    }
}

/// Held-out errors of a family over the lines that have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorOverLines {
    pub lines: usize,
    /// Median and mean of the lines' medians.
    pub median: f64,
    pub mean: f64,
}

/// Returns the errors of a family over several lines; None if fewer than two lines have it.
pub fn over_lines(lines: &[PredictedLine], family: Family) -> Option<ErrorOverLines> {
    let held = lines.iter().flat_map(|line| &line.held_out).filter(|held| held.family == family);
    let medians: Vec<f64> = held.map(|held| held.median).collect();
    let lines = Some(medians.len()).filter(|lines| *lines > 1)?;
    Some(ErrorOverLines { lines, median: median(&medians)?, mean: mean(&medians)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::petals::{Estimate, Point};

    fn line(cells: &[(u32, f64)]) -> Petals {
        let point = |&(sessions, piops): &(u32, f64)| Point {
            sessions,
            piops: Estimate::of(vec![piops]),
            read_us: Estimate::of(vec![0.8 * f64::from(sessions) * 1e6 / piops]),
            ..Point::default()
        };
        let points = cells.iter().map(point).collect();
        let line = PetalLine { name: "all".to_owned(), points, ..PetalLine::default() };
        Petals { lines: vec![line], ..Petals::default() }
    }

    fn usl(n: u32) -> (u32, f64) {
        let n_f = f64::from(n);
        (n, 1000.0 * n_f / (1.0 + 0.05 * (n_f - 1.0) + 0.001 * n_f * (n_f - 1.0)))
    }

    #[test]
    fn a_line_that_follows_the_law_is_predicted_by_it_also_beyond_its_cells() {
        let petals = line(&[1, 2, 4, 8, 16, 32].map(usl));
        let [found] = predict(&petals, &[12, 64, 128]).try_into().unwrap();
        assert_eq!((found.used, &found.refused), (Some(Family::Usl), &None));
        let of =
            |sessions: u32| found.predicted.iter().find(|cell| cell.sessions == sessions).unwrap();
        for sessions in [4, 12, 64] {
            let (_, piops) = usl(sessions);
            assert!((of(sessions).piops.unwrap() / piops - 1.0).abs() < 1e-6, "{sessions}");
            let read_us = 0.8 * f64::from(sessions) * 1e6 / piops;
            assert!((of(sessions).read_us.unwrap() / read_us - 1.0).abs() < 1e-6);
        }
        assert_eq!(of(4).measured_piops, Some(usl(4).1));
        assert_eq!(of(128).piops, None);
        assert_eq!(of(128).unknown.as_deref(), Some("over twice 32 sessions"));
        assert!(of(1).piops.is_none() && of(1).unknown.is_some());
    }

    /// A line whose slope never changes has no USL: interpolation wins, and predicts nothing beyond.
    #[test]
    fn interpolation_is_used_where_it_has_the_least_error() {
        let power = |n: u32| (n, 1000.0 * f64::from(n).powf(0.5));
        let [found] = predict(&line(&[1, 4, 16, 64].map(power)), &[8]).try_into().unwrap();
        assert_eq!(found.used, Some(Family::Interpolation));
        assert!(found.predicted.iter().all(|cell| cell.family.is_some() == cell.piops.is_some()));
        let cell = found.predicted.iter().find(|cell| cell.sessions == 8).unwrap();
        assert!((cell.piops.unwrap() / power(8).1 - 1.0).abs() < 1e-9);
        let [short] = predict(&line(&[1, 2].map(power)), &[]).try_into().unwrap();
        let lines = [found.clone(), short.clone(), found];
        let over = over_lines(&lines, Family::Interpolation).unwrap();
        assert!(over.lines == 2 && over.median < 1e-9, "a line without errors does not count");
        assert_eq!(over_lines(&lines[1..], Family::Interpolation), None, "of one line");
    }

    #[test]
    fn a_line_without_a_smooth_curve_or_enough_cells_is_refused() {
        let rough = [(1, 100.0), (2, 900.0), (4, 150.0), (8, 1200.0), (16, 200.0)];
        let [found] = predict(&line(&rough), &[3]).try_into().unwrap();
        let why = found.refused.unwrap();
        assert!(
            why.starts_with("PIOPS do not follow a smooth curve") && found.predicted.is_empty()
        );
        let [found] = predict(&line(&[1, 2, 4].map(usl)), &[]).try_into().unwrap();
        assert!(found.refused.unwrap().starts_with("it has 3 cells"));
        assert!(found.held_out.is_empty());
    }
}
