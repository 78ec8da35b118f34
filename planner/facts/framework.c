/* The JSON form of a framework. */
#include "planner/facts/framework.h"
#include "base/json.h"
#include "base/num.h"
#include "models/operators.h"

#define AT(member) offsetof(struct framework, member)
#define ISSUE_NS .min = 0, .max = 1e9
#define CAST_BYTES .min = 0, .max = 100
static const char *const waits_names[] = { "nothing", "messages", "all", "gathers", NULL };
static const char *const narrow_names[] = {
    [NARROW_NONE] = "none", [NARROW_FP16] = "fp16", [NARROW_ALL] = "all", NULL
};
static const struct json_field table[] = {
    { "name", FIELD_STRING, AT(name), .doc = "the framework's name; the file's name when absent" },
    { "description", FIELD_STRING, AT(description), .required = true, .doc = "what it is, for people" },
    { "source", FIELD_STRING, AT(source), .required = true, .doc = "where each number comes from" },
    { "like", FIELD_STRING, AT(like),
      .doc = "the framework whose numbers hold where this file has none; that one may not name another" },
    { "from_memory", FIELD_STRING, AT(from_memory), .doc = "the numbers that were not seen in a source" },
    { "superseded_by", FIELD_STRING, AT(superseded_by),
      .doc = "the framework that has what is released today, where this one is of years ago" },
    { "issue_kernel_ns", FIELD_INT, AT(issue_kernel_ns), ISSUE_NS,
      .doc = "time of the host to issue one computation, with all kernels that it is made of; a device that is faster "
             "waits. Absent: the device never waits for the host" },
    { "issue_transfer_ns", FIELD_INT, AT(issue_transfer_ns), ISSUE_NS, .doc = "likewise, one transfer" },
    { "issue_rank_ns", FIELD_INT, AT(issue_rank_ns), ISSUE_NS,
      .doc = "likewise, for each rank of a collective's group, where the host lists their parts; absent: nothing" },
    { "issue_experts_ns", FIELD_INT, AT(issue_experts_ns), ISSUE_NS,
      .doc =
          "likewise, the dispatch of tokens to experts with all that depends on how many each of them gets; forward, "
          "the host waits until it knows. Absent: as any computation, and it does not wait" },
    { "issue_expert_ns", FIELD_INT, AT(issue_expert_ns), ISSUE_NS,
      .doc = "and, beside that, for each of the rank's experts, whose products are issued apart; absent: nothing" },
    { "dispatches_once", FIELD_BOOL, AT(dispatches_once),
      .doc = "a token is sent once to each node, and there to each rank, with one of its experts; absent: to each "
             "expert" },
    { "exchanges_at_once", FIELD_INT, AT(exchanges_at_once), .min = 1, .max = 65536,
      .doc = "other ranks with which a rank has messages of an all-to-all under way at once; absent: 1" },
    { "host_updates_per_s", FIELD_DOUBLE, AT(host_updates_per_s), .min = 1, .max = 1e15,
      .doc = "weights' elements a second that a host updates for all its devices, where the optimizer's state lies "
             "there; absent: each device fetches and updates it" },
    { "passes", FIELD_DOUBLE, AT(passes), .min = 1, .max = 100,
      .doc = "bytes that element-wise work and norms move, over those of one fused kernel; absent: 1" },
    { "unpadded_products", FIELD_DOUBLE, AT(unpadded_products), .min = 1, .max = 100,
      .doc =
          "how many times as long the head's products take where rows of the vocabulary are no multiple of 16 bytes (8 "
          "words in 16 bit), since the framework does not pad it; absent: 1, it pads" },
    { "host_waits_for", FIELD_ENUM, AT(host_waits), .names = waits_names,
      .doc =
          "what the host waits for: a message before it issues what reads it, or each computation, too "
          "(CUDA_LAUNCH_BLOCKING=1), or all of the device before it issues a gather; absent: nothing, it runs ahead" },
    { "attention_flops_per_s", FIELD_DOUBLE, AT(attention_flops_per_s), .min = 1, .max = 1e24,
      .doc = "the most that its fused attention reaches on any device; absent: the device's own efficiencies alone" },
    { "attention_efficiency", FIELD_DOUBLE, AT(attention_efficiency), .min = 0.01, .max = 1,
      .doc = "likewise, of the device's peak" },
    { "attends_by_flash2", FIELD_BOOL, AT(attends_by_flash2),
      .doc = "attention is FlashAttention-2 where the device has no kernels that PyTorch puts before it" },
    { "attention_tile", FIELD_INT, AT(attention_tile), .min = 0, .max = 65536,
      .doc =
          "queries and keys that its attention computes at once: a sliding window takes so many keys more; absent: 0" },
    { "attention_head_width", FIELD_INT, AT(attention_head_width), .min = 0, .max = 65536,
      .doc =
          "w, where its attention reaches for heads narrower than 128, of width d, (d / (d + w)) / (128 / (128 + w)) "
          "of what it does for 128; absent: the same for all widths" },
    { "compute_beside_transfers", FIELD_DOUBLE, AT(compute_beside_transfers), .min = 1, .max = 100,
      .doc = "slow-down of computations while a collective runs beside them; absent: 1, unless a profile has one" },
    { "transfers_beside_compute", FIELD_DOUBLE, AT(transfers_beside_compute), .min = 1, .max = 100,
      .doc = "likewise of collectives" },
    { "cast_input_forward_bytes", FIELD_INT, AT(cast.input_forward), CAST_BYTES,
      .doc =
          "that converting the input of a product in fp8 or nvfp4 moves for each element, before the product; absent: "
          "none, the kernel that makes it writes it so" },
    { "cast_weight_forward_bytes", FIELD_INT, AT(cast.weight_forward), CAST_BYTES, .doc = "likewise, of its weight" },
    { "cast_weight_backward_bytes", FIELD_INT, AT(cast.weight_backward), CAST_BYTES,
      .doc = "likewise, of its weight before the product that makes the input's gradient" },
    { "cast_input_backward_bytes", FIELD_INT, AT(cast.input_backward), CAST_BYTES,
      .doc = "likewise, of its input before the product that makes the weight's gradient" },
    { "cast_gradient_bytes", FIELD_INT, AT(cast.gradient), CAST_BYTES,
      .doc = "likewise, of the output's gradient, by rows and by columns; absent: 4, read once and written twice" },
    { "recomputes_blocks", FIELD_BOOL, AT(recomputes_blocks), .doc = "full recomputation is of whole blocks" },
    { "repeats_what_is_read", FIELD_BOOL, AT(keeping.repeats_what_is_read),
      .doc =
          "and stops once all that the backward pass reads is there: a block's last product is not repeated; absent: "
          "the whole forward pass is" },
    { "selective_keeps", FIELD_STRING, AT(selective_keeps),
      .doc = "selective recomputation is of whole blocks but for these operators, such as q+v+core, whose outputs are "
             "kept; absent: of attention" },
    { "loss_forward_bytes", FIELD_INT, AT(loss_forward_bytes), .min = 0, .max = 1000,
      .doc = "that the loss moves for each logit forward, beside what a fused one does; absent: it is fused" },
    { "loss_backward_bytes", FIELD_INT, AT(loss_backward_bytes), .min = 0, .max = 1000, .doc = "likewise backward" },
    { "clamp_forward_bytes", FIELD_INT, AT(clamp.forward), .min = 0, .max = 1000,
      .doc =
          "that a clamped SwiGLU moves forward for each element that it gives, beside what a fused one does; absent: "
          "it is fused" },
    { "clamp_backward_bytes", FIELD_INT, AT(clamp.backward), .min = 0, .max = 1000, .doc = "likewise backward" },
    { "expert_bias_forward_bytes", FIELD_INT, AT(expert_bias.forward), .min = 0, .max = 1000,
      .doc = "that adding the bias behind experts' last products moves forward for each element of these, beside what "
             "one pass does; absent: it is one pass" },
    { "expert_bias_backward_bytes", FIELD_INT, AT(expert_bias.backward), .min = 0, .max = 1000,
      .doc = "likewise backward" },
    { "adapter_scale_forward_bytes", FIELD_INT, AT(adapter_scale.forward), .min = 0, .max = 1000,
      .doc = "that scaling what adapters give moves forward for each element; absent: their products do" },
    { "adapter_scale_backward_bytes", FIELD_INT, AT(adapter_scale.backward), .min = 0, .max = 1000,
      .doc = "likewise backward" },
    { "loss_keeps_fp32", FIELD_BOOL, AT(loss_keeps_fp32),
      .doc = "probabilities of all logits are kept in fp32 until backward; absent: they are not" },
    { "stores_scores", FIELD_BOOL, AT(stores_scores), .doc = "attention keeps its scores until backward" },
    { "eager_caps", FIELD_BOOL, AT(keeping.eager_caps),
      .doc = "attention with a soft cap of its scores is not fused: it keeps them until backward; absent: it is" },
    { "eager_sinks", FIELD_BOOL, AT(keeping.eager_sinks), .doc = "likewise, attention with sinks" },
    { "eager_alibi", FIELD_BOOL, AT(keeping.eager_alibi), .doc = "likewise, attention with ALiBi" },
    { "drops_adapters", FIELD_BOOL, AT(keeping.drops_adapters),
      .doc = "where a model's adapters drop some of what they read (lora_dropout), each reads and keeps a copy of its "
             "own, with a mask; absent: they share it" },
    { "eager_norms", FIELD_BOOL, AT(keeping.eager_norms),
      .doc =
          "RMS norms are not fused: they keep their input in fp32 and what is scaled, in the plan's dtype (those that "
          "scale in fp32, of Gemma and gpt-oss, keep 2 bytes of an element more); absent: they are one kernel" },
    { "eager_gates", FIELD_BOOL, AT(keeping.eager_gates),
      .doc = "likewise, and gated activations the activated gate, where clamped (gpt-oss) four such values" },
    { "bucket_bytes", FIELD_INT, AT(bucket_bytes), .min = 1, .max = 1e15,
      .doc = "the bucket that plans have where none is asked for: weights and gradients of one layer go together up to "
             "so many bytes; absent: that of any plan" },
    { "buffers_bytes", FIELD_INT, AT(buffers_bytes), .min = 0, .max = 1e12,
      .doc = "memory of each device that it holds beside tensors: buckets, staging; absent: none" },
    { "narrow_gradients", FIELD_ENUM, AT(keeping.narrow_gradients), .names = narrow_names,
      .doc =
          "in which dtypes gradients of weights are added up and reduced in 16 bit: fp16, or all narrow ones; absent: "
          "none, they are in fp32" },
    { "bf16_gradient_bytes", FIELD_INT, AT(keeping.bf16_gradient_bytes), .min = 0, .max = 8,
      .doc = "under bf16, kept by ZeRO for each element of a weight beside the accumulator of its gradient; absent: "
             "nothing" },
    { "fp16_step_bytes", FIELD_INT, AT(keeping.fp16_step_bytes), .min = 0, .max = 16,
      .doc = "under fp16, copies of gradients that ZeRO's step makes for each element of a rank's share of the state; "
             "absent: none" },
    { "bf16_state_gradient_bytes", FIELD_INT, AT(keeping.bf16_state_gradient_bytes), .min = 0, .max = 8,
      .doc = "under bf16, kept for each element of a rank's share of the optimizer's state, its gradient; absent: "
             "nothing" },
    { "loss_copies_logits", FIELD_BOOL, AT(keeping.loss_copies_logits),
      .doc = "forward the loss has a copy of the logits in fp32 beside what it keeps; absent: it has none" },
    { "loss_backward_copies", FIELD_INT, AT(keeping.loss_backward_copies), .min = 0, .max = 8,
      .doc = "backward the loss has so many copies of the logits in fp32 beside what it keeps; absent: none" },
    { "loss_sharded_copies", FIELD_INT, AT(keeping.loss_sharded_copies), .min = 0, .max = 8,
      .doc = "and so many more where ranks share out the vocabulary; absent: none" },
    { "routes_tokens", FIELD_BOOL, AT(keeping.routes_tokens),
      .doc =
          "Mixtures of experts that drop no token route each by itself: ranks that share out a sequence send their own "
          "tokens, as many as were chosen. Absent: a sequence's tokens are routed together, into slots that are sent "
          "full or empty." },
    { "gates_inside", FIELD_BOOL, AT(keeping.gates_inside),
      .doc = "what experts give is weighted before their last product, whose outputs are not kept then; absent: behind "
             "it" },
    { "keeps_fp8", FIELD_BOOL, AT(keeping.keeps_fp8),
      .doc = "under fp8, what products alone read is written, gathered and kept in fp8 until backward; absent: in 16 "
             "bit" },
    { "overlaps_experts", FIELD_BOOL, AT(keeping.overlaps_experts),
      .doc =
          "a forward pass and the backward pass of another micro-batch behind it take turns at each exchange of "
          "experts' tokens, which the other's computations hide (DeepSeek-AI 2024, section 3.2.1); absent: one after "
          "the other" },
    { "state_takes_gradients", FIELD_BOOL, AT(keeping.state_takes_gradients),
      .doc = "where the optimizer's state lies on the host, gradients that are not reduced in buckets do so, too, as "
             "ZeRO-Offload keeps them (Ren et al. 2021); absent: only where the weights lie there" },
    { "reduces_in_place", FIELD_BOOL, AT(keeping.reduces_in_place),
      .doc = "under ZeRO 1, fp32 gradients are reduced to a part of the buffer that they are in; absent: beside it" },
    { "scatters_messages", FIELD_BOOL, AT(keeping.scatters_messages),
      .doc =
          "what ranks hold alike goes to other stages in parts (Narayanan et al. 2021, section 4.1); absent: whole" },
    { "gathers_again", FIELD_BOOL, AT(keeping.gathers_again),
      .doc = "what ranks gather of an input they do not keep but gather again backward, as sequence parallelism does "
             "(Korthikanti et al. 2022, section 4.2.2); absent: they keep it" },
};

