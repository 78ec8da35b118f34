/* What the recipes set that Megatron-Bridge has by name, for training from scratch: of Llama 3, Qwen3 with experts,
 * DeepSeek-V3 and GPT-3; it has none for Mixtral. Source: Megatron-Bridge 0.7, github.com/NVIDIA-NeMo/Megatron-Bridge
 * at 067f987df0 of 2026-08-22, src/megatron/bridge/recipes: common.py, llama/h100/llama3.py, qwen/h100/qwen3_moe.py,
 * deepseek/h100/deepseek_v3.py, gpt/h100/gpt3_175b.py, names of before from the files beside h100/; models: the
 * config.json that a recipe names, read by Megatron-Bridge's models/, and of GPT-3 the recipe itself, whose vocabulary
 * is that of recipes/utils/tokenizer_utils.py. What changes neither time nor memory is left out. */
#include "targets/megatron_recipes.h"
#include <string.h>

static const char llama_32_1b[] =
    "model.num_layers=16 model.hidden_size=2048 model.ffn_hidden_size=8192 "
    "model.num_attention_heads=32 model.num_query_groups=8 model.kv_channels=64 "
    "model.rotary_base=500000 model.vocab_size=128256 model.share_embeddings_and_output_weights=True "
    "model.normalization=RMSNorm model.layernorm_epsilon=1e-05 model.add_bias_linear=False "
    "model.position_embedding_type=rope model.gated_linear_unit=True model.activation_func=silu";
static const char llama_32_3b[] =
    "model.num_layers=28 model.hidden_size=3072 model.ffn_hidden_size=8192 "
    "model.num_attention_heads=24 model.num_query_groups=8 model.kv_channels=128 "
    "model.rotary_base=500000 model.vocab_size=128256 model.share_embeddings_and_output_weights=True "
    "model.normalization=RMSNorm model.layernorm_epsilon=1e-05 model.add_bias_linear=False "
    "model.position_embedding_type=rope model.gated_linear_unit=True model.activation_func=silu";
static const char llama_3_8b[] =
    "model.num_layers=32 model.hidden_size=4096 model.ffn_hidden_size=14336 "
    "model.num_attention_heads=32 model.num_query_groups=8 model.kv_channels=128 "
    "model.rotary_base=500000 model.vocab_size=128256 model.share_embeddings_and_output_weights=False "
    "model.normalization=RMSNorm model.layernorm_epsilon=1e-05 model.add_bias_linear=False "
    "model.position_embedding_type=rope model.gated_linear_unit=True model.activation_func=silu";
static const char llama_3_70b[] =
    "model.num_layers=80 model.hidden_size=8192 model.ffn_hidden_size=28672 "
    "model.num_attention_heads=64 model.num_query_groups=8 model.kv_channels=128 "
    "model.rotary_base=500000 model.vocab_size=128256 model.share_embeddings_and_output_weights=False "
    "model.normalization=RMSNorm model.layernorm_epsilon=1e-05 model.add_bias_linear=False "
    "model.position_embedding_type=rope model.gated_linear_unit=True model.activation_func=silu";
static const char llama_3_405b[] =
    "model.num_layers=126 model.hidden_size=16384 model.ffn_hidden_size=53248 "
    "model.num_attention_heads=128 model.num_query_groups=8 model.kv_channels=128 "
    "model.rotary_base=500000 model.vocab_size=128256 model.share_embeddings_and_output_weights=False "
    "model.normalization=RMSNorm model.layernorm_epsilon=1e-05 model.add_bias_linear=False "
    "model.position_embedding_type=rope model.gated_linear_unit=True model.activation_func=silu";
static const char qwen3_30b[] =
    "model.num_layers=48 model.hidden_size=2048 model.ffn_hidden_size=6144 "
    "model.num_attention_heads=32 model.num_query_groups=4 model.kv_channels=128 "
    "model.rotary_base=1000000 model.vocab_size=151936 "
    "model.share_embeddings_and_output_weights=False model.normalization=RMSNorm "
    "model.layernorm_epsilon=1e-06 model.add_bias_linear=False model.position_embedding_type=rope "
    "model.gated_linear_unit=True model.activation_func=silu model.qk_layernorm=True "
    "model.num_moe_experts=128 model.moe_router_topk=8 model.moe_ffn_hidden_size=768 "
    "model.moe_grouped_gemm=True model.moe_router_load_balancing_type=aux_loss "
    "model.moe_aux_loss_coeff=0.001";
