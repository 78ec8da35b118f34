#!/usr/bin/env python3
"""Links, batches, sequences, prices and costs at the ends of what is documented and beyond: answered or refused by name, no sum wraps, a
search that could not add times up, or that is farther from its bound than it was asked for, does not call itself complete. CLEAVE_TEST_EXTREMES
is how many of each kind are drawn (benchmarks/run_reliability); without it few.
usage: test_cli_extremes.py CLEAVE SOURCE_ROOT"""
import json
import os
import random
import re

from calls import SMALL, check, main, run, seen_elsewhere

GAP, MOST_S = 0.01, 2 ** 52 / 1e9  # the longest step that is counted
DRAWN = int(os.environ.get("CLEAVE_TEST_EXTREMES", "0"))
RATES = (1, 7, 1e3, 1e6, 1e9, 1e12, 1e15)
BATCHES = (1, 8, 97, 1000, 4096, 10 ** 6, 10 ** 9, 10 ** 12)
MODELS = ("tiny-gpt", "tiny-gpt", "tiny-encdec", "gpt2", "mixtral-8x7b", "llama-3-405b")
SHAPES = ("2x1:cpu@inter={0:g}", "1x2:cpu@intra={0:g}", "2x2:cpu@inter={0:g},intra={1:g}", "2x2:h100-sxm@inter={0:g},intra={1:g}",
          "2x1:cpu@latency={2}", "4x2:a100-sxm-80@inter={0:g}", "8x1:l40s@inter={0:g}")
MORE = ((), (), ("--space", "pp=2"), ("--fix", "micro-batch=1"), ("--fix", "zero=3"), ("--schedule", "gpipe"), ("--schedule", "pipedream"),
        ("--schedule", "interleaved,zb-h1"), ("--seq", 10 ** 5), ("--seq", 10 ** 9), ("--dtype", "fp64"), ("--space", "offload=none:both"),
        ("--objective", "cost", "--price", "cpu=1e9", "--price", "h100-sxm=1e9", "--price", "a100-sxm-80=1e-9", "--price", "l40s=1e15"),
        ("--objective", "memory"), ("--top", 3), ("--space", "turns=1:2"))
KNOWN = (("tiny-gpt", "2x1:cpu@inter=1", 8), ("tiny-gpt", "2x1:cpu@inter=1", 1000, "--space", "pp=2"),
         ("tiny-gpt", "2x2:cpu@inter=1,intra=1", 10 ** 6, "--fix", "pp=2,micro-batch=625,tp=2"),
         ("tiny-gpt", "2x1:cpu@inter=1", 10 ** 9, "--fix", "pp=2"),
         ("tiny-gpt", "1x2:cpu@intra=1", 8), ("tiny-gpt", "2x1:cpu", 10 ** 15))


def counted(what, cases, holds):
    """Each case tried: `holds` says why not."""
    passed = 0
    for case in cases:
        why, result = holds(*case)
        check(f"{what}: {case}: {why}", why is None, result)
        passed += why is None
        if why is not None:
            print(f"failed: {case}: {why}", flush=True)
    print(f"trials: {what}: {len(cases)} {passed}", flush=True)


def wrong(result, codes=(0, 2, 3)):
    text = result.stdout + result.stderr
    if result.returncode not in codes or "runtime error" in result.stderr:
        return f"ends with {result.returncode}"
    negative = re.search(r"(?<![\w.])-\d[\d.]* (d|h|min|s|ms|us|ns|B|KiB|MiB|GiB)\b", text)
    return f"says {negative[0]}" if negative else None


def plan_holds(folder):
    path = folder / "plan.json"

    def holds(model, cluster, batch, *more):
        path.unlink(missing_ok=True)
        result = run("plan", model, "--cluster", cluster, "--batch", batch, "--gap", GAP, "--time-limit", 2, "-o", path, *more)
        why = wrong(result, (0, 1, 2, 3))
        if result.returncode == 1 and not re.search("time.limit", result.stderr):
            why = "ends with 1"
        if result.returncode != 0 or why:
            return why, result
        plan = json.loads(path.read_text())
        proof, step_s = plan["certificate"], plan["predicted"]["step_s"]
        if not 0 < step_s < MOST_S:
            return f"a step of {step_s} s", result
        if proof["complete"] and proof.get("proof_gap", 0) > GAP:
            return f"complete with a gap of {proof['proof_gap']}", result
        users = [("check", path), ("show", path), ("simulate", path, "--json")]
        if DRAWN or not more:
            users += [("explain", path, "--part", "what-if", "--time-limit", 2), ("compare", path, path), ("diff", path, path)]
        for words in users if plan["decisions"]["micro_batches"] <= 4096 else users[:2]:
            result = run(*words)
            if why := wrong(result):
                return f"{words[0]}: {why}", result
            if words[0] in ("check", "show") and result.returncode != 0:
                return f"{words[0]} refuses it", result
        return None, None
    return holds


def drawn(most):
    chance = random.Random(7)
    cases = []
    for _ in range(most):
        rates = chance.choice(RATES), chance.choice(RATES)
        cluster = chance.choice(SHAPES).format(*rates, chance.choice((1e-9, 1, 1e3, 1e6)))
        cases.append((chance.choice(MODELS), cluster, chance.choice(BATCHES), *chance.choice(MORE)))
    return cases


@seen_elsewhere
def searches(folder):
    counted("searches on links of a byte per second and more, batches up to 10^12, what reads their plans",
            (*KNOWN[:2 if SMALL else None], *drawn(DRAWN)), plan_holds(folder))


