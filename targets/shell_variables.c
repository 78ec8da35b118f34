/* Variables of a shell script: how they are assigned, and what a subshell leaves of them. */
#include "targets/shell_expand.h"
#include <ctype.h>
#include <string.h>

static struct shell_variable *find_variable(const struct shell_script *script, const char *name, size_t length)
{
    for (int i = 0; i < script->variable_count; i++)
        if (strlen(script->variables[i].name) == length && memcmp(script->variables[i].name, name, length) == 0)
            return &script->variables[i];
    return NULL;
}

const struct shell_variable *shell_variable(const struct shell_script *script, const char *name, size_t length)
{
    return find_variable(script, name, length);
}

const char *shell_value(const struct shell_script *script, const char *variable)
{
    const struct shell_variable *found = find_variable(script, variable, strlen(variable));
    return found && found->count > 0 ? found->values[0] : NULL;
}

static bool add_value(struct shell *s, struct shell_variable *variable, const char *value)
{
    if (variable->count == variable->capacity) {
        const char **more = arena_more(s->arena, variable->values, variable->count, &variable->capacity, sizeof *more);
        if (!more)
            return fail_memory(s->err);
        variable->values = more;
    }
    variable->values[variable->count++] = value;
    return true;
}

static bool set_variable(struct shell *s, const char *name, size_t length, bool append,
                         const struct shell_words *values, bool is_array)
{
    struct shell_script *script = s->script;
    struct shell_variable *variable = find_variable(script, name, length);
    if (!variable) {
        if (script->variable_count == script->variable_capacity) {
            struct shell_variable *more = arena_more(s->arena, script->variables, script->variable_count,
                                                     &script->variable_capacity, sizeof *more);
            if (!more)
                return fail_memory(s->err);
            script->variables = more;
        }
        variable = &script->variables[script->variable_count++];
        *variable = (struct shell_variable){ .name = arena_strndup(s->arena, name, length) };
        if (!variable->name) {
            script->variable_count--;
            return fail_memory(s->err);
        }
    }
    if (append && !is_array && variable->count > 0) {
        struct text joined = { 0 };
        text_printf(&joined, "%s%s", variable->values[0], values->count > 0 ? values->words[0] : "");
        return shell_take(s, &joined, &variable->values[0]);
    }
    if (!append)
        variable->count = 0;
    variable->is_array = is_array;
    for (int i = 0; i < values->count; i++)
        if (!add_value(s, variable, values->words[i]))
            return false;
    return true;
}

/* Length of a name and = or += at the beginning; 0: it is no assignment. */
static size_t assignment_at(const char *p, const char *end, size_t *name_length)
{
    const char *q = p;
    while (q < end && (isalpha((unsigned char)*q) || *q == '_' || (q > p && isdigit((unsigned char)*q))))
        q++;
    *name_length = (size_t)(q - p);
    if (q == p)
        return 0;
    if (q < end && *q == '+')
        q++;
    return q < end && *q == '=' ? (size_t)(q + 1 - p) : 0;
}

static bool read_array(struct shell *s, struct shell_words *values)
{
    for (;;) {
        shell_skip_blank(s, true);
        if (s->p == s->end)
            return shell_fail(s, "a list that begins with ( ends nowhere");
        if (*s->p == ')') {
            s->p++;
            return true;
        }
        const char *before = s->p;
        if (!shell_word(s, values, false))
            return false;
        if (s->p == before)
            s->p++; /* what no word begins with */
    }
}

bool shell_assignment(struct shell *s, bool active, bool *found)
{
    const char *name = s->p;
    struct shell_words values = { 0 };
    size_t name_length, length = assignment_at(s->p, s->end, &name_length);
    *found = length > 0;
    if (length == 0)
        return true;
    bool append = name[length - 2] == '+', array = false;
    s->p += length;
    if (s->p < s->end && *s->p == '(') {
        s->p++;
        array = true;
        if (!read_array(s, &values))
            return false;
    } else if (!shell_word(s, &values, true)) {
        return false;
    }
    return !active || set_variable(s, name, name_length, append, &values, array);
}

bool shell_remember(struct shell *s, struct shell_memory *out)
{
    const struct shell_script *script = s->script;
    size_t bytes = (size_t)script->variable_count * sizeof *out->variables;
    *out = (struct shell_memory){ .count = script->variable_count };
    out->variables = arena_alloc(s->arena, (size_t)(out->count > 0 ? out->count : 1), sizeof *out->variables);
    if (!out->variables || !shell_grow(s, bytes))
        return fail_memory(s->err);
    for (int i = 0; i < out->count; i++) {
        struct shell_variable *copy = &out->variables[i];
        *copy = script->variables[i];
        copy->capacity = copy->count;
        copy->values = arena_alloc(s->arena, (size_t)(copy->count > 0 ? copy->count : 1), sizeof *copy->values);
        if (!copy->values || !shell_grow(s, (size_t)copy->count * sizeof *copy->values))
            return fail_memory(s->err);
        for (int k = 0; k < copy->count; k++)
            copy->values[k] = script->variables[i].values[k];
    }
    return true;
}

void shell_recall(struct shell *s, const struct shell_memory *memory)
{
    for (int i = 0; i < memory->count; i++)
        s->script->variables[i] = memory->variables[i];
}
