/* The launch that a user has already: what it takes, and what would be better. */
#ifndef CLEAVE_CLI_FROM_H
#define CLEAVE_CLI_FROM_H
#include "cli/given.h"
#include "targets/target.h"

struct from {
    const struct target *target;
    struct launch_read read;
    struct space_options job;
};
/**
 * Reads a launch of the target from a file, or from the text itself, and prices it: the inputs, of which `in` gets what
 * the options name besides, the plan, and what it takes. model: NULL, the launch describes it. The caller owns both,
 * and from_free()s *from. Fails where the launch breaks a rule of the target.
 */
bool from_price(struct from *from, struct plan **plan, struct estimate **estimate, struct inputs *in,
                const struct given_options *given, const char *target, const char *model, const char *launch,
                struct error *err);
/* Says what was not understood, and which single changes make it shorter, or make it fit. */
bool from_say(const struct cli *cli, struct from *from, struct inputs *in, const struct estimate *estimate,
              struct error *err);
void from_free(struct from *from);
#endif
