/* Keys of Hugging Face's configurations, and the parameters that transformers 5.24 counts in the model that it makes of them
 * (on the device "meta", without towers of images). Some are of published models, the small ones turn switches. */
#ifndef CLEAVE_TESTS_HF_COUNTS_H
#define CLEAVE_TESTS_HF_COUNTS_H
#include <stdint.h>

/* clang-format off */
static const struct {
    const char *config;
    int64_t parameters;
} hf_counts[] = {
    { "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"attention_bias\":false,\"decoder_sparse_step\":1,\"head_dim\":128,\"hidden_act\":\"si"
      "lu\",\"hidden_size\":2048,\"intermediate_size\":6144,\"max_position_embeddings\":40960,\"max_window_layers\":48,\"mlp_only_layers\":"
      "[],\"model_type\":\"qwen3_moe\",\"moe_intermediate_size\":768,\"norm_topk_prob\":true,\"num_attention_heads\":32,\"num_experts\":128"
      ",\"num_experts_per_tok\":8,\"num_hidden_layers\":48,\"num_key_value_heads\":4,\"output_router_logits\":false,\"rms_norm_eps\":1e-06,"
      "\"rope_scaling\":null,\"rope_theta\":1000000.0,\"router_aux_loss_coef\":0.001,\"sliding_window\":null,\"tie_word_embeddings\":false,"
      "\"use_sliding_window\":false,\"vocab_size\":151936}",
      30532122624 },
    { "{\"architectures\":[\"Qwen3ForCausalLM\"],\"attention_bias\":false,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":4096,\"i"
      "ntermediate_size\":12288,\"max_position_embeddings\":40960,\"max_window_layers\":36,\"model_type\":\"qwen3\",\"num_attention_heads\""
      ":32,\"num_hidden_layers\":36,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":1000000,\"sliding"
      "_window\":null,\"tie_word_embeddings\":false,\"use_sliding_window\":false,\"vocab_size\":151936}",
      8190735360 },
    { "{\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],\"model_type\":\"qwen3_5\",\"text_config\":{\"attention_bias\":false,\"attn"
      "_output_gate\":true,\"full_attention_interval\":4,\"head_dim\":256,\"hidden_act\":\"silu\",\"hidden_size\":5120,\"intermediate_size"
      "\":17408,\"layer_types\":[\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"l"
      "inear_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_atte"
      "ntion\",\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\","
      "\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_a"
      "ttention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention"
      "\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linea"
      "r_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attentio"
      "n\",\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"li"
      "near_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_atten"
      "tion\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\","
      "\"full_attention\"],\"linear_conv_kernel_dim\":4,\"linear_key_head_dim\":128,\"linear_num_key_heads\":16,\"linear_num_value_heads\":"
      "48,\"linear_value_head_dim\":128,\"max_position_embeddings\":262144,\"mlp_only_layers\":[],\"model_type\":\"qwen3_5_text\",\"mtp_num"
      "_hidden_layers\":1,\"mtp_use_dedicated_embeddings\":false,\"num_attention_heads\":24,\"num_hidden_layers\":64,\"num_key_value_heads"
      "\":4,\"rms_norm_eps\":1e-06,\"vocab_size\":248320,\"mamba_ssm_dtype\":\"float32\",\"rope_parameters\":{\"mrope_interleaved\":true,\""
      "mrope_section\":[11,11,10],\"rope_type\":\"default\",\"rope_theta\":10000000,\"partial_rotary_factor\":0.25}},\"tie_word_embeddings"
      "\":false,\"vision_config\":{\"deepstack_visual_indexes\":[],\"depth\":27,\"hidden_act\":\"gelu_pytorch_tanh\",\"hidden_size\":1152,"
      "\"in_channels\":3,\"intermediate_size\":4304,\"model_type\":\"qwen3_5\",\"num_heads\":16,\"num_position_embeddings\":2304,\"out_hidd"
      "en_size\":5120,\"patch_size\":16,\"spatial_merge_size\":2,\"temporal_patch_size\":2}}",
      26895998464 },
    { "{\"architectures\":[\"Olmo2ForCausalLM\"],\"attention_bias\":false,\"hidden_act\":\"silu\",\"hidden_size\":5120,\"intermediate_size"
      "\":13824,\"max_position_embeddings\":4096,\"model_type\":\"olmo2\",\"num_attention_heads\":40,\"num_hidden_layers\":40,\"num_key_val"
      "ue_heads\":40,\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":500000,\"tie_word_embeddings\":false,\"vocab_size\":100352"
      "}",
      13716198400 },
    { "{\"apply_residual_connection_post_layernorm\":false,\"layer_norm_epsilon\":1e-05,\"model_type\":\"bloom\",\"n_embed\":4096,\"n_inner"
      "\":null,\"n_layer\":30,\"num_attention_heads\":32,\"seq_length\":2048,\"vocab_size\":250880,\"architectures\":[\"BloomForCausalLM\"]"
      "}",
      7069016064 },
    { "{\"architectures\":[\"GemmaForCausalLM\"],\"attention_bias\":false,\"head_dim\":256,\"hidden_act\":\"gelu\",\"hidden_activation\":nu"
      "ll,\"hidden_size\":2048,\"intermediate_size\":16384,\"max_position_embeddings\":8192,\"model_type\":\"gemma\",\"num_attention_heads"
      "\":8,\"num_hidden_layers\":18,\"num_key_value_heads\":1,\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":10000.0,\"vocab_"
      "size\":256000}",
      2506172416 },
    { "{\"architectures\":[\"LLaMAForCausalLM\"],\"hidden_act\":\"silu\",\"hidden_size\":4096,\"intermediate_size\":11008,\"max_sequence_le"
      "ngth\":2048,\"model_type\":\"llama\",\"num_attention_heads\":32,\"num_hidden_layers\":32,\"rms_norm_eps\":1e-06,\"vocab_size\":32000"
      "}",
      6738415616 },
    { "{\"architectures\":[\"Phi3ForCausalLM\"],\"attention_bias\":false,\"hidden_act\":\"silu\",\"hidden_size\":3072,\"intermediate_size\""
      ":8192,\"max_position_embeddings\":4096,\"model_type\":\"phi3\",\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_h"
      "eads\":32,\"original_max_position_embeddings\":4096,\"rms_norm_eps\":1e-05,\"rope_scaling\":null,\"rope_theta\":10000.0,\"sliding_wi"
      "ndow\":2047,\"tie_word_embeddings\":false,\"vocab_size\":32064}",
      3821079552 },
    { "{\"architectures\":[\"MistralForCausalLM\"],\"hidden_act\":\"silu\",\"hidden_size\":4096,\"intermediate_size\":14336,\"max_position_"
      "embeddings\":32768,\"model_type\":\"mistral\",\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,\"rms_no"
      "rm_eps\":1e-05,\"rope_theta\":10000.0,\"sliding_window\":4096,\"tie_word_embeddings\":false,\"vocab_size\":32000}",
      7241732096 },
    { "{\"architectures\":[\"BertForSequenceClassification\"],\"hidden_act\":\"gelu\",\"hidden_size\":768,\"id2label\":{\"0\":\"a\",\"1\":"
      "\"b\"},\"intermediate_size\":3072,\"layer_norm_eps\":1e-12,\"max_position_embeddings\":512,\"model_type\":\"bert\",\"num_attention_h"
      "eads\":12,\"num_hidden_layers\":12,\"position_embedding_type\":\"absolute\",\"type_vocab_size\":2,\"vocab_size\":30522}",
      109483778 },
    { "{\"architectures\":[\"Starcoder2ForCausalLM\"],\"hidden_act\":\"gelu_pytorch_tanh\",\"hidden_size\":3072,\"intermediate_size\":12288"
      ",\"max_position_embeddings\":16384,\"mlp_type\":\"default\",\"model_type\":\"starcoder2\",\"norm_epsilon\":1e-05,\"num_attention_hea"
      "ds\":24,\"num_hidden_layers\":30,\"num_key_value_heads\":2,\"rope_theta\":999999.4420358813,\"sliding_window\":4096,\"use_bias\":tru"
      "e,\"vocab_size\":49152}",
      3030371328 },
    { "{\"architectures\":[\"DeepseekV2ForCausalLM\"],\"attention_bias\":false,\"aux_loss_alpha\":0.001,\"first_k_dense_replace\":1,\"hidde"
      "n_act\":\"silu\",\"hidden_size\":5120,\"intermediate_size\":12288,\"kv_lora_rank\":512,\"max_position_embeddings\":163840,\"model_ty"
      "pe\":\"deepseek_v2\",\"moe_intermediate_size\":1536,\"moe_layer_freq\":1,\"n_group\":8,\"n_routed_experts\":160,\"n_shared_experts\""
      ":2,\"norm_topk_prob\":false,\"num_attention_heads\":128,\"num_experts_per_tok\":6,\"num_hidden_layers\":60,\"num_key_value_heads\":1"
      "28,\"q_lora_rank\":1536,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"rms_norm_eps\":1e-06,\"rope_scaling\":{\"beta_fast\":32,"
      "\"beta_slow\":1,\"factor\":40,\"mscale\":0.707,\"mscale_all_dim\":0.707,\"original_max_position_embeddings\":4096,\"type\":\"yarn\"}"
      ",\"rope_theta\":10000,\"routed_scaling_factor\":16.0,\"scoring_func\":\"softmax\",\"seq_aux\":true,\"tie_word_embeddings\":false,\"t"
      "opk_group\":3,\"topk_method\":\"group_limited_greedy\",\"v_head_dim\":128,\"vocab_size\":102400}",
      235741434880 },
    { "{\"_remove_final_layer_norm\":false,\"activation_function\":\"relu\",\"architectures\":[\"OPTForCausalLM\"],\"do_layer_norm_before\""
      ":true,\"enable_bias\":true,\"ffn_dim\":3072,\"hidden_size\":768,\"init_std\":0.02,\"layer_norm_elementwise_affine\":true,\"max_posit"
      "ion_embeddings\":2048,\"model_type\":\"opt\",\"num_attention_heads\":12,\"num_hidden_layers\":12,\"vocab_size\":50272,\"word_embed_p"
      "roj_dim\":768}",
      125239296 },
    { "{\"architectures\":[\"Gemma2ForCausalLM\"],\"attention_bias\":false,\"attn_logit_softcapping\":50.0,\"final_logit_softcapping\":30.0"
      ",\"head_dim\":256,\"hidden_act\":\"gelu_pytorch_tanh\",\"hidden_activation\":\"gelu_pytorch_tanh\",\"hidden_size\":3584,\"intermedia"
      "te_size\":14336,\"max_position_embeddings\":8192,\"model_type\":\"gemma2\",\"num_attention_heads\":16,\"num_hidden_layers\":42,\"num"
      "_key_value_heads\":8,\"query_pre_attn_scalar\":256,\"rms_norm_eps\":1e-06,\"rope_theta\":10000.0,\"sliding_window\":4096,\"sliding_w"
      "indow_size\":4096,\"vocab_size\":256000}",
      9241705984 },
    { "{\"architectures\":[\"LlavaForConditionalGeneration\"],\"model_type\":\"llava\",\"projector_hidden_act\":\"gelu\",\"text_config\":{"
      "\"architectures\":[\"LlamaForCausalLM\"],\"max_position_embeddings\":4096,\"model_type\":\"llama\",\"rms_norm_eps\":1e-05,\"vocab_si"
      "ze\":32064},\"tie_word_embeddings\":false,\"vision_config\":{\"hidden_size\":1024,\"image_size\":336,\"intermediate_size\":4096,\"mo"
      "del_type\":\"clip_vision_model\",\"num_attention_heads\":16,\"num_hidden_layers\":24,\"patch_size\":14,\"projection_dim\":768,\"voca"
      "b_size\":32000},\"vision_feature_layer\":-2,\"vision_feature_select_strategy\":\"default\",\"vocab_size\":32064}",
      6738939904 },
    { "{\"architectures\":[\"NemotronHForCausalLM\"],\"attention_bias\":false,\"attention_head_dim\":128,\"conv_kernel\":4,\"expand\":2,\"h"
      "idden_size\":8192,\"hybrid_override_pattern\":\"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M"
      "*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-\",\"intermediate_size\":32768,\"layer_norm_epsilon\":1e-05,\"mamba_head_dim\":64,\"mamba_hidden_a"
      "ct\":\"silu\",\"mamba_num_heads\":256,\"mamba_proj_bias\":false,\"max_position_embeddings\":8192,\"mlp_bias\":false,\"mlp_hidden_act"
      "\":\"relu2\",\"model_type\":\"nemotron_h\",\"n_groups\":8,\"num_attention_heads\":64,\"num_hidden_layers\":118,\"num_key_value_heads"
      "\":8,\"rms_norm_eps\":1e-05,\"sliding_window\":null,\"ssm_state_size\":256,\"tie_word_embeddings\":false,\"time_step_rank\":512,\"us"
      "e_bias\":false,\"use_conv_bias\":true,\"vocab_size\":131072}",
      56324350464 },
    { "{\"architectures\":[\"GptOssForCausalLM\"],\"attention_bias\":true,\"experts_per_token\":4,\"head_dim\":64,\"hidden_act\":\"silu\","
      "\"hidden_size\":2880,\"initial_context_length\":4096,\"intermediate_size\":2880,\"layer_types\":[\"sliding_attention\",\"full_attent"
      "ion\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"s"
      "liding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_at"
      "tention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\""
      ",\"full_attention\",\"sliding_attention\",\"full_attention\"],\"max_position_embeddings\":131072,\"model_type\":\"gpt_oss\",\"num_at"
      "tention_heads\":64,\"num_experts_per_tok\":4,\"num_hidden_layers\":24,\"num_key_value_heads\":8,\"num_local_experts\":32,\"output_ro"
      "uter_logits\":false,\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"beta_fast\":32.0,\"beta_slow\":1.0,\"factor\":32.0,\"original_max_pos"
      "ition_embeddings\":4096,\"rope_type\":\"yarn\",\"truncate\":false},\"rope_theta\":150000,\"router_aux_loss_coef\":0.9,\"sliding_wind"
      "ow\":128,\"swiglu_limit\":7.0,\"tie_word_embeddings\":false,\"vocab_size\":201088}",
      20914757184 },
    { "{\"architectures\":[\"MambaForCausalLM\"],\"conv_kernel\":4,\"expand\":2,\"hidden_act\":\"silu\",\"hidden_size\":768,\"intermediate_"
      "size\":1536,\"layer_norm_epsilon\":1e-05,\"model_type\":\"mamba\",\"num_hidden_layers\":24,\"state_size\":16,\"time_step_rank\":48,"
      "\"use_bias\":false,\"use_conv_bias\":true,\"vocab_size\":50280}",
      129135360 },
    { "{\"alibi\":false,\"apply_residual_connection_post_layernorm\":false,\"architectures\":[\"FalconForCausalLM\"],\"bias\":false,\"hidde"
      "n_size\":4544,\"layer_norm_epsilon\":1e-05,\"model_type\":\"falcon\",\"multi_query\":true,\"new_decoder_architecture\":false,\"num_a"
      "ttention_heads\":71,\"num_hidden_layers\":32,\"num_kv_heads\":71,\"parallel_attn\":true,\"vocab_size\":65024}",
      6921720704 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"model_type\":\"llama\"}",
      137664 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":32,\"attention_bias\":true,\"mlp_bias\":true,\"tie_word_embeddings\":true,\"mod"
      "el_type\":\"llama\"}",
      147584 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"sliding_window\":32,\"model_type\":\"mistral\"}",
      125376 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"model_type\":\"qwen2\"}",
      125760 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"attention_bias\":true,\"model_type\":\"qwen3\"}",
      126048 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"model_type\":\"phi3\"}",
      125376 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":1,\"head_dim\":16,\"model_type\":\"gemma\"}",
      102848 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"sliding_window\":32,\"model_type\":\"gemma2\"}",
      109376 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":8,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"sliding_window\":32,\"model_type\":\"gemma3_text\"}",
      264512 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"model_type\":\"olmo2\"}",
      125664 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":8,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"sliding_window\":32,\"model_type\":\"olmo3\"}",
      280384 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":8,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"sliding_window\":32,\"sliding_window_pattern\":4,\"model_type\":\"exaone4\"}",
      279872 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"attention_bias\":true,\"embedding_multiplier\":12.0,\"logits_scaling\":8.0,\"residual_multiplier\":0.22,\"attention_"
      "multiplier\":0.01,\"model_type\":\"granite\"}",
      138432 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"model_type\":\"smollm3\"}",
      108992 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"model_type\":\"helium\"}",
      125376 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"model_type\":\"seed_oss\"}",
      125760 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"model_type\":\"ernie4_5\"}",
      108992 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"use_bias\":true,\"model_type\":\"ernie4_5\"}",
      110336 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"model_type\":\"hunyuan_v1_dense\"}",
      125472 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"model_type\":\"arcee\"}",
      106944 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"model_type\":\"glm\"}",
      125760 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"model_type\":\"glm4\"}",
      126144 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"model_type\":\"nemotron\"}",
      107392 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"model_type\":\"cohere\"}",
      108800 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"use_qk_norm\":true,\"num_key_value_heads\":2,\"model_type\":\"cohere\"}",
      109088 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":8,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"sliding_window\":32,\"model_type\":\"cohere2\"}",
      262720 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"use_qkv_bias\":true,\"model_type\":\"stablelm\"}",
      126208 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"sliding_window\":32,\"model_type\":\"starcoder2\"}",
      92064 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"use_bias\":false,\"tie_word_embeddings\":false,\"model_type\":\"starcoder2\"}",
      107392 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"partial_rotary_factor\":0.5,\"model_type\":\"phi\"}",
      108320 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"qk_layernorm\":true,\"model_type\":\"phi\"}",
      120992 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"model_type\":\"persimmon\"}",
      121120 },
    { "{\"n_embd\":64,\"n_layer\":3,\"n_head\":4,\"vocab_size\":256,\"n_positions\":128,\"model_type\":\"gpt2\"}",
      174656 },
    { "{\"n_embd\":64,\"n_layer\":3,\"n_head\":4,\"vocab_size\":256,\"n_positions\":128,\"n_inner\":100,\"model_type\":\"gpt2\"}",
      114284 },
    { "{\"n_embd\":64,\"n_layer\":3,\"n_head\":4,\"vocab_size\":256,\"n_positions\":128,\"model_type\":\"gpt_bigcode\"}",
      155936 },
    { "{\"n_embd\":64,\"n_layer\":3,\"n_head\":4,\"vocab_size\":256,\"n_positions\":128,\"multi_query\":false,\"model_type\":\"gpt_bigcode"
      "\"}",
      174656 },
    { "{\"n_embd\":64,\"n_layer\":3,\"n_head\":4,\"vocab_size\":256,\"n_positions\":128,\"rotary_dim\":8,\"model_type\":\"gptj\"}",
      181952 },
    { "{\"n_embd\":64,\"n_layer\":3,\"n_head\":4,\"vocab_size\":256,\"n_positions\":128,\"rotary_dim\":8,\"n_ctx\":128,\"model_type\":\"cod"
      "egen\"}",
      181952 },
    { "{\"hidden_size\":64,\"num_layers\":4,\"num_heads\":4,\"vocab_size\":256,\"max_position_embeddings\":128,\"attention_types\":[[[\"glo"
      "bal\",\"local\"],2]],\"window_size\":32,\"model_type\":\"gpt_neo\"}",
      223872 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"model_type\":\"gpt_neox\"}",
      120928 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"use_parallel_residual\":false,\"attention_bias\":false,\"tie_word_embeddings\":true,\"model_type\":\"gpt_neox\"}",
      103776 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"ffn_dim\":96,\"vocab_size\":256,\"max_position_embeddings\":"
      "128,\"word_embed_proj_dim\":64,\"model_type\":\"opt\"}",
      112864 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"ffn_dim\":96,\"vocab_size\":256,\"max_position_embeddings\":"
      "128,\"do_layer_norm_before\":false,\"word_embed_proj_dim\":64,\"model_type\":\"opt\"}",
      112736 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"ffn_dim\":96,\"vocab_size\":256,\"max_position_embeddings\":"
      "128,\"enable_bias\":false,\"word_embed_proj_dim\":64,\"model_type\":\"opt\"}",
      111616 },
    { "{\"hidden_size\":64,\"n_layer\":3,\"n_head\":4,\"vocab_size\":256,\"seq_length\":128,\"model_type\":\"bloom\"}",
      166592 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"vocab_size\":256,\"model_type\":\"falcon\"}",
      145920 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"vocab_size\":256,\"new_decoder_architecture\":true,\"num_kv_"
      "heads\":2,\"multi_query\":true,\"model_type\":\"falcon\"}",
      152448 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"vocab_size\":256,\"alibi\":true,\"bias\":true,\"multi_query"
      "\":false,\"parallel_attn\":false,\"model_type\":\"falcon\"}",
      166464 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"vocab_size\":256,\"multi_query\":false,\"model_type\":\"falc"
      "on\"}",
      164352 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"vocab_size\":256,\"new_decoder_architecture\":true,\"num_kv_"
      "heads\":2,\"num_ln_in_parallel_attn\":1,\"ffn_hidden_size\":100,\"model_type\":\"falcon\"}",
      92160 },
    { "{\"d_model\":64,\"n_layers\":3,\"n_heads\":4,\"vocab_size\":256,\"max_seq_len\":128,\"attn_config\":{\"alibi\":true},\"model_type\":"
      "\"mpt\"}",
      164288 },
    { "{\"d_model\":64,\"num_layers\":3,\"attention_heads\":4,\"ffn_dim\":96,\"vocab_size\":256,\"model_type\":\"xglm\"}",
      104544 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"model_type\":\"biogpt\"}",
      112864 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"num_local_experts\":4,\"model_type\":\"mixtral\"}",
      292032 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"num_local_experts\":4,\"model_type\":\"phimoe\"}",
      292480 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"num_local_experts\":4,\"attention_bias\":true,\"lm_head_bias\":true,\"model_type\":\"phimo"
      "e\"}",
      293312 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"num_experts\":4,\"num_experts_per_tok\":2,\"model_type\":\"olmoe\"}",
      292320 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"shared_expert_int"
      "ermediate_size\":48,\"model_type\":\"qwen2_moe\"}",
      172800 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":6,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"shared_expert_int"
      "ermediate_size\":48,\"decoder_sparse_step\":2,\"mlp_only_layers\":[1],\"qkv_bias\":false,\"model_type\":\"qwen2_moe\"}",
      249280 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"m"
      "lp_only_layers\":[0],\"model_type\":\"qwen3_moe\"}",
      138272 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"num_local_experts\":4,\"num_experts_per_tok\":2,\"sliding_window\":32,\"mo"
      "del_type\":\"gpt_oss\"}",
      295704 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"kv_lora_rank\":24,\"q_lora_rank\":40,"
      "\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"v_head_dim\":20,\"n_group\":2,\"topk_group\":1,\"first_k_dense_replace\":1,\"n_shar"
      "ed_experts\":2,\"model_type\":\"deepseek_v2\"}",
      226816 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"num_local_experts\":4,\"num_experts_per_tok\":2,\"model_type\":\"granitemoe\"}",
      292032 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"num_local_experts\":4,\"num_experts_per_tok\":2,\"shared_intermediate_size\":48,\"model_ty"
      "pe\":\"granitemoeshared\"}",
      319680 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"num_experts\":4,\"moe_topk\":2,\"head_dim\":16,\"model_type\":\"hunyuan_v1_moe\"}",
      347424 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"num_local_experts\":4,\"num_experts_per_tok\":1,\"intermediate_size_mlp\":"
      "128,\"interleave_moe_layer_step\":2,\"model_type\":\"llama4_text\"}",
      316480 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"type_vocab_size\":2,\"model_type\":\"bert\",\"architectures\":[\"BertForMaskedLM\"]}",
      117408 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":130,\"type_vocab_size\":2,\"model_type\":\"roberta\",\"architectures\":[\"RobertaForMaskedLM\"]}",
      117536 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":130,\"type_vocab_size\":2,\"model_type\":\"xlm-roberta\",\"architectures\":[\"XLMRobertaForMaskedLM\"]}",
      117536 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"type_vocab_size\":2,\"embedding_size\":64,\"model_type\":\"electra\",\"architectures\":[\"ElectraForMaskedLM\"]}",
      117408 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"type_vocab_size\":2,\"model_type\":\"bert\",\"architectures\":[\"BertForSequenceClassification\"]}",
      117154 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":130,\"type_vocab_size\":2,\"model_type\":\"roberta\",\"architectures\":[\"RobertaForSequenceClassification\"]}",
      117282 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"model_type\":\"modernbert\",\"architectures\":[\"ModernBertForMaskedLM\"]}",
      125696 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"decoder_bias\":false,\"norm_bias\":true,\"model_type\":\"modernbert\",\"architectures\":[\"ModernBertForMaskedLM\"]}",
      125952 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_labels\":3,\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\"},\"model_type\":\"llama\",\"architectures\":[\"Llam"
      "aForSequenceClassification\"]}",
      121472 },
    { "{\"n_embd\":64,\"n_layer\":3,\"n_head\":4,\"vocab_size\":256,\"n_positions\":128,\"num_labels\":3,\"id2label\":{\"0\":\"a\",\"1\":\""
      "b\",\"2\":\"c\"},\"model_type\":\"gpt2\",\"architectures\":[\"GPT2ForSequenceClassification\"]}",
      174848 },
    { "{\"d_model\":64,\"num_layers\":3,\"num_heads\":4,\"d_kv\":16,\"d_ff\":96,\"vocab_size\":256,\"model_type\":\"t5\",\"architectures\":"
      "[\"T5ForConditionalGeneration\"]}",
      238912 },
    { "{\"d_model\":64,\"encoder_layers\":3,\"decoder_layers\":2,\"encoder_attention_heads\":4,\"decoder_attention_heads\":4,\"encoder_ffn_"
      "dim\":96,\"decoder_ffn_dim\":80,\"vocab_size\":256,\"max_position_embeddings\":128,\"model_type\":\"bart\",\"architectures\":[\"Bart"
      "ForConditionalGeneration\"]}",
      209408 },
    { "{\"d_model\":64,\"encoder_layers\":3,\"decoder_layers\":2,\"encoder_attention_heads\":4,\"decoder_attention_heads\":4,\"encoder_ffn_"
      "dim\":96,\"decoder_ffn_dim\":80,\"vocab_size\":256,\"max_position_embeddings\":128,\"model_type\":\"mbart\",\"architectures\":[\"MBa"
      "rtForConditionalGeneration\"]}",
      209664 },
    { "{\"d_model\":64,\"encoder_layers\":3,\"decoder_layers\":2,\"encoder_attention_heads\":4,\"decoder_attention_heads\":4,\"encoder_ffn_"
      "dim\":96,\"decoder_ffn_dim\":80,\"vocab_size\":256,\"max_position_embeddings\":128,\"model_type\":\"pegasus\",\"architectures\":[\"P"
      "egasusForConditionalGeneration\"]}",
      209152 },
    { "{\"d_model\":64,\"encoder_layers\":3,\"decoder_layers\":2,\"encoder_attention_heads\":4,\"decoder_attention_heads\":4,\"encoder_ffn_"
      "dim\":96,\"decoder_ffn_dim\":80,\"vocab_size\":256,\"max_position_embeddings\":128,\"model_type\":\"m2m_100\",\"architectures\":[\"M"
      "2M100ForConditionalGeneration\"]}",
      192768 },
    { "{\"d_model\":64,\"encoder_layers\":3,\"decoder_layers\":2,\"encoder_attention_heads\":4,\"decoder_attention_heads\":4,\"encoder_ffn_"
      "dim\":96,\"decoder_ffn_dim\":80,\"vocab_size\":256,\"max_position_embeddings\":128,\"model_type\":\"marian\",\"architectures\":[\"Ma"
      "rianMTModel\"]}",
      208896 },
    { "{\"d_model\":64,\"encoder_layers\":3,\"decoder_layers\":2,\"encoder_attention_heads\":4,\"decoder_attention_heads\":4,\"encoder_ffn_"
      "dim\":96,\"decoder_ffn_dim\":80,\"vocab_size\":256,\"max_position_embeddings\":128,\"model_type\":\"blenderbot\",\"architectures\":["
      "\"BlenderbotForConditionalGeneration\"]}",
      209152 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"image_size\":32,\"patch_size\":8,\""
      "model_type\":\"vit\",\"architectures\":[\"ViTForImageClassification\"]}",
      101794 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"vocab_size\":256,\"state_size\":8,\"model_type\":\"mamba\"}",
      105344 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"vocab_size\":256,\"state_size\":8,\"model_type\":\"falcon_mamba\"}",
      105344 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"vocab_size\":256,\"state_size\":8,\"use_bias\":true,\"use_conv_bias\":false,\"time_ste"
      "p_rank\":7,\"intermediate_size\":96,\"model_type\":\"mamba\"}",
      85376 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"vocab_size\":256,\"state_size\":8,\"num_heads\":8,\"head_dim\":16,\"n_groups\":2,\"exp"
      "and\":2,\"model_type\":\"mamba2\"}",
      117288 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"mamba_n_heads\":8,\"mamba_d_head\":16,\"mamba_n_groups\":1,\"mamba_d_state\":8,\"mamba_exp"
      "and\":2,\"attn_layer_indices\":[1],\"model_type\":\"bamba\"}",
      200312 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"layer_types\":[\"mamba\",\"attention\",\"mamba\",\"mamba\"],\"mamba_n_heads\":8,\"mamba_d_"
      "head\":16,\"mamba_d_state\":8,\"mamba_expand\":2,\"num_local_experts\":4,\"num_experts_per_tok\":2,\"shared_intermediate_size\":48,"
      "\"model_type\":\"granitemoehybrid\"}",
      459384 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"layer_types\":[\"mamba\",\"attention\",\"mamba\",\"mamba\"],\"mamba_n_heads\":8,\"mamba_d_"
      "head\":16,\"mamba_d_state\":8,\"mamba_expand\":2,\"num_local_experts\":0,\"num_experts_per_tok\":0,\"shared_intermediate_size\":48,"
      "\"model_type\":\"granitemoehybrid\"}",
      163448 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":8,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,\"linear_key_head_di"
      "m\":8,\"linear_value_head_dim\":12,\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"shared_expert_intermed"
      "iate_size\":48,\"model_type\":\"qwen3_next\"}",
      412280 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":8,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,\"linear_key_head_di"
      "m\":8,\"linear_value_head_dim\":12,\"model_type\":\"qwen3_5_text\"}",
      286840 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":8,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,\"linear_key_head_di"
      "m\":8,\"linear_value_head_dim\":12,\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"shared_expert_intermed"
      "iate_size\":48,\"model_type\":\"qwen3_5_moe_text\"}",
      412280 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":6,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"global_head_dim\":32,\"num_global_key_value_heads\":1,\"hidden_size_per_la"
      "yer_input\":0,\"sliding_window\":32,\"model_type\":\"gemma4_text\"}",
      214816 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"model_type\":\"internlm3\"}",
      125376 },
    { "{\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":256,\"max_position_emb"
      "eddings\":128,\"num_key_value_heads\":2,\"head_dim\":16,\"model_type\":\"ministral3\"}",
      125376 },
    { "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2ForSequenceClassification\"],\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"n_posit"
      "ions\":1024,\"vocab_size\":50257,\"num_labels\":2,\"id2label\":{\"0\":\"a\",\"1\":\"b\"}}",
      124441344 },
    { "{\"model_type\":\"codegen\",\"architectures\":[\"CodeGenForCausalLM\"],\"n_embd\":1024,\"n_layer\":20,\"n_head\":16,\"n_positions\":"
      "2048,\"n_ctx\":2048,\"rotary_dim\":32,\"vocab_size\":51200,\"tie_word_embeddings\":false}",
      356712448 },
    { "{\"model_type\":\"cohere\",\"architectures\":[\"CohereForCausalLM\"],\"hidden_size\":8192,\"num_hidden_layers\":40,\"num_attention_h"
      "eads\":64,\"num_key_value_heads\":64,\"intermediate_size\":22528,\"vocab_size\":256000,\"max_position_embeddings\":8192,\"model_max_"
      "length\":131072,\"logit_scale\":0.0625,\"layer_norm_eps\":1e-05,\"rope_theta\":8000000.0,\"use_qk_norm\":false}",
      34980831232 },
    { "{\"model_type\":\"dbrx\",\"architectures\":[\"DbrxForCausalLM\"],\"d_model\":6144,\"n_heads\":48,\"n_layers\":40,\"max_seq_len\":327"
      "68,\"vocab_size\":100352,\"attn_config\":{\"clip_qkv\":8,\"kv_n_heads\":8,\"model_type\":\"\",\"rope_theta\":500000},\"ffn_config\":"
      "{\"ffn_hidden_size\":10752,\"moe_num_experts\":16,\"moe_top_k\":4,\"moe_jitter_eps\":0,\"moe_loss_weight\":0.05,\"model_type\":\"\"}"
      ",\"tie_word_embeddings\":false}",
      131596523520 },
    { "{\"model_type\":\"exaone\",\"architectures\":[\"ExaoneForCausalLM\"],\"hidden_size\":4096,\"num_layers\":32,\"num_attention_heads\":"
      "32,\"num_key_value_heads\":8,\"intermediate_size\":14336,\"vocab_size\":102400,\"max_position_embeddings\":4096,\"activation_functio"
      "n\":\"silu\",\"layer_norm_epsilon\":1e-05,\"tie_word_embeddings\":false}",
      7818448896 },
    { "{\"architectures\":[\"FalconForCausalLM\"],\"model_type\":\"falcon\",\"hidden_size\":8192,\"num_hidden_layers\":60,\"num_attention_h"
      "eads\":128,\"num_kv_heads\":8,\"new_decoder_architecture\":true,\"multi_query\":true,\"parallel_attn\":true,\"alibi\":false,\"bias\""
      ":false,\"vocab_size\":65024}",
      41303293952 },
    { "{\"model_type\":\"falcon\",\"architectures\":[\"FalconForCausalLM\"],\"hidden_size\":2048,\"num_hidden_layers\":24,\"num_attention_h"
      "eads\":32,\"multi_query\":false,\"parallel_attn\":false,\"alibi\":true,\"bias\":true,\"new_decoder_architecture\":false,\"vocab_size"
      "\":50304}",
      1311625216 },
    { "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequenceClassification\"],\"hidden_size\":4096,\"num_hidden_layers\":32,\"num"
      "_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,\"vocab_size\":128256,\"max_position_embeddings\":8192,"
      "\"id2label\":{\"0\":\"a\",\"1\":\"b\"}}",
      7504932864 },
    { "{\"model_type\":\"phi\",\"architectures\":[\"PhiForCausalLM\"],\"hidden_size\":2560,\"num_hidden_layers\":32,\"num_attention_heads\""
      ":32,\"num_key_value_heads\":32,\"intermediate_size\":10240,\"vocab_size\":51200,\"max_position_embeddings\":2048,\"partial_rotary_fa"
      "ctor\":0.4,\"qk_layernorm\":false,\"hidden_act\":\"gelu_new\",\"layer_norm_eps\":1e-05,\"tie_word_embeddings\":false}",
      2779683840 },
    { "{\"model_type\":\"phi3\",\"architectures\":[\"Phi3ForCausalLM\"],\"hidden_size\":3072,\"num_hidden_layers\":32,\"num_attention_heads"
      "\":32,\"num_key_value_heads\":32,\"intermediate_size\":8192,\"vocab_size\":32064,\"max_position_embeddings\":131072,\"original_max_p"
      "osition_embeddings\":4096,\"rope_scaling\":{\"long_factor\":[1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0"
      ",1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0],\"short_fa"
      "ctor\":[1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,"
      "1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0],\"type\":\"longrope\"},\"sliding_window\":262144,\"tie_word_emb"
      "eddings\":false}",
      3821079552 },
    { "{\"model_type\":\"phi3\",\"architectures\":[\"Phi3ForCausalLM\"],\"hidden_size\":5120,\"num_hidden_layers\":40,\"num_attention_heads"
      "\":40,\"num_key_value_heads\":10,\"intermediate_size\":17920,\"vocab_size\":100352,\"max_position_embeddings\":16384,\"original_max_"
      "position_embeddings\":16384,\"rope_theta\":250000,\"sliding_window\":null,\"rope_scaling\":null,\"tie_word_embeddings\":false}",
      14659507200 },
    { "{\"model_type\":\"llava\",\"architectures\":[\"LlavaForConditionalGeneration\"],\"image_seq_length\":1,\"text_config\":{\"model_type"
      "\":\"mistral\",\"head_dim\":128,\"hidden_size\":5120,\"intermediate_size\":14336,\"max_position_embeddings\":1024000,\"num_hidden_la"
      "yers\":40,\"num_key_value_heads\":8,\"num_attention_heads\":32,\"rope_theta\":1000000000.0,\"sliding_window\":null,\"vocab_size\":13"
      "1072,\"is_composition\":true},\"vision_config\":{\"model_type\":\"pixtral\",\"head_dim\":64,\"hidden_size\":1024,\"image_size\":1024"
      ",\"intermediate_size\":4096,\"num_attention_heads\":16,\"num_hidden_layers\":24,\"patch_size\":16,\"rope_theta\":10000.0},\"vision_f"
      "eature_layer\":-1}",
      12247782400 },
    { "{\"model_type\":\"qwen2_vl\",\"architectures\":[\"Qwen2VLForConditionalGeneration\"],\"hidden_size\":3584,\"num_hidden_layers\":28,"
      "\"num_attention_heads\":28,\"num_key_value_heads\":4,\"intermediate_size\":18944,\"vocab_size\":152064,\"max_position_embeddings\":3"
      "2768,\"max_window_layers\":28,\"sliding_window\":32768,\"use_sliding_window\":false,\"tie_word_embeddings\":false,\"rope_scaling\":{"
      "\"type\":\"mrope\",\"mrope_section\":[16,24,24]},\"vision_config\":{\"depth\":32,\"embed_dim\":1280,\"mlp_ratio\":4,\"num_heads\":16"
      ",\"in_chans\":3,\"hidden_size\":3584,\"patch_size\":14,\"spatial_merge_size\":2,\"spatial_patch_size\":14,\"temporal_patch_size\":2}"
      "}",
      7615616512 },
    { "{\"model_type\":\"qwen2_5_vl\",\"architectures\":[\"Qwen2_5_VLForConditionalGeneration\"],\"hidden_size\":3584,\"num_hidden_layers\""
      ":28,\"num_attention_heads\":28,\"num_key_value_heads\":4,\"intermediate_size\":18944,\"vocab_size\":152064,\"max_position_embeddings"
      "\":128000,\"max_window_layers\":28,\"sliding_window\":32768,\"use_sliding_window\":false,\"tie_word_embeddings\":false,\"rope_scalin"
      "g\":{\"type\":\"mrope\",\"mrope_section\":[16,24,24]},\"vision_config\":{\"depth\":32,\"hidden_act\":\"silu\",\"hidden_size\":1280,"
      "\"intermediate_size\":3420,\"num_heads\":16,\"in_chans\":3,\"out_hidden_size\":3584,\"patch_size\":14,\"spatial_merge_size\":2,\"spa"
      "tial_patch_size\":14,\"window_size\":112,\"fullatt_block_indexes\":[7,15,23,31],\"tokens_per_second\":2,\"temporal_patch_size\":2}}",
      7615616512 },
    { "{\"model_type\":\"stablelm\",\"architectures\":[\"StableLmForCausalLM\"],\"hidden_size\":2048,\"num_hidden_layers\":24,\"num_attenti"
      "on_heads\":32,\"num_key_value_heads\":32,\"intermediate_size\":5632,\"vocab_size\":100352,\"max_position_embeddings\":4096,\"partial"
      "_rotary_factor\":0.25,\"use_qkv_bias\":true,\"layer_norm_eps\":1e-05,\"tie_word_embeddings\":false,\"use_parallel_residual\":false,"
      "\"qk_layernorm\":false}",
      1644515328 },
    { "{\"model_type\":\"gpt_bigcode\",\"architectures\":[\"GPTBigCodeForCausalLM\"],\"n_embd\":6144,\"n_layer\":40,\"n_head\":48,\"n_inner"
      "\":24576,\"n_positions\":8192,\"vocab_size\":49152,\"multi_query\":true,\"activation_function\":\"gelu\"}",
      15517456384 },
    { "{\"architectures\":[\"GptOssForCausalLM\"],\"attention_bias\":true,\"experts_per_token\":4,\"head_dim\":64,\"hidden_act\":\"silu\","
      "\"hidden_size\":2880,\"initial_context_length\":4096,\"intermediate_size\":2880,\"layer_types\":[\"sliding_attention\",\"full_attent"
      "ion\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"s"
      "liding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_at"
      "tention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\""
      ",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_a"
      "ttention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention"
      "\",\"sliding_attention\",\"full_attention\"],\"max_position_embeddings\":131072,\"model_type\":\"gpt_oss\",\"num_attention_heads\":6"
      "4,\"num_experts_per_tok\":4,\"num_hidden_layers\":36,\"num_key_value_heads\":8,\"num_local_experts\":128,\"output_router_logits\":fa"
      "lse,\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"beta_fast\":32.0,\"beta_slow\":1.0,\"factor\":32.0,\"original_max_position_embeddings"
      "\":4096,\"rope_type\":\"yarn\",\"truncate\":false},\"rope_theta\":150000,\"router_aux_loss_coef\":0.9,\"sliding_window\":128,\"swigl"
      "u_limit\":7.0,\"tie_word_embeddings\":false,\"vocab_size\":201088}",
      116829156672 },
    { "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"attention_bias\":false,\"decoder_sparse_step\":1,\"head_dim\":128,\"hidden_act\":\"si"
      "lu\",\"hidden_size\":4096,\"intermediate_size\":12288,\"max_position_embeddings\":40960,\"max_window_layers\":94,\"mlp_only_layers\""
      ":[],\"model_type\":\"qwen3_moe\",\"moe_intermediate_size\":1536,\"norm_topk_prob\":true,\"num_attention_heads\":64,\"num_experts\":1"
      "28,\"num_experts_per_tok\":8,\"num_hidden_layers\":94,\"num_key_value_heads\":4,\"output_router_logits\":false,\"rms_norm_eps\":1e-0"
      "6,\"rope_scaling\":null,\"rope_theta\":1000000.0,\"router_aux_loss_coef\":0.001,\"sliding_window\":null,\"tie_word_embeddings\":fals"
      "e,\"use_sliding_window\":false,\"vocab_size\":151936}",
      235093634560 },
    { "{\"architectures\":[\"Llama4ForConditionalGeneration\"],\"model_type\":\"llama4\",\"text_config\":{\"attention_bias\":false,\"attent"
      "ion_chunk_size\":8192,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":5120,\"interleave_moe_layer_step\":1,\"intermediate_s"
      "ize\":8192,\"intermediate_size_mlp\":16384,\"max_position_embeddings\":10485760,\"model_type\":\"llama4_text\",\"num_attention_heads"
      "\":40,\"num_experts_per_tok\":1,\"num_hidden_layers\":48,\"num_key_value_heads\":8,\"num_local_experts\":16,\"output_router_logits\""
      ":false,\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"factor\":16.0,\"high_freq_factor\":1.0,\"low_freq_factor\":1.0,\"original_max_posi"
      "tion_embeddings\":8192,\"rope_type\":\"llama3\"},\"rope_theta\":500000.0,\"router_aux_loss_coef\":0.001,\"use_qk_norm\":true,\"vocab"
      "_size\":202048}}",
      107769861120 },
    { "{\"architectures\":[\"MixtralForCausalLM\"],\"hidden_act\":\"silu\",\"hidden_size\":4096,\"intermediate_size\":14336,\"max_position_"
      "embeddings\":32768,\"model_type\":\"mixtral\",\"num_attention_heads\":32,\"num_experts_per_tok\":2,\"num_hidden_layers\":32,\"num_ke"
      "y_value_heads\":8,\"num_local_experts\":8,\"output_router_logits\":false,\"rms_norm_eps\":1e-05,\"rope_theta\":1000000.0,\"router_au"
      "x_loss_coef\":0.02,\"sliding_window\":null,\"tie_word_embeddings\":false,\"vocab_size\":32000}",
      46702792704 },
    { "{\"architectures\":[\"WhisperForConditionalGeneration\"],\"model_type\":\"whisper\",\"num_mel_bins\":128,\"d_model\":1280,\"enco"
      "der_layers\":32,\"decoder_layers\":32,\"encoder_attention_heads\":20,\"decoder_attention_heads\":20,\"encoder_ffn_dim\":5120,\"d"
      "ecoder_ffn_dim\":5120,\"vocab_size\":51866,\"max_source_positions\":1500,\"max_target_positions\":448}",
      1543490560 },
    { "{\"architectures\":[\"WhisperForConditionalGeneration\"],\"model_type\":\"whisper\",\"d_model\":384,\"encoder_layers\":4,\"decod"
      "er_layers\":4,\"encoder_attention_heads\":6,\"decoder_attention_heads\":6,\"encoder_ffn_dim\":1536,\"decoder_ffn_dim\":1536,\"vo"
      "cab_size\":51865,\"max_source_positions\":1500,\"max_target_positions\":448}",
      37760640 },
    { "{\"architectures\":[\"DebertaV2ForMaskedLM\"],\"model_type\":\"deberta-v2\",\"attention_probs_dropout_prob\":0.1,\"hidden_act\":"
      "\"gelu\",\"hidden_dropout_prob\":0.1,\"hidden_size\":768,\"initializer_range\":0.02,\"intermediate_size\":3072,\"max_position_em"
      "beddings\":512,\"relative_attention\":true,\"position_buckets\":256,\"norm_rel_ebd\":\"layer_norm\",\"share_att_key\":true,\"pos"
      "_att_type\":\"p2c|c2p\",\"layer_norm_eps\":1e-07,\"max_relative_positions\":-1,\"position_biased_input\":false,\"num_attention_h"
      "eads\":12,\"num_hidden_layers\":12,\"type_vocab_size\":0,\"vocab_size\":128100}",
      184551780 },
    { "{\"architectures\":[\"DebertaV2ForSequenceClassification\"],\"model_type\":\"deberta-v2\",\"attention_probs_dropout_prob\":0.1,"
      "\"hidden_act\":\"gelu\",\"hidden_dropout_prob\":0.1,\"hidden_size\":768,\"initializer_range\":0.02,\"intermediate_size\":3072,\""
      "max_position_embeddings\":512,\"relative_attention\":true,\"position_buckets\":256,\"norm_rel_ebd\":\"layer_norm\",\"share_att_k"
      "ey\":true,\"pos_att_type\":\"p2c|c2p\",\"layer_norm_eps\":1e-07,\"max_relative_positions\":-1,\"position_biased_input\":false,\""
      "num_attention_heads\":12,\"num_hidden_layers\":12,\"type_vocab_size\":0,\"vocab_size\":128100}",
      184423682 },
};
/* clang-format on */
#endif
