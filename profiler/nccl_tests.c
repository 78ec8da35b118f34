#include "profiler/nccl_tests.h"
#include "base/json.h"
#include "base/num.h"
#include "host/words.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what both forms say ---- */

struct nccl_reading {
    const char *name;
    struct nccl_tests *out;
    uint64_t host[NCCL_RANKS]; /* (ranks) hash of each one's host */
    int root;
    bool reduces;          /* the last row has an operation */
    double algorithm, bus; /* bandwidths of the last row */
};

static bool add_rank(struct nccl_reading *reading, const char *host, struct error *err)
{
    struct nccl_tests *out = reading->out;
    if (out->ranks == NCCL_RANKS)
        return fail(err, "%s: expected at most %d ranks, found more", reading->name, (int)NCCL_RANKS);
    reading->host[out->ranks++] = hash_string(HASH_START, host);
    return true;
}

static bool add_row(struct nccl_reading *reading, double bytes, double us, struct error *err)
{
    struct nccl_tests *out = reading->out;
    if (bytes <= 0)
        return true; /* nothing was moved */
    if (out->row_count == NCCL_ROWS)
        return fail(err, "%s: expected at most %d rows, found more", reading->name, (int)NCCL_ROWS);
    out->row[out->row_count++] = (struct nccl_row){ bytes, us * 1e3 };
    return true;
}

static int ranks_of(const struct nccl_reading *reading, uint64_t host)
{
    int count = 0;
    for (int i = 0; i < reading->out->ranks; i++)
        count += reading->host[i] == host;
    return count;
}

static bool count_hosts(struct nccl_reading *reading, struct error *err)
{
    struct nccl_tests *out = reading->out;
    if (out->ranks < 2)
        return fail(err, "%s: expected the devices of at least 2 ranks, found %d", reading->name, out->ranks);
    int each = ranks_of(reading, reading->host[0]);
    out->hosts = out->ranks / each;
    for (int i = 0; i < out->ranks; i++)
        if (ranks_of(reading, reading->host[i]) != each)
            return fail(err, "%s: expected as many ranks on every host, found %d on rank 0's and %d on rank %d's",
                        reading->name, each, ranks_of(reading, reading->host[i]), i);
    return true;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 0.02 * b;
}

static bool find_passes(struct nccl_reading *reading, struct error *err)
{
    struct nccl_tests *out = reading->out;
    if (out->row_count < 2)
        return fail(err, "%s: expected rows of at least 2 sizes, found %d", reading->name, out->row_count);
    double n = out->ranks, ratio = reading->algorithm > 0 ? reading->bus / reading->algorithm : 0;
    if (reading->root < 0 && is_near(ratio, 2 * (n - 1) / n) && reading->reduces)
        out->passes = 2;
    else if (reading->root < 0 && is_near(ratio, (n - 1) / n))
        out->passes = 1;
    return out->passes > 0 ||
           fail(err,
                "%s: expected an all_reduce, all_gather, reduce_scatter or alltoall of %d ranks, whose bus bandwidth "
                "is %.3g or %.3g of the algorithm's, found %.3g and root %d",
                reading->name, out->ranks, 2 * (n - 1) / n, (n - 1) / n, ratio, reading->root);
}

double nccl_tests_bus_bytes(const struct nccl_tests *tests, double bytes)
{
    return bytes * tests->passes * (tests->ranks - 1) / tests->ranks;
}

/* ---- text ---- */

enum nccl_column { SIZE, REDOP, ROOT, TIME, ALGBW, BUSBW, COLUMN_COUNT };
static const char *const column_names[COLUMN_COUNT] = { "size", "redop", "root", "time", "algbw", "busbw" };
enum { LINE_WORDS = 64 };
struct nccl_table {
    int at[COLUMN_COUNT]; /* index of its first column of the name */
    int width;            /* 0: no header yet */
};

