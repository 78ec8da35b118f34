#include "models/import/importer.h"
#include <stddef.h>

#define IMPORTER(symbol) extern const struct importer symbol##_importer;
#include "models/import/importers.def"
#undef IMPORTER

const struct importer *const importers[] = {
#define IMPORTER(symbol) &symbol##_importer,
#include "models/import/importers.def"
#undef IMPORTER
    NULL,
};
