//! `--live=ADDRESS`: the work in a browser, and its metrics, from one server.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use petal_report::html;

use super::feed::LiveFeed;
use super::{gate, pages, unserved};
use crate::cli::failure::CommandError;
use petal_web::gate::Gate;
use petal_web::http::{self, HttpAnswer, HttpRequest};
use petal_web::metrics::{self, Metrics};

/// A server of the pages that follow a command's work.
pub struct LiveServer {
    pub title: String,
    pub feed: Arc<LiveFeed>,
    pub metrics: Metrics,
    /// `--metrics` has the same address: /metrics needs no token.
    pub is_scraped: bool,
    /// Names of the host, as browsers give them.
    pub names: Vec<String>,
}

impl LiveServer {
    /// Begins to serve. Returns the gate, which knows the URL.
    pub fn start(mut self, address: SocketAddr) -> Result<Arc<Gate>, CommandError> {
        let refused = unserved(format!("--live={address}"));
        let listener = TcpListener::bind(address).map_err(&refused)?;
        let names = std::mem::take(&mut self.names);
        let gate = Arc::new(gate(listener.local_addr().map_err(&refused)?, names)?);
        let admits = Arc::clone(&gate);
        let respond = move |request: &HttpRequest<'_>| self.respond(request, &admits);
        http::serve(listener, "live", respond).map_err(refused)?;
        Ok(gate)
    }

    fn respond(&self, request: &HttpRequest<'_>, gate: &Gate) -> HttpAnswer {
        if self.is_scraped && request.path == metrics::PATH {
            return metrics::respond(request, &self.metrics);
        }
        let answer = gate.admit(request).and_then(|path| self.page(path));
        answer.unwrap_or_else(|refusal| refusal).guarded()
    }

    fn page(&self, path: &str) -> Result<HttpAnswer, HttpAnswer> {
        match path.split('/').collect::<Vec<_>>().as_slice() {
            [""] => pages::live(&self.title),
            ["events"] => Ok(self.feed.events()),
            ["metrics"] => Ok(metrics::page(&self.metrics)),
            [cell, html::NAME] => match self.feed.folder() {
                Some(sweep) => pages::report_of(&pages::cell_of(&sweep, cell)?),
                None => Err(HttpAnswer::not_found("petal has no record yet")),
            },
            _ => Err(HttpAnswer::not_found("petal has no such page")),
        }
    }
}
