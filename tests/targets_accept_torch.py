"""The files in tests/targets are accepted by the frameworks that they are for: their own parsers and configuration
classes read them, without a GPU, and agree with what the files say. One package that is not installed is skipped by
name; where none is, so is the test (77).

    python3 tests/targets_accept_torch.py [FOLDER]     FOLDER: of targets, tests/targets if absent
CLEAVE_TARGETS_PYTHON: the interpreter that has the packages, for example that of a virtual environment."""
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RELEASES = {"torchtitan": "0.3.0", "deepspeed": "0.19.8", "accelerate": "1.15.0"}


def check(holds, *what):
    if not holds:
        sys.exit("targets_accept_torch: " + " ".join(str(w) for w in what))


def torchtitan(folder):
    """The recipe, by the program's own ConfigManager; its mesh, its stages, and its model's own checks."""
    sys.path.insert(0, str(folder))
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims

    shell = (folder / "train.sh").read_text()
    options = shell[shell.index("-m torchtitan.train") :].split()[2:-1]
    sys.modules.pop("cleave_recipe", None)
    config = ConfigManager().parse_args(options)
    sys.path.pop(0)
    text = (folder / "cleave_recipe.py").read_text()
    for section, option, value in re.findall(r"config\.(\w+)\.(\w+) = (\d+)\b", text):
        check(getattr(getattr(config, section), option) == int(value), folder, section, option, value)
    p, t = config.parallelism, config.training
    nodes = int(re.search(r"--nnodes=(\d+)", shell)[1]) * int(re.search(r"--nproc-per-node=(\d+)", shell)[1])
    dims = ParallelDims.from_config(p, nodes)
    check(dims.world_size == nodes, folder, "devices", nodes)
    config.__post_init__()  # its own checks, of what the recipe has changed
    config.model_spec.model.update_from_config(config=config)
    batch = dims.dp_replicate * dims.dp_shard
    check(t.global_batch_size % (t.local_batch_size * batch) == 0, folder, "batch")
    if p.pipeline_parallel_degree > 1:
        from torchtitan.distributed.pipeline_parallel import (
            _generate_llm_fqn_per_model_part,
            _get_pp_rank_to_stage_indices_mapping,
        )

        pieces = p.module_fqns_per_model_part
        count = t.local_batch_size // p.pipeline_parallel_microbatch_size
        check(count >= p.pipeline_parallel_degree, folder, "micro-batches", count)
        names = [name for piece in pieces for name in piece]
        whole = _generate_llm_fqn_per_model_part(1, len(config.model_spec.model.layers))[0]
        check(names == whole, folder, "layers", len(names), len(whole))
        held = [
            _get_pp_rank_to_stage_indices_mapping(
                r, p.pipeline_parallel_degree, p.pipeline_parallel_schedule, len(pieces)
            )
            for r in range(p.pipeline_parallel_degree)
        ]
        check(sorted(sum(held, ())) == list(range(len(pieces))), folder, "stages", held)
        schedule(p, count, len(pieces))
    check(len(config.model_spec.model.layers) in (32, 80, 126), folder, "layers")


def schedule(p, count, pieces):
    """Its schedule's own order of passes, where it makes one without devices."""
    from torch.distributed.pipelining.schedules import get_schedule_class

    get_schedule_class(p.pipeline_parallel_schedule)
    rounds = max(1, count // p.pipeline_parallel_degree)
    check(p.pipeline_parallel_schedule != "Interleaved1F1B" or count % rounds == 0, "rounds", count, pieces)


def main():
    python = os.environ.get("CLEAVE_TARGETS_PYTHON")
    if python and "CLEAVE_TARGETS_INSIDE" not in os.environ:
        sys.exit(
            subprocess.run([python, "-W", "ignore", *sys.argv], env={**os.environ, "CLEAVE_TARGETS_INSIDE": "1"}).returncode
        )
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "targets"
    ran = 0
    for package, accepts in CHECKS.items():
        folders = sorted(f for f in (root / package).glob("*") if f.is_dir())
        try:
            version = importlib.metadata.version(package)
            __import__(package)
        except Exception as error:
            print(f"{package}: skipped, it is not installed ({type(error).__name__})")
            continue
        if version != RELEASES[package]:
            print(f"{package}: skipped, {version} is installed and not {RELEASES[package]}")
            continue
        for folder in folders:
            accepts(folder)
            print(f"{package} {version}: accepts {folder.name}")
            ran += 1
    print(f"targets_accept_torch: {ran} launches accepted")
    sys.exit(0 if ran else 77)


CHECKS = {"torchtitan": torchtitan}
if __name__ == "__main__":
    main()
