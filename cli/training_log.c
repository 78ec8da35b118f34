#include "cli/training_log.h"
#include "cli/progress_bar.h"
#include "base/num.h"
#include "base/text.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const training_log_names[TRAINING_LOG_COUNT + 1] = { "Megatron-LM", "torchtitan", "DeepSpeed",
                                                                 "transformers' Trainer", NULL };

/* What is told on a line, and how: a number behind these words, with what stands behind it. */
enum told {
    TOLD_STEP_MS,
    TOLD_SAMPLES,
    TOLD_TOKENS,
    TOLD_BATCH,
    TOLD_DEVICES,
    TOLD_PEAK,
    TOLD_RUN_S,      /* all of the run */
    TOLD_STEPS_PER_S /* in the mean of all of the run */
};
static const struct phrase {
    enum training_log_kind kind;
    enum told told;
    const char *words, *unit;
    double scale;
} phrases[] = {
    { TRAINING_LOG_MEGATRON, TOLD_STEP_MS, "elapsed time per iteration (ms): ", "", 1 },
    { TRAINING_LOG_MEGATRON, TOLD_BATCH, "global batch size: ", "", 1 },
    { TRAINING_LOG_MEGATRON, TOLD_DEVICES, "using world size: ", "", 1 },
    { TRAINING_LOG_MEGATRON, TOLD_PEAK, "| max allocated: ", "", 1 << 20 },       /* what it calls MB is 2^20 bytes */
    { TRAINING_LOG_MEGATRON, TOLD_PEAK, ": at most ", " GiB reserved", 1 << 30 }, /* launches' own train.py */
    { TRAINING_LOG_TORCHTITAN, TOLD_TOKENS, "tps: ", "", 1 },
    { TRAINING_LOG_TORCHTITAN, TOLD_PEAK, "memory: ", "GiB", 1 << 30 },
    { TRAINING_LOG_DEEPSPEED, TOLD_SAMPLES, "CurrSamplesPerSec=", "", 1 },
    { TRAINING_LOG_DEEPSPEED, TOLD_PEAK, "MaxMemAllocated=", "GB", 1 << 30 }, /* 2^30, too */
    { TRAINING_LOG_TRANSFORMERS, TOLD_BATCH, "(w. parallel, distributed & accumulation) = ", "", 1 },
    { TRAINING_LOG_TRANSFORMERS, TOLD_RUN_S, "'train_runtime': ", "", 1 }, /* a dictionary, or JSON in a file */
    { TRAINING_LOG_TRANSFORMERS, TOLD_RUN_S, "\"train_runtime\": ", "", 1 },
    { TRAINING_LOG_TRANSFORMERS, TOLD_STEPS_PER_S, "'train_steps_per_second': ", "", 1 },
    { TRAINING_LOG_TRANSFORMERS, TOLD_STEPS_PER_S, "\"train_steps_per_second\": ", "", 1 },
};
/* Lines that have none of these say nothing, whatever else they have: "memory: " alone is anybody's. */
enum { MARKS = 4 };
static const char *const marks[TRAINING_LOG_COUNT][MARKS] = {
    [TRAINING_LOG_MEGATRON] = { "elapsed time per iteration (ms): ", "| max allocated: ", " GiB reserved",
                                "using world size: " },
    [TRAINING_LOG_TORCHTITAN] = { "tps: " },
    [TRAINING_LOG_DEEPSPEED] = { "CurrSamplesPerSec=" },
    [TRAINING_LOG_TRANSFORMERS] = { "train_runtime", "train_steps_per_second", "Total train batch size" },
};

static bool is_marked(enum training_log_kind kind, const char *line)
{
    bool marked = false;
    for (int i = 0; i < MARKS && marks[kind][i]; i++)
        marked = marked || strstr(line, marks[kind][i]);
    return marked;
}

/* What was told of steps: milliseconds of one, tokens or samples a second. */
struct rates {
    double *value; /* (count) */
    int count, capacity;
    int line;        /* of the log, of the first of them */
    bool begins_run; /* the first of them is of the run's first step alone */
};
/* What stands before the number of the step that a line is of. */
static const char *const step_words[TRAINING_LOG_COUNT] = { [TRAINING_LOG_MEGATRON] = "iteration ",
                                                            [TRAINING_LOG_TORCHTITAN] = "step: ",
                                                            [TRAINING_LOG_DEEPSPEED] = "global_step=" };