def estimates(_folder):
    """One configuration, as many micro-batches as are allowed."""
    def holds(cluster, batch, *fix):
        result = run("estimate", "tiny-gpt", "--cluster", cluster, "--batch", batch, *fix)
        return wrong(result), result
    cases = [("2x1:cpu@inter=1", 1000, "--pp", 2), ("2x2:cpu@inter=1,intra=1", 2 ** 20, "--pp", 4),
             ("2x1:cpu@inter=1", 2 ** 20, "--schedule", "pipedream", "--pp", 2)]
    chance = random.Random(8)
    for _ in range(DRAWN):
        schedule = chance.choice(("1f1b", "gpipe", "zb-h1", "pipedream", "interleaved"))
        batch = chance.choice((8, 1024, 2 ** 20 if schedule == "1f1b" else 1024))  # others hold them all, or are laid out whole
        cases.append((chance.choice(SHAPES[:3]).format(chance.choice(RATES), chance.choice(RATES), 1), batch, "--pp", 2, "--schedule", schedule, "--zero",
                      chance.choice((0, 3))))
    counted("estimates of steps of up to a million micro-batches on such links", cases[:1] if SMALL else cases, holds)


# ---- partition ----

def graph(chance, format_name, nodes, density):
    """A random graph of the format in which some costs are huge, as text, and its options."""
    huge, share = chance.choice((1e9, 1e12, 1e15, 1e18)), chance.choice((0, 0.05, 0.15, 0.3))
    edges = [(a, b) for b in range(1, nodes) for a in range(b) if chance.random() < density]

    def cost():
        draw = chance.random()
        return huge if draw < share else 0 if draw < 2 * share else round(chance.random() * 10, chance.choice((0, 1, 3)))
    if format_name == "pipedream":
        lines = [f"n{i} -- Conv -- forward_compute_time={cost()}, backward_compute_time={cost()}, activation_size={cost():.1f}, parameter_size={cost():.1f}"
                 for i in range(nodes)] + [f"\tn{a} -- n{b}" for a, b in edges]
        machines, bandwidth = chance.choice((("4,2", "1e9,1e8"), ("2,3", "1,1"), ("5", "1"), ("2", "1e9")))
        return "\n".join(lines) + "\n", ("--machines", machines, "--bandwidth", bandwidth)
    if format_name == "dnn-partitioning":
        sends = [cost() for _ in range(nodes)]
        return json.dumps({"maxSizePerFPGA": chance.choice((20, 1e9, 1e16)), "maxFPGAs": chance.randint(0, 3), "maxCPUs": chance.randint(0, 2), "nodes": [
            {"id": i, "name": f"n{i}", "supportedOnFpga": int(chance.random() < 0.8), "cpuLatency": cost(), "fpgaLatency": cost(), "isBackwardNode": 0,
             "colorClass": i, "size": cost()} for i in range(nodes)], "edges": [{"sourceId": a, "destId": b, "cost": sends[a], "size": 1} for a, b in edges]}), ()

    def variant(i):
        return {"id": "v", "timePerSample": cost(), "parameterSize": cost(), "memoryUsageA": cost(), "memoryUsageB": cost(),
                "syncTimeFw": {str(a): cost() for a, b in edges if b == i}, "syncTimeBw": {str(b): cost() for a, b in edges if a == i}}
    return json.dumps({"maxDevices": chance.randint(1, 6), "maxMemoryPerDevice": chance.choice((100, 1e9, 1e17)), "bandwidth": chance.choice((1, 1e9)),
                       "mbsInBatch": chance.choice((1, 4, 100)), "nodes": [{"id": i, "name": f"n{i}", "TMPCs": {str(d): [variant(i)] for d in (1, 2)}}
                                                                          for i in range(nodes)],
                       "edges": [{"sourceId": a, "destId": b, "communicationCost": cost()} for a, b in edges]}), ()


FORMATS = ("pipedream", "dnn-partitioning", "piper")


def partitions(folder):
    path = folder / "graph"

    def holds(seed, format_name):
        chance = random.Random(seed)
        text, options = graph(chance, format_name, chance.randint(2, 9), 0.35)
        path.write_text(text)
        result = run("partition", path, "--format", format_name, *options, "--json")
        answer = json.loads(result.stdout) if result.returncode == 0 else None
        if answer and not 0 <= answer["bound"] <= answer["objective"] * (1 + 1e-9):
            return f"{answer['bound']} bounds {answer['objective']}", result
        return wrong(result), result
    seeds = [(57, "dnn-partitioning"), (109, "pipedream"), (14, "piper")] + [(seed, name) for seed in range(1000, 1000 + max(DRAWN, 5)) for name in FORMATS]
    counted("graphs with costs of up to 10^18 beside small ones", seeds[:3] if SMALL else seeds, holds)


def wide_partitions(folder):
    """Nodes side by side: every set of them is an ideal."""
    path = folder / "graph"

    def holds(format_name, nodes, *options):
        path.write_text(graph(random.Random(3), format_name, nodes, 0)[0])
        result = run("partition", path, "--format", format_name, *options, "--json", "--time-limit", 1)
        why = wrong(result, (0,))
        answer = json.loads(result.stdout) if not why else None
        if answer and not 0 <= answer["bound"] <= answer["objective"] * (1 + 1e-9):
            return f"{answer['bound']} bounds {answer['objective']}", result
        if answer and answer["cpu_s"] > 4:
            return f"{answer['cpu_s']} s of CPU where 1 was given", result
        return why, result
    counts = (17, 18, 20, 40, 200) if DRAWN else (17,)
    cases = [("pipedream", n, "--machines", machines, "--bandwidth", bandwidth) for n in counts for machines, bandwidth in (("4", "1e9"), ("4,2", "1e9,1e8"))]
    counted("graphs of 131,072 ideals and more, with `--time-limit`: bound and gap", cases[1:] if not DRAWN else cases, holds)


if __name__ == "__main__":
    main(searches, estimates, partitions, wide_partitions)
