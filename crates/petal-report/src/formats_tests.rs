//! The forms for programs, each read back: they have the comparison's figures, and no unknown ones.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use serde_json::Value;

use super::bmf::Bmf;
use super::hostile::HOSTILE;
use super::junit::junit;
use super::markdown;
use petal_judge::compare::history::{DAY, History, history};
use petal_judge::compare::limits::{LimitOutcome, LimitResult, hold};
use petal_judge::compare::{ComparedSide, Comparison, Rules, compare, label};
use petal_record::observation::Observation;
use petal_record::plain_csv;

const TWO_NODES: &str = include_str!("../../../tests/samples/compression-two-nodes.csv");

fn compression() -> Comparison {
    let rows = plain_csv::parse(TWO_NODES, "two-nodes.csv", None).unwrap();
    let sides = ComparedSide::split("two-nodes.csv", rows, "compression", None).unwrap();
    let metrics = ["reads_s", "read_us"].map(str::to_owned).into();
    compare(&sides, &Rules { metrics, in_turn: false }).unwrap()
}

fn held(comparison: &Comparison, limits: &[&str]) -> Vec<LimitResult> {
    limits.iter().map(|limit| hold(&limit.parse().unwrap(), comparison)).collect()
}

/// Runs of one cell: the day, the cell's name, and figures, unknown ones as None.
fn run(day: usize, cell: &str, figures: &[Option<f64>]) -> Observation {
    let names = ["piops", "read_us"].iter().zip(figures);
    Observation {
        source: format!("{cell} {day}"),
        factors: vec![("device".to_owned(), cell.to_owned())],
        started_at: Some(format!("2026-11-{:02}T02:00:00Z", day + 1)),
        metrics: names.filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?))).collect(),
        ..Observation::default()
    }
}

/// The JSON of figures.
fn bmf_of(figures: &Bmf) -> Value {
    serde_json::from_str(&figures.render().unwrap()).unwrap()
}

#[test]
fn bmf_has_a_benchmark_for_each_cell() {
    let bmf = Bmf::of_comparison(&compression());
    assert_eq!(bmf.left_out, Vec::<String>::new());
    let shown = bmf_of(&bmf);
    assert_eq!(shown.as_object().unwrap().len(), 3);
    let (mean, change) =
        (&shown["UPDATE_PCT 30"]["reads_s"], &shown["UPDATE_PCT 30"]["reads_s_change_pct"]);
    let rounded = |figure: &Value| {
        ["lower_value", "value", "upper_value"].map(|key| figure[key].as_f64().unwrap().round())
    };
    // As the tables have them: 42,699 +- 1,200, and -24.9 % (-26.8 to -23.0).
    assert_eq!(rounded(mean), [41499.0, 42699.0, 43898.0]);
    assert_eq!(rounded(change), [-27.0, -25.0, -23.0]);
}

#[test]
fn bmf_leaves_out_the_unknown_with_its_reason() {
    let side = |name: &str, observations| ComparedSide { name: name.into(), observations };
    let both = [Some(100.0), Some(5.0)];
    let before = vec![run(0, "a", &both), run(1, "a", &both), run(2, "b", &both)];
    let after = vec![run(3, "a", &[Some(90.0), None])];
    let comparison = compare(&[side("A", before), side("B", after)], &Rules::default()).unwrap();
    let bmf = Bmf::of_comparison(&comparison);
    let measures = bmf_of(&bmf)["DEVICE a"].clone();
    assert_eq!(measures["piops"], serde_json::json!({ "value": 90.0 }), "one run has no interval");
    assert_eq!(measures.get("read_us"), None);
    let reasons = [
        "DEVICE a, read_us: not measured",
        "DEVICE a, read_us_change_pct: not measured",
        "DEVICE b: not on both sides",
    ];
    assert_eq!(bmf.left_out, reasons);
}

