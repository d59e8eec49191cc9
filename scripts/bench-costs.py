#!/usr/bin/env python3
"""Proves the prices of petal costs on a private server, as root on Linux.

The data are on a block device in memory (zram), whose reads a control group limits: by requests (random
reads) and by bytes (scans). So the true ratio of both is known, and no other storage disturbs it. Then queries that
petal did not measure are planned under the measured prices and under the defaults, and every other plan is
timed, too. At last many random prices are tried: the best of them shows what no price can cure.
Prints the tables of docs/recipes/optimizer-costs.md.

Usage: bench-costs.py PETAL [DIRECTORY]
  SERVER=postgres|mariadb  BIN=folder of its programs  ONLY=ratios|queries  STORAGE=first letters of one
"""
import atexit, json, math, os, pathlib, random, re, shutil, signal, subprocess, sys, tempfile, time

PETAL = os.path.abspath(sys.argv[1])
WORK = pathlib.Path(tempfile.mkdtemp(prefix="costs", dir=sys.argv[2] if len(sys.argv) > 2 else "/var/tmp"))
CGROUP = pathlib.Path("/sys/fs/cgroup")
V2 = (CGROUP / "cgroup.controllers").exists()
GROUP = CGROUP / WORK.name if V2 else CGROUP / "blkio" / WORK.name
SECONDS, REPEATS = int(os.environ.get("SECONDS_EACH", 80)), int(os.environ.get("REPEATS", 2))
DRAWS = int(os.environ.get("DRAWS", 2000))
MOUNT, PORT, BLOCK = WORK / "mount", 5470 + os.getpid() % 400, 8192
# Reads per second, bytes per second.
LIMITS = [(1000, 1000 * BLOCK * ratio) for ratio in (5, 10, 20)]
STORAGES = {"no limit": (None, None), "4,000 reads/s": (4000, 4000 * BLOCK * 5), "1,000 reads/s": (1000, 1000 * BLOCK * 20)}
STORAGE, ONLY = os.environ.get("STORAGE", ""), os.environ.get("ONLY", "")
ROWS = 600_000
TOLERANCE = 1.1
# Cold executions of one plan differ by about as much.
EQUAL_MS = 5
# A plan that takes longer is never the faster one.
LONGEST_S = 20


def run(*command, **more):
    ended = subprocess.run([str(part) for part in command], text=True, capture_output=True, **more)
    if ended.returncode:
        sys.exit(f"{command[0]}: {ended.stderr}")
    return ended.stdout


