/* The plan file: {"format": "cleave-plan", "version": 1, "decisions", "predicted", "context"}. Decisions, predictions
 * and context stand apart, so that equal decisions give equal bytes whatever was predicted. Deterministic. */
#ifndef CLEAVE_PLAN_PLAN_JSON_H
#define CLEAVE_PLAN_PLAN_JSON_H
#include "base/json.h"
#include "base/text.h"
#include "planner/plan/plan.h"

#define PLAN_FORMAT "cleave-plan"
enum { PLAN_FORMAT_VERSION = 1 };

/* What a plan was made from. `source` is what the user typed (a path or a short form), so that the file can be run by
 * itself. */
struct plan_origin {
    const char *source, *name;
    uint64_t hash;
    const struct json *description; /* of a model: the native one, by which the plan is at home in any folder. NULL: the
                                       file has none, as of models that a caller of the library keeps */
};                                  /* source NULL: there was none */
struct plan_context {
    struct plan_origin model, cluster, profile, options; /* options.source: the text of the options */
    struct plan_origin framework;                        /* source NULL: cleave itself */
    const char *reserve; /* memory of each device that was to stay free, as --reserve has it; NULL: the devices' own */
    const char *cleave;  /* version that wrote the file */
};

/* What was predicted, as the file shows it. Names and values of the breakdown come from the simulator's categories. */
struct prediction {
    int64_t step_ns;
    double tokens_per_s_per_device, mfu;
    bool fits; /* every stage's peak is within the usable memory of its devices and of their hosts */
    int stage_count;
    int64_t *peak_bytes;          /* (stage_count) of one rank, everything included */
    int64_t *available_bytes;     /* (stage_count) usable per device */
    int64_t *host_bytes;          /* (stage_count) that one rank keeps in host memory; NULL: none does */
    int64_t host_available_bytes; /* the least of all stages; INT64_MAX: not known */
    int fullest_stage;            /* that has least memory left; and what its bytes are when most live, by kind, which
                                     sums to its peak: (memory_count); NULL: nobody asked */
    int memory_count;
    const char *const *memory_names;
    int64_t *memory_bytes;
    int micro_batches_simulated; /* the others go on at their pace; 0: all were */
    int breakdown_count;
    const char *const *breakdown_names;
    int64_t *breakdown_ns;                 /* (breakdown_count) sums to step_ns, of the rank that ends last */
    bool analytic, measured, extrapolated; /* where durations came from: any of each */
    struct {
        const char *words; /* what is known of how far off such predictions are; NULL: nobody asked */
        int64_t runs;      /* that were measured; 0: none, and no numbers. Errors: predicted / measured - 1 */
        double median, low, high;
    } accuracy;
};

/* Writes the members of the file's object, without its braces, so that a verb can add its own beside them. Borrowed. */
void plan_json_members(struct json_writer *w, const struct plan *plan, const struct prediction *prediction,
                       const struct plan_context *context);
/* The whole file; prediction and context may be NULL. Caller frees; NULL when memory is short. */
char *plan_json_write(const struct plan *plan, const struct prediction *prediction, const struct plan_context *context,
                      size_t *length);

/* The plan's order as the file has it, "0-3,8-11,4-7"; nothing where it is the model's own. */
void plan_order_text(struct text *out, const struct plan *plan);
/* The way back: every layer must be there once. Whether none comes before one that it reads, the model says
 * (plan_graph()). where: for messages. */
bool plan_order_read(const struct json *where, const char *text, struct plan *plan, struct error *err);

/* The decisions alone, an object: of a second plan in a file. */
void plan_json_decisions(struct json_writer *w, const struct plan *plan);
/* Reads such an object; form and ranges are checked as in a file. The caller frees the plan: plan_free(). */
bool plan_json_read_decisions(struct plan **out, const struct json *decisions, struct error *err);
#endif
