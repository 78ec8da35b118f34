#!/usr/bin/env python3
"""Corrections of measured runs: steps that are known become speeds that predict them, also those of other rows; logs of four
programs; what each price says of its accuracy; what is refused. usage: test_cli_calibrate.py CLEAVE SOURCE_ROOT"""
import csv
import json
import math
import re

from calls import ROOT, check, expect, main, run, seen_elsewhere

JOB = {"family": "llama3", "framework": "torchtitan FSDP2", "hidden": 1024, "heads": 8, "ffn_kind": "swiglu", "ffn_hidden": 4096, "vocab": 32000, "seq_len": 2048,
       "gpu": "H100-80GB", "n_gpus": 8, "gpus_per_node": 8, "dtype": "bf16", "tp": 1, "pp": 1, "dp": 8, "zero_stage": 3}
LOG = ROOT / "tests/fuzz/corpus"
ESTIMATE = ["llama-3-8b", "--cluster", "1x8:h100-sxm", "--framework", "torchtitan", "--batch", "16", "--seq", "8192", "--micro-batch", "2", "--zero", "3"]


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def predicted(path, *more):
    result = run("validate", path, "--json", *more)
    check(f"validate {path.name}", result.returncode == 0, result)
    return [row["predicted_step_s"] for row in json.loads(result.stdout)["rows"]]


def predicted_of(path, rows):
    write_rows(path, rows)
    return predicted(path)


def worst(path, *more):
    return max(abs(row["error"]) for row in json.loads(run("validate", path, "--json", *more).stdout)["rows"])


