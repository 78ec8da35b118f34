#!/usr/bin/env python3
"""Predictions beside measured runs: what is asked of each row, that `cleave estimate` says the same of it, and what they say together,
computed again here; what is refused. usage: test_cli_validate.py CLEAVE SOURCE_ROOT"""
import csv
import io
import json
import shlex
import statistics
import xml.etree.ElementTree

from calls import ROOT, check, expect, main, run, seen_elsewhere, some

RUNS, GOLDEN = ROOT / "tests/data/measurements.csv", ROOT / "tests/data/golden.csv"
LATE = "bucket=1TiB"  # one bucket: reduced after the last backward pass
# What is asked of each row: dtype, choices, stand-ins. By hand, from what the rows say.
ASKED = {
    "gpt-dp": ("fp16", "tp=1,pp=1,dp=4,zero=0,micro-batch=4," + LATE, "recompute not stated: none"),
    "gpt-tp": ("fp16", "tp=4,pp=1,dp=1,zero=0,micro-batch=4,recompute=full," + LATE, ""),
    "gpt-pp": ("fp16", "tp=1,pp=2,dp=2,zero=0,micro-batch=4,recompute=full", ""),
    "gpt-zero": ("bf16", "tp=1,pp=1,dp=4,zero=3,micro-batch=4," + LATE, "recompute not stated: none"),
    "llama-plain": ("bf16", "tp=2,pp=2,dp=4,zero=1,micro-batch=1,sp=true,recompute=none", ""),
    "llama-chunks": ("fp8", "tp=2,pp=2,dp=4,zero=1,micro-batch=1,sp=true,schedule=interleaved,interleave=2,recompute=none,layer[1-6].offload=activations", ""),
    "llama-odd": ("bf16", "tp=2,pp=2,dp=4,zero=1,micro-batch=1,sp=true,schedule=interleaved,interleave=2,recompute=none", ""),
    "llama-selective": ("bf16", "tp=2,pp=2,dp=4,zero=1,micro-batch=1,sp=true,recompute-except=gate+up+act", "network of the catalogue"),
    "llama-titan": ("bf16", "tp=1,pp=2,dp=8,zero=3,micro-batch=1,recompute=selective,reshard=false", ""),
    "llama-ring": ("bf16", "tp=1,pp=1,dp=8,zero=1,micro-batch=1,cp=2,cp-by=cp-ring,recompute=none", ""),
    "llama-group-a": ("bf16", "tp=1,pp=1,dp=16,zero=1,micro-batch=1,recompute=none", ""),
    "llama-group-b": ("bf16", "tp=4,pp=1,dp=4,zero=1,micro-batch=1,sp=true,recompute=none", ""),
    "llama-nvl72": ("nvfp4", "tp=2,pp=2,dp=36,zero=1,micro-batch=1,sp=true,recompute=none", ""),
    "moe-ep": ("bf16", "tp=1,pp=1,dp=8,zero=1,micro-batch=1,ep=4,recompute=none", "etp as tp"),
    "bloom-oom": ("fp16", "tp=1,pp=1,dp=8,zero=0,micro-batch=8," + LATE, "recompute not stated: none"),
    "bloom-omni": ("fp16", "tp=1,pp=1,dp=8,zero=0,micro-batch=2," + LATE, "recompute not stated: none"),
    "v100": ("fp16", "tp=1,pp=1,dp=4,zero=0,micro-batch=4,recompute=full," + LATE, ""),
    "g-plain": ("bf16", "tp=2,pp=2,dp=2,zero=1,micro-batch=4,sp=true,recompute=none", ""),
    "g-chunks": ("fp16", "tp=2,pp=2,dp=2,zero=0,micro-batch=4,schedule=interleaved,interleave=2,recompute=none", ""),
    "g-recompute": ("fp8", "tp=2,pp=1,dp=4,zero=3,micro-batch=4,recompute=full", ""),
    "g-experts": ("bf16", "tp=1,pp=1,dp=8,zero=0,micro-batch=4,ep=4,recompute=none", ""),
}
# What is measured beside tensors: DeepSpeed's buckets; by nvidia-smi, and where whole GB are printed, all that plans have to leave free, too.
BESIDE = {"gpt-zero": 2 * 10**9 + 3 * 2**30, "bloom-omni": 2 * 10**9 + 3 * 2**30}
BUFFERS = {"megatron-lm-te": 2**26, "megatron-lm-unfused": 2**26, "megatron-deepspeed": 2 * 10**9, "megatron-deepspeed-blocking": 2 * 10**9}  # by framework
SKIPPED = {
    "gpt-cards": "no device RTX-5080-16GB in the catalogue (\"cleave devices\" lists what is)", "gpt-bad": "quality check or BAD", "gpt-unmeasured": "row lacks a measurement",
    "llama-odd": "estimate refused: plan: schedule interleaved: expected at least as many micro-batches as the 2 "
                 "stages, found 1",
    "llama-nodes": "devices do not fill whole nodes", "llama-degrees": "tp*pp*cp*dp is not the number of devices",
    "moe-ranks": "experts over ranks that are not data ranks (ep does not divide dp)", "moe-latent": "sparse attention",
    "g-mamba": "Mamba layers (hybrid model)", "g-batch": "row lacks global_batch",
}
# Devices that GPUs' names lead to, and the dtype of a row that says none or fp32.
DEVICES = [("A100-40GB-PCIe", "a100-pcie-40", "", "bf16"), ("A100-80GB-PCIe", "a100-pcie-80", "", "bf16"), ("A100-PCIe-80GB", "a100-pcie-80", "", "bf16"), ("H100-80GB-PCIe", "h100-pcie", "", "bf16"),
           ("H100-PCIe", "h100-pcie", "", "bf16"), ("A100-40GB-SXM", "a100-sxm-40", "", "bf16"), ("A100-80GB-SXM", "a100-sxm-80", "", "bf16"), ("H100-96GB", "h100-grand-teton", "", "bf16"),
           ("H100-94/95GB", "h100-grand-teton", "", "bf16"), ("H100-80GB", "h100-sxm", "", "bf16"), ("H200-141GB", "h200-sxm", "fp32", "fp32"),
           ("B200", "b200-sxm", "", "bf16"), ("B300", "b300-sxm", "", "bf16"), ("GB200 (NVL72)", "gb200", "", "bf16"), ("GB300 (NVL72)", "gb300", "", "bf16"),
           ("MI300X", "mi300x", "", "bf16"), ("V100-16GB", "v100-sxm2-16", "", "fp16"), ("V100-32GB-SXM3", "v100-sxm3-32", "", "fp16"),
           ("V100-32GB", "v100-sxm2-32", "fp32", "fp32"), ("RTX 4090", "rtx4090", "", "bf16"), ("NVIDIA GeForce RTX-3090-24GB", "rtx3090", "", "bf16"), ("NVIDIA L40S", "l40s", "", "bf16"),
           ("L4 24GB", "l4", "", "bf16"), ("A10G", "a10g", "", "bf16"), ("A100-SXM4-40GB", "a100-sxm-40", "", "bf16"), ("H100 PCIe", "h100-pcie", "", "bf16"), ("GH200 480GB", "gh200-96", "", "bf16"),
           ("AMD Instinct MI325X", "mi325x", "", "bf16"), ("A6000", "rtx-a6000", "", "bf16"), ("H100 NVL", "h100-nvl", "", "bf16"), ("H20", "h20", "", "bf16"),
           ("H800", "h800-sxm", "", "bf16"), ("Tesla T4", "t4", "", "fp16"), *((path.stem, path.stem, "fp32", "fp32") for path in sorted((ROOT / "planner/facts/devices").glob("*.json")))]
