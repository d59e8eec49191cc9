//! report.html in a real browser: opened from the disk without a network, read with the pointer
//! and with the keyboard, in light and dark. The screenshots stay in the build's tmp folder, to be
//! looked at.

use std::path::{Path, PathBuf};

use crate::devtools::{Browser, installed};
use crate::support::{ALONE, Loop, Workplace, names, skip};

/// A browser with a page open, or None, with the skip reported.
fn opened(page: &Path) -> Option<Browser> {
    let Some(program) = installed() else {
        skip("no Chromium is installed: scripts/install-test-servers.sh does it");
        return None;
    };
    let mut browser = Browser::start(&program);
    browser.window(1280, 900);
    browser.prefers("light", "screen");
    browser.open(page);
    Some(browser)
}

pub fn shot(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn plot(figure: &str) -> String {
    format!("document.querySelector('#fig-{figure} .plot:not([hidden])')")
}

/// What is in one cell of a chart's table.
fn cell(browser: &mut Browser, figure: &str, row: usize, column: usize) -> String {
    browser.text(&format!(
        "document.querySelector('#fig-{figure} .values tbody').rows[{row}].cells[{column}].textContent"
    ))
}

fn tip(browser: &mut Browser) -> String {
    browser.text(
        "document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText",
    )
}

fn assert_quiet(browser: &mut Browser) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let outside: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|url| !url.starts_with("file://") && !url.starts_with("data:"))
        .collect();
    assert_eq!(outside, Vec::<String>::new(), "the page asked for something");
}

fn ran() -> (Workplace, PathBuf) {
    let work = Workplace::loaded(2, "8M");
    let run = ["run", "-s", "2", "-t", "2", "--update-pct", "20", "--run-time", "4"];
    work.petal(run).exits(0);
    let page = work.run_folder().join("report.html");
    (work, page)
}

#[test]
fn a_runs_page_is_read_with_pointer_and_keyboard() {
    let (_work, page) = ran();
    let Some(mut browser) = opened(&page) else { return };

    // The pointer finds the value that the table has.
    let value = cell(&mut browser, "operations", 1, 1);
    assert!(value.chars().all(|c| c.is_ascii_digit() || ",.".contains(c)), "{value}");
    browser.point_at(&format!("{}.querySelector('.hit[data-row=\"1\"]')", plot("operations")));
    let shown = tip(&mut browser);
    assert!(shown.contains(&value), "{value} is not in {shown:?}");

    // A series is switched off and on.
    let button = "document.querySelector('#fig-io .legend button')";
    let state = format!(
        "{button}.getAttribute('aria-pressed') + ' ' + \
         getComputedStyle(document.querySelector('#fig-io .series[data-series=\"0\"]')).display"
    );
    assert_eq!(browser.text(&state), "true inline");
    browser.click(button);
    assert_eq!(browser.text(&state), "false none");
    assert_eq!(tip(&mut browser), "", "what is shown elsewhere is not for this chart");

    // By keyboard alone: the button that has the focus, then the values of the next chart.
    browser.value(&format!("{button}.focus()"));
    browser.press(" ");
    assert_eq!(browser.text(&state), "true inline");
    browser.press("Tab");
    browser.press("Tab");
    let focus = browser.text("document.activeElement.className");
    assert_eq!(focus, "plot", "the charts are on the way of the Tab key");
    browser.press("Home");
    browser.press("ArrowRight");
    let value = cell(&mut browser, "io", 1, 1);
    let said = browser.text("document.getElementById('said').textContent");
    assert!(said.contains(&value), "{value} is not said in {said:?}");
    assert!(tip(&mut browser).contains(&value));
    browser.press("Escape");
    assert_eq!(tip(&mut browser), "");

    // Evidence and tables open without a pointer.
    browser.value("document.querySelector('.values summary').focus()");
    browser.press("Enter");
    assert_eq!(browser.value("document.querySelector('.values').open"), true);

    // Latency is a heat map of the run's own histograms, and percentiles on another axis.
    let axes = "#fig-latency-0 .plot:not([hidden])";
    let variant = format!("document.querySelector('{axes}').dataset.variant");
    assert_eq!(browser.text(&variant), "heat map");
    let shaded = format!("document.querySelectorAll('{axes} path.f-s0').length");
    assert!(browser.value(&shaded).as_u64().unwrap() > 1, "no shades");
    browser.click("document.querySelectorAll('#fig-latency-0 .variants button')[1]");
    assert_eq!(browser.text(&variant), "log");

    // All charts over time have one axis: a moment is at one place, and is marked in all of them.
    browser.point_at(&format!("{}.querySelector('.hit[data-row=\"2\"]')", plot("operations")));
    let places = "(() => { const marks = [...document.querySelectorAll('#time .plot:not([hidden]) .hit.on')];
        return [marks.length, document.querySelectorAll('#time figure').length,
            new Set(marks.map(m => Math.round(m.getBoundingClientRect().left))).size]; })()";
    let places: Vec<u64> = serde_json::from_value(browser.value(places)).unwrap();
    assert!(places[0] >= 6 && places[0] == places[1] && places[2] == 1, "{places:?}");
    assert_quiet(&mut browser);
}

