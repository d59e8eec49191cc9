//! The summary that `petal run --json` prints: exactly [`Summary`](petal_record::Summary),
//! of which docs/petal-run.schema.json is the contract.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};

use petal_judge::break_point::{self, BreakPoint, LoadStep};
use petal_judge::compare::limits::LimitResult;
use petal_judge::next_cell::{RepeatedCell, within_latency};
use petal_judge::petals::Petals;
use petal_record::observation::Observation;
use petal_record::server_work::WorkCount;
use petal_record::sweep::{PEAK_RUN, SweepCell, Swept};
use petal_record::{Run, Summary};
use petal_settings::objective::Objective;

/// A value, indented, with a line's end.
pub fn pretty(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(value).map(|text| text + "\n")
}

/// Returns the JSON name of a kind, a format, a source or a method.
pub fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("").to_owned()
}

pub fn summary(run: &Run) -> Result<String, serde_json::Error> {
    pretty(&run.summary)
}

/// Output of `petal sweep --json`: the plan, and the figures of each cell by name. A stepwise
/// replay is judged by the objective, or by the recorded one if no other is given.
pub fn sweep(swept: &Swept, objective: Option<&Objective>) -> Result<String, serde_json::Error> {
    let observations = swept.observations();
    let sweep = &swept.sweep;
    let cells = sweep.cells.iter().zip(&swept.runs).zip(&observations);
    let mut summary = json!({
        "format": sweep.format,
        "status": sweep.status,
        "engine": sweep.engine,
        "started_at": sweep.started_at,
        "plan": sweep.plan,
        "cells": cells.map(|((cell, run), seen)| json_of_cell(cell, run, seen)).collect::<Vec<_>>(),
    });
    // Costs for readers that ran alone and with writers.
    let writer_costs = Petals::of(&observations).writer_costs;
    if !writer_costs.is_empty() {
        summary["writer_costs"] = json!(writer_costs);
    }
    let repeated = RepeatedCell::of(swept);
    let within = within_latency(swept);
    if !within.is_empty() {
        summary["within_latency"] = json!(within);
    }
    if !repeated.is_empty() {
        summary["repeated"] = json!(repeated);
    }
    if let Some(run) = &swept.peak_run {
        summary["peak_run"] = json_of_peak_run(&run.summary);
    }
    if let Some(found) = break_point::of(swept, objective) {
        summary["will_it_fit"] = json_of_fit(&found);
    }
    pretty(&summary)
}

/// The last run, and its limit with the evidence.
fn json_of_peak_run(summary: &Summary) -> Value {
    json!({
        "folder": PEAK_RUN,
        "status": summary.status,
        "started_at": summary.started_at,
        "elapsed_s": summary.elapsed_s,
        "sessions": summary.sessions,
        "limited_by": summary.limited_by,
        "elasticity": summary.elasticity,
        "waterfall": summary.waterfall,
    })
}

/// A cell. A metric that is not known is not there; the window is the time that they are of.
fn json_of_cell(cell: &SweepCell, run: &Run, seen: &Observation) -> Value {
    let summary = &run.summary;
    let factors: BTreeMap<&str, &str> =
        cell.factors.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    json!({
        "number": cell.number,
        "repeat": cell.repeat,
        "factors": factors,
        "folder": cell.folder,
        "status": cell.status,
        "started_at": summary.started_at,
        "elapsed_s": summary.elapsed_s,
        "window": seen.window.as_ref().map(ToString::to_string),
        "active_bytes": summary.active_bytes,
        "sessions_lost": summary.sessions_lost,
        "findings": seen.warnings.iter().collect::<BTreeSet<_>>(),
        "headline": summary.headline,
        "served_by": summary.served_by,
        "limited_by": summary.limited_by,
        "metrics": seen.metrics,
    })
}

/// Returns the highest multiple of the replayed load that was held; see [`BreakPoint`].
fn json_of_fit(found: &BreakPoint) -> Value {
    let step = |step: &LoadStep| {
        // Means over the runs, as multiples of the requested rates; unknown figures are left out.
        let delivered: BTreeMap<WorkCount, f64> = WorkCount::ALL
            .into_iter()
            .filter_map(|figure| Some((figure, step.delivered(figure)?)))
            .collect();
        json!({
            "scale": step.scale, "runs": step.runs, "held": step.held, "reasons": step.reasons,
            "delivered": delivered,
        })
    };
    json!({
        "database": found.of.database,
        "time": found.of.time,
        "objective": found.objective,
        "fits": found.fits(),
        "holds": found.holds,
        "fails": found.fails,
        "fails_always": found.fails_always,
        "breaks_95": found.interval,
        "cause": found.cause,
        "steps": found.steps.iter().map(step).collect::<Vec<_>>(),
        "notes": found.notes,
    })
}

#[derive(Serialize)]
struct WithLimits<'a, T> {
    #[serde(flatten)]
    of: &'a T,
    limits: &'a [LimitResult],
}

