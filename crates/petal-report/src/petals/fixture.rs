//! Petals of a made-up array for tests: a closed loop over a device that saturates, and a
//! processor that runs out with the last doubling.

use petal_judge::petals::{AfterPeak, BendBack, Estimate, Limit, Noise, PetalLine, Petals, Point};
use petal_record::observation::metric;

pub const SESSIONS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

fn estimate(mean: f64, noise: f64) -> Option<Estimate> {
    Some(Estimate {
        values: vec![mean * (1.0 - noise), mean, mean * (1.0 + noise)],
        mean,
        deviation: Some(mean * noise),
        half_width: Some(mean * noise * 2.484),
        ..Estimate::default()
    })
}

fn point(sessions: u32, update_pct: u32, block: f64, speed: f64) -> Point {
    let n = f64::from(sessions);
    let base = 90.0 + f64::from(update_pct) * 2.2;
    let most = 100_000.0 * speed / (1.0 + f64::from(update_pct) / 40.0) / (1.0 + block / 32_768.0);
    let free = n / base * 1e6;
    let mut piops = free * most / (free.powf(1.6) + most.powf(1.6)).powf(1.0 / 1.6);
    let mut read_us = n / piops * 1e6;
    if sessions > 64 {
        piops *= 0.86;
        read_us *= 0.63;
    }
    let noise = if sessions > 16 { 0.02 } else { 0.006 };
    let mut point = Point {
        sessions,
        sources: vec![format!("cells/{update_pct}-{sessions}")],
        active_bytes: Some(1 << 33),
        piops: estimate(piops, noise),
        mb_s: estimate(piops * block / 1e6, noise),
        read_us: estimate(read_us, noise),
        ops_s: estimate(piops / 64.0, noise),
        op_p50_us: estimate(read_us * 61.0, noise),
        op_p99_us: estimate(read_us * 140.0, noise * 2.0),
        ..Point::default()
    };
    let figures = [
        (metric::PIOPS, &point.piops),
        (metric::MB, &point.mb_s),
        (metric::READ_US, &point.read_us),
        (metric::OPS, &point.ops_s),
        (metric::OP_P50, &point.op_p50_us),
        (metric::OP_P99, &point.op_p99_us),
    ];
    let mean = |(name, estimate): (&str, &Option<Estimate>)| {
        Some((name.to_owned(), estimate.as_ref()?.mean))
    };
    point.means = figures.into_iter().filter_map(mean).collect();
    point
}

fn line(
    name: &str,
    factors: &[(&str, &str)],
    update_pct: u32,
    block: f64,
    speed: f64,
) -> PetalLine {
    let bend = BendBack {
        at: 7,
        cause: "processor".into(),
        evidence: vec!["processors 98.2 % busy at 128 sessions".into()],
    };
    let points: Vec<Point> =
        SESSIONS.iter().map(|&sessions| point(sessions, update_pct, block, speed)).collect();
    PetalLine {
        name: name.to_owned(),
        factors: factors.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        points,
        peak: Some(6),
        knee: Some(3),
        after_peak: Some(AfterPeak { at: 7, lower_by: 0.1, noise: Noise::Beyond }),
        limit: Some(Limit { cause: bend.cause.clone(), evidence: bend.evidence.clone() }),
        bend_back: Some(bend),
        ..PetalLine::default()
    }
}

/// UPDATE_PCT 0, 10, 20 and 30.
pub fn petals() -> Petals {
    let lines = [0, 10, 20, 30].map(|percent| {
        let value = percent.to_string();
        line(&format!("UPDATE_PCT {percent}"), &[("update_pct", &value)], percent, 8192.0, 1.0)
    });
    Petals {
        lines: lines.into(),
        notes: vec!["cells of 64 sessions and more hold another active data set".into()],
        ..Petals::default()
    }
}

/// Two targets by two UPDATE_PCT.
pub fn overlay() -> Petals {
    let mut lines = Vec::new();
    for (db, speed) in [("postgres://old", 0.7), ("postgres://new", 1.25)] {
        for percent in [0, 20] {
            let value = percent.to_string();
            let name = format!("{db}, UPDATE_PCT {percent}");
            let factors = [("update_pct", value.as_str()), ("db", db)];
            lines.push(line(&name, &factors, percent, 8192.0, speed));
        }
    }
    Petals { lines, ..Petals::default() }
}
