"""gpt3-175b on 128 devices, for Megatron-Bridge 0.7. See README.md.

torchrun --nproc_per_node 8 --nnodes 16 ... recipe.py trains on made-up data."""

import sys

import torch.nn.functional as F
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.recipes.common import _pretrain_common
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import get_mixed_precision_config
from megatron.bridge.training.pretrain import pretrain
from megatron.bridge.training.utils.theoretical_memory_utils import (
    estimate_training_memory,
    format_training_memory_estimate,
)


def pretrain_128gpu_config():
    cfg = _pretrain_common()
    cfg.model = GPTModelProvider(
        num_layers=96,
        hidden_size=12288,
        num_attention_heads=96,
    )
    cfg.model.kv_channels = 128
    cfg.model.share_embeddings_and_output_weights = True
    cfg.model.should_pad_vocab = True
    cfg.model.hidden_dropout = 0.0
    cfg.model.attention_dropout = 0.0
    cfg.model.ffn_hidden_size = 49152
    cfg.model.normalization = "LayerNorm"
    cfg.model.layernorm_epsilon = 1e-05
    cfg.model.add_bias_linear = True
    cfg.model.position_embedding_type = "learned_absolute"
    cfg.model.vocab_size = 50257
    cfg.model.init_method_std = 0.02
    cfg.model.tensor_model_parallel_size = 8
    cfg.model.sequence_parallel = True
    cfg.model.pipeline_model_parallel_size = 8
    cfg.model.pipeline_model_parallel_layout = "Et*11|(t*12|)*6t*13L"
    cfg.model.context_parallel_size = 1
    cfg.model.expert_model_parallel_size = 1
    cfg.ddp.use_distributed_optimizer = True
    cfg.optimizer.optimizer_cpu_offload = True
    cfg.optimizer.use_precision_aware_optimizer = True
    cfg.model.seq_length = 2048
    cfg.train.micro_batch_size = 2
    cfg.train.global_batch_size = 64
    cfg.optimizer.clip_grad = 0.0
    cfg.dataset.seq_length = 2048
    cfg.tokenizer.tokenizer_type = "NullTokenizer"
    cfg.tokenizer.vocab_size = 50257
    cfg.optimizer.use_distributed_optimizer = True
    cfg.mixed_precision = get_mixed_precision_config("bf16_with_fp8_current_scaling_mixed")
    cfg.mixed_precision.grad_reduce_in_fp32 = False
    cfg.ddp.grad_reduce_in_fp32 = False
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=False, overlap_grad_reduce=True, overlap_param_gather=True, bucket_size=1)
    cfg.env_vars = {"CUDA_DEVICE_MAX_CONNECTIONS": 1, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    cfg.train.train_iters = 50
    cfg.validation.eval_iters = 0
    cfg.checkpoint.save = None  # the base recipe's folder would get all weights after the last step
    cfg.checkpoint.load = None  # and the next run would go on from there
    return cfg


if __name__ == "__main__":
    config = pretrain_128gpu_config()
    if "--report-memory" in sys.argv:
        estimate = estimate_training_memory(config, num_microbatches=16)
        print(format_training_memory_estimate(estimate, unit="GB"))
    else:
        pretrain(config=config, forward_step_func=forward_step)
