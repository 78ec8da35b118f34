#!/usr/bin/env python3
"""`cleave run` when a rank stops, dies or is interrupted, and output that cannot be written. usage: test_cli_faults.py CLEAVE SOURCE_ROOT"""
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from calls import ALL, CLEAVE, SMALL, check, expect, main, process_of_rank, run, seen_elsewhere

TIMEOUT_S, FOR_EVER = 4 if SMALL else 3, 10 ** 9
PR_SET_CHILD_SUBREAPER = 36


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
    """Those whose ranks are processes and that can be used here; of a share, one."""
    mpi = ALL and shutil.which("mpirun") and "transport mpi is absent" not in run("run", plan, "-n", 2, "--transport", "mpi", "--steps", 1).stderr
    return ("tcp", "mpi") if mpi else ("tcp",)


@seen_elsewhere
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


@seen_elsewhere
def unread(folder):
    """Nobody reads what the run says, or its terminal has gone: it saves and ends. Under nohup it goes on."""
    plan = plan_for_two(folder)
    for words in ([], ["-n", 2, "--transport", "tcp"]):
        place = folder / f"unread-{len(words)}"
        place.mkdir()
        process = start(plan, *words, "--steps", FOR_EVER, "--checkpoint", place / "pipe")
        wait_for_steps(process, 1)
        process.stdout.close()
        code, errors = process.wait(timeout=120), process.stderr.read()
        check(f"unread {words}: code 75: {code} {errors}", code == 75 and saved_steps(place / "pipe"))
        process = start(plan, *words, "--steps", FOR_EVER, "--checkpoint", place / "terminal")
        wait_for_steps(process)
        process.send_signal(signal.SIGHUP)
        code, errors = end(process)
        check(f"unread {words}: SIGHUP: code 75: {code} {errors}", code == 75 and saved_steps(place / "terminal"))
        process = subprocess.Popen(["nohup", CLEAVE, "run", plan, *map(str, words), "--steps", "200", "--checkpoint", place / "nohup"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for_steps(process)
        process.send_signal(signal.SIGHUP)
        code, errors = end(process)
        check(f"unread {words}: nohup: {code} {errors}", code == 0 and saved_steps(place / "nohup") == [200])


@seen_elsewhere
def too_little(folder):
    """What the host or the shell lacks is said beforehand: memory for the ranks' arenas, a stack, open files."""
    plan = plan_for_two(folder)
    edited = json.loads(plan.read_text())
    edited["decisions"]["vocab_multiple"] = 1 << 31
    (folder / "wide.json").write_text(json.dumps(edited))
    for words in ([], ["-n", 2, "--transport", "tcp"]):
        expect(f"too little memory {words}", 1, r"the plan's ranks on this host hold [\d.]+ TiB, and it has .* of memory: plan for smaller devices", "run",
               folder / "wide.json", *words, "--steps", 1)
    def limited(limit, *words):
        return subprocess.run(["bash", "-c", f'ulimit {limit}; exec "$@"', "bash", CLEAVE, *map(str, words)], capture_output=True, text=True, check=False)
    small = limited("-s 1024", "show", plan)
    check("too little stack", small.returncode == 1 and "expected a stack of 4096 KiB, found a limit of 1024 KiB: type ulimit -s 8192" in small.stderr, small)
    for limit in ("-Ss unlimited", "-Ss 100000000"):  # KiB, more than there is memory: no thread asks for as much
        large = limited(f"{limit} || exit 9", "run", plan, "--steps", 1)
        check(f"a stack of {limit}", large.returncode in (0, 9) and "error" not in large.stderr, large)
    few = limited("-n 10", "run", plan, "--steps", 1, "-n", 2, "--transport", "tcp", "--timeout", 1000)
    check("too few open files", few.returncode == 1 and re.search(r"^error: expected .* 14 open files at least, for 2 ranks .* limit of 10: raise it by ulimit -n$", few.stderr), few)
    many = limited("-Sn 10", "run", plan, "--steps", 1, "-n", 2, "--transport", "tcp")
    check("as many open files as can be had", many.returncode == 0, many)


@seen_elsewhere
def interrupted(folder):
    """Before the first checkpoint: the folder that the run made is gone; one that was there stays."""
    plan, old = plan_for_two(folder), folder / "old"
    old.mkdir()
    for words in ([], ["-n", 2, "--transport", "tcp"]):
        for sent in (signal.SIGINT, signal.SIGTERM):
            for place in (folder / "new", old):
                process = start(plan, *words, "--steps", FOR_EVER, "--checkpoint", place, "--grace", 0)
                wait_for_steps(process)
                process.send_signal(sent)
                code, errors = end(process)
                name = f"{sent.name} {words} {place.name}"
                check(f"{name}: ends by it: {errors}", code == (1 if words else -sent))
                check(f"{name}: its own empty folder is gone", place.exists() == (place == old))


def saved_steps(place):
    return sorted(int(found[1]) for name in os.listdir(place) if (found := re.fullmatch(r"step-(\d+)\.save-\d+", name)))


@seen_elsewhere
def asked_to_end(folder):
    """SIGTERM and SIGUSR1: the run saves, says how to go on, and ends with the code for queueing it again; what it saved is resumed to the same losses.
    So it does when it is asked before its ranks have begun."""
    plan = plan_for_two(folder)
    straight = losses(run("run", plan, "--steps", 400, "--json").stdout)
    for transport in ("threads", *transports(plan)):
        for sent in (signal.SIGTERM, signal.SIGUSR1) if ALL else (signal.SIGTERM if transport == "threads" else signal.SIGUSR1,):
            place, name = folder / f"asked-{transport}-{sent.name}", f"{sent.name} over {transport}"
            words = ["-n", 2, "--transport", transport, "--json", "--checkpoint", place]
            process = start(plan, *words, "--steps", FOR_EVER)
            wait_for_steps(process)
            process.send_signal(sent)
            code, errors = end(process)
            check(f"{name}: code 75: {code} {errors}", code == 75 and "note: asked to end by a signal: saved step " in errors and "error: " not in errors)
            [step] = saved_steps(place)
            resumed = losses(run("run", plan, *words, "--steps", step + 2, "--resume", place).stdout)
            check(f"{name}: resumed bitwise", step + 2 > 400 or resumed == straight[step:step + 2])
            early = folder / f"early-{transport}-{sent.name}"
            process = start(plan, "-n", 2, "--transport", transport, "--steps", FOR_EVER, "--checkpoint", early)
            while not early.exists():
                time.sleep(0.001)  # until it has looked at the folder; no rank has begun
            process.send_signal(sent)
            code, errors = end(process)
            check(f"{name}, early: code 75: {code} {errors}", code == 75 and saved_steps(early)[0] >= 1)
    process = start(plan, "-n", 2, "--transport", "tcp", "--steps", FOR_EVER, "--checkpoint", folder / "late", "--grace", 0.3, "--timeout", 100)
    wait_for_steps(process)
    os.kill(process_of_rank(1, plan), signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    code, errors = end(process)
    check(f"grace: too late: {code} {errors}", code == 1 and "ended by signal 15" in errors)
    expect("saving: --resume of nothing", 2, '--resume: expected a folder, found ""', "run", plan, "--steps", 1, "--resume", "")
    for words in (("--grace", 30), ("--keep", 1)):
        expect(f"saving: {words[0]} without a folder", 2, f"{words[0]} is about saving: give --checkpoint DIR, too", "run", plan, "--steps", 1, *words)


def asked_twice(folder):
    """Several signals at once, as `timeout` sends them, are one request: the run saves, with the same code. A later one ends it."""
    plan = plan_for_two(folder)
    for words in ([], ["-n", 2, "--transport", "tcp"]):
        place = folder / f"twice-{len(words)}"
        process = start(plan, *words, "--steps", FOR_EVER, "--checkpoint", place)
        wait_for_steps(process)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGUSR1)
        code, errors = end(process)
        check(f"asked twice {words}: code 75: {code} {errors}", code == 75 and saved_steps(place))


@seen_elsewhere
def asked_at_the_end(folder):
    """After its last step a run is asked to end: it has done what it was to do."""
    plan = plan_for_two(folder)
    for words in ([], ["-n", 2, "--transport", "tcp"]):
        codes = []
        for i in range(3 if SMALL else 8):
            place = folder / f"end-{len(words)}-{i}"
            process = start(plan, *words, "--steps", 5, "--checkpoint", place)
            wait_for_steps(process, 5)
            time.sleep(0.003 * i)
            process.send_signal(signal.SIGTERM)
            codes.append((*end(process), saved_steps(place)))
        check(f"asked at the end {words}: {codes}", all(code == 0 and steps == [5] for code, _, steps in codes))


@seen_elsewhere
def suspended(folder):
    """A launcher that was stopped for longer than --timeout has seen no progress; the ranks have made some."""
    plan, place = plan_for_two(folder), folder / "suspended"
    said = folder / "suspended.txt"
    with open(said, "w", encoding="utf-8") as output:  # a pipe that nobody reads would hold rank 0 up
        process = subprocess.Popen([CLEAVE, "run", plan, "-n", "2", "--transport", "tcp", "--steps", str(FOR_EVER), "--checkpoint", place,
                                    "--timeout", str(TIMEOUT_S), "--json"], stdout=output, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and said.stat().st_size == 0:
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)
    time.sleep(TIMEOUT_S + 3)  # a launcher waits two seconds longer than its ranks
    process.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    alive = process.poll() is None
    process.send_signal(signal.SIGTERM)
    code, errors = end(process)
    check(f"suspended: it goes on, and saves when it is asked to: {code} {errors}", alive and code == 75)


def closed(folder):
    """Standard output is closed: nothing else gets its number, and the run saves before it says that it cannot write."""
    plan = plan_for_two(folder)
    for words in ([], ["-n", 2, "--transport", "tcp"]):
        place = folder / f"closed-{len(words)}"
        done = subprocess.run(["bash", "-c", 'exec "$@" >&-', "bash", CLEAVE, "run", plan, *map(str, words), "--steps", "4", "--checkpoint", place],
                              stderr=subprocess.PIPE, text=True, check=False)
        check(f"closed {words}", done.returncode == 1 and "cannot write to standard output" in done.stderr and saved_steps(place) == [4], done)


@seen_elsewhere
def raced(folder):
    """Of two runs for one new folder one goes on, whichever made it."""
    plan = plan_for_two(folder)
    for i in range(3 if SMALL else 8):
        place = folder / f"raced-{i}"
        both = [start(plan, "--steps", 4, "--seed", seed, "--checkpoint", place) for seed in (1, 2)]
        codes = sorted(end(process)[0] for process in both)
        check(f"raced {i}: {codes}", codes == [0, 2] and saved_steps(place) == [4])


def launcher_killed(folder):
    """Its ranks notice: they save and end, and nothing stays in memory or in the table of processes."""
    plan, place = plan_for_two(folder), folder / "orphans"
    for transport in transports(plan):
        process = start(plan, "-n", 2, "--transport", transport, "--steps", FOR_EVER, "--checkpoint", place, "--overwrite")
        wait_for_steps(process)
        ranks = [process_of_rank(rank, plan) for rank in (0, 1)]
        pages = [[line for line in open(f"/proc/{pid}/maps") if "cleave-status" in line] for pid in ranks]
        check(f"launcher killed, {transport}: the page has no name that could stay: {pages}", all(own and all("memfd:" in line for line in own) for own in pages))
        process.kill()
        end(process)
        begin = time.monotonic()
        while any(os.path.exists(f"/proc/{pid}") for pid in ranks) and time.monotonic() - begin < 20:
            time.sleep(0.05)
        check(f"launcher killed, {transport}: its ranks end", not any(os.path.exists(f"/proc/{pid}") for pid in ranks))
        check(f"launcher killed, {transport}: they saved", len(saved_steps(place)) == 1)
    for words in (("--checkpoint", place, "--overwrite"), ()):
        # one of them is stopped, and whoever gets the orphans is of their session, as in a container: then the system wakes nobody
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        process = start(plan, "-n", 2, "--transport", "tcp", "--steps", FOR_EVER, *words)
        wait_for_steps(process)
        ranks = [process_of_rank(rank, plan) for rank in (0, 1)]
        os.kill(ranks[0], signal.SIGSTOP)
        process.kill()
        process.wait()  # and not for the end of its output, which ranks that are left hold open
        process.stdout.close()
        process.stderr.close()
        begin = time.monotonic()
        while ranks and time.monotonic() - begin < 20:
            ranks = [rank for rank in ranks if os.waitpid(rank, os.WNOHANG)[0] == 0]
            time.sleep(0.05)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0)
        check(f"launcher killed, a rank stopped {words}: both end: {ranks}", not ranks)
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)


