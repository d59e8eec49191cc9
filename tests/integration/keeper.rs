//! A server's process that ends when the test's does, however that ends. No test of its own.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use std::os::unix::process::CommandExt as _;

use crate::support::{Mount, run, skip};

/// Runs a server until its own standard input ends, which it does with the test's process; then
/// stops it by its usual signal and removes what it had. A line says another signal, and `keep`.
const SCRIPT: &str = r#"
folder=$1; usual=$2; shift 2
"$@" >>"$folder/log" 2>&1 </dev/null &
server=$!
echo $server >"$folder/process"
read -r how what
kill -"${how:-$usual}" "$server" 2>/dev/null
wait "$server"
[ "$what" = keep ] || rm -rf "$folder"
"#;

/// Returns the command with own mounts and process numbers, as in a container, for a user by its numbers.
/// There the folder is a copy on this file system; on the host the same path has the old files.
pub fn contained(
    server: &Command,
    folder: &Path,
    inside: &Mount,
    user: Option<(u32, u32)>,
) -> Option<Command> {
    let unshare = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let as_user = user.map_or(String::new(), |(user, group)| {
        // Another user's process is not ended with its parent any more, unless it asks for that.
        format!("setpriv --reuid {user} --regid {group} --clear-groups --pdeathsig KILL ")
    });
    let folder = folder.display();
    let script = format!(
        "cp -a {folder} {0} && mount --bind {0} {folder} && cd / && exec {as_user}\"$@\"",
        inside.text("data")
    );
    let namespace = [&unshare[..], &["/bin/sh", "-c"]].concat();
    if let Err(why) = run("unshare", &[&namespace[..], &["mount -t tmpfs none /mnt"]].concat()) {
        skip(&format!("no namespace can be made: {why}"));
        return None;
    }
    let mut contained = Command::new("unshare");
    contained.args(namespace).arg(script).arg("sh");
    contained.arg(server.get_program()).args(server.get_args());
    Some(contained)
}

pub struct Keeper {
    // Closed first: then the script ends.
    input: Option<ChildStdin>,
    script: Child,
}

impl Keeper {
    /// `shell` is /bin/sh as the user that runs the server; `usual` ends the server cleanly.
    pub fn start(mut shell: Command, folder: &Path, usual: &str, server: &Command) -> Self {
        shell.arg("-c").arg(SCRIPT).arg("keeper").arg(folder).arg(usual);
        shell.arg(server.get_program()).args(server.get_args());
        let mut script = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Self { input: script.stdin.take(), script }
    }

    /// Ends the server by a signal, its data kept.
    pub fn stop_and_keep(&mut self, signal: &str) {
        if let Some(mut input) = self.input.take() {
            let _ = writeln!(input, "{signal} keep");
        }
        let _ = self.script.wait();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.script.wait();
    }
}
