#include "models/optimizer.h"
#include "base/num.h"
#include "base/text.h"
#include <string.h>

#define OPTIMIZER(id, name, ...) [OPTIMIZER_##id] = name,
const char *const optimizer_rule_names[] = {
#include "models/optimizers.def"
    NULL
};
#define MOMENTS(id, name, ...) [MOMENTS_##id] = name,
const char *const optimizer_moment_names[] = {
#include "models/optimizers.def"
    NULL
};
#define MASTER(id, name, ...) [MASTER_##id] = name,
const char *const optimizer_master_names[] = {
#include "models/optimizers.def"
    NULL
};
#define GRADIENTS(id, name, ...) [GRADIENTS_##id] = name,
const char *const optimizer_gradient_names[] = {
#include "models/optimizers.def"
    NULL
};
#define OPTIMIZER_PART(a, b, member, key, option, names, ...) [OPTIMIZER_PART_##member] = { key, option, names },
const struct optimizer_part_facts optimizer_parts[OPTIMIZER_PARTS] = { OPTIMIZER_PARTS_OF(OPTIMIZER_PART, , ) };
#undef OPTIMIZER_PART

#define OPTIMIZER(id, name, of_matrix_, of_others_, rounds_)                                                           \
    [OPTIMIZER_##id] = { .of_matrix = of_matrix_, .of_others = of_others_, .rounds = rounds_ },
static const struct rule_facts {
    int of_matrix, of_others, rounds;
} rule_facts[OPTIMIZER_COUNT] = {
#include "models/optimizers.def"
};
#define MOMENTS(id, name, bytes_, block_) [MOMENTS_##id] = { .bytes = bytes_, .block = block_ },
static const struct moment_facts {
    int64_t bytes, block;
} moment_facts[MOMENTS_COUNT] = {
#include "models/optimizers.def"
};
#define MASTER(id, name, bytes) [MASTER_##id] = bytes,
static const int64_t master_bytes[MASTER_COUNT] = {
#include "models/optimizers.def"
};
#define GRADIENTS(id, name, bytes) [GRADIENTS_##id] = bytes,
static const int64_t gradient_bytes[GRADIENTS_COUNT] = {
#include "models/optimizers.def"
};

bool optimizer_equal(const struct optimizer *a, const struct optimizer *b)
{
    return memcmp(a->part, b->part, sizeof a->part) == 0;
}

bool optimizer_is_usual(const struct optimizer *optimizer)
{
    return optimizer_equal(optimizer, &(struct optimizer){ 0 });
}

static bool refuse(const char **key, enum optimizer_part part, const struct optimizer *o, const char *why,
                   enum dtype dtype, struct error *err)
{
    *key = optimizer_parts[part].key;
    return fail(err, "%s %s: %s; the dtype is %s", *key, optimizer_parts[part].names[o->part[part]], why,
                dtype_names[dtype]);
}

bool optimizer_check(const char **key, const struct optimizer *o, enum dtype dtype, struct error *err)
{
    bool narrow = weight_bytes_per_element(dtype) < gradient_bytes_per_element(dtype);
    for (int i = 0; i < OPTIMIZER_PARTS; i++) {
        int count = 0;
        while (optimizer_parts[i].names[count])
            count++;
        *key = optimizer_parts[i].key;
        if (!is_index(o->part[i], count))
            return fail(err, "%s: expected 0 to %d, found %d", *key, count - 1, o->part[i]);
    }
    if (o->moments != MOMENTS_FULL && rule_facts[o->rule].of_others == 0) {
        *key = optimizer_parts[OPTIMIZER_PART_moments].key;
        return fail(err, "moments %s: optimizer %s keeps none; leave it out", optimizer_moment_names[o->moments],
                    optimizer_rule_names[o->rule]);
    }
    if (o->moments != MOMENTS_FULL && dtype == DTYPE_FP64)
        return refuse(key, OPTIMIZER_PART_moments, o, "under fp64 moments are as wide", dtype, err);
    if (o->master != MASTER_KEPT && !narrow)
        return refuse(key, OPTIMIZER_PART_master, o, "only weights in 16 bit have another copy", dtype, err);
    if (o->master == MASTER_REMAINDER && dtype == DTYPE_FP16)
        return refuse(key, OPTIMIZER_PART_master, o, "weights in bf16 alone are the high half of one in 32 bit", dtype,
                      err);
    if ((o->gradients == GRADIENTS_FP16 && dtype != DTYPE_FP16) ||
        (o->gradients == GRADIENTS_BF16 && (!narrow || dtype == DTYPE_FP16)))
        return refuse(key, OPTIMIZER_PART_gradients, o,
                      "gradients are added up in 32 bit, or in the type of the weights", dtype, err);
    if (o->gradients == GRADIENTS_FP32 && !narrow)
        return refuse(key, OPTIMIZER_PART_gradients, o, "gradients are as wide as the weights; leave it out", dtype,
                      err);
    return true;
}

void optimizer_describe(struct text *out, const struct optimizer *optimizer)
{
    text_add(out, optimizer_rule_names[optimizer->rule]);
    for (int i = 0; i < OPTIMIZER_PARTS; i++)
        if (i != OPTIMIZER_PART_rule && optimizer->part[i] != 0)
            text_printf(out, ", %s %s", optimizer_parts[i].key, optimizer_parts[i].names[optimizer->part[i]]);
}

static bool is_matrix(const struct weight *weight)
{
    return weight && weight->row_dims && weight->column_dims;
}

static int64_t moment_count(const struct optimizer *optimizer, const struct weight *weight)
{
    const struct rule_facts *rule = &rule_facts[optimizer->rule];
    return is_matrix(weight) ? rule->of_matrix : rule->of_others;
}

int64_t optimizer_bytes_per_element(const struct optimizer *optimizer, enum dtype dtype, const struct weight *weight)
{
    int64_t full = gradient_bytes_per_element(dtype), each = moment_facts[optimizer->moments].bytes;
    int64_t master = weight_bytes_per_element(dtype) < full ? master_bytes[optimizer->master] : 0;
    return moment_count(optimizer, weight) * (each ? each : full) + master;
}

int64_t optimizer_state_bytes(const struct optimizer *optimizer, enum dtype dtype, const struct weight *weight,
                              int64_t elements)
{
    enum { SCALE_BYTES = 4 };
    int64_t block = moment_facts[optimizer->moments].block;
    int64_t scales = block ? moment_count(optimizer, weight) * ceil_div(elements, block) * SCALE_BYTES : 0;
    return elements * optimizer_bytes_per_element(optimizer, dtype, weight) + scales;
}

int optimizer_rounds(const struct optimizer *optimizer, const struct weight *weight)
{
    return is_matrix(weight) ? rule_facts[optimizer->rule].rounds : 0;
}

int optimizer_most_zero(const struct optimizer *optimizer)
{
    return rule_facts[optimizer->rule].rounds > 0 ? 1 : 3;
}

bool optimizer_refuse_zero(const struct optimizer *optimizer, struct error *err)
{
    return fail(err, "zero: optimizer %s takes whole matrices, which shards of gradients cut: expected 0 or %d",
                optimizer_rule_names[optimizer->rule], optimizer_most_zero(optimizer));
}

int64_t optimizer_gradient_bytes(const struct optimizer *optimizer, int narrow, enum dtype dtype)
{
    bool own = narrow == NARROW_ALL || (narrow == NARROW_FP16 && dtype == DTYPE_FP16);
    if (gradient_bytes[optimizer->gradients] > 0)
        return gradient_bytes[optimizer->gradients];
    return own ? weight_bytes_per_element(dtype) : gradient_bytes_per_element(dtype);
}
