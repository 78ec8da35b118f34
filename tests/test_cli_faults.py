#!/usr/bin/env python3
"""`cleave run` when a rank stops, dies or is interrupted, and output that cannot be written. usage: test_cli_faults.py CLEAVE SOURCE_ROOT"""
import os
import re
import shutil
import signal
import subprocess
import time

from calls import ALL, CLEAVE, SMALL, check, expect, main, process_of_rank, run

TIMEOUT_S, FOR_EVER = 4 if SMALL else 3, 10 ** 9


def plan_for_two(folder):
    plan = folder / "two.json"
    if not plan.exists():
        expect("a plan for two", 0, "stage 0", "plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32", "-o", plan)
    return plan


def start(*words):
    return subprocess.Popen([CLEAVE, "run", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_steps(process, count=3):
    for _ in range(count):
        process.stdout.readline()


def end(process):
    """Its exit code and errors; it is killed when it does not end."""
    try:
        errors = process.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        errors = "it does not end: " + process.communicate()[1]
    return process.returncode, errors


def transports(plan):
    """Those whose ranks are processes and that can be used here."""
    mpi = shutil.which("mpirun") and "transport mpi is absent" not in run("run", plan, "-n", 2, "--transport", "mpi", "--steps", 1).stderr
    return ("tcp", "mpi") if mpi else ("tcp",)


def stopped(folder):
    """A rank's process is stopped, or killed: every message, the last one too, names that rank first with its last instruction."""
    plan = plan_for_two(folder)
    for transport in transports(plan):
        for rank, sent in ((1, signal.SIGSTOP), (0, signal.SIGSTOP), (1, signal.SIGKILL)) if ALL else ((1, signal.SIGSTOP),):
            process = start(plan, "-n", 2, "--transport", transport, "--steps", FOR_EVER, "--timeout", TIMEOUT_S)
            wait_for_steps(process)
            os.kill(process_of_rank(rank, plan), sent)
            begin = time.monotonic()
            code, errors = end(process)
            name = f"{sent.name} of rank {rank} over {transport}"
            where = rf"rank {rank} \(stage 0[^)]*\): step \d+, instruction \d+ \S+"
            lines = re.findall("^error: .*", errors, re.M)
            check(f"{name}: exit 1: {errors}", code == 1)
            check(f"{name}: in time", time.monotonic() - begin < 2 * TIMEOUT_S + 20)
            if sent == signal.SIGSTOP:
                where += r"( \(layer \S+\))?, its process is stopped;"
                causes = rf"no rank made progress for {TIMEOUT_S} s \(--timeout\): |rank {rank}( on host \S+)? was not heard of for too long \(--timeout\); last seen: |the run failed with code 1; last seen: "
                check(f"{name}: who and where first: {errors}", len(lines) > 1 and all(re.match(f"error: ({causes}){where}", line) for line in lines))
            else:
                check(f"{name}: the last line: {errors}", lines and re.match(rf"error: rank {rank}( on host \S+)? died(, rank \d.*)?; last seen: {where}", lines[-1]))


def interrupted(folder):
    """Before the first checkpoint: the folder that the run made is gone; one that was there stays."""
    plan, old = plan_for_two(folder), folder / "old"
    old.mkdir()
    for words in ([], ["-n", 2, "--transport", "tcp"]):
        for sent in (signal.SIGINT, signal.SIGTERM):
            for place in (folder / "new", old):
                process = start(plan, *words, "--steps", FOR_EVER, "--checkpoint", place)
                wait_for_steps(process)
                process.send_signal(sent)
                code, errors = end(process)
                name = f"{sent.name} {words} {place.name}"
                check(f"{name}: ends by it: {errors}", code == (1 if words else -sent))
                check(f"{name}: its own empty folder is gone", place.exists() == (place == old))


def unfinished(folder):
    """What killed runs left half written is cleared by the next one, and nothing else."""
    plan, place = plan_for_two(folder), folder / "unfinished"
    place.mkdir()
    own = ["step-2.save-1.tmp", "step-40.save-7.tmp"]
    others = ["step-2.save-1.tmp2", "step-02.save-1.tmp", "step-2.save-x.tmp", "my.tmp", "a-step-2.save-1.tmp", "manifest.json.tmp", "step--2.save-1.tmp"]
    for transport in ("threads", "tcp"):
        for name in own:
            (place / name).mkdir()
            for rank in range(3):  # whole, for all that one can see
                (place / name / f"rank-{rank}.safetensors").write_text("x")
        for name in others:
            (place / name).write_text("x")
        expect(f"unfinished: a run over {transport}", 0, "median", "run", plan, "-n", 2, "--transport", transport, "--steps", 1, "--checkpoint", place)
        left = sorted(os.listdir(place))
        check(f"unfinished: cleared over {transport}: {left}", [name for name in left if not re.fullmatch(r"step-1\.save-\d+", name)] == sorted(others) and
              len(left) == len(others) + 1)


def owners(folder):
    """A folder has one run at a time, and another run's checkpoints are not replaced unasked; the message says what to type."""
    plan, place = plan_for_two(folder), folder / "owned"
    for words in ([], ["-n", 2, "--transport", "tcp"]):
        first = start(plan, *words, "--steps", FOR_EVER, "--every", 1, "--overwrite", "--checkpoint", place)
        wait_for_steps(first)
        second = expect(f"owners: a second run {words}", 2, r"another run \(process \d+\) saves in .*: choose another folder", "run", plan, *words,
                        "--steps", 1, "--checkpoint", place, "--overwrite")
        check(f"owners: it does nothing {words}", second.stdout == "" and second.stderr.count("error:") == 1, second)
        first.kill()
        end(first)
    time.sleep(0.2)  # ranks of a launcher that was killed end by a signal
    expect("owners: a run that came further", 2, "came further: go on from it with --resume .*, replace it with --overwrite, or choose another", "run", plan,
           "--steps", 1, "--checkpoint", place)
    expect("owners: another seed", 2, "of another seed, 1: go on from it with --resume .* --seed 1", "run", plan, "--seed", 2, "--steps", FOR_EVER, "--checkpoint", place)
    expect("owners: asked for", 0, "median", "run", plan, "--steps", 2, "--checkpoint", place, "--overwrite", "--seed", 2)
    expect("owners: the same again", 0, "median", "run", plan, "--steps", 2, "--checkpoint", place, "--seed", 2)
    expect("owners: it goes on", 0, "median", "run", plan, "--steps", 5, "--every", 1, "--keep", 2, "--checkpoint", place, "--resume", place, "--seed", 2)
    check("owners: two are kept", sorted(re.sub(r"\.save.*", "", name) for name in os.listdir(place)) == ["step-4", "step-5"])


def full(_folder):
    """What cannot be written is an error, also for a help text."""
    for words in (["--help"], ["help"], ["plan", "--help"], ["help", "plan"], ["--version"], ["--completion"], ["--man-page"], ["devices"]):
        with open("/dev/full", "w") as out:
            result = subprocess.run([CLEAVE, *words], stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
        check(f"full: {words}: {result}", result.returncode == 1 and result.stderr == "error: cannot write to standard output\n")


main(full, stopped, interrupted, unfinished, owners)
