#!/usr/bin/env python3
"""From a config.json to a model: what is assumed, adapters beside it, weights held against it. usage: test_cli_import.py CLEAVE SOURCE_ROOT"""
import json
import os
import struct

from calls import check, main, run, seen_elsewhere

LLAMA = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 256}


def said(name, status, message, *arguments):
    """What is said to people, whether or not it succeeds."""
    result = run(*arguments)
    check(name, result.returncode == status and message in result.stderr + result.stdout * (arguments[0] == "plan"), result)


@seen_elsewhere
def assumed(folder):
    bare, strange = folder / "bare.json", folder / "strange.json"
    bare.write_text(json.dumps(LLAMA))
    strange.write_text(json.dumps({**LLAMA, "model_type": "zebra"}))
    job = ["plan", bare, "--cluster", "1x1:h100-sxm", "--batch", 1]
    said("no length, planned", 0, "note: the file says no max_position_embeddings", *job)
    result = run(*job, "--seq", 1024)
    check("a length that is given", result.returncode == 0 and "max_position_embeddings" not in result.stderr, result)
    said("no length", 0, "note: the file says no max_position_embeddings: sequences of 2048 tokens", "import", bare, "-o", folder / "m.json")
    strange.write_text(json.dumps({**LLAMA, "quantization_config": {"quant_method": "fp8"}}))
    said("quantized weights", 0, "weights are planned as trained in the plan's dtype, not as the file has them", "import", strange, "-o", folder / "m.json")
    strange.write_text(json.dumps({**LLAMA, "model_type": "zebra"}))
    said("a length", 0, "115008 parameters, sequences of 8192 tokens", "import", bare, "--seq", 8192, "-o", folder / "m.json")
    check("it is the model's", json.loads((folder / "m.json").read_text())["sequence"] == 8192)
    said("a plan of it", 0, "micro-batch", "plan", folder / "m.json", "--cluster", "1x2:cpu", "--batch", 8, "--seq", 16, "--dtype", "fp32")
    said("unknown", 2, 'has the model_type "zebra"; the nearest is llama: cleave import FILE --as llama reads', "import", strange)
    for newer, known in (("qwen4", "qwen3"), ("qwen4_moe", "qwen3_moe"), ("glm9_moe", "glm4_moe"), ("deepseek_v99", "deepseek_v4")):
        strange.write_text(json.dumps({**LLAMA, "model_type": newer}))
        said(f"a version to come: {newer}", 2, f"the nearest is {known}: cleave import", "import", strange)
    strange.write_text(json.dumps({**LLAMA, "model_type": "zebra"}))
    said("as another", 0, "read as llama, as --as says", "import", strange, "--as", "llama", "-o", folder / "m.json")
    said("as none", 2, 'has the model_type "lama"; the nearest is llama', "import", strange, "--as", "lama")