UNKNOWN_DEVICES = "A5000", "RTX A5000", "V100", "NVIDIA", "RTX A1000", "A100X", "RTX 4090 Laptop GPU", "GeForce RTX 3090 Max-Q", "L4 (mobile)", "H200 NVL"
# The columns that a row cannot do without, and what it took.
NEEDED = {"family": "gpt2", "layers": 2, "hidden": 64, "heads": 2, "ffn_kind": "gelu", "ffn_hidden": 256, "vocab": 512, "seq_len": 64, "gpu": "A100", "n_gpus": 2,
          "gpus_per_node": 8, "tp": 1, "pp": 1, "dp": 2, "micro_batch": 1, "global_batch": 4, "step_time_s": .01}
UNCOUNTED = {"llama-ring", "g-plain", "g-chunks", "g-recompute", "g-experts", "g-mamba", "g-batch"}  # complete: no, or not said by such files


def measured(row):
    if row.get("step_time_s") or row.get("iter_time_median_s"):
        return float(row.get("step_time_s") or row["iter_time_median_s"])
    if row.get("tokens_per_s_per_gpu"):
        return int(row["global_batch"]) * int(row["seq_len"]) / float(row["tokens_per_s_per_gpu"]) / int(row["n_gpus"])
    return None


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def near(a, b):
    return abs(a - b) <= 1e-12 * max(1, abs(a), abs(b))


