//! The sessions' waits for the log and for replicas, found by asking the list of processes twenty
//! times a second per server. The server times the log's files, not who waits for them: a group commit's other
//! sessions wait without an instrument.

use std::time::Duration;

use super::client::Client;
use super::connect::Endpoint;
use petal_engine::server::wait_sampler::{SampledEndpoint, SampledWait};
use petal_record::counters::WaitClass;

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
/// The step of a commit that waits for a replica; no row without the plugin.
const WAIT_POINT: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
     ('rpl_semi_sync_master_wait_point', 'rpl_semi_sync_source_wait_point')";

impl SampledEndpoint for Endpoint {
    type SessionId = u32;
    /// True if a commit waits for the replica before others can commit (AFTER_SYNC).
    type Sampling = (Client, bool);

    const EVERY: Duration = Duration::from_millis(50);

    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Option<Self::Sampling> {
        let mut client = self.connect_to_look().ok()?;
        let points: Vec<(String, String)> = client.query(WAIT_POINT).ok()?;
        Some((client, points.iter().any(|(_, point)| point == "AFTER_SYNC")))
    }

    fn sample((client, is_in_turn): &mut Self::Sampling, of: &[u32]) -> Option<Vec<SampledWait>> {
        let (log, replica) = by_cause(client.query_one(&question(of)).ok()?, *is_in_turn);
        let wait =
            |name: &str, class, sessions| SampledWait { name: name.to_owned(), class, sessions };
        let log = wait(COMMIT_EVENT, WaitClass::Commit, log);
        // Most servers have no replica for which commits wait.
        let replica = (replica > 0).then(|| wait(REPLICA_EVENT, WaitClass::Replica, replica));
        Some([Some(log), replica].into_iter().flatten().collect())
    }
}

/// Sessions that wait for the log and for a replica, of those in the states of each. With AFTER_SYNC
/// one of a group's sessions waits for the replica, and all others in a commit for that session.
fn by_cause((log, replica): (u64, u64), is_in_turn: bool) -> (u64, u64) {
    match is_in_turn && replica > 0 {
        true => (0, log + replica),
        false => (log, replica),
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

    #[test]
    fn commits_behind_one_that_waits_for_a_replica_wait_for_it_too() {
        assert_eq!(by_cause((7, 1), true), (0, 8));
        assert_eq!(by_cause((7, 1), false), (7, 1));
        assert_eq!(by_cause((7, 0), true), (7, 0));
    }
}
