/* Clusters with the devices of the catalogue, and profiles from text, for tests. Failing to read fails the test. */
#ifndef CLEAVE_TESTS_FACT_FILES_H
#define CLEAVE_TESTS_FACT_FILES_H
#include "host/catalogue.h"
#include "planner/facts/profile.h"
#include "tests/check.h"
#include <stdio.h>
#include <string.h>

/* Either form of a cluster. */
static inline struct cluster *cluster_open(const char *text)
{
    struct catalogue *catalogue = NULL;
    struct cluster *cluster = NULL;
    struct error err = { 0 };
    ck_assert_msg(
        catalogue_read(&catalogue, SOURCE_ROOT "/planner/facts/devices", &err) &&
            cluster_read(&cluster, "--cluster", text, strlen(text), catalogue->entries, catalogue->count, &err),
        "%s", err.message);
    catalogue_free(catalogue);
    return cluster;
}

/* body: the members beside format, version and dtype (bf16). */
static inline struct profile *profile_open(const char *body)
{
    char text[4096];
    struct profile *profile = NULL;
    struct error err = { 0 };
    snprintf(text, sizeof text, "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"bf16\", %s}", body);
    ck_assert_msg(profile_read(&profile, "p.json", text, strlen(text), &err), "%s", err.message);
    return profile;
}
#endif