def summary_of(errors, prefix=""):
    size = [abs(e) for e in errors]
    keys = ("rows", "mape", "median_error", "signed_median_error", "max_error")
    return dict(zip((prefix + key for key in keys), (len(errors), *((statistics.mean(size), statistics.median(size), statistics.median(errors), max(size)) if errors else (0,) * 4))))


def predictions(folder):
    """Each row is asked what it says, and predicted as estimate predicts it."""
    table, picture = folder / "predictions.csv", folder / "errors.svg"
    result = run("validate", RUNS, GOLDEN, "-o", table, "--svg", picture, "--json")
    check("validate", result.returncode == 0 and not result.stderr, result)
    report, told = json.loads(result.stdout), {row["id"]: row for row in rows_of(table)}
    rows, given = {row["id"]: row for row in report["rows"]}, {row["id"]: row for path in (RUNS, GOLDEN) for row in rows_of(path)}
    check("one line a row", list(rows) == list(told) == list(given) and (report["format"], report["version"]) == ("cleave-validation", 1), result)
    check("skips", {i: row["skipped"] for i, row in rows.items() if row["skipped"]} == SKIPPED, result)
    for name, (dtype, fix, standin) in some(ASKED.items()):
        words = shlex.split(told[name]["command"])
        value = dict(zip(words[3::2], words[4::2]))
        check(f"{name} is asked", (value["--dtype"], value["--fix"], told[name]["standin"]) == (dtype, fix, standin) and words[-1] == "--json" and
              (value["--batch"], value["--seq"]) == (given[name]["global_batch"], given[name]["seq_len"]))
        answer = run(*words[1:])
        if name in SKIPPED:
            check(f"{name} is refused by estimate", answer.returncode == 2 and "error: " + SKIPPED[name].removeprefix("estimate refused: ") in answer.stderr, answer)
            continue
        predicted = json.loads(answer.stdout)["predicted"]
        stages = predicted["peak_bytes"]
        peak = (stages[-1] if "test" in given[name] else max(stages)) + BESIDE.get(name, BUFFERS.get(value["--framework"], 0))
        check(f"{name} as estimate has it", predicted["step_s"] == rows[name]["predicted_step_s"] == float(told[name]["predicted_step_s"]) and
              peak == rows[name]["predicted_peak_bytes"] == int(told[name]["predicted_peak_bytes"]) and predicted["fits"] == rows[name]["fits"], answer)
    sums(report, rows, given)
    models(told)
    drawn = xml.etree.ElementTree.parse(picture)
    titles = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
    counted = [row for row in report["rows"] if not row["skipped"] and row["counts"] and row["measured_step_s"]]
    check("a point of each row that counts", sorted(t.split(" ")[0] for t in titles if t.split(" ")[0] in rows) == sorted(r["id"] for r in counted))
    check("threads", run("validate", RUNS, GOLDEN, "--json", "--jobs", 1).stdout == run("validate", RUNS, GOLDEN, "--json", "--jobs", 5).stdout == result.stdout)
    text = run("validate", RUNS, GOLDEN).stdout
    check("what people read", "rank: in 1 of 2 groups" in text and "out of memory: 1 of 1 runs that were, and 0 of 19 that ran" in text and
          "skipped: 10 of 30 rows" in text and all(reason in text for reason in SKIPPED.values()))


