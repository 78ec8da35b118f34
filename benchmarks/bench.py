"""What the benchmark scripts share: where things are, running commands, judging numbers, storing results."""
import argparse
import datetime
import importlib.machinery
import importlib.util
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, "benchmarks", "results")
CASES = os.path.join("benchmarks", "cases")
OTHERS_BAR = 0.10  # of one core
STEADY_PERCENT = 5  # runs count within a band of the machine's speed as wide
ENVIRONMENT = 1  # exit status of cleave when the machine did not do


class Failed(Exception):
    """A command failed, or its output is not what was expected. status: the command's."""

    def __init__(self, why, status=None):
        super().__init__(why)
        self.status = status


class Rejected(Exception):
    """The machine was not steady or not idle enough: the numbers mean nothing."""


def parser(text):
    p = argparse.ArgumentParser(description=text)
    p.add_argument("--build", default="build", help="the build folder (build)")
    p.add_argument("--results", default=RESULTS, help="where the JSON goes (benchmarks/results)")
    p.add_argument("--repeats", type=int, default=5, help="attempts at most, when the machine is not steady (5)")
    p.add_argument("--work", default=os.path.join("out", "benchmarks"), help="folder of intermediate files")
    return p


class Bench:
    """One benchmark: its commands, rows, bars and where they are stored."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.build = os.path.abspath(os.path.join(ROOT, options.build))
        self.cleave = os.path.join(self.build, "cli", "cleave")
        self.work = os.path.abspath(os.path.join(ROOT, options.work))
        self.commands, self.rows, self.bars, self.notes = [], [], [], {}
        self.rejections, self.peak_bytes = [], 0
        self.any_load = getattr(options, "any_load", False)
        os.makedirs(self.work, exist_ok=True)
        if not os.path.exists(self.cleave):
            raise SystemExit(f"{self.cleave}: not there; build it (scripts/build {options.build}) or give --build")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}

    def path(self, name):
        return os.path.join(self.work, name)

    def run(self, *command, extra_environment=None):
        """Runs a command from the project's folder; returns (standard output, standard error, CPU seconds). peak_bytes: its largest process,
        but at least smallest_peak_bytes()."""
        shown = [os.path.relpath(c, ROOT) if os.path.isabs(c) and c.startswith(ROOT) else c for c in command]
        line = " ".join(os.path.basename(shown[0]) if i == 0 else c for i, c in enumerate(shown))
        if line not in self.commands:
            self.commands.append(line)
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(command, cwd=ROOT, env={**self.environment, **(extra_environment or {})}, stdout=output, stderr=errors)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            errors.seek(0)
            no_room = child.returncode == 3 and command[1:2] == ("estimate",)  # what does not fit has its price, too
            if child.returncode != 0 and not no_room:
                raise Failed(f"{line}\n{errors.read().strip()[-2000:]}", child.returncode)
            self.peak_bytes = 1024 * used.ru_maxrss
            return output.read(), errors.read(), used.ru_utime + used.ru_stime

    @staticmethod
    def smallest_peak_bytes():
        """Peak memory that is recorded of any command that takes less: Linux counts what this script took when it started the command."""
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def run_cleave(self, *arguments):
        return self.run(self.cleave, *arguments)

    def run_cleave_alone(self, *arguments):
        """Standard output and error of cleave; rejected when anything else took a noticeable part of a core meanwhile."""
        meter, start = CpuMeter(), time.monotonic()
        output, errors, own_s = self.run_cleave(*arguments)
        others = (meter.share() * (os.cpu_count() or 1)) - own_s / (time.monotonic() - start)
        if others >= OTHERS_BAR and not self.any_load:
            raise Rejected(f"cleave {arguments[0]}: others used {100 * others:.0f} % of a core, allowed are {100 * OTHERS_BAR:.0f} %")
        return output, errors

    def compare_steady(self, *arguments):
        """What `cleave compare --run --json` says. Only runs count beside which the machine was as fast as beside the others, and as in
        the profile; cleave repeats the others, and the whole is rejected when too few were left."""
        steady = [] if self.any_load else ["--steady", str(STEADY_PERCENT)]
        try:
            output, _ = self.run_cleave_alone("compare", *arguments, "--run", *steady, "--json")
        except Failed as why:
            error = str(why).rpartition("error: ")[2]
            if why.status == ENVIRONMENT and error.startswith("--steady"):
                raise Rejected(f"cleave compare {error}") from why
            raise
        comparison = json.loads(output)
        failed = [f"{p['name']}: {p['failure']}" for p in comparison["plans"] if p.get("failure")]
        if failed:
            raise Failed("a plan did not run: " + "; ".join(failed))
        return comparison

    def profile_alone(self, *arguments):
        """`cleave profile`; rejected when the machine was not steady."""
        _, errors = self.run_cleave_alone("profile", *arguments)
        if "not steady" in errors and not self.any_load:
            raise Rejected("while profiling: " + errors[errors.index("the machine was not steady"):].splitlines()[0])

    def bar(self, what, value, limit, unit="%", scale=100):
        """A number that must not exceed its limit."""
        self.bars.append({"what": what, "value": value, "limit": limit, "passed": value <= limit})
        self.bars[-1]["text"] = f"{what}: {scale * value:.3g} {unit}, bar {scale * limit:.3g} {unit}"

    def attempts(self, once):
        """Runs once(attempt) until it is not rejected; False when every attempt was."""
        for attempt in range(1, self.options.repeats + 1):
            self.rows, self.bars = [], []
            try:
                once(attempt)
                return True
            except Rejected as why:
                self.rejections.append(str(why))
                say(f"attempt {attempt} rejected: {why}")
        return False

    def finish(self, valid=True, store=True):
        """Prints the bars, stores everything, and gives the exit status: 0 passed, 1 a bar was missed, 2 no valid run."""
        passed = valid and all(b["passed"] for b in self.bars)
        verdict = "PASS" if passed else "FAIL" if valid else "REJECTED"
        for b in self.bars:
            say(f"{'PASS' if b['passed'] else 'FAIL'}  {b['text']}")
        say(f"{verdict}  {self.name}" + (f"  ({len(self.rejections)} attempts rejected)" if self.rejections else ""))
        if not store:
            return 0 if passed else 1 if valid else 2
        result = {"benchmark": self.name, "verdict": verdict, "created": now(), "machine": machine(self),
                  "commit": commit(), "commands": self.commands, "rejected_attempts": self.rejections,
                  **self.notes, "rows": self.rows, "bars": self.bars}
        os.makedirs(self.options.results, exist_ok=True)
        path = os.path.join(self.options.results, self.name + ".json")
        if not valid and is_valid(path):  # what was measured before is worth more than that nothing was
            path = os.path.join(self.options.results, self.name + "_rejected.json")
        write_json(path, result)
        say(f"stored in {os.path.relpath(path, ROOT)}")
        return 0 if passed else 1 if valid else 2


def is_valid(path):
    """Whether the file has the results of a valid run."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file).get("verdict") in ("PASS", "FAIL")
    except (OSError, ValueError):
        return False


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
    return path


