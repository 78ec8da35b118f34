/* The models of models/zoo, with their published numbers of parameters; trainable 0: all of them are. */
#ifndef CLEAVE_TESTS_ZOO_MODELS_H
#define CLEAVE_TESTS_ZOO_MODELS_H
#include <stdbool.h>
#include <stdint.h>

static const struct {
    const char *name;
    int64_t parameters;
    bool tied;
    int64_t trainable;
} zoo[] = {
    { "gpt2", 124439808, true, 0 },
    { "gpt2-medium", 354823168, true, 0 },
    { "gpt2-large", 774030080, true, 0 },
    { "gpt2-xl", 1557611200, true, 0 },
    { "gpt3-175b", 174604259328, true, 0 },
    { "llama-2-7b", 6738415616, false, 0 },
    { "llama-2-13b", 13015864320, false, 0 },
    { "llama-2-70b", 68976648192, false, 0 },
    { "llama-3-8b", 8030261248, false, 0 },
    { "llama-3-70b", 70553706496, false, 0 },
    { "llama-3-405b", 405853388800, false, 0 },
    { "llama-3.2-1b", 1235814400, true, 0 },
    { "llama-3.2-3b", 3212749824, true, 0 },
    { "mistral-7b", 7241732096, false, 0 },
    { "qwen2.5-7b", 7615616512, false, 0 },
    { "qwen2.5-72b", 72706203648, false, 0 },
    { "qwen3-8b", 8190735360, false, 0 },
    { "qwen3-32b", 32762123264, false, 0 },
    { "qwen3-30b-a3b", 30532122624, false, 0 },
    { "qwen3-235b-a22b", 235093634560, false, 0 },
    { "gpt-oss-20b", 20914757184, false, 0 },
    { "gpt-oss-120b", 116829156672, false, 0 },
    { "deepseek-v3", 671026419200, false, 671026404352 },
    { "gpt-530b", 529600819200, true, 0 },
    { "gpt-1t", 1008038758400, true, 0 },
    { "bert-large", 334090240, true, 0 },
    { "tiny-gpt", 118528, true, 0 },
    { "tiny-llama", 106816, false, 0 },
    { "tiny-opaque", 4000000, false, 0 },
    { "tiny-encdec", 213760, true, 0 },
    { "tiny-uvit", 294016, false, 0 },
    { "tiny-towers", 199488, false, 0 },
    { "t5-small", 60506624, true, 0 },
    { "t5-base", 222903552, true, 0 },
    { "t5-large", 737668096, true, 0 },
    { "pythia-410m", 405334016, false, 0 },
    { "pythia-1.4b", 1414647808, false, 0 },
    { "mixtral-8x7b", 46702792704, false, 0 },
    { "deepseek-moe-16b", 16375728128, false, 0 },
    { "tiny-moe", 279872, false, 0 },
    { "llama-2-7b-lora", 6742609920, false, 4194304 },
    { "llama-2-70b-qlora", 69721137152, false, 744488960 },
    { "tiny-lora", 123200, false, 16384 },
    { "vit-base-16", 86567656, false, 0 },
    { "vit-large-16", 304326632, false, 0 },
    { "vgg-16", 138357544, false, 0 },
    { "resnet-50", 25557032, false, 0 },
    { "tiny-vit", 75082, false, 0 },
    { "tiny-resnet", 24666, false, 0 },
};
enum { ZOO = sizeof zoo / sizeof *zoo };
#endif
