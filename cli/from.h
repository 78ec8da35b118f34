/* The launch that a user has already: what it takes, and what would be better. */
#ifndef CLEAVE_CLI_FROM_H
#define CLEAVE_CLI_FROM_H
#include "cli/given.h"
#include "targets/target.h"

enum { FROM_BETTER = 4, FROM_WORDS = 96 };
struct from {
    const struct target *target;
    struct launch_read read;
    struct space_options job;
    int tried, better_count; /* single changes; of those that make it shorter, or fit, the first */
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
/* Tries single changes: which make it shorter, or make it fit. */
bool from_weigh(struct from *from, struct inputs *in, const struct estimate *estimate, struct error *err);
/* Says what was not understood, and which changes help. */
void from_say(const struct cli *cli, const struct from *from, const struct estimate *estimate);
/* The same as a member "launch". */
void from_put(struct json_writer *w, const struct from *from);
void from_free(struct from *from);
#endif
