/* Verdicts ahead of their turn. The judge takes one candidate after the other, since each verdict may spare the next;
 * what would be its next ones are simulated beside the first while there are threads to spare. Their verdicts wait here
 * until their turn comes, and are then what they would have been: so nothing depends on the number of threads but time.
 */
#include "planner/pool/ahead.h"
#include "base/num.h"
#include "planner/pool/pool_parts.h"

struct trials {
    struct run *run;
    struct candidate *const *of;
    struct verdict verdict[RUN_MOST_AT_ONCE];
    struct error err[RUN_MOST_AT_ONCE];
    bool good[RUN_MOST_AT_ONCE];
};

static void try_one(void *context, int index)
{
    struct trials *t = context;
    struct verdict *v = &t->verdict[index];
    t->good[index] = judge_simulate(t->run, t->of[index], v->worth_ns, &v->estimate, &v->effort, &t->err[index]);
}

/* Where the verdict on the candidate's plan waits; -1: nowhere. */
static int place_of(const struct run *run, const struct candidate *c)
{
    for (int i = 0; i < RUN_MOST_AT_ONCE; i++) {
        const struct verdict *v = &run->ahead[i];
        if (v->estimate && v->config == c->config && v->plan_hash == c->plan_hash)
            return i;
    }
    return -1;
}

/* A step is beaten by how long it takes before layout alone. */
static bool holds(const struct verdict *v, int64_t worth_ns)
{
    return v->worth_ns >= worth_ns && (v->estimate->beaten || worth_ns > v->estimate->beaten_by_ns);
}

static void drop(struct verdict *v)
{
    estimate_free(v->estimate);
    *v = (struct verdict){ 0 };
}

/* In place of the oldest. */
static void keep(struct run *run, const struct verdict *v)
{
    struct verdict *place = &run->ahead[run->ahead_next++ % RUN_MOST_AT_ONCE];
    drop(place);
    *place = *v;
}

bool ahead_simulate(struct run *run, struct candidate *const *next, int count, int64_t worth_ns, struct estimate **out,
                    int64_t *spent)
{
    int place = place_of(run, next[0]);
    struct verdict *ready = place >= 0 ? &run->ahead[place] : NULL;
    if (ready && holds(ready, worth_ns)) {
        *out = ready->estimate;
        *spent += ready->effort;
        *ready = (struct verdict){ 0 };
        return true;
    }
    if (ready)
        drop(ready);
    struct trials t = { .run = run, .of = next };
    for (int i = 0; i < count; i++)
        t.verdict[i] = (struct verdict){ .plan_hash = next[i]->plan_hash,
                                         .config = next[i]->config,
                                         .worth_ns = i == 0 ? worth_ns : min_i64(worth_ns, INT64_MAX - 1) };
    run_parallel(run, count, try_one, &t);
    for (int i = 1; i < count; i++)
        if (t.good[i]) /* else it fails again in its turn, if that comes */
            keep(run, &t.verdict[i]);
    *out = t.verdict[0].estimate;
    *spent += t.verdict[0].effort;
    if (!t.good[0] && run->err)
        *run->err = t.err[0];
    return t.good[0];
}

bool ahead_has(const struct run *run, const struct candidate *c)
{
    return place_of(run, c) >= 0;
}

void ahead_drop(struct run *run)
{
    for (int i = 0; i < RUN_MOST_AT_ONCE; i++)
        drop(&run->ahead[i]);
}
