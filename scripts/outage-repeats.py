#!/usr/bin/env python3
"""Repeats outages of private servers, and compares petal with a probe and with the servers' commits.

    python3 scripts/outage-repeats.py REPEATS [KIND...]    all kinds, or these
    python3 scripts/outage-repeats.py table                writes the table of docs/recipes/outage.md

It needs PostgreSQL and MariaDB with Galera; for network cuts root. PETAL names the program (target/debug/petal),
PETAL_TEST_POSTGRES and PETAL_TEST_MYSQL other servers. A repeat takes about ten seconds.

The probe is the server's own client program. It writes every 5 ms, connects again at once, and notes
its longest time without a success. A trigger (PostgreSQL) or the binary log (MariaDB, MySQL) lists the commits.
Results are lines of target/outages/results; a failed repeat is a line, too.
"""

import collections
import glob
import json
import os
import pathlib
import pwd
import random
import re
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PETAL = os.environ.get("PETAL", str(ROOT / "target/debug/petal"))
RESULTS = pathlib.Path(os.environ.get("RESULTS", ROOT / "target/outages/results"))
PAGE = ROOT / "docs/recipes/outage.md"
LIMIT_S = 120
PROBE_LIMIT_S = 0.5

KINDS = {
    "kill": "kill -9, started again after 0.5 s",
    "stop": "stopped cleanly, started again after 1 s",
    "restart": "restarted",
    "network": "no network for 2 s",
    "promotion": "killed; asynchronous standby promoted",
    "synchronous": "killed; synchronous standby promoted",
    "galera": "kill -9 of the node with the sessions",
    "group": "kill -9 of the primary",
}


def until(what, done):
    began = time.monotonic()
    while not (answer := done()):
        if time.monotonic() - began > LIMIT_S:
            raise RuntimeError(f"{what}: not within {LIMIT_S} s")
        time.sleep(0.05)
    return answer


def run(*command, **options):
    """The output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def free_port():
    """A port below those of outgoing connections, one of which might take it before its server starts."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as it:
            try:
                it.bind(("", port))
            except OSError:
                continue
            return port


def newest(pattern):
    found = sorted(glob.glob(pattern), key=lambda path: [int(n) for n in re.findall(r"\d+", path)])
    return found[-1] if found else None


def ordinary(user):
    """A prefix that runs a command as this user. The command ends with this script."""
    ends = ["setpriv", "--pdeathsig", "KILL"]
    if os.geteuid() != 0:
        return ends
    ids = pwd.getpwnam(user)
    return [*ends, f"--reuid={ids.pw_uid}", f"--regid={ids.pw_gid}", "--clear-groups"]


class Unavailable(Exception):
    """This host cannot have such an outage."""


class Network:
    """A namespace, joined to the host by a virtual cable."""

    def __init__(self):
        number = os.getpid()
        self.name = f"pt{number}"
        net = f"10.{150 + number // 256 % 100}.{number % 256}"
        self.server = f"{net}.1"
        for step in [
            f"netns add {self.name}",
            f"link add {self.name}h type veth peer name {self.name}f netns {self.name}",
            f"addr add {net}.1/30 dev {self.name}h",
            f"link set {self.name}h up",
            f"-n {self.name} addr add {net}.2/30 dev {self.name}f",
        ]:
            try:
                run("ip", *step.split())
            except (OSError, RuntimeError) as why:
                self.end()
                raise Unavailable(f"a namespace of the network cannot be made here: {why}") from why
        self.set("up")
        self.entry = ["nsenter", f"--net=/run/netns/{self.name}"]

    def set(self, state):
        run("ip", "-n", self.name, "link", "set", f"{self.name}f", state)

    def end(self):
        subprocess.run(["ip", "netns", "del", self.name], check=False)


