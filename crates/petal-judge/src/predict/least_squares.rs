//! Least squares: linear equations, and parameters of a model by Levenberg's damped steps.

/// Most steps towards the least error.
const STEPS_MAX: usize = 20;
/// A step that lowers the error by a smaller share is the last.
const PROGRESS_MIN: f64 = 1e-3;
/// The largest change of a parameter in a step: parameters are logarithms.
const STEP_MAX: f64 = 2.0;
/// Change of a parameter that shows the slope.
const SLOPE_STEP: f64 = 1e-4;

/// Solves equations by Gauss's elimination; each row ends with its right side. None if a pivot is
/// zero: the matrices here are symmetric and positive.
pub(super) fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    for pivot in 0..rows.len() {
        let head = Some(rows[pivot][pivot]).filter(|head| head.abs() > 1e-12)?;
        let line: Vec<f64> = rows[pivot].iter().map(|value| value / head).collect();
        for (at, other) in rows.iter_mut().enumerate() {
            let factor = other[pivot];
            if at != pivot {
                other.iter_mut().zip(&line).for_each(|(value, own)| *value -= factor * own);
            }
        }
        rows[pivot] = line;
    }
    rows.into_iter().map(|row| row.last().copied()).collect()
}

/// Normal equations of the weights with which the columns of each row give its goal.
pub(super) fn normal_equations(rows: &[Vec<f64>], goals: &[f64]) -> Vec<Vec<f64>> {
    let columns = rows.first().map_or(0, Vec::len);
    let product = |i: usize, j: usize| rows.iter().map(|row| row[i] * row[j]).sum::<f64>();
    let goal = |i: usize| rows.iter().zip(goals).map(|(row, goal)| row[i] * goal).sum();
    let equation = |i| (0..columns).map(|j| product(i, j)).chain([goal(i)]).collect();
    (0..columns).map(equation).collect()
}

/// Parameters from `start` on whose residuals have the least sum of squares, with that sum. None if
/// `start` has no residuals.
pub(super) fn minimise(
    residuals: impl Fn(&[f64]) -> Option<Vec<f64>>,
    start: &[f64],
) -> Option<(Vec<f64>, f64)> {
    let sum = |residuals: &[f64]| residuals.iter().map(|value| value * value).sum::<f64>();
    let mut best = start.to_vec();
    let mut errors = residuals(&best)?;
    let mut damping = 1e-2;
    for _ in 0..STEPS_MAX {
        let mut slopes = vec![vec![0.0; best.len()]; errors.len()];
        for at in 0..best.len() {
            let mut moved = best.clone();
            moved[at] += SLOPE_STEP;
            for ((row, after), before) in slopes.iter_mut().zip(residuals(&moved)?).zip(&errors) {
                row[at] = (after - before) / SLOPE_STEP;
            }
        }
        let goals: Vec<f64> = errors.iter().map(|value| -value).collect();
        let equations = normal_equations(&slopes, &goals);
        let lower = (0..8).find_map(|_| {
            let mut damped = equations.clone();
            (0..best.len()).for_each(|at| damped[at][at] = damped[at][at] * (1.0 + damping) + 1e-9);
            let step = solve(damped);
            let moved = |(value, by): (&f64, f64)| value + by.clamp(-STEP_MAX, STEP_MAX);
            let tried = step.map(|step| best.iter().zip(step).map(moved).collect::<Vec<f64>>());
            let found = tried.and_then(|tried| Some((residuals(&tried)?, tried)));
            let found = found.filter(|(after, _)| sum(after) < sum(&errors));
            damping = if found.is_some() { damping / 4.0 } else { damping * 4.0 };
            found
        });
        let Some((after, tried)) = lower else { break };
        let is_last = sum(&errors) - sum(&after) < PROGRESS_MIN * sum(&errors);
        (errors, best) = (after, tried);
        if is_last {
            break;
        }
    }
    Some((best, sum(&errors)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_curve_are_found() {
        let points: Vec<(f64, f64)> = (1..9)
            .map(|n| (f64::from(n), 5.0 * f64::from(n) / (1.0 + 0.2 * f64::from(n))))
            .collect();
        let residuals = |found: &[f64]| {
            let of = |&(n, value): &(f64, f64)| found[0] * n / (1.0 + found[1].exp() * n) - value;
            Some(points.iter().map(of).collect())
        };
        let (found, off) = minimise(residuals, &[1.0, -5.0]).unwrap();
        assert!((found[0] - 5.0).abs() < 1e-4 && (found[1].exp() - 0.2).abs() < 1e-4, "{found:?}");
        assert!(off < 1e-8);
        assert_eq!(minimise(|_| None, &[1.0]), None);
    }

    #[test]
    fn equations_without_an_answer_have_none() {
        assert_eq!(solve(vec![vec![2.0, 0.0, 4.0], vec![0.0, 4.0, 4.0]]), Some(vec![2.0, 1.0]));
        assert_eq!(solve(vec![vec![1.0, 1.0, 1.0], vec![1.0, 1.0, 2.0]]), None);
    }
}
