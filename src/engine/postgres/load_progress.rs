//! How far all loaders are: copying, then indexing and proving, with rate and time left.

use parking_lot::Mutex;

use std::time::{Duration, Instant};

use super::client::Client;
use super::connect::Endpoint;
use crate::engine::{Progress, ProgressUnit};

/// An index that takes longer than this is asked how far it is.
const ASK_AFTER: Duration = Duration::from_secs(1);
const INDEX_BLOCKS: &str =
    "SELECT coalesce(max(blocks_done), 0) FROM pg_stat_progress_create_index WHERE pid = $1";

pub struct LoadProgress<'a> {
    progress: &'a dyn Progress,
    left: Mutex<Left>,
}

/// Bytes of tables.
struct Left {
    to_copy: u64,
    /// Every main table is read twice after it is filled: for its index and for its proof.
    to_read: u64,
}

impl<'a> LoadProgress<'a> {
    /// `copied` bytes of all tables together, of which `main` are the main tables'.
    pub fn open(progress: &'a dyn Progress, copied: u64, main: u64) -> Self {
        progress.phase("loading", copied, ProgressUnit::Bytes);
        Self { progress, left: Mutex::new(Left { to_copy: copied, to_read: main * 2 }) }
    }

    pub fn copied(&self, bytes: u64) {
        let mut left = self.left.lock();
        left.to_copy = left.to_copy.saturating_sub(bytes);
        self.progress.advance(bytes);
        if left.to_copy == 0 {
            self.progress.phase("indexing and proving", left.to_read, ProgressUnit::Bytes);
        }
    }

    /// Read for an index or a proof. While others still copy, their bar is the one that shows.
    pub fn read(&self, bytes: u64) {
        let mut left = self.left.lock();
        left.to_read = left.to_read.saturating_sub(bytes);
        if left.to_copy == 0 {
            self.progress.advance(bytes);
        }
    }
}

/// One loader's index under way, as another thread sees it.
pub struct IndexWatch<'a> {
    load_progress: &'a LoadProgress<'a>,
    endpoint: &'a Endpoint,
    /// The loader's process at the server.
    process: i32,
    block_bytes: u64,
    state: Mutex<Option<Building>>,
}

struct Building {
    since: Instant,
    shown_bytes: u64,
    client: Option<Client>,
}

impl<'a> IndexWatch<'a> {
    pub fn new(
        load_progress: &'a LoadProgress<'a>,
        endpoint: &'a Endpoint,
        process: i32,
        block_bytes: u32,
    ) -> Self {
        let block_bytes = block_bytes.into();
        Self { load_progress, endpoint, process, block_bytes, state: Mutex::default() }
    }

    pub fn begin(&self) {
        let building = Building { since: Instant::now(), shown_bytes: 0, client: None };
        *self.state.lock() = Some(building);
    }

    /// Its table has `bytes`, all of which were read.
    pub fn end(&self, bytes: u64) {
        let shown = self.state.lock().take().map_or(0, |building| building.shown_bytes);
        self.load_progress.read(bytes.saturating_sub(shown));
    }

    /// Asks the server how far it is. Without an answer nothing is shown.
    pub fn look(&self) {
        let mut state = self.state.lock();
        let Some(building) = state.as_mut() else { return };
        if building.since.elapsed() < ASK_AFTER {
            return;
        }
        if building.client.is_none() {
            building.client = self.endpoint.connect_to_look("petal setup progress").ok();
        }
        let Some(client) = building.client.as_mut() else { return };
        let Ok(row) = client.query_one(INDEX_BLOCKS, &[&self.process]) else {
            building.client = None;
            return;
        };
        let done = row.get::<_, i64>(0).cast_unsigned() * self.block_bytes;
        self.load_progress.read(done.saturating_sub(building.shown_bytes));
        building.shown_bytes = done.max(building.shown_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(String, u64, u64)>>);

    impl Progress for Seen {
        fn phase(&self, what: &str, total: u64, _: ProgressUnit) {
            self.0.lock().push((what.to_owned(), total, 0));
        }
        fn advance(&self, units: u64) {
            self.0.lock().last_mut().unwrap().2 += units;
        }
        fn note(&self, _: &str) {}
    }

    #[test]
    fn both_bars_end_full_in_whatever_order_loaders_work() {
        let seen = Seen::default();
        let load_progress = LoadProgress::open(&seen, 220, 200);
        load_progress.copied(110);
        load_progress.read(100); // The first is indexed while the second is copied.
        load_progress.copied(110);
        load_progress.read(100);
        load_progress.read(200);
        let phases = seen.0.into_inner();
        let expected =
            [("loading".to_owned(), 220, 220), ("indexing and proving".to_owned(), 300, 300)];
        assert_eq!(phases, expected);
    }
}
