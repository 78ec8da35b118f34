#!/usr/bin/env python3
"""The program on launches as their users type them: a script with its arguments, what a tokenizer knows, keys that are slips. usage: test_cli_launches.py CLEAVE SOURCE_ROOT"""
import json

from calls import check, expect, main, run, seen_elsewhere

WORDS = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --bf16 --global-batch-size 16"
SCRIPT = f"""#!/bin/bash
# bash run.sh KIND MICRO_BATCH TENSOR [STAGES]
if [ $1 = small ]; then
    MORE="--vocab-size 1024"
fi
NODES=${{NODES:-1}}
torchrun --nproc_per_node 8 --nnodes $NODES pretrain_gpt.py {WORDS} $MORE \\
    --micro-batch-size $2 --tensor-model-parallel-size ${{3}} --pipeline-model-parallel-size ${{4:-1}} "$@"
"""


@seen_elsewhere
def script_with_arguments(folder):
    """What is typed behind a script's name is its arguments, what stands before it its environment; places stay those of the file."""
    script = folder / "run.sh"
    script.write_text(SCRIPT)

    def job(words, nodes=1):
        result = run("estimate", "--from", "megatron-lm", words, "--cluster", f"{nodes}x8:h100-sxm", "--json")
        if result.returncode not in (0, 3):
            return result
        plan = json.loads(result.stdout)["decisions"]
        degrees = dict(zip(plan["layers"][0]["dims"], plan["stages"][0]["atoms"]))
        return plan["micro_batch_size"], degrees.get("tp", 1), len(plan["stages"])

    expect("without arguments", 2, 'or give the script with its arguments, "bash SCRIPT ARGUMENTS"', "estimate", "--from", "megatron-lm", script, "--cluster", "1x8:h100-sxm")
    for words, nodes, micro_batch, tensor, stages in ((f"bash {script} small 2 4", 1, 2, 4, 1), (f"{script} small 1 2 2", 1, 1, 2, 2), (f"NODES=2 sh {script} small 1 4 2 | tee log", 2, 1, 4, 2),
                                                      (f"sbatch {script} \\\n small 4 \\\n 4", 1, 4, 4, 1),
                                                      (f"bash {script} small 1 4 2>&1 | tee log", 1, 1, 4, 1), (f"bash {script} small 1 2 2 'a|b' \"c;d\" # two", 1, 1, 2, 2), (f'A="b c" bash "{script}" small 1 2', 1, 1, 2, 1),
                                                      (f"env B=1 nohup /bin/bash -eo pipefail {script} small 1 4", 1, 1, 4, 1), (f"sbatch --account=x --nodes 1 {script} small 1 4", 1, 1, 4, 1)):
        found = job(words, nodes)
        check(f"{words}: {(micro_batch, tensor, stages)}", found == (micro_batch, tensor, stages), found)
    loop = folder / "loop.sh"
    loop.write_text("TENSOR=1\nSTAGES=1\nwhile [ $# -gt 0 ]; do\n  case $1 in\n    --tp) TENSOR=$2; shift 2;;\n    --pp) STAGES=$2; shift 2;;\n    *) shift;;\n  esac\ndone\n"
                    f"if [ $TENSOR -gt 2 ]; then exit 1; fi\ntorchrun --nproc_per_node 8 pretrain_gpt.py {WORDS} --vocab-size 1000 --micro-batch-size 1 "
                    "--tensor-model-parallel-size $TENSOR --pipeline-model-parallel-size $STAGES\n")
    for words, tensor, stages in (("--tp 2 --pp 4", 2, 4), ("--x --pp 2", 1, 2), ("", 1, 1)):
        found = job(f"bash {loop} {words}")
        check(f"a loop over arguments {words}", found == (1, tensor, stages), found)
    ends = run("estimate", "--from", "megatron-lm", f"bash {loop} --tp 4", "--cluster", "1x8:h100-sxm")
    check("a script that ends", ends.returncode == 0 and "exit 1 (line 10: the script ends here, and what follows is read all the same)" in ends.stdout + ends.stderr, ends)
    bad = run("estimate", "--from", "megatron-lm", f"bash {script} small 2 3x", "--cluster", "1x8:h100-sxm")
    check("a bad argument", bad.returncode == 2 and f"{script}: --tensor-model-parallel-size: expected a whole number, found \"3x\"" in bad.stderr, bad)
    broken = folder / "broken.sh"
    broken.write_text("#!/bin/sh\necho ${A\n")
    expect("places are the file's", 2, f"{broken}:2: .. that ends nowhere", "estimate", "--from", "megatron-lm", f"sh {broken} a b", "--cluster", "1x8:h100-sxm")
    expect("no such script", 2, "none.sh: cannot read this script .check the path.", "estimate", "--from", "megatron-lm", f"bash {folder}/none.sh {script} 2", "--cluster", "1x8:h100-sxm")


@seen_elsewhere
def vocabulary_beside_a_launch(folder):
    """A launch may leave its vocabulary to a tokenizer, and nothing else."""
    job = ("estimate", "--from", "megatron-lm", f"{WORDS} --micro-batch-size 2", "--cluster", "1x8:h100-sxm")
    expect("vocabulary missing", 2, "but --vocab-size, which its tokenizer knows: give it as --vocab-size N", *job)
    result = run(*job, "--vocab-size", 50304, "--json")
    check("vocabulary given", result.returncode == 0 and '"vocab_size": 50304' in result.stdout, result)
    expect("vocabulary said twice", 2, "--vocab-size: the launch says 1000 itself", *job[:3], f"{WORDS} --vocab-size 1000", *job[4:], "--vocab-size", 2000)
    expect("vocabulary beside --model", 2, "--vocab-size: --model has one", *job, "--vocab-size", 2000, "--model", "gpt2")
    expect("vocabulary without a launch", 2, "--vocab-size belongs to --from", "estimate", "gpt2", "--cluster", "1x8:h100-sxm", "--batch", 8, "--vocab-size", 99)
    expect("vocabulary alone", 2, "--vocab-size: the launch leaves more open: --model says all", *job[:3], "--micro-batch-size 2", *job[4:], "--vocab-size", 2000)


def sizes_of_another_model(folder):
    """A launch is priced as the model whose sizes it says, or refused: estimate --model, and compare with the first plan's model."""
    own, other = f"{WORDS} --micro-batch-size 2", f"{WORDS} --micro-batch-size 2".replace("hidden-size 256", "hidden-size 512")
    cluster, plan = ("--cluster", "1x8:h100-sxm"), folder / "own.json"
    result = run("estimate", "--from", "megatron-lm", own, *cluster, "--vocab-size", 1024, "-o", plan)
    check("the plan to compare with", result.returncode == 0, result)
    differs = "another model than megatron: hidden size expected 256, found 512; width of a head expected 64, found 128; feed-forward size expected 1024, found 2048: give its vocabulary as --vocab-size N"
    expect("compare as the first plan's model", 2, differs, "compare", plan, "--from", f"megatron-lm={other}")
    result = run("compare", plan, "--from", f"megatron-lm={other}", "--vocab-size", 1024)
    check("compare --vocab-size", result.returncode == 0 and "not steps of the same work" in result.stderr, result)
    result = run("compare", plan, "--from", f"megatron-lm={own}")
    check("compare with a launch of the same sizes", result.returncode == 0, result)
    expect("compare --vocab-size without a launch", 2, "--vocab-size belongs to --from", "compare", plan, "--vocab-size", 1024)
    expect("another --model", 2, "another model than gpt2: layers expected 12, found 4; hidden size expected 768, found 512;.*: give its vocabulary as --vocab-size N in place of --model", "estimate", "--from", "megatron-lm", other, *cluster, "--model", "gpt2")
    expect("--model beside a whole description", 2, "vocabulary expected 50257, found 1024: leave --model out", "estimate", "--from", "megatron-lm", f"{own} --vocab-size 1024", *cluster, "--model", "gpt2")
    part = "--num-layers 12 --micro-batch-size 2 --seq-length 128 --bf16 --global-batch-size 16"
    expect("some sizes alone", 2, "hidden size expected 768, found 512: name the model that it is for", "estimate", "--from", "megatron-lm", f"{part} --hidden-size 512", *cluster, "--model", "gpt2")
    result = run("estimate", "--from", "megatron-lm", part, *cluster, "--model", "gpt2")
    check("a launch that says fewer sizes", result.returncode == 0, result)


