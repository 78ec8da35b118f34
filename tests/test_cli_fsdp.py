#!/usr/bin/env python3
"""FSDP as accelerate, the Trainer and axolotl are told of it, in the files and words of their users. usage: test_cli_fsdp.py CLEAVE SOURCE_ROOT"""
import json

from calls import check, expect, main, run, seen_elsewhere

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1024,
          "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}
TRAINER = "torchrun --nproc_per_node 8 train.py --bf16 --per_device_train_batch_size 1 --gradient_accumulation_steps 1 --max_length 512"


def priced(folder, launch, cluster="1x8:h100-sxm", target="accelerate-fsdp2"):
    """The result, its plan's first layer, and what was not understood."""
    model = folder / "config.json"
    model.write_text(json.dumps(CONFIG))
    result = run("estimate", "--from", target, launch, "--model", model, "--cluster", cluster, "--json", cwd=folder)
    said = json.loads(result.stdout) if result.returncode in (0, 3) else {"decisions": {"layers": [{}]}, "launch": {"not_understood": None}}
    return result, said["decisions"]["layers"][0], said["launch"]["not_understood"]


def files_of_the_trainer(folder):
    """The Trainer's fsdp_config is a file in JSON, the settings themselves, or a mapping: all say the same, over what accelerate is told."""
    (folder / "conf").mkdir()
    (folder / "conf" / "fsdp.json").write_text(json.dumps({"version": 2, "fsdp_transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"], "activation_checkpointing": True, "cpu_offload": True}))
    (folder / "fsdp.yaml").write_text("distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_offload_params: false\n")
    factory = "stage: sft\nfinetuning_type: full\ncutoff_len: 512\nper_device_train_batch_size: 1\nbf16: true\nfsdp: full_shard auto_wrap\n"
    (folder / "named.yaml").write_text(factory + "fsdp_config: conf/fsdp.json\n")
    (folder / "mapped.yaml").write_text(factory + "fsdp_config:\n  version: 2\n  activation_checkpointing: true\n  cpu_offload: true\n")
    inside = TRAINER + """ --fsdp --fsdp_config '{"fsdp_version": 2, "fsdp_activation_checkpointing": true, "offload_params": true}'"""
    over = "accelerate launch --config_file fsdp.yaml train.py --per_device_train_batch_size 1 --max_length 512"
    for launch in (f"{TRAINER} --fsdp 'full_shard auto_wrap' --fsdp_config conf/fsdp.json", f"{TRAINER} --fsdp --fsdp_config=conf/fsdp.json", inside, "named.yaml", "llamafactory-cli train mapped.yaml",
                   f"{over} --fsdp 'full_shard auto_wrap' --fsdp_config conf/fsdp.json"):
        result, layer, unknown = priced(folder, launch)
        check(f"{launch}: {layer} {unknown}", layer.get("zero") == 3 and layer["recompute"] == "block" and layer["offload"] == "optimizer+parameters" and unknown == [], result)
    for launch, offload in ((over, "none"), (over.replace("train.py", "--fsdp_offload_params true train.py"), "optimizer+parameters")):  # accelerate's options go over its file
        result, layer, unknown = priced(folder, launch)
        check(f"{launch}: {layer}", layer.get("zero") == 3 and layer.get("offload", "none") == offload, result)
    result, layer, unknown = priced(folder, f"{TRAINER} --fsdp_config conf/fsdp.json")
    check("a file without --fsdp", layer.get("zero") == 0 and unknown == ["fsdp_config (the Trainer reads it beside --fsdp alone)"], result)
    result, layer, unknown = priced(folder, f"{TRAINER} --fsdp 'full_shard auto_wrap offload'")
    check("the word offload", layer.get("offload") == "optimizer+parameters" and "offload" not in str(unknown), result)
    (folder / "ddp.yaml").write_text("distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 8\n")
    result, layer, unknown = priced(folder, over.replace("fsdp.yaml", "ddp.yaml") + " --fsdp 'full_shard auto_wrap'")
    check("the Trainer shards where accelerate was not told to", layer.get("zero") == 3, result)
    (folder / "conf" / "bad.json").write_text('{\n  "version": 2,\n  "offload_params" true\n}\n')
    for words, message in (("--fsdp --fsdp_config conf/gone.json", "launch:1:[0-9]+: fsdp_config: the settings are in another file: conf/gone.json"), ("--fsdp_config conf/gone.json", "conf/gone.json"),
                           ("--fsdp --fsdp_config conf/bad.json", "conf/bad.json:3:20"), ("--fsdp --fsdp_config fsdp.yaml", "fsdp_config: expected a file, NAME.json, or its settings, .*, found fsdp.yaml"),
                           ("--fsdp --fsdp_config '{\"version\": 2,}'", "launch:1:[0-9]+: fsdp_config:1:15: "), ("--fsdp 'full_shart auto_wrap'", "fsdp: expected full_shard, .* or auto_wrap, found full_shart")):
        expect(words, 2, message, "estimate", "--from", "accelerate-fsdp2", f"{TRAINER} {words}", "--model", folder / "config.json", "--cluster", "1x8:h100-sxm", cwd=folder)


