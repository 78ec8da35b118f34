#!/usr/bin/env python3
"""`cleave run` as people call it: rates of learning, resumed runs, files that cannot be written, plans that do not fit.

usage: test_cli_run.py CLEAVE SOURCE_ROOT EMULATED_MODULE"""
import json
import os
import pathlib
import sys

from calls import SHARE, check, expect, main, run, seen_elsewhere


def losses_of(result):
    return [json.loads(line)["loss"] for line in result.stdout.splitlines()[:-1]]


def plan_for_two(folder):
    plan = folder / "two.json"
    if not plan.exists():
        expect("a plan for two", 0, "stage 0", "plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32", "-o", plan)
    return plan


def tensors_of(folder, step, rank_count=2):
    """Of the only checkpoint in the folder, without headers, which say how many were saved before."""
    [save] = folder.iterdir()
    files = [(save / f"rank-{rank}.safetensors").read_bytes() for rank in range(rank_count)]
    check(f"the checkpoint is of step {step}", save.name.startswith(f"step-{step}.save-"), save)
    return [data[8 + int.from_bytes(data[:8], "little"):] for data in files]


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@seen_elsewhere
def planned_alone(folder):
    """A head over classes is planned, and no device runs it; what takes as long as was predicted does."""
    model, plan = folder / "classes.json", folder / "classes-plan.json"
    layers = [{"kind": "embedding"}, {"kind": "attention", "heads": 4, "norm": "rms_norm"}, {"kind": "head", "norm": "rms_norm", "classes": 3}, {"kind": "loss"}]
    model.write_text(json.dumps({"format": "cleave-model", "version": 1, "name": "classes", "sequence": 16, "hidden": 32, "vocab_size": 60,
                                 "tied_embedding": True, "layers": layers}))
    expect("a plan of classes", 0, "stage 0", "plan", model, "--cluster", "1x2:cpu", "--batch", 8, "--dtype", "fp32", "-o", plan)
    expect("classes are not run", 2, "layer 2.head is planned and nothing runs it: use --backend timed", "run", plan, "--steps", 1)
    expect("classes take their time", 0, "median step", "run", plan, "--steps", 1, "--backend", "timed")


@seen_elsewhere
def rates(folder):
    """The schedule of learning rates: what its options mean, and that a resumed run goes on with it, bit by bit."""
    plan = plan_for_two(folder)

    def learned(*options):
        return losses_of(run("run", plan, "--steps", 4, "--json", *options))

    low, high = learned("--learning-rate", 1e-3), learned("--learning-rate", 1e-2)
    check("rates: the two differ", len(low) == 4 and low[0] == high[0] and low[1:] != high[1:])
    check("rates: from step N on the floor, a tenth", learned("--learning-rate", 1e-2, "--decay-steps", 1) == low)
    check("rates: --floor-rate", learned("--learning-rate", 1e-1, "--decay-steps", 1, "--floor-rate", 1e-3) == low)
    check("rates: no lower than the peak", learned("--learning-rate", 1e-3, "--decay-steps", 3, "--floor-rate", 1e-3) == low)
    check("rates: half a cosine between", learned("--learning-rate", 1e-2, "--decay-steps", 2)[2:] not in (low[2:], high[2:]))
    fallen = ["--learning-rate", 1e-2, "--warmup", 2, "--decay-steps", 6]
    whole, half, rest = folder / "whole", folder / "half", folder / "rest"
    straight = expect("rates: a run", 0, '"summary"', "run", plan, "--steps", 7, "--json", *fallen, "--checkpoint", whole)
    expect("rates: its first half", 0, '"summary"', "run", plan, "--steps", 4, "--json", *fallen, "--checkpoint", half)
    resumed = expect("rates: resumed", 0, '"summary"', "run", plan, "--steps", 7, "--json", *fallen, "--resume", half, "--checkpoint", rest)
    check("rates: resumed, the same losses", losses_of(resumed) == losses_of(straight)[4:], resumed)
    check("rates: resumed, the same bits", tensors_of(rest, 7) == tensors_of(whole, 7))
    run("run", plan, "--steps", 7, "--resume", half, "--checkpoint", rest, "--overwrite", *fallen[:4])
    check("rates: without the options other bits", tensors_of(rest, 7) != tensors_of(whole, 7))
    for options, pattern in ((["--decay-steps", 0], "--decay-steps: expected 1 to"), (["--decay-steps", 2.5], "--decay-steps: expected a whole number"),
                             (["--warmup", 9, "--decay-steps", 9], "--decay-steps 9: expected a step after the warm-up: more than --warmup 9"),
                             (["--floor-rate", 1e-5], "--floor-rate 1e-05: without --decay-steps the rate does not fall"),
                             (["--decay-steps", 9, "--floor-rate", -1], "--floor-rate: expected 0 to"),
                             (["--decay-steps", 9, "--floor-rate", 1e-3], "--floor-rate 0.001: expected at most .* --learning-rate 0.0003")):
        result = expect(f"rates: {options}", 2, pattern, "run", plan, *options)
        check(f"rates: {options}: nothing on stdout", result.stdout == "", result)