def say(text):
    print(text, flush=True)


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def commit():
    """Of this tree; of a pack, which is none (benchmarks/gpu/pack), of the one that it was made of."""
    packed = os.path.join(ROOT, "commit")
    if os.path.exists(packed):
        with open(packed, encoding="utf-8") as file:
            return file.read().strip()

    def git(*arguments):
        if not shutil.which("git"):
            return ""
        done = subprocess.run(["git", "-C", ROOT, *arguments], text=True, capture_output=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    # what a benchmark writes itself does not make the tree another one
    changed = [line for line in git("status", "--porcelain", "--untracked-files=no").splitlines()
               if "benchmarks/results/" not in line]
    return (git("rev-parse", "HEAD") or "unknown") + (" with changes" if changed else "")


def machine(bench):
    """As `cleave doctor` has it, and the processor's flags that decide which kernels run."""
    doctor, _, _ = bench.run_cleave("doctor")
    lines = dict(line.split(None, 1) for line in doctor.splitlines() if len(line.split(None, 1)) == 2)
    return {"machine": lines.get("machine", platform.platform()), "matmuls": lines.get("matmuls", "unknown"),
            "python": platform.python_version()}


def median(values):
    return statistics.median(values)


def spread(values):
    """Interquartile range over median."""
    if len(values) < 4:
        return (max(values) - min(values)) / median(values)
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return (quarters[2] - quarters[0]) / median(values)


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def step_times(output):
    """Seconds of the steps of a `cleave run --json`, without the first, which touches fresh memory; and its summary."""
    lines = json_lines(output)
    steps = [line["step_s"] for line in lines if "step_s" in line][1:]
    summaries = [line["summary"] for line in lines if "summary" in line]
    if not steps or not summaries:
        raise Failed("cleave run --json: steps or the summary are missing")
    return steps, summaries[0]


def real_text(bench):
    """English text: the licences that Debian and Ubuntu carry, else this project's own documents."""
    folder, parts = "/usr/share/common-licenses", []
    names = sorted(os.path.join(folder, n) for n in os.listdir(folder)) if os.path.isdir(folder) else []
    docs = os.path.join(ROOT, "docs")
    names = names or [os.path.join(ROOT, "LICENSE")] + sorted(os.path.join(docs, n) for n in os.listdir(docs) if n.endswith(".md"))
    for name in names:
        with open(name, "rb") as file:
            parts.append(file.read())
    path = bench.path("text.txt")
    with open(path, "wb") as file:
        file.write(b"".join(parts))
    return path


class CpuMeter:
    """Share of all cores that was busy between start() and share(), with everything that ran on the machine."""

    def __init__(self):
        self.before = self.read()

    @staticmethod
    def read():
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(x) for x in file.readline().split()[1:9]]  # user nice system idle iowait irq softirq steal
        idle = fields[3] + fields[4]
        return sum(fields) - idle, sum(fields)

    def share(self):
        busy, total = (b - a for a, b in zip(self.before, self.read()))
        return busy / total if total else 0.0


