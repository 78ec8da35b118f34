"""llama-3-70b on 64 h100-sxm: a recipe for torchtitan 0.3.0.

torchrun ... -m torchtitan.train --module cleave_recipe --config train (train.sh)
"""

from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.config_registry import llama3_70b
from torchtitan.distributed.activation_checkpoint import SelectiveAC


def train():
    config = llama3_70b()
    config.model_spec = model_registry(flavor="70B")
    config.training.local_batch_size = 1
    config.training.global_batch_size = 64
    config.training.seq_len = 8192
    config.training.max_norm = 1
    config.training.mixed_precision_param = "bfloat16"
    config.training.enable_cpu_offload = False
    config.training.disable_cuda_graphs = True  # the prediction is without
    config.parallelism.data_parallel_replicate_degree = 1
    config.parallelism.data_parallel_shard_degree = 8
    config.parallelism.fsdp_reshard_after_forward = "always"
    config.parallelism.tensor_parallel_degree = 8
    config.parallelism.enable_sequence_parallel = True
    config.parallelism.context_parallel_degree = 1
    config.parallelism.expert_parallel_degree = 1
    config.parallelism.pipeline_parallel_degree = 1
    config.loss.num_chunks = 8
    config.activation_checkpoint = SelectiveAC.Config()
    config.compile.enable = True
    config.compile.components = ["model"]
    config.compile.enable_async_tensor_parallel = False
    return config