/* The words behind `size`, the first of the header. */
static bool read_header(struct words *r, struct nccl_table *t)
{
    char word[WORD_BYTES] = "size";
    for (int c = 0; c < COLUMN_COUNT; c++)
        t->at[c] = -1;
    t->width = 0;
    do {
        for (int c = 0; c < COLUMN_COUNT; c++)
            if (t->at[c] < 0 && strcmp(word, column_names[c]) == 0)
                t->at[c] = t->width;
        t->width++;
    } while (words_next_word(r, word));
    for (int c = 0; c < COLUMN_COUNT; c++)
        if (t->at[c] < 0)
            return fail(r->err, "%s:%d: expected a column \"%s\" in the header, found none", r->name, r->line,
                        column_names[c]);
    return t->width <= LINE_WORDS ||
           fail(r->err, "%s:%d: expected at most %d columns, found %d", r->name, r->line, (int)LINE_WORDS, t->width);
}

/* "Rank 0 Group 0 Pid 1 on HOST device 0 [0000:17:00] NVIDIA H200", behind its first word. */
static bool read_rank(struct words *r, struct nccl_reading *reading)
{
    char word[WORD_BYTES], host[WORD_BYTES] = "";
    bool any = words_next_word(r, word), first = reading->out->ranks == 0;
    if (!any || strtol(word, NULL, 10) != reading->out->ranks)
        return fail(r->err, "%s:%d: expected rank %d, found \"%s\"", r->name, r->line, reading->out->ranks, word);
    while (any && strcmp(word, "on") != 0)
        any = words_next_word(r, word);
    if (!any || !words_next_word(r, host))
        return fail(r->err, "%s:%d: expected \"on HOST\" in the line of a rank, found none", r->name, r->line);
    while (any && !strchr(word, ']'))
        any = words_next_word(r, word);
    size_t used = 0;
    while (first && words_next_word(r, word) && used + strlen(word) + 2 < NCCL_NAME_BYTES)
        used += (size_t)snprintf(reading->out->device + used, NCCL_NAME_BYTES - used, "%s%s", used ? " " : "", word);
    return add_rank(reading, host, r->err);
}

static bool read_comment(struct words *r, struct nccl_reading *reading, struct nccl_table *t)
{
    char word[WORD_BYTES];
    if (!words_next_word(r, word))
        return true;
    if (strcmp(word, "Rank") == 0)
        return read_rank(r, reading);
    return strcmp(word, "size") != 0 || read_header(r, t);
}

static bool read_number(const struct words *r, const char *word, enum nccl_column column, double min, double *out)
{
    double value;
    if (!text_read_double(word, strlen(word), &value) || value < min || value > 1e18)
        return fail(r->err, "%s:%d: expected a number of at least %g as %s, found \"%s\"", r->name, r->line, min,
                    column_names[column], word);
    *out = value;
    return true;
}

/* first: its first word, already read. */
static bool read_row(struct words *r, const char first[WORD_BYTES], struct nccl_reading *reading,
                     const struct nccl_table *t)
{
    static const double least[COLUMN_COUNT] = { 0, 0, -1, 1e-3, 0, 0 };
    char cell[COLUMN_COUNT][WORD_BYTES] = { "" }, word[WORD_BYTES];
    double value[COLUMN_COUNT] = { 0 };
    int width = 0;
    memcpy(word, first, sizeof word);
    do {
        for (int c = 0; c < COLUMN_COUNT; c++)
            if (t->at[c] == width)
                memcpy(cell[c], word, sizeof word);
        width++;
    } while (words_next_word(r, word));
    if (width != t->width)
        return fail(r->err, "%s:%d: expected a row of %d columns as in the header, found %d", r->name, r->line,
                    t->width, width);
    for (int c = 0; c < COLUMN_COUNT; c++)
        if (c != REDOP && !read_number(r, cell[c], (enum nccl_column)c, least[c], &value[c]))
            return false;
    reading->root = (int)value[ROOT];
    reading->reduces = strcmp(cell[REDOP], "none") != 0;
    reading->algorithm = value[ALGBW], reading->bus = value[BUSBW];
    return add_row(reading, value[SIZE], value[TIME], r->err);
}

