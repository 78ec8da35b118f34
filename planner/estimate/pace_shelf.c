#include "planner/estimate/pace_shelf.h"
#include <stdlib.h>

static void lock(struct pace_shelf *shelf)
{
    while (atomic_flag_test_and_set(&shelf->busy))
        ; /* for a few instructions */
}

static void unlock(struct pace_shelf *shelf)
{
    atomic_flag_clear(&shelf->busy);
}

static void kept_free(struct kept_pace *kept)
{
    if (!kept)
        return;
    pace_close(&kept->pace);
    plan_free(kept->plan);
    free(kept);
}

void pace_shelf_open(struct pace_shelf *shelf)
{
    *shelf = (struct pace_shelf){ .busy = ATOMIC_FLAG_INIT };
}

void pace_shelf_close(struct pace_shelf *shelf)
{
    for (int i = 0; i < shelf->count; i++)
        kept_free(shelf->places[i]);
    shelf->count = 0;
}

/* Takes the pace at the place off the shelf. */
static struct kept_pace *take_place(struct pace_shelf *shelf, int place)
{
    struct kept_pace *kept = shelf->places[place];
    shelf->places[place] = shelf->places[--shelf->count];
    return kept;
}

static struct kept_pace *take_equal(struct pace_shelf *shelf, const struct plan *plan, uint64_t hash)
{
    struct kept_pace *kept = NULL;
    lock(shelf);
    for (int i = 0; i < shelf->count && !kept; i++) {
        const struct plan *own = shelf->places[i]->plan;
        if (shelf->places[i]->hash == hash && own->layer_count == plan->layer_count && own->batch == plan->batch &&
            own->sequence == plan->sequence)
            kept = take_place(shelf, i);
    }
    unlock(shelf);
    return kept;
}

bool pace_take(struct kept_pace **out, struct pace_shelf *shelf, const struct model *model, const struct plan *plan,
               struct error *err)
{
    uint64_t hash = plan_hash(plan);
    struct kept_pace *kept = shelf ? take_equal(shelf, plan, hash) : NULL;
    if (kept) {
        *out = kept;
        return true;
    }
    kept = calloc(1, sizeof *kept);
    if (!kept || !(kept->plan = plan_copy(plan))) {
        free(kept);
        return fail_memory(err);
    }
    kept->hash = hash;
    if (!pace_open(&kept->pace, model, kept->plan, false, err)) {
        kept_free(kept);
        return false;
    }
    *out = kept;
    return true;
}

static size_t bytes_of(const struct pace *pace)
{
    size_t bytes = program_bytes(pace->few.program);
    for (int s = 0; pace->early && s < pace->few.program->stage_count; s++)
        bytes += (size_t)pace->early[s].instr_count * sizeof *pace->early[s].instrs +
                 (size_t)pace->early[s].wait_count * sizeof *pace->early[s].waits;
    bytes += pace->longer.program ? program_bytes(pace->longer.program) : 0;
    return bytes + (pace->longer_laid_out.program ? program_bytes(pace->longer_laid_out.program) : 0);
}

/* Takes the longest unused pace off the shelf where that has no room for all; NULL where there is room. */
static struct kept_pace *take_excess(struct pace_shelf *shelf)
{
    size_t bytes = 0;
    int oldest = 0;
    for (int i = 0; i < shelf->count; i++) {
        bytes += shelf->places[i]->bytes;
        oldest = shelf->places[i]->used < shelf->places[oldest]->used ? i : oldest;
    }
    bool excess = shelf->count == PACE_PLACES || (shelf->count > 1 && bytes > PACE_ROOM_BYTES);
    return excess ? take_place(shelf, oldest) : NULL;
}

void pace_give(struct pace_shelf *shelf, struct kept_pace *kept)
{
    if (!kept || !shelf) {
        kept_free(kept);
        return;
    }
    struct kept_pace *gone[PACE_PLACES];
    int count = 0;
    kept->pace.shared = false;
    kept->bytes = bytes_of(&kept->pace);
    lock(shelf);
    kept->used = ++shelf->uses;
    shelf->places[shelf->count++] = kept;
    while ((gone[count] = take_excess(shelf)))
        count++;
    unlock(shelf);
    while (count-- > 0)
        kept_free(gone[count]);
}
