#include "models/import/hf_tensors.h"
#include "base/num.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tensors of a checkpoint: a few for each block, and those of experts. */
enum { MOST_TENSORS = 1 << 20, NAME_BYTES = 160, WORD_BYTES = 32 };

const struct hf_tensor_names *hf_tensor_names_of(const char *model_type)
{
    char word[64];
    if (snprintf(word, sizeof word, " %s ", model_type) >= (int)sizeof word || strchr(model_type, ' '))
        return NULL;
    for (const struct hf_tensor_names *names = hf_tensor_families; names->types; names++)
        if (strstr(names->types, word))
            return names;
    return NULL;
}

bool hf_is_buffer(const char *name)
{
    static const char *const ends[] = { "inv_freq",    "attn.bias",    "attention.bias",     "attn.masked_bias",
                                        "masked_bias", "position_ids", "num_batches_tracked" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *end = strlen(name) >= strlen(ends[i]) ? name + strlen(name) - strlen(ends[i]) : NULL;
        if (end && strcmp(end, ends[i]) == 0 && (end == name || end[-1] == '.')) /* c_attn.bias is a weight */
            return true;
    }
    return false;
}

/* What a row says of a layer: the weights that it names, and the letters of their dims. */
struct reading {
    const struct hf_tensor_row *row;
    int count;
    int weight[HF_MOST_PIECES];
    char letters[HF_MOST_PIECES][WORD_BYTES];
};
struct making {
    struct hf_tensors *tensors;
    const struct hf_tensor_names *names;
    bool with_prefix;
    int layer, block, table; /* table: the tensor of the first embedding's, -1 */
    int room, place_room;
    struct error *err;
};

/* The layer's weight of this name and so many dims; -1: it has none. */
static int find_weight(const struct making *m, const char *name, size_t dims)
{
    const struct graph *graph = m->tensors->graph;
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s.%s", graph->layers[m->layer].name, name);
    for (int w = 0; w < graph->weight_count; w++)
        if (strcmp(graph->weights[w].name, full) == 0 && graph->weights[w].dim_count == (int)dims)
            return w;
    return -1;
}

/* Reads the row's weights. Of them all or none are there. */
static bool read_row(struct reading *out, const struct making *m, const struct hf_tensor_row *row)
{
    const char *at = row->weights;
    char name[WORD_BYTES];
    int words = 0, used;
    *out = (struct reading){ .row = row };
    while (words < HF_MOST_PIECES && sscanf(at, " %31[^=]=%31s%n", name, out->letters[words], &used) == 2) {
        out->weight[words] = find_weight(m, name, strlen(out->letters[words]));
        out->count += out->weight[words] >= 0;
        words++;
        at += used;
    }
    return (!*at && words > 0 && (out->count == 0 || out->count == words)) ||
           fail_kind(m->err, ERROR_BUG, "row %s: expected weights of layer %s, all or none of: %s", row->name,
                     m->tensors->graph->layers[m->layer].name, row->weights);
}

/* The weight's size along a letter; rows of padding are no rows of the checkpoint. 0: it has no such letter. */
static int64_t size_of(const struct hf_tensors *t, const struct reading *r, int piece, char letter)
{
    const char *at = strchr(r->letters[piece], letter);
    const struct weight *weight = &t->graph->weights[r->weight[piece]];
    return !at ? 0 : at == r->letters[piece] ? weight->valid_rows : weight->size[at - r->letters[piece]];
}

static int split_dims(const char *dims, char words[MAX_DIMS][WORD_BYTES])
{
    int count = 0, used;
    while (count < MAX_DIMS && sscanf(dims, "%31s%n", words[count], &used) == 1) {
        dims += used;
        count++;
    }
    return count;
}

