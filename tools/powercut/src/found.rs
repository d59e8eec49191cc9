//! Results of power cuts: `petal-powercut/1`, as `petal powercut --json` prints them.

use serde::Serialize;

pub const FORMAT: &str = "petal-powercut/1";

/// Power cuts of one engine, in a virtual machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PowerCuts {
    pub format: &'static str,
    pub petal_version: &'static str,
    pub engine: &'static str,
    /// Accelerator: `kvm`, or `tcg`, which is qemu's own emulation and many times slower.
    pub accelerator: &'static str,
    /// Version of the guest's kernel.
    pub kernel: String,
    /// Trial with the requested settings, followed by the controls.
    pub trials: Vec<Trial>,
    /// Reason why some of the requested cuts were not done; null if all were.
    pub stopped: Option<String>,
}

/// Cuts under the same settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Trial {
    /// Kind of disk: `honest` or `lying`.
    pub disk: &'static str,
    /// Settings of the guest's database, such as `synchronous=off`.
    pub settings: Vec<String>,
    /// Set for a control: the same trial with a disk or a setting that is known to lose commits.
    pub is_control: bool,
    pub planned_cuts: u32,
    pub acknowledged_commits: u64,
    pub lost_commits: u64,
    /// Rows that are torn or wrong.
    pub bad_rows: u64,
    pub cuts_with_loss: u64,
    /// Cuts after which the database could not be read; all their commits count as lost.
    pub unreadable_cuts: u64,
    /// Acknowledged commits per second until the last acknowledgement, over all cuts.
    pub commits_per_second: Option<f64>,
    /// Write requests per second at the disk, from the first commits to the cut, over all cuts.
    pub writes_per_second: Option<f64>,
    pub flushes_per_second: Option<f64>,
    pub cuts: Vec<Cut>,
}

/// Result of one cut.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Cut {
    pub acknowledged_commits: u64,
    pub lost_commits: u64,
    pub bad_rows: u64,
    /// Time from the trigger to the last acknowledgement.
    pub acknowledging_s: f64,
    /// Time from the first commits to the cut.
    pub cut_after_s: f64,
    /// Bytes in the disk's cache at the cut, and the part of them that was lost.
    pub cached_bytes: u64,
    pub dropped_bytes: u64,
    /// Requests that reached the disk, from the first commits to the cut.
    pub writes: u64,
    pub flushes: u64,
    /// Reason why the database cannot be read, in the words of the program that tried.
    pub unreadable: Option<String>,
    /// Path of the kept ledger (`.ledger`) and the disk after recovery (`.img`), without these
    /// endings.
    pub kept: Option<String>,
}

impl Cut {
    pub fn is_kept(&self) -> bool {
        self.lost_commits == 0 && self.bad_rows == 0 && self.unreadable.is_none()
    }
}

impl Trial {
    pub fn add(&mut self, cut: Cut) {
        self.acknowledged_commits += cut.acknowledged_commits;
        self.lost_commits += cut.lost_commits;
        self.bad_rows += cut.bad_rows;
        self.cuts_with_loss += u64::from(!cut.is_kept());
        self.unreadable_cuts += u64::from(cut.unreadable.is_some());
        self.cuts.push(cut);
        let cuts = &self.cuts;
        let rate = |all: u64, seconds: f64| (seconds > 0.0).then(|| all as f64 / seconds);
        let acknowledging_s = cuts.iter().map(|cut| cut.acknowledging_s).sum();
        let watched_s = cuts.iter().map(|cut| cut.cut_after_s).sum();
        self.commits_per_second = rate(self.acknowledged_commits, acknowledging_s);
        self.writes_per_second = rate(cuts.iter().map(|cut| cut.writes).sum(), watched_s);
        self.flushes_per_second = rate(cuts.iter().map(|cut| cut.flushes).sum(), watched_s);
    }

    pub fn is_kept(&self) -> bool {
        self.cuts_with_loss == 0
    }

    /// Returns a name such as `lying disk, fsync=off`.
    pub fn name(&self) -> String {
        let settings = self.settings.iter().map(String::as_str);
        let disk = format!("{} disk", self.disk);
        std::iter::once(disk.as_str()).chain(settings).collect::<Vec<_>>().join(", ")
    }
}

impl PowerCuts {
    /// True if the requested trials lost nothing; controls are meant to lose.
    pub fn is_kept(&self) -> bool {
        self.trials.iter().filter(|trial| !trial.is_control).all(Trial::is_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_adds_up_its_cuts_and_a_database_that_cannot_be_read_is_a_loss() {
        let cut = |acknowledged_commits, lost_commits, unreadable: Option<&str>| Cut {
            acknowledged_commits,
            lost_commits,
            acknowledging_s: 2.0,
            cut_after_s: 1.0,
            writes: 30,
            unreadable: unreadable.map(str::to_owned),
            ..Cut::default()
        };
        let mut trial =
            Trial { disk: "lying", settings: vec!["fsync=off".into()], ..Trial::default() };
        assert_eq!(
            (trial.name().as_str(), trial.commits_per_second),
            ("lying disk, fsync=off", None)
        );
        trial.add(cut(100, 0, None));
        assert!(trial.is_kept());
        trial.add(cut(60, 2, None));
        trial.add(cut(20, 20, Some("no file system")));
        assert_eq!((trial.acknowledged_commits, trial.lost_commits), (180, 22));
        assert_eq!((trial.cuts_with_loss, trial.unreadable_cuts), (2, 1));
        assert_eq!((trial.commits_per_second, trial.writes_per_second), (Some(30.0), Some(30.0)));
        // A control is meant to lose.
        let found = |is_control| PowerCuts {
            format: FORMAT,
            petal_version: "0",
            engine: "sqlite",
            accelerator: "tcg",
            kernel: String::new(),
            trials: vec![Trial { is_control, ..trial.clone() }],
            stopped: None,
        };
        assert!(found(true).is_kept() && !found(false).is_kept());
    }
}