/// The nights of two devices, the second of which failed in the last.
fn nights() -> History {
    let figures = |night: usize| [Some(100.0 + (night % 3) as f64), Some(200.0)];
    let mut seen: Vec<Observation> = (0..6).map(|night| run(night, "a", &figures(night))).collect();
    seen.extend((0..5).map(|night| run(night, "b", &figures(night))));
    seen.push(run(6, "a", &[Some(60.0), Some(200.0)]));
    history(&seen, DAY, &[]).unwrap()
}

#[test]
fn bmf_of_a_history_is_of_the_newest_group() {
    let bmf = Bmf::of_history(&nights());
    let shown = bmf_of(&bmf);
    assert_eq!(shown["DEVICE a"]["piops"]["value"], 60.0);
    let change = &shown["DEVICE a"]["piops_change_pct"];
    assert!(change["upper_value"].as_f64().unwrap() < -30.0, "{change}");
    assert_eq!(shown.get("DEVICE b"), None);
    assert!(bmf.left_out.iter().any(|why| why == "DEVICE b, piops: not measured"), "{bmf:?}");
}

#[test]
fn bmf_leaves_out_what_is_no_storage_test() {
    let side = |name: &str| {
        let mut seen = run(0, "a", &[Some(100.0), Some(5.0)]);
        seen.metrics.insert("commits_s".to_owned(), 10.0);
        seen.warnings = vec!["cached-by-os".to_owned()];
        ComparedSide { name: name.to_owned(), observations: vec![seen] }
    };
    let bmf = Bmf::of_comparison(&compare(&["A", "B"].map(side), &Rules::default()).unwrap());
    let measures = bmf_of(&bmf)["all"].clone();
    assert_eq!(measures["commits_s"]["value"], 10.0);
    assert_eq!(measures.get("piops"), None);
    assert_eq!(bmf.left_out[0], "all, piops: not a storage test");
}

/// A published schema, with the one of runs, from which it takes the headline.
fn schema(text: &str) -> jsonschema::Validator {
    const RUN: &str = include_str!("../../../docs/petal-run.schema.json");
    let inlined = |text: &str, place| -> Value {
        serde_json::from_str(&text.replace(place, "\"#/$defs/run/")).unwrap()
    };
    let mut schema = inlined(text, "\"petal-run.schema.json#/");
    schema["$defs"]["run"] = inlined(RUN, "\"#/");
    jsonschema::draft202012::new(&schema).unwrap()
}

/// Asserts that a text is valid, that a headline in it has its verdict, and that nothing may be added
/// to any object with fixed keys.
fn assert_valid(schema: &jsonschema::Validator, text: &str, headline: &str) {
    let mut shown: Value = serde_json::from_str(text).unwrap();
    let errors: Vec<String> = schema.iter_errors(&shown).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert_eq!(shown.pointer(headline).unwrap()["verdict"]["validity"], "valid", "{text}");
    for place in ["", headline, "/limits/0"] {
        let inner = shown.pointer_mut(place).and_then(Value::as_object_mut).unwrap();
        inner.insert("more".to_owned(), true.into());
        assert!(!schema.is_valid(&shown), "{place} takes anything");
        shown.pointer_mut(place).and_then(Value::as_object_mut).unwrap().remove("more");
    }
}

/// Judged runs of a night, with this share of the fixture's reads.
fn judged(name: &str, night: usize, share: f64) -> ComparedSide {
    let of = |repeat: usize| {
        let mut run = petal_record::fixture::mixed_run();
        petal_judge::conclude(&mut run);
        let mut seen = Observation::of_run(&format!("{name}-r{repeat}"), Vec::new(), &run);
        let by = share * (1.0 + repeat as f64 / 1000.0);
        seen.metrics.values_mut().for_each(|value| *value *= by);
        seen.started_at = Some(format!("2026-11-{:02}T02:00:0{repeat}Z", night + 1));
        seen
    };
    ComparedSide { name: name.to_owned(), observations: (1..=3).map(of).collect() }
}

