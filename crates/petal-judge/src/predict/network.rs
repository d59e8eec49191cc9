//! A closed queueing network with few parameters, which all lines of a sweep share. Sessions spend
//! time of their own, pass a resource of several servers, whose speed may fall with the operations
//! there, and with UPDATEs a resource that serves one at a time (the writer's lock, the log) and
//! time that does not queue (a group's commit). PIOPS alone do not separate the processors from the
//! device: one resource represents both, unless a calibration gives the device's own curve.

use std::rc::Rc;

use super::curves::{DeviceCurves, nearest};
use super::least_squares::minimise;
use super::queues::{self, ServiceQueue};
use super::{CellFigures, LineCells};

/// Weight of each parameter's distance from its start, as logarithms: it decides if the cells do
/// not.
const RIDGE: f64 = 0.02;
/// Servers from which the search begins.
const SERVERS: [f64; 2] = [4.0, 16.0];

/// Parameters of a network, as logarithms; times are seconds of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NetworkPart {
    Own,
    Shared,
    Servers,
    /// Slowdown of the shared resource by each further operation, as a share.
    Crosstalk,
    /// Time at the device of a calibration.
    Device,
    /// Additional times of an UPDATE: at the shared resource, one at a time, and without a queue.
    SharedOfUpdates,
    OneWriter,
    GroupCommit,
}

/// A network with its parameters.
#[derive(Debug)]
pub(super) struct QueueNetwork {
    parts: Vec<NetworkPart>,
    logs: Vec<f64>,
    device: Option<DeviceCurves>,
}

/// The network on one line.
#[derive(Debug, Clone)]
pub(super) struct NetworkOfLine {
    network: Rc<QueueNetwork>,
    update_share: f64,
    cells: Vec<CellFigures>,
}

impl NetworkOfLine {
    pub(super) fn network(&self) -> &QueueNetwork {
        &self.network
    }

    pub(super) fn piops(&self, sessions: f64) -> Option<f64> {
        let rates = self.network.rates(self.update_share, sessions as usize);
        let per_operation = nearest(&self.cells, sessions, |cell| Some(cell.per_operation))?;
        Some(rates.last()? * per_operation)
    }
}

impl QueueNetwork {
    fn part(&self, part: NetworkPart) -> f64 {
        let at = self.parts.iter().position(|it| *it == part);
        at.map_or(0.0, |at| self.logs[at].exp())
    }

    /// Operations per second with 1, 2, ... sessions.
    fn rates(&self, update_share: f64, sessions: usize) -> Vec<f64> {
        let of_updates = |part| update_share * self.part(part);
        let shared = self.part(NetworkPart::Shared) + of_updates(NetworkPart::SharedOfUpdates);
        let (servers, crosstalk) =
            (self.part(NetworkPart::Servers), self.part(NetworkPart::Crosstalk));
        let speed = |at: usize| {
            let at = at as f64;
            at.min(servers) / (1.0 + crosstalk * (at - 1.0))
        };
        let speeds = (1..=sessions.clamp(1, queues::SESSIONS_MAX)).map(speed);
        let mut queues = vec![
            ServiceQueue::of(shared, speeds.collect()),
            ServiceQueue::servers(of_updates(NetworkPart::OneWriter), 1.0),
        ];
        if let Some(device) = &self.device {
            queues.push(ServiceQueue::of(
                self.part(NetworkPart::Device),
                device.speeds(update_share > 0.0),
            ));
        }
        let delay = self.part(NetworkPart::Own) + of_updates(NetworkPart::GroupCommit);
        queues::throughput(delay, &queues, sessions)
    }

    /// Differences from the cells, as logarithms. None if a figure cannot be computed.
    fn residuals(&self, lines: &[LineCells]) -> Option<Vec<f64>> {
        let mut found = Vec::new();
        for line in lines {
            let most = line.cells.last().map_or(0, |cell| cell.sessions as usize);
            let rates = self.rates(line.update_share, most);
            for cell in &line.cells {
                let rate = rates.get((cell.sessions as usize).checked_sub(1)?)?;
                found.push((rate * cell.per_operation / cell.piops).ln());
            }
        }
        found.iter().all(|value| value.is_finite()).then_some(found)
    }

    /// The network through the cells of all lines, from each start; None if there are fewer cells
    /// than parameters.
    pub(super) fn fit(
        lines: &[LineCells],
        device: Option<&DeviceCurves>,
        near: Option<&QueueNetwork>,
    ) -> Option<Rc<Self>> {
        let mut parts = vec![
            NetworkPart::Own,
            NetworkPart::Shared,
            NetworkPart::Servers,
            NetworkPart::Crosstalk,
        ];
        parts.extend(device.map(|_| NetworkPart::Device));
        let shares = || lines.iter().filter(|it| !it.cells.is_empty()).map(|it| it.update_share);
        let first = shares().next()?;
        if shares().any(|share| share != first) {
            parts.extend([
                NetworkPart::SharedOfUpdates,
                NetworkPart::OneWriter,
                NetworkPart::GroupCommit,
            ]);
        }
        let cells = lines.iter().map(|line| line.cells.len()).sum::<usize>();
        if cells < parts.len() {
            return None;
        }
        let starts: Vec<Vec<f64>> = match near.filter(|near| near.parts == parts) {
            Some(near) => vec![near.logs.clone()],
            None => SERVERS.iter().filter_map(|&it| start(&parts, lines, it)).collect(),
        };
        let centre = start(&parts, lines, SERVERS[0])?;
        let with = |logs: &[f64]| Self {
            parts: parts.clone(),
            logs: logs.to_vec(),
            device: device.cloned(),
        };
        let residuals = |logs: &[f64]| {
            let mut found = with(logs).residuals(lines)?;
            found.extend(logs.iter().zip(&centre).map(|(log, start)| RIDGE * (log - start)));
            Some(found)
        };
        let fits = starts.iter().filter_map(|start| minimise(residuals, start));
        let (logs, _) = fits.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Rc::new(with(&logs)))
    }

    pub(super) fn of_line(self: &Rc<Self>, line: &LineCells) -> NetworkOfLine {
        NetworkOfLine {
            network: Rc::clone(self),
            update_share: line.update_share,
            cells: line.cells.clone(),
        }
    }
}

/// Parameters to begin with: the time of an operation with the fewest sessions, divided evenly.
fn start(parts: &[NetworkPart], lines: &[LineCells], servers: f64) -> Option<Vec<f64>> {
    let cells = lines.iter().flat_map(|line| &line.cells);
    let first = cells.min_by(|a, b| a.sessions.total_cmp(&b.sessions))?;
    let time = first.sessions * first.per_operation / first.piops;
    let of = |part: &NetworkPart| match part {
        NetworkPart::Own | NetworkPart::Shared => time / 2.0,
        NetworkPart::Servers => servers,
        NetworkPart::Crosstalk => 1e-3,
        NetworkPart::Device | NetworkPart::SharedOfUpdates => time / 4.0,
        NetworkPart::OneWriter | NetworkPart::GroupCommit => time / 10.0,
    };
    Some(parts.iter().map(|part| of(part).ln()).collect())
}
