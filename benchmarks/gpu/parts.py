"""What the parts of benchmarks/gpu/first_day share: rows that are kept as soon as each is there, what a row's numbers depend on, plans and
runs."""
import ctypes
import glob
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import time
sys.dont_write_bytecode = True
import bench

UNFINISHED = 2
AGAIN = {"failed", "skipped", "absent", "torch_error", "slow"}  # rows that have one of these are not kept: the next call tries again
# What a program that says the unexpected leads to: a row and a bar, after which the rest goes on.
FAILURES = (bench.Failed, LookupError, ValueError, TypeError, ArithmeticError, OSError)
NVIDIA_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/run/opengl-driver/lib")


class Late(Exception):
    """The part's time is up."""


class Part:
    """Rows of one part, kept in its result file as soon as each is there. end: when its time is up, by time.monotonic()."""

    def __init__(self, name, o, gpu, end):
        o.results = os.path.abspath(o.results)
        self.bench, self.options = bench.Bench(f"gpu-{name}-{o.device if o.backend == 'cuda' else 'dry'}", o), o
        self.bench.any_load = True
        self.end = end
        # uncommitted changes make two trees alike; of those nothing is kept
        self.identity = {"device": gpu["description"], "versions": gpu["versions"], "commit": bench.commit()}
        self.file = os.path.join(o.results, self.bench.name + ".json")
        self.kept = {} if self.identity["commit"].endswith("with changes") else self.read()
        self.missing, self.without_bar, self.for_people = [], {}, False

    def read(self):
        if not os.path.exists(self.file):
            return {}
        with open(self.file, encoding="utf-8") as file:
            stored = json.load(file)
        same = all(stored.get(key) == value for key, value in self.identity.items())
        return {row["case"]: row for row in stored["rows"] if not AGAIN & set(row)} if same else {}

    def left(self):
        left = self.end - time.monotonic()
        if left <= 5:
            raise Late
        return left

    def asked(self, case):
        return not self.options.only or self.options.only in case

    def row(self, case, make, asked=None):
        """The row of a case: the kept one, or what make() gives. None: there is none and it was not asked for, no time, or it failed, which is a
        row and a bar."""
        row = self.kept.get(case)
        if not row and not (self.asked(case) if asked is None else asked):
            return None
        if not row:
            try:
                self.left()
                row = {"case": case, **make()}
            except (Late, subprocess.TimeoutExpired):
                self.missing.append(case)
                bench.say(f"{case:28} no time")
                return None
            except FAILURES as why:
                row = {"case": case, "failed": f"{type(why).__name__}: {why}"[-1500:]}
                self.bench.bar(f"{case}: failures", 1, 0, "", 1)
        self.bench.rows.append(row)
        self.store("unfinished")
        shown = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items() if not isinstance(v, (list, dict)) and k != "case")
        bench.say(f"{case:28} {shown}")
        return None if "failed" in row else row

    def store(self, verdict):
        b = self.bench
        os.makedirs(self.options.results, exist_ok=True)
        bench.write_json(self.file, {"benchmark": b.name, "verdict": verdict, "created": bench.now(), **self.identity,
                                     "machine": bench.machine(b), "commands": b.commands, **b.notes, "rows": b.rows, "bars": b.bars,
                                     "without_bar": self.without_bar})

    def finish(self):
        b = self.bench
        passed = all(bar["passed"] for bar in b.bars)
        verdict = "UNFINISHED" if self.missing else "FAIL" if not passed else "PASS" if b.bars else "NO BAR"
        for bar in b.bars:
            bench.say(f"{'PASS' if bar['passed'] else 'FAIL'}  {bar['text']}")
        for case, why in self.without_bar.items():
            bench.say(f"NO BAR  {case}: {why}")
        self.store(verdict)
        bench.say(f"{verdict}  {b.name}: {len(b.rows)} rows" + (f", {len(self.without_bar)} without a bar" if self.without_bar else "") +
                  (f", {len(self.missing)} left: call again" if self.missing else ""))
        return UNFINISHED if self.missing else 0 if verdict == "PASS" or (verdict == "NO BAR" and (self.for_people or self.options.backend == "cpu")) else 1

    def command(self, *words, environment=None, folder=bench.ROOT, most_s=float("inf")):
        """What it said and its status; ends with the part's time, or after most_s. environment: of libraries' folders it adds to what there is."""
        joined = {**self.bench.environment, **(environment or {})}
        both = [of.get("LD_LIBRARY_PATH") for of in (environment or {}, self.bench.environment)]
        if any(both):
            joined["LD_LIBRARY_PATH"] = ":".join(filter(None, both))
        done = subprocess.run(words, cwd=folder, env=joined, text=True, timeout=min(self.left(), most_s), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
        line = " ".join([os.path.basename(words[0]), *words[1:]])
        if line not in self.bench.commands:
            self.bench.commands.append(line)
        return done

    def cleave(self, *words):
        done = self.command(self.bench.cleave, *words)
        if done.returncode != 0:
            raise bench.Failed(f"cleave {' '.join(words)}: {done.stderr.strip()[-1500:]}", done.returncode)
        return done.stdout


def loads(name):
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def library_folders():
    """Folders of NVIDIA's libraries that are on no path of the loader: those of PyTorch's wheels; the driver's where it is not found."""
    spec = importlib.util.find_spec("nvidia")
    wheels = [folder for root in (spec.submodule_search_locations or [] if spec else []) for folder in sorted(glob.glob(os.path.join(root, "*", "lib")))]
    drivers = [] if loads("libcuda.so.1") else [folder for folder in NVIDIA_FOLDERS if glob.glob(os.path.join(folder, "libcuda.so.1"))]
    return drivers + wheels


def find_libraries():
    """Every program that this one starts finds them, too."""
    had = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, dict.fromkeys([*had, *library_folders()])))
    if not os.environ["LD_LIBRARY_PATH"]:
        del os.environ["LD_LIBRARY_PATH"]


