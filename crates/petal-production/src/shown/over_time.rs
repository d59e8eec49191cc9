//! Reports over time: a screen of text, and CSV with a row for each figure of each report.

use crate::moments::{FigureOverTime, Judged, OverTime, ReportMoment};
use crate::reports::over_time::ReportsOverTime;
use crate::rise::{Rise, RiseShare};
use petal_judge::and_more;
use petal_judge::estimate::median;
use petal_record::profile::time_text;
use petal_report::exact_rows::ExactRows;
use petal_report::numbers::{UNKNOWN, counted, exact, rate};
use petal_report::table::{SCREEN_LINES, Table, fitting, line, on_a_screen, paragraph, rest};

/// Figures that are totals themselves.
const OF_TOTALS: [&str; 2] = ["aas", "cpu_idle_pct"];
/// Deviations of an outlier from which on its hour is named without a rise.
const FAR: f64 = 6.0;
/// Lines of each kind that fit on a screen.
const SHOWN: usize = 4;

pub fn render(all: &[ReportsOverTime]) -> String {
    let texts = all.iter().map(|of| text(of, Table::render));
    texts.collect::<Vec<_>>().join("\n")
}

/// Lays out the first instances on a screen, without the columns that a narrow terminal has no room
/// for.
pub fn brief(all: &[ReportsOverTime]) -> String {
    let first = |count: usize| {
        let texts = all.iter().take(count).map(|of| text(of, |table| table.render_fitting().0));
        let others = rest(all.len() - count, "instance", "with --full");
        texts.collect::<Vec<_>>().join("\n") + &others
    };
    on_a_screen(&fitting(all.len(), SCREEN_LINES, first))
}

/// Returns the moment's begin, or the file if it is unknown.
pub fn moment(found: &OverTime, at: usize) -> String {
    let moment = found.moments.get(at);
    let begin = moment
        .and_then(|it| it.begin)
        .map(|begin| time_text(begin).get(..16).unwrap_or_default().replace('T', " "));
    begin.or_else(|| moment.map(|it| it.source.clone())).unwrap_or_default()
}

fn text(of: &ReportsOverTime, lay_out: impl Fn(&Table) -> String) -> String {
    let found = &of.found;
    let (first, last) = (moment(found, 0), moment(found, found.moments.len().saturating_sub(1)));
    let head = match found.moments.len() {
        0 => format!("{}: no report is left", of.name),
        1 => format!("{}: 1 report, {first}", of.name),
        reports => {
            format!("{}: {}, {first} to {last}", of.name, counted(reports as u64, "report"))
        }
    };
    let mut out = paragraph("", "  ", &head);
    if !found.figures.is_empty() {
        out.push_str(&lay_out(&figures(found)));
        for (at, text) in rises(of).iter().enumerate() {
            let label = if at == 0 { "worst hour   " } else { "also         " };
            out.push_str(&paragraph(label, "             ", text));
        }
    }
    for it in found.together.iter().take(SHOWN) {
        let how = if it.rho > 0.0 { "with" } else { "against" };
        let moved = format!("{} {how} {}: rank correlation {:+.2}", it.one, it.other, it.rho);
        out.push_str(&paragraph("moved        ", "             ", &moved));
    }
    for note in of.notes.iter().take(SHOWN) {
        out.push_str(&paragraph("finding      ", "             ", note));
    }
    if of.notes.len() > SHOWN {
        out.push_str(&line(&format!("            {}", and_more("", of.notes.len() - SHOWN))));
    }
    out
}

/// Describes each rise, or the hour that differs most from the others without one.
pub fn rises(of: &ReportsOverTime) -> Vec<String> {
    let found = &of.found;
    let rises = of.rises.iter().map(|(what, rise)| rise_text(found, what, rise));
    let stopped = of.stopped.map(|(at, load)| {
        let load = format!("{}: load {} % of the usual", moment(found, at), rate(load * 100.0));
        outliers(found, at, &OF_TOTALS)
            .map_or_else(|| load.clone(), |out| format!("{load}; also {out}"))
    });
    let mut all: Vec<String> = rises.chain(stopped).collect();
    if all.is_empty() {
        all.push(without_rise(found));
    }
    all
}

fn without_rise(found: &OverTime) -> String {
    let no_rise = "no rise of active sessions or of busy processors exceeds the noise";
    let Some((at, far)) = found.farthest() else {
        return format!("none: {no_rise}, or too few reports have these figures");
    };
    let (at, out) = (moment(found, at), outliers(found, at, &[]).unwrap_or_default());
    match far >= FAR {
        true => format!("{at}: {out}; {no_rise}"),
        false => format!("none: {no_rise}; the farthest outliers are at {at}: {out}"),
    }
}

/// Lists the outliers of a moment, the farthest first, without figures that have their own text.
fn outliers(found: &OverTime, at: usize, said: &[&str]) -> Option<String> {
    let out = found.standing_out(at);
    let one = |(figure, value, judged): &(&FigureOverTime, f64, Judged)| {
        let against = if judged.is_same_hour { "at this hour on other days" } else { "otherwise" };
        format!("{} {} ({} {against})", figure.name, rate(*value), rate(judged.median))
    };
    let listed = out.iter().filter(|(figure, _, _)| !said.contains(&figure.name));
    let listed: Vec<String> = listed.take(SHOWN).map(one).collect();
    (!listed.is_empty()).then(|| listed.join(", "))
}

