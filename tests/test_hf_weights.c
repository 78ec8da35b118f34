/* Hugging Face checkpoints: names and places of tensors, what is refused, and that a run of no steps gives back the
 * bits that it read, whoever held which part of them. */
#define _GNU_SOURCE
#include "tests/check.h"
#include "base/num.h"
#include "executor/comm_threads.h"
#include "executor/hf_elements.h"
#include "executor/hf_output.h"
#include "executor/run.h"
#include "host/file.h"
#include "tests/tiny_models.h"
#include <dirent.h>
#include <unistd.h>

enum { PATH_BYTES = 256, LONG_BYTES = 512, MAX_RANKS = 8 };

#define SIZES                                                                                                          \
    "\"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "           \
    "\"vocab_size\": 61, \"max_position_embeddings\": 8"
#define GROUPED SIZES ", \"num_key_value_heads\": 2"
#define MIXTURE ", \"num_experts_per_tok\": 2, \"router_aux_loss_coef\": 0}"
/* One of each family, and of what families have or have not. */
static const struct example {
    const char *type, *config;
} examples[] = {
    { "gpt2", "{\"model_type\": \"gpt2\", \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 4, \"n_positions\": 8, "
              "\"vocab_size\": 61}" },
    { "llama", "{\"model_type\": \"llama\", " GROUPED "}" },
    { "mixtral", "{\"model_type\": \"mixtral\", " GROUPED ", \"num_local_experts\": 4" MIXTURE },
    { "qwen3", "{\"model_type\": \"qwen3\", " GROUPED ", \"head_dim\": 16, \"tie_word_embeddings\": true}" },
    { "gpt_neox", "{\"model_type\": \"gpt_neox\", " SIZES "}" },
    { "phi3", "{\"model_type\": \"phi3\", " GROUPED "}" },
    { "qwen2_moe", "{\"model_type\": \"qwen2_moe\", " GROUPED ", \"num_experts\": 4, \"moe_intermediate_size\": 24, "
                   "\"shared_expert_intermediate_size\": 40" MIXTURE },
    { "olmo2", "{\"model_type\": \"olmo2\", " GROUPED "}" },
    { "starcoder2", "{\"model_type\": \"starcoder2\", " GROUPED ", \"use_bias\": true}" },
    { "qwen2", "{\"model_type\": \"qwen2\", " GROUPED "}" },
};
enum { EXAMPLES = sizeof examples / sizeof *examples, EXAMPLES_RUN = 3 };

