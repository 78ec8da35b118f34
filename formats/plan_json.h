/* The plan file: {"format": "cleave-plan", "version": 1, "decisions", "predicted", "context"}. Decisions, predictions
 * and context stand apart, so that equal decisions give equal bytes whatever was predicted. Deterministic. */
#ifndef CLEAVE_FORMATS_PLAN_JSON_H
#define CLEAVE_FORMATS_PLAN_JSON_H
#include "base/json.h"
#include "base/text.h"
#include "planner/plan/plan.h"
#include "planner/plan/prediction.h"

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
    const char *target;                                  /* whose release was to be told the plan; NULL: nobody's */
    const char *reserve; /* memory of each device that was to stay free, as --reserve has it; NULL: the devices' own */
    const char *cleave;  /* version that wrote the file */
};

extern const struct json_format plan_decision_formats[]; /* of "decisions"; plan_formats is the whole file */
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
