#include <zlib.h>

int packed(const char *text, unsigned long n)
{
	unsigned char out[256];
	unsigned long size = sizeof out;
	return compress(out, &size, (const unsigned char *)text, n) == Z_OK ? (int)size : -1;
}
