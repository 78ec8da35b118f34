/* Plans of all pipeline shapes: chunks per stage, replicas in turn, meshes that differ by stage. */
#ifndef CLEAVE_TESTS_PIPELINE_SHAPE_H
#define CLEAVE_TESTS_PIPELINE_SHAPE_H
#include "planner/plan/plan.h"
#include <stdlib.h>

enum { SHAPE_STAGES = 8 };
struct shape {
    int stages;              /* replicas count once */
    bool folded;             /* the second chunk from the last stage back to the first */
    bool copies;             /* each chunk is a stage of a copy of the model */
    int chunks;              /* per stage; 0: one */
    int turns[SHAPE_STAGES]; /* replicas of each stage; 0: one */
    int atom[2];             /* of all stages; 0: one */
    int outer[SHAPE_STAGES]; /* atom 0 of one stage, where not 0 */
    int inner[SHAPE_STAGES]; /* likewise atom 1 */
};

static inline int shape_turns(const struct shape *shape, int stage)
{
    return shape->turns[stage] ? shape->turns[stage] : 1;
}

/* Layers shared out over the chunks as evenly as they go; batch and layers' choices are the caller's. */
static inline struct plan *shape_plan(const struct shape *shape, int layers)
{
    int count = 0, chunks = shape->chunks ? shape->chunks : 1, rank = 0,
        pieces = shape->copies ? shape->stages : shape->stages * chunks;
    for (int s = 0; s < shape->stages; s++)
        count += shape_turns(shape, s);
    struct plan *plan = plan_new(count, layers);
    if (!plan || !plan_set_chunks(plan, chunks))
        abort(); /* also called where no test runs */
    plan->atom_count = 2;
    for (int s = 0, at = 0; s < shape->stages; s++) {
        for (int turn = 0; turn < shape_turns(shape, s); turn++, at++) {
            struct plan_stage *stage = &plan->stages[at];
            stage->turn = turn;
            stage->first_rank = rank;
            stage->atom[0] = shape->outer[s] ? shape->outer[s] : shape->atom[0] ? shape->atom[0] : 1;
            stage->atom[1] = shape->inner[s] ? shape->inner[s] : shape->atom[1] ? shape->atom[1] : 1;
            rank += stage->atom[0] * stage->atom[1];
            for (int c = 0; c < chunks; c++) {
                int round = shape->copies ? 0 : c,
                    piece = round * shape->stages + (shape->folded && c % 2 ? shape->stages - 1 - s : s),
                    first = layers * piece / pieces;
                plan_set_chunk(plan, at, c, (struct layer_range){ first, layers * (piece + 1) / pieces - first });
            }
        }
    }
    plan->rank_count = rank;
    return plan;
}

/* The pipeline begins `by` stages later in the cluster, and goes on at its beginning. */
static inline void turn_stages(struct plan *plan, int by)
{
    int rank = 0;
    for (int i = 0; i < plan->stage_count; i++) {
        int s = (i + plan->stage_count - by) % plan->stage_count;
        plan->stages[s].first_rank = rank;
        rank += plan_stage_rank_count(plan, s);
    }
}
#endif
