//! The sessions' waits for the log, found by asking the list of processes twenty times a second per
//! server. The server times the log's files, not who waits for them: a group commit's other
//! sessions wait without an instrument.

use std::time::Duration;

use super::client::Client;
use super::connect::Endpoint;
use petal_engine::server::wait_sampler::{SampledEndpoint, SampledWait};
use petal_model::stats::counters::WaitClass;

/// Commits, which wait for the log, with the binary log and replicas if commits wait for them.
pub const COMMIT_EVENT: &str = "commit: log wait";

/// States of a commit, in the order of its steps: MariaDB's, and MySQL's; a wait for a replica; and
/// MariaDB's wait before the answer, until another session has synced the log.
const STATES: &str = "'Commit', 'Commit implicit', 'waiting for handler commit', \
     'Waiting for semi-sync ACK from slave', 'Waiting for semi-sync ACK from replica', \
     'Updating status'";

impl SampledEndpoint for Endpoint {
    type SessionId = u32;
    type Sampling = Client;

    const EVERY: Duration = Duration::from_millis(50);

    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Option<Client> {
        self.connect_to_look().ok()
    }

    fn sample(client: &mut Client, of: &[u32]) -> Option<Vec<SampledWait>> {
        let sessions = client.query_one(&question(of)).ok()?;
        Some(vec![SampledWait {
            name: COMMIT_EVENT.to_owned(),
            class: WaitClass::Commit,
            sessions,
        }])
    }
}

fn question(of: &[u32]) -> String {
    let ids: Vec<String> = of.iter().map(u32::to_string).collect();
    format!(
        "SELECT COUNT(*) FROM information_schema.processlist \
         WHERE command IN ('Query', 'Execute') AND id IN ({}) AND state IN ({STATES})",
        ids.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn petals_own_sessions_are_asked_for_and_no_others() {
        let sql = question(&[7, 12]);
        assert!(sql.contains("id IN (7, 12) AND state IN ('Commit',"), "{sql}");
    }
}