@seen_elsewhere
def restarted(folder):
    """A rank that dies ends all; the job begins anew from the newest save, so often as was asked for."""
    plan, place = plan_for_two(folder), folder / "restarted"
    straight = losses(run("run", plan, "--steps", 600, "--json").stdout)
    for transport in transports(plan):
        process = start(plan, "-n", 2, "--transport", transport, "--steps", 600, "--every", 20, "--json", "--checkpoint", place, "--overwrite", "--restarts", 1)
        wait_for_steps(process, 50)
        os.kill(process_of_rank(1, plan), signal.SIGKILL)
        out, errors = process.communicate(timeout=120)
        step = int(re.search(r"note: restart 1 of 1, from \S+/step-(\d+)\.save-\d+", errors)[1])
        check(f"restarts over {transport}: it ends well: {errors}", process.returncode == 0 and step >= 20)
        check(f"restarts over {transport}: bitwise", losses(out)[-(600 - step):] == straight[step:])
    for words, said in ((["--transport", "threads"], "ranks that are threads die with this process"), (["--transport", "tcp"], "give --checkpoint DIR, too")):
        expect(f"restarts: {words}", 2, said, "run", plan, "-n", 2, *words, "--restarts", 1, "--steps", 1)


def shrunk(folder):
    """With --shrink the job goes on by a new plan for one rank less, with what it had computed; what it cannot be asked for is refused."""
    plan, place = plan_for_two(folder), folder / "shrunk"
    straight = losses(run("run", plan, "--steps", 300, "--json").stdout)
    process = start(plan, "-n", 2, "--transport", "tcp", "--steps", 300, "--every", 10, "--json", "--checkpoint", place, "--restarts", 2, "--shrink")
    wait_for_steps(process, 30)
    os.kill(process_of_rank(1, plan), signal.SIGKILL)
    out, errors = process.communicate(timeout=120)
    found = re.search(r"note: restart 1 of 2 on 1 rank, from \S+/step-(\d+)\.save-\d+", errors)
    check(f"shrink: it ends well: {process.returncode} {errors}", process.returncode == 0 and found)
    step = int(found[1]) if found else 0
    after = losses(out)[-(300 - step):]
    check("shrink: the same training", all(abs(a - b) < 1e-3 * b for a, b in zip(after, straight[step:])) and len(after) == 300 - step)
    check("shrink: its plan is there", json.loads((place / "plan-of-1.json").read_text())["format"] == "cleave-plan" and saved_steps(place) == [300])
    for words, said in ((["--shrink"], "give --restarts N, too"),
                        (["--shrink", "--restarts", 1, "--cluster", "1x2:cpu"], "--shrink: expected a plan for one host's devices of one type")):
        expect(f"shrink: {words}", 2, said, "run", plan, "-n", 2, "--transport", "tcp", "--checkpoint", place, *words, "--steps", 1)


