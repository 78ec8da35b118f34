/* A framework of a few members, and a plan that runs under it. */
#ifndef CLEAVE_TESTS_FRAMEWORK_JOB_H
#define CLEAVE_TESTS_FRAMEWORK_JOB_H
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/sim/simulate.h"
#include "tests/fixed_choices.h"
#include "tests/toy_world.h"

static inline struct framework framework_of(const char *members)
{
    struct framework out = { 0 };
    struct error err = { 0 };
    static struct arena arena; /* of static texts */
    char text[512];
    snprintf(text, sizeof text, "{\"description\": \"d\", \"source\": \"s\"%s}", members);
    ck_assert_msg(framework_read(&out, &arena, "toy", text, strlen(text), NULL, &err), "%s", err.message);
    return out;
}

struct job {
    struct world world;
    struct plan *plan;
    struct graph *graph;
    struct program *program;
};

/* A plan of micro-batches of one sequence, of the model of the text; NULL: of a toy transformer. */
static inline struct job job_of(const char *text, const struct framework *framework, union fixed u, enum dtype dtype)
{
    struct job job = { .world = world_open("1x2:toy", 80000000000, 3) };
    struct error err = { 0 };
    struct space space = space_default(8, 0, dtype);
    if (text) {
        model_free(job.world.model);
        ck_assert_msg(model_read(&job.world.model, "experts", text, strlen(text), NULL, &err), "%s", err.message);
    }
    if (framework) {
        job.world.facts.framework = framework;
        ck_assert(model_keep(job.world.model, framework->stores_scores, framework->loss_keeps_fp32));
        job.world.model->keeping = framework->keeping;
    }
    u.micro = 1;
    ck_assert_msg(fixed_choices_plan(&job.plan, &u, &space, job.world.model, &job.world.facts, &err) &&
                      plan_graph(&job.graph, job.world.model, job.plan, &err) &&
                      lower_program(&job.program, job.graph, job.plan, &err) && layout_program(job.program, &err),
                  "%s", err.message);
    return job;
}

static inline struct job job_open(const struct framework *framework, int stages, int recompute, enum dtype dtype)
{
    union fixed u = fixed_none();
    u.stages = stages;
    u.recompute = recompute;
    return job_of(NULL, framework, u, dtype);
}

/* The toy transformer, a field of whose attention is so: "alibi": true. */
static inline const char *toy_with_attention(const char *field)
{
    static char text[1024];
    snprintf(text, sizeof text,
             "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"toy\", \"sequence\": 64, \"hidden\": 64, "
             "\"vocab_size\": 500, \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": 3, \"layers\": [{\"kind\": "
             "\"attention\", \"heads\": 4, %s, \"norm\": \"layer_norm\"}, {\"kind\": \"mlp\", \"inner\": 256, "
             "\"activation\": \"gelu\", \"norm\": \"layer_norm\"}]}, {\"kind\": \"head\", \"norm\": \"layer_norm\"}, "
             "{\"kind\": \"loss\"}]}",
             field);
    return text;
}

static inline void job_close(struct job *job)
{
    program_free(job->program);
    graph_free(job->graph);
    plan_free(job->plan);
    world_close(&job->world);
}

static inline int64_t step_ns(const struct job *job, int64_t kinds[TIME_KIND_COUNT])
{
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert_msg(simulate(&timeline, &job->world.facts, job->program, &err), "%s", err.message);
    int64_t ns = timeline->step_ns;
    if (kinds)
        timeline_breakdown(job->program, timeline, timeline_last_rank(timeline), kinds);
    timeline_free(timeline);
    return ns;
}

#define EXPERTS(members)                                                                                               \
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"experts\", \"sequence\": 64, \"hidden\": 64, "         \
    "\"vocab_size\": 500, \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": 3, \"layers\": [{\"kind\": "            \
    "\"attention\", "                                                                                                  \
    "\"heads\": 4, \"norm\": \"rms_norm\"}, {\"kind\": \"moe\", \"experts\": 8, \"choices\": 3, \"inner\": 64, "       \
    "\"activation\": \"swiglu\", \"norm\": \"rms_norm\"" members "}]}, {\"kind\": \"head\", \"norm\": \"rms_norm\"}, " \
    "{\"kind\": \"loss\"}]}"

static inline struct job expert_job(const char *text, const struct framework *framework)
{
    union fixed u = fixed_none();
    u.expert = 2;
    u.recompute = RECOMPUTE_NONE;
    return job_of(text, framework, u, DTYPE_BF16);
}
#endif
