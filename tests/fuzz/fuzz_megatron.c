/* Any bytes as a launch of Megatron-LM, as a script or as a recipe: refused with a message, or a launch whose numbers
 * make sense, whose model unfolds. */
#include "base/num.h"
#include "base/text.h"
#include "cli/called_script.h"
#include "targets/target.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_launch(const struct launch *l)
{
    must(l->tensor > 0 && l->context > 0 && l->pipeline > 0 && l->expert > 0 && l->chunks > 0 && l->micro_batch > 0);
    must(l->data >= 0 && l->batch >= 0 && l->sequence >= 0 && l->bucket_bytes >= 0);
    must(l->piece_count == 0 || l->piece_count == l->pipeline * l->chunks);
    for (int i = 0; i < l->piece_count; i++)
        must(l->piece_blocks[i] >= 0);
}

static void check_target(const char *name, const uint8_t *data, size_t size)
{
    const struct target *target = target_find(name);
    struct launch_read read = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    if (!target)
        return;
    if (target->read(&read, &arena, "fuzz", (const char *)data, size, &err)) {
        check_launch(&read.launch);
        if (read.model && model_unfolded_count(read.model) < 1000) {
            struct graph *graph = NULL;
            struct error why = { 0 };
            if (graph_build(&graph, read.model, 1, 0, 128, &why))
                graph_free(graph);
        }
        model_free(read.model);
    } else {
        must(err.kind == ERROR_INPUT && err.message[0] != '\0');
    }
    arena_free(&arena);
}

/* As what a user types behind --from: a call of a script that is there. */
static void check_call(const uint8_t *data, size_t size)
{
    struct text call = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    const char *path = NULL, *before = NULL;
    text_printf(&call, "A=1 sh /dev/null %.*s", (int)min_i64((int64_t)size, 1 << 16), (const char *)data);
    if (call.data && called_script(&path, &before, call.data, &arena, &err)) {
        must(path && before);
        check_target("megatron-lm", (const uint8_t *)before, strlen(before));
    } else {
        must(err.message[0] != '\0');
    }
    text_free(&call);
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_call(data, size);
    check_target("megatron-lm", data, size);
    check_target("megatron-bridge", data, size);
    return 0;
}