static const char qwen3_235b[] =
    "model.num_layers=94 model.hidden_size=4096 model.ffn_hidden_size=12288 "
    "model.num_attention_heads=64 model.num_query_groups=4 model.kv_channels=128 "
    "model.rotary_base=1000000 model.vocab_size=151936 "
    "model.share_embeddings_and_output_weights=False model.normalization=RMSNorm "
    "model.layernorm_epsilon=1e-06 model.add_bias_linear=False model.position_embedding_type=rope "
    "model.gated_linear_unit=True model.activation_func=silu model.qk_layernorm=True "
    "model.num_moe_experts=128 model.moe_router_topk=8 model.moe_ffn_hidden_size=1536 "
    "model.moe_grouped_gemm=True model.moe_router_load_balancing_type=aux_loss "
    "model.moe_aux_loss_coeff=0.001";
static const char deepseek_v3[] =
    "model.num_layers=61 model.hidden_size=7168 model.ffn_hidden_size=18432 "
    "model.num_attention_heads=128 model.multi_latent_attention=True model.q_lora_rank=1536 "
    "model.kv_lora_rank=512 model.qk_head_dim=128 model.qk_pos_emb_head_dim=64 model.v_head_dim=128 "
    "model.qk_layernorm=True model.rope_type=yarn model.apply_rope_fusion=False "
    "model.rotary_base=10000 model.vocab_size=129280 model.make_vocab_size_divisible_by=1280 "
    "model.share_embeddings_and_output_weights=False model.normalization=RMSNorm "
    "model.layernorm_epsilon=1e-06 model.add_bias_linear=False model.position_embedding_type=rope "
    "model.gated_linear_unit=True model.activation_func=silu model.moe_layer_freq=([0]*3+[1]*58) "
    "model.num_moe_experts=256 model.moe_router_topk=8 model.moe_ffn_hidden_size=2048 "
    "model.moe_grouped_gemm=True model.moe_shared_expert_intermediate_size=2048 "
    "model.moe_router_score_function=sigmoid model.moe_router_enable_expert_bias=True "
    "model.moe_router_num_groups=8 model.moe_router_group_topk=4 "
    "model.moe_router_topk_scaling_factor=2.5 model.moe_router_pre_softmax=True "
    "model.moe_router_load_balancing_type=seq_aux_loss model.moe_aux_loss_coeff=0.0001";
static const char gpt3_175b[] = "model.num_layers=96 model.hidden_size=12288 model.ffn_hidden_size=49152 "
                                "model.num_attention_heads=96 model.vocab_size=32000 "
                                "model.position_embedding_type=learned_absolute";

