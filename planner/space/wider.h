/* By what a space is widened where nothing fits in it: choices of which other values than those that a search tries
 * anyway take less memory. Each multiplies the search's work, or changes more about a run than its degrees, so nobody
 * is given them unasked where something fits without. Shards over fewer ranks (hsdp) are larger, what keeps more of a
 * layer than full recomputation does needs more, and slices spare no more than part of one layer's gathered weights:
 * these are not among them. */
#ifndef CLEAVE_SPACE_WIDER_H
#define CLEAVE_SPACE_WIDER_H
#include "planner/space/space.h"

enum { WIDER_CHOICES = 4 };
/* Lists wider choices from those that change least about a run to those that change most. */
extern const enum space_choice wider_choices[WIDER_CHOICES];
/* True when all devices have a link to host memory that is known. */
bool space_has_hosts(const struct cluster *cluster);
bool space_offloads(const struct space *space); /* some layer may */
/* Gives all wider choices their values, but for those that have none on the cluster, as host memory without a link to
 * it. tokens: of the space's sequences. */
void space_widen(struct space *space, const struct cluster *cluster, int64_t tokens);
/* Leaves weights on the device, where the space allows this: what lies on the host is copied in each pass, so it is
 * tried once nothing fits without. */
void space_keep_weights(struct space *space);
/* Allows the optimizer's states on hosts, too, as the widest space does, alone or with weights, and gives the choice;
 * CHOICE_COUNT: that does not, or they are. */
enum space_choice space_lighten(struct space *space, const struct space *widest);
/* Narrows each to the values that take least memory, as far as the space allows them: it has a plan that fits if the
 * space has one, or nearly so. Host memory ends somewhere: how many layers use it stays free. */
void space_narrow_wide(struct space *space);
#endif