#[test]
fn a_comparison_in_json_is_what_its_schema_says() {
    let schema = schema(include_str!("../../../docs/petal-compare.schema.json"));
    let comparison =
        compare(&[judged("a", 0, 1.0), judged("b", 1, 0.9)], &Rules::default()).unwrap();
    let held = held(&comparison, &["piops < -5%"]);
    let text = crate::json::with_limits(&comparison, &held).unwrap();
    assert_valid(&schema, &text, "/sides/1/headlines/b-r1");
    let cells = ["before", "after"].map(|name| many_cells(name, 1.0, &["cached-by-os"]));
    for comparison in [compression(), compare(&cells, &Rules::default()).unwrap()] {
        let text = crate::json::with_limits(&comparison, &[]).unwrap();
        let shown = serde_json::from_str(&text).unwrap();
        assert_eq!(schema.validate(&shown).map_err(|error| error.to_string()), Ok(()));
    }
}

#[test]
fn a_history_in_json_is_what_its_schema_says() {
    let schema = schema(include_str!("../../../docs/petal-history.schema.json"));
    let sides = (0..8).map(|night| judged("n", night, if night < 6 { 1.0 } else { 0.7 }));
    let seen: Vec<Observation> = sides.flat_map(|side| side.observations).collect();
    let found = history(&seen, DAY, &[]).unwrap();
    let held = [found.hold(&"piops < -5%".parse().unwrap())];
    let text = crate::json::with_limits(&found, &held).unwrap();
    assert_valid(&schema, &text, "/headlines/n-r1");
    let text = crate::json::with_limits(&nights(), &[]).unwrap();
    let shown = serde_json::from_str(&text).unwrap();
    assert_eq!(schema.validate(&shown).map_err(|error| error.to_string()), Ok(()));
}

/// Elements of JUnit's XML: parent and required attributes, as Jenkins' and Ant's schemas have them.
const ELEMENTS: [(&str, &str, &[&str]); 6] = [
    ("testsuites", "", &["name", "tests", "failures", "errors"]),
    ("testsuite", "testsuites", &["name", "tests", "failures", "errors", "skipped", "id"]),
    ("testcase", "testsuite", &["name", "classname"]),
    ("failure", "testcase", &["message", "type"]),
    ("skipped", "testcase", &["message"]),
    ("system-out", "testcase", &[]),
];

/// Reads the file by these rules, compares the counts with the elements, and returns the attributes
/// of each element.
fn read_junit(text: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut reader = quick_xml::Reader::from_str(text);
    let (mut open, mut all) = (Vec::<String>::new(), Vec::new());
    let mut enter = |start: &BytesStart<'_>, open: &[String]| -> String {
        let name = start.name().as_ref().to_owned();
        let rule = ELEMENTS.iter().find(|(element, ..)| *element == name);
        let (_, parent, required) = rule.unwrap_or_else(|| panic!("{name} is in no schema"));
        assert_eq!(open.last().map_or("", String::as_str), *parent, "{name}");
        let attributes: BTreeMap<String, String> = start
            .attributes()
            .map(|attribute| {
                let attribute = attribute.unwrap();
                let value = attribute.normalized_value(XmlVersion::Implicit1_0).unwrap();
                (attribute.key.as_ref().to_owned(), value.into_owned())
            })
            .collect();
        for key in *required {
            assert!(attributes.contains_key(*key), "{name} has no {key}: {attributes:?}");
        }
        all.push((name.clone(), attributes));
        name
    };
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => open.push(enter(&start, &open)),
            Event::Empty(start) => drop(enter(&start, &open)),
            Event::End(_) => drop(open.pop()),
            Event::Eof => break,
            Event::Decl(_) | Event::Text(_) | Event::GeneralRef(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty());
    let count = |name: &str| all.iter().filter(|(element, _)| element == name).count();
    let sum = |key: &str| -> usize {
        let suites = all.iter().filter(|(element, _)| element == "testsuite");
        suites.map(|(_, attributes)| attributes[key].parse::<usize>().unwrap()).sum()
    };
    let elements = ["testcase", "failure", "skipped"].map(count);
    assert_eq!(["tests", "failures", "skipped"].map(sum), elements);
    let (_, total) = &all[0];
    assert_eq!(
        [&total["tests"], &total["failures"]],
        [&elements[0].to_string(), &elements[1].to_string()]
    );
    all
}

