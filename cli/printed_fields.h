/* Fields of what verbs print with --json and nobody reads again: their keys, types and meaning. */
#ifndef CLEAVE_CLI_PRINTED_FIELDS_H
#define CLEAVE_CLI_PRINTED_FIELDS_H
#include "base/json.h"

#define PRINTED(type_, key_, doc_)                                                                                     \
    {                                                                                                                  \
        .key = (key_), .type = (type_), .doc = (doc_)                                                                  \
    }
#define TEXT(key, doc) PRINTED(FIELD_STRING, key, doc)
#define WHOLE(key, doc) PRINTED(FIELD_INT, key, doc)
#define NUMBER(key, doc) PRINTED(FIELD_DOUBLE, key, doc)
#define TRUTH(key, doc) PRINTED(FIELD_BOOL, key, doc)
#define NODE(key, doc) PRINTED(FIELD_NODE, key, doc)
#endif
