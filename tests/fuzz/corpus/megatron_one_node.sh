#!/bin/bash
NONE=()
BLOCKS=(--recompute-granularity full --recompute-method block --recompute-num-layers 3)
torchrun --nproc_per_node ${GPUS_PER_NODE:-8} --nnodes ${NNODES:-1} pretrain_gpt.py --num-layers 8 --hidden-size 256 --num-attention-heads 8 \
    --multi-latent-attention --position-embedding-type rope --disable-bias-linear --num-experts 4 --moe-layer-freq "([0]*1+[1]*7)" --pipeline-model-parallel-size 2 --cp-comm-type a2a "${NONE[@]}" \
    "${BLOCKS[@]}" --micro-batch-size 1 --seq-length 512 --vocab-size 1024 --bf16
