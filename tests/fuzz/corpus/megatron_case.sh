AC=${AC:-full}
TP=2
case "$TP" in
  1|4) X="--sequence-parallel" ;;
  (2) X="--tensor-model-parallel-size 2"
      if [ $AC = full ]; then X="$X --sequence-parallel"; fi;;
  *) X="--tensor-model-parallel-size 8";;
esac
[[ $AC == full ]] && R="--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
[[ $AC != full ]] && R="--recompute-granularity selective"
case $TP in
  [0-2]) V="--bf16";
    ;;
  [!0-2]) V="--fp16" ;;
esac
python pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 1024 --micro-batch-size 1 --global-batch-size 8 $X $R $V
