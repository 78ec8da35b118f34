"""Every n-th request for memory fails, of every verb: how they are called, and what has to come of each try.

tests/short_memory.c, preloaded, fails them and says from where each was asked. A try fails the first or the last request of one chain of
callers: that one only, or all that follow, too. The program has to say so and end with exit code 1, leaving no file that is not
whole, or do what it would have done."""
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile

LIMIT_CPU_S, TIMES_AS_LONG = 20, 20  # a try may compute for so long, or so many times as long as the call does otherwise
LIMIT_S = 600  # of the clock, for what waits for ever: far more than other work on the machine makes of it
SAID = re.compile(r"out of memory|no memory|Cannot allocate memory", re.I)
GPT = {"model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 32, "n_positions": 16}


def safetensors(shapes):
    """A file of zeros."""
    header, bytes_ = {}, 0
    for name, shape in shapes.items():
        size = 4
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [bytes_, bytes_ + size]}
        bytes_ += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(bytes_)


def gpt2_shapes(hidden, vocab, positions):
    shapes = {"wte.weight": [vocab, hidden], "wpe.weight": [positions, hidden]}
    for name, shape in (("ln_1", None), ("attn.c_attn", [hidden, 3 * hidden]), ("attn.c_proj", [hidden, hidden]), ("ln_2", None),
                        ("mlp.c_fc", [hidden, 4 * hidden]), ("mlp.c_proj", [4 * hidden, hidden])):
        shapes |= {f"h.0.{name}.weight": shape or [hidden], f"h.0.{name}.bias": [shape[1]] if shape else [hidden]}
    return shapes | {"ln_f.weight": [hidden], "ln_f.bias": [hidden]}