@seen_elsewhere
def sounds(folder):
    """An encoder of sound reads more positions than are planned, which stands beside each prediction."""
    whisper = {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
               "decoder_attention_heads": 2, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_target_positions": 64, "vocab_size": 512, "num_mel_bins": 80, "is_encoder_decoder": True}
    (folder / "whisper.json").write_text(json.dumps({**whisper, "max_source_positions": 200}))
    (folder / "short.json").write_text(json.dumps({**whisper, "max_source_positions": 64}))
    run("import", folder / "whisper.json", "-o", folder / "m.json")
    job = ["--cluster", "1x2:h100-sxm", "--batch", 8, "--micro-batch", 1]
    for words, ratio in (([], 3.1), (["--seq", 50], 4.0)):
        result = run("estimate", folder / "m.json", *job, *words)
        check(f"its work {words}", f"has up to 200: with all of them its work and its activations are at least {ratio} times" in result.stdout, result)
    for model in (folder / "short.json", "t5-small"):
        result = run("estimate", model, *job)
        check(f"as many positions {model}", result.returncode == 0 and "the encoder is planned" not in result.stdout, result)


def quantized_matrices(folder, job):
    """What frozen matrices are stored in, by the file and by --quantized; nothing runs them."""
    config, model = folder / "config.json", folder / "q.json"
    config.write_text(json.dumps({**LLAMA, "quantization_config": {"load_in_4bit": True}}))
    forms, held = ("none", "nf4", "nf4-double", "int4", "int8"), {}
    for form in forms + (None,):
        said(f"--quantized {form}", 0, "are trained", "import", config, *(("--quantized", form) if form else ()), "-o", model)
        layers = json.loads(model.read_text())["layers"]
        kinds = {layer["kind"]: layer.get("quantized", "none") for layer in layers + layers[1]["layers"] if "kind" in layer}
        check(f"stored in {form}", kinds["attention"] == kinds["mlp"] == (form or "nf4") and kinds["embedding"] == kinds["head"] == "none")
        result = run("estimate", model, *job, "--micro-batch", 1, "--json")
        held[form] = json.loads(result.stdout)["predicted"]["fullest_stage_bytes"]["weights"] if result.returncode == 0 else result
    check("fewer bits take less", held["none"] > held["int8"] > held["nf4"] > held["int4"] >= held["nf4-double"] and held[None] == held["nf4"])
    run("import", config, "--quantized", "none", "-o", folder / "plain.json")
    run("import", folder / "plain.json", "--quantized", "int8", "-o", folder / "native.json")
    check("a native file", json.loads((folder / "native.json").read_text())["layers"][1]["layers"][0]["quantized"] == "int8")
    said("a native file without adapters", 2, "expected adapters, found none", "import", "tiny-llama", "--quantized", "nf4")
    said("no such form", 2, "--quantized: expected one of none, nf4, nf4-double, int4, int8; found 'nf5'", "import", config, "--quantized", "nf5")
    run("plan", model, "--cluster", "1x2:cpu", "--batch", 8, "--seq", 64, "--dtype", "fp32", "-o", folder / "q.plan")
    said("nothing runs it", 2, "1.attention", "run", folder / "q.plan")
    (folder / "adapter_config.json").rename(folder / "away.json")
    said("nothing is frozen", 2, "expected adapters, found none: what is trained is not stored in nf4", "import", config, "--quantized", "nf4")
    (folder / "away.json").rename(folder / "adapter_config.json")
    said("adapters by name", 0, "2048 of them trainable", "plan", config, "--cluster", "1x8:h100-sxm", "--batch", 8, "--seq", 64, "--target", "deepspeed", "--launch", folder / "ds")
    script = (folder / "ds" / "train.py").read_text()
    check("a script that quantizes", "BitsAndBytesConfig(" in script and "load_in_4bit=True" in script and "bnb_4bit_use_double_quant=False" in script, script)
    compile(script, "train.py", "exec")
    check("blocks stay units of FSDP", "def _fsdp_qlora_plugin_updates(self):" in script and "    AdapterTrainer(model=model" in script, script)
    readme = (folder / "ds" / "README.md").read_text()
    check("a README of adapters", "Adapters of rank 4 alone are trained" in readme and "stored in nf4 as they are loaded" in readme, readme)
    run("import", config, "--quantized", "int8", "-o", model)
    said("8 bits are not shared out", 3, "rule quantized requires", "plan", model, "--cluster", "1x8:h100-sxm", "--batch", 8, "--seq", 64, "--target", "accelerate-fsdp2")
    run("import", config, "--quantized", "int4", "-o", model)
    run("plan", model, "--cluster", "1x8:h100-sxm", "--batch", 8, "--seq", 64, "--target", "deepspeed", "--launch", folder / "gptq")
    check("what checkpoints have", "BitsAndBytesConfig" not in (folder / "gptq" / "train.py").read_text() and "whose matrices GPTQ or AWQ quantized" in (folder / "gptq" / "README.md").read_text())
    run("import", config, "--quantized", "int8", "-o", model)
    said("what all of a block need not share", 2, "rule model requires", "plan", unlike(model), "--cluster", "1x8:h100-sxm", "--batch", 8, "--seq", 64, "--target", "deepspeed")


@seen_elsewhere
def fewer_bits_advised(folder):
    """Where nothing fits and frozen matrices are in 16 bits, they are tried in four: what is advised then fits."""
    config = folder / "config.json"
    config.write_text(json.dumps({**LLAMA, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000}))
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "target_modules": ["q_proj", "v_proj"]}))
    for memory, fits in (("12e9", True), ("3e9", False)):
        job = ["--cluster", f"1x1:rtx4090@memory={memory},host-memory=1e9", "--batch", 1, "--seq", 512]
        result = run("plan", config, *job)
        check(f"advised with {memory}", result.returncode == 3 and ("frozen matrices in 4 bits (cleave import --quantized nf4-double): pp 1" in result.stderr) == fits and
              ("a shorter sequence, frozen matrices in few bits" in result.stderr) != fits, result)
        run("import", config, "--quantized", "nf4-double", "-o", folder / "q.json")
        check(f"and so it is with {memory}", run("plan", folder / "q.json", *job).returncode == (0 if fits else 3))
    result = run("plan", folder / "q.json", *job)
    check("what is so already is not advised", "in few bits" not in result.stderr, result)
    result = run("plan", config, *job, "--json")
    changes = {change["name"]: change for change in json.loads(result.stdout)["changes"]}
    (folder / "adapter_config.json").unlink()
    check("in JSON", changes["bits of frozen matrices"]["now"] == 16 and not changes["bits of frozen matrices"]["found"])