/* Of one dim: its size, and for each piece the elements of the dim between neighbours along each of its letters. */
static bool read_dim(const struct making *m, const struct reading *r, const char *word, int64_t *size,
                     int64_t begin[HF_MOST_PIECES], int64_t step[HF_MOST_PIECES][WORD_BYTES])
{
    const bool in_turn = strchr(word, '*') && word[0] != '*';
    bool sound = true;
    *size = 0;
    for (int p = 0; p < r->count; p++) {
        int64_t product = 1;
        begin[p] = word[0] == '*' ? *size : 0;
        for (size_t i = strlen(word); i-- > 0;) {
            int64_t factor = word[i] == '*' ? (in_turn ? r->count : 1) : size_of(m->tensors, r, p, word[i]);
            if (word[i] == '*' && in_turn)
                begin[p] = p * product;
            step[p][i] = product;
            sound = sound && factor > 0 && mul_i64(&product, product, factor);
        }
        if (word[0] == '*' ? !add_i64(size, *size, product) : p > 0 && product != *size)
            return fail_kind(
                m->err, ERROR_INPUT,
                "no tensor that checkpoints of this family have is known to hold weights of unequal sizes as %s does",
                r->row->name);
        if (word[0] != '*')
            *size = product;
    }
    return sound || fail_kind(m->err, ERROR_BUG, "row %s: dim %s is none of the weights'", r->row->name, word);
}

static bool read_shape(const struct making *m, const struct reading *r, struct hf_tensor *tensor)
{
    char words[MAX_DIMS][WORD_BYTES];
    int64_t begin[HF_MOST_PIECES], step[HF_MOST_PIECES][WORD_BYTES], inner = 1;
    bool counts = true;
    tensor->dim_count = split_dims(r->row->dims, words);
    tensor->piece_count = r->count;
    for (int p = 0; p < r->count; p++)
        tensor->pieces[p] = (struct hf_piece){ .weight = r->weight[p] };
    for (int d = tensor->dim_count - 1; d >= 0; d--) {
        if (!read_dim(m, r, words[d], &tensor->shape[d], begin, step))
            return false;
        for (int p = 0; p < r->count; p++) {
            tensor->pieces[p].offset += begin[p] * inner;
            for (size_t i = 0; words[d][i]; i++)
                if (words[d][i] != '*')
                    tensor->pieces[p].stride[strchr(r->letters[p], words[d][i]) - r->letters[p]] = step[p][i] * inner;
        }
        counts = counts && mul_i64(&inner, inner, tensor->shape[d]);
    }
    return counts || fail_kind(m->err, ERROR_INPUT, "a tensor of 2^63 elements or more");
}

static const char *write_name(const struct making *m, const char *row, int64_t expert)
{
    char name[NAME_BYTES];
    int used = 0;
    if (row[0] == '/')
        row++;
    else if (m->with_prefix)
        used = snprintf(name, sizeof name, "%s", m->names->prefix);
    for (; *row && used < NAME_BYTES - 24; row++) {
        if (*row == '#' || *row == '@')
            used +=
                snprintf(name + used, sizeof name - (size_t)used, "%lld", (long long)(*row == '#' ? m->block : expert));
        else
            name[used++] = *row;
    }
    name[used] = '\0';
    return arena_strdup(&m->tensors->arena, name);
}

static bool add_tensor(struct making *m, const struct hf_tensor *tensor)
{
    struct hf_tensors *t = m->tensors;
    struct hf_tensor *list = arena_more(&t->arena, t->list, t->count, &m->room, sizeof *list);
    bool fits = t->count < MOST_TENSORS;
    if (!list || !tensor->name || !fits)
        return fits ? fail_memory(m->err)
                    : fail_kind(m->err, ERROR_INPUT, "expected a checkpoint of at most %d tensors, found more",
                                MOST_TENSORS);
    t->list = list;
    list[t->count++] = *tensor;
    return true;
}

static bool add_place(struct making *m, int weight, int piece)
{
    struct hf_tensors *t = m->tensors;
    struct hf_place *places = arena_more(&t->arena, t->places, t->place_count, &m->place_room, sizeof *places);
    if (!places)
        return fail_memory(m->err);
    t->places = places;
    if (t->held[weight]++ == 0)
        t->first[weight] = t->place_count;
    places[t->place_count++] = (struct hf_place){ t->count - 1, piece };
    return true;
}

/* The tensor of a row, or one for each expert. */
static bool add_row(struct making *m, const struct reading *r)
{
    struct hf_tensor tensor = { .twin = -1 };
    const bool experts = r->letters[0][0] == '@';
    const int64_t count = experts ? m->tensors->graph->weights[r->weight[0]].size[0] : 1;
    if (!read_shape(m, r, &tensor))
        return false;
    for (int64_t e = 0; e < count; e++) {
        tensor.name = write_name(m, r->row->name, e);
        for (int p = 0; experts && p < r->count; p++)
            tensor.pieces[p].stride[0] = 0;
        if (!add_tensor(m, &tensor))
            return false;
        for (int p = 0; p < r->count; p++)
            if (!add_place(m, r->weight[p], p))
                return false;
    }
    if (strcmp(r->row->kind, "embedding") == 0 && strcmp(r->row->weights, "table=vh") == 0 && m->table < 0)
        m->table = m->tensors->count - 1;
    return true;
}

