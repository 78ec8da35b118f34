/* Plans whose first and last layers share a weight, and whose schedule has both ends of the model on one stage: the
 * closed form does not know that then nobody exchanges its gradient. */
#include "planner/program/schedule.h"
#include "planner/pool/moves.h"
#include "planner/search/search_parts.h"

bool joined_ends_are(const struct config *config)
{
    const struct schedule *schedule = schedules[config->schedule];
    return unbounded_is_usual(config) && !schedule->copies && config_pieces(config) > 1 &&
           config_stage(config, config_pieces(config) - 1) == config_stage(config, 0);
}

/* Gives the last piece one layer more, taken from the nearest piece that has one to spare; pieces between hand theirs
 * on. moved->plan is NULL where no piece has one, or where the result does not fit. */
static bool lengthen_last(struct run *run, const struct candidate *c, int kept, struct candidate *moved)
{
    int last = config_pieces(&run->configs[c->config]) - 1;
    moved->plan = NULL;
    for (struct cut_move move = { last, last, -1 }; move.first > 0 && !moved->plan; move.first--)
        if (!moves_cuts(run, c, &move, kept, moved))
            return false;
    return !moved->plan || rank_moved(run, moved, 1, INT64_MAX);
}

/* Gives the last piece the layers from the tied one on: the closed form does not know that one stage has both ends, so
 * that nobody would exchange the weight. */
static bool join_ends(struct run *run, const struct candidate *c, int *kept)
{
    const struct config *config = &run->configs[c->config];
    int last = config_pieces(config) - 1;
    struct candidate at = *c, moved;
    while (plan_layer_at(at.plan, rank_piece(config, at.plan, last).first) > run->bench.chain.tied_second) {
        if (!lengthen_last(run, &at, *kept, &moved))
            return false;
        if (!moved.plan)
            return true;
        if (!rank_keep(run, &moved, kept))
            return false;
        at = moved;
    }
    return true;
}

bool joined_ends_try_all(struct run *run)
{
    const struct chain *chain = &run->bench.chain;
    int kept = (int)run->result->certificate.ranked, ranked = kept;
    for (int i = 0; i < ranked && chain->branches && chain->tied_first >= 0 && !run_stops(run); i++) {
        struct candidate c = run->candidates[i], joined;
        if (c.judged || !rank_has_pieces(run, &c) || config_pieces(&run->configs[c.config]) < 2)
            continue;
        if (!moves_join_tied(run, &c, kept, &joined) ||
            (joined.plan && !(rank_moved(run, &joined, 1, INT64_MAX) && rank_keep(run, &joined, &kept))))
            return false;
    }
    rank_sort(run, kept);
    return true;
}

bool joined_ends_make(struct run *run)
{
    int kept = (int)run->result->certificate.ranked, ranked = kept;
    for (int i = 0; i < ranked && run->bench.chain.tied_first >= 0 && !run_stops(run); i++) {
        struct candidate c = run->candidates[i];
        if (!c.judged && joined_ends_are(&run->configs[c.config]) && !join_ends(run, &c, &kept))
            return false;
    }
    rank_sort(run, kept);
    return true;
}