def notes(folder):
    """On a GPU, here an emulated one: why attention is slow, each reason once however many layers and steps have it."""
    modules = {"CLEAVE_MODULE_DIR": str(pathlib.Path(sys.argv[3]).parent)}
    plan = folder / "one.json"
    expect("notes: a plan", 0, "stage 0", "plan", "tiny-gpt", "--cluster", "1x1:cpu", "--batch", 1, "--seq", 8, "--dtype", "fp32", "-o", plan)
    result = expect("notes: a run", 0, '"summary"', "run", plan, "--steps", 2, "--json", "--no-graph", "--backend", "cuda", env=modules)
    said = [line[6:] for line in result.stderr.splitlines() if line.startswith("note: ")]
    check("notes: forward and backward, once", [text.split()[1] for text in said] == ["forward", "backward"] and
          all("goes by an own kernel, which is slow: libraries take bf16 alone" in text for text in said), result)
    check("notes: in the summary", json.loads(result.stdout.splitlines()[-1])["summary"]["notes"] == said, result)
    measured, bytes_beside = folder / "measured.json", 123456789
    measured.write_text(json.dumps({"format": "cleave-profile", "version": 1, "backend": "cuda", "dtype": "fp32", "memory_outside_arena_bytes": bytes_beside}))
    simulated = json.loads(run("simulate", plan, "--profile", measured, "--json").stdout)["stages"]
    check("memory beside the arena as measured", [s["outside_arena_bytes"] for s in simulated] == [bytes_beside], simulated)
    beside = json.loads(run("run", plan, "--profile", measured, "--steps", 1, "--json", "--backend", "cuda", env=modules).stdout.splitlines()[-1])["summary"]
    check("memory beside the arena, predicted and had", [(r["predicted_outside_arena_bytes"], 0 < r["memory_outside_arena_bytes"] < bytes_beside)
          for r in beside["outside_arena"]] == [(bytes_beside, True)], beside)
    check("memory beside the arena of no profile", json.loads(run("simulate", plan, "--json").stdout)["stages"][0]["outside_arena_bytes"] == 0)
    for option in (["--share-gpus"], ["--transfer-sms", 8], ["--graph-ranks"]):
        expect(f"{option[0]} without NCCL", 2, f"{option[0]} is for ranks that talk by NCCL", "run", plan, "--steps", 1, *option)
    expect("graphs and none", 2, "--graph-ranks and --no-graph say the opposite", "run", plan, "--graph-ranks", "--no-graph", "--backend", "cuda",
           "--transport", "nccl", env=modules)
    expect("graphs of no step", 2, "--graph-ranks: the first step and the last are no graphs: give --steps 3 or more", "run", plan, "--graph-ranks", "--steps", 2,
           "--backend", "cuda", "--transport", "nccl", env=modules)
    check("notes: on the processor none", "notes" not in run("run", plan, "--steps", 1, "--json").stdout)


