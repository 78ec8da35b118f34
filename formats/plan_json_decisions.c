/* Reading decisions: form and ranges here, the model's demands in plan_check(). */
#include "formats/plan_json_parts.h"
#include "planner/program/schedule.h"
#include <stddef.h>
#include <string.h>

/* A description of more than these is a mistake, not a plan, and must not exhaust memory. */
enum { MAX_FILE_LAYERS = 1 << 20, MAX_FILE_RANKS = 1 << 24, MAX_FILE_TURNS = 1 << 10 };

bool plan_need_array(const struct json *value, int min, int max, const char *what, struct error *err)
{
    if (json_type(value) != JSON_ARRAY)
        return json_fail(value, err, "expected an array of %s, found %s", what, json_type_name(json_type(value)));
    if (json_count(value) < min || json_count(value) > max)
        return json_fail(value, err, "expected %d to %d %s, found %d", min, max, what, json_count(value));
    return true;
}

struct decision_fields {
    int64_t batch, sequence, vocab_multiple, interleave, chunk_group, micro_batches, micro_batch_size, extra_in_flight,
        bucket_bytes, prefetch, loss_chunks;
    double clip_norm;
    bool whole_blocks;
    int dtype, clock, optimizer[OPTIMIZER_PARTS];
    const char *schedule, *order;
    const struct json *stages, *layers;
};
#define MEMBER(of, name, type_, ...)                                                                                   \
    {                                                                                                                  \
        .key = #name, .type = type_, .offset = offsetof(struct of, name), __VA_ARGS__                                  \
    }