/* ---- folders ---- */
static void folder_make(char path[PATH_BYTES])
{
    const char *base = getenv("TMPDIR");
    snprintf(path, PATH_BYTES, "%.180s/cleave-hf-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(path));
}

static int folder_count(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void folder_remove(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(path);
}

static void file_put(const char *folder, const char *name, const void *bytes, size_t length)
{
    char path[LONG_BYTES];
    struct error err = { 0 };
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_msg(file_write(path, bytes, length, &err), "%s", err.message);
}

static char *file_get(const char *folder, const char *name, size_t *length)
{
    char path[LONG_BYTES], *text = NULL;
    struct error err = { 0 };
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_msg(file_read(&text, length, path, &err), "%s", err.message);
    return text;
}

static void same_files(const char *a, const char *b, const char *name)
{
    size_t x_length, y_length;
    char *x = file_get(a, name, &x_length), *y = file_get(b, name, &y_length);
    ck_assert_msg(x_length == y_length && memcmp(x, y, x_length) == 0, "%s differs", name);
    free(x), free(y);
}

/* ---- checkpoints of a graph with bits of all kinds ---- */
static void fill(unsigned char *bytes, int64_t count, enum tensor_type type, uint64_t seed)
{
    const int64_t each = tensor_type_bytes(type);
    for (int64_t i = 0; i < count; i++) {
        uint64_t random = mix64(seed + (uint64_t)i);
        /* Any sign, mantissa and exponent but those of what is no number. */
        uint32_t bits = type == TENSOR_F32    ? (uint32_t)random & 0xbfffffffu
                        : type == TENSOR_BF16 ? (uint32_t)random & 0xbfffu
                                              : (uint32_t)random & 0xbbffu;
        memcpy(bytes + i * each, &bits, (size_t)each);
    }
}

/* Tensors [first, end) of a checkpoint as a file; types take turns where `mixed`. */
static void put_tensors(const char *folder, const char *name, const struct hf_tensors *tensors, int first, int end,
                        enum tensor_type type, bool mixed, bool twins)
{
    struct tensor *list = calloc((size_t)tensors->count + 1, sizeof *list);
    int64_t data_bytes = 0;
    int count = 0;
    for (int i = first; i < end; i++) {
        struct tensor *t = &list[count];
        if (tensors->list[i].twin >= 0 && !twins)
            continue;
        *t = (struct tensor){ .name = tensors->list[i].name,
                              .type = mixed && tensors->list[i].twin < 0 ? (i % 3 == 0   ? TENSOR_F32
                                                                            : i % 3 == 1 ? TENSOR_BF16
                                                                                         : TENSOR_F16)
                                                                         : type,
                              .dim_count = tensors->list[i].dim_count };
        t->bytes = tensor_type_bytes(t->type);
        for (int d = 0; d < t->dim_count; d++)
            t->bytes *= t->shape[d] = tensors->list[i].shape[d];
        data_bytes += t->bytes;
        count++;
    }
    size_t length;
    const struct tensor_note note = { "format", "pt" };
    char *head = safetensors_write(list, count, &note, 1, &length);
    unsigned char *all = calloc(1, length + (size_t)data_bytes + 1);
    memcpy(all, head, length);
    for (int i = first, at = 0; i < end; i++)
        if (tensors->list[i].twin < 0 || twins) {
            int number = tensors->list[i].twin < 0 ? i : tensors->list[i].twin;
            const struct tensor *t = &list[at++];
            fill(all + length + t->offset, t->bytes / tensor_type_bytes(t->type), t->type, (uint64_t)number << 32);
        }
    file_put(folder, name, all, length + (size_t)data_bytes);
    free(all), free(head), free(list);
}

static struct hf_tensors *tensors_of(const struct example *example, const struct graph *graph)
{
    struct hf_tensors *tensors = NULL;
    struct error err = { 0 };
    ck_assert_msg(hf_tensors_of(&tensors, hf_tensor_names_of(example->type), true, graph, &err), "%s: %s",
                  example->type, err.message);
    return tensors;
}

/* In two files with an index. */
static void put_sharded(const char *folder, const struct hf_tensors *tensors, enum tensor_type type)
{
    static const char *const names[] = { "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors" };
    const int half = tensors->count / 2;
    struct json_writer w = { 0 };
    put_tensors(folder, names[0], tensors, 0, half, type, true, false);
    put_tensors(folder, names[1], tensors, half, tensors->count, type, true, false);
    json_begin_object(&w);
    json_write_key(&w, "weight_map");
    json_begin_object(&w);
    for (int i = 0; i < tensors->count; i++)
        if (tensors->list[i].twin < 0)
            json_put_string(&w, tensors->list[i].name, names[i >= half]);
    json_end_object(&w);
    json_end_object(&w);
    size_t length;
    char *text = json_finish(&w, &length);
    file_put(folder, HF_INDEX, text, length);
    free(text);
}

/* ---- names and places ---- */
/* Each element of each weight has a place of its own, and they fill the tensors: what rows say of dims is a bijection.
 */
START_TEST(every_element_has_its_place)
{
    struct graph *graph = tiny_graph(examples[_i].config);
    struct hf_tensors *tensors = tensors_of(&examples[_i], graph);
    int64_t **taken = calloc((size_t)tensors->count, sizeof *taken), total = 0;
    for (int i = 0; i < tensors->count; i++) {
        int64_t count = 1;
        for (int d = 0; d < tensors->list[i].dim_count; d++)
            count *= tensors->list[i].shape[d];
        taken[i] = calloc((size_t)count + 1, sizeof **taken);
        taken[i][count] = -1;
        total += tensors->list[i].twin < 0 ? count : 0;
    }
    for (int w = 0; w < graph->weight_count; w++) {
        const struct weight *weight = &graph->weights[w];
        for (int64_t e = 0; e < weight_elements(weight); e++) {
            int64_t at[MAX_DIMS], rest = e;
            for (int d = weight->dim_count - 1; d >= 0; d--) {
                at[d] = rest % weight->size[d];
                rest /= weight->size[d];
            }
            struct hf_run run = hf_run_at(tensors, w, at, 1);
            ck_assert_int_eq(run.count, 1);
            ck_assert_int_eq(run.tensor < 0, at[0] >= weight->valid_rows);
            if (run.tensor >= 0) {
                ck_assert_int_eq(taken[run.tensor][run.offset], 0);
                taken[run.tensor][run.offset] = 1;
                total--;
            }
        }
    }
    ck_assert_int_eq(total, 0);
    for (int i = 0; i < tensors->count; i++)
        free(taken[i]);
    free(taken);
    hf_tensors_free(tensors);
    graph_free(graph);
}
END_TEST

/* What a fused matrix means, said without the table: head 1 of GPT-2's key begins at column hidden + head_dim; of
 * GPT-NeoX's at row (3 * 1 + 1) * head_dim. */
START_TEST(fused_matrices_are_told_apart)
{
    static const struct {
        int example;
        const char *weight, *tensor;
        int64_t at[MAX_DIMS], row, column, columns;
    } known[] = {
        { 0, "1.attention.k", "transformer.h.0.attn.c_attn.weight", { 5, 1, 3 }, 5, 32 + 8 + 3, 96 },
        { 4, "1.attention.k", "gpt_neox.layers.0.attention.query_key_value.weight", { 5, 1, 3 }, 4 * 8 + 3, 5, 32 },
        { 5, "4.mlp.up", "model.layers.1.mlp.gate_up_proj.weight", { 7, 2 }, 48 + 2, 7, 32 },
        { 5, "1.attention.v", "model.layers.0.self_attn.qkv_proj.weight", { 7, 1, 2 }, 32 + 16 + 8 + 2, 7, 32 },
        { 2, "2.moe.expert_down", "model.layers.0.block_sparse_moe.experts.3.w2.weight", { 3, 40, 6 }, 6, 40, 48 },
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        struct graph *graph = tiny_graph(examples[known[k].example].config);
        struct hf_tensors *tensors = tensors_of(&examples[known[k].example], graph);
        int w = 0;
        while (w < graph->weight_count && strcmp(graph->weights[w].name, known[k].weight) != 0)
            w++;
        ck_assert_int_lt(w, graph->weight_count);
        struct hf_run run = hf_run_at(tensors, w, known[k].at, 1);
        ck_assert_str_eq(tensors->list[run.tensor].name, known[k].tensor);
        ck_assert_int_eq(tensors->list[run.tensor].shape[1], known[k].columns);
        ck_assert_int_eq(run.offset, known[k].row * known[k].columns + known[k].column);
        hf_tensors_free(tensors);
        graph_free(graph);
    }
}
END_TEST

/* ---- types ---- */
/* All 2^16 numbers of either type of 16 bits, and those in the middle between neighbours, which go to the even one. */
START_TEST(short_numbers_come_back)
{
    static const enum tensor_type types[] = { TENSOR_BF16, TENSOR_F16 };
    for (int t = 0; t < 2; t++)
        for (uint32_t bits = 0; bits < 0x10000u; bits++) {
            uint16_t half = (uint16_t)bits, next = (uint16_t)(bits + 1), back = 0, middle = 0;
            real value, above;
            hf_elements_read(&value, (const unsigned char *)&half, types[t], 1, 1);
            hf_elements_write((unsigned char *)&back, types[t], 1, 1, &value);
            ck_assert_int_eq(back, half);
            hf_elements_read(&above, (const unsigned char *)&next, types[t], 1, 1);
            if (!isfinite(value) || !isfinite(above) || (bits & 0x7fffu) == 0x7fffu)
                continue;
            real between = (real)((double)value / 2 + (double)above / 2);
            hf_elements_write((unsigned char *)&middle, types[t], 1, 1, &between);
            ck_assert_msg(between == value || middle == (half & 1 ? next : half), "%d: %x", t, bits);
        }
    const real large[] = { 65519, 65520, (real)1e-8, (real)-3e-8 };
    const uint16_t expected[] = { 0x7bff, 0x7c00, 0x0000, 0x8001 };
    for (int i = 0; i < 4; i++) {
        uint16_t got;
        hf_elements_write((unsigned char *)&got, TENSOR_F16, 1, 1, &large[i]);
        ck_assert_int_eq(got, expected[i]);
    }
}
END_TEST

/* ---- there and back ---- */
static void run_none(const struct graph *graph, struct plan *plan, const struct hf_folder *from, const char *to,
                     const char *beside, bool overwrite)
{
    char config[LONG_BYTES];
    snprintf(config, sizeof config, "%s/config.json", beside);
    struct hf_export export = {
        .like = from, .folder = to, .config = config, .beside = beside, .overwrite = overwrite
    };
    struct error err = { 0 };
    struct program *program = tiny_lower(graph, plan, &err);
    struct transport transports[MAX_RANKS];
    struct run_options options = run_options_default();
    struct run_summary summary;
    struct data data;
    ck_assert_msg(program && hf_output_check(&export, &err), "%s", err.message);
    ck_assert(comm_threads_open(transports, plan->rank_count, &err) &&
              data_synthetic(&data, sample_shape_of(graph), 7, &err));
    options.step_count = 0, options.data = &data, options.poison = true;
    options.hf_folder = from, options.hf_export = &export;
    ck_assert_msg(run_program(&summary, program, transports, plan->rank_count, &options, &err), "%s", err.message);
    run_summary_free(&summary);
    for (int r = 0; r < plan->rank_count; r++)
        transports[r].close(transports[r].self);
    data_free(&data);
    program_free(program);
    plan_free(plan);
}

static const struct tiny_choice choices[] = {
    { .dp = 1, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp },
    { .dp = 2, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_tp_sp, .zero = 1 },
    { .dp = 4, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp, .zero = 3 },
    { .dp = 1, .tp = 4, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .slices = 2 },
    { .dp = 4,
      .tp = 2,
      .pp = 1,
      .micro = 1,
      .tp_dim = DIM_tp,
      .zero = 2,
      .offload = OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS },
    { .dp = 2, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .zero = 3, .named = "interleaved", .chunks = 2 },
    { .dp = 2, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .zero = 1, .named = "chimera", .chunks = 2 },
};
enum { CHOICES = sizeof choices / sizeof *choices };

/* Whoever holds which part of which weight: files of all types, one or several, come back bit for bit. */
START_TEST(no_steps_change_no_bit)
{
    const struct example *example = &examples[_i % EXAMPLES_RUN];
    const struct tiny_choice *choice = &choices[_i / EXAMPLES_RUN];
    struct graph *graph = tiny_graph(example->config);
    struct hf_tensors *tensors = tensors_of(example, graph);
    struct hf_folder *folder = NULL;
    struct error err = { 0 };
    char in[PATH_BYTES], out[PATH_BYTES];
    bool sharded = _i % 2;
    folder_make(in), folder_make(out);
    file_put(in, "config.json", example->config, strlen(example->config));
    file_put(in, "tokenizer.json", "{}", 2);
    if (sharded)
        put_sharded(in, tensors, TENSOR_F16);
    else
        put_tensors(in, HF_FILE, tensors, 0, tensors->count, TENSOR_F32, true, false);
    file_put(out, HF_FILE ".1-0.tmp", "left by a run that was killed", 29);
    ck_assert_msg(hf_folder_open(&folder, in, hf_tensor_names_of(example->type), graph, &err), "%s", err.message);
    const bool mixture = strcmp(example->type, "mixtral") == 0 && _i / EXAMPLES_RUN > 1;
    run_none(graph, mixture ? mixture_plan(graph, 2 * _i) : tiny_plan(graph, choice), folder, out, in, false);
    if (sharded) {
        same_files(in, out, "model-00001-of-00002.safetensors");
        same_files(in, out, "model-00002-of-00002.safetensors");
        same_files(in, out, HF_INDEX);
    } else {
        same_files(in, out, HF_FILE);
    }
    same_files(in, out, "config.json");
    same_files(in, out, "tokenizer.json");
    ck_assert_int_eq(folder_count(out), folder_count(in) + sharded); /* of one file the leftover is gone */
    hf_folder_free(folder);
    hf_tensors_free(tensors);
    graph_free(graph);
    folder_remove(in), folder_remove(out);
}
END_TEST

/* ---- what is refused ---- */
static void expect_refusal(const char *folder, const struct graph *graph, const char *what)
{
    struct hf_folder *opened = NULL;
    struct error err = { 0 };
    ck_assert(!hf_folder_open(&opened, folder, hf_tensor_names_of("llama"), graph, &err));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strstr(err.message, what) != NULL, "expected '%s', got '%s'", what, err.message);
}

/* A file with one tensor more or in place of another; what the header says is as given. */
static void put_header(const char *folder, const char *name, const char *header, int64_t data_bytes)
{
    size_t length = strlen(header), all = SAFETENSORS_LENGTH_BYTES + length + (size_t)data_bytes;
    unsigned char *bytes = calloc(1, all);
    for (int i = 0; i < SAFETENSORS_LENGTH_BYTES; i++)
        bytes[i] = (unsigned char)(length >> 8 * i & 0xff);
    memcpy(bytes + SAFETENSORS_LENGTH_BYTES, header, length);
    file_put(folder, name, bytes, all);
    free(bytes);
}

START_TEST(wrong_files_are_refused)
{
    static const struct {
        const char *header, *what;
        int64_t bytes;
    } wrong[] = {
        { "{}", "21 tensors of the model are missing: model.embed_tokens.weight, ", 0 },
        { "{\"model.embed_tokens.weight\": {\"dtype\": \"F32\", \"shape\": [2, 2], \"data_offsets\": [0, 16]}}",
          "tensor model.embed_tokens.weight: the model has [61, 32], found [2, 2]", 16 },
        { "{\"model.norm.weight\": {\"dtype\": \"I64\", \"shape\": [32], \"data_offsets\": [0, 256]}}",
          "tensor model.norm.weight: expected F32, BF16 or F16, found I64", 256 },
        { "{\"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [32], \"data_offsets\": [0, 128]}}",
          "expected an integer from 0 to 64", 64 },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}, \"b\": {\"dtype\": \"F32\", "
          "\"shape\": [2], \"data_offsets\": [4, 12]}}",
          "expected tensor b at byte 8 of the data, found 4", 12 },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [9007199254740992, 4096], \"data_offsets\": [0, 8]}}",
          "expected a size below 2^63 bytes", 8 },
        { "{\"strange\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}",
          "1 tensors are of no weight of the model: strange", 8 },
    };
    struct graph *graph = tiny_graph(examples[1].config);
    char folder[PATH_BYTES], path[LONG_BYTES];
    folder_make(folder);
    expect_refusal(folder, graph, "expected a folder with model.safetensors or model.safetensors.index.json, found");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_header(folder, HF_FILE, wrong[i].header, wrong[i].bytes);
        expect_refusal(folder, graph, wrong[i].what);
    }
    file_put(folder, HF_FILE, "1234", 4);
    expect_refusal(folder, graph, "cannot read a safetensors file of 4 bytes");
    file_put(folder, HF_FILE, "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    expect_refusal(folder, graph,
                   "expected a safetensors header of at most 67108864 bytes inside the file's 10, found a length of ");
    snprintf(path, sizeof path, "%s/%s", folder, HF_FILE);
    unlink(path);
    ck_assert(truncate(path, 0) != 0 && symlink("/dev/zero", path) == 0);
    expect_refusal(folder, graph, "cannot read it: it is no file");
    unlink(path);
    folder_remove(folder);
    graph_free(graph);
}
END_TEST