@seen_elsewhere
def keys_of_sections(folder):
    """A key that a section should not have, and one whose value has no price, is told with its place; what changes nothing is not."""
    (folder / "keys.yaml").write_text("distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_reshard_after_foward: false\n"
                                      "  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_use_orig_params: true\n  fsdp_backward_prefetch: BACKWARD_POST\n  frobnicate: 5\n  fsdp_ignored_modules: null\n  fsdp_cpu_offload_pin_memory: true\n"
                                      "accelerator_config:\n  even_batches: false\n  split_batches: true\nmodel_init_kwargs:\n  dtype: float16\n")
    result, layer, unknown = priced(folder, "accelerate launch --config_file keys.yaml train.py --per_device_train_batch_size 1 --max_length 512")
    check(f"keys: {unknown}", unknown == ["fsdp_config.fsdp_reshard_after_foward = false", "fsdp_backward_prefetch = BACKWARD_POST", "fsdp_config.frobnicate = 5", "accelerator_config.split_batches = true", "model_init_kwargs.dtype = float16"],
          result)
    (folder / "plain.yaml").write_text("distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n  fsdp_surprise: 1\n")
    result, layer, unknown = priced(folder, "accelerate launch --config_file plain.yaml train.py --per_device_train_batch_size 1 --max_length 512")
    check(f"nobody shards: {unknown}", layer.get("zero") == 0 and unknown == ["fsdp_config.fsdp_surprise = 1"], result)
    (folder / "zero.yaml").write_text("distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 2\n  zero3_init_flag: false\n  zero3_surprise: 1\n")
    result, layer, unknown = priced(folder, "accelerate launch --config_file zero.yaml train.py --per_device_train_batch_size 1 --max_length 512", target="deepspeed")
    check(f"DeepSpeed's section: {unknown}", layer.get("zero") == 2 and unknown == ["deepspeed_config.zero3_surprise = 1"], result)