class Server:
    """A server in a folder of its own, with a copy of other data if there are any."""

    def __init__(self, user, source=None):
        self.user, self.port, self.process = user, free_port(), None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="petal-outage-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(self.folder, user, user)
        if source:
            run("cp", "-a", source, self.folder / "data")

    def start(self):
        log = open(self.folder / "log", "ab")
        command = [*ordinary(self.user), *self.command()]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/")
        until(f"{self.folder}/log: the server's answer", self.answers)

    def signal_and_wait(self, number):
        self.process.send_signal(number)
        self.process.wait()

    def kill(self):
        """kill -9 of all its processes."""
        me = self.process.pid
        children = open(f"/proc/{me}/task/{me}/children").read().split()
        self.signal_and_wait(9)
        for child in children:
            try:
                os.kill(int(child), 9)
            except ProcessLookupError:
                pass
        gone = lambda child: not os.path.exists(f"/proc/{child}/stat") or ") Z" in open(f"/proc/{child}/stat").read()
        until("the end of its processes", lambda: all(map(gone, children)))

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Postgres(Server):
    programs = os.environ.get("PETAL_TEST_POSTGRES") or newest("/usr/lib/postgresql/*/bin")
    stop_signal = 2

    def __init__(self, source=None, primary=None):
        super().__init__("postgres", source)
        data = self.folder / "data"
        if not source:
            programs = [*ordinary(self.user), f"{self.programs}/initdb"]
            run(*programs, "-A", "trust", "-U", "petal", "-N", "-D", data, cwd="/")
            with open(data / "pg_hba.conf", "a") as rules:
                rules.write("host all all all trust\nhost replication all all trust\n")
        if primary:
            # Both begin with the same data, at the same place of the log.
            (data / "standby.signal").touch()
            with open(data / "postgresql.auto.conf", "a") as settings:
                settings.write(f"primary_conninfo = 'host=127.0.0.1 port={primary.port} user=petal'\n")
        self.start()

    def command(self):
        settings = ["listen_addresses=*", "shared_buffers=32MB", "max_wal_size=1GB"]
        return [f"{self.programs}/postgres", "-D", self.folder / "data", "-k", self.folder, "-p", str(self.port),
                *[word for setting in settings for word in ("-c", setting)]]

    def client(self, parameters):
        return [f"{self.programs}/psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", parameters]

    def sql(self, text, database="postgres"):
        return run(*self.client(f"host={self.folder} port={self.port} user=petal dbname={database}"), input=text).strip()

    def answers(self):
        try:
            return self.sql("SELECT 1") == "1"
        except RuntimeError:
            return False