#[test]
fn a_runs_page_is_light_and_dark_wide_narrow_and_printed() {
    let (_work, page) = ran();
    let Some(mut browser) = opened(&page) else { return };
    let paper = "getComputedStyle(document.body).backgroundColor";
    let colour = "getComputedStyle(document.querySelector('#fig-io .series path')).stroke";
    let light = (browser.text(paper), browser.text(colour));
    let bright = browser.screenshot(&shot("run-light.png"));
    browser.prefers("dark", "screen");
    let dark = (browser.text(paper), browser.text(colour));
    assert!(light.0 != dark.0 && light.1 != dark.1, "{light:?} {dark:?}");
    assert_ne!(bright, browser.screenshot(&shot("run-dark.png")));

    // The button overrides what the system prefers: light, then dark.
    let button = "document.getElementById('theme')";
    browser.click(button);
    assert_eq!((browser.text(paper), browser.text(colour)), light);
    browser.click(button);
    browser.prefers("light", "screen");
    assert_eq!((browser.text(paper), browser.text(colour)), dark);

    // Paper is white whatever was chosen, and the charts have its inks.
    browser.prefers("light", "print");
    assert_eq!(browser.text(paper), "rgb(255, 255, 255)");
    assert_eq!(browser.text(colour), light.1);
    browser.screenshot(&shot("run-print.png"));

    // On a telephone only charts and tables scroll sideways, never the page.
    browser.prefers("light", "screen");
    browser.window(390, 800);
    let wide = "document.documentElement.scrollWidth <= innerWidth";
    assert_eq!(browser.value(wide), true, "the page is wider than its window");
    // There they are moved together, so that a moment stays below itself.
    browser.value("document.querySelector('#time .plot').scrollLeft = 120");
    let moved = "new Promise(done => setTimeout(() => done([...document.querySelectorAll(
        '#time .plot:not([hidden])')].every(plot => plot.scrollLeft === 120)), 200))";
    assert_eq!(browser.value(moved), true, "a chart stayed behind");
    browser.screenshot(&shot("run-narrow.png"));
    // What scrolls is in reach of the keyboard; what fits is passed by.
    browser.value("document.querySelectorAll('details').forEach(it => it.open = true)");
    let focus = "new Promise(done => setTimeout(() => { const boxes = [...document.querySelectorAll('.scroll')]
        .map(it => [it.scrollWidth > it.clientWidth || it.scrollHeight > it.clientHeight, it.tabIndex === 0
            && it.getAttribute('role') === 'region' && it.getAttribute('aria-label').length > 2]);
        done([boxes.every(it => it[0] === it[1]), boxes.some(it => it[0]), boxes.some(it => !it[0])]); }, 200))";
    assert_eq!(browser.value(focus), serde_json::json!([true, true, true]), "focus");
    assert_quiet(&mut browser);
    assert_whole(&mut browser, "run");
}

