/* One of several clusters, or one cluster with ever less memory: the same job searched there as `cleave plan` does. */
#ifndef CLEAVE_CLI_CANDIDATE_H
#define CLEAVE_CLI_CANDIDATE_H
#include "cli/space_options.h"
#include "planner/search/widen.h"

struct candidate {
    struct inputs in;
    struct space_options job;
    struct space space;
    struct search_result *result; /* NULL: not searched yet */
    struct widening widening;     /* of the space that the result is about */
};
/* How far a search may leave the space: not at all, by the optimizer's states on hosts, or as `cleave plan` does. */
enum candidate_space { CANDIDATE_AS_GIVEN, CANDIDATE_LIGHTER, CANDIDATE_WIDER };
/* The model's own description as text, for further candidates: foreign files are read, and their notes said, once.
 * Lives in the inputs' arena; NULL: out of memory. */
const char *candidate_model(struct inputs *in);
/* The job's inputs on the cluster, as text that --cluster takes. reserve: instead of the job's; NULL: the job's. */
bool candidate_open(struct candidate **out, const struct cli *cli, const char *model, const struct space_options *job,
                    const char *cluster, const char *reserve, struct error *err);
/* Searches it, once, without advice where nothing fits. seconds: of the clock at most; 0: as the job says. */
bool candidate_search(struct candidate *c, double seconds, enum candidate_space within, struct error *err);
/* Its plan; NULL: none fits. */
const struct search_plan *candidate_plan(const struct candidate *c);
/* Tokens of a step, or images. */
int64_t candidate_tokens(const struct candidate *c);
void candidate_free(struct candidate *c); /* accepts NULL */
#endif
