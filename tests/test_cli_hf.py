#!/usr/bin/env python3
"""Runs that begin with a Hugging Face checkpoint and write one: the logits are those of a Llama, a GPT-2 and a Mixtral written down here in
plain Python, what is written back are the same bytes, and what cannot be said is refused.

usage: test_cli_hf.py CLEAVE SOURCE_ROOT EMULATED_MODULE"""
import json
import math
import pathlib
import random
import re
import struct
import sys

from calls import check, expect, main, run

HIDDEN, HEADS, KV, INNER, VOCAB, SEQUENCE, BATCH, EXPERTS = 16, 4, 2, 24, 257, 6, 2, 4
WIDTH = HIDDEN // HEADS
LLAMA = {"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": 2, "num_attention_heads": HEADS,
         "num_key_value_heads": KV, "vocab_size": VOCAB, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 500.0}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": EXPERTS, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.0, "sliding_window": None}
GPT2 = {"model_type": "gpt2", "n_embd": HIDDEN, "n_layer": 2, "n_head": HEADS, "n_positions": 64, "vocab_size": VOCAB}


# ---- files ----
def shapes_of(config):
    """What the transformers library calls the parameters of its classes, and their shapes."""
    q, kv, gpt = HEADS * WIDTH, KV * WIDTH, config["model_type"] == "gpt2"
    if gpt:
        shapes = {"wte.weight": [VOCAB, HIDDEN], "wpe.weight": [64, HIDDEN], "ln_f.weight": [HIDDEN], "ln_f.bias": [HIDDEN]}
        for i in range(2):
            shapes |= {f"h.{i}.{name}": shape for name, shape in {
                "ln_1.weight": [HIDDEN], "ln_1.bias": [HIDDEN], "attn.c_attn.weight": [HIDDEN, 3 * q], "attn.c_attn.bias": [3 * q],
                "attn.c_proj.weight": [q, HIDDEN], "attn.c_proj.bias": [HIDDEN], "ln_2.weight": [HIDDEN], "ln_2.bias": [HIDDEN],
                "mlp.c_fc.weight": [HIDDEN, 4 * HIDDEN], "mlp.c_fc.bias": [4 * HIDDEN], "mlp.c_proj.weight": [4 * HIDDEN, HIDDEN],
                "mlp.c_proj.bias": [HIDDEN], "attn.bias": [1, 1, 4, 4]}.items()}
        return shapes
    shapes = {"model.embed_tokens.weight": [VOCAB, HIDDEN], "model.norm.weight": [HIDDEN], "lm_head.weight": [VOCAB, HIDDEN]}
    network = {"gate_proj": [INNER, HIDDEN], "up_proj": [INNER, HIDDEN], "down_proj": [HIDDEN, INNER]}
    for i in range(2):
        block = {"input_layernorm.weight": [HIDDEN], "post_attention_layernorm.weight": [HIDDEN], "self_attn.q_proj.weight": [q, HIDDEN],
                 "self_attn.k_proj.weight": [kv, HIDDEN], "self_attn.v_proj.weight": [kv, HIDDEN], "self_attn.o_proj.weight": [HIDDEN, q]}
        if config["model_type"] == "mixtral":
            block |= {f"block_sparse_moe.experts.{e}.{name}.weight": shape for e in range(EXPERTS)
                      for name, shape in zip(("w1", "w3", "w2"), network.values())} | {"block_sparse_moe.gate.weight": [EXPERTS, HIDDEN]}
        else:
            block |= {f"mlp.{name}.weight": shape for name, shape in network.items()}
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in block.items()}
    return shapes


def draw(config, seed):
    """Values that a number of 16 bits holds, so that any type of file has the same."""
    numbers = random.Random(seed)

    def value(name):
        near = 1.0 if "norm.weight" in name or "ln_" in name and name.endswith(".weight") else 0.0
        return struct.unpack("<f", b"\0\0" + struct.pack("<f", near + numbers.gauss(0, 0.3))[2:])[0]

    return {name: (shape, [value(name) for _ in range(math.prod(shape))]) for name, shape in shapes_of(config).items()}


def packed(values, kind):
    whole = struct.pack(f"<{len(values)}f", *values)
    return whole if kind == "F32" else b"".join(whole[i + 2:i + 4] for i in range(0, len(whole), 4))


