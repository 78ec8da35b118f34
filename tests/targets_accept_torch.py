"""The files in tests/targets are accepted by the frameworks that they are for: their own parsers and configuration
classes read them, without a GPU, and agree with what the files say. One package that is not installed is skipped by
name; where none is, so is the test (77).

    python3 tests/targets_accept_torch.py [FOLDER]     FOLDER: of targets, tests/targets if absent
CLEAVE_TARGETS_PYTHON: the interpreter that has the packages, for example that of a virtual environment.
CLEAVE_NNSCALER: a checkout of nnScaler, which no registry has; its solver in C++, which it need not be built for, is none."""
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RELEASES = {"torchtitan": "0.3.0", "deepspeed": "0.19.8", "accelerate": "1.15.0", "nnscaler": "0.8"}


def check(holds, *what):
    if not holds:
        sys.exit("targets_accept_torch: " + " ".join(str(w) for w in what))


def torchtitan(folder):
    """The recipe, by the program's own ConfigManager; its mesh, its stages, and its model's own checks."""
    sys.path.insert(0, str(folder))
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims

    shell = arguments_of(folder, "torchrun")
    options = shell[shell.index("-m") + 2 :]
    sys.modules.pop("cleave_recipe", None)
    config = ConfigManager().parse_args(options)
    sys.path.pop(0)
    text = (folder / "cleave_recipe.py").read_text()
    for section, option, value in re.findall(r"config\.(\w+)\.(\w+) = (\d+)\b", text):
        check(getattr(getattr(config, section), option) == int(value), folder, section, option, value)
    p, t = config.parallelism, config.training
    from torch.distributed.run import get_args_parser

    run = get_args_parser().parse_args(shell)
    dims = ParallelDims.from_config(p, int(run.nnodes) * int(run.nproc_per_node))
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


def arguments_of(folder, program):
    """What train.sh gives to the program, by running it with another program of that name."""
    with tempfile.TemporaryDirectory() as bin:
        fake = Path(bin) / program
        fake.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
        fake.chmod(0o755)
        ran = subprocess.run(
            ["bash", folder / "train.sh"], env={**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"}, capture_output=True, text=True
        )
    check(ran.returncode == 0, folder, ran.stderr)
    subprocess.run(["bash", "-n", folder / "train.sbatch"], check=True)
    return json.loads(ran.stdout)


def trainer(folder, options):
    """The script's own arguments, by transformers."""
    try:
        import transformers
    except ImportError:
        print("transformers: skipped, it is not installed")
        return None
    spec = importlib.util.spec_from_file_location("train", folder / "train.py")
    script = importlib.util.module_from_spec(spec)
    sys.modules["train"] = script
    spec.loader.exec_module(script)
    parser = transformers.HfArgumentParser((script.Job, transformers.TrainingArguments))
    given = parser.parse_args(options)
    check(given.max_length > 0 and given.per_device_train_batch_size > 0, folder, options)
    print(f"transformers {transformers.__version__}: accepts the arguments of {folder.name}/train.py")
    return given


def accelerate(folder):
    """Options and YAML by the launcher; what it tells the processes, by the classes that they make of it. The device that these ask
    for is answered for."""
    from unittest import mock

    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env

    options = arguments_of(folder, "accelerate")
    check(options[0] == "launch", folder)
    said = []
    for words in (options[1:], ["--config_file", str(folder / "accelerate.yaml"), "train.py"]):
        args, _, _ = _validate_launch_command(launch_command_parser().parse_args(words))
        check(args.use_fsdp and args.use_parallelism_config, folder, words)
        args.num_machines = args.num_machines or 1
        before = dict(os.environ)
        os.environ.update(prepare_multi_gpu_env(args))
        with mock.patch("accelerate.utils.dataclasses.is_cuda_available", lambda: True), mock.patch("torch.cuda.current_device", lambda: 0):
            plugin, sizes = FullyShardedDataParallelPlugin(), ParallelismConfig()
        check(sizes.total_size == args.num_processes, folder, sizes.total_size, args.num_processes)
        check(plugin.fsdp_version == 2, folder)
        handler = sizes.cp_handler.cp_comm_strategy if sizes.cp_size > 1 else None
        said.append(
            (plugin.reshard_after_forward, plugin.activation_checkpointing, plugin.activation_checkpointing_offload)
            + (sizes.dp_replicate_size, sizes.dp_shard_size, sizes.tp_size, sizes.cp_size, handler, args.mixed_precision)
        )
        os.environ.clear()
        os.environ.update(before)
    check(said[0] == said[1], folder, "options", said[0], "YAML", said[1])
    trainer(folder, options[options.index("train.py") + 1 :])


def deepspeed(folder):
    """The JSON by DeepSpeed's own configuration class, with as many ranks as it is for; the YAML by accelerate."""
    from unittest import mock

    from deepspeed.runtime.config import DeepSpeedConfig

    given = json.loads((folder / "ds_config.json").read_text())
    tensor = given.get("tensor_parallel", {}).get("autotp_size", 1)
    ranks = given["x-cleave"]["devices"] // tensor  # of which sequence_parallel_size are one
    with mock.patch("deepspeed.runtime.config.dist") as dist:
        dist.get_rank.return_value, dist.get_world_size.return_value = 0, ranks
        config = DeepSpeedConfig(dict(given))
    zero = given["zero_optimization"]
    check(config.zero_optimization_stage == zero["stage"], folder)
    check(config.train_batch_size == given["train_batch_size"], folder)
    check(config.gradient_accumulation_steps == given["gradient_accumulation_steps"], folder)
    for key in ("reduce_bucket_size", "allgather_bucket_size", "stage3_prefetch_bucket_size"):
        if key in zero:
            name = key.replace("stage3_", "")
            check(getattr(config.zero_config, name) == zero[key], folder, key)
    offload = config.zero_config.offload_optimizer
    device = str(getattr(offload.device, "value", offload.device)) if offload else "none"
    check(device == zero.get("offload_optimizer", {}).get("device", "none"), folder, device)
    check(config.bfloat16_config.enabled == given.get("bf16", {}).get("enabled", False), folder)
    check((config.tensor_parallel_config.autotp_size or 1) == tensor, folder, "autotp_size")
    try:
        from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    except ImportError:
        print("accelerate: skipped, it is not installed")
        return
    words = arguments_of(folder, "accelerate")
    where = os.getcwd()
    os.chdir(folder)
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args(words[1:]))
    os.chdir(where)
    check(args.use_deepspeed and args.deepspeed_config_file == "ds_config.json", folder)
    check(args.num_processes == given["x-cleave"]["devices"], folder)
    trainer(folder, words[words.index("train.py") + 1 :])