START_TEST(masks_are_no_weights)
{
    ck_assert(hf_is_buffer("attn.bias") && hf_is_buffer("h.0.attn.bias") && hf_is_buffer("h.0.attn.attention.bias"));
    ck_assert(!hf_is_buffer("h.0.attn.c_attn.bias") && !hf_is_buffer("bias"));
}
END_TEST

/* A header may say that it is of any length: not even of a file that is as long more than 64 MiB are read. */
START_TEST(headers_have_a_cap)
{
    struct graph *graph = tiny_graph(examples[1].config);
    char folder[PATH_BYTES], path[LONG_BYTES];
    const uint64_t length = (64 << 20) + 1;
    folder_make(folder);
    file_put(folder, HF_FILE, &length, sizeof length);
    snprintf(path, sizeof path, "%s/%s", folder, HF_FILE);
    ck_assert_int_eq(truncate(path, (off_t)(length + 1000)), 0); /* takes no room */
    expect_refusal(folder, graph,
                   "expected a safetensors header of at most 67108864 bytes inside the file's 67109865, found");
    folder_remove(folder);
    graph_free(graph);
}
END_TEST

START_TEST(an_index_must_be_right)
{
    static const char *const wrong[][2] = {
        { "{}", "weight_map" },
        { "{\"weight_map\": {\"a\": \"../x.safetensors\"}}",
          "expected the name of a safetensors file beside the index" },
        { "{\"weight_map\": {\"a\": \"model.bin\"}}", "expected the name of a safetensors file beside the index" },
        { "{\"weight_map\": {}}", "expected an object with a file for each tensor" },
        { "{\"weight_map\": {\"a\": \"absent.safetensors\"}}", "cannot read it" },
        { "{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"one.safetensors\"}}", "tensor b is not in one.saf" },
        { "{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"two.safetensors\"}}", "tensor a is in " },
        { "{\"weight_map\": {\"c\": \"one.safetensors\"}}", "tensor a is in one.safetensors, the index says nothing" },
    };
    struct graph *graph = tiny_graph(examples[1].config);
    char folder[PATH_BYTES];
    const char *one = "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}";
    folder_make(folder);
    put_header(folder, "one.safetensors", one, 8);
    put_header(folder, "two.safetensors", one, 8);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        file_put(folder, HF_INDEX, wrong[i][0], strlen(wrong[i][0]));
        expect_refusal(folder, graph, wrong[i][1]);
    }
    folder_remove(folder);
    graph_free(graph);
}
END_TEST