def write_file(path, tensors, kind):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, values) in tensors.items():
        piece = packed(values, kind)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_file(path):
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    read = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            raw = data[begin:end] if entry["dtype"] == "F32" else b"".join(b"\0\0" + data[i:i + 2] for i in range(begin, end, 2))
            read[name] = (entry["shape"], list(struct.unpack(f"<{len(raw) // 4}f", raw)))
    return read


def checkpoint(folder, name, config, kind="F32", shards=1, seed=1):
    path, tensors = folder / name, draw(config, seed)
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    names = list(tensors)
    if shards == 1:
        write_file(path / "model.safetensors", tensors, kind)
        return path, tensors
    index = {}
    for s in range(shards):
        file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
        write_file(path / file, {n: tensors[n] for n in names[s::shards]}, kind)
        index |= {n: file for n in names[s::shards]}
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": index}))
    return path, tensors


# ---- the reference ----
def rows(tensor):
    shape, values = tensor
    return [values[i:i + shape[-1]] for i in range(0, len(values), shape[-1])]


def linear(x, tensor, bias=None):
    """torch.nn.Linear: a row of the matrix for each output."""
    return [sum(a * b for a, b in zip(x, row)) + (bias[1][i] if bias else 0) for i, row in enumerate(rows(tensor))]


def conv1d(x, tensor, bias):
    matrix = rows(tensor)
    return [bias[1][j] + sum(x[i] * matrix[i][j] for i in range(len(x))) for j in range(len(matrix[0]))]


def rms_norm(x, gain):
    scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + 1e-5)
    return [v * scale * g for v, g in zip(x, gain[1])]


def layer_norm(x, gain, bias):
    mean = sum(x) / len(x)
    scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-5)
    return [(v - mean) * scale * g + b for v, g, b in zip(x, gain[1], bias[1])]


def softmax(x):
    most = max(x)
    powers = [math.exp(v - most) for v in x]
    return [p / sum(powers) for p in powers]


def rotate(head, position):
    """rotate_half: element i turns against element i + half."""
    half, out = WIDTH // 2, list(head)
    for i in range(half):
        angle = position * 500.0 ** (-2 * i / WIDTH)
        out[i] = head[i] * math.cos(angle) - head[i + half] * math.sin(angle)
        out[i + half] = head[i + half] * math.cos(angle) + head[i] * math.sin(angle)
    return out


def attention(queries, keys, values, kv_heads):
    """Lists by token of lists by head."""
    out = []
    for t, query in enumerate(queries):
        heads = []
        for h in range(HEADS):
            g = h * kv_heads // HEADS
            weights = softmax([sum(a * b for a, b in zip(query[h], keys[s][g])) / math.sqrt(WIDTH) for s in range(t + 1)])
            heads += [sum(w * values[s][g][d] for s, w in enumerate(weights)) for d in range(WIDTH)]
        out.append(heads)
    return out


def split(x, heads):
    return [x[h * WIDTH:(h + 1) * WIDTH] for h in range(heads)]


def silu(v):
    return v / (1 + math.exp(-v))


def gated(x, gate, up, down):
    return linear([silu(a) * b for a, b in zip(linear(x, gate), linear(x, up))], down)


def mixture(x, w, block):
    """The two best experts, by a softmax over their logits."""
    name = block + "block_sparse_moe."
    logits = linear(x, w[name + "gate.weight"])
    best = sorted(range(EXPERTS), key=lambda e: -logits[e])[:2]
    parts = [gated(x, *(w[f"{name}experts.{e}.{part}.weight"] for part in ("w1", "w3", "w2"))) for e in best]
    return [sum(g * part[i] for g, part in zip(softmax([logits[e] for e in best]), parts)) for i in range(HIDDEN)]


