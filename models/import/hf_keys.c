#include "models/import/hf_keys.h"
#include <string.h>

static const int64_t most = 1 << 28;

const struct json *hf_given(const struct json *root, const char *key)
{
    const struct json *value = json_member(root, key);
    return value && json_type(value) != JSON_NULL ? value : NULL;
}

bool hf_require(const struct json *root, const char *key, const struct json **out, struct error *err)
{
    return json_require(root, key, out, err) &&
           (json_type(*out) != JSON_NULL || json_fail(*out, err, "expected a value, found null"));
}

bool hf_expect_object(const struct json *at, struct error *err)
{
    return !at || json_type(at) == JSON_OBJECT ||
           json_fail(at, err, "expected an object, found %s", json_type_name(json_type(at)));
}

bool hf_get_size(const struct json *root, const char *key, int64_t fallback, int64_t *out, struct error *err)
{
    const struct json *value = hf_given(root, key);
    if (value)
        return json_int(value, 1, most, out, err);
    *out = fallback;
    return fallback != HF_REQUIRED || (json_require(root, key, &value, err) && json_int(value, 1, most, out, err));
}

bool hf_get_count(const struct json *root, const char *key, int64_t fallback, int64_t *out, struct error *err)
{
    const struct json *value = hf_given(root, key);
    *out = fallback;
    return !value || json_int(value, 0, most, out, err);
}

bool hf_get_double(const struct json *root, const char *key, double max, double fallback, double *out,
                   struct error *err)
{
    const struct json *value = hf_given(root, key);
    *out = fallback;
    return !value || json_double(value, 0, max, out, err);
}

bool hf_get_bool(const struct json *root, const char *key, bool fallback, bool *out, struct error *err)
{
    const struct json *value = hf_given(root, key);
    *out = fallback;
    return !value || json_bool(value, out, err);
}

bool hf_get_string(const struct json *root, const char *key, const char *fallback, const char **out, struct error *err)
{
    const struct json *value = hf_given(root, key);
    *out = fallback;
    return !value || json_string(value, out, err);
}

bool hf_need_bool(const struct json *root, const char *key, bool wanted, struct error *err)
{
    bool found;
    if (!hf_get_bool(root, key, wanted, &found, err))
        return false;
    return found == wanted || json_fail(json_member(root, key), err, "only %s is supported", wanted ? "true" : "false");
}

bool hf_need_word(const struct json *root, const char *key, const char *fallback, const char *const *words,
                  struct error *err)
{
    const char *found;
    if (!hf_get_string(root, key, fallback, &found, err))
        return false;
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], found) == 0)
            return true;
    return json_fail(json_at_key(root, key), err, "expected %s \"%s\", found \"%.64s\"",
                     words[1] ? "a supported word such as" : "only", words[0], found);
}
