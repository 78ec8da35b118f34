#include "planner/estimate/effort.h"
#include "planner/search/batch.h"
#include "base/num.h"
#include "planner/space/space_parts.h"
#include "planner/tables/workbench.h"
#include <math.h>
#include <stdio.h>

struct batches {
    const struct model *model;
    const struct facts *facts;
    const struct search_options *options;
    struct workbench bench;
    struct space space; /* with the batch asked about */
    struct batch_choice *choice;
    struct search_result *results[BATCH_TRIES]; /* of the tries; NULL: none */
    int64_t start_ns, most;
    struct error *err;
};

double batch_rate(const struct batch_try *tried)
{
    return tried->step_ns > 0 ? (double)tried->batch / (double)tried->step_ns * 1e9 : 0;
}

static double best_rate(const struct batches *b)
{
    double best = 0;
    for (int i = 0; i < b->choice->try_count; i++)
        best = fmax(best, batch_rate(&b->choice->tries[i]));
    return best;
}

/* Gives the smallest of the batches that are as good as the best; -1 where none has a plan. */
static int best_try(const struct batches *b)
{
    const struct batch_try *tries = b->choice->tries;
    double enough = best_rate(b) / (1 + BATCH_BETTER_PPM / 1e6);
    int best = -1;
    for (int i = 0; i < b->choice->try_count; i++)
        if (tries[i].step_ns > 0 && batch_rate(&tries[i]) >= enough && (best < 0 || tries[i].batch < tries[best].batch))
            best = i;
    return best;
}

/* True when the space has a configuration for the batch. */
static bool takes(struct batches *b, int64_t batch)
{
    b->space.batch = batch;
    return batch >= 1 && batch <= b->most && space_count(&b->space, b->bench.graph, b->facts->cluster) > 0;
}

/* Searches with the batch, for its share of the time that is left for all that doubling may come to. */
static bool search_of(const struct batches *b, int64_t batch, bool advice, struct search_result **out,
                      struct error *err)
{
    struct search_options options = *b->options;
    int shares = 1;
    for (int64_t larger = batch; !advice && larger <= b->most / 2; larger *= 2)
        shares++;
    if (options.time_limit_ns > 0)
        options.time_limit_ns = max_i64(search_time_left(&options, b->start_ns) / shares, 1);
    options.space.batch = batch;
    options.no_advice = options.no_advice || !advice;
    return search_run(out, b->model, b->facts, &options, err);
}

static bool is_over(const struct batches *b)
{
    return search_time_left(b->options, b->start_ns) == 0;
}

static int64_t step_of(const struct search_result *result)
{
    return result->feasible ? result->plans[0].estimate->prediction.step_ns : 0;
}

/* Returns false at a failure that is not this batch's own, or when time is over. */
static bool try_batch(struct batches *b, int64_t batch)
{
    struct batch_choice *choice = b->choice;
    struct search_result **result = &b->results[choice->try_count];
    struct error why = { 0 };
    if (choice->try_count == BATCH_TRIES || !takes(b, batch))
        return true;
    if (is_over(b) && choice->try_count > 0)
        return false;
    if (!search_of(b, batch, false, result, &why)) { /* what earlier ones found stands when time is over */
        if (why.kind == ERROR_INPUT && choice->try_count > 0)
            b->most = batch - 1; /* so many are beyond 63 bits */
        else if (is_over(b) ? best_try(b) < 0 : !why.ended)
            return fail_with(b->err, &why);
        choice->ended = choice->ended || why.ended;
        return true;
    }
    choice->tries[choice->try_count++] = (struct batch_try){ batch, step_of(*result) };
    choice->ended = choice->ended || (*result)->certificate.ended;
    return true;
}

/* Gives the smallest batch that has a configuration; 0 where no allowed batch has one. */
static int64_t least_batch(struct batches *b)
{
    b->space.batch = 0;
    int64_t least = space_nearest_batch(&b->space, b->bench.graph, b->facts->cluster, true);
    return least <= b->most ? least : 0;
}

static int64_t odd_part(int64_t value)
{
    while (value > 1 && value % 2 == 0)
        value /= 2;
    return value;
}

/* Begins with the odd factors that data degrees, stages and micro-batches may have, since doubling brings none: those
 * of the devices and of the allowed micro-batches at once, times the power of two that the space needs. Begins with the
 * smallest batch where that is too many sequences. */
