#include "profiler/device_entry.h"
#include "base/num.h"
#include "base/text.h"
#include "host/machine.h"
#include "planner/cost/cost_matmul.h"
#include "profiler/device_fit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PHASES = 3 }; /* forward and the two of backward */

void device_entry_usual(struct device_entry_options *options, bool on_device)
{
    static const int64_t core[] = { 16, 64, 256, 1024 }, gpu[] = { 64, 256, 1024, 3072, 8192 };
    const int64_t *sizes = on_device ? gpu : core;
    options->size_count = on_device ? sizeof gpu / sizeof *gpu : sizeof core / sizeof *core;
    memcpy(options->sizes, sizes, (size_t)options->size_count * sizeof *sizes);
    options->copy_elements = INT64_C(1) << (on_device ? 26 : 20);
}

/* ---- which products ---- */

/* Between the grid's sizes i and i + 1, less than half of the way in logarithms; whole eights where there is room, as
 * layers have them. */
static int64_t size_between(const struct device_entry_options *o, int i)
{
    enum { EIGHT = 8 };
    int64_t size = llround(pow((double)o->sizes[i], 0.55) * pow((double)o->sizes[i + 1], 0.45)),
            rounded = round_up(size, EIGHT);
    return rounded < o->sizes[i + 1] ? rounded : size;
}

struct product *device_entry_products(const struct device_entry_options *o, int *grid_count, int *count)
{
    int sizes = o->size_count, gaps = sizes - 1, at = 0;
    *grid_count = PHASES * sizes * sizes * sizes;
    *count = *grid_count + PHASES * gaps * gaps;
    struct product *products = calloc((size_t)*count, sizeof *products);
    for (int phase = 0; products && phase < PHASES; phase++)
        for (int i = 0; i < sizes * sizes * sizes; i++)
            products[at++] = (struct product){ (enum phase)phase, o->sizes[i / (sizes * sizes)],
                                               o->sizes[i / sizes % sizes], o->sizes[i % sizes] };
    for (int phase = 0; products && phase < PHASES; phase++) /* each pair of sizes once: a Latin square */
        for (int i = 0; i < gaps * gaps; i++)
            products[at++] = (struct product){ (enum phase)phase, size_between(o, i / gaps), size_between(o, i % gaps),
                                               size_between(o, (i / gaps + i) % gaps) };
    return products;
}

/* ---- the numbers ---- */

static void fit_launch_and_memory(struct device_type *d, const struct device_times *t)
{
    enum { READ_AND_WRITTEN = 2 };
    d->launch_ns = max_i64(0, t->tiny.ns - t->empty.ns);
    double ns = (double)max_i64(1, t->copy.ns - t->tiny.ns);
    double rate = READ_AND_WRITTEN * (double)t->copy_elements * sizeof(float) / ns * 1e9;
    d->memory_bytes_per_s = fmax(d->memory_bytes_per_s, rate);
    d->memory_efficiency = rate / d->memory_bytes_per_s;
}

/* Spans without what timing itself takes. */
static struct timed_product *timed_products(const struct product *products, const struct measurement *spans, int count,
                                            int64_t empty_ns)
{
    struct timed_product *timed = calloc((size_t)count, sizeof *timed);
    for (int i = 0; timed && i < count; i++)
        timed[i] = (struct timed_product){ products[i], (double)max_i64(1, spans[i].ns - empty_ns) };
    return timed;
}

static bool build_surfaces(struct device_type *d, struct arena *arena, const struct device_entry_options *o,
                           const struct device_times *t, const struct timed_product *timed,
                           const struct measurement *spans)
{
    int points = o->size_count * o->size_count * o->size_count;
    struct matmul_surface *surfaces = arena_alloc(arena, PHASES, sizeof *surfaces);
    for (int phase = 0; surfaces && phase < PHASES; phase++) {
        struct matmul_surface *s = &surfaces[phase];
        *s = (struct matmul_surface){
            .dtype = o->dtype, .phase = phase, .repeats = t->steps, .origin = ORIGIN_MEASURED
        };
        s->ns = arena_alloc(arena, (size_t)points, sizeof *s->ns);
        s->spread = arena_alloc(arena, (size_t)points, sizeof *s->spread);
        if (!s->ns || !s->spread)
            return false;
        for (int axis = 0; axis < SURFACE_AXES; axis++) {
            s->count[axis] = o->size_count;
            memcpy(s->size[axis], o->sizes, sizeof o->sizes);
        }
        for (int i = 0; i < points; i++) {
            s->ns[i] = (int64_t)timed[phase * points + i].ns;
            s->spread[i] = spans[phase * points + i].spread;
        }
    }
    d->surfaces = surfaces;
    d->surface_count = PHASES;
    return surfaces != NULL;
}

