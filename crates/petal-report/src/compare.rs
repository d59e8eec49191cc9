//! A comparison as text, and as a CSV with a row per cell, metric and side.

use super::answer::{letter, of_comparison};
use super::exact_rows::ExactRows;
use super::json::word;
use super::numbers::{UNKNOWN, exact, or_dash, rate, signed_percent};
use super::one_screen::next;
use super::table::{Align, Cell, Table, paragraph};
use super::text::{bullets, caveats, section};
use petal_judge::compare::limits::{LimitOutcome, LimitResult};
use petal_judge::compare::{
    Change, ComparedCell, ComparedFigure, Comparison, Figures, SideSummary, Significance,
};
use petal_judge::price::Cost;
use petal_judge::significance::Method;
use petal_record::Severity;

/// Longest value in the table of differences; a longer one is cut.
const VALUE_LETTERS_MAX: usize = 36;

/// Cells of a limit that are named.
const REASONS_MAX: usize = 8;

/// The columns of the CSV after the factors.
const CSV_FIGURES: &str = "metric side baseline_runs baseline_mean baseline_low baseline_high runs \
                           mean low high change_pct change_low_pct change_high_pct p p_corrected \
                           method significance rounds";

pub fn render(comparison: &Comparison, held: &[LimitResult]) -> String {
    let mut out = "petal comparison\n\n".to_owned();
    out.push_str(&paragraph("", "", &of_comparison(comparison)));
    out.push_str(&next(comparison.verdict.as_ref()));
    out.push('\n');
    for (at, side) in comparison.sides.iter().enumerate() {
        out.push_str(&paragraph(&format!("{}  ", letter(at)), "   ", &side_words(at, side)));
    }
    findings(&mut out, comparison);
    verdicts(&mut out, held);
    for metric in &comparison.metrics {
        let cells = cells_with(comparison, metric);
        if !cells.is_empty() {
            section(&mut out, metric, "means of runs, 95 % intervals");
            out.push_str(&table(comparison, &cells).render());
            for line in over_all_cells(comparison, metric) {
                out.push_str(&format!("{line}\n"));
            }
        }
    }
    costs(&mut out, &comparison.costs);
    let is_compared = !comparison.cells.is_empty();
    if is_compared {
        differing(&mut out, comparison);
    }
    caveats(&mut out, &comparison.notes);
    if is_compared {
        how_to_read(&mut out, comparison);
    }
    out
}

/// Returns the name of a side, with its number of runs.
pub(super) fn side_words(at: usize, side: &SideSummary) -> String {
    let role = if at == 0 { ", the baseline" } else { "" };
    let runs = if side.runs == 1 { "run" } else { "runs" };
    format!("{} ({} {runs}{role})", side.name, side.runs)
}

/// Lists warnings and errors of each side, and their effect on the answer, before any figure.
fn findings(out: &mut String, comparison: &Comparison) {
    let has_any = comparison.sides.iter().any(|side| !side.findings.is_empty());
    if !has_any {
        return;
    }
    if !comparison.effects.is_empty() {
        section(out, "effects of findings on the answer", "read this first");
        bullets(out, &comparison.effects);
    }
    section(out, "findings of each side", "warnings and errors of its runs");
    for (at, side) in comparison.sides.iter().enumerate() {
        let letter = letter(at);
        if side.findings.is_empty() {
            out.push_str(&format!("{letter}  none\n"));
        }
        for text in side_findings(side) {
            out.push_str(&paragraph(&format!("{letter}  "), "   ", &text));
        }
    }
}

/// Each finding of a side: its severity, its runs and its message.
pub(super) fn side_findings(side: &SideSummary) -> impl Iterator<Item = String> {
    side.findings.iter().map(|found| {
        let severity = found.severity.map_or("", Severity::name);
        let gap = if severity.is_empty() { "" } else { " " };
        let message = found.message.as_ref().map_or(String::new(), |text| format!(": {text}"));
        let whose =
            if found.runs > 1 && found.message.is_some() { "; example: first run" } else { "" };
        let (id, runs, of) = (&found.id, found.runs, side.runs);
        format!("{severity}{gap}{id}, {runs} of {of} runs{whose}{message}")
    })
}

/// Lists the cost of each line, if its price is known.
fn costs(out: &mut String, costs: &[Cost]) {
    let Some(first) = costs.first() else { return };
    section(out, "price of delivered I/O", &priced_load(first));
    out.push_str(&cost_table(costs).render());
}

