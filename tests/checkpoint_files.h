/* Folders of checkpoints in tests: made, looked through, removed. */
#ifndef CLEAVE_TESTS_CHECKPOINT_FILES_H
#define CLEAVE_TESTS_CHECKPOINT_FILES_H
#include "tests/check.h"
#include "executor/checkpoint/folder.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 512, LONG_PATH_BYTES = 2 * PATH_BYTES };

/* In memory where that can be: a disk would make tests wait for it at every file. */
static inline void folder_make(char path[PATH_BYTES])
{
    const char *base = getenv("TMPDIR");
    base = base ? base : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, PATH_BYTES, "%s/cleave-checkpoint-XXXXXX", base);
    ck_assert_ptr_nonnull(mkdtemp(path));
}

/* Calls visit (may be NULL) for each entry; counts them. */
static inline int folder_each(const char *path, void (*visit)(const char *file))
{
    char file[LONG_PATH_BYTES];
    int count = 0;
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            count++;
            if (visit)
                visit(file);
        }
    closedir(dir);
    return count;
}

static inline void remove_any(const char *file)
{
    struct stat status;
    if (lstat(file, &status) == 0 && S_ISDIR(status.st_mode))
        folder_each(file, remove_any);
    remove(file);
}

/* The newest checkpoint in the folder. */
static inline void newest_save(const char *folder, char path[PATH_BYTES])
{
    char name[CHECKPOINT_NAME_BYTES];
    struct error error = { 0 };
    ck_assert_msg(checkpoint_newest(folder, name, &error), "%s", error.message);
    ck_assert_int_lt(snprintf(path, PATH_BYTES, "%s/%s", folder, name), PATH_BYTES);
}
#endif
