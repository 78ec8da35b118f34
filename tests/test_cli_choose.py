#!/usr/bin/env python3
"""plan --objective, --price and recommend, held against plan on each candidate and against closed forms.

usage: test_cli_choose.py CLEAVE SOURCE_ROOT
"""
import functools
import json
import math
import re

from calls import ALL, SMALL, check, expect, main, run, seen_elsewhere, some

JOB = ["tiny-gpt", "--batch", 8, "--seq", 16, "--dtype", "fp32"]


def answer(*words):
    result = run(*words, "--json")
    check(f"{words}: exit {result.returncode}", result.returncode in (0, 3), result)
    return json.loads(result.stdout)


def near(a, b):
    return math.isclose(a, b, rel_tol=1e-9)


@functools.cache
def step_of(cluster, *words):
    result = run("plan", *words, "--cluster", cluster, "--json")
    return json.loads(result.stdout)["predicted"]["step_s"] if result.returncode == 0 else None


def prices(_folder):
    """Dollars and energy of a step by their definitions."""
    plan = answer("estimate", "gpt2", "--cluster", "2x8:a100-sxm-80", "--batch", 64, "--micro-batch", 4, "--price", "a100-sxm-80=$1.5,h100-sxm=2")
    step, cost, tokens = plan["predicted"]["step_s"], plan["cost"], 64 * 1024
    check("of an hour", near(cost["dollars_per_hour"], 16 * 1.5), None)
    check("of a step", near(cost["dollars_per_step"], 24 * step / 3600) and near(cost["dollars_per_1e9_tokens"], 24 * step / 3600 / tokens * 1e9), None)
    check("energy", near(cost["kwh_per_step"], 16 * 400 * step / 3.6e6) and near(cost["kwh_per_1e9_tokens"], 16 * 400 * step / 3.6e6 / tokens * 1e9), None)
    expect("the line", 0, r"cost: \$[0-9.]+ a step, \$[0-9.]+ per 1e9 tokens, at \$24 an hour for all devices\nenergy: ", "estimate", "gpt2", "--cluster",
           "2x8:a100-sxm-80", "--batch", 64, "--micro-batch", 4, "--price", "a100-sxm-80=1.5")
    for wrong, pattern in (("h100=2", "did you mean"), ("h100-sxm", "expected TYPE=DOLLARS"), ("h100-sxm=0", "expected dollars"), ("h100-sxm=nan", "expected dollars"),
                           ("h100-sxm=2,h100-sxm=3", "given twice"), (",", "expected TYPE=DOLLARS")):
        expect(f"--price {wrong}", 2, pattern, "plan", *JOB, "--cluster", "1x2:cpu", "--price", wrong)


