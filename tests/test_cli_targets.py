#!/usr/bin/env python3
"""plan --target, export and estimate --from: what is exported is read back to the same decisions, at the same price.

usage: test_cli_targets.py CLEAVE SOURCE_ROOT
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

CLEAVE, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
failures = 0


def check(what, good, shown=""):
    global failures
    if not good:
        failures += 1
        print(f"FAIL {what}: {shown}")


def cleave(*words, cwd=None):
    done = subprocess.run([os.path.abspath(CLEAVE), *map(str, words)], capture_output=True, text=True, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


LAUNCH = {"megatron-lm": "train.sh", "megatron-bridge": "recipe.py", "torchtitan": "train.sh", "accelerate-fsdp2": "train.sh",
          "deepspeed": "train.sh", "nnscaler": "train.sh"}
JOBS = [("llama-3-8b", "2x8:h100-sxm", 64, 4096), ("llama-2-7b", "1x8:a100-sxm-80", 32, 2048), ("mixtral-8x7b", "8x8:h100-sxm", 128, 4096)]


def same(a, b):
    """Decisions, without how a run of layers is told."""
    return all(a.get(key) == b.get(key) for key in set(a) | set(b))


def round_trip(folder, target, model, cluster, batch, sequence):
    plan, again, launch = folder / "plan.json", folder / "again.json", folder / "launch"
    job = f"{target} {model} {cluster}"
    code, out, err = cleave("plan", model, "--cluster", cluster, "--batch", batch, "--seq", sequence, "--target", target, "-o", plan,
                            "--launch", folder / "own")
    if code != 0:  # what a target cannot be told, or what does not fit, is refused by a reason
        check(f"{job}: plan", code in (2, 3) and "error: " in err, (code, err))
        return 0
    check(f"{job}: cost of the limits", "its limits cost" in out, out)
    code, out, err = cleave("export", plan, "--to", target, "-o", launch)
    check(f"{job}: export", code == 0, err)
    if code != 0:
        return 0
    written = {file.name: file.read_bytes() for file in launch.iterdir()} if launch.is_dir() else {}
    check(f"{job}: plan --launch", written and written == {file.name: file.read_bytes() for file in (folder / "own").iterdir()}, written.keys())
    check(f"{job}: files", (launch / "README.md").exists() and (launch / LAUNCH[target]).exists(), out)
    code, out, err = cleave("estimate", "--from", target, launch / LAUNCH[target], "--model", model, "--cluster", cluster, "--batch", batch,
                            "--seq", sequence, "-o", again)
    check(f"{job}: estimate --from", code == 0, err)
    if code != 0:
        return 0
    first, second = (json.loads(path.read_text()) for path in (plan, again))
    check(f"{job}: decisions", same(first["decisions"], second["decisions"]), (first["decisions"], second["decisions"]))
    a, b = (plan["predicted"]["step_s"] for plan in (first, second))
    check(f"{job}: price", abs(a - b) <= 0.01 * a, (a, b))
    if model == JOBS[1][0]:
        fed_back(launch, model, a)
    if model == JOBS[1][0] and target in (SCHEDULES if SHARE <= 5 else {"deepspeed"}):  # the others' lines are the same
        explained(plan, target, model, cluster, batch, sequence)
    if target == "megatron-lm":
        compared(plan, f"{target}={launch / LAUNCH[target]}", b)
    return 1


SHARE = int(os.environ.get("CLEAVE_TEST_SHARE", "1"))
SCHEDULES = {"megatron-lm": {"1f1b", "interleaved"}, "deepspeed": {"1f1b"}, "accelerate-fsdp2": {"1f1b"}}


def explained(plan, target, model, cluster, batch, sequence):
    """Other plans than one for a target are those that it can be told: it plans them by itself when their degrees are named."""
    code, out, err = cleave("explain", plan, "--part", "alternatives", "--json")
    told = json.loads(out) if code == 0 else {}
    check(f"{target}: explain", code == 0 and told["target"] == target and "note: " not in err, (code, err))
    others = [a["plan"] for a in told.get("alternatives", []) if a["kind"] and a.get("plan")]
    check(f"{target}: other plans", others, out)
    for other in others:
        line = other["line"]
        check(f"{target}: all blocks are treated alike", sum(count > 0 for count in other["zero"]) == 1, line)
        check(f"{target}: its schedules", other["pp"] == 1 or other["schedule"] in SCHEDULES[target], line)
    for line, other in list({other["line"]: other for other in others}.items())[:2]:
        degrees = ",".join(f"{key}={other[name]}" for key, name in (("pp", "pp"), ("tp", "tp"), ("cp", "cp"), ("micro-batch", "micro_batch")))
        zero = next(stage for stage, count in enumerate(other["zero"]) if count)
        code, _, err = cleave("plan", model, "--cluster", cluster, "--batch", batch, "--seq", sequence, "--target", target, "--fix", degrees,
                              "--fix", f"zero={zero},schedule={other['schedule']}")
        check(f"{target}: {line}", code == 0, err)
    code, out, _ = cleave("explain", plan, "--part", "versus", "--versus", "schedule=zb-v,pp=2" if target == "megatron-lm" else
                          "schedule=gpipe,pp=2" if SHARE <= 5 else "schedule=gpipe,pp=2,tp=1,zero=0,micro-batch=1")
    check(f"{target}: what it cannot be told has no plan", code == 0 and "impossible: " in out and "can be told; any others: --target none" in out, out)
    code, out, err = cleave("explain", plan, "--part", "versus", "--target", "none")
    check(f"{target}: of any", code == 0 and "can be told" not in out, (code, err))
    code, _, err = cleave("explain", plan, "--target", "nnscaler")
    check(f"{target}: another's", code == 2 and f"made for {target}" in err, err)


def fed_back(folder, model, step_s):
    """The command that the launch's README has for its log: the job that it prices is the one that was planned."""
    words = next(line.split() for line in (folder / "README.md").read_text().splitlines() if line.startswith("    cleave calibrate "))
    log = folder / words[words.index("--log") + 1]
    log.write_text(f" iteration 9/ 50 | elapsed time per iteration (ms): {1100 * step_s:.1f} | global batch size: 32 |\n")
    code, out, err = cleave(*(model if word == "MODEL" else word for word in words[1:]), "--json", cwd=folder)
    told = json.loads(out) if code == 0 else {}
    check(f"{folder}: calibrate", code == 0 and abs(told["before"]["mape"] - 0.1 / 1.1) < 0.01 and told["after"]["mape"] < 0.02, (code, out, err))


def compared(plan, launch, step_s):
    """The launch beside the plan that it came from: all that it leaves open is the plan's, and so is the price."""
    code, out, err = cleave("compare", plan, "--from", launch, "--json")
    check("compare --from", code == 0, err)
    if code == 0:
        own, read = json.loads(out)["plans"]
        check("a launch is a row", read["plan_file"]["decisions"] and abs(read["predicted_step_s"] - step_s) <= 1e-6 * step_s and
              abs(own["predicted_step_s"] - step_s) <= 0.01 * step_s, (own["predicted_step_s"], read["predicted_step_s"], step_s))
    for words, why in ((launch.partition("=")[2], "expected TARGET=FILE"), (launch.replace("megatron-lm", "megatrn"), "megatron-lm"), ("megatron-lm=no-such-file", "no-such-file")):
        code, _, err = cleave("compare", plan, "--from", words)
        check(f"compare --from {words}", code == 2 and why in err, err)


