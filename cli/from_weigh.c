/* What would be better than a launch: one change, or two at once, each looked at by a few micro-batches. */
#include "base/num.h"
#include "cli/aim.h"
#include "cli/from.h"
#include "cli/progress.h"
#include "planner/estimate/estimate.h"
#include "planner/program/schedule.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct change {
    char words[FROM_WORDS];
    struct launch launch;
    int64_t promise; /* less is better: its step, whether it fits or not, where the launch fits, else what it needs of
                        memory; 0: none */
    int64_t step_ns; /* 0: it breaks a rule, cannot be planned, does not fit, or takes as long as the launch */
    struct error why;
};
enum { MOST_CHANGES = 52, MOST_PAIRS = 32 };

/* Another one that is like the launch until it is changed; NULL: there are enough. */
static struct change *add_change(struct change *list, int *count, const struct launch *own)
{
    if (*count == MOST_CHANGES)
        return NULL;
    struct change *c = &list[(*count)++];
    *c = (struct change){ .launch = *own };
    return c;
}

static void set_number(struct change *list, int *count, const struct launch *own, size_t offset, const char *name,
                       int64_t value)
{
    int64_t was;
    memcpy(&was, (const char *)own + offset, sizeof was);
    struct change *c = value >= 1 && value != was ? add_change(list, count, own) : NULL;
    if (!c)
        return;
    memcpy((char *)&c->launch + offset, &value, sizeof value);
    snprintf(c->words, sizeof c->words, "%s %lld in place of %lld", name, (long long)value, (long long)was);
}

/* The number that stands at the offset in a launch, halved and doubled. */
static void change_number(struct change *list, int *count, const struct launch *own, size_t offset, const char *name)
{
    int64_t was;
    memcpy(&was, (const char *)own + offset, sizeof was);
    set_number(list, count, own, offset, name, was / 2);
    set_number(list, count, own, offset, name, 2 * was);
}

/* What follows from a change: ranks that it frees or takes are data-parallel ones, other stages are cut anew. */
static void settle(struct launch *l, const struct launch *own, int64_t ranks)
{
    l->data = ranks / (l->tensor * l->context * l->pipeline);
    l->sequence_parallel = l->sequence_parallel && l->tensor > 1;
    if (l->pipeline != own->pipeline || l->chunks != own->chunks) {
        l->piece_count = 0;
        l->piece_blocks = NULL;
        l->further_piece = l->further > 0 ? (int)(l->pipeline * l->chunks) - 1 : 0;
    }
    if (l->pipeline != own->pipeline || l->chunks != own->chunks ||
        l->data * l->micro_batch != own->data * own->micro_batch) {
        int64_t each = l->data * l->micro_batch; /* 0: more ranks than there are, which no look takes */
        int64_t count = each > 0 ? l->batch / each : 0;
        int group =
            schedules[l->schedule]->grouped && count > 0 ? schedule_least_group((int)l->pipeline, (int)count) : 0;
        l->chunk_group = group > l->pipeline ? group : 0;
    }
    if (l->pipeline == 1) {
        l->chunks = 1;
        l->chunk_group = 0;
        l->schedule = schedule_find("1f1b");
    }
}

