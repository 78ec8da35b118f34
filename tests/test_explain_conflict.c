/* Why nothing fits: constraints that cannot be met together, and what would do. */
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/explain/explain_conflict.h"
#include "tests/toy_world.h"

/* Families of sets that cannot be met: a set has a solution when it contains none of them. */
struct family {
    uint64_t conflicts[6];
    int count;
};

static bool contains_none(void *self, uint64_t set, bool *out, struct error *err)
{
    const struct family *family = self;
    (void)err;
    *out = true;
    for (int i = 0; i < family->count; i++)
        *out = *out && (family->conflicts[i] & set) != family->conflicts[i];
    return true;
}

/* The filter's set is among all irreducible ones, found by trying every set of the power set, wherever the bits lie. */
START_TEST(filter_equals_brute_force)
{
    uint64_t seed = 5;
    for (int n = 0; n < 400; n++) {
        struct family family = { .count = 1 + (int)(mix64(seed++) % 6) };
        enum { COUNT = 8 };
        int first = n % (64 - COUNT + 1);
        uint64_t all = (UINT64_C(1) << COUNT) - 1, found = 0;
        bool listed = false;
        struct error err = { 0 };
        for (int i = 0; i < family.count; i++)
            family.conflicts[i] = (1 + mix64(seed++) % all) << first;
        ck_assert(filter_irreducible(all << first, contains_none, &family, &found, &err));
        for (uint64_t at = 1; at <= all; at++) {
            bool solved = false, minimal = true;
            uint64_t set = at << first;
            contains_none(&family, set, &solved, &err);
            for (int i = first; i < first + COUNT && !solved; i++) {
                bool without = true;
                if (set >> i & 1)
                    contains_none(&family, set & ~(UINT64_C(1) << i), &without, &err);
                minimal = minimal && without;
            }
            listed |= !solved && minimal && set == found;
        }
        ck_assert_msg(listed, "set %llx is not irreducible", (unsigned long long)found);
    }
}
END_TEST

static bool fits_with(const struct world *world, const struct space *space)
{
    struct search_options options = { .space = *space, .top = 1 };
    struct explainer e;
    struct solution solution;
    struct error err = { 0 };
    explainer_open(&e, world->model, &world->facts, &options);
    ck_assert_msg(explainer_solve(&e, space, &world->facts, &solution, &err), "%s", err.message);
    explainer_close(&e);
    return solution.kind == SOLUTION_PLAN;
}

static const struct change *change_of(const struct conflict *conflict, const char *name)
{
    for (int i = 0; i < conflict->change_count; i++)
        if (!strcmp(conflict->changes[i].name, name))
            return &conflict->changes[i];
    ck_abort_msg("no change of %s", name);
    return NULL;
}

/* Why nothing fits in this world. */
static void ask(struct explainer *e, const struct world *world, const struct search_options *options,
                struct conflict *out)
{
    struct error err = { 0 };
    explainer_open(e, world->model, &world->facts, options);
    ck_assert_msg(explain_conflict(e, out, &err), "%s", err.message);
}

/* Memory: what the answer asks for is enough, and not much more than enough; so is the number of devices. */
START_TEST(memory_conflict)
{
    struct world world = world_open("2x2:toy", 200000, 3);
    struct search_options options = options_of(16);
    struct explainer e;
    struct conflict conflict;
    ask(&e, &world, &options, &conflict);
    ck_assert(conflict.exists && conflict.irreducible);
    ck_assert(conflict.set >> CONSTRAINT_MEMORY & 1);
    ck_assert_int_gt(conflict.missing_bytes, 0);
    const struct change *memory = change_of(&conflict, "memory per device");
    ck_assert(memory->found);
    ck_assert_int_eq(memory->now, 200000);
    struct world enough = world_open("2x2:toy", (long long)memory->value, 3);
    ck_assert(fits_with(&enough, &options.space));
    world_close(&enough);
    struct world less = world_open("2x2:toy", (long long)memory->value / 2, 3);
    ck_assert(!fits_with(&less, &options.space));
    world_close(&less);
    const struct change *devices = change_of(&conflict, "devices");
    if (devices->found) {
        char form[32];
        snprintf(form, sizeof form, "%lldx2:toy", (long long)devices->value / 2);
        struct world more = world_open(form, 200000, 3);
        ck_assert(fits_with(&more, &options.space));
        world_close(&more);
    }
    explainer_close(&e);
    world_close(&world);
}
END_TEST

