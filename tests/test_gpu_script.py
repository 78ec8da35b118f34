#!/usr/bin/env python3
"""The script that measures a GPU does what it says, tried on the processor: its parts, its rows, that a second call goes on where the
first one ended, that what fails is a row and a bar, what each row is judged by, and how PyTorch's side ends where it fails.

usage: test_gpu_script.py SOURCE_ROOT BUILD_ROOT"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
sys.dont_write_bytecode = True
from gpu_scripts import HIDES_TORCH, check, end

root, build = sys.argv[1:3]


def call(folder, *words, commit="0123456789abcdef", status=0, torch=None):
    """Runs the script with a git that names this commit and no changes, and with a PyTorch of this text (None: no module of that
    name); its output."""
    git = pathlib.Path(folder, "bin", "git")
    git.parent.mkdir(exist_ok=True)
    git.write_text(f"#!/bin/sh\ncase \"$*\" in *rev-parse*) echo {commit};; esac\n", encoding="utf-8")
    git.chmod(0o755)
    environment = {**os.environ, "PATH": f"{git.parent}:{os.environ['PATH']}", "PYTHONPATH": os.path.join(folder, "python")}
    pathlib.Path(folder, "python", "torch").mkdir(parents=True, exist_ok=True)
    pathlib.Path(folder, "python", "sitecustomize.py").write_text("" if torch else HIDES_TORCH, encoding="utf-8")
    pathlib.Path(folder, "python", "torch", "__init__.py").write_text(torch or "", encoding="utf-8")
    done = subprocess.run([sys.executable, os.path.join(root, "benchmarks", "gpu", "first_day"), *words, "--build", build, "--results", os.path.join(folder, "results"),
                           "--work", os.path.join(folder, "work"), "--steps", "4"], text=True, capture_output=True, check=False, env=environment)
    check(f"status of {' '.join(words)}", done.returncode == status, f"{done.returncode}, expected {status}: {done.stdout[-600:]}{done.stderr[-600:]}")
    return done.stdout


def loaded():
    loader = importlib.machinery.SourceFileLoader("first_day", os.path.join(root, "benchmarks", "gpu", "first_day"))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("first_day", loader))
    loader.exec_module(script)
    return script


def spoken(notes, asked):
    """The row of speed of a GPU whose run says these notes; asked: gets the steps of each run."""
    script = loaded()
    script.plan = lambda *_: "plan.json"
    script.parameters = lambda *_: 1

    def run(part, path, steps, *more):
        asked.append(steps)
        return [], [0.5] * steps, {"notes": notes} if notes else {}
    script.run = run
    part = types.SimpleNamespace(options=types.SimpleNamespace(backend="cuda", steps=4, device="h200-sxm"), bench=types.SimpleNamespace(path=lambda name: name),
                                 identity={"versions": {"torch": None}})
    return script.speed_row(part, "tiny", "tiny-gpt", 4)


def recorded(kernels, notes):
    """The row of records of a GPU that keeps these, or none and says why; and what its run was asked for."""
    script, asked = loaded(), []
    parts, path_of = sys.modules["parts"], lambda name: os.path.join(folder, name)

    def run(part, path, steps, *more):
        asked.extend([path, *more])
        rank = {"breakdown_s": {"compute": 0.5}} | ({"kernels": kernels} if kernels else {})
        events = [{"name": "product", "cat": "kernel", "dur": 2.0, "args": {"of": f"{layer}.attention.q forward"}} for layer in (1, 2)]
        with open(path_of("gpu-kernels-tiny.json"), "w", encoding="utf-8") as file:
            json.dump({"traceEvents": [*events, {"name": "load", "cat": "load", "dur": 9.0}]}, file)
        return [11.0], [0.5] * steps, {"timeline_step_s": 0.5, "ranks": [rank]} | ({"notes": notes} if notes else {})
    kept, parts.run = parts.run, run
    with tempfile.TemporaryDirectory() as folder:
        part = types.SimpleNamespace(bench=types.SimpleNamespace(path=path_of), options=types.SimpleNamespace(backend="cuda"))
        row = script.kernels_row(part, "tiny", "plan.json")
    parts.run = kept
    return row, [os.path.basename(word) for word in asked]


def judged(row, share=None, backend="cuda"):
    """(bars, rows without one) of a row of speed."""
    script = loaded()
    part = types.SimpleNamespace(bench=types.SimpleNamespace(bars=[]), options=types.SimpleNamespace(backend=backend), without_bar={})
    part.bench.bar = lambda *words: script.bench.Bench.bar(part.bench, *words)
    script.judge_speed(part, "model", row, share)
    return part.bench.bars, part.without_bar


def stored(folder, part):
    return json.loads(pathlib.Path(folder, "results", f"gpu-{part}-dry.json").read_text(encoding="utf-8"))


bars, without = judged({"mfu": 0.9, "times_torch": 0.5}, 0.45)
check("slower than PyTorch fails, whatever the MFU", [b["passed"] for b in bars] == [False] and not without, bars)
bars, without = judged({"mfu": 0.1, "times_torch": 1.1})
check("faster than PyTorch passes", [b["passed"] for b in bars] == [True] and not without, bars)
bars, without = judged({"mfu": 0.9, "torch_error": "out of memory"}, 0.45)
check("PyTorch that fails is no reason to judge by MFU", [b["passed"] for b in bars] == [False] and "out of memory" in bars[0]["text"], bars)
bars, without = judged({"mfu": 3.9, "times_torch": 100.0}, 0.45)
check("more than the device can do fails, whoever is slower", [b["passed"] for b in bars] == [False] and not without, bars)
check("without PyTorch the MFU counts", [judged({"mfu": mfu}, 0.45)[0][0]["passed"] for mfu in (0.44, 0.46)] == [False, True])
bars, without = judged({"mfu": 0.9})
check("without PyTorch and a share there is no bar", bars == [] and "no share" in without["model"], (bars, without))

bars, without = judged({"slow": "attention forward goes by an own kernel: cuDNN: no engine"}, 0.45)
check("attention by own kernels fails at once, with the reason", [b["passed"] for b in bars] == [False] and "no engine" in bars[0]["text"], (bars, without))
asked = []
for notes in ([], ["first", "second"]):
    row = spoken(notes, asked)
    check("the time of a run that says why it is slow does not count", row.get("slow") == ("first; second" if notes else None) and asked == [4] and
          ("step_s" in row) == (not notes), (row, asked))
    asked.clear()
row, asked_of_run = recorded({"kernels": 7}, [])
check("records of a step", row["kernels"] == {"kernels": 7} and "absent" not in row and row["first_loss"] == 11.0 and
      [(k["name"], k["of"], k["count"], round(k["seconds"] * 1e6)) for k in row["by_name"]] == [("product", "attention.q forward", 2, 4)] and asked_of_run == ["plan.json", "--kernels", "--timeline", "gpu-kernels-tiny.json"],
      (row, asked_of_run))
check("why there are no records", recorded(None, ["kernels are not recorded"])[0]["absent"] == "kernels are not recorded")
script, bars = loaded(), []
script.speed_row = lambda *_: {"slow": "why"}
script.torch_row = lambda *_: asked.append("torch")
script.kernels_row = lambda *_: {}
script.speed(types.SimpleNamespace(bench=types.SimpleNamespace(notes={}, bar=lambda *words: bars.append(words), path=lambda name: name),
                                   options=types.SimpleNamespace(backend="cuda"), asked=lambda case: True,
                                   identity={"versions": {"torch": "2"}}, without_bar={}, row=lambda name, make, *_: make()))
check("what is slow is not compared with PyTorch", not asked and len(bars) == len(script.MODELS["cuda"]) and all("(why)" in bar[0] for bar in bars), (asked, bars))



def part_of(folder, backend):
    """A part of the script whose commands are this machine's."""
    script = loaded()
    options = types.SimpleNamespace(results=os.path.join(folder, "results"), build=build, work=os.path.join(folder, "work"), backend=backend, device="h200-sxm", only=None)
    return script, script.Part("trial", options, {"description": "a GPU", "versions": {}}, time.monotonic() + 600)


