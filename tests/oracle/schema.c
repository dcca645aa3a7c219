/*
 * Judge of documents by an XML schema, which is the one argument.
 *
 * It is fed over a pipe with documents, each after its length in 32 bits, most significant byte first, and answers
 * each with one byte: 0 malformed, 1 invalid, 2 valid.
 */
#include <libxml/parser.h>
#include <libxml/xmlschemas.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void silent(void *context, const char *message, ...)
{
    (void)context;
    (void)message;
}

int main(int count, char **arguments)
{
    xmlSchemaParserCtxtPtr parser;
    xmlSchemaPtr schema;
    unsigned char head[4];
    if (count != 2)
        return 2;
    parser = xmlSchemaNewParserCtxt(arguments[1]);
    schema = parser == NULL ? NULL : xmlSchemaParse(parser);
    if (schema == NULL)
        return 3;
    while (fread(head, 1, 4, stdin) == 4) {
        uint32_t length = (uint32_t)head[0] << 24 | (uint32_t)head[1] << 16 | (uint32_t)head[2] << 8 | head[3];
        char *bytes = malloc((size_t)length + 1);
        xmlDocPtr document;
        int verdict = 0;
        if (bytes == NULL || fread(bytes, 1, length, stdin) != length)
            return 2;
        document = xmlReadMemory(bytes, (int)length, NULL, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR);
        if (document != NULL) {
            xmlSchemaValidCtxtPtr context = xmlSchemaNewValidCtxt(schema);
            xmlSchemaSetValidErrors(context, silent, silent, NULL);
            verdict = xmlSchemaValidateDoc(context, document) == 0 ? 2 : 1;
            xmlSchemaFreeValidCtxt(context);
            xmlFreeDoc(document);
        }
        putchar(verdict);
        fflush(stdout);
        free(bytes);
    }
    return 0;
}
