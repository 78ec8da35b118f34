/* NVIDIA's library as the module opens it. Without a GPU: it loads, has all that is asked of it, makes ids, and says
 * why a communicator cannot be. With one: a world of one rank, split, with every collective. Exit code 77: no library.
 */
#include "check.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/nccl.h"
#include "tests/gpu_module.h"
#include <time.h>

enum { COUNT = 100 };

static bool open_nccl(struct nccl *out, const struct gpu *gpu, struct error *err)
{
    void *module = dlopen(gpu_module_path(), RTLD_NOW | RTLD_LOCAL),
         *symbol = module ? dlsym(module, NCCL_MODULE_SYMBOL) : NULL;
    nccl_module_open *open;
    if (!symbol)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s", dlerror());
    memcpy(&open, &symbol, sizeof open);
    return open(out, gpu, 1, 0, err);
}

static bool open_gpu(struct gpu *out)
{
    struct error error = { 0 };
    void *module = dlopen(gpu_module_path(), RTLD_NOW | RTLD_LOCAL), *symbol = dlsym(module, GPU_MODULE_SYMBOL);
    gpu_module_open *open;
    memcpy(&open, &symbol, sizeof open);
    return open(out, GPU_MODULE_VERSION, 0, &error);
}

static enum comm_state settle(const struct nccl *nccl, void *comm, struct error *err)
{
    enum comm_state state;
    const struct timespec nap = { 0, 1000000 };
    while ((state = nccl->state(nccl->self, comm, err)) == COMM_BUSY)
        nanosleep(&nap, NULL);
    return state;
}

START_TEST(ids_differ)
{
    struct nccl nccl;
    struct error error = { 0 };
    unsigned char a[COMM_ID_BYTES], b[COMM_ID_BYTES];
    ck_assert_msg(open_nccl(&nccl, NULL, &error), "%s", error.message);
    ck_assert_msg(strncmp(nccl.name, "NCCL 2.", 7) == 0, "%s", nccl.name);
    ck_assert_msg(nccl.make_id(nccl.self, a, &error) && nccl.make_id(nccl.self, b, &error), "%s", error.message);
    ck_assert_int_ne(memcmp(a, b, sizeof a), 0);
    nccl.close(nccl.self);
}
END_TEST

/* Of one rank every collective is a copy. */
static void call_all(const struct nccl *nccl, const struct gpu *gpu, void *comm)
{
    struct error error = { 0 };
    float host[COUNT], back[COUNT];
    void *stream = gpu->open_stream(gpu->self, false, &error), *from = gpu->allocate(gpu->self, sizeof host, &error),
         *to = gpu->allocate(gpu->self, sizeof host, &error);
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    for (enum comm_kind kind = COMM_ALL_REDUCE; kind < COMM_SEND; kind++) {
        struct comm_call call = { .kind = kind, .type = COMM_REAL, .from = from, .to = to, .count = COUNT };
        ck_assert(gpu->copy(gpu->self, stream, from, host, sizeof host, &error) &&
                  gpu->fill(gpu->self, stream, to, 0xff, sizeof host, &error));
        ck_assert_msg(nccl->begin(nccl->self, &error) && nccl->call(nccl->self, comm, stream, &call, &error) &&
                          nccl->end(nccl->self, &error) && settle(nccl, comm, &error) == COMM_READY,
                      "%s", error.message);
        ck_assert(gpu->copy(gpu->self, stream, back, to, sizeof back, &error) &&
                  gpu->finish(gpu->self, stream, &error));
        for (int i = 0; i < COUNT; i++)
            ck_assert(back[i] == host[i]);
    }
    gpu->release(gpu->self, from);
    gpu->release(gpu->self, to);
    gpu->close_stream(gpu->self, stream);
}

START_TEST(a_world_of_one)
{
    struct gpu gpu;
    struct nccl nccl;
    struct error error = { 0 };
    unsigned char id[COMM_ID_BYTES];
    void *half = NULL;
    bool has_gpu = open_gpu(&gpu);
    ck_assert_msg(open_nccl(&nccl, has_gpu ? &gpu : NULL, &error), "%s", error.message);
    ck_assert(nccl.make_id(nccl.self, id, &error));
    void *world = nccl.join(nccl.self, id, 0, 1, &error);
    if (!has_gpu) {
        ck_assert(!world || settle(&nccl, world, &error) == COMM_FAILED);
        ck_assert_msg(strstr(error.message, "NCCL 2.") || strstr(error.message, "CUDA"), "%s", error.message);
        return;
    }
    ck_assert_msg(world && settle(&nccl, world, &error) == COMM_READY, "%s", error.message);
    ck_assert_msg(nccl.split(nccl.self, world, 0, 0, &half, &error) && settle(&nccl, world, &error) == COMM_READY &&
                      half && settle(&nccl, half, &error) == COMM_READY,
                  "%s", error.message);
    call_all(&nccl, &gpu, half);
    nccl.leave(nccl.self, half);
    nccl.abort(nccl.self, &world, 1, NULL, NULL);
    nccl.close(nccl.self);
    gpu.close(gpu.self);
}
END_TEST

static Suite *cuda_nccl_suite(void)
{
    struct error error = { 0 };
    struct nccl nccl;
    if (!open_nccl(&nccl, NULL, &error)) {
        printf("skipped: %s\n", error.message);
        exit(77);
    }
    nccl.close(nccl.self);
    Suite *suite = suite_create("cuda_nccl");
    CHECK_ADD(suite, ids_differ);
    CHECK_ADD(suite, a_world_of_one);
    return suite;
}

CHECK_MAIN(cuda_nccl_suite)