def driver():
    if not shutil.which("nvidia-smi"):
        return None
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], text=True, capture_output=True,
                          check=False)
    return done.stdout.strip() or None


def linked(module):
    """Files that the loader finds for a module, by the part of their name before .so."""
    own = [os.path.join(bench.ROOT, "lib"), os.environ.get("LD_LIBRARY_PATH")]
    packed = {"LD_LIBRARY_PATH": ":".join(filter(None, own))}
    done = subprocess.run(["ldd", module], text=True, capture_output=True, check=False, env={**os.environ, **packed})
    words = [line.split() for line in done.stdout.splitlines()]
    return {w[0].split(".so")[0]: w[2] for w in words if len(w) > 2 and w[1] == "=>" and w[2].startswith("/")}


def asked_version(file, ask):
    """What a library says of itself; why not, where it cannot be asked."""
    try:
        return ask(ctypes.CDLL(file))
    except (OSError, AttributeError) as why:
        return f"unknown: {why}"


def runtime_version(library):
    number = ctypes.c_int(0)
    return f"{number.value // 1000}.{number.value % 1000 // 10}" if library.cudaRuntimeGetVersion(ctypes.byref(number)) == 0 else "unknown"


def matmul_version(library):
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    number = library.cublasLtGetVersion()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def torch_versions():
    """None: not installed. Else its version and those of the libraries that it brings, or why it does not import."""
    if not importlib.util.find_spec("torch"):
        return None
    ask = """import json, torch
def of(ask):
    try:
        return ask()
    except Exception as why:
        return f"unknown: {type(why).__name__}"
print(json.dumps({"torch": torch.__version__, "cuda_runtime": torch.version.cuda, "cudnn": of(torch.backends.cudnn.version),
                  "nccl": of(lambda: ".".join(map(str, torch.cuda.nccl.version())))}))"""
    done = subprocess.run([sys.executable, "-c", ask], text=True, capture_output=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"error": last_line(done.stderr)}


def versions(doctor):
    """Of all that a row's numbers depend on beside this project; null: absent."""
    cuda = next((m["path"] for m in doctor["modules"] if m["name"] == "cuda" and m["found"]), None)
    files = linked(cuda) if cuda else {}

    def of(library, ask):
        return asked_version(files[library], ask) if library in files else None
    return {"driver": driver(), "cuda_runtime": of("libcudart", runtime_version), "cublaslt": of("libcublasLt", matmul_version),
            "attention": doctor.get("gpu_libraries"), "nccl": doctor["nccl"].get("description"), "torch": torch_versions()}


def last_line(text):
    return (text.strip().splitlines() or ["no output"])[-1][-300:]


def plan(part, model, batch, ranks, fix, name, *more):
    o = part.options
    path = part.bench.path(f"gpu-{name}.json")
    cluster = f"1x{ranks}:{'cpu' if o.backend == 'cpu' else o.device}"
    precision = "fp32" if o.backend == "cpu" else "bf16"
    part.cleave("plan", model, "--cluster", cluster, "--batch", str(batch), "--dtype", precision, "--time-limit", "60",
                *(["--fix", fix] if fix else []), *more, "-o", path)
    return path


def are_losses(values):
    """Losses of a real model are positive; what is no number stands as null."""
    return bool(values) and all(isinstance(value, (int, float)) and math.isfinite(value) and value > 0 for value in values)


def run(part, path, steps, *more):
    """Losses and seconds of the steps, and the summary."""
    output = bench.json_lines(part.cleave("run", path, "--backend", part.options.backend, "--steps", str(steps), "--json", *more))
    lines = [line for line in output if "step_s" in line]
    return [line["loss"] for line in lines], [line["step_s"] for line in lines], output[-1]["summary"]


def catalogue_name(look):
    """The catalogue's name of this machine's GPU, by what its driver calls it; or why there is none."""
    path = look.path("gpu-machine.json")
    try:
        look.run_cleave("discover", "-o", path)
    except bench.Failed as why:
        raise bench.Failed(f"{why}\ngive the device of `cleave devices` that it is like with --device") from why
    with open(path, encoding="utf-8") as file:
        device = json.load(file)["device"]
    return device if isinstance(device, str) else device["name"]


def by_name(timeline):
    """What ran, by the name of the kernel and what it was of: its count and seconds, the longest first."""
    with open(timeline, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    sums = {}
    for e in events:
        if e.get("cat") in ("kernel", "copy", "fill"):
            of = e.get("args", {}).get("of", "").split(".", 1)[-1]
            entry = sums.setdefault((e["name"], of), [0, 0.0])
            entry[0] += 1
            entry[1] += e["dur"] * 1e-6
    return [{"name": name, "of": of, "count": count, "seconds": seconds}
            for (name, of), (count, seconds) in sorted(sums.items(), key=lambda item: -item[1][1])]


def kernels_row(part, name, path, *more):
    """What really ran in a step, beside the events: of a run of its own, since records slow what they are of. A processor has no records."""
    timeline = part.bench.path(f"gpu-kernels-{name}.json")
    records = ["--kernels"] if part.options.backend == "cuda" else []
    losses, _, summary = run(part, path, 3, *records, "--timeline", timeline, *more)
    told = summary["ranks"][0]
    absent = {"absent": "; ".join(summary.get("notes", []))} if "kernels" not in told else {"by_name": by_name(timeline)}
    return {"timeline_step_s": summary["timeline_step_s"], "first_loss": losses[0], "breakdown_s": told["breakdown_s"], "kernels": told.get("kernels"),
            "notes": "; ".join(summary.get("notes", [])), **absent}
