#include "host/crc32c.h"
#include "base/num.h"
#include "executor/checkpoint/parts.h"
#include "executor/kernels/bf16.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const quantity_names[QUANTITY_COUNT + 1] = { "weight", "moment1", "moment2", NULL };

struct place checkpoint_place(const struct rank *rank, int buffer)
{
    struct place place = { .block = buffer_block(rank->program, &rank->program->buffers[buffer], rank->local_rank) };
    rank_flat_range(rank, buffer, &place.first, &place.count);
    return place;
}

bool checkpoint_is_half(const struct rank *rank, int buffer)
{
    return rank->program->plan->dtype == DTYPE_BF16 && rank->program->buffers[buffer].kind == BUFFER_WEIGHT;
}

/* kernel_adamw: first moments, then second; behind them, where steps compute in 16 bits, the weights. */
real *checkpoint_data(const struct rank *rank, int buffer, enum quantity quantity)
{
    real *data = (real *)(void *)rank_data(rank, buffer);
    int64_t first, count, part = quantity == QUANTITY_MOMENT2 ? 1 : quantity == QUANTITY_WEIGHT ? 2 : 0;
    if (rank->program->buffers[buffer].kind == BUFFER_WEIGHT)
        return data;
    rank_flat_range(rank, buffer, &first, &count);
    return data + part * count;
}

void checkpoint_round(const struct rank *rank, int buffer, const real *from, int64_t step)
{
    const struct weight *weight = &rank->program->graph->weights[rank->program->buffers[buffer].id];
    const struct place place = checkpoint_place(rank, buffer);
    const uint64_t key = kernel_rounding_key(rank->options->seed, weight, step);
    uint16_t *to = (uint16_t *)(void *)rank_data(rank, buffer);
    int64_t row;
    for (int64_t i = 0; i < place.count; i++)
        to[i] = bf16_by_chance(from[i], key, kernel_global_element(weight, &place.block, place.first + i, &row));
}

void checkpoint_widen(const void *from, int64_t count, real *to)
{
    const uint16_t *half = from;
    for (int64_t i = 0; i < count; i++)
        to[i] = real_of_bf16(half[i]);
}

void checkpoint_quantities(const struct rank *rank, int buffer, enum quantity *first, enum quantity *end)
{
    const struct buffer *b = &rank->program->buffers[buffer];
    bool state = b->kind == BUFFER_STATE, half = rank->program->plan->dtype == DTYPE_BF16;
    *first = state && !half ? QUANTITY_MOMENT1 : QUANTITY_WEIGHT;
    *end = state ? QUANTITY_COUNT : QUANTITY_MOMENT1;
    if (!state && half && !rank->program->graph->weights[b->id].frozen)
        *end = *first;
}

static void print_list(struct text *out, const char *word, const int64_t *list, int count)
{
    text_printf(out, "%s ", word);
    for (int i = 0; i < count; i++)
        text_printf(out, "%s%" PRId64, i > 0 ? "," : "", list[i]);
    text_add(out, " ");
}

#define SUM_FORMAT "%08" PRIx32
enum { SUM_DIGITS = 8 };

void place_print(struct text *out, const struct place *place, const void *data, size_t bytes)
{
    print_list(out, "low", place->block.low, place->block.dim_count);
    print_list(out, "count", place->block.count, place->block.dim_count);
    text_printf(out, "first %" PRId64 " elements %" PRId64 " blocks %d crc32c", place->first, place->count,
                CHECKPOINT_BLOCK_BYTES);
    for (size_t at = 0; at < bytes; at += CHECKPOINT_BLOCK_BYTES) {
        size_t length = bytes - at < CHECKPOINT_BLOCK_BYTES ? bytes - at : CHECKPOINT_BLOCK_BYTES;
        text_printf(out, "%s" SUM_FORMAT, at > 0 ? "," : " ", crc32c(0, (const char *)data + at, length));
    }
}

