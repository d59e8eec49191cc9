//! Events for browsers that follow work: the words of the screen, and the page of the record, made again
//! as the record grows. Browsers wait for the work, never the work for a browser. Without a browser
//! petal reads and makes nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use petal_record::latency_log;
use petal_report::html;
use petal_settings::printable::printable;

use crate::cli::live::follow::{FolderReader, LiveState, cost};
use crate::cli::live::picture::{LiveView, words};
use crate::cli::live::{Browsers, LookAtWork, READ_EVERY, WorkSeen};
use petal_run::experiments::thread_ns;
use petal_web::http::HttpAnswer;

/// A page may take one part in so many of the time.
const PAGE_COST_PARTS: u32 = 350;
/// Browsers that follow at once. Further connections of the server are for pages.
const BROWSERS_MAX: usize = 8;
/// Longest time of one answer: the browser asks again.
const ANSWER_MAX: Duration = Duration::from_secs(600);
/// Longest time that the end of the work waits until its last page is made, if a browser follows.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
/// Longest time that browsers have to take it.
const TAKEN_LIMIT: Duration = Duration::from_secs(5);
/// Time between two looks whether they have it.
const LOOK: Duration = Duration::from_millis(20);

pub struct LiveFeed {
    look: LookAtWork,
    state: Mutex<FeedState>,
    ended: Condvar,
    browsers: Arc<()>,
}

#[derive(Default)]
struct FeedState {
    reader: FolderReader,
    read: Option<Instant>,
    words: String,
    page: FeedPage,
    is_over: bool,
}

/// The newest page, and the version of the record that it shows.
#[derive(Default)]
struct FeedPage {
    event: String,
    /// Number of the page, from 1; 0 before the first.
    number: u64,
    of: (Option<PathBuf>, u64),
    /// The earliest time of the next one.
    next: Option<Instant>,
}

impl LiveFeed {
    pub fn new(look: LookAtWork) -> Arc<Self> {
        let (state, ended, browsers) = (Mutex::default(), Condvar::new(), Arc::default());
        Arc::new(Self { look, state, ended, browsers })
    }

    /// The events for one browser, as an answer.
    pub fn events(self: &Arc<Self>) -> HttpAnswer {
        match self.followed() {
            Some(events) => HttpAnswer::events(Box::new(events)),
            None => {
                let why = "too many browsers follow this work: close one of them";
                HttpAnswer::refusal("503 Service Unavailable", why)
            }
        }
    }

    /// The events for one browser; None if too many follow.
    fn followed(self: &Arc<Self>) -> Option<Following> {
        let counted = Arc::clone(&self.browsers);
        let is_free = Arc::strong_count(&counted) <= BROWSERS_MAX + 1;
        is_free.then(|| Following {
            feed: Arc::clone(self),
            began: Instant::now(),
            words: None,
            page: 0,
            is_over: false,
            _counted: counted,
        })
    }

    /// The folder that the work fills.
    pub fn folder(&self) -> Option<PathBuf> {
        (self.look)().folder
    }

    /// Waits while browsers follow.
    fn wait(&self, limit: Duration, is_done: impl Fn() -> bool) {
        let until = Instant::now() + limit;
        while Arc::strong_count(&self.browsers) > 1 && !is_done() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }
}

impl Browsers for LiveFeed {
    /// Waits until the last page is made and browsers have it: the work has ended.
    fn end(&self) {
        self.ended.notify_all();
        self.wait(PAGE_LIMIT, || self.state.try_lock().is_some_and(|state| state.is_over));
        self.wait(TAKEN_LIMIT, || false);
    }
}

impl FeedState {
    fn refresh(&mut self, look: &dyn Fn() -> WorkSeen) {
        let work = look();
        let is_over = work.is_over == Some(true);
        if !is_over && self.read.is_some_and(|read| read.elapsed() < READ_EVERY / 2) {
            return;
        }
        self.reader.read(work.folder.as_deref());
        let state = self.reader.state.as_ref();
        self.is_over = work.is_over.or(state.map(LiveState::is_over)).unwrap_or(true);
        let mut messages = work.messages;
        messages.extend(self.reader.unread.clone());
        let phase = work.phase;
        self.words =
            words(&LiveView { title: &work.title, state, phase, messages: &messages, keys: "" });
        if let Some(state) = state {
            self.page.renew(work.folder, state, self.is_over);
        }
        self.read = Some(Instant::now());
    }
}

