/* Any bytes as prices, amounts of money, time and tokens, and as a list of clusters: refused with a message, or numbers
 * in their ranges; and a list is cut into what it consists of. */
#include "cli/amounts.h"
#include "cli/prices.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void use_prices(const char *text)
{
    static const struct catalogue_entry catalogue[] = { { "h100-sxm", "{}", 2 }, { "l40s", "{}", 2 } };
    struct prices prices;
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct text_list list = { .item = { text, "l40s=1" }, .count = 2 };
    if (!prices_read(&prices, &arena, &list, NULL, catalogue, 2, &err))
        must(err.kind == ERROR_INPUT && strncmp(err.message, "--price", 7) == 0);
    for (int i = 0; i < prices.count; i++)
        must(prices.of[i].dollars_per_hour > 0 && prices.of[i].dollars_per_hour <= 1e6 &&
             prices_of(&prices, prices.of[i].device) == prices.of[i].dollars_per_hour);
    arena_free(&arena);
}

static void use_amounts(const char *text)
{
    bool (*const readers[])(double *, const char *, const char *, struct error *) = { amount_count, amount_dollars,
                                                                                      amount_duration_s };
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        double value = 0;
        char shown[TEXT_NUMBER_BYTES];
        struct error err = { 0 };
        if (readers[i](&value, "--amount", text, &err))
            must(value > 0 && isfinite(value) && strlen(amount_duration_text(shown, fmin(value, 1e12))) > 0);
        else
            must(err.kind == ERROR_INPUT);
    }
}

/* The pieces, joined by commas, are the list again, but for a comma at its end. */
static void use_list(const char *text)
{
    struct arena arena = { 0 };
    const char *rest = text, *name;
    size_t length = 0, whole = strlen(text);
    while ((name = amount_next_cluster(&rest, &arena))) {
        size_t own = strlen(name);
        must(length + own <= whole && memcmp(text + length, name, own) == 0);
        length += own + 1;
    }
    must(*rest == 0 && (whole == 0 || length == whole || length == whole + 1));
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = 0;
    use_prices(text);
    use_amounts(text);
    use_list(text);
    free(text);
    return 0;
}
