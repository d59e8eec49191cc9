//! The ids of findings that older versions of petal wrote under other names.

use super::{Finding, Run};

/// Gives every finding of a loaded record its present id.
pub(super) fn update(run: &mut Run) {
    for finding in &mut run.summary.findings {
        if let Some(id) = present(finding) {
            finding.id = id.to_owned();
        }
    }
}

/// None where the id is still in use. `not-physical` stood for four facts, which its evidence
/// tells apart.
fn present(finding: &Finding) -> Option<&'static str> {
    let has = |name: &str| finding.evidence.contains_key(name);
    let was_direct = || finding.evidence.get("direct_io_used") == Some(&true.into());
    match finding.id.as_str() {
        "not-logical" => Some("cache-misses"),
        "not-physical" if has("storage_cache_bytes") => Some("cached-by-storage"),
        "not-physical" if has("cache_bytes") => Some("cached-by-database"),
        "not-physical" if was_direct() => Some("device-unseen"),
        "not-physical" => Some("cached-by-os"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RecordFolder, Severity, fixture, load, save};
    use serde_json::json;

    #[test]
    fn a_record_of_an_older_version_shows_the_present_ids() {
        let cases = [
            ("not-logical", json!({ "logical_reads": 7 }), "cache-misses"),
            ("not-physical", json!({ "storage_cache_bytes": 7 }), "cached-by-storage"),
            ("not-physical", json!({ "cache_bytes": 7 }), "cached-by-database"),
            ("not-physical", json!({ "direct_io_used": true }), "device-unseen"),
            ("not-physical", json!({ "direct_io_used": false }), "cached-by-os"),
            ("other-load", json!({}), "other-load"),
        ];
        let mut run = fixture::mixed_run();
        run.summary.findings = cases
            .iter()
            .map(|(id, evidence, _)| Finding {
                id: (*id).to_owned(),
                severity: Severity::Warning,
                message: String::new(),
                advice: String::new(),
                evidence: serde_json::from_value(evidence.clone()).unwrap(),
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        save(&RecordFolder::open(dir.path()), &run).unwrap();
        let loaded = load(dir.path()).unwrap();
        let ids: Vec<&str> = loaded.summary.findings.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(ids, cases.map(|(_, _, id)| id));
    }
}
