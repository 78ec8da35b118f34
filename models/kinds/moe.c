/* A mixture of experts over groups of tokens that the description fixes: what an expert can take of a group, which
 * choices are dropped and the auxiliary loss do not depend on how a plan splits the batch or the sequence. */
#include "base/num.h"
#include "models/kinds/feed_forward.h"
#include "models/kinds/norm.h"
#include "models/model.h"
#include <math.h>

static const char *const gate_names[] = { "softmax_of_chosen", "softmax_of_all", "sigmoid_of_chosen", "sigmoid", NULL };

static const struct moe_layer moe_defaults = {
    .residual = true, .gate_scale = 1, .capacity_factor = 1.25, .norm_epsilon = 1e-5
};

#define AT(field) .offset = offsetof(struct moe_layer, field)
static const struct json_field moe_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "experts",
      .type = FIELD_INT,
      AT(experts),
      .required = true,
      .min = 1,
      .max = MOE_MAX_EXPERTS,
      .doc = "Feed-forward networks among which a token chooses." },
    { .key = "choices",
      .type = FIELD_INT,
      AT(choices),
      .required = true,
      .min = 1,
      .max = MOE_MAX_CHOICES,
      .doc = "Experts per token (top-k), at most experts." },
    { .key = "inner",
      .type = FIELD_INT,
      AT(inner),
      .required = true,
      .min = 1,
      .max = MOE_MAX_INNER,
      .doc = "Width between an expert's matrices." },
    { .key = "shared_inner",
      .type = FIELD_INT,
      AT(shared_inner),
      .min = 0,
      .max = MOE_MAX_INNER,
      .doc = "Width of a network that every token passes beside its experts (DeepSeek's shared experts together); 0 or "
             "absent: none." },
    { .key = "activation",
      .type = FIELD_ENUM,
      AT(activation),
      .required = true,
      .names = activation_names,
      .doc = activation_doc },
    { .key = "gates",
      .type = FIELD_ENUM,
      AT(gates),
      .names = gate_names,
      .doc = "softmax_of_chosen: what a token gives its experts is a softmax over the chosen logits (Mixtral); "
             "softmax_of_all: over all logits, of which the chosen ones are kept (DeepSeek); sigmoid_of_chosen: the "
             "logits' sigmoids over the sum of the chosen ones (DeepSeek V3); sigmoid: as they are (Llama 4); "
             "softmax_of_chosen if absent." },
    { .key = "gate_scale",
      .type = FIELD_DOUBLE,
      AT(gate_scale),
      .min = 0,
      .max = 1e6,
      .doc = "What gates are multiplied by; 1 if absent." },
    { .key = "router_bias",
      .type = FIELD_BOOL,
      AT(router_bias),
      .doc = "Bias of the router's logits; false if absent." },
    { .key = "router_correction",
      .type = FIELD_BOOL,
      AT(router_correction),
      .doc =
          "A number for each expert is added to its sigmoid when experts are chosen, and not to its gate; no gradient "
          "reaches it (Wang et al. 2024). false if absent." },
    { .key = "expert_groups",
      .type = FIELD_INT,
      AT(expert_groups),
      .min = 0,
      .max = MOE_MAX_EXPERTS,
      .doc =
          "Groups in which experts stand, a divisor of experts; a token chooses among those of chosen_groups of them "
          "(DeepSeek V2, V3). 0 or absent: among all." },
    { .key = "chosen_groups",
      .type = FIELD_INT,
      AT(chosen_groups),
      .min = 0,
      .max = MOE_MAX_EXPERTS,
      .doc = "Groups that a token takes: those of the greatest logit, with sigmoids those whose two greatest together "
             "are the greatest." },
    { .key = "expert_bias",
      .type = FIELD_BOOL,
      AT(expert_bias),
      .doc = "Biases after every matrix of each expert (GPT-OSS); false if absent." },
    { .key = "shared_gate",
      .type = FIELD_BOOL,
      AT(shared_gate),
      .doc = "What the shared network gives is multiplied by the sigmoid of one more logit of the token (Qwen2-MoE); "
             "false if absent." },
    { .key = "group",
      .type = FIELD_INT,
      AT(group),
      .min = 0,
      .max = 1 << 27,
      .doc = "Tokens of a sequence that share out the experts' slots and over which the auxiliary loss is taken, a "
             "divisor of the sequence; the whole sequence if absent or 0." },
    { .key = "capacity_factor",
      .type = FIELD_DOUBLE,
      AT(capacity_factor),
      .min = 1e-3,
      .max = 1e6,
      .doc = "Slots of an expert for one group, over the mean number of choices that it gets (Lepikhin et al. 2021); "
             "1.25 if absent." },
    { .key = "dropless",
      .type = FIELD_BOOL,
      AT(dropless),
      .doc = "No choice is dropped; false if absent: one that finds no slot is, and the token goes on without it. What "
             "is computed then does not depend on capacity_factor, which states the imbalance that plans make memory "
             "for; cleave run has slots for any." },
    { .key = "balance_loss",
      .type = FIELD_DOUBLE,
      AT(balance),
      .min = 0,
      .max = 1e6,
      .doc = "Weight of the mean over groups of experts * sum over experts of (share of the group's choices * mean "
             "probability); it acts through its gradient and is not part of the loss that is shown. 0 if absent." },
    { .key = "norm", .type = FIELD_ENUM, AT(norm), .required = true, .names = norm_names, .doc = "The layer's norm." },
    RESIDUAL_FIELD(moe_layer),
    OUTPUT_NORM_FIELD(moe_layer),
    RESIDUAL_SCALE_FIELD(moe_layer),
    NORM_EPSILON_FIELD(moe_layer),
};
#undef AT

