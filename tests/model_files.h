/* Reading models for tests: from the zoo, or from text in the test. Failing to read fails the test. */
#ifndef CLEAVE_TESTS_MODEL_FILES_H
#define CLEAVE_TESTS_MODEL_FILES_H
#include "models/model.h"
#include "tests/check.h"
#include <stdio.h>
#include <string.h>

static inline struct model *model_of_text(const char *text)
{
    struct error err = { 0 };
    struct model *model = NULL;
    ck_assert_msg(model_read(&model, "text", text, strlen(text), NULL, &err), "%s", err.message);
    return model;
}

/* The text, in which '@' stands before the value at fault, is refused there with a message that begins with `message`.
 */
static inline void check_refused(const char *marked, const char *message)
{
    char text[2048], expected[512];
    const char *mark = strchr(marked, '@');
    ck_assert_msg(mark != NULL && strlen(marked) < sizeof text, "%s", marked);
    snprintf(text, sizeof text, "%.*s%s", (int)(mark - marked), marked, mark + 1);
    snprintf(expected, sizeof expected, "m.json:1:%d: %s", (int)(mark - marked) + 1, message);
    struct error err = { 0 };
    struct model *model = NULL;
    ck_assert_msg(!model_read(&model, "m.json", text, strlen(text), NULL, &err), "accepted: %s", text);
    ck_assert_ptr_null(model);
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strncmp(err.message, expected, strlen(expected)) == 0, "%s\n  says      %s\n  expected  %s", text,
                  err.message, expected);
}

/* name: "gpt2" for models/zoo/gpt2.json. */
static inline struct model *model_of_zoo(const char *name)
{
    static char text[1 << 16];
    char path[512];
    snprintf(path, sizeof path, SOURCE_ROOT "/models/zoo/%s.json", name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    return model_of_text(text);
}

static inline struct graph *graph_of(const struct model *model, int64_t batch, int64_t sequence, int64_t vocab_multiple)
{
    struct error err = { 0 };
    struct graph *graph = NULL;
    ck_assert_msg(graph_build(&graph, model, batch, sequence, vocab_multiple, &err), "%s", err.message);
    return graph;
}

/* Small native models, 16 wide over 10 tokens: MODEL takes the whole chain, BODY what stands between embedding and
 * head. */
#define MODEL(layers)                                                                                                  \
    "{\"format\":\"cleave-model\",\"version\":1,\"name\":\"t\",\"sequence\":8,\"hidden\":16,\"vocab_size\":10,"        \
    "\"layers\":[" layers "]}"
#define BODY(layers)                                                                                                   \
    MODEL("{\"kind\":\"embedding\"}," layers ",{\"kind\":\"head\",\"norm\":\"none\"},{\"kind\":\"loss\"}")
#define ATTENTION(more) "{\"kind\":\"attention\",\"heads\":4,\"norm\":\"rms_norm\"" more "}"
/* Extents of a segment that is not split: (MAX_AXES). */
static inline void whole(const struct segment *segment, int64_t extents[MAX_AXES])
{
    for (int i = 0; i < MAX_AXES; i++)
        extents[i] = segment->axes[i].size;
}
#endif
