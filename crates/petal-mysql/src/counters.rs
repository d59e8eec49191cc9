//! The connection on which the counters of one server are read.

use parking_lot::Mutex;

use super::client::{Client, Error};
use super::connect::Endpoint;
use super::errors::AtServer as _;
use super::server_counters::ServerCounters;
use petal_engine::Result;
use petal_engine::server::reset_watch::ResetWatch;
use petal_engine::server::wait_sampler::WaitSampler;
use petal_record::counters::Counters;

pub struct CounterReader {
    endpoint: Endpoint,
    state: Mutex<ReaderState>,
}

#[derive(Default)]
struct ReaderState {
    client: Option<Client>,
    /// Kept when the connection is lost.
    counters: Option<ServerCounters>,
    resets: ResetWatch,
}

impl CounterReader {
    pub fn new(endpoint: &Endpoint) -> Self {
        Self { endpoint: endpoint.clone(), state: Mutex::default() }
    }

    /// Everything. Connects again if the connection was lost.
    pub fn read(&self, waits: &WaitSampler<Endpoint>) -> Result<Counters> {
        let server = self.endpoint.name.as_str();
        let doing = "reading counters";
        let ReaderState { client, counters, resets } = &mut *self.state.lock();
        let client = match client.take().filter(|client| !client.is_closed()) {
            Some(connected) => client.insert(connected),
            None => client.insert(self.endpoint.connect_to_look()?),
        };
        let counters = match counters {
            Some(counters) => counters,
            None => counters.insert(ServerCounters::new(client).at(&client.server, doing)?),
        };
        let counted = counters.read(client, resets).at(&client.server, doing)?;
        let mut counters = Counters {
            endpoint: server.to_owned(),
            resets: resets.resets().iter().map(|why| format!("{server}: {why}")).collect(),
            restarted: resets.restarted(),
            ..counted
        };
        waits.add_to(&mut counters, server);
        Ok(counters)
    }

    /// Asks on the connection for counters. Connects again if it was lost.
    pub fn ask<T>(&self, ask: impl FnOnce(&mut Client) -> Result<T, Error>) -> Result<T> {
        let ReaderState { client, .. } = &mut *self.state.lock();
        let client = match client.take().filter(|client| !client.is_closed()) {
            Some(connected) => client.insert(connected),
            None => client.insert(self.endpoint.connect_to_look()?),
        };
        ask(client).at(&self.endpoint.name, "asking for its settings")
    }

    pub fn server(&self) -> &str {
        &self.endpoint.name
    }

    /// Forgets resets of the server's counters until now: a run begins.
    pub fn begin_counting(&self) {
        self.state.lock().resets.begin();
    }

    /// Returns how often counters began again.
    pub fn resets_seen(&self) -> u64 {
        self.state.lock().resets.reset_count()
    }

    /// Lets the connection go, as before a load of hours.
    pub fn disconnect(&self) {
        *self.state.lock() = ReaderState::default();
    }
}