/* A line that begins with "#" is one of the tool's own; others before the header are a launcher's. */
static bool read_text(struct nccl_reading *reading, const char *text, size_t length, struct error *err)
{
    struct words r = { .name = reading->name, .at = text, .end = text + length, .line = 1, .err = err };
    struct nccl_table t = { .width = 0 };
    char word[WORD_BYTES];
    bool ok = true;
    do {
        if (!words_next_word(&r, word))
            continue;
        if (word[0] == '#' && word[1] == '\0')
            ok = read_comment(&r, reading, &t);
        else if (t.width > 0 && word[0] != '#')
            ok = read_row(&r, word, reading, &t);
    } while (ok && words_next_line(&r));
    return ok && (t.width > 0 || fail(err,
                                      "%s:%d: expected the header of nccl-tests (\"# size count type ...\") or its "
                                      "JSON, found neither",
                                      reading->name, r.line));
}

/* ---- JSON ---- */

static bool expect_array(const struct json *at, struct error *err)
{
    return json_type(at) == JSON_ARRAY ||
           json_fail(at, err, "expected an array, found %s", json_type_name(json_type(at)));
}

static bool read_devices(struct nccl_reading *reading, const struct json *devices, struct error *err)
{
    if (!expect_array(devices, err))
        return false;
    for (int i = 0; i < json_count(devices); i++) {
        const struct json *at = json_at(devices, i), *value;
        const char *host;
        int64_t rank;
        if (!json_require(at, "rank", &value, err) || !json_int(value, i, i, &rank, err) ||
            !json_require(at, "hostname", &value, err) || !json_string(value, &host, err) ||
            !add_rank(reading, host, err))
            return false;
    }
    return true;
}

static bool read_result(struct nccl_reading *reading, const struct json *at, struct error *err)
{
    const struct json *value, *half;
    double bytes, us;
    int64_t root;
    const char *operation;
    if (!json_require(at, "size", &value, err) || !json_double(value, 0, 1e18, &bytes, err) ||
        !json_require(at, "root", &value, err) || !json_int(value, -1, 1 << 20, &root, err) ||
        !json_require(at, "redop", &value, err) || !json_string(value, &operation, err) ||
        !json_require(at, "out_of_place", &half, err))
        return false;
    value = json_member(half, "cpu_time");
    if ((!value && !json_require(half, "time", &value, err)) || !json_double(value, 1e-3, 1e18, &us, err) ||
        !json_require(half, "alg_bw", &value, err) || !json_double(value, 0, 1e9, &reading->algorithm, err) ||
        !json_require(half, "bus_bw", &value, err) || !json_double(value, 0, 1e9, &reading->bus, err))
        return false;
    reading->root = (int)root;
    reading->reduces = strcmp(operation, "none") != 0;
    return add_row(reading, bytes, us, err);
}

static bool read_json(struct nccl_reading *reading, const char *text, size_t length, struct error *err)
{
    struct json_doc *doc;
    const struct json *config, *devices, *results;
    if (!json_parse(&doc, reading->name, text, length, err))
        return false;
    const struct json *root = json_root(doc);
    bool ok = json_require(root, "config", &config, err) && json_require(config, "devices", &devices, err) &&
              read_devices(reading, devices, err) && json_require(root, "results", &results, err) &&
              expect_array(results, err);
    for (int i = 0; ok && i < json_count(results); i++)
        ok = read_result(reading, json_at(results, i), err);
    json_free(doc);
    return ok;
}

bool nccl_tests_read(struct nccl_tests *out, const char *name, const char *text, size_t length, struct error *err)
{
    struct nccl_tests *made = calloc(1, sizeof *made);
    struct nccl_reading *reading = calloc(1, sizeof *reading);
    size_t start = 0;
    while (start < length && strchr(" \t\r\n", text[start]) && text[start])
        start++;
    bool ok = (made && reading) || fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    if (ok) {
        made->name = name;
        *reading = (struct nccl_reading){ .name = name, .out = made };
        ok = (start < length && text[start] == '{' ? read_json : read_text)(reading, text, length, err) &&
             count_hosts(reading, err) && find_passes(reading, err);
    }
    if (ok)
        *out = *made;
    free(reading);
    free(made);
    return ok;
}