/* A head's own table in the file of a model that has one table: the same bytes, or none of both is meant. */
START_TEST(twins_are_equal)
{
    const struct example *tied = &examples[3];
    struct graph *graph = tiny_graph(tied->config);
    struct hf_tensors *tensors = tensors_of(tied, graph);
    struct hf_folder *folder = NULL;
    struct error err = { 0 };
    char in[PATH_BYTES], out[PATH_BYTES];
    folder_make(in), folder_make(out);
    put_tensors(in, HF_FILE, tensors, 0, tensors->count, TENSOR_BF16, false, true);
    ck_assert_msg(hf_folder_open(&folder, in, hf_tensor_names_of("qwen3"), graph, &err), "%s", err.message);
    run_none(graph, tiny_plan(graph, &choices[3]), folder, out, in, false);
    same_files(in, out, HF_FILE);
    hf_folder_free(folder);
    size_t length;
    char *bytes = file_get(in, HF_FILE, &length);
    bytes[length - 1] ^= 1; /* of the head's table, which comes last */
    file_put(in, HF_FILE, bytes, length);
    free(bytes);
    ck_assert(!hf_folder_open(&folder, in, hf_tensor_names_of("qwen3"), graph, &err));
    ck_assert_msg(strstr(err.message, "tensor lm_head.weight differs from model.embed_tokens.weight") != NULL, "%s",
                  err.message);
    hf_tensors_free(tensors);
    graph_free(graph);
    folder_remove(in), folder_remove(out);
}
END_TEST

