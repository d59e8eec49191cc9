#!/usr/bin/env python3
"""Compares petal's verdict with measured elasticities, as root on Linux with control groups.

Each situation gives a quota of processors, a limit of I/O, a rate, think time or a way to the
server its capacity. Each of them is then made 20 % smaller and 20 % larger: the one that changes
the throughput most is the truth. Then petal run --elasticity changes its own resources: the
resource of the largest elasticity must be the one that the situation limits, and so must the last
run of petal demo. Then petal predict says what another capacity would give, from a run before the
change, and the change is made and measured. Slow devices and logs are those of slow_disk.py. Prints the tables of docs/limits.md. PostgreSQL and MariaDB are private servers of Debian's packages.
Usage: bench-limits.py PETAL [DIRECTORY]
  ONLY=sqlite,device,postgres,mariadb,experiments,demo,whatif   these parts alone
  NAMED='200 writes/s;a way'                          situations, or options of what-ifs, with one of these in their name
  SECONDS_EACH=4 ROUNDS=1 EXPERIMENT_SECONDS=60     a longer measurement
"""
import asyncio, atexit, collections, json, math, os, pathlib, shutil, signal, subprocess, sys, tempfile, threading, time

from slow_disk import SlowDisk

PETAL = os.path.abspath(sys.argv[1])
WORK = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else "."))
CGROUP = pathlib.Path("/sys/fs/cgroup")
V2 = (CGROUP / "cgroup.controllers").exists()
SECONDS, ROUNDS, STEP = int(os.environ.get("SECONDS_EACH", 4)), int(os.environ.get("ROUNDS", 1)), 0.2
PARTS = ["sqlite", "device", "postgres", "mariadb", "experiments", "demo", "whatif"]
ONLY = os.environ.get("ONLY", ",".join(PARTS)).split(",")
# Names have commas.
NAMED = os.environ.get("NAMED", "").split(";")
# Elasticities under this count as none: no resource of the situation limits.
LEAST = 0.25
# Bytes of memory for PostgreSQL and its page cache, so that reads reach the device.
MEMORY = 256 << 20
# Files of SQLite.
FILES_MAX = 6
# The database's processes and petal's, where these are not the same.
DATABASE, CLIENT = f"petal-limits-{os.getpid()}", f"petal-limits-client-{os.getpid()}"
PORTS = {"postgres": 5600 + os.getpid() % 100, "mariadb": 5700 + os.getpid() % 100}
RELAYS = {"postgres": 5800 + os.getpid() % 100, "mariadb": 5900 + os.getpid() % 100}

# Capacity of each resource: processors of the database's group and of petal's own, requests per
# second, operations per second, milliseconds. A slow device holds each read, a slow log each sync.
# Locks: the time for which another program holds them, and their number, in MiB of hot rows or in
# files of SQLite, each with one writer.
WORDS = {
    "cpu": "processors", "own": "petal's processors", "reads": "reads", "writes": "writes", "rate": "RATE", "think": "think time", "way": "network",
    "device": "speed of the device", "log": "speed of the log", "held": "time of locks", "locks": "number of locks",
}
# These are the inverse of a capacity.
TIMES = {"think", "way", "device", "log", "held"}
# Situations with one of these have their data, and their log, on slow disks.
SLOW = {"device", "log", "held", "locks"}
# What a verdict names, by the resources of a situation.
SAID = {
    "processors": {"cpu"}, "session_processor_time": {"cpu", "own"}, "petal": {"own"}, "io_limit": {"reads", "writes"},
    "rate": {"rate"}, "think_time": {"think"}, "network": {"way"}, "reads": {"reads", "device"}, "log": {"writes", "log"},
    "locks": {"held", "locks"}, "contention": {"held", "locks"},
}


