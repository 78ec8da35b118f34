"""further on 32 devices, for Megatron-Bridge 0.7. See README.md.

torchrun --nproc_per_node 8 --nnodes 4 ... recipe.py trains on made-up data."""

import sys
from functools import partial

import torch.nn.functional as F
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.bridge.models.mla_provider import MLAModelProvider
from megatron.bridge.recipes.common import _pretrain_common
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import get_mixed_precision_config
from megatron.bridge.training.pretrain import pretrain
from megatron.bridge.training.utils.theoretical_memory_utils import (
    estimate_training_memory,
    format_training_memory_estimate,
)


def pretrain_32gpu_config():
    cfg = _pretrain_common()
    cfg.model = MLAModelProvider(
        num_layers=16,
        hidden_size=256,
        num_attention_heads=16,
    )
    cfg.model.transformer_layer_spec = partial(get_gpt_decoder_block_spec, use_transformer_engine=True)
    cfg.model.gated_linear_unit = True
    cfg.model.activation_func = F.silu
    cfg.model.share_embeddings_and_output_weights = False
    cfg.model.should_pad_vocab = True
    cfg.model.hidden_dropout = 0.0
    cfg.model.attention_dropout = 0.0
    cfg.model.moe_layer_freq = ([0]*2+[1]*14)
    cfg.model.ffn_hidden_size = 512
    cfg.model.normalization = "RMSNorm"
    cfg.model.layernorm_epsilon = 1e-05
    cfg.model.add_bias_linear = False
    cfg.model.qk_layernorm = True
    cfg.model.position_embedding_type = "rope"
    cfg.model.vocab_size = 32000
    cfg.model.init_method_std = 0.02
    cfg.model.q_lora_rank = 64
    cfg.model.kv_lora_rank = 32
    cfg.model.qk_head_dim = 16
    cfg.model.qk_pos_emb_head_dim = 8
    cfg.model.v_head_dim = 16
    cfg.model.rope_type = "rope"
    cfg.model.apply_rope_fusion = False
    cfg.model.num_moe_experts = 16
    cfg.model.moe_router_topk = 4
    cfg.model.moe_ffn_hidden_size = 64
    cfg.model.moe_shared_expert_intermediate_size = 64
    cfg.model.moe_router_score_function = "sigmoid"
    cfg.model.moe_router_enable_expert_bias = True
    cfg.model.moe_router_topk_scaling_factor = 2.5
    cfg.model.moe_router_load_balancing_type = "none"
    cfg.model.moe_grouped_gemm = True
    cfg.model.mtp_num_layers = 2
    cfg.model.mtp_loss_scaling_factor = 0.3
    cfg.model.moe_token_dispatcher_type = "alltoall"
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.sequence_parallel = True
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.pipeline_model_parallel_layout = "Et*3|t*5|t*4|t*4mmL"
    cfg.model.context_parallel_size = 1
    cfg.model.expert_model_parallel_size = 8
    cfg.model.expert_tensor_parallel_size = 1
    cfg.ddp.use_distributed_optimizer = True
    cfg.model.recompute_granularity = "full"
    cfg.model.recompute_method = "uniform"
    cfg.model.recompute_num_layers = 1
    cfg.model.seq_length = 4096
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 64
    cfg.optimizer.clip_grad = 1.0
    cfg.dataset.seq_length = 4096
    cfg.tokenizer.tokenizer_type = "NullTokenizer"
    cfg.tokenizer.vocab_size = 32000
    cfg.optimizer.use_distributed_optimizer = True
    cfg.mixed_precision = get_mixed_precision_config("bf16_mixed")
    cfg.mixed_precision.grad_reduce_in_fp32 = False
    cfg.ddp.grad_reduce_in_fp32 = False
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=False, overlap_grad_reduce=True, overlap_param_gather=True, bucket_size=80000000)
    cfg.env_vars = {"CUDA_DEVICE_MAX_CONNECTIONS": 1, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    cfg.train.train_iters = 50
    cfg.validation.eval_iters = 0
    cfg.checkpoint.save = None  # the base recipe's folder would get all weights after the last step
    cfg.checkpoint.load = None  # and the next run would go on from there
    return cfg


if __name__ == "__main__":
    config = pretrain_32gpu_config()
    if "--report-memory" in sys.argv:
        estimate = estimate_training_memory(config, num_microbatches=16)
        print(format_training_memory_estimate(estimate, unit="GB"))
    else:
        pretrain(config=config, forward_step_func=forward_step)
