//! Processes that a neighbour leaves behind outside of its group, with any environment: while its
//! slot lasts, the kernel makes petal their parent (a child subreaper) when theirs has ended.

use std::collections::HashSet;
use std::io;

use rustix::process::{
    Pid, WaitOptions, getpgrp, getpid, kill_process, set_child_subreaper, waitpid,
};

use super::hook_group::{ProcessStat, end_all, has_mark};

/// The orphans of a slot. Dropped when the slot's program was waited for: petal has no other
/// children then, apart from those of before and those in its own group of processes.
pub struct Orphans {
    /// Children that petal had before, such as the watcher of a script's group.
    before: HashSet<Pid>,
}

impl Orphans {
    /// Takes in each orphan from now on.
    pub fn adopt() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let children = ProcessStat::all().filter(|it| it.parent == Some(getpid()));
        Ok(Self { before: children.map(|it| it.process).collect() })
    }

    /// The living orphans and their descendants. Dead ones are reaped.
    fn living(&self) -> Vec<Pid> {
        let all: Vec<_> = ProcessStat::all().collect();
        let is_orphan = |it: &&ProcessStat| {
            it.parent == Some(getpid())
                && it.group != Some(getpgrp())
                && !self.before.contains(&it.process)
                && !has_mark(it.process)
        };
        let mut found = Vec::new();
        for orphan in all.iter().filter(is_orphan) {
            match orphan.is_alive {
                true => found.push(orphan.process),
                false => drop(waitpid(Some(orphan.process), WaitOptions::NOHANG)),
            }
        }
        let mut at = 0;
        while let Some(&parent) = found.get(at) {
            let children = all.iter().filter(|it| it.is_alive && it.parent == Some(parent));
            found.extend(children.map(|it| it.process));
            at += 1;
        }
        found
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        // petal is the parent of the first ones: no other process can have their numbers.
        let signal = |signal| {
            for process in self.living() {
                let _ = kill_process(process, signal);
            }
        };
        end_all(signal, || !self.living().is_empty());
        let _ = set_child_subreaper(None);
    }
}
