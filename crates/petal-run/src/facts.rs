//! The proof of a run's facts: settings and identity of its servers, limits of its processes and
//! settings of the host are read before the trigger, looked at each second, and read again at the
//! end.

use petal_engine::{EngineError, Result, Server, ServerFacts};
use petal_host::facts::{FactChange, FactKind, FactValues, LimitedProcesses};
use petal_host::host::HostFacts;
use petal_host::numbers::decimal;
use petal_record::facts::FactsProof;
use petal_record::target::Durability;

use super::job::{Job, Prepared};

/// The fact of a question about the tables that was refused.
const REFUSED: &str = "petal's tables";

/// A server's facts with the mark of its settings.
pub struct FirstFacts {
    mark: Option<String>,
    facts: ServerFacts,
}

impl FirstFacts {
    /// Reads them right after the description of the target: from there on each change is known.
    /// None without a server that this host counts.
    pub fn read(job: &Job<'_>) -> Option<Result<Self>> {
        let server = job.engine.server().filter(|_| job.counts_database())?;
        let read = || Ok(Self { mark: server.settings_mark()?, facts: read(job, server)? });
        Some(read())
    }
}

/// The facts of a run in progress.
pub struct FactsWatch<'a> {
    job: &'a Job<'a>,
    /// The server whose settings are read; None without one, and on a host that does not count the
    /// database.
    server: Option<&'a dyn Server>,
    /// None if the host is not watched.
    processes: Option<LimitedProcesses>,
    host: FactValues,
    mark: Option<String>,
    known: FactValues,
    limits: FactValues,
    durability: Option<Durability>,
    proof: FactsProof,
    /// Seconds after the trigger of the last looks at the mark of the server's settings, at all of its facts,
    /// and at the limits.
    looked_s: f64,
    compared_s: f64,
    limits_looked_s: f64,
    pub gaps: Vec<String>,
}

impl<'a> FactsWatch<'a> {
    /// Reads all facts before the trigger.
    pub fn begin(job: &'a Job<'a>, prepared: &Prepared) -> Self {
        let server = job.engine.server().filter(|_| job.counts_database());
        let processes = prepared.probe.as_ref().map(|_| {
            let roots = prepared.devices.as_ref().map(|devices| devices.roots.clone());
            let servers = petal_engine::server_processes(job.engine);
            LimitedProcesses::new(&roots.unwrap_or_default(), &servers)
        });
        let mut watch = Self {
            job,
            server,
            limits: processes.as_ref().map(LimitedProcesses::limits).unwrap_or_default(),
            processes,
            host: prepared.host.as_ref().map(HostFacts::settings).unwrap_or_default(),
            mark: None,
            known: FactValues::new(),
            durability: prepared.details.durability.clone(),
            proof: FactsProof::default(),
            looked_s: 0.0,
            compared_s: 0.0,
            limits_looked_s: 0.0,
            gaps: Vec::new(),
        };
        match (&prepared.first_facts, server) {
            (Some(Ok(first)), Some(server)) => {
                (watch.mark, watch.known) = (first.mark.clone(), first.facts.facts.clone());
                // Settling may have taken minutes.
                if let Err(why) = watch.compare(server, 0.0) {
                    watch.unread(&why.to_string());
                }
            }
            (Some(Err(why)), _) => watch.unread(&why.to_string()),
            _ => {}
        }
        let count = watch.known.len() + watch.limits.len() + watch.host.len();
        watch.proof.count = count as u64;
        watch.proof.keep_limits(&watch.limits);
        watch.proof.compare_with_first_cell(&job.limits_of_first_cell);
        let differing = watch.proof.since_first_cell.iter();
        differing.for_each(|it| {
            job.watch.note(&format!("not as in the first cell: {}", it.values()));
        });
        watch
    }

    /// Looks at the limits, and at the facts of a server that `answers` if they may have changed;
    /// `at_s` is the time since the trigger. Returns the changes, and names each on the console.
    pub fn look(&mut self, at_s: f64, answers: bool) -> &[FactChange] {
        let before = self.proof.changes.len();
        self.look_at_limits(at_s);
        if let Some(server) = self.server.filter(|_| self.mark.is_some() && answers) {
            // A server that does not answer is asked again in the next second.
            match server.settings_mark() {
                Ok(mark) if mark == self.mark => self.looked_s = at_s,
                Ok(mark) => {
                    if self.compare(server, at_s).is_ok() {
                        self.mark = mark;
                    }
                }
                Err(_) => {}
            }
        }
        let new = self.proof.changes.get(before..).unwrap_or_default();
        new.iter().for_each(|change| self.job.watch.note(&change.words()));
        new
    }

