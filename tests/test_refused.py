#!/usr/bin/env python3
"""Pairs of rows that docs/combinations.md says are refused, asked of the program as people ask: `plan --fix`, `estimate` and
`estimate --fix` refuse each with exit code 2 and a message that names both. Where a number of stages leaves the schedule no configuration, there is
none in the space of `plan`: exit code 3. usage: test_refused.py CLEAVE SOURCE_ROOT"""
import pathlib
import re
import subprocess
import sys

CLEAVE, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
PROBLEM = ["tiny-llama", "--cluster", "1x4:cpu", "--batch", "8", "--seq", "32", "--dtype", "fp32"]
# A row of the table as a choice of the program, and what a message calls it; what has no option stands in plan files alone.
CHOICES = {r"zero (\d)": ("zero", "zero {}"), r"(\d) stages?": ("pp", "(found|stages|pp)"),
           r"recompute (\w+)": ("recompute", "recompute {}")}


def choice(row, schedules):
    """(option, value, pattern of its name), or None."""
    if row in schedules:
        return "schedule", row, re.escape(f"schedule {row}")
    for pattern, (option, said) in CHOICES.items():
        found = re.fullmatch(pattern, row)
        if found:
            return option, found.group(1), said.format(found.group(1))
    return None


def refusal(command):
    result = subprocess.run([CLEAVE, *command], capture_output=True, text=True, timeout=300)
    return result.returncode, result.stderr


def check(given, failures):
    fixed = ",".join(f"{option}={value}" for option, value, _ in given)
    options = [word for option, value, _ in given for word in (f"--{option}", value)]
    interleave = ["--interleave", "2"] if given[0][1] in ("interleaved", "zb-v") else []
    chunks = ",interleave=2" if interleave else ""
    for command in [["plan", *PROBLEM, "--fix", fixed], ["estimate", *PROBLEM, "--micro-batch", "1", *options, *interleave],
                    ["estimate", *PROBLEM, "--fix", f"micro-batch=1,{fixed}{chunks}"]]:
        code, said = refusal(command)
        leaves_none = command[0] == "plan" and any(option == "pp" for option, _, _ in given)
        if code != (3 if leaves_none else 2) or not all(re.search(name, said) for _, _, name in given):
            failures.append(f"cleave {' '.join(command)}: exit {code}: {said}")


def main():
    schedules = [line.split()[0] for line in subprocess.run([CLEAVE, "schedules"], capture_output=True, text=True, check=True).stdout.splitlines() if line.split()]
    failures, asked = [], 0
    for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \| plan: ", (ROOT / "docs/combinations.md").read_text(encoding="utf-8"), re.M):
        given = [choice(name, schedules) for name in row]
        if all(given):
            check(given, failures)
            asked += 1
    print("\n".join(failures))
    print(f"{asked} pairs, {len(failures)} failures")
    return 1 if failures or asked == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
