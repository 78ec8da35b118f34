/* Every mesh dp x tp x pp of 1 to 8 ranks, with the same choices in all layers, computes what one rank computes.
 * GPT-like and Llama-like models are made for each mesh, so that none is refused and tensor ranks share heads,
 * columns, vocabulary and tokens evenly: of these ZeRO stages x recomputation x schedules x one or several
 * micro-batches run in full (in fp32 a seventh), with tied and untied tables in turn. The other tiny models are what
 * they are, and run some of them. CLEAVE_ORACLE_SAMPLE: every how many of all plans one is run (1). */
#include "tests/oracle_reference.h"
#include "base/num.h"
#include "planner/program/schedule.h"

struct mesh {
    int dp, tp, pp;
};
enum { MESHES = 38 }; /* ordered factorisations into three of 1 to 8: 1 + 3 + 3 + 6 + 3 + 9 + 3 + 10 */
enum { ALL_ZERO = 4, KEPT = ALL_ZERO * RECOMPUTE_COUNT, COMBINATIONS = 3 * KEPT };

static int list_meshes(struct mesh meshes[MESHES])
{
    int count = 0;
    for (int dp = 1; dp <= MAX_RANKS; dp++)
        for (int tp = 1; dp * tp <= MAX_RANKS; tp++)
            for (int pp = 1; dp * tp * pp <= MAX_RANKS; pp++) {
                ck_assert_int_lt(count, MESHES);
                meshes[count++] = (struct mesh){ dp, tp, pp };
            }
    return count;
}

/* So many that the pipeline has a steady phase. */
static int most_micros(const struct mesh *mesh)
{
    return mesh->pp > 2 ? 2 * mesh->pp : 4;
}

/* ---- models for a mesh ---- */
enum { SHAPED_MODELS = TINY_CHAINS, HEAD_DIM = 4, MODEL_ROOM = 2048 };

/* As many heads as tensor ranks, or more, and two of them to a key head, for which as many ranks ask then. Layers for
 * up to 8 stages. */
static void write_model(char text[MODEL_ROOM], int model, const struct mesh *mesh)
{
    int heads = mesh->tp == 3  ? 6
                : mesh->tp < 4 ? 4
                               : mesh->tp,
        kv_heads = heads % 2 ? 1 : heads / 2, hidden = heads * HEAD_DIM,
        sequence = TINY_SEQUENCE % mesh->tp ? 2 * mesh->tp : TINY_SEQUENCE, blocks = mesh->pp > 4 ? 3 : 2;
    const char *tied = model % 2 ? "true" : "false";
    int length = model < 2
                     ? snprintf(text, MODEL_ROOM, TINY_GPT_OF("gpt", "%d", "%d", "%s", "%d", "%d", "%d", "%d"),
                                sequence, hidden, tied, sequence, blocks, heads, 2 * hidden)
                     : snprintf(text, MODEL_ROOM, TINY_LLAMA_OF("llama", "%d", "%d", "%s", "%d", "%d", "%d", "%d"),
                                sequence, hidden, tied, blocks, heads, kv_heads, 2 * hidden);
    ck_assert_int_lt(length, MODEL_ROOM);
}

/* What the model is read from. */
static const char *model_for(char text[MODEL_ROOM], int model, const struct mesh *mesh)
{
    if (model >= SHAPED_MODELS)
        return tiny_models[model];
    write_model(text, model, mesh);
    return text;
}

static int batch_for(const struct mesh *mesh)
{
    return mesh->dp * most_micros(mesh);
}

static int vocab_multiple_for(int model, const struct mesh *mesh)
{
    return model >= SHAPED_MODELS ? TINY_VOCAB_MULTIPLE : 4 * mesh->tp;
}

/* ---- plans ---- */
/* What takes turns. */
static uint64_t turn_of(const struct mesh *mesh, int n)
{
    return mix64((uint64_t)(((mesh->dp * 9 + mesh->tp) * 9 + mesh->pp) * COMBINATIONS + n));
}

/* One micro-batch, which all schedules treat alike, or several with either schedule. */
static struct tiny_choice combination(const struct mesh *mesh, int tp_dim, int n)
{
    uint64_t turn = turn_of(mesh, n);
    const bool several = n >= KEPT;
    const int micros[] = { 1, most_micros(mesh), 2 }, buckets[] = { 0, 1 << 10, 1 << 20 };
    return (struct tiny_choice){ .dp = mesh->dp,
                                 .tp = mesh->tp,
                                 .pp = mesh->pp,
                                 .tp_dim = tp_dim,
                                 .zero = n % ALL_ZERO,
                                 .recompute = n / ALL_ZERO % RECOMPUTE_COUNT,
                                 .schedule = several ? n / KEPT - 1 : (int)(turn % 2),
                                 .micro = micros[several ? 1 + turn % 3 / 2 : 0],
                                 .bucket = buckets[turn / 3 % 3],
                                 .prefetch = (int)(turn / 9 % 3),
                                 .reshard = (int)(turn / 72 % RESHARD_COUNT),
                                 .clip = 1 };
}