class Calls:
    """Of every verb; given: a folder with what they read, made by the program itself."""

    def __init__(self, cleave, root, given):
        self.cleave, self.root, self.given = cleave, pathlib.Path(root).resolve(), pathlib.Path(given)
        corpus, data = self.root / "tests/fuzz/corpus", self.root / "tests/data"
        hf = self.given / "hf"
        hf.mkdir(parents=True)
        (hf / "config.json").write_text(json.dumps(GPT))
        (hf / "model.safetensors").write_bytes(safetensors(gpt2_shapes(16, 32, 16)))
        (self.given / "text").write_bytes(bytes(i % 32 for i in range(4096)))
        tiny = ("plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32")
        plan, other, alone, launch, hf_plan, saves = (self.given / name for name in ("plan.json", "other.json", "alone.json", "launch.json", "hf.json", "saves"))
        aimed = ("plan", "gpt2", "--cluster", "1x2:h100-sxm", "--batch", 4, "--seq", 512)
        job = ("run", plan, "--steps", 2, "--json")
        two = ("-n", 2, "--transport", "tcp")
        self.calls = {
            "plan": (*tiny, "-o", "out.json"),
            "plan, pipelines and trees": ("plan", "tiny-towers", "--cluster", "2x2:cpu", "--batch", 8, "--dtype", "fp32", "-o", "out.json"),
            "plan --target": (*aimed, "--target", "megatron-lm", "--time-limit", 60, "-o", "out.json"),
            "plan --objective": (*aimed, "--objective", "cost", "--price", "h100-sxm=2", "--time-limit", 60, "-o", "out.json"),
            "estimate": ("estimate", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 64),
            "estimate --from": ("estimate", "--from", "megatron-lm", corpus / "megatron_one_node.sh", "--cluster", "1x8:h100-sxm"),
            "estimate --from, a file beside": ("estimate", "--from", "deepspeed", self.given / "run.sh", "--model", "tiny-gpt", "--cluster", "1x2:h100-sxm", "--batch", 2,
                                               "--seq", 16),
            "recommend": ("recommend", "gpt2", "--among", "1x1:h100-sxm,1x2:h100-sxm", "--batch", 4, "--seq", 512, "--tokens", "1e9", "--target-time", "30d", "--jobs", 1),
            "show": ("show", plan),
            "explain": ("explain", plan),
            "check": ("check", plan),
            "diff": ("diff", plan, other),
            "simulate": ("simulate", plan, "--trace", "out.json"),
            "profile": ("profile", "tiny-gpt", "--seq", 16, "--batch", 4, "--time-limit", 1, "-o", "out.json"),
            "run": job,
            "run, a process each": (*job, *two),
            "run --checkpoint": (*job, "--checkpoint", "saves", "--every", 1),
            "run --checkpoint, a process each": (*job, *two, "--checkpoint", "saves", "--every", 1),
            "run --resume": ("run", plan, "--steps", 3, "--json", "--resume", saves),
            "run --checkpoint, one rank": ("run", alone, "--steps", 2, "--json", "--checkpoint", "saves", "--every", 1),
            "run --resume, one rank": ("run", alone, "--steps", 3, "--json", "--resume", saves),
            "run --from-hf": ("run", hf_plan, "--from-hf", hf, "--data", self.given / "text", "--steps", 1, "--json", "--to-hf", "written"),
            "compare": ("compare", plan, other, "--run", "--rounds", 1, "--steps", 2, "--report", "out.html", "--markdown", "out.md"),
            "validate": ("validate", data / "measurements.csv", "-o", "out.csv", "--jobs", 1, "--svg", "out.svg"),
            "calibrate": ("calibrate", data / "measurements.csv", "-o", "out.json", "--jobs", 1),
            "partition": ("partition", self.given / "graph.txt", "--format", "pipedream", "--machines", "2,2", "--bandwidth", "10e9,1.25e9"),
            "import": ("import", corpus / "model_llama3.json", "-o", "out.json"),
            "import --safetensors": ("import", hf / "config.json", "--safetensors", hf / "model.safetensors", "-o", "out.json"),
            "import --from galvatron": ("import", "--from", "galvatron", self.root / "benchmarks/cases/peers/galvatron", "--model", "llama-2-7b", "--cluster",
                                        "1x8:a100-sxm-80", "-o", "out.json"),
            "export": ("export", launch, "--to", "megatron-lm", "-o", "out"),
            "discover": ("discover", "--nccl-topo", corpus / "dump_dgx_a100.xml", "--nodes", 4, "-o", "out.json"),
            "devices": ("devices", "--json"),
            "dimensions": ("dimensions",),
            "schedules": ("schedules",),
            "schema": ("schema", "--json"),
            "doctor": ("doctor",),
            "--version": ("--version",),
            "--completion": ("--completion", "bash"),
            "--man-page": ("--man-page", "plan"),
            "help": ("help", "run"),
        }
        # its last word wants more room than those before it
        (self.given / "run.sh").write_text(f"ARGS=(--num_gpus 2 train.py --deepspeed ds.json --nobody_knows {'x' * 100})\ndeepspeed \"${{ARGS[@]}}\"\n")
        (self.given / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 2}, "nobody": {"knows": "this"}}))
        (self.given / "graph.txt").write_text(
            "".join(f"node{i} -- Linear(x) -- forward_compute_time={i % 3 + 1}.000, backward_compute_time={i % 2 + 2}.000, "
                    f"activation_size={1000 * i}.0, parameter_size={4000 * (i % 4)}.000\n" for i in range(1, 9)) +
            "".join(f"\tnode{i} -- node{i + 1}\n" for i in range(1, 8)))
        for words in ((*tiny, "-o", plan), (*tiny, "--fix", "pp=2,recompute=full", "-o", other), (*tiny[:3], "1x1:cpu", *tiny[4:], "-o", alone), (*aimed, "--target", "megatron-lm", "-o", launch),
                      ("plan", hf / "config.json", "--cluster", "1x2:cpu", "--batch", 4, "--seq", 16, "--dtype", "fp32", "-o", hf_plan),
                      ("run", plan, "--steps", 2, "--checkpoint", saves)):
            subprocess.run([cleave, *map(str, words)], check=True, capture_output=True, timeout=120)


