python pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 256 --seq-length 64 \
  --max-position-embeddings 64 --micro-batch-size 1 --attention-backend local --use-rotary-position-embeddings
