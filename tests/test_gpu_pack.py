#!/usr/bin/env python3
"""A pack for a GPU machine works where there is nothing but a shell, Python and a C library: it has the libraries that its programs need,
its tests are skipped without a GPU, and the script that measures one does what it does here.

usage: test_gpu_pack.py SOURCE_ROOT BUILD_ROOT"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
sys.dont_write_bytecode = True
from gpu_scripts import check, end

root, build = sys.argv[1:3]
TOOLS = ("sh", "dirname", "ldd", "bash", "env")  # beside Python all that is there: ldd is a script of bash
SKIPPED = 77
ALL = os.environ.get("CLEAVE_TEST_SHARE", "1") == "1"  # else the folder is not compressed, and the script does in the build alone what it does


def pack(*words, of=build):
    return subprocess.run([sys.executable, os.path.join(root, "benchmarks", "gpu", "pack"), "--build", of, *words], text=True,
                          capture_output=True, check=False)


def bare_machine(folder):
    """The environment of a machine that has no meson, compiler or git."""
    tools = pathlib.Path(folder, "tools")
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name))
    (tools / "python3").write_text(f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" "$@"\n', encoding="utf-8")
    (tools / "python3").chmod(0o755)
    return {"PATH": str(tools), "HOME": folder}


def call(environment, *words, folder=None):
    return subprocess.run(words, text=True, capture_output=True, check=False, env=environment, cwd=folder)


def check_libraries(here, environment):
    """What the loader takes from elsewhere is the C library's, the driver's or NVIDIA's."""
    elsewhere = re.compile(r"^(libc|libm|libdl|libpthread|librt|libcud|libcublas|linux-vdso|/)")
    for program in [here / "build/cli/cleave-program", here / "build/executor/cleave-cuda.so", *(here / "build/tests").iterdir()]:
        lines = call({**environment, "LD_LIBRARY_PATH": str(here / "lib")}, "ldd", str(program)).stdout.splitlines()
        foreign = [line.strip() for line in lines if not elsewhere.match(line.split()[0]) and f"=> {here}/lib/" not in line]
        check(f"libraries of {program.name}", lines and not foreign, foreign)


def check_tests(here, environment):
    """Those of suite gpu, as the pack lists them, see that there is none."""
    sys.path.insert(0, os.path.join(root, "benchmarks", "gpu"))
    import listed_tests
    text = (here / "build" / listed_tests.KEPT).read_text(encoding="utf-8")
    check("nothing names the folders of the build", root not in text and build not in text, text)
    tests = [t for t in listed_tests.listed(str(here / "build"), str(here), None) if "gpu" in t["suite"][0].split(":")]
    check("tests of suite gpu", {"cuda_gpu_kernels", "cuda_gpu_run"} <= {t["name"] for t in tests}, tests)
    for test in tests:
        done = call({**environment, **test["env"]}, *test["cmd"], folder=here / "build")
        check(f"{test['name']} is skipped", done.returncode == SKIPPED, f"{done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}")


with tempfile.TemporaryDirectory() as folder:
    made = os.path.join(folder, "pack-of-mine" + (".tar.xz" if ALL else ""))
    done = pack("-o", made)
    check("a pack is made", done.returncode == 0 and "wrote" in done.stdout, done.stdout + done.stderr)
    again, large = pack("-o", made), pack("-o", os.path.join(folder, "other"), "--most", "0.001")
    check("nothing is overwritten", again.returncode != 0 and "is there already" in again.stderr, again.stderr)
    check("its size is bounded", large.returncode != 0 and "allowed are 1 MiB" in large.stderr and not os.path.exists(os.path.join(folder, "other")), large.stderr)
    elsewhere = pathlib.Path(folder, "moved")
    shutil.copytree(os.path.join(build, "meson-info"), elsewhere / "meson-info")
    for name in ("cli", "executor"):
        (elsewhere / name).symlink_to(os.path.join(build, name))
    moved = pack("-o", os.path.join(folder, "other"), of=str(elsewhere))
    check("a build folder that was moved is refused", moved.returncode != 0 and "was moved" in moved.stderr, moved.stdout + moved.stderr)
    if ALL:
        check("it is small", os.path.getsize(made) < 20e6, os.path.getsize(made))
        with tarfile.open(made) as tar:
            tar.extractall(folder)
    here, environment = pathlib.Path(folder, "pack-of-mine").resolve(), bare_machine(folder)
    readme = (here / "README").read_text(encoding="utf-8")
    check("its README speaks of licences", "NVIDIA's licence agreement" in readme and (here / "licences").is_dir(), readme)
    check("no library of NVIDIA or the driver is in it", not any(re.match("libcud|libnccl|libcublas|libnvidia", p.name) for p in (here / "lib").iterdir()),
          list((here / "lib").iterdir()))
    check_libraries(here, environment)
    doctor = json.loads(call(environment, str(here / "cleave"), "doctor", "--json").stdout)
    check("its own catalogue", doctor["catalogue"]["folder"].startswith(str(here)), doctor["catalogue"])
    check("its own module", all(m["path"].startswith(str(here)) for m in doctor["modules"] if m["name"] == "cuda"), doctor["modules"])
    if not doctor["gpu"]["found"]:
        check_tests(here, environment)
        done = call(environment, str(here / "first-day"))
        check("the script is skipped", done.returncode == SKIPPED and "skipped" in done.stdout, f"{done.returncode}: {done.stdout}{done.stderr}")
    done = call(environment, str(here / "first-day"), "correct", "--backend", "cpu", "--only", "zero-1")
    with open(here / "benchmarks" / "results" / "gpu-correct-dry.json", encoding="utf-8") as file:
        stored = json.load(file)
    check("plans are compared", done.returncode == 0 and [r["case"] for r in stored["rows"]] == ["single", "zero-1"], done.stdout + done.stderr)
    check("results name the commit", stored["commit"] == (here / "commit").read_text(encoding="utf-8").strip(), stored["commit"])
    if ALL:
        (here / "commit").unlink()  # this test has a git of its own
        done = call(environment, sys.executable, os.path.join(root, "tests", "test_gpu_script.py"), str(here), str(here / "build"))
        check("the script does what it does here", done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:])
end()
