#!/usr/bin/env python3
"""Proves the prices of petal costs on a private PostgreSQL server, as root on Linux.

The data are on a loop device of their own, whose reads a control group limits: by requests (random
reads) and by bytes (scans). So the true ratio of both is known. Then queries that petal did not measure
are planned under the measured prices and under the defaults, and every other plan is timed, too.
Prints the tables of docs/recipes/optimizer-costs.md. Usage: bench-costs.py PETAL [DIRECTORY]
"""
import atexit, json, math, os, pathlib, re, shutil, signal, subprocess, sys, tempfile, time

PETAL = os.path.abspath(sys.argv[1])
WORK = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else "/var/tmp"))
BIN = pathlib.Path(os.environ.get("PG_BIN") or sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1])
CGROUP = pathlib.Path("/sys/fs/cgroup")
V2 = (CGROUP / "cgroup.controllers").exists()
GROUP = CGROUP / "petal-costs" if V2 else CGROUP / "blkio" / "petal-costs"
SECONDS, REPEATS = int(os.environ.get("SECONDS_EACH", 150)), int(os.environ.get("REPEATS", 3))
MOUNT, PORT, BLOCK = WORK / "mount", 5470 + os.getpid() % 100, 8192
URL = f"postgres://postgres@/postgres?host={WORK}&port={PORT}"
# Reads per second, bytes per second.
LIMITS = [(500, 500 * BLOCK * ratio) for ratio in (2, 5, 10, 20, 40)]
STORAGES = {"no limit": (None, None), "4,000 reads/s, 160 MB/s": (4000, 160_000_000), "1,000 reads/s, 160 MB/s": (1000, 160_000_000)}
# Only the storages whose name begins with this.
STORAGE = os.environ.get("STORAGE", "")
ROWS = 1_500_000
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


@atexit.register
def clean():
    subprocess.run(["su", "postgres", "-c", f"{BIN}/pg_ctl -D {MOUNT}/pg -m immediate stop"], capture_output=True)
    time.sleep(1)
    subprocess.run(["umount", MOUNT], capture_output=True)
    if LOOP:
        subprocess.run(["losetup", "-d", LOOP], capture_output=True)
    shutil.rmtree(WORK, ignore_errors=True)
    GROUP.exists() and GROUP.rmdir()


LOOP = None
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def begin():
    global LOOP
    run("truncate", "-s", "6G", WORK / "disk")
    LOOP = run("losetup", "-f", "--show", WORK / "disk").strip()
    # The default of Linux.
    run("blockdev", "--setra", 256, LOOP)
    run("mkfs.ext4", "-q", "-E", "nodiscard", LOOP)
    MOUNT.mkdir()
    run("mount", LOOP, MOUNT)
    os.chmod(WORK, 0o755)
    for folder in (WORK, MOUNT):
        shutil.chown(folder, "postgres", "postgres")
    run("su", "postgres", "-c", f"{BIN}/initdb -D {MOUNT}/pg -A trust -U postgres")
    with open(MOUNT / "pg/postgresql.conf", "a") as conf:
        conf.write(
            f"unix_socket_directories='{WORK}'\nlisten_addresses=''\nport={PORT}\nshared_buffers=16MB\n"
            "max_wal_size=1GB\nautovacuum=off\nfsync=off\neffective_cache_size=16MB\n"
        )
    run("su", "postgres", "-c", f"{BIN}/pg_ctl -D {MOUNT}/pg -l {WORK}/log -w start")
    GROUP.mkdir(exist_ok=True)
    run(PETAL, "setup", "-s", 2, "--scale", "256M", "--db", URL, cwd=WORK)
    postmaster = (MOUNT / "pg/postmaster.pid").read_text().split()[0]
    (GROUP / "cgroup.procs").write_text(postmaster)


