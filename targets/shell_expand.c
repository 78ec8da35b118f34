/* Words of a shell script: quotes, and what stands behind "$". */
#include "base/num.h"
#include "targets/shell_expand.h"
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fields {
    struct shell_words *words;
    struct text text;
    bool begun; /* there is a word, if an empty one */
    bool whole;
};

static bool end_field(struct shell *s, struct fields *f)
{
    const char *word;
    if (!f->begun)
        return true;
    f->begun = false;
    return shell_take(s, &f->text, &word) && shell_add_word(s, f->words, word);
}

/* A value without quotes is as many words as it has parts. */
static bool add_split(struct shell *s, struct fields *f, const char *value)
{
    if (f->whole) {
        text_add(&f->text, value);
        return true;
    }
    for (const char *p = value; *p; p++) {
        if (strchr(" \t\n", *p)) {
            if (!end_field(s, f))
                return false;
        } else {
            text_add_bytes(&f->text, p, 1);
            f->begun = true;
        }
    }
    return shell_grow(s, strlen(value));
}

static bool add_value(struct shell *s, struct fields *f, const char *value, bool quoted)
{
    if (!quoted)
        return add_split(s, f, value);
    text_add(&f->text, value);
    f->begun = true;
    return shell_grow(s, strlen(value));
}

/* sign: behind the list's name, '*' or '@'; within quotes the former makes one word, which another shell may run. */
static bool add_list(struct shell *s, struct fields *f, const struct shell_variable *list, char sign, bool quoted)
{
    bool one = f->whole || (quoted && sign == '*');
    for (int i = 0; list && i < list->count; i++) {
        if (i > 0 && one)
            text_add(&f->text, " ");
        if (i > 0 && !one && !end_field(s, f))
            return false;
        if (!add_value(s, f, list->values[i], quoted))
            return false;
    }
    return true;
}

const char *shell_closed(const char *p, const char *end, char open, char close)
{
    int depth = 1;
    for (; p < end; p++) {
        if (*p == '\\')
            p++;
        else if (*p == '\'') {
            const char *quote = memchr(p + 1, '\'', (size_t)(end - p - 1));
            p = quote ? quote : p;
        } else if (*p == open)
            depth++;
        else if (*p == close && --depth == 0)
            return p + 1;
    }
    return NULL;
}

/* The value of a piece of text, such as a default, as one word. */
static bool inner_value(struct shell *s, const char *text, size_t length, const char **out)
{
    struct shell inner = *s;
    struct shell_words words = { 0 };
    inner.p = text;
    inner.end = text + length;
    inner.depth++;
    *out = "";
    if (s->depth >= SHELL_DEPTH)
        return shell_fail(s, "more than %d expansions inside each other", SHELL_DEPTH);
    struct text joined = { 0 };
    bool ok = true, unknown = false;
    const char *printed = NULL;
    enum shell_from from = s->spelled;
    while (ok && inner.p < inner.end) {
        const char *before = inner.p;
        words.count = 0;
        int argument = inner.argument;
        ok = shell_word(&inner, &words, true);
        inner.argument = inner.argument > 0 ? inner.argument : argument;
        unknown = unknown || inner.unknown;
        printed = printed ? printed : inner.printed;
        from = joined.length == 0 ? inner.from : from;
        for (int i = 0; ok && i < words.count; i++)
            text_add(&joined, words.words[i]);
        if (inner.p == before)
            text_add_bytes(&joined, inner.p++, 1); /* a blank, or what ends words elsewhere */
    }
    s->grown = inner.grown;
    s->unknown = s->unknown || unknown;
    s->printed = s->printed ? s->printed : printed;
    s->argument = inner.argument;
    s->from = from;
    s->dropped = inner.dropped;
    if (!ok) {
        text_free(&joined);
        return false;
    }
    return shell_take(s, &joined, out);
}

