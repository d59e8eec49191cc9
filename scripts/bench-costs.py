#!/usr/bin/env python3
"""Proves the prices of petal costs on private servers, as root on Linux.

The data are on a block device in memory (zram), whose reads a control group limits: by requests (random
reads) and by bytes (scans). So the true ratio of both is known, and no other storage disturbs it. Then queries that
petal did not measure are planned under the measured prices and under the defaults, and every possible plan is
timed. At last many other prices are tried: the best of them shows what no price can cure.
Prints the tables of docs/recipes/optimizer-costs.md, and keeps all times and plans in costs-SERVER.json.

Usage: bench-costs.py PETAL [DIRECTORY]    measure
       bench-costs.py FILE.json...         print the tables of kept measurements again
  ONLY=ratios|queries  STORAGE=first letters of one
  SERVERS=postgres:FOLDER,mariadb:FOLDER   the folder has the server's programs; without it the newest PostgreSQL
"""
import atexit, json, math, os, pathlib, random, re, shutil, signal, statistics, subprocess, sys, time

KEPT = [path for path in sys.argv[1:] if path.endswith(".json")]
PETAL = os.path.abspath(sys.argv[1])
BEGAN = time.time()
WORK = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "/var/tmp") / f"costs{os.getpid()}"
CGROUP = pathlib.Path("/sys/fs/cgroup")
V2 = (CGROUP / "cgroup.controllers").exists()
GROUP = CGROUP / WORK.name if V2 else CGROUP / "blkio" / WORK.name
STORAGE, ONLY = os.environ.get("STORAGE", "4,000"), os.environ.get("ONLY", "")
# Samples of a ratio must be long compared with the limit's step.
SECONDS = int(os.environ.get("SECONDS_EACH", 50 if ONLY == "queries" else 240))
DRAWS = int(os.environ.get("DRAWS", 2000))
MOUNT, PORT, BLOCK = WORK / "mount", 5470 + os.getpid() % 400, 8192
# The default of Linux. A scan's requests are as large, so that no ratio is above READ_AHEAD / BLOCK.
READ_AHEAD = 128 << 10
# Reads per second, bytes per second.
LIMITS = [(1000, 1000 * BLOCK * ratio) for ratio in (5, 10, 20)]
STORAGES = {"no limit": (None, None), "4,000 reads/s": (4000, 4000 * BLOCK * 5), "1,000 reads/s": (1000, 1000 * BLOCK * 20)}
ROWS = 600_000
TOLERANCE = 1.1
# Cold executions of one plan differ by about as much.
EQUAL_MS = 5
# The kernel's limits let a tenth of a second's reads pass at once, then none. So each plan is timed from several
# points of that step, and the mean counts: from more points if plans differ by less than a part of the step.
STEP_MS = 100
PHASES, MORE_PHASES = [9 / 18, 3 / 18, 15 / 18], [at / 18 for at in (1, 5, 7, 11, 13, 17)]
# Plans race: all have as much time, then more, until one ends.
LIMITS_S = [0.4, 2, 8, 32]
# Others may take this many times as long as it. A plan that takes longer has only a least time.
OVER = 2.5
# Each measured price is multiplied alone.
FACTORS = [0.1, 0.25, 0.5, 2, 4, 10]


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
        "hash": "SET enable_nestloop=off;",
    }
    ranges, joins = ["scan", "index", "bitmap"], ["nested loop", "hash"]
    always = "SET max_parallel_workers_per_gather=0; SET jit=off; SET enable_indexonlyscan=off; SET enable_mergejoin=off; SET enable_memoize=off; SET enable_material=off;"
    timeout, explain = "SET statement_timeout='{:.0f}ms';", "EXPLAIN"
    say, version = "SELECT '#';", "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), '.', 1);"
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
            f"repeat('x', 200) AS pad FROM generate_series(1, {ROWS}) i ORDER BY i;",
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

    def settle(self):
        pass

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
    # This level makes every such join a hash join, and the default none, at any price.
    hash_join = "SET join_cache_level=4;"
    timeout, explain = "SET @@max_statement_time={:.0f}/1000;", "EXPLAIN"
    say, version = "SELECT '#';", "SELECT CONCAT('MariaDB ', SUBSTRING_INDEX(VERSION(), '.', 2));"
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

    def settle(self):
        """Waits for the purge of old rows: limited reads would make it last minutes, and costs waits for it."""
        for _ in range(600):
            if int(sql("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length';").split()[1]) < 10:
                return
            time.sleep(0.2)

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