/// The law of every page: on a telephone and on paper nothing is cut. Only charts and the newest second
/// scroll sideways, within reach of the keyboard, on paper nothing does; no drawing has a text beyond
/// its edges, and no figure is broken over two lines.
fn assert_whole(browser: &mut Browser, name: &str) {
    let cut = "(() => {
        const box = it => it.getBoundingClientRect(), isPaper = matchMedia('print').matches;
        const seen = [...document.querySelectorAll('body *')].filter(it => box(it).width > 1 && box(it).height > 1
            && !it.closest('.unseen, .skip, #tip'));
        const said = (why, it) => why + ' ' + (it.closest('[id]')?.id) + ' ' + it.outerHTML.slice(0, 120);
        const scrolls = it => it.scrollWidth > it.clientWidth + 1;
        const holders = '.plot, #now';
        const texts = [], all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (all.nextNode()) if (!all.currentNode.parentElement.closest('svg, script, style, noscript, .unseen, #tip')) texts.push(all.currentNode);
        const broken = texts.filter(text => [...text.data.matchAll(/(?<![\\w./:%-])\\d[\\d,.]*\\d(?![\\w./:%-])/g)].some(one => {
            const range = document.createRange();
            range.setStart(text, one.index);
            range.setEnd(text, one.index + one[0].length);
            return new Set([...range.getClientRects()].filter(it => it.width > 0).map(it => Math.round(it.top))).size > 1;
        }));
        return [
            ...broken.map(text => said('a broken figure: ' + text.data.trim().slice(0, 60), text.parentElement)),
            ...seen.filter(it => box(it).right > innerWidth + 1 && (isPaper || !it.closest(holders)))
                .map(it => said('beyond the page', it)),
            ...seen.filter(it => it.matches('.scroll') && scrolls(it)).map(it => said('scrolls sideways', it)),
            ...seen.filter(it => it.matches('.card > .scroll') && it.scrollHeight > it.clientHeight + 1)
                .map(it => said('cut below', it)),
            ...seen.filter(it => it.matches('caption') && box(it).width < box(it.closest('table')).width * 0.9)
                .map(it => said('a narrow title', it)),
            ...seen.filter(it => it.matches(holders) && scrolls(it) && (isPaper || it.tabIndex !== 0))
                .map(it => said(isPaper ? 'scrolls on paper' : 'out of reach of the keyboard', it)),
            ...seen.filter(it => it.matches('.plot > svg text')).filter(it => {
                const all = box(it.closest('svg'));
                return box(it).right > all.right + 1 || box(it).left < all.left - 1;
            }).map(it => said('beyond its drawing', it)),
        ].slice(0, 8).join(' ; ');
    })()";
    browser.value("document.querySelectorAll('details').forEach(it => it.open = true)");
    // 210 mm less two margins of 14 mm.
    for (medium, width) in [("screen", 390), ("print", 688)] {
        browser.prefers("light", medium);
        browser.window(width, 900);
        // The page marks what scrolls after it was laid out.
        browser.value("new Promise(done => setTimeout(() => done(1), 200))");
        let cut = browser.text(cut);
        browser.screenshot(&shot(&format!("{name}-{width}.png")));
        assert_eq!(cut, "", "{name}: cut at {width} px, {medium}");
    }
    browser.prefers("light", "screen");
    browser.window(1280, 900);
}