@seen_elsewhere
def experts_of_quantized_models(folder):
    """Experts are no linear layers since transformers 5: bitsandbytes passes over them, unless somebody says otherwise."""
    config, model, launch = folder / "config.json", folder / "m.json", folder / "a.yaml"
    config.write_text(json.dumps({**LLAMA, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 128, "num_key_value_heads": 2}))
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "target_modules": ["q_proj", "v_proj"]}))
    for words, form in (([], "none"), (["--quantized-experts"], "nf4")):
        result = run("import", config, "--quantized", "nf4", *words, "-o", model)
        kinds = {layer["kind"]: layer.get("quantized", "none") for layer in json.loads(model.read_text())["layers"][1]["layers"]}
        check(f"experts {words}", kinds == {"attention": "nf4", "moe": form} and ("experts stay in the plan's dtype" in result.stderr) == (not words), result)
    said("experts that nobody quantizes", 3, "quantized matrices are none of experts", "plan", model, "--cluster", "1x2:h100-sxm", "--batch", 8, "--seq", 64, "--target", "deepspeed")
    (folder / "adapter_config.json").unlink()
    held = {}
    for words in ("", "quantize_moe_experts: true\n"):
        launch.write_text("base_model: a/b\nsequence_len: 64\nmicro_batch_size: 2\nbf16: true\nadapter: qlora\nlora_r: 8\nlora_target_modules: [q_proj, v_proj]\nload_in_4bit: true\n" + words)
        result = run("estimate", "--from", "accelerate-fsdp2", launch, "--model", config, "--cluster", "1x2:h100-sxm", "--json")
        held[words] = json.loads(result.stdout)["predicted"]["fullest_stage_bytes"]["weights"] if result.returncode == 0 else 0
        check(f"no ZeRO {words}", result.returncode == 0 and json.loads(result.stdout)["decisions"]["layers"][0]["zero"] == 0, result)
    check("experts of axolotl", held["quantize_moe_experts: true\n"] < held[""] / 2)


@seen_elsewhere
def what_adapters_drop(folder):
    """Each keeps a copy of what it reads, with a byte of a mask, where the framework drops from it (lora_dropout); it takes time, too."""
    config, beside, told = folder / "config.json", folder / "adapter_config.json", {}
    config.write_text(json.dumps(LLAMA))
    for framework in ("accelerate-fsdp2", "deepspeed-transformers", "cleave"):
        for dropout in (0, 0.1):
            beside.write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_dropout": dropout, "target_modules": ["q_proj", "v_proj", "down_proj"]}))
            result = run("estimate", config, "--cluster", "1x1:h100-sxm", "--batch", 1, "--seq", 64, "--framework", framework, "--fix", "recompute=none", "--json")
            told[dropout] = json.loads(result.stdout)["predicted"] if result.returncode == 0 else result
            check(f"{framework}: a note of dropout {dropout}", ("cleave run drops nothing" in result.stderr) == (dropout > 0), result)
        more = told[0.1]["fullest_stage_bytes"]["activations"] - told[0]["fullest_stage_bytes"]["activations"]
        copies = 2 * 64 * ((64 + 64 + 128) * 3 - (64 + 128) * 2)  # layers, tokens: three copies, in place of what they were made from, which nothing else reads
        check(f"{framework}: copies of {more} bytes", more == (0 if framework == "cleave" else copies), result)
        check(f"{framework}: their time", (told[0.1]["step_s"] > told[0]["step_s"]) == (framework != "cleave"), result)
    beside.unlink()


def unlike(model):
    """The model with one kind of its layers in another form than the others."""
    text = json.loads(model.read_text())
    del text["layers"][1]["layers"][1]["quantized"]
    model.write_text(json.dumps(text))
    return model