/* What a name stands for, or a number: an argument of the function that runs, which is put in *place. */
static bool value_of(struct shell *s, const char *name, size_t length, struct shell_variable *place,
                     const struct shell_variable **out)
{
    int number = 0;
    for (size_t i = 0; i < length && i < 4 && isdigit((unsigned char)name[i]); i++)
        number = 10 * number + (name[i] - '0');
    if (s->arguments && number > 0) {
        int index = number - 1;
        *place = (struct shell_variable){ .count = index < s->arguments->count, .values = s->arguments->words + index };
        *out = place;
        s->from = SHELL_FROM_EITHER;
        return true;
    }
    s->argument = s->arguments || number == 0 ? s->argument : number;
    struct shell_variable *variable = shell_variable(s->script, name, length);
    if (!variable && shell_path_variable(s, name, length, place))
        variable = place;
    if (variable && variable->argument > 0)
        s->argument = variable->argument;
    const char *several = variable ? variable->several : NULL;
    *out = variable;
    if (variable) {
        variable->several = NULL;
        s->from = variable->from;
        s->printed = s->printed ? s->printed : variable->printed;
    }
    return !several || shell_note(s, "%s", several);
}

/* $@, $#, $? and the like, of which this is the sign. */
static bool special(struct shell *s, struct fields *f, char sign, bool quoted)
{
    char number[16];
    if (s->arguments && (sign == '@' || sign == '*')) {
        s->from = SHELL_FROM_EITHER;
        const struct shell_variable all = { .count = s->arguments->count, .values = s->arguments->words };
        return add_list(s, f, &all, sign, quoted);
    }
    if (sign == '?' || (s->arguments && sign == '#')) {
        snprintf(number, sizeof number, "%d", sign == '?' ? !s->success : s->arguments->count);
        return add_value(s, f, number, quoted);
    }
    s->unknown = true;
    f->begun = f->begun || quoted;
    return true;
}

/* ${#NAME}, ${#NAME[@]}: how many characters or elements there are. */
static bool add_count(struct shell *s, struct fields *f, const struct shell_variable *variable, bool all, bool quoted)
{
    char number[24];
    s->unknown = !variable || variable->unknown || variable->apart;
    s->printed = variable && variable->apart ? variable->apart : s->printed;
    f->begun = f->begun || quoted;
    if (s->unknown)
        return true;
    size_t count = all ? (size_t)variable->count : variable->count > 0 ? strlen(variable->values[0]) : 0;
    snprintf(number, sizeof number, "%zu", count);
    return add_value(s, f, number, quoted);
}

enum { MOST_TRIMMED = 256 }; /* bytes of a value: each of its beginnings is held against the pattern */

/* The value without its beginning, or with % its end, that fits the pattern: the shortest one, or the longest. */
static bool trim(struct shell *s, const char *value, char sign, bool longest, const char *pattern, const char **out)
{
    char piece[MOST_TRIMMED];
    size_t length = strlen(value), cut = 0;
    bool fits = false;
    for (size_t i = 0; i <= length && !fits; i++) {
        cut = longest ? length - i : i;
        snprintf(piece, sizeof piece, "%.*s", (int)cut, sign == '#' ? value : value + length - cut);
        fits = shell_matches(pattern, piece);
    }
    cut = fits ? cut : 0;
    *out = shell_copy(s, sign == '#' ? value + cut : value, length - cut);
    return *out;
}

/* What stands in ${ } from the name to the end, and what the name stands for. */
struct braces {
    const char *name, *behind, *op, *last; /* op: behind an element's number */
    const char *set;                       /* NULL: it is not */
    bool unknown;
};