def llama_logits(w, tokens):
    xs = [list(rows(w["model.embed_tokens.weight"])[t]) for t in tokens]
    for i in range(2):
        block = f"model.layers.{i}."
        ys = [rms_norm(x, w[block + "input_layernorm.weight"]) for x in xs]
        q, k, v = ([split(linear(y, w[f"{block}self_attn.{name}_proj.weight"]), n) for y in ys] for name, n in (("q", HEADS), ("k", KV), ("v", KV)))
        q, k = ([[rotate(head, t) for head in heads] for t, heads in enumerate(all_heads)] for all_heads in (q, k))
        mixed = attention(q, k, v, KV)
        xs = [[a + b for a, b in zip(x, linear(m, w[block + "self_attn.o_proj.weight"]))] for x, m in zip(xs, mixed)]
        for t, x in enumerate(xs):
            y = rms_norm(x, w[block + "post_attention_layernorm.weight"])
            made = mixture(y, w, block) if block + "block_sparse_moe.gate.weight" in w else gated(
                y, *(w[f"{block}mlp.{name}_proj.weight"] for name in ("gate", "up", "down")))
            xs[t] = [a + b for a, b in zip(x, made)]
    return [linear(rms_norm(x, w["model.norm.weight"]), w["lm_head.weight"]) for x in xs]


def gelu_new(v):
    return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))


def gpt2_logits(w, tokens):
    xs = [[a + b for a, b in zip(rows(w["wte.weight"])[token], rows(w["wpe.weight"])[t])] for t, token in enumerate(tokens)]
    for i in range(2):
        block = f"h.{i}."
        fused = [conv1d(layer_norm(x, w[block + "ln_1.weight"], w[block + "ln_1.bias"]), w[block + "attn.c_attn.weight"], w[block + "attn.c_attn.bias"])
                 for x in xs]
        q, k, v = ([split(f[part * HIDDEN:(part + 1) * HIDDEN], HEADS) for f in fused] for part in range(3))
        mixed = attention(q, k, v, HEADS)
        xs = [[a + b for a, b in zip(x, conv1d(m, w[block + "attn.c_proj.weight"], w[block + "attn.c_proj.bias"]))] for x, m in zip(xs, mixed)]
        for t, x in enumerate(xs):
            y = conv1d(layer_norm(x, w[block + "ln_2.weight"], w[block + "ln_2.bias"]), w[block + "mlp.c_fc.weight"], w[block + "mlp.c_fc.bias"])
            xs[t] = [a + b for a, b in zip(x, conv1d([gelu_new(v) for v in y], w[block + "mlp.c_proj.weight"], w[block + "mlp.c_proj.bias"]))]
    return [linear(layer_norm(x, w["ln_f.weight"], w["ln_f.bias"]), w["wte.weight"]) for x in xs]


# ---- runs ----
def said(label, pattern, *args):
    """What is no result is said beside it."""
    result = run(*args)
    check(f"{label}: /{pattern}/", result.returncode == 0 and re.search(pattern, result.stderr), result)


def plan_of(folder, path, cluster="1x2:cpu", *more):
    plan = folder / f"{path.name}-plan.json"
    expect(f"{path.name}: a plan", 0, "stage 0", "plan", path / "config.json", "--cluster", cluster, "--seq", SEQUENCE, "--batch", BATCH,
           "--dtype", "fp32", *more, "-o", plan)
    return plan


def text_of(folder):
    """As long as one window, so that all samples are the same and known."""
    path = folder / "data.txt"
    path.write_bytes(bytes(random.Random(5).randrange(256) for _ in range(SEQUENCE + 1)))
    return path


def same_folders(a, b, leave_out=()):
    names = sorted(p.name for p in a.iterdir())
    return names == sorted(p.name for p in b.iterdir()) and all((a / n).read_bytes() == (b / n).read_bytes() for n in names if n not in leave_out)


def close(label, got, expected):
    worst = max(abs(a - b) for x, y in zip(got, expected) for a, b in zip(x, y))
    check(f"{label}: logits differ by {worst:.2g}, expected at most 1e-5 of values up to {max(map(max, expected)):.2g}", worst < 1e-5)