/// A calibrated device's own page, then a run and a sweep upon its curve.
#[test]
fn the_calibrated_device_is_drawn_with_the_runs_upon_its_curve() {
    let _alone = ALONE.lock();
    let Some(disk) = Loop::new(256) else { return };
    let work = Workplace::new();
    let data_home = work.path("data-home");
    let petal = |args: &[&str]| work.petal(args).env("XDG_DATA_HOME", &data_home);
    let device = disk.device();
    petal(&["calibrate", device, "--size", "96M", "--seconds", "6", "--depths", "1,2,4,32"])
        .exits(0);
    let calibrated = work.run_folder();
    let url = format!("device:{device}?log=2M");
    petal(&["setup", "-s", "2", "--scale", "32M", "--db", &url]).exits(0);
    // One request in flight: busy processors may leave few of the calibrated depth's requests to the
    // device, and deeper than the curve nothing is known of it.
    let reading = ["--update-pct", "0", "--io-depth", "1", "--db", &url];
    let run = ["run", "-s", "1", "-t", "1", "--run-time", "3"];
    petal(&[&run[..], &reading[..]].concat()).watching().exits(0);
    let ran = work.runs().pop().unwrap();
    petal(&[&["sweep", "--sessions", "1,2,4", "--run-time", "2"], &reading[..]].concat())
        .watching()
        .exits(0);
    let swept = names(&work.path("petal-results"))
        .into_iter()
        .find(|name| name.starts_with("sweep-"))
        .map(|name| work.path("petal-results").join(name))
        .unwrap();
    petal(&["drop", "--db", &url]).exits(0);

    // `petal report` draws the same page again.
    let page = calibrated.join("report.html");
    let first = std::fs::read(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    let reported = work.petal(["report", calibrated.to_str().unwrap()]).exits(0);
    assert!(reported.stdout.contains("RANDOM READS"), "{}", reported.stdout);
    assert!(std::fs::read(&page).unwrap() == first, "another page");

    let Some(mut browser) = opened(&page) else { return };
    // Four depths of reads, of the mix and of writes; a point's figures under the pointer.
    let rows = "document.querySelectorAll('#fig-curves-iops .values tbody tr').length";
    assert_eq!(browser.value(rows), 12);
    browser.point_at(&format!("{}.querySelector('.hit[data-row=\"1\"]')", plot("curves-iops")));
    let value = cell(&mut browser, "curves-iops", 1, 2);
    let shown = tip(&mut browser);
    assert!(shown.contains(&value), "{value} is not in {shown:?}");
    assert_fits(&mut browser, "calibration");

    // The run's own point, by keyboard: the last row, with its share of the curve.
    browser.open(&ran.join("report.html"));
    let line = browser.text("document.querySelector('#device .notes').textContent");
    // With others at work while it was calibrated, the curve is lower than the run.
    let is_share = line.contains("% of the device at this depth");
    assert!(is_share || line.contains("the calibration is too low"), "{line}");
    assert_eq!(cell(&mut browser, "device-iops", 4, 0), "this run");
    let share = cell(&mut browser, "device-iops", 4, 5);
    assert!(share.ends_with('%') && line.contains(&share), "{share}: {line}");
    browser.value(&format!("{}.focus()", plot("device-iops")));
    browser.press("End");
    let said = browser.text("document.getElementById('said').textContent");
    assert!(said.contains("this run") && said.contains(&share), "{said:?}");
    browser.press("Escape");
    let marked = "document.querySelectorAll('#fig-device-us .hit').length";
    assert!(browser.value(marked).as_u64().unwrap() >= 9, "two curves and the run");
    assert_fits(&mut browser, "run-calibrated");

    // Each cell of the sweep is a point.
    browser.open(&swept.join("report.html"));
    let rows = "document.querySelectorAll('#fig-device-iops .values tbody tr').length";
    assert_eq!(browser.value(rows), 4 + 3);
    assert_fits(&mut browser, "sweep-calibrated");
}

/// In light and dark, on a telephone and on paper, without a complaint or a request.
fn assert_fits(browser: &mut Browser, name: &str) {
    let light = browser.screenshot(&shot(&format!("{name}-light.png")));
    browser.prefers("dark", "screen");
    assert_ne!(light, browser.screenshot(&shot(&format!("{name}-dark.png"))));
    assert_whole(browser, name);
    assert_quiet(browser);
}

/// Pages of records that no other test here opens: a run with a divided operation and with the price of
/// a neighbour, costs, petals of a table and of AWR reports.
#[test]
fn every_other_kind_of_page_is_whole_on_a_telephone_and_on_paper() {
    let work = Workplace::new();
    let kept = |name: &str| {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)).unwrap()
    };
    let mut run: serde_json::Value =
        serde_json::from_slice(&kept("data/records/petal-run-2/run.json")).unwrap();
    let part = |name: &str, us: f64| {
        serde_json::json!({ "part": name, "us": us, "events": 9000, "p99_us": us * 3.0,
            "layer": "the kernel's clock of the thread, from one switch of its state to the next" })
    };
    run["waterfall"] = serde_json::json!({
        "operations": 9000, "operation_us": 310.0, "gap_us": 4.0, "why_unknown": null,
        "parts": [part("petal", 2.0), part("run_queue", 127.0), part("device", 175.0),
            { "part": "wire", "us": null, "events": null, "p99_us": null, "layer": "no network" },
            part("other", 2.0)],
    });
    let figure = |layer: &str, name: &str, unit: &str| {
        serde_json::json!({ "layer": layer, "figure": name, "unit": unit, "without": 312.5,
            "with": 12_345.6, "share": 0.353, "interval": [0.281, 0.429], "is_found": true })
    };
    run["interference"] = serde_json::json!([{ "neighbour": "dd if=/dev/zero of=/srv/database/a-long-name bs=1M",
        "worked": 1.0, "pairs": 12, "figures": [figure("users", "p99", "us"), figure("device", "reads", "/s")] }]);
    work.write("run/run.json", run.to_string());
    work.petal(["report", "run"]).exits(0);
    work.write("costs/costs.json", kept("data/costs/costs.json"));
    work.petal(["report", "costs"]).exits(0);
    work.write("flash.csv", kept("samples/flash-pcie.csv"));
    work.petal(["compare", "flash.csv", "--html", "petals.html"]).exits(0);
    for (sessions, name) in [(1, "awr_12c.txt"), (8, "awr_11g.html"), (64, "sp_11g.txt")] {
        work.write(&format!("awr/awr_20_{sessions}.txt"), kept(&format!("data/awr/{name}")));
    }
    work.petal(["awr", "--petals", "awr.html", "awr"]).exits(0);

    let Some(mut browser) = opened(&work.path("run/report.html")) else { return };
    let divided = browser.text("document.querySelector('#fig-operation-parts svg').textContent");
    for word in ["waiting for a processor", "127.0 us, 41.0 %", "device", "175.0 us, 56.5 %"] {
        assert!(divided.contains(word), "{word}: {divided}");
    }
    assert!(browser.text("document.querySelector('#interference').textContent").contains("p99"));
    assert_fits(&mut browser, "run-divided");
    for (page, name) in
        [("costs/report.html", "costs"), ("petals.html", "petals"), ("awr.html", "awr")]
    {
        browser.open(&work.path(page));
        assert_fits(&mut browser, name);
    }
}

