/* The names of tensors as the classes of the transformers library give them to their parameters, and the order of
 * elements that torch.nn.Linear (out, in) and GPT-2's Conv1D (in, out) have. Rotary positions turn the halves of a head
 * against each other there and here: no element changes places for them. */
#include "models/import/hf_tensors.h"

#define ROWS(symbol) static const struct hf_tensor_row symbol[]
#define END                                                                                                            \
    {                                                                                                                  \
        0                                                                                                              \
    }

/* Touvron et al. 2023 and most since: tables, norms of what blocks read, the last norm. */
ROWS(llama_stream) = {
    { "embedding", "embed_tokens.weight", "v h", "table=vh" },
    { "attention", "layers.#.input_layernorm.weight", "h", "norm_gain=h" },
    { "attention", "layers.#.input_layernorm.bias", "h", "norm_bias=h" },
    { "mlp", "layers.#.post_attention_layernorm.weight", "h", "norm_gain=h" },
    { "mlp", "layers.#.post_attention_layernorm.bias", "h", "norm_bias=h" },
    { "moe", "layers.#.post_attention_layernorm.weight", "h", "norm_gain=h" },
    { "head", "norm.weight", "h", "norm_gain=h" },
    { "head", "norm.bias", "h", "norm_bias=h" },
    { "head", "/lm_head.weight", "v h", "table=vh" },
    END,
};
/* OLMo Team 2024: norms of what blocks give. */
ROWS(olmo2_stream) = {
    { "embedding", "embed_tokens.weight", "v h", "table=vh" },
    { "attention", "layers.#.post_attention_layernorm.weight", "h", "output_norm_gain=h" },
    { "mlp", "layers.#.post_feedforward_layernorm.weight", "h", "output_norm_gain=h" },
    { "head", "norm.weight", "h", "norm_gain=h" },
    { "head", "/lm_head.weight", "v h", "table=vh" },
    END,
};
/* A weight of several heads' norms has a dim for them; one of all heads alike has not. */
ROWS(llama_attention) = {
    { "attention", "layers.#.self_attn.q_proj.weight", "nd h", "q=hnd" },
    { "attention", "layers.#.self_attn.q_proj.bias", "nd", "q_bias=nd" },
    { "attention", "layers.#.self_attn.k_proj.weight", "nd h", "k=hnd" },
    { "attention", "layers.#.self_attn.k_proj.bias", "nd", "k_bias=nd" },
    { "attention", "layers.#.self_attn.v_proj.weight", "nd h", "v=hnd" },
    { "attention", "layers.#.self_attn.v_proj.bias", "nd", "v_bias=nd" },
    { "attention", "layers.#.self_attn.o_proj.weight", "h nd", "proj=ndh" },
    { "attention", "layers.#.self_attn.o_proj.bias", "h", "residual_bias=h" },
    { "attention", "layers.#.self_attn.q_norm.weight", "d", "q_norm_gain=d" },
    { "attention", "layers.#.self_attn.q_norm.weight", "nd", "q_norm_gain=nd" },
    { "attention", "layers.#.self_attn.k_norm.weight", "d", "k_norm_gain=d" },
    { "attention", "layers.#.self_attn.k_norm.weight", "nd", "k_norm_gain=nd" },
    END,
};
ROWS(llama_network) = {
    { "mlp", "layers.#.mlp.gate_proj.weight", "f h", "gate=hf" },
    { "mlp", "layers.#.mlp.gate_proj.bias", "f", "gate_bias=f" },
    { "mlp", "layers.#.mlp.up_proj.weight", "f h", "up=hf" },
    { "mlp", "layers.#.mlp.up_proj.bias", "f", "up_bias=f" },
    { "mlp", "layers.#.mlp.down_proj.weight", "h f", "down=fh" },
    { "mlp", "layers.#.mlp.down_proj.bias", "h", "residual_bias=h" },
    END,
};
/* Jiang et al. 2024: a tensor for each matrix of each expert. */
ROWS(mixtral_experts) = {
    { "moe", "layers.#.block_sparse_moe.gate.weight", "u h", "router=hu" },
    { "moe", "layers.#.block_sparse_moe.experts.@.w1.weight", "f h", "expert_gate=@hf" },
    { "moe", "layers.#.block_sparse_moe.experts.@.w2.weight", "h f", "expert_down=@fh" },
    { "moe", "layers.#.block_sparse_moe.experts.@.w3.weight", "f h", "expert_up=@hf" },
    END,
};
ROWS(qwen_experts) = {
    { "moe", "layers.#.mlp.gate.weight", "u h", "router=hu" },
    { "moe", "layers.#.mlp.experts.@.gate_proj.weight", "f h", "expert_gate=@hf" },
    { "moe", "layers.#.mlp.experts.@.up_proj.weight", "f h", "expert_up=@hf" },
    { "moe", "layers.#.mlp.experts.@.down_proj.weight", "h f", "expert_down=@fh" },
    { "moe", "layers.#.mlp.shared_expert.gate_proj.weight", "f h", "shared_gate=hf" },
    { "moe", "layers.#.mlp.shared_expert.up_proj.weight", "f h", "shared_up=hf" },
    { "moe", "layers.#.mlp.shared_expert.down_proj.weight", "h f", "shared_down=fh" },
    { "moe", "layers.#.mlp.shared_expert_gate.weight", "o h", "shared_scale=ho" },
    END,
};
/* Abdin et al. 2024: queries, keys and values in one matrix, gate and up in another. */
ROWS(phi3_blocks) = {
    { "attention", "layers.#.self_attn.qkv_proj.weight", "*nd h", "q=hnd k=hnd v=hnd" },
    { "attention", "layers.#.self_attn.o_proj.weight", "h nd", "proj=ndh" },
    { "mlp", "layers.#.mlp.gate_up_proj.weight", "*f h", "gate=hf up=hf" },
    { "mlp", "layers.#.mlp.down_proj.weight", "h f", "down=fh" },
    END,
};
/* Lozhkov et al. 2024: Llama's attention, GPT-2's network with linear layers. */
ROWS(starcoder2_network) = {
    { "mlp", "layers.#.mlp.c_fc.weight", "f h", "up=hf" },
    { "mlp", "layers.#.mlp.c_fc.bias", "f", "up_bias=f" },
    { "mlp", "layers.#.mlp.c_proj.weight", "h f", "down=fh" },
    { "mlp", "layers.#.mlp.c_proj.bias", "h", "residual_bias=h" },
    END,
};
/* Radford et al. 2019. */
ROWS(gpt2) = {
    { "embedding", "wte.weight", "v h", "table=vh" },
    { "embedding", "wpe.weight", "p h", "positions=ph" },
    { "attention", "h.#.ln_1.weight", "h", "norm_gain=h" },
    { "attention", "h.#.ln_1.bias", "h", "norm_bias=h" },
    { "attention", "h.#.attn.c_attn.weight", "h *nd", "q=hnd k=hnd v=hnd" },
    { "attention", "h.#.attn.c_attn.bias", "*nd", "q_bias=nd k_bias=nd v_bias=nd" },
    { "attention", "h.#.attn.c_proj.weight", "nd h", "proj=ndh" },
    { "attention", "h.#.attn.c_proj.bias", "h", "residual_bias=h" },
    { "mlp", "h.#.ln_2.weight", "h", "norm_gain=h" },
    { "mlp", "h.#.ln_2.bias", "h", "norm_bias=h" },
    { "mlp", "h.#.mlp.c_fc.weight", "h f", "up=hf" },
    { "mlp", "h.#.mlp.c_fc.bias", "f", "up_bias=f" },
    { "mlp", "h.#.mlp.c_proj.weight", "f h", "down=fh" },
    { "mlp", "h.#.mlp.c_proj.bias", "h", "residual_bias=h" },
    { "head", "ln_f.weight", "h", "norm_gain=h" },
    { "head", "ln_f.bias", "h", "norm_bias=h" },
    { "head", "/lm_head.weight", "v h", "table=vh" },
    END,
};
/* Black et al. 2022: of each head its query, key and value follow each other. */
ROWS(gpt_neox) = {
    { "embedding", "embed_in.weight", "v h", "table=vh" },
    { "attention", "layers.#.input_layernorm.weight", "h", "norm_gain=h" },
    { "attention", "layers.#.input_layernorm.bias", "h", "norm_bias=h" },
    { "attention", "layers.#.attention.query_key_value.weight", "n*d h", "q=hnd k=hnd v=hnd" },
    { "attention", "layers.#.attention.query_key_value.bias", "n*d", "q_bias=nd k_bias=nd v_bias=nd" },
    { "attention", "layers.#.attention.dense.weight", "h nd", "proj=ndh" },
    { "attention", "layers.#.attention.dense.bias", "h", "residual_bias=h" },
    { "mlp", "layers.#.post_attention_layernorm.weight", "h", "norm_gain=h" },
    { "mlp", "layers.#.post_attention_layernorm.bias", "h", "norm_bias=h" },
    { "mlp", "layers.#.mlp.dense_h_to_4h.weight", "f h", "up=hf" },
    { "mlp", "layers.#.mlp.dense_h_to_4h.bias", "f", "up_bias=f" },
    { "mlp", "layers.#.mlp.dense_4h_to_h.weight", "h f", "down=fh" },
    { "mlp", "layers.#.mlp.dense_4h_to_h.bias", "h", "residual_bias=h" },
    { "head", "final_layer_norm.weight", "h", "norm_gain=h" },
    { "head", "final_layer_norm.bias", "h", "norm_bias=h" },
    { "head", "/embed_out.weight", "v h", "table=vh" },
    END,
};

const struct hf_tensor_names hf_tensor_families[] = {
    { " gpt2 ", "transformer.", { gpt2 } },
    { " gpt_neox ", "gpt_neox.", { gpt_neox } },
    { " llama mistral qwen2 qwen3 granite ", "model.", { llama_stream, llama_attention, llama_network } },
    { " olmo2 ", "model.", { olmo2_stream, llama_attention, llama_network } },
    { " phi3 ", "model.", { llama_stream, phi3_blocks } },
    { " starcoder2 ", "model.", { llama_stream, llama_attention, starcoder2_network } },
    { " mixtral ", "model.", { llama_stream, llama_attention, mixtral_experts } },
    { " qwen2_moe qwen3_moe ", "model.", { llama_stream, llama_attention, llama_network, qwen_experts } },
    { 0 },
};
