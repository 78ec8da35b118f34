#include "cli/candidate.h"
#include "cli/aim.h"
#include "cli/widening.h"
#include "planner/space/wider.h"
#include <stdlib.h>
#include <string.h>

const char *candidate_model(struct inputs *in)
{
    size_t length = 0;
    char *text = model_write(in->model, &length);
    const char *kept = text ? arena_strndup(&in->arena, text, length) : NULL;
    free(text);
    return kept;
}

bool candidate_open(struct candidate **out, const struct cli *cli, const char *model, const struct space_options *job,
                    const char *cluster, const char *reserve, struct error *err)
{
    struct candidate *c = calloc(1, sizeof *c);
    if (!c)
        return fail_memory(err);
    c->in.cli = cli;
    c->job = *job;
    c->job.cluster = arena_strdup(&c->in.arena, cluster);
    c->job.reserve = reserve ? arena_strdup(&c->in.arena, reserve) : job->reserve;
    const char *own = arena_strdup(&c->in.arena, model);
    bool good = own && c->job.cluster && (!reserve || c->job.reserve)
                    ? space_inputs(&c->in, &c->space, own, &c->job, err)
                    : fail_memory(err);
    if (good)
        *out = c;
    else
        candidate_free(c);
    return good;
}

static bool search_once(void *self, struct search_options *options, struct search_result **out, struct error *err)
{
    struct candidate *c = self;
    const struct target *target = NULL;
    struct uniform_choice choice;
    if (!c->job.target)
        return search_run(out, c->in.model, &c->in.facts, options, err);
    return aim_target(&target, "--target", c->job.target, err) &&
           aim_search(out, &choice, &c->in, target, options, NULL, err);
}

bool candidate_search(struct candidate *c, double seconds, enum candidate_space within, struct error *err)
{
    if (seconds > 0)
        c->job.time_limit_s = seconds;
    struct search_options options = space_search_options(&c->job, &c->space);
    struct space widest, lighter = c->space;
    c->widening = (struct widening){ .space = c->space };
    options.no_advice = true;
    if (within == CANDIDATE_AS_GIVEN)
        return search_once(c, &options, &c->result, err);
    if (!widening_widest(&widest, &c->in, &c->space, &c->job, err))
        return false;
    if (within == CANDIDATE_LIGHTER) {
        space_lighten(&lighter, &widest);
        widest = lighter;
    }
    return search_widened(&c->result, &c->widening, c->in.model, &c->in.facts, &options, &widest, search_once, c, err);
}

const struct search_plan *candidate_plan(const struct candidate *c)
{
    return c->result && c->result->feasible ? &c->result->plans[0] : NULL;
}

int64_t candidate_tokens(const struct candidate *c)
{
    int64_t each = c->space.sequence > 0 ? c->space.sequence : c->in.model->sequence;
    return c->space.batch * (c->in.model->image_size > 0 ? 1 : each);
}

void candidate_free(struct candidate *c)
{
    if (!c)
        return;
    search_result_free(c->result);
    inputs_free(&c->in);
    free(c);
}