/* Each changes one thing. */
static int list_changes(struct change *list, const struct launch *own, int64_t blocks)
{
    struct change *c;
    int count = 0, other = own->recompute == RECOMPUTE_NONE ? RECOMPUTE_BLOCK : RECOMPUTE_NONE;
    change_number(list, &count, own, offsetof(struct launch, tensor), "tp");
    change_number(list, &count, own, offsetof(struct launch, context), "cp");
    change_number(list, &count, own, offsetof(struct launch, pipeline), "pp");
    change_number(list, &count, own, offsetof(struct launch, micro_batch), "micro-batch");
    if ((c = add_change(list, &count, own))) {
        c->launch.recompute = other;
        c->launch.excepted = 0;
        c->launch.recompute_first = 0;
        snprintf(c->words, sizeof c->words, "recompute %s", other == RECOMPUTE_NONE ? "none" : "full");
    }
    for (int64_t part = 1, first = 0, before; part < 4 && own->excepted == 0; part++) {
        before = first;
        first = launch_most_blocks(own, blocks) * part / 4;
        if (first == before || (own->recompute != RECOMPUTE_NONE && own->recompute_first == first) ||
            !(c = add_change(list, &count, own)))
            continue;
        c->launch.recompute = RECOMPUTE_BLOCK;
        c->launch.recompute_first = first;
        snprintf(c->words, sizeof c->words, "recompute full of the first %lld of each piece's blocks",
                 (long long)first);
    }
    for (int zero = 0; zero < 4; zero++)
        if (zero != own->zero && (c = add_change(list, &count, own))) {
            c->launch.zero = zero;
            snprintf(c->words, sizeof c->words, "ZeRO %d in place of %lld", zero, (long long)own->zero);
        }
    if (own->tensor > 1 && (c = add_change(list, &count, own))) {
        c->launch.sequence_parallel = !own->sequence_parallel;
        snprintf(c->words, sizeof c->words, "%s sequence parallelism", own->sequence_parallel ? "without" : "with");
    }
    for (int64_t chunks = 2; own->pipeline > 1 && own->chunks == 1 && chunks <= 4; chunks *= 2)
        if ((c = add_change(list, &count, own))) {
            c->launch.chunks = chunks;
            c->launch.schedule = schedule_find("interleaved");
            snprintf(c->words, sizeof c->words, "%lld chunks on each stage, interleaved", (long long)chunks);
        }
    return count;
}

/* The same of a launch that none of these makes fit: the steps are longer. */
static int list_large_changes(struct change *list, const struct launch *own, const struct target *target)
{
    int count = 0;
    for (int64_t times = 4; times <= 16; times *= 2) {
        set_number(list, &count, own, offsetof(struct launch, tensor), "tp", times * own->tensor);
        set_number(list, &count, own, offsetof(struct launch, pipeline), "pp", times * own->pipeline);
        set_number(list, &count, own, offsetof(struct launch, context), "cp", times * own->context);
    }
    if (own->micro_batch > 2) /* half of it was tried */
        set_number(list, &count, own, offsetof(struct launch, micro_batch), "micro-batch", 1);
    for (int what = OFFLOAD_NONE + 1; what < OFFLOAD_COUNT; what++) {
        struct change *c = what != own->offload ? add_change(list, &count, own) : NULL;
        if (c) {
            bool needs = what == OFFLOAD_OPTIMIZER && target->offload_needs;
            c->launch.offload = what;
            if (needs) {
                c->launch.optimizer.moments = MOMENTS_FULL;
                c->launch.optimizer.master = MASTER_KEPT;
            }
            snprintf(c->words, sizeof c->words, "offload %s%s%s%s", offload_names[what], needs ? " (" : "",
                     needs ? target->offload_needs : "", needs ? ")" : "");
        }
    }
    return count;
}

/* Changes that are looked at beside each other. */
struct look {
    const struct from *from;
    const struct inputs *in;
    struct change *list;
    int64_t worth_ns;
    bool fits; /* the launch does */
};

