//! Timed events and plain counts of an engine that does its own I/O: one recorder per writer, and
//! the statistics that all of them are folded into. The engine defines the events and their
//! meaning.
//!
//! An event costs its recorder two stores into its own ring: no lock, no histogram. The ring is
//! folded when it is full, when its writer asks, when a snapshot is taken and when it is dropped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::counters::{FileCounts, Wait, WaitClass, WaitSource};
use petal_host::histogram::Latencies;

/// An event as reports show it.
#[derive(Debug, Clone, Copy)]
pub struct EventName {
    pub name: &'static str,
    pub class: WaitClass,
}

/// Databases read and write files a page at a time. Smaller calls (headers) carry no page.
const PAGE_BYTES_MIN: u64 = 512;

/// Counts of one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTotals {
    pub calls: u64,
    pub time_ns: u64,
    pub bytes: u64,
    /// Calls that carried a whole page.
    pub pages: u64,
}

petal_host::field_by_field!(EventTotals: calls, time_ns, bytes, pages);

impl EventTotals {
    fn add(&mut self, latency_ns: u64, bytes: u64) {
        self.calls += 1;
        self.time_ns += latency_ns;
        self.bytes += bytes;
        self.pages += u64::from(bytes >= PAGE_BYTES_MIN);
    }

    pub fn merge(&mut self, other: &Self) {
        *self = self.plus(other);
    }
}

/// Counts of one kind of file, from its reads, writes and syncs.
pub fn file_counts(
    kind: &'static str,
    read: EventTotals,
    write: EventTotals,
    sync: EventTotals,
) -> FileCounts {
    FileCounts {
        kind: kind.to_owned(),
        read_requests: read.calls,
        read_bytes: read.bytes,
        read_ns: read.time_ns,
        write_requests: write.calls,
        write_bytes: write.bytes,
        write_ns: write.time_ns,
        syncs: sync.calls,
        sync_ns: sync.time_ns,
    }
}

/// Totals and histograms of many recorders. A histogram exists once its event happened.
struct EventShard {
    totals: Vec<EventTotals>,
    latencies: Vec<Option<Box<Latencies>>>,
}

/// Few shards suffice: one is locked once per ring, not per call.
const SHARDS: usize = 4;

/// All events since it was made.
pub struct EventStats {
    events: &'static [EventName],
    shards: [Mutex<EventShard>; SHARDS],
    /// Number of recorders made, which gives the next one's shard.
    recorders_made: AtomicU64,
    /// Recorders whose rings a snapshot must fold first.
    recorders: Mutex<Vec<Weak<EventRecorder>>>,
    count_names: &'static [&'static str],
    counts: Vec<AtomicU64>,
}

impl EventStats {
    pub fn new(events: &'static [EventName], count_names: &'static [&'static str]) -> Self {
        let shard = || EventShard {
            totals: vec![EventTotals::default(); events.len()],
            latencies: events.iter().map(|_| None).collect(),
        };
        Self {
            events,
            shards: std::array::from_fn(|_| Mutex::new(shard())),
            recorders_made: AtomicU64::new(0),
            recorders: Mutex::default(),
            count_names,
            counts: count_names.iter().map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Adds to a count, by its place in their list.
    pub fn count(&self, count: usize, more: u64) {
        self.counts[count].fetch_add(more, Ordering::Relaxed);
    }

    pub fn counted(&self, count: usize) -> u64 {
        self.counts[count].load(Ordering::Relaxed)
    }

    /// All counts by their names.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let names = self.count_names.iter().map(|name| (*name).to_owned());
        names.zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed))).collect()
    }

    /// A recorder for one more writer.
    pub fn recorder(self: &Arc<Self>) -> Arc<EventRecorder> {
        let made = self.recorders_made.fetch_add(1, Ordering::Relaxed);
        let recorder = Arc::new(EventRecorder {
            shard: made as usize % SHARDS,
            stats: Arc::clone(self),
            ring: EventRing::default(),
            folding: Mutex::default(),
        });
        let mut recorders = self.recorders.lock();
        recorders.retain(|other| other.strong_count() > 0);
        recorders.push(Arc::downgrade(&recorder));
        recorder
    }

    /// Each event's totals so far, and its single waits if asked.
    pub fn collect(&self, with_latencies: bool) -> (Vec<EventTotals>, Vec<Option<Latencies>>) {
        let live: Vec<_> = self.recorders.lock().iter().filter_map(Weak::upgrade).collect();
        live.iter().for_each(|recorder| recorder.fold());
        drop(live);
        let mut totals = vec![EventTotals::default(); self.events.len()];
        let mut latencies: Vec<Option<Latencies>> = self.events.iter().map(|_| None).collect();
        for shard in &self.shards {
            let shard = shard.lock();
            for (sum, part) in totals.iter_mut().zip(&shard.totals) {
                sum.merge(part);
            }
            if with_latencies {
                for (sum, part) in latencies.iter_mut().zip(&shard.latencies) {
                    match (sum, part) {
                        (Some(sum), Some(part)) => sum.add(part),
                        (sum, Some(part)) => *sum = Some(part.as_ref().clone()),
                        (_, None) => {}
                    }
                }
            }
        }
        (totals, latencies)
    }

    /// Returns the totals of [`EventStats::collect`] as waits, without events that did not happen.
    pub fn waits(&self, totals: &[EventTotals], latencies: Vec<Option<Latencies>>) -> Vec<Wait> {
        let events = self.events.iter().zip(totals).zip(latencies);
        events
            .filter(|((_, total), _)| total.calls > 0)
            .map(|((event, total), latencies)| Wait {
                name: event.name.to_owned(),
                class: event.class,
                source: WaitSource::Timed,
                waits: Some(total.calls),
                time_ns: total.time_ns,
                latencies,
                buckets: BTreeMap::new(),
            })
            .collect()
    }
}