@seen_elsewhere
def deepspeed_of_the_trainer(folder):
    """Where the Trainer names DeepSpeed's file, accelerate's own, which starts processes alone, says how many there are, and its target is DeepSpeed's."""
    (folder / "several.yaml").write_text("distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 8\n")
    (folder / "z3.json").write_text(json.dumps({"bf16": {"enabled": True}, "zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}))
    words = "train.py --deepspeed z3.json --bf16 --per_device_train_batch_size 1 --max_length 512"
    for launch in (f"accelerate launch --config_file several.yaml {words}", f"accelerate launch --multi_gpu --num_processes 8 {words}", f"torchrun --nproc_per_node 8 {words}"):
        result, layer, unknown = priced(folder, launch, target="deepspeed")
        check(f"{launch}: {layer} {unknown}", layer.get("zero") == 3 and not [one for one in unknown if "distributed_type" in one or "num_processes" in one], result)
        expect(launch, 2, "launch:1:[0-9]+: deepspeed: DeepSpeed shards, not FSDP: --from deepspeed reads it", "estimate", "--from", "accelerate-fsdp2", launch, "--model", folder / "config.json", "--cluster", "1x8:h100-sxm", cwd=folder)
    expect("accelerate's file counts processes", 2, "the launch is for 8 devices, the cluster has 4", "estimate", "--from", "deepspeed", f"accelerate launch --config_file several.yaml {words}", "--model", folder / "config.json", "--cluster", "1x4:h100-sxm", cwd=folder)
    expect("accelerate alone", 2, "distributed_type: expected DEEPSPEED, found MULTI_GPU, which shards nothing: --from accelerate-fsdp2 reads it", "estimate", "--from", "deepspeed",
           "accelerate launch --config_file several.yaml train.py --per_device_train_batch_size 1 --zero_stage 2", "--model", folder / "config.json", "--cluster", "1x8:h100-sxm", cwd=folder)


@seen_elsewhere
def lengths_of_trainers(folder):
    """Where nobody says a length, LLaMA-Factory, axolotl and trl have their own, which the note names; of another script it is the model's longest."""
    model = folder / "long.json"
    model.write_text(json.dumps(CONFIG | {"max_position_embeddings": 4096}))
    (folder / "factory.yaml").write_text("stage: sft\nfinetuning_type: full\nper_device_train_batch_size: 1\nbf16: true\n")
    (folder / "axolotl.yaml").write_text("base_model: a/b\nmicro_batch_size: 1\n")
    (folder / "words.yaml").write_text("per_device_train_batch_size: 1\nbf16: true\n")
    words = "--per_device_train_batch_size 1 --bf16"
    for launch, tokens, note in (("factory.yaml", 2048, "LLaMA-Factory's cutoff_len"), ("llamafactory-cli train words.yaml", 2048, "LLaMA-Factory's cutoff_len"), ("axolotl.yaml", 512, "axolotl's sequence_len"),
                                 ("axolotl train axolotl.yaml", 512, "axolotl's sequence_len"), (f"trl sft {words}", 1024, "trl's max_length"), (f"accelerate launch --multi_gpu trl/scripts/sft.py {words}", 1024, "trl's max_length"),
                                 (f"accelerate launch --multi_gpu -m trl.scripts.sft {words}", 1024, "trl's max_length"), (f"accelerate launch --multi_gpu train.py {words}", 4096, "the model's longest"),
                                 (f"trl sft {words} --max_length 256", 256, None)):
        for target, more in (("accelerate-fsdp2", ""), ("deepspeed", " --deepspeed z3.json")):
            if target == "deepspeed" and launch.endswith(".yaml"):
                continue
            result = run("estimate", "--from", target, launch + more, "--model", model, "--cluster", "1x8:h100-sxm", cwd=folder)
            check(f"{target} {launch}", f"sequences of {tokens} tokens" in result.stdout and (note in result.stderr and "--seq says another" in result.stderr if note else "no length" not in result.stderr), result)
    result = run("estimate", "--from", "accelerate-fsdp2", "axolotl.yaml", "--model", model, "--cluster", "1x8:h100-sxm", "--seq", 128, cwd=folder)
    check("--seq goes before", "sequences of 128 tokens" in result.stdout and "no length" not in result.stderr, result)
    result = run("estimate", "--from", "accelerate-fsdp2", "factory.yaml", "--model", "gpt2", "--cluster", "1x8:h100-sxm", cwd=folder)
    check("no longer than the model's longest", "sequences of 1024 tokens" in result.stdout and "the model's longest, 1024 tokens" in result.stderr, result)


main(files_of_the_trainer, keys_of_sections, deepspeed_of_the_trainer, lengths_of_trainers)
