/* Launches of a target for tests: drawn at random within its rules, written, read back; files that must stay as they
 * are; texts that users have. */
#ifndef CLEAVE_TESTS_TARGET_LAUNCHES_H
#define CLEAVE_TESTS_TARGET_LAUNCHES_H
#include "models/kinds/layers.h"
#include "models/layer_kind.h"
#include "planner/program/schedule.h"
#include "targets/decoder.h"
#include "targets/target.h"
#include "tests/check.h"
#include "tests/model_files.h"
#include "tests/random_numbers.h"
#include <stdlib.h>
#include <string.h>

/* One that may break rules, in the form that readers give: what has no effect is what launch_plain has. */
static inline struct launch draw_launch(uint64_t *state, int blocks, int most_pipeline, int pieces[64])
{
    struct launch l = launch_plain;
    l.tensor = INT64_C(1) << random_below(state, 4);
    l.context = random_below(state, 3) ? 1 : INT64_C(1) << random_below(state, 3);
    l.pipeline = random_below(state, 2) ? 1 : 1 + random_below(state, most_pipeline);
    l.data = 1 + random_below(state, 12);
    l.sequence_parallel = l.tensor > 1 && random_below(state, 3) > 0;
    l.micro_batch = 1 + random_below(state, 3);
    l.batch = l.micro_batch * l.data * (1 + random_below(state, 24));
    l.sequence = 256 * (1 + random_below(state, 40));
    if (l.pipeline > 1) {
        static const int some[] = { SCHEDULE_one_f_one_b, SCHEDULE_gpipe, SCHEDULE_interleaved, SCHEDULE_zb_v };
        l.schedule = some[random_below(state, 4)];
        l.chunks = l.schedule == SCHEDULE_zb_v          ? 2
                   : l.schedule == SCHEDULE_interleaved ? 2 + random_below(state, 2)
                                                        : 1;
        int64_t count = l.batch / l.micro_batch / l.data, rounds = count / l.pipeline; /* as torchtitan has groups */
        if (l.schedule == SCHEDULE_interleaved && rounds > 0 && count / rounds > l.pipeline)
            l.chunk_group = count / rounds;
        l.piece_count = (int)(l.pipeline * l.chunks);
        l.piece_blocks = pieces;
        int left = blocks;
        for (int p = 0; p < l.piece_count; p++) {
            int later = l.piece_count - 1 - p, most = left - later;
            pieces[p] = later == 0 ? left : most > 1 ? 1 + (int)random_below(state, most < 6 ? most : 6) : 1;
            left -= pieces[p];
        }
    }
    l.zero = l.data * l.context == 1 ? 0 : random_below(state, 4);
    if (l.zero == 3 && random_below(state, 2))
        l.reshard = RESHARD_EACH_STEP;
    for (int64_t group = 2; l.zero > 0 && group < l.data && random_below(state, 2); group++)
        if (l.data % group == 0)
            l.shard_group = group;
    l.recompute = random_below(state, 2) ? RECOMPUTE_NONE : RECOMPUTE_BLOCK;
    l.loss_chunks = 1 + random_below(state, 8);
    l.clip_norm = random_below(state, 2) ? 1 : .5;
    l.dtype = random_below(state, 4) ? DTYPE_BF16 : DTYPE_FP32;
    return l;
}

/* Draws until none is broken. vary: the target's own fields. */
static inline struct launch draw_legal(const struct target *target, const struct launch_context *context,
                                       uint64_t *state, int blocks, int pieces[64],
                                       void (*vary)(struct launch *l, uint64_t *state))
{
    for (;;) {
        struct launch l = draw_launch(state, blocks, blocks / 3 < 9 ? blocks / 3 : 9, pieces);
        vary(&l, state);
        if (l.chunks == 1)
            l.chunk_group = 0;
        if (!target_broken_rule(target, &l, context))
            return l;
    }
}

static inline const struct text *file_named(const struct launch_files *files, const char *name)
{
    for (int i = 0; i < files->count; i++)
        if (strcmp(files->list[i].name, name) == 0)
            return &files->list[i].text;
    ck_abort_msg("no file %s", name);
    return NULL;
}

/* What is written is read back, from the file of that name, and the same. */
static inline void check_round(const struct target *target, const struct launch *launch,
                               const struct launch_context *context, const char *name)
{
    struct launch_files files = { 0 };
    struct launch_read read = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    const struct target_rule *broken = target_broken_rule(target, launch, context);
    ck_assert_msg(!broken, "%s", broken ? broken->name : "");
    ck_assert(target->write(&files, launch, context));
    const struct text *text = file_named(&files, name);
    ck_assert_msg(target->read(&read, &arena, name, text->data, text->length, &err), "%s\n%s", err.message, text->data);
    ck_assert_msg(launch_equal(&read.launch, launch),
                  "%s\nread: tp %d cp %d pp %d dp %d group %d zero %d micro %d batch %d pieces %d chunks %d reshard %d "
                  "recompute %d excepted %llx offload %d sp %d loss %d dtype %d bucket %lld clip %g prefetch %d",
                  text->data, (int)read.launch.tensor, (int)read.launch.context, (int)read.launch.pipeline,
                  (int)read.launch.data, (int)read.launch.shard_group, (int)read.launch.zero,
                  (int)read.launch.micro_batch, (int)read.launch.batch, read.launch.piece_count,
                  (int)read.launch.chunks, (int)read.launch.reshard, (int)read.launch.recompute,
                  (unsigned long long)read.launch.excepted, (int)read.launch.offload, read.launch.sequence_parallel,
                  (int)read.launch.loss_chunks, read.launch.dtype, (long long)read.launch.bucket_bytes,
                  read.launch.clip_norm, (int)read.launch.prefetch);
    ck_assert_int_eq(read.unknown_count, 0);
    ck_assert(read.says_data && read.says_batch && read.says_sequence && read.says_dtype);
    if (read.model && context->model) {
        struct decoder got = decoder_of(read.model), want = decoder_of(context->model);
        ck_assert(got.hidden == want.hidden && got.blocks == want.blocks && got.heads == want.heads &&
                  got.kv_heads == want.kv_heads && got.inner == want.inner && got.vocab_size == want.vocab_size &&
                  got.rope_base == want.rope_base);
    }
    model_free(read.model);
    launch_files_free(&files);
    arena_free(&arena);
}