/* The value with the operator: a default, another value, or a part of it. What else bash does to it is not known. */
static bool operate(struct shell *s, const struct braces *b, const char **out)
{
    const char *op = b->op, *last = b->last;
    bool colon = last - op > 1 && *op == ':' && strchr("+-=?", op[1]), is_set = b->set && (!colon || *b->set);
    char sign = op < last ? op[colon] : 0;
    const char *word = op + colon + 1;
    *out = NULL;
    if (sign == '+')
        return !is_set || inner_value(s, word, (size_t)(last - word), out);
    if ((sign == '-' || sign == '=') && !is_set) {
        s->printed = NULL;
        return inner_value(s, word, (size_t)(last - word), out) &&
               (sign == '-' || !s->runs || op != b->behind || op == b->name ||
                shell_set(s, b->name, (size_t)(op - b->name), *out, s->unknown));
    }
    if (b->set && sign && strchr("#%", sign) && strlen(b->set) < MOST_TRIMMED) {
        bool longest = word < last && *word == sign;
        enum shell_from from = sign == '#' ? SHELL_FROM_EITHER : s->from;
        if (!inner_value(s, word + longest, (size_t)(last - word - longest), out))
            return false;
        s->from = from;
        return trim(s, b->set, sign, longest, *out, out);
    }
    bool understood = !sign || strchr("-=?", sign), dropped = !understood && (b->set || s->arguments);
    *out = understood ? b->set : NULL;
    s->unknown = b->unknown || !understood;
    return !dropped || !s->runs ||
           shell_note(s, "${%.*s} (line %d: taken as empty)", (int)min_i64(60, last - b->name), b->name, s->line);
}

/* Whether the list's first element, which its name alone stands for, is not among its values. */
static bool first_is_apart(struct shell *s, const struct shell_variable *list)
{
    bool apart = list && list->apart && list->count == 0;
    s->printed = apart ? list->apart : s->printed;
    return apart;
}

/* Keeps how what is not known is spelled, and where, for whoever misses it: the text between what opens and what closes it. */
static bool name_printed(struct shell *s, const char *open, const char *text, size_t length, const char *close)
{
    struct text name = { 0 };
    if (s->printed)
        return true;
    text_printf(&name, "%s%.*s%s%s (%.80s:%d)", open, (int)min_i64(60, (int64_t)length), text,
                length > 60 ? "..." : "", close, s->file->before ? s->file->path : s->file->name, s->line);
    return shell_take(s, &name, &s->printed);
}

/* ${...}: p stands behind the brace. */
static bool braces(struct shell *s, struct fields *f, bool quoted)
{
    const char *stop = shell_closed(s->p, s->end, '{', '}'), *value;
    if (!stop)
        return shell_fail(s, "${ that ends nowhere");
    const char *last = stop - 1;
    bool counts = *s->p == '#' && last - s->p > 1;
    const char *name = s->p + counts, *q = name;
    while (q < last && (isalnum((unsigned char)*q) || *q == '_'))
        q++;
    struct braces b = { .name = name, .behind = q, .last = last };
    struct shell_variable place;
    const struct shell_variable *variable;
    if (!value_of(s, name, (size_t)(q - name), &place, &variable))
        return false;
    s->p = stop;
    if (last - name == 1 && strchr("@*#?", *name))
        return special(s, f, counts ? '#' : *name, quoted);
    bool all = last - q >= 3 && q[0] == '[' && (q[1] == '@' || q[1] == '*') && q[2] == ']';
    if (counts)
        return add_count(s, f, variable, all, quoted);
    b.unknown = !variable || variable->unknown;
    if (all) {
        s->unknown = b.unknown || (variable && variable->apart);
        s->printed = variable && variable->apart ? variable->apart : s->printed;
        return add_list(s, f, variable && variable->apart ? NULL : variable, q[1], quoted);
    }
    const char *behind = q < last && *q == '[' ? shell_closed(q + 1, last, '[', ']') : NULL;
    b.set = variable && variable->count > 0 ? variable->values[0] : NULL;
    b.unknown = first_is_apart(s, behind ? NULL : variable) || b.unknown;
    if (last - name > 1 && *name == '!') { /* keys, whose order is bash's, or what a variable's value names */
        s->unknown = true;
        f->begun = f->begun || quoted;
        return name_printed(s, "${", name, (size_t)(last - name), "}");
    }
    if (behind && !shell_element(s, name, (size_t)(q - name), q + 1, (size_t)(behind - 1 - (q + 1)), &variable, &b.set,
                                 &b.unknown))
        return false;
    b.op = behind ? behind : q;
    return operate(s, &b, &value) && add_value(s, f, value ? value : "", quoted);
}