with tempfile.TemporaryDirectory() as folder:
    script, part = part_of(folder, "cuda")
    statuses = {"passes": 0, "fails": 3, "skips": 77}
    script.HANGS_S = 0.2
    hung = script.test_row(part, [sys.executable, "-c", "import time; time.sleep(9)"], {})
    check("a test that hangs failed", "no end after 0.2 s" in hung["failed"], hung)
    script.HANGS_S = 240
    part.for_people = True
    check("a part for people alone fails nothing", part.finish() == 0)
    part.for_people = False
    check("any other part without a bar does", part.finish() == 1)
    script.gpu_tests = lambda _: [(name, ["sh", "-c", f"echo {name}; exit {status}"], {}) for name, status in statuses.items()]
    script.run_tests(part, lambda name: True)
    rows = {row["case"]: row for row in part.bench.rows}
    check("tests that fail and that are skipped are rows", rows["fails"]["failed"] == "fails" and rows["skips"]["skipped"] == "skips" and "failed" not in rows["passes"], rows)
    check("where there is a GPU a skipped test failed", not part.bench.bars[-1]["passed"] and part.bench.bars[-1]["value"] == 2, part.bench.bars)
    check("a command that fails is a row and a bar", part.row("broken", lambda: {"told": part.cleave("plan", "no-such-model")}) is None and
          "no-such-model" in part.bench.rows[-1]["failed"] and not part.bench.bars[-1]["passed"], part.bench.rows[-1])
    check("the part goes on", part.row("whole", lambda: {"told": 1}) == {"case": "whole", "told": 1} and part.finish() == 1)
    check("numbers that are none are a row", part.row("odd", lambda: {"ratio": None / 2}) is None and "TypeError" in part.bench.rows[-1]["failed"])
    again = part_of(folder, "cuda")[1]
    check("what failed is tried again", not again.kept or set(again.kept) == {"passes", "whole"}, again.kept)
    empty = part_of(folder, "cuda")[1]
    script.gpu_tests = lambda _: []
    script.run_tests(empty, lambda name: True)
    check("without a single test none passed", not empty.bench.bars and empty.without_bar and empty.finish() == 1, (empty.bench.bars, empty.without_bar))
    check("losses that are none", [script.are_losses(values) for values in ([10.8, 10.7], [10.8, None], [10.8, float("nan")], [0.0], [])] == [True] + 4 * [False])
    os.environ["LD_LIBRARY_PATH"] = "/machine"
    told = part_of(folder, "cuda")[1].command("sh", "-c", "echo $LD_LIBRARY_PATH", environment={"LD_LIBRARY_PATH": "/test"}).stdout.strip()
    check("a test's folders of libraries come before the machine's", told == "/test:/machine", told)
    del os.environ["LD_LIBRARY_PATH"]