STRATEGY = {"pp_deg": 2, "tp_sizes_enc": "2,2", "tp_consecutive_flags": "1,1", "dp_types_enc": "0,1", "use_sp": "0,0", "checkpoint": "1,0",
            "global_bsz": 16, "chunks": 4, "pp_division": "1,1", "pipeline_type": "gpipe", "default_dp_type": "zero2", "vtp": 1, "vsp": 0}
EXECUTION = {"num_procs": 8, "tensor_par": 2, "pipeline_par": 2, "data_par": 2, "batch_size": 16, "microbatch_size": 2, "datatype": "float32",
             "activation_recompute": "full", "optimizer_sharding": True, "tensor_par_comm_type": "rs_ag", "tensor_par_overlap": "none"}


def several_nodes(folder):
    """Without Slurm start.sh runs train.sh on each node of the hostfile, in its order, whose names the user has put there."""
    launch, hosts, tools = folder / "launch", folder / "launch" / "hostfile", folder / "tools"
    job = ("plan", "tiny-llama", "--cluster", "2x2:h100-sxm", "--batch", 8, "--target", "megatron-lm", "--fix", "pp=2", "--launch", launch)
    code, out, err = cleave(*job)
    check("a hostfile and its ranks", code == 0 and f"{hosts}\n" in out and [line for line in hosts.read_text().splitlines() if "(" not in line][1:] ==
          ["# ranks 0 to 1: stage 0", "node-0 slots=2", "# ranks 2 to 3: stage 1", "node-1 slots=2"], (out, err))
    mixed = folder / "mixed"
    code, _, err = cleave("plan", "tiny-llama", "--cluster", "1x2:a100-sxm-80+1x2:h100-sxm", "--batch", 8, "--target", "megatron-lm", "--fix", "pp=2",
                          "--launch", mixed)
    check("which node has which devices", code == 0 and [line for line in (mixed / "hostfile").read_text().splitlines() if line.startswith("# ranks")] ==
          ["# ranks 0 to 1: stage 0, which must be on a100-sxm-80", "# ranks 2 to 3: stage 1, which must be on h100-sxm"] and
          "a100" not in (mixed / "train.sh").read_text(), err)
    hosts.write_text("# mine\n\nhead slots=2\n  worker slots=2\n")
    check("which is kept", cleave(*job)[0] == 0 and hosts.read_text().startswith("# mine"), None)
    tools.mkdir()
    (tools / "ssh").write_text("#!/bin/sh\nshift\necho \"$@\"\n[ \"$1\" != bad ]\n")
    (tools / "ssh").chmod(0o755)
    def start(**more):
        done = subprocess.run([launch / "start.sh", "--x", "a b"], env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "MODEL": "m n", **more},
                              capture_output=True, text=True, check=False)
        return done.returncode, sorted(done.stdout.splitlines()), done.stderr
    code, said, err = start()
    check("each node has its rank", code == 0 and len(said) == 2 and said[1].startswith("worker cd ") and
          all(f" && NODE_RANK={i} NNODES=2 MASTER_ADDR=head " in said[i] and r"MODEL=m\ n ./train.sh --x a\ b" in said[i] for i in range(2)), (said, err))
    (folder / "short").write_text("head\n")
    check("a hostfile of too few", start(HOSTFILE=str(folder / "short"))[0] == 2)
    (folder / "bad").write_text("head\nbad\n")
    check("a node that fails", start(HOSTFILE=str(folder / "bad"))[0] == 1)


def others_tools(folder):
    """What Galvatron and calculon decided is priced as they decided it."""
    def decided(tool, what, *more):
        path, plan = folder / f"{tool}.json", folder / "plan.json"
        path.write_text(json.dumps(what))
        code, out, err = cleave("estimate", "--from", tool, path, "--model", "tiny-gpt", "--cluster", "1x8:cpu", "-o", plan, *more)
        return code, out + err, json.loads(plan.read_text())["decisions"] if code == 0 else {}

    code, said, plan = decided("galvatron", STRATEGY)
    layers = [layer for stage in plan.get("stages", []) for layer in stage.get("layers", [])]
    check("galvatron", code == 0 and "gpipe" in said and "4 micro-batches of 4 sequences" in said, said)
    check("galvatron: what it does otherwise", "not understood: vtp = 1, vsp = 0" in said, said)
    check("galvatron: block by block", "block" in said and "ZeRO 3  recompute none" in said and "ZeRO 2  recompute block" in said, (said, layers))
    code, said, _ = decided("galvatron", {**STRATEGY, "pp_deg": 1, "pp_division": "3", "tp_sizes_enc": "2,2,2", **{key: "1,1,1" for key in
                            ("tp_consecutive_flags", "dp_types_enc", "use_sp", "checkpoint")}})
    check("galvatron: another model's", code == 2 and "for a model of 3 blocks, this one has 2" in said, said)
    code, said, _ = decided("galvatron", {**STRATEGY, "global_bsz": 18})
    check("galvatron: a batch", code == 2 and "expected a multiple of 2 data-parallel ranks x 4 micro-batches" in said, said)
    code, said, _ = decided("calculon", EXECUTION)
    check("calculon", code == 0 and "pp 2, dp 2, tp+sp 2" in said and "4 micro-batches of 4 sequences" in said and "ZeRO 1" in said, said)
    code, said, _ = decided("calculon", {**EXECUTION, "num_procs": 16})
    check("calculon: a contradiction", code == 2 and "are not the 16 of num_procs" in said, said)
    code, said, _ = decided("calculon", {**EXECUTION, "num_procs": 4, "data_par": 1, "optimizer_sharding": False}, "--cluster", "1x4:cpu")
    check("no replica is left for a change", code == 0 and "one change that shortens it" in said, (code, said))
    path = folder / "calculon.json"
    code, out, err = cleave("estimate", "--from", "calculon", path, "--model", "tiny-gpt", "--cluster", "1x4:cpu", "--json")
    told = json.loads(out)["launch"] if code == 0 else {}
    steps = [change["step_s"] for change in told.get("changes", [])]
    check("changes in JSON", told.get("target") == "calculon" and steps and steps == sorted(steps) and told["changes_tried"] >= len(steps), err)
    (folder / "read.json").write_text(out)
    check("whose plan is read again", cleave("show", folder / "read.json")[0] == 0, out)
    large = ("--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --vocab-size 50257 "
             "--bf16 --micro-batch-size 4")
    code, out, err = cleave("estimate", "--from", "megatron", f"--micro-batch-size=4 {large} --global-batch-size 64", "--cluster", "1x8:h100-sxm")
    check("what makes it fit is farther away", code == 3 and "one change that makes it fit:\n  tp 4 in place of 1: " in out, (code, out, err))
    code, out, err = cleave("estimate", "--from", "megatron", f"--micro-batch-size=4 {large} --global-batch-size 8", "--cluster", "1x2:h100-sxm")
    check("two changes make it fit", code == 3 and "two changes that make it fit:\n  " in out and "no single" not in out, (code, out, err))
    code, out, err = cleave("estimate", "--from", "megatron", f"{large} --global-batch-size 4", "--cluster", "1x1:l40s")
    check("nothing makes it fit", code == 3 and "several at once: cleave plan MODEL --target megatron-lm" in out, (code, out, err))
    for words in (("--tp", 4), ("--zero", 3), ("--sp",), ("--fix", "pp=1"), ("--stages", "1,1"), ("--ep-over", "tensor"), ("--micro-batch", 1)):
        code, said, _ = decided("calculon", EXECUTION, *words)
        check(f"{words[0]} beside a launch", code == 2 and f"{words[0]}: the launch says it" in said, (code, said))
    code, said, _ = decided("calculn", EXECUTION)
    check("a source's name", code == 2 and "galvatron, calculon; found 'calculn'" in said, said)