START_TEST(nothing_is_replaced_unasked)
{
    struct graph *graph = tiny_graph(examples[1].config);
    struct hf_folder *blank = NULL;
    struct error err = { 0 };
    char out[PATH_BYTES];
    folder_make(out);
    ck_assert(hf_folder_blank(&blank, hf_tensor_names_of("llama"), graph, TENSOR_F32, &err));
    struct hf_export export = { .like = blank, .folder = out, .config = "config.json", .beside = out };
    ck_assert(hf_output_check(&export, &err));
    file_put(out, "config.json", "{}", 2);
    ck_assert(!hf_output_check(&export, &err));
    ck_assert_msg(strstr(err.message, "config.json is there already: give an empty folder, or --overwrite-hf") != NULL,
                  "%s", err.message);
    export.overwrite = true;
    err = (struct error){ 0 };
    ck_assert(hf_output_check(&export, &err));
    file_put(out, "model-00001-of-00009.safetensors", "x", 1); /* would be read beside these, or in their place */
    ck_assert(!hf_output_check(&export, &err));
    ck_assert_msg(strstr(err.message, "other weights than those to be written") != NULL, "%s", err.message);
    /* What is given up leaves nothing behind. */
    struct hf_output *output = NULL;
    err = (struct error){ 0 };
    ck_assert_msg(hf_output_open(&output, &export, &err), "%s", err.message);
    ck_assert_int_eq(folder_count(out), 3);
    hf_output_free(output);
    ck_assert_int_eq(folder_count(out), 2);
    hf_folder_free(blank);
    graph_free(graph);
    folder_remove(out);
}
END_TEST