/* Where nothing shards, ZeRO stages are one. Of the dimensions beside plain tensor parallelism some plans run, and of
 * models that are not made for the mesh. */
static bool is_listed(int model, const struct mesh *mesh, int tp_dim, int n)
{
    bool shards = mesh->dp > 1 || dimensions[tp_dim]->shard, made = model < SHAPED_MODELS;
    if ((mesh->tp == 1 && tp_dim != DIM_tp) || (!shards && n % ALL_ZERO != 0))
        return false;
    if (made && tp_dim == DIM_tp && whole_lists())
        return true;
    if (made && (turn_of(mesh, n) / 36 + (uint64_t)tp_dim) % 2 != (uint64_t)model % 2)
        return false;
    int stride = (made && tp_dim == DIM_tp ? 1 : made ? 11 : 29) * (PRECISE ? 1 : 7);
    return (n + 5 * tp_dim + mesh->dp + mesh->pp + model) % stride == 0;
}

static void check_mesh(int model, const struct mesh *mesh)
{
    char text[MODEL_ROOM];
    const char *json = model_for(text, model, mesh);
    int batch = batch_for(mesh), multiple = vocab_multiple_for(model, mesh);
    struct graph *graph = tiny_graph_padded(json, batch, multiple);
    struct reference r = { 0 };
    bool fits = graph->layer_count >= mesh->pp;
    ck_assert(fits || model >= SHAPED_MODELS);
    for (int k = 0; fits && k < (DIM_COUNT - DIM_tp) * COMBINATIONS; k++) {
        int tp_dim = DIM_tp + k / COMBINATIONS, n = k % COMBINATIONS;
        struct tiny_choice c = combination(mesh, tp_dim, n);
        if (!is_listed(model, mesh, tp_dim, n) || !is_sampled(graph))
            continue;
        if (!r.graph)
            r = make_reference_of(json, 1, batch, multiple);
        must_agree_choice(&r, &c);
    }
    graph_free(graph);
    if (r.graph)
        free_reference(&r);
}

START_TEST(outer_configurations_agree)
{
    struct mesh meshes[MESHES];
    ck_assert_int_eq(list_meshes(meshes), MESHES);
    for (int m = 0; m < MESHES; m++)
        check_mesh(_i, &meshes[m]);
}
END_TEST

/* ---- of a model that is made for a mesh each layer is shared by the tensor ranks ---- */
static bool is_shared(const struct program *program, int layer)
{
    bool shared = false;
    for (int s = 0; s < program->graph->segment_count; s++)
        shared = shared || (program->graph->segments[s].layer == layer && program->assignments[s].axis[1] >= 0);
    return shared;
}

START_TEST(tensor_ranks_share_each_layer)
{
    struct mesh meshes[MESHES];
    list_meshes(meshes);
    for (int k = 0; k < MESHES * (DIM_COUNT - DIM_tp); k++) {
        const struct mesh *mesh = &meshes[k % MESHES];
        char text[MODEL_ROOM];
        struct error error = { 0 };
        if (mesh->tp == 1)
            continue;
        struct graph *graph =
            tiny_graph_padded(model_for(text, _i, mesh), batch_for(mesh), vocab_multiple_for(_i, mesh));
        struct tiny_choice c = combination(mesh, DIM_tp + k / MESHES, 0);
        struct plan *plan = tiny_plan(graph, &c);
        struct program *program = tiny_lower(graph, plan, &error);
        ck_assert_msg(program != NULL, "%s", error.message);
        for (int l = 0; l < graph->layer_count; l++)
            ck_assert_msg(is_shared(program, l), "%s, %d tensor ranks, %s: layer %s is not shared", graph->model_name,
                          mesh->tp, dimensions[c.tp_dim]->name, graph->layers[l].name);
        program_free(program);
        plan_free(plan);
        graph_free(graph);
    }
}
END_TEST

static Suite *oracle_meshes_suite(void)
{
    Suite *suite = suite_create("oracle: meshes");
    add_for_models(suite, "outer_configurations_agree", outer_configurations_agree);
    CHECK_ADD_LOOP(suite, tensor_ranks_share_each_layer, SHAPED_MODELS);
    return suite;
}

int main(void)
{
    return oracle_main(oracle_meshes_suite());
}