/// A side with a run for each of many cells, whose name is long.
fn many_cells(name: &str, factor: f64, ids: &[&str]) -> ComparedSide {
    let cell = |at: usize| Observation {
        factors: [("array", "north-array-with-a-long-name".to_owned()), ("volume", at.to_string())]
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
        metrics: [("reads_s", 1000.0), ("read_us", 300.0)]
            .map(|(name, value)| (name.to_owned(), value * factor))
            .into(),
        warnings: ids.iter().map(|id| (*id).to_owned()).collect(),
        ..Observation::default()
    };
    let runs = (0..600).flat_map(|at| {
        [0.99, 1.0, 1.01].map(|by| {
            let mut seen = cell(at);
            seen.metrics.values_mut().for_each(|value| *value *= by);
            seen
        })
    });
    ComparedSide { name: name.to_owned(), observations: runs.collect() }
}

#[test]
fn a_comment_for_many_failed_cells_is_never_too_long() {
    let sides = [many_cells("before", 1.0, &[]), many_cells("after", 0.8, &[])];
    let comparison = compare(&sides, &Rules::default()).unwrap();
    let held = held(&comparison, &["reads_s < -5%", "read_us < -5%"]);
    assert!(held.iter().all(|one| one.because.len() > 600), "every cell failed");
    let comment = markdown::comparison(&comparison, &held);
    assert!(comment.len() < 65_536, "{} bytes", comment.len());
    assert!(comment.contains("and 593 more"), "{}", &comment[..2000]);
    let text = crate::compare::render(&comparison, &held);
    let limits = text.split("LIMITS").nth(1).unwrap().split("READS_S").next().unwrap();
    assert!(limits.lines().count() < 30, "{limits}");
    // Names alone may be longer than a comment.
    let named = |name: &str| many_cells(&format!("{name} {}", "x".repeat(40_000)), 1.0, &[]);
    let comparison = compare(&[named("a"), named("b")], &Rules::default()).unwrap();
    let comment = markdown::comparison(&comparison, &[]);
    assert!(comment.len() < 65_536, "{} bytes", comment.len());
    let (open, close) = (comment.matches("<details>"), comment.matches("</details>"));
    assert_eq!(open.count(), close.count());
}

#[test]
fn a_row_of_csv_says_that_its_figures_are_no_result() {
    let sides = ["a", "b"].map(|name| many_cells(name, 1.0, &["cached-by-os"]));
    let csv = crate::compare::csv(&compare(&sides, &Rules::default()).unwrap()).unwrap();
    let mut rows = csv.lines().skip(1);
    assert!(rows.all(|row| row.contains(",not a storage test,")), "{csv}");
}

#[test]
fn a_verdict_is_the_first_suite_of_junit_and_skipped() {
    let sides = ["a", "b"].map(|name| many_cells(name, 1.0, &["cached-by-os"]));
    let comparison = compare(&sides, &Rules::default()).unwrap();
    let held = held(&comparison, &["reads_s < -5%"]);
    let xml = junit("petal compare", comparison.verdict.as_ref(), &held);
    let all = read_junit(&xml);
    assert_eq!(all[1].1["name"], "verdict");
    let (name, skipped) = &all[3];
    assert_eq!(name, "skipped");
    assert!(skipped["message"].contains("Not a storage test: "), "{skipped:?}");
    assert!(all.iter().all(|(name, _)| name != "failure"), "no gate is made of it");
}

