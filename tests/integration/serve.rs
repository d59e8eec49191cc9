//! `petal serve`: its pages, its guard, and readers that are slow, many or gone.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::browser::{copied, shot};
use crate::devtools::{Browser, installed};
use crate::support::{Running, Workplace, names, skip};

/// A petal that serves pages to browsers.
pub struct Served {
    pub running: Running,
    /// `127.0.0.1:PORT`
    pub address: String,
    /// `/TOKEN/`
    pub root: String,
}

impl Served {
    /// Starts `petal serve petal-results`.
    fn start(work: &Workplace) -> Self {
        Self::folder(work, "petal-results")
    }

    pub fn folder(work: &Workplace, folder: &str) -> Self {
        let said = work.path("url");
        let petal = work.petal(["serve", folder]).into(File::create(&said).unwrap());
        let mut running = petal.start();
        let read = || fs::read_to_string(&said).unwrap_or_default();
        running.until("it prints its URL", || read().ends_with("/\n"));
        Self::at(running, &read())
    }

    pub fn at(running: Running, url: &str) -> Self {
        let (address, root) = url.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{url}");
        Self { running, address: address.to_owned(), root: format!("/{root}") }
    }

    pub fn url(&self, page: &str) -> String {
        format!("http://{}{}{page}", self.address, self.root)
    }

