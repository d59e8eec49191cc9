//! The results of cuts of the power: `petal-powercut/1`, as `petal powercut --json` prints them.

use serde::Serialize;

pub const FORMAT: &str = "petal-powercut/1";

/// Cuts of one engine, in a virtual machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PowerCuts {
    pub format: &'static str,
    pub petal_version: &'static str,
    pub engine: &'static str,
    /// `kvm`, or `tcg`: qemu's own emulation, many times slower.
    pub accelerator: &'static str,
    /// The guest's kernel.
    pub kernel: String,
    /// What was asked for, and after it the controls.
    pub trials: Vec<Trial>,
    /// Why not all cuts that were asked for were done; null where they were.
    pub stopped: Option<String>,
}

/// Cuts under the same settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Trial {
    /// `honest` or `lying`.
    pub disk: &'static str,
    /// Settings of the guest's database, such as `synchronous=off`.
    pub settings: Vec<String>,
    /// A control: the same with a disk or a setting that is known not to keep every commit.
    pub is_control: bool,
    pub planned_cuts: u32,
    pub acknowledged_commits: u64,
    pub lost_commits: u64,
    /// Rows that are torn or wrong.
    pub bad_rows: u64,
    pub cuts_with_loss: u64,
    /// Cuts after which the database could not be read at all; all their commits count as lost.
    pub unreadable_cuts: u64,
    /// Acknowledged commits over the time until the last acknowledgement, of all cuts.
    pub commits_per_second: Option<f64>,
    /// Write requests that reached the disk, over the same time.
    pub writes_per_second: Option<f64>,
    pub flushes_per_second: Option<f64>,
    pub cuts: Vec<Cut>,
}

/// One cut.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Cut {
    pub acknowledged_commits: u64,
    pub lost_commits: u64,
    pub bad_rows: u64,
    /// From the trigger to the last acknowledgement.
    pub acknowledging_s: f64,
    /// What was in the disk's cache at the cut, and how much of it was lost.
    pub cached_bytes: u64,
    pub dropped_bytes: u64,
    pub writes: u64,
    pub flushes: u64,
    /// Why nothing can be read any more, in the words of who tried.
    pub unreadable: Option<String>,
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
        let seconds: f64 = self.cuts.iter().map(|cut| cut.acknowledging_s).sum();
        let rate = |all: u64| (seconds > 0.0).then(|| all as f64 / seconds);
        self.commits_per_second = rate(self.acknowledged_commits);
        self.writes_per_second = rate(self.cuts.iter().map(|cut| cut.writes).sum());
        self.flushes_per_second = rate(self.cuts.iter().map(|cut| cut.flushes).sum());
    }

    pub fn is_kept(&self) -> bool {
        self.cuts_with_loss == 0
    }

    /// Such as `lying disk, fsync=off`.
    pub fn name(&self) -> String {
        let settings = self.settings.iter().map(String::as_str);
        let disk = format!("{} disk", self.disk);
        std::iter::once(disk.as_str()).chain(settings).collect::<Vec<_>>().join(", ")
    }
}

impl PowerCuts {
    /// Nothing was lost by what was asked for; controls are meant to lose.
    pub fn is_kept(&self) -> bool {
        self.trials.iter().filter(|trial| !trial.is_control).all(Trial::is_kept)
    }
}
