/* Galvatron's JSON: what it needs strictly, other keys not at all. */
#include "base/json.h"
#include "peers/galvatron.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double largest = 1e9, smallest = 1e-9; /* of any number in the files: ms, MB, GB/s */

static const char *const prefixes[GALVATRON_FILES + 1] = {
    [GALVATRON_COMPUTATION] = "computation_profiling_", [GALVATRON_MEMORY] = "memory_profiling_",
    [GALVATRON_ALLREDUCE] = "allreduce_bandwidth_",     [GALVATRON_P2P] = "p2p_bandwidth_",
    [GALVATRON_OVERLAP] = "overlap_coefficient",        [GALVATRON_SP_TIME] = "sp_time_",
};

const char *galvatron_file_prefix(int file)
{
    return prefixes[file];
}

/* ---- keys with numbers in them: '#' in the pattern stands for one ---- */

enum { KEY_NUMBERS = 2 };

static bool match_key(const char *key, const char *pattern, int64_t numbers[KEY_NUMBERS])
{
    int found = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*key++ != *pattern)
                return false;
            continue;
        }
        int64_t value = 0;
        const char *start = key;
        for (; *key >= '0' && *key <= '9' && value < INT32_MAX; key++)
            value = value * 10 + (*key - '0');
        if (key == start || found == KEY_NUMBERS)
            return false;
        numbers[found++] = value;
    }
    return !*key;
}

/* log2 of a degree of 1 to 128; -1: not a power of two, or beyond. */
static int degree_index(int64_t degree)
{
    for (int i = 0; i < GALVATRON_DEGREES; i++)
        if (degree == (int64_t)1 << i)
            return i;
    return -1;
}

static bool expect_object(const struct json *value, struct error *err)
{
    return json_type(value) == JSON_OBJECT ||
           json_fail(value, err, "expected an object, found %s", json_type_name(json_type(value)));
}

static bool require_object(const struct json *object, const char *key, const struct json **out, struct error *err)
{
    return json_require(object, key, out, err) && expect_object(*out, err);
}

static bool require_number(const struct json *object, const char *key, double *out, struct error *err)
{
    const struct json *value;
    return json_require(object, key, &value, err) && json_double(value, smallest, largest, out, err);
}

/* ---- series ---- */

static bool add_point(struct galvatron_series *s, const struct json *value, double size, double scale,
                      struct error *err)
{
    double ms;
    if (!json_double(value, smallest, largest, &ms, err))
        return false;
    if (!(size > 0))
        return json_fail(value, err, "expected a key with a size above 0, found 0");
    if (s->count == GALVATRON_POINTS)
        return json_fail(value, err, "expected at most %d sizes, found more", GALVATRON_POINTS);
    int at = s->count;
    for (; at > 0 && s->size[at - 1] >= size; at--)
        if (s->size[at - 1] <= size)
            return json_fail(value, err, "expected each size once, found %g twice", size);
    memmove(&s->size[at + 1], &s->size[at], (size_t)(s->count - at) * sizeof *s->size);
    memmove(&s->ms[at + 1], &s->ms[at], (size_t)(s->count - at) * sizeof *s->ms);
    s->size[at] = size;
    s->ms[at] = ms * scale;
    s->count++;
    return true;
}

/* Least squares, as its search fits. */
static void fit_line(struct galvatron_series *s)
{
    double x = 0, y = 0, xy = 0, xx = 0;
    for (int i = 0; i < s->count; i++) {
        x += s->size[i] / s->count;
        y += s->ms[i] / s->count;
    }
    for (int i = 0; i < s->count; i++) {
        xy += (s->size[i] - x) * (s->ms[i] - y);
        xx += (s->size[i] - x) * (s->size[i] - x);
    }
    s->ms_per_unit = xy / xx;
    s->fixed_ms = y - s->ms_per_unit * x;
}

static bool finish_series(struct galvatron_series *s, const struct json *root, const char *keys, struct error *err)
{
    if (s->count < 2)
        return json_fail(root, err, "expected at least 2 keys %s, found %d", keys, s->count);
    fit_line(s);
    return s->ms_per_unit > 0 ||
           json_fail(root, err, "expected times of %s that grow with the size, found a line that falls", keys);
}

