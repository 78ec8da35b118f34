#include "benchmarks/band.h"
#include "benchmarks/report.h"

bool band_has(const struct band *band, const int64_t *reference_ns, const struct band_run *run)
{
    for (int i = run->reference; i <= run->reference + 1; i++)
        if (reference_ns[i] < band->low_ns || reference_ns[i] > band->high_ns)
            return false;
    return true;
}

static struct band band_from(const struct band_runs *r, int64_t low_ns)
{
    struct band band = { .low_ns = low_ns, .high_ns = (int64_t)((double)low_ns * (1 + r->width)) };
    int count[REPORT_MAX_PLANS] = { 0 };
    for (int i = 0; i < r->run_count; i++)
        if (band_has(&band, r->reference_ns, &r->runs[i])) {
            band.run_count++;
            count[r->runs[i].plan]++;
        }
    for (int plan = 0; plan < r->plan_count; plan++)
        band.missing += count[plan] < r->wanted[plan] ? r->wanted[plan] - count[plan] : 0;
    return band;
}

static bool is_better(const struct band *a, const struct band *b)
{
    if (a->missing != b->missing)
        return a->missing < b->missing;
    if (a->run_count != b->run_count)
        return a->run_count > b->run_count;
    return a->low_ns < b->low_ns;
}

struct band band_choose(const struct band_runs *r)
{
    struct band best = band_from(r, 0); /* holds no run */
    bool found = false;
    for (int i = -1; i < r->reference_count; i++) {
        int64_t low_ns = i < 0 ? r->known_ns : r->reference_ns[i];
        struct band band = band_from(r, low_ns);
        bool knows = r->known_ns == 0 || (low_ns <= r->known_ns && r->known_ns <= band.high_ns);
        if ((i >= 0 || r->known_ns > 0) && knows && (!found || is_better(&band, &best))) {
            best = band;
            found = true;
        }
    }
    return best;
}