    /// Reads all facts again after the last operation.
    pub fn end(mut self, prepared: &Prepared, at_s: f64) -> (FactsProof, Vec<String>) {
        self.look_at_limits(at_s);
        if let Some(server) = self.server.filter(|_| !self.known.is_empty())
            && let Err(why) = self.compare(server, at_s)
        {
            self.unread(&why.to_string());
            self.proof.is_end_unread = true;
        }
        if prepared.host.is_some() {
            let servers = petal_engine::server_processes(self.job.engine);
            let now = HostFacts::collect_with(prepared.devices.as_ref(), &servers).settings();
            self.proof.changes.extend(FactChange::between(&self.host, &now, (0.0, at_s)));
        }
        (self.proof, self.gaps)
    }

    fn look_at_limits(&mut self, at_s: f64) {
        let Some(processes) = &self.processes else { return };
        let now = processes.limits();
        let between = (self.limits_looked_s, at_s);
        // A server that ended has no limits; others report that.
        let is_known = |change: &FactChange| change.after.is_some() || change.before.is_none();
        let changes = FactChange::between(&self.limits, &now, between);
        self.proof.changes.extend(changes.into_iter().filter(is_known));
        (self.limits, self.limits_looked_s) = (now, at_s);
    }

    fn compare(&mut self, server: &dyn Server, at_s: f64) -> Result<()> {
        let mut now = read(self.job, server)?;
        if now.facts.contains_key(&(FactKind::Table, REFUSED.to_owned())) {
            let known = self.known.iter().filter(|((kind, _), _)| *kind == FactKind::Identity);
            now.facts.extend(known.map(|(name, value)| (name.clone(), value.clone())));
        }
        let between = (self.looked_s, at_s);
        let mut changes = FactChange::between(&self.known, &now.facts, between);
        // The mark is of settings: tables were looked at when all facts were compared.
        let tables = changes.iter_mut().filter(|change| change.kind == FactKind::Table);
        tables.for_each(|change| change.between_s.0 = self.compared_s);
        self.proof.changes.append(&mut changes);
        if let Some(weaker) = now.durability.filter(|now| !now.durable)
            && self.durability.as_ref().is_some_and(|known| known.durable)
        {
            let from = decimal(between.0.floor(), 0);
            let setting = format!("{}, from second {from} on", weaker.setting);
            self.durability = Some(Durability { setting, ..weaker });
            self.proof.weakest.clone_from(&self.durability);
        }
        (self.known, self.looked_s, self.compared_s) = (now.facts, at_s, at_s);
        Ok(())
    }

    fn unread(&mut self, why: &str) {
        self.gaps.push(format!("whether settings of the server changed is not known: {why}"));
    }
}

/// Reads the server's settings, or those of its description if the engine reads no others, and
/// the identities of servers and loads.
fn read(job: &Job<'_>, server: &dyn Server) -> Result<ServerFacts> {
    let (schemas, sessions) = (job.workload.schemas, job.plan.len() as u32);
    let mut read = server.settings_now(schemas)?;
    if read.facts.is_empty() {
        let (_, details) = job.engine.describe(schemas, sessions)?;
        let settings = details.settings.into_iter();
        read.facts = settings.map(|(name, v)| ((FactKind::Setting, name), v)).collect();
        read.durability = details.durability;
    }
    let identities = match server.identities(schemas) {
        // Tables that are no longer as a load makes them. The begin of a run refuses them.
        Err(EngineError::Environment(why) | EngineError::Data(why)) => {
            read.facts.insert((FactKind::Table, REFUSED.to_owned()), why);
            return Ok(read);
        }
        identities => identities?,
    };
    for identity in identities {
        let mut add = |what: &str, value: String| {
            let name = format!("{what} at {}", identity.server);
            read.facts.insert((FactKind::Identity, name), value);
        };
        identity.system.into_iter().for_each(|system| add("system", system));
        for (schema, load) in identity.loads {
            add(&format!("load of schema {schema}"), load);
        }
    }
    Ok(read)
}
