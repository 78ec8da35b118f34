#!/usr/bin/env bash
# gpt3-175b on 128 devices, for Megatron-LM with Megatron-Core 0.19. See README.md.
# Run it on each node with NODE_RANK and MASTER_ADDR set, or with sbatch train.sbatch.
# ./train.sh --dry-run: one device allocates what rank ${RANK:-0} of all would.
# Data and tokenizer: DATA_ARGS, in place of data that is made up.
set -euo pipefail
MEGATRON_DIR=${MEGATRON_DIR:-Megatron-LM}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
NNODES=${NNODES:-16}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-localhost}
MASTER_PORT=${MASTER_PORT:-29500}
TRAIN_ITERS=${TRAIN_ITERS:-50}
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}
export PYTORCH_CUDA_ALLOC_CONF=${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}

MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --ffn-hidden-size 49152
    --num-attention-heads 96
    --kv-channels 128
    --normalization LayerNorm
    --norm-epsilon 1e-05
    --position-embedding-type learned_absolute
    --max-position-embeddings 2048
    --vocab-size 50257
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size 8
    --sequence-parallel
    --pipeline-model-parallel-size 8
    --pipeline-model-parallel-layout 'Et*11|(t*12|)*6t*13L'
    --context-parallel-size 1
    --use-distributed-optimizer
    --overlap-grad-reduce
    --overlap-param-gather
    --ddp-bucket-size 1
)
MEMORY_ARGS=(
    --optimizer-cpu-offload
    --use-precision-aware-optimizer
)
TRAINING_ARGS=(
    --seq-length 2048
    --micro-batch-size 2
    --global-batch-size 64
    --bf16
    --fp8-format hybrid
    --fp8-recipe tensorwise
    --clip-grad 0
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
    WORLD_SIZE=128 RANK=${RANK:-0} LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=$MASTER_PORT \
        python "$MEGATRON_DIR/pretrain_gpt.py" "${ALL_ARGS[@]}" --fake-process-group
elif [[ "${1:-}" == --report-memory ]]; then
    WORLD_SIZE=128 RANK=0 LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=$MASTER_PORT \
        python "$MEGATRON_DIR/tools/report_theoretical_memory.py" "${ALL_ARGS[@]}"
else
    torchrun --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NNODES" --node_rank "$NODE_RANK" \
        --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \
        "$MEGATRON_DIR/pretrain_gpt.py" "${ALL_ARGS[@]}" "$@"
fi
