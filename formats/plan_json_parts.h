/* What readers and writers of the plan file share. */
#ifndef CLEAVE_FORMATS_PLAN_JSON_PARTS_H
#define CLEAVE_FORMATS_PLAN_JSON_PARTS_H
#include "formats/plan_json.h"

#define READ_FIELDS(value, table, out, arena, err)                                                                     \
    json_read_fields(value, table, sizeof table / sizeof *table, out, arena, err)

/* The members of the file's object with the prediction, or with the one of the file that was read (file: its root, or
 * NULL), or with neither. */
void plan_json_put(struct json_writer *w, const struct plan *plan, const struct prediction *prediction,
                   const struct json *file, const struct plan_context *context);
bool plan_need_array(const struct json *value, int min, int max, const char *what, struct error *err);
#endif