/* ---- files ---- */

/* The only sequence length among the keys, where none is asked for. */
static bool find_sequence(const struct json *root, int64_t *sequence, struct error *err)
{
    int64_t numbers[KEY_NUMBERS];
    for (int i = 0; i < json_count(root); i++) {
        if (!match_key(json_key(root, i), "layertype_0_bsz#_seq#", numbers))
            continue;
        if (*sequence && *sequence != numbers[1])
            return json_fail(json_member_at(root, i), err,
                             "expected one sequence length, found %lld and %lld: say which with --seq",
                             (long long)*sequence, (long long)numbers[1]);
        *sequence = numbers[1];
    }
    return *sequence > 0 || json_fail(root, err, "expected keys layertype_0_bszB_seqS, found none");
}

static bool read_computation(struct galvatron_profile *p, const struct json *root, struct error *err)
{
    int64_t numbers[KEY_NUMBERS];
    if (!p->sequence && !find_sequence(root, &p->sequence, err))
        return false;
    for (int i = 0; i < json_count(root); i++) {
        const char *key = json_key(root, i);
        const struct json *value = json_member_at(root, i);
        struct galvatron_series *series = match_key(key, "layertype_0_bsz#_seq#", numbers)       ? &p->layer
                                          : match_key(key, "layertype_other_bsz#_seq#", numbers) ? &p->other
                                                                                                 : NULL;
        if (strncmp(key, "layertype_1_", strlen("layertype_1_")) == 0)
            return json_fail(value, err, "expected layers of one type, found a second");
        if (series && numbers[1] == p->sequence && /* the file holds times per sample */
            !add_point(series, value, (double)numbers[0], (double)numbers[0], err))
            return false;
    }
    return finish_series(&p->layer, root, "layertype_0_bszB_seqS of the sequence length", err) &&
           finish_series(&p->other, root, "layertype_other_bszB_seqS of the sequence length", err);
}

static bool read_degrees(const struct json *object, double out[GALVATRON_DEGREES], struct error *err)
{
    int64_t numbers[KEY_NUMBERS];
    for (int i = 0; i < json_count(object); i++) {
        int index = match_key(json_key(object, i), "#", numbers) ? degree_index(numbers[0]) : -1;
        if (index >= 0 && !json_double(json_member_at(object, i), smallest, largest, &out[index], err))
            return false;
    }
    return out[0] > 0 || json_fail(object, err, "expected the key \"1\": degree 1, found none");
}

static bool read_others(const struct json *root, const char *key, const char *sequence, struct galvatron_others *out,
                        struct error *err)
{
    const struct json *all, *one, *states, *activations;
    return require_object(root, key, &all, err) && require_object(all, sequence, &one, err) &&
           require_object(one, "model_states", &states, err) && require_object(one, "activation", &activations, err) &&
           read_degrees(states, out->states_mb, err) && read_degrees(activations, out->activation_mb, err);
}

static bool read_memory(struct galvatron_profile *p, const struct json *root, struct error *err)
{
    const struct json *all, *one, *activations;
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)p->sequence);
    return require_object(root, "layertype_0_sp", &all, err) && require_object(all, key, &one, err) &&
           require_number(one, "parameter_size", &p->parameter_mb, err) &&
           require_object(one, "tp_activation_per_bsz_dict", &activations, err) &&
           read_degrees(activations, p->activation_mb, err) &&
           require_number(activations, "checkpoint", &p->checkpoint_mb, err) &&
           read_others(root, "other_memory_pp_off_sp", key, &p->whole, err) &&
           read_others(root, "other_memory_pp_on_first_sp", key, &p->first, err) &&
           read_others(root, "other_memory_pp_on_last_sp", key, &p->last, err);
}

