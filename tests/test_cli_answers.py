#!/usr/bin/env python3
"""Several plans at once, what tells two apart, and what proves one. usage: test_cli_answers.py CLEAVE SOURCE_ROOT"""
import json
import re

from calls import ALL, SMALL, check, described, expect, main, run, seen_elsewhere, some


def several(folder):
    small = ["plan", "tiny-gpt", "--cluster", "2x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32"]
    for repeated in some(("layer[0-1].zero=1,layer[1].zero=0,turns=1", "tp=1,tp=1,dp=2")):
        expect(f"--fix {repeated}: the same again, and layers' rules", 0, "step", *small, "--fix", repeated)
    if ALL:
        expect("plan --top", 0, r"\n 2\. .*\n 3\. ", *small, "--top", 3)
    answer = run(*small, "--top", 4, "--json", *([] if ALL else ["--fix", "tp=1,zero=1"]))
    top = json.loads(answer.stdout)["top"]
    check("plan --top: as many, by step", len(top) == 4 and [t["step_s"] for t in top] == sorted(t["step_s"] for t in top), answer)
    check("plan --top: the plan is the first", top[0]["step_s"] == json.loads(answer.stdout)["predicted"]["step_s"], answer)
    check("plan --top --json is a plan file", run("show", "-", stdin=answer.stdout).returncode == 0)
    expect("plan --top of a space with few plans", 0, "there are no more than 1 plans", *small, "--top", 9, "--fix", "pp=1,tp=1,zero=0,recompute=none,micro-batch=2,prefetch=1")
    for resource, key in some([("memory", "peak_bytes"), ("devices", "devices")]):
        fixed = ["--fix", "tp=1,zero=1,micro-batch=2"]
        expect(f"plan --pareto {resource}", 0, "none of these is beaten in both", *small, *fixed, "--pareto", resource)
        answer = run(*small, *([] if ALL else fixed), "--pareto", resource, "--json")
        points = json.loads(answer.stdout)["frontier"]
        check(f"plan --pareto {resource}: falls", len(points) > 1 and all(
            a["step_s"] < b["step_s"] and a[key] > b[key] for a, b in zip(points, points[1:])), answer)
    fewer = "fewer devices take less time: .* less than all 5: --cluster 1x3:h100-sxm\n"
    mixed = ["plan", "bert-large", "--cluster", "1x3:h100-sxm+1x2:l40s", "--batch", 24, "--schedule", "1f1b"]
    answer = expect("plan --pareto devices of two types", 0, rf"\n .* 2  1x2:l40s  (.|\n)*{fewer}", *mixed, "--pareto", "devices")
    check("plan --pareto devices: not all five", "1x3:h100-sxm+1x2:l40s" not in answer.stdout, answer)
    check("plan --pareto devices: types are compared by no number", "beaten in step and devices of each type (--price" in answer.stdout, answer)
    priced = [*mixed, "--pareto", "devices", "--price", "h100-sxm=1,l40s=1"]
    answer = expect("plan --pareto devices by prices", 0, r"\$ a step  cluster +none of these is beaten in step and \$ an hour\n", *priced)
    points = json.loads(run(*priced, "--json").stdout)["frontier"]
    check("plan --pareto devices by prices: none is beaten", [p["cluster"] for p in points] == ["1x3:h100-sxm", "1x2:h100-sxm", "1x1:h100-sxm"], points)
    check("plan --pareto devices: dollars", all(abs(p["dollars_per_step"] - p["devices"] * p["step_s"] / 3600) < 1e-12 for p in points), points)
    expect("plan --pareto devices: fewer by offload", 0, r" 1  1x1:h100-sxm  .* layers offloaded\n",
           "plan", "llama-3-8b", "--cluster", "1x2:h100-sxm", "--batch", 2, "--seq", 2048, "--fix", "micro-batch=1,tp=1", "--schedule", "1f1b", "--pareto", "devices")
    if not SMALL:
        answer = run(*mixed)
        check("plan: one type alone takes less", answer.returncode == 0 and re.search(fewer, answer.stderr), answer)
        expect("explain: fewer devices take less", 0, "fewer devices take less time: .* less than all 8: --cluster 1x2:rtx4090\n",
               "explain", "tiny-gpt", "--batch", 8, "--cluster", "2x4:rtx4090", "--schedule", "1f1b", "--part", "what-if")
    answer = expect("plan --batch auto", 0, "", "plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", "auto", "--seq", 16, "--fix", "dp=2,micro-batch=3", "--json")
    found = json.loads(answer.stdout)
    tried = {t["batch"]: t["step_s"] for t in found["batches"]}
    check("plan --batch auto: all tried have what is fixed", len(tried) > 2 and all(batch % 6 == 0 for batch in tried), answer)
    check("plan --batch auto: the plan's is one of them", tried[found["decisions"]["batch"]] == found["predicted"]["step_s"], answer)
    check("plan --batch auto: all are shown", all(re.search(rf"^[* ] +{batch}: step ", answer.stderr, re.M) for batch in tried), answer)
    check("plan --batch auto: why the most per second is not taken", re.search(r", the smallest within 0\.1 % of the most sequences/s; doubling(?s:.*)\n\* +768: .*\n +1152: ", answer.stderr), answer)
    if ALL:
        expect("plan --batch auto: beyond 63 bits is none", 3, "40960: no plan", "plan", "llama-3-70b", "--cluster", "1x5:a100-sxm-80", "--batch", "auto", "--fix", "offload=none")
    most = run("plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", "auto:6", "--seq", 16, "--fix", "dp=2", "--json")
    check("plan --batch auto:MOST: none above", max(t["batch"] for t in json.loads(most.stdout)["batches"]) <= 6, most)
    cut = run("plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", "auto", "--seq", 16, "--time-limit", "0.000001")
    check("plan --batch auto, cut short", cut.returncode == 0 and re.search(r"batch: \d+ sequences of those tried \(ended early: batches above \d+ were not tried in time\)", cut.stderr), cut)
    for batch in ("auto:4", 7):
        refused = expect(f"plan --batch {batch}: none has dp=8", 3, "has a configuration|no configuration", "plan", "tiny-gpt", "--cluster", "1x8:cpu", "--batch", batch, "--seq", 16, "--fix", "dp=8", "--json")
        check(f"plan --batch {batch}: a report", json.loads(refused.stdout)["format"] == "cleave-infeasible", refused)
    narrow = ["--fix", "pp=1,zero=0,recompute=full,offload=none"] if SMALL else []  # else all that widens a search is tried
    short = [run("plan", "llama-2-7b", "--cluster", "1x2:rtx4090", "--batch", batch, *narrow, "--json") for batch in ("auto:4", 1)]
    check("plan --batch auto: nothing fits as with a batch", all(r.returncode == 3 for r in short) and short[0].stdout == short[1].stdout, short[0])
    for wrong in ("autos", "auto:", "auto:0", "auto:6x"):
        expect(f"plan --batch {wrong}", 2, f"--batch: expected a number from 1 to 1000000000, auto, or auto:MOST .*found '{wrong}'",
               "plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", wrong)
    check("plan --batch auto --json is a plan file", run("show", "-", stdin=answer.stdout).returncode == 0)
    expect("plan --pareto of what", 2, "--pareto: expected one of memory, devices; found 'money'", *small, "--pareto", "money")