/// Returns the load that is priced.
pub(super) fn priced_load(cost: &Cost) -> String {
    cost.within.as_ref().map_or("at the peak".to_owned(), |objective| {
        format!("at the highest load within {objective}")
    })
}

pub(super) fn cost_table(costs: &[Cost]) -> Table {
    let heading = "side | line | sessions: | PIOPS: | a month: | a month for 1,000 PIOPS:";
    let rows = costs.iter().map(|cost| {
        let figures = [cost.piops, cost.price_per_month, cost.per_1000_piops].map(rate);
        let names = [cost.side.clone(), cost.line.clone(), cost.sessions.to_string()];
        names.into_iter().chain(figures)
    });
    Table::headed(heading).with_rows(rows)
}

pub(super) fn cells_with<'a>(
    comparison: &'a Comparison,
    metric: &str,
) -> Vec<(&'a ComparedCell, &'a ComparedFigure)> {
    let figure =
        |cell: &'a ComparedCell| cell.figures.iter().find(|figure| figure.metric == metric);
    comparison.cells.iter().filter_map(|cell| Some((cell, figure(cell)?))).collect()
}

/// Builds a row per cell and later side: both means, the difference, its significance.
pub(super) fn table(comparison: &Comparison, cells: &[(&ComparedCell, &ComparedFigure)]) -> Table {
    let several = comparison.sides.len() > 2;
    let factors = cells.first().into_iter().flat_map(|(cell, _)| &cell.factors);
    let has_factors = cells.iter().any(|(cell, _)| !cell.factors.is_empty());
    let left = factors.map(|(name, _)| name.as_str()).chain(several.then_some(""));
    let left = left.chain((!has_factors && !several).then_some("cell"));
    let mut columns: Vec<(&str, Align)> = left.map(|name| (name, Align::Left)).collect();
    let other = if several { "other" } else { "B" };
    let figures = ["n", "A", "+-", "n", other, "+-", "change %", "from", "to", "p"];
    columns.extend(figures.map(|name| (name, Align::Right)));
    columns.push(("significant", Align::Left));
    let mut table = Table::new(&columns);
    for (cell, figure) in cells {
        for (at, change) in figure.changes.iter().enumerate() {
            let factors = cell.factors.iter().map(|(_, value)| Cell::from(value.as_str()));
            let mut row: Vec<Cell> = factors.collect();
            match several {
                true => row.push(letter(at + 1).into()),
                false if !has_factors => {
                    row.push(petal_judge::compare::label(&cell.factors).into());
                }
                false => {}
            }
            row.extend(side(figure, 0));
            row.extend(side(figure, at + 1));
            let is_known = figure.sides[0].is_some() && figure.sides[at + 1].is_some();
            let paired = figure.unpaired().find(|(side, _)| *side == at + 1);
            let of_rounds = paired.map(|(_, rounds)| rounds);
            let changed = changed(figure, change.as_ref(), is_known, of_rounds);
            row.extend(changed.map(Cell::from));
            table.row(row);
        }
    }
    table
}

/// The change of a metric over all cells, a line for each later side; empty for a single cell.
pub(super) fn over_all_cells(comparison: &Comparison, metric: &str) -> Vec<String> {
    let percent = |share: f64| signed_percent(share, 1);
    let wholes = comparison.wholes.iter().filter(|whole| whole.metric == metric);
    let lines = wholes.map(|whole| {
        let side = match comparison.sides.len() {
            2 => String::new(),
            _ => format!("{}, ", letter(whole.side)),
        };
        let (low, high) = whole.interval.unzip();
        let (low, high) = (or_dash(low, percent), or_dash(high, percent));
        let (share, cells) = (percent(whole.share), whole.cells);
        format!("{side}over {cells} cells: {share} % ({low} to {high}), geometric mean")
    });
    lines.collect()
}

/// Runs, mean, half of the interval.
fn side(figure: &ComparedFigure, at: usize) -> [Cell; 3] {
    let figures = figure.sides[at].as_ref();
    let half = figures.and_then(|f| f.interval).map(|(low, high)| (high - low) / 2.0);
    [
        or_dash(figures, |figures| figures.values.len().to_string()).into(),
        Cell::figure(or_dash(figures, |figures| rate(figures.mean)), figure.is_struck_out),
        Cell::figure(or_dash(half, rate), figure.is_struck_out),
    ]
}