def losses(out):
    return [json.loads(line)["loss"] for line in out.splitlines() if '"loss"' in line and '"summary"' not in line]


@seen_elsewhere
def every(folder):
    """Steps, or a time."""
    plan, place = plan_for_two(folder), folder / "every"
    expect("every: a time", 0, "median", "run", plan, "--steps", 300, "--every", "0.1s", "--keep", 100, "--checkpoint", place)
    steps = saved_steps(place)
    check(f"every: more than the last step: {steps}", len(steps) > 1 and steps[-1] == 300)
    for text in ("10x", "m", "-3", "2.5", "0m", "nan"):
        expect(f"every: {text}", 2, "--every: expected steps, or a time as 90s, 10m or 2h, found", "run", plan, "--steps", 1, f"--every={text}", "--checkpoint", place)
    expect("every: without a folder", 2, "--every is about saving: give --checkpoint DIR, too", "run", plan, "--steps", 1, "--every", 3)


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
        expect(f"unfinished: a run over {transport}", 0, "median", "run", plan, "-n", 2, "--transport", transport, "--steps", 1, "--checkpoint", place, "--overwrite")
        left = sorted(os.listdir(place))
        check(f"unfinished: cleared over {transport}: {left}", [name for name in left if not re.fullmatch(r"step-1\.save-\d+", name)] == sorted(others) and
              len(left) == len(others) + 1)


