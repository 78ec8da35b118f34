#!/usr/bin/env bash
# On each node, with NODE_RANK and MASTER_ADDR set; or sbatch train.sbatch.
set -euo pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}
export PYTORCH_CUDA_ALLOC_CONF=${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}
torchrun --nproc_per_node "${GPUS_PER_NODE:-8}" --nnodes "${NNODES:-4}" --node_rank "${NODE_RANK:-0}" \
    --master_addr "${MASTER_ADDR:-localhost}" --master_port "${MASTER_PORT:-29500}" \
    "$(dirname "$0")/recipe.py" "$@"
