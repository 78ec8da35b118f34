#!/usr/bin/env python3
"""What a step queues on a GPU at real sizes, as a module in place of CUDA's writes it down that computes nothing: so many kernels of each
kind and so many bytes for each layer, forward and backward, and beside the layers. A fusion that is lost adds kernels or bytes here. Of each
operand bytes count once; where the library has an epilogue it is taken, whatever a real one would find faster.

usage: test_gpu_counts.py CLEAVE SOURCE_ROOT MODULE [--print]
--print: the table below as it is now, with the reasons that are known"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
sys.dont_write_bytecode = True

CLEAVE, ROOT, MODULE = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]), os.path.abspath(sys.argv[3])
LAYERS = 2  # the second one stands for all but the first, whose input has no sum
MODELS = {"gpt2": ("models/zoo/gpt2.json", 16), "llama": ("benchmarks/gpu/llama-1b.json", 8)}  # the file, sequences of a step
# Per model and part of the step: what is queued, how many, their megabytes, and what the number stands for.
FIGURES = {
    "gpt2": [
        ("layer forward", "product, 3 as one, bias", 1, 104.2, "q, k and v of one input in one call, with their biases"),
        ("layer forward", "attention, library", 1, 101.4, "scores are never stored"),
        ("layer forward", "product", 2, 182.1, "proj and down, whose biases are the sum's"),
        ("layer forward", "ADD_NORM", 2, 201.6, "a residual sum, its bias and the next norm in one pass"),
        ("layer forward", "product, gelu bias", 1, 231.2, "up, with its bias and GELU"),
        ("layer backward", "product", 5, 421.5, "of inputs: up, proj, v; of weights: down, proj"),
        ("layer backward", "product, gelu slope", 1, 231.2, "of down's input, with GELU's gradient"),
        ("layer backward", "product, bias gradient", 2, 188.0, "of weights of up and of one of q, k, v, with their biases"),
        ("layer backward", "ADD_NORM_GRADIENTS", 2, 251.9, "of a norm's input, gain and bias, and of the residual sum's terms and bias, in one pass"),
        ("layer backward", "COLUMN_FINISH", 2, 34.6, "of two norms: gain, bias and the residual sum's bias together"),
        ("layer backward", "attention, library", 1, 202.1, "scores are made again, not read"),
        ("layer backward", "product, 2 as one, bias gradient", 1, 80.2, "of weights of two of q, k, v"),
        ("layer backward", "product, added", 2, 153.4, "of inputs: k and q, added to that of v"),
        ("beside layers", "copy", 6, 0.1, "rates of updates, tokens, labels, their count, the loss, the norm"),
        ("beside layers", "EMBED", 1, 25.2, "tokens"),
        ("beside layers", "SUM_TERMS", 2, 102.2, "positions, and their gradient"),
        ("beside layers", "product", 3, 5329.6, "logits: forward, of the input, of the weight"),
        ("beside layers", "MAX_SUM_EXP", 1, 1648.5, "maximum and sum over the vocabulary in one pass"),
        ("beside layers", "PICK", 1, 1648.5, "the labels' logits"),
        ("beside layers", "NLL", 1, 0.3, "the loss in many teams"),
        ("beside layers", "NLL_FINISH", 1, 0.3, "the sum of their shares"),
        ("beside layers", "SET", 1, 0.0, "the gradient of the loss is 1"),
        ("beside layers", "NLL_GRADIENT", 1, 0.3, "of each token"),
        ("beside layers", "SUM_EXP_GRADIENT", 1, 3296.9, "reads the logits once, in place"),
        ("beside layers", "PICK_ADD", 1, 1648.5, "the labels' logits"),
        ("beside layers", "ADD_NORM_GRADIENTS", 1, 126.0, "the head's norm and the last residual sum"),
        ("beside layers", "COLUMN_FINISH", 1, 17.3, "the shares of sums over rows"),
        ("beside layers", "fill", 2, 3.1, "gradients that are added to, and the norm"),
        ("beside layers", "COLUMN_SUM", 1, 28.3, "positions"),
        ("beside layers", "EMBED_GRADIENT", 1, 25.2, "by token, without collisions"),
        ("beside layers", "SQUARE_PARTS", 1, 214.4, "all gradients in one launch"),
        ("beside layers", "SQUARE_SUM", 1, 0.0, "the sum of its shares"),
        ("beside layers", "ADAMW", 1, 1607.9, "all weights in one launch"),
    ],
    "llama": [
        ("layer forward", "product", 3, 559.9, "q, which is wider than k and v; proj, down"),
        ("layer forward", "product, 2 as one", 2, 587.2, "gate and up of one input in one call; k and v"),
        ("layer forward", "ROTATE", 2, 167.8, "queries and keys, once each"),
        ("layer forward", "attention, library", 1, 168.8, "scores are never stored"),
        ("layer forward", "ADD_NORM", 2, 537.0, "a residual sum and the next norm in one pass"),
        ("layer forward", "GATED", 1, 553.6, "SiLU and the product with it in one pass"),
        ("layer backward", "product", 7, 1377.8, "of inputs: down, up, proj, v; of weights: down, proj, q"),
        ("layer backward", "GATED_GRADIENT", 1, 922.7, "of the gate and of what it is for in one pass"),
        ("layer backward", "product, 2 as one", 2, 637.5, "of weights of gate and up; of k and v"),
        ("layer backward", "product, added", 3, 704.6, "of inputs: gate, added to that of up; k and q, to that of v"),
        ("layer backward", "ADD_NORM_GRADIENTS", 2, 671.2, "of a norm's input and gain, and of the residual sum's terms, in one pass"),
        ("layer backward", "COLUMN_FINISH", 2, 34.6, "of the gains of two norms"),
        ("layer backward", "attention, library", 1, 336.6, "scores are made again, not read"),
        ("layer backward", "ROTATE", 2, 167.8, "gradients of queries and keys"),
        ("beside layers", "copy", 6, 0.1, "rates of updates, tokens, labels, their count, the loss, the norm"),
        ("beside layers", "EMBED", 1, 67.2, "tokens"),
        ("beside layers", "product", 3, 3871.3, "logits: forward, of the input, of the weight"),
        ("beside layers", "MAX_SUM_EXP", 1, 1048.7, "maximum and sum over the vocabulary in one pass"),
        ("beside layers", "PICK", 1, 1048.7, "the labels' logits"),
        ("beside layers", "NLL", 1, 0.3, "the loss in many teams"),
        ("beside layers", "NLL_FINISH", 1, 0.3, "the sum of their shares"),
        ("beside layers", "SET", 1, 0.0, "the gradient of the loss is 1"),
        ("beside layers", "NLL_GRADIENT", 1, 0.3, "of each token"),
        ("beside layers", "SUM_EXP_GRADIENT", 1, 2097.3, "reads the logits once, in place"),
        ("beside layers", "PICK_ADD", 1, 1048.7, "the labels' logits"),
        ("beside layers", "ADD_NORM_GRADIENTS", 1, 335.6, "the head's norm and the last residual sum"),
        ("beside layers", "COLUMN_FINISH", 1, 17.3, "the shares of sums over rows"),
        ("beside layers", "fill", 2, 262.1, "gradients that are added to, and the norm"),
        ("beside layers", "EMBED_GRADIENT", 1, 67.2, "by token, without collisions"),
        ("beside layers", "SQUARE_PARTS", 1, 885.0, "all gradients in one launch"),
        ("beside layers", "SQUARE_SUM", 1, 0.0, "the sum of its shares"),
        ("beside layers", "ADAMW", 1, 6637.8, "all weights in one launch"),
    ],
}


def second_layer(description, layers):
    """The model with this many repeats, and the names of the second repeat's layers."""
    at = next(i for i, layer in enumerate(description["layers"]) if "repeat" in layer)
    repeated = description["layers"][at]
    repeated["repeat"] = layers
    first = at + len(repeated["layers"])
    return description, [f"{first + i}.{layer['kind']}" for i, layer in enumerate(repeated["layers"])]