def situations():
    """(engine, name, sessions, arguments, {resource: capacity})"""
    for cpu, reads, many in [
        (0.3, 20000, (1, 4)), (0.6, 40000, (4,)), (1.6, 1000, (1, 4, 16)), (1.6, 3000, (4, 16)), (1.0, 6000, (1, 4)),
    ]:
        for sessions in many:
            yield "sqlite", f"{cpu} processors, {reads:,} reads/s", sessions, "--update-pct 0", dict(cpu=cpu, reads=reads)
    ample = dict(cpu=1.6, reads=20000)
    yield "sqlite", "RATE 20", 4, "--update-pct 0", {**ample, "rate": 20}
    yield "sqlite", "RATE 50", 1, "--update-pct 0", {**ample, "rate": 50}
    yield "sqlite", "think time 50 ms", 4, "--update-pct 0", {**ample, "think": 50.0}
    yield "sqlite", "think time 100 ms", 1, "--update-pct 0", {**ample, "think": 100.0}
    yield "sqlite", "0.3 processors", 4, "--update-pct 50", dict(cpu=0.3, reads=20000)
    yield "sqlite", "500 writes/s", 1, "--update-pct 50", dict(cpu=1.6, writes=500)
    yield "sqlite", "500 writes/s", 4, "--update-pct 30", dict(cpu=1.6, writes=500)
    yield "sqlite", "2,000 reads/s", 8, "--update-pct 20", dict(cpu=1.6, reads=2000)
    # The writes hold checkpoints alone.
    yield "sqlite", "3,000 reads/s, 200 writes/s", 8, "--update-pct 2 --work-unit 16", dict(cpu=1.6, reads=3000, writes=200)
    for sessions in (1, 8):
        yield "device", "0.1 processors", sessions, "--update-pct 0", dict(cpu=0.1, reads=100000)
    for sessions, reads in [(1, 1000), (4, 1000), (16, 3000), (64, 3000)]:
        yield "device", f"{reads:,} reads/s", sessions, "--update-pct 0", dict(cpu=1.6, reads=reads)
    for sessions, writes in [(4, 500), (16, 500), (64, 2000)]:
        yield "device", f"{writes:,} writes/s", sessions, "--update-pct 50", dict(cpu=1.6, writes=writes)
    yield "device", "2,000 reads/s", 8, "--update-pct 20", dict(cpu=1.6, reads=2000)
    yield "device", "RATE 50", 4, "--update-pct 0", dict(cpu=1.6, reads=100000, rate=50)
    yield "device", "think time 20 ms", 16, "--update-pct 0", dict(cpu=1.6, reads=100000, think=20.0)
    for engine in ("postgres", "mariadb"):
        inside, outside = "--loop server --update-pct ", "--loop client --update-pct "
        for sessions, reads in [(1, 1000), (8, 1000), (16, 2000)]:
            yield engine, f"{reads:,} reads/s", sessions, inside + "0", dict(cpu=1.6, reads=reads)
        yield engine, "1,000 reads/s", 8, inside + "20", dict(cpu=1.6, reads=1000)
        for sessions in (1, 8, 16):
            yield engine, "0.3 processors", sessions, inside + "0", dict(cpu=0.3, reads=20000)
        yield engine, "0.3 processors", 8, inside + "20", dict(cpu=0.3, reads=20000)
        yield engine, "200 writes/s", 4, inside + "50 --work-unit 4", dict(cpu=1.6, writes=200)
        yield engine, "RATE 20", 8, inside + "0", dict(cpu=1.6, reads=20000, rate=20)
        yield engine, "think time 100 ms", 8, inside + "0", dict(cpu=1.6, reads=20000, think=100.0)
        yield engine, "0.3 processors, LOOP=client", 8, outside + "0", dict(cpu=0.3, reads=20000)
        yield engine, "petal has 0.05 processors", 8, outside + "0 --work-unit 1", dict(cpu=1.6, reads=40000, own=0.05)
        for sessions in (1, 8):
            yield engine, "a way of 10 ms", sessions, outside + "0 --work-unit 4", dict(cpu=1.6, reads=20000, way=10.0)
    for engine, loop in (("sqlite", ""), ("device", ""), ("postgres", "--loop server "), ("mariadb", "--loop server ")):
        for sessions, ms in [(1, 5.0), (16, 5.0)]:
            yield engine, f"a device of {ms:g} ms", sessions, loop + "--update-pct 0 --work-unit 16", dict(cpu=1.6, device=ms)
        yield engine, "a device of 2 ms", 8, loop + "--update-pct 20 --work-unit 16", dict(cpu=1.6, device=2.0)
    for engine, loop, many in (("sqlite", "", (1,)), ("device", "", (1, 8)), ("postgres", "--loop server ", (1, 8)), ("mariadb", "--loop server ", (1, 8))):
        for sessions in many:
            yield engine, "a log of 5 ms", sessions, loop + "--update-pct 100 --work-unit 4", dict(cpu=1.6, device=0.5, log=5.0)
    # As many sessions with 4, 5 and 6 files.
    yield "sqlite", "5 files, one writer each", 60, "--update-pct 100 --work-unit 16", dict(cpu=1.6, log=2.0, locks=5)
    yield "sqlite", "5 files, one writer each, a log of 5 ms", 60, "--update-pct 100 --work-unit 4", dict(cpu=1.6, log=5.0, locks=5)
    for engine, work_unit in (("postgres", 256), ("mariadb", 128)):
        hot = "--loop server --update-pct 100 --do-hotspot true --hotspot-frequency 1 --work-unit "
        yield engine, "5 MiB of hot rows", 8, f"{hot}{work_unit}", dict(cpu=1.6, log=2.0, locks=5)
        yield engine, "5 MiB of hot rows", 16, f"{hot}{work_unit}", dict(cpu=1.6, log=2.0, locks=5)
        for sessions in (4, 8):
            yield engine, "rows locked for 100 ms", sessions, f"{hot}4 --hotspot-mb 1", dict(cpu=1.6, log=0.2, held=100.0)