class Postgres:
    scale = "512M"
    user, url = "postgres", f"postgres://postgres@/postgres?host={WORK}&port={PORT}"
    program, client = "postgres", ["psql", "-h", WORK, "-p", PORT, "-U", "postgres", "-XAtq"]
    unit, index = "random_page_cost", "SET enable_seqscan=off; SET enable_bitmapscan=off;"
    # A plan's kind by its switches.
    kinds = {
        "scan": "SET enable_indexscan=off; SET enable_bitmapscan=off;",
        "index": index,
        "bitmap": "SET enable_seqscan=off; SET enable_indexscan=off;",
        "nested loop": f"SET enable_hashjoin=off; {index}",
        "hash": "SET enable_nestloop=off; SET enable_indexscan=off; SET enable_bitmapscan=off;",
    }
    ranges, joins = ["scan", "index", "bitmap"], ["nested loop", "hash"]
    always = "SET max_parallel_workers_per_gather=0; SET jit=off; SET enable_indexonlyscan=off; SET enable_mergejoin=off; SET enable_memoize=off; SET enable_material=off;"
    timeout, explain = f"SET statement_timeout='{LONGEST_S}s';", "EXPLAIN"
    say = "SELECT '#';"
    drawn = {"random_page_cost": (0.3, 500), "cpu_tuple_cost": (1e-5, 0.3), "cpu_index_tuple_cost": (1e-5, 0.3), "cpu_operator_cost": (1e-5, 0.1)}

    def start(self):
        run("su", self.user, "-c", f"{BIN}/initdb -D {MOUNT}/pg -A trust -U postgres")
        with open(MOUNT / "pg/postgresql.conf", "a") as conf:
            conf.write(
                f"unix_socket_directories='{WORK}'\nlisten_addresses=''\nport={PORT}\nshared_buffers=8MB\n"
                "max_wal_size=1GB\nautovacuum=off\nfsync=off\n"
            )
        # All processes of the server are in the group from their start.
        command = f"su {self.user} -c '{BIN}/pg_ctl -D {MOUNT}/pg -l {WORK}/log -w start'"
        run("sh", "-c", f"echo $$ > {GROUP}/cgroup.procs && {command}")

    def stop(self):
        subprocess.run(["su", self.user, "-c", f"{BIN}/pg_ctl -D {MOUNT}/pg -m immediate stop"], capture_output=True)

    def tables(self):
        return [
            "CREATE TABLE t AS SELECT i AS id, i AS near, row_number() OVER (ORDER BY hashint4(i))::int AS far, (i + (i * 31::bigint % 2000))::int AS rough, "
            f"repeat('x', 80) AS pad FROM generate_series(1, {ROWS}) i ORDER BY i;",
            f"CREATE TABLE few AS SELECT 1 + abs(hashint4(-i)::bigint) % {ROWS} AS wanted, i AS at FROM generate_series(1, 200000) i;",
            *[f"CREATE INDEX ON t ({column});" for column in ("near", "far", "rough")],
            "CREATE INDEX ON few (at);",
            "VACUUM (FREEZE, ANALYZE) t; VACUUM (FREEZE, ANALYZE) few; CHECKPOINT;",
        ]

    def kind(self, plan, is_join):
        if is_join:
            return "nested loop" if "Nested Loop" in plan else "hash"
        return "scan" if "Seq Scan on t" in plan else "bitmap" if "Bitmap Heap Scan on t" in plan else "index"

    def evict(self):
        # Not by a scan, whose few buffers would evict nothing; several times as many blocks as the cache has.
        first = random.randrange(1, 50000)
        return (
            f"SET enable_seqscan=off; SET enable_bitmapscan=off; SELECT count(c2) FROM petal1.cf1 WHERE custid BETWEEN {first} AND {first + 8000}; "
            "SELECT count(*) FROM pg_class;"
        )

    def put(self, values):
        return " ".join(f"SET {name} = {value};" for name, value in values.items())

    def timed(self, text):
        return f"\\timing on\n{text}"

    def ms(self, output):
        return float(re.search(r"Time: ([0-9.]+) ms", output)[1])