with tempfile.TemporaryDirectory() as folder:
    call(folder, "speed", "--backend", "cpu", "--minutes", "0", status=2)
    first = stored(folder, "speed")
    check("without time nothing is done", first["verdict"] == "UNFINISHED" and first["rows"] == [], first)
    call(folder, "speed", "--backend", "cpu", "--only", "gpt")
    call(folder, "speed", "--backend", "cpu")
    speed = stored(folder, "speed")
    rows = speed["rows"]
    check("no row of a trial has a bar", speed["verdict"] == "NO BAR" and list(speed["without_bar"]) == ["tiny-gpt", "tiny-llama"], speed)
    check("versions", set(speed["versions"]) == {"driver", "cuda_runtime", "cublaslt", "attention", "nccl", "torch"} and not speed["versions"]["torch"],
          speed["versions"])
    check("rows of speed", [r["case"] for r in rows] == ["tiny-gpt", "tiny-llama"] and all(r["tokens_per_s"] > 0 for r in rows), rows)
    # 6 N + 6 L C T of the description: 4 x 3 heads' widths and so on are the model's own numbers
    with open(os.path.join(root, "models", "zoo", "tiny-gpt.json"), encoding="utf-8") as file:
        tiny = json.load(file)
    repeats = next(layer["repeat"] for layer in tiny["layers"] if "repeat" in layer)
    shown = subprocess.run([os.path.join(build, "cli", "cleave"), "show", os.path.join(folder, "work", "gpu-tiny-gpt.json")], text=True, capture_output=True,
                           check=True).stdout.split()
    parameters = int(shown[shown.index("parameters") - 1])
    check("operations per token", rows[0]["flops_per_token"] == 6 * parameters + 6 * repeats * tiny["hidden"] * tiny["sequence"], rows[0])
    call(folder, "speed", "--backend", "cpu")
    check("a second call keeps what is there", stored(folder, "speed")["rows"] == rows, stored(folder, "speed")["rows"])
    call(folder, "speed", "--backend", "cpu", "--only", "llama")
    check("cases that were not asked for stay in the file", stored(folder, "speed")["rows"] == rows, stored(folder, "speed")["rows"])
    call(folder, "speed", "--backend", "cpu", "--only", "gpt", commit="fedcba9876543210")
    check("another commit begins anew", stored(folder, "speed")["rows"] != rows[:1], rows)
    said = call(folder, "speed", "--backend", "cpu", "--only", "gpt", status=1, torch="raise ImportError('it is broken')\n")
    speed = stored(folder, "speed")
    check("PyTorch that does not import", speed["verdict"] == "FAIL" and "it is broken" in speed["rows"][1]["torch_error"] and
          "it is broken" in speed["versions"]["torch"]["error"] and "it is broken" in said, speed)
    call(folder, "correct", "--backend", "cpu", "--only", "zero-1")
    correct = stored(folder, "correct")
    check("losses of plans are compared", [r["case"] for r in correct["rows"]] == ["single", "zero-1"] and len(correct["rows"][0]["losses"]) == 20 and
          len(correct["bars"]) == 1, correct)
    call(folder, "environment", "step", "sanitizer", "--backend", "cpu", "--minutes", "3")
    check("what a machine is", stored(folder, "environment")["rows"][0]["processors"] == os.cpu_count(), stored(folder, "environment"))
    check("steps of the smallest model", stored(folder, "step")["rows"][0]["first_loss"] > 1, stored(folder, "step"))
    call(folder, "prophesy", "--backend", "cpu", status=3)
    call(folder, "predict", "--backend", "cpu", "--only", "gpt")
    predicted = stored(folder, "predict")
    check("predictions stand before runs", [r["case"] for r in predicted["rows"]] == ["predict tiny-gpt", "tiny-gpt"] and
          predicted["rows"][1]["predicted_step_s"] == predicted["rows"][0]["predicted_step_s"] and predicted["commit"] == "0123456789abcdef", predicted)
end()
