#include "planner/facts/matmul_surface.h"
#include "base/num.h"
#include "planner/facts/cluster.h"
#include <math.h>
#include <string.h>

static const char *const product_phases[] = { "forward", "backward-input", "backward-weight", NULL };
static const char *const axis_names[SURFACE_AXES] = { "m", "n", "k" };
static const int64_t most_size = INT64_C(1) << 40, most_ns = INT64_C(1000000000000);

/* ---- places ---- */

int matmul_surface_index(const struct matmul_surface *surface, int m, int n, int k)
{
    return (m * surface->count[1] + n) * surface->count[2] + k;
}

static int matmul_surface_points(const struct matmul_surface *surface)
{
    return surface->count[0] * surface->count[1] * surface->count[2];
}

struct surface_place matmul_surface_place(const struct matmul_surface *surface, const double size[SURFACE_AXES])
{
    struct surface_place place = { .outside = false };
    for (int axis = 0; axis < SURFACE_AXES; axis++) {
        const int64_t *grid = surface->size[axis];
        int last = surface->count[axis] - 1, i = 0;
        place.outside |= size[axis] < (double)grid[0] || size[axis] > (double)grid[last];
        while (i < last && size[axis] >= (double)grid[i + 1])
            i++;
        place.low[axis] = i;
        if (i < last && size[axis] > (double)grid[i])
            place.part[axis] = log(size[axis] / (double)grid[i]) / log((double)grid[i + 1] / (double)grid[i]);
    }
    return place;
}

/* ---- reading ---- */

struct surface_text {
    struct matmul_surface surface;
    const struct json *size[SURFACE_AXES], *ns, *spread;
};
#define AT(member) offsetof(struct surface_text, member)
#define SIZES_DOC "array of 1 to 16 sizes, ascending: "
static const struct json_field surface_table[] = {
    { "dtype", FIELD_ENUM, AT(surface.dtype), .required = true, .names = dtype_names, .doc = "of the products" },
    { "phase", FIELD_ENUM, AT(surface.phase), .required = true, .names = product_phases,
      .doc = "which product of a layer's three" },
    { "m", FIELD_NODE, AT(size[0]), .required = true, .doc = SIZES_DOC "rows of the result" },
    { "n", FIELD_NODE, AT(size[1]), .required = true, .doc = SIZES_DOC "columns of the result" },
    { "k", FIELD_NODE, AT(size[2]), .required = true, .doc = SIZES_DOC "products that each element sums" },
    { "ns", FIELD_NODE, AT(ns), .required = true,
      .doc = "array: median time of each product, for each m each n each k" },
    { "spread", FIELD_NODE, AT(spread), .doc = "array, in the same order: interquartile range over median" },
    { "repeats", FIELD_INT, AT(surface.repeats), .min = 0, .max = 1e9, .doc = "runs behind each time" },
    { "origin", FIELD_ENUM, AT(surface.origin), .names = origin_names, .doc = "how the times came about" },
};
enum { SURFACE_FIELDS = sizeof surface_table / sizeof *surface_table };

const struct json_format matmul_surface_formats[] = {
    JSON_FORMAT("device.matmul_surface", surface_table, "Measured matrix products of one dtype and phase."),
    { 0 },
};

static bool read_sizes(struct matmul_surface *surface, int axis, const struct json *list, struct error *err)
{
    int count = json_count(list);
    if (json_type(list) != JSON_ARRAY || count < 1 || count > SURFACE_MOST_SIZES)
        return json_fail(list, err, "expected an array of 1 to %d sizes, found %s of %d", (int)SURFACE_MOST_SIZES,
                         json_type_name(json_type(list)), count);
    for (int i = 0; i < count; i++) {
        int64_t *size = &surface->size[axis][i];
        if (!json_int(json_at(list, i), 1, most_size, size, err))
            return false;
        if (i > 0 && *size <= size[-1])
            return json_fail(json_at(list, i), err, "expected more than the %s before (%lld), found %lld",
                             axis_names[axis], (long long)size[-1], (long long)*size);
    }
    surface->count[axis] = count;
    return true;
}

/* Checks that it is an array with one number for each product. */
static bool check_array(const struct matmul_surface *surface, const struct json *list, struct error *err)
{
    int points = matmul_surface_points(surface);
    return (json_type(list) == JSON_ARRAY && json_count(list) == points) ||
           json_fail(list, err, "expected an array of %d numbers (%d x %d x %d products), found %s of %d", points,
                     surface->count[0], surface->count[1], surface->count[2], json_type_name(json_type(list)),
                     json_count(list));
}