bool shell_arithmetic(struct shell *s, int64_t *value, bool *whole)
{
    const char *stop = shell_closed(s->p + 1, s->end, '(', ')'), *inside, *text;
    struct text named = { 0 };
    if (!stop)
        return shell_fail(s, "(( that ends nowhere");
    /* names may stand there without their sign */
    bool steps = false;
    for (const char *q = s->p + 2; q < stop - 2; q++) {
        const char *brace = q[0] != '$'   ? NULL
                            : q[1] == '{' ? shell_closed(q + 2, stop - 2, '{', '}')
                            : q[1] == '(' ? shell_closed(q + 2, stop - 2, '(', ')')
                                          : NULL;
        if (brace) {
            text_add_bytes(&named, q, (size_t)(brace - q));
            q = brace - 1;
            continue;
        }
        bool begins = isalpha((unsigned char)*q) || *q == '_';
        bool bare = begins && q[-1] != '$' && !isalnum((unsigned char)q[-1]) && q[-1] != '_';
        text_printf(&named, "%s%c", bare ? "$" : "", *q);
        steps = steps || (bare && q - s->p > 3 && strchr("+-", q[-1]) && q[-2] == q[-1]); /* ++NAME assigns */
    }
    bool within = s->sum;
    s->sum = true;
    bool good = shell_take(s, &named, &text) && inner_value(s, text, strlen(text), &inside);
    s->sum = within;
    if (!good)
        return false;
    *whole = shell_sum(value, inside) && !steps;
    s->p = stop;
    return true;
}

/* What a command says that counts the devices of a node. */
static bool add_devices(struct shell *s, struct fields *f, bool quoted)
{
    char number[24];
    s->unknown = false;
    snprintf(number, sizeof number, "%lld", (long long)s->place.node_devices);
    return add_value(s, f, number, quoted);
}

/* What a command prints is unknown, but for places, since scripts run where they lie, and for what plain files have. */
static bool add_printed(struct shell *s, struct fields *f, const char *command, size_t length, bool quoted)
{
    const char *path;
    if (!shell_printed_path(s, command, length, &path))
        return false;
    s->from = SHELL_FROM_LAUNCH;
    if (!path && (s->from = SHELL_FROM_EITHER, !shell_printed_text(s, command, length, &path)))
        return false;
    s->unknown = !path;
    if (!path && !name_printed(s, "$(", command, length, ")"))
        return false;
    return !path || add_value(s, f, path, quoted);
}

/* $...: p stands at the sign. What other commands would print is empty. */
static bool dollar(struct shell *s, struct fields *f, bool quoted)
{
    size_t left = (size_t)(s->end - s->p);
    if (left >= 3 && s->p[1] == '(' && s->p[2] == '(') {
        int64_t value;
        bool whole;
        char number[32];
        s->p++;
        if (!shell_arithmetic(s, &value, &whole))
            return false;
        s->unknown = s->unknown || !whole;
        f->begun = f->begun || quoted;
        if (s->unknown)
            return true;
        snprintf(number, sizeof number, "%lld", (long long)value);
        return add_value(s, f, number, quoted);
    }
    if (left >= 2 && s->p[1] == '(') {
        const char *command = s->p + 2, *stop = shell_closed(command, s->end, '(', ')');
        if (!stop)
            return shell_fail(s, "$( that ends nowhere");
        s->p = stop;
        f->begun = f->begun || quoted;
        if (s->place.node_devices > 0 && shell_counts_devices(command, (size_t)(stop - command)))
            return add_devices(s, f, quoted);
        return add_printed(s, f, command, (size_t)(stop - 1 - command), quoted);
    }
    if (left >= 2 && s->p[1] == '{') {
        s->p += 2;
        return braces(s, f, quoted);
    }
    const char *q = s->p + 1;
    bool digit = q < s->end && isdigit((unsigned char)*q); /* $10 is ${1}0 */
    for (q += digit; !digit && q < s->end && (isalnum((unsigned char)*q) || *q == '_');)
        q++;
    if (q == s->p + 1) {
        if (q < s->end && strchr("@*#?!$-", *q)) {
            s->p += 2;
            return special(s, f, *q, quoted);
        }
        text_add(&f->text, "$");
        f->begun = true;
        s->p = q;
        return true;
    }
    struct shell_variable place;
    const struct shell_variable *variable;
    if (!value_of(s, s->p + 1, (size_t)(q - s->p - 1), &place, &variable))
        return false;
    s->p = q;
    s->unknown = first_is_apart(s, variable) || !variable || variable->unknown;
    return add_value(s, f, variable && variable->count > 0 ? variable->values[0] : "", quoted);
}