def call(*words, **environment):
    done = subprocess.run([CLEAVE, *map(str, words)], text=True, capture_output=True, check=False,
                          env={**os.environ, "CLEAVE_MODULE_DIR": os.path.dirname(MODULE), **environment})
    if done.returncode != 0:
        sys.exit(f"cleave {' '.join(map(str, words))}: {done.stdout[-1000:]}{done.stderr[-1000:]}")


def kept_step(folder, name, source, batch):
    """Lines of the step that becomes a graph, and the names of the second layer's parts."""
    description, parts = second_layer(json.loads((ROOT / source).read_text(encoding="utf-8")), LAYERS)
    model, plan, trace = (pathlib.Path(folder, name + end) for end in (".json", "-plan.json", ".jsonl"))
    model.write_text(json.dumps(description), encoding="utf-8")
    call("plan", model, "--cluster", "1x1:h100-sxm", "--batch", batch, "--dtype", "bf16", "-o", plan)
    call("run", plan, "--backend", "cuda", "--steps", 3, CLEAVE_TRACE=str(trace))
    lines = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    begins, ends = ([i for i, line in enumerate(lines) if line["what"] == what] for what in ("graph begins", "graph ends"))
    if len(begins) != 1 or len(ends) != 1:
        sys.exit(f"{name}: {len(begins)} graphs begin and {len(ends)} end")
    return lines[begins[0] + 1:ends[0]], parts


