//! The sessions' waits for the log and for replicas, found by asking the list of processes twenty
//! times a second per server. The server times the log's files, not who waits for them: a group commit's other
//! sessions wait without an instrument.

use std::time::Duration;

use super::client::Client;
use super::connect::Endpoint;
use petal_engine::server::wait_sampler::{SampledEndpoint, SampledWait};
use petal_model::stats::counters::WaitClass;

/// Commits, which wait for the log, with the binary log.
pub const COMMIT_EVENT: &str = "commit: log wait";
/// Commits that wait for a replica (semi-synchronous replication).
const REPLICA_EVENT: &str = "commit: replica wait";

/// States of a commit, in the order of its steps: MariaDB's, and MySQL's; and MariaDB's wait before
/// the answer, until another session has synced the log.
const OF_LOG: &str = "'Commit', 'Commit implicit', 'waiting for handler commit', 'Updating status'";
/// States of a wait for a replica: MariaDB's and older MySQL's, and MySQL's since 8.0.26.
const OF_REPLICA: &str =
    "'Waiting for semi-sync ACK from slave', 'Waiting for semi-sync ACK from replica'";

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
        let (log, replica) = client.query_one(&question(of)).ok()?;
        let wait =
            |name: &str, class, sessions| SampledWait { name: name.to_owned(), class, sessions };
        let log = wait(COMMIT_EVENT, WaitClass::Commit, log);
        // Most servers have no replica for which commits wait.
        let replica = (replica > 0).then(|| wait(REPLICA_EVENT, WaitClass::Replica, replica));
        Some([Some(log), replica].into_iter().flatten().collect())
    }
}

fn question(of: &[u32]) -> String {
    let ids: Vec<String> = of.iter().map(u32::to_string).collect();
    format!(
        "SELECT COUNT(IF(state IN ({OF_LOG}), 1, NULL)), COUNT(IF(state IN ({OF_REPLICA}), 1, NULL)) \
         FROM information_schema.processlist \
         WHERE command IN ('Query', 'Execute') AND id IN ({})",
        ids.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn petals_own_sessions_are_asked_for_and_no_others() {
        let sql = question(&[7, 12]);
        assert!(sql.contains("id IN (7, 12)"), "{sql}");
    }
}