/* ---- where from ---- */

static const char *kept(struct arena *arena, struct text *text)
{
    const char *copy = text->failed || !text->data ? NULL : arena_strdup(arena, text->data);
    text_free(text);
    return copy;
}

static bool fill_provenance(struct device_type *d, struct arena *arena, const struct device_entry_options *o)
{
    char created[HOST_TIME_BYTES];
    struct text name = { 0 }, source = { 0 }, memory = { 0 };
    host_time_text(created);
    text_printf(&name, "%s-measured", o->base->name);
    text_printf(&source,
                "launch_ns, memory_bytes_per_s, memory_efficiency and the numbers of matmuls in %s: measured, see "
                "`measured`; all else as %s: %s",
                dtype_names[o->dtype], o->base->name, o->base->source);
    d->name = kept(arena, &name);
    d->source = kept(arena, &source);
    if (o->base->from_memory) {
        text_printf(&memory, "but for what was measured: %s", o->base->from_memory);
        d->from_memory = kept(arena, &memory);
    }
    d->measured.machine = arena_strdup(arena, o->machine);
    d->measured.backend = arena_strdup(arena, o->backend);
    d->measured.software = arena_strdup(arena, o->software);
    d->measured.created = arena_strdup(arena, created);
    d->description = arena_strdup(arena, o->base->description);
    return d->name && d->source && d->measured.machine && d->measured.backend && d->measured.software &&
           d->measured.created && d->description && (d->from_memory || !o->base->from_memory);
}

static bool fit_all(struct device_type *d, struct arena *arena, const struct device_entry_options *o,
                    const struct device_times *t, const struct timed_product *timed, const struct measurement *spans,
                    int grid_count, int count, struct error *err)
{
    const enum dtype dtype = o->dtype;
    const struct timed_product *between = timed + grid_count;
    struct device_measured *m = &d->measured;
    *m = (struct device_measured){ .ranks = o->ranks,
                                   .repeats = t->steps,
                                   .instruction_ns = t->empty.ns,
                                   .launch_spread = t->tiny.spread,
                                   .memory_spread = t->copy.spread };
    d->surface_count = 0, d->surfaces = NULL;
    if (d->matmul_flops_per_s[dtype] > 0)
        m->catalogue_error = device_fit_error(d, dtype, between, count - grid_count);
    fit_launch_and_memory(d, t);
    if (!device_fit_matmul(d, dtype, timed, grid_count, err))
        return false;
    m->formula_error = device_fit_error(d, dtype, between, count - grid_count);
    if (!fill_provenance(d, arena, o) || !build_surfaces(d, arena, o, t, timed, spans))
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the device");
    struct device_type with = *d;
    device_fit_under_surfaces(&with, dtype, timed, grid_count, between, count - grid_count);
    m->surface_error = device_fit_error(&with, dtype, between, count - grid_count);
    d->surface_count = 0, d->surfaces = NULL;
    if (m->surface_error <= m->formula_error) {
        with.measured = *m;
        *d = with;
    }
    return true;
}

bool device_entry_fit(struct device_type *out, struct arena *arena, const struct device_entry_options *o,
                      const struct device_times *times, const struct measurement *spans, struct error *err)
{
    int grid_count, count;
    struct device_type device = *o->base;
    struct product *products = device_entry_products(o, &grid_count, &count);
    struct timed_product *timed = products ? timed_products(products, spans, count, times->empty.ns) : NULL;
    bool ok = timed ? fit_all(&device, arena, o, times, timed, spans, grid_count, count, err)
                    : fail_kind(err, ERROR_ENVIRONMENT, "no memory for products of %d sizes", o->size_count);
    free(timed);
    free(products);
    if (ok)
        *out = device;
    return ok;
}

bool device_entry_measure(struct device_type *out, struct arena *arena, const struct crew *crew,
                          const struct device_entry_options *o, struct error *err)
{
    int grid_count, count;
    struct device_times times;
    struct product *products = device_entry_products(o, &grid_count, &count);
    struct measurement *spans = products ? calloc((size_t)count, sizeof *spans) : NULL;
    const struct device_times_options options = { .products = products,
                                                  .product_count = count,
                                                  .copy_elements = o->copy_elements,
                                                  .budget_s = o->time_limit_s,
                                                  .context = o->context,
                                                  .on_progress = o->on_progress };
    bool ok = spans ? device_times_measure(&times, spans, crew, &options, err)
                    : fail_kind(err, ERROR_ENVIRONMENT, "no memory for products of %d sizes", o->size_count);
    if (ok && crew_leads(crew))
        ok = device_entry_fit(out, arena, o, &times, spans, err);
    free(spans);
    free(products);
    return ok;
}