def kind(line):
    """As the table calls it."""
    if line["what"] == "kernel":
        return line["name"]
    if line["what"] == "attention":
        return "attention, library"
    if line["what"] != "product":
        return line["what"]
    words = [f"{line['count']} as one" if line["count"] > 1 else "", line["epilogue"] if line["epilogue"] != "none" else "",
             "added" if line["adds"] else ""]
    return ", ".join(filter(None, ["product", *words]))


def part_of(line, layer_parts):
    words = line["of"].split()
    if len(words) != 3 or ".".join(words[2].split(".")[:2]) not in layer_parts:
        return "beside layers"
    return "layer forward" if words[1] == "forward" else "layer backward"


def sums(lines, layer_parts, all_parts):
    """Per part and kind (count, bytes); of layers the second one alone."""
    found = {}
    for line in lines:
        layer = ".".join(line["of"].split()[2:])
        part = part_of(line, layer_parts)
        if part == "beside layers" and any(layer.startswith(other + ".") or layer == other for other in all_parts):
            continue
        count, size = found.setdefault(part, {}).get(kind(line), (0, 0))
        found[part][kind(line)] = (count + 1, size + line["bytes"])
    return found


def other_layers(parts, width):
    """Names of the first layer's parts, which stand for nothing."""
    return [f"{int(part.split('.')[0]) - width}.{part.split('.', 1)[1]}" for part in parts]


def rows_of(found):
    return {(part, what): (count, round(size / 1e6, 1)) for part, kinds in found.items() for what, (count, size) in kinds.items()}


def print_table(model, rows):
    known = {(part, what): why for part, what, _, _, why in FIGURES.get(model, [])}
    print(f'    "{model}": [')
    for (part, what), (count, size) in sorted(rows.items(), key=lambda row: ["layer forward", "layer backward", "beside layers"].index(row[0][0])):
        print(f'        ("{part}", "{what}", {count}, {size}, "{known.get((part, what), "")}"),')
    print("    ],")


failures = 0
for model, (source, batch) in MODELS.items():
    with tempfile.TemporaryDirectory() as folder:
        lines, parts = kept_step(folder, model, source, batch)
    now = rows_of(sums(lines, parts, other_layers(parts, len(parts))))
    if "--print" in sys.argv:
        print_table(model, now)
        continue
    stated = {(part, what): (count, size, why) for part, what, count, size, why in FIGURES[model]}
    for row in sorted(set(stated) | set(now)):
        count, size = now.get(row, (0, 0.0))
        expected, expected_size, why = stated.get(row, (0, 0.0, "it was not queued before"))
        if (count, size) != (expected, expected_size):
            failures += 1
            print(f"FAIL {model}, {row[0]}: {row[1]}: {count} with {size} MB, stated {expected} with {expected_size} MB ({why})")
print(f"{failures} failures")
sys.exit(1 if failures else 0)