# name, sessions, more arguments, capacity, the resource of the largest elasticity
EXPERIMENTS = [
    ("0.1 processors", 4, "--update-pct 0 --work-unit 16", dict(cpu=0.1, reads=40000), "processors"),
    ("1,000 reads/s", 4, "--update-pct 0 --work-unit 4", dict(cpu=1.6, reads=1000), "reads"),
    ("one writer's commits", 4, "--update-pct 100 --work-unit 1", dict(cpu=1.6, reads=40000), "commits"),
    ("RATE 50", 4, "--update-pct 0 --work-unit 4 --rate 50 --arrivals even", dict(cpu=1.6, reads=40000), "none"),
]
# name, capacity, other programs that keep the processors busy, the resource that limits if it is known before
DEMOS = [
    ("nothing limited from outside", dict(cpu=None), 0, None),
    ("processors busy with 6 other programs", dict(cpu=None), 6, None),
    ("0.3 processors", dict(cpu=0.3), 0, "cpu"),
    ("1,000 reads/s", dict(cpu=None, reads=1000), 0, "reads"),
]
# engine, sessions, arguments, capacity, the option of petal predict, its value: a factor of the
# capacity, or the new number
WHATIFS = [
    ("sqlite", 4, "--update-pct 0", dict(cpu=0.3, reads=20000), "processors", 2),
    ("sqlite", 4, "--update-pct 50", dict(cpu=0.3), "processors", 0.6),
    ("sqlite", 4, "--update-pct 0", dict(cpu=1.6, reads=1000), "io-limit", 3),
    ("sqlite", 16, "--update-pct 0", dict(cpu=1.6, reads=6000), "io-limit", 0.5),
    ("sqlite", 4, "--update-pct 0", dict(cpu=1.6, reads=1000), "sessions", 16),
    ("sqlite", 2, "--update-pct 0", dict(cpu=1.6, think=50.0), "sessions", 8),
    ("sqlite", 4, "--update-pct 0", dict(cpu=1.6, rate=50), "rate", 3),
    ("sqlite", 4, "--update-pct 0", dict(cpu=0.3, rate=20), "rate", 20),
    ("device", 8, "--update-pct 0", dict(cpu=0.1), "processors", 3),
    ("device", 16, "--update-pct 0", dict(cpu=1.6, reads=3000), "io-limit", 2),
    ("device", 16, "--update-pct 50", dict(cpu=1.6, writes=500), "io-limit", 2),
    ("device", 8, "--update-pct 20", dict(cpu=1.6, reads=2000), "update-pct", 40),
    ("postgres", 8, "--loop server --update-pct 0", dict(cpu=0.3, reads=20000), "processors", 2),
    ("postgres", 8, "--loop server --update-pct 0", dict(cpu=1.6, reads=1000), "io-limit", 2),
    *[
        (engine, sessions, more + " --warm-up cache", {**capacity, "cache": 32}, "cache", value)
        for value in (2, 0.5)
        for engine, sessions, more, capacity in [
            ("sqlite", 4, "--update-pct 0", dict(cpu=1.6, reads=1000)),
            ("sqlite", 16, "--update-pct 0", dict(cpu=1.6, reads=3000)),
            ("sqlite", 4, "--update-pct 0", dict(cpu=0.3)),
            ("sqlite", 4, "--update-pct 20", dict(cpu=1.6, reads=1000)),
            ("sqlite", 4, "--update-pct 0 --work-unit 16", dict(cpu=1.6, device=5.0)),
            ("mariadb", 8, "--loop server --update-pct 0", dict(cpu=1.6, reads=1000)),
            ("mariadb", 4, "--loop server --update-pct 0", dict(cpu=1.6)),
            ("mariadb", 4, "--loop server --update-pct 20", dict(cpu=1.6, reads=1000)),
            ("mariadb", 4, "--loop server --update-pct 0 --work-unit 16", dict(cpu=1.6, device=5.0)),
        ]
    ],
    *[
        (engine, sessions, f"{loop}--update-pct 0 --work-unit 16", dict(cpu=1.6, device=5.0), "read-latency", value)
        for value in (2, 0.5)
        for engine, loop in [("sqlite", ""), ("device", ""), ("postgres", "--loop server "), ("mariadb", "--loop server ")]
        for sessions in (1, 4)
    ],
    # Eight sessions of SQLite wait for one writer: refused.
    *[
        (engine, sessions, f"{loop}--update-pct 100 --work-unit 4", dict(cpu=1.6, device=0.5, log=5.0), "log-latency", value)
        for value in (2, 0.5)
        for engine, loop in [("sqlite", ""), ("postgres", "--loop server "), ("mariadb", "--loop server ")]
        for sessions in (1, 8)
    ],
]
# The capacities of these options.
CHANGES = {"processors": ["cpu"], "io-limit": ["reads", "writes"], "rate": ["rate"], "cache": ["cache"], "read-latency": ["device"], "log-latency": ["log"]}
EXPERIMENT_SECONDS = int(os.environ.get("EXPERIMENT_SECONDS", 60))