class Mariadb:
    scale = "256M"
    user, url = "mysql", f"mysql://root@localhost/b?socket={WORK}/s.sock"
    program, client = "mariadbd", ["mariadb", "--no-defaults", "-S", WORK / "s.sock", "-u", "root", "-NB", "b"]
    unit = "optimizer_row_lookup_cost"
    kinds = {
        "scan": "t IGNORE INDEX (near, far, rough)",
        "index": "t FORCE INDEX (near, far, rough)",
        "nested loop": "STRAIGHT_JOIN t FORCE INDEX (far)",
        "hash": "STRAIGHT_JOIN t IGNORE INDEX (far)",
    }
    ranges, joins = ["scan", "index"], ["nested loop", "hash"]
    always = "SET join_buffer_size=16777216;"
    # No price chooses a hash join: this setting does.
    hash_join = "SET join_cache_level=4;"
    timeout, explain = f"SET max_statement_time={LONGEST_S};", "EXPLAIN"
    say = "SELECT '#';"
    drawn = {
        "optimizer_disk_read_ratio": (0.02, 1), "optimizer_disk_read_cost": (0.3, 300), "optimizer_row_lookup_cost": (0.05, 5000),
        "optimizer_key_lookup_cost": (0.05, 20), "optimizer_key_next_find_cost": (0.01, 3), "optimizer_row_next_find_cost": (0.01, 3),
        "optimizer_row_copy_cost": (0.01, 3),
    }

    def start(self):
        install = BIN / "../scripts/mariadb-install-db"
        install = install if install.exists() else "mariadb-install-db"
        run(install, "--no-defaults", f"--datadir={MOUNT}/data", "--user=mysql", "--auth-root-authentication-method=normal", "--skip-test-db", f"--tmpdir={MOUNT}")
        self.process = subprocess.Popen(
            f"echo $$ > {GROUP}/cgroup.procs && exec {BIN}/mariadbd --no-defaults --user=mysql --datadir={MOUNT}/data --socket={WORK}/s.sock "
            f"--skip-networking --tmpdir={MOUNT} --innodb-buffer-pool-size=16M --innodb-log-file-size=256M --innodb-flush-method=O_DIRECT "
            "--innodb-flush-log-at-trx-commit=2 --innodb-lru-scan-depth=100 --innodb-old-blocks-time=0 --innodb-buffer-pool-dump-at-shutdown=0",
            shell=True, stderr=open(WORK / "log", "w"),
        )
        for _ in range(300):
            made = subprocess.run([*self.client[:-1], "-e", "CREATE DATABASE IF NOT EXISTS b"], capture_output=True)
            if made.returncode == 0:
                return
            time.sleep(0.2)
        sys.exit((WORK / "log").read_text())

    def stop(self):
        if hasattr(self, "process"):
            self.process.kill()
            self.process.wait()

    def tables(self):
        return [
            "CREATE TABLE t (id INT PRIMARY KEY, near INT, far INT, rough INT, pad CHAR(80) CHARACTER SET latin1);",
            f"INSERT INTO t SELECT seq, seq, ROW_NUMBER() OVER (ORDER BY CRC32(seq)), seq + seq * 31 % 2000, REPEAT('x', 80) FROM seq_1_to_{ROWS};",
            "ALTER TABLE t ADD INDEX near (near), ADD INDEX far (far), ADD INDEX rough (rough);",
            "CREATE TABLE other AS SELECT seq AS id, REPEAT('y', 200) AS pad FROM seq_1_to_200000;",
            f"CREATE TABLE few (at INT PRIMARY KEY, wanted INT NOT NULL) AS SELECT seq AS at, 1 + CRC32(-seq) % {ROWS} AS wanted FROM seq_1_to_200000;",
            "ANALYZE TABLE t, few, other;",
        ]

    def kind(self, plan, is_join):
        by = {line.split("\t")[2]: line.split("\t")[3] for line in plan.splitlines() if line.count("\t") > 3}
        # The other order of the tables is a scan of t, too.
        seek, scan = ("nested loop", "hash") if is_join else ("index", "scan")
        return seek if by.get("t") in ("range", "ref", "eq_ref") else scan

    def evict(self):
        return "SELECT COUNT(pad) FROM other; SELECT COUNT(pad) FROM other;"

    def put(self, values):
        if not values:
            return ""
        of = lambda name: name if name == "optimizer_where_cost" else f"innodb.{name}"
        parts = ", ".join(f"{of(name)} = {value}" for name, value in values.items() if name.startswith("optimizer"))
        return f"SET GLOBAL {parts}; SET SESSION optimizer_where_cost = @@GLOBAL.optimizer_where_cost; FLUSH TABLES;"

    def timed(self, text):
        return f"SET @began = SYSDATE(6);\n{text}\nSELECT CONCAT('us ', TIMESTAMPDIFF(MICROSECOND, @began, SYSDATE(6)));"

    def ms(self, output):
        return float(re.search(r"^us (\d+)", output, re.M)[1]) / 1000


DB = Mariadb() if os.environ.get("SERVER") == "mariadb" else Postgres()
USUAL = {"postgres": sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1:], "mariadbd": [pathlib.Path("/usr/sbin")]}
BIN = pathlib.Path(os.environ.get("BIN") or USUAL[DB.program][0])
DISK = None
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


@atexit.register
def clean():
    DB.stop()
    time.sleep(1)
    subprocess.run(["umount", MOUNT], capture_output=True)
    if DISK is not None:
        pathlib.Path("/sys/class/zram-control/hot_remove").write_text(DISK)
    shutil.rmtree(WORK, ignore_errors=True)
    GROUP.exists() and GROUP.rmdir()


def begin():
    global DISK
    DISK = pathlib.Path("/sys/class/zram-control/hot_add").read_text().strip()
    pathlib.Path(f"/sys/block/zram{DISK}/disksize").write_text("4G")
    # The default of Linux.
    run("blockdev", "--setra", 256, f"/dev/zram{DISK}")
    run("mkfs.ext4", "-q", f"/dev/zram{DISK}")
    MOUNT.mkdir()
    run("mount", f"/dev/zram{DISK}", MOUNT)
    os.chmod(WORK, 0o755)
    for folder in (WORK, MOUNT):
        shutil.chown(folder, DB.user, DB.user)
    GROUP.mkdir()
    DB.start()
    run(PETAL, "setup", "-s", 2, "--scale", DB.scale, "--db", DB.url, cwd=WORK)


