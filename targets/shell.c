#include "targets/shell.h"
#include "targets/shell_expand.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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
    const char *hidden = words->hidden ? words->hidden : s->outside;
    hidden = continues && last->hidden ? last->hidden : hidden;
    const char **all = shell_room(s, before + words->count, sizeof *all);
    if (!all)
        return false;
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
    *last = (struct shell_command){ .count = before + words->count, .words = all, .hidden = hidden };
    return true;
}

/* Keeps the command, and reads what it may hand to another shell. plain: the command behind what stands before it. */
static bool finish_command(struct shell *s, struct shell_words *words, struct shell_words *plain)
{
    bool evaluates = plain->count > 1 && strcmp(plain->words[0], "eval") == 0;
    if (plain->count > 0 && strcmp(plain->words[0], SHELL_BATCH) == 0) /* quoted: options of sbatch (shell.h) */
        return shell_place_line(s, plain, true) && keep_command(s, plain);
    if (evaluates)
        words = plain;
    if ((evaluates && !shell_join_evaluated(s, words)) || !keep_command(s, words))
        return false;
    for (int i = 0; i < words->count && s->depth < SHELL_DEPTH; i++) {
        const char *word = words->words[i];
        bool runs = strstr(word, " --") || strstr(word, "\n--") || (evaluates && i == 1 && shell_begins_source(word));
        if (runs && !shell_run_word(s, words, i))
            return false;
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
    struct shell_function function = {
        .name = name, .name_length = length, .line = s->line, .file = s->file, .before = *s->functions
    };
    shell_skip_blank(s, true);
    if (s->p == s->end || *s->p != '{')
        return shell_fail(s, "function %.*s: expected { and its commands", (int)length, name);
    function.body = ++s->p;
    if (!run_commands(s, false, UNTIL_BRACE))
        return false;
    if (s->p == s->end)
        return shell_fail(s, "function %.*s of line %d: expected } at its end", (int)length, name, function.line);
    function.body_length = (size_t)(s->p++ - function.body);
    struct shell_function *kept = active ? shell_room(s, 1, sizeof *kept) : NULL;
    if (kept)
        *s->functions = memcpy(kept, &function, sizeof function);
    return kept || !active;
}

/* Runs the function that the words call; *found: there is one. */
static bool call(struct shell *s, const struct shell_words *words, const struct shell_prefix *prefix, bool *found)
{
    const struct shell_function *function = words->count > 0 && !prefix->no_function ? *s->functions : NULL;
    while (function && (strlen(words->words[0]) != function->name_length ||
                        memcmp(words->words[0], function->name, function->name_length) != 0))
        function = function->before;
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
    inner.file = function->file;
    inner.arguments = &arguments;
    inner.spelled = SHELL_FROM_HERE;
    inner.outside = words->hidden ? words->hidden : s->outside;
    inner.depth++;
    inner.success = true;
    bool good = shell_grow(&inner, function->body_length + sizeof inner) && run_commands(&inner, true, UNTIL_END);
    s->grown = inner.grown;
    s->success = inner.success != prefix->inverted;
    s->folder = inner.folder;
    return good;
}

/* set -- WORD ...: arguments of the function that runs, or of the script. */
static void set_arguments(struct shell *s, const struct shell_words *words)
{
    s->arguments = s->arguments ? s->arguments : s->own_arguments;
    *s->arguments = (struct shell_words){ .count = words->count - 2, .words = words->words + 2 };
}

/* What a command says, and what a function, or a file that is taken in, does to itself: shift, return. */
static bool steer(struct shell *s, const struct shell_words *words)
{
    bool returns = (s->arguments || s->file->before) && words->count > 0 && strcmp(words->words[0], "return") == 0,
         understood = true;
    if (!returns)
        s->success = shell_succeeds(words->words, words->count, &understood);
    else if (words->count > 1)
        s->success = strcmp(words->words[1], "0") == 0;
    if (!understood && !shell_note_command(s, words, "taken as false"))
        return false;
    bool ends = words->count > 1 && strcmp(words->words[0], "exit") == 0 && strcmp(words->words[1], "0") != 0;
    bool reads = words->count > 0 && strcmp(words->words[0], "getopts") == 0;
    if ((ends || reads) && !shell_note_command(s, words,
                                               ends ? "the script ends here, and what follows is read all the same"
                                                    : "options of the script are not read so"))
        return false;
    bool sets = words->count > 1 && strcmp(words->words[0], "set") == 0 && strcmp(words->words[1], "--") == 0;
    sets = sets && (words->count > 2 || !s->unknown); /* of what is unknown nothing may be left */
    if (sets)
        set_arguments(s, words);
    if (returns) {
        s->p = s->end;
        s->returned = true;
    }
    if (sets || !s->arguments || words->count == 0)
        return true;
    if (strcmp(words->words[0], "shift") == 0) {
        long by = words->count > 1 ? strtol(words->words[1], NULL, 10) : 1;
        by = by > 0 && by <= s->arguments->count ? by : 0; /* of more than there are bash shifts none */
        s->arguments->words += by;
        s->arguments->count -= (int)by;
    }
    return true;
}

static bool begins_declaration(struct shell *s)
{
    static const char *const words[] = { "export", "declare", "local", "readonly", "typeset" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (shell_says(s, words[i])) {
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
    return length > 0 && shell_add_word(s, words, shell_copy(s, s->p - length, length));
}

/* One command up to its separator. Redirections lead nowhere. */
static bool simple_command(struct shell *s, bool active)
{
    const char *between = shell_value(s->script, "IFS");
    struct shell_words words = { 0 };
    struct shell_prefix prefix = { 0 };
    bool declares = begins_declaration(s), begun = false;
    int open = 0;
    s->documents = false;
    s->fed = s->dropped = s->input = s->feeder = s->output = NULL;
    for (;;) {
        bool test = shell_in_test(&words);
        shell_skip_blank(s, test); /* which goes on behind the line's end */
        if (s->p < s->end && *s->p != '\n' && bare_layout(s, &words))
            continue;
        bool expression = test && strcmp(words.words[words.count - 1], "=~") == 0;
        if (test && s->p < s->end && (expression || strchr("&|()<>", *s->p))) {
            if (!shell_test_sign(s, &words))
                return false;
            continue;
        }
        bool closes = s->p < s->end && *s->p == ')';
        if (s->p == s->end || *s->p == '\n' || *s->p == ';' || (closes && open == 0) || strchr("&|", *s->p))
            break;
        if (closes || *s->p == '(') {
            open += closes ? -1 : 1; /* of a sum, a condition, or <( ) */
            s->p++;
            continue;
        }
        bool taken = false;
        if (!shell_redirection(s, &taken))
            return false;
        if (!taken && (!begun || declares) && !shell_assignment(s, active, &taken))
            return false;
        if (taken)
            continue;
        const char *at = s->p;
        if (!shell_word(s, &words, test))
            return false;
        prefix = shell_prefix(&words);
        int count = words.count - prefix.count;
        if (count < 3 || (count == 3 && words.words[prefix.count + 1][0] == '-'))
            s->operand = (struct shell_operand){ at, (size_t)(s->p - at), s->unknown || open > 0, s->from };
        begun = true;
    }
    bool called = false, sourced = false;
    if (!active)
        return true;
    if ((s->output || words.count > 1) && !shell_keep_written(s, &words))
        return false;
    if (declares) {
        s->success = true;
        return true;
    }
    bool reads;
    if (!shell_reads(s, &words, between, &reads) || reads)
        return reads && steer(s, &words);
    struct shell_words plain = { .count = words.count - prefix.count,
                                 .words = words.words ? words.words + prefix.count : NULL,
                                 .hidden = words.hidden };
    return steer(s, &words) && shell_note_dropped(s, &words) && call(s, &plain, &prefix, &called) &&
           (called || (shell_change_folder(s, &plain) && shell_source(s, &plain, prefix.inverted, &sourced) &&
                       (sourced || (finish_command(s, &words, &plain) && shell_run_here(s, &words)))));
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
    if (!shell_says(s, "in"))
        return shell_fail(s, "case: expected in behind its word");
    s->p += strlen("in");
    s->depth++;
    s->success = active || s->success; /* also where no pattern fits */
    while (good && !s->returned && (shell_skip_blank(s, true), s->p < s->end) && !shell_says(s, "esac"))
        good = run_item(s, word.count > 0 ? word.words[0] : "", active, &taken);
    s->depth--;
    if (s->returned)
        return good;
    if (good && s->p == s->end)
        return shell_fail(s, "case of line %d: expected esac at its end", line);
    s->p += good ? strlen("esac") : 0;
    return good;
}

enum { MOST_BRANCHES = 64 };
/* What a compound command is closed by; of a function's or an item's commands: nothing. */
enum closer { CLOSER_NONE, CLOSER_FI, CLOSER_DONE, CLOSER_BRACE, CLOSER_PARENTHESIS };
struct branch {
    enum closer closer;
    bool outer, taken, active;  /* whether the command runs; a branch of it was taken; what stands here runs */
    bool inverted;              /* of until */
    struct shell_memory memory; /* of a subshell that runs: what it leaves as it was */
    const char *again;          /* the condition of a loop over arguments, such as while [ $# -gt 0 ]; NULL: none */
    int line, left;             /* its line; how often it may still run */
};
struct branches {
    struct branch of[MOST_BRANCHES];
    int depth;
};

/* The closer of the compound command that begins here, and how long its first word is. */
static enum closer opens(const struct shell *s, int *length)
{
    static const struct {
        const char *word;
        enum closer closer;
    } words[] = { { "if", CLOSER_FI },
                  { "for", CLOSER_DONE },
                  { "select", CLOSER_DONE },
                  { "while", CLOSER_DONE },
                  { "until", CLOSER_DONE } };
    *length = 1;
    if (*s->p == '{')
        return CLOSER_BRACE;
    if (*s->p == '(' && (s->end - s->p < 2 || s->p[1] != '('))
        return CLOSER_PARENTHESIS;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (shell_says(s, words[i].word)) {
            *length = (int)strlen(words[i].word);
            return words[i].closer;
        }
    return CLOSER_NONE;
}

/* Likewise where one ends. */
static enum closer closes(const struct shell *s, int *length)
{
    *length = shell_says(s, "done") ? 4 : shell_says(s, "fi") ? 2 : 1;
    return *s->p == '}'            ? CLOSER_BRACE
           : *s->p == ')'          ? CLOSER_PARENTHESIS
           : shell_says(s, "fi")   ? CLOSER_FI
           : shell_says(s, "done") ? CLOSER_DONE
                                   : CLOSER_NONE;
}

/* Handles a word of control at the beginning of a command, which runs or is skipped; *found: it was one. *ran: whether
 * the command that ends here did. A loop that counts arguments runs as long as its condition holds, others once. */
static bool control(struct shell *s, struct branches *branches, bool runs, bool *found, bool *ran)
{
    struct branch *top = &branches->of[branches->depth];
    int length;
    enum closer closer;
    *found = true;
    *ran = runs;
    if ((closer = opens(s, &length)) != CLOSER_NONE) {
        if (branches->depth + 1 >= MOST_BRANCHES)
            return shell_fail(s, "more than %d conditions inside each other", MOST_BRANCHES - 1);
        bool list = shell_says(s, "for") || shell_says(s, "select"); /* of words, behind which there is no condition */
        top = &branches->of[++branches->depth];
        *top = (struct branch){ .closer = closer, .outer = runs, .active = runs, .inverted = shell_says(s, "until") };
        if (runs && closer == CLOSER_PARENTHESIS && !shell_remember(s, &top->memory))
            return false;
        s->p += length;
        if (runs && closer == CLOSER_DONE && !list && shell_counts_arguments(s)) {
            top->again = s->p;
            top->line = s->line;
            top->left = s->arguments->count;
        }
        bool never = false;
        if (list && !shell_loop(s, runs, &never))
            return false;
        top->active = runs && !never;
        s->success = s->success || (list && runs);
    } else if ((closer = closes(s, &length)) != CLOSER_NONE) {
        s->p += length;
        if (closer != top->closer)
            return true;
        *ran = top->outer;
        if (top->again && top->active && top->left-- > 0 && !s->returned) {
            s->p = top->again;
            s->line = top->line;
            return true;
        }
        if (top->outer && (closer == CLOSER_FI || closer == CLOSER_DONE) && !top->taken)
            s->success = true;
        shell_recall(s, &top->memory);
        branches->depth--;
    } else if (shell_says(s, "then") || shell_says(s, "do")) {
        bool holds = s->success != top->inverted;
        s->p += shell_says(s, "do") ? 2 : 4;
        top->taken = top->taken || (top->active && holds);
        top->active = top->active && holds;
    } else if (shell_says(s, "elif") || shell_says(s, "else")) {
        top->active = top->outer && !top->taken;
        top->taken = top->taken || shell_says(s, "else");
        s->p += 4;
    } else if (shell_says(s, "case")) {
        return choose(s, runs);
    } else {
        *found = false;
    }
    return true;
}

static bool batch_line(struct shell *s)
{
    static const char mark[] = SHELL_BATCH;
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
    return shell_place_line(s, &words, false) && keep_command(s, &words);
}

/* Passes what separates commands up to where the item ends; true: it is there. */
static bool at_item_end(struct shell *s)
{
    for (;; s->p++) {
        shell_skip_blank(s, true);
        if (shell_says(s, "esac") || (s->end - s->p >= 2 && s->p[0] == ';' && (s->p[1] == ';' || s->p[1] == '&')))
            return true;
        if (s->p == s->end || *s->p != ';')
            return false;
    }
}

/* A list of && and || runs from left to right: what another && or || skips says nothing. */
static bool run_commands(struct shell *s, bool active, enum until until)
{
    struct branches branches = { .of[0].active = active };
    int open = 0;
    bool skipped = false, ran = true;
    while (s->p < s->end) {
        if (until == UNTIL_ITEM && at_item_end(s))
            return true;
        shell_skip_separators(s);
        if (s->p == s->end)
            break;
        bool runs = branches.of[branches.depth].active && !skipped, found;
        s->runs = runs;
        const char *name;
        if (*s->p == '#') {
            if (runs && !s->file->before && !batch_line(s))
                return false;
            shell_skip_line(s);
            continue;
        }
        if (*s->p == '&' || *s->p == '|') {
            bool twice = s->p + 1 < s->end && s->p[1] == *s->p;
            skipped = twice ? (*s->p == '&') != s->success : *s->p == '|' && !ran; /* a pipe runs whole or not */
            s->p += twice ? 2 : 1;
            continue;
        }
        open += (*s->p == '{') - (*s->p == '}');
        if (until == UNTIL_BRACE && open < 0)
            return true;
        if (!control(s, &branches, runs, &found, &ran))
            return false;
        skipped = skipped && !found;
        if (found)
            continue;
        if (!shell_arithmetic_command(s, runs, &found))
            return false;
        if (found) {
            ran = runs;
            skipped = false;
            continue;
        }
        size_t length = function_at(s, &name);
        if (length > 0) {
            if (!define(s, name, length, runs))
                return false;
            continue;
        }
        if (!simple_command(s, runs))
            return false;
        skipped = false;
    }
    return true;
}

/* The lines of here documents lie behind the line that announces them. */
bool shell_run(struct shell *s, const char *text, size_t length)
{
    s->p = text;
    s->end = text + length;
    s->here = NULL;
    return run_commands(s, true, UNTIL_END);
}

bool shell_read(struct shell_script *out, struct arena *arena, const char *name, const char *text, size_t length,
                const struct shell_place *place, const struct launch_beside *beside, struct error *err)
{
    *out = (struct shell_script){ 0 };
    if (memchr(text, 0, length))
        return fail(err, "%s: expected text, found a byte of zero", name);
    const struct shell_function *functions = NULL;
    struct shell_words own = { 0 }, written = { 0 };
    struct text path = { 0 };
    struct shell_file *file = arena_alloc(arena, 1, sizeof *file);
    struct shell shell = {
        .script = out, .functions = &functions, .own_arguments = &own, .arena = arena, .beside = beside, .file = file
    };
    shell.err = err;
    shell.written = &written;
    shell.line = 1;
    shell.success = true;
    shell.start = shell.folder = ".";
    shell.place = place ? *place : (struct shell_place){ 0 };
    const char *slash = strrchr(name, '/');
    text_printf(&path, "./%s", slash ? slash + 1 : name);
    if (file)
        *file = (struct shell_file){ .name = name };
    if (!shell_take(&shell, &path, &shell.launch) || !file)
        return fail_memory(err);
    file->path = shell.launch;
    return shell_place_begin(&shell) && shell_run(&shell, text, length);
}