def limit(reads, size):
    number = os.stat(MOUNT).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    if V2:
        (GROUP / "io.max").write_text(f"{device} riops={reads or 'max'} rbps={size or 'max'}")
    else:
        (GROUP / "blkio.throttle.read_iops_device").write_text(f"{device} {reads or 0}")
        (GROUP / "blkio.throttle.read_bps_device").write_text(f"{device} {size or 0}")


def sql(*statements):
    text = run("psql", "-h", WORK, "-p", PORT, "-U", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1", input="\n".join(statements))
    return text.splitlines()


def costs(cached):
    found = run(PETAL, "costs", "--db", URL, "--json", "--seconds", SECONDS, "--cached", cached, "--sessions", 1, "--out", WORK / "out", cwd=WORK)
    return json.loads(found)


def price(found, name, cached):
    setting = next(one for one in found["settings"] if one["name"] == name)
    return next(value for value in setting["values"] if value["cached_pct"] in (None, cached))


def ratios():
    print("| limits | true ratio | random_page_cost | 95 % | off |\n|---|--:|--:|--:|--:|")
    for reads, size in LIMITS:
        limit(reads, size)
        found = price(costs(0), "random_page_cost", 0)
        true = size / BLOCK / reads
        print(
            f"| {reads} reads/s, {size / 1e6:.1f} MB/s | {true:.0f} | {found['value']:.2f} | {found['low']:.2f} to {found['high']:.2f} "
            f"| {100 * (found['value'] / true - 1):+.1f} % |",
            flush=True,
        )


# A plan's kind by its switches.
KINDS = {
    "scan": "SET enable_indexscan=off; SET enable_bitmapscan=off;",
    "index": "SET enable_seqscan=off; SET enable_bitmapscan=off;",
    "bitmap": "SET enable_seqscan=off; SET enable_indexscan=off;",
    "nested loop": "SET enable_hashjoin=off; SET enable_mergejoin=off; SET enable_seqscan=off; SET enable_bitmapscan=off;",
    "hash": "SET enable_nestloop=off; SET enable_mergejoin=off; SET enable_indexscan=off; SET enable_bitmapscan=off;",
}
ALWAYS = "SET max_parallel_workers_per_gather=0; SET jit=off; SET enable_indexonlyscan=off; SET enable_mergejoin=off; SET enable_memoize=off; SET enable_material=off;"


def make_queries():
    limit(None, None)
    sql(
        "CREATE TABLE t AS SELECT i AS id, i AS near, row_number() OVER (ORDER BY hashint4(i))::int AS far, (i + (i * 31::bigint % 2000))::int AS rough, "
        f"repeat('x', 80) AS pad FROM generate_series(1, {ROWS}) i ORDER BY i;",
        "CREATE TABLE other AS SELECT i AS id, repeat('y', 200) AS pad FROM generate_series(1, 150000) i;",
        f"CREATE TABLE few AS SELECT 1 + abs(hashint4(-i)::bigint) % {ROWS} AS key, i AS at FROM generate_series(1, 200000) i;",
        *[f"CREATE INDEX ON t ({column});" for column in ("near", "far", "rough")],
        "CREATE INDEX ON few (at);",
        "VACUUM (FREEZE, ANALYZE) t; VACUUM (FREEZE, ANALYZE) few; VACUUM (FREEZE, ANALYZE) other; CHECKPOINT;",
    )
    shares = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]
    for column, where in [("far", "not correlated"), ("rough", "nearly correlated"), ("near", "correlated")]:
        for at, share in enumerate(shares):
            first = 1000 + 50000 * at
            text = f"SELECT sum(length(pad)) FROM t WHERE {column} BETWEEN {first} AND {first + int(ROWS * share / 100)};"
            yield f"{share} %, {where}", text, ["scan", "index", "bitmap"]
    for at, rows in enumerate([30, 300, 1000, 3000, 10000, 30000, 100000]):
        text = f"SELECT sum(length(pad)) FROM few JOIN t ON t.far = few.key WHERE few.at BETWEEN {at} AND {at + rows};"
        yield f"join of {rows} rows", text, ["nested loop", "hash"]


