#!/bin/bash
#SBATCH -N2 --gres=gpu:8
for TP in 2 4; do
  srun python run.py --recipe=llama3_8b_pretrain_config logger.name="run #1" ++model.tensor_model_parallel_size=$TP train.x="a 'b" --config x
done