def sums(report, rows, given):
    """Errors, by source and in total, and whose best is the best."""
    source = {i: row.get("source_key", "golden") or "measurements" for i, row in given.items()}
    check("sources", {i: row["by"] for i, row in rows.items()} == source)
    error, memory = {}, {}
    for i, row in rows.items():
        unit = 1000 * 2**20 if given[i].get("mem_kind", "").startswith("GB as printed") else 2**30  # whole GB: thousands of MiB that nvidia-smi showed
        peak = given[i].get("peak_mem_gib") and float(given[i]["peak_mem_gib"]) * unit or float(given[i].get("mem_max_allocated_bytes_last") or 0)
        if row["skipped"]:
            continue
        if measured(given[i]):
            check(f"{i}: error", near(row["error"], row["predicted_step_s"] / measured(given[i]) - 1))
        if measured(given[i]) and i not in UNCOUNTED:
            error[i] = row["error"]
        if peak:
            memory[i] = row["predicted_peak_bytes"] / int(peak) - 1
    check("enough to sum", len(error) == 14 and len(memory) == 7)
    for name in {*source.values(), None}:
        want = {**summary_of([e for i, e in error.items() if name in (None, source[i])]),
                **summary_of([e for i, e in memory.items() if name in (None, source[i])], "memory_")}
        found = report["summary"][name] if name else report["total"]
        check(f"sums of {name}", set(found) == set(want) and all(near(found[key], want[key]) for key in want))
    groups = {}
    for i in error:
        groups.setdefault(tuple(given[i][key] for key in ("source_key", "model", "gpu", "n_gpus", "seq_len", "global_batch", "dtype")), []).append(i)
    regrets = [measured(given[min(ids, key=lambda i: rows[i]["predicted_step_s"])]) / min(measured(given[i]) for i in ids) - 1
               for ids in groups.values() if len(ids) > 2]
    check("rank", report["rank"]["groups"] == len(regrets) == 2 and report["rank"]["agreed"] == sum(r <= .03 for r in regrets) == 1 and
          near(report["rank"]["mean_regret"], statistics.mean(regrets)))
    check("memory ran out", report["out_of_memory"] == {"rows": 1, "predicted": 1, "ran": 19, "ran_predicted": 0})
    check("skips are counted", sum(skip["rows"] for skip in report["skipped"]) == len(SKIPPED))


def models(told):
    """What no option says: the model and the cluster."""
    def of(name):
        words = shlex.split(told[name]["command"])
        return json.loads(words[2]), json.loads(words[4])
    model, cluster = of("moe-ep")
    blocks = [layer for layer in model["layers"] if "repeat" in layer]
    check("dense blocks come first", [block["repeat"] for block in blocks] == [2, 6] and blocks[1]["layers"][1]["experts"] == 8 and
          cluster["levels"] == [{"name": "node", "fanout": 8}] and cluster["device"] == "b200-sxm")
    model, cluster = of("bloom-omni")
    check("BLOOM", model["layers"][0] == {"kind": "embedding", "norm": "layer_norm"} and model["layers"][1]["layers"][0]["qkv_bias"] is True and
          model["tied_embedding"] is True and cluster["levels"][1] == {"name": "cluster", "fanout": 2, "bytes_per_s": 4.6875e9})
    model, cluster = of("llama-nvl72")
    attention = model["layers"][1]["layers"][0]
    check("an NVLink domain is the inner level", cluster["levels"] == [{"name": "node", "fanout": 72}, {"name": "cluster", "fanout": 2}] and
          cluster["device"] == "gb200" and attention["norm"] == "layer_norm" and attention["rope_base"] == 500000 and attention["head_dim"] == 128)
    check("tied unless the row says otherwise", of("g-plain")[0]["tied_embedding"] and not of("g-chunks")[0]["tied_embedding"] and
          of("g-chunks")[0]["layers"][1]["layers"][1]["inner"] == 1344 and of("g-chunks")[0]["vocab_size"] == 32000)


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@seen_elsewhere
def devices(folder):
    """Each name of a GPU leads to a device that the catalogue has."""
    path, table = folder / "gpus.csv", folder / "devices.csv"
    write_rows(path, [{**NEEDED, "gpu": gpu, "dtype": dtype} for gpu, _, dtype, _ in DEVICES] + [{**NEEDED, "gpu": gpu, "dtype": ""} for gpu in UNKNOWN_DEVICES])
    run("validate", path, "-o", table)
    rows = rows_of(table)
    check("devices that are not in the catalogue", all(f"no device {gpu} in the catalogue" in row["skipped"] for gpu, row in zip(UNKNOWN_DEVICES, rows[len(DEVICES):], strict=True)))
    for (gpu, device, said, dtype), row in zip(DEVICES, rows):
        words = shlex.split(row["command"])
        value = dict(zip(words[3::2], words[4::2]))
        check(f"{gpu} {said}", not row["skipped"] and json.loads(value["--cluster"])["device"] == device and value["--dtype"] == dtype)