/// Output of `petal compare --json` and `petal history --json`: the comparison or the history, and
/// the outcomes of the limits.
pub fn with_limits(
    of: &impl Serialize,
    limits: &[LimitResult],
) -> Result<String, serde_json::Error> {
    pretty(&WithLimits { of, limits })
}

#[derive(Serialize)]
struct Drawn<'a> {
    format: &'static str,
    #[serde(flatten)]
    petals: &'a Petals,
}

pub fn petals(petals: &Petals) -> Result<String, serde_json::Error> {
    pretty(&Drawn { format: "petal-petals/1", petals })
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::Status;
    use petal_record::driver_hosts::HostRun;
    use petal_record::fixture;
    use petal_record::sweep_design::Design;
    use petal_record::written::WrittenBytes;
    use serde_json::Value;

    const SCHEMA: &str = include_str!("../../../docs/petal-run.schema.json");

    fn validator() -> jsonschema::Validator {
        jsonschema::draft202012::new(&serde_json::from_str(SCHEMA).unwrap()).unwrap()
    }

    fn rendered(run: &Run) -> Value {
        serde_json::from_str(&summary(run).unwrap()).unwrap()
    }

    fn sample() -> Value {
        let mut run = fixture::mixed_run();
        petal_judge::conclude(&mut run);
        rendered(&run)
    }

    #[test]
    fn printed_json_conforms_to_its_schema() {
        let validator = validator();
        let errors: Vec<String> =
            validator.iter_errors(&sample()).map(|error| format!("{error}")).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }

    #[test]
    fn times_of_requests_are_valid_too() {
        let mut run = fixture::mixed_run();
        fixture::time_requests(&mut run);
        let mut shown = rendered(&run);
        assert!(validator().is_valid(&shown));
        let host = &mut shown["os"]["database_host"];
        assert_eq!(host["steady_requests"]["rows"][0]["service_us"]["p99"], 900.5);
        host["requests"]["rows"][0]["kind"] = "erase".into();
        assert!(!validator().is_valid(&shown), "the schema takes anything");
    }

    #[test]
    fn a_divided_read_is_valid_too() {
        let mut run = fixture::mixed_run();
        run.summary.ops.select += run.summary.ops.update;
        run.summary.ops.update = 0;
        fixture::time_threads(&mut run, 1.0);
        petal_judge::conclude(&mut run);
        let mut shown = rendered(&run);
        let errors: Vec<String> =
            validator().iter_errors(&shown).map(|error| format!("{error}")).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let parts = &mut shown["headline"]["read_parts"];
        assert!(parts["device_us"].as_f64().unwrap() > 0.0, "{parts}");
        parts["device_us"] = "few".into();
        assert!(!validator().is_valid(&shown), "the schema takes anything");
    }

    #[test]
    fn a_write_ledger_is_valid_too() {
        let mut run = fixture::mixed_run();
        let (log, device) = (Some(7_000_000), Some(20_000_000));
        run.details.written =
            Some(WrittenBytes { row_bytes: 256, log, device, ..Default::default() });
        petal_judge::conclude(&mut run);
        let mut shown = rendered(&run);
        let errors: Vec<String> =
            validator().iter_errors(&shown).map(|error| format!("{error}")).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let ledger = &mut shown["write_ledger"];
        assert_eq!(ledger["rows"][1]["bytes"], 7_000_000);
        assert_eq!(ledger["unexplained_share"], Value::Null, "the kernel's part is unknown");
        ledger["rows"][1]["bytes"] = 0.5.into();
        assert!(!validator().is_valid(&shown), "the schema takes anything");
    }

    #[test]
    fn prices_of_neighbours_are_valid_too() {
        let mut shown = rendered(&crate::run::interference::fixture());
        let errors: Vec<String> =
            validator().iter_errors(&shown).map(|error| format!("{error}")).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        shown["interference"][0]["pairs"] = 0.5.into();
        assert!(!validator().is_valid(&shown), "the schema takes anything");
    }

    #[test]
    fn a_run_that_knows_next_to_nothing_is_valid_too() {
        let run = Run::begin("sqlite", Default::default());
        let errors: Vec<String> =
            validator().iter_errors(&rendered(&run)).map(|error| format!("{error}")).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }

    #[test]
    fn a_run_of_several_hosts_is_valid_too() {
        let mut run = fixture::mixed_run();
        run.summary.hosts = vec![
            HostRun::default(),
            HostRun { status: Some(Status::Complete), ..HostRun::default() },
        ];
        let shown = rendered(&run);
        assert!(validator().is_valid(&shown));
        for name in shown["hosts"][0].as_object().unwrap().keys() {
            let mut without = shown.clone();
            without["hosts"][0].as_object_mut().unwrap().remove(name);
            assert!(!validator().is_valid(&without), "{name} is not required");
        }
        run.summary.hosts.clear();
        run.summary.status = Status::Incomplete;
        run.summary.share = Some(Default::default());
        let shown = rendered(&run);
        let errors: Vec<String> =
            validator().iter_errors(&shown).map(|error| format!("{error}")).collect();
        assert!(errors.is_empty() && shown.get("hosts").is_none(), "{errors:#?}");
    }

    #[test]
    fn no_field_may_go_and_none_may_come_unnamed() {
        let validator = validator();
        let sample = sample();
        for name in sample.as_object().unwrap().keys() {
            let mut without = sample.clone();
            without.as_object_mut().unwrap().remove(name);
            assert!(!validator.is_valid(&without), "{name} is not required");
        }
        let mut with = sample.clone();
        with.as_object_mut().unwrap().insert("more".into(), Value::from(1));
        assert!(!validator.is_valid(&with));
        for inner in ["ops", "rows", "per_second", "target"] {
            let mut with = sample.clone();
            with[inner].as_object_mut().unwrap().insert("more".into(), Value::from(1));
            assert!(!validator.is_valid(&with), "{inner} takes anything");
        }
    }

    #[test]
    fn a_sweep_is_what_its_schema_says() {
        const SCHEMA: &str = include_str!("../../../docs/petal-sweep.schema.json");
        let validator =
            jsonschema::draft202012::new(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
        let mut swept = super::super::sweep::tests::swept();
        swept.runs.iter_mut().for_each(petal_judge::conclude);
        let shown: Value = serde_json::from_str(&sweep(&swept, None).unwrap()).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&shown).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        for (key, value) in &swept.sweep.cells[0].factors {
            assert_eq!(shown["cells"][0]["factors"][key], **value);
        }
        for name in shown["cells"][0].as_object().unwrap().keys() {
            let mut without = shown.clone();
            without["cells"][0].as_object_mut().unwrap().remove(name);
            assert!(!validator.is_valid(&without), "{name} is not required");
        }
        let mut with = shown.clone();
        with["cells"][0]["more"] = 1.into();
        assert!(!validator.is_valid(&with));
        assert!(shown.get("will_it_fit").is_none(), "no replay");
        let peak_run = swept.runs.first().cloned();
        let with = Swept { peak_run, ..swept.clone() };
        let with: Value = serde_json::from_str(&sweep(&with, None).unwrap()).unwrap();
        assert_eq!(with["peak_run"]["folder"], "peak-run");
        assert_eq!(validator.validate(&with).map_err(|error| error.to_string()), Ok(()));
        assert!(shown.get("writer_costs").is_none(), "no readers with writers");
        let mut kinds = swept.clone();
        for (cell, writers) in kinds.sweep.cells.iter_mut().zip(["0", "2"].iter().cycle()) {
            cell.factors = [("readers", "4"), ("writers", writers)]
                .map(|(key, value)| (key.to_owned(), value.to_string()))
                .into();
        }
        let with: Value = serde_json::from_str(&sweep(&kinds, None).unwrap()).unwrap();
        assert_eq!(with["writer_costs"][0]["rows"].as_array().map(Vec::len), Some(2));
        assert_eq!(validator.validate(&with).map_err(|error| error.to_string()), Ok(()));
        let mut repeated = swept.clone();
        repeated.sweep.plan.design = Design::Repeated { precision: 0.02, runs_max: 2 };
        let with: Value = serde_json::from_str(&sweep(&repeated, None).unwrap()).unwrap();
        assert_eq!(with["repeated"][0]["end"], "most_runs");
        assert_eq!(validator.validate(&with).map_err(|error| error.to_string()), Ok(()));
        let within = "read.avg=1s".to_owned();
        repeated.sweep.plan.design = Design::Search { within };
        let with: Value = serde_json::from_str(&sweep(&repeated, None).unwrap()).unwrap();
        assert!(with["within_latency"][0]["sessions"].is_u64(), "{}", with["within_latency"]);
        assert_eq!(validator.validate(&with).map_err(|error| error.to_string()), Ok(()));
        let replayed = fixture::replay_sweep(&[(1.0, 1, 0), (2.0, 1, 9999)]);
        let shown: Value = serde_json::from_str(&sweep(&replayed, None).unwrap()).unwrap();
        let fit = &shown["will_it_fit"];
        assert_eq!(
            (&fit["holds"], &fit["fails"], &fit["fits"]),
            (&1.0.into(), &2.0.into(), &true.into())
        );
        let fits = |value: &Value| validator.validate(value).map_err(|error| error.to_string());
        // The sweep around it is bare; its answer is as the schema says.
        let mut with: Value = serde_json::from_str(&sweep(&swept, None).unwrap()).unwrap();
        with["will_it_fit"] = fit.clone();
        assert_eq!(fits(&with), Ok(()));
        with["will_it_fit"]["more"] = 1.into();
        assert!(!validator.is_valid(&with));
    }

    #[test]
    fn details_are_not_in_the_summary() {
        assert!(sample().get("details").is_none());
    }
}
