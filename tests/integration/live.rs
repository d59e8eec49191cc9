//! Work that is watched: on the full screen of a terminal, which util-linux's `script` makes, and in a
//! browser; and work that goes on without either.

use crate::support::SECONDS;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType};

use super::browser::shot;
use super::devtools::{Browser, installed};
use super::serve::Served;
use super::support::{LIMIT, Workplace, names, record, skip, until};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// petal on a terminal.
struct OnTerminal {
    child: Child,
    keys: ChildStdin,
    output: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    /// Starts it on a terminal of 80 columns and 24 rows.
    fn start(work: &Workplace, arguments: &str) -> Self {
        Self::start_in(work, arguments, 80, 24)
    }

    fn start_in(work: &Workplace, arguments: &str, columns: u32, rows: u32) -> Self {
        let petal = env!("CARGO_BIN_EXE_petal");
        // A file of this name makes the terminal larger. The exit code is the last line.
        let command = format!(
            "stty cols {columns} rows {rows}; (until [ -e larger ]; do sleep 0.1; done; stty cols 100 rows 30 </dev/tty) & \
             {petal} {arguments}; echo exit $?; kill $!"
        );
        let mut child = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env_remove("XDG_DATA_HOME")
            .env_remove("NO_COLOR")
            .env("HOME", work.path("home"))
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .env("NO_OS_PERF_DATA", "TRUE")
            .current_dir(work.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&output);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(bytes @ 1..) = stdout.read(&mut piece) {
                into.lock().unwrap().extend_from_slice(&piece[..bytes]);
            }
        });
        Self { child, keys, output }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    fn until_it_shows(&self, words: &str) {
        until(words, || self.text().contains(words));
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for the end. Returns the output after the screen, which must have been left.
    fn ends(mut self, code: i32) -> String {
        until("its end", || self.child.try_wait().unwrap().is_some());
        until("its exit code", || {
            self.text().contains("\nexit ") || self.text().contains("\rexit ")
        });
        let text = self.text();
        assert!(text.contains(&format!("exit {code}")), "{text}");
        let (_, after) = text.rsplit_once(LEAVE).expect("the screen is left");
        after.replace('\r', "")
    }
}

#[test]
fn a_run_on_the_full_screen_shows_its_figures_and_ends_with_its_report() {
    let work = Workplace::loaded(1, "8M");
    let shown = OnTerminal::start(&work, "run --live --run-time 4 --update-pct 20 --warm-up 0");
    shown.until_it_shows(ENTER);
    for words in ["operations/s", "asked by petal, rows", "database", " left", "q back to lines"] {
        shown.until_it_shows(words);
    }
    let after = shown.ends(0);
    let run = record(&work.run_folder());
    assert_eq!(run["status"], "complete");
    let limit = run["limited_by"]["words"].as_str().unwrap();
    let words: String = after.split_whitespace().collect();
    assert!(words.contains(&limit.replace(' ', "")), "the report's own limit: {after}");
}

#[test]
fn conclusions_on_the_full_screen_are_whole_in_every_size() {
    let work = Workplace::loaded(1, "8M");
    for (columns, rows) in [(60, 20), (80, 24), (100, 30)] {
        let run = "run --live --run-time 7 --update-pct 20";
        let shown = OnTerminal::start_in(&work, run, columns, rows);
        shown.until_it_shows("verdict after ");
        let text = shown.text();
        shown.ends(0);
        assert!(!text.contains("..."), "{columns}x{rows}: {text}");
        // Each row is preceded by its place and a color.
        let row = |part: &str| {
            let (_, row) = part.split_once(|letter: char| letter.is_ascii_alphabetic())?;
            Some(row.chars().count())
        };
        let longest = text.split('\x1b').filter_map(row).max();
        assert_eq!(longest, Some(columns as usize), "{columns}x{rows}: {text}");
    }
}

#[test]
fn a_terminal_that_grows_is_filled_and_one_that_is_stopped_holds_no_run_up() {
    let work = Workplace::loaded(1, "8M");
    let mut shown = OnTerminal::start(&work, "run --live --run-time 4");
    shown.until_it_shows("\x1b[24;1H");
    shown.until_it_shows("asked by petal");
    assert!(!shown.text().contains("\x1b[30;1H"));
    work.write("larger", "");
    shown.until_it_shows("\x1b[30;1H");
    // Ctrl-S: the terminal takes nothing more until Ctrl-Q.
    shown.press("\x13");
    until("the record", || work.run_folder().join("report.txt").exists());
    assert!(!shown.text().contains("exit "), "the terminal is stopped");
    shown.press("\x11");
    shown.ends(0);
    assert_eq!(record(&work.run_folder())["status"], "complete");
}