def deepspeed_keys(folder):
    """DeepSpeed takes fields of stage 3 without stage3_, refuses a field that it does not know, and ignores such a key at the top."""
    settings = folder / "ds.json"

    def estimate(zero, **top):
        settings.write_text(json.dumps({"bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, **zero}, **top}))
        return run("estimate", "--from", "deepspeed", settings, "--model", "gpt2", "--cluster", "1x8:h100-sxm", "--batch", 8, "--json")

    times = [json.loads(estimate({name: 0}).stdout)["predicted"]["step_s"] for name in ("prefetch_bucket_size", "stage3_prefetch_bucket_size", "max_reuse_distance")]
    check("fields without stage3_", times[0] == times[1] > times[2], times)
    slip = estimate({"overlap_com": True})
    check("a slip in a field", slip.returncode == 2 and f"{settings}:1:" in slip.stderr and "did you mean zero_optimization.overlap_comm?" in slip.stderr, slip)
    slip = estimate({}, gradient_accumulation_step=4)
    check("a slip at the top", slip.returncode == 0 and "gradient_accumulation_step = 4 (DeepSpeed ignores a key that it does not know: did you mean gradient_accumulation_steps?)" in slip.stdout + slip.stderr, slip)
    for zero, meant in (({"offload_optimizer": {"devise": "cpu"}}, "zero_optimization.offload_optimizer.device"), ({"cpu_offload": True, "offload_param": {"devices": "cpu"}}, "zero_optimization.offload_param.device")):
        slip = estimate(zero)
        check(f"a slip below {meant}", slip.returncode == 2 and f"did you mean {meant}?" in slip.stderr, slip)
    slip = estimate({}, bf16={"enable": True})
    check("a slip below bf16", slip.returncode == 2 and "did you mean bf16.enabled?" in slip.stderr, slip)
    slip = estimate({}, zero_optimisation={"stage": 3})
    check("a section that is ignored", slip.returncode == 0 and "did you mean zero_optimization?" in slip.stdout + slip.stderr, slip)
    old = estimate({"cpu_offload": True})
    check("the old name of offload_optimizer", old.returncode == 0 and "optimizer" in json.dumps(json.loads(old.stdout)["decisions"]["layers"][0].get("offload", "")), old)
    other = estimate({"brand_new_thing": 1})
    check("a field of another release", other.returncode == 0 and "zero_optimization.brand_new_thing" in other.stdout + other.stderr, other)


def deepspeed_beside_the_trainer(folder):
    """What DeepSpeed's file says otherwise than the Trainer's arguments is refused with both places, as the Trainer does; "auto" takes what is stated, and what only one says is taken."""
    (folder / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 2,\n "gradient_accumulation_steps": 4,\n "gradient_clipping": 0.5,\n "bf16": {"enabled": true},\n "zero_optimization": {"stage": 3}}\n')
    (folder / "auto.json").write_text(json.dumps({**{key: "auto" for key in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")}, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}}))
    (folder / "all.json").write_text('{"train_batch_size": 100, "zero_optimization": {"stage": 1}}')
    yaml = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero3_init_flag: true\n"
    for name, more in (("file", "  deepspeed_config_file: ds.json\n"), ("stage", "  deepspeed_config_file: ds.json\n  zero_stage: 3\n"), ("type", "  deepspeed_config_file: ds.json\nmixed_precision: bf16\n"), ("own", "  zero_stage: 2\n  gradient_accumulation_steps: 4\nmixed_precision: bf16\n")):
        (folder / f"{name}.yaml").write_text(yaml + more)
    (folder / "axolotl.yaml").write_text(AXOLOTL + "deepspeed: ds.json\n")
    (folder / "inside").mkdir()
    (folder / "inside" / "a.sh").write_text("deepspeed t.py --deepspeed ../ds.json --per_device_train_batch_size 7\n")

    def estimate(words, cwd=folder):
        return run("estimate", "--from", "deepspeed", words, "--model", "gpt2", "--cluster", "1x8:h100-sxm", "--seq", 128, "--json", cwd=cwd)

    typed, started = "deepspeed --num_gpus 8 t.py --deepspeed", "accelerate launch --config_file"
    for words, message in ((f"{typed} ds.json --per_device_train_batch_size 4", "ds.json:1:36: train_micro_batch_size_per_gpu: expected 4, since launch:1:49 says per_device_train_batch_size 4, found 2: what differs is refused; \"auto\" here takes what the arguments say"),
                           (f"{typed} ds.json --per_device_train_batch_size 2 --gradient_accumulation_steps 8", "gradient_accumulation_steps: expected 8, since launch:1:81 says gradient_accumulation_steps 8, found 4"),
                           (f"{typed} ds.json --max_grad_norm 1.0", "gradient_clipping: expected 1.0, since launch:1:49 says max_grad_norm 1.0, found 0.5"), (f"{typed} ds.json --bf16 false", "bf16.enabled: expected false, since launch:1:49 says bf16 false, found true"),
                           (f"{typed} ds.json --fp16", "bf16.enabled: expected false, since launch:1:49 says fp16 true, found true"), (f"{typed} all.json --per_device_train_batch_size 4 --gradient_accumulation_steps 3", "all.json:1:22: train_batch_size: expected micro-batches of 4 x gradient_accumulation_steps 3 x data-parallel ranks 8, which are 96; found 100"),
                           (f"{started} file.yaml t.py --per_device_train_batch_size 4", "ds.json:1:36: train_micro_batch_size_per_gpu: expected 4, since launch:1:48"), ("accelerate launch --use_deepspeed --zero_stage 2 --deepspeed_config_file ds.json t.py", "zero_optimization.stage: expected 2, since launch:1:35 says zero_stage 2, found 3"),
                           (f"{started} own.yaml t.py --gradient_accumulation_steps 2", "own.yaml:6:3: deepspeed_config.gradient_accumulation_steps: expected 2, since launch:1:47"), ("axolotl train axolotl.yaml --micro_batch_size 3", "train_micro_batch_size_per_gpu: expected 3"),
                           (f"{started} stage.yaml t.py", "stage.yaml:6:3: deepspeed_config.zero_stage: accelerate refuses it beside ds.json, which says what DeepSpeed is told: take it out here, and say it there"),
                           (f"{started} type.yaml t.py", "type.yaml:6:1: mixed_precision: accelerate refuses it beside ds.json, which says what DeepSpeed is told: take it out, and say bf16.enabled or fp16.enabled there")):
        result = estimate(words)
        check(f"contradiction in {words}", result.returncode == 2 and message in result.stderr, result)
    for words, micro, steps, clip in ((f"{typed} ds.json --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --bf16 True --max_grad_norm 0.50", 2, 4, 0.5), (f"{typed} ds.json --bf16", 2, 4, 0.5), (f"{typed} auto.json --per_device_train_batch_size 4 --gradient_accumulation_steps 8 --max_grad_norm 2 --bf16", 4, 8, 2),
                                      (f"{started} file.yaml t.py --bf16", 2, 4, 0.5), (f"{started} type.yaml --mixed_precision bf16 t.py", 2, 4, 0.5), (f"{started} own.yaml t.py --per_device_train_batch_size 3 --gradient_accumulation_steps 4", 3, 4, None), ("axolotl train axolotl.yaml", 2, 4, 0.5)):
        result = estimate(words)
        plan = json.loads(result.stdout)["decisions"] if result.returncode == 0 else {}
        check(f"agreement in {words}", plan.get("micro_batch_size") == micro and plan.get("batch") == 8 * micro * steps and (plan.get("clip_norm") or None) == clip, result)
    (folder / "inside" / "own.yaml").write_text(yaml + "  gradient_accumulation_steps: 4\nconfig_file: ../secret.yaml\n")
    (folder / "secret.yaml").write_text("gradient_accumulation_steps: hidden words\n")
    hidden = estimate("inside/own.yaml")
    check("a value of a file that is not shown", hidden.returncode == 2 and "inside/own.yaml:5:3: deepspeed_config.gradient_accumulation_steps: expected what ../secret.yaml says" in hidden.stderr and "words" not in hidden.stderr, hidden)
    for launch, cwd in (("inside/a.sh", folder), (folder / "inside" / "a.sh", "/")):
        hidden = run("estimate", "--from", "deepspeed", launch, "--model", "gpt2", "--cluster", "1x8:h100-sxm", "--seq", 128, cwd=cwd)
        check(f"a file outside of the launch's folder, from {cwd}", hidden.returncode == 2 and "a.sh:1:39: per_device_train_batch_size: expected what ../ds.json says as train_micro_batch_size_per_gpu, found 7: what differs is refused" in hidden.stderr and "since" not in hidden.stderr, hidden)


AXOLOTL = """base_model: someone/model
datasets:
  - path: a/b
    type: completion
  - path: c/d
    type: completion
sequence_len: 512
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: adamw_torch_8bit
bf16: true
sample_packing: true
"""
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1024,
          "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}


@seen_elsewhere
def trainers_configurations(folder):
    """axolotl's and LLaMA-Factory's: adapters by their names, files from where the trainer is started, lists of mappings, and what only they say."""
    model = folder / "config.json"
    model.write_text(json.dumps(CONFIG))
    (folder / "runs").mkdir()
    (folder / "deepspeed_configs").mkdir()
    (folder / "deepspeed_configs" / "zero2.json").write_text(json.dumps({"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}))
    launch = folder / "runs" / "a.yaml"

    def estimate(text, *more, target="deepspeed"):
        launch.write_text(text)
        return run("estimate", "--from", target, "runs/a.yaml", "--model", model, "--cluster", "1x8:h100-sxm", "--json", *more, cwd=folder)

    plain = estimate(AXOLOTL + "deepspeed: deepspeed_configs/zero2.json\n")
    plan = json.loads(plain.stdout)
    check("axolotl", plain.returncode == 0 and plan["decisions"]["batch"] == 64 and plan["decisions"]["sequence"] == 512 and plan["decisions"]["layers"][0]["zero"] == 2 and
          "8bit" in json.dumps(plan["decisions"]) and plan["launch"]["not_understood"] == [], plain)
    (folder / ".private").mkdir()
    (folder / ".private" / "x.json").write_text(json.dumps({"zero_optimization": {"stage": 2}, "secret_key": "abc"}))
    hidden = estimate(AXOLOTL + "deepspeed: .private/x.json\n")
    check("what is hidden is not shown", "abc" not in hidden.stdout + hidden.stderr and "secret_key" not in hidden.stdout + hidden.stderr, hidden)
    (folder / "deepspeed_configs" / "x.json").write_text((folder / ".private" / "x.json").read_text())
    shown = estimate(AXOLOTL + "deepspeed: deepspeed_configs/x.json\n")
    check("what is the project's is", json.loads(shown.stdout)["launch"]["not_understood"] == ["secret_key = abc"], shown)
    linear = 8 * (2 * (256 + 256) + 2 * (256 + 128) + 3 * (256 + 512)) * 4  # Hu et al. 2021: r (in + out) of each matrix of each block
    attention = 16 * ((256 + 256) + (256 + 128)) * 4
    for words, trained in (("adapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n", linear), ("finetuning_type: lora\nlora_rank: 8\nlora_target: all\n", linear), ("finetuning_type: lora\n", linear),
                           ("adapter: lora\nlora_r: 16\nlora_target_modules:\n  - q_proj\n  - v_proj\n", attention), ("peft_type: LORA\nlora_r: 16\nlora_target_modules: [q_proj, v_proj]\n", attention)):
        for target, own in (("deepspeed", "deepspeed: deepspeed_configs/zero2.json\n"), ("accelerate-fsdp2", "fsdp:\n  - full_shard\n  - auto_wrap\n")):
            result = estimate(AXOLOTL + own + words, target=target)
            shown = run("estimate", "--from", target, "runs/a.yaml", "--model", model, "--cluster", "1x8:h100-sxm", cwd=folder).stdout
            check(f"{target} {words}: {trained} trained", result.returncode == 0 and f" {trained} of them trainable" in shown and "lora" not in str(json.loads(result.stdout)["launch"]["not_understood"]), result)
    factory = "stage: pt\nfinetuning_type: full\ncutoff_len: 512\nper_device_train_batch_size: 1\nbf16: true\ndeepspeed: deepspeed_configs/zero2.json\n"
    for words, again in (("", True), ("disable_gradient_checkpointing: true\n", False)):  # what LLaMA-Factory does of itself
        result = estimate(factory + words)
        layers = json.loads(result.stdout)["decisions"]["layers"] if result.returncode == 0 else [{}]
        check(f"LLaMA-Factory {words}", any(layer.get("recompute") == "block" for layer in layers) == again, result)
    settings = folder / "ds.json"
    for clipping, norm in (("auto", 1), (None, None), (0.5, 0.5)):  # the Trainer always clips where DeepSpeed asks it
        settings.write_text(json.dumps({"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 1, **({"gradient_clipping": clipping} if clipping else {})}))
        result = run("estimate", "--from", "deepspeed", settings, "--model", model, "--cluster", "1x8:h100-sxm", "--batch", 8, "--recompute", "full", "--json")
        plan = json.loads(result.stdout)["decisions"]
        check(f"gradient_clipping {clipping}", (plan.get("clip_norm") or None) == norm and all(layer["recompute"] == "block" for layer in plan["layers"]), result)
    result = run("estimate", "--from", "deepspeed", settings, "--model", model, "--cluster", "1x8:h100-sxm", "--batch", 8, "--recompute", "selective")
    check("--recompute selective", result.returncode == 2 and "expected none or full of such a launch" in result.stderr, result)
    for words, trained in (("finetuning_type: lora\nlora_target: q_proj,v_proj\nlora_rank: 16\n", attention), ("adapter: lora\nlora_r: 16\nlora_target_modules: [self_attn.q_proj, self_attn.v_proj]\n", attention)):
        result = estimate(AXOLOTL + "deepspeed: deepspeed_configs/zero2.json\n" + words)
        launch_of = run("estimate", "--from", "deepspeed", "runs/a.yaml", "--model", model, "--cluster", "1x8:h100-sxm", cwd=folder)
        check(f"{words}: {trained} trained", f" {trained} of them trainable" in launch_of.stdout, launch_of)
    typed = f"deepspeed --num_gpus 8 t.py --deepspeed {folder}/deepspeed_configs/zero2.json --per_device_train_batch_size 1 --max_length 512"
    for words, count in ((f"{typed} --use_peft --lora_r 16 --lora_target_modules q_proj v_proj", attention), (f"{typed} --use_peft false --lora_r 8 --lora_target_modules q_proj", None)):
        result = run("estimate", "--from", "deepspeed", words, "--model", model, "--cluster", "1x8:h100-sxm")
        check(f"typed: {count} trained", result.returncode == 0 and (f" {count} of them trainable" in result.stdout if count else "trainable" not in result.stdout) and "lora" not in result.stdout, result)
    alone = estimate(AXOLOTL + "deepspeed: deepspeed_configs/zero2.json\nlora_r: 64\nlora_target_linear: true\n")
    check("a rank alone", alone.returncode == 2 and "lora_r: the launch trains adapters" in alone.stderr, alone)
    for words, trained in (("'model.language_model.layers.[\\d]+.(mlp|self_attn).(up|down|gate|q|k|v|o)_proj'", linear), ("'(.*).(q|v)_proj'", attention // 2), ("'model\\.layers\\.\\d+\\.self_attn\\.(?:q|v)_proj'", attention // 2)):
        launch.write_text(AXOLOTL + "deepspeed: deepspeed_configs/zero2.json\nadapter: lora\nlora_r: 8\nlora_target_modules: " + words + "\n")
        result = run("estimate", "--from", "deepspeed", "runs/a.yaml", "--model", model, "--cluster", "1x8:h100-sxm", cwd=folder)
        check(f"a pattern of matrices {words}", f" {trained} of them trainable" in result.stdout, result)
    for words in ("vision_tower.*", "'(q'"):
        pattern = estimate(AXOLOTL + "deepspeed: deepspeed_configs/zero2.json\nadapter: lora\nlora_r: 8\nlora_target_modules: " + words + "\n")
        check(f"a pattern of none {words}", pattern.returncode == 2 and "or a pattern that matches some of model.layers.0.self_attn.q_proj" in pattern.stderr, pattern)
    offload = folder / "deepspeed_configs" / "offload.json"
    bytes_of = {}
    for forced in (True, False):  # accelerate puts the CPU's AdamW in the place of others, unless it is told not to
        offload.write_text(json.dumps({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": True}, "zero_force_ds_cpu_optimizer": forced}))
        bytes_of[forced] = "8bit" in json.dumps(json.loads(estimate(AXOLOTL + "deepspeed: deepspeed_configs/offload.json\n").stdout)["decisions"])
    check("optimizers on hosts", bytes_of == {True: False, False: True}, bytes_of)
    launch.write_text(AXOLOTL + "deepspeed: deepspeed_configs/zero2.json\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n")
    result = run("estimate", "--from", "deepspeed", "runs/a.yaml", "--model", "tiny-llama", "--cluster", "1x8:h100-sxm", cwd=folder)
    check("adapters of no Hugging Face model", result.returncode == 2 and "name its Hugging Face config.json, which gets those of the launch" in result.stderr, result)
    texts = estimate("datasets:\n  - path: a\n    m:\n      r: 1\n  - path: b\n    m:\n      r: 1\nnotes: |\n  one: two\n\n   three\nmore: >-\n  four\n" + AXOLOTL[AXOLOTL.index("sequence_len"):] + "deepspeed: deepspeed_configs/zero2.json\n")
    left = json.loads(texts.stdout)["launch"]["not_understood"] if texts.returncode == 0 else texts
    check("texts, and lists of mappings of mappings", left == ["notes = a text", "more = a text"], left)
    unnamed = estimate(AXOLOTL + "deepspeed: null\n")
    check("no file is named", "settings are in" not in unnamed.stderr, unnamed)
    other = estimate(AXOLOTL.replace("packing: true", "packing: false") + "deepspeed: deepspeed_configs/zero2.json\ntrust_remote_code: true\n")
    left = json.loads(other.stdout)["launch"]["not_understood"] if other.returncode == 0 else other
    check("what only they say", left == ["sample_packing = false"], left)


@seen_elsewhere
def quantized_launches(folder):
    """What a launch stores the matrices in that it freezes: as axolotl, LLaMA-Factory, open-instruct and trl have it, whose scales are quantized in turn, or not."""
    model, settings = folder / "config.json", folder / "zero2.json"
    model.write_text(json.dumps(CONFIG))
    settings.write_text(json.dumps({"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}))
    job = ("--model", model, "--cluster", "1x8:h100-sxm")
    launch = folder / "a.yaml"
    matrices = 4 * [(256, 256), (256, 256), (128, 256), (128, 256), (512, 256), (512, 256), (256, 512)]  # rows and columns

    def stored(form):
        """Bytes of the matrices, each at a multiple of 64: bitsandbytes/functional.py."""
        each = {"none": lambda n, row: 2 * n, "nf4": lambda n, row: n // 2 + n // 64 * 4, "nf4-double": lambda n, row: n // 2 + n // 64 + n // 64 // 256 * 4, "int8": lambda n, row: n + n // row * 4}[form]
        return sum(-(-each(rows * row, row) // 64) * 64 for rows, row in matrices)

    def weights(result):
        return json.loads(result.stdout)["predicted"]["fullest_stage_bytes"]["weights"] if result.returncode == 0 else None

    adapters = {"axolotl": "adapter: qlora\nlora_r: 8\nlora_target_linear: true\n", "factory": "finetuning_type: lora\nlora_rank: 8\nlora_target: all\n", "trl": "use_peft: true\nlora_r: 8\nlora_target_modules: all-linear\n"}
    plain = {}
    for trainer, words, form in (("axolotl", "", "none"), ("axolotl", "load_in_4bit: true\n", "nf4-double"), ("axolotl", "load_in_4bit: false\n", "none"), ("axolotl", "load_in_8bit: true\n", "int8"),
                                 ("axolotl", "load_in_4bit: true\nbnb_config_kwargs:\n  bnb_4bit_use_double_quant: false\n", "nf4"), ("factory", "", "none"), ("factory", "quantization_bit: 4\n", "nf4-double"),
                                 ("factory", "quantization_bit: 4\ndouble_quantization: false\n", "nf4"), ("factory", "quantization_bit: 8\n", "int8"), ("trl", "", "none"), ("trl", "load_in_4bit: true\n", "nf4"),
                                 ("trl", "load_in_4bit: true\nuse_bnb_nested_quant: true\n", "nf4-double")):
        launch.write_text(AXOLOTL + f"deepspeed: {settings}\n" + adapters[trainer] + words)
        result = run("estimate", "--from", "deepspeed", launch, *job, "--json")
        held = weights(result)
        plain.setdefault(trainer, held)
        check(f"{trainer}: {words} is {form}: {plain[trainer]} to {held}", held is not None and plain[trainer] - held == stored("none") - stored(form) and "bit" not in str(json.loads(result.stdout)["launch"]["not_understood"]), result)
    launch.write_text(AXOLOTL + f"deepspeed: {settings}\n" + adapters["factory"] + "quantization_bit: 3\n")
    expect("three bits", 2, "expected 4 or 8 bits, found 3", "estimate", "--from", "deepspeed", launch, *job)
    launch.write_text(AXOLOTL + f"deepspeed: {settings}\nload_in_4bit: true\n")
    expect("without adapters", 2, "expected adapters, found none: what is trained is not stored in nf4", "estimate", "--from", "deepspeed", launch, *job)
    launch.write_text(AXOLOTL + f"deepspeed: {settings}\n" + adapters["axolotl"] + "load_in_4bit: true\n")
    other = run("estimate", "--from", "deepspeed", launch, "--model", "llama-2-7b-lora", "--cluster", "1x8:h100-sxm", "--json")
    check("of a model of its own", other.returncode == 0 and weights(other) < 0.3 * 2 * 6738415616, other)
    launch.write_text(AXOLOTL + f"deepspeed: {settings}\n" + adapters["axolotl"])
    told = run("estimate", "--from", "deepspeed", launch, "--model", "llama-2-70b-qlora", "--cluster", "1x8:h100-sxm")
    check("of one that says it by itself", told.returncode == 0 and "llama-2-70b-qlora stores frozen matrices in nf4-double, of which the launch says nothing" in told.stderr, told)


@seen_elsewhere
def settings_of_a_program(folder):
    """A program that is given its settings in a file: as a word, or by trl's --config; the launcher has a file of its own."""
    model = folder / "config.json"
    model.write_text(json.dumps(CONFIG))
    (folder / "fsdp.yaml").write_text("distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\nnum_machines: 1\nnum_processes: 8\n")
    (folder / "sft.yaml").write_text("stage: sft\nfinetuning_type: lora\nlora_rank: 8\nlora_target: all\nquantization_bit: 4\ncutoff_len: 512\nper_device_train_batch_size: 2\nbf16: true\n")
    job = ("--model", model, "--cluster", "1x8:h100-sxm", "--json")
    for words in ("src/train.py sft.yaml", "src/train.py --config sft.yaml", "-m some.train sft.yaml --per_device_train_batch_size 4"):
        result = run("estimate", "--from", "accelerate-fsdp2", f"accelerate launch --config_file fsdp.yaml {words}", *job, cwd=folder)
        plan = json.loads(result.stdout)["decisions"] if result.returncode == 0 else {}
        check(f"{words}", plan.get("sequence") == 512 and plan.get("batch") == (32 if "4" in words else 16) and plan["layers"][0]["zero"] == 3, result)
    (folder / "four.yaml").write_text("adapter: lora\nlora_alpha: 16\ncutoff_len: 256\n")
    result = run("estimate", "--from", "accelerate-fsdp2", "accelerate launch --config_file fsdp.yaml src/train.py four.yaml sft.yaml", *job, cwd=folder)
    check("two files", result.returncode == 0 and json.loads(result.stdout)["decisions"]["sequence"] == 256 and json.loads(result.stdout)["decisions"]["batch"] == 16, result)
    result = run("estimate", "--from", "accelerate-fsdp2", "accelerate launch --config_file fsdp.yaml src/train.py gone.yaml", *job, cwd=folder)
    check("a file that is missing", result.returncode == 2 and "gone.yaml: the settings are in another file" in result.stderr, result)


def launches_that_shard_nothing(folder):
    """What axolotl, LLaMA-Factory and trl start without DeepSpeed and FSDP: each rank has all weights."""
    model = folder / "config.json"
    model.write_text(json.dumps(CONFIG))
    (folder / "a.yaml").write_text(AXOLOTL + "adapter: lora\nlora_r: 8\nlora_target_linear: true\nfsdp:\ndeepspeed:\n")
    (folder / "sft.yaml").write_text("stage: sft\nfinetuning_type: lora\nlora_rank: 8\nlora_target: all\ncutoff_len: 512\nper_device_train_batch_size: 2\nbf16: true\n")
    (folder / "ddp.yaml").write_text("distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 4\n")
    (folder / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": True}}))
    trl = "accelerate launch --config_file ddp.yaml sft.py --per_device_train_batch_size 2 --max_length 512 --use_peft"
    for words, devices, trained in (("a.yaml", 1, None), ("axolotl train a.yaml", 4, None), ("llamafactory-cli train sft.yaml", 4, None), ("accelerate launch --config_file ddp.yaml src/train.py sft.yaml", 4, None),
                                    ("torchrun --nproc_per_node 4 src/train.py sft.yaml", 4, None), (trl, 4, 4 * 16 * ((256 + 256) + (256 + 128))), (f"{trl} --lora_r 8 --lora_target_modules o_proj", 4, 4 * 8 * (256 + 256))):
        job = ("estimate", "--from", "accelerate-fsdp2", words, "--model", model, "--cluster", f"1x{devices}:h100-sxm")
        result, shown = run(*job, "--json", cwd=folder), run(*job, cwd=folder).stdout
        plan = json.loads(result.stdout)["decisions"] if result.returncode == 0 else {}
        check(words, plan and plan["layers"][0]["zero"] == 0 and plan["sequence"] == 512 and plan["stages"][0]["atoms"][0] == devices and (not trained or f" {trained} of them trainable" in shown), result)
    sent = run("estimate", "--from", "deepspeed", "a.yaml", "--model", model, "--cluster", "1x4:h100-sxm", cwd=folder)
    check("where DeepSpeed is sought", sent.returncode == 2 and "--from accelerate-fsdp2 reads launches without DeepSpeed" in sent.stderr, sent)
    alone = run("estimate", "--from", "deepspeed", "axolotl train a.yaml --deepspeed ds.json", "--model", model, "--cluster", "1x1:h100-sxm", "--json", cwd=folder)
    check("one device of DeepSpeed", alone.returncode == 0 and json.loads(alone.stdout)["decisions"]["layers"][0]["offload"] == "optimizer+parameters", alone)
    over = run("estimate", "--from", "deepspeed", "llamafactory-cli train sft.yaml deepspeed=ds.json cutoff_len=256 quantization_bit=4 lora_target=o_proj", "--model", model, "--cluster", "1x4:h100-sxm", cwd=folder)
    check("words over a file", over.returncode == 0 and "ZeRO 3" in over.stdout and "256 tokens" in over.stdout and f" {4 * 8 * (256 + 256)} of them trainable" in over.stdout and "frozen matrices in nf4-double" in over.stdout, over)
    gone = run("estimate", "--from", "deepspeed", "llamafactory-cli train sft.yaml deepspeed=gone.json", "--model", model, "--cluster", "1x4:h100-sxm", cwd=folder)
    (folder / "dpo.yaml").write_text((folder / "sft.yaml").read_text().replace("stage: sft", "stage: dpo"))
    for words, code in (("llamafactory-cli train dpo.yaml", 2), ("llamafactory-cli train dpo.yaml stage=sft", 0), ("llamafactory-cli train sft.yaml stage=rm", 2)):  # words go over the file
        method = run("estimate", "--from", "accelerate-fsdp2", words, "--model", model, "--cluster", "1x4:h100-sxm", cwd=folder)
        check(f"what {words} trains by", method.returncode == code and ("cleave prices pre-training and supervised fine-tuning" in method.stderr) == (code == 2), method)
    check("a file of words that is missing", gone.returncode == 2 and "gone.json" in gone.stderr, gone)
    misspelt = run("estimate", "--from", "accelerate-fsdp2", "axolotl train a.yaml --load_in_4bits true", "--model", model, "--cluster", "1x4:h100-sxm", "--json", cwd=folder)
    check("what is misspelt is told", "load_in_4bits = true" in json.loads(misspelt.stdout)["launch"]["not_understood"], misspelt)
    saved = run("estimate", "--from", "accelerate-fsdp2", "axolotl train a.yaml --lora_modules_to_save lm_head", "--model", model, "--cluster", "1x4:h100-sxm", cwd=folder)
    check("what else is trained", saved.returncode == 2 and "nothing else is trained" in saved.stderr, saved)


def files_that_a_script_takes_in(folder):
    """source FILE is read in place, from wherever the script says that it lies; what is not read is told with its line."""
    scripts = folder / "project" / "scripts"
    for place in (scripts / "conf", folder / "project" / "conf"):
        place.mkdir(parents=True)
    (scripts / "conf" / "sizes.sh").write_text('[ -n "$SIZES" ] && return\nSIZES=1\n. "$(dirname "${BASH_SOURCE[0]}")/more.env" 4\nMORE=(--pipeline-model-parallel-size $PP)\nreturn\nTP=8\n')
    (scripts / "conf" / "more.env").write_text('PP=2\nexport MBS=$1\nSIZES=2 source conf/sizes.sh\n')
    (folder / "project" / "conf" / "all.sh").write_text("MBS=1 MORE='--pipeline-model-parallel-size 4'\n")
    (scripts / "open.sh").write_text('set -- 8 8\nshift\nA="2\n')
    (scripts / "sizes.sh").write_text("MBS=8\n")
    launch = f"torchrun --nproc_per_node 8 pretrain_gpt.py {WORDS} --vocab-size 1024 --micro-batch-size ${{MBS:-2}} --tensor-model-parallel-size ${{TP:-1}} ${{MORE[@]}}\n"

    def job(head, words="bash scripts/run.sh 4", place=folder / "project"):
        (scripts / "run.sh").write_text(f"#!/bin/bash\n{head}\n{launch}")
        result = run("estimate", "--from", "megatron-lm", words, "--cluster", "1x8:h100-sxm", "--json", cwd=place)
        if result.returncode not in (0, 3):
            return result, None
        answer = json.loads(result.stdout)
        return result, (len(answer["decisions"]["stages"]), answer["decisions"]["micro_batch_size"], [one for one in answer["launch"]["not_understood"] if "not read" in one])

    for head in ('DIR=$(cd $(dirname "${BASH_SOURCE[0]}") && pwd); source $DIR/conf/sizes.sh', 'source "$(dirname "$0")/conf/sizes.sh"', '. conf/sizes.sh', 'D=`dirname $0`; [ -f $D/conf/sizes.sh ] && . $D/conf/sizes.sh',
                 'DIR="$( CDPATH= cd -- "$(dirname -- "$0")" &> /dev/null && pwd )"; source "${DIR}/../scripts/conf/sizes.sh"', 'source $SLURM_SUBMIT_DIR/scripts/conf/sizes.sh', 'cd "$(dirname "$0")/.."; source scripts/conf/sizes.sh',
                 'load() { source "${BASH_SOURCE%/*}/conf/$1.sh"; }; load sizes', 'source $PWD/conf/sizes.sh || exit 1', '(cd conf; true); source conf/sizes.sh',
                 'if ! source conf/sizes.sh; then exit 1; fi', 'while ! . conf/sizes.sh; do exit 1; done', 'time -p source conf/sizes.sh', 'command . conf/sizes.sh', 'builtin source -- conf/sizes.sh', 'eval "source conf/sizes.sh"', 'eval . conf/sizes.sh',
                 'load() { source conf/sizes.sh; }; if ! load; then exit 1; fi', 'cd conf; F=./sizes.sh; source $F', 'cd "$(dirname "$0")/.."; ROOT=$PWD; . ${ROOT%/}/scripts/conf/sizes.sh', 'D=${D:-$PWD/conf}; cd ..; for f in "$D"/sizes.sh; do . $f; done'):
        result, found = job(head)
        check(f"taken in by {head}", found and found[:2] == (2, 4) and "ends here" not in result.stdout, result)
    result, whole = job("source conf/sizes.sh")
    check("a file that takes in itself", whole and len(whole[2]) == 1 and whole[2][0].endswith("source conf/sizes.sh (line 3: not read, since it takes in itself, and variables that it sets are unknown)"), result)
    for words, place in (("bash scripts/run.sh", folder / "project"), ("scripts/run.sh", folder / "project")):
        result, found = job("source $(dirname $(dirname $(realpath $0)))/conf/all.sh", words, place)
        check(f"the folder above: {words}", found == (4, 1, []), result)
    result, found = job("# a\nsource $(dirname $0)/../conf/all.sh", "bash run.sh", scripts)
    check("outside of both", found == (1, 2, ["source $(dirname $0)/../conf/all.sh (line 3: not read, since it is outside of the script's folder: start this in one that holds both, and variables that it sets are unknown)"]), result)
    for head, why in (("source gone.sh", "no such file is there"), ("source $NOWHERE/a.sh", "its path is not known"), ("cd $NOWHERE; . conf/sizes.sh", "its path is not known"), (". conf", "it is no plain file"),
                      ("source /etc/passwd", "it is outside of the script's folder and of this one"), ("source open.sh", "open.sh:3: a quote"),
                      ("cd conf; load() { . $1; }; load sizes.sh", "its path is not known"), ("cd conf; F=sizes.sh; eval . $F", "its path is not known"), ("set -- 2 1; source open.sh; MBS=$1", "open.sh:3: a quote")):
        result, found = job(head)
        check(f"not read: {head}", found and found[:2] == (1, 2) and len(found[2]) == 1 and why in found[2][0], result)
    result, found = job('source gone.sh\nTP=$TENSOR; MORE="$MORE --tensor-model-parallel-size $WIDE"')
    check("an error says what was not read", "(the launch takes in scripts/gone.sh, which is not read: no such file is there)" in result.stderr, result)
    for head, told in (("source /etc/profile; source open.sh", "scripts/open.sh, which is not read: open.sh:3: a quote"), ("source $NOWHERE/a.sh; . gone.sh", "$NOWHERE/a.sh, which is not read: its path is not known)"), ("source /etc/passwd", "/etc/passwd, which is not read: it is outside")):
        result, found = job(f'{head}\nTP=$TENSOR; MORE="$MORE --tensor-model-parallel-size $WIDE"')
        check(f"an error after {head}", result.returncode == 2 and f"(the launch takes in {told}" in result.stderr, result)
    for name in (".env", ".secret"):
        (folder / "project" / name).write_text("MBS=1\n")
    result, found = job("source ../.env")
    check("an .env file in the folder above", found == (1, 1, []), result)
    result, found = job("source ../.secret")
    check("hidden in the folder above", found and found[1] == 2 and "it is hidden, and outside of the script's folder" in found[2][0], result)
    with (scripts / "vast.sh").open("wb") as vast:
        vast.truncate((8 << 20) + 1)
    (scripts / "wide.sh").write_text("MBS=1\n" + "A=$A$A\n" * 40)
    (scripts / "one.sh").write_text("MBS=1\n")
    for head, told in (("source vast.sh", ["it is larger than 8 MiB"]), ("A=abcdefgh; . wide.sh\n. one.sh\n. one.sh", ["the script's words grow beyond", "a file before it grew too large"])):
        result, found = job(head)
        check(f"too much: {head}", found and found[:2] == (1, 2) and len(found[2]) == len(told) and all(one in note for one, note in zip(told, found[2])), result)
    result, found = job(". one.sh\n" * 70)
    check("many files", found and found[1] == 1 and len(found[2]) == 1 and "(line 66: not read, since more than 64 files are taken in," in found[2][0], result)
    typed = run("estimate", "--from", "megatron-lm", f". conf/all.sh; {launch}", "--cluster", "1x8:h100-sxm", cwd=folder / "project")
    check("typed", typed.returncode == 0 and "pp 4" in typed.stdout, typed)


@seen_elsewhere
def words_from_files(folder):
    """What $(cat FILE) and readarray read is read too; where it is not, a launch that says no degree beside it has no price."""
    (folder / "par.txt").write_text("# four\n--tensor-model-parallel-size 4\n--sequence-parallel\n")
    (folder / "one.txt").write_text("--tensor-model-parallel-size 4 --sequence-parallel\n")

    def job(head, words, cluster="1x8:h100-sxm"):
        (folder / "run.sh").write_text(f"{head}\ntorchrun --nproc_per_node 8 pretrain_gpt.py {WORDS} --vocab-size 1024 --micro-batch-size 1 {words}\n")
        return run("estimate", "--from", "megatron-lm", folder / "run.sh", "--cluster", cluster)

    for head, words in (("P=$(cat one.txt)", "$P"), ("P=$(< one.txt)", "$P"), ('P="$(grep -v "^#" par.txt | xargs)"', "$P"), ("P=$(cat $PWD/par.txt | sed '/^#/d' | tr '\\n' ' ')", "$P"), ("readarray -t P < one.txt", "${P[@]}"),
                        ("mapfile -t P < <(grep -v '^#' par.txt)", "${P[@]}"), ("P=($(cat one.txt))", '"${P[@]}"'), ("", "$(cat one.txt)"), ("", "`cat one.txt`"), ("read -r -a P < one.txt", "${P[@]}")):
        result = job(head, words)
        check(f"read by {head}{words}", result.returncode == 0 and "tp+sp 4" in result.stdout and "not understood" not in result.stdout + result.stderr, result)
    for head, words, told in (("P=$(cat gone.txt)", "${P}", "run.sh:1) stands for is not known, and no other word of the launch says a degree above 1: write its words in its place (the launch takes in"),
                              ("P=($(python3 gen.py --tp 4))", "${P[@]}", "run.sh: what $(python3 gen.py --tp 4) ("), ("readarray -t P < /etc/hostname", "${P[@]}", "/etc/hostname, which is not read: it is outside of the script's folder and of this one)"),
                              ("", "$(sort par.txt)", "what $(sort par.txt) ("),
                              ("echo '--tensor-model-parallel-size 8' > ./one.txt\nP=$(cat one.txt)", "$P", "one.txt, which is not read: the script writes it itself)"),
                              ("gen | tee one.txt\nsource one.txt\nP=$(cat one.txt)", "$P", "one.txt, which is not read: the script writes it itself)")):
        result = job(head, words)
        check(f"not read by {head}{words}", result.returncode == 2 and told in result.stderr, result)
    result = job("P=$(python3 gen.py)", "--tensor-model-parallel-size 2 $P")
    check("degrees beside it", result.returncode == 0 and "$P (line 2: what it stands for is not known" in result.stdout + result.stderr, result)
    result = run("estimate", "--from", "megatron-lm", f"torchrun --nproc_per_node 1 pretrain_gpt.py {WORDS} --vocab-size 1024 --micro-batch-size 1 $(gen)", "--cluster", "1x1:h100-sxm")
    check("one device has no degrees", result.returncode == 0, result)


def names_that_are_slips(folder):
    """A framework in capitals is found; others' options, flavors of models and texts for numbers are told with what to type."""
    result = run("estimate", "--from", "Megatron-LM", f"{WORDS} --micro-batch-size 2 --vocab-size 1024", "--cluster", "1x8:h100-sxm")
    check("capitals", result.returncode == 0, result)
    for names, hint in (("axolotl trl LLaMA-Factory llamafactory trainer", "read by --from deepspeed where they name DeepSpeed, and else by --from accelerate-fsdp2"), ("fsdp fsdp2", "read by --from accelerate-fsdp2, torchtitan's by --from torchtitan"),
                        ("nemo", "--from megatron-bridge reads recipes"), ("torchtune verl", "nothing reads its files: state the degrees, cleave estimate MODEL --cluster"), ("something", None)):
        for name in names.split():
            expect(f"--from {name}", 2, f"expected one of megatron-lm, [a-z0-9, -]+; found '{name}'" + (f": .*{hint}" if hint else "\n"), "estimate", "--from", name, "a.yaml", "--cluster", "1x8:h100-sxm")
    for word, plan, estimate in (("gpus", "cluster", "cluster"), ("mbs", "fix micro-batch=VALUE", "micro-batch"), ("tp_size", "fix tp=VALUE", "tp"), ("tensor-parallel", "fix tp=VALUE", "tp"), ("gbs", "batch", "batch"),
                                 ("pipeline-model-parallel-size", "fix pp=VALUE", "pp"), ("seq-len", "seq", "seq"), ("global-batch-size", "batch", "batch"), ("context-length", "seq", "seq"), ("max_seq_len", "seq", "seq"), ("pipeline-schedule", "schedule", "schedule"),
                                 ("tensor_parallel_degree", "fix tp=VALUE", "tp"), ("nproc-per-node", "cluster", "cluster")):
        for verb, meant in (("plan", plan), ("estimate", estimate)):
            expect(f"{verb} --{word}", 2, f"unknown option --{word}; did you mean --{meant}.", verb, f"--{word}", 8)
    for word, wrong in (("tensorboard-dir", "tp"), ("expert-tensor-parallel-size", "ep"), ("node-memory", "cluster"), ("precision-aware-optimizer", "dtype")):
        result = run("estimate", f"--{word}", 8)
        check(f"not {wrong}: --{word}", result.returncode == 2 and "unknown option" in result.stderr and f"mean --{wrong}?" not in result.stderr, result)
    file = folder / "train.toml"

    def titan(flavor="8B", optimizer="AdamW", tensor="8", *more):
        file.write_text(f'[model]\nname = "llama3"\nflavor = "{flavor}"\n[optimizer]\nname = "{optimizer}"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\ntensor_parallel_degree = {tensor}\n')
        return run("estimate", "--from", "torchtitan", file, "--cluster", "1x8:h100-sxm", *more)

    result = titan()
    check("as torchtitan has it", result.returncode in (0, 3), result)
    for given, message in ((("8b",), "train.toml:3:1: model.flavor: found 8b, did you mean 8B; known are 8B, 70B, 405B"), (("13B",), "model.flavor = 13B, whose sizes are not known: of llama3 those of 8B, 70B, 405B are"),
                           (("8B", "Adamw"), "optimizer.name: found Adamw, did you mean AdamW; known are AdamW and Adam"), (("8B", "AdamW", '"8"'), 'tensor_parallel_degree: expected a whole number from 1 to 1048576, found "8"')):
        result = titan(*given)
        check(f"torchtitan {given}", result.returncode == 2 and message in result.stderr, result)
    for lines, slip, meant in (("[parallelism]\nexpert_parallel_degre = 8", "parallelism.expert_parallel_degre", "parallelism.expert_parallel_degree"), ("[training]\nlocal_batch_sise = 8", "training.local_batch_sise", "training.local_batch_size"),
                               ("[paralelism]\ntensor_parallel_degree = 8", "paralelism.tensor_parallel_degree", "parallelism.tensor_parallel_degree"), ("[activation_checkpoint]\nmod = 'full'", "activation_checkpoint.mod", "activation_checkpoint.mode")):
        file.write_text(f'[model]\nname = "llama3"\nflavor = "8B"\n{lines}\n')
        expect(f"torchtitan {slip}", 2, f"train.toml:5:1: {slip}: torchtitan 0.3.0 has no such setting: did you mean {meant}.", "estimate", "--from", "torchtitan", file, "--cluster", "1x8:h100-sxm")
    file.write_text('[model]\nname = "llama3"\nflavor = "8B"\n[parallelism]\nenable_async_tensor_parallel = false\n[profiler]\nenabled = true\n[training]\nlocal_batch_size = 1\n')
    result = run("estimate", "--from", "torchtitan", file, "--cluster", "1x8:h100-sxm")
    check("names of other releases", result.returncode in (0, 3) and "did you mean" not in result.stderr, result)
    recipe = folder / "recipe.py"

    def bridge(*lines):
        recipe.write_text("cfg = llama3_8b_pretrain_config()\n" + "\n".join(lines) + "\n")
        return run("estimate", "--from", "megatron-bridge", recipe, "--cluster", "1x8:h100-sxm")

    for lines, message in ((("cfg.model.tensor_model_paralel_size = 2",), "recipe.py:2: model.tensor_model_paralel_size is no setting of Megatron-Bridge: did you mean model.tensor_model_parallel_size?"),
                           (("cfg.train.global_batch_sise = 2",), "did you mean train.global_batch_size?"),
                           (("cfg.model.seq_length = 8192", "cfg.dataset.sequence_length = 4096"), "recipe.py: Megatron-Bridge refuses it: model.seq_length 8192 is that of the dataset, found 4096")):
        result = bridge(*lines)
        check(f"Megatron-Bridge {lines}", result.returncode == 2 and message in result.stderr, result)
    result = bridge("cfg.model.seq_length = 4096", "cfg.dataset.sequence_length = 4096", "cfg.train.train_iters = 3")
    check("lengths that are one", result.returncode in (0, 3) and "did you mean" not in result.stderr, result)


@seen_elsewhere
def scripts_in_python(folder):
    """What a script in Python trains with is not read but of recipes: one sentence says what is, and what to type."""
    script = folder / "train.py"
    trainer = 'import torch\nfrom transformers import Trainer, TrainingArguments\ndef main():\n    args = TrainingArguments(output_dir="out", bf16=True{})\n    Trainer(args=args).train()\nmain()\n'
    nemo = "import nemo_run as run\nfrom nemo.collections import llm\ndef configure():\n    recipe = llm.mixtral_8x7b.pretrain_recipe(num_nodes=4)\n    recipe.trainer.strategy.tensor_model_parallel_size = 2\n    return recipe\n"
    plain = "# a\n\nimport torch\nfrom torch.distributed.fsdp import fully_shard\nfully_shard(model)\n"
    for text, targets, message in ((trainer.format(', deepspeed="z3.json"'), ("deepspeed", "accelerate-fsdp2", "megatron-lm", "torchtitan", "nnscaler"), "TrainingArguments are not read: write them as arguments, --from deepspeed .deepspeed train.py --deepspeed"),
                                   (trainer.format(""), ("accelerate-fsdp2", "deepspeed", "megatron-bridge"), "--from accelerate-fsdp2 .accelerate launch --config_file fsdp.yaml train.py"),
                                   (nemo, ("megatron-bridge", "megatron-lm", "torchtitan"), "found one of NeMo 2 in Python, which is not read: write what it sets as Megatron-LM.s arguments"),
                                   (plain, ("accelerate-fsdp2", "deepspeed", "megatron-lm", "nnscaler"), "found one in Python, which [a-z0-9-]+ does not read")):
        script.write_text(text)
        for target in targets:
            expect(f"{message[:20]} {target}", 2, f"train.py: expected .*{message}", "estimate", "--from", target, script, "--cluster", "1x8:h100-sxm")
    script.write_text(trainer.format("").replace("Trainer(args", "DPOTrainer(args"))
    expect("trl's other trainers", 2, "train.py: expected .*training by preferences, rewards or a teacher runs further models", "estimate", "--from", "accelerate-fsdp2", script, "--cluster", "1x8:h100-sxm")
    other = folder / "train"
    other.write_text(plain)
    expect("without its ending", 2, "train: expected .*found one in Python", "estimate", "--from", "deepspeed", other, "--cluster", "1x8:h100-sxm")


def stated_devices(folder):
    """Nodes and devices that a launch states are those of the cluster, by whatever word it states them."""
    (folder / "ds.json").write_text('{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}')
    (folder / "sft.yaml").write_text("stage: sft\nfinetuning_type: full\ncutoff_len: 512\nper_device_train_batch_size: 1\nbf16: true\npacking: true\ndeepspeed: ds.json\n")
    ending = "train.py --deepspeed ds.json --bf16 --per_device_train_batch_size 1 --max_length 512\n"
    for launch, devices, fitting in ((f"deepspeed --num_nodes 2 --hostfile hosts {ending}", 16, "2x8"), (f"deepspeed --include localhost:0,1,3 {ending}", 3, "1x3"), (f"deepspeed --include one@two:0,2 {ending}", 10, None),
                                     ("FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=0 llamafactory-cli train sft.yaml\n", 16, "2x8"), ("export NNODES=4\nNPROC_PER_NODE=2 llamafactory-cli train sft.yaml\n", 8, "4x2")):
        (folder / "start.sh").write_text(launch)
        result = run("estimate", "--from", "deepspeed", folder / "start.sh", "--model", "llama-3-8b", "--cluster", "4x8:h100-sxm")
        check(f"{launch} on 32", result.returncode == 2 and f"the launch is for {devices} devices, the cluster has 32" in result.stderr, result)
        result = fitting and run("estimate", "--from", "deepspeed", folder / "start.sh", "--model", "llama-3-8b", "--cluster", f"{fitting}:h100-sxm")
        check(f"{launch} on {devices}", not result or f"llama-3-8b on {devices} devices" in result.stdout, result)
    launch = f"#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=4\nsrun python pretrain_gpt.py {WORDS} --vocab-size 1024 --micro-batch-size 1\n"
    (folder / "start.sh").write_text(launch)
    for cluster, nodes, each in (("2x8:h100-sxm", 2, 8), ("4x4:h100-sxm", 4, 4)):
        result = run("estimate", "--from", "megatron-lm", folder / "start.sh", "--cluster", cluster)
        for option, asked, here, line in (("nodes", 4, nodes, 2), ("gpus-per-node", 4, each, 3)):
            check(f"--{option} on {cluster}", result.returncode == 0 and (f"#SBATCH --{option}={asked} (line {line}: the cluster that it is priced on has {here})" in result.stderr) == (asked != here), result)


@seen_elsewhere
def few_micro_batches(folder):
    """A pipeline that is priced by few of its micro-batches takes what the simulator takes for all, also where stages hand on parts of the sequence."""
    launch = ("--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 "
              "--micro-batch-size 1 --global-batch-size 128 --swiglu --normalization RMSNorm --bf16 --vocab-size 128256 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
              "--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights --tensor-model-parallel-size 4 --sequence-parallel --pipeline-model-parallel-size 4 "
              "--context-parallel-size 2 --num-layers-per-virtual-pipeline-stage 5")
    result = run("estimate", "--from", "megatron-lm", launch, "--cluster", "8x8:h100-sxm", "-o", folder / "plan.json")
    whole = run("simulate", folder / "plan.json", "--json")
    said = json.loads((folder / "plan.json").read_text())["predicted"]["step_s"] if result.returncode == 0 else 0
    took = json.loads(whole.stdout)["step_s"] if whole.returncode == 0 else 1
    check("few were simulated", "micro-batches simulated" in result.stdout, result)
    check(f"{said} s said, {took} s taken", abs(said / took - 1) < 0.01, whole)


@seen_elsewhere
def options_beside_a_launch(folder):
    """A batch or a length that is typed goes before the launch's own, and that is said."""
    launch = f"{WORDS} --micro-batch-size 2 --vocab-size 1024"
    result = run("estimate", "--from", "megatron-lm", launch, "--cluster", "1x8:h100-sxm", "--batch", 32, "--seq", 64)
    check("overruled", result.returncode == 0 and "note: --batch 32 goes before the launch's 16" in result.stderr and "note: --seq 64 goes before the launch's 128" in result.stderr, result)
    result = run("estimate", "--from", "megatron-lm", launch, "--cluster", "1x8:h100-sxm", "--batch", 16)
    check("the same", result.returncode == 0 and "goes before" not in result.stderr, result)
    told = "note: the launch says no length of its sequences: it is priced with the model's longest, 1024 tokens; --seq says another"
    for words, more, said in (("", (), False), (" --max_length 512", (), True), ("", ("--seq", 256), True)):  # gpt2 has 1024 positions
        result = run("estimate", "--from", "deepspeed", f"deepspeed t.py --zero_stage 2 --bf16 --per_device_train_batch_size 1{words}", "--model", "gpt2", "--cluster", "1x8:h100-sxm", *more)
        check(f"a length {words} {more}", result.returncode == 0 and (told in result.stderr) != said, result)


@seen_elsewhere
def megatron_words(folder):
    """What is no argument any more is said with what it did, and a batch that does not divide with its numbers."""
    job = ("--cluster", "1x8:h100-sxm", "--vocab-size", 1024)
    expect("checkpoint-activations", 2, "use --recompute-granularity full --recompute-method uniform, which is what it did", "estimate", "--from", "megatron-lm", f"{WORDS} --checkpoint-activations", *job)
    expect("batch-divides", 2, "found: a batch of 16, micro-batches of 4 on 8 data-parallel ranks", "estimate", "--from", "megatron-lm", f"{WORDS} --micro-batch-size 4", *job)
    expect("an empty stage", 2, "the launch.s layout: stage 1 of 4, counted from 0, is empty, which cannot be priced", "estimate", "--from", "megatron-lm", f"{WORDS} --micro-batch-size 2 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Ettt||t|L'", *job)
    both = folder / "both.sh"
    both.write_text(f"torchrun pretrain_gpt.py {WORDS} --vocab-size 1000 --micro-batch-size 1\ntorchrun pretrain_gpt.py {WORDS} --vocab-size 1000 --micro-batch-size 2\n")
    result = run("estimate", "--from", "megatron-lm", both, "--cluster", "1x8:h100-sxm")
    check("two launches", result.returncode == 0 and "micro-batch of 2 " in result.stdout and "1 more launches in it: what says most is priced, of equals the last" in result.stdout + result.stderr, result)
    for word in ("--is-hybrid-model", "--language-model-type mistral_7b"):
        expect(f"another model: {word}", 2, "the launch does not describe the model by its sizes, hybrid or with an encoder as it is", "estimate", "--from", "megatron-lm", f"{WORDS} --micro-batch-size 2 {word}", "--cluster", "1x8:h100-sxm")
    shards = f"{WORDS} --micro-batch-size 2 --use-distributed-optimizer --context-parallel-size 4 --num-distributed-optimizer-instances"
    expect("groups of shards within context parallelism", 2, "4: groups of shards that part the 4 ranks of context parallelism are not planned: expected a divisor of the 2 data-parallel", "estimate", "--from", "megatron-lm", f"{shards} 4", *job)
    expect("groups of shards that do not divide", 2, "divides the data- and context-parallel ranks .optimizer-instances", "estimate", "--from", "megatron-lm", f"{shards} 3", *job)
    launch = f"{WORDS} --micro-batch-size 2 --vocab-size 1024 --fp8-format hybrid --fp8-recipe mxfp8"
    expect("mxfp8 before Blackwell", 2, "mxfp8: expected devices of compute capability 10.0, such as b200-sxm", "estimate", "--from", "megatron-lm", launch, "--cluster", "1x8:h200-sxm")
    result = run("estimate", "--from", "megatron-lm", launch, "--cluster", "1x8:gb200")
    check("mxfp8 on Blackwell", result.returncode == 0, result)


main(script_with_arguments, vocabulary_beside_a_launch, sizes_of_another_model, deepspeed_keys, deepspeed_beside_the_trainer, trainers_configurations, quantized_launches, settings_of_a_program, launches_that_shard_nothing, options_beside_a_launch, files_that_a_script_takes_in, words_from_files, names_that_are_slips, scripts_in_python, megatron_words, stated_devices, few_micro_batches)
