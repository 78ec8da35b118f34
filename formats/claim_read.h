/* What a plan file's certificate says, read strictly. */
#ifndef CLEAVE_FORMATS_CLAIM_READ_H
#define CLEAVE_FORMATS_CLAIM_READ_H
#include "base/json.h"
#include "planner/check/claim.h"

/* space: what the plan fixes; its restrictions are replaced by the certificate's. Borrows from the document. Frees
 * nothing on failure: claim_free() does. */
bool claim_read(struct claim *out, const struct json *certificate, const struct space *space, struct error *err);
void claim_free(struct claim *claim);
/* The field table of the certificate, for `cleave schema`. */
extern const struct json_format claim_formats[];
#endif
