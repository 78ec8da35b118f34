/* Variables of a shell script: how they are assigned, also by loops and sums, and what a subshell leaves of them. */
#include "targets/shell_expand.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct shell_variable *shell_variable(const struct shell_script *script, const char *name, size_t length)
{
    for (int i = 0; i < script->variable_count; i++)
        if (script->variables[i].length == length && memcmp(script->variables[i].name, name, length) == 0)
            return &script->variables[i];
    return NULL;
}

const char *shell_value(const struct shell_script *script, const char *variable)
{
    const struct shell_variable *found = shell_variable(script, variable, strlen(variable));
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

/* Whether the words hold nothing at all. */
static bool is_nothing(const struct shell_words *words)
{
    for (int i = 0; i < words->count; i++)
        if (words->words[i][0])
            return false;
    return true;
}

const char *shell_missing(const struct shell *s, const struct shell_words *values)
{
    return values->hidden ? values->hidden : s->unknown && is_nothing(values) ? s->printed : NULL;
}

bool shell_assign(struct shell *s, const char *name, size_t length, bool append, const struct shell_words *values,
                  bool is_array)
{
    struct shell_script *script = s->script;
    struct shell_variable *variable = shell_variable(script, name, length);
    if (!variable) {
        if (script->variable_count == SHELL_MOST_VARIABLES)
            return shell_fail(s, "the script sets more than %d variables and elements of lists", SHELL_MOST_VARIABLES);
        if (script->variable_count == script->variable_capacity) {
            struct shell_variable *more = arena_more(s->arena, script->variables, script->variable_count,
                                                     &script->variable_capacity, sizeof *more);
            if (!more)
                return fail_memory(s->err);
            script->variables = more;
        }
        variable = &script->variables[script->variable_count++];
        *variable = (struct shell_variable){ .name = arena_strndup(s->arena, name, length), .length = length };
        if (!variable->name) {
            script->variable_count--;
            return fail_memory(s->err);
        }
    }
    if (append && !is_array && variable->count > 0) {
        struct text joined = { 0 };
        text_printf(&joined, "%s%s", variable->values[0], values->count > 0 ? values->words[0] : "");
        variable->printed = variable->printed ? variable->printed : shell_missing(s, values);
        variable->unknown = variable->unknown || s->unknown;
        return shell_take(s, &joined, &variable->values[0]);
    }
    if (!append)
        variable->count = 0;
    variable->is_array = is_array;
    variable->from = append && variable->count > 0 ? shell_from_both(variable->from, s->from) : s->from;
    variable->unknown = s->unknown || (append && variable->unknown);
    variable->argument = append || is_array ? 0 : s->argument;
    variable->printed = append && variable->printed ? variable->printed : shell_missing(s, values);
    variable->several = NULL;
    for (int i = 0; i < values->count; i++)
        if (!add_value(s, variable, values->words[i]))
            return false;
    return true;
}

bool shell_set_list(struct shell *s, const char *name, const struct shell_words *values, bool unknown)
{
    s->unknown = unknown;
    return shell_assign(s, name, strlen(name), false, values, true);
}

enum shell_from shell_from_both(enum shell_from one, enum shell_from other)
{
    return one == other ? one : SHELL_FROM_EITHER;
}

bool shell_set(struct shell *s, const char *name, size_t length, const char *value, bool unknown)
{
    struct shell_words values = { .count = 1, .words = &value };
    s->unknown = unknown;
    s->argument = 0;
    return shell_assign(s, name, length, false, &values, false);
}

size_t shell_name_length(const char *p, const char *end)
{
    const char *q = p;
    while (q < end && (isalpha((unsigned char)*q) || *q == '_' || (q > p && isdigit((unsigned char)*q))))
        q++;
    return (size_t)(q - p);
}

enum { MOST_KEY_BYTES = 1 << 10 }; /* of an element: it is looked for wherever one may begin */

/* Length of a name, or NAME[KEY], and = or += at the beginning; 0: it is no assignment. */
static size_t assignment_at(const char *p, const char *end, size_t *name_length)
{
    *name_length = shell_name_length(p, end);
    const char *q = p + *name_length;
    if (q == p)
        return 0;
    const char *line = q < end && *q == '[' ? memchr(q, '\n', (size_t)(end - q)) : NULL;
    const char *most = line ? line : end;
    most = most - q > MOST_KEY_BYTES ? q + MOST_KEY_BYTES : most;
    if (q < end && *q == '[' && !(q = shell_closed(q + 1, most, '[', ']')))
        return 0;
    if (q < end && *q == '+')
        q++;
    return q < end && *q == '=' ? (size_t)(q + 1 - p) : 0;
}

static bool read_array(struct shell *s, struct shell_words *values)
{
    enum shell_from from = s->spelled;
    bool unknown = false;
    const char *printed = NULL;
    for (;;) {
        shell_skip_blank(s, true);
        if (s->p == s->end)
            return shell_fail(s, "a list that begins with ( ends nowhere");
        if (*s->p == ')') {
            s->p++;
            s->unknown = unknown;
            s->printed = printed;
            s->from = from;
            return true;
        }
        const char *before = s->p;
        bool first = values->count == 0;
        if (!shell_word(s, values, false))
            return false;
        from = first ? s->from : shell_from_both(from, s->from);
        unknown = unknown || s->unknown;
        printed = printed ? printed : s->printed;
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
    s->dropped = NULL;
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
    if (!active)
        return true;
    const char *key = name[name_length] == '[' ? name + name_length + 1 : NULL;
    size_t key_length = key ? (size_t)(name + length - 2 - append - key) : 0;
    return shell_note_dropped(s, &values) &&
           (key     ? shell_set_element(s, name, name_length, key, key_length, append, &values)
            : array ? shell_assign_list(s, name, name_length, append, &values)
                    : shell_assign(s, name, name_length, append, &values, false));
}

/* NAME = SUM, NAME += SUM, NAME++ and ++NAME between (( and )); *found: it is one of them. */
static bool assign_sum(struct shell *s, bool active, int64_t *value, bool *whole, bool *found)
{
    const char *stop = shell_closed(s->p + 1, s->end, '(', ')'), *end = stop ? stop - 2 : s->p, *p = s->p + 2, *all;
    while (p < end && strchr(" \t", *p))
        p++;
    while (end > p && strchr(" \t", end[-1]))
        end--;
    const char *before = end - p > 2 && p[0] == p[1] && strchr("+-", *p) ? p : NULL;
    for (p += before ? 2 : 0; p < end && strchr(" \t", *p);)
        p++;
    const char *name = p;
    size_t length = shell_name_length(name, end), signs = 0;
    for (p = name + length; p < end && strchr(" \t", *p);)
        p++;
    while (p + signs < end && signs < 2 && strchr("+-*/%<>&|^", p[signs]))
        signs++;
    bool behind = signs == 2 && p[0] == p[1] && strchr("+-", *p) && p + 2 == end && !before;
    bool steps = behind || (before && p == end), sets = !before && p + signs < end && p[signs] == '=' &&
                                                        (p + signs + 1 == end || p[signs + 1] != '=') &&
                                                        (signs != 1 || !strchr("<>", *p));
    *found = length > 0 && (steps || sets);
    if (!*found)
        return true;
    const char *rest = p + signs + 1;
    struct text sum = { 0 };
    struct shell inner = *s;
    text_printf(&sum, "%.*s=$((", (int)length, name);
    if (steps || signs > 0)
        text_printf(&sum, "%.*s%.*s", (int)length, name, steps ? 1 : (int)signs, before ? before : p);
    text_printf(&sum, "(%.*s)))", steps ? 1 : (int)(end - rest), steps ? "1" : rest);
    if (!shell_take(s, &sum, &all))
        return false;
    inner.p = all;
    inner.end = all + strlen(all);
    inner.grown = s->grown;
    bool assigned, good = shell_assignment(&inner, active, &assigned);
    s->grown = inner.grown;
    s->p = stop;
    const struct shell_variable *variable = shell_variable(s->script, name, length);
    *whole = variable && variable->count > 0 && *variable->values[0] != 0;
    *value = *whole ? strtoll(variable->values[0], NULL, 10) : 0;
    *value += behind ? (*p == '-') - (*p == '+') : 0; /* such a sum is what there was before */
    return good;
}

bool shell_arithmetic_command(struct shell *s, bool runs, bool *found)
{
    struct shell at = *s;
    int64_t value = 0;
    bool whole = false, inverted = shell_says(&at, "!");
    at.p += inverted;
    shell_skip_blank(&at, false);
    *found = at.end - at.p >= 2 && at.p[0] == '(' && at.p[1] == '(';
    if (!*found)
        return true;
    const char *from = s->p;
    s->p = at.p;
    bool assigns;
    if (!assign_sum(s, runs, &value, &whole, &assigns) || (!assigns && !shell_arithmetic(s, &value, &whole)))
        return false;
    s->success = runs ? whole && (value != 0) != inverted : s->success;
    if (!runs || whole)
        return true;
    const char *text = shell_copy(s, from, (size_t)(s->p - from));
    struct shell_words words = { .count = 1, .words = &text };
    return text && shell_note_command(s, &words, "taken as false");
}

bool shell_loop(struct shell *s, bool runs, bool *never)
{
    struct shell_words words = { 0 };
    struct text text = { 0 };
    int64_t value;
    bool whole;
    int line = s->line;
    enum shell_from from = SHELL_FROM_EITHER;
    const char *printed = NULL;
    *never = false;
    shell_skip_blank(s, false);
    if (s->end - s->p >= 2 && s->p[0] == '(' && s->p[1] == '(')
        return shell_arithmetic(s, &value, &whole);
    const char *name = s->p;
    size_t length = shell_name_length(s->p, s->end);
    s->p += length;
    shell_skip_blank(s, true);
    bool listed = shell_says(s, "in"), unknown = !listed && !s->arguments;
    for (s->p += listed ? 2 : 0; listed && (shell_skip_blank(s, false), s->p < s->end) && !strchr("\n;&|", *s->p);) {
        const char *before = s->p;
        bool first = words.count == 0;
        if (!shell_word(s, &words, false))
            return false;
        from = first ? s->from : shell_from_both(from, s->from);
        s->p += s->p == before; /* what no word begins with */
        unknown = unknown || s->unknown;
        printed = printed ? printed : s->printed;
    }
    if (!listed && s->arguments)
        words = *s->arguments;
    *never = words.count == 0 && !unknown;
    if (!runs || length == 0 || *never)
        return true;
    s->from = from;
    s->printed = printed;
    if (!shell_set(s, name, length, words.count > 0 ? words.words[0] : "", unknown))
        return false;
    for (int i = 0; i < words.count && text.length < 80; i++)
        text_printf(&text, " %.40s", words.words[i]);
    const char *several = words.count > 1 && !text.failed ? arena_strdup(s->arena, text.data) : NULL;
    struct shell_variable *variable = shell_variable(s->script, name, length);
    text.length = 0;
    text_printf(&text, "for %.*s in%.100s (line %d: read once, with %.40s)", (int)length, name, several ? several : "",
                line, words.count > 0 ? words.words[0] : "");
    variable->several = several && !text.failed ? arena_strdup(s->arena, text.data) : NULL;
    bool good = words.count < 2 || variable->several != NULL;
    text_free(&text);
    return good || fail_memory(s->err);
}

/* How many characters of IFS stand there that are blanks, which part words however many there are. */
static size_t blanks_at(const char *p, const char *between)
{
    size_t count = 0;
    while (p[count] && strchr(" \t\n", p[count]) && strchr(between, p[count]))
        count++;
    return count;
}

/* Behind the part that begins here, and behind what parts it from the next. */
static const char *behind_part(const char *p, const char *between)
{
    p += strcspn(p, between);
    p += blanks_at(p, between);
    if (*p && strchr(between, *p))
        p += 1 + blanks_at(p + 1, between);
    return p;
}

bool shell_read_names(struct shell *s, const struct shell_words *words, const char *between)
{
    static const char usual[] = " \t\n";
    const char *said = shell_value(s->script, "IFS"), *parting = said ? said : usual;
    const char *rest = shell_copy(s, s->fed, strcspn(s->fed, "\n")), *next;
    struct shell_words parts = { 0 };
    bool listed = false, understood = true;
    int i = 1;
    for (; i < words->count && words->words[i][0] == '-'; i++) {
        const char *letters = words->words[i] + 1;
        listed = listed || strchr(letters, 'a');
        understood = understood && !letters[strspn(letters, "aers")];
    }
    if (!rest || (!understood && !shell_note_command(s, words, "taken to read nothing")))
        return false;
    rest = understood ? rest + blanks_at(rest, parting) : "";
    for (int left = words->count - i; listed ? *rest != 0 : left > 0; left--, rest = next) {
        next = behind_part(rest, parting);
        size_t length = strcspn(rest, parting);
        if (!listed && left == 1 && *next) /* the last gets all that is left, as it is */
            for (length = strlen(rest), next = rest + length; blanks_at(rest + length - 1, parting);)
                length--;
        if (!shell_add_word(s, &parts, shell_copy(s, rest, length)))
            return false;
    }
    s->from = SHELL_FROM_EITHER;
    bool unknown = s->fed_unknown || !understood,
         good = said == between || shell_set(s, "IFS", 3, between ? between : usual, false);
    for (int n = 0; i + n < words->count && !listed && good; n++)
        good = shell_set(s, words->words[i + n], strlen(words->words[i + n]), parts.words[n], unknown);
    if (listed && i < words->count)
        good = shell_set_list(s, words->words[i], &parts, unknown);
    return good;
}

bool shell_remember(struct shell *s, struct shell_memory *out)
{
    const struct shell_script *script = s->script;
    *out = (struct shell_memory){ .count = script->variable_count, .folder = s->folder };
    out->variables = shell_room(s, out->count, sizeof *out->variables);
    if (!out->variables)
        return false;
    for (int i = 0; i < out->count; i++) {
        struct shell_variable *copy = &out->variables[i];
        *copy = script->variables[i];
        copy->capacity = copy->count;
        copy->values = shell_room(s, copy->count, sizeof *copy->values);
        if (!copy->values)
            return false;
        for (int k = 0; k < copy->count; k++)
            copy->values[k] = script->variables[i].values[k];
    }
    return true;
}

void shell_recall(struct shell *s, const struct shell_memory *memory)
{
    for (int i = 0; i < memory->count; i++)
        s->script->variables[i] = memory->variables[i];
    s->folder = memory->variables ? memory->folder : s->folder;
}
