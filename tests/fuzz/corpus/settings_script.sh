N=(a b $(nproc)); X=${N[1]:-y}${#N[@]}
for T in 2 4; do (( M = T << 1 )); (( M++ )); done
[[ ( $X =~ ^(a|b) || $T == 2 ) && ! -z $M ]] && A="--training.seq_len $((2 ** 9 >> 1)) --training.steps $S"
read -r H <<< "$X"
IFS=, read -ra L <<< "1,2,$X"; read -d : D <<< "$H"; (( ++M, 1 )) || : ${D:=${X%%.*}} ${X:0:1} "`nproc`" ${X##*/}
for Y in "${L[@]}" ${NONE[@]}; do (( N > 0 && 8 % N )) && f() { shift 2; echo "${@}"; } && f 1 2 3 2>&1; done
torchrun --nproc_per_node 8 --module torchtitan.train $A --compile.enable ${E}/x --parallelism.tensor_parallel_degree=$T "$@"