/// Formats a change. Without one, a side was not measured, or the baseline is 0 and has no share.
/// With `of_rounds`, it is of fewer rounds than there are runs.
pub(super) fn changed(
    figure: &ComparedFigure,
    change: Option<&Change>,
    is_known: bool,
    of_rounds: Option<usize>,
) -> [String; 5] {
    let Some(change) = change else {
        let why = match is_known {
            _ if figure.is_struck_out => figure.why_struck_out.unwrap_or(UNKNOWN),
            true => "no share of 0",
            false => "not measured",
        };
        return [UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, why].map(str::to_owned);
    };
    let difference = &change.difference;
    let percent = |share: f64| signed_percent(share, 1);
    let (low, high) = difference.interval.unzip();
    let verdict = match change.significance {
        Significance::Significant => "yes",
        Significance::NotSignificant => "no",
        Significance::Unknown => "unknown",
    };
    let paired = match (difference.method, of_rounds) {
        (Method::Welch, _) => String::new(),
        (Method::Anytime, _) => ", anytime-valid".to_owned(),
        (Method::Paired, None) => " (paired by round)".to_owned(),
        (Method::Paired, Some(rounds)) => format!(" (paired, {rounds} rounds)"),
    };
    [
        percent(difference.share),
        or_dash(low, percent),
        or_dash(high, percent),
        or_dash(change.p_corrected, p_value),
        format!("{verdict}{paired}"),
    ]
}

fn p_value(p: f64) -> String {
    if p < 0.0001 { "<0.0001".to_owned() } else { format!("{p:.4}") }
}

pub(super) fn verdicts(out: &mut String, held: &[LimitResult]) {
    if held.is_empty() {
        return;
    }
    section(out, "limits", "fail only when the whole interval is past them");
    for one in held {
        let word = outcome(one);
        let because = if one.because.is_empty() { "" } else { ": " };
        let line = format!("{}{because}{}", one.limit, reasons(one));
        out.push_str(&paragraph(&format!("{word:<14}"), "              ", &line));
    }
}

pub(super) fn outcome(held: &LimitResult) -> &'static str {
    match held.outcome {
        LimitOutcome::Passed => "passed",
        LimitOutcome::Failed => "FAILED",
        LimitOutcome::Inconclusive => "INCONCLUSIVE",
    }
}

/// The cells that decided a limit; many are counted.
fn reasons(held: &LimitResult) -> String {
    let (shown, more) = held.because.split_at(held.because.len().min(REASONS_MAX));
    shown.join("; ") + &petal_judge::and_more("; ", more.len())
}

/// A row per limit, with the cells that decided it.
pub(super) fn limit_table(held: &[LimitResult]) -> Table {
    let row = |one: &LimitResult| [outcome(one).to_owned(), one.limit.clone(), reasons(one)];
    Table::headed("outcome | limit | because").with_rows(held.iter().map(row))
}

fn differing(out: &mut String, comparison: &Comparison) {
    section(out, "differences", "settings, database, host");
    if comparison.differences.is_empty() {
        out.push_str("No recorded setting differs.\n");
        return;
    }
    out.push_str(&difference_table(comparison).render());
}

/// A row per setting or fact in which the sides differ.
pub(super) fn difference_table(comparison: &Comparison) -> Table {
    let letters: Vec<String> = (0..comparison.sides.len()).map(letter).collect();
    let rows = comparison.differences.iter().map(|difference| {
        let values = difference.values.iter().map(|value| or_dash(value.as_deref(), short));
        std::iter::once(difference.name.clone()).chain(values)
    });
    let heading = format!(" | {}", letters.join(" | "));
    Table::headed(&heading).with_rows(rows)
}

fn short(value: &str) -> String {
    if value.chars().count() <= VALUE_LETTERS_MAX {
        return value.to_owned();
    }
    let kept: String = value.chars().take(VALUE_LETTERS_MAX - 3).collect();
    format!("{kept}...")
}

fn how_to_read(out: &mut String, comparison: &Comparison) {
    section(out, "how to read this", "");
    bullets(out, reading(comparison));
}

