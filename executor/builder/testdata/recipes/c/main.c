#include <expat.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

int packed(const char *text, unsigned long n);

int main(void)
{
	sqlite3 *db;
	XML_Parser p = XML_ParserCreate(NULL);
	const char *text = "<order><item/></order>";
	if (sqlite3_open(":memory:", &db) != SQLITE_OK || !XML_Parse(p, text, strlen(text), 1) || packed(text, strlen(text)) < 0)
		return 1;
	puts("all is well");
	sqlite3_close(db);
	XML_ParserFree(p);
	return 0;
}