def command(*words, **more):
    ended = subprocess.run([str(word) for word in words], text=True, capture_output=True, **more)
    if ended.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def group(controller, name=DATABASE):
    path = CGROUP / name if V2 else CGROUP / controller / name
    if V2 and not path.exists():
        (CGROUP / "cgroup.subtree_control").write_text("+cpu +io +memory")
    path.mkdir(exist_ok=True)
    return path


@atexit.register
def clean():
    for engine in list(SERVERS):
        stop(engine)
    for disk in DISKS.values():
        disk.remove()
    shutil.rmtree(WORK, ignore_errors=True)
    for name in (DATABASE, CLIENT):
        for path in CGROUP.glob(name if V2 else f"*/{name}"):
            path.rmdir()


def stop(engine):
    server = SERVERS.pop(engine)
    server.send_signal(signal.SIGINT if engine == "postgres" else signal.SIGTERM)
    server.wait()


SERVERS, DISKS = {}, {}
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def limit(cpu, reads=None, writes=None, own=None):
    where = os.stat(WORK).st_dev
    where = f"{os.major(where)}:{os.minor(where)}"
    for name, processors in ((DATABASE, cpu), (CLIENT, own)):
        quota = int(processors * 100000) if processors else -1
        if V2:
            (group("cpu", name) / "cpu.max").write_text(f"{quota if processors else 'max'} 100000")
        else:
            (group("cpu", name) / "cpu.cfs_quota_us").write_text(str(quota))
    if V2:
        (group("io") / "io.max").write_text(f"{where} riops={int(reads or 0) or 'max'} wiops={int(writes or 0) or 'max'}")
    else:
        for kind, value in (("read", reads), ("write", writes)):
            (group("blkio") / f"blkio.throttle.{kind}_iops_device").write_text(f"{where} {int(value or 0)}")


def enter(name, controllers):
    for path in {group(controller, name) for controller in controllers}:
        (path / "cgroup.procs").write_text("0")


# Engines that are ready, and whether on slow disks. All that have data, by both.
STARTED, MADE = {}, set()


def home(engine):
    return DISKS["data"].place if STARTED[engine] else WORK


