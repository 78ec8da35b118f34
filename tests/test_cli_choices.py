#!/usr/bin/env python3
"""The choices that users fix: every key of --fix in help, plan, estimate and check. usage: test_cli_choices.py CLEAVE SOURCE_ROOT"""
import json
import re

import calls
from calls import check, expect, main, run

SMALL = ["tiny-gpt", "--batch", 8, "--seq", 32, "--dtype", "fp32"]


def keys():
    """As the message for an unknown one lists them."""
    return re.search(r"known: (.*)\n", run("plan", *SMALL, "--cluster", "1x2:cpu", "--fix", "qqqqqqqq=1").stderr).group(1)


def help_names_every_key(folder):
    for verb in ("plan", "compare", "explain", "estimate"):
        expect(f"{verb} --help", 0, re.escape(keys()), verb, "--help")
    expect("man page", 0, re.escape(keys()).replace(r"\-", r"\\-"), "--man-page", "plan")


def buckets(folder):
    """Smaller ones are in the plan, its price and its certificate."""
    plan, steps = folder / "bucket.json", []
    for bucket, size in (("0", 0), ("64KiB", 65536), ("25MiB", 25 << 20), ("1GiB", 1 << 30)):
        fixed = f"dp=16,zero=0,bucket={bucket}"
        expect(f"bucket {bucket}", 0, "step", "plan", "gpt2", "--cluster", "2x8:a100-sxm-80", "--batch", 64, "--fix", fixed, "-o", plan)
        made = json.loads(plan.read_text())
        check(f"bucket {bucket}: in the plan", made["decisions"]["bucket_bytes"] == size and made["certificate"]["space"]["bucket"] == [size])
        expect(f"bucket {bucket}: the certificate holds", 0, "the certificate holds", "check", plan)
        steps.append(made["predicted"]["step_s"])
    check("buckets: transfers one by one and one late one take longer", steps[0] > steps[2] < steps[3])


def words(folder):
    """What a user may mean is said."""
    plan = folder / "words.json"
    expect("a plan", 0, "step", "plan", *SMALL, "--cluster", "1x2:cpu", "-o", plan)
    expect("explain of a plan with a batch", 2, "is a plan, which has its own", "explain", plan, "--batch", 16)
    expect("explain of a model without a cluster", 2, "--cluster is missing", "explain", "tiny-gpt", "--batch", 16)
    expect("a key with the same first letter", 2, "did you mean tp", "plan", *SMALL, "--cluster", "1x2:cpu", "--fix", "tpp=2")
    expect("expert ranks of a dense model", 3, "; ep must be 1, as the model has no experts to share out", "plan", *SMALL, "--cluster", "1x2:cpu", "--fix", "ep=2")
    moe = ["plan", "tiny-moe", "--cluster", "1x8:h100-sxm", "--batch", 16, "--fix", "pp=1,tp=1,ep=2"]
    expect("data ranks with those of experts", 0, "dp 8, ep 2", *moe)
    expect("the same, typed", 0, "dp 8, ep 2", *moe, "--fix", "dp=8")
    expect("two options of one key", 2, "--fix: tp is given twice, tp=2 and tp=1;", "plan", *SMALL, "--cluster", "1x2:cpu", "--fix", "tp=2", "--fix", "pp=1", "--fix", "tp=1")
    expect("a value that the space has not", 2, "--fix tp=2: --space does not have it", "plan", *SMALL, "--cluster", "1x2:cpu", "--fix", "tp=2", "--space", "tp=1:4")
    expect("one that it has", 0, r"tp\S* 2", "plan", *SMALL, "--cluster", "1x2:cpu", "--fix", "tp=2", "--space", "tp=1:2")
    expect("one that is said twice", 0, "tp", "plan", *SMALL, "--cluster", "1x2:cpu", "--fix", "tp=2,sp=false", "--fix", "pp=1", "--fix", "tp=2")
    expect("how many nodes", 2, "from 1 to 1048576", "plan", *SMALL, "--cluster", "0x2:cpu")
    note = "layer.1-2..tp holds for all layers"
    result = run("plan", *SMALL, "--cluster", "1x2:cpu", "--fix", "layer[1-2].tp=2")
    check("a rule for some layers' tensor degree", result.returncode == 0 and re.search(note, result.stderr), result)
    result = run("plan", "tiny-gpt", "--batch", 8, "--cluster", "2x4:rtx4090")
    half = expect("half of the devices alone", 0, r"step \d+ us", "plan", "tiny-gpt", "--batch", 8, "--cluster", "1x4:rtx4090").stdout
    step = re.search(r"step (\d+ us)", half).group(1)
    check("half of the devices take less", re.search(f"fewer devices take less time: {step}, .* less than all 8: --cluster 1x4:rtx4090", result.stderr), result)
    expect("stages that need as much", 0, r"by stage: \S+ \wiB, \S+ \wiB on stages 1 to 2, \S+ \wiB of", "plan", *SMALL, "--cluster", "1x4:cpu",
           "--fix", "pp=4,schedule=gpipe,recompute=none,zero=0")
    if calls.SMALL:
        return
    top = expect("plans whose lines are alike", 0, "step", "plan", "tiny-gpt", "--cluster", "1x4:rtx4090", "--batch", 8, "--top", 6).stdout
    lines = [re.sub(r"^.*GiB: |^.*MiB: ", "", line) for line in top.splitlines() if re.match(" [2-9]\\. ", line)]
    check("plans whose lines are alike: how they differ", len(lines) == len(set(lines)) == 5, top)


