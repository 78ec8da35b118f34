/* What the verbs share that measure this machine. */
#ifndef CLEAVE_CLI_MEASURING_H
#define CLEAVE_CLI_MEASURING_H
#include "base/text.h"
#include "cli/verb.h"
#include "profiler/crew.h"

/* The device of --backend if it computes; NULL: none, err says why. */
const struct device *measuring_backend(const char *name, struct error *err);
/* What computes, by the name of --backend and --dtype (NULL: fp32 on the processor, bf16 on a GPU): sets the crew's
 * device, dtype and module_dir; of a GPU also what it is called, its memory and its cache, which else
 * stay. */
bool measuring_device(const struct cli *cli, const char *backend, const char *dtype, struct crew *crew,
                      struct text *machine, int64_t *memory_bytes, struct error *err);
/* Versions of what computes. */
enum { MEASURING_SOFTWARE_BYTES = 512 };
void measuring_software(const struct cli *cli, const struct crew *crew, char out[MEASURING_SOFTWARE_BYTES]);
/* on_progress of measurements; context: a struct progress. */
void measuring_progress(void *context, const char *what, int done, int count);
#endif
