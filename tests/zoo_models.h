/* The models of models/zoo, with their published numbers of parameters. */
#ifndef CLEAVE_TESTS_ZOO_MODELS_H
#define CLEAVE_TESTS_ZOO_MODELS_H
#include <stdbool.h>
#include <stdint.h>

static const struct {
    const char *name;
    int64_t parameters;
    bool tied;
} zoo[] = {
    { "gpt2", 124439808, true },
    { "gpt2-medium", 354823168, true },
    { "gpt2-large", 774030080, true },
    { "gpt2-xl", 1557611200, true },
    { "gpt3-175b", 174604259328, true },
    { "llama-2-7b", 6738415616, false },
    { "llama-2-13b", 13015864320, false },
    { "llama-2-70b", 68976648192, false },
    { "llama-3-8b", 8030261248, false },
    { "llama-3-70b", 70553706496, false },
    { "llama-3-405b", 405853388800, false },
    { "gpt-530b", 529600819200, true },
    { "gpt-1t", 1008038758400, true },
    { "bert-large", 334090240, true },
    { "tiny-gpt", 118528, true },
    { "tiny-llama", 106816, false },
    { "tiny-opaque", 4000000, false },
    { "tiny-encdec", 213760, true },
    { "tiny-uvit", 294016, false },
    { "tiny-towers", 199488, false },
    { "t5-small", 60506624, true },
    { "t5-base", 222903552, true },
    { "t5-large", 737668096, true },
    { "pythia-410m", 405334016, false },
    { "pythia-1.4b", 1414647808, false },
    { "mixtral-8x7b", 46702792704, false },
    { "deepseek-moe-16b", 16375728128, false },
    { "tiny-moe", 279872, false },
};
enum { ZOO = sizeof zoo / sizeof *zoo };
#endif