const struct megatron_recipe megatron_recipes[] = {
    /* name, name of before, model, tokens, batch, micro-batch, tp, pp, chunks, cp, ep, what else */
    { "llama32_1b_pretrain_1gpu_h100_bf16_config", "llama32_1b_pretrain_config", llama_32_1b, 8192, 512, 1, 1, 1, 0, 1,
      1, "" },
    { "llama32_3b_pretrain_1gpu_h100_bf16_config", "llama32_3b_pretrain_config", llama_32_3b, 8192, 512, 1, 1, 1, 0, 1,
      1, "" },
    { "llama3_8b_pretrain_2gpu_h100_bf16_config", "llama3_8b_pretrain_config", llama_3_8b, 8192, 512, 1, 1, 1, 0, 2, 1,
      "" },
    { "llama3_8b_pretrain_16gpu_h100_bf16_16k_config", "llama3_8b_16k_pretrain_config", llama_3_8b, 16384, 512, 1, 4, 2,
      0, 2, 1, "" },
    { "llama3_8b_pretrain_32gpu_h100_bf16_64k_config", "llama3_8b_64k_pretrain_config", llama_3_8b, 65536, 512, 1, 4, 2,
      0, 4, 1, "" },
    { "llama3_8b_pretrain_64gpu_h100_bf16_128k_config", "llama3_8b_128k_pretrain_config", llama_3_8b, 131072, 512, 1, 4,
      2, 0, 8, 1, "" },
    { "llama3_8b_pretrain_2gpu_h100_fp8mx_config", NULL, llama_3_8b, 8192, 768, 1, 1, 1, 0, 2, 1,
      "mixed_precision=bf16_with_mxfp8_mixed" },
    { "llama3_8b_pretrain_2gpu_h100_fp8cs_config", "llama3_8b_low_precision_pretrain_config", llama_3_8b, 8192, 768, 1,
      1, 1, 0, 2, 1,
      "mixed_precision=bf16_with_fp8_current_scaling_mixed mixed_precision.num_layers_at_start_in_bf16=1 "
      "mixed_precision.num_layers_at_end_in_bf16=1" },
    { "llama3_8b_pretrain_2gpu_h100_nvfp4_config", NULL, llama_3_8b, 8192, 768, 1, 1, 1, 0, 2, 1,
      "mixed_precision=bf16_with_nvfp4_mixed mixed_precision.num_layers_at_end_in_bf16=4" },
    { "llama3_70b_pretrain_32gpu_h100_bf16_config", "llama3_70b_pretrain_config", llama_3_70b, 8192, 512, 1, 4, 4, 5, 2,
      1, "comm_overlap.tp_comm_overlap=True" },
    { "llama3_70b_pretrain_32gpu_h100_bf16_16k_config", "llama3_70b_16k_pretrain_config", llama_3_70b, 16384, 512, 1, 8,
      2, 0, 2, 1, "comm_overlap.tp_comm_overlap=True" },
    { "llama3_70b_pretrain_256gpu_h100_bf16_64k_config", "llama3_70b_64k_pretrain_config", llama_3_70b, 65536, 512, 1,
      8, 4, 0, 8, 1, "comm_overlap.tp_comm_overlap=True" },
    { "llama31_8b_pretrain_2gpu_h100_bf16_config", "llama31_8b_pretrain_config", llama_3_8b, 8192, 512, 1, 1, 1, 0, 2,
      1, "" },
    { "llama31_70b_pretrain_32gpu_h100_bf16_config", "llama31_70b_pretrain_config", llama_3_70b, 131072, 512, 1, 4, 4,
      5, 2, 1, "comm_overlap.tp_comm_overlap=True" },
    { "llama31_405b_pretrain_256gpu_h100_bf16_config", "llama31_405b_pretrain_config", llama_3_405b, 131072, 512, 1, 8,
      8, 2, 4, 1,
      "model.account_for_embedding_in_pipeline_split=True model.account_for_loss_in_pipeline_split=True "
      "comm_overlap.tp_comm_overlap=True" },
    { "qwen3_30b_a3b_pretrain_8gpu_h100_bf16_config", NULL, qwen3_30b, 4096, 32, 2, 4, 2, 0, 1, 4,
      "model.moe_token_dispatcher_type=alltoall model.recompute_granularity=full model.recompute_method=uniform "
      "model.recompute_num_layers=1" },
    { "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config", "qwen3_30b_a3b_pretrain_config", qwen3_30b, 4096, 1024, 1, 1, 1,
      0, 1, 16,
      "model.moe_token_dispatcher_type=flex optimizer.use_precision_aware_optimizer=True "
      "comm_overlap.tp_comm_overlap=True ddp.grad_reduce_in_fp32=False" },
    { "qwen3_235b_a22b_pretrain_256gpu_h100_bf16_config", "qwen3_235b_a22b_pretrain_config", qwen3_235b, 4096, 32, 1, 4,
      16, 0, 2, 8,
      "model.account_for_embedding_in_pipeline_split=True model.account_for_loss_in_pipeline_split=True "
      "model.moe_token_dispatcher_type=alltoall" },
    { "deepseek_v3_pretrain_1024gpu_h100_bf16_config", "deepseek_v3_pretrain_config", deepseek_v3, 4096, 4096, 1, 2, 16,
      0, 1, 64,
      "model.mtp_num_layers=1 model.mtp_loss_scaling_factor=0.1 model.init_method_std=0.006 "
      "model.moe_token_dispatcher_type=alltoall optimizer.use_precision_aware_optimizer=True "
      "optimizer.main_grads_dtype=torch.bfloat16 optimizer.exp_avg_dtype=torch.bfloat16 "
      "optimizer.exp_avg_sq_dtype=torch.bfloat16 model.pipeline_model_parallel_layout=Et*4|(t*4|)*14tmL "
      "ddp.grad_reduce_in_fp32=False" },
    { "deepseek_v3_pretrain_256gpu_h100_bf16_32nodes_config", "deepseek_v3_pretrain_config_32nodes", deepseek_v3, 4096,
      4096, 1, 2, 8, 0, 1, 32,
      "model.mtp_num_layers=1 model.mtp_loss_scaling_factor=0.1 model.init_method_std=0.006 "
      "model.moe_token_dispatcher_type=alltoall model.recompute_granularity=full model.recompute_method=uniform "
      "model.recompute_num_layers=1 optimizer.use_precision_aware_optimizer=True "
      "optimizer.main_grads_dtype=torch.bfloat16 optimizer.exp_avg_dtype=torch.bfloat16 "
      "optimizer.exp_avg_sq_dtype=torch.bfloat16 model.pipeline_model_parallel_layout=Et*8|(t*8|)*6t*5mL "
      "ddp.grad_reduce_in_fp32=False" },
    { "gpt3_175b_pretrain_32gpu_h100_bf16_config", "gpt3_175b_pretrain_config", gpt3_175b, 2048, 2048, 2, 4, 8, 6, 1, 1,
      "comm_overlap.tp_comm_overlap=True ddp.grad_reduce_in_fp32=False" },
    { 0 },
};

const struct megatron_recipe *megatron_recipe_find(const char *name, size_t length)
{
    for (const struct megatron_recipe *r = megatron_recipes; r->name; r++)
        if ((strlen(r->name) == length && memcmp(r->name, name, length) == 0) ||
            (r->old_name && strlen(r->old_name) == length && memcmp(r->old_name, name, length) == 0))
            return r;
    return NULL;
}
