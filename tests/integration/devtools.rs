//! A headless Chromium, driven by its DevTools protocol over two pipes: no port, no library. What
//! the page said on its console, threw, or tried to fetch is kept. No test of its own.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// No answer takes longer unless the browser hangs.
const LIMIT: Duration = Duration::from_secs(60);

const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--remote-debugging-pipe",
];

pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    calls: u64,
    session: Option<String>,
    events: VecDeque<Value>,
    _profile: TempDir,
}

/// Where Chromium is, if anywhere.
pub fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
}

impl Browser {
    /// A new one with an empty profile and one blank page.
    pub fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The shell moves the pipes to 3 and 4, where Chromium expects them.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"])
            .arg(program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        let (sender, from) = channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while pipe.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                let text = message.strip_suffix(&[0]).unwrap_or(&message);
                if serde_json::from_slice(text).is_ok_and(|value| sender.send(value).is_err()) {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            child,
            to,
            from,
            calls: 0,
            session: None,
            events: VecDeque::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// One command and its answer.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(&[0]).unwrap();
        self.to.flush().unwrap();
        loop {
            let answer = self.next(method);
            if answer["id"] == json!(id) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push_back(answer);
        }
    }

    fn next(&mut self, what: &str) -> Value {
        let answer = self.from.recv_timeout(LIMIT);
        answer.unwrap_or_else(|_| panic!("Chromium did not answer {what} within {LIMIT:?}"))
    }

    /// Opens a file and waits until it is loaded.
    pub fn open(&mut self, path: &Path) {
        let path = path.display().to_string().replace('%', "%25");
        self.open_url(&format!("file://{}", path.replace('#', "%23").replace('?', "%3F")));
    }

    pub fn open_url(&mut self, url: &str) {
        self.events.clear();
        let opened = self.call("Page.navigate", json!({"url": url}));
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
        self.until_loaded();
    }

    /// Waits until a page is loaded that was asked for since the last one.
    pub fn until_loaded(&mut self) {
        let is_loaded = |event: &Value| event["method"] == "Page.loadEventFired";
        while !self.events.iter().any(is_loaded) {
            let event = self.next("the page");
            self.events.push_back(event);
        }
    }

    /// The value of an expression in the page; of a promise what it comes to.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    pub fn text(&mut self, expression: &str) -> String {
        let value = self.value(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression}: {value}")).to_owned()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        crate::support::until(expression, || self.value(expression) == true);
    }

    pub fn window(&mut self, width: u32, height: u32) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        );
    }

    /// What the system prefers: `light` or `dark`; and the medium: `screen` or `print`.
    pub fn prefers(&mut self, scheme: &str, medium: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": medium, "features": features}));
    }

    /// Moves the pointer to the middle of an element.
    pub fn point_at(&mut self, element: &str) {
        let (x, y) = self.middle(element);
        let moved = json!({"type": "mouseMoved", "x": x, "y": y});
        self.call("Input.dispatchMouseEvent", moved);
    }

    /// Clicks on an element until it has heard of it: a busy browser may build a chart above it between
    /// the look where it is and the click.
    pub fn click(&mut self, element: &str) {
        const TRIES: usize = 5;
        self.value(&format!(
            "heard = false; \
             {element}.addEventListener('click', () => heard = true, {{once: true, capture: true}})"
        ));
        let heard = "new Promise(done => { const look = left => heard || !left ? done(heard) \
                     : setTimeout(look, 50, left - 1); look(20); })";
        for _ in 0..TRIES {
            let (x, y) = self.middle(element);
            for kind in ["mousePressed", "mouseReleased"] {
                let event =
                    json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
                self.call("Input.dispatchMouseEvent", event);
            }
            if self.value(heard) == true {
                return;
            }
        }
        panic!("{element} has heard of none of {TRIES} clicks");
    }

    fn middle(&mut self, element: &str) -> (f64, f64) {
        // A page hears that it was scrolled some frames later, and may move what it shows in answer: it
        // stands still when twice nothing was left to do and the element is where it was.
        let place = format!(
            "new Promise(done => {{ const element = {element}; \
             element.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const look = before => requestAnimationFrame(() => requestIdleCallback(() => {{ \
                 const b = element.getBoundingClientRect(); \
                 const now = [b.left + b.width / 2, b.top + b.height / 2]; \
                 String(now) === String(before) ? done(now) : look(now); }}, {{timeout: 1000}})); \
             look(null); }})"
        );
        let waited = json!({"expression": place, "awaitPromise": true, "returnByValue": true});
        let looked = self.call("Runtime.evaluate", waited);
        assert!(looked["exceptionDetails"].is_null(), "{element}: {looked}");
        let place = &looked["result"]["value"];
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    }

    /// Presses a key by its DOM name, such as `Tab` or `ArrowRight`.
    pub fn press(&mut self, key: &str) {
        // Enter and space act on what they type, the others on their code.
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            " " => (32, " "),
            "End" => (35, ""),
            "Home" => (36, ""),
            "ArrowRight" => (39, ""),
            "Escape" => (27, ""),
            other => panic!("no key {other}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A PNG of what is in the window, kept for a person to look at.
    pub fn screenshot(&mut self, path: &Path) -> Vec<u8> {
        use base64::Engine as _;
        let taken = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let encoded = taken["data"].as_str().unwrap();
        let png = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
        std::fs::write(path, &png).unwrap();
        png
    }

    /// What went wrong in the page: errors and warnings of the console, exceptions, refusals.
    pub fn complaints(&mut self) -> Vec<String> {
        // An answer comes after all events before it.
        self.value("0");
        let wrong = self.events.iter().filter(|event| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            // A page that has all events closes their stream, which is no failure.
            Some("Network.loadingFailed") => event["params"]["canceled"] != true,
            Some("Runtime.consoleAPICalled") => {
                matches!(event["params"]["type"].as_str(), Some("error" | "warning" | "assert"))
            }
            Some("Log.entryAdded") => {
                matches!(event["params"]["entry"]["level"].as_str(), Some("error" | "warning"))
            }
            _ => false,
        });
        wrong.map(|event| event["params"].to_string()).collect()
    }

    /// Every address that the page asked for.
    pub fn requests(&mut self) -> Vec<String> {
        self.value("0");
        let sent = self.events.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned))
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let close = json!({"id": 0, "method": "Browser.close"}).to_string();
        let _ = self.to.write_all(close.as_bytes()).and_then(|()| self.to.write_all(&[0]));
        for _ in 0..50 {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