static int64_t first_batch(struct batches *b)
{
    const struct allowed *micro = &b->options->space.micro;
    int64_t first = odd_part(b->facts->cluster->device_count), all = 1;
    for (int i = 0; i < micro->count && all <= b->most; i++) {
        int64_t odd = odd_part(micro->values[i]);
        all *= odd / common_divisor(all, odd);
    }
    first *= all <= b->most ? all : 1;
    while (first <= b->most && !takes(b, first))
        first *= 2;
    return first <= b->most ? first : least_batch(b);
}

/* Doubles the batch until it is no longer worth it. Returns false at a failure, or when time is over. */
static bool try_doubled(struct batches *b, int64_t batch)
{
    int idle = 0;
    while (batch * 2 * 8 <= b->facts->cluster->device_count && batch * 2 <= b->most)
        batch *= 2;
    for (; batch <= b->most && idle < 2; batch *= 2) {
        double before = best_rate(b);
        if (!try_batch(b, batch))
            return false;
        idle = best_rate(b) > before * (1 + BATCH_WORTH_PPM / 1e6) || best_rate(b) == 0 ? 0 : idle + 1;
    }
    b->choice->settled = idle == 2;
    return true;
}

static bool try_all(struct batches *b, int64_t first)
{
    if (!try_doubled(b, first))
        return false;
    int best = best_try(b);
    if (best < 0) /* fewer sequences take less memory */
        return try_batch(b, least_batch(b));
    int64_t batch = b->choice->tries[best].batch;
    return (batch % 4 != 0 || try_batch(b, batch / 4 * 3)) && (batch % 2 != 0 || try_batch(b, batch / 2 * 3));
}

/* Says that no batch has a configuration, in the words for one batch that has none, but about all of them. */
static bool refuse_all(struct batches *b, struct search_result *result)
{
    int devices = b->facts->cluster->device_count;
    struct error why = { 0 };
    b->space.batch = b->most;
    int64_t above = space_nearest_batch(&b->space, b->bench.graph, b->facts->cluster, true);
    char more[64] = "";
    if (above > 0)
        snprintf(more, sizeof more, ", or allow %lld sequences", (long long)above);
    fail(&why,
         "plan: no batch up to %lld sequences has a configuration with the fixed degrees on %d devices (tensor x "
         "pipeline x data must be %d); leave some of them out of --fix and --space%s",
         (long long)b->most, devices, devices, more);
    result->why = arena_strdup(&result->arena, why.message);
    return result->why || fail_memory(b->err);
}

/* Searches with the fewest sequences that were tried, or the most that are allowed, and keeps what is missing there. */
static bool say_what_is_missing(struct batches *b, struct search_result **out)
{
    struct batch_choice *choice = b->choice;
    int fewest = 0;
    for (int i = 1; i < choice->try_count; i++)
        fewest = choice->tries[i].batch < choice->tries[fewest].batch ? i : fewest;
    choice->batch = choice->try_count > 0 ? choice->tries[fewest].batch : b->most;
    if (!search_of(b, choice->batch, true, out, b->err))
        return false;
    if ((*out)->why)
        return choice->try_count > 0 || refuse_all(b, *out);
    choice->tries[fewest] = (struct batch_try){ choice->batch, step_of(*out) };
    choice->try_count += choice->try_count == 0;
    choice->best = (*out)->feasible ? fewest : -1; /* the first look may have been cut short */
    return true;
}

static bool choose(struct batches *b, struct search_result **out)
{
    struct batch_choice *choice = b->choice;
    int64_t first = first_batch(b);
    bool whole = first == 0 || try_all(b, first);
    if (b->err->kind != ERROR_NONE)
        return false;
    choice->ended = choice->ended || !whole;
    choice->best = best_try(b);
    if (choice->best < 0)
        return say_what_is_missing(b, out);
    choice->batch = choice->tries[choice->best].batch;
    *out = b->results[choice->best];
    b->results[choice->best] = NULL;
    return true;
}

bool search_batch(struct search_result **out, struct batch_choice *choice, const struct model *model,
                  const struct facts *facts, const struct search_options *options, int64_t most, struct error *err)
{
    struct batches b = { .model = model,
                         .facts = facts,
                         .options = options,
                         .space = options->space,
                         .choice = choice,
                         .most = most,
                         .err = err };
    *choice = (struct batch_choice){ .best = -1 };
    if (options->calls.now_ns)
        b.start_ns = options->calls.now_ns(options->calls.self);
    b.space.batch = 1;
    bool good =
        workbench_open(&b.bench, model, facts, &b.space, err) && space_check_turns(&b.space, err) && choose(&b, out);
    for (int i = 0; i < BATCH_TRIES; i++)
        search_result_free(b.results[i]);
    workbench_close(&b.bench);
    return good;
}