#[test]
fn a_second_of_a_heat_map_shows_the_waterfall_of_its_operations() {
    let work = Workplace::loaded(1, "8M");
    let measured = |seconds: &str| {
        let run = ["run", "--run-time", seconds, "--waterfall", "TRUE"];
        work.petal(run).watching().exits(0);
        let folder = work.runs().pop().unwrap();
        let why = crate::support::record(&folder)["waterfall"]["why_unknown"].clone();
        (folder, why)
    };
    let (mut folder, mut why) = measured("4");
    // A busy host kept petal from reading the times in each second.
    if why.as_str().is_some_and(|why| why.contains("no second")) {
        (folder, why) = measured("15");
    }
    if let Some(why) = why.as_str() {
        return crate::support::skip(&format!("threads cannot be timed: {why}"));
    }
    let Some(mut browser) = opened(&folder.join("report.html")) else { return };
    browser.point_at(&format!("{}.querySelector('.hit[data-row=\"2\"]')", plot("latency-0")));
    let shown = tip(&mut browser);
    let operation = cell(&mut browser, "waterfall", 2, 12);
    for part in ["slowest us", "waiting for a processor us", "gap us", &operation] {
        assert!(shown.contains(part), "{part} is not in {shown:?}");
    }
    assert!(!shown.contains("wire"), "unknown parts are left out: {shown:?}");
    // The waterfall's own marks show it once.
    browser.point_at(&format!("{}.querySelector('.hit[data-row=\"2\"]')", plot("waterfall")));
    assert_eq!(tip(&mut browser).matches("operation us").count(), 1);
    assert_fits(&mut browser, "run-waterfall");
}

#[test]
fn a_sweeps_page_shows_its_petals_and_leads_to_each_cell() {
    let work = Workplace::loaded(2, "8M");
    let sweep = [
        "sweep",
        "--sessions",
        "1,2,4",
        "--update-pct",
        "0,20",
        "--work-loop",
        "20",
        "--work-unit",
        "8",
        "--seed",
        "7",
    ];
    work.petal(sweep).exits(0);
    let folder = names(&work.path("petal-results"))
        .into_iter()
        .find(|name| name.starts_with("sweep-"))
        .map(|name| work.path("petal-results").join(name))
        .unwrap();
    for file in ["petals.svg", "petals-mb.svg", "petals-operations.svg"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    let Some(mut browser) = opened(&folder.join("report.html")) else { return };

    // The petals come before the findings, and each finding is there once.
    let order = "[...document.querySelectorAll('main > section')].map(s => s.id).join(' ')";
    let order = browser.text(order);
    assert!(order.contains("petals findings lines"), "{order}");
    let ids =
        "[...document.querySelectorAll('#findings h3')].map(h => h.childNodes[1].textContent)";
    let ids: Vec<String> = serde_json::from_value(browser.value(ids)).unwrap();
    let once: std::collections::BTreeSet<&String> = ids.iter().collect();
    assert!(!ids.is_empty() && once.len() == ids.len(), "{ids:?}");

    // A point of a petal, by the pointer: its sessions and its figures.
    browser.point_at(&format!("{}.querySelector('.hit[data-row=\"1\"]')", plot("petals")));
    let shown = tip(&mut browser);
    for column in [1, 2, 4] {
        let value = cell(&mut browser, "petals", 1, column);
        assert!(shown.contains(&value), "{value} is not in {shown:?}");
    }
    // A line that is switched off is off on either axis, and the keyboard passes it by.
    browser.click("document.querySelector('#fig-petals .legend button')");
    let off = "[...document.querySelectorAll('#fig-petals .series[data-series=\"0\"]')]\
               .every(series => getComputedStyle(series).display === 'none')";
    assert_eq!(browser.value(off), true);
    browser.value(&format!("{}.focus()", plot("petals")));
    browser.press("Home");
    let first = cell(&mut browser, "petals", 3, 0);
    let said = browser.text("document.getElementById('said').textContent");
    assert!(said.contains(&first), "{first} is not said in {said:?}");
    browser.screenshot(&shot("sweep-light.png"));
    browser.prefers("dark", "screen");
    browser.screenshot(&shot("sweep-dark.png"));
    assert_whole(&mut browser, "sweep");

    // On a telephone the peaks are in view, and the rest of the chart is a move away.
    browser.window(390, 800);
    browser.open(&folder.join("report.html"));
    let seen = format!(
        "(() => {{ const plot = {}, box = plot.getBoundingClientRect();
            const ends = [...plot.querySelectorAll('.hit')].map(h => h.getBoundingClientRect().right);
            const last = Math.max(...ends);
            return plot.scrollWidth > plot.clientWidth && last > box.left && last <= box.right;
        }})()",
        plot("petals")
    );
    assert_eq!(browser.value(&seen), true, "the peaks are out of view");
    let axis = format!(
        "(() => {{ const plot = {}, box = plot.getBoundingClientRect();
            const strip = plot.querySelector('.axis').getBoundingClientRect();
            const numbers = [...plot.querySelectorAll('.axis text')].map(it => it.getBoundingClientRect());
            const shown = numbers.filter(it => it.left >= strip.left && it.right <= strip.right);
            return plot.scrollLeft > 0 && Math.abs(strip.left - box.left) < 2 && shown.length > 2;
        }})()",
        plot("petals")
    );
    assert_eq!(browser.value(&axis), true, "the vertical axis is out of view");
    browser.window(1280, 900);
    browser.open(&folder.join("report.html"));

    // Every cell's own report is where the table says.
    let links = browser.value(
        "[...document.querySelectorAll('#cells a')].map(link => decodeURI(new URL(link.href).pathname))",
    );
    let links: Vec<String> = serde_json::from_value(links).unwrap();
    assert_eq!(links.len(), 6);
    assert!(links.iter().all(|link| Path::new(link).is_file()), "{links:?}");
    assert_quiet(&mut browser);

    // The drawings open alone.
    browser.open(&folder.join("petals.svg"));
    assert_eq!(browser.text("document.documentElement.tagName"), "svg");
    assert_quiet(&mut browser);
    browser.screenshot(&shot("petals-alone.png"));
}