def differs(folder):
    small = ["plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32"]
    a, b, other = folder / "a.json", folder / "b.json", folder / "c.json"
    run(*small, "--fix", "tp=1,pp=1,zero=0", "-o", a)
    run(*small, "--fix", "tp=1,pp=1,zero=3", "-o", b)
    run("plan", "tiny-llama", *small[2:], "-o", other)
    expect("diff: the same", 0, "the same decisions.*step", "diff", a, a)
    expect("diff", 0, r"layers \d+-\d+: zero 0 -> 3.*predicted.*step.*memory.*sum", "diff", a, b)
    answer = run("diff", a, b, "--json")
    found = json.loads(answer.stdout)
    predicted = found["predicted"]
    check("diff --json as described", described("diff", found) and described("diff.decision", found["decisions"][0]), answer)
    check("diff: items add up", abs(sum(predicted["difference_s"].values()) - (predicted["b"]["step_s"] - predicted["a"]["step_s"])) < 1e-8
          and all(sum(predicted[side]["memory_bytes"].values()) == predicted[side]["peak_bytes"] for side in "ab"), answer)
    check("diff: same", json.loads(run("diff", a, a, "--json").stdout)["same"] is True and found["same"] is False)
    run("plan", "gpt2", "--cluster", "1x2:h100-sxm", "--batch", 8, "-o", a)
    run("plan", "gpt2", "--cluster", "1x4:h100-sxm", "--batch", 8, "--framework", "torchtitan", "-o", b)
    expect("diff: what the plans are for, and places that differ alike", 0, r"for cluster 1x2:h100-sxm -> 1x4:h100-sxm\nrun by cleave -> torchtitan\n(.*\n)*layer 2, layer 4, layer 6, layer 8 and \d+ more: zero 3 -> 1\n", "diff", a, b)
    answer = run("diff", a, b, "--json")
    check("diff --json: what the plans are for", [(at["what"], at["a"], at["b"]) for at in json.loads(answer.stdout)["context"]] ==
          [("cluster", "1x2:h100-sxm", "1x4:h100-sxm"), ("framework", "cleave", "torchtitan")] and found["context"] == [], answer)
    expect("diff of two models", 0, "no predictions: they are for different models", "diff", a, other)
    expect("show of a model", 2, "gpt2: expected a plan file", "show", "gpt2")
    expect("diff of what is no plan", 2, "No such file", "diff", a, folder / "none.json")