def plan_kind(plan, kinds):
    if "nested loop" in kinds:
        return "nested loop" if "Nested Loop" in plan else "hash"
    return "scan" if "Seq Scan on t" in plan else "bitmap" if "Bitmap Heap Scan on t" in plan else "index"


def cold(storage):
    """Drops every block of the queries from the server's cache and the page cache."""
    limit(None, None)
    # Not by a scan, whose few buffers would evict nothing.
    sql("SET enable_seqscan=off; SELECT count(*) FROM other WHERE ctid >= '(0,0)'; SELECT count(*) FROM pg_class;")
    for path in (MOUNT / "pg/base").glob("*/*"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    limit(*storage)


def timed(storage, depth, switches, text):
    """The time in ms of a cold execution; infinite over the limit."""
    cold(storage)
    begin = f"SET effective_io_concurrency = {depth}; SET statement_timeout = '{LONGEST_S}s'; {ALWAYS} {switches}"
    command = ["psql", "-h", WORK, "-p", PORT, "-U", "postgres", "-XAtq"]
    ended = subprocess.run([str(part) for part in command], input=f"{begin}\n\\timing on\n{text}", text=True, capture_output=True)
    return math.inf if "statement timeout" in ended.stderr else float(re.search(r"Time: ([0-9.]+) ms", ended.stdout)[1])


def shortest(storage, plans, text):
    """The shortest time of each plan, over rounds in which each plan runs once; a long one runs once only."""
    times = {}
    for _ in range(REPEATS):
        for plan in plans:
            if times.get(plan, 0) < 2000:
                kind, depth = plan
                times[plan] = min(times.get(plan, math.inf), timed(storage, depth, KINDS[kind], text))
    return times


def held_out(name, storage, queries):
    limit(*storage)
    found = costs(0)
    usable = lambda value: value["value"] or value["high"]
    values = {one["name"]: usable(price(found, one["name"], 0)) for one in found["settings"] if "depth" not in one["price"]}
    # A price that was not measured stays as it is; of one that is too small it is the end of its interval.
    measured = " ".join(f"SET {setting} = {value:.6g};" for setting, value in values.items() if value)
    depth = int(next(one["values"][0]["value"] for one in found["settings"] if one["price"] == "depth"))
    print(f"\n{name}: {measured} effective_io_concurrency {depth}", flush=True)
    configs = {"defaults": ("", 1), "measured": (measured, depth)}
    sums = {config: [0, 1.0, 0.0, 0.0] for config in configs}
    for what, text, kinds in queries:
        plans = [(kind, ahead) for kind in kinds for ahead in sorted({1, depth} if kind == "bitmap" else {1})]
        times = shortest(storage, plans, text)
        for config, (settings, ahead) in configs.items():
            limit(None, None)
            chosen = plan_kind("\n".join(sql(settings, ALWAYS, f"EXPLAIN {text}")), kinds)
            least = min(times.values())
            ms, of = times[chosen, ahead if chosen == "bitmap" else 1], sums[config]
            loss, is_right = ms / least, ms <= max(least * TOLERANCE, least + EQUAL_MS)
            of[0], of[1] = of[0] + is_right, max(of[1], 1.0 if is_right else loss)
            of[2], of[3] = of[2] + min(ms, LONGEST_S * 1000), of[3] + least
            print(f"  {config}, {what}: {chosen}, {loss:.2f} times; " + ", ".join(f"{kind} ({depth} ahead) {ms:.0f} ms" for (kind, depth), ms in times.items()), flush=True)
    for config, (right, worst, total, least) in sums.items():
        print(f"| {name} | {config} | {right} of {len(queries)} | {worst:.1f} times | {total / 1000:.1f} s | {least / 1000:.1f} s |", flush=True)


begin()
if os.environ.get("ONLY") != "queries":
    ratios()
if os.environ.get("ONLY") != "ratios":
    queries = list(make_queries())
    for name, storage in STORAGES.items():
        if name.startswith(STORAGE):
            held_out(name, storage, queries)
