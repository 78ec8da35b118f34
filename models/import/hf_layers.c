/* From blocks to layers: blocks that repeat are folded, so that what is planned once counts for all. */
#include "models/import/hf_facts.h"
#include <stdio.h>
#include <string.h>

/* Names of the layers that others read by name; only where blocks run side by side. */
struct names {
    int count; /* blocks that were added */
    char norm[24], attention[24], state[24], mlp[24], sum[24], entry[24];
};

static void next_names(struct names *n, bool first)
{
    char suffix[12] = "";
    snprintf(n->entry, sizeof n->entry, "%s", first ? "entry" : n->sum);
    if (++n->count > 1)
        snprintf(suffix, sizeof suffix, "%d", n->count);
    snprintf(n->norm, sizeof n->norm, "norm%s", suffix);
    snprintf(n->attention, sizeof n->attention, "attention%s", suffix);
    snprintf(n->state, sizeof n->state, "state%s", suffix);
    snprintf(n->mlp, sizeof n->mlp, "mlp%s", suffix);
    snprintf(n->sum, sizeof n->sum, "sum%s", suffix);
}

void hf_freeze(const struct hf_reader *r, struct layer_head *head)
{
    head->frozen = r->adapted;
    head->quantized = (int)r->quantized;
}

bool hf_add(struct hf_reader *r, struct model *model, const char *name, const void *fields)
{
    const struct layer_kind *kind = layer_kind_find(name);
    if (r->adapted && kind->place != CHAIN_LOSS && strcmp(name, "add") != 0) {
        struct layer_head *frozen = arena_alloc(&r->arena, 1, kind->fields_bytes);
        if (!frozen)
            return fail_memory(r->err);
        memcpy(frozen, fields, kind->fields_bytes);
        hf_freeze(r, frozen);
        frozen->quantized =
            model_layer_quantizes(&(struct layer){ .kind = kind }, r->reading && r->reading->quantizes_experts)
                ? frozen->quantized
                : QUANTIZED_NONE;
        fields = frozen;
    }
    return model_add_layer(model, kind, fields, r->root, r->err);
}

/* One block: attention and network of what enters it, then the sum of the three. */
static bool add_side_by_side(struct hf_reader *r, struct model *model, const struct hf_block *b, struct names *n)
{
    const struct norm_layer norm = { { .name = n->norm }, b->attention.norm, b->attention.norm_epsilon };
    const struct add_layer sum = { .head.name = n->sum };
    struct attention_layer attention = b->attention;
    struct mlp_layer mlp = b->mlp;
    const bool shared = b->stream == HF_SHARED_NORM;
    const struct layer_source read = { shared ? n->norm : n->entry, r->root };
    const struct layer_source terms[] = { { n->entry, r->root }, { n->attention, r->root }, { n->mlp, r->root } };
    attention.head.name = n->attention;
    mlp.head.name = n->mlp;
    hf_freeze(r, &mlp.head);
    if (shared) {
        if (!hf_add(r, model, "norm", &norm))
            return false;
        attention.norm = mlp.norm = NORM_NONE;
    }
    return hf_add(r, model, "attention", &attention) &&
           model_add_reader(model, layer_kind_find("mlp"), &mlp, &read, 1, r->root, r->err) &&
           model_add_reader(model, layer_kind_find("add"), &sum, terms, 3, r->root, r->err);
}

/* Attention and a state space of what enters the block, the sum of the three, then the network. */
static bool add_with_state(struct hf_reader *r, struct model *model, const struct hf_block *b, struct names *n)
{
    const struct norm_layer norm = { { .name = n->norm }, b->attention.norm, b->attention.norm_epsilon };
    const struct add_layer sum = { .head.name = n->sum };
    struct attention_layer attention = b->attention;
    struct state_space_layer state = b->state;
    struct mlp_layer mlp = b->mlp;
    const struct layer_source read = { n->norm, r->root };
    const struct layer_source terms[] = { { n->entry, r->root }, { n->attention, r->root }, { n->state, r->root } };
    attention.head.name = n->attention;
    state.head.name = n->state;
    hf_freeze(r, &state.head);
    mlp.head.name = n->mlp;
    attention.norm = state.norm = NORM_NONE;
    attention.residual = state.residual = false;
    memcpy(n->sum, n->mlp, sizeof n->mlp); /* what enters the next block */
    return hf_add(r, model, "norm", &norm) && hf_add(r, model, "attention", &attention) &&
           model_add_reader(model, layer_kind_find("state_space"), &state, &read, 1, r->root, r->err) &&
           model_add_reader(model, layer_kind_find("add"), &sum, terms, 3, r->root, r->err) &&
           hf_add(r, model, "mlp", &mlp);
}

static const char *const mixers[] = { "attention", "latent_attention", "state_space", "linear_attention" };
static const char *const networks[] = { "mlp", "moe" };

