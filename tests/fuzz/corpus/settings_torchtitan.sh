#!/bin/bash
NGPU=${NGPU:-8}
ARGS=(
 --training.seq_len 4096 # here
 --parallelism.pipeline-parallel-degree=4
)
ARGS+=(--training.disable-cuda-graphs)
exec torchrun --nnodes "4" --nproc_per_node $NGPU -m torchtitan.train --module llama3 --config 'llama3_8b' "${ARGS[@]}" \
 --training.local_batch_size 16 activation_checkpoint:full
