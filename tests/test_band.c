/* The band of steady runs against enumeration of all sets of runs. */
#include "tests/check.h"
#include "benchmarks/band.h"
#include "tests/random_numbers.h"

enum { MOST_RUNS = 9, MOST_PLANS = 3, PROBLEMS = 4000 };

struct problem {
    int64_t reference_ns[2 * MOST_RUNS + 1];
    struct band_run runs[MOST_RUNS];
    int wanted[MOST_PLANS];
    struct band_runs runs_of;
};

static void make(struct problem *p, uint64_t seed)
{
    static const double widths[] = { 0, 0.05, 0.1, 0.3 };
    *p = (struct problem){ .runs_of = { .reference_ns = p->reference_ns, .runs = p->runs, .wanted = p->wanted } };
    struct band_runs *r = &p->runs_of;
    r->plan_count = 1 + (int)draw(&seed, MOST_PLANS);
    r->run_count = (int)draw(&seed, MOST_RUNS + 1);
    r->width = widths[draw(&seed, 4)];
    r->known_ns = draw(&seed, 2) ? 95 + (int64_t)draw(&seed, 40) : 0;
    for (int i = 0; i < r->plan_count; i++)
        p->wanted[i] = (int)draw(&seed, 4);
    for (int i = 0; i < r->run_count; i++) { /* a run that fails leaves a reference more */
        r->reference_count += draw(&seed, 8) == 0;
        p->runs[i] = (struct band_run){ (int)draw(&seed, (uint64_t)r->plan_count), r->reference_count++ };
    }
    r->reference_count++;
    for (int i = 0; i < r->reference_count; i++)
        p->reference_ns[i] = 100 + (int64_t)draw(&seed, 30);
}

struct set {
    int64_t low_ns, high_ns; /* of all references beside its runs, and the known one */
    int run_count, missing;
    unsigned members; /* bit i for run i */
};

static void include(struct set *set, int64_t ns)
{
    set->low_ns = ns < set->low_ns ? ns : set->low_ns;
    set->high_ns = ns > set->high_ns ? ns : set->high_ns;
}

static struct set set_of(const struct band_runs *r, unsigned members)
{
    struct set set = { .low_ns = INT64_MAX, .members = members };
    int count[MOST_PLANS] = { 0 };
    if (r->known_ns)
        include(&set, r->known_ns);
    for (int i = 0; i < r->run_count; i++)
        if (members >> i & 1) {
            include(&set, r->reference_ns[r->runs[i].reference]);
            include(&set, r->reference_ns[r->runs[i].reference + 1]);
            set.run_count++;
            count[r->runs[i].plan]++;
        }
    for (int plan = 0; plan < r->plan_count; plan++)
        set.missing += r->wanted[plan] > count[plan] ? r->wanted[plan] - count[plan] : 0;
    return set;
}

static bool beats(const struct set *a, const struct set *b)
{
    if (a->missing != b->missing)
        return a->missing < b->missing;
    if (a->run_count != b->run_count)
        return a->run_count > b->run_count;
    return a->low_ns < b->low_ns;
}

START_TEST(no_set_of_runs_is_better)
{
    int complete = 0;
    for (uint64_t seed = 0; seed < PROBLEMS; seed++) {
        struct problem p;
        make(&p, seed << 8);
        const struct band_runs *r = &p.runs_of;
        struct set best = set_of(r, 0);
        for (unsigned members = 1; members < 1u << r->run_count; members++) {
            struct set set = set_of(r, members);
            if ((double)set.high_ns <= (double)set.low_ns * (1 + r->width) && beats(&set, &best))
                best = set;
        }
        struct band band = band_choose(r);
        unsigned members = 0;
        for (int i = 0; i < r->run_count; i++)
            members |= (unsigned)band_has(&band, r->reference_ns, &r->runs[i]) << i;
        ck_assert_msg(band.missing == best.missing && band.run_count == best.run_count && members == best.members,
                      "problem %d: got runs %x (%d, missing %d), expected %x (%d, missing %d)", (int)seed, members,
                      band.run_count, band.missing, best.members, best.run_count, best.missing);
        ck_assert(r->known_ns == 0 || (band.low_ns <= r->known_ns && r->known_ns <= band.high_ns));
        complete += r->run_count > 3 && band.missing == 0 && band.run_count < r->run_count;
    }
    ck_assert_int_gt(complete, PROBLEMS / 20); /* many of them leave some runs out and have enough */
}
END_TEST

START_TEST(nothing_measured_nothing_counts)
{
    const int wanted[] = { 2, 0, 1 };
    struct band band = band_choose(&(struct band_runs){ .wanted = wanted, .plan_count = 3, .width = 0.05 });
    ck_assert_int_eq(band.run_count, 0);
    ck_assert_int_eq(band.missing, 3);
}
END_TEST

static Suite *band_suite(void)
{
    Suite *suite = suite_create("band");
    CHECK_ADD(suite, no_set_of_runs_is_better);
    CHECK_ADD(suite, nothing_measured_nothing_counts);
    return suite;
}
CHECK_MAIN(band_suite)