#[test]
fn a_panic_gives_the_terminal_back_and_its_message_is_seen() {
    let work = Workplace::new();
    let url = format!("scripted:{}?select_us=50000&panic_at=60", work.path("data").display());
    work.petal(["setup", "-s", "1", "--scale", "8M", "--db", &url]).exits(0);
    let run = format!("run --live --run-time 5 -t 2 --update-pct 0 --work-unit 1 --db '{url}'");
    let shown = OnTerminal::start(&work, &run);
    shown.until_it_shows(ENTER);
    let after = shown.ends(1);
    let (panicked, lines) = ("the script says so", "operations/s,");
    assert!(after.contains(panicked) && after.contains(lines), "{after}");
    assert_eq!(record(&work.run_folder())["status"], "complete");
}

#[test]
fn q_goes_back_to_lines_and_the_run_goes_on() {
    let work = Workplace::loaded(1, "8M");
    let mut shown = OnTerminal::start(&work, "run --live --run-time 5");
    shown.until_it_shows("operations/s");
    shown.press("q");
    shown.until_it_shows(LEAVE);
    let after = shown.ends(0);
    assert!(after.contains("operations/s,"), "the line of progress: {after}");
    assert_eq!(record(&work.run_folder())["status"], "complete");
}

#[test]
fn s_asks_once_and_stops_a_run_with_neighbours_cleanly() {
    let work = Workplace::loaded(1, "8M");
    let run = "interfere --live --rate 50 --with none --pairs 3 --slot 600";
    let mut shown = OnTerminal::start(&work, run);
    shown.until_it_shows("asked by petal");
    shown.until_it_shows("slot 1 of 6, no");
    shown.press("s");
    shown.until_it_shows("s stops it cleanly");
    shown.press("s");
    shown.ends(130);
    let run = record(&work.run_folder());
    assert_eq!(run["status"], "interrupted");
    assert!(run["ops"]["total"].as_u64().unwrap() > 0);
}

#[test]
fn a_sweep_is_watched_from_a_second_process_which_leaves_it_alone() {
    let work = Workplace::loaded(1, "8M");
    let sweep =
        work.petal(["sweep", "--sessions", "1,2", "--run-time", "4", "--out", "cells"]).start();
    until("the first cell", || work.path("cells/sweep.json").exists());
    let mut shown = OnTerminal::start(&work, "attach cells");
    shown.until_it_shows("of 2 runs done");
    shown.until_it_shows("PIOPS");
    shown.press("q");
    assert!(shown.ends(0).contains("the work goes on"));
    sweep.ends().exited(0);
    let sweep = std::fs::read_to_string(work.path("cells/sweep.json")).unwrap();
    assert!(sweep.contains("\"status\": \"complete\""), "{sweep}");
}

#[test]
fn s_on_an_attached_screen_stops_the_petal_that_works_there() {
    let work = Workplace::loaded(1, "8M");
    let run = work.petal(["run", "--run-time", "600"]).start();
    until("the seconds", || {
        work.runs().first().is_some_and(|folder| folder.join(SECONDS).exists())
    });
    let folder = work.run_folder();
    let mut shown = OnTerminal::start(&work, &format!("attach {}", folder.display()));
    shown.until_it_shows("operations/s");
    shown.press("s");
    shown.until_it_shows("s stops it cleanly");
    shown.press("s");
    let after = shown.ends(0);
    assert!(after.contains("interrupted"), "the run's own report: {after}");
    run.ends().exited(130);
    assert_eq!(record(&folder)["status"], "interrupted");
    let over = work.petal(["attach", folder.to_str().unwrap()]).exits(3);
    over.telling(&["nothing is running there"]);
}

#[test]
fn a_calibration_is_watched_from_a_second_process_and_its_result_is_printed() {
    let calibration =
        ["calibrate", "cal.dat", "--size", "32M", "--seconds", "60", "--depths", "1,4"];
    is_watched(&calibration, "measuring", &["RANDOM READS", "interrupted"]);
}

#[test]
fn costs_are_watched_from_a_second_process_and_their_result_is_printed() {
    let database = "sqlite:data?cache=4M";
    let costs = ["costs", "--db", database, "--scale", "32M", "--seconds", "60", "--sessions", "1"];
    is_watched(&costs, "a stop keeps the whole ones", &["us a block", "interrupted"]);
}

