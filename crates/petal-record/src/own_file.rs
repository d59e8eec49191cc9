//! Files that petal writes: new ones, and replacements of petal's own files. Any other file of that
//! name stays. A reader, or a kill at any moment, finds the old file or the new one.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read, Seek, Write as _};
use std::path::Path;

use rustix::io::Errno;

use petal_host::files::Folder;

/// The kind of a file of petal's, by the mark at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileMark {
    /// Format name up to the version: `petal-run`.
    Json(String),
    Page,
    Drawing,
    Report,
    Timeline,
    Runs,
    Card,
    Manual,
    Workbook,
}

/// Bytes at the start that are searched for a mark.
const HEAD_BYTES: u64 = 16 << 10;
/// The author in a workbook: the part, and its text.
const WORKBOOK_AUTHOR: (&str, &str) = ("docProps/core.xml", "<dc:creator>petal</dc:creator>");
/// Drafts that a killed petal of this process's number may have left.
const DRAFTS_MAX: u32 = 100;

impl FileMark {
    fn of(content: &mut (impl Read + Seek)) -> Option<Self> {
        let mut head = Vec::new();
        content.by_ref().take(HEAD_BYTES).read_to_end(&mut head).ok()?;
        if head.starts_with(b"PK") {
            return made_by_petal(content).then_some(Self::Workbook);
        }
        let head = String::from_utf8_lossy(&head);
        let first = head.lines().next().unwrap_or_default();
        let marks = [
            (Self::Page, head.contains("<meta name=\"generator\" content=\"petal ")),
            (
                Self::Drawing,
                head.starts_with("<svg ") && first.contains(" data-generator=\"petal\""),
            ),
            (Self::Report, is_report(first) || head.lines().last().is_some_and(is_report)),
            (Self::Timeline, first.starts_with("from_s,length_s,sessions,ops,")),
            (Self::Runs, is_table_of_runs(first)),
            (Self::Card, head.starts_with("![petal: ") || head.starts_with("| petal | ")),
            (Self::Manual, head.contains("\n.TH petal")),
        ];
        let mut found = marks.into_iter().filter_map(|(mark, is_there)| is_there.then_some(mark));
        found.next().or_else(|| json_format(&head).map(Self::Json))
    }
}

/// A first or last line such as `petal 0.1.0 run report`.
fn is_report(line: &str) -> bool {
    let version = line.strip_prefix("petal ").and_then(|rest| rest.split(' ').next());
    version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// The columns of a sweep's runs; older tables have no verdict among them.
fn is_table_of_runs(heading: &str) -> bool {
    let rest = heading.split_once("repeat,cell,status,").map(|(_, rest)| rest);
    let rest = rest.map(|rest| rest.strip_prefix("verdict,reason,next,").unwrap_or(rest));
    rest.is_some_and(|rest| rest.starts_with("started_at,elapsed_s,active_bytes"))
}

/// `petal-run` of `{"format": "petal-run/2"`.
fn json_format(head: &str) -> Option<String> {
    let format = head.trim_start().strip_prefix('{')?.trim_start().strip_prefix("\"format\"")?;
    let format = format.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let name = format.split(['/', '"']).next().filter(|name| name.starts_with("petal-"))?;
    Some(name.to_owned())
}

fn made_by_petal(content: &mut (impl Read + Seek)) -> bool {
    let Ok(mut parts) = zip::ZipArchive::new(content) else { return false };
    let Ok(part) = parts.by_name(WORKBOOK_AUTHOR.0) else { return false };
    let mut text = String::new();
    let read = part.take(HEAD_BYTES).read_to_string(&mut text);
    read.is_ok() && text.contains(WORKBOOK_AUTHOR.1)
}

/// The entry in the place of a file that petal would write.
#[derive(Debug)]
enum ExistingEntry {
    Nothing,
    /// A file of petal's own, or an empty one.
    Own(Option<FileMark>),
}

/// Inspects the entry of that name; an error if petal may not replace it.
fn look(folder: &Folder, name: &OsStr, content: Option<&[u8]>) -> io::Result<ExistingEntry> {
    let mut file = match folder.read(name) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ExistingEntry::Nothing),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            return Err(foreign("it is a link"));
        }
        Err(error) if error.raw_os_error().is_none() => return Err(foreign(&error.to_string())),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let mark = FileMark::of(&mut file);
    let is_same = |content: &[u8]| {
        file.rewind().is_ok_and(|()| length == content.len() as u64)
            && holds(&file, content).unwrap_or(false)
    };
    let is_own = mark.is_some() || length == 0 || content.is_some_and(is_same);
    if is_own { Ok(ExistingEntry::Own(mark)) } else { Err(foreign("petal did not write it")) }
}

fn holds(file: &File, content: &[u8]) -> io::Result<bool> {
    let mut there = Vec::with_capacity(content.len());
    file.take(content.len() as u64).read_to_end(&mut there)?;
    Ok(there == content)
}

fn foreign(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("{why}, so petal leaves it as it is; move it away, or name another place"),
    )
}

