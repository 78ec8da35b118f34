#!/usr/bin/env bash
# further on 32 devices, for Megatron-LM with Megatron-Core 0.19. See README.md.
# Run it on each node with NODE_RANK and MASTER_ADDR set, or with sbatch train.sbatch.
# ./train.sh --dry-run: one device allocates what rank ${RANK:-0} of all would.
# Data and tokenizer: DATA_ARGS, in place of data that is made up.
set -euo pipefail
MEGATRON_DIR=${MEGATRON_DIR:-Megatron-LM}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
NNODES=${NNODES:-4}
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-localhost}
MASTER_PORT=${MASTER_PORT:-29500}
TRAIN_ITERS=${TRAIN_ITERS:-50}
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}
export PYTORCH_CUDA_ALLOC_CONF=${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}

MODEL_ARGS=(
    --num-layers 16
    --hidden-size 256
    --ffn-hidden-size 512
    --num-attention-heads 16
    --normalization RMSNorm
    --norm-epsilon 1e-05
    --swiglu
    --disable-bias-linear
    --qk-layernorm
    --position-embedding-type rope
    --rotary-base 10000
    --max-position-embeddings 4096
    --untie-embeddings-and-output-weights
    --vocab-size 32000
    --multi-latent-attention
    --q-lora-rank 64
    --qk-head-dim 16
    --qk-pos-emb-head-dim 8
    --v-head-dim 16
    --rope-type rope
    --no-rope-fusion
    --num-experts 16
    --moe-layer-freq '([0]*2+[1]*14)'
    --moe-router-topk 4
    --moe-ffn-hidden-size 64
    --moe-shared-expert-intermediate-size 64
    --moe-router-score-function sigmoid
    --moe-router-enable-expert-bias
    --moe-router-topk-scaling-factor 2.5
    --moe-router-load-balancing-type none
    --moe-grouped-gemm
    --mtp-num-layers 2
    --mtp-loss-scaling-factor 0.3
    --moe-token-dispatcher-type alltoall
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size 2
    --sequence-parallel
    --pipeline-model-parallel-size 4
    --pipeline-model-parallel-layout 'Et*3|t*5|t*4|t*4mmL'
    --context-parallel-size 1
    --expert-model-parallel-size 8
    --expert-tensor-parallel-size 1
    --use-distributed-optimizer
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
    --global-batch-size 64
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
    WORLD_SIZE=32 RANK=${RANK:-0} LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=$MASTER_PORT \
        python "$MEGATRON_DIR/pretrain_gpt.py" "${ALL_ARGS[@]}" --fake-process-group
elif [[ "${1:-}" == --report-memory ]]; then
    WORLD_SIZE=32 RANK=0 LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=$MASTER_PORT \
        python "$MEGATRON_DIR/tools/report_theoretical_memory.py" "${ALL_ARGS[@]}"
else
    torchrun --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NNODES" --node_rank "$NODE_RANK" \
        --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \
        "$MEGATRON_DIR/pretrain_gpt.py" "${ALL_ARGS[@]}" "$@"
fi