/* A look at few micro-batches. */
static void try_change(struct look *look, struct inputs *in, struct change *change)
{
    const struct launch *before = &look->from->read.launch;
    struct launch l = change->launch;
    struct plan *plan = NULL;
    struct estimate *estimate = NULL;
    struct space space = space_default(l.batch, l.sequence, l.dtype);
    settle(&l, before, before->tensor * before->context * before->pipeline * before->data);
    bool good = l.tensor * l.context * l.pipeline * l.data == in->cluster->device_count &&
                aim_check(in, look->from->target, &l, look->from->read.beyond, &change->why);
    in->graph = NULL; /* the launch's */
    good = good && from_plan(&plan, look->from, &l, in, &space, &change->why) &&
           estimate_plan_paced(&estimate, NULL, in->model, in->graph, plan, &in->facts, look->worth_ns, &change->why);
    /* Few micro-batches wait for bytes of states that come and go once a step, which that look takes for each one's. */
    if (good && !estimate->beaten && estimate->prediction.fits && l.offload != OFFLOAD_NONE) {
        estimate_free(estimate);
        estimate = NULL;
        good = given_estimate(&estimate, in, plan, &change->why);
    }
    if (good && !estimate->beaten) {
        change->step_ns = estimate->prediction.fits ? estimate->prediction.step_ns : 0;
        change->promise = look->fits ? estimate->prediction.step_ns : estimate_peak_bytes(&estimate->prediction);
    } else if (good) {
        change->promise = estimate->apart_ns;
    }
    graph_free(in->graph);
    estimate_free(estimate);
    plan_free(plan);
}

static void try_one(void *context, int index)
{
    struct look *look = context;
    struct inputs own = *look->in; /* what is made for a change is its own */
    own.arena = (struct arena){ 0 };
    try_change(look, &own, &look->list[index]);
    arena_free(&own.arena);
}

static void keep(struct from *from, const struct change *change, int64_t step_ns)
{
    int at = from->better_count < FROM_BETTER ? from->better_count++ : FROM_BETTER;
    for (; at > 0 && from->better[at - 1].step_ns > step_ns; at--)
        if (at < FROM_BETTER)
            from->better[at] = from->better[at - 1];
    if (at == FROM_BETTER)
        return;
    from->better[at].step_ns = step_ns;
    memcpy(from->better[at].words, change->words, sizeof change->words);
}

/* What shortens a step by less than one part in so many is shown as 0.0 %, and no advice. */
enum { LEAST_GAIN_SHARE = 2000 };

/* Looks at all of the list, and keeps the best that take less than the launch, or fit where it does not. */
static bool keep_best(struct from *from, const struct inputs *in, struct change *list, int count,
                      const struct estimate *estimate, struct progress *progress, struct error *err)
{
    enum { WAVE = 4 }; /* changes of a thread between two words of progress */
    const struct space space = { 0 };
    const struct search_options options = space_search_options(&from->job, &space);
    const struct workers *workers = &options.calls.workers;
    int64_t own_ns = estimate->prediction.step_ns;
    bool fits = estimate->prediction.fits, good = true;
    struct look look = { from, in, list, .worth_ns = fits ? own_ns - own_ns / LEAST_GAIN_SHARE : INT64_MAX, fits };
    for (int at = 0, wave = WAVE * workers_at_once(workers); at < count; at += wave) {
        progress_say(progress, "changes of the launch, %d of %d", at, count);
        look.list = list + at;
        workers_each(workers, (int)min_i64(wave, count - at), try_one, &look);
    }
    progress_clear(progress);
    for (int i = 0; i < count && good; i++) {
        good = (list[i].why.kind != ERROR_ENVIRONMENT && list[i].why.kind != ERROR_BUG) || fail_with(err, &list[i].why);
        if (good && list[i].step_ns > 0 && list[i].step_ns < look.worth_ns)
            keep(from, &list[i], list[i].step_ns);
    }
    return good;
}

/* ---- two at once ---- */

/* What one change may touch; a group is changed as one. */
static const struct part {
    size_t offset, bytes;
    int group;
} parts[] = {
#define PART(member, group)                                                                                            \
    {                                                                                                                  \
        offsetof(struct launch, member), sizeof(((struct launch *)0)->member), group                                   \
    }
    PART(tensor, 0),          PART(context, 1),  PART(pipeline, 2),  PART(micro_batch, 3),       PART(recompute, 4),
    PART(recompute_first, 4), PART(excepted, 4), PART(zero, 5),      PART(sequence_parallel, 6), PART(chunks, 7),
    PART(schedule, 7),        PART(offload, 8),  PART(optimizer, 8),
#undef PART
};