/* With two types of devices each one's memory is told, and as many times as much of both is enough. */
START_TEST(memory_conflict_by_type)
{
    struct world world = world_open("1x2:toy@memory=300000+1x2:toy@memory=200000", 80000000000, 3);
    struct search_options options = options_of(16);
    struct explainer e;
    struct conflict conflict;
    ask(&e, &world, &options, &conflict);
    ck_assert(conflict.exists && conflict.type_count == 2);
    ck_assert_int_eq(conflict.types[0].available_bytes, 300000);
    ck_assert_int_eq(conflict.types[1].available_bytes, 200000);
    const struct change *memory = change_of(&conflict, "memory per device");
    ck_assert(memory->found && memory->times > 1);
    ck_assert_int_eq(memory->now, conflict.available_bytes);
    ck_assert_int_eq(memory->value, change_bytes(memory, memory->now, memory->now));
    for (int enough = 0; enough < 2; enough++) {
        char form[96];
        snprintf(form, sizeof form, "1x2:toy@memory=%lld+1x2:toy@memory=%lld",
                 (long long)change_bytes(memory, 300000, 300000) / (enough ? 1 : 2),
                 (long long)change_bytes(memory, 200000, 200000) / (enough ? 1 : 2));
        struct world other = world_open(form, 80000000000, 3);
        ck_assert_msg(fits_with(&other, &options.space) == enough, "%s", form);
        world_close(&other);
    }
    explainer_close(&e);
    world_close(&world);
}
END_TEST

/* A restriction that is to blame is named, one that is not is not; lifting it helps as promised. */
START_TEST(restriction_conflict)
{
    struct world world = world_open("1x4:toy", 80000000000, 2);
    struct search_options options = options_of(6);
    struct explainer e;
    struct conflict conflict;
    options.space.data = (struct allowed){ 1, { 4 } };
    options.space.zero = (struct allowed){ 1, { 1 } };
    ask(&e, &world, &options, &conflict);
    ck_assert(conflict.exists && conflict.irreducible);
    ck_assert_int_eq(conflict.set, UINT64_C(1) << (CONSTRAINT_CHOICE + CHOICE_DP) | UINT64_C(1) << CONSTRAINT_BATCH);
    ck_assert(change_of(&conflict, "dp")->found);
    ck_assert(!change_of(&conflict, "zero")->found);
    ck_assert(!change_of(&conflict, "memory per device")->found);
    const struct change *batch = change_of(&conflict, "batch");
    ck_assert(batch->found);
    ck_assert_int_eq(batch->value % 4, 0);
    ck_assert_int_eq(batch->plan->plan->batch, batch->value);
    options.space.batch = batch->value;
    ck_assert(fits_with(&world, &options.space));
    explainer_close(&e);
    world_close(&world);
}
END_TEST

/* Degrees that do not divide the devices: dp pp tp, 0 free, of some sequences on a cluster, exclude each other with the
 * devices; so many would do, and no fewer of those that are more. */
static const struct indivisible {
    const char *cluster, *enough;
    int64_t batch, data, pipeline, tensor;
    long long devices; /* 0: none would do */
    const char *less;  /* NULL: there is nothing in between */
} indivisibles[] = {
    { "1x4:toy", "3x4:toy", 63, 3, 0, 0, 12, "2x4:toy" },
    { "1x4:toy", "3x4:toy", 60, 12, 0, 0, 12, "2x4:toy" },
    { "1x4:toy", "3x4:toy", 63, 3, 2, 0, 12, "2x4:toy" },
    { "2x4:toy", "5x4:toy", 5, 5, 0, 0, 20, "4x4:toy" },
    { "2x2:toy", "3x2:toy", 64, 0, 3, 0, 6, NULL },
    { "1x4:toy", "1x3:toy", 63, 3, 1, 1, 3, NULL }, /* exactly three: fewer */
    { "4x2:toy", "3x2:toy", 63, 3, 1, 2, 6, NULL },
    { "1x4:toy", NULL, 64, 0, 0, 3, 0, NULL }, /* three ranks do not share four heads, wherever they are */
};
enum { INDIVISIBLES = sizeof indivisibles / sizeof *indivisibles };

static void fix(struct allowed *degrees, int64_t value)
{
    if (value > 0)
        *degrees = (struct allowed){ 1, { value } };
}

static bool fits_on(const char *form, const struct space *space)
{
    struct world world = world_open(form, 80000000000, 2);
    bool fits = fits_with(&world, space);
    world_close(&world);
    return fits;
}

START_TEST(devices_conflict)
{
    const struct indivisible *c = &indivisibles[_i];
    if (small_share() && _i % 3 != 0)
        return;
    struct world world = world_open(c->cluster, 80000000000, 2);
    struct search_options options = options_of(c->batch);
    struct explainer e;
    struct conflict conflict;
    uint64_t want = (uint64_t)(c->devices > 0) << CONSTRAINT_DEVICES | (uint64_t)(c->data > 0) << CHOICE_DP;
    fix(&options.space.data, c->data);
    fix(&options.space.stages, c->pipeline);
    fix(&options.space.tensor, c->tensor);
    ask(&e, &world, &options, &conflict);
    ck_assert(conflict.exists && conflict.irreducible);
    ck_assert_msg((conflict.set & (UINT64_C(1) << CONSTRAINT_DEVICES | UINT64_C(1) << CHOICE_DP)) == want,
                  "%s: set %llx", c->cluster, (unsigned long long)conflict.set);
    ck_assert(!(conflict.set >> CONSTRAINT_MEMORY & 1) && !(conflict.set >> CONSTRAINT_BATCH & 1));
    const struct change *devices = change_of(&conflict, "devices");
    ck_assert_int_eq(devices->found, c->devices > 0);
    ck_assert_int_eq(devices->value, c->devices);
    ck_assert(!c->enough || fits_on(c->enough, &options.space));
    ck_assert(!c->less || !fits_on(c->less, &options.space));
    explainer_close(&e);
    world_close(&world);
}
END_TEST

