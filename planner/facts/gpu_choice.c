#include "planner/facts/gpu_choice.h"
#include <string.h>

static const int64_t most_setting = UINT32_MAX;

static bool read_choice(struct gpu_choice *out, const struct json *numbers, struct error *err)
{
    if (json_type(numbers) != JSON_ARRAY || json_count(numbers) != GPU_CHOICE_KEY + GPU_CHOICE_SETTINGS)
        return json_fail(numbers, err, "expected an array of %d numbers, found %s of %d",
                         GPU_CHOICE_KEY + GPU_CHOICE_SETTINGS, json_type_name(json_type(numbers)), json_count(numbers));
    for (int i = 0; i < GPU_CHOICE_KEY; i++)
        if (!json_int(json_at(numbers, i), 0, INT64_MAX, &out->key[i], err))
            return false;
    for (int i = 0; i < GPU_CHOICE_SETTINGS; i++)
        if (!json_int(json_at(numbers, GPU_CHOICE_KEY + i), 0, most_setting, &out->setting[i], err))
            return false;
    return true;
}

bool gpu_choices_from_json(struct gpu_choices *out, struct arena *arena, const struct json *list, struct error *err)
{
    int count = list ? json_count(list) : 0;
    *out = (struct gpu_choices){ 0 };
    if (list && (json_type(list) != JSON_ARRAY || count > GPU_MOST_CHOICES))
        return json_fail(list, err, "expected an array of at most %d choices, found %s of %d", (int)GPU_MOST_CHOICES,
                         json_type_name(json_type(list)), count);
    out->choice = arena_alloc(arena, (size_t)count, sizeof *out->choice);
    if (!out->choice)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d choices", count);
    for (; out->count < count; out->count++)
        if (!read_choice(&out->choice[out->count], json_at(list, out->count), err))
            return false;
    return true;
}

void gpu_choices_to_json(struct json_writer *w, const struct gpu_choices *choices)
{
    json_begin_array(w);
    for (int c = 0; c < choices->count; c++) {
        json_begin_array(w);
        for (int i = 0; i < GPU_CHOICE_KEY; i++)
            json_write_int(w, choices->choice[c].key[i]);
        for (int i = 0; i < GPU_CHOICE_SETTINGS; i++)
            json_write_int(w, choices->choice[c].setting[i]);
        json_end_array(w);
    }
    json_end_array(w);
}

static bool knows(const struct gpu_choices *choices, const struct gpu_choice *like)
{
    for (int i = 0; i < choices->count; i++)
        if (memcmp(choices->choice[i].key, like->key, sizeof like->key) == 0)
            return true;
    return false;
}

bool gpu_choices_join(struct gpu_choices *out, struct arena *arena, const struct gpu_choices *base,
                      const struct gpu_choices *more)
{
    struct gpu_choices joined = { .choice = arena_alloc(arena, (size_t)base->count + (size_t)more->count,
                                                        sizeof *joined.choice) };
    if (!joined.choice)
        return false;
    for (int i = 0; i < base->count && joined.count + more->count < GPU_MOST_CHOICES; i++)
        if (!knows(more, &base->choice[i]))
            joined.choice[joined.count++] = base->choice[i];
    for (int i = 0; i < more->count; i++)
        joined.choice[joined.count++] = more->choice[i];
    *out = joined;
    return true;
}