class PostgresScene:
    """A server, or a primary and its standby."""

    write = "INSERT INTO public.probe VALUES (1) RETURNING 1;"

    @staticmethod
    def template():
        server = Postgres()
        server.sql("CREATE DATABASE down")
        load(f"postgres://petal@127.0.0.1:{server.port}/down")
        server.sql(
            "CREATE TABLE public.probe (n int); CREATE TABLE public.commits (stamp text);"
            "CREATE FUNCTION public.list() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN INSERT INTO public.commits VALUES (left(NEW.c2, 13)); RETURN NULL; END';"
            "CREATE TRIGGER list AFTER UPDATE ON petal1.cf1 FOR EACH ROW EXECUTE FUNCTION public.list();", "down")
        return server

    def __init__(self, cause, network):
        self.host = network.server if network else "127.0.0.1"
        source = template(self)
        primary = Postgres(source)
        self.servers = [primary]
        self.name = "PostgreSQL " + primary.sql("SHOW server_version").split(".")[0]
        if cause in ("promotion", "synchronous"):
            self.servers.append(Postgres(source, primary))
            until("a standby", lambda: primary.sql("SELECT count(*) FROM pg_stat_replication") == "1")
        if cause == "synchronous":
            primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.sql("SELECT pg_reload_conf()")
            until("a synchronous standby",
                  lambda: primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1")

    def url(self):
        return "postgres://petal@{}/down".format(",".join(f"{self.host}:{it.port}" for it in self.servers))

    def client(self, _attempt):
        hosts, ports = [",".join(words) for words in zip(*[(self.host, str(it.port)) for it in self.servers])]
        return self.servers[0].client(
            f"host={hosts} port={ports} user=petal dbname=down target_session_attrs=read-write connect_timeout=2")

    def cut_replication(self):
        self.servers[1].sql("ALTER SYSTEM SET primary_conninfo = ''")
        self.servers[1].sql("SELECT pg_reload_conf()")

    def promote(self):
        self.servers[1].sql("SELECT pg_promote()")

    def is_ready_again(self):
        return len(self.servers) == 1

    def commits(self):
        return {int(text, 36) for text in self.servers[-1].sql("SELECT stamp FROM public.commits", "down").split()}


class Mysql(Server):
    programs = os.environ.get("PETAL_TEST_MYSQL")
    stop_signal = 15

    @classmethod
    def program(cls, *names):
        found = (shutil.which(name, path=cls.programs or "/usr/sbin:/usr/bin") for name in names)
        return next(filter(None, found), None)

    def __init__(self, settings, source=None):
        super().__init__("mysql", source)
        self.settings = settings
        data, own = f"--datadir={self.folder}/data", f"--tmpdir={self.folder}"
        install = self.program("mariadb-install-db")
        if install:
            made = [install, "--no-defaults", data, own, "--auth-root-authentication-method=normal", "--skip-test-db"]
        else:
            made = [self.program("mysqld"), "--no-defaults", data, own, "--initialize-insecure"]
        if not source:
            run(*ordinary(self.user), *made, cwd="/")
        self.start()

    def command(self):
        fixed = ["bind-address=*", "innodb-buffer-pool-size=64M", "innodb-log-file-size=128M", "skip-name-resolve=ON",
                 "log-bin=commits", "log-slave-updates=ON", "binlog-format=ROW", "binlog-row-image=MINIMAL",
                 f"datadir={self.folder}/data", f"socket={self.folder}/s.sock", f"pid-file={self.folder}/pid",
                 f"tmpdir={self.folder}", f"port={self.port}", *self.settings]
        return [self.program("mariadbd", "mysqld"), "--no-defaults", *[f"--{setting}" for setting in fixed]]

    def client(self, *where):
        return [self.program("mariadb", "mysql"), "--no-defaults", "-n", "-N", "-B", *where]

    def sql(self, text):
        return run(*self.client("-uroot", f"-S{self.folder}/s.sock"), input=text).strip()

    def answers(self):
        try:
            return self.sql("SELECT 1") == "1"
        except RuntimeError:
            return False

    def status(self, name):
        return self.sql(f"SHOW STATUS LIKE '{name}'").split("\t")[-1]


GALERA = "/usr/lib/galera/libgalera_smm.so"
# So long may a live node say nothing; on a busy host that is longer.
SUSPECT_S = os.environ.get("SUSPECT_S", "3")


def galera(number, first):
    # The first node keeps the quorum if a busy host keeps the other survivor silent.
    group, transfer, snapshot = (first if number == 0 else free_port()), free_port(), free_port()
    address = "gcomm://" if number == 0 else f"gcomm://127.0.0.1:{first}"
    return Mysql([
        "innodb-autoinc-lock-mode=2", "wsrep-on=ON", f"wsrep-provider={GALERA}", f"wsrep-cluster-name=petal{first}",
        f"wsrep-node-name=node{number}", f"wsrep-node-address=127.0.0.1:{group}",
        f"wsrep-provider-options=base_port={group};gmcast.listen_addr=tcp://127.0.0.1:{group};"
        f"ist.recv_addr=127.0.0.1:{transfer};evs.suspect_timeout=PT{SUSPECT_S}S;pc.weight={3 if number == 0 else 1}",
        "wsrep-sst-method=rsync", f"wsrep-sst-receive-address=127.0.0.1:{snapshot}",
        f"wsrep-cluster-address={address}", *(["wsrep-new-cluster"] if number == 0 else [])])


def group_member(number, ports):
    """A member of a MySQL group with one primary."""
    seeds = ",".join(f"127.0.0.1:{port}" for port in ports)
    member = Mysql([
        f"plugin-dir={Mysql.programs}/../lib/plugin", "plugin-load-add=group_replication.so", "mysqlx=OFF",
        f"server-id={number + 1}", "gtid-mode=ON", "enforce-gtid-consistency=ON", "report-host=127.0.0.1",
        "loose-group-replication-group-name=0f5b6c1e-9f4e-4c8e-9a51-2d1f7a3b9c01",
        f"loose-group-replication-local-address=127.0.0.1:{ports[number]}",
        f"loose-group-replication-group-seeds={seeds}", "loose-group-replication-start-on-boot=OFF",
        "loose-group-replication-recovery-get-public-key=ON", "loose-group-replication-member-expel-timeout=0"])
    bootstrap = "SET GLOBAL group_replication_bootstrap_group = {};" if number == 0 else ""
    member.sql("SET sql_log_bin = 0; CREATE USER petal@'%'; GRANT ALL ON *.* TO petal@'%'; SET sql_log_bin = 1;"
               "RESET MASTER; CHANGE REPLICATION SOURCE TO SOURCE_USER = 'petal' FOR CHANNEL 'group_replication_recovery';"
               + bootstrap.format("ON") + "START GROUP_REPLICATION;" + bootstrap.format("OFF"))
    return member


class MysqlScene:
    """A server, a primary and its standby, or a cluster. The first server has the sessions."""

    write = "INSERT INTO probe (m) VALUES (1); SELECT 1;"

    def __init__(self, cause, network):
        self.host, self.cause = network.server if network else "127.0.0.1", cause
        if cause == "galera":
            first = free_port()
            # The node that made the cluster outlives it.
            self.servers = [galera(number, first) for number in range(3)][::-1]
        elif cause == "group":
            ports = [free_port() for _ in range(3)]
            self.servers = [group_member(number, ports) for number in range(3)]
            online = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'"
            until("a complete group", lambda: all(it.sql(online) == "3" for it in self.servers))
        elif cause == "synchronous":
            self.servers = [Mysql(["server-id=1", "rpl-semi-sync-master-timeout=60000",
                                   "rpl-semi-sync-master-wait-point=AFTER_SYNC"], template(self))]
        else:
            self.servers = [Mysql(["server-id=1"], template(self))]
        primary = self.servers[0]
        version = primary.sql("SELECT VERSION()")
        self.name = ("MariaDB " if "MariaDB" in version else "MySQL ") + ".".join(version.split(".")[:2])
        if cause in ("galera", "group"):
            self.fill(primary)
        if cause in ("promotion", "synchronous"):
            self.add_standby(primary)

    @classmethod
    def template(cls):
        server = Mysql(["server-id=1"])
        cls.fill(server)
        server.sql("RESET MASTER")
        return server

    @staticmethod
    def fill(server):
        server.sql("CREATE DATABASE down; CREATE DATABASE probe;"
                   "CREATE TABLE probe.probe (n int PRIMARY KEY AUTO_INCREMENT, m int);"
                   "CREATE USER IF NOT EXISTS petal@'%'; GRANT ALL ON *.* TO petal@'%';"
                   "CREATE USER probe@'%'; GRANT ALL ON probe.* TO probe@'%'")
        load(f"mysql://petal@127.0.0.1:{server.port}/down?ssl_mode=DISABLED")

    def add_standby(self, primary):
        standby = Mysql(["server-id=2", "read-only=ON"], template(self))
        if self.cause == "synchronous":
            standby.sql("SET GLOBAL rpl_semi_sync_slave_enabled = ON")
        standby.sql(f"CHANGE MASTER TO master_host='127.0.0.1', master_port={primary.port}, master_user='petal',"
                    "master_use_gtid=slave_pos; START SLAVE")
        position = "SELECT @@gtid_current_pos"
        until("a standby with all data", lambda: standby.sql(position) == primary.sql(position))
        if self.cause == "synchronous":
            primary.sql("SET GLOBAL rpl_semi_sync_master_enabled = ON")
            until("a synchronous standby", lambda: primary.status("Rpl_semi_sync_master_clients") == "1")
        self.servers.append(standby)

    def url(self):
        return "mysql://petal@{}/down?ssl_mode=DISABLED".format(",".join(f"{self.host}:{it.port}" for it in self.servers))

    def client(self, attempt):
        server = self.servers[attempt % len(self.servers)]
        return server.client("-uprobe", f"-h{self.host}", f"-P{server.port}", "--connect-timeout=1", "probe")

    def cut_replication(self):
        self.servers[1].sql("STOP SLAVE IO_THREAD")

    def promote(self):
        standby = self.servers[1]
        standby.sql("STOP SLAVE IO_THREAD")
        until("all that it received", lambda: "has read all relay log" in standby.sql("SHOW PROCESSLIST"))
        standby.sql("STOP SLAVE; SET GLOBAL read_only = OFF")

    def is_ready_again(self):
        if self.cause == "galera":
            self.servers[0].start()
            until("a node in its cluster", lambda: self.servers[0].status("wsrep_local_state_comment") == "Synced")
        return self.cause not in ("promotion", "synchronous", "group")

    def commits(self):
        server = self.servers[-1]
        logs = sorted(glob.glob(f"{server.folder}/data/commits.[0-9]*"))
        reader = Mysql.program("mariadb-binlog", "mysqlbinlog")
        found, is_new = set(), False
        # A log that is being written has no end yet.
        lines = subprocess.run([reader, "--no-defaults", "-v", "--base64-output=decode-rows", *logs], capture_output=True)
        for line in lines.stdout.decode(errors="replace").splitlines():
            if line in ("### SET", "### WHERE") or line.startswith("### INSERT"):
                is_new = line == "### SET"
            elif is_new and (text := re.match(r"###   @\d+='([0-9a-z]{13})", line)):
                found.add(int(text[1], 36))
        return found


TEMPLATES = {}


def template(scene):
    """Data of a stopped server with petal's rows."""
    if type(scene) not in TEMPLATES:
        server = scene.template()
        TEMPLATES[type(scene)] = server
        server.signal_and_wait(server.stop_signal)
    return TEMPLATES[type(scene)].folder / "data"


def load(url):
    with tempfile.TemporaryDirectory() as folder:
        run(PETAL, "setup", "-s", "1", "--scale", "4096", "--scan-table-sz", "0", "--db", url, cwd=folder)


class Probe(threading.Thread):
    """Writes until it is stopped, and keeps its longest time without a success."""

    def __init__(self, scene, entry):
        super().__init__(daemon=True)
        self.scene, self.entry = scene, entry
        self.is_over, self.has_begun, self.longest_s = threading.Event(), threading.Event(), 0.0

    def run(self):
        client, attempt, last = None, 0, None
        while not self.is_over.is_set():
            if client is None:
                command = [*self.entry, *self.scene.client(attempt)]
                attempt += 1
                client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, bufsize=0)
            if self.writes(client):
                now = time.monotonic()
                if last is not None:
                    self.longest_s = max(self.longest_s, now - last)
                last = now
                self.has_begun.set()
                time.sleep(0.005)
            else:
                client.kill()
                client.wait()
                client = None
        if client:
            client.kill()
            client.wait()

    def writes(self, client):
        try:
            client.stdin.write(self.scene.write.encode() + b"\n")
        except BrokenPipeError:
            return False
        answered, _, _ = select.select([client.stdout], [], [], PROBE_LIMIT_S)
        return bool(answered) and os.read(client.stdout.fileno(), 100) != b""


