from megatron.bridge.recipes.llama import llama3_70b_pretrain_config


def my_config():
    cfg = llama3_70b_pretrain_config()
    cfg.model.virtual_pipeline_model_parallel_size = None
    cfg.optimizer.exp_avg_dtype = torch.bfloat16
    cfg.train.global_batch_size = 256
    return cfg
