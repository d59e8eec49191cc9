//! Limits as JUnit XML: a suite for each limit, a test case for each cell that it was held against.

use super::charts::escape;
use petal_judge::compare::ComparisonVerdict;
use petal_judge::compare::limits::{LimitCase, LimitOutcome, LimitResult};

/// A broken limit is a failure, an inconclusive one is skipped, with the reason. A verdict that the
/// runs are no storage tests, or cannot be compared, is the first suite, with a skipped case. There are no times: the
/// measurements were not timed as tests.
pub fn junit(command: &str, verdict: Option<&ComparisonVerdict>, held: &[LimitResult]) -> String {
    let verdict = verdict.map(|verdict| {
        let of = if verdict.is_without_a_side { "runs" } else { "storage" };
        let (outcome, place) = (LimitOutcome::Inconclusive, of.to_owned());
        let cases = vec![LimitCase { outcome, place, words: verdict.words.clone() }];
        LimitResult { limit: "verdict".to_owned(), outcome, because: Vec::new(), cases }
    });
    let held: Vec<LimitResult> = verdict.into_iter().chain(held.iter().cloned()).collect();
    let suites: String = held.iter().enumerate().map(|(at, one)| suite(command, at, one)).collect();
    let all = || held.iter().flat_map(|one| &one.cases);
    let failed = all().filter(|case| case.outcome == LimitOutcome::Failed).count();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" tests=\"{}\" \
         failures=\"{failed}\" errors=\"0\">\n{suites}</testsuites>\n",
        escape(command),
        all().count()
    )
}

fn suite(command: &str, at: usize, held: &LimitResult) -> String {
    let count = |outcome| held.cases.iter().filter(|case| case.outcome == outcome).count();
    let metric = held.limit.split_whitespace().next().unwrap_or_default();
    let class = escape(&format!("{}.{metric}", command.replace(' ', ".")));
    let cases: String =
        held.cases.iter().map(|case| test_case(&class, &held.limit, case)).collect();
    format!(
        " <testsuite name=\"{}\" id=\"{at}\" tests=\"{}\" failures=\"{}\" errors=\"0\" \
         skipped=\"{}\">\n{cases} </testsuite>\n",
        escape(&held.limit),
        held.cases.len(),
        count(LimitOutcome::Failed),
        count(LimitOutcome::Inconclusive),
    )
}

fn test_case(class: &str, limit: &str, case: &LimitCase) -> String {
    let words = escape(&case.words);
    let outcome = match case.outcome {
        LimitOutcome::Passed => format!("<system-out>{words}</system-out>"),
        LimitOutcome::Failed => {
            format!("<failure type=\"limit\" message=\"{words}\">{}</failure>", escape(limit))
        }
        LimitOutcome::Inconclusive => {
            format!("<skipped message=\"inconclusive: {words}\"/>")
        }
    };
    let place = escape(&case.place);
    format!("  <testcase classname=\"{class}\" name=\"{place}\">{outcome}</testcase>\n")
}