FSDP = "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"


def files_beside(folder):
    """A script's configuration is read where it lies; what the script says goes over it, and what neither says is the user's."""
    def told(target, file, *more):
        code, out, err = cleave("estimate", "--from", target, folder / file, "--model", "tiny-gpt", "--cluster", "1x8:h100-sxm", *more)
        return code, out + err

    (folder / "fsdp.yaml").write_text(FSDP)
    (folder / "run.sh").write_text("accelerate launch --config_file fsdp.yaml train.py --per_device_train_batch_size 2 --max_length 32 --bf16 true\n")
    code, said = told("accelerate", "run.sh")
    check("a script and its YAML", code == 0 and "dp 8, ZeRO 3" in said and "batch 16 sequences of 32" in said, (code, said))
    code, said = told("accelerate", "fsdp.yaml", "--batch", 32, "--micro-batch", 2)
    check("a micro-batch that nothing says", code == 0 and "2 micro-batches of 2 per replica" in said, (code, said))
    (folder / "ds.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
                                                "zero_optimization": {"stage": 2}}))
    (folder / "ds.yaml").write_text("distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n")
    (folder / "run.sh").write_text("accelerate launch --config_file ds.yaml train.py --per_device_train_batch_size 4 --max_length 32 --bf16 true\n")
    code, said = told("deepspeed", "run.sh")
    check("a script, its YAML and its JSON", code == 0 and "dp 8, ZeRO 2" in said and "batch 32 sequences of 32" in said, (code, said))
    (folder / "ds.json").write_text(json.dumps({"gradient_accumulation_steps": 4, "train_batch_size": 64}))
    code, said = told("deepspeed", "ds.json")
    check("micro-batches of the accumulation", code == 0 and "4 micro-batches of 2 per replica" in said, (code, said))
    code, said = told("deepspeed", "ds.json", "--micro-batch", 1)
    check("a micro-batch beside the accumulation", code == 2 and "expected micro-batches of 1 x gradient_accumulation_steps 4" in said, (code, said))
    (folder / "ds.yaml").write_text("deepspeed_config_file: ds.yaml\n")
    code, said = told("deepspeed", "run.sh")
    check("files that name each other", code == 2 and "expected at most 8 files that name each other" in said, (code, said))
    (folder / "run.sh").write_text("deepspeed --num_gpus 8 train.py --deepspeed --deepspeed_config none.json\n")
    code, said = told("deepspeed", "run.sh")
    check("a configuration that is not there", code == 2 and "none.json" in said, (code, said))
    (folder / "secret.json").write_text('{"zero_optimization": {"stage": "SECRET"}}')
    (folder / "sent").mkdir()
    (folder / "sent/run.sh").write_text("deepspeed train.py --deepspeed ../secret.json\n")
    code, said = told("deepspeed", "sent/run.sh")
    check("what lies elsewhere is not quoted", code == 2 and "sent/../secret.json, which is not in its folder" in said and "SECRET" not in said, (code, said))
    (folder / "titan.toml").write_text('[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 1024\n')
    options = f"--job.config_file {folder / 'titan.toml'} --training.local_batch_size 2"
    code, out, err = cleave("estimate", "--from", "torchtitan", options, "--cluster", "1x8:h100-sxm")
    check("options over a configuration", code == 0 and "batch 16 sequences of 1024" in out, (code, out, err))
    prices = []
    for compiled in ("true", "false"):
        (folder / "titan.toml").write_text('[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 1024\n'
                                           f'[compile]\nenable = {compiled}\n')
        code, out, err = cleave("estimate", "--from", "torchtitan", folder / "titan.toml", "--cluster", "1x8:h100-sxm")
        prices.append((code, "torchtitan-compile" in out))
    check("what is not compiled is priced as such", prices == [(0, True), (0, False)], prices)
    for target in ("megatron-lm", "megatron-bridge", "torchtitan", "deepspeed", "accelerate-fsdp2", "nnscaler"):
        code, out, err = cleave("plan", "llama-3-8b", "--cluster", "1x8:h100-sxm+1x6:h100-sxm", "--batch", 56, "--seq", 1024, "--target", target)
        check(f"nodes of several sizes, {target}", code == 2 and "rule nodes requires that all nodes have as many devices" in err, (code, err))


DEEPSEEK = {"model_type": "deepseek_v3", "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 8,
            "vocab_size": 16000, "intermediate_size": 1024, "q_lora_rank": 64, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
            "qk_rope_head_dim": 16, "v_head_dim": 32, "first_k_dense_replace": 1, "n_routed_experts": 16, "num_experts_per_tok": 4,
            "n_group": 4, "topk_group": 2, "n_shared_experts": 1, "moe_intermediate_size": 256, "max_position_embeddings": 2048,
            "rope_theta": 10000, "rms_norm_eps": 1e-6, "hidden_act": "silu", "scoring_func": "sigmoid", "topk_method": "noaux_tc",
            "tie_word_embeddings": False, "num_nextn_predict_layers": 1}


def there_and_back(folder, what, target, model, cluster, *more):
    """The text of the launch; its reader's plan is the one that was exported."""
    plan, again = folder / "plan.json", folder / "again.json"
    code, out, err = cleave("plan", model, "--cluster", cluster, "--batch", 64, "--seq", 2048, "--target", target, "-o", plan, "--launch",
                            folder / target, *more)
    check(f"{what}: plan", code == 0, err)
    if code != 0:
        return ""
    launch = folder / target / LAUNCH[target]
    code, out, err = cleave("estimate", "--from", target, launch, "--cluster", cluster, "-o", again)
    check(f"{what}: estimate --from", code == 0 and "not understood" not in err, err)
    first, second = (json.loads(path.read_text())["decisions"] if path.exists() else {} for path in (plan, again))
    check(f"{what}: decisions", same(first, second), (first, second))
    return launch.read_text()