/* Each sum has a separator before it. */
bool place_has_sums(const char *sums, int64_t bytes)
{
    int64_t blocks = ceil_div(bytes, CHECKPOINT_BLOCK_BYTES), length = (int64_t)strlen(sums);
    bool whole = length == blocks * (SUM_DIGITS + 1);
    for (int64_t i = 0; whole && i < length; i++)
        whole =
            i % (SUM_DIGITS + 1) == 0 ? sums[i] == (i > 0 ? ',' : ' ') : strchr("0123456789abcdef", sums[i]) != NULL;
    return whole;
}

bool place_block_is_whole(const char *sums, int64_t block, const void *data, size_t bytes)
{
    char sum[SUM_DIGITS + 1];
    snprintf(sum, sizeof sum, SUM_FORMAT, crc32c(0, data, bytes));
    return memcmp(sums + block * (SUM_DIGITS + 1) + 1, sum, SUM_DIGITS) == 0;
}

static bool parse_word(const char **at, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool parse_number(const char **at, int64_t *out)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    long long value = strtoll(*at, &end, 10);
    if (end - *at > 18)
        return false;
    *at = end;
    *out = value;
    return true;
}

static int parse_list(const char **at, int64_t *out)
{
    int count = 0;
    do {
        if (count == MAX_DIMS || !parse_number(at, &out[count++]))
            return -1;
    } while (parse_word(at, ","));
    return count;
}

bool place_parse(const char *text, struct place *out, const char **sums)
{
    struct place p = { 0 };
    int64_t block_bytes;
    if (!parse_word(&text, "low ") || (p.block.dim_count = parse_list(&text, p.block.low)) < 0 ||
        !parse_word(&text, " count ") || parse_list(&text, p.block.count) != p.block.dim_count ||
        !parse_word(&text, " first ") || !parse_number(&text, &p.first) || !parse_word(&text, " elements ") ||
        !parse_number(&text, &p.count) || !parse_word(&text, " blocks ") || !parse_number(&text, &block_bytes) ||
        block_bytes != CHECKPOINT_BLOCK_BYTES || !parse_word(&text, " crc32c"))
        return false;
    int64_t elements = 1, last;
    for (int d = 0; d < p.block.dim_count; d++)
        if (!mul_i64(&elements, elements, p.block.count[d]))
            return false;
    if (!add_i64(&last, p.first, p.count) || last > elements)
        return false;
    *sums = text;
    *out = p;
    return true;
}

static int64_t flat_index(const struct block *block, const int64_t at[MAX_DIMS])
{
    int64_t index = 0;
    for (int d = 0; d < block->dim_count; d++)
        index = index * block->count[d] + at[d] - block->low[d];
    return index;
}

/* One row along the last dim: contiguous in both. */
static void copy_row(const struct place *destination, real *to, unsigned char *covered, const struct place *source,
                     const real *from, const int64_t at[MAX_DIMS], int64_t length)
{
    int64_t d = flat_index(&destination->block, at) - destination->first,
            s = flat_index(&source->block, at) - source->first;
    int64_t low = max_i64(0, max_i64(-d, -s)),
            high = min_i64(length, min_i64(destination->count - d, source->count - s));
    if (high <= low)
        return;
    memcpy(to + d + low, from + s + low, (size_t)(high - low) * sizeof *to);
    memset(covered + d + low, 1, (size_t)(high - low));
}

void place_copy(const struct place *destination, real *to, unsigned char *covered, const struct place *source,
                const real *from, const struct block *both)
{
    int64_t at[MAX_DIMS];
    memcpy(at, both->low, sizeof at);
    int last = both->dim_count - 1;
    for (;;) {
        copy_row(destination, to, covered, source, from, at, both->count[last]);
        int d = last - 1;
        while (d >= 0 && ++at[d] == both->low[d] + both->count[d]) {
            at[d] = both->low[d];
            d--;
        }
        if (d < 0)
            return;
    }
}