@seen_elsewhere
def experts_of_megatron(folder):
    """Which framework's prices a mixture of experts gets follows from what its row says of graphs and dispatchers."""
    row = next(row for row in rows_of(RUNS) if row["id"] == "moe-ep")
    cases = [("megatron-core", "", ""), ("megatron-core-graphs", "full_iteration", ""), ("megatron-core-graphs", "local:full_iteration", "hybridep"),
             ("megatron-core", "none:full_iteration", ""), ("megatron-core-flex", "transformer_engine:['attn']", "dispatcher hybridep"),
             ("megatron-core-graphs-overlap", "full_iteration", "moe a2a overlap; dispatcher hybridep"),
             ("megatron-core-flex-overlap", "", "moe a2a overlap; dispatcher deepep"), ("megatron-core-flex", "", "dispatcher deepep"), ("megatron-core", "", "tokendrop; balanced")]
    runs, told = folder / "experts.csv", folder / "told.csv"
    with open(runs, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*row, "cuda_graph"])
        writer.writeheader()
        writer.writerows({**row, "id": f"run-{i}", "framework": "Megatron-Core (Megatron-Bridge)", "cuda_graph": graph, "notes": notes} for i, (_, graph, notes) in enumerate(cases))
    check("mixtures of experts", run("validate", runs, "-o", told).returncode == 0)
    for (framework, graph, notes), row in zip(cases, rows_of(told)):
        words = shlex.split(row["command"])
        check(f"{graph or 'no graph'}, {notes or 'no notes'}", words[words.index("--framework") + 1] == framework and
              all(layer["dropless"] == (not notes.startswith("tokendrop;")) for part in json.loads(words[2])["layers"]
                  for layer in part.get("layers", ()) if layer["kind"] == "moe"))


def frameworks(folder):
    """A row names what ran it as --framework does, or in words of any case; who is not known is told."""
    cases = (("torchtitan-compile", "torchtitan-compile"), ("megatron-core", "megatron-core"), ("DEEPSPEED ZeRO-3", "deepspeed"), ("Megatron-Bridge", "megatron-core"),
             ("accelerate", "accelerate-fsdp2"), ("llm.c", "cleave"), ("", "cleave"), ("typo-xyz", "cleave"))
    runs, told = folder / "frameworks.csv", folder / "frameworks_out.csv"
    write_rows(runs, [{**NEEDED, "framework": word} for word, _ in cases])
    result = run("validate", runs, "-o", told)
    for (word, framework), row in zip(cases, rows_of(told), strict=True):
        check(f"run by {word or 'nobody'}", f" --framework '{framework}' " in row["command"] and
              ("its framework is not known: as cleave" in row["standin"]) == (word == "typo-xyz"))
    write_rows(runs, [{**NEEDED, "family": word} for word in ("llama3", "gpt-xyz", "lama")])
    result_of_families = run("validate", runs, "-o", told)
    check("a family is not known", [bool(row["standin"] and "its family is not known" in row["standin"]) for row in rows_of(told)] == [False, False, True] and
          'note: 1 row names a family that is not known, such as "lama"' in result_of_families.stderr, result_of_families)
    check("one is not known", 'note: 1 row names a framework that is not known, such as "typo-xyz": priced as cleave' in result.stderr, result)