static bool check_groups(const struct moe_layer *f, const struct json *at, struct error *err)
{
    if (f->expert_groups > 0 && f->experts % f->expert_groups)
        return json_fail(json_at_key(at, "expert_groups"), err, "expected a divisor of experts (%lld), found %lld",
                         (long long)f->experts, (long long)f->expert_groups);
    if (!f->expert_groups != !f->chosen_groups || f->chosen_groups > f->expert_groups)
        return json_fail(json_at_key(at, "chosen_groups"), err,
                         "expected 1 to expert_groups (%lld), or 0 without groups, found %lld",
                         (long long)f->expert_groups, (long long)f->chosen_groups);
    if (f->expert_groups > 0 && f->experts / f->expert_groups * f->chosen_groups < f->choices)
        return json_fail(json_at_key(at, "chosen_groups"), err,
                         "expected groups of %lld experts together, one for each of a token's choices, found %lld",
                         (long long)f->choices, (long long)(f->experts / f->expert_groups * f->chosen_groups));
    return true;
}

static bool moe_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct moe_layer *f = fields;
    if (f->choices > f->experts)
        return json_fail(json_at_key(at, "choices"), err, "expected at most the number of experts (%lld), found %lld",
                         (long long)f->experts, (long long)f->choices);
    if (f->router_correction && f->gates != GATES_SIGMOID_OF_CHOSEN && f->gates != GATES_SIGMOID)
        return json_fail(json_at_key(at, "router_correction"), err, "expected gates of sigmoids, found %s",
                         gate_names[f->gates]);
    if (f->shared_gate && !f->shared_inner)
        return json_fail(json_at_key(at, "shared_gate"), err, "expected shared_inner beside it");
    if (!check_groups(f, at, err) || !check_output(f->output_norm, f->residual_scale, false, f->residual, at, err))
        return false;
    if (f->group > 0 && !model->image_size && model->sequence % f->group)
        return json_fail(json_at_key(at, "group"), err, "expected a divisor of the sequence (%lld), found %lld",
                         (long long)model->sequence, (long long)f->group);
    return true;
}

/* A token chooses an expert once: more slots than tokens are of no use. factor: over the mean number of choices. */
static int64_t slots_by(const struct moe_layer *f, double factor, int64_t group)
{
    double mean = (double)(f->choices * group) / (double)f->experts;
    return max_i64(1, (int64_t)fmin((double)group, ceil(factor * mean - 1e-9)));
}

/* Where a framework sends what was chosen, and no empty slots, there are as many as a balanced load fills. Where cleave
 * runs what drops none, all tokens of a group may choose the same expert, as real text has untrained routers do. */
static int64_t slots_of(const struct graph_builder *builder, const struct moe_layer *f, int64_t group)
{
    const struct keeping *keeping = &builder->graph->keeping;
    if (f->dropless && keeping->takes_any_load)
        return group;
    return slots_by(f, f->dropless && keeping_sends_choices(keeping) ? 1 : f->capacity_factor, group);
}

struct routing {
    int gates, slots, filled;
    int64_t group, slot_count;
    double expected_fill;
};

/* True when a sequence in so many groups has hardly more slots in all than in one, each group's being rounded up. */
static bool shares_slots(const struct moe_layer *f, double factor, int64_t sequence, int64_t groups)
{
    enum { MORE_SHARE = 64 };
    int64_t whole = slots_by(f, factor, sequence);
    return groups * slots_by(f, factor, sequence / groups) <= whole + whole / MORE_SHARE;
}

/* All tokens of a sequence; where none are dropped and a framework routes each by itself, so few that the ranks which
 * share out a sequence find groups, whoever runs it. */
