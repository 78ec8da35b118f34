/* Foreign model descriptions. One file in models/import and one line in importers.def each. */
#ifndef CLEAVE_MODELS_IMPORT_IMPORTER_H
#define CLEAVE_MODELS_IMPORT_IMPORTER_H
#include "models/model_make.h"

struct importer {
    const char *name, *doc;
    bool (*detect)(const struct json *root); /* root is an object without "format" */
    /* Keys that say nothing about the shape are ignored; missing or contradictory ones fail at their position. name:
     * of the file; reading: what was asked, or NULL. The caller owns the model. */
    bool (*read)(struct model **out, const struct json *root, const char *name, struct model_reading *reading,
                 struct error *err);
};
extern const struct importer *const importers[]; /* NULL-terminated */
#endif