static bool read_times(struct matmul_surface *surface, struct arena *arena, const struct surface_text *text,
                       struct error *err)
{
    size_t points = (size_t)matmul_surface_points(surface);
    if (!check_array(surface, text->ns, err) || (text->spread && !check_array(surface, text->spread, err)))
        return false;
    surface->ns = arena_alloc(arena, points, sizeof *surface->ns);
    surface->spread = text->spread ? arena_alloc(arena, points, sizeof *surface->spread) : NULL;
    if (!surface->ns || (text->spread && !surface->spread))
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory for %zu products", points);
    for (int i = 0; i < (int)points; i++) {
        if (!json_int(json_at(text->ns, i), 1, most_ns, &surface->ns[i], err) ||
            (text->spread && !json_double(json_at(text->spread, i), 0, 1e9, &surface->spread[i], err)))
            return false;
    }
    return true;
}

static bool read_surface(struct matmul_surface *out, struct arena *arena, const struct json *value, struct error *err)
{
    struct surface_text text = { .surface.origin = ORIGIN_MEASURED };
    if (!json_read_fields(value, surface_table, SURFACE_FIELDS, &text, arena, err))
        return false;
    for (int axis = 0; axis < SURFACE_AXES; axis++)
        if (!read_sizes(&text.surface, axis, text.size[axis], err))
            return false;
    if (!read_times(&text.surface, arena, &text, err))
        return false;
    *out = text.surface;
    return true;
}

bool matmul_surfaces_read(const struct matmul_surface **out, int *count, struct arena *arena, const struct json *list,
                          struct error *err)
{
    int found = list ? json_count(list) : 0;
    *count = 0;
    *out = NULL;
    if (!list)
        return true;
    if (json_type(list) != JSON_ARRAY || found > MAX_SURFACES)
        return json_fail(list, err, "expected an array of at most %d surfaces, found %s of %d", (int)MAX_SURFACES,
                         json_type_name(json_type(list)), found);
    struct matmul_surface *surfaces = arena_alloc(arena, (size_t)found, sizeof *surfaces);
    if (!surfaces)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory for %d surfaces", found);
    for (int i = 0; i < found; i++) {
        if (!read_surface(&surfaces[i], arena, json_at(list, i), err))
            return false;
        for (int before = 0; before < i; before++)
            if (surfaces[before].dtype == surfaces[i].dtype && surfaces[before].phase == surfaces[i].phase)
                return json_fail(json_at(list, i), err,
                                 "expected one surface of a dtype and phase, found a second "
                                 "of %s, %s",
                                 dtype_names[surfaces[i].dtype], product_phases[surfaces[i].phase]);
    }
    *out = surfaces;
    *count = found;
    return true;
}

/* ---- writing ---- */

static void write_surface(struct json_writer *w, const struct matmul_surface *surface)
{
    int points = matmul_surface_points(surface);
    json_begin_object(w);
    json_put_string(w, "dtype", dtype_names[surface->dtype]);
    json_put_string(w, "phase", product_phases[surface->phase]);
    for (int axis = 0; axis < SURFACE_AXES; axis++) {
        json_put_ints(w, axis_names[axis], surface->size[axis], surface->count[axis]);
    }
    json_put_ints(w, "ns", surface->ns, points);
    if (surface->spread) {
        json_begin_array_at(w, "spread");
        for (int i = 0; i < points; i++)
            json_write_double(w, surface->spread[i]);
        json_end_array(w);
    }
    json_put_int(w, "repeats", surface->repeats);
    json_put_string(w, "origin", origin_names[surface->origin]);
    json_end_object(w);
}

void matmul_surfaces_write(struct json_writer *w, const struct matmul_surface *surfaces, int count)
{
    json_begin_array(w);
    for (int i = 0; i < count; i++)
        write_surface(w, &surfaces[i]);
    json_end_array(w);
}

uint64_t matmul_surfaces_hash(uint64_t hash, const struct matmul_surface *surfaces, int count)
{
    for (int i = 0; i < count; i++) {
        const struct matmul_surface *s = &surfaces[i];
        hash = hash_i64(hash_i64(hash, s->dtype), s->phase);
        for (int axis = 0; axis < SURFACE_AXES; axis++) {
            hash = hash_i64(hash, s->count[axis]);
            hash = hash_bytes(hash, s->size[axis], (size_t)s->count[axis] * sizeof *s->size[axis]);
        }
        hash = hash_bytes(hash, s->ns, (size_t)matmul_surface_points(s) * sizeof *s->ns);
    }
    return hash;
}