def acknowledged(path):
    """Stamps of the commits in a ledger, read by its documented format."""
    data = path.read_bytes()
    mark, length, checksum = struct.unpack_from("<8sII", data)
    header = data[16:16 + length]
    assert mark == b"PETALLDG" and zlib.crc32(header) == checksum, f"{path}: no ledger"
    mask, at, stamps = json.loads(header)["stamp_mask"], 16 + length, []
    while at + 48 <= len(data):
        frame, session, _, records = struct.unpack_from("<IIQI", data, at)
        if frame != struct.unpack("<I", b"PLFR")[0]:
            break
        at += 48
        for record in range(records):
            sequence = struct.unpack_from("<Q", data, at + 36 * record)[0]
            stamps.append((session << 40 | sequence) ^ mask)
        at += 36 * records
    return stamps


def let_happen(cause, scene, network):
    server = scene.servers[0]
    if cause in ("stop", "restart"):
        server.signal_and_wait(server.stop_signal)
    elif cause == "network":
        network.set("down")
    else:
        if cause == "promotion":
            scene.cut_replication()
            time.sleep(0.3)
        server.kill()
    if cause in ("promotion", "synchronous"):
        scene.promote()
    elif cause == "network":
        time.sleep(2)
        network.set("up")
    elif cause not in ("galera", "group"):
        time.sleep({"kill": 0.5, "stop": 1.0, "restart": 0.0}[cause])
        server.start()


