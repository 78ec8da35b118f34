/* Plans with libcleave: cc plan.c -o plan $(pkg-config --cflags --libs cleave)
 *
 *     ./plan config.json "$(pkg-config --variable=cleavedata cleave)/planner/facts/devices/h100-sxm.json" 1x8:h100-sxm
 * 64
 *
 * MODEL is a native model or a Hugging Face config.json, DEVICE the file of the type that CLUSTER names. The plan goes
 * to standard output; its exit status is the program's: 2 bad input, 3 nothing fits. */
#include <cleave.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        rewind(file);
        text = size >= 0 ? malloc((size_t)size + 1) : NULL;
        *length = text ? fread(text, 1, (size_t)size, file) : 0;
    }
    if (file)
        fclose(file);
    if (!text)
        perror(path);
    return text;
}

/* "dir/h100-sxm.json" is the device h100-sxm. */
static void name_of(char name[64], const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(name, 64, "%s", slash ? slash + 1 : path);
    char *end = strstr(name, ".json");
    if (end)
        *end = 0;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s MODEL DEVICE CLUSTER BATCH\n", argv[0]);
        return 2;
    }
    char name[64];
    struct cleave_device device = { .name = name };
    struct cleave_request request = {
        .model_name = argv[1], .cluster = argv[3], .devices = &device, .device_count = 1, .batch = atoll(argv[4])
    };
    struct cleave_answer answer;
    char *model = read_file(argv[1], &request.model_length), *catalogue = read_file(argv[2], &device.length);
    name_of(name, argv[2]);
    request.model = model;
    device.json = catalogue;
    int code = 1;
    if (model && catalogue) {
        code = cleave_plan(&request, &answer);
        if (code == 0) {
            fprintf(stderr, "cleave %s: a step of %.3g s\n", cleave_version(), answer.step_s);
            fwrite(answer.plan, 1, answer.plan_length, stdout);
        } else {
            fprintf(stderr, "error: %s\n", answer.message);
        }
        cleave_answer_free(&answer);
    }
    free(model);
    free(catalogue);
    return code;
}