def further_tokens(folder):
    """DeepSeek-V3's module for a further token goes from config.json to a launch and back; others refuse it by name."""
    (folder / "config.json").write_text(json.dumps(DEEPSEEK))
    model = folder / "model.json"
    code, _, err = cleave("import", folder / "config.json", "--mtp", "-o", model)
    check("import --mtp", code == 0, err)
    for target, words in (("megatron-lm", ("--mtp-num-layers 1\n", "mL'\n", "--moe-layer-freq '([0]*1+[1]*5)'")),
                          ("megatron-bridge", ("cfg.model.mtp_num_layers = 1\n", 'mL"\n', "moe_layer_freq"))):
        text = there_and_back(folder, f"mtp: {target}", target, model, "1x8:h100-sxm", "--fix", "pp=2" if SHARE <= 8 else "pp=2,tp=2,micro-batch=1")
        check(f"mtp: {target}", all(word in text for word in words), text)
    for target in ("deepspeed", "accelerate-fsdp2"):
        code, _, err = cleave("plan", model, "--cluster", "1x8:h100-sxm", "--batch", 64, "--target", target)
        check(f"mtp: {target}", code in (2, 3) and "predicts one token" in err, (code, err))


def whole_experts(folder):
    """An expert tensor degree of 1: experts over tensor, context and data ranks, there and back; other degrees are said."""
    (folder / "config.json").write_text(json.dumps(DEEPSEEK))
    model = folder / "config.json"
    for fixed, words in (("tp=2,sp=true,cp=1,ep=4,ep-over=tensor", ("--expert-tensor-parallel-size 1\n", "--expert-model-parallel-size 4\n")),
                         ("tp=2,sp=true,cp=2,ep=8,ep-over=tensor", ("--expert-tensor-parallel-size 1\n", "--context-parallel-size 2\n")),
                         ("tp=2,sp=true,cp=1,ep=2,ep-over=context", ("--expert-tensor-parallel-size 2\n",))):
        text = there_and_back(folder, f"etp: {fixed}", "megatron-lm", model, "1x8:h100-sxm", "--fix", f"pp=1,{fixed}")
        check(f"etp: {fixed}", all(word in text for word in words), text)
    code, _, err = cleave("estimate", "--from", "megatron-lm", text.replace("--expert-model-parallel-size 2", "--expert-model-parallel-size 3"),
                          "--cluster", "1x8:h100-sxm")
    check("etp: a part of the experts", code == 2 and "ep-divides-experts" in err, err)


def adapted(folder):
    """Adapters are put on by the script that trains; who cannot be told them, or what is frozen otherwise, is refused."""
    job = ("--cluster", "1x8:h100-sxm", "--batch", 64, "--seq", 2048)
    for target in ("accelerate", "deepspeed"):
        code, _, err = cleave("plan", "llama-2-7b-lora", *job, "--target", target, "--launch", folder / target)
        script = (folder / target / "train.py").read_text() if code == 0 else err
        compile(script, "train.py", "exec")
        check(f"{target}: adapters", all(words in script for words in ("r=8,", "lora_alpha=16,", '["q_proj", "v_proj"]', "get_peft_model(",
                                                                              'adapter_kwargs={"subfolder"', "key_mapping={")), script)
        code, _, err = cleave("plan", "llama-2-7b", *job, "--target", target, "--launch", folder / "all")
        script = (folder / "all" / "train.py").read_text() if code == 0 else err
        check(f"{target}: all weights", "key_mapping={" in script and "peft" not in script and "adapter_kwargs" not in script, script)
    code, out, err = cleave("estimate", "llama-3-8b", "--cluster", "1x8:a100-sxm-80", "--batch", 64, "--seq", 4096, "--zero", 3, "--framework",
                            "deepspeed-transformers", "--json")
    peak = json.loads(out)["predicted"]["peak_bytes"][0] / 2**30 if code == 0 else 0
    check("deepspeed: attention keeps no scores in the Trainer's models", code == 0 and 35 < peak < 50, (peak, err))
    model = json.loads((ROOT / "models/zoo/llama-2-7b.json").read_text())
    model["layers"][0]["frozen"] = True
    (folder / "embedding.json").write_text(json.dumps(model))
    refused = [(target, "llama-2-7b-lora") for target in ("megatron-lm", "torchtitan", "nnscaler")]
    for target, model in refused + [(target, folder / "embedding.json") for target in LAUNCH]:
        code, _, err = cleave("plan", model, *job, "--target", target)
        check(f"{target}: {model}", code == 2 and ("rule model requires that " in err), (code, err))
        check(f"{target}: {model}: who takes it", ("; the model is one for --target accelerate-fsdp2, deepspeed" in err) == (model == "llama-2-7b-lora"), (code, err))


