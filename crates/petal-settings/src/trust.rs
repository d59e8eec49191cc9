//! Files that steer petal, which often runs as root: a user who may change them has petal's rights.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Refuses a file that other users than its owner may write. A group with the owner's number is the
/// owner's alone.
pub fn check_writers(about: &Metadata) -> Result<(), String> {
    let mode = about.mode();
    let by_group = mode & GROUP_WRITES != 0 && about.gid() != about.uid();
    if mode & OTHERS_WRITE == 0 && !by_group {
        return Ok(());
    }
    let mode = mode & 0o7777;
    Err(format!("others than its owner may write it (mode {mode:04o}); chmod go-w it"))
}

/// Refuses a file that is neither of the user who runs petal nor of root.
pub fn check_owner(about: &Metadata) -> Result<(), String> {
    let (owner, user) = (about.uid(), geteuid().as_raw());
    if owner == 0 || owner == user {
        return Ok(());
    }
    Err(format!("it belongs to user {owner}, and petal runs as user {user}"))
}

/// Returns the script itself, behind all links, if only root and the user who runs petal can
/// change or replace it.
pub fn script(path: &Path) -> Result<PathBuf, String> {
    let path = fs::canonicalize(path).map_err(|why| why.to_string())?;
    for place in path.ancestors() {
        let about = fs::metadata(place).map_err(|why| format!("{}: {why}", place.display()))?;
        // In such a folder no user can replace another user's file.
        let is_guarded = about.is_dir() && about.mode() & STICKY != 0;
        let trusted = check_owner(&about);
        let trusted = trusted.and_then(|()| match is_guarded {
            true => Ok(()),
            false => check_writers(&about),
        });
        trusted.map_err(|why| format!("{}: {why}", place.display()))?;
    }
    Ok(path)
}

/// Finds a file by its name in the user's folder, HOME. Refuses one that another user could have put
/// there: a command that runs as root may keep that user's HOME.
pub fn own_file(home: &Path, name: &str) -> Result<Option<PathBuf>, String> {
    let path = home.join(name);
    let refused = |why: String| {
        format!(
            "{}: petal does not read it, because another user could have put it there: {why}; set \
             HOME to a folder of your own, or name the file in the URL",
            path.display()
        )
    };
    let mut place = home.to_owned();
    for part in Path::new(name) {
        place.push(part);
        let Ok(about) = place.symlink_metadata() else { return Ok(None) };
        check_owner(&about).map_err(refused)?;
    }
    let Ok(about) = fs::metadata(&path) else { return Ok(None) };
    check_owner(&about).map_err(refused)?;
    for folder in [Some(home), path.parent()].into_iter().flatten() {
        script(folder).map_err(refused)?;
    }
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    fn made(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_script_that_others_may_write_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let own = made(folder.path(), "own.sh", 0o755);
        assert_eq!(script(&own), Ok(fs::canonicalize(&own).unwrap()));
        let open = made(folder.path(), "open.sh", 0o757);
        assert!(script(&open).unwrap_err().contains("open.sh: others than its owner"));
        let inside = folder.path().join("inside");
        fs::create_dir(&inside).unwrap();
        let safe = made(&inside, "safe.sh", 0o755);
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(script(&safe).unwrap_err().contains("/inside: others"));
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(script(&safe).is_ok());
    }

    #[test]
    fn a_script_of_another_user_is_refused_also_behind_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let theirs = made(folder.path(), "theirs.sh", 0o755);
        let link = folder.path().join("link.sh");
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        if chown(&theirs, Some(4711), Some(4711)).is_err() {
            return; // Only root can give a file away.
        }
        assert!(script(&link).unwrap_err().contains("belongs to user 4711"));
    }

    #[test]
    fn a_file_in_the_home_of_another_user_is_not_taken_for_ones_own() {
        let home = tempfile::tempdir().unwrap();
        let found = |name: &str| own_file(home.path(), name);
        assert_eq!(found("none"), Ok(None));
        let path = made(home.path(), "own", 0o600);
        assert_eq!(found("own"), Ok(Some(path.clone())));
        fs::create_dir(home.path().join("in")).unwrap();
        made(&home.path().join("in"), "own", 0o600);
        assert!(found("in/own").unwrap().is_some());
        // Everybody may put a file into such a folder, and has its own there.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(found("own").is_ok());
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(found("own").unwrap_err().contains("others than its owner"));
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let give = |path: &Path| chown(path, Some(4711), Some(4711));
        if give(&home.path().join("in")).is_err() {
            return; // Only root can give a file away.
        }
        assert!(found("in/own").unwrap_err().contains("belongs to user 4711"));
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(4711), Some(4711)).unwrap();
        assert!(found("link").unwrap_err().contains("belongs to user 4711"));
        give(home.path()).unwrap();
        let refused = found("own").unwrap_err();
        assert!(refused.contains("belongs to user 4711") && refused.contains("HOME"), "{refused}");
        assert_eq!(found("none"), Ok(None));
    }

    #[test]
    fn a_group_of_the_owners_own_may_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = made(folder.path(), "group.sh", 0o775);
        let about = |path: &Path| fs::metadata(path).unwrap();
        if chown(&path, Some(4711), Some(4711)).is_ok() {
            assert_eq!(check_writers(&about(&path)), Ok(()));
            chown(&path, Some(4711), Some(100)).unwrap();
            assert!(check_writers(&about(&path)).is_err());
        }
    }
}