#define DECISION(...) MEMBER(decision_fields, __VA_ARGS__)
static const struct json_field decision_fields[] = {
    DECISION(batch, FIELD_INT, .required = true, .min = 1, .doc = "Sequences of one step over all ranks."),
    DECISION(sequence, FIELD_INT, .required = true, .min = 1, .doc = "Tokens per sequence."),
    DECISION(vocab_multiple, FIELD_INT, .min = 1, .doc = "The vocabulary is padded to a multiple of it."),
    DECISION(dtype, FIELD_ENUM, .required = true, .names = dtype_names,
             .doc = "Type of weights and activations in kernels."),
#define OPTIMIZER_PART(a, b, member, key_, option, names_, doc_)                                                       \
    { .key = key_,                                                                                                     \
      .type = FIELD_ENUM,                                                                                              \
      .offset = offsetof(struct decision_fields, optimizer[OPTIMIZER_PART_##member]),                                  \
      .names = names_,                                                                                                 \
      .doc = doc_ "; absent: the first of its values" },
    OPTIMIZER_PARTS_OF(OPTIMIZER_PART, , )
#undef OPTIMIZER_PART
        DECISION(schedule, FIELD_STRING, .required = true, .doc = "Name of the schedule: cleave schedules."),
    DECISION(interleave, FIELD_INT, .min = 1, .max = PLAN_MAX_CHUNKS,
             .doc = "Chunks of the model on each stage, for a schedule that interleaves them; copies of it, 2, with "
                    "chimera and dualpipe."),
    DECISION(chunk_group, FIELD_INT, .min = 1, .max = PLAN_MAX_MICRO_BATCHES,
             .doc = "With schedule interleaved: micro-batches that go through a chunk of a stage before its next one. "
                    "Absent: the least legal size."),
    DECISION(micro_batches, FIELD_INT, .required = true, .min = 1, .max = PLAN_MAX_MICRO_BATCHES,
             .doc = "Micro-batches of one step."),
    DECISION(micro_batch_size, FIELD_INT, .min = 1,
             .doc =
                 "What follows from the others: sequences of a micro-batch on one replica. Absent in older files and "
                 "where stages differ in it."),
    DECISION(extra_in_flight, FIELD_INT, .min = 0, .max = PLAN_MAX_MICRO_BATCHES,
             .doc = "Warm-up micro-batches beyond the schedule's own."),
    DECISION(bucket_bytes, FIELD_INT,
             .doc = "Gradients are reduced in buckets of about this many bytes; 0: one by one."),
    DECISION(prefetch, FIELD_INT, .min = 0, .max = PLAN_MAX_PREFETCH,
             .doc = "ZeRO-3 gathers are issued this many layers ahead."),
    DECISION(loss_chunks, FIELD_INT, .min = 1, .max = PLAN_MAX_LOSS_CHUNKS,
             .doc =
                 "Chunks of tokens in which logits, loss and their gradients are computed one after another, so that "
                 "the logits of one chunk live at a time; 1 when absent: all at once. As many as divide a rank's "
                 "sequences of a micro-batch, else the tokens of each; none where head and loss are on different "
                 "stages, or with asynchronous schedules."),
    DECISION(clock, FIELD_ENUM, .names = plan_clock_names,
             .doc = "Where messages may overtake each other (several chunks, replicas in turn, split backward passes), "
                    "stages post their receives in the order of a clock. even, when absent: passes of a kind all take "
                    "the same; work: as long as their floating-point operations say."),
    DECISION(clip_norm, FIELD_DOUBLE, .doc = "Global gradient norm above which gradients are scaled; 0: off."),
    DECISION(whole_blocks, FIELD_BOOL,
             .doc =
                 "true: layers are numbered as if each block of the model were one layer, and so are those before the "
                 "first block, and those behind the last one; what training frameworks cut between. false if absent."),
    DECISION(order, FIELD_STRING,
             .doc =
                 "Layers of the model's file in the order of the plan, as \"0-3,8-11,4-7,12\": a topological order of "
                 "which stages are intervals; \"layers\" below count places in it. The file's order when absent."),
    DECISION(stages, FIELD_NODE, .required = true, .doc = "Pipeline stages: [{layers, atoms, first_rank, turns}]."),
    DECISION(
        layers, FIELD_NODE, .required = true,
        .doc =
            "Per run of equal layers: [{layers, dims, zero, recompute, recompute_except, offload, reshard, replicate, "
            "slices}]."),
};

struct run_fields {
    const char *layers, *replicate, *recompute_except;
    const struct json *atoms, *dims;
    int64_t zero, slices, first_rank, turns;
    int recompute, offload;
    bool reshard;
};
#define RUN(...) MEMBER(run_fields, __VA_ARGS__)
static const struct json_field stage_fields[] = {
    RUN(layers, FIELD_STRING, .required = true,
        .doc = "\"0-11\" or \"12\"; with interleave one range per chunk, as \"0-1,4-5\"."),
    RUN(atoms, FIELD_NODE, .required = true,
        .doc = "Sizes of the mesh atoms, the last one innermost (neighbouring ranks). A larger dp atom than the "
               "neighbouring stages': each rank takes its slice of every micro-batch."),
    RUN(turns, FIELD_INT, .min = 1, .max = MAX_FILE_TURNS,
        .doc = "Replicas of the mesh that take whole micro-batches in turn."),
    RUN(first_rank, FIELD_INT, .min = 0, .max = MAX_FILE_RANKS,
        .doc = "Device of the cluster on which its ranks begin; when absent, behind those of the stage before."),
};
static const struct json_field layer_fields[] = {
    RUN(layers, FIELD_STRING, .required = true, .doc = "\"0-11\" or \"12\"."),
    RUN(dims, FIELD_NODE, .required = true, .doc = "Parallel dimension of each mesh atom."),
    RUN(zero, FIELD_INT, .min = 0, .max = 3, .doc = "ZeRO stage 0 to 3."),
    RUN(recompute, FIELD_ENUM, .names = recompute_names, .doc = "What backward computes again."),
    RUN(recompute_except, FIELD_STRING,
        .doc = "Operators of the layer that are kept where recompute forgets what the layer makes, and computed again "
               "where it keeps that, as \"q+k+v\"; those that it has not got are passed over. none when absent."),
    RUN(offload, FIELD_ENUM, .names = offload_names,
        .doc = "What lies in host memory while nobody reads it; none when absent."),
    RUN(reshard, FIELD_BOOL,
        .doc =
            "Whether what ZeRO-3 gathered is given up after each pass of the layer; false: after its last pass of the "
            "step (FSDP: reshard_after_forward). true when absent."),
    RUN(replicate, FIELD_STRING,
        .doc =
            "Operators of the layer whose weights are not sharded whatever zero says, as \"q+k+v\"; those that it has "
            "not got are passed over. none when absent."),
    RUN(slices, FIELD_INT, .min = 1, .max = INT16_MAX, .doc = "Rounds in which the layer's sliceable operators run."),
};
/* Strings of the file while it is read; the plan keeps none. */
struct reading {
    struct arena arena;
    struct plan *plan;
};

/* "FIRST-LAST" or "LAYER", ascending; *at moves behind it. Numbers that are too large stay so. */
static bool scan_range(const char **at, int *first, int *last)
{
    enum { TOO_MANY = 100000000 };
    int *numbers[] = { first, last };
    for (int i = 0; i < 2; i++) {
        int value = 0;
        if (**at < '0' || **at > '9')
            return false;
        for (; **at >= '0' && **at <= '9'; ++*at)
            value = value < TOO_MANY ? value * 10 + (**at - '0') : value;
        *numbers[i] = *last = value;
        if (i > 0 || **at != '-')
            break;
        ++*at;
    }
    return *last >= *first;
}

/* "FIRST-LAST" or "LAYER" up to the end or a separator, which must begin at *next; sets the count and moves *next
 * behind it. */
static bool read_range(const struct json *object, const char *text, char separator, int *next, int *count,
                       struct error *err)
{
    int first = 0, last = 0;
    const char *at = text;
    bool good = scan_range(&at, &first, &last) && last < MAX_FILE_LAYERS;
    const struct json *where = json_member(object, "layers");
    if (!good || (*at && *at != separator) || last < first)
        return json_fail(where, err, "expected a layer or a range of layers such as \"0-11\", found \"%s\"", text);
    if (first != *next)
        return json_fail(where, err, "expected a range that begins at layer %d, found \"%s\"", *next, text);
    *count = last - first + 1;
    *next = last + 1;
    return true;
}

/* The number of layers is where the last range ends. */
static bool count_layers(const struct json *layers, struct reading *r, int *total, struct error *err)
{
    int count = 0;
    *total = 0;
    for (int i = 0; i < json_count(layers); i++) {
        struct run_fields run = { .slices = 1, .reshard = true };
        const struct json *at = json_at(layers, i);
        if (!READ_FIELDS(at, layer_fields, &run, &r->arena, err) || !read_range(at, run.layers, 0, total, &count, err))
            return false;
    }
    return true;
}

/* Where the comma-separated ranges of a stage's entry begin; false: there are not as many as chunks. */
static bool find_range(const struct json *entry, const char *text, int chunk, int chunks, const char **out,
                       struct error *err)
{
    int found = 1;
    *out = text;
    for (const char *at = text; *at; at++) {
        if (*at != ',')
            continue;
        if (found == chunk)
            *out = at + 1;
        found++;
    }
    return found == chunks || json_fail(json_member(entry, "layers"), err,
                                        "expected %d ranges of layers as interleave says, found %d", chunks, found);
}

/* Replicas beside the first are entries of the plan but not of the file. */
static bool count_stages(const struct json *stages, struct reading *r, int *total, struct error *err)
{
    *total = 0;
    for (int s = 0; s < json_count(stages); s++) {
        struct run_fields run = { .turns = 1 };
        if (!READ_FIELDS(json_at(stages, s), stage_fields, &run, &r->arena, err))
            return false;
        *total += (int)run.turns;
        if (*total > MAX_FILE_LAYERS)
            return json_fail(json_at(stages, s), err, "expected at most %d stages and replicas, found more",
                             MAX_FILE_LAYERS);
    }
    return true;
}

/* The layers of one chunk of one entry, which begin at *layer. */
static bool read_chunk(const struct json *entry, const struct run_fields *run, struct plan *plan, int stage, int chunk,
                       int *layer, struct error *err)
{
    struct layer_range range = { .first = *layer };
    const char *text = NULL;
    if (!find_range(entry, run->layers, chunk, plan->chunk_count, &text, err) ||
        !read_range(entry, text, ',', layer, &range.count, err))
        return false;
    for (int turn = 0; turn < run->turns; turn++)
        plan_set_chunk(plan, stage + turn, chunk, range);
    return true;
}

/* The meshes of one entry: its atoms, and where each replica's ranks begin. */
static bool read_mesh(const struct run_fields *run, struct plan *plan, int first, int64_t *rank, struct error *err)
{
    const struct json *atoms = run->atoms;
    int turns = (int)run->turns;
    int64_t ranks = 1;
    if (!plan_need_array(atoms, 1, MAX_ATOMS, "atom sizes", err))
        return false;
    if (first == 0)
        plan->atom_count = json_count(atoms);
    if (json_count(atoms) != plan->atom_count)
        return json_fail(atoms, err, "expected %d atoms as in the first stage, found %d", plan->atom_count,
                         json_count(atoms));
    for (int i = 0; i < plan->atom_count; i++) {
        int64_t size = 0;
        if (!json_int(json_at(atoms, i), 1, MAX_FILE_RANKS, &size, err))
            return false;
        ranks *= size; /* stays below MAX_FILE_RANKS squared */
        if (ranks > MAX_FILE_RANKS)
            return json_fail(atoms, err, "expected a product of at most %d ranks, found more", MAX_FILE_RANKS);
        for (int turn = 0; turn < turns; turn++)
            plan->stages[first + turn].atom[i] = (int)size;
    }
    for (int turn = 0; turn < turns; turn++) {
        plan->stages[first + turn].turn = turn;
        plan->stages[first + turn].first_rank =
            turn == 0 && run->first_rank >= 0 ? (int)run->first_rank : plan_stage_next_rank(plan, first + turn);
        *rank += ranks;
        if (*rank > MAX_FILE_RANKS)
            return json_fail(atoms, err, "expected at most %d ranks in all stages, found more", MAX_FILE_RANKS);
    }
    return true;
}

static bool read_stages(const struct json *stages, struct reading *r, struct error *err)
{
    struct plan *plan = r->plan;
    int layer = 0;
    int64_t rank = 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        layer = plan_copies(plan) > 1 ? 0 : layer;
        for (int i = 0, s = 0; i < json_count(stages); i++) {
            struct run_fields run = { .turns = 1, .first_rank = -1 };
            int count = json_count(stages);
            int entry = schedule_stage(schedules[plan->schedule], count, c * count + i);
            const struct json *at = json_at(stages, entry);
            if (!READ_FIELDS(at, stage_fields, &run, &r->arena, err) ||
                !read_chunk(at, &run, plan, plan->chunk_count > 1 ? entry : s, c, &layer, err) ||
                (c == 0 && !read_mesh(&run, plan, s, &rank, err)))
                return false;
            s += (int)run.turns;
        }
    }
    plan->rank_count = (int)rank;
    if (layer != plan->layer_count)
        return json_fail(stages, err, "expected the stages to hold all %d layers, found %d", plan->layer_count, layer);
    return true;
}

static const char *nearest_name(const char *word, const char *(*name)(int), int count)
{
    const char *names[64];
    int found = 0;
    for (; found < count && found < 64; found++)
        names[found] = name(found);
    return text_nearest(word, names, (size_t)found);
}

static const char *dimension_name(int index)
{
    return dimensions[index]->name;
}

static const char *schedule_name(int index)
{
    return schedules[index]->name;
}

static bool read_dims(const struct json *dims, const struct plan *plan, struct plan_layer *layer, struct error *err)
{
    if (!plan_need_array(dims, plan->atom_count, plan->atom_count, "dimension names, one per atom", err))
        return false;
    for (int i = 0; i < plan->atom_count; i++) {
        const char *name = NULL;
        if (!json_string(json_at(dims, i), &name, err))
            return false;
        int index = dimension_find(name);
        if (index < 0) {
            const char *near = nearest_name(name, dimension_name, DIM_COUNT);
            return json_fail(json_at(dims, i), err, "expected a parallel dimension, found \"%s\"%s%s%s", name,
                             near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
        }
        layer->dim[i] = (int8_t)index;
    }
    return true;
}

/* Of those that may stand there; NULL: none. */
static bool read_operators(uint64_t *out, const struct json *at, const char *key, const char *text, int64_t possible,
                           struct error *err)
{
    return !text || (operators_read(out, text) && !(*out & ~(uint64_t)possible)) ||
           json_fail(json_member(at, key), err, "expected operators joined by +, such as q+k+v, found \"%s\"", text);
}

static bool read_layers(const struct json *layers, struct reading *r, struct error *err)
{
    struct plan *plan = r->plan;
    int next = 0, count = 0;
    for (int i = 0; i < json_count(layers); i++) {
        struct run_fields run = { .slices = 1, .reshard = true };
        struct plan_layer layer = { .slices = 1 };
        int first = next;
        const struct json *at = json_at(layers, i);
        for (int a = 0; a < MAX_ATOMS; a++)
            layer.dim[a] = DIM_none;
        if (!READ_FIELDS(at, layer_fields, &run, &r->arena, err) ||
            !read_range(at, run.layers, 0, &next, &count, err) || !read_dims(run.dims, plan, &layer, err))
            return false;
        layer.zero = (int8_t)run.zero;
        layer.recompute = (int8_t)run.recompute;
        layer.offload = (int8_t)run.offload;
        layer.reshard = run.reshard ? RESHARD_EACH_PASS : RESHARD_EACH_STEP;
        layer.slices = (int)run.slices;
        uint64_t replicate = 0;
        if (!read_operators(&replicate, at, "replicate", run.replicate, OPERATORS_ALL, err) ||
            !read_operators(&layer.excepted, at, "recompute_except", run.recompute_except, OPERATORS_EVERY, err))
            return false;
        layer.replicate = (uint32_t)replicate;
        for (int l = first; l < next; l++)
            plan->layers[l] = layer;
    }
    return true;
}

bool plan_order_read(const struct json *where, const char *text, struct plan *plan, struct error *err)
{
    int *order = arena_alloc(&plan->arena, (size_t)plan->layer_count, sizeof *order), place = 0, first = 0, last = 0;
    bool *seen = arena_alloc(&plan->arena, (size_t)plan->layer_count, sizeof *seen);
    if (!order || !seen)
        return fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory for %d layers", plan->layer_count);
    for (const char *at = text; *at;) {
        if (!scan_range(&at, &first, &last) || (*at && (*at++ != ',' || !*at)))
            return json_fail(where, err, "expected ranges of layers such as \"0-3,8-11,4-7\", found \"%s\"", text);
        for (int layer = first; layer <= last; layer++) {
            if (layer >= plan->layer_count || seen[layer])
                return json_fail(where, err, "expected each of the layers 0 to %d once, found layer %d%s",
                                 plan->layer_count - 1, layer, layer < plan->layer_count ? " twice" : "");
            seen[layer] = true;
            order[place++] = layer;
        }
    }
    if (place < plan->layer_count)
        return json_fail(where, err, "expected each of the %d layers once, found %d of them", plan->layer_count, place);
    return plan_set_order(plan, order) || fail_memory(err);
}

static bool read_schedule(const struct json *decisions, const char *name, int *out, struct error *err)
{
    int count = 0;
    while (schedules[count])
        count++;
    *out = schedule_find(name);
    if (*out >= 0)
        return true;
    const char *near = nearest_name(name, schedule_name, count);
    return json_fail(json_member(decisions, "schedule"), err, "expected the name of a schedule, found \"%s\"%s%s%s",
                     name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* What was written by hand beside decisions that say otherwise. */
static bool check_micro_batch_size(const struct json *decisions, const struct plan *plan, int64_t size,
                                   struct error *err)
{
    int64_t own = plan_micro_batch_size(plan);
    return own == 0 || size == own ||
           json_fail(json_member(decisions, "micro_batch_size"), err,
                     "expected %lld, which is the batch by micro-batches and replicas, found %lld; leave it out",
                     (long long)own, (long long)size);
}

static bool read_decisions(const struct json *decisions, struct reading *r, struct error *err)
{
    struct decision_fields in = { .vocab_multiple = 1, .interleave = 1, .loss_chunks = 1 };
    int layers = 0, schedule = 0, stages = 0;
    if (!READ_FIELDS(decisions, decision_fields, &in, &r->arena, err) ||
        !plan_need_array(in.stages, 1, MAX_FILE_LAYERS, "stages", err) ||
        !plan_need_array(in.layers, 1, MAX_FILE_LAYERS, "layers", err) ||
        !read_schedule(decisions, in.schedule, &schedule, err) || !count_layers(in.layers, r, &layers, err) ||
        !count_stages(in.stages, r, &stages, err))
        return false;
    r->plan = plan_new(stages, layers);
    if (!r->plan || !plan_set_chunks(r->plan, (int)in.interleave))
        return fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory for %d layers", layers);
    r->plan->batch = in.batch;
    r->plan->sequence = in.sequence;
    r->plan->vocab_multiple = in.vocab_multiple;
    r->plan->dtype = (enum dtype)in.dtype;
    memcpy(r->plan->optimizer.part, in.optimizer, sizeof in.optimizer);
    r->plan->micro_batch_count = (int)in.micro_batches;
    r->plan->chunk_group = (int)in.chunk_group;
    r->plan->extra_in_flight = (int)in.extra_in_flight;
    r->plan->bucket_bytes = in.bucket_bytes;
    r->plan->prefetch = (int)in.prefetch;
    r->plan->loss_chunks = (int)in.loss_chunks;
    r->plan->clock = in.clock;
    r->plan->clip_norm = in.clip_norm;
    r->plan->whole_blocks = in.whole_blocks;
    r->plan->schedule = schedule;
    if (in.interleave > 1 && stages > json_count(in.stages))
        return json_fail(in.stages, err, "expected no turns beside interleave, found %d replicas of %d stages", stages,
                         json_count(in.stages));
    return read_stages(in.stages, r, err) && read_layers(in.layers, r, err) &&
           (!in.order || plan_order_read(json_member(decisions, "order"), in.order, r->plan, err)) &&
           (in.micro_batch_size == 0 || check_micro_batch_size(decisions, r->plan, in.micro_batch_size, err));
}

bool plan_json_read_decisions(struct plan **out, const struct json *decisions, struct error *err)
{
    struct reading r = { 0 };
    bool good = read_decisions(decisions, &r, err);
    arena_free(&r.arena);
    if (good)
        *out = r.plan;
    else
        plan_free(r.plan);
    return good;
}

const struct json_format plan_decision_formats[] = {
    JSON_FORMAT("plan.decisions", decision_fields, "Part of a plan file."),
    JSON_FORMAT("plan.stage", stage_fields, "Part of a plan file."),
    JSON_FORMAT("plan.layers", layer_fields, "Part of a plan file."),
    { 0 },
};
