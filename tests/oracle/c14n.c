/*
 * Judge of canonical forms: parses documents with libxml2 and canonicalises them with xmlC14NExecute.
 *
 * It is fed over a pipe. All numbers are 32 bits, most significant byte first.
 * Request:  length, document; number of questions; per question: the number of an element in document order, or
 *           ffffffff for the whole document; number of listed prefixes; per prefix: length, prefix.
 * Answer:   one byte: 0 malformed, 1 well-formed, 2 also namespace-well-formed; when not 0, per question one byte,
 *           0 refused or 1 canonicalised, length, canonical form.
 */
#include <libxml/c14n.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_number(uint32_t *number)
{
    unsigned char bytes[4];
    if (fread(bytes, 1, 4, stdin) != 4)
        return 0;
    *number = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return 1;
}

static char *read_bytes(uint32_t *length)
{
    char *bytes;
    if (!read_number(length) || (bytes = malloc((size_t)*length + 1)) == NULL)
        exit(2);
    if (fread(bytes, 1, *length, stdin) != *length)
        exit(2);
    bytes[*length] = 0;
    return bytes;
}

static void write_number(uint32_t number)
{
    putchar(number >> 24 & 255);
    putchar(number >> 16 & 255);
    putchar(number >> 8 & 255);
    putchar(number & 255);
}

/* The node after this one in document order. */
static xmlNodePtr following(xmlNodePtr node)
{
    if (node->children != NULL)
        return node->children;
    while (node != NULL && node->next == NULL)
        node = node->parent;
    return node == NULL ? NULL : node->next;
}

static xmlNodePtr element_by_number(xmlDocPtr document, uint32_t number)
{
    xmlNodePtr node = xmlDocGetRootElement(document);
    while (node != NULL && (node->type != XML_ELEMENT_NODE || number-- > 0))
        node = following(node);
    return node;
}

/* A node is in the node set when it is the apex or below it; attributes and namespaces are where their parent is. */
static int is_visible(void *apex, xmlNodePtr node, xmlNodePtr parent)
{
    if (node->type == XML_NAMESPACE_DECL || node->type == XML_ATTRIBUTE_NODE)
        node = parent;
    while (node != NULL && node != (xmlNodePtr)apex)
        node = node->parent;
    return node != NULL;
}

static void canonicalise(xmlDocPtr document, uint32_t number, xmlChar **prefixes)
{
    int whole = number == UINT32_MAX;
    xmlNodePtr apex = whole ? NULL : element_by_number(document, number);
    xmlOutputBufferPtr buffer = xmlAllocOutputBuffer(NULL);
    int result = -1;
    if (whole || apex != NULL)
        result = xmlC14NExecute(document, whole ? NULL : is_visible, apex, XML_C14N_EXCLUSIVE_1_0, prefixes, 0, buffer);
    xmlOutputBufferFlush(buffer);
    putchar(result >= 0);
    if (result >= 0) {
        size_t length = xmlOutputBufferGetSize(buffer);
        write_number((uint32_t)length);
        fwrite(xmlOutputBufferGetContent(buffer), 1, length, stdout);
    } else {
        write_number(0);
    }
    xmlOutputBufferClose(buffer);
}

static void answer(xmlDocPtr document, uint32_t questions)
{
    while (questions-- > 0) {
        uint32_t number, count, length, i;
        xmlChar **prefixes;
        if (!read_number(&number) || !read_number(&count))
            exit(2);
        prefixes = calloc((size_t)count + 1, sizeof *prefixes);
        for (i = 0; i < count; i++)
            prefixes[i] = (xmlChar *)read_bytes(&length);
        if (document != NULL)
            canonicalise(document, number, count == 0 ? NULL : prefixes);
        for (i = 0; i < count; i++)
            free(prefixes[i]);
        free(prefixes);
    }
}

int main(void)
{
    static const int options = XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING;
    uint32_t length, questions;
    xmlInitParser();
    for (;;) {
        xmlParserCtxtPtr context;
        xmlDocPtr document;
        char *bytes;
        int first = getchar();
        if (first == EOF)
            return 0;
        ungetc(first, stdin);
        bytes = read_bytes(&length);
        if (!read_number(&questions))
            exit(2);
        context = xmlNewParserCtxt();
        document = xmlCtxtReadMemory(context, bytes, (int)length, NULL, NULL, options);
        putchar(document == NULL ? 0 : context->nsWellFormed ? 2 : 1);
        answer(document, questions);
        fflush(stdout);
        xmlFreeDoc(document);
        xmlFreeParserCtxt(context);
        free(bytes);
    }
}