def locked(place):
    folder = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


@seen_elsewhere
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
        while locked(place):  # ranks of a launcher that was killed save and end
            time.sleep(0.05)
    def kept():
        return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}
    before = kept()
    for words in ((), ("--learning-rate", "1e-2"), ("--every", 1), ("-n", 2, "--transport", "tcp")):
        expect(f"owners: an earlier run {words}", 2, r"holds step \d+ of an earlier run: go on from it with --resume .*, replace it with --overwrite, or choose another",
               "run", plan, "--steps", FOR_EVER, *words, "--checkpoint", place)
    check("owners: nothing is touched", kept() == before)
    expect("owners: another seed", 2, "of another seed, 1: go on from it with --resume .* --seed 1", "run", plan, "--seed", 2, "--steps", FOR_EVER, "--checkpoint", place)
    expect("owners: asked for", 0, "median", "run", plan, "--steps", 2, "--checkpoint", place, "--overwrite", "--seed", 2)
    expect("owners: the same again", 2, "holds step 2 of an earlier run", "run", plan, "--steps", 2, "--checkpoint", place, "--seed", 2)
    expect("owners: it goes on", 0, "median", "run", plan, "--steps", 5, "--every", 1, "--keep", 2, "--checkpoint", place, "--resume", place, "--seed", 2)
    check("owners: two are kept", sorted(re.sub(r"\.save.*", "", name) for name in os.listdir(place)) == ["step-4", "step-5"])
    expect("owners: an older save", 2, "holds step 5 of an earlier run", "run", plan, "--steps", 6, "--checkpoint", place, "--seed", 2,
           "--resume", next(place / name for name in os.listdir(place) if name.startswith("step-4")))


