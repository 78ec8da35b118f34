/* A plan file as a whole: read, written again, and held against what it is used with. */
#ifndef CLEAVE_FORMATS_PLAN_FILE_H
#define CLEAVE_FORMATS_PLAN_FILE_H
#include "base/json.h"
#include "formats/plan_json.h"

struct plan_file {
    struct arena arena;
    struct plan *plan;           /* owned */
    struct plan_context context; /* strings in the arena */
    int64_t predicted_step_ns;   /* 0: the file predicts nothing */
    int predicted_stages;
    int64_t *predicted_peak_bytes;
    struct json_doc *document;      /* what was read */
    const struct json *predicted;   /* in the document; NULL: nothing is */
    const struct json *search;      /* in the document; NULL: none */
    const struct json *certificate; /* in the document; NULL: none */
};
/**
 * Reads a plan file. name appears in messages. The decisions are checked for form and range here; whether they fit a
 * model says plan_check(). Members that this version does not know are refused, unless they begin with "x-".
 */
bool plan_json_read(struct plan_file **out, const char *name, const char *text, size_t length, struct error *err);
/* The file again, in canonical form, with all that it holds: decisions, what was predicted, context, certificate, and
 * others' members of these objects ("x-...", "comment"). Caller frees; NULL when memory is short. */
char *plan_file_write(const struct plan_file *file, size_t *length);
/* The index-th field table of the plan format and its name; NULL past the last. For `cleave schema`. */
extern const struct json_format plan_formats[];
void plan_file_free(struct plan_file *file); /* accepts NULL */
/**
 * Refuses a plan made for another model, cluster or profile: says what differs and what to type, and where the file
 * says it: at, its object "context", may be NULL. A NULL source in `now` is not compared (nothing was given); a NULL
 * source in the file neither.
 */
bool plan_context_check(const struct plan_context *file, const struct json *at, const struct plan_context *now,
                        struct error *err);
#endif
