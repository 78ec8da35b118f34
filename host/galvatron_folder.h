/* Galvatron's files, found by the beginnings of their names. */
#ifndef CLEAVE_HOST_GALVATRON_FOLDER_H
#define CLEAVE_HOST_GALVATRON_FOLDER_H
#include "peers/galvatron.h"

/* Each file of the profile from one of the folders: the model's and the machine's lie apart in its repository. Fails
 * when one is missing or there are two. Texts and names live in the arena. */
bool galvatron_folder_read(struct galvatron_text out[GALVATRON_FILES], const char *const *folders, int folder_count,
                           struct arena *arena, struct error *err);
#endif
