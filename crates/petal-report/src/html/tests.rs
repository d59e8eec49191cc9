use super::super::hostile;
use super::super::petals::fixture as made;
use super::super::sweep::tests::swept;
use super::*;
use crate::records::ShownRecord;
use petal_judge::compare::limits::hold;
use petal_judge::compare::{ComparedSide, Comparison, Rules, compare};
use petal_judge::petals::Petals;
use petal_record::latency_log::{Spread, Spreads};
use petal_record::sweep::{Sweep, Swept};
use petal_record::{Run, Second, fixture, plain_csv};

/// The page of a run without an interval log.
fn run(seen: &Run) -> Result<String, HtmlError> {
    super::run(seen, &Spreads::new())
}

fn judged() -> Run {
    let mut run = fixture::mixed_run();
    run.summary.findings = petal_judge::judge(&run);
    run
}

/// Asserts that the page has only its own script and no handler, wherever the texts are.
fn assert_harmless(page: &str) {
    assert_eq!(page.matches("<script").count(), 1, "a text became a script");
    assert!(!page.contains("<img"), "a text became an image");
    assert!(page.contains("&#60;script") || page.contains("&lt;script"), "the text is not shown");
    assert_eq!(page.matches("</title>").count() - page.matches("<title id=").count(), 1);
}

#[test]
fn a_hostile_text_anywhere_in_a_record_stays_text() {
    let page = run(&hostile::run()).unwrap();
    assert!(
        page.matches("script&#62;alert(1)").count() + page.matches("script&gt;alert(1)").count()
            > 20
    );
    assert_harmless(&page);
}

#[test]
fn a_hostile_text_anywhere_in_a_sweep_stays_text() {
    let swept = hostile::sweep();
    let hostile = || hostile::HOSTILE.to_owned();
    let mut petals = made::petals();
    petals.notes = vec![hostile()];
    for line in &mut petals.lines {
        line.name = hostile();
        line.factors = vec![(hostile(), hostile())];
        let bend = line.bend_back.as_mut().unwrap();
        (bend.cause, bend.evidence) = (hostile(), vec![hostile()]);
    }
    let page = sweep(&swept, &petals).unwrap();
    assert_harmless(&page);
    assert!(!page.contains("href=\"javascript:"));
    let alone = super::super::petals::svg(&petals, &super::super::petals::PIOPS);
    assert!(!alone.contains("<script") && !alone.contains("<img"));
}