def zero_without_shards(folder):
    """A stage of ZeRO is shown as it takes effect, however it was fixed."""
    shown = []
    for fixed in ("zero=0", "zero=3", "layer[0-4].zero=3"):
        result = expect(f"{fixed} on one data rank", 0, "no ZeRO", "plan", *SMALL, "--cluster", "1x2:cpu", "--fix", f"pp=2,recompute=none,prefetch=0,{fixed}")
        shown.append(re.findall("ZeRO.*", result.stdout))
    check(f"ZeRO on one data rank is shown alike: {shown}", shown[0] == shown[1] == shown[2])


def decisions(*args):
    """Of the plan that the command writes; None: it writes none."""
    result = run(*args, "--json")
    return json.loads(result.stdout)["decisions"] if result.returncode == 0 else check(f"{args}", False, result)


def estimate_takes_keys_as_options(folder):
    job = ["estimate", "tiny-llama", "--batch", 16, "--seq", 32, "--dtype", "fp32", "--cluster", "1x8:cpu"]
    for fixed in ("tp=2,pp=2,micro-batch=2,zero=1,loss-chunks=4", "dp=8,zero=3,hsdp=4,prefetch=2", "tp=2,recompute=full,order=data-inside", "pp=2,schedule=gpipe",
                  "cp=2,cp-by=cp-ring", "pp=2,interleave=2", "pp=2,dp=4,schedule=zb-v", "tp=2,slices=2,zero=3", "zero=3,reshard=false"):
        options = [part for word in fixed.split(",") for part in (f"--{word.split('=')[0]}", word.split("=")[1])]
        check(f"estimate {fixed}", decisions(*job, *options) == decisions(*job, "--fix", fixed) != None)
    for key, fixed in (("sp", "tp=2"), ("reshard", "zero=3"), ("layer[1-2].reshard", "zero=3")):
        no, yes, zero, one = (decisions(*job, "--fix", f"{fixed},{key}={word}") for word in ("false", "true", "0", "1"))
        check(f"estimate {key}: true is 1, false is 0", zero == no != yes == one)
    check("estimate --reshard 0", decisions(*job, "--zero", 3, "--reshard", 0) == decisions(*job, "--zero", 3, "--reshard", "false"))
    check("estimate sp=1", decisions(*job, "--tp", 2, "--sp") == decisions(*job, "--fix", "tp=2,sp=1") != decisions(*job, "--tp", 2))


def estimate_decides_as_plan(folder):
    """What an estimate leaves open, stages of different numbers of replicas, it decides as a plan with the same keys."""
    rest = "zero=0,recompute=none,prefetch=1,sp=0"
    for cluster, batch, fixed in (("1x3:a100-sxm-80", 24, "pp=2,tp=1,dp=1,micro-batch=1,turns=1:2"),
                                  ("1x1:h100-sxm+1x2:a100-sxm-80", 24, "pp=2,tp=1,dp=1,micro-batch=2,turns=1:2")):
        job = ["gpt2", "--cluster", cluster, "--batch", batch, "--fix"]
        found, made = decisions("estimate", *job, f"{fixed},schedule=1f1b"), decisions("plan", *job, f"{fixed},schedule=1f1b,{rest}")
        check(f"estimate {fixed}: as plan does, {found}, {made}", found == made != None)
        check(f"estimate {fixed}: not all stages or layers alike", len({json.dumps(s.get("atoms", 0)) + str(s.get("turns")) for s in made["stages"]}) > 1 or
              len({json.dumps(run["dims"]) for run in made["layers"]}) > 1, None)


