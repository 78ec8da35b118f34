#!/usr/bin/env bash
# llama-3-8b on 64 h100-sxm, for nnScaler 0.8.
# On several nodes it runs on each, with MASTER_ADDR and NODE_RANK set (train.sbatch does).
set -euo pipefail
cd "$(dirname "$0")"
export PYTORCH_ALLOC_CONF="${PYTORCH_ALLOC_CONF:-expandable_segments:True}"
export MODEL="${MODEL:-model}"
exec torchrun --nnodes 8 --nproc_per_node 8 --node_rank "${NODE_RANK:-0}" \
    --master_addr "${MASTER_ADDR:-localhost}" --master_port "${MASTER_PORT:-29500}" \
    train.py -f train.yaml "$@"