def logits(folder):
    """One sequence through the model and through the reference: logits, and the loss that follows from them."""
    data = text_of(folder)
    tokens = list(data.read_bytes())
    for name, config, reference, kind, shards in (("llama", LLAMA, llama_logits, "BF16", 2), ("gpt2", GPT2, gpt2_logits, "F32", 1),
                                                  ("mixtral", MIXTRAL, llama_logits, "F32", 3)):
        path, weights = checkpoint(folder, name, config, kind, shards)
        plan, out, got = plan_of(folder, path), folder / f"{name}-out", folder / f"{name}-logits.safetensors"
        result = expect(f"{name}: a step", 0, '"summary"', "run", plan, "--data", data, "--from-hf", path, "--steps", 1, "--learning-rate", 0,
                        "--logits", got, "--json")
        expected = reference(weights, tokens[:SEQUENCE])
        shape, values = read_file(got)["logits"]
        check(f"{name}: the logits' shape", shape == [BATCH, SEQUENCE, VOCAB], shape)
        for b in range(BATCH):
            at = b * SEQUENCE * VOCAB
            close(f"{name}, sequence {b}", [values[at + t * VOCAB:at + (t + 1) * VOCAB] for t in range(SEQUENCE)], expected)
        loss = -sum(math.log(softmax(row)[tokens[t + 1]]) for t, row in enumerate(expected)) / SEQUENCE
        found = json.loads(result.stdout.splitlines()[0])["loss"]
        check(f"{name}: loss {found}, expected {loss}", abs(found - loss) < 1e-5)
        said(f"{name}: written back", "wrote the weights of step 0 to", "run", plan, "--from-hf", path, "--to-hf", out, "--steps", 0)
        check(f"{name}: the same bytes", same_folders(path, out))


def trained(folder):
    """After training the file has what a checkpoint of ours has, also by way of one, from processes, and without weights to go by."""
    path, weights = checkpoint(folder, "base", LLAMA)
    plan, ours = plan_of(folder, path), folder / "ours"
    said("trained", "wrote the weights after step 3 to", "run", plan, "--from-hf", path, "--to-hf", folder / "a", "--steps", 3, "--checkpoint", ours)
    check("trained: other bytes", read_file(folder / "a" / "model.safetensors") != weights)
    said("trained: of a checkpoint", "wrote the weights of step 3 to", "run", plan, "--model", path / "config.json", "--resume", ours,
         "--to-hf", folder / "b", "--steps", 0)
    a, b = (read_file(folder / name / "model.safetensors") for name in "ab")
    check("trained: the same tensors", a == b)
    said("trained: of a checkpoint, named as there", "wrote the weights of step 3 to", "run", plan, "--from-hf", path, "--resume", ours, "--to-hf",
         folder / "d", "--steps", 0)
    check("trained: the same bytes as without a checkpoint", same_folders(folder / "a", folder / "d"))
    said("trained: by processes", "wrote the weights after step 3 to", "run", plan, "--transport", "tcp", "-n", 2, "--from-hf", path, "--to-hf",
           folder / "c", "--steps", 3)
    check("trained: the same bytes by processes", same_folders(folder / "a", folder / "c"))
    expect("trained: goes on", 0, "step    1", "run", plan, "--from-hf", folder / "b", "--steps", 1)


def half(folder, module):
    """In bf16 weights are rounded from what is kept beside them: a file of any type comes back. On an emulated GPU."""
    env = {"CLEAVE_MODULE_DIR": str(pathlib.Path(module).parent)}
    for kind in ("BF16", "F32"):
        path, _ = checkpoint(folder, f"half-{kind}", LLAMA, kind)
        plan, out = folder / f"half-{kind}.json", folder / f"half-{kind}-out"
        made = run("plan", path / "config.json", "--cluster", "1x2:h100-sxm", "--seq", SEQUENCE, "--batch", BATCH, "--dtype", "bf16", "-o", plan)
        check("half: a plan", made.returncode == 0, made)
        result = run("run", plan, "--backend", "cuda", "--from-hf", path, "--to-hf", out, "--steps", 0, env=env)
        check(f"half: {kind} there and back", result.returncode == 0 and same_folders(path, out), result)


