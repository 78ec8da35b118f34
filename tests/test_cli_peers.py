#!/usr/bin/env python3
"""The program on what belongs to other planners: their problems and their profiles. usage: test_cli_peers.py CLEAVE SOURCE_ROOT"""
import json
import shutil

from calls import ROOT, check, expect, main, run, seen_elsewhere, some


def partitions(folder):
    """Other planners' formats: answers, exit codes, and what mistyped options say."""
    peers = ROOT / "benchmarks" / "cases" / "peers"
    graph, piper = peers / "pipedream" / "alexnet.txt", peers / "piper" / "bert32a100.json"
    two = ["--machines", "4,4", "--bandwidth", "10e9,1.25e9"]
    result = expect("partition", 0, "0.0150994944 s in 2 stages, proven optimal", "partition", graph, "--format", "pipedream", *two)
    result = run("partition", graph, "--format", "pipedream", "--json", *two)
    answer = json.loads(result.stdout)
    nodes = [n for stage in answer["stages"] for inner in stage["stages"] for n in inner["nodes"]]
    check("partition --json", answer["format"] == "cleave-partition" and answer["optimal"] is True and answer["gap"] == 0 and
          answer["cpu_s"] >= 0 and abs(answer["objective"] - .0150994944) < 1e-12 and len(nodes) == len(set(nodes)) == 22, result)
    expect("piper without devices", 2, "expected a number from 1 to 16384 for --format piper", "partition", piper, "--format", "piper", "--devices", 0)
    result = run("partition", piper, "--format", "piper", "--memory", 2**30, "--devices", 8, "--json")
    answer = json.loads(result.stdout)
    check("partition, nothing fits", result.returncode == 3 and answer["objective"] is None and answer["infeasible"]["proven"] is True and
          "no split fits the memory" in result.stderr, result)
    result = run("partition", graph, "--format", "pipedream", "--machines", 4, "--bandwidth", 1e9, "--ideals", 5, "--json")
    answer = json.loads(result.stdout)
    check("partition, too many ideals", answer["optimal"] is False and 0 < answer["bound"] <= .03421714133333333 <= answer["objective"] * (1 + 1e-9), result)
    peer = ROOT / "benchmarks/cases/peers/galvatron"
    model = ["--format", "galvatron", "--devices", 8, "--layers", 32, "--hidden", 4096, "--batch", 16]
    result = run("partition", peer, *model, "--memory", "36GiB", "--json")
    answer = json.loads(result.stdout)
    check("partition, galvatron", answer["optimal"] is True and answer["objective"] <= 1.08605 and
          sum(part["count"] for part in answer["stages"][0]["layers"]) == 32, result)
    expect("partition, galvatron in 8 GB", 3, "no split fits the memory", "partition", peer, *model, "--memory", 8 * 2**30)
    expect("partition, memory that is none", 2, "such as 8589934592 or 8GiB, found \"much\"", "partition", peer, *model, "--memory", "much")
    expect("partition, galvatron without memory", 2, "--memory is needed", "partition", peer, *model)
    expect("partition, galvatron's folder", 2, "expected a file computation_profiling_", "partition", peer.parent, *model, "--memory", 2**30)
    expect("partition, galvatron twice", 2, "expected one file", "partition", peer, peer, *model, "--memory", 2**30)
    measured = folder / "measured"
    shutil.copytree(peer, measured)
    for name in ("b", "a"):
        shutil.copy(next(peer.glob("computation_profiling_*")), measured / f"computation_profiling_{name}.json")
    expect("partition, galvatron, whose", 2, r"found 3: \S+_a\.json, \S+_b\.json, \S+\.json; copy that of your model and machine",
           "partition", measured, *model, "--memory", 2**30)
    expect("partition, two files", 2, "reads one file", "partition", graph, graph, "--format", "pipedream", *two)
    expect("partition without format", 2, "--format is needed", "partition", graph)
    expect("partition, format", 2, "expected one of pipedream, piper", "partition", graph, "--format", "pipe")
    expect("partition without machines", 2, "--machines is needed", "partition", graph, "--format", "pipedream")
    expect("partition, levels", 2, "as many numbers as --machines", "partition", graph, "--format", "pipedream", "--machines", "4,4", "--bandwidth", "1e9")
    expect("partition, wrong file", 2, r"alexnet.txt:1:1: ", "partition", graph, "--format", "piper")
    cycle = folder / "cycle.txt"
    line = "%s -- x -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=1\n"
    cycle.write_text(line % "a" + line % "b" + "\ta -- b\n\tb -- a\n")
    expect("partition, cycle", 2, "cycle.txt: expected a graph without cycles, found [ab] on one", "partition", cycle, "--format", "pipedream",
           "--machines", 2, "--bandwidth", 1e9)


