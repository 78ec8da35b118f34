/* What updates the weights, and in which precision it keeps what it works with. Sizes follow from it here and nowhere
 * else. */
#ifndef CLEAVE_MODELS_OPTIMIZER_H
#define CLEAVE_MODELS_OPTIMIZER_H
#include "base/error.h"
#include "models/graph.h"

#define OPTIMIZER(id, ...) OPTIMIZER_##id,
enum optimizer_rule {
#include "models/optimizers.def"
    OPTIMIZER_COUNT
};
#define MOMENTS(id, ...) MOMENTS_##id,
enum optimizer_moments {
#include "models/optimizers.def"
    MOMENTS_COUNT
};
#define MASTER(id, ...) MASTER_##id,
enum optimizer_master {
#include "models/optimizers.def"
    MASTER_COUNT
};
#define GRADIENTS(id, ...) GRADIENTS_##id,
enum optimizer_gradients {
#include "models/optimizers.def"
    GRADIENTS_COUNT
};
/* What may be said of one: PART(a, b, member of struct optimizer, key in files, option, its values, what it says). Plan
 * files, their hash, options, and launches go through the list. */
#define OPTIMIZER_PARTS_OF(PART, a, b)                                                                                 \
    PART(a, b, rule, "optimizer", "optimizer", optimizer_rule_names, "what updates the weights")                       \
    PART(a, b, moments, "moments", "moments", optimizer_moment_names, "precision of the moments that it keeps")        \
    PART(a, b, master, "master_weights", "master-weights", optimizer_master_names,                                     \
         "the copy of weights in 16 bit that is updated")                                                              \
    PART(a, b, gradients, "gradient_dtype", "gradient-dtype", optimizer_gradient_names,                                \
         "in which gradients are added up and reduced; usual: as the framework does")
enum optimizer_part {
#define OPTIMIZER_PART(a, b, member, ...) OPTIMIZER_PART_##member,
    OPTIMIZER_PARTS_OF(OPTIMIZER_PART, , )
#undef OPTIMIZER_PART
        OPTIMIZER_PARTS
};

/* All 0: AdamW with moments and a copy of narrow weights in 32 bit, as mixed precision has been trained since
 * Micikevicius et al. 2018. */
struct optimizer {
    union {
        int part[OPTIMIZER_PARTS];
        struct {
#define OPTIMIZER_PART(a, b, member, ...) int member;
            OPTIMIZER_PARTS_OF(OPTIMIZER_PART, , )
#undef OPTIMIZER_PART
        };
    };
};
/* Its parts as files and options name them, and their values, NULL-terminated. */
extern const char *const optimizer_rule_names[], *const optimizer_moment_names[], *const optimizer_master_names[],
                                                                                      *const optimizer_gradient_names[];
extern const struct optimizer_part_facts {
    const char *key, *option;
    const char *const *names;
} optimizer_parts[OPTIMIZER_PARTS];

bool optimizer_equal(const struct optimizer *a, const struct optimizer *b);
/* Whether nothing was said of it. */
bool optimizer_is_usual(const struct optimizer *optimizer);
/* Whether there is such a one under the dtype; *key: the part at fault, as files name it. */
bool optimizer_check(const char **key, const struct optimizer *optimizer, enum dtype dtype, struct error *err);
/* Adds "adamw, moments bf16": the optimizer, and what else was said. */
struct text;
void optimizer_describe(struct text *out, const struct optimizer *optimizer);

/* Bytes of state for an element of a weight, without scales: its moments, and the copy of a narrow weight. Of AdamW
 * under bf16 12 (Rajbhandari et al. 2020, section 3.1). 0: none is kept. weight NULL: one that is no matrix. */
int64_t optimizer_bytes_per_element(const struct optimizer *optimizer, enum dtype dtype, const struct weight *weight);
/* Of so many elements, with the scales of their blocks. */
int64_t optimizer_state_bytes(const struct optimizer *optimizer, enum dtype dtype, const struct weight *weight,
                              int64_t elements);
/* Rounds of Newton and Schulz by which the weight's update becomes orthogonal, each three products: of n x m, n at most
 * m, n x n over m, n x n over n, and n x m over n; 0: it does not. */
int optimizer_rounds(const struct optimizer *optimizer, const struct weight *weight);
/* Above ZeRO 1 shards of gradients cut matrices, which such rounds take whole: 1, else 3. */
int optimizer_most_zero(const struct optimizer *optimizer);
/* Fails, saying which ZeRO stages the optimizer goes with. */
bool optimizer_refuse_zero(const struct optimizer *optimizer, struct error *err);
/* Bytes of an element of the accumulator of gradients. narrow: NARROW_..., as the graph's keeping has it. */
int64_t optimizer_gradient_bytes(const struct optimizer *optimizer, int narrow, enum dtype dtype);
#endif