/* name: of its last layer; NULL: its kind's. */
static bool add_network(struct hf_reader *r, struct model *model, const struct hf_block *b, const char *name)
{
    struct mlp_layer mlp = b->mlp;
    struct moe_layer moe = b->moe;
    mlp.head.name = moe.head.name = name;
    return hf_add(r, model, networks[b->network], b->network == HF_MOE ? (const void *)&moe : &mlp);
}

static bool add_block(struct hf_reader *r, struct model *model, const struct hf_block *b, struct names *n,
                      const char *last)
{
    const void *const mixer[] = { &b->attention, &b->latent, &b->state, &b->linear };
    if (b->beside)
        return add_with_state(r, model, b, n);
    if (b->stream != HF_SERIAL) {
        if (b->mixer == HF_ATTENTION && b->network == HF_MLP)
            return add_side_by_side(r, model, b, n);
        return json_fail(r->root, r->err,
                         "only attention and an mlp may stand side by side: a block of this family "
                         "has another layer there, which cannot be planned");
    }
    return (b->mixer == HF_NO_MIXER || hf_add(r, model, mixers[b->mixer], mixer[b->mixer])) &&
           (!b->both || hf_add(r, model, "mlp", &b->mlp)) &&
           (b->network == HF_NO_NETWORK || add_network(r, model, b, b->last.inner ? NULL : last)) &&
           (!b->last.inner || hf_add(r, model, "mlp", &b->last)) &&
           (!b->behind || hf_add(r, model, "state_space", &b->state));
}

/* Behind the trunk, for each further token: what joins it with the next token's embedding, a block as the trunk's last
 * ones, and its loss (DeepSeek-AI 2024). */
static bool add_further(struct hf_reader *r, struct model *model)
{
    const struct multi_token_layer join = { .norm = r->facts.norm, .norm_epsilon = r->facts.epsilon };
    struct multi_token_loss_layer loss;
    const struct hf_block *mixer = NULL, *network = NULL;
    memcpy(&loss, layer_kind_find("multi_token_loss")->defaults, sizeof loss);
    loss.norm = r->facts.norm;
    loss.norm_epsilon = r->facts.epsilon;
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        const struct hf_block *b = &r->blocks[i];
        mixer = b->mixer == HF_ATTENTION || b->mixer == HF_LATENT ? b : mixer;
        network = b->network != HF_NO_NETWORK ? b : network;
    }
    const struct hf_block *end = &r->blocks[r->facts.blocks - 1];
    if (!mixer || !network || end->stream != HF_SERIAL || end->beside || end->network == HF_NO_NETWORK)
        return json_fail(hf_place_of(r, HF_FACT(token_blocks)), r->err,
                         "blocks that predict further tokens can be planned where the last block ends with a network, "
                         "and one has attention: read the file without them");
    for (int k = 1; k <= (int)r->facts.token_blocks; k++) {
        char from[24] = "trunk", passed[24] = "trunk", block[24], loss_name[24];
        if (k > 1) {
            snprintf(from, sizeof from, "ahead%d", k - 1);
            snprintf(passed, sizeof passed, "pass%d", k - 1);
        }
        snprintf(block, sizeof block, "ahead%d", k);
        snprintf(loss_name, sizeof loss_name, "pass%d", k);
        const struct layer_source read = { from, r->root };
        const struct layer_source both[] = { { passed, r->root }, { block, r->root } };
        loss.head.name = loss_name;
        if (!model_add_block(model, 1, r->root, r->err) ||
            !model_add_reader(model, layer_kind_find("multi_token"), &join, &read, 1, r->root, r->err) ||
            !hf_add(r, model, mixers[mixer->mixer],
                    mixer->mixer == HF_LATENT ? (const void *)&mixer->latent : &mixer->attention) ||
            !add_network(r, model, network, block) ||
            !model_add_reader(model, layer_kind_find("multi_token_loss"), &loss, both, 2, r->root, r->err))
            return false;
    }
    return true;
}

/* Gives equal blocks the same number. */
static bool number_blocks(struct hf_reader *r, int **out)
{
    int count = (int)r->facts.blocks, known = 0;
    int *number = *out = arena_alloc(&r->arena, (size_t)count * 2, sizeof *number), *example = number + count;
    if (!number)
        return fail_memory(r->err);
    for (int i = 0; i < count; i++) {
        int k = 0;
        while (k < known && memcmp(&r->blocks[example[k]], &r->blocks[i], sizeof *r->blocks) != 0)
            k++;
        if (k == known)
            example[known++] = i;
        number[i] = k;
    }
    return true;
}