/// Watches work that notes its progress, stops it after a second of `phase`, and reads its result.
#[track_caller]
fn is_watched(command: &[&str], phase: &str, words: &[&str]) {
    let work = Workplace::new();
    let watched = work.petal(command).start();
    until("its progress", || {
        work.runs().first().is_some_and(|folder| folder.join("progress.ndjson").exists())
    });
    let folder = work.run_folder();
    let mut shown = OnTerminal::start(&work, &format!("attach {}", folder.display()));
    shown.until_it_shows("petal attach 2");
    until(phase, || {
        let text = shown.text();
        let lines =
            text.split(phase).skip(1).map(|after| after.trim_start_matches([')', ':', ' ']));
        // The last piece of the output may end before its number.
        lines.into_iter().any(|now| now.starts_with(|digit: char| ('1'..='9').contains(&digit)))
    });
    shown.press("s");
    shown.until_it_shows("s stops it cleanly");
    shown.press("s");
    let after = shown.ends(0);
    for of_result in words {
        assert!(after.contains(of_result), "{of_result} is not in {after}");
    }
    watched.ends().exited(130);
    assert!(!folder.join("progress.ndjson").exists());
    let over = work.petal(["attach", folder.to_str().unwrap()]).exits(3);
    over.telling(&["nothing is running there; petal report shows its record"]);
}

#[test]
fn where_no_petal_works_attach_says_how_a_load_is_watched() {
    let work = Workplace::loaded(1, "8M");
    let refused = work.petal(["attach", "petal-data"]).exits(3);
    refused.telling(&["petal-data: nothing is running there", "petal setup --live"]);
}

#[test]
fn a_killed_petal_leaves_the_terminal_as_it_was() {
    let work = Workplace::loaded(1, "8M");
    let shown = OnTerminal::start(&work, "run --live --run-time 600");
    shown.until_it_shows("asked by petal");
    let locks = work.run_folder();
    let about = std::fs::metadata(&locks).unwrap();
    let number = format!(":{} ", std::os::unix::fs::MetadataExt::ino(&about));
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let line = locks.lines().find(|line| line.contains("FLOCK") && line.contains(&number));
    let pid = line.unwrap().split_ascii_whitespace().nth(4).unwrap();
    assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
    let text = {
        until(LEAVE, || shown.text().contains(LEAVE));
        until("its exit code", || shown.text().contains("exit "));
        shown.text()
    };
    assert!(text.contains("was killed"), "{text}");
}

#[test]
fn without_a_terminal_a_full_screen_is_refused() {
    let work = Workplace::loaded(1, "8M");
    let run = work.petal(["run", "--live", "--run-time", "1"]).under("setsid", &["--wait"]);
    run.exits(2).telling(&["--live: there is no terminal", "--live=8080"]);
    assert!(work.runs().is_empty());
}

/// Petal at work with `--live=0`, when it has printed its URL.
fn in_browser(work: &Workplace, arguments: &[&str]) -> Served {
    let mut running = work.petal(arguments.iter().chain(&["--live=0"])).watching().start();
    running.until_it_says("watch it at ");
    running.until_it_says("/\n");
    let said = running.said();
    let (_, url) = said.split_once("watch it at ").unwrap();
    let url = url.lines().next().unwrap().replace(NAMED, "127.0.0.1");
    Served::at(running, &url)
}

/// A name of the host that is given to petal and leads nowhere.
const NAMED: &str = "db1.test";

/// Asks for the events of the work.
fn ask_for_events(mut peer: TcpStream, served: &Served) -> TcpStream {
    let (root, address) = (&served.root, &served.address);
    let request = format!("GET {root}events HTTP/1.1\r\nHost: {address}\r\n\r\n");
    peer.write_all(request.as_bytes()).unwrap();
    peer.set_read_timeout(Some(LIMIT)).unwrap();
    peer
}

fn events(served: &Served) -> TcpStream {
    ask_for_events(TcpStream::connect(&served.address).unwrap(), served)
}

/// The begin of the answer, which stays unread.
fn status(peer: &TcpStream) -> String {
    let mut head = [0; 12];
    while peer.peek(&mut head).unwrap() < head.len() {}
    String::from_utf8_lossy(&head).into_owned()
}

const ADMITTED: &str = "HTTP/1.1 200";
const REFUSED: &str = "HTTP/1.1 503";

