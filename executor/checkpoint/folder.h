/* The folder that a run saves in. Each save is a folder of its own in it, "step-40.save-7", whose number no earlier one
 * had; it bears a longer name until it is whole and on the disk. The folder has one owner at a time: the process of
 * rank 0 holds a lock on it, which the system takes back when the process ends, however that is. */
#ifndef CLEAVE_EXECUTOR_CHECKPOINT_FOLDER_H
#define CLEAVE_EXECUTOR_CHECKPOINT_FOLDER_H
#include "executor/checkpoint/manifest.h"
#include "executor/run_options.h"
#include "planner/program/program.h"

struct checkpoint_folder;
/**
 * Makes this process the owner of options->checkpoint_dir, which is made if it is absent, and clears what killed runs
 * had not finished. Refused, with what to type: another owner; links; saves, unless the run goes on from the newest
 * of them or overwrites.
 */
bool checkpoint_folder_open(struct checkpoint_folder **out, const struct program *program,
                            const struct run_options *options, struct error *err);
/* Removes the folder that a run has made which does not go on, where it is empty and no other run owns it. */
void checkpoint_folder_forget(const char *path);
/* Clears a save that is not whole, and is the owner no longer. Accepts NULL. */
void checkpoint_folder_close(struct checkpoint_folder *folder);

/* Makes the folder of the next save, under its longer name, and says its number. */
bool checkpoint_folder_begin(struct checkpoint_folder *folder, int64_t step, int64_t *save, struct error *err);
/* All ranks' files are on the disk: writes the manifest, brings it to the disk, gives the save its name, and then
 * removes older ones that nobody asked to keep. */
bool checkpoint_folder_commit(struct checkpoint_folder *folder, const struct checkpoint_label *label, const char *model,
                              const struct file_record *records, struct error *err);

/* For any rank: the open folder of a save that is being written, by the path of the folder above it; below 0: failed.
 */
int checkpoint_save_open(const char *dir, int64_t step, int64_t save, struct error *err);
/* A new file in it; below 0: failed. Whatever bears the name already, a link above all, is an error. */
int checkpoint_file_create(int folder, const char *name, struct error *err);

/* Whether there is nothing in dir that one could go on from: no whole save, or no such folder. */
bool checkpoint_is_empty(const char *dir);
/* The name of the newest whole save in dir, or "" where dir is a checkpoint itself; it fails where there is none. */
bool checkpoint_newest(const char *dir, char name[CHECKPOINT_NAME_BYTES], struct error *err);
/* The path of a checkpoint by both. */
bool checkpoint_path(char out[CHECKPOINT_PATH_BYTES], const char *dir, const char *name, struct error *err);
/* A failed call of the system, by errno. */
bool checkpoint_io_fail(struct error *err, const char *what, const char *path);
#endif