struct reading {
    struct arena arena;
    const char *name;
    int64_t batch, devices, peak_bytes;
    double run_s, steps_per_s; /* as the end of a run tells them; 0: not told */
    struct rates rates[TRAINING_LOG_COUNT];
    struct progress_bars bars;
};

/* The line without colours, which are ESC [ ... m; and without what is no text. */
static char *plain(struct arena *arena, const char *line, size_t length)
{
    char *copy = arena_strndup(arena, line, length), *to = copy;
    for (const char *p = copy; p && *p; p++)
        if (*p == '\033') {
            p += strcspn(p, "m");
            if (!*p)
                break;
        } else {
            *to++ = *p;
        }
    if (copy)
        *to = 0;
    return copy;
}

/* A number in which commas part thousands, up to what follows; *end: behind it. */
static bool read_grouped(const char *text, double *out, const char **end)
{
    char digits[64];
    size_t count = 0, read = strspn(text, " ");
    for (; text[read] && strchr("0123456789.,eE+-", text[read]) && count < sizeof digits; read++) {
        bool parts = text[read] == ',' && text[read + 1] >= '0' && text[read + 1] <= '9';
        if (!parts)
            digits[count++] = text[read];
    }
    while (count > 0 && strchr(",.", digits[count - 1])) /* ends a sentence */
        count--;
    *end = text + read;
    return count > 0 && text_read_double(digits, count, out) && *out >= 1e-9 && *out <= 1e15;
}

static bool is_of_first_step(enum training_log_kind kind, const char *line)
{
    const char *at = step_words[kind] ? strstr(line, step_words[kind]) : NULL;
    return at && strtol(at + strlen(step_words[kind]), NULL, 10) == 1;
}

static bool take(struct reading *r, const struct phrase *phrase, double value, const char *line, int number,
                 struct error *err)
{
    struct rates *rates = &r->rates[phrase->kind];
    value *= phrase->scale;
    switch (phrase->told) {
    case TOLD_PEAK:
        value = fmin(value, 0x1p62);
        r->peak_bytes = max_i64(r->peak_bytes, (int64_t)value);
        return true;
    case TOLD_BATCH:
        r->batch = value < 1e9 ? (int64_t)value : 0;
        return true;
    case TOLD_DEVICES:
        r->devices = value < 1e9 ? (int64_t)value : 0;
        return true;
    case TOLD_RUN_S:
        r->run_s = value;
        return true;
    case TOLD_STEPS_PER_S:
        r->steps_per_s = value;
        return true;
    case TOLD_STEP_MS:
    case TOLD_TOKENS:
    case TOLD_SAMPLES:
        break;
    }
    double *more = arena_more(&r->arena, rates->value, rates->count, &rates->capacity, sizeof *more);
    if (!more)
        return fail_memory(err);
    rates->value = more;
    if (rates->count == 0) {
        rates->line = number;
        rates->begins_run = is_of_first_step(phrase->kind, line);
    }
    rates->value[rates->count++] = value;
    return true;
}

/* Whether so little was rounded to nothing. */
static bool is_zero(const char *number)
{
    size_t length = strspn(number, "0.");
    return length > 0 && !isdigit((unsigned char)number[length]);
}

static bool read_line(struct reading *r, const char *line, int number, struct error *err)
{
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
        const struct phrase *phrase = &phrases[i];
        const char *at = strstr(line, phrase->words), *end;
        double value;
        if (!at || !is_marked(phrase->kind, line))
            continue;
        at += strlen(phrase->words);
        at += phrase->kind == TRAINING_LOG_TRANSFORMERS && (*at == '\'' || *at == '"'); /* as newer releases print */
        if (strncmp(at, "0.00 GiB reserved", 17) == 0 ||                                /* on processors */
            (phrase->told == TOLD_STEPS_PER_S && is_zero(at)))
            continue;
        if (!read_grouped(at, &value, &end) || strncmp(end, phrase->unit, strlen(phrase->unit)) != 0)
            return fail(err, "%s:%d:%d: expected a positive number%s%s behind \"%s\", found '%.20s'", r->name, number,
                        (int)(at - line) + 1, *phrase->unit ? " of " : "", phrase->unit, phrase->words, at);
        if (!take(r, phrase, value, line, number, err))
            return false;
    }
    return progress_bars_read(&r->bars, &r->arena, line) || fail_memory(err);
}