def queued(folder):
    """A job that is queued again may be the same command from its first time on: --resume of the folder that it saves in, where nothing is yet."""
    plan, place = plan_for_two(folder), folder / "queued"
    for transport in ("threads", "tcp"):
        words = ("run", plan, "-n", 2, "--transport", transport, "--checkpoint", place / transport, "--resume", place / transport)
        place.mkdir(exist_ok=True)
        first = expect(f"queued: the first time over {transport}", 0, "median", *words, "--steps", 2)
        check(f"queued: it says so once over {transport}", first.stderr.count("holds no checkpoint yet: the run begins at step 1") == 1, first)
        again = expect(f"queued: the second time over {transport}", 0, "median", *words, "--steps", 4)
        check(f"queued: it goes on over {transport}", "no checkpoint yet" not in again.stderr and saved_steps(place / transport) == [4], again)
        done = expect(f"queued: once too often over {transport}", 0, "", *words, "--steps", 4)
        check(f"queued: nothing is left over {transport}", done.stderr.count("nothing is left to do") == 1 and saved_steps(place / transport) == [4] and "median" not in done.stdout, done)
        expect(f"queued: behind what was saved over {transport}", 2, "is of step 4 already: give --steps above it", *words, "--steps", 3)
    expect("queued: nothing is left that would be written", 2, "no step is left that could write --timeline", "run", plan, "--steps", 4, "--resume", place / "tcp",
           "--timeline", place / "timeline.json")
    for said, meant in (("slash", "slash/"), ("./dot", "dot"), ("whole", place / "whole")):
        first = expect(f"queued: {said} and {meant}", 0, "median", "run", plan, "--steps", 1, "--checkpoint", said, "--resume", meant, cwd=place)
        check(f"queued: {said} and {meant}: it begins", "no checkpoint yet" in first.stderr, first)
    # hosts that do not see one folder: rank 0 decides, and who sees something else says so at once
    (place / "seen" / "here").mkdir(parents=True)
    (place / "other" / "here").mkdir(parents=True)
    expect("queued: a save", 0, "median", "run", plan, "--steps", 1, "--checkpoint", place / "seen" / "here")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for sees in (0, 1):
        ranks = []
        for rank in (0, 1):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "CLEAVE_MASTER_PORT": str(port), "CLEAVE_JOB_TOKEN": "queued"}
            ranks.append(subprocess.Popen([CLEAVE, "run", plan, "--transport", "tcp", "--steps", "3", "--checkpoint", "here", "--resume", "here", "--timeout", "60"],
                                          cwd=place / ("seen" if rank == sees else "other"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        begin = time.monotonic()
        ends = [end(rank) for rank in ranks]
        check(f"queued: rank {sees} alone sees the saves: {ends}", time.monotonic() - begin < 30 and any(code == 2 for code, _ in ends) and
              re.search("all ranks must see the same folder" if sees == 1 else "cannot (read|open)", "".join(said for _, said in ends)))
    expect("queued: elsewhere", 2, "expected a checkpoint in .*, found none|cannot read", "run", plan, "--steps", 2, "--checkpoint", place / "a", "--resume", place / "b")


@seen_elsewhere
def moving(folder):
    """The newest save is gone as soon as there is a newer one: a run that goes on from a folder in which another one saves takes that."""
    plan, place = plan_for_two(folder), folder / "moving"
    first = start(plan, "--steps", FOR_EVER, "--every", 1, "--checkpoint", place)
    wait_for_steps(first)
    for i in range(10 if SMALL else 30):
        words = ("-n", 2, "--transport", "tcp") if i % 2 else ()
        second = start(plan, *words, "--steps", FOR_EVER, "--resume", place)
        wait_for_steps(second, 1)
        step = second.poll() is None
        second.send_signal(signal.SIGTERM)
        code, errors = end(second)
        check(f"moving {i}: it begins: {code} {errors}", step and "checkpoint" not in errors)
    check("moving: the other one goes on", first.poll() is None)
    first.kill()
    end(first)


@seen_elsewhere
def straggler(folder):
    """A rank that gets a tenth of its time is named in the summary, with how many times as long it computed."""
    plan, named = folder / "long.json", None
    expect("straggler: a plan", 0, "stage 0", "plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 64, "--seq", 16, "--dtype", "fp32", "--fix", "dp=2", "-o", plan)
    for _ in range(5):  # its last step may fall between two pauses
        process = start(plan, "-n", 2, "--transport", "tcp", "--steps", 25, "--json")
        wait_for_steps(process, 1)
        slow = process_of_rank(1, plan)
        while process.poll() is None:
            try:
                os.kill(slow, signal.SIGSTOP)
                time.sleep(0.018)
                os.kill(slow, signal.SIGCONT)
                time.sleep(0.002)
            except ProcessLookupError:
                break
        out, errors = process.communicate(timeout=60)
        check(f"straggler: the run ends: {errors}", process.returncode == 0)
        named = json.loads(out.splitlines()[-1])["summary"].get("straggler")
        if named and named["rank"] == 1 and named["factor"] >= 2:
            break
    check(f"straggler: named: {named}", named is not None and named["rank"] == 1 and named["factor"] >= 2)


@seen_elsewhere
def full(_folder):
    """What cannot be written is an error, also for a help text."""
    for words in (["--help"], ["help"], ["plan", "--help"], ["help", "plan"], ["--version"], ["--completion"], ["--man-page"], ["schedules"]):
        with open("/dev/full", "w") as out:
            result = subprocess.run([CLEAVE, *words], stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
        check(f"full: {words}: {result}", result.returncode == 1 and result.stderr == "error: cannot write to standard output\n")


main(full, too_little, stopped, interrupted, unread, asked_to_end, asked_twice, asked_at_the_end, suspended, closed, raced, launcher_killed, restarted, shrunk, every, unfinished, owners, queued, moving, straggler)
