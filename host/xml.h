/* XML, read by Expat where the build has it: elements with their attributes, and the text in them where one asks. */
#ifndef CLEAVE_HOST_XML_H
#define CLEAVE_HOST_XML_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lives as long as the call that is given it. */
struct xml_element {
    const char *name;
    const char *const *attributes; /* name, value, name, value, ..., NULL */
    int line;                      /* where it begins, from 1 */
};
/* NULL: it has no such attribute. */
const char *xml_attribute(const struct xml_element *element, const char *name);
/* "": it has none. */
const char *xml_value(const struct xml_element *element, const char *name);
/* Fails: what the attribute should be and is, and where. file: its name. */
bool xml_fail(const char *file, const struct xml_element *element, const char *name, const char *expected,
              struct error *err);
/* A whole number from 0 to `most`; without the attribute it fails. */
bool xml_integer(int64_t *out, const char *file, const struct xml_element *element, const char *name, int64_t most,
                 struct error *err);

/* What becomes of the elements, outer before inner ones; every begin() that succeeded has its end(). */
struct xml_handler {
    void *self;
    bool (*begin)(void *self, const struct xml_element *element, struct error *err);
    bool (*end)(void *self, struct error *err);
    /* A piece of the text directly in the element that is open, in order; NULL: no text is asked for. */
    bool (*text)(void *self, const char *piece, size_t length, struct error *err);
    const char *document_type; /* may be named, in another file, which nobody reads; NULL: none may */
};
/* Fails where the text is not XML, has a document type other than that or one with declarations (whose entities could
 * grow without bound), or the handler failed; and where the build has no Expat. name: of the file, for messages. */
bool xml_read(const struct xml_handler *handler, const char *name, const char *text, size_t length, struct error *err);
#endif