#[test]
fn a_comparisons_page_opens_with_its_answer_and_is_read_on_a_telephone() {
    let work = Workplace::new();
    let table = include_str!("../samples/compression-two-nodes.csv");
    work.write("table.csv", table);
    let compare = ["compare", "table.csv", "--by", "compression", "--html", "page.html"];
    work.petal(compare).exits(0).telling(&["the page is page.html"]);
    let Some(mut browser) = opened(&work.path("page.html")) else { return };
    let answer = browser.text("document.querySelector('.answer').textContent");
    assert!(answer.starts_with("3 of 3 cells differ, most: "), "{answer}");
    // The first rows are of a figure that differs; their marks are left of the place of no change.
    let rows = "[...document.querySelectorAll('#change tbody tr')].slice(1, 4).map(row => {
        const x = it => it.getBoundingClientRect().left;
        return [row.cells[3].textContent.trim(), x(row.querySelector('polygon')) < x(row.querySelector('path')),
            row.cells[2].textContent.trim()[0]]; })";
    let rows = browser.value(rows);
    for row in rows.as_array().unwrap() {
        assert_eq!(*row, serde_json::json!(["worse", true, "-"]), "{rows}");
    }
    assert_fits(&mut browser, "compare");
    // The table is read whole there.
    browser.window(390, 800);
    let whole = "[...document.querySelectorAll('#change .scroll')].every(it => it.scrollWidth <= it.clientWidth)";
    assert_eq!(browser.value(whole), true, "the table has to be moved");
    browser.screenshot(&shot("compare-narrow.png"));
}