const struct framework framework_own = {
    .exchanges_at_once = 1,
    .passes = 1,
    .unpadded_products = 1,
    .compute_beside_transfers = 1,
    .transfers_beside_compute = 1,
    .cast.gradient = 4,
    .hash = HASH_START,
};

int64_t framework_aligned_vocabulary(enum dtype dtype)
{
    enum { ALIGNED_BYTES = 16 };
    return ALIGNED_BYTES / element_bytes(dtype, ELEMENT_ACTIVATION);
}

double framework_unpadded(const struct framework *framework, int64_t vocabulary, enum dtype dtype)
{
    enum { FEW_WORDS = 1024 };
    bool unaligned = vocabulary >= FEW_WORDS && vocabulary % framework_aligned_vocabulary(dtype) != 0;
    return framework && unaligned ? framework->unpadded_products : 1;
}

const struct json_format framework_formats[] = {
    JSON_FORMAT("framework", table, "A framework of the catalogue, or of a file that `--framework` names."),
    { 0 },
};

bool framework_read(struct framework *out, struct arena *arena, const char *name, const char *text, size_t length,
                    const struct framework *like, struct error *err)
{
    struct framework framework = framework_own;
    struct json_doc *doc;
    if (like)
        framework = *like;
    framework.name = name;
    framework.like = framework.from_memory = framework.superseded_by = NULL;
    framework.hash = hash_bytes(framework.hash, text, length);
    if (!json_parse(&doc, name, text, length, err))
        return false;
    bool good = json_read_fields(json_root(doc), table, sizeof table / sizeof *table, &framework, arena, err);
    json_free(doc);
    if (good && framework.selective_keeps && !operators_read(&framework.kept_operators, framework.selective_keeps))
        good = fail(err, "%s: selective_keeps: expected operators joined by +, such as q+k+v, found \"%s\"", name,
                    framework.selective_keeps);
    if (good && !(framework.name = arena_strdup(arena, framework.name)))
        good = fail_memory(err);
    if (good)
        *out = framework;
    return good;
}