/* A head that uses the embedding's table: its own tensor repeats that one. */
static bool add_twin(struct making *m, const struct hf_tensor_row *row)
{
    struct hf_tensor tensor = m->tensors->list[m->table];
    tensor.name = write_name(m, row->name, 0);
    tensor.twin = m->table;
    tensor.piece_count = 0;
    return add_tensor(m, &tensor);
}

static bool add_layer(struct making *m)
{
    const struct graph_layer *layer = &m->tensors->graph->layers[m->layer];
    for (int g = 0; g < HF_ROW_GROUPS && m->names->groups[g]; g++)
        for (const struct hf_tensor_row *row = m->names->groups[g]; row->kind; row++) {
            struct reading r;
            if (strcmp(row->kind, layer->kind) != 0)
                continue;
            if (!read_row(&r, m, row))
                return false;
            bool twin = !r.count && strcmp(row->kind, "head") == 0 && strcmp(row->weights, "table=vh") == 0;
            if (r.count > 0 ? !add_row(m, &r) : twin && m->table >= 0 && !add_twin(m, row))
                return false;
        }
    return true;
}

/* Adapters are drawn: such checkpoints have none. */
static bool is_adapter(const char *name)
{
    size_t length = strlen(name);
    return length > 7 && (strcmp(name + length - 7, "_lora_a") == 0 || strcmp(name + length - 7, "_lora_b") == 0);
}

static bool check_places(const struct making *m)
{
    const struct hf_tensors *t = m->tensors;
    for (int w = 0; w < t->graph->weight_count; w++)
        if (!t->held[w] && !is_adapter(t->graph->weights[w].name))
            return fail_kind(
                m->err, ERROR_INPUT,
                "no tensor that checkpoints of this family have is known to hold the weight %s of the plan's model",
                t->graph->weights[w].name);
    return true;
}

bool hf_tensors_of(struct hf_tensors **out, const struct hf_tensor_names *names, bool with_prefix,
                   const struct graph *graph, struct error *err)
{
    struct hf_tensors *t = calloc(1, sizeof *t);
    if (!t)
        return fail_memory(err);
    struct making m = {
        .tensors = t, .names = names, .with_prefix = with_prefix, .block = -1, .table = -1, .err = err
    };
    t->graph = graph;
    t->first = arena_alloc(&t->arena, (size_t)graph->weight_count, sizeof *t->first);
    t->held = arena_alloc(&t->arena, (size_t)graph->weight_count, sizeof *t->held);
    bool ok = (t->first && t->held) || fail_memory(err);
    for (m.layer = 0; ok && m.layer < graph->layer_count; m.layer++) {
        m.block += strcmp(graph->layers[m.layer].kind, "attention") == 0; /* a block begins with it */
        ok = add_layer(&m);
    }
    if (!ok || !check_places(&m)) {
        hf_tensors_free(t);
        return false;
    }
    *out = t;
    return true;
}

void hf_tensors_free(struct hf_tensors *tensors)
{
    if (!tensors)
        return;
    arena_free(&tensors->arena);
    free(tensors);
}

struct hf_run hf_run_at(const struct hf_tensors *tensors, int weight, const int64_t at[MAX_DIMS], int64_t most)
{
    const struct weight *w = &tensors->graph->weights[weight];
    const int last = w->dim_count - 1;
    if (at[0] >= w->valid_rows)
        return (struct hf_run){ .tensor = -1, .count = most };
    const struct hf_place *place = &tensors->places[tensors->first[weight] + (tensors->held[weight] > 1 ? at[0] : 0)];
    const struct hf_piece *piece = &tensors->list[place->tensor].pieces[place->piece];
    struct hf_run run = { .tensor = place->tensor, .offset = piece->offset, .stride = piece->stride[last] };
    for (int d = 0; d <= last; d++)
        run.offset += at[d] * piece->stride[d];
    run.count = last == 0 ? min_i64(most, w->valid_rows - at[0]) : most;
    return run;
}