/* The first step compiles, allocates and fills caches: it has no say where there are others. */
static double settled(struct rates *rates)
{
    int skipped = rates->count > 2 || (rates->count == 2 && rates->begins_run);
    return median_of(rates->value + skipped, rates->count - skipped);
}

/* A Trainer's step is what its bar tells between counts; where that stands too seldom, the mean of all of the run. */
static bool tell_trainer(struct training_log *log, struct reading *r, struct error *err)
{
    struct progress_pace pace;
    if (!progress_bars_pace(&pace, &r->bars, &r->arena))
        return fail_memory(err);
    log->step_count = pace.steps;
    log->step_s = pace.step_s;
    log->how = pace.windows > 1 ? " by its progress bar, the first left out" : " by its progress bar";
    if (pace.windows > 0)
        return true;
    log->how = " in the mean of all of the run, with its first step, evaluations and checkpoints";
    if (r->run_s > 0 && r->steps_per_s > 0 && pace.steps == 0)
        log->step_count = max_int(1, (int)fmin(1e9, round(r->run_s * r->steps_per_s)));
    if (r->run_s > 0 && pace.steps > 0)
        log->step_s = r->run_s / pace.steps;
    else if (r->steps_per_s > 0)
        log->step_s = 1 / r->steps_per_s;
    log->step_count = max_int(1, log->step_count);
    return true;
}

static bool tell(struct training_log *out, struct reading *r, int lines, struct error *err)
{
    struct training_log log = { .batch = r->batch, .devices = r->devices, .peak_bytes = r->peak_bytes, .how = "" };
    int kind = 0;
    while (kind < TRAINING_LOG_COUNT && r->rates[kind].count == 0)
        kind++;
    if (kind == TRAINING_LOG_COUNT && !tell_trainer(&log, r, err))
        return false;
    if (kind == TRAINING_LOG_COUNT && !(log.step_s > 0))
        return fail(err,
                    "%s: expected steps as Megatron-LM (\"elapsed time per iteration (ms): N\"), torchtitan (\"tps: "
                    "N\"), DeepSpeed (\"CurrSamplesPerSec=N\") or transformers' Trainer (its progress bar, or "
                    "\"'train_steps_per_second': N\") print them, found none in %d lines",
                    r->name, lines);
    if (kind == TRAINING_LOG_COUNT) {
        log.kind = TRAINING_LOG_TRANSFORMERS;
        *out = log;
        return true;
    }
    if (r->rates[kind].count == 1 && r->rates[kind].begins_run)
        return fail(err,
                    "%s:%d: expected steps behind the first, which compiles, allocates and fills caches, found step 1 "
                    "alone in %d lines: give the log of a run of 20 steps or more",
                    r->name, r->rates[kind].line, lines);
    double median = settled(&r->rates[kind]);
    log.kind = (enum training_log_kind)kind;
    log.step_count = r->rates[kind].count;
    log.step_s = kind == TRAINING_LOG_MEGATRON ? median / 1e3 : 0;
    log.tokens_per_s = kind == TRAINING_LOG_TORCHTITAN ? median : 0;
    log.samples_per_s = kind == TRAINING_LOG_DEEPSPEED ? median : 0;
    *out = log;
    return true;
}

bool training_log_read(struct training_log *out, const char *name, const char *text, size_t length, struct error *err)
{
    struct reading r = { .name = name };
    bool good = true;
    int number = 0;
    for (const char *at = text, *end = text + length; good && at < end;) {
        size_t line_length = 0; /* a progress bar returns to the beginning of its line */
        while (line_length < (size_t)(end - at) && at[line_length] != '\n' && at[line_length] != '\r')
            line_length++;
        struct arena room = { 0 };
        const char *line = plain(&room, at, line_length);
        number += at == text || at[-1] == '\n';
        good = line ? read_line(&r, line, number, err) : fail_memory(err);
        arena_free(&room);
        at += line_length + 1;
    }
    good = good && tell(out, &r, number, err);
    arena_free(&r.arena);
    return good;
}

double training_log_step_s(const struct training_log *log, int64_t batch, int64_t sequence, int devices)
{
    if (log->tokens_per_s > 0)
        return (double)batch * (double)sequence / log->tokens_per_s / devices;
    return log->samples_per_s > 0 ? (double)batch / log->samples_per_s : log->step_s;
}
