/* Measured times of matrix products over a grid of sizes: what a device's file may have beside one efficiency. */
#ifndef CLEAVE_FACTS_MATMUL_SURFACE_H
#define CLEAVE_FACTS_MATMUL_SURFACE_H
#include "base/arena.h"
#include "base/json.h"
#include "models/graph.h"

enum { SURFACE_AXES = 3, SURFACE_MOST_SIZES = 16, MAX_SURFACES = 32 };
/* Products of m x n outputs, each a sum over k: forward m is rows, n the layer's outputs, k its inputs; for the
 * gradient of inputs n and k change places, for that of weights the rows are k. */
struct matmul_surface {
    int dtype, phase;                               /* enum dtype, enum phase: forward, backward-input, -weight */
    int count[SURFACE_AXES];                        /* of m, n, k */
    int64_t size[SURFACE_AXES][SURFACE_MOST_SIZES]; /* ascending */
    int64_t *ns;                                    /* (count[0], count[1], count[2]), k fastest: medians */
    double *spread;                                 /* likewise: interquartile range over median; NULL: not known */
    int64_t repeats;                                /* runs behind each time */
    int origin;                                     /* enum origin (planner/facts/cluster.h) */
};
/* A product lies with each size between two of the grid, at `part` of the way in logarithms. Sizes beyond the grid
 * lie on its rim. */
struct surface_place {
    int low[SURFACE_AXES];
    double part[SURFACE_AXES]; /* 0 to below 1, above 0 only where there is a next size */
    bool outside;              /* a size beyond the grid */
};
struct surface_place matmul_surface_place(const struct matmul_surface *surface, const double size[SURFACE_AXES]);
/* Gives the index of a grid point in ns and spread. */
int matmul_surface_index(const struct matmul_surface *surface, int m, int n, int k);

/* Reads the array `matmul_surfaces` of a device; list may be NULL (none). At most one surface of a dtype and phase. */
bool matmul_surfaces_read(const struct matmul_surface **out, int *count, struct arena *arena, const struct json *list,
                          struct error *err);
void matmul_surfaces_write(struct json_writer *w, const struct matmul_surface *surfaces, int count);
uint64_t matmul_surfaces_hash(uint64_t hash, const struct matmul_surface *surfaces, int count);
extern const struct json_format matmul_surface_formats[];
#endif