@seen_elsewhere
def attention_of_megatron(folder):
    """Attention that is not fused: of the local implementation, and of functional tests that ask for it. Theirs is the last stage's memory, and of GPUs a node's where the name says so."""
    table, out = folder / "golden.csv", folder / "golden_out.csv"
    plain, cases = rows_of(GOLDEN)[0], [("gpt3_mcore_te_tp2_pp2", "regular", "transformer_engine", 1, "unfused"), ("gpt3_mcore_te_tp2_pp2", "ckpt-resume", "transformer_engine", 1, "te"),
                                        ("gpt3_mcore_te_tp2_pp2_resume_torch", "regular", "transformer_engine", 1, "te"), ("gpt3_mcore_te_tp2_pp2", "regular", "transformer_engine", 2, "te"),
                                        ("gpt3_mcore_te_tp2_pp2_cross_entropy_loss_fusion", "regular", "transformer_engine", 1, "te"), ("gpt3_mcore_tp2_pp2", "ckpt-resume", "local", 1, "unfused"),
                                        ("gpt3_mcore_te_tp2_pp2_1node", "ckpt-resume", "transformer_engine", 1, "te"), ("gpt3_mcore_te_tp2_pp2_multi_dist_optimizer_instances", "ckpt-resume", "transformer_engine", 1, "te")]
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*plain, "test_type", "impl"])
        writer.writeheader()
        for i, (test, kind, impl, context, _) in enumerate(cases):
            writer.writerow({**plain, "id": f"g-{i}", "test": f"gpt/{test}", "test_type": kind, "impl": impl, "cp": context, "gpus_per_node": 8, "n_gpus": 16})
    result = run("validate", table, "-o", out)
    check("validate", result.returncode == 0, result)
    for (test, kind, impl, context, framework), row in zip(cases, rows_of(out)):
        words = shlex.split(row["command"])
        value = dict(zip(words[3::2], words[4::2]))
        fix = dict(pair.split("=") for pair in value["--fix"].split(","))
        node = "1node" in test
        check(f"{test}, {kind}, {impl}, cp {context}", value["--framework"] == f"megatron-lm-{framework}" and not row["skipped"] and
              int(fix["dp"]) == (8 if node else 16) // 4 // context and fix.get("hsdp") == ("2" if "instances" in test else None), row)


@seen_elsewhere
def recomputed_operators(folder):
    """Words for the recomputation of single operators, as frameworks have them."""
    cases = (("selective:layernorm+moe_act", "recompute-except=norm+expert_act", ""), ("selective:core_attn", "recompute-except=core", ""),
             ("selective:mla_up_proj+mlp", "recompute-except=q+k+v+rope_q+join_k+gate+up+act", ""), ("custom:remat save_qkv_proj", "recompute=full,recompute-except=q+k+v", ""),
             ("selective:some_module", "", "recompute selective of single operators as none"))
    table, out = folder / "operators.csv", folder / "operators_out.csv"
    plain = next(row for row in rows_of(RUNS) if row["id"] == "llama-selective")
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(plain))
        writer.writeheader()
        writer.writerows({**plain, "id": f"run-{i}", "recompute": words} for i, (words, _, _) in enumerate(cases))
    check("validate", run("validate", table, "-o", out).returncode == 0)
    for (words, fixed, standin), row in zip(cases, rows_of(out)):
        asked = shlex.split(row["command"])
        check(words, asked[asked.index("--fix") + 1].endswith("sp=true" + fixed.join(("," if fixed else "", ""))) and not row["skipped"] and standin in row["standin"], row)


def families_and_optimizers(folder):
    """What a family's published configuration says beside the columns: Llama 4's mixtures; and who updates the weights."""
    table, out = folder / "families.csv", folder / "families_out.csv"
    mixture = {**NEEDED, "family": "llama4", "ffn_kind": "swiglu", "layers": 4, "heads": 4, "kv_heads": 2, "n_experts": 128, "topk": 1, "moe_ffn": 32, "optimizer": ""}
    rows = [mixture, {**mixture, "n_experts": 16}, {**mixture, "layers": 5}, {**mixture, "moe_layers": 4}, {**mixture, "optimizer": "dist_muon"}, {**mixture, "optimizer": "lion"},
            {**mixture, "optimizer": "fused_adam"}]
    write_rows(table, [{"moe_layers": "", **row, "id": f"run-{i}"} for i, row in enumerate(rows)])
    result = run("validate", table, "-o", out)
    check("no table of what no row has", result.returncode == 0 and "step time, error" in result.stdout and "peak memory" not in result.stdout, result)
    told = rows_of(out)
    kinds = [[(part["repeat"], [layer["kind"] for layer in part["layers"]]) for part in json.loads(shlex.split(row["command"])[2])["layers"] if "repeat" in part]
             for row in told if not row["skipped"]]
    pair = ["attention", "mlp", "attention", "moe"]
    check("of 128 experts every other block has a mixture", kinds[0] == [(2, pair)] and kinds[1] == [(4, pair[2:])])
    check("with a shared expert as wide", all(layer.get("shared_inner", 32) == 32 and layer["inner"] == 32 for part in json.loads(shlex.split(told[0]["command"])[2])["layers"]
                                              for layer in part.get("layers", ()) if layer["kind"] == "moe"))
    check("no such Llama 4", [row["skipped"] for row in told[2:4]] == ["no Llama 4 has these layers"] * 2)
    check("optimizers", [" --optimizer muon " in row["command"] for row in told if not row["skipped"]] == [False, False, True, False, False] and
          [row["standin"] for row in told[5:]] == ["recompute not stated: none; optimizer lion as adamw", "recompute not stated: none"], told)
    asked = told[4]
    check("Muon is priced as estimate has it", float(asked["predicted_step_s"]) == json.loads(run(*shlex.split(asked["command"])[1:]).stdout)["predicted"]["step_s"] !=
          float(told[0]["predicted_step_s"]))


