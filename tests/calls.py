"""How tests call the program: runs it, counts checks, says at the end which failed. sys.argv: CLEAVE SOURCE_ROOT"""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

CLEAVE, ROOT = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
failures, checks = [], 0
SHARE = int(os.environ.get("CLEAVE_TEST_SHARE", "1"))
ALL = SHARE == 1  # else what takes long is done once (tests/check.h)
SMALL = SHARE > 8  # as under sanitizers: of what repeats one in three is done


def run(*args, stdin=None, env=None, cwd=None, file_bytes=None):
    """file_bytes: what files may hold, as by `ulimit -f`; with the signal of that limit as the system has it."""
    limit = file_bytes and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes)))
    return subprocess.run([CLEAVE, *map(str, args)], capture_output=True, text=True, input=stdin, timeout=300, cwd=cwd,
                          env={**os.environ, **(env or {})}, preexec_fn=limit, restore_signals=True)


def process_of_rank(rank, plan):
    """The process that is the rank of a run of the plan: its launcher has told it so."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words, variables = (folder / "cmdline").read_bytes().split(b"\0"), (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        said = {f"{name}={rank}".encode() for name in ("RANK", "OMPI_COMM_WORLD_RANK")}
        if str(plan).encode() in words and words[0] != b"mpirun" and not said.isdisjoint(variables):
            return int(folder.name)
    return None


def some(cases):
    """All of the cases, or one in three."""
    return list(cases)[::3] if SMALL else list(cases)


def check(name, condition, result=None):
    global checks
    checks += 1
    if not condition:
        detail = f"\n  exit {result.returncode}\n  stdout: {result.stdout[-600:]}\n  stderr: {result.stderr[-900:]}" if result else ""
        failures.append(f"{name}{detail}")


def expect(name, code, pattern, *args, **kwargs):
    result = run(*args, **kwargs)
    text = result.stdout if code == 0 else result.stderr
    check(f"{name}: exit {code} and /{pattern}/", result.returncode == code and re.search(pattern, text, re.S), result)
    return result


def described(schema, value):
    """Whether the object's members are the ones that `cleave schema` lists, in its order."""
    fields = json.loads(run("schema", schema, "--json").stdout)["schemas"][0]["properties"]
    return list(fields) == list(value)


def seen_elsewhere(test):
    """Marks a test whose lines of the program others reach (scripts/lines-by-test; of all 77,070 nobody reaches 274 then): sanitizers do without
    it."""
    test.seen_elsewhere = True
    return test


def main(*tests):
    """Runs each in one folder that is gone afterwards; the exit status says whether all held. CLEAVE_TEST_ONLY: the one of that name alone; all:
    those too that sanitizers do without; ?: says their names. Shells let what runs in the background ignore Ctrl-C, and nohup has it ignore
    SIGHUP, which the programs tried here must not inherit."""
    only = os.environ.get("CLEAVE_TEST_ONLY")
    if only == "?":
        print(*(test.__name__ for test in tests))
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if only != "all":
        tests = [t for t in tests if (t.__name__ == only if only else not (SMALL and hasattr(t, "seen_elsewhere")))]
    with tempfile.TemporaryDirectory() as name:
        for test in tests:
            start, before, failed = time.monotonic(), checks, len(failures)
            test(pathlib.Path(name))
            count = checks - before
            print(f"{test.__name__}: {count - len(failures) + failed} of {count}, {time.monotonic() - start:.1f} s", flush=True)
    for failure in failures:
        print("FAILED", failure)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures or checks == 0 else 0)
