/* Whole files: read at once, written whole or not at all. */
#ifndef CLEAVE_HOST_FILE_H
#define CLEAVE_HOST_FILE_H
#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

/* No input of ours is larger; a directory of logs given by mistake fails early. */
#define FILE_MAX_BYTES (INT64_C(1) << 33)
/* A pipe or a device does not say how long it is, and some never end. */
#define FILE_MAX_STREAM_BYTES (INT64_C(1) << 26)
/* What describes something (a model, a plan, a profile, a log) has a few MB, and the index of 140,000 tensors 13: who
 * reads it takes no more than this, so that what is refused only then takes less than a second and 100 MB. */
#define FILE_MAX_TEXT_BYTES (INT64_C(1) << 25)
/* So long a named pipe or a device may be silent that is no terminal: refusing it takes less than a second. */
enum { FILE_SILENCE_MS = 800 };

/* All bytes of the file, or of standard input for "-", and a zero byte behind them that length does not count. The
 * caller frees *data with free(). Fails with what the system says and what to do; directories and files above
 * FILE_MAX_BYTES are refused, pipes and devices above FILE_MAX_STREAM_BYTES, and a named pipe that nobody writes is
 * empty; one whose writer is silent for FILE_SILENCE_MS is refused. */
bool file_read(char **data, size_t *length, const char *path, struct error *err);
/* Reads the same with a limit of the caller's. */
bool file_read_limited(char **data, size_t *length, const char *path, int64_t max_bytes, struct error *err);
/**
 * Replaces the file by these bytes. They go to a new file in the same folder, which then takes the name in one step:
 * other processes see the old bytes or the new ones. On failure the old file stays as it was and nothing is left
 * behind. Nothing is written once memory_has_fallen_short(). Symbolic links are followed; devices and pipes are written
 * in place.
 */
bool file_write(const char *path, const void *data, size_t length, struct error *err);
/* A write beyond the limit on the size of files fails from here on as on a full disk, in this process and in those that
 * it starts; before, the system ends the process by SIGXFSZ. The program's first step. */
void file_ignore_size_signal(void);
/* Opens what of standard input, output and error is closed, so that nothing else gets its number; reading or writing it
 * fails as before. */
void file_open_standard(void);
/* What a user can do where writing failed with this errno, in brackets behind a space, or "". */
const char *file_write_hint(int error);
/* Tells whether file_write() could begin: asked before long work, whose result would be lost. Leaves nothing behind. */
bool file_check_writable(const char *path, struct error *err);
/* Asks the same for files in a folder, which is made if it is absent and then stays: *made says that it was. */
bool file_check_folder(const char *path, bool *made, struct error *err);
/* Whether both name the same file or folder; of one that is not there yet, in the same folder by the same name. */
bool file_same_place(const char *a, const char *b);
/* Removes a folder if nothing is in it. */
void file_remove_empty_folder(const char *path);
/* Removes it when a signal (Ctrl-C, a request to end, a terminal that closes) ends the program, which happens as
 * before. There is one such folder at a time; the path stays valid. */
void file_remove_empty_folder_at_signal(const char *path);
#endif
