/* Field tables: one table per format reads it, checks its keys and documents it. */
#include "base/json_tree.h"
#include <math.h>
#include <string.h>

union field_value {
    int64_t integer;
    double number;
    bool boolean;
    const char *string;
    int word;
    const struct json *node;
};

static bool key_is_free(const char *key)
{
    return strncmp(key, "x-", 2) == 0 || strcmp(key, "comment") == 0;
}

void json_write_free_members(struct json_writer *w, const struct json *object)
{
    for (int i = 0; object && i < json_count(object); i++) {
        const char *key = json_key(object, i);
        if (!key_is_free(key))
            continue;
        json_write_key(w, key);
        json_write_value(w, json_member_at(object, i));
    }
}

static bool key_is_known(const char *key, const struct json_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].key, key) == 0)
            return true;
    return false;
}

static void add_choices(struct text *out, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        text_printf(out, "%s\"%s\"", i == 0 ? "" : ", ", words[i]);
}

static bool fail_unknown_key(const struct json *value, const char *key, const struct json_field *fields, size_t count,
                             struct error *err)
{
    const char *names[JSON_MAX_FIELDS];
    for (size_t i = 0; i < count; i++)
        names[i] = fields[i].key;
    const char *nearest = text_nearest(key, names, count);
    if (nearest)
        return json_fail(value, err, "unknown key, did you mean \"%s\"?", nearest);
    struct text known = { 0 };
    add_choices(&known, names, count);
    json_fail(value, err, "unknown key, expected one of: %s", known.length ? known.data : "(none)");
    text_free(&known);
    return false;
}

static bool check_keys(const struct json *object, const struct json_field *fields, size_t count, struct error *err)
{
    for (int i = 0; i < json_count(object); i++) {
        const char *key = json_key(object, i);
        const struct json *value = json_member_at(object, i);
        /* json_member does not find a key with a zero inside, whatever it is spelled like */
        bool known = key_is_known(key, fields, count) && json_member(object, key) == value;
        if (!known && !key_is_free(key))
            return fail_unknown_key(value, key, fields, count, err);
    }
    return true;
}

static bool read_enum(const struct json *value, const char *const *words, int *out, struct error *err)
{
    const char *found;
    if (!json_string(value, &found, err))
        return false;
    size_t count = 0;
    for (; words[count]; count++) {
        if (strcmp(words[count], found) == 0) {
            *out = (int)count;
            return true;
        }
    }
    const char *nearest = text_nearest(found, words, count);
    struct text expected = { 0 };
    text_add(&expected, "one of ");
    add_choices(&expected, words, count);
    if (nearest)
        text_printf(&expected, " (did you mean \"%s\"?)", nearest);
    json_fail_expected(value, err, expected.failed ? "another word" : expected.data);
    text_free(&expected);
    return false;
}

/* An array of different words, as bits. */
static bool read_words(const struct json *value, const char *const *words, int *out, struct error *err)
{
    int bits = 0;
    if (json_type(value) != JSON_ARRAY)
        return json_fail_expected(value, err, json_type_name(JSON_ARRAY));
    if (json_count(value) == 0)
        return json_fail(value, err, "expected at least one word, found none");
    for (int i = 0; i < json_count(value); i++) {
        int word;
        if (!read_enum(json_at(value, i), words, &word, err))
            return false;
        if (bits >> word & 1)
            return json_fail(json_at(value, i), err, "expected each word once, found \"%s\" again", words[word]);
        bits |= 1 << word;
    }
    *out = bits;
    return true;
}

static int64_t int_limit(double limit)
{
    const double largest = 9007199254740992.0; /* 2^53: json_int goes no further */
    return limit >= largest ? INT64_MAX : limit <= -largest ? INT64_MIN : (int64_t)limit;
}

static bool read_string(const struct json *value, const char **out, struct arena *arena, struct error *err)
{
    const char *borrowed;
    if (!json_string(value, &borrowed, err))
        return false;
    if (strchr(borrowed, '\n')) /* printed, a name with it would begin a line that looks like one of ours */
        return json_fail_expected(value, err, "a string of one line");
    const char *copy = arena ? arena_strdup(arena, borrowed) : NULL;
    if (!copy)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while reading JSON");
    *out = copy;
    return true;
}

