#!/usr/bin/env python3
"""Megatron-LM's command lines as users have them: what a plan has of them, where their jobs say nodes, words that are slips. usage: test_cli_megatron.py CLEAVE SOURCE_ROOT"""
from calls import check, expect, main, run

SIZES = "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --vocab-size 1024 --bf16"
WORDS = f"pretrain_gpt.py {SIZES} --micro-batch-size 2 --global-batch-size 16"
JOB = ("estimate", "--from", "megatron-lm")
CLUSTER = ("--cluster", "1x8:h100-sxm")
EXPERTS = f"{WORDS} --num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall --moe-aux-loss-coeff 0.01"


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


main(what_a_plan_has_not)
