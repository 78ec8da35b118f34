/* What the files of the DeepSpeed target share. */
#ifndef CLEAVE_TARGETS_DEEPSPEED_H
#define CLEAVE_TARGETS_DEEPSPEED_H
#include "targets/settings.h"
#include "targets/target.h"
#include "targets/trainer.h"

/* Takes keys that have no effect, or of which the framework's facts have the value that they say, and gives their
 * number; zero: the stage. json: keys that are nearly others are told, which DeepSpeed ignores. What says another value
 * is left, so that it is not understood. */
int deepspeed_take_ignored(struct settings *settings, int zero, bool json);
/* Names fields of ZeRO's configuration as files mostly do, stage3_max_live_parameters for max_live_parameters, and
 * fails at one that DeepSpeed does not know and that is nearly one of its own: it refuses them. */
bool deepspeed_name_keys(struct settings *settings, struct error *err);
/* Keys that name a file with settings (NULL-terminated). */
extern const char *const deepspeed_files[];
/* Fails where a file of DeepSpeed's contradicts what is stated beside it, and names both. Of values that nobody typed
 * nothing is said. */
bool deepspeed_agrees(struct settings *settings, struct error *err);
/* Reads the batch, the micro-batch and their number, of which one may follow from the others. Fails where they do not
 * go together. */
bool deepspeed_read_batch(struct launch_read *out, struct settings *settings, const struct trainer_said *said,
                          struct error *err);
#endif