def refused(folder):
    path, tensors = checkpoint(folder, "whole", LLAMA)
    plan = plan_of(folder, path)
    out = folder / "refused-out"

    def refuse(label, what, *options):
        expect(label, 2, re.escape(what), "run", plan, *options)

    refuse("nothing to replace", "--overwrite-hf is for --to-hf: give that, too", "--from-hf", path, "--overwrite-hf")
    refuse("nothing to do", "--steps 0 does nothing: give --to-hf, or some steps", "--steps", 0)
    refuse("no steps, no logits", "--steps 0: nothing runs that --logits could write", "--steps", 0, "--to-hf", out, "--logits", folder / "l")
    refuse("no folder", "absent/config.json: cannot read it", "--from-hf", folder / "absent")
    refuse("no weights", "--backend timed has no weights: --from-hf needs cpu or cuda", "--from-hf", path, "--backend", "timed")
    refuse("logits elsewhere", "--logits: expected --backend cpu and --transport threads", "--transport", "tcp", "--logits", folder / "l")
    said("written once", "wrote", "run", plan, "--from-hf", path, "--to-hf", out, "--steps", 0)
    refuse("not over another", "is there already: give an empty folder, or --overwrite-hf", "--from-hf", path, "--to-hf", out, "--steps", 0)
    said("over another, if asked", "wrote", "run", plan, "--from-hf", path, "--to-hf", out, "--steps", 0, "--overwrite-hf")
    check("nothing is left beside", same_folders(path, out))
    said("over itself, if asked", "wrote", "run", plan, "--from-hf", out, "--to-hf", out, "--steps", 0, "--overwrite-hf")
    check("over itself", same_folders(path, out))
    (out / "config.json").write_text(json.dumps({**LLAMA, "model_type": "gemma2"}))
    refuse("unknown names", "cleave does not know what checkpoints of model_type \"gemma2\" call their tensors; of these it does: gpt2", "--from-hf", out)
    (out / "config.json").write_text(json.dumps({**LLAMA, "rope_theta": 10000.0}))
    said("another model", 'says another model than the plan.s: "rope_base": 10000, the plan "rope_base": 500', "run", plan, "--from-hf", out,
           "--steps", 1)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    write_file(out / "model.safetensors", tensors | {"model.layers.2.mlp.up_proj.weight": ([1], [1.0])}, "F32")
    refuse("not the model's", "1 tensors of the model are missing: model.layers.1.mlp.up_proj.weight; 1 tensors are of no weight of the model: "
           "model.layers.2.mlp.up_proj.weight", "--from-hf", out)
    native = folder / "native.json"
    expect("a native model", 0, "", "import", path / "config.json", "-o", native)
    expect("its plan", 0, "stage 0", "plan", native, "--cluster", "1x2:cpu", "--seq", SEQUENCE, "--batch", BATCH, "--dtype", "fp32", "-o", plan)
    refuse("no names", "--to-hf: expected a config.json of Hugging Face", "--to-hf", folder / "new", "--steps", 1)
    check("no folder is left", not (folder / "new").exists())
    said("names by the weights' folder", "wrote", "run", plan, "--from-hf", path, "--to-hf", folder / "new", "--steps", 0)
    check("the same bytes again", same_folders(path, folder / "new"))


def adapted(folder):
    """Adapters are drawn, and give nothing at first: the loss is that of the weights below them. They are not written as such weights."""
    path, _ = checkpoint(folder, "below", LLAMA)
    data = text_of(folder)
    whole, model, plan = plan_of(folder, path), folder / "adapted.json", folder / "adapted-plan.json"
    (path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj"]}))
    run("import", path / "config.json", "-o", model)
    expect("adapted: a plan", 0, "stage 0", "plan", model, "--cluster", "1x2:cpu", "--seq", SEQUENCE, "--batch", BATCH, "--dtype", "fp32", "-o", plan)
    losses = [json.loads(run("run", p, "--data", data, "--from-hf", path, "--steps", 1, "--json").stdout.splitlines()[0])["loss"] for p in (whole, plan)]
    check(f"adapted: losses {losses}", abs(losses[0] - losses[1]) < 1e-6)
    expect("adapted: not written", 2, r"--to-hf: the model has adapters \(1.attention.q_lora_a\), which it does not write", "run", plan, "--from-hf",
           path, "--to-hf", folder / "adapted-out", "--steps", 1)


def full(folder):
    """A disk that is full, here a limit on the size of files: said, and nothing partial stays."""
    path, _ = checkpoint(folder, "large", LLAMA)
    plan = plan_of(folder, path)
    expect("full", 1, r"large-out/model.safetensors: cannot make room for it: File too large \(", "run", plan, "--from-hf", path, "--to-hf",
           folder / "large-out", "--steps", 1, file_bytes=2 << 10)
    check("full: nothing is left", not (folder / "large-out").exists())


def tests(folder):
    logits(folder)
    trained(folder)
    half(folder, sys.argv[3])
    adapted(folder)
    full(folder)
    refused(folder)


main(tests)
