/* Regular expressions of Python's re, as far as names of modules want them: characters, ".", sets, groups, alternatives,
 * "*", "+", "?", \\d, \\w and escaped characters. */
#ifndef CLEAVE_TARGETS_PATTERN_H
#define CLEAVE_TARGETS_PATTERN_H
#include <stdbool.h>

enum { PATTERN_MOST_NAME = 96 };
/* Whether the pattern matches all of the name, which is shorter than that. False too where it is none of these, or
 * would take long. */
bool pattern_matches(const char *pattern, const char *name);
#endif
