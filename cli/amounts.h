/* Amounts as people write them: tokens, dollars, how long; and lists of clusters. */
#ifndef CLEAVE_CLI_AMOUNTS_H
#define CLEAVE_CLI_AMOUNTS_H
#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"
#include <stdbool.h>

/* Each is positive and finite. what: the option, for messages. */
bool amount_count(double *out, const char *what, const char *text, struct error *err);      /* 1e12, 300B, 1.5T */
bool amount_dollars(double *out, const char *what, const char *text, struct error *err);    /* 5000, $5000, 50k, 2M */
bool amount_duration_s(double *out, const char *what, const char *text, struct error *err); /* seconds; 90m, 12h, 30d */
char *amount_duration_text(char out[TEXT_NUMBER_BYTES], double seconds);                    /* "2.3 s", "30.1 d" */
/* The next of a list of clusters and devices that are joined by commas, which the options behind a cluster's '@' are,
 * too: a comma parts two where no '=' follows before the next. NULL at the end. *rest: the list at first; lives in the
 * arena. */
const char *amount_next_cluster(const char **rest, struct arena *arena);
#endif