START_TEST(unknown_families_have_no_names)
{
    ck_assert_ptr_null(hf_tensor_names_of("gemma2"));
    ck_assert_ptr_null(hf_tensor_names_of(""));
    ck_assert_ptr_null(hf_tensor_names_of("mistral qwen2"));
    ck_assert_ptr_nonnull(hf_tensor_names_of("mistral"));
    struct graph *graph = tiny_graph(examples[3].config); /* its norms of queries have no names in Phi-3 */
    struct hf_tensors *tensors = NULL;
    struct error err = { 0 };
    ck_assert(!hf_tensors_of(&tensors, hf_tensor_names_of("phi3"), true, graph, &err));
    ck_assert_str_eq(err.message, "no tensor that checkpoints of this family have is known to hold the weight "
                                  "1.attention.q_norm_gain of the plan's model");
    graph_free(graph);
    graph = tiny_graph(
        "{\"model_type\":\"llama\",\"hidden_size\":16,\"intermediate_size\":32,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"num_hidden_layers\":1,\"vocab_size\":32,\"max_position_embeddings\":8}");
    err = (struct error){ 0 }; /* heads of queries in turn with as many of keys and values are what GPT-NeoX has */
    ck_assert(!hf_tensors_of(&tensors, hf_tensor_names_of("gpt_neox"), true, graph, &err));
    ck_assert_msg(strstr(err.message, "is known to hold weights of unequal sizes as ") != NULL, "%s", err.message);
    /* rows that are wrong themselves */
    static const struct hf_tensor_row parts[] = { { "attention", "a", "h", "q=hnd none=hnd" }, { 0 } },
                                      letters[] = { { "attention", "a", "h*z", "q=hnd" }, { 0 } };
    const struct hf_tensor_names names[] = { { .prefix = "", .groups = { parts } },
                                             { .prefix = "", .groups = { letters } } };
    static const char *const messages[] = { "row a: expected weights of layer ",
                                            "row a: dim h*z is none of the weights'" };
    for (int i = 0; i < 2; i++) {
        err = (struct error){ 0 };
        ck_assert(!hf_tensors_of(&tensors, &names[i], true, graph, &err) && err.kind == ERROR_BUG);
        ck_assert_msg(strncmp(err.message, messages[i], strlen(messages[i])) == 0, "%s", err.message);
    }
    graph_free(graph);
}
END_TEST

static Suite *hf_weights_suite(void)
{
    Suite *suite = suite_create("hf_weights");
    CHECK_ADD_LOOP(suite, every_element_has_its_place, EXAMPLES);
    CHECK_ADD(suite, fused_matrices_are_told_apart);
    CHECK_ADD(suite, short_numbers_come_back);
    CHECK_ADD_LOOP(suite, no_steps_change_no_bit, EXAMPLES_RUN * CHOICES);
    CHECK_ADD(suite, wrong_files_are_refused);
    CHECK_ADD(suite, masks_are_no_weights);
    CHECK_ADD(suite, headers_have_a_cap);
    CHECK_ADD(suite, an_index_must_be_right);
    CHECK_ADD(suite, twins_are_equal);
    CHECK_ADD(suite, nothing_is_replaced_unasked);
    CHECK_ADD(suite, unknown_families_have_no_names);
    return suite;
}
CHECK_MAIN(hf_weights_suite)