def certificates_of_kinds(folder):
    """Of plans with offload, of what the formula does not bound, of searches cut short."""
    away, tight = folder / "offloaded.json", ["plan", "gpt2-medium", "--cluster", "1x2:a100-sxm-80@memory=6.5e9", "--batch", 16, "--fix", "recompute=none"]
    expect("does not fit without host memory", 3, "widened by loss-chunks, cp: nothing fits with all of these(.|\n)*nothing fits", *tight, "--space", "offload=none")
    wider = "widened: nothing fits without offload; the same search: --space (offload=none:activations:optimizer:both)"
    found = expect("fits with it", 0, rf"layers offloaded(.|\n)*host memory per device(.|\n)*{wider}", *tight, "--timings", "-o", away)
    parts = {row[0]: [float(number) for number in row[1:]] for line in found.stderr.splitlines() if re.search(r"\d$", line) for row in [line.split()]}
    check(f"timings: the last search by parts, and those before it: {found.stderr}", min(parts["bounds"][0], parts["proof"][0], parts["other"][0]) > 0)
    named = folder / "named.json"
    expect("named, it is the same search", 0, "layers offloaded", *tight, "--space", re.search(wider, found.stdout).group(1), "-o", named)
    plans = [json.loads(file.read_text()) for file in (away, named)]
    check("widened or named: one plan and one certificate", all(plans[0][part] == plans[1][part] for part in ("decisions", "predicted", "certificate"))
          and plans[0]["search"]["widened"] == ["offload"] and "widened" not in plans[1]["search"])
    expect("show of what was widened", 0, "the space was widened by offload", "show", away)
    states = ["plan", "gpt2-medium", "--cluster", "2x1:a10g@memory=8e9", "--batch", 64, "--target", "deepspeed", "-o", named]
    expect("states on hosts, for a tenth and more", 0, r"widened by offload: the shortest plan without takes [0-9.]+ s; the same search: --space offload=none:optimizer", *states)
    with_states = json.loads(named.read_text())
    expect("without, when asked", 0, r"^(?!(.|\n)*widened)", *states, "--space", "offload=none")
    without = json.loads(named.read_text())
    check("a tenth shorter", with_states["predicted"]["step_s"] < 0.9 * without["predicted"]["step_s"] and with_states["search"]["widened"] == ["offload"]
          and "widened" not in without["search"])
    expect("explain seeks others where it was found", 0, r"tp=2: .*offloaded", "explain", away, "--part", "versus", "--versus", "tp=2")
    expect("check of what is offloaded", 0, "the certificate holds", "check", away)
    meshed = folder / "meshed.json"  # two devices that are linked each to each have less of their links than ranks of two nodes
    expect("a plan of linked devices", 0, "no plan of the space is shorter", "plan", "llama-3-8b", "--cluster", "2x8:mi300x@inter=400e9", "--batch", 64, "--seq", 4096,
           "--space", "order=data-inside,tp=2,pp=1,zero=0:1", "--gap", 0, "-o", meshed)
    expect("check of linked devices", 0, "the certificate holds", "check", meshed)
    unbound = folder / "unbound.json"
    expect("no proof where the formula bounds nothing", 0, r"no proof: the formula does not bound this space.*\n *none is simulated shorter", "plan",
           "gpt2", "--cluster", "1x4:a100-sxm-80", "--batch", 16, "--fix", "tp=1,micro-batch=1", "--schedule", "zb-v", "-o", unbound)
    check("no gap to no bound", [key for key in json.loads(unbound.read_text())["certificate"] if key.endswith("gap")] == ["simulated_gap"])
    expect("check of no bound", 0, "claims nothing by the formula as a whole.*by kernels alone no plan is simulated shorter than", "check", unbound)
    expect("first bounds where time ended before all else", 0, r"proof: no plan of the space is shorter than .* configurations, .* 0 solved, \d+ left", "plan",
           "gpt2", "--cluster", "1x4:a100-sxm-80", "--batch", 16, "--time-limit", "1e-6", "-o", unbound)
    check("a gap to these", "gap" in json.loads(unbound.read_text())["certificate"])
    expect("check of first bounds", 0, "the certificate holds: no plan of .* configurations is shorter than", "check", unbound)
    large = "turns=2:4,cp=1:2:4,slices=1:2,bucket=0:25MiB:4MiB:100MiB,prefetch=1:0:2:3:4"  # without a narrower part that is searched before
    expect("no proof where time ended before", 0, r"no proof: the search ended before every configuration had a bound; .* configurations, 0 solved", "plan",
           "gpt2", "--cluster", "4x8:a100-sxm-80", "--batch", 256, "--time-limit", "1e-6", "--space", large, "-o", unbound)
    check("no gap without a bound", [key for key in json.loads(unbound.read_text())["certificate"] if key.endswith("gap")] == [])
    expect("check of what time ended", 0, "the certificate holds(.|\n)*were not looked at when the search ended: nothing is proven", "check", unbound)
    expect("time ends while the space is listed", 0, "this is about plans with one mesh for each stage", "plan",
           "gpt2", "--cluster", "1x4:a100-sxm-80", "--batch", 16, "--time-limit", "1e-6", "--space", "cp=1:2,turns=1:2", "-o", unbound)
    check("the space is that part", json.loads(unbound.read_text())["certificate"]["space"]["turns"] == [1])
    expect("check of that part", 0, "the certificate holds(.|\n)*were not looked at when the search ended", "check", unbound)


