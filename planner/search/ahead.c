/* While the judge waits for one estimate, other threads make those that it will probably ask for next. Its verdicts
 * come in the same order and say the same as with one thread: what was not asked for in the end is let go. */
#include "base/num.h"
#include "planner/search/search_parts.h"
#include <stdlib.h>

/* EFFORT_TIMES: of the effort of the one that is asked for at most, since all wait for the longest. */
enum { EFFORT_TIMES = 2 };

struct piece {
    const struct run *run;
    const struct candidate *candidate;
    int64_t worth_ns;
    struct estimate *estimate;
    struct error err;
};

static bool is_of(const struct known_estimate *known, const struct candidate *c)
{
    return known->estimate && known->table == c->table && known->plan_hash == c->plan_hash &&
           known->clock == c->plan->clock;
}

static struct known_estimate *find_known(const struct run *run, const struct candidate *c)
{
    struct known_estimate *known = run->known;
    while (known && !is_of(known, c))
        known = known->next;
    return known;
}

static bool is_listed(const struct candidate *c, const struct piece *pieces, int count)
{
    for (int i = 0; i < count; i++)
        if (pieces[i].candidate == c)
            return true;
    return false;
}

/* Of what may win still, is not known and takes so much effort at most, what is expected to be best; NULL: there is
 * none. */
static const struct candidate *find_next(const struct run *run, int64_t best_ns, int64_t most_effort,
                                         const struct piece *pieces, int count)
{
    const struct candidate *next = NULL;
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < run->result->certificate.ranked; i++) {
        const struct candidate *c = &run->candidates[i];
        if (c->judged || !search_is_hopeful(c, best_ns) || estimate_effort(c->plan) > most_effort ||
            is_listed(c, pieces, count) || find_known(run, c))
            continue;
        int64_t ns = search_expected_ns(run, c);
        if (ns < least_ns) {
            least_ns = ns;
            next = c;
        }
    }
    return next;
}

/* Adds to the first, which is asked for, what may be asked for next. Returns how many there are. */
static int add_next(struct run *run, const struct judged *judged, struct piece *pieces)
{
    int64_t own = estimate_effort(pieces[0].candidate->plan), left = judged->effort_left - own;
    int count = 1, most = search_at_once(run);
    /* below INT64_MAX, so that they can be asked for less later */
    struct piece piece = { .run = run, .worth_ns = min_i64(judged->worth_ns, INT64_MAX - 1) };
    while (count < most && (piece.candidate = find_next(run, judged->best_ns, min_i64(EFFORT_TIMES * own, left), pieces,
                                                        count)) != NULL) {
        left -= estimate_effort(piece.candidate->plan);
        pieces[count++] = piece;
    }
    return count;
}

static void estimate_piece(void *context, int index)
{
    struct piece *piece = (struct piece *)context + index;
    const struct candidate *c = piece->candidate;
    if (!search_estimate(piece->run, c->plan, c->table, piece->worth_ns, &piece->estimate, &piece->err))
        piece->estimate = NULL;
}

/* Takes the estimate over. */
static bool keep(struct run *run, const struct piece *piece)
{
    struct known_estimate *known = arena_alloc(&run->arena, 1, sizeof *known);
    if (!known) {
        estimate_free(piece->estimate);
        return search_out_of_memory(run->err);
    }
    const struct candidate *c = piece->candidate;
    *known = (struct known_estimate){ run->known, c->plan_hash, c->plan->clock, c->table, piece->estimate };
    run->known = known;
    return true;
}

/* The first is asked for; the others' errors are met when they are. */
static bool estimate_all(struct run *run, struct piece *pieces, int count, struct estimate **out)
{
    bool good = true;
    search_parallel(run, count, estimate_piece, pieces);
    for (int i = 1; i < count; i++)
        if (pieces[i].estimate)
            good = keep(run, &pieces[i]) && good;
    *out = pieces[0].estimate;
    if (!*out)
        *run->err = pieces[0].err;
    if (*out && !good)
        estimate_free(*out);
    return *out && good;
}

bool search_estimate_next(struct run *run, const struct candidate *c, const struct judged *judged,
                          struct estimate **out)
{
    struct known_estimate *known = find_known(run, c);
    struct piece pieces[SEARCH_MOST_AT_ONCE] = { { run, c, judged->worth_ns, NULL, { 0 } } };
    if (known) {
        *out = known->estimate;
        known->estimate = NULL;
        if (judged->worth_ns < INT64_MAX)
            estimate_ask_less(*out, judged->worth_ns);
        return true;
    }
    return estimate_all(run, pieces, search_stops(run) ? 1 : add_next(run, judged, pieces), out);
}

void search_forget_estimates(struct run *run)
{
    for (struct known_estimate *known = run->known; known; known = known->next)
        estimate_free(known->estimate);
    run->known = NULL;
}
