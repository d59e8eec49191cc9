//! The price of delivered I/O: PRICE_PER_MONTH over the physical I/O of the highest load that an
//! objective for latency admits, or of the peak without one. Pure functions of petals.

use serde::Serialize;

use super::petals::{PetalLine, Petals};
use petal_record::observation::{Observation, metric};
use petal_settings::objective::Objective;

/// The cost of one line of petals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The side of a comparison that the line is of.
    pub side: String,
    pub line: String,
    /// The load that it is of.
    pub sessions: u32,
    pub piops: f64,
    /// The objective within which `piops` are the most; None for the most of all loads.
    pub within: Option<String>,
    pub price_per_month: f64,
    pub per_1000_piops: f64,
}

/// Returns None if the price is unknown, or if no measured load meets the objective.
pub fn of_line(line: &PetalLine, objective: Option<&Objective>) -> Option<Cost> {
    let at = if objective.is_some() { line.within_objective } else { line.peak };
    let point = line.points.get(at?)?;
    let piops = point.figure(metric::PIOPS).filter(|&piops| piops > 0.0)?;
    let price_per_month = point.figure(metric::PRICE)?;
    Some(Cost {
        side: String::new(),
        line: line.name.clone(),
        sessions: point.sessions,
        piops,
        within: objective.map(ToString::to_string),
        price_per_month,
        per_1000_piops: price_per_month / piops * 1000.0,
    })
}

/// The cost of each line of one side.
pub fn of_side(side: &str, seen: &[Observation], objective: Option<&Objective>) -> Vec<Cost> {
    let petals = Petals::of(seen).with_objective(objective);
    let costs = petals.lines.iter().filter_map(|line| of_line(line, objective));
    costs.map(|cost| Cost { side: side.to_owned(), ..cost }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::plain_csv;

    #[test]
    fn a_cost_is_of_the_load_that_the_objective_admits() {
        let table = "sessions,piops,read_us,price_per_month\n1,10000,100,900\n8,40000,450,900\n\
                     64,60000,2000,900\n";
        let seen = plain_csv::parse(table, "t.csv", None).unwrap();
        let objective: Objective = "read.avg=500us".parse().unwrap();
        let within = of_side("a", &seen, Some(&objective));
        assert_eq!((within[0].sessions, within[0].per_1000_piops), (8, 22.5));
        assert_eq!(of_side("a", &seen, None)[0].per_1000_piops, 15.0);
        // An objective that nothing meets has no cost, nor has a line without a price.
        let objective: Objective = "read.avg=50us".parse().unwrap();
        assert_eq!(of_side("a", &seen, Some(&objective)), []);
        let free = plain_csv::parse("sessions,piops,read_us\n1,10,1\n", "t.csv", None).unwrap();
        assert_eq!(of_side("a", &free, None), []);
    }
}