/// The folder of a file, open, and the file's name there.
fn placed(path: &Path) -> io::Result<(Folder, OsString)> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    Ok((Folder::open(path.parent().unwrap_or(Path::new("")))?, name.to_owned()))
}

/// Refuses a path with a file that petal may not replace.
pub fn check(path: &Path) -> io::Result<()> {
    let (folder, name) = placed(path)?;
    look(&folder, &name, None).map(|_| ())
}

/// Writes a file whole.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let (folder, name) = placed(path)?;
    write_in(&folder, &name, content)
}

/// Writes a file whole into an open folder.
pub fn write_in(folder: &Folder, name: &OsStr, content: &[u8]) -> io::Result<()> {
    let there = look(folder, name, Some(content))?;
    if let ExistingEntry::Own(Some(mark)) = &there
        && FileMark::of(&mut Cursor::new(content)).as_ref() != Some(mark)
    {
        return Err(foreign("it is a file of petal's of another kind"));
    }
    let (mut file, draft) = draft(folder, name)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    let written = written.and_then(|()| match there {
        ExistingEntry::Own(_) => folder.rename(&draft, name),
        // A file that has appeared since stays.
        ExistingEntry::Nothing => {
            folder.rename_to_nothing(&draft, name).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => foreign("another file has come there meanwhile"),
                _ => error,
            })
        }
    });
    if written.is_err() {
        // The draft is worthless; if it cannot be removed either, the first error is reported.
        let _ = folder.remove(&draft);
    }
    written?;
    // Makes the new name durable too; the content is safe without it.
    let _ = folder.file().sync_all();
    Ok(())
}

/// A new file in the same folder as the file to be written.
fn draft(folder: &Folder, name: &OsStr) -> io::Result<(File, OsString)> {
    let process = std::process::id();
    for number in 0..DRAFTS_MAX {
        let mut draft = OsString::from(".");
        draft.push(name);
        draft.push(format!(".{process}-{number}.tmp"));
        match folder.create(&draft) {
            Ok(file) => return Ok((file, draft)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const OWN: [&str; 10] = [
        "{\n  \"format\": \"petal-run/2\",\n  \"x\": 1}\n",
        "{\"format\":\"petal-os/1\"}\n{}\n",
        "<!doctype html>\n<meta name=\"generator\" content=\"petal 0.1.0\">\n",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" data-generator=\"petal\" width=\"1\"></svg>",
        "petal 0.1.0 run report\n",
        "from_s,length_s,sessions,ops,x\n",
        "sustains 8x\n\npetal 0.1.0 replay\n",
        "sessions,repeat,cell,status,verdict,reason,next,started_at,elapsed_s,active_bytes,folder\n",
        "| petal | 1 |\n",
        ".ie \\n(.g .ds Aq\n.TH petal 1 \"petal 0.1.0\"\n",
    ];

    #[test]
    fn only_a_file_of_petals_and_of_the_same_kind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for (at, own) in OWN.iter().enumerate() {
            fs::write(&path, own).unwrap();
            let changed = format!("{own}{}\n", own.lines().last().unwrap());
            write(&path, changed.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), changed);
            let other = OWN[(at + 1) % OWN.len()];
            let refused = write(&path, other.as_bytes()).unwrap_err().to_string();
            assert!(refused.contains("another kind"), "{own}: {refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), changed);
        }
        for foreign in ["dear diary\n", "{\"format\": \"mine\"}", "<svg ></svg>", "PK", "a,b\n"] {
            fs::write(&path, foreign).unwrap();
            for content in OWN.iter().copied().chain(["text"]) {
                let refused = write(&path, content.as_bytes()).unwrap_err().to_string();
                assert!(refused.contains("petal did not write it"), "{refused}");
            }
            assert!(check(&path).is_err());
            write(&path, foreign.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
        }
        let before_verdicts =
            "sessions,repeat,cell,status,started_at,elapsed_s,active_bytes,folder\n";
        fs::write(&path, before_verdicts).unwrap();
        assert!(check(&path).is_ok());
        fs::write(&path, "").unwrap();
        write(&path, b"text").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft stays");
    }

    #[test]
    fn links_pipes_and_folders_stay_and_drafts_are_not_written_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, OWN[0]).unwrap();
        let [link, dangling, pipe, inner] =
            ["link", "dangling", "pipe", "folder"].map(|name| folder.path().join(name));
        symlink(&victim, &link).unwrap();
        symlink(folder.path().join("nowhere"), &dangling).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        fs::create_dir(&inner).unwrap();
        for path in [&link, &dangling, &pipe, &inner] {
            let refused = write(path, OWN[0].as_bytes()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "{path:?}");
        }
        let draft = format!(".new.{}-0.tmp", std::process::id());
        symlink(&victim, folder.path().join(&draft)).unwrap();
        write(&folder.path().join("new"), b"text").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), OWN[0]);
        assert!(folder.path().join(&draft).is_symlink());
    }
}