static int64_t group_of(const struct graph_builder *builder, const struct moe_layer *f)
{
    enum { MOST_GROUPS = 64 };
    int64_t sequence = builder->size['t'], groups = 1;
    for (int64_t more = 2; builder->graph->keeping.routes_tokens && f->dropless && more <= MOST_GROUPS; more *= 2)
        if (sequence % more == 0 && shares_slots(f, 1, sequence, more) &&
            shares_slots(f, f->capacity_factor, sequence, more))
            groups = more;
    return sequence / groups;
}

/* The tokens' axis can be split between groups only. */
static void set_groups(struct segment *segment, const struct moe_layer *f, const struct routing *r)
{
    segment->arguments.group = r->group;
    segment->arguments.slots = r->slot_count;
    segment->arguments.experts = f->experts;
    segment->arguments.choices = f->choices;
    segment->arguments.dropless = f->dropless;
    for (int i = 0; i < segment->axis_count; i++)
        if (segment->axes[i].tag == TAG_SEQUENCE)
            segment->axes[i].grain = r->group;
}

/* Moved by a rule of its own between steps, not by a gradient. */
static int router_correction(struct graph_builder *builder)
{
    int weight = builder_weight(builder, "router_correction", "u", INIT_ZERO, 0);
    if (!builder->failed)
        builder->graph->weights[weight].frozen = true;
    return weight;
}

static struct routing route(struct graph_builder *builder, const struct moe_layer *f, int64_t group, int x)
{
    struct routing r = { .group = group, .slot_count = slots_of(builder, f, group) };
    double mean = (double)(f->choices * group) / (double)f->experts;
    r.expected_fill = fmin(1, mean / (double)r.slot_count);
    int64_t groups = builder->size['t'] / group;
    builder_size(builder, 'e', f->experts);
    builder_size(builder, 'u', f->experts);
    builder_size(builder, 'k', f->choices);
    builder_size(builder, 'q', groups);
    builder_size(builder, 'c', r.slot_count);
    int logits = builder_value(builder, "router", "btu", ELEMENT_ACTIVATION, true);
    int matrix = builder_weight(builder, "router", "hu", INIT_NORMAL, builder->init_std);
    int bias = f->router_bias ? builder_weight(builder, "router_bias", "u", INIT_ZERO, 0) : -1;
    builder_segment(builder, KERNEL_MATMUL, "router", f->router_bias ? "bth+!u" : "bth+u", OPERANDS({ x, "bth" }),
                    OPERANDS({ matrix, "hu" }, { bias, f->router_bias ? "u" : NULL }), OPERANDS({ logits, "btu" }));
    int correction = f->router_correction ? router_correction(builder) : -1;
    r.gates = builder_value(builder, "gates", "btk", ELEMENT_STATISTIC, true);
    r.slots = builder_value(builder, "slots", "btk", ELEMENT_INDEX, false);
    r.filled = builder_value(builder, "filled", "ebq", ELEMENT_INDEX, false);
    struct segment *segment = builder_segment(builder, KERNEL_ROUTE, "route", "btu!", OPERANDS({ logits, "btu" }),
                                              OPERANDS({ correction, f->router_correction ? "u" : NULL }),
                                              OPERANDS({ r.gates, "bt." }, { r.slots, "bt." }, { r.filled, ".bt" }));
    segment->arguments.gates_of_all = f->gates == GATES_OF_ALL || f->gates == GATES_SIGMOID;
    segment->arguments.gates_sigmoid = f->gates == GATES_SIGMOID || f->gates == GATES_SIGMOID_OF_CHOSEN;
    segment->arguments.expert_groups = f->expert_groups;
    segment->arguments.chosen_groups = f->chosen_groups;
    segment->arguments.gate_scale = f->gate_scale;
    segment->arguments.balance = f->balance / ((double)builder->graph->batch * (double)groups);
    set_groups(segment, f, &r);
    return r;
}

static int dispatch(struct graph_builder *builder, const struct moe_layer *f, const struct routing *r, int x)
{
    int to = builder_value(builder, "dispatch", "ebqch", ELEMENT_ACTIVATION, true);
    set_groups(builder_segment(builder, KERNEL_DISPATCH, "dispatch", "bth", OPERANDS({ x, "bth" }, { r->slots, "bt." }),
                               NO_OPERANDS, OPERANDS({ to, ".bt.h" })),
               f, r);
    return to;
}

static int combine(struct graph_builder *builder, const struct moe_layer *f, const struct routing *r, int x)
{
    int to = builder_value(builder, "combine", "bth", ELEMENT_ACTIVATION, true);
    set_groups(builder_segment(builder, KERNEL_COMBINE, "combine", "bth",
                               OPERANDS({ x, ".bt.h" }, { r->gates, "bt." }, { r->slots, "bt." }), NO_OPERANDS,
                               OPERANDS({ to, "bth" })),
               f, r);
    return to;
}