def certificates(folder):
    """A certificate that holds, and such as do not."""
    plan, forged = folder / "certified.json", folder / "forged.json"
    run("plan", "gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 64, "-o", plan)
    expect("check", 0, "the certificate holds: no plan of .* configurations", "check", plan)
    for key, value in (("step_s", 1.0), ("mfu", 0.99), ("peak_bytes", [123]), ("fits", False)):
        changed = json.loads(plan.read_text())
        changed["predicted"][key] = value
        forged.write_text(json.dumps(changed))
        expect(f"check of a changed {key}", 4, f"predicted.{key}.*the prediction does not hold", "check", forged)
    kept = folder / "reserved.json"
    run("plan", "gpt2", "--cluster", "1x2:a100-sxm-80", "--batch", 8, "--reserve", "5%", "-o", kept)
    expect("check of a plan that leaves memory free", 0, "the certificate holds", "check", kept)
    kept.write_text(kept.read_text().replace('"5%"', '"x%"'))
    expect("a reserve that is none", 2, "context.reserve: --reserve: expected bytes or a percentage", "simulate", kept)
    check("check --json", json.loads(run("check", plan, "--json").stdout)["holds"] is True)
    expect("a plan for a framework", 0, "10 micro-batches simulated", "plan", "llama-3-70b", "--cluster", "8x8:h100-sxm", "--batch", 512, "--seq", 4096,
           "--target", "megatron-lm", "--fix", "pp=8,tp=4,micro-batch=1", "-o", kept)
    expect("check of a step that was told by its pace", 0, "as it says", "check", kept)
    # stages need 81 GiB at most by what their layers need, and 76.5 once they are laid out
    expect("a plan that the formula has no room for, and its layout has", 0, r"76.5 GiB.* of 76.9 GiB(.|\n)*proof: no plan of the space is shorter", "plan", "llama-3-405b",
           "--cluster", "4x8:h100-sxm", "--batch", 64, "--seq", 8192, "--target", "megatron-lm", "--fix",
           "tp=8,pp=4,sp=true,cp=1,zero=0,micro-batch=1,recompute=block,offload=optimizer", "-o", kept)
    expect("check of that plan", 0, "the certificate holds", "check", kept)
    if not SMALL:
        certificates_of_kinds(folder)
    whole = json.loads(plan.read_text())
    c = whole["certificate"]
    solved = c["configurations_solved"][0]
    first, last = re.match(r"(\d+)(?:-(\d+))?", solved).groups()
    others = f"{int(first) + 1}-{last}".removesuffix(f"-{int(first) + 1}") if last else ""
    fewer = [",".join(filter(None, [others, *solved.split(",")[1:]]))]
    for name, change in some({
            "a count": {"configurations": c["configurations"] + 1},
            "a configuration less": {"configurations_solved": fewer, "solved": c["solved"] - 1, "pruned_bound": c["pruned_bound"] + 1},
            "a configuration twice": {"configurations_solved": [f"{first},{solved}"], "solved": c["solved"] + 1},
            "a place that is not there": {"configurations_left": [str(c["configurations"])], "left": 1, "complete": False},
            "a count moved": {"pruned_memory": c["pruned_memory"] + 1, "pruned_bound": c["pruned_bound"] - 1},
            "a search that was cut short": {"complete": False},
            "a better bound": {"bound_ns": c["bound_ns"] + c["bound_ns"] // 20},
            "another formula": {"formula_ns": c["formula_ns"] + 1000},
            "another gap": {"gap": c["gap"] / 2},
            "more of the simulation": {"simulated_bound_ns": 2 * c["simulated_bound_ns"]},
            "a best plan that is not": {"best_ns": c["best_ns"] // 2},
            "other memory": {"memory_bytes": 2 * c["memory_bytes"]}}.items()):
        forged.write_text(json.dumps({**whole, "certificate": {**c, **change}}))
        expect(f"check: {name}", 4, "does not hold|neither proven", "check", forged)
    forged.write_text(json.dumps({**whole, "certificate": {**c, "space": {}}}))
    expect("check: no space", 2, "certificate.space", "check", forged)
    forged.write_text(json.dumps({k: v for k, v in whole.items() if k != "certificate"}))
    expect("check: no certificate", 2, "has no certificate", "check", forged)


def remarks(folder):
    """What no number of a plan says."""
    price = ["estimate", "llama-3-70b", "--batch", 16, "--micro-batch", 1, "--seq", 512, "--recompute", "full"]
    expect("ranks above the key and value heads", 0, "note: 16 tensor ranks have 8 key and value heads among them: 2 ranks hold each alike", *price,
           "--cluster", "1x16:h200-sxm", "--tp", 16)
    result = run(*price, "--cluster", "1x8:h100-sxm", "--tp", 8)
    check("as many ranks as heads", "note: " not in result.stdout, result)
    expect("a stage without blocks", 0, "note: stage 3 has no block of the model", "estimate", "gpt2", "--batch", 4, "--micro-batch", 1, "--cluster", "1x4:h100-sxm",
           "--pp", 4, "--stages", "Et*4|t*4|t*4|L")
    uneven = ["estimate", "gpt2", "--batch", 4, "--micro-batch", 1, "--cluster", "1x4:h100-sxm", "--pp", 4, "--stages"]
    expect("uneven stages", 0, "note: stages are uneven: stage 1 has 5 blocks, 3 more than stage 2", *uneven, "Et*3|t*5|t*2|t*2L")
    check("even stages", "note: " not in run(*uneven, "Et*3|t*3|t*3|t*3L").stdout, uneven)
    full = ["estimate", "llama-2-7b", "--batch", 8, "--micro-batch", 1, "--zero", 1, "--cluster", "1x8:h100-sxm", "--framework"]
    result = run(*full, "megatron-core")
    left = float(result.stdout.split("together")[1].split()[0])  # of GiB in use, 5.1 % are its allocator's
    for room, marked in ((1.04 * left, True), (1.07 * left, False)):
        result = run(*full, "megatron-core", "--reserve", f"{80 - room:.2f}GiB")
        check(f"room of {room}", ("fuller than the slack of megatron-bridge's allocator" in result.stdout) == marked, result)
        advised = re.search(r"with --reserve (\d+GiB) a plan keeps room", result.stdout)
        if marked:
            kept = run("plan", *full[1:4], *full[8:], "megatron-core", "--reserve", advised[1] if advised else "0").stdout
            check("the reserve that is advised is enough", advised and "predicted" in kept and "fuller than the slack" not in kept, result)
    hosts = ["plan", "gpt2", "--batch", 1, "--seq", 256, "--fix", "offload=optimizer", "--cluster"]
    expect("hosts lack memory", 3, "nothing fits: memory of hosts(.|\n)*471 MiB are missing(.|\n)*host-memory=1494220800",
           *hosts, "1x1:l40s@memory=2e9,host=30e9,host-memory=1e9,reserve=0")
    expect("and have it", 0, "host memory per device", *hosts, "1x1:l40s@memory=2e9,host=30e9,host-memory=1494220800,reserve=0")
    small = ["estimate", "gpt2", "--batch", 8, "--micro-batch", 1, "--cluster", "1x8:h100-sxm", "--reserve"]
    for bytes_kept, marked in (("1GiB", True), ("3GiB", False)):
        result = run(*small, bytes_kept)
        check(f"a reserve of {bytes_kept}", ("note: --reserve leaves 1.00 GiB free on each h100-sxm: less than the 3.00 GiB" in result.stdout) == marked, result)
    # the head's products alone take twice as long: 50257 words, and 768 wide for 12 blocks whose products are 85 million
    steps = {}
    for framework, vocabulary in (("torchtitan", 50257), ("torchtitan", 50264), ("megatron-core", 50257)):
        config = folder / "vocabulary.json"
        config.write_text(json.dumps({"model_type": "gpt2", "vocab_size": vocabulary, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}))
        result = run("estimate", config, "--batch", 64, "--micro-batch", 8, "--cluster", "1x8:a100-sxm-80", "--framework", framework)
        steps[framework, vocabulary] = float(re.search(r"compute ([\d.]+) ms", result.stdout)[1])
        check(f"{vocabulary} words by {framework}", ("a vocabulary of 50257 is no multiple of 8, and torchtitan does not pad it" in result.stdout) ==
              (framework == "torchtitan" and vocabulary == 50257), result)
    check("twice as long", 1.1 < steps["torchtitan", 50257] / steps["torchtitan", 50264] < 1.4, steps)
    # Ren et al. 2021, section 1: ZeRO-Offload trains 13 billion parameters on one V100 of 32 GB
    thirteen = ["estimate", "llama-2-13b", "--batch", 1, "--micro-batch", 1, "--seq", 1024, "--dtype", "fp16", "--recompute", "full", "--zero", 2,
                "--cluster", "1x1:v100-sxm3-32@host=12e9,host-memory=1500e9", "--framework", "deepspeed"]
    expect("ZeRO-Offload's model fits", 0, "peak memory per device, by stage: 2[78]", *thirteen, "--offload", "optimizer")
    expect("and does not without", 3, "does not fit", *thirteen)
    offloaded = ["estimate", "gpt2", "--batch", 8, "--micro-batch", 1, "--zero", 1, "--cluster", "1x8:h100-sxm@host=50e9,host-memory=200e9"]
    for more, marked in ((["--offload", "optimizer"], True), ([], False)):
        result = run(*offloaded, "--framework", "deepspeed-transformers", *more)
        check("updates by the host", result.returncode == 0 and ("deepspeed-transformers updates the optimizer's states" in result.stdout) == marked, result)
    halves = "--batch", 32, "--seq", 64, "--cluster"
    for words, dtype in (((), "fp16"), (("--target", "torchtitan"), "fp32")):  # which is told bf16 or fp32
        expect(f"a default of devices without bf16 {words}", 0, f"note: the dtype is {dtype}: v100-sxm2-32 has no bf16 products; --dtype says another", "plan", "tiny-llama", *halves, "1x4:v100-sxm2-32", *words)
    expect("of which some have it", 0, "note: the dtype is fp16: v100-sxm2-16", "estimate", "tiny-llama", *halves, "1x4:h100-sxm+1x4:v100-sxm2-16", "--micro-batch", 1)
    for cluster, *words in (("1x2:h100-sxm",), ("1x2:cpu",), ("1x2:v100-sxm2-16", "--dtype", "fp16")):
        check(f"no word of the dtype {cluster}", "the dtype is" not in expect("estimate", 0, "predicted", "estimate", "tiny-llama", *halves, cluster, "--micro-batch", 1, *words).stdout, None)
    check("its own are the device's", "updates the optimizer" not in run(*offloaded, "--offload", "optimizer").stdout, offloaded)


def peaks(folder):
    """Of a plan of few micro-batches explain says the peak that plan said (it added room for further ones, 0.8 GiB here)."""
    plan = folder / "peak.json"
    run("plan", "llama-2-7b", "--cluster", "1x8:h100-sxm", "--batch", 64, "--seq", 4096, "--fix", "pp=1,tp=1,micro-batch=2", "-o", plan)
    result = run("explain", plan, "--part", "robustness", "--draws", 1, "--json")
    told = json.loads(plan.read_text())["predicted"]["peak_bytes"]
    check("one peak", result.returncode == 0 and [stage["peak_bytes"] for stage in json.loads(result.stdout)["stages"]] == told, result)
    # what is fixed so has a plan as short as when it is named whole: chunks share a device's memory as they need (21.1 s before)
    fixed = "pp=2,tp=1,ep=8,micro-batch=1,schedule=interleaved,interleave=4,zero=1"
    job = ("mixtral-8x7b", "--cluster", "4x8:h100-sxm", "--batch", 512, "--seq", 4096, "--json")
    steps = [json.loads(run(*verb, *job, "--fix", words).stdout)["predicted"]["step_s"] for verb, words in (
        (("estimate", "--framework", "megatron-lm-te"), fixed), (("plan", "--target", "megatron-lm"), f"{fixed},cp=1,recompute=none,recompute-except=none"))]
    check(f"plan: {steps[1]} s, estimate: {steps[0]} s", steps[1] < 1.01 * steps[0])
    # of many micro-batches, too, of which explain and diff looked at few and added room for the others
    run("estimate", "gpt2-medium", "--cluster", "1x8:h100-sxm", "--batch", 512, "--seq", 512, "--fix", "pp=4,dp=2,zero=1,micro-batch=4,schedule=1f1b,tp=1", "-o", plan)
    simulated = json.loads(run("simulate", plan, "--json").stdout)
    told = [stage["peak_bytes"] for stage in simulated["stages"]]
    explained = json.loads(run("explain", plan, "--part", "versus", "--json").stdout)
    check("explain as simulate", [stage["peak_bytes"] for stage in explained["stages"]] == told and explained["step_s"] == simulated["step_s"], (explained["stages"], told))
    different = json.loads(run("diff", plan, plan, "--json").stdout)["predicted"]["a"]
    check("diff as simulate", different["peak_bytes"] in told and different["step_s"] == simulated["step_s"], (different, told))
    # what lies on hosts, too: every verb says the same of it
    run("plan", "gpt2", "--batch", 2, "--seq", 256, "--fix", "offload=optimizer", "--cluster", "1x1:l40s@host=30e9,host-memory=2e9", "-o", plan)
    [told] = json.loads(plan.read_text())["predicted"]["host_bytes"]
    [stage] = json.loads(run("simulate", plan, "--json").stdout)["stages"]
    check("simulated, on hosts", stage["host_bytes"] == told > 2**30, stage)
    expect("simulated, in words", 0, r"stage 0: \d+ instructions, peak \S+ \w+ and 1\.39 GiB of host memory; ", "simulate", plan)
    [stage] = json.loads(run("explain", plan, "--part", "robustness", "--draws", 1, "--json").stdout)["stages"]
    check("explained, on hosts", stage["host_bytes"] == told, stage)
    expect("explained, in words", 0, r"left +on host\n  0 .* 1\.39 GiB\n", "explain", plan, "--part", "robustness", "--draws", 1)


@seen_elsewhere
def memories(_):
    """What does not fit is said of the memory that it is: the device's or the host's."""
    job = ["estimate", "llama-3-8b", "--batch", 8, "--micro-batch", 1, "--seq", 1024, "--zero", 3, "--offload", "optimizer", "--cluster"]
    result = run(*job, "1x8:a100-sxm-40@host=25e9,host-memory=10e9")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if "memory per device" in line}
    check("the host's", result.returncode == 3 and "DOES NOT FIT" in lines["host"] and "DOES NOT FIT" not in lines["peak"] and
          re.search("of host memory each device of stage 0 needs 11.2 GiB of 9.31 GiB, 1.9. GiB too much", result.stderr), result)
    result = run(*job[:-1], "--reserve", "35GiB", "--cluster", "1x8:a100-sxm-40@host=25e9,host-memory=120e9")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if "memory per device" in line}
    check("the device's", result.returncode == 3 and "DOES NOT FIT" in lines["peak"] and "DOES NOT FIT" not in lines["host"], result)


def hopeless(folder):
    """State that all devices and hosts together cannot hold: nothing is searched, and what would fit is said of the widest space."""
    for model, cluster, batch, enough in (("gpt3-175b", "1x1:a100-sxm-80", 1, "16x1:a100-sxm-80"), ("llama-3-405b", "1x8:h100-sxm", 128, "4x8:h100-sxm"))[:2 if ALL else 1]:
        expect(f"{model}, which nothing can hold", 3, rf"nothing fits: memory of hosts(.|\n)*  --cluster {enough}: (.|\n)*not enough: a smaller batch, a shorter",
               "plan", model, "--cluster", cluster, "--batch", batch)


def shared_links(_):
    """Reductions of each micro-batch take from context-parallel transfers on the same links: layers that ask for both are chosen by what that costs.
    Once some of each stage had ZeRO 2, and the step was 12 % longer than with ZeRO 1 alone."""
    if SMALL:
        return
    job = ["plan", "llama-3-405b", "--cluster", "128x8:h100-sxm", "--batch", 2048, "--seq", 8192, "--framework", "megatron-lm-te", "--json"]
    steps = [json.loads(run(*job, "--fix", f"pp=32,schedule=1f1b{more}").stdout)["predicted"]["step_s"] for more in ("", ",zero=1")]
    check(f"plan: {steps[0]} s, with ZeRO 1 alone {steps[1]} s", steps[0] < 1.01 * steps[1])


@seen_elsewhere
def searched_beside(folder):
    """What compare searches for beside a plan that was made for a target is such that this can be told it, and that is said."""
    plan, fixed = folder / "told.json", ("--space", "pp=1,tp=1,cp=1,recompute=none:block")
    made = run("plan", "gpt2", "--cluster", "1x4:l40s", "--batch", 64, "--seq", 1024, "--fix", "pp=1,tp=1", "--target", "megatron-lm", "-o", plan)
    check("a plan for a target", made.returncode == 0, made)
    answers = [run("compare", plan, "--pareto", *fixed, *more, "--json") for more in ((), ("--target", "none"))]
    check("compare --pareto: both", [a.returncode for a in answers] == [0, 0], answers)
    mixed = [[p["plan"] for p in json.loads(a.stdout)["frontier"] if re.search(r"ZeRO \d-|[^4] of 14 layers", p["plan"])] for a in answers]
    check("compare --pareto: layers differ only where the target is left out", not mixed[0] and mixed[1], answers[0])
    check("compare --pareto: says so", "such that megatron-lm" in answers[0].stderr and "such that" not in answers[1].stderr, answers[0])
    expect("compare --target: another", 2, "was made for megatron-lm: expected none, or that", "compare", plan, "--pareto", "--target", "torchtitan")
    expect("compare --target without a search", 2, "--target belongs to --pareto and --scaling", "compare", plan, "--target", "none")


main(several, searched_beside, differs, certificates, remarks, peaks, memories, hopeless, shared_links)