def runs_of(plan):
    """How often a plan of a comparison was run, and what of it counts."""
    return {key: plan[key] for key in ("timed_steps", "runs", "runs_left_out")}


def script(name):
    """Another of these scripts, for what it knows."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(ROOT, "benchmarks", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def left_out(rows):
    """Runs of all rows that did not count and were repeated."""
    return sum(row["runs_left_out"] for row in rows)


def listed(b, verb):
    """Names that a verb lists: dimensions, schedules."""
    return [row["name"] for row in json.loads(b.run_cleave(verb, "--json")[0])[verb]]


def synchronous_schedules(b):
    """Those that the planner tries unless others are named."""
    return [row["name"] for row in json.loads(b.run_cleave("schedules", "--json")[0])["schedules"] if not row["asynchronous"]]


def kinds_of(b, what):
    """The values that a plan's layers may have for a choice."""
    layers = json.loads(b.run_cleave("schema", "plan.layers", "--json")[0])["schemas"][0]
    return layers["properties"][what]["enum"]


def changed(path, change):
    """The plan file with other decisions: change(decisions)."""
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    change(plan["decisions"])
    return write_json(path, {key: plan[key] for key in ("format", "version", "decisions", "context")})


def main(body, text, add_options=None):
    sys.dont_write_bytecode = True
    p = parser(text)
    if add_options:
        add_options(p)
    options = p.parse_args()
    try:
        sys.exit(body(options))
    except Failed as why:
        say(f"FAIL  {why}")
        sys.exit(3)
