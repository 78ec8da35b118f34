/* Where rank 0 listens, told by a file in a folder that all hosts share: for jobs where nobody says a host and a port.
 * The file is named by the job's token and sealed by it. What else ranks have to tell each other, as NCCL's id, goes
 * through the rendezvous that they then have. */
#ifndef CLEAVE_EXECUTOR_MEETING_FILE_H
#define CLEAVE_EXECUTOR_MEETING_FILE_H
#include "executor/rendezvous.h"
#include <stdint.h>

enum { MEETING_FILE_BYTES = 308 };
struct meeting_place {
    char host[SOCKET_HOST_BYTES];
    int32_t port, rank_count;
};
void meeting_file_make(unsigned char out[MEETING_FILE_BYTES], const struct meeting_place *place, const char *token);
/* Refuses any other length, what is no such file, and what was not made with this token. */
bool meeting_file_read(struct meeting_place *out, const void *bytes, size_t length, const char *token,
                       struct error *err);
/* The file of a job in the folder. False: the name is too long. */
bool meeting_file_path(char out[MEETING_PATH_BYTES], const char *folder, const char *token, struct error *err);

/**
 * Fills host and port of a meeting whose other fields stand. Rank 0: begins to listen at meeting->host (empty: at its
 * address in the first network that it is in), on any free port, and writes the file, which goes when its rendezvous is
 * closed; meeting->listener is the caller's. The others: wait, at most the meeting's timeout, for a file that leads to
 * somebody who listens; one that an earlier run left behind does not.
 */
bool meeting_file_find(struct meeting *meeting, const char *folder, struct error *err);
#endif