def adapters(folder):
    """Rows of adapters: what is frozen, what it is stored in, and rows that contradict themselves."""
    own = next(r for r in rows_of(RUNS) if r["id"] == "llama-ring")
    asked = {"plain": {"lora_rank": 16, "lora_modules": "q_proj+v_proj+down_proj"}, "four": {"lora_rank": 16, "lora_modules": "q_proj+v_proj+down_proj", "quantized": "nf4"},
             "narrow": {"lora_rank": 16, "lora_modules": "o_proj", "optimizer": "adamw in 16 bit"}, "none": {"lora_rank": 16}, "other": {"lora_rank": 16, "lora_modules": "q_proj+fc1"},
             "trained": {"quantized": "nf4"}, "deepspeed": {"lora_rank": 16, "lora_modules": "q_proj", "framework": "DeepSpeed", "lora_dropout": 0.1}, "rankless": {"lora_modules": "q_proj"}, "nowhere": {"lora_rank": 16, "lora_modules": "q_proj", "quantized": "nf5"}}
    rows = folder / "rows.csv"
    write_rows(rows, [{"lora_rank": "", "lora_modules": "", "lora_dropout": "", "quantized": "", "optimizer": "", **own, "id": name, "cp": 1, "dp": 16, "framework": "accelerate", **words} for name, words in asked.items()])
    told = {r["id"]: r for r in csv.DictReader(io.StringIO(run("validate", rows, "-o", "-").stdout))}
    for name, forms, trained, bits in (("plain", set(), {"q_proj", "v_proj", "down_proj"}, False), ("four", {"nf4"}, {"q_proj", "v_proj", "down_proj"}, False), ("narrow", set(), {"o_proj"}, True)):
        command = shlex.split(told[name]["command"])
        model = json.loads(command[2])
        layers = [layer for one in model["layers"] for layer in one.get("layers", [one])]
        check(f"adapters of {name}", all(layer.get("frozen") for layer in layers if layer["kind"] != "loss") and {form for layer in layers if (form := layer.get("quantized"))} == forms and
              {module for layer in layers for module in layer.get("target_modules", [])} == trained and ("--moments bf16 --master-weights none --gradient-dtype bf16" in told[name]["command"]) == bits, run(*command[1:]))
        check(f"a prediction of {name}", float(told[name]["predicted_step_s"]) > 0 and not told[name]["skipped"])
    check("DeepSpeed trains adapters under transformers", "deepspeed-transformers" in told["deepspeed"]["command"])
    check("fewer bytes", int(told["four"]["predicted_peak_bytes"]) < int(told["plain"]["predicted_peak_bytes"]) and float(told["four"]["predicted_step_s"]) > float(told["plain"]["predicted_step_s"]))
    for name, words in (("none", "lora_modules: 0 of its 0 names, which + joins"), ("other", "lora_modules: 1 of its 2 names, which + joins"), ("trained", "quantized without lora_rank"), ("rankless", "lora_modules without lora_rank"),
                        ("nowhere", "nf4-double")):
        check(f"{name}: {words}", words in told[name]["skipped"], run("validate", rows))