/// A copy of a run on another host, with other figures.
pub fn copied(run: &Path, to: &Path, host: &str, factor: f64) {
    std::fs::create_dir_all(to).unwrap();
    let text = std::fs::read_to_string(run.join("run.json")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    record["details"]["host"]["name"] = host.into();
    for name in ["physical_read_requests", "physical_write_requests"] {
        for whose in ["/per_second", "/steady/per_second"] {
            if let Some(value) = record.pointer_mut(&format!("{whose}/{name}")) {
                *value = (value.as_f64().unwrap() * factor).into();
            }
        }
    }
    record["settings"]["price_per_month"] = 500.into();
    std::fs::write(to.join("run.json"), record.to_string()).unwrap();
}

/// Makes the device or the page cache the one that served the reads of a run.
fn served_by(folder: &Path, is_cache: bool) {
    let path = folder.join("run.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let findings = record["findings"].as_array_mut().unwrap();
    findings.retain(|finding| finding["id"] != "cached-by-os");
    if is_cache {
        findings.push(serde_json::json!({
            "id": "cached-by-os", "severity": "warning", "message": "", "advice": "",
            "evidence": {},
        }));
    }
    let (device, cache) = if is_cache { (0, 4096) } else { (4096, 0) };
    record["served_by"] = serde_json::json!({
        "by": if is_cache { "page_cache" } else { "device" },
        "words": if is_cache { "page cache 100 %" } else { "device" },
        "why_unknown": null, "asked_bytes": 4096, "device_bytes": device,
        "page_cache_bytes": cache, "unseen_bytes": 0,
    });
    // A record of before there were headlines.
    record["headline"] = serde_json::Value::Null;
    std::fs::write(path, record.to_string()).unwrap();
}

#[test]
fn a_gallery_is_sorted_and_filtered_and_a_card_opens_alone() {
    let (work, page) = ran();
    let run = page.parent().unwrap();
    for (number, host) in ["rose", "lily", "tulip", "weed"].into_iter().enumerate() {
        let to = work.path("others").join(host);
        copied(run, &to, host, 1.0 + number as f64);
        served_by(&to, host == "weed");
    }
    let reported = work.petal(["gallery", "others", "--out", "gallery"]).exits(0).stdout;
    assert!(reported.ends_with("\n\ngallery/index.html\n"), "{reported}");
    // The source of the reads and the warnings are next to each figure.
    let weed = "others/weed, UPDATE_PCT 20: not a storage test; served by page cache 100 %; \
                warnings cached-by-os, ";
    let one_line: String = reported.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains(weed), "{reported}");
    let card = work.petal(["card", "others/tulip", "--out", "gallery"]).exits(0).stdout;
    assert!(card.contains("](gallery/card.svg)"), "{card}");
    assert!(card.starts_with("![petal: ") && card.contains("| platform | SQLite"), "{card}");
    let Some(mut browser) = opened(&work.path("gallery/index.html")) else { return };
    // A chart far down is built when the reader comes near.
    let built = "document.querySelectorAll('#multiples .plot').length";
    let text = std::fs::read_to_string(work.path("gallery/index.html")).unwrap();
    assert_eq!(text.matches("<noscript>").count(), 4);
    browser.window(1280, 200);
    browser.open(&work.path("gallery/index.html"));
    browser.value("document.querySelector('#fig-petal-2').scrollIntoView({behavior: 'instant'})");
    browser.until(&format!("{built} === 4"));
    browser.point_at("document.querySelector('#fig-petal-2 .hit')");
    assert!(tip(&mut browser).contains("PIOPS"), "the values of a chart that was built later");
    browser.window(1280, 100);
    browser.open(&work.path("gallery/index.html"));
    browser.prefers("light", "print");
    browser.until(&format!("{built} === 4"));
    browser.prefers("light", "screen");
    browser.window(1280, 900);
    browser.open(&work.path("gallery/index.html"));
    let hosts = "[...document.querySelectorAll('#lines tbody tr')].filter(r => !r.hidden)
        .map(r => r.cells[12].textContent.trim()).join(' ')";
    let by_piops = "[...document.querySelectorAll('#lines th button')]
        .find(b => b.textContent === 'peak PIOPS')";
    browser.click(by_piops);
    // What the page cache served has the most, and is below all others whatever the order.
    assert_eq!(browser.text(hosts), "tulip lily rose weed", "the most first");
    browser.click(by_piops);
    assert_eq!(browser.text(hosts), "rose lily tulip weed");
    // By no other figure of its peak either.
    for name in ["read us", "a month for 1,000 PIOPS"] {
        let by = format!(
            "[...document.querySelectorAll('#lines th button')].find(b => b.textContent === '{name}')"
        );
        for _ in 0..2 {
            browser.click(&by);
            assert!(browser.text(hosts).ends_with(" weed"), "by {name}");
        }
    }
    let weed = "[...document.querySelectorAll('#lines tbody tr')].at(-1)";
    let looks = |browser: &mut Browser, what: &str| browser.text(&format!("String({what})"));
    let struck = format!("getComputedStyle({weed}.cells[2]).textDecorationLine");
    assert_eq!(looks(&mut browser, &struck), "line-through");
    let rings = format!(
        "[...{weed}.querySelectorAll('.spark circle')].filter(c => c.r.baseVal.value > 3).length"
    );
    assert_eq!(looks(&mut browser, &rings), "0");
    let verdict = browser.text(&format!("{weed}.cells[1].textContent.trim()"));
    assert_eq!(verdict, "not a storage test: page cache 100 %");
    assert!(browser.text(&format!("{weed}.cells[3].textContent")).contains("cached-by-os"));
    // Record, PIOPS, who served the reads and the warnings are in view without a move sideways.
    for width in [390, 1280, 1920] {
        browser.window(width, 900);
        browser.open(&work.path("gallery/index.html"));
        let in_view = "(() => {
            const box = document.querySelector('#lines .scroll').getBoundingClientRect();
            return [...document.querySelectorAll('#lines tbody tr')].every(row =>
                [0, 1, 2, 3].every(at => {
                    const cell = row.cells[at].getBoundingClientRect();
                    return cell.width > 20 && cell.left >= box.left && cell.right <= box.right
                        && cell.right <= innerWidth;
                }));
        })()";
        assert_eq!(browser.value(in_view), true, "at {width} px");
        let is_whole = "[...document.querySelectorAll('#lines tbody tr')].every(row => {
            const text = document.createRange();
            text.selectNodeContents(row.cells[2]);
            return new Set([...text.getClientRects()].map(r => r.top)).size === 1;
        })";
        assert_eq!(browser.value(is_whole), true, "a figure is broken at {width} px");
        browser.screenshot(&shot(&format!("gallery-{width}.png")));
    }
    browser.window(1280, 900);
    browser.open(&work.path("gallery/index.html"));
    browser.value(
        "(() => { const choice = document.querySelector('[aria-label=\"Rows by host\"]');
            choice.value = 'lily'; choice.dispatchEvent(new Event('change')); return 1; })()",
    );
    assert_eq!(browser.text(hosts), "lily");
    let shown = "[...document.querySelectorAll('#multiples figure')].filter(f => !f.hidden).length";
    assert_eq!(browser.value(shown), 1, "the petals of rows that are filtered out");
    browser.value(
        "(() => { const words = document.querySelector('.filters input');
            words.value = 'rose'; words.dispatchEvent(new Event('input')); return 1; })()",
    );
    assert_eq!(browser.text(hosts), "", "both filters hold");
    let month = "document.querySelector('#lines thead').textContent.includes('a month for 1,000')";
    assert_eq!(browser.value(month), true);
    browser.open(&work.path("gallery/index.html"));
    assert_fits(&mut browser, "gallery");
    // On a telephone each published figure is in view with its name.
    browser.window(390, 900);
    browser.open(&work.path("gallery/index.html"));
    let hidden = "(() => { const box = document.querySelector('#fig-published .plot').getBoundingClientRect();
        return [...document.querySelectorAll('#fig-published :is(.hit, svg text)')].filter(it => {
            const own = it.getBoundingClientRect();
            return own.left < box.left || own.right > box.right;
        }).length; })()";
    assert_eq!(browser.value(hidden), 0, "published figures out of view");
    assert_eq!(browser.value("document.querySelectorAll('#fig-published .axis').length"), 0);
    browser.window(1280, 900);
    // The name of a record leads to its page, whatever the names of the folders are.
    for (name, out) in [("a b#c%20?ü", "else where/#1"), ("plain", "plain")] {
        let to = work.path(name).join("it's \"1\"");
        copied(run, &to, "odd", 1.0);
        std::fs::copy(&page, to.join("report.html")).unwrap();
        work.petal(["gallery", name, "--out", out]).exits(0);
        browser.open(&work.path(out).join("index.html"));
        let link = browser.text("document.querySelector('#lines tbody a').href");
        browser.open_url(&link);
        let at = browser.text("decodeURIComponent(location.pathname)");
        assert_ne!(browser.text("document.querySelector('h1').textContent"), "Gallery");
        assert_eq!(Path::new(&at), to.join("report.html").canonicalize().unwrap());
    }
    browser.open(&work.path("gallery/card.svg"));
    assert_eq!(browser.text("document.documentElement.tagName"), "svg");
    browser.screenshot(&shot("card.png"));
    assert_quiet(&mut browser);
}