bool hf_add_blocks(struct hf_reader *r, struct model *model)
{
    struct names names = { 0 };
    int count = (int)r->facts.blocks, *number, period, copies;
    int kept = 0;
    for (int i = 0; i < count; i++) /* a block may have nothing left in it */
        if (r->blocks[i].mixer != HF_NO_MIXER || r->blocks[i].network != HF_NO_NETWORK)
            r->blocks[kept++] = r->blocks[i];
    r->facts.blocks = count = kept;
    if (!count)
        return json_fail(r->root, r->err, "expected a block with attention or a network, found none");
    if (!number_blocks(r, &number))
        return false;
    for (int i = 0; i < count; i += period * copies) {
        model_find_period(&period, &copies, number + i, count - i);
        if (!model_add_block(model, copies, r->root, r->err))
            return false;
        for (int k = 0; k < period; k++) {
            next_names(&names, k == 0);
            bool last = r->further && i + period * copies == count && k == period - 1;
            if (!add_block(r, model, &r->blocks[i + k], &names, last ? "trunk" : NULL))
                return false;
        }
    }
    return !r->further || add_further(r, model);
}

void hf_fill_embedding(const struct hf_reader *r, struct embedding_layer *embedding)
{
    const struct hf_facts *f = &r->facts;
    memcpy(embedding, layer_kind_find("embedding")->defaults, sizeof *embedding);
    embedding->learned_positions = f->place == HF_LEARNED ? f->positions + f->position_offset : 0;
    embedding->token_types = f->token_types;
    embedding->tokens = f->classes ? f->vocab : 0;
    if (f->embedding_width && f->embedding_width != f->hidden) {
        embedding->width = f->embedding_width;
        embedding->width_bias = f->embedding_bias;
        embedding->wide_positions = f->wide_positions;
    }
    embedding->scale = f->embedding_scale > 0 ? f->embedding_scale : embedding->scale;
    if (f->embedding_norm) {
        embedding->norm = f->norm;
        embedding->norm_epsilon = f->epsilon;
    }
}

bool hf_fill_head(struct hf_reader *r, struct head_layer *head)
{
    const struct hf_facts *f = &r->facts;
    memcpy(head, layer_kind_find("head")->defaults, sizeof *head);
    head->norm = f->no_last_norm || f->post_norm ? NORM_NONE : f->norm;
    head->norm_epsilon = f->epsilon;
    head->bias = f->head_bias;
    head->logit_scale = f->logit_scale;
    head->logit_cap = f->logit_cap;
    if (f->classes) {
        /* An encoder's pooled token passes a square matrix first; a decoder's last one has classes alone. */
        head->bias = f->encoder;
        head->logit_scale = head->logit_cap = 0;
        head->transform = f->transform;
        head->transform_norm = NORM_NONE;
        return true;
    }
    const int64_t width = f->head_width ? f->head_width : f->embedding_width;
    head->width = width == f->hidden ? 0 : width;
    if (f->transform) {
        head->transform = true;
        head->transform_bias = f->transform_bias;
        head->transform_norm = f->pooled ? NORM_NONE : f->norm;
        if (f->pooled)
            head->transform_activation = ACTIVATION_TANH;
        return f->pooled || hf_activation_of(r, false, &head->transform_activation);
    }
    return true;
}

/* The table of tokens, and a second one whose rows are brought to the stream's width and added. */
static bool add_tokens(struct hf_reader *r, struct model *model, const struct embedding_layer *embedding)
{
    struct embedding_layer first = *embedding, second = *embedding;
    const struct add_layer sum = { .head.name = "entry_sum" };
    const struct layer_source terms[] = { { "second_tokens", r->root }, { "tokens", r->root } };
    if (!r->facts.second_width)
        return hf_add(r, model, "embedding", embedding);
    second.head.name = "second_tokens";
    second.width = r->facts.second_width;
    second.scale = 0;
    second.norm = NORM_NONE;
    second.learned_positions = second.token_types = 0;
    first.head.name = "tokens";
    return hf_add(r, model, "embedding", &second) && hf_add(r, model, "embedding", &first) &&
           model_add_reader(model, layer_kind_find("add"), &sum, terms, 2, r->root, r->err);
}

/* What stands before or behind the blocks and is planned as a bare network of as many weights. */
static bool add_bare(struct hf_reader *r, struct model *model, const char *name, int64_t inner)
{
    struct mlp_layer bare;
    if (!inner)
        return true;
    memcpy(&bare, layer_kind_find("mlp")->defaults, sizeof bare);
    bare.head.name = name;
    bare.inner = inner;
    bare.activation = ACTIVATION_GELU;
    return hf_add(r, model, "mlp", &bare);
}

bool hf_add_chain(struct hf_reader *r, struct model *model)
{
    static const struct loss_layer loss = { 0 };
    struct embedding_layer embedding;
    struct head_layer head;
    hf_fill_embedding(r, &embedding);
    return hf_fill_head(r, &head) && model_add_block(model, 1, r->root, r->err) && add_tokens(r, model, &embedding) &&
           add_bare(r, model, "first", r->facts.first_inner) && hf_add_blocks(r, model) &&
           model_add_block(model, 1, r->root, r->err) && add_bare(r, model, "last", r->facts.last_inner) &&
           hf_add(r, model, "head", &head) && hf_add(r, model, "loss", &loss) && model_finish(model, r->root, r->err);
}
