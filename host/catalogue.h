/* The devices of an installation: every <name>.json of one folder. */
#ifndef CLEAVE_HOST_CATALOGUE_H
#define CLEAVE_HOST_CATALOGUE_H
#include "planner/facts/cluster.h"

struct catalogue {
    struct arena arena;
    int count;
    struct catalogue_entry *entries; /* (count) by name */
};
/* Reads the folder; each file is checked by device_type_read(), so that a broken one is named here and not where it is
 * used. A folder without devices is a failure. The caller owns *out: catalogue_free(). */
bool catalogue_read(struct catalogue **out, const char *folder, struct error *err);
void catalogue_free(struct catalogue *catalogue); /* accepts NULL */
#endif
