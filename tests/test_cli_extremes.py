#!/usr/bin/env python3
"""Links and batches at the ends of what is documented: sums do not wrap, a search that could not add them up does not call itself complete.
usage: test_cli_extremes.py CLEAVE SOURCE_ROOT"""
import json

from calls import check, main, run, some

GAP = 0.01


def is_sane(folder, cluster, batch, *more):
    plan = folder / "plan.json"
    result = run("plan", "tiny-gpt", "--cluster", cluster, "--batch", batch, "--gap", GAP, "--time-limit", 5, "-o", plan, *more)
    name = f"{cluster} {batch}"
    check(f"{name}: says what it does", result.returncode in (0, 2, 3) and "runtime error" not in result.stderr, result)
    if result.returncode == 0:
        proof = json.loads(plan.read_text())["certificate"]
        check(f"{name}: complete with a gap of {proof.get('proof_gap')}", not proof["complete"] or proof["proof_gap"] <= GAP)
        check(f"{name}: a step is no negative time", json.loads(plan.read_text())["predicted"]["step_s"] > 0)
        check(f"{name}: checked", run("check", plan).returncode == 0, run("check", plan))
        plan.unlink()


def slow_links(folder):
    for rate in some((1, 10, 1000, 1e6)):
        for where in ("2x1:cpu@inter", "1x2:cpu@intra"):
            is_sane(folder, f"{where}={rate:g}", 8)
    is_sane(folder, "2x1:cpu@latency=1", 8)


def large_batches(folder):
    is_sane(folder, "2x1:cpu", 10 ** 15)


if __name__ == "__main__":
    main(slow_links, large_batches)
