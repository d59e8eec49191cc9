//! Work and records in a browser, and metrics of work: `petal serve`, `--live=ADDRESS` and `--metrics`.

mod feed;
mod live_server;
mod pages;
mod record_index;
pub mod serve;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches};

use petal_web::gate::Gate;
use petal_web::metrics::{self, Metrics};

use super::args::value;
use super::failure::{CommandError, Exit};
use super::live::{self, Live, Observers, WorkServer};
use feed::LiveFeed;
use live_server::LiveServer;

pub const WORK_SERVER: WorkServer = WorkServer {
    args: || host_names_arg().requires("live").hide_short_help(true),
    metrics_arg,
    begin,
};

fn begin(
    matches: &ArgMatches,
    title: &str,
    address: Option<SocketAddr>,
) -> Result<Observers, CommandError> {
    // Only some commands have it.
    let scraped = matches.try_get_one::<SocketAddr>("metrics").ok().flatten().copied();
    let mut observers = Observers::default();
    if scraped.or(address).is_none() {
        return Ok(observers);
    }
    let shown = Metrics::default();
    if let Some(address) = address {
        let title = title.to_owned();
        let (live, feed) = Live::in_browsers(title.clone(), LiveFeed::new);
        let (metrics, names) = (shown.clone(), host_names(matches));
        let is_scraped = scraped == Some(address);
        let gate = LiveServer { title, feed, metrics, is_scraped, names }.start(address)?;
        observers.notes.extend(gate.warning());
        observers.notes.push(format!("watch it at {}", gate.url()));
        observers.live = Some(live);
    }
    if let Some(scraped) = scraped.filter(|scraped| address != Some(*scraped)) {
        metrics::serve(scraped, &shown).map_err(unserved(format!("--metrics {scraped}")))?;
    }
    observers.watch = Some(Arc::new(shown));
    Ok(observers)
}

/// The error of a server that cannot be at the address of this option.
fn unserved(option: String) -> impl Fn(io::Error) -> CommandError {
    move |error| {
        let next = "choose a free port of this host";
        CommandError::new(Exit::Environment, format!("{option}: {error}; {next}"))
    }
}

/// The guard of a server at this address.
fn gate(address: SocketAddr, names: Vec<String>) -> Result<Gate, CommandError> {
    Gate::new(address, names).map_err(|why| CommandError::new(Exit::Environment, why))
}

/// Makes `--metrics`.
fn metrics_arg() -> Arg {
    value(
        "metrics",
        "ADDRESS",
        "Serve OpenMetrics during the command, at http://ADDRESS/metrics: 9464, or 127.0.0.1:9464. \
         Other hosts need an ADDRESS that they reach, such as 0.0.0.0:9464",
    )
    .value_parser(live::address)
}

/// Makes `--host-name`.
fn host_names_arg() -> Arg {
    value(
        "host-name",
        "NAME",
        "Browsers also reach petal by this name of the host, a proxy or a container; may be given \
         several times. Without it petal answers to addresses and localhost, at any port",
    )
    .action(ArgAction::Append)
    .value_parser(host_name)
}

fn host_name(text: &str) -> Result<String, String> {
    let is_part = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    match text.split('.').all(is_part) {
        true => Ok(text.to_owned()),
        false => Err("must be a name without a port, such as db1.example".to_owned()),
    }
}

/// The names that the caller gave.
fn host_names(matches: &ArgMatches) -> Vec<String> {
    let names = matches.try_get_many::<String>("host-name").ok().flatten();
    names.into_iter().flatten().cloned().collect()
}