def children_cpu_s():
    """Of those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Short:
    """Tries of one program. library: tests/short_memory.c, built."""

    def __init__(self, cleave, root, library, work, environment=None):
        self.library, self.work, self.environment = os.path.abspath(library), work, environment or {}
        self.limit_cpu_s = 10 * LIMIT_CPU_S
        self.calls = Calls(cleave, root, os.path.join(work, "given"))

    def call(self, name, at, rank=None, sites=None):
        """Exit code (None: it did not end), what it wrote, what it said, and its files."""
        with tempfile.TemporaryDirectory(dir=self.work) as place:
            environment = {**os.environ, **self.environment, "LD_PRELOAD": self.library, "CLEAVE_SHORT_MEMORY": at, "HOME": place}
            environment |= {"CLEAVE_SHORT_RANK": rank} if rank else {}
            environment |= {"CLEAVE_SHORT_SITES": sites} if sites else {}
            process = subprocess.Popen([self.calls.cleave, *map(str, self.calls.calls[name])], cwd=place, env=environment, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (self.limit_cpu_s, self.limit_cpu_s + LIMIT_CPU_S))
            try:
                out, said = process.communicate(timeout=LIMIT_S)
                code = None if process.returncode == -signal.SIGXCPU else process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, said = process.communicate()
                code = None
            files = {str(path.relative_to(place)): path.read_bytes() for path in pathlib.Path(place).rglob("*") if path.is_file()}
            return code, out, said, files

    def known(self, name):
        """What it does with all the memory it asks for: the same again, or at least of the same form."""
        before_s = children_cpu_s()
        first = self.call(name, "0")
        self.limit_cpu_s = max(LIMIT_CPU_S, int(TIMES_AS_LONG * (children_cpu_s() - before_s)))
        second = self.call(name, "0")
        if first[0] != 0:
            raise SystemExit(f"{name}: exit {first[0]}\n{first[2]}")
        return {"out": first[1], "out_steady": first[1] == second[1],
                "files": {f: (data, second[3].get(f) == data) for f, data in first[3].items()}}

    def wrong(self, known, code, out, said, files):
        """What is wrong with a try, or None."""
        if code is None:
            return "does not end"
        if "forks beside" in said:
            return "forks beside threads"
        if code not in (0, 1):
            return f"exit {code}"
        for file, data in files.items():
            file_known, steady = known["files"].get(file, (None, False))
            same_place = [f for f in known["files"] if re.sub(r"save-\d+", "save-1", f) == re.sub(r"save-\d+", "save-1", file)]
            save = re.match(r"(saves/step-\d+\.save-\d+)/", file)
            if save and f"{save[1]}/manifest.json" in files:
                continue  # an earlier save, which is whole
            if not same_place:
                return f"leaves {file}"
            if steady and data != file_known:
                return f"leaves {file} with other bytes"
            if file.endswith(".json") and not steady:
                try:
                    json.loads(data)
                except ValueError:
                    return f"leaves {file} half-written"
        if code == 1:
            return None if SAID.search(said) else "does not say why"
        if set(known["files"]) - set(files):
            return f"leaves out {sorted(set(known['files']) - set(files))}"
        # why a library is absent the dynamic linker says in full, or where it lacks memory for that in part
        same = re.sub("absent: .*", "absent", out) == re.sub("absent: .*", "absent", known["out"]) or not known["out_steady"]
        return None if same or SAID.search(out) else "another answer"

    def sites(self, name, rank):
        """First and last request of each chain of callers."""
        path = os.path.join(self.work, "sites")
        if os.path.exists(path):
            os.unlink(path)
        self.call(name, "0", rank, path)
        with open(path, encoding="ascii") as file:
            return sorted(tuple(map(int, line.split()[:2])) for line in file)

    def tries(self, name):
        """(rank, at) of all tries of a call."""
        for rank in ("none", "0", "1") if "a process each" in name else (None,):
            for n in sorted({n for site in self.sites(name, rank) for n in site}):
                yield rank, str(n)
                yield rank, f"{n}+"

    def sweep(self, name, most=None, jobs=2, alone=False):
        """alone: of each chain the first request and the last, and never all from there on. Returns how many tries there were, of all or of at most so many spread over them, and a list of those that went wrong:
        (rank, at, what, said)."""
        known, tries = self.known(name), list(self.tries(name))
        if alone:
            tries = [(rank, at) for rank, at in tries if not at.endswith("+")]
        step = 1 if not most else max(1, len(tries) // most) | 1  # odd: of both kinds
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            results = pool.map(lambda t: (t, self.call(name, t[1], t[0])), tries[::step])
            failed = [(*t, wrong, result[2][-300:]) for t, result in results if (wrong := self.wrong(known, *result))]
        return len(tries[::step]), failed
