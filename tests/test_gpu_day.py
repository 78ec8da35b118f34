#!/usr/bin/env python3
"""The script that measures a GPU comes through all of its parts on one that computes nothing: it ends by itself, leaves a file of results
for each part, and says which bars fail. What such a device cannot give is a row that failed, and no number of it passes for a result.

usage: test_gpu_day.py SOURCE_ROOT BUILD_ROOT MODULE"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
sys.dont_write_bytecode = True
from gpu_scripts import HIDES_TORCH, check, end

root, build, module = map(os.path.abspath, sys.argv[1:4])
PARTS = ("environment", "step", "tests", "sanitizer", "speed", "predict", "ranks", "correct")
MODEL = "gpt2-124m"


def call(folder, *words):
    """What it said, and the results by part. It finds no PyTorch, whether this machine has one or not."""
    pathlib.Path(folder, "sitecustomize.py").write_text(HIDES_TORCH, encoding="utf-8")
    results = pathlib.Path(folder, "results" + words[0])
    done = subprocess.run([sys.executable, os.path.join(root, "benchmarks", "gpu", "first_day"), "--device", "h100-sxm", "--build", build, "--steps", "4",
                           "--minutes", "8", "--results", results, "--work", os.path.join(folder, "work"), *words], text=True, capture_output=True, check=False,
                          env={**os.environ, "CLEAVE_MODULE_DIR": os.path.dirname(module), "PYTHONPATH": folder})
    check(f"{words}: bars fail, and nothing else", done.returncode == 1 and not done.stderr, f"{done.returncode}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout, {file.stem.removeprefix("gpu-").removesuffix("-h100-sxm"): json.loads(file.read_text(encoding="utf-8")) for file in results.glob("gpu-*.json")}


def failed(result):
    return [bar["what"] for bar in result["bars"] if not bar["passed"]]


with tempfile.TemporaryDirectory() as folder:
    said, results = call(folder, "--only", MODEL)
    check("a file of each part", set(results) == set(PARTS), set(results))
    check("no part is left unfinished", all(r["verdict"] in ("FAIL", "NO BAR", "PASS") for r in results.values()), {name: r["verdict"] for name, r in results.items()})
    check("bars that fail are said", all(f"FAIL  {what}" in said for r in results.values() for what in failed(r)), said)
    check("attention without a library", failed(results["environment"]) == ["attention without cuDNN: failures"], results["environment"]["bars"])
    rows = {row["case"]: row for part in ("step", "speed", "predict") for row in results[part]["rows"] if "failed" not in row}
    check("a loss of nothing", len(failed(results["step"])) == 1 and "first loss" in failed(results["step"])[0], results["step"]["bars"])
    by_name = results["step"]["rows"][0].get("by_name", [])
    check("kernels of a step, by what they are of", [row["count"] for row in by_name if (row["name"], row["of"]) == ("product", "mlp.up forward")] == [12], by_name[:5])
    mfu = results["speed"]["rows"][0]["mfu"]  # above 1 where nothing is computed, unless the host was kept from its work; test_gpu_script.py has all cases
    check("more than the device can do is no speed", [("more operations" in what) == (mfu > 1) for what in failed(results["speed"])] == [True] * (mfu > 1 or mfu < 0.45) and
          rows[MODEL + ", kernels"]["kernels"]["kernels"] > 100, results["speed"])
    predicted, bars = rows[MODEL], {bar["what"]: bar for bar in results["predict"]["bars"]}
    time_bar = bars[f"{MODEL}: |error| of the step's time"]  # what the host alone takes varies, so the bar may pass or fail: it says which of the row
    error = abs(predicted["predicted_step_s"] / predicted["measured_step_s"] - 1)
    check("the error of a step's time is the row's", abs(time_bar["value"] - error) < 1e-9 and time_bar["passed"] == (error <= time_bar["limit"]), results["predict"])
    check("the memory of what computes nothing is as predicted", bars[f"{MODEL}: |error| of peak memory"]["passed"], results["predict"])
    check("no NCCL", "NCCL" in json.dumps(results["ranks"]["without_bar"]), results["ranks"])
    said, results = call(folder, "correct", "--only", "zero-1")
    check("losses that are none are compared with nothing", [row["case"] for row in results["correct"]["rows"]] == ["single"] and
          "losses that are none" in results["correct"]["rows"][0]["failed"] and failed(results["correct"]) == ["single: failures"], results["correct"])
end()