def limit(reads, size):
    number = os.stat(MOUNT).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    if V2:
        (GROUP / "io.max").write_text(f"{device} riops={reads or 'max'} rbps={size or 'max'}")
    else:
        (GROUP / "blkio.throttle.read_iops_device").write_text(f"{device} {reads or 0}")
        (GROUP / "blkio.throttle.read_bps_device").write_text(f"{device} {size or 0}")


def sql(*statements):
    return run(*DB.client, input="\n".join(statements))


def costs():
    found = run(PETAL, "costs", "--db", DB.url, "--json", "--seconds", SECONDS, "--cached", 0, "--sessions", 1, "--out", WORK / "out", cwd=WORK)
    return json.loads(found)


def price(setting):
    """The value without cached blocks; of one that is too small it is the end of its interval."""
    value = next(value for value in setting["values"] if value["cached_pct"] in (None, 0))
    return value["high"] if value["value"] is None else value["value"]


def ratios():
    print("| limits | true ratio | random_page_cost | 95 % | off |\n|---|--:|--:|--:|--:|")
    for reads, size in LIMITS:
        limit(reads, size)
        setting = next(one for one in costs()["settings"] if one["name"] == "random_page_cost")
        found, true = setting["values"][0], size / BLOCK / reads
        print(
            f"| {reads:,} reads/s, {size / 1e6:.1f} MB/s | {true:.0f} | {found['value']:.2f} | {found['low']:.2f} to {found['high']:.2f} "
            f"| {100 * (found['value'] / true - 1):+.1f} % |",
            flush=True,
        )


def make_queries():
    limit(None, None)
    sql(*DB.tables())
    for column, where in [("far", "not correlated"), ("rough", "nearly correlated"), ("near", "correlated")]:
        for at, share in enumerate([0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]):
            first = 1000 + 50000 * at
            text = f"SELECT sum(length(pad)) FROM {{}} WHERE {column} BETWEEN {first} AND {first + int(ROWS * share / 100)};"
            yield f"{share} %, {where}", text, DB.ranges
    for at, rows in enumerate([30, 300, 1000, 3000, 10000, 30000, 100000]):
        text = f"SELECT sum(length(pad)) FROM few {{}} ON t.far = few.wanted WHERE few.at BETWEEN {at} AND {at + rows};"
        yield f"join of {rows} rows", text, DB.joins


def free(kinds):
    return "JOIN t" if kinds is DB.joins else "t"


def plans(values, queries):
    """The kind of the plan that the server chooses, by values and query."""
    limit(None, None)
    each = "\n".join(f"{DB.say}\n{DB.explain} {text.format(free(kinds))}" for _, text, kinds in queries)
    output = sql(DB.always, *[f"{DB.put(of)}\n{each}" for of in values])
    shown = iter(output.split("#\n")[1:])
    return [[DB.kind(next(shown), kinds is DB.joins) for _, _, kinds in queries] for _ in values]