/* $@, $* and what is made of them. */
static bool is_arguments(const char *from, const char *end)
{
    from += from + 1 < end && from[1] == '{';
    return from + 1 < end && strchr("@*", from[1]);
}

/* $@, ${NAME[@]} and the like, of which nothing may be left on purpose. */
static bool is_list(const char *from, const char *end)
{
    return is_arguments(from, end) || (end - from > 4 && end[-2] == ']' && strchr("@*", end[-3]));
}

/* Whether more of the word follows. */
static bool goes_on(const struct shell *s)
{
    const char *p = s->p;
    while (p < s->end && *p == '"')
        p++;
    return p < s->end && !strchr(" \t\r\n;&|()<>\\", *p);
}

/* The line that the name of what is missing ends in, "... (FILE:LINE)"; 0: nothing is missing. */
static int line_of(const char *missing)
{
    const char *colon = missing ? strrchr(missing, ':') : NULL;
    return colon ? (int)strtol(colon + 1, NULL, 10) : 0;
}

/* $... or `...`: a value that is nothing is 0 in a sum, and has a mark behind an option that has no other. */
static bool substitute(struct shell *s, struct fields *f, bool quoted)
{
    const char *from = s->p, *quote = memchr(from + 1, '`', (size_t)(s->end - from - 1));
    size_t length = f->text.length;
    int count = f->words->count;
    bool before = s->unknown;
    enum shell_from begins = s->from;
    const char *printed = s->printed;
    s->unknown = *from == '`';
    s->printed = NULL;
    if (s->unknown) {
        s->p = quote ? quote + 1 : s->end;
        bool counts = s->place.node_devices > 0 && shell_counts_devices(from, (size_t)(s->p - from));
        if (counts ? !add_devices(s, f, quoted)
                   : quote && !add_printed(s, f, from + 1, (size_t)(quote - from - 1), quoted))
            return false;
    } else if (!dollar(s, f, quoted))
        return false;
    bool nothing = f->text.length == length && f->words->count == count, list = is_list(from, s->p);
    const char *last = count > 0 ? f->words->words[count - 1] : "", *hides = nothing ? NULL : s->printed;
    if (nothing && !list && s->sum) {
        text_add(&f->text, "0");
        f->begun = true;
    } else if (nothing && !list && (s->unknown || !goes_on(s)) &&
               (length > 0 ? shell_awaits_value(f->text.data, length, false)
                           : shell_awaits_value(last, strlen(last), true))) {
        shell_mark(&f->text, from, (size_t)(s->p - from), !s->unknown, s->argument, line_of(s->printed));
        f->begun = true;
    } else if (nothing && s->unknown && !is_arguments(from, s->p) &&
               (shell_awaits_name(f->text.data, length) ||
                (!goes_on(s) && (length == 0 || strchr(" \t\n", f->text.data[length - 1]))))) {
        /* it is all of a word, not a part of a path, or an option's name */
        s->dropped = s->dropped ? s->dropped : shell_copy(s, from, (size_t)min_i64(s->p - from, 60));
        hides = s->printed;
        if (!s->dropped)
            return false;
    }
    if (hides && !f->words->hidden)
        f->words->hidden = hides;
    s->printed = printed ? printed : s->printed;
    s->unknown = before || (s->unknown && nothing);
    s->from = length > 0 || nothing ? begins : s->from; /* a path is what its beginning makes it */
    return true;
}