def start(engine, slow=False):
    """Starts an engine's server in the control groups, on data that it makes."""
    if STARTED.get(engine) is slow:
        return
    if engine in SERVERS:
        stop(engine)
    if slow and not DISKS:
        DISKS.update(data=SlowDisk(WORK / "slow", 4096), log=SlowDisk(WORK / "slow-log", 4096))
    STARTED[engine] = slow
    is_new = (engine, slow) not in MADE
    MADE.add((engine, slow))
    schemas = FILES_MAX if slow and engine == "sqlite" else 1
    args = ["--scale", "1G" if engine == "postgres" else "128M", "-s", schemas, *url(engine)]
    if engine in PORTS:
        data, logs = home(engine) / engine, (DISKS["log"].place if slow else WORK) / f"{engine}-log"
        owner = "postgres" if engine == "postgres" else "mysql"
        os.chmod(WORK, 0o755)
        for folder in (data, logs) if is_new else ():
            folder.mkdir()
            shutil.chown(folder, owner, owner)
        if engine == "postgres":
            binaries = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
            if is_new:
                command("su", owner, "-c", f"{binaries}/initdb -D {data} -X {logs} -A trust -U root")
            server = [f"{binaries}/postgres", "-D", data, "-p", PORTS[engine], "-k", data, "-c", "shared_buffers=16MB", "-c", "max_wal_size=2GB", "-c", "checkpoint_timeout=1h"]
            memory = group("memory") / ("memory.high" if V2 else "memory.limit_in_bytes")
            memory.write_text(str(MEMORY))
        else:
            if is_new:
                command("mariadb-install-db", "--no-defaults", f"--datadir={data}", f"--innodb-log-group-home-dir={logs}", f"--user={owner}", "--auth-root-authentication-method=normal")
            server = ["mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={data}/s", f"--port={PORTS[engine]}", f"--innodb-log-group-home-dir={logs}", "--innodb-buffer-pool-size=16M", "--innodb-flush-method=O_DIRECT"]
            if slow:
                # A file in memory is no device whose time the kernel counts: the server times its reads.
                # Free pages would else be most of so small a pool.
                server += ["--performance-schema=ON", "--innodb-lru-scan-depth=100"]
        controllers = ["cpu", "io" if V2 else "blkio"] + (["memory"] if engine == "postgres" else [])
        limit(1.6)
        log = open(WORK / f"{engine}.log", "w")
        # Root enters the control groups, and the server's own user begins in them.
        server = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", *map(str, server)]
        SERVERS[engine] = subprocess.Popen(server, stdout=log, stderr=log, preexec_fn=lambda: enter(DATABASE, controllers))
        for _ in range(300):
            if ready(engine):
                break
            time.sleep(0.2)
        else:
            sys.exit(f"{engine} does not start: {(WORK / f'{engine}.log').read_text()[-2000:]}")
    if is_new:
        command(PETAL, "setup", *args, cwd=home(engine))


def ready(engine):
    probe = ["psql", "-h", "127.0.0.1", "-p", str(PORTS[engine]), "-U", "root", "postgres", "-c", "SELECT 1"]
    if engine == "mariadb":
        probe = ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", str(PORTS[engine]), "-u", "root", "-e", "CREATE DATABASE IF NOT EXISTS petal"]
    return subprocess.run(probe, capture_output=True).returncode == 0


def url(engine, relayed=False):
    port = (RELAYS if relayed else PORTS).get(engine)
    return {
        "sqlite": [], "device": ["--db", f"device:{home(engine)}/petal.dat"],
        "postgres": ["--db", f"postgres://root@127.0.0.1:{port}/postgres"],
        "mariadb": ["--db", f"mariadb://root@127.0.0.1:{port}/petal"],
    }[engine]


class Relay:
    """A way to a server that holds each byte for some milliseconds, half of them each way."""

    def __init__(self, engine):
        self.ms, self.engine = 0.0, engine
        threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True).start()

    async def serve(self):
        async with await asyncio.start_server(self.join, "127.0.0.1", RELAYS[self.engine]) as server:
            await server.serve_forever()

    async def join(self, reader, writer):
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", PORTS[self.engine])
        await asyncio.gather(self.pump(reader, other_writer), self.pump(other_reader, writer))

    async def pump(self, reader, writer):
        loop, held = asyncio.get_running_loop(), collections.deque()

        def release():
            data = held.popleft()
            writer.write(data) if data else writer.close()

        while True:
            data = await reader.read(65536)
            held.append(data)
            loop.call_later(self.ms / 2000, release)
            if not data:
                return


