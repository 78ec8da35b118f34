accelerate launch --config_file ds.yaml train.py --deepspeed ds.json --per_device_train_batch_size 2 --job.config_file a.toml -f b.yaml --module cleave_recipe --max_length 64
