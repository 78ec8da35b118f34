#!/usr/bin/env python3
"""The script that measures a GPU does what it says, tried on the processor: its parts, its rows, and that a second call goes on where the
first one ended.

usage: test_gpu_script.py SOURCE_ROOT BUILD_ROOT"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

root, build = sys.argv[1:3]
failures = 0


def check(what, holds, found=""):
    global failures
    if not holds:
        failures += 1
        print(f"FAIL {what}: {found}")


def call(folder, *words, commit="0123456789abcdef", status=0):
    """Runs the script with a git that names this commit and no changes; its output."""
    git = pathlib.Path(folder, "bin", "git")
    git.parent.mkdir(exist_ok=True)
    git.write_text(f"#!/bin/sh\ncase \"$*\" in *rev-parse*) echo {commit};; esac\n", encoding="utf-8")
    git.chmod(0o755)
    environment = {**os.environ, "PATH": f"{git.parent}:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, os.path.join(root, "benchmarks", "gpu", "run"), *words, "--build", build, "--results", os.path.join(folder, "results"),
                           "--work", os.path.join(folder, "work"), "--steps", "4"], text=True, capture_output=True, check=False, env=environment)
    check(f"status of {' '.join(words)}", done.returncode == status, f"{done.returncode}, expected {status}: {done.stdout[-600:]}{done.stderr[-600:]}")
    return done.stdout


def stored(folder, part):
    return json.loads(pathlib.Path(folder, "results", f"gpu-{part}-dry.json").read_text(encoding="utf-8"))


with tempfile.TemporaryDirectory() as folder:
    call(folder, "speed", "--backend", "cpu", "--minutes", "0", status=2)
    first = stored(folder, "speed")
    check("without time nothing is done", first["verdict"] == "UNFINISHED" and first["rows"] == [], first)
    call(folder, "speed", "--backend", "cpu", "--only", "gpt")
    call(folder, "speed", "--backend", "cpu")
    rows = stored(folder, "speed")["rows"]
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
    call(folder, "speed", "--backend", "cpu", "--only", "gpt", commit="fedcba9876543210")
    check("another commit begins anew", stored(folder, "speed")["rows"] != rows[:1], rows)
    call(folder, "correct", "--backend", "cpu", "--only", "zero-1")
    correct = stored(folder, "correct")
    check("losses of plans are compared", [r["case"] for r in correct["rows"]] == ["single", "zero-1"] and len(correct["rows"][0]["losses"]) == 20 and
          len(correct["bars"]) == 2, correct)
    call(folder, "predict", "--backend", "cpu", "--only", "gpt")
    predicted = stored(folder, "predict")
    check("predictions stand before runs", [r["case"] for r in predicted["rows"]] == ["outside", "predict tiny-gpt", "tiny-gpt"] and
          predicted["rows"][2]["predicted_step_s"] == predicted["rows"][1]["predicted_step_s"] and predicted["commit"] == "0123456789abcdef", predicted)
print(f"{failures} failures")
sys.exit(1 if failures else 0)
