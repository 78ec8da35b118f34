#!/usr/bin/env bash
# mixtral-8x7b on 64 devices, for Megatron-LM with Megatron-Core 0.19. See README.md.
# Run it on each node with NODE_RANK and MASTER_ADDR set, or with sbatch train.sbatch.
# ./train.sh --dry-run: one device allocates what rank ${RANK:-0} of all would.
# Data and tokenizer: DATA_ARGS, in place of data that is made up.
set -euo pipefail
MEGATRON_DIR=${MEGATRON_DIR:-Megatron-LM}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
NNODES=${NNODES:-8}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-localhost}
MASTER_PORT=${MASTER_PORT:-29500}
TRAIN_ITERS=${TRAIN_ITERS:-50}
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}
export PYTORCH_CUDA_ALLOC_CONF=${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}

MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --kv-channels 128
    --normalization RMSNorm
    --norm-epsilon 1e-05
    --swiglu
    --disable-bias-linear
    --position-embedding-type rope
    --rotary-base 1000000
    --max-position-embeddings 32768
    --untie-embeddings-and-output-weights
    --vocab-size 32000
    --num-experts 8
    --moe-ffn-hidden-size 14336
    --moe-router-load-balancing-type seq_aux_loss
    --moe-aux-loss-coeff 0.00125
    --moe-grouped-gemm
    --moe-token-dispatcher-type alltoall
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size 1
    --pipeline-model-parallel-size 1
    --context-parallel-size 2
    --expert-model-parallel-size 8
    --use-distributed-optimizer
    --num-distributed-optimizer-instances 2
    --overlap-grad-reduce
    --overlap-param-gather
    --ddp-bucket-size 40000000
)
MEMORY_ARGS=(
    --recompute-granularity full
    --recompute-method uniform
    --recompute-num-layers 1
)
TRAINING_ARGS=(
    --seq-length 4096
    --micro-batch-size 1
    --global-batch-size 256
    --bf16
    --clip-grad 1
    --transformer-impl transformer_engine
    --cross-entropy-loss-fusion
    --cross-entropy-fusion-impl native
    --attention-dropout 0.0
    --hidden-dropout 0.0
)
RUN_ARGS=(
    --train-iters "$TRAIN_ITERS"
    --lr 1.0e-4
    --min-lr 1.0e-5
    --lr-decay-style cosine
    --weight-decay 0.1
    --log-interval 1
    --log-throughput
    --eval-iters 0
    --no-create-attention-mask-in-dataloader
    --manual-gc
)
DATA_ARGS=(${DATA_ARGS:---mock-data --tokenizer-type NullTokenizer})
ALL_ARGS=("${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" "${MEMORY_ARGS[@]}" "${TRAINING_ARGS[@]}"
    "${RUN_ARGS[@]}" "${DATA_ARGS[@]}")

if [[ "${1:-}" == --dry-run ]]; then
    WORLD_SIZE=64 RANK=${RANK:-0} LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=$MASTER_PORT \
        python "$MEGATRON_DIR/pretrain_gpt.py" "${ALL_ARGS[@]}" --fake-process-group
elif [[ "${1:-}" == --report-memory ]]; then
    WORLD_SIZE=64 RANK=0 LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=$MASTER_PORT \
        python "$MEGATRON_DIR/tools/report_theoretical_memory.py" "${ALL_ARGS[@]}"
else
    torchrun --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NNODES" --node_rank "$NODE_RANK" \
        --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \
        "$MEGATRON_DIR/pretrain_gpt.py" "${ALL_ARGS[@]}" "$@"
fi