    /// Sends a request as it is, and returns the head and the body of the answer; empty without an answer.
    pub fn send(&self, request: &str) -> (String, Vec<u8>) {
        let mut peer = TcpStream::connect(&self.address).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = Vec::new();
        // A refused peer is reset.
        let _ = peer.write_all(request.as_bytes()).and_then(|()| peer.read_to_end(&mut answer));
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |end| end + 4);
        let body = answer.split_off(end);
        (String::from_utf8(answer).unwrap(), body)
    }

    pub fn get(&self, page: &str) -> (String, Vec<u8>) {
        let (root, address) = (&self.root, &self.address);
        self.send(&format!("GET {root}{page} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
    }

    /// A page that is there.
    fn page(&self, page: &str) -> Vec<u8> {
        let (head, body) = self.get(page);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{page}: {head}");
        body
    }

    /// The links of the list, in its order.
    pub fn records(&self) -> Vec<String> {
        let list = String::from_utf8(self.page("")).unwrap();
        let links = list.split("<a href=\"record/").skip(1);
        let links = links.map(|link| link.split_once('"').unwrap().0);
        links.filter(|link| link.ends_with('/')).map(|link| format!("record/{link}")).collect()
    }
}

/// Two runs and a sweep.
fn measured() -> Workplace {
    let work = Workplace::loaded(2, "8M");
    for updates in ["0", "20"] {
        let run = ["run", "-s", "2", "--work-loop", "30", "--update-pct", updates];
        work.petal(run).exits(0);
    }
    let sweep = ["sweep", "--sessions", "1,2", "--work-loop", "20", "--update-pct", "20"];
    work.petal(sweep).exits(0);
    work
}

fn page_of(work: &Workplace, path: &str) -> Vec<u8> {
    fs::read(work.path("petal-results").join(path)).unwrap()
}

#[test]
fn pages_and_downloads_are_those_of_petals_other_commands() {
    let work = measured();
    let served = Served::start(&work);
    let results = names(&work.path("petal-results"));
    let [one, two, sweep] = results.as_slice() else { panic!("{results:?}") };
    // The newest first, and the sweep's name is the last one.
    let records = served.records();
    let [of_sweep, of_two, of_one] = records.as_slice() else { panic!("{records:?}") };
    for (link, name) in [(of_one, one), (of_two, two), (of_sweep, sweep)] {
        let page = page_of(&work, &format!("{name}/report.html"));
        assert!(served.page(link) == page, "{name} has another page");
    }
    let cell = names(&work.path("petal-results").join(sweep));
    let cell = cell.iter().find(|name| name.starts_with("cell001")).unwrap();
    let page = page_of(&work, &format!("{sweep}/{cell}/report.html"));
    assert!(served.page(&format!("{of_sweep}{cell}/report.html")) == page);
    let csv = served.page(&format!("{of_one}figures.csv"));
    work.petal(["report", &format!("petal-results/{one}"), "--timeline"]).exits(0);
    assert!(csv == page_of(&work, &format!("{one}/timeline.csv")));
    let csv = served.page(&format!("{of_sweep}figures.csv"));
    assert!(csv == page_of(&work, &format!("{sweep}/sweep.csv")));
    for link in [of_one, of_sweep] {
        let (head, body) = served.get(&format!("{link}workbook.xlsx"));
        assert!(head.contains("filename=\"petal.xlsx\"") && body.starts_with(b"PK"), "{head}");
    }
    let key = |link: &str| link.split('/').nth(1).unwrap().to_owned();
    let (first, second) = (format!("petal-results/{one}"), format!("petal-results/{two}"));
    work.petal(["compare", &first, &second, "--html", "page.html"]).exits(0);
    let page = served.page(&format!("compare?of={}&of={}", key(of_two), key(of_one)));
    assert!(page == fs::read(work.path("page.html")).unwrap(), "another comparison");
    let petals = served.page(&format!("petals?of={}&of={}", key(of_sweep), key(of_one)));
    let petals = String::from_utf8(petals).unwrap();
    let links = [of_sweep, of_one].map(|link| petals.contains(&format!("href=\"{link}\"")));
    assert!(petals.contains("id=\"fig-petal-2\"") && links == [true; 2], "{petals}");
    for (page, words) in [
        (format!("compare?of={}", key(of_one)), "1 record ticked: go back, and tick two"),
        ("petals".to_owned(), "none of these has petals"),
    ] {
        let (head, body) = served.get(&page);
        let body = String::from_utf8(body).unwrap();
        assert!(head.contains(" 400 ") && body.contains(words), "{page}: {head} {body}");
    }
    served.running.signal(rustix::process::Signal::INT);
    let ended = served.running.ends().exited(0);
    assert_eq!(ended.stderr, "", "serving a folder says nothing");
}

#[test]
fn only_the_printed_url_reads_and_no_path_leads_out() {
    let work = measured();
    work.write("secret", "canary");
    work.write("petal-results/secret", "canary");
    let served = Served::start(&work);
    let (address, root) = (&served.address, &served.root);
    let (head, _) = served.get("");
    for line in [
        "form-action 'self'; frame-ancestors 'none'\r\n",
        "Content-Security-Policy: default-src 'none'; ",
        "X-Content-Type-Options: nosniff\r\n",
        "Referrer-Policy: no-referrer\r\n",
        "Cache-Control: no-store\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
    let from = |origin: &str| format!("Host: {address}\r\nOrigin: {origin}");
    let own = format!("Host: {address}");
    let long = format!("{own}\r\nX: {}", "x".repeat(16 << 10));
    for (request, headers, status) in [
        (format!("GET {root}"), from(&format!("http://{address}")), "200"),
        (format!("GET {root}"), from("http://evil.example"), "403"),
        (format!("GET {root}"), from("null"), "403"),
        (format!("GET {root}"), "Host: evil.example".to_owned(), "403"),
        (format!("GET {root}"), format!("{own}\r\n{own}"), "403"),
        (format!("GET {root}"), "X: y".to_owned(), "403"),
        (format!("POST {root}"), own.clone(), "405"),
        ("GET /".to_owned(), own.clone(), "403"),
        (format!("GET /{}/", "0".repeat(32)), own.clone(), "403"),
        (format!("GET {}x/", root.trim_end_matches('/')), own.clone(), "403"),
    ] {
        let (head, _) = served.send(&format!("{request} HTTP/1.1\r\n{headers}\r\n\r\n"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request} {headers}: {head}");
    }
    // petal does not read its rest: the peer may be reset before it reads the answer.
    let (head, _) = served.send(&format!("GET {root} HTTP/1.1\r\n{long}\r\n\r\n"));
    assert!(head.is_empty() || head.starts_with("HTTP/1.1 400 "), "{head}");
    for page in [
        "../secret",
        "secret",
        "run.json",
        "record/../secret",
        "record/0/../../secret",
        "record/0/run.json",
        "record/0/%2e%2e/report.html",
        "record/0/../report.html",
        "record/99/",
        "record//",
        "record/0//report.html",
        "petals/../../../../etc/passwd",
    ] {
        let (head, body) = served.get(page);
        let body = String::from_utf8(body).unwrap();
        assert!(head.contains(" 404 ") && !body.contains("canary"), "{page}: {head} {body}");
    }
}

#[test]
fn slow_many_and_vanishing_readers_keep_no_other_waiting() {
    let work = measured();
    let served = Served::start(&work);
    let link = served.records().remove(0);
    // Readers that ask and never read, and one that is gone before its answer.
    let request = format!("GET {}{link} HTTP/1.1\r\nHost: {}\r\n\r\n", served.root, served.address);
    let asks = || {
        let mut peer = TcpStream::connect(&served.address).unwrap();
        peer.write_all(request.as_bytes()).unwrap();
        peer
    };
    let slow: Vec<TcpStream> = (0..4).map(|_| asks()).collect();
    drop(asks());
    served.page(&link);
    drop(slow);
    let connect = |_| TcpStream::connect(&served.address).unwrap();
    let _silent: Vec<TcpStream> = (0..40).map(connect).collect();
    served.page("");
}

#[test]
fn a_server_at_all_addresses_is_reached_by_its_url_a_tunnel_and_a_name() {
    let work = Workplace::new();
    let said = work.path("url");
    fs::create_dir(work.path("r")).unwrap();
    let args = ["serve", "r", "--address", "0.0.0.0:0", "--host-name"];
    work.petal([&args[..], &["db1:80"]].concat()).exits(2).telling(&["a name without a port"]);
    let mut running = work
        .petal([&args[..4], &["--host-name", "db1.test"]].concat())
        .into(File::create(&said).unwrap())
        .start();
    let read = || fs::read_to_string(&said).unwrap_or_default();
    running.until("it prints its URL", || read().ends_with("/\n"));
    let url = read();
    let (name, root) =
        url.trim().strip_prefix("http://db1.test:").unwrap().split_once('/').unwrap();
    let served = Served { running, address: format!("127.0.0.1:{name}"), root: format!("/{root}") };
    for (host, status) in [
        (format!("db1.test:{name}"), "200"),
        ("localhost:9999".to_owned(), "200"),
        ("172.17.0.1:9000".to_owned(), "200"),
        ("evil.example".to_owned(), "403"),
    ] {
        let asked = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", served.root);
        let (head, _) = served.send(&asked);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {head}");
    }
}

/// A folder of hostile names and texts next to a run.
fn hostile(work: &Workplace) {
    const HOSTILE: &str = "<img src=x onerror=\"document.title='hurt'\">'&";
    let run = work.runs().remove(0);
    copied(&run, &work.path("petal-results").join(HOSTILE), HOSTILE, 2.0);
    let path = work.path("petal-results").join(HOSTILE).join("run.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["settings"][HOSTILE] = HOSTILE.into();
    record["target"]["url"] = format!("javascript:{HOSTILE}").into();
    fs::write(&path, record.to_string()).unwrap();
}

/// Copies of the second run, the last of the list by their names.
fn copies(work: &Workplace, count: usize) {
    let run = work.runs().remove(1).join("run.json");
    for copy in 0..count {
        let folder = work.path("petal-results").join(format!("0-copy-{copy}"));
        fs::create_dir(&folder).unwrap();
        fs::hard_link(&run, folder.join("run.json")).unwrap();
    }
}

#[test]
fn the_list_of_500_records_is_searched_ticked_and_compared_in_a_browser() {
    let work = measured();
    hostile(&work);
    copies(&work, 496);
    let served = Served::start(&work);
    let Some(program) = installed() else {
        return skip("no Chromium is installed: scripts/install-test-servers.sh does it");
    };
    let mut browser = Browser::start(&program);
    browser.prefers("light", "screen");
    let rows = "[...document.querySelectorAll('#records tbody tr')].filter(row => !row.hidden)";
    let names_of = format!("{rows}.map(row => row.cells[0].textContent.trim()).join(' ')");
    for width in [1400, 390] {
        browser.window(width, 900);
        browser.open_url(&served.url(""));
        assert_eq!(browser.value(&format!("{rows}.length")), 500);
        let fits = "document.documentElement.scrollWidth <= innerWidth";
        assert_eq!(browser.value(fits), true, "the page is wider than {width} px");
        browser.screenshot(&shot(&format!("serve-{width}.png")));
        assert_ne!(browser.text("document.title"), "hurt", "a name acts");
        // By a setting, and by a word of the record.
        let search = |words: &str| {
            format!(
                "(() => {{ const words = document.querySelector('.filters input'); \
                 words.value = '{words}'; words.dispatchEvent(new Event('input')); return 1; }})()"
            )
        };
        browser.value(&search("update_pct 0"));
        let found = browser.text(&names_of);
        // The run, and its copy with the hostile name.
        assert!(found.contains("-u0") && !found.contains("-u20"), "{found}");
        assert_eq!(browser.value(&format!("{rows}.length")), 2);
        browser.value(&search("onerror"));
        assert_eq!(browser.value(&format!("{rows}.length")), 1);
        assert!(browser.text(&names_of).starts_with("<img src=x"), "a name stays text");
        browser.value(&search(""));
        // Two runs, ticked and compared.
        let boxes = "[...document.querySelectorAll('#records tbody tr')]\
                     .filter(row => row.cells[4].textContent.trim() === 'run')\
                     .map(row => row.querySelector('input'))";
        for at in [0, 1] {
            browser.click(&format!("{boxes}[{at}]"));
        }
        assert_eq!(browser.value("document.querySelectorAll('input:checked').length"), 2);
        assert_eq!(browser.complaints(), Vec::<String>::new());
        browser.value("document.querySelector('#ticked button').click()");
        browser.until("document.title.includes('compar') && document.readyState === 'complete'");
        let rows = "document.querySelectorAll('#change tbody tr').length";
        assert!(browser.value(rows).as_u64().unwrap() > 0, "no comparison");
        assert_eq!(browser.value(fits), true, "the comparison is wider than {width} px");
        let outside = browser.requests();
        assert!(outside.iter().all(|url| url.starts_with("data:") || url.contains(&served.root)));
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
    // A record with hostile texts opens as any other.
    let link = "[...document.querySelectorAll('#records tbody a')]\
                .find(link => link.textContent.includes('onerror')).href";
    browser.open_url(&served.url(""));
    let link = browser.text(link);
    assert!(link.starts_with(&served.url("record/")), "{link}");
    browser.open_url(&link);
    assert_ne!(browser.text("document.title"), "hurt");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert!(Path::new(&shot("serve-390.png")).is_file());
}

#[test]
#[ignore = "prints times that docs/recipes/serve.md has: \
            cargo test --release --test integration first_page_of_500_records -- --ignored --nocapture"]
#[allow(clippy::print_stdout, reason = "the times are the result")]
fn the_first_page_of_500_records_in_a_browser() {
    let work = measured();
    copies(&work, 497);
    let mut browser = Browser::start(&installed().expect("Chromium"));
    let shown = "Math.round(Math.max(performance.getEntriesByType('navigation')[0].loadEventEnd, \
                 ...performance.getEntriesByType('paint').map(it => it.startTime)))";
    for _ in 0..3 {
        let served = Served::start(&work);
        for page in ["first page", "again"] {
            browser.open_url(&served.url(""));
            assert_eq!(browser.value("document.querySelectorAll('#records tbody tr').length"), 500);
            println!("{page}: {} ms from the request to the page shown", browser.value(shown));
        }
    }
}