#[test]
fn junit_has_a_case_for_each_cell_of_each_limit() {
    let comparison = compression();
    let held = held(&comparison, &["reads_s < -25%", "reads_s < -50%"]);
    let text = junit("petal compare", None, &held);
    read_junit(&text);
    insta::assert_snapshot!(text, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="petal compare" tests="8" failures="0" errors="0">
     <testsuite name="reads_s &lt; -25%" id="0" tests="4" failures="0" errors="0" skipped="1">
      <testcase classname="petal.compare.reads_s" name="over 3 cells"><skipped message="inconclusive: -25.6 %, interval -26.5 % to -24.8 %"/></testcase>
      <testcase classname="petal.compare.reads_s" name="UPDATE_PCT 0"><system-out>-28.3 %, interval -30.6 % to -26.1 %</system-out></testcase>
      <testcase classname="petal.compare.reads_s" name="UPDATE_PCT 30"><system-out>-24.9 %, interval -26.8 % to -23.0 %</system-out></testcase>
      <testcase classname="petal.compare.reads_s" name="UPDATE_PCT 50"><system-out>-23.6 %, interval -25.9 % to -21.0 %</system-out></testcase>
     </testsuite>
     <testsuite name="reads_s &lt; -50%" id="1" tests="4" failures="0" errors="0" skipped="0">
      <testcase classname="petal.compare.reads_s" name="over 3 cells"><system-out>-25.6 %, interval -26.5 % to -24.8 %</system-out></testcase>
      <testcase classname="petal.compare.reads_s" name="UPDATE_PCT 0"><system-out>-28.3 %, interval -30.6 % to -26.1 %</system-out></testcase>
      <testcase classname="petal.compare.reads_s" name="UPDATE_PCT 30"><system-out>-24.9 %, interval -26.8 % to -23.0 %</system-out></testcase>
      <testcase classname="petal.compare.reads_s" name="UPDATE_PCT 50"><system-out>-23.6 %, interval -25.9 % to -21.0 %</system-out></testcase>
     </testsuite>
    </testsuites>
    "#);
}

#[test]
fn a_night_without_a_run_is_a_skipped_case() {
    let reported = nights();
    let text = junit("petal history", None, &[reported.hold(&"piops < -5%".parse().unwrap())]);
    read_junit(&text);
    insta::assert_snapshot!(text, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="petal history" tests="2" failures="1" errors="0">
     <testsuite name="piops &lt; -5%" id="0" tests="2" failures="1" errors="0" skipped="1">
      <testcase classname="petal.history.piops" name="DEVICE a"><failure type="limit" message="2026-11-07 -40.6 %, interval -43.1 % to -38.1 %">piops &lt; -5%</failure></testcase>
      <testcase classname="petal.history.piops" name="DEVICE b"><skipped message="inconclusive: 2026-11-07 not measured"/></testcase>
     </testsuite>
    </testsuites>
    "#);
}

#[test]
fn a_comment_shows_the_cells_that_differ_and_folds_the_rest() {
    let comparison = compression();
    let text = markdown::comparison(&comparison, &held(&comparison, &["reads_s < -25%"]));
    let (open, folded) = text.split_once("\n<details>").unwrap();
    insta::assert_snapshot!(open, @"
    **3 of 3 cells differ, most: reads_s -28.3 % at UPDATE_PCT 0; read_us +39.2 % at UPDATE_PCT 50. 2 more figures differ. 2 of 6 figures have too few runs to judge.**

    | outcome | limit | because |
    | --- | --- | --- |
    | INCONCLUSIVE | reads_s &lt; -25% | over 3 cells: -25.6 %, interval -26.5 % to -24.8 % |

    | figure | cell | A | B | change % | from | to |
    | --- | --- | ---: | ---: | ---: | ---: | ---: |
    | reads_s | UPDATE_PCT 0 | 79,537 | 56,994 | -28.3 | -30.6 | -26.1 |
    | reads_s | UPDATE_PCT 30 | 56,856 | 42,699 | -24.9 | -26.8 | -23.0 |
    | reads_s | UPDATE_PCT 50 | 48,871 | 37,360 | -23.6 | -25.9 | -21.0 |
    | read_us | UPDATE_PCT 50 | 2,371 | 3,300 | +39.2 | +16.9 | +71.8 |

    - A: compression off (9 runs, the baseline)
    - B: compression on (9 runs)
    ");
    assert!(folded.contains("| update_pct | n | A |"), "{folded}");
    let text = markdown::history(&nights(), &[]);
    let (open, folded) = text.split_once("\n<details>").unwrap();
    insta::assert_snapshot!(open, @r#"
    **1 of 4 figures changed over 7 groups by day: piops -40.6 % in 2026-11-07 at DEVICE a.**

    | figure | cell | day | mean | change % | from | to |
    | --- | --- | --- | ---: | ---: | ---: | ---: |
    | piops | DEVICE a | 2026-11-07 | 60.0 | -40.6 | -43.1 | -38.1 |
    "#);
    assert!(folded.contains("\npiops, DEVICE b; from first to newest: "), "{folded}");
}

#[test]
fn hostile_names_are_text_in_every_form() {
    let mut comparison = compression();
    comparison.sides.iter_mut().for_each(|side| side.name = HOSTILE.to_owned());
    comparison.cells[0].factors = vec![(HOSTILE.to_owned(), HOSTILE.to_owned())];
    comparison.notes.push(HOSTILE.to_owned());
    let held = held(&comparison, &["reads_s < -5%"]);
    let xml = read_junit(&junit(HOSTILE, None, &held));
    assert!(xml.iter().any(|(_, attributes)| {
        attributes.get("name").is_some_and(|name| name.contains("<script>alert(1)"))
    }));
    let text = markdown::comparison(&comparison, &held);
    assert_rows(&text);
    assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
    assert!(bmf_of(&Bmf::of_comparison(&comparison)).as_object().unwrap().len() == 3);
}

/// Asserts that each table's rows have as many cells as its heading.
#[track_caller]
fn assert_rows(text: &str) {
    let cells = |line: &str| line.replace("\\\\", "").replace("\\|", "").matches('|').count();
    let mut heading = None;
    for line in text.lines() {
        heading = line.starts_with('|').then(|| heading.unwrap_or_else(|| cells(line)));
        assert!(heading.is_none_or(|heading| heading == cells(line)), "{line}");
    }
    assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
}

fn figure() -> impl Strategy<Value = Option<f64>> {
    prop::option::weighted(0.8, 1.0..1e6_f64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_form_of_any_comparison_is_read_back(
        names in prop::collection::btree_set("[ -~\u{1}\u{1b}\u{e9}]{1,12}", 1..4),
        drawn in prop::collection::vec((figure(), figure()), 24),
    ) {
        let mut drawn = drawn.into_iter();
        let mut side = |name: &str, from: usize| {
            let mut observations = Vec::new();
            for cell in &names {
                for repeat in 0..3 {
                    let (piops, read_us) = drawn.next().unwrap_or((Some(1.0), None));
                    observations.push(run(from + repeat, cell, &[piops, read_us]));
                }
            }
            ComparedSide { name: name.to_owned(), observations }
        };
        let sides = [side("A", 0), side("B", 10)];
        let rules = Rules { metrics: vec!["piops".into()], in_turn: false };
        let Ok(comparison) = compare(&sides, &rules) else { return Ok(()) };
        // A measure for each known figure, a reason for each unknown one.
        let bmf = Bmf::of_comparison(&comparison);
        let shown = bmf_of(&bmf);
        for cell in &comparison.cells {
            let measures = &shown[label(&cell.factors)];
            for figure in &cell.figures {
                let known = figure.sides[1].as_ref().map(|known| known.mean);
                prop_assert_eq!(measures[&figure.metric]["value"].as_f64(), known);
                let why = format!("{}, {}: not measured", label(&cell.factors), figure.metric);
                prop_assert_eq!(bmf.left_out.contains(&why), known.is_none());
            }
        }
        let held = held(&comparison, &["piops < -5%"]);
        let cases = read_junit(&junit("petal compare", None, &held));
        prop_assert_eq!(
            cases.iter().any(|(element, _)| element == "failure"),
            held[0].outcome == LimitOutcome::Failed
        );
        assert_rows(&markdown::comparison(&comparison, &held));
    }
}