/* A batch that has no configuration: the nearest that has one, found by trying all. */
START_TEST(nearest_batch)
{
    static const int64_t batches[] = { 31, 44, 46, 7 };
    struct world world = world_open("1x6:toy", 80000000000, 2);
    for (int i = 0; i < 4; i += small_share() ? 3 : 1) {
        struct search_options options = options_of(batches[i]);
        struct explainer e;
        struct conflict conflict;
        int64_t nearest = 0;
        fix(&options.space.data, 3);
        fix(&options.space.micro, 5);
        ask(&e, &world, &options, &conflict);
        for (int64_t away = 1; nearest == 0; away++)
            for (int side = -1; side <= 1 && nearest == 0; side += 2) {
                struct space space = options.space;
                space.batch = batches[i] + side * away;
                nearest = space.batch > 0 && fits_with(&world, &space) ? space.batch : 0;
            }
        ck_assert_int_eq(change_of(&conflict, "batch")->value, nearest);
        explainer_close(&e);
    }
    world_close(&world);
}
END_TEST

/* What a stage keeps grows with the batch: the largest that fits, found by trying all. */
START_TEST(largest_batch)
{
    int found = 0;
    for (long long memory = 2000000; memory < 14000000; memory += small_share() ? 8000000 : 2000000) {
        struct world world = world_open("1x4:toy", memory, 3);
        struct search_options options = options_of(small_share() ? 24 : 64);
        struct explainer e;
        struct conflict conflict;
        fix(&options.space.stages, 2);
        fix(&options.space.data, 2);
        fix(&options.space.micro, 1);
        options.space.recompute = (struct allowed){ 1, { RECOMPUTE_NONE } };
        options.space.schedule = (struct allowed){ 1, { schedule_find("gpipe") } };
        bool fits = fits_with(&world, &options.space);
        ask(&e, &world, &options, &conflict);
        ck_assert(conflict.exists == !fits);
        for (struct space space = options.space; conflict.exists && space.batch > 0; space.batch -= 2)
            if (fits_with(&world, &space)) {
                ck_assert_int_eq(change_of(&conflict, "batch")->value, space.batch);
                found++;
                break;
            }
        explainer_close(&e);
        world_close(&world);
    }
    ck_assert_int_gt(found, 0);
}
END_TEST

/* Where a plan fits there is no conflict. */
START_TEST(no_conflict)
{
    struct world world = world_open("1x4:toy", 80000000000, 2);
    struct search_options options = options_of(8);
    struct explainer e;
    struct conflict conflict;
    ask(&e, &world, &options, &conflict);
    ck_assert(!conflict.exists);
    explainer_close(&e);
    world_close(&world);
}
END_TEST

/* The memory that would do does not grow when the user allows more. */
START_TEST(freedom_needs_no_more_memory)
{
    if (small_share())
        return;
    struct world world = world_open("2x2:toy", 200000, 3);
    int64_t needed[3];
    for (int n = 0; n < 3; n++) {
        struct search_options options = options_of(16);
        struct explainer e;
        struct conflict conflict;
        if (n < 2)
            options.space.zero = (struct allowed){ 1, { 0 } };
        if (n < 1)
            options.space.recompute = (struct allowed){ 1, { RECOMPUTE_NONE } };
        ask(&e, &world, &options, &conflict);
        needed[n] = change_of(&conflict, "memory per device")->value;
        explainer_close(&e);
    }
    ck_assert_int_le(needed[1], needed[0] + needed[0] / 50);
    ck_assert_int_le(needed[2], needed[1] + needed[1] / 50);
    world_close(&world);
}
END_TEST

static Suite *explain_conflict_suite(void)
{
    Suite *suite = suite_create("nothing fits");
    CHECK_ADD(suite, filter_equals_brute_force);
    CHECK_ADD(suite, memory_conflict);
    CHECK_ADD(suite, memory_conflict_by_type);
    CHECK_ADD(suite, restriction_conflict);
    CHECK_ADD_LOOP(suite, devices_conflict, INDIVISIBLES);
    CHECK_ADD(suite, nearest_batch);
    CHECK_ADD(suite, largest_batch);
    CHECK_ADD(suite, no_conflict);
    CHECK_ADD(suite, freedom_needs_no_more_memory);
    return suite;
}

CHECK_MAIN(explain_conflict_suite)