def cheapest(folder):
    """--objective cost is the least of price x devices x step over the parts of the cluster, each as `plan` finds it."""
    file = folder / "cheapest.json"
    for cluster, price in some((("1x2:l40s+1x2:h100-sxm", {"l40s": 1, "h100-sxm": 3}), ("1x4:cpu", {"cpu": 0.5}))):
        job = [*JOB[:-2], "--dtype", "bf16"] if "h100" in cluster else JOB
        words = ",".join(f"{name}={value}" for name, value in price.items())
        plan = answer("plan", *job, "--cluster", cluster, "--objective", "cost", "--price", words, "-o", file)
        tried = plan["objective"]["tried"]
        for part in tried:
            own = sum(int(group.split("x")[0]) * int(group.split("x")[1].split(":")[0]) * price[group.split(":")[1]] for group in part["cluster"].split("+"))
            check(f"{part}: as plan has it", near(part["step_s"], step_of(part["cluster"], *job)))
            check(f"{part}: its cost", near(part["dollars_per_step"], own * part["step_s"] / 3600))
        least = min(tried, key=lambda part: part["dollars_per_step"])
        check(f"{cluster}: the cheapest", plan["context"]["cluster"]["source"] == least["cluster"] and near(plan["predicted"]["step_s"], least["step_s"]))
        check(f"{cluster}: the whole and one device were looked at", {cluster} < {part["cluster"] for part in tried} and min(part["devices"] for part in tried) == 1)
        expect(f"{cluster}: check", 0, "the certificate holds", "check", file)
    job, files = ("plan", *JOB[:-2], "--objective", "cost", "--price", "l40s=1,h100-sxm=3", "--cluster"), {}
    for name, more in (("plain", {}), ("slow", {"bytes_per_s": 1e9})):
        groups = [{"device": device, "levels": [{"name": "node", "fanout": 2}, {"name": "net", "fanout": 1, **more}]} for device in ("l40s", "h100-sxm")]
        files[name] = folder / f"{name}.json"
        files[name].write_text(json.dumps({"format": "cleave-cluster", "version": 2, "groups": groups}))
    typed, of_file = run(*job, "1x2:l40s+1x2:h100-sxm").stdout, run(*job, files["plain"])
    rows = [[line.split()[-3:] for line in text.splitlines() if re.match("[* ] (\\S+json|1x[12]:)", line)] for text in (typed, of_file.stdout)]
    check("parts of a file that says what a short form says", rows[0] == rows[1] and len(rows[0]) > 3, of_file)
    check("one device is the cheapest, and the formula is not about all plans on more", "\nno plan with 1f1b and gpipe on any of these" in typed, of_file)
    result = run(*job, files["slow"])
    check("parts of a file that says more", "cheapest of 1 part " in result.stdout and "note: smaller parts" in result.stderr and
          "--cluster 1x2:l40s+1x2:h100-sxm," in result.stderr, result)
    least, own, cost = (float(re.search(words, result.stdout)[1]) for words in (r"these costs less than \$(\S+)", r"formula \(the one above: \$(.*)\)", r"cost: \$(\S+)"))
    check("the least cost by the formula is not above the plan's by it", least <= own * 1.001, result)
    expect("prices of other devices alone", 2, "a step's cost needs what a device costs for an hour: give --price cpu=DOLLARS$", "plan", *JOB, "--cluster", "1x2:cpu",
           "--price", "a100-sxm-80=2")
    expect("a price that lacks", 2, "give --price h100-sxm=DOLLARS", "plan", "gpt2", "--batch", 8, "--cluster", "1x2:h100-sxm", "--objective", "cost")
    expect("least memory: hosts", 0, "nothing was kept on hosts for it; less may do", "plan", "gpt2", "--cluster", "1x2:rtx4090", "--batch", 8, "--objective", "memory")
    expect("an objective that is none", 2, "expected one of time, cost, memory", "plan", *JOB, "--cluster", "1x2:cpu", "--objective", "speed")
    expect("objectives and --pareto", 2, "give it without --pareto", "plan", *JOB, "--cluster", "1x2:cpu", "--objective", "memory", "--pareto", "memory")
    odd = answer("plan", *JOB[:-2], "--dtype", "fp32", "--cluster", "4x1:cpu", "--objective", "cost", "--price", "cpu=1", "--fix", "pp=1,tp=1,sp=false,cp=1,micro-batch=4", "-o", file)["objective"]["tried"]
    if ALL:
        job = ["llama-2-70b", "--batch", 64, "--seq", 4096]
        plan = answer("plan", *job, "--cluster", "2x8:a100-sxm-80", "--objective", "cost", "--price", "a100-sxm-80=2", "-o", file)
        check("states on hosts", "offload" in json.dumps(plan["search"]["widened"]) and plan["context"]["cluster"]["source"] == "2x8:a100-sxm-80" and
              near(plan["predicted"]["step_s"], step_of("2x8:a100-sxm-80", *job)), plan["search"])
    check("a part that the batch cannot be dealt to ends nothing", [(part["devices"], "step_s" in part) for part in odd] == [(4, False), (3, False), (2, True), (1, True)])