static bool double_quotes(struct shell *s, struct fields *f)
{
    const char *inside = s->p + 1;
    int line = s->line, words = f->words->count;
    size_t length = f->text.length;
    bool begun = f->begun;
    f->begun = true;
    for (s->p++; s->p < s->end && *s->p != '"';) {
        if (*s->p == '\\' && s->p + 1 < s->end) {
            if (s->p[1] == '\n')
                s->line++;
            else if (strchr("\"\\$`", s->p[1]))
                text_add_bytes(&f->text, s->p + 1, 1);
            else
                text_add_bytes(&f->text, s->p, 2);
            s->p += 2;
        } else if (*s->p == '$' || *s->p == '`') {
            if (!substitute(s, f, true))
                return false;
        } else {
            s->line += *s->p == '\n';
            text_add_bytes(&f->text, s->p++, 1);
        }
    }
    if (s->p >= s->end) {
        s->line = line;
        return shell_fail(s, "a quote \" that ends nowhere");
    }
    bool list = (s->p - inside > 6 && memcmp(inside, "${", 2) == 0 && memcmp(s->p - 4, "[@]}", 4) == 0) ||
                (s->p - inside == 2 && memcmp(inside, "$@", 2) == 0) ||
                (s->p - inside >= 4 && memcmp(inside, "${@", 3) == 0 && s->p[-1] == '}');
    if (list && f->words->count == words && f->text.length == length)
        f->begun = begun; /* an array without elements is no word */
    s->p++;
    return true;
}

bool shell_expand_text(struct shell *s, const char *text, size_t length, const char **out, const char **hidden)
{
    struct shell_words words = { 0 };
    struct fields f = { .words = &words, .whole = true };
    struct shell inner = *s;
    bool ok = true;
    if (inner.depth++ >= SHELL_DEPTH)
        return shell_fail(s, "more than %d expansions inside each other", SHELL_DEPTH);
    inner.end = text + length;
    for (inner.p = text; ok && inner.p < inner.end;) {
        bool escapes = *inner.p == '\\' && inner.p + 1 < inner.end;
        if (escapes && strchr("\\$`\n", inner.p[1])) {
            text_add_bytes(&f.text, inner.p + 1, inner.p[1] != '\n');
            inner.p += 2;
        } else if (*inner.p == '$' || *inner.p == '`') {
            ok = substitute(&inner, &f, true);
        } else {
            text_add_bytes(&f.text, inner.p++, 1);
        }
    }
    s->grown = inner.grown;
    *hidden = words.hidden;
    ok = ok && shell_take(s, &f.text, out);
    text_free(&f.text);
    return ok;
}

static bool part(struct shell *s, struct fields *f)
{
    if (*s->p == '\'') {
        const char *stop = memchr(s->p + 1, '\'', (size_t)(s->end - s->p - 1));
        if (!stop)
            return shell_fail(s, "a quote ' that ends nowhere");
        text_add_bytes(&f->text, s->p + 1, (size_t)(stop - s->p - 1));
        for (const char *q = s->p; q < stop; q++)
            s->line += *q == '\n';
        f->begun = true;
        s->p = stop + 1;
        return true;
    }
    if (*s->p == '"')
        return double_quotes(s, f);
    if (*s->p == '$' || *s->p == '`')
        return substitute(s, f, false);
    if (*s->p == '\\' && s->p + 1 < s->end)
        s->p++;
    text_add_bytes(&f->text, s->p++, 1);
    f->begun = true;
    return true;
}

bool shell_word(struct shell *s, struct shell_words *words, bool whole)
{
    struct fields f = { .words = words, .whole = whole, .begun = whole };
    bool ok = true;
    s->unknown = false;
    s->printed = NULL;
    s->from = s->spelled;
    s->argument = 0;
    while (ok && s->p < s->end && !strchr(" \t\r\n;&|()<>", *s->p) && !shell_continues(s))
        ok = part(s, &f);
    ok = ok && end_field(s, &f);
    text_free(&f.text); /* of what is no word, or none any more */
    return ok;
}
