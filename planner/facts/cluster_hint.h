/* Guesses what was meant by a name that is none of a device or a cluster. */
#ifndef CLEAVE_FACTS_CLUSTER_HINT_H
#define CLEAVE_FACTS_CLUSTER_HINT_H
#include "base/text.h"
#include "planner/facts/cluster.h"

/* Appends `, did you mean "a", "b"?` of the devices that are called so in short, else of the nearest name, if
 * there is either, and how a device is stated that the catalogue lacks. */
void cluster_catalogue_hint(struct text *out, const struct catalogue_entry *catalogue, int count, const char *name);
/* Appends `; did you mean 8x8:h100-sxm?` where the text names a device and perhaps how many, in other words than the
 * short form's. */
void cluster_hint(struct text *out, const char *text, size_t length, const struct catalogue_entry *catalogue,
                  int count);
#endif