/// Events that fit into a ring before it is folded.
const RING: usize = 256;
const BYTES_BITS: u32 = 56;

/// Events of one writer: a latency and, packed, the event and its bytes.
struct EventRing {
    slots: Box<[[AtomicU64; 2]]>,
    /// Events ever written.
    head: AtomicU64,
    /// Events ever folded.
    tail: AtomicU64,
}

impl Default for EventRing {
    fn default() -> Self {
        Self {
            slots: (0..RING).map(|_| Default::default()).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        }
    }
}

/// A recorder of one writer's events. Only one thread at a time may record; any thread may fold.
pub struct EventRecorder {
    shard: usize,
    stats: Arc<EventStats>,
    ring: EventRing,
    folding: Mutex<()>,
}

impl EventRecorder {
    /// Records an event, by its place in the list of the statistics.
    pub fn record(&self, event: usize, latency_ns: u64, bytes: u64) {
        let head = self.ring.head.load(Ordering::Relaxed);
        if head - self.ring.tail.load(Ordering::Acquire) >= RING as u64 {
            self.fold();
        }
        let [latency, what] = &self.ring.slots[head as usize % RING];
        latency.store(latency_ns, Ordering::Relaxed);
        what.store((event as u64) << BYTES_BITS | bytes, Ordering::Relaxed);
        self.ring.head.store(head + 1, Ordering::Release);
    }

    /// Moves the ring's events into the statistics.
    pub fn fold(&self) {
        let _folding = self.folding.lock();
        let (tail, head) =
            (self.ring.tail.load(Ordering::Relaxed), self.ring.head.load(Ordering::Acquire));
        if tail == head {
            return;
        }
        let mut shard = self.stats.shards[self.shard].lock();
        for index in tail..head {
            let [latency, what] = &self.ring.slots[index as usize % RING];
            let (latency_ns, what) =
                (latency.load(Ordering::Relaxed), what.load(Ordering::Relaxed));
            let (event, bytes) = ((what >> BYTES_BITS) as usize, what & ((1 << BYTES_BITS) - 1));
            shard.totals[event].add(latency_ns, bytes);
            shard.latencies[event].get_or_insert_default().record(latency_ns);
        }
        self.ring.tail.store(head, Ordering::Release);
    }
}

impl Drop for EventRecorder {
    fn drop(&mut self) {
        self.fold();
    }
}

/// Defines an enum `Event` of timed events, by the names that reports show, with their classes;
/// `Event::NAMES` is for [`EventStats`](self).
#[macro_export]
macro_rules! timed_events {
    ($($event:ident $name:literal $class:ident),+ $(,)?) => {
        /// Events that can be waited for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Event { $($event),+ }

        impl Event {
            const NAMES: &'static [$crate::event_stats::EventName] = &[
                $($crate::event_stats::EventName {
                    name: $name,
                    class: $crate::counters::WaitClass::$class,
                }),+
            ];

            /// Name as reports show it.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize].name
            }
        }
    };
}
/// Defines an enum `Count` of events counted without time, and in `COUNTS` their names in the
/// record.
#[macro_export]
macro_rules! plain_counts {
    ($($(#[$doc:meta])* $count:ident $name:expr),+ $(,)?) => {
        /// Cumulative figures that are no timed events.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Count { $($(#[$doc])* $count),+ }

        const COUNTS: &[&str] = &[$($name),+];
    };
}
pub use {plain_counts, timed_events};