class Holder:
    """A program that locks the hot spot's rows again and again."""

    PAUSE_MS, BLOCK = 5.0, {"postgres": 8192, "mariadb": 16384}

    def __init__(self, engine, ms):
        # The first MiB of the default hot spot. By the index, as petal: else they deadlock.
        self.ask = None
        first, rows = (16 << 20) // self.BLOCK[engine], (1 << 20) // self.BLOCK[engine]
        rows = f"WHERE custid BETWEEN {first + 1} AND {first + rows} FOR UPDATE"
        locked, pause = ms / 1e3, self.PAUSE_MS / 1e3
        if engine == "postgres":
            text = f"DO $$ BEGIN LOOP PERFORM 1 FROM petal1.cf1 {rows}; PERFORM pg_sleep({locked}); COMMIT; PERFORM pg_sleep({pause}); END LOOP; END $$"
            client = ["psql", "-h", "127.0.0.1", "-p", PORTS[engine], "-U", "root", "postgres", "-c", "SET enable_bitmapscan = off", "-c", text]
        else:
            text = (
                f"BEGIN NOT ATOMIC WHILE TRUE DO START TRANSACTION; SELECT COUNT(c2) INTO @n FROM petal1_cf1 FORCE INDEX (petal_custid) {rows}; "
                f"DO SLEEP({locked}); COMMIT; DO SLEEP({pause}); END WHILE; END"
            )
            client = ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", PORTS[engine], "-u", "root", "petal"]
            self.ask, client = [str(word) for word in client], [*client, "--delimiter=//", "-e", text]
        self.client = subprocess.Popen([str(word) for word in client], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self):
        early = self.client.poll()
        # psql cancels its statement at the server; MariaDB's client leaves it in its loop.
        self.client.send_signal(signal.SIGINT)
        if self.ask:
            # petal's own sessions have ended.
            others = "information_schema.processlist WHERE db = 'petal' AND id <> CONNECTION_ID()"
            found = command(*self.ask, "-N", "-e", f"SELECT CONCAT('KILL ', id, ';') FROM {others}")
            subprocess.run([*self.ask, "-e", found], capture_output=True)
        said = self.client.communicate()[0]
        if early is not None:
            # Shown, and the others go on: this situation's figures are without its locks.
            print(f"INVALID, the holder of locks ended early: {said}", flush=True)


