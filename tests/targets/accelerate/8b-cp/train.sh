#!/usr/bin/env bash
# llama-3-8b on 32 h100-sxm, for accelerate 1.15.0.
# On several nodes it runs on each, with MASTER_ADDR and NODE_RANK set (train.sbatch does).
set -euo pipefail
cd "$(dirname "$0")"
export PYTORCH_ALLOC_CONF="${PYTORCH_ALLOC_CONF:-expandable_segments:True}"
exec accelerate launch --num_machines 4 --machine_rank "${NODE_RANK:-0}" \
    --main_process_ip "${MASTER_ADDR:-localhost}" --main_process_port "${MASTER_PORT:-29500}" \
    --use_fsdp --use_parallelism_config \
    --mixed_precision no \
    --num_processes 32 \
    --fsdp_version 2 \
    --fsdp_reshard_after_forward true \
    --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP \
    --fsdp_activation_checkpointing true \
    --fsdp_activation_checkpointing_offload true \
    --fsdp_offload_params false \
    --fsdp_state_dict_type SHARDED_STATE_DICT \
    --parallelism_config_dp_replicate_size 1 \
    --parallelism_config_dp_shard_size 4 \
    --parallelism_config_tp_size 1 \
    --parallelism_config_cp_size 8 \
    --parallelism_config_cp_comm_strategy alltoall \
    train.py --model "${MODEL:-model}" --output_dir out --max_steps "${STEPS:-20}" \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --max_length 8192 \
    --max_grad_norm 1 --gradient_checkpointing false --logging_steps 1 --report_to none --save_strategy no \
    --accelerator_config '{"gradient_accumulation_kwargs": {"sync_each_batch": true}}' "$@"
