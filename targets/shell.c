#include "targets/shell.h"
#include "targets/shell_expand.h"
#include <ctype.h>
#include <stdlib.h>
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

/* ---- commands ---- */

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] == '-';
}

static bool keep_command(struct shell *s, const struct shell_words *words)
{
    struct shell_script *script = s->script;
    if (words->count == 0)
        return true;
    struct shell_command *last = script->count > 0 ? &script->commands[script->count - 1] : NULL;
    bool continues = last && last->count > 0 && is_option(last->words[0]) && is_option(words->words[0]);
    int before = continues ? last->count : 0;
    const char **all = arena_alloc(s->arena, (size_t)(before + words->count), sizeof *all);
    if (!all || !shell_grow(s, (size_t)(before + words->count) * sizeof *all))
        return fail_memory(s->err);
    for (int i = 0; i < before; i++)
        all[i] = last->words[i];
    for (int i = 0; i < words->count; i++)
        all[before + i] = words->words[i];
    if (!continues) {
        if (script->count == script->capacity) {
            struct shell_command *more =
                arena_more(s->arena, script->commands, script->count, &script->capacity, sizeof *more);
            if (!more)
                return fail_memory(s->err);
            script->commands = more;
        }
        last = &script->commands[script->count++];
    }
    *last = (struct shell_command){ .count = before + words->count, .words = all };
    return true;
}

static bool run_text(struct shell *s, const char *text, size_t length);

/* Keeps the command, and reads what it may hand to another shell: a word of several, options among them. Where that is
 * no script it was a message. */
static bool finish_command(struct shell *s, const struct shell_words *words)
{
    if (!keep_command(s, words))
        return false;
    for (int i = 0; i < words->count && s->depth < SHELL_DEPTH; i++)
        if (strstr(words->words[i], " --") || strstr(words->words[i], "\n--")) {
            struct shell inner = *s;
            struct error why = { 0 };
            inner.depth++;
            inner.err = &why;
            bool ok = run_text(&inner, words->words[i], strlen(words->words[i]));
            s->grown = inner.grown;
            if (!ok && why.kind == ERROR_ENVIRONMENT) {
                *s->err = why;
                return false;
            }
        }
    return true;
}

/* ---- functions ---- */

/* Where commands end: with the text, with the brace that closes a function, or with an item of case. */
enum until { UNTIL_END, UNTIL_BRACE, UNTIL_ITEM };
static bool run_commands(struct shell *s, bool active, enum until until);

/* NAME () or function NAME at the beginning of a command; moves behind it. The name, and its length; 0: it is none. */
static size_t function_at(struct shell *s, const char **name)
{
    static const char word[] = "function";
    const char *q = s->p;
    bool says_so = (size_t)(s->end - q) > sizeof word && memcmp(q, word, sizeof word - 1) == 0 &&
                   strchr(" \t", q[sizeof word - 1]);
    for (q += says_so ? sizeof word : 0; q < s->end && strchr(" \t", *q);)
        q++;
    *name = q;
    while (q < s->end && (isalnum((unsigned char)*q) || strchr("_-.:", *q)))
        q++;
    size_t length = (size_t)(q - *name);
    while (q < s->end && strchr(" \t", *q))
        q++;
    bool parentheses = q < s->end && *q == '(';
    for (q += parentheses; parentheses && q < s->end && strchr(" \t", *q);)
        q++;
    if (length == 0 || (parentheses ? q == s->end || *q++ != ')' : !says_so))
        return 0;
    s->p = q;
    return length;
}

/* Keeps the function whose name and () were just passed. */
static bool define(struct shell *s, const char *name, size_t length, bool active)
{
    struct shell_functions *all = s->functions;
    struct shell_function function = { .name = name, .name_length = length, .line = s->line };
    shell_skip_blank(s, true);
    if (s->p == s->end || *s->p != '{')
        return shell_fail(s, "function %.*s: expected { and its commands", (int)length, name);
    function.body = ++s->p;
    if (!run_commands(s, false, UNTIL_BRACE))
        return false;
    if (s->p == s->end)
        return shell_fail(s, "function %.*s of line %d: expected } at its end", (int)length, name, function.line);
    function.body_length = (size_t)(s->p++ - function.body);
    if (!active)
        return true;
    if (all->count == all->capacity) {
        struct shell_function *more = arena_more(s->arena, all->list, all->count, &all->capacity, sizeof *more);
        if (!more || !shell_grow(s, sizeof *more))
            return fail_memory(s->err);
        all->list = more;
    }
    all->list[all->count++] = function;
    return true;
}