/* Names that files say are words in what is run, whatever stands in them: it is as with their plain words. */
static inline void check_names(const struct target *target, const struct launch *launch,
                               const struct launch_context *context)
{
    struct launch_files files[2] = { 0 };
    for (int plain = 0; plain < 2; plain++) {
        struct model model = *context->model;
        struct launch_context named = *context;
        model.name = plain ? "a__touch_x____x_______b"
                           : "a\n$touch`x`;'\"x\"\"\"\\\x1b\xc2\x9b"
                             "b";
        named.model = &model;
        named.device_name = plain ? "_x____.._y" : "\nx;\r|/../y";
        ck_assert(target->write(&files[plain], launch, &named));
    }
    for (int i = 0; i < files[0].count; i++)
        ck_assert_str_eq(files[0].list[i].text.data, files[1].list[i].text.data);
    for (int plain = 0; plain < 2; plain++)
        launch_files_free(&files[plain]);
}

/* Compares with tests/targets/FOLDER; CLEAVE_WRITE_GOLDEN=1 writes there. */
static inline void check_golden(const struct target *target, const struct launch *launch,
                                const struct launch_context *context, const char *folder)
{
    static char golden[1 << 18];
    struct launch_files files = { 0 };
    ck_assert(target->write(&files, launch, context));
    for (int i = 0; i < files.count; i++) {
        char path[512];
        snprintf(path, sizeof path, SOURCE_ROOT "/tests/targets/%s/%s", folder, files.list[i].name);
        if (getenv("CLEAVE_WRITE_GOLDEN")) {
            FILE *out = fopen(path, "wb");
            ck_assert_msg(out != NULL, "cannot write %s", path);
            fwrite(files.list[i].text.data, 1, files.list[i].text.length, out);
            fclose(out);
        }
        FILE *file = fopen(path, "rb");
        ck_assert_msg(file != NULL, "cannot open %s", path);
        size_t length = fread(golden, 1, sizeof golden, file);
        fclose(file);
        ck_assert_msg(length == files.list[i].text.length && memcmp(golden, files.list[i].text.data, length) == 0,
                      "%s is another one now:\n%s", path, files.list[i].text.data);
    }
    launch_files_free(&files);
    if (context->model)
        check_names(target, launch, context);
}

/* Reads it, or fails the test. */
static inline struct launch_read read_text(const struct target *target, struct arena *arena, const char *name,
                                           const char *text)
{
    struct launch_read read = { 0 };
    struct error err = { 0 };
    ck_assert_msg(target->read(&read, arena, name, text, strlen(text), &err), "%s", err.message);
    return read;
}
/* It is refused with a message that has this in it. */
static inline void check_refusal(const struct target *target, const char *name, const char *text, const char *says)
{
    struct launch_read read = { 0 };
    struct error err = { 0 };
    struct arena arena = { 0 };
    ck_assert_msg(!target->read(&read, &arena, name, text, strlen(text), &err), "accepted: %s", text);
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strstr(err.message, says) != NULL, "%s\n  says      %s\n  expected  %s", text, err.message, says);
    arena_free(&arena);
}
/* Of a model whose attention the framework does not fuse: the rule refuses to share out its sequence, and a README says
 * what its scores take, 8 bytes each for 32 heads / tensor 1 of 128 x 128. */
static inline void check_unfused(const struct target *target, const char *rule, struct launch launch)
{
    struct model *model = model_of_zoo("llama-3-8b");
    struct graph *graph = NULL;
    struct error err = { 0 };
    struct launch_context context = { .model = model, .devices_per_node = 8 };
    struct launch_files files = { 0 };
    for (int l = 0; l < model->layer_count; l++)
        if (strcmp(model->layers[l].kind->name, "attention") == 0)
            ((struct attention_layer *)model->layers[l].fields)->score_cap = 50;
    launch.sequence = 128;
    launch.micro_batch = 1;
    ck_assert_ptr_null(target_broken_rule(target, &launch, &context));
    model->keeping.eager_caps = true;
    ck_assert_msg(graph_build(&graph, model, launch.batch, launch.sequence, 1, &err), "%s", err.message);
    context.graph = graph;
    launch.context = 1;
    ck_assert_ptr_null(target_broken_rule(target, &launch, &context));
    ck_assert(target->write(&files, &launch, &context));
    ck_assert_ptr_nonnull(strstr(files.list[files.count - 1].text.data, "4.00 MiB of attention's scores"));
    launch_files_free(&files);
    launch.context = 2;
    ck_assert_str_eq(target_broken_rule(target, &launch, &context)->name, rule);
    graph_free(graph);
    model_free(model);
}
#endif