#[test]
fn the_page_of_reports_over_time_has_the_figures_of_its_csv() {
    let work = Workplace::new();
    crate::awr::reports_of_days(|name, report| {
        work.write(&format!("reports/{name}"), report);
    });
    work.petal(["awr", "--over-time", "--html", "days.html", "reports"]).exits(0);
    let csv = work.petal(["awr", "--over-time", "--csv", "reports"]).exits(0).stdout;
    let Some(mut browser) = opened(&work.path("days.html")) else { return };
    assert_fits(&mut browser, "over-time");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let at = |name: &str| rows[0].iter().position(|it| *it == name).unwrap();
    for figure in ["redo_bytes_per_s", "read_us"] {
        let of_csv = rows.iter().filter(|row| row[at("figure")] == figure);
        let of_csv: Vec<(f64, bool)> = of_csv
            .map(|row| (row[at("value")].parse().unwrap(), row[at("stands_out")] == "true"))
            .collect();
        let shown = browser.text(&format!(
            "[...[...document.querySelectorAll('figure')].find(it => it.querySelector('figcaption') \
             .textContent.trim().startsWith('{figure}')).querySelectorAll('.values tbody tr')] \
             .map(row => row.cells[1].textContent.replaceAll(',', '') + ' ' + \
             row.cells[3].textContent).join(';')"
        ));
        let shown: Vec<(f64, bool)> = shown
            .split(';')
            .map(|row| row.split_once(' ').unwrap())
            .map(|(value, mark)| (value.parse().unwrap(), mark == "outlier"))
            .collect();
        assert_eq!((shown.len(), of_csv.len()), (12, 12));
        for ((value, is_out), (exact, is_csv_out)) in shown.iter().zip(&of_csv) {
            assert!((value - exact).abs() <= exact * 0.005 && is_out == is_csv_out, "{shown:?}");
        }
    }
}
