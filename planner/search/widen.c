#include "planner/search/widen.h"
#include "planner/price/shelf.h"
#include "planner/search/advice.h"
#include "planner/search/kept.h"
#include "planner/space/wider.h"
#include <string.h>

struct widener {
    const struct model *model;
    const struct facts *facts;
    const struct search_options *options; /* the caller's */
    const struct space *widest;
    struct price_shelf prices;
    int64_t start_ns;
};

static struct space widened_by(const struct widener *w, uint64_t set, int64_t batch)
{
    struct space space = w->options->space;
    space.batch = batch;
    for (int i = 0; i < WIDER_CHOICES; i++)
        if (set >> wider_choices[i] & 1)
            space.range[wider_choices[i]] = w->widest->range[wider_choices[i]];
    return space;
}

/* True when there is time for another search, which gets all that is left. */
static bool has_time(const struct widener *w, struct search_options *options)
{
    int64_t left_ns = search_time_left(w->options, w->start_ns);
    options->time_limit_ns = w->options->time_limit_ns > 0 ? left_ns : 0;
    return left_ns > 0;
}

/* Tells whether a plan fits in the space widened by the set: a thrifty one, which is soon found, or any. Where time
 * ends, none does as far as anyone knows. */
static bool fits(struct widener *w, uint64_t set, int64_t batch, bool thrifty, bool *out, struct error *err)
{
    struct search_options own = *w->options;
    own.space = widened_by(w, set, batch);
    space_narrow_wide(&own.space);
    if (thrifty)
        own = advice_thrifty(&own);
    own.calls = w->options->calls; /* whoever watches sees that it goes on */
    own.any_plan = thrifty;
    own.no_advice = true;
    own.prices = &w->prices;
    own.rates = 1;
    *out = false;
    do {
        struct search_result *result = NULL;
        struct error why = { 0 };
        if (!has_time(w, &own))
            return true;
        if (!search_run(&result, w->model, w->facts, &own, &why))
            return why.kind == ERROR_INPUT || search_time_left(w->options, w->start_ns) == 0 || fail_with(err, &why);
        *out = result->feasible;
        search_result_free(result);
    } while (!*out && thrifty && advice_keep_least(&own));
    return true;
}

/* The sets that are tried, by places in wider_choices, begin with those that change least about a run: each choice
 * alone, the first ones together, then the first ones with the last. Small sets are soon searched, and sets in which
 * nothing fits sooner than others. */
static const unsigned places_tried[] = { 1, 2, 4, 8, 3, 7, 9, 11, 15 };
_Static_assert(WIDER_CHOICES == 4, "all choices are tried together at last");

static uint64_t set_of(unsigned places)
{
    uint64_t set = 0;
    for (int i = 0; i < WIDER_CHOICES; i++)
        set |= (uint64_t)(places >> i & 1) << wider_choices[i];
    return set;
}

/* Tells the choices that the one space allows otherwise than the other. */
static uint64_t differing(const struct space *a, const struct space *b)
{
    uint64_t set = 0;
    for (int i = 0; i < WIDER_CHOICES; i++)
        if (memcmp(&a->range[wider_choices[i]], &b->range[wider_choices[i]], sizeof(struct allowed)) != 0)
            set |= set_of(1u << i);
    return set;
}

/* Finds the first set with which a plan fits, and drops from it one after the other what is not needed; 0 where none
 * does with all that there is. further: the set has one of these, unless they are none. */
static bool find_set(struct widener *w, uint64_t all, uint64_t further, int64_t batch, bool thrifty, uint64_t *out,
                     struct error *err)
{
    bool fit = false;
    *out = 0;
    for (size_t i = 0; i < sizeof places_tried / sizeof *places_tried && !fit; i++) {
        uint64_t set = set_of(places_tried[i]) & all;
        if (set == 0 || (further && !(set & further)) || (i > 0 && set == (set_of(places_tried[i - 1]) & all)))
            continue;
        if (!fits(w, set, batch, thrifty, &fit, err))
            return false;
        *out = fit ? set : 0;
    }
    for (int i = WIDER_CHOICES - 1; i >= 0 && fit; i--) {
        uint64_t without = *out & ~set_of(1u << i);
        bool too = false;
        if (without == *out || without == 0)
            continue;
        if (!fits(w, without, batch, thrifty, &too, err) ||
            (thrifty && !too && !fits(w, without, batch, false, &too, err)))
            return false;
        *out = too ? without : *out;
    }
    return true;
}

/* Searches in place of the search before, whose answer it replaces where it has one itself. */
static bool search_again(struct widener *w, struct widening *widening, uint64_t set, struct search_options *own,
                         widening_search *search, void *self, struct search_result **out, struct error *err)
{
    struct search_result *result = NULL;
    struct error why = { 0 };
    bool has_plan = *out && (*out)->feasible; /* which stands, whatever becomes of this */
    if (!has_time(w, own))
        return has_plan ||
               fail_ended(err, "plan: time was over before a wider space was searched; give it a larger --time-limit");
    if (!search(self, own, &result, &why))
        return why.kind == ERROR_INFEASIBLE || (has_plan && why.ended && !has_time(w, own)) || fail_with(err, &why);
    if (*out && !result->feasible && ((*out)->feasible || (result->why && (*out)->why))) { /* that has more to say */
        search_result_free(result);
        return true;
    }
    search_result_free(*out);
    *out = result;
    widening->space = own->space;
    widening->taken = set;
    return true;
}