impl FeedPage {
    fn renew(&mut self, folder: Option<PathBuf>, state: &LiveState, is_over: bool) {
        let (now, began_ns) = (Instant::now(), thread_ns());
        let of = (folder, state.version());
        let is_due = is_over || self.of.0 != of.0 || self.next.is_none_or(|next| now >= next);
        if of.1 == 0 || self.of == of || !is_due {
            return;
        }
        let made = match state {
            LiveState::Sweep(sweep) => html::sweep(&sweep.swept, &sweep.petals),
            LiveState::Run(run) => match &run.judged {
                Some(judged) => html::run(judged, &latency_log::spreads(&run.folder)),
                None => return,
            },
            LiveState::Noted(_) => return,
        };
        // A page that cannot be made is the one before.
        if let Ok(page) = made {
            self.event = event("page", &printable(&page));
            self.number += 1;
        }
        self.of = of;
        self.next = Some(Instant::now() + cost(began_ns) * PAGE_COST_PARTS);
    }
}

fn event(name: &str, text: &str) -> String {
    format!("event: {name}\ndata: {}\n\n", serde_json::Value::from(text))
}

/// A browser, and the events that it has.
struct Following {
    feed: Arc<LiveFeed>,
    began: Instant,
    words: Option<String>,
    page: u64,
    is_over: bool,
    _counted: Arc<()>,
}

impl Iterator for Following {
    type Item = String;

    /// The newest words and page, if the browser does not have them; else a comment, which a browser that
    /// left does not take.
    fn next(&mut self) -> Option<String> {
        if self.is_over || self.began.elapsed() > ANSWER_MAX {
            return None;
        }
        let mut state = self.feed.state.lock();
        if self.words.is_some() && !(self.feed.look)().is_over.unwrap_or(false) {
            self.feed.ended.wait_for(&mut state, READ_EVERY);
        }
        state.refresh(&*self.feed.look);
        let mut events = String::new();
        if state.page.number > self.page {
            events.push_str(&state.page.event);
            self.page = state.page.number;
        }
        if self.words.as_ref() != Some(&state.words) {
            events.push_str(&event("now", &state.words));
            self.words = Some(state.words.clone());
        }
        self.is_over = state.is_over;
        if self.is_over {
            events.push_str(&event("end", ""));
        }
        Some(if events.is_empty() { ":\n\n".to_owned() } else { events })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::{self as record, RecordFolder, fixture};
    use std::sync::atomic::{AtomicBool, Ordering};
    use time::OffsetDateTime;

    #[test]
    fn a_browser_has_words_at_once_and_the_whole_page_at_the_end() {
        let out = tempfile::tempdir().unwrap();
        let folder = RecordFolder::create(out.path(), "run", OffsetDateTime::UNIX_EPOCH).unwrap();
        fixture::killed_run(folder.path(), 5);
        let (path, ends) = (folder.path().to_owned(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&ends);
        let feed = LiveFeed::new(Box::new(move || WorkSeen {
            title: "petal run".to_owned(),
            folder: Some(path.clone()),
            is_over: Some(is_over.load(Ordering::Relaxed)),
            ..WorkSeen::default()
        }));
        let mut browser = feed.followed().unwrap();
        let first = browser.next().unwrap();
        assert!(first.starts_with("event: now\ndata: \"petal run 1970"), "{first}");
        assert!(first.contains("5 s, 55 s left") && first.ends_with("\n\n"), "{first}");
        let run = fixture::mixed_run();
        record::save(&folder, &run).unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        ends.store(true, Ordering::Relaxed);
        let last = browser.next().unwrap();
        let page = last.strip_prefix("event: page\ndata: ").unwrap();
        let page: String = serde_json::from_str(page.lines().next().unwrap()).unwrap();
        let whole = petal_report::load(&path).unwrap();
        assert!(page == html::run(&whole, &latency_log::spreads(&path)).unwrap());
        assert!(last.ends_with("event: end\ndata: \"\"\n\n"), "{last}");
        assert!(browser.next().is_none());
    }

    #[test]
    fn a_browser_that_leaves_makes_room_for_another() {
        let feed = LiveFeed::new(Box::new(WorkSeen::default));
        let mut browsers: Vec<_> = (0..BROWSERS_MAX).map(|_| feed.followed().unwrap()).collect();
        assert!(feed.followed().is_none());
        browsers.pop();
        assert!(feed.followed().is_some());
    }
}
