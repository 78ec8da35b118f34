/* The certificate's proofs: the search went from relaxation to relaxation, solved and branched; for whoever checks it,
 * few multipliers that prove the whole's bound of each configuration are enough. */
#include "planner/search/search.h"
#include "planner/space/config_name.h"
#include "planner/tables/loose.h"
#include "planner/pool/run.h"

/* A certificate is at most a megabyte: so many proofs are looked for, and so many bytes of them are written. */
enum { MOST_PROOFS = 1200, MOST_PROOF_BYTES = 600000 };
/* When time is over, one part in so many of it is left for proofs, which are looked for so many at a time. */
enum { LATE_SHARE = 20, BATCH = 16 };

struct proving {
    struct config_record *record;
    struct partition_problem problem;
    struct partition_proof *proof;
    int64_t bound_ns;
    struct error err;
    bool loose, good;
};

static void prove_one(void *context, int index)
{
    struct proving *p = &((struct proving *)context)[index];
    p->good = partition_prove(&p->problem, p->bound_ns, p->proof, &p->err);
}

/* loose: multipliers that prove it over loose prices do so over all others. */
static bool prepare(struct run *run, struct config_record *record, bool loose, struct proving *out)
{
    const struct price_table *table = NULL;
    const struct config *config = &run->configs[record->config];
    *out = (struct proving){ .record = record, .loose = loose, .bound_ns = run->result->certificate.bound_ns };
    out->proof = arena_alloc(&run->result->arena, 1, sizeof *out->proof);
    return (loose ? loose_table(&run->bench, config, &table, run->err)
                  : workbench_table(&run->bench, config, false, &table, run->err)) &&
           ((out->proof && search_problem(run, record->config, table, run->capacity_bytes, &out->problem)) ||
            search_out_of_memory(run->err));
}

/* Proofs that were found become their records', the first ones where not all have room. */
static bool keep_proofs(struct run *run, const struct proving *list, int count)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        char name[CONFIG_NAME_BYTES];
        struct config_record *record = list[i].record;
        if (!list[i].proof->proven)
            continue;
        record->name = arena_strdup(&run->result->arena, config_name(name, &run->configs[record->config]));
        record->proof = list[i].proof;
        int64_t own = record->name ? certificate_record_bytes(record) : 0;
        if (own == 0)
            return search_out_of_memory(run->err);
        bytes += own;
        if (bytes > MOST_PROOF_BYTES)
            record->proof = NULL;
    }
    return true;
}

static bool prove_all(struct run *run, struct proving *list, int count)
{
    search_parallel(run, count, prove_one, list);
    for (int i = 0; i < count; i++)
        if (!list[i].good)
            return fail_kind(run->err, list[i].err.kind, "%s", list[i].err.message);
    return true;
}

/* *done of them, until what is left of the time is over. */
static bool prove_late(struct run *run, struct proving *list, int count, int *done)
{
    const struct search_calls *calls = &run->options->calls;
    int64_t now_ns = calls->now_ns ? calls->now_ns(calls->self) : 0,
            end_ns = now_ns + (now_ns - run->start_ns) / LATE_SHARE;
    for (*done = 0; *done < count && now_ns < end_ns; now_ns = calls->now_ns(calls->self)) {
        int batch = count - *done < BATCH ? count - *done : BATCH;
        for (int i = *done; i < *done + batch; i++)
            list[i].problem.stops = NULL;
        if (!prove_all(run, &list[*done], batch))
            return false;
        *done += batch;
    }
    return true;
}

/* What loose prices leave unproven, by prices of its own. */
static bool prove_again(struct run *run, struct proving *list, int count)
{
    struct proving *left = arena_alloc(&run->arena, (size_t)count + 1, sizeof *left);
    int left_count = 0;
    if (!left)
        return search_out_of_memory(run->err);
    for (int i = 0; i < count; i++)
        if (list[i].loose && !list[i].proof->proven && !prepare(run, list[i].record, false, &left[left_count++]))
            return false;
    if (!prove_all(run, left, left_count))
        return false;
    for (int i = 0, at = 0; i < count; i++)
        if (list[i].loose && !list[i].proof->proven)
            list[i] = left[at++];
    return true;
}

bool search_prove(struct run *run)
{
    struct certificate *certificate = &run->result->certificate;
    struct proving *list = arena_alloc(&run->arena, MOST_PROOFS, sizeof *list);
    int count = 0;
    if (!list)
        return search_out_of_memory(run->err);
    if (certificate->bound_ns == 0 || run->options->unproven)
        return true;
    for (int i = 0; i < certificate->record_count && count < MOST_PROOFS; i++)
        if (certificate->records[i].fate == FATE_SOLVED &&
            !prepare(run, &certificate->records[i], certificate->records[i].loose, &list[count++]))
            return false;
    if (!(run->stopped ? prove_late(run, list, count, &count)
                       : prove_all(run, list, count) && prove_again(run, list, count)))
        return false;
    return keep_proofs(run, list, count);
}
