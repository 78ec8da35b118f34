#!/usr/bin/env bash
# llama-3-8b on 16 h100-sxm, for DeepSpeed 0.19.8.
# On several nodes it runs on each, with MASTER_ADDR and NODE_RANK set (train.sbatch does).
set -euo pipefail
cd "$(dirname "$0")"
export PYTORCH_ALLOC_CONF="${PYTORCH_ALLOC_CONF:-expandable_segments:True}"
exec accelerate launch --config_file accelerate.yaml --machine_rank "${NODE_RANK:-0}" \
    --main_process_ip "${MASTER_ADDR:-localhost}" --main_process_port "${MASTER_PORT:-29500}" \
    train.py --model "${MODEL:-model}" --output_dir out --max_steps "${STEPS:-20}" \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --max_length 8192 \
    --max_grad_norm 1 --bf16 true --gradient_checkpointing true --logging_steps 1 --report_to none --save_strategy no "$@"
