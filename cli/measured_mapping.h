/* What the parts of a measured run's mapping have in common: its model (measured_model.c), and all else that estimate
 * is asked (measured_case.c). */
#ifndef CLEAVE_CLI_MEASURED_MAPPING_H
#define CLEAVE_CLI_MEASURED_MAPPING_H
#include "base/text.h"
#include "cli/measured_case.h"
#include <string.h>

struct mapping {
    const struct measured_run *run;
    struct arena *arena;
    struct error *why;
    struct text standin;
    const char *device, *framework; /* framework: asked for instead of the row's; NULL: the row's */
};
/* Notes what is told in place of something that estimate cannot say. */
void mapping_stand_in(struct mapping *m, const char *words);
/* Fails where the row does not say it. */
bool mapping_known(const struct mapping *m, int64_t value, const char *column);
#define KNOWN(member) mapping_known(m, m->run->member, #member)
/* What was written, on one line: no text in it has a line break that is not an escape. */
bool mapping_on_one_line(const char **out, struct json_writer *w, struct mapping *m);
/* The row's model in the native format. */
bool measured_model(struct measured_case *out, struct mapping *m);

static inline bool begins_with(const char *text, const char *words)
{
    return strncmp(text, words, strlen(words)) == 0;
}

static inline bool says(const struct measured_run *run, const char *words)
{
    return strstr(run->notes, words) || strcmp(run->dtype, words) == 0 ||
           (!begins_with(run->cuda_graph, "none") && strstr(run->cuda_graph, words));
}

static inline bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strcmp(text, *words))
            return true;
    return false;
}

static inline bool holds_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strstr(text, *words))
            return true;
    return false;
}

#endif