/* Runs the function that the words call; *found: there is one. */
static bool call(struct shell *s, const struct shell_words *words, bool *found)
{
    const struct shell_function *function = NULL;
    for (int i = 0; words->count > 0 && i < s->functions->count; i++)
        if (strlen(words->words[0]) == s->functions->list[i].name_length &&
            memcmp(words->words[0], s->functions->list[i].name, s->functions->list[i].name_length) == 0)
            function = &s->functions->list[i];
    *found = function != NULL;
    if (!function)
        return true;
    if (s->depth >= SHELL_DEPTH)
        return shell_fail(s, "function %s: more than %d calls inside each other", words->words[0], SHELL_DEPTH);
    struct shell inner = *s;
    struct shell_words arguments = { .count = words->count - 1, .words = words->words + 1 };
    inner.p = function->body;
    inner.end = function->body + function->body_length;
    inner.here = NULL;
    inner.line = function->line;
    inner.arguments = &arguments;
    inner.depth++;
    bool good = shell_grow(&inner, function->body_length + sizeof inner) && run_commands(&inner, true, UNTIL_END);
    s->grown = inner.grown;
    return good;
}

/* What a function does to itself: shift, return. */
static void steer(struct shell *s, const struct shell_words *words)
{
    if (!s->arguments || words->count == 0)
        return;
    if (strcmp(words->words[0], "return") == 0) {
        s->p = s->end;
        s->returned = true;
    }
    if (strcmp(words->words[0], "shift") == 0 && s->arguments->count > 0) {
        s->arguments->words++;
        s->arguments->count--;
    }
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

static bool assign(struct shell *s, size_t length, size_t name_length, bool active)
{
    const char *name = s->p;
    struct shell_words values = { 0 };
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
    bool ok = !active || set_variable(s, name, name_length, append, &values, array);
    return ok;
}

static bool says(const struct shell *s, const char *word)
{
    size_t length = strlen(word), left = (size_t)(s->end - s->p);
    return left >= length && memcmp(s->p, word, length) == 0 &&
           (left == length || strchr(" \t\r\n;&|()", s->p[length]) != NULL);
}

static bool begins_declaration(struct shell *s)
{
    static const char *const words[] = { "export", "declare", "local", "readonly", "typeset" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (says(s, words[i])) {
            s->p += strlen(words[i]);
            return true;
        }
    return false;
}

/* A layout of stages or of layers, whose bars and brackets somebody left without quotes. */
static bool bare_layout(struct shell *s, struct shell_words *words)
{
    static const char *const options[] = { "--pipeline-model-parallel-layout", "--moe-layer-freq",
                                           "--window-attn-skip-freq", "--window-size" };
    bool takes = false;
    for (size_t i = 0; words->count > 0 && i < sizeof options / sizeof *options; i++)
        takes = takes || strcmp(words->words[words->count - 1], options[i]) == 0;
    if (!takes || strchr("\"'$\\", *s->p))
        return false;
    size_t length = 0;
    while (s->p + length < s->end && !strchr(" \t\r\n;&\\", s->p[length]))
        length++;
    s->p += length;
    return length > 0 && shell_add_word(s, words, arena_strndup(s->arena, s->p - length, length));
}

/* One command up to its separator. Redirections lead nowhere. */
static bool simple_command(struct shell *s, bool active, bool *success)
{
    struct shell_words words = { 0 };
    bool declares = begins_declaration(s), begun = false;
    for (;;) {
        shell_skip_blank(s, false);
        size_t name_length, length;
        bool test =
            words.count > 0 && strcmp(words.words[0], "[[") == 0 && strcmp(words.words[words.count - 1], "]]") != 0;
        if (s->p < s->end && *s->p != '\n' && bare_layout(s, &words))
            continue;
        if (s->p == s->end || *s->p == '\n' || *s->p == ';' || *s->p == ')' || (!test && strchr("&|", *s->p)))
            break;
        if (*s->p == '(') {
            s->p++; /* a subshell, or a function's () */
            continue;
        }
        if (*s->p == '<' || *s->p == '>') {
            if (!shell_redirection(s))
                return false;
            continue;
        }
        if (test && strchr("&|", *s->p)) {
            char both[3] = { *s->p, *s->p, 0 };
            s->p += s->p + 1 < s->end && s->p[1] == *s->p ? 2 : 1;
            if (!shell_add_word(s, &words, arena_strdup(s->arena, both)))
                return false;
            continue;
        }
        if ((!begun || declares) && (length = assignment_at(s->p, s->end, &name_length)) > 0) {
            if (!assign(s, length, name_length, active))
                return false;
            continue;
        }
        if (!shell_word(s, &words, false))
            return false;
        begun = true;
    }
    *success = shell_succeeds(words.words, words.count);
    bool called = false;
    if (!active || declares)
        return true;
    steer(s, &words);
    return call(s, &words, &called) && (called || finish_command(s, &words));
}

/* One item of case: patterns, and commands that run where none ran before them and one of the patterns fits. */
static bool run_item(struct shell *s, const char *value, bool active, bool *taken)
{
    bool fits = false, more = true;
    if (*s->p == '(')
        s->p++;
    while (more) {
        struct shell_words pattern = { 0 };
        shell_skip_blank(s, false);
        if (!shell_word(s, &pattern, true))
            return false;
        fits = fits || (pattern.count > 0 && shell_matches(pattern.words[0], value));
        shell_skip_blank(s, false);
        more = s->p < s->end && *s->p == '|';
        s->p += more;
    }
    if (s->p == s->end || *s->p != ')')
        return shell_fail(s, "case: expected ) behind a pattern");
    s->p++;
    if (!run_commands(s, active && fits && !*taken, UNTIL_ITEM))
        return false;
    *taken = *taken || fits;
    size_t ends = 0;
    while (s->p + ends < s->end && strchr(";&", s->p[ends]))
        ends++;
    if (ends > 0 && memchr(s->p, '&', ends))
        return shell_fail(s, "case: expected ;; behind an item, found %.*s, which is not read", (int)ends, s->p);
    s->p += ends;
    return true;
}

/* case WORD in PATTERN | PATTERN) commands ;; ... esac */
static bool choose(struct shell *s, bool active)
{
    struct shell_words word = { 0 };
    int line = s->line;
    bool taken = false, good = true;
    s->p += strlen("case");
    shell_skip_blank(s, false);
    if (s->depth >= SHELL_DEPTH)
        return shell_fail(s, "more than %d choices inside each other", SHELL_DEPTH);
    if (!shell_word(s, &word, true))
        return false;
    shell_skip_blank(s, true);
    if (!says(s, "in"))
        return shell_fail(s, "case: expected in behind its word");
    s->p += strlen("in");
    s->depth++;
    while (good && !s->returned && (shell_skip_blank(s, true), s->p < s->end) && !says(s, "esac"))
        good = run_item(s, word.count > 0 ? word.words[0] : "", active, &taken);
    s->depth--;
    if (s->returned)
        return good;
    if (good && s->p == s->end)
        return shell_fail(s, "case of line %d: expected esac at its end", line);
    s->p += good ? strlen("esac") : 0;
    return good;
}

enum { MOST_IFS = 64 };
struct branch {
    bool outer, taken, active; /* whether what is around runs; a branch was taken; this one runs */
    bool condition;            /* between if and then */
    bool brace;                /* of { and } */
};

/* Handles a word of control at the beginning of a command, which runs or is skipped; *found: it was one. */
static bool control(struct shell *s, struct branch *branches, int *depth, bool runs, bool success, bool *found)
{
    struct branch *top = &branches[*depth];
    *found = true;
    if (says(s, "if") || *s->p == '{') {
        bool brace = *s->p == '{';
        if (*depth + 1 >= MOST_IFS)
            return shell_fail(s, "more than %d conditions inside each other", MOST_IFS - 1);
        branches[++*depth] = (struct branch){ .outer = runs, .active = runs, .condition = !brace, .brace = brace };
        s->p += brace ? 1 : 2;
    } else if (*s->p == '}') {
        *depth -= top->brace;
        s->p++;
    } else if (says(s, "then")) {
        if (*depth > 0 && top->condition)
            *top = (struct branch){ .outer = top->outer, .taken = success, .active = top->outer && success };
        s->p += 4;
    } else if (says(s, "elif")) {
        if (*depth > 0)
            *top = (struct branch){ .outer = top->outer && !top->taken,
                                    .active = top->outer && !top->taken,
                                    .condition = true };
        s->p += 4;
    } else if (says(s, "else")) {
        if (*depth > 0)
            top->active = top->outer && !top->taken;
        s->p += 4;
    } else if (says(s, "fi")) {
        if (*depth > 0)
            --*depth;
        s->p += 2;
    } else if (says(s, "do") || says(s, "done")) {
        s->p += says(s, "done") ? 4 : 2;
    } else if (says(s, "case")) {
        return choose(s, runs);
    } else {
        *found = false;
    }
    return true;
}

static bool batch_line(struct shell *s)
{
    static const char mark[] = "#SBATCH";
    size_t left = (size_t)(s->end - s->p);
    if (left <= sizeof mark || memcmp(s->p, mark, sizeof mark - 1) != 0)
        return true;
    const char *stop = memchr(s->p, '\n', left);
    struct shell inner = *s;
    struct shell_words words = { 0 };
    inner.p = s->p + sizeof mark - 1;
    inner.end = stop ? stop : s->end;
    if (!shell_add_word(s, &words, mark))
        return false;
    while (shell_skip_blank(&inner, false), inner.p < inner.end) {
        const char *before = inner.p;
        if (!shell_word(&inner, &words, false))
            return false;
        if (inner.p == before)
            inner.p++;
    }
    s->grown = inner.grown;
    return keep_command(s, &words);
}

/* Passes what separates commands up to where the item ends; true: it is there. */
static bool at_item_end(struct shell *s)
{
    for (;; s->p++) {
        shell_skip_blank(s, true);
        if (says(s, "esac") || (s->end - s->p >= 2 && s->p[0] == ';' && (s->p[1] == ';' || s->p[1] == '&')))
            return true;
        if (s->p == s->end || *s->p != ';')
            return false;
    }
}

static bool run_commands(struct shell *s, bool active, enum until until)
{
    struct branch branches[MOST_IFS] = { { .active = active } };
    int depth = 0, open = 0;
    bool success = true, skipped = false;
    while (s->p < s->end) {
        if (until == UNTIL_ITEM && at_item_end(s))
            return true;
        shell_skip_separators(s);
        if (s->p == s->end)
            break;
        bool found, result = true;
        const char *before = s->p, *name;
        if (*s->p == '#') {
            if (branches[depth].active && !batch_line(s))
                return false;
            shell_skip_line(s);
            continue;
        }
        if (*s->p == '&' || *s->p == '|') {
            bool twice = s->p + 1 < s->end && s->p[1] == *s->p;
            skipped = twice && (*s->p == '&') != success;
            s->p += twice ? 2 : 1;
            continue;
        }
        open += (*s->p == '{') - (*s->p == '}');
        if (until == UNTIL_BRACE && open < 0)
            return true;
        if (!control(s, branches, &depth, branches[depth].active && !skipped, success, &found))
            return false;
        if (found) {
            skipped = false;
            continue;
        }
        size_t length = function_at(s, &name);
        if (length > 0) {
            if (!define(s, name, length, branches[depth].active && !skipped))
                return false;
            continue;
        }
        if (!simple_command(s, branches[depth].active && !skipped, &result))
            return false;
        if (!skipped)
            success = result;
        skipped = false;
        if (s->p == before)
            s->p++; /* what begins no command */
    }
    return true;
}

/* The lines of here documents, which nobody reads, lie behind the line that announces them. */
static bool run_text(struct shell *s, const char *text, size_t length)
{
    s->p = text;
    s->end = text + length;
    s->here = NULL;
    return run_commands(s, true, UNTIL_END);
}

bool shell_read(struct shell_script *out, struct arena *arena, const char *name, const char *text, size_t length,
                struct error *err)
{
    *out = (struct shell_script){ 0 };
    if (memchr(text, 0, length))
        return fail(err, "%s: expected text, found a byte of zero", name);
    struct shell_functions functions = { 0 };
    struct shell shell = {
        .script = out, .functions = &functions, .arena = arena, .name = name, .line = 1, .err = err
    };
    return run_text(&shell, text, length);
}