@seen_elsewhere
def leanest(folder):
    """--objective memory: no other known plan takes less, and with 1/32 less none is found."""
    file = folder / "leanest.json"
    job = [*JOB, "--cluster", "1x4:cpu"]
    plan = answer("plan", *job, "--objective", "memory", "-o", file)
    peak = max(plan["predicted"]["peak_bytes"])
    frontier = [{"peak_bytes": peak}] if SMALL else answer("plan", *job, "--pareto", "memory")["frontier"]
    check("no more than the frontier's end, but for that part", peak * 31 / 32 <= min(point["peak_bytes"] for point in frontier), None)
    expect("check", 0, "the certificate holds", "check", file)
    device = int(plan["context"]["reserve"]) + plan["predicted"]["available_bytes"]
    expect("1/32 less", 3, "fits|fit", "plan", *job, "--fix", "offload=none,loss-chunks=1", "--space", "recompute=none:full", "--reserve", device - (peak - max(1, peak // 32)))
    check("the shortest within so much", near(plan["predicted"]["step_s"], step_of("1x4:cpu", *JOB, "--fix", "offload=none", "--reserve", plan["context"]["reserve"])), None)


@seen_elsewhere
def withheld(_folder):
    """What --objective memory keeps from plans is neither a reserve nor a card that is full; what a device keeps anyway is told otherwise."""
    job = ["plan", "gpt2", "--batch", 16, "--cluster", "1x2:h100-sxm", "--target", "deepspeed"] # of which offload would take less
    leanest, usual = (run(*job, *words).stdout for words in (["--objective", "memory"], []))
    check("memory that is kept from plans", "which has least room: " in leanest and "not for plans" not in leanest and "fuller than" not in leanest, leanest)
    check("nothing goes to hosts for it", "widened" not in leanest and "nothing was kept on hosts for it" in leanest and "none was found" in leanest, leanest)
    check("memory that is not for plans", "which has least room: " in usual and "of each device are not for plans" in usual, usual)


def recommends(_folder):
    """Each candidate's step is plan's, its verdict follows, what was not searched could not have served."""
    job = ["gpt2", "--batch", 32, "--dtype", "bf16"]
    for target, words in some(((("--target-time", 0.05), ["--price", "l40s=0.9,a10=0.5"]), (("--target-time", 0.05), []), (("--budget", 1e-4), ["--price", "l40s=0.9,a10=0.5"]))):
        found = answer("recommend", *job, "--among", "1x8:l40s,1x2:a10,1x4:a10" if SMALL else "l40s,1x2:a10,1x4:a10", *target, *words)
        price = {"l40s": 0.9, "a10": 0.5} if words else None
        serving = []
        for c in found["candidates"]:
            step = step_of(c["cluster"], *job) if c["devices"] <= 16 else c.get("step_s", c.get("bound_step_s"))
            money = price and price[c["cluster"].split(":")[1]] * c["devices"] * step / 3600
            meets = step <= target[1] if target[0] == "--target-time" else money <= target[1]
            check(f"{c}: bound", c["bound_step_s"] <= step * (1 + 1e-9))
            if "step_s" in c:
                check(f"{c}: as plan has it ({step})", near(c["step_s"], step) and (c["verdict"] == "meets it") == meets)
            elif c["verdict"] == "hopeless":
                check(f"{c}: indeed", not meets)
            if meets and "step_s" in c:
                serving.append((step if found["goal"] == "fastest" else money if found["goal"] == "cheapest" else c["devices"], step, c["cluster"]))
            elif meets and c["verdict"] == "no better" and found["goal"] == "cheapest":
                check(f"{c}: is no cheaper", money >= min(serving)[0])
        check(f"{target} {words}: the best ({serving}, {found['best']})", found["best"] == min(serving)[2])
    # a step that is bounded alone bounds sums; rates are written out
    shown = run("recommend", *job, "--among", "1x1:a10,l40s", "--tokens", "1T", "--budget", 1, "--price", "l40s=0.9,a10=0.5").stdout
    bounded = [line for line in shown.splitlines() if " > " in line]
    check("sums of bounds", len(bounded) > 0 and all(re.search(r" >[\d.]+ +>[\d.]+ ", line) for line in bounded) and not re.search(r"\de\+0", shown.split("\n", 1)[1]))
    # a cluster that is named and reached by its type, in either order, is searched and listed once
    for among in ("1x8:l40s,l40s", "l40s,1x8:l40s"):
        found = answer("recommend", *job, "--among", among, "--target-time", 0.05)
        names = [c["cluster"] for c in found["candidates"]]
        check(f"{among}: listed once", len(set(names)) == len(names) and "1x8:l40s" in names and found["searched"] <= len(names), found)
    # where nothing fits the space is wider, as plan's is, but for clusters that would serve no better
    wide = ["llama-2-7b", "--batch", 64, "--seq", 4096, "--target", "deepspeed"]
    found = answer("recommend", *wide, "--among", "1x1:l40s,1x1:gh200-96,1x2:l40s", "--tokens", 1e8, "--target-time", "10d")["candidates"] if ALL else []
    if found:
        plan = answer("plan", *wide, "--cluster", "1x1:gh200-96")
        check("offload, as plan has it", found[0]["widened"] == "offload" == plan["search"]["widened"][0] and near(found[0]["step_s"], plan["predicted"]["step_s"]))
        check("the faster of two single devices, whichever comes first", found[0]["cluster"] == "1x1:gh200-96" and found[1]["verdict"] == "meets it", found)
        check("no wider space where one device serves", found[2]["verdict"] == "nothing fits" and found[2]["narrow"] and "widened" not in found[2], found)
    # tokens: a whole training is as many steps as hold them
    found = answer("recommend", *job, "--among", "1x8:l40s", "--tokens", "1B", "--target-time", "30d", "--price", "l40s=1")
    only = found["candidates"][0]
    steps = math.ceil(1e9 / (32 * 1024))
    check("steps", found["steps"] == steps and near(only["total_s"], steps * only["step_s"]) and near(only["total_dollars"], steps * 8 * only["step_s"] / 3600), None)
    expect("people", 0, r"\* 1x8:l40s +8 .* meets it", "recommend", *job, "--among", "1x8:l40s", "--tokens", "1B", "--target-time", "30d")
    expect("a type stated otherwise", 0, r"\* 1x8:l40s@memory=24GiB +8 .* meets it", "recommend", *job, "--among", "l40s@memory=24GiB", "--tokens", "1B", "--target-time", "30d")
    expect("nothing meets it", 3, "none of the", "recommend", *job, "--among", "1x8:l40s", "--target-time", "1ms")
    for tokens, noted in ((), True), (("--tokens", "1B"), False):
        result = run("recommend", *job, "--among", "1x8:l40s", "--target-time", "30d", *tokens)
        check(f"30 days {tokens}", ("note: --target-time 30d is taken for one step; with --tokens N" in result.stderr) == noted, result)
    # between the most nodes that are too slow, 2, and the fewest that are not, 4
    expect("numbers between", 0, r"\* 3x8:l40s +24 .*meets it.* 4x8:l40s .*meets it.* 2x8:l40s .*too slow.*then by halves between",
           "recommend", "gpt2", "--batch", 96, "--among", "l40s", "--target-time", 0.05)
    for time in ("30days", "30 days", "4.3 weeks"):
        expect(f"as people write {time}", 0, "in at most 30.[01] d;", "recommend", *job, "--among", "1x8:l40s", "--tokens", "1B", "--target-time", time)
    few = 2 if SMALL else 3
    found = answer("recommend", "tiny-llama" if SMALL else "gpt2", *job[1:], "--among", "l40s", "--budget", 100, "--price", "l40s=1", "--most-devices", 8 * few)
    check("no more devices than that, and so many", {o["cluster"] for o in found["candidates"]} == {f"{nodes + 1}x8:l40s" for nodes in range(few)}, None)


def wrong_questions(_folder):
    for words, pattern in ((["--batch", 8], "--target-time TIME or --budget"), (["--target-time", 1], "--batch is missing"), (["--batch", 8, "--budget", 5], "give --price"),
                           (["--batch", 8, "--target-time", "soon"], "expected a time"), (["--batch", 8, "--target-time", "-1"], "expected a time"),
                           (["--batch", 8, "--target-time", 1, "--tokens", "many"], "number of tokens"), (["--batch", 8, "--target-time", 1, "--among", "h100"], "did you mean"),
                           (["--batch", 8, "--target-time", 1, "--among", "64xH100:"], "did you mean|expected"), (["--batch", 8, "--budget", "0", "--price", "l40s=1"], "expected dollars"),
                           (["--batch", 8, "--target-time", 1, "--among", ","], "expected a cluster"), (["--batch", 8, "--target-time", 1, "--dtype", "bf17"], "--dtype"),
                           (["--batch", 8, "--target-time", 1, "--among", "l40s", "--most-devices", 4], "expected at least 8, the devices of a node of l40s, found 4")):
        expect(f"recommend {words}", 2, pattern, "recommend", "gpt2", *words)


@seen_elsewhere
def short_of_memory(folder):
    """Where nothing fits, with hosts' memory or without, plan and explain say the changes by which something does, of what the target can be told."""
    job = ["llama-2-7b", "--cluster", "1x1:rtx4090", "--batch", 8, "--seq", 2048, "--target", "deepspeed"]
    expect("plan", 3, r"needs [0-9.]+ GiB of its host's memory.*what fits, each change alone:.*  hosts of [0-9.]+ GiB", "plan", *job)
    said = expect("plan without offload", 3, r"needs [0-9.]+ GiB on each device.*what fits, each change alone:.*  devices of [0-9.]+ GiB", "plan", *job, "--fix", "offload=none")
    check("no offload where the user excludes it", "offload" not in said.stdout + said.stderr, said)
    if SMALL:
        return
    said = expect("explain", 3, "nothing fits", "explain", *job)
    check("explain: the changes", re.search(r"\n  memory per device  [0-9.]+ GiB instead of 24.0 GiB: .*\n  devices +8 instead of 1: ", said.stdout), said)
    expect("a batch is found without offload", 0, r"best of \d ways", "plan", "gpt2", "--cluster", "1x2:l40s", "--seq", 512, "--batch", "auto:8", "--target", "deepspeed")
    for target, devices in (("deepspeed", 1), ("torchtitan", 2))[:2 if ALL else 1]:
        expect(f"offload for {target}", 0, "layers offloaded.*widened: nothing fits without offload", "plan", "llama-2-7b", "--batch", 8, "--seq", 1024,
               "--cluster", f"1x{devices}:rtx4090@host=25e9,host-memory=256e9", "--target", target, "--launch", folder / f"widened-{target}")
    # nor does it hang on the batch: what fits with two micro-batches fits with more
    tight = ["llama-3-70b", "--cluster", "1x4:h100-sxm", "--seq", 2048, "--fix", "pp=1,tp=1,micro-batch=1,loss-chunks=16", "--space", "recompute=full:block,offload=none:all"]
    for batch in (8, 16, 256) if ALL else (8,):
        expect(f"tight hosts, {batch} sequences", 0, r"7\d\.\d GiB of 77\.0 GiB\n  host memory per device, by stage: 23[0-3] GiB of 233 GiB", "plan", *tight, "--batch", batch)
    # and where something fits, but nothing near what the formula finds, states go to hosts
    crowded = ["mixtral-8x7b", "--batch", 512, "--seq", 4096, "--cluster", "2x8:h100-sxm", "--target", "deepspeed", "--reserve", "30GiB"]
    light, heavy = answer("plan", *crowded), answer("plan", *crowded, "--fix", "offload=none")
    check("crowded: states on hosts", light["search"]["widened"] == ["offload"] and 2 * light["predicted"]["step_s"] < heavy["predicted"]["step_s"])


main(prices, cheapest, leanest, withheld, recommends, wrong_questions, short_of_memory)
