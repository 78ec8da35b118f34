#include "host/xml.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_EXPAT
#include <expat.h>

struct reading {
    XML_Parser parser;
    const struct xml_handler *handler;
    const char *name;
    struct error *err;
    bool failed;
};

/* Expat ends an empty element even after it was stopped: nothing is handed on from here. */
static void stop(struct reading *r)
{
    r->failed = true;
    XML_StopParser(r->parser, XML_FALSE);
}

static void XMLCALL on_begin(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *r = data;
    struct xml_element element = { name, attributes, (int)XML_GetCurrentLineNumber(r->parser) };
    if (!r->failed && !r->handler->begin(r->handler->self, &element, r->err))
        stop(r);
}

static void XMLCALL on_end(void *data, const XML_Char *name)
{
    struct reading *r = data;
    (void)name;
    if (!r->failed && !r->handler->end(r->handler->self, r->err))
        stop(r);
}

static void XMLCALL on_text(void *data, const XML_Char *piece, int length)
{
    struct reading *r = data;
    if (!r->failed && !r->handler->text(r->handler->self, piece, (size_t)length, r->err))
        stop(r);
}

static void XMLCALL on_document_type(void *data, const XML_Char *name, const XML_Char *system, const XML_Char *public,
                                     int internal)
{
    struct reading *r = data;
    const char *known = r->handler->document_type;
    (void)system, (void)public;
    if (known && strcmp(name, known) == 0 && !internal)
        return;
    fail(r->err, "%s:%d: expected no document type%s%s%s, found <!DOCTYPE %s>%s", r->name,
         (int)XML_GetCurrentLineNumber(r->parser), known ? " but " : "", known ? known : "",
         known ? " without declarations" : "", name, internal ? " with declarations" : "");
    stop(r);
}

static bool parse(struct reading *r, const char *text, size_t length)
{
    if (length > INT_MAX)
        return fail(r->err, "%s: expected at most %d bytes, found %zu", r->name, INT_MAX, length);
    if (XML_Parse(r->parser, text, (int)length, XML_TRUE) == XML_STATUS_OK || r->failed)
        return !r->failed;
    if (XML_GetErrorCode(r->parser) == XML_ERROR_NO_MEMORY)
        return fail_kind(r->err, ERROR_ENVIRONMENT, "%s: out of memory", r->name);
    return fail(r->err, "%s:%d: expected XML, found an error: %s", r->name, (int)XML_GetCurrentLineNumber(r->parser),
                XML_ErrorString(XML_GetErrorCode(r->parser)));
}

bool xml_read(const struct xml_handler *handler, const char *name, const char *text, size_t length, struct error *err)
{
    struct reading r = { .parser = XML_ParserCreate(NULL), .handler = handler, .name = name, .err = err };
    if (!r.parser)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_begin, on_end);
    if (handler->text)
        XML_SetCharacterDataHandler(r.parser, on_text);
    XML_SetStartDoctypeDeclHandler(r.parser, on_document_type);
    bool ok = parse(&r, text, length);
    XML_ParserFree(r.parser);
    return ok;
}
#else
bool xml_read(const struct xml_handler *handler, const char *name, const char *text, size_t length, struct error *err)
{
    (void)handler, (void)text, (void)length;
    return fail_kind(err, ERROR_ENVIRONMENT,
                     "%s: this build reads no XML: install libexpat1-dev, run `meson setup --reconfigure build` and "
                     "build again",
                     name);
}
#endif

const char *xml_attribute(const struct xml_element *element, const char *name)
{
    for (const char *const *at = element->attributes; *at; at += 2)
        if (strcmp(at[0], name) == 0)
            return at[1];
    return NULL;
}

const char *xml_value(const struct xml_element *element, const char *name)
{
    const char *value = xml_attribute(element, name);
    return value ? value : "";
}

bool xml_fail(const char *file, const struct xml_element *element, const char *name, const char *expected,
              struct error *err)
{
    const char *value = xml_attribute(element, name);
    return fail(err, "%s:%d: <%s %s>: expected %s, found %s%s%s", file, element->line, element->name, name, expected,
                value ? "\"" : "none", value ? value : "", value ? "\"" : "");
}

bool xml_integer(int64_t *out, const char *file, const struct xml_element *element, const char *name, int64_t most,
                 struct error *err)
{
    const char *value = xml_value(element, name);
    char *end, expected[64];
    long long number = strtoll(value, &end, 10);
    *out = number;
    if (end > value && !*end && number >= 0 && number <= most)
        return true;
    snprintf(expected, sizeof expected, "an integer of 0 to %lld", (long long)most);
    return xml_fail(file, element, name, expected, err);
}