def foreign_profile(folder):
    """Galvatron's measurements as a profile, and its plans beside ours under the simulator."""
    peer, profile = ROOT / "benchmarks/cases/peers/galvatron", folder / "galvatron.json"
    source = ["import", "--from", "galvatron", peer]
    target = ["--model", "llama-2-7b", "--cluster", "1x8:a100-sxm-80"]
    result = run(*source, *target, "-o", profile)
    check("import --from", result.returncode == 0 and json.loads(profile.read_text())["dtype"] == "bf16" and
          "--seq 2048 --dtype bf16" in result.stderr, result)
    expect("import --from, no model", 2, "needs --model and --cluster", *source)
    expect("import --from, which", 2, "--from: expected one of hf, galvatron; found 'alpa'", "import", "--from", "alpa", peer)
    expect("import --from, folder", 2, "expected a file computation_profiling_", "import", "--from", "galvatron", peer.parent, *target)
    expect("import --from, no folder", 2, "expected a folder with Galvatron's files", "import", "--from", "galvatron", folder / "none", *target)
    expect("import --from, device", 2, "expected a device that computes in bf16", *source, "--model", "llama-2-7b", "--cluster", "1x8:v100-sxm2-16")
    for named in ([], ["--from", "hf"]):
        expect("import, model options", 2, "belong to --from galvatron", "import", *named, ROOT / "models/zoo/gpt2.json", "--model", "gpt2")
    cluster, plan = folder / "small.json", folder / "small-plan.json"
    job = ["plan", "llama-2-7b", "--batch", 16, "--seq", 2048, "--dtype", "bf16", "--profile", profile, "-o", plan]

    def predicted(where, *fixed):
        result = run(*job, "--cluster", where, *fixed)
        check(f"plan with a foreign profile {fixed}", result.returncode == 0, result)
        return json.loads(plan.read_text())["predicted"]

    ends = "layer[0-0].recompute=none,layer[65-66].recompute=none,pp=1"
    for gib, fixed in some([(36, "tp=1,dp=8,micro-batch=2,zero=3,layer[1-40].recompute=full,layer[41-64].recompute=none"),
                       (24, "tp=1,dp=8,micro-batch=2,zero=3,layer[1-60].recompute=full,layer[61-64].recompute=none"),
                       (16, "tp=8,dp=1,sp=1,micro-batch=8,layer[1-64].recompute=full")]):
        theirs = predicted("1x8:a100-sxm-80", "--fix", f"{ends},{fixed}")
        usable = max((gib - 1) * 2**30, *theirs["peak_bytes"])
        cluster.write_text(json.dumps({"format": "cleave-cluster", "version": 1, "device": "a100-sxm-80", "memory_bytes": usable + 2**30,
                                       "reserve_bytes": 2**30, "levels": [{"name": "node", "fanout": 8, "bytes_per_s": 300e9,
                                                                           "efficiency": 0.977, "latency_ns": 3400}]}))
        ours = predicted(cluster)
        check(f"no slower than Galvatron's plan for {gib} GB: {ours['step_s']} s, its {theirs['step_s']} s",
              ours["step_s"] <= theirs["step_s"] and max(ours["peak_bytes"]) <= usable)


@seen_elsewhere
def foreign_model(folder):
    """--from hf says what is found without it."""
    config = folder / "config.json"
    config.write_text(json.dumps({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 100}))
    detected, named = run("import", config), run("import", "--from", "hf", config)
    check("import --from hf", named.returncode == 0 and json.loads(named.stdout)["format"] == "cleave-model" and
          named.stdout == detected.stdout, named)
    expect("import --from hf, two files", 2, "expected 1 operand, found 2", "import", "--from", "hf", config, config)


main(partitions, foreign_profile, foreign_model)