fn rise_text(found: &OverTime, what: &str, rise: &Rise) -> String {
    let shares = |shares: &[RiseShare]| {
        let shown = shares.iter().take(SHOWN);
        let shown = shown.map(|share| format!("{} {}", share.name, rate(share.more())));
        shown.collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "{}: {} {what}, usually {}; ",
        moment(found, rise.at),
        rate(rise.value),
        rate(rise.usual)
    );
    text.push_str(&match rise.shares.is_empty() {
        true => "cause unknown".to_owned(),
        false => format!("more than usual: {}", shares(&rise.shares)),
    });
    if !rise.classes.is_empty() {
        text.push_str(&format!("; by class: {}", shares(&rise.classes)));
    }
    if let Some(out) = outliers(found, rise.at, &OF_TOTALS) {
        text.push_str(&format!("; also {out}"));
    }
    text
}

/// A row for each figure.
pub fn figures(found: &OverTime) -> Table {
    let head = "figure | unit | n: | median: | lowest: | highest: | highest at | outliers:";
    let rows = found.figures.iter().map(|figure| {
        let known: Vec<f64> = figure.values.iter().copied().flatten().collect();
        let lowest = known.iter().copied().reduce(f64::min);
        let highest = known.iter().copied().reduce(f64::max);
        let at = figure.values.iter().position(|value| value.is_some() && *value == highest);
        let out = figure.judged.iter().flatten().filter(|judged| judged.stands_out()).count();
        let is_judged = figure.judged.iter().any(Option::is_some);
        let shown = |value: Option<f64>| value.map_or_else(|| UNKNOWN.to_owned(), rate);
        [
            figure.name.to_owned(),
            figure.unit.to_owned(),
            known.len().to_string(),
            shown(median(&known)),
            shown(lowest),
            shown(highest),
            at.map_or_else(String::new, |at| moment(found, at)),
            if is_judged { out.to_string() } else { UNKNOWN.to_owned() },
        ]
    });
    Table::headed(head).with_rows(rows)
}

/// Lists all outliers, sorted by time.
pub fn anomalies(found: &OverTime) -> Table {
    let head = "begin | figure | value: | median: | MAD: | deviations: | compared with";
    let all = (0..found.moments.len())
        .flat_map(|at| found.standing_out(at).into_iter().map(move |out| (at, out)));
    Table::headed(head).with_rows(all.map(|(at, (figure, value, judged))| {
        let others = if judged.is_same_hour { "the same hours" } else { "all hours" };
        [
            moment(found, at),
            figure.name.to_owned(),
            rate(value),
            rate(judged.median),
            rate(judged.mad),
            format!("{:+.1}", judged.sigmas),
            format!("{} of {others}", judged.others),
        ]
    }))
}

/// A figure of a report over time.
struct CsvRow<'a> {
    of: &'a ReportsOverTime,
    moment: &'a ReportMoment,
    figure: &'a FigureOverTime,
    value: Option<f64>,
    judged: Option<Judged>,
}

/// A column of the CSV: its name, and its cell in a row.
type OverTimeColumn = (&'static str, fn(&CsvRow<'_>) -> String);

const CSV: [OverTimeColumn; 12] = [
    ("database", |row| row.of.name.clone()),
    ("begin", |row| row.moment.begin.map(time_text).unwrap_or_default()),
    ("file", |row| row.moment.source.clone()),
    ("figure", |row| row.figure.name.to_owned()),
    ("unit", |row| row.figure.unit.to_owned()),
    ("value", |row| exact(row.value)),
    ("median", |row| exact(row.judged.map(|it| it.median))),
    ("mad", |row| exact(row.judged.map(|it| it.mad))),
    ("deviations", |row| exact(row.judged.map(|it| it.sigmas))),
    ("compared_with", |row| match row.judged.map(|it| it.is_same_hour) {
        None => String::new(),
        Some(is_same_hour) => if is_same_hour { "same_hours" } else { "all_hours" }.to_owned(),
    }),
    ("others", |row| exact(row.judged.map(|it| it.others))),
    ("stands_out", |row| exact(row.judged.map(|it| it.stands_out()))),
];

pub fn csv(all: &[ReportsOverTime]) -> Result<String, csv::Error> {
    let rows = all.iter().flat_map(|of| {
        let moments = of.found.moments.iter().enumerate();
        moments.flat_map(move |(at, moment)| {
            of.found.figures.iter().map(move |figure| {
                let value = figure.values.get(at).copied().flatten();
                let judged = figure.judged.get(at).copied().flatten();
                CsvRow { of, moment, figure, value, judged }
            })
        })
    });
    let rows = rows.map(|row| CSV.map(|(_, cell)| cell(&row)));
    ExactRows::new(CSV.map(|(name, _)| name), rows).csv()
}