def tables(folder):
    """Runs that products and attention slow down by what is written in a calibration: it is found again, and holds of runs that had no
    part in it."""
    truth, path, other, found = folder / "truth.json", folder / "runs.csv", folder / "other.csv", folder / "found.json"
    truth.write_text(json.dumps({"format": "cleave-calibration", "version": 1, "corrections": [
        {"device": "h100-sxm", "framework": "torchtitan", "products": 0.85, "elementwise": 0.7}]}))
    for name, layers in ((path, (2, 8)), (other, (3, 16))):
        rows = [{**JOB, "id": f"{name.stem}-{count}-{tokens}", "layers": count, "seq_len": tokens, "micro_batch": 8192 // tokens,
                 "global_batch": 65536 // tokens, "step_time_s": ""} for count in layers for tokens in (512, 2048, 8192)]
        write_rows(name, [{**row, "step_time_s": 1} for row in rows])
        write_rows(name, [{**row, "step_time_s": step} for row, step in zip(rows, predicted(name, "--profile", truth), strict=True)])
    result = run("calibrate", path, "-o", found, "--hold-out", "id", "--hold-out", "gpu", "--json")
    check("calibrate", result.returncode == 0 and f"wrote {found}" in result.stderr, result)
    told, (correction,) = json.loads(result.stdout), json.loads(found.read_text())["corrections"]
    check("what holds of what", (correction["device"], correction["framework"], correction["rows"]) == ("h100-sxm", "torchtitan", 6))
    check("speeds are found", abs(correction["products"] - 0.85) < 0.08 and abs(correction["elementwise"] - 0.7) < 0.06, result)
    check("errors are told", told["before"]["mape"] > 0.1 > 10 * told["after"]["mape"] and told["held_out"][0]["mape"] < 0.02 and
          [(held["by"], held["groups"]) for held in told["held_out"]] == [("id", 6), ("gpu", 1)], result)
    check("nothing to fit to leaves all as it is", abs(told["held_out"][1]["mape"] - told["before"]["mape"]) < 0.1, result)
    check("rows that had no part", worst(other, "--profile", found) < worst(other) / 10)
    low, high = told["corrections"][0]["products"][1:]
    check("the range by groups left out", 0.7 < low <= correction["products"] + 1e-9 and high >= correction["products"] - 1e-9, result)
    check("threads", run("calibrate", path, "-o", "-", "--jobs", 1).stdout == run("calibrate", path, "-o", "-", "--jobs", 3).stdout == found.read_text())
    expect("for people", 0, r"h100-sxm under torchtitan \(6 runs\).*products +0\.[89].*as predicted without +6.*with the corrections +6", "calibrate", path)
    words = [*ESTIMATE[:2], "1x8:h100-sxm", *ESTIMATE[3:], "--profile", found]
    taken = run("estimate", *words)
    check("estimate takes it, also of what does not fit", taken.returncode == 3 and
          re.search("accuracy: corrected by .*runs.csv: 6 runs: steps that were off by .* %; without: ", taken.stdout), taken)
    plan = folder / "plan.json"
    check("plan takes it", run("plan", *ESTIMATE[:9], "--fix", "tp=1,pp=1,cp=1,zero=3", "--profile", found, "-o", plan).returncode == 0)
    promised = json.loads(plan.read_text())["predicted"]["step_s"]
    again = run("simulate", plan, "--json")
    check("simulate finds it where the plan says", abs(json.loads(again.stdout)["step_s"] / promised - 1) < 1e-6, again)
    expect("of another framework", 2, "expected a correction of h100-sxm under maxtext, found 1 of others, the first of h100-sxm under torchtitan; "
           "give --framework torchtitan, which it was made for, leave it out, or make one: cleave calibrate",
           "estimate", *[word if word != "torchtitan" else "maxtext" for word in words])


@seen_elsewhere
def like_runs(folder):
    """Runs that no rate explains, the more so the longer their sequences: others between them are told by the runs like them, and a job
    that is like none is told by the corrections alone."""
    path, other, found, speeds = (folder / name for name in ("like.csv", "like-other.csv", "like.json", "like-speeds.json"))
    for name, lengths in ((path, (512, 1024, 4096, 16384)), (other, (2048, 8192))):
        rows = [{**JOB, "id": f"{name.stem}-{count}-{tokens}", "layers": count, "seq_len": tokens, "micro_batch": 16384 // tokens,
                 "global_batch": 131072 // tokens, "step_time_s": 1} for count in (2, 4, 8) for tokens in lengths]
        steps = [step * (1 + 0.25 * math.sin(math.log2(row["seq_len"]) / 2)) for row, step in zip(rows, predicted_of(name, rows), strict=True)]
        write_rows(name, [{**row, "step_time_s": step} for row, step in zip(rows, steps, strict=True)])
    result = run("calibrate", path, "-o", found, "--json")
    told, written = json.loads(result.stdout), json.loads(found.read_text())
    check("runs are kept", len(written["runs"]) == told["like_runs"]["runs"] == 12 and told["like_runs"]["mape"] < told["after"]["mape"], result)
    speeds.write_text(json.dumps({key: value for key, value in written.items() if key != "runs"}))
    check("others between them", worst(other, "--profile", found) < worst(other, "--profile", speeds) / 2)
    job = ["estimate", "llama-3-8b", "--cluster", "1x8:h100-sxm", "--framework", "torchtitan", "--zero", "3", "--json"]
    shape = {**written["runs"][0], "parameters": 8030261248, "layers": 67, "sequence": 8192, "batch": 16, "micro_batch": 2, "left": 0.05}
    speeds.write_text(json.dumps({**written, "runs": [shape]}))
    like, unlike = (json.loads(run(*job, "--seq", "8192", *words, "--profile", speeds).stdout)["remarks"] for words in (
        ["--batch", "16", "--micro-batch", "2"], ["--batch", "16384", "--micro-batch", "2048"]))
    check("a job like one", ["1 measured run like it says that the step takes" in remark["text"] and "(+5.0 %)" in remark["text"]
                             for remark in like if remark["kind"] == "like_runs"] == [True], like)
    check("a job like none", not [remark for remark in unlike if remark["kind"] == "like_runs"], unlike)
    speeds.write_text(json.dumps({**written, "runs": [{**shape, "batch": 0}]}))
    expect("sizes are at least 1", 2, "batch", "estimate", *ESTIMATE, "--profile", speeds)


@seen_elsewhere
def logs(folder):
    """What three of the programs print: the step that they tell is what is predicted afterwards, but for the shrinkage."""
    for name, program, batch in (("megatron", "Megatron-LM", "64"), ("torchtitan", "torchtitan", "16"), ("deepspeed", "DeepSpeed", "16")):
        found = folder / f"{name}.json"
        words = [{"16": batch, "8192": "4096"}.get(word, word) for word in ESTIMATE]  # of shorter sequences the logs' steps are possible
        result = run("calibrate", *words, "--log", LOG / f"log_{name}.txt", "-o", found, "--json")
        check(name, result.returncode == 0 and f"steps of {program}, " in result.stderr, result)
        if name == "megatron":  # scripts of transformers print such lines, too
            other = run("calibrate", *[word if word != "torchtitan" else "accelerate-fsdp2" for word in words], "--log", LOG / f"log_{name}.txt", "-o", folder / "other.json")
            check("whose lines", other.returncode == 0 and "steps of accelerate-fsdp2, " in other.stderr, other)
        if name == "megatron":  # a model is read for each price, and what is noted of it said once
            llama = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256}
            (folder / "config.json").write_text(json.dumps(llama))
            (folder / "adapter_config.json").write_text(json.dumps({"r": 4, "target_modules": ["q_proj"], "lora_dropout": 0.1}))
            noted = run("calibrate", folder / "config.json", *words[1:], "--log", LOG / f"log_{name}.txt", "-o", folder / "other.json")
            check("notes once", noted.returncode == 0 and noted.stderr.count("note: ") == 4, noted)
            check("what no speed explains is said", "1 of them at the limit (0.05 to 20); what speeds do not explain may be" in noted.stderr, noted)
            check("a model of another kind", "a step of" in noted.stderr and "were predicted: are the model (its adapters, quantized matrices), the cluster and the batch those of the run?" in noted.stderr, noted)
        told = json.loads(result.stdout)
        check(f"{name} comes nearer", told["rows"] == 1 and told["after"]["mape"] < told["before"]["mape"], result)
        before, after = (json.loads(run("estimate", *words, "--json", *more).stdout)["predicted"] for more in ([], ["--profile", found]))
        check(f"{name} is priced so", abs((before["step_s"] / after["step_s"] - 1)) > 0.005)
        check(f"{name}: memory that was needed beside is kept back",
              after["available_bytes"] == before["available_bytes"] - told["corrections"][0]["memory_bytes"], result)


@seen_elsewhere
def offsets(folder):
    """Steps that are all as much longer than predicted are told, however much: what runs share is no noise."""
    log, found, path, other = (folder / name for name in ("slow.log", "slow.json", "slow.csv", "slow-other.csv"))
    step = json.loads(run("estimate", *ESTIMATE, "--json").stdout)["predicted"]["step_s"]
    for slower in (0.7, 1.2, 1.4, 2):
        log.write_text(f"elapsed time per iteration (ms): {1000 * step * slower}\n" * 20)
        result = run("calibrate", *ESTIMATE, "--log", log, "-o", found, "--json")
        check(f"one run, {slower} times as long", json.loads(result.stdout)["after"]["mape"] < 0.02 and
              ("were predicted: are the model" in result.stderr) == (slower > 1.5), result)
    rows = [{**JOB, "id": f"slow-{count}", "layers": count, "micro_batch": 4, "global_batch": 32, "step_time_s": 1} for count in (2, 4, 8)]
    write_rows(path, [{**row, "step_time_s": 1.5 * step} for row, step in zip(rows, predicted_of(path, rows), strict=True)])
    result = run("calibrate", path, "-o", found, "--json")
    check("three runs, 1.5 times as long", json.loads(result.stdout)["after"]["mape"] < 0.02, result)
    rows = [{**JOB, "id": f"other-{length}", "layers": 6, "seq_len": length, "micro_batch": 4, "global_batch": 32, "step_time_s": 1} for length in (1024, 4096)]
    steps = predicted_of(other, rows)
    write_rows(other, [{**row, "step_time_s": 1.5 * step} for row, step in zip(rows, steps, strict=True)])
    check("and others as much", worst(other, "--profile", found) < worst(other) / 4, result)


def trainer(folder):
    """Logs of transformers' Trainer, and of a launch on another cluster than is said."""
    words = [word if word != "torchtitan" else "accelerate-fsdp2" for word in ESTIMATE]
    result = run("calibrate", *words, "--log", LOG / "log_trainer.txt", "-o", folder / "trainer.json")
    check("a Trainer's log", "log_trainer.txt: 30 steps of transformers' Trainer by its progress bar, the first left out, 20.0 s" in result.stderr, result)
    words = [word if word != "1x8:h100-sxm" else "2x8:h100-sxm" for word in ESTIMATE]
    expect("another cluster", 2, 'expected a run on 16 devices, as --cluster has them, found a world size of 8: .*--cluster 1x8:h100-sxm',
           "calibrate", *[word if word != "16" else "64" for word in words], "--log", LOG / "log_megatron.txt")
    launch, log = folder / "launch" / "train.sh", folder / "train.log"
    check("a launch", run("plan", "llama-3-8b", "--cluster", "1x8:h100-sxm", "--batch", "64", "--target", "megatron-lm", "--launch", folder / "launch").returncode == 0)
    log.write_text("elapsed time per iteration (ms): 5000 | global batch size: 64 |\n" * 5)
    result = run("calibrate", "--from", "megatron-lm", launch, "--cluster", "2x8:h100-sxm", "--log", log)
    check("what a launch counts is noted once", result.returncode == 0 and result.stderr.count("note: the launch counts 8 devices") == 1, result)


@seen_elsewhere
def sentences(_):
    """Each price says how far such prices were off, for people and in JSON, or that this is not known."""
    known = json.loads((ROOT / "planner/facts/accuracy.json").read_text())["entries"]
    entry = max((e for e in known if not e["experts"] and e["framework"] == "megatron-core" and e["device"] == "h100-sxm"), key=lambda e: e["rows"])
    job = ["llama-3-8b", "--cluster", "1x8:h100-sxm", "--batch", "16", "--dtype", entry["dtype"]]
    for verb, fixed in (("estimate", []), ("plan", ["--fix", "tp=1,pp=1,cp=1,zero=3"])):
        words = [verb, *job, "--framework", "megatron-core", *fixed]
        accuracy = json.loads(run(*words, "--json").stdout)["predicted"]["accuracy"]
        check(f"{verb} --json", accuracy["runs"] == entry["rows"] and [accuracy[k] for k in ("low", "median", "high")] == [entry[k] for k in ("low", "median", "high")])
        check(f"{verb} says the same", f"\naccuracy: {accuracy['words']}\n" in run(*words).stdout and accuracy["words"].startswith(f"{entry['rows']} runs of megatron-core on h100-sxm"))
    nothing = run("estimate", "llama-3-8b", "--cluster", "1x8:rtx4090", "--batch", "16", "--zero", "3", "--framework", "torchtitan", "--json")
    accuracy = json.loads(nothing.stdout)["predicted"]["accuracy"]
    check("no run", accuracy["words"].startswith("no published run of torchtitan on rtx4090 in bf16 was held against this price") and
          accuracy["runs"] == 0 and "low" not in accuracy, nothing)
    own = run("estimate", *job)
    check("cleave's own, also of what does not fit", own.returncode == 3 and
          "accuracy: by the catalogue alone, and no run of cleave's own was held against this price" in own.stdout, own)


def refused(folder):
    log = LOG / "log_megatron.txt"
    expect("another batch", 2, "expected a global batch of 16 sequences, as --batch has it, found 64", "calibrate", *ESTIMATE, "--log", log)
    expect("by whom", 2, "--framework is missing", "calibrate", *ESTIMATE[:3], *ESTIMATE[5:], "--log", log)
    expect("two models", 2, "expected one model or launch, found 2 operands", "calibrate", "gpt2", *ESTIMATE, "--log", log)
    expect("a launch without a log", 2, "--from belongs to --log", "calibrate", "--from", "megatron-lm", "train.sh", "--cluster", "8x8:h100-sxm")
    expect("a model beside a model", 2, "--model belongs to --from", "calibrate", *ESTIMATE, "--model", "gpt2", "--log", log)
    expect("a launch from a pipe", 2, "a file or arguments, which are read several times", "calibrate", "--from", "megatron-lm", "-", "--cluster", "8x8:h100-sxm", "--log", log)
    expect("held out of a log", 2, "--hold-out: expected a table", "calibrate", *ESTIMATE, "--log", log, "--hold-out", "id")
    expect("held out by numbers", 2, "--hold-out: expected a column of texts", "calibrate", "runs.csv", "--hold-out", "tp")
    expect("no log", 2, "expected steps as Megatron-LM", "calibrate", *ESTIMATE, "--log", ROOT / "README.md")
    fast, path = folder / "fast.log", folder / "none.csv"
    for steps, wrong in (("iteration 1/ 9 | elapsed time per iteration (ms): 9000 |\n", f"{fast}:1: expected steps behind the first, .* found step 1 alone in 1 lines"),
                         ("iteration 9/ 9 | elapsed time per iteration (ms): 200 |\n", f"{fast}: expected a step of at least 853 ms, .* 8 x h100-sxm, found 200 ms .426 %"),
                         ("iteration 1/ 9 | elapsed time per iteration (ms): 9000 |\niteration 2/ 9 | elapsed time per iteration (ms): 200 |", "found 200 ms")):
        fast.write_text(steps)
        expect("no step to learn from", 2, wrong, "calibrate", *ESTIMATE, "--log", fast)
    write_rows(path, [{**JOB, "id": "b", "layers": 2, "micro_batch": 1, "global_batch": 8, "step_time_s": 1e-4}])
    expect("a row that no device does", 2, f"{path}: row b: expected a step of at least", "calibrate", path)
    write_rows(path, [{**JOB, "id": "a", "layers": 2, "micro_batch": 1, "global_batch": 8, "step_time_s": ""}])
    expect("nothing measured", 2, "expected rows with a step that a framework took and estimate can predict, found none of 1", "calibrate", path)
    bad = folder / "bad.json"
    bad.write_text('{"format": "cleave-calibration", "version": 1, "corrections": [{"products": 99}]}')
    expect("a wild speed", 2, r"bad.json:1:\d+: corrections\[0\].products", "estimate", *ESTIMATE, "--profile", bad)


main(tables, like_runs, logs, offsets, trainer, sentences, refused)