def cold(storage):
    """Drops every block of the queries from the server's cache and the page cache."""
    limit(None, None)
    sql(DB.evict())
    for path in MOUNT.glob("pg/base/*/*"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    limit(*storage)


def timed(storage, depth, kind, text):
    """The time in ms of a cold execution; infinite over the limit."""
    cold(storage)
    is_postgres = DB.program == "postgres"
    forced, table = (DB.kinds[kind], free(DB.joins if kind in DB.joins else DB.ranges)) if is_postgres else (DB.hash_join if kind == "hash" else "", DB.kinds[kind])
    ahead = f"SET effective_io_concurrency = {depth};" if depth is not None else ""
    statements = f"{use_up(*storage)}\n{ahead} {DB.timeout} {DB.always} {forced}\n{DB.timed(text.format(table))}"
    ended = subprocess.run([str(part) for part in DB.client], input=statements, text=True, capture_output=True)
    return math.inf if re.search("statement timeout|max_statement_time", ended.stderr) else DB.ms(ended.stdout)


def use_up(reads, size):
    """A client's command that uses up the credit of both limits, some tenths of a second, just before a query."""
    read = f"dd if=/dev/zram{DISK} of=/dev/null iflag=direct bs={size // reads} count={reads * 2 // 5}" if reads else ""
    return f"\\! sh -c 'echo $$ > {GROUP}/cgroup.procs && exec {read}' 2> /dev/null" if reads else ""


def shortest(storage, forms, text):
    """The shortest time of each plan, over rounds in which each plan runs once; one of over 4 s runs once only."""
    times = {}
    for _ in range(REPEATS):
        for form in forms:
            if times.get(form, 0) < 4000:
                kind, depth = form
                times[form] = min(times.get(form, math.inf), timed(storage, depth, kind, text))
    return times


def judged(chosen, depth, all_times):
    """Right choices, the worst loss of the wrong ones, and the sums of chosen and fastest plans in ms."""
    right, worst, total, fastest = [], 1.0, 0.0, 0.0
    for kind, times in zip(chosen, all_times):
        least, ms = min(times.values()), min(times[kind, depth if kind == "bitmap" else None], LONGEST_S * 1000)
        right.append(ms <= max(least * TOLERANCE, least + EQUAL_MS))
        worst = worst if right[-1] else max(worst, ms / least)
        total, fastest = total + ms, fastest + least
    return right, worst, total, fastest


def searched(base, depths, queries, all_times):
    """The best of many random prices, and the queries for which none of them chooses right."""
    draw = random.Random(1)
    around = lambda least, most: math.exp(draw.uniform(math.log(least), math.log(most)))
    near = lambda of: {name: of[name] * math.exp(draw.gauss(0, 0.7)) for name in DB.drawn}
    found, ever = [], [False] * len(queries)
    for step in range(2):
        best = [values for _, values, _ in found[:20]]
        values = [{name: around(*ends) for name, ends in DB.drawn.items()} if step == 0 else near(best[at % len(best)]) for at in range(DRAWS // 2)]
        values = [{name: float(f"{value:.4g}") for name, value in of.items()} for of in values]
        for of, chosen in zip(values, plans(values, queries)):
            for depth in depths:
                right, worst, *sums = judged(chosen, depth, all_times)
                ever = [was or now for was, now in zip(ever, right)]
                found.append(((-sum(right), worst, sums[0]), of, (depth, right, worst, *sums)))
        found.sort(key=lambda one: one[0])
    _, of, result = found[0]
    return of, result, [what for (what, *_), was in zip(queries, ever) if not was]


def held_out(name, storage, queries):
    limit(*storage)
    settings = costs()["settings"]
    depth = next((int(price(one)) for one in settings if one["price"] == "depth"), None)
    measured = {one["name"]: float(f"{price(one):.6g}") for one in settings if "depth" not in one["price"] and price(one)}
    usual = {one["name"]: one["present"] for one in settings if one["name"] in measured}
    ahead = next((int(one["present"]) for one in settings if one["name"] == "effective_io_concurrency"), None)
    print(f"\n{name}: {DB.put(measured)} ahead {depth}, by default {ahead}", flush=True)
    all_times = []
    for what, text, kinds in queries:
        forms = [(kind, of) for kind in kinds for of in (sorted({ahead, depth}) if kind == "bitmap" else [None])]
        all_times.append(shortest(storage, forms, text))
        shown = ", ".join(f"{kind}{'' if of is None else f' {of} ahead'} {ms:.0f} ms" for (kind, of), ms in all_times[-1].items())
        print(f"  {what}: {shown}", flush=True)
    results = {"defaults": (ahead, usual)}
    if measured:
        results["measured"] = (depth, measured)
    rows = []
    for config, (of_depth, values) in results.items():
        [chosen] = plans([values], queries)
        rows.append((config, *judged(chosen, of_depth, all_times)))
        for (what, *_), kind, is_right in zip(queries, chosen, rows[-1][1]):
            is_right or print(f"  {config}, wrong: {what}, {kind}")
    if measured:
        of, (of_depth, *result), never = searched(measured, {ahead, depth}, queries, all_times)
        print(f"  best of {DRAWS}: {of} ahead {of_depth}; never right: {never}")
        rows.append((f"best of {DRAWS:,} tried", *result))
        sql(DB.put(usual))
    for config, right, worst, total, least in rows:
        print(f"| {name} | {config} | {sum(right)} of {len(queries)} | {worst:.1f} times | {total / 1000:.1f} s | {least / 1000:.1f} s |", flush=True)


begin()
if ONLY != "queries":
    ratios()
if ONLY != "ratios":
    queries = list(make_queries())
    for name, storage in STORAGES.items():
        if name.startswith(STORAGE):
            held_out(name, storage, queries)
