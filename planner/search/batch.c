#include "planner/search/batch.h"
#include "base/num.h"

/* A batch must be better by so much to be taken for more sequences, and to be worth doubling on. */
#define BETTER 1.001
#define WORTHWHILE 1.005

struct batches {
    const struct model *model;
    const struct facts *facts;
    const struct search_options *options;
    struct batch_choice *choice;
    struct search_result *best;
    int64_t start_ns, most;
    struct error *err;
    struct error why; /* of the last batch without a configuration */
};

double batch_rate(const struct batch_try *tried)
{
    return tried->step_ns > 0 ? (double)tried->batch / (double)tried->step_ns * 1e9 : 0;
}

static double best_rate(const struct batches *b)
{
    return b->choice->best >= 0 ? batch_rate(&b->choice->tries[b->choice->best]) : 0;
}

/* What is left of the time for all. False: nothing. */
static bool time_left(const struct batches *b, int64_t *limit_ns)
{
    const struct search_calls *calls = &b->options->calls;
    *limit_ns = b->options->time_limit_ns;
    if (calls->cancelled && calls->cancelled(calls->self))
        return false;
    if (*limit_ns > 0 && calls->now_ns)
        *limit_ns -= calls->now_ns(calls->self) - b->start_ns;
    return b->options->time_limit_ns == 0 || *limit_ns > 0;
}

/* False: a failure that is not the batch's, or no time. */
static bool try_batch(struct batches *b, int64_t batch)
{
    struct search_options options = *b->options;
    struct search_result *result = NULL;
    struct error why = { 0 };
    if (batch < 1 || batch > b->most || b->choice->try_count == BATCH_TRIES)
        return true;
    if (!time_left(b, &options.time_limit_ns))
        return false;
    options.space.batch = batch;
    options.no_advice = true;
    struct batch_try *tried = &b->choice->tries[b->choice->try_count++];
    *tried = (struct batch_try){ .batch = batch };
    if (!search_run(&result, b->model, b->facts, &options, &why)) {
        b->why = why;
        return why.kind == ERROR_INPUT || fail_kind(b->err, why.kind, "%s", why.message);
    }
    if (result->feasible)
        tried->step_ns = result->plans[0].estimate->prediction.step_ns;
    if (batch_rate(tried) > best_rate(b) * BETTER) {
        search_result_free(b->best);
        b->best = result;
        b->choice->best = (int)(tried - b->choice->tries);
    } else {
        search_result_free(result);
    }
    return true;
}

static bool try_all(struct batches *b)
{
    int64_t batch = 1;
    int idle = 0;
    while (batch * 2 * 8 <= b->facts->cluster->device_count)
        batch *= 2;
    for (; batch <= b->most && idle < 2; batch *= 2) {
        double before = best_rate(b);
        if (!try_batch(b, batch))
            return b->err->kind == ERROR_NONE;
        idle = best_rate(b) > before * WORTHWHILE || best_rate(b) == 0 ? 0 : idle + 1;
    }
    b->choice->settled = idle == 2;
    if (b->choice->best < 0)
        return true;
    int64_t best = b->choice->tries[b->choice->best].batch;
    return (try_batch(b, best / 4 * 3) && try_batch(b, best / 2 * 3)) || b->err->kind == ERROR_NONE;
}

bool search_batch(struct search_result **out, struct batch_choice *choice, const struct model *model,
                  const struct facts *facts, const struct search_options *options, int64_t most, struct error *err)
{
    struct error own = { 0 };
    struct batches b = {
        .model = model, .facts = facts, .options = options, .choice = choice, .most = most, .err = &own
    };
    *choice = (struct batch_choice){ .best = -1 };
    if (options->calls.now_ns)
        b.start_ns = options->calls.now_ns(options->calls.self);
    bool good = try_all(&b);
    if (!good)
        fail_kind(err, own.kind, "%s", own.message);
    else if (!b.best && b.why.kind != ERROR_NONE)
        good = fail_kind(err, b.why.kind, "%s", b.why.message);
    else if (!b.best)
        good = fail_kind(err, ERROR_INFEASIBLE,
                         "plan: no batch up to %lld sequences has a plan that fits; cleave plan with a batch says what "
                         "is missing",
                         (long long)most);
    if (good)
        *out = b.best;
    else
        search_result_free(b.best);
    return good;
}
