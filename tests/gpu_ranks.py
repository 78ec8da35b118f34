#!/usr/bin/env python3
"""Plans of 2 and 4 ranks that share this machine's GPU and talk by NCCL: at each of 20 steps the loss is within 1 % of one rank's.

usage: gpu_ranks.py CLEAVE [--on-processor] [--list | --only CASE | --graphs]   exit code 77: there is no GPU, or no NCCL

--on-processor: the same plans on the processor, over TCP, to try this script where there is no GPU.
--list: the cases, one a line. --only: one of them alone, beside one rank. --graphs: those alone whose steps are graphs.
"""
import json
import os
import subprocess
import sys
import tempfile

CLEAVE = sys.argv[1]
ON_PROCESSOR = "--on-processor" in sys.argv
STEPS, WITHIN, BATCH, SEQUENCE = 20, 0.01, 8, 32
MODEL, DEVICE = "tiny-gpt", "h100-sxm"
PLANS = {  # what --fix names, by ranks
    2: ["dp=2,zero=0", "dp=2,zero=1", "dp=2,zero=2", "dp=2,zero=3", "tp=2", "pp=2,micro-batch=2,schedule=1f1b"],
    4: ["dp=4,zero=0", "dp=4,zero=3", "tp=2,dp=2,zero=1", "pp=2,dp=2,zero=2,micro-batch=1,schedule=1f1b", "pp=2,tp=2,micro-batch=2,schedule=1f1b"],
}
GRAPHS = {2: ["dp=2,zero=0", "tp=2", "pp=2,micro-batch=2,schedule=1f1b"], 4: ["dp=4,zero=3"]}  # of these as graphs, too: --graph-ranks
CASES = {f"{ranks} ranks, {fixed}, {dtype}": (ranks, fixed, dtype, False) for dtype in (("fp32",) if ON_PROCESSOR else ("fp32", "bf16"))
         for ranks, plans in PLANS.items() for fixed in plans}
if not ON_PROCESSOR:
    CASES |= {f"{ranks} ranks, {fixed}, {dtype}, graphs": (ranks, fixed, dtype, True) for ranks, plans in GRAPHS.items() for fixed in plans
              for dtype in ("fp32", "bf16")}
BACKEND = ["--backend", "cpu"] if ON_PROCESSOR else ["--backend", "cuda"]
TRANSPORT = ["--transport", "tcp"] if ON_PROCESSOR else ["--transport", "nccl", "--share-gpus"]
TIMEOUT_S = 300


def cleave(*words):
    return subprocess.run([CLEAVE, *map(str, words)], capture_output=True, text=True, timeout=TIMEOUT_S)


def skip_without_gpu():
    found = json.loads(cleave("doctor", "--json").stdout)
    for what in ("gpu", "nccl"):
        if not found[what]["found"]:
            print(f"skipped: {found[what]['reason']}")
            sys.exit(77)


def losses(folder, ranks, fixed, dtype, graphs=False):
    plan = os.path.join(folder, "plan.json")
    made = cleave("plan", MODEL, "--cluster", f"1x{ranks}:{DEVICE}", "--batch", BATCH, "--seq", SEQUENCE, "--dtype", dtype, "--fix", fixed, "-o", plan)
    if made.returncode:
        sys.exit(f"{fixed}: no plan: {made.stderr}")
    words = ["run", plan, "--steps", STEPS, "--learning-rate", "3e-3", "--json", *BACKEND]
    if ranks > 1:
        words += [*TRANSPORT, "-n", ranks, *(["--graph-ranks"] if graphs else [])]
    ran = cleave(*words)
    if ran.returncode:
        sys.exit(f"{ranks} ranks, {fixed}, {dtype}: exit code {ran.returncode}: {ran.stderr}")
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    return [line["loss"] for line in lines if "loss" in line and "step" in line]


def one_rank(folder, dtype):
    alone = losses(folder, 1, "pp=1", dtype)
    if len(alone) != STEPS or alone[-1] >= alone[0]:
        sys.exit(f"one rank, {dtype}: {len(alone)} losses from {alone[0]} to {alone[-1]}: it does not learn")
    return alone


def main():
    if "--list" in sys.argv:
        sys.exit(print("\n".join(CASES)))
    wanted = [sys.argv[sys.argv.index("--only") + 1]] if "--only" in sys.argv else \
        [case for case, (*_, graphs) in CASES.items() if graphs or "--graphs" not in sys.argv]
    if not wanted:
        sys.exit("no such case: a processor has no graphs")
    if not ON_PROCESSOR:
        skip_without_gpu()
    failures, alone = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        for case in wanted:
            ranks, fixed, dtype, graphs = CASES[case]
            if dtype not in alone:
                alone[dtype] = one_rank(folder, dtype)
            got = losses(folder, ranks, fixed, dtype, graphs)
            far = max(abs(a - b) / b for a, b in zip(got, alone[dtype], strict=True))
            failures += far > WITHIN
            print(f"{'FAILED' if far > WITHIN else 'ok'}: {case}: loss within {100 * far:.3f} % of one rank's over {STEPS} steps", flush=True)
    sys.exit(1 if failures else 0)


main()