/* A segment of its own: ranks that share out an expert's inner width would each add it. */
static int add_expert_bias(struct graph_builder *builder, int x)
{
    int sum = builder_value(builder, "expert_sum", "ebqch", ELEMENT_ACTIVATION, true);
    int bias = builder_weight(builder, "expert_down_bias", "eh", INIT_ZERO, 0);
    builder_segment(builder, KERNEL_RESIDUAL, "expert_sum", "ebqch", OPERANDS({ x, "ebqch" }), OPERANDS({ bias, "eh" }),
                    OPERANDS({ sum, "ebqch" }));
    return sum;
}

static int experts(struct graph_builder *builder, const struct moe_layer *f, const struct routing *r, int x)
{
    const struct feed_forward network = { .gate = "expert_gate",
                                          .up = "expert_up",
                                          .act = "expert_act",
                                          .down = "expert_down",
                                          .tokens = "ebqc",
                                          .stack = "e",
                                          .filled = r->filled,
                                          .expected_fill = r->expected_fill,
                                          .activation = f->activation,
                                          .bias = f->expert_bias,
                                          .down_std = builder->residual_std };
    builder_size(builder, 'f', f->inner);
    int y = build_feed_forward(builder, &network, dispatch(builder, f, r, x));
    return combine(builder, f, r, f->expert_bias ? add_expert_bias(builder, y) : y);
}

static int gate_shared(struct graph_builder *builder, int x, int y)
{
    int gate = builder_value(builder, "shared_scale", "bt1", ELEMENT_ACTIVATION, true);
    int matrix = builder_weight(builder, "shared_scale", "h1", INIT_NORMAL, builder->init_std);
    builder_segment(builder, KERNEL_MATMUL, "shared_scale", "bth+", OPERANDS({ x, "bth" }), OPERANDS({ matrix, "h." }),
                    OPERANDS({ gate, "bt." }));
    int scaled = builder_value(builder, "shared_scaled", "bth", ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_TOKEN_GATE, "shared_scaled", "bth", OPERANDS({ y, "bth" }, { gate, "bt." }),
                    NO_OPERANDS, OPERANDS({ scaled, "bth" }));
    return scaled;
}

static int shared_expert(struct graph_builder *builder, const struct moe_layer *f, int x)
{
    const struct feed_forward network = { .gate = "shared_gate",
                                          .up = "shared_up",
                                          .act = "shared_act",
                                          .down = "shared_down",
                                          .tokens = "bt",
                                          .stack = "",
                                          .filled = -1,
                                          .activation = f->activation,
                                          .down_std = builder->residual_std };
    builder_size(builder, 'f', f->shared_inner);
    int y = build_feed_forward(builder, &network, x);
    return f->shared_gate ? gate_shared(builder, x, y) : y;
}

static bool moe_build(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err)
{
    const struct moe_layer *f = fields;
    (void)model;
    int64_t sequence = builder->size['t'], group = f->group ? f->group : group_of(builder, f);
    if (sequence % group)
        return fail_kind(err, ERROR_INPUT,
                         "layer %s: expected a sequence of whole groups of %lld tokens, found %lld tokens",
                         builder->prefix, (long long)group, (long long)sequence);
    if (slots_of(builder, f, group) > INT32_MAX / f->experts) /* a slot's number is an index value */
        return fail_kind(
            err, ERROR_INPUT,
            "layer %s: expected at most %d slots for a group, found %lld experts with %lld each; lower group "
            "or capacity_factor",
            builder->prefix, INT32_MAX, (long long)f->experts, (long long)slots_of(builder, f, group));
    int y = build_norm(builder, builder->input, f->norm, f->norm_epsilon);
    const struct routing r = route(builder, f, group, y);
    int terms[MAX_LAYER_INPUTS] = { experts(builder, f, &r, y) }, count = 1;
    if (f->shared_inner)
        terms[count++] = shared_expert(builder, f, y);
    const struct layer_output output = { .norm = f->output_norm,
                                         .epsilon = f->norm_epsilon,
                                         .scale = f->residual_scale };
    builder->output = build_output(builder, &output, f->residual ? builder->input : -1, terms, count);
    return true;
}

extern const struct layer_kind moe_kind;
const struct layer_kind moe_kind = {
    .name = "moe",
    .place = CHAIN_BODY,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc = "Norm, a router that sends each token to a few of many feed-forward networks, residual sum (Shazeer et al. "
           "2017; Lepikhin et al. 2021; Jiang et al. 2024; Dai et al. 2024).",
    .fields = moe_fields,
    .field_count = sizeof moe_fields / sizeof *moe_fields,
    .fields_bytes = sizeof(struct moe_layer),
    .defaults = &moe_defaults,
    .check = moe_check,
    .build = moe_build,
};
