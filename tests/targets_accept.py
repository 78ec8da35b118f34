"""Lets the parsers of training frameworks read what cleave writes for them; no GPU is needed.

usage: targets_accept.py WRITE_LAUNCHES [COUNT]

Megatron-LM: CLEAVE_MEGATRON names a checkout, CLEAVE_MEGATRON_PYTHON a Python that has torch, packaging, einops, omegaconf
and PyYAML (this one if unset). Its scripts are run by bash with a torchrun that only notes its arguments; these go through
parse_args(), validate_args() and core_transformer_config_from_args(). What only a GPU or Transformer Engine could answer is
answered for them: the card is of compute capability 9.0, Transformer Engine is there.
Megatron-Bridge: CLEAVE_MEGATRON_BRIDGE names a checkout, beside CLEAVE_MEGATRON. Its recipes are run with stand-ins that
note what is set; members of cfg must be fields of its classes, the model's settings make Megatron-Core's configuration.
Says what ran, with its version. Exit 77: nothing is installed."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77

MEGATRON_WORKER = r'''
import json, os, sys, typing, io, contextlib, warnings, logging
if not hasattr(typing, "override"):
    typing.override = lambda method: method
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import torch
class Card:
    major, minor = 9, 0
torch.cuda.get_device_capability = lambda *unused: (9, 0)
torch.cuda.get_device_properties = lambda *unused: Card
import megatron.core.utils as utils
from packaging.version import Version
utils.get_te_version = lambda: Version("2.14.0")
import megatron.core.models.common.embeddings.rope_utils as rope
for name in ("fused_apply_rotary_pos_emb", "fused_apply_rotary_pos_emb_thd"):
    if getattr(rope, name, None) is None:
        setattr(rope, name, lambda *unused: None)
from megatron.core.package_info import __version__
from megatron.training.arguments import parse_args, validate_args, core_transformer_config_from_args
logging.disable(logging.CRITICAL)
results = []
for line in sys.stdin:
    launch = json.loads(line)
    os.environ.update(launch["environment"])
    sys.argv = ["pretrain_gpt.py"] + launch["arguments"]
    out, error, sizes = io.StringIO(), None, {}
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            args = validate_args(parse_args(), {})
            config = core_transformer_config_from_args(args)
        calls = args.global_batch_size / (args.micro_batch_size * args.data_parallel_size)
        assert calls == int(calls), "the batch does not divide"
        chunks = args.virtual_pipeline_model_parallel_size or 1
        group = getattr(args, "microbatch_group_size_per_vp_stage", None) or args.pipeline_model_parallel_size
        rest = int(calls) % group  # as forward_backward_pipelining_with_interleaving() has it
        assert chunks == 1 or (args.pipeline_model_parallel_size <= group <= int(calls) and (rest == 0 or rest >= args.pipeline_model_parallel_size)), "groups"
    except (SystemExit, Exception) as caught:
        error = "%s: %s %s" % (type(caught).__name__, caught, out.getvalue()[-300:] if isinstance(caught, SystemExit) else "")
    results.append({"name": launch["name"], "error": error})
print(json.dumps({"version": __version__, "torch": torch.__version__, "results": results}), file=sys.__stdout__)
'''


# What stands in for the card and for Transformer Engine.
PRELUDE, _, _ = MEGATRON_WORKER.partition("from megatron.training.arguments")
BRIDGE_WORKER = PRELUDE + r'''
import ast, dataclasses, pathlib, types
from megatron.core.transformer import TransformerConfig, MLATransformerConfig
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig
logging.disable(logging.CRITICAL)
bridge = pathlib.Path(os.environ["CLEAVE_MEGATRON_BRIDGE"]) / "src" / "megatron" / "bridge"

def fields_of(path, *classes, folder=bridge):
    tree = ast.parse((folder / path).read_text())
    return {item.target.id for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and (not classes or node.name in classes)
            for item in node.body if isinstance(item, ast.AnnAssign)}

core = {field.name for field in dataclasses.fields(MLATransformerConfig)}
inherited = fields_of("training/config/training_config.py", folder=pathlib.Path(sys.argv[1]) / "megatron")
known = {
    "model": core | fields_of("models/gpt_provider.py", "GPTModelProvider"),
    "ddp": {field.name for field in dataclasses.fields(DistributedDataParallelConfig)},
    "optimizer": {field.name for field in dataclasses.fields(OptimizerConfig)},
    "comm_overlap": fields_of("training/comm_overlap.py", "CommOverlapConfig"),
    "mixed_precision": fields_of("training/mixed_precision.py", "MixedPrecisionConfig"),
    "train": fields_of("training/config.py") | inherited, "dataset": fields_of("training/config.py") | {"seq_length"},
    "tokenizer": fields_of("training/config.py") | fields_of("training/tokenizers/config.py") | inherited,
    "validation": fields_of("training/config.py") | inherited, "checkpoint": fields_of("training/config.py") | inherited,
}
precisions = {node.name for node in ast.parse((bridge / "training/mixed_precision.py").read_text()).body if isinstance(node, ast.FunctionDef)}

class Noted(types.SimpleNamespace):
    pass

def stand_in(name, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module

def named(name):
    assert name in precisions, name
    chosen.append(name)
    return Noted()

chosen = [] # precisions, which tell the model what it computes in

def base():
    return Noted(**{part: Noted() for part in known})

noted = lambda **members: Noted(**members)
for name, members in {
    "models.gpt_provider": {"GPTModelProvider": noted}, "models.mla_provider": {"MLAModelProvider": noted},
    "recipes.common": {"_pretrain_common": base}, "training.comm_overlap": {"CommOverlapConfig": noted},
    "training.gpt_step": {"forward_step": None}, "training.mixed_precision": {"get_mixed_precision_config": named},
    "training.pretrain": {"pretrain": None},
    "training.utils.theoretical_memory_utils": {"estimate_training_memory": None, "format_training_memory_estimate": None}}.items():
    for i in range(len(("megatron.bridge." + name).split("."))):
        part = ".".join(("megatron.bridge." + name).split(".")[: i + 1])
        if part not in sys.modules:
            stand_in(part, __path__=[])
    sys.modules["megatron.bridge." + name].__dict__.update(members)
results = []
for line in sys.stdin:
    launch = json.loads(line)
    error = None
    try:
        chosen[:] = ["none"]
        space = {"__name__": "recipe"}
        exec(compile(launch["recipe"], launch["name"], "exec"), space)
        cfg = next(value for key, value in space.items() if key.startswith("pretrain_"))()
        for part, fields in known.items():
            for member in vars(getattr(cfg, part) or Noted()):
                assert member in fields, "cfg.%s.%s is none of its fields" % (part, member)
        settings = {key: value for key, value in vars(cfg.model).items() if key in core}
        latent = cfg.model.__dict__.get("multi_latent_attention", False)
        if not latent:
            settings = {key: value for key, value in settings.items() if key in {f.name for f in dataclasses.fields(TransformerConfig)}}
        with contextlib.redirect_stdout(io.StringIO()):
            (MLATransformerConfig if latent else TransformerConfig)(
                bf16=True, pipeline_dtype=torch.bfloat16, fp8="hybrid" if "fp8" in chosen[-1] else None, fp8_recipe="tensorwise",
                fp4="e2m1" if "nvfp4" in chosen[-1] else None, **settings)
    except Exception as caught:
        error = "%s: %s" % (type(caught).__name__, caught)
    results.append({"name": launch["name"], "error": error})
parts = ast.parse((bridge / "package_info.py").read_text())
numbers = {node.targets[0].id: node.value.value for node in parts.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)}
version = "%s.%s.%s" % (numbers["MAJOR"], numbers["MINOR"], numbers["PATCH"])
print(json.dumps({"version": version + " with Megatron-Core " + __version__, "torch": torch.__version__, "results": results}), file=sys.__stdout__)
'''


def bridge_launches(write_launches, folder, count):
    subprocess.run([write_launches, "megatron-bridge", folder, str(count)], check=True, stdout=subprocess.DEVNULL)
    for path in sorted(folder.iterdir()):
        yield {"name": path.name, "recipe": (path / "recipe.py").read_text()}


def megatron_launches(write_launches, folder, count):
    """The arguments that bash hands to torchrun for each launch, and the environment."""
    stub = folder / "bin" / "torchrun"
    stub.parent.mkdir()
    stub.write_text('#!/usr/bin/env bash\nprintf "%s\\0" "CUDA_DEVICE_MAX_CONNECTIONS=$CUDA_DEVICE_MAX_CONNECTIONS" "$@"\n')
    stub.chmod(0o755)
    launches = folder / "launches"
    launches.mkdir()
    subprocess.run([write_launches, "megatron-lm", launches, str(count)], check=True, stdout=subprocess.DEVNULL)
    environment = dict(os.environ, PATH="%s:%s" % (stub.parent, os.environ["PATH"]), MEGATRON_DIR="/megatron")
    for path in sorted(launches.iterdir()):
        words = subprocess.run(["bash", path / "train.sh"], check=True, capture_output=True, env=environment).stdout.decode().split("\0")
        connections = words[0].split("=")[1]
        script = words.index("/megatron/pretrain_gpt.py")
        nodes, per_node = (int(words[words.index(flag) + 1]) for flag in ("--nnodes", "--nproc_per_node"))
        yield {"name": path.name, "arguments": words[script + 1 : -1],
               "environment": {"WORLD_SIZE": str(nodes * per_node), "RANK": "0", "CUDA_DEVICE_MAX_CONNECTIONS": connections}}


def check_target(name, launches_of, worker, write_launches, count):
    """None: not installed; else whether all were accepted."""
    root = os.environ.get("CLEAVE_MEGATRON")
    if not root or not (pathlib.Path(root) / "megatron" / "training" / "arguments.py").exists():
        print("%s: skipped (CLEAVE_MEGATRON names no checkout of Megatron-LM)" % name)
        return None
    if name == "megatron-bridge" and not os.environ.get("CLEAVE_MEGATRON_BRIDGE"):
        print("%s: skipped (CLEAVE_MEGATRON_BRIDGE names no checkout)" % name)
        return None
    with tempfile.TemporaryDirectory() as folder:
        launches = list(launches_of(write_launches, pathlib.Path(folder), count))
    done = subprocess.run([os.environ.get("CLEAVE_MEGATRON_PYTHON", sys.executable), "-c", worker, root], text=True, capture_output=True,
                          input="".join(json.dumps(launch) + "\n" for launch in launches))
    if done.returncode != 0:
        print("%s: skipped (%s)" % (name, done.stderr.strip().splitlines()[-1]))
        return None
    answer = json.loads(done.stdout.splitlines()[-1])
    refused = [result for result in answer["results"] if result["error"]]
    print("%s: %s with torch %s accepted %d of %d launches" %
          (name, answer["version"], answer["torch"], len(launches) - len(refused), len(launches)))
    for result in refused[:10]:
        print("  %(name)s: %(error)s" % result)
    return not refused


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    answers = [check_target("megatron-lm", megatron_launches, MEGATRON_WORKER, sys.argv[1], count),
               check_target("megatron-bridge", bridge_launches, BRIDGE_WORKER, sys.argv[1], count)]
    if all(answer is None for answer in answers):
        return SKIPPED
    return 0 if all(answer is not False for answer in answers) else 1


if __name__ == "__main__":
    sys.exit(main())
