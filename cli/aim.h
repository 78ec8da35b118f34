/* A plan for a target: what the framework that shall run it can be told. */
#ifndef CLEAVE_CLI_AIM_H
#define CLEAVE_CLI_AIM_H
#include "cli/free_look.h"
#include "cli/space_options.h"
#include <stdatomic.h>
#include "targets/uniform.h"
#include "targets/target.h"

/* The target of that name, else a failure that lists them. */
bool aim_target(const struct target **out, const char *option, const char *name, struct error *err);
/* Whether the target can be told to compute in it. */
bool aim_takes_dtype(const struct target *target, enum dtype dtype);
/* The space becomes the target's, and the model's blocks whole. */
bool aim_restrict(struct space *space, struct inputs *in, const struct target *target, struct error *err);
/* What a launch is about; the graph is the inputs', in which blocks are whole. */
struct launch_context aim_context(const struct inputs *in);
/* And what the plan file that was read predicts. */
bool aim_predicted(struct launch_context *context, struct inputs *in, struct error *err);
/* The plan as a launch that keeps the target's rules; a failure says what it breaks. In the inputs' arena. */
bool aim_launch(struct launch *out, struct inputs *in, const struct target *target, const struct plan *plan,
                struct error *err);
/* Writes the plan's launch to the folder, and its files' names to `out`. In export.c. */
bool aim_export(FILE *out, struct inputs *in, const struct target *target, const struct plan *plan,
                const struct launch_context *context, const char *folder, struct error *err);
/* Says, on standard error, which plan the target can be told in place of the one that was read, and how it is made: the
 * best with the same pp, tp, cp and micro-batch, else with the same pp and tp, else of all, by searches of some
 * seconds; where there is none, how one is sought. In nearest.c. The inputs' framework becomes the target's. */
void aim_say_nearest(const struct cli *cli, struct inputs *in, const struct target *target);
/* Whether the launch keeps the target's rules but those beyond (NULL-terminated; NULL: all); a failure says which it
 * breaks. */
bool aim_check(const struct inputs *in, const struct target *target, const struct launch *launch,
               const char *const *beyond, struct error *err);
/* struct explainer's search, of plans that the target can be told. self: struct aim, which stays. */
struct aim {
    struct inputs *in; /* its model's blocks are whole */
    const struct target *target;
    struct free_look *look; /* NULL: nobody wants one */
    atomic_int asked; /* of how many further facts */
};
bool aim_explain(void *self, struct search_result **out, const struct facts *facts,
                 const struct search_options *options, struct error *err);
/* search_run() for a target: in its space, of plans that it can be told. look: is begun as soon as it may be; NULL:
 * nobody wants one. */
bool aim_search(struct search_result **out, struct uniform_choice *choice, struct inputs *in,
                const struct target *target, const struct search_options *options, struct free_look *look,
                struct error *err);
/* Says what else the target could be told, what its limits cost against the space without them, and, unless it is
 * exported, how that is done. best: the plan. options: of the whole space. look: as aim_search() left it. path: of the
 * plan's file, NULL: none. */
bool aim_say(const struct cli *cli, struct inputs *in, const struct target *target, const struct uniform_choice *choice,
             const struct search_options *options, struct free_look *look, const struct search_plan *best,
             const char *path, bool exported, struct error *err);
#endif
