/* Small configurations of families, each with what sets it apart, and the parameters that transformers 5.24 counts in the
 * model that it makes of them; corrections of a router's choice are no parameters of some. */
#ifndef CLEAVE_TESTS_HF_SMALL_COUNTS_H
#define CLEAVE_TESTS_HF_SMALL_COUNTS_H
#include <stdint.h>

/* clang-format off */
static const struct {
    const char *config;
    int64_t parameters;
} hf_small_counts[] = {
    { "{\"model_type\":\"opt\",\"architectures\":[\"OPTForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers"
      "\":2,\"vocab_size\":300,\"ffn_dim\":96,\"word_embed_proj_dim\":32,\"do_layer_norm_before\":false,\"max_position_embeddings\":64,"
      "\"tie_word_embeddings\":true}",
      76608 },
    { "{\"model_type\":\"electra\",\"architectures\":[\"ElectraForMaskedLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden"
      "_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"embedding_size\":32,\"max_position_embeddings\":512,\"tie_word_embeddi"
      "ngs\":true,\"type_vocab_size\":2}",
      148044 },
    { "{\"model_type\":\"rembert\",\"architectures\":[\"RemBertForMaskedLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden"
      "_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"input_embedding_size\":32,\"output_embedding_size\":80,\"max_position_"
      "embeddings\":512,\"tie_word_embeddings\":false,\"type_vocab_size\":2}",
      175260 },
    { "{\"model_type\":\"nomic_bert\",\"architectures\":[\"NomicBertForMaskedLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_h"
      "idden_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"head_dim\":16,\"max_position_embeddings\":2048,\"type_vocab_size"
      "\":2}",
      164332 },
    { "{\"model_type\":\"mpnet\",\"architectures\":[\"MPNetForMaskedLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_lay"
      "ers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"max_position_embeddings\":66,\"tie_word_embeddings\":true}",
      145644 },
    { "{\"model_type\":\"roberta-prelayernorm\",\"architectures\":[\"RobertaPreLayerNormForMaskedLM\"],\"hidden_size\":64,\"num_attenti"
      "on_heads\":4,\"num_hidden_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"max_position_embeddings\":66,\"type_vocab_siz"
      "e\":1,\"tie_word_embeddings\":true}",
      145708 },
    { "{\"model_type\":\"eurobert\",\"architectures\":[\"EuroBertForMaskedLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidd"
      "en_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"max_position_embeddings\":8192,\"tie_word_"
      "embeddings\":false}",
      161856 },
    { "{\"model_type\":\"openai-gpt\",\"architectures\":[\"OpenAIGPTLMHeadModel\"],\"n_embd\":64,\"n_head\":4,\"n_layer\":2,\"vocab_siz"
      "e\":300,\"n_positions\":32,\"tie_word_embeddings\":true}",
      121216 },
    { "{\"model_type\":\"ctrl\",\"architectures\":[\"CTRLLMHeadModel\"],\"n_embd\":64,\"n_head\":4,\"n_layer\":2,\"vocab_size\":300,\"n"
      "_positions\":32,\"dff\":96,\"tie_word_embeddings\":true}",
      78316 },
    { "{\"model_type\":\"jais2\",\"architectures\":[\"Jais2ForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_lay"
      "ers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"head_dim\":16,\"max_position_embeddings\":8192,"
      "\"tie_word_embeddings\":false}",
      139264 },
    { "{\"model_type\":\"cwm\",\"architectures\":[\"CwmForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers"
      "\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"head_dim\":16,\"sliding_window\":16,\"layer_types\""
      ":[\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"],\"max_position_embeddings\":131072,\"tie_wo"
      "rd_embeddings\":false}",
      161856 },
    { "{\"model_type\":\"vaultgemma\",\"architectures\":[\"VaultGemmaForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_"
      "hidden_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"head_dim\":16,\"sliding_window\":16,\""
      "layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"],\"max_position_embeddings\":81"
      "92,\"tie_word_embeddings\":true}",
      142656 },
    { "{\"model_type\":\"granite_swa\",\"architectures\":[\"GraniteSWAForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num"
      "_hidden_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"sliding_window\":16,\"layer_types\":["
      "\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"],\"max_position_embeddings\":8192,\"tie_word_e"
      "mbeddings\":true}",
      142672 },
    { "{\"model_type\":\"granitemoe_swa\",\"architectures\":[\"GraniteMoeSWAForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4"
      ",\"num_hidden_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"num_local_experts\":4,\"num_exp"
      "erts_per_tok\":2,\"sliding_window\":16,\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_at"
      "tention\"],\"max_position_embeddings\":2048,\"tie_word_embeddings\":false}",
      384080 },
    { "{\"model_type\":\"hyperclovax\",\"architectures\":[\"HyperCLOVAXForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"nu"
      "m_hidden_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"head_dim\":16,\"max_position_embeddi"
      "ngs\":2048,\"tie_word_embeddings\":false}",
      162368 },
    { "{\"model_type\":\"minicpm3\",\"architectures\":[\"MiniCPM3ForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidd"
      "en_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"q_lora_rank\":24,\"kv_lora_rank\":16,\"qk_nope_head_dim\":16,\"qk_ro"
      "pe_head_dim\":8,\"v_head_dim\":16,\"num_key_value_heads\":4,\"max_position_embeddings\":32768,\"tie_word_embeddings\":true}",
      139744 },
    { "{\"model_type\":\"youtu\",\"architectures\":[\"YoutuForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_lay"
      "ers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"q_lora_rank\":24,\"kv_lora_rank\":16,\"qk_nope_head_dim\":16,\"qk_rope_hea"
      "d_dim\":8,\"v_head_dim\":16,\"num_key_value_heads\":4,\"max_position_embeddings\":131072,\"tie_word_embeddings\":true}",
      139744 },
    { "{\"model_type\":\"axk1\",\"architectures\":[\"AXK1ForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layer"
      "s\":4,\"vocab_size\":300,\"intermediate_size\":96,\"q_lora_rank\":24,\"kv_lora_rank\":16,\"qk_nope_head_dim\":16,\"qk_rope_head_"
      "dim\":8,\"v_head_dim\":16,\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"n_shared_experts\":1,"
      "\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\",\"sparse\"],\"n_group\":1,\"topk_group\":1,\"max_position_embeddings\":3276"
      "8,\"tie_word_embeddings\":false}",
      196768 },
    { "{\"model_type\":\"hy_v3\",\"architectures\":[\"HYV3ForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_laye"
      "rs\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"moe_intermediate_size\":32,\"num_experts_per_tok"
      "\":2,\"num_experts\":4,\"head_dim\":16,\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\",\"sparse\"],\"max_position_embedding"
      "s\":131072,\"tie_word_embeddings\":false}",
      199616 },
    { "{\"model_type\":\"exaone_moe\",\"architectures\":[\"ExaoneMoeForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_h"
      "idden_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"moe_intermediate_size\":32,\"num_expert"
      "s_per_tok\":2,\"num_experts\":4,\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\",\"sparse\"],\"sliding_window\":16,\"layer_t"
      "ypes\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"],\"max_position_embeddings\":2048,\"ti"
      "e_word_embeddings\":false}",
      199616 },
    { "{\"model_type\":\"afmoe\",\"architectures\":[\"AfmoeForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_lay"
      "ers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"moe_intermediate_size\":32,\"num_experts_per_tok"
      "\":2,\"num_experts\":4,\"num_dense_layers\":1,\"head_dim\":16,\"num_shared_experts\":1,\"sliding_window\":16,\"layer_types\":[\""
      "sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"],\"max_position_embeddings\":16384,\"tie_word_em"
      "beddings\":false}",
      216524 },
    { "{\"model_type\":\"mellum\",\"architectures\":[\"MellumForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_l"
      "ayers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"moe_intermediate_size\":32,\"num_experts_per_t"
      "ok\":2,\"num_local_experts\":4,\"head_dim\":16,\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\","
      "\"full_attention\"],\"sliding_window\":16,\"mlp_layer_types\":[\"sparse\",\"sparse\",\"sparse\",\"sparse\"],\"max_position_embed"
      "dings\":131072,\"tie_word_embeddings\":false}",
      187584 },
    { "{\"model_type\":\"flex_olmo\",\"architectures\":[\"FlexOlmoForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hid"
      "den_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"num_experts\":4,\"num_experts_per_tok\":2"
      ",\"max_position_embeddings\":4096,\"tie_word_embeddings\":false}",
      384448 },
    { "{\"model_type\":\"falcon_h1\",\"architectures\":[\"FalconH1ForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hid"
      "den_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"mamba_d_ssm\":128,\"mamba_rms_norm\":true"
      ",\"mamba_n_heads\":8,\"mamba_d_head\":16,\"mamba_n_groups\":2,\"mamba_d_state\":16,\"mamba_d_conv\":4,\"mamba_expand\":2,\"max_p"
      "osition_embeddings\":8192,\"tie_word_embeddings\":false}",
      283040 },
    { "{\"model_type\":\"granitemoehybrid\",\"architectures\":[\"GraniteMoeHybridForCausalLM\"],\"hidden_size\":64,\"num_attention_head"
      "s\":4,\"num_hidden_layers\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"num_local_experts\":4,\"nu"
      "m_experts_per_tok\":2,\"shared_intermediate_size\":48,\"layer_types\":[\"linear_attention\",\"full_attention\",\"linear_attentio"
      "n\",\"full_attention\"],\"mamba_n_heads\":8,\"mamba_d_head\":16,\"mamba_n_groups\":2,\"mamba_d_state\":16,\"mamba_d_conv\":4,\"m"
      "amba_expand\":2,\"max_position_embeddings\":2048,\"tie_word_embeddings\":false}",
      456944 },
    { "{\"model_type\":\"nemotron_h\",\"architectures\":[\"NemotronHForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_k"
      "ey_value_heads\":2,\"head_dim\":16,\"vocab_size\":300,\"intermediate_size\":96,\"ssm_state_size\":16,\"mamba_num_heads\":8,\"mam"
      "ba_head_dim\":16,\"n_groups\":2,\"conv_kernel\":4,\"layers_block_type\":[\"linear_attention\",\"moe\",\"full_attention\",\"mlp\""
      "],\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"moe_shared_expert_intermediate_size\":32,\"max"
      "_position_embeddings\":4096,\"tie_word_embeddings\":false}",
      114328 },
    { "{\"model_type\":\"bert\",\"architectures\":[\"BertModel\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers\":2,"
      "\"vocab_size\":300,\"intermediate_size\":96,\"max_position_embeddings\":32,\"tie_word_embeddings\":true,\"type_vocab_size\":2}",
      84352 },
    { "{\"model_type\":\"bert\",\"architectures\":[\"BertForQuestionAnswering\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hid"
      "den_layers\":2,\"vocab_size\":300,\"intermediate_size\":96,\"max_position_embeddings\":32,\"tie_word_embeddings\":true,\"type_vo"
      "cab_size\":2}",
      80322 },
    { "{\"model_type\":\"roberta\",\"architectures\":[\"RobertaModel\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layer"
      "s\":2,\"vocab_size\":300,\"intermediate_size\":96,\"max_position_embeddings\":34,\"type_vocab_size\":1,\"tie_word_embeddings\":t"
      "rue}",
      84416 },
    { "{\"model_type\":\"electra\",\"architectures\":[\"ElectraForPreTraining\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hid"
      "den_layers\":2,\"vocab_size\":300,\"intermediate_size\":96,\"max_position_embeddings\":32,\"embedding_size\":32,\"tie_word_embed"
      "dings\":true,\"type_vocab_size\":2}",
      75777 },
    { "{\"model_type\":\"distilbert\",\"architectures\":[\"DistilBertModel\"],\"dim\":64,\"n_layers\":2,\"n_heads\":4,\"hidden_dim\":96"
      ",\"vocab_size\":300,\"max_position_embeddings\":512,\"tie_word_embeddings\":true}",
      110784 },
    { "{\"model_type\":\"llama\",\"architectures\":[\"LlamaModel\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers\":"
      "4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"max_position_embeddings\":2048,\"tie_word_embeddings\""
      ":false}",
      142656 },
    { "{\"model_type\":\"mistral\",\"architectures\":[\"MistralModel\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layer"
      "s\":4,\"vocab_size\":300,\"intermediate_size\":96,\"num_key_value_heads\":2,\"max_position_embeddings\":131072,\"tie_word_embedd"
      "ings\":false}",
      142656 },
    { "{\"model_type\":\"mamba\",\"architectures\":[\"MambaModel\"],\"hidden_size\":64,\"num_hidden_layers\":2,\"vocab_size\":300,\"sta"
      "te_size\":8,\"tie_word_embeddings\":true}",
      78528 },
    { "{\"model_type\":\"t5\",\"architectures\":[\"T5EncoderModel\"],\"d_model\":64,\"d_kv\":16,\"d_ff\":96,\"num_layers\":2,\"num_head"
      "s\":4,\"vocab_size\":300,\"feed_forward_proj\":\"gated-gelu\"}",
      89280 },
    { "{\"model_type\":\"flint\",\"architectures\":[\"FlintForCausalLM\"],\"attention_bias\":false,\"decoder_sparse_step\":1,"
      "\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":2048,\"intermediate_size\":6144,\"layer_types\":[\"full_atten"
      "tion\",\"full_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"full_attention\"],\"max_"
      "position_embeddings\":262144,\"mlp_only_layers\":[0,1],\"moe_intermediate_size\":512,\"norm_topk_prob\":true,\"num_att"
      "ention_heads\":32,\"num_experts\":256,\"num_experts_per_tok\":6,\"num_hidden_layers\":6,\"num_key_value_heads\":4,\"rm"
      "s_norm_eps\":1e-06,\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"},\"router_aux_loss_coef\":0.0"
      "005,\"shared_expert_intermediate_size\":1024,\"sliding_window\":513,\"tie_word_embeddings\":false,\"vocab_size\":15014"
      "4}",
      4052250304 },
    { "{\"model_type\":\"kolibri1\",\"architectures\":[\"Kolibri1ForCausalLM\"],\"head_dim\":128,\"hidden_act\":\"silu\",\"hi"
      "dden_size\":2560,\"layer_types\":[\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attentio"
      "n\",\"full_attention\"],\"max_position_embeddings\":262144,\"moe_intermediate_size\":512,\"norm_topk_prob\":false,\"nu"
      "m_attention_heads\":48,\"num_experts_per_tok\":6,\"num_hidden_layers\":5,\"num_key_value_heads\":4,\"num_local_experts"
      "\":384,\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"},\"shared_expert_i"
      "ntermediate_size\":512,\"sliding_window\":513,\"tie_word_embeddings\":false,\"vocab_size\":128000}",
      8400131840 },
    { "{\"model_type\":\"solar_open\",\"architectures\":[\"SolarOpenForCausalLM\"],\"attention_bias\":false,\"head_dim\":128,"
      "\"hidden_act\":\"silu\",\"hidden_size\":4096,\"max_position_embeddings\":131072,\"moe_intermediate_size\":1280,\"n_gro"
      "up\":1,\"n_routed_experts\":128,\"n_shared_experts\":1,\"norm_topk_prob\":true,\"num_attention_heads\":64,\"num_expert"
      "s_per_tok\":8,\"num_hidden_layers\":4,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-05,\"rope_parameters\":{\"rope_the"
      "ta\":1000000.0,\"rope_type\":\"default\"},\"routed_scaling_factor\":1.0,\"tie_word_embeddings\":false,\"topk_group\":1"
      ",\"vocab_size\":196608}",
      10030714880 },
    { "{\"model_type\":\"gpt_neox_japanese\",\"architectures\":[\"GPTNeoXJapaneseForCausalLM\"],\"hidden_act\":\"gelu\",\"hid"
      "den_size\":2560,\"intermediate_multiple_size\":4,\"layer_norm_eps\":1e-05,\"max_position_embeddings\":2048,\"num_atten"
      "tion_heads\":32,\"num_hidden_layers\":32,\"rope_parameters\":{\"partial_rotary_factor\":1.0,\"rope_theta\":10000.0,\"r"
      "ope_type\":\"default\"},\"tie_word_embeddings\":true,\"vocab_size\":32000}",
      2598837760 },
    { "{\"model_type\":\"cohere_compass_text\",\"architectures\":[\"CohereCompassForCausalLM\"],\"attention_bias\":false,\"he"
      "ad_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":8192,\"intermediate_size\":22528,\"layer_norm_eps\":1e-05,\"layer"
      "_types\":[\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\"],\"max_position_embeddings\":819"
      "2,\"num_attention_heads\":64,\"num_hidden_layers\":4,\"num_key_value_heads\":64,\"rope_parameters\":{\"full_attention"
      "\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"}},\"sliding_window\":4096,\"tie_word_embeddings\":true,\"vocab_si"
      "ze\":256000}",
      5385527296 },
    { "{\"model_type\":\"lara_mini\",\"architectures\":[\"LaraMiniForCausalLM\"],\"attention_bias\":false,\"head_dim\":128,\""
      "hidden_act\":\"silu\",\"hidden_size\":1024,\"layer_types\":[\"linear_attention\",\"sliding_attention\",\"linear_attent"
      "ion\",\"full_attention\",\"sliding_attention\"],\"linear_conv_kernel_dim\":4,\"linear_key_head_dim\":128,\"linear_num_"
      "key_heads\":8,\"linear_num_value_heads\":16,\"linear_value_head_dim\":128,\"max_position_embeddings\":131072,\"moe_int"
      "ermediate_size\":512,\"norm_topk_prob\":true,\"num_attention_heads\":16,\"num_experts\":128,\"num_experts_per_tok\":4,"
      "\"num_hidden_layers\":5,\"num_key_value_heads\":4,\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"rope_theta\":10000.0,"
      "\"rope_type\":\"default\"},\"router_aux_loss_coef\":0.001,\"shared_expert_intermediate_size\":512,\"sliding_window\":5"
      "12,\"tie_word_embeddings\":true,\"vocab_size\":151936}",
      1203351616 },
    { "{\"model_type\":\"emu3_text_model\",\"architectures\":[\"Emu3ForCausalLM\"],\"hidden_act\":\"silu\",\"hidden_size\":40"
      "96,\"intermediate_size\":14336,\"max_position_embeddings\":9216,\"num_attention_heads\":32,\"num_hidden_layers\":32,\""
      "num_key_value_heads\":8,\"rms_norm_eps\":1e-05,\"rope_parameters\":{\"rope_theta\":1000000.0,\"rope_type\":\"default\""
      "},\"tie_word_embeddings\":false,\"vocab_size\":184622}",
      8492011520 },
    { "{\"model_type\":\"deepseek_v2\",\"architectures\":[\"DeepseekV2ForCausalLM\"],\"attention_bias\":false,\"first_k_dense"
      "_replace\":0,\"head_dim\":64,\"hidden_act\":\"silu\",\"hidden_size\":4096,\"intermediate_size\":11008,\"kv_lora_rank\""
      ":512,\"max_position_embeddings\":2048,\"mlp_bias\":false,\"moe_intermediate_size\":1407,\"n_routed_experts\":64,\"n_sh"
      "ared_experts\":2,\"norm_topk_prob\":false,\"num_attention_heads\":32,\"num_experts_per_tok\":null,\"num_hidden_layers"
      "\":2,\"num_key_value_heads\":32,\"pretraining_tp\":1,\"q_lora_rank\":1536,\"qk_head_dim\":192,\"qk_nope_head_dim\":128"
      ",\"qk_rope_head_dim\":64,\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"}"
      ",\"routed_scaling_factor\":1.0,\"tie_word_embeddings\":false,\"topk_method\":\"greedy\",\"v_head_dim\":128,\"vocab_siz"
      "e\":102400}",
      3199705088 },
};
/* clang-format on */
#endif
