#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8
GPUS=${GPUS:-8}
A=(--num-layers 4 --hidden-size 64 # sizes
  --num-attention-heads 4 "--vocab-size 1000")
A+=(--moe-layer-freq '([0]*1+[1]*3)' --num-experts $((4 * 2)))
B="--fp8-format hybrid --window-size 15,0"
if [[ "$1" == x && -z "$2" ]] || [ $GPUS -gt 4 ]; then B="$B --recompute-granularity selective --recompute-modules mlp moe"; else B=; fi
case $1 in a) echo "b" ;; esac
cat <<EOF > file
--num-layers 3
EOF
for i in 1 2; do srun bash -c "python p.py ${A[*]} ${B} --micro-batch-size 1 --seq-length 128"; done
torchrun --nproc_per_node $GPUS --nnodes=2:4 pretrain_gpt.py ${A[@]} $B --pipeline-model-parallel-size 2 \
  --pipeline-model-parallel-layout Et|(t|)*2,tL --micro-batch-size 1 --seq-length 128 `date` $(ls) 2>&1 | tee log
