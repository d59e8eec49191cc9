//! A closed queueing network in product form: a fixed number of sessions, each at one station or
//! between operations. Solved exactly by convolution (Buzen 1973), which gives the throughput of
//! exact mean value analysis (Reiser and Lavenberg 1980) without its unstable probabilities.

/// Most sessions of a network: larger sums leave the range of a float.
pub const SESSIONS_MAX: usize = 256;

/// A resource whose speed depends on the number of operations there.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceQueue {
    /// Service time of an operation at speed 1.
    demand: f64,
    /// Speeds with 1, 2, ... operations; the last holds for more.
    speeds: Vec<f64>,
}

impl ServiceQueue {
    pub fn of(demand: f64, speeds: Vec<f64>) -> Self {
        Self { demand, speeds }
    }

    /// Several equal servers. With less than one, each operation takes longer.
    pub fn servers(demand: f64, servers: f64) -> Self {
        let count = servers.ceil().clamp(1.0, SESSIONS_MAX as f64) as u32;
        Self::of(demand, (1..=count).map(|at| f64::from(at).min(servers)).collect())
    }

    fn fastest(&self) -> f64 {
        self.speeds.iter().copied().fold(0.0, f64::max)
    }

    /// Service time with so many operations there.
    fn time(&self, operations: usize) -> f64 {
        let at = operations.min(self.speeds.len()).saturating_sub(1);
        self.demand / self.speeds.get(at).copied().unwrap_or(1.0)
    }
}

/// Operations per unit of time with 1, 2, ... up to `sessions` sessions, each of which passes all
/// queues and the delay in every operation. Empty above [`SESSIONS_MAX`], and if the times are no
/// times.
pub fn throughput(delay: f64, queues: &[ServiceQueue], sessions: usize) -> Vec<f64> {
    let total = delay + queues.iter().map(|queue| queue.demand).sum::<f64>();
    if sessions > SESSIONS_MAX || !(total > 0.0 && total.is_finite()) {
        return Vec::new();
    }
    // About the throughput of all sessions, so that the sums stay near 1.
    let limits = queues.iter().filter(|it| it.demand > 0.0).map(|it| it.fastest() / it.demand);
    let unit = limits.fold(sessions as f64 / total, f64::min);
    let mut sums = vec![1.0; sessions + 1];
    for at in 1..=sessions {
        sums[at] = sums[at - 1] * delay * unit / at as f64;
    }
    for queue in queues.iter().filter(|queue| queue.demand > 0.0) {
        sums = with_queue(&sums, queue, unit);
    }
    let found: Vec<f64> = sums.windows(2).map(|pair| unit * pair[0] / pair[1]).collect();
    if found.iter().all(|value| value.is_finite()) { found } else { Vec::new() }
}

/// The normalising sums with one more queue.
fn with_queue(sums: &[f64], queue: &ServiceQueue, unit: f64) -> Vec<f64> {
    let changing = queue.speeds.len().min(sums.len());
    let mut weights = vec![1.0];
    for at in 1..=changing {
        weights.push(weights[at - 1] * queue.time(at) * unit);
    }
    // From the last speed on each weight is the one before times the same factor.
    let (last, factor) = (weights[changing], queue.time(changing) * unit);
    let mut rest = 0.0;
    let sum = |at: usize| {
        rest = rest * factor + at.checked_sub(changing).map_or(0.0, |from| last * sums[from]);
        let of = weights[..changing].iter().zip(sums[..=at].iter().rev());
        rest + of.map(|(weight, sum)| weight * sum).sum::<f64>()
    };
    (0..sums.len()).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 1e-9
    }

    /// Exact mean value analysis of single servers.
    fn by_mean_values(delay: f64, demands: &[f64], sessions: usize) -> Vec<f64> {
        let mut waiting = vec![0.0; demands.len()];
        let mut found = Vec::new();
        for n in 1..=sessions {
            let times: Vec<f64> = demands
                .iter()
                .zip(&waiting)
                .map(|(demand, queue)| demand * (1.0 + queue))
                .collect();
            let rate = n as f64 / (delay + times.iter().sum::<f64>());
            waiting = times.iter().map(|time| rate * time).collect();
            found.push(rate);
        }
        found
    }

    #[test]
    fn one_queue_is_a_machine_repair_model() {
        let (think, demand) = (8.0, 0.5);
        let found = throughput(think, &[ServiceQueue::servers(demand, 1.0)], 40);
        for n in [1usize, 7, 40] {
            // Idle share of M/M/1//N: one over the sum of N!/(N-k)! (D/Z)^k.
            let (mut term, mut sum) = (1.0, 1.0);
            for k in 0..n {
                term *= (n - k) as f64 * demand / think;
                sum += term;
            }
            assert!(near(found[n - 1], (1.0 - 1.0 / sum) / demand), "{n}");
        }
    }

    #[test]
    fn equal_queues_share_the_sessions() {
        let queues = vec![ServiceQueue::servers(0.2, 1.0); 3];
        let found = throughput(0.0, &queues, 30);
        assert!((1..=30).all(|n| near(found[n - 1], n as f64 / (0.2 * (n + 2) as f64))));
    }

    #[test]
    fn more_sessions_than_a_float_holds_are_refused_and_fewer_are_not() {
        let queues = [ServiceQueue::servers(1.0, 200.0), ServiceQueue::servers(1e-3, 1.0)];
        let found = throughput(1000.0, &queues, SESSIONS_MAX);
        assert_eq!(found.len(), SESSIONS_MAX);
        assert!(throughput(1000.0, &queues, SESSIONS_MAX + 1).is_empty());
        assert!(throughput(0.0, &[], 4).is_empty());
    }

    proptest! {
        #[test]
        fn single_servers_agree_with_mean_value_analysis(
            delay in 0.0f64..10.0,
            demands in prop::collection::vec(0.001f64..2.0, 1..5),
        ) {
            let queues: Vec<ServiceQueue> = demands.iter().map(|&it| ServiceQueue::servers(it, 1.0)).collect();
            let found = throughput(delay, &queues, 50);
            let expected = by_mean_values(delay, &demands, 50);
            prop_assert!(found.iter().zip(&expected).all(|(a, b)| near(*a, *b)));
        }

        #[test]
        fn throughput_is_within_the_asymptotic_bounds(
            delay in 0.0f64..10.0,
            stations in prop::collection::vec((0.001f64..2.0, 0.3f64..20.0), 1..5),
        ) {
            let queues: Vec<ServiceQueue> =
                stations.iter().map(|&(demand, servers)| ServiceQueue::servers(demand, servers)).collect();
            let found = throughput(delay, &queues, 64);
            let alone = delay + queues.iter().map(|queue| queue.time(1)).sum::<f64>();
            let limit = |most: f64, (demand, servers): &(f64, f64)| most.min(servers / demand);
            let most = stations.iter().fold(f64::INFINITY, limit);
            let mut before = 0.0;
            for (rate, n) in found.iter().copied().zip(1u32..) {
                let n = f64::from(n);
                prop_assert!(rate <= (n / alone).min(most) * (1.0 + 1e-9));
                prop_assert!(rate >= 1.0 / alone * (1.0 - 1e-9) && rate >= before * (1.0 - 1e-9));
                before = rate;
            }
        }
    }
}
