#!/usr/bin/env bash
# llama-2-7b on 16 h100-sxm, for torchtitan 0.3.0.
# On several nodes it runs on each, with MASTER_ADDR and NODE_RANK set (train.sbatch does).
set -euo pipefail
cd "$(dirname "$0")"
export PYTORCH_ALLOC_CONF="${PYTORCH_ALLOC_CONF:-expandable_segments:True}"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec torchrun --nnodes=2 --nproc-per-node=8 --node-rank="${NODE_RANK:-0}" \
    --rdzv-backend=static --master-addr="${MASTER_ADDR:-localhost}" \
    --master-port="${MASTER_PORT:-29500}" --local-ranks-filter=0 --role=rank --tee=3 \
    -m torchtitan.train --module cleave_recipe --config train "$@"