static bool read_allreduce(struct galvatron_profile *p, const struct json *root, struct error *err)
{
    int64_t numbers[KEY_NUMBERS];
    int found = 0;
    for (int i = 0; i < json_count(root); i++) {
        int index = match_key(json_key(root, i), "allreduce_size_#_consec_#", numbers) ? degree_index(numbers[0]) : -1;
        if (index < 1 || numbers[1] > 1)
            continue;
        if (!json_double(json_member_at(root, i), smallest, largest, &p->gb_per_s[numbers[1]][index], err))
            return false;
        found++;
    }
    for (int d = 0; d < GALVATRON_DEGREES; d++) /* all devices: there is no other way to lie */
        if (p->gb_per_s[0][d] < 0)
            p->gb_per_s[0][d] = p->gb_per_s[1][d];
    return found || json_fail(root, err, "expected keys allreduce_size_N_consec_1 or _0, found none");
}

static bool read_p2p(struct galvatron_profile *p, const struct json *root, struct error *err)
{
    int64_t numbers[KEY_NUMBERS];
    for (int i = 0; i < json_count(root); i++) {
        int index = match_key(json_key(root, i), "pp_size_#", numbers) ? degree_index(numbers[0]) : -1;
        if (index > 0 && !json_double(json_member_at(root, i), smallest, largest, &p->p2p_gb_per_s[index], err))
            return false;
    }
    return true;
}

static bool read_overlap(struct galvatron_profile *p, const struct json *root, struct error *err)
{
    const struct json *value;
    return json_require(root, "overlap_coe", &value, err) && json_double(value, 1, 100, &p->overlap, err);
}

static bool read_sp_time(struct galvatron_profile *p, const struct json *root, struct error *err)
{
    int64_t numbers[KEY_NUMBERS];
    for (int i = 0; i < json_count(root); i++) {
        const char *key = json_key(root, i);
        struct galvatron_series *curves = match_key(key, "allreduce_size_#_#MB_time", numbers) ? p->allreduce
                                          : match_key(key, "all2all_size_#_#MB_time", numbers) ? p->all_to_all
                                                                                               : NULL;
        int index = curves ? degree_index(numbers[0]) : -1;
        if (index > 0 && !add_point(&curves[index], json_member_at(root, i), (double)numbers[1], 1, err))
            return false;
    }
    for (int d = 1; d < GALVATRON_DEGREES; d++) {
        if (p->allreduce[d].count && !finish_series(&p->allreduce[d], root, "allreduce_size_N_XMB_time per N", err))
            return false;
        if (p->all_to_all[d].count && !finish_series(&p->all_to_all[d], root, "all2all_size_N_XMB_time per N", err))
            return false;
    }
    return true;
}

struct file {
    struct galvatron_profile *profile;
    int kind;
};
static bool read_file(void *self, const struct json *root, struct error *err)
{
    const struct file *file = self;
    static bool (*const readers[GALVATRON_FILES])(struct galvatron_profile *, const struct json *, struct error *) = {
        [GALVATRON_COMPUTATION] = read_computation, [GALVATRON_MEMORY] = read_memory,
        [GALVATRON_ALLREDUCE] = read_allreduce,     [GALVATRON_P2P] = read_p2p,
        [GALVATRON_OVERLAP] = read_overlap,         [GALVATRON_SP_TIME] = read_sp_time,
    };
    return expect_object(root, err) && readers[file->kind](file->profile, root, err);
}

static void clear_degrees(double values[GALVATRON_DEGREES])
{
    for (int d = 0; d < GALVATRON_DEGREES; d++)
        values[d] = -1;
}

bool galvatron_read_profile(struct galvatron_profile *out, const struct galvatron_text texts[GALVATRON_FILES],
                            int64_t sequence, struct error *err)
{
    struct galvatron_profile p = { .sequence = sequence };
    struct galvatron_others *others[] = { &p.whole, &p.first, &p.last };
    clear_degrees(p.activation_mb);
    clear_degrees(p.gb_per_s[0]);
    clear_degrees(p.gb_per_s[1]);
    clear_degrees(p.p2p_gb_per_s);
    for (int i = 0; i < 3; i++) {
        clear_degrees(others[i]->states_mb);
        clear_degrees(others[i]->activation_mb);
    }
    for (int f = 0; f < GALVATRON_FILES; f++) {
        struct file file = { &p, f };
        if (!json_parse_with(texts[f].name, texts[f].text, texts[f].length, read_file, &file, err))
            return false;
    }
    *out = p;
    return true;
}
