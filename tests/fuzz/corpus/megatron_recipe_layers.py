from functools import partial

from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec


def my_config():
    cfg = _pretrain_common()
    cfg.model = MLAModelProvider(num_layers=4, hidden_size=64, num_attention_heads=4)
    cfg.model.transformer_layer_spec = partial(get_gpt_decoder_block_spec, use_transformer_engine=True)
    cfg.model.moe_layer_freq = ([0]*1+[1]*3)
    cfg.model.ffn_hidden_size = 128
    cfg.model.num_moe_experts = 8
    cfg.model.moe_ffn_hidden_size = 32
    cfg.model.position_embedding_type = "rope"
    cfg.model.rope_type = "rope"
    cfg.model.normalization = "RMSNorm"
    cfg.model.add_bias_linear = False
    cfg.model.q_lora_rank = 16
    cfg.model.mtp_num_layers = 1
    cfg.model.vocab_size = 128
    cfg.train.global_batch_size = 8
    cfg.train.micro_batch_size = 1
    return cfg