def adapters(folder):
    (folder / "config.json").write_text(json.dumps(LLAMA))
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "target_modules": ["q_proj", "v_proj"]}))
    said("beside", 0, "of them 2048 are trained", "import", folder / "config.json", "-o", folder / "m.json")
    job = ["--cluster", "1x2:h100-sxm", "--batch", 8, "--seq", 64]
    said("planned, too", 0, "2048 of them trainable", "plan", folder / "config.json", *job)
    said("and it is said", 0, "adapter_config.json, which lies beside it", "plan", folder / "config.json", *job)
    for quantized, words in (({"load_in_4bit": True, "quant_method": "bitsandbytes"}, "frozen matrices are stored in nf4, and expanded for each product"), ({"quant_method": "mxfp4"}, "of the file's 4 bits"),
                             ({"load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "are stored in nf4-double"), ({"load_in_8bit": True}, "are stored in int8"), ({"bits": 4, "quant_method": "gptq", "group_size": 128}, "are stored in int4"), ({"bits": 4, "quant_method": "awq"}, "are stored in int4"),
                             ({"bits": 4, "quant_method": "gptq", "group_size": 32}, "4 times the memory of the file's 4 bits"),
                             ({"bits": 3, "quant_method": "gptq"}, "5.33 times"), ({"quant_method": "fp8"}, "2 times"), ({"bits": "4"}, "more memory than the file's")):
        (folder / "config.json").write_text(json.dumps({**LLAMA, "quantization_config": quantized}))
        said(f"quantized {quantized}", 0, words, "import", folder / "config.json", "-o", folder / "m.json")
    said("quantized, planned", 0, "note: quantization_config: frozen weights are planned in the plan's dtype", "plan", folder / "config.json", *job)
    quantized_matrices(folder, job)
    (folder / "config.json").write_text(json.dumps(LLAMA))
    said("the folder alone", 0, "2048 of them trainable", "plan", folder, *job)
    said("a folder without", 2, "expected a file, found a directory", "plan", os.path.dirname(os.path.abspath(__file__)), *job)
    said("a name on a hub", 2, "hf download someone/zebra-7B config.json --local-dir zebra-7B", "plan", "someone/zebra-7B", *job)
    there = run("plan", "dev/null", *job, cwd="/")
    check("what is there is no name on a hub", there.returncode == 2 and "hf download" not in there.stderr, there)
    silent = run("plan", folder / "m.json", *job)
    check("a native model has its own", "2048 of them trainable" in silent.stdout and "beside it" not in silent.stderr, silent)
    (folder / "other.json").write_text(json.dumps({"r": 4, "target_modules": ["w1"]}))
    said("named", 2, "other.json:1:29: target_modules[0]: expected the name of a matrix", "import", folder / "config.json", "--adapter", folder / "other.json")
    (folder / "adapter_config.json").unlink()


def write_tensors(path, tensors):
    header, at = {}, 0
    for name, shape in tensors:
        size = 2
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


def block(number, inner=128):
    at = f"model.layers.{number}."
    return [*((f"{at}self_attn.{name}_proj.weight", [64, 64]) for name in "qkvo"), (at + "mlp.gate_proj.weight", [inner, 64]),
            (at + "mlp.up_proj.weight", [inner, 64]), (at + "mlp.down_proj.weight", [64, inner]), (at + "input_layernorm.weight", [64]),
            (at + "post_attention_layernorm.weight", [64]), (at + "self_attn.rotary_emb.inv_freq", [8])]


def weights(folder):
    first, last = [("model.embed_tokens.weight", [256, 64])], [("model.norm.weight", [64]), ("lm_head.weight", [256, 64])]
    config, index = folder / "config.json", folder / "model.safetensors.index.json"
    config.write_text(json.dumps(LLAMA))
    write_tensors(folder / "one.safetensors", first + block(0) + block(1) + last)
    write_tensors(folder / "narrow.safetensors", first + block(0) + block(1, 96) + last)
    write_tensors(folder / "tied.safetensors", first + block(0) + block(1) + last[:1])
    write_tensors(folder / "a.safetensors", first + block(0))
    write_tensors(folder / "b.safetensors", block(1) + last)
    index.write_text(json.dumps({"weight_map": {**{name: "a.safetensors" for name, _ in first + block(0)},
                                                **{name: "b.safetensors" for name, _ in block(1) + last}}}))
    os.mkfifo(folder / "pipe")  # nobody writes to it
    for name in ("one.safetensors", index.name):
        said(name, 0, "the same number of parameters in 21 tensors", "import", config, "--safetensors", folder / name, "-o", folder / "m.json")
    for name, message in (("narrow.safetensors", "108864 parameters, the model 115008; the first difference is in block 1: 34944 there, 41088 in the model"),
                          ("tied.safetensors", "the blocks are alike, beside them are 16448 there, 32832 in the model"),
                          ("none.safetensors", "cannot read the header"), ("pipe", "cannot read the header"), ("config.json", 'expected the key "weight_map"')):
        result = run("import", config, "--safetensors", folder / name)
        check(name, result.returncode == 2 and message in result.stderr and result.stdout == "", result)
    index.write_text(json.dumps({"weight_map": {"a": "../one.safetensors"}}))
    said("elsewhere", 2, "expected the name of a safetensors file beside the index", "import", config, "--safetensors", index)


main(assumed, sounds, adapters, fewer_bits_advised, experts_of_quantized_models, what_adapters_drop, weights)
