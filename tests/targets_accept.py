"""Lets the parsers of training frameworks read what cleave writes for them; no GPU is needed.

usage: targets_accept.py WRITE_LAUNCHES [COUNT]

Megatron-LM: CLEAVE_MEGATRON names a checkout, CLEAVE_MEGATRON_PYTHON a Python that has torch, packaging, einops, omegaconf
and PyYAML (this one if unset). Its scripts are run by bash with a torchrun that only notes its arguments; these go through
parse_args(), validate_args() and core_transformer_config_from_args(). What only a GPU or Transformer Engine could answer is
answered for them: the card is of compute capability 9.0, Transformer Engine is there.
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
        assert chunks == 1 or int(calls) % args.pipeline_model_parallel_size == 0, "micro-batches of an interleaved schedule"
    except (SystemExit, Exception) as caught:
        error = "%s: %s %s" % (type(caught).__name__, caught, out.getvalue()[-300:] if isinstance(caught, SystemExit) else "")
    results.append({"name": launch["name"], "error": error})
print(json.dumps({"version": __version__, "torch": torch.__version__, "results": results}), file=sys.__stdout__)
'''


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


def check_megatron(write_launches, count):
    """None: not installed; else whether all were accepted."""
    root = os.environ.get("CLEAVE_MEGATRON")
    if not root or not (pathlib.Path(root) / "megatron" / "training" / "arguments.py").exists():
        print("megatron-lm: skipped (CLEAVE_MEGATRON names no checkout of Megatron-LM)")
        return None
    with tempfile.TemporaryDirectory() as name:
        launches = list(megatron_launches(write_launches, pathlib.Path(name), count))
    worker = subprocess.run([os.environ.get("CLEAVE_MEGATRON_PYTHON", sys.executable), "-c", MEGATRON_WORKER, root], text=True, capture_output=True,
                            input="".join(json.dumps(launch) + "\n" for launch in launches))
    if worker.returncode != 0:
        print("megatron-lm: skipped (%s)" % worker.stderr.strip().splitlines()[-1])
        return None
    answer = json.loads(worker.stdout.splitlines()[-1])
    refused = [result for result in answer["results"] if result["error"]]
    print("megatron-lm: Megatron-Core %s with torch %s accepted %d of %d launches" %
          (answer["version"], answer["torch"], len(launches) - len(refused), len(launches)))
    for result in refused[:10]:
        print("  %(name)s: %(error)s" % result)
    return not refused


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    answers = [check_megatron(sys.argv[1], count)]
    if all(answer is None for answer in answers):
        return SKIPPED
    return 0 if all(answer is not False for answer in answers) else 1


if __name__ == "__main__":
    sys.exit(main())
