N=(a b $(nproc)); X=${N[1]:-y}${#N[@]}
for T in 2 4; do (( M = T << 1 )); (( M++ )); done
[[ ( $X =~ ^(a|b) || $T == 2 ) && ! -z $M ]] && A="--training.seq_len $((2 ** 9 >> 1)) --training.steps $S"
read -r H <<< "$X"
torchrun --nproc_per_node 8 pretrain_gpt.py $A --micro-batch-size 1 --tensor-model-parallel-size $T --bf16 $E