Outage = collections.namedtuple("Outage", "target cause petal_s probe_s lost possibly_lost counted")


def repeat(cause, scene, network):
    entry = network.entry if network else []
    with tempfile.TemporaryDirectory(prefix="petal-outage-run-") as folder:
        ledger = pathlib.Path(folder) / "kept.ledger"
        # The run ends with its operations, however long the outage is.
        command = [*entry, PETAL, "run", "--db", scene.url(), "-s", "1", "-t", "4", "--work-loop", "420", "--rate", "400",
                   "--arrivals", "even", "--update-pct", "50", "--work-unit", "1", "--on-disconnect", "retry",
                   "--ledger", ledger, "--answer-within", "1"]
        output = open(f"{folder}/output", "wb")
        environment = {**os.environ, "NO_OS_PERF_DATA": "TRUE"}
        petal = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, env=environment)
        probe = Probe(scene, entry)
        probe.start()
        try:
            until("some commits", lambda: petal.poll() is not None or (ledger.exists() and ledger.stat().st_size > 8000))
            assert probe.has_begun.wait(10), "the probe cannot write"
            # So long has the rate been known.
            time.sleep(1.1)
            let_happen(cause, scene, network)
            code = petal.wait(LIMIT_S)
        finally:
            petal.kill()
            probe.is_over.set()
            probe.join()
        text = pathlib.Path(f"{folder}/output").read_text(errors="replace")
        assert code == 0, f"petal: exit code {code}\n{text[-2000:]}"
        record = json.loads(next(pathlib.Path(folder).glob("petal-results/*/run.json")).read_text())
        outages = record["outages"]
        assert len(outages) == 1 and outages[0]["not_back"] == 0, json.dumps(outages)[:2000]
        found = record["details"]["verification"]
        stamps = acknowledged(ledger)
        assert found["acknowledged_commits"] == len(stamps) > 100, f"{len(stamps)} commits"
        assert found["bad_rows"] == 0, found["bad"]
        there = scene.commits()
        counted = sum(stamp not in there for stamp in stamps)
        down_s = outages[0]["by_kind"]["update"]["down_s"]
        return Outage(scene.name, cause, down_s, probe.longest_s, found["lost_commits"], found["overwritten_commits"],
                      counted)