def nnscaler(folder):
    """The YAML by the Trainer's own classes, and what autodist makes of it, up to its search."""
    from unittest import mock

    import yaml
    from nnscaler import policies
    from nnscaler.cli.trainer_args import TrainerArgs

    shell = arguments_of(folder, "torchrun")
    where, options = os.getcwd(), shell[shell.index("train.py") + 1 :]
    sys.path.insert(0, str(folder))
    sys.modules.pop("train", None)
    os.chdir(folder)
    with mock.patch.dict(os.environ, {"MODEL": "model"}):
        given = TrainerArgs.from_cli(list(options))
    os.chdir(where)
    said = yaml.safe_load((folder / "train.yaml").read_text())
    import train

    config, stages = given.compute_config, said["model"]["args"].get("stage_blocks", [0])
    check(given.update_freq == said["grad_accumulation_steps"], folder, "micro-batches", given.update_freq)
    check(given.optimizer.clip_gnorm == said["optimizer"]["clip_gnorm"], folder, "clip_gnorm")
    for hook in (given.hook.on_step_end, given.hook.on_train_end):
        check(callable(getattr(train, hook.split(".")[1])), folder, hook)
    with mock.patch.object(policies, "parallelize_graph", lambda graph, config: config):
        with mock.patch("torch.cuda.mem_get_info", return_value=(0, 80 << 30)):
            search = policies.pas_autodist(None, config)
    check(search.pipeline_nstages == config.plan_ngpus == len(stages), folder, "stages", search.pipeline_nstages)
    check(search.mesh_desc.ngpus == config.plan_ngpus and search.update_freq == given.update_freq, folder, "mesh")
    check((search.zero_stage == 1) == config.use_zero, folder, "ZeRO")
    ranks = set()
    for rank in range(config.runtime_ngpus):
        with mock.patch.dict(os.environ, {"RANK": str(rank), "WORLD_SIZE": str(config.runtime_ngpus)}):
            train.number_ranks(config.plan_ngpus)
            ranks.add(int(os.environ["RANK"]))
            check(int(os.environ["RANK"]) % config.plan_ngpus == rank * config.plan_ngpus // config.runtime_ngpus, folder, rank)
    check(ranks == set(range(config.runtime_ngpus)), folder, "ranks")
    sys.path.pop(0)


def of_checkout():
    """The release of nnScaler that CLEAVE_NNSCALER names, which then can be imported."""
    import types

    root = Path(os.environ["CLEAVE_NNSCALER"])
    sys.path.insert(0, str(root))
    for absent in ("nnscaler.autodist.dp_solver", "matplotlib", "matplotlib.pyplot"):  # what it draws with
        sys.modules[absent] = types.ModuleType(absent)
    return re.search(r"'(.*)'", (root / "nnscaler" / "version.py").read_text()).group(1)


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
            version = of_checkout() if package == "nnscaler" else importlib.metadata.version(package)
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


CHECKS = {"torchtitan": torchtitan, "accelerate": accelerate, "deepspeed": deepspeed, "nnscaler": nnscaler}
if __name__ == "__main__":
    main()