/* Tells whether the space has any plan below that by the closed form, which is soon known where none is. */
static bool has_shorter(struct widener *w, const struct search_options *options, int64_t below_ns, bool *out,
                        struct error *err)
{
    struct search_options own = *options;
    struct search_result *result = NULL;
    struct error why = { 0 };
    own.any_plan = own.thrifty = own.unjudged = true;
    own.skip |= 1u << PART_FAMILIES | 1u << PART_CLIMB;
    own.below_ns = below_ns;
    own.top = 1;
    *out = false;
    if (!search_run(&result, w->model, w->facts, &own, &why))
        return why.kind == ERROR_INPUT || why.ended || fail_with(err, &why);
    *out = result->certificate.best_ns > 0;
    search_result_free(result);
    return true;
}

/* Looks for a plan that is at least a tenth shorter with the optimizer's states on hosts. A batch that was chosen was
 * for what fits without. */
static bool lighten(struct widener *w, struct widening *widening, struct search_options *own, widening_search *search,
                    void *self, struct search_result **out, struct error *err)
{
    enum { GAIN_SHARE = 10, UNFIT_SHARE = 5 };
    struct search_result *result = NULL;
    struct error why = { 0 };
    int64_t without_ns = (*out)->plans[0].estimate->prediction.step_ns, unfit_ns = (*out)->unfit_ns;
    bool large = unfit_ns > 0 && unfit_ns < without_ns - without_ns / UNFIT_SHARE, shorter = false;
    enum space_choice taken = space_lighten(&own->space, w->widest);
    if (taken == CHOICE_COUNT || own->space.batch != w->options->space.batch)
        return true;
    if (!large && !search_has_large_states(&large, w->model, w->facts, &w->options->space, err))
        return false;
    own->worth_ns = without_ns - without_ns / GAIN_SHARE;
    own->prices = &w->prices;
    own->rates = 1;
    if (!large || !has_time(w, own))
        return true;
    if (!has_shorter(w, own, own->worth_ns, &shorter, err))
        return false;
    if (!shorter || !has_time(w, own))
        return true;
    if (!search(self, own, &result, &why))
        return why.kind == ERROR_INFEASIBLE || why.kind == ERROR_INPUT || why.ended || fail_with(err, &why);
    if (!result->feasible || result->plans[0].estimate->prediction.step_ns >= own->worth_ns) {
        search_result_free(result);
        return true;
    }
    search_result_free(*out);
    *out = result;
    *widening = (struct widening){ own->space, UINT64_C(1) << taken, without_ns };
    return true;
}

static bool widen(struct widener *w, struct widening *widening, struct search_options *own, widening_search *search,
                  void *self, struct search_result **out, struct error *err)
{
    const struct space *widest = w->widest;
    struct space kept = *widest;
    space_keep_weights(&kept); /* what copies them in each pass is tried once nothing fits without */
    uint64_t set = 0, all = differing(widest, &w->options->space), further = all & differing(&kept, widest);
    int64_t batch = own->space.batch;
    bool hopeless = false, good = search_is_hopeless(&hopeless, w->model, w->facts, widest, err);
    own->prices = &w->prices;
    own->rates = 1;
    own->no_advice = true;
    if (hopeless) {
        own->space = widened_by(w, all, batch);
        own->no_advice = w->options->no_advice;
        own->nearest_only = true;
        space_narrow_wide(&own->space);
        return search_again(w, widening, all, own, search, self, out, err);
    }
    w->widest = &kept;
    good = good && find_set(w, all & differing(&kept, &w->options->space), 0, batch, true, &set, err);
    w->widest = set ? &kept : widest;
    if (!good || (!set && further && !find_set(w, all, further, batch, true, &set, err)))
        return false;
    own->space = widened_by(w, set, batch);
    if (set && !search_again(w, widening, set, own, search, self, out, err))
        return false;
    if (set && *out && (*out)->feasible)
        return true;
    /* rules of thumb tell what is thrifty, so the whole wider space is searched before it is given up */
    w->widest = widest;
    own->space = widened_by(w, all, batch);
    own->no_advice = w->options->no_advice;
    own->doubts = true;
    space_narrow_wide(&own->space);
    if (!search_again(w, widening, all, own, search, self, out, err))
        return false;
    /* the thriftiest plan fits once it is laid out, though the formula has no room for it, and so may shorter ones */
    own->doubtful = *out && !(*out)->feasible && (*out)->nearest.fits;
    if (own->doubtful && !search_again(w, widening, all, own, search, self, out, err))
        return false;
    if (!*out || !(*out)->feasible || own->doubtful || search_time_left(w->options, w->start_ns) == 0)
        return true;
    own->no_advice = true;
    if (!find_set(w, all, 0, batch, false, &set, err))
        return false;
    own->space = widened_by(w, set, batch);
    return !set || search_again(w, widening, set, own, search, self, out, err);
}

bool search_widened(struct search_result **out, struct widening *widening, const struct model *model,
                    const struct facts *facts, const struct search_options *options, const struct space *widest,
                    widening_search *search, void *self, struct error *err)
{
    struct widener w = { .model = model, .facts = facts, .options = options, .widest = widest };
    struct search_options own = *options;
    struct error why = { 0 };
    w.start_ns = options->calls.now_ns ? options->calls.now_ns(options->calls.self) : 0;
    *widening = (struct widening){ .space = options->space };
    *out = NULL;
    own.no_advice = true;
    bool found = search(self, &own, out, &why);
    widening->space.batch = own.space.batch;
    if (!found && why.kind != ERROR_INFEASIBLE)
        return fail_with(err, &why);
    bool has_plan = found && (*out)->feasible;
    price_shelf_open(&w.prices);
    bool good = (has_plan ? lighten : widen)(&w, widening, &own, search, self, out, err);
    price_shelf_close(&w.prices);
    return good && (*out || fail_with(err, &why));
}
