/* What tests of files about machines share: the files, and what becomes of them as levels of a cluster. */
#ifndef CLEAVE_TESTS_DISCOVERY_CHECKS_H
#define CLEAVE_TESTS_DISCOVERY_CHECKS_H
#include "host/file.h"
#include "profiler/discover.h"
#include "tests/fact_files.h"

/* kind: which begins the file's name. The caller frees it. */
static inline char *corpus_text(const char *kind, const char *name)
{
    char path[512], *text = NULL;
    size_t length;
    struct error err = { 0 };
    snprintf(path, sizeof path, SOURCE_ROOT "/tests/fuzz/corpus/%s_%s.xml", kind, name);
    ck_assert_msg(file_read(&text, &length, path, &err), "%s", err.message);
    return text;
}

/* within: a share of the rate. */
static inline void check_level_within(const struct discovery *found, int level, int fanout, double bytes_per_s,
                                      bool shared, double within)
{
    const struct link_level *l = &found->level[level].link;
    ck_assert_int_lt(level, found->level_count);
    ck_assert_int_eq(l->fanout, fanout);
    CHECK_NEAR(l->bytes_per_s, bytes_per_s, bytes_per_s * within);
    ck_assert_int_eq(l->shared, shared);
}
#endif
