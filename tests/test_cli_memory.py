#!/usr/bin/env python3
"""Requests for memory that fail, of every verb: a few of those that benchmarks/run_reliability tries all of. And what readers take.
usage: test_cli_memory.py CLEAVE SOURCE_ROOT LIBRARY (tests/short_memory.c)"""
import os
import re
import subprocess
import sys

import short_memory
from calls import ALL, CLEAVE, ROOT, check, main, run, seen_elsewhere

MOST_KIB = 400 << 10  # of addresses: the program and its libraries have 200 MiB of them

SLOW = {"compare", "profile", "validate", "calibrate", "explain", "recommend"}
FEW = {"plan", "check", "run", "run --checkpoint", "export", "diff", "--version"}


def tried(folder):
    """Spread over each call; the slow ones are left to the benchmark, and so are those of several processes."""
    short = short_memory.Short(CLEAVE, ROOT, sys.argv[3], folder)
    verbs = set(re.findall(r"^  ([a-z]+) +[a-z]", run("--help").stdout, re.M)) - {"cleave"}
    check(f"every verb is called: {verbs}", len(verbs) > 20 and verbs <= {call[0] for call in short.calls.calls.values()})
    for name in short.calls.calls:
        if name not in FEW and (not ALL or name in SLOW or "a process each" in name):
            continue
        count, failed = short.sweep(name, 8)
        check(f"{name}: {failed}", count > 0 and not failed)
    # what OpenBLAS needs is tried in a child before ranks that talk by TCP have threads
    code, _, said, _ = short.call("run, a process each", "0")
    check(f"forks while there are no threads: {said}", code == 0 and "forks beside" not in said)


def readers(folder):
    """What is refused without being read, and in how little memory."""
    sparse, pipe, dense = folder / "sparse.json", folder / "pipe", folder / "dense.json"
    with open(sparse, "wb") as file:
        file.truncate(1 << 40)
    dense.write_text("[" + "1," * (2 << 20) + "1]")
    os.mkfifo(pipe)
    for path, said in ((sparse, "expected at most 33554432 bytes, found 1099511627776"), ("/dev/zero", "expected at most 33554432 bytes, found more"),
                       (pipe, "found the end of the text"), (dense, "expected values that take at most 20 times the bytes")):
        for verb in ("show", "check", "import", "validate") if ALL and path != dense else ("show",):
            with subprocess.Popen(["sh", "-c", f'ulimit -v {MOST_KIB}; exec "$@"', "sh", CLEAVE, verb, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as process:
                errors = process.communicate(timeout=60)[1]
                check(f"{verb} {path}: refused: {errors}", process.returncode == 2 and (said in errors or (path == pipe and verb != "show" and "error: " in errors)))
    writer = os.open(pipe, os.O_RDWR)
    result = run("show", pipe)
    os.close(writer)
    check(f"a silent writer: {result.stderr}", result.returncode == 2 and "nothing came through this pipe for 0.8 s" in result.stderr)


@seen_elsewhere
def blas(folder):
    """Where there are no addresses for OpenBLAS's buffers a run says so; OpenBLAS itself would ask for them for ever."""
    plan = folder / "blas.json"
    run("plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32", "-o", plan)
    runs = [(kib, ["run", plan, "--steps", "1"]) for kib in ((100 << 10, 200 << 10, 300 << 10) if ALL else (200 << 10,))]
    runs += [(180 << 10, ["profile", "tiny-gpt", "--seq", "16", "--batch", "4", "--time-limit", "1", "-o", folder / "blas-profile.json"])] if ALL else []
    for kib, verb in runs:
        result = subprocess.run(["sh", "-c", f'ulimit -v {kib}; exec "$@"', "sh", CLEAVE, *verb], capture_output=True, text=True, timeout=120, check=False)
        check(f"ulimit -v {kib}: {result}", result.returncode == 0 or (result.returncode == 1 and "memory" in result.stderr))


main(tried, readers, blas)