/* The groups that a change touches, a bit each. */
static unsigned groups_of(const struct launch *changed, const struct launch *own)
{
    unsigned groups = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (memcmp((const char *)changed + parts[i].offset, (const char *)own + parts[i].offset, parts[i].bytes) != 0)
            groups |= 1u << parts[i].group;
    return groups;
}

/* Both; false: they touch the same, need more ranks than there are, or mean nothing together. */
static bool join(struct change *out, const struct change *a, const struct change *b, const struct launch *own)
{
    unsigned groups = groups_of(&b->launch, own);
    int64_t ranks = own->tensor * own->context * own->pipeline * own->data;
    if (groups & groups_of(&a->launch, own))
        return false;
    *out = *a;
    out->promise = out->step_ns = 0;
    out->why = (struct error){ 0 };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (groups >> parts[i].group & 1)
            memcpy((char *)&out->launch + parts[i].offset, (const char *)&b->launch + parts[i].offset, parts[i].bytes);
    snprintf(out->words, sizeof out->words, "%.90s, %.90s", a->words, b->words);
    if (out->launch.recompute_first != own->recompute_first && out->launch.pipeline != own->pipeline)
        return false; /* of pieces that are no longer there */
    return ranks % (out->launch.tensor * out->launch.context * out->launch.pipeline) == 0;
}

static int by_promise(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    return (x->promise > y->promise) - (x->promise < y->promise);
}

/* Up to `most` pairs of those that promise most, of each group two. */
static int list_pairs(struct change *pairs, int most, struct change *list, int count, const struct launch *own)
{
    enum { EACH = 2 };
    int chosen = 0, pair_count = 0, of_group[32] = { 0 };
    qsort(list, (size_t)count, sizeof *list, by_promise);
    for (int i = 0; i < count; i++) {
        unsigned groups = groups_of(&list[i].launch, own);
        int group = 0;
        while (group < 31 && groups >> group && !(groups >> group & 1))
            group++;
        if (list[i].promise > 0 && of_group[group]++ < EACH)
            list[chosen++] = list[i];
    }
    for (int sum = 1; sum < 2 * chosen; sum++) /* the best two first */
        for (int i = 0; 2 * i < sum; i++)
            if (sum - i < chosen && pair_count < most && join(&pairs[pair_count], &list[i], &list[sum - i], own))
                pair_count++;
    return pair_count;
}

bool from_weigh(struct from *from, struct inputs *in, const struct estimate *estimate, struct error *err)
{
    const bool fits = estimate->prediction.fits;
    struct change *list = arena_alloc(&in->arena, MOST_CHANGES, sizeof *list);
    struct change *pairs = arena_alloc(&in->arena, MOST_PAIRS, sizeof *pairs);
    struct progress progress;
    int64_t blocks = 0;
    if (!list || !pairs)
        return fail_memory(err);
    progress_begin(&progress, in->cli, "estimate");
    for (int l = 0; l < in->graph->layer_count; l++)
        blocks += in->graph->layers[l].block >= 0;
    const struct launch own = from->read.launch;
    from->tried = list_changes(list, &own, blocks);
    if (!keep_best(from, in, list, from->tried, estimate, &progress, err))
        return false;
    if (!fits && from->better_count == 0) {
        int more = list_large_changes(list + from->tried, &own, from->target);
        from->tried += more;
        if (!keep_best(from, in, list + from->tried - more, more, estimate, &progress, err))
            return false;
    }
    if (from->better_count > 0)
        return true;
    /* those that fit are looked at for longer */
    from->pairs_tried = list_pairs(pairs, fits ? MOST_PAIRS / 4 : MOST_PAIRS, list, from->tried, &own);
    return keep_best(from, in, pairs, from->pairs_tried, estimate, &progress, err);
}
