/* One configuration that somebody names, planned and priced: by a user (`estimate`, `calibrate`) or by a run that was
 * measured (`validate`). */
#ifndef CLEAVE_CLI_GIVEN_H
#define CLEAVE_CLI_GIVEN_H
#include "cli/space_options.h"

struct estimate;
/* Of each choice what its option says, in the member of its kind (given_options.def has the options). */
struct given_options {
    struct space_options space;
    const char *word[CHOICE_COUNT];
    int64_t number[CHOICE_COUNT]; /* GIVEN_UNSAID: the option was not given */
    int64_t chunk_group;          /* of micro-batches; 0: the least */
    bool reversed, flag[CHOICE_COUNT];
    struct {
        const char *model, *cluster, *dtype;
        int64_t batch, sequence, vocabulary;
    } otherwise; /* what holds where neither options nor a launch say it; 0 and NULL: nothing */
};
enum { GIVEN_UNSAID = -1 };
/* What --fix says: all other choices have no values. */
bool given_fixed(struct space *said, const struct text_list *fix, struct error *err);
/* The plan of what is said, all else as usual (chunks want the schedule that runs several: that is added to it), with
 * its graph in the inputs. options->space: as space_inputs() filled it, perhaps with a cut by hand. chunk_group: as in
 * struct plan. clips: somebody says whether gradients are clipped. The caller owns *out. */
bool given_plan(struct plan **out, struct inputs *in, struct search_options *options, struct space *said,
                int64_t chunk_group, bool clips, bool reversed, struct error *err);
/* What it takes. The caller owns *out. */
bool given_estimate(struct estimate **out, const struct inputs *in, const struct plan *plan, struct error *err);
/* The inputs that the options name, which `in` gets, the plan, and what it takes. The caller owns both. */
bool given_price(struct plan **plan, struct estimate **estimate, struct inputs *in, const struct given_options *given,
                 const char *model, struct error *err);
#endif
