#!/usr/bin/env python3
"""Compares petal's verdict with measured elasticities, as root on Linux with control groups.

Each situation sets a quota of processors, a limit of reads, a rate or think time. Each of them is
then made 20 % smaller and 20 % larger: the one that changes the throughput most is the truth.
Then petal run --elasticity changes its own resources: the resource of the largest elasticity must
be the one that the situation limits. Prints the tables of docs/limits.md.
Usage: bench-limits.py PETAL [DIRECTORY]
"""
import atexit, json, math, os, pathlib, shutil, subprocess, sys, tempfile

PETAL = os.path.abspath(sys.argv[1])
WORK = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else "."))
CGROUP = pathlib.Path("/sys/fs/cgroup")
V2 = (CGROUP / "cgroup.controllers").exists()
SECONDS, ROUNDS, STEP = 4, int(os.environ.get("ROUNDS", 1)), 0.2
# Elasticities under this count as none: no resource of the situation limits.
LEAST = 0.25

# name, engine, sessions, UPDATE_PCT, {resource: capacity}
SITUATIONS = [
    (f"{cpu} processors, {reads} reads/s", sessions, 0, dict(cpu=cpu, reads=reads))
    for cpu, reads, many in [
        (0.3, 20000, (1, 4)), (0.6, 40000, (4,)), (1.6, 1000, (1, 4, 16)), (1.6, 3000, (4, 16)), (1.0, 6000, (1, 4)),
    ]
    for sessions in many
] + [
    ("RATE 20", 4, 0, dict(cpu=1.6, reads=20000, rate=20)),
    ("RATE 50 of one session", 1, 0, dict(cpu=1.6, reads=20000, rate=50)),
    ("think time 50 ms", 4, 0, dict(cpu=1.6, reads=20000, think=50.0)),
    ("think time 100 ms", 1, 0, dict(cpu=1.6, reads=20000, think=100.0)),
    ("0.3 processors, UPDATEs", 4, 50, dict(cpu=0.3, reads=20000)),
]
# name, sessions, more arguments, capacity, the resource of the largest elasticity
EXPERIMENTS = [
    ("0.1 processors", 4, "--update-pct 0 --work-unit 16", dict(cpu=0.1, reads=40000), "processors"),
    ("1,000 reads/s", 4, "--update-pct 0 --work-unit 4", dict(cpu=1.6, reads=1000), "reads"),
    ("one writer's commits", 4, "--update-pct 100 --work-unit 1", dict(cpu=1.6, reads=40000), "commits"),
    ("RATE 50", 4, "--update-pct 0 --work-unit 4 --rate 50 --arrivals even", dict(cpu=1.6, reads=40000), "none"),
]
EXPERIMENT_SECONDS = int(os.environ.get("EXPERIMENT_SECONDS", 60))
WORDS = {"cpu": "processors", "reads": "I/O limit", "rate": "RATE", "think": "think time"}
SAID = {"processors": "cpu", "session_processor_time": "cpu", "io_limit": "reads", "rate": "rate", "think_time": "think"}


def group(controller):
    path = CGROUP / "petal-limits" if V2 else CGROUP / controller / "petal-limits"
    if V2:
        (CGROUP / "cgroup.subtree_control").write_text("+cpu +io")
    path.mkdir(exist_ok=True)
    return path


@atexit.register
def clean():
    shutil.rmtree(WORK, ignore_errors=True)
    for path in CGROUP.glob("petal-limits" if V2 else "*/petal-limits"):
        path.rmdir()


def device(path):
    number = os.stat(path).st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def limit(cpu, reads):
    quota, where = int(cpu * 100000), device(WORK)
    if V2:
        (group("cpu") / "cpu.max").write_text(f"{quota} 100000")
        (group("io") / "io.max").write_text(f"{where} riops={int(reads)}")
    else:
        (group("cpu") / "cpu.cfs_quota_us").write_text(str(quota))
        (group("blkio") / "blkio.throttle.read_iops_device").write_text(f"{where} {int(reads)}")


def enter():
    for path in {group("cpu"), group("blkio" if not V2 else "io")}:
        (path / ("cgroup.procs" if V2 else "tasks")).write_text("0")


