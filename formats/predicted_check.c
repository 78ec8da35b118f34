/* What a plan file predicts beside what is found when the plan is simulated anew. */
#include "formats/predicted_check.h"
#include "formats/plan_json.h"
#include <math.h>
#include <stdlib.h>

static bool same_number(const struct json *file, const struct json *found, struct error *err)
{
    double a = 0, b = 0;
    return json_double(file, -INFINITY, INFINITY, &a, err) && json_double(found, -INFINITY, INFINITY, &b, err) &&
           (fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) ||
            json_fail(file, err, "the prediction does not hold: the plan's program says %.15g, the file %.15g", b, a));
}

/* Values of one type without parts; strings and the null do not stand among predictions. */
static bool same_value(const struct json *file, const struct json *found, struct error *err)
{
    bool a = false, b = false;
    if (json_type(found) == JSON_NUMBER)
        return same_number(file, found, err);
    return json_bool(file, &a, err) && json_bool(found, &b, err) &&
           (a == b || json_fail(file, err, "the prediction does not hold: the plan's program says %s, the file %s",
                                b ? "true" : "false", a ? "true" : "false"));
}

static bool same_tree(const struct json *file, const struct json *found, struct error *err)
{
    bool object = json_type(found) == JSON_OBJECT, array = json_type(found) == JSON_ARRAY;
    if (json_type(file) != json_type(found))
        return json_fail(file, err, "expected %s, found %s", json_type_name(json_type(found)),
                         json_type_name(json_type(file)));
    if (!object && !array)
        return same_value(file, found, err);
    if (array && json_count(file) != json_count(found))
        return json_fail(file, err, "expected %d values, found %d", json_count(found), json_count(file));
    for (int i = 0; i < json_count(found); i++) {
        const struct json *part = object ? json_member(file, json_key(found, i)) : json_at(file, i);
        if (!part)
            return json_fail(file, err, "expected the key \"%s\", found an object without it", json_key(found, i));
        if (!same_tree(part, object ? json_member_at(found, i) : json_at(found, i), err))
            return false;
    }
    return true;
}

bool predicted_holds(const struct json *file, const struct plan *plan, const struct prediction *prediction,
                     struct error *err)
{
    size_t length;
    struct json_doc *doc = NULL;
    char *text = plan_json_write(plan, prediction, NULL, &length);
    bool good = text ? json_parse(&doc, "prediction", text, length, err) : fail_memory(err);
    if (good && !same_tree(file, json_member(json_root(doc), "predicted"), err)) {
        err->kind = ERROR_GATE;
        good = false;
    }
    json_free(doc);
    free(text);
    return good;
}
