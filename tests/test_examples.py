#!/usr/bin/env python3
"""The examples of libcleave as whoever installed it builds and runs them: headers and library by pkg-config from an installed tree, plans
that are the program's own. What the library shows is what its header says.

usage: test_examples.py CLEAVE BUILD SOURCE_ROOT CC...
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CLEAVE, BUILD, ROOT, CC = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:]
failures = 0


def check(what, good, shown=""):
    global failures
    if not good:
        failures += 1
        print(f"FAILED {what}: {shown}")


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)


def main():
    if not shutil.which("meson") or not shutil.which("pkg-config"):
        print("skipped: meson or pkg-config is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        done = run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", env={**os.environ, "DESTDIR": str(folder)})
        check("installation", done.returncode == 0, done.stdout[-600:] + done.stderr[-600:])
        (found,) = folder.rglob("cleave.pc")
        env = {**os.environ, "PKG_CONFIG_PATH": str(found.parent), "PKG_CONFIG_SYSROOT_DIR": str(folder), "LD_LIBRARY_PATH": str(found.parents[1])}
        flags = run("pkg-config", "--cflags", "--libs", "cleave", env=env).stdout.split()
        data = pathlib.Path(run("pkg-config", "--variable=cleavedata", "cleave", env={**env, "PKG_CONFIG_SYSROOT_DIR": ""}).stdout.strip())
        data = folder / data.relative_to("/")
        done = run(*CC, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", ROOT / "examples/plan.c", "-o", folder / "plan", *flags)
        check("plan.c is compiled", done.returncode == 0, done.stderr)
        devices, model = data / "planner/facts/devices", data / "models/zoo/tiny-gpt.json"
        run(CLEAVE, "plan", model, "--cluster", "1x4:a100-sxm-80", "--batch", 8, "-o", folder / "own.json")
        decisions = json.loads((folder / "own.json").read_text())["decisions"]
        library = next(found.parents[1].glob("libcleave.so.0"))
        for how, program, more in (("C", [folder / "plan"], {}), ("Python", [sys.executable, ROOT / "examples/plan.py"], {"CLEAVE_LIBRARY": str(library)})):
            job = [model, devices / "a100-sxm-80.json", "1x4:a100-sxm-80"]
            done = run(*program, *job, 8, env={**env, **more})
            check(f"{how}: plans", done.returncode == 0 and re.fullmatch(r"cleave \d+\.\d+\.\d+: a step of \d.* s\n", done.stderr), done.stderr)
            check(f"{how}: what the program plans", done.returncode == 0 and json.loads(done.stdout)["decisions"] == decisions, done.stdout[:600])
            done = run(*program, *job[:2], "1x4:a100-sxm-8", 8, env={**env, **more})
            check(f"{how}: says why not", done.returncode == 2 and "did you mean" in done.stderr and not done.stdout, done.stderr)
            done = run(*program, job[0], folder / "absent.json", job[2], 8, env={**env, **more})
            check(f"{how}: a file that is not there", done.returncode != 0 and "absent.json" in done.stderr, done.stderr)
        header = set(re.findall(r"\b(cleave_\w+)\(", re.sub(r"/\*.*?\*/", "", (ROOT / "cleave.h").read_text(), flags=re.S)))
        shown = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).stdout.splitlines()}
        check("the library shows what its header has", shown == header, shown ^ header)
    print(f"{failures} failures")
    sys.exit(1 if failures else 0)


main()