pub(super) fn reading(comparison: &Comparison) -> Vec<&'static str> {
    let mut lines = vec![
        "`-` is unknown. It is never a zero. n counts runs, not seconds; +- is half of the 95 % \
         interval of their mean.",
        "change % is from A, with its own 95 % interval. p is that of \"no difference\", after \
         Holm's correction over the cells of the metric; significant is p under 0.05.",
    ];
    if !comparison.wholes.is_empty() {
        lines.push(
            "Over all cells the change is the geometric mean of their ratios. Its interval is narrower \
             than that of any cell, and a limit is held against it first.",
        );
    }
    if comparison.has(Method::Paired) {
        lines.push(
            "Sides that were run in turn are paired by round: change % is the geometric mean of the \
             rounds' own ratios of B to A, which is not the ratio of the two means.",
        );
    }
    if comparison.has(Method::Welch) {
        lines.push(
            "Sides that were not run in turn are compared by Welch's test, which cannot separate \
             the change from other changes between them.",
        );
    }
    if comparison.has(Method::Anytime) {
        lines.push(
            "Anytime-valid: figures decided how often a side was repeated, and the intervals of both sides \
             hold at any number of runs. They are wider; significant is a change with intervals that do \
             not meet.",
        );
    }
    lines.push("docs/judgement.md of petal has the rules, their error rates and their sources.");
    lines
}

/// A row per cell, metric and later side.
pub fn csv(comparison: &Comparison) -> Result<String, csv::Error> {
    let first = comparison.cells.first().into_iter().flat_map(|cell| &cell.factors);
    let factors = first.map(|(key, _)| key.as_str());
    let names = factors.chain(CSV_FIGURES.split_whitespace());
    let rows = comparison.cells.iter().flat_map(|cell| {
        let figures = cell
            .figures
            .iter()
            .flat_map(|figure| (0..figure.changes.len()).map(move |at| (figure, at)));
        figures.map(|(figure, at)| {
            let name = comparison.sides.get(at + 1).map_or("", |side| side.name.as_str());
            let mut row: Vec<String> =
                cell.factors.iter().map(|(_, value)| value.clone()).collect();
            row.extend([figure.metric.clone(), name.to_owned()]);
            row.extend(csv_side(figure.sides[0].as_ref()));
            row.extend(csv_side(figure.sides[at + 1].as_ref()));
            row.extend(csv_change(figure.changes[at].as_ref(), figure.why_struck_out));
            row
        })
    });
    ExactRows::new(names, rows).csv()
}

pub(super) fn csv_side(figures: Option<&Figures>) -> [String; 4] {
    let (low, high) = figures.and_then(|figures| figures.interval).unzip();
    let runs = exact(figures.map(|figures| figures.values.len()));
    [runs, exact(figures.map(|figures| figures.mean)), exact(low), exact(high)]
}