#[test]
fn a_page_fetches_nothing_and_admits_no_script_but_its_own() {
    for page in [run(&judged()).unwrap(), sweep(&swept(), &made::petals()).unwrap()] {
        assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
        assert!(!page.contains("unsafe-inline"));
        for fetched in ["src=\"http", "href=\"http", "url(http", "@import", "//cdn"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
        // Handlers and styles in the markup would need a laxer policy.
        assert!(!page.contains(" onclick=") && !page.contains(" style=\""));
    }
}

/// The minute of the fixture, sixty times over.
fn hour() -> Run {
    let mut run = judged();
    let minute = run.details.timeline.clone();
    run.details.timeline = (0..3600)
        .map(|index| Second { from_s: index as f64, ..minute[index % minute.len()].clone() })
        .collect();
    run.summary.elapsed_s = 3600.0;
    run
}

/// Builds an hour of a slow device: each second's histogram has other holes than the next.
fn spread_wide() -> Spreads {
    let second = |at: u64| Spread {
        from_s: at as f64,
        counts: (15..60)
            .filter(|step| !(step * 7 + at).is_multiple_of(5))
            .map(|step| (step as i32, 1 + (step * 31 + at * 17) % 977 * (60 - step)))
            .collect(),
    };
    ["select", "update"].map(|kind| (kind.to_owned(), (0..3600).map(second).collect())).into()
}

#[test]
fn an_hour_stays_under_a_megabyte_and_a_half() {
    let page = super::run(&hour(), &spread_wide()).unwrap();
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    assert!(page.contains("Drawn in pieces of 20 s"));
    assert_eq!(page.matches("data-variant=\"heat map\"").count(), 2 * 2, "a button and a plot");
}

#[test]
fn a_heat_map_shades_each_step_by_its_share_and_joins_equal_neighbours() {
    let seen = judged();
    let second = |at: usize| Spread {
        from_s: at as f64,
        // 1 of 1,000 took long, in every second but one.
        counts: [(37, 999), (if at == 30 { 50 } else { 45 }, 1)].into(),
    };
    let spreads = [("select".to_owned(), (0..60).map(second).collect())].into();
    let page = super::run(&seen, &spreads).unwrap();
    let heat = page.split("data-variant=\"heat map\"").nth(2).unwrap();
    let paths: Vec<&str> = heat
        .split("<path shape-rendering")
        .skip(1)
        .filter_map(|path| path.split('>').next().filter(|path| path.contains("class=\"f-s0\"")))
        .collect();
    // One second splits the rare step in two and is alone; the usual step is one stretch.
    let [rare, usual] = paths[..2] else { panic!("{paths:?}") };
    assert!(rare.contains("fill-opacity=\"0.16\"") && !usual.contains("fill-opacity"));
    let stretches = |path: &str| {
        path.split("d=\"").nth(1).unwrap().split('"').next().unwrap().matches('M').count()
    };
    assert_eq!((stretches(rare), stretches(usual)), (3, 1));
}

#[test]
fn a_run_begins_with_its_verdict_then_line_warnings_layers_and_charts() {
    let mut seen = judged();
    fixture::read_through_page_cache(&mut seen);
    petal_judge::conclude(&mut seen);
    let page = run(&seen).unwrap();
    let parts = [
        "class=\"verdict\">Not a storage test: ",
        "class=\"next\">next <code>petal ",
        "class=\"status warning\">not a storage test<",
        "class=\"status \">complete<",
        "class=\"paste\"><code>not a storage test",
        "class=\"tiles\"",
        "<section id=\"findings\"",
        "<section id=\"layers\"",
        "<section id=\"time\"",
    ];
    let places = parts.map(|part| page.find(part).unwrap_or_else(|| panic!("no {part}")));
    assert!(places.is_sorted(), "{places:?}");
    assert!(run(&judged()).unwrap().contains("class=\"status good\">complete<"));
}

#[test]
fn charts_of_writes_are_folded_if_a_run_only_reads() {
    let mut seen = judged();
    fixture::time_requests(&mut seen);
    let folded = |seen: &Run| {
        let page = run(seen).unwrap();
        let folds = page.split("<details class=\"card wide fold\"><summary>").skip(1);
        let charts = folds
            .filter(|fold| fold.split("</summary>").nth(1).unwrap().trim().starts_with("<figure"));
        charts.map(|fold| fold.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(folded(&seen), Vec::<String>::new());
    seen.summary.rows.update = 0;
    assert_eq!(folded(&seen), ["Service time of the device&#39;s write requests over time"]);
}

#[test]
fn sentences_come_below_the_row_of_numbers() {
    let mut swept = swept();
    swept.peak_run = swept.runs.first().cloned();
    let page = sweep(&swept, &made::petals()).unwrap();
    let tiles = page.split("<dl class=\"tiles\">").nth(1).unwrap().split("</dl>").next().unwrap();
    let is_text: Vec<bool> = tiles
        .split("<div class=\"tile card")
        .skip(1)
        .map(|tile| tile.starts_with(" words"))
        .collect();
    assert!(
        is_text.is_sorted() && is_text.contains(&false) && is_text.contains(&true),
        "{is_text:?}"
    );
}

#[test]
fn every_chart_has_a_name_a_description_and_its_values() {
    for page in [run(&judged()).unwrap(), sweep(&swept(), &made::petals()).unwrap()] {
        let charts = page.matches("role=\"img\"").count();
        assert!(charts > 5, "{charts}");
        assert_eq!(page.matches("<desc id=").count(), charts);
        assert_eq!(page.matches("<title id=").count(), charts);
        let figures = page.matches("<figure").count();
        assert_eq!(page.matches("<details class=\"values\"").count(), figures);
    }
}

#[test]
fn ids_are_unique() {
    for page in [run(&judged()).unwrap(), sweep(&swept(), &made::petals()).unwrap()] {
        let mut ids: Vec<&str> =
            page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}

fn no_page(_: &str) -> Option<String> {
    None
}

fn gallery_of(count: usize) -> Vec<ShownRecord> {
    let record = |number: usize| {
        let shown = ShownRecord::of_sweep(format!("results/sweep-{number}"), &swept(), None);
        ShownRecord { petals: made::petals(), host: format!("host{number}"), ..shown }
    };
    (0..count).map(record).collect()
}

#[test]
fn a_gallery_of_two_hundred_records_stays_under_ten_megabytes() {
    let page = gallery(&gallery_of(200), &[], None, &no_page).unwrap();
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
    let lines = made::petals().lines.len();
    assert_eq!(page.matches("class=\"spark\"").count(), 200 * lines, "a picture for each line");
    assert_eq!(page.matches("id=\"fig-petal-").count(), 200, "small petals of each record");
}

#[test]
fn texts_and_prices_of_a_gallery() {
    let mut swept = hostile::sweep();
    swept.sweep.cells.truncate(3);
    swept.runs.truncate(3);
    let hostile_name = || hostile::HOSTILE.to_owned();
    let shown = ShownRecord::of_sweep(hostile_name(), &swept, None);
    let petals = Petals { lines: made::petals().lines, ..Petals::default() };
    assert_harmless(&gallery(&[ShownRecord { petals, ..shown }], &[], None, &no_page).unwrap());
    // A price is a column only if one is known, and of the load within the objective.
    let mut swept = super::super::sweep::tests::swept();
    let page =
        gallery(&[ShownRecord::of_sweep("a".into(), &swept, None)], &[], None, &no_page).unwrap();
    assert!(!page.contains("a month for 1,000 PIOPS"));
    for run in &mut swept.runs {
        run.summary.settings.insert("price_per_month".into(), 603.into());
    }
    let objective = "read.avg=200us".parse().unwrap();
    let shown = ShownRecord::of_sweep("a".into(), &swept, Some(&objective));
    let page = gallery(&[shown], &[], Some(&objective), &no_page).unwrap();
    // 8,060 PIOPS with 4 sessions meet it, 12,060 with 16 do not.
    assert!(page.contains("PIOPS within read.avg=200us") && page.contains("8,060"));
    assert!(page.contains("74.8"), "603 over 8.06");
}

/// A comparison of two sides of two cells, one of which has no figure on one side.
fn compared() -> Comparison {
    let table = "side,update_pct,reads_s,writes_s\n\
                 off,0,100,0\noff,0,101,0\noff,0,102,0\noff,20,100,5\noff,20,101,5\n\
                 on,0,90,0\non,0,91,0\non,0,92,0\non,20,90,\non,20,95,\n";
    let rows = plain_csv::parse(table, "t.csv", None).unwrap();
    let sides = ComparedSide::split("t.csv", rows, "side", None).unwrap();
    let metrics = ["writes_s", "reads_s"].map(str::to_owned).into();
    compare(&sides, &Rules { metrics, in_turn: false }).unwrap()
}

#[test]
fn a_comparison_has_the_change_over_all_cells() {
    let table = "side,update_pct,reads_s\n\
                 off,0,100\noff,0,101\noff,0,102\noff,20,100\noff,20,101\noff,20,102\n\
                 on,0,90\non,0,91\non,0,92\non,20,90\non,20,91\non,20,92\n";
    let rows = plain_csv::parse(table, "t.csv", None).unwrap();
    let sides = ComparedSide::split("t.csv", rows, "side", None).unwrap();
    let seen = compare(&sides, &Rules::default()).unwrap();
    let page = comparison(&seen, &[]).unwrap();
    let change = page.split("<section id=\"change\"").nth(1).unwrap();
    let change = change.split("</section>").next().unwrap();
    assert!(
        change.contains("<li>reads_s, over 2 cells: -9.9 % (")
            && change.contains("geometric mean<")
    );
}

#[test]
fn a_comparison_opens_with_its_answer_and_draws_each_change_with_its_interval() {
    let seen = compared();
    let held = [hold(&"reads_s < -5%".parse().unwrap(), &seen)];
    let page = comparison(&seen, &held).unwrap();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not in the page"));
    assert!(at("class=\"answer\">1 of 2 cells differs") < at("<section id=\"change\""));
    assert!(page.contains("<span class=\"status error\">a limit failed</span>"));
    // The figure that differs is first; all rows have one scale, above them.
    let table = page.split("<section id=\"change\"").nth(1).unwrap();
    let table = table.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
    let rows: Vec<&str> = table.split("<tr>").skip(1).collect();
    assert!(rows[0].contains(">-10<") && rows[0].contains(">0<"), "{}", rows[0]);
    assert!(rows[1].contains("reads_s") && rows[1].contains("worse"), "{}", rows[1]);
    assert!(rows[2].contains("reads_s") && rows[2].contains("too few runs"), "{}", rows[2]);
    let none =
        |row: &str| row.split("<path d=\"M").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(none(rows[1]), none(rows[2]), "no change is at one place");
    assert!(page.contains("not measured") && page.contains("no share of 0"));
    let mut hostile = seen;
    hostile.sides[0].name = hostile::HOSTILE.to_owned();
    hostile.cells[0].factors = vec![(hostile::HOSTILE.to_owned(), hostile::HOSTILE.to_owned())];
    assert_harmless(&comparison(&hostile, &held).unwrap());
}

#[test]
fn better_and_worse_have_their_own_marks() {
    let change = |metric: &str, factor: f64| {
        let of = |by: f64| {
            let row = |at: usize| format!("{}\n", (1000.0 + at as f64) * by);
            let text = format!("{metric}\n{}", (0..3).map(row).collect::<String>());
            let observations = plain_csv::parse(&text, "t.csv", None).unwrap();
            ComparedSide { name: format!("by {by}"), observations }
        };
        let seen = compare(&[of(1.0), of(factor)], &Rules::default()).unwrap();
        let page = comparison(&seen, &[]).unwrap();
        let table = page.split("<section id=\"change\"").nth(1).unwrap();
        let row = table.split("<tr>").nth(3).unwrap();
        let color =
            row.split("<polygon").nth(1).unwrap().split('"').find(|it| it.starts_with("f-s"));
        let words = ["better", "worse", "more", "less"];
        let word = words.into_iter().find(|word| row.contains(&format!("\n{word}\n")));
        (word.unwrap().to_owned(), color.unwrap().split(' ').next().unwrap().to_owned())
    };
    for (metric, factor, word, color) in [
        ("reads_s", 1.2, "better", "f-s2"),
        ("reads_s", 0.8, "worse", "f-s1"),
        ("read_us", 1.2, "worse", "f-s1"),
        ("read_us", 0.8, "better", "f-s2"),
        ("redo_mb_s", 1.2, "more", "f-s0"),
    ] {
        assert_eq!(
            change(metric, factor),
            (word.to_owned(), color.to_owned()),
            "{metric} {factor}"
        );
    }
}

#[test]
fn a_sweep_links_to_its_cells_and_names_each_lines_end() {
    let page = sweep(&swept(), &made::petals()).unwrap();
    for cell in &swept().sweep.cells {
        assert!(
            page.contains(&format!("href=\"./{}/report.html\"", cell.folder)),
            "{}",
            cell.folder
        );
    }
    assert!(
        page.contains("lower at 128 sessions, beyond the noise of the repeats; cause: processor")
    );
}

#[test]
fn a_finding_is_counted_once_a_cell_and_many_notes_are_folded() {
    let mut swept = swept();
    let all = swept.runs.len();
    for run in &mut swept.runs {
        run.summary.findings = petal_judge::judge(run);
        run.summary.findings.extend(run.summary.findings.clone());
    }
    let mut petals = made::petals();
    petals.notes = (0..9).map(|number| format!("repeats-vary: cell {number}")).collect();
    let page = sweep(&swept, &petals).unwrap();
    assert!(page.contains("in every run"));
    assert!(!page.contains(&format!("of {all} runs")));
    assert!(page.contains("9 findings to read before comparing: repeats-vary 9"));
}

#[test]
fn records_of_before_and_of_nothing_have_a_page() {
    for run in [Run::begin("x", Default::default()), fixture::opening()] {
        assert!(super::run(&run, &Spreads::new()).unwrap().ends_with("</html>"));
    }
    let killed = tempfile::tempdir().unwrap();
    fixture::killed_run(killed.path(), 4);
    let page = run(&super::super::load(killed.path()).unwrap()).unwrap();
    assert!(page.contains("rebuilt from its seconds"));
    let empty = Swept {
        runs: Vec::new(),
        sweep: Sweep { cells: Vec::new(), ..swept().sweep },
        peak_run: None,
        is_at_work: true,
    };
    assert!(sweep(&empty, &Petals::default()).is_ok());
}

#[test]
fn old_records_have_a_page() {
    let mut found = 0;
    for folder in std::fs::read_dir("../../tests/data/records").unwrap() {
        if let Ok(old) = super::super::load(&folder.unwrap().path()) {
            found += 1;
            assert!(run(&old).unwrap().contains("<h1>"));
        }
    }
    assert!(found > 0);
}

#[test]
fn petals_from_elsewhere_need_no_runs() {
    let seen = swept().observations();
    let page = petals("AWR reports of an array", &made::overlay(), &seen).unwrap();
    assert!(page.contains("AWR reports of an array") && page.contains("postgres://new"));
}

/// `PETAL_SHOW=DIR` keeps them there, to look at.
#[test]
fn pages_and_drawings_are_written_to_their_end() {
    let mut files = vec![
        ("run.html".to_owned(), run(&judged()).unwrap()),
        ("hour.html".to_owned(), super::super::html::run(&hour(), &spread_wide()).unwrap()),
        ("sweep.html".to_owned(), sweep(&swept(), &made::petals()).unwrap()),
        ("overlay.html".to_owned(), petals("Two targets", &made::overlay(), &[]).unwrap()),
    ];
    files.push(("gallery.html".to_owned(), gallery(&gallery_of(12), &[], None, &no_page).unwrap()));
    for what in super::super::petals::ALL {
        let drawn = super::super::petals::svg(&made::petals(), what);
        files.push((format!("{}.svg", what.name), drawn));
    }
    for (name, text) in files {
        let end = if name.ends_with(".svg") { "</svg>" } else { "</html>" };
        assert!(text.trim_end().ends_with(end), "{name}");
        assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count(), "{name}");
        if let Some(dir) = std::env::var_os("PETAL_SHOW") {
            std::fs::write(std::path::Path::new(&dir).join(name), text).unwrap();
        }
    }
}

#[test]
fn a_page_names_the_use_of_petals_processor_time_and_operations_not_begun() {
    let mut seen = judged();
    seen.details.backlog = Some(4711);
    let page = run(&seen).unwrap();
    for reported in ["the database runs inside petal", "due and not begun", "4,711"] {
        assert!(page.contains(reported), "{reported}");
    }
}
