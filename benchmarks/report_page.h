/* How an HTML report looks and what its keys do: lines of its style sheet and of its script, NULL-terminated. */
#ifndef CLEAVE_BENCHMARKS_REPORT_PAGE_H
#define CLEAVE_BENCHMARKS_REPORT_PAGE_H
#include <stddef.h>
extern const char *const report_style[], *const report_script[];
#endif