static double most_of(const struct json_field *field)
{
    return field->max < field->min || (field->min == 0 && field->max == 0) ? INFINITY : field->max;
}

static bool read_value(const struct json *value, const struct json_field *field, union field_value *out,
                       struct arena *arena, struct error *err)
{
    const double max = most_of(field);
    switch (field->type) {
    case FIELD_INT:
        return json_int(value, int_limit(ceil(field->min)), int_limit(floor(max)), &out->integer, err);
    case FIELD_DOUBLE:
        return json_double(value, field->min, max, &out->number, err);
    case FIELD_BOOL:
        return json_bool(value, &out->boolean, err);
    case FIELD_STRING:
        return read_string(value, &out->string, arena, err);
    case FIELD_ENUM:
        return read_enum(value, field->names, &out->word, err);
    case FIELD_NODE:
        out->node = value;
        return true;
    case FIELD_WORDS:
        break;
    }
    return read_words(value, field->names, &out->word, err);
}

static void store_value(const struct json_field *field, const union field_value *value, void *out)
{
    void *place = (char *)out + field->offset;
    switch (field->type) {
    case FIELD_INT:
        memcpy(place, &value->integer, sizeof value->integer);
        break;
    case FIELD_DOUBLE:
        memcpy(place, &value->number, sizeof value->number);
        break;
    case FIELD_BOOL:
        memcpy(place, &value->boolean, sizeof value->boolean);
        break;
    case FIELD_STRING:
        memcpy(place, &value->string, sizeof value->string);
        break;
    case FIELD_ENUM:
    case FIELD_WORDS:
        memcpy(place, &value->word, sizeof value->word);
        break;
    case FIELD_NODE:
        memcpy(place, &value->node, sizeof value->node);
        break;
    }
}

bool json_read_fields(const struct json *object, const struct json_field *fields, size_t count, void *out,
                      struct arena *arena, struct error *err)
{
    union field_value values[JSON_MAX_FIELDS];
    const struct json *members[JSON_MAX_FIELDS];
    if (count > JSON_MAX_FIELDS)
        return fail_kind(err, ERROR_BUG, "a field table of %zu, at most %d", count, (int)JSON_MAX_FIELDS);
    if (json_type(object) != JSON_OBJECT)
        return json_fail_expected(object, err, json_type_name(JSON_OBJECT));
    if (!check_keys(object, fields, count, err))
        return false;
    for (size_t i = 0; i < count; i++) {
        members[i] = json_member(object, fields[i].key);
        if (!members[i] && fields[i].required)
            return json_fail(object, err, "expected the key \"%s\"%s%s%s, found an object without it", fields[i].key,
                             fields[i].doc ? " (" : "", fields[i].doc ? fields[i].doc : "", fields[i].doc ? ")" : "");
        if (members[i] && !read_value(members[i], &fields[i], &values[i], arena, err))
            return false;
    }
    for (size_t i = 0; i < count; i++)
        if (members[i])
            store_value(&fields[i], &values[i], out);
    return true;
}

bool json_check_limits(const struct json *at, const struct json_field *fields, size_t count, const void *structure,
                       struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const void *place = (const char *)structure + fields[i].offset;
        int64_t integer = 0;
        double number = 0;
        if (fields[i].type == FIELD_INT)
            memcpy(&integer, place, sizeof integer);
        else if (fields[i].type == FIELD_DOUBLE)
            memcpy(&number, place, sizeof number);
        const struct json *member = at ? json_member(at, fields[i].key) : NULL;
        const char *key = member ? "" : fields[i].key, *colon = member ? "" : ": "; /* a member's place says its key */
        if (integer > int_limit(floor(most_of(&fields[i]))))
            return json_fail(member ? member : at, err, "%s%sexpected at most %lld, found %lld", key, colon,
                             (long long)most_of(&fields[i]), (long long)integer);
        if (number > most_of(&fields[i]))
            return json_fail(member ? member : at, err, "%s%sexpected at most %g, found %g", key, colon,
                             most_of(&fields[i]), number);
    }
    return true;
}

bool json_check_format(const struct json *root, const char *format, struct error *err)
{
    const struct json *at = json_member(root, "format");
    const char *found;
    if (!at)
        return true;
    return json_string(at, &found, err) &&
           (strcmp(found, format) == 0 || json_fail(at, err, "expected \"%s\", found \"%.64s\"", format, found));
}