def write_down(line):
    print(line, flush=True)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with open(RESULTS, "a") as results:
        results.write(line + "\n")


def repeats(kind, times):
    product, cause = kind.split("-")
    make = PostgresScene if product == "postgres" else MysqlScene
    if product == "postgres" and not (Postgres.programs and os.path.exists(f"{Postgres.programs}/psql")):
        raise Unavailable(f"psql is not in {Postgres.programs}")
    network = Network() if cause == "network" else None
    scene, failures = None, 0
    try:
        for _ in range(times):
            try:
                scene = scene or make(cause, network)
                it = repeat(cause, scene, network)
                write_down(f"{it.target.replace(' ', '_')} {cause} {it.petal_s:.4f} {it.probe_s:.4f} {it.lost} "
                           f"{it.possibly_lost} {it.counted}")
                is_right = it.lost <= it.counted <= it.lost + it.possibly_lost
                failures += not (is_right and (it.counted > 0) == (cause == "promotion"))
                if not scene.is_ready_again():
                    scene = end(scene)
            except Exception as why:
                failures += 1
                traceback.print_exc()
                write_down(f"{kind.split('-')[0]} {cause} failed {str(why).splitlines()[0]}")
                scene = end(scene)
    finally:
        end(scene)
        if network:
            network.end()
    return failures


