/* One configuration that somebody names, planned and priced: by a user (`estimate`) or by a run that was measured
 * (`validate`). */
#ifndef CLEAVE_CLI_GIVEN_H
#define CLEAVE_CLI_GIVEN_H
#include "cli/space_options.h"
#include "cli/stages.h"

struct estimate;
/* What --fix says: all other choices have no values. */
bool given_fixed(struct space *said, const struct text_list *fix, struct error *err);
/* The plan of what is said, all else as usual (chunks want the schedule that runs several: that is added to it), with
 * its graph in the inputs. options->space: as space_inputs() filled it. clips: somebody says whether gradients are
 * clipped. cuts: NULL, as usual. The caller owns *out. */
bool given_plan(struct plan **out, struct inputs *in, struct search_options *options, struct space *said,
                const struct stage_cuts *cuts, bool clips, bool reversed, struct error *err);
/* What it takes. The caller owns *out. */
bool given_estimate(struct estimate **out, const struct inputs *in, const struct plan *plan, struct error *err);
#endif
