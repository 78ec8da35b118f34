#!/usr/bin/env python3
"""Megatron-LM's command lines as users have them: what a plan has of them, where their jobs say nodes, words that are slips. usage: test_cli_megatron.py CLEAVE SOURCE_ROOT"""
from calls import check, expect, main, run, seen_elsewhere

SIZES = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --vocab-size 1024 --bf16"
WORDS = f"pretrain_gpt.py {SIZES} --micro-batch-size 2 --global-batch-size 16"
JOB = ("estimate", "--from", "megatron-lm")
CLUSTER = ("--cluster", "1x8:h100-sxm")
EXPERTS = f"{WORDS} --num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall --moe-aux-loss-coeff 0.01"


@seen_elsewhere
def what_a_plan_has_not(folder):
    """Words that change neither time nor memory, and that an export of the plan would need again, are told where a plan is kept."""
    plan = folder / "plan.json"
    told = "note: the plan does not have what changes neither time nor memory, and export does not write it: "
    for words, lost in ((f"{EXPERTS} --moe-router-dtype fp32 --moe-permute-fusion --lr=3e-4 --log-interval 1 --data-path x",
                         "--moe-router-load-balancing-type aux_loss (export writes seq_aux_loss), --moe-router-dtype fp32, --moe-permute-fusion, --lr=3e-4; add it there"),
                        (f"{EXPERTS} --moe-router-load-balancing-type seq_aux_loss --log-interval 1", None), (WORDS, None)):
        result = run(*JOB, words, *CLUSTER, "-o", plan)
        check(f"{words}: {lost}", result.returncode == 0 and (told + lost in result.stderr if lost else told not in result.stderr), result)
        result = run(*JOB, words, *CLUSTER)
        check("no plan is kept", result.returncode == 0 and told not in result.stderr, result)


def nodes_of_the_job(folder):
    """Options of sbatch in front of a script are held against the cluster as its lines are, over which they go; so are nodes that srun is told without tasks."""
    script = folder / "job.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH --nodes=8 --exclusive\n#SBATCH --gpus-per-node=8\ntorchrun --nproc_per_node $SLURM_GPUS_PER_NODE --nnodes $SLURM_NNODES {WORDS} --tensor-model-parallel-size $1\n")
    line, asked = "#SBATCH --nodes=8 (line 2: the cluster that it is priced on has 1)", "sbatch --nodes=4 (the cluster that it is priced on has 1)"
    few = "sbatch --gpus-per-node=4 (the cluster that it is priced on has 8)"
    for words, told, untold in ((f"sbatch {script} 2", [line], [asked]), (f"sbatch --nodes=4 {script} 2", [asked], [line]), (f"sbatch -N 4 --gpus-per-node=h100:4 -c 8 {script} 2", [asked, few], [line]),
                                (f"sbatch --account=x -N4 -J name {script} 2", [asked], [line]), (f"sbatch --nodes 1 --gpus-per-node 8 {script} 2", [], ["the cluster that it is priced on"])):
        result = run(*JOB, words, *CLUSTER)
        shown = result.stdout + result.stderr
        check(f"{words}: {told}", result.returncode == 0 and "tp 2" in shown and all(one in shown for one in told) and not [one for one in untold if one in shown], result)
    nodes = "4 nodes for the launch (the cluster that it is priced on has 1)"
    for words, told in ((f"srun -N 4 python {WORDS}", True), (f"srun --nodes=4 python {WORDS}", True), (f"srun -N 1 python {WORDS}", False), (f"srun --nodes 4 hostname\npython {WORDS}", False)):
        result = run(*JOB, words, *CLUSTER)
        check(f"{words}: {told}", result.returncode == 0 and (nodes in result.stdout + result.stderr) == told, result)


@seen_elsewhere
def words_that_are_slips(folder):
    """Megatron-LM takes no abbreviations: what lacks a part of an option, or is called as elsewhere, is refused with the one that is meant."""
    for word, meant in (("--tensor-parallel-size 4", "--tensor-model-parallel-size"), ("--tensor-model-parallel 4", "--tensor-model-parallel-size"), ("--expert-parallel-size=2", "--expert-model-parallel-size"),
                        ("--context-parallel 2", "--context-parallel-size"), ("--recompute-gran full", "--recompute-granularity"), ("--use-distributed-optim", "--use-distributed-optimizer"), ("--tp 4", "--tensor-model-parallel-size"),
                        ("--gbs 32", "--global-batch-size"), ("--num-layer 4", "--num-layers")):
        expect(word, 2, f"launch: {word.replace('=', ' ').split()[0]} is no argument of Megatron-LM: did you mean {meant}.", *JOB, f"{WORDS} {word}", *CLUSTER)
    for word in ("--foo-bar", "--decoder-num-layers 4", "--overlap-moe-thing", "--use-something-else"):  # of forks, and of other models
        result = run(*JOB, f"{WORDS} {word}", *CLUSTER)
        check(word, result.returncode == 0 and f"not understood: {word.split()[0]}" in result.stdout + result.stderr, result)


@seen_elsewhere
def files_of_others(folder):
    """A file of torchtitan's that is not behind its option, and a command that starts a program which may have a recipe, are said with what to type."""
    (folder / "t.toml").write_text('[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\n')
    start = "torchrun --nproc_per_node=8 -m torchtitan.train"
    for words, place in (("t.toml", 49), ("--config t.toml", 49), ("--config-file=t.toml", 49)):
        expect(words, 2, f"launch:1:{place}: t.toml: torchtitan is told its file by --job.config_file .config/manager.py.: write --job.config_file t.toml", "estimate", "--from", "torchtitan", f"{start} {words}", *CLUSTER, cwd=folder)
    expect("a script that is not here", 2, "expected settings of torchtitan, .*, or --job.config_file FILE.toml; found none", "estimate", "--from", "torchtitan", "CONFIG_FILE=t.toml ./run_train.sh", *CLUSTER, cwd=folder)
    result = run("estimate", "--from", "torchtitan", f"{start} --job.config_file t.toml", *CLUSTER, cwd=folder)
    check("behind its option", result.returncode in (0, 3) and "llama on 8 devices" in result.stdout, result)
    (folder / "bridge.sh").write_text("#!/bin/bash\nexport A=1\ntorchrun --nproc_per_node=8 train_llama.py --gbs 256\n")
    for launch in ("bridge.sh", "torchrun --nproc_per_node=8 train_llama.py --gbs 256"):
        expect(launch, 2, "expected a recipe of Megatron-Bridge, .* found none: what it starts may have it, cleave estimate --from megatron-bridge train_llama.py", "estimate", "--from", "megatron-bridge", launch, *CLUSTER, cwd=folder)


main(what_a_plan_has_not, nodes_of_the_job, words_that_are_slips, files_of_others)