def end(scene):
    for server in scene.servers if scene else []:
        server.end()


def table():
    """The lines of the table, a row for each kind of outage."""
    groups, failed = collections.defaultdict(list), collections.Counter()
    for line in RESULTS.read_text().splitlines():
        target, cause, petal_s, *rest = line.split()
        if petal_s == "failed":
            failed[(target, cause)] += 1
        else:
            numbers = float(petal_s), float(rest[0]), *map(int, rest[1:])
            groups[(target.replace("_", " "), cause)].append(numbers)
    yield "| server | outage | repeats | length, s | difference from the probe: median, 95 %, greatest, ms | lost by petal | by count |"
    yield "|---|---|---|---|---|---|---|"
    for (target, cause), rows in sorted(groups.items(), key=lambda it: (it[0][0], list(KINDS).index(it[0][1]))):
        apart = sorted(abs(row[0] - row[1]) * 1000 for row in rows)
        length = statistics.median(row[0] for row in rows)
        lost, possibly, counted = (sum(row[at] for row in rows) for at in (2, 3, 4))
        false = sum(max(0, row[2] - row[4]) for row in rows)
        missed = sum(max(0, row[4] - row[2] - row[3]) for row in rows)
        by_petal = f"{lost:,} to {lost + possibly:,}" if possibly else f"{lost:,}"
        by_petal += f" ({missed} missed)" if missed else ""
        by_petal += f" ({false} false)" if false else ""
        yield (f"| {target} | {KINDS[cause]} | {len(rows)} | {length:.2f} | {statistics.median(apart):.0f}, "
               f"{apart[min(len(apart) - 1, int(len(apart) * 0.95))]:.0f}, {apart[-1]:.0f} | {by_petal} | {counted:,} |")
    print(f"failed repeats: {dict(failed)}", file=sys.stderr)


def main(arguments):
    if arguments == ["table"]:
        begin, last = "<!-- Outages: written by a script. -->", "<!-- End of the outages. -->"
        lines = "\n".join(table())
        page = PAGE.read_text()
        head, rest = page.split(begin)
        PAGE.write_text(f"{head}{begin}\n{lines}\n{last}{rest.split(last)[1]}")
        print(lines)
        return 0
    if not arguments or not arguments[0].isdigit():
        print(__doc__)
        return 2
    singles = ["kill", "stop", "restart", "network", "promotion", "synchronous"]
    kinds = arguments[1:] or [f"{product}-{cause}" for product in ("postgres", "mariadb") for cause in singles] + ["mariadb-galera"]
    try:
        return 1 if sum(repeats(kind, int(arguments[0])) for kind in kinds) else 0
    except Unavailable as why:
        print(why, file=sys.stderr)
        return 77
    finally:
        for server in TEMPLATES.values():
            server.end()


# Servers end with the script, however it is stopped.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
sys.exit(main(sys.argv[1:]))