def petal(engine, sessions, more, capacity):
    limit(capacity.get("cpu"), capacity.get("reads"), capacity.get("writes"), capacity.get("own"))
    files = round(capacity.get("locks", 1)) if engine == "sqlite" else 1
    args = [PETAL, "run", "-s", str(files), "-t", str(sessions // files), *more.split(), "--json", "--out", str(WORK / "out")]
    args += url(engine, "way" in capacity)
    if "cache" in capacity:
        args += cached(engine, capacity["cache"])
    if "rate" in capacity:
        args += ["--rate", f"{capacity['rate']:g}", "--arrivals", "even"]
    if "think" in capacity:
        s = f"{capacity['think'] / 1e3:g}"
        args += ["--think-tm-frequency", "1", "--think-tm-min", s, "--think-tm-max", s]
    if "locks" in capacity and engine in PORTS:
        args += ["--hotspot-mb", f"{capacity['locks']:g}"]
    if DISKS:
        # A log that shares the disk of the data makes this one's syncs slow.
        log = DISKS["log" if engine in PORTS else "data"]
        DISKS["data"].read_ms, log.sync_ms = capacity.get("device", 0.0), capacity.get("log", 0.0)
    name, controllers = (CLIENT, ["cpu"]) if engine in PORTS else (DATABASE, ["cpu", "io" if V2 else "blkio"])
    done = subprocess.run(args, cwd=home(engine), preexec_fn=lambda: enter(name, controllers), capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        log = WORK / f"{engine}.log"
        sys.exit(f"{' '.join(args)}\n{done.stdout}{done.stderr}{log.read_text()[-2000:] if log.exists() else ''}")
    return json.loads(done.stdout)


def cached(engine, mb):
    """Gives the database a cache of so many MB; returns more arguments of the run."""
    if engine == "sqlite":
        return ["--db", f"sqlite:{home(engine)}/petal-data?cache={mb:g}M"]
    client = ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", PORTS[engine], "-u", "root", "-N", "-e"]
    # Free pages would else be most of so small a pool.
    command(*client, f"SET GLOBAL innodb_lru_scan_depth = 100; SET GLOBAL innodb_buffer_pool_size = {int(mb * (1 << 20))}")
    while command(*client, "SELECT @@innodb_buffer_pool_size").strip() != str(int(mb * (1 << 20))):
        time.sleep(0.1)
    return []


def median(values):
    return sorted(values)[(len(values) - 1) // 2]


def compare(engine, matrix):
    relay = engine in PORTS and Relay(engine)
    chosen = [it for it in situations() if it[0] == engine and any(part in it[1] for part in NAMED)]
    # Those on slow disks last.
    for _, name, sessions, more, capacity in sorted(chosen, key=lambda it: bool(SLOW & set(it[-1]))):
        start(engine, bool(SLOW & set(capacity)))
        if engine == "mariadb" and "locks" in capacity:
            # The undo of so many changes would push hot rows out of the usual cache: more of them
            # would be slower for their reads.
            cached(engine, 64)
        rates, base = {}, []

        def measure(at):
            if relay:
                relay.ms = at.get("way", 0.0)
            holder = "held" in at and Holder(engine, at["held"])
            shown = petal(engine, sessions, f"--run-time {SECONDS} {more}", at)
            if holder:
                holder.end()
            return shown["per_second"]["ops"], shown["limited_by"]

        for _ in range(ROUNDS):
            base.append(measure(capacity))
            for key in capacity:
                for factor in (1 - STEP, 1 + STEP):
                    by = 1 / factor if key in TIMES else factor
                    rates.setdefault((key, factor), []).append(measure({**capacity, key: capacity[key] * by})[0])
        if engine == "mariadb" and "locks" in capacity:
            cached(engine, 16)
        span = math.log((1 + STEP) / (1 - STEP))
        elastic = {key: math.log(median(rates[key, 1 + STEP]) / median(rates[key, 1 - STEP])) / span for key in capacity}
        by, words = median([(it["by"], it["words"]) for _, it in base])
        most = max(elastic, key=elastic.get)
        truth = {key for key in elastic if elastic[key] >= elastic[most] - 0.1} if elastic[most] >= LEAST else {"none"}
        said = SAID.get(by, {"none"})
        ok = bool(said & truth)
        true = WORDS.get(most, most) if elastic[most] >= LEAST else "none"
        matrix.append((true, by, ok))
        cells = [f"{elastic[key]:.2f}" if key in elastic else "-" for key in WORDS]
        updates = more.split("--update-pct ")[1].split()[0]
        print(f"| {engine} | {name} | {sessions} | {updates} | {' | '.join(cells)} | {words.split(' on ')[0]} | {'yes' if ok else 'NO'} |", flush=True)


def experiments():
    names = ["processors", "reads", "read_latency", "commits", "sessions"]
    print("\n| situation | " + " | ".join(name.replace("_", " ") for name in names) + " | petal says | right |")
    print("|---" * (len(names) + 3) + "|")
    for name, sessions, more, capacity, truth in EXPERIMENTS:
        shown = petal("sqlite", sessions, f"{more} --elasticity --run-time {EXPERIMENT_SECONDS}", capacity)
        found = {it["of"]: it for it in shown["elasticity"] if it["elasticity"] is not None}
        times = {of: found[of]["elasticity"] for of in ("processors", "reads", "commits") if of in found}
        least = min(times, key=times.get)
        ok = truth == (least if times[least] <= -LEAST else "none")
        cell = lambda it: "-" if it is None else "{:.2f} ({:.2f} to {:.2f})".format(it["elasticity"], *it["interval"])
        cells = " | ".join(cell(found.get(of)) for of in names)
        print(f"| {name} | {cells} | {shown['limited_by']['words'].split(' on ')[0]} | {'yes' if ok else 'NO'} |", flush=True)


def demos():
    names = ["processors", "reads", "read_latency", "commits", "sessions"]
    print("\n| demo | sessions | " + " | ".join(name.replace("_", " ") for name in names) + " | limited by | right |")
    print("|---" * (len(names) + 4) + "|")
    for name, capacity, busy, truth in DEMOS:
        limit(**capacity)
        work = pathlib.Path(tempfile.mkdtemp(dir=WORK))
        loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(busy)]
        try:
            command(PETAL, "demo", "--seconds", 1, cwd=work, preexec_fn=lambda: enter(DATABASE, ["cpu", "io" if V2 else "blkio"]))
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        shown = json.loads(next(work.glob("petal-results/*/peak-run/run.json")).read_text())
        found = {it["of"]: it for it in shown["elasticity"] if it["elasticity"] is not None}
        said = {**SAID, "others_work": {"cpu"}}.get(shown["limited_by"]["by"], {"none"})
        cell = lambda it: "-" if it is None else "{:.2f} ({:.2f} to {:.2f})".format(it["elasticity"], *it["interval"])
        cells = " | ".join(cell(found.get(of)) for of in names)
        print(f"| {name} | {shown['sessions']} | {cells} | {shown['limited_by']['words']} | {'-' if truth is None else 'yes' if truth in said else 'NO'} |", flush=True)


def whatif():
    print("\n| engine | capacity | sessions | change | before | predicted | measured | error % | limited by | within 15 % |")
    print("|---" * 10 + "|")
    errors = []
    chosen = [it for it in WHATIFS if any(part in it[4] for part in NAMED)]
    # By engine, and those on slow disks last.
    place = lambda it: (PARTS.index(it[0]), bool(SLOW & set(it[3])))
    for engine, sessions, more, capacity, option, value in sorted(chosen, key=place):
        start(engine, bool(SLOW & set(capacity)))
        errors.append(predicted_and_measured(engine, sessions, more, capacity, option, value))
    known = sorted(error for error in errors if error is not None)
    print(f"\n{sum(error <= 0.15 for error in known)} of {len(known)} predictions are within 15 %, {len(errors) - len(known)} were refused.")


def predicted_and_measured(engine, sessions, more, capacity, option, value):
    """Predicts a change from a run before it, then makes and measures it; returns the error."""
    seconds = f"--run-time {SECONDS} "
    before = petal(engine, sessions, seconds + more, capacity)["per_second"]["ops"]
    folder = max((WORK / "out").glob("*/run.json"), key=lambda path: path.stat().st_mtime).parent
    change = f"{value}x" if option in CHANGES else str(value)
    found = json.loads(command(PETAL, "predict", folder, f"--{option}", change, "--json"))[0]
    changed = {key: of * value if key in CHANGES.get(option, []) else of for key, of in capacity.items()}
    if option == "update-pct":
        more = more.split("--update-pct")[0] + f"--update-pct {value}"
    after = petal(engine, value if option == "sessions" else sessions, seconds + more, changed)["per_second"]["ops"]
    error = found["ops"] and found["ops"] / after - 1
    words = {**WORDS, "cache": "MB of cache"}
    shown = " ".join(f"{words[key]} {of:g}" for key, of in capacity.items() if of)
    predicted = f"{found['ops']:.1f}" if found["ops"] else "; ".join(found["refused"])
    cells = [engine, f"{shown}, {more.split('--update-pct ')[1]} % UPDATEs", sessions, f"{option} {change}", f"{before:.1f}", predicted, f"{after:.1f}"]
    cells += [f"{error * 100:+.1f}" if error is not None else "-", found["limited_by"] or "-", "-" if error is None else "yes" if abs(error) <= 0.15 else "NO"]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return error and abs(error)


def confusion(matrix):
    said = sorted({by for _, by, _ in matrix})
    print("\n| truth | " + " | ".join(by.replace("_", " ") for by in said) + " |")
    print("|---" * (len(said) + 1) + "|")
    for true in [*WORDS.values(), "none"]:
        row = [by for t, by, _ in matrix if t == true]
        if row:
            print(f"| {true} | " + " | ".join(str(row.count(by)) if by in row else "" for by in said) + " |")
    print(f"\n{sum(ok for *_, ok in matrix)} of {len(matrix)} verdicts name the resource of the largest elasticity, or one within 0.1 of it.")


def main():
    matrix = []
    if ONLY == ["whatif"]:
        return whatif()
    print("| engine | situation | sessions | UPDATE_PCT | " + " | ".join(WORDS.values()) + " | petal says | right |")
    print("|---" * (len(WORDS) + 6) + "|")
    for engine in PARTS[:4]:
        if engine in ONLY:
            compare(engine, matrix)
    confusion(matrix)
    if "experiments" in ONLY:
        start("sqlite")
        experiments()
    if "demo" in ONLY:
        demos()
    if "whatif" in ONLY:
        whatif()


main()
