set -- --tp 2 --pp "4 5" 'a|b' \
  c
while [ $# -gt 0 ]; do
  case $1 in
    --tp) TP=$2; shift 2;;
    *) shift;;
  esac
done
while getopts "t:p:" o; do :; done
if [ $TP -gt 1 ]; then exit 3; fi
torchrun pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --decoder-seq-length 64 --is-hybrid-model --fp8-format hybrid --fp8-recipe mxfp8 --micro-batch-size 1 --tensor-model-parallel-size $TP
torchrun pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2