def run(sessions, update_pct, capacity):
    limit(capacity["cpu"], capacity["reads"])
    args = [PETAL, "run", "-s", "1", "-t", str(sessions), "--update-pct", str(update_pct)]
    args += ["--run-time", str(SECONDS), "--json", "--out", str(WORK / "out")]
    if "rate" in capacity:
        args += ["--rate", f"{capacity['rate']:g}", "--arrivals", "even"]
    if "think" in capacity:
        ms = capacity["think"]
        args += ["--think-tm-frequency", "1", "--think-tm-min", f"{ms / 1e3:g}", "--think-tm-max", f"{ms / 1e3:g}"]
    done = subprocess.run(args, cwd=WORK, preexec_fn=enter, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        sys.exit(f"{' '.join(args)}\n{done.stdout}{done.stderr}")
    shown = json.loads(done.stdout)
    return shown["per_second"]["ops"], shown["limited_by"]


def experiment(sessions, more, capacity):
    limit(capacity["cpu"], capacity["reads"])
    args = [PETAL, "run", "-s", "1", "-t", str(sessions), *more.split(), "--elasticity", "--json"]
    args += ["--run-time", str(EXPERIMENT_SECONDS), "--out", str(WORK / "out")]
    done = subprocess.run(args, cwd=WORK, preexec_fn=enter, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        sys.exit(f"{' '.join(args)}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def experiments():
    names = ["processors", "reads", "read_latency", "commits", "sessions"]
    print("\n| situation | " + " | ".join(name.replace("_", " ") for name in names) + " | petal says | right |")
    print("|---" * (len(names) + 3) + "|")
    for name, sessions, more, capacity, truth in EXPERIMENTS:
        shown = experiment(sessions, more, capacity)
        found = {it["of"]: it for it in shown["elasticity"] if it["elasticity"] is not None}
        times = {of: found[of]["elasticity"] for of in ("processors", "reads", "commits") if of in found}
        least = min(times, key=times.get)
        ok = truth == (least if times[least] <= -LEAST else "none")
        cell = lambda it: "-" if it is None else "{:.2f} ({:.2f} to {:.2f})".format(it["elasticity"], *it["interval"])
        cells = " | ".join(cell(found.get(of)) for of in names)
        print(f"| {name} | {cells} | {shown['limited_by']['words'].split(' on ')[0]} | {'yes' if ok else 'NO'} |", flush=True)


def median(values):
    return sorted(values)[(len(values) - 1) // 2]


def main():
    subprocess.run([PETAL, "setup", "--scale", "128M", "-s", "1"], cwd=WORK, check=True, capture_output=True)
    if not os.environ.get("ONLY_EXPERIMENTS"):
        compare()
    experiments()


def compare():
    right = judged = 0
    print("| situation | sessions | processors | I/O limit | RATE | think time | petal says | right |")
    print("|---|---|---|---|---|---|---|---|")
    for name, sessions, update_pct, capacity in SITUATIONS:
        rates, base = {}, []
        for _ in range(ROUNDS):
            base.append(run(sessions, update_pct, capacity))
            for key in capacity:
                for factor in (1 - STEP, 1 + STEP):
                    # Think time is the inverse of a capacity.
                    by = 1 / factor if key == "think" else factor
                    rate, _ = run(sessions, update_pct, {**capacity, key: capacity[key] * by})
                    rates.setdefault((key, factor), []).append(rate)
        span = math.log((1 + STEP) / (1 - STEP))
        elastic = {
            key: math.log(median(rates[key, 1 + STEP]) / median(rates[key, 1 - STEP])) / span
            for key in capacity
        }
        said = median([(SAID.get(it["by"], "none"), it["words"]) for _, it in base])
        most = max(elastic, key=elastic.get)
        truth = {key for key in elastic if elastic[key] >= elastic[most] - 0.1} if elastic[most] >= LEAST else {"none"}
        ok = said[0] in truth
        right, judged = right + ok, judged + 1
        cells = [f"{elastic[key]:.2f}" if key in elastic else "-" for key in WORDS]
        words = said[1].split(' on ')[0]
        print(f"| {name} | {sessions} | {' | '.join(cells)} | {words} | {'yes' if ok else 'NO'} |", flush=True)
    print(f"\n{right} of {judged} verdicts name the resource of the largest elasticity.")


main()