def of_others(folder):
    """A script builds causal models: encoders, those with a decoder, classifiers and images are refused before anything is written."""
    for target in ("accelerate", "deepspeed", "nnscaler", "megatron-lm", "torchtitan"):
        for model, kind, words in (("bert-large", "an encoder, whose attention is not causal", ("--seq", 512)), ("t5-small", "an encoder with a decoder", ("--seq", 512)), ("vit-base-16", "a model of images", ())):
            code, out, err = cleave("plan", model, "--cluster", "1x8:h100-sxm", "--batch", 64, *words, "--target", target)
            check(f"{target}: {model}", code == 2 and out == "" and "rule model requires that the model is a causal decoder of tokens" in err and f"found: {kind} (" in err, (code, out, err))
        if target in ("megatron-lm", "torchtitan"):
            continue
        code, _, err = cleave("plan", "gpt2", "--cluster", "1x8:h100-sxm", "--batch", 64, "--target", target)
        check(f"{target}: gpt2", code == 0, err)
    capped = {"model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16,
              "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000, "max_position_embeddings": 8192, "sliding_window": 4096,
              "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6,
              "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True}
    (folder / "capped.json").write_text(json.dumps(capped))
    code, _, err = cleave("plan", folder / "capped.json", "--cluster", "1x8:h100-sxm", "--batch", 32, "--seq", 4096, "--fix", "cp=2",
                          "--target", "deepspeed")
    check("soft caps beside context parallelism", code == 2 and "rule ulysses-attention requires that " in err, (code, err))


def not_priced(folder):
    """What a launch says that would change its price, and that is not priced, is among what is not understood; what is usual is not."""
    megatron = ("--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 "
                "--micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer ")
    for words in ("--attention-backend unfused", "--transformer-impl=local"):
        price = json.loads(cleave("estimate", "--from", "megatron-lm", megatron + words, "--cluster", "1x8:h100-sxm", "--json")[1])
        fused = json.loads(cleave("estimate", "--from", "megatron-lm", megatron, "--cluster", "1x8:h100-sxm", "--json")[1])
        check(f"scores that are kept are priced: {words}", price["context"]["framework"]["name"] == "megatron-lm-unfused" and
              max(price["predicted"]["peak_bytes"]) > 1.05 * max(fused["predicted"]["peak_bytes"]), price["predicted"])
        (folder / "unfused.json").write_text(json.dumps(price))
        written = cleave("export", folder / "unfused.json", "--to", "megatron-lm", "-o", folder / "unfused")
        again = json.loads(cleave("estimate", "--from", "megatron-lm", folder / "unfused/train.sh", "--cluster", "1x8:h100-sxm", "--json")[1])
        check(f"and are written and read back: {words}", again["context"]["framework"] == price["context"]["framework"] and
              same(again["decisions"], price["decisions"]), written)
    for words, unknown in (("--no-gradient-accumulation-fusion --no-masked-softmax-fusion", "--no-gradient-accumulation-fusion\n"),
                           ("--no-bias-swiglu-fusion", "--no-bias-swiglu-fusion"), ("--nccl-ub", "--nccl-ub"),
                           ("--hidden-dropout 0.1 --attention-dropout 0.0", "--hidden-dropout 0.1\n"), ("--use-tp-pp-dp-mapping", "--use-tp-pp-dp-mapping"),
                           ("--num-experts 8 --expert-model-parallel-size 8 --moe-token-dispatcher-type flex", "--moe-token-dispatcher-type flex (alltoall is priced"),
                           ("--num-experts 8 --moe-expert-capacity-factor 1.25", "--moe-expert-capacity-factor (without --moe-pad-expert-input-to-capacity"),
                           ("--num-experts 8 --moe-expert-capacity-factor 1.25 --moe-pad-expert-input-to-capacity", None),
                           ("--cuda-graph-impl local --cuda-graph-scope full_iteration", "--cuda-graph-impl local (priced without graphs, but where cleave estimate has"),
                           ("--cuda-graph-impl transformer_engine --cuda-graph-scope attn mlp", "--cuda-graph-impl transformer_engine (priced without graphs: "),
                           ("--num-experts 8 --expert-model-parallel-size 8 --moe-token-dispatcher-type alltoall --overlap-moe-expert-parallel-comm", "--overlap-moe-expert-parallel-comm (priced without"),
                           ("--data-parallel-sharding-strategy optim_grads_params", "--data-parallel-sharding-strategy optim_grads_params"),
                           ("--attention-backend flash --transformer-impl transformer_engine", None)):
        code, out, err = cleave("estimate", "--from", "megatron-lm", megatron + words, "--cluster", "1x8:h100-sxm")
        check(f"not priced: {words}", code == 0 and (f"not understood: {unknown}" in out + err if unknown else "not understood" not in out + err), (out, err))
    titan = "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b --training.disable_cuda_graphs --parallelism.pipeline_parallel_degree 2 --training.local_batch_size 2 --training.global_batch_size"
    for batch in (8, 32):
        code, out, err = cleave("estimate", "--from", "torchtitan", f"{titan} {batch}", "--cluster", "1x8:h100-sxm")
        check(f"a pipeline that fills more than once: {batch}", ("fills and drains 4 times in a step" in out + err) == (batch == 32) and code in (0, 3), (out, err))
    code, _, err = cleave("estimate", "--from", "megatron-bridge", "cfg = llama3_8b_pretrain_config(tensor_model_parallel_size=4)\n", "--cluster", "1x8:h100-sxm")
    check("sizes as arguments of a recipe", code == 2 and "found an argument, which is not read: write config.model.tensor_model_parallel_size = 2" in err, (code, err))
    for words, expected in (("--fp8-format e5", "--fp8-format is e4m3 or hybrid"), ("--fp8-format hybrid --fp8-recipe block", "--fp8-recipe is blockwise, custom"),
                            ("--moe-token-dispatcher-type deepep", "is allgather, alltoall or flex"),
                            ("--num-experts 8 --moe-pad-expert-input-to-capacity", "--moe-pad-expert-input-to-capacity needs --moe-expert-capacity-factor")):
        code, out, err = cleave("estimate", "--from", "megatron-lm", megatron + words, "--cluster", "1x8:h100-sxm")
        check(f"refused: {words}", code == 2 and expected in err, (code, err))
    code, out, err = cleave("estimate", "--from", "megatron-lm", megatron + "--num-distributed-optimizer-instances 2", "--cluster", "1x8:h100-sxm")
    check("instances where the cluster alone says the devices", code == 0 and "dp 8, rp 2" in out, (out, err))
    peaks = []
    for stage, strategy in enumerate(("no_shard", "optim", "optim_grads", "optim_grads_params")):
        code, out, err = cleave("estimate", "--from", "megatron-lm", f"{megatron} --use-megatron-fsdp --ckpt-format fsdp_dtensor --data-parallel-sharding-strategy {strategy}",
                                "--cluster", "1x8:h100-sxm", "--json")
        check(f"Megatron-FSDP: {strategy}", code == 0 and "not understood" not in err, (out, err))
        plan = json.loads(out)
        check(f"Megatron-FSDP: {strategy} is ZeRO {stage}", {layer["zero"] for layer in plan["decisions"]["layers"]} == {stage}, out)
        peaks.append(plan["predicted"]["peak_bytes"][0])
    check("Megatron-FSDP: memory falls with each", peaks == sorted(peaks, reverse=True) and len(set(peaks)) == 4, peaks)
    zero, settings = {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 5e8, "allgather_bucket_size": "auto"}, folder / "ds_config.json"
    for change, unknown in (({}, None), ({"reduce_bucket_size": 5000000}, "reduce_bucket_size = 5000000"), ({"overlap_comm": False}, "overlap_comm = false")):
        settings.write_text(json.dumps({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "zero_optimization": {**zero, **change}}))
        code, out, err = cleave("estimate", "--from", "deepspeed", settings, "--model", "gpt2", "--cluster", "1x8:h100-sxm")
        check(f"not priced: {change}", code == 0 and (f"zero_optimization.{unknown}" in out + err if unknown else "not understood" not in out + err), (out, err))
    settings.write_text(json.dumps({"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}))
    for said, dtype in (("--bf16 False --fp16 False", "fp32"), ("--bf16 True", "bf16")):  # which fill in what the file leaves to the Trainer
        words = f"deepspeed --num_gpus 8 train.py --deepspeed {settings} --per_device_train_batch_size 1 --gradient_accumulation_steps 4 {said}"
        code, out, err = cleave("estimate", "--from", "deepspeed", words, "--model", "gpt2", "--cluster", "1x8:h100-sxm")
        check(f"the Trainer's {said}", code == 0 and f" tokens, {dtype}," in out, (out, err))
    titan = folder / "train.toml"
    steps = []
    for components in ('["loss"]', '["model", "loss"]'):
        titan.write_text(f'[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n[compile]\nenable = true\ncomponents = {components}\n')
        code, out, err = cleave("estimate", "--from", "torchtitan", titan, "--cluster", "1x8:h100-sxm", "--batch", 8, "--json")
        steps.append(json.loads(out)["predicted"]["step_s"] if code in (0, 3) else 0)
    check("compiled is what is said to be", steps[0] > 1.02 * steps[1] > 0, (steps, err))
    tensors, rows = "enable_fsdp_float8_all_gather = true", 'recipe_name = "rowwise"'
    for converters, said, unknown, framework in (("[]", "", False, "torchtitan-compile"), ('["float8"]', rows, False, "torchtitan-compile"),
                                                 ('["float8"]', tensors, False, "torchtitan-tensorwise"), ('["float8"]', "", True, "torchtitan-tensorwise"), ('["mx"]', rows, True, "torchtitan-compile")):
        titan.write_text(f'[model]\nname = "llama3"\nflavor = "8B"\nconverters = {converters}\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n[compile]\nenable = true\n'
                         f'[float8]\nfilter_fqns = ["output"]\n{said}\n')
        code, out, err = cleave("estimate", "--from", "torchtitan", titan, "--cluster", "1x8:h100-sxm", "--batch", 8)
        check(f"not priced: converters {converters} {said}", code == 0 and ("model.converters" in out + err) == unknown and f"run of {framework}" in out, (out, err))
    plan = folder / "titan.json"  # what the batch of a launch is that states that of a rank, the first plan's cluster says
    cleave("estimate", "--from", "torchtitan", titan, "--cluster", "1x8:h100-sxm", "-o", plan)
    code, out, err = cleave("compare", plan, "--from", f"torchtitan={titan}", "--json")
    times = [row["predicted_step_s"] for row in json.loads(out)["plans"]] if code == 0 else [0]
    check("compare --from: a batch of each rank", len(times) == 2 and abs(times[0] - times[1]) < 0.01 * times[0], (times, err))


def bound_is_no_cost():
    """Where a look at plans without the target's limits finds none that is shorter, what is not proven is not said to be their cost."""
    code, out, err = cleave("plan", "llama-3-405b", "--cluster", "32x8:h100-sxm", "--batch", 512, "--seq", 8192, "--target", "megatron-lm")
    check("limits: a bound is no cost", code == 0 and "what its limits cost is not known: a short look found no shorter plan" in out, (out, err))
    check("limits: how one looks longer", "with --framework megatron-lm-te in place of --target" in out, (out, err))


def laid_out(folder):
    """A plan of one micro-batch is priced by its own layout, as its launch is (gathers wait for bytes: 0.6 % were between them)."""
    plan = folder / "plan.json"
    code, _, err = cleave("plan", "gpt3-175b", "--cluster", "64x8:h100-sxm", "--batch", 1536, "--seq", 2048, "--target", "deepspeed", "-o", plan)
    code, out, err = cleave("simulate", plan, "--json") if code == 0 else (code, "", err)
    told, simulated = (json.loads(plan.read_text())["predicted"]["step_s"], json.loads(out)["step_s"]) if code == 0 else (0, 1)
    check("as it is laid out", told == simulated, (told, simulated, err))


def followed():
    """What is advised costs what was said when it is done, and can be written as it was told."""
    launch = "--recipe llama3_8b_pretrain_config train.global_batch_size=64 train.micro_batch_size=2"
    code, out, err = cleave("estimate", "--from", "megatron-bridge", launch, "--cluster", "1x2:h100-sxm", "--json")
    changes = json.loads(out)["launch"]["changes"]
    words = "offload optimizer (with the precision-aware one), recompute full of the first 24 of each piece's blocks"
    advice = next((change for change in changes if change["change"] == words), {"step_s": 1})
    check("what makes it fit", code == 3 and "change" in advice, (code, changes, err))
    launch += (" optimizer.use_precision_aware_optimizer=True optimizer.optimizer_cpu_offload=True model.recompute_granularity=full "
               "model.recompute_method=block model.recompute_num_layers=24")
    code, out, err = cleave("estimate", "--from", "megatron-bridge", launch, "--cluster", "1x2:h100-sxm", "--json")
    check("advice that is followed", code == 0 and abs(json.loads(out)["predicted"]["step_s"] / advice["step_s"] - 1) < 0.001, (out, err))
    code, out, err = cleave("estimate", "--from", "megatron-bridge", launch, "--cluster", "1x2:h100-sxm")
    check("pairs are counted where some were tried", " and no pair of 0 " not in out, out)
    if SHARE > 1:  # a long search once more
        return
    launch = (launch.partition(" model.")[0] + " model.tensor_model_parallel_size=8 model.pipeline_model_parallel_size=4 "
              "model.sequence_parallel=True train.micro_batch_size=1").replace("llama3_8b", "llama3_70b").replace("=64", "=256")
    code, out, err = cleave("estimate", "--from", "megatron-bridge", launch, "--cluster", "8x8:h100-sxm", "--json")
    answer = json.loads(out) if code == 0 else {"launch": {"changes": []}}
    gains = [1 - change["step_s"] / answer["predicted"]["step_s"] for change in answer["launch"]["changes"]]
    check("no advice gains as good as nothing", code == 0 and gains and min(gains) >= 0.0005, (gains, out[-400:], err))


def no_launch_has_it(folder):
    """A value that no launch of the target has is refused by what it breaks, and one that some have is not."""
    job = ("--cluster", "1x8:h100-sxm", "--batch", 16)
    for target, fixed, words in (("megatron-lm", "schedule=zb-v", "rule schedules requires that "), ("deepspeed", "prefetch=2", "rule buckets requires that "),
                                 ("torchtitan", "slices=2", "cannot be told slices 2: it has 1"), ("nnscaler", "tp=2", "rule no-tensor requires that "),
                                 ("accelerate", "schedule=gpipe:zb-h1,pp=2", "rule no-pipeline requires that ")):
        code, _, err = cleave("plan", "tiny-llama", *job, "--target", target, "--fix", fixed)
        check(f"{target}: {fixed}", code == 2 and words in err and "no plan was found" not in err, (code, err))
    for target, dtype in (("torchtitan", "fp16"), ("nnscaler", "fp16"), ("megatron-lm", "fp64")):
        code, out, err = cleave("plan", "llama-3-8b", "--cluster", "8x8:h100-sxm", "--batch", 512, "--target", target, "--dtype", dtype)
        check(f"{target}: {dtype} needs no search", code == 2 and "rule dtype requires that " in err and "no plan was found" not in err and not out, (code, out, err))
    code, _, err = cleave("plan", "tiny-llama", *job, "--target", "torchtitan", "--fix", "zero=0,cp=2")
    check("values that exclude each other", code == 3 and "rule zero requires that " in err and "no plan was found" in err, (code, err))
    for target, fixed in (("torchtitan", "hsdp=2,pp=1"), ("accelerate", "reshard=false"), ("megatron-lm", "offload=optimizer,pp=1")):
        code, _, err = cleave("plan", "tiny-llama", *job, "--target", target, "--fix", fixed)
        check(f"{target}: {fixed} is told", code == 0, (code, err))
    # groups of shards beside each other lie as a launcher numbers ranks, and are read back
    for target, fixed in (("torchtitan", "hsdp=2,dp=8,zero=3"), ("megatron-lm", "hsdp=2,dp=4,tp=2,zero=1"), ("accelerate", "hsdp=4,dp=8,zero=3")):
        plan, back = folder / f"groups-{target}.json", folder / "groups-back.json"
        code, out, err = cleave("plan", "tiny-llama", *job, "--target", target, "--fix", fixed, "-o", plan)
        check(f"{target}: {fixed} is planned", code == 0 and " rp " in out.splitlines()[0], (code, out[:400], err))
        code, _, err = cleave("export", plan, "--to", target, "-o", folder / f"groups-{target}")
        check(f"{target}: {fixed} is launched", code == 0, (code, err))
        if target != "accelerate":  # whose launch names a training script
            cleave("estimate", "--from", target, folder / f"groups-{target}" / "train.sh", "--cluster", job[1], "-o", back)
            code, out, err = cleave("diff", plan, back)
            check(f"{target}: {fixed} is read back", "the same decisions" in out, (code, out, err))


def unsaid(folder):
    """What a script does not say and puts among options is refused where a command would print it, since it may be degrees; the script's own arguments may be none."""
    model = ("--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --swiglu --normalization RMSNorm "
             "--position-embedding-type rope --disable-bias-linear --vocab-size 128256 --bf16 --use-distributed-optimizer")
    script = folder / "unsaid.sh"
    for fills, used, hidden in (("P=$(printf -- '--tensor-model-parallel-size %d' 2)", "$P", True), ("P=`cat arguments`", "$P", True), ("mapfile -t P < arguments", '"${P[@]}"', True),
                               ("read -r -d '' P <<X\n--tensor-model-parallel-size 2\nX", "$P", False), ("", "$(cat arguments)", True), ("", "$@", False), ("P=", "$P", False)):
        for before in (model, model + " --micro-batch-size 1"):
            behind = "--global-batch-size 64" + (" --micro-batch-size 1" if before == model else "")
            script.write_text(f"{fills}\ntorchrun pretrain_gpt.py {before} {used} {behind}\n")
            code, out, err = cleave("estimate", "--from", "megatron-lm", script, "--cluster", "4x8:h100-sxm")
            check(f"{used} of {fills}", code == 2 and "unsaid.sh: what " in err and "is not known, and no other word of the launch says a degree" in err if hidden else code == 0 and "not understood" not in err, (code, out, err))
            check(f"degrees of {fills}", not fills.startswith("read") or "tp 2" in out, (code, out, err))
    settings = folder / "titan.sh"
    settings.write_text("EXTRA=$(cat flags)\ntorchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b --training.local_batch_size 2 $EXTRA\n")
    code, out, err = cleave("estimate", "--from", "torchtitan", settings, "--cluster", "1x8:h100-sxm")
    check("torchtitan's", code == 2 and "titan.sh: what $(cat flags) (" in err, (code, out, err))
    (folder / "flags").write_text("--parallelism.tensor_parallel_degree 2\n")
    code, out, err = cleave("estimate", "--from", "torchtitan", settings, "--cluster", "1x8:h100-sxm")
    check("torchtitan's, from a file", code == 0 and "tp+sp 2" in out and "not understood" not in err, (code, out, err))
    shards = folder / "shards.toml"  # as many as the cluster has left, which no configuration says
    shards.write_text('[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\n'
                      'data_parallel_replicate_degree = 4\ndata_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n')
    code, out, err = cleave("estimate", "--from", "torchtitan", shards, "--cluster", "4x8:h100-sxm")
    check("the rest of the cluster's", code == 0 and "dp 16, rp 4, tp+sp 2, ZeRO 3" in out, (code, out, err))


def in_pieces(folder):
    """Launches whose pieces lie on one stage in turn: further tokens that are a piece of their own, as in Megatron's own
    documentation of layouts, and one of so many micro-batches that few are simulated, which does not fit."""
    words = ("python pretrain_gpt.py --pipeline-model-parallel-size 4 --hidden-size {0} --ffn-hidden-size {1} --num-attention-heads 8 --seq-length 128 "
             "--max-position-embeddings 128 --micro-batch-size 1 --vocab-size 1024 --swiglu --normalization RMSNorm --bf16 --use-distributed-optimizer "
             "--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights --global-batch-size {2} --num-layers {3} "
             "--pipeline-model-parallel-layout '{4}' {5}")
    script = folder / "pieces.sh"
    script.write_text(words.format(64, 256, 8, 6, "Et|t|t|t|t|t|m|L", "--mtp-num-layers 1"))
    code, out, err = cleave("estimate", "--from", "megatron-lm", script, "--cluster", "1x4:h100-sxm", "--json")
    check("further tokens alone in a piece", code == 0 and json.loads(out)["predicted"]["step_s"] > 0, (code, err))
    script.write_text(words.format(8192, 28672, 8192, 7, "Et|t|t|t|t|t|t|L", ""))
    code, out, err = cleave("estimate", "--from", "megatron-lm", script, "--cluster", "1x4:rtx4090", "--json")
    check("what does not fit has a time all the same", code == 3 and "does not fit: stage " in err and json.loads(out)["predicted"]["step_s"] > 1, (code, out, err))


CHOOSES = """AC=${AC:-full} TP=2
case "$TP" in
  1|4) X="--sequence-parallel" ;;
  (2) X="--tensor-model-parallel-size $TP"
      if [ $AC = full ]; then X="$X --sequence-parallel"; fi;;
  *) X="--tensor-model-parallel-size 8"
esac
[[ $AC == full ]] && R="--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
[[ $AC != full ]] && R="--recompute-granularity selective"
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 \\
    --vocab-size 1024 --bf16 --micro-batch-size 1 --global-batch-size 8 $X $R
"""


def chosen(folder):
    """What a script chooses by case, and by a test with a command behind it."""
    script = folder / "chooses.sh"
    for setting, words in (("", "tp+sp 2  ZeRO 0  recompute block"), ("AC=none; ", "tp 2  ZeRO 0  recompute none except core")):
        script.write_text(setting + CHOOSES)
        code, out, err = cleave("estimate", "--from", "megatron-lm", script, "--cluster", "1x8:h100-sxm")
        check(f"a script that chooses: {words}", code == 0 and words in out, (code, out, err))


def accumulated(folder):
    """Micro-batches that a launch states go with the batch and the micro-batch that options say."""
    job = ("--model", "tiny-gpt", "--cluster", "1x2:cpu", "--seq", 16, "--dtype", "fp32")
    stated, open_batch, none = folder / "stated.json", folder / "auto.json", folder / "none.json"
    stated.write_text('{"train_batch_size": 16, "gradient_accumulation_steps": 4}')
    open_batch.write_text('{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4}')
    none.write_text('{"train_batch_size": 16}')
    fsdp = "accelerate launch --use_fsdp --fsdp_version 2 t.py --gradient_accumulation_steps 4"
    both = "deepspeed t.py --per_device_train_batch_size 2 --gradient_accumulation_steps 4"
    for target, launch, options, words in (("deepspeed", stated, ("--micro-batch", 2), "4 micro-batches of 2 per replica"),
                                           ("deepspeed", stated, ("--micro-batch", 4), "the batch of 16: expected micro-batches of 4 x "
                                            "gradient_accumulation_steps 4 x 2 data-parallel ranks: change --batch"),
                                           ("deepspeed", none, ("--micro-batch", 4), "2 micro-batches of 4 per replica"),
                                           ("deepspeed", open_batch, ("--micro-batch", 3), "batch 24 sequences"),
                                           ("deepspeed", open_batch, ("--micro-batch", 3, "--batch", 12), "the batch of 12: expected micro-batches of 3"),
                                           ("deepspeed", both, (), "batch 16 sequences"),
                                           ("deepspeed", both, ("--batch", 32), "the batch of 32: expected micro-batches of 2"),
                                           ("accelerate", fsdp, ("--batch", 16), "4 micro-batches of 2 per replica"),
                                           ("accelerate", fsdp, ("--micro-batch", 3), "batch 24 sequences")):
        code, out, err = cleave("estimate", "--from", target, launch, *job, *options)
        check(f"accumulation: {target} {launch} {options}", words in out + err and code == (2 if words in err else 0), (code, out, err))


def main():
    made = 0
    jobs = JOBS if SHARE == 1 else JOBS[:2] if SHARE <= 5 else JOBS[1:2]  # a share of them; one under a sanitizer
    for target in LAUNCH:
        for job in jobs:
            with tempfile.TemporaryDirectory() as folder:
                made += round_trip(pathlib.Path(folder), target, *job)
    job = ("plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "--launch")
    code, _, err = cleave(*job, "x")
    check("--launch for nobody", code == 2 and "--target is missing" in err, err)
    code, out, err = cleave(*job, "/no/such/folder", "--target", "megatron")
    check("--launch to nowhere is refused before the search", code == 1 and "cannot make the folder" in err and not out, err)
    code, out, err = cleave("estimate", "llama-3-8b", "--cluster", "2x8:h100-sxm", "--batch", 128, "--micro-batch", 1, "--tp", 16, "--json")
    check("what no number says is in the JSON", [remark["kind"] for remark in json.loads(out)["remarks"]] == ["heads_held_twice"], err)
    for target, dtype, usual in (("nnscaler", "bf16", True), ("megatron-bridge", "bf16", True), ("accelerate", "fp32", True),
                                 ("accelerate", "bf16", False)):
        code, _, err = cleave("plan", "tiny-llama", "--cluster", "1x2:h100-sxm", "--batch", 8, "--target", target, "--gradient-dtype", dtype)
        check(f"{target}: gradients in {dtype}", code == 0 if usual else code == 2 and "rule optimizer" in err, err)
    for target in ("megatron-lm", "megatron-bridge"):
        job = ("plan", "tiny-llama", "--cluster", "1x2:h100-sxm", "--batch", 8, "--target", target, "--moments", "bf16")
        code, _, err = cleave(*job)
        check(f"{target}: moments alone", code == 2 and "master_weights fp32 (type --master-weights remainder)" in err, err)
        code, _, err = cleave(*job, "--master-weights", "remainder", "--fix", "offload=optimizer")
        check(f"{target}: moments with offload", code == 2 and "rule optimizer-offload" in err and "(--fix offload=none" in err
              and "found: adamw, moments bf16, master_weights remainder, offload optimizer" in err, err)
    with tempfile.TemporaryDirectory() as folder:
        several_nodes(pathlib.Path(folder))
        others_tools(pathlib.Path(folder))
        files_beside(pathlib.Path(folder))
        further_tokens(pathlib.Path(folder))
        whole_experts(pathlib.Path(folder))
        adapted(pathlib.Path(folder))
        of_others(pathlib.Path(folder))
        not_priced(pathlib.Path(folder))
        if SHARE <= 8:  # large searches, whose lines the others run
            laid_out(pathlib.Path(folder))
        in_pieces(pathlib.Path(folder))
        no_launch_has_it(pathlib.Path(folder))
        unsaid(pathlib.Path(folder))
        chosen(pathlib.Path(folder))
        accumulated(pathlib.Path(folder))
    if SHARE <= 8:
        bound_is_no_cost()
    followed()

    check("most are launched", made >= 4 * len(jobs), made)
    if SHARE <= 5:  # logits that were held all the way back would keep it out
        code, _, err = cleave("plan", "llama-3-70b", "--cluster", "8x8:h100-sxm", "--batch", 512, "--seq", 8192, "--target", "accelerate-fsdp2",
                              "--fix", "micro-batch=2,cp=1,tp=1")
        check("what a launch has room for is planned", code == 0, err)
    code, _, err = cleave("plan", "llama-3-8b", "--cluster", "1x8:h100-sxm", "--batch", 8, "--target", "megatrn")
    check("a target's name", code == 2 and "megatron-lm" in err, err)
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder) / "plan.json"
        cleave("plan", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", 8, "-o", plan)
        code, _, err = cleave("export", plan, "--to", "megatron", "-o", pathlib.Path(folder) / "x")
        check("a plan that no framework can be told", code == 2 and "--target" in err, err)
        lines = err.splitlines()
        check("the nearest that it can", lines[0].startswith("nearest that megatron-lm can be told: pp "), err)
        code, out, err = cleave(*shlex.split(lines[1])[1:-1], plan)
        refused, _, other = cleave("export", plan, "--to", "torchtitan", "-o", pathlib.Path(folder) / "x")
        check("of a model that it has not, no plan is named", refused == 2 and "nor any other plan of this job: torchtitan" in other and "  cleave plan " not in other, other)
        check("the nearest is planned so", code == 0 and lines[0].split(": ")[1].split(";")[0] in out, (lines, out, err))
    code, _, err = cleave("estimate", "--from", "megatron", "--tensor-model-parallel-size 3 --bogus", "--cluster", "1x8:h100-sxm")
    check("a launch without a model", code == 2 and "error: " in err, err)
    script = ("--num-layers 2 --hidden-size 128 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 "
              "--global-batch-size 8 --bf16 --tokenizer-type HuggingFaceTokenizer --tokenizer-model a/b")
    code, _, err = cleave("estimate", "--from", "megatron", script, "--cluster", "1x2:h100-sxm")
    check("a launch that lacks the vocabulary alone", code == 2 and "all of the model but --vocab-size, which its tokenizer knows" in err, err)
    code, _, err = cleave("estimate", "--from", "megatron", f"{script} --vocab-size 1000", "--cluster", "1x2:h100-sxm")
    check("and with it", code == 0, err)
    lora = "deepspeed main.py --zero_stage 2 --max_seq_len 512 --per_device_train_batch_size 1 --lora_dim 8"
    code, _, err = cleave("estimate", "--from", "deepspeed", lora, "--model", "gpt2", "--cluster", "1x8:h100-sxm")
    check("adapters that the model has not", code == 2 and "launch:1:84: lora_dim: the launch trains adapters" in err and "cleave import" in err, err)
    code, out, err = cleave("estimate", "--from", "deepspeed", lora, "--model", "llama-2-7b-lora", "--cluster", "1x8:h100-sxm")
    check("adapters that it has", code == 0 and "8 sequences of 512 tokens" in out, out + err)
    print(f"{made} launches went there and back, {failures} failures")
    sys.exit(1 if failures else 0)


main()