def by_column(folder):
    """Errors by other columns, of the table or of the file alone."""
    for column, groups in (("framework", {"Megatron-DeepSpeed", "DeepSpeed ZeRO-3", "Megatron-Core", "torchtitan FSDP2"}), ("n_gpus", {"4", "8", "12", "16", "144"}),
                           ("dtype", {"(blank)", "bf16", "mxfp8", "nvfp4"})):
        report = json.loads(run("validate", RUNS, "--by", column, "--json").stdout)
        check(f"--by {column}", set(report["summary"]) == groups and report["by"] == column)
    own = folder / "own.csv"
    as_torchtitan = folder / "torchtitan.csv"
    check("--framework", run("validate", RUNS, "--framework", "torchtitan", "-o", as_torchtitan).returncode == 0)
    rows = [row for row in rows_of(as_torchtitan) if not row["skipped"]]
    check("all rows as run by it", len(rows) > 9 and all(" --framework 'torchtitan' " in row["command"] for row in rows))
    one = next(row for row in rows if row["id"] == "gpt-tp")
    check("and predicted so", float(one["predicted_step_s"]) == json.loads(run(*shlex.split(one["command"])[1:]).stdout)["predicted"]["step_s"] >
          next(row["predicted_step_s"] for row in json.loads(run("validate", RUNS, "--framework", "cleave", "--json").stdout)["rows"] if row["id"] == "gpt-tp"))
    expect("no such framework", 2, "neither a file nor a framework of the catalogue; did you mean torchtitan", "validate", RUNS, "--framework", "torchtitn")
    write_rows(own, [NEEDED, NEEDED])
    report = json.loads(run("validate", own, "--json").stdout)
    check("few columns are enough", report["summary"]["own"]["rows"] == 2 and report["total"]["rows"] == 2 and
          report["rows"][0]["predicted_step_s"] == report["rows"][1]["predicted_step_s"] > 0)
    check("a limit that no row reaches changes nothing", run("validate", RUNS, "--json", "--time-limit", 1000, "--jobs", 3).stdout == run("validate", RUNS, "--json").stdout)
    late = json.loads(run("validate", RUNS, "--json", "--time-limit", 1e-6).stdout)
    check("rows that take longer are skipped", any(skip["reason"] == "its prediction took longer than the time limit" for skip in late["skipped"]) and
          late["total"]["rows"] < 14)
    check("predictions alone", run("validate", own, "-o", "-").stdout.startswith("file,id,source_key,predicted_step_s,"))
    check("from standard input", run("validate", "-", stdin=own.read_text()).returncode == 0)
    for schema, path in (("measurements", RUNS), ("measurements.golden", GOLDEN)):
        required = json.loads(run("schema", schema, "--json").stdout)["schemas"][0]["required"]
        check(f"{schema}: what is required is there", len(required) > 8 and set(required) <= set(rows_of(path)[0]))


def refused(folder):
    """Files that are not such tables say what is wrong, and where."""
    bad = folder / "bad.csv"
    lines = RUNS.read_text(encoding="utf-8").splitlines()
    names = next(csv.reader(io.StringIO(lines[0])))
    first = dict(zip(names, next(csv.reader(io.StringIO(lines[1])))))

    def write(**changes):
        with open(bad, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([names, list({**first, **changes}.values())])
        return "validate", bad
    column = len(",".join(lines[1].split(",")[:names.index("layers")])) + 2
    expect("a word for a number", 2, rf"bad.csv:2:{column}: layers: expected a whole number from 1 to 1000000000 or nothing, found 'four'", *write(layers="four"))
    expect("a half layer", 2, "layers: expected a whole number", *write(layers="4.5"))
    expect("no sequences", 2, "micro_batch: expected a whole number from 1", *write(micro_batch="0"))
    expect("ZeRO 4", 2, "zero_stage: expected a whole number from 0 to 3", *write(zero_stage="4"))
    expect("perhaps", 2, "seq_par: expected yes, no or nothing, found 'perhaps'", *write(seq_par="perhaps"))
    expect("time runs back", 2, "step_time_s: expected a number of 0 or more", *write(step_time_s="-1"))
    expect("an unknown block", 0, "no feed-forward block of kind relu", *write(ffn_kind="relu"))
    latent = run(*write(family="deepseek-v3"), "-o", "-").stdout
    check("latent attention is asked for", '"kind"": ""latent_attention' in latent or '"latent_attention"' in latent)
    bad.write_text(lines[0] + "\n" + lines[1].rsplit(",", 1)[0] + "\n")
    expect("a field too few", 2, f"bad.csv:2: expected {len(names)} fields, as many as the first line names, found {len(names) - 1}", "validate", bad)
    bad.write_text(lines[0].replace("layers", "layer", 1) + "\n")
    expect("a column by another name", 2, r"bad.csv:1: expected a column layers \(.*\), found none; is it layer\?; cleave schema measurements", "validate", bad)
    bad.write_text('id,"open\n1,2\n')
    expect("an open quote", 2, "bad.csv:1:4: expected a quote that closes this one", "validate", bad)
    bad.write_text("")
    expect("nothing", 2, "bad.csv:1:1: expected a line with the names of the columns", "validate", bad)
    expect("no such file", 2, "none.csv", "validate", folder / "none.csv")
    expect("no such column", 2, r"--by: expected a column of \S+, found 'framwork'; did you mean framework\?", "validate", RUNS, "--by", "framwork")
    expect("nowhere to write", 1, "x.csv: cannot write", "validate", RUNS, "-o", folder / "none" / "x.csv")


main(predictions, devices, experts_of_megatron, frameworks, attention_of_megatron, recomputed_operators, families_and_optimizers, adapters, by_column, refused)
