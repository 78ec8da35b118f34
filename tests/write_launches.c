/* Writes launches of a target into folders, for its own parser (tests/targets_accept.py): DIR/MODEL-NUMBER/FILE. */
#include "tests/random_launches.h"
#include "tests/model_files.h"
#include <stdio.h>
#include <sys/stat.h>

static bool write_files(const struct launch_files *files, const char *folder)
{
    mkdir(folder, 0777);
    for (int i = 0; i < files->count; i++) {
        char path[4096];
        int length = snprintf(path, sizeof path, "%s/%s", folder, files->list[i].name);
        FILE *file = length < (int)sizeof path ? fopen(path, "wb") : NULL;
        if (!file)
            return false;
        fwrite(files->list[i].text.data, 1, files->list[i].text.length, file);
        if (fclose(file) != 0)
            return false;
    }
    return true;
}

static int write_some(const struct target *target, const char *folder, const char *name, int count)
{
    struct model *model = model_of_name(name);
    struct graph *graph = graph_of(model, 1, 1024, 128);
    uint64_t state = 7;
    int written = 0;
    for (int round = 0; round < 4000 && written < count; round++) {
        struct arena arena = { 0 };
        struct launch_files files = { 0 };
        char path[4096];
        struct launch launch = random_launch(&state, &arena, model);
        launch.excepted &= graph_operators(graph);
        struct launch_context context = { .model = model,
                                          .graph = graph,
                                          .devices_per_node = 8,
                                          .device_count =
                                              (int)(launch.tensor * launch.context * launch.pipeline * launch.data),
                                          .device_name = "h100-sxm" };
        snprintf(path, sizeof path, "%s/%s-%d", folder, name, written);
        if (!target_broken_rule(target, &launch, &context) && target->write(&files, &launch, &context) &&
            write_files(&files, path))
            written++;
        launch_files_free(&files);
        arena_free(&arena);
    }
    graph_free(graph);
    model_free(model);
    return written;
}

int main(int argc, char **argv)
{
    const struct target *target = argc == 4 ? target_find(argv[1]) : NULL;
    static const char *const models[] = { "llama-3-8b", "llama-3-70b",      "llama-3-405b", "mixtral-8x7b",
                                          "gpt3-175b",  "deepseek-moe-16b", "further" };
    if (!target) {
        fprintf(stderr, "usage: write_launches TARGET DIR COUNT\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        printf("%s: %d\n", models[i], write_some(target, argv[2], models[i], atoi(argv[3])));
    return 0;
}
