/* Galvatron's strategy (Miao et al. 2022, github.com/PKU-DAIR/Hetu-Galvatron): the galvatron_config JSON that its
 * search writes and its runtime trains by. Read, not written. Its layers are a model's blocks; of what may differ
 * between them, checkpoints and kinds of data parallelism are kept block by block, degrees must be alike. */
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/space/space.h"
#include "targets/settings.h"
#include "targets/target.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 1 << 14 };

/* Numbers with commas between them, one for each block. *count 0: as many as there are; the key's absence leaves *out
 * NULL. */
static bool read_list(struct settings *settings, const char *key, int64_t least, int64_t most, int *count, int **out,
                      const struct setting **at, struct error *err)
{
    const struct setting *setting = *at = settings_take(settings, key);
    int found = 0;
    *out = NULL;
    if (!setting)
        return true;
    int *list = arena_alloc(settings->arena, MOST_BLOCKS, sizeof *list);
    if (!list)
        return fail_memory(err);
    for (const char *c = setting->value;; c++) {
        char *end;
        long value = strtol(c, &end, 10);
        if (end == c || (*end && *end != ',') || value < least || value > most)
            return setting_fail(settings, setting, err,
                                "expected whole numbers from %lld to %lld with commas between them, found %.80s",
                                (long long)least, (long long)most, setting->value);
        if (found == MOST_BLOCKS)
            return setting_fail(settings, setting, err, "expected at most %d numbers, found more", MOST_BLOCKS);
        list[found++] = (int)value;
        c = end;
        if (!*c)
            break;
    }
    if (*count && found != *count)
        return setting_fail(settings, setting, err, "expected as many numbers as tp_sizes_enc (%d), found %d", *count,
                            found);
    *count = found;
    *out = list;
    return true;
}

/* A degree that all blocks have. */
static bool read_degree(struct settings *settings, const char *key, int *count, int64_t *out, struct error *err)
{
    const struct setting *at;
    int *list;
    if (!read_list(settings, key, 1, MOST_DEGREE, count, &list, &at, err))
        return false;
    *out = list ? list[0] : 1;
    for (int i = 1; list && i < *count; i++)
        if (list[i] != list[0])
            return setting_fail(settings, at, err,
                                "layer %d has %d where layer 0 has %d: a launch has one degree for all blocks", i,
                                list[i], list[0]);
    return true;
}

static bool read_degrees(struct launch_read *out, struct settings *settings, int *blocks, struct error *err)
{
    struct launch *l = &out->launch;
    const struct setting *at, *consecutive;
    int64_t width, within, others, all;
    int *ulysses, *flags;
    if (!settings_int(settings, "pp_deg", 1, MOST_DEGREE, &l->pipeline, NULL, err) ||
        !read_degree(settings, "tp_sizes_enc", blocks, &width, err))
        return false;
    if (!*blocks)
        return fail(err, "%s:1:1: expected the key \"tp_sizes_enc\", which a strategy of Galvatron has",
                    settings->name);
    if (!read_degree(settings, "cp_sizes_enc", blocks, &l->context, err) ||
        !read_degree(settings, "ep_sizes_enc", blocks, &l->expert, err) ||
        !read_degree(settings, "tp_of_ep_sizes_enc", blocks, &within, err) ||
        !read_list(settings, "tp_consecutive_flags", 0, 1, blocks, &flags, &consecutive, err) ||
        !read_list(settings, "use_sp", 0, 1, blocks, &ulysses, &at, err))
        return false;
    for (int i = 0; ulysses && i < *blocks; i++)
        if (ulysses[i] != ulysses[0] && width > 1)
            return setting_fail(settings, at, err, "layer %d has %d where layer 0 has %d: a launch has one of them", i,
                                ulysses[i], ulysses[0]);
    for (int i = 0; flags && i < *blocks; i++)
        if (!flags[i] && width > 1)
            return setting_fail(settings, consecutive, err,
                                "layer %d has 0: its tensor-parallel ranks are not neighbours, which no launch says",
                                i);
    if (within > 1)
        return fail(err, "%s: tp_of_ep_sizes_enc %lld: a launch has experts whole on their ranks", settings->name,
                    (long long)within);
    l->tensor = width;
    l->context_dimension = DIM_cp_ring;
    if (ulysses && ulysses[0] && width > 1) {
        if (l->context > 1)
            return setting_fail(settings, at, err, "expected cp_sizes_enc 1 beside it, found %lld",
                                (long long)l->context);
        l->context = width;
        l->tensor = 1;
        l->context_dimension = DIM_cp_ulysses;
    }
    l->sequence_parallel = l->tensor > 1; /* which its cost model demands (cost_model/components) */
    if (!mul_i64(&others, l->tensor, l->context) || !mul_i64(&all, others, l->pipeline) || all > MOST_DEGREE)
        return fail(err, "%s: expected at most %d ranks in pp_deg x tp_sizes_enc x cp_sizes_enc, found more",
                    settings->name, MOST_DEGREE);
    return true;
}