def layers_have_their_own(folder):
    made = decisions("estimate", *SMALL, "--cluster", "1x2:cpu", "--zero", 1, "--fix", "layer[1-2].zero=3,layer[2].recompute=full,bucket=4KiB")
    runs = [(run["layers"], run["zero"], run["recompute"]) for run in made["layers"]]
    check(f"estimate: rules for layers, {runs}", runs == [("0", 1, "none"), ("1", 3, "none"), ("2", 3, "full"), ("3-6", 1, "none")])
    check("estimate: bucket", made["bucket_bytes"] == 4096)
    job = ["tiny-llama", "--batch", 8, "--seq", 32, "--dtype", "fp32", "--cluster", "1x4:cpu", "--fix", "pp=1,tp=1,zero=3,micro-batch=1,layer[1-2].hsdp=2"]
    for made in decisions("estimate", *job), decisions("plan", *job):
        runs = [(run["layers"], "rp" in run["dims"]) for run in made["layers"]]
        grouped = [layers for layers, is_grouped in runs if is_grouped]
        check(f"groups of shards of layers 1 and 2 alone: {runs}", grouped in (["1-2"], ["1", "2"]))


# What makes each parallel dimension a part of a plan of tiny-moe or tiny-llama; `none` is for ranks that do nothing of their own.
DIMENSIONS = {"dp": "dp=4", "rp": "dp=4,hsdp=2,zero=3", "ps": "dp=4,dp-by=ps", "ep": "dp=4,ep=2", "tp": "tp=2,sp=0", "tp+sp": "tp=2,sp=1",
              "tp-deferred": "tp=2,sp=0,tp-by=tp-deferred", "cp-gather": "cp=2,cp-by=cp-gather", "cp-ring": "cp=2,cp-by=cp-ring",
              "cp-ulysses": "cp=2,cp-by=cp-ulysses", "tp+sp+ep": "tp=2,sp=1,ep=2,ep-over=tensor",
              **{f"{by}+ep": f"tp=1,cp=2,cp-by={by},ep=2,ep-over=context" for by in ("cp-gather", "cp-ring", "cp-ulysses")}}


def every_row_is_a_choice(folder):
    names = [d["name"] for d in json.loads(run("dimensions", "--json").stdout)["dimensions"]]
    check(f"every dimension has a choice: {names}", set(names) == {"none", *DIMENSIONS})
    for name, fixed in DIMENSIONS.items():
        job = ["tiny-moe" if name.endswith("ep") else "tiny-llama", "--batch", 8, "--seq", 32, "--dtype", "fp32", "--cluster", "1x4:cpu", "--fix", fixed]
        for made in decisions("estimate", *job), decisions("plan", *job):
            check(f"dimension {name}: {made}", any(name in layers["dims"] for layers in made["layers"]))
    for schedule in [s["name"] for s in json.loads(run("schedules", "--json").stdout)["schedules"]]:
        job = ["tiny-llama", "--batch", 8, "--seq", 32, "--dtype", "fp32", "--cluster", "1x2:cpu", "--fix", f"pp=2,zero=0,schedule={schedule}"]
        for made in decisions("estimate", *job), decisions("plan", *job):
            check(f"schedule {schedule}: {made}", made["schedule"] == schedule)


def optimizers(folder):
    """The free search of an optimizer has what each restriction of it has, and its certificate holds."""
    job, plan = ["gpt2", "--cluster", "1x8:a100-sxm-80", "--batch", 64], folder / "optimizer.json"
    for optimizer in ("muon", "sgd-momentum", "adamw"):
        said = [*job, "--optimizer", optimizer]
        free, few = (json.loads(run("plan", *said, *more, "--json").stdout) for more in ([], ["--space", "zero=0:1"]))
        check(f"{optimizer}: the free plan is as short", free["predicted"]["step_s"] <= 1.001 * few["predicted"]["step_s"] and
              free["certificate"]["bound_s"] <= few["certificate"]["bound_s"] and free["certificate"]["refused"] == 0)
        plan.write_text(json.dumps(free))
        expect(f"{optimizer}: the certificate holds", 0, "the certificate holds", "check", plan)
    for fixed in ("zero=3", "layer[0-3].zero=2"):
        expect(f"muon: {fixed}", 2, "muon takes whole matrices.*expected 0 or 1", "plan", *job, "--optimizer", "muon", "--fix", fixed)


main(words, help_names_every_key, buckets, optimizers, zero_without_shards, estimate_takes_keys_as_options, estimate_decides_as_plan, layers_have_their_own, every_row_is_a_choice)
