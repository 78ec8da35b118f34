#!/usr/bin/env python3
"""What a terminal shows of commands that take longer than two seconds: one line that tells how far they are, and no trace of it at the end.

usage: test_cli_progress.py CLEAVE SOURCE_ROOT"""
import os
import pty
import re
import signal
import subprocess
import time

from calls import ALL, CLEAVE, SHARE, check, main, run

QUIET_S = 2


class Terminal:
    """A line that carriage returns and ESC [ K act on, the lines above it, and each text that stood there meanwhile."""

    def __init__(self):
        self.lines, self.line, self.at, self.seen = [], "", 0, []

    def take(self, text):
        for piece in re.findall(r"\x1b\[K|[\r\n]|[^\x1b\r\n]+|\x1b", text):
            if piece == "\r":
                self.at = 0
            elif piece == "\n":
                self.lines.append(self.line)
                self.line, self.at = "", 0
            elif piece == "\x1b[K":
                self.line = self.line[:self.at]
            else:
                self.line = self.line[:self.at] + piece + self.line[self.at + len(piece):]
                self.at += len(piece)
                self.seen.append(self.line)


def watch(*words, end_after_s=None, all_there=False):
    """Its exit status, the terminal that its messages (all_there: its output, too) went to, and when that first showed progress."""
    ours, its = pty.openpty()
    terminal, begun, first_s = Terminal(), time.monotonic(), None
    with subprocess.Popen([CLEAVE, *map(str, words)], stdout=its if all_there else subprocess.DEVNULL, stderr=its, stdin=subprocess.DEVNULL) as process:
        os.close(its)
        while True:
            try:
                got = os.read(ours, 4096)
            except OSError:  # nobody writes to it any more
                break
            if not got:
                break
            terminal.take(got.decode())
            now_s = time.monotonic() - begun
            if first_s is None and any(text.startswith("cleave ") for text in terminal.seen):
                first_s = now_s
            if end_after_s and first_s is not None and now_s > end_after_s:
                process.send_signal(signal.SIGTERM)
                end_after_s = None
        code = process.wait()
    os.close(ours)
    return code, terminal, first_s


def expect_progress(what, code, pattern, *words, **how):
    got, terminal, first_s = watch(*words, **how)
    told = subprocess.CompletedProcess(words, got, repr(terminal.lines), repr((terminal.line, terminal.seen[-3:], first_s)))
    check(f"{what}: exit status {code}", got == code, told)
    check(f"{what}: says how far it is", any(re.fullmatch(pattern + r" \.\.\.", text) for text in terminal.seen), told)
    check(f"{what}: is silent for two seconds", first_s is not None and first_s >= QUIET_S, told)
    check(f"{what}: nothing is left of it", terminal.line == "" and not any(line.startswith("cleave ") and line.endswith("...") for line in terminal.lines), told)


def tests(folder):
    plan, slow = folder / "plan.json", folder / "slow.json"
    made = run("plan", "tiny-gpt", "--cluster", "1x1:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32", "-o", plan)
    check("a plan", made.returncode == 0 and "\r" not in made.stderr, made)
    code, terminal, _ = watch("plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16)
    check("what is short is silent", code == 0 and not any("..." in text for text in terminal.seen),
          subprocess.CompletedProcess((), code, repr(terminal.lines), repr(terminal.seen)))
    made = run("plan", "gpt2", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 24, "--dtype", "fp32", "-o", slow)
    check("a plan with long steps", made.returncode == 0, made)

    expect_progress("run into a file", 75, r"cleave run: step \d+ of 1000000000", "run", plan, "--steps", 10 ** 9, "--checkpoint", folder / "saves", "--json",
                    end_after_s=2.2)
    expect_progress("run with long steps", 0, r"cleave run: the first step", "run", slow, "--backend", "timed", "--steps", 1, all_there=True)
    if SHARE > 24:  # as under the thread sanitizer: the same once more, unseen
        return
    silent = run("compare", slow, "--run", "--backend", "timed", "--rounds", 1, "--steps", 2) if ALL else run("run", slow, "--backend", "timed", "--steps", 1)
    check("where nobody watches nothing is said", silent.returncode == 0 and "..." not in silent.stderr and "\r" not in silent.stderr, silent)
    if ALL:
        job = ["gpt-1t", "--batch", 3072, "--time-limit", 6, "--cluster"]
        expect_progress("plan", 0, r"cleave plan: [\d,]+ of [\d,]+ configurations solved(, the best takes .*)?", "plan", *job, "64x8:a100-sxm-80+64x8:h100-sxm", "--gap", 0,
                        "--jobs", 1, "--space", "turns=1:2:4")
        expect_progress("explain, where nothing fits", 1, r"cleave explain: [\d,]+ of [\d,]+ configurations solved", "explain", *job, "8x8:a100-sxm-80")
        expect_progress("compare", 0, r"cleave compare: running .*, \d+ of \d+", "compare", slow, "--run", "--backend", "timed", "--rounds", 2, "--steps", 2)
        expect_progress("profile", 0, r"cleave profile: .*, \d+ of \d+", "profile", "tiny-gpt", "-n", 2, "--seq", 16, "--time-limit", 4, "-o", folder / "profile.json")


main(tests)
