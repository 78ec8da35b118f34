/* What a file says twice: keys under several names, and the family by its type and by its classes. */
#include "models/import/hf_keys.h"
#include <math.h>
#include <string.h>
#include <strings.h>

const char *hf_key(const struct json *root, const struct hf_alias *aliases, const char *key)
{
    if (hf_given(root, key))
        return key;
    for (const struct hf_alias *a = aliases; a && a->name; a++)
        if (!a->ignored_alone && strcmp(a->key, key) == 0 && hf_given(root, a->name))
            return a->name;
    return key;
}

bool hf_check_aliases(const struct json *root, const struct hf_alias *aliases, struct error *err)
{
    for (const struct hf_alias *a = aliases; a && a->name; a++) {
        const char *key = hf_key(root, aliases, a->key);
        const struct json *other = hf_given(root, a->name), *value = hf_given(root, key);
        double found, wanted;
        int line, column;
        if (!other || !value || other == value)
            continue;
        if (!json_double(value, -INFINITY, INFINITY, &wanted, err) ||
            !json_double(other, -INFINITY, INFINITY, &found, err))
            return false;
        json_position(value, &line, &column);
        if (found != wanted)
            return json_fail(other, err,
                             "expected the value of %s, for which it is another name (%.15g at line %d, column %d), "
                             "found %.15g: leave out the one that is wrong",
                             key, wanted, line, column, found);
    }
    return true;
}

/* How much of a class's name is the family's: what stands before the first word that says what the class does. */
static size_t family_length(const char *name)
{
    static const char *const words[] = { "For", "LMHead", "DoubleHeads", "With", "Model", "Encoder", "PreTrained" };
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *at = strstr(name, words[i]);
        length = at && (size_t)(at - name) < length ? (size_t)(at - name) : length;
    }
    return length;
}

/* Without regard to case: the first Llamas call themselves LLaMAForCausalLM. */
static bool is_of_family(const char *class_name, const struct hf_family *family)
{
    size_t length = family_length(class_name);
    return length == family_length(family->class_name) && strncasecmp(class_name, family->class_name, length) == 0;
}

bool hf_check_classes(const struct json *root, const struct hf_family *family, struct error *err)
{
    const struct json *list = hf_given(root, "architectures");
    const char *found;
    int line, column;
    if (list && json_type(list) != JSON_ARRAY)
        return json_fail(list, err, "expected an array of names of classes, found %s", json_type_name(json_type(list)));
    json_position(json_at_key(root, "model_type"), &line, &column);
    for (int i = 0; list && i < json_count(list); i++) {
        if (!json_string(json_at(list, i), &found, err))
            return false;
        if (!is_of_family(found, family))
            return json_fail(json_at(list, i), err,
                             "expected a class of the model_type (\"%s\" at line %d, column %d) such as %s, found "
                             "\"%.64s\": correct the one that is wrong",
                             family->type, line, column, family->class_name, found);
    }
    return true;
}