/// The columns of a change; of figures that are struck out the reason in place of the significance.
fn csv_change(change: Option<&Change>, why_struck_out: Option<&str>) -> [String; 8] {
    let Some(change) = change else {
        let mut unknown: [String; 8] = Default::default();
        unknown[6] = why_struck_out.unwrap_or_default().to_owned();
        return unknown;
    };
    let difference = &change.difference;
    let percent = |share: f64| share * 100.0;
    let (low, high) = difference.interval.unzip();
    [
        percent(difference.share).to_string(),
        exact(low.map(percent)),
        exact(high.map(percent)),
        exact(difference.p),
        exact(change.p_corrected),
        word(&difference.method),
        change.significance.words().to_owned(),
        exact(change.rounds),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_judge::compare::{ComparedSide, Rules, compare, limits};
    use petal_record::observation::metric;
    use petal_record::plain_csv;

    const TWO_NODES: &str = include_str!("../../../tests/samples/compression-two-nodes.csv");

    fn compression(metrics: &[&str]) -> Comparison {
        let rows = plain_csv::parse(TWO_NODES, "two-nodes.csv", None).unwrap();
        let sides = ComparedSide::split("two-nodes.csv", rows, "compression", None).unwrap();
        let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
        compare(&sides, &Rules { metrics, in_turn: false }).unwrap()
    }

    #[test]
    fn the_published_cost_of_compression() {
        let comparison = compression(&[metric::READS, metric::WRITES]);
        let held = ["reads_s < -25%", "reads_s < -5%", "reads_s < -50%"]
            .map(|limit| limits::hold(&limit.parse().unwrap(), &comparison));
        let shown = render(&comparison, &held);
        for line in shown.lines() {
            assert!(line.chars().count() <= super::super::table::WIDTH, "{line}");
            assert_eq!(line, line.trim_end());
        }
        insta::assert_snapshot!(shown, @r#"
        petal comparison

        3 of 3 cells differ, most: reads_s -28.3 % at UPDATE_PCT 0; writes_s -24.3 % at UPDATE_PCT 30. 3
        more figures differ.

        A  compression off (9 runs, the baseline)
        B  compression on (9 runs)

        LIMITS                                              [fail only when the whole interval is past them]
        ====================================================================================================
        INCONCLUSIVE  reads_s < -25%: over 3 cells: -25.6 %, interval -26.5 % to -24.8 %
        FAILED        reads_s < -5%: over 3 cells: -25.6 %, interval -26.5 % to -24.8 %; UPDATE_PCT 0: -28.3
                      %, interval -30.6 % to -26.1 %; UPDATE_PCT 30: -24.9 %, interval -26.8 % to -23.0 %;
                      UPDATE_PCT 50: -23.6 %, interval -25.9 % to -21.0 %
        passed        reads_s < -50%

        READS_S                                                              [means of runs, 95 % intervals]
        ====================================================================================================
        update_pct  n       A     +-  n       B     +-  change %   from     to       p  significant
        ----------  -  ------  -----  -  ------  -----  --------  -----  -----  ------  -----------
        0           3  79,537    467  3  56,994  1,855     -28.3  -30.6  -26.1  0.0003  yes
        30          3  56,856    472  3  42,699  1,200     -24.9  -26.8  -23.0  0.0002  yes
        50          3  48,871  1,921  3  37,360    942     -23.6  -25.9  -21.0  0.0003  yes
        over 3 cells: -25.6 % (-26.5 to -24.8), geometric mean

        WRITES_S                                                             [means of runs, 95 % intervals]
        ====================================================================================================
        update_pct  n       A    +-  n       B    +-  change %   from     to        p  significant
        ----------  -  ------  ----  -  ------  ----  --------  -----  -----  -------  -------------
        0           3    0.00  0.00  3    0.00  0.00         -      -      -        -  no share of 0
        30          3  16,812   110  3  12,721   274     -24.3  -25.8  -22.9  <0.0001  yes
        50          3  23,081   955  3  17,587   344     -23.8  -26.4  -21.0   0.0005  yes
        over 2 cells: -24.1 % (-25.3 to -22.8), geometric mean

        DIFFERENCES                                                               [settings, database, host]
        ====================================================================================================
        No recorded setting differs.

        BEFORE YOU BELIEVE IT
        ====================================================================================================
        - drift: the sides were not run in turn, so whatever else changed between them (other load,
          temperature, a fuller drive) is in the difference too; where the change can be switched, run a
          sweep with the sides as an axis
        - uneven-endpoints: two-nodes.csv row 9: node1 is -5.4 % off in piops; over 5 % from the mean of the
          endpoints: look at paths, caches and other load before trusting these runs

        HOW TO READ THIS
        ====================================================================================================
        - `-` is unknown. It is never a zero. n counts runs, not seconds; +- is half of the 95 % interval of
          their mean.
        - change % is from A, with its own 95 % interval. p is that of "no difference", after Holm's
          correction over the cells of the metric; significant is p under 0.05.
        - Over all cells the change is the geometric mean of their ratios. Its interval is narrower than
          that of any cell, and a limit is held against it first.
        - Sides that were not run in turn are compared by Welch's test, which cannot separate the change
          from other changes between them.
        - docs/judgement.md of petal has the rules, their error rates and their sources.
        "#);
    }

    #[test]
    fn a_row_per_cell_metric_and_side() {
        insta::assert_snapshot!(csv(&compression(&[metric::READS])).unwrap(), @"
update_pct,metric,side,baseline_runs,baseline_mean,baseline_low,baseline_high,runs,mean,low,high,change_pct,change_low_pct,change_high_pct,p,p_corrected,method,significance,rounds
0,reads_s,compression on,3,79537.33333333333,79070.63047148913,80004.03619517753,3,56994,55138.86797760568,58849.13202239432,-28.343084170117173,-30.58512647086573,-26.11163341527942,0.00017196945084630629,0.00034393890169261257,welch,significant,
30,reads_s,compression on,3,56856.333333333336,56384.54768496567,57328.118981701,3,42698.666666666664,41499.12820604169,43898.205127291636,-24.900773294092136,-26.824156917818375,-22.99163466843479,0.00006811194613944529,0.00020433583841833586,welch,significant,
50,reads_s,compression on,3,48871,46950.054679831585,50791.945320168415,3,37359.666666666664,36418.069239365745,38301.264093967584,-23.55452790680227,-25.949223036858072,-21.001239826589526,0.00021675492674146945,0.00034393890169261257,welch,significant,
");
    }

    #[test]
    fn pairing_is_shown() {
        let text = "side,repeat,piops,writes_s\na,1,100,8\na,2,110,9\na,3,120,8\na,4,130,7\n\
                    b,1,50,0\nb,2,52,9\nb,3,63,8\n";
        let rows = plain_csv::parse(text, "t.csv", None).unwrap();
        let sides = ComparedSide::split("t.csv", rows, "side", None).unwrap();
        let rules = Rules { in_turn: true, ..Rules::default() };
        let comparison = compare(&sides, &rules).unwrap();
        assert!(csv(&comparison).unwrap().contains(",paired,significant,3\n"));
        let shown = render(&comparison, &[]);
        let rows = shown.lines().filter(|line| line.contains(" rounds)"));
        insta::assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @"
        all   4  115  20.5  3  55.0  17.4     -50.1  -56.2  -43.2  0.0019  yes (paired, 3 rounds)
        all   4  8.00  1.30  3  5.67  12.3     -32.0     -   -  -  unknown (paired, 3 rounds)
        ");
        insta::assert_snapshot!(comparison.notes[..2].join("\n"), @"
        unpaired: side b, all: piops of 3 rounds, of 4 and 3 runs; side b, all: writes_s of 3 rounds, of 4 and 3 runs; the change is of these rounds alone, the means are of all runs
        no-ratio: side b, all: writes_s; a round has no ratio, because a figure of it is not above zero; rounds without it make it known: the change compares the rounds' means, and its significance is unknown
        ");
    }

    #[test]
    fn more_than_two_sides_have_a_row_each() {
        let mut text = "target,sessions,repeat,piops\n".to_owned();
        for (target, base) in [("old", 100.0), ("new", 120.0), ("same", 100.5)] {
            for (sessions, repeat) in [(1, 1), (1, 2), (1, 3), (8, 1)] {
                let piops = base * f64::from(sessions) + f64::from(repeat);
                text.push_str(&format!("{target},{sessions},{repeat},{piops}\n"));
            }
        }
        let rows = plain_csv::parse(&text, "t.csv", None).unwrap();
        let sides = ComparedSide::split("t.csv", rows, "target", None).unwrap();
        let shown = render(&compare(&sides, &Rules::default()).unwrap(), &[]);
        let table = shown.split("PIOPS").nth(1).unwrap().split("DIFFERENCES").next().unwrap();
        insta::assert_snapshot!(table, @"
                                                                        [means of runs, 95 % intervals]
        ====================================================================================================
        sessions     n    A    +-  n  other    +-  change %   from     to        p  significant
        --------  -  -  ---  ----  -  -----  ----  --------  -----  -----  -------  -----------
        1         B  3  102  2.48  3    122  2.48     +19.6  +17.2  +22.1  <0.0001  yes
        1         C  3  102  2.48  3    102  2.48      +0.5   -1.7   +2.7   0.5734  no
        8         B  1  801     -  1    961     -     +20.0      -      -        -  unknown
        8         C  1  801     -  1    805     -      +0.5      -      -        -  unknown
        ");
    }

    #[test]
    fn a_verdict_and_findings_come_before_the_figures() {
        let mut swept = super::super::sweep::tests::swept();
        for run in &mut swept.runs {
            petal_record::fixture::read_through_page_cache(run);
            petal_judge::conclude(run);
        }
        let side =
            |name: &str| ComparedSide { name: name.to_owned(), observations: swept.observations() };
        let comparison = compare(&[side("a"), side("b")], &Rules::default()).unwrap();
        let shown = render(&comparison, &[]);
        let figures = shown.find("means of runs, 95 % intervals").unwrap();
        assert!(shown.starts_with("petal comparison\n\nNot a storage test: a cache served"));
        assert!(shown.contains("\nnext petal "), "{shown}");
        let finding = shown.find("A  warning cached-by-os, 11 of 11 runs").unwrap();
        assert!(finding < figures, "{shown}");
        assert!(shown.contains("B  warning cached-by-os, 11 of 11 runs; example: first run"));
        // A figure that is no result is in parentheses, and nothing is said of its change.
        let piops = shown.split("\nPIOPS ").nth(1).unwrap().lines().nth(4).unwrap();
        let cells: Vec<&str> = piops.split_whitespace().collect();
        assert!(cells[3].starts_with('(') && cells[3].ends_with(')'), "{piops}");
        assert!(piops.ends_with("-  not a storage test"), "{piops}");
        let markdown = crate::markdown::comparison(&comparison, &[]);
        assert!(markdown.starts_with("**Not a storage test: ") && markdown.contains("~~"));
    }
}