@seen_elsewhere
def kernels(folder):
    """--kernels on emulated GPUs: what ran has its place in the timeline and in the summary of each rank; a device without records says so."""
    modules = {"CLEAVE_MODULE_DIR": str(pathlib.Path(sys.argv[3]).parent)}
    plan, trace = plan_for_two(folder), folder / "kernels.json"
    job = ["run", plan, "--steps", 2, "--backend", "cuda", "--kernels"]
    result = expect("kernels: a run", 0, '"summary"', *job, "--json", "--timeline", trace, env=modules)
    ranks = json.loads(result.stdout.splitlines()[-1])["summary"]["ranks"]
    events = json.loads(trace.read_text())["traceEvents"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    kinds = {"kernel": "kernels", "copy": "copies", "fill": "fills"}
    for rank in ranks:
        told, number = rank["kernels"], rank["rank"]
        spans = [e for e in events if e["ph"] == "X" and e["pid"] == number]
        ran = {kind: [e for e in spans if e["cat"] == kind] for kind in kinds}
        check("kernels: all of the trace are counted", all(len(ran[kind]) == told[key] for kind, key in kinds.items()) and told["kernels"] > 50, told)
        check("kernels: beneath their lanes", {threads[number, e["tid"]] for events in ran.values() for e in events} == {"compute kernels", "dp kernels"})
        instructions = {e["args"]["instr"]: threads[number, e["tid"]] for e in spans if "instr" in e.get("args", {})}
        check("kernels: of instructions of their lane", all(instructions[e["args"]["of_instr"]] + " kernels" == threads[number, e["tid"]]
              for events in ran.values() for e in events if "of_instr" in e.get("args", {})))
        for lane, of in told["lanes"].items():
            check(f"kernels: parts of lane {lane}", 0 <= of["ran_beside_s"] <= of["ran_s"] and 0 <= of["events_beside_s"] <= of["events_s"])
        check("kernels: the lanes that ran", set(told["lanes"]) == {"compute", "dp"} and told["lanes"]["compute"]["ran_s"] > 0, told)
        check("kernels: none is lost", told["dropped"] == told["untimed"] == told["of_no_lane"] == 0, told)
    expect("kernels: as text", 0, r"rank \d, which ended last: \d+ kernels, \d+ copies, \d+ fills; of the step's .*\n +compute .*\n +dp .*\n +exposed ", *job, env=modules)
    check("kernels: not asked for", all("kernels" not in rank for rank in json.loads(run(*job[:-1], "--json", env=modules).stdout.splitlines()[-1])["summary"]["ranks"]))
    expect("kernels: on the processor", 2, "--kernels records what GPUs run, and --backend cpu has none: give --backend cuda", "run", plan, "--kernels")


@seen_elsewhere
def limits(folder):
    """A limit on the size of files is an error like others: it does not end the program by a signal, and nothing partial stays."""
    plan, small = plan_for_two(folder), {"file_bytes": 2 << 10}
    before, too_large = sorted(os.listdir(folder)), r"cannot write (it|\S+): File too large \(.*`ulimit -f`"
    expect("limits: a plan", 1, too_large, "plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "-o", folder / "limited.json", **small)
    expect("limits: a timeline", 1, too_large, "run", plan, "--steps", 1, "--timeline", folder / "limited.json", **small)
    check("limits: nothing is left behind", sorted(os.listdir(folder)) == before)
    saved, empty = folder / "saved", folder / "empty"
    empty.mkdir()
    expect("limits: a checkpoint", 0, "median step", "run", plan, "--steps", 1, "--checkpoint", saved)
    old, small = files_of(saved), {"file_bytes": 20 << 10}
    for transport in ("threads", "tcp"):
        for place in (folder / "new", empty, saved):
            job = ["run", plan, "-n", 2, "--transport", transport, "--steps", 2, "--checkpoint", place, "--overwrite"]
            expect(f"limits: a checkpoint in {place.name} over {transport}", 1, too_large, *job, **small)
        check(f"limits: what a run over {transport} made is gone", not (folder / "new").exists())
        check(f"limits: what was there before a run over {transport} stays", empty.is_dir() and not list(empty.iterdir()) and
              files_of(saved) == old)
    expect("limits: nothing to go on from", 2, "No such file", "run", plan, "--resume", folder / "none", "--checkpoint", folder / "new")
    check("limits: no folder of a run that did not begin", not (folder / "new").exists())


@seen_elsewhere
def mixtures(folder):
    """Who computes has room for every choice of tokens, whatever framework the plan is for; who only waits, waits as long as that one takes."""
    model, plan = folder / "mixture.json", folder / "mixture-plan.json"
    norm = {"norm": "rms_norm"}
    experts = {"kind": "moe", "experts": 8, "choices": 2, "inner": 16, "dropless": True, "capacity_factor": 4, "activation": "swiglu", **norm}
    model.write_text(json.dumps({"format": "cleave-model", "version": 1, "name": "mixture", "sequence": 128, "hidden": 32, "vocab_size": 100,
                                 "layers": [{"kind": "embedding"}, {"kind": "attention", "heads": 4, **norm}, experts, {"kind": "head", **norm}, {"kind": "loss"}]}))
    job = ["estimate", model, "--cluster", "1x2:cpu", "--batch", 4, "--dp", 2, "--framework", "torchtitan", "-o", plan, "--json"]
    step_s = json.loads(expect("mixtures: estimate", 0, "", *job).stdout)["predicted"]["step_s"]
    for backend, same in (("timed", True), ("cpu", False)):
        ran = json.loads(expect(f"mixtures: run by {backend}", 0, "", "run", plan, "--backend", backend, "--steps", 1, "--json").stdout.splitlines()[-1])["summary"]
        check(f"mixtures: {backend} is predicted {ran['predicted_step_s']}, planned {step_s}", (abs(ran["predicted_step_s"] / step_s - 1) < 1e-6) == same)
    if SHARE <= 24:  # else the thread sanitizer looks at what it has just seen for half a minute
        expect("mixtures: compare", 0, "measured", "compare", plan, "--run", "--steps", 2, "--rounds", 1)


@seen_elsewhere
def imported_mixture(folder):
    """A config.json says no capacity, so no load ends the run: here every token is the same letter, and chooses the same experts."""
    model, text = folder / "config.json", folder / "letters.txt"
    model.write_text(json.dumps({"model_type": "qwen3_moe", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
                                 "head_dim": 16, "moe_intermediate_size": 16, "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 256,
                                 "max_position_embeddings": 32}))
    text.write_text("a" * 2000)
    plan = folder / "imported-plan.json"
    for framework in ("cleave", "torchtitan"):
        expect("imported mixtures: estimate", 0, "", "estimate", model, "--cluster", "1x2:cpu", "--batch", 4, "--dp", 2, "--framework", framework, "-o", plan)
        expect("imported mixtures: run", 0, "step +2 ", "run", plan, "--data", text, "--steps", 2)


def place_of(path, key):
    """Where the value of the file's first member of that name begins: "12:18"."""
    words = f'"{key}": '
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if words in line:
            return f"{number}:{line.index(words) + len(words) + 1}"
    raise AssertionError(f"{path} has no {key}")


@seen_elsewhere
def positions(folder):
    """What does not fit the model, or is another one, is said with the place in the plan file."""
    good, bad = json.loads(plan_for_two(folder).read_text()), folder / "changed.json"
    changes = [({"micro_batches": 3}, "batch", "decisions.batch: plan: batch 8: expected a multiple of (3|6) "),
               ({"sequence": 4096}, "sequence", "decisions.sequence: .* a sequence of 4096 tokens"),
               ({"schedule": "zb-v"}, "schedule", "decisions.schedule: plan: schedule zb-v runs several chunks"),
               ({"schedule": "pipedream", "clip_norm": 1}, "clip_norm", "decisions.clip_norm: plan: clip_norm 1: "),
               ({"order": "1-6,0"}, "order", "decisions.order: .*expected layer 0.embedding before"),
               ({"stages": [{"layers": "0-6", "atoms": [2, 1], "first_rank": 1}]}, "stages", "decisions.stages: plan: stage 0: expected its ranks to begin at 0")]
    for decisions, key, pattern in changes:
        bad.write_text(json.dumps({**good, "decisions": {**good["decisions"], **decisions}}, indent=2))
        expect(f"positions: {decisions}", 2, f"error: {bad}:{place_of(bad, key)}: {pattern}", "run", bad)
    bad.write_text(json.dumps(good, indent=2))
    expect("positions: another cluster", 2, f"{bad}:{place_of(bad, 'cluster')}: context.cluster: plan: it was made for cluster 1x2:cpu", "show", bad, "--cluster", "1x4:cpu")
    del good["context"]["model"]["description"]  # as older files have it
    bad.write_text(json.dumps(good, indent=2).replace('"source": "tiny-gpt"', '"source": "tiny-gpx"'))
    expect("positions: no such model", 2, f"{bad}:{place_of(bad, 'model')}: context.model: model 'tiny-gpx': .*did you mean tiny-gpt", "show", bad)
    expect("positions: no such model, given", 2, f"error: {bad}: model 'tiny-gpx'", "show", bad, "--model", "tiny-gpx")


main(planned_alone, rates, notes, kernels, limits, mixtures, imported_mixture, positions)
