/* Keys of Hugging Face's configurations of which something is planned as layers of as many weights, or left out and said,
 * and the parameters that transformers 5.24 counts in the models that it makes of them. */
#ifndef CLEAVE_TESTS_HF_NEAR_COUNTS_H
#define CLEAVE_TESTS_HF_NEAR_COUNTS_H
#include <stdint.h>

/* clang-format off */
static const struct {
    const char *config;
    int64_t parameters, planned; /* planned: here, exactly */
} hf_near_counts[] = {
    { "{\"model_type\":\"albert\",\"architectures\":[\"AlbertForMaskedLM\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num_hidden"
      "_layers\":12,\"intermediate_size\":3072,\"vocab_size\":30000,\"embedding_size\":128,\"num_hidden_groups\":1,\"inner_group_num\":"
      "1,\"max_position_embeddings\":512,\"type_vocab_size\":2,\"tie_word_embeddings\":true}",
      11221680, 11221680 },
    { "{\"model_type\":\"albert\",\"architectures\":[\"AlbertForMaskedLM\"],\"hidden_size\":4096,\"num_attention_heads\":64,\"num_hidde"
      "n_layers\":12,\"intermediate_size\":16384,\"vocab_size\":30000,\"embedding_size\":128,\"num_hidden_groups\":1,\"inner_group_num"
      "\":1,\"max_position_embeddings\":512,\"type_vocab_size\":2,\"tie_word_embeddings\":true}",
      206368944, 206368944 },
    { "{\"model_type\":\"albert\",\"architectures\":[\"AlbertForMaskedLM\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num_hidden"
      "_layers\":12,\"intermediate_size\":3072,\"vocab_size\":300,\"embedding_size\":64,\"num_hidden_groups\":3,\"inner_group_num\":1,"
      "\"max_position_embeddings\":512,\"type_vocab_size\":2,\"tie_word_embeddings\":true}",
      21415404, 21415404 },
    { "{\"model_type\":\"deberta\",\"architectures\":[\"DebertaForMaskedLM\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num_hidd"
      "en_layers\":12,\"intermediate_size\":3072,\"vocab_size\":50265,\"relative_attention\":true,\"max_relative_positions\":-1,\"posit"
      "ion_biased_input\":false,\"pos_att_type\":\"c2p|p2c\",\"type_vocab_size\":0,\"max_position_embeddings\":512,\"tie_word_embedding"
      "s\":true}",
      139244121, 139244121 },
    { "{\"model_type\":\"deberta-v2\",\"architectures\":[\"DebertaV2ForMaskedLM\"],\"hidden_size\":1536,\"num_attention_heads\":24,\"nu"
      "m_hidden_layers\":24,\"intermediate_size\":6144,\"vocab_size\":128100,\"relative_attention\":true,\"position_buckets\":256,\"nor"
      "m_rel_ebd\":\"layer_norm\",\"share_att_key\":true,\"pos_att_type\":\"p2c|c2p\",\"max_relative_positions\":-1,\"position_biased_i"
      "nput\":false,\"type_vocab_size\":0,\"conv_kernel_size\":3,\"conv_act\":\"gelu\",\"max_position_embeddings\":512,\"tie_word_embed"
      "dings\":true}",
      887085156, 887080548 },
    { "{\"model_type\":\"big_bird\",\"architectures\":[\"BigBirdForMaskedLM\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num_hid"
      "den_layers\":12,\"intermediate_size\":3072,\"vocab_size\":50358,\"max_position_embeddings\":4096,\"type_vocab_size\":2,\"attenti"
      "on_type\":\"block_sparse\",\"block_size\":64,\"num_random_blocks\":3,\"tie_word_embeddings\":true}",
      128111286, 128110518 },
    { "{\"model_type\":\"longformer\",\"architectures\":[\"LongformerForMaskedLM\"],\"hidden_size\":768,\"num_attention_heads\":12,\"nu"
      "m_hidden_layers\":12,\"intermediate_size\":3072,\"vocab_size\":50265,\"max_position_embeddings\":4098,\"type_vocab_size\":1,\"at"
      "tention_window\":[512,512,512,512,512,512,512,512,512,512,512,512],\"tie_word_embeddings\":true}",
      148711257, 148697433 },
    { "{\"model_type\":\"xlnet\",\"architectures\":[\"XLNetLMHeadModel\"],\"d_model\":768,\"n_layer\":12,\"n_head\":12,\"d_inner\":3072"
      ",\"vocab_size\":32000,\"tie_word_embeddings\":true}",
      116750336, 116708096 },
    { "{\"model_type\":\"esm\",\"architectures\":[\"EsmForMaskedLM\"],\"hidden_size\":1280,\"num_attention_heads\":20,\"num_hidden_laye"
      "rs\":33,\"intermediate_size\":5120,\"vocab_size\":33,\"pad_token_id\":1,\"mask_token_id\":32,\"max_position_embeddings\":1026,\""
      "position_embedding_type\":\"rotary\",\"token_dropout\":true,\"emb_layer_norm_before\":false,\"tie_word_embeddings\":true}",
      651043254, 651042593 },
    { "{\"model_type\":\"modernbert-decoder\",\"architectures\":[\"ModernBertDecoderForCausalLM\"],\"hidden_size\":768,\"num_attention_"
      "heads\":12,\"num_hidden_layers\":22,\"intermediate_size\":1152,\"vocab_size\":50368,\"max_position_embeddings\":7999,\"tie_word_"
      "embeddings\":true}",
      149655232, 149655232 },
    { "{\"model_type\":\"bert-generation\",\"architectures\":[\"BertGenerationDecoder\"],\"hidden_size\":1024,\"num_attention_heads\":1"
      "6,\"num_hidden_layers\":24,\"intermediate_size\":4096,\"vocab_size\":50358,\"max_position_embeddings\":512,\"tie_word_embeddings"
      "\":true}",
      354452662, 354452662 },
    { "{\"model_type\":\"recurrent_gemma\",\"architectures\":[\"RecurrentGemmaForCausalLM\"],\"hidden_size\":2560,\"num_hidden_layers\""
      ":26,\"num_attention_heads\":10,\"num_key_value_heads\":1,\"lru_width\":2560,\"head_dim\":256,\"intermediate_size\":15360,\"vocab"
      "_size\":256000,\"attention_window_size\":2048,\"block_types\":[\"recurrent\",\"recurrent\",\"attention\"],\"conv1d_width\":4,\"t"
      "ie_word_embeddings\":true}",
      2682862080, 2682862080 },
    { "{\"model_type\":\"rwkv\",\"architectures\":[\"RwkvForCausalLM\"],\"hidden_size\":768,\"num_hidden_layers\":12,\"vocab_size\":502"
      "77,\"context_length\":1024,\"attention_hidden_size\":768,\"intermediate_size\":3072,\"tie_word_embeddings\":false}",
      169342464, 169333248 },
    { "{\"model_type\":\"zamba2\",\"architectures\":[\"Zamba2ForCausalLM\"],\"hidden_size\":2048,\"num_hidden_layers\":38,\"num_attenti"
      "on_heads\":32,\"num_key_value_heads\":32,\"intermediate_size\":8192,\"attention_hidden_size\":4096,\"attention_head_dim\":128,\""
      "vocab_size\":32000,\"mamba_d_state\":64,\"mamba_expand\":2,\"mamba_ngroups\":1,\"n_mamba_heads\":64,\"mamba_headdim\":64,\"mamba"
      "_d_conv\":4,\"num_mem_blocks\":1,\"adapter_rank\":128,\"use_shared_attention_adapter\":true,\"use_mem_rope\":true,\"max_position"
      "_embeddings\":4096,\"layers_block_type\":[\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"hybrid\",\"mamba\",\"mamba\",\"mam"
      "ba\",\"mamba\",\"mamba\",\"hybrid\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"hybrid\",\"mamba\",\"mamba\",\"mamba\","
      "\"mamba\",\"mamba\",\"hybrid\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"mamba\",\"hybrid\",\"mamba\",\"mamba\",\"mamba\",\"mamb"
      "a\",\"mamba\",\"hybrid\",\"mamba\",\"mamba\"],\"tie_word_embeddings\":true}",
      1205078912, 1205076864 },
    { "{\"model_type\":\"zamba\",\"architectures\":[\"ZambaForCausalLM\"],\"hidden_size\":3712,\"num_hidden_layers\":76,\"num_attention"
      "_heads\":16,\"num_key_value_heads\":16,\"intermediate_size\":14848,\"attention_hidden_size\":7424,\"attention_head_dim\":464,\"v"
      "ocab_size\":32000,\"attn_layer_period\":6,\"attn_layer_offset\":4,\"mamba_d_state\":16,\"mamba_d_conv\":4,\"mamba_expand\":2,\"m"
      "amba_dt_rank\":232,\"n_mamba_heads\":2,\"tie_word_embeddings\":true}",
      7232490496, 7232486784 },
    { "{\"model_type\":\"gemma3n_text\",\"architectures\":[\"Gemma3nForCausalLM\"],\"hidden_size\":2048,\"num_hidden_layers\":35,\"inte"
      "rmediate_size\":[16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,163"
      "84,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384,16384],\"num_attention_heads\":8,\""
      "num_key_value_heads\":2,\"head_dim\":256,\"vocab_size\":262400,\"vocab_size_per_layer_input\":262144,\"hidden_size_per_layer_inp"
      "ut\":256,\"laurel_rank\":64,\"altup_num_inputs\":4,\"num_kv_shared_layers\":15,\"tie_word_embeddings\":true}",
      6835235568, 6837489152 },
    { "{\"model_type\":\"gemma3n_text\",\"architectures\":[\"Gemma3nForCausalLM\"],\"hidden_size\":2048,\"num_hidden_layers\":30,\"inte"
      "rmediate_size\":[8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8192,8"
      "192,8192,8192,8192,8192,8192,8192,8192],\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":256,\"vocab_size\":2624"
      "00,\"vocab_size_per_layer_input\":262144,\"hidden_size_per_layer_input\":256,\"laurel_rank\":64,\"altup_num_inputs\":4,\"num_kv_"
      "shared_layers\":10,\"activation_sparsity_pattern\":[0.95,0.95,0.95,0.95,0.95,0.95,0.95,0.95,0.95,0.95,0.0,0.0,0.0,0.0,0.0,0.0,0."
      "0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0],\"tie_word_embeddings\":true}",
      4435182688, 4437107712 },
    { "{\"model_type\":\"gemma4_text\",\"architectures\":[\"Gemma4ForCausalLM\"],\"hidden_size\":1536,\"num_hidden_layers\":35,\"interm"
      "ediate_size\":6144,\"num_attention_heads\":8,\"num_key_value_heads\":1,\"head_dim\":256,\"global_head_dim\":512,\"vocab_size\":2"
      "62144,\"hidden_size_per_layer_input\":256,\"vocab_size_per_layer_input\":262144,\"num_kv_shared_layers\":20,\"use_double_wide_ml"
      "p\":true,\"max_position_embeddings\":131072,\"sliding_window\":512,\"tie_word_embeddings\":true}",
      4621490944, 4621478400 },
    { "{\"model_type\":\"gemma4_text\",\"architectures\":[\"Gemma4ForCausalLM\"],\"hidden_size\":2560,\"num_hidden_layers\":42,\"interm"
      "ediate_size\":10240,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":256,\"global_head_dim\":512,\"vocab_size\":"
      "262144,\"hidden_size_per_layer_input\":256,\"vocab_size_per_layer_input\":262144,\"num_kv_shared_layers\":18,\"use_double_wide_m"
      "lp\":false,\"max_position_embeddings\":131072,\"sliding_window\":512,\"tie_word_embeddings\":true}",
      7463013376, 7463049216 },
    { "{\"model_type\":\"vit_msn\",\"architectures\":[\"ViTMSNForImageClassification\"],\"hidden_size\":768,\"num_attention_heads\":12,"
      "\"num_hidden_layers\":12,\"intermediate_size\":3072,\"image_size\":224,\"patch_size\":16,\"num_channels\":3}",
      85800194, 85800194 },
    { "{\"model_type\":\"ijepa\",\"architectures\":[\"IJepaForImageClassification\"],\"hidden_size\":1280,\"num_attention_heads\":16,\""
      "num_hidden_layers\":32,\"intermediate_size\":5120,\"image_size\":224,\"patch_size\":14,\"num_channels\":3}",
      630764802, 630764802 },
    { "{\"model_type\":\"deit\",\"architectures\":[\"DeiTForImageClassification\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num"
      "_hidden_layers\":12,\"intermediate_size\":3072,\"image_size\":224,\"patch_size\":16,\"num_channels\":3}",
      85801730, 85800194 },
    { "{\"model_type\":\"dinov2\",\"architectures\":[\"Dinov2Model\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num_hidden_layer"
      "s\":12,\"mlp_ratio\":4,\"image_size\":518,\"patch_size\":14}",
      86580480, 86562818 },
    { "{\"model_type\":\"dinov2\",\"architectures\":[\"Dinov2Model\"],\"hidden_size\":1536,\"num_attention_heads\":24,\"num_hidden_laye"
      "rs\":40,\"mlp_ratio\":4,\"image_size\":518,\"patch_size\":14,\"use_swiglu_ffn\":true}",
      1136480768, 1136359426 },
    { "{\"model_type\":\"beit\",\"architectures\":[\"BeitForImageClassification\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num"
      "_hidden_layers\":12,\"intermediate_size\":3072,\"image_size\":224,\"patch_size\":16,\"num_channels\":3,\"use_relative_position_b"
      "ias\":true,\"layer_scale_init_value\":0.1}",
      85763522, 85731902 },
    { "{\"model_type\":\"dinov3_vit\",\"architectures\":[\"DINOv3ViTModel\"],\"hidden_size\":1024,\"num_attention_heads\":16,\"num_hidd"
      "en_layers\":24,\"intermediate_size\":4096,\"image_size\":224,\"patch_size\":16,\"num_register_tokens\":4}",
      303129600, 303077378 },
    { "{\"model_type\":\"wav2vec2\",\"architectures\":[\"Wav2Vec2ForCTC\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num_hidden_"
      "layers\":12,\"intermediate_size\":3072,\"vocab_size\":32}",
      94396320, 94394912 },
    { "{\"model_type\":\"wav2vec2\",\"architectures\":[\"Wav2Vec2ForCTC\"],\"hidden_size\":1024,\"num_attention_heads\":16,\"num_hidden"
      "_layers\":24,\"intermediate_size\":4096,\"vocab_size\":33,\"do_stable_layer_norm\":true,\"feat_extract_norm\":\"layer\",\"conv_b"
      "ias\":true}",
      315472545, 315469857 },
    { "{\"model_type\":\"hubert\",\"architectures\":[\"HubertForCTC\"],\"hidden_size\":1024,\"num_attention_heads\":16,\"num_hidden_lay"
      "ers\":24,\"intermediate_size\":4096,\"vocab_size\":32,\"do_stable_layer_norm\":true,\"feat_extract_norm\":\"layer\",\"conv_bias"
      "\":true}",
      315471520, 315469856 },
    { "{\"model_type\":\"wavlm\",\"architectures\":[\"WavLMForCTC\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num_hidden_layers"
      "\":12,\"intermediate_size\":3072,\"vocab_size\":32}",
      94406544, 94394912 },
    { "{\"model_type\":\"wav2vec2\",\"architectures\":[\"Wav2Vec2ForCTC\"],\"hidden_size\":1280,\"num_attention_heads\":16,\"num_hidden"
      "_layers\":48,\"intermediate_size\":5120,\"vocab_size\":154,\"do_stable_layer_norm\":true,\"feat_extract_norm\":\"layer\",\"conv_"
      "bias\":true,\"adapter_attn_dim\":16}",
      964845850, 964844442 },
    { "{\"model_type\":\"aria_text\",\"architectures\":[\"AriaTextForCausalLM\"],\"hidden_size\":2560,\"intermediate_size\":1664,\"num_"
      "hidden_layers\":28,\"num_attention_heads\":20,\"num_key_value_heads\":20,\"head_dim\":128,\"vocab_size\":100352,\"moe_num_expert"
      "s\":64,\"moe_topk\":6,\"moe_num_shared_experts\":2,\"tie_word_embeddings\":false}",
      24869091840, 24869091840 },
    { "{\"model_type\":\"olmo_hybrid\",\"architectures\":[\"OlmoHybridForCausalLM\"],\"vocab_size\":100352,\"hidden_size\":3840,\"inter"
      "mediate_size\":11008,\"num_hidden_layers\":32,\"num_attention_heads\":30,\"num_key_value_heads\":30,\"linear_num_key_heads\":30,"
      "\"linear_num_value_heads\":30,\"linear_key_head_dim\":96,\"linear_value_head_dim\":192,\"linear_conv_kernel_dim\":4,\"layer_type"
      "s\":[\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\""
      ",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"lin"
      "ear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_"
      "attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_attent"
      "ion\",\"linear_attention\",\"linear_attention\",\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention"
      "\",\"full_attention\"],\"tie_word_embeddings\":false}",
      7430870688, 7430870688 },
    { "{\"model_type\":\"laguna\",\"architectures\":[\"LagunaForCausalLM\"],\"vocab_size\":100352,\"hidden_size\":2048,\"intermediate_s"
      "ize\":8192,\"num_hidden_layers\":40,\"num_attention_heads\":48,\"num_key_value_heads\":8,\"head_dim\":128,\"moe_intermediate_siz"
      "e\":512,\"shared_expert_intermediate_size\":512,\"num_experts_per_tok\":8,\"num_experts\":256,\"mlp_layer_types\":[\"dense\",\"s"
      "parse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\""
      ",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"spar"
      "se\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\""
      "sparse\",\"sparse\",\"sparse\",\"sparse\"],\"tie_word_embeddings\":false}",
      33189975808, 33186043648 },
    { "{\"model_type\":\"cohere2_moe\",\"architectures\":[\"Cohere2MoeForCausalLM\"],\"vocab_size\":256000,\"hidden_size\":8192,\"inter"
      "mediate_size\":22528,\"num_hidden_layers\":40,\"num_attention_heads\":64,\"num_key_value_heads\":8,\"head_dim\":128,\"num_expert"
      "s\":8,\"num_experts_per_tok\":2,\"sliding_window\":4096,\"tie_word_embeddings\":true}",
      185307308032, 185307308032 },
    { "{\"model_type\":\"led\",\"architectures\":[\"LEDForConditionalGeneration\"],\"vocab_size\":50265,\"d_model\":768,\"encoder_layer"
      "s\":6,\"decoder_layers\":6,\"encoder_ffn_dim\":3072,\"decoder_ffn_dim\":3072,\"encoder_attention_heads\":12,\"decoder_attention_"
      "heads\":12,\"max_encoder_position_embeddings\":16384,\"max_decoder_position_embeddings\":1024,\"tie_word_embeddings\":true}",
      161844480, 161837568 },
    { "{\"model_type\":\"mvp\",\"architectures\":[\"MvpForConditionalGeneration\"],\"vocab_size\":50267,\"d_model\":1024,\"encoder_laye"
      "rs\":12,\"decoder_layers\":12,\"encoder_ffn_dim\":4096,\"decoder_ffn_dim\":4096,\"encoder_attention_heads\":16,\"decoder_attenti"
      "on_heads\":16,\"max_position_embeddings\":1024,\"tie_word_embeddings\":true}",
      406293504, 406293504 },
    { "{\"model_type\":\"solar_open\",\"architectures\":[\"SolarOpenForCausalLM\"],\"vocab_size\":196608,\"hidden_size\":4096,\"num_hid"
      "den_layers\":48,\"num_attention_heads\":64,\"num_key_value_heads\":8,\"head_dim\":128,\"moe_intermediate_size\":1280,\"intermedi"
      "ate_size\":10240,\"num_experts_per_tok\":8,\"n_shared_experts\":1,\"n_routed_experts\":128,\"n_group\":1,\"topk_group\":1,\"tie_"
      "word_embeddings\":false}",
      102651793408, 102651799552 },
    { "{\"model_type\":\"layoutlm\",\"architectures\":[\"LayoutLMForMaskedLM\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num_hi"
      "dden_layers\":12,\"intermediate_size\":3072,\"vocab_size\":30522,\"max_position_embeddings\":512,\"type_vocab_size\":2,\"max_2d_"
      "position_embeddings\":1024,\"tie_word_embeddings\":true}",
      113250618, 113249850 },
    { "{\"model_type\":\"xlm\",\"architectures\":[\"XLMWithLMHeadModel\"],\"emb_dim\":1024,\"n_layers\":12,\"n_heads\":8,\"vocab_size\""
      ":95000,\"n_langs\":15,\"use_lang_emb\":true,\"max_position_embeddings\":512,\"tie_word_embeddings\":true}",
      249071384, 249071384 },
    { "{\"model_type\":\"flaubert\",\"architectures\":[\"FlaubertWithLMHeadModel\"],\"emb_dim\":768,\"n_layers\":12,\"n_heads\":12,\"vo"
      "cab_size\":68729,\"n_langs\":1,\"max_position_embeddings\":512,\"tie_word_embeddings\":true}",
      138301817, 138301817 },
    { "{\"model_type\":\"gte\",\"architectures\":[\"GteForMaskedLM\"],\"hidden_size\":768,\"num_attention_heads\":12,\"num_hidden_layer"
      "s\":12,\"intermediate_size\":3072,\"vocab_size\":250048,\"max_position_embeddings\":8192,\"type_vocab_size\":1,\"tie_word_embedd"
      "ings\":true}",
      306210496, 306201280 },
    { "{\"model_type\":\"bailing_hybrid\",\"architectures\":[\"BailingHybridForCausalLM\"],\"vocab_size\":157184,\"hidden_size\":2560,"
      "\"intermediate_size\":6144,\"moe_intermediate_size\":768,\"num_hidden_layers\":42,\"num_attention_heads\":32,\"num_key_value_hea"
      "ds\":32,\"num_shared_experts\":1,\"kv_lora_rank\":512,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"qk_nope_head_dim\":128,\"num_"
      "expert_group\":8,\"topk_group\":4,\"num_experts\":512,\"num_experts_per_token\":8,\"first_k_dense_replace\":2,\"layer_group_size"
      "\":6,\"linear_head_dim\":128,\"linear_num_heads\":32,\"tie_word_embeddings\":false}",
      124414191072, 124413615712 },
    /* Files as their makers wrote them, and the parameters that they publish. */
    { "{\"d_model\":768,\"n_layer\":24,\"vocab_size\":50277,\"ssm_cfg\":{},\"rms_norm\":true,\"pad_vocab_size_multiple\":8}",
      129135360, 129135360 },
    { "{\"d_model\":768,\"n_layer\":24,\"vocab_size\":50277,\"ssm_cfg\":{\"layer\":\"Mamba2\"},\"rms_norm\":true,\"pad_vocab_size_multi"
      "ple\":16,\"tie_embeddings\":true}",
      128989632, 128989632 },
    { "{\"activation_fn_name\":\"swish\",\"architectures\":[\"OpenELMForCausalLM\"],\"ffn_dim_divisor\":256,\"ffn_multipliers\":[0.5,0."
      "73,0.97,1.2,1.43,1.67,1.9,2.13,2.37,2.6,2.83,3.07,3.3,3.53,3.77,4.0],\"ffn_with_glu\":true,\"head_dim\":64,\"max_context_length"
      "\":2048,\"model_dim\":1280,\"model_type\":\"openelm\",\"normalize_qk_projections\":true,\"num_kv_heads\":[3,3,3,3,3,4,4,4,4,4,4,"
      "4,5,5,5,5],\"num_query_heads\":[12,12,12,12,12,16,16,16,16,16,16,16,20,20,20,20],\"num_transformer_layers\":16,\"rope_freq_const"
      "ant\":10000,\"share_input_output_layers\":true,\"vocab_size\":32000}",
      271527168, 271527168 },
    { "{\"activation_type\":\"swiglu\",\"architectures\":[\"OLMoForCausalLM\"],\"d_model\":4096,\"embedding_size\":50304,\"include_bias"
      "\":false,\"max_sequence_length\":2048,\"mlp_hidden_size\":22016,\"mlp_ratio\":4,\"model_type\":\"hf_olmo\",\"n_heads\":32,\"n_la"
      "yers\":32,\"vocab_size\":50280,\"weight_tying\":false}",
      6888095744, 6888361984 },
    { "{\"dim\":8192,\"ffn_dim_multiplier\":1.3,\"multiple_of\":4096,\"n_heads\":64,\"n_kv_heads\":8,\"n_layers\":80,\"norm_eps\":1e-05"
      ",\"vocab_size\":128256,\"rope_theta\":500000.0}",
      70553706496, 70553706496 },
    { "{\"dim\":4096,\"multiple_of\":256,\"n_heads\":32,\"n_layers\":32,\"norm_eps\":1e-05,\"vocab_size\":-1}",
      6738415616, 6738415616 },
    { "{\"dim\":4096,\"n_layers\":32,\"head_dim\":128,\"hidden_dim\":14336,\"n_heads\":32,\"n_kv_heads\":8,\"norm_eps\":1e-05,\"vocab_s"
      "ize\":32000,\"moe\":{\"num_experts_per_tok\":2,\"num_experts\":8}}",
      46702792704, 46702792704 },
    { "{\"model_type\":\"deepseek_v4\",\"architectures\":[\"DeepseekV4ForCausalLM\"],\"hidden_size\":4096,\"num_hidden_layers\":43,"
      "\"num_attention_heads\":64,\"num_key_value_heads\":1,\"head_dim\":512,\"q_lora_rank\":1024,\"o_lora_rank\":1024,\"o_groups\":8"
      ",\"qk_rope_head_dim\":64,\"n_routed_experts\":256,\"num_experts_per_tok\":6,\"n_shared_experts\":1,\"moe_intermediate_size\":2"
      "048,\"vocab_size\":129280,\"max_position_embeddings\":4096,\"compress_ratios\":[0,0,4,128,4,128,4,128,4,128,4,128,4,128,4,128,"
      "4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4],\"hc_mult\":4,\"index_n_heads\":64,\"index_he"
      "ad_dim\":128,\"index_topk\":512,\"sliding_window\":128,\"tie_word_embeddings\":false}",
      284332230231, 284331965751 },
    { "{\"model_type\":\"clip_vision_model\",\"architectures\":[\"CLIPVisionModel\"],\"hidden_size\":768,\"intermediate_size\":3072"
      ",\"num_hidden_layers\":12,\"num_attention_heads\":12,\"image_size\":224,\"patch_size\":32}",
      87456000, 87457538 },
    { "{\"model_type\":\"clip_vision_model\",\"architectures\":[\"CLIPVisionModel\"],\"hidden_size\":1024,\"intermediate_size\":409"
      "6,\"num_hidden_layers\":24,\"num_attention_heads\":16,\"image_size\":336,\"patch_size\":14}",
      303507456, 303509506 },
    { "{\"model_type\":\"siglip_vision_model\",\"architectures\":[\"SiglipVisionModel\"],\"hidden_size\":768,\"intermediate_size\":"
      "3072,\"num_hidden_layers\":12,\"num_attention_heads\":12,\"image_size\":224,\"patch_size\":16}",
      92884224, 92886530 },
    { "{\"model_type\":\"siglip_vision_model\",\"architectures\":[\"SiglipVisionModel\"],\"hidden_size\":1152,\"intermediate_size\""
      ":4304,\"num_hidden_layers\":27,\"num_attention_heads\":16,\"image_size\":384,\"patch_size\":14}",
      428225600, 428229058 },
    { "{\"model_type\":\"longt5\",\"architectures\":[\"LongT5ForConditionalGeneration\"],\"d_model\":768,\"num_layers\":12,\"num_de"
      "coder_layers\":12,\"num_heads\":12,\"d_kv\":64,\"d_ff\":2048,\"vocab_size\":32128,\"feed_forward_proj\":\"gated-gelu\",\"encod"
      "er_attention_type\":\"local\",\"n_positions\":4096,\"tie_word_embeddings\":true}",
      222903552, 222903552 },
    { "{\"model_type\":\"longt5\",\"architectures\":[\"LongT5ForConditionalGeneration\"],\"d_model\":1024,\"num_layers\":24,\"num_d"
      "ecoder_layers\":24,\"num_heads\":16,\"d_kv\":64,\"d_ff\":2816,\"vocab_size\":32128,\"feed_forward_proj\":\"gated-gelu\",\"enco"
      "der_attention_type\":\"transient-global\",\"n_positions\":4096,\"tie_word_embeddings\":true}",
      750276096, 750251008 },
    { "{\"model_type\":\"longcat_flash\",\"architectures\":[\"LongcatFlashForCausalLM\"],\"hidden_size\":6144,\"num_layers\":28,\"f"
      "fn_hidden_size\":12288,\"expert_ffn_hidden_size\":2048,\"n_routed_experts\":512,\"zero_expert_num\":0,\"moe_topk\":12,\"num_at"
      "tention_heads\":64,\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":1"
      "28,\"vocab_size\":131072,\"max_position_embeddings\":131072,\"tie_word_embeddings\":false}",
      560620918784, 560620918784 },
    { "{\"model_type\":\"dinov2\",\"architectures\":[\"Dinov2ForImageClassification\"],\"hidden_size\":768,\"num_attention_heads\":"
      "12,\"num_hidden_layers\":12,\"mlp_ratio\":4,\"image_size\":518,\"patch_size\":14,\"id2label\":{\"0\":\"a\"}}",
      86582017, 86562049 },
    { "{\"model_type\":\"beam\",\"architectures\":[\"BeamForCausalLM\"],\"attention_bias\":false,\"final_logit_softcapping\":"
      "30.0,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":5120,\"intermediate_size\":20480,\"layer_types\":[\"slid"
      "ing_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"full_attenti"
      "on\"],\"max_position_embeddings\":8192,\"mlp_layer_types\":[\"dense\",\"dense\",\"dense\",\"sparse\",\"sparse\",\"spar"
      "se\"],\"moe_intermediate_size\":2560,\"n_group\":8,\"norm_topk_prob\":true,\"num_attention_heads\":48,\"num_experts\":"
      "256,\"num_experts_per_tok\":8,\"num_hidden_layers\":6,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-06,\"rope_paramete"
      "rs\":{\"full_attention\":null,\"sliding_attention\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"}},\"routed_scali"
      "ng_factor\":2.5,\"sliding_window\":512,\"tie_word_embeddings\":false,\"topk_group\":4,\"vocab_size\":151936}",
      33331739424, 33331739904 },
    { "{\"model_type\":\"lfm2_moe\",\"architectures\":[\"Lfm2MoeForCausalLM\"],\"conv_L_cache\":3,\"conv_bias\":false,\"hidde"
      "n_size\":2048,\"intermediate_size\":7168,\"layer_types\":[\"conv\",\"conv\",\"full_attention\",\"conv\",\"conv\",\"con"
      "v\",\"full_attention\",\"conv\",\"conv\",\"conv\",\"full_attention\",\"conv\",\"conv\",\"conv\",\"full_attention\",\"c"
      "onv\",\"conv\",\"conv\",\"full_attention\",\"conv\",\"conv\",\"conv\",\"full_attention\",\"conv\"],\"max_position_embe"
      "ddings\":128000,\"moe_intermediate_size\":1792,\"norm_eps\":1e-05,\"norm_topk_prob\":true,\"num_attention_heads\":32,"
      "\"num_dense_layers\":2,\"num_experts\":32,\"num_experts_per_tok\":4,\"num_hidden_layers\":24,\"num_key_value_heads\":8"
      ",\"rope_parameters\":{\"rope_theta\":1000000.0,\"rope_type\":\"default\"},\"routed_scaling_factor\":1.0,\"tie_word_emb"
      "eddings\":true,\"use_expert_bias\":true,\"vocab_size\":65536}",
      8339929856, 8339819968 },
    { "{\"model_type\":\"lfm3\",\"architectures\":[\"Lfm3ForCausalLM\"],\"attention_bias\":false,\"conv_L_cache\":7,\"conv_bi"
      "as\":false,\"head_dim\":128,\"hidden_size\":2048,\"intermediate_size\":7680,\"layer_types\":[\"conv\",\"conv\",\"full_"
      "attention\",\"conv\",\"sliding_attention\",\"conv\",\"full_attention\",\"conv\"],\"max_position_embeddings\":128000,\""
      "norm_eps\":1e-05,\"num_attention_heads\":16,\"num_hidden_layers\":8,\"num_key_value_heads\":4,\"rope_parameters\":{\"f"
      "ull_attention\":{\"partial_rotary_factor\":0.5,\"rope_theta\":1000000.0,\"rope_type\":\"proportional\"},\"sliding_atte"
      "ntion\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"}},\"sliding_window\":256,\"tie_word_embeddings\":true,\"use_"
      "attention_gate\":true,\"use_sandwich_norm\":true,\"vocab_size\":128000}",
      755213056, 755043072 },
    { "{\"model_type\":\"diffllama\",\"architectures\":[\"DiffLlamaForCausalLM\"],\"attention_bias\":false,\"head_dim\":64,\""
      "hidden_act\":\"silu\",\"hidden_size\":2048,\"intermediate_size\":8192,\"lambda_std_dev\":0.1,\"max_position_embeddings"
      "\":2048,\"num_attention_heads\":32,\"num_hidden_layers\":16,\"num_key_value_heads\":32,\"rms_norm_eps\":1e-05,\"rope_p"
      "arameters\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"},\"tie_word_embeddings\":false,\"vocab_size\":32000}",
      1204885504, 1204881408 },
    { "{\"model_type\":\"doge\",\"architectures\":[\"DogeForCausalLM\"],\"attention_bias\":false,\"hidden_act\":\"silu\",\"hi"
      "dden_size\":1024,\"intermediate_size\":2048,\"is_moe\":false,\"max_position_embeddings\":2048,\"mlp_bias\":false,\"nor"
      "m_topk_prob\":false,\"num_attention_heads\":8,\"num_experts\":16384,\"num_experts_per_tok\":64,\"num_hidden_layers\":3"
      "2,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_type\":\"default"
      "\"},\"router_aux_loss_coef\":0.001,\"tie_word_embeddings\":false,\"vocab_size\":32768}",
      403055872, 402727936 },
    { "{\"model_type\":\"hy_v4\",\"architectures\":[\"HYV4ForCausalLM\"],\"attention_bias\":false,\"hc_mult\":4,\"head_dim\":"
      "64,\"hidden_act\":\"silu\",\"hidden_size\":2816,\"index_head_dim\":128,\"index_n_heads\":16,\"indexer_types\":[\"full"
      "\",\"full\",\"shared\",\"shared\",\"shared\",\"full\"],\"intermediate_size\":6912,\"kv_lora_rank\":512,\"layer_types\""
      ":[\"indexed_attention\",\"indexed_attention\",\"indexed_attention\",\"indexed_attention\",\"indexed_attention\",\"inde"
      "xed_attention\"],\"max_position_embeddings\":262144,\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\",\"sparse\",\""
      "sparse\",\"sparse\"],\"moe_intermediate_size\":768,\"n_group\":1,\"n_routed_experts\":256,\"n_shared_experts\":1,\"nor"
      "m_topk_prob\":true,\"num_attention_heads\":32,\"num_experts_per_tok\":8,\"num_hidden_layers\":6,\"num_key_value_heads"
      "\":32,\"q_lora_rank\":1536,\"qk_head_dim\":256,\"qk_nope_head_dim\":192,\"qk_rope_head_dim\":64,\"rms_norm_eps\":1e-05"
      ",\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"},\"routed_scaling_factor\":2.827,\"swiglu_limit"
      "\":10.0,\"tie_word_embeddings\":false,\"topk_group\":1,\"v_head_dim\":256,\"vocab_size\":120832}",
      9523561277, 9523552256 },
    { "{\"model_type\":\"axk2\",\"architectures\":[\"AXK2ForCausalLM\"],\"attention_bias\":false,\"gated_norm_rank\":16,\"hea"
      "d_dim\":32,\"hidden_act\":\"silu\",\"hidden_size\":2048,\"index_head_dim\":128,\"index_n_heads\":16,\"intermediate_siz"
      "e\":5120,\"kv_lora_rank\":128,\"layer_types\":[\"indexed_attention\",\"indexed_attention\",\"indexed_attention\",\"ind"
      "exed_attention\"],\"max_position_embeddings\":131072,\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\",\"sparse\"],"
      "\"moe_intermediate_size\":512,\"n_routed_experts\":128,\"n_shared_experts\":1,\"norm_topk_prob\":true,\"num_attention_"
      "heads\":32,\"num_experts_per_tok\":8,\"num_hidden_layers\":4,\"num_key_value_heads\":32,\"q_lora_rank\":384,\"qk_head_"
      "dim\":96,\"qk_nope_head_dim\":64,\"qk_rope_head_dim\":32,\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"rope_theta\":10"
      "000.0,\"rope_type\":\"default\"},\"routed_scaling_factor\":2.5,\"tie_word_embeddings\":false,\"v_head_dim\":64,\"vocab"
      "_size\":163840}",
      1964594176, 1964650880 },
    { "{\"model_type\":\"dots3_note_text\",\"architectures\":[\"Dots3NoteForCausalLM\"],\"attention_bias\":false,\"head_dim\""
      ":256,\"hidden_act\":\"silu\",\"hidden_size\":5120,\"index_head_dim\":128,\"index_n_heads\":64,\"intermediate_size\":13"
      "824,\"kv_lora_rank\":512,\"layer_types\":[\"indexed_attention\",\"indexed_attention\",\"sliding_attention\",\"sliding_"
      "attention\"],\"max_position_embeddings\":524288,\"mlp_bias\":false,\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse"
      "\",\"sparse\"],\"moe_intermediate_size\":1536,\"n_group\":1,\"n_routed_experts\":256,\"n_shared_experts\":1,\"norm_top"
      "k_prob\":true,\"num_attention_heads\":128,\"num_experts_per_tok\":8,\"num_hidden_layers\":4,\"num_key_value_heads\":12"
      "8,\"per_layer_config\":{\"2\":{\"kv_lora_rank\":1024,\"num_attention_heads\":64,\"num_key_value_heads\":64,\"qk_nope_h"
      "ead_dim\":192},\"3\":{\"kv_lora_rank\":1024,\"num_attention_heads\":64,\"num_key_value_heads\":64,\"qk_nope_head_dim\""
      ":192}},\"q_lora_rank\":1024,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"rms_norm_eps\":1e-05,\"rope_parameters"
      "\":{\"indexed_attention\":{\"partial_rotary_factor\":0.25,\"rope_theta\":80000000.0,\"rope_type\":\"default\"},\"slidi"
      "ng_attention\":{\"partial_rotary_factor\":0.25,\"rope_theta\":50000.0,\"rope_type\":\"default\"}},\"routed_scaling_fac"
      "tor\":1.0,\"shared_experts_intermediate_size\":1536,\"sliding_window\":512,\"tie_word_embeddings\":false,\"topk_group"
      "\":1,\"v_head_dim\":128,\"vocab_size\":152064}",
      20433392384, 20431422208 },
    { "{\"model_type\":\"qwen4_exp_text\",\"architectures\":[\"Qwen4ExpForCausalLM\"],\"attention_bias\":false,\"hc_count\":4"
      ",\"hc_lowrank\":320,\"head_dim\":256,\"hidden_act\":\"silu\",\"hidden_size\":2048,\"indexer_head_dim\":256,\"indexer_k"
      "v_heads\":1,\"indexer_n_heads\":16,\"layer_types\":[\"linear_attention\",\"linear_attention\",\"linear_attention\",\"i"
      "ndexed_attention\"],\"linear_conv_kernel_dim\":4,\"linear_key_head_dim\":128,\"linear_num_key_heads\":16,\"linear_num_"
      "value_heads\":32,\"linear_value_head_dim\":128,\"max_position_embeddings\":32768,\"moe_intermediate_size\":512,\"norm_"
      "topk_prob\":true,\"num_attention_heads\":16,\"num_experts\":512,\"num_experts_per_tok\":10,\"num_hidden_layers\":4,\"n"
      "um_key_value_heads\":2,\"ple_layer_ids\":[],\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_"
      "type\":\"default\"},\"router_aux_loss_coef\":0.001,\"shared_expert_intermediate_size\":512,\"tie_word_embeddings\":fal"
      "se,\"vocab_size\":248320}",
      7661209152, 7661206592 },
    { "{\"model_type\":\"jetmoe\",\"architectures\":[\"JetMoeForCausalLM\"],\"activation_function\":\"silu\",\"aux_loss_coef"
      "\":0.01,\"hidden_size\":2048,\"intermediate_size\":5632,\"kv_channels\":128,\"max_position_embeddings\":4096,\"num_att"
      "ention_heads\":32,\"num_experts_per_tok\":2,\"num_hidden_layers\":12,\"num_key_value_heads\":16,\"num_local_experts\":"
      "8,\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"},\"tie_word_embeddings"
      "\":true,\"vocab_size\":32000}",
      4293888000, 4293666816 },
    { "{\"model_type\":\"zaya\",\"architectures\":[\"ZayaForCausalLM\"],\"attention_bias\":false,\"cca_time0\":2,\"cca_time1"
      "\":2,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":2048,\"layer_types\":[\"hybrid\",\"hybrid\",\"hybrid\","
      "\"hybrid\"],\"lm_head_bias\":false,\"max_position_embeddings\":131072,\"moe_intermediate_size\":2048,\"num_attention_h"
      "eads\":8,\"num_experts\":16,\"num_experts_per_tok\":1,\"num_hidden_layers\":4,\"num_key_value_heads\":2,\"rms_norm_eps"
      "\":1e-05,\"rope_parameters\":{\"hybrid\":{\"partial_rotary_factor\":0.5,\"rope_theta\":5000000.0,\"rope_type\":\"defau"
      "lt\"},\"hybrid_sliding\":{\"partial_rotary_factor\":0.5,\"rope_theta\":10000.0,\"rope_type\":\"default\"}},\"router_hi"
      "dden_size\":256,\"tie_word_embeddings\":true,\"vocab_size\":262272}",
      1367473928, 1367468032 },
    { "{\"model_type\":\"inkling_text\",\"architectures\":[\"InklingForCausalLM\"],\"conv_kernel_size\":4,\"d_rel\":16,\"head"
      "_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":6144,\"intermediate_size\":24576,\"layer_types\":[\"hybrid_sliding"
      "\",\"hybrid_sliding\",\"hybrid_sliding\",\"hybrid_sliding\",\"hybrid_sliding\",\"hybrid\"],\"logits_mup_width_multipli"
      "er\":24.0,\"max_position_embeddings\":131072,\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\",\"sparse\",\"sparse"
      "\",\"sparse\"],\"moe_intermediate_size\":3072,\"n_routed_experts\":256,\"n_shared_experts\":2,\"num_attention_heads\":"
      "64,\"num_experts_per_tok\":6,\"num_hidden_layers\":6,\"num_key_value_heads\":8,\"rel_extent\":1024,\"rms_norm_eps\":1e"
      "-06,\"route_scale\":8.0,\"shared_expert_sink\":true,\"sliding_window_size\":512,\"swa_head_dim\":128,\"swa_num_attenti"
      "on_heads\":64,\"swa_num_key_value_heads\":16,\"vocab_size\":201024}",
      76755568134, 76755581696 },
    { "{\"model_type\":\"dory\",\"architectures\":[\"DoryForCausalLM\"],\"attention_bias\":false,\"head_dim\":256,\"hidden_ac"
      "t\":\"silu\",\"hidden_size\":2560,\"intermediate_size\":7168,\"layer_types\":[\"sliding_attention\",\"mlp\",\"sliding_"
      "attention\",\"mlp\",\"sliding_attention\",\"mlp\",\"full_attention\",\"mlp\",\"sliding_attention\",\"mlp\",\"sliding_a"
      "ttention\",\"mlp\",\"sliding_attention\",\"mlp\",\"full_attention\",\"mlp\",\"sliding_attention\",\"mlp\",\"sliding_at"
      "tention\",\"mlp\",\"sliding_attention\",\"mlp\",\"full_attention\",\"mlp\",\"sliding_attention\",\"mlp\",\"sliding_att"
      "ention\",\"mlp\",\"sliding_attention\",\"mlp\",\"full_attention\",\"mlp\",\"sliding_attention\",\"mlp\",\"sliding_atte"
      "ntion\",\"mlp\"],\"max_position_embeddings\":8192,\"mlp_bias\":false,\"n_input_layers\":8,\"n_output_layers\":8,\"n_re"
      "current_layers\":20,\"n_recurrent_loops\":2,\"num_attention_heads\":16,\"num_hidden_layers\":36,\"num_key_value_heads"
      "\":4,\"rope_parameters\":{\"full_attention\":{\"rope_theta\":10000000.0,\"rope_type\":\"default\"},\"sliding_attention"
      "\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"}},\"sliding_window\":1024,\"tie_word_embeddings\":false,\"vocab_s"
      "ize\":131072}",
      2323224576, 2322791936 },
    { "{\"model_type\":\"hrm_text\",\"architectures\":[\"HrmTextForCausalLM\"],\"H_cycles\":2,\"L_cycles\":3,\"attention_bias"
      "\":false,\"embedding_scale\":50.0,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":1536,\"intermediate_size\":"
      "4096,\"max_position_embeddings\":2048,\"mlp_bias\":false,\"num_attention_heads\":12,\"num_hidden_layers\":128,\"num_la"
      "yers_per_stack\":16,\"rms_norm_eps\":1e-06,\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_type\":\"default\"},\"ti"
      "e_word_embeddings\":false,\"vocab_size\":151808}",
      1447822848, 1447921152 },
    { "{\"model_type\":\"lfm2\",\"architectures\":[\"Lfm2ForCausalLM\"],\"hidden_size\":2560,\"intermediate_size\":12288,\"num_attention_hea"
      "ds\":32,\"num_key_value_heads\":8,\"num_hidden_layers\":8,\"vocab_size\":65536,\"conv_bias\":true,\"conv_L_cache\":3,\"full_attn_idx"
      "s\":[2,5],\"tie_word_embeddings\":true}",
      861309760, 861248320 },
};
/* clang-format on */
#endif