static bool read_pipeline(struct launch_read *out, struct settings *settings, int blocks, struct error *err)
{
    static const char *const types[] = { "gpipe", "pipedream_flush", NULL };
    struct launch *l = &out->launch;
    const struct setting *at;
    int type = 1, stages = 0, sum = 0, *list;
    if (!settings_word(settings, "pipeline_type", types, &type, NULL, err) ||
        !read_list(settings, "pp_division", 0, MOST_BLOCKS, &stages, &list, &at, err) ||
        !settings_int(settings, "global_bsz", 1, MOST_COUNT, &l->batch, &out->says_batch, err) ||
        !settings_int(settings, "chunks", 1, MOST_COUNT, &out->micro_batches, NULL, err))
        return false;
    l->schedule = schedule_find(type == 0 && l->pipeline > 1 ? "gpipe" : "1f1b");
    if (!out->says_batch || out->micro_batches == 0)
        return fail(err, "%s:1:1: expected the keys \"global_bsz\" and \"chunks\", which a strategy of Galvatron has",
                    settings->name);
    for (int s = 0; list && s < stages; s++)
        sum += list[s];
    if (list && (stages != l->pipeline || sum != blocks))
        return setting_fail(settings, at, err,
                            "expected %lld numbers (pp_deg) that add up to the %d layers, found %d that add up to %d",
                            (long long)l->pipeline, blocks, stages, sum);
    if (!list) { /* as many each, the last the rest (hybrid_parallel_config.py) */
        if (l->pipeline > blocks)
            return fail(err, "%s: pp_deg %lld: expected at most the %d layers", settings->name, (long long)l->pipeline,
                        blocks);
        list = arena_alloc(settings->arena, (size_t)l->pipeline, sizeof *list);
        if (!list)
            return fail_memory(err);
        for (int s = 0; s < (int)l->pipeline; s++)
            list[s] = blocks / (int)l->pipeline + (s + 1 < (int)l->pipeline ? 0 : blocks % (int)l->pipeline);
    }
    l->piece_count = (int)l->pipeline;
    l->piece_blocks = list;
    return true;
}

/* ZeRO and checkpoints, block by block; ends have one of the first. */
static bool read_blocks(struct launch_read *out, struct settings *settings, int blocks, struct error *err)
{
    static const char *const types[] = { "ddp", "zero2", "zero3", NULL };
    static const int stages[] = { 0, 2, 3 };
    struct launch *l = &out->launch;
    const struct setting *at;
    int usual = 0, *zero, *again;
    int64_t ends = 0;
    if (!settings_word(settings, "default_dp_type", types, &usual, NULL, err) ||
        !read_list(settings, "dp_types_enc", 0, 1, &blocks, &zero, &at, err) ||
        !read_list(settings, "checkpoint", 0, 1, &blocks, &again, &at, err) ||
        !settings_int(settings, "embed_sdp", 0, 1, &ends, NULL, err) ||
        !settings_int(settings, "vocab_sdp", 0, 1, &ends, NULL, err))
        return false;
    struct block_launch *list = arena_alloc(settings->arena, (size_t)blocks, sizeof *list);
    if (!list)
        return fail_memory(err);
    for (int i = 0; i < blocks; i++) {
        list[i].zero = zero && zero[i] ? 3 : stages[usual];
        list[i].recompute = again && again[i] ? RECOMPUTE_BLOCK : RECOMPUTE_NONE;
    }
    l->zero = list[0].zero;
    l->recompute = list[0].recompute;
    out->blocks = list;
    out->block_count = blocks;
    out->ends_zero = ends ? 3 : stages[usual];
    return true;
}

static bool read(struct launch_read *out, struct arena *arena, const char *name, const char *text, size_t length,
                 struct error *err)
{
    struct settings settings = { .arena = arena, .name = name };
    const struct launch *l = &out->launch;
    int64_t tensor = 1, sequence = 0, context = 1;
    int blocks = 0;
    launch_read_begin(out);
    out->launch.zero = 0;
    if (!settings_read_json(&settings, text, length, err) || !read_degrees(out, &settings, &blocks, err) ||
        !read_pipeline(out, &settings, blocks, err) || !read_blocks(out, &settings, blocks, err))
        return false;
    /* Embedding and head have degrees of their own, which are listed where they are not those of the blocks. */
    for (int i = 0; i < settings.count; i++) {
        struct setting *s = &settings.list[i];
        int64_t *own = strcmp(s->key, "vtp") == 0 || strcmp(s->key, "vocab_tp") == 0   ? &tensor
                       : strcmp(s->key, "vsp") == 0 || strcmp(s->key, "vocab_sp") == 0 ? &sequence
                       : strcmp(s->key, "vcp") == 0 || strcmp(s->key, "vocab_cp") == 0 ? &context
                                                                                       : NULL;
        if (own && !settings_int(&settings, s->key, 0, MOST_DEGREE, own, NULL, err))
            return false;
        if (own)
            s->taken = false;
    }
    bool ulysses = l->context_dimension == DIM_cp_ulysses && l->context > 1;
    if (tensor == (ulysses ? l->context : l->tensor) && (tensor == 1 || (sequence != 0) == ulysses) &&
        context == (ulysses ? 1 : l->context))
        out->ignored_count += settings_take_all(&settings, (const char *const[]){ "v", NULL });
    return settings_left(&settings, &out->unknown_count, &out->unknown) || fail_memory(err);
}

static const struct target_rule rules[] = { { 0 } };
extern const struct target target_galvatron;
const struct target target_galvatron = {
    .name = "galvatron",
    .short_name = "galvatron",
    .release = "Galvatron 2.4",
    .doc = "a strategy of Galvatron: galvatron_config_*.json, whose layers are the blocks of --model",
    .rules = rules,
    .read = read,
};
