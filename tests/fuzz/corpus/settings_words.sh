llamafactory-cli train a.yaml deepspeed=ds.json lora_rank=64 quantization_bit=4 double_quantization=false per_device_train_batch_size=4 cutoff_len=4096 finetuning_type=lora lora_target=q_proj,v_proj