/// A browser that asks for the events and takes none: its buffer, and petal's for it, hold less than a page.
fn takes_nothing(served: &Served) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&socket, 1).unwrap();
    crate::sandbox::small_segments(socket.as_fd()).unwrap();
    rustix::net::connect(&socket, &served.address.parse::<SocketAddr>().unwrap()).unwrap();
    ask_for_events(socket.into(), served)
}

/// True if petal has closed this connection: what it still has is read to its end.
fn is_closed(peer: &mut TcpStream) -> bool {
    match peer.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Eight browsers that petal has room for: it admits no more.
fn eight(asks: impl Fn() -> TcpStream) -> Vec<TcpStream> {
    let mut admitted = Vec::new();
    until("room for eight browsers", || {
        admitted.extend(Some(asks()).filter(|peer| status(peer) == ADMITTED));
        admitted.len() == 8
    });
    admitted
}

#[test]
fn browsers_that_take_nothing_are_let_go_while_the_run_goes_on() {
    let work = Workplace::loaded(1, "8M");
    let served = in_browser(&work, &["run", "--run-time", "600", "--warm-up", "0"]);
    let mut lines = BufReader::new(events(&served)).lines();
    assert!(lines.any(|line| line.unwrap() == "event: page"), "the first page");
    drop(lines);
    (0..3).for_each(|_| drop(takes_nothing(&served)));
    // As many as petal has room for, once it has noticed that the others are gone.
    let mut slow = eight(|| takes_nothing(&served));
    assert_eq!(status(&events(&served)), REFUSED);
    let seconds = work.seconds().len();
    let others = eight(|| events(&served));
    assert!(work.seconds().len() > seconds + 5, "the run goes on");
    assert!(slow.iter_mut().all(is_closed));
    drop(others);
    served.running.signal(rustix::process::Signal::INT);
    served.running.ends().exited(130);
    assert_eq!(record(&work.run_folder())["status"], "interrupted");
}

#[test]
fn a_run_ends_soon_though_a_browser_takes_nothing() {
    let work = Workplace::loaded(1, "8M");
    let served = in_browser(&work, &["run", "--run-time", "5", "--warm-up", "0"]);
    let mut slow = takes_nothing(&served);
    drop(takes_nothing(&served));
    let mut taken = String::new();
    events(&served).read_to_string(&mut taken).unwrap();
    assert!(taken.starts_with(ADMITTED) && taken.contains("event: end"), "{taken}");
    let began = Instant::now();
    served.running.ends().exited(0);
    // Five seconds, where the connection itself has twenty.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(record(&work.run_folder())["status"], "complete");
    assert!(status(&slow) == ADMITTED && is_closed(&mut slow));
}

const FITS: &str = "document.documentElement.scrollWidth <= innerWidth";
const NOW: &str = "document.getElementById('now').textContent";
/// All words of the page, without line breaks.
const WORDS: &str = "document.getElementById('main').textContent.replace(/\\s+/g, ' ').trim()";

#[test]
fn a_run_in_a_browser_is_followed_until_its_page_is_its_report() {
    let work = Workplace::loaded(1, "8M");
    let run = ["run", "--run-time", "600", "--update-pct", "20", "--warm-up", "0"];
    let served = in_browser(&work, &[&run[..], &["--host-name", NAMED]].concat());
    // Only the URL that petal printed is answered, events too.
    let (address, root) = (&served.address, &served.root);
    for (path, host, status) in [
        ("/events", address.as_str(), 403),
        ("/metrics", address.as_str(), 403),
        (root, "evil.example", 403),
        (root, NAMED, 200),
        (&format!("{root}metrics"), address.as_str(), 200),
        (&format!("{root}../run.json"), address.as_str(), 404),
    ] {
        let (head, _) = served.send(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {host}: {head}");
    }
    // Readers that are gone, and some that never read.
    // With the browser's first page there are as many as petal has room for.
    for _ in 0..3 {
        status(&events(&served));
    }
    let mut slow: Vec<TcpStream> = (0..4).map(|_| events(&served)).collect();
    let Some(program) = installed() else {
        return skip("no Chromium is installed: scripts/install-test-servers.sh does it");
    };
    let mut browser = Browser::start(&program);
    browser.prefers("light", "screen");
    for width in [390, 1400] {
        browser.window(width, 900);
        browser.open_url(&served.url(""));
        browser.until(&format!("{NOW}.includes('asked by petal, rows')"));
        browser.until("document.querySelectorAll('#time .plot').length > 3");
        assert_eq!(browser.value(FITS), true, "the page is wider than {width} px");
        browser.screenshot(&shot(&format!("live-{width}.png")));
    }
    // Too many of them are refused, and the browser still has its events.
    let mut is_refused = || {
        slow.push(events(&served));
        status(slow.last().unwrap()) == REFUSED
    };
    assert!((0..9).any(|_| is_refused()));
    let now = browser.text(NOW);
    browser.until(&format!("{NOW} !== {now:?}"));
    // The reader's own changes stay when the page is renewed.
    let button = "document.querySelector('#fig-io .legend button')";
    browser.click(button);
    browser.click("document.querySelector('#fig-io .values summary')");
    let changed = format!(
        "{button}.getAttribute('aria-pressed') + document.querySelector('#fig-io .values').open"
    );
    assert_eq!(browser.text(&changed), "falsetrue");
    browser.value("document.activeElement.blur()");
    served.running.signal(rustix::process::Signal::INT);
    served.running.ends().exited(130);
    drop(slow);
    browser.until("document.getElementById('now').hidden");
    assert_eq!(browser.text(&changed), "falsetrue");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let last = browser.text(WORDS);
    browser.open(&work.run_folder().join("report.html"));
    assert_eq!(last, browser.text(WORDS), "the page is the report");
    assert!(last.contains("limited by"), "{last}");
}

#[test]
fn a_sweep_that_goes_on_is_followed_in_petal_serve() {
    const HOSTILE: &str = "<img src=x onerror=document.title='hurt'>";
    let work = Workplace::loaded(1, "8M");
    let out = format!("{HOSTILE}/sweep");
    std::fs::create_dir(work.path(HOSTILE)).unwrap();
    let Some(program) = installed() else {
        return skip("no Chromium is installed: scripts/install-test-servers.sh does it");
    };
    // It takes seconds to start on a busy machine: the sweep would be over.
    let mut browser = Browser::start(&program);
    let sweep =
        ["sweep", "--sessions", "1,2", "--run-time", "4", "--update-pct", "0", "--out", &out];
    let mut sweep = work.petal(sweep).start();
    let folder = work.path(&out);
    sweep.until("the first cell", || folder.join("sweep.json").exists());
    let served = Served::folder(&work, HOSTILE);
    let (_, list) = served.get("");
    assert!(
        String::from_utf8(list).unwrap().contains("\nstill running\n"),
        "the state in the list"
    );
    let link = served.records().remove(0);
    browser.open_url(&served.url(&link));
    browser.until(&format!("{NOW}.includes('of 2 runs done') && {NOW}.includes('next  ')"));
    browser.until("document.querySelector('h1').textContent.includes('a sweep over ')");
    let state = "document.querySelector('.side .status').textContent";
    browser.until(&format!("{state} === 'still running'"));
    assert_eq!(browser.value(FITS), true);
    browser.until("document.getElementById('now').hidden");
    sweep.ends().exited(0);
    assert_eq!(browser.text(state), "complete");
    assert_eq!(browser.value("document.querySelectorAll('#cells tbody tr').length"), 2);
    assert_ne!(browser.text("document.title"), "hurt");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let last = browser.text(WORDS);
    browser.open(&folder.join("report.html"));
    assert_eq!(last, browser.text(WORDS), "the page is the report");
    // A cell's link leads to its own report.
    browser.open_url(&served.url(&link));
    browser.value("document.querySelector('#cells tbody a').click()");
    browser.until("document.querySelectorAll('#time .plot').length > 3");
    assert_eq!(names(&folder).iter().filter(|name| name.starts_with("cell")).count(), 2);
}

#[test]
#[ignore = "writes docs/images/live-browser.png from a demo of three minutes: \
            cargo test --test integration the_picture_of_the_demo_in_a_browser -- --ignored"]
fn the_picture_of_the_demo_in_a_browser() {
    let work = Workplace::new();
    let served = in_browser(&work, &["demo"]);
    let mut browser = Browser::start(&installed().expect("Chromium"));
    browser.prefers("light", "screen");
    browser.window(1000, 900);
    browser.open_url(&served.url(""));
    browser.until("document.querySelectorAll('#cells tbody tr').length > 24");
    // The petals are whole.
    let end = "document.getElementById('fig-petals').getBoundingClientRect().bottom + scrollY + 24";
    let height = browser.value(&format!("Math.ceil({end})")).as_u64().unwrap();
    browser.window(1000, height as u32);
    let images = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
    browser.screenshot(&images.join("live-browser.png"));
}
