/* What hwloc's library sees of this machine, opened while running: nothing is linked against it. */
#ifndef CLEAVE_HOST_HWLOC_H
#define CLEAVE_HOST_HWLOC_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

/* The XML that `lstopo --of xml` would write here, devices of PCI Express included; the caller frees it. NULL without
 * an error: the machine has no libhwloc.so.15 (hwloc 2). */
char *hwloc_xml_here(size_t *length, struct error *err);
#endif