DISK = None
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


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
    run("blockdev", "--setra", READ_AHEAD // 512, f"/dev/zram{DISK}")
    run("mkfs.ext4", "-q", f"/dev/zram{DISK}")
    MOUNT.mkdir(parents=True)
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
    """The value without cached blocks; one that is too small stays, but for the end of its interval."""
    value = next(value for value in setting["values"] if value["cached_pct"] in (None, 0))
    if value["value"] is None and value["high"] is not None and setting["present"]:
        return min(value["high"], float(setting["present"]))
    return value["high"] if value["value"] is None else value["value"]


RATIOS = "| limits | true ratio | random_page_cost | 95 % | off |\n|---|--:|--:|--:|--:|"


def ratios(limits):
    for reads, size in limits:
        limit(reads, size)
        setting = next(one for one in costs()["settings"] if one["name"] == "random_page_cost")
        found, true = setting["values"][0], min(size / reads, READ_AHEAD) / BLOCK
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


def timed(storage, form, text, phase, limit_ms):
    """The time in ms of a cold execution; None over the limit."""
    kind, depth = form
    cold(storage)
    is_postgres = DB.program == "postgres"
    forced, table = (DB.kinds[kind], free(DB.joins if kind in DB.joins else DB.ranges)) if is_postgres else (DB.hash_join if kind == "hash" else "", DB.kinds[kind])
    ahead = f"SET effective_io_concurrency = {depth};" if depth is not None else ""
    settings = f"{ahead} {DB.timeout.format(limit_ms)} {DB.always} {forced}"
    statements = f"{settings}\n{use_up(*storage, phase)}\n{DB.timed(text.format(table))}"
    ended = subprocess.run([str(part) for part in DB.client], input=statements, text=True, capture_output=True)
    return None if re.search("statement timeout|max_statement_time", ended.stderr) else DB.ms(ended.stdout)


def use_up(reads, size, phase):
    """A client's command that reads until the limits begin a new step, and then this part of the step."""
    if not reads:
        return ""
    use = WORK / "use-up.py"
    if not use.exists():
        use.write_text(f"""import mmap, os, random, sys, time
open("{GROUP}/cgroup.procs", "w").write(str(os.getpid()))
disk, buffer = os.open("/dev/zram{DISK}", os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, {size // reads // 4096 * 4096})
left = None
while left is None or left > 0:
    began = time.monotonic()
    os.preadv(disk, [buffer], random.randrange(1 << 18) * 4096)
    if left is not None:
        left -= 1
    elif time.monotonic() - began > {STEP_MS / 4000}:
        left = {reads * STEP_MS // 1000} * float(sys.argv[1]) - 1
os._exit(0)
""")
    return f"\\! {sys.executable} -S -E {use} {phase:.3f}"


def raced(storage, forms, chosen, text):
    """The times of each plan, and the plans, none of them chosen, of which only a least time is known."""
    found, least = {}, math.inf

    def race(limit_ms):
        for form in forms:
            if form not in found or (form in over and found[form][0] < limit_ms - 1):
                ms = timed(storage, form, text, PHASES[0], limit_ms)
                found[form] = [limit_ms if ms is None else ms]
                (over.add if ms is None else over.discard)(form)
        return min((found[form][0] for form in forms if form not in over), default=math.inf)

    over = set()
    for limit_s in LIMITS_S:
        least = race(1000 * limit_s)
        if least < math.inf:
            break
    race(max(OVER * least, 1000 * LIMITS_S[0]))
    for form in over & chosen:
        ms = timed(storage, form, text, PHASES[0], 1000 * LIMITS_S[-1])
        found[form] = [1000 * LIMITS_S[-1] if ms is None else ms]
        over -= set() if ms is None else {form}

    def time_again(phases, forms):
        for phase in phases:
            for form in forms:
                ms = timed(storage, form, text, phase, 4 * OVER * least + 1000)
                found[form] += [ms] if ms is not None else []

    time_again(PHASES[1:], [form for form in forms if form not in over and found[form][0] <= OVER * least + STEP_MS])
    means = {form: statistics.mean(times) for form, times in found.items() if len(times) == len(PHASES)}
    more = {form for form, ms in means.items() if ms - min(means.values()) < STEP_MS / 2}
    if any(not is_right(means[form], min(means.values())) for form in more):
        time_again(MORE_PHASES, [form for form in forms if form in more])
    return found, over


def is_right(ms, least_ms):
    return ms <= max(least_ms * TOLERANCE, least_ms + EQUAL_MS)


def label(form):
    kind, depth = form
    return kind if depth is None else f"{kind} {depth} ahead"


def letters(chosen):
    return "".join(kind[0] for kind in chosen)


class Verdict:
    """The choices of one set of prices, as first letters of the plans, against the times."""

    def __init__(self, kept, chosen, depth):
        self.wrong, self.worst, self.loss = {}, "none wrong", 1.0
        for query, letter in zip(kept["queries"], chosen):
            ms = {form: statistics.mean(times) for form, times in query["ms"].items()}
            fastest = min((form for form in ms if form not in query["over"]), key=ms.get)
            form = next(form for form in ms if form[0] == letter and (letter != "b" or form == f"bitmap {depth} ahead"))
            loss = ms[form] / ms[fastest]
            if is_right(ms[form], ms[fastest]):
                continue
            self.wrong[query["name"]] = (form, fastest, loss, ms[form] - ms[fastest])
            if loss > self.loss:
                self.loss, self.worst = loss, f"{loss:.1f} times{' or more' if form in query['over'] else ''}"


def reason(server, name, form, fastest, cures):
    """Why a choice is wrong: an assumption of the planner, or a price."""
    if server.startswith("MariaDB"):
        return "no statistics of order: all ranges of a size have one price" if "%" in name else "join_cache_level makes hash joins, no price"
    if form == "index" and fastest.startswith("bitmap") and not name.endswith("not correlated"):
        return "a bitmap scan is priced as if the rows had no order"
    return "a price: others choose right" if cures else "no tried price chooses right"


def tables(all_kept):
    print("\n| server | reads/s | defaults | measured at 0 % | best | without nearly correlated ranges | slowest choice of each |\n|---|--:|--:|--:|--:|---|---|")
    judged = []
    for kept in all_kept:
        depths, count = kept["depths"], len(kept["queries"])
        of = {config: Verdict(kept, chosen, depths[config]) for config, chosen in kept["chosen"].items()}
        others = [(Verdict(kept, chosen, depth), values) for values, chosen in kept["tried"] for depth in sorted({*depths.values()}, key=str)]
        best = min(others, key=lambda one: (len(one[0].wrong), one[0].loss), default=(None, None))
        verdicts = [of["defaults"], of.get("measured"), best[0]]
        cells = [f"{count - len(one.wrong)} of {count}" if one else "no prices" for one in verdicts]
        rest = [query["name"] for query in kept["queries"] if "nearly" not in query["name"]]
        of_rest = ", ".join(str(len(set(rest) - set(one.wrong))) for one in verdicts if one)
        print(
            f"| {kept['server']} | {kept['storage'].split()[0]} | {' | '.join(cells)} | {of_rest} of {len(rest)} "
            f"| {', '.join(one.worst for one in verdicts if one)} |"
        )
        judged.append((kept, of, [one for one, _ in others], best[1]))
    for kept, of, _, best in judged:
        if best:
            print(f"\n{kept['server']}, {kept['storage']}: measured {kept['measured']}, ahead {kept['depths']['measured']}; best {best}")
            right = {name: len(kept["queries"]) - len(Verdict(kept, chosen, kept["depths"]["measured"]).wrong) for name, chosen in kept["alone"].items()}
            usual = len(kept["queries"]) - len(of["measured"].wrong)
            print(f"{usual} are right; with one price multiplied: " + ", ".join(f"{name}: {number}" for name, number in right.items() if number != usual))
    print("\n| server | wrong under measured prices | chosen, fastest | slower | right in tried prices | reason |\n|---|---|---|---|--:|---|")
    for kept, of, others, _ in judged:
        groups = {}
        for name, (form, fastest, loss, ms) in of.get("measured", of["defaults"]).wrong.items():
            right = sum(name not in one.wrong for one in others) / max(len(others), 1)
            why = reason(kept["server"], name, form, fastest, right)
            groups.setdefault((form, fastest.split()[0], why), []).append((name, loss, ms, right))
        for (form, fastest, why), wrong in groups.items():
            names, losses, ms, right = zip(*wrong)
            ends = lambda values, form: " to ".join(dict.fromkeys(format(end(values), form) for end in (min, max)))
            shares = f"{ends([100 * share for share in right], '.0f')} %" if others else "-"
            print(f"| {kept['server']} | {'; '.join(names)} | {form}, {fastest} | {ends(losses, '.1f')} times, {ends(ms, '.0f')} ms | {shares} | {why} |")


def tried(base, queries):
    """Plans of many prices: half are drawn wide, half near the measured ones."""
    draw = random.Random(1)
    wide = lambda least, most: math.exp(draw.uniform(math.log(least), math.log(most)))
    near = lambda value: value * math.exp(draw.gauss(0, 1))
    values = [{name: wide(*ends) if at % 2 else near(base.get(name) or wide(*ends)) for name, ends in DB.drawn.items()} for at in range(DRAWS)]
    values = [{name: float(f"{value:.4g}") for name, value in of.items()} for of in values]
    return [(of, letters(chosen)) for of, chosen in zip(values, plans(values, queries))]


def held_out(name, storage, queries):
    limit(None, None)
    DB.settle()
    limit(*storage)
    settings = costs()["settings"]
    depth = next((int(price(one)) for one in settings if one["price"] == "depth"), None)
    measured = {one["name"]: float(f"{price(one):.6g}") for one in settings if "depth" not in one["price"] and price(one)}
    usual = {one["name"]: float(one["present"]) for one in settings if one["name"] in measured}
    ahead = next((int(one["present"]) for one in settings if one["name"] == "effective_io_concurrency"), None)
    kept = {"server": sql(DB.version).strip(), "storage": name, "measured": measured, "usual": usual, "settings": settings, "queries": []}
    kept |= {"depths": {"defaults": ahead, "measured": depth}, "alone": {}, "tried": []}
    print(f"\n{kept['server']}, {name}: {DB.put(measured)} ahead {depth}, by default {ahead}", flush=True)
    prices = {"defaults": usual} | ({"measured": measured} if measured else {})
    chosen = {config: plans([values], queries)[0] for config, values in prices.items()}
    kept["chosen"] = {config: letters(kinds) for config, kinds in chosen.items()}
    sql(DB.put(usual))
    for at, (what, text, kinds) in enumerate(queries):
        forms = [(kind, of) for kind in kinds for of in (sorted({ahead, depth}) if kind == "bitmap" else [None])]
        of_prices = {(of[at], kept["depths"][config] if of[at] == "bitmap" else None) for config, of in chosen.items()}
        times, over = raced(storage, forms, of_prices, text)
        kept["queries"].append({"name": what, "ms": {label(form): ms for form, ms in times.items()}, "over": [label(form) for form in over]})
        shown = ", ".join(f"{label(form)} {'over ' if form in over else ''}{statistics.mean(ms):.0f} ms" for form, ms in times.items())
        print(f"  {what}: {shown}", flush=True)
    if measured:
        scaled = {f"{name} x {factor}": measured | {name: float(f"{value * factor:.6g}")} for name, value in measured.items() for factor in FACTORS}
        kept["alone"] = {label: letters(of) for label, of in zip(scaled, plans(list(scaled.values()), queries))}
        kept["tried"] = tried(measured, queries)
        sql(DB.put(usual))
    path = pathlib.Path(f"costs-{kept['server']}-{name.split()[0].replace(',', '')}.json".replace(" ", "-"))
    path.write_text(json.dumps(kept))
    print(f"all times and plans are in {path}", flush=True)


def measure(server, folder):
    global DB, BIN
    DB, BIN = Mariadb() if server == "mariadb" else Postgres(), pathlib.Path(folder)
    atexit.register(clean)
    begin()
    if ONLY != "queries":
        if "RATIO" in os.environ:
            ratios([LIMITS[int(os.environ["RATIO"])]])
        else:
            print(RATIOS, flush=True)
            ratios(LIMITS)
    if ONLY != "ratios":
        queries = list(make_queries())
        for name, storage in STORAGES.items():
            if name.startswith(STORAGE):
                held_out(name, storage, queries)


def at_once(jobs):
    """Runs this script with other environments at once; returns what each printed.

    Each has a device of its own, and waits most of the time. Ratios are of one server."""
    logs = [pathlib.Path(f"costs-{at}.log") for at, _ in enumerate(jobs, 1)]
    print("\n".join(f"{log}: {job}" for log, job in zip(logs, jobs)), flush=True)
    command = [sys.executable, __file__, *sys.argv[1:]]
    started = [subprocess.Popen(command, env=os.environ | job, stdout=log.open("w"), stderr=subprocess.STDOUT) for log, job in zip(logs, jobs)]
    failed = [str(log) for log, process in zip(logs, started) if process.wait()]
    print(f"failed: {', '.join(failed) or 'none'}")
    return [log.read_text() for log in logs]


def main():
    usual = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
    servers = (os.environ.get("SERVERS") or f"postgres:{usual[0]}").split(",")
    if ONLY == "ratios" and "RATIO" not in os.environ:
        print(RATIOS + "\n" + "".join(at_once([{"RATIO": str(at)} for at in range(len(LIMITS))])), end="")
    elif len(servers) == 1:
        measure(*servers[0].split(":"))
    else:
        at_once([{"SERVERS": one} for one in servers])
        tables([json.loads(path.read_text()) for path in sorted(pathlib.Path.cwd().glob("costs-*.json")) if path.stat().st_mtime > BEGAN])


if KEPT:
    tables([json.loads(pathlib.Path(path).read_text()) for path in KEPT])
else:
    main()
