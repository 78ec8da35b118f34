/* The launch that a user has already: what it takes, and what would be better. */
#ifndef CLEAVE_CLI_FROM_H
#define CLEAVE_CLI_FROM_H
#include "cli/beside.h"
#include "cli/given.h"
#include "targets/target.h"

enum { FROM_BETTER = 4, FROM_WORDS = 192 };
struct from {
    const struct target *target;
    struct launch_read read;
    struct beside_seen seen;
    struct space_options job;
    bool usual_sequence; /* the length is the trainer's own, since nobody says another */
    int tried, pairs_tried; /* single changes, and where none of these helps two at once */
    int better_count;       /* of those that make it shorter, or fit, the first */
    struct {
        char words[FROM_WORDS];
        int64_t step_ns;
    } better[FROM_BETTER];
};
/**
 * Reads a launch of the target from a file, or from the text itself, and prices it: the inputs, of which `in` gets what
 * the options name besides, the plan, and what it takes. model: NULL, the launch describes it. The caller owns both,
 * and from_free()s *from. Fails where the launch breaks a rule of the target.
 */
bool from_price(struct from *from, struct plan **plan, struct estimate **estimate, struct inputs *in,
                const struct given_options *given, const char *target, const char *model, const char *launch,
                struct error *err);
/* The target or source of that name, else a failure that lists them, and says which of them reads what another tool
 * of that name has. */
bool from_source(const struct target **out, const char *name, struct error *err);
/* The plan of a launch that is like the one that was read; the inputs' graph is made anew for it. */
bool from_plan(struct plan **out, const struct from *from, const struct launch *launch, struct inputs *in,
               const struct space *space, struct error *err);
/* Tries single changes, and pairs of the most promising where none of them helps: which make it shorter, or make it
 * fit. */
bool from_weigh(struct from *from, struct inputs *in, const struct estimate *estimate, struct error *err);
/* Says what was not understood, and which changes help. */
void from_say(const struct cli *cli, const struct from *from, const struct estimate *estimate);
/* The same as a member "launch". */
void from_put(struct json_writer *w, const struct from *from);
void from_free(struct from *from);
#endif
