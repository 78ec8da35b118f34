"""llama-2-7b on 16 h100-sxm: a recipe for torchtitan 0.3.0.

torchrun ... -m torchtitan.train --module cleave_recipe --config train (train.sh)
"""

from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.config_registry import llama3_8b
from torchtitan.models import llama3


def train():
    config = llama3_8b()
    config.model_spec = model_registry(flavor="8B")
    config.model_spec.model = llama3.Llama3Model.Config(
        dim=4096,
        vocab_size=32000,
        enable_weight_tying=False,
        tok_embeddings=llama3.Embedding.Config(
            num_embeddings=32000, embedding_dim=4096, param_init=llama3._EMBEDDING_INIT
        ),
        norm=llama3.RMSNorm.Config(normalized_shape=4096, param_init=llama3._NORM_INIT),
        lm_head=llama3.Linear.Config(
            in_features=4096, out_features=32000, param_init=llama3._output_linear_init(4096)
        ),
        layers=llama3._build_llama3_layers(
            n_layers=32,
            dim=4096,
            n_heads=32,
            n_kv_heads=32,
            hidden_dim=11008,
            attn_backend="flex",
            rope=llama3.ComplexRoPE.Config(dim=128, max_seq_len=131072, theta=10000, scaling="none"),
        ),
    )
    config.loss.loss_fn.global_vocab_size = 32000
    config.training.local_batch_size = 2
    config.training.global_batch_size = 32
    config.training.seq_len = 4096
    config.training.max_norm = 1
    config.training.mixed_precision_param = "bfloat16"
    config.training.enable_cpu_offload = False
    config.training.disable_cuda_graphs = True  # the prediction is without
    config.parallelism.data_parallel_replicate_degree = 2
    config.parallelism.data_parallel_shard_degree = 4
    config.parallelism.fsdp_reshard_after_forward = "always"
    config.parallelism.tensor_parallel_degree = 1
    config.parallelism.enable_sequence_parallel = True
    config.parallelism.context_parallel_degree = 2
    config.parallelism.expert_parallel_degree = 1
    config.parallelism.pipeline_parallel_degree = 1
    config.loss.num_chunks = 8
    config.activation_checkpoint = None
    config.compile.enable = True
    config.compile.components = ["model"]
    config.compile.enable_async_tensor_parallel = False
    return config
